//! What is written comes back, whole and in order.

use super::*;
use folio_core::Direction::{Newer, Older};
use folio_store::rows::FoundEvent;
use redb::{ReadableDatabase, ReadableTableMetadata, TableHandle};

fn ordinals(found: &[FoundEvent]) -> Vec<u64> {
    found.iter().map(FoundEvent::ordinal).collect()
}

fn numbers(items: &[Item]) -> Vec<u64> {
    items.iter().map(|item| item.number).collect()
}

fn sequences(facts: &[FactRow]) -> Vec<u64> {
    facts.iter().map(|fact| fact.seq).collect()
}

fn check_everything(engine: &RedbEngine, n: u64) {
    let all = everything(n);
    read(engine, |snapshot| {
        let id = format!("session-{n}");
        let session = Some(all.sessions[0].clone());
        assert_eq!(snapshot.session(&id).unwrap(), session);
        assert_eq!(snapshot.session_of_log(n).unwrap(), session);
        assert_eq!(snapshot.log(n).unwrap(), all.log);
        for row in &all.runs {
            let found = Some(row.clone());
            assert_eq!(snapshot.run(n, row.run_no).unwrap(), found);
            let id = row.spine.run_id.as_str();
            assert_eq!(snapshot.run_by_id(n, id).unwrap(), found);
            let id = row.spine.invocation_id.as_str();
            assert_eq!(snapshot.run_by_invocation(n, id).unwrap(), found);
        }
        assert_eq!(snapshot.runs(n, 0, 9).unwrap(), all.runs);
        assert_eq!(snapshot.runs(n, 1, 1).unwrap(), all.runs[1..2]);

        let events: Vec<_> = all
            .events
            .iter()
            .map(|(row, _)| FoundEvent::Whole(row.clone()))
            .collect();
        assert_eq!(snapshot.events(n, 0, u64::MAX, 9, 9_000).unwrap(), events);
        for (row, hash) in &all.events {
            assert_eq!(snapshot.event_ids(n, *hash).unwrap(), [(n, row.ordinal)]);
        }

        let items: Vec<_> = all.items.iter().map(|write| write.item.clone()).collect();
        assert_eq!(snapshot.items(n, at(0, 0), Newer, 9).unwrap(), items);
        let hash = folio_codec::hash64(b"assistant:r1:m");
        assert_eq!(snapshot.items_by_hash(n, hash).unwrap(), items);
        let lane = (Lane::Text, 1);
        assert_eq!(
            snapshot.segs(n, at(1, 0), lane, 0, u64::MAX, 9).unwrap(),
            all.segs
        );

        let (contrib, facts) = &all.contributions[0];
        let notes = snapshot.contrib_log(n, "notes").unwrap();
        assert_eq!(notes.as_ref(), Some(contrib));
        assert_eq!(
            snapshot.contrib_logs(n).unwrap(),
            std::slice::from_ref(contrib)
        );
        assert_eq!(&snapshot.facts(n, 0, 9).unwrap(), facts);

        assert_eq!(snapshot.blob(&sha(n)).unwrap(), Some(blob(n)));
        assert_eq!(snapshot.piece(n, 0).unwrap(), Some(content(n)));
        assert_eq!(snapshot.piece(n, 1).unwrap(), None);
        assert!(snapshot.is_cited(&sha(n)).unwrap());
        assert_eq!(snapshot.citations(n, 0, 9).unwrap(), all.citations);
        assert_eq!(snapshot.citations(n, 3, 9).unwrap(), []);

        assert_eq!(snapshot.view(&view(n).name).unwrap(), Some(view(n)));
        assert_eq!(snapshot.view_mark(n, n).unwrap(), 3);
        let [least, key] = ["", "key"].map(|key| {
            let value = snapshot.view_value(n, key.as_bytes()).unwrap();
            (key.as_bytes().to_vec(), value.unwrap())
        });
        let entries = |from: &str, to: Option<&str>, direction| {
            let (from, to) = (from.as_bytes(), to.map(str::as_bytes));
            snapshot.view_entries(n, from, to, direction, 9).unwrap()
        };
        assert_eq!(entries("", None, Newer), [least.clone(), key.clone()]);
        assert_eq!(entries("", None, Older), [key.clone(), least.clone()]);
        assert_eq!(entries("", Some("key"), Newer), [least]);
        assert_eq!(entries("a", Some("kez"), Older), [key]);
        assert_eq!(entries("key", Some("key"), Newer), []);
        assert!(snapshot.scrubs().unwrap().contains(&all.scrubs[0]));
    });
}

