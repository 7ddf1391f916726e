//! Rows as people read them.
//!
//! What was said is shown whole; what tools were asked and answered is folded
//! to its first lines; usage and the state of a turn share one dim line under
//! what the model said or asked for.

use crate::failure::Failure;
use crate::output::{Output, style};
use crate::text::{Tokens, count, folded, moment, number, one_line, plain, wrapped};
use anstyle::Style;
use folio_core::json::{self, Json, Object};
use folio_core::message::{Assistant, TokenUsage, ToolCall, ToolResult, User};
use folio_core::{Number, StoredMessage};
use folio_transcript::Entry;
use std::collections::HashMap;

/// Lines of a tool's result that are shown.
const RESULT_LINES: usize = 8;
/// Lines of one argument of a call that are shown.
const ARGUMENT_LINES: usize = 4;
/// Arguments of a call that are shown.
const ARGUMENTS: usize = 6;
/// Lines of a thought that are shown.
const THOUGHT_LINES: usize = 4;

/// The usage of a model call that nothing was shown of yet.
#[derive(Debug)]
struct Early {
    turn: String,
    text: String,
}

/// Writes rows, one after the other.
#[derive(Debug, Default)]
pub struct Renderer {
    /// What the next dim line says.
    aside: Vec<String>,
    /// Whether that line stands apart from the row above it.
    apart: bool,
    /// Usage that came before what the model said.
    early: Option<Early>,
    /// The turn of the row above, if the model made that row.
    model_turn: Option<String>,
    /// When the last result came.
    result_ts: u64,
    /// The names of tools by their calls, where the calls were shown.
    tools: HashMap<String, String>,
    begun: bool,
}

impl Renderer {
    /// Writes an entry whose row is whole, or a gap.
    pub fn entry(&mut self, out: &mut Output, entry: &Entry) -> Result<(), Failure> {
        match entry {
            Entry::Row { row, .. } => self.row(out, row),
            Entry::Gap {
                source,
                from,
                to,
                code,
            } => {
                let text = format!("{source} {from} to {to} cannot be shown: {code}");
                self.head(out, style::BAD, "gap", "", &text)
            }
            Entry::Fragment {
                data,
                byte_offset,
                total_bytes,
                ..
            } => {
                let end = byte_offset.saturating_add(data.len() as u64);
                let text = format!(
                    "bytes {} to {} of a row of {}",
                    number(*byte_offset),
                    number(end),
                    number(*total_bytes)
                );
                self.head(out, style::DIM, "part", "", &text)?;
                fold(out, data, RESULT_LINES, Style::new())
            }
            _ => Ok(()),
        }
    }

    /// Writes what is still to be written.
    pub fn finish(&mut self, out: &mut Output) -> Result<(), Failure> {
        self.settle();
        let apart = std::mem::take(&mut self.apart);
        if self.aside.is_empty() {
            return Ok(());
        }
        if std::mem::replace(&mut self.begun, true) && apart {
            out.line("")?;
        }
        let text = std::mem::take(&mut self.aside).join(" · ");
        for line in wrapped(&text, out.width.saturating_sub(2)) {
            let line = out.paint(style::DIM, &line);
            out.line(&format!("  {line}"))?;
        }
        Ok(())
    }

