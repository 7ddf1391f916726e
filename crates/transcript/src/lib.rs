//! The read path: bounded pages of a session's transcript.
//!
//! [`TranscriptService`] pins a snapshot, asks its sources for at most a page
//! of rows, and answers entries with cursors to both sides. Cursors survive
//! reconnects and restarts, and pages read with them tile the transcript: in
//! either direction, at any size, they give the same rows.
//!
//! ```
//! use folio_core::SessionId;
//! use folio_transcript::{PageRequest, PagePosition};
//!
//! let request = PageRequest::newest(SessionId::new("chat-1")?);
//! assert_eq!(request.position, PagePosition::Edge);
//! # Ok::<(), folio_core::IdError>(())
//! ```

mod cursor;
mod error;
mod fragment;
mod page;
mod service;
mod source;

pub use cursor::{decode_cursor, encode_cursor};
pub use error::TranscriptError;
pub use page::{Entry, OnGap, Page, PagePosition, PageRequest, Through};
pub use service::TranscriptService;
pub use source::{ContributionSource, RuntimeSource, Scan, Scanned};

/// The bounds of `max_items`.
pub const MAX_ITEMS: std::ops::RangeInclusive<usize> = 1..=1_024;
/// The bounds of `max_bytes`.
pub const MAX_BYTES: std::ops::RangeInclusive<usize> = 64..=16 << 20;
/// The longest text of a cursor.
pub const MAX_CURSOR: usize = 1_024;
