//! What is written comes back, whole and in order.
#![expect(missing_docs, reason = "the name of a case says what holds")]

use super::rows::*;
use super::{EnginePlace, place_with, read, write};
use folio_core::Direction::{Newer, Older};
use folio_core::assign::Tail;
use folio_core::item::Lane;
use folio_core::{Authority, Item};
use folio_store::engine::{Counters, Engine, ItemWrite, ViewWrites, Writes};
use folio_store::rows::{BlobRow, CommitRow, FactRow, FoundEvent, FoundPack, IdRunRow, ScrubRow};

pub(super) fn ordinals(found: &[FoundEvent]) -> Vec<u64> {
    found.iter().map(FoundEvent::ordinal).collect()
}

pub(super) fn numbers(items: &[Item]) -> Vec<u64> {
    items.iter().map(|item| item.number).collect()
}

fn sequences(facts: &[FactRow]) -> Vec<u64> {
    facts.iter().map(|fact| fact.seq).collect()
}

pub(super) fn firsts(found: &[FoundPack]) -> Vec<u64> {
    let first = |pack: &FoundPack| match pack {
        FoundPack::Whole(row) => row.first,
        FoundPack::Damaged { first } => *first,
    };
    found.iter().map(first).collect()
}

/// Asserts that the rows of the commit journal from one to another are there.
pub(super) fn check_journal(engine: &impl Engine, first: u64, last: u64) {
    read(engine, |s| {
        assert_eq!(s.journal().unwrap(), Some((first, last)));
        let rows: Vec<_> = (first..=last).map(commit).collect();
        assert_eq!(s.commits(0).unwrap(), rows);
        assert_eq!(s.commits(first).unwrap(), rows[1..]);
        assert_eq!(s.commits(last).unwrap(), []);
        assert_eq!(s.commits(u64::MAX).unwrap(), []);
    });
}

