//! A commit that failed: its outcome is unknown until the store has settled
//! it, before the next write or answer, and then it is known once and for all.

use crate::check::Bench;
use crate::conformance::{Case, StorePlace};
use folio_core::{CanonicalEvent, EventId};
use folio_store::{AppendBatch, ErrorKind, KnownEvent, NewSession};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("failure":
    a_failed_commit_is_indeterminate: FailedCommit,
    the_next_write_settles_a_failed_commit_and_goes_on: FailedCommit,
    what_became_of_a_failed_commit_stays_so: FailedCommit,
    a_repeat_after_a_failed_commit_is_one_fact: FailedCommit,
);

type Place = Box<dyn StorePlace>;

/// A session of one batch, and a second batch whose commit failed.
async fn failed(place: &Place) -> (Bench, Vec<CanonicalEvent>) {
    let mut s = Bench::open(&**place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let batch = vec![s.events.user("b", "2"), s.events.user("c", "3")];
    place.fail_next_commit().await.unwrap();
    let error = s
        .store
        .append(&s.session, AppendBatch::native(batch.clone()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    (s, batch)
}

/// What is known of the second batch, which must be whole or absent.
async fn known(s: &Bench) -> [Option<KnownEvent>; 2] {
    let ids = ["b", "c"].map(|id| EventId::new(id).unwrap());
    let known = s.store.lookup_ids(&s.session, &ids).await.unwrap();
    let [b, c] = *known.as_slice() else {
        unreachable!("two were asked for")
    };
    assert_eq!(b.is_some(), c.is_some(), "a batch is whole or absent");
    assert_eq!(s.info().await.head, if b.is_some() { 3 } else { 1 });
    [b, c]
}

async fn reopen(place: &Place, s: Bench) -> Bench {
    let Bench {
        store,
        session,
        events,
    } = s;
    drop(store);
    Bench {
        store: place.reopen().await.unwrap(),
        session,
        events,
    }
}

async fn a_failed_commit_is_indeterminate(place: Place) {
    let (s, _) = failed(&place).await;
    known(&s).await;
    let s = reopen(&place, s).await;
    known(&s).await;
    s.is_sound().await;
}

async fn the_next_write_settles_a_failed_commit_and_goes_on(place: Place) {
    let (s, batch) = failed(&place).await;
    // What was acknowledged can be read all the while.
    assert!(!s.rows().await.is_empty());
    let told = known(&s).await;
    let new = NewSession::native(crate::check::session_id("s2"));
    s.store.create_session(new).await.unwrap();
    assert_eq!(known(&s).await, told, "what was told of it stays so");
    let again = s.append(batch).await;
    assert_eq!(again.high_water, 3);
    let s = reopen(&place, s).await;
    assert!(known(&s).await.iter().all(Option::is_some));
    s.is_sound().await;
}

async fn what_became_of_a_failed_commit_stays_so(place: Place) {
    let (s, _) = failed(&place).await;
    let told = known(&s).await;
    let mut s = s;
    for _ in 0..3 {
        s = reopen(&place, s).await;
        assert_eq!(known(&s).await, told, "what a reader saw stays so");
    }
}

async fn a_repeat_after_a_failed_commit_is_one_fact(place: Place) {
    let (s, batch) = failed(&place).await;
    let s = reopen(&place, s).await;
    let committed = s.append(batch.clone()).await;
    assert_eq!(committed.high_water, 3);
    let s = reopen(&place, s).await;
    let again = s.append(batch).await;
    assert!(again.events.iter().all(|event| event.present));
    assert_eq!((again.high_water, again.chain), (3, committed.chain));
    assert_eq!(s.rows().await.len(), 3);
    s.is_sound().await;
}
