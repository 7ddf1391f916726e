//! What is left of an event whose payload is taken out.
//!
//! The envelope stays: who, when and what kind. Of the body stay the members
//! that say which item the event belongs to and what it did to its run, so
//! that every index made from what is left is the one made from the whole.
//! Texts that were not blank become [`REDACTED`].

use crate::json::{self, Object};
use alloc::borrow::Cow;
use alloc::string::String;

/// What stands in the place of a text that is gone.
pub const REDACTED: &str = "[redacted]";

/// What is known of a body that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Withheld {
    /// The digest of the whole body.
    pub body: [u8; 32],
    /// The bytes of the whole refs and body.
    pub weight: u64,
    /// The bytes of the escaped text, as chunks are counted.
    pub chunk: u64,
    /// Whether what a row shows is gone, and not only a source record.
    pub payload: bool,
}

/// The members of `content` that say where it belongs.
const CONTENT: &[&str] = &[
    "kind",
    "id",
    "name",
    "isError",
    "steering",
    "modelId",
    "providerExecuted",
    "throughOrdinal",
    "tokensBefore",
    "tokensAfter",
    "trigger",
    "code",
    "reason",
    "namespace",
    "version",
    "criticality",
];
/// The texts of `content`; a text that was empty stays so.
const TEXTS: &[&str] = &["text", "summary", "message"];
/// The members of `actions` that stay whole.
const ACTIONS: &[&str] = &[
    "endInvocation",
    "tokenUsage",
    "transferToAgent",
    "continuationStart",
    "runtimeProtocol",
];
/// Members of `actions` of which a part stays.
const PARTS: &[(&str, &[&str])] = &[
    (
        "stateDelta",
        &[
            "closer",
            "activityKind",
            "durationMs",
            "failureClass",
            "errorClass",
            "abortSource",
            "reason",
            "code",
            "source",
        ],
    ),
    ("permissionRequest", &["requestId", "toolUseId"]),
    (
        "permissionDecision",
        &["requestId", "decision", "rememberForTurn"],
    ),
    ("toolDispatch", &["toolCallId", "operationId"]),
];

/// A canonical body without its payload, canonical itself.
///
/// ```
/// use folio_core::redact::redacted_body;
///
/// let body = r#"{"content":{"args":{"token":"s3cret"},"id":"c1","kind":"function_call","name":"Login"},"nonce":"00"}"#;
/// assert_eq!(
///     redacted_body(body),
///     r#"{"content":{"args":{},"id":"c1","kind":"function_call","name":"Login"}}"#
/// );
/// ```
pub fn redacted_body(body: &str) -> String {
    rewrite(body, |name, raw| match name {
        "content" => Some(Cow::Owned(rewrite(raw, content))),
        "actions" => Some(Cow::Owned(rewrite(raw, actions))),
        _ => None,
    })
}

/// A canonical body without the source record that an import kept in it.
pub fn body_without_source(body: &str) -> String {
    rewrite(body, |name, raw| {
        let kept = name != "source" && name != "sourceHoles";
        kept.then_some(Cow::Borrowed(raw))
    })
}

/// Whether a canonical body keeps a source record.
pub fn has_source(body: &str) -> bool {
    Object::of(body).is_some_and(|object| object.get("source").is_some())
}

fn content<'a>(name: &str, raw: &'a str) -> Option<Cow<'a, str>> {
    match name {
        "args" => Some(Cow::Borrowed("{}")),
        "payload" => Some(Cow::Borrowed("null")),
        "result" => Some(Cow::Owned(alloc::format!(
            "{{\"kind\":\"text\",\"text\":\"{REDACTED}\"}}"
        ))),
        _ if TEXTS.contains(&name) => {
            let blank = json::unquote(raw).is_some_and(|text| text.trim().is_empty());
            Some(if blank {
                Cow::Borrowed(raw)
            } else {
                Cow::Owned(alloc::format!("\"{REDACTED}\""))
            })
        }
        _ => CONTENT.contains(&name).then_some(Cow::Borrowed(raw)),
    }
}

fn actions<'a>(name: &str, raw: &'a str) -> Option<Cow<'a, str>> {
    if let Some((_, kept)) = PARTS.iter().find(|(part, _)| *part == name) {
        return Some(Cow::Owned(rewrite(raw, |name, raw| {
            kept.contains(&name).then_some(Cow::Borrowed(raw))
        })));
    }
    ACTIONS.contains(&name).then_some(Cow::Borrowed(raw))
}

/// An object with each member replaced or left out.
fn rewrite(
    raw: &str,
    mut member: impl for<'m> FnMut(&str, &'m str) -> Option<Cow<'m, str>>,
) -> String {
    let mut out = String::from("{");
    for (name, raw) in Object::of(raw).unwrap_or_default().iter() {
        let Some(kept) = member(name, raw) else {
            continue;
        };
        if out.len() > 1 {
            out.push(',');
        }
        json::quote(name, &mut out);
        out.push(':');
        out.push_str(&kept);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_go_and_what_makes_the_item_stays() {
        let left = redacted_body(
            r#"{"actions":{"endInvocation":true,"secret":1,"stateDelta":{"closer":"tool_not_started","intent":"secret"}},"content":{"displayText":"secret","kind":"text","signature":"secret","text":"a secret"},"source":"secret","zz":"secret"}"#,
        );
        assert_eq!(
            left,
            r#"{"actions":{"endInvocation":true,"stateDelta":{"closer":"tool_not_started"}},"content":{"kind":"text","text":"[redacted]"}}"#
        );
        assert_eq!(redacted_body(&left), left);
        let blank = r#"{"content":{"kind":"thinking","text":" "}}"#;
        assert_eq!(redacted_body(blank), blank);
    }

    #[test]
    fn a_source_record_goes_alone() {
        let body = r#"{"content":{"kind":"text","text":"x"},"source":"{}","sourceHoles":[]}"#;
        assert!(has_source(body));
        let left = body_without_source(body);
        assert_eq!(left, r#"{"content":{"kind":"text","text":"x"}}"#);
        assert!(!has_source(&left));
    }
}
