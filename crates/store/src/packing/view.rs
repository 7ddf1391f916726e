//! A state of the store as if every chunk had a row of its own.
//!
//! Events are rows, segments and live parts, merged by ordinal: each ordinal
//! stands in exactly one of them. What indexing a chunk would have changed in
//! the log's row, in its item and in the chunks of its lane is laid over the
//! rows that say so.

use super::chunks::{self, Opened, Piece, SPAN};
use super::journal::{Entry, Part};
use super::{Shared, lent};
use crate::StoreError;
use crate::engine::{Counters, Snapshot};
use crate::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRef, EventRow, FactRow, FoundEvent, FoundPack,
    IdRunRow, LogRow, RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewEntry, ViewRow,
};
use folio_codec::{Digest, EMPTY_CHAIN, chain_next, counted, decode_event, event_digest};
use folio_core::item::{LanePart, Position};
use folio_core::{Direction, Item, ItemRef, Spine};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// How far back the nearest stored chain is looked for, step by step.
const REACH: [u64; 4] = [8, 256, SPAN, 4 * SPAN];
/// Decoded segments that a state keeps.
const KEPT_PACKS: usize = 16;

/// A log with what the journal adds to it.
#[derive(Debug)]
pub(super) struct Log {
    /// The row as it would be.
    pub(super) row: LogRow,
    /// What is not in its rows, ascending.
    pub(super) live: Vec<Arc<Entry>>,
}

impl Log {
    /// The live parts of a stream, ascending.
    pub(super) fn parts(&self, opener: u64) -> impl DoubleEndedIterator<Item = &Part> {
        self.live
            .iter()
            .flat_map(|entry| &entry.parts)
            .filter(move |part| part.opener == opener)
    }

    /// The last live chunk that is content of an item.
    fn revision(&self, position: Position) -> Option<u64> {
        let streams = self.row.tail.streams.iter();
        streams
            .filter(|stream| stream.content.is_some_and(|of| of.position == position))
            .filter_map(|stream| self.parts(stream.opener).next_back())
            .map(|part| part.ends().1)
            .max()
    }

    /// The stream whose chunks are live content of a lane.
    fn stream(&self, position: Position, lane: LanePart) -> Option<u64> {
        let streams = self.row.tail.streams.iter();
        streams
            .filter(|stream| {
                let of = stream.content.map(|of| (of.position, (of.lane, of.index)));
                of == Some((position, lane))
            })
            .map(|stream| stream.opener)
            .find(|opener| self.parts(*opener).next().is_some())
    }
}

/// What was found out about a state, so that it is not asked twice.
#[derive(Debug, Default)]
pub(super) struct Memo {
    ends: Cell<Option<(u64, u64)>>,
    logs: RefCell<Vec<Rc<Log>>>,
    /// Indexes with their logs; they never change.
    indexes: RefCell<Vec<(u64, u64)>>,
    packs: RefCell<Vec<(u64, Rc<Opened>)>>,
}

impl Memo {
    /// Forgets what a write can change.
    pub(super) fn clear(&self) {
        self.logs.borrow_mut().clear();
        self.packs.borrow_mut().clear();
    }

    /// Learns which log an index belongs to.
    pub(super) fn learn_index(&self, index_no: u64, log_no: u64) {
        let mut indexes = self.indexes.borrow_mut();
        if !indexes.contains(&(index_no, log_no)) {
            indexes.push((index_no, log_no));
        }
    }
}

/// A state of the store, unpacked.
pub(super) struct View<'a> {
    pub(super) inner: &'a dyn Snapshot,
    pub(super) shared: &'a Shared,
    pub(super) memo: &'a Memo,
    /// What the running transaction has added.
    pub(super) pending: &'a [Arc<Entry>],
}

