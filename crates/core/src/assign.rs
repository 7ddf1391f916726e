//! From claims to items: which incarnation of an identity an event speaks for.
//!
//! [`assign`] is pure given what exists: the same function serves the writer,
//! which asks a store, and a rebuild, which asks what it has rebuilt so far.
//! It refuses nothing: what is odd becomes a row of its own and a diagnostic.

use crate::claims::{Claim, Claims, Form};
use crate::diagnostic::Code;
use crate::id::TurnId;
use crate::item::{Item, Lane, Need, Part, Position};
use crate::key::{self, ItemKind};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What exists already.
pub trait Directory {
    /// All incarnations of an identity, in any order.
    fn incarnations(&self, base: &str) -> Vec<Item>;
    /// The ordinal of an event.
    fn ordinal_of(&self, event_id: &str) -> Option<u64>;
}

/// A run without its terminal event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRun {
    /// The run's number in its log.
    pub run_no: u32,
    /// The event sequence that its next event gets.
    pub next_seq: u64,
    /// Its turn.
    pub turn_id: TurnId,
    /// Whether it belongs to this transcript.
    pub inline: bool,
    /// Whether its turn has visible output so far.
    pub output: bool,
}

/// A mark whose item does not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMark {
    /// The identity it waits for.
    pub base: Box<str>,
    /// The run that will give it up at its end.
    pub run_no: u32,
    /// The lane.
    pub lane: Lane,
    /// The part of the lane.
    pub index: u32,
    /// The event.
    pub ordinal: u64,
}

/// A permission that was asked for and not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    /// The request's id.
    pub request_id: Box<str>,
    /// The run that will give it up at its end.
    pub run_no: u32,
    /// The event.
    pub ordinal: u64,
    /// The identity of the call that it is about, if it names one.
    pub call: Option<Box<str>>,
}

/// A stream whose next chunks can be packed: they differ from the event that
/// opened it in id, time and text alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenStream {
    /// The ordinal of the event that opened it.
    pub opener: u64,
    /// Its run.
    pub run_no: u32,
    /// A fingerprint of what its chunks have in common.
    pub mould: u64,
    /// The lane whose text its chunks are; `None` where they are no content of
    /// a row, as chunks of a tool's output.
    pub content: Option<Chunk>,
}

/// What must be remembered between events to index the next one: state that
/// is kept beside the log's head and committed with the events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    /// Runs without their terminal event, by number.
    pub runs: Vec<OpenRun>,
    /// Marks that wait for their item.
    pub marks: Vec<WaitingMark>,
    /// Undecided permissions.
    pub requests: Vec<OpenRequest>,
    /// Streams that go on, by opener.
    pub streams: Vec<OpenStream>,
}

impl Tail {
    /// An open run by its number.
    pub fn run_mut(&mut self, run_no: u32) -> Option<&mut OpenRun> {
        self.runs.iter_mut().find(|run| run.run_no == run_no)
    }

    /// Forgets a run that has ended, and what waited for it.
    pub fn close_run(&mut self, run_no: u32) -> Option<OpenRun> {
        self.marks.retain(|mark| mark.run_no != run_no);
        self.requests.retain(|request| request.run_no != run_no);
        self.streams.retain(|stream| stream.run_no != run_no);
        let at = self.runs.iter().position(|run| run.run_no == run_no)?;
        Some(self.runs.remove(at))
    }
}

/// The event that claims, as its place in the log tells.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// Its ordinal.
    pub ordinal: u64,
    /// Its run's number.
    pub run_no: u32,
    /// Its time, as written.
    pub ts: &'a str,
    /// The bytes a reader must load for it.
    pub weight: u64,
}

/// A chunk that is visible content of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// The item.
    pub position: Position,
    /// The lane.
    pub lane: Lane,
    /// The part of the lane.
    pub index: u32,
}

