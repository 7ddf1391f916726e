//! Rebuilding an index and verifying a session: work in proportion to the
//! session, in slices.

use crate::StoreError;
use crate::engine::{Counters, Snapshot, WriteTxn, Writes};
use crate::index::{Items, Wanted, open_run};
use crate::plan::session_and_log;
use crate::port::{Finding, IndexStatus, VerifyReport};
use crate::rows::{EventRow, FoundEvent, LogRow, RunRow, SegRow};
use folio_codec::{EMPTY_CHAIN, chain_next, event_digest, fact_digest, facts_chain_next, hash64};
use folio_core::assign::Tail;
use folio_core::item::LanePart;
use folio_core::{Direction, Item, PROJECTION_VERSION, Position};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Events that one slice reads.
const SLICE: usize = 1_000;
/// Bytes that one slice reads.
const SLICE_BYTES: usize = 8 << 20;

/// How far an index is.
pub(crate) fn index_status(log: &LogRow) -> IndexStatus {
    IndexStatus {
        version: log.index_version,
        index_head: log.index_head,
        head: log.head,
        items: log.items,
    }
}

/// Reads the events of a log in order and follows its runs.
struct Replay {
    tail: Tail,
    runs: HashMap<u32, RunRow>,
    next: u64,
}

impl Replay {
    fn new() -> Self {
        Self {
            tail: Tail::default(),
            runs: HashMap::new(),
            next: 1,
        }
    }

    /// The next whole rows, in order.
    fn slice(
        &mut self,
        snapshot: &dyn Snapshot,
        log: &LogRow,
    ) -> Result<Vec<EventRow>, StoreError> {
        let found = snapshot.events(log.log_no, self.next, log.head, SLICE, SLICE_BYTES)?;
        let mut rows = Vec::with_capacity(found.len());
        for found in found {
            match found {
                FoundEvent::Whole(row) if row.ordinal == self.next => {
                    self.next += 1;
                    rows.push(row);
                }
                _ => return Err(StoreError::gap(vec![self.next])),
            }
        }
        if rows.is_empty() && self.next <= log.head {
            return Err(StoreError::gap(vec![self.next]));
        }
        Ok(rows)
    }

    /// The run of an event, opened in the tail at its first one.
    fn enter(
        &mut self,
        snapshot: &dyn Snapshot,
        log: &LogRow,
        row: &EventRow,
    ) -> Result<RunRow, StoreError> {
        let known = self.runs.get(&row.run_no).cloned();
        let run = match known {
            Some(run) => run,
            None => crate::plan::run_of(snapshot, log.log_no, row.run_no)?,
        };
        if run.opened == row.ordinal {
            let turn = run.spine.turn_id.as_str();
            let mut before = snapshot.last_run_of_turn(log.log_no, turn, run.run_no)?;
            while let Some(other) = &before {
                if other.output && other.terminal.is_some_and(|end| end < row.ordinal) {
                    break;
                }
                before = snapshot.last_run_of_turn(log.log_no, turn, other.run_no)?;
            }
            open_run(&mut self.tail, &run, before.as_ref());
        }
        self.runs.insert(row.run_no, run.clone());
        Ok(run)
    }

    /// Closes the run of its terminal event.
    fn leave(&mut self, run: &RunRow, terminal: bool) {
        if terminal {
            self.tail.close_run(run.run_no);
            self.runs.remove(&run.run_no);
        }
    }
}

