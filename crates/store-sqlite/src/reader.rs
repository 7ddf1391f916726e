//! Reads: rows of one transaction, each checked against its checksum.

use crate::columns::Columns;
use crate::error::Error;
use crate::{keys, sql};
use folio_codec::{Digest, borrow_item, decode_run_facts, decode_tail, hash64, sum};
use folio_core::item::{Lane, LanePart, Need, Position};
use folio_core::{
    Authority, Direction, InvocationId, Item, ItemRef, RunId, SessionId, Spine, TurnId,
};
use folio_store::StoreError;
use folio_store::engine::{Counters, Snapshot};
use folio_store::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRef, FactRow, FoundEvent, FoundPack, IdRunRow, LogRow,
    PackRow, RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewRow, entry_checksum,
    event_checksum, item_checksum, pack_checksum, piece_checksum,
};
use rusqlite::{Connection, ErrorCode, Params};

/// A transaction: what it reads is one state, and includes what it wrote.
#[derive(Debug)]
pub struct Txn<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) failed: bool,
}

impl<'c> Txn<'c> {
    /// The transaction that is open on a connection.
    pub fn new(conn: &'c Connection) -> Self {
        Self {
            conn,
            failed: false,
        }
    }

    /// All rows of a statement, one after another.
    pub(crate) fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(Columns<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            read(Columns(row))?;
        }
        Ok(())
    }

    /// All rows of a statement.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(Columns<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut out = Vec::new();
        self.each(sql, params, |columns| {
            out.push(read(columns)?);
            Ok(())
        })?;
        Ok(out)
    }

    /// The first row of a statement.
    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(Columns<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        rows.next()?.map(|row| read(Columns(row))).transpose()
    }

    /// Whole events of a range, or the engine's error at the first row whose
    /// pages are broken.
    fn whole_range(
        &self,
        (low, high): (i64, i64),
        limit: i64,
        max_bytes: usize,
    ) -> Result<Vec<FoundEvent>, Error> {
        let mut found = Vec::new();
        let mut bytes = 0_usize;
        self.walk((low, high), limit, &mut { low }, |ordinal, event| {
            bytes = bytes.saturating_add(event.map_or(0, |row| row.body.len()));
            if bytes > max_bytes && !found.is_empty() {
                return false;
            }
            found.push(event.map_or(FoundEvent::Damaged { ordinal }, |row| {
                FoundEvent::Whole(row.to_row())
            }));
            true
        })?;
        Ok(found)
    }

    /// Visits events of a range, damaged ones without their row, until the
    /// visitor has enough or the engine comes upon a row whose pages are
    /// broken. `next` is the least key that was not visited.
    fn walk(
        &self,
        (low, high): (i64, i64),
        limit: i64,
        next: &mut i64,
        mut visit: impl FnMut(u64, Option<EventRef<'_>>) -> bool,
    ) -> Result<(), Error> {
        let mut statement = self.conn.prepare_cached(sql::EVENTS)?;
        let mut rows = statement.query((low, high, limit))?;
        while let Some(row) = rows.next()? {
            let columns = Columns(row);
            let key = next_key("events", columns, next, high)?;
            if !visit(keys::ordinal_of(key), event(key, columns)) {
                break;
            }
        }
        Ok(())
    }

    /// The same, one row after another, with a mark in the place of each row
    /// that cannot be read.
    fn broken_range(
        &self,
        (low, high): (i64, i64),
        limit: i64,
        max_bytes: usize,
    ) -> Result<Vec<FoundEvent>, Error> {
        let mut least = low;
        let keys = self.all(sql::EVENT_KEYS, (low, high, limit), |columns| {
            next_key("events", columns, &mut least, high)
        })?;
        let mut found = Vec::new();
        let mut bytes = 0_usize;
        for key in keys {
            let row = match self.whole_range((key, key), 1, usize::MAX) {
                Ok(mut row) => row.pop(),
                Err(error) if error.sqlite_code() == Some(ErrorCode::DatabaseCorrupt) => None,
                Err(error) => return Err(error),
            };
            let row = row.unwrap_or(FoundEvent::Damaged {
                ordinal: keys::ordinal_of(key),
            });
            if let FoundEvent::Whole(row) = &row {
                bytes = bytes.saturating_add(row.body.len());
            }
            if bytes > max_bytes && !found.is_empty() {
                break;
            }
            found.push(row);
        }
        Ok(found)
    }

    /// Segments of a range, or the engine's error at the first one whose pages
    /// are broken.
    fn pack_range(&self, (low, high): (i64, i64)) -> Result<Vec<FoundPack>, Error> {
        let mut least = low;
        self.all(sql::PACKS, (low, high), |columns| {
            let key = next_key("segs", columns, &mut least, high)?;
            let first = keys::ordinal_of(key);
            Ok(pack(key, columns).map_or(FoundPack::Damaged { first }, FoundPack::Whole))
        })
    }

    /// The same, one segment after another, with a mark in the place of each
    /// that cannot be read.
    fn broken_packs(&self, (low, high): (i64, i64)) -> Result<Vec<FoundPack>, Error> {
        let mut least = low;
        let keys = self.all(sql::PACK_KEYS, (low, high), |columns| {
            next_key("segs", columns, &mut least, high)
        })?;
        let mut found = Vec::new();
        for key in keys {
            let row = match self.pack_range((key, key)) {
                Ok(mut row) => row.pop(),
                Err(error) if error.sqlite_code() == Some(ErrorCode::DatabaseCorrupt) => None,
                Err(error) => return Err(error),
            };
            let first = keys::ordinal_of(key);
            found.push(row.unwrap_or(FoundPack::Damaged { first }));
        }
        Ok(found)
    }
}

