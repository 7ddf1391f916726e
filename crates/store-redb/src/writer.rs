//! Writes: rows as they are told. What is erased goes first, so that a session
//! that goes and one that takes its id can share a transaction.

use crate::erase::erase;
use crate::error::{Error, transaction_failed};
use crate::pieces;
use crate::reader::{Txn, seg_key};
use crate::rows::{Entry, Mark, exists, open};
use crate::tables::{Writing, get, insert, mark, put, replace};
use folio_codec::hash64;
use folio_store::StoreError;
use folio_store::engine::{ItemWrite, ViewWrites, WriteTxn, Writes};
use folio_store::rows::{EventRow, FactRow, LogRow, RunRow, SegRow, SessionRow, SpanRow};

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
    for what in &writes.erase {
        erase(tables, what)?;
    }
    if let Some(counters) = &writes.counters {
        put(&mut tables.meta, "counters", counters)?;
    }
    for row in &writes.sessions {
        put_session(tables, row)?;
    }
    if let Some(log) = &writes.log {
        put(&mut tables.logs, log.log_no, log)?;
    }
    put_rows_of_log(tables, writes)?;
    put_contributions(tables, writes)?;
    put_blobs(tables, writes)?;
    if let Some(view) = &writes.view {
        put_view(tables, view)?;
    }
    for row in &writes.scrubs {
        put(&mut tables.scrub, row.seq, row)?;
    }
    if let Some(row) = &writes.commit {
        put(&mut tables.commits, row.seq, row)?;
    }
    Ok(())
}

fn put_rows_of_log(tables: &mut Writing<'_>, writes: &Writes) -> Result<(), Error> {
    let Some(log) = &writes.log else {
        let none = writes.spans.is_empty()
            && writes.runs.is_empty()
            && writes.events.is_empty()
            && writes.redacted.is_empty()
            && writes.citations.is_empty()
            && writes.packs.is_empty()
            && writes.id_runs.is_empty()
            && writes.pack_ids.is_empty()
            && writes.items.is_empty()
            && writes.segs.is_empty();
        return if none {
            Ok(())
        } else {
            let (rows, owner) = ("rows of a log", "log");
            Err(Error::Ownerless { rows, owner })
        };
    };
    for span in &writes.spans {
        put_span(tables, span)?;
    }
    for run in &writes.runs {
        put_run(tables, log.log_no, run)?;
    }
    for (event, hash) in &writes.events {
        insert_event(tables, log, event, *hash)?;
    }
    for event in &writes.redacted {
        // Its id stays, and so does what finds it.
        replace(&mut tables.events, (log.log_no, event.ordinal), event)?;
    }
    for (ordinal, sha) in &writes.citations {
        mark(&mut tables.citations, (log.log_no, *ordinal, sha))?;
        mark(&mut tables.cited, (sha, log.log_no, *ordinal))?;
    }
    put_items(tables, log.index_no, &writes.items)?;
    for seg in &writes.segs {
        put_seg(tables, log.index_no, seg)?;
    }
    for pack in &writes.packs {
        put(&mut tables.packs, (log.log_no, pack.first), pack)?;
    }
    for run in &writes.id_runs {
        let key = (log.log_no, run.stem.as_str(), run.first);
        put(&mut tables.id_runs, key, run)?;
    }
    for (hash, ordinal) in &writes.pack_ids {
        let id = (log.family, *hash, log.log_no, *ordinal);
        mark(&mut tables.event_ids, id)?;
    }
    Ok(())
}

fn put_contributions(tables: &mut Writing<'_>, writes: &Writes) -> Result<(), Error> {
    for (row, facts) in &writes.contributions {
        let key = (row.log_no, row.source.as_str());
        put(&mut tables.contrib_logs, key, row)?;
        for fact in facts {
            insert_fact(tables, row.contrib_no, fact)?;
        }
    }
    for (contrib_no, fact) in &writes.redacted_facts {
        // Its anchor and id stay, and so does what finds it.
        replace(&mut tables.contrib_facts, (*contrib_no, fact.seq), fact)?;
    }
    Ok(())
}

fn put_blobs(tables: &mut Writing<'_>, writes: &Writes) -> Result<(), Error> {
    for row in &writes.blobs {
        put(&mut tables.blobs, &row.sha, row)?;
    }
    for row in &writes.stages {
        put(&mut tables.stages, row.blob_no, row)?;
    }
    for (blob_no, piece, content) in &writes.pieces {
        pieces::put(&mut tables.pieces, *blob_no, *piece, content)?;
    }
    Ok(())
}

/// Writes a session. A row that has the id under another number is a
/// contradiction and fails.
fn put_session(tables: &mut Writing<'_>, row: &SessionRow) -> Result<(), Error> {
    let id = row.session_id.as_str();
    let found: Option<SessionRow> = get(&tables.sessions, id)?;
    if let Some(found) = found {
        if found.session_no != row.session_no {
            return Err(exists::<SessionRow>(&id));
        }
        tables.sessions_log.remove((found.log_no, id))?;
    }
    mark(&mut tables.sessions_log, (row.log_no, id))?;
    put(&mut tables.sessions, id, row).map(drop)
}

fn put_span(tables: &mut Writing<'_>, row: &SpanRow) -> Result<(), Error> {
    let key = (row.log_no, row.upto);
    let found: Option<SpanRow> = get(&tables.spans, key)?;
    if let Some(found) = found {
        tables.spans_src.remove((found.src, row.upto, row.log_no))?;
    }
    mark(&mut tables.spans_src, (row.src, row.upto, row.log_no))?;
    put(&mut tables.spans, key, row).map(drop)
}

fn put_view(tables: &mut Writing<'_>, writes: &ViewWrites) -> Result<(), Error> {
    let (view_no, log_no) = (writes.view.view_no, writes.log_no);
    put(&mut tables.views, writes.view.name.as_str(), &writes.view)?;
    for (key, value) in &writes.entries {
        let place = (view_no, key.as_slice());
        let before = tables.view_rows.remove(place)?;
        // Of a damaged entry nobody knows the log; what finds it there finds
        // another's, which is allowed.
        let owner = before.and_then(|row| open::<Entry>(&place, row.value()).ok());
        if let Some(Entry { log_no, .. }) = owner {
            tables
                .view_rows_log
                .remove((log_no, view_no, key.as_slice()))?;
        }
        if let Some(value) = value {
            let value = value.clone();
            put(&mut tables.view_rows, place, &Entry { log_no, value })?;
            mark(&mut tables.view_rows_log, (log_no, view_no, key.as_slice()))?;
        }
    }
    put(
        &mut tables.view_marks,
        (log_no, view_no),
        &Mark(writes.mark),
    )
    .map(drop)
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

fn put_items(tables: &mut Writing<'_>, index_no: u64, writes: &[ItemWrite]) -> Result<(), Error> {
    let mut keys = Vec::with_capacity(writes.len());
    for ItemWrite { item, is_new } in writes {
        let at = item.position;
        put(&mut tables.items, (index_no, at.ordinal, at.slot), item)?;
        if *is_new {
            let hash = hash64(item.base().as_bytes());
            keys.push((index_no, hash, at.ordinal, at.slot));
        }
    }
    // In the order in which they stand: those of one page come together.
    keys.sort_unstable();
    keys.into_iter()
        .try_for_each(|key| mark(&mut tables.item_keys, key))
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
