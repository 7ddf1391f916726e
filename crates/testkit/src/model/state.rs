//! The simplest possible ledger: vectors that are copied, searched and thrown
//! away whole. It decides what every operation must answer.
//!
//! Where a request breaks several rules the order in which they are looked at
//! decides which of them is told; that order is the port's, for all adapters.

use super::op::{Append, CONTENTS, Key, LeaseUse, Op, PutView, Revision, SOURCES, UploadStep};
use super::script::{self, Part};
use crate::check::{Row, session_id};
use crate::reference;
use folio_codec::{
    Digest, EMPTY_CHAIN, body_digest, chain_next, event_digest, fact_digest, facts_chain_next,
};
use folio_core::claims::{Form, claims};
use folio_core::item::{Lane, Part as ItemPart};
use folio_core::redact::{body_without_source, has_source, redacted_body};
use folio_core::{
    Authority, CanonicalEvent, Fact, FactOp, Field, ForeignId, Item, ItemKind, Json, Position,
    SessionId, Spine, key,
};
use folio_store::{
    AppendBatch, BlobId, Committed, ContributionBatch, Placement, Redaction, Writer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an operation answers, or the code of its refusal.
pub type Outcome = Result<Answer, &'static str>;

/// The answer of an operation, as far as the model knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// A batch was committed.
    Committed(Committed),
    /// Payload was taken out.
    Redacted(Redaction),
    /// So many blobs were collected, unfinished ones included.
    Collected(u64),
    /// Bytes of a blob.
    Bytes(Vec<u8>),
}

/// An event of a session.
#[derive(Debug, Clone)]
pub struct Event {
    /// The same in every session that shares it.
    pub number: u64,
    /// The life of the session that wrote it.
    pub writer: u64,
    /// As it was written.
    pub written: Arc<CanonicalEvent>,
    /// As it is now.
    pub now: Arc<CanonicalEvent>,
    pub digest: Digest,
    pub run_no: u32,
    pub event_seq: u64,
    pub chain: Digest,
    /// The contents that it cites, each once, by address. What is redacted
    /// cites nothing.
    pub cites: BTreeSet<Digest>,
}

/// A run of a session.
#[derive(Debug, Clone)]
pub struct Run {
    pub spine: Spine,
    pub opened: u64,
    pub terminal: Option<u64>,
}

/// An entry of a contribution log.
#[derive(Debug, Clone)]
pub struct Note {
    /// As it is now.
    pub fact: Fact,
    /// The digest of the fact as it was written.
    pub digest: Digest,
    pub chain: Digest,
    pub redacted: bool,
}

/// A session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Tells this life of its name from others.
    pub life: u64,
    pub authority: Authority,
    pub revision: u64,
    pub followed: bool,
    pub import_ref: Option<String>,
    pub generation: u32,
    pub inherited: u64,
    pub events: Vec<Event>,
    pub runs: Vec<Run>,
    pub notes: BTreeMap<&'static str, Vec<Note>>,
    /// The holder of its lease.
    pub lease: Option<String>,
    /// The workload that its events are taken from.
    workload: u8,
}

/// A view.
#[derive(Debug, Clone)]
pub struct View {
    pub version: u32,
    /// How far it has seen each session, by its life.
    pub marks: BTreeMap<u64, u64>,
    /// Keys with the life of the session that wrote them last, and the value.
    pub entries: BTreeMap<u8, (u64, u8)>,
}

/// A blob that is arriving.
#[derive(Debug, Clone, Copy)]
pub struct Upload {
    pub content: u8,
    pub arrived: usize,
}

/// The whole ledger.
#[derive(Debug, Clone)]
pub struct Model {
    /// Whether histories open the store again.
    pub durable: bool,
    pub sessions: BTreeMap<u8, Session>,
    /// The contents that are stored, each with whether the open handle has put
    /// it.
    pub blobs: BTreeMap<u8, bool>,
    /// The uploads that can go on.
    pub uploads: BTreeMap<u8, Upload>,
    /// The uploads that were begun and not finished: those of the open handle,
    /// and those of handles that are gone.
    stages: (u64, u64),
    pub views: BTreeMap<u8, View>,
    lives: u64,
    events: u64,
    /// What the last operation must answer.
    pub outcomes: Vec<Outcome>,
}

/// The id of a session's number.
pub fn name(session: u8) -> SessionId {
    session_id(&format!("s{session}"))
}

/// The bytes of a content; some are longer than a piece of a blob.
pub fn content(number: u8) -> Vec<u8> {
    const SIZES: [u32; CONTENTS as usize] = [0, 5, 65_536, 150_000];
    let size = SIZES[usize::from(number % CONTENTS)];
    let byte = |at: u32| u8::try_from((at + u32::from(number)) % 251).unwrap_or(0);
    (0..size).map(byte).collect()
}

