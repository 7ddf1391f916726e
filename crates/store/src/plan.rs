//! The decision about an append: `needs -> found -> plan`.
//!
//! [`prepare`] checks and digests a batch on the caller's thread. [`needs`]
//! lists what the decision has to know, [`fetch`] reads it in the write
//! transaction, and [`plan`] decides: it answers the outcome together with the
//! rows to write, or a refusal with nothing to write. `needs` and `plan` are
//! pure; no adapter decides anything.

use crate::contrib;
use crate::engine::{Counters, Snapshot, Writes};
use crate::index::{Items, Wanted, open_run};
use crate::line::Line;
use crate::member;
use crate::port::{
    AppendBatch, BlobId, Committed, ContributionBatch, Lease, MAX_BATCH_BYTES, MAX_BATCH_EVENTS,
    MAX_SOURCES, NOTES, Placement, Writer,
};
use crate::rows::{ContribLogRow, EventRow, FactRow, LogRow, RunRow, SessionRow};
use crate::{ErrorKind, StoreError};
use folio_codec::{
    Digest, EMPTY_CHAIN, chain_next, encode_event, event_digest, fact_digest, facts_chain_next,
    hash64,
};
use folio_core::reduce::RunFacts;
use folio_core::{Authority, CanonicalEvent, EventView, Fact, Field, SessionId, Spine};
use std::collections::{HashMap, HashSet};

/// An event, digested and packed.
#[derive(Debug)]
pub(crate) struct Prepared {
    event: CanonicalEvent,
    digest: Digest,
    form: u8,
    body: Vec<u8>,
}

/// A fact, digested.
#[derive(Debug)]
struct PreparedFact {
    fact: Fact,
    body: String,
    digest: Digest,
    /// Whether the digest is that of a fact whose payload is gone.
    withheld: bool,
}

/// A batch whose events are checked, digested and packed.
#[derive(Debug)]
pub(crate) struct PreparedBatch {
    events: Vec<Prepared>,
    source: Option<String>,
    facts: Vec<PreparedFact>,
    expected_head: Option<u64>,
    writer: Writer,
    import_ref: Option<String>,
    lease: Option<Lease>,
    cites: Vec<(usize, BlobId)>,
    /// Members that were not stored when they were to be looked at: only an
    /// event that is present may name one.
    pub(crate) unseen: Vec<BlobId>,
}

