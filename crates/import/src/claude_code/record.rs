//! One record of a Claude Code session file: its members and its class.

use folio_core::json::{self, Json, JsonKind, Object};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// What a record stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Class {
    /// One line of a model's message.
    Assistant,
    /// Results of tools.
    ToolResult,
    /// The task given to a sub-agent.
    SidechainPrompt,
    /// The summary that follows a compaction boundary.
    CompactSummary,
    /// The person stopped the agent.
    Interrupt,
    /// The person gave a command.
    SlashCommand,
    /// The person wrote.
    Human,
    /// The person wrote while the agent worked.
    QueuedPrompt,
    /// The history was compacted.
    CompactBoundary,
    /// The agent stopped of its own accord.
    TurnEnd,
    /// Anything that is kept as a note.
    Note {
        /// The kind of the note.
        kind: String,
        /// Whether a reader sees it.
        visible: bool,
    },
    /// A type of record that this reader does not know.
    Unknown(String),
}

/// A record, taken apart one level deep.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    /// The whole record.
    pub json: &'a Json,
    /// Its members.
    pub object: Object<'a>,
    /// The members of `message`; empty where there is none.
    pub message: Object<'a>,
    /// What it stands for.
    pub class: Class,
}

impl<'a> Record<'a> {
    /// Takes a record apart.
    pub fn new(json: &'a Json) -> Self {
        let object = json.as_object().unwrap_or_default();
        let message = object.object("message").unwrap_or_default();
        let class = classify(&object, &message);
        Self {
            json,
            object,
            message,
            class,
        }
    }

    /// The record's own id, if it has the shape of a UUID.
    pub fn uuid(&self) -> Option<Cow<'a, str>> {
        self.object.text("uuid").filter(|id| is_uuid(id))
    }

    /// Milliseconds since 1970.
    pub fn time(&self) -> Option<u64> {
        let text = self.object.text("timestamp")?;
        let time: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(time.as_millisecond()).ok()
    }

    /// Whether it belongs to a sub-agent.
    pub fn is_sidechain(&self) -> bool {
        self.object.bool("isSidechain") == Some(true)
    }

    /// Whether it reports that the provider failed.
    pub fn is_api_error(&self) -> bool {
        self.object.bool("isApiErrorMessage") == Some(true)
    }

    /// The content of the message, raw.
    pub fn content(&self) -> &'a str {
        self.message.get("content").unwrap_or("null")
    }

    /// Whether it has a timestamp that tells no time.
    pub fn has_unreadable_time(&self) -> bool {
        self.time().is_none()
            && self
                .object
                .get("timestamp")
                .is_some_and(|raw| raw != "null")
    }

    /// The four counters of the message's usage: input, output, cache read,
    /// cache creation. One that is no count counts nothing.
    pub fn usage(&self) -> Option<[u64; 4]> {
        let usage = self.message.object("usage")?;
        Some(COUNTERS.map(|name| usage.get(name).and_then(count).unwrap_or_default()))
    }

    /// Whether it has a usage, or a counter of one, that cannot be counted.
    pub fn has_unreadable_usage(&self) -> bool {
        match (self.message.get("usage"), self.message.object("usage")) {
            (None | Some("null"), _) => false,
            (Some(_), None) => true,
            (_, Some(usage)) => COUNTERS
                .iter()
                .filter_map(|name| usage.get(name))
                .any(|raw| raw != "null" && count(raw).is_none()),
        }
    }
}

const COUNTERS: [&str; 4] = [
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
];

/// A whole number from 0 to 2^53-1, however it is spelled.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the value is whole and inside the range in which these are exact"
)]
fn count(raw: &str) -> Option<u64> {
    let most = folio_core::object::MAX_SAFE_INTEGER;
    if let Ok(value) = raw.parse::<u64>() {
        return Some(value).filter(|value| *value <= most);
    }
    let value = raw.parse::<f64>().ok()?;
    (value.fract() == 0.0 && (0.0..=most as f64).contains(&value)).then_some(value as u64)
}

/// An id that the source gave. One that is too long for an id enters as its
/// digest; where there is none, `instead` names the position.
pub(crate) fn id_of(object: &Object<'_>, name: &str, instead: &str) -> String {
    match object.text(name).filter(|id| !id.is_empty()) {
        None => instead.to_owned(),
        Some(id) if folio_core::id::is_free(&id) => id.into_owned(),
        Some(id) => format!(
            "sha256:{}",
            crate::lines::hex(&Sha256::digest(id.as_bytes()))
        ),
    }
}

