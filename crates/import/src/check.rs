//! Whether the ledger shows what the source says.
//!
//! This is the one place where rows and manifest meet. Both sides are brought
//! to the same [`Entry`] and compared as sorted lists, each row once, so a row
//! that is missing, doubled, altered or paired otherwise always shows:
//!
//! * a prompt, an answer, a call, a usage and a note are named by the source's
//!   id, and their whole text (of an answer: its text parts one behind the
//!   other; of a call: its arguments) by its digest;
//! * a call id that occurs several times in one turn gives several rows
//!   (`~2`, `~3`, …). A result counts as linked if the call with the same
//!   number exists; the manifest says the same of the first so many results
//!   of that id and turn as the turn has calls of the id;
//! * a refusal is linked if the session has a row of the call at all;
//! * the end of a run is named by the record that caused it.

use crate::claude_code::{Diagnostic, Entry, Manifest};
use crate::outcome::about_source;
use crate::preview::Preview;
use folio_core::json::{self, Json, JsonKind, Object};
use folio_core::reduce::{Material, json_row, row_type};
use folio_core::{CanonicalEvent, Direction, Fact, Item, ItemKind, SessionId, object};
use folio_store::{ContributionQuery, NOTES, Store, StoreError, StoredEvent};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Rows that are made together.
const CHUNK: usize = 512;
/// Bytes of events that are loaded together.
const CHUNK_BYTES: u64 = 8 << 20;

/// The text of a value as events spell it: a string with minimal escapes,
/// anything else as written.
pub(crate) fn spelled(raw: &str) -> Cow<'_, str> {
    match json::kind_of(raw) {
        JsonKind::String => json::unquote(raw).map_or(Cow::Borrowed(raw), |text| {
            Cow::Owned(Json::string(&text).as_str().to_owned())
        }),
        _ => Cow::Borrowed(raw),
    }
}

/// What a session shows, as entries.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Rows and notes that are whole.
    pub(crate) entries: Vec<Entry>,
    /// Rows whose payload was taken out of the ledger: of these only the kind
    /// and the source's id can be compared.
    pub(crate) redacted: Vec<Entry>,
}

/// The rows of a session as entries: those of the events, stored ones up to
/// `head` and `pending` ones behind it.
///
/// # Errors
/// Those of reading events.
pub(crate) async fn rows(
    store: &dyn Store,
    id: &SessionId,
    head: u64,
    preview: &Preview,
    pending: &HashMap<u64, &CanonicalEvent>,
) -> Result<Shown, StoreError> {
    let items = preview.items();
    let mut calls = HashSet::new();
    for item in items.iter().filter(|item| item.kind == ItemKind::Call) {
        calls.insert(tail_of(&item.key));
    }
    let mut shown = Shown::default();
    let mut from = 0;
    while let Some(rest) = items.get(from..).filter(|rest| !rest.is_empty()) {
        let mut weight = 0;
        let mut n = 0;
        for item in rest.iter().take(CHUNK) {
            weight += item.weight;
            if n > 0 && weight > CHUNK_BYTES {
                break;
            }
            n += 1;
        }
        let chunk = rest.get(..n).unwrap_or(rest);
        from += n;
        let mut wanted: Vec<u64> = chunk
            .iter()
            .flat_map(|item| item.ordinals(u64::MAX))
            .filter(|ordinal| *ordinal <= head)
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut stored: HashMap<u64, StoredEvent> = HashMap::with_capacity(wanted.len());
        for event in store.events(id, &wanted).await? {
            stored.insert(event.ordinal, event);
        }
        for item in chunk {
            let (entry, redacted) = row(item, preview, &stored, pending, &calls)?;
            if redacted {
                shown.redacted.push(entry);
            } else {
                shown.entries.push(entry);
            }
        }
    }
    // Whether a refusal's call is there is known once all rows are.
    let known: HashSet<String> = shown
        .entries
        .iter()
        .chain(&shown.redacted)
        .filter(|entry| entry.kind == "tool_call")
        .map(|entry| entry.source_id.clone())
        .collect();
    for entry in &mut shown.entries {
        if entry.kind == "permission_decision" && !known.contains(&entry.source_id) {
            entry.link = None;
        }
    }
    Ok(shown)
}

/// What the keys of a call and of its result have in common.
fn tail_of(key: &str) -> &str {
    key.split_once(':').map_or(key, |(_, tail)| tail)
}

