//! What a page is asked with, and what it answers.

use folio_core::json::quote;
use folio_core::{Direction, SessionId, Stored, Watermarks};
use folio_store::ReadStats;
use std::fmt::Write as _;

/// Which snapshot a page shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Through {
    /// The newest one, or the cursor's.
    #[default]
    Latest,
    /// This one.
    At(Watermarks),
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PagePosition {
    /// At the end that the direction leads away from.
    Edge,
    /// Where another page left off.
    Cursor(String),
    /// At the item with this key, itself included.
    Around(Box<str>),
    /// At the first item at or after an ordinal (newer), or at or before it
    /// (older).
    AtOrdinal(u64),
}

/// What to do where events are missing or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnGap {
    /// Refuse the page.
    #[default]
    Fail,
    /// Put an entry in the place of the row.
    Mark,
}

/// A page to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The session.
    pub session: SessionId,
    /// The snapshot.
    pub through: Through,
    /// The direction; `None` is the cursor's, else older.
    pub direction: Option<Direction>,
    /// Where to begin.
    pub position: PagePosition,
    /// The most entries, within [`MAX_ITEMS`](crate::MAX_ITEMS).
    pub max_items: usize,
    /// The most bytes of rows or fragment data, within
    /// [`MAX_BYTES`](crate::MAX_BYTES).
    pub max_bytes: usize,
    /// What to do where events are missing.
    pub on_gap: OnGap,
}

impl PageRequest {
    /// The newest page: 50 items, 256 KiB.
    pub fn newest(session: SessionId) -> Self {
        Self {
            session,
            through: Through::Latest,
            direction: None,
            position: PagePosition::Edge,
            max_items: 50,
            max_bytes: 256 << 10,
            on_gap: OnGap::Fail,
        }
    }

    /// The same page, going on at a cursor.
    #[must_use]
    pub fn at_cursor(mut self, cursor: impl Into<String>) -> Self {
        self.position = PagePosition::Cursor(cursor.into());
        self.direction = None;
        self
    }
}

/// One entry of a page; `R` is what rows are made as.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry<R = String> {
    /// A whole row.
    Row {
        /// The item's key.
        key: Box<str>,
        /// Its revision: clients reconcile by key and revision.
        revision: u64,
        /// The row: canonical JSON, or its type.
        row: R,
    },
    /// A part of a row that is larger than a page.
    Fragment {
        /// The item's key.
        key: Box<str>,
        /// Its revision.
        revision: u64,
        /// Where in the row's bytes the data begins.
        byte_offset: u64,
        /// The length of the row.
        total_bytes: u64,
        /// The SHA-256 of the row. Each of `members` enters it as a zero byte,
        /// its length as a little-endian u64, and its own SHA-256, as it does
        /// the digest of its event.
        digest: [u8; 32],
        /// The members of the row that are kept outside of their events, each
        /// with the byte of the row at which it begins.
        members: Vec<(u64, Stored)>,
        /// The bytes, cut between characters.
        data: String,
    },
    /// A row that cannot be shown.
    Gap {
        /// The source.
        source: Box<str>,
        /// The first position that is missing or damaged.
        from: u64,
        /// The last one.
        to: u64,
        /// The stable code.
        code: &'static str,
    },
}

impl Entry {
    /// The entry as JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Row { key, revision, row } => write_row(out, key, *revision, row),
            Self::Fragment {
                key,
                revision,
                byte_offset,
                total_bytes,
                digest,
                members,
                data,
            } => {
                out.push_str("{\"key\":");
                quote(key, out);
                let digest = hex(digest);
                // Writing to a String cannot fail.
                let _unfailing = write!(
                    out,
                    ",\"revision\":{revision},\"fragment\":{{\"byte_offset\":{byte_offset},\"total_bytes\":{total_bytes},\"digest\":\"sha256:{digest}\",",
                );
                write_members(out, members);
                out.push_str("\"data\":");
                quote(data, out);
                out.push_str("}}");
            }
            Self::Gap {
                source,
                from,
                to,
                code,
            } => {
                out.push_str("{\"gap\":{\"source\":");
                quote(source, out);
                let _unfailing =
                    write!(out, ",\"from\":{from},\"to\":{to},\"code\":\"{code}\"}}}}");
            }
        }
    }
}

/// Writes the members of a row that are kept outside; nothing where there are
/// none.
fn write_members(out: &mut String, members: &[(u64, Stored)]) {
    if members.is_empty() {
        return;
    }
    out.push_str("\"members\":[");
    for (i, (at, Stored { len, sha256, .. })) in members.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let digest = hex(sha256);
        let _unfailing = write!(
            out,
            "{{\"byte_offset\":{at},\"total_bytes\":{len},\"digest\":\"sha256:{digest}\"}}"
        );
    }
    out.push_str("],");
}

/// Writes the entry of a whole row.
pub(crate) fn write_row(out: &mut String, key: &str, revision: u64, row: &str) {
    out.reserve(row.len() + key.len() + 64);
    out.push_str("{\"key\":");
    quote(key, out);
    let _unfailing = write!(out, ",\"revision\":{revision},\"row\":");
    out.push_str(row);
    out.push('}');
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _unfailing = write!(out, "{byte:02x}");
            out
        })
}

/// A bounded slice of a transcript; `R` is what rows are made as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<R = String> {
    /// The session.
    pub session: SessionId,
    /// How often the session was redacted: rows of an older generation may
    /// show what is gone now.
    pub generation: u32,
    /// The snapshot.
    pub through: Watermarks,
    /// The entries, in the order of the transcript.
    pub entries: Vec<Entry<R>>,
    /// Where older entries go on; `None` if there are none.
    pub older: Option<String>,
    /// Where newer entries go on; `None` if there are none at this snapshot.
    pub newer: Option<String>,
    /// What it cost.
    pub stats: ReadStats,
}

impl<R> Page<R> {
    /// The page as JSON, around entries that are written.
    pub(crate) fn write(&self, bytes: usize, entries: impl FnOnce(&mut String)) -> String {
        let mut out = String::with_capacity(bytes + 1_024);
        out.push_str("{\"session_id\":");
        quote(self.session.as_str(), &mut out);
        // Writing to a String cannot fail.
        let _unfailing = write!(out, ",\"generation\":{},\"through\":{{", self.generation);
        for (i, (source, watermark)) in self.through.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            quote(source, &mut out);
            let _unfailing = write!(out, ":{watermark}");
        }
        out.push_str("},\"entries\":[");
        entries(&mut out);
        out.push(']');
        for (name, cursor) in [(",\"older\":", &self.older), (",\"newer\":", &self.newer)] {
            out.push_str(name);
            match cursor {
                Some(cursor) => quote(cursor, &mut out),
                None => out.push_str("null"),
            }
        }
        out.push('}');
        out
    }
}

impl Page {
    /// The page as JSON.
    pub fn to_json(&self) -> String {
        self.write(0, |out| {
            for (i, entry) in self.entries.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                entry.write(out);
            }
        })
    }
}
