//! What an append promises: order, atomicity, idempotency, conflicts, limits.

use crate::check::{Bench, Stop, append, code, create, session_id, stored, wait};
use crate::conformance::{Case, StorePlace};
use crate::event::Events;
use crate::workload::random;
use folio_codec::{EMPTY_CHAIN, chain_next, event_digest};
use folio_core::{CanonicalEvent, EventId, SessionId};
use folio_store::{
    AppendBatch, Committed, ErrorKind, MAX_BATCH_EVENTS, Placement, RangeQuery, Store, StoreError,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Waker};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("append":
    assigns_contiguous_ordinals,
    is_atomic_per_batch,
    an_empty_batch_changes_nothing,
    same_event_id_twice_is_one_fact,
    an_event_is_known_for_ever,
    same_event_id_with_other_content_is_a_conflict,
    a_batch_that_is_present_succeeds_whatever_the_head_and_the_seal,
    a_batch_that_is_partly_present_appends_the_rest,
    stale_expected_head_is_a_conflict_with_both_numbers,
    a_sealed_run_refuses_but_for_the_repeat_of_its_end,
    every_terminal_status_seals_its_run,
    one_run_has_one_terminal_event,
    a_run_keeps_its_invocation_and_turn,
    eight_writers_leave_no_gap,
    ordinals_become_visible_in_order,
    a_future_that_is_not_polled_does_nothing,
    dropped_future_is_all_or_nothing,
    a_batch_has_a_limit_of_events,
    a_batch_has_a_limit_of_bytes,
    an_event_of_another_session_is_refused,
    an_unknown_session_is_not_found,
    the_chain_equals_its_recomputation,
    the_chain_does_not_cover_the_session,
    order_is_by_commit_not_by_time,
    every_event_comes_back_as_it_was,
);

type Place = Box<dyn StorePlace>;

fn ids(ids: &[&str]) -> Vec<EventId> {
    ids.iter().map(|id| EventId::new(*id).unwrap()).collect()
}

fn new(ordinal: u64, event_seq: u64) -> Placement {
    Placement {
        ordinal,
        event_seq,
        present: false,
    }
}

fn present(ordinal: u64, event_seq: u64) -> Placement {
    Placement {
        ordinal,
        event_seq,
        present: true,
    }
}

async fn assigns_contiguous_ordinals(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut first = vec![s.events.user("a", "1")];
    s.events.enter("r2", "t2");
    first.push(s.events.user("b", "2"));
    let second = vec![s.events.user("c", "3")];
    s.events.enter("r1", "t1");
    let third = vec![s.events.user("d", "4"), s.events.end("e", "completed")];
    let committed = s.append(first).await;
    assert_eq!(committed.events, [new(1, 1), new(2, 1)]);
    assert_eq!(committed.high_water, 2);
    let committed = s.append(second).await;
    assert_eq!(committed.events, [new(3, 2)]);
    let committed = s.append(third).await;
    assert_eq!(committed.events, [new(4, 2), new(5, 3)]);
    let info = s.info().await;
    assert_eq!((info.head, info.chain), (5, committed.chain));
    let stored = s.stored().await;
    let places: Vec<_> = stored.iter().map(|e| (e.ordinal, e.event_seq)).collect();
    assert_eq!(places, [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)]);
    assert!(stored.is_sorted_by_key(|event| event.committed_at));
}

async fn is_atomic_per_batch(place: Place) {
    let mut s = Bench::open(&*place).await;
    s.append(vec![s.events.clone().user("a", "1")]).await;
    let runs = s.store.runs(&s.session, 0, 10).await.unwrap();
    s.events.enter("r2", "t2");
    let good = [s.events.user("b", "2"), s.events.user("c", "3")];
    s.events.enter("r1", "t1");
    let bad = s.events.user("a", "another");
    for at in 0..=good.len() {
        let mut batch = good.to_vec();
        batch.insert(at, bad.clone());
        assert_eq!(s.refused_code(batch).await, "event_id_conflict");
    }
    let known = s.store.lookup_ids(&s.session, &ids(&["b", "c"])).await;
    assert_eq!(known.unwrap(), [None, None]);
    assert_eq!(s.store.runs(&s.session, 0, 10).await.unwrap(), runs);
    assert_eq!(s.rows().await.len(), 1);
    s.append(good.to_vec()).await;
    s.is_sound().await;
}

