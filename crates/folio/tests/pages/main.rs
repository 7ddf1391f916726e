//! Pages of the whole stack, on every store.

mod bounded;
mod common;
mod paging;
