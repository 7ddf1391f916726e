//! Performance measures, each as a ratio to a floor of the same run.
//!
//! Machines are noisy, so no figure here stands alone: every measure takes
//! samples of the store and of the least that the same work could cost (its
//! floor) in turn, and the ratio of their medians is what counts. The binary
//! `folio-bench` prints them all; the criterion benchmarks share the parts.
//!
//! Read in this order: [`sample`] (what is timed), [`floor`] and [`stores`]
//! (what is compared), [`mod@line`] and [`bounds`] (what is told), [`run`] (what
//! the measures share), then [`measure`].

pub mod allocator;
pub mod bounds;
pub mod commits;
pub mod floor;
pub mod line;
pub mod measure;
pub mod pages;
pub mod run;
pub mod sample;
pub mod stores;
pub mod system;
pub mod texts;

/// What a benchmark can fail with.
pub type Failure = Box<dyn std::error::Error>;