#[test]
fn every_row_comes_back_also_after_reopening() {
    let place = Place::new();
    let engine = place.open();
    assert_eq!(
        read(&engine, |s| s.counters().unwrap()),
        Counters::default()
    );
    // Neighbours on both sides: a read that runs over would see them.
    for n in 1..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    check_everything(&engine, 2);
    drop(engine);
    let engine = place.open();
    for n in 1..=3 {
        check_everything(&engine, n);
    }
    assert_eq!(read(&engine, |s| s.counters().unwrap().contrib_no), 3);
    engine.check().unwrap();
    drop(engine);
    check_everything(&RedbEngine::open(&place.config().read_only()).unwrap(), 2);
}

#[test]
fn reads_keep_their_bounds_and_their_order() {
    let place = Place::new();
    let engine = place.open();
    for n in 1..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    read(&engine, |s| {
        let ids = |after, limit| -> Vec<_> {
            let found = s.sessions(after, limit).unwrap();
            found.iter().map(|row| row.session_no).collect()
        };
        assert_eq!(ids(None, 2), [1, 2]);
        assert_eq!(ids(Some("session-1"), 9), [2, 3]);

        let events =
            |from, to, limit, bytes| ordinals(&s.events(2, from, to, limit, bytes).unwrap());
        assert_eq!(events(2, 3, 9, 9_000), [2, 3]);
        assert_eq!(events(1, 3, 2, 9_000), [1, 2]);
        assert_eq!(
            events(1, 3, 9, 18),
            [1, 2],
            "the third would exceed 18 bytes"
        );
        assert_eq!(events(1, 3, 9, 0), [1], "the first may exceed them alone");
        assert_eq!(events(1, 3, 0, 9_000), [0_u64; 0]);
        assert_eq!(events(3, 1, 9, 9_000), [0_u64; 0]);

        let items = |from, direction, limit| numbers(&s.items(2, from, direction, limit).unwrap());
        assert_eq!(items(at(u64::MAX, 255), Older, 9), [2, 1]);
        assert_eq!(items(at(u64::MAX, 255), Older, 1), [2]);
        assert_eq!(items(at(3, 2), Older, 9), [2, 1]);
        assert_eq!(items(at(3, 1), Older, 9), [1]);
        assert_eq!(items(at(1, 1), Newer, 9), [2]);
        assert_eq!(items(at(3, 3), Newer, 9), [0_u64; 0]);
        assert_eq!(items(at(0, 0), Older, 9), [0_u64; 0]);

        let lane = (Lane::Text, 1);
        let segs = |from, through, limit| -> Vec<_> {
            let found = s.segs(2, at(1, 0), lane, from, through, limit).unwrap();
            found.iter().map(|row| row.seg).collect()
        };
        assert_eq!(segs(2, 5, 9), [3]);
        assert_eq!(segs(1, 6, 2), [1, 3]);
        let last = |through| s.last_seg(2, at(1, 0), lane, through).unwrap();
        assert_eq!(last(5).map(|row| row.seg), Some(3));
        assert_eq!(last(u64::MAX).map(|row| row.seg), Some(6));
        assert_eq!(last(0), None);
        assert_eq!(s.last_seg(2, at(1, 0), (Lane::Text, 0), 9).unwrap(), None);

        let turn = |before| s.last_run_of_turn(2, "t1", before).unwrap();
        assert_eq!(turn(u32::MAX).map(|row| row.run_no), Some(3));
        assert_eq!(turn(3).map(|row| row.run_no), Some(1));
        assert_eq!(turn(1), None);

        assert_eq!(sequences(&s.facts(2, 2, 1).unwrap()), [2]);
        let anchored = |after, direction, limit| {
            sequences(&s.facts_by_anchor(2, after, direction, limit).unwrap())
        };
        assert_eq!(anchored(None, Newer, 9), [2, 1, 3]);
        assert_eq!(anchored(None, Older, 2), [3, 1]);
        assert_eq!(anchored(Some((2, 1)), Newer, 9), [3]);
        assert_eq!(anchored(Some((2, 1)), Older, 9), [2]);
        let hash = folio_codec::hash64(b"a");
        assert_eq!(sequences(&s.facts_by_id(2, hash).unwrap()), [1, 3]);
    });
}