/// A limit as SQLite takes it.
fn limited(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl Snapshot for Txn<'_> {
    fn counters(&self) -> Result<Counters, StoreError> {
        let damaged = || Error::damaged("meta", "counters");
        let counters = self.one(sql::META, ["counters"], |columns| {
            columns
                .bytes(0)
                .and_then(decode_counters)
                .ok_or_else(damaged)
        })?;
        Ok(counters.ok_or_else(damaged)?)
    }

    fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        Ok(self.one(sql::SESSION, [id], |columns| {
            session(columns)
                .filter(|row| row.session_id.as_str() == id)
                .ok_or_else(|| Error::damaged("sessions", format!("session {id}")))
        })?)
    }

    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<SessionRow>, StoreError> {
        let after = after.unwrap_or_default();
        Ok(self.all(sql::SESSIONS, (after, limited(limit)), |columns| {
            session(columns).ok_or_else(|| damaged_session(columns))
        })?)
    }

    fn session_of_log(&self, log_no: u64) -> Result<Option<SessionRow>, StoreError> {
        Ok(
            self.one(sql::SESSION_OF_LOG, [log_no.cast_signed()], |columns| {
                session(columns)
                    .filter(|row| row.log_no == log_no)
                    .ok_or_else(|| damaged_session(columns))
            })?,
        )
    }

    fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError> {
        Ok(self.one(sql::LOG, [log_no.cast_signed()], |columns| {
            log(columns).ok_or_else(|| Error::damaged("logs", format!("log {log_no}")))
        })?)
    }

    fn spans(&self, log_no: u64) -> Result<Vec<SpanRow>, StoreError> {
        Ok(self.all(sql::SPANS, [log_no.cast_signed()], checked_span)?)
    }

    fn spans_of(&self, src: u64, limit: usize) -> Result<Vec<SpanRow>, StoreError> {
        let key = (src.cast_signed(), limited(limit));
        Ok(self.all(sql::SPANS_OF, key, checked_span)?)
    }

    fn event_ids(&self, family: u64, hash: u64) -> Result<Vec<(u64, u64)>, StoreError> {
        let key = (family.cast_signed(), hash.cast_signed());
        Ok(self.all(sql::EVENT_IDS, key, |columns| {
            columns
                .u64(0)
                .zip(columns.u64(1))
                .ok_or_else(|| Error::damaged("event_ids", format!("family {family}")))
        })?)
    }

    fn events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<FoundEvent>, StoreError> {
        let Some(range) = keys::events(log_no, from, to) else {
            return Ok(Vec::new());
        };
        let limit = limited(limit);
        match self.whole_range(range, limit, max_bytes) {
            // A broken page is a damaged event as well, if the keys still read.
            Err(error) if error.sqlite_code() == Some(ErrorCode::DatabaseCorrupt) => {
                Ok(self.broken_range(range, limit, max_bytes)?)
            }
            found => Ok(found?),
        }
    }

    fn journal(&self) -> Result<Option<(u64, u64)>, StoreError> {
        // One row in any case: of nothing where there is none.
        let end = |sql| self.one(sql, [], |columns| Ok(columns.u64(0)));
        let first = end(sql::FIRST_COMMIT)?.flatten();
        Ok(first.zip(end(sql::LAST_COMMIT)?.flatten()))
    }

    fn commits(&self, after: u64) -> Result<Vec<CommitRow>, StoreError> {
        Ok(self.all(sql::COMMITS, [keys::clamped(after)], |columns| {
            commit(columns).ok_or_else(|| {
                let number = columns.i64(0).unwrap_or_default();
                Error::damaged("commits", format!("number {number}"))
            })
        })?)
    }

    fn packs(&self, log_no: u64, from: u64, to: u64) -> Result<Vec<FoundPack>, StoreError> {
        let Some(range) = keys::events(log_no, from, to) else {
            return Ok(Vec::new());
        };
        match self.pack_range(range) {
            Err(error) if error.sqlite_code() == Some(ErrorCode::DatabaseCorrupt) => {
                Ok(self.broken_packs(range)?)
            }
            found => Ok(found?),
        }
    }

    fn id_run(&self, log_no: u64, stem: &str, n: u64) -> Result<Option<IdRunRow>, StoreError> {
        for (least, most) in keys::through(n) {
            let key = (log_no.cast_signed(), stem, least, most);
            let found = self.one(sql::ID_RUN, key, |columns| {
                checked_id_run(log_no, stem, columns)
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn visit_events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(EventRef<'_>),
    ) -> Result<(), StoreError> {
        let Some((low, high)) = keys::events(log_no, from, to) else {
            return Ok(());
        };
        let mut next = low;
        match self.walk((low, high), i64::MAX, &mut next, |_, event| {
            event.into_iter().for_each(&mut *visit);
            true
        }) {
            // What lies behind a broken page is read row by row.
            Err(error) if error.sqlite_code() == Some(ErrorCode::DatabaseCorrupt) => {
                for found in self.broken_range((next, high), i64::MAX, usize::MAX)? {
                    found.whole().into_iter().for_each(&mut *visit);
                }
                Ok(())
            }
            done => Ok(done?),
        }
    }

    fn run(&self, log_no: u64, run_no: u32) -> Result<Option<RunRow>, StoreError> {
        let key = (log_no.cast_signed(), run_no);
        Ok(self.one(sql::RUN, key, |columns| checked_run(log_no, columns))?)
    }

    fn runs(&self, log_no: u64, after: u32, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        let key = (log_no.cast_signed(), after, limited(limit));
        Ok(self.all(sql::RUNS, key, |columns| checked_run(log_no, columns))?)
    }

    fn run_by_id(&self, log_no: u64, run_id: &str) -> Result<Option<RunRow>, StoreError> {
        let key = (log_no.cast_signed(), run_id);
        Ok(self.one(sql::RUN_BY_ID, key, |columns| {
            checked_run(log_no, columns)
                .and_then(|row| found_by(row, |row| row.spine.run_id.as_str() == run_id))
        })?)
    }

    fn run_by_invocation(&self, log_no: u64, id: &str) -> Result<Option<RunRow>, StoreError> {
        let key = (log_no.cast_signed(), id);
        Ok(self.one(sql::RUN_BY_INVOCATION, key, |columns| {
            checked_run(log_no, columns)
                .and_then(|row| found_by(row, |row| row.spine.invocation_id.as_str() == id))
        })?)
    }

    fn last_run_of_turn(
        &self,
        log_no: u64,
        turn_id: &str,
        before: u32,
    ) -> Result<Option<RunRow>, StoreError> {
        let key = (log_no.cast_signed(), turn_id, before);
        Ok(self.one(sql::LAST_RUN_OF_TURN, key, |columns| {
            checked_run(log_no, columns)
                .and_then(|row| found_by(row, |row| row.spine.turn_id.as_str() == turn_id))
        })?)
    }

    fn items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let Some((low, high)) = keys::items_from(index_no, from, direction) else {
            return Ok(Vec::new());
        };
        Ok(self.all(
            items_sql(direction),
            (low, high, limited(limit)),
            |columns| item(index_no, columns).ok_or_else(|| damaged_item(index_no, columns.i64(0))),
        )?)
    }

    fn visit_items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
        visit: &mut dyn FnMut(ItemRef<'_>),
    ) -> Result<(), StoreError> {
        let Some((low, high)) = keys::items_from(index_no, from, direction) else {
            return Ok(());
        };
        let mut need = Vec::new();
        Ok(self.each(
            items_sql(direction),
            (low, high, limited(limit)),
            |columns| {
                let item = borrowed_item(index_no, columns, &mut need);
                visit(item.ok_or_else(|| damaged_item(index_no, columns.i64(0)))?);
                Ok(())
            },
        )?)
    }

    fn items_by_hash(&self, index_no: u64, hash: u64) -> Result<Vec<Item>, StoreError> {
        let key = (index_no.cast_signed(), hash.cast_signed());
        Ok(self.all(sql::ITEMS_BY_HASH, key, |columns| {
            item(index_no, columns)
                .filter(|item| hash64(item.base().as_bytes()) == hash)
                .ok_or_else(|| damaged_item(index_no, columns.i64(3)))
        })?)
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
        let through = through.min(keys::MAX_ORDINAL);
        let (Ok(p), true) = (keys::item(index_no, position), from <= through) else {
            return Ok(Vec::new());
        };
        let (from, through) = (from.cast_signed(), through.cast_signed());
        let key = (p, lane.0 as u8, lane.1, from, through, limited(limit));
        Ok(self.all(sql::SEGS, key, |columns| {
            seg(index_no, columns).ok_or_else(|| damaged_seg(index_no, columns))
        })?)
    }

    fn last_seg(
        &self,
        index_no: u64,
        position: Position,
        lane: LanePart,
        through: u64,
    ) -> Result<Option<SegRow>, StoreError> {
        let Ok(p) = keys::item(index_no, position) else {
            return Ok(None);
        };
        let through = through.min(keys::MAX_ORDINAL).cast_signed();
        let key = (p, lane.0 as u8, lane.1, through);
        Ok(self.one(sql::LAST_SEG, key, |columns| {
            seg(index_no, columns).ok_or_else(|| damaged_seg(index_no, columns))
        })?)
    }

    fn contrib_log(&self, log_no: u64, source: &str) -> Result<Option<ContribLogRow>, StoreError> {
        let key = (log_no.cast_signed(), source);
        Ok(self.one(sql::CONTRIB_LOG, key, |columns| {
            contrib_log(columns)
                .filter(|row| row.log_no == log_no && row.source == source)
                .ok_or_else(|| damaged_contrib_log(log_no, columns))
        })?)
    }

    fn contrib_logs(&self, log_no: u64) -> Result<Vec<ContribLogRow>, StoreError> {
        Ok(
            self.all(sql::CONTRIB_LOGS, [log_no.cast_signed()], |columns| {
                contrib_log(columns)
                    .filter(|row| row.log_no == log_no)
                    .ok_or_else(|| damaged_contrib_log(log_no, columns))
            })?,
        )
    }

    fn facts(&self, contrib_no: u64, from: u64, limit: usize) -> Result<Vec<FactRow>, StoreError> {
        let Some((low, high)) = keys::events(contrib_no, from, u64::MAX) else {
            return Ok(Vec::new());
        };
        Ok(
            self.all(sql::FACTS, (low, high, limited(limit)), |columns| {
                fact(contrib_no, columns).ok_or_else(|| {
                    let seq = columns.i64(0).map(keys::ordinal_of);
                    damaged_fact(contrib_no, seq)
                })
            })?,
        )
    }

    fn facts_by_anchor(
        &self,
        contrib_no: u64,
        after: Option<(u64, u64)>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<FactRow>, StoreError> {
        if contrib_no > keys::MAX_LOG {
            return Ok(Vec::new());
        }
        let sql = match direction {
            Direction::Newer => sql::FACTS_NEWER,
            Direction::Older => sql::FACTS_OLDER,
        };
        // Anchors and sequences of stored facts are below 2^33.
        let top = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (anchor, seq) = match (after, direction) {
            (Some((anchor, seq)), _) => (top(anchor), top(seq)),
            (None, Direction::Newer) => (-1, -1),
            (None, Direction::Older) => (i64::MAX, i64::MAX),
        };
        let key = (contrib_no.cast_signed(), anchor, seq, limited(limit));
        Ok(self.all(sql, key, |columns| {
            fact(contrib_no, columns)
                .filter(|row| columns.u64(7) == Some(row.anchor))
                .ok_or_else(|| damaged_fact(contrib_no, columns.u64(8)))
        })?)
    }

    fn facts_by_id(&self, contrib_no: u64, hash: u64) -> Result<Vec<FactRow>, StoreError> {
        if contrib_no > keys::MAX_LOG {
            return Ok(Vec::new());
        }
        let key = (contrib_no.cast_signed(), hash.cast_signed());
        Ok(self.all(sql::FACTS_BY_ID, key, |columns| {
            fact(contrib_no, columns)
                .filter(|row| hash64(row.id.as_bytes()) == hash)
                .ok_or_else(|| damaged_fact(contrib_no, columns.u64(7)))
        })?)
    }

    fn blob(&self, sha: &Digest) -> Result<Option<BlobRow>, StoreError> {
        Ok(self.one(sql::BLOB, [&sha[..]], checked_blob)?)
    }

    fn blobs(&self, after: Option<&Digest>, limit: usize) -> Result<Vec<BlobRow>, StoreError> {
        let after = after.map_or(&[][..], |sha| &sha[..]);
        Ok(self.all(sql::BLOBS, (after, limited(limit)), checked_blob)?)
    }

    fn stages(&self, after: u64, limit: usize) -> Result<Vec<StageRow>, StoreError> {
        let Ok(after) = keys::fits("blob number", after, keys::MAX_BLOB) else {
            return Ok(Vec::new());
        };
        Ok(self.all(sql::STAGES, (after, limited(limit)), |columns| {
            stage(columns).ok_or_else(|| {
                let number = columns.i64(0).unwrap_or_default();
                Error::damaged("stages", format!("blob {number}"))
            })
        })?)
    }

    fn piece(&self, blob_no: u64, piece: u32) -> Result<Option<Vec<u8>>, StoreError> {
        let Ok(key) = keys::piece(blob_no, piece) else {
            return Ok(None);
        };
        Ok(self.one(sql::PIECE, [key], |columns| {
            columns
                .bytes(1)
                .filter(|body| columns.has_sum(0, piece_checksum(blob_no, piece, body)))
                .map(<[u8]>::to_vec)
                .ok_or_else(|| Error::damaged("pieces", format!("blob {blob_no}, piece {piece}")))
        })?)
    }

    fn is_cited(&self, sha: &Digest) -> Result<bool, StoreError> {
        let cited = self.one(sql::CITATION_OF, [&sha[..]], |_| Ok(()))?;
        Ok(cited.is_some())
    }

    fn citations(
        &self,
        log_no: u64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Digest)>, StoreError> {
        let Ok(from) = keys::fits("ordinal", from, keys::MAX_ORDINAL) else {
            return Ok(Vec::new());
        };
        let key = (log_no.cast_signed(), from, limited(limit));
        Ok(self.all(sql::CITATIONS, key, |columns| {
            columns
                .u64(0)
                .zip(columns.digest(1))
                .ok_or_else(|| Error::damaged("blob_refs", format!("log {log_no}")))
        })?)
    }

    fn view(&self, name: &str) -> Result<Option<ViewRow>, StoreError> {
        Ok(self.one(sql::VIEW, [name], |columns| {
            view(columns)
                .filter(|row| row.name == name)
                .ok_or_else(|| Error::damaged("views", format!("view {name:?}")))
        })?)
    }

    fn view_value(&self, view_no: u64, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let by = (view_no.cast_signed(), key);
        Ok(self.one(sql::VIEW_VALUE, by, |columns| {
            checked_entry(view_no, columns).map(|(_, value)| value)
        })?)
    }

    fn view_entries(
        &self,
        view_no: u64,
        from: &[u8],
        to: Option<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        let (view, limit) = (view_no.cast_signed(), limited(limit));
        let read = |columns: Columns<'_>| checked_entry(view_no, columns);
        let found = match (direction, to) {
            (Direction::Newer, None) => self.all(sql::ENTRIES_NEWER, (view, from, limit), read),
            (Direction::Older, None) => self.all(sql::ENTRIES_OLDER, (view, from, limit), read),
            (Direction::Newer, Some(to)) => {
                self.all(sql::ENTRIES_NEWER_BELOW, (view, from, limit, to), read)
            }
            (Direction::Older, Some(to)) => {
                self.all(sql::ENTRIES_OLDER_BELOW, (view, from, limit, to), read)
            }
        };
        Ok(found?)
    }

    fn view_mark(&self, view_no: u64, log_no: u64) -> Result<u64, StoreError> {
        let key = [view_no, log_no].map(u64::cast_signed);
        let mark = self.one(sql::VIEW_MARK, key, |columns| {
            columns
                .u64(0)
                .filter(|head| columns.has_sum(1, mark_checksum(view_no, log_no, *head)))
                .ok_or_else(|| {
                    Error::damaged("view_marks", format!("view {view_no}, log {log_no}"))
                })
        })?;
        Ok(mark.unwrap_or(0))
    }

    fn scrubs(&self) -> Result<Vec<ScrubRow>, StoreError> {
        Ok(self.all(sql::SCRUBS, [], |columns| {
            scrub(columns).ok_or_else(|| {
                let number = columns.i64(0).unwrap_or_default();
                Error::damaged("scrub", format!("number {number}"))
            })
        })?)
    }
}

/// The counters as they are kept, with their checksum.
pub fn encode_counters(counters: Counters) -> Vec<u8> {
    let numbers = counters.numbers();
    let sum = sum(&numbers, &[]);
    numbers
        .iter()
        .chain([&sum])
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

fn decode_counters(bytes: &[u8]) -> Option<Counters> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    let (stored, numbers) = numbers.split_last()?;
    let numbers = <[[u8; 8]; 7]>::try_from(numbers)
        .ok()?
        .map(u64::from_le_bytes);
    let whole = rest.is_empty() && sum(&numbers, &[]) == u64::from_le_bytes(*stored);
    whole.then(|| Counters::from_numbers(numbers))
}

/// The checksum that is stored with a view's mark.
pub fn mark_checksum(view_no: u64, log_no: u64, head: u64) -> u64 {
    sum(&[view_no, log_no, head], &[])
}

fn session(columns: Columns<'_>) -> Option<SessionRow> {
    let row = SessionRow {
        session_no: columns.u64(0)?,
        session_id: SessionId::new(columns.text(1)?).ok()?,
        log_no: columns.u64(2)?,
        incarnation: columns.u64(3)?,
        generation: columns.small(4)?,
        authority: *Authority::ALL.get(columns.small::<usize>(5)?)?,
        authority_rev: columns.u64(6)?,
        followed: columns.bool(7)?,
        import_ref: columns.optional(8, Columns::text)?.map(str::to_owned),
        lease_owner: columns.u64(9)?,
        lease_epoch: columns.u64(10)?,
        lease_holder: columns.text(11)?.to_owned(),
        created_at: columns.u64(12)?,
    };
    columns.has_sum(13, row.checksum()).then_some(row)
}

fn damaged_session(columns: Columns<'_>) -> Error {
    let number = columns.i64(0).unwrap_or_default();
    Error::damaged("sessions", format!("number {number}"))
}

fn checked_span(columns: Columns<'_>) -> Result<SpanRow, Error> {
    let row = (|| {
        let row = SpanRow {
            log_no: columns.u64(0)?,
            upto: columns.u64(1)?,
            src: columns.u64(2)?,
            runs: columns.small(3)?,
        };
        columns.has_sum(4, row.checksum()).then_some(row)
    })();
    row.ok_or_else(|| {
        let [log_no, upto] = [0, 1].map(|at| columns.i64(at).unwrap_or_default());
        Error::damaged("spans", format!("log {log_no}, up to {upto}"))
    })
}

fn log(columns: Columns<'_>) -> Option<LogRow> {
    let row = LogRow {
        log_no: columns.u64(0)?,
        family: columns.u64(1)?,
        head: columns.u64(2)?,
        base: columns.u64(3)?,
        chain: columns.digest(4)?,
        drained_seq: columns.u64(5)?,
        runs: columns.small(6)?,
        index_no: columns.u64(7)?,
        index_version: columns.small(8)?,
        index_head: columns.u64(9)?,
        items: columns.u64(10)?,
        sources: columns.small(11)?,
        tail: decode_tail(columns.bytes(12)?).ok()?,
    };
    columns.has_sum(13, row.checksum()).then_some(row)
}

/// The key of an event or a segment, which stands behind those before it and
/// not behind `high`. A broken page may hold any: SQLite does not compare them
/// again.
fn next_key(
    table: &'static str,
    columns: Columns<'_>,
    least: &mut i64,
    high: i64,
) -> Result<i64, Error> {
    let key = columns
        .i64(0)
        .filter(|key| (*least..=high).contains(key))
        .ok_or_else(|| Error::damaged(table, "a key that is out of its place"))?;
    *least = key.saturating_add(1);
    Ok(key)
}

/// An event, if it is whole.
fn event<'a>(key: i64, columns: Columns<'a>) -> Option<EventRef<'a>> {
    let ordinal = keys::ordinal_of(key);
    let log_no = key.cast_unsigned() >> keys::ORDINAL_BITS;
    let packed = columns.bytes(2)?;
    let whole = columns.has_sum(1, event_checksum(log_no, ordinal, packed));
    whole.then(|| EventRef::unpack(ordinal, packed)).flatten()
}

/// A segment, if it is whole.
pub fn pack(key: i64, columns: Columns<'_>) -> Option<PackRow> {
    let first = keys::ordinal_of(key);
    let log_no = key.cast_unsigned() >> keys::ORDINAL_BITS;
    let packed = columns.bytes(2)?;
    let whole = columns.has_sum(1, pack_checksum(log_no, first, packed));
    whole.then(|| PackRow::unpack(first, packed)).flatten()
}

/// Ids that count.
pub fn checked_id_run(log_no: u64, stem: &str, columns: Columns<'_>) -> Result<IdRunRow, Error> {
    let row = (|| {
        let row = IdRunRow {
            stem: stem.to_owned(),
            first: columns.u64(0)?,
            n: columns.small(1)?,
            pack: columns.u64(2)?,
        };
        columns.has_sum(3, row.checksum(log_no)).then_some(row)
    })();
    row.ok_or_else(|| {
        let first = columns.u64(0).unwrap_or_default();
        Error::damaged("id_runs", format!("log {log_no}, id {stem}#{first}"))
    })
}

fn commit(columns: Columns<'_>) -> Option<CommitRow> {
    let row = CommitRow {
        seq: columns.u64(0)?,
        body: columns.bytes(2)?.to_vec(),
    };
    columns.has_sum(1, row.checksum()).then_some(row)
}

fn run(log_no: u64, columns: Columns<'_>) -> Option<RunRow> {
    let (open_before, rest) = columns.bytes(7)?.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let row = RunRow {
        run_no: columns.small(1)?,
        spine: Spine {
            run_id: RunId::new(columns.text(2)?).ok()?,
            turn_id: TurnId::new(columns.text(3)?).ok()?,
            invocation_id: InvocationId::new(columns.text(4)?).ok()?,
        },
        opened: columns.u64(5)?,
        terminal: columns.optional(6, Columns::u64)?,
        open_before: open_before.iter().map(|n| u32::from_le_bytes(*n)).collect(),
        inline: columns.bool(8)?,
        output: columns.bool(9)?,
        facts: decode_run_facts(columns.bytes(10)?).ok()?,
    };
    columns.has_sum(11, row.checksum(log_no)).then_some(row)
}

fn damaged_run(log_no: u64, run_no: impl std::fmt::Display) -> Error {
    Error::damaged("runs", format!("log {log_no}, run {run_no}"))
}

fn checked_run(log_no: u64, columns: Columns<'_>) -> Result<RunRow, Error> {
    run(log_no, columns).ok_or_else(|| damaged_run(log_no, columns.i64(1).unwrap_or_default()))
}

/// An index that leads to a row of another name is damaged.
fn found_by(row: RunRow, is_it: impl FnOnce(&RunRow) -> bool) -> Result<RunRow, Error> {
    if is_it(&row) {
        Ok(row)
    } else {
        Err(Error::damaged(
            "runs",
            format!("index entry of run {}", row.run_no),
        ))
    }
}

/// An item, if it is whole.
pub fn item(index_no: u64, columns: Columns<'_>) -> Option<Item> {
    borrowed_item(index_no, columns, &mut Vec::new()).map(|item| item.to_item())
}

/// The same, without a copy.
fn borrowed_item<'a>(
    index_no: u64,
    columns: Columns<'a>,
    need: &'a mut Vec<Need>,
) -> Option<ItemRef<'a>> {
    let position = keys::position_of(columns.i64(0)?);
    let packed = columns.bytes(2)?;
    let whole = columns.has_sum(1, item_checksum(index_no, position, packed));
    whole
        .then(|| borrow_item(position, packed, need).ok())
        .flatten()
}

