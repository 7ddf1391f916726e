//! `RuntimeEvent`: the durable fact, with every member it can carry.
//!
//! Names and meanings are those of Maka's ledger (its members decode
//! unchanged) with Folio's additions: opening, compaction and extension
//! contents, `modelId` on text and thinking, and the refs that let an importer
//! continue an item. Values that Folio gives no meaning to are [`Json`] text.

use crate::id::{EventId, ForeignId, InvocationId, RunId, SessionId, TurnId};
use crate::json::{Json, JsonError, JsonKind, Object};
use crate::member::{Member, Stored};
use crate::object::{Members, Number, ShapeError, Writer};
use crate::view::Field;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

words! {
    /// The lane of the model's history that a fact belongs to.
    pub closed enum Role {
        /// The person, or what stands for one.
        User = "user",
        /// The model.
        Model = "model",
        /// A tool.
        Tool = "tool",
        /// The runtime.
        System = "system",
    }
}

words! {
    /// The part of the system that produced a fact.
    pub closed enum Author {
        /// A person.
        User = "user",
        /// The host program.
        Host = "host",
        /// The agent.
        Agent = "agent",
        /// A tool.
        Tool = "tool",
        /// The runtime.
        System = "system",
    }
}

words! {
    /// A statement about the life of the run.
    pub closed enum Status {
        /// The run goes on.
        Streaming = "streaming",
        /// It ended as intended.
        Completed = "completed",
        /// It ended by a failure.
        Failed = "failed",
        /// It was stopped.
        Aborted = "aborted",
        /// It was stopped; the same as `aborted` to every reader.
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether the status ends a run.
    pub fn is_terminal(self) -> bool {
        self != Self::Streaming
    }
}

words! {
    /// Whether a reader that does not know an extension may pass over it.
    pub closed enum Criticality {
        /// It may.
        Ignorable = "ignorable",
        /// It must not build a model's history without it.
        Required = "required",
    }
}

words! {
    /// The surface on which a fact was executed.
    pub open enum Origin {
        /// The provider itself.
        Provider = "provider",
        /// Code that the model wrote.
        CodeMode = "code_mode",
    }
}

words! {
    /// Whether a provider may see a fact again.
    pub open enum ModelVisibility {
        /// It may; also the meaning of absence.
        Visible = "visible",
        /// It may not.
        Hidden = "hidden",
    }
}

object! {
    /// Text of a user or of the model.
    pub struct TextContent [kind = "text"] {
        /// The text, or for a partial event the part that was added.
        text: String = "text",
        /// The person's own words, where `text` holds more.
        display_text: Option<String> = "displayText",
        /// Files that came with it: an array of attachments.
        attachments: Option<Json> = "attachments",
        /// Quoted passages: an array.
        quotes: Option<Json> = "quotes",
        /// References inside the text: an array; an empty one has a meaning.
        inline_references: Option<Json> = "inlineReferences",
        /// What triggered the turn, if no person did: an object with a `kind`.
        origin: Option<Json> = "origin",
        /// `true` for a message put into a running turn.
        steering: Option<bool> = "steering",
        /// What the provider wants to see again.
        provider_options: Option<Json> = "providerOptions",
        /// The model that wrote it.
        model_id: Option<String> = "modelId",
    }
}

object! {
    /// Reasoning of the model.
    pub struct ThinkingContent [kind = "thinking"] {
        /// The reasoning, or for a partial event the part that was added.
        text: String = "text",
        /// A readable summary where the reasoning itself is withheld.
        summary: Option<String> = "summary",
        /// The provider's signature.
        signature: Option<String> = "signature",
        /// What the provider wants to see again.
        provider_options: Option<Json> = "providerOptions",
        /// The model that wrote it.
        model_id: Option<String> = "modelId",
    }
}

object! {
    /// The model asks for a tool.
    pub struct FunctionCall [kind = "function_call"] {
        /// The id that pairs call and response.
        id: ForeignId = "id",
        /// The name of the tool; empty where it is not known.
        name: String = "name",
        /// The arguments, any JSON.
        args: Json = "args",
        /// What the provider wants to see again.
        provider_options: Option<Json> = "providerOptions",
        /// Whether the provider itself runs the tool.
        provider_executed: Option<bool> = "providerExecuted",
    }
}

object! {
    /// A tool answers.
    pub struct FunctionResponse [kind = "function_response"] {
        /// The id of the call.
        id: ForeignId = "id",
        /// The name of the tool; empty where it is not known.
        name: String = "name",
        /// The result, any JSON; tool-result contents have a `kind`. A large one
        /// may be kept outside of the event.
        result: Member = "result",
        /// Whether the tool failed.
        is_error: Option<bool> = "isError",
        /// Whether the provider itself ran the tool.
        provider_executed: Option<bool> = "providerExecuted",
        /// The provider's raw result, for replay only.
        provider_output: Option<Json> = "providerOutput",
    }
}

object! {
    /// Something went wrong.
    pub struct ErrorContent [kind = "error"] {
        /// What happened, in words.
        message: String = "message",
        /// A code.
        code: Option<String> = "code",
        /// A class of failure.
        reason: Option<String> = "reason",
        /// More, as a list of texts or an object.
        details: Option<Json> = "details",
    }
}

object! {
    /// A run begins; everything its header holds.
    pub struct RunOpened {
        /// Where requests go: `backendKind`, `llmConnectionSlug`, `modelId`.
        route: Json = "route",
        /// `cwd`, `permissionMode` and other settings of the run.
        configuration: Json = "configuration",
        /// What the run is for: an object with a `kind`.
        root: Json = "root",
        /// How it came about: an object with a `kind`.
        source: Json = "source",
        /// Links to the runs, turns and sessions it descends from.
        lineage: Option<Json> = "lineage",
    }
}

object! {
    /// The model's history up to an ordinal was replaced by a summary.
    pub struct Compaction [kind = "compaction"] {
        /// The summary, where there is a readable one.
        summary: Option<String> = "summary",
        /// The last ordinal that the summary stands for.
        through_ordinal: u64 = "throughOrdinal",
        /// Tokens of the history before.
        tokens_before: Option<u64> = "tokensBefore",
        /// Tokens of the history after.
        tokens_after: Option<u64> = "tokensAfter",
        /// The model that wrote the summary.
        model_id: Option<String> = "modelId",
        /// What asked for it, such as `auto` or `manual`.
        trigger: Option<String> = "trigger",
    }
}

object! {
    /// A fact of a program's own vocabulary.
    pub struct Extension [kind = "extension"] {
        /// Who defines the name.
        namespace: String = "namespace",
        /// The name of the fact.
        name: String = "name",
        /// The version of its shape.
        version: u64 = "version",
        /// Whether readers that do not know it may pass over it.
        criticality: Criticality = "criticality",
        /// The fact itself.
        payload: Json = "payload",
    }
}

/// What an event says to the model or the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Text of a user or of the model.
    Text(TextContent),
    /// Reasoning of the model.
    Thinking(ThinkingContent),
    /// The model asks for a tool.
    FunctionCall(FunctionCall),
    /// A tool answers.
    FunctionResponse(FunctionResponse),
    /// Something went wrong.
    Error(ErrorContent),
    /// A run begins.
    RunOpened(RunOpened),
    /// A run begins, in the spelling of Maka's later ledgers.
    InvocationOpened(RunOpened),
    /// History was replaced by a summary.
    Compaction(Compaction),
    /// A fact of a program's own vocabulary.
    Extension(Extension),
    /// A kind that this build does not know.
    Unknown {
        /// The kind.
        kind: Box<str>,
        /// All other members.
        members: Members,
    },
}