#[test]
fn what_is_not_there_is_nothing_whatever_is_asked() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    read(&engine, |s| {
        for n in [0, 2, 1 << 31, u64::MAX] {
            assert_eq!(s.log(n).unwrap(), None);
            assert_eq!(s.events(n, 0, u64::MAX, 9, 9).unwrap(), []);
            assert_eq!(s.run(n, 1).unwrap(), None);
            assert_eq!(s.items(n, at(0, 0), Newer, 9).unwrap(), []);
            assert_eq!(s.items(n, at(u64::MAX, 255), Older, 9).unwrap(), []);
            assert_eq!(s.items_by_hash(n, u64::MAX).unwrap(), []);
            assert_eq!(s.segs(n, at(1, 0), (Lane::Text, 1), 0, 9, 9).unwrap(), []);
            assert_eq!(s.facts(n, 0, 9).unwrap(), []);
            assert_eq!(s.facts_by_anchor(n, None, Older, 9).unwrap(), []);
            assert_eq!(s.facts_by_id(n, 1).unwrap(), []);
            assert_eq!(s.contrib_logs(n).unwrap(), []);
        }
        assert_eq!(s.session("").unwrap(), None);
    });
}

#[test]
fn rows_with_a_known_key_are_replaced() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let mut later = Writes {
        sessions: vec![session(1)],
        log: Some(log(1)),
        runs: vec![run(2, "t9")],
        items: vec![ItemWrite {
            item: item(1, at(1, 0), "assistant:r1:m"),
            is_new: false,
        }],
        contributions: vec![(contrib_log(1), Vec::new())],
        pieces: vec![(1, 0, b"shorter".to_vec())],
        redacted: vec![event(2).0],
        redacted_facts: vec![(1, fact(1, 2, "a"))],
        ..Writes::default()
    };
    later.redacted[0].body = b"less".to_vec();
    later.redacted_facts[0].1.body = "{}".into();
    later.sessions[0].authority = Authority::RuntimeEvents;
    later.sessions[0].import_ref = None;
    later.contributions[0].0.head = 8;
    if let Some(log) = &mut later.log {
        log.tail = Tail::default();
        log.head = 9;
    }
    later.runs[0].terminal = Some(9);
    later.items[0].item.revision = 9;
    write(&engine, &later).unwrap();
    read(&engine, |s| {
        assert_eq!(
            s.session("session-1").unwrap().as_ref(),
            later.sessions.first()
        );
        assert_eq!(s.log(1).unwrap(), later.log);
        assert_eq!(
            s.last_run_of_turn(1, "t9", 9).unwrap().as_ref(),
            later.runs.first()
        );
        assert_eq!(s.last_run_of_turn(1, "t2", 9).unwrap(), None);
        assert_eq!(
            s.items(1, at(0, 0), Newer, 1).unwrap(),
            [later.items[0].item.clone()]
        );
        assert_eq!(
            s.contrib_log(1, "notes").unwrap().as_ref(),
            Some(&later.contributions[0].0)
        );
        assert_eq!(s.piece(1, 0).unwrap(), Some(b"shorter".to_vec()));
        assert_eq!(
            s.events(1, 2, 2, 1, 900).unwrap(),
            [FoundEvent::Whole(later.redacted[0].clone())]
        );
        assert_eq!(s.event_ids(1, event(2).1).unwrap(), [(1, 2)]);
        assert_eq!(
            s.facts(1, 1, 1).unwrap(),
            [later.redacted_facts[0].1.clone()]
        );
    });
}

/// The number of rows in every table.
fn counts(engine: &RedbEngine) -> Vec<(String, u64)> {
    let txn = engine.raw().begin_read().unwrap();
    let mut counts: Vec<_> = txn
        .list_tables()
        .unwrap()
        .map(|table| {
            let name = table.name().to_owned();
            let count = txn.open_untyped_table(table).unwrap().len().unwrap();
            (name, count)
        })
        .collect();
    counts.sort();
    counts
}

#[test]
fn a_dropped_session_leaves_no_row_and_no_neighbour_loses_one() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    write(&engine, &everything(3)).unwrap();
    let before = counts(&engine);
    write(&engine, &everything(2)).unwrap();
    assert_ne!(counts(&engine), before);
    write(&engine, &gone(2)).unwrap();
    assert_eq!(counts(&engine), before);
    check_everything(&engine, 1);
    check_everything(&engine, 3);
    // A session may go and another take its id in one transaction.
    let mut again = everything(1);
    again.erase = gone(1).erase;
    write(&engine, &again).unwrap();
    check_everything(&engine, 1);
}

#[test]
fn a_dropped_index_goes_alone() {
    let place = Place::new();
    let engine = place.open();
    for n in 1..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    let drop_index = Writes {
        erase: vec![Erase::Index(2)],
        ..Writes::default()
    };
    write(&engine, &drop_index).unwrap();
    read(&engine, |s| {
        assert_eq!(s.items(2, at(0, 0), Newer, 9).unwrap(), []);
        let hash = folio_codec::hash64(b"assistant:r1:m");
        assert_eq!(s.items_by_hash(2, hash).unwrap(), []);
        assert_eq!(s.last_seg(2, at(1, 0), (Lane::Text, 1), 9).unwrap(), None);
        assert_eq!(s.events(2, 1, 9, 9, 900).unwrap().len(), 3);
    });
    check_everything(&engine, 1);
    check_everything(&engine, 3);
}