impl View<'_> {
    /// The first and the last number of the journal.
    pub(super) fn ends(&self) -> Result<(u64, u64), StoreError> {
        if let Some(ends) = self.memo.ends.get() {
            return Ok(ends);
        }
        let ends = self.inner.journal()?.unwrap_or((1, 0));
        self.memo.ends.set(Some(ends));
        Ok(ends)
    }

    /// A log with what the journal adds to it.
    pub(super) fn known(&self, log_no: u64) -> Result<Option<Rc<Log>>, StoreError> {
        let known = |log: &&Rc<Log>| log.row.log_no == log_no;
        if let Some(log) = self.memo.logs.borrow().iter().find(known) {
            return Ok(Some(Rc::clone(log)));
        }
        let Some(mut row) = self.inner.log(log_no)? else {
            return Ok(None);
        };
        let mut live = Vec::new();
        // Only a log with an open stream can have live chunks.
        if !row.tail.streams.is_empty() {
            let found =
                self.shared
                    .journal
                    .of(self.inner, self.ends()?, log_no, row.drained_seq)?;
            live.extend(found.into_iter().map(|(_, entry)| entry));
            let pending = self.pending.iter().filter(|entry| entry.log_no == log_no);
            live.extend(pending.cloned());
        }
        if let Some(last) = live.last() {
            if row.index_is_current() {
                row.index_head = last.head;
            }
            (row.head, row.chain) = (last.head, last.chain);
        }
        for part in live.iter().flat_map(|entry| &entry.parts) {
            if let (Some(run), Some(chunk)) = (row.tail.run_mut(part.run_no), part.chunks.last()) {
                run.next_seq = run.next_seq.max(chunk.run_seq + 1);
            }
        }
        self.memo.learn_index(row.index_no, log_no);
        let log = Rc::new(Log { row, live });
        self.memo.logs.borrow_mut().push(Rc::clone(&log));
        Ok(Some(log))
    }

    /// The log of an index.
    fn log_of_index(&self, index_no: u64) -> Option<u64> {
        let indexes = self.memo.indexes.borrow();
        let found = indexes.iter().find(|(index, _)| *index == index_no);
        found.map(|(_, log_no)| *log_no)
    }

    /// The log of a live index, if it has live chunks.
    fn live_of_index(&self, index_no: u64) -> Result<Option<Rc<Log>>, StoreError> {
        let Some(log_no) = self.log_of_index(index_no) else {
            return Ok(None);
        };
        let log = self.known(log_no)?;
        Ok(log.filter(|log| log.row.index_no == index_no && !log.live.is_empty()))
    }

    /// The event that opened a stream.
    pub(super) fn opener(&self, log_no: u64, ordinal: u64) -> Result<Arc<EventRow>, StoreError> {
        if let Some(row) = self.shared.opener(log_no, ordinal) {
            return Ok(row);
        }
        let found = self
            .inner
            .events(log_no, ordinal, ordinal, 1, usize::MAX)?
            .pop();
        match found {
            Some(FoundEvent::Whole(row)) => Ok(self.shared.keep_opener(log_no, row)),
            _ => Err(StoreError::gap(vec![ordinal])),
        }
    }

    /// A segment, decoded; `None` where something of it is damaged.
    pub(super) fn opened(
        &self,
        log_no: u64,
        found: FoundPack,
    ) -> Result<Option<Rc<Opened>>, StoreError> {
        let FoundPack::Whole(row) = found else {
            return Ok(None);
        };
        let known = |(log, pack): &&(u64, Rc<Opened>)| *log == log_no && pack.row == row;
        if let Some((_, pack)) = self.memo.packs.borrow().iter().find(known) {
            return Ok(Some(Rc::clone(pack)));
        }
        let Some(pack) = chunks::open(row, |ordinal| lent(self.inner, log_no, ordinal))? else {
            return Ok(None);
        };
        let pack = Rc::new(pack);
        let mut packs = self.memo.packs.borrow_mut();
        if packs.len() == KEPT_PACKS {
            packs.remove(0);
        }
        packs.push((log_no, Rc::clone(&pack)));
        Ok(Some(pack))
    }

    /// The chunks of a log between two ordinals, both included, ascending.
    fn pieces(&self, log_no: u64, from: u64, to: u64) -> Result<Vec<Piece>, StoreError> {
        let mut pieces = Vec::new();
        let low = from.saturating_sub(SPAN - 1);
        for found in self.inner.packs(log_no, low, to)? {
            let (first, last) = found.ends();
            if last.is_some_and(|last| last < from) {
                continue;
            }
            match self.opened(log_no, found)? {
                Some(pack) => pieces.extend(pack.between(from, to).map(|at| Piece::Packed {
                    ordinal: pack.chunks[at].ordinal,
                    pack: Rc::clone(&pack),
                    at,
                })),
                None if first >= from => pieces.push(Piece::Damaged(first)),
                None => {}
            }
        }
        if let Some(log) = self.known(log_no)?
            && to > log.row.base
        {
            pieces.extend(chunks::live(&log.live, from, to));
        }
        pieces.sort_by_key(Piece::ordinal);
        Ok(pieces)
    }

    /// A chunk as an event, without its chain.
    fn cast(&self, log_no: u64, piece: &Piece) -> Result<FoundEvent, StoreError> {
        let ordinal = piece.ordinal();
        let damaged = FoundEvent::Damaged { ordinal };
        let Some((opener, run_no, chunk)) = piece.chunk() else {
            return Ok(damaged);
        };
        let opener = match self.opener(log_no, opener) {
            Ok(opener) => opener,
            Err(error) if error.kind() == crate::ErrorKind::Corrupt => return Ok(damaged),
            Err(error) => return Err(error),
        };
        let row = chunks::cast(&opener, run_no, chunk);
        Ok(row.map_or(damaged, FoundEvent::Whole))
    }

    /// Events without the chains of chunks, each with its chain where that is
    /// stored. Everything from the first to the last ordinal that is answered
    /// was looked at.
    fn merged(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<(FoundEvent, Option<Digest>)>, StoreError> {
        let mut out: Vec<(FoundEvent, Option<Digest>)> = Vec::new();
        let mut bytes = 0_usize;
        let mut next = from;
        let mut stride = 1;
        while next <= to && out.len() < limit {
            let left = limit - out.len();
            let had = out.len();
            // Every ordinal is one event; where events are missing, strides
            // get longer.
            let upto = to.min(next.saturating_add((left as u64).max(stride) - 1));
            let room = max_bytes.saturating_sub(bytes);
            let rows = self.inner.events(log_no, next, upto, left, room)?;
            let (mut end, count) = (upto, upto - next + 1);
            let mut pieces = Vec::new();
            if rows.len() as u64 != count {
                let last = rows.last().map_or(next - 1, FoundEvent::ordinal);
                if last < upto {
                    let behind = self.inner.events(log_no, last + 1, upto, 1, usize::MAX)?;
                    end = behind.first().map_or(upto, |row| row.ordinal() - 1);
                }
                if rows.len() as u64 != end + 1 - next {
                    pieces = self.pieces(log_no, next, end)?;
                }
            }
            let mut pieces = pieces.into_iter().peekable();
            let mut rows = rows.into_iter().peekable();
            loop {
                let (row, piece) = (rows.peek(), pieces.peek());
                let before = row
                    .zip(piece)
                    .map(|(row, piece)| piece.ordinal() < row.ordinal());
                let found = if before.unwrap_or(row.is_none()) {
                    let Some(piece) = pieces.next() else { break };
                    (self.cast(log_no, &piece)?, piece.chain())
                } else {
                    let Some(row) = rows.next() else { break };
                    let row = unlent(row);
                    let chain = row.whole().map(|row| *row.chain);
                    (row, chain)
                };
                let size = found.0.whole().map_or(0, |row| row.body.len());
                bytes = bytes.saturating_add(size);
                if (bytes > max_bytes && !out.is_empty()) || out.len() == limit {
                    return Ok(out);
                }
                out.push(found);
            }
            next = end + 1;
            stride = if out.len() == had { stride * 8 } else { 1 };
        }
        Ok(out)
    }

    /// The digest of an event.
    fn digest(
        &self,
        log_no: u64,
        row: EventRef<'_>,
        spines: &mut Vec<(u32, Spine)>,
    ) -> Result<Digest, StoreError> {
        let view = decode_event(row.form, row.body)?;
        if !spines.iter().any(|(run_no, _)| *run_no == row.run_no) {
            let run = self.inner.run(log_no, row.run_no)?.ok_or_else(|| {
                let message = format!("run {} of log {log_no} is missing", row.run_no);
                StoreError::corrupt("row_damaged", message)
            })?;
            spines.push((row.run_no, run.spine));
        }
        let spine = spines.iter().find(|(run_no, _)| *run_no == row.run_no);
        Ok(spine.map_or(EMPTY_CHAIN, |(_, spine)| event_digest(&view, spine)))
    }

    /// Fills in the chains of events that follow each other.
    fn link(
        &self,
        log_no: u64,
        events: &mut [(FoundEvent, Option<Digest>)],
        mut before: Option<(u64, Digest)>,
    ) -> Result<(), StoreError> {
        let mut spines = Vec::new();
        for (found, stored) in events {
            let FoundEvent::Whole(row) = found else {
                before = None;
                continue;
            };
            let chain = match (*stored, before) {
                (Some(chain), _) => chain,
                (None, Some((ordinal, chain))) if ordinal + 1 == row.ordinal => {
                    let digest = self.digest(log_no, row.borrowed(), &mut spines)?;
                    chain_next(&chain, row.ordinal, row.run_seq, &digest)
                }
                // Behind what is damaged nobody can know it.
                (None, _) => match self.chain_at(log_no, row.ordinal - 1)? {
                    Some(chain) => {
                        let digest = self.digest(log_no, row.borrowed(), &mut spines)?;
                        chain_next(&chain, row.ordinal, row.run_seq, &digest)
                    }
                    None => EMPTY_CHAIN,
                },
            };
            row.chain = chain;
            before = Some((row.ordinal, chain));
        }
        Ok(())
    }

    /// The chain at an event of a log, computed from the nearest one before
    /// that is stored; `None` where something in between is damaged.
    fn chain_at(&self, log_no: u64, ordinal: u64) -> Result<Option<Digest>, StoreError> {
        for reach in REACH {
            let from = ordinal.saturating_sub(reach - 1).max(1);
            let mut events = self.merged(log_no, from, ordinal, usize::MAX, usize::MAX)?;
            let Some(at) = events.iter().rposition(|(_, chain)| chain.is_some()) else {
                continue;
            };
            let events = &mut events[at..];
            let whole = events.iter().all(|(found, _)| found.whole().is_some());
            let wanted = events[0].0.ordinal()..=ordinal;
            if !whole || events.len() as u64 != wanted.end() - wanted.start() + 1 {
                return Ok(None);
            }
            self.link(log_no, events, None)?;
            let last = events.last().and_then(|(found, _)| found.whole());
            return Ok(last.map(|row| *row.chain));
        }
        Ok(None)
    }

    /// The chunks that a row of an index stands for.
    fn seg_chunks(&self, log_no: u64, seg: SegRow) -> Result<Vec<SegRow>, StoreError> {
        if seg.n == 1 {
            return Ok(vec![seg]);
        }
        let low = seg.seg.saturating_sub(SPAN - 1);
        for found in self.inner.packs(log_no, low, seg.seg)?.into_iter().rev() {
            if let Some(pack) = self.opened(log_no, found)?
                && let Some(chunks) = pack.seg_chunks(&seg)
            {
                return Ok(chunks);
            }
        }
        // A damaged segment is missed where its first event is read.
        let (n, last) = (1, seg.seg);
        Ok(vec![SegRow { n, last, ..seg }])
    }
}

