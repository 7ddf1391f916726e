//! Random histories over the store in one redb file, alone and beside the
//! store in memory and the simulated engine.

use async_trait::async_trait;
use folio_store::engine::Capabilities;
use folio_store::{Store, StoreError};
use folio_store_redb::{RedbConfig, open};
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
            multi_process: false,
            ..Capabilities::default()
        }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let file = self.0.path().join("sessions.redb");
        Ok(Arc::new(open(&RedbConfig::new(file))?))
    }
}

fn redb() -> Box<dyn StorePlace> {
    Box::new(Place(tempfile::tempdir().expect("a temporary directory")))
}

#[test]
fn a_file_is_as_the_model_through_reopening() {
    run(redb, 30);
}

fn memory() -> Box<dyn StorePlace> {
    Box::new(MemoryPlace)
}

fn simulated() -> Box<dyn StorePlace> {
    Box::new(SimulatedPlace::default())
}

#[test]
fn a_file_and_the_simulated_engine_hold_the_same() {
    differential(&[simulated, redb], 15);
}

#[test]
fn a_file_and_the_memory_hold_the_same() {
    differential(&[memory, simulated, redb], 15);
}
