//! Why a page is refused.

use folio_core::CursorError;
use folio_store::{ErrorKind, StoreError};

/// Why a page is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cursor does not fit.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The request is out of bounds.
    #[error("{message}")]
    Invalid {
        /// The stable code.
        code: &'static str,
        /// What is wrong and what is right.
        message: String,
    },
}

impl TranscriptError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::Cursor(error) => error.code(),
            Self::Invalid { code, .. } => code,
        }
    }

    /// What the caller must do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Cursor(_) | Self::Invalid { .. } => ErrorKind::Invalid,
        }
    }
}
