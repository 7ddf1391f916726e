//! How an event gets its ids, its place and its record.

use super::super::source::{self, Held};
use super::make::{event_id, nonce};
use super::runs::{Run, Side};
use super::{Increment, Translator};
use folio_core::{
    Actions, Author, Content, Json, Members, ModelVisibility, Number, Refs, Role, RunId,
    RuntimeEvent, Status, TurnId,
};

/// What an event is made from, beside its run and its record.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) role: Role,
    pub(super) author: Author,
    pub(super) content: Option<Content>,
    pub(super) actions: Option<Actions>,
    pub(super) refs: Refs,
    pub(super) status: Option<Status>,
    pub(super) hidden: bool,
    /// The time, where it is not the record's.
    pub(super) ts: Option<u64>,
    /// Values that the event holds verbatim: raw text and member.
    pub(super) holds: Vec<(String, String)>,
}

impl Draft {
    pub(super) fn new(role: Role, author: Author, content: Option<Content>) -> Self {
        Self {
            role,
            author,
            content,
            actions: None,
            refs: Refs::default(),
            status: None,
            hidden: false,
            ts: None,
            holds: Vec::new(),
        }
    }

    /// Says that the event holds a text; a record that spells it otherwise
    /// keeps its own.
    pub(super) fn holds_text(mut self, text: &str, member: &str) -> Self {
        self.holds
            .push((Json::string(text).as_str().to_owned(), member.to_owned()));
        self
    }

    pub(super) fn holds(mut self, raw: &str, member: &str) -> Self {
        self.holds.push((raw.to_owned(), member.to_owned()));
        self
    }
}

/// The record whose events are being made.
#[derive(Debug, Clone, Default)]
pub(super) struct Cause {
    pub(super) r: String,
    pub(super) text: String,
    /// The time of the record, else of the event before.
    pub(super) ts: u64,
    /// The number of the next event.
    pub(super) k: u32,
}

impl Translator {
    pub(super) fn emit(&mut self, side: Side, draft: Draft) {
        let ts = draft.ts.unwrap_or(self.cause.ts);
        let Some(run) = &mut self.lane(side).open else {
            return;
        };
        run.last = ts;
        let run = run.clone();
        let k = self.cause.k;
        self.cause.k += 1;
        self.last_ts = ts;
        let refs = (draft.refs != Refs::default()).then_some(draft.refs);
        for (raw, member) in draft.holds {
            self.holds.push(Held { raw, k, member });
        }
        self.batch.push(RuntimeEvent {
            id: event_id(&self.cause.r, k),
            invocation_id: run.invocation,
            run_id: run.id,
            session_id: self.session.clone(),
            turn_id: run.turn,
            ts: Number::from(ts),
            partial: false,
            role: draft.role,
            author: draft.author,
            branch: None,
            origin: None,
            model_visibility: draft.hidden.then_some(ModelVisibility::Hidden),
            status: draft.status,
            content: draft.content,
            actions: draft.actions,
            refs,
            nonce: Some(nonce(&self.cause.text, k)),
            unknown: Members::default(),
        });
    }

    /// Gives the events of a record away, with the record in the first one.
    pub(super) fn flush(&mut self, record: Option<&Json>, out: &mut Increment) {
        let holds = std::mem::take(&mut self.holds);
        if let (Some(record), Some(first)) = (record, self.batch.first_mut()) {
            let (value, holes) = source::with_holes(record, &holds);
            first.unknown.set("source", value);
            if let Some(holes) = holes {
                first.unknown.set("sourceHoles", holes);
            }
        }
        self.events += self.batch.len() as u64;
        out.events.append(&mut self.batch);
    }

    /// The links of what began in `run` and `turn` and goes on in `here`.
    pub(super) fn scoped(refs: &mut Refs, here: &Run, run: &RunId, turn: &TurnId) {
        if *run != here.id {
            refs.scope_run_id = Some(run.clone());
        }
        if *turn != here.turn {
            refs.scope_turn_id = Some(turn.clone());
        }
    }
}
