//! The laws of paging, on every store: pages of either direction and any size
//! tile the full projection, cursors resume exactly, bounds hold, fragments
//! are the row, snapshots stand still, and a rebuilt index changes nothing.

use crate::common::{append, block_on, session, stores};
use folio::{
    CanonicalEvent, Direction, Entry, Page, PagePosition, PageRequest, SessionId, Store,
    StoreError, Through, TranscriptService, Watermarks,
};
use folio_testkit::event::Events;
use folio_testkit::reference::{project, project_at};
use folio_testkit::workload::random;
use proptest::prelude::*;
use std::sync::Arc;

/// A row as pages give it: key, revision, JSON.
type Row = (String, u64, String);

/// Walks from the edge to the end, checks every page against its bounds, and
/// answers the rows in ascending order with every cursor seen on the way.
async fn walk(
    service: &TranscriptService,
    start: PageRequest,
    direction: Direction,
) -> (Vec<Row>, Vec<String>) {
    let mut request = PageRequest {
        direction: Some(direction),
        ..start.clone()
    };
    let mut rows: Vec<Row> = Vec::new();
    let mut cursors = Vec::new();
    let mut partial: Vec<Entry> = Vec::new();
    loop {
        let page = service.read_page(&request).await.unwrap();
        check_bounds(&page, &start);
        let mut new = whole_rows(&page, &mut partial, direction);
        let next = match direction {
            Direction::Older => {
                new.append(&mut rows);
                rows = new;
                page.older
            }
            Direction::Newer => {
                rows.append(&mut new);
                page.newer
            }
        };
        let Some(next) = next else { break };
        assert!(
            !page.entries.is_empty(),
            "a page with a cursor makes progress"
        );
        cursors.push(next.clone());
        request = start.clone().at_cursor(next);
    }
    assert!(partial.is_empty(), "the last row is complete");
    (rows, cursors)
}

fn check_bounds(page: &Page, request: &PageRequest) {
    assert!(page.entries.len() <= request.max_items);
    let bytes: usize = page
        .entries
        .iter()
        .map(|entry| match entry {
            Entry::Row { row, .. } => row.len(),
            Entry::Fragment { data, .. } => data.len(),
            _ => 0,
        })
        .sum();
    assert!(
        bytes <= request.max_bytes,
        "{bytes} of {}",
        request.max_bytes
    );
}

/// The complete rows of a page; fragments are kept until they make one.
fn whole_rows(page: &Page, partial: &mut Vec<Entry>, direction: Direction) -> Vec<Row> {
    let mut rows = Vec::new();
    for entry in &page.entries {
        match entry {
            Entry::Row { key, revision, row } => {
                assert!(partial.is_empty(), "a row never interrupts another");
                rows.push((key.to_string(), *revision, row.clone()));
            }
            Entry::Fragment { .. } => {
                assert_eq!(page.entries.len(), 1, "a fragment comes alone");
                match direction {
                    Direction::Older => partial.insert(0, entry.clone()),
                    Direction::Newer => partial.push(entry.clone()),
                }
                rows.extend(join(partial));
            }
            other => panic!("no gaps here: {other:?}"),
        }
    }
    rows
}

/// The row of some fragments, once they are all of it.
fn join(partial: &mut Vec<Entry>) -> Option<Row> {
    let mut bytes = String::new();
    let mut whole = None;
    for entry in partial.iter() {
        let Entry::Fragment {
            key,
            revision,
            byte_offset,
            total_bytes,
            digest,
            data,
            ..
        } = entry
        else {
            continue;
        };
        let first = whole.get_or_insert((key.clone(), *revision, *total_bytes, *digest));
        assert_eq!(*first, (key.clone(), *revision, *total_bytes, *digest));
        if bytes.is_empty() && *byte_offset > 0 {
            return None;
        }
        assert_eq!(bytes.len() as u64, *byte_offset);
        bytes.push_str(data);
    }
    let (key, revision, total, digest) = whole?;
    if (bytes.len() as u64) < total {
        return None;
    }
    assert_eq!(folio_codec::sha256(bytes.as_bytes()), digest);
    partial.clear();
    Some((key.to_string(), revision, bytes))
}

fn full(events: &[CanonicalEvent]) -> Vec<Row> {
    project(events)
}

fn request(id: &SessionId, max_items: usize, max_bytes: usize) -> PageRequest {
    PageRequest {
        max_items,
        max_bytes,
        ..PageRequest::newest(id.clone())
    }
}

fn at(watermark: u64) -> Through {
    Through::At(Watermarks::from([("runtime".into(), watermark)]))
}

