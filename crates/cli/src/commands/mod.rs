//! The commands, and the shape of what each writes with `--json`.

pub mod events;
pub mod export;
pub mod import;
pub mod notes;
pub mod open;
pub mod rebuild;
pub mod sessions;
pub mod show;
pub mod stats;
pub mod verify;
