//! The items that events make, without a store: what the transcript will show
//! once they are appended.
//!
//! The rules are the ledger's own (`claims`, then `assign`); only the
//! bookkeeping around them is repeated here.

use folio_core::assign::{Directory, OpenRun, Placed, Tail, assign, remember_request};
use folio_core::claims::claims;
use folio_core::key::{ItemKind, base_key};
use folio_core::reduce::RunFacts;
use folio_core::{CanonicalEvent, EventView, Field, Item, Position, RunId};
use std::collections::HashMap;

/// Folds events into items, one after another.
#[derive(Debug, Default)]
pub(crate) struct Preview {
    known: Known,
    tail: Tail,
    runs: HashMap<RunId, Run>,
    /// By run number.
    facts: Vec<RunFacts>,
    /// Whether a turn had visible output when its last run ended.
    outputs: HashMap<Box<str>, bool>,
    head: u64,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    no: u32,
    inline: bool,
}

#[derive(Debug, Default)]
struct Known {
    items: Vec<Item>,
    places: HashMap<Position, usize>,
    bases: HashMap<Box<str>, Vec<usize>>,
    ordinals: HashMap<Box<str>, u64>,
}

impl Directory for Known {
    fn incarnations(&self, base: &str) -> Vec<Item> {
        let found = self.bases.get(base).into_iter().flatten();
        found
            .filter_map(|at| self.items.get(*at).cloned())
            .collect()
    }

    fn ordinal_of(&self, event_id: &str) -> Option<u64> {
        self.ordinals.get(event_id).copied()
    }
}

impl Known {
    fn put(&mut self, mut item: Item) {
        if let Some(at) = self.places.get(&item.position) {
            if let Some(slot) = self.items.get_mut(*at) {
                *slot = item;
            }
            return;
        }
        let at = self.items.len();
        item.number = at as u64 + 1;
        self.places.insert(item.position, at);
        self.bases.entry(item.base().into()).or_default().push(at);
        self.items.push(item);
    }
}

impl Preview {
    /// Takes the next event; its ordinal is one more than the last one's.
    pub fn push(&mut self, event: &CanonicalEvent) {
        self.head += 1;
        let ordinal = self.head;
        let view = event.view();
        let run = self.run(event, &view);
        let placed = Placed {
            ordinal,
            run_no: run.no,
            ts: view.ts,
            weight: view.weight(),
        };
        self.known.ordinals.insert(view.id.into(), ordinal);
        let claims = claims(&view, &event.spine, run.inline);
        let assigned = assign(&claims, &placed, &mut self.tail, &self.known);
        if let Some(id) = view.text(Field::RequestId).filter(|_| run.inline) {
            let turn = view.text(Field::ScopeTurnId);
            let turn = turn.as_deref().unwrap_or(event.spine.turn_id.as_str());
            let call = view
                .text(Field::RequestToolUseId)
                .map(|tool| base_key(ItemKind::Call, turn, &tool))
                .or_else(|| claims.call.clone());
            remember_request(&mut self.tail, &id, call, &placed);
        }
        for item in assigned.items {
            self.known.put(item);
        }
        if view.is_terminal()
            && let Some(open) = self.tail.close_run(run.no)
        {
            self.outputs
                .insert(open.turn_id.as_str().into(), open.output);
        }
    }

    /// The items in the order of their first events.
    pub fn items(&self) -> &[Item] {
        &self.known.items
    }

    /// What a row takes from its run.
    pub fn run_facts(&self, run_no: u32) -> Option<&RunFacts> {
        self.facts.get((run_no as usize).checked_sub(1)?)
    }

    fn run(&mut self, event: &CanonicalEvent, view: &EventView<'_>) -> Run {
        if let Some(run) = self.runs.get(&event.spine.run_id) {
            return *run;
        }
        let turn = event.spine.turn_id.as_str();
        let opening = matches!(&*view.kind(), "run_opened" | "invocation_opened");
        self.facts.push(if opening {
            RunFacts::of_opening(view, turn)
        } else {
            RunFacts {
                turn_id: turn.to_owned(),
                ..RunFacts::default()
            }
        });
        // A child agent's run belongs to another transcript; a continuation of
        // the same agent does not.
        let child = view.raw(Field::ParentRunId).is_some()
            && !(view.raw(Field::SourceKind) == Some("\"continuation\"")
                && view.raw(Field::LineageAgentId).is_none());
        let run = Run {
            no: u32::try_from(self.facts.len()).unwrap_or(u32::MAX),
            inline: !(opening && child),
        };
        self.runs.insert(event.spine.run_id.clone(), run);
        let mut siblings = self.tail.runs.iter();
        let sibling = siblings.find(|open| open.turn_id == event.spine.turn_id);
        let output = sibling.map_or_else(
            || self.outputs.get(turn).copied().unwrap_or_default(),
            |open| open.output,
        );
        self.tail.runs.push(OpenRun {
            run_no: run.no,
            next_seq: 1,
            turn_id: event.spine.turn_id.clone(),
            inline: run.inline,
            output,
        });
        run
    }
}
