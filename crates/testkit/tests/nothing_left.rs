//! What deletions leave below the store, on a disk that can be looked at:
//! nothing.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; what is unwrapped is what it claims"
)]

use folio_codec::{counted, hash64};
use folio_core::item::{Lane, Position};
use folio_core::{CanonicalEvent, Direction, Fact, FactOp, ForeignId, SessionId};
use folio_store::engine::Snapshot;
use folio_store::{AppendBatch, ContributionBatch, Store, ViewBatch};
use folio_store_memory::Tables;
use folio_testkit::check::{append, create, fork, is_sound, poll_once, session_id, written_for};
use folio_testkit::conformance::{Damage, StorePlace};
use folio_testkit::simulated::SimulatedPlace;
use folio_testkit::workload::{Random, random};

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(test);
}

/// The tables that still hold something, by what was ever numbered.
fn left(tables: &Tables, events: &[CanonicalEvent]) -> Vec<String> {
    let mut left = Vec::new();
    let mut note = |what: String, count: usize| {
        if count > 0 {
            left.push(format!("{count} of {what}"));
        }
    };
    let counters = tables.counters().unwrap();
    let all = usize::MAX;
    note("sessions".into(), tables.sessions(None, all).unwrap().len());
    note("erasures".into(), tables.scrubs().unwrap().len());
    // The newest row of the journal stays, so that no number is used twice.
    let commits = tables.commits(0).unwrap().len();
    note("old commits".into(), commits.saturating_sub(1));
    note("blobs".into(), tables.blobs(None, all).unwrap().len());
    note("stages".into(), tables.stages(0, all).unwrap().len());
    for no in 1..=counters.blob_no {
        let piece = tables.piece(no, 0).unwrap();
        note(format!("pieces {no}"), piece.iter().count());
    }
    for no in 1..=counters.log_no {
        let of = |what: &str| format!("{what} of log {no}");
        let session = tables.session_of_log(no).unwrap();
        note(of("sessions"), session.iter().count());
        note(of("rows"), tables.log(no).unwrap().iter().count());
        let rows = tables.events(no, 0, u64::MAX, all, all).unwrap();
        note(of("events"), rows.len());
        let packs = tables.packs(no, 0, u64::MAX).unwrap();
        note(of("segments"), packs.len());
        note(of("runs"), tables.runs(no, 0, all).unwrap().len());
        note(of("spans"), tables.spans(no).unwrap().len());
        note(of("readers"), tables.spans_of(no, all).unwrap().len());
        note(of("citations"), tables.citations(no, 0, all).unwrap().len());
        note(of("contributions"), tables.contrib_logs(no).unwrap().len());
        for event in events {
            let hash = hash64(event.id.as_str().as_bytes());
            note(of("ids"), tables.event_ids(no, hash).unwrap().len());
            if let Some((stem, _)) = counted(event.id.as_str()) {
                let found = tables.id_run(no, stem, u64::MAX).unwrap();
                note(of("ids that count"), found.iter().count());
            }
            let run = tables.run_by_id(no, event.spine.run_id.as_str());
            note(of("run ids"), run.unwrap().iter().count());
        }
        for view in 1..=counters.view_no {
            let mark = tables.view_mark(view, no).unwrap();
            note(of("marks"), usize::from(mark > 0));
        }
    }
    for no in 1..=counters.view_no {
        let entries = tables.view_entries(no, &[], None, Direction::Newer, all);
        note(format!("entries of view {no}"), entries.unwrap().len());
    }
    for no in 1..=counters.contrib_no {
        let facts = tables.facts(no, 0, all).unwrap().len();
        note(format!("facts of {no}"), facts);
        let facts = tables.facts_by_anchor(no, None, Direction::Newer, all);
        note(format!("anchors of {no}"), facts.unwrap().len());
    }
    for no in 1..=counters.index_no {
        let first = Position {
            ordinal: 0,
            slot: 0,
        };
        let items = tables.items(no, first, Direction::Newer, all).unwrap();
        note(format!("items of index {no}"), items.len());
        for (ordinal, lane) in (1..=events.len() as u64)
            .flat_map(|ordinal| [Lane::Text, Lane::Thinking].map(|lane| (ordinal, lane)))
        {
            let position = Position { ordinal, slot: 0 };
            let segs = tables.segs(no, position, (lane, 0), 0, u64::MAX, all);
            note(format!("chunks of index {no}"), segs.unwrap().len());
        }
    }
    left
}