    /// Writes a row.
    pub fn row(&mut self, out: &mut Output, row: &str) -> Result<(), Failure> {
        match StoredMessage::from_json(row) {
            Ok(StoredMessage::User(row)) => self.user(out, &row),
            Ok(StoredMessage::Assistant(row)) => self.assistant(out, &row),
            Ok(StoredMessage::ToolCall(row)) => self.call(out, &row),
            Ok(StoredMessage::ToolResult(row)) => self.result(out, &row),
            Ok(StoredMessage::PermissionDecision(row)) => {
                let bad = row.decision == "deny";
                let style = if bad { style::BAD } else { style::TOOL };
                let what = format!("{} {}", row.decision, row.tool_name);
                self.head(out, style, "permission", &moment(row.ts.whole()), &what)
            }
            Ok(StoredMessage::TokenUsage(row)) => self.usage(out, &row),
            Ok(StoredMessage::TurnState(row)) => {
                let why = row.abort_source.as_deref().or(row.error_class.as_deref());
                let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
                self.settle();
                self.aside.push(format!("turn {}{why}", row.status));
                Ok(())
            }
            Ok(StoredMessage::SystemNote(row)) => {
                self.note(out, row.ts.whole(), &row.kind, row.data.as_ref())
            }
            Ok(StoredMessage::ExtensionRow(row)) => {
                let what = format!("{}/{} v{}", row.namespace, row.name, row.version);
                self.note(out, row.ts.whole(), &what, Some(&row.payload))
            }
            // A newer build's row is still shown.
            _ => {
                self.head(out, style::DIM, "row", "", "")?;
                fold(out, row, RESULT_LINES, Style::new())
            }
        }
    }

    /// Keeps a model call's usage for the line under what the model said in
    /// it, which may stand before it or come next.
    fn usage(&mut self, out: &mut Output, row: &TokenUsage) -> Result<(), Failure> {
        let text = usage(row);
        if self.model_turn.as_deref() == Some(turn_of(&row.turn_id)) {
            self.settle();
            self.aside.push(text);
            return Ok(());
        }
        self.finish(out)?;
        // A call that ended before the result above belongs to what asked for
        // that result: nothing more of it comes.
        if row.ts.whole() < self.result_ts {
            self.aside.push(text);
            self.apart = true;
        } else {
            let turn = turn_of(&row.turn_id).to_owned();
            self.early = Some(Early { turn, text });
        }
        Ok(())
    }

    /// Gives usage that waits a line of its own.
    fn settle(&mut self) {
        if let Some(early) = self.early.take() {
            self.apart |= self.aside.is_empty();
            self.aside.push(early.text);
        }
    }

    /// Begins a row of the model; usage of its turn that waits stands under it.
    fn said(
        &mut self,
        out: &mut Output,
        (style, label): (Style, &str),
        (turn, at): (&str, u64),
        aside: &str,
    ) -> Result<(), Failure> {
        let early = self.early.take_if(|early| early.turn == turn);
        self.head(out, style, label, &moment(at), aside)?;
        self.aside.extend(early.map(|early| early.text));
        self.model_turn = Some(turn.to_owned());
        Ok(())
    }

    /// Writes a note: one dim line, and the summary of a compaction below.
    pub fn note(
        &mut self,
        out: &mut Output,
        ts: u64,
        kind: &str,
        data: Option<&Json>,
    ) -> Result<(), Failure> {
        self.begin(out)?;
        let mut text = format!("note {} {kind}", moment(ts));
        let compacted = data
            .filter(|_| kind == "context_compacted")
            .and_then(Json::as_object);
        if let Some(data) = compacted {
            let text = one_line(&format!("{text}{}", extent(&data)), out.width);
            out.line(&out.paint(style::DIM, &text))?;
            return match data.text("summary") {
                Some(summary) if !summary.trim().is_empty() => body(out, &summary),
                _ => Ok(()),
            };
        }
        if let Some(data) = data {
            text.push_str(": ");
            text.push_str(&data.as_text().map_or_else(|| data.to_string(), Into::into));
        }
        let text = one_line(&text, out.width);
        out.line(&out.paint(style::DIM, &text))
    }

    fn user(&mut self, out: &mut Output, row: &User) -> Result<(), Failure> {
        let origin = row.origin.as_ref().and_then(Json::as_object);
        let origin = origin
            .as_ref()
            .and_then(|origin| origin.text("kind"))
            .map(|kind| kind.replace('_', " "));
        let aside = match (origin, &row.steering_event_id) {
            (Some(origin), _) => origin,
            (None, Some(_)) => "while it worked".to_owned(),
            (None, None) => String::new(),
        };
        self.head(out, style::USER, "user", &moment(row.ts.whole()), &aside)?;
        let text = row.display_text.as_deref().unwrap_or(&row.text);
        body(out, text)
    }

