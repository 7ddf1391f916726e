//! Bounded reads of rows over the port.

use crate::row::{RowForm, project, taken};
use folio_codec::sha256;
use folio_core::member::{Splice, Spliced, Stored};
use folio_core::message::TypedRow;
use folio_core::reduce::{JsonRow, row_type};
use folio_core::{Direction, Position, SessionId, StoredMessage};
use folio_store::{BlobId, FoundItem, ItemQuery, ReadStats, SessionInfo, Start, Store, StoreError};
use std::ops::Range;
use std::sync::Arc;

/// What one load of events may hold beyond the rows that are asked for.
const SLACK: usize = 64 * 1024;

/// Which rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptQuery {
    /// The session.
    pub session: SessionId,
    /// The watermark; `None` is the head.
    pub through_ordinal: Option<u64>,
    /// The direction.
    pub direction: Direction,
    /// Where to begin.
    pub position: Start,
    /// The most rows.
    pub max_items: usize,
    /// The most bytes of rows as JSON, whatever their form; the first row may
    /// exceed it alone.
    pub max_bytes: usize,
    /// What rows are made as. A row that is larger than `max_bytes` is JSON in
    /// any case.
    pub form: RowForm,
}

/// A row, or the ordinals for want of which there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Projected<'a> {
    /// The row as canonical JSON.
    Json(&'a str),
    /// The row as canonical JSON with places for members that are kept outside
    /// of their events: it is larger than the page was to be, or was asked for
    /// in this form.
    Apart(Spliced<'a>),
    /// The row as its type: its number among
    /// [`typed`](TranscriptProjectionPage::typed).
    Typed(usize),
    /// Events that the row needs are missing or damaged.
    Gap {
        /// Their ordinals.
        ordinals: &'a [u64],
    },
}

/// A row with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectedRow<'a> {
    /// The item's place.
    pub position: Position,
    /// The item's key.
    pub key: &'a str,
    /// The item's revision at the watermark.
    pub revision: u64,
    /// The type of the row, such as `assistant`.
    pub row_type: &'static str,
    /// The bytes that the row counts for: those of its JSON, 0 for a gap.
    pub len: usize,
    /// The row, or why there is none.
    pub row: Projected<'a>,
}

impl ProjectedRow<'_> {
    /// How a cursor names the item: [`key_hash`](folio_core::key::key_hash).
    pub fn hash(&self) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h, ..] = sha256(self.key.as_bytes());
        [a, b, c, d, e, f, g, h]
    }

    /// Whether events are missing, so that there is no row.
    pub fn is_gap(&self) -> bool {
        matches!(self.row, Projected::Gap { .. })
    }
}

/// Rows of one snapshot, in the direction that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptProjectionPage {
    /// The session.
    pub session: SessionInfo,
    /// The watermark.
    pub through: u64,
    /// Whether rows lie further in the direction.
    pub more: bool,
    /// Whether rows lie on the other side of the first one.
    pub before: bool,
    /// What it cost.
    pub stats: ReadStats,
    /// The rows that are typed, in order.
    pub typed: Vec<StoredMessage>,
    rows: Rows,
}

impl TranscriptProjectionPage {
    /// The rows.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = ProjectedRow<'_>> {
        self.rows.made.iter().map(|made| self.rows.row(made))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.made.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.made.is_empty()
    }
}

/// Rows as they are made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Rows {
    /// Keys, and rows as JSON.
    text: String,
    /// The places in those rows.
    splices: Vec<Splice>,
    typed: Vec<StoredMessage>,
    made: Vec<Made>,
    /// The bytes of the rows as JSON.
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Made {
    position: Position,
    key: Range<usize>,
    revision: u64,
    row_type: &'static str,
    len: usize,
    row: Kept,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    /// Behind its key.
    Json,
    /// So many bytes behind its key, and its places.
    Apart(usize, Range<usize>),
    Typed(usize),
    Gap(Vec<u64>),
}

