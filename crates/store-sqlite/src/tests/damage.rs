//! Damaged bytes are never answered as rows.

use super::*;
use folio_core::Direction::{Newer, Older};
use folio_store::ErrorKind;
use folio_store::rows::{FoundEvent, FoundPack};

/// What a read says of rows that a statement has changed behind its back.
fn after<T>(sql: &str, work: impl FnMut(&dyn Snapshot) -> T) -> T {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    assert_ne!(place.raw().execute(sql, []).unwrap(), 0, "{sql}");
    read(&engine, work)
}

#[test]
fn a_damaged_event_keeps_its_place() {
    for sql in [
        "UPDATE events SET body = CAST('bodY of 2' AS BLOB) WHERE k = 1 << 33 | 2",
        "UPDATE events SET body = x'' WHERE k = 1 << 33 | 2",
        "UPDATE events SET body = CAST(body || x'00' AS BLOB) WHERE k = 1 << 33 | 2",
        "UPDATE events SET body = CAST(x'00' || substr(body, 2) AS BLOB) WHERE k = 1 << 33 | 2",
        "UPDATE events SET body = (SELECT body FROM events WHERE k = 1 << 33 | 3) \
         WHERE k = 1 << 33 | 2",
        "UPDATE events SET sum = sum + 1 WHERE k = 1 << 33 | 2",
    ] {
        let found = after(sql, |s| s.events(1, 1, 3, 9, 900).unwrap());
        assert_eq!(found.len(), 3);
        assert_eq!(found[1], FoundEvent::Damaged { ordinal: 2 }, "{sql}");
        assert!(matches!(found[0], FoundEvent::Whole(_)));
        assert!(matches!(found[2], FoundEvent::Whole(_)));
    }
}

#[test]
fn an_event_in_anothers_place_is_damaged() {
    let sql = "UPDATE events SET k = 1 << 33 | 4 WHERE k = 1 << 33 | 3";
    let found = after(sql, |s| s.events(1, 4, 4, 9, 900).unwrap());
    assert_eq!(found, [FoundEvent::Damaged { ordinal: 4 }]);
}

/// Writes rows of which one body is of many `x`, and breaks the chain of pages
/// on which it goes on.
fn with_a_broken_page_chain(rows: &Writes) -> (Place, SqliteEngine) {
    let place = Place::new();
    let engine = place.open();
    write(&engine, rows).unwrap();
    drop(engine);
    let mut file = std::fs::read(&place.path).unwrap();
    let pages = file.len() / 4096;
    // An overflow page of it begins with the number of the next one.
    let page = (1..pages)
        .find(|page| {
            file[page * 4096 + 4..][..4092]
                .iter()
                .all(|byte| *byte == b'x')
        })
        .unwrap();
    file[page * 4096..][..4].copy_from_slice(&u32::MAX.to_be_bytes());
    std::fs::write(&place.path, file).unwrap();
    let engine = place.open();
    (place, engine)
}

#[test]
fn a_broken_page_chain_damages_one_segment() {
    let mut all = everything(1);
    all.packs[1].columns = vec![b'x'; 20_000];
    let (_place, engine) = with_a_broken_page_chain(&all);
    let found = read(&engine, |s| s.packs(1, 1, 99).unwrap());
    assert_eq!(found.len(), 3);
    assert_eq!(found[1], FoundPack::Damaged { first: 12 });
    assert!(matches!(found[2], FoundPack::Whole(_)));
    let found = read(&engine, |s| s.packs(1, 12, 12).unwrap());
    assert_eq!(found, [FoundPack::Damaged { first: 12 }]);
}

#[test]
fn a_broken_page_chain_damages_one_event() {
    let mut all = everything(1);
    // Larger than a page, so that it continues on pages of its own.
    all.events[1].0.body = vec![b'x'; 20_000];
    let (_place, engine) = with_a_broken_page_chain(&all);
    let found = read(&engine, |s| s.events(1, 1, 3, 9, 90_000).unwrap());
    assert_eq!(found[1], FoundEvent::Damaged { ordinal: 2 });
    assert!(matches!(found[2], FoundEvent::Whole(_)));
    let error = engine.check().unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Corrupt, "database_damaged")
    );
}