/// A session with a bit of everything.
async fn fill(store: &dyn Store, session: &SessionId, events: &[CanonicalEvent]) {
    let (last, first) = events.split_last().unwrap();
    append(store, session, first.to_vec()).await;
    let blob = store
        .put_blob(session.as_str().as_bytes().to_vec())
        .await
        .unwrap();
    let note = Fact {
        id: ForeignId::new("note").unwrap(),
        op: FactOp::Put,
        anchor: 1,
        ts: None,
        kind: "mark".into(),
        turn_id: None,
        visible: true,
        data: None,
    };
    let batch = AppendBatch {
        cites: vec![(0, blob.id)],
        contributions: Some(ContributionBatch::new("notes", vec![note])),
        ..AppendBatch::native(vec![last.clone()])
    };
    let batch = written_for(session, batch);
    store.append(session, batch).await.unwrap();
    let view = ViewBatch {
        view: "view".into(),
        version: 1,
        session: session.clone(),
        from: 0,
        to: 1,
        entries: vec![(session.as_str().into(), Some(vec![1]))],
    };
    store.put_view(view).await.unwrap();
}

/// A family of forks in which each has something of its own.
async fn family(
    store: &dyn Store,
    events: &[CanonicalEvent],
    choice: &mut Random,
) -> Vec<SessionId> {
    let first = create(store, "f0").await;
    fill(store, &first, &events[..50]).await;
    let mut all = vec![(first, 50)];
    for n in 1..7 {
        let (parent, head) = all[choice.below(all.len())].clone();
        let at = choice.below(head + 1).min(events.len() - 30);
        let child = fork(store, &parent, at as u64, &format!("f{n}")).await;
        let to = at + 1 + choice.below(29);
        fill(store, &child, &events[at..to]).await;
        all.push((child, to));
    }
    all.into_iter().map(|(session, _)| session).collect()
}

#[test]
fn a_family_that_is_deleted_in_any_order_leaves_nothing() {
    run(async {
        for seed in 0..12 {
            let place = SimulatedPlace::default();
            let events = random(seed, 120);
            let mut choice = Random::new(seed);
            let store = place.open().await.unwrap();
            let mut sessions = family(&*store, &events, &mut choice).await;
            drop(store);
            let store = place.reopen().await.unwrap();
            while !sessions.is_empty() {
                let gone = sessions.remove(choice.below(sessions.len()));
                store.delete_session(&gone, None).await.unwrap();
                for session in &sessions {
                    is_sound(&*store, session).await;
                }
            }
            store.scrub().await.unwrap();
            store.drop_view("view").await.unwrap();
            let tables = place.disk().state().live.clone();
            assert_eq!(left(&tables, &events), Vec::<String>::new(), "seed {seed}");
        }
    });
}

#[test]
fn a_rebuilt_family_leaves_nothing() {
    run(async {
        let place = SimulatedPlace::default();
        let events = random(77, 120);
        let store = place.open().await.unwrap();
        let sessions = family(&*store, &events, &mut Random::new(77)).await;
        for session in &sessions {
            store.rebuild_index(session).await.unwrap();
        }
        drop(store);
        let store = place.reopen().await.unwrap();
        store.delete_session(&sessions[0], None).await.unwrap();
        for session in &sessions[1..] {
            store.rebuild_index(session).await.unwrap();
            store.delete_session(session, None).await.unwrap();
        }
        store.scrub().await.unwrap();
        let tables = place.disk().state().live.clone();
        assert_eq!(left(&tables, &events), Vec::<String>::new());
    });
}

