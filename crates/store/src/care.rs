//! Replaying the events of a session, and verifying one: work in proportion to
//! the session, in slices.

use crate::blob;
use crate::contrib;
use crate::engine::Snapshot;
use crate::index::{Items, Stored, open_run};
use crate::line::{Line, first_at, last_at};
use crate::member;
use crate::plan::{run_of, session_line};
use crate::port::{BlobId, Finding, IndexStatus, MAX_BATCH_EVENTS, VerifyReport};
use crate::rows::{EventRef, EventRow, FoundEvent, LogRow, RunRow, SegRow};
use crate::{ErrorKind, StoreError};
use folio_codec::{
    Digest, EMPTY_CHAIN, chain_next, event_digest, fact_digest, facts_chain_next, hash64,
};
use folio_core::assign::Tail;
use folio_core::claims::claims;
use folio_core::item::LanePart;
use folio_core::{Direction, Item, PROJECTION_VERSION, Position};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Events that one slice reads.
const SLICE: usize = 1_000;
/// Bytes that one slice reads.
const SLICE_BYTES: usize = 8 << 20;
/// Runs that are read at once.
const RUNS: usize = 64;

/// How far an index is.
pub(crate) fn index_status(line: &Line<'_>) -> Result<IndexStatus, StoreError> {
    let log = &line.log;
    let (index_head, version) = line.index_state(log.head)?;
    Ok(IndexStatus {
        version,
        index_head,
        head: log.head,
        items: log.items,
    })
}

/// Reads what is stored under the hashes of identities.
pub(crate) type LookUp<'a> = &'a mut dyn FnMut(Vec<u64>) -> Result<Vec<Stored>, StoreError>;

/// Reads the events of a line in order and follows its runs.
pub(crate) struct Replay {
    pub(crate) tail: Tail,
    runs: HashMap<u32, Arc<RunRow>>,
    next: u64,
    /// The last ordinal.
    last: u64,
}

impl Replay {
    /// The events behind an ordinal, at which `tail` holds.
    pub(crate) fn behind(ordinal: u64, tail: Tail, last: u64) -> Self {
        Self {
            tail,
            runs: HashMap::new(),
            next: ordinal + 1,
            last,
        }
    }

    /// The last ordinal that was replayed.
    pub(crate) fn at(&self) -> u64 {
        self.next - 1
    }

    pub(crate) fn is_done(&self) -> bool {
        self.next > self.last
    }

    /// The next whole rows, in order.
    fn slice(&mut self, line: &Line<'_>) -> Result<Vec<EventRow>, StoreError> {
        let found = line.events(self.next, self.last, SLICE, SLICE_BYTES)?;
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
        if rows.is_empty() && !self.is_done() {
            return Err(StoreError::gap(vec![self.next]));
        }
        Ok(rows)
    }

    /// The run of an event, opened in the tail at its first one.
    fn enter(&mut self, line: &Line<'_>, row: EventRef<'_>) -> Result<Arc<RunRow>, StoreError> {
        let run = self.run(line, row.run_no)?;
        if run.opened == row.ordinal {
            let turn = run.spine.turn_id.as_str();
            let mut before = line.last_run_of_turn(turn, run.run_no)?;
            while let Some(other) = &before {
                if other.output && other.terminal.is_some_and(|end| end < row.ordinal) {
                    break;
                }
                before = line.last_run_of_turn(turn, other.run_no)?;
            }
            open_run(&mut self.tail, &run, before.as_ref());
        }
        if let Some(open) = self.tail.run_mut(row.run_no) {
            open.next_seq = row.run_seq + 1;
        }
        Ok(run)
    }

    /// The run of an event. Those that were opened next are read along: their
    /// events come next.
    fn run(&mut self, line: &Line<'_>, run_no: u32) -> Result<Arc<RunRow>, StoreError> {
        if let Some(run) = self.runs.get(&run_no) {
            return Ok(Arc::clone(run));
        }
        for run in line.runs(run_no.saturating_sub(1), RUNS)? {
            self.runs.entry(run.run_no).or_insert_with(|| Arc::new(run));
        }
        match self.runs.get(&run_no) {
            Some(run) => Ok(Arc::clone(run)),
            None => run_of(line, run_no).map(Arc::new),
        }
    }

    /// Closes the run of its terminal event.
    fn leave(&mut self, run: &RunRow, terminal: bool) {
        if terminal {
            self.tail.close_run(run.run_no);
            self.runs.remove(&run.run_no);
        }
    }

    /// Indexes the next events on top of `items`, at most so many ordinals.
    pub(crate) fn index(
        &mut self,
        line: &Line<'_>,
        items: &mut Items,
        ordinals: u64,
        look_up: LookUp<'_>,
    ) -> Result<(), StoreError> {
        let to = self.last.min(self.next.saturating_add(ordinals - 1));
        let mut indexed = Ok(());
        line.visit_events(self.next, to, &mut |row| {
            if indexed.is_ok() {
                indexed = self.index_event(line, items, row, look_up);
            }
        })?;
        indexed?;
        if self.next <= to {
            return Err(StoreError::gap(vec![self.next]));
        }
        Ok(())
    }

