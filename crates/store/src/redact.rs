//! Redaction: the payload of items goes, their place and the proof stay.
//!
//! An event is shared by every session that reads its log, so all of them
//! lose the payload, and the generation of each rises.

use crate::contrib;
use crate::engine::{Erase, Snapshot, WriteTxn, Writes};
use crate::erase;
use crate::error::quoted;
use crate::line::Line;
use crate::page::{index_stale, readable};
use crate::plan::run_of;
use crate::port::Redaction;
use crate::rows::{EventRow, FactRow, FoundEvent, SessionRow};
use crate::{ErrorKind, StoreError};
use folio_codec::{body_digest, encode_event, fact_digest, hash64};
use folio_core::claims::{Claim, Form, claims};
use folio_core::item::{Lane, Part};
use folio_core::redact::{body_without_source, has_source, redacted_body};
use folio_core::{CanonicalEvent, EventView, Fact, Field, Item, ItemKind, SessionId, key};
use std::collections::{BTreeMap, BTreeSet};

/// Chunks and events that one read takes.
const SLICE: usize = 1_000;
/// Bytes that one read takes.
const SLICE_BYTES: usize = 8 << 20;

/// What is to go, found.
#[derive(Default)]
struct Targets {
    /// Events whose payload goes.
    events: BTreeSet<u64>,
    /// Events that only lose the source record that they keep.
    sources: BTreeSet<u64>,
    /// Facts by the number of their contribution log and their sequence, each
    /// with its source.
    facts: BTreeMap<(u64, u64), (String, FactRow)>,
}

/// Takes the payload out of items and contributions.
pub(crate) fn redact(
    txn: &mut dyn WriteTxn,
    id: &SessionId,
    keys: &[String],
    now: u64,
) -> Result<Redaction, StoreError> {
    let (session, line) = readable(txn, id.as_str())?;
    if !line.is_indexed()? {
        // What an index does not know would be left behind.
        return Err(index_stale(&line, id.as_str(), line.log.head)?);
    }
    let targets = find(&line, id, keys)?;
    let ordinals: Vec<u64> = targets.events.iter().copied().collect();
    let facts = targets
        .facts
        .values()
        .map(|(source, row)| (source.clone(), row.seq))
        .collect();
    let mut by_log: BTreeMap<u64, Vec<Withheld>> = BTreeMap::new();
    for ordinal in targets.events.union(&targets.sources) {
        let whole = targets.events.contains(ordinal);
        if let Some(event) = withheld(&line, id, *ordinal, whole)? {
            by_log.entry(line.log_of(*ordinal)).or_default().push(event);
        }
    }
    let facts_now: Vec<_> = targets
        .facts
        .into_iter()
        .filter(|(_, (_, row))| row.withheld.is_none())
        .map(|((contrib_no, _), (_, row))| Ok((contrib_no, withheld_fact(row)?)))
        .collect::<Result<_, StoreError>>()?;
    if by_log.is_empty() && facts_now.is_empty() {
        let generation = session.generation;
        return Ok(Redaction {
            ordinals,
            facts,
            generation,
        });
    }
    let mut sessions: BTreeMap<u64, SessionRow> = BTreeMap::new();
    sessions.insert(session.session_no, session.clone());
    let mut logs = BTreeSet::new();
    logs.insert(line.log.log_no);
    for (log_no, rows) in &by_log {
        let lowest = rows.first().map_or(0, |event| event.row.ordinal);
        for reader in readers(txn, *log_no, lowest)? {
            logs.insert(reader);
            if let Some(session) = txn.session_of_log(reader)? {
                sessions.insert(session.session_no, session);
            }
        }
    }
    let mut writes = Vec::new();
    for (log_no, events) in by_log {
        writes.push(replace(txn, log_no, events)?);
    }
    let (counters, scrub) = erase::begin(txn, 0, now)?;
    let sessions: Vec<_> = sessions
        .into_values()
        .map(|mut session| {
            session.generation += 1;
            session
        })
        .collect();
    writes.push(Writes {
        erase: logs
            .into_iter()
            .map(|log_no| Erase::ViewEntries { log_no })
            .collect(),
        counters: Some(counters),
        sessions,
        redacted_facts: facts_now,
        scrubs: vec![scrub],
        ..Writes::default()
    });
    let generation = session.generation + 1;
    for writes in &writes {
        txn.apply(writes)?;
    }
    Ok(Redaction {
        ordinals,
        facts,
        generation,
    })
}