/// Checks the limits of a batch and does the work that needs no store.
pub(crate) fn prepare(id: &SessionId, batch: AppendBatch) -> Result<PreparedBatch, StoreError> {
    let AppendBatch {
        events,
        contributions,
        expected_head,
        writer,
        import_ref,
        lease,
        mut cites,
        flush: _,
    } = batch;
    let (source, facts, withheld) = match contributions {
        Some(ContributionBatch {
            source,
            facts,
            withheld,
        }) => (Some(source), facts, withheld),
        None => (None, Vec::new(), Vec::new()),
    };
    if !withheld.is_empty() && writer == Writer::Native {
        let message = "facts without their payload are only in a copy of a redacted session";
        return Err(StoreError::invalid("event_withheld", message));
    }
    if let Some(event) = events.iter().find(|event| event.session_id != *id) {
        let message = format!(
            "event {} was made for session {}, not for {id}: append it there",
            event.id, event.session_id
        );
        return Err(StoreError::invalid("session_mismatch", message));
    }
    if let Some(event) = events.iter().find(|event| event.withheld.is_some())
        && writer == Writer::Native
    {
        let message = format!(
            "event {} is without its payload; only a copy of a redacted session holds such",
            event.id
        );
        return Err(StoreError::invalid("event_withheld", message));
    }
    if let Some((at, id)) = cites.iter().find(|(at, _)| *at >= events.len()) {
        let message = format!("blob {id} is cited by event {at} of {}", events.len());
        return Err(StoreError::invalid("citation_invalid", message));
    }
    for (at, event) in events.iter().enumerate() {
        for id in member::blobs(event) {
            if !cites.contains(&(at, id)) {
                cites.push((at, id));
            }
        }
    }
    if cites.len() > MAX_BATCH_EVENTS {
        let count = cites.len();
        let message = format!("a batch of {count} citations; {MAX_BATCH_EVENTS} is the most");
        return Err(StoreError::invalid("limit_exceeded", message));
    }
    if let Some(source) = &source {
        check_source(source)?;
    }
    let count = events.len() + facts.len();
    if count > MAX_BATCH_EVENTS {
        let message = format!("a batch of {count} entries; {MAX_BATCH_EVENTS} is the most");
        return Err(StoreError::invalid("limit_exceeded", message));
    }
    let facts: Vec<_> = facts
        .into_iter()
        .enumerate()
        .map(|(at, fact)| {
            let body = fact.canonical();
            let withheld = withheld.iter().find(|(of, _)| *of == at);
            PreparedFact {
                digest: withheld.map_or_else(|| fact_digest(&body), |(_, digest)| *digest),
                withheld: withheld.is_some(),
                fact,
                body,
            }
        })
        .collect();
    let bytes = events.iter().map(|event| event.text.len()).sum::<usize>()
        + facts.iter().map(|fact| fact.body.len()).sum::<usize>();
    if bytes > MAX_BATCH_BYTES && count > 1 {
        let message = format!("a batch of {bytes} bytes; {MAX_BATCH_BYTES} is the most");
        return Err(StoreError::invalid("limit_exceeded", message));
    }
    let events = events
        .into_iter()
        .map(|event| {
            let digest = event_digest(&event.view(), &event.spine);
            let (form, body) = encode_event(&event);
            Prepared {
                event,
                digest,
                form,
                body,
            }
        })
        .collect();
    Ok(PreparedBatch {
        events,
        source,
        facts,
        expected_head,
        writer,
        import_ref,
        lease,
        cites,
        unseen: Vec::new(),
    })
}

/// Whether a contribution log may have this name.
fn check_source(source: &str) -> Result<(), StoreError> {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    if (1..=64).contains(&source.len()) && source.bytes().all(plain) {
        return Ok(());
    }
    let message =
        format!("{source:?} names no source: 1 to 64 of the characters a-z, 0-9, '-', '_' and '.'");
    Err(StoreError::invalid("source_invalid", message))
}

/// What the decision has to know.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    ids: HashSet<String>,
    spines: HashSet<Spine>,
    wanted: Wanted,
}

/// Lists what the decision has to know.
pub(crate) fn needs(batch: &PreparedBatch) -> Needs {
    let mut needs = Needs::default();
    for prepared in &batch.events {
        needs.ids.insert(prepared.event.id.as_str().to_owned());
        needs.spines.insert(prepared.event.spine.clone());
        needs
            .wanted
            .add(&prepared.event.view(), &prepared.event.spine);
    }
    needs
}

/// An event that is stored already.
#[derive(Debug, Clone, Copy)]
struct Known {
    ordinal: u64,
    run_seq: u64,
    digest: Digest,
}

/// What the decision knows.
#[derive(Debug)]
pub(crate) struct Found {
    session: SessionRow,
    /// Whether the handle that holds the session's lease is open.
    leased: bool,
    indexing: bool,
    log: LogRow,
    known: HashMap<String, Known>,
    runs: Vec<RunRow>,
    /// For turns that get a new run: an ended one that had visible output.
    turns: HashMap<String, RunRow>,
    items: Items,
    contrib: Option<ContribLogRow>,
    facts: Vec<FactRow>,
    /// Cited blobs that are not stored.
    missing: Option<BlobId>,
    counters: Counters,
}

