//! An event as a reader needs it: borrowed, with every interesting member
//! already located.
//!
//! When an event is accepted its text is scanned once and the places of the
//! members that items and rows are made of are noted ([`Fields`]). Whoever
//! reads the event later cuts slices out of the text and parses nothing.

use crate::event::{Author, Role, Status};
use crate::json;
use crate::member::{StoredMembers, StoredRef};
use crate::object;
use crate::redact::Withheld;
use alloc::borrow::Cow;
use alloc::vec::Vec;

macro_rules! fields {
    ($( $(#[$doc:meta])* $name:ident = $number:literal, )*) => {
        /// A member that rows and items are made of. The numbers stand in
        /// stored rows: they are never changed or reused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Field { $( $(#[$doc])* $name = $number, )* }

        impl Field {
            /// All fields.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// The field of a stored number.
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $( $number => Some(Self::$name), )* _ => None }
            }
        }
    };
}

fields! {
    /// `refs.storedMessageId`
    StoredMessageId = 1,
    /// `refs.toolCallId`
    ToolCallId = 2,
    /// `refs.providerEventId`
    ProviderEventId = 3,
    /// `refs.operationId`
    OperationId = 4,
    /// `refs.parentToolCallId`
    ParentToolCallId = 5,
    /// `refs.parentOperationId`
    ParentOperationId = 6,
    /// `refs.stepId`
    StepId = 7,
    /// `refs.scopeRunId`
    ScopeRunId = 8,
    /// `refs.scopeTurnId`
    ScopeTurnId = 9,
    /// `refs.contentIndex`
    ContentIndex = 10,
    /// `refs.revises`
    Revises = 11,
    /// `refs.providerRequestTraceId`
    ProviderRequestTraceId = 12,
    /// `content.kind`
    Kind = 20,
    /// `content.text`
    Text = 21,
    /// `content.displayText`
    DisplayText = 22,
    /// `content.attachments`
    Attachments = 23,
    /// `content.quotes`
    Quotes = 24,
    /// `content.inlineReferences`
    InlineReferences = 25,
    /// `content.origin`
    TurnOrigin = 26,
    /// `content.origin.kind`
    TurnOriginKind = 27,
    /// `content.steering`
    Steering = 28,
    /// `content.providerOptions`
    ProviderOptions = 29,
    /// `content.modelId`
    ModelId = 30,
    /// `content.signature`
    Signature = 31,
    /// `content.summary`
    Summary = 32,
    /// `content.id`
    CallId = 33,
    /// `content.name`
    Name = 34,
    /// `content.args`
    Args = 35,
    /// `content.providerExecuted`
    ProviderExecuted = 36,
    /// `content.result`
    Result = 37,
    /// `content.result.kind`
    ResultKind = 38,
    /// `content.isError`
    IsError = 39,
    /// `content.providerOutput`
    ProviderOutput = 40,
    /// `content.message`
    Message = 41,
    /// `content.code`
    Code = 42,
    /// `content.reason`
    Reason = 43,
    /// `content.details`
    Details = 44,
    /// `content.throughOrdinal`
    ThroughOrdinal = 45,
    /// `content.tokensBefore`
    TokensBefore = 46,
    /// `content.tokensAfter`
    TokensAfter = 47,
    /// `content.trigger`
    Trigger = 48,
    /// `content.namespace`
    Namespace = 49,
    /// `content.version`
    Version = 50,
    /// `content.criticality`
    Criticality = 51,
    /// `content.payload`
    Payload = 52,
    /// `content.route.modelId`
    RouteModelId = 53,
    /// `content.lineage.parentRunId`
    ParentRunId = 54,
    /// `content.lineage.agentId`
    LineageAgentId = 55,
    /// `content.lineage.parentTurnId`
    ParentTurnId = 56,
    /// `content.lineage.retriedFromTurnId`
    RetriedFromTurnId = 57,
    /// `content.lineage.regeneratedFromTurnId`
    RegeneratedFromTurnId = 58,
    /// `content.lineage.branchOfTurnId`
    BranchOfTurnId = 59,
    /// `content.lineage.parentSessionId`
    ParentSessionId = 60,
    /// `content.source.kind`
    SourceKind = 61,
    /// `content.root.kind`
    RootKind = 62,
    /// `actions.endInvocation`
    EndInvocation = 80,
    /// `actions.stateDelta.activityKind`
    ActivityKind = 81,
    /// `actions.stateDelta.displayName`
    DisplayName = 82,
    /// `actions.stateDelta.intent`
    Intent = 83,
    /// `actions.stateDelta.durationMs`
    DurationMs = 84,
    /// `actions.stateDelta.failureClass`
    FailureClass = 85,
    /// `actions.stateDelta.errorClass`
    ErrorClass = 86,
    /// `actions.stateDelta.abortSource`
    AbortSource = 87,
    /// `actions.stateDelta.reason`
    DeltaReason = 88,
    /// `actions.stateDelta.code`
    DeltaCode = 89,
    /// `actions.stateDelta.source`
    DeltaSource = 90,
    /// `actions.stateDelta.closer`: the event closes a call for want of a
    /// real result.
    Closer = 91,
    /// `actions.permissionRequest.requestId`
    RequestId = 100,
    /// `actions.permissionRequest.toolUseId`
    RequestToolUseId = 101,
    /// `actions.permissionRequest.toolName`
    RequestToolName = 102,
    /// `actions.permissionRequest.hint`
    RequestHint = 103,
    /// `actions.permissionDecision.requestId`
    DecisionRequestId = 110,
    /// `actions.permissionDecision.decision`
    Decision = 111,
    /// `actions.permissionDecision.rememberForTurn`
    RememberForTurn = 112,
    /// `actions.permissionDecision.reviewer`
    Reviewer = 113,
    /// `actions.permissionDecision.rationale`
    Rationale = 114,
    /// `actions.permissionDecision.riskLevel`
    RiskLevel = 115,
    /// `actions.permissionDecision.toolName`
    DecisionToolName = 116,
    /// `actions.tokenUsage`
    Usage = 120,
    /// `actions.tokenUsage.input`
    UsageInput = 121,
    /// `actions.tokenUsage.output`
    UsageOutput = 122,
    /// `actions.tokenUsage.cacheHitInput`
    UsageCacheHitInput = 123,
    /// `actions.tokenUsage.cacheMissInput`
    UsageCacheMissInput = 124,
    /// `actions.tokenUsage.cacheWriteInput`
    UsageCacheWriteInput = 125,
    /// `actions.tokenUsage.cacheMissInputSource`
    UsageCacheMissInputSource = 126,
    /// `actions.tokenUsage.reasoning`
    UsageReasoning = 127,
    /// `actions.tokenUsage.total`
    UsageTotal = 128,
    /// `actions.tokenUsage.rawFinishReason`
    UsageRawFinishReason = 129,
    /// `actions.tokenUsage.runtimeSteps`
    UsageRuntimeSteps = 130,
    /// `actions.tokenUsage.cacheRead`
    UsageCacheRead = 131,
    /// `actions.tokenUsage.cacheCreation`
    UsageCacheCreation = 132,
    /// `actions.tokenUsage.costUsd`
    UsageCostUsd = 133,
    /// `actions.tokenUsage.systemPromptHash`
    UsageSystemPromptHash = 134,
    /// `actions.tokenUsage.contextRemaining`
    UsageContextRemaining = 135,
    /// `actions.tokenUsage.prefixHash`
    UsagePrefixHash = 136,
    /// `actions.tokenUsage.prefixChangeReason`
    UsagePrefixChangeReason = 137,
    /// `actions.tokenUsage.requestShapeHash`
    UsageRequestShapeHash = 138,
    /// `actions.tokenUsage.requestShapeChangeReason`
    UsageRequestShapeChangeReason = 139,
    /// `actions.tokenUsage.promptSegments`
    UsagePromptSegments = 140,
    /// `actions.tokenUsage.contextBudget`
    UsageContextBudget = 141,
}