/// Makes a session's index anew, as a generation of its own, and drops the
/// old one in the same transaction.
pub(crate) fn rebuild(txn: &mut dyn WriteTxn, id: &str) -> Result<IndexStatus, StoreError> {
    let (_, mut log) = session_and_log(txn, id)?;
    let counters = txn.counters()?;
    let index_no = counters.index_no + 1;
    let old = log.index_no;
    log.index_no = index_no;
    txn.apply(&Writes {
        counters: Some(Counters {
            index_no,
            ..counters
        }),
        log: Some(log.clone()),
        ..Writes::default()
    })?;
    let mut replay = Replay::new();
    let mut items = Items::new(0);
    while replay.next <= log.head {
        let rows = replay.slice(txn, &log)?;
        let mut wanted = Wanted::default();
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            let view = folio_codec::decode_event(row.form, &row.body)?;
            let run = replay_run(&mut replay, txn, &log, row)?;
            wanted.add(&view, &run.spine);
            events.push((row, view, run));
        }
        wanted.add_requests(&replay.tail);
        items.fetch(txn, index_no, &wanted)?;
        for id in &wanted.revised {
            if let Some(known) = crate::plan::lookup(txn, &log, id)? {
                items.learn_event(id, known.ordinal);
            }
        }
        for (row, view, run) in &events {
            replay.enter(txn, &log, row)?;
            items.index(view, run, row.ordinal, &mut replay.tail);
            replay.leave(run, view.is_terminal());
        }
        let (changed, segs) = items.take_writes();
        items.forget();
        txn.apply(&Writes {
            log: Some(log.clone()),
            items: changed,
            segs,
            ..Writes::default()
        })?;
    }
    log.items = items.count;
    log.index_version = PROJECTION_VERSION;
    log.index_head = log.head;
    // The marks and requests are the index's part of the tail; the runs are
    // the log's own.
    log.tail.marks = replay.tail.marks;
    log.tail.requests = replay.tail.requests;
    let status = index_status(&log);
    txn.apply(&Writes {
        log: Some(log),
        drop_index: Some(old),
        ..Writes::default()
    })?;
    Ok(status)
}

/// The run of an event, without opening it yet.
fn replay_run(
    replay: &mut Replay,
    snapshot: &dyn Snapshot,
    log: &LogRow,
    row: &EventRow,
) -> Result<RunRow, StoreError> {
    match replay.runs.get(&row.run_no) {
        Some(run) => Ok(run.clone()),
        None => crate::plan::run_of(snapshot, log.log_no, row.run_no),
    }
}

/// Recomputes every digest of a session and compares its index with one made
/// anew in memory.
pub(crate) fn verify(snapshot: &dyn Snapshot, id: &str) -> Result<VerifyReport, StoreError> {
    let (_, log) = session_and_log(snapshot, id)?;
    let mut report = VerifyReport::default();
    let complete = verify_events(snapshot, &log, &mut report)?;
    if complete && log.index_is_current() {
        verify_index(snapshot, &log, &mut report)?;
    } else if complete {
        let message = format!("the index is at {} of {}", log.index_head, log.head);
        report.findings.push(Finding {
            code: "index_stale",
            at: Some(log.index_head),
            message,
        });
    }
    verify_facts(snapshot, &log, &mut report)?;
    Ok(report)
}

