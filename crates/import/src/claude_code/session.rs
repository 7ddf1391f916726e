//! Whose session a file is, and whether it is one at all.

use super::record::{Class, Record, is_uuid};
use crate::lines::{Body, Lines};
use folio_core::SessionId;
use std::io::{self, BufRead};

/// The identity of the session in a file, as far as records have told it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The session's id in the ledger; `None` while the file has none.
    pub session_id: Option<SessionId>,
    /// The agent's own name of the session.
    pub native_id: Option<String>,
    /// The sub-agent whose file it is.
    pub agent_id: Option<String>,
    /// The first id that the file gives and that can name no session.
    pub unusable: Option<String>,
}

/// The session that an id names, if it can name one: ids that the command line
/// takes for something else cannot.
fn usable(id: &str) -> Option<SessionId> {
    if id == "latest" || id.starts_with('-') {
        return None;
    }
    SessionId::new(id).ok()
}

/// Finds the [`Identity`] record by record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identifier {
    stem: Option<SessionId>,
    first_seen: bool,
    found: Identity,
}

impl Identifier {
    /// `stem` is the name of the file without its folder and extension.
    pub fn new(stem: &str) -> Self {
        let stem = is_uuid(stem).then(|| SessionId::new(stem).ok()).flatten();
        Self {
            stem,
            ..Self::default()
        }
    }

    /// Takes the next record; answers whether nothing more can be learned.
    pub fn see(&mut self, record: &Record<'_>) -> bool {
        if self.found.session_id.is_some() && self.first_seen {
            return true;
        }
        let session = record.object.text("sessionId");
        if !self.first_seen && record.object.text("uuid").is_some() {
            self.first_seen = true;
            let agent = record.object.text("agentId");
            if let (true, Some(session), Some(agent)) = (record.is_sidechain(), &session, agent)
                && let Some(id) = usable(&format!("{session}-agent-{agent}"))
            {
                self.found = Identity {
                    session_id: Some(id),
                    native_id: Some(session.clone().into_owned()),
                    agent_id: Some(agent.into_owned()),
                    unusable: None,
                };
                return true;
            }
            if let Some(stem) = self.stem.take() {
                self.found.native_id = Some(stem.as_str().to_owned());
                self.found.session_id = Some(stem);
                return true;
            }
        }
        if self.found.session_id.is_none()
            && record.class == Class::Assistant
            && let Some(given) = session
        {
            match usable(&given) {
                Some(id) => {
                    self.found.native_id = Some(id.as_str().to_owned());
                    self.found.session_id = Some(id);
                }
                None if self.found.unusable.is_none() => {
                    self.found.unusable = Some(given.into_owned());
                }
                None => {}
            }
        }
        self.found.session_id.is_some() && self.first_seen
    }

    /// What is known so far.
    pub fn identity(&self) -> &Identity {
        &self.found
    }

    /// Whether the file belongs to a sub-agent.
    pub fn is_agent_file(&self) -> bool {
        self.found.agent_id.is_some()
    }
}

/// Reads a file as far as its identity needs. `stem` is the file's name
/// without folder and extension.
///
/// # Errors
/// What the reader answers.
pub fn identify(reader: impl BufRead, stem: &str) -> io::Result<Identity> {
    let mut identifier = Identifier::new(stem);
    let mut lines = Lines::new(reader);
    while let Some(line) = lines.next_line()? {
        for item in line.items() {
            if let Body::Record { json, .. } = &item.body
                && identifier.see(&Record::new(json))
            {
                return Ok(identifier.found);
            }
        }
    }
    Ok(identifier.found)
}

/// What a file looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detection {
    /// A Claude Code session.
    Session,
    /// A Claude Code file without a conversation (`skipped`).
    NoConversation,
    /// Text, but no Claude Code session.
    NotSession,
    /// Nothing but white space.
    Empty,
    /// Not text.
    Binary,
}

impl Detection {
    /// The stable code of the answer.
    pub fn code(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::NoConversation => "skipped",
            Self::NotSession => "not_a_session_file",
            Self::Empty => "empty",
            Self::Binary => "binary",
        }
    }
}

/// How much of a file decides whether it is a session at all: so many lines
/// and so many bytes, whichever are more.
const PROBE_LINES: u64 = 200;
const PROBE_BYTES: usize = 1 << 20;