impl Content {
    /// The kind as it stands in JSON.
    pub fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Thinking(_) => "thinking",
            Self::FunctionCall(_) => "function_call",
            Self::FunctionResponse(_) => "function_response",
            Self::Error(_) => "error",
            Self::RunOpened(_) => "run_opened",
            Self::InvocationOpened(_) => "invocation_opened",
            Self::Compaction(_) => "compaction",
            Self::Extension(_) => "extension",
            Self::Unknown { kind, .. } => kind,
        }
    }

    fn from_raw(raw: &str) -> Result<Self, ShapeError> {
        let object = Object::of(raw).ok_or_else(|| ShapeError::new("", "an object"))?;
        let kind = object
            .text("kind")
            .ok_or_else(|| ShapeError::new("kind", "a string"))?;
        Ok(match &*kind {
            "text" => Self::Text(TextContent::from_object(&object)?),
            "thinking" => Self::Thinking(ThinkingContent::from_object(&object)?),
            "function_call" => Self::FunctionCall(FunctionCall::from_object(&object)?),
            "function_response" => Self::FunctionResponse(FunctionResponse::from_object(&object)?),
            "error" => Self::Error(ErrorContent::from_object(&object)?),
            "run_opened" => Self::RunOpened(opened(&object)?),
            "invocation_opened" => Self::InvocationOpened(opened(&object)?),
            "compaction" => Self::Compaction(Compaction::from_object(&object)?),
            "extension" => Self::Extension(Extension::from_object(&object)?),
            other => Self::Unknown {
                kind: other.into(),
                members: crate::object::unknown(&object, &["kind"]),
            },
        })
    }

    fn canonical(&self) -> String {
        let mut writer = Writer::default();
        match self {
            Self::Text(content) => content.write_members(&mut writer),
            Self::Thinking(content) => content.write_members(&mut writer),
            Self::FunctionCall(content) => content.write_members(&mut writer),
            Self::FunctionResponse(content) => content.write_members(&mut writer),
            Self::Error(content) => content.write_members(&mut writer),
            Self::Compaction(content) => content.write_members(&mut writer),
            Self::Extension(content) => content.write_members(&mut writer),
            Self::RunOpened(content) | Self::InvocationOpened(content) => {
                writer.raw("kind", Json::string(self.kind()).as_str().into());
                content.write_members(&mut writer);
            }
            Self::Unknown { kind, members } => {
                writer.raw("kind", Json::string(kind).as_str().into());
                writer.unknown(members);
            }
        }
        writer.sorted()
    }

    /// The rules that types alone do not say.
    fn validate(&self) -> Result<(), ShapeError> {
        let array = |name, value: &Option<Json>| require(name, value, JsonKind::Array, "an array");
        let object =
            |name, value: &Option<Json>| require(name, value, JsonKind::Object, "an object");
        match self {
            Self::Text(text) => {
                if text.steering == Some(false) {
                    return Err(ShapeError::new("steering", "true or left out"));
                }
                array("attachments", &text.attachments)?;
                array("quotes", &text.quotes)?;
                array("inlineReferences", &text.inline_references)?;
                object("origin", &text.origin)?;
                object("providerOptions", &text.provider_options)
            }
            Self::Thinking(thinking) => object("providerOptions", &thinking.provider_options),
            Self::FunctionCall(call) => object("providerOptions", &call.provider_options),
            Self::FunctionResponse(response) => response
                .result
                .check()
                .map_err(|rule| ShapeError::new("result", rule)),
            Self::RunOpened(opened) | Self::InvocationOpened(opened) => {
                for (name, value) in [
                    ("route", &opened.route),
                    ("configuration", &opened.configuration),
                    ("root", &opened.root),
                    ("source", &opened.source),
                ] {
                    if value.kind() != JsonKind::Object {
                        return Err(ShapeError::new(name, "an object"));
                    }
                }
                object("lineage", &opened.lineage)
            }
            _ => Ok(()),
        }
    }
}

