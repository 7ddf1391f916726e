//! The service: from a request to a page.

use crate::cursor::{decode_cursor, encode_cursor};
use crate::error::TranscriptError;
use crate::fragment::cut;
use crate::page::{Entry, OnGap, Page, PagePosition, PageRequest, Through};
use crate::source::{ContributionSource, RuntimeSource, Scan, Scanned};
use crate::{MAX_BYTES, MAX_ITEMS};
use folio_codec::sha256;
use folio_core::cursor::FragmentPlace;
use folio_core::{Cursor, CursorError, Direction, Position, Watermarks};
use folio_projector::{Projected, ProjectedRow, RuntimeEventReadModel};
use folio_store::{Start, Store, StoreError};
use std::sync::Arc;

/// The item hash of a cursor that stands at a place where no item is.
const NO_ITEM: [u8; 8] = [0; 8];

/// Reads bounded pages of transcripts.
///
/// ```no_run
/// # // Needs a store: see the crate `folio` for a whole program.
/// # async fn last_page(store: std::sync::Arc<dyn folio_store::Store>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use folio_transcript::{PageRequest, TranscriptService};
///
/// let service = TranscriptService::new(store);
/// let session = folio_core::SessionId::new("chat-1")?;
/// let page = service.read_page(&PageRequest::newest(session.clone())).await?;
/// if let Some(cursor) = page.older {
///     let older = PageRequest::newest(session).at_cursor(cursor);
///     service.read_page(&older).await?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct TranscriptService {
    runtime: Box<dyn ContributionSource>,
}

impl std::fmt::Debug for TranscriptService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TranscriptService")
            .field("source", &self.runtime.name())
            .finish()
    }
}

/// A request, its cursor taken apart.
struct Plan {
    direction: Direction,
    through: Option<u64>,
    start: Start,
    cursor: Option<Cursor>,
}

impl TranscriptService {
    /// Reads from a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            runtime: Box::new(RuntimeSource::new(RuntimeEventReadModel::new(store))),
        }
    }

    /// Reads a page.
    ///
    /// # Errors
    /// `max_items_out_of_range`, `max_bytes_out_of_range`, the codes of
    /// [`CursorError`], and those of the store: `session_not_found`,
    /// `session_preparing`, `watermark_unknown`, `item_not_found`,
    /// `index_stale`, and `projection_gap` unless gaps are to be marked.
    pub async fn read_page(&self, request: &PageRequest) -> Result<Page, TranscriptError> {
        check_bounds(request)?;
        let plan = self.plan(request)?;
        let fragment = plan.cursor.as_ref().and_then(|cursor| cursor.fragment);
        let scanned = self
            .runtime
            .scan(Scan {
                session: request.session.clone(),
                through: plan.through,
                direction: plan.direction,
                start: plan.start.clone(),
                max_items: if fragment.is_some() {
                    1
                } else {
                    request.max_items
                },
                max_bytes: request.max_bytes,
            })
            .await?;
        let session = &scanned.session;
        if plan
            .cursor
            .as_ref()
            .is_some_and(|cursor| cursor.incarnation != session.incarnation)
        {
            return Err(CursorError::Incarnation.into());
        }
        let pages = Pages {
            request,
            plan: &plan,
            scanned,
            source: self.runtime.name(),
        };
        match (fragment, pages.scanned.rows.first()) {
            (Some(place), Some(row)) if !row.is_gap() => pages.next_fragment(row, place),
            (Some(_), None) => Err(CursorError::ItemChanged.into()),
            (None, Some(row)) if row.len() > request.max_bytes => pages.first_fragment(row),
            _ => pages.rows(),
        }
    }

    fn plan(&self, request: &PageRequest) -> Result<Plan, TranscriptError> {
        let name = self.runtime.name();
        let asked = match &request.through {
            Through::Latest => None,
            Through::At(watermarks) => watermarks.get(name).copied(),
        };
        let direction = request.direction.unwrap_or(Direction::Older);
        let start = match &request.position {
            PagePosition::Edge => Start::Edge,
            PagePosition::Around(key) => Start::Key(key.clone()),
            PagePosition::AtOrdinal(ordinal) => Start::AtOrdinal(*ordinal),
            PagePosition::Cursor(text) => return self.resume(request, asked, text),
        };
        Ok(Plan {
            direction,
            through: asked,
            start,
            cursor: None,
        })
    }

    fn resume(
        &self,
        request: &PageRequest,
        asked: Option<u64>,
        text: &str,
    ) -> Result<Plan, TranscriptError> {
        let name = self.runtime.name();
        let cursor = decode_cursor(text, &[name])?;
        if cursor.session != request.session {
            return Err(CursorError::ForeignSession {
                session: cursor.session,
            }
            .into());
        }
        let direction = cursor.direction;
        let through = cursor.through.get(name).copied().unwrap_or(0);
        let mismatch = |what: String| Err(CursorError::Mismatch { what }.into());
        if request.direction.is_some_and(|asked| asked != direction) {
            return mismatch(format!(
                "the cursor leads to {} entries",
                direction.as_str()
            ));
        }
        if asked.is_some_and(|asked| asked != through) {
            return mismatch(format!("the cursor's watermark is {through}"));
        }
        let start = if cursor.fragment.is_some() || cursor.item == NO_ITEM {
            Start::At(cursor.position)
        } else {
            Start::Behind(cursor.position)
        };
        Ok(Plan {
            direction,
            through: Some(through),
            start,
            cursor: Some(cursor),
        })
    }
}