    fn assistant(&mut self, out: &mut Output, row: &Assistant) -> Result<(), Failure> {
        let place = (turn_of(&row.turn_id), row.ts.whole());
        self.said(out, (style::ASSISTANT, "assistant"), place, &row.model_id)?;
        if let Some(thinking) = row.thinking.as_ref().and_then(Json::as_object) {
            let text = thinking.text("text").unwrap_or_default();
            if text.trim().is_empty() {
                out.line(&format!(
                    "  {}",
                    out.paint(style::DIM, "(thought, not readable)")
                ))?;
            } else {
                fold(out, &format!("(thought) {text}"), THOUGHT_LINES, style::DIM)?;
            }
        }
        if row.text.trim().is_empty() {
            return Ok(());
        }
        body(out, &row.text)
    }

    fn call(&mut self, out: &mut Output, row: &ToolCall) -> Result<(), Failure> {
        let name = row.display_name.as_deref().unwrap_or(&row.tool_name);
        self.tools.insert(row.id.clone(), name.to_owned());
        let label = format!("call {name}");
        let place = (turn_of(&row.turn_id), row.ts.whole());
        let aside = row.intent.as_deref().unwrap_or_default();
        self.said(out, (style::TOOL, &label), place, aside)?;
        let Some(args) = row.args.as_object() else {
            return fold(
                out,
                &text_of(row.args.as_str()),
                ARGUMENT_LINES,
                Style::new(),
            );
        };
        let mut hidden = 0_u64;
        for (at, (member, raw)) in args.iter().enumerate() {
            if at < ARGUMENTS {
                let text = format!("{member}: {}", text_of(raw));
                fold(out, &text, ARGUMENT_LINES, Style::new())?;
            } else {
                hidden += 1;
            }
        }
        if hidden > 0 {
            more(out, &count(hidden, "more argument"))?;
        }
        Ok(())
    }

    fn result(&mut self, out: &mut Output, row: &ToolResult) -> Result<(), Failure> {
        let name = self.tools.get(&row.tool_use_id).cloned();
        let label = match name {
            Some(name) => format!("result {name}"),
            None => "result".to_owned(),
        };
        let mut aside = Vec::new();
        if row.is_error {
            aside.push("error".to_owned());
        }
        if let Some(took) = &row.duration_ms {
            aside.push(format!("{} ms", number(took.whole())));
        }
        let style = if row.is_error {
            style::BAD
        } else {
            style::TOOL
        };
        let at = moment(row.ts.whole());
        self.result_ts = row.ts.whole();
        self.head(out, style, &label, &at, &aside.join(", "))?;
        fold(out, &result_text(&row.content), RESULT_LINES, Style::new())
    }

    fn begin(&mut self, out: &mut Output) -> Result<(), Failure> {
        self.finish(out)?;
        self.model_turn = None;
        if std::mem::replace(&mut self.begun, true) {
            out.line("")?;
        }
        Ok(())
    }

    fn head(
        &mut self,
        out: &mut Output,
        style: Style,
        label: &str,
        at: &str,
        aside: &str,
    ) -> Result<(), Failure> {
        self.begin(out)?;
        let label = one_line(label, out.width);
        let mut rest = at.to_owned();
        if !aside.is_empty() {
            if !rest.is_empty() {
                rest.push_str("  ");
            }
            rest.push_str(&one_line(aside, out.width));
        }
        let mut line = out.paint(style, &label);
        if !rest.is_empty() {
            line.push_str("  ");
            line.push_str(&out.paint(style::DIM, &rest));
        }
        out.line(&line)
    }
}

/// The turn of a row; rows outside all turns share one.
fn turn_of(turn: &Option<String>) -> &str {
    turn.as_deref().unwrap_or_default()
}

