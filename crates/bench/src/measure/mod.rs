//! The measures, one a module.

pub mod alloc;
pub mod append;
pub mod cold;
pub mod fork;
pub mod group;
pub mod list;
pub mod open;
pub mod page;
pub mod rebuild;
pub mod stream;
pub mod tail;
pub mod walk;

use crate::Failure;
use crate::line::Line;
use crate::run::Run;

/// A measure.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Measures.
    pub run: fn(&mut Run) -> Result<Vec<Line>, Failure>,
}

macro_rules! measures {
    ($($name:ident: $about:literal,)*) => {
        /// All of them, in the order in which they run.
        pub const ALL: &[Measure] = &[$(
            Measure { name: stringify!($name), about: $about, run: $name::measure },
        )*];
    };
}

measures! {
    append: "a durable append of one event by one writer",
    group: "many writers that share commits",
    page: "a page of 50 items at several sizes",
    tail: "the last 10 events",
    walk: "paging through a whole session",
    fork: "a fork, to durable appends",
    list: "50 of 10,000 sessions",
    alloc: "the most memory that a page takes",
    rebuild: "making the item index anew",
    open: "opening a store and reading its last page",
    cold: "the same with nothing in memory, in the middle",
    stream: "streamed chunks: rate, latency, bytes",
}