/// Whether `text` has the shape of a UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The text of a content, which is a string or a list of blocks: its text
/// blocks, joined by a blank line.
pub(crate) fn text_of(raw: &str) -> String {
    if let Some(text) = json::unquote(raw) {
        return text.into_owned();
    }
    let texts: Vec<String> = json::elements(raw)
        .into_iter()
        .filter_map(Object::of)
        .filter(|block| block.text("type").as_deref() == Some("text"))
        .filter_map(|block| block.text("text").map(Cow::into_owned))
        .collect();
    texts.join("\n\n")
}

/// The one raw string that [`text_of`] gives unchanged, if there is one.
pub(crate) fn sole_text(raw: &str) -> Option<&str> {
    if json::kind_of(raw) == JsonKind::String {
        return Some(raw);
    }
    let mut texts = json::elements(raw)
        .into_iter()
        .filter_map(Object::of)
        .filter(|block| block.text("type").as_deref() == Some("text"))
        .filter_map(|block| block.get("text"));
    let first = texts.next()?;
    texts.next().is_none().then_some(first)
}

/// The blocks of a content that are not text, as a JSON array; `None` if there
/// is none.
pub(crate) fn other_blocks(raw: &str) -> Option<Json> {
    let blocks: Vec<&str> = json::elements(raw)
        .into_iter()
        .filter(|raw| block_type(raw).as_deref() != Some("text"))
        .collect();
    if blocks.is_empty() {
        return None;
    }
    Json::from_checked(&format!("[{}]", blocks.join(","))).ok()
}

/// The `type` of a content block.
pub(crate) fn block_type(raw: &str) -> Option<Cow<'_, str>> {
    Object::of(raw)?.text("type")
}

/// The payload of a tool result: `Ok` is a text, as a raw JSON string if it
/// stands so in the record; `Err` is any other value, raw.
pub(crate) fn result_text(raw: &str) -> Result<Cow<'_, str>, &str> {
    if json::kind_of(raw) == JsonKind::String {
        return Ok(Cow::Borrowed(raw));
    }
    let blocks = json::elements(raw);
    let texts = !blocks.is_empty()
        && blocks.iter().all(|block| {
            Object::of(block).is_some_and(|block| {
                block.text("type").as_deref() == Some("text") && block.text("text").is_some()
            })
        });
    if !texts {
        return Err(raw);
    }
    Ok(match sole_text(raw) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(Json::string(&text_of(raw)).as_str().to_owned()),
    })
}

/// Whether a tool result says that the person refused the call.
pub(crate) fn is_refusal(block: &Object<'_>) -> bool {
    block.bool("is_error") == Some(true)
        && text_of(block.get("content").unwrap_or("null"))
            .starts_with("The user doesn't want to proceed with this tool use")
}