/// What set a compaction off, and what it made of the history.
fn extent(data: &Object<'_>) -> String {
    let mut parts = Vec::new();
    if let Some(trigger) = data.text("trigger") {
        parts.push(trigger.into_owned());
    }
    let tokens = |name| data.get(name)?.parse().ok().map(number);
    match (tokens("tokensBefore"), tokens("tokensAfter")) {
        (Some(before), Some(after)) => parts.push(format!("{before} tokens became {after}")),
        (Some(before), None) => parts.push(format!("of {before} tokens")),
        _ => {}
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!("  {}", parts.join(", "))
    }
}

/// Writes a text whole.
fn body(out: &mut Output, text: &str) -> Result<(), Failure> {
    for line in wrapped(text, out.width.saturating_sub(2)) {
        out.line(format!("  {line}").trim_end())?;
    }
    Ok(())
}

/// Writes the first lines of a text.
fn fold(out: &mut Output, text: &str, limit: usize, style: Style) -> Result<(), Failure> {
    let (lines, hidden) = folded(text, out.width.saturating_sub(2), limit);
    for line in lines {
        let line = out.paint(style, &line);
        out.line(format!("  {line}").trim_end())?;
    }
    if hidden > 0 {
        more(out, &count(hidden as u64, "more line"))?;
    }
    Ok(())
}

fn more(out: &mut Output, what: &str) -> Result<(), Failure> {
    let text = out.paint(style::DIM, &format!("… {what}"));
    out.line(&format!("  {text}"))
}

/// A JSON value as text: a string's content, else the value as written.
fn text_of(raw: &str) -> String {
    json::unquote(raw).map_or_else(|| raw.to_owned(), Into::into)
}

/// What a tool's result says, for the kinds that hold plain text.
fn result_text(content: &Json) -> String {
    let Some(object) = content.as_object() else {
        return text_of(content.as_str());
    };
    let member = |name| object.get(name).map(text_of);
    match object.text("kind").as_deref() {
        Some("text") => member("text").unwrap_or_default(),
        Some("json") => match object.get("value") {
            Some(raw) => blocks(raw),
            None => String::new(),
        },
        _ => member("text")
            .or_else(|| member("output"))
            .unwrap_or_else(|| content.to_string()),
    }
}

/// Blocks of a result: their texts, other blocks by their type.
fn blocks(raw: &str) -> String {
    let parts: Vec<String> = json::elements(raw)
        .into_iter()
        .map(|block| {
            let block_type = Object::of(block).and_then(|object| {
                let kind = object.text("type")?.into_owned();
                Some((kind, object.text("text").map(Into::into)))
            });
            match block_type {
                Some((_, Some(text))) => text,
                Some((kind, None)) => format!("[{kind}]"),
                None => text_of(block),
            }
        })
        .collect();
    if parts.is_empty() {
        text_of(raw)
    } else {
        parts.join("\n")
    }
}

fn usage(row: &TokenUsage) -> String {
    let whole = |value: &Option<Number>| value.as_ref().map(Number::whole);
    let cached = whole(&row.cache_hit_input).or(whole(&row.cache_read));
    let kept = whole(&row.cache_write_input).or(whole(&row.cache_creation));
    let (cached, kept) = (cached.unwrap_or(0), kept.unwrap_or(0));
    let prompt = row.input.whole();
    let rest = prompt.saturating_sub(cached.saturating_add(kept));
    let tokens = Tokens {
        prompt,
        new: whole(&row.cache_miss_input).unwrap_or(rest),
        cached,
        kept,
        answer: row.output.whole(),
        reasoning: whole(&row.reasoning).unwrap_or(0),
    };
    let mut text = format!("tokens: {tokens}");
    if let Some(cost) = &row.cost_usd {
        text.push_str(&format!(", ${}", plain(cost.as_str())));
    }
    text
}
