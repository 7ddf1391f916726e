//! What a store holds, asked in every way that it can be asked.

use folio_codec::Digest;
use folio_core::SessionId;
use folio_store::{NOTES, SessionFilter, Store, StoreError};
use folio_testkit::check::{Row, rows, stored};

/// All that a store holds but what differs between stores: times and random
/// numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held(Vec<Session>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    id: SessionId,
    head: u64,
    chain: Digest,
    notes: u64,
    notes_chain: Digest,
    rows: Vec<Row>,
}

impl Held {
    /// The rows of a session.
    pub fn rows(&self, id: &SessionId) -> Vec<Row> {
        let mine = self.0.iter().find(|session| session.id == *id);
        mine.map(|session| session.rows.clone()).unwrap_or_default()
    }

    /// The same without a session.
    pub fn without(mut self, id: &SessionId) -> Self {
        self.0.retain(|session| session.id != *id);
        self
    }
}

/// Everything that a store holds; panics if anything about it is unsound.
pub async fn held(store: &dyn Store) -> Held {
    examine(store).await.unwrap()
}

/// Everything that a store holds, or what is unsound about it.
pub async fn examine(store: &dyn Store) -> Result<Held, String> {
    let text = |error: StoreError| error.to_string();
    store.check().await.map_err(text)?;
    let all = store.sessions(SessionFilter::All, None, 100).await;
    let mut sessions = Vec::new();
    for info in all.map_err(text)? {
        let report = store.verify(&info.id).await.map_err(text)?;
        if !report.findings.is_empty() {
            return Err(format!("{:?}", report.findings));
        }
        let notes = store.contribution_status(&info.id, NOTES).await;
        let notes = notes.map_err(text)?;
        let events = stored(store, &info.id).await;
        let ordinals = events.iter().map(|event| event.ordinal);
        let rows = rows(store, &info.id).await;
        let seen = (report.events, report.items, report.facts);
        if !ordinals.eq(1..=info.head) || seen != (info.head, rows.len() as u64, notes.head) {
            return Err(format!("{} has gaps: {seen:?} of {info:?}", info.id));
        }
        sessions.push(Session {
            id: info.id,
            head: info.head,
            chain: info.chain,
            notes: notes.head,
            notes_chain: notes.chain,
            rows,
        });
    }
    Ok(Held(sessions))
}
