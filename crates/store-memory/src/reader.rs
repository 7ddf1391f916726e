//! The tables as persistent ordered maps, and reads of them.
//!
//! A clone shares its nodes, so a writer changes a clone and publishes it
//! whole, and readers keep the state they began with. Rows that are larger
//! than a few numbers stand behind an [`Arc`], because changing a map copies
//! the neighbours of what changes.

use folio_codec::Digest;
use folio_core::item::{LanePart, Position};
use folio_core::{Direction, Item, ItemRef};
use folio_store::StoreError;
use folio_store::engine::{Counters, Snapshot};
use folio_store::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRef, EventRow, FactRow, FoundEvent, FoundPack,
    IdRunRow, LogRow, PackRow, RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewEntry,
    ViewRow,
};
use imbl::{OrdMap, OrdSet};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The first position of an index.
pub(crate) const FIRST: Position = Position {
    ordinal: 0,
    slot: 0,
};
/// A position behind all of an index.
pub(crate) const LAST: Position = Position {
    ordinal: u64::MAX,
    slot: u8::MAX,
};

/// A view's entry: the log that it was made from, and the value.
pub(crate) type Entry = (u64, Arc<[u8]>);

/// Every table of a store, by key, for engines that keep them in another way
/// than [`MemoryEngine`](crate::MemoryEngine). A clone is cheap and keeps the
/// state it was made of.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    pub(crate) counters: Counters,
    pub(crate) sessions: OrdMap<Arc<str>, Arc<SessionRow>>,
    pub(crate) session_of_log: OrdMap<u64, Arc<str>>,
    pub(crate) logs: OrdMap<u64, Arc<LogRow>>,
    /// (log, upto)
    pub(crate) spans: OrdMap<(u64, u64), SpanRow>,
    /// (source, upto, log)
    pub(crate) readers: OrdSet<(u64, u64, u64)>,
    /// (log, ordinal)
    pub(crate) events: OrdMap<(u64, u64), Arc<EventRow>>,
    /// (family, hash, log, ordinal)
    pub(crate) ids: OrdSet<(u64, u64, u64, u64)>,
    /// (log, first ordinal)
    pub(crate) packs: OrdMap<(u64, u64), Arc<PackRow>>,
    /// (log, stem, first number)
    pub(crate) id_runs: OrdMap<(u64, Arc<str>, u64), IdRunRow>,
    pub(crate) commits: OrdMap<u64, Arc<CommitRow>>,
    /// (log, run)
    pub(crate) runs: OrdMap<(u64, u32), Arc<RunRow>>,
    pub(crate) run_ids: OrdMap<(u64, Arc<str>), u32>,
    pub(crate) invocations: OrdMap<(u64, Arc<str>), u32>,
    pub(crate) turns: OrdSet<(u64, Arc<str>, u32)>,
    /// (index, position)
    pub(crate) items: OrdMap<(u64, Position), Arc<Item>>,
    /// (index, hash, position)
    pub(crate) item_hashes: OrdSet<(u64, u64, Position)>,
    /// (index, position, lane, ordinal)
    pub(crate) segs: OrdMap<(u64, Position, LanePart, u64), SegRow>,
    /// (log, source)
    pub(crate) contribs: OrdMap<(u64, Arc<str>), ContribLogRow>,
    /// (contribution log, sequence)
    pub(crate) facts: OrdMap<(u64, u64), Arc<FactRow>>,
    /// (contribution log, anchor, sequence)
    pub(crate) anchors: OrdSet<(u64, u64, u64)>,
    /// (contribution log, hash, sequence)
    pub(crate) fact_ids: OrdSet<(u64, u64, u64)>,
    pub(crate) blobs: OrdMap<Digest, BlobRow>,
    pub(crate) stages: OrdMap<u64, StageRow>,
    /// (blob, piece)
    pub(crate) pieces: OrdMap<(u64, u32), Arc<[u8]>>,
    /// (blob, log, ordinal)
    pub(crate) cited: OrdSet<(Digest, u64, u64)>,
    /// (log, ordinal, blob)
    pub(crate) citations: OrdSet<(u64, u64, Digest)>,
    pub(crate) views: OrdMap<Arc<str>, ViewRow>,
    /// (view, key)
    pub(crate) entries: OrdMap<(u64, Arc<[u8]>), Entry>,
    /// (log, view)
    pub(crate) marks: OrdMap<(u64, u64), u64>,
    pub(crate) scrubs: OrdMap<u64, ScrubRow>,
}

