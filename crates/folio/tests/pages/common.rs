//! What the facade's tests share: a store of each kind, and sessions in them.

use folio::{AppendBatch, CanonicalEvent, NewSession, SessionId, Store};
use folio_store_redb::RedbConfig;
use std::path::Path;
use std::sync::Arc;

type Open = fn(&Path) -> Arc<dyn Store>;

/// A store and what keeps its files alive.
pub struct Opened {
    pub name: &'static str,
    pub store: Arc<dyn Store>,
    /// Where the store is a file: its folder, and how the file is opened.
    file: Option<(tempfile::TempDir, Open)>,
}

impl Opened {
    fn in_file(name: &'static str, open: Open) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            name,
            store: open(&folder.path().join("folio.db")),
            file: Some((folder, open)),
        }
    }

    /// The same store, closed and opened again, where it has a file.
    pub async fn reopen(&mut self) {
        if let Some((folder, open)) = &self.file {
            self.store.close().await.unwrap();
            self.store = open(&folder.path().join("folio.db"));
        }
    }
}

/// A fresh store of each kind.
pub fn stores() -> [Opened; 3] {
    [
        Opened {
            name: "memory",
            store: folio_testkit::memory_store(),
            file: None,
        },
        Opened::in_file("sqlite", |path| folio::open_sqlite(path).unwrap()),
        Opened::in_file("redb", |path| {
            Arc::new(folio_store_redb::open(&RedbConfig::new(path)).unwrap())
        }),
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