/// `run_opened` has its kind outside the struct, which serves two kinds.
fn opened(object: &Object<'_>) -> Result<RunOpened, ShapeError> {
    let mut opened = RunOpened::from_object(object)?;
    opened.unknown.0.retain(|(name, _)| &**name != "kind");
    Ok(opened)
}

fn require(
    name: &str,
    value: &Option<Json>,
    kind: JsonKind,
    rule: &'static str,
) -> Result<(), ShapeError> {
    match value {
        Some(value) if value.kind() != kind => Err(ShapeError::new(name, rule)),
        _ => Ok(()),
    }
}

object! {
    /// What an event does or asks for.
    #[derive(Default)]
    pub struct Actions {
        /// Anything else the writer wants to say: an object.
        state_delta: Option<Json> = "stateDelta",
        /// Bookkeeping of artifacts: an object.
        artifact_delta: Option<Json> = "artifactDelta",
        /// A permission is asked for.
        permission_request: Option<Json> = "permissionRequest",
        /// A permission was decided: `requestId`, `decision`, and more.
        permission_decision: Option<Json> = "permissionDecision",
        /// An answer was taken, for audit.
        permission_answer_accepted: Option<Json> = "permissionAnswerAccepted",
        /// A request was closed without an answer.
        permission_closure_accepted: Option<Json> = "permissionClosureAccepted",
        /// Questions to the person.
        user_question_request: Option<Json> = "userQuestionRequest",
        /// An answer was taken, for audit.
        user_question_answer_accepted: Option<Json> = "userQuestionAnswerAccepted",
        /// The agent that takes over.
        transfer_to_agent: Option<String> = "transferToAgent",
        /// Whether the run ends here.
        end_invocation: Option<bool> = "endInvocation",
        /// What one model call used: at least `input` and `output`.
        token_usage: Option<Json> = "tokenUsage",
        /// A tool may have started.
        tool_dispatch: Option<Json> = "toolDispatch",
        /// A tool's outcome was settled after a crash.
        tool_recovery: Option<Json> = "toolRecovery",
        /// The protocols active in the run.
        runtime_protocol: Option<Json> = "runtimeProtocol",
        /// The run continues another one.
        continuation_start: Option<Json> = "continuationStart",
        /// A fact about the workspace.
        workspace_fact: Option<Json> = "workspaceFact",
    }
}

