//! What a reader of the session must see, drawn up from the records alone.
//!
//! The manifest does not know the events: it follows the records by simpler
//! means (which message, which call, is a run open), so that a fault of the
//! translation shows as a difference between the two.

use super::record::{self, Class, Record};
use crate::check::spelled;
use folio_core::json::{self, Json, Object};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One row that the transcript must show.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The type of the row, such as `user` or `tool_call`.
    pub kind: &'static str,
    /// The source's id: of the record for prompts, notes and ends, of the
    /// message for answers and usage, of the call for calls, results and
    /// permission decisions.
    pub source_id: String,
    /// SHA-256 of the row's text: a prompt's text, an answer's text parts one
    /// behind the other, a call's arguments, a result's text (other results
    /// and notes: their JSON), a decision, a status.
    pub digest: [u8; 32],
    /// The message that issued a call; the call that a result answers, where
    /// its turn has one left for it; the call that a decision is about, where
    /// the file has it.
    pub link: Option<String>,
    /// Input, output, cache read and cache creation tokens of a usage row.
    pub usage: Option<[u64; 4]>,
}

/// All expected rows, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The rows.
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone, Default)]
struct Message {
    text: Sha256,
    visible: bool,
    usage: [u64; 4],
    used: bool,
    /// What its last line told, a sub-agent's included: usage is a fact only
    /// where it changes.
    told: [u64; 4],
    turn: u64,
}

/// One call id, as far as it was seen.
#[derive(Debug, Clone, Copy)]
struct Tool {
    turn: u64,
    called: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Person,
    Sidechain,
}

/// Draws the manifest up, record by record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Builder {
    rows: Vec<Entry>,
    messages: BTreeMap<String, Message>,
    calls: HashSet<String>,
    tools: HashMap<String, Tool>,
    /// The number of calls of an id in a turn.
    called: HashMap<(String, u64), usize>,
    /// The results of an id in a turn, as places in `rows`.
    answered: BTreeMap<(String, u64), Vec<usize>>,
    /// The number of turns so far.
    turns: u64,
    turn: Option<Turn>,
    /// The record that opened the run that is open.
    open: bool,
    /// Whether a sub-agent's run is open inside the turn.
    child: bool,
    amends: bool,
    finished: Option<bool>,
    last_status: &'static str,
}

impl Builder {
    /// Takes a record under its name `r`. `agent_file` tells whether the file
    /// is a sub-agent's own.
    pub fn see(&mut self, record: &Record<'_>, r: &str, agent_file: bool) {
        let inner = record.is_sidechain() && !agent_file && self.turn == Some(Turn::Person);
        let raw = record.content();
        match &record.class {
            Class::Human | Class::SlashCommand => self.prompt(r, raw, Turn::Person),
            Class::SidechainPrompt if agent_file => self.prompt(r, raw, Turn::Person),
            Class::SidechainPrompt | Class::QueuedPrompt if inner => self.child = true,
            Class::SidechainPrompt => {
                self.fact(Turn::Sidechain);
                self.row("user", r, record::text_of(raw).as_bytes(), None);
            }
            Class::QueuedPrompt => {
                self.fact(self.kind_of(record, agent_file));
                let attachment = record.object.object("attachment").unwrap_or_default();
                let text = record::text_of(attachment.get("prompt").unwrap_or("null"));
                self.row("user", r, text.as_bytes(), None);
            }
            Class::Assistant => self.answer(record, r, inner, agent_file),
            Class::ToolResult => {
                let blocks = json::elements(raw).into_iter().filter_map(Object::of);
                let results = blocks.filter(|b| b.text("type").as_deref() == Some("tool_result"));
                for (at, block) in results.enumerate() {
                    if inner {
                        self.child = true;
                        continue;
                    }
                    self.fact(self.kind_of(record, agent_file));
                    self.result(&block, &format!("{r}/{at}"));
                }
            }
            Class::TurnEnd | Class::Interrupt if inner && self.child => self.child = false,
            Class::TurnEnd | Class::Interrupt if inner => self.note(record, r),
            Class::TurnEnd if self.open => self.end(r, "completed"),
            Class::Interrupt if self.open => self.end(r, "aborted"),
            Class::TurnEnd | Class::Interrupt => self.note(record, r),
            Class::Note { visible: true, .. } => self.note(record, r),
            Class::Note { .. } | Class::Unknown(_) => {}
            Class::CompactBoundary | Class::CompactSummary => {}
        }
    }