/// An event of which something is gone.
struct Withheld {
    row: EventRow,
    /// Whether it cited blobs until now: what they hold is its payload too.
    cited: bool,
}

/// What puts events in the place of what they were.
fn replace(
    snapshot: &dyn Snapshot,
    log_no: u64,
    events: Vec<Withheld>,
) -> Result<Writes, StoreError> {
    let cited = events.iter().filter(|event| event.cited);
    let ordinals = cited.map(|event| event.row.ordinal).collect();
    Ok(Writes {
        erase: vec![Erase::Citations { log_no, ordinals }],
        log: snapshot.log(log_no)?,
        redacted: events.into_iter().map(|event| event.row).collect(),
        ..Writes::default()
    })
}

/// The logs that read an ordinal of a log: itself, and those that were forked
/// from it behind that ordinal.
fn readers(snapshot: &dyn Snapshot, log_no: u64, ordinal: u64) -> Result<Vec<u64>, StoreError> {
    let mut readers = vec![log_no];
    let spans = snapshot.spans_of(log_no, usize::MAX)?;
    readers.extend(
        spans
            .iter()
            .filter(|span| span.upto >= ordinal)
            .map(|span| span.log_no),
    );
    Ok(readers)
}

fn find(line: &Line<'_>, id: &SessionId, keys: &[String]) -> Result<Targets, StoreError> {
    let mut targets = Targets::default();
    for wanted in keys {
        let missing = || {
            let wanted = quoted(wanted);
            let message = format!("session {id} has no item {wanted}; nothing was redacted");
            StoreError::new(ErrorKind::NotFound, "item_not_found", message)
        };
        let base = key::split(wanted).0;
        let items = line.items_by_hash(hash64(base.as_bytes()))?;
        if let Some(item) = items.into_iter().find(|item| &*item.key == wanted.as_str()) {
            add_item(line, &item, &mut targets)?;
            continue;
        }
        let (source, local) = wanted.split_once("::").ok_or_else(missing)?;
        let contrib = contrib::log(line.snapshot(), &line.log, source)?.ok_or_else(missing)?;
        let rows = line
            .snapshot()
            .facts_by_id(contrib.contrib_no, hash64(local.as_bytes()))?;
        let rows: Vec<_> = rows.into_iter().filter(|row| row.id == local).collect();
        if rows.is_empty() {
            return Err(missing());
        }
        for row in rows {
            let key = (contrib.contrib_no, row.seq);
            targets.facts.insert(key, (source.to_owned(), row));
        }
    }
    Ok(targets)
}

/// The events that an item is made of: finals, those that later ones took the
/// place of, and chunks; for a tool's call and result the chunks of arguments
/// and output too.
fn add_item(line: &Line<'_>, item: &Item, targets: &mut Targets) -> Result<(), StoreError> {
    let mut events = indexed(line, item)?;
    if matches!(
        item.kind,
        ItemKind::Assistant | ItemKind::Call | ItemKind::Result
    ) {
        add_unindexed(line, item, &mut events)?;
    }
    for ordinal in &events {
        let row = line.event(*ordinal)?;
        let view = folio_codec::decode_event(row.form, &row.body)?;
        // What an import made of one record stands under one stem, and the
        // first event of them keeps the record.
        if let Some((stem, _)) = view.id.rsplit_once('-') {
            let first = format!("{stem}-0");
            for ordinal in line.event_ids(&first)? {
                let row = line.event(ordinal)?;
                let view = folio_codec::decode_event(row.form, &row.body)?;
                if view.id == first && has_source(view.body()) {
                    targets.sources.insert(ordinal);
                }
            }
        }
    }
    targets.events.extend(events);
    Ok(())
}

/// The events of an item that its index knows.
fn indexed(line: &Line<'_>, item: &Item) -> Result<BTreeSet<u64>, StoreError> {
    let own = item.need.iter().filter(|need| match need.part {
        // A request has no item of its own: its decision shows what it says.
        Part::FirstChunk | Part::Final | Part::Closer | Part::Request => true,
        // Reasoning that shows nothing may still hold something.
        Part::Mark => need.lane == Lane::Thinking,
        Part::Call => false,
    });
    let mut events: BTreeSet<u64> = own.map(|need| need.ordinal).collect();
    for lane in item.lanes(u64::MAX) {
        let mut from = 0;
        loop {
            let segs = line.segs(item.position, lane, from, line.log.head, SLICE)?;
            let full = segs.len() == SLICE;
            events.extend(segs.iter().map(|seg| seg.seg));
            match segs.last() {
                Some(last) if full => from = last.last + 1,
                _ => break,
            }
        }
    }
    Ok(events)
}