#[test]
fn a_damaged_segment_keeps_its_place() {
    for sql in [
        "UPDATE segs SET body = CAST(substr(body, 2) AS BLOB) WHERE k = 1 << 33 | 12",
        "UPDATE segs SET body = x'' WHERE k = 1 << 33 | 12",
        "UPDATE segs SET body = CAST(body || x'00' AS BLOB) WHERE k = 1 << 33 | 12",
        "UPDATE segs SET body = (SELECT body FROM segs WHERE k = 1 << 33 | 21) \
         WHERE k = 1 << 33 | 12",
        "UPDATE segs SET sum = sum + 1 WHERE k = 1 << 33 | 12",
    ] {
        let found = after(sql, |s| s.packs(1, 1, 99).unwrap());
        let place = FoundPack::Damaged { first: 12 };
        assert_eq!(
            found,
            [
                FoundPack::Whole(pack(11)),
                place,
                FoundPack::Whole(pack(21))
            ],
            "{sql}"
        );
    }
    let sql = "UPDATE segs SET k = 1 << 33 | 22 WHERE k = 1 << 33 | 21";
    let found = after(sql, |s| s.packs(1, 13, 99).unwrap());
    assert_eq!(found, [FoundPack::Damaged { first: 22 }]);
}

#[test]
fn check_finds_damaged_segments_and_ids_and_rows_of_the_journal() {
    for (sql, names) in [
        (
            "UPDATE segs SET sum = sum + 1 WHERE k = 1 << 33 | 12",
            "segs, log 1, segment 12",
        ),
        (
            "UPDATE id_runs SET n = n + 1 WHERE stem = 'c:2'",
            "id_runs, log 1, id c:2#5",
        ),
        ("UPDATE commits SET body = x''", "commits, number 1"),
    ] {
        let place = Place::new();
        let engine = place.open();
        write(&engine, &everything(1)).unwrap();
        engine.check().unwrap();
        place.raw().execute(sql, []).unwrap();
        let error = engine.check().unwrap_err();
        assert_eq!(error.code(), "row_damaged");
        assert!(error.to_string().starts_with(names), "{sql}: {error}");
    }
}

#[test]
fn check_finds_ids_and_segments_that_nothing_leads_to_or_that_lead_nowhere() {
    for (sql, wrong) in [
        (
            "UPDATE event_ids SET ordinal = 17 WHERE ordinal = 16",
            "an event id leads to no event",
        ),
        (
            "UPDATE event_ids SET ordinal = 10 WHERE ordinal = 12",
            "an event id leads to no event",
        ),
        (
            "UPDATE event_ids SET log_no = 9 WHERE ordinal = 14",
            "an event id leads to no event",
        ),
        (
            "DELETE FROM segs WHERE k = 1 << 33 | 12",
            "an event id leads to no event",
        ),
        (
            "DELETE FROM segs WHERE k = 1 << 33 | 21",
            "ids that count lead to no segment",
        ),
        (
            "UPDATE segs SET k = 9 << 33 | 12 WHERE k = 1 << 33 | 12",
            "a segment belongs to no log",
        ),
    ] {
        let place = Place::new();
        let engine = place.open();
        write(&engine, &everything(1)).unwrap();
        place.raw().execute(sql, []).unwrap();
        let error = engine.check().unwrap_err();
        assert_eq!(error.code(), "database_damaged", "{sql}");
        assert!(error.to_string().contains(wrong), "{sql}: {error}");
    }
}

