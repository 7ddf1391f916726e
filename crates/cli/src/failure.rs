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
//! | 6 | the store cannot be used: missing, damaged, locked, read-only, foreign |
//! | 130 | interrupted; the same command goes on from there |
//!
//! With `--json` an error is one line on standard error,
//! `{"error":{"code":"…","message":"…"}}`; otherwise it reads
//! `error: message`. Standard output holds nothing but results.

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
        if json {
            let mut line = String::from(r#"{"error":{"code":"#);
            quote(code, &mut line);
            line.push_str(r#","message":"#);
            quote(message, &mut line);
            line.push_str("}}");
            complain(&line);
        } else {
            complain(&format!("error: {}", crate::text::plain(message)));
        }
        *exit
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
        Self::new(exit_of(&error), error.code(), format!("{error}{hint}"))
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

/// The exit code of a store's error.
pub fn exit_of(error: &StoreError) -> Exit {
    match (error.kind(), error.code()) {
        (_, code) if code.starts_with("store_") => Exit::Store,
        (_, "session_rejected") => Exit::Rejected,
        (_, "session_preparing") => Exit::NotFound,
        (ErrorKind::NotFound, _) => Exit::NotFound,
        (ErrorKind::Invalid, _) => Exit::Invalid,
        (ErrorKind::Conflict, _) => Exit::Internal,
        _ => Exit::Store,
    }
}
