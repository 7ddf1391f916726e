//! Faults and crashes for the files of embedded engines.
//!
//! An engine's file operations are led through a [`Disk`], which does two
//! things with them:
//! * It fails the n-th of them, once or from then on ([`Fault`]), so that a
//!   test can fail every operation of a workload in turn.
//! * It records them ([`Record`]). From a record, [`Replay`] builds the files
//!   as a power cut at any moment may leave them: what was synced, with none,
//!   some or all of what was not ([`Loss`]).
//!
//! `sqlite` leads SQLite through a disk, `redb` leads redb; each stands
//! behind the feature of its name, so that no test builds an engine that it
//! does not test.
//!
//! What is modelled: writes that tear at any byte, are lost or arrive out of
//! order until their file is synced; names that come and go only once their
//! folder is synced; and a sync that fails, after which what it was to keep
//! may be lost although later syncs succeed. What is not: a drive that lies
//! about a sync, and bits that flip.

mod disk;
mod fault;
mod image;
mod record;
#[cfg(feature = "redb")]
pub mod redb;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use disk::{Disk, Fired};
pub use fault::{Fault, Kind, Kinds};
pub use image::{Image, Loss, Replay};
pub use record::{FileNo, Record, Step};

/// A folder for the files of one run, in memory where the system offers that:
/// what survives is what a record says, and thousands of stores that wait for a
/// real disk take minutes.
///
/// # Errors
/// What the system says.
pub fn folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}
