//! From an item's events to the row that clients see.
//!
//! [`reduce`] is the one path: a running turn, a finished one, a rebuilt index
//! and a snapshot of the past all come through here. It reads slices of the
//! events' canonical text and splices them; it parses nothing. Rows are
//! written with the members and in the order of the wire.

use crate::claims::{failure_class, stable_id};
use crate::event::{Role, Status};
use crate::item::{Item, Lane, LanePart, Part};
use crate::json;
use crate::key::ItemKind;
use crate::view::{EventView, Field, USAGE};
use alloc::string::String;
use alloc::vec::Vec;

/// What a row takes from the run of its first contribution.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFacts {
    /// The turn's id.
    pub turn_id: String,
    /// The model that the run was opened with, as raw JSON.
    pub model: Option<String>,
    /// The members of the opening's lineage that a turn state shows, as the
    /// inside of a JSON object, in the order of the row; may be empty.
    pub lineage: String,
}

impl RunFacts {
    /// The facts of a run, from the event that opens it.
    pub fn of_opening(view: &EventView<'_>, turn_id: &str) -> Self {
        let mut row = Row {
            out: String::new(),
            any: false,
        };
        for (field, name) in [
            (Field::ParentTurnId, "parentTurnId"),
            (Field::RetriedFromTurnId, "retriedFromTurnId"),
            (Field::RegeneratedFromTurnId, "regeneratedFromTurnId"),
            (Field::BranchOfTurnId, "branchOfTurnId"),
            (Field::ParentSessionId, "parentSessionId"),
        ] {
            row.field(name, view.raw(field));
        }
        Self {
            turn_id: turn_id.into(),
            model: view.first_string(&[Field::RouteModelId]).map(Into::into),
            lineage: row.out,
        }
    }
}

/// Everything that one row at a watermark is made of.
#[derive(Debug)]
pub struct Material<'a> {
    /// The item.
    pub item: &'a Item,
    /// The watermark.
    pub through: u64,
    /// The run of its first contribution.
    pub run: &'a RunFacts,
    /// The events of [`Item::ordinals`], ascending by ordinal.
    pub events: &'a [(u64, EventView<'a>)],
    /// The chunks of [`Item::open_lanes`] at or below the watermark.
    pub chunks: &'a [(LanePart, Vec<EventView<'a>>)],
}

impl<'a> Material<'a> {
    fn event(&self, ordinal: u64) -> Option<&EventView<'a>> {
        let at = self
            .events
            .binary_search_by_key(&ordinal, |(ordinal, _)| *ordinal)
            .ok()?;
        self.events.get(at).map(|(_, view)| view)
    }

    /// The final of a lane.
    fn settled(&self, lane: LanePart) -> Option<&EventView<'a>> {
        self.item
            .settled_by(lane, self.through)
            .and_then(|need| self.event(need.ordinal))
    }

    /// Whether the payload of something that the row is made of is gone.
    fn is_redacted(&self) -> bool {
        let chunks = self.chunks.iter().flat_map(|(_, views)| views);
        self.events
            .iter()
            .map(|(_, view)| view)
            .chain(chunks)
            .any(|view| view.withheld.is_some_and(|whole| whole.payload))
    }

    fn reference(&self, part: Part) -> Option<&EventView<'a>> {
        let need = self
            .item
            .references(self.through)
            .filter(|need| need.part == part)
            .last()?;
        self.event(need.ordinal)
    }

    /// The views that make a lane visible: its final, or its chunks.
    fn lane(&self, lane: LanePart) -> &[EventView<'a>] {
        if let Some(need) = self.item.settled_by(lane, self.through) {
            let at = self
                .events
                .binary_search_by_key(&need.ordinal, |(ordinal, _)| *ordinal);
            return at
                .ok()
                .and_then(|at| self.events.get(at))
                .map_or(&[], |(_, view)| core::slice::from_ref(view));
        }
        self.chunks
            .iter()
            .find(|(name, _)| *name == lane)
            .map_or(&[], |(_, views)| views)
    }
}

