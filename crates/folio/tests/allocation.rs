//! What a page holds while it is made is bounded by its size, not by the
//! session's.
//!
//! The allocator of this test counts what Rust code allocates; SQLite's page
//! cache is its own, and bounded by a setting.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio::{AppendBatch, NewSession, PageRequest, SessionId, Store, TranscriptService};
use folio_store_redb::RedbConfig;
use folio_testkit::event::Events;
use peak_alloc::PeakAlloc;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MESSAGES: usize = 1_500;
/// Bytes of each message's text.
const TEXT: usize = 6_000;

async fn filled(store: &dyn Store) -> SessionId {
    let id = SessionId::new("s1").unwrap();
    let new = NewSession::native(id.clone());
    store.create_session(new).await.unwrap();
    let mut e = Events::new("s1").run("r1", "t1");
    let text = "a page of a transcript ".repeat(TEXT / 23);
    for batch in (0..MESSAGES).collect::<Vec<_>>().chunks(100) {
        let events = batch.iter().map(|n| e.user(&format!("u{n}"), &text));
        let batch = AppendBatch::native(events.collect());
        store.append(&id, batch).await.unwrap();
    }
    id
}

/// The most that was allocated at once by some work, beyond what was before.
async fn peak<T>(work: impl Future<Output = T>) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    drop(work.await);
    ALLOCATOR.peak_usage().saturating_sub(before)
}

#[tokio::test]
async fn a_page_allocates_a_few_times_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let redb = RedbConfig::new(folder.path().join("folio.redb"));
    let stores: [(&str, Arc<dyn Store>); 3] = [
        ("memory", folio_testkit::memory_store()),
        (
            "sqlite",
            folio::open_sqlite(folder.path().join("folio.db")).unwrap(),
        ),
        ("redb", Arc::new(folio_store_redb::open(&redb).unwrap())),
    ];
    for (name, store) in stores {
        let id = filled(&*store).await;
        let service = TranscriptService::new(store);
        for max_bytes in [64 << 10, 512 << 10, 4 << 20] {
            let request = PageRequest {
                max_items: 1_000,
                max_bytes,
                ..PageRequest::newest(id.clone())
            };
            // Once without a look, so that caches have what they hold.
            let page = service.read_page(&request).await.unwrap();
            let bytes = page.to_json().len();
            assert!(bytes > max_bytes / 2, "the page is nearly full");
            drop(page);
            let peaks = [
                peak(service.encode_page(&request)).await,
                peak(service.read_page(&request)).await,
                peak(service.read_typed_page(&request)).await,
            ];
            println!("{name}: a page of {max_bytes} bytes at most allocates {peaks:?}");
            let most = 3 * max_bytes + (1 << 20);
            assert!(peaks.iter().all(|peak| *peak <= most), "{peaks:?}");
        }
    }
}