    fn index_event(
        &mut self,
        line: &Line<'_>,
        items: &mut Items,
        row: EventRef<'_>,
        look_up: LookUp<'_>,
    ) -> Result<(), StoreError> {
        if row.ordinal != self.next {
            return Err(StoreError::gap(vec![self.next]));
        }
        let view = folio_codec::decode_event(row.form, row.body)?;
        let run = self.enter(line, row)?;
        let claims = claims(&view, &run.spine, run.inline);
        let missing = items.missing(&claims, &view, &run.spine, &self.tail);
        if !missing.is_empty() {
            for stored in look_up(missing)? {
                items.learn(stored);
            }
        }
        if let Some(id) = &claims.revises
            && let Some(known) = crate::plan::lookup(line, id)?
        {
            items.learn_event(id, known.ordinal);
        }
        items.index_claims(&claims, &view, &run, row.ordinal, &mut self.tail);
        self.leave(&run, view.is_terminal());
        self.next += 1;
        Ok(())
    }
}

/// The runs that were open at an ordinal.
fn open_at(line: &Line<'_>, ordinal: u64) -> Result<Vec<RunRow>, StoreError> {
    let last = line.runs_at(ordinal)?;
    if last == 0 {
        return Ok(Vec::new());
    }
    // Every run knows which ones were open when it opened.
    let last = run_of(line, last)?;
    let mut open = Vec::new();
    for run_no in &last.open_before {
        open.push(run_of(line, *run_no)?);
    }
    open.push(last);
    open.retain(|run| run.terminal.is_none_or(|terminal| terminal > ordinal));
    Ok(open)
}

/// What had to be remembered at an ordinal. Costs nothing where no run was
/// open, else as much as the runs that were.
pub(crate) fn tail_at(line: &Line<'_>, ordinal: u64) -> Result<Tail, StoreError> {
    // Back to where no run was open: there nothing had to be remembered.
    let mut start = ordinal + 1;
    let mut earliest = open_at(line, ordinal)?.iter().map(|run| run.opened).min();
    while let Some(opened) = earliest {
        start = opened;
        let before = open_at(line, opened - 1)?;
        earliest = before.iter().map(|run| run.opened).min();
    }
    let mut replay = Replay::behind(start - 1, Tail::default(), ordinal);
    let mut items = Items::as_of(start - 1);
    let until = items.until();
    while !replay.is_done() {
        replay.index(line, &mut items, SLICE as u64, &mut |missing| {
            let read = |hash| Stored::read(line, hash, until);
            missing.into_iter().map(read).collect()
        })?;
    }
    Ok(replay.tail)
}

/// The number of items up to an ordinal.
pub(crate) fn items_at(line: &Line<'_>, ordinal: u64) -> Result<u64, StoreError> {
    let last = line.items(last_at(ordinal), Direction::Older, 1)?;
    Ok(last.first().map_or(0, |item| item.number))
}

/// Recomputes every digest of a session and compares its index with one made
/// anew in memory.
pub(crate) fn verify(snapshot: &dyn Snapshot, id: &str) -> Result<VerifyReport, StoreError> {
    let (_, line) = session_line(snapshot, id)?;
    let mut report = VerifyReport::default();
    let complete = verify_events(&line, &mut report)?;
    let (index_head, version) = line.index_state(line.log.head)?;
    if complete && version == PROJECTION_VERSION && index_head == line.log.head {
        verify_index(&line, &mut report)?;
    } else if complete {
        let message = format!("the index is at {index_head} of {}", line.log.head);
        report.findings.push(Finding {
            code: "index_stale",
            at: Some(index_head),
            message,
        });
    }
    verify_facts(snapshot, &line.log, &mut report)?;
    verify_blobs(&line, &mut report)?;
    Ok(report)
}

