//! Several processes on one store, as they really are: this binary starts
//! itself again as writers, readers, openers and owners, and kills some.
//!
//! `FOLIO_SOAK_SECONDS` says how long writers write in a test, 5 by default.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod child;
mod ledger;
mod owners;
mod process;
mod soak;
mod storm;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == child::MARK
    {
        return child::run(rest);
    }
    let test = |name: &str, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    };
    let mut tests = vec![
        test("two_processes_fill_one_session", soak::one_session),
        test("two_processes_fill_ten_sessions", soak::ten_sessions),
        test("killed_writers_leave_whole_batches", soak::killed_writers),
        test("the_wal_stays_bounded", soak::bounded_wal),
        test("eight_processes_open_one_new_file", storm::eight_openers),
        test("ten_thousand_sessions_are_all_there", storm::many_sessions),
        test("an_owner_lives_as_long_as_its_process", owners::killed),
        test("an_owner_lives_as_long_as_its_handle", owners::closed),
        test("files_of_dead_owners_are_swept", owners::swept),
        test("a_reader_owns_nothing", owners::reader),
        test("commits_of_others_change_the_version", owners::version),
        test("commits_of_others_wake_within_100_ms", owners::watch),
    ];
    if cfg!(unix) {
        let name = "a_full_disk_stops_one_process_alone";
        tests.push(test(name, soak::full_disk));
    }
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