/// Reads what the decision has to know.
pub(crate) fn fetch(
    snapshot: &dyn Snapshot,
    session_id: &str,
    batch: &PreparedBatch,
    mut needs: Needs,
    is_alive: &dyn Fn(u64) -> Result<bool, StoreError>,
) -> Result<Found, StoreError> {
    let (session, line) = session_line(snapshot, session_id)?;
    let log = line.log.clone();
    let leased = session.lease_owner != 0 && is_alive(session.lease_owner)?;
    let mut known = HashMap::new();
    for id in needs.ids.iter().chain(&needs.wanted.revised) {
        if let Some(event) = find_event(&line, id)? {
            known.insert(id.clone(), event);
        }
    }
    let mut runs: Vec<RunRow> = Vec::new();
    let mut turns = HashMap::new();
    for spine in &needs.spines {
        let by_id = line.run_by_id(spine.run_id.as_str())?;
        let is_new = by_id.is_none();
        // A run that agrees in all its ids needs no second look.
        let by_spine = match &by_id {
            Some(run) if run.spine == *spine => None,
            _ => line.run_by_invocation(spine.invocation_id.as_str())?,
        };
        for run in [by_id, by_spine].into_iter().flatten() {
            if !runs.iter().any(|known| known.run_no == run.run_no) {
                runs.push(run);
            }
        }
        let turn = spine.turn_id.as_str();
        // Output of any ended run is output of its turn.
        let mut before = u32::MAX;
        while is_new && let Some(run) = line.last_run_of_turn(turn, before)? {
            before = run.run_no;
            if run.terminal.is_some() && run.output {
                turns.insert(turn.to_owned(), run);
                break;
            }
        }
    }
    let mut items = Items::new(log.items, log.base);
    let indexing = line.is_indexed()?;
    if indexing {
        needs.wanted.add_requests(&log.tail);
        items.fetch(&line, &needs.wanted)?;
        for (id, event) in &known {
            items.learn_event(id, event.ordinal);
        }
    }
    let contrib = match &batch.source {
        Some(source) => contrib::log(snapshot, &log, source)?,
        None => None,
    };
    let mut missing = None;
    for (at, id) in &batch.cites {
        // What is present cites what it cited then.
        let present = batch
            .events
            .get(*at)
            .is_some_and(|prepared| known.contains_key(prepared.event.id.as_str()));
        if !present && (batch.unseen.contains(id) || snapshot.blob(&id.0)?.is_none()) {
            missing = Some(*id);
        }
    }
    let mut facts = Vec::new();
    if let Some(contrib) = &contrib {
        for fact in &batch.facts {
            let hash = hash64(fact.fact.id.as_str().as_bytes());
            facts.extend(snapshot.facts_by_id(contrib.contrib_no, hash)?);
        }
    }
    // Only a new contribution log needs a number.
    let counters = match (&contrib, &batch.source) {
        (None, Some(_)) => snapshot.counters()?,
        _ => Counters::default(),
    };
    Ok(Found {
        session,
        leased,
        indexing,
        log,
        known,
        runs,
        turns,
        items,
        contrib,
        facts,
        missing,
        counters,
    })
}

/// A session and what it is read through.
pub(crate) fn session_line<'a>(
    snapshot: &'a dyn Snapshot,
    session_id: &str,
) -> Result<(SessionRow, Line<'a>), StoreError> {
    let (session, log) = session_and_log(snapshot, session_id)?;
    Ok((session, Line::new(snapshot, log)?))
}

/// A session and the log that it writes.
pub(crate) fn session_and_log(
    snapshot: &dyn Snapshot,
    session_id: &str,
) -> Result<(SessionRow, LogRow), StoreError> {
    let session = snapshot
        .session(session_id)?
        .ok_or_else(|| StoreError::no_session(session_id))?;
    let log = log_written_by(snapshot, &session)?;
    Ok((session, log))
}

/// The log that a session writes.
pub(crate) fn log_written_by(
    snapshot: &dyn Snapshot,
    session: &SessionRow,
) -> Result<LogRow, StoreError> {
    snapshot.log(session.log_no)?.ok_or_else(|| {
        StoreError::corrupt(
            "row_damaged",
            format!("the log of session {} is missing", session.session_id),
        )
    })
}

