//! Which items an event speaks for: a pure function of the event.
//!
//! An event makes *own contributions* to identities. Whether an identity's
//! item exists, and which of its incarnations is meant, is decided by
//! [`assign`](crate::assign).

use crate::event::Role;
use crate::item::Lane;
use crate::key::{ItemKind, base_key};
use crate::view::{EventView, Field};
use crate::{Spine, json, object};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How a contribution acts on its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A chunk of a lane that is not settled yet.
    Partial,
    /// It settles the lane.
    Final,
    /// It settles the lane in place of something real.
    Closer,
    /// It was seen, and has no content.
    Mark,
}

/// One own contribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The identity: a key without incarnation.
    pub base: Box<str>,
    /// The lane.
    pub lane: Lane,
    /// Which text or thinking of the message, from 0.
    pub index: u32,
    /// How it acts.
    pub form: Form,
    /// The row's slot within the event.
    pub slot: u8,
}

/// Everything that an event says about items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// Own contributions, by slot.
    pub own: Vec<Claim>,
    /// For a result or a permission: the identity of the call it belongs to.
    pub call: Option<Box<str>>,
    /// For a result: the identity of the result itself, which shares its
    /// incarnations with the call.
    pub request: Option<Box<str>>,
    /// The event whose contribution this one replaces.
    pub revises: Option<Box<str>>,
    /// Tells the steps of calls apart; 0 where none is named.
    pub step: u64,
    /// Tells operations apart; 0 where none is named.
    pub operation: u64,
    /// Whether the event is output that a reader sees even if the turn fails.
    pub visible_output: bool,
}

/// What an identity's local part is made from, where nothing better exists:
/// the older row's id, else the provider's message id, else the event's.
pub fn stable_id<'a>(view: &EventView<'a>) -> Cow<'a, str> {
    view.text(Field::StoredMessageId)
        .or_else(|| view.text(Field::ProviderEventId))
        .unwrap_or(Cow::Borrowed(view.id))
}

/// What an event claims. `inline` tells whether its run belongs to this
/// transcript; the runs of child agents do not.
pub fn claims(view: &EventView<'_>, spine: &Spine, inline: bool) -> Claims {
    let mut claims = Claims::default();
    if !inline {
        return claims;
    }
    let run = view
        .text(Field::ScopeRunId)
        .unwrap_or(Cow::Borrowed(spine.run_id.as_str()));
    let turn = view
        .text(Field::ScopeTurnId)
        .unwrap_or(Cow::Borrowed(spine.turn_id.as_str()));
    claims.revises = view.text(Field::Revises).map(|id| Box::from(&*id));
    claims.step = view.text(Field::StepId).map_or(0, |id| fingerprint(&id));
    claims.operation = view
        .text(Field::OperationId)
        .map_or(0, |id| fingerprint(&id));
    content_claims(view, &run, &turn, &mut claims);
    let own = &mut claims.own;
    if let Some(request) = view.text(Field::DecisionRequestId) {
        own.push(last(
            ItemKind::Permission,
            &turn,
            &request,
            Lane::Decision,
            1,
        ));
        claims.request = Some(Box::from(&*request));
        claims.call = view
            .text(Field::ToolCallId)
            .map(|id| base_key(ItemKind::Call, &turn, &id));
    }
    if view.raw(Field::Usage).is_some() {
        own.push(last(
            ItemKind::Usage,
            &run,
            &stable_id(view),
            Lane::Usage,
            2,
        ));
    }
    if view.is_terminal() {
        let local = spine.run_id.as_str();
        own.push(last(ItemKind::Turn, local, local, Lane::Turn, 3));
        if failure_class(view) == Some("\"tool_step_cap_reached\"") {
            let local = alloc::format!("{local}.step_limit");
            own.push(last(
                ItemKind::Turn,
                spine.run_id.as_str(),
                &local,
                Lane::Turn,
                4,
            ));
        }
    }
    claims
}