fn check_bounds(request: &PageRequest) -> Result<(), TranscriptError> {
    if !MAX_ITEMS.contains(&request.max_items) {
        let message = format!(
            "max_items is {}; it may be {} to {}",
            request.max_items,
            MAX_ITEMS.start(),
            MAX_ITEMS.end()
        );
        return Err(TranscriptError::Invalid {
            code: "max_items_out_of_range",
            message,
        });
    }
    if !MAX_BYTES.contains(&request.max_bytes) {
        let message = format!(
            "max_bytes is {}; it may be {} to {}",
            request.max_bytes,
            MAX_BYTES.start(),
            MAX_BYTES.end()
        );
        return Err(TranscriptError::Invalid {
            code: "max_bytes_out_of_range",
            message,
        });
    }
    Ok(())
}

/// Makes pages of what was scanned.
struct Pages<'a> {
    request: &'a PageRequest,
    plan: &'a Plan,
    scanned: Scanned,
    source: &'a str,
}

impl Pages<'_> {
    fn cursor(
        &self,
        direction: Direction,
        at: (Position, [u8; 8]),
        fragment: Option<FragmentPlace>,
    ) -> String {
        encode_cursor(&Cursor {
            session: self.request.session.clone(),
            incarnation: self.scanned.session.incarnation,
            generation: self.scanned.session.generation,
            through: self.through(),
            direction,
            position: at.0,
            item: at.1,
            fragment,
        })
    }

    fn through(&self) -> Watermarks {
        Watermarks::from([(self.source.into(), self.scanned.through)])
    }

    fn page(&self, entries: Vec<Entry>, older: Option<String>, newer: Option<String>) -> Page {
        Page {
            session: self.request.session.clone(),
            generation: self.scanned.session.generation,
            through: self.through(),
            entries,
            older,
            newer,
            stats: self.scanned.stats,
        }
    }

    /// A page of whole rows.
    fn rows(mut self) -> Result<Page, TranscriptError> {
        let rows = std::mem::take(&mut self.scanned.rows);
        let (onward, back) = (self.plan.direction, self.plan.direction.opposite());
        // A cursor is made only where something lies beyond it.
        let at = |row: &ProjectedRow, direction| {
            self.cursor(direction, (row.position, row.hash()), None)
        };
        let last = rows.last().filter(|_| self.scanned.more);
        let ahead = last.map(|row| at(row, onward));
        let behind = self.scanned.before.then(|| match rows.first() {
            Some(row) => at(row, back),
            None => self.cursor(back, (self.start_position(), NO_ITEM), None),
        });
        let entries = rows.into_iter().map(|row| self.entry(row));
        let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
        if onward == Direction::Older {
            entries.reverse();
            Ok(self.page(entries, ahead, behind))
        } else {
            Ok(self.page(entries, behind, ahead))
        }
    }

    /// Where an empty page began.
    fn start_position(&self) -> Position {
        match &self.plan.start {
            Start::Behind(position) | Start::At(position) => *position,
            Start::AtOrdinal(ordinal) => Position {
                ordinal: *ordinal,
                slot: 0,
            },
            Start::Edge | Start::Key(_) => Position {
                ordinal: 0,
                slot: 0,
            },
        }
    }

    fn entry(&self, row: ProjectedRow) -> Result<Entry, TranscriptError> {
        match row.row {
            Projected::Row(text) => Ok(Entry::Row {
                key: row.key,
                revision: row.revision,
                row: text,
            }),
            Projected::Gap { ordinals } => match self.request.on_gap {
                OnGap::Fail => Err(StoreError::gap(ordinals).into()),
                OnGap::Mark => Ok(Entry::Gap {
                    source: self.source.into(),
                    from: ordinals.iter().min().copied().unwrap_or_default(),
                    to: ordinals.iter().max().copied().unwrap_or_default(),
                    code: "projection_gap",
                }),
            },
        }
    }

    /// The first fragment of a row that is larger than the page.
    fn first_fragment(&self, row: &ProjectedRow) -> Result<Page, TranscriptError> {
        let Projected::Row(text) = &row.row else {
            return Err(CursorError::ItemChanged.into());
        };
        let place = match self.plan.direction {
            Direction::Older => text.len(),
            Direction::Newer => 0,
        };
        Ok(self.fragment(row, text, sha256(text.as_bytes()), place))
    }

    /// The fragment that a cursor goes on with.
    fn next_fragment(
        &self,
        row: &ProjectedRow,
        place: FragmentPlace,
    ) -> Result<Page, TranscriptError> {
        let Projected::Row(text) = &row.row else {
            return Err(CursorError::ItemChanged.into());
        };
        let cursor = self.plan.cursor.as_ref();
        let same = cursor.is_some_and(|cursor| {
            (cursor.position, cursor.item) == (row.position, row.hash())
                && cursor.generation == self.scanned.session.generation
        });
        let digest = sha256(text.as_bytes());
        let offset = usize::try_from(place.byte_offset).unwrap_or(usize::MAX);
        if !same
            || place.revision != row.revision
            || place.digest != digest
            || !text.is_char_boundary(offset)
        {
            return Err(CursorError::ItemChanged.into());
        }
        Ok(self.fragment(row, text, digest, offset))
    }

    fn fragment(&self, row: &ProjectedRow, text: &str, digest: [u8; 32], place: usize) -> Page {
        let range = cut(text, self.plan.direction, place, self.request.max_bytes);
        let at = (row.position, row.hash());
        let total_bytes = text.len() as u64;
        let piece = |byte_offset: usize| FragmentPlace {
            byte_offset: byte_offset as u64,
            total_bytes,
            revision: row.revision,
            digest,
        };
        let beyond = |direction: Direction| {
            let more = if direction == self.plan.direction {
                self.scanned.more || self.scanned.rows.len() > 1
            } else {
                self.scanned.before
            };
            more.then(|| self.cursor(direction, at, None))
        };
        let older = if range.start > 0 {
            Some(self.cursor(Direction::Older, at, Some(piece(range.start))))
        } else {
            beyond(Direction::Older)
        };
        let newer = if range.end < text.len() {
            Some(self.cursor(Direction::Newer, at, Some(piece(range.end))))
        } else {
            beyond(Direction::Newer)
        };
        let entry = Entry::Fragment {
            key: row.key.clone(),
            revision: row.revision,
            byte_offset: range.start as u64,
            total_bytes,
            digest,
            data: text.get(range).unwrap_or_default().to_owned(),
        };
        self.page(vec![entry], older, newer)
    }
}
