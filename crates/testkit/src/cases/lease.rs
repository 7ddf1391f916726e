//! Leases: one holder, fenced, named, and gone with its handle.

use crate::check::{Bench, append, code, create, session_id, written_for};
use crate::conformance::{Case, StorePlace};
use folio_core::SessionId;
use folio_store::{AppendBatch, ErrorKind, Lease, Store, StoreError};
use std::sync::Arc;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("lease":
    a_session_has_one_holder,
    a_refusal_names_the_holder,
    the_holder_appends,
    nobody_else_appends,
    a_lease_that_was_given_back_is_lost,
    a_lease_that_nobody_gave_is_lost,
    an_earlier_lease_is_lost,
    giving_back_twice_does_no_harm,
    an_earlier_lease_gives_nothing_back,
    what_is_present_needs_no_lease,
    the_lease_is_checked_before_the_head_and_the_seal,
    an_id_conflict_comes_before_the_lease,
    facts_need_the_lease_too,
    other_sessions_are_free,
    a_lease_changes_nothing_that_readers_see,
    a_holder_has_a_name,
    an_unknown_session_has_no_lease,
    a_lease_of_an_earlier_life_of_the_id_is_lost,
    a_leased_session_is_not_deleted,
    another_handle_is_kept_out: MultiProcess,
    a_closed_handle_holds_nothing: MultiProcess,
    a_dropped_handle_holds_nothing: MultiProcess,
    a_lease_does_not_outlive_the_store: Durable,
);

type Place = Box<dyn StorePlace>;

async fn take(store: &dyn Store, session: &SessionId, holder: &str) -> Lease {
    store.acquire_lease(session, holder).await.unwrap()
}

async fn leased(place: &Place) -> (Bench, Lease) {
    let s = Bench::open(&**place).await;
    let lease = take(&*s.store, &s.session, "the writer").await;
    (s, lease)
}

fn is_leased(error: &StoreError, holder: &str) {
    assert_eq!(error.code(), "session_leased");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(holder), "{error}");
}

async fn a_session_has_one_holder(place: Place) {
    let s = Bench::open(&*place).await;
    assert_eq!(s.store.lease(&s.session).await.unwrap(), None);
    let lease = take(&*s.store, &s.session, "first").await;
    let info = s.store.lease(&s.session).await.unwrap().unwrap();
    assert_eq!((info.lease, &*info.holder), (lease, "first"));
    // Asking again and again does not wear it out.
    for holder in ["second", "first"] {
        let refused = s.store.acquire_lease(&s.session, holder).await;
        is_leased(&refused.unwrap_err(), "first");
    }
    let info = s.store.lease(&s.session).await.unwrap().unwrap();
    assert_eq!((info.lease, &*info.holder), (lease, "first"));
    s.store.release_lease(&s.session, lease).await.unwrap();
    assert_eq!(s.store.lease(&s.session).await.unwrap(), None);
    let next = take(&*s.store, &s.session, "second").await;
    assert_ne!(next, lease, "it is told from the one before");
}

async fn a_refusal_names_the_holder(place: Place) {
    let (mut s, _) = leased(&place).await;
    let refused = s.store.acquire_lease(&s.session, "me").await;
    is_leased(&refused.unwrap_err(), "the writer");
    let event = s.events.user("a", "1");
    let error = s.refused(AppendBatch::native(vec![event])).await;
    is_leased(&error, "the writer");
}

async fn the_holder_appends(place: Place) {
    let (mut s, lease) = leased(&place).await;
    for n in 1..=5 {
        let batch = AppendBatch::native(vec![s.events.user(&format!("e{n}"), "text")]);
        let committed = s.store.append(&s.session, batch.under(lease)).await;
        assert_eq!(committed.unwrap().high_water, n);
    }
}