/// A row as an entry, and whether its payload is gone.
fn row(
    item: &Item,
    preview: &Preview,
    stored: &HashMap<u64, StoredEvent>,
    pending: &HashMap<u64, &CanonicalEvent>,
    calls: &HashSet<&str>,
) -> Result<(Entry, bool), StoreError> {
    let missing = |ordinal: u64| {
        let message = format!("event {ordinal} was appended and cannot be read back");
        StoreError::corrupt("projection_gap", message).at(vec![ordinal])
    };
    let mut events = Vec::new();
    for ordinal in item.ordinals(u64::MAX) {
        let view = match (stored.get(&ordinal), pending.get(&ordinal)) {
            (Some(event), _) => event.view()?,
            (None, Some(event)) => event.view(),
            (None, None) => return Err(missing(ordinal)),
        };
        events.push((ordinal, view));
    }
    let run = preview.run_facts(item.run_no);
    let material = Material {
        item: item.borrowed(),
        through: u64::MAX,
        run: run.ok_or_else(|| missing(item.position.ordinal))?,
        events: &events,
        chunks: &[],
    };
    let row = json_row(&material).map_err(missing)?;
    let text = row
        .into_whole()
        .ok_or_else(|| missing(item.position.ordinal))?;
    let object = Object::of(&text).unwrap_or_default();
    let redacted = object.bool("redacted") == Some(true);
    Ok((entry(item, &object, calls), redacted))
}

/// A row as the manifest would name it.
fn entry(item: &Item, row: &Object<'_>, calls: &HashSet<&str>) -> Entry {
    let kind = row_type(item.kind, item.position.slot);
    let own = |name: &str| row.text(name).unwrap_or_default();
    let raw = |name: &str| row.get(name).unwrap_or("null");
    let sum = |text: &str| -> [u8; 32] { Sha256::digest(text.as_bytes()).into() };
    let mut entry = Entry {
        kind,
        source_id: own("id").into_owned(),
        digest: sum(""),
        link: None,
        usage: None,
    };
    match kind {
        "user" | "assistant" => entry.digest = sum(&own("text")),
        "tool_call" => {
            entry.digest = sum(&spelled(raw("args")));
            entry.link = row.text("stepId").map(Cow::into_owned);
        }
        "tool_result" => {
            let id = own("toolUseId").into_owned();
            entry.link = calls.contains(tail_of(&item.key)).then(|| id.clone());
            entry.source_id = id;
            let content = row.object("content").unwrap_or_default();
            entry.digest = match content.text("kind").as_deref() {
                Some("text") => sum(&content.text("text").unwrap_or_default()),
                _ => sum(&spelled(content.get("value").unwrap_or("null"))),
            };
        }
        "permission_decision" => {
            entry.digest = sum(&own("decision"));
            entry.link = row.text("toolUseId").map(Cow::into_owned);
        }
        "token_usage" => {
            let count = |name: &str| row.get(name).map_or(0, object::whole);
            entry.usage = Some([
                count("cacheMissInput"),
                count("output"),
                count("cacheHitInput"),
                count("cacheWriteInput"),
            ]);
        }
        "turn_state" => {
            entry.source_id = record_of(&own("id"));
            entry.digest = sum(&own("status"));
        }
        "system_note" => {
            entry.source_id = record_of(&own("id"));
            let data = row.object("data").unwrap_or_default();
            entry.digest = sum(&data.text("summary").unwrap_or_default());
        }
        _ => {}
    }
    entry
}

/// The record that an imported event's id names.
fn record_of(event_id: &str) -> String {
    event_id
        .rsplit_once('-')
        .map_or(event_id, |(record, _)| record)
        .to_owned()
}

/// A visible note as the manifest would name it.
pub(crate) fn note(fact: &Fact) -> Entry {
    let data = fact.data.as_ref().map_or("null", Json::as_str);
    Entry {
        kind: "system_note",
        source_id: fact.id.as_str().to_owned(),
        digest: Sha256::digest(spelled(data).as_bytes()).into(),
        link: None,
        usage: None,
    }
}

