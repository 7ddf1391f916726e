//! Writes: rows as they are told, in an order that lets a session that goes
//! and one that takes its id share a transaction.

use crate::error::{Error, transaction_failed};
use crate::reader::{Txn, seg_key};
use crate::rows::{SpanRow, exists};
use crate::tables::{Writing, clear, get, insert, led_by, mark, put, rows};
use folio_codec::hash64;
use folio_core::{Direction, Item};
use folio_store::StoreError;
use folio_store::engine::{ItemWrite, WriteTxn, Writes};
use folio_store::rows::{ContribLogRow, EventRow, FactRow, LogRow, RunRow, SegRow, SessionRow};

impl WriteTxn for Txn<'_, Writing<'_>> {
    fn apply(&mut self, writes: &Writes) -> Result<(), StoreError> {
        if self.failed {
            return Err(transaction_failed());
        }
        let tables = &mut self.tables;
        let done = self.health.guard(|| put_all(tables, writes));
        self.failed |= done.is_err();
        Ok(done?)
    }
}

fn put_all(tables: &mut Writing<'_>, writes: &Writes) -> Result<(), Error> {
    if let Some(row) = &writes.drop_session {
        drop_session(tables, row)?;
    }
    if let Some(index_no) = writes.drop_index {
        drop_index(tables, index_no)?;
    }
    if let Some(counters) = &writes.counters {
        put(&mut tables.meta, "counters", counters)?;
    }
    if let Some(row) = &writes.session {
        put_session(tables, row)?;
    }
    if let Some(log) = &writes.log {
        put_log(tables, log)?;
    }
    put_rows_of_log(tables, writes)?;
    put_contributions(tables, writes)
}

fn put_rows_of_log(tables: &mut Writing<'_>, writes: &Writes) -> Result<(), Error> {
    let Some(log) = &writes.log else {
        let none = writes.runs.is_empty()
            && writes.events.is_empty()
            && writes.items.is_empty()
            && writes.segs.is_empty();
        return if none {
            Ok(())
        } else {
            let (rows, owner) = ("rows of a log", "log");
            Err(Error::Ownerless { rows, owner })
        };
    };
    for run in &writes.runs {
        put_run(tables, log.log_no, run)?;
    }
    for (event, hash) in &writes.events {
        insert_event(tables, log, event, *hash)?;
    }
    for ItemWrite { item, is_new } in &writes.items {
        put_item(tables, log.index_no, item, *is_new)?;
    }
    for seg in &writes.segs {
        put_seg(tables, log.index_no, seg)?;
    }
    Ok(())
}

fn put_contributions(tables: &mut Writing<'_>, writes: &Writes) -> Result<(), Error> {
    if let Some(row) = &writes.contrib_log {
        let key = (row.log_no, row.source.as_str());
        put(&mut tables.contrib_logs, key, row)?;
        for fact in &writes.facts {
            insert_fact(tables, row.contrib_no, fact)?;
        }
    } else if !writes.facts.is_empty() {
        let (rows, owner) = ("facts", "contribution log");
        return Err(Error::Ownerless { rows, owner });
    }
    Ok(())
}

/// Writes a session. A row that has the id under another number is a
/// contradiction and fails.
fn put_session(tables: &mut Writing<'_>, row: &SessionRow) -> Result<(), Error> {
    let id = row.session_id.as_str();
    let found: Option<SessionRow> = get(&tables.sessions, id)?;
    if found.is_some_and(|found| found.session_no != row.session_no) {
        return Err(exists::<SessionRow>(&id));
    }
    put(&mut tables.sessions, id, row).map(drop)
}

fn put_log(tables: &mut Writing<'_>, row: &LogRow) -> Result<(), Error> {
    if put(&mut tables.logs, row.log_no, row)? {
        // It reads all of its events from itself.
        let span = SpanRow { src: row.log_no };
        put(&mut tables.spans, (row.log_no, u64::MAX), &span)?;
    }
    Ok(())
}