async fn an_empty_batch_changes_nothing(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    let before = s.append(vec![event]).await;
    let committed = s.append(Vec::new()).await;
    assert_eq!(committed.events, []);
    assert_eq!(committed.high_water, 1);
    assert_eq!(committed.chain, before.chain);
}

async fn same_event_id_twice_is_one_fact(place: Place) {
    let mut s = Bench::open(&*place).await;
    let (a, b) = (s.events.user("a", "1"), s.events.user("b", "2"));
    let committed = s.append(vec![a.clone(), a.clone(), b.clone()]).await;
    assert_eq!(committed.events, [new(1, 1), present(1, 1), new(2, 2)]);
    let again = s.append(vec![b, a]).await;
    assert_eq!(again.events, [present(2, 2), present(1, 1)]);
    assert_eq!((again.high_water, again.chain), (2, committed.chain));
    assert_eq!(s.stored().await.len(), 2);
    assert_eq!(s.rows().await.len(), 2);
}

async fn an_event_is_known_for_ever(place: Place) {
    let mut s = Bench::open(&*place).await;
    let first = s.events.user("first", "1");
    s.append(vec![first.clone()]).await;
    let many = (0..MAX_BATCH_EVENTS).map(|n| s.events.user(&format!("e{n}"), "text"));
    let many: Vec<_> = many.collect();
    let head = s.append(many).await.high_water;
    let again = s.append(vec![first]).await;
    assert_eq!(again.events, [present(1, 1)]);
    assert_eq!(again.high_water, head);
    let known = s.store.lookup_ids(&s.session, &ids(&["first"])).await;
    assert_eq!(known.unwrap()[0].map(|known| known.ordinal), Some(1));
    let other = s.events.user("first", "2");
    assert_eq!(s.refused_code(vec![other]).await, "event_id_conflict");
}

async fn same_event_id_with_other_content_is_a_conflict(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut clock = s.events.clone();
    let mut moved = s.events.clone();
    let mut body = s.events.clone();
    let a = s.events.user("a", "1");
    s.append(vec![a]).await;
    clock.at(1);
    moved.enter("r1", "t2");
    for other in [
        body.user("a", "2"),
        clock.user("a", "1"),
        moved.user("a", "1"),
        s.events.raw(
            "a",
            "\"role\":\"user\",\"author\":\"host\",\"content\":{\"kind\":\"text\",\"text\":\"1\"}",
        ),
    ] {
        let error = s.refused(AppendBatch::native(vec![other])).await;
        assert_eq!(error.code(), "event_id_conflict");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    let twice = vec![s.events.user("n", "1"), s.events.user("n", "2")];
    assert_eq!(s.refused_code(twice).await, "event_id_conflict");
}

async fn a_batch_that_is_present_succeeds_whatever_the_head_and_the_seal(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![s.events.user("a", "1"), s.events.end("b", "completed")];
    let committed = s.append(events.clone()).await;
    for expected in [None, Some(0), Some(1), Some(2), Some(77)] {
        let batch = AppendBatch {
            expected_head: expected,
            ..AppendBatch::native(events.clone())
        };
        let again = s.store.append(&s.session, batch).await.unwrap();
        assert_eq!(again.events, [present(1, 1), present(2, 2)]);
        assert_eq!((again.high_water, again.chain), (2, committed.chain));
    }
}

async fn a_batch_that_is_partly_present_appends_the_rest(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events: Vec<_> = ["a", "b", "c"].map(|id| s.events.user(id, id)).into();
    s.append(events[..2].to_vec()).await;
    let stale = AppendBatch {
        expected_head: Some(0),
        ..AppendBatch::native(events.clone())
    };
    assert_eq!(s.refused(stale).await.code(), "head_mismatch");
    let committed = s.append(events).await;
    assert_eq!(committed.events, [present(1, 1), present(2, 2), new(3, 3)]);
}

async fn stale_expected_head_is_a_conflict_with_both_numbers(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut batch = |id: &str, expected| AppendBatch {
        expected_head: Some(expected),
        ..AppendBatch::native(vec![s.events.user(id, "text")])
    };
    let (first, stale, ahead, right) = (batch("a", 0), batch("b", 0), batch("b", 5), batch("c", 1));
    s.store.append(&s.session, first).await.unwrap();
    for (batch, expected) in [(stale, 0), (ahead, 5)] {
        let error = s.refused(batch).await;
        assert_eq!(error.code(), "head_mismatch");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.ordinals(), [expected, 1]);
    }
    let committed = s.store.append(&s.session, right).await.unwrap();
    assert_eq!(committed.high_water, 2);
}

