//! A page is the same page in every form: as rows of JSON, as one JSON text,
//! and as typed rows. One reducer makes all of them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_core::{Direction, SessionId, StoredMessage};
use folio_store::{AppendBatch, NewSession, Store};
use folio_testkit::workload;
use folio_transcript::{Entry, OnGap, Page, PageRequest, TranscriptService};
use std::sync::Arc;

async fn filled(seed: u64, events: usize) -> (Arc<dyn Store>, SessionId) {
    let store = folio_testkit::memory_store();
    let id = SessionId::new("s1").unwrap();
    let new = NewSession::native(id.clone());
    store.create_session(new).await.unwrap();
    let batch = AppendBatch::native(workload::random(seed, events));
    store.append(&id, batch).await.unwrap();
    (store, id)
}

/// Every page from an edge to the other.
async fn pages(service: &TranscriptService, first: PageRequest) -> Vec<(PageRequest, Page)> {
    let mut pages = Vec::new();
    let mut request = first;
    loop {
        let page = service.read_page(&request).await.unwrap();
        let onward = match request.direction.unwrap_or(Direction::Older) {
            Direction::Older => page.older.clone(),
            Direction::Newer => page.newer.clone(),
        };
        pages.push((request.clone(), page));
        let Some(cursor) = onward else { return pages };
        let direction = request.direction;
        request = request.at_cursor(cursor);
        request.direction = direction;
    }
}

fn same_entry(json: &Entry, typed: &Entry<StoredMessage>) {
    match (json, typed) {
        (
            Entry::Row { key, revision, row },
            Entry::Row {
                key: their_key,
                revision: their_revision,
                row: message,
            },
        ) => {
            assert_eq!((key, revision), (their_key, their_revision));
            assert_eq!(row, &message.to_json());
            assert_eq!(message, &StoredMessage::from_json(row).unwrap());
        }
        (
            Entry::Fragment { data, .. },
            Entry::Fragment {
                data: their_data, ..
            },
        ) => assert_eq!(data, their_data),
        (json, typed) => assert_eq!(format!("{json:?}"), format!("{typed:?}")),
    }
}

#[tokio::test]
async fn a_page_is_the_same_in_every_form() {
    let (mut rows, mut fragments) = (0, 0);
    for seed in 0..12 {
        let (store, id) = filled(seed, 300).await;
        let service = TranscriptService::new(store);
        for (direction, max_items, max_bytes) in [
            (Direction::Older, 50, 256 << 10),
            (Direction::Newer, 7, 2_000),
            (Direction::Older, 3, 150),
        ] {
            let first = PageRequest {
                direction: Some(direction),
                max_items,
                max_bytes,
                on_gap: OnGap::Mark,
                ..PageRequest::newest(id.clone())
            };
            for (request, page) in pages(&service, first).await {
                let json = service.encode_page(&request).await.unwrap();
                assert_eq!(json, page.to_json());
                let typed = service.read_typed_page(&request).await.unwrap();
                assert_eq!(typed.entries.len(), page.entries.len());
                assert_eq!(
                    (&typed.older, &typed.newer, typed.generation),
                    (&page.older, &page.newer, page.generation)
                );
                for (json, typed) in page.entries.iter().zip(&typed.entries) {
                    same_entry(json, typed);
                    rows += usize::from(matches!(json, Entry::Row { .. }));
                    fragments += usize::from(matches!(json, Entry::Fragment { .. }));
                }
            }
        }
    }
    assert!(rows > 2_000 && fragments > 500, "{rows} and {fragments}");
}

#[tokio::test]
async fn a_redacted_row_says_so_in_every_form() {
    let (store, id) = filled(1, 200).await;
    let service = TranscriptService::new(Arc::clone(&store));
    let request = PageRequest::newest(id.clone());
    let page = service.read_page(&request).await.unwrap();
    let keys = page.entries.iter().filter_map(|entry| match entry {
        Entry::Row { key, .. } => Some(key.to_string()),
        _ => None,
    });
    let keys: Vec<_> = keys.collect();
    store.redact(&id, &keys).await.unwrap();
    let page = service.read_page(&request).await.unwrap();
    let typed = service.read_typed_page(&request).await.unwrap();
    let mut redacted = 0;
    for (json, typed) in page.entries.iter().zip(&typed.entries) {
        same_entry(json, typed);
        redacted += usize::from(json.to_json().contains("\"redacted\":true"));
    }
    assert!(redacted > 10, "{redacted} rows");
    assert_eq!(service.encode_page(&request).await.unwrap(), page.to_json());
}
