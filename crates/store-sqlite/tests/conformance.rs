//! The conformance suite over the store in one SQLite file.

use async_trait::async_trait;
use folio_store::{Store, StoreError};
use folio_store_sqlite::{SqliteConfig, open};
use folio_testkit::conformance::{StorePlace, run};
use std::process::ExitCode;
use std::sync::Arc;
use tempfile::TempDir;

/// A directory that goes when the case ends.
struct Place(TempDir);

#[async_trait]
impl StorePlace for Place {
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let config = SqliteConfig::new(self.0.path().join("sessions.folio"));
        Ok(Arc::new(open(&config)?))
    }
}

fn main() -> ExitCode {
    run(|| Box::new(Place(tempfile::tempdir().expect("a temporary directory"))))
}
