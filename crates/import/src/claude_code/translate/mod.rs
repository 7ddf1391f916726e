//! The state machine that turns records into events and notes.

mod answer;
mod draft;
mod make;
mod prompt;
mod runs;

use super::manifest::{Builder, Manifest};
use super::record::{self, Class, Record};
use super::session::{Identifier, Identity};
use super::source::Held;
use super::{FORMAT, TRANSLATOR_VERSION};
use crate::lines::{Body, Item, Line, hex};
use answer::{Message, Tool};
use base64::Engine;
use draft::{Cause, Draft};
use folio_core::json::{Json, JsonErrorKind};
use folio_core::{
    Author, Compaction, Content, Fact, FactOp, Members, Number, Role, RuntimeEvent, SessionId,
    Status, TurnId,
};
use make::{foreign, object, text_member};
use runs::{Lane, Turn};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What some records gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Increment {
    /// Events, in the order of their ordinals.
    pub events: Vec<RuntimeEvent>,
    /// Notes, in the order of their records.
    pub notes: Vec<Fact>,
}

/// Something about the source that a person may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable code in snake_case.
    pub code: &'static str,
    /// What it means, in words.
    pub message: String,
    /// The line it is about, from 1; `None` where it is about the file.
    pub line: Option<u64>,
    /// More, such as the type of the record.
    pub detail: Option<String>,
}

/// What is known after the records so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translation {
    /// The session's id; `None` while the file has none and must be skipped.
    pub session_id: Option<SessionId>,
    /// The name of the format.
    pub format: &'static str,
    /// The agent's own name of the session.
    pub native_id: Option<String>,
    /// The sub-agent whose file it is.
    pub agent_id: Option<String>,
    /// The version of the translation.
    pub translator_version: u32,
    /// The physical lines consumed, blank ones included. A record that is held
    /// is not consumed.
    pub lines: u64,
    /// The records and broken lines consumed.
    pub items: u64,
    /// SHA-256 over the texts of these items, each behind its length.
    pub source_digest: [u8; 32],
    /// The item counts after which open runs were closed on demand.
    pub finishes: Vec<u64>,
    /// The number of events given so far.
    pub events: u64,
    /// The number of notes given so far.
    pub notes: u64,
    /// What was noticed, with one entry per unknown type of record at the end.
    pub diagnostics: Vec<Diagnostic>,
    /// The rows that the transcript must show.
    pub manifest: Manifest,
}

/// How many records have something, and the line of the first.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: u64,
    line: u64,
}

impl Tally {
    fn add(&mut self, line: u64) {
        if self.count == 0 {
            self.line = line;
        }
        self.count += 1;
    }
}

/// A compaction boundary that waits for its summary.
#[derive(Debug, Clone)]
struct Boundary {
    item: Item,
    text: String,
    json: Json,
}

/// Translates the records of one file, in file order.
#[derive(Debug, Clone)]
pub struct Translator {
    session: SessionId,
    identifier: Identifier,
    builder: Builder,
    main: Lane,
    child: Lane,
    turn: Option<Turn>,
    messages: HashMap<String, Message>,
    tools: HashMap<String, Tool>,
    seen: HashSet<String>,
    held: Option<Boundary>,
    cause: Cause,
    batch: Vec<RuntimeEvent>,
    holds: Vec<Held>,
    last_ts: u64,
    lines: u64,
    items: u64,
    digest: Sha256,
    finishes: Vec<u64>,
    events: u64,
    notes: u64,
    diagnostics: Vec<Diagnostic>,
    unknown: BTreeMap<String, (u64, u64)>,
    /// Records with a usage or a time that cannot be read.
    bad_usage: Tally,
    bad_time: Tally,
    /// The item count whose digest is wanted, and that digest.
    watched: u64,
    passed: Option<[u8; 32]>,
}

impl Translator {
    /// Begins at the start of a file.
    ///
    /// `session` is the id that the events carry (an event's identity does not
    /// cover it), `stem` the file's name without folder and extension, and
    /// `finishes` the item counts after which earlier imports closed the open
    /// runs on demand, in ascending order.
    pub fn new(session: SessionId, stem: &str, finishes: &[u64]) -> Self {
        Self {
            session,
            identifier: Identifier::new(stem),
            builder: Builder::default(),
            main: Lane::default(),
            child: Lane::default(),
            turn: None,
            messages: HashMap::new(),
            tools: HashMap::new(),
            seen: HashSet::new(),
            held: None,
            cause: Cause::default(),
            batch: Vec::new(),
            holds: Vec::new(),
            last_ts: 0,
            lines: 0,
            items: 0,
            digest: Sha256::new(),
            finishes: finishes.to_vec(),
            events: 0,
            notes: 0,
            diagnostics: Vec::new(),
            unknown: BTreeMap::new(),
            bad_usage: Tally::default(),
            bad_time: Tally::default(),
            watched: 0,
            passed: None,
        }
    }

