//! Claude Code: one JSONL file is one session.
//!
//! [`Translator`] reads records in file order and gives events and notes. What
//! it gives for a record depends on that record and those before it, never on
//! what follows or on the clock, so a file can be translated while it grows:
//! any prefix gives a prefix of what the whole file gives. A record that marks
//! a compaction is held until the next one, which may bring the summary.

mod manifest;
mod record;
mod session;
mod source;
mod translate;

pub use manifest::{Entry, Manifest};
pub use session::{Detection, Identity, detect, identify};
pub use translate::{Diagnostic, Increment, Translation, Translator};

/// The name of the format.
pub const FORMAT: &str = "claude-code";

/// The version of the translation: it rises whenever a record would give other
/// events or notes than before.
pub const TRANSLATOR_VERSION: u32 = 1;
