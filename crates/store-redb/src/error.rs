//! What can go wrong in here, and what of it the caller has to know.

use folio_store::{ErrorKind, StoreError};
use std::io;
use std::path::PathBuf;

/// An error of the adapter.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// redb refused.
    #[error("{0}")]
    Redb(Box<redb::Error>),
    /// redb, or the operating system, refused while the store was opened or
    /// rewritten.
    #[error("{}: {error}", path.display())]
    Opening {
        /// The path.
        path: PathBuf,
        /// What redb said.
        error: Box<redb::Error>,
    },
    /// redb panicked, which it does on files that are damaged.
    #[error("redb panicked ({0}): the database file is damaged; keep it and restore a copy")]
    Panicked(String),
    /// A row does not fit its checksum, or does not decode.
    #[error(
        "{table}, {key}: the stored row is damaged; keep the files and restore or rebuild from a copy"
    )]
    Damaged {
        /// The table.
        table: &'static str,
        /// The row in it.
        key: String,
    },
    /// A row that must be new is not.
    #[error(
        "{table}, {key}: the row is there already; the rows contradict stored ones, keep the files and report it"
    )]
    Exists {
        /// The table.
        table: &'static str,
        /// The row in it.
        key: String,
    },
    /// A row to be changed that is not there.
    #[error("{table}, {key}: the stored row is missing; keep the files and restore from a copy")]
    Missing {
        /// The table.
        table: &'static str,
        /// The row in it.
        key: String,
    },
    /// Rows without the row that they belong to.
    #[error("{rows} were to be written without their {owner}")]
    Ownerless {
        /// What was to be written.
        rows: &'static str,
        /// What is missing.
        owner: &'static str,
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
    /// Another handle holds it.
    #[error(
        "another process, or another handle in this one, has the store open, and one at a time may; \
         close that one first, or use it"
    )]
    Locked,
    /// The open file has lost its place.
    #[error(
        "the file was removed, moved or replaced while the store was open, and nothing more is \
         written; put it back, or close the store and open it again"
    )]
    Moved,
    /// It cannot be read.
    #[error("the database file is damaged ({0}); keep it and restore a copy")]
    Damaged(String),
    /// The operating system refuses.
    #[error("the file cannot be opened; check its permissions and those of its directory")]
    Unreachable,
}

impl Refusal {
    fn kind_and_code(&self) -> (ErrorKind, &'static str) {
        match self {
            Self::Directory => (ErrorKind::Invalid, "store_is_directory"),
            Self::NotAStore => (ErrorKind::Invalid, "store_not_a_store"),
            Self::Newer { .. } => (ErrorKind::Unsupported, "store_newer_schema"),
            Self::ReadOnly => (ErrorKind::Unavailable, "store_read_only"),
            Self::Missing | Self::NoDirectory => (ErrorKind::NotFound, "store_missing"),
            Self::Damaged(_) => (ErrorKind::Corrupt, "database_damaged"),
            Self::Locked => (ErrorKind::Unavailable, "store_locked"),
            Self::Moved => (ErrorKind::Unavailable, "store_moved"),
            Self::Unreachable => (ErrorKind::Unavailable, "store_unreachable"),
        }
    }
}

// redb has an error type for each of its steps; here they are one.
macro_rules! from_redb {
    ($($error:ident),*) => {$(
        impl From<redb::$error> for Error {
            fn from(error: redb::$error) -> Self {
                Self::Redb(Box::new(error.into()))
            }
        }
    )*};
}
from_redb!(
    StorageError,
    TableError,
    DatabaseError,
    TransactionError,
    CommitError,
    SetDurabilityError
);

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Redb(Box::new(redb::Error::Io(error)))
    }
}