/// The event with an id, with its digest made from what is stored.
fn find_event(line: &Line<'_>, id: &str) -> Result<Option<Known>, StoreError> {
    for ordinal in line.event_ids(id)? {
        let row = line.event(ordinal)?;
        let view = folio_codec::decode_event(row.form, &row.body)?;
        if view.id == id {
            let run = run_of(line, row.run_no)?;
            let digest = event_digest(&view, &run.spine);
            return Ok(Some(Known {
                ordinal,
                run_seq: row.run_seq,
                digest,
            }));
        }
    }
    Ok(None)
}

/// The known events of some ids, for `lookup_ids`.
pub(crate) fn lookup(
    line: &Line<'_>,
    id: &str,
) -> Result<Option<crate::port::KnownEvent>, StoreError> {
    let known = find_event(line, id)?;
    Ok(known.map(
        |Known {
             ordinal, digest, ..
         }| crate::port::KnownEvent { ordinal, digest },
    ))
}

/// The run that an event row names.
pub(crate) fn run_of(line: &Line<'_>, run_no: u32) -> Result<RunRow, StoreError> {
    line.run(run_no)?.ok_or_else(|| {
        let message = format!("run {run_no} of log {} is missing", line.log.log_no);
        StoreError::corrupt("row_damaged", message)
    })
}

/// Whether an authority lets a writer append.
fn check_writer(session: &SessionRow, writer: Writer) -> Result<(), StoreError> {
    let id = &session.session_id;
    match (session.authority, writer) {
        (Authority::Preparing, Writer::Native) => Err(preparing(id.as_str())),
        (Authority::Rejected, _) => Err(rejected(id.as_str())),
        (Authority::RuntimeEvents, Writer::Native) if session.followed => Err(StoreError::new(
            ErrorKind::Conflict,
            "session_followed",
            format!("session {id} is fed by its source; only the importer appends to it"),
        )),
        _ => Ok(()),
    }
}

/// Whether the lease of a session lets a batch in. `leased` says whether its
/// holder is there.
fn check_lease(session: &SessionRow, leased: bool, lease: Option<Lease>) -> Result<(), StoreError> {
    let held = leased.then_some(Lease {
        owner: session.lease_owner,
        epoch: session.lease_epoch,
    });
    match lease {
        Some(lease) if held != Some(lease) => Err(lease_lost(session)),
        None if held.is_some() => Err(session_leased(session)),
        _ => Ok(()),
    }
}

/// Somebody holds the session.
pub(crate) fn session_leased(session: &SessionRow) -> StoreError {
    let message = format!(
        "session {} is held by {}: wait until it is released",
        session.session_id, session.lease_holder
    );
    StoreError::new(ErrorKind::Conflict, "session_leased", message)
}

fn lease_lost(session: &SessionRow) -> StoreError {
    let message = format!(
        "the lease of session {} was given back or taken over: acquire it anew and read on",
        session.session_id
    );
    StoreError::new(ErrorKind::Conflict, "lease_lost", message)
}

/// The session is still being imported.
pub(crate) fn preparing(id: &str) -> StoreError {
    let message = format!("session {id} is being imported; finish or repeat its import first");
    StoreError::new(ErrorKind::Conflict, "session_preparing", message)
}

/// The session could not be imported.
pub(crate) fn rejected(id: &str) -> StoreError {
    let message = format!("session {id} was rejected by its import and holds no transcript");
    StoreError::new(ErrorKind::Conflict, "session_rejected", message)
}

/// A decision: the outcome, and the rows that make it true.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) committed: Committed,
    /// `None` where there is nothing to write.
    pub(crate) writes: Option<Writes>,
}