/// Answers whether every event is there and whole.
fn verify_events(
    snapshot: &dyn Snapshot,
    log: &LogRow,
    report: &mut VerifyReport,
) -> Result<bool, StoreError> {
    let findings_before = report.findings.len();
    let mut chain = EMPTY_CHAIN;
    let mut next = 1;
    let mut sequences: HashMap<u32, u64> = HashMap::new();
    let mut spines: HashMap<u32, RunRow> = HashMap::new();
    while next <= log.head {
        let found = snapshot.events(log.log_no, next, log.head, SLICE, SLICE_BYTES)?;
        if found.is_empty() {
            let message = format!("events {next} to {} are missing", log.head);
            report.findings.push(Finding {
                code: "event_missing",
                at: Some(next),
                message,
            });
            break;
        }
        for found in found {
            let ordinal = found.ordinal();
            if ordinal != next {
                let message = format!("events {next} to {} are missing", ordinal - 1);
                report.findings.push(Finding {
                    code: "event_missing",
                    at: Some(next),
                    message,
                });
            }
            next = ordinal + 1;
            report.events += 1;
            let FoundEvent::Whole(row) = found else {
                let message = format!("event {ordinal} does not fit its checksum");
                report.findings.push(Finding {
                    code: "event_damaged",
                    at: Some(ordinal),
                    message,
                });
                continue;
            };
            let mut finding = |code, message| {
                report.findings.push(Finding {
                    code,
                    at: Some(ordinal),
                    message,
                });
            };
            let view = match folio_codec::decode_event(row.form, &row.body) {
                Ok(view) => view,
                Err(error) => {
                    finding("undecodable", error.to_string());
                    continue;
                }
            };
            let run = match spines.entry(row.run_no) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let run = crate::plan::run_of(snapshot, log.log_no, row.run_no)?;
                    if !run_is_found(snapshot, log.log_no, &run)? {
                        let message = format!("run {} is not found by its ids", run.spine.run_id);
                        finding("lookup_mismatch", message);
                    }
                    new.insert(run)
                }
            };
            if !snapshot
                .event_ids(log.family, hash64(view.id.as_bytes()))?
                .contains(&ordinal)
            {
                finding(
                    "lookup_mismatch",
                    format!("event {} is not found by its id", view.id),
                );
            }
            let sequence = sequences.entry(row.run_no).or_default();
            *sequence += 1;
            if *sequence != row.run_seq {
                let message = format!("event_seq is {}, not {sequence}", row.run_seq);
                finding("event_seq", message);
                // What follows is judged by where it goes on.
                *sequence = row.run_seq;
            }
            if view.is_terminal() != (run.terminal == Some(ordinal)) {
                finding(
                    "run_header",
                    format!("run {} disagrees about its end", run.spine.run_id),
                );
            }
            let digest = event_digest(&view, &run.spine);
            chain = chain_next(&chain, ordinal, row.run_seq, &digest);
            if chain != row.chain {
                finding(
                    "chain_mismatch",
                    format!("the chain breaks at event {ordinal}"),
                );
                chain = row.chain;
            }
        }
    }
    if chain != log.chain {
        let message = "the chain at the head is not the log's".to_owned();
        report.findings.push(Finding {
            code: "chain_mismatch",
            at: Some(log.head),
            message,
        });
    }
    Ok(report.findings.len() == findings_before)
}

/// Whether a run is found by each of its ids.
fn run_is_found(snapshot: &dyn Snapshot, log_no: u64, run: &RunRow) -> Result<bool, StoreError> {
    let spine = &run.spine;
    let found = [
        snapshot.run_by_id(log_no, spine.run_id.as_str())?,
        snapshot.run_by_invocation(log_no, spine.invocation_id.as_str())?,
        snapshot.last_run_of_turn(log_no, spine.turn_id.as_str(), run.run_no.saturating_add(1))?,
    ];
    Ok(found.iter().all(|found| {
        found
            .as_ref()
            .is_some_and(|found| found.run_no == run.run_no)
    }))
}

