//! Bounded reads of rows over the port.

use crate::row::{Projected, project_row};
use folio_core::key::key_hash;
use folio_core::reduce::row_type;
use folio_core::{Direction, Position, SessionId};
use folio_store::{ItemQuery, ReadStats, SessionInfo, Start, Store, StoreError};
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
    /// The most bytes of rows; the first row may exceed it alone.
    pub max_bytes: usize,
}

/// A row with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectedRow {
    /// The item's place.
    pub position: Position,
    /// The item's key.
    pub key: Box<str>,
    /// The item's revision at the watermark.
    pub revision: u64,
    /// The type of the row, such as `assistant`.
    pub row_type: &'static str,
    /// The row, or why there is none.
    pub row: Projected,
}

impl ProjectedRow {
    /// How a cursor names the item.
    pub fn hash(&self) -> [u8; 8] {
        key_hash(&self.key)
    }

    /// The bytes that the row counts for.
    #[expect(clippy::len_without_is_empty, reason = "a row is never empty")]
    pub fn len(&self) -> usize {
        match &self.row {
            Projected::Row(row) => row.len(),
            Projected::Gap { .. } => 0,
        }
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
    /// The rows.
    pub rows: Vec<ProjectedRow>,
    /// Whether rows lie further in the direction.
    pub more: bool,
    /// Whether rows lie on the other side of the first one.
    pub before: bool,
    /// What it cost.
    pub stats: ReadStats,
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
        let mut rows: Vec<ProjectedRow> = Vec::new();
        let mut bytes = 0;
        let mut first: Option<(SessionInfo, u64, bool)> = None;
        let mut stats = ReadStats::default();
        let mut start = query.position.clone();
        loop {
            // Events may weigh more than their rows, so what was loaded can
            // fill less than the page; then the same snapshot is read on.
            let page = self
                .store
                .read_items(
                    &query.session,
                    ItemQuery {
                        through: first
                            .as_ref()
                            .map(|first| first.1)
                            .or(query.through_ordinal),
                        direction: query.direction,
                        start: start.clone(),
                        max_items: query.max_items - rows.len(),
                        max_bytes: (query.max_bytes - bytes).saturating_add(SLACK),
                    },
                )
                .await?;
            stats.items += page.stats.items;
            stats.events += page.stats.events;
            stats.bytes += page.stats.bytes;
            let through = page.through;
            let (session, _, before) = first
                .get_or_insert((page.session, through, page.before))
                .clone();
            let mut more = page.more;
            let mut last = None;
            for loaded in page.items {
                let row = project_row(&loaded, through);
                let row = ProjectedRow {
                    position: loaded.item.position,
                    row_type: row_type(loaded.item.kind, loaded.item.position.slot),
                    key: loaded.item.key,
                    revision: loaded.revision,
                    row,
                };
                if !rows.is_empty() && bytes + row.len() > query.max_bytes {
                    more = true;
                    last = None;
                    break;
                }
                bytes += row.len();
                last = Some(row.position);
                rows.push(row);
            }
            match last {
                Some(position)
                    if more && rows.len() < query.max_items && bytes < query.max_bytes =>
                {
                    start = Start::Behind(position);
                }
                _ => {
                    return Ok(TranscriptProjectionPage {
                        session,
                        through,
                        rows,
                        more,
                        before,
                        stats,
                    });
                }
            }
        }
    }
}
