//! Redaction: the payload of items goes, their place and the proof stay.
//!
//! An event is shared by every session that reads its log, so all of them
//! lose the payload, and the generation of each rises.

use crate::engine::{Erase, Snapshot, WriteTxn, Writes};
use crate::erase;
use crate::line::Line;
use crate::page::{index_stale, readable};
use crate::plan::run_of;
use crate::port::Redaction;
use crate::rows::{EventRow, FactRow, FoundEvent, SessionRow};
use crate::{ErrorKind, StoreError};
use folio_codec::{body_digest, encode_event, fact_digest, hash64};
use folio_core::item::{Lane, Part};
use folio_core::redact::{body_without_source, has_source, redacted_body};
use folio_core::{CanonicalEvent, EventView, Fact, Field, Item, ItemKind, SessionId, key};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    /// Facts by contribution log: its number, its source, the row.
    facts: Vec<(u64, String, FactRow)>,
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
        return Err(index_stale(&line, id.as_str(), line.log.head)?);
    }
    let targets = find(&line, id, keys)?;
    let ordinals: Vec<u64> = targets.events.iter().copied().collect();
    let facts = targets
        .facts
        .iter()
        .map(|(_, source, row)| (source.clone(), row.seq))
        .collect();
    let mut by_log: BTreeMap<u64, Vec<EventRow>> = BTreeMap::new();
    for ordinal in targets.events.union(&targets.sources) {
        let whole = targets.events.contains(ordinal);
        if let Some(row) = withheld(&line, id, *ordinal, whole)? {
            by_log.entry(line.log_of(*ordinal)).or_default().push(row);
        }
    }
    let facts_now: Vec<_> = targets
        .facts
        .into_iter()
        .filter(|(.., row)| row.withheld.is_none())
        .map(|(contrib_no, _, row)| Ok((contrib_no, withheld_fact(row)?)))
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
        let lowest = rows.first().map_or(0, |row| row.ordinal);
        for reader in readers(txn, *log_no, lowest)? {
            logs.insert(reader);
            if let Some(session) = txn.session_of_log(reader)? {
                sessions.insert(session.session_no, session);
            }
        }
    }
    let mut writes = Vec::new();
    for (log_no, redacted) in by_log {
        // What an event cites is its payload too.
        let ordinals = redacted
            .iter()
            .map(|row| row.ordinal)
            .filter(|ordinal| ordinals.contains(ordinal))
            .collect();
        writes.push(Writes {
            erase: vec![Erase::Citations { log_no, ordinals }],
            log: txn.log(log_no)?,
            redacted,
            ..Writes::default()
        });
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
        let contrib = line
            .snapshot()
            .contrib_log(line.log.log_no, source)?
            .ok_or_else(missing)?;
        let rows = line
            .snapshot()
            .facts_by_id(contrib.contrib_no, hash64(local.as_bytes()))?;
        let rows: Vec<_> = rows.into_iter().filter(|row| row.id == local).collect();
        if rows.is_empty() {
            return Err(missing());
        }
        let rows = rows
            .into_iter()
            .map(|row| (contrib.contrib_no, source.to_owned(), row));
        targets.facts.extend(rows);
    }
    Ok(targets)
}

/// The events that an item is made of: finals, those that later ones took the
/// place of, and chunks; for a tool's call and result the chunks of arguments
/// and output too.
fn add_item(line: &Line<'_>, item: &Item, targets: &mut Targets) -> Result<(), StoreError> {
    let own = item.need.iter().filter(|need| match need.part {
        Part::FirstChunk | Part::Final | Part::Closer => true,
        // Reasoning that shows nothing may still hold something.
        Part::Mark => need.lane == Lane::Thinking,
        Part::Call | Part::Request => false,
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
    if matches!(item.kind, ItemKind::Call | ItemKind::Result) {
        add_tool_chunks(line, item, &mut events)?;
    }
    for ordinal in &events {
        let row = line.event(*ordinal)?;
        let view = folio_codec::decode_event(row.form, &row.body)?;
        // What an import made of one record stands under one stem, and the
        // first event of them keeps the record.
        if let Some((stem, _)) = view.id.rsplit_once('-') {
            let first = format!("{stem}-0");
            for ordinal in line.event_ids(hash64(first.as_bytes()))? {
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

/// Chunks of arguments and output refer to a call by its id and are in no
/// index, and so do requests for permission, which tell what the call would
/// do: they are looked for in the call's run.
fn add_tool_chunks(
    line: &Line<'_>,
    item: &Item,
    events: &mut BTreeSet<u64>,
) -> Result<(), StoreError> {
    let base = item.base();
    let local = base.split_once(':').map_or(base, |(_, rest)| rest);
    let call = format!("{}:{local}", ItemKind::Call.as_str());
    let run = run_of(line, item.run_no)?;
    let mut spines = HashMap::new();
    let mut next = run.opened;
    let last = run.terminal.unwrap_or(line.log.head).max(item.revision);
    while next <= last {
        let found = line.events(next, last, SLICE, SLICE_BYTES)?;
        let Some(read) = found.last().map(FoundEvent::ordinal) else {
            break;
        };
        next = read + 1;
        for found in found {
            let FoundEvent::Whole(row) = found else {
                continue;
            };
            let view = folio_codec::decode_event(row.form, &row.body)?;
            let Some(id) = names(&view, item.kind) else {
                continue;
            };
            let spine = line.spine(&mut spines, row.run_no)?;
            let turn = view.text(Field::ScopeTurnId);
            let turn = turn.as_deref().unwrap_or(spine.turn_id.as_str());
            if *key::base_key(ItemKind::Call, turn, &id) == *call {
                events.insert(row.ordinal);
            }
        }
    }
    Ok(())
}

/// The id of the call that a chunk, or for the call itself a request, is about.
fn names<'a>(view: &EventView<'a>, kind: ItemKind) -> Option<Cow<'a, str>> {
    if view.partial {
        let chunk = matches!(&*view.kind(), "function_call" | "function_response");
        return chunk.then(|| view.text(Field::CallId)).flatten();
    }
    let request = view.text(Field::RequestToolUseId);
    request.filter(|_| kind == ItemKind::Call)
}

/// What is left of an event; `None` where nothing more is to go.
fn withheld(
    line: &Line<'_>,
    id: &SessionId,
    ordinal: u64,
    whole: bool,
) -> Result<Option<EventRow>, StoreError> {
    let mut row = line.event(ordinal)?;
    let view = folio_codec::decode_event(row.form, &row.body)?;
    let body = if whole {
        redacted_body(view.body())
    } else {
        body_without_source(view.body())
    };
    if body == view.body() {
        return Ok(None);
    }
    let digest = body_digest(&view);
    let spine = run_of(line, row.run_no)?.spine;
    let event = CanonicalEvent::from_view(&view, &spine, id)
        .map_err(|error| StoreError::corrupt("undecodable", format!("event {ordinal}: {error}")))?;
    let (form, body) = encode_event(&event.with_body(&body, digest));
    (row.form, row.body) = (form, body);
    Ok(Some(row))
}

/// What is left of a fact: its identity and its place.
fn withheld_fact(mut row: FactRow) -> Result<FactRow, StoreError> {
    let fact = Fact::from_json(&row.body)
        .map_err(|error| StoreError::corrupt("undecodable", format!("a fact: {error}")))?;
    row.withheld = Some(fact_digest(&row.body));
    row.body = fact.redacted().canonical();
    Ok(row)
}
