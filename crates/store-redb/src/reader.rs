//! Reads: rows of one transaction, each checked against its checksum.

use crate::error::Error;
use crate::health::Health;
use crate::pieces;
use crate::rows::{Entry, KeyOf, Mark, Row, damaged, open};
use crate::tables::{
    Bounds, Bytes, GREATEST, LEAST, Tables, collect, get, led_by, rows, visit as visit_range,
};
use folio_codec::{Digest, borrow_item, hash64};
use folio_core::item::{LanePart, Need, Position};
use folio_core::{Direction, Item, ItemRef};
use folio_store::StoreError;
use folio_store::engine::{Counters, Snapshot};
use folio_store::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRef, EventRow, FactRow, FoundEvent, FoundPack,
    IdRunRow, LogRow, RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewEntry, ViewRow,
    event_checksum, item_checksum,
};
use redb::ReadableTable;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// A transaction: what it reads is one state, and includes what it wrote.
pub struct Txn<'h, T> {
    pub(crate) tables: T,
    pub(crate) health: &'h Health,
    /// A write failed: what was written so far must not be committed.
    pub(crate) failed: bool,
}

impl<'h, T: Tables> Txn<'h, T> {
    /// A transaction over its tables.
    pub fn new(tables: T, health: &'h Health) -> Self {
        Self {
            tables,
            health,
            failed: false,
        }
    }

    /// Reads, and lets no panic out.
    fn read<O>(&self, work: impl FnOnce(&T) -> Result<O, Error>) -> Result<O, StoreError> {
        Ok(self.health.guard(|| work(&self.tables))?)
    }
}

/// The row that an entry of another table leads to; one that is gone, or is
/// another's, is damaged.
pub fn led_to<R: Row>(
    table: &impl ReadableTable<R::Key, Bytes>,
    key: KeyOf<'_, R>,
    is_it: impl FnOnce(&R) -> bool,
) -> Result<R, Error> {
    let gone = damaged::<R>(&key);
    get(table, key)?.filter(is_it).ok_or(gone)
}

/// The run that a table of ids leads to.
fn run_by(
    runs: &impl ReadableTable<(u64, u32), Bytes>,
    ids: &impl ReadableTable<(u64, &'static str, u32), Bytes>,
    (log_no, id): (u64, &str),
    before: u32,
    direction: Direction,
    id_of: impl Fn(&RunRow) -> &str,
) -> Result<Option<RunRow>, Error> {
    let bounds = (Included((log_no, id, 0)), Excluded((log_no, id, before)));
    let found = collect(ids, bounds, direction, 1, |(_, _, run_no), _| Ok(run_no))?;
    let row = found
        .first()
        .map(|run_no| led_to(runs, (log_no, *run_no), |row| id_of(row) == id));
    row.transpose()
}

/// An event, or the mark of one that is damaged.
fn event(key: (u64, u64), value: &[u8]) -> FoundEvent {
    open::<EventRow>(&key, value).map_or(FoundEvent::Damaged { ordinal: key.1 }, FoundEvent::Whole)
}

/// The same, without a copy.
fn borrowed_event((log_no, ordinal): (u64, u64), value: &[u8]) -> Option<EventRef<'_>> {
    let (sum, packed) = value.split_first_chunk::<8>()?;
    let whole = event_checksum(log_no, ordinal, packed) == u64::from_le_bytes(*sum);
    whole.then(|| EventRef::unpack(ordinal, packed)).flatten()
}

/// An item, if it is whole.
fn borrowed_item<'a>(
    (index_no, ordinal, slot): (u64, u64, u8),
    value: &'a [u8],
    need: &'a mut Vec<Need>,
) -> Option<ItemRef<'a>> {
    let (sum, packed) = value.split_first_chunk::<8>()?;
    let position = Position { ordinal, slot };
    let whole = item_checksum(index_no, position, packed) == u64::from_le_bytes(*sum);
    whole
        .then(|| borrow_item(position, packed, need).ok())
        .flatten()
}

/// The keys of items from a position on, in a direction.
fn items_from(index_no: u64, from: Position, direction: Direction) -> Bounds<(u64, u64, u8)> {
    let at = (index_no, from.ordinal, from.slot);
    match direction {
        Direction::Newer => (Included(at), Included((index_no, u64::MAX, u8::MAX))),
        Direction::Older => (Included((index_no, 0, 0)), Included(at)),
    }
}

