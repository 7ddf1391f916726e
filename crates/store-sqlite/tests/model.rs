//! Random histories over the store in one SQLite file, alone and beside the
//! store in memory.

use async_trait::async_trait;
use folio_store::engine::Capabilities;
use folio_store::{Store, StoreError};
use folio_store_sqlite::{SqliteConfig, open};
use folio_testkit::conformance::StorePlace;
use folio_testkit::model::{MemoryPlace, differential, run};
use std::sync::Arc;
use tempfile::TempDir;

/// A directory that goes when the history ends.
struct Place(TempDir);

#[async_trait]
impl StorePlace for Place {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            multi_process: true,
            ..Capabilities::default()
        }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let file = self.0.path().join("sessions.folio");
        Ok(Arc::new(open(&SqliteConfig::new(file))?))
    }
}

fn sqlite() -> Box<dyn StorePlace> {
    Box::new(Place(tempfile::tempdir().expect("a temporary directory")))
}

#[test]
fn a_file_is_as_the_model_through_reopening() {
    run(sqlite, 20);
}

#[test]
fn a_file_and_the_memory_hold_the_same() {
    differential(&[|| Box::new(MemoryPlace), sqlite], 20);
}
