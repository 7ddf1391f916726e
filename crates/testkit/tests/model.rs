//! Random histories over the store in memory and the simulated engine, and
//! over engines that are wrong.

use folio_testkit::conformance::StorePlace;
use folio_testkit::model::{self, MemoryPlace};
use folio_testkit::simulated::SimulatedPlace;

fn memory() -> Box<dyn StorePlace> {
    Box::new(MemoryPlace)
}

fn simulated() -> Box<dyn StorePlace> {
    Box::new(SimulatedPlace::default())
}

#[test]
fn a_durable_store_is_as_the_model_through_reopening_and_failed_commits() {
    model::run(simulated, 100);
}

#[test]
fn the_store_in_memory_and_the_simulated_engine_hold_the_same() {
    model::differential(&[memory, simulated], 100);
}