async fn a_sealed_run_refuses_but_for_the_repeat_of_its_end(place: Place) {
    let mut s = Bench::open(&*place).await;
    let end = s.events.end("end", "completed");
    let late = s.events.user("late", "too late");
    let both = vec![end.clone(), late.clone()];
    assert_eq!(s.refused_code(both).await, "run_sealed");
    s.append(vec![s.events.clone().user("a", "1"), end.clone()])
        .await;
    let error = s.refused(AppendBatch::native(vec![late.clone()])).await;
    assert_eq!(error.code(), "run_sealed");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.ordinals(), [2], "it names the end");
    assert_eq!(s.refused_code(vec![end.clone(), late]).await, "run_sealed");
    let again = s.append(vec![end]).await;
    assert_eq!(again.events, [present(2, 2)]);
    // Another run of the same turn is free.
    s.events.enter("r2", "t1");
    let event = s.events.user("b", "2");
    assert_eq!(s.append(vec![event]).await.events, [new(3, 1)]);
}

async fn every_terminal_status_seals_its_run(place: Place) {
    let mut s = Bench::open(&*place).await;
    for (n, members) in [
        "\"status\":\"completed\"",
        "\"status\":\"failed\"",
        "\"status\":\"aborted\"",
        "\"status\":\"cancelled\"",
        "\"actions\":{\"endInvocation\":true}",
    ]
    .into_iter()
    .enumerate()
    {
        s.events.enter(&format!("r{n}"), "t1");
        let members = format!("\"role\":\"system\",\"author\":\"system\",{members}");
        let end = s.events.raw(&format!("end-{n}"), &members);
        s.append(vec![end]).await;
        let late = s.events.user("late", "too late");
        assert_eq!(s.refused_code(vec![late]).await, "run_sealed");
    }
    s.events.enter("open", "t2");
    for (id, members) in [
        ("x", "\"status\":\"streaming\""),
        ("y", "\"actions\":{\"endInvocation\":false}"),
    ] {
        let members = format!("\"role\":\"system\",\"author\":\"system\",{members}");
        let event = s.events.raw(id, &members);
        s.append(vec![event]).await;
    }
}

async fn one_run_has_one_terminal_event(place: Place) {
    let mut s = Bench::open(&*place).await;
    let ends = [s.events.end("a", "completed"), s.events.end("b", "failed")];
    assert_eq!(s.refused_code(ends.to_vec()).await, "run_sealed");
    let [first, second] = ends;
    s.append(vec![first]).await;
    assert_eq!(s.refused_code(vec![second]).await, "run_sealed");
    let runs = s.store.runs(&s.session, 0, 10).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].terminal, Some(1));
}

