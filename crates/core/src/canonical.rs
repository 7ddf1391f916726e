//! The canonical form of an event: made once when it is accepted, then kept.
//!
//! An event has three parts. *id* and *ts* stand alone. The *envelope* says
//! who, when and what kind: invocation, run, turn, `partial`, role, author,
//! branch, origin, visibility, status, refs; this list is closed for ever. The
//! *body* is the rest: content, actions, nonce and whatever a later version
//! adds. Members of exactly four objects (event, content, refs, actions) are
//! sorted and their direct strings spelled with minimal escapes; everything
//! below is the source's text. The session is no part of it.

use crate::event::{Author, EventError, Role, RuntimeEvent, Status};
use crate::id::{EventId, InvocationId, RunId, SessionId, TurnId};
use crate::json::{self, Object};
use crate::member::{self, STAND_IN, SplicedText, Stored, StoredMembers, StoredRef};
use crate::redact::Withheld;
use crate::view::{EventView, Field, Fields};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// The envelope members that name the spine of an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spine {
    /// The execution spine; one for each run.
    pub invocation_id: InvocationId,
    /// The run.
    pub run_id: RunId,
    /// The turn.
    pub turn_id: TurnId,
}

/// An accepted event in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalEvent {
    /// The session that it was written for. Not digested: an append checks it,
    /// and a reader sees the session that it reads through.
    pub session_id: SessionId,
    /// The identity of the event.
    pub id: EventId,
    /// Milliseconds since 1970, as written.
    pub ts: Box<str>,
    /// Invocation, run and turn.
    pub spine: Spine,
    /// Whether a final event supersedes it.
    pub partial: bool,
    /// The lane of the model's history.
    pub role: Role,
    /// Who produced it.
    pub author: Author,
    /// A lane in a tree of agents.
    pub branch: Option<Box<str>>,
    /// The execution surface.
    pub origin: Option<Box<str>>,
    /// Whether a provider may see it again.
    pub model_visibility: Option<Box<str>>,
    /// A statement about the life of the run.
    pub status: Option<Status>,
    /// Canonical refs (empty where there are none), then the canonical body.
    pub text: Box<str>,
    /// The length of the refs.
    pub refs_len: usize,
    /// Where the fields stand in `text`.
    pub fields: Fields<'static>,
    /// The members that are kept outside, packed as [`StoredMembers`] has them.
    pub stored: Box<[u8]>,
    /// What is known of the whole, where the payload is gone: an event that is
    /// copied from a store in which it was redacted.
    pub withheld: Option<Withheld>,
}

impl CanonicalEvent {
    /// Checks an event and puts it into canonical form.
    ///
    /// # Errors
    /// [`EventError`] naming the member and the rule that it breaks.
    pub fn new(event: &RuntimeEvent) -> Result<Self, EventError> {
        event.validate()?;
        let mut text = event.canonical_refs().unwrap_or_default();
        let refs_len = text.len();
        text.push_str(&event.canonical_body());
        let fields = Fields::scan(&text, refs_len);
        Ok(Self {
            session_id: event.session_id.clone(),
            id: event.id.clone(),
            ts: event.ts.as_str().into(),
            spine: Spine {
                invocation_id: event.invocation_id.clone(),
                run_id: event.run_id.clone(),
                turn_id: event.turn_id.clone(),
            },
            partial: event.partial,
            role: event.role,
            author: event.author,
            branch: event.branch.as_deref().map(Into::into),
            origin: event.origin.as_ref().map(|origin| origin.as_str().into()),
            model_visibility: event.model_visibility.as_ref().map(|v| v.as_str().into()),
            status: event.status,
            text: text.into_boxed_str(),
            refs_len,
            fields,
            stored: member::pack(event.stored()),
            withheld: None,
        })
    }

    /// An event out of a store, as it is there.
    ///
    /// # Errors
    /// Where its id is none: the store is damaged.
    pub fn from_view(
        view: &EventView<'_>,
        spine: &Spine,
        session: &SessionId,
    ) -> Result<Self, crate::IdError> {
        Ok(Self {
            session_id: session.clone(),
            id: EventId::new(view.id)?,
            ts: view.ts.into(),
            spine: spine.clone(),
            partial: view.partial,
            role: view.role,
            author: view.author,
            branch: view.branch.map(Into::into),
            origin: view.origin.map(Into::into),
            model_visibility: view.model_visibility.map(Into::into),
            status: view.status,
            text: view.text.into(),
            refs_len: view.refs_len,
            fields: Fields::scan(view.text, view.refs_len),
            stored: view.stored.packed().into(),
            withheld: view.withheld,
        })
    }