impl Rows {
    fn row<'a>(&'a self, made: &'a Made) -> ProjectedRow<'a> {
        let json = made.key.end..made.key.end + made.len;
        let row = match &made.row {
            Kept::Json => Projected::Json(self.text.get(json).unwrap_or_default()),
            Kept::Apart(bytes, splices) => Projected::Apart(Spliced {
                text: self
                    .text
                    .get(made.key.end..made.key.end + bytes)
                    .unwrap_or_default(),
                splices: self.splices.get(splices.clone()).unwrap_or_default(),
            }),
            Kept::Typed(at) => Projected::Typed(*at),
            Kept::Gap(ordinals) => Projected::Gap { ordinals },
        };
        ProjectedRow {
            position: made.position,
            key: self.text.get(made.key.clone()).unwrap_or_default(),
            revision: made.revision,
            row_type: made.row_type,
            len: made.len,
            row,
        }
    }

    /// Makes room for about what was read.
    fn reserve(&mut self, read: &ReadStats, query: &TranscriptQuery) {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        self.made.reserve(size(read.items).min(query.max_items));
        // Beside its texts a row has names, ids and its key.
        let beside = size(read.items).saturating_mul(160);
        let text = match query.form {
            RowForm::Json | RowForm::Apart => size(read.bytes).min(query.max_bytes),
            RowForm::Typed => {
                self.typed.reserve(size(read.items).min(query.max_items));
                0
            }
        };
        self.text.reserve(text.saturating_add(beside));
    }

    /// Where the JSON of the next row goes.
    fn json(&mut self, apart: bool) -> JsonRow<'_> {
        let row = JsonRow::behind(&mut self.text, &mut self.splices);
        if apart { row.apart() } else { row }
    }

    /// The bytes of the last row as JSON, whose text and whose places begin
    /// there.
    fn json_len(&self, text: usize, splices: usize) -> usize {
        let places = self.splices.get(splices..).unwrap_or_default();
        let outside: u64 = places.iter().map(|splice| splice.member.len).sum();
        let outside = usize::try_from(outside).unwrap_or(usize::MAX);
        (self.text.len() - text).saturating_add(outside)
    }

    /// Makes the row of an item; answers whether it fits the page.
    fn add(
        &mut self,
        found: &FoundItem<'_>,
        query: &TranscriptQuery,
        typed: &mut TypedRow,
    ) -> Result<bool, StoreError> {
        let item = &found.material.item;
        let from = self.text.len();
        self.text.push_str(item.key);
        let key = from..self.text.len();
        // A row that is larger than a page is about as long as its events, and
        // made in one piece: a text that grew on its way would be held twice.
        let events = found.material.events.iter();
        let bytes: usize = events.map(|(_, event)| event.text.len()).sum();
        if bytes > query.max_bytes {
            self.text.reserve_exact(bytes.saturating_add(SLACK));
        }
        let (mut len, mut row) = (0, Kept::Json);
        let mut done = Ok(());
        if query.form == RowForm::Typed {
            done = project(found, typed);
            if done.is_ok() && !typed.is_lacking() {
                let (message, bytes) = taken(typed)?;
                if bytes <= query.max_bytes {
                    (len, row) = (bytes, Kept::Typed(self.typed.len()));
                    self.typed.push(message);
                }
            }
        }
        if done.is_ok() && row == Kept::Json {
            let splices = self.splices.len();
            done = project(found, &mut self.json(query.form == RowForm::Apart));
            len = self.json_len(key.end, splices);
            let events = &found.material.events;
            let may_be_apart = events.iter().any(|(_, event)| !event.stored.is_empty());
            if len > query.max_bytes && may_be_apart && self.splices.len() == splices {
                self.text.truncate(key.end);
                done = project(found, &mut self.json(true));
                len = self.json_len(key.end, splices);
            }
            if self.splices.len() > splices {
                let bytes = self.text.len() - key.end;
                row = Kept::Apart(bytes, splices..self.splices.len());
            }
            if matches!(row, Kept::Apart(..))
                && len <= query.max_bytes
                && query.form != RowForm::Apart
            {
                // It would have been read along if it could be read.
                self.text.truncate(key.end);
                self.splices.truncate(splices);
                len = 0;
                done = Err(found.unread.to_vec());
            }
        }
        if let Err(ordinals) = done {
            row = Kept::Gap(ordinals);
        }
        if !self.made.is_empty() && self.bytes.saturating_add(len) > query.max_bytes {
            self.text.truncate(from);
            match row {
                Kept::Typed(at) => self.typed.truncate(at),
                Kept::Apart(_, splices) => self.splices.truncate(splices.start),
                Kept::Json | Kept::Gap(_) => {}
            }
            return Ok(false);
        }
        self.bytes = self.bytes.saturating_add(len);
        self.made.push(Made {
            position: item.position,
            key,
            revision: found.revision,
            row_type: row_type(item.kind, item.position.slot),
            len,
            row,
        });
        Ok(true)
    }
}

