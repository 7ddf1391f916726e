//! The conformance suite over the store in memory.

use async_trait::async_trait;
use folio_store::engine::Capabilities;
use folio_store::{Store, StoreError};
use folio_testkit::conformance::{StorePlace, run};
use std::process::ExitCode;
use std::sync::Arc;

/// Nothing but the process: what is in memory is gone when it is closed.
struct Place;

#[async_trait]
impl StorePlace for Place {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(folio_store_memory::open()?))
    }
}

fn main() -> ExitCode {
    run(|| Box::new(Place))
}