/// Asserts that all of a session is there, by every way that finds it.
pub fn check_everything(engine: &impl Engine, n: u64) {
    let all = everything(n);
    read(engine, |snapshot| {
        let id = format!("session-{n}");
        let session = all.sessions.first().cloned();
        assert_eq!(snapshot.session(&id).unwrap(), session);
        assert_eq!(snapshot.session_of_log(n).unwrap(), session);
        assert_eq!(snapshot.log(n).unwrap(), all.log);
        assert_eq!(snapshot.spans(n).unwrap(), all.spans);
        assert_eq!(snapshot.spans_of(n, 1).unwrap(), all.spans[1..]);
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

        let packs = PACKS.map(|first| FoundPack::Whole(pack(first)));
        assert_eq!(snapshot.packs(n, 0, u64::MAX).unwrap(), packs);
        for run in &all.id_runs {
            for number in [run.first, run.first + 3] {
                let found = snapshot.id_run(n, &run.stem, number).unwrap();
                assert_eq!(found.as_ref(), Some(run));
            }
        }
        for (hash, ordinal) in &all.pack_ids {
            assert_eq!(snapshot.event_ids(n, *hash).unwrap(), [(n, *ordinal)]);
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
        assert_eq!(
            snapshot.contrib_log(n, "notes").unwrap().as_ref(),
            Some(contrib)
        );
        let logs = snapshot.contrib_logs(n).unwrap();
        assert_eq!(logs, std::slice::from_ref(contrib));
        assert_eq!(snapshot.facts(n, 0, 9).unwrap(), *facts);

        assert_eq!(snapshot.blob(&sha(n)).unwrap(), Some(blob(n)));
        for (blob_no, piece, content) in &all.pieces {
            let found = snapshot.piece(*blob_no, *piece).unwrap();
            assert_eq!(found.as_ref(), Some(content));
        }
        assert_eq!(snapshot.piece(blob(n).blob_no, 1).unwrap(), None);
        assert!(snapshot.is_cited(&sha(n)).unwrap());
        assert_eq!(snapshot.citations(n, 0, 9).unwrap(), all.citations);

        let writes = all.view.as_ref().unwrap();
        assert_eq!(
            snapshot.view(&format!("view-{n}")).unwrap().as_ref(),
            Some(&writes.view)
        );
        assert_eq!(snapshot.view_mark(n, n).unwrap(), 3);
        let entries = snapshot.view_entries(n, b"", None, Newer, 9).unwrap();
        let written = writes.entries.iter().cloned();
        let written: Vec<_> = written.map(|(key, value)| (key, value.unwrap())).collect();
        assert_eq!(entries, written);
        for (key, value) in written {
            assert_eq!(snapshot.view_value(n, &key).unwrap(), Some(value));
        }
        assert!(snapshot.scrubs().unwrap().contains(&scrub(n)));
    });
}

pub fn every_row_comes_back_also_after_reopening<P: EnginePlace>() {
    let place = P::new();
    let engine = place.open();
    assert_eq!(
        read(&engine, |s| s.counters().unwrap()),
        Counters::default()
    );
    assert_eq!(read(&engine, |s| s.journal().unwrap()), None);
    assert_eq!(read(&engine, |s| s.commits(0).unwrap()), []);
    // Neighbours on both sides: a read that runs over would see them.
    for n in 1..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    check_everything(&engine, 2);
    check_journal(&engine, 1, 3);
    drop(engine);
    let engine = place.open();
    for n in 1..=3 {
        check_everything(&engine, n);
    }
    check_journal(&engine, 1, 3);
    assert_eq!(read(&engine, |s| s.counters().unwrap().numbers()), [3; 7]);
    engine.check().unwrap();
    drop(engine);
    check_everything(&place.open_read_only(), 2);
}

pub fn reads_keep_their_bounds_and_their_order<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>(1..=3);
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

        let packs = |from, to| firsts(&s.packs(2, from, to).unwrap());
        assert_eq!(packs(0, u64::MAX), [11, 12, 21]);
        assert_eq!(packs(11, 12), [11, 12]);
        assert_eq!(packs(12, 20), [12], "a segment is found by its first chunk");
        assert_eq!(packs(13, 20), [0_u64; 0]);
        assert_eq!(packs(22, u64::MAX), [0_u64; 0]);
        assert_eq!(packs(12, 11), [0_u64; 0]);
        let id_run = |stem, n| -> Option<u64> {
            let found = s.id_run(2, stem, n).unwrap();
            found.map(|run: IdRunRow| run.first)
        };
        assert_eq!(id_run("c", 0), Some(0));
        assert_eq!(id_run("c", u64::MAX - 4), Some(0));
        assert_eq!(id_run("c", 1 << 63), Some(0));
        assert_eq!(id_run("c", u64::MAX - 3), Some(u64::MAX - 3));
        assert_eq!(id_run("c", u64::MAX), Some(u64::MAX - 3));
        assert_eq!((id_run("c:2", 4), id_run("c:2", 5)), (None, Some(5)));
        assert_eq!((id_run("", 9), id_run("c:", 9)), (None, None));

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

        let uptos = |limit| -> Vec<_> {
            let found = s.spans_of(2, limit).unwrap();
            found.iter().map(|span| span.upto).collect()
        };
        assert_eq!((uptos(1), uptos(9)), (vec![2], vec![2, 1]));
        assert_eq!(s.blobs(None, 2).unwrap(), [blob(1), blob(2)]);
        assert_eq!(s.blobs(Some(&sha(1)), 9).unwrap(), [blob(2), blob(3)]);
        assert_eq!(s.stages(0, 2).unwrap(), [stage(1), stage(2)]);
        assert_eq!(s.stages(3, 9).unwrap(), [stage(2), stage(3)]);
        assert_eq!(s.citations(2, 2, 9).unwrap(), [(3, sha(2))]);
        assert_eq!(s.citations(2, 0, 1).unwrap(), [(1, sha(2))]);
        let keys = |from: &[u8], to: Option<&[u8]>, direction, limit| -> Vec<_> {
            let found = s.view_entries(2, from, to, direction, limit).unwrap();
            found.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(b"a", None, Newer, 9), KEYS[1..]);
        assert_eq!(keys(b"", Some(b"a"), Newer, 9), KEYS[..1]);
        assert_eq!(keys(b"", Some(b"a\xff"), Older, 9), [KEYS[1], KEYS[0]]);
        assert_eq!(keys(b"a", None, Older, 9), [KEYS[2], KEYS[1]]);
        assert_eq!(keys(b"a", Some(b"b"), Older, 1), [KEYS[2]]);
        assert_eq!(keys(b"b", Some(b"a"), Newer, 9), KEYS[..0]);
        assert_eq!(s.scrubs().unwrap(), [scrub(1), scrub(2), scrub(3)]);
    });
}

