//! Errors that tell the caller what to do.

use std::fmt;
use std::sync::Arc;

/// What the caller of a failed operation must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Somebody else was faster, or the facts contradict stored ones: read
    /// again and decide anew.
    Conflict,
    /// The commit may or may not have happened: look the events up by id.
    Indeterminate,
    /// Nothing happened: try again later.
    Unavailable,
    /// It does not exist: do not try again.
    NotFound,
    /// The request breaks the contract: mend the caller.
    Invalid,
    /// The adapter cannot do this: do not try again.
    Unsupported,
    /// Stored data breaks an invariant: keep the files and report it.
    Corrupt,
    /// The store is closed: open it again.
    Closed,
}

/// An error of a store.
///
/// The code is stable; the message says what happened, to what, and what to do
/// about it, and may change.
///
/// ```
/// use folio_store::{ErrorKind, StoreError};
///
/// let error = StoreError::new(ErrorKind::NotFound, "session_not_found", "no session s1");
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert_eq!(error.code(), "session_not_found");
/// ```
#[derive(Debug, Clone)]
pub struct StoreError {
    kind: ErrorKind,
    code: &'static str,
    message: String,
    ordinals: Vec<u64>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// An error with a stable code.
    pub fn new(kind: ErrorKind, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code,
            message: message.into(),
            ordinals: Vec::new(),
            source: None,
        }
    }

    /// Names the ordinals that the error is about.
    #[must_use]
    pub fn at(mut self, ordinals: Vec<u64>) -> Self {
        self.ordinals = ordinals;
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What the caller must do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The ordinals that the error is about, where it is about any.
    pub fn ordinals(&self) -> &[u64] {
        &self.ordinals
    }

    /// The store is closed.
    pub fn closed() -> Self {
        let message = "the store is closed: open it again";
        Self::new(ErrorKind::Closed, "store_closed", message)
    }

    /// No such session.
    pub fn no_session(id: &str) -> Self {
        Self::new(
            ErrorKind::NotFound,
            "session_not_found",
            format!("there is no session {id}"),
        )
    }

    /// No such blob.
    pub fn no_blob(id: &crate::BlobId) -> Self {
        let message = format!("there is no blob {id}: put it first");
        Self::new(ErrorKind::NotFound, "blob_not_found", message)
    }

    /// Stored data that breaks an invariant.
    pub fn corrupt(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, code, message)
    }

    /// Events that are missing or damaged: `projection_gap`.
    pub fn gap(ordinals: Vec<u64>) -> Self {
        let message = format!("events are missing or damaged at ordinals {ordinals:?}");
        Self::corrupt("projection_gap", message).at(ordinals)
    }

    /// Entries of a contribution log that are missing: `fact_missing`.
    pub fn facts_missing(source: &str, found: u64, written: u64) -> Self {
        let message = format!(
            "{found} of {written} entries of the log {source} are found: keep the files and \
             verify the session"
        );
        Self::corrupt("fact_missing", message)
    }

    /// The system gives no thread.
    #[cfg(feature = "embedded")]
    pub(crate) fn no_thread(name: &str, error: std::io::Error) -> Self {
        let message = format!("the thread {name} could not be started: {error}");
        Self::new(ErrorKind::Unavailable, "thread_failed", message).caused_by(error)
    }

    /// A request that breaks the contract.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, code, message)
    }
}

/// A key as somebody wrote it, for a message: it is seen that it is empty or
/// has blanks in it, and a long one is cut.
#[cfg(feature = "embedded")]
pub(crate) fn quoted(key: &str) -> String {
    /// The most characters that are told.
    const MOST: usize = 128;
    let simple = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
    if (1..=MOST).contains(&key.len()) && key.chars().all(simple) {
        return key.to_owned();
    }
    let head: String = key.chars().take(MOST).collect();
    let more = if head.len() < key.len() { "…" } else { "" };
    format!("{head:?}{more}")
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<folio_codec::CodecError> for StoreError {
    fn from(error: folio_codec::CodecError) -> Self {
        let message = format!("{error}: the store is damaged, or a newer build wrote it");
        Self::corrupt("undecodable", message).caused_by(error)
    }
}
