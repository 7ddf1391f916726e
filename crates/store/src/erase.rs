//! Deletion, in slices: the session's row goes first, so that nobody finds it
//! any more; what its log holds goes piece by piece, up to what forks still
//! read; and a row tells what is left to do, also after a crash.

use crate::StoreError;
use crate::engine::{Counters, Erase, Snapshot, WriteTxn, Writes};
use crate::line::Line;
use crate::plan::{session_and_log, session_leased};
use crate::rows::{FoundEvent, LogRow, ScrubRow};
use folio_codec::{EMPTY_CHAIN, hash64};
use folio_core::SessionId;
use folio_core::assign::Tail;
use std::collections::BTreeMap;

/// Events that one transaction removes.
const SLICE: usize = 1_000;

/// An erasure that begins now, and the counters after it.
pub(crate) fn begin(
    snapshot: &dyn Snapshot,
    log_no: u64,
    now: u64,
) -> Result<(Counters, ScrubRow), StoreError> {
    let mut counters = snapshot.counters()?;
    counters.scrub_seq += 1;
    let scrub = ScrubRow {
        seq: counters.scrub_seq,
        log_no,
        since: now,
    };
    Ok((counters, scrub))
}

/// Makes a session disappear; answers the log that has to go with it.
pub(crate) fn disown(
    txn: &mut dyn WriteTxn,
    id: &SessionId,
    check: &dyn Fn(&crate::rows::SessionRow) -> Result<(), StoreError>,
    is_alive: &dyn Fn(u64) -> Result<bool, StoreError>,
    now: u64,
) -> Result<u64, StoreError> {
    let (session, mut log) = session_and_log(txn, id.as_str())?;
    check(&session)?;
    if session.lease_owner != 0 && is_alive(session.lease_owner)? {
        return Err(session_leased(&session));
    }
    let (counters, scrub) = begin(txn, log.log_no, now)?;
    let log_no = log.log_no;
    // Those that are there: a lost one must not keep the session from going.
    let mut erase: Vec<Erase> = txn
        .contrib_logs(log_no)?
        .into_iter()
        .map(Erase::Contributions)
        .collect();
    erase.push(Erase::ViewEntries { log_no });
    erase.push(Erase::Session(session));
    log.sources = 0;
    txn.apply(&Writes {
        erase,
        counters: Some(counters),
        log: Some(log),
        scrubs: vec![scrub],
        ..Writes::default()
    })?;
    Ok(log_no)
}

/// Does the next piece of work on a log whose session is gone; answers whether
/// more is left. The logs that it was forked from may be next: each gets an
/// erasure of its own.
pub(crate) fn trim(txn: &mut dyn WriteTxn, scrub: &ScrubRow, now: u64) -> Result<bool, StoreError> {
    let done = Writes {
        scrubs: vec![ScrubRow {
            log_no: 0,
            ..*scrub
        }],
        ..Writes::default()
    };
    let owned = txn.session_of_log(scrub.log_no)?.is_some();
    let Some(log) = txn.log(scrub.log_no)?.filter(|_| !owned) else {
        txn.apply(&done)?;
        return Ok(false);
    };
    let keep = txn
        .spans_of(log.log_no, 1)?
        .first()
        .map_or(0, |span| span.upto);
    if log.head > keep && log.head > log.base {
        let writes = cut_events(txn, &log, keep.max(log.base))?;
        txn.apply(&writes)?;
        return Ok(true);
    }
    if keep > 0 {
        txn.apply(&done)?;
        return Ok(false);
    }
    // Nobody reads it: the rest goes, and what it read may have lost its last
    // reader.
    let mut writes = done;
    writes.erase = vec![
        Erase::Runs {
            log_no: log.log_no,
            above: 0,
        },
        Erase::Index(log.index_no),
        Erase::Log(log.log_no),
    ];
    let mut counters = txn.counters()?;
    for span in txn.spans(log.log_no)? {
        if txn.session_of_log(span.src)?.is_none() {
            counters.scrub_seq += 1;
            writes.scrubs.push(ScrubRow {
                seq: counters.scrub_seq,
                log_no: span.src,
                since: now,
            });
        }
    }
    writes.counters = Some(counters);
    txn.apply(&writes)?;
    Ok(false)
}

/// What removes the last events of a log, behind `keep` at most.
fn cut_events(txn: &dyn Snapshot, log: &LogRow, keep: u64) -> Result<Writes, StoreError> {
    // From the end, so that what is left is always a whole log.
    let from = (keep + 1).max((log.head + 1).saturating_sub(SLICE as u64));
    // What is damaged or missing has left an id all the same.
    let mut hashes: BTreeMap<u64, Option<u64>> =
        (from..=log.head).map(|ordinal| (ordinal, None)).collect();
    for found in txn.events(log.log_no, from, log.head, SLICE, usize::MAX)? {
        if let FoundEvent::Whole(row) = found
            && let Ok(view) = folio_codec::decode_event(row.form, &row.body)
        {
            hashes.insert(row.ordinal, Some(hash64(view.id.as_bytes())));
        }
    }
    let events = hashes.into_iter().collect();
    let head = from - 1;
    let mut log = log.clone();
    let mut erase = vec![
        Erase::Events {
            log_no: log.log_no,
            family: log.family,
            events,
        },
        Erase::Items {
            index_no: log.index_no,
            from: head + 1,
        },
    ];
    let mut runs = Vec::new();
    if head == keep {
        // The runs as they were at the last event that somebody reads. Chain
        // and count belong to the head of a session; nobody asks a log without
        // one for them, and what is damaged must not keep it from going.
        let last_run = Line::new(txn, log.clone())?.runs_at(head)?;
        (log.runs, log.tail) = (last_run, Tail::default());
        (log.chain, log.items) = (EMPTY_CHAIN, 0);
        erase.push(Erase::Runs {
            log_no: log.log_no,
            above: last_run,
        });
        let mut after = 0;
        loop {
            let rows = txn.runs(log.log_no, after, SLICE)?;
            let full = rows.len() == SLICE;
            after = rows.last().map_or(after, |run| run.run_no);
            for mut run in rows {
                if run.run_no <= last_run && run.terminal.is_some_and(|end| end > head) {
                    (run.terminal, run.output) = (None, false);
                    runs.push(run);
                }
            }
            if !full {
                break;
            }
        }
    }
    log.head = head;
    log.index_head = log.index_head.min(head);
    Ok(Writes {
        erase,
        log: Some(log),
        runs,
        ..Writes::default()
    })
}
