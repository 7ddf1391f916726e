//! `cargo xtask TASK`: runs one task on this workspace.
//!
//! Exit codes: 0 the rule holds, 1 it does not (or could not be checked),
//! 2 the command line was not understood.

use std::process::ExitCode;

use xtask::{Error, epoch, layers, workspace_root};

const USAGE: &str = "\
usage: cargo xtask TASK

tasks:
  layers                          check which crate depends on which
  epoch                           check golden files against golden.lock
  epoch --accept [--unreleased]   write golden.lock anew
                                  --unreleased: replace what the lock holds for
                                  this epoch, because nobody has been given it";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["layers"] => check_layers(),
        ["epoch"] => check_epoch(),
        ["epoch", "--accept"] => accept_epoch(epoch::Released::Yes),
        ["epoch", "--accept", "--unreleased"] | ["epoch", "--unreleased", "--accept"] => {
            accept_epoch(epoch::Released::No)
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check_layers() -> Result<ExitCode, Error> {
    let report = layers::check(&workspace_root())?;
    if report.violations.is_empty() {
        println!(
            "layers: {} crates, {} edges, all of them allowed",
            report.crates, report.edges
        );
        return Ok(ExitCode::SUCCESS);
    }
    for violation in &report.violations {
        eprintln!("{violation}");
    }
    eprintln!("layers: {} not allowed", report.violations.len());
    Ok(ExitCode::FAILURE)
}

fn check_epoch() -> Result<ExitCode, Error> {
    Ok(print_epoch(&epoch::check(&workspace_root())?))
}

fn accept_epoch(released: epoch::Released) -> Result<ExitCode, Error> {
    Ok(print_epoch(&epoch::accept(&workspace_root(), released)?))
}

fn print_epoch(verdict: &epoch::Verdict) -> ExitCode {
    if verdict.holds() {
        println!("{verdict}");
        ExitCode::SUCCESS
    } else {
        eprintln!("{verdict}");
        ExitCode::FAILURE
    }
}
