//! What to open, and how.

use std::path::PathBuf;

/// How to open a store.
///
/// ```
/// use folio_store_redb::RedbConfig;
///
/// let config = RedbConfig::new("sessions.redb");
/// assert!(config.create && !config.read_only);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedbConfig {
    /// The database file.
    pub path: PathBuf,
    /// Whether to make a new store where there is none.
    pub create: bool,
    /// Whether to open for reading alone; nothing is ever created or changed
    /// then, and several readers may share the file.
    pub read_only: bool,
    /// How many bytes of pages to keep in memory.
    pub cache_bytes: usize,
}

impl RedbConfig {
    /// Opens for writing, and makes the store if there is none.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            create: true,
            read_only: false,
            cache_bytes: 64 << 20,
        }
    }

    /// Opens only what exists.
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.create = false;
        self
    }

    /// Opens for reading alone.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}
