//! The conformance suite over the simulated engine: the base of the wrong ones
//! is right.

use folio_testkit::conformance::run;
use folio_testkit::simulated::SimulatedPlace;
use std::process::ExitCode;

fn main() -> ExitCode {
    run(|| Box::new(SimulatedPlace::default()))
}