impl Actions {
    fn validate(&self) -> Result<(), ShapeError> {
        for (name, value) in [
            ("stateDelta", &self.state_delta),
            ("artifactDelta", &self.artifact_delta),
            ("permissionRequest", &self.permission_request),
            ("permissionDecision", &self.permission_decision),
            ("permissionAnswerAccepted", &self.permission_answer_accepted),
            (
                "permissionClosureAccepted",
                &self.permission_closure_accepted,
            ),
            ("userQuestionRequest", &self.user_question_request),
            (
                "userQuestionAnswerAccepted",
                &self.user_question_answer_accepted,
            ),
            ("tokenUsage", &self.token_usage),
            ("toolDispatch", &self.tool_dispatch),
            ("toolRecovery", &self.tool_recovery),
            ("runtimeProtocol", &self.runtime_protocol),
            ("workspaceFact", &self.workspace_fact),
        ] {
            require(name, value, JsonKind::Object, "an object")?;
        }
        if let Some(decision) = self.permission_decision.as_ref().and_then(Json::as_object) {
            if decision
                .text("requestId")
                .is_none_or(|id| !crate::id::is_free(&id))
            {
                let rule = "1 to 512 bytes of text";
                return Err(ShapeError::new("permissionDecision.requestId", rule));
            }
            if !matches!(decision.text("decision").as_deref(), Some("allow" | "deny")) {
                return Err(ShapeError::new(
                    "permissionDecision.decision",
                    "allow or deny",
                ));
            }
        }
        if let Some(usage) = self.token_usage.as_ref().and_then(Json::as_object) {
            for name in ["input", "output"] {
                if usage.get(name).and_then(Number::parse).is_none() {
                    let field = alloc::format!("tokenUsage.{name}");
                    return Err(ShapeError {
                        field,
                        rule: "a finite number",
                    });
                }
            }
        }
        Ok(())
    }
}

