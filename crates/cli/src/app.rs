//! Wiring: the store that the command line names, and the services over it.

use crate::args::{Args, Command};
use crate::commands;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use etcetera::BaseStrategy;
use folio_store::{Store, StoreError};
use folio_store_sqlite::SqliteConfig;
use folio_transcript::TranscriptService;
use std::path::PathBuf;
use std::sync::Arc;

/// What every command works with.
#[derive(Debug)]
pub struct App {
    /// Where results go.
    pub out: Output,
    place: Place,
}

/// Where the store is.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// The option that names it in a command line, if it has to be named.
    option: Option<String>,
    /// Whether nobody named it: then its folder may be made.
    default: bool,
}

/// Runs a command to its end.
pub fn run(args: Args) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| {
            let message = format!("the program cannot start: {error}");
            Failure::new(Exit::Internal, "runtime_failed", message)
        })?;
    let mut out = Output::new(args.json, args.color);
    if matches!(
        args.command,
        Command::Open { .. } | Command::Import(_) | Command::Rebuild { .. }
    ) {
        // Nobody has to read along for the work to be done.
        out.outlive_reader();
    }
    let mut app = App {
        out,
        place: place(args.store.as_deref())?,
    };
    let exit = runtime.block_on(dispatch(&mut app, args.command));
    // What was written before an error is shown before the error.
    match (exit, app.out.flush()) {
        (Ok(exit), Ok(())) => Ok(exit),
        (Ok(_), Err(failure)) | (Err(failure), _) => Err(failure),
    }
}

async fn dispatch(app: &mut App, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Open { paths } => commands::open::run(app, paths).await,
        Command::Import(options) => commands::import::run(app, options).await,
        Command::Sessions => commands::sessions::run(app).await,
        Command::Show(options) => commands::show::run(app, options).await,
        Command::Stats { session } => commands::stats::run(app, &session).await,
        Command::Events { session, from, to } => {
            commands::events::run(app, &session, from, to).await
        }
        Command::Notes { session } => commands::notes::run(app, &session).await,
        Command::Export { session } => commands::export::run(app, &session).await,
        Command::Verify { session } => commands::verify::run(app, session.as_deref()).await,
        Command::Rebuild { session } => commands::rebuild::run(app, session.as_deref()).await,
    }
}

impl App {
    /// The store, for reading; it is never made.
    pub fn reader(&self) -> Result<Arc<dyn Store>, Failure> {
        let config = SqliteConfig::new(&self.place.path).read_only();
        Ok(Arc::new(folio_store_sqlite::open(&config).map_err(
            |error| self.unusable(&error, "; `folio open` or `folio import PATH` makes one"),
        )?))
    }

    /// The store, for writing; it is never made.
    pub fn writer(&self) -> Result<Arc<dyn Store>, Failure> {
        let config = SqliteConfig::new(&self.place.path).existing();
        Ok(Arc::new(folio_store_sqlite::open(&config).map_err(
            |error| self.unusable(&error, "; `folio open` or `folio import PATH` makes one"),
        )?))
    }

    /// The store, for writing; made if there is none.
    pub fn maker(&self) -> Result<Arc<dyn Store>, Failure> {
        if self.place.default
            && let Some(folder) = self.place.path.parent()
        {
            std::fs::create_dir_all(folder).map_err(|error| {
                let message = format!(
                    "the folder {} cannot be made ({error}); name a store with --store sqlite:PATH",
                    folder.display()
                );
                Failure::new(Exit::Store, "store_unreachable", message)
            })?;
        }
        let config = SqliteConfig::new(&self.place.path);
        Ok(Arc::new(
            folio_store_sqlite::open(&config).map_err(|error| self.unusable(&error, ""))?,
        ))
    }

    /// The read path of a store.
    pub fn transcript(store: &Arc<dyn Store>) -> TranscriptService {
        TranscriptService::new(Arc::clone(store))
    }

    /// A command line that reaches the same store.
    pub fn command(&self, rest: &str) -> String {
        match &self.place.option {
            Some(option) => format!("folio --store {option} {rest}"),
            None => format!("folio {rest}"),
        }
    }

    /// Whatever keeps a store from being opened, the store is what to mend.
    fn unusable(&self, error: &StoreError, hint: &str) -> Failure {
        let hint = if error.code() == "store_missing" {
            hint
        } else {
            ""
        };
        Failure::new(Exit::Store, error.code(), format!("{error}{hint}"))
    }
}

/// The store that was named, or the one in the data folder.
fn place(named: Option<&str>) -> Result<Place, Failure> {
    // A variable that is set to nothing names nothing; an option that is empty
    // is a mistake, such as a variable of a script that was never set.
    let from_environment = std::env::var_os("FOLIO_STORE")
        .filter(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().into_owned());
    if let Some(named) = named.or(from_environment.as_deref()) {
        let path = store_path(named)?;
        let option = (from_environment.as_deref() != Some(named)).then(|| shell_word(named));
        return Ok(Place {
            path,
            option,
            default: false,
        });
    }
    let folders = etcetera::base_strategy::choose_native_strategy().map_err(|error| {
        let message = format!(
            "your data folder is not known ({error}); name a store with --store sqlite:PATH"
        );
        Failure::usage("store_unnamed", message)
    })?;
    Ok(Place {
        path: folders.data_dir().join("folio").join("folio.db"),
        option: None,
        default: true,
    })
}

/// The file that `sqlite:PATH` names.
fn store_path(named: &str) -> Result<PathBuf, Failure> {
    let example = "write it as sqlite:PATH, such as sqlite:sessions.db";
    let wrong = |message| Err(Failure::usage("store_unknown_kind", message));
    match named.strip_prefix("sqlite:") {
        None if named.is_empty() => wrong(format!("the store's name is empty; {example}")),
        None => wrong(format!("{named} names no store; {example}")),
        Some("") => wrong(format!("{named} names no file; {example}")),
        // SQLite's word for a database that is gone when it is closed.
        Some(":memory:") => wrong(format!(
            "a store in memory would be lost when the command ends; {example}"
        )),
        Some(path) => Ok(PathBuf::from(path)),
    }
}

/// A word as a shell takes it.
pub fn shell_word(word: &str) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || "-_./:=+@%,~".contains(c);
    if !word.is_empty() && word.chars().all(simple) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