    /// Asks for the digest over the first `items` items: whether the source
    /// extends an earlier state of itself. To be asked at the start.
    pub fn watch(&mut self, items: u64) {
        self.watched = items;
        self.passed = (items == 0).then(|| self.source_digest());
    }

    /// The digest that was asked for; `None` while the source is shorter.
    pub fn watched_digest(&self) -> Option<[u8; 32]> {
        self.passed
    }

    /// The physical lines consumed; a record that is held is not.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The item counts after which open runs were closed on demand.
    pub fn finishes(&self) -> &[u64] {
        &self.finishes
    }

    /// Takes the next line.
    pub fn push(&mut self, line: &Line, out: &mut Increment) {
        let items = line.items();
        let objects = items
            .iter()
            .filter(|item| matches!(item.body, Body::Record { .. } | Body::Odd { .. }))
            .count();
        if objects > 1 {
            self.diagnose(
                "glued_records",
                format!("{objects} records stand on one line; each was read"),
                line.number,
                None,
            );
        }
        for item in &items {
            self.push_item(item, out);
        }
        if items.is_empty() && self.held.is_none() && line.is_blank() && line.ended {
            self.lines = line.number;
        }
    }

    /// Takes the next item of a line.
    pub fn push_item(&mut self, item: &Item, out: &mut Increment) {
        let parsed = match &item.body {
            Body::Record { text, json } => Some((text, json, Record::new(json))),
            _ => None,
        };
        if let Some(boundary) = self.held.take() {
            let summary = parsed
                .as_ref()
                .filter(|(.., record)| record.class == Class::CompactSummary)
                .map(|(.., record)| record::text_of(record.content()));
            self.compact(&boundary, summary.as_deref(), out);
            self.consume(&boundary.item, out);
            if let (Some(_), Some((text, _, record))) = (&summary, &parsed) {
                // The summary stands in the compaction: its record is no row.
                self.begin(item, text, record);
                self.note("user.compact_summary", false, record, out);
                self.consume(item, out);
                return;
            }
        }
        match (&item.body, parsed) {
            (Body::Record { text, json }, Some((.., record))) => {
                let repeated = record.uuid().is_some_and(|id| self.is_seen(&id));
                if record.class == Class::CompactBoundary && !repeated {
                    let boundary = Boundary {
                        item: item.clone(),
                        text: text.clone(),
                        json: json.clone(),
                    };
                    if self.finishes.contains(&(self.items + 1)) {
                        self.compact(&boundary, None, out);
                        self.consume(item, out);
                    } else {
                        self.held = Some(boundary);
                    }
                    return;
                }
                self.record(item, text, &record, out);
            }
            (body, _) => self.raw(item, body, out),
        }
        self.consume(item, out);
    }

    /// Closes what is open, as if the file said so here. The place becomes one
    /// of the session's finishes; without an open run nothing happens.
    pub fn finish(&mut self, out: &mut Increment) {
        if let Some(boundary) = self.held.take() {
            self.compact(&boundary, None, out);
            self.consume(&boundary.item, out);
        }
        if self.main.open.is_some() || self.child.open.is_some() {
            if self.finishes.last() != Some(&self.items) {
                self.finishes.push(self.items);
            }
            self.close_all(out);
        }
    }

    /// What is known so far. A held record has no part in it.
    pub fn summary(&self) -> Translation {
        let Identity {
            session_id,
            native_id,
            agent_id,
            ..
        } = self.identifier.identity().clone();
        let mut diagnostics = self.diagnostics.clone();
        for (code, message, tally) in [
            (
                "unreadable_usage",
                "token counts that are no whole numbers from 0 to 2^53-1 count nothing; \
                 the records keep what they say",
                self.bad_usage,
            ),
            (
                "unreadable_timestamp",
                "timestamps that cannot be read stand at the time of what precedes them; \
                 the records keep what they say",
                self.bad_time,
            ),
        ] {
            if tally.count > 0 {
                diagnostics.push(Diagnostic {
                    code,
                    message: message.to_owned(),
                    line: Some(tally.line),
                    detail: Some(tally.count.to_string()),
                });
            }
        }
        for (kind, (count, line)) in &self.unknown {
            diagnostics.push(Diagnostic {
                code: "unknown_record",
                message: format!(
                    "{count} records of a type that is not known were kept as hidden notes"
                ),
                line: Some(*line),
                detail: Some(kind.clone()),
            });
        }
        Translation {
            session_id,
            format: FORMAT,
            native_id,
            agent_id,
            translator_version: TRANSLATOR_VERSION,
            lines: self.lines,
            items: self.items,
            source_digest: self.source_digest(),
            finishes: self.finishes.clone(),
            events: self.events,
            notes: self.notes,
            diagnostics,
            manifest: self.builder.manifest(),
        }
    }

