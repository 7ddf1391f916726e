//! What to open, and how.

use std::path::PathBuf;
use std::time::Duration;

/// How to open a store.
///
/// ```
/// use folio_store_sqlite::SqliteConfig;
///
/// let config = SqliteConfig::new("sessions.folio");
/// assert!(config.create && !config.read_only);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// The database file.
    pub path: PathBuf,
    /// Whether to make a new store where there is none.
    pub create: bool,
    /// Whether to open for reading alone; nothing is ever created then.
    pub read_only: bool,
    /// How long an operation waits for other processes that write, before it
    /// answers `store_busy`, or `store_locked` on opening.
    pub busy_timeout: Duration,
    /// Pages of WAL after which a commit copies them into the database.
    pub checkpoint_pages: u32,
    /// The name of a registered file system of SQLite that all connections go
    /// through; `None` is the system's.
    pub vfs: Option<String>,
}

/// 16 MiB of WAL.
const CHECKPOINT_PAGES: u32 = 4_000;

impl SqliteConfig {
    /// Opens for writing, and makes the store if there is none.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            create: true,
            read_only: false,
            busy_timeout: Duration::from_secs(5),
            checkpoint_pages: CHECKPOINT_PAGES,
            vfs: None,
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
