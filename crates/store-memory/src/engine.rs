//! The tables as persistent ordered maps: a clone shares its nodes, so a
//! writer changes a clone and publishes it whole, and readers keep the state
//! they began with.

use folio_codec::hash64;
use folio_core::item::{LanePart, Position};
use folio_core::{Direction, Item};
use folio_store::StoreError;
use folio_store::engine::{
    Capabilities, Counters, Engine, ReadWork, Snapshot, WriteTxn, WriteWork, Writes,
};
use folio_store::rows::{
    ContribLogRow, EventRow, FactRow, FoundEvent, LogRow, RunRow, SegRow, SessionRow,
};
use imbl::{OrdMap, OrdSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The engine of [`MemoryStore`](crate::MemoryStore).
#[derive(Debug, Default)]
pub struct MemoryEngine {
    tables: RwLock<Tables>,
    /// One writer at a time.
    writing: Mutex<()>,
}

type ItemKey = (u64, Position);
type SegKey = (u64, Position, LanePart, u64);

/// Every table of a store, for engines that keep them in another way than
/// [`MemoryEngine`]. A clone is cheap and keeps the state it was made of.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    counters: Counters,
    sessions: OrdMap<String, SessionRow>,
    logs: OrdMap<u64, Arc<Log>>,
}

#[derive(Debug, Clone, Default)]
struct Log {
    row: Option<LogRow>,
    events: OrdMap<u64, EventRow>,
    ids: OrdSet<(u64, u64)>,
    runs: OrdMap<u32, RunRow>,
    run_ids: OrdMap<String, u32>,
    invocations: OrdMap<String, u32>,
    turns: OrdSet<(String, u32)>,
    items: OrdMap<ItemKey, Item>,
    item_hashes: OrdSet<(u64, u64, Position)>,
    segs: OrdMap<SegKey, SegRow>,
    contribs: OrdMap<String, ContribLogRow>,
    facts: OrdMap<(u64, u64), FactRow>,
    anchors: OrdSet<(u64, u64, u64)>,
    fact_ids: OrdSet<(u64, u64, u64)>,
}

impl Tables {
    fn of_log(&self, log_no: u64) -> Option<&Log> {
        self.logs.get(&log_no).map(|log| &**log)
    }

    /// The log whose live or coming index has this number.
    fn of_index(&self, index_no: u64) -> Option<&Log> {
        self.logs
            .values()
            .map(|log| &**log)
            .find(|log| log.row.as_ref().is_some_and(|row| row.index_no == index_no))
    }

    fn of_contrib(&self, contrib_no: u64) -> Option<&Log> {
        self.logs.values().map(|log| &**log).find(|log| {
            log.contribs
                .values()
                .any(|contrib| contrib.contrib_no == contrib_no)
        })
    }
}

/// A range of an ordered map from a key on, in a direction.
fn walk<'a, K: Ord + Clone + 'a, V: Clone>(
    map: &'a OrdMap<K, V>,
    from: K,
    direction: Direction,
) -> Box<dyn Iterator<Item = (&'a K, &'a V)> + 'a> {
    match direction {
        Direction::Newer => Box::new(map.range(from..)),
        Direction::Older => Box::new(map.range(..=from).rev()),
    }
}

impl Snapshot for Tables {
    fn counters(&self) -> Result<Counters, StoreError> {
        Ok(self.counters)
    }

    fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        Ok(self.sessions.get(id).cloned())
    }

    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<SessionRow>, StoreError> {
        let after = after.unwrap_or_default().to_owned();
        let later = self
            .sessions
            .range(after.clone()..)
            .filter(|(id, _)| **id != after);
        Ok(later.take(limit).map(|(_, row)| row.clone()).collect())
    }

    fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError> {
        Ok(self.of_log(log_no).and_then(|log| log.row.clone()))
    }

    fn event_ids(&self, family: u64, hash: u64) -> Result<Vec<u64>, StoreError> {
        let log = self.of_log(family);
        Ok(log.map_or_else(Vec::new, |log| {
            log.ids
                .range((hash, 0)..=(hash, u64::MAX))
                .map(|(_, ordinal)| *ordinal)
                .collect()
        }))
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
        if let Some(log) = self.of_log(log_no).filter(|_| from <= to) {
            for row in log.events.range(from..=to).map(|(_, row)| row).take(limit) {
                bytes = bytes.saturating_add(row.body.len());
                if bytes > max_bytes && !out.is_empty() {
                    break;
                }
                out.push(FoundEvent::Whole(row.clone()));
            }
        }
        Ok(out)
    }

    fn run(&self, log_no: u64, run_no: u32) -> Result<Option<RunRow>, StoreError> {
        Ok(self
            .of_log(log_no)
            .and_then(|log| log.runs.get(&run_no).cloned()))
    }

    fn runs(&self, log_no: u64, after: u32, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        let log = self.of_log(log_no);
        Ok(log.map_or_else(Vec::new, |log| {
            log.runs
                .range(after.saturating_add(1)..)
                .take(limit)
                .map(|(_, run)| run.clone())
                .collect()
        }))
    }

    fn run_by_id(&self, log_no: u64, run_id: &str) -> Result<Option<RunRow>, StoreError> {
        let log = self.of_log(log_no);
        Ok(log.and_then(|log| log.runs.get(log.run_ids.get(run_id)?).cloned()))
    }

    fn run_by_invocation(&self, log_no: u64, id: &str) -> Result<Option<RunRow>, StoreError> {
        let log = self.of_log(log_no);
        Ok(log.and_then(|log| log.runs.get(log.invocations.get(id)?).cloned()))
    }

    fn last_run_of_turn(
        &self,
        log_no: u64,
        turn_id: &str,
        before: u32,
    ) -> Result<Option<RunRow>, StoreError> {
        let Some(log) = self.of_log(log_no) else {
            return Ok(None);
        };
        let range = (turn_id.to_owned(), 0)..(turn_id.to_owned(), before);
        let last = log.turns.range(range).next_back();
        Ok(last.and_then(|(_, run_no)| log.runs.get(run_no).cloned()))
    }

    fn items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let Some(log) = self.of_index(index_no) else {
            return Ok(Vec::new());
        };
        let mine = walk(&log.items, (index_no, from), direction)
            .take_while(|((index, _), _)| *index == index_no);
        Ok(mine.take(limit).map(|(_, item)| item.clone()).collect())
    }

    fn items_by_hash(&self, index_no: u64, hash: u64) -> Result<Vec<Item>, StoreError> {
        let Some(log) = self.of_index(index_no) else {
            return Ok(Vec::new());
        };
        let first = Position {
            ordinal: 0,
            slot: 0,
        };
        let last = Position {
            ordinal: u64::MAX,
            slot: u8::MAX,
        };
        let found = log
            .item_hashes
            .range((index_no, hash, first)..=(index_no, hash, last));
        Ok(found
            .filter_map(|(index, _, at)| log.items.get(&(*index, *at)).cloned())
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
        let Some(log) = self.of_index(index_no).filter(|_| from <= through) else {
            return Ok(Vec::new());
        };
        let range = (index_no, position, lane, from)..=(index_no, position, lane, through);
        Ok(log
            .segs
            .range(range)
            .take(limit)
            .map(|(_, seg)| *seg)
            .collect())
    }

    fn last_seg(
        &self,
        index_no: u64,
        position: Position,
        lane: LanePart,
        through: u64,
    ) -> Result<Option<SegRow>, StoreError> {
        let Some(log) = self.of_index(index_no) else {
            return Ok(None);
        };
        let range = (index_no, position, lane, 0)..=(index_no, position, lane, through);
        Ok(log.segs.range(range).next_back().map(|(_, seg)| *seg))
    }

    fn contrib_log(&self, log_no: u64, source: &str) -> Result<Option<ContribLogRow>, StoreError> {
        Ok(self
            .of_log(log_no)
            .and_then(|log| log.contribs.get(source).cloned()))
    }

    fn contrib_logs(&self, log_no: u64) -> Result<Vec<ContribLogRow>, StoreError> {
        let log = self.of_log(log_no);
        Ok(log.map_or_else(Vec::new, |log| log.contribs.values().cloned().collect()))
    }

    fn facts(&self, contrib_no: u64, from: u64, limit: usize) -> Result<Vec<FactRow>, StoreError> {
        let Some(log) = self.of_contrib(contrib_no) else {
            return Ok(Vec::new());
        };
        let range = (contrib_no, from)..=(contrib_no, u64::MAX);
        Ok(log
            .facts
            .range(range)
            .take(limit)
            .map(|(_, fact)| fact.clone())
            .collect())
    }

    fn facts_by_anchor(
        &self,
        contrib_no: u64,
        after: Option<(u64, u64)>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<FactRow>, StoreError> {
        let Some(log) = self.of_contrib(contrib_no) else {
            return Ok(Vec::new());
        };
        let (low, high) = ((contrib_no, 0, 0), (contrib_no, u64::MAX, u64::MAX));
        let places: Vec<_> = match (direction, after) {
            (Direction::Newer, after) => {
                let from = after.map_or(low, |(anchor, seq)| (contrib_no, anchor, seq + 1));
                log.anchors.range(from..=high).take(limit).collect()
            }
            (Direction::Older, None) => log.anchors.range(low..=high).rev().take(limit).collect(),
            (Direction::Older, Some((anchor, seq))) => log
                .anchors
                .range(low..(contrib_no, anchor, seq))
                .rev()
                .take(limit)
                .collect(),
        };
        Ok(places
            .iter()
            .filter_map(|(c, _, seq)| log.facts.get(&(*c, *seq)).cloned())
            .collect())
    }

    fn facts_by_id(&self, contrib_no: u64, hash: u64) -> Result<Vec<FactRow>, StoreError> {
        let Some(log) = self.of_contrib(contrib_no) else {
            return Ok(Vec::new());
        };
        let range = (contrib_no, hash, 0)..=(contrib_no, hash, u64::MAX);
        let found = log.fact_ids.range(range);
        Ok(found
            .filter_map(|(c, _, seq)| log.facts.get(&(*c, *seq)).cloned())
            .collect())
    }
}

impl WriteTxn for Tables {
    fn apply(&mut self, writes: &Writes) -> Result<(), StoreError> {
        if let Some(counters) = writes.counters {
            self.counters = counters;
        }
        if let Some(session) = &writes.session {
            let id = session.session_id.as_str().to_owned();
            self.sessions.insert(id, session.clone());
        }
        let log_no = writes
            .log
            .as_ref()
            .map(|log| log.log_no)
            .or_else(|| writes.contrib_log.as_ref().map(|log| log.log_no));
        if let Some(log_no) = log_no {
            let log = Arc::make_mut(self.logs.entry(log_no).or_default());
            log.write(writes);
        }
        if let Some(session) = &writes.drop_session {
            self.sessions.remove(session.session_id.as_str());
            self.logs.remove(&session.log_no);
        }
        Ok(())
    }
}

impl Log {
    fn write(&mut self, writes: &Writes) {
        if let Some(row) = &writes.log {
            self.row = Some(row.clone());
        }
        for run in &writes.runs {
            self.run_ids
                .insert(run.spine.run_id.as_str().to_owned(), run.run_no);
            self.invocations
                .insert(run.spine.invocation_id.as_str().to_owned(), run.run_no);
            self.turns
                .insert((run.spine.turn_id.as_str().to_owned(), run.run_no));
            self.runs.insert(run.run_no, run.clone());
        }
        for (event, hash) in &writes.events {
            self.ids.insert((*hash, event.ordinal));
            self.events.insert(event.ordinal, event.clone());
        }
        let index_no = self.row.as_ref().map_or(0, |row| row.index_no);
        for write in &writes.items {
            let item = &write.item;
            if write.is_new {
                let hash = hash64(item.base().as_bytes());
                self.item_hashes.insert((index_no, hash, item.position));
            }
            self.items.insert((index_no, item.position), item.clone());
        }
        for seg in &writes.segs {
            self.segs
                .insert((index_no, seg.position, seg.lane, seg.seg), *seg);
        }
        if let Some(contrib) = &writes.contrib_log {
            let contrib_no = contrib.contrib_no;
            self.contribs
                .insert(contrib.source.clone(), contrib.clone());
            for fact in &writes.facts {
                let hash = hash64(fact.id.as_bytes());
                self.anchors.insert((contrib_no, fact.anchor, fact.seq));
                self.fact_ids.insert((contrib_no, hash, fact.seq));
                self.facts.insert((contrib_no, fact.seq), fact.clone());
            }
        }
        if let Some(index_no) = writes.drop_index {
            self.items = self
                .items
                .iter()
                .filter(|((index, _), _)| *index != index_no)
                .map(|(key, item)| (*key, item.clone()))
                .collect();
            self.item_hashes = self
                .item_hashes
                .iter()
                .filter(|(index, ..)| *index != index_no)
                .copied()
                .collect();
            self.segs = self
                .segs
                .iter()
                .filter(|((index, ..), _)| *index != index_no)
                .map(|(key, seg)| (*key, *seg))
                .collect();
        }
    }
}

impl Engine for MemoryEngine {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        let tables = self
            .tables
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        work(&tables)
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables = self
            .tables
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        work(&mut tables)?;
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = tables;
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn now(&self) -> u64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u64 {
        // Without the system's randomness incarnations still differ in time.
        getrandom::u64().unwrap_or_else(|_| self.now())
    }

    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
