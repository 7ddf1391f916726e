//! What the model says, asks for and gets back.

use super::super::FORMAT;
use super::super::record::{self, Record};
use super::Translator;
use super::draft::Draft;
use super::make::{foreign, members, object, text_part, thinking_part, token_usage};
use super::runs::{Run, Side};
use folio_core::json::{self, Json, Object};
use folio_core::{
    Actions, Author, Content, Criticality, Extension, FunctionCall, FunctionResponse, Members,
    Refs, Role, RunId, Status, TurnId,
};
use std::borrow::Cow;

/// One model message, as far as its lines were seen.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) run: RunId,
    pub(super) turn: TurnId,
    pub(super) texts: u64,
    pub(super) thinkings: u64,
    pub(super) usage: [u64; 4],
}

/// One tool call id, as far as it was seen.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) run: RunId,
    pub(super) turn: TurnId,
    /// The name; `None` while only a result was seen.
    pub(super) name: Option<String>,
}

impl Translator {
    pub(super) fn assistant(&mut self, record: &Record<'_>, line: u64) {
        let raw = record.content();
        let whole = json::unquote(raw).map(Cow::into_owned);
        let blocks = json::elements(raw);
        let usage = record.usage().unwrap_or_default();
        let error = record.is_api_error();
        if whole.is_none() && blocks.is_empty() && usage == [0; 4] && !error {
            return;
        }
        let side = self.side(record);
        let here = self.run(record, side);
        let id = record::id_of(&record.message, "id", &self.cause.r);
        let mut message = self.messages.remove(&id).unwrap_or_else(|| Message {
            run: here.id.clone(),
            turn: here.turn.clone(),
            texts: 0,
            thinkings: 0,
            usage: [0; 4],
        });
        let model = record.message.text("model").map(Cow::into_owned);
        if let Some(text) = whole {
            let draft = text_part(&text, model.as_deref(), &mut message.texts);
            self.emit_part(side, draft, &here, &message, &id);
        }
        for (at, raw) in blocks.into_iter().enumerate() {
            let block = Object::of(raw).unwrap_or_default();
            self.block(
                side,
                &here,
                &mut message,
                &id,
                model.as_deref(),
                (at, raw, &block),
                line,
            );
        }
        if usage != message.usage && record.usage().is_some() {
            message.usage = usage;
            let mut draft = Draft::new(Role::Model, Author::Agent, None);
            draft.actions = Some(Actions {
                token_usage: Some(token_usage(usage)),
                ..Actions::default()
            });
            self.emit_part(side, draft, &here, &message, &id);
        }
        self.messages.insert(id, message);
        if let Some(run) = &mut self.lane(side).open {
            run.done = record
                .message
                .text("stop_reason")
                .filter(|reason| matches!(&**reason, "end_turn" | "stop_sequence"))
                .map(Cow::into_owned);
        }
        if error {
            let class = record
                .object
                .text("error")
                .filter(|class| !class.is_empty())
                .unwrap_or(Cow::Borrowed("api_error"));
            let mut delta = Members::default();
            delta.set("failureClass", Json::string(&class));
            self.end(side, Status::Failed, &object(&delta), None);
        }
    }

