//! One fact is one fact: ids, repeats, and handles that are behind.

use crate::place::{ENGINES, Place, append, block_on, close, create, marked, says};
use folio::{AppendBatch, ContributionBatch, Fact, FactOp, ForeignId, SessionId, Store};
use folio_store::{NOTES, ViewBatch};
use folio_testkit::event::Events;
use std::sync::Arc;

/// A fresh store of every kind, and the folder that it stands in.
pub fn fresh() -> Vec<(&'static str, Arc<dyn Store>, tempfile::TempDir)> {
    let mut stores = Vec::new();
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let store = (engine.open)(&folder.path().join("folio")).unwrap();
        stores.push((engine.name, store, folder));
    }
    let folder = tempfile::tempdir().unwrap();
    stores.push(("memory", folio_testkit::memory_store(), folder));
    stores
}

#[test]
fn ten_items_with_one_id_are_one_fact_or_a_conflict_by_name() {
    block_on(async {
        for (name, store, _folder) in fresh() {
            let id = create(&*store, "s1").await;
            let same = || Events::new("s1").user("same", "once");
            for n in 0..10 {
                let placed = append(&*store, &id, vec![same()]).await.events[0];
                assert_eq!((placed.ordinal, placed.present), (1, n > 0), "{name}");
            }
            for n in 0..10 {
                let other = Events::new("s1").user("same", &format!("another {n}"));
                let refused = store.append(&id, AppendBatch::native(vec![other])).await;
                let error = refused.unwrap_err();
                assert_eq!(error.code(), "event_id_conflict", "{name}");
                assert!(error.to_string().contains("same"), "{name}: {error}");
            }
            let twice = AppendBatch::native(vec![
                Events::new("s1").user("new", "this"),
                Events::new("s1").user("new", "or that"),
            ]);
            let error = store.append(&id, twice).await.unwrap_err();
            assert_eq!(error.code(), "event_id_conflict", "{name}");
            assert_eq!(marked(&store, &id).await.len(), 1, "{name}");
            assert_eq!(store.verify(&id).await.unwrap().findings, []);
        }
    });
}

#[test]
fn a_repeated_append_succeeds_after_opening_again_and_later() {
    block_on(async {
        for engine in ENGINES {
            let mut place = Place::new(*engine).await;
            let store = place.open();
            let batch = vec![
                place.events.user("a", "first"),
                place.events.user("b", "second"),
            ];
            let first = append(&*store, &place.id, batch.clone()).await;
            append(&*store, &place.id, vec![place.events.end("c", "completed")]).await;
            close(store).await;
            std::thread::sleep(std::time::Duration::from_millis(5));
            let store = place.open();
            let again = append(&*store, &place.id, batch).await;
            for (first, again) in first.events.iter().zip(&again.events) {
                assert_eq!(
                    (first.ordinal, first.event_seq),
                    (again.ordinal, again.event_seq)
                );
                assert!(!first.present && again.present, "{}", engine.name);
            }
        }
    });
}

#[test]
fn a_handle_that_is_behind_is_told_both_heads() {
    block_on(async {
        for engine in ENGINES {
            let mut place = Place::new(*engine).await;
            let store = place.open();
            let head = store.session(&place.id).await.unwrap().head;
            let second = match (engine.open)(&place.path) {
                Ok(second) => second,
                // Where one handle holds the file, it is the only one.
                Err(error) => {
                    assert_eq!((engine.name, error.code()), ("redb", "store_locked"));
                    Arc::clone(&store)
                }
            };
            append(&*second, &place.id, vec![place.events.user("x", "faster")]).await;
            let late = AppendBatch {
                expected_head: Some(head),
                ..AppendBatch::native(vec![place.events.user("y", "slower")])
            };
            let error = store.append(&place.id, late.clone()).await.unwrap_err();
            assert_eq!(error.code(), "head_mismatch", "{}", engine.name);
            let message = error.to_string();
            for number in [head, head + 1] {
                assert!(message.contains(&number.to_string()), "{message}");
            }
            let now = AppendBatch {
                expected_head: Some(head + 1),
                ..late
            };
            store.append(&place.id, now).await.unwrap();
        }
    });
}

