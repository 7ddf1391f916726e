//! What breaks other session stores, done to this one.
//!
//! | probe | what Folio does |
//! |---|---|
//! | the projection is lost, the log is whole | the page is `index_damaged`, never empty; a rebuild gives the same bytes, and old cursors go on |
//! | the log lost its last records, the projection is whole | `projection_gap` names them, `verify` finds them, the other rows are served; the next append stands behind them, and a repeat of a lost event is not taken for a new one |
//! | two records under one ordinal | cannot be written; one that was put in another's place below the store is damaged, by name |
//! | a torn last record, NUL bytes, a missing record, no JSON | the one row is a gap by name; all others are served, with the gap in its place where gaps are marked |
//! | a torn last record, then an append | the append stands behind it and is there after opening again |
//! | a damaged first record, a damaged head of the file | opening cuts and changes nothing |
//! | ten items with one id | one fact; another content is `event_id_conflict` |
//! | a committed append is repeated | it succeeds, as present, on any handle |
//! | a second handle appends on an old head | `head_mismatch` with both numbers, or the handle is refused (`store_locked`) |
//! | an append whose clock is an hour back, or stands still | it is read where it was appended |
//! | a page of 50 | 50 items, whatever number of events they are made of |
//! | one id for things of several kinds | they do not meet |
//! | a server that warns and starts anyway | does not apply: there is no server in this crate |
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod damage;
mod identity;
mod paging;
mod place;
