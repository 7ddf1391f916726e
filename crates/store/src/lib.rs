//! The store port: what a ledger promises, and who decides it.
//!
//! [`port`] holds the traits and their contracts. An adapter for an embedded
//! engine implements the small synchronous seam in [`engine`] and becomes a
//! whole store through [`Embedded`] (feature `embedded`): ordinals,
//! idempotency, uniqueness, indexing and page reads are decided here, once.
//!
//! This crate knows no engine and no file.

#[cfg(feature = "embedded")]
mod blob;
#[cfg(feature = "embedded")]
mod care;
#[cfg(feature = "embedded")]
mod contrib;
mod copy;
#[cfg(feature = "embedded")]
mod embedded;
pub mod engine;
#[cfg(feature = "embedded")]
mod erase;
mod error;
#[cfg(feature = "embedded")]
mod fork;
#[cfg(feature = "embedded")]
mod index;
#[cfg(feature = "embedded")]
mod lease;
#[cfg(feature = "embedded")]
mod line;
#[cfg(feature = "embedded")]
mod member;
mod member_writer;
#[cfg(feature = "embedded")]
mod packed;
#[cfg(feature = "embedded")]
mod packing;
#[cfg(feature = "embedded")]
mod page;
#[cfg(feature = "embedded")]
mod plan;
pub mod port;
#[cfg(feature = "embedded")]
mod rebuild;
#[cfg(feature = "embedded")]
mod redact;
pub mod rows;
mod scan;
#[cfg(feature = "embedded")]
mod view;

pub use copy::{CopyOptions, CopyOutcome, CopyReport, copy_session};
#[cfg(feature = "embedded")]
pub use embedded::{Embedded, QUEUE_BYTES};
pub use error::{ErrorKind, StoreError};
pub use member_writer::MemberWriter;
pub use port::*;
pub use scan::{FoundItem, ItemScan};