/// What is left of a prompt without the parts that editors and the client put
/// into it.
pub(crate) fn own_words(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let tail = rest.get(at..).unwrap_or_default();
        out.push_str(rest.get(..at).unwrap_or_default());
        let name: &str = tail
            .get(1..)
            .unwrap_or_default()
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .next()
            .unwrap_or_default();
        let closing = format!("</{name}>");
        let injected = name == "system-reminder" || name.starts_with("ide_");
        match tail.find(&closing).filter(|_| injected) {
            Some(end) => rest = tail.get(end + closing.len()..).unwrap_or_default(),
            None => {
                out.push('<');
                rest = tail.get(1..).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out.trim().to_owned()
}

/// A slash command as the person typed it.
pub(crate) fn command_words(text: &str) -> Option<String> {
    let part = |name: &str| {
        let open = format!("<{name}>");
        let close = format!("</{name}>");
        let tail = text.get(text.find(&open)? + open.len()..)?;
        Some(tail.get(..tail.find(&close)?)?.trim())
    };
    let name = part("command-name").or_else(|| part("command-message"))?;
    let slash = if name.starts_with('/') { "" } else { "/" };
    Some(match part("command-args").filter(|args| !args.is_empty()) {
        Some(args) => format!("{slash}{name} {args}"),
        None => format!("{slash}{name}"),
    })
}

fn classify(object: &Object<'_>, message: &Object<'_>) -> Class {
    let note = |kind: &str, visible| Class::Note {
        kind: kind.to_owned(),
        visible,
    };
    let kind = object.text("type").unwrap_or_default();
    match &*kind {
        "assistant" if message.get("content").is_some() => Class::Assistant,
        "user" if message.get("content").is_some() => classify_user(object, message),
        "system" => match object.text("subtype").as_deref() {
            Some("compact_boundary") => Class::CompactBoundary,
            Some("turn_duration" | "stop_hook_summary") => Class::TurnEnd,
            Some(subtype) => note(&format!("system.{subtype}"), true),
            None => note("system", true),
        },
        "attachment" => {
            let inner = object.object("attachment").unwrap_or_default();
            let kind = inner.text("type").unwrap_or_default();
            let queued = kind == "queued_command"
                && inner.text("commandMode").as_deref() == Some("prompt")
                && inner.get("prompt").is_some();
            if queued {
                Class::QueuedPrompt
            } else {
                note(&format!("attachment.{kind}"), true)
            }
        }
        "progress" => {
            let data = object.object("data").unwrap_or_default();
            let kind = data.text("type").unwrap_or_default();
            note(&format!("progress.{kind}"), false)
        }
        "summary" | "custom-title" | "ai-title" | "pr-link" => note(&kind, true),
        "file-history-snapshot"
        | "queue-operation"
        | "permission-mode"
        | "mode"
        | "last-prompt"
        | "agent-name"
        | "bridge-session"
        | "worktree-state"
        | "relocated"
        | "frame-link"
        | "started"
        | "result"
        | "atis-latch" => note(&kind, false),
        _ => Class::Unknown(kind.into_owned()),
    }
}

fn classify_user(object: &Object<'_>, message: &Object<'_>) -> Class {
    let raw = message.get("content").unwrap_or("null");
    let has = |wanted: &str| {
        json::elements(raw)
            .iter()
            .any(|block| block_type(block).as_deref() == Some(wanted))
    };
    let flag = |name| object.bool(name) == Some(true);
    let origin = object
        .object("origin")
        .and_then(|origin| origin.text("kind"));
    let text = text_of(raw);
    let start = text.trim_start();
    let starts = |words: &[&str]| words.iter().any(|word| start.starts_with(word));
    let note = |kind: &str| Class::Note {
        kind: format!("user.{kind}"),
        visible: true,
    };
    if has("tool_result") {
        Class::ToolResult
    } else if flag("isCompactSummary") {
        Class::CompactSummary
    } else if flag("isSidechain") && starts(&["[Request interrupted by user"]) {
        Class::Interrupt
    } else if flag("isSidechain") && !flag("isMeta") {
        Class::SidechainPrompt
    } else if flag("isMeta") {
        note("meta")
    } else if let Some(origin) = origin.filter(|kind| kind != "human") {
        note(if origin == "task-notification" {
            "task_notification"
        } else {
            "other_origin"
        })
    } else if starts(&["[Request interrupted by user"]) {
        Class::Interrupt
    } else if starts(&["<command-name>", "<command-message>"]) {
        Class::SlashCommand
    } else if starts(&[
        "<local-command-",
        "Caveat: The messages below were generated",
    ]) {
        note("local_command_output")
    } else if starts(&["<bash-input>"]) {
        note("bash_input")
    } else if starts(&["<bash-stdout>", "<bash-stderr>"]) {
        note("bash_output")
    } else if starts(&["<task-notification>"]) {
        note("task_notification")
    } else if starts(&["<teammate-message"]) {
        note("teammate")
    } else if own_words(&text).is_empty() && !has("image") {
        note("injected_or_empty")
    } else {
        Class::Human
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_count() {
        for (raw, expected) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("1e3", Some(1_000)),
            ("-0", Some(0)),
            ("9007199254740991", Some(9_007_199_254_740_991)),
            ("9007199254740992", None),
            ("99999999999999999999999", None),
            ("-1", None),
            ("1.5", None),
            ("\"7\"", None),
            ("true", None),
            ("[1]", None),
        ] {
            assert_eq!(count(raw), expected, "{raw}");
        }
    }

    #[test]
    fn own_words_drop_injected_parts_only() {
        assert_eq!(
            own_words(
                "<system-reminder>x</system-reminder>\nfix <b> <ide_opened_file>a</ide_opened_file> it"
            ),
            "fix <b>  it"
        );
        assert_eq!(
            own_words("<system-reminder>never closed"),
            "<system-reminder>never closed"
        );
        let command = "<command-name>/model</command-name> <command-args>opus</command-args>";
        assert_eq!(command_words(command).as_deref(), Some("/model opus"));
    }
}
