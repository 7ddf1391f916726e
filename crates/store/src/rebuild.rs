//! Making an index anew.
//!
//! All of it is one transaction, so that readers go on with the old index
//! until the new one is whole, and what fails takes nothing. Two threads share
//! the work: one reads the events, from a snapshot of its own, and indexes
//! them; the one that writes writes the items. What it has written so far is
//! known to it alone, so it also looks up what the other one has forgotten.

use crate::StoreError;
use crate::care::{Replay, index_status, items_at, tail_at};
use crate::engine::{Counters, Engine, Erase, ItemWrite, WriteTxn, Writes};
use crate::index::{Hashes, Items, Stored};
use crate::line::Line;
use crate::plan::session_line;
use crate::port::IndexStatus;
use crate::rows::{LogRow, SegRow};
use folio_core::PROJECTION_VERSION;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Events whose items are written at once. The more there are, the closer
/// together the keys are that find them.
const SLICE: u64 = 2_000;
/// Items to which so many events back nothing came are forgotten.
const RECENT: u64 = 500;
/// Slices that wait to be written.
const AHEAD: usize = 4;
/// The thread that indexes.
const INDEXER: &str = "folio-indexer";

/// What the writing thread is asked for.
enum Step {
    /// To write the items of a slice.
    Write(Vec<ItemWrite>, Vec<SegRow>),
    /// To look up what is stored under hashes of identities.
    LookUp(Vec<u64>, SyncSender<Vec<Stored>>),
}

/// Makes the index of a session anew: of its own log, and of those that it
/// inherits from. Each is a generation of its own; the old ones go in the same
/// transaction.
pub(crate) fn rebuild(
    txn: &mut dyn WriteTxn,
    engine: &dyn Engine,
    id: &str,
) -> Result<IndexStatus, StoreError> {
    let rows = session_line(txn, id)?.1.rows()?;
    let mut seen = Hashes::default();
    for log in rows {
        seen = rebuild_log(txn, engine, log, seen)?;
    }
    index_status(&session_line(txn, id)?.1)
}

/// Answers the hashes of all identities of the log and those that it inherits
/// from, for the next one.
fn rebuild_log(
    txn: &mut dyn WriteTxn,
    engine: &dyn Engine,
    mut log: LogRow,
    seen: Hashes,
) -> Result<Hashes, StoreError> {
    let counters = txn.counters()?;
    let index_no = counters.index_no + 1;
    let old = std::mem::replace(&mut log.index_no, index_no);
    // The old one goes first, so that the new one can take its room.
    txn.apply(&Writes {
        erase: vec![Erase::Index(old)],
        counters: Some(Counters {
            index_no,
            ..counters
        }),
        log: Some(log.clone()),
        ..Writes::default()
    })?;
    let (replay, items) = {
        let line = Line::new(txn, log.clone())?;
        let tail = tail_at(&line, log.base)?;
        let items = Items::anew(items_at(&line, log.base)?, log.base, seen);
        (Replay::behind(log.base, tail, log.head), items)
    };
    let (replay, items) = thread::scope(|scope| {
        let (steps, asked) = sync_channel(AHEAD);
        let read = log.clone();
        let indexing = thread::Builder::new()
            .name(INDEXER.into())
            .spawn_scoped(scope, move || {
                index_all(engine, &read, replay, items, &steps)
            })
            .map_err(|error| StoreError::no_thread(INDEXER, error))?;
        let done = serve(txn, &log, &asked);
        // Where writing failed, nobody takes the next slice.
        drop(asked);
        let indexed = indexing.join().unwrap_or_else(|panic| resume_unwind(panic));
        done?;
        indexed
    })?;
    log.items = items.count;
    log.index_version = PROJECTION_VERSION;
    log.index_head = log.head;
    // The marks and requests are the index's part of the tail; the runs are
    // the log's own.
    log.tail.marks = replay.tail.marks;
    log.tail.requests = replay.tail.requests;
    txn.apply(&Writes {
        log: Some(log),
        ..Writes::default()
    })?;
    Ok(items.into_seen())
}

/// Indexes all events, slice by slice.
fn index_all(
    engine: &dyn Engine,
    log: &LogRow,
    replay: Replay,
    items: Items,
    steps: &SyncSender<Step>,
) -> Result<(Replay, Items), StoreError> {
    let mut state = (replay, items);
    engine.read(&mut |snapshot| {
        let (replay, items) = &mut state;
        let line = Line::new(snapshot, log.clone())?;
        // The channels close where the other thread failed; its error counts.
        let mut look_up = |missing| {
            let (answer, found) = sync_channel(1);
            steps
                .send(Step::LookUp(missing, answer))
                .map_err(|_| StoreError::closed())?;
            found.recv().map_err(|_| StoreError::closed())
        };
        while !replay.is_done() {
            replay.index(&line, items, SLICE, &mut look_up)?;
            let (changed, segs) = items.take_slice(replay.at().saturating_sub(RECENT));
            steps
                .send(Step::Write(changed, segs))
                .map_err(|_| StoreError::closed())?;
        }
        Ok(())
    })?;
    Ok(state)
}

/// Writes and looks up what it is asked for, until nobody asks any more.
fn serve(txn: &mut dyn WriteTxn, log: &LogRow, asked: &Receiver<Step>) -> Result<(), StoreError> {
    while let Ok(step) = asked.recv() {
        match step {
            Step::Write(items, segs) => txn.apply(&Writes {
                log: Some(log.clone()),
                items,
                segs,
                ..Writes::default()
            })?,
            Step::LookUp(missing, answer) => {
                let line = Line::new(txn, log.clone())?;
                let read = |hash| Stored::read(&line, hash, u64::MAX);
                let found = missing.into_iter().map(read).collect::<Result<_, _>>()?;
                // Nobody waits any more where the other thread failed.
                drop(answer.send(found));
            }
        }
    }
    Ok(())
}