/// Members of the usage object in the order of the row, with their names.
pub const USAGE: &[(Field, &str)] = &[
    (Field::UsageInput, "input"),
    (Field::UsageOutput, "output"),
    (Field::UsageCacheHitInput, "cacheHitInput"),
    (Field::UsageCacheMissInput, "cacheMissInput"),
    (Field::UsageCacheWriteInput, "cacheWriteInput"),
    (Field::UsageCacheMissInputSource, "cacheMissInputSource"),
    (Field::UsageReasoning, "reasoning"),
    (Field::UsageTotal, "total"),
    (Field::UsageRawFinishReason, "rawFinishReason"),
    (Field::UsageRuntimeSteps, "runtimeSteps"),
    (Field::UsageCacheRead, "cacheRead"),
    (Field::UsageCacheCreation, "cacheCreation"),
    (Field::UsageCostUsd, "costUsd"),
    (Field::UsageSystemPromptHash, "systemPromptHash"),
    (Field::UsageContextRemaining, "contextRemaining"),
    (Field::UsagePrefixHash, "prefixHash"),
    (Field::UsagePrefixChangeReason, "prefixChangeReason"),
    (Field::UsageRequestShapeHash, "requestShapeHash"),
    (
        Field::UsageRequestShapeChangeReason,
        "requestShapeChangeReason",
    ),
    (Field::UsagePromptSegments, "promptSegments"),
    (Field::UsageContextBudget, "contextBudget"),
];

