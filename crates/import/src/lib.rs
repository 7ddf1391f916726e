//! Readers of other agents' session files, and the staged cutover that brings
//! them into a ledger.
//!
//! [`lines`] cuts a file into physical lines and records; [`claude_code`]
//! translates the records of Claude Code sessions; [`Importer`] stages a
//! translation in a store, compares what it shows with what the records say,
//! and only then makes it readable. [`discover`](mod@discover) finds files to
//! import.

mod check;
pub mod claude_code;
mod cutover;
pub mod discover;
mod error;
mod format;
mod import_ref;
mod lineless;
pub mod lines;
mod outcome;
mod pass;
mod preview;
mod probe;
mod source;

pub use claude_code::Diagnostic;
pub use cutover::{ImportOptions, Importer, OnProgress, Progress};
pub use discover::{Discovery, discover, known_folders};
pub use error::ImportError;
pub use format::{Format, Recognition};
pub use outcome::{MAX_DIAGNOSTICS, Outcome, Verdict};
pub use probe::{CrashPoint, NoProbe, Probe};
pub use source::{BytesSource, FileSource, Source};
