//! The store as programs open it.

use crate::{RedbConfig, RedbEngine};
use folio_store::{Embedded, StoreError};

/// A store in one redb file.
pub type RedbStore = Embedded<RedbEngine>;

/// Opens a store. One handle holds a file at a time, in this process and in
/// all others.
///
/// ```
/// use folio_store_redb::{RedbConfig, open};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("sessions.redb");
/// let missing = open(&RedbConfig::new(&path).existing()).unwrap_err();
/// assert_eq!(missing.code(), "store_missing");
/// let store = open(&RedbConfig::new(&path))?;
/// let second = open(&RedbConfig::new(&path)).unwrap_err();
/// assert_eq!(second.code(), "store_locked");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A typed error that says what to do, such as `store_missing`,
/// `store_not_a_store`, `store_newer_schema`, `store_read_only` or
/// `store_locked`; nothing was created or changed then.
pub fn open(config: &RedbConfig) -> Result<RedbStore, StoreError> {
    Embedded::new(RedbEngine::open(config)?)
}