async fn nobody_else_appends(place: Place) {
    let (mut s, lease) = leased(&place).await;
    let event = s.events.user("a", "1");
    assert_eq!(s.refused_code(vec![event.clone()]).await, "session_leased");
    let strangers = [
        Lease {
            owner: lease.owner + 1,
            ..lease
        },
        Lease {
            epoch: lease.epoch + 1,
            ..lease
        },
        Lease { owner: 0, epoch: 0 },
    ];
    for stranger in strangers {
        let batch = AppendBatch::native(vec![event.clone()]).under(stranger);
        let error = s.refused(batch).await;
        assert_eq!(error.code(), "lease_lost");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    s.store.release_lease(&s.session, lease).await.unwrap();
    assert_eq!(s.append(vec![event]).await.high_water, 1);
}

async fn a_lease_that_was_given_back_is_lost(place: Place) {
    let (mut s, lease) = leased(&place).await;
    s.store.release_lease(&s.session, lease).await.unwrap();
    let batch = AppendBatch::native(vec![s.events.user("a", "1")]);
    let error = s.refused(batch.clone().under(lease)).await;
    assert_eq!(error.code(), "lease_lost");
    s.store.append(&s.session, batch).await.unwrap();
}

async fn a_lease_that_nobody_gave_is_lost(place: Place) {
    let mut s = Bench::open(&*place).await;
    let made_up = Lease { owner: 1, epoch: 1 };
    let batch = AppendBatch::native(vec![s.events.user("a", "1")]);
    assert_eq!(s.refused(batch.under(made_up)).await.code(), "lease_lost");
}

async fn an_earlier_lease_is_lost(place: Place) {
    let (mut s, old) = leased(&place).await;
    s.store.release_lease(&s.session, old).await.unwrap();
    let new = take(&*s.store, &s.session, "the next").await;
    let batch = AppendBatch::native(vec![s.events.user("a", "1")]);
    let error = s.refused(batch.clone().under(old)).await;
    assert_eq!(error.code(), "lease_lost");
    s.store.append(&s.session, batch.under(new)).await.unwrap();
}

async fn giving_back_twice_does_no_harm(place: Place) {
    let (s, lease) = leased(&place).await;
    for _ in 0..2 {
        s.store.release_lease(&s.session, lease).await.unwrap();
        assert_eq!(s.store.lease(&s.session).await.unwrap(), None);
    }
}

async fn an_earlier_lease_gives_nothing_back(place: Place) {
    let (s, old) = leased(&place).await;
    s.store.release_lease(&s.session, old).await.unwrap();
    let new = take(&*s.store, &s.session, "the next").await;
    s.store.release_lease(&s.session, old).await.unwrap();
    let info = s.store.lease(&s.session).await.unwrap();
    assert_eq!(info.map(|info| info.lease), Some(new));
}

async fn what_is_present_needs_no_lease(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event.clone()]).await;
    let old = take(&*s.store, &s.session, "first").await;
    let again = s.append(vec![event.clone()]).await;
    assert!(again.events[0].present, "although it is held");
    s.store.release_lease(&s.session, old).await.unwrap();
    let batch = AppendBatch::native(vec![event.clone()]).under(old);
    let again = s.store.append(&s.session, batch).await.unwrap();
    assert!(again.events[0].present, "although the lease is lost");
    take(&*s.store, &s.session, "second").await;
    let mixed = vec![event, s.events.user("b", "2")];
    assert_eq!(s.refused_code(mixed).await, "session_leased");
}

async fn the_lease_is_checked_before_the_head_and_the_seal(place: Place) {
    let mut s = Bench::open(&*place).await;
    let end = s.events.end("end", "completed");
    s.append(vec![end]).await;
    let lease = take(&*s.store, &s.session, "me").await;
    let stale = AppendBatch {
        expected_head: Some(9),
        ..AppendBatch::native(vec![s.events.user("late", "too late")])
    };
    assert_eq!(s.refused(stale.clone()).await.code(), "session_leased");
    let other = Lease {
        epoch: lease.epoch + 1,
        ..lease
    };
    let lost = s.refused(stale.clone().under(other)).await;
    assert_eq!(lost.code(), "lease_lost");
    let moved = s.refused(stale.clone().under(lease)).await;
    assert_eq!(moved.code(), "head_mismatch");
    let sealed = AppendBatch {
        expected_head: Some(1),
        ..stale
    };
    assert_eq!(s.refused(sealed.under(lease)).await.code(), "run_sealed");
}

async fn an_id_conflict_comes_before_the_lease(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    take(&*s.store, &s.session, "me").await;
    let other = s.events.user("a", "another");
    assert_eq!(s.refused_code(vec![other]).await, "event_id_conflict");
}

async fn facts_need_the_lease_too(place: Place) {
    let (s, lease) = leased(&place).await;
    let note = crate::cases::source::fact("n1", 0, "text");
    let batch = crate::cases::source::batch(Vec::new(), "notes", vec![note]);
    assert_eq!(s.refused(batch.clone()).await.code(), "session_leased");
    let committed = s.store.append(&s.session, batch.under(lease)).await;
    assert_eq!(committed.unwrap().facts_added, 1);
}

async fn other_sessions_are_free(place: Place) {
    let (s, lease) = leased(&place).await;
    let other = create(&*s.store, "other").await;
    let event = s.events.clone().user("a", "1");
    append(&*s.store, &other, vec![event.clone()]).await;
    let own = take(&*s.store, &other, "somebody else").await;
    let next = s.events.clone().user("b", "2");
    let batch = written_for(&other, AppendBatch::native(vec![next]));
    let refused = s.store.append(&other, batch.clone()).await;
    assert_eq!(code(refused), "session_leased");
    s.store.append(&other, batch.under(own)).await.unwrap();
    // Giving back the one leaves the other.
    s.store.release_lease(&other, own).await.unwrap();
    let info = s.store.lease(&s.session).await.unwrap();
    assert_eq!(info.map(|info| info.lease), Some(lease));
}

async fn a_lease_changes_nothing_that_readers_see(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let before = (s.info().await, s.rows().await);
    let lease = take(&*s.store, &s.session, "me").await;
    assert_eq!((s.info().await, s.rows().await), before);
    s.store.release_lease(&s.session, lease).await.unwrap();
    assert_eq!((s.info().await, s.rows().await), before);
    s.is_sound().await;
}