/// Writes the row of an item at a watermark as JSON.
///
/// Answers the ordinal of an event that is needed and missing from the
/// material, in which case nothing useful was written.
///
/// # Errors
/// The ordinal of the first missing event.
pub fn reduce(material: &Material<'_>, out: &mut String) -> Result<(), u64> {
    if let [only] = material.item.need.as_slice() {
        // The common case needs no list.
        if only.part != Part::FirstChunk && material.event(only.ordinal).is_none() {
            return Err(only.ordinal);
        }
    } else {
        for ordinal in material.item.ordinals(material.through) {
            if material.event(ordinal).is_none() {
                return Err(ordinal);
            }
        }
    }
    let mut row = Row {
        out: core::mem::take(out),
        any: false,
    };
    // Mostly the texts of its events: one allocation serves.
    let text: usize = material
        .events
        .iter()
        .map(|(_, view)| view.text.len())
        .sum();
    row.out.reserve(text + 256);
    row.out.push('{');
    match material.item.kind {
        ItemKind::User | ItemKind::Steer => user(material, &mut row),
        ItemKind::Assistant => assistant(material, &mut row),
        ItemKind::Call => tool_call(material, &mut row),
        ItemKind::Result => tool_result(material, &mut row),
        ItemKind::Permission => permission(material, &mut row),
        ItemKind::Usage => usage(material, &mut row),
        ItemKind::Turn if material.item.position.slot == 4 => step_limit(material, &mut row),
        ItemKind::Turn => turn_state(material, &mut row),
        ItemKind::Note => note(material, &mut row),
        ItemKind::Extension => extension(material, &mut row),
    }
    if material.is_redacted() {
        row.raw("redacted", "true");
    }
    row.out.push('}');
    *out = row.out;
    Ok(())
}

/// The row type that an item of this kind gives, for counting.
pub fn row_type(kind: ItemKind, slot: u8) -> &'static str {
    match kind {
        ItemKind::User | ItemKind::Steer => "user",
        ItemKind::Assistant => "assistant",
        ItemKind::Call => "tool_call",
        ItemKind::Result => "tool_result",
        ItemKind::Permission => "permission_decision",
        ItemKind::Usage => "token_usage",
        ItemKind::Turn if slot == 4 => "system_note",
        ItemKind::Turn => "turn_state",
        ItemKind::Note => "system_note",
        ItemKind::Extension => "extension",
    }
}

/// An object under construction.
struct Row {
    out: String,
    any: bool,
}

impl Row {
    fn name(&mut self, name: &str) {
        if self.any {
            self.out.push(',');
        }
        self.any = true;
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    fn raw(&mut self, name: &str, raw: &str) {
        self.name(name);
        self.out.push_str(raw);
    }

    fn string(&mut self, name: &str, text: &str) {
        self.name(name);
        json::quote(text, &mut self.out);
    }

    fn field(&mut self, name: &str, raw: Option<&str>) {
        if let Some(raw) = raw {
            self.raw(name, raw);
        }
    }

    fn fields(&mut self, view: &EventView<'_>, fields: &[(&str, Field)]) {
        for (name, field) in fields {
            self.field(name, view.raw(*field));
        }
    }

    fn optional_string(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.string(name, text);
        }
    }

    /// Type, id, turn and time.
    fn envelope(&mut self, material: &Material<'_>, kind: &str, id: &str) {
        self.string("type", kind);
        self.string("id", id);
        self.string("turnId", &material.run.turn_id);
        self.raw("ts", &material.item.ts);
    }
}

