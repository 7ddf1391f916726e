//! Reading items: a bounded number of index rows, then exactly the events
//! that they need, from one snapshot.

use crate::engine::Snapshot;
use crate::error::quoted;
use crate::line::{LAST_SLOT, Line, first_at, last_at};
use crate::plan::{preparing, rejected, run_of, session_line};
use crate::port::{ItemPage, ItemQuery, LoadedItem, ReadStats, SessionInfo, Start, StoredEvent};
use crate::rows::{EventRow, FoundEvent, LogRow, RunRow, SessionRow};
use crate::{ErrorKind, StoreError};
use folio_codec::hash64;
use folio_core::item::{LanePart, Position};
use folio_core::{Authority, Direction, Item, PROJECTION_VERSION, Spine, key};
use std::sync::Arc;

/// Needed events this close together are read as one range.
const NEAR: u64 = 4;

/// Reads items of one snapshot.
pub(crate) fn read_items(
    snapshot: &dyn Snapshot,
    id: &str,
    query: &ItemQuery,
) -> Result<ItemPage, StoreError> {
    let (session, line) = readable(snapshot, id)?;
    let log = &line.log;
    let through = query.through.unwrap_or(log.head);
    if through > log.head {
        let message = format!(
            "session {id} has {} events; there is no {through}",
            log.head
        );
        return Err(StoreError::invalid("watermark_unknown", message).at(vec![log.head]));
    }
    let (index_head, version) = line.index_state(through)?;
    if version != PROJECTION_VERSION || index_head < through {
        return Err(index_stale(&line, id, through)?);
    }
    let mut reader = Reader {
        line: &line,
        log,
        through,
        stats: ReadStats::default(),
        runs: Vec::new(),
    };
    let (found, more, before) = reader.locate(query)?;
    let items = reader.load(found, query.max_bytes)?;
    let (items, cut) = items;
    let stats = reader.stats;
    let more = more || cut;
    Ok(ItemPage {
        session: info(&session, &line)?,
        through,
        items,
        more,
        before,
        stats,
    })
}

/// The index falls short of a watermark.
pub(crate) fn index_stale(
    line: &Line<'_>,
    id: &str,
    through: u64,
) -> Result<StoreError, StoreError> {
    let (index_head, version) = line.index_state(through)?;
    let message = format!(
        "the index of session {id} is at {index_head} of {through} (version {version}): rebuild it"
    );
    let error = StoreError::new(ErrorKind::Unavailable, "index_stale", message);
    Ok(error.at(vec![index_head, through]))
}

/// A session that may be read, and what it is read through.
pub(crate) fn readable<'a>(
    snapshot: &'a dyn Snapshot,
    id: &str,
) -> Result<(SessionRow, Line<'a>), StoreError> {
    let (session, line) = session_line(snapshot, id)?;
    match session.authority {
        Authority::RuntimeEvents => Ok((session, line)),
        Authority::Preparing => Err(preparing(id)),
        Authority::Rejected => Err(rejected(id)),
    }
}

/// A session as callers see it.
pub(crate) fn info(session: &SessionRow, line: &Line<'_>) -> Result<SessionInfo, StoreError> {
    let log = &line.log;
    let parent = match log.base {
        0 => None,
        base => line.snapshot().session_of_log(line.log_of(base))?,
    };
    Ok(SessionInfo {
        id: session.session_id.clone(),
        incarnation: session.incarnation,
        generation: session.generation,
        authority: session.authority,
        authority_rev: session.authority_rev,
        followed: session.followed,
        import_ref: session.import_ref.clone(),
        created_at: session.created_at,
        head: log.head,
        chain: log.chain,
        items: log.items,
        inherited: log.base,
        forked_from: parent.map(|parent| parent.session_id),
    })
}

/// An event row with the ids of its run.
pub(crate) fn stored(row: EventRow, spine: &Arc<Spine>) -> StoredEvent {
    StoredEvent {
        ordinal: row.ordinal,
        event_seq: row.run_seq,
        run_no: row.run_no,
        spine: Arc::clone(spine),
        committed_at: row.committed_at,
        chain: row.chain,
        form: row.form,
        body: row.body,
    }
}