    /// The records and broken lines consumed so far. A record that is held does
    /// not count yet.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The digest over these items: a file extends an earlier state of itself
    /// if it has that state's digest when it reaches that state's count.
    pub fn source_digest(&self) -> [u8; 32] {
        self.digest.clone().finalize().into()
    }

    /// Counts an item that is done with, and closes runs where an earlier
    /// import did.
    fn consume(&mut self, item: &Item, out: &mut Increment) {
        let text = item.digest_text();
        self.digest.update((text.len() as u64).to_le_bytes());
        self.digest.update(&text);
        self.items += 1;
        self.lines = item.line;
        if self.items == self.watched {
            self.passed = Some(self.source_digest());
        }
        if self.finishes.contains(&self.items) {
            self.close_all(out);
        }
    }

    fn close_all(&mut self, out: &mut Increment) {
        self.builder.finish(&self.cause.r);
        self.close_lanes();
        self.flush(None, out);
    }

    fn diagnose(&mut self, code: &'static str, message: String, line: u64, detail: Option<String>) {
        self.diagnostics.push(Diagnostic {
            code,
            message,
            line: Some(line),
            detail,
        });
    }

    fn is_seen(&self, uuid: &str) -> bool {
        self.seen.contains(&uuid.to_ascii_lowercase())
    }

    /// Makes a record the cause of what follows; answers whether it repeats an
    /// earlier one.
    fn begin(&mut self, item: &Item, text: &str, record: &Record<'_>) -> bool {
        self.identifier.see(record);
        let fresh = record
            .uuid()
            .filter(|id| self.seen.insert(id.to_ascii_lowercase()));
        let repeated = record.uuid().is_some() && fresh.is_none();
        if !repeated && record.has_unreadable_time() {
            self.bad_time.add(item.line);
        }
        if !repeated && record.class == Class::Assistant && record.has_unreadable_usage() {
            self.bad_usage.add(item.line);
        }
        self.cause = Cause {
            r: fresh.map_or_else(|| item.position(), Cow::into_owned),
            text: text.to_owned(),
            ts: record.time().unwrap_or(self.last_ts),
            k: 0,
        };
        repeated
    }

    fn record(&mut self, item: &Item, text: &str, record: &Record<'_>, out: &mut Increment) {
        if self.begin(item, text, record) {
            self.diagnose(
                "repeated_record",
                "a record stands here again; only its first place counts".to_owned(),
                item.line,
                record.uuid().map(Cow::into_owned),
            );
            self.note("repeated", false, record, out);
            return;
        }
        let r = self.cause.r.clone();
        self.builder
            .see(record, &r, self.identifier.is_agent_file());
        match &record.class {
            Class::Human | Class::SlashCommand => self.prompt(record, false),
            Class::SidechainPrompt => self.sidechain_prompt(record),
            Class::QueuedPrompt => self.queued_prompt(record),
            Class::Assistant => self.assistant(record, item.line),
            Class::ToolResult => self.results(record),
            Class::Interrupt => {
                let delta = r#"{"abortSource":"claude-code.interrupt"}"#;
                self.mark_end(record, Status::Aborted, delta);
            }
            Class::TurnEnd => {
                let mut delta = Members::default();
                for (name, raw) in [
                    ("durationMs", record.object.get("durationMs")),
                    ("messageCount", record.object.get("messageCount")),
                    ("evidence", record.object.get("subtype")),
                ] {
                    if let Some(value) = raw.and_then(|raw| Json::from_checked(raw).ok()) {
                        delta.set(name, value);
                    }
                }
                self.mark_end(record, Status::Completed, &object(&delta));
            }
            Class::CompactBoundary
            | Class::CompactSummary
            | Class::Note { .. }
            | Class::Unknown(_) => {}
        }
        if !self.batch.is_empty() {
            self.flush(Some(record.json), out);
            return;
        }
        match &record.class {
            Class::Note { kind, visible } => self.note(kind, *visible, record, out),
            Class::Unknown(kind) => {
                let entry = self.unknown.entry(kind.clone()).or_insert((0, item.line));
                entry.0 += 1;
                self.note(&format!("unknown.{kind}"), false, record, out);
            }
            Class::CompactSummary => {
                self.note("user.compact_summary", false, record, out);
            }
            Class::TurnEnd => {
                let subtype = record.object.text("subtype").unwrap_or_default();
                self.note(&format!("system.{subtype}"), true, record, out);
            }
            Class::Interrupt => self.note("user.interrupt", true, record, out),
            _ => {
                let kind = record.object.text("type").unwrap_or_default();
                self.note(&format!("{kind}.empty"), false, record, out);
            }
        }
    }

