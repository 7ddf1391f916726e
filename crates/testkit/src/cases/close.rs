//! The end of a store.

use crate::check::{Bench, code, query, session_id};
use crate::conformance::{Case, StorePlace};
use folio_core::{Authority, Direction, EventId};
use folio_store::{
    AppendBatch, AuthorityChange, BlobId, ContributionQuery, ErrorKind, NOTES, NewSession,
    RangeQuery, SessionFilter, Start, Store, ViewQuery,
};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("close":
    a_closed_store_refuses_writes,
    a_closed_store_answers_nothing,
    a_closed_store_can_be_opened_again_beside_its_handle: Durable,
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
    let new = NewSession::native(session_id("s2"));
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

/// What each way to read answers.
async fn answers(store: &dyn Store) -> Vec<(&'static str, &'static str)> {
    let id = session_id("s1");
    let key = EventId::new("a").expect("an id");
    let blob = BlobId([0; 32]);
    let range = RangeQuery {
        from: 1,
        to: 1,
        max_count: 1,
        max_bytes: 1,
    };
    let notes = ContributionQuery {
        through: 1,
        direction: Direction::Newer,
        after: None,
        max_items: 1,
    };
    let entries = ViewQuery {
        view: "v".into(),
        version: 1,
        from: Vec::new(),
        to: None,
        direction: Direction::Newer,
        limit: 1,
    };
    let items = query(Direction::Newer, Start::Edge);
    vec![
        ("session", code(store.session(&id).await)),
        (
            "sessions",
            code(store.sessions(SessionFilter::All, None, 9).await),
        ),
        ("lookup_ids", code(store.lookup_ids(&id, &[key]).await)),
        ("range", code(store.range(&id, range).await)),
        ("events", code(store.events(&id, &[1]).await)),
        ("runs", code(store.runs(&id, 0, 9).await)),
        ("wait", code(store.wait(&id, 0).await)),
        ("index_status", code(store.index_status(&id).await)),
        ("read_items", code(store.read_items(&id, items).await)),
        (
            "contribution_status",
            code(store.contribution_status(&id, NOTES).await),
        ),
        (
            "contributions",
            code(store.contributions(&id, NOTES, notes).await),
        ),
        ("blob", code(store.blob(&blob).await)),
        ("read_blob", code(store.read_blob(&blob, 0, 1).await)),
        ("citations", code(store.citations(&id, 0, 1).await)),
        ("lease", code(store.lease(&id).await)),
        ("view_value", code(store.view_value("v", 1, b"k").await)),
        ("view_entries", code(store.view_entries(entries).await)),
        ("view_mark", code(store.view_mark("v", 1, &id).await)),
        ("pending_erasures", code(store.pending_erasures().await)),
        ("verify", code(store.verify(&id).await)),
        ("check", code(store.check().await)),
        ("flush", code(store.flush().await)),
        ("put_blob", code(store.put_blob(vec![1]).await)),
        ("begin_blob", code(store.begin_blob().await)),
        ("acquire_lease", code(store.acquire_lease(&id, "me").await)),
        ("drop_view", code(store.drop_view("v").await)),
        (
            "delete_session",
            code(store.delete_session(&id, None).await),
        ),
        ("scrub", code(store.scrub().await)),
    ]
}

async fn is_closed(store: &dyn Store) {
    for (call, code) in answers(store).await {
        assert_eq!(code, "store_closed", "{call}");
    }
}

async fn a_closed_store_answers_nothing(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    s.store.close().await.unwrap();
    is_closed(&*s.store).await;
}

async fn a_closed_store_can_be_opened_again_beside_its_handle(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    // A lease goes with its handle.
    s.store.acquire_lease(&s.session, "gone").await.unwrap();
    s.store.close().await.unwrap();
    let again = place.reopen().await.unwrap();
    assert_eq!(again.session(&s.session).await.unwrap().head, 1);
    assert_eq!(again.lease(&s.session).await.unwrap(), None);
    let event = s.events.user("b", "2");
    crate::check::append(&*again, &s.session, vec![event]).await;
    is_closed(&*s.store).await;
    assert_eq!(again.session(&s.session).await.unwrap().head, 2);
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
