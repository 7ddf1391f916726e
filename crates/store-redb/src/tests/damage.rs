//! Damaged bytes are never answered as rows, and never end the process.

use super::*;
use crate::tables::{Bytes, definition};
use folio_core::Direction::Newer;
use folio_store::ErrorKind;
use folio_store::rows::{FoundEvent, FoundPack};
use folio_testkit::engine::lost_after;
use folio_testkit::engine::removals::rows;
use redb::{Key, TableDefinition, Value};

/// Changes every value of a table behind the engine's back; `None` removes the
/// row.
fn change<K: Key + 'static>(
    engine: &RedbEngine,
    table: TableDefinition<'_, K, Bytes>,
    change: impl Fn(&K::SelfType<'_>, &[u8]) -> Option<Vec<u8>>,
) {
    let database = engine.raw();
    let txn = database.begin_write().unwrap();
    let mut table = txn.open_table(table).unwrap();
    let rows: Vec<(Vec<u8>, Vec<u8>)> = table
        .iter()
        .unwrap()
        .map(|entry| {
            let (key, value) = entry.unwrap();
            let bytes = K::as_bytes(&key.value()).as_ref().to_vec();
            (bytes, value.value().to_vec())
        })
        .collect();
    assert!(!rows.is_empty());
    for (key, value) in &rows {
        let key = <K as Value>::from_bytes(key);
        match change(&key, value) {
            Some(value) => drop(table.insert(&key, &*value).unwrap()),
            None => drop(table.remove(&key).unwrap()),
        }
    }
    drop(table);
    txn.commit().unwrap();
}

/// Flips each byte of every row in turn, cuts rows short and makes them longer;
/// the read answers the code and names table and row each time.
fn each_flip_is_found<K: Key + 'static>(
    table: TableDefinition<'_, K, Bytes>,
    read_it: fn(&dyn Snapshot) -> Result<(), StoreError>,
    code: &str,
    names: &str,
) {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    read(&engine, read_it).unwrap();
    let found = |what: &str| {
        let error = read(&engine, read_it).expect_err(what);
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Corrupt, code),
            "{what}: {error}"
        );
        assert!(error.to_string().starts_with(names), "{what}: {error}");
    };
    let flip = |at: usize, bit: u8| {
        move |_: &K::SelfType<'_>, value: &[u8]| {
            let mut value = value.to_vec();
            let len = value.len();
            value[at % len] ^= 1 << bit;
            Some(value)
        }
    };
    for (at, bit) in (0..24).zip((0..8).cycle()) {
        change(&engine, table, flip(at, bit));
        found("a flipped bit");
        change(&engine, table, flip(at, bit));
    }
    read(&engine, read_it).unwrap();
    change(&engine, table, |_, value| Some([value, b"x"].concat()));
    found("a longer row");
    change(&engine, table, |_, value| Some(value[..8].to_vec()));
    found("a shorter row");
    let error = engine.check().unwrap_err();
    assert_eq!(error.code(), "database_damaged");
    change(&engine, table, |_, _| Some(Vec::new()));
    found("an empty row");
}

