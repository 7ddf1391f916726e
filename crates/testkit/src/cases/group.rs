//! Batches that share a commit, and the queue in which they wait for it.

use crate::check::{Bench, code, poll_once, session_id};
use crate::conformance::{Case, StorePlace};
use folio_core::EventId;
use folio_store::{
    AppendBatch, Committed, ErrorKind, Flush, MAX_BATCH_BYTES, NewSession, QUEUE_BYTES, Room,
    Store, StoreError,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("group":
    a_refused_batch_is_refused_alone,
    a_batch_sees_those_before_it,
    sessions_are_created_in_one_commit,
    what_may_wait_goes_with_the_next_commit,
    a_window_ends,
    flushing_does_not_wait_for_a_window,
    closing_commits_what_may_wait: Durable,
    a_dropped_wait_changes_nothing,
    a_failed_commit_is_that_of_every_batch_in_it: FailedCommit,
    a_full_queue_says_so,
    room_is_given_when_there_is_some,
    a_reserved_batch_needs_no_other_room,
    a_batch_must_fit_its_room,
    a_closed_store_has_no_room,
);

type Place = Box<dyn StorePlace>;
type Append<'a> = Pin<Box<dyn Future<Output = Result<Committed, StoreError>> + Send + 'a>>;

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3_600);
/// Longer than an answer takes on the slowest machine.
const LONG: Duration = Duration::from_secs(20);

fn may_wait(mut batch: AppendBatch) -> AppendBatch {
    batch.flush = Flush::Within(NEVER);
    batch
}

/// Hands batches over, each of which may wait for the others.
fn hand_over<'a>(s: &'a Bench, batches: Vec<AppendBatch>) -> Vec<Append<'a>> {
    let mut appends = Vec::with_capacity(batches.len());
    for batch in batches {
        let mut append = s.store.append(&s.session, may_wait(batch));
        assert!(poll_once(&mut append).is_pending(), "it may wait");
        appends.push(append);
    }
    appends
}

async fn outcomes(appends: Vec<Append<'_>>) -> Vec<Result<Committed, &'static str>> {
    let mut outcomes = Vec::with_capacity(appends.len());
    for append in appends {
        outcomes.push(append.await.map_err(|error| error.code()));
    }
    outcomes
}

fn ordinals(outcome: &Result<Committed, &'static str>) -> Result<Vec<u64>, &'static str> {
    let committed = outcome.as_ref().map_err(|code| *code)?;
    Ok(committed.events.iter().map(|event| event.ordinal).collect())
}

async fn a_refused_batch_is_refused_alone(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut user = |id: &str, text: &str| AppendBatch::native(vec![s.events.user(id, text)]);
    let batches = vec![
        user("a", "1"),
        user("a", "another"),
        user("b", "2"),
        AppendBatch {
            expected_head: Some(9),
            ..user("c", "3")
        },
        user("d", "4"),
    ];
    let appends = hand_over(&s, batches);
    s.store.flush().await.unwrap();
    let outcomes = outcomes(appends).await;
    let told: Vec<_> = outcomes.iter().map(ordinals).collect();
    assert_eq!(
        told,
        [
            Ok(vec![1]),
            Err("event_id_conflict"),
            Ok(vec![2]),
            Err("head_mismatch"),
            Ok(vec![3]),
        ]
    );
    assert_eq!(s.info().await.head, 3);
    s.is_sound().await;
}

async fn a_batch_sees_those_before_it(place: Place) {
    let mut s = Bench::open(&*place).await;
    let first = vec![s.events.user("a", "1"), s.events.end("b", "completed")];
    let late = s.events.user("c", "late");
    s.events.enter("r2", "t2");
    let next = AppendBatch {
        expected_head: Some(2),
        ..AppendBatch::native(vec![s.events.user("d", "2")])
    };
    let batches = vec![
        AppendBatch::native(first.clone()),
        AppendBatch::native(vec![late]),
        AppendBatch::native(first),
        next,
    ];
    let appends = hand_over(&s, batches);
    s.store.flush().await.unwrap();
    let outcomes = outcomes(appends).await;
    let told: Vec<_> = outcomes.iter().map(ordinals).collect();
    assert_eq!(
        told,
        [
            Ok(vec![1, 2]),
            Err("run_sealed"),
            Ok(vec![1, 2]),
            Ok(vec![3])
        ]
    );
    let again = outcomes[2].as_ref().unwrap();
    assert!(again.events.iter().all(|event| event.present));
    s.is_sound().await;
}

async fn sessions_are_created_in_one_commit(place: Place) {
    let s = Bench::open(&*place).await;
    let create = |n: usize| {
        let session = NewSession::native(session_id(&format!("new-{n}")));
        s.store.create_session(session)
    };
    // The first makes the writer busy; the others come while it is.
    let mut created: Vec<_> = (0..40).map(|n| create(n % 30)).collect();
    for create in &mut created {
        // Whether it is ready does not matter.
        let _ = poll_once(create);
    }
    s.store.flush().await.unwrap();
    for n in 0..30 {
        let id = session_id(&format!("new-{n}"));
        assert_eq!(s.store.session(&id).await.unwrap().head, 0);
    }
    drop(created);
    assert_eq!(code(create(3).await), "session_exists");
}

async fn what_may_wait_goes_with_the_next_commit(place: Place) {
    let mut s = Bench::open(&*place).await;
    let other = crate::check::create(&*s.store, "s2").await;
    let waits = AppendBatch::native(vec![s.events.user("a", "1")]);
    let appends = hand_over(&s, vec![waits]);
    assert_eq!(s.info().await.head, 0, "nothing made it commit");
    let now = crate::event::Events::new("s2").user("b", "2");
    crate::check::append(&*s.store, &other, vec![now]).await;
    assert_eq!(s.info().await.head, 1);
    assert!(outcomes(appends).await[0].is_ok());
}

async fn a_window_ends(place: Place) {
    let mut s = Bench::open(&*place).await;
    let batch = AppendBatch {
        flush: Flush::Within(Duration::from_millis(5)),
        ..AppendBatch::native(vec![s.events.user("a", "1")])
    };
    let (store, session) = (Arc::clone(&s.store), s.session.clone());
    let (answer, answers) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime for one thread");
        // Nobody may be left to hear it.
        drop(answer.send(runtime.block_on(store.append(&session, batch))));
    });
    let committed = answers.recv_timeout(LONG).expect("the window ends");
    assert_eq!(committed.unwrap().high_water, 1);
}

