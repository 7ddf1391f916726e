//! What is erased goes, and nothing else does.
//!
//! Sorts of rows are counted by these names: `sessions`, `logs`, `spans`,
//! `events`, `event_ids`, `packs`, `id_runs`, `commits`, `citations`, `runs`,
//! `items`, `item_keys`, `item_segs`, `contrib_logs`, `contrib_facts`,
//! `contrib_ids`, `contrib_items`, `blobs`, `stages`, `pieces`, `views`,
//! `view_rows`, `view_marks` and `scrub`. An engine may count more.
#![expect(missing_docs, reason = "the name of a case says what holds")]

use super::reads::{check_everything, check_journal, firsts, numbers, ordinals};
use super::rows::*;
use super::{EnginePlace, place_with, read, write};
use folio_core::Direction::Newer;
use folio_core::item::Lane;
use folio_store::engine::{Engine, Erase, ViewWrites, Writes};

pub fn what_is_erased_leaves_no_row_and_no_neighbour_loses_one<P: EnginePlace>() {
    let (place, engine) = place_with::<P>([1, 3]);
    let before = place.counts(&engine);
    // The journal is no session's.
    let second = Writes {
        commit: None,
        ..everything(2)
    };
    write(&engine, &second).unwrap();
    assert_ne!(place.counts(&engine), before);
    // Nothing of it has to exist.
    for _ in 0..2 {
        write(&engine, &gone(2)).unwrap();
        assert_eq!(place.counts(&engine), before);
    }
    check_everything(&engine, 1);
    check_everything(&engine, 3);
    engine.check().unwrap();
    // Something may go and another take its place in one transaction.
    let again = Writes {
        erase: gone(1).erase,
        ..everything(1)
    };
    write(&engine, &again).unwrap();
    check_everything(&engine, 1);
}

/// Which sorts have lost how many rows to an erasure of a part of session 2.
pub fn lost<P: EnginePlace>(erase: Vec<Erase>) -> Vec<(String, u64)> {
    lost_after::<P>(|_, _| (), erase)
}

/// The same, where something was damaged before. The sessions beside it lose
/// nothing.
pub fn lost_after<P: EnginePlace>(
    damage: impl FnOnce(&P, &P::Engine),
    erase: Vec<Erase>,
) -> Vec<(String, u64)> {
    let (place, engine) = place_with::<P>(1..=3);
    damage(&place, &engine);
    let before = place.counts(&engine);
    write(&engine, &erasing(erase)).unwrap();
    check_everything(&engine, 1);
    check_everything(&engine, 3);
    let after = place.counts(&engine);
    before
        .into_iter()
        .zip(after)
        .filter(|(before, after)| before != after)
        .map(|((sort, before), (_, after))| (sort, before - after))
        .collect()
}

/// Losses as [`lost`] answers them.
pub fn rows(lost: &[(&str, u64)]) -> Vec<(String, u64)> {
    lost.iter()
        .map(|(sort, count)| ((*sort).to_owned(), *count))
        .collect()
}

pub fn an_erased_part_goes_alone<P: EnginePlace>() {
    let items = |from| Erase::Items { index_no: 2, from };
    let (log_no, above) = (2, 1);
    let parts: [(Erase, &[(&str, u64)]); 17] = [
        (
            Erase::Index(2),
            &[("item_keys", 2), ("item_segs", 3), ("items", 2)],
        ),
        (items(3), &[("item_keys", 1), ("items", 1)]),
        (items(4), &[]),
        (Erase::Runs { log_no, above }, &[("runs", 2)]),
        (
            Erase::Log(2),
            &[("id_runs", 3), ("logs", 1), ("spans", 2), ("view_marks", 1)],
        ),
        (
            Erase::ViewEntries { log_no },
            &[("view_marks", 1), ("view_rows", 3)],
        ),
        (
            Erase::View(view(2)),
            &[("view_marks", 1), ("view_rows", 3), ("views", 1)],
        ),
        (Erase::Blob(blob(2)), &[("blobs", 1), ("pieces", 1)]),
        (Erase::Stage(stage(2)), &[("pieces", 2), ("stages", 1)]),
        (Erase::StageRow(stage(2).blob_no), &[("stages", 1)]),
        (Erase::Scrub(2), &[("scrub", 1)]),
        (Erase::Commits(2), &[("commits", 2)]),
        (
            packs_gone(2),
            &[("event_ids", 3), ("id_runs", 3), ("packs", 3)],
        ),
        (
            Erase::Packs {
                log_no,
                family: 2,
                packs: vec![12, 13, u64::MAX],
                id_runs: vec![("c".into(), 0), ("c".into(), 1), ("d".into(), u64::MAX)],
                ids: vec![pack_ids()[1], (5, 12)],
            },
            &[("event_ids", 1), ("id_runs", 1), ("packs", 1)],
        ),
        (Erase::Session(session(2)), &[("sessions", 1)]),
        (
            Erase::Citations {
                log_no,
                ordinals: vec![3, 9],
            },
            &[("citations", 1)],
        ),
        (
            Erase::Contributions(contrib_log(2)),
            &[
                ("contrib_facts", 3),
                ("contrib_ids", 3),
                ("contrib_items", 3),
                ("contrib_logs", 1),
            ],
        ),
    ];
    for (part, gone) in parts {
        assert_eq!(lost::<P>(vec![part.clone()]), rows(gone), "{part:?}");
    }
}

