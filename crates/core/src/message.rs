//! `StoredMessage`: the row that clients render. A projection, never stored.

use crate::json::{self, Json, Object};
use crate::member::StoredRef;
use crate::object::{Members, Number, ShapeError, Value, Writer};
use crate::reduce::RowSink;
use alloc::string::String;

use building::{Building, Source};

macro_rules! rows {
    ($( $(#[$doc:meta])* $name:ident = $kind:literal {
        $( $(#[$fdoc:meta])* $field:ident: $ty:ty = $json:literal, )*
    } )*) => {
        $(
            object! {
                $(#[$doc])*
                pub struct $name {
                    /// The id that clients know the row by.
                    id: String = "id",
                    /// The turn; only session-level notes have none.
                    turn_id: Option<String> = "turnId",
                    /// Milliseconds since 1970; metadata, never order.
                    ts: Number = "ts",
                    $( $(#[$fdoc])* $field: $ty = $json, )*
                }
            }
        )*

        /// Rows under construction: what has come of each member.
        mod building {
            use super::{Json, Members, Number, ShapeError, StoredMessage, Value, read};
            use alloc::string::String;
            $(
                #[derive(Default)]
                pub(super) struct $name {
                    id: Option<String>,
                    turn_id: Option<Option<String>>,
                    ts: Option<Number>,
                    $( $field: Option<$ty>, )*
                    unknown: Members,
                }

                impl $name {
                    fn set(&mut self, name: &'static str, from: Source<'_>) -> Result<(), ShapeError> {
                        match name {
                            "id" => self.id = Some(read(name, from)?),
                            "turnId" => self.turn_id = Some(read(name, from)?),
                            "ts" => self.ts = Some(read(name, from)?),
                            $( $json => self.$field = Some(read(name, from)?), )*
                            _ => self.unknown.0.push((name.into(), read(name, from)?)),
                        }
                        Ok(())
                    }

                    fn done(self) -> Result<StoredMessage, ShapeError> {
                        Ok(StoredMessage::$name(super::$name {
                            id: present("id", self.id)?,
                            turn_id: present("turnId", self.turn_id)?,
                            ts: present("ts", self.ts)?,
                            $( $field: present($json, self.$field)?, )*
                            unknown: self.unknown,
                        }))
                    }
                }
            )*

            /// What a member is read from.
            #[derive(Clone, Copy)]
            pub(super) enum Source<'a> {
                Raw(&'a str),
                Text(&'a str),
            }

            fn present<T: Value>(name: &'static str, value: Option<T>) -> Result<T, ShapeError> {
                value
                    .or_else(T::absent)
                    .ok_or_else(|| ShapeError::new(name, "present"))
            }

            #[expect(clippy::large_enum_variant, reason = "one at a time, and never kept")]
            pub(super) enum Building {
                $( $name($name), )*
            }

            impl Building {
                pub(super) fn begin(row_type: &str) -> Option<Self> {
                    match row_type {
                        $( $kind => Some(Self::$name($name::default())), )*
                        _ => None,
                    }
                }

                pub(super) fn set(&mut self, name: &'static str, from: Source<'_>) -> Result<(), ShapeError> {
                    match self { $( Self::$name(row) => row.set(name, from), )* }
                }

                pub(super) fn done(self) -> Result<StoredMessage, ShapeError> {
                    match self { $( Self::$name(row) => row.done(), )* }
                }
            }
        }

        /// A row of the transcript, as clients see it.
        ///
        /// ```
        /// use folio_core::StoredMessage;
        ///
        /// let row = StoredMessage::from_json(
        ///     r#"{"type":"user","id":"u1","turnId":"t1","ts":1,"text":"hi"}"#,
        /// )?;
        /// assert!(matches!(&row, StoredMessage::User(user) if user.text == "hi"));
        /// assert_eq!(row.row_type(), "user");
        /// # Ok::<(), folio_core::EventError>(())
        /// ```
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum StoredMessage {
            $( $(#[$doc])* $name($name), )*
        }

        impl StoredMessage {
            /// The value of the row's `type` member.
            pub fn row_type(&self) -> &'static str {
                match self { $( Self::$name(_) => $kind, )* }
            }

            /// The id that clients know the row by.
            pub fn id(&self) -> &str {
                match self { $( Self::$name(row) => &row.id, )* }
            }

            /// Reads a row.
            ///
            /// # Errors
            /// [`EventError`](crate::EventError) naming the member that is not
            /// as it must be, `type` for a kind of row that does not exist.
            pub fn from_json(text: &str) -> Result<Self, crate::EventError> {
                let json = Json::parse(text)?;
                let object = json.as_object().ok_or_else(|| ShapeError::new("", "an object"))?;
                let kind = object.text("type");
                match kind.as_deref() {
                    $( Some($kind) => {
                        let mut row = $name::from_object(&object)?;
                        row.unknown.0.retain(|(name, _)| &**name != "type");
                        Ok(Self::$name(row))
                    } )*
                    _ => Err(ShapeError::new("type", "a known type of row").into()),
                }
            }

            /// The row as JSON, members in the order of the wire.
            pub fn to_json(&self) -> String {
                let mut writer = Writer::default();
                writer.raw("type", Json::string(self.row_type()).as_str().into());
                match self { $( Self::$name(row) => row.write_members(&mut writer), )* }
                writer.written()
            }
        }
    };
}

rows! {
    /// A message of the person, or of what stands for one.
    User = "user" {
        /// The text.
        text: String = "text",
        /// The person's own words, where `text` holds more.
        display_text: Option<String> = "displayText",
        /// Files that came with it.
        attachments: Option<Json> = "attachments",
        /// Quoted passages.
        quotes: Option<Json> = "quotes",
        /// References inside the text.
        inline_references: Option<Json> = "inlineReferences",
        /// For a message put into a running turn: the event.
        steering_event_id: Option<String> = "steeringEventId",
        /// What triggered the turn, if no person did.
        origin: Option<Json> = "origin",
    }
    /// A message of the model: one for each step.
    Assistant = "assistant" {
        /// The text; may be empty.
        text: String = "text",
        /// The model.
        model_id: String = "modelId",
        /// The reasoning: `text`, `signature`, `providerOptions`, `parts`.
        thinking: Option<Json> = "thinking",
        /// The order in which its pieces were first seen, where unusual.
        content_order: Option<Json> = "contentOrder",
        /// What the provider wants to see again.
        provider_options: Option<Json> = "providerOptions",
    }
    /// A tool call; the row's id is the call's id.
    ToolCall = "tool_call" {
        /// The tool.
        tool_name: String = "toolName",
        /// The arguments.
        args: Json = "args",
        /// What sort of activity it is.
        activity_kind: Option<String> = "activityKind",
        /// The tool's name for people.
        display_name: Option<String> = "displayName",
        /// What it is meant to do.
        intent: Option<String> = "intent",
        /// What the provider wants to see again.
        provider_options: Option<Json> = "providerOptions",
        /// Whether the provider runs it.
        provider_executed: Option<bool> = "providerExecuted",
        /// The model's message that issued it.
        step_id: Option<String> = "stepId",
        /// The execution surface.
        origin: Option<String> = "origin",
        /// Whether a provider may see it again.
        model_visibility: Option<String> = "modelVisibility",
        /// The call that issued it.
        parent_tool_call_id: Option<String> = "parentToolCallId",
        /// The operation that issued it.
        parent_operation_id: Option<String> = "parentOperationId",
    }
    /// The answer to a tool call.
    ToolResult = "tool_result" {
        /// The call's id.
        tool_use_id: String = "toolUseId",
        /// Whether the tool failed.
        is_error: bool = "isError",
        /// The result: an object with a `kind`.
        content: Json = "content",
        /// How long the tool took, in milliseconds.
        duration_ms: Option<Number> = "durationMs",
        /// Whether the provider ran it.
        provider_executed: Option<bool> = "providerExecuted",
        /// The provider's raw result.
        provider_output: Option<Json> = "providerOutput",
        /// The execution surface.
        origin: Option<String> = "origin",
        /// Whether a provider may see it again.
        model_visibility: Option<String> = "modelVisibility",
        /// The call that issued it.
        parent_tool_call_id: Option<String> = "parentToolCallId",
        /// The operation that issued it.
        parent_operation_id: Option<String> = "parentOperationId",
    }
    /// A decided permission; the row's id is the request's id.
    PermissionDecision = "permission_decision" {
        /// The call.
        tool_use_id: String = "toolUseId",
        /// The tool.
        tool_name: String = "toolName",
        /// `allow` or `deny`.
        decision: String = "decision",
        /// Whether it holds for the rest of the turn.
        remember_for_turn: Option<bool> = "rememberForTurn",
        /// Who decided.
        reviewer: Option<String> = "reviewer",
        /// Why.
        rationale: Option<String> = "rationale",
        /// How risky it was judged.
        risk_level: Option<String> = "riskLevel",
        /// What was asked, for people.
        hint: Option<String> = "hint",
    }
    /// What one model call used.
    TokenUsage = "token_usage" {
        /// Tokens of the prompt.
        input: Number = "input",
        /// Tokens of the answer.
        output: Number = "output",
        /// Of the prompt: read from a cache.
        cache_hit_input: Option<Number> = "cacheHitInput",
        /// Of the prompt: neither read from nor written to a cache.
        cache_miss_input: Option<Number> = "cacheMissInput",
        /// Of the prompt: written to a cache.
        cache_write_input: Option<Number> = "cacheWriteInput",
        /// Whether the miss was given or derived.
        cache_miss_input_source: Option<String> = "cacheMissInputSource",
        /// Of the answer: reasoning.
        reasoning: Option<Number> = "reasoning",
        /// Prompt and answer.
        total: Option<Number> = "total",
        /// Why the provider stopped, in its own words.
        raw_finish_reason: Option<Json> = "rawFinishReason",
        /// How many steps the runtime took.
        runtime_steps: Option<Json> = "runtimeSteps",
        /// Another name of `cacheHitInput`.
        cache_read: Option<Number> = "cacheRead",
        /// Another name of `cacheWriteInput`.
        cache_creation: Option<Number> = "cacheCreation",
        /// What it cost, in US dollars.
        cost_usd: Option<Number> = "costUsd",
        /// A hash of the system prompt.
        system_prompt_hash: Option<Json> = "systemPromptHash",
        /// How much of the context was left.
        context_remaining: Option<Json> = "contextRemaining",
        /// A hash of the prefix that a cache may hold.
        prefix_hash: Option<Json> = "prefixHash",
        /// Why that prefix changed.
        prefix_change_reason: Option<Json> = "prefixChangeReason",
        /// A hash of the request's shape.
        request_shape_hash: Option<Json> = "requestShapeHash",
        /// Why that shape changed.
        request_shape_change_reason: Option<Json> = "requestShapeChangeReason",
        /// The parts of the prompt and their sizes.
        prompt_segments: Option<Json> = "promptSegments",
        /// How the context was fitted.
        context_budget: Option<Json> = "contextBudget",
        /// The trace of the provider request.
        provider_request_trace_id: Option<String> = "providerRequestTraceId",
    }
    /// The end of a run.
    TurnState = "turn_state" {
        /// `completed`, `failed` or `aborted`.
        status: String = "status",
        /// Whether the turn had visible output.
        partial_output_retained: Option<bool> = "partialOutputRetained",
        /// The turn of the parent.
        parent_turn_id: Option<String> = "parentTurnId",
        /// The turn it retries.
        retried_from_turn_id: Option<String> = "retriedFromTurnId",
        /// The turn it regenerates.
        regenerated_from_turn_id: Option<String> = "regeneratedFromTurnId",
        /// The turn it branches from.
        branch_of_turn_id: Option<String> = "branchOfTurnId",
        /// The session it descends from.
        parent_session_id: Option<String> = "parentSessionId",
        /// When it was stopped.
        aborted_at: Option<Number> = "abortedAt",
        /// Who stopped it.
        abort_source: Option<String> = "abortSource",
        /// Why it failed.
        error_class: Option<String> = "errorClass",
    }
    /// Anything shown beside the conversation.
    SystemNote = "system_note" {
        /// The kind of note.
        kind: String = "kind",
        /// What it says; the shape depends on the kind.
        data: Option<Json> = "data",
    }
    /// A fact of a program's own vocabulary.
    ExtensionRow = "extension" {
        /// Who defines the name.
        namespace: String = "namespace",
        /// The name of the fact.
        name: String = "name",
        /// The version of its shape.
        version: u64 = "version",
        /// `ignorable` or `required`.
        criticality: String = "criticality",
        /// The fact itself.
        payload: Json = "payload",
    }
}

impl StoredMessage {
    /// The text that a person reads first, for rows that have any.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::User(row) => Some(row.display_text.as_deref().unwrap_or(&row.text)),
            Self::Assistant(row) => Some(&row.text),
            _ => None,
        }
    }
}

fn read<T: Value>(name: &'static str, from: Source<'_>) -> Result<T, ShapeError> {
    let value = match from {
        Source::Raw(raw) => T::read(raw),
        Source::Text(text) => T::of_text(text),
    };
    value.map_err(|rule| ShapeError::new(name, rule))
}

/// Takes a row as its type, without its JSON in between.
///
/// The value is what [`StoredMessage::from_json`] reads from the JSON that a
/// [`JsonRow`](crate::reduce::JsonRow) gets of the same row.
#[derive(Default)]
pub struct TypedRow {
    row: Option<Building>,
    error: Option<ShapeError>,
    len: usize,
    scratch: String,
    /// Whether a member is kept outside and was not read along.
    lacks: bool,
}

impl core::fmt::Debug for TypedRow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TypedRow").finish_non_exhaustive()
    }
}

impl TypedRow {
    /// Takes the row out, with the length of its JSON; the next one may begin.
    ///
    /// # Errors
    /// [`ShapeError`] naming the member that is not as it must be.
    pub fn take(&mut self) -> Result<(StoredMessage, usize), ShapeError> {
        let (row, len) = (self.row.take(), core::mem::take(&mut self.len));
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let row = row.ok_or_else(|| ShapeError::new("type", "a known type of row"))?;
        Ok((row.done()?, len))
    }

    /// Whether the row lacks a member that is kept outside: it is not to be
    /// taken then.
    pub fn is_lacking(&self) -> bool {
        self.lacks
    }

    fn set(&mut self, name: &'static str, from: Source<'_>) {
        if let (Some(row), None) = (&mut self.row, &self.error) {
            self.error = row.set(name, from).err();
        }
    }
}

/// The bytes of `,"name":`.
fn named(name: &str) -> usize {
    name.len() + 4
}

impl RowSink for TypedRow {
    fn begin(&mut self, row_type: &'static str) {
        self.row = Building::begin(row_type);
        self.error = None;
        self.lacks = false;
        self.len = "{\"type\":\"\"".len() + row_type.len();
    }

    fn raw(&mut self, name: &'static str, value: &str) {
        self.len += named(name) + value.len();
        self.set(name, Source::Raw(value));
    }

    fn string(&mut self, name: &'static str, text: &str) {
        self.len += named(name) + json::quoted_len(text);
        self.set(name, Source::Text(text));
    }

    fn stored(&mut self, name: &'static str, before: &str, member: StoredRef<'_>, after: &str) {
        match member.loaded {
            Some(loaded) if before.is_empty() && after.is_empty() => self.raw(name, loaded),
            Some(loaded) => self.pieces(name, |out| {
                for part in [before, loaded, after] {
                    out.push_str(part);
                }
            }),
            None => self.lacks = true,
        }
    }

    fn pieces(&mut self, name: &'static str, write: impl FnOnce(&mut String)) {
        let mut value = core::mem::take(&mut self.scratch);
        value.clear();
        write(&mut value);
        self.raw(name, &value);
        self.scratch = value;
    }

    fn members(&mut self, inside: &str) {
        self.len += 1 + inside.len();
        let object = alloc::format!("{{{inside}}}");
        for (name, raw) in Object::of(&object).unwrap_or_default().iter() {
            // The names are those of the row's own fields.
            if let Some(name) = TurnState::MEMBERS.iter().find(|known| **known == name) {
                self.set(name, Source::Raw(raw));
            }
        }
    }

    fn end(&mut self) {
        self.len += 1;
    }
}

#[cfg(feature = "serde")]
mod serde_impl {
    use super::StoredMessage;
    use crate::json::Json;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    impl Serialize for StoredMessage {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            crate::json::serialize_raw(&self.to_json(), serializer)
        }
    }

    impl<'de> Deserialize<'de> for StoredMessage {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let json = Json::deserialize(deserializer)?;
            Self::from_json(json.as_str()).map_err(serde::de::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_member_for_member() {
        for row in [
            r#"{"type":"user","id":"u","turnId":"t","ts":1.50,"text":"a\"b","origin":{"kind":"goal"},"later":1e3}"#,
            r#"{"type":"assistant","id":"a","turnId":"t","ts":1,"text":"","modelId":"m","thinking":{"text":"x"},"contentOrder":["text"]}"#,
            r#"{"type":"tool_call","id":"c","turnId":"t","ts":1,"toolName":"n","args":{"b":1,"a":1.0},"stepId":"a"}"#,
            r#"{"type":"tool_result","id":"r","turnId":"t","ts":1,"toolUseId":"c","isError":true,"content":{"kind":"text","text":"x"},"durationMs":4.5}"#,
            r#"{"type":"permission_decision","id":"p","turnId":"t","ts":1,"toolUseId":"c","toolName":"n","decision":"deny"}"#,
            r#"{"type":"token_usage","id":"g","turnId":"t","ts":1,"input":1,"output":2,"cacheHitInput":1,"reasoning":1,"costUsd":0.10,"prefixHash":"x"}"#,
            r#"{"type":"turn_state","id":"z","turnId":"t","ts":1,"status":"aborted","partialOutputRetained":true,"abortedAt":1,"abortSource":"user"}"#,
            r#"{"type":"system_note","id":"n","ts":1,"kind":"session_start","data":null}"#,
            r#"{"type":"extension","id":"x","turnId":"t","ts":1,"namespace":"a","name":"b","version":1,"criticality":"required","payload":[]}"#,
        ] {
            let typed = StoredMessage::from_json(row).unwrap();
            assert_eq!(typed.to_json(), row);
        }
        assert!(StoredMessage::from_json(r#"{"type":"hologram","id":"h","ts":1}"#).is_err());
        assert!(StoredMessage::from_json(r#"{"type":"user","id":"u","ts":1}"#).is_err());
    }

    #[test]
    fn a_row_is_its_type_without_json_in_between() {
        let mut row = TypedRow::default();
        row.begin("turn_state");
        row.string("id", "a\"b\n");
        row.string("turnId", "t");
        row.raw("ts", "1.50");
        row.string("status", "failed");
        row.members(r#""parentTurnId":"p","branchOfTurnId":"b""#);
        row.pieces("later", |out| out.push_str("[1]"));
        row.end();
        let (typed, len) = row.take().unwrap();
        let json = typed.to_json();
        assert_eq!(json.len(), len);
        assert_eq!(StoredMessage::from_json(&json).unwrap(), typed);
        row.begin("user");
        row.string("id", "u");
        row.raw("ts", "\"no number\"");
        row.end();
        assert_eq!(row.take().unwrap_err().field, "ts");
        row.begin("user");
        row.string("id", "u");
        row.raw("ts", "1");
        row.end();
        assert_eq!(row.take().unwrap_err(), ShapeError::new("text", "present"));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_gives_the_same_json() {
        use crate::{Json, RuntimeEvent};
        let row = r#"{"type":"user","id":"u","turnId":"t","ts":1.50,"text":"x"}"#;
        let typed: StoredMessage = serde_json::from_str(row).unwrap();
        assert_eq!(serde_json::to_string(&typed).unwrap(), row);
        let event = r#"{"author":"tool","content":{"id":"c","kind":"function_response","name":"n","result":{"z":1.0,"a":1e400}},"id":"e","invocationId":"i","partial":false,"role":"tool","runId":"r","sessionId":"s","ts":1,"turnId":"t","zeta":[1.10]}"#;
        let typed: RuntimeEvent = serde_json::from_str(event).unwrap();
        assert_eq!(serde_json::to_string(&typed).unwrap(), event);
        assert!(serde_json::from_str::<RuntimeEvent>("{}").is_err());
        let json: Json = serde_json::from_str(" {\"b\" : 1.0} ").unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), "{\"b\":1.0}");
    }
}
