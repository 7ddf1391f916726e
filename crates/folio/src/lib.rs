//! Folio: an embeddable, durable ledger for AI-agent sessions.
//!
//! Record what an agent does as [`RuntimeEvent`]s; read it back as bounded
//! transcript pages. Pages, counts and every other view are computed from the
//! one ledger, so a running turn and a finished one never disagree.
//!
//! ```
//! use folio::{AppendBatch, CanonicalEvent, Ledger, NewSession, PageRequest, RuntimeEvent};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("sessions.db");
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = folio::open_sqlite(&path)?;
//! let session = folio::SessionId::new("chat-1")?;
//! store.create_session(NewSession::native(session.clone())).await?;
//! let spine = r#""invocationId":"i1","runId":"r1","sessionId":"chat-1","turnId":"t1","ts":1,"partial":false"#;
//! let turn = [
//!     format!(r#"{{"id":"e1",{spine},"role":"user","author":"user","content":{{"kind":"text","text":"hello"}}}}"#),
//!     format!(r#"{{"id":"e2",{spine},"role":"model","author":"agent","content":{{"kind":"text","text":"hi there"}}}}"#),
//!     format!(r#"{{"id":"e3",{spine},"role":"system","author":"system","status":"completed","actions":{{"endInvocation":true}}}}"#),
//! ];
//! let events: Result<Vec<_>, _> = turn
//!     .iter()
//!     .map(|json| RuntimeEvent::from_json(json).and_then(|event| CanonicalEvent::new(&event)))
//!     .collect();
//! store.append(&session, AppendBatch::native(events?)).await?;
//!
//! let page = folio::transcripts(&store).read_page(&PageRequest::newest(session)).await?;
//! assert_eq!(page.entries.len(), 3);
//! assert!(page.entries[1].to_json().contains("hi there"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The store is chosen by feature: `sqlite` (default) keeps a file that several
//! processes may use, `redb` one that a single process holds, `memory` keeps
//! nothing. Whatever is chosen keeps the same promises; they stand in
//! [`port`](folio_store::port).

pub use folio_core::{
    AgentRunHeader, Authority, COMPATIBILITY_EPOCH, CanonicalEvent, Content, Cursor, CursorError,
    Direction, EventId, Fact, FactOp, ForeignId, Json, Member, RuntimeEvent, SessionId, Stored,
    StoredMessage, Watermarks,
};
pub use folio_projector::{RuntimeEventReadModel, Stats, TranscriptProjector};
pub use folio_store::{
    Admin, AppendBatch, Committed, ContributionBatch, Contributions, CopyOptions, CopyOutcome,
    CopyReport, ErrorKind, ItemIndex, Ledger, MemberWriter, NewSession, RangeQuery, SessionFilter,
    SessionInfo, Store, StoreError, copy_session,
};
pub use folio_transcript::{
    Entry, OnGap, Page, PagePosition, PageRequest, Through, TranscriptError, TranscriptService,
};
use std::sync::Arc;

#[cfg(feature = "memory")]
pub use folio_store_memory as memory;
#[cfg(feature = "redb")]
pub use folio_store_redb as redb;
#[cfg(feature = "sqlite")]
pub use folio_store_sqlite as sqlite;

/// Opens a store in a SQLite file, and creates it if there is none.
///
/// # Errors
/// Where the path cannot hold a store: a stable code and what to do, such as
/// `store_not_a_store`, `store_newer_schema` or `store_read_only`.
#[cfg(feature = "sqlite")]
pub fn open_sqlite(path: impl AsRef<std::path::Path>) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(sqlite::open(&sqlite::SqliteConfig::new(
        path.as_ref(),
    ))?))
}

/// Opens a store in a redb file, and creates it if there is none. One handle
/// holds the file at a time.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sessions.redb");
/// let store = folio::open_redb(&path)?;
/// assert_eq!(folio::open_redb(&path).err().unwrap().code(), "store_locked");
/// drop(store);
/// folio::open_redb(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where the path cannot hold a store: a stable code and what to do, such as
/// `store_not_a_store`, `store_newer_schema` or `store_locked`.
#[cfg(feature = "redb")]
pub fn open_redb(path: impl AsRef<std::path::Path>) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(redb::open(&redb::RedbConfig::new(path.as_ref()))?))
}

/// Opens a store in memory.
///
/// # Errors
/// `thread_failed` where the system gives no thread.
#[cfg(feature = "memory")]
pub fn open_memory() -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(memory::open()?))
}

/// The transcripts of a store.
pub fn transcripts(store: &Arc<dyn Store>) -> TranscriptService {
    TranscriptService::new(Arc::clone(store))
}