pub fn a_dropped_index_answers_nothing<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>(1..=3);
    write(&engine, &erasing(vec![Erase::Index(2)])).unwrap();
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

pub fn a_log_is_cut_behind_an_ordinal_and_a_run<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>(1..=3);
    let cut = erasing(vec![
        Erase::Events {
            log_no: 2,
            family: 2,
            events: event_hashes()[1..].to_vec(),
        },
        Erase::Packs {
            log_no: 2,
            family: 2,
            packs: vec![12, 21],
            id_runs: vec![("c".into(), u64::MAX - 3), ("c:2".into(), 5)],
            ids: pack_ids(),
        },
        Erase::Items {
            index_no: 2,
            from: 2,
        },
        Erase::Runs {
            log_no: 2,
            above: 1,
        },
    ]);
    write(&engine, &cut).unwrap();
    read(&engine, |s| {
        assert_eq!(ordinals(&s.events(2, 0, 9, 9, 900).unwrap()), [1]);
        assert_eq!(s.event_ids(2, event(1).1).unwrap(), [(2, 1)]);
        assert_eq!(s.event_ids(2, event(2).1).unwrap(), []);
        assert_eq!(firsts(&s.packs(2, 0, u64::MAX).unwrap()), [11]);
        assert_eq!(s.event_ids(2, pack_ids()[0].0).unwrap(), []);
        let left = s.id_run(2, "c", u64::MAX).unwrap();
        assert_eq!(left, Some(id_run("c", 0, 11)));
        assert_eq!(s.id_run(2, "c:2", 9).unwrap(), None);
        assert_eq!(s.citations(2, 0, 9).unwrap(), [(1, sha(2))]);
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
    // The last event that cites a blob goes.
    let first = Erase::Events {
        log_no: 2,
        family: 2,
        events: event_hashes()[..1].to_vec(),
    };
    write(&engine, &erasing(vec![first])).unwrap();
    assert!(!read(&engine, |s| s.is_cited(&sha(2)).unwrap()));
}

pub fn the_journal_ends_where_it_was_cut_and_goes_on<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>(1..=3);
    write(&engine, &erasing(vec![Erase::Commits(0)])).unwrap();
    check_journal(&engine, 1, 3);
    write(&engine, &erasing(vec![Erase::Commits(2)])).unwrap();
    check_journal(&engine, 3, 3);
    // What is cut goes before what is added.
    let next = Writes {
        erase: vec![Erase::Commits(3)],
        commit: Some(commit(4)),
        ..Writes::default()
    };
    write(&engine, &next).unwrap();
    check_journal(&engine, 4, 4);
    write(&engine, &erasing(vec![Erase::Commits(u64::MAX)])).unwrap();
    assert_eq!(read(&engine, |s| s.journal().unwrap()), None);
    engine.check().unwrap();
}

pub fn events_go_with_their_ids_and_citations_also_where_the_id_is_unknown<P: EnginePlace>() {
    let lost = |events| {
        lost::<P>(vec![Erase::Events {
            log_no: 2,
            family: 2,
            events,
        }])
    };
    for events in [
        vec![(2, Some(event(2).1)), (3, Some(event(3).1))],
        vec![(2, Some(event(2).1)), (3, None)],
        vec![(3, None), (2, None), (9, None)],
    ] {
        assert_eq!(
            lost(events),
            rows(&[("citations", 1), ("event_ids", 2), ("events", 2)])
        );
    }
    // What stands between ordinals that are looked for stays.
    assert_eq!(
        lost(vec![(1, None), (3, None)]),
        rows(&[("citations", 2), ("event_ids", 2), ("events", 2)])
    );
}

pub fn what_another_log_made_of_a_key_since_stays<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>(1..=2);
    let taken = Writes {
        view: Some(ViewWrites {
            view: view(1),
            log_no: 2,
            mark: 1,
            entries: vec![(b"a".to_vec(), Some(b"other".to_vec()))],
        }),
        ..Writes::default()
    };
    write(&engine, &taken).unwrap();
    let without = erasing(vec![Erase::ViewEntries { log_no: 1 }]);
    write(&engine, &without).unwrap();
    read(&engine, |s| {
        let entries = s.view_entries(1, b"", None, Newer, 9).unwrap();
        assert_eq!(entries, [(b"a".to_vec(), b"other".to_vec())]);
        assert_eq!(
            (s.view_mark(1, 1).unwrap(), s.view_mark(1, 2).unwrap()),
            (0, 1)
        );
    });
    engine.check().unwrap();
}

pub fn a_rewritten_store_has_every_row_and_goes_on<P: EnginePlace>() {
    let (place, engine) = place_with::<P>(1..=3);
    let before = place.counts(&engine);
    engine.rewrite().unwrap();
    assert_eq!(place.counts(&engine), before);
    check_everything(&engine, 2);
    check_journal(&engine, 1, 3);
    write(&engine, &everything(4)).unwrap();
    drop(engine);
    let engine = place.open();
    engine.check().unwrap();
    for n in 1..=4 {
        check_everything(&engine, n);
    }
}
