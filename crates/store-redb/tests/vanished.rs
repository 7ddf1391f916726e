//! A file that is removed, moved or replaced while its store is open: nothing
//! is acknowledged that will not be found, and nothing is written to another
//! store. What is read is of the file that was opened.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_core::SessionId;
use folio_store::{Admin, AppendBatch, ErrorKind, Ledger, NewSession, StoreError};
use folio_store_redb::{RedbConfig, RedbStore};
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
    async fn store(&self, name: &str) -> RedbStore {
        let store = open(&self.path(name));
        let session = NewSession::native(self.id.clone());
        store.create_session(session).await.unwrap();
        self.append(&store, "first").await.unwrap();
        store
    }

    async fn append(&self, store: &RedbStore, id: &str) -> Result<u64, StoreError> {
        let batch = AppendBatch::native(vec![Events::new("s1").user(id, id)]);
        Ok(store.append(&self.id, batch).await?.high_water)
    }

    async fn is_moved(&self, store: &RedbStore) {
        let error = self.append(store, "lost").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, "store_moved"),
            "{error}"
        );
        assert!(error.to_string().contains("open it again"), "{error}");
        assert_eq!(store.session(&self.id).await.unwrap().head, 1);
    }
}

fn open(path: &Path) -> RedbStore {
    folio_store_redb::open(&RedbConfig::new(path)).unwrap()
}

#[tokio::test]
async fn a_removed_file_acknowledges_nothing() {
    let place = Place::new();
    let store = place.store("folio.redb").await;
    fs::remove_file(place.path("folio.redb")).unwrap();
    place.is_moved(&store).await;
}

#[tokio::test]
async fn a_file_that_comes_back_goes_on() {
    let place = Place::new();
    let store = place.store("folio.redb").await;
    fs::rename(place.path("folio.redb"), place.path("away.redb")).unwrap();
    place.is_moved(&store).await;
    fs::rename(place.path("away.redb"), place.path("folio.redb")).unwrap();
    assert_eq!(place.append(&store, "second").await.unwrap(), 2);
    store.close().await.unwrap();
    drop(store);
    let store = open(&place.path("folio.redb"));
    assert_eq!(store.session(&place.id).await.unwrap().head, 2);
    assert_eq!(store.verify(&place.id).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_store_in_anothers_place_is_not_written() {
    let place = Place::new();
    let other = place.store("other.redb").await;
    place.append(&other, "second").await.unwrap();
    other.close().await.unwrap();
    drop(other);
    let bytes = fs::read(place.path("other.redb")).unwrap();
    let store = place.store("folio.redb").await;
    fs::rename(place.path("other.redb"), place.path("folio.redb")).unwrap();
    place.is_moved(&store).await;
    let _ = store.close().await;
    drop(store);
    assert!(fs::read(place.path("folio.redb")).unwrap() == bytes);
}

#[tokio::test]
async fn a_store_that_was_rewritten_has_a_new_place() {
    let place = Place::new();
    let store = place.store("folio.redb").await;
    let other = SessionId::new("s2").unwrap();
    let session = NewSession::native(other.clone());
    store.create_session(session).await.unwrap();
    store.delete_session(&other, None).await.unwrap();
    store.scrub().await.unwrap();
    assert_eq!(place.append(&store, "second").await.unwrap(), 2);
    fs::remove_file(place.path("folio.redb")).unwrap();
    let error = place.append(&store, "lost").await.unwrap_err();
    assert_eq!(error.code(), "store_moved");
}