#[test]
fn damaged_rows_are_named() {
    use definition::{contrib_facts, contrib_logs, item_segs, items, logs, runs, sessions};
    each_flip_is_found(
        sessions,
        |s| s.session("session-1").map(drop),
        "row_damaged",
        "sessions, session session-1",
    );
    each_flip_is_found(
        sessions,
        |s| s.sessions(None, 9).map(drop),
        "row_damaged",
        "sessions, session session-1",
    );
    each_flip_is_found(logs, |s| s.log(1).map(drop), "row_damaged", "logs, log 1");
    for (read, names) in [
        (
            (|s| s.spans(1).map(drop)) as fn(&dyn Snapshot) -> _,
            "spans, log 1, up to 1",
        ),
        (|s| s.spans_of(1, 9).map(drop), "spans, log 1, up to 2"),
    ] {
        each_flip_is_found(definition::spans, read, "row_damaged", names);
    }
    for read in [
        (|s| s.runs(1, 0, 9).map(drop)) as fn(&dyn Snapshot) -> _,
        |s| s.run(1, 1).map(drop),
        |s| s.run_by_id(1, "run-1").map(drop),
        |s| s.run_by_invocation(1, "invocation-1").map(drop),
        |s| s.last_run_of_turn(1, "t1", 2).map(drop),
    ] {
        each_flip_is_found(runs, read, "row_damaged", "runs, log 1, run 1");
    }
    each_flip_is_found(
        items,
        |s| s.items(1, at(0, 0), Newer, 9).map(drop),
        "index_damaged",
        "items, index 1, item 1.0",
    );
    each_flip_is_found(
        items,
        |s| {
            s.items_by_hash(1, folio_codec::hash64(b"assistant:r1:m"))
                .map(drop)
        },
        "index_damaged",
        "items, index 1, item 1.0",
    );
    each_flip_is_found(
        item_segs,
        |s| s.segs(1, at(1, 0), (Lane::Text, 1), 0, 9, 9).map(drop),
        "index_damaged",
        "item_segs, index 1, item 1.0, chunk 1",
    );
    each_flip_is_found(
        item_segs,
        |s| s.last_seg(1, at(1, 0), (Lane::Text, 1), 9).map(drop),
        "index_damaged",
        "item_segs, index 1, item 1.0, chunk 6",
    );
    for read in [
        (|s| s.contrib_log(1, "notes").map(drop)) as fn(&dyn Snapshot) -> _,
        |s| s.contrib_logs(1).map(drop),
    ] {
        let names = "contrib_logs, log 1, source notes";
        each_flip_is_found(contrib_logs, read, "row_damaged", names);
    }
    for read in [
        (|s| s.facts(1, 1, 9).map(drop)) as fn(&dyn Snapshot) -> _,
        |s| s.facts_by_id(1, folio_codec::hash64(b"a")).map(drop),
    ] {
        let names = "contrib_facts, contribution log 1, fact 1";
        each_flip_is_found(contrib_facts, read, "row_damaged", names);
    }
    each_flip_is_found(
        contrib_facts,
        |s| s.facts_by_anchor(1, None, Newer, 9).map(drop),
        "row_damaged",
        "contrib_facts, contribution log 1, fact 2",
    );
    each_flip_is_found(
        definition::blobs,
        |s| s.blob(&sha(1)).map(drop),
        "row_damaged",
        "blobs, blob 0000000000000001fe",
    );
    each_flip_is_found(
        definition::stages,
        |s| s.stages(0, 9).map(drop),
        "row_damaged",
        "stages, blob 3",
    );
    each_flip_is_found(
        definition::pieces,
        |s| s.piece(2, 0).map(drop),
        "blob_damaged",
        "pieces, blob 2, piece 0",
    );
    each_flip_is_found(
        definition::views,
        |s| s.view("view-1").map(drop),
        "row_damaged",
        "views, view view-1",
    );
    each_flip_is_found(
        definition::view_rows,
        |s| s.view_entries(1, b"", None, Newer, 9).map(drop),
        "view_damaged",
        "view_rows, view 1, key",
    );
    each_flip_is_found(
        definition::view_marks,
        |s| s.view_mark(1, 1).map(drop),
        "view_damaged",
        "view_marks, view 1, log 1",
    );
    each_flip_is_found(
        definition::commits,
        |s| s.commits(0).map(drop),
        "row_damaged",
        "commits, commit 1",
    );
    each_flip_is_found(
        definition::id_runs,
        |s| s.id_run(1, "c", 2).map(drop),
        "row_damaged",
        "id_runs, log 1, id c#0",
    );
    each_flip_is_found(
        definition::scrub,
        |s| s.scrubs().map(drop),
        "row_damaged",
        "scrub, erasure 1",
    );
    each_flip_is_found(
        definition::meta,
        |s| s.counters().map(drop),
        "row_damaged",
        "meta, counters",
    );
}

