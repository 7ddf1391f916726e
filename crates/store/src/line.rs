//! What a session is read through: its own log, behind stretches of the logs
//! that it was forked from.
//!
//! A [`Line`] answers every question about events, runs and items as if they
//! all stood in one log. The part of another log is seen as it was at the
//! fork: what came to its items and runs later is cut off. A child that
//! continues an inherited item or run keeps a row of its own under the same
//! position or number, which stands in front of the inherited one.

use crate::StoreError;
use crate::engine::Snapshot;
use crate::plan::run_of;
use crate::rows::{EventRef, FoundEvent, LogRow, RunRow, SegRow, SpanRow};
use folio_codec::hash64;
use folio_core::claims::claims;
use folio_core::item::{LanePart, Part, Position};
use folio_core::{Direction, Item, ItemRef, PROJECTION_VERSION, Spine};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The highest slot; positions at a watermark end with it.
pub(crate) const LAST_SLOT: u8 = 7;

/// The last position at an ordinal.
pub(crate) fn last_at(ordinal: u64) -> Position {
    Position {
        ordinal,
        slot: LAST_SLOT,
    }
}

/// The first position at an ordinal.
pub(crate) fn first_at(ordinal: u64) -> Position {
    Position { ordinal, slot: 0 }
}

/// A stretch of ordinals and the log that holds it.
#[derive(Debug)]
pub(crate) struct Stretch {
    log_no: u64,
    /// The first and the last ordinal.
    from: u64,
    upto: u64,
    /// The first run that was opened in it, and the last one.
    first_run: u32,
    last_run: u32,
    /// The log's row, read when its index is asked.
    row: OnceCell<LogRow>,
}

/// A session's own log and the stretches behind which its own events begin.
pub(crate) struct Line<'a> {
    snapshot: &'a dyn Snapshot,
    /// The log that the session writes.
    pub(crate) log: LogRow,
    /// The oldest first; the last one is the session's own.
    stretches: Vec<Stretch>,
}

impl<'a> Line<'a> {
    /// The line of the session that writes a log.
    pub(crate) fn new(snapshot: &'a dyn Snapshot, log: LogRow) -> Result<Self, StoreError> {
        // Only a fork has spans to look for.
        let spans = if log.base == 0 {
            Vec::new()
        } else {
            snapshot.spans(log.log_no)?
        };
        if spans.last().map_or(0, |span| span.upto) != log.base {
            let message = format!("log {} does not know what it was forked from", log.log_no);
            return Err(StoreError::corrupt("row_damaged", message));
        }
        let mut stretches = Vec::with_capacity(spans.len() + 1);
        let (mut from, mut first_run) = (1, 1);
        let own = SpanRow {
            log_no: log.log_no,
            upto: u64::MAX,
            src: log.log_no,
            runs: u32::MAX,
        };
        for span in spans.iter().chain([&own]) {
            stretches.push(Stretch {
                log_no: span.src,
                from,
                upto: span.upto,
                first_run,
                last_run: span.runs,
                row: OnceCell::new(),
            });
            from = span.upto.saturating_add(1);
            first_run = span.runs.saturating_add(1);
        }
        Ok(Self {
            snapshot,
            log,
            stretches,
        })
    }

