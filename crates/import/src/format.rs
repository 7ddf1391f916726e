//! The formats that can be read, one module each.

use crate::claude_code::{self, Diagnostic, Identity, Increment, Manifest};
use crate::import_ref::Mark;
use crate::lines::Line;
use folio_core::SessionId;
use std::io::{self, BufRead};

/// A format of session files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Claude Code's JSONL sessions.
    ClaudeCode,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recognition {
    /// A session.
    Session(Format),
    /// A file of an agent without a conversation in it.
    NoConversation(Format),
    /// Nothing that can be imported: a stable code and what to do.
    Nothing(&'static str, &'static str),
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 1] = [Self::ClaudeCode];

    /// The name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => claude_code::FORMAT,
        }
    }

    /// The format of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The version of the format's translation.
    pub fn translator_version(self) -> u32 {
        match self {
            Self::ClaudeCode => claude_code::TRANSLATOR_VERSION,
        }
    }

    /// What a file is, judged by its content. `open` opens it from the start,
    /// once for each format that is tried.
    ///
    /// # Errors
    /// What opening or reading answers.
    pub fn recognize<R: BufRead>(
        only: Option<Self>,
        mut open: impl FnMut() -> io::Result<R>,
    ) -> io::Result<Recognition> {
        let mut answer = Recognition::Nothing(
            "not_a_session_file",
            "no format that can be imported recognizes this file; \
             name a session file of a supported agent, or a folder that holds some",
        );
        for format in Self::ALL {
            if only.is_some_and(|only| only != format) {
                continue;
            }
            let Self::ClaudeCode = format;
            answer = match claude_code::detect(open()?)? {
                claude_code::Detection::Session => return Ok(Recognition::Session(format)),
                claude_code::Detection::NoConversation => {
                    return Ok(Recognition::NoConversation(format));
                }
                claude_code::Detection::NotSession => answer,
                claude_code::Detection::Empty => Recognition::Nothing(
                    "empty_file",
                    "the file is empty; import it again once the agent has written to it",
                ),
                claude_code::Detection::Binary => Recognition::Nothing(
                    "binary_file",
                    "the file is not text; name a session file of a supported agent",
                ),
            };
        }
        Ok(answer)
    }

    /// Whose session a file is.
    pub(crate) fn identify(self, reader: impl BufRead, stem: &str) -> io::Result<Identity> {
        match self {
            Self::ClaudeCode => claude_code::identify(reader, stem),
        }
    }

    /// Begins a translation at the start of a file.
    pub(crate) fn translator(
        self,
        session: SessionId,
        stem: &str,
        finishes: &[u64],
    ) -> Box<dyn Translate> {
        match self {
            Self::ClaudeCode => Box::new(claude_code::Translator::new(session, stem, finishes)),
        }
    }
}

/// A translation under way: pure, line by line.
pub(crate) trait Translate: Send {
    /// Asks for the digest of an earlier state of the source.
    fn watch(&mut self, items: u64);
    /// That digest; `None` while the source is shorter.
    fn watched_digest(&self) -> Option<[u8; 32]>;
    /// Takes the next line.
    fn push(&mut self, line: &Line, out: &mut Increment);
    /// Closes what is open.
    fn finish(&mut self, out: &mut Increment);
    /// How far the source is consumed.
    fn mark(&self) -> Mark;
    /// What was noticed and which rows must show.
    fn findings(&self) -> (Vec<Diagnostic>, Manifest);
}

impl Translate for claude_code::Translator {
    fn watch(&mut self, items: u64) {
        Self::watch(self, items);
    }

    fn watched_digest(&self) -> Option<[u8; 32]> {
        Self::watched_digest(self)
    }

    fn push(&mut self, line: &Line, out: &mut Increment) {
        Self::push(self, line, out);
    }

    fn finish(&mut self, out: &mut Increment) {
        Self::finish(self, out);
    }

    fn mark(&self) -> Mark {
        let items = self.items();
        Mark {
            lines: self.lines(),
            items,
            digest: self.source_digest(),
            finishes: self
                .finishes()
                .iter()
                .copied()
                .filter(|finish| *finish <= items)
                .collect(),
        }
    }

    fn findings(&self) -> (Vec<Diagnostic>, Manifest) {
        let summary = self.summary();
        (summary.diagnostics, summary.manifest)
    }
}