/// Where a field stands in an event's text: field, byte offset, byte length.
pub type Place = (Field, u32, u32);

/// Bytes of a packed place: field, offset and length, the latter two in three
/// little-endian bytes each.
pub const PACKED_PLACE: usize = 7;

/// Where the fields stand in an event's text: sorted by field.
///
/// A reader gets them as they are stored and notes which ones are there, so
/// that opening an event allocates nothing and most looks end at once.
#[derive(Debug, Clone)]
pub enum Fields<'a> {
    /// As scanned.
    Scanned(Cow<'a, [Place]>),
    /// As stored.
    Packed(PackedFields<'a>),
}

/// Packed places, see [`PACKED_PLACE`], with a bit for each field that is
/// among them.
#[derive(Debug, Clone, Copy)]
pub struct PackedFields<'a> {
    bytes: &'a [u8],
    there: [u64; 3],
}

impl<'a> PackedFields<'a> {
    /// The places that some bytes hold.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut there = [0; 3];
        for place in bytes.chunks_exact(PACKED_PLACE) {
            if let [field, ..] = place
                && let Some(word) = there.get_mut(usize::from(field / 64))
            {
                *word |= 1 << (field % 64);
            }
        }
        Self { bytes, there }
    }

    /// How many places stand before that of a field; `None` where it is not
    /// there.
    fn rank(&self, field: u8) -> Option<usize> {
        let (word, bit) = (usize::from(field / 64), 1 << (field % 64));
        let within = self.there.get(word)?;
        if within & bit == 0 {
            return None;
        }
        let before = self.there.iter().take(word).map(|word| word.count_ones());
        let rank = before.sum::<u32>() + (within & (bit - 1)).count_ones();
        usize::try_from(rank).ok()
    }
}

impl PartialEq for Fields<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.places().eq(other.places())
    }
}

impl Eq for Fields<'_> {}

