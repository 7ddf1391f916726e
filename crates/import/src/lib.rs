//! Readers of other agents' session files, which become a ledger's events and
//! notes.
//!
//! [`lines`] cuts a file into physical lines and records; [`claude_code`]
//! translates the records of Claude Code sessions.

pub mod claude_code;
pub mod lines;
