//! What was acknowledged is there after the store was opened again.

use crate::check::{Bench, Row};
use crate::conformance::{Case, StorePlace};
use crate::workload::{Random, random};
use folio_core::{Authority, Direction, Fact, FactOp, ForeignId, SessionId};
use folio_store::rows::RunRow;
use folio_store::{
    AppendBatch, ContributionBatch, ContributionQuery, ContributionStatus, IndexStatus, NOTES,
    NewSession, SessionFilter, SessionInfo, Store, StoredEvent, StoredFact, Writer,
};
use std::sync::Arc;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("durability":
    acknowledged_survives_reopen,
    a_reopened_store_goes_on_where_it_was,
    a_store_that_was_dropped_keeps_what_it_acknowledged,
    a_half_prepared_session_stays_hidden,
);

type Place = Box<dyn StorePlace>;

#[derive(Debug, PartialEq)]
struct State {
    sessions: Vec<SessionInfo>,
    events: Vec<StoredEvent>,
    rows: Vec<Row>,
    older: Vec<Row>,
    runs: Vec<RunRow>,
    index: IndexStatus,
    notes: ContributionStatus,
    facts: Vec<StoredFact>,
}

async fn state(store: &dyn Store, session: &SessionId) -> State {
    let all_facts = ContributionQuery {
        through: u64::MAX,
        direction: Direction::Newer,
        after: None,
        max_items: 100,
    };
    State {
        sessions: store.sessions(SessionFilter::All, None, 100).await.unwrap(),
        events: crate::check::stored(store, session).await,
        rows: crate::check::rows(store, session).await,
        older: crate::check::rows_at(store, session, 33).await,
        runs: store.runs(session, 0, 1_000).await.unwrap(),
        index: store.index_status(session).await.unwrap(),
        notes: store.contribution_status(session, NOTES).await.unwrap(),
        facts: store
            .contributions(session, NOTES, all_facts)
            .await
            .unwrap(),
    }
}

/// Closes a store and opens the place again; `None` where the adapter says
/// that it keeps nothing.
async fn reopen(place: &Place, store: Arc<dyn Store>) -> Option<Arc<dyn Store>> {
    if !store.capabilities().durable {
        return None;
    }
    store.close().await.unwrap();
    drop(store);
    Some(place.open().await.unwrap())
}

fn notes() -> ContributionBatch {
    let fact = |n: u64| Fact {
        id: ForeignId::new(format!("n{n}")).unwrap(),
        op: FactOp::Put,
        anchor: n,
        ts: None,
        kind: "mark".into(),
        turn_id: None,
        visible: n.is_multiple_of(2),
        data: None,
    };
    ContributionBatch::new(NOTES, (0..5).map(fact).collect())
}

async fn fill(s: &Bench, seed: u64) {
    let events = random(seed, 300);
    for batch in Random::new(seed).batches(&events, 40) {
        s.append(batch).await;
    }
    let mut batch = AppendBatch::native(Vec::new());
    batch.contributions = Some(notes());
    batch.import_ref = Some("{\"seen\":17}".into());
    s.store.append(&s.session, batch).await.unwrap();
}

async fn acknowledged_survives_reopen(place: Place) {
    let s = Bench::open(&*place).await;
    fill(&s, 31).await;
    let before = state(&*s.store, &s.session).await;
    assert_eq!(
        before.sessions[0].import_ref.as_deref(),
        Some("{\"seen\":17}")
    );
    let mut store = s.store;
    for _ in 0..2 {
        let Some(again) = reopen(&place, store).await else {
            return;
        };
        assert!(again.capabilities().durable);
        assert_eq!(state(&*again, &s.session).await, before);
        let report = again.verify(&s.session).await.unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        again.check().await.unwrap();
        store = again;
    }
}

async fn a_reopened_store_goes_on_where_it_was(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = random(32, 400);
    let batches = Random::new(32).batches(&events, 30);
    for (n, batch) in batches.into_iter().enumerate() {
        let committed = s.append(batch.clone()).await;
        if n % 4 == 0 {
            let Some(store) = reopen(&place, s.store).await else {
                return;
            };
            s.store = store;
            let again = s.append(batch).await;
            assert!(again.events.iter().all(|event| event.present));
            assert_eq!(again.chain, committed.chain);
        }
    }
    assert_eq!(s.rows().await, crate::reference::project(&events));
    s.is_sound().await;
}

async fn a_store_that_was_dropped_keeps_what_it_acknowledged(place: Place) {
    let s = Bench::open(&*place).await;
    if !s.store.capabilities().durable {
        return;
    }
    fill(&s, 33).await;
    let before = state(&*s.store, &s.session).await;
    let session = s.session.clone();
    drop(s);
    let store = place.open().await.unwrap();
    assert_eq!(state(&*store, &session).await, before);
}

async fn a_half_prepared_session_stays_hidden(place: Place) {
    let store = place.open().await.unwrap();
    let new = NewSession {
        id: crate::check::session_id("s1"),
        authority: Authority::Preparing,
        followed: true,
        import_ref: Some("{}".into()),
    };
    let info = store.create_session(new).await.unwrap();
    let batch = AppendBatch {
        writer: Writer::Importer,
        contributions: Some(notes()),
        import_ref: Some("{\"seen\":1}".into()),
        ..AppendBatch::native(random(34, 50))
    };
    store.append(&info.id, batch.clone()).await.unwrap();
    let before = store.session(&info.id).await.unwrap();
    let Some(store) = reopen(&place, store).await else {
        return;
    };
    assert_eq!(store.session(&info.id).await.unwrap(), before);
    let readable = store.sessions(SessionFilter::Readable, None, 10).await;
    assert_eq!(readable.unwrap(), []);
    let again = store.append(&info.id, batch).await.unwrap();
    assert!(again.events.iter().all(|event| event.present));
    assert_eq!(again.facts_added, 0);
    let rev = before.authority_rev;
    store.discard_session(&info.id, rev).await.unwrap();
    let store = reopen(&place, store).await.expect("it is durable");
    let all = store.sessions(SessionFilter::All, None, 10).await.unwrap();
    assert_eq!(all, []);
}