pub fn what_is_not_there_is_nothing_whatever_is_asked<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([1]);
    read(&engine, |s| {
        // Also what an engine may have no room for.
        for n in [0, 2, (1 << 30) - 1, 1 << 31, u64::MAX] {
            assert_eq!(s.log(n).unwrap(), None);
            assert_eq!(s.events(n, 0, u64::MAX, 9, 9).unwrap(), []);
            assert_eq!(s.packs(n, 0, u64::MAX).unwrap(), []);
            assert_eq!(s.id_run(n, "c", u64::MAX).unwrap(), None);
            assert_eq!(s.run(n, 1).unwrap(), None);
            assert_eq!(s.items(n, at(0, 0), Newer, 9).unwrap(), []);
            assert_eq!(s.items(n, at(u64::MAX, 255), Older, 9).unwrap(), []);
            assert_eq!(s.items_by_hash(n, u64::MAX).unwrap(), []);
            assert_eq!(s.segs(n, at(1, 0), (Lane::Text, 1), 0, 9, 9).unwrap(), []);
            assert_eq!(s.facts(n, 0, 9).unwrap(), []);
            assert_eq!(s.facts_by_anchor(n, None, Older, 9).unwrap(), []);
            assert_eq!(s.facts_by_id(n, 1).unwrap(), []);
            assert_eq!(s.contrib_logs(n).unwrap(), []);
            assert_eq!(s.session_of_log(n).unwrap(), None);
            assert_eq!(s.spans(n).unwrap(), []);
            assert_eq!(s.spans_of(n, 9).unwrap(), []);
            assert_eq!(s.event_ids(n, u64::MAX - 1).unwrap(), []);
            assert_eq!(s.blob(&sha(n)).unwrap(), None);
            assert!(!s.is_cited(&sha(n)).unwrap());
            assert_eq!(s.piece(n, u32::MAX).unwrap(), None);
            assert_eq!(s.citations(n, 0, 9).unwrap(), []);
            assert_eq!(s.view_value(n, b"a").unwrap(), None);
            assert_eq!(s.view_entries(n, b"", None, Older, 9).unwrap(), []);
            assert_eq!(s.view_mark(n, 1).unwrap(), 0);
            assert_eq!(s.view_mark(1, n).unwrap(), 0);
        }
        assert_eq!(s.packs(1, u64::MAX, u64::MAX).unwrap(), []);
        assert_eq!(s.stages(u64::MAX, 9).unwrap(), []);
        assert_eq!(s.citations(1, u64::MAX, 9).unwrap(), []);
        assert_eq!(s.view("").unwrap(), None);
        assert_eq!(s.session("").unwrap(), None);
    });
}