/// Decides about a batch.
pub(crate) fn plan(found: Found, batch: PreparedBatch, now: u64) -> Result<Plan, StoreError> {
    let mut planner = Planner {
        indexing: found.indexing,
        items: found.items,
        log: found.log,
        runs: found.runs,
        turns: found.turns,
        touched_runs: HashSet::new(),
        events: Vec::new(),
        now,
    };
    let mut session = found.session;
    let mut known = found.known;
    let new = new_events(&batch.events, &mut known)?;
    let changes_ref = batch.import_ref.is_some() && batch.import_ref != session.import_ref;
    let mut counters = found.counters;
    let new_log = found.contrib.is_none();
    let facts = plan_facts(&batch, found.contrib, found.facts, &planner.log, &counters)?;
    if new.iter().any(|is_new| *is_new) || facts.added > 0 || changes_ref {
        check_writer(&session, batch.writer)?;
        check_lease(&session, found.leased, batch.lease)?;
        if let Some(expected) = batch.expected_head.filter(|head| *head != planner.log.head) {
            let actual = planner.log.head;
            let message = format!("the head is {actual}, not {expected}: read on and decide again");
            return Err(
                StoreError::new(ErrorKind::Conflict, "head_mismatch", message)
                    .at(vec![expected, actual]),
            );
        }
    }
    let new_source = new_log && facts.added > 0;
    if new_source && planner.log.sources as usize >= MAX_SOURCES {
        let message = format!(
            "session {} has {MAX_SOURCES} contribution logs; no more fit",
            session.session_id
        );
        return Err(StoreError::invalid("limit_exceeded", message));
    }
    if let Some(id) = found.missing {
        return Err(StoreError::no_blob(&id));
    }
    let mut placements = Vec::with_capacity(batch.events.len());
    for (prepared, is_new) in batch.events.into_iter().zip(new) {
        let id = prepared.event.id.as_str().to_owned();
        if is_new {
            let digest = prepared.digest;
            let (ordinal, event_seq) = planner.place(prepared)?;
            known.insert(
                id,
                Known {
                    ordinal,
                    run_seq: event_seq,
                    digest,
                },
            );
            placements.push(Placement {
                ordinal,
                event_seq,
                present: false,
            });
        } else if let Some(event) = known.get(&id) {
            let (ordinal, event_seq) = (event.ordinal, event.run_seq);
            placements.push(Placement {
                ordinal,
                event_seq,
                present: true,
            });
        }
    }
    if let Some(anchor) = facts
        .highest_anchor
        .filter(|anchor| *anchor > planner.log.head)
    {
        let message = format!("no event {anchor} to anchor a contribution at");
        return Err(StoreError::invalid("anchor_unknown", message).at(vec![anchor]));
    }
    let mut citations: Vec<(u64, Digest)> = Vec::new();
    for (at, id) in &batch.cites {
        if let Some(place) = placements.get(*at).filter(|place| !place.present) {
            citations.push((place.ordinal, id.0));
        }
    }
    let changed = !planner.events.is_empty();
    planner.log.sources += u32::from(new_source);
    let committed = Committed {
        events: placements,
        high_water: planner.log.head,
        chain: planner.log.chain,
        facts_added: facts.added,
        facts_head: facts.log.as_ref().map_or(0, |log| log.head),
    };
    if !changed && facts.added == 0 && !changes_ref {
        return Ok(Plan {
            committed,
            writes: None,
        });
    }
    let (items, segs) = planner.items.take_writes();
    planner.log.items = planner.items.count;
    if planner.indexing {
        planner.log.index_head = planner.log.head;
    }
    let mut writes = Writes {
        log: (changed || new_source).then_some(planner.log),
        events: planner.events,
        items,
        segs,
        citations,
        ..Writes::default()
    };
    let touched = planner.touched_runs;
    writes.runs = planner
        .runs
        .into_iter()
        .filter(|run| touched.contains(&run.run_no))
        .collect();
    if facts.added > 0 {
        if new_source && let Some(log) = &facts.log {
            counters.contrib_no = log.contrib_no;
            writes.counters = Some(counters);
        }
        writes.contributions = facts.log.map(|log| (log, facts.rows)).into_iter().collect();
    }
    if changes_ref {
        session.import_ref = batch.import_ref;
        writes.sessions.push(session);
    }
    Ok(Plan {
        committed,
        writes: Some(writes),
    })
}