impl Fields<'_> {
    /// All places, by field.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        (0..self.len()).filter_map(|at| self.place(at))
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        match self {
            Self::Scanned(places) => places.len(),
            Self::Packed(packed) => packed.bytes.len() / PACKED_PLACE,
        }
    }

    /// Whether there is no place.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, at: usize) -> Option<Place> {
        match self {
            Self::Scanned(places) => places.get(at).copied(),
            Self::Packed(packed) => {
                let at = at * PACKED_PLACE;
                let [field, a, b, c, d, e, f] = *packed.bytes.get(at..at + PACKED_PLACE)? else {
                    return None;
                };
                let wide = |a, b, c| u32::from_le_bytes([a, b, c, 0]);
                Some((Field::from_number(field)?, wide(a, b, c), wide(d, e, f)))
            }
        }
    }

    /// The number under which the place at an index is filed.
    fn number(&self, at: usize) -> Option<u8> {
        match self {
            Self::Scanned(places) => places.get(at).map(|(field, ..)| *field as u8),
            Self::Packed(packed) => packed.bytes.get(at * PACKED_PLACE).copied(),
        }
    }

    /// Where a field stands.
    pub fn find(&self, field: Field) -> Option<(usize, usize)> {
        let wanted = field as u8;
        if let Self::Packed(packed) = self {
            let at = packed.rank(wanted)?;
            // Stored places are sorted and tell each field once.
            if self.number(at) == Some(wanted) {
                let (_, offset, length) = self.place(at)?;
                return Some((offset as usize, length as usize));
            }
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.number(middle)?.cmp(&wanted) {
                core::cmp::Ordering::Less => low = middle + 1,
                core::cmp::Ordering::Greater => high = middle,
                core::cmp::Ordering::Equal => {
                    let (_, offset, length) = self.place(middle)?;
                    return Some((offset as usize, length as usize));
                }
            }
        }
        None
    }

    /// The places packed, where all of them fit.
    pub fn pack(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(self.len() * PACKED_PLACE);
        for (field, offset, length) in self.places() {
            out.push(field as u8);
            for value in [offset, length] {
                let [a, b, c, 0] = value.to_le_bytes() else {
                    return None;
                };
                out.extend([a, b, c]);
            }
        }
        Some(out)
    }

    /// The same places, borrowed.
    pub fn borrowed(&self) -> Fields<'_> {
        match self {
            Self::Scanned(places) => Fields::Scanned(Cow::Borrowed(places)),
            Self::Packed(packed) => Fields::Packed(*packed),
        }
    }
}

impl Fields<'static> {
    /// Finds the fields in canonical refs and body, which stand in `text` one
    /// behind the other.
    pub fn scan(text: &str, refs_len: usize) -> Self {
        let mut scan = Scan {
            base: text.as_ptr() as usize,
            places: Vec::new(),
        };
        let (refs, body) = text.split_at_checked(refs_len).unwrap_or(("", text));
        scan.object(json::Object::of(refs), REFS);
        if let Some(body) = json::Object::of(body) {
            if let Some(content) = body.object("content") {
                scan.members(&content, CONTENT);
                scan.object(content.object("origin"), &[("kind", Field::TurnOriginKind)]);
                scan.object(content.object("result"), &[("kind", Field::ResultKind)]);
                if content.get("route").is_some() {
                    scan.object(content.object("route"), &[("modelId", Field::RouteModelId)]);
                    scan.object(content.object("lineage"), LINEAGE);
                    scan.object(content.object("source"), &[("kind", Field::SourceKind)]);
                    scan.object(content.object("root"), &[("kind", Field::RootKind)]);
                }
            }
            if let Some(actions) = body.object("actions") {
                scan.members(&actions, ACTIONS);
                scan.object(actions.object("stateDelta"), STATE_DELTA);
                scan.object(actions.object("permissionRequest"), REQUEST);
                scan.object(actions.object("permissionDecision"), DECISION);
                if let Some(usage) = actions.object("tokenUsage") {
                    for (field, name) in USAGE {
                        scan.place(*field, usage.get(name));
                    }
                }
            }
        }
        scan.places.sort_unstable();
        Self::Scanned(Cow::Owned(scan.places))
    }
}