fn user(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Text, 0)) else {
        return;
    };
    row.envelope(material, "user", &stable_id(view));
    row.raw("text", view.raw(Field::Text).unwrap_or("\"\""));
    row.fields(
        view,
        &[
            ("displayText", Field::DisplayText),
            ("attachments", Field::Attachments),
            ("quotes", Field::Quotes),
            ("inlineReferences", Field::InlineReferences),
        ],
    );
    if material.item.kind == ItemKind::Steer {
        row.string("steeringEventId", view.id);
    }
    row.field("origin", view.raw(Field::TurnOrigin));
}

fn assistant(material: &Material<'_>, row: &mut Row) {
    // Ascending by lane, then by part: texts come first.
    let lanes = material.item.lanes(material.through);
    let (texts, thoughts) = lanes.split_at(lanes.partition_point(|(lane, _)| *lane == Lane::Text));
    let views = || {
        texts
            .iter()
            .chain(thoughts)
            .flat_map(|lane| material.lane(*lane))
    };
    let id = views().next().map(stable_id).unwrap_or_default();
    row.envelope(material, "assistant", &id);
    row.name("text");
    row.out.push('"');
    for lane in texts {
        for view in material.lane(*lane) {
            row.out.push_str(inner(view.raw(Field::Text)));
        }
    }
    row.out.push('"');
    let model = views().find_map(|view| view.first_string(&[Field::ModelId]));
    let model = model.or(material.run.model.as_deref());
    row.raw("modelId", model.unwrap_or("\"unknown\""));
    if !thoughts.is_empty() {
        thinking(material, thoughts, row);
    }
    content_order(material, !texts.is_empty(), !thoughts.is_empty(), row);
    let options = texts
        .iter()
        .filter_map(|lane| material.settled(*lane))
        .filter_map(|view| view.raw(Field::ProviderOptions))
        .next_back();
    row.field("providerOptions", options);
}

fn thinking(material: &Material<'_>, parts: &[LanePart], row: &mut Row) {
    row.name("thinking");
    row.out.push('{');
    let outer = core::mem::replace(&mut row.any, false);
    row.name("text");
    row.out.push('"');
    for lane in parts {
        thinking_text(material.lane(*lane), &mut row.out);
    }
    row.out.push('"');
    if let [only] = parts {
        if let Some(view) = material.settled(*only) {
            row.fields(view, THINKING_EXTRAS);
        }
    } else {
        row.name("parts");
        row.out.push('[');
        for (i, lane) in parts.iter().enumerate() {
            if i > 0 {
                row.out.push(',');
            }
            row.out.push('{');
            row.any = false;
            row.name("text");
            row.out.push('"');
            thinking_text(material.lane(*lane), &mut row.out);
            row.out.push('"');
            if let Some(view) = material.settled(*lane) {
                row.fields(view, THINKING_EXTRAS);
            }
            row.out.push('}');
        }
        row.out.push(']');
    }
    row.out.push('}');
    row.any = outer;
}

const THINKING_EXTRAS: &[(&str, Field)] = &[
    ("signature", Field::Signature),
    ("providerOptions", Field::ProviderOptions),
];

/// The reasoning itself or, where it is withheld, its summary.
fn thinking_text(views: &[EventView<'_>], out: &mut String) {
    for view in views {
        out.push_str(inner(view.first_string(&[Field::Text, Field::Summary])));
    }
}

/// Which of a message's pieces was seen first, told only where it is not the
/// usual order.
fn content_order(material: &Material<'_>, text: bool, thinking: bool, row: &mut Row) {
    let seen = |lane| material.item.first_seen(lane, material.through);
    let usual = [
        ("\"thinking\"", seen(Lane::Thinking).filter(|_| thinking)),
        ("\"text\"", seen(Lane::Text).filter(|_| text)),
        ("\"tools\"", seen(Lane::Tools)),
    ];
    let mut pieces: Vec<_> = usual
        .iter()
        .filter_map(|(name, at)| at.map(|at| (at, *name)))
        .collect();
    if pieces.is_sorted_by_key(|(at, _)| *at) {
        return;
    }
    pieces.sort_by_key(|(at, _)| *at);
    row.name("contentOrder");
    row.out.push('[');
    for (i, (_, name)) in pieces.iter().enumerate() {
        if i > 0 {
            row.out.push(',');
        }
        row.out.push_str(name);
    }
    row.out.push(']');
}

fn tool_call(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Args, 0)) else {
        return;
    };
    row.envelope(
        material,
        "tool_call",
        &view.text(Field::CallId).unwrap_or_default(),
    );
    row.fields(
        view,
        &[
            ("toolName", Field::Name),
            ("args", Field::Args),
            ("activityKind", Field::ActivityKind),
            ("displayName", Field::DisplayName),
            ("intent", Field::Intent),
            ("providerOptions", Field::ProviderOptions),
            ("providerExecuted", Field::ProviderExecuted),
            ("stepId", Field::StepId),
        ],
    );
    surface(view, row);
}