/// Item-oriented, bounded reads of a session's transcript.
#[derive(Clone)]
pub struct RuntimeEventReadModel {
    store: Arc<dyn Store>,
}

impl std::fmt::Debug for RuntimeEventReadModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeEventReadModel")
            .finish_non_exhaustive()
    }
}

impl RuntimeEventReadModel {
    /// Reads from a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Reads bytes of a member that is kept outside of its event.
    ///
    /// # Errors
    /// `blob_not_found` where it is gone, and `blob_damaged`.
    pub async fn member(&self, member: &Stored, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let id = BlobId(member.sha256);
        let mut out = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let bytes = self.store.read_blob(&id, at, left).await?;
            if bytes.is_empty() {
                let message = format!("blob {id} ends at byte {at}: keep the files");
                return Err(StoreError::corrupt("blob_damaged", message));
            }
            at += bytes.len() as u64;
            if out.is_empty() {
                out = bytes;
            } else {
                out.extend(bytes);
            }
        }
        Ok(out)
    }

    /// Reads rows until one of the bounds is reached.
    ///
    /// Rows are whole: the page ends before the row that would exceed
    /// `max_bytes`, unless it is the first.
    ///
    /// # Errors
    /// Those of [`read_items`](folio_store::ItemIndex::read_items).
    pub async fn read_transcript_page(
        &self,
        query: &TranscriptQuery,
    ) -> Result<TranscriptProjectionPage, StoreError> {
        let mut rows = Rows::default();
        let mut typed = TypedRow::default();
        let mut first: Option<(SessionInfo, u64, bool)> = None;
        let mut stats = ReadStats::default();
        let mut start = query.position.clone();
        loop {
            // Events may weigh more than their rows, so what was loaded can
            // fill less than the page; then the same snapshot is read on.
            let scan = self
                .store
                .scan_items(
                    &query.session,
                    ItemQuery {
                        through: first
                            .as_ref()
                            .map(|first| first.1)
                            .or(query.through_ordinal),
                        direction: query.direction,
                        start,
                        max_items: query.max_items - rows.made.len(),
                        max_bytes: query
                            .max_bytes
                            .saturating_sub(rows.bytes)
                            .saturating_add(SLACK),
                        member_bytes: match query.form {
                            RowForm::Apart => 0,
                            RowForm::Json | RowForm::Typed => query.max_bytes,
                        },
                    },
                )
                .await?;
            stats.items += scan.stats.items;
            stats.events += scan.stats.events;
            stats.bytes += scan.stats.bytes;
            rows.reserve(&scan.stats, query);
            let mut fits = Ok(true);
            scan.show(|found| {
                if matches!(fits, Ok(true)) {
                    fits = rows.add(found, query, &mut typed);
                }
            });
            let fits = fits?;
            let (through, more) = (scan.through, scan.more || !fits);
            let (session, _, before) = first.take().unwrap_or((scan.session, through, scan.before));
            let room = rows.made.len() < query.max_items && rows.bytes < query.max_bytes;
            match rows.made.last() {
                Some(last) if fits && more && room => start = Start::Behind(last.position),
                _ => {
                    return Ok(TranscriptProjectionPage {
                        session,
                        through,
                        more,
                        before,
                        stats,
                        typed: std::mem::take(&mut rows.typed),
                        rows,
                    });
                }
            }
            first = Some((session, through, before));
        }
    }
}