const REFS: &[(&str, Field)] = &[
    ("storedMessageId", Field::StoredMessageId),
    ("toolCallId", Field::ToolCallId),
    ("providerEventId", Field::ProviderEventId),
    ("operationId", Field::OperationId),
    ("parentToolCallId", Field::ParentToolCallId),
    ("parentOperationId", Field::ParentOperationId),
    ("stepId", Field::StepId),
    ("scopeRunId", Field::ScopeRunId),
    ("scopeTurnId", Field::ScopeTurnId),
    ("contentIndex", Field::ContentIndex),
    ("revises", Field::Revises),
    ("providerRequestTraceId", Field::ProviderRequestTraceId),
];
const CONTENT: &[(&str, Field)] = &[
    ("kind", Field::Kind),
    ("text", Field::Text),
    ("displayText", Field::DisplayText),
    ("attachments", Field::Attachments),
    ("quotes", Field::Quotes),
    ("inlineReferences", Field::InlineReferences),
    ("origin", Field::TurnOrigin),
    ("steering", Field::Steering),
    ("providerOptions", Field::ProviderOptions),
    ("modelId", Field::ModelId),
    ("signature", Field::Signature),
    ("summary", Field::Summary),
    ("id", Field::CallId),
    ("name", Field::Name),
    ("args", Field::Args),
    ("providerExecuted", Field::ProviderExecuted),
    ("result", Field::Result),
    ("isError", Field::IsError),
    ("providerOutput", Field::ProviderOutput),
    ("message", Field::Message),
    ("code", Field::Code),
    ("reason", Field::Reason),
    ("details", Field::Details),
    ("throughOrdinal", Field::ThroughOrdinal),
    ("tokensBefore", Field::TokensBefore),
    ("tokensAfter", Field::TokensAfter),
    ("trigger", Field::Trigger),
    ("namespace", Field::Namespace),
    ("version", Field::Version),
    ("criticality", Field::Criticality),
    ("payload", Field::Payload),
];
const LINEAGE: &[(&str, Field)] = &[
    ("parentRunId", Field::ParentRunId),
    ("agentId", Field::LineageAgentId),
    ("parentTurnId", Field::ParentTurnId),
    ("retriedFromTurnId", Field::RetriedFromTurnId),
    ("regeneratedFromTurnId", Field::RegeneratedFromTurnId),
    ("branchOfTurnId", Field::BranchOfTurnId),
    ("parentSessionId", Field::ParentSessionId),
];
const ACTIONS: &[(&str, Field)] = &[
    ("endInvocation", Field::EndInvocation),
    ("tokenUsage", Field::Usage),
];
const STATE_DELTA: &[(&str, Field)] = &[
    ("activityKind", Field::ActivityKind),
    ("displayName", Field::DisplayName),
    ("intent", Field::Intent),
    ("durationMs", Field::DurationMs),
    ("failureClass", Field::FailureClass),
    ("errorClass", Field::ErrorClass),
    ("abortSource", Field::AbortSource),
    ("reason", Field::DeltaReason),
    ("code", Field::DeltaCode),
    ("source", Field::DeltaSource),
    ("closer", Field::Closer),
];
const REQUEST: &[(&str, Field)] = &[
    ("requestId", Field::RequestId),
    ("toolUseId", Field::RequestToolUseId),
    ("toolName", Field::RequestToolName),
    ("hint", Field::RequestHint),
];
const DECISION: &[(&str, Field)] = &[
    ("requestId", Field::DecisionRequestId),
    ("decision", Field::Decision),
    ("rememberForTurn", Field::RememberForTurn),
    ("reviewer", Field::Reviewer),
    ("rationale", Field::Rationale),
    ("riskLevel", Field::RiskLevel),
    ("toolName", Field::DecisionToolName),
];

struct Scan {
    base: usize,
    places: Vec<Place>,
}

impl Scan {
    fn object(&mut self, object: Option<json::Object<'_>>, names: &[(&str, Field)]) {
        if let Some(object) = object {
            self.members(&object, names);
        }
    }

    fn members(&mut self, object: &json::Object<'_>, names: &[(&str, Field)]) {
        for (name, raw) in object.iter() {
            if let Some((_, field)) = names.iter().find(|(known, _)| *known == name) {
                self.place(*field, Some(raw));
            }
        }
    }

    fn place(&mut self, field: Field, raw: Option<&str>) {
        let Some(raw) = raw else { return };
        // The slice was cut out of the text whose address is `base`. A text
        // beyond 4 GiB cannot be located and reads as if the member were
        // absent; the limits on an event are far below.
        let offset = u32::try_from(raw.as_ptr() as usize - self.base);
        if let (Ok(offset), Ok(length)) = (offset, u32::try_from(raw.len())) {
            self.places.push((field, offset, length));
        }
    }
}