fn items_sql(direction: Direction) -> &'static str {
    match direction {
        Direction::Newer => sql::ITEMS_NEWER,
        Direction::Older => sql::ITEMS_OLDER,
    }
}

fn damaged_item(index_no: u64, key: Option<i64>) -> Error {
    let Position { ordinal, slot } = keys::position_of(key.unwrap_or_default());
    Error::damaged("items", format!("index {index_no}, item {ordinal}.{slot}"))
}

fn seg(index_no: u64, columns: Columns<'_>) -> Option<SegRow> {
    let row = SegRow {
        position: keys::position_of(columns.i64(0)?),
        lane: (Lane::from_number(columns.small(1)?)?, columns.small(2)?),
        seg: columns.u64(3)?,
        before: columns.u64(4)?,
        bytes: columns.u64(5)?,
        n: columns.small(6)?,
        last: columns.u64(7)?,
    };
    columns.has_sum(8, row.checksum(index_no)).then_some(row)
}

fn damaged_seg(index_no: u64, columns: Columns<'_>) -> Error {
    let Position { ordinal, slot } = keys::position_of(columns.i64(0).unwrap_or_default());
    let seg = columns.i64(3).unwrap_or_default();
    let key = format!("index {index_no}, item {ordinal}.{slot}, chunk {seg}");
    Error::damaged("item_segs", key)
}

