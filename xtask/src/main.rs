//! `cargo xtask TASK`: runs one task on this workspace.
//!
//! Exit codes: 0 the rule holds, 1 it does not (or could not be checked),
//! 2 the command line was not understood.

use std::process::ExitCode;

use xtask::{Error, bench, conformance, epoch, layers, workspace_root};

const USAGE: &str = "\
usage: cargo xtask TASK

tasks:
  bench [--quick] [MEASURE...]    print the performance measures, each beside a
                                  floor of the same run; bench --help says more
  layers                          check which crate depends on which
  conformance [--without ADAPTER] run every case of the suite on every adapter;
                                  writes conformance.json into the build folder
  conformance --sabotage          run the suite against wrong stores, each of
                                  which it must find out
  epoch                           check golden files against golden.lock
  epoch --accept [--unreleased]   write golden.lock anew
                                  --unreleased: replace what the lock holds for
                                  this epoch, because nobody has been given it";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["bench", rest @ ..] => measure(rest),
        ["layers"] => check_layers(),
        ["conformance", "--sabotage"] => check_sabotage(),
        ["conformance", rest @ ..] => match without(rest) {
            Some(without) => check_conformance(&without),
            None => return usage(),
        },
        ["epoch"] => check_epoch(),
        ["epoch", "--accept"] => accept_epoch(epoch::Released::Yes),
        ["epoch", "--accept", "--unreleased"] | ["epoch", "--unreleased", "--accept"] => {
            accept_epoch(epoch::Released::No)
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => return usage(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// The adapters that `--without ADAPTER`, given any number of times, leaves out.
fn without<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let pairs = words.chunks(2).map(|pair| match pair {
        ["--without", adapter] => Some(*adapter),
        _ => None,
    });
    pairs.collect()
}

fn measure(words: &[&str]) -> Result<ExitCode, Error> {
    Ok(exit(bench::run(&workspace_root(), words)?))
}

fn check_conformance(without: &[&str]) -> Result<ExitCode, Error> {
    let matrix = conformance::run(&workspace_root(), without)?;
    println!("{matrix}");
    Ok(exit(matrix.holds()))
}

fn check_sabotage() -> Result<ExitCode, Error> {
    Ok(exit(conformance::sabotage(&workspace_root())?))
}

fn exit(holds: bool) -> ExitCode {
    if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
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