fn content_claims(view: &EventView<'_>, run: &str, turn: &str, claims: &mut Claims) {
    let kind = view.kind();
    let own = &mut claims.own;
    let index = view.raw(Field::ContentIndex).map_or(0, object::whole);
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    let form = if view.partial {
        Form::Partial
    } else {
        Form::Final
    };
    match (&*kind, view.role) {
        ("", _) => {}
        ("text", Role::User) if !view.partial => {
            let kind = if view.is_true(Field::Steering) {
                ItemKind::Steer
            } else {
                ItemKind::User
            };
            own.push(last(kind, "", &stable_id(view), Lane::Text, 0));
        }
        ("text", Role::Model) => {
            claims.visible_output = !is_blank(view.raw(Field::Text));
            let base = base_key(ItemKind::Assistant, run, &stable_id(view));
            let kind = ItemKind::Assistant;
            own.push(Claim {
                kind,
                base,
                lane: Lane::Text,
                index,
                form,
                slot: 0,
            });
        }
        ("thinking", Role::Model) => {
            let empty = view.first_string(&[Field::Text, Field::Summary]).is_none();
            let form = if empty { Form::Mark } else { form };
            let base = base_key(ItemKind::Assistant, run, &stable_id(view));
            let kind = ItemKind::Assistant;
            own.push(Claim {
                kind,
                base,
                lane: Lane::Thinking,
                index,
                form,
                slot: 0,
            });
        }
        // Chunks of arguments and output belong to their call's item: they
        // are kept and replayed, but are no row and no position.
        ("function_call" | "function_response", _) if view.partial => {}
        ("function_call", _) => {
            let id = view.text(Field::CallId).unwrap_or_default();
            own.push(last(ItemKind::Call, turn, &id, Lane::Args, 0));
            if let Some(step) = view.text(Field::StepId) {
                let base = base_key(ItemKind::Assistant, run, &step);
                let (kind, form) = (ItemKind::Assistant, Form::Mark);
                own.push(Claim {
                    kind,
                    base,
                    lane: Lane::Tools,
                    index: 0,
                    form,
                    slot: 0,
                });
            }
        }
        ("function_response", _) => {
            let id = view.text(Field::CallId).unwrap_or_default();
            let mut claim = last(ItemKind::Result, turn, &id, Lane::Result, 0);
            if view.raw(Field::Closer).is_some() {
                claim.form = Form::Closer;
            } else {
                claims.visible_output = true;
            }
            own.push(claim);
            claims.call = Some(base_key(ItemKind::Call, turn, &id));
        }
        ("run_opened" | "invocation_opened", _) => {}
        // The error of a failed run shows in its turn state.
        ("error", _) if view.is_terminal() => {}
        ("extension", _) => {
            if view.raw(Field::Criticality) == Some("\"required\"") {
                own.push(last(ItemKind::Extension, "", view.id, Lane::Note, 0));
            }
        }
        _ if view.partial => {}
        _ => own.push(last(ItemKind::Note, "", view.id, Lane::Note, 0)),
    }
}

fn last(kind: ItemKind, scope: &str, local: &str, lane: Lane, slot: u8) -> Claim {
    let base = base_key(kind, scope, local);
    Claim {
        kind,
        base,
        lane,
        index: 0,
        form: Form::Final,
        slot,
    }
}

/// The class of a run's failure as raw JSON, looked for where writers put it.
pub(crate) fn failure_class<'a>(view: &EventView<'a>) -> Option<&'a str> {
    view.first_string(&[
        Field::FailureClass,
        Field::ErrorClass,
        Field::DeltaReason,
        Field::DeltaCode,
        Field::Reason,
        Field::Code,
    ])
}

/// Whether a raw JSON string shows nothing.
fn is_blank(raw: Option<&str>) -> bool {
    raw.and_then(json::unquote)
        .is_none_or(|text| text.trim().is_empty())
}

/// FNV-1a, 64 bits, never 0: tells ids apart within one turn. A stored number:
/// it must not change.
fn fingerprint(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}