/// Recognizes a session by what its records look like, never by its name: one
/// record is enough, whatever stands around it. Only a file that is one but
/// opens without a conversation is read further than its beginning.
///
/// # Errors
/// What the reader answers.
pub fn detect(reader: impl BufRead) -> io::Result<Detection> {
    let mut lines = Lines::new(reader);
    let mut answer = Detection::Empty;
    let mut binary = false;
    let mut bytes = 0;
    while let Some(line) = lines.next_line()? {
        bytes += line.bytes.len() + 1;
        if answer != Detection::NoConversation && !binary {
            // Half a character at the end of a growing file is no fault.
            let faulty = std::str::from_utf8(&line.bytes)
                .is_err_and(|error| line.ended || error.error_len().is_some());
            binary = line.bytes.contains(&0) || (faulty && line.number == 1);
        }
        if answer == Detection::Empty && !line.is_blank() {
            answer = Detection::NotSession;
        }
        for item in line.items() {
            match recognized(&item.body) {
                Some(Detection::Session) => return Ok(Detection::Session),
                Some(other) => answer = other,
                None => {}
            }
        }
        if answer != Detection::NoConversation && line.number >= PROBE_LINES && bytes >= PROBE_BYTES
        {
            break;
        }
    }
    if binary && answer != Detection::NoConversation {
        return Ok(Detection::Binary);
    }
    Ok(answer)
}

/// What one item says about its file; `None` where it says nothing.
fn recognized(body: &Body) -> Option<Detection> {
    let class = match body {
        Body::Record { json, .. } => {
            let record = Record::new(json);
            let ours = is_ours(|name| record.object.get(name).is_some());
            (ours && !is_anothers(&record)).then_some(record.class)?
        }
        Body::Odd { text, .. } => {
            // Its members are not to be trusted, but its type tells enough.
            let members = members(text);
            let has = |name: &str| members.iter().any(|(member, _)| *member == name);
            let kind = members.iter().find(|(member, _)| *member == "type")?.1;
            return match kind {
                "\"user\"" | "\"assistant\"" if is_ours(has) && has("message") => {
                    Some(Detection::Session)
                }
                "\"system\"" | "\"attachment\"" | "\"progress\"" | "\"summary\""
                    if is_ours(has) =>
                {
                    Some(Detection::NoConversation)
                }
                _ => None,
            };
        }
        Body::Broken(_) | Body::Oversize(_) => return None,
    };
    match class {
        Class::Unknown(_) => None,
        Class::Note { .. } | Class::CompactBoundary | Class::TurnEnd => {
            Some(Detection::NoConversation)
        }
        _ => Some(Detection::Session),
    }
}

/// Members that no other agent's records of these types carry together.
fn is_ours(has: impl Fn(&str) -> bool) -> bool {
    ["sessionId", "leafUuid", "parentUuid", "messageId"]
        .into_iter()
        .any(has)
}

/// Whether a record is of an agent that took these types over and says other
/// things with them: it keeps what it was told in `parts`, and what its client
/// did in `systemPayload`.
fn is_anothers(record: &Record<'_>) -> bool {
    record.object.get("systemPayload").is_some() || record.message.get("parts").is_some()
}