    /// The event with what is left of its body. What is known of the whole is
    /// made of the event as it is, with `digest` as the digest of its body,
    /// unless a part was gone before. `payload` says whether what a row shows
    /// is gone.
    #[must_use]
    pub fn with_body(mut self, body: &str, digest: [u8; 32], payload: bool) -> Self {
        let whole = Withheld {
            body: digest,
            weight: self.view().weight(),
            chunk: crate::reduce::chunk_len(&self.view()),
            payload,
        };
        self.withheld.get_or_insert(whole).payload |= payload;
        let mut text = String::with_capacity(self.refs_len + body.len());
        text.push_str(self.text.get(..self.refs_len).unwrap_or_default());
        text.push_str(body);
        self.fields = Fields::scan(&text, self.refs_len);
        self.text = text.into_boxed_str();
        if payload {
            self.stored = Box::default();
        }
        self
    }

    /// The event with what is known of a member that is kept outside.
    #[must_use]
    pub fn with_stored(mut self, field: Field, stored: &Stored) -> Self {
        let others = StoredMembers::trusted(&self.stored).iter();
        let others = others.filter(|(of, _)| *of != field);
        let mut all: Vec<_> = others.map(|(of, other)| (of, other.to_stored())).collect();
        all.push((field, stored.clone()));
        all.sort_by_key(|(field, _)| *field);
        self.stored = member::pack(all.iter().map(|(field, stored)| (*field, stored)));
        self
    }

    /// The event as readers see it.
    pub fn view(&self) -> EventView<'_> {
        EventView {
            id: self.id.as_str(),
            ts: &self.ts,
            partial: self.partial,
            role: self.role,
            author: self.author,
            branch: self.branch.as_deref(),
            origin: self.origin.as_deref(),
            model_visibility: self.model_visibility.as_deref(),
            status: self.status,
            text: &self.text,
            refs_len: self.refs_len,
            fields: self.fields.borrowed(),
            stored: StoredMembers::trusted(&self.stored),
            withheld: self.withheld,
        }
    }

    /// The canonical envelope.
    pub fn envelope(&self) -> String {
        envelope(&self.view(), &self.spine)
    }

    /// The canonical body.
    pub fn body(&self) -> &str {
        self.text.get(self.refs_len..).unwrap_or_default()
    }

    /// The whole event as one JSON object with sorted members. In the place of
    /// a member that is kept outside stands `null`: [`event_json`] says where
    /// it belongs.
    pub fn to_json(&self, session: &SessionId) -> String {
        let SplicedText { mut text, splices } = event_json(&self.view(), &self.spine, session);
        for splice in splices.iter().rev() {
            text.insert_str(splice.at, STAND_IN);
        }
        text
    }
}

/// The canonical envelope of an event: a JSON object with sorted members.
pub fn envelope(view: &EventView<'_>, spine: &Spine) -> String {
    let mut members = Vec::with_capacity(11);
    envelope_members(view, spine, &mut members);
    members.sort_unstable_by_key(|(name, _)| *name);
    object(&members)
}