    /// Keeps what is no acceptable record.
    fn raw(&mut self, item: &Item, body: &Body, out: &mut Increment) {
        let (kind, code, message, data, text): (&str, _, &str, _, String) = match body {
            Body::Record { .. } => return,
            Body::Odd { text, why } => {
                let code = match why {
                    JsonErrorKind::DuplicateKey => "duplicate_key",
                    JsonErrorKind::LoneSurrogate => "lone_surrogate",
                    _ => "nested_too_deep",
                };
                let data = text_member("text", text);
                let message = "a record breaks a rule of JSON texts and was kept as text";
                ("odd_record", code, message, data, text.clone())
            }
            Body::Broken(bytes) => {
                let data = match std::str::from_utf8(bytes) {
                    Ok(text) => text_member("text", text),
                    Err(_) => {
                        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                        text_member("base64", &text)
                    }
                };
                let text = String::from_utf8_lossy(bytes).into_owned();
                let message = "a line is no record and was kept as it is";
                ("broken_line", "broken_line", message, data, text)
            }
            Body::Oversize(big) => {
                let mut data = text_member("sha256", &hex(&big.sha256));
                data.set("length", Json::integer(big.length));
                let message = "a record is longer than 16 MiB: only its length and digest are kept";
                (
                    "oversize_record",
                    "oversize_record",
                    message,
                    data,
                    String::new(),
                )
            }
        };
        self.diagnose(code, message.to_owned(), item.line, None);
        self.cause = Cause {
            r: item.position(),
            text,
            ts: self.last_ts,
            k: 0,
        };
        let data = Json::from_checked(&object(&data)).ok();
        self.put(kind, false, None, None, data, out);
    }

    fn note(&mut self, kind: &str, visible: bool, record: &Record<'_>, out: &mut Increment) {
        let ts = record.time().map(Number::from);
        // Bookkeeping without an id of its own belongs to the session.
        let turn = record
            .uuid()
            .and(self.turn.as_ref())
            .map(|turn| turn.id.clone());
        self.put(kind, visible, ts, turn, Some(record.json.clone()), out);
    }

    fn put(
        &mut self,
        kind: &str,
        visible: bool,
        ts: Option<Number>,
        turn_id: Option<TurnId>,
        data: Option<Json>,
        out: &mut Increment,
    ) {
        self.notes += 1;
        out.notes.push(Fact {
            id: foreign(&self.cause.r),
            op: FactOp::Put,
            anchor: self.events,
            ts,
            kind: kind.to_owned(),
            turn_id,
            visible,
            data,
        });
    }

    fn compact(&mut self, boundary: &Boundary, summary: Option<&str>, out: &mut Increment) {
        let record = Record::new(&boundary.json);
        self.begin(&boundary.item, &boundary.text, &record);
        let agent_file = self.identifier.is_agent_file();
        self.builder.compaction(
            &record,
            &self.cause.r,
            summary.unwrap_or_default(),
            agent_file,
        );
        let meta = record.object.object("compactMetadata").unwrap_or_default();
        let tokens = |name| {
            meta.integer(name)
                .filter(|tokens| *tokens <= folio_core::object::MAX_SAFE_INTEGER)
        };
        let content = Compaction {
            summary: summary.map(str::to_owned),
            through_ordinal: self.events,
            tokens_before: tokens("preTokens"),
            tokens_after: tokens("postTokens"),
            model_id: None,
            trigger: meta.text("trigger").map(Cow::into_owned),
            unknown: Members::default(),
        };
        let side = self.side(&record);
        self.run(&record, side);
        let content = Some(Content::Compaction(content));
        self.emit(side, Draft::new(Role::System, Author::System, content));
        self.flush(Some(&boundary.json), out);
    }
}
