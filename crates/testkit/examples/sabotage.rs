//! Runs the conformance suite against wrong stores, each of which it must find
//! out. `--json FILE` writes the report for programs as well.
//!
//! Exit codes: 0 every one was found out, 1 something is missing, 2 the
//! command line was not understood.

use folio_testkit::sabotage;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let file = match words.as_slice() {
        [] => None,
        ["--json", file] => Some(*file),
        _ => {
            eprintln!("usage: sabotage [--json FILE]");
            return ExitCode::from(2);
        }
    };
    // Cases fail by panicking, and here most of the panics are wanted.
    std::panic::set_hook(Box::new(|_| {}));
    let report = sabotage::run();
    println!("{report}");
    if let Some(file) = file
        && let Err(error) = std::fs::write(file, format!("{:#}\n", report.json()))
    {
        eprintln!("error: {file}: {error}");
        return ExitCode::FAILURE;
    }
    if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