    /// Takes a compaction boundary, with the summary that followed it.
    pub fn compaction(&mut self, record: &Record<'_>, r: &str, summary: &str, agent_file: bool) {
        if record.is_sidechain() && !agent_file && self.turn == Some(Turn::Person) {
            self.child = true;
            return;
        }
        self.fact(self.kind_of(record, agent_file));
        self.row("system_note", r, summary.as_bytes(), None);
    }

    /// Takes a record that became a visible note.
    pub fn note(&mut self, record: &Record<'_>, r: &str) {
        self.row("system_note", r, record.json.as_str().as_bytes(), None);
    }

    /// What is open was closed on demand after the record `r`.
    pub fn finish(&mut self, r: &str) {
        self.implied_end(r);
    }

    /// The rows expected so far.
    pub fn manifest(&self) -> Manifest {
        let mut entries = self.rows.clone();
        for entry in &mut entries {
            if entry.kind == "permission_decision" && !self.calls.contains(&entry.source_id) {
                entry.link = None;
            }
        }
        for (id, places) in &self.answered {
            let calls = self.called.get(id).copied().unwrap_or_default();
            for place in places.iter().skip(calls) {
                if let Some(entry) = entries.get_mut(*place) {
                    entry.link = None;
                }
            }
        }
        for (id, message) in &self.messages {
            if message.visible {
                entries.push(Entry {
                    kind: "assistant",
                    source_id: id.clone(),
                    digest: message.text.clone().finalize().into(),
                    link: None,
                    usage: None,
                });
            }
            if message.used {
                entries.push(Entry {
                    kind: "token_usage",
                    source_id: id.clone(),
                    digest: Sha256::digest(b"").into(),
                    link: None,
                    usage: Some(message.usage),
                });
            }
        }
        entries.sort();
        Manifest { entries }
    }

    fn kind_of(&self, record: &Record<'_>, agent_file: bool) -> Turn {
        if record.is_sidechain() && !agent_file {
            Turn::Sidechain
        } else {
            Turn::Person
        }
    }

    fn row(&mut self, kind: &'static str, id: &str, text: &[u8], link: Option<String>) {
        self.rows.push(Entry {
            kind,
            source_id: id.to_owned(),
            digest: Sha256::digest(text).into(),
            link,
            usage: None,
        });
    }

    /// Something happens inside a run, which opens one if there is none.
    fn fact(&mut self, turn: Turn) {
        if !self.open {
            self.open = true;
            self.finished = None;
            self.amends = self.turn.is_some();
            if self.turn.is_none() {
                self.turns += 1;
                self.turn = Some(turn);
            }
        }
    }

    fn prompt(&mut self, r: &str, raw: &str, turn: Turn) {
        self.implied_end(r);
        self.turn = Some(turn);
        self.turns += 1;
        self.open = true;
        self.amends = false;
        self.finished = None;
        self.row("user", r, record::text_of(raw).as_bytes(), None);
    }

    fn implied_end(&mut self, r: &str) {
        self.child = false;
        if self.open {
            let status = match (self.amends, self.finished) {
                (true, _) => self.last_status,
                (false, Some(true)) => "completed",
                (false, _) => "aborted",
            };
            self.end(r, status);
        }
    }

    fn end(&mut self, r: &str, status: &'static str) {
        self.open = false;
        self.last_status = status;
        self.row("turn_state", r, status.as_bytes(), None);
    }