async fn flushing_does_not_wait_for_a_window(place: Place) {
    let mut s = Bench::open(&*place).await;
    let batches = ["a", "b"].map(|id| AppendBatch::native(vec![s.events.user(id, id)]));
    let appends = hand_over(&s, batches.into());
    s.store.flush().await.unwrap();
    assert_eq!(s.info().await.head, 2);
    assert!(outcomes(appends).await.iter().all(Result::is_ok));
}

async fn closing_commits_what_may_wait(place: Place) {
    let mut s = Bench::open(&*place).await;
    let batches = vec![AppendBatch::native(vec![s.events.user("a", "1")])];
    let appends = hand_over(&s, batches);
    s.store.close().await.unwrap();
    let again = place.reopen().await.unwrap();
    assert_eq!(again.session(&s.session).await.unwrap().head, 1);
    assert!(outcomes(appends).await[0].is_ok(), "and it is answered");
}

async fn a_dropped_wait_changes_nothing(place: Place) {
    let mut s = Bench::open(&*place).await;
    let batches = ["a", "b", "c"].map(|id| AppendBatch::native(vec![s.events.user(id, id)]));
    let mut appends = hand_over(&s, batches.into());
    let last = appends.split_off(2);
    drop(appends);
    s.store.flush().await.unwrap();
    assert_eq!(ordinals(&outcomes(last).await[0]), Ok(vec![3]));
    assert_eq!(s.info().await.head, 3);
}

async fn a_failed_commit_is_that_of_every_batch_in_it(place: Place) {
    let mut s = Bench::open(&*place).await;
    let user = s.events.user("a", "1");
    s.append(vec![user]).await;
    let mut user = |id: &str, text: &str| AppendBatch::native(vec![s.events.user(id, text)]);
    let batches = vec![user("b", "2"), user("a", "another"), user("c", "3")];
    let appends = hand_over(&s, batches);
    place.fail_next_commit().await.unwrap();
    s.store.flush().await.unwrap();
    let outcomes = outcomes(appends).await;
    let told: Vec<_> = outcomes.iter().map(ordinals).collect();
    assert_eq!(
        told,
        [
            Err("indeterminate"),
            Err("event_id_conflict"),
            Err("indeterminate")
        ]
    );
    let ids = ["b", "c"].map(|id| EventId::new(id).unwrap());
    let known = s.store.lookup_ids(&s.session, &ids).await.unwrap();
    assert_eq!(known[0].is_some(), known[1].is_some(), "they shared it");
    s.is_sound().await;
}