object! {
    /// Links to other identities.
    #[derive(Default)]
    pub struct Refs {
        /// The row of an older ledger that the event stands for.
        stored_message_id: Option<ForeignId> = "storedMessageId",
        /// An event of the operational trace.
        trace_event_id: Option<ForeignId> = "traceEventId",
        /// The tool call that this belongs to.
        tool_call_id: Option<ForeignId> = "toolCallId",
        /// The model's message that this belongs to.
        provider_event_id: Option<ForeignId> = "providerEventId",
        /// `sha256:` and the digest of a source message.
        source_message_digest: Option<ForeignId> = "sourceMessageDigest",
        /// The trace of the provider request.
        provider_request_trace_id: Option<ForeignId> = "providerRequestTraceId",
        /// An artifact.
        artifact_id: Option<ForeignId> = "artifactId",
        /// The operation of a tool.
        operation_id: Option<ForeignId> = "operationId",
        /// The call that issued this one.
        parent_tool_call_id: Option<ForeignId> = "parentToolCallId",
        /// The operation that issued this one.
        parent_operation_id: Option<ForeignId> = "parentOperationId",
        /// The model's message that issued the call.
        step_id: Option<ForeignId> = "stepId",
        /// Where a copied fact came from.
        source_invocation_id: Option<ForeignId> = "sourceInvocationId",
        /// Where a copied fact came from.
        source_run_id: Option<ForeignId> = "sourceRunId",
        /// Where a copied fact came from.
        source_turn_id: Option<ForeignId> = "sourceTurnId",
        /// The last event of that run that was copied.
        source_runtime_event_high_water: Option<u64> = "sourceRuntimeEventHighWater",
        /// The run whose scope the item has, where it began in another one.
        scope_run_id: Option<RunId> = "scopeRunId",
        /// The turn whose scope the item has, where it began in another one.
        scope_turn_id: Option<TurnId> = "scopeTurnId",
        /// Which text or thinking part of the message this is, from 0.
        content_index: Option<u64> = "contentIndex",
        /// The event whose contribution this one replaces.
        revises: Option<EventId> = "revises",
    }
}

/// One durable fact of a session.
///
/// ```
/// use folio_core::{Content, RuntimeEvent};
///
/// let event = RuntimeEvent::from_json(
///     r#"{"id":"e1","invocationId":"i1","runId":"r1","sessionId":"s1","turnId":"t1","ts":1,
///        "partial":false,"role":"user","author":"user","content":{"kind":"text","text":"hi"}}"#,
/// )?;
/// assert!(matches!(event.content, Some(Content::Text(ref text)) if text.text == "hi"));
/// # Ok::<(), folio_core::EventError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeEvent {
    /// The identity of the event, unique in its session.
    pub id: EventId,
    /// The execution spine that it belongs to; one for each run.
    pub invocation_id: InvocationId,
    /// The run that it belongs to.
    pub run_id: RunId,
    /// The session that it is read or written through. Not covered by the
    /// event's digest: a fork shows the same events under its own id.
    pub session_id: SessionId,
    /// The turn that it belongs to.
    pub turn_id: TurnId,
    /// Milliseconds since 1970; metadata, never order.
    pub ts: Number,
    /// Whether a later final event supersedes this one.
    pub partial: bool,
    /// The lane of the model's history.
    pub role: Role,
    /// Who produced it.
    pub author: Author,
    /// A lane in a tree of agents.
    pub branch: Option<String>,
    /// The execution surface.
    pub origin: Option<Origin>,
    /// Whether a provider may see it again.
    pub model_visibility: Option<ModelVisibility>,
    /// A statement about the life of the run.
    pub status: Option<Status>,
    /// What it says.
    pub content: Option<Content>,
    /// What it does or asks for.
    pub actions: Option<Actions>,
    /// Links.
    pub refs: Option<Refs>,
    /// Random or derived text that keeps a digest from confirming a guess.
    pub nonce: Option<String>,
    /// Members that this build does not know, verbatim.
    pub unknown: Members,
}

