//! From an item's events to the row that clients see.
//!
//! [`reduce`] is the one path: a running turn, a finished one, a rebuilt index
//! and a snapshot of the past all come through here. It reads slices of the
//! events' canonical text and hands them on; it parses nothing. Rows are
//! written with the members and in the order of the wire, to a [`RowSink`]:
//! a [`JsonRow`] gets their JSON, a [`TypedRow`](crate::message::TypedRow)
//! their type.

use crate::claims::{failure_class, stable_id};
use crate::event::{Role, Status};
use crate::item::{ItemRef, Lane, LanePart, Part};
use crate::json;
use crate::key::ItemKind;
use crate::member::{Splice, SplicedText, StoredRef};
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
        let mut lineage = String::new();
        for (field, name) in [
            (Field::ParentTurnId, "parentTurnId"),
            (Field::RetriedFromTurnId, "retriedFromTurnId"),
            (Field::RegeneratedFromTurnId, "regeneratedFromTurnId"),
            (Field::BranchOfTurnId, "branchOfTurnId"),
            (Field::ParentSessionId, "parentSessionId"),
        ] {
            inside(&mut lineage, name, view.raw(field));
        }
        Self {
            turn_id: turn_id.into(),
            model: view.first_string(&[Field::RouteModelId]).map(Into::into),
            lineage,
        }
    }
}