#[test]
fn damaged_rows_are_named() {
    type Read = fn(&dyn Snapshot) -> Result<(), StoreError>;
    let lane = (Lane::Text, 1);
    assert_eq!(lane, (seg(1, 0).lane));
    let cases: [(&str, Read, &str, &str); 44] = [
        (
            "UPDATE items SET sum = sum + 1",
            |s| s.items(1, at(0, 0), Newer, 9).map(drop),
            "index_damaged",
            "items, index 1, item 1.0",
        ),
        (
            "UPDATE items SET body = x'ff'",
            |s| s.items(1, at(0, 0), Newer, 9).map(drop),
            "index_damaged",
            "items, index 1, item 1.0",
        ),
        (
            "UPDATE items SET body = CAST(body || x'00' AS BLOB) WHERE p = (1 << 36 | (3 << 3) | 2)",
            |s| {
                s.items_by_hash(1, folio_codec::hash64(b"assistant:r1:m"))
                    .map(drop)
            },
            "index_damaged",
            "items, index 1, item 3.2",
        ),
        (
            "DELETE FROM items WHERE p = (1 << 36 | (3 << 3) | 2)",
            |s| {
                s.items_by_hash(1, folio_codec::hash64(b"assistant:r1:m"))
                    .map(drop)
            },
            "index_damaged",
            "items, index 1, item 3.2",
        ),
        (
            "UPDATE item_keys SET h = 5",
            |s| s.items_by_hash(1, 5).map(drop),
            "index_damaged",
            "items, index 1, item 1.0",
        ),
        (
            "UPDATE item_segs SET before = before + 1",
            |s| s.segs(1, at(1, 0), (Lane::Text, 1), 0, 9, 9).map(drop),
            "index_damaged",
            "item_segs, index 1, item 1.0, chunk 1",
        ),
        (
            "UPDATE item_segs SET n = -1",
            |s| s.last_seg(1, at(1, 0), (Lane::Text, 1), 9).map(drop),
            "index_damaged",
            "item_segs, index 1, item 1.0, chunk 6",
        ),
        (
            "UPDATE sessions SET generation = 4",
            |s| s.session("session-1").map(drop),
            "row_damaged",
            "sessions, session session-1",
        ),
        (
            "UPDATE sessions SET authority = 17",
            |s| s.sessions(None, 9).map(drop),
            "row_damaged",
            "sessions, number 1",
        ),
        (
            "UPDATE sessions SET session_id = ''  || char(1)",
            |s| s.sessions(None, 9).map(drop),
            "row_damaged",
            "sessions, number 1",
        ),
        (
            "UPDATE logs SET head = head - 1",
            |s| s.log(1).map(drop),
            "row_damaged",
            "logs, log 1",
        ),
        (
            "UPDATE logs SET tail = x'ffffff'",
            |s| s.log(1).map(drop),
            "row_damaged",
            "logs, log 1",
        ),
        (
            "UPDATE runs SET terminal = 5",
            |s| s.runs(1, 0, 9).map(drop),
            "row_damaged",
            "runs, log 1, run 1",
        ),
        (
            "UPDATE runs SET open_before = x'01'",
            |s| s.run_by_id(1, "run-2").map(drop),
            "row_damaged",
            "runs, log 1, run 2",
        ),
        (
            "UPDATE runs SET inline = 2",
            |s| s.last_run_of_turn(1, "t1", 9).map(drop),
            "row_damaged",
            "runs, log 1, run 3",
        ),
        (
            "UPDATE contrib_logs SET head = 9",
            |s| s.contrib_log(1, "notes").map(drop),
            "row_damaged",
            "contrib_logs, log 1, number 1",
        ),
        (
            "UPDATE contrib_facts SET body = '' WHERE k = 1 << 33 | 3",
            |s| s.facts(1, 1, 9).map(drop),
            "row_damaged",
            "contrib_facts, contribution log 1, fact 3",
        ),
        (
            "DELETE FROM contrib_facts WHERE k = 1 << 33 | 3",
            |s| s.facts_by_anchor(1, None, Newer, 9).map(drop),
            "row_damaged",
            "contrib_facts, contribution log 1, fact 3",
        ),
        (
            "UPDATE meta SET value = zeroblob(64) WHERE key = 'counters'",
            |s| s.counters().map(drop),
            "row_damaged",
            "meta, counters",
        ),
        (
            "UPDATE meta SET value = CAST(value || x'00' AS BLOB) WHERE key = 'counters'",
            |s| s.counters().map(drop),
            "row_damaged",
            "meta, counters",
        ),
        (
            "UPDATE sessions SET lease_holder = 'nobody'",
            |s| s.session_of_log(1).map(drop),
            "row_damaged",
            "sessions, number 1",
        ),
        (
            "UPDATE contrib_facts SET withheld = NULL WHERE k = 1 << 33 | 2",
            |s| s.facts(1, 1, 9).map(drop),
            "row_damaged",
            "contrib_facts, contribution log 1, fact 2",
        ),
        (
            "UPDATE spans SET runs = 1 WHERE upto = 2",
            |s| s.spans(1).map(drop),
            "row_damaged",
            "spans, log 1, up to 2",
        ),
        (
            "UPDATE spans SET src = 2 WHERE upto = 1",
            |s| s.spans_of(2, 9).map(drop),
            "row_damaged",
            "spans, log 1, up to 1",
        ),
        (
            "UPDATE spans SET upto = 3 WHERE upto = 2",
            |s| s.spans_of(1, 1).map(drop),
            "row_damaged",
            "spans, log 1, up to 3",
        ),
        (
            "UPDATE blobs SET len = 4",
            |s| s.blob(&sha(1)).map(drop),
            "row_damaged",
            "blobs, blob 2",
        ),
        (
            "UPDATE blobs SET stager = 4",
            |s| s.blobs(None, 9).map(drop),
            "row_damaged",
            "blobs, blob 2",
        ),
        (
            "UPDATE blobs SET sha = x'00'",
            |s| s.blobs(None, 9).map(drop),
            "row_damaged",
            "blobs, blob 2",
        ),
        (
            "UPDATE stages SET stager = 4",
            |s| s.stages(0, 9).map(drop),
            "row_damaged",
            "stages, blob 3",
        ),
        (
            "UPDATE pieces SET body = CAST(x'00' || substr(body, 2) AS BLOB) WHERE k = 2 << 20",
            |s| s.piece(2, 0).map(drop),
            "blob_damaged",
            "pieces, blob 2, piece 0",
        ),
        (
            "UPDATE pieces SET k = 3 << 20 | 2 WHERE k = 3 << 20 | 1",
            |s| s.piece(3, 2).map(drop),
            "blob_damaged",
            "pieces, blob 3, piece 2",
        ),
        (
            "UPDATE blob_refs SET sha = x'00'",
            |s| s.citations(1, 0, 9).map(drop),
            "row_damaged",
            "blob_refs, log 1",
        ),
        (
            "UPDATE views SET version = 3",
            |s| s.view("view-1").map(drop),
            "row_damaged",
            "views, view \"view-1\"",
        ),
        (
            "UPDATE view_rows SET value = x'00' WHERE key = x'61'",
            |s| s.view_value(1, b"a").map(drop),
            "view_damaged",
            "view_rows, view 1, key a: the stored row is damaged; drop the view",
        ),
        (
            "UPDATE view_rows SET log_no = 2",
            |s| s.view_entries(1, b"", None, Newer, 9).map(drop),
            "view_damaged",
            "view_rows, view 1, key : the",
        ),
        (
            "UPDATE view_rows SET key = x'62' WHERE key = x'61ff'",
            |s| s.view_entries(1, b"a", Some(b"c"), Older, 9).map(drop),
            "view_damaged",
            "view_rows, view 1, key b:",
        ),
        (
            "UPDATE view_marks SET head = 2",
            |s| s.view_mark(1, 1).map(drop),
            "view_damaged",
            "view_marks, view 1, log 1",
        ),
        (
            "UPDATE scrub SET log_no = 0",
            |s| s.scrubs().map(drop),
            "row_damaged",
            "scrub, number 1",
        ),
        (
            "UPDATE scrub SET seq = 7",
            |s| s.scrubs().map(drop),
            "row_damaged",
            "scrub, number 7",
        ),
        (
            "UPDATE commits SET body = CAST(body || x'00' AS BLOB)",
            |s| s.commits(0).map(drop),
            "row_damaged",
            "commits, number 1",
        ),
        (
            "UPDATE commits SET seq = 2",
            |s| s.commits(1).map(drop),
            "row_damaged",
            "commits, number 2",
        ),
        (
            "UPDATE id_runs SET n = n + 1",
            |s| s.id_run(1, "c", 2).map(drop),
            "row_damaged",
            "id_runs, log 1, id c#0",
        ),
        (
            "UPDATE id_runs SET first = 1 WHERE first = 0",
            |s| s.id_run(1, "c", 2).map(drop),
            "row_damaged",
            "id_runs, log 1, id c#1",
        ),
        (
            "UPDATE id_runs SET stem = 'd' WHERE first = 0",
            |s| s.id_run(1, "d", 2).map(drop),
            "row_damaged",
            "id_runs, log 1, id d#0",
        ),
    ];
    for (sql, work, code, names) in cases {
        let error = after(sql, |s| work(s).err());
        let error = error.unwrap_or_else(|| panic!("{sql}: no error"));
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Corrupt, code),
            "{sql}"
        );
        assert!(error.to_string().starts_with(names), "{sql}: {error}");
    }
}
