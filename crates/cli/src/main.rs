//! The `folio` command: brings the sessions of AI agents into one ledger and
//! shows them page by page.
//!
//! Read in this order: `args` (the command line), `app` (what is wired to
//! what), `commands` (one module each, with the shape of its JSON), `failure`
//! (exit codes).

mod app;
mod args;
mod commands;
mod crash;
mod failure;
mod output;
mod pieces;
mod place;
mod render;
mod select;
mod text;
mod walk;

use clap::Parser;
use failure::{Exit, Failure};
use std::process::ExitCode;

fn main() -> ExitCode {
    let exit = match args::Args::try_parse() {
        Ok(args) => {
            let json = args.json;
            crash::caught(|| app::run(args)).unwrap_or_else(|failure| failure.tell(json))
        }
        Err(error) => usage(&error),
    };
    exit.into()
}

/// Answers `--help` and `--version`, and says what is wrong with the rest.
fn usage(error: &clap::Error) -> Exit {
    let json = std::env::args_os().any(|arg| arg == "--json");
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => Exit::Ok,
            Err(error) => Failure::from(error).tell(json),
        };
    }
    if json {
        let text = error.render().to_string();
        let message = text.trim_start_matches("error: ").trim_end();
        return Failure::usage("usage", message).tell(true);
    }
    let _lost = error.print();
    Exit::Usage
}