/// Everything that one row at a watermark is made of.
#[derive(Debug)]
pub struct Material<'a> {
    /// The item.
    pub item: ItemRef<'a>,
    /// The watermark.
    pub through: u64,
    /// The run of its first contribution.
    pub run: &'a RunFacts,
    /// The events of [`Item::ordinals`](crate::Item::ordinals), ascending by
    /// ordinal.
    pub events: &'a [(u64, EventView<'a>)],
    /// The chunks of [`ItemRef::open_lanes`] at or below the watermark.
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

    /// Whether the payload of something that the row is made of is gone;
    /// `needed` are the ordinals of its events.
    fn is_redacted(&self, needed: &[u64]) -> bool {
        let events = needed.iter().filter_map(|ordinal| self.event(*ordinal));
        let chunks = self.chunks.iter().flat_map(|(_, views)| views);
        events
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

/// Where the members of a row go, one after another, in the order of the wire.
pub trait RowSink {
    /// A row begins; its first member is its type.
    fn begin(&mut self, row_type: &'static str);
    /// A member whose value is JSON.
    fn raw(&mut self, name: &'static str, value: &str);
    /// A member whose value is text.
    fn string(&mut self, name: &'static str, text: &str);
    /// A member whose JSON holds what is kept outside of its event, between two
    /// texts.
    fn stored(&mut self, name: &'static str, before: &str, member: StoredRef<'_>, after: &str);
    /// A member whose JSON is written piece by piece.
    fn pieces(&mut self, name: &'static str, write: impl FnOnce(&mut String));
    /// Members that are JSON already: the inside of an object, not empty.
    fn members(&mut self, inside: &str);
    /// The row is complete.
    fn end(&mut self);
}

/// JSON, behind what a text holds already.
#[derive(Debug)]
pub struct JsonRow<'a> {
    text: &'a mut String,
    /// Places of members that are kept outside, counted from where the row
    /// begins.
    splices: &'a mut Vec<Splice>,
    from: usize,
    /// Whether a member that was read along stays outside, too.
    apart: bool,
}

impl<'a> JsonRow<'a> {
    /// A row that takes up what was read along with its events, and leaves
    /// places for the rest.
    pub fn behind(text: &'a mut String, splices: &'a mut Vec<Splice>) -> Self {
        Self {
            from: text.len(),
            text,
            splices,
            apart: false,
        }
    }

    /// A row that leaves places for all that is kept outside.
    #[must_use]
    pub fn apart(self) -> Self {
        Self {
            apart: true,
            ..self
        }
    }
}

impl RowSink for JsonRow<'_> {
    fn begin(&mut self, row_type: &'static str) {
        self.text.push_str("{\"type\":\"");
        self.text.push_str(row_type);
        self.text.push('"');
    }

    fn raw(&mut self, name: &'static str, value: &str) {
        // One growth for all of it, mostly none.
        self.text.reserve(name.len() + value.len() + 4);
        self.text.push_str(",\"");
        self.text.push_str(name);
        self.text.push_str("\":");
        self.text.push_str(value);
    }

    fn string(&mut self, name: &'static str, text: &str) {
        self.raw(name, "");
        json::quote(text, self.text);
    }

    fn stored(&mut self, name: &'static str, before: &str, member: StoredRef<'_>, after: &str) {
        self.raw(name, before);
        match member.loaded.filter(|_| !self.apart) {
            Some(loaded) => self.text.push_str(loaded),
            None => self.splices.push(Splice {
                at: self.text.len() - self.from,
                member: member.to_stored(),
            }),
        }
        self.text.push_str(after);
    }

    fn pieces(&mut self, name: &'static str, write: impl FnOnce(&mut String)) {
        self.raw(name, "");
        write(self.text);
    }

    fn members(&mut self, inside: &str) {
        self.text.push(',');
        self.text.push_str(inside);
    }

    fn end(&mut self) {
        self.text.push('}');
    }
}

/// The row of an item at a watermark, as JSON.
///
/// # Errors
/// As [`reduce`].
pub fn json_row(material: &Material<'_>) -> Result<SplicedText, u64> {
    let mut row = SplicedText::default();
    reduce(
        material,
        &mut JsonRow::behind(&mut row.text, &mut row.splices),
    )?;
    Ok(row)
}

/// Writes the row of an item at a watermark.
///
/// Answers the ordinal of an event that is needed and missing from the
/// material, in which case nothing was written.
///
/// # Errors
/// The ordinal of the first missing event.
pub fn reduce(material: &Material<'_>, row: &mut impl RowSink) -> Result<(), u64> {
    let item = &material.item;
    let mut list = Vec::new();
    // The common item is one event: no list is made for it.
    let needed = match item.need {
        [only] if only.part != Part::FirstChunk => core::slice::from_ref(&only.ordinal),
        _ => {
            item.add_ordinals(material.through, &mut list);
            &list
        }
    };
    let missing = |ordinal: &&u64| material.event(**ordinal).is_none();
    if let Some(ordinal) = needed.iter().find(missing) {
        return Err(*ordinal);
    }
    row.begin(row_type(item.kind, item.position.slot));
    match item.kind {
        ItemKind::User | ItemKind::Steer => user(material, row),
        ItemKind::Assistant => assistant(material, row),
        ItemKind::Call => tool_call(material, row),
        ItemKind::Result => tool_result(material, row),
        ItemKind::Permission => permission(material, row),
        ItemKind::Usage => usage(material, row),
        ItemKind::Turn if item.position.slot == 4 => step_limit(material, row),
        ItemKind::Turn => turn_state(material, row),
        ItemKind::Note => note(material, row),
        ItemKind::Extension => extension(material, row),
    }
    if material.is_redacted(needed) {
        row.raw("redacted", "true");
    }
    row.end();
    Ok(())
}

/// The type of the row that an item of this kind gives.
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

/// A member of a row that is not there is not written.
fn field(row: &mut impl RowSink, name: &'static str, raw: Option<&str>) {
    if let Some(raw) = raw {
        row.raw(name, raw);
    }
}

fn fields(row: &mut impl RowSink, view: &EventView<'_>, fields: &[(&'static str, Field)]) {
    for (name, of) in fields {
        field(row, name, view.raw(*of));
    }
}

/// A member of an object that is written as text.
fn inside(out: &mut String, name: &str, raw: Option<&str>) {
    let Some(raw) = raw else { return };
    if !out.is_empty() && !out.ends_with('{') {
        out.push(',');
    }
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
    out.push_str(raw);
}

fn all_inside(out: &mut String, view: &EventView<'_>, fields: &[(&'static str, Field)]) {
    for (name, of) in fields {
        inside(out, name, view.raw(*of));
    }
}

/// Id, turn and time, with which every row begins behind its type.
fn envelope(material: &Material<'_>, row: &mut impl RowSink, id: &str) {
    row.string("id", id);
    row.string("turnId", &material.run.turn_id);
    row.raw("ts", material.item.ts);
}

