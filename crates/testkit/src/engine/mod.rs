//! What holds below the engine seam, for every engine that keeps files.
//!
//! [`engine_cases!`](crate::engine_cases) makes a test of each case, for the
//! [`EnginePlace`] of an adapter. [`rows`] makes the rows that are written, and
//! [`lost`] answers which of them an erasure removed. What only one engine
//! promises stands in the tests of its adapter.

pub mod reads;
pub mod removals;
pub mod rows;
pub mod transactions;

pub use removals::{lost, lost_after};

use folio_store::StoreError;
use folio_store::engine::{Engine, Snapshot, WriteTxn, Writes};

/// A place on disk for one engine, empty at first.
pub trait EnginePlace {
    /// The engine.
    type Engine: Engine;
    /// Whether several handles may write at once.
    const MULTI_PROCESS: bool;

    /// A fresh place.
    fn new() -> Self;
    /// Opens the engine, and makes its files if there are none.
    fn open(&self) -> Self::Engine;
    /// Opens what is there for reading.
    fn open_read_only(&self) -> Self::Engine;
    /// How many rows of each sort there are, by the name of the sort, in the
    /// order of the names. The names are those of [`removals`].
    fn counts(&self, engine: &Self::Engine) -> Vec<(String, u64)>;
}

/// What work answers of one state.
pub fn read<T>(engine: &impl Engine, mut work: impl FnMut(&dyn Snapshot) -> T) -> T {
    let mut out = None;
    engine
        .read(&mut |snapshot| {
            out = Some(work(snapshot));
            Ok(())
        })
        .unwrap();
    out.unwrap()
}

/// Writes rows in a transaction of their own.
///
/// # Errors
/// What the transaction answers.
pub fn write(engine: &impl Engine, writes: &Writes) -> Result<(), StoreError> {
    engine.write(&mut |txn: &mut dyn WriteTxn| txn.apply(writes))
}

/// A place with the rows of some sessions, and its engine.
fn place_with<P: EnginePlace>(sessions: impl IntoIterator<Item = u64>) -> (P, P::Engine) {
    let place = P::new();
    let engine = place.open();
    for n in sessions {
        write(&engine, &rows::everything(n)).unwrap();
    }
    (place, engine)
}

/// How many sessions there are.
fn sessions(engine: &impl Engine) -> usize {
    read(engine, |s| s.sessions(None, 9).unwrap().len())
}

/// Makes a test of each case that holds for every engine, for a type that is an
/// [`EnginePlace`](crate::engine::EnginePlace).
#[macro_export]
macro_rules! engine_cases {
    ($place:ty) => {
        $crate::engine_cases! { @tests $place:
            reads::every_row_comes_back_also_after_reopening,
            reads::reads_keep_their_bounds_and_their_order,
            reads::what_is_not_there_is_nothing_whatever_is_asked,
            reads::rows_with_a_known_key_are_replaced,
            reads::a_redacted_row_stands_in_the_place_of_the_whole_one,
            removals::what_is_erased_leaves_no_row_and_no_neighbour_loses_one,
            removals::an_erased_part_goes_alone,
            removals::a_dropped_index_answers_nothing,
            removals::a_log_is_cut_behind_an_ordinal_and_a_run,
            removals::the_journal_ends_where_it_was_cut_and_goes_on,
            removals::events_go_with_their_ids_and_citations_also_where_the_id_is_unknown,
            removals::what_another_log_made_of_a_key_since_stays,
            removals::a_rewritten_store_has_every_row_and_goes_on,
            transactions::a_read_sees_one_state_while_others_commit,
            transactions::a_write_reads_what_it_wrote_and_an_error_leaves_nothing,
            transactions::a_panic_leaves_nothing_and_breaks_nothing,
            transactions::a_failed_apply_cannot_be_committed,
            transactions::what_has_no_owner_is_refused,
            transactions::two_sessions_never_share_an_id,
            transactions::a_store_that_is_only_read_has_nothing_to_settle_and_is_not_rewritten,
            transactions::what_the_engine_says_of_itself,
        }
    };
    (@tests $place:ty: $($group:ident::$case:ident,)*) => {
        $(#[test]
        fn $case() {
            $crate::engine::$group::$case::<$place>();
        })*
    };
}