#[test]
fn a_damaged_event_keeps_its_place() {
    type Damage = fn(&[u8]) -> Vec<u8>;
    let damages: [Damage; 5] = [
        |row| [&row[..row.len() - 1], b"x"].concat(),
        |row| [row, b"\0"].concat(),
        |row| [&[row[0] ^ 1], &row[1..]].concat(),
        |row| row[..12].to_vec(),
        |_| Vec::new(),
    ];
    for damage in damages {
        let place = Place::new();
        let engine = place.open();
        write(&engine, &everything(1)).unwrap();
        change(&engine, definition::events, |(_, ordinal), value| {
            Some(if *ordinal == 2 {
                damage(value)
            } else {
                value.to_vec()
            })
        });
        let found = read(&engine, |s| s.events(1, 1, 3, 9, 900).unwrap());
        assert_eq!(found.len(), 3);
        assert_eq!(found[1], FoundEvent::Damaged { ordinal: 2 });
        assert!(matches!(found[0], FoundEvent::Whole(_)));
        assert!(matches!(found[2], FoundEvent::Whole(_)));
    }
}

#[test]
fn a_damaged_segment_keeps_its_place() {
    type Damage = fn(&[u8]) -> Vec<u8>;
    let damages: [Damage; 5] = [
        |row| [&row[..row.len() - 1], b"x"].concat(),
        |row| [row, b"\0"].concat(),
        |row| [&[row[0] ^ 1], &row[1..]].concat(),
        |row| row[..12].to_vec(),
        |_| Vec::new(),
    ];
    for damage in damages {
        let place = Place::new();
        let engine = place.open();
        write(&engine, &everything(1)).unwrap();
        change(&engine, definition::packs, |(_, first), value| {
            Some(if *first == 12 {
                damage(value)
            } else {
                value.to_vec()
            })
        });
        let found = read(&engine, |s| s.packs(1, 1, 99).unwrap());
        let whole = |first| FoundPack::Whole(pack(first));
        let damaged = FoundPack::Damaged { first: 12 };
        assert_eq!(found, [whole(11), damaged, whole(21)]);
        let error = engine.check().unwrap_err().to_string();
        assert!(error.contains("packs, log 1, segment 12"), "{error}");
    }
}

#[test]
fn a_row_in_anothers_place_is_damaged() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    write(&engine, &everything(2)).unwrap();
    let rows = |engine: &RedbEngine| {
        let txn = engine.raw().begin_read().unwrap();
        let table = txn.open_table(definition::events).unwrap();
        let row = ReadableTable::get(&table, (2, 1)).unwrap().unwrap();
        row.value().to_vec()
    };
    let other = rows(&engine);
    change(&engine, definition::events, |key, value| {
        Some(if *key == (1, 1) {
            other.clone()
        } else {
            value.to_vec()
        })
    });
    let found = read(&engine, |s| s.events(1, 1, 1, 9, 900).unwrap());
    assert_eq!(found, [FoundEvent::Damaged { ordinal: 1 }]);
}

#[test]
fn an_entry_that_leads_to_nothing_is_damage_and_never_an_omission() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    change(&engine, definition::items, |_, _| None);
    change(&engine, definition::runs, |_, _| None);
    change(&engine, definition::contrib_facts, |_, _| None);
    change(&engine, definition::events, |_, _| None);
    read(&engine, |s| {
        let hash = folio_codec::hash64(b"assistant:r1:m");
        let code = s.items_by_hash(1, hash).unwrap_err();
        assert_eq!(code.code(), "index_damaged");
        for error in [
            s.run_by_id(1, "run-1").err(),
            s.run_by_invocation(1, "invocation-2").err(),
            s.last_run_of_turn(1, "t1", 9).err(),
            s.facts_by_anchor(1, None, Newer, 9).err(),
            s.facts_by_id(1, folio_codec::hash64(b"a")).err(),
        ] {
            assert_eq!(error.unwrap().code(), "row_damaged");
        }
    });
    let error = engine.check().unwrap_err().to_string();
    assert!(error.contains("nothing is at log 1, event 1"), "{error}");
}

/// What an erasure removes after a value was cut to its checksum, where `hit`
/// says so.
fn lost<K: Key + 'static>(
    table: TableDefinition<'_, K, Bytes>,
    hit: fn(&K::SelfType<'_>) -> bool,
    erase: Erase,
) -> Vec<(String, u64)> {
    let damaged = |_: &Place, engine: &RedbEngine| {
        change(engine, table, |key, value| {
            let end = if hit(key) { 8 } else { value.len() };
            Some(value[..end].to_vec())
        });
    };
    lost_after(damaged, vec![erase])
}

