//! Random histories over the store in one SQLite file, alone and beside the
//! store in memory and the simulated engine.

use async_trait::async_trait;
use folio_store::engine::Capabilities;
use folio_store::{Store, StoreError};
use folio_store_sqlite::{SqliteConfig, open};
use folio_testkit::conformance::StorePlace;
use folio_testkit::model::{MemoryPlace, differential, run};
use folio_testkit::simulated::SimulatedPlace;
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
    run(sqlite, 30);
}

fn memory() -> Box<dyn StorePlace> {
    Box::new(MemoryPlace)
}

fn simulated() -> Box<dyn StorePlace> {
    Box::new(SimulatedPlace::default())
}

#[test]
fn a_file_and_the_simulated_engine_hold_the_same() {
    differential(&[simulated, sqlite], 15);
}

#[test]
fn a_file_and_the_memory_hold_the_same() {
    differential(&[memory, simulated, sqlite], 15);
}