impl<T: Tables> Snapshot for Txn<'_, T> {
    fn counters(&self) -> Result<Counters, StoreError> {
        self.read(|tables| led_to(tables.meta()?, "counters", |_| true))
    }

    fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        self.read(|tables| get(tables.sessions()?, id))
    }

    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<SessionRow>, StoreError> {
        let bounds = (after.map_or(Unbounded, Excluded), Unbounded);
        self.read(|tables| rows(tables.sessions()?, bounds, Direction::Newer, limit))
    }

    fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError> {
        self.read(|tables| get(tables.logs()?, log_no))
    }

    fn session_of_log(&self, log_no: u64) -> Result<Option<SessionRow>, StoreError> {
        self.read(|tables| {
            let (sessions, ids) = (tables.sessions()?, tables.sessions_log()?);
            let bounds = led_by::<(u64, &'static str)>(log_no);
            let found = collect(ids, bounds, Direction::Newer, 1, |(_, id), _| {
                led_to(sessions, id, |row: &SessionRow| row.log_no == log_no)
            })?;
            Ok(found.into_iter().next())
        })
    }

    fn spans(&self, log_no: u64) -> Result<Vec<SpanRow>, StoreError> {
        self.read(|tables| {
            let bounds = led_by::<(u64, u64)>(log_no);
            rows(tables.spans()?, bounds, Direction::Newer, usize::MAX)
        })
    }

    fn spans_of(&self, src: u64, limit: usize) -> Result<Vec<SpanRow>, StoreError> {
        self.read(|tables| {
            let (spans, readers) = (tables.spans()?, tables.spans_src()?);
            let bounds = led_by::<(u64, u64, u64)>(src);
            collect(readers, bounds, Direction::Older, limit, |key, _| {
                let (_, upto, log_no) = key;
                led_to(spans, (log_no, upto), |row: &SpanRow| row.src == src)
            })
        })
    }

    fn event_ids(&self, family: u64, hash: u64) -> Result<Vec<(u64, u64)>, StoreError> {
        let bounds = (
            Included((family, hash, 0, 0)),
            Included((family, hash, u64::MAX, u64::MAX)),
        );
        self.read(|tables| {
            let ids = tables.event_ids()?;
            collect(ids, bounds, Direction::Newer, usize::MAX, |key, _| {
                Ok((key.2, key.3))
            })
        })
    }

    fn events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<FoundEvent>, StoreError> {
        let mut found = Vec::new();
        if from > to || limit == 0 {
            return Ok(found);
        }
        let bounds = (Included((log_no, from)), Included((log_no, to)));
        self.read(|tables| {
            let mut bytes = 0_usize;
            visit_range(tables.events()?, bounds, Direction::Newer, |key, value| {
                let event = event(key, value);
                if let FoundEvent::Whole(row) = &event {
                    bytes = bytes.saturating_add(row.body.len());
                }
                if bytes > max_bytes && !found.is_empty() {
                    return Ok(false);
                }
                found.push(event);
                Ok(found.len() < limit)
            })?;
            Ok(found)
        })
    }

    fn journal(&self) -> Result<Option<(u64, u64)>, StoreError> {
        self.read(|tables| {
            let commits = tables.commits()?;
            let [first, last] =
                [commits.first()?, commits.last()?].map(|end| end.map(|(seq, _)| seq.value()));
            Ok(first.zip(last))
        })
    }

    fn commits(&self, after: u64) -> Result<Vec<CommitRow>, StoreError> {
        let bounds = (Excluded(after), Unbounded);
        self.read(|tables| rows(tables.commits()?, bounds, Direction::Newer, usize::MAX))
    }

    fn packs(&self, log_no: u64, from: u64, to: u64) -> Result<Vec<FoundPack>, StoreError> {
        if from > to {
            return Ok(Vec::new());
        }
        let bounds = (Included((log_no, from)), Included((log_no, to)));
        self.read(|tables| {
            let (packs, newer) = (tables.packs()?, Direction::Newer);
            collect(packs, bounds, newer, usize::MAX, |key, value| {
                let damaged = FoundPack::Damaged { first: key.1 };
                Ok(open(&key, value).map_or(damaged, FoundPack::Whole))
            })
        })
    }

    fn id_run(&self, log_no: u64, stem: &str, n: u64) -> Result<Option<IdRunRow>, StoreError> {
        let bounds = (Included((log_no, stem, 0)), Included((log_no, stem, n)));
        self.read(|tables| {
            let found = rows(tables.id_runs()?, bounds, Direction::Older, 1)?;
            Ok(found.into_iter().next())
        })
    }

    fn visit_events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(EventRef<'_>),
    ) -> Result<(), StoreError> {
        if from > to {
            return Ok(());
        }
        let bounds = (Included((log_no, from)), Included((log_no, to)));
        self.read(|tables| {
            visit_range(tables.events()?, bounds, Direction::Newer, |key, value| {
                borrowed_event(key, value).into_iter().for_each(&mut *visit);
                Ok(true)
            })
        })
    }

    fn run(&self, log_no: u64, run_no: u32) -> Result<Option<RunRow>, StoreError> {
        self.read(|tables| get(tables.runs()?, (log_no, run_no)))
    }

    fn runs(&self, log_no: u64, after: u32, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        let bounds = (Excluded((log_no, after)), Included((log_no, u32::MAX)));
        if after == u32::MAX {
            return Ok(Vec::new());
        }
        self.read(|tables| rows(tables.runs()?, bounds, Direction::Newer, limit))
    }

    fn run_by_id(&self, log_no: u64, run_id: &str) -> Result<Option<RunRow>, StoreError> {
        self.read(|tables| {
            let (runs, ids) = (tables.runs()?, tables.runs_id()?);
            run_by(
                runs,
                ids,
                (log_no, run_id),
                u32::MAX,
                Direction::Newer,
                |row| row.spine.run_id.as_str(),
            )
        })
    }

    fn run_by_invocation(&self, log_no: u64, id: &str) -> Result<Option<RunRow>, StoreError> {
        self.read(|tables| {
            let (runs, ids) = (tables.runs()?, tables.runs_inv()?);
            run_by(runs, ids, (log_no, id), u32::MAX, Direction::Newer, |row| {
                row.spine.invocation_id.as_str()
            })
        })
    }

    fn last_run_of_turn(
        &self,
        log_no: u64,
        turn_id: &str,
        before: u32,
    ) -> Result<Option<RunRow>, StoreError> {
        if before == 0 {
            return Ok(None);
        }
        self.read(|tables| {
            let (runs, ids) = (tables.runs()?, tables.runs_turn()?);
            run_by(
                runs,
                ids,
                (log_no, turn_id),
                before,
                Direction::Older,
                |row| row.spine.turn_id.as_str(),
            )
        })
    }

    fn items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let bounds = items_from(index_no, from, direction);
        self.read(|tables| rows(tables.items()?, bounds, direction, limit))
    }

    fn visit_items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
        visit: &mut dyn FnMut(ItemRef<'_>),
    ) -> Result<(), StoreError> {
        if limit == 0 {
            return Ok(());
        }
        let (mut count, mut need) = (0, Vec::new());
        self.read(|tables| {
            let bounds = items_from(index_no, from, direction);
            visit_range(tables.items()?, bounds, direction, |key, value| {
                let item = borrowed_item(key, value, &mut need);
                visit(item.ok_or_else(|| damaged::<Item>(&key))?);
                count += 1;
                Ok(count < limit)
            })
        })
    }

    fn items_by_hash(&self, index_no: u64, hash: u64) -> Result<Vec<Item>, StoreError> {
        let bounds = (
            Included((index_no, hash, 0, 0)),
            Included((index_no, hash, u64::MAX, u8::MAX)),
        );
        self.read(|tables| {
            let (items, keys) = (tables.items()?, tables.item_keys()?);
            collect(keys, bounds, Direction::Newer, usize::MAX, |key, _| {
                let (_, _, ordinal, slot) = key;
                led_to(items, (index_no, ordinal, slot), |item: &Item| {
                    hash64(item.base().as_bytes()) == hash
                })
            })
        })
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
        let bounds = (
            Included(seg_key(index_no, position, lane, from)),
            Included(seg_key(index_no, position, lane, through)),
        );
        self.read(|tables| rows(tables.item_segs()?, bounds, Direction::Newer, limit))
    }

    fn last_seg(
        &self,
        index_no: u64,
        position: Position,
        lane: LanePart,
        through: u64,
    ) -> Result<Option<SegRow>, StoreError> {
        let bounds = (
            Included(seg_key(index_no, position, lane, 0)),
            Included(seg_key(index_no, position, lane, through)),
        );
        self.read(|tables| {
            let found = rows(tables.item_segs()?, bounds, Direction::Older, 1)?;
            Ok(found.into_iter().next())
        })
    }

    fn contrib_log(&self, log_no: u64, source: &str) -> Result<Option<ContribLogRow>, StoreError> {
        self.read(|tables| get(tables.contrib_logs()?, (log_no, source)))
    }

    fn contrib_logs(&self, log_no: u64) -> Result<Vec<ContribLogRow>, StoreError> {
        self.read(|tables| {
            let bounds = led_by::<(u64, &'static str)>(log_no);
            rows(tables.contrib_logs()?, bounds, Direction::Newer, usize::MAX)
        })
    }

    fn facts(&self, contrib_no: u64, from: u64, limit: usize) -> Result<Vec<FactRow>, StoreError> {
        let bounds = (
            Included((contrib_no, from)),
            Included((contrib_no, u64::MAX)),
        );
        self.read(|tables| rows(tables.contrib_facts()?, bounds, Direction::Newer, limit))
    }

    fn facts_by_anchor(
        &self,
        contrib_no: u64,
        after: Option<(u64, u64)>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<FactRow>, StoreError> {
        let mut bounds = led_by::<(u64, u64, u64)>(contrib_no);
        if let Some((anchor, seq)) = after {
            let at = Excluded((contrib_no, anchor, seq));
            match direction {
                Direction::Newer => bounds.0 = at,
                Direction::Older => bounds.1 = at,
            }
        }
        self.read(|tables| {
            let (facts, places) = (tables.contrib_facts()?, tables.contrib_items()?);
            collect(places, bounds, direction, limit, |(_, anchor, seq), _| {
                led_to(facts, (contrib_no, seq), |row: &FactRow| {
                    row.anchor == anchor
                })
            })
        })
    }

    fn facts_by_id(&self, contrib_no: u64, hash: u64) -> Result<Vec<FactRow>, StoreError> {
        let bounds = (
            Included((contrib_no, hash, 0)),
            Included((contrib_no, hash, u64::MAX)),
        );
        self.read(|tables| {
            let (facts, ids) = (tables.contrib_facts()?, tables.contrib_ids()?);
            collect(ids, bounds, Direction::Newer, usize::MAX, |key, _| {
                led_to(facts, (contrib_no, key.2), |row: &FactRow| {
                    hash64(row.id.as_bytes()) == hash
                })
            })
        })
    }

    fn blob(&self, sha: &Digest) -> Result<Option<BlobRow>, StoreError> {
        self.read(|tables| get(tables.blobs()?, sha))
    }

    fn blobs(&self, after: Option<&Digest>, limit: usize) -> Result<Vec<BlobRow>, StoreError> {
        let bounds = (after.map_or(Unbounded, Excluded), Unbounded);
        self.read(|tables| rows(tables.blobs()?, bounds, Direction::Newer, limit))
    }

    fn stages(&self, after: u64, limit: usize) -> Result<Vec<StageRow>, StoreError> {
        let bounds = (Excluded(after), Unbounded);
        self.read(|tables| rows(tables.stages()?, bounds, Direction::Newer, limit))
    }

    fn piece(&self, blob_no: u64, piece: u32) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|tables| pieces::get(tables.pieces()?, blob_no, piece))
    }

    fn is_cited(&self, sha: &Digest) -> Result<bool, StoreError> {
        let bounds = (Included((sha, 0, 0)), Included((sha, u64::MAX, u64::MAX)));
        self.read(|tables| {
            let cited = tables.cited()?;
            let found = collect(cited, bounds, Direction::Newer, 1, |_, _| Ok(()))?;
            Ok(!found.is_empty())
        })
    }

    fn citations(
        &self,
        log_no: u64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Digest)>, StoreError> {
        let bounds = (
            Included((log_no, from, &LEAST)),
            Included((log_no, u64::MAX, &GREATEST)),
        );
        self.read(|tables| {
            let citations = tables.citations()?;
            collect(citations, bounds, Direction::Newer, limit, |key, _| {
                Ok((key.1, *key.2))
            })
        })
    }

    fn view(&self, name: &str) -> Result<Option<ViewRow>, StoreError> {
        self.read(|tables| get(tables.views()?, name))
    }

    fn view_value(&self, view_no: u64, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|tables| {
            let entry: Option<Entry> = get(tables.view_rows()?, (view_no, key))?;
            Ok(entry.map(|entry| entry.value))
        })
    }

    fn view_entries(
        &self,
        view_no: u64,
        from: &[u8],
        to: Option<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<ViewEntry>, StoreError> {
        if to.is_some_and(|to| from >= to) {
            return Ok(Vec::new());
        }
        let (_, end) = led_by::<(u64, &'static [u8])>(view_no);
        let end = to.map_or(end, |to| Excluded((view_no, to)));
        let bounds = (Included((view_no, from)), end);
        self.read(|tables| {
            let entries = tables.view_rows()?;
            collect(entries, bounds, direction, limit, |key, value| {
                let entry: Entry = open(&key, value)?;
                Ok((key.1.to_vec(), entry.value))
            })
        })
    }

    fn view_mark(&self, view_no: u64, log_no: u64) -> Result<u64, StoreError> {
        self.read(|tables| {
            let mark: Option<Mark> = get(tables.view_marks()?, (log_no, view_no))?;
            Ok(mark.map_or(0, |Mark(ordinal)| ordinal))
        })
    }

    fn scrubs(&self) -> Result<Vec<ScrubRow>, StoreError> {
        self.read(|tables| {
            let all = (Unbounded, Unbounded);
            rows(tables.scrub()?, all, Direction::Newer, usize::MAX)
        })
    }
}

/// The key of a chunk.
pub fn seg_key(
    index_no: u64,
    position: Position,
    lane: LanePart,
    seg: u64,
) -> (u64, u64, u8, u8, u32, u64) {
    (
        index_no,
        position.ordinal,
        position.slot,
        lane.0 as u8,
        lane.1,
        seg,
    )
}