/// The members of the event object that this build knows.
const KNOWN: &[&str] = &[
    "id",
    "invocationId",
    "runId",
    "sessionId",
    "turnId",
    "ts",
    "partial",
    "role",
    "author",
    "branch",
    "origin",
    "modelVisibility",
    "status",
    "content",
    "actions",
    "refs",
    "nonce",
];

impl RuntimeEvent {
    /// Reads an event from its JSON.
    ///
    /// # Errors
    /// [`EventError`] naming the member and the rule that it breaks.
    pub fn from_json(text: &str) -> Result<Self, EventError> {
        let json = Json::parse(text)?;
        let object = json
            .as_object()
            .ok_or_else(|| ShapeError::new("", "an object"))?;
        let event = Self {
            id: crate::object::member(&object, "id")?,
            invocation_id: crate::object::member(&object, "invocationId")?,
            run_id: crate::object::member(&object, "runId")?,
            session_id: crate::object::member(&object, "sessionId")?,
            turn_id: crate::object::member(&object, "turnId")?,
            ts: crate::object::member(&object, "ts")?,
            partial: crate::object::member(&object, "partial")?,
            role: crate::object::member(&object, "role")?,
            author: crate::object::member(&object, "author")?,
            branch: crate::object::member(&object, "branch")?,
            origin: crate::object::member(&object, "origin")?,
            model_visibility: crate::object::member(&object, "modelVisibility")?,
            status: crate::object::member(&object, "status")?,
            content: optional(&object, "content", Content::from_raw)?,
            actions: optional(&object, "actions", |raw| {
                Object::of(raw)
                    .ok_or_else(|| ShapeError::new("", "an object"))
                    .and_then(|object| Actions::from_object(&object))
            })?,
            refs: optional(&object, "refs", |raw| {
                Object::of(raw)
                    .ok_or_else(|| ShapeError::new("", "an object"))
                    .and_then(|object| Refs::from_object(&object))
            })?,
            nonce: crate::object::member(&object, "nonce")?,
            unknown: crate::object::unknown(&object, KNOWN),
        };
        event.validate()?;
        Ok(event)
    }

    /// Checks the rules that the types do not say.
    ///
    /// # Errors
    /// [`EventError`] naming the member and the rule that it breaks.
    pub fn validate(&self) -> Result<(), EventError> {
        if let Some(content) = &self.content {
            content
                .validate()
                .map_err(|error| error.inside("content"))?;
        }
        if let Some(actions) = &self.actions {
            actions
                .validate()
                .map_err(|error| error.inside("actions"))?;
        }
        for name in self.unknown.0.iter().map(|(name, _)| &**name) {
            if KNOWN.contains(&name) {
                return Err(ShapeError::new(name, "set through its own field").into());
            }
        }
        if self.partial {
            let streams = matches!(self.content, Some(Content::Text(_) | Content::Thinking(_)));
            let named = self.refs.as_ref().is_some_and(|refs| {
                refs.provider_event_id.is_some() || refs.stored_message_id.is_some()
            });
            if streams && !named {
                return Err(EventError::StreamIdentityMissing);
            }
            if self.is_terminal() {
                let rule = "false on the event that ends a run";
                return Err(ShapeError::new("partial", rule).into());
            }
        }
        Ok(())
    }

    /// Whether the event ends its run: by a terminal status or by
    /// `endInvocation`.
    pub fn is_terminal(&self) -> bool {
        self.status.is_some_and(Status::is_terminal)
            || self
                .actions
                .as_ref()
                .is_some_and(|actions| actions.end_invocation == Some(true))
    }