fn verify_index(
    snapshot: &dyn Snapshot,
    log: &LogRow,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    let mut replay = Replay::new();
    let mut items = Items::new(0);
    let mut wanted: HashMap<Position, Item> = HashMap::new();
    let mut chunks: BTreeMap<(Position, LanePart), Vec<SegRow>> = BTreeMap::new();
    while replay.next <= log.head {
        for row in replay.slice(snapshot, log)? {
            let view = folio_codec::decode_event(row.form, &row.body)?;
            let run = replay.enter(snapshot, log, &row)?;
            items.learn_event(view.id, row.ordinal);
            items.index(&view, &run, row.ordinal, &mut replay.tail);
            replay.leave(&run, view.is_terminal());
        }
        let (changed, segs) = items.take_writes();
        for write in changed {
            wanted.insert(write.item.position, write.item);
        }
        for seg in segs {
            chunks
                .entry((seg.position, seg.lane))
                .or_default()
                .push(seg);
        }
    }
    let mut from = Position {
        ordinal: 0,
        slot: 0,
    };
    loop {
        let stored = match snapshot.items(log.index_no, from, Direction::Newer, SLICE) {
            Ok(stored) => stored,
            Err(error) if error.kind() == crate::ErrorKind::Corrupt => {
                let message = error.to_string();
                report.findings.push(Finding {
                    code: "index_damaged",
                    at: None,
                    message,
                });
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let Some(last) = stored.last() else { break };
        from = Position {
            slot: last.position.slot + 1,
            ..last.position
        };
        for item in stored {
            report.items += 1;
            let same_identity =
                snapshot.items_by_hash(log.index_no, hash64(item.base().as_bytes()));
            let found = match same_identity {
                Ok(found) => found.iter().any(|found| found.position == item.position),
                Err(error) if error.kind() == crate::ErrorKind::Corrupt => false,
                Err(error) => return Err(error),
            };
            if !found {
                let message = format!("item {} is not found by its key", item.key);
                let at = Some(item.position.ordinal);
                report.findings.push(Finding {
                    code: "lookup_mismatch",
                    at,
                    message,
                });
            }
            if wanted.remove(&item.position).as_ref() != Some(&item) {
                let message = format!("item {} is not what its events make it", item.key);
                let at = Some(item.position.ordinal);
                report.findings.push(Finding {
                    code: "index_mismatch",
                    at,
                    message,
                });
            }
        }
    }
    for (position, item) in wanted {
        let message = format!("item {} is missing from the index", item.key);
        let at = Some(position.ordinal);
        report.findings.push(Finding {
            code: "index_mismatch",
            at,
            message,
        });
    }
    verify_chunks(snapshot, log, chunks, report)
}

/// Compares where the chunks of every lane are said to stand.
fn verify_chunks(
    snapshot: &dyn Snapshot,
    log: &LogRow,
    chunks: BTreeMap<(Position, LanePart), Vec<SegRow>>,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    for ((position, lane), wanted) in chunks {
        let mut from = 0;
        let mut rest = wanted.as_slice();
        loop {
            let stored =
                snapshot.segs(log.index_no, position, lane, from, u64::MAX >> 31, SLICE)?;
            let same = rest.starts_with(&stored) && (!stored.is_empty() || rest.is_empty());
            if !same {
                let message = format!(
                    "the chunks of the item at ordinal {} are not what its events make them",
                    position.ordinal
                );
                let (code, at) = ("index_mismatch", Some(position.ordinal));
                report.findings.push(Finding { code, at, message });
                break;
            }
            rest = rest.get(stored.len()..).unwrap_or_default();
            match stored.last() {
                Some(last) if !rest.is_empty() => from = last.last + 1,
                _ => break,
            }
        }
    }
    Ok(())
}

fn verify_facts(
    snapshot: &dyn Snapshot,
    log: &LogRow,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    for contrib in snapshot.contrib_logs(log.log_no)? {
        let mut chain = EMPTY_CHAIN;
        let mut next = 1;
        while next <= contrib.head {
            let facts = snapshot.facts(contrib.contrib_no, next, SLICE)?;
            if facts.first().map(|fact| fact.seq) != Some(next) {
                let message = format!("entry {next} of {} is missing", contrib.source);
                report.findings.push(Finding {
                    code: "fact_missing",
                    at: Some(next),
                    message,
                });
                break;
            }
            for fact in facts {
                report.facts += 1;
                let by_id = snapshot.facts_by_id(contrib.contrib_no, hash64(fact.id.as_bytes()))?;
                let before = fact.seq.checked_sub(1).map(|seq| (fact.anchor, seq));
                let (no, newer) = (contrib.contrib_no, Direction::Newer);
                let by_anchor = snapshot.facts_by_anchor(no, before, newer, 1)?;
                let found = by_id.iter().any(|found| found.seq == fact.seq)
                    && by_anchor.first().is_some_and(|found| found.seq == fact.seq);
                if !found {
                    let message = format!(
                        "entry {} of {} is not found by its id and anchor",
                        fact.seq, contrib.source
                    );
                    let (code, at) = ("lookup_mismatch", Some(fact.seq));
                    report.findings.push(Finding { code, at, message });
                }
                chain = facts_chain_next(&chain, fact.seq, &fact_digest(&fact.body));
                if fact.seq != next || chain != fact.chain {
                    let message = format!("the chain of {} breaks at {}", contrib.source, fact.seq);
                    let (code, at) = ("chain_mismatch", Some(fact.seq));
                    report.findings.push(Finding { code, at, message });
                    chain = fact.chain;
                }
                next = fact.seq + 1;
            }
        }
        if chain != contrib.chain {
            let message = format!(
                "the chain at the head of {} is not its log's",
                contrib.source
            );
            report.findings.push(Finding {
                code: "chain_mismatch",
                at: Some(contrib.head),
                message,
            });
        }
    }
    Ok(())
}