    pub(super) fn emit_part(
        &mut self,
        side: Side,
        mut draft: Draft,
        here: &Run,
        message: &Message,
        id: &str,
    ) {
        draft.refs.provider_event_id = Some(foreign(id));
        Self::scoped(&mut draft.refs, here, &message.run, &message.turn);
        self.emit(side, draft);
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one line")]
    pub(super) fn block(
        &mut self,
        side: Side,
        here: &Run,
        message: &mut Message,
        id: &str,
        model: Option<&str>,
        (at, raw, block): (usize, &str, &Object<'_>),
        line: u64,
    ) {
        let kind = block.text("type").unwrap_or_default();
        match &*kind {
            "text" => {
                let text = block.text("text").unwrap_or_default();
                let draft = text_part(&text, model, &mut message.texts);
                self.emit_part(side, draft, here, message, id);
            }
            "thinking" | "redacted_thinking" => {
                let draft = thinking_part(block, model, &mut message.thinkings);
                self.emit_part(side, draft, here, message, id);
            }
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                self.call(side, here, message, id, (at, block), kind != "tool_use");
            }
            other if other.ends_with("_tool_result") => {
                let fallback = format!("{}/{at}", self.cause.r);
                self.result(side, here, block, &fallback, true);
            }
            other => {
                let detail = other.to_owned();
                self.diagnose(
                    "unknown_block",
                    "a block of a message has a type that is not known; it was kept".to_owned(),
                    line,
                    Some(detail.clone()),
                );
                let content = Extension {
                    namespace: FORMAT.to_owned(),
                    name: format!("block.{detail}"),
                    version: 1,
                    criticality: Criticality::Ignorable,
                    payload: Json::from_checked(raw).unwrap_or_else(|_| Json::string(raw)),
                    unknown: Members::default(),
                };
                let content = Some(Content::Extension(content));
                let draft =
                    Draft::new(Role::Model, Author::Agent, content).holds(raw, "content.payload");
                self.emit_part(side, draft, here, message, id);
            }
        }
    }

    pub(super) fn call(
        &mut self,
        side: Side,
        here: &Run,
        message: &Message,
        id: &str,
        (at, block): (usize, &Object<'_>),
        hosted: bool,
    ) {
        let fallback = format!("{}/{at}", self.cause.r);
        let call = record::id_of(block, "id", &fallback);
        let name = block.text("name").unwrap_or_default().into_owned();
        let args = block.get("input").unwrap_or("null");
        // A result that came first has fixed the place of its call.
        let turn = match self.tools.get(&call) {
            Some(tool) if tool.name.is_none() => tool.turn.clone(),
            _ => message.turn.clone(),
        };
        let tool = Tool {
            run: message.run.clone(),
            turn: turn.clone(),
            name: Some(name.clone()),
        };
        self.tools.insert(call.clone(), tool);
        let content = FunctionCall {
            id: foreign(&call),
            name,
            args: Json::from_checked(args).unwrap_or_else(|_| Json::string(args)),
            provider_options: None,
            provider_executed: hosted.then_some(true),
            unknown: Members::default(),
        };
        let content = Some(Content::FunctionCall(content));
        let mut draft = Draft::new(Role::Model, Author::Agent, content).holds(args, "content.args");
        draft.refs.tool_call_id = Some(foreign(&call));
        draft.refs.step_id = Some(foreign(id));
        Self::scoped(&mut draft.refs, here, &message.run, &turn);
        self.emit(side, draft);
    }

    pub(super) fn results(&mut self, record: &Record<'_>) {
        let side = self.side(record);
        let mut at = 0;
        for raw in json::elements(record.content()) {
            let block = Object::of(raw).unwrap_or_default();
            if block.text("type").as_deref() == Some("tool_result") {
                let here = self.run(record, side);
                let fallback = format!("{}/{at}", self.cause.r);
                self.result(side, &here, &block, &fallback, false);
                at += 1;
            }
        }
    }

    pub(super) fn result(
        &mut self,
        side: Side,
        here: &Run,
        block: &Object<'_>,
        fallback: &str,
        hosted: bool,
    ) {
        let call = record::id_of(block, "tool_use_id", fallback);
        let tool = self
            .tools
            .entry(call.clone())
            .or_insert_with(|| Tool {
                run: here.id.clone(),
                turn: here.turn.clone(),
                name: None,
            })
            .clone();
        let mut refs = Refs {
            tool_call_id: Some(foreign(&call)),
            ..Refs::default()
        };
        Self::scoped(&mut refs, here, &tool.run, &tool.turn);
        if record::is_refusal(block) {
            let mut decision = Members::default();
            let request = foreign(&call);
            decision.set("requestId", Json::string(request.as_str()));
            decision.set("decision", Json::string("deny"));
            if let Some(name) = tool.name.as_ref().filter(|name| name.len() <= 256) {
                decision.set("toolName", Json::string(name));
            }
            let mut draft = Draft::new(Role::System, Author::User, None);
            draft.refs = refs.clone();
            draft.actions = Some(Actions {
                permission_decision: Some(members(&decision)),
                ..Actions::default()
            });
            self.emit(side, draft);
        }
        let raw = block.get("content").unwrap_or("null");
        let (kind, member, value, holds) = match record::result_text(raw) {
            Ok(text) => ("text", "text", text.clone(), text),
            Err(raw) => ("json", "value", Cow::Borrowed(raw), Cow::Borrowed(raw)),
        };
        let result = format!(r#"{{"kind":"{kind}","{member}":{value}}}"#);
        let content = FunctionResponse {
            id: foreign(&call),
            name: tool.name.unwrap_or_default(),
            result: Json::from_checked(&result)
                .unwrap_or_else(|_| Json::string(raw))
                .into(),
            is_error: block.bool("is_error"),
            provider_executed: hosted.then_some(true),
            provider_output: None,
            unknown: Members::default(),
        };
        let content = Some(Content::FunctionResponse(content));
        let mut draft = Draft::new(Role::Tool, Author::Tool, content)
            .holds(&holds, &format!("content.result.{member}"));
        draft.refs = refs;
        self.emit(side, draft);
    }
}