/// What an event changes in the index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assigned {
    /// New and changed items; a new one has the number 0.
    pub items: Vec<Item>,
    /// The chunk that the event adds, if it is one.
    pub chunk: Option<Chunk>,
    /// What was odd.
    pub diagnostics: Vec<Code>,
}

/// Decides which items an event creates or changes.
pub fn assign(
    claims: &Claims,
    placed: &Placed<'_>,
    tail: &mut Tail,
    directory: &dyn Directory,
) -> Assigned {
    let mut out = Assigned::default();
    if claims.visible_output {
        note_output(tail, placed.run_no);
    }
    for claim in &claims.own {
        let mut found = directory.incarnations(&claim.base);
        found.sort_by_key(Item::incarnation);
        let revised = claims
            .revises
            .as_deref()
            .and_then(|id| directory.ordinal_of(id))
            .and_then(|ordinal| revised(&found, claim, ordinal));
        match claim.form {
            Form::Mark => mark(claim, placed, tail, found.pop(), &mut out),
            Form::Partial => match found.pop() {
                Some(item)
                    if item
                        .settled_by((claim.lane, claim.index), u64::MAX)
                        .is_some() =>
                {
                    out.diagnostics.push(Code::LatePartial);
                }
                found => chunk(claim, placed, tail, found, &mut out),
            },
            Form::Final | Form::Closer => {
                let item = match (revised, claim.kind) {
                    (Some(item), _) => Ok(item),
                    (None, ItemKind::Call) => {
                        call(claims, claim, &found, directory, &mut out.diagnostics)
                    }
                    (None, ItemKind::Result) => {
                        result(claims, claim, found, directory, &mut out.diagnostics)
                    }
                    (None, _) => successor(claim, found),
                };
                let mut item = item.unwrap_or_else(|n| create(claim, n, placed, tail));
                let part = if claim.form == Form::Closer {
                    Part::Closer
                } else {
                    Part::Final
                };
                contribute(&mut item, claim, placed, part);
                item.weight = item.weight.saturating_add(placed.weight);
                match claim.kind {
                    ItemKind::Call => {
                        (item.step, item.operation) = (claims.step, claims.operation);
                    }
                    // Resolved once: what a revision would add was not there
                    // at the watermarks before it.
                    ItemKind::Permission if item.number == 0 => {
                        decision_references(claims, placed, tail, directory, &mut item);
                    }
                    ItemKind::Turn => {
                        item.output_retained = tail
                            .runs
                            .iter()
                            .any(|run| run.run_no == placed.run_no && run.output);
                    }
                    _ => {}
                }
                out.items.push(item);
            }
        }
    }
    out
}

/// Remembers a permission that is asked for, so that its decision finds it.
pub fn remember_request(
    tail: &mut Tail,
    request_id: &str,
    call: Option<Box<str>>,
    placed: &Placed<'_>,
) {
    tail.requests
        .retain(|request| &*request.request_id != request_id);
    let (run_no, ordinal) = (placed.run_no, placed.ordinal);
    tail.requests.push(OpenRequest {
        request_id: request_id.into(),
        run_no,
        ordinal,
        call,
    });
}

/// Output of one run is output of its turn.
fn note_output(tail: &mut Tail, run_no: u32) {
    let Some(turn) = tail.run_mut(run_no).map(|run| run.turn_id.clone()) else {
        return;
    };
    for run in &mut tail.runs {
        run.output |= run.turn_id == turn;
    }
}

/// The incarnation that holds the contribution made by the event at `ordinal`.
fn revised(found: &[Item], claim: &Claim, ordinal: u64) -> Option<Item> {
    found
        .iter()
        .find(|item| {
            item.need.iter().any(|need| {
                (need.ordinal, need.lane, need.index) == (ordinal, claim.lane, claim.index)
                    && matches!(need.part, Part::Final | Part::Closer)
            })
        })
        .cloned()
}

