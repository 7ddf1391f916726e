//! What somebody whose disk is full is told: that it is, and which store it is
//! about.

use crate::workload::{FILE, Workload, config};
use crate::{MOST_POINTS, block_on, new_folder};
use folio_fault::sqlite::Vfs;
use folio_fault::{Disk, Fault};
use folio_store::StoreError;
use folio_store_sqlite::{SqliteStore, open};
use std::path::Path;

/// Wherever the room ends while a store is made.
pub fn opening() {
    let mut refused = 0;
    for n in 1..MOST_POINTS {
        let folder = new_folder();
        let disk = Disk::of_folder(folder.path()).unwrap();
        let vfs = Vfs::register(folder.path(), disk.clone()).unwrap();
        disk.arm(Fault::full(n));
        match opened(folder.path(), &vfs) {
            Ok(store) if disk.fired().is_none() => {
                disk.disarm();
                drop(store);
                break;
            }
            Ok(store) => {
                disk.disarm();
                drop(store);
            }
            Err(error) => {
                disk.disarm();
                is_told(&error, folder.path());
                refused += 1;
            }
        }
    }
    assert!(refused > 3, "{refused} starts were refused");
}

/// A process left a WAL behind, and there is no room to begin it anew. The store
/// can be read; the first write is refused.
pub fn fence() {
    let left = new_folder();
    let all = Workload::new();
    let writer = open(&config(left.path(), None)).unwrap();
    for step in &all.steps {
        block_on(step.perform(&writer)).unwrap();
    }
    // As if it had been killed here.
    let folder = new_folder();
    for name in [FILE.to_owned(), format!("{FILE}-wal")] {
        std::fs::copy(left.path().join(&name), folder.path().join(&name)).unwrap();
    }
    drop(writer);

    let disk = Disk::of_folder(folder.path()).unwrap();
    let vfs = Vfs::register(folder.path(), disk.clone()).unwrap();
    disk.arm(Fault::full(1));
    let store = opened(folder.path(), &vfs).unwrap();
    assert_eq!(block_on(crate::oracle::held(&store)), *all.end());
    let rebuild = all.steps.last().unwrap();
    is_told(
        &block_on(rebuild.perform(&store)).unwrap_err(),
        folder.path(),
    );

    disk.disarm();
    block_on(rebuild.perform(&store)).unwrap();
    assert_eq!(block_on(crate::oracle::held(&store)), *all.end());
}

fn opened(folder: &Path, vfs: &Vfs) -> Result<SqliteStore, StoreError> {
    open(&config(folder, Some(vfs.name())))
}

#[track_caller]
fn is_told(error: &StoreError, folder: &Path) {
    let path = folder.join(FILE).display().to_string();
    assert_eq!(error.code(), "storage_full", "{error}");
    assert!(error.to_string().starts_with(&path), "{error}");
    assert!(error.to_string().contains("free some space"), "{error}");
}