/// An event as it was before it lent its text.
fn unlent(found: FoundEvent) -> FoundEvent {
    let FoundEvent::Whole(row) = found else {
        return found;
    };
    let ordinal = row.ordinal;
    match super::unlent(row) {
        Ok(row) => FoundEvent::Whole(row),
        Err(_) => FoundEvent::Damaged { ordinal },
    }
}

delegate! {
    impl Snapshot for View<'_> {
        self => self.inner;
        fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError> {
            Ok(self.known(log_no)?.map(|log| log.row.clone()))
        }
        fn events(
            &self,
            log_no: u64,
            from: u64,
            to: u64,
            limit: usize,
            max_bytes: usize,
        ) -> Result<Vec<FoundEvent>, StoreError> {
            let mut events = self.merged(log_no, from, to, limit, max_bytes)?;
            self.link(log_no, &mut events, None)?;
            Ok(events.into_iter().map(|(found, _)| found).collect())
        }
        fn packed_id(&self, log_no: u64, id: &str) -> Result<Option<u64>, StoreError> {
            let Some(log) = self.known(log_no)? else {
                return Ok(None);
            };
            let counted = counted(id);
            let mut parts = log.live.iter().flat_map(|entry| &entry.parts);
            if let Some(ordinal) = parts.find_map(|part| part.find(id, counted)) {
                return Ok(Some(ordinal));
            }
            let Some((stem, n)) = counted else {
                return Ok(None);
            };
            let run = self.inner.id_run(log_no, stem, n)?;
            let Some(run) = run.filter(|run| n - run.first < u64::from(run.n)) else {
                return Ok(None);
            };
            let found = self.inner.packs(log_no, run.pack, run.pack)?.pop();
            if let Some(found) = found
                && let Some(pack) = self.opened(log_no, found)?
            {
                let mut chunks = pack.chunks.iter();
                return Ok(chunks.find(|chunk| chunk.id == id).map(|chunk| chunk.ordinal));
            }
            // What is damaged is missed where it is read.
            Ok(Some(run.pack))
        }
        fn visit_events(
            &self,
            log_no: u64,
            from: u64,
            to: u64,
            visit: &mut dyn FnMut(EventRef<'_>),
        ) -> Result<(), StoreError> {
            let mut next = from;
            let mut failed = None;
            let fill = |from: u64, to: u64, visit: &mut dyn FnMut(EventRef<'_>)| {
                for piece in self.pieces(log_no, from, to)? {
                    let found = self.cast(log_no, &piece)?;
                    found.whole().into_iter().for_each(&mut *visit);
                }
                Ok(())
            };
            self.inner.visit_events(log_no, from, to, &mut |row| {
                if failed.is_some() {
                    return;
                }
                if row.ordinal > next {
                    failed = fill(next, row.ordinal - 1, visit).err();
                }
                next = row.ordinal + 1;
                super::with_unlent(row, visit);
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            if next <= to {
                fill(next, to, visit)?;
            }
            Ok(())
        }
        fn items(
            &self,
            index_no: u64,
            from: Position,
            direction: Direction,
            limit: usize,
        ) -> Result<Vec<Item>, StoreError> {
            let mut items = self.inner.items(index_no, from, direction, limit)?;
            if let Some(log) = self.live_of_index(index_no)? {
                items.iter_mut().for_each(|item| revise(&log, item));
            }
            Ok(items)
        }
        fn visit_items(
            &self,
            index_no: u64,
            from: Position,
            direction: Direction,
            limit: usize,
            visit: &mut dyn FnMut(ItemRef<'_>),
        ) -> Result<(), StoreError> {
            let Some(log) = self.live_of_index(index_no)? else {
                return self.inner.visit_items(index_no, from, direction, limit, visit);
            };
            self.inner
                .visit_items(index_no, from, direction, limit, &mut |mut item| {
                    if let Some(revision) = log.revision(item.position) {
                        item.revision = item.revision.max(revision);
                    }
                    visit(item);
                })
        }
        fn items_by_hash(&self, index_no: u64, hash: u64) -> Result<Vec<Item>, StoreError> {
            let mut items = self.inner.items_by_hash(index_no, hash)?;
            if let Some(log) = self.live_of_index(index_no)? {
                items.iter_mut().for_each(|item| revise(&log, item));
            }
            Ok(items)
        }
        fn segs(
            &self,
            index_no: u64,
            position: Position,
            lane: LanePart,
            from: u64,
            through: u64,
            limit: usize,
        ) -> Result<Vec<SegRow>, StoreError> {
            let Some(log_no) = self.log_of_index(index_no) else {
                return self.inner.segs(index_no, position, lane, from, through, limit);
            };
            let mut rows = Vec::new();
            if from > position.ordinal {
                let before = self.inner.last_seg(index_no, position, lane, from - 1)?;
                rows.extend(before.filter(|row| row.last >= from));
            }
            rows.extend(self.inner.segs(index_no, position, lane, from, through, limit)?);
            let mut out = Vec::new();
            for row in rows {
                if out.len() >= limit {
                    break;
                }
                let chunks = self.seg_chunks(log_no, row)?.into_iter();
                out.extend(chunks.filter(|seg| (from..=through).contains(&seg.seg)));
            }
            if out.len() < limit
                && let Some(log) = self.live_of_index(index_no)?
                && let Some(opener) = log.stream(position, lane)
            {
                let stored = self.inner.last_seg(index_no, position, lane, u64::MAX)?;
                let end = stored.map_or(0, |row| row.before + row.bytes);
                let live = chunks::segs(log.parts(opener), position, lane, end);
                out.extend(live.filter(|seg| (from..=through).contains(&seg.seg)));
            }
            out.truncate(limit);
            Ok(out)
        }
        fn last_seg(
            &self,
            index_no: u64,
            position: Position,
            lane: LanePart,
            through: u64,
        ) -> Result<Option<SegRow>, StoreError> {
            let Some(log_no) = self.log_of_index(index_no) else {
                return self.inner.last_seg(index_no, position, lane, through);
            };
            if let Some(log) = self.live_of_index(index_no)?
                && let Some(opener) = log.stream(position, lane)
                && log
                    .parts(opener)
                    .next()
                    .is_some_and(|part| part.ends().0 <= through)
            {
                let stored = self.inner.last_seg(index_no, position, lane, u64::MAX)?;
                let end = stored.map_or(0, |row| row.before + row.bytes);
                return Ok(chunks::last_seg(log.parts(opener), position, lane, end, through));
            }
            let Some(row) = self.inner.last_seg(index_no, position, lane, through)? else {
                return Ok(None);
            };
            let chunks = self.seg_chunks(log_no, row)?;
            Ok(chunks.into_iter().rfind(|seg| seg.seg <= through))
        }
    }
}

/// Raises the revision of an item to its last live chunk.
fn revise(log: &Log, item: &mut Item) {
    if let Some(revision) = log.revision(item.position) {
        item.revision = item.revision.max(revision);
    }
}