fn contrib_log(columns: Columns<'_>) -> Option<ContribLogRow> {
    let row = ContribLogRow {
        contrib_no: columns.u64(0)?,
        source: columns.text(1)?.to_owned(),
        log_no: columns.u64(2)?,
        rank: columns.small(3)?,
        head: columns.u64(4)?,
        chain: columns.digest(5)?,
    };
    columns.has_sum(6, row.checksum()).then_some(row)
}

fn damaged_contrib_log(log_no: u64, columns: Columns<'_>) -> Error {
    let number = columns.i64(0).unwrap_or_default();
    Error::damaged("contrib_logs", format!("log {log_no}, number {number}"))
}

fn fact(contrib_no: u64, columns: Columns<'_>) -> Option<FactRow> {
    let row = FactRow {
        seq: keys::ordinal_of(columns.i64(0)?),
        anchor: columns.u64(1)?,
        id: columns.text(2)?.to_owned(),
        chain: columns.digest(3)?,
        body: columns.text(4)?.to_owned(),
        withheld: columns.optional(5, Columns::digest)?,
    };
    columns.has_sum(6, row.checksum(contrib_no)).then_some(row)
}

fn damaged_fact(contrib_no: u64, seq: Option<u64>) -> Error {
    let seq = seq.unwrap_or_default();
    Error::damaged(
        "contrib_facts",
        format!("contribution log {contrib_no}, fact {seq}"),
    )
}

