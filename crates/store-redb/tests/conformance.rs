//! The conformance suite over the store in one redb file.

use async_trait::async_trait;
use folio_store::{Store, StoreError};
use folio_store_redb::{RedbConfig, open};
use folio_testkit::conformance::{StorePlace, run};
use std::process::ExitCode;
use std::sync::Arc;
use tempfile::TempDir;

/// A directory that goes when the case ends.
struct Place(TempDir);

#[async_trait]
impl StorePlace for Place {
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let config = RedbConfig::new(self.0.path().join("sessions.redb"));
        Ok(Arc::new(open(&config)?))
    }
}

fn main() -> ExitCode {
    run(|| Box::new(Place(tempfile::tempdir().expect("a temporary directory"))))
}