/// An event as readers see it, borrowed from wherever it is kept.
#[derive(Debug, Clone)]
pub struct EventView<'a> {
    /// The identity of the event.
    pub id: &'a str,
    /// Milliseconds since 1970, as written.
    pub ts: &'a str,
    /// Whether a final event supersedes it.
    pub partial: bool,
    /// The lane of the model's history.
    pub role: Role,
    /// Who produced it.
    pub author: Author,
    /// A lane in a tree of agents.
    pub branch: Option<&'a str>,
    /// The execution surface.
    pub origin: Option<&'a str>,
    /// Whether a provider may see it again.
    pub model_visibility: Option<&'a str>,
    /// A statement about the life of the run.
    pub status: Option<Status>,
    /// Canonical refs (empty where the event has none) and body, one behind
    /// the other.
    pub text: &'a str,
    /// The length of the refs.
    pub refs_len: usize,
    /// Where the fields stand in `text`.
    pub fields: Fields<'a>,
    /// The members that are kept outside; something else stands in `text` in
    /// their places.
    pub stored: StoredMembers<'a>,
    /// What is known of the whole, where the payload is gone.
    pub withheld: Option<Withheld>,
}

impl<'a> EventView<'a> {
    /// The bytes of refs and body as the event was written, wherever they are
    /// kept.
    pub fn weight(&self) -> u64 {
        self.withheld.map_or_else(
            || self.text.len() as u64 + self.stored.weight(),
            |whole| whole.weight,
        )
    }

    /// A field as raw JSON; of a member that is kept outside only where it was
    /// read along with the event.
    pub fn raw(&self, field: Field) -> Option<&'a str> {
        let (offset, length) = self.fields.find(field)?;
        match self.stored.get(field) {
            None => self.text.get(offset..offset + length),
            Some(stored) => stored.loaded,
        }
    }

    /// A field that is kept outside.
    pub fn stored(&self, field: Field) -> Option<StoredRef<'a>> {
        self.stored.get(field)
    }

    /// The `kind` of the result; empty where it has none.
    pub fn result_kind(&self) -> Cow<'a, str> {
        match self.stored.get(Field::Result) {
            None => self.text(Field::ResultKind).unwrap_or_default(),
            Some(stored) => Cow::Borrowed(stored.kind.unwrap_or_default()),
        }
    }

    /// A field that is a string, unescaped.
    pub fn text(&self, field: Field) -> Option<Cow<'a, str>> {
        self.raw(field).and_then(json::unquote)
    }

    /// The first of several fields that is a non-empty string, as raw JSON.
    pub fn first_string(&self, fields: &[Field]) -> Option<&'a str> {
        fields
            .iter()
            .filter_map(|field| self.raw(*field))
            .find(|raw| raw.starts_with('"') && *raw != "\"\"")
    }

    /// A field that is a number, rounded toward zero; 0 where it is missing.
    pub fn whole(&self, field: Field) -> u64 {
        self.raw(field).map_or(0, object::whole)
    }

    /// Whether a field is `true`.
    pub fn is_true(&self, field: Field) -> bool {
        self.raw(field) == Some("true")
    }

    /// The kind of the content; empty where there is none.
    pub fn kind(&self) -> Cow<'a, str> {
        self.text(Field::Kind).unwrap_or_default()
    }

    /// The canonical refs, where the event has any.
    pub fn refs(&self) -> Option<&'a str> {
        self.text
            .get(..self.refs_len)
            .filter(|refs| !refs.is_empty())
    }

    /// The canonical body.
    pub fn body(&self) -> &'a str {
        self.text.get(self.refs_len..).unwrap_or_default()
    }

    /// Whether the event ends its run.
    pub fn is_terminal(&self) -> bool {
        self.status.is_some_and(Status::is_terminal) || self.is_true(Field::EndInvocation)
    }
}
