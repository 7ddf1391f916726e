//! The conformance suite over the store in memory.

use async_trait::async_trait;
use folio_store::{Store, StoreError};
use folio_testkit::conformance::{StorePlace, run};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// The one store of a case: what is in memory is gone when it is.
#[derive(Default)]
struct Place(OnceLock<Arc<dyn Store>>);

#[async_trait]
impl StorePlace for Place {
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let store: Arc<dyn Store> = Arc::new(folio_store_memory::open()?);
        Ok(Arc::clone(self.0.get_or_init(|| store)))
    }
}

fn main() -> ExitCode {
    run(|| Box::new(Place::default()))
}