/// Which events of a batch are new. A repeated id must carry the same event.
fn new_events(
    events: &[Prepared],
    known: &mut HashMap<String, Known>,
) -> Result<Vec<bool>, StoreError> {
    let mut seen: HashMap<&str, Digest> = HashMap::new();
    let mut new = Vec::with_capacity(events.len());
    for prepared in events {
        let id = prepared.event.id.as_str();
        let stored = known.get(id).map(|event| event.digest);
        let earlier = stored.or_else(|| seen.get(id).copied());
        if earlier.is_some_and(|digest| digest != prepared.digest) {
            let message =
                format!("event {id} exists with another content: give the new one its own id");
            return Err(StoreError::new(
                ErrorKind::Conflict,
                "event_id_conflict",
                message,
            ));
        }
        new.push(earlier.is_none());
        seen.insert(id, prepared.digest);
    }
    Ok(new)
}

struct Planner {
    log: LogRow,
    runs: Vec<RunRow>,
    turns: HashMap<String, RunRow>,
    touched_runs: HashSet<u32>,
    items: Items,
    indexing: bool,
    events: Vec<(EventRow, u64)>,
    now: u64,
}

impl Planner {
    /// Gives an event its place; answers ordinal and event sequence.
    fn place(&mut self, prepared: Prepared) -> Result<(u64, u64), StoreError> {
        let Prepared {
            event,
            digest,
            form,
            body,
        } = prepared;
        let view = event.view();
        let ordinal = self.log.head + 1;
        let at = self.run(&event.spine, &view, ordinal)?;
        let Some(run) = self.runs.get_mut(at) else {
            return Err(StoreError::corrupt(
                "row_damaged",
                "a run vanished while it was planned",
            ));
        };
        let Some(open) = self.log.tail.run_mut(run.run_no) else {
            let message = format!(
                "run {} is open, and the log does not know it",
                event.spine.run_id
            );
            return Err(StoreError::corrupt("row_damaged", message));
        };
        let event_seq = open.next_seq;
        open.next_seq += 1;
        self.log.head = ordinal;
        self.log.chain = chain_next(&self.log.chain, ordinal, event_seq, &digest);
        if self.indexing {
            self.items.learn_event(view.id, ordinal);
            // What was odd about it is told by projections; an append tells
            // only what it refuses.
            self.items.index(&view, run, ordinal, &mut self.log.tail);
        }
        if view.is_terminal() {
            run.terminal = Some(ordinal);
            run.output = self
                .log
                .tail
                .close_run(run.run_no)
                .is_some_and(|open| open.output);
            if run.output {
                self.turns
                    .insert(run.spine.turn_id.as_str().to_owned(), run.clone());
            }
            self.touched_runs.insert(run.run_no);
        }
        self.events.push((
            EventRow {
                ordinal,
                run_no: run.run_no,
                run_seq: event_seq,
                committed_at: self.now,
                form,
                chain: self.log.chain,
                body,
            },
            hash64(view.id.as_bytes()),
        ));
        Ok((ordinal, event_seq))
    }

    /// The run of an event, opened if it is new.
    fn run(
        &mut self,
        spine: &Spine,
        view: &EventView<'_>,
        ordinal: u64,
    ) -> Result<usize, StoreError> {
        let conflict = |message: String| {
            Err(StoreError::new(
                ErrorKind::Conflict,
                "run_conflict",
                message,
            ))
        };
        if let Some(at) = self
            .runs
            .iter()
            .position(|run| run.spine.run_id == spine.run_id)
        {
            let run = &self.runs[at];
            if run.spine != *spine {
                return conflict(format!(
                    "run {} has invocation {} and turn {}; event {} names invocation {} and turn {}",
                    spine.run_id,
                    run.spine.invocation_id,
                    run.spine.turn_id,
                    view.id,
                    spine.invocation_id,
                    spine.turn_id
                ));
            }
            if let Some(terminal) = run.terminal {
                let message = format!(
                    "run {} ended at ordinal {terminal}; event {} needs a run of its own",
                    spine.run_id, view.id
                );
                return Err(
                    StoreError::new(ErrorKind::Conflict, "run_sealed", message).at(vec![terminal])
                );
            }
            return Ok(at);
        }
        if let Some(run) = self
            .runs
            .iter()
            .find(|run| run.spine.invocation_id == spine.invocation_id)
        {
            return conflict(format!(
                "invocation {} belongs to run {}; event {} names run {}",
                spine.invocation_id, run.spine.run_id, view.id, spine.run_id
            ));
        }
        self.log.runs += 1;
        let run = new_run(self.log.runs, spine, view, ordinal, &self.log);
        let before = self.turns.get(spine.turn_id.as_str());
        open_run(&mut self.log.tail, &run, before);
        self.touched_runs.insert(run.run_no);
        self.runs.push(run);
        Ok(self.runs.len() - 1)
    }
}