fn checked_blob(columns: Columns<'_>) -> Result<BlobRow, Error> {
    let row = (|| {
        let row = BlobRow {
            sha: columns.digest(0)?,
            blob_no: columns.u64(1)?,
            len: columns.u64(2)?,
            stager: columns.u64(3)?,
        };
        columns.has_sum(4, row.checksum()).then_some(row)
    })();
    row.ok_or_else(|| {
        let number = columns.i64(1).unwrap_or_default();
        Error::damaged("blobs", format!("blob {number}"))
    })
}

fn stage(columns: Columns<'_>) -> Option<StageRow> {
    let row = StageRow {
        blob_no: columns.u64(0)?,
        stager: columns.u64(1)?,
    };
    columns.has_sum(2, row.checksum()).then_some(row)
}

fn view(columns: Columns<'_>) -> Option<ViewRow> {
    let row = ViewRow {
        view_no: columns.u64(0)?,
        name: columns.text(1)?.to_owned(),
        version: columns.small(2)?,
    };
    columns.has_sum(3, row.checksum()).then_some(row)
}

/// An entry of a view: its key and its value.
pub fn checked_entry(view_no: u64, columns: Columns<'_>) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let entry = (|| {
        let (key, log_no, value) = (columns.bytes(0)?, columns.u64(1)?, columns.bytes(2)?);
        let whole = columns.has_sum(3, entry_checksum(view_no, log_no, key, value));
        whole.then(|| (key.to_vec(), value.to_vec()))
    })();
    entry.ok_or_else(|| {
        let key = columns.bytes(0).unwrap_or_default().escape_ascii();
        Error::damaged("view_rows", format!("view {view_no}, key {key}"))
    })
}

fn scrub(columns: Columns<'_>) -> Option<ScrubRow> {
    let row = ScrubRow {
        seq: columns.u64(0)?,
        log_no: columns.u64(1)?,
        since: columns.u64(2)?,
    };
    columns.has_sum(3, row.checksum()).then_some(row)
}
