//! Wiring: the store that the command line names, and the services over it.

use crate::args::{Args, Command};
use crate::commands;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::place::{Access, Place, unusable};
use etcetera::BaseStrategy;
use folio_store::Store;
use folio_transcript::TranscriptService;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What every command works with.
#[derive(Debug)]
pub struct App {
    /// Where results go.
    pub out: Output,
    named: Named,
}

/// The store that the command is about.
#[derive(Debug)]
struct Named {
    place: Place,
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
        Command::Open { .. }
            | Command::Import(_)
            | Command::Rebuild { .. }
            | Command::Copy(_)
            | Command::Delete(_)
            | Command::Maintain
    ) {
        // Nobody has to read along for the work to be done.
        out.outlive_reader();
    }
    if let (Command::Copy(_), Some(_)) = (&args.command, &args.store) {
        let message = "copy names both of its stores itself; leave --store out";
        return Err(Failure::usage("usage", message));
    }
    let mut app = App {
        out,
        named: named(args.store.as_deref(), &args.command)?,
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
        Command::Copy(options) => commands::copy::run(app, options).await,
        Command::Fork { session, at, id } => {
            commands::fork::run(app, &session, at, id.as_deref()).await
        }
        Command::Delete(options) => commands::delete::run(app, options).await,
        Command::Redact { session, keys } => commands::redact::run(app, &session, &keys).await,
        Command::Maintain => commands::maintain::run(app).await,
    }
}

impl App {
    /// The store, for reading; it is never made.
    pub fn reader(&self) -> Result<Arc<dyn Store>, Failure> {
        self.open(Access::Read)
    }

    /// The store, for writing; it is never made.
    pub fn writer(&self) -> Result<Arc<dyn Store>, Failure> {
        self.open(Access::Write)
    }

    /// The store, for writing; made if there is none.
    pub fn maker(&self) -> Result<Arc<dyn Store>, Failure> {
        if self.named.default
            && let Some(folder) = self.named.place.path().and_then(Path::parent)
        {
            make_private(folder).map_err(|error| {
                let message = format!(
                    "the folder {} cannot be made ({error}); name a store with --store sqlite:PATH",
                    folder.display()
                );
                Failure::new(Exit::Store, code_of(&error), message)
            })?;
        }
        self.open(Access::Make)
    }

    fn open(&self, access: Access) -> Result<Arc<dyn Store>, Failure> {
        let hint = match access {
            Access::Read | Access::Write => "; `folio open` or `folio import PATH` makes one",
            Access::Make => "",
        };
        let opened = self.named.place.open(access);
        opened.map_err(|error| unusable(&error, hint))
    }

    /// Whether a later command finds what this one stores.
    pub fn keeps(&self) -> bool {
        self.named.place != Place::Memory
    }

    /// The read path of a store.
    pub fn transcript(store: &Arc<dyn Store>) -> TranscriptService {
        TranscriptService::new(Arc::clone(store))
    }

    /// A command line that reaches the same store.
    pub fn command(&self, rest: &str) -> String {
        match &self.named.option {
            Some(option) => format!("folio --store {option} {rest}"),
            None => format!("folio {rest}"),
        }
    }
}

/// The store that was named, or the one in the data folder.
fn named(option: Option<&str>, command: &Command) -> Result<Named, Failure> {
    // A variable that is set to nothing names nothing; an option that is empty
    // is a mistake, such as a variable of a script that was never set.
    let from_environment = std::env::var_os("FOLIO_STORE")
        .filter(|value| !value.is_empty())
        .map(|value| value.to_string_lossy().into_owned());
    // A copy has its own two, whatever the variable says.
    if let Command::Copy(_) = command {
        return Ok(Named {
            place: Place::Memory,
            option: None,
            default: false,
        });
    }
    if let Some(named) = option.or(from_environment.as_deref()) {
        let place = Place::parse(named)?;
        let option = (from_environment.as_deref() != Some(named)).then(|| shell_word(named));
        return Ok(Named {
            place,
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
    Ok(Named {
        place: Place::Sqlite(folders.data_dir().join("folio").join("folio.db")),
        option: None,
        default: true,
    })
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

/// The code that a store has for what keeps its folder from being made.
fn code_of(error: &io::Error) -> &'static str {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem => "store_read_only",
        StorageFull | QuotaExceeded => "storage_full",
        _ => "store_unreachable",
    }
}

/// Makes a folder that only its owner can look into, where there is none:
/// transcripts are private.
fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