fn put_run(tables: &mut Writing<'_>, log_no: u64, row: &RunRow) -> Result<(), Error> {
    let key = (log_no, row.run_no);
    let before: Option<RunRow> = get(&tables.runs, key)?;
    put(&mut tables.runs, key, row)?;
    let old = before.as_ref().map(|row| &row.spine);
    let spine = &row.spine;
    for (table, id, old) in [
        (
            &mut tables.runs_id,
            spine.run_id.as_str(),
            old.map(|old| old.run_id.as_str()),
        ),
        (
            &mut tables.runs_inv,
            spine.invocation_id.as_str(),
            old.map(|old| old.invocation_id.as_str()),
        ),
        (
            &mut tables.runs_turn,
            spine.turn_id.as_str(),
            old.map(|old| old.turn_id.as_str()),
        ),
    ] {
        if old == Some(id) {
            continue;
        }
        if let Some(old) = old {
            table.remove((log_no, old, row.run_no))?;
        }
        mark(table, (log_no, id, row.run_no))?;
    }
    Ok(())
}

fn insert_event(
    tables: &mut Writing<'_>,
    log: &LogRow,
    row: &EventRow,
    hash: u64,
) -> Result<(), Error> {
    insert(&mut tables.events, (log.log_no, row.ordinal), row)?;
    let id = (log.family, hash, log.log_no, row.ordinal);
    mark(&mut tables.event_ids, id)
}

fn put_item(
    tables: &mut Writing<'_>,
    index_no: u64,
    item: &Item,
    is_new: bool,
) -> Result<(), Error> {
    let at = item.position;
    put(&mut tables.items, (index_no, at.ordinal, at.slot), item)?;
    if is_new {
        let hash = hash64(item.base().as_bytes());
        mark(&mut tables.item_keys, (index_no, hash, at.ordinal, at.slot))?;
    }
    Ok(())
}

fn put_seg(tables: &mut Writing<'_>, index_no: u64, row: &SegRow) -> Result<(), Error> {
    let key = seg_key(index_no, row.position, row.lane, row.seg);
    put(&mut tables.item_segs, key, row).map(drop)
}

fn insert_fact(tables: &mut Writing<'_>, contrib_no: u64, row: &FactRow) -> Result<(), Error> {
    insert(&mut tables.contrib_facts, (contrib_no, row.seq), row)?;
    mark(&mut tables.contrib_items, (contrib_no, row.anchor, row.seq))?;
    let hash = hash64(row.id.as_bytes());
    mark(&mut tables.contrib_ids, (contrib_no, hash, row.seq))
}

fn drop_index(tables: &mut Writing<'_>, index_no: u64) -> Result<(), Error> {
    clear(&mut tables.items, index_no)?;
    clear(&mut tables.item_segs, index_no)?;
    clear(&mut tables.item_keys, index_no)
}

/// Removes every row of a session. The rows that name others are read with
/// their checksums: a damaged one could name those of another session.
fn drop_session(tables: &mut Writing<'_>, row: &SessionRow) -> Result<(), Error> {
    let log_no = row.log_no;
    let log: Option<LogRow> = get(&tables.logs, log_no)?;
    if let Some(log) = log {
        drop_index(tables, log.index_no)?;
        // The ids of a family stand together, whichever log they are of.
        let family = led_by::<(u64, u64, u64, u64)>(log.family);
        tables
            .event_ids
            .retain_in::<(u64, u64, u64, u64), _>(family, |(_, _, log, _), _| log != log_no)?;
    }
    let bounds = led_by::<(u64, &'static str)>(log_no);
    let contribs: Vec<ContribLogRow> =
        rows(&tables.contrib_logs, bounds, Direction::Newer, usize::MAX)?;
    for contrib in contribs {
        clear(&mut tables.contrib_facts, contrib.contrib_no)?;
        clear(&mut tables.contrib_items, contrib.contrib_no)?;
        clear(&mut tables.contrib_ids, contrib.contrib_no)?;
    }
    clear(&mut tables.contrib_logs, log_no)?;
    clear(&mut tables.events, log_no)?;
    clear(&mut tables.runs, log_no)?;
    clear(&mut tables.runs_id, log_no)?;
    clear(&mut tables.runs_inv, log_no)?;
    clear(&mut tables.runs_turn, log_no)?;
    clear(&mut tables.spans, log_no)?;
    tables.logs.remove(log_no)?;
    let id = row.session_id.as_str();
    let found: Option<SessionRow> = get(&tables.sessions, id)?;
    if found.is_some_and(|found| found.session_no == row.session_no) {
        tables.sessions.remove(id)?;
    }
    Ok(())
}
