//! What can go wrong in here, and what of it the caller has to know.

use crate::lock::Holder;
use folio_store::{ErrorKind, StoreError};
use rusqlite::{ErrorCode, ffi};
use std::io;
use std::path::PathBuf;

/// An error of the adapter.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite refused.
    #[error("{0}")]
    Sql(#[from] rusqlite::Error),
    /// SQLite refused while the store was opened.
    #[error("{}: {error}", path.display())]
    Opening {
        /// The path.
        path: PathBuf,
        /// What SQLite said.
        error: rusqlite::Error,
    },
    /// A row does not fit its checksum, or does not decode.
    #[error("{table}, {key}: the stored row is damaged")]
    Damaged {
        /// The table.
        table: &'static str,
        /// The row in it.
        key: String,
    },
    /// A number that has no room in its key.
    #[error("the {what} {value} is greater than {most}, the most that a store holds")]
    Limit {
        /// Which number.
        what: &'static str,
        /// The number.
        value: u64,
        /// The greatest possible.
        most: u64,
    },
    /// A row to be changed that is not there.
    #[error("{table}, {key}: the stored row is missing")]
    Missing {
        /// The table.
        table: &'static str,
        /// The row in it.
        key: String,
    },
    /// Somebody reads what the files can only be rewritten without.
    #[error(
        "another reader or process is in the way: bytes of what was erased are still in the \
         files; try again when it is done"
    )]
    InTheWay,
    /// Rows without the row that they belong to.
    #[error("{rows} were to be written without their {owner}")]
    Ownerless {
        /// What was to be written.
        rows: &'static str,
        /// What is missing.
        owner: &'static str,
    },
    /// Others wrote for as long as this was ready to wait.
    #[error(
        "another process is writing{}; nothing was written, try again when it is done",
        named(.0.as_ref())
    )]
    Busy(Option<Holder>),
    /// A lock file cannot be used.
    #[error(
        "{}: the lock file cannot be used ({source}); check its permissions and its file system",
        path.display()
    )]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The path could not be opened as a store.
    #[error("{}: {why}", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// Why.
        why: Refusal,
    },
}

/// Why a path cannot be opened as a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is a directory.
    #[error("this is a directory; name the file that holds the store")]
    Directory,
    /// It holds something else.
    #[error("this is not a Folio store and was left as it is; name another file")]
    NotAStore,
    /// A newer build made it.
    #[error(
        "a newer build wrote this store (version {found}, this build knows {known}); use that build"
    )]
    Newer {
        /// The version in the file.
        found: u32,
        /// The version of this build.
        known: u32,
    },
    /// It cannot be written.
    #[error("the file or its directory is read-only; make it writable or open it for reading")]
    ReadOnly,
    /// There is nothing.
    #[error("there is no store; check the path, or create it")]
    Missing,
    /// The directory is missing.
    #[error("its directory does not exist; make it first")]
    NoDirectory,
    /// Another process holds it.
    #[error("another process holds the file{}; try again when it is done", named(.0.as_ref()))]
    Locked(Option<Holder>),
    /// It is no longer the file that was opened.
    #[error(
        "the store was removed or another file took its place while it was open: nothing was \
         written; put it back, or close the store and open it again"
    )]
    Moved,
    /// It has several names.
    #[error(
        "the file has several names (hard links), and a store under two names loses what is \
         written; keep one of them, or copy the file"
    )]
    Linked,
    /// The operating system refuses.
    #[error("the file cannot be opened; check its permissions and those of its directory")]
    Unreachable,
    /// The file system cannot keep what a store promises.
    #[error("{0}; a store needs a local file system that supports SQLite's WAL mode")]
    NotDurable(String),
    /// The linked SQLite is too old.
    #[error("SQLite {0} is linked in, and 3.51.3 or newer is needed; build with the bundled one")]
    OldSqlite(&'static str),
}

/// The holder of the lock in brackets, where it is known.
fn named(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(" ({holder})"))
}

impl Refusal {
    fn kind_and_code(&self) -> (ErrorKind, &'static str) {
        match self {
            Self::Directory => (ErrorKind::Invalid, "store_is_directory"),
            Self::NotAStore => (ErrorKind::Invalid, "store_not_a_store"),
            Self::Newer { .. } => (ErrorKind::Unsupported, "store_newer_schema"),
            Self::ReadOnly => (ErrorKind::Unavailable, "store_read_only"),
            Self::Missing | Self::NoDirectory => (ErrorKind::NotFound, "store_missing"),
            Self::Locked(_) => (ErrorKind::Unavailable, "store_locked"),
            Self::Moved => (ErrorKind::Unavailable, "store_moved"),
            Self::Linked => (ErrorKind::Invalid, "store_linked"),
            Self::Unreachable => (ErrorKind::Unavailable, "store_unreachable"),
            Self::NotDurable(_) => (ErrorKind::Unsupported, "store_not_durable"),
            Self::OldSqlite(_) => (ErrorKind::Unsupported, "sqlite_too_old"),
        }
    }
}

