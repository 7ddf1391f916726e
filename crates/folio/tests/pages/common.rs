//! What the facade's tests share: both stores, and sessions in them.

use folio::{AppendBatch, CanonicalEvent, NewSession, SessionId, Store};
use std::sync::Arc;

/// A store and what keeps its files alive.
pub struct Opened {
    pub name: &'static str,
    pub store: Arc<dyn Store>,
    folder: Option<tempfile::TempDir>,
}

impl Opened {
    /// The same store, closed and opened again, where it has a file.
    pub async fn reopen(&mut self) {
        if let Some(folder) = &self.folder {
            self.store.close().await.unwrap();
            self.store = folio::open_sqlite(folder.path().join("folio.db")).unwrap();
        }
    }
}

/// A fresh store of each kind.
pub fn stores() -> Vec<Opened> {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = folio::open_sqlite(folder.path().join("folio.db")).unwrap();
    vec![
        Opened {
            name: "memory",
            store: folio_testkit::memory_store(),
            folder: None,
        },
        Opened {
            name: "sqlite",
            store: sqlite,
            folder: Some(folder),
        },
    ]
}

/// The session that workloads write to.
pub async fn session(store: &dyn Store, id: &str) -> SessionId {
    let id = SessionId::new(id).unwrap();
    store
        .create_session(NewSession::native(id.clone()))
        .await
        .unwrap();
    id
}

/// Appends events in batches of at most `size`.
pub async fn append(store: &dyn Store, id: &SessionId, events: &[CanonicalEvent], size: usize) {
    for batch in events.chunks(size.max(1)) {
        store
            .append(id, AppendBatch::native(batch.to_vec()))
            .await
            .unwrap();
    }
}

/// Runs a future to its end.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(work)
}
