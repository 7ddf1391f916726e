//! Pages of the whole stack, on every store.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bounded;
mod common;
mod members;
mod paging;