    /// The snapshot that it is read from.
    pub(crate) fn snapshot(&self) -> &'a dyn Snapshot {
        self.snapshot
    }

    /// Whether all of it is its own.
    fn is_whole(&self) -> bool {
        self.stretches.len() == 1
    }

    /// The logs that hold it up to an ordinal: from, to, log; the oldest first.
    pub(crate) fn logs(&self, through: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        self.stretches
            .iter()
            .take_while(move |stretch| stretch.from <= through)
            .map(move |stretch| (stretch.from, stretch.upto.min(through), stretch.log_no))
    }

    /// The spans of a log that begins behind an ordinal of this line.
    pub(crate) fn spans_at(
        &self,
        ordinal: u64,
        log_no: u64,
        runs: u32,
    ) -> impl Iterator<Item = SpanRow> {
        self.stretches
            .iter()
            .take_while(move |stretch| stretch.from <= ordinal)
            .map(move |stretch| SpanRow {
                log_no,
                upto: stretch.upto.min(ordinal),
                src: stretch.log_no,
                runs: stretch.last_run.min(runs),
            })
    }

    /// The log that holds an ordinal.
    pub(crate) fn log_of(&self, ordinal: u64) -> u64 {
        self.stretches
            .iter()
            .find(|stretch| ordinal <= stretch.upto)
            .map_or(self.log.log_no, |stretch| stretch.log_no)
    }

    /// The row of the log that holds a stretch.
    fn row<'s>(&'s self, stretch: &'s Stretch) -> Result<&'s LogRow, StoreError> {
        if stretch.log_no == self.log.log_no {
            return Ok(&self.log);
        }
        if let Some(row) = stretch.row.get() {
            return Ok(row);
        }
        let row = self.snapshot.log(stretch.log_no)?.ok_or_else(|| {
            let message = format!("log {}, which a fork reads, is missing", stretch.log_no);
            StoreError::corrupt("row_damaged", message)
        })?;
        Ok(stretch.row.get_or_init(|| row))
    }

    /// The live index of the log that holds a stretch.
    fn index_of(&self, stretch: &Stretch) -> Result<u64, StoreError> {
        Ok(self.row(stretch)?.index_no)
    }

    /// The rows of the logs that hold it, the oldest first, the own one last.
    pub(crate) fn rows(&self) -> Result<Vec<LogRow>, StoreError> {
        self.stretches
            .iter()
            .map(|stretch| self.row(stretch).cloned())
            .collect()
    }

    /// How far the index goes and the version that made it: that of the first
    /// log, from the oldest on, that falls short of a watermark.
    pub(crate) fn index_state(&self, through: u64) -> Result<(u64, u32), StoreError> {
        for stretch in &self.stretches {
            let row = self.row(stretch)?;
            let short = row.index_head < stretch.upto.min(through);
            if row.index_version != PROJECTION_VERSION || short {
                return Ok((row.index_head.min(through), row.index_version));
            }
        }
        Ok((self.log.index_head, self.log.index_version))
    }

    /// Whether every event is indexed by this build.
    pub(crate) fn is_indexed(&self) -> Result<bool, StoreError> {
        let (head, version) = self.index_state(self.log.head)?;
        Ok(version == PROJECTION_VERSION && head == self.log.head)
    }

    /// Events from `from` to `to`, both included, ascending; stops before the
    /// row that would exceed `limit` or `max_bytes`, which the first row may.
    pub(crate) fn events(
        &self,
        from: u64,
        to: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<FoundEvent>, StoreError> {
        let mut out: Vec<FoundEvent> = Vec::new();
        let mut bytes = 0_usize;
        for stretch in &self.stretches {
            let (low, high) = (from.max(stretch.from), to.min(stretch.upto));
            if low > high {
                continue;
            }
            let (rows, left) = (limit - out.len(), max_bytes - bytes.min(max_bytes));
            let found = self
                .snapshot
                .events(stretch.log_no, low, high, rows, left)?;
            let last = found.last().map_or(low - 1, FoundEvent::ordinal);
            for found in found {
                if let FoundEvent::Whole(row) = &found {
                    bytes = bytes.saturating_add(row.body.len());
                }
                if bytes > max_bytes && !out.is_empty() {
                    return Ok(out);
                }
                out.push(found);
            }
            // Rows that are missing at the end do not keep the next log from
            // being read; rows that did not fit do.
            if out.len() >= limit
                || last < high
                    && !self
                        .snapshot
                        .events(stretch.log_no, last + 1, high, 1, usize::MAX)?
                        .is_empty()
            {
                break;
            }
        }
        Ok(out)
    }

    /// Hands the whole events from `from` to `to` over, both included,
    /// ascending, each borrowed until the next one.
    pub(crate) fn visit_events(
        &self,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(EventRef<'_>),
    ) -> Result<(), StoreError> {
        for stretch in &self.stretches {
            let (low, high) = (from.max(stretch.from), to.min(stretch.upto));
            if low <= high {
                self.snapshot
                    .visit_events(stretch.log_no, low, high, visit)?;
            }
        }
        Ok(())
    }

    /// The event at an ordinal, if it is whole.
    pub(crate) fn event(&self, ordinal: u64) -> Result<crate::rows::EventRow, StoreError> {
        let found = self.events(ordinal, ordinal, 1, usize::MAX)?;
        match found.into_iter().next() {
            Some(FoundEvent::Whole(row)) => Ok(row),
            _ => Err(StoreError::gap(vec![ordinal])),
        }
    }

    /// Ordinals of events that may have an id, ascending.
    pub(crate) fn event_ids(&self, id: &str) -> Result<Vec<u64>, StoreError> {
        let hash = hash64(id.as_bytes());
        let found = self.snapshot.event_ids(self.log.family, hash)?;
        let mut ordinals: Vec<u64> = found
            .into_iter()
            .filter(|(log_no, ordinal)| {
                *ordinal <= self.log.head && self.log_of(*ordinal) == *log_no
            })
            .map(|(_, ordinal)| ordinal)
            .collect();
        for stretch in &self.stretches {
            let packed = self.snapshot.packed_id(stretch.log_no, id)?;
            let within = stretch.from..=stretch.upto.min(self.log.head);
            ordinals.extend(packed.filter(|ordinal| within.contains(ordinal)));
        }
        ordinals.sort_unstable();
        ordinals.dedup();
        Ok(ordinals)
    }

    /// The first answer of a log, the newest asked first, that is about a run
    /// which was opened in its stretch, as it was at the stretch's end.
    fn newest_run(
        &self,
        ask: impl Fn(u64) -> Result<Option<RunRow>, StoreError>,
    ) -> Result<Option<RunRow>, StoreError> {
        for stretch in self.stretches.iter().rev() {
            if let Some(run) = ask(stretch.log_no)?.filter(|run| run.opened <= stretch.upto) {
                return Ok(Some(run_at(run, stretch.upto)));
            }
        }
        Ok(None)
    }

    /// A run by number.
    pub(crate) fn run(&self, run_no: u32) -> Result<Option<RunRow>, StoreError> {
        for stretch in self.stretches.iter().rev() {
            if run_no > stretch.last_run {
                break;
            }
            let run = self.snapshot.run(stretch.log_no, run_no)?;
            if let Some(run) = run.filter(|run| run.opened <= stretch.upto) {
                return Ok(Some(run_at(run, stretch.upto)));
            }
        }
        Ok(None)
    }

    /// Runs by number, ascending, behind `after`.
    pub(crate) fn runs(&self, after: u32, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        if self.is_whole() {
            return self.snapshot.runs(self.log.log_no, after, limit);
        }
        let mut found: BTreeMap<u32, RunRow> = BTreeMap::new();
        for (at, stretch) in self.stretches.iter().enumerate() {
            let after = after.max(stretch.first_run.saturating_sub(1));
            let own = found.len();
            if after >= stretch.last_run || own >= limit {
                continue;
            }
            // Its own runs, then what later logs say about the same ones.
            for later in self.stretches.iter().skip(at) {
                let rows = self.snapshot.runs(later.log_no, after, limit - own)?;
                let rows = rows
                    .into_iter()
                    .take_while(|run| run.run_no <= stretch.last_run)
                    .filter(|run| run.opened <= later.upto);
                for run in rows {
                    found.insert(run.run_no, run_at(run, later.upto));
                }
            }
        }
        Ok(found.into_values().take(limit).collect())
    }

    /// A run by its id.
    pub(crate) fn run_by_id(&self, run_id: &str) -> Result<Option<RunRow>, StoreError> {
        self.newest_run(|log_no| self.snapshot.run_by_id(log_no, run_id))
    }

    /// A run by its invocation.
    pub(crate) fn run_by_invocation(&self, id: &str) -> Result<Option<RunRow>, StoreError> {
        self.newest_run(|log_no| self.snapshot.run_by_invocation(log_no, id))
    }

    /// The run of a turn with the greatest number below `before`.
    pub(crate) fn last_run_of_turn(
        &self,
        turn_id: &str,
        before: u32,
    ) -> Result<Option<RunRow>, StoreError> {
        let mut last: Option<RunRow> = None;
        for stretch in self.stretches.iter().rev() {
            let mut below = before;
            while let Some(run) = self
                .snapshot
                .last_run_of_turn(stretch.log_no, turn_id, below)?
            {
                below = run.run_no;
                if run.opened > stretch.upto {
                    continue;
                }
                if last.as_ref().is_none_or(|last| last.run_no < run.run_no) {
                    last = Some(run_at(run, stretch.upto));
                }
                break;
            }
        }
        Ok(last)
    }

    /// The number of runs that were opened up to an ordinal.
    pub(crate) fn runs_at(&self, ordinal: u64) -> Result<u32, StoreError> {
        // They are numbered as they open.
        let (mut low, mut high) = (0, self.log.runs);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let run = self.run(middle)?;
            if run.is_some_and(|run| run.opened <= ordinal) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low)
    }

    /// Items from a position on (itself included) in a direction, at most
    /// `limit`; newer ones ascend, older ones descend.
    pub(crate) fn items(
        &self,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        if self.is_whole() {
            return self
                .snapshot
                .items(self.log.index_no, from, direction, limit);
        }
        let mut out = Vec::new();
        let count = self.stretches.len();
        for step in 0..count {
            let at = match direction {
                Direction::Newer => step,
                Direction::Older => count - 1 - step,
            };
            let stretch = &self.stretches[at];
            let (first, last) = (first_at(stretch.from), last_at(stretch.upto));
            let from = match direction {
                Direction::Newer if from > last => continue,
                Direction::Newer => from.max(first),
                Direction::Older if from < first => continue,
                Direction::Older => from.min(last),
            };
            let own = self.own_items(at, from, direction, limit - out.len())?;
            out.extend(own);
            if out.len() >= limit {
                break;
            }
        }
        Ok(out)
    }

    /// Hands the same items over, each borrowed until the next one.
    pub(crate) fn visit_items(
        &self,
        from: Position,
        direction: Direction,
        limit: usize,
        visit: &mut dyn FnMut(ItemRef<'_>),
    ) -> Result<(), StoreError> {
        if self.is_whole() {
            return self
                .snapshot
                .visit_items(self.log.index_no, from, direction, limit, visit);
        }
        // Inherited items are cut first, which makes new ones of them.
        for item in self.items(from, direction, limit)? {
            visit(item.borrowed());
        }
        Ok(())
    }

    /// Items whose positions lie in one stretch, as the newest log that has a
    /// row for them tells.
    fn own_items(
        &self,
        at: usize,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let stretch = &self.stretches[at];
        let within = |item: &Item| (stretch.from..=stretch.upto).contains(&item.position.ordinal);
        let index_no = self.index_of(stretch)?;
        let mut items: Vec<Item> = self
            .snapshot
            .items(index_no, from, direction, limit)?
            .into_iter()
            .take_while(within)
            .map(|item| self.cut(stretch, item))
            .collect::<Result<_, _>>()?;
        let ends = [items.first(), items.last()].map(|item| item.map(|item| item.position));
        let [Some(a), Some(b)] = ends else {
            return Ok(items);
        };
        let (low, high) = (a.min(b), a.max(b));
        for later in &self.stretches[at + 1..] {
            let index_no = self.index_of(later)?;
            let rows = self
                .snapshot
                .items(index_no, low, Direction::Newer, items.len())?;
            for row in rows.into_iter().take_while(|row| row.position <= high) {
                if let Some(item) = items.iter_mut().find(|item| item.position == row.position) {
                    *item = self.cut(later, row)?;
                }
            }
        }
        Ok(items)
    }

    /// Items whose identity has this hash: all incarnations.
    pub(crate) fn items_by_hash(&self, hash: u64) -> Result<Vec<Item>, StoreError> {
        if self.is_whole() {
            return self.snapshot.items_by_hash(self.log.index_no, hash);
        }
        let mut found: BTreeMap<Position, Item> = BTreeMap::new();
        for stretch in &self.stretches {
            for item in self.snapshot.items_by_hash(self.index_of(stretch)?, hash)? {
                if item.position.ordinal <= stretch.upto {
                    found.insert(item.position, self.cut(stretch, item)?);
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// Chunks of an item's lane from one ordinal through another, ascending.
    pub(crate) fn segs(
        &self,
        position: Position,
        lane: LanePart,
        from: u64,
        through: u64,
        limit: usize,
    ) -> Result<Vec<SegRow>, StoreError> {
        let mut out = Vec::new();
        for stretch in &self.stretches {
            let (low, high) = (from.max(stretch.from), through.min(stretch.upto));
            if low > high || stretch.upto < position.ordinal {
                continue;
            }
            let index_no = self.index_of(stretch)?;
            let left = limit - out.len();
            let segs = self
                .snapshot
                .segs(index_no, position, lane, low, high, left)?;
            out.extend(segs);
            if out.len() >= limit {
                break;
            }
        }
        Ok(out)
    }

    /// The last chunk of an item's lane at or below an ordinal.
    pub(crate) fn last_seg(
        &self,
        position: Position,
        lane: LanePart,
        through: u64,
    ) -> Result<Option<SegRow>, StoreError> {
        for stretch in self.stretches.iter().rev() {
            if stretch.from > through {
                continue;
            }
            if stretch.upto < position.ordinal {
                break;
            }
            let (index_no, high) = (self.index_of(stretch)?, through.min(stretch.upto));
            let seg = self.snapshot.last_seg(index_no, position, lane, high)?;
            if seg.is_some() {
                return Ok(seg);
            }
        }
        Ok(None)
    }

    /// An item of a log as it was at the end of a stretch of it.
    fn cut(&self, stretch: &Stretch, item: Item) -> Result<Item, StoreError> {
        self.item_at(item, stretch.upto)
    }

    /// An item as it was at an ordinal, which is not below its position.
    pub(crate) fn item_at(&self, mut item: Item, ordinal: u64) -> Result<Item, StoreError> {
        if item.revision <= ordinal {
            return Ok(item);
        }
        let mut last_chunk = None;
        for lane in item.lanes(ordinal) {
            let seg = self.last_seg(item.position, lane, ordinal)?;
            last_chunk = last_chunk.max(seg.map(|seg| seg.last));
        }
        item.revision = item.revision_at(ordinal, last_chunk);
        item.need.retain(|need| need.ordinal <= ordinal);
        // What its finals gave it, folded again.
        (item.weight, item.step, item.operation) = (0, 0, 0);
        for need in &item.need {
            if !matches!(need.part, Part::Final | Part::Closer) {
                continue;
            }
            let row = self.event(need.ordinal)?;
            let view = folio_codec::decode_event(row.form, &row.body)?;
            item.weight = item.weight.saturating_add(view.weight());
            if item.kind == folio_core::ItemKind::Call {
                let run = run_of(self, row.run_no)?;
                let claims = claims(&view, &run.spine, run.inline);
                (item.step, item.operation) = (claims.step, claims.operation);
            }
        }
        Ok(item)
    }

    /// The ids of a run, shared by its events.
    pub(crate) fn spine(
        &self,
        known: &mut HashMap<u32, Arc<Spine>>,
        run_no: u32,
    ) -> Result<Arc<Spine>, StoreError> {
        if let Some(spine) = known.get(&run_no) {
            return Ok(Arc::clone(spine));
        }
        let spine = Arc::new(run_of(self, run_no)?.spine);
        known.insert(run_no, Arc::clone(&spine));
        Ok(spine)
    }
}

/// A run as it was at an ordinal, which is not below its opening.
fn run_at(mut run: RunRow, ordinal: u64) -> RunRow {
    if run.terminal.is_some_and(|terminal| terminal > ordinal) {
        (run.terminal, run.output) = (None, false);
    }
    run
}