#[test]
fn things_of_several_kinds_may_have_one_id() {
    block_on(async {
        for (name, store, _folder) in fresh() {
            let id = create(&*store, "same").await;
            let mut events = Events::new("same").run("same", "same");
            let fact = Fact {
                id: ForeignId::new("same").unwrap(),
                op: FactOp::Put,
                anchor: 1,
                ts: None,
                kind: "mode_change".into(),
                turn_id: None,
                visible: true,
                data: None,
            };
            let batch = AppendBatch {
                contributions: Some(ContributionBatch::new(NOTES, vec![fact])),
                ..AppendBatch::native(vec![
                    events.user("same", "a person"),
                    events.text("model-1", "same", false, "a model"),
                    events.call("call-1", "same", "same", "Read"),
                    events.result("result-1", "same", "Read", "a tool"),
                ])
            };
            store.append(&id, batch).await.unwrap();
            let view = ViewBatch {
                view: "same".into(),
                version: 1,
                session: id.clone(),
                from: 0,
                to: 4,
                entries: vec![(b"same".to_vec(), Some(b"same".to_vec()))],
            };
            store.put_view(view).await.unwrap();
            let entries = marked(&store, &id).await;
            for text in ["a person", "a model", "a tool"] {
                let found = entries.iter().filter(|entry| says(entry, text)).count();
                assert_eq!(found, 1, "{name}: {text}: {entries:?}");
            }
            let notes = store.contribution_status(&id, NOTES).await.unwrap();
            assert_eq!(notes.head, 1, "{name}");
            // The same event id in another session is another event.
            let other = create(&*store, "other").await;
            let event = Events::new("other").user("same", "somebody else");
            assert!(!append(&*store, &other, vec![event]).await.events[0].present);
            assert_eq!(store.verify(&id).await.unwrap().findings, []);
        }
    });
}

#[test]
fn odd_ids_are_kept_as_they_are_or_refused_by_name() {
    for bad in ["", "a\0b", "a b", "🦀", "../x", &"x".repeat(4_096)] {
        let error = SessionId::new(bad).unwrap_err();
        assert!(error.to_string().contains("1 to 128"), "{error}");
    }
    for bad in ["", &"x".repeat(4_096)] {
        let error = folio::EventId::new(bad).unwrap_err();
        assert!(error.to_string().contains("1 to 512"), "{error}");
    }
    block_on(async {
        for engine in ENGINES {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("folio");
            let store = (engine.open)(&path).unwrap();
            let long = "🦀".repeat(128);
            let odd = [
                "🦀",
                "e\u{301}",
                "é",
                "a\0b",
                "a\0c",
                "a",
                "'; DROP TABLE events; --",
                "%",
                " ",
                &long,
            ];
            let id = create(&*store, "s1").await;
            for (n, odd) in odd.iter().enumerate() {
                let event = Events::new("s1").user(odd, &format!("message {n}"));
                append(&*store, &id, vec![event]).await;
            }
            close(store).await;
            let store = (engine.open)(&path).unwrap();
            let entries = marked(&store, &id).await;
            assert_eq!(entries.len(), odd.len(), "{}", engine.name);
            for (n, odd) in odd.iter().enumerate() {
                assert!(
                    says(&entries[n], &format!("message {n}")),
                    "{odd:?}: {entries:?}"
                );
                let event = folio::EventId::new(*odd).unwrap();
                let known = store.lookup_ids(&id, &[event]).await.unwrap()[0];
                assert_eq!(
                    known.map(|known| known.ordinal),
                    Some(n as u64 + 1),
                    "{odd:?}"
                );
            }
            assert_eq!(store.verify(&id).await.unwrap().findings, []);
        }
    });
}
