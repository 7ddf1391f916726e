//! A page asks the store for bounded items, once, and for nothing else.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::engine::Capabilities;
use folio_store::rows::RunRow;
use folio_store::*;
use folio_transcript::{PageRequest, TranscriptService};
use mockall::predicate;
use std::sync::Arc;

/// A store of mocks: whatever is not expected fails the test.
struct Mocked {
    ledger: MockLedger,
    index: MockItemIndex,
    contributions: MockContributions,
    admin: MockAdmin,
}

#[async_trait]
impl Ledger for Mocked {
    async fn create_session(&self, session: NewSession) -> Result<SessionInfo, StoreError> {
        self.ledger.create_session(session).await
    }
    async fn session(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        self.ledger.session(id).await
    }
    async fn sessions(
        &self,
        filter: SessionFilter,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        self.ledger.sessions(filter, after, limit).await
    }
    async fn set_authority(
        &self,
        id: &SessionId,
        change: AuthorityChange,
    ) -> Result<SessionInfo, StoreError> {
        self.ledger.set_authority(id, change).await
    }
    async fn discard_session(&self, id: &SessionId, rev: u64) -> Result<(), StoreError> {
        self.ledger.discard_session(id, rev).await
    }
    async fn append(&self, id: &SessionId, batch: AppendBatch) -> Result<Committed, StoreError> {
        self.ledger.append(id, batch).await
    }
    async fn flush(&self) -> Result<(), StoreError> {
        self.ledger.flush().await
    }
    async fn lookup_ids(
        &self,
        id: &SessionId,
        ids: &[folio_core::EventId],
    ) -> Result<Vec<Option<KnownEvent>>, StoreError> {
        self.ledger.lookup_ids(id, ids).await
    }
    async fn range(&self, id: &SessionId, q: RangeQuery) -> Result<Vec<StoredEvent>, StoreError> {
        self.ledger.range(id, q).await
    }
    async fn events(&self, id: &SessionId, at: &[u64]) -> Result<Vec<StoredEvent>, StoreError> {
        self.ledger.events(id, at).await
    }
    async fn runs(&self, id: &SessionId, after: u32, n: usize) -> Result<Vec<RunRow>, StoreError> {
        self.ledger.runs(id, after, n).await
    }
}

#[async_trait]
impl ItemIndex for Mocked {
    async fn index_status(&self, id: &SessionId) -> Result<IndexStatus, StoreError> {
        self.index.index_status(id).await
    }
    async fn read_items(&self, id: &SessionId, query: ItemQuery) -> Result<ItemPage, StoreError> {
        self.index.read_items(id, query).await
    }
    async fn rebuild_index(&self, id: &SessionId) -> Result<IndexStatus, StoreError> {
        self.index.rebuild_index(id).await
    }
}

#[async_trait]
impl Contributions for Mocked {
    async fn contribution_status(
        &self,
        id: &SessionId,
        source: &str,
    ) -> Result<ContributionStatus, StoreError> {
        self.contributions.contribution_status(id, source).await
    }
    async fn contributions(
        &self,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError> {
        self.contributions.contributions(id, source, query).await
    }
}

#[async_trait]
impl Admin for Mocked {
    fn capabilities(&self) -> Capabilities {
        self.admin.capabilities()
    }
    async fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError> {
        self.admin.verify(id).await
    }
    async fn check(&self) -> Result<(), StoreError> {
        self.admin.check().await
    }
    async fn close(&self) -> Result<(), StoreError> {
        self.admin.close().await
    }
}

/// A real page of a real store, for the mock to answer with.
async fn page(id: &SessionId) -> ItemPage {
    let store = folio_testkit::memory_store();
    store
        .create_session(NewSession::native(id.clone()))
        .await
        .unwrap();
    let mut e = folio_testkit::event::Events::new(id.as_str());
    let events = (0..3).map(|n| e.user(&format!("u{n}"), "hello")).collect();
    store.append(id, AppendBatch::native(events)).await.unwrap();
    let query = ItemQuery {
        through: None,
        direction: folio_core::Direction::Older,
        start: Start::Edge,
        max_items: 2,
        max_bytes: 1 << 20,
    };
    store.read_items(id, query).await.unwrap()
}

#[tokio::test]
async fn a_page_never_calls_an_unbounded_read() {
    let id = SessionId::new("s1").unwrap();
    let answer = page(&id).await;
    let mut index = MockItemIndex::new();
    index
        .expect_read_items()
        .with(
            predicate::eq(id.clone()),
            predicate::function(|query: &ItemQuery| {
                query.max_items == 2 && query.max_bytes <= (1 << 20) + (64 << 10)
            }),
        )
        .times(1)
        .returning(move |_, _| Ok(answer.clone()));
    let store = Mocked {
        ledger: MockLedger::new(),
        index,
        contributions: MockContributions::new(),
        admin: MockAdmin::new(),
    };
    let service = TranscriptService::new(Arc::new(store));
    let request = PageRequest {
        max_items: 2,
        max_bytes: 1 << 20,
        ..PageRequest::newest(id)
    };
    let page = service.read_page(&request).await.unwrap();
    assert_eq!(page.entries.len(), 2);
    assert!(page.older.is_some());
}

#[tokio::test]
async fn a_bad_request_does_not_ask_the_store_at_all() {
    let store = Mocked {
        ledger: MockLedger::new(),
        index: MockItemIndex::new(),
        contributions: MockContributions::new(),
        admin: MockAdmin::new(),
    };
    let service = TranscriptService::new(Arc::new(store));
    let id = SessionId::new("s1").unwrap();
    for request in [
        PageRequest {
            max_items: 0,
            ..PageRequest::newest(id.clone())
        },
        PageRequest {
            max_bytes: 1,
            ..PageRequest::newest(id.clone())
        },
        PageRequest::newest(id.clone()).at_cursor("rubbish"),
    ] {
        assert!(service.read_page(&request).await.is_err());
    }
}
