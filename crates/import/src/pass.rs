//! One reading of a source from its start: translated, digested and folded,
//! beside what a session already holds of it.

use crate::check;
use crate::claude_code::{Diagnostic, Entry, Increment, Manifest};
use crate::format::{Format, Translate};
use crate::import_ref::Mark;
use crate::lines::Lines;
use crate::preview::Preview;
use crate::source::Source;
use folio_codec::{Digest, EMPTY_CHAIN, chain_next, event_digest, fact_digest, facts_chain_next};
use folio_core::{CanonicalEvent, Fact, RunId, RuntimeEvent, SessionId};
use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most entries of one batch.
const BATCH_ENTRIES: usize = 1_000;
/// The most bytes of one batch, unless one entry alone has more.
const BATCH_BYTES: usize = 4 << 20;

/// What a session holds of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub head: u64,
    pub chain: Digest,
    pub notes_head: u64,
    pub notes_chain: Digest,
    /// The items that were consumed, by their number and digest.
    pub items: u64,
    pub digest: [u8; 32],
}

/// How a source stands to what a session holds of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Everything that is held was given again so far, and more is held.
    Behind,
    /// Everything that is held was given again.
    Same,
    /// Something else was given.
    Differs,
}

/// Events and notes to append together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub events: Vec<CanonicalEvent>,
    pub notes: Vec<Fact>,
    /// How far the source is consumed with it; `None` inside a record.
    pub mark: Option<Mark>,
}

#[derive(Debug)]
enum What {
    Event(Box<CanonicalEvent>),
    Note(Box<Fact>),
}

/// What one line gave.
#[derive(Debug)]
struct Group {
    entries: VecDeque<(What, usize)>,
    bytes: usize,
    mark: Mark,
}

pub(crate) struct Pass {
    translator: Box<dyn Translate>,
    lines: Lines<Counted>,
    read: Arc<AtomicU64>,
    held: Held,
    head: u64,
    chain: Digest,
    sequences: HashMap<RunId, u64>,
    notes_head: u64,
    notes_chain: Digest,
    events_stand: Standing,
    notes_stand: Standing,
    preview: Preview,
    notes: Vec<Entry>,
    groups: VecDeque<Group>,
    waiting: usize,
    waiting_bytes: usize,
    /// The ordinal before the first event that waits.
    appended: u64,
    /// The number of the last note before the first one that waits.
    notes_appended: u64,
    refused: Vec<Diagnostic>,
    line: u64,
    /// The last line, where the file ends within it.
    torn: Option<u64>,
}

impl Pass {
    /// Begins at the start of a source.
    pub fn open(
        format: Format,
        source: &dyn Source,
        stem: &str,
        session: SessionId,
        finishes: &[u64],
        held: Held,
    ) -> io::Result<Self> {
        let read = Arc::new(AtomicU64::new(0));
        let reader = Counted {
            inner: source.open()?,
            count: Arc::clone(&read),
        };
        let mut translator = format.translator(session, stem, finishes);
        translator.watch(held.items);
        let mut pass = Self {
            translator,
            lines: Lines::new(reader),
            read,
            appended: held.head,
            notes_appended: held.notes_head,
            head: 0,
            chain: EMPTY_CHAIN,
            sequences: HashMap::new(),
            notes_head: 0,
            notes_chain: EMPTY_CHAIN,
            events_stand: Standing::Behind,
            notes_stand: Standing::Behind,
            preview: Preview::default(),
            notes: Vec::new(),
            groups: VecDeque::new(),
            waiting: 0,
            waiting_bytes: 0,
            refused: Vec::new(),
            line: 0,
            torn: None,
            held,
        };
        pass.compare();
        Ok(pass)
    }

