//! Writing: chunks into the journal, what is in the journal into segments.

use super::Shared;
use super::chunks::{self, Opened};
use super::journal::{Entry, Part, encode_commit};
use super::view::{Log, Memo, View};
use crate::engine::{Counters, Erase, ItemWrite, Snapshot, WriteTxn, Writes};
use crate::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRef, EventRow, FactRow, FoundEvent, FoundPack,
    IdRunRow, LogRow, PackText, RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewEntry,
    ViewRow,
};
use crate::{ErrorKind, StoreError};
use folio_codec::{
    Chunk, Digest, FORM_LENDING, Lending, Mould, decode_event, decode_lending, encode_lending,
    hash64,
};
use folio_core::assign::OpenStream;
use folio_core::item::{LanePart, Position};
use folio_core::{Direction, Field, Item, ItemRef};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Rows of the journal, and their bytes, above which logs are drained.
const JOURNAL_ROWS: u64 = 512;
const JOURNAL_BYTES: usize = 2 << 20;
/// Logs that one commit drains, at least: more at once would let others wait.
const DRAINED_AT_ONCE: usize = 4;
/// Streams that a log keeps open.
const OPEN_STREAMS: usize = 64;
/// Text that is shorter is kept where it is.
const LENT_TEXT: usize = 32;
/// Ordinals that one look for segments spans.
const WINDOW: u64 = 1 << 16;

/// A write transaction over rows, in which every chunk has a row of its own.
pub(super) struct Txn<'a> {
    inner: &'a mut dyn WriteTxn,
    shared: &'a Shared,
    memo: Memo,
    /// What the row of the journal will hold that this transaction writes.
    pending: Vec<Arc<Entry>>,
    /// Logs whose entries are in their rows now, through a number.
    drained: Vec<(u64, u64)>,
    /// Whether something was erased, so that nothing of it may stay in the
    /// journal.
    clears: bool,
}

/// What a transaction changed in the journal.
#[derive(Default)]
pub(super) struct Done {
    row: Option<(u64, usize, Vec<Arc<Entry>>)>,
    drained: Vec<(u64, u64)>,
    /// The first number that is still there, if some went.
    first: Option<u64>,
}

impl Done {
    /// Lets readers know, after the commit.
    pub(super) fn publish(self, shared: &Shared) {
        if let Some((seq, bytes, entries)) = self.row {
            shared.journal.committed(seq, bytes, entries);
        }
        for (log_no, through) in self.drained {
            shared.journal.drained(log_no, through);
        }
        if let Some(first) = self.first {
            shared.journal.forget(first);
        }
    }
}

impl<'a> Txn<'a> {
    pub(super) fn new(inner: &'a mut dyn WriteTxn, shared: &'a Shared) -> Self {
        Self {
            inner,
            shared,
            memo: Memo::default(),
            pending: Vec::new(),
            drained: Vec::new(),
            clears: false,
        }
    }

