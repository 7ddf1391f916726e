//! Rows that are lost, torn, overwritten or in another's place.

use crate::place::{ENGINES, MESSAGES, Place, append, block_on, close, marked, pages, says};
use folio::{
    AppendBatch, Entry, OnGap, PageRequest, RangeQuery, Store, StoreError, TranscriptError,
};
use std::sync::Arc;

fn gap_of(error: &TranscriptError) -> Vec<u64> {
    match error {
        TranscriptError::Store(error) if error.code() == "projection_gap" => {
            error.ordinals().to_vec()
        }
        other => panic!("not a gap: {other:?}"),
    }
}

/// How many events a range has, read to its end: an answer may be shorter than
/// what was asked for.
async fn range(store: &dyn Store, place: &Place, from: u64, to: u64) -> Result<u64, StoreError> {
    let mut next = from;
    while next <= to {
        let query = RangeQuery {
            from: next,
            to,
            max_count: 1_000,
            max_bytes: usize::MAX,
        };
        let events = store.range(&place.id, query).await?;
        next = events.last().unwrap().ordinal + 1;
    }
    Ok(next - from)
}

async fn findings(store: &dyn Store, place: &Place) -> Vec<(&'static str, Option<u64>)> {
    let report = store.verify(&place.id).await.unwrap();
    report.findings.iter().map(|f| (f.code, f.at)).collect()
}

/// Whether the session that nobody touched is as it was.
async fn other_is_whole(store: &Arc<dyn Store>, place: &Place) {
    let entries = marked(store, &place.other).await;
    assert_eq!(entries.len() as u64, MESSAGES);
    assert!(entries.iter().all(|entry| says(entry, "another message")));
    assert_eq!(store.verify(&place.other).await.unwrap().findings, []);
}

#[test]
fn a_lost_projection_is_an_error_and_comes_back_byte_for_byte() {
    block_on(async {
        for engine in ENGINES {
            let place = Place::new(*engine).await;
            let store = place.open();
            let before = pages(&store, &place.id, 7, OnGap::Fail).await.unwrap();
            close(store).await;
            (engine.drop_items)(&place.path);
            let store = place.open();
            for on_gap in [OnGap::Fail, OnGap::Mark] {
                let error = pages(&store, &place.id, 7, on_gap).await.unwrap_err();
                assert_eq!(error.code(), "index_damaged", "{}", engine.name);
                let cursor = before[0].older.clone().unwrap();
                let older = PageRequest {
                    max_items: 7,
                    on_gap,
                    ..PageRequest::newest(place.id.clone()).at_cursor(cursor)
                };
                let error = folio::transcripts(&store).read_page(&older).await;
                assert_eq!(
                    error.unwrap_err().code(),
                    "index_damaged",
                    "{}",
                    engine.name
                );
            }
            // The log is not affected, and grows.
            assert_eq!(range(&*store, &place, 1, MESSAGES).await.unwrap(), MESSAGES);
            store.rebuild_index(&place.id).await.unwrap();
            let after = pages(&store, &place.id, 7, OnGap::Fail).await.unwrap();
            let json = |pages: &[folio::Page]| -> Vec<String> {
                pages.iter().map(folio::Page::to_json).collect()
            };
            assert_eq!(json(&after), json(&before), "{}", engine.name);
            let cursor = before[0].older.clone().unwrap();
            let older = PageRequest {
                max_items: 7,
                ..PageRequest::newest(place.id.clone()).at_cursor(cursor)
            };
            let older = folio::transcripts(&store).read_page(&older).await.unwrap();
            assert_eq!(older.to_json(), before[1].to_json(), "{}", engine.name);
            assert_eq!(findings(&*store, &place).await, []);
        }
    });
}

