//! The resume point of a sequence of pages.

use crate::id::SessionId;
use crate::item::Position;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;

/// The version of the cursor's text form.
pub const CURSOR_VERSION: u8 = 1;

/// Where the runtime ledger's watermark stands in a cursor or a page.
pub const RUNTIME_SOURCE: &str = "runtime";

/// Which way pages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Toward the beginning.
    Older,
    /// Toward the end.
    Newer,
}

impl Direction {
    /// The direction as it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Older => "older",
            Self::Newer => "newer",
        }
    }

    /// The other direction.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Older => Self::Newer,
            Self::Newer => Self::Older,
        }
    }
}

/// The positions that a snapshot is pinned to: one watermark for each source.
pub type Watermarks = BTreeMap<Box<str>, u64>;

/// A place inside a row that is larger than a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FragmentPlace {
    /// The byte at which the next fragment begins (newer) or ends (older).
    pub byte_offset: u64,
    /// The length of the row.
    pub total_bytes: u64,
    /// The row's revision.
    pub revision: u64,
    /// The SHA-256 of the row.
    pub digest: [u8; 32],
}

/// An opaque, checked resume point: which session and snapshot, which way,
/// and behind which item.
///
/// The text form is made and read in `folio-transcript`; it survives
/// reconnects and restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The session.
    pub session: SessionId,
    /// Which life of the session, where its id was used before.
    pub incarnation: u64,
    /// Raised by every redaction.
    pub generation: u32,
    /// The snapshot.
    pub through: Watermarks,
    /// The direction of the pages.
    pub direction: Direction,
    /// The last item that was shown.
    pub position: Position,
    /// Its key's hash, see [`key_hash`](crate::key::key_hash).
    pub item: [u8; 8],
    /// Set while the item's own fragments are being paged.
    pub fragment: Option<FragmentPlace>,
}

/// Why a cursor is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CursorError {
    /// It was changed or cut, or never was a cursor.
    Damaged,
    /// Another version wrote it.
    Version {
        /// The version found.
        found: u8,
    },
    /// It belongs to another compatibility epoch.
    Epoch {
        /// The epoch found.
        found: u32,
    },
    /// It belongs to another session.
    ForeignSession {
        /// The session that it belongs to.
        session: SessionId,
    },
    /// Its session was deleted, and another one has its id.
    Incarnation,
    /// The request says something else than the cursor.
    Mismatch {
        /// What differs.
        what: String,
    },
    /// The item that was being paged has changed.
    ItemChanged,
}

impl CursorError {
    /// The stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Damaged => "cursor_damaged",
            Self::Version { .. } => "cursor_version",
            Self::Epoch { .. } => "cursor_epoch",
            Self::ForeignSession { .. } => "cursor_foreign_session",
            Self::Incarnation => "cursor_incarnation",
            Self::Mismatch { .. } => "cursor_mismatch",
            Self::ItemChanged => "item_changed",
        }
    }
}

impl core::fmt::Display for CursorError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Damaged => f.write_str(
                "the cursor is damaged: pass it exactly as a page gave it, or start without one",
            ),
            Self::Version { found } => write!(
                f,
                "the cursor has version {found}, this build reads version {CURSOR_VERSION}: start without one"
            ),
            Self::Epoch { found } => write!(
                f,
                "the cursor belongs to epoch {found}, this build to epoch {}: start without one",
                crate::COMPATIBILITY_EPOCH
            ),
            Self::ForeignSession { session } => {
                write!(f, "the cursor belongs to session {session}")
            }
            Self::Incarnation => f.write_str(
                "the cursor was given for another copy of the session, in another store or from \
                 before it was deleted and created anew: start without a cursor",
            ),
            Self::Mismatch { what } => write!(f, "the request contradicts the cursor: {what}"),
            Self::ItemChanged => {
                f.write_str("the item changed while it was being paged: read its page again")
            }
        }
    }
}

impl core::error::Error for CursorError {}
