//! A file that is removed, moved or replaced while its store is open: nothing
//! is acknowledged that will not be found, and nothing is read or written that
//! belongs to another store.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_core::SessionId;
use folio_store::{Admin, AppendBatch, ErrorKind, Ledger, NewSession, StoreError};
use folio_store_sqlite::{SqliteConfig, SqliteStore};
use folio_testkit::event::Events;
use std::fs;
use std::path::{Path, PathBuf};

struct Place {
    folder: tempfile::TempDir,
    id: SessionId,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            id: SessionId::new("s1").unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A store with one session of one event.
    async fn store(&self, name: &str) -> SqliteStore {
        let store = open(&self.path(name));
        let session = NewSession::native(self.id.clone());
        store.create_session(session).await.unwrap();
        self.append(&store, "first").await.unwrap();
        store
    }

    async fn append(&self, store: &SqliteStore, id: &str) -> Result<u64, StoreError> {
        let batch = AppendBatch::native(vec![Events::new("s1").user(id, id)]);
        Ok(store.append(&self.id, batch).await?.high_water)
    }

    async fn is_moved(&self, store: &SqliteStore) {
        for error in [
            self.append(store, "lost").await.unwrap_err(),
            store.session(&self.id).await.unwrap_err(),
            store.check().await.unwrap_err(),
        ] {
            assert_eq!(
                (error.kind(), error.code()),
                (ErrorKind::Unavailable, "store_moved"),
                "{error}"
            );
            assert!(error.to_string().contains("open it again"), "{error}");
        }
    }
}

fn open(path: &Path) -> SqliteStore {
    folio_store_sqlite::open(&SqliteConfig::new(path)).unwrap()
}

#[tokio::test]
async fn a_removed_file_acknowledges_nothing() {
    let place = Place::new();
    let store = place.store("folio.db").await;
    fs::remove_file(place.path("folio.db")).unwrap();
    place.is_moved(&store).await;
}

#[tokio::test]
async fn a_file_that_comes_back_goes_on() {
    let place = Place::new();
    let store = place.store("folio.db").await;
    fs::rename(place.path("folio.db"), place.path("away.db")).unwrap();
    place.is_moved(&store).await;
    fs::rename(place.path("away.db"), place.path("folio.db")).unwrap();
    assert_eq!(place.append(&store, "second").await.unwrap(), 2);
    store.close().await.unwrap();
    drop(store);
    let store = open(&place.path("folio.db"));
    assert_eq!(store.session(&place.id).await.unwrap().head, 2);
    assert_eq!(store.verify(&place.id).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_store_in_anothers_place_is_neither_read_nor_written() {
    let place = Place::new();
    let other = place.store("other.db").await;
    place.append(&other, "second").await.unwrap();
    other.close().await.unwrap();
    drop(other);
    let bytes = fs::read(place.path("other.db")).unwrap();
    let store = place.store("folio.db").await;
    fs::rename(place.path("other.db"), place.path("folio.db")).unwrap();
    place.is_moved(&store).await;
    let _ = store.close().await;
    drop(store);
    assert!(fs::read(place.path("folio.db")).unwrap() == bytes);
}
