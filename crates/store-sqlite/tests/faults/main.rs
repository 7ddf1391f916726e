//! Every operation on the files fails once, and every moment sees a power cut.
//!
//! `workload` is what a store is made to do, and what it must hold after each
//! step; `oracle` compares a store with that. `sweep` fails the n-th operation
//! for every n, `full` looks at what a full disk says, `indeterminate` fails syncs and kills the process, `images`
//! cuts the power.
//!
//! A failure prints the line that repeats it. The bytes of a store differ from
//! run to run (its ids are random), so a seed repeats the choice of what is
//! lost, not every byte.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod full;
mod images;
mod indeterminate;
mod oracle;
mod sweep;
mod workload;

use libtest_mimic::{Arguments, Trial};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use tempfile::TempDir;

/// Chooses another seed.
const SEED: &str = "FOLIO_FAULT_SEED";
/// Runs one point alone, by the name that a failure printed.
const ONLY: &str = "FOLIO_FAULT_ONLY";

fn main() -> ExitCode {
    if let Some(order) = indeterminate::order_of_child() {
        indeterminate::child(&order);
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("sweep/an_error_once", sweep::once),
        trial("sweep/an_error_that_lasts", sweep::lasting),
        trial("sweep/a_full_disk", sweep::full),
        trial(
            "full/a_store_that_has_no_room_when_it_is_opened_says_so_and_where",
            full::opening,
        ),
        trial(
            "full/a_fence_that_has_no_room_says_so_and_where",
            full::fence,
        ),
        trial("sweep/a_read_that_fails", sweep::reads),
        trial("sweep/faults_while_a_store_is_made", sweep::making),
        trial(
            "indeterminate/killed_after_a_failed_sync",
            indeterminate::killed,
        ),
        trial(
            "indeterminate/power_cut_after_a_failed_sync_and_a_restart",
            indeterminate::cut,
        ),
        trial(
            "images/no_power_cut_takes_what_was_acknowledged",
            images::whole,
        ),
        trial(
            "images/a_second_power_cut_while_opening_takes_nothing",
            images::twice,
        ),
        trial(
            "images/syncs_that_are_left_out_are_caught",
            images::sabotaged,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn new_folder() -> TempDir {
    folio_fault::folder().unwrap()
}

fn seed() -> u64 {
    std::env::var(SEED).map_or(20_260, |seed| seed.parse().unwrap())
}

/// Whether all points are run, and not one alone.
fn is_whole() -> bool {
    std::env::var_os(ONLY).is_none()
}

/// More points than any workload has.
const MOST_POINTS: u64 = 10_000;

/// Runs one point, unless another one alone is wanted; if it fails, says how to
/// run it again.
fn point<T>(test: &str, name: &str, run: impl FnOnce() -> T) -> Option<T> {
    if std::env::var(ONLY).is_ok_and(|only| only != name) {
        return None;
    }
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(out) => Some(out),
        Err(panic) => {
            eprintln!(
                "failed at {name}; again: {SEED}={} {ONLY}='{name}' \
                 cargo test -p folio-store-sqlite --test faults -- {test}",
                seed()
            );
            resume_unwind(panic)
        }
    }
}