struct Reader<'a> {
    line: &'a Line<'a>,
    log: &'a LogRow,
    through: u64,
    stats: ReadStats,
    /// The few runs of a page, the last one used at the end.
    runs: Vec<(Arc<RunRow>, Arc<Spine>)>,
}

impl Reader<'_> {
    fn last_position(&self) -> Position {
        last_at(self.through)
    }

    /// Items from a position on that exist at the watermark. Items are numbered
    /// without gaps, so a lost or misplaced index row shows: between two rows,
    /// and at the ends of the index, whose numbers are known.
    fn items(
        &mut self,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let from = match direction {
            Direction::Older => from.min(self.last_position()),
            Direction::Newer => from,
        };
        let mut items = self.line.items(from, direction, limit)?;
        self.stats.items += items.len() as u64;
        let follows = |a: &Item, b: &Item| match direction {
            Direction::Older => a.number == b.number + 1,
            Direction::Newer => a.number + 1 == b.number,
        };
        let consecutive = items
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if follows(a, b)));
        let end = match direction {
            Direction::Older => 1,
            Direction::Newer => self.log.items,
        };
        let ends = items.len() == limit || items.last().is_none_or(|item| item.number == end);
        if !consecutive || !ends {
            return Err(self.lost_rows());
        }
        items.retain(|item| item.position.ordinal <= self.through);
        Ok(items)
    }

    fn lost_rows(&self) -> StoreError {
        let message = format!(
            "index {} of log {} has lost or misplaced rows: rebuild it",
            self.log.index_no, self.log.log_no
        );
        StoreError::corrupt("index_damaged", message)
    }

    /// The items of the page, whether more follow, and whether any lie before
    /// the first.
    fn locate(&mut self, query: &ItemQuery) -> Result<(Vec<Item>, bool, bool), StoreError> {
        let direction = query.direction;
        let first = first_at(0);
        let edge = match direction {
            Direction::Older => self.last_position(),
            Direction::Newer => first,
        };
        if let Start::Behind(position) = &query.start
            && position.ordinal > self.through
        {
            let message = format!(
                "there is no item at ordinal {} of watermark {}",
                position.ordinal, self.through
            );
            return Err(StoreError::invalid("watermark_unknown", message).at(vec![self.through]));
        }
        let (from, skip) = match &query.start {
            Start::Edge => (edge, None),
            Start::Behind(position) => (*position, Some(*position)),
            Start::At(position) => (*position, None),
            Start::AtOrdinal(ordinal) => {
                let slot = if direction == Direction::Older {
                    LAST_SLOT
                } else {
                    0
                };
                (
                    Position {
                        ordinal: *ordinal,
                        slot,
                    },
                    None,
                )
            }
            Start::Key(key) => (self.position_of(key)?, None),
        };
        // One more tells whether anything follows, one more the item behind
        // which the page begins.
        let want = query
            .max_items
            .saturating_add(1 + usize::from(skip.is_some()));
        let mut items = self.items(from, direction, want)?;
        self.check_start(items.first(), query, skip)?;
        if skip.is_some() && items.first().map(|item| item.position) == skip {
            items.remove(0);
        }
        let more = items.len() > query.max_items;
        items.truncate(query.max_items);
        let before = match &query.start {
            Start::Edge => false,
            Start::Behind(_) => true,
            Start::At(_) | Start::AtOrdinal(_) | Start::Key(_) => {
                let at = items.first().map(|item| item.position);
                let others = self.items(at.unwrap_or(from), direction.opposite(), 2)?;
                others.iter().any(|item| Some(item.position) != at)
            }
        };
        Ok((items, more, before))
    }

    fn position_of(&self, wanted: &str) -> Result<Position, StoreError> {
        let base = key::split(wanted).0;
        let found = self.line.items_by_hash(hash64(base.as_bytes()))?;
        found
            .into_iter()
            .find(|item| &*item.key == wanted && item.position.ordinal <= self.through)
            .map(|item| item.position)
            .ok_or_else(|| {
                let wanted = quoted(wanted);
                let message = format!("no item {wanted} at watermark {}", self.through);
                StoreError::new(ErrorKind::NotFound, "item_not_found", message)
            })
    }

    /// What the beginning of a page must be, where it is known.
    fn check_start(
        &mut self,
        first: Option<&Item>,
        query: &ItemQuery,
        skip: Option<Position>,
    ) -> Result<(), StoreError> {
        let number = first.map_or(0, |item| item.number);
        let right = match (&query.start, query.direction) {
            (Start::Edge, Direction::Older) => {
                // The first item beyond the watermark has the next number.
                let beyond = first_at(self.through + 1);
                let after = if self.through < self.log.head {
                    self.line.items(beyond, Direction::Newer, 1)?
                } else {
                    Vec::new()
                };
                self.stats.items += after.len() as u64;
                let next = after.first().map_or(self.log.items + 1, |item| item.number);
                number + 1 == next
            }
            (Start::Edge, Direction::Newer) => match first {
                Some(item) => item.number == 1,
                // Nothing at this watermark: whatever there is comes later.
                None => self.through < self.log.head || self.log.items == 0,
            },
            (Start::Behind(_), _) => first.map(|item| item.position) == skip,
            _ => true,
        };
        if right { Ok(()) } else { Err(self.lost_rows()) }
    }

    /// Loads what items need until a budget is spent; answers whether some
    /// were left.
    fn load(
        &mut self,
        items: Vec<Item>,
        max_bytes: usize,
    ) -> Result<(Vec<LoadedItem>, bool), StoreError> {
        let mut chosen = Vec::new();
        let mut spent = 0_u64;
        let total = items.len();
        for item in items {
            // A stream that goes on weighs what its chunks hold.
            let bytes = item.weight.saturating_add(self.lane_bytes(&item)?);
            if !chosen.is_empty() && spent.saturating_add(bytes) > max_bytes as u64 {
                break;
            }
            spent = spent.saturating_add(bytes);
            let mut lanes = Vec::new();
            let mut last_chunk = None;
            for lane in item.open_lanes(self.through) {
                let ordinals = self.chunk_ordinals(&item, lane)?;
                last_chunk = last_chunk.max(ordinals.last().copied());
                lanes.push((lane, ordinals));
            }
            let own = item.ordinals(self.through);
            chosen.push((item, own, lanes, last_chunk));
        }
        let cut = chosen.len() < total;
        let mut ordinals: Vec<u64> = chosen
            .iter()
            .flat_map(|(_, own, lanes, _)| {
                let chunks = lanes.iter().flat_map(|(_, ordinals)| ordinals);
                own.iter().chain(chunks).copied()
            })
            .collect();
        ordinals.sort_unstable();
        self.learn_runs(chosen.iter().map(|(item, ..)| item.run_no))?;
        let mut events = self.events(&ordinals)?;
        let mut loaded = Vec::with_capacity(chosen.len());
        for (item, own, lanes, last_chunk) in chosen {
            let mut damaged = Vec::new();
            let mut take = |ordinals: Vec<u64>| -> Vec<StoredEvent> {
                let take = ordinals.into_iter().filter_map(|ordinal| {
                    let event = events.take(ordinal);
                    if event.is_none() {
                        damaged.push(ordinal);
                    }
                    event
                });
                take.collect()
            };
            let own = take(own);
            let chunks = lanes
                .into_iter()
                .map(|(lane, ordinals)| (lane, take(ordinals)))
                .collect();
            let (run, _) = self.run(item.run_no)?;
            let revision = item.revision_at(self.through, last_chunk);
            loaded.push(LoadedItem {
                item,
                revision,
                run,
                events: own,
                chunks,
                damaged,
            });
        }
        Ok((loaded, cut))
    }

    /// How much text an item's open lanes hold.
    fn lane_bytes(&self, item: &Item) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for lane in item.open_lanes(self.through) {
            let last = self.line.last_seg(item.position, lane, self.through)?;
            bytes += last.map_or(0, |seg| seg.before + seg.bytes);
        }
        Ok(bytes)
    }

    fn chunk_ordinals(&self, item: &Item, lane: LanePart) -> Result<Vec<u64>, StoreError> {
        const SLICE: usize = 1_024;
        let mut ordinals = Vec::new();
        let mut from = 0;
        loop {
            let segs = self
                .line
                .segs(item.position, lane, from, self.through, SLICE)?;
            let full = segs.len() == SLICE;
            ordinals.extend(segs.iter().map(|seg| seg.seg));
            match segs.last() {
                Some(last) if full => from = last.last + 1,
                _ => return Ok(ordinals),
            }
        }
    }

    /// Reads the runs of some items at once, where they lie close together.
    fn learn_runs(&mut self, wanted: impl Iterator<Item = u32>) -> Result<(), StoreError> {
        let mut wanted: Vec<u32> = wanted.collect();
        wanted.sort_unstable();
        wanted.dedup();
        let ([first, .., last], count) = (wanted.as_slice(), wanted.len()) else {
            return Ok(());
        };
        let span = usize::try_from(last - first)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        if span > count.saturating_mul(2) {
            return Ok(());
        }
        for run in self.line.runs(first.saturating_sub(1), span)? {
            let spine = Arc::new(run.spine.clone());
            self.runs.push((Arc::new(run), spine));
        }
        Ok(())
    }

    /// A run, and its ids as every one of its events shares them.
    fn run(&mut self, run_no: u32) -> Result<(Arc<RunRow>, Arc<Spine>), StoreError> {
        let known = self.runs.iter().rev().find(|(run, _)| run.run_no == run_no);
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let run = run_of(self.line, run_no)?;
        let spine = Arc::new(run.spine.clone());
        let known = (Arc::new(run), spine);
        self.runs.push(known.clone());
        Ok(known)
    }

    /// The whole events among some sorted ordinals, which may repeat, read as
    /// few ranges.
    fn events(&mut self, ordinals: &[u64]) -> Result<Pool, StoreError> {
        let mut pool = Pool(Vec::with_capacity(ordinals.len()));
        let mut last_run: Option<(u32, Arc<Spine>)> = None;
        let mut rest = ordinals;
        while let [first, ..] = rest {
            let near = rest
                .windows(2)
                .take_while(|pair| pair[1] - pair[0] <= NEAR)
                .count()
                + 1;
            let (range, after) = rest.split_at(near);
            let last = range.last().unwrap_or(first);
            let limit = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
            let found = self.line.events(*first, *last, limit, usize::MAX)?;
            let mut wanted = range;
            for found in found {
                let ordinal = found.ordinal();
                let passed = wanted
                    .iter()
                    .take_while(|wanted| **wanted < ordinal)
                    .count();
                wanted = wanted.get(passed..).unwrap_or_default();
                let uses = wanted
                    .iter()
                    .take_while(|wanted| **wanted == ordinal)
                    .count();
                let FoundEvent::Whole(row) = found else {
                    continue;
                };
                self.stats.events += 1;
                self.stats.bytes += row.body.len() as u64;
                if uses > 0 {
                    let spine = match &last_run {
                        Some((run_no, spine)) if *run_no == row.run_no => Arc::clone(spine),
                        _ => self.run(row.run_no)?.1,
                    };
                    last_run = Some((row.run_no, Arc::clone(&spine)));
                    pool.0.push((ordinal, uses, Some(stored(row, &spine))));
                }
            }
            rest = after;
        }
        Ok(pool)
    }
}

/// Events on their way to the items that need them: ordinal, how many still
/// need it, and the event. The last one to need an event gets it.
struct Pool(Vec<(u64, usize, Option<StoredEvent>)>);

impl Pool {
    fn take(&mut self, ordinal: u64) -> Option<StoredEvent> {
        let at = self
            .0
            .binary_search_by_key(&ordinal, |(ordinal, ..)| *ordinal);
        let (_, uses, event) = self.0.get_mut(at.ok()?)?;
        *uses -= 1;
        if *uses == 0 {
            event.take()
        } else {
            event.clone()
        }
    }
}