    /// The members that are kept outside of the event.
    pub fn stored(&self) -> impl Iterator<Item = (Field, &Stored)> {
        let result = match &self.content {
            Some(Content::FunctionResponse(response)) => match &response.result {
                Member::Stored(stored) => Some((Field::Result, stored)),
                Member::Inline(_) => None,
            },
            _ => None,
        };
        result.into_iter()
    }

    /// Says that a member is kept outside of the event, in place of the value
    /// that it has: for callers whose events are JSON and name such a member
    /// beside it, by a path such as `content.result`.
    ///
    /// # Errors
    /// [`ShapeError`] where the event has no such member, or none that may be
    /// kept outside.
    pub fn store_member(&mut self, path: &str, stored: Stored) -> Result<(), ShapeError> {
        match (&mut self.content, path) {
            (Some(Content::FunctionResponse(response)), "content.result") => {
                response.result = Member::Stored(stored);
                Ok(())
            }
            _ => Err(ShapeError::new(
                path,
                "the result of a tool to be kept outside",
            )),
        }
    }

    /// The canonical text of `refs`, if there are any.
    pub(crate) fn canonical_refs(&self) -> Option<String> {
        self.refs.as_ref().map(|refs| {
            let mut writer = Writer::default();
            refs.write_members(&mut writer);
            writer.sorted()
        })
    }

    /// The canonical text of the body: content, actions, nonce and the
    /// members that this build does not know.
    pub(crate) fn canonical_body(&self) -> String {
        let mut writer = Writer::default();
        if let Some(content) = &self.content {
            writer.raw("content", content.canonical());
        }
        if let Some(actions) = &self.actions {
            let mut inner = Writer::default();
            actions.write_members(&mut inner);
            writer.raw("actions", inner.sorted());
        }
        writer.member("nonce", &self.nonce);
        writer.unknown(&self.unknown);
        writer.sorted()
    }
}

fn optional<T>(
    object: &Object<'_>,
    name: &str,
    read: impl Fn(&str) -> Result<T, ShapeError>,
) -> Result<Option<T>, ShapeError> {
    object
        .get(name)
        .map(|raw| read(raw).map_err(|error| error.inside(name)))
        .transpose()
}

/// Why a text or a value is no acceptable event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventError {
    /// It is not acceptable JSON.
    Json(JsonError),
    /// A member breaks its rule.
    Shape(ShapeError),
    /// A streamed chunk does not say which item it belongs to: it needs
    /// `refs.providerEventId` or `refs.storedMessageId`.
    StreamIdentityMissing,
}

impl EventError {
    /// The stable code of the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "invalid_json",
            Self::Shape(_) => "invalid_event",
            Self::StreamIdentityMissing => "stream_identity_missing",
        }
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => error.fmt(f),
            Self::Shape(error) => error.fmt(f),
            Self::StreamIdentityMissing => f.write_str(
                "a partial text or thinking event must name its item in refs.providerEventId",
            ),
        }
    }
}

impl core::error::Error for EventError {}

impl From<JsonError> for EventError {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl From<ShapeError> for EventError {
    fn from(error: ShapeError) -> Self {
        Self::Shape(error)
    }
}

#[cfg(feature = "serde")]
mod serde_impl {
    use super::RuntimeEvent;
    use crate::canonical::{CanonicalEvent, event_json};
    use crate::json::Json;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    impl Serialize for RuntimeEvent {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let event = CanonicalEvent::new(self).map_err(serde::ser::Error::custom)?;
            let whole = event_json(&event.view(), &event.spine, &self.session_id).into_whole();
            let outside = "a member of the event is kept outside of it";
            let whole = whole.ok_or_else(|| serde::ser::Error::custom(outside))?;
            crate::json::serialize_raw(&whole, serializer)
        }
    }

    impl<'de> Deserialize<'de> for RuntimeEvent {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let json = Json::deserialize(deserializer)?;
            Self::from_json(json.as_str()).map_err(serde::de::Error::custom)
        }
    }
}
