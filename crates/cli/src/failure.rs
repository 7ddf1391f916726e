//! How a command ends: exit codes, and errors that say what to do.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | an internal error |
//! | 2 | the command line is wrong, or a session's name fits several sessions |
//! | 3 | done, but something was rejected; the output says what and why |
//! | 4 | a session, item, path or source was not found |
//! | 5 | the request or its cursor is not valid |
//! | 6 | the store cannot be used (missing, damaged, locked, read-only, foreign), or a session is held by another writer |
//! | 130 | interrupted; the same command goes on from there |
//!
//! With `--json` an error is one line on standard error,
//! `{"error":{"code":"…","message":"…"}}`; otherwise it reads
//! `error: message`. What keeps no command from its work is told the same way,
//! as a `warning`. Standard output holds nothing but results.

use folio_core::CursorError;
use folio_core::json::quote;
use folio_store::{ErrorKind, StoreError};
use folio_transcript::TranscriptError;
use std::io;
use std::process::ExitCode;

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// An internal error.
    Internal = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Something was rejected.
    Rejected = 3,
    /// It does not exist.
    NotFound = 4,
    /// The request or the cursor is not valid.
    Invalid = 5,
    /// The store cannot be used.
    Store = 6,
    /// Interrupted.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error to tell.
    #[error("{message}")]
    Error {
        /// The exit code.
        exit: Exit,
        /// The stable code.
        code: &'static str,
        /// What happened and what to do.
        message: String,
    },
    /// Whoever reads the output has seen enough.
    #[error("the output was closed")]
    Pipe,
}

impl Failure {
    /// An error to tell.
    pub fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self::Error {
            exit,
            code,
            message: message.into(),
        }
    }

    /// A wrong command line.
    pub fn usage(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// Something that does not exist.
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, code, message)
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Error { code, .. } => code,
            Self::Pipe => "output_closed",
        }
    }

    /// Tells the error, and with which code the program ends.
    pub fn tell(&self, json: bool) -> Exit {
        let Self::Error {
            exit,
            code,
            message,
        } = self
        else {
            return Exit::Ok;
        };
        remark(json, "error", code, message);
        *exit
    }
}

/// Tells what the result of a command lacks, though the command went on.
pub fn warn(json: bool, code: &str, message: &str) {
    remark(json, "warning", code, message);
}

fn remark(json: bool, what: &str, code: &str, message: &str) {
    if json {
        let mut line = format!(r#"{{"{what}":{{"code":"#);
        quote(code, &mut line);
        line.push_str(r#","message":"#);
        quote(message, &mut line);
        line.push_str("}}");
        complain(&line);
    } else {
        complain(&format!("{what}: {}", crate::text::plain(message)));
    }
}

/// Writes a line to standard error; where nobody listens it is lost.
pub fn complain(line: &str) {
    use io::Write;
    let _lost = writeln!(io::stderr().lock(), "{line}");
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = match error.code() {
            "index_stale" | "index_damaged" => "; `folio rebuild SESSION` makes the index anew",
            "projection_gap" => {
                "; `--on-gap mark` shows the rest of a page, `folio verify` says what is damaged"
            }
            _ => "",
        };
        let message = format!("{}{hint}", advice(&error));
        Self::new(exit_of(&error), error.code(), message)
    }
}

impl From<CursorError> for Failure {
    fn from(error: CursorError) -> Self {
        Self::new(Exit::Invalid, error.code(), error.to_string())
    }
}

impl From<TranscriptError> for Failure {
    fn from(error: TranscriptError) -> Self {
        match error {
            TranscriptError::Store(error) => error.into(),
            TranscriptError::Cursor(error) => error.into(),
            other => Self::new(Exit::Invalid, other.code(), other.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Pipe;
        }
        Self::new(
            Exit::Internal,
            "output_failed",
            format!("the output cannot be written: {error}"),
        )
    }
}

/// What a store's error says to somebody at a command line.
pub fn advice(error: &StoreError) -> String {
    if error.kind() != ErrorKind::Indeterminate {
        return error.to_string();
    }
    // A program would look its events up; a person runs the command again,
    // which does that.
    let why = std::error::Error::source(error)
        .map(|source| format!(" ({source})"))
        .unwrap_or_default();
    format!(
        "the disk did not take a commit{why}, and what was being written may or may not be kept; \
         free some space or check the disk, then run the same command again"
    )
}

/// The exit code of a store's error.
pub fn exit_of(error: &StoreError) -> Exit {
    match (error.kind(), error.code()) {
        (_, code) if code.starts_with("store_") => Exit::Store,
        (_, "session_rejected") => Exit::Rejected,
        (_, "session_preparing") => Exit::NotFound,
        (_, "session_exists") => Exit::Invalid,
        (_, "session_leased") => Exit::Store,
        (_, "copy_stopped") => Exit::Interrupted,
        (ErrorKind::NotFound, _) => Exit::NotFound,
        (ErrorKind::Invalid, _) => Exit::Invalid,
        (ErrorKind::Conflict, _) => Exit::Internal,
        _ => Exit::Store,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_may_be_kept_asks_for_the_same_command_again() {
        let error = StoreError::new(
            ErrorKind::Indeterminate,
            "indeterminate",
            "look the events up by id",
        )
        .caused_by(io::Error::other("disk I/O error"));
        let failure = Failure::from(error);
        let message = failure.to_string();
        assert_eq!(failure.code(), "indeterminate");
        assert!(message.contains("(disk I/O error)"), "{message}");
        assert!(
            message.contains("free some space or check the disk"),
            "{message}"
        );
        assert!(message.ends_with("run the same command again"), "{message}");
        assert!(!message.contains("by id"), "{message}");
        assert!(matches!(
            failure,
            Failure::Error {
                exit: Exit::Store,
                ..
            }
        ));
    }
}
