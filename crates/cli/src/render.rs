//! Rows as people read them.
//!
//! What was said is shown whole; what tools were asked and answered is folded
//! to its first lines; usage and the state of a turn share one dim line.

use crate::failure::Failure;
use crate::output::{Output, style};
use crate::text::{count, folded, moment, number, one_line, plain, wrapped};
use anstyle::Style;
use folio_core::json::{self, Json, Object};
use folio_core::message::{Assistant, ToolCall, ToolResult, User};
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

/// Writes rows, one after the other.
#[derive(Debug, Default)]
pub struct Renderer {
    /// What the next dim line says.
    aside: Vec<String>,
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
        if self.aside.is_empty() {
            return Ok(());
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
            Ok(StoredMessage::TokenUsage(row)) => {
                self.aside.push(usage(&row));
                Ok(())
            }
            Ok(StoredMessage::TurnState(row)) => {
                let why = row.abort_source.as_deref().or(row.error_class.as_deref());
                let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
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

    /// Writes a note: one dim line.
    pub fn note(
        &mut self,
        out: &mut Output,
        ts: u64,
        kind: &str,
        data: Option<&Json>,
    ) -> Result<(), Failure> {
        self.begin(out)?;
        let mut text = format!("note {} {kind}", moment(ts));
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
        let at = moment(row.ts.whole());
        self.head(out, style::ASSISTANT, "assistant", &at, &row.model_id)?;
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
        let at = moment(row.ts.whole());
        let aside = row.intent.as_deref().unwrap_or_default();
        self.head(out, style::TOOL, &format!("call {name}"), &at, aside)?;
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
        self.head(out, style, &label, &at, &aside.join(", "))?;
        fold(out, &result_text(&row.content), RESULT_LINES, Style::new())
    }

    fn begin(&mut self, out: &mut Output) -> Result<(), Failure> {
        self.finish(out)?;
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

fn usage(row: &folio_core::message::TokenUsage) -> String {
    let mut parts = vec![format!("tokens {} in", number(row.input.whole()))];
    let mut part = |value: &Option<Number>, what: &str| {
        if let Some(value) = value.as_ref().map(Number::whole).filter(|value| *value > 0) {
            parts.push(format!("{} {what}", number(value)));
        }
    };
    part(&row.cache_hit_input, "of them from the cache");
    part(&row.cache_write_input, "to the cache");
    part(&Some(row.output.clone()), "out");
    part(&row.reasoning, "of them reasoning");
    let mut text = parts.join(", ");
    if let Some(cost) = &row.cost_usd {
        text.push_str(&format!(", ${}", plain(cost.as_str())));
    }
    text
}
