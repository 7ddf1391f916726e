//! The store as programs open it.

use crate::{SqliteConfig, SqliteEngine};
use folio_store::StoreError;

/// Opens the engine of a store.
///
/// # Errors
/// A typed error that says what to do, such as `store_missing`,
/// `store_not_a_store`, `store_newer_schema`, `store_read_only` or
/// `store_locked`; nothing was created or changed then.
pub fn open_engine(config: &SqliteConfig) -> Result<SqliteEngine, StoreError> {
    SqliteEngine::open(config)
}