/// The address of a content.
pub fn address(number: u8) -> BlobId {
    BlobId::of(&content(number))
}

/// What an importer remembers.
pub fn import_ref(number: u8) -> String {
    format!("{{\"seen\":{number}}}")
}

/// How a holder of a lease calls itself.
pub fn holder(number: u8) -> String {
    format!("holder {number}")
}

impl Session {
    /// The number of its events.
    pub fn head(&self) -> u64 {
        self.events.len() as u64
    }

    /// The chain at its head.
    pub fn chain(&self) -> Digest {
        self.events.last().map_or(EMPTY_CHAIN, |event| event.chain)
    }

    /// Its events as they are now.
    pub fn now(&self) -> Vec<CanonicalEvent> {
        self.events
            .iter()
            .map(|event| (*event.now).clone())
            .collect()
    }

    /// Its rows at a watermark.
    pub fn rows(&self, through: u64) -> Vec<Row> {
        reference::project_at(&self.now(), through)
    }

    /// Its rows at a watermark, each with its place.
    pub fn placed_rows(&self, through: u64) -> Vec<(Position, Row)> {
        let mut now = self.now();
        now.truncate(usize::try_from(through).expect("few events"));
        let places = reference::items(&now).into_iter();
        let places = places.map(|(item, _)| item.position);
        places.zip(reference::project(&now)).collect()
    }