/// Members that calls and results take from the envelope and the refs.
fn surface(view: &EventView<'_>, row: &mut Row) {
    row.optional_string("origin", view.origin);
    row.optional_string("modelVisibility", view.model_visibility);
    row.fields(
        view,
        &[
            ("parentToolCallId", Field::ParentToolCallId),
            ("parentOperationId", Field::ParentOperationId),
        ],
    );
}

/// The kinds of tool-result content that clients know.
const RESULT_KINDS: &[&str] = &[
    "text",
    "json",
    "file_diff",
    "file_write",
    "archived_tool_result",
    "terminal",
    "shell_run",
    "image",
    "summary",
    "web_search",
    "web_search_error",
    "explore_agent",
    "subagent",
    "agent_swarm",
    "rive_workflow",
];

fn tool_result(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Result, 0)) else {
        return;
    };
    row.envelope(material, "tool_result", &stable_id(view));
    row.raw("toolUseId", view.raw(Field::CallId).unwrap_or("\"\""));
    row.raw(
        "isError",
        if view.is_true(Field::IsError) {
            "true"
        } else {
            "false"
        },
    );
    let result = view.raw(Field::Result).unwrap_or("null");
    let kind = view.text(Field::ResultKind).unwrap_or_default();
    if RESULT_KINDS.contains(&&*kind) {
        row.raw("content", result);
    } else {
        // A result of a kind that clients do not know costs its own look and
        // nothing else.
        row.raw("content", "{\"kind\":\"json\",\"value\":");
        row.out.push_str(result);
        row.out.push('}');
    }
    row.fields(
        view,
        &[
            ("durationMs", Field::DurationMs),
            ("providerExecuted", Field::ProviderExecuted),
        ],
    );
    if view.is_true(Field::ProviderExecuted) {
        row.field("providerOutput", view.raw(Field::ProviderOutput));
    }
    surface(view, row);
}

fn permission(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Decision, 0)) else {
        return;
    };
    let request = material.reference(Part::Request);
    let call = material.reference(Part::Call);
    row.envelope(
        material,
        "permission_decision",
        &view.text(Field::DecisionRequestId).unwrap_or_default(),
    );
    let of = |view: Option<&EventView<'_>>, field| {
        view.and_then(|view| view.first_string(&[field]))
            .map(String::from)
    };
    let tool_id = of(Some(view), Field::ToolCallId)
        .or_else(|| of(request, Field::RequestToolUseId))
        .or_else(|| of(call, Field::CallId));
    row.raw("toolUseId", tool_id.as_deref().unwrap_or("\"\""));
    let name = of(Some(view), Field::DecisionToolName)
        .or_else(|| of(request, Field::RequestToolName))
        .or_else(|| of(call, Field::Name));
    row.raw("toolName", name.as_deref().unwrap_or("\"\""));
    row.fields(
        view,
        &[
            ("decision", Field::Decision),
            ("rememberForTurn", Field::RememberForTurn),
            ("reviewer", Field::Reviewer),
            ("rationale", Field::Rationale),
            ("riskLevel", Field::RiskLevel),
        ],
    );
    row.field(
        "hint",
        request.and_then(|request| request.raw(Field::RequestHint)),
    );
}