fn mark(
    claim: &Claim,
    placed: &Placed<'_>,
    tail: &mut Tail,
    latest: Option<Item>,
    out: &mut Assigned,
) {
    let Some(mut item) = latest else {
        let waits = |mark: &WaitingMark| {
            (&mark.base, mark.lane, mark.index) == (&claim.base, claim.lane, claim.index)
        };
        if tail.marks.iter().any(waits) {
            return;
        }
        tail.marks.push(WaitingMark {
            base: claim.base.clone(),
            run_no: placed.run_no,
            lane: claim.lane,
            index: claim.index,
            ordinal: placed.ordinal,
        });
        return;
    };
    // Once for each lane: what counts is when it was first seen.
    if !item
        .need
        .iter()
        .any(|need| (need.lane, need.index) == (claim.lane, claim.index))
    {
        contribute(&mut item, claim, placed, Part::Mark);
        out.items.push(item);
    }
}

fn chunk(
    claim: &Claim,
    placed: &Placed<'_>,
    tail: &mut Tail,
    latest: Option<Item>,
    out: &mut Assigned,
) {
    let mut item = latest.unwrap_or_else(|| create(claim, 1, placed, tail));
    let lane = (claim.lane, claim.index);
    if item
        .need
        .iter()
        .any(|need| (need.lane, need.index) == lane && need.part == Part::FirstChunk)
    {
        item.revision = item.revision.max(placed.ordinal);
    } else {
        contribute(&mut item, claim, placed, Part::FirstChunk);
    }
    out.chunk = Some(Chunk {
        position: item.position,
        lane: claim.lane,
        index: claim.index,
    });
    out.items.push(item);
}

/// The item that a final continues, or the incarnation that it opens.
fn successor(claim: &Claim, mut found: Vec<Item>) -> Result<Item, u32> {
    let lane = (claim.lane, claim.index);
    match found.pop() {
        None => Err(1),
        Some(item)
            if claim.lane.takes_latest()
                || item.settled_by(lane, u64::MAX).is_none()
                || item.is_only_closed(lane) =>
        {
            Ok(item)
        }
        Some(item) => Err(item.incarnation() + 1),
    }
}

/// A call takes the lowest incarnation of its id that has none: one whose
/// result came first, or a new one.
fn call(
    claims: &Claims,
    claim: &Claim,
    found: &[Item],
    directory: &dyn Directory,
    diagnostics: &mut Vec<Code>,
) -> Result<Item, u32> {
    let results = directory.incarnations(&sibling(&claim.base, ItemKind::Result));
    let open_here = found.iter().any(|call| {
        call.step == claims.step
            && !results
                .iter()
                .any(|r| r.incarnation() == call.incarnation())
    });
    if open_here {
        diagnostics.push(Code::DuplicateCall);
    }
    Err(lowest_free(found.iter().map(Item::incarnation)))
}

/// A result answers an open call of its id: of the latest step, the oldest.
fn result(
    claims: &Claims,
    claim: &Claim,
    mut found: Vec<Item>,
    directory: &dyn Directory,
    diagnostics: &mut Vec<Code>,
) -> Result<Item, u32> {
    let mut calls = directory.incarnations(&sibling(&claim.base, ItemKind::Call));
    calls.sort_by_key(|call| call.position);
    // Where both sides name an operation, it decides alone.
    let named = calls
        .iter()
        .any(|call| claims.operation != 0 && call.operation == claims.operation);
    let fits = |call: &&Item| match claims.operation {
        0 => true,
        operation => call.operation == if named { operation } else { 0 },
    };
    let pool: Vec<_> = calls.iter().filter(fits).collect();
    let answer_of = |call: &&&Item| {
        let n = call.incarnation();
        found.iter().find(|result| result.incarnation() == n)
    };
    let mut open: Vec<_> = pool.iter().filter(|c| answer_of(c).is_none()).collect();
    // Only where no call is unanswered does a real result replace a closer.
    if open.is_empty() && claim.form == Form::Final {
        let closed = |result: &Item| result.is_only_closed((Lane::Result, 0));
        open = pool
            .iter()
            .filter(|c| answer_of(c).is_some_and(closed))
            .collect();
    }
    let step = open.last().map(|call| call.step);
    open.retain(|call| named || Some(call.step) == step);
    if open.len() > 1 {
        diagnostics.push(Code::AmbiguousToolPairing);
    }
    let n = match open.first() {
        Some(call) => call.incarnation(),
        None => {
            diagnostics.push(Code::OrphanToolResult);
            lowest_free(calls.iter().chain(&found).map(Item::incarnation))
        }
    };
    match found.iter().position(|item| item.incarnation() == n) {
        Some(at) => Ok(found.swap_remove(at)),
        None => Err(n),
    }
}