#[test]
fn a_log_is_cut_behind_an_ordinal_and_a_run() {
    let place = Place::new();
    let engine = place.open();
    for n in 1..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    let cut = Writes {
        erase: vec![
            Erase::Events {
                log_no: 2,
                family: 2,
                events: event_hashes()[1..].to_vec(),
            },
            Erase::Items {
                index_no: 2,
                from: 2,
            },
            Erase::Runs {
                log_no: 2,
                above: 1,
            },
        ],
        ..Writes::default()
    };
    write(&engine, &cut).unwrap();
    read(&engine, |s| {
        assert_eq!(ordinals(&s.events(2, 0, 9, 9, 900).unwrap()), [1]);
        assert_eq!(s.event_ids(2, event(1).1).unwrap(), [(2, 1)]);
        assert_eq!(s.event_ids(2, event(2).1).unwrap(), []);
        assert!(!s.is_cited(&sha(2)).unwrap());
        assert_eq!(numbers(&s.items(2, at(0, 0), Newer, 9).unwrap()), [1]);
        let hash = folio_codec::hash64(b"assistant:r1:m");
        assert_eq!(numbers(&s.items_by_hash(2, hash).unwrap()), [1]);
        assert_eq!(s.runs(2, 0, 9).unwrap(), [run(1, "t1")]);
        let last = s.last_run_of_turn(2, "t1", 9).unwrap();
        assert_eq!(last, Some(run(1, "t1")));
    });
    engine.check().unwrap();
    check_everything(&engine, 1);
    check_everything(&engine, 3);
}

#[test]
fn what_another_log_made_of_a_key_since_stays() {
    let place = Place::new();
    let engine = place.open();
    for n in 1..=2 {
        write(&engine, &everything(n)).unwrap();
    }
    let taken = Writes {
        view: Some(ViewWrites {
            view: view(1),
            log_no: 2,
            mark: 1,
            entries: vec![(b"key".to_vec(), Some(b"other".to_vec()))],
        }),
        ..Writes::default()
    };
    write(&engine, &taken).unwrap();
    let erase = vec![Erase::ViewEntries { log_no: 1 }];
    let without = Writes {
        erase,
        ..Writes::default()
    };
    write(&engine, &without).unwrap();
    read(&engine, |s| {
        let entries = s.view_entries(1, b"", None, Newer, 9).unwrap();
        assert_eq!(entries, [(b"key".to_vec(), b"other".to_vec())]);
        assert_eq!(
            (s.view_mark(1, 1).unwrap(), s.view_mark(1, 2).unwrap()),
            (0, 1)
        );
    });
    engine.check().unwrap();
}

#[test]
fn a_rewritten_store_has_every_row_and_goes_on() {
    let place = Place::new();
    let engine = place.open();
    for n in 1..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    let before = counts(&engine);
    read(&engine, |s| {
        engine.rewrite().unwrap();
        // This read goes on with the file that it began with.
        assert_eq!(s.sessions(None, 9).unwrap().len(), 3);
    });
    assert_eq!(counts(&engine), before);
    check_everything(&engine, 2);
    write(&engine, &everything(4)).unwrap();
    drop(engine);
    let names: Vec<_> = std::fs::read_dir(place.dir.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "a draft is left");
    let engine = place.open();
    engine.check().unwrap();
    for n in 1..=4 {
        check_everything(&engine, n);
    }
}

#[cfg(unix)]
#[test]
fn a_rewrite_keeps_a_link_and_the_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    drop(engine);
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(&place.path, mode).unwrap();
    let link = place.dir.path().join("link");
    std::os::unix::fs::symlink(&place.path, &link).unwrap();
    let engine = RedbEngine::open(&RedbConfig::new(&link)).unwrap();
    engine.rewrite().unwrap();
    write(&engine, &everything(2)).unwrap();
    drop(engine);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let mode = place.path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    check_everything(&place.open(), 2);
}

#[test]
fn what_a_killed_rewrite_left_goes_with_the_next_opening() {
    let place = Place::new();
    drop(place.open());
    let mut draft = place.path.clone().into_os_string();
    draft.push(".rewrite");
    std::fs::write(&draft, b"half a copy").unwrap();
    drop(RedbEngine::open(&place.config().read_only()).unwrap());
    assert!(PathBuf::from(&draft).exists(), "a reader changes nothing");
    drop(place.open());
    assert!(!PathBuf::from(&draft).exists());
}
