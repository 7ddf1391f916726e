//! Stores that watch another store.

use async_trait::async_trait;
use folio_core::{EventId, SessionId};
use folio_store::engine::Capabilities;
use folio_store::rows::RunRow;
use folio_store::{
    Admin, AppendBatch, AuthorityChange, Committed, ContributionQuery, ContributionStatus,
    Contributions, IndexStatus, ItemIndex, ItemPage, ItemQuery, KnownEvent, Ledger, NewSession,
    RangeQuery, SessionFilter, SessionInfo, Store, StoreError, StoredEvent, StoredFact,
    VerifyReport,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What was asked of a store, and what it read to answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Calls by method.
    pub calls: BTreeMap<&'static str, u64>,
    /// Index rows read.
    pub items: u64,
    /// Events read.
    pub events: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Record {
    /// How often a method was called.
    pub fn calls_of(&self, method: &str) -> u64 {
        self.calls.get(method).copied().unwrap_or_default()
    }
}

/// Counts the calls that a store gets and what its reads cost.
///
/// ```
/// use folio_store::{Ledger, SessionFilter};
/// use folio_testkit::decorator::Recording;
/// use std::sync::Arc;
///
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let store = Recording::new(Arc::new(folio_store_memory::open()?));
/// runtime.block_on(store.sessions(SessionFilter::All, None, 10))?;
/// assert_eq!(store.take().calls_of("sessions"), 1);
/// assert_eq!(store.take().calls_of("sessions"), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recording<S: ?Sized = dyn Store> {
    record: Mutex<Record>,
    inner: Arc<S>,
}

impl<S: Store + ?Sized> Recording<S> {
    /// Watches a store.
    pub fn new(inner: Arc<S>) -> Self {
        Self {
            record: Mutex::default(),
            inner,
        }
    }

    /// What was recorded since the last time.
    pub fn take(&self) -> Record {
        std::mem::take(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, work: impl FnOnce(&mut Record)) {
        work(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn called(&self, method: &'static str) {
        self.note(|record| *record.calls.entry(method).or_default() += 1);
    }

    fn read(&self, events: &[StoredEvent]) {
        self.note(|record| {
            record.events += events.len() as u64;
            record.bytes += events.iter().map(|e| e.body.len() as u64).sum::<u64>();
        });
    }
}

#[async_trait]
impl<S: Store + ?Sized> Ledger for Recording<S> {
    async fn create_session(&self, session: NewSession) -> Result<SessionInfo, StoreError> {
        self.called("create_session");
        self.inner.create_session(session).await
    }

    async fn session(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        self.called("session");
        self.inner.session(id).await
    }

    async fn sessions(
        &self,
        filter: SessionFilter,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        self.called("sessions");
        self.inner.sessions(filter, after, limit).await
    }

    async fn set_authority(
        &self,
        id: &SessionId,
        change: AuthorityChange,
    ) -> Result<SessionInfo, StoreError> {
        self.called("set_authority");
        self.inner.set_authority(id, change).await
    }

    async fn discard_session(&self, id: &SessionId, expected_rev: u64) -> Result<(), StoreError> {
        self.called("discard_session");
        self.inner.discard_session(id, expected_rev).await
    }

    async fn append(&self, id: &SessionId, batch: AppendBatch) -> Result<Committed, StoreError> {
        self.called("append");
        self.inner.append(id, batch).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.called("flush");
        self.inner.flush().await
    }

    async fn lookup_ids(
        &self,
        id: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<KnownEvent>>, StoreError> {
        self.called("lookup_ids");
        self.inner.lookup_ids(id, ids).await
    }

    async fn range(
        &self,
        id: &SessionId,
        query: RangeQuery,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.called("range");
        let events = self.inner.range(id, query).await?;
        self.read(&events);
        Ok(events)
    }

    async fn events(
        &self,
        id: &SessionId,
        ordinals: &[u64],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.called("events");
        let events = self.inner.events(id, ordinals).await?;
        self.read(&events);
        Ok(events)
    }

    async fn runs(
        &self,
        id: &SessionId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<RunRow>, StoreError> {
        self.called("runs");
        self.inner.runs(id, after, limit).await
    }
}

#[async_trait]
impl<S: Store + ?Sized> ItemIndex for Recording<S> {
    async fn index_status(&self, id: &SessionId) -> Result<IndexStatus, StoreError> {
        self.called("index_status");
        self.inner.index_status(id).await
    }

    async fn read_items(&self, id: &SessionId, query: ItemQuery) -> Result<ItemPage, StoreError> {
        self.called("read_items");
        let page = self.inner.read_items(id, query).await?;
        self.note(|record| {
            record.items += page.stats.items;
            record.events += page.stats.events;
            record.bytes += page.stats.bytes;
        });
        Ok(page)
    }

    async fn rebuild_index(&self, id: &SessionId) -> Result<IndexStatus, StoreError> {
        self.called("rebuild_index");
        self.inner.rebuild_index(id).await
    }
}

#[async_trait]
impl<S: Store + ?Sized> Contributions for Recording<S> {
    async fn contribution_status(
        &self,
        id: &SessionId,
        source: &str,
    ) -> Result<ContributionStatus, StoreError> {
        self.called("contribution_status");
        self.inner.contribution_status(id, source).await
    }

    async fn contributions(
        &self,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError> {
        self.called("contributions");
        self.inner.contributions(id, source, query).await
    }
}

#[async_trait]
impl<S: Store + ?Sized> Admin for Recording<S> {
    fn capabilities(&self) -> Capabilities {
        self.called("capabilities");
        self.inner.capabilities()
    }

    async fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError> {
        self.called("verify");
        self.inner.verify(id).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.called("check");
        self.inner.check().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.called("close");
        self.inner.close().await
    }
}