#[test]
fn a_log_without_its_end_names_what_it_lost_and_goes_on_behind_it() {
    block_on(async {
        for engine in ENGINES {
            let mut place = Place::new(*engine).await;
            let lost: Vec<u64> = (MESSAGES - 8..=MESSAGES).collect();
            (engine.change_events)(&place.path, &mut |log_no, ordinal, row| {
                (log_no != 1 || ordinal < lost[0]).then(|| row.to_vec())
            });
            let store = place.open();
            assert_eq!(store.session(&place.id).await.unwrap().head, MESSAGES);
            let error = pages(&store, &place.id, 50, OnGap::Fail).await.unwrap_err();
            assert!(!gap_of(&error).is_empty(), "{}", engine.name);
            assert!(gap_of(&error).iter().all(|at| lost.contains(at)));
            let error = range(&*store, &place, 1, MESSAGES).await.unwrap_err();
            assert!(
                lost.starts_with(error.ordinals()),
                "{}: {error:?}",
                engine.name
            );
            assert_eq!(error.ordinals()[0], lost[0], "{}", engine.name);
            assert!(
                findings(&*store, &place)
                    .await
                    .contains(&("event_missing", Some(lost[0])))
            );
            gaps_are(&marked(&store, &place.id).await, &lost);
            // What was lost is known, and not accepted as new.
            let mut again = folio_testkit::event::Events::new("s1");
            again.at(1_700_000_000_000 + MESSAGES - 1);
            let repeat = again.user(&format!("e{MESSAGES}"), &format!("message {MESSAGES}"));
            let refused = store
                .append(&place.id, AppendBatch::native(vec![repeat]))
                .await;
            assert_eq!(
                refused.unwrap_err().ordinals(),
                [MESSAGES],
                "{}",
                engine.name
            );
            let event = place.events.user("next", "after the loss");
            let next = append(&*store, &place.id, vec![event]).await;
            assert_eq!(
                next.events[0].ordinal,
                MESSAGES + 1,
                "no ordinal is used again"
            );
            close(store).await;
            let store = place.open();
            let entries = marked(&store, &place.id).await;
            assert!(
                says(entries.last().unwrap(), "after the loss"),
                "{}",
                engine.name
            );
            gaps_are(&entries, &lost);
            assert_eq!(
                range(&*store, &place, MESSAGES + 1, MESSAGES + 1)
                    .await
                    .unwrap(),
                1
            );
            other_is_whole(&store, &place).await;
        }
    });
}

/// Whether the entries are the messages in order, with gaps at these ordinals
/// alone.
fn gaps_are(entries: &[Entry], lost: &[u64]) {
    let mut ordinal = 1;
    let mut gaps = Vec::new();
    for entry in entries {
        match entry {
            Entry::Gap { from, to, code, .. } => {
                assert_eq!((*from, *code), (ordinal, "projection_gap"));
                gaps.extend(*from..=*to);
                ordinal = to + 1;
            }
            row => {
                let text = format!("message {ordinal}");
                assert!(
                    ordinal > MESSAGES || says(row, &text),
                    "{row:?} is not {text}"
                );
                ordinal += 1;
            }
        }
    }
    assert_eq!(gaps, lost);
    assert!(ordinal > MESSAGES);
}

