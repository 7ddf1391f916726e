//! The simplest possible ledger: vectors that are copied, searched and thrown
//! away whole. It decides what every operation must answer.
//!
//! Where a request breaks several rules the order in which they are looked at
//! decides which of them is told; that order is the port's, for all adapters.

use super::op::{Append, CONTENTS, Key, LeaseUse, Op, Revision, SOURCES};
use super::script::{self, Part};
use crate::check::{Row, session_id};
use crate::reference;
use folio_codec::{
    Digest, EMPTY_CHAIN, body_digest, chain_next, event_digest, fact_digest, facts_chain_next,
};
use folio_core::claims::claims;
use folio_core::item::{Lane, Part as ItemPart};
use folio_core::redact::redacted_body;
use folio_core::{
    Authority, CanonicalEvent, Fact, FactOp, Field, ForeignId, Item, ItemKind, Json, SessionId,
    Spine, key,
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
    /// So many blobs were collected.
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
    /// The contents that it cites, each once, by address.
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
    pub fact: Fact,
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

/// The whole ledger.
#[derive(Debug, Clone)]
pub struct Model {
    /// Whether histories open the store again.
    pub durable: bool,
    pub sessions: BTreeMap<u8, Session>,
    /// The contents that are stored, each with whether the open handle has put
    /// it.
    pub blobs: BTreeMap<u8, bool>,
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
        for fact in &batch.facts {
            let digest = fact_digest(&fact.canonical());
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
                redacted: false,
            });
        }
        Ok(((log.len() - before) as u64, log.len() as u64, highest))
    }

    /// The ordinals of the events that an item is made of.
    fn made_of(&self, item: &Item, chunks: &[u64]) -> BTreeSet<u64> {
        let own = item.need.iter().filter(|need| match need.part {
            ItemPart::FirstChunk | ItemPart::Final | ItemPart::Closer => true,
            ItemPart::Mark => need.lane == Lane::Thinking,
            ItemPart::Call | ItemPart::Request => false,
        });
        let mut ordinals: BTreeSet<u64> = own.map(|need| need.ordinal).collect();
        ordinals.extend(chunks);
        if matches!(item.kind, ItemKind::Call | ItemKind::Result) {
            let local = item.base().split_once(':').map_or("", |(_, local)| local);
            let call = format!("{}:{local}", ItemKind::Call.as_str());
            let opened = self.runs[item.run_no as usize - 1].opened;
            for (ordinal, event) in (1..=item.revision).zip(&self.events) {
                if ordinal >= opened && is_chunk_of(&event.now, &call) {
                    ordinals.insert(ordinal);
                }
            }
        }
        ordinals
    }
}

/// Whether an event is a chunk of the arguments or the output of a call.
fn is_chunk_of(event: &CanonicalEvent, call: &str) -> bool {
    let view = event.view();
    if !view.partial || !matches!(&*view.kind(), "function_call" | "function_response") {
        return false;
    }
    let turn = view.text(Field::ScopeTurnId);
    let turn = turn
        .as_deref()
        .unwrap_or_else(|| event.spine.turn_id.as_str());
    let id = view.text(Field::CallId).unwrap_or_default();
    let claimed = claims(&view, &event.spine, true).call;
    &*key::base_key(ItemKind::Call, turn, &id) == call || claimed.as_deref() == Some(call)
}

/// What is left of an event; nothing, if all of it may stay.
fn redacted(event: &CanonicalEvent) -> Option<CanonicalEvent> {
    let view = event.view();
    let left = redacted_body(view.body());
    let digest = body_digest(&view);
    (left != view.body()).then(|| event.clone().with_body(&left, digest))
}

