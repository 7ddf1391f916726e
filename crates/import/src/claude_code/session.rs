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
                && let Ok(id) = SessionId::new(format!("{session}-agent-{agent}"))
            {
                self.found = Identity {
                    session_id: Some(id),
                    native_id: Some(session.clone().into_owned()),
                    agent_id: Some(agent.into_owned()),
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
            && let Some(id) = session.and_then(|id| SessionId::new(id.into_owned()).ok())
        {
            self.found.native_id = Some(id.as_str().to_owned());
            self.found.session_id = Some(id);
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

/// How many lines decide whether a file is a session at all.
const PROBE_LINES: u64 = 50;

/// Recognizes a session by what its records look like, never by its name. Only
/// a file that is one but opens without a conversation is read further.
///
/// # Errors
/// What the reader answers.
pub fn detect(reader: impl BufRead) -> io::Result<Detection> {
    let mut lines = Lines::new(reader);
    let mut answer = Detection::Empty;
    while let Some(line) = lines.next_line()? {
        if answer != Detection::NoConversation {
            if line.bytes.contains(&0) {
                return Ok(Detection::Binary);
            }
            // Half a character at the end of a growing file is no fault.
            let faulty = std::str::from_utf8(&line.bytes)
                .is_err_and(|error| line.ended || error.error_len().is_some());
            if faulty && line.number == 1 {
                return Ok(Detection::Binary);
            }
        }
        if line.is_blank() {
            continue;
        }
        if answer == Detection::Empty {
            answer = Detection::NotSession;
        }
        for item in line.items() {
            let Body::Record { json, .. } = &item.body else {
                continue;
            };
            let record = Record::new(json);
            match &record.class {
                Class::Unknown(_) => {}
                _ if !is_ours(&record) => {}
                Class::Note { .. } | Class::CompactBoundary | Class::TurnEnd => {
                    answer = Detection::NoConversation;
                }
                _ => return Ok(Detection::Session),
            }
        }
        if answer != Detection::NoConversation && line.number >= PROBE_LINES {
            break;
        }
    }
    Ok(answer)
}

/// Members that no other agent's records of these types carry together.
fn is_ours(record: &Record<'_>) -> bool {
    ["sessionId", "leafUuid", "parentUuid", "messageId"]
        .iter()
        .any(|name| record.object.get(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_content() {
        let cases: [(&[u8], Detection); 6] = [
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
        ];
        for (bytes, expected) in cases {
            assert_eq!(detect(bytes).unwrap(), expected);
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
