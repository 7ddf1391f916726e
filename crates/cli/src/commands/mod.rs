//! The commands, and the shape of what each writes with `--json`.

pub mod copy;
pub mod delete;
pub mod events;
pub mod export;
pub mod fork;
pub mod import;
pub mod maintain;
pub mod notes;
pub mod open;
pub mod rebuild;
pub mod redact;
pub mod sessions;
pub mod show;
pub mod stats;
pub mod verify;
