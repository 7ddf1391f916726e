//! Small values: ids, nonces and JSON objects.

use super::super::record::Record;
use super::draft::Draft;
use crate::lines::hex;
use folio_core::json::{Json, Object};
use folio_core::object::MAX_SAFE_INTEGER;
use folio_core::{
    Author, Content, EventId, ForeignId, InvocationId, Members, Role, RunId, TextContent,
    ThinkingContent, TurnId,
};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

pub(super) fn empty_text() -> TextContent {
    TextContent {
        text: String::new(),
        display_text: None,
        attachments: None,
        quotes: None,
        inline_references: None,
        origin: None,
        steering: None,
        provider_options: None,
        model_id: None,
        unknown: Members::default(),
    }
}

/// The number of a part in its lane; the first one is left out.
pub(super) fn part_number(count: &mut u64) -> Option<u64> {
    let index = *count;
    *count += 1;
    (index > 0).then_some(index)
}

pub(super) fn text_part(text: &str, model: Option<&str>, count: &mut u64) -> Draft {
    let content = TextContent {
        text: text.to_owned(),
        model_id: model.map(str::to_owned),
        ..empty_text()
    };
    let mut draft = Draft::new(Role::Model, Author::Agent, Some(Content::Text(content)))
        .holds_text(text, "content.text");
    draft.refs.content_index = part_number(count);
    draft
}

pub(super) fn thinking_part(block: &Object<'_>, model: Option<&str>, count: &mut u64) -> Draft {
    let text = block.text("thinking").unwrap_or_default().into_owned();
    let signature = block.text("signature").map(Cow::into_owned);
    let mut content = ThinkingContent {
        text: text.clone(),
        summary: None,
        signature: signature.clone(),
        provider_options: None,
        model_id: model.map(str::to_owned),
        unknown: Members::default(),
    };
    let data = block.get("data").map(ToOwned::to_owned);
    if let Some(data) = &data {
        let options = format!(r#"{{"anthropic":{{"redactedData":{data}}}}}"#);
        content.provider_options = Json::from_checked(&options).ok();
    }
    let content = Some(Content::Thinking(content));
    let mut draft =
        Draft::new(Role::Model, Author::Agent, content).holds_text(&text, "content.text");
    if let Some(signature) = signature {
        draft = draft.holds_text(&signature, "content.signature");
    }
    if let Some(data) = data {
        draft = draft.holds(&data, "content.providerOptions.anthropic.redactedData");
    }
    draft.refs.content_index = part_number(count);
    draft
}

/// The whole prompt as `input`, and the parts it was billed as.
pub(super) fn token_usage([input, output, read, created]: [u64; 4]) -> Json {
    let mut usage = Members::default();
    // A sum beyond what a number holds exactly is as good as the most.
    let whole = input.saturating_add(read).saturating_add(created);
    for (name, value) in [
        ("input", whole.min(MAX_SAFE_INTEGER)),
        ("output", output),
        ("cacheHitInput", read),
        ("cacheMissInput", input),
        ("cacheWriteInput", created),
    ] {
        usage.set(name, Json::integer(value));
    }
    members(&usage)
}

pub(super) fn subagent_origin(record: &Record<'_>) -> Json {
    let mut origin = Members::default();
    origin.set("kind", Json::string("subagent"));
    for (name, member) in [("agentId", "agentId"), ("parentSessionId", "sessionId")] {
        if let Some(value) = record.object.text(member) {
            origin.set(name, Json::string(&value));
        }
    }
    members(&origin)
}

pub(super) fn set_origin(draft: &mut Draft, origin: &Json) {
    if let Some(Content::Text(text)) = &mut draft.content {
        text.origin = Some(origin.clone());
    }
}

pub(super) fn text_member(name: &str, text: &str) -> Members {
    let mut out = Members::default();
    out.set(name, Json::string(text));
    out
}

/// Members in the order they were set, as the text of an object.
pub(super) fn object(members: &Members) -> String {
    let mut writer = folio_core::object::Writer::default();
    writer.unknown(members);
    writer.written()
}

pub(super) fn members(members: &Members) -> Json {
    // The text of an object of checked values is a checked value.
    Json::from_checked(&object(members)).unwrap_or_else(|_| Json::string(""))
}

/// `text` is the name of a record or what [`record::id_of`] gave.
pub(super) fn foreign(text: &str) -> ForeignId {
    ForeignId::new(text).expect("ids of the source are brought to a valid length first")
}

pub(super) fn event_id(r: &str, k: u32) -> EventId {
    EventId::new(format!("{r}-{k}")).expect("the name of a record is short")
}

/// `r` is a UUID or a position: both are made of characters that ids may have.
pub(super) fn run_ids(r: &str) -> (RunId, InvocationId) {
    let name = format!("run-{r}");
    (
        RunId::new(name.clone()).expect("the name of a record is a safe id"),
        InvocationId::new(name).expect("the name of a record is a safe id"),
    )
}

pub(super) fn turn_id(r: &str) -> TurnId {
    TurnId::new(format!("turn-{r}")).expect("the name of a record is a safe id")
}

pub(super) fn nonce(text: &str, k: u32) -> String {
    let mut hasher = Sha256::new();
    for part in [b"folio.nonce.1".as_slice(), text.as_bytes()] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update(k.to_le_bytes());
    hex(hasher.finalize().get(..16).unwrap_or_default())
}