/// A probe: its name, where it strikes, and what it makes of the row.
type Probe = (&'static str, u64, fn(&[u8]) -> Option<Vec<u8>>);

const PROBES: &[Probe] = &[
    ("a torn last record", MESSAGES, |row| {
        Some(row[..row.len() / 2].to_vec())
    }),
    ("an empty last record", MESSAGES, |_| Some(Vec::new())),
    ("NUL bytes in the middle", 20, |row| {
        Some(vec![0; row.len()])
    }),
    ("a NUL byte at the end of a record", 20, |row| {
        Some([row, b"\0"].concat())
    }),
    ("a missing record", 20, |_| None),
    ("no JSON", 20, |_| {
        Some(b"{\"id\":\"e20\",\"content\":".to_vec())
    }),
    ("a damaged first record", 1, |row| {
        Some(row.iter().map(|byte| !byte).collect())
    }),
];

#[test]
fn one_damaged_record_is_one_gap_and_appends_go_on() {
    block_on(async {
        for engine in ENGINES {
            for (name, at, change) in PROBES {
                let mut place = Place::new(*engine).await;
                place.change(*at, change);
                let what = format!("{}: {name}", engine.name);
                let store = place.open();
                let error = pages(&store, &place.id, 50, OnGap::Fail).await.unwrap_err();
                assert_eq!(gap_of(&error), [*at], "{what}");
                let error = range(&*store, &place, 1, MESSAGES).await.unwrap_err();
                assert_eq!(error.ordinals(), [*at], "{what}");
                gaps_are(&marked(&store, &place.id).await, &[*at]);
                let found = findings(&*store, &place).await;
                let named = |code| found.contains(&(code, Some(*at)));
                assert!(
                    named("event_damaged") || named("event_missing"),
                    "{what}: {found:?}"
                );
                other_is_whole(&store, &place).await;

                let event = place.events.user("next", "appended after the damage");
                let next = append(&*store, &place.id, vec![event]).await;
                assert_eq!(next.events[0].ordinal, MESSAGES + 1, "{what}");
                close(store).await;
                let store = place.open();
                let entries = marked(&store, &place.id).await;
                let last = entries.last().unwrap();
                assert!(says(last, "appended after the damage"), "{what}: {last:?}");
                gaps_are(&entries, &[*at]);
                // A rebuild cannot make up what is gone, says so, and takes nothing.
                let error = store.rebuild_index(&place.id).await.unwrap_err();
                assert_eq!(
                    (error.code(), error.ordinals()),
                    ("projection_gap", &[*at][..])
                );
                gaps_are(&marked(&store, &place.id).await, &[*at]);
            }
        }
    });
}

#[test]
fn a_record_in_anothers_place_is_damaged_and_hides_nothing() {
    block_on(async {
        for engine in ENGINES {
            let place = Place::new(*engine).await;
            let mut copied = Vec::new();
            (engine.change_events)(&place.path, &mut |log_no, ordinal, row| {
                if (log_no, ordinal) == (1, 10) {
                    copied = row.to_vec();
                }
                Some(row.to_vec())
            });
            place.change(11, |_| Some(copied.clone()));
            let store = place.open();
            gaps_are(&marked(&store, &place.id).await, &[11]);
            let error = pages(&store, &place.id, 50, OnGap::Fail).await.unwrap_err();
            assert_eq!(gap_of(&error), [11], "{}", engine.name);
            assert!(
                findings(&*store, &place)
                    .await
                    .contains(&("event_damaged", Some(11)))
            );
        }
    });
}

#[test]
fn two_records_cannot_have_one_ordinal() {
    block_on(async {
        let place = Place::new(ENGINES[0]).await;
        let file = rusqlite::Connection::open(&place.path).unwrap();
        let copy = "INSERT INTO events SELECT k, sum, body FROM events WHERE k = 1 << 33 | 5";
        let refused = file.execute(copy, []).unwrap_err();
        let code = refused.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation));
    });
}

#[test]
fn opening_a_damaged_file_cuts_and_changes_nothing() {
    block_on(async {
        for engine in ENGINES {
            let place = Place::new(*engine).await;
            place.change(1, |row| Some(vec![0xff; row.len()]));
            let store = place.open();
            close(store).await;
            let damaged = std::fs::read(&place.path).unwrap();
            let store = place.open();
            assert_eq!(
                range(&*store, &place, 2, MESSAGES).await.unwrap(),
                MESSAGES - 1
            );
            close(store).await;
            let after = std::fs::read(&place.path).unwrap();
            assert_eq!(after.len(), damaged.len(), "{}", engine.name);
            // redb notes in its head that somebody was here.
            let same = after.iter().zip(&damaged).skip(4_096).all(|(a, b)| a == b);
            assert!(same || engine.name == "redb", "{}", engine.name);

            for broken in [[0_u8; 64], [b'{'; 64]] {
                let mut bytes = damaged.clone();
                bytes[..64].copy_from_slice(&broken);
                std::fs::write(&place.path, &bytes).unwrap();
                let Err(error) = (engine.open)(&place.path) else {
                    panic!("{}: a file without a head is opened", engine.name)
                };
                let codes = ["store_not_a_store", "database_damaged"];
                assert!(codes.contains(&error.code()), "{}: {error:?}", engine.name);
                let left = std::fs::read(&place.path).unwrap();
                assert!(
                    left == bytes,
                    "{}: a refused file is left as it is",
                    engine.name
                );
            }
        }
    });
}