/// The whole event as one JSON object with sorted members, under the session
/// that it is read through, with places for the members that are kept outside.
pub fn event_json(view: &EventView<'_>, spine: &Spine, session: &SessionId) -> SplicedText {
    let mut members = Vec::with_capacity(20);
    envelope_members(view, spine, &mut members);
    members.push(("id", string(view.id)));
    members.push(("sessionId", string(session.as_str())));
    members.push(("ts", Cow::Borrowed(view.ts)));
    let body = Object::of(view.body()).unwrap_or_default();
    for (name, raw) in body.iter() {
        members.push((name, Cow::Borrowed(raw)));
    }
    members.sort_unstable_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    let mut outside: Vec<(usize, StoredRef<'_>)> = view
        .stored
        .iter()
        .filter_map(|(field, stored)| Some((view.fields.find(field)?.0, stored)))
        .collect();
    if outside.is_empty() {
        return SplicedText {
            text: object(&members),
            splices: Vec::new(),
        };
    }
    outside.sort_by_key(|(at, _)| *at);
    let mut out = SplicedText::default();
    out.text.push('{');
    for (i, (name, value)) in members.iter().enumerate() {
        if i > 0 {
            out.text.push(',');
        }
        json::quote(name, &mut out.text);
        out.text.push(':');
        spliced(view.text, value, &outside, &mut out);
    }
    out.text.push('}');
    out
}

/// Writes a value. Where it is cut out of an event's text, places are left for
/// what stands outside, in the place of what stands in for it.
fn spliced(text: &str, value: &str, outside: &[(usize, StoredRef<'_>)], out: &mut SplicedText) {
    let from = (value.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let mut written = 0;
    for (at, stored) in outside {
        // A value that is no part of the text lies beyond any place in it.
        let place = at.wrapping_sub(from);
        if from > text.len() || place >= value.len() {
            continue;
        }
        out.text
            .push_str(value.get(written..place).unwrap_or_default());
        out.splice(stored);
        written = place + STAND_IN.len();
    }
    out.text.push_str(value.get(written..).unwrap_or_default());
}

fn envelope_members<'a>(
    view: &EventView<'a>,
    spine: &'a Spine,
    members: &mut Vec<(&'a str, Cow<'a, str>)>,
) {
    members.push(("author", string(view.author.as_str())));
    members.push(("invocationId", string(spine.invocation_id.as_str())));
    members.push((
        "partial",
        Cow::Borrowed(if view.partial { "true" } else { "false" }),
    ));
    members.push(("role", string(view.role.as_str())));
    members.push(("runId", string(spine.run_id.as_str())));
    members.push(("turnId", string(spine.turn_id.as_str())));
    for (name, value) in [
        ("branch", view.branch),
        ("modelVisibility", view.model_visibility),
        ("origin", view.origin),
        ("status", view.status.map(|status| status.as_str())),
    ] {
        if let Some(value) = value {
            members.push((name, string(value)));
        }
    }
    if let Some(refs) = view.refs() {
        members.push(("refs", Cow::Borrowed(refs)));
    }
}

fn string<'a>(text: &str) -> Cow<'a, str> {
    let mut out = String::with_capacity(text.len() + 2);
    json::quote(text, &mut out);
    Cow::Owned(out)
}

fn object(members: &[(&str, Cow<'_, str>)]) -> String {
    let size: usize = members
        .iter()
        .map(|(name, value)| name.len() + value.len() + 4)
        .sum();
    let mut out = String::with_capacity(size + 2);
    out.push('{');
    for (i, (name, value)) in members.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        json::quote(name, &mut out);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_sorts_four_objects_and_keeps_the_rest() {
        let text = r#" { "ts": 1.50, "id":"e\u0031", "role":"user", "author":"user", "zeta": {"b": 1, "a": 1e3},
            "partial":false, "turnId":"t", "runId":"r", "invocationId":"i", "sessionId":"s",
            "alpha": "\u00e9\/", "refs": {"toolCallId":"c","artifactId":"a\/b"}, "status":"streaming",
            "actions": {"stateDelta": {"z":"\/", "a":"\u0041"}, "endInvocation": false},
            "content": {"text":"h\u00e9\/\u0001", "kind":"text", "future": [1, "\/"]} }"#;
        let event = CanonicalEvent::new(&RuntimeEvent::from_json(text).unwrap()).unwrap();
        assert_eq!(
            event.envelope(),
            r#"{"author":"user","invocationId":"i","partial":false,"refs":{"artifactId":"a/b","toolCallId":"c"},"role":"user","runId":"r","status":"streaming","turnId":"t"}"#
        );
        assert_eq!(
            event.body(),
            r#"{"actions":{"endInvocation":false,"stateDelta":{"z":"\/","a":"\u0041"}},"alpha":"é/","content":{"future":[1,"\/"],"kind":"text","text":"hé/\u0001"},"zeta":{"b":1,"a":1e3}}"#
        );
        assert_eq!((event.id.as_str(), &*event.ts), ("e1", "1.50"));
        let session = SessionId::new("other").unwrap();
        let json = event.to_json(&session);
        let again = RuntimeEvent::from_json(&json).unwrap();
        assert_eq!(again.session_id, session);
        let mut again = CanonicalEvent::new(&again).unwrap();
        again.session_id = event.session_id.clone();
        assert_eq!(again, event);
    }

    #[test]
    fn malformed_members_are_refused_by_name() {
        let with = |extra: &str| {
            let text = alloc::format!(
                r#"{{"id":"e","ts":1,"role":"user","author":"user","partial":false,"turnId":"t","runId":"r","invocationId":"i","sessionId":"s"{extra}}}"#
            );
            RuntimeEvent::from_json(&text).map_err(|error| alloc::format!("{error}"))
        };
        assert!(with("").is_ok());
        for (extra, field) in [
            (r#","branch":null"#, "branch"),
            (r#","status":"paused""#, "status"),
            (r#","content":{"kind":"text"}"#, "content.text"),
            (r#","content":{"text":"x"}"#, "content.kind"),
            (
                r#","content":{"kind":"text","text":"x","steering":false}"#,
                "content.steering",
            ),
            (
                r#","content":{"kind":"function_call","id":"","name":"n","args":1}"#,
                "content.id",
            ),
            (
                r#","content":{"kind":"function_call","id":"c","name":"n"}"#,
                "content.args",
            ),
            (r#","actions":[]"#, "actions"),
            (
                r#","actions":{"tokenUsage":{"input":1}}"#,
                "actions.tokenUsage.output",
            ),
            (
                r#","actions":{"permissionDecision":{"requestId":"p","decision":"maybe"}}"#,
                "actions.permissionDecision.decision",
            ),
            (r#","refs":{"toolCallId":7}"#, "refs.toolCallId"),
            (r#","refs":{"contentIndex":-1}"#, "refs.contentIndex"),
        ] {
            let error = with(extra).unwrap_err();
            assert!(error.starts_with(field), "{extra}: {error}");
        }
        assert!(with(r#","content":{"kind":"from_the_future","n":1}"#).is_ok());
    }
}