async fn a_run_keeps_its_invocation_and_turn(place: Place) {
    let mut s = Bench::open(&*place).await;
    let spine = |id: &str, invocation: &str, run: &str, turn: &str| -> CanonicalEvent {
        let text = format!(
            "{{\"id\":\"{id}\",\"invocationId\":\"{invocation}\",\"runId\":\"{run}\",\"sessionId\":\"s1\",\"turnId\":\"{turn}\",\"ts\":1,\"partial\":false,\"role\":\"system\",\"author\":\"host\"}}"
        );
        CanonicalEvent::new(&folio_core::RuntimeEvent::from_json(&text).unwrap()).unwrap()
    };
    let first = spine("a", "i1", "r1", "t1");
    let others = [
        spine("b", "i2", "r1", "t1"),
        spine("b", "i1", "r1", "t2"),
        spine("b", "i1", "r2", "t1"),
    ];
    for other in &others {
        let both = vec![first.clone(), other.clone()];
        assert_eq!(s.refused_code(both).await, "run_conflict");
    }
    s.append(vec![first]).await;
    for other in &others {
        let error = s.refused(AppendBatch::native(vec![other.clone()])).await;
        assert_eq!(error.code(), "run_conflict");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    s.append(vec![spine("b", "i2", "r2", "t1")]).await;
    // A sealed run keeps them as well.
    s.events.enter("r3", "t3");
    let end = s.events.end("end", "completed");
    s.append(vec![end]).await;
    let other = spine("c", "i-r3", "r4", "t3");
    assert_eq!(s.refused_code(vec![other]).await, "run_conflict");
}

async fn eight_writers_leave_no_gap(place: Place) {
    const WRITERS: usize = 8;
    const BATCHES: usize = 25;
    let s = Bench::open(&*place).await;
    let write = |writer: usize| {
        let (store, session) = (Arc::clone(&s.store), s.session.clone());
        std::thread::spawn(move || -> Vec<Committed> {
            let run = format!("r{writer}");
            let mut events = Events::new("s1").run(&run, &run);
            (0..BATCHES)
                .map(|batch| {
                    let batch = (0..1 + batch % 5)
                        .map(|k| events.user(&format!("w{writer}-{batch}-{k}"), "text"))
                        .collect();
                    wait(append(&*store, &session, batch))
                })
                .collect()
        })
    };
    let threads: Vec<_> = (0..WRITERS).map(write).collect();
    let mut ordinals = Vec::new();
    for thread in threads {
        let mut seq = 0;
        let mut last = 0;
        for committed in thread.join().expect("the writer ended well") {
            let first = committed.events[0].ordinal;
            assert!(first > last, "a writer's batches stay in order");
            for (placement, ordinal) in committed.events.iter().zip(first..) {
                seq += 1;
                assert_eq!(*placement, new(ordinal, seq), "a batch is one piece");
                ordinals.push(ordinal);
            }
            last = committed.events.last().map_or(0, |event| event.ordinal);
            assert_eq!(committed.high_water, last);
        }
    }
    ordinals.sort_unstable();
    let head = (WRITERS * BATCHES * 3) as u64;
    assert_eq!(ordinals, (1..=head).collect::<Vec<_>>());
    assert_eq!(s.info().await.head, head);
    s.is_sound().await;
}

async fn ordinals_become_visible_in_order(place: Place) {
    let s = Bench::open(&*place).await;
    let stop = Stop::default();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, session) = (Arc::clone(&s.store), s.session.clone());
            std::thread::spawn(move || {
                let run = format!("r{writer}");
                let mut events = Events::new("s1").run(&run, &run);
                for k in 0..60 {
                    let batch = vec![
                        events.user(&format!("w{writer}-{k}a"), "text"),
                        events.user(&format!("w{writer}-{k}b"), "text"),
                    ];
                    wait(append(&*store, &session, batch));
                }
            })
        })
        .collect();
    let (store, session, told) = (Arc::clone(&s.store), s.session.clone(), stop.told());
    let reader = std::thread::spawn(move || {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let last = told();
            let head = wait(store.session(&session)).unwrap().head;
            assert!(head >= seen.len() as u64, "the head only grows");
            let query = RangeQuery {
                from: seen.len() as u64 + 1,
                to: u64::MAX,
                max_count: 1_000,
                max_bytes: usize::MAX,
            };
            // A reader that moves its bookmark on misses nothing below it.
            for event in wait(store.range(&session, query)).unwrap() {
                assert_eq!(event.ordinal, seen.len() as u64 + 1);
                seen.push(event.view().unwrap().id.to_owned());
            }
            assert!(seen.len() as u64 >= head, "what the head covers is there");
            if last {
                return seen;
            }
        }
    });
    for writer in writers {
        writer.join().expect("the writer ended well");
    }
    drop(stop);
    let seen = reader.join().expect("the reader ended well");
    assert_eq!(seen.len(), 4 * 60 * 2);
    for pair in seen.chunks(2) {
        let [a, b] = pair else {
            unreachable!("batches of two")
        };
        assert_eq!(a.trim_end_matches('a'), b.trim_end_matches('b'));
    }
    let stored = s.stored().await;
    let ids: Vec<_> = stored
        .iter()
        .map(|e| e.view().unwrap().id.to_owned())
        .collect();
    assert_eq!(ids, seen, "what was seen did not change");
}

