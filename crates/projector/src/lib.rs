//! Projections of the ledger.
//!
//! [`TranscriptProjector`] turns an item's events into the row that clients
//! see; [`RuntimeEventReadModel`] reads bounded pages of such rows; [`Stats`]
//! folds a whole session. All of them are computed from stored events, now and
//! every time, and remember nothing.

mod read_model;
mod row;
mod stats;

pub use read_model::{
    Projected, ProjectedRow, RuntimeEventReadModel, TranscriptProjectionPage, TranscriptQuery,
};
pub use row::{RowForm, TranscriptProjector};
pub use stats::{Inherited, Stats, Turns, Usage};