    /// Translates the next line; answers whether there was one.
    pub fn step(&mut self) -> io::Result<bool> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(false);
        };
        self.line = line.number;
        self.torn = line.is_torn().then_some(line.number);
        let mut out = Increment::default();
        self.translator.push(&line, &mut out);
        self.absorb(out);
        Ok(true)
    }

    /// Closes what is open.
    pub fn finish(&mut self) {
        let mut out = Increment::default();
        self.translator.finish(&mut out);
        self.absorb(out);
    }

    /// The bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// How the source's records stand to the ones that were consumed.
    pub fn source_stands(&self) -> Standing {
        match self.translator.watched_digest() {
            None => Standing::Behind,
            Some(digest) if digest == self.held.digest => Standing::Same,
            Some(_) => Standing::Differs,
        }
    }

    /// How the translation stands to the events and notes that are held.
    pub fn ledger_stands(&self) -> Standing {
        match (self.events_stand, self.notes_stand) {
            (Standing::Differs, _) | (_, Standing::Differs) => Standing::Differs,
            (Standing::Same, Standing::Same) => Standing::Same,
            _ => Standing::Behind,
        }
    }

    pub fn head(&self) -> u64 {
        self.head
    }

    pub fn chain(&self) -> Digest {
        self.chain
    }

    pub fn notes_head(&self) -> u64 {
        self.notes_head
    }

    pub fn notes_chain(&self) -> Digest {
        self.notes_chain
    }

    /// The head once everything is appended that was taken as a batch.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    /// The number of the last note once that is appended.
    pub fn notes_appended(&self) -> u64 {
        self.notes_appended
    }

    pub fn mark(&self) -> Mark {
        self.translator.mark()
    }

    pub fn findings(&self) -> (Vec<Diagnostic>, Manifest) {
        let (mut noticed, manifest) = self.translator.findings();
        if let Some(line) = self.torn {
            noticed.push(Diagnostic {
                code: "torn_line",
                message: "the file ends within this line; import it again when the line is whole"
                    .to_owned(),
                line: Some(line),
                detail: None,
            });
        }
        (noticed, manifest)
    }

    /// Why records cannot be kept; such a source is rejected.
    pub fn refused(&self) -> &[Diagnostic] {
        &self.refused
    }

    pub fn preview(&self) -> &Preview {
        &self.preview
    }

    /// The visible notes so far.
    pub fn notes(&self) -> &[Entry] {
        &self.notes
    }

    /// Bytes that wait to be appended.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The events that wait, by ordinal.
    pub fn pending(&self) -> HashMap<u64, &CanonicalEvent> {
        let entries = self.groups.iter().flat_map(|group| &group.entries);
        let events = entries.filter_map(|(what, _)| match what {
            What::Event(event) => Some(&**event),
            What::Note(_) => None,
        });
        (self.appended + 1..).zip(events).collect()
    }

    /// The next batch, if enough waits for one, or if anything waits and
    /// `rest` asks for it. It ends behind a whole line unless one line gave
    /// more than a batch may hold.
    pub fn batch(&mut self, rest: bool) -> Option<Batch> {
        let enough = self.waiting >= BATCH_ENTRIES || self.waiting_bytes >= BATCH_BYTES;
        if self.waiting == 0 || !(enough || rest) {
            return None;
        }
        let mut batch = Batch::default();
        let (mut count, mut bytes) = (0, 0);
        while let Some(group) = self.groups.front_mut() {
            let fits =
                count + group.entries.len() <= BATCH_ENTRIES && bytes + group.bytes <= BATCH_BYTES;
            if count > 0 && !fits {
                break;
            }
            while let Some((_, size)) = group.entries.front() {
                if count > 0 && (count >= BATCH_ENTRIES || bytes + size > BATCH_BYTES) {
                    break;
                }
                let Some((what, size)) = group.entries.pop_front() else {
                    break;
                };
                group.bytes -= size;
                count += 1;
                bytes += size;
                match what {
                    What::Event(event) => batch.events.push(*event),
                    What::Note(fact) => batch.notes.push(*fact),
                }
            }
            if !group.entries.is_empty() {
                break;
            }
            batch.mark = Some(group.mark.clone());
            self.groups.pop_front();
        }
        self.waiting -= count;
        self.waiting_bytes -= bytes;
        self.appended += batch.events.len() as u64;
        self.notes_appended += batch.notes.len() as u64;
        Some(batch)
    }

    /// Events and notes in the order in which they may be appended: a note
    /// behind the event that it is anchored at.
    fn absorb(&mut self, out: Increment) {
        if out.events.is_empty() && out.notes.is_empty() {
            return;
        }
        let mut group = Group {
            entries: VecDeque::new(),
            bytes: 0,
            mark: self.translator.mark(),
        };
        let mut notes = out.notes.into_iter().peekable();
        for event in out.events {
            while let Some(fact) = notes.next_if(|fact| fact.anchor <= self.head) {
                self.note(fact, &mut group);
            }
            self.event(&event, &mut group);
        }
        for fact in notes {
            self.note(fact, &mut group);
        }
        if !self.refused.is_empty() {
            self.groups.clear();
            (self.waiting, self.waiting_bytes) = (0, 0);
        } else if !group.entries.is_empty() {
            self.waiting += group.entries.len();
            self.waiting_bytes += group.bytes;
            self.groups.push_back(group);
        }
    }

    fn event(&mut self, event: &RuntimeEvent, group: &mut Group) {
        let event = match CanonicalEvent::new(event) {
            Ok(event) => event,
            Err(error) => {
                self.refused.push(Diagnostic {
                    code: "record_not_representable",
                    message: format!("a record cannot be kept as an event: {error}"),
                    line: Some(self.line),
                    detail: Some(event.id.as_str().to_owned()),
                });
                return;
            }
        };
        let view = event.view();
        let digest = event_digest(&view, &event.spine);
        let sequence = self
            .sequences
            .entry(event.spine.run_id.clone())
            .or_default();
        *sequence += 1;
        self.head += 1;
        self.chain = chain_next(&self.chain, self.head, *sequence, &digest);
        self.preview.push(&event);
        if self.head > self.held.head {
            let size = event.text.len();
            group.bytes += size;
            group
                .entries
                .push_back((What::Event(Box::new(event)), size));
        }
        self.compare();
    }

    fn note(&mut self, fact: Fact, group: &mut Group) {
        let body = fact.canonical();
        self.notes_head += 1;
        let digest = fact_digest(&body);
        self.notes_chain = facts_chain_next(&self.notes_chain, self.notes_head, &digest);
        if fact.visible {
            self.notes.push(check::note(&fact));
        }
        if self.notes_head > self.held.notes_head {
            let size = body.len();
            group.bytes += size;
            group.entries.push_back((What::Note(Box::new(fact)), size));
        }
        self.compare();
    }

    /// Compares with what is held, at the moment when as much was given.
    fn compare(&mut self) {
        let stand = |same| {
            if same {
                Standing::Same
            } else {
                Standing::Differs
            }
        };
        if self.head == self.held.head && self.events_stand == Standing::Behind {
            self.events_stand = stand(self.chain == self.held.chain);
        }
        if self.notes_head == self.held.notes_head && self.notes_stand == Standing::Behind {
            self.notes_stand = stand(self.notes_chain == self.held.notes_chain);
        }
    }
}

/// Counts the bytes that go through it.
struct Counted {
    inner: Box<dyn BufRead + Send>,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.count.fetch_add(amount as u64, Ordering::Relaxed);
        self.inner.consume(amount);
    }
}