/// Values of a range of a map, in a direction.
fn walk<'a, K: Ord + Clone, V: Clone>(
    map: &'a OrdMap<K, V>,
    range: impl RangeBounds<K>,
    direction: Direction,
) -> Box<dyn Iterator<Item = (&'a K, &'a V)> + 'a> {
    let range = map.range(range);
    match direction {
        Direction::Newer => Box::new(range),
        Direction::Older => Box::new(range.rev()),
    }
}

impl Tables {
    fn session_at(&self, id: &str) -> Option<SessionRow> {
        self.sessions.get(id).map(|row| (**row).clone())
    }

    fn run_at(&self, log_no: u64, run_no: u32) -> Option<RunRow> {
        self.runs.get(&(log_no, run_no)).map(|run| (**run).clone())
    }

    fn items_from(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
    ) -> impl Iterator<Item = &Item> {
        let range = match direction {
            Direction::Newer => (index_no, from)..=(index_no, LAST),
            Direction::Older => (index_no, FIRST)..=(index_no, from),
        };
        walk(&self.items, range, direction).map(|(_, item)| &**item)
    }

    fn facts_at<'a>(
        &'a self,
        places: impl Iterator<Item = (u64, u64)> + 'a,
    ) -> impl Iterator<Item = FactRow> + 'a {
        places.filter_map(|place| self.facts.get(&place).map(|fact| (**fact).clone()))
    }
}

impl Snapshot for Tables {
    fn counters(&self) -> Result<Counters, StoreError> {
        Ok(self.counters)
    }

    fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        Ok(self.session_at(id))
    }

    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<SessionRow>, StoreError> {
        // No id is empty.
        let after: Bound<Arc<str>> = Bound::Excluded(after.unwrap_or_default().into());
        let later = self.sessions.range((after, Bound::Unbounded));
        Ok(later.take(limit).map(|(_, row)| (**row).clone()).collect())
    }

    fn session_of_log(&self, log_no: u64) -> Result<Option<SessionRow>, StoreError> {
        let id = self.session_of_log.get(&log_no);
        Ok(id.and_then(|id| self.session_at(id)))
    }

    fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError> {
        Ok(self.logs.get(&log_no).map(|row| (**row).clone()))
    }

    fn spans(&self, log_no: u64) -> Result<Vec<SpanRow>, StoreError> {
        let spans = self.spans.range((log_no, 0)..=(log_no, u64::MAX));
        Ok(spans.map(|(_, span)| *span).collect())
    }

    fn spans_of(&self, src: u64, limit: usize) -> Result<Vec<SpanRow>, StoreError> {
        let readers = self.readers.range((src, 0, 0)..=(src, u64::MAX, u64::MAX));
        let spans = readers
            .rev()
            .filter_map(|(_, upto, log_no)| self.spans.get(&(*log_no, *upto)).copied());
        Ok(spans.take(limit).collect())
    }

    fn event_ids(&self, family: u64, hash: u64) -> Result<Vec<(u64, u64)>, StoreError> {
        let range = (family, hash, 0, 0)..=(family, hash, u64::MAX, u64::MAX);
        let ids = self.ids.range(range);
        Ok(ids.map(|(_, _, log, ordinal)| (*log, *ordinal)).collect())
    }

    fn events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<FoundEvent>, StoreError> {
        let mut out = Vec::new();
        let mut bytes = 0_usize;
        if from <= to {
            let rows = self.events.range((log_no, from)..=(log_no, to));
            for row in rows.map(|(_, row)| row).take(limit) {
                bytes = bytes.saturating_add(row.body.len());
                if bytes > max_bytes && !out.is_empty() {
                    break;
                }
                out.push(FoundEvent::Whole((**row).clone()));
            }
        }
        Ok(out)
    }

    fn journal(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let ends = self.commits.get_min().zip(self.commits.get_max());
        Ok(ends.map(|((first, _), (last, _))| (*first, *last)))
    }

    fn commits(&self, after: u64) -> Result<Vec<CommitRow>, StoreError> {
        let rows = self
            .commits
            .range((Bound::Excluded(after), Bound::Unbounded));
        Ok(rows.map(|(_, row)| (**row).clone()).collect())
    }

    fn packs(&self, log_no: u64, from: u64, to: u64) -> Result<Vec<FoundPack>, StoreError> {
        if from > to {
            return Ok(Vec::new());
        }
        let packs = self.packs.range((log_no, from)..=(log_no, to));
        Ok(packs
            .map(|(_, row)| FoundPack::Whole((**row).clone()))
            .collect())
    }

    fn id_run(&self, log_no: u64, stem: &str, n: u64) -> Result<Option<IdRunRow>, StoreError> {
        let stem: Arc<str> = stem.into();
        let range = (log_no, Arc::clone(&stem), 0)..=(log_no, stem, n);
        Ok(self
            .id_runs
            .range(range)
            .next_back()
            .map(|(_, row)| row.clone()))
    }

    fn visit_events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(EventRef<'_>),
    ) -> Result<(), StoreError> {
        if from <= to {
            let rows = self.events.range((log_no, from)..=(log_no, to));
            rows.for_each(|(_, row)| visit(row.borrowed()));
        }
        Ok(())
    }

    fn run(&self, log_no: u64, run_no: u32) -> Result<Option<RunRow>, StoreError> {
        Ok(self.run_at(log_no, run_no))
    }

    fn runs(&self, log_no: u64, after: u32, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        let from = Bound::Excluded((log_no, after));
        let runs = self.runs.range((from, Bound::Included((log_no, u32::MAX))));
        Ok(runs.take(limit).map(|(_, run)| (**run).clone()).collect())
    }

    fn run_by_id(&self, log_no: u64, run_id: &str) -> Result<Option<RunRow>, StoreError> {
        let run_no = self.run_ids.get(&(log_no, run_id.into()));
        Ok(run_no.and_then(|run_no| self.run_at(log_no, *run_no)))
    }

    fn run_by_invocation(&self, log_no: u64, id: &str) -> Result<Option<RunRow>, StoreError> {
        let run_no = self.invocations.get(&(log_no, id.into()));
        Ok(run_no.and_then(|run_no| self.run_at(log_no, *run_no)))
    }

    fn last_run_of_turn(
        &self,
        log_no: u64,
        turn_id: &str,
        before: u32,
    ) -> Result<Option<RunRow>, StoreError> {
        let turn: Arc<str> = turn_id.into();
        let range = (log_no, Arc::clone(&turn), 0)..(log_no, turn, before);
        let last = self.turns.range(range).next_back();
        Ok(last.and_then(|(_, _, run_no)| self.run_at(log_no, *run_no)))
    }

    fn items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let items = self.items_from(index_no, from, direction).take(limit);
        Ok(items.cloned().collect())
    }

    fn visit_items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
        visit: &mut dyn FnMut(ItemRef<'_>),
    ) -> Result<(), StoreError> {
        let items = self.items_from(index_no, from, direction).take(limit);
        items.for_each(|item| visit(item.borrowed()));
        Ok(())
    }

    fn items_by_hash(&self, index_no: u64, hash: u64) -> Result<Vec<Item>, StoreError> {
        let range = (index_no, hash, FIRST)..=(index_no, hash, LAST);
        let found = self.item_hashes.range(range);
        Ok(found
            .filter_map(|(index, _, at)| self.items.get(&(*index, *at)))
            .map(|item| (**item).clone())
            .collect())
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
        if from > through {
            return Ok(Vec::new());
        }
        let range = (index_no, position, lane, from)..=(index_no, position, lane, through);
        let segs = self.segs.range(range).take(limit);
        Ok(segs.map(|(_, seg)| *seg).collect())
    }

    fn last_seg(
        &self,
        index_no: u64,
        position: Position,
        lane: LanePart,
        through: u64,
    ) -> Result<Option<SegRow>, StoreError> {
        let range = (index_no, position, lane, 0)..=(index_no, position, lane, through);
        Ok(self.segs.range(range).next_back().map(|(_, seg)| *seg))
    }

    fn contrib_log(&self, log_no: u64, source: &str) -> Result<Option<ContribLogRow>, StoreError> {
        Ok(self.contribs.get(&(log_no, source.into())).cloned())
    }

    fn contrib_logs(&self, log_no: u64) -> Result<Vec<ContribLogRow>, StoreError> {
        let logs = self.contribs.range((log_no, "".into())..);
        let logs = logs.take_while(|((of, _), _)| *of == log_no);
        Ok(logs.map(|(_, row)| row.clone()).collect())
    }

    fn facts(&self, contrib_no: u64, from: u64, limit: usize) -> Result<Vec<FactRow>, StoreError> {
        let range = (contrib_no, from)..=(contrib_no, u64::MAX);
        let facts = self.facts.range(range).take(limit);
        Ok(facts.map(|(_, fact)| (**fact).clone()).collect())
    }

    fn facts_by_anchor(
        &self,
        contrib_no: u64,
        after: Option<(u64, u64)>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<FactRow>, StoreError> {
        let first = Bound::Included((contrib_no, 0, 0));
        let last = Bound::Included((contrib_no, u64::MAX, u64::MAX));
        let after = after.map(|(anchor, seq)| Bound::Excluded((contrib_no, anchor, seq)));
        let places: Box<dyn Iterator<Item = _>> = match direction {
            Direction::Newer => Box::new(self.anchors.range((after.unwrap_or(first), last))),
            Direction::Older => Box::new(self.anchors.range((first, after.unwrap_or(last))).rev()),
        };
        let places = places.take(limit).map(|(c, _, seq)| (*c, *seq));
        Ok(self.facts_at(places).collect())
    }

    fn facts_by_id(&self, contrib_no: u64, hash: u64) -> Result<Vec<FactRow>, StoreError> {
        let range = (contrib_no, hash, 0)..=(contrib_no, hash, u64::MAX);
        let places = self.fact_ids.range(range).map(|(c, _, seq)| (*c, *seq));
        Ok(self.facts_at(places).collect())
    }

    fn blob(&self, sha: &Digest) -> Result<Option<BlobRow>, StoreError> {
        Ok(self.blobs.get(sha).copied())
    }

    fn blobs(&self, after: Option<&Digest>, limit: usize) -> Result<Vec<BlobRow>, StoreError> {
        let after = after.map_or(Bound::Unbounded, |sha| Bound::Excluded(*sha));
        let blobs = self.blobs.range((after, Bound::Unbounded)).take(limit);
        Ok(blobs.map(|(_, row)| *row).collect())
    }

    fn stages(&self, after: u64, limit: usize) -> Result<Vec<StageRow>, StoreError> {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let stages = self.stages.range(range).take(limit);
        Ok(stages.map(|(_, row)| *row).collect())
    }

    fn piece(&self, blob_no: u64, piece: u32) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self
            .pieces
            .get(&(blob_no, piece))
            .map(|bytes| bytes.to_vec()))
    }

    fn is_cited(&self, sha: &Digest) -> Result<bool, StoreError> {
        let mut cited = self.cited.range((*sha, 0, 0)..=(*sha, u64::MAX, u64::MAX));
        Ok(cited.next().is_some())
    }

    fn citations(
        &self,
        log_no: u64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Digest)>, StoreError> {
        let range = (log_no, from, [0; 32])..=(log_no, u64::MAX, [u8::MAX; 32]);
        let cited = self.citations.range(range).take(limit);
        Ok(cited.map(|(_, ordinal, sha)| (*ordinal, *sha)).collect())
    }

    fn view(&self, name: &str) -> Result<Option<ViewRow>, StoreError> {
        Ok(self.views.get(name).cloned())
    }

    fn view_value(&self, view_no: u64, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let entry = self.entries.get(&(view_no, key.into()));
        Ok(entry.map(|(_, value)| value.to_vec()))
    }

    fn view_entries(
        &self,
        view_no: u64,
        from: &[u8],
        to: Option<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<ViewEntry>, StoreError> {
        let from = (view_no, Arc::from(from));
        let to = match to {
            Some(to) => (view_no, Arc::from(to)),
            None => (view_no + 1, Arc::from(&[][..])),
        };
        if from >= to {
            return Ok(Vec::new());
        }
        let entries = walk(&self.entries, from..to, direction).take(limit);
        Ok(entries
            .map(|((_, key), (_, value))| (key.to_vec(), value.to_vec()))
            .collect())
    }

    fn view_mark(&self, view_no: u64, log_no: u64) -> Result<u64, StoreError> {
        Ok(self.marks.get(&(log_no, view_no)).copied().unwrap_or(0))
    }

    fn scrubs(&self) -> Result<Vec<ScrubRow>, StoreError> {
        Ok(self.scrubs.values().copied().collect())
    }
}
