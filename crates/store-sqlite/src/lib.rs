//! A store in one SQLite file.
//!
//! The crate is an adapter: [`SqliteEngine`] fetches and writes rows in
//! transactions of one database file, and everything that decides stands in
//! `folio_store`. Reads run on the caller's thread, each inside one read
//! transaction; writes run inside `BEGIN IMMEDIATE` and are synced before they
//! are acknowledged.
//!
//! What is kept and how:
//! * The file is in WAL mode with `synchronous = FULL`; a file that cannot be
//!   put into that state is refused rather than used with weaker promises.
//! * Every row that a read uses carries a checksum, and every read verifies it:
//!   SQLite does not protect stored bytes itself.
//! * Every statement is a search in a b-tree, never a scan or a sort, so a read
//!   costs what it returns and not what the store holds.
//! * What was erased leaves the files when they are rewritten: bytes of removed
//!   rows stay in pages and in the WAL until then. A rewrite needs memory and
//!   free disk for one more copy of the store.
//! * Several processes may have a store open. Writers queue for a lock file, so
//!   that none starves; a handle that owns leases is known to be alive by a
//!   file that it keeps locked.
//! * Opening never changes or creates anything unless it succeeds: a foreign
//!   file, a newer store or a directory is refused with a typed error.
//!
//! Read in this order: `schema` (what is in the file), `sql` (the statements),
//! `reader`, `writer`, `erase`, `check`, `lock`, `owner` and `wal` (several processes),
//! then `engine`.

mod check;
mod columns;
mod config;
mod engine;
mod erase;
mod error;
mod keys;
mod lock;
mod owner;
mod reader;
mod schema;
mod sql;
mod store;
#[cfg(test)]
mod tests;
mod wal;
mod writer;

pub use config::SqliteConfig;
pub use engine::SqliteEngine;
pub use store::{SqliteStore, open};