/// The members of an object that the checker refuses, told by brackets and
/// quotes only: each name and the beginning of its value, up to the next comma
/// or bracket.
fn members(text: &str) -> Vec<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut depth, mut at) = (0_u64, 0);
    let mut name = None;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        match byte {
            b'"' => {
                at += 1;
                while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'"') {
                    at += if *byte == b'\\' { 2 } else { 1 };
                }
                if depth == 1 {
                    let string = text.get(start..=at).unwrap_or_default();
                    match name.take() {
                        Some(name) => found.push((name, string)),
                        None => name = text.get(start + 1..at),
                    }
                }
            }
            b'{' | b'[' => {
                if depth == 1
                    && let Some(name) = name.take()
                {
                    found.push((name, text.get(start..=start).unwrap_or_default()));
                }
                depth += 1;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => {
                if let Some(name) = name.take() {
                    found.push((name, ""));
                }
            }
            _ => {}
        }
        at += 1;
    }
    found.extend(name.map(|name| (name, "")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_content() {
        let cases: [(&[u8], Detection); 18] = [
            (b" \n\r\n", Detection::Empty),
            (b"\x7fELF\x00\x01", Detection::Binary),
            (b"# notes\n{}\n", Detection::NotSession),
            (
                b"{\"type\":\"session_meta\",\"payload\":{}}\n",
                Detection::NotSession,
            ),
            (
                b"{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"y\"}\n",
                Detection::NoConversation,
            ),
            (
                b"{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"hi\"}}",
                Detection::Session,
            ),
            // Another agent's, of the same types and members.
            (
                b"{\"type\":\"user\",\"uuid\":\"u\",\"parentUuid\":null,\"sessionId\":\"s\",\"message\":{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}}\n",
                Detection::NotSession,
            ),
            (
                b"{\"type\":\"assistant\",\"sessionId\":\"s\",\"message\":{\"role\":\"model\",\"parts\":[]}}\n",
                Detection::NotSession,
            ),
            (
                b"{\"type\":\"system\",\"subtype\":\"ui_telemetry\",\"sessionId\":\"s\",\"systemPayload\":{}}\n",
                Detection::NotSession,
            ),
            // Damage in front of the first record that can be read.
            (
                b"{\"a\":\"\xff\"}\n{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"hi\"}}",
                Detection::Session,
            ),
            (
                b"\0\n{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"hi\"}}\n",
                Detection::Session,
            ),
            (
                b"\0\n{\"type\":\"summary\",\"leafUuid\":\"y\"}\n",
                Detection::NoConversation,
            ),
            (b"text\n{\"a\":1}\n\0", Detection::Binary),
            // Records that are refused, and still ours.
            (
                b"{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"\\ud800\"}}\n",
                Detection::Session,
            ),
            (
                b"{\"uuid\":\"a\",\"uuid\":\"b\",\"n\":1,\"message\":{\"x\":[]},\"parentUuid\":null,\"type\":\"assistant\"}",
                Detection::Session,
            ),
            (
                b"{\"type\":\"system\",\"type\":\"system\",\"sessionId\":\"s\"}\n",
                Detection::NoConversation,
            ),
            (
                b"{\"type\":\"event\",\"type\":\"event\",\"sessionId\":\"s\"}\n",
                Detection::NotSession,
            ),
            (
                b"{\"type\":\"message\",\"message\":{\"type\":\"user\",\"sessionId\":\"\\ud800\"}}\n",
                Detection::NotSession,
            ),
        ];
        for (bytes, expected) in cases {
            let name = String::from_utf8_lossy(bytes);
            assert_eq!(detect(bytes).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn a_record_behind_much_that_is_none_is_found() {
        let record = b"{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"hi\"}}\n";
        // Few long lines, many short ones, and more of both than is looked at.
        for (line, count, expected) in [
            (20_000, 150, Detection::Session),
            (10, 20_000, Detection::Session),
            (10_000, 300, Detection::NotSession),
        ] {
            let mut bytes = Vec::new();
            for _ in 0..count {
                bytes.extend(std::iter::repeat_n(b'x', line));
                bytes.push(b'\n');
            }
            bytes.extend(record);
            assert_eq!(detect(&bytes[..]).unwrap(), expected, "{count} of {line}");
        }
    }

    #[test]
    fn ids_that_can_name_no_session_are_told() {
        let long = "x".repeat(513);
        for id in ["a b", "\u{e9}", "", "latest", "-x", &long] {
            let text = format!(
                "{{\"type\":\"assistant\",\"uuid\":\"v\",\"sessionId\":\"{id}\",\"message\":{{\"content\":[]}}}}\n"
            );
            let found = identify(text.as_bytes(), "notes").unwrap();
            assert_eq!(
                (found.session_id, found.unusable.as_deref()),
                (None, Some(id))
            );
            let stem = "11111111-2222-3333-4444-555555555555";
            let found = identify(text.as_bytes(), stem).unwrap();
            assert_eq!(found.session_id.unwrap().as_str(), stem);
        }
    }

    #[test]
    fn the_agent_then_the_stem_then_the_first_answer_name_the_session() {
        let stem = "11111111-2222-3333-4444-555555555555";
        let agent =
            br#"{"type":"user","uuid":"u","isSidechain":true,"agentId":"a1","sessionId":"p"}"#;
        let found = identify(&agent[..], stem).unwrap();
        assert_eq!(found.session_id.unwrap().as_str(), "p-agent-a1");
        let plain = b"{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"p\"}\n\
            {\"type\":\"assistant\",\"uuid\":\"v\",\"sessionId\":\"q\",\"message\":{\"content\":[]}}";
        let found = identify(&plain[..], stem).unwrap();
        assert_eq!(found.session_id.unwrap().as_str(), stem);
        let found = identify(&plain[..], "notes").unwrap();
        assert_eq!(found.session_id.unwrap().as_str(), "q");
        assert_eq!(identify(&b""[..], "notes").unwrap(), Identity::default());
    }
}