impl Error {
    /// Whether redb serves nothing more until the file was opened again.
    pub fn breaks_handle(&self) -> bool {
        let (Self::Redb(error) | Self::Opening { error, .. }) = self else {
            return false;
        };
        matches!(
            **error,
            redb::Error::Io(_)
                | redb::Error::Backend(_)
                | redb::Error::PreviousIo
                | redb::Error::DatabaseClosed
        )
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
            Self::Exists { .. } => (ErrorKind::Corrupt, "row_exists"),
            Self::Ownerless { .. } => (ErrorKind::Invalid, "rows_without_owner"),
            Self::Panicked(_) => (ErrorKind::Corrupt, "database_damaged"),
            Self::Open { why, .. } => why.kind_and_code(),
            Self::Redb(error) | Self::Opening { error, .. } => match &**error {
                redb::Error::Io(error) => match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        (ErrorKind::Unavailable, "storage_full")
                    }
                    // Pages that the file says it has, and that are not there.
                    io::ErrorKind::UnexpectedEof => (ErrorKind::Corrupt, "database_damaged"),
                    _ => (ErrorKind::Unavailable, "io_error"),
                },
                redb::Error::PreviousIo
                | redb::Error::DatabaseClosed
                | redb::Error::Backend(_)
                | redb::Error::TransactionInProgress => (ErrorKind::Unavailable, "io_error"),
                redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
                    (ErrorKind::Unavailable, "store_locked")
                }
                redb::Error::ValueTooLarge(_) => (ErrorKind::Invalid, "limit_exceeded"),
                // Only damage takes a table away, or changes its type.
                redb::Error::Corrupted(_)
                | redb::Error::TableDoesNotExist(_)
                | redb::Error::TableTypeMismatch { .. }
                | redb::Error::TypeDefinitionChanged { .. }
                | redb::Error::TableIsMultimap(_)
                | redb::Error::LockPoisoned(_) => (ErrorKind::Corrupt, "database_damaged"),
                redb::Error::TransactionPoisoned => (ErrorKind::Unavailable, "transaction_failed"),
                _ => (ErrorKind::Unavailable, "redb_error"),
            },
        }
    }

    /// What to do, where redb said only what happened.
    fn advice(&self, code: &str) -> &'static str {
        if !matches!(self, Self::Redb(_) | Self::Opening { .. }) {
            return "";
        }
        match code {
            "storage_full" => ": nothing was written; free some space and try again",
            "io_error" => ": nothing was written; check the disk and try again",
            "database_damaged" => ": the database file is damaged; keep it and restore a copy",
            "transaction_failed" => ": nothing was written, try again",
            _ => "",
        }
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let (kind, code) = error.kind_and_code();
        let message = format!("{error}{}", error.advice(code));
        match error {
            Error::Redb(source) | Error::Opening { error: source, .. } => {
                Self::new(kind, code, message).caused_by(Text(source.to_string()))
            }
            _ => Self::new(kind, code, message),
        }
    }
}

/// What redb said: its error type may hold a transaction, and is no error to
/// pass around.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Text(String);

/// The commit answered an error: it may be found after the next start.
pub fn indeterminate(source: &Error) -> StoreError {
    StoreError::new(
        ErrorKind::Indeterminate,
        "indeterminate",
        format!(
            "the commit failed ({source}) and may or may not be kept; look the events up by id"
        ),
    )
    .caused_by(Text(source.to_string()))
}

/// A write of the transaction failed before its end.
pub fn transaction_failed() -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        "transaction_failed",
        "an earlier write of this transaction failed; nothing of it was kept, try again",
    )
}

/// A commit failed, and the file could not be opened or written since.
pub fn poisoned(why: &str) -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        "store_poisoned",
        format!(
            "an earlier write failed and the file could not be opened anew ({why}): \
             nothing was written, try again when the disk is mended"
        ),
    )
}

/// redb panicked: nothing more is written through this handle.
pub fn damaged_handle() -> StoreError {
    StoreError::new(
        ErrorKind::Unavailable,
        "store_poisoned",
        "the database file was found damaged and is not written any more: \
         keep it, check it, and restore a copy or open it again",
    )
}