fn usage(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Usage, 0)) else {
        return;
    };
    row.envelope(material, "token_usage", &stable_id(view));
    for (field, name) in USAGE {
        row.field(name, view.raw(*field));
    }
    row.field(
        "providerRequestTraceId",
        view.raw(Field::ProviderRequestTraceId),
    );
}

fn turn_state(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Turn, 0)) else {
        return;
    };
    row.envelope(material, "turn_state", &stable_id(view));
    let status = match view.status {
        Some(Status::Failed) => "failed",
        Some(Status::Aborted | Status::Cancelled) => "aborted",
        Some(Status::Completed | Status::Streaming) | None => "completed",
    };
    row.string("status", status);
    row.raw(
        "partialOutputRetained",
        if material.item.output_retained {
            "true"
        } else {
            "false"
        },
    );
    if !material.run.lineage.is_empty() {
        row.out.push(',');
        row.out.push_str(&material.run.lineage);
    }
    if status == "aborted" {
        row.raw("abortedAt", view.ts);
        row.field(
            "abortSource",
            view.first_string(&[Field::AbortSource, Field::DeltaSource]),
        );
    }
    if status == "failed" {
        row.field("errorClass", failure_class(view));
    }
}

fn step_limit(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Turn, 0)) else {
        return;
    };
    let id = alloc::format!("{}:step-limit-notice", view.id);
    row.envelope(material, "system_note", &id);
    row.string("kind", "step_limit");
}

fn note(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Note, 0)) else {
        return;
    };
    row.envelope(material, "system_note", &stable_id(view));
    let kind = view.kind();
    let (kind, fields): (_, &[(&str, Field)]) = match (&*kind, view.role) {
        ("compaction", _) => (
            "context_compacted",
            &[
                ("summary", Field::Summary),
                ("throughOrdinal", Field::ThroughOrdinal),
                ("tokensBefore", Field::TokensBefore),
                ("tokensAfter", Field::TokensAfter),
                ("modelId", Field::ModelId),
                ("trigger", Field::Trigger),
            ],
        ),
        ("error", _) => (
            "error",
            &[
                ("message", Field::Message),
                ("code", Field::Code),
                ("reason", Field::Reason),
                ("details", Field::Details),
            ],
        ),
        ("text", Role::System | Role::Tool) => (
            "unsupported_event",
            &[("contentKind", Field::Kind), ("text", Field::Text)],
        ),
        _ => ("unsupported_event", &[("contentKind", Field::Kind)]),
    };
    row.string("kind", kind);
    row.name("data");
    row.out.push('{');
    let outer = core::mem::replace(&mut row.any, false);
    row.fields(view, fields);
    row.out.push('}');
    row.any = outer;
}

fn extension(material: &Material<'_>, row: &mut Row) {
    let Some(view) = material.settled((Lane::Note, 0)) else {
        return;
    };
    row.envelope(material, "extension", &stable_id(view));
    row.fields(
        view,
        &[
            ("namespace", Field::Namespace),
            ("name", Field::Name),
            ("version", Field::Version),
            ("criticality", Field::Criticality),
            ("payload", Field::Payload),
        ],
    );
}

/// The inside of a raw JSON string. Each literal stands alone, so the insides
/// of several, one behind the other, are the inside of their concatenation.
fn inner(raw: Option<&str>) -> &str {
    raw.and_then(|raw| raw.strip_prefix('"'))
        .and_then(|raw| raw.strip_suffix('"'))
        .unwrap_or("")
}

/// Bytes that a chunk adds to its row.
pub fn chunk_len(view: &EventView<'_>) -> u64 {
    view.withheld.map_or_else(
        || inner(view.raw(Field::Text)).len() as u64,
        |whole| whole.chunk,
    )
}