impl Model {
    /// An empty ledger.
    pub fn new(durable: bool) -> Self {
        Self {
            durable,
            sessions: BTreeMap::new(),
            blobs: BTreeMap::new(),
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
            Op::Failed(append) => {
                let batch = before.batch(append);
                let outcome = self.attempt(|model| model.append(append, &batch));
                if outcome.is_ok() {
                    self = before;
                    self.open_again();
                    vec![Err("indeterminate")]
                } else {
                    vec![outcome]
                }
            }
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
        let now = self.sessions.get(&session).map(Session::now);
        let items = reference::items(&now.unwrap_or_default());
        let missing = || "user:nobody".to_owned();
        keys.iter()
            .map(|key| match key {
                Key::Item(pick) => {
                    let at = usize::from(*pick).checked_rem(items.len());
                    at.map_or_else(missing, |at| items[at].0.key.to_string())
                }
                Key::Fact(source, id) => {
                    format!("{}::note-{id}", SOURCES[usize::from(*source)])
                }
                Key::Missing => missing(),
            })
            .collect()
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
                Part::Again(pick) => {
                    events.extend(script::at(&written, *pick).cloned());
                }
                Part::Copy(from, pick) => {
                    let from = self.sessions.get(from);
                    let there = from.map_or(&[][..], |from| from.events.as_slice());
                    let at = usize::from(*pick).checked_rem(there.len());
                    events.extend(at.map(|at| (*there[at].now).clone()));
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
            let facts = batch.facts.iter().map(|(id, anchor, text)| Fact {
                id: ForeignId::new(format!("note-{id}")).expect("this is an id"),
                op: FactOp::Put,
                anchor: u64::from(*anchor) % (anchors + 1),
                ts: None,
                kind: "mode_change".into(),
                turn_id: None,
                visible: true,
                data: Some(Json::integer(u64::from(*text))),
            });
            let source = SOURCES[usize::from(batch.source)];
            ContributionBatch::new(source, facts.collect())
        });
        AppendBatch {
            contributions,
            expected_head: append.head.map(|right| if right { head } else { head + 1 }),
            writer: if append.importer {
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
        if batch.events.iter().any(|event| event.session_id != id) {
            return Err("session_mismatch");
        }
        let native = batch.writer == Writer::Native;
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
        if batch.cites.iter().any(|(_, blob)| !blobs.contains(&blob.0)) {
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
            Op::Together(..) | Op::Failed(_) => unreachable!("these are several steps"),
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
        self.sessions.remove(&session);
        Ok(())
    }

    fn redact(&mut self, session: u8, keys: &[String]) -> Result<Redaction, &'static str> {
        let here = self.readable(session)?;
        let items = reference::items(&here.now());
        let mut ordinals = BTreeSet::new();
        let mut facts = Vec::new();
        for wanted in keys {
            if let Some((item, chunks)) = items.iter().find(|(item, _)| *item.key == **wanted) {
                ordinals.extend(here.made_of(item, chunks));
                continue;
            }
            let (source, id) = wanted.split_once("::").ok_or("item_not_found")?;
            let log = here.notes.get(source).ok_or("item_not_found")?;
            let at = log.iter().position(|note| note.fact.id.as_str() == id);
            facts.push((source.to_owned(), at.ok_or("item_not_found")? as u64 + 1));
        }
        let gone: BTreeMap<u64, Arc<CanonicalEvent>> = (1..)
            .zip(&here.events)
            .filter(|(ordinal, _)| ordinals.contains(ordinal))
            .filter_map(|(_, event)| Some((event.number, Arc::new(redacted(&event.now)?))))
            .collect();
        let here = self.session_mut(session)?;
        let mut changed = false;
        for (source, seq) in &facts {
            let log = here.notes.get_mut(source.as_str());
            let at = usize::try_from(*seq - 1).expect("few entries");
            if let Some(note) = log.and_then(|log| log.get_mut(at)) {
                changed |= !note.redacted;
                note.redacted = true;
            }
        }
        for (name, other) in &mut self.sessions {
            let mut hit = changed && *name == session;
            for event in &mut other.events {
                if let Some(left) = gone.get(&event.number) {
                    event.now = Arc::clone(left);
                    hit = true;
                }
            }
            other.generation += u32::from(hit);
        }
        Ok(Redaction {
            ordinals: ordinals.into_iter().collect(),
            facts,
            generation: self.session(session)?.generation,
        })
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
        (before - self.blobs.len()) as u64
    }

    /// What a handle held is held no more.
    fn open_again(&mut self) {
        for session in self.sessions.values_mut() {
            session.lease = None;
        }
        for held in self.blobs.values_mut() {
            *held = false;
        }
    }
}