async fn a_holder_has_a_name(place: Place) {
    let s = Bench::open(&*place).await;
    for name in [String::new(), "x".repeat(257)] {
        let refused = s.store.acquire_lease(&s.session, &name).await;
        assert_eq!(code(refused), "holder_invalid");
    }
    assert_eq!(s.store.lease(&s.session).await.unwrap(), None);
    let longest = "x".repeat(256);
    take(&*s.store, &s.session, &longest).await;
    let info = s.store.lease(&s.session).await.unwrap();
    assert_eq!(info.map(|info| info.holder), Some(longest));
}

async fn an_unknown_session_has_no_lease(place: Place) {
    let (s, lease) = leased(&place).await;
    let nobody = session_id("nobody");
    let codes = [
        code(s.store.acquire_lease(&nobody, "me").await),
        code(s.store.release_lease(&nobody, lease).await),
        code(s.store.lease(&nobody).await),
    ];
    assert_eq!(codes, ["session_not_found"; 3]);
}

async fn a_lease_of_an_earlier_life_of_the_id_is_lost(place: Place) {
    let (mut s, old) = leased(&place).await;
    s.store.release_lease(&s.session, old).await.unwrap();
    s.store.delete_session(&s.session, None).await.unwrap();
    create(&*s.store, "s1").await;
    let new = take(&*s.store, &s.session, "the next").await;
    assert_ne!(new, old);
    let batch = AppendBatch::native(vec![s.events.user("a", "1")]);
    let error = s.refused(batch.clone().under(old)).await;
    assert_eq!(error.code(), "lease_lost");
    s.store.append(&s.session, batch.under(new)).await.unwrap();
}

async fn a_leased_session_is_not_deleted(place: Place) {
    let (mut s, lease) = leased(&place).await;
    let batch = AppendBatch::native(vec![s.events.user("a", "1")]);
    s.store
        .append(&s.session, batch.under(lease))
        .await
        .unwrap();
    let refused = s.store.delete_session(&s.session, None).await;
    is_leased(&refused.unwrap_err(), "the writer");
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
    s.is_sound().await;
    s.store.release_lease(&s.session, lease).await.unwrap();
    s.store.delete_session(&s.session, None).await.unwrap();
}

async fn two(place: &Place) -> (Bench, Arc<dyn Store>, Lease) {
    let s = Bench::open(&**place).await;
    let other = place.second().await.unwrap();
    let lease = take(&*other, &s.session, "the other").await;
    (s, other, lease)
}

async fn another_handle_is_kept_out(place: Place) {
    let (mut s, other, lease) = two(&place).await;
    let refused = s.store.acquire_lease(&s.session, "me").await;
    is_leased(&refused.unwrap_err(), "the other");
    let event = s.events.user("a", "1");
    assert_eq!(s.refused_code(vec![event.clone()]).await, "session_leased");
    let info = s.store.lease(&s.session).await.unwrap().unwrap();
    assert_eq!((info.lease, &*info.holder), (lease, "the other"));
    let batch = AppendBatch::native(vec![event]);
    other.append(&s.session, batch.under(lease)).await.unwrap();
    other.release_lease(&s.session, lease).await.unwrap();
    let mine = take(&*s.store, &s.session, "me").await;
    let batch = AppendBatch::native(vec![s.events.user("b", "2")]);
    let lost = other.append(&s.session, batch.clone().under(lease)).await;
    assert_eq!(code(lost), "lease_lost");
    s.store.append(&s.session, batch.under(mine)).await.unwrap();
}

async fn a_closed_handle_holds_nothing(place: Place) {
    let (s, other, lease) = two(&place).await;
    other.close().await.unwrap();
    drop(other);
    is_free(s, lease).await;
}

async fn a_dropped_handle_holds_nothing(place: Place) {
    let (s, other, lease) = two(&place).await;
    drop(other);
    is_free(s, lease).await;
}

async fn is_free(mut s: Bench, lost: Lease) {
    assert_eq!(s.store.lease(&s.session).await.unwrap(), None);
    let first = s.events.user("a", "1");
    s.append(vec![first]).await;
    let mine = take(&*s.store, &s.session, "me").await;
    assert_ne!(mine, lost);
    let batch = AppendBatch::native(vec![s.events.user("b", "2")]);
    let error = s.refused(batch.clone().under(lost)).await;
    assert_eq!(error.code(), "lease_lost");
    s.store.append(&s.session, batch.under(mine)).await.unwrap();
}

async fn a_lease_does_not_outlive_the_store(place: Place) {
    let (s, lease) = leased(&place).await;
    let Bench {
        store,
        session,
        events,
    } = s;
    store.close().await.unwrap();
    drop(store);
    let store = place.reopen().await.unwrap();
    let s = Bench {
        store,
        session,
        events,
    };
    is_free(s, lease).await;
}
