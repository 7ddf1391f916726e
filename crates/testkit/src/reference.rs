//! The oracle: what a session's rows are, by the simplest possible path.
//!
//! Everything is in vectors and is searched from end to end; no row is ever
//! looked up at a watermark other than the last. What a store answers at a
//! watermark must equal the projection of that prefix alone.

use crate::check::Row;
use folio_core::assign::{Directory, OpenRun, Placed, Tail, assign, remember_request};
use folio_core::claims::claims;
use folio_core::item::LanePart;
use folio_core::key::{ItemKind, base_key};
use folio_core::reduce::{Material, RunFacts, json_row};
use folio_core::{CanonicalEvent, Field, Item, Position, Spine};
use std::collections::HashSet;

struct Run {
    spine: Spine,
    inline: bool,
    facts: RunFacts,
}

#[derive(Default)]
struct Book {
    items: Vec<Item>,
    ids: Vec<String>,
}

impl Directory for Book {
    fn incarnations(&self, base: &str) -> Vec<Item> {
        let mine = self.items.iter().filter(|item| item.base() == base);
        mine.cloned().collect()
    }

    fn ordinal_of(&self, event_id: &str) -> Option<u64> {
        let at = self.ids.iter().position(|id| id == event_id)?;
        Some(at as u64 + 1)
    }
}

/// The rows of the first events, as if no others existed.
pub fn project_at(events: &[CanonicalEvent], through: u64) -> Vec<Row> {
    let through = usize::try_from(through).expect("a test's session fits into memory");
    project(&events[..through])
}

/// The rows of some events: key, revision, JSON; oldest first. The events have
/// the ordinals 1, 2, 3 and so on.
pub fn project(events: &[CanonicalEvent]) -> Vec<Row> {
    let whole = assemble(events);
    let rows = whole.items.iter();
    rows.map(|item| row(item, events, &whole.runs, &whole.chunks))
        .collect()
}

/// The items of some events, oldest first, each with the ordinals of its
/// chunks.
pub fn items(events: &[CanonicalEvent]) -> Vec<(Item, Vec<u64>)> {
    let Projection { items, chunks, .. } = assemble(events);
    let with_chunks = |item: Item| {
        let mine = chunks.iter().filter(|chunk| chunk.0 == item.position);
        let ordinals = mine.map(|chunk| chunk.2).collect();
        (item, ordinals)
    };
    items.into_iter().map(with_chunks).collect()
}

/// What some events make, before it is spelled out as rows.
struct Projection {
    items: Vec<Item>,
    runs: Vec<Run>,
    /// Which item and lane every chunk belongs to, and its ordinal.
    chunks: Vec<(Position, LanePart, u64)>,
}

fn assemble(events: &[CanonicalEvent]) -> Projection {
    let mut book = Book::default();
    let mut runs: Vec<Run> = Vec::new();
    let mut tail = Tail::default();
    let mut chunks: Vec<(Position, LanePart, u64)> = Vec::new();
    // Turns that a reader has seen something of.
    let mut seen: HashSet<&str> = HashSet::new();
    for (event, ordinal) in events.iter().zip(1_u64..) {
        let view = event.view();
        let turn = event.spine.turn_id.as_str();
        let at = runs.iter().position(|run| run.spine == event.spine);
        let at = at.unwrap_or_else(|| {
            let run = open(event);
            tail.runs.push(OpenRun {
                run_no: number(runs.len()),
                next_seq: 1,
                turn_id: event.spine.turn_id.clone(),
                inline: run.inline,
                output: seen.contains(turn),
            });
            runs.push(run);
            runs.len() - 1
        });
        let inline = runs[at].inline;
        book.ids.push(view.id.to_owned());
        let placed = Placed {
            ordinal,
            run_no: number(at),
            ts: view.ts,
            weight: view.weight(),
        };
        let claims = claims(&view, &event.spine, inline);
        if claims.visible_output {
            seen.insert(turn);
        }
        let assigned = assign(&claims, &placed, &mut tail, &book);
        for mut item in assigned.items {
            match book
                .items
                .iter()
                .position(|old| old.position == item.position)
            {
                Some(at) => book.items[at] = item,
                None => {
                    item.number = book.items.len() as u64 + 1;
                    book.items.push(item);
                }
            }
        }
        if let Some(chunk) = assigned.chunk {
            chunks.push((chunk.position, (chunk.lane, chunk.index), ordinal));
        }
        if let Some(id) = view.text(Field::RequestId).filter(|_| inline) {
            let call = view.text(Field::RequestToolUseId).map(|tool| {
                let scope = view.text(Field::ScopeTurnId);
                base_key(ItemKind::Call, scope.as_deref().unwrap_or(turn), &tool)
            });
            remember_request(&mut tail, &id, call.or(claims.call), &placed);
        }
        if view.is_terminal() {
            tail.close_run(number(at));
        }
    }
    book.items.sort_by_key(|item| item.position);
    Projection {
        items: book.items,
        runs,
        chunks,
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at + 1).expect("a test has few runs")
}

/// Whether the run that begins with an event belongs to this transcript; the
/// runs of child agents do not.
pub fn is_inline(first: &CanonicalEvent) -> bool {
    let view = first.view();
    let continues = view.raw(Field::SourceKind) == Some("\"continuation\"")
        && view.raw(Field::LineageAgentId).is_none();
    !is_opening(first) || view.raw(Field::ParentRunId).is_none() || continues
}

fn is_opening(event: &CanonicalEvent) -> bool {
    matches!(&*event.view().kind(), "run_opened" | "invocation_opened")
}

fn open(event: &CanonicalEvent) -> Run {
    let view = event.view();
    let turn_id = event.spine.turn_id.as_str();
    let facts = if is_opening(event) {
        RunFacts::of_opening(&view, turn_id)
    } else {
        RunFacts {
            turn_id: turn_id.to_owned(),
            ..RunFacts::default()
        }
    };
    Run {
        spine: event.spine.clone(),
        inline: is_inline(event),
        facts,
    }
}

fn row(
    item: &Item,
    events: &[CanonicalEvent],
    runs: &[Run],
    chunks: &[(Position, LanePart, u64)],
) -> Row {
    let view = |ordinal: u64| {
        let at = usize::try_from(ordinal - 1).expect("an ordinal of this session");
        events[at].view()
    };
    let through = events.len() as u64;
    let own = item.ordinals(through);
    let own: Vec<_> = own.into_iter().map(|at| (at, view(at))).collect();
    let lanes: Vec<_> = item
        .open_lanes(through)
        .into_iter()
        .map(|lane| {
            let mine = chunks
                .iter()
                .filter(|(position, name, _)| (*position, *name) == (item.position, lane));
            (lane, mine.map(|(_, _, ordinal)| view(*ordinal)).collect())
        })
        .collect();
    let run = &runs[item.run_no as usize - 1];
    let material = Material {
        item: item.borrowed(),
        through,
        run: &run.facts,
        events: &own,
        chunks: &lanes,
    };
    let row = json_row(&material).expect("every event is at hand");
    let json = row
        .into_whole()
        .expect("the events of a test hold their members");
    (item.key.clone().into(), item.revision, json)
}