impl Error {
    /// A damaged row.
    pub fn damaged(table: &'static str, key: impl Into<String>) -> Self {
        Self::Damaged {
            table,
            key: key.into(),
        }
    }

    /// SQLite's code, where it was SQLite.
    pub fn sqlite_code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sql(error) | Self::Opening { error, .. } => error.sqlite_error_code(),
            _ => None,
        }
    }

    fn kind_and_code(&self) -> (ErrorKind, &'static str) {
        match self {
            Self::Damaged { table, .. } => match *table {
                "items" | "item_keys" | "item_segs" => (ErrorKind::Corrupt, "index_damaged"),
                "pieces" => (ErrorKind::Corrupt, "blob_damaged"),
                "view_rows" | "view_marks" => (ErrorKind::Corrupt, "view_damaged"),
                _ => (ErrorKind::Corrupt, "row_damaged"),
            },
            Self::Missing { .. } => (ErrorKind::Corrupt, "row_damaged"),
            Self::InTheWay => (ErrorKind::Unavailable, "store_busy"),
            Self::Limit { .. } => (ErrorKind::Invalid, "limit_exceeded"),
            Self::Ownerless { .. } => (ErrorKind::Invalid, "rows_without_owner"),
            Self::Busy(_) => (ErrorKind::Unavailable, "store_busy"),
            Self::Lock { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                (ErrorKind::Unavailable, "storage_full")
            }
            Self::Lock { .. } => (ErrorKind::Unavailable, "lock_failed"),
            Self::Open { why, .. } => why.kind_and_code(),
            Self::Sql(error) | Self::Opening { error, .. } if is_full(error) => {
                (ErrorKind::Unavailable, "storage_full")
            }
            Self::Sql(error) | Self::Opening { error, .. } => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    (ErrorKind::Unavailable, "store_busy")
                }
                Some(ErrorCode::SystemIoFailure) => (ErrorKind::Unavailable, "io_error"),
                Some(ErrorCode::ReadOnly) => (ErrorKind::Unavailable, "store_read_only"),
                Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                    (ErrorKind::Unavailable, "store_unreachable")
                }
                Some(ErrorCode::OutOfMemory) => (ErrorKind::Unavailable, "out_of_memory"),
                Some(ErrorCode::TooBig) => (ErrorKind::Invalid, "limit_exceeded"),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    (ErrorKind::Corrupt, "database_damaged")
                }
                // Rows that must be new are not, or two rows claim one name.
                Some(ErrorCode::ConstraintViolation) => (ErrorKind::Corrupt, "row_exists"),
                _ => (ErrorKind::Unavailable, "sqlite_error"),
            },
        }
    }

    fn advice(&self) -> &'static str {
        let error = match self {
            Self::Sql(error) | Self::Opening { error, .. } => error,
            Self::Damaged {
                table: "view_rows" | "view_marks",
                ..
            } => return "; drop the view, it can be made anew",
            Self::Damaged { .. } | Self::Missing { .. } => {
                return "; keep the files and restore or rebuild from a copy";
            }
            _ => return "",
        };
        if is_full(error) {
            return ": nothing was written; free some space and try again";
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                ": another process is writing; try again"
            }
            Some(ErrorCode::SystemIoFailure) => {
                ": nothing was written; check the disk and try again"
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                ": the database file is damaged; keep it and restore a copy"
            }
            Some(ErrorCode::ConstraintViolation) => {
                ": the rows contradict stored ones; keep the files and report it"
            }
            _ => "",
        }
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let (kind, code) = error.kind_and_code();
        let message = format!("{error}{}", error.advice());
        let out = Self::new(kind, code, message);
        match error {
            Error::Sql(source) | Error::Opening { error: source, .. } => out.caused_by(source),
            Error::Lock { source, .. } => out.caused_by(source),
            _ => out,
        }
    }
}

/// Whether there is no room for what was to be written. The index of the WAL
/// that processes share is a file too, and where it cannot grow SQLite has a
/// code of its own.
pub fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_SHMSIZE
    })
}

/// The commit answered an error: it may be found after the next start.
pub fn indeterminate(source: rusqlite::Error) -> StoreError {
    StoreError::new(
        ErrorKind::Indeterminate,
        "indeterminate",
        format!(
            "the commit failed ({source}) and may or may not be kept; look the events up by id"
        ),
    )
    .caused_by(source)
}

/// The transaction is gone before its end.
pub fn transaction_failed() -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        "transaction_failed",
        "an earlier write of this transaction failed; nothing of it was kept, try again",
    )
}