pub fn rows_with_a_known_key_are_replaced<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([1]);
    let mut shorter = pack(11);
    shorter.last = 13;
    shorter.columns = b"fewer".to_vec();
    let mut later = Writes {
        sessions: vec![session(1)],
        log: Some(log(1)),
        runs: vec![run(2, "t9")],
        items: vec![ItemWrite {
            item: item(1, at(1, 0), "assistant:r1:m"),
            is_new: false,
        }],
        packs: vec![shorter.clone()],
        id_runs: vec![IdRunRow {
            n: 1,
            ..id_run("c", 0, 11)
        }],
        pack_ids: pack_ids()[..1].to_vec(),
        commit: Some(CommitRow {
            body: b"another".to_vec(),
            ..commit(1)
        }),
        contributions: vec![(contrib_log(1), Vec::new())],
        blobs: vec![BlobRow {
            stager: 7,
            ..blob(1)
        }],
        pieces: vec![(blob(1).blob_no, 0, b"shorter".to_vec())],
        view: Some(ViewWrites {
            view: view(1),
            log_no: 2,
            mark: 9,
            entries: vec![(b"".to_vec(), None), (b"a".to_vec(), Some(b"new".to_vec()))],
        }),
        scrubs: vec![ScrubRow {
            log_no: 0,
            ..scrub(1)
        }],
        ..Writes::default()
    };
    if let Some(log) = &mut later.log {
        log.tail = Tail::default();
        log.head = 9;
    }
    later.sessions[0].authority = Authority::RuntimeEvents;
    later.sessions[0].import_ref = None;
    later.sessions[0].lease_holder.clear();
    later.contributions[0].0.head = 8;
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
            s.packs(1, 0, 12).unwrap(),
            [shorter.clone(), pack(12)].map(FoundPack::Whole)
        );
        assert_eq!(s.id_run(1, "c", 9).unwrap().as_ref(), later.id_runs.first());
        assert_eq!(s.event_ids(1, pack_ids()[0].0).unwrap(), [(1, 12)]);
        assert_eq!(s.commits(0).unwrap().first(), later.commit.as_ref());
        assert_eq!(s.journal().unwrap(), Some((1, 1)));
        assert_eq!(
            s.contrib_log(1, "notes").unwrap().as_ref(),
            later.contributions.first().map(|(row, _)| row)
        );
        assert_eq!(s.blob(&sha(1)).unwrap().as_ref(), later.blobs.first());
        let piece = s.piece(blob(1).blob_no, 0).unwrap();
        assert_eq!(piece, Some(b"shorter".to_vec()));
        assert_eq!(s.view_value(1, b"").unwrap(), None);
        assert_eq!(s.view_value(1, b"a").unwrap(), Some(b"new".to_vec()));
        assert_eq!(s.view_mark(1, 1).unwrap(), 3);
        assert_eq!(s.view_mark(1, 2).unwrap(), 9);
        assert_eq!(s.scrubs().unwrap(), later.scrubs);
    });
}

pub fn a_redacted_row_stands_in_the_place_of_the_whole_one<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>(1..=2);
    let (mut redacted, hash) = event(2);
    redacted.body = b"gone".to_vec();
    let gone = FactRow {
        body: "{}".into(),
        withheld: Some([6; 32]),
        ..fact(3, 2, "a")
    };
    let writes = Writes {
        log: Some(log(1)),
        redacted: vec![redacted.clone()],
        redacted_facts: vec![(1, gone.clone())],
        ..Writes::default()
    };
    write(&engine, &writes).unwrap();
    read(&engine, |s| {
        let found = s.events(1, 2, 2, 9, 900).unwrap();
        assert_eq!(found, [FoundEvent::Whole(redacted.clone())]);
        assert_eq!(s.event_ids(1, hash).unwrap(), [(1, 2)]);
        assert_eq!(s.facts(1, 3, 9).unwrap(), std::slice::from_ref(&gone));
        let by_id = s.facts_by_id(1, folio_codec::hash64(b"a")).unwrap();
        assert_eq!(by_id, [fact(1, 2, "a"), gone.clone()]);
    });
    check_everything(&engine, 2);
    // There must be something to take the place of.
    for writes in [
        Writes {
            log: Some(log(1)),
            redacted: vec![event(4).0],
            ..Writes::default()
        },
        Writes {
            redacted_facts: vec![(1, fact(4, 2, "a"))],
            ..Writes::default()
        },
    ] {
        let error = write(&engine, &writes).unwrap_err();
        assert_eq!(error.code(), "row_damaged", "{error}");
    }
}