async fn laws(
    store: Arc<dyn Store>,
    events: &[CanonicalEvent],
    batch: usize,
    max_items: usize,
    max_bytes: usize,
    part: usize,
) {
    let id = session(&*store, "s1").await;
    let (before, after) = events.split_at(part.min(events.len()));
    append(&*store, &id, before, batch).await;
    let service = TranscriptService::new(Arc::clone(&store));
    let request = request(&id, max_items, max_bytes);

    let wanted = full(before);
    let (older, cursors) = walk(&service, request.clone(), Direction::Older).await;
    assert_eq!(older, wanted, "older pages reversed are the projection");
    let (newer, _) = walk(&service, request.clone(), Direction::Newer).await;
    assert_eq!(newer, wanted, "newer pages are the projection");

    // Every cursor stands for its snapshot, whatever comes later.
    append(&*store, &id, after, batch).await;
    let pinned = PageRequest {
        through: at(before.len() as u64),
        ..request.clone()
    };
    assert_eq!(
        walk(&service, pinned.clone(), Direction::Older).await.0,
        wanted
    );
    let mut resumed = Vec::new();
    for cursor in &cursors {
        resumed.push(
            service
                .read_page(&request.clone().at_cursor(cursor))
                .await
                .unwrap(),
        );
    }

    // A rebuilt index changes no page, and old cursors go on.
    store.rebuild_index(&id).await.unwrap();
    assert_eq!(walk(&service, pinned, Direction::Newer).await.0, wanted);
    for (cursor, page) in cursors.iter().zip(resumed) {
        let again = service
            .read_page(&request.clone().at_cursor(cursor))
            .await
            .unwrap();
        assert_eq!(again.entries, page.entries);
        assert_eq!((again.older, again.newer), (page.older, page.newer));
    }
    assert_eq!(
        walk(&service, request, Direction::Older).await.0,
        full(events)
    );
    assert_eq!(store.verify(&id).await.unwrap().findings, []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn pages_tile_the_projection(
        seed in any::<u64>(),
        size in 1_usize..160,
        batch in 1_usize..40,
        max_items in prop_oneof![1_usize..4, 1_usize..40, Just(1_024)],
        max_bytes in prop_oneof![64_usize..300, 64_usize..4_000, Just(16 << 20)],
        part in 0_usize..160,
    ) {
        let events = random(seed, size);
        for opened in stores() {
            block_on(laws(Arc::clone(&opened.store), &events, batch, max_items, max_bytes, part));
        }
    }

    #[test]
    fn a_snapshot_is_the_projection_of_its_prefix(seed in any::<u64>(), size in 1_usize..120) {
        let events = random(seed, size);
        for opened in stores() {
            block_on(async {
                let id = session(&*opened.store, "s1").await;
                append(&*opened.store, &id, &events, 7).await;
                let service = TranscriptService::new(Arc::clone(&opened.store));
                for through in (1..=events.len() as u64).step_by(3) {
                    let pinned =
                        PageRequest { through: at(through), ..request(&id, 50, 1 << 20) };
                    let (rows, _) = walk(&service, pinned, Direction::Older).await;
                    assert_eq!(rows, project_at(&events, through), "{} at {through}", opened.name);
                }
            });
        }
    }
}

#[test]
fn pages_around_a_key_and_at_an_ordinal_open_to_both_sides() {
    let events = random(11, 150);
    let wanted = full(&events);
    for opened in stores() {
        block_on(async {
            let id = session(&*opened.store, "s1").await;
            append(&*opened.store, &id, &events, 50).await;
            let service = TranscriptService::new(Arc::clone(&opened.store));
            let base = request(&id, 4, 1 << 20);
            for (n, (key, ..)) in wanted.iter().enumerate() {
                for direction in [Direction::Older, Direction::Newer] {
                    let around = PageRequest {
                        position: PagePosition::Around(key.as_str().into()),
                        direction: Some(direction),
                        ..base.clone()
                    };
                    let page = service.read_page(&around).await.unwrap();
                    let range = match direction {
                        Direction::Older => n.saturating_sub(3)..n + 1,
                        Direction::Newer => n..(n + 4).min(wanted.len()),
                    };
                    let rows = whole_rows(&page, &mut Vec::new(), direction);
                    assert_eq!(rows, wanted[range.clone()], "{key} {direction:?}");
                    assert_eq!(page.older.is_some(), range.start > 0);
                    assert_eq!(page.newer.is_some(), range.end < wanted.len());
                    if let Some(cursor) = page.older {
                        let back = service
                            .read_page(&base.clone().at_cursor(cursor))
                            .await
                            .unwrap();
                        let rows = whole_rows(&back, &mut Vec::new(), Direction::Older);
                        assert_eq!(rows, wanted[range.start.saturating_sub(4)..range.start]);
                    }
                    if let Some(cursor) = page.newer {
                        let on = service
                            .read_page(&base.clone().at_cursor(cursor))
                            .await
                            .unwrap();
                        let rows = whole_rows(&on, &mut Vec::new(), Direction::Newer);
                        assert_eq!(rows, wanted[range.end..(range.end + 4).min(wanted.len())]);
                    }
                }
            }
            let beyond = PageRequest {
                position: PagePosition::AtOrdinal(1 << 30),
                direction: Some(Direction::Newer),
                ..base.clone()
            };
            let page = service.read_page(&beyond).await.unwrap();
            assert_eq!((page.entries.len(), &page.newer), (0, &None));
            let back = base.clone().at_cursor(page.older.unwrap());
            let page = service.read_page(&back).await.unwrap();
            let rows = whole_rows(&page, &mut Vec::new(), Direction::Older);
            assert_eq!(rows, wanted[wanted.len() - 4..]);
            let unknown = PageRequest {
                position: PagePosition::Around("user::nobody".into()),
                ..base
            };
            assert_eq!(
                service.read_page(&unknown).await.unwrap_err().code(),
                "item_not_found"
            );
        });
    }
}

#[test]
fn a_cursor_survives_a_restart_and_is_refused_where_it_does_not_fit() {
    let events = random(5, 120);
    for mut opened in stores() {
        block_on(async {
            let id = session(&*opened.store, "s1").await;
            session(&*opened.store, "s2").await;
            append(&*opened.store, &id, &events, 50).await;
            let base = request(&id, 3, 1 << 20);
            let service = TranscriptService::new(Arc::clone(&opened.store));
            let cursor = service.read_page(&base).await.unwrap().older.unwrap();
            let wanted = service
                .read_page(&base.clone().at_cursor(&cursor))
                .await
                .unwrap();
            drop(service);
            opened.reopen().await;
            let service = TranscriptService::new(Arc::clone(&opened.store));
            let again = service
                .read_page(&base.clone().at_cursor(&cursor))
                .await
                .unwrap();
            assert_eq!(again.entries, wanted.entries);
            assert_eq!(again.older, wanted.older);

            let code = async |request: PageRequest| {
                service
                    .read_page(&request)
                    .await
                    .err()
                    .map(|error| error.code())
            };
            let with = |cursor: &str| base.clone().at_cursor(cursor);
            assert_eq!(code(with("rubbish")).await, Some("cursor_damaged"));
            let other = PageRequest {
                session: SessionId::new("s2").unwrap(),
                ..with(&cursor)
            };
            assert_eq!(code(other).await, Some("cursor_foreign_session"));
            let turned = PageRequest {
                direction: Some(Direction::Newer),
                ..with(&cursor)
            };
            assert_eq!(code(turned).await, Some("cursor_mismatch"));
            let moved = PageRequest {
                through: at(1),
                ..with(&cursor)
            };
            assert_eq!(code(moved).await, Some("cursor_mismatch"));
            let none = PageRequest {
                max_items: 0,
                ..base.clone()
            };
            assert_eq!(code(none).await, Some("max_items_out_of_range"));
            let small = PageRequest {
                max_bytes: 63,
                ..base.clone()
            };
            assert_eq!(code(small).await, Some("max_bytes_out_of_range"));
            let future = PageRequest {
                through: at(9_999),
                ..base.clone()
            };
            assert_eq!(code(future).await, Some("watermark_unknown"));
        });
    }
}

#[test]
fn a_cursor_of_an_earlier_life_of_the_session_is_refused() {
    for opened in stores() {
        block_on(async {
            let id = SessionId::new("s1").unwrap();
            let staged = |incarnation: u32| folio::NewSession {
                authority: folio::Authority::Preparing,
                import_ref: Some(format!("{{\"life\":{incarnation}}}")),
                ..folio::NewSession::native(id.clone())
            };
            let store = &opened.store;
            store
                .create_session(folio::NewSession::native(SessionId::new("x").unwrap()))
                .await
                .unwrap();
            let mut e = Events::new("s1");
            let first = store.create_session(staged(1)).await.unwrap();
            store
                .discard_session(&id, first.authority_rev)
                .await
                .unwrap();
            let second = store.create_session(staged(2)).await.unwrap();
            assert_ne!(first.incarnation, second.incarnation);
            store
                .append(
                    &id,
                    folio::AppendBatch {
                        writer: folio_store::Writer::Importer,
                        ..folio::AppendBatch::native(vec![e.user("u1", "hi"), e.user("u2", "ho")])
                    },
                )
                .await
                .unwrap();
            let change = folio_store::AuthorityChange {
                expected_rev: second.authority_rev,
                to: folio::Authority::RuntimeEvents,
                import_ref: None,
            };
            store.set_authority(&id, change).await.unwrap();
            let service = TranscriptService::new(Arc::clone(store));
            let base = request(&id, 1, 1 << 20);
            let cursor = service.read_page(&base).await.unwrap().older.unwrap();
            let mut parsed = folio_transcript::decode_cursor(&cursor, &["runtime"]).unwrap();
            parsed.incarnation = first.incarnation;
            let stale = base.at_cursor(folio_transcript::encode_cursor(&parsed));
            assert_eq!(
                service.read_page(&stale).await.unwrap_err().code(),
                "cursor_incarnation"
            );
        });
    }
}

/// A nested run, a running turn and a turn of 20,000 events are nothing
/// special.
#[test]
fn huge_nested_and_running_turns_page_like_any_other() {
    let mut e = Events::new("s1");
    let mut events = Vec::new();
    events.push(e.user("u-outer", "outer"));
    for n in 0..4_000 {
        let (m, c) = (format!("m{n}"), format!("c{n}"));
        events.push(e.text(&format!("x{n}"), &m, false, "thinking about it"));
        events.push(e.call(&format!("k{n}"), &m, &c, "Read"));
        events.push(e.result(&format!("r{n}"), &c, "Read", "body"));
        if n == 2_000 {
            e.enter("r2", "t2");
            events.push(e.user("u-inner", "inner"));
            events.push(e.end("z-inner", "completed"));
            e.enter("r1", "t1");
        }
        events.push(e.usage(&format!("g{n}"), &m, n, 1));
        events.push(e.text(&format!("p{n}#0"), &format!("p{n}"), true, "part"));
    }
    assert!(events.len() > 20_000);
    for opened in stores() {
        block_on(async {
            let id = session(&*opened.store, "s1").await;
            append(&*opened.store, &id, &events, 4_000).await;
            let service = TranscriptService::new(Arc::clone(&opened.store));
            let base = request(&id, 1_000, 1 << 20);
            let (older, _) = walk(&service, base.clone(), Direction::Older).await;
            let (newer, _) = walk(&service, base.clone(), Direction::Newer).await;
            assert_eq!(older.len(), 2 + 1 + 4_000 * 5);
            assert_eq!(older, newer, "both directions show the same rows");
            let last = service.read_page(&request(&id, 50, 1 << 20)).await.unwrap();
            assert_eq!(last.entries.len(), 50);
            assert!(last.stats.events <= 200, "{:?}", last.stats);
        });
    }
}

#[test]
fn keys_and_rows_are_the_same_while_a_run_goes_on_and_when_it_is_done() {
    let mut e = Events::new("s1");
    let events = [
        e.user("u1", "hi"),
        e.thinking("h1#0", "m1", true, "let "),
        e.thinking("h1#1", "m1", true, "me"),
        e.text("x1#0", "m1", true, "Hel"),
        e.text("x1#1", "m1", true, "lo"),
        e.call("c1", "m1", "call_0", "Read"),
        e.result("f1", "call_0", "Read", "body"),
        e.thinking("h1", "m1", false, "let me"),
        e.text("x1", "m1", false, "Hello"),
        e.usage("g1", "m1", 10, 5),
        e.end("z1", "completed"),
    ];
    for opened in stores() {
        block_on(async {
            let id = session(&*opened.store, "s1").await;
            let service = TranscriptService::new(Arc::clone(&opened.store));
            let mut live: Vec<Row> = Vec::new();
            for event in &events {
                append(&*opened.store, &id, std::slice::from_ref(event), 1).await;
                let (rows, _) = walk(&service, request(&id, 50, 1 << 20), Direction::Older).await;
                let keys = |rows: &[Row]| -> Vec<String> {
                    rows.iter().map(|row| row.0.clone()).collect()
                };
                assert!(
                    keys(&rows).starts_with(&keys(&live)),
                    "rows are added, never replaced"
                );
                live = rows;
            }
            let text = |row: &Row| row.2.contains("\"text\":\"Hello\"");
            assert_eq!(live.iter().filter(|row| text(row)).count(), 1);
            opened.store.rebuild_index(&id).await.unwrap();
            let (rebuilt, _) = walk(&service, request(&id, 50, 1 << 20), Direction::Newer).await;
            assert_eq!(rebuilt, live);
        });
    }
}

#[test]
fn errors_name_their_session() {
    for opened in stores() {
        let id = SessionId::new("nobody").unwrap();
        let error: StoreError = block_on(opened.store.session(&id)).unwrap_err();
        assert_eq!(error.code(), "session_not_found");
        assert!(error.to_string().contains("nobody"));
    }
}
