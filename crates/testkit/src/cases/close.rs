//! The end of a store.

use crate::check::{Bench, code};
use crate::conformance::{Case, StorePlace};
use folio_core::Authority;
use folio_store::{AppendBatch, AuthorityChange, ErrorKind, NewSession};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("close":
    a_closed_store_refuses_writes,
    closing_twice_is_closing_once,
    a_store_says_what_its_place_says,
    flushing_waits_for_what_was_handed_over,
);

type Place = Box<dyn StorePlace>;

async fn a_closed_store_refuses_writes(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event.clone()]).await;
    s.store.close().await.unwrap();
    let more = AppendBatch::native(vec![s.events.user("b", "2")]);
    let change = AuthorityChange {
        expected_rev: 1,
        to: Authority::Rejected,
        import_ref: None,
    };
    let new = NewSession::native(crate::check::session_id("s2"));
    let error = s.store.append(&s.session, more).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let codes = [
        error.code(),
        code(
            s.store
                .append(&s.session, AppendBatch::native(vec![event]))
                .await,
        ),
        code(s.store.create_session(new).await),
        code(s.store.set_authority(&s.session, change).await),
        code(s.store.discard_session(&s.session, 1).await),
        code(s.store.rebuild_index(&s.session).await),
    ];
    assert_eq!(codes, ["store_closed"; 6]);
}

async fn closing_twice_is_closing_once(place: Place) {
    let s = Bench::open(&*place).await;
    s.store.close().await.unwrap();
    s.store.close().await.unwrap();
}

async fn flushing_waits_for_what_was_handed_over(place: Place) {
    let mut s = Bench::open(&*place).await;
    for n in 0..50 {
        s.hand_over(&format!("e{n}"));
    }
    s.store.flush().await.unwrap();
    let head = s.info().await.head;
    assert_eq!(head, 50, "an append that has its place is committed");
}

async fn a_store_says_what_its_place_says(place: Place) {
    let s = Bench::open(&*place).await;
    assert_eq!(s.store.capabilities(), place.capabilities());
}
