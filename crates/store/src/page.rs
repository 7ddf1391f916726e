//! Reading items: a bounded number of index rows, then exactly the events
//! that they need, from one snapshot.

use crate::engine::Snapshot;
use crate::error::quoted;
use crate::line::{LAST_SLOT, Line, first_at, last_at};
use crate::member::Members;
use crate::packed::{Chosen, Items, Packed, Pool, Runs};
use crate::plan::{preparing, rejected, run_of, session_line};
use crate::port::{ItemQuery, ReadStats, SessionInfo, Start, StoredEvent};
use crate::rows::{EventRow, LogRow, SessionRow};
use crate::scan::{ItemScan, Scanned};
use crate::{ErrorKind, StoreError};
use folio_codec::hash64;
use folio_core::item::{LanePart, Position};
use folio_core::{Authority, Direction, ItemRef, PROJECTION_VERSION, Spine, key};
use std::ops::Range;
use std::sync::Arc;

/// Needed events this close together are read as one range.
const NEAR: u64 = 8;
/// The most bytes for which room is made before the events are read.
const RESERVED: usize = 1 << 20;

/// Gathers the items of a query, and what they are made of, from one snapshot.
pub(crate) fn gather(
    snapshot: &dyn Snapshot,
    id: &str,
    query: &ItemQuery,
) -> Result<ItemScan, StoreError> {
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
    };
    let (items, range, more, before) = reader.locate(query)?;
    let (chosen, ordinals, spent) = reader.choose(&items, range.clone(), query.max_bytes)?;
    let mut runs = Runs::default();
    runs.learn(&line, chosen.iter().map(|chosen| chosen.run_no))?;
    let pool = reader.events(&chosen, &ordinals, spent)?;
    let members = reader.members(&items, &chosen, &pool, query.member_bytes)?;
    // The events of a run stand together.
    let mut last = None;
    for event in &pool.events {
        if last.replace(event.run_no) != Some(event.run_no) {
            runs.need(&line, event.run_no)?;
        }
    }
    for chosen in &chosen {
        runs.need(&line, chosen.run_no)?;
    }
    Ok(ItemScan {
        session: info(&session, &line)?,
        through,
        more: more || chosen.len() < range.len(),
        before,
        stats: reader.stats,
        items: Scanned::Packed(Packed {
            items,
            chosen,
            ordinals,
            pool,
            members,
            runs,
        }),
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
        chain: Some(row.chain),
        form: row.form,
        body: row.body,
    }
}

impl Runs {
    /// Reads runs at once, where they lie close together.
    fn learn(
        &mut self,
        line: &Line<'_>,
        wanted: impl Iterator<Item = u32>,
    ) -> Result<(), StoreError> {
        let mut wanted: Vec<u32> = wanted.collect();
        wanted.sort_unstable();
        wanted.dedup();
        let ([first, .., last], count) = (wanted.as_slice(), wanted.len()) else {
            return Ok(());
        };
        let span = usize::try_from(last - first)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        if span <= count.saturating_mul(2) {
            self.0 = line.runs(first.saturating_sub(1), span)?;
        }
        Ok(())
    }

    /// Reads a run that is not there yet.
    fn need(&mut self, line: &Line<'_>, run_no: u32) -> Result<(), StoreError> {
        if let Err(at) = self.0.binary_search_by_key(&run_no, |run| run.run_no) {
            self.0.insert(at, run_of(line, run_no)?);
        }
        Ok(())
    }
}