async fn a_future_that_is_not_polled_does_nothing(place: Place) {
    let mut s = Bench::open(&*place).await;
    let batch = AppendBatch::native(vec![s.events.user("a", "1")]);
    drop(s.store.append(&s.session, batch));
    s.store.flush().await.unwrap();
    assert_eq!(s.info().await.head, 0);
}

async fn dropped_future_is_all_or_nothing(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut head = 0;
    for n in 0..20 {
        let batch: Vec<_> = (0..5)
            .map(|k| s.events.user(&format!("e{n}-{k}"), "text"))
            .collect();
        let ids: Vec<_> = batch.iter().map(|event| event.id.clone()).collect();
        {
            let mut append = s
                .store
                .append(&s.session, AppendBatch::native(batch.clone()));
            let mut context = Context::from_waker(Waker::noop());
            // Whether it was ready does not matter: it is dropped now.
            let _ = append.as_mut().poll(&mut context);
        }
        s.store.flush().await.unwrap();
        let known = s.store.lookup_ids(&s.session, &ids).await.unwrap();
        let there = known.iter().flatten().count();
        assert!(there == 0 || there == 5, "{there} of a batch of 5");
        assert_eq!(s.info().await.head, head + there as u64);
        // Saying it again makes it so, whatever became of it.
        head = s.append(batch).await.high_water;
    }
    assert_eq!(head, 100);
    s.is_sound().await;
}

async fn a_batch_has_a_limit_of_events(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut events: Vec<_> = (0..=MAX_BATCH_EVENTS)
        .map(|n| s.events.user(&format!("e{n}"), "text"))
        .collect();
    let error = s.refused(AppendBatch::native(events.clone())).await;
    assert_eq!(error.code(), "limit_exceeded");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    events.pop();
    let committed = s.append(events).await;
    assert_eq!(committed.high_water, MAX_BATCH_EVENTS as u64);
}

async fn a_batch_has_a_limit_of_bytes(place: Place) {
    let mut s = Bench::open(&*place).await;
    let half = "x".repeat(folio_store::MAX_BATCH_BYTES / 2);
    let events = vec![s.events.user("a", &half), s.events.user("b", &half)];
    assert_eq!(s.refused_code(events.clone()).await, "limit_exceeded");
    s.append_each(events).await;
    assert_eq!(s.info().await.head, 2);
}

async fn an_event_of_another_session_is_refused(place: Place) {
    // A handle that was mixed up must not write into the wrong conversation.
    let s = Bench::open(&*place).await;
    let mut stray = s.events.clone().user("a", "1");
    stray.session_id = session_id("other");
    let mine = s.events.clone().user("b", "2");
    let batch = AppendBatch::native(vec![mine, stray]);
    let error = s.store.append(&s.session, batch).await.unwrap_err();
    assert_eq!(error.code(), "session_mismatch");
    assert!(error.to_string().contains("other"));
    assert_eq!(s.info().await.head, 0, "nothing of the batch is kept");
}

