//! The service: from a request to a page.

use crate::cursor::{decode_cursor, encode_cursor};
use crate::error::TranscriptError;
use crate::fragment::{cut, reach};
use crate::page::{Entry, OnGap, Page, PagePosition, PageRequest, Through, write_row};
use crate::source::{ContributionSource, RuntimeSource, Scan, Scanned};
use crate::{MAX_BYTES, MAX_ITEMS};
use folio_codec::spliced_digest;
use folio_core::cursor::FragmentPlace;
use folio_core::member::{Piece, Spliced};
use folio_core::{Cursor, CursorError, Direction, Position, StoredMessage, Watermarks};
use folio_projector::{Projected, ProjectedRow, RowForm, RuntimeEventReadModel};
use folio_store::{ErrorKind, Start, Store, StoreError};
use std::ops::Range;
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

impl Plan {
    /// Where in a row the page goes on.
    fn fragment(&self) -> Option<FragmentPlace> {
        self.cursor.as_ref().and_then(|cursor| cursor.fragment)
    }

    /// What rows are made as. What goes on inside of a row goes on inside of
    /// its JSON, and reads no member that it does not show.
    fn form(&self) -> RowForm {
        match self.fragment() {
            Some(_) => RowForm::Apart,
            None => RowForm::Json,
        }
    }
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
        let plan = self.plan(request)?;
        let pages = self.scan(request, &plan, plan.form()).await?;
        if let Some(fragment) = pages.fragment().await? {
            return Ok(fragment);
        }
        pages.rows(|row| match row {
            Projected::Json(text) => Some(text.to_owned()),
            Projected::Apart(_) | Projected::Typed(_) | Projected::Gap { .. } => None,
        })
    }

    /// Reads a page whose rows are typed. It has the entries and cursors that
    /// [`read_page`](Self::read_page) gives; fragments are JSON there, too.
    ///
    /// # Errors
    /// As [`read_page`](Self::read_page), and `undecodable` where a row does
    /// not fit its type.
    pub async fn read_typed_page(
        &self,
        request: &PageRequest,
    ) -> Result<Page<StoredMessage>, TranscriptError> {
        let plan = self.plan(request)?;
        let form = match plan.form() {
            RowForm::Json => RowForm::Typed,
            form => form,
        };
        let mut pages = self.scan(request, &plan, form).await?;
        if let Some(fragment) = pages.fragment().await? {
            return Ok(fragment);
        }
        let mut typed = std::mem::take(&mut pages.scanned.typed).into_iter();
        pages.rows(|row| match row {
            Projected::Apart(_) | Projected::Gap { .. } => None,
            Projected::Json(_) | Projected::Typed(_) => typed.next(),
        })
    }

    /// Reads a page as JSON: what [`Page::to_json`] gives of
    /// [`read_page`](Self::read_page), without a value of its own for each
    /// entry.
    ///
    /// # Errors
    /// As [`read_page`](Self::read_page).
    pub async fn encode_page(&self, request: &PageRequest) -> Result<String, TranscriptError> {
        let plan = self.plan(request)?;
        let pages = self.scan(request, &plan, plan.form()).await?;
        match pages.fragment().await? {
            Some(fragment) => Ok(fragment.to_json()),
            None => pages.encode(),
        }
    }

    async fn scan<'a>(
        &'a self,
        request: &'a PageRequest,
        plan: &'a Plan,
        form: RowForm,
    ) -> Result<Pages<'a>, TranscriptError> {
        let scanned = self
            .runtime
            .scan(Scan {
                session: request.session.clone(),
                through: plan.through,
                direction: plan.direction,
                start: plan.start.clone(),
                max_items: if plan.fragment().is_some() {
                    1
                } else {
                    request.max_items
                },
                max_bytes: request.max_bytes,
                form,
            })
            .await?;
        if plan
            .cursor
            .as_ref()
            .is_some_and(|cursor| cursor.incarnation != scanned.session.incarnation)
        {
            return Err(CursorError::Incarnation.into());
        }
        Ok(Pages {
            request,
            plan,
            scanned,
            source: self.runtime.name(),
            runtime: &*self.runtime,
        })
    }

    fn plan(&self, request: &PageRequest) -> Result<Plan, TranscriptError> {
        check_bounds(request)?;
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
    runtime: &'a dyn ContributionSource,
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

    fn page<R>(
        &self,
        entries: Vec<Entry<R>>,
        (older, newer): (Option<String>, Option<String>),
    ) -> Page<R> {
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

    /// The cursors of a page of whole rows; one is made only where something
    /// lies beyond it.
    fn cursors(&self) -> (Option<String>, Option<String>) {
        let (onward, back) = (self.plan.direction, self.plan.direction.opposite());
        let at = |row: ProjectedRow<'_>, direction| {
            self.cursor(direction, (row.position, row.hash()), None)
        };
        let ahead = self.scanned.more.then(|| self.scanned.rows().next_back());
        let ahead = ahead.flatten().map(|row| at(row, onward));
        let behind = self
            .scanned
            .before
            .then(|| match self.scanned.rows().next() {
                Some(row) => at(row, back),
                None => self.cursor(back, (self.start_position(), NO_ITEM), None),
            });
        match onward {
            Direction::Older => (ahead, behind),
            Direction::Newer => (behind, ahead),
        }
    }

    /// A page of whole rows, of which `make` makes what they are to be.
    fn rows<R>(
        self,
        mut make: impl FnMut(Projected<'_>) -> Option<R>,
    ) -> Result<Page<R>, TranscriptError> {
        let mut entries = Vec::with_capacity(self.scanned.len());
        for row in self.scanned.rows() {
            entries.push(match make(row.row) {
                Some(made) => Entry::Row {
                    key: row.key.into(),
                    revision: row.revision,
                    row: made,
                },
                None => self.gap(row)?,
            });
        }
        if self.plan.direction == Direction::Older {
            entries.reverse();
        }
        Ok(self.page(entries, self.cursors()))
    }

    /// The same page as JSON.
    fn encode(self) -> Result<String, TranscriptError> {
        let page: Page = self.page(Vec::new(), self.cursors());
        let bytes = self.scanned.rows().map(|row| row.key.len() + row.len + 64);
        let mut failed = None;
        let json = page.write(bytes.sum(), |out| {
            let mut write = |row: ProjectedRow<'_>| {
                if !out.ends_with('[') {
                    out.push(',');
                }
                if let Projected::Json(text) = row.row {
                    write_row(out, row.key, row.revision, text);
                    return;
                }
                match self.gap(row) {
                    Ok(gap) => out.push_str(&Entry::to_json(&gap)),
                    Err(error) => failed = Some(error),
                }
            };
            match self.plan.direction {
                Direction::Older => self.scanned.rows().rev().for_each(&mut write),
                Direction::Newer => self.scanned.rows().for_each(&mut write),
            }
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(json),
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

    /// The mark in the place of a row for which events are missing.
    fn gap<R>(&self, row: ProjectedRow<'_>) -> Result<Entry<R>, TranscriptError> {
        let ordinals = match row.row {
            Projected::Gap { ordinals } => ordinals,
            Projected::Json(_) | Projected::Apart(_) | Projected::Typed(_) => &[],
        };
        match self.request.on_gap {
            OnGap::Fail => Err(StoreError::gap(ordinals.to_vec()).into()),
            OnGap::Mark => Ok(self.mark(ordinals)),
        }
    }

    fn mark<R>(&self, ordinals: &[u64]) -> Entry<R> {
        Entry::Gap {
            source: self.source.into(),
            from: ordinals.iter().min().copied().unwrap_or_default(),
            to: ordinals.iter().max().copied().unwrap_or_default(),
            code: "projection_gap",
        }
    }

    /// The page, where it is a part of a row that is larger than a page.
    async fn fragment<R>(&self) -> Result<Option<Page<R>>, TranscriptError> {
        let row = self.scanned.rows().next();
        let text = row.and_then(|row| match row.row {
            Projected::Json(text) => Some(Spliced { text, splices: &[] }),
            Projected::Apart(text) => Some(text),
            Projected::Typed(_) | Projected::Gap { .. } => None,
        });
        match (self.plan.fragment(), row, text) {
            (Some(place), Some(row), Some(text)) => {
                self.next_fragment(row, text, place).await.map(Some)
            }
            (Some(_), None, _) => Err(CursorError::ItemChanged.into()),
            (None, Some(row), Some(text)) if text.len() > self.request.max_bytes as u64 => {
                // It begins at the end that the direction leads away from.
                let place = match self.plan.direction {
                    Direction::Older => text.len(),
                    Direction::Newer => 0,
                };
                let digest = spliced_digest(text);
                self.cut(row, text, digest, place).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The fragment that a cursor goes on with.
    async fn next_fragment<R>(
        &self,
        row: ProjectedRow<'_>,
        text: Spliced<'_>,
        place: FragmentPlace,
    ) -> Result<Page<R>, TranscriptError> {
        let cursor = self.plan.cursor.as_ref();
        let same = cursor.is_some_and(|cursor| {
            (cursor.position, cursor.item) == (row.position, row.hash())
                && cursor.generation == self.scanned.session.generation
        });
        let digest = spliced_digest(text);
        if !same
            || place.revision != row.revision
            || place.digest != digest
            || place.byte_offset > text.len()
        {
            return Err(CursorError::ItemChanged.into());
        }
        self.cut(row, text, digest, place.byte_offset).await
    }

    /// The bytes of a range of a row, of which no more is read than that.
    async fn bytes(&self, text: Spliced<'_>, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let mut out = Vec::with_capacity(usize::try_from(range.end - range.start).unwrap_or(0));
        for piece in text.range(range) {
            match piece {
                Piece::Text(bytes) => out.extend_from_slice(bytes),
                Piece::Member(member, part) => out.extend(self.runtime.member(member, part).await?),
            }
        }
        Ok(out)
    }

    async fn cut<R>(
        &self,
        row: ProjectedRow<'_>,
        text: Spliced<'_>,
        digest: [u8; 32],
        place: u64,
    ) -> Result<Page<R>, TranscriptError> {
        let (direction, total_bytes) = (self.plan.direction, text.len());
        let at = (row.position, row.hash());
        let beyond = |direction: Direction| {
            let more = if direction == self.plan.direction {
                self.scanned.more || self.scanned.len() > 1
            } else {
                self.scanned.before
            };
            more.then(|| self.cursor(direction, at, None))
        };
        let reached = reach(total_bytes, direction, place, self.request.max_bytes);
        let bytes = match self.bytes(text, reached.clone()).await {
            Ok(bytes) => bytes,
            Err(error)
                if error.kind() == ErrorKind::Corrupt && self.request.on_gap == OnGap::Mark =>
            {
                let gap = self.mark(&[row.position.ordinal]);
                let cursors = (beyond(Direction::Older), beyond(Direction::Newer));
                return Ok(self.page(vec![gap], cursors));
            }
            Err(error) => return Err(error.into()),
        };
        let (range, data) = cut(reached, direction, bytes).ok_or(CursorError::ItemChanged)?;
        let piece = |byte_offset: u64| FragmentPlace {
            byte_offset,
            total_bytes,
            revision: row.revision,
            digest,
        };
        let older = if range.start > 0 {
            Some(self.cursor(Direction::Older, at, Some(piece(range.start))))
        } else {
            beyond(Direction::Older)
        };
        let newer = if range.end < total_bytes {
            Some(self.cursor(Direction::Newer, at, Some(piece(range.end))))
        } else {
            beyond(Direction::Newer)
        };
        let members = text.members().map(|(at, member)| (at, member.clone()));
        let entry = Entry::Fragment {
            key: row.key.into(),
            revision: row.revision,
            byte_offset: range.start,
            total_bytes,
            digest,
            members: members.collect(),
            data,
        };
        Ok(self.page(vec![entry], (older, newer)))
    }
}