fn user(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Text, 0)) else {
        return;
    };
    envelope(material, row, &stable_id(view));
    row.raw("text", view.raw(Field::Text).unwrap_or("\"\""));
    fields(
        row,
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
    field(row, "origin", view.raw(Field::TurnOrigin));
}

fn assistant(material: &Material<'_>, row: &mut impl RowSink) {
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
    envelope(material, row, &id);
    joined(row, "text", || {
        let views = texts.iter().flat_map(|lane| material.lane(*lane));
        views.map(|view| view.raw(Field::Text))
    });
    let model = views().find_map(|view| view.first_string(&[Field::ModelId]));
    let model = model.or(material.run.model.as_deref());
    row.raw("modelId", model.unwrap_or("\"unknown\""));
    if !thoughts.is_empty() {
        row.pieces("thinking", |out| thinking(material, thoughts, out));
    }
    content_order(material, !texts.is_empty(), !thoughts.is_empty(), row);
    let options = texts
        .iter()
        .filter_map(|lane| material.settled(*lane))
        .filter_map(|view| view.raw(Field::ProviderOptions))
        .next_back();
    field(row, "providerOptions", options);
}

/// A member that is one text made of several literals. A single one is handed
/// on as it stands.
fn joined<'a, I: Iterator<Item = Option<&'a str>>>(
    row: &mut impl RowSink,
    name: &'static str,
    literals: impl Fn() -> I,
) {
    let mut some = literals();
    match (some.next(), some.next()) {
        (None, _) => row.raw(name, "\"\""),
        (Some(only), None) => row.raw(name, only.filter(|raw| is_string(raw)).unwrap_or("\"\"")),
        _ => row.pieces(name, |out| {
            out.push('"');
            for literal in literals() {
                out.push_str(inner(literal));
            }
            out.push('"');
        }),
    }
}

fn thinking(material: &Material<'_>, parts: &[LanePart], out: &mut String) {
    out.push_str("{\"text\":\"");
    for lane in parts {
        thinking_text(material.lane(*lane), out);
    }
    out.push('"');
    if let [only] = parts {
        if let Some(view) = material.settled(*only) {
            all_inside(out, view, THINKING_EXTRAS);
        }
    } else {
        out.push_str(",\"parts\":[");
        for (i, lane) in parts.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str("{\"text\":\"");
            thinking_text(material.lane(*lane), out);
            out.push('"');
            if let Some(view) = material.settled(*lane) {
                all_inside(out, view, THINKING_EXTRAS);
            }
            out.push('}');
        }
        out.push(']');
    }
    out.push('}');
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
fn content_order(material: &Material<'_>, text: bool, thinking: bool, row: &mut impl RowSink) {
    let seen = |lane| material.item.first_seen(lane, material.through);
    let mut pieces = [
        (seen(Lane::Thinking).filter(|_| thinking), "\"thinking\""),
        (seen(Lane::Text).filter(|_| text), "\"text\""),
        (seen(Lane::Tools), "\"tools\""),
    ];
    if pieces.iter().filter_map(|(at, _)| *at).is_sorted() {
        return;
    }
    // Those that were not seen come first, and are left out.
    pieces.sort_by_key(|(at, _)| *at);
    row.pieces("contentOrder", |out| {
        out.push('[');
        for (_, name) in pieces.iter().filter(|(at, _)| at.is_some()) {
            if !out.ends_with('[') {
                out.push(',');
            }
            out.push_str(name);
        }
        out.push(']');
    });
}

