//! Random histories over the store in memory. What is durable is compared in
//! the tests of durable stores.

use folio_testkit::model::{MemoryPlace, run};

#[test]
fn the_store_in_memory_is_as_the_model() {
    run(|| Box::new(MemoryPlace), 100);
}
