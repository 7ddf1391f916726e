//! A store in one redb file, without a line of C.
//!
//! The crate is an adapter: [`RedbEngine`] fetches and writes rows in
//! transactions of one database file, and everything that decides stands in
//! `folio_store`. Reads run on the caller's thread, each on one snapshot;
//! writes are committed with `Durability::Immediate` and synced before they are
//! acknowledged.
//!
//! What is kept and how:
//! * One handle holds the file at a time; a second one is refused with
//!   `store_locked`.
//! * Every commit records what a restart needs, so that opening after a crash
//!   reads no more than after a clean end.
//! * Every row that a read uses carries a checksum, and every read verifies it:
//!   redb does not check what it reads.
//! * redb panics on some damaged files. No panic leaves this crate: it becomes
//!   a `Corrupt` error, and nothing more is written.
//! * Opening never changes or creates anything unless it succeeds: the first
//!   look at a file is through a backend that cannot write.
//!
//! Read in this order: `tables` (what is in the file), `rows` (how a row is
//! packed), `schema` (opening), `reader`, `writer`, then `engine`.

mod check;
mod config;
mod engine;
mod erase;
mod error;
mod health;
mod overlay;
mod pieces;
mod reader;
mod rows;
mod schema;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

pub use config::RedbConfig;
pub use engine::RedbEngine;
#[doc(hidden)]
pub use schema::Layer;
pub use store::{RedbStore, open};