    fn result(&mut self, block: &Object<'_>, fallback: &str) {
        let id = record::id_of(block, "tool_use_id", fallback);
        if record::is_refusal(block) {
            self.row("permission_decision", &id, b"deny", Some(id.clone()));
        }
        let turn = self
            .tools
            .entry(id.clone())
            .or_insert(Tool {
                turn: self.turns,
                called: false,
            })
            .turn;
        let place = self.rows.len();
        self.answered
            .entry((id.clone(), turn))
            .or_default()
            .push(place);
        match record::result_text(block.get("content").unwrap_or("null")) {
            Ok(text) => {
                let text = json::unquote(&text).unwrap_or_default();
                self.row("tool_result", &id, text.as_bytes(), Some(id.clone()));
            }
            Err(raw) => {
                let text = spelled(raw);
                self.row("tool_result", &id, text.as_bytes(), Some(id.clone()));
            }
        }
    }

    /// A call belongs to the turn in which its message began, unless a result
    /// that came first has placed it.
    fn call(&mut self, id: &str, began: u64) {
        let turn = match self.tools.get(id) {
            Some(tool) if !tool.called => tool.turn,
            _ => began,
        };
        self.tools
            .insert(id.to_owned(), Tool { turn, called: true });
        self.calls.insert(id.to_owned());
        *self.called.entry((id.to_owned(), turn)).or_default() += 1;
    }

    fn answer(&mut self, record: &Record<'_>, r: &str, inner: bool, agent_file: bool) {
        let raw = record.content();
        let text = json::unquote(raw).map(|text| Json::string(&text));
        let blocks = match &text {
            Some(_) => Vec::new(),
            None => json::elements(raw),
        };
        let usage = record.usage().filter(|usage| *usage != [0; 4]);
        let error = record.is_api_error();
        if blocks.is_empty() && text.is_none() && usage.is_none() && !error {
            return;
        }
        if !inner {
            self.fact(self.kind_of(record, agent_file));
        }
        let id = record::id_of(&record.message, "id", r);
        let turns = self.turns;
        let message = self.messages.entry(id.clone()).or_insert_with(|| Message {
            turn: turns,
            ..Message::default()
        });
        let began = message.turn;
        let changed = record.usage().filter(|usage| *usage != message.told);
        message.told = changed.unwrap_or(message.told);
        if inner {
            self.child = !error;
            return;
        }
        // In the order of the blocks: whether a result finds its call depends
        // on it.
        let mut parts = Vec::new();
        if let Some(text) = text.as_ref().and_then(Json::as_text) {
            message.visible = true;
            message.text.update(text.as_bytes());
        }
        for (at, raw) in blocks.into_iter().enumerate() {
            let block = Object::of(raw).unwrap_or_default();
            match block.text("type").as_deref() {
                Some("text") => {
                    message.visible = true;
                    let text = block.text("text").unwrap_or_default();
                    message.text.update(text.as_bytes());
                }
                Some("thinking") => {
                    let text = block.text("thinking").unwrap_or_default();
                    message.visible |= !text.is_empty();
                }
                Some("redacted_thinking") => {
                    let text = block.text("thinking").unwrap_or_default();
                    message.visible |= !text.is_empty();
                }
                _ => parts.push((at, block)),
            }
        }
        if let Some(usage) = changed {
            message.usage = usage;
            message.used = true;
        }
        for (at, block) in parts {
            let fallback = format!("{r}/{at}");
            match block.text("type").as_deref() {
                Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                    let call = record::id_of(&block, "id", &fallback);
                    self.call(&call, began);
                    let args = spelled(block.get("input").unwrap_or("null"));
                    self.row("tool_call", &call, args.as_bytes(), Some(id.clone()));
                }
                Some(other) if other.ends_with("_tool_result") => self.result(&block, &fallback),
                // Blocks of other types are kept, and not shown.
                _ => {}
            }
        }
        self.finished = Some(matches!(
            record.message.text("stop_reason").as_deref(),
            Some("end_turn" | "stop_sequence")
        ));
        if error {
            self.end(r, "failed");
        }
    }
}
