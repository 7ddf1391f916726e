//! Where a store is: the name that a command line gives it, and how it is
//! opened.

use crate::failure::{Exit, Failure};
use folio_store::{ErrorKind, Store, StoreError};
use folio_store_redb::RedbConfig;
use folio_store_sqlite::SqliteConfig;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How stores are named.
const EXAMPLE: &str = "write it as sqlite:PATH or redb:PATH, such as sqlite:sessions.db, or as \
                       memory: for one that lasts as long as the command";

/// What a command does with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads what exists.
    Read,
    /// Writes to what exists.
    Write,
    /// Writes, and makes the store if there is none.
    Make,
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A SQLite file; several processes may use it.
    Sqlite(PathBuf),
    /// A redb file; one process holds it.
    Redb(PathBuf),
    /// Nowhere: it goes when the command ends.
    Memory,
}

impl Place {
    /// The store that a name is about.
    pub fn parse(named: &str) -> Result<Self, Failure> {
        let wrong = |message| Err(Failure::usage("store_unknown_kind", message));
        if named.is_empty() {
            return wrong(format!("the store's name is empty; {EXAMPLE}"));
        }
        let Some((kind, path)) = named.split_once(':') else {
            return wrong(format!("{named} names no store; {EXAMPLE}"));
        };
        match (kind, path) {
            ("memory", "") => Ok(Self::Memory),
            ("memory", _) => wrong(format!("a store in memory has no path; {EXAMPLE}")),
            ("sqlite" | "redb", "") => wrong(format!("{named} names no file; {EXAMPLE}")),
            // SQLite's word for a database that is gone when it is closed.
            ("sqlite" | "redb", ":memory:") => wrong(format!(
                "a store in memory would be lost when the command ends; {EXAMPLE}"
            )),
            ("sqlite", path) => Ok(Self::Sqlite(PathBuf::from(path))),
            ("redb", path) => Ok(Self::Redb(PathBuf::from(path))),
            _ => wrong(format!("{named} names no store; {EXAMPLE}")),
        }
    }

    /// Its file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) | Self::Redb(path) => Some(path),
            Self::Memory => None,
        }
    }

    /// Opens it.
    pub fn open(&self, access: Access) -> Result<Arc<dyn Store>, StoreError> {
        match self {
            Self::Sqlite(path) => {
                let config = SqliteConfig::new(path);
                let config = match access {
                    Access::Read => config.read_only(),
                    Access::Write => config.existing(),
                    Access::Make => config,
                };
                Ok(Arc::new(folio_store_sqlite::open(&config)?))
            }
            Self::Redb(path) => {
                let config = RedbConfig::new(path);
                let config = match access {
                    Access::Read => config.read_only(),
                    Access::Write => config.existing(),
                    Access::Make => config,
                };
                Ok(Arc::new(folio_store_redb::open(&config)?))
            }
            Self::Memory if access == Access::Make => Ok(Arc::new(folio_store_memory::open()?)),
            Self::Memory => {
                let message = "a store in memory is empty when a command begins; \
                               `folio --store memory: open PATH` shows sessions without keeping \
                               them, and sqlite:PATH or redb:PATH name a store that stays";
                Err(StoreError::new(ErrorKind::NotFound, "store_empty", message))
            }
        }
    }

    /// Whether both are one file.
    pub fn is_same(&self, other: &Self) -> bool {
        let (Some(one), Some(other)) = (self.path(), other.path()) else {
            return false;
        };
        let real = |path: &Path| std::fs::canonicalize(path);
        match (real(one), real(other)) {
            (Ok(one), Ok(other)) => one == other,
            _ => one == other,
        }
    }
}

/// Whatever keeps a store from being opened, the store is what to mend.
pub fn unusable(error: &StoreError, hint: &str) -> Failure {
    let hint = if error.code() == "store_missing" {
        hint
    } else {
        ""
    };
    Failure::new(Exit::Store, error.code(), format!("{error}{hint}"))
}