fn sibling(base: &str, kind: ItemKind) -> Box<str> {
    let rest = base.split_once(':').map_or(base, |(_, rest)| rest);
    alloc::format!("{}:{rest}", kind.as_str()).into_boxed_str()
}

fn lowest_free(taken: impl Iterator<Item = u32>) -> u32 {
    let mut taken: Vec<_> = taken.collect();
    taken.sort_unstable();
    taken.dedup();
    taken
        .iter()
        .zip(1..)
        .find(|(n, want)| *n != want)
        .map_or_else(
            || u32::try_from(taken.len()).unwrap_or(u32::MAX - 1) + 1,
            |(_, want)| want,
        )
}

/// A decision shows its call's tool and its request's hint: both stand before
/// it, and are found now.
fn decision_references(
    claims: &Claims,
    placed: &Placed<'_>,
    tail: &mut Tail,
    directory: &dyn Directory,
    item: &mut Item,
) {
    let request = claims
        .request
        .as_deref()
        .and_then(|id| {
            tail.requests
                .iter()
                .position(|request| &*request.request_id == id)
        })
        .map(|at| tail.requests.remove(at));
    let call = claims
        .call
        .clone()
        .or_else(|| request.as_ref().and_then(|r| r.call.clone()));
    let call = call
        .map(|base| directory.incarnations(&base))
        .and_then(|calls| calls.into_iter().max_by_key(|call| call.position))
        .and_then(|call| {
            call.settled_by((Lane::Args, 0), placed.ordinal)
                .map(|need| need.ordinal)
        });
    let references = [
        (request.map(|request| request.ordinal), Part::Request),
        (call, Part::Call),
    ];
    for (ordinal, part) in references {
        if let Some(ordinal) = ordinal {
            item.need.push(Need {
                ordinal,
                lane: Lane::Decision,
                index: 0,
                part,
            });
        }
    }
    item.need.sort_by_key(|need| need.ordinal);
}

fn create(claim: &Claim, n: u32, placed: &Placed<'_>, tail: &mut Tail) -> Item {
    let mut item = Item {
        position: Position {
            ordinal: placed.ordinal,
            slot: claim.slot,
        },
        number: 0,
        kind: claim.kind,
        key: key::incarnation(&claim.base, n),
        run_no: placed.run_no,
        ts: placed.ts.into(),
        revision: placed.ordinal,
        output_retained: false,
        step: 0,
        operation: 0,
        weight: 0,
        need: Vec::new(),
    };
    tail.marks.retain(|mark| {
        let mine = mark.base == claim.base;
        if mine {
            let WaitingMark {
                lane,
                index,
                ordinal,
                ..
            } = *mark;
            item.need.push(Need {
                ordinal,
                lane,
                index,
                part: Part::Mark,
            });
        }
        !mine
    });
    item
}

fn contribute(item: &mut Item, claim: &Claim, placed: &Placed<'_>, part: Part) {
    item.revision = item.revision.max(placed.ordinal);
    let (lane, index, ordinal) = (claim.lane, claim.index, placed.ordinal);
    item.need.push(Need {
        ordinal,
        lane,
        index,
        part,
    });
}