/// Takes all the room there is.
async fn fill(store: &dyn Store) -> Vec<Room> {
    let mut rooms = Vec::new();
    let mut bytes = MAX_BATCH_BYTES;
    while bytes > 0 {
        let mut reserve = store.reserve(bytes);
        match poll_once(&mut reserve) {
            Poll::Ready(room) => rooms.push(room.unwrap()),
            Poll::Pending => bytes /= 2,
        }
        let most = 2 * QUEUE_BYTES / MAX_BATCH_BYTES + 64;
        assert!(rooms.len() <= most, "there is no end of room");
    }
    rooms
}

async fn a_full_queue_says_so(place: Place) {
    let mut s = Bench::open(&*place).await;
    let rooms = fill(&*s.store).await;
    let event = s.events.user("a", "1");
    let mut append = s
        .store
        .append(&s.session, AppendBatch::native(vec![event.clone()]));
    let Poll::Ready(refused) = poll_once(&mut append) else {
        unreachable!("an append without room does not wait for it");
    };
    let error = refused.unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, "backpressure")
    );
    drop(append);
    // A full queue is no failure of what is in it.
    s.store.flush().await.unwrap();
    drop(rooms);
    s.store.flush().await.unwrap();
    assert_eq!(s.info().await.head, 0, "what was refused was not accepted");
    s.append(vec![event]).await;
    assert_eq!(s.info().await.head, 1);
}

async fn room_is_given_when_there_is_some(place: Place) {
    let s = Bench::open(&*place).await;
    let mut rooms = fill(&*s.store).await;
    let mut reserve = s.store.reserve(100_000);
    assert!(poll_once(&mut reserve).is_pending(), "there is none");
    drop(rooms.remove(0));
    let Poll::Ready(room) = poll_once(&mut reserve) else {
        unreachable!("there is room");
    };
    assert_eq!(room.unwrap().bytes(), 100_000);
}

async fn a_reserved_batch_needs_no_other_room(place: Place) {
    let mut s = Bench::open(&*place).await;
    let batch = AppendBatch::native(vec![s.events.user("a", "1")]);
    let room = s.store.reserve(batch.bytes()).await.unwrap();
    let _rooms = fill(&*s.store).await;
    let appended = s.store.append_reserved(room, &s.session, batch).await;
    assert_eq!(appended.unwrap().high_water, 1);
    // Its room is free again.
    let next = AppendBatch::native(vec![s.events.user("b", "2")]);
    let room = s.store.reserve(next.bytes()).await.unwrap();
    let appended = s.store.append_reserved(room, &s.session, next).await;
    assert_eq!(appended.unwrap().high_water, 2);
}

async fn a_batch_must_fit_its_room(place: Place) {
    let mut s = Bench::open(&*place).await;
    let batch = AppendBatch::native(vec![s.events.user("a", "some text")]);
    let room = s.store.reserve(batch.bytes() - 1).await.unwrap();
    let refused = s
        .store
        .append_reserved(room, &s.session, batch.clone())
        .await;
    assert_eq!(code(refused), "room_exceeded");
    assert_eq!(s.info().await.head, 0);
    let room = s.store.reserve(batch.bytes()).await.unwrap();
    let appended = s.store.append_reserved(room, &s.session, batch).await;
    assert_eq!(appended.unwrap().high_water, 1);
}

async fn a_closed_store_has_no_room(place: Place) {
    let mut s = Bench::open(&*place).await;
    let batch = AppendBatch::native(vec![s.events.user("a", "1")]);
    let room = s.store.reserve(batch.bytes()).await.unwrap();
    let rooms = fill(&*s.store).await;
    let mut waits = s.store.reserve(1);
    assert!(poll_once(&mut waits).is_pending());
    s.store.close().await.unwrap();
    assert_eq!(code(waits.await), "store_closed");
    drop(rooms);
    assert_eq!(code(s.store.reserve(1).await), "store_closed");
    let refused = s.store.append_reserved(room, &s.session, batch).await;
    assert_eq!(code(refused), "store_closed");
}