/// A run, from its first event.
fn new_run(run_no: u32, spine: &Spine, view: &EventView<'_>, ordinal: u64, log: &LogRow) -> RunRow {
    let opening = matches!(&*view.kind(), "run_opened" | "invocation_opened");
    let facts = if opening {
        RunFacts::of_opening(view, spine.turn_id.as_str())
    } else {
        RunFacts {
            turn_id: spine.turn_id.as_str().to_owned(),
            ..RunFacts::default()
        }
    };
    // A child agent's run belongs to another transcript; a continuation of the
    // same agent does not.
    let child = view.raw(Field::ParentRunId).is_some()
        && !(view.raw(Field::SourceKind) == Some("\"continuation\"")
            && view.raw(Field::LineageAgentId).is_none());
    RunRow {
        run_no,
        spine: spine.clone(),
        opened: ordinal,
        terminal: None,
        open_before: log.tail.runs.iter().map(|run| run.run_no).collect(),
        inline: !(opening && child),
        output: false,
        facts,
    }
}

/// The contributions of a batch, decided.
struct PlannedFacts {
    log: Option<ContribLogRow>,
    rows: Vec<FactRow>,
    added: u64,
    highest_anchor: Option<u64>,
}

fn plan_facts(
    batch: &PreparedBatch,
    log: Option<ContribLogRow>,
    known: Vec<FactRow>,
    session_log: &LogRow,
    counters: &Counters,
) -> Result<PlannedFacts, StoreError> {
    let mut planned = PlannedFacts {
        log,
        rows: Vec::new(),
        added: 0,
        highest_anchor: None,
    };
    let Some(source) = &batch.source else {
        return Ok(planned);
    };
    let mut digests: HashMap<String, Digest> = known
        .into_iter()
        .map(|row| {
            let digest = row.withheld.unwrap_or_else(|| fact_digest(&row.body));
            (row.id, digest)
        })
        .collect();
    for prepared in &batch.facts {
        let PreparedFact {
            fact,
            body,
            digest,
            withheld,
        } = prepared;
        let id = fact.id.as_str();
        match digests.get(id) {
            Some(stored) if stored == digest => continue,
            Some(_) => {
                let message = format!("entry {id} of {source} exists with another content");
                return Err(StoreError::new(
                    ErrorKind::Conflict,
                    "fact_id_conflict",
                    message,
                ));
            }
            None => {}
        }
        let log = planned.log.get_or_insert_with(|| ContribLogRow {
            contrib_no: counters.contrib_no + 1,
            source: source.clone(),
            log_no: session_log.log_no,
            rank: if source == NOTES { 1 } else { 2 },
            head: 0,
            chain: EMPTY_CHAIN,
        });
        log.head += 1;
        log.chain = facts_chain_next(&log.chain, log.head, digest);
        planned.rows.push(FactRow {
            seq: log.head,
            anchor: fact.anchor,
            id: id.to_owned(),
            chain: log.chain,
            body: body.clone(),
            withheld: withheld.then_some(*digest),
        });
        planned.added += 1;
        planned.highest_anchor = planned.highest_anchor.max(Some(fact.anchor));
        digests.insert(id.to_owned(), *digest);
    }
    Ok(planned)
}
