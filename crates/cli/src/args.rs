//! The command line.

use clap::{Args as Options, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The exit codes, for `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0 done              4 not found
  1 internal error    5 invalid request or cursor
  2 wrong usage       6 the store, or a session in it, cannot be used
  3 something was rejected
  130 interrupted: the same command goes on from there

A SESSION is named by its id, by the beginning of its id, or by `latest`.";

/// Keeps the sessions of AI agents in one ledger and shows them page by page.
#[derive(Debug, Parser)]
#[command(name = "folio", version, about, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Args {
    /// The store, as sqlite:PATH, redb:PATH or memory: [default: $FOLIO_STORE, else folio.db in your data folder]
    #[arg(long, global = true, value_name = "STORE")]
    pub store: Option<String>,
    /// Write JSON, one value a line
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find sessions, import them, list them, and show the newest one's last page
    Open {
        /// Files or folders [default: the folders of the agents that are known]
        #[arg(value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Import session files, and what was added to them since
    Import(ImportOptions),
    /// List the sessions of the store
    Sessions,
    /// Show a page of a session, the newest one unless told otherwise
    Show(ShowOptions),
    /// Count what a session holds
    Stats {
        /// The session
        session: String,
    },
    /// List the stored events of a session
    Events {
        /// The session
        session: String,
        /// The first ordinal
        #[arg(long, value_name = "N")]
        from: Option<u64>,
        /// The last ordinal
        #[arg(long, value_name = "N")]
        to: Option<u64>,
    },
    /// List the notes of a session
    Notes {
        /// The session
        session: String,
    },
    /// Write every row of a session as JSON, one a line
    Export {
        /// The session
        session: String,
    },
    /// Check every digest and index of a session, or of all
    Verify {
        /// The session
        session: Option<String>,
    },
    /// Make the index of a session, or of all, anew from the events
    Rebuild {
        /// The session
        session: Option<String>,
    },
    /// Copy sessions from one store into another, which is made if there is none
    Copy(CopyOptions),
    /// Make a session that shares another one's events up to an ordinal
    Fork {
        /// The session
        session: String,
        /// The last event to share [default: the newest]
        #[arg(long, value_name = "ORDINAL")]
        at: Option<u64>,
        /// The id of the new session [default: SESSION-fork-N]
        #[arg(long = "as", value_name = "ID")]
        id: Option<String>,
    },
    /// Delete sessions; `folio maintain` takes their bytes out of the files
    Delete(DeleteOptions),
    /// Take the payload out of rows; `folio maintain` takes its bytes out of the files
    Redact {
        /// The session
        session: String,
        /// The rows, by their keys as `show --json` prints them
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<String>,
    },
    /// Complete deletions and redactions: rewrite the files without what was erased
    Maintain,
}

/// What to copy.
#[derive(Debug, Options)]
pub struct CopyOptions {
    /// The store to copy from
    pub from: String,
    /// The store to copy into
    pub to: String,
    /// A session to copy, as often as needed [default: all]
    #[arg(long = "session", value_name = "SESSION")]
    pub sessions: Vec<String>,
}

/// What to delete.
#[derive(Debug, Options)]
pub struct DeleteOptions {
    /// The sessions
    #[arg(value_name = "SESSION", required = true)]
    pub sessions: Vec<String>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// What to import.
#[derive(Debug, Options)]
pub struct ImportOptions {
    /// Files or folders
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The format, where it must not be guessed
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Close a turn that is still open: the file will not grow any more
    #[arg(long)]
    pub finish: bool,
}

/// Which page to show.
#[derive(Debug, Options)]
pub struct ShowOptions {
    /// The session
    pub session: String,
    /// Go on where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// The page that ends at the place, without one the last page [default]
    #[arg(long, conflicts_with = "newer")]
    pub older: bool,
    /// The page that begins at the place, without one the first page
    #[arg(long)]
    pub newer: bool,
    /// The page with this item
    #[arg(long, value_name = "KEY", conflicts_with = "cursor")]
    pub around: Option<String>,
    /// The page at this ordinal; the first is 1
    #[arg(long, value_name = "ORDINAL", conflicts_with_all = ["cursor", "around"])]
    pub at: Option<u64>,
    /// The most rows of a page; with --all, of one read
    #[arg(long, value_name = "N")]
    pub max_items: Option<usize>,
    /// The most bytes of a page; with --all, of one read
    #[arg(long, value_name = "N")]
    pub max_bytes: Option<usize>,
    /// Where events are missing or damaged: fail, or mark the place and go on
    #[arg(long, value_enum, default_value_t = Gaps::Fail, value_name = "WHAT")]
    pub on_gap: Gaps,
    /// Everything, from the beginning; takes no place or direction
    #[arg(long, conflicts_with_all = ["cursor", "older", "newer", "around", "at"])]
    pub all: bool,
}

/// What a gap does to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Gaps {
    /// Fail
    Fail,
    /// Mark the place and go on
    Mark,
}

#[cfg(test)]
mod tests {
    use super::Args;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