/// Answers whether every event is there and whole.
fn verify_events(line: &Line<'_>, report: &mut VerifyReport) -> Result<bool, StoreError> {
    let log = &line.log;
    let findings_before = report.findings.len();
    let mut chain = EMPTY_CHAIN;
    let mut next = 1;
    let mut sequences: HashMap<u32, u64> = HashMap::new();
    let mut spines: HashMap<u32, RunRow> = HashMap::new();
    while next <= log.head {
        let found = line.events(next, log.head, SLICE, SLICE_BYTES)?;
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
                let last = ordinal.saturating_sub(1);
                let message = format!("events {next} to {last} are missing");
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
                    let run = run_of(line, row.run_no)?;
                    if !run_is_found(line, &run)? {
                        let message = format!("run {} is not found by its ids", run.spine.run_id);
                        finding("lookup_mismatch", message);
                    }
                    new.insert(run)
                }
            };
            if !line.event_ids(view.id)?.contains(&ordinal) {
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
            if !view.stored.is_empty() {
                let cited = cited_at(line, ordinal)?;
                if let Some(message) = member::finding(line.snapshot(), view.stored, &cited)? {
                    finding("member_missing", message);
                }
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

/// What an event cites.
fn cited_at(line: &Line<'_>, ordinal: u64) -> Result<Vec<Digest>, StoreError> {
    let log_no = line.log_of(ordinal);
    let mut cited = Vec::new();
    // Mostly few; those of the events behind it are not asked for.
    for limit in [4, MAX_BATCH_EVENTS] {
        cited = line.snapshot().citations(log_no, ordinal, limit)?;
        if cited.len() < limit || cited.last().is_some_and(|(at, _)| *at != ordinal) {
            break;
        }
    }
    cited.retain(|(at, _)| *at == ordinal);
    Ok(cited.into_iter().map(|(_, sha)| sha).collect())
}

/// Whether a run is found by each of its ids.
fn run_is_found(line: &Line<'_>, run: &RunRow) -> Result<bool, StoreError> {
    let spine = &run.spine;
    let found = [
        line.run_by_id(spine.run_id.as_str())?,
        line.run_by_invocation(spine.invocation_id.as_str())?,
        line.last_run_of_turn(spine.turn_id.as_str(), run.run_no.saturating_add(1))?,
    ];
    Ok(found.iter().all(|found| {
        found
            .as_ref()
            .is_some_and(|found| found.run_no == run.run_no)
    }))
}

fn verify_index(line: &Line<'_>, report: &mut VerifyReport) -> Result<(), StoreError> {
    let mut replay = Replay::behind(0, Tail::default(), line.log.head);
    let mut items = Items::new(0, 0);
    let mut wanted: HashMap<Position, Item> = HashMap::new();
    let mut chunks: BTreeMap<(Position, LanePart), Vec<SegRow>> = BTreeMap::new();
    while !replay.is_done() {
        for row in replay.slice(line)? {
            let view = folio_codec::decode_event(row.form, &row.body)?;
            let run = replay.enter(line, row.borrowed())?;
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
    let mut from = first_at(0);
    loop {
        let stored = match line.items(from, Direction::Newer, SLICE) {
            Ok(stored) => stored,
            Err(error) if error.kind() == ErrorKind::Corrupt => {
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
            let same_identity = line.items_by_hash(hash64(item.base().as_bytes()));
            let found = match same_identity {
                Ok(found) => found.iter().any(|found| found.position == item.position),
                Err(error) if error.kind() == ErrorKind::Corrupt => false,
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
    verify_chunks(line, chunks, report)
}

/// Compares where the chunks of every lane are said to stand.
fn verify_chunks(
    line: &Line<'_>,
    chunks: BTreeMap<(Position, LanePart), Vec<SegRow>>,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    for ((position, lane), wanted) in chunks {
        let mut from = 0;
        let mut rest = wanted.as_slice();
        loop {
            let stored = line.segs(position, lane, from, line.log.head, SLICE)?;
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
    let contribs = snapshot.contrib_logs(log.log_no)?;
    if let Some(message) = contrib::miscount(log, &contribs) {
        report.findings.push(Finding {
            code: "row_damaged",
            at: None,
            message,
        });
    }
    for contrib in contribs {
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
                let digest = fact.withheld.unwrap_or_else(|| fact_digest(&fact.body));
                chain = facts_chain_next(&chain, fact.seq, &digest);
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

/// Recomputes the digests of the blobs that events cite.
fn verify_blobs(line: &Line<'_>, report: &mut VerifyReport) -> Result<(), StoreError> {
    let snapshot = line.snapshot();
    let mut seen = HashSet::new();
    for (from, upto, log_no) in line.logs(line.log.head) {
        let mut next = from;
        loop {
            // More than one event can cite, so that a slice reaches the next.
            let limit = MAX_BATCH_EVENTS + 1;
            let cited = snapshot.citations(log_no, next, limit)?;
            let full = cited.len() == limit;
            for (ordinal, sha) in &cited {
                if *ordinal > upto || !seen.insert(*sha) {
                    continue;
                }
                report.blobs += 1;
                let (id, at) = (BlobId(*sha), Some(*ordinal));
                let finding = match blob::digest(snapshot, &id) {
                    Ok(found) if found == *sha => continue,
                    Ok(_) => ("blob_damaged", format!("blob {id} is not its content")),
                    Err(error) if error.code() == "blob_not_found" => (
                        "blob_missing",
                        format!("blob {id}, which is cited, is missing"),
                    ),
                    Err(error) if error.kind() == ErrorKind::Corrupt => {
                        ("blob_damaged", error.to_string())
                    }
                    Err(error) => return Err(error),
                };
                let (code, message) = finding;
                report.findings.push(Finding { code, at, message });
            }
            match cited.last() {
                // A slice that ends inside an event is read again from there.
                Some((last, _)) if full && *last <= upto => next = *last,
                _ => break,
            }
        }
    }
    Ok(())
}