    /// The code with which it refuses readers.
    pub fn unreadable(&self) -> Option<&'static str> {
        match self.authority {
            Authority::RuntimeEvents => None,
            Authority::Preparing => Some("session_preparing"),
            Authority::Rejected => Some("session_rejected"),
        }
    }

    /// The lowest number of a run made from numbers that may go on.
    pub fn first_open_run(&self) -> u8 {
        let sealed = |number: &u8| {
            let id = format!("q{number}");
            let run = self.runs.iter().find(|run| run.spine.run_id.as_str() == id);
            run.is_some_and(|run| run.terminal.is_some())
        };
        (0..200).find(|number| !sealed(number)).unwrap_or(200)
    }

    fn known(&self, id: &str) -> Option<(u64, &Event)> {
        let events = (1..).zip(&self.events);
        events
            .into_iter()
            .find(|(_, event)| event.written.id.as_str() == id)
    }

    /// Gives an event its place.
    fn place(&mut self, event: &CanonicalEvent, number: u64) -> Result<(), &'static str> {
        let spine = &event.spine;
        let same_run = |run: &Run| run.spine.run_id == spine.run_id;
        let same_invocation = |run: &Run| run.spine.invocation_id == spine.invocation_id;
        let ordinal = self.head() + 1;
        let at = match self.runs.iter().position(same_run) {
            Some(at) if self.runs[at].spine != *spine => return Err("run_conflict"),
            Some(at) if self.runs[at].terminal.is_some() => return Err("run_sealed"),
            Some(at) => at,
            None if self.runs.iter().any(same_invocation) => return Err("run_conflict"),
            None => {
                self.runs.push(Run {
                    spine: spine.clone(),
                    opened: ordinal,
                    terminal: None,
                });
                self.runs.len() - 1
            }
        };
        let run_no = u32::try_from(at + 1).expect("a history has few runs");
        let of_run = self.events.iter().filter(|event| event.run_no == run_no);
        let event_seq = of_run.count() as u64 + 1;
        let digest = event_digest(&event.view(), spine);
        if event.view().is_terminal() {
            self.runs[at].terminal = Some(ordinal);
        }
        self.events.push(Event {
            number,
            writer: self.life,
            written: Arc::new(event.clone()),
            now: Arc::new(event.clone()),
            digest,
            run_no,
            event_seq,
            chain: chain_next(&self.chain(), ordinal, event_seq, &digest),
            cites: BTreeSet::new(),
        });
        Ok(())
    }

    /// Adds contributions; answers how many were new, and the log's head.
    fn note(&mut self, batch: &ContributionBatch) -> Result<(u64, u64, u64), &'static str> {
        let source = SOURCES.into_iter().find(|source| *source == batch.source);
        let source = source.expect("histories write these logs only");
        let log = self.notes.entry(source).or_default();
        let before = log.len();
        let mut highest = 0;
        for (at, fact) in batch.facts.iter().enumerate() {
            let withheld = batch.withheld.iter().find(|(of, _)| *of == at);
            let digest = match withheld {
                Some((_, digest)) => *digest,
                None => fact_digest(&fact.canonical()),
            };
            match log.iter().find(|note| note.fact.id == fact.id) {
                Some(known) if known.digest == digest => continue,
                Some(_) => return Err("fact_id_conflict"),
                None => {}
            }
            let chain = log.last().map_or(EMPTY_CHAIN, |note| note.chain);
            let chain = facts_chain_next(&chain, log.len() as u64 + 1, &digest);
            highest = highest.max(fact.anchor);
            log.push(Note {
                fact: fact.clone(),
                digest,
                chain,
                redacted: withheld.is_some(),
            });
        }
        Ok(((log.len() - before) as u64, log.len() as u64, highest))
    }

    /// The ordinals of the events that a redaction of one of its items takes:
    /// those that the item is made of, and those that speak for it although it
    /// does not show them. What shows in another item of the same identity
    /// stays.
    fn taken_with(&self, item: &Item, items: &[(Item, Vec<u64>)]) -> BTreeSet<u64> {
        let (mut mine, mut others) = (BTreeSet::new(), BTreeSet::new());
        for (other, chunks) in items
            .iter()
            .filter(|(other, _)| other.base() == item.base())
        {
            let shown = if other.position == item.position {
                &mut mine
            } else {
                &mut others
            };
            let own = other.need.iter().filter(|need| match need.part {
                ItemPart::Call => false,
                ItemPart::Mark => need.lane == Lane::Thinking,
                _ => true,
            });
            shown.extend(own.map(|need| need.ordinal));
            shown.extend(chunks);
        }
        let opened = self.runs[item.run_no as usize - 1].opened;
        for (ordinal, event) in (1..).zip(&self.events) {
            let hidden = ordinal >= opened && !others.contains(&ordinal);
            if hidden && self.speaks_for(event, item) {
                mine.insert(ordinal);
            }
        }
        mine
    }

    /// Whether an event is a chunk of an item, reasoning of it that shows
    /// nothing, or a request for the permission of a call.
    fn speaks_for(&self, event: &Event, item: &Item) -> bool {
        let view = event.now.view();
        let spine = &event.now.spine;
        let names = |field| {
            let turn = view.text(Field::ScopeTurnId);
            let turn = turn.as_deref().unwrap_or(spine.turn_id.as_str());
            let id = view.text(field).unwrap_or_default();
            *key::base_key(item.kind, turn, &id) == *item.base()
        };
        match (item.kind, &*view.kind()) {
            (ItemKind::Assistant, "text" | "thinking") => {
                let opened = self.runs[event.run_no as usize - 1].opened;
                let first = &self.events[usize::try_from(opened - 1).expect("few events")];
                let claims = claims(&view, spine, reference::is_inline(&first.now));
                claims.own.iter().any(|claim| {
                    matches!(claim.form, Form::Partial | Form::Mark) && *claim.base == *item.base()
                })
            }
            (ItemKind::Call, "function_call" | "function_response")
            | (ItemKind::Result, "function_response")
                if view.partial =>
            {
                names(Field::CallId)
            }
            (ItemKind::Call, _) => {
                view.raw(Field::RequestToolUseId).is_some() && names(Field::RequestToolUseId)
            }
            _ => false,
        }
    }

    /// The ordinal of the event that keeps the source record of an import of
    /// which another event was made.
    fn source_of(&self, event: &Event) -> Option<u64> {
        let (stem, _) = event.written.id.as_str().rsplit_once('-')?;
        let (ordinal, first) = self.known(&format!("{stem}-0"))?;
        has_source(first.now.body()).then_some(ordinal)
    }
}

impl Event {
    /// What is left of it without its payload, or only without the source
    /// record that it keeps; nothing, if all of it may stay.
    fn redacted(&self, payload: bool) -> Option<Arc<CanonicalEvent>> {
        let view = self.now.view();
        let left = if payload {
            redacted_body(view.body())
        } else {
            body_without_source(view.body())
        };
        let cites = payload && !self.cites.is_empty();
        let digest = body_digest(&view);
        let changed = cites || left != view.body();
        changed.then(|| Arc::new((*self.now).clone().with_body(&left, digest, payload)))
    }
}

impl Model {
    /// An empty ledger.
    pub fn new(durable: bool) -> Self {
        Self {
            durable,
            sessions: BTreeMap::new(),
            blobs: BTreeMap::new(),
            uploads: BTreeMap::new(),
            stages: (0, 0),
            views: BTreeMap::new(),
            lives: 0,
            events: 0,
            outcomes: Vec::new(),
        }
    }