/// Adds the events that speak for an item and that no index knows: chunks of
/// arguments and output, chunks that came too late, reasoning that showed
/// nothing once more, and requests for the permission of a call, which tell
/// what it would do. They are looked for from the beginning of its run on.
fn add_unindexed(
    line: &Line<'_>,
    item: &Item,
    events: &mut BTreeSet<u64>,
) -> Result<(), StoreError> {
    let mut others = BTreeSet::new();
    for other in line.items_by_hash(hash64(item.base().as_bytes()))? {
        if other.base() == item.base() && other.position != item.position {
            others.extend(indexed(line, &other)?);
        }
    }
    let mut next = run_of(line, item.run_no)?.opened;
    while next <= line.log.head {
        let found = line.events(next, line.log.head, SLICE, SLICE_BYTES)?;
        let Some(last) = found.last().map(FoundEvent::ordinal) else {
            break;
        };
        next = last + 1;
        for found in found {
            let FoundEvent::Whole(row) = found else {
                continue;
            };
            let view = folio_codec::decode_event(row.form, &row.body)?;
            if !others.contains(&row.ordinal) && speaks_for(&view, line, row.run_no, item)? {
                events.insert(row.ordinal);
            }
        }
    }
    Ok(())
}

/// Whether an event is a chunk or a mark of an item's identity.
fn speaks_for(
    view: &EventView<'_>,
    line: &Line<'_>,
    run_no: u32,
    item: &Item,
) -> Result<bool, StoreError> {
    let kind = view.kind();
    let tool = match (item.kind, &*kind) {
        (ItemKind::Assistant, "text" | "thinking") => None,
        // Chunks of output belong to the call as long as it has no result.
        (ItemKind::Call, "function_call" | "function_response")
        | (ItemKind::Result, "function_response")
            if view.partial =>
        {
            Some(Field::CallId)
        }
        (ItemKind::Call, _) if view.raw(Field::RequestToolUseId).is_some() => {
            Some(Field::RequestToolUseId)
        }
        _ => return Ok(false),
    };
    let run = run_of(line, run_no)?;
    if let Some(tool) = tool {
        let turn = view.text(Field::ScopeTurnId);
        let turn = turn.as_deref().unwrap_or(run.spine.turn_id.as_str());
        let id = view.text(tool).unwrap_or_default();
        return Ok(*key::base_key(item.kind, turn, &id) == *item.base());
    }
    let claims = claims(view, &run.spine, run.inline);
    let of_item = |claim: &Claim| {
        matches!(claim.form, Form::Partial | Form::Mark) && *claim.base == *item.base()
    };
    Ok(claims.own.iter().any(of_item))
}

/// What is left of an event; `None` where nothing more is to go.
fn withheld(
    line: &Line<'_>,
    id: &SessionId,
    ordinal: u64,
    whole: bool,
) -> Result<Option<Withheld>, StoreError> {
    let mut row = line.event(ordinal)?;
    let first = line
        .snapshot()
        .citations(line.log_of(ordinal), ordinal, 1)?;
    let cited = whole && first.first().is_some_and(|(at, _)| *at == ordinal);
    let view = folio_codec::decode_event(row.form, &row.body)?;
    let body = if whole {
        redacted_body(view.body())
    } else {
        body_without_source(view.body())
    };
    if body == view.body() && !cited {
        return Ok(None);
    }
    let digest = body_digest(&view);
    let spine = run_of(line, row.run_no)?.spine;
    let event = CanonicalEvent::from_view(&view, &spine, id)
        .map_err(|error| StoreError::corrupt("undecodable", format!("event {ordinal}: {error}")))?;
    let (form, body) = encode_event(&event.with_body(&body, digest, whole));
    (row.form, row.body) = (form, body);
    Ok(Some(Withheld { row, cited }))
}

/// What is left of a fact: its identity and its place.
fn withheld_fact(mut row: FactRow) -> Result<FactRow, StoreError> {
    let fact = Fact::from_json(&row.body)
        .map_err(|error| StoreError::corrupt("undecodable", format!("a fact: {error}")))?;
    row.withheld = Some(fact_digest(&row.body));
    row.body = fact.redacted().canonical();
    Ok(row)
}
