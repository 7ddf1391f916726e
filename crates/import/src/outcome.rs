//! What became of one session of a source.

use crate::claude_code::Diagnostic;
use folio_core::SessionId;
use folio_core::json::Json;
use folio_core::object::Writer;

/// The most diagnostics that an outcome lists.
pub const MAX_DIAGNOSTICS: usize = 100;

/// The verdict about a session of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It is in the store now and was not before.
    Imported,
    /// The store held the beginning of it, and holds all of it now.
    Grown,
    /// The store holds all of it already.
    Unchanged,
    /// It is recognized, and there is no conversation in it yet.
    Skipped,
    /// It was not taken; the diagnostics say why.
    Rejected,
}

impl Verdict {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Grown => "grown",
            Self::Unchanged => "unchanged",
            Self::Skipped => "skipped",
            Self::Rejected => "rejected",
        }
    }
}

/// What became of one session of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The source's path, or the name it was given.
    pub path: String,
    /// The format, where it is known.
    pub format: Option<&'static str>,
    /// The session in the store; `None` where there is none.
    pub session_id: Option<SessionId>,
    /// The verdict.
    pub outcome: Verdict,
    /// Events that this import added.
    pub events_added: u64,
    /// Rows that the session shows, visible notes included.
    pub row_count: u64,
    /// Sessions of sub-agents that came with it.
    pub children: Vec<SessionId>,
    /// What was noticed, at most [`MAX_DIAGNOSTICS`].
    pub diagnostics: Vec<Diagnostic>,
    /// How much was noticed.
    pub diagnostics_total: u64,
}

impl Outcome {
    /// An outcome without a session.
    pub fn without_session(path: impl Into<String>, outcome: Verdict) -> Self {
        Self {
            path: path.into(),
            format: None,
            session_id: None,
            outcome,
            events_added: 0,
            row_count: 0,
            children: Vec::new(),
            diagnostics: Vec::new(),
            diagnostics_total: 0,
        }
    }

    /// A source that was not taken.
    pub fn rejected(path: impl Into<String>, code: &'static str, message: String) -> Self {
        let mut outcome = Self::without_session(path, Verdict::Rejected);
        outcome.report(vec![about_source(code, message)]);
        outcome
    }

    /// Sets what was noticed. If there is too much of it, what is about the
    /// whole source is listed first, then what is told once for
    /// many records, then the rest.
    pub(crate) fn report(&mut self, mut diagnostics: Vec<Diagnostic>) {
        self.diagnostics_total = diagnostics.len() as u64;
        if diagnostics.len() > MAX_DIAGNOSTICS {
            diagnostics.sort_by_key(|diagnostic| match (diagnostic.line, diagnostic.code) {
                (None, _) => 0,
                (_, "unknown_record" | "unreadable_usage" | "unreadable_timestamp") => 1,
                _ => 2,
            });
            diagnostics.truncate(MAX_DIAGNOSTICS);
        }
        self.diagnostics = diagnostics;
    }

    /// The outcome as one line of JSON.
    pub fn to_json(&self) -> String {
        let id = |id: &SessionId| Json::string(id.as_str()).as_str().to_owned();
        let mut out = Writer::default();
        out.raw("path", quoted(&self.path));
        out.raw("format", self.format.map_or("null".to_owned(), quoted));
        let session = self.session_id.as_ref();
        out.raw("session_id", session.map_or("null".to_owned(), id));
        out.raw("outcome", quoted(self.outcome.as_str()));
        out.raw("events_added", self.events_added.to_string());
        out.raw("row_count", self.row_count.to_string());
        out.raw("children", list(self.children.iter().map(id)));
        out.raw("diagnostics", list(self.diagnostics.iter().map(diagnostic)));
        out.raw("diagnostics_total", self.diagnostics_total.to_string());
        out.written()
    }
}

/// A diagnostic about a source as a whole.
pub(crate) fn about_source(code: &'static str, message: String) -> Diagnostic {
    Diagnostic {
        code,
        message,
        line: None,
        detail: None,
    }
}

pub(crate) fn quoted(text: &str) -> String {
    Json::string(text).as_str().to_owned()
}

pub(crate) fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// A diagnostic as JSON.
pub(crate) fn diagnostic(diagnostic: &Diagnostic) -> String {
    let mut out = Writer::default();
    out.raw("code", quoted(diagnostic.code));
    out.raw("message", quoted(&diagnostic.message));
    if let Some(line) = diagnostic.line {
        out.raw("line", line.to_string());
    }
    if let Some(detail) = &diagnostic.detail {
        out.raw("detail", quoted(detail));
    }
    out.written()
}
