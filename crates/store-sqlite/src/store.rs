//! The store as programs open it.

use crate::{SqliteConfig, SqliteEngine};
use folio_store::{Embedded, StoreError};

/// A store in one SQLite file.
pub type SqliteStore = Embedded<SqliteEngine>;

/// Opens a store.
///
/// ```
/// use folio_store_sqlite::{SqliteConfig, open};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("sessions.folio");
/// let missing = open(&SqliteConfig::new(&path).existing()).unwrap_err();
/// assert_eq!(missing.code(), "store_missing");
/// let store = open(&SqliteConfig::new(&path))?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A typed error that says what to do, such as `store_missing`,
/// `store_not_a_store`, `store_newer_schema`, `store_read_only` or
/// `store_locked`; nothing was created or changed then.
pub fn open(config: &SqliteConfig) -> Result<SqliteStore, StoreError> {
    Embedded::new(SqliteEngine::open(config)?)
}
