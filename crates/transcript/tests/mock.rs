//! A page asks the store for bounded items, once, and for nothing else.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::{
    AppendBatch, ItemIndex, ItemPage, ItemQuery, MockItemIndex, NewSession, Start, Store,
    StoreError,
};
use folio_testkit::decorator::{Decorated, Decorator};
use folio_transcript::{PageRequest, TranscriptService};
use mockall::predicate;
use std::sync::Arc;

/// A store whose index is a mock; whatever else is asked fails the test.
struct Mocked(MockItemIndex);

#[async_trait]
impl Decorator for Mocked {
    fn called(&self, method: &'static str) {
        assert_eq!(method, "read_items", "a page asks for nothing else");
    }

    async fn read_items(
        &self,
        _: &dyn Store,
        id: &SessionId,
        query: ItemQuery,
    ) -> Result<ItemPage, StoreError> {
        self.0.read_items(id, query).await
    }
}

fn service(index: MockItemIndex) -> TranscriptService {
    let store = Decorated::by(Mocked(index), folio_testkit::memory_store());
    TranscriptService::new(Arc::new(store))
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
        member_bytes: usize::MAX,
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
    let service = service(index);
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
    let service = service(MockItemIndex::new());
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