#[test]
fn what_is_damaged_goes_with_what_finds_it() {
    let (log_no, index_no) = (2, 2);
    let item = Erase::Items { index_no, from: 3 };
    assert_eq!(
        lost(definition::items, |(index, _, _)| *index == 2, item),
        rows(&[("item_keys", 1), ("items", 1)])
    );
    assert_eq!(
        lost(definition::spans, |(log, _)| *log == 2, Erase::Log(2)),
        rows(&[("id_runs", 3), ("logs", 1), ("spans", 2), ("view_marks", 1)])
    );
    assert_eq!(
        lost(
            definition::view_rows,
            |(view, _)| *view == 2,
            Erase::ViewEntries { log_no }
        ),
        rows(&[("view_marks", 1), ("view_rows", 3)])
    );
    let runs = Erase::Runs { log_no, above: 1 };
    assert_eq!(
        lost(definition::runs, |(log, _)| *log == 2, runs),
        rows(&[("runs", 2)])
    );
}

/// Removes a segment behind the engine's back.
fn drop_pack(engine: &RedbEngine, gone: u64) {
    change(engine, definition::packs, |(_, first), value| {
        (*first != gone).then(|| value.to_vec())
    });
}

#[test]
fn check_finds_what_nothing_leads_to_any_more() {
    let found = |damage: fn(&RedbEngine), names: &str| {
        let place = Place::new();
        let engine = place.open();
        write(&engine, &everything(1)).unwrap();
        engine.check().unwrap();
        damage(&engine);
        let error = engine.check().unwrap_err();
        assert_eq!(error.code(), "database_damaged");
        assert!(error.to_string().contains(names), "{names}: {error}");
    };
    found(
        |engine| {
            change(engine, definition::sessions, |_, _| None);
            // What else may have a log.
            change(engine, definition::scrub, |_, _| None);
            change(engine, definition::spans, |_, _| None);
        },
        "log 1 belongs to no session",
    );
    found(
        |engine| change(engine, definition::logs, |_, _| None),
        "a session has no log 1",
    );
    found(
        |engine| change(engine, definition::blobs, |_, _| None),
        "belong to no blob",
    );
    found(
        |engine| change(engine, definition::pieces, |_, _| None),
        "blob 2 has lost a piece",
    );
    found(
        |engine| change(engine, definition::views, |_, _| None),
        "an entry belongs to no view 1",
    );
    found(
        |engine| change(engine, definition::view_rows, |_, _| None),
        "view_rows_log: nothing is at view 1, key",
    );
    found(
        |engine| change(engine, definition::contrib_logs, |_, _| None),
        "note 1 belongs to no notes log 1",
    );
    found(
        |engine| change(engine, definition::runs, |_, _| None),
        "runs_id: nothing is at log 1, run 1",
    );
    found(
        |engine| {
            let txn = engine.raw().begin_write().unwrap();
            let mut packs = txn.open_table(definition::packs).unwrap();
            let strange = crate::rows::seal(&(9, 5), &pack(5));
            packs.insert((9, 5), strange.as_slice()).unwrap();
            drop(packs);
            txn.commit().unwrap();
        },
        "segment 5 belongs to no log 9",
    );
    found(
        |engine| drop_pack(engine, 21),
        "id_runs: nothing is at log 1, segment 21",
    );
    found(
        |engine| drop_pack(engine, 12),
        "event_ids: nothing is at log 1, event 16",
    );
    found(
        |engine| change(engine, definition::contrib_facts, |_, _| None),
        "contrib_items: nothing is at contribution log 1, fact 2",
    );
}

#[test]
fn a_panic_of_redb_is_an_error_and_ends_writing() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let error = engine.panic_in_redb();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Corrupt, "database_damaged")
    );
    let error = write(&engine, &everything(2)).unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, "store_poisoned")
    );
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
    drop(engine);
    write(&place.open(), &everything(2)).unwrap();
}

/// A generator of numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

/// A store of some sessions, as the bytes of its file.
fn stored() -> Vec<u8> {
    let place = Place::new();
    let engine = place.open();
    for n in 1..=12 {
        write(&engine, &everything(n)).unwrap();
    }
    drop(engine);
    std::fs::read(&place.path).unwrap()
}

