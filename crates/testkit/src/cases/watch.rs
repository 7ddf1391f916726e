//! Waiting for a session to go on.

use crate::check::{Bench, append, code, create, poll_once, session_id};
use crate::conformance::{Case, StorePlace};
use crate::event::Events;
use folio_store::{NewSession, Store, StoreError};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("watch":
    what_is_behind_is_told_at_once,
    an_append_wakes,
    other_commits_do_not_wake,
    many_waiters_wake,
    waiters_wait_for_heads_of_their_own,
    a_fork_is_waited_for_by_itself,
    a_wait_that_is_dropped_disturbs_nobody,
    deletion_ends_a_wait,
    closing_ends_a_wait,
    a_closed_store_does_not_wait,
    nobody_waits_for_an_unknown_session,
    a_commit_before_the_first_look_is_not_missed,
    an_append_of_another_handle_wakes: MultiProcess,
    many_wait_for_another_handle: MultiProcess,
    a_deletion_by_another_handle_ends_a_wait: MultiProcess,
    waiting_begins_again_after_a_rest: MultiProcess,
);

type Place = Box<dyn StorePlace>;
type Wait<'a> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send + 'a>>;

/// Longer than anybody may need to notice a commit.
const LONG: Duration = Duration::from_secs(20);

/// Whether the wait goes on, when it is asked now.
fn is_pending(wait: &mut Wait<'_>) -> bool {
    match poll_once(wait) {
        Poll::Pending => true,
        Poll::Ready(answer) => unreachable!("it waits no more: {answer:?}"),
    }
}

/// Runs a wait on a thread of its own.
fn waiting(
    store: &Arc<dyn Store>,
    session: &str,
    after: u64,
) -> std::sync::mpsc::Receiver<Result<u64, StoreError>> {
    let (answer, answers) = std::sync::mpsc::channel();
    let (store, session) = (Arc::clone(store), session_id(session));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime for one thread");
        // Nobody may be left to hear it.
        drop(answer.send(runtime.block_on(store.wait(&session, after))));
    });
    answers
}

fn answer(answers: &std::sync::mpsc::Receiver<Result<u64, StoreError>>) -> Result<u64, StoreError> {
    answers.recv_timeout(LONG).expect("the wait ends")
}

async fn what_is_behind_is_told_at_once(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![s.events.user("a", "1"), s.events.user("b", "2")];
    s.append(events).await;
    for after in [0, 1] {
        assert_eq!(s.store.wait(&s.session, after).await.unwrap(), 2);
    }
}

async fn an_append_wakes(place: Place) {
    let mut s = Bench::open(&*place).await;
    let store = Arc::clone(&s.store);
    let session = s.session.clone();
    for n in 1..=5 {
        let mut wait = store.wait(&session, n - 1);
        assert!(is_pending(&mut wait));
        let event = s.events.user(&format!("e{n}"), "text");
        s.append(vec![event]).await;
        assert_eq!(wait.await.unwrap(), n);
    }
    let answers = waiting(&store, "s1", 5);
    let event = s.events.user("last", "text");
    s.append(vec![event]).await;
    assert_eq!(answer(&answers).unwrap(), 6);
}

async fn other_commits_do_not_wake(place: Place) {
    let mut s = Bench::open(&*place).await;
    let store = Arc::clone(&s.store);
    let session = s.session.clone();
    let event = s.events.user("a", "1");
    s.append(vec![event.clone()]).await;
    let mut wait = store.wait(&session, 1);
    assert!(is_pending(&mut wait));
    let other = create(&*store, "other").await;
    append(&*store, &other, vec![event.clone()]).await;
    s.append(vec![event]).await;
    store.put_blob(b"content".to_vec()).await.unwrap();
    store.rebuild_index(&session).await.unwrap();
    assert!(is_pending(&mut wait), "nothing that it waits for happened");
    let event = s.events.user("b", "2");
    s.append(vec![event]).await;
    assert_eq!(wait.await.unwrap(), 2);
}

async fn many_waiters_wake(place: Place) {
    let mut s = Bench::open(&*place).await;
    let store = Arc::clone(&s.store);
    let session = s.session.clone();
    // Some that are known to wait, and some that other threads begin.
    let mut here: Vec<_> = (0..5).map(|_| store.wait(&session, 0)).collect();
    assert!(here.iter_mut().all(is_pending));
    let all: Vec<_> = (0..20).map(|_| waiting(&s.store, "s1", 0)).collect();
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    for wait in here {
        assert_eq!(wait.await.unwrap(), 1);
    }
    for answers in all {
        assert_eq!(answer(&answers).unwrap(), 1);
    }
}

async fn waiters_wait_for_heads_of_their_own(place: Place) {
    let mut s = Bench::open(&*place).await;
    let store = Arc::clone(&s.store);
    let session = s.session.clone();
    let mut waits: Vec<_> = (0..5).map(|after| store.wait(&session, after)).collect();
    for n in 1..=5 {
        assert!(waits.iter_mut().all(is_pending));
        let event = s.events.user(&format!("e{n}"), "text");
        s.append(vec![event]).await;
        assert_eq!(waits.remove(0).await.unwrap(), n);
    }
}