    /// The ledger after an operation.
    #[must_use]
    pub fn after(mut self, op: &Op) -> Self {
        let before = self.clone();
        self.outcomes = match op {
            Op::Together(first, second) => {
                // Both were made before either was committed.
                let batches = [before.batch(first), before.batch(second)];
                let mut outcomes = Vec::new();
                for (append, batch) in [first, second].into_iter().zip(&batches) {
                    outcomes.push(self.attempt(|model| model.append(append, batch)));
                }
                outcomes
            }
            Op::Failed { op, reopen } => match self.attempt(|model| model.apply(op)) {
                Ok(_) => {
                    self = before;
                    self.lose_upload(op);
                    if *reopen {
                        self.open_again();
                    }
                    vec![Err("indeterminate")]
                }
                refused => vec![refused],
            },
            _ => vec![self.attempt(|model| model.apply(op))],
        };
        self
    }

    /// Does something wholly or not at all.
    fn attempt(&mut self, work: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let mut next = self.clone();
        let outcome = work(&mut next);
        if outcome.is_ok() {
            *self = next;
        }
        outcome
    }

    /// The session of a number.
    ///
    /// # Errors
    /// `session_not_found`.
    pub fn session(&self, session: u8) -> Result<&Session, &'static str> {
        self.sessions.get(&session).ok_or("session_not_found")
    }

    fn session_mut(&mut self, session: u8) -> Result<&mut Session, &'static str> {
        self.sessions.get_mut(&session).ok_or("session_not_found")
    }

    /// The session, if it can be read.
    fn readable(&self, session: u8) -> Result<&Session, &'static str> {
        let session = self.session(session)?;
        session.unreadable().map_or(Ok(session), Err)
    }

    /// The revision that a caller names.
    pub fn revision(&self, session: u8, revision: Revision) -> Option<u64> {
        let right = self
            .sessions
            .get(&session)
            .map_or(1, |session| session.revision);
        match revision {
            Revision::Any => None,
            Revision::Right => Some(right),
            Revision::Wrong => Some(right + 1),
        }
    }

    /// Where a fork is made: mostly an ordinal of the session, at times none.
    pub fn fork_point(&self, session: u8, at: u16) -> u64 {
        let head = self.sessions.get(&session).map_or(0, Session::head);
        u64::from(at) % (head + head / 16 + 2)
    }

    /// The keys that a redaction names.
    pub fn keys(&self, session: u8, keys: &[Key]) -> Vec<String> {
        let Some(session) = self.sessions.get(&session) else {
            return vec!["user:nobody".to_owned()];
        };
        let items = reference::items(&session.now()).into_iter();
        let items: Vec<String> = items.map(|(item, _)| item.key.into()).collect();
        let logs = session.notes.iter();
        let facts = logs.flat_map(|(source, log)| {
            let id = move |note: &Note| format!("{source}::{}", note.fact.id.as_str());
            log.iter().map(id)
        });
        let facts: Vec<String> = facts.collect();
        let key = |key: &Key| {
            let (several, pick) = match key {
                Key::Item(pick) => (&items, pick),
                Key::Fact(pick) => (&facts, pick),
                Key::Again | Key::Missing => return None,
            };
            several.get(usize::from(*pick).checked_rem(several.len())?)
        };
        let mut named: Vec<String> = Vec::new();
        for wanted in keys {
            let last = named.last().filter(|_| matches!(wanted, Key::Again));
            let found = key(wanted).or(last);
            named.push(found.map_or_else(|| "user:nobody".to_owned(), Clone::clone));
        }
        named
    }

    /// An entry of any contribution log, with its source; one without its
    /// payload, if there is such.
    fn note_to_copy(&self, pick: u16) -> Option<(&'static str, &Note)> {
        let sessions = self.sessions.values();
        let logs = sessions.flat_map(|session| &session.notes);
        let all = logs.flat_map(|(source, log)| log.iter().map(move |note| (*source, note)));
        let all: Vec<(&'static str, &Note)> = all.collect();
        let redacted = all.iter().copied().filter(|(_, note)| note.redacted);
        let redacted: Vec<_> = redacted.collect();
        script::at(if redacted.is_empty() { &all } else { &redacted }, pick)
    }

    /// The batch of an append, without its lease.
    pub fn batch(&self, append: &Append) -> AppendBatch {
        let id = name(append.session);
        let session = self.sessions.get(&append.session);
        let head = session.map_or(0, Session::head);
        let written: Vec<&CanonicalEvent> = session
            .map(|session| session.events.iter().map(|event| &*event.written).collect())
            .unwrap_or_default();
        let mut events: Vec<CanonicalEvent> = Vec::new();
        for part in &append.parts {
            match part {
                Part::New(spec) => events.push(script::event(id.as_str(), spec, &written)),
                Part::Workload(count) => {
                    let whole = script::workload(session.map_or(0, |session| session.workload));
                    let taken = |id: &str| id.starts_with('e');
                    let there = written.iter().filter(|event| taken(event.id.as_str()));
                    let here = events.iter().filter(|event| taken(event.id.as_str()));
                    let next = there.count() + here.count();
                    let more = whole.iter().skip(next).take(usize::from(*count)).cloned();
                    events.extend(more.collect::<Vec<_>>());
                }
                Part::Record(run, record) => {
                    events.extend(script::record(id.as_str(), *run, *record));
                }
                Part::Again(pick) => {
                    events.extend(script::at(&written, *pick).cloned());
                }
                Part::Copy(from, pick) => {
                    let from = self.sessions.get(from);
                    let there = from.map_or(&[][..], |from| from.events.as_slice());
                    let there: Vec<&CanonicalEvent> =
                        there.iter().map(|event| &*event.now).collect();
                    let withheld = there
                        .iter()
                        .copied()
                        .filter(|event| event.withheld.is_some());
                    let withheld: Vec<_> = withheld.collect();
                    let several = if withheld.is_empty() {
                        &there
                    } else {
                        &withheld
                    };
                    events.extend(script::at(several, *pick).cloned());
                }
                Part::Clash(pick) => {
                    let old = script::at(&written, *pick);
                    events.extend(old.map(|old| script::clash(id.as_str(), old.id.as_str())));
                }
            }
        }
        for event in &mut events {
            event.session_id = id.clone();
        }
        if append.stray
            && let Some(event) = events.last_mut()
        {
            event.session_id = session_id("elsewhere");
        }
        let cites = append.cites.iter().map(|(at, content)| {
            let at = usize::from(*at).checked_rem(events.len());
            at.map(|at| (at, address(*content)))
        });
        let cites = cites.flatten().collect();
        let contributions = append.facts.as_ref().map(|batch| {
            // The last anchor is one that does not exist.
            let anchors = head + events.len() as u64 + 1;
            let made = batch.facts.iter().map(|(id, anchor, text)| Fact {
                id: ForeignId::new(format!("note-{id}")).expect("this is an id"),
                op: FactOp::Put,
                anchor: u64::from(*anchor) % (anchors + 1),
                ts: None,
                kind: "mode_change".into(),
                turn_id: None,
                visible: true,
                data: Some(Json::integer(u64::from(*text))),
            });
            let copied = batch.copy.and_then(|pick| self.note_to_copy(pick));
            match copied {
                Some((source, note)) => ContributionBatch {
                    withheld: note
                        .redacted
                        .then_some((0, note.digest))
                        .into_iter()
                        .collect(),
                    ..ContributionBatch::new(source, vec![note.fact.clone()])
                },
                None => ContributionBatch::new(SOURCES[usize::from(batch.source)], made.collect()),
            }
        });
        // Only importers may copy what is without its payload; at times
        // somebody else tries.
        let copies = contributions.as_ref();
        let copies =
            copies.is_some_and(|batch| !batch.withheld.is_empty()) && !head.is_multiple_of(4);
        AppendBatch {
            contributions,
            expected_head: append.head.map(|right| if right { head } else { head + 1 }),
            writer: if append.importer || copies {
                Writer::Importer
            } else {
                Writer::Native
            },
            import_ref: append.import_ref.map(import_ref),
            cites,
            ..AppendBatch::native(events)
        }
    }

    fn append(&mut self, append: &Append, batch: &AppendBatch) -> Outcome {
        let id = name(append.session);
        let numbers = self.events + 1;
        self.events += batch.events.len() as u64;
        let native = batch.writer == Writer::Native;
        let facts = batch.contributions.as_ref();
        if native && facts.is_some_and(|facts| !facts.withheld.is_empty()) {
            return Err("event_withheld");
        }
        if batch.events.iter().any(|event| event.session_id != id) {
            return Err("session_mismatch");
        }
        if native && batch.events.iter().any(|event| event.withheld.is_some()) {
            return Err("event_withheld");
        }
        let blobs: BTreeSet<Digest> = self.blobs.keys().map(|blob| address(*blob).0).collect();
        let session = self.session_mut(append.session)?;
        let mut seen: BTreeMap<&str, Digest> = BTreeMap::new();
        for event in &batch.events {
            let id = event.id.as_str();
            let digest = event_digest(&event.view(), &event.spine);
            let known = session.known(id).map(|(_, known)| known.digest);
            let earlier = known.or_else(|| seen.get(id).copied());
            if earlier.is_some_and(|earlier| earlier != digest) {
                return Err("event_id_conflict");
            }
            seen.insert(id, digest);
        }
        let (facts_added, facts_head, highest) = match &batch.contributions {
            Some(batch) => session.note(batch)?,
            None => (0, 0, 0),
        };
        let new_ref = batch.import_ref.is_some() && batch.import_ref != session.import_ref;
        let any_new = seen.keys().any(|id| session.known(id).is_none());
        if any_new || facts_added > 0 || new_ref {
            match (session.authority, batch.writer) {
                (Authority::Preparing, Writer::Native) => return Err("session_preparing"),
                (Authority::Rejected, _) => return Err("session_rejected"),
                (_, Writer::Native) if session.followed => return Err("session_followed"),
                _ => {}
            }
            match (append.lease, session.lease.is_some()) {
                (LeaseUse::None, true) => return Err("session_leased"),
                (LeaseUse::Last, false) | (LeaseUse::Bogus, _) => return Err("lease_lost"),
                _ => {}
            }
            if batch
                .expected_head
                .is_some_and(|head| head != session.head())
            {
                return Err("head_mismatch");
            }
        }
        // What is present cites what it cited then.
        let mut new = batch.cites.iter().filter(|(at, _)| {
            let id = batch.events[*at].id.as_str();
            session.known(id).is_none()
        });
        if new.any(|(_, blob)| !blobs.contains(&blob.0)) {
            return Err("blob_not_found");
        }
        let mut events = Vec::new();
        for (number, event) in (numbers..).zip(&batch.events) {
            let present = session.known(event.id.as_str()).is_some();
            if !present {
                session.place(event, number)?;
            }
            let known = session.known(event.id.as_str());
            let (ordinal, known) = known.expect("it was there or was placed");
            events.push(Placement {
                ordinal,
                event_seq: known.event_seq,
                present,
            });
        }
        if facts_added > 0 && highest > session.head() {
            return Err("anchor_unknown");
        }
        for (at, blob) in &batch.cites {
            if !events[*at].present {
                let at = usize::try_from(events[*at].ordinal - 1).expect("few events");
                session.events[at].cites.insert(blob.0);
            }
        }
        if new_ref {
            session.import_ref.clone_from(&batch.import_ref);
        }
        Ok(Answer::Committed(Committed {
            events,
            high_water: session.head(),
            chain: session.chain(),
            facts_added,
            facts_head,
        }))
    }

    fn apply(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Append(append) => {
                let batch = self.batch(append);
                return self.append(append, &batch);
            }
            Op::Together(..) | Op::Failed { .. } => unreachable!("these are several steps"),
            Op::Create {
                session,
                authority,
                followed,
                workload,
            } => self.create(*session, *authority, *followed, *workload)?,
            Op::Fork { parent, at, child } => self.fork(*parent, *at, *child)?,
            Op::Delete { session, revision } => {
                let expected = self.revision(*session, *revision);
                self.delete(*session, expected, false)?;
            }
            Op::Discard { session, revision } => {
                let right = self.revision(*session, Revision::Right);
                let expected = self.revision(*session, *revision).or(right);
                self.delete(*session, expected, true)?;
            }
            Op::Redact { session, keys } => {
                let keys = self.keys(*session, keys);
                return self.redact(*session, &keys).map(Answer::Redacted);
            }
            Op::Scrub => return Ok(Answer::Collected(self.collect())),
            Op::Rebuild { session } => drop(self.session(*session)?),
            Op::Reopen { .. } => self.open_again(),
            Op::Walk(walk) => drop(self.readable(walk.session)?),
            Op::Acquire {
                session,
                holder: number,
            } => {
                let session = self.session_mut(*session)?;
                if session.lease.is_some() {
                    return Err("session_leased");
                }
                session.lease = Some(holder(*number));
            }
            Op::Release { session } => self.session_mut(*session)?.lease = None,
            Op::PutBlob { content, .. } => drop(self.blobs.insert(*content, true)),
            Op::ReadBlob {
                content: number,
                from,
                bytes,
            } => {
                if !self.blobs.contains_key(number) {
                    return Err("blob_not_found");
                }
                let (from, bytes) = (*from as usize, *bytes as usize);
                let part = content(*number).into_iter().skip(from).take(bytes);
                return Ok(Answer::Bytes(part.collect()));
            }
            Op::SetAuthority {
                session,
                to,
                revision,
                import_ref: number,
            } => {
                let wrong = *revision == Revision::Wrong;
                let session = self.session_mut(*session)?;
                if wrong {
                    return Err("authority_changed");
                }
                if !session.authority.may_become(*to) {
                    return Err("authority_transition");
                }
                session.authority = *to;
                session.revision += 1;
                if let Some(number) = number {
                    session.import_ref = Some(import_ref(*number));
                }
            }
            Op::Upload { slot, step } => self.upload(*slot, *step)?,
            Op::PutView(put) => self.put_view(put)?,
            Op::DropView { view } => drop(self.views.remove(view)),
            Op::Wait { session, .. } => drop(self.session(*session)?),
        }
        Ok(Answer::Done)
    }

    fn create(
        &mut self,
        session: u8,
        authority: Authority,
        followed: bool,
        workload: u8,
    ) -> Result<(), &'static str> {
        if self.sessions.contains_key(&session) {
            return Err("session_exists");
        }
        if authority == Authority::Rejected {
            return Err("authority_transition");
        }
        self.lives += 1;
        let new = Session {
            life: self.lives,
            authority,
            revision: 1,
            followed,
            import_ref: None,
            generation: 0,
            inherited: 0,
            events: Vec::new(),
            runs: Vec::new(),
            notes: BTreeMap::new(),
            lease: None,
            workload,
        };
        self.sessions.insert(session, new);
        Ok(())
    }

    fn fork(&mut self, parent: u8, at: u16, child: u8) -> Result<(), &'static str> {
        let at = self.fork_point(parent, at);
        if self.sessions.contains_key(&child) {
            return Err("session_exists");
        }
        let parent = self.readable(parent)?.clone();
        if at > parent.head() {
            return Err("watermark_unknown");
        }
        self.create(child, Authority::RuntimeEvents, false, parent.workload)?;
        let child = self.session_mut(child)?;
        child.inherited = at;
        child.events = parent.events;
        child
            .events
            .truncate(usize::try_from(at).expect("few events"));
        child.runs = parent.runs;
        child.runs.retain(|run| run.opened <= at);
        for run in &mut child.runs {
            run.terminal = run.terminal.filter(|terminal| *terminal <= at);
        }
        Ok(())
    }

    fn delete(
        &mut self,
        session: u8,
        expected: Option<u64>,
        discard: bool,
    ) -> Result<(), &'static str> {
        let there = self.session(session)?;
        if expected.is_some_and(|expected| expected != there.revision) {
            return Err("authority_changed");
        }
        if discard && there.authority == Authority::RuntimeEvents {
            return Err("authority_transition");
        }
        if there.lease.is_some() {
            return Err("session_leased");
        }
        let life = there.life;
        self.sessions.remove(&session);
        self.forget_seen(life);
        Ok(())
    }

    fn redact(&mut self, session: u8, keys: &[String]) -> Result<Redaction, &'static str> {
        let here = self.readable(session)?;
        let items = reference::items(&here.now());
        let (mut ordinals, mut sources) = (BTreeSet::new(), BTreeSet::new());
        let mut facts = BTreeSet::new();
        for wanted in keys {
            if let Some((item, _)) = items.iter().find(|(item, _)| *item.key == **wanted) {
                let taken = here.taken_with(item, &items);
                let events = (1..).zip(&here.events);
                let events = events.filter(|(ordinal, _)| taken.contains(ordinal));
                sources.extend(events.filter_map(|(_, event)| here.source_of(event)));
                ordinals.extend(taken);
                continue;
            }
            let (source, id) = wanted.split_once("::").ok_or("item_not_found")?;
            let log = here.notes.get(source).ok_or("item_not_found")?;
            let at = log.iter().position(|note| note.fact.id.as_str() == id);
            facts.insert((source.to_owned(), at.ok_or("item_not_found")? as u64 + 1));
        }
        // Events by their number, each with whether its payload is gone.
        let gone: BTreeMap<u64, (bool, Arc<CanonicalEvent>)> = (1..)
            .zip(&here.events)
            .filter_map(|(ordinal, event)| {
                let payload = ordinals.contains(&ordinal);
                let hit = payload || sources.contains(&ordinal);
                let left = hit.then(|| event.redacted(payload)).flatten()?;
                Some((event.number, (payload, left)))
            })
            .collect();
        let here = self.session_mut(session)?;
        let mut changed = false;
        for (source, seq) in &facts {
            let log = here.notes.get_mut(source.as_str());
            let at = usize::try_from(*seq - 1).expect("few entries");
            let note = log.and_then(|log| log.get_mut(at));
            if let Some(note) = note.filter(|note| !note.redacted) {
                changed = true;
                note.redacted = true;
                note.fact = note.fact.clone().redacted();
            }
        }
        let mut hits = Vec::new();
        for (name, other) in &mut self.sessions {
            let mut hit = changed && *name == session;
            for event in &mut other.events {
                if let Some((payload, left)) = gone.get(&event.number) {
                    event.now = Arc::clone(left);
                    if *payload {
                        event.cites.clear();
                    }
                    hit = true;
                }
            }
            if hit {
                other.generation += 1;
                hits.push(other.life);
            }
        }
        hits.into_iter().for_each(|life| self.forget_seen(life));
        Ok(Redaction {
            ordinals: ordinals.into_iter().collect(),
            facts: facts.into_iter().collect(),
            generation: self.session(session)?.generation,
        })
    }

    /// Views have seen nothing of a life of a session.
    fn forget_seen(&mut self, life: u64) {
        for view in self.views.values_mut() {
            view.marks.remove(&life);
            view.entries.retain(|_, (of, _)| *of != life);
        }
    }

    /// The mark that the writer of a view names, and the one that it sets.
    pub fn marks(&self, put: &PutView) -> (u64, u64) {
        let session = self.sessions.get(&put.session);
        let view = self.views.get(&put.view);
        let view = view.filter(|view| view.version == put.version);
        let seen = session.and_then(|session| view?.marks.get(&session.life));
        let seen = seen.copied().unwrap_or(0);
        let head = session.map_or(0, Session::head);
        let to = u64::from(put.to) % (head + head / 16 + 2);
        if put.knows_mark {
            (seen, to.max(seen))
        } else {
            (seen + 1, to)
        }
    }

    fn put_view(&mut self, put: &PutView) -> Result<(), &'static str> {
        let (from, to) = self.marks(put);
        if from > to {
            return Err("watermark_unknown");
        }
        let session = self.readable(put.session)?;
        if to > session.head() {
            return Err("watermark_unknown");
        }
        let life = session.life;
        let stored = self.views.get(&put.view);
        if stored.is_some_and(|view| view.version > put.version) {
            return Err("view_version");
        }
        let stored = stored.filter(|view| view.version == put.version);
        let seen = stored.and_then(|view| view.marks.get(&life));
        if seen.copied().unwrap_or(0) != from {
            return Err("view_moved");
        }
        let mut view = stored.cloned().unwrap_or(View {
            version: put.version,
            marks: BTreeMap::new(),
            entries: BTreeMap::new(),
        });
        view.marks.insert(life, to);
        for (key, value) in &put.entries {
            match value {
                Some(value) => drop(view.entries.insert(*key, (life, *value))),
                None => drop(view.entries.remove(key)),
            }
        }
        self.views.insert(put.view, view);
        Ok(())
    }

    fn upload(&mut self, slot: u8, step: UploadStep) -> Result<(), &'static str> {
        if let UploadStep::Begin { content } = step {
            let begun = Upload {
                content,
                arrived: 0,
            };
            self.uploads.insert(slot, begun);
            self.stages.0 += 1;
            return Ok(());
        }
        let upload = self.uploads.get_mut(&slot).ok_or("upload_unknown")?;
        match step {
            UploadStep::Extend { bytes } => {
                let all = content(upload.content).len();
                upload.arrived = all.min(upload.arrived + bytes as usize);
            }
            _ => {
                let content = upload.content;
                self.uploads.remove(&slot);
                self.stages.0 -= 1;
                self.blobs.insert(content, true);
            }
        }
        Ok(())
    }

    /// An upload to which something failed is lost; what arrived of it stays
    /// as long as the handle.
    fn lose_upload(&mut self, op: &Op) {
        if let Op::Upload { slot, step } = op
            && !matches!(step, UploadStep::Begin { .. })
        {
            self.uploads.remove(slot);
        }
    }

    /// Whether an event of a session cites a content.
    fn is_cited(&self, content: u8) -> bool {
        let blob = address(content).0;
        let mut events = self.sessions.values().flat_map(|session| &session.events);
        events.any(|event| event.cites.contains(&blob))
    }

    fn collect(&mut self) -> u64 {
        let before = self.blobs.len();
        let mut blobs = std::mem::take(&mut self.blobs);
        blobs.retain(|content, held| *held || self.is_cited(*content));
        self.blobs = blobs;
        (before - self.blobs.len()) as u64 + std::mem::take(&mut self.stages.1)
    }

    /// What a handle held is held no more.
    fn open_again(&mut self) {
        for session in self.sessions.values_mut() {
            session.lease = None;
        }
        for held in self.blobs.values_mut() {
            *held = false;
        }
        self.uploads.clear();
        self.stages = (0, self.stages.0 + self.stages.1);
    }
}