async fn an_unknown_session_is_not_found(place: Place) {
    let s = Bench::open(&*place).await;
    let (store, nobody) = (&s.store, session_id("nobody"));
    let event = s.events.clone().user("a", "1");
    let batch = crate::check::written_for(&nobody, AppendBatch::native(vec![event]));
    let appended = store.append(&nobody, batch).await;
    let query = crate::check::query(folio_core::Direction::Older, folio_store::Start::Edge);
    let range = RangeQuery {
        from: 1,
        to: 1,
        max_count: 1,
        max_bytes: 1,
    };
    let codes = [
        code(appended),
        code(store.session(&nobody).await),
        code(store.range(&nobody, range).await),
        code(store.events(&nobody, &[1]).await),
        code(store.runs(&nobody, 0, 1).await),
        code(store.lookup_ids(&nobody, &ids(&["a"])).await),
        code(store.read_items(&nobody, query).await),
        code(store.index_status(&nobody).await),
        code(store.rebuild_index(&nobody).await),
        code(store.verify(&nobody).await),
        code(store.contribution_status(&nobody, "notes").await),
        code(store.discard_session(&nobody, 1).await),
    ];
    assert_eq!(codes, ["session_not_found"; 12]);
}

async fn the_chain_equals_its_recomputation(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(11, 300);
    let mut committed = None;
    for batch in events.chunks(17) {
        committed = Some(s.append(batch.to_vec()).await);
    }
    let mut chain = EMPTY_CHAIN;
    let mut sequences: HashMap<&str, u64> = HashMap::new();
    let stored = s.stored().await;
    assert_eq!(stored.len(), events.len());
    for (event, stored) in events.iter().zip(&stored) {
        let digest = event_digest(&event.view(), &event.spine);
        let seq = sequences.entry(event.spine.run_id.as_str()).or_default();
        *seq += 1;
        chain = chain_next(&chain, stored.ordinal, *seq, &digest);
        assert_eq!(stored.chain, Some(chain), "at {}", stored.ordinal);
        assert_eq!(stored.event_seq, *seq);
        let id = std::slice::from_ref(&event.id);
        let known = s.store.lookup_ids(&s.session, id).await.unwrap();
        let known = known[0].expect("it is there");
        assert_eq!((known.ordinal, known.digest), (stored.ordinal, digest));
    }
    assert_eq!(committed.map(|c| c.chain), Some(chain));
    assert_eq!(s.info().await.chain, chain);
}

async fn the_chain_does_not_cover_the_session(place: Place) {
    let s = Bench::open(&*place).await;
    let other = create(&*s.store, "s2").await;
    let events = random(12, 120);
    // Batches have no part in it either.
    s.append(events.clone()).await;
    for batch in events.chunks(7) {
        append(&*s.store, &other, batch.to_vec()).await;
    }
    let chain = async |session: &SessionId| s.store.session(session).await.unwrap().chain;
    assert_eq!(chain(&s.session).await, chain(&other).await);
    let events = s.stored().await;
    let others = stored(&*s.store, &other).await;
    for (a, b) in events.iter().zip(&others) {
        assert_eq!((a.chain, &a.body), (b.chain, &b.body));
    }
}

async fn order_is_by_commit_not_by_time(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut texts = Vec::new();
    for (n, ts) in [5_000_000, 1_400_000, 5_000_000, 1, 9_000_000]
        .into_iter()
        .enumerate()
    {
        s.events.at(ts);
        let id = format!("e{n}");
        let event = s.events.user(&id, &id);
        s.append(vec![event]).await;
        texts.push(format!("user::{id}"));
    }
    assert_eq!(crate::check::keys(&s.rows().await), texts);
}

async fn every_event_comes_back_as_it_was(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(13, 400);
    for batch in events.chunks(40) {
        s.append(batch.to_vec()).await;
    }
    for (event, stored) in events.iter().zip(&s.stored().await) {
        let view = stored.view().unwrap();
        let json = folio_core::canonical::event_json(&view, &stored.spine, &s.session);
        assert_eq!(json.into_whole(), Some(event.to_json(&s.session)));
    }
}

// A store must be usable as a trait object from any thread.
const _: fn() = || {
    fn sends<T: Send + Sync + ?Sized>() {}
    sends::<dyn Store>();
    sends::<StoreError>();
};