struct Reader<'a> {
    line: &'a Line<'a>,
    log: &'a LogRow,
    through: u64,
    stats: ReadStats,
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
    ) -> Result<Items, StoreError> {
        let from = match direction {
            Direction::Older => from.min(self.last_position()),
            Direction::Newer => from,
        };
        let mut items = Items::with_capacity(limit);
        let mut consecutive = true;
        let mut count = 0;
        let mut last: Option<u64> = None;
        let through = self.through;
        self.line.visit_items(from, direction, limit, &mut |item| {
            consecutive &= last.is_none_or(|last| match direction {
                Direction::Older => last == item.number + 1,
                Direction::Newer => last + 1 == item.number,
            });
            last = Some(item.number);
            count += 1;
            if item.position.ordinal <= through {
                items.push(item);
            }
        })?;
        self.stats.items += count as u64;
        let end = match direction {
            Direction::Older => 1,
            Direction::Newer => self.log.items,
        };
        let ends = count == limit || last.is_none_or(|last| last == end);
        if !consecutive || !ends {
            return Err(self.lost_rows());
        }
        Ok(items)
    }

    fn lost_rows(&self) -> StoreError {
        let message = format!(
            "index {} of log {} has lost or misplaced rows: rebuild it",
            self.log.index_no, self.log.log_no
        );
        StoreError::corrupt("index_damaged", message)
    }

    /// The items read, which of them are those of the page, whether more
    /// follow, and whether any lie before the first.
    fn locate(
        &mut self,
        query: &ItemQuery,
    ) -> Result<(Items, Range<usize>, bool, bool), StoreError> {
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
        let items = self.items(from, direction, want)?;
        self.check_start(items.get(0), query, skip)?;
        let first = usize::from(skip.is_some() && items.position(0) == skip);
        let end = items.rows.len().min(first.saturating_add(query.max_items));
        let more = items.rows.len() > end;
        let before = match &query.start {
            Start::Edge => false,
            Start::Behind(_) => true,
            Start::At(_) | Start::AtOrdinal(_) | Start::Key(_) => {
                let at = items.position(first);
                let others = self.items(at.unwrap_or(from), direction.opposite(), 2)?;
                others.iter().any(|item| Some(item.position) != at)
            }
        };
        Ok((items, first..end, more, before))
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
        first: Option<ItemRef<'_>>,
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

    /// Takes items until a budget is spent: the first one in any case. Answers
    /// them, the ordinals of their events, and what was spent.
    fn choose(
        &self,
        items: &Items,
        range: Range<usize>,
        max_bytes: usize,
    ) -> Result<(Vec<Chosen>, Vec<u64>, u64), StoreError> {
        let mut chosen = Vec::with_capacity(range.len());
        let mut ordinals = Vec::with_capacity(range.len());
        let mut spent = 0_u64;
        for at in range {
            let Some(item) = items.get(at) else { break };
            let open = item.open_lanes(self.through);
            let mut bytes = item.weight;
            for lane in &open {
                // A stream that goes on weighs what its chunks hold.
                let last = self.line.last_seg(item.position, *lane, self.through)?;
                bytes = bytes.saturating_add(last.map_or(0, |seg| seg.before + seg.bytes));
            }
            if !chosen.is_empty() && spent.saturating_add(bytes) > max_bytes as u64 {
                break;
            }
            spent = spent.saturating_add(bytes);
            let mut lanes = Vec::new();
            for lane in open {
                lanes.push((lane, self.chunk_ordinals(&item, lane)?));
            }
            let from = ordinals.len();
            item.add_ordinals(self.through, &mut ordinals);
            chosen.push(Chosen {
                at,
                run_no: item.run_no,
                own: from..ordinals.len(),
                lanes,
            });
        }
        Ok((chosen, ordinals, spent))
    }

    fn chunk_ordinals(&self, item: &ItemRef<'_>, lane: LanePart) -> Result<Vec<u64>, StoreError> {
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

    /// The members of the chosen items that are small enough to be read along.
    fn members(
        &mut self,
        items: &Items,
        chosen: &[Chosen],
        pool: &Pool,
        max_bytes: usize,
    ) -> Result<Members, StoreError> {
        let mut members = Members::default();
        for item in chosen.iter().filter_map(|chosen| items.get(chosen.at)) {
            members.load(self.line.snapshot(), &item, self.through, pool, max_bytes)?;
        }
        self.stats.bytes += members.done();
        Ok(members)
    }

    /// The whole events of the chosen items, read as few ranges.
    fn events(
        &mut self,
        chosen: &[Chosen],
        ordinals: &[u64],
        spent: u64,
    ) -> Result<Pool, StoreError> {
        let chunks = chosen.iter().flat_map(|chosen| &chosen.lanes);
        let chunks = chunks.flat_map(|(_, ordinals)| ordinals);
        let mut wanted: Vec<u64> = ordinals.iter().chain(chunks).copied().collect();
        // Mostly one run, in the direction of the page.
        wanted.sort();
        wanted.dedup();
        let mut pool = Pool::default();
        pool.events.reserve(wanted.len());
        // Texts, and about so much beside each.
        let bodies = usize::try_from(spent).unwrap_or(usize::MAX);
        let bodies = bodies.saturating_add(wanted.len().saturating_mul(128));
        pool.bodies.reserve(bodies.min(RESERVED));
        let stats = &mut self.stats;
        let mut rest = &*wanted;
        while let [first, ..] = rest {
            let near = rest
                .windows(2)
                .take_while(|pair| pair[1] - pair[0] <= NEAR)
                .count()
                + 1;
            let (range, after) = rest.split_at(near);
            let last = range.last().unwrap_or(first);
            let mut wanted = range.iter().peekable();
            self.line.visit_events(*first, *last, &mut |event| {
                stats.events += 1;
                stats.bytes += event.body.len() as u64;
                while wanted
                    .next_if(|ordinal| **ordinal < event.ordinal)
                    .is_some()
                {}
                if wanted.peek() == Some(&&event.ordinal) {
                    pool.push(event);
                }
            })?;
            rest = after;
        }
        Ok(pool)
    }
}
