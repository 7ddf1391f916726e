//! What ends an import without an outcome.

use folio_store::StoreError;
use std::io;
use std::path::PathBuf;

/// An import that could not be carried out. Nothing of it is readable, and the
/// same import, begun again, goes on where this one stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The source could not be read.
    #[error("cannot read {}: {source}; check the path and its permissions", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The import was asked to stop.
    #[error("the import of {} was interrupted; import it again to go on", .path.display())]
    Interrupted {
        /// The file.
        path: PathBuf,
    },
    /// The store refused or failed.
    #[error("{0}")]
    Store(#[source] StoreError),
}

impl ImportError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "io_error",
            Self::Interrupted { .. } => "interrupted",
            Self::Store(error) => error.code(),
        }
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