#[test]
fn a_parent_keeps_nothing_behind_what_its_children_read() {
    run(async {
        let place = SimulatedPlace::default();
        let events = random(78, 120);
        let store = place.open().await.unwrap();
        let parent = create(&*store, "parent").await;
        fill(&*store, &parent, &events).await;
        for (n, at) in [30, 70, 40].into_iter().enumerate() {
            fork(&*store, &parent, at, &format!("c{n}")).await;
        }
        let log_no = 1;
        for (child, kept) in [("", 70), ("c1", 40), ("c2", 30)] {
            let gone = if child.is_empty() { "parent" } else { child };
            store.delete_session(&session_id(gone), None).await.unwrap();
            let tables = place.disk().state().live.clone();
            let log = tables.log(log_no).unwrap().unwrap();
            assert_eq!((log.head, log.index_head), (kept, kept));
            let all = usize::MAX;
            let rows = tables.events(log_no, 1, u64::MAX, all, all).unwrap();
            assert_eq!(rows.len() as u64, kept);
            let packs = tables.packs(log_no, kept + 1, u64::MAX).unwrap();
            assert_eq!(packs, []);
            let runs = tables.runs(log_no, 0, all).unwrap();
            assert_eq!(runs.len(), log.runs as usize);
            assert!(runs.iter().all(|run| run.opened <= kept));
            assert!(
                runs.iter()
                    .all(|run| run.terminal.is_none_or(|end| end <= kept))
            );
            let behind = Position {
                ordinal: kept + 1,
                slot: 0,
            };
            let items = tables.items(log.index_no, behind, Direction::Newer, all);
            assert!(items.unwrap().is_empty());
            for event in &events[usize::try_from(kept).unwrap()..] {
                let hash = hash64(event.id.as_str().as_bytes());
                let found = tables.event_ids(log.family, hash).unwrap();
                assert!(found.is_empty(), "{}", event.id);
            }
        }
    });
}

#[test]
fn a_damaged_event_leaves_no_id() {
    run(async {
        let place = SimulatedPlace::default();
        let events = random(79, 60);
        let store = place.open().await.unwrap();
        let parent = create(&*store, "parent").await;
        append(&*store, &parent, events.clone()).await;
        let child = fork(&*store, &parent, 20, "child").await;
        drop(store);
        for ordinal in [10, 40] {
            let damage = Damage::Event(&parent, ordinal);
            place.damage(damage).await.unwrap();
        }
        let store = place.reopen().await.unwrap();
        store.delete_session(&parent, None).await.unwrap();
        store.delete_session(&child, None).await.unwrap();
        store.scrub().await.unwrap();
        let tables = place.disk().state().live.clone();
        assert_eq!(left(&tables, &events), Vec::<String>::new());
    });
}

#[test]
fn a_scrub_leaves_the_deletion_that_begins_meanwhile_to_the_next_one() {
    run(async {
        let place = SimulatedPlace::default();
        let events = random(80, 60);
        let store = place.open().await.unwrap();
        let session = create(&*store, "s1").await;
        append(&*store, &session, events.clone()).await;
        let other = create(&*store, "other").await;
        // What the writer does first takes a while, so that the rest queues.
        let long = written_for(&other, AppendBatch::native(random(81, 3_000)));
        let mut appending = store.append(&other, long);
        let mut scrub = store.scrub();
        let mut deletion = store.delete_session(&session, None);
        // Where a future is ready at once nothing is shown, and nothing wrong.
        let _ = poll_once(&mut appending);
        if poll_once(&mut scrub).is_ready() {
            return;
        }
        // Its first step is done, and nobody waits for the others.
        let _ = poll_once(&mut deletion);
        drop((appending, deletion));
        scrub.await.unwrap();
        store.delete_session(&other, None).await.unwrap();
        store.scrub().await.unwrap();
        let tables = place.disk().state().live.clone();
        assert_eq!(left(&tables, &events), Vec::<String>::new());
    });
}