async fn a_fork_is_waited_for_by_itself(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let child = s.fork(1, "child").await;
    let store = Arc::clone(&s.store);
    assert_eq!(store.wait(&child, 0).await.unwrap(), 1);
    let mut wait = store.wait(&child, 1);
    assert!(is_pending(&mut wait));
    let event = s.events.user("b", "2");
    s.append(vec![event.clone()]).await;
    assert!(is_pending(&mut wait), "its parent is another session");
    append(&*store, &child, vec![event]).await;
    assert_eq!(wait.await.unwrap(), 2);
}

async fn a_wait_that_is_dropped_disturbs_nobody(place: Place) {
    let mut s = Bench::open(&*place).await;
    let store = Arc::clone(&s.store);
    let session = s.session.clone();
    let mut kept = store.wait(&session, 0);
    for _ in 0..50 {
        let mut wait = store.wait(&session, 0);
        assert!(is_pending(&mut wait));
        assert!(is_pending(&mut kept));
    }
    // One that was never polled neither.
    drop(store.wait(&session, 0));
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    assert_eq!(kept.await.unwrap(), 1);
}

async fn deletion_ends_a_wait(place: Place) {
    let s = Bench::open(&*place).await;
    let store = Arc::clone(&s.store);
    let session = s.session.clone();
    let answers = waiting(&store, "s1", 0);
    let mut wait = store.wait(&session, 7);
    assert!(is_pending(&mut wait));
    s.store.delete_session(&session, None).await.unwrap();
    assert_eq!(code(wait.await), "session_not_found");
    assert_eq!(code(answer(&answers)), "session_not_found");
}

async fn closing_ends_a_wait(place: Place) {
    let s = Bench::open(&*place).await;
    let answers = waiting(&s.store, "s1", 0);
    let store = Arc::clone(&s.store);
    let session = s.session.clone();
    let mut wait = store.wait(&session, 0);
    assert!(is_pending(&mut wait));
    s.store.close().await.unwrap();
    assert_eq!(code(wait.await), "store_closed");
    assert_eq!(code(answer(&answers)), "store_closed");
}

async fn a_closed_store_does_not_wait(place: Place) {
    let s = Bench::open(&*place).await;
    s.store.close().await.unwrap();
    assert_eq!(code(s.store.wait(&s.session, 0).await), "store_closed");
}

async fn nobody_waits_for_an_unknown_session(place: Place) {
    let s = Bench::open(&*place).await;
    let nobody = session_id("nobody");
    let waited = s.store.wait(&nobody, 0).await;
    assert_eq!(code(waited), "session_not_found");
    // A session in preparation is one.
    let new = NewSession {
        authority: folio_core::Authority::Preparing,
        ..NewSession::native(nobody)
    };
    let preparing = s.store.create_session(new).await.unwrap().id;
    assert!(is_pending(&mut s.store.wait(&preparing, 0)));
}

async fn a_commit_before_the_first_look_is_not_missed(place: Place) {
    let mut s = Bench::open(&*place).await;
    for n in 1..=100 {
        let answers = waiting(&s.store, "s1", n - 1);
        let event = s.events.user(&format!("e{n}"), "text");
        s.append(vec![event]).await;
        assert_eq!(answer(&answers).unwrap(), n);
    }
}

async fn an_append_of_another_handle_wakes(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let mut events = Events::new("s1");
    for n in 1..=5 {
        let answers = waiting(&s.store, "s1", n - 1);
        std::thread::sleep(Duration::from_millis(5 * n));
        let event = events.user(&format!("e{n}"), "text");
        append(&*other, &s.session, vec![event]).await;
        assert_eq!(answer(&answers).unwrap(), n);
    }
}

async fn many_wait_for_another_handle(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let all: Vec<_> = (0..20).map(|n| waiting(&s.store, "s1", n % 4)).collect();
    let mut events = Events::new("s1");
    for n in 1..=4 {
        let event = events.user(&format!("e{n}"), "text");
        append(&*other, &s.session, vec![event]).await;
    }
    for (n, answers) in (0..).zip(all) {
        assert!(answer(&answers).unwrap() > n % 4);
    }
}

async fn a_deletion_by_another_handle_ends_a_wait(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let answers = waiting(&s.store, "s1", 0);
    std::thread::sleep(Duration::from_millis(5));
    other.delete_session(&s.session, None).await.unwrap();
    assert_eq!(code(answer(&answers)), "session_not_found");
}

async fn waiting_begins_again_after_a_rest(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let mut events = Events::new("s1");
    for n in 1..=3 {
        assert!(is_pending(&mut s.store.wait(&s.session, n - 1)));
        // Long enough for whoever watches to notice that nobody waits.
        std::thread::sleep(Duration::from_millis(60));
        let answers = waiting(&s.store, "s1", n - 1);
        std::thread::sleep(Duration::from_millis(5));
        let event = events.user(&format!("e{n}"), "text");
        append(&*other, &s.session, vec![event]).await;
        assert_eq!(answer(&answers).unwrap(), n);
    }
}
