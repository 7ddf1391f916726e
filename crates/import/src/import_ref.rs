//! What a session remembers of its source: enough to tell whether a file is
//! the same source, further on.

use crate::claude_code::{Diagnostic, Identity};
use crate::lines::hex;
use crate::outcome::{diagnostic, list, quoted};
use folio_core::json::{self, Json};
use folio_core::object::Writer;
use std::borrow::Cow;

/// How far a source was consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Physical lines.
    pub lines: u64,
    /// Records and broken lines.
    pub items: u64,
    /// The digest over the texts of these items.
    pub digest: [u8; 32],
    /// The item counts after which open runs were closed on demand.
    pub finishes: Vec<u64>,
}

/// The import record of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImportRef {
    pub format: String,
    pub native_id: Option<String>,
    pub agent_id: Option<String>,
    pub translator_version: u64,
    pub mark: Mark,
}

impl ImportRef {
    /// Whether the record is about this session of this agent.
    pub fn is_about(&self, format: &str, identity: &Identity) -> bool {
        self.format == format
            && self.native_id == identity.native_id
            && self.agent_id == identity.agent_id
    }

    /// The record as JSON; `reasons` are why the session was rejected.
    pub fn to_json(&self, reasons: &[Diagnostic]) -> String {
        let mut out = Writer::default();
        out.raw("format", quoted(&self.format));
        for (name, value) in [("native_id", &self.native_id), ("agent_id", &self.agent_id)] {
            if let Some(value) = value {
                out.raw(name, quoted(value));
            }
        }
        out.raw("translator_version", self.translator_version.to_string());
        out.raw("lines", self.mark.lines.to_string());
        out.raw("items", self.mark.items.to_string());
        out.raw("digest", quoted(&hex(&self.mark.digest)));
        let finishes = self.mark.finishes.iter().map(u64::to_string);
        out.raw("finishes", list(finishes));
        if !reasons.is_empty() {
            out.raw("diagnostics", list(reasons.iter().map(diagnostic)));
        }
        out.written()
    }

    /// Reads a record; `None` where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let json = Json::parse(text).ok()?;
        let object = json.as_object()?;
        let own = |name| object.text(name).map(Cow::into_owned);
        let finishes = json::elements(object.get("finishes")?);
        let finishes = finishes.into_iter().map(|raw| raw.parse().ok());
        Some(Self {
            format: own("format")?,
            native_id: own("native_id"),
            agent_id: own("agent_id"),
            translator_version: object.integer("translator_version")?,
            mark: Mark {
                lines: object.integer("lines")?,
                items: object.integer("items")?,
                digest: unhex(&own("digest")?)?,
                finishes: finishes.collect::<Option<_>>()?,
            },
        })
    }
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = ImportRef {
            format: "claude-code".into(),
            native_id: Some("n\"1".into()),
            agent_id: None,
            translator_version: 1,
            mark: Mark {
                lines: 9,
                items: 7,
                digest: [0xab; 32],
                finishes: vec![3, 7],
            },
        };
        assert_eq!(ImportRef::parse(&record.to_json(&[])), Some(record.clone()));
        let reasons = [crate::outcome::about_source("row_missing", "x".into())];
        let text = record.to_json(&reasons);
        assert!(text.contains("\"diagnostics\":[{\"code\":\"row_missing\""));
        assert_eq!(ImportRef::parse(&text), Some(record));
        assert_eq!(ImportRef::parse("{}"), None);
    }
}