/// What the ledger shows too little or too much of; nothing if it shows
/// exactly what it must.
pub(crate) fn compare(manifest: &Manifest, shown: Shown) -> Vec<Diagnostic> {
    let Shown {
        entries: mut shown,
        redacted,
    } = shown;
    shown.sort();
    let mut expected: Vec<&Entry> = manifest.entries.iter().collect();
    expected.sort();
    // What is shown whole stands for itself; a redacted row stands for one of
    // those that are not.
    for gone in &redacted {
        let stands_for = |want: &&Entry| {
            (want.kind, &want.source_id) == (gone.kind, &gone.source_id)
                && shown.binary_search(want).is_err()
        };
        if let Some(at) = expected.iter().position(stands_for) {
            expected.remove(at);
        }
    }
    let (mut at, mut of) = (expected.into_iter().peekable(), shown.iter().peekable());
    let mut reasons = Vec::new();
    loop {
        match (at.peek(), of.peek()) {
            (None, None) => return reasons,
            (Some(want), Some(have)) if *want == *have => {
                at.next();
                of.next();
            }
            (Some(want), have) if have.is_none_or(|have| *want < *have) => {
                reasons.push(differs(
                    "row_missing",
                    "is not shown as it stands there",
                    want,
                ));
                at.next();
            }
            (_, Some(have)) => {
                reasons.push(differs("row_unexpected", "would be shown otherwise", have));
                of.next();
            }
            (Some(_), None) => {
                at.next();
            }
        }
    }
}

fn differs(code: &'static str, what: &str, entry: &Entry) -> Diagnostic {
    let message = format!(
        "a {} row of the source {what}; please report the file's format version",
        entry.kind
    );
    Diagnostic {
        detail: Some(entry.source_id.clone()),
        ..about_source(code, message)
    }
}

/// The visible notes of a readable session.
///
/// # Errors
/// Those of reading contributions.
pub(crate) async fn visible_notes(store: &dyn Store, id: &SessionId) -> Result<u64, StoreError> {
    let through = store.contribution_status(id, NOTES).await?.head;
    let (mut after, mut visible) = (None, 0);
    loop {
        let query = ContributionQuery {
            through,
            direction: Direction::Newer,
            after,
            max_items: CHUNK,
        };
        let facts = store.contributions(id, NOTES, query).await?;
        for stored in &facts {
            let fact = stored.fact()?;
            after = Some((fact.anchor, stored.seq));
            visible += u64::from(fact.visible);
        }
        if facts.len() < CHUNK {
            return Ok(visible);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn entry(kind: &'static str, id: &str, text: &str, link: Option<&str>) -> Entry {
        Entry {
            kind,
            source_id: id.into(),
            digest: Sha256::digest(text).into(),
            link: link.map(String::from),
            usage: None,
        }
    }

    fn codes(expected: &[Entry], shown: &[Entry]) -> Vec<&'static str> {
        let manifest = Manifest {
            entries: expected.to_vec(),
        };
        let shown = Shown {
            entries: shown.to_vec(),
            redacted: Vec::new(),
        };
        let reasons = compare(&manifest, shown);
        reasons.iter().map(|reason| reason.code).collect()
    }

    #[test]
    fn a_redacted_row_stands_for_one_of_its_kind_and_id() {
        let user = entry("user", "u", "hello", None);
        let manifest = Manifest {
            entries: vec![user.clone(), user.clone()],
        };
        let gone = entry("user", "u", "[redacted]", None);
        let with = |entries: &[Entry], redacted: &[Entry]| {
            let (entries, redacted) = (entries.to_vec(), redacted.to_vec());
            compare(&manifest, Shown { entries, redacted }).len()
        };
        assert_eq!(with(&[], &[gone.clone(), gone.clone()]), 0);
        assert_eq!(with(&[], from_ref(&gone)), 1);
        let other = entry("user", "v", "[redacted]", None);
        assert_eq!(with(&[], &[gone, other]), 1);
    }

    #[test]
    fn every_difference_is_a_reason() {
        let user = entry("user", "u", "hello", None);
        let result = entry("tool_result", "c", "ok", Some("c"));
        let all = [result.clone(), user.clone()];
        assert_eq!(codes(&all, &[user.clone(), result.clone()]), [""; 0]);
        assert_eq!(codes(&all, from_ref(&user)), ["row_missing"]);
        assert_eq!(codes(from_ref(&user), &all), ["row_unexpected"]);
        let twice = [user.clone(), user.clone(), result.clone()];
        assert_eq!(codes(&all, &twice), ["row_unexpected"]);
        let other = [entry("user", "u", "bye", None), result];
        assert_eq!(codes(&all, &other).len(), 2);
        let unpaired = [user, entry("tool_result", "c", "ok", None)];
        assert_eq!(codes(&all, &unpaired).len(), 2);
    }
}
