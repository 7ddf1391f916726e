//! Every operation on the file fails once, and every moment sees a power cut.
//!
//! `workload` is what a store is made to do and what it must hold after each
//! step; `sweep` fails the n-th operation for every n; `images` cuts the power.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod images;
mod sweep;
mod workload;

use folio_fault::Disk;
use folio_fault::redb::Backend;
use folio_store::{Embedded, StoreError};
use folio_store_redb::{Layer, RedbConfig, RedbEngine, RedbStore};
use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageError};
use std::path::Path;
use std::sync::Arc;

/// The file of a store.
const FILE: &str = "sessions.redb";

/// Leads every file that is written through a disk.
#[derive(Debug)]
struct Through(Disk);

impl Layer for Through {
    fn create(
        &self,
        builder: &Builder,
        file: FileBackend,
        path: &Path,
    ) -> Result<Database, DatabaseError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let backend = Backend::new(file, &name, self.0.clone())
            .map_err(|error| DatabaseError::Storage(StorageError::Io(error)))?;
        builder.create_with_backend(backend)
    }
}

fn open_over(folder: &Path, disk: &Disk) -> Result<RedbStore, StoreError> {
    let config = RedbConfig::new(folder.join(FILE));
    let layer = Arc::new(Through(disk.clone()));
    Embedded::new(RedbEngine::open_over(&config, Some(layer))?)
}

fn open(folder: &Path) -> Result<RedbStore, StoreError> {
    folio_store_redb::open(&RedbConfig::new(folder.join(FILE)))
}

/// A folder with an empty store.
fn made() -> tempfile::TempDir {
    let folder = folio_fault::folder().unwrap();
    drop(open(folder.path()).unwrap());
    folder
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}