    fn state(&self) -> View<'_> {
        View {
            inner: &*self.inner,
            shared: self.shared,
            memo: &self.memo,
            pending: &self.pending,
        }
    }

    fn put(&mut self, writes: &Writes) -> Result<(), StoreError> {
        self.memo.clear();
        self.inner.apply(writes)
    }

    /// The entry of the journal that says the same as some rows; `None` where
    /// they say more than that chunks of open streams came.
    fn as_chunks(&self, writes: &Writes) -> Result<Option<Entry>, StoreError> {
        let (Some(log), false) = (&writes.log, writes.events.is_empty()) else {
            return Ok(None);
        };
        // Mostly it is no chunk.
        let first = writes.events.first().map(|(row, _)| row);
        if log.tail.streams.is_empty()
            || first.is_none_or(|row| Mould::of(row.form, &row.body).is_none())
            || !is_bare(writes)
        {
            return Ok(None);
        }
        let state = self.state();
        let Some(known) = state.known(log.log_no)? else {
            return Ok(None);
        };
        if !known.row.index_is_current() {
            return Ok(None);
        }
        let mut expected = known.row.clone();
        let mut parts: Vec<(u64, u32, Vec<Chunk>)> = Vec::new();
        let mut ends: HashMap<u64, u64> = HashMap::new();
        let mut revisions: BTreeMap<Position, u64> = BTreeMap::new();
        let mut segs = writes.segs.iter();
        for (row, hash) in &writes.events {
            let Some((stream, chunk)) = self.chunk(&known, row)? else {
                return Ok(None);
            };
            let next_seq = expected.tail.run_mut(row.run_no).map(|run| {
                run.next_seq += 1;
                run.next_seq - 1
            });
            if row.ordinal != expected.head + 1
                || next_seq != Some(row.run_seq)
                || *hash != hash64(chunk.id.as_bytes())
            {
                return Ok(None);
            }
            (expected.head, expected.chain) = (row.ordinal, row.chain);
            if let Some(of) = stream.content {
                let lane = (of.lane, of.index);
                let end = match ends.get(&stream.opener) {
                    Some(end) => *end,
                    None => state
                        .last_seg(log.index_no, of.position, lane, u64::MAX)?
                        .map_or(0, |seg| seg.before + seg.bytes),
                };
                let wanted = SegRow {
                    position: of.position,
                    lane,
                    before: end,
                    bytes: chunk.text.len() as u64,
                    seg: row.ordinal,
                    n: 1,
                    last: row.ordinal,
                };
                if segs.next() != Some(&wanted) {
                    return Ok(None);
                }
                ends.insert(stream.opener, end + wanted.bytes);
                revisions.insert(of.position, row.ordinal);
            }
            match parts
                .iter_mut()
                .find(|(opener, ..)| *opener == stream.opener)
            {
                Some((.., chunks)) => chunks.push(chunk),
                None => parts.push((stream.opener, row.run_no, vec![chunk])),
            }
        }
        expected.index_head = expected.head;
        if segs.next().is_some()
            || expected != *log
            || !self.only_revised(log, &writes.items, &revisions)?
        {
            return Ok(None);
        }
        Ok(Some(Entry {
            log_no: log.log_no,
            head: log.head,
            chain: log.chain,
            parts: parts
                .into_iter()
                .map(|(opener, run_no, chunks)| Part::new(opener, run_no, chunks))
                .collect(),
        }))
    }

    /// The open stream that an event continues, and what is its own.
    fn chunk(
        &self,
        known: &Log,
        row: &EventRow,
    ) -> Result<Option<(OpenStream, Chunk)>, StoreError> {
        let Some((mould, _)) = Mould::of(row.form, &row.body) else {
            return Ok(None);
        };
        let mould = mould.fingerprint();
        let streams = known.row.tail.streams.iter();
        let mut streams =
            streams.filter(|stream| stream.mould == mould && stream.run_no == row.run_no);
        let Some(stream) = streams.next() else {
            return Ok(None);
        };
        let opener = self.state().opener(known.row.log_no, stream.opener)?;
        let cut = Mould::of(opener.form, &opener.body)
            .and_then(|(mould, _)| mould.cut(row.form, &row.body));
        Ok(cut.map(|cut| {
            let chunk = Chunk {
                ordinal: row.ordinal,
                run_seq: row.run_seq,
                committed_at: row.committed_at,
                id: cut.id.to_owned(),
                ts: cut.ts.to_owned(),
                text: cut.text.to_owned(),
            };
            (*stream, chunk)
        }))
    }

    /// Whether items are what they are but for their revisions.
    fn only_revised(
        &self,
        log: &LogRow,
        items: &[ItemWrite],
        revisions: &BTreeMap<Position, u64>,
    ) -> Result<bool, StoreError> {
        if items.len() != revisions.len() {
            return Ok(false);
        }
        for write in items {
            let position = write.item.position;
            let found = self
                .state()
                .items(log.index_no, position, Direction::Newer, 1)?;
            let mut now = found.into_iter().filter(|item| item.position == position);
            let (Some(mut now), Some(revision)) = (now.next(), revisions.get(&position)) else {
                return Ok(false);
            };
            now.revision = now.revision.max(*revision);
            if write.is_new || now != write.item {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The live chunks of a log as segments, and what else its rows say then.
    fn segments(&self, log: &Log) -> Result<(Vec<Opened>, Writes), StoreError> {
        let heads = chunks::heads(&log.live);
        let mut writes = Writes::default();
        let mut packs = Vec::new();
        let mut revised = BTreeSet::new();
        for stream in &log.row.tail.streams {
            let parts: Vec<&Part> = log.parts(stream.opener).collect();
            if parts.is_empty() {
                continue;
            }
            let own = chunks::cut(stream.opener, stream.content, &parts, &heads);
            if let Some(of) = stream.content {
                let lane = (of.lane, of.index);
                let index_no = log.row.index_no;
                let last = self.inner.last_seg(index_no, of.position, lane, u64::MAX)?;
                let mut before = last.map_or(0, |seg| seg.before + seg.bytes);
                for pack in &own {
                    let bytes = pack.row.own.len() as u64;
                    writes.segs.push(SegRow {
                        position: of.position,
                        lane,
                        before,
                        bytes,
                        seg: pack.row.first,
                        n: u32::try_from(pack.chunks.len()).unwrap_or(u32::MAX),
                        last: pack.row.last,
                    });
                    before += bytes;
                }
                revised.insert(of.position);
            }
            packs.extend(own);
        }
        for position in revised {
            let items = self
                .state()
                .items(log.row.index_no, position, Direction::Newer, 1)?;
            let items = items.into_iter().filter(|item| item.position == position);
            writes.items.extend(items.map(|item| ItemWrite {
                item,
                is_new: false,
            }));
        }
        for pack in &packs {
            let (runs, ids) = pack.ids();
            writes.id_runs.extend(runs);
            writes.pack_ids.extend(ids);
        }
        let mut row = log.row.clone();
        row.drained_seq = self.state().ends()?.1;
        writes.log = Some(row);
        Ok((packs, writes))
    }

    /// Notes that nothing of a log is in the journal any more.
    fn note_drained(&mut self, log_no: u64) -> Result<(), StoreError> {
        let last = self.state().ends()?.1;
        self.pending.retain(|entry| entry.log_no != log_no);
        self.drained.push((log_no, last));
        self.memo.clear();
        Ok(())
    }

    /// Moves what the journal has of a log into segments.
    fn drain(&mut self, log_no: u64) -> Result<(), StoreError> {
        let Some(log) = self.state().known(log_no)? else {
            return Ok(());
        };
        if log.live.is_empty() {
            return Ok(());
        }
        let (packs, mut writes) = self.segments(&log)?;
        writes.packs = packs.into_iter().map(|pack| pack.row).collect();
        self.put(&writes)?;
        self.note_drained(log_no)
    }

    /// Writes rows of a log, together with what the journal has of it, and
    /// looks after its streams.
    fn write_log(&mut self, mut writes: Writes, log: LogRow) -> Result<(), StoreError> {
        let Some(known) = self.state().known(log.log_no)? else {
            writes.log = Some(log);
            return self.put(&writes);
        };
        let is_live = !known.live.is_empty();
        let (mut packs, drained) = self.segments(&known)?;
        // What is written now was decided over what is drained now.
        let written: BTreeSet<Position> = writes
            .items
            .iter()
            .map(|write| write.item.position)
            .collect();
        let items = drained.items.into_iter();
        writes
            .items
            .extend(items.filter(|write| !written.contains(&write.item.position)));
        writes.segs.extend(drained.segs);
        writes.id_runs.extend(drained.id_runs);
        writes.pack_ids.extend(drained.pack_ids);
        let mut log = log;
        log.drained_seq = match drained.log {
            Some(row) if is_live => row.drained_seq,
            _ => known.row.drained_seq,
        };
        self.settle(&known.row, &mut log, &mut writes, &mut packs)?;
        open_streams(&mut log, &writes);
        writes.packs.extend(packs.into_iter().map(|pack| pack.row));
        let log_no = log.log_no;
        writes.log = Some(log);
        self.put(&writes)?;
        if is_live {
            self.note_drained(log_no)?;
        }
        Ok(())
    }

    /// Lets segments of streams that ended borrow their text from the finals
    /// that repeat it.
    fn settle(
        &self,
        before: &LogRow,
        log: &mut LogRow,
        writes: &mut Writes,
        drained: &mut Vec<Opened>,
    ) -> Result<(), StoreError> {
        let is_open = |stream: &OpenStream| {
            let Some(of) = stream.content else {
                return true;
            };
            let item = writes.items.iter().map(|write| &write.item);
            let mut item = item.filter(|item| item.position == of.position);
            item.next()
                .is_none_or(|item| item.open_lanes(u64::MAX).contains(&(of.lane, of.index)))
        };
        log.tail.streams.retain(is_open);
        for stream in &before.tail.streams {
            let goes_on = log.tail.streams.contains(stream);
            if goes_on && stream.content.is_some() {
                continue;
            }
            let mut finals = Vec::new();
            for (at, (row, _)) in writes.events.iter().enumerate() {
                let whole = Mould::of(row.form, &row.body).is_none();
                if row.run_no == stream.run_no
                    && row.body.len() >= LENT_TEXT
                    && whole
                    && (stream.content.is_some() || self.answers(log.log_no, stream.opener, row)?)
                {
                    finals.push(at);
                }
            }
            if finals.is_empty() {
                continue;
            }
            // Those that were drained before, and those that are drained now.
            let mut packs = self.packs_of(log.log_no, stream.opener, before.head)?;
            let (own, others) = std::mem::take(drained)
                .into_iter()
                .partition(|pack: &Opened| pack.row.opener == stream.opener);
            *drained = others;
            packs.extend(own);
            for at in finals {
                if lend(&mut packs, &mut writes.events[at].0)? {
                    log.tail.streams.retain(|open| open.opener != stream.opener);
                    break;
                }
            }
            drained.extend(packs);
        }
        Ok(())
    }

    /// Whether an event is of the same message or call as a stream.
    fn answers(&self, log_no: u64, opener: u64, row: &EventRow) -> Result<bool, StoreError> {
        let opener = self.state().opener(log_no, opener)?;
        let ours = decode_event(opener.form, &opener.body)?;
        let Ok(theirs) = decode_event(row.form, &row.body) else {
            return Ok(false);
        };
        let same = |field| ours.raw(field) == theirs.raw(field);
        Ok(ours.kind() == theirs.kind()
            && same(Field::ProviderEventId)
            && same(Field::CallId)
            && same(Field::ContentIndex))
    }

    /// The stored segments of a stream that begin at or below an ordinal.
    fn packs_of(&self, log_no: u64, opener: u64, head: u64) -> Result<Vec<Opened>, StoreError> {
        let mut out = Vec::new();
        let mut from = opener + 1;
        while from <= head {
            let to = head.min(from + WINDOW - 1);
            for found in self.inner.packs(log_no, from, to)? {
                if let FoundPack::Whole(row) = found
                    && row.opener == opener
                {
                    let lent = |ordinal| super::lent(&*self.inner, log_no, ordinal);
                    out.extend(chunks::open(row, lent)?);
                }
            }
            from = to + 1;
        }
        Ok(out)
    }

    /// Puts the chunks of segments into rows of their own.
    fn unpack(&mut self, log_no: u64, packs: &[Opened]) -> Result<(), StoreError> {
        let Some(log) = self.inner.log(log_no)? else {
            return Ok(());
        };
        let mut writes = Writes::default();
        for pack in packs {
            let ordinals: BTreeSet<u64> = pack.chunks.iter().map(|chunk| chunk.ordinal).collect();
            let (first, last) = (pack.row.first, pack.row.last);
            let found = self
                .state()
                .events(log_no, first, last, usize::MAX, usize::MAX)?;
            for found in found {
                match found {
                    FoundEvent::Whole(row) if ordinals.contains(&row.ordinal) => {
                        let view = decode_event(row.form, &row.body)?;
                        let hash = hash64(view.id.as_bytes());
                        writes.events.push((row, hash));
                    }
                    _ => {}
                }
            }
            if let Some(of) = pack.row.content {
                let lane = (of.lane, of.index);
                let segs =
                    self.inner
                        .segs(log.index_no, of.position, lane, first, last, usize::MAX)?;
                for seg in segs.iter().filter(|seg| seg.n > 1) {
                    writes
                        .segs
                        .extend(pack.seg_chunks(seg).into_iter().flatten());
                }
            }
        }
        writes.events.sort_by_key(|(row, _)| row.ordinal);
        writes.erase.push(erased(&log, packs));
        writes.log = Some(log);
        self.put(&writes)
    }

    /// Gives segments back the text that an event has lent them.
    fn give_back(
        &mut self,
        log_no: u64,
        row: &EventRow,
        stays: impl Fn(u64) -> bool,
    ) -> Result<(), StoreError> {
        if row.form != FORM_LENDING {
            return Ok(());
        }
        let Ok(Lending {
            borrowers, body, ..
        }) = decode_lending(&row.body)
        else {
            return Ok(());
        };
        let mut packs = Vec::new();
        for first in borrowers.into_iter().filter(|first| stays(*first)) {
            for found in self.inner.packs(log_no, first, first)? {
                let FoundPack::Whole(pack) = found else {
                    continue;
                };
                if pack.text == PackText::Own {
                    continue;
                }
                let lent = |ordinal| Ok((ordinal == row.ordinal).then(|| body.clone()));
                if let Some(mut pack) = chunks::open(pack, lent)? {
                    pack.row.own = pack.text();
                    pack.row.text = PackText::Own;
                    packs.push(pack.row);
                }
            }
        }
        let log = self.inner.log(log_no)?;
        self.put(&Writes {
            log,
            packs,
            ..Writes::default()
        })
    }

    /// Makes ready for changing events in their places: nothing is packed any
    /// more that they are part of, or a mould of, or that borrows from them.
    fn free(&mut self, log_no: u64, changed: &[EventRow]) -> Result<(), StoreError> {
        let head = self.inner.log(log_no)?.map_or(0, |log| log.head);
        let ordinals: BTreeSet<u64> = changed.iter().map(|row| row.ordinal).collect();
        let mut lenders = Vec::new();
        let mut openers = BTreeSet::new();
        for ordinal in &ordinals {
            let found = self
                .inner
                .events(log_no, *ordinal, *ordinal, 1, usize::MAX)?;
            for found in found {
                let FoundEvent::Whole(row) = found else {
                    continue;
                };
                if row.form == FORM_LENDING {
                    lenders.push(row);
                } else if Mould::of(row.form, &row.body).is_some() {
                    openers.insert(row.ordinal);
                }
            }
        }
        for row in lenders {
            self.give_back(log_no, &row, |_| true)?;
        }
        let Some(lowest) = ordinals.first().copied() else {
            return Ok(());
        };
        // A segment comes behind its opener, and before the last ordinal that
        // it is asked for.
        let highest = ordinals.last().copied().unwrap_or(lowest);
        let to = if openers.is_empty() { highest } else { head };
        let mut from = lowest.saturating_sub(chunks::SPAN - 1).max(1);
        while from <= to {
            let upto = to.min(from + WINDOW - 1);
            let mut packs = Vec::new();
            for found in self.inner.packs(log_no, from, upto)? {
                let FoundPack::Whole(row) = found else {
                    continue;
                };
                let within = ordinals.range(row.first..=row.last).next().is_some();
                if !within && !openers.contains(&row.opener) {
                    continue;
                }
                let opener = row.opener;
                let lent = |ordinal| super::lent(&*self.inner, log_no, ordinal);
                let Some(pack) = chunks::open(row, lent)? else {
                    continue;
                };
                let has = |chunk: &Chunk| ordinals.contains(&chunk.ordinal);
                if openers.contains(&opener) || pack.chunks.iter().any(has) {
                    packs.push(pack);
                }
            }
            if !packs.is_empty() {
                self.unpack(log_no, &packs)?;
            }
            from = upto + 1;
        }
        Ok(())
    }

    /// Makes ready for removing the last events of a log, and leaves out of
    /// the list what is packed: that is removed here.
    fn cut_off(&mut self, erase: &mut Erase) -> Result<(), StoreError> {
        let Erase::Events { log_no, events, .. } = erase else {
            return Ok(());
        };
        let (log_no, ordinals) = (*log_no, events.iter().map(|(ordinal, _)| *ordinal));
        let ordinals: BTreeSet<u64> = ordinals.collect();
        let ends = ordinals.first().copied().zip(ordinals.last().copied());
        let (Some((from, to)), Some(log)) = (ends, self.inner.log(log_no)?) else {
            return Ok(());
        };
        let (mut gone, mut left, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
        for found in self
            .inner
            .packs(log_no, from.saturating_sub(chunks::SPAN - 1).max(1), to)?
        {
            let (first, last) = found.ends();
            if last.is_some_and(|last| last < from) {
                continue;
            }
            let lent = |ordinal| super::lent(&*self.inner, log_no, ordinal);
            let pack = match found {
                FoundPack::Whole(row) => chunks::open(row, lent)?,
                FoundPack::Damaged { .. } => None,
            };
            let Some(pack) = pack else {
                // Its ids go with those of its ordinals, and with the log.
                damaged.extend(ordinals.contains(&first).then_some(first));
                continue;
            };
            if pack
                .chunks
                .iter()
                .all(|chunk| ordinals.contains(&chunk.ordinal))
            {
                gone.push(pack);
            } else {
                left.push(pack);
            }
        }
        if !left.is_empty() {
            self.unpack(log_no, &left)?;
        }
        let packed: BTreeSet<u64> = gone
            .iter()
            .flat_map(|pack| pack.chunks.iter().map(|chunk| chunk.ordinal))
            .collect();
        events.retain(|(ordinal, _)| !packed.contains(ordinal));
        for found in self
            .inner
            .events(log_no, from, to, usize::MAX, usize::MAX)?
        {
            if let FoundEvent::Whole(row) = found {
                self.give_back(log_no, &row, |first| !ordinals.contains(&first))?;
            }
        }
        if !gone.is_empty() || !damaged.is_empty() {
            let mut erase = erased(&log, &gone);
            if let Erase::Packs { packs, .. } = &mut erase {
                packs.extend(damaged);
            }
            self.put(&Writes {
                erase: vec![erase],
                ..Writes::default()
            })?;
        }
        Ok(())
    }

    /// Rows of an index for chunks that are packed already: one for each
    /// segment, as far as its chunks are there.
    fn coalesce(&self, log_no: u64, segs: Vec<SegRow>) -> Result<Vec<SegRow>, StoreError> {
        let ends = segs
            .iter()
            .map(|seg| seg.seg)
            .min()
            .zip(segs.iter().map(|seg| seg.seg).max());
        let Some((from, to)) = ends else {
            return Ok(segs);
        };
        let state = self.state();
        let mut packs = Vec::new();
        let low = from.saturating_sub(chunks::SPAN - 1).max(1);
        for found in self.inner.packs(log_no, low, to)? {
            packs.extend(state.opened(log_no, found)?);
        }
        if packs.is_empty() {
            return Ok(segs);
        }
        let mut out: Vec<SegRow> = Vec::with_capacity(segs.len());
        // By lane: the segment that the last chunk is in, its place there, and
        // the row that stands for it.
        let mut open: HashMap<(Position, LanePart), (usize, usize, usize)> = HashMap::new();
        for seg in segs {
            let lane = (seg.position, seg.lane);
            let place = packs.iter().enumerate().find_map(|(no, pack)| {
                let of = pack.row.content?;
                let at = (of.position, (of.lane, of.index)) == lane;
                let at = at.then(|| {
                    pack.chunks
                        .binary_search_by_key(&seg.seg, |chunk| chunk.ordinal)
                });
                Some((no, at?.ok()?))
            });
            match (place, open.get_mut(&lane)) {
                (Some((no, at)), Some((same, last, row))) if *same == no && *last + 1 == at => {
                    *last = at;
                    let row = &mut out[*row];
                    row.n += 1;
                    row.bytes += seg.bytes;
                    row.last = seg.seg;
                }
                (Some((no, at)), _) => {
                    open.insert(lane, (no, at, out.len()));
                    out.push(seg);
                }
                (None, _) => {
                    open.remove(&lane);
                    out.push(seg);
                }
            }
        }
        Ok(out)
    }

    /// Drains a log, unless something of it is damaged: then it keeps its
    /// entries, and does not stop the others. Answers whether it is drained.
    fn drain_or_leave(&mut self, log_no: u64) -> Result<bool, StoreError> {
        match self.drain(log_no) {
            Ok(()) => {
                let last = self.state().ends()?.1;
                self.drained.push((log_no, last));
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Drains the logs with the oldest entries, at most so many; answers the
    /// number of the first row that is still needed.
    fn drain_oldest(&mut self, mut budget: usize, last: u64) -> Result<u64, StoreError> {
        for (first, log_no) in self.shared.journal.logs() {
            let drained = self.inner.log(log_no)?.map(|log| log.drained_seq);
            if drained.is_none_or(|drained| drained >= last) {
                // Nothing of it is live.
                self.drained.push((log_no, last));
                continue;
            }
            if budget == 0 {
                return Ok(first);
            }
            budget -= 1;
            if !self.drain_or_leave(log_no)? {
                return Ok(first);
            }
        }
        Ok(last + 1)
    }

    /// Writes the row of the journal, and keeps the journal short.
    pub(super) fn finish(mut self) -> Result<Done, StoreError> {
        if self.pending.is_empty() && !self.clears {
            return Ok(Done {
                drained: self.drained,
                ..Done::default()
            });
        }
        let (first, last) = self.state().ends()?;
        self.shared.journal.follow(&*self.inner, first, last)?;
        let (rows, bytes) = (last + 1 - first, self.shared.journal.size().1);
        let over =
            |times: usize| rows > JOURNAL_ROWS * times as u64 || bytes > JOURNAL_BYTES * times;
        let mut keep = first;
        for log_no in self.shared.journal.heavy(DRAINED_AT_ONCE) {
            self.drain_or_leave(log_no)?;
        }
        if self.clears || over(2) {
            keep = self.drain_oldest(usize::MAX, last)?;
        } else if over(1) {
            let logs = self.shared.journal.logs().len();
            keep = self.drain_oldest(DRAINED_AT_ONCE.max(logs / 64), last)?;
        }
        let mut writes = Writes::default();
        if keep > first {
            writes.erase.push(Erase::Commits(keep - 1));
        }
        let seq = last + 1;
        let mut done = Done {
            drained: self.drained,
            first: (keep > first).then_some(keep),
            ..Done::default()
        };
        // The newest row stays, so that no number is used twice.
        if !self.pending.is_empty() || keep > last && last >= first {
            let body = encode_commit(&self.pending);
            done.row = Some((seq, body.len(), self.pending));
            writes.commit = Some(CommitRow { seq, body });
        }
        if !writes.erase.is_empty() || writes.commit.is_some() {
            self.inner.apply(&writes)?;
        }
        Ok(done)
    }
}

/// Whether rows are a log's own, its events, items and chunks, and nothing
/// else.
fn is_bare(writes: &Writes) -> bool {
    let Writes {
        erase,
        counters,
        sessions,
        log: _,
        spans,
        runs,
        events: _,
        redacted,
        items: _,
        segs: _,
        packs,
        id_runs,
        pack_ids,
        commit,
        citations,
        contributions,
        redacted_facts,
        blobs,
        stages,
        pieces,
        view,
        scrubs,
    } = writes;
    let empty = [
        erase.is_empty(),
        counters.is_none(),
        sessions.is_empty(),
        spans.is_empty(),
        runs.is_empty(),
        redacted.is_empty(),
        packs.is_empty(),
        id_runs.is_empty(),
        pack_ids.is_empty(),
        commit.is_none(),
        citations.is_empty(),
        contributions.is_empty(),
        redacted_facts.is_empty(),
        blobs.is_empty(),
        stages.is_empty(),
        pieces.is_empty(),
        view.is_none(),
        scrubs.is_empty(),
    ];
    empty.iter().all(|empty| *empty)
}

/// Removes segments with their ids.
fn erased(log: &LogRow, packs: &[Opened]) -> Erase {
    let mut id_runs = Vec::new();
    let mut ids = Vec::new();
    for pack in packs {
        let (runs, others) = pack.ids();
        id_runs.extend(runs.into_iter().map(|run| (run.stem, run.first)));
        ids.extend(others);
    }
    Erase::Packs {
        log_no: log.log_no,
        family: log.family,
        packs: packs.iter().map(|pack| pack.row.first).collect(),
        id_runs,
        ids,
    }
}

/// Lets segments borrow from an event what it repeats of their text; answers
/// whether one did.
fn lend(packs: &mut [Opened], row: &mut EventRow) -> Result<bool, StoreError> {
    let mut from = 0;
    let mut borrowers = Vec::new();
    for pack in packs.iter_mut() {
        let text = pack.text();
        if text.len() < LENT_TEXT || pack.row.text != PackText::Own {
            continue;
        }
        let Some(at) = memmem::find(&row.body[from..], text.as_bytes()) else {
            continue;
        };
        pack.row.text = PackText::Of(row.ordinal, (from + at) as u64);
        pack.row.own = String::new();
        from += at + text.len();
        borrowers.push(pack.row.first);
    }
    if borrowers.is_empty() {
        return Ok(false);
    }
    let (form, body) = (row.form, std::mem::take(&mut row.body));
    row.body = encode_lending(&Lending {
        borrowers,
        form,
        body,
    })?;
    row.form = FORM_LENDING;
    Ok(true)
}

/// Opens a stream for each chunk that came as a row, if none is open for it.
fn open_streams(log: &mut LogRow, writes: &Writes) {
    let tail = &mut log.tail;
    for (row, _) in &writes.events {
        let Some((mould, _)) = Mould::of(row.form, &row.body) else {
            continue;
        };
        if !tail.runs.iter().any(|run| run.run_no == row.run_no) {
            continue;
        }
        let seg = writes
            .segs
            .iter()
            .find(|seg| seg.seg == row.ordinal && seg.n == 1);
        let stream = OpenStream {
            opener: row.ordinal,
            run_no: row.run_no,
            mould: mould.fingerprint(),
            content: seg.map(|seg| folio_core::assign::Chunk {
                position: seg.position,
                lane: seg.lane.0,
                index: seg.lane.1,
            }),
        };
        // A lane has one stream, so that its segments follow each other.
        tail.streams.retain(|open| {
            open.content != stream.content || stream.content.is_none() && open.mould != stream.mould
        });
        if tail.streams.len() == OPEN_STREAMS {
            tail.streams.remove(0);
        }
        tail.streams.push(stream);
    }
    let (base, head) = (log.base, log.head);
    let own = |stream: &OpenStream| (base + 1..=head).contains(&stream.opener);
    tail.streams.retain(own);
}

impl WriteTxn for Txn<'_> {
    fn apply(&mut self, writes: &Writes) -> Result<(), StoreError> {
        if let Some(entry) = self.as_chunks(writes)? {
            self.pending.push(Arc::new(entry));
            self.memo.clear();
            return Ok(());
        }
        self.clears |= !writes.scrubs.is_empty();
        let removes = |erase: &Erase| matches!(erase, Erase::Events { .. });
        let Some(log) = &writes.log else {
            return self.put(writes);
        };
        let log_no = log.log_no;
        self.memo.learn_index(log.index_no, log_no);
        let removes = writes.erase.iter().any(removes) || !writes.redacted.is_empty();
        let chunks = |(row, _): &(EventRow, u64)| Mould::of(row.form, &row.body).is_some();
        let indexes = writes.events.is_empty() && !writes.segs.is_empty();
        let known = self.state().known(log_no)?;
        // What was decided before something was drained does not know it.
        let drained_seq = known.as_ref().map_or(0, |known| known.row.drained_seq);
        let streams = known
            .as_ref()
            .is_some_and(|known| !known.row.tail.streams.is_empty());
        let moved = known.is_some_and(|known| known.row.index_no != log.index_no);
        let plain = !removes && !indexes && !streams && !writes.events.iter().any(chunks);
        if plain && log.tail.streams.is_empty() && log.drained_seq == drained_seq {
            return self.put(writes);
        }
        let mut writes = writes.clone();
        let Some(mut log) = writes.log.take() else {
            return self.put(&writes);
        };
        if removes || moved {
            // What is drained belongs to the index that there is.
            self.drain(log_no)?;
        }
        if removes {
            if !writes.redacted.is_empty() {
                self.free(log_no, &writes.redacted)?;
            }
            for erase in &mut writes.erase {
                self.cut_off(erase)?;
            }
            log.tail.streams.clear();
            if let Some(known) = self.state().known(log_no)? {
                log.drained_seq = known.row.drained_seq;
            }
            writes.log = Some(log);
            return self.put(&writes);
        }
        if indexes {
            writes.segs = self.coalesce(log_no, writes.segs)?;
        }
        self.write_log(writes, log)
    }
}

delegate! {
    impl Snapshot for Txn<'_> {
        self => self.inner;
        fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError> {
            self.state().log(log_no)
        }
        fn events(
            &self,
            log_no: u64,
            from: u64,
            to: u64,
            limit: usize,
            max_bytes: usize,
        ) -> Result<Vec<FoundEvent>, StoreError> {
            self.state().events(log_no, from, to, limit, max_bytes)
        }
        fn packed_id(&self, log_no: u64, id: &str) -> Result<Option<u64>, StoreError> {
            self.state().packed_id(log_no, id)
        }
        fn visit_events(
            &self,
            log_no: u64,
            from: u64,
            to: u64,
            visit: &mut dyn FnMut(EventRef<'_>),
        ) -> Result<(), StoreError> {
            self.state().visit_events(log_no, from, to, visit)
        }
        fn items(
            &self,
            index_no: u64,
            from: Position,
            direction: Direction,
            limit: usize,
        ) -> Result<Vec<Item>, StoreError> {
            self.state().items(index_no, from, direction, limit)
        }
        fn visit_items(
            &self,
            index_no: u64,
            from: Position,
            direction: Direction,
            limit: usize,
            visit: &mut dyn FnMut(ItemRef<'_>),
        ) -> Result<(), StoreError> {
            self.state().visit_items(index_no, from, direction, limit, visit)
        }
        fn items_by_hash(&self, index_no: u64, hash: u64) -> Result<Vec<Item>, StoreError> {
            self.state().items_by_hash(index_no, hash)
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
            self.state().segs(index_no, position, lane, from, through, limit)
        }
        fn last_seg(
            &self,
            index_no: u64,
            position: Position,
            lane: LanePart,
            through: u64,
        ) -> Result<Option<SegRow>, StoreError> {
            self.state().last_seg(index_no, position, lane, through)
        }
    }
}