/// Opens and uses a damaged store: whatever is answered is a typed error or
/// what was stored. Answers whether damage was noticed.
fn use_damaged(bytes: &[u8]) -> bool {
    let place = Place::new();
    std::fs::write(&place.path, bytes).unwrap();
    let typed = |error: StoreError| {
        let kinds = [
            ErrorKind::Corrupt,
            ErrorKind::Invalid,
            ErrorKind::Unsupported,
            ErrorKind::NotFound,
            ErrorKind::Unavailable,
            ErrorKind::Indeterminate,
        ];
        assert!(kinds.contains(&error.kind()), "{error}");
        true
    };
    let engine = match RedbEngine::open(&place.config().existing()) {
        Ok(engine) => engine,
        Err(error) => return typed(error),
    };
    let mut noticed = false;
    for n in 1..=12 {
        let all = everything(n);
        let done = engine.read(&mut |s| {
            let id = format!("session-{n}");
            assert!(s.session(&id)?.is_none_or(|row| row == all.sessions[0]));
            assert!(s.log(n)?.is_none_or(|row| Some(row) == all.log));
            for found in s.events(n, 1, 9, 9, 900)? {
                if let FoundEvent::Whole(row) = found {
                    assert!(all.events.iter().any(|(event, _)| *event == row));
                }
            }
            for run in s.runs(n, 0, 9)? {
                assert!(all.runs.contains(&run));
            }
            for item in s.items(n, at(0, 0), Newer, 9)? {
                assert!(all.items.iter().any(|write| write.item == item));
            }
            assert!(s.blob(&sha(n))?.is_none_or(|row| row == blob(n)));
            assert!(
                s.piece(blob(n).blob_no, 0)?
                    .is_none_or(|bytes| bytes == content(n))
            );
            for (key, value) in s.view_entries(n, b"", None, Newer, 9)? {
                let entry = (key, Some(value));
                assert!(all.view.iter().any(|view| view.entries.contains(&entry)));
            }
            for found in s.packs(n, 1, 99)? {
                if let FoundPack::Whole(row) = found {
                    assert!(all.packs.contains(&row));
                }
            }
            for run in &all.id_runs {
                let found = s.id_run(n, &run.stem, run.first)?;
                assert!(found.is_none_or(|found| all.id_runs.contains(&found)));
            }
            for row in s.commits(0)? {
                assert_eq!(row, commit(row.seq));
            }
            for fact in s.facts(n, 1, 9)? {
                assert!(all.contributions[0].1.contains(&fact));
            }
            Ok(())
        });
        noticed |= done.is_err_and(typed);
    }
    noticed |= engine.check().is_err_and(typed);
    noticed |= write(&engine, &everything(20)).is_err_and(typed);
    noticed |= write(&engine, &gone(3)).is_err_and(typed);
    noticed | engine.rewrite().is_err_and(typed)
}

#[test]
fn flipped_bits_are_typed_errors_and_never_a_crash() {
    let whole = stored();
    assert!(!use_damaged(&whole));
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut noticed = 0;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        let at = numbers.below(bytes.len());
        bytes[at] ^= 1 << numbers.below(8);
        noticed += u32::from(use_damaged(&bytes));
    }
    assert!(noticed > 0);
}

#[test]
fn overwritten_pages_are_typed_errors_and_never_a_crash() {
    let whole = stored();
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let mut noticed = 0;
    for round in 0..120 {
        let mut bytes = whole.clone();
        let at = numbers.below(bytes.len() / 512) * 512;
        let other = numbers.below(bytes.len() / 512) * 512;
        match round % 3 {
            0 => bytes[at..at + 512].fill(0),
            1 => bytes[at..at + 512].fill(0xff),
            _ => bytes.copy_within(other..other + 512, at),
        }
        noticed += u32::from(use_damaged(&bytes));
    }
    assert!(noticed > 0);
}

#[test]
fn truncated_files_are_typed_errors_and_never_a_crash() {
    let whole = stored();
    let mut numbers = Numbers(0xd1b5_4a32_d192_ed03);
    let cuts = (0..60).map(|_| numbers.below(whole.len() - 1) + 1);
    for len in cuts.chain([1, 9, 320, 512, 4096, whole.len() - 1]) {
        assert!(use_damaged(&whole[..len]), "{len} of {} bytes", whole.len());
    }
}