fn tool_call(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Args, 0)) else {
        return;
    };
    envelope(material, row, &view.text(Field::CallId).unwrap_or_default());
    fields(
        row,
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
fn surface(view: &EventView<'_>, row: &mut impl RowSink) {
    let texts = [
        ("origin", view.origin),
        ("modelVisibility", view.model_visibility),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            row.string(name, text);
        }
    }
    fields(
        row,
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

fn tool_result(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Result, 0)) else {
        return;
    };
    envelope(material, row, &stable_id(view));
    row.raw("toolUseId", view.raw(Field::CallId).unwrap_or("\"\""));
    row.raw(
        "isError",
        if view.is_true(Field::IsError) {
            "true"
        } else {
            "false"
        },
    );
    let (before, after) = if RESULT_KINDS.contains(&&*view.result_kind()) {
        ("", "")
    } else {
        // A result of a kind that clients do not know costs its own look and
        // nothing else.
        ("{\"kind\":\"json\",\"value\":", "}")
    };
    let result = view.raw(Field::Result).unwrap_or("null");
    match view.stored(Field::Result) {
        Some(stored) => row.stored("content", before, stored, after),
        None if before.is_empty() => row.raw("content", result),
        None => row.pieces("content", |out| {
            for part in [before, result, after] {
                out.push_str(part);
            }
        }),
    }
    fields(
        row,
        view,
        &[
            ("durationMs", Field::DurationMs),
            ("providerExecuted", Field::ProviderExecuted),
        ],
    );
    if view.is_true(Field::ProviderExecuted) {
        field(row, "providerOutput", view.raw(Field::ProviderOutput));
    }
    surface(view, row);
}

fn permission(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Decision, 0)) else {
        return;
    };
    let request = material.reference(Part::Request);
    let call = material.reference(Part::Call);
    envelope(
        material,
        row,
        &view.text(Field::DecisionRequestId).unwrap_or_default(),
    );
    fn of<'a>(view: Option<&EventView<'a>>, field: Field) -> Option<&'a str> {
        view.and_then(|view| view.first_string(&[field]))
    }
    let tool_id = of(Some(view), Field::ToolCallId)
        .or_else(|| of(request, Field::RequestToolUseId))
        .or_else(|| of(call, Field::CallId));
    row.raw("toolUseId", tool_id.unwrap_or("\"\""));
    let name = of(Some(view), Field::DecisionToolName)
        .or_else(|| of(request, Field::RequestToolName))
        .or_else(|| of(call, Field::Name));
    row.raw("toolName", name.unwrap_or("\"\""));
    fields(
        row,
        view,
        &[
            ("decision", Field::Decision),
            ("rememberForTurn", Field::RememberForTurn),
            ("reviewer", Field::Reviewer),
            ("rationale", Field::Rationale),
            ("riskLevel", Field::RiskLevel),
        ],
    );
    field(
        row,
        "hint",
        request.and_then(|request| request.raw(Field::RequestHint)),
    );
}

fn usage(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Usage, 0)) else {
        return;
    };
    envelope(material, row, &stable_id(view));
    for (of, name) in USAGE {
        field(row, name, view.raw(*of));
    }
    field(
        row,
        "providerRequestTraceId",
        view.raw(Field::ProviderRequestTraceId),
    );
}

fn turn_state(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Turn, 0)) else {
        return;
    };
    envelope(material, row, &stable_id(view));
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
        row.members(&material.run.lineage);
    }
    if status == "aborted" {
        row.raw("abortedAt", view.ts);
        field(
            row,
            "abortSource",
            view.first_string(&[Field::AbortSource, Field::DeltaSource]),
        );
    }
    if status == "failed" {
        field(row, "errorClass", failure_class(view));
    }
}

fn step_limit(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Turn, 0)) else {
        return;
    };
    let id = alloc::format!("{}:step-limit-notice", view.id);
    envelope(material, row, &id);
    row.string("kind", "step_limit");
}

fn note(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Note, 0)) else {
        return;
    };
    envelope(material, row, &stable_id(view));
    let kind = view.kind();
    let (kind, data): (_, &[(&str, Field)]) = match (&*kind, view.role) {
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
    row.pieces("data", |out| {
        out.push('{');
        all_inside(out, view, data);
        out.push('}');
    });
}

fn extension(material: &Material<'_>, row: &mut impl RowSink) {
    let Some(view) = material.settled((Lane::Note, 0)) else {
        return;
    };
    envelope(material, row, &stable_id(view));
    fields(
        row,
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

/// Whether raw JSON is a string.
fn is_string(raw: &str) -> bool {
    raw.len() >= 2 && raw.starts_with('"')
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
