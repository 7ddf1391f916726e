//! `folio import`: brings session files into the store.
//!
//! With `--json` one line for each session found, as soon as it is done:
//! `{"path","format","session_id":id|null,"outcome":"imported"|"grown"|
//! "unchanged"|"skipped"|"rejected","events_added","row_count","children":
//! [id],"diagnostics":[{"code","message","line"?,"detail"?}],
//! "diagnostics_total"}`. A file that is rejected does not keep the others
//! from being imported; the command then ends with exit code 3. Where the store
//! itself fails, the file at hand is told as rejected and the command ends with
//! exit code 6. A closed output ends nothing: the rest is imported unseen, and
//! the exit code tells how it went. Ctrl-C stops
//! between two batches with exit code 130, a second one at once; the same
//! command goes on from there.

use crate::app::App;
use crate::args::ImportOptions as Options;
use crate::failure::{Exit, Failure, advice, exit_of};
use crate::output::{Output, style};
use crate::text::{count, number, plain};
use anstyle::Style;
use folio_core::SessionId;
use folio_import::{
    Diagnostic, Discovery, Format, ImportError, ImportOptions, Importer, Outcome, Progress,
    Verdict, discover,
};
use folio_store::{ErrorKind, Store};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::SIGINT;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most files of which each is told about, whatever became of it.
const FEW: usize = 10;
/// The most diagnostics of a file that people are told.
const TOLD: usize = 5;
/// How often the bar moves while nothing is read.
const TICK: Duration = Duration::from_millis(200);

/// Runs the command.
pub async fn run(app: &mut App, options: Options) -> Result<Exit, Failure> {
    let format = options.format.as_deref().map(format_of).transpose()?;
    let found = find(&options.paths, format)?;
    let store = if found.files.is_empty() {
        None
    } else {
        Some(app.maker()?)
    };
    let mut report = Report::new(&found, str::to_owned);
    let import = ImportOptions {
        format,
        finish: options.finish,
        ..ImportOptions::default()
    };
    import_all(&mut app.out, store.as_ref(), &found, import, &mut report).await?;
    if let Some(store) = store {
        store.close().await?;
    }
    report.end(&mut app.out)?;
    report.exit()
}

/// The files under some paths, all of which exist.
pub fn find(paths: &[PathBuf], format: Option<Format>) -> Result<Discovery, Failure> {
    for path in paths {
        if let Err(error) = std::fs::symlink_metadata(path)
            && error.kind() == std::io::ErrorKind::NotFound
        {
            let message = format!("there is no {}; name a file or a folder", path.display());
            return Err(Failure::not_found("path_not_found", message));
        }
    }
    Ok(discover(paths, format))
}

/// Imports what was found, and reports each file as soon as it is done.
pub async fn import_all(
    out: &mut Output,
    store: Option<&Arc<dyn Store>>,
    found: &Discovery,
    mut options: ImportOptions,
    report: &mut Report,
) -> Result<(), Failure> {
    for outcome in &found.refused {
        report.add(out, outcome)?;
    }
    let Some(store) = store else { return Ok(()) };
    let cancel = Arc::new(AtomicBool::new(false));
    interruptible(&cancel)?;
    options.cancel = Some(Arc::clone(&cancel));
    let importer = Importer::new(Arc::clone(store));
    let mut bar = Bar::over(&found.files);
    for path in &found.files {
        if cancel.load(Ordering::Relaxed) {
            return Err(interrupted(path));
        }
        options.progress = Some(bar.follow(path));
        let (outcome, end) = match importer.import_path(path, &options).await {
            Ok(outcome) => (outcome, None),
            Err(ImportError::Interrupted { path }) => return Err(interrupted(&path)),
            Err(error) => refused(path, &error),
        };
        bar.done(path);
        bar.bar.suspend(|| report.add(out, &outcome))?;
        if let Some(end) = end {
            return Err(end);
        }
    }
    Ok(())
}

/// The outcome of a file that was not imported, and, where what kept it out
/// keeps the others out too, how the import ends.
fn refused(path: &Path, error: &ImportError) -> (Outcome, Option<Failure>) {
    let told = path.display().to_string();
    let ImportError::Store(error) = error else {
        let outcome = Outcome::rejected(told, error.code(), error.to_string());
        return (outcome, None);
    };
    let message = advice(error);
    let end = match error.kind() {
        ErrorKind::Corrupt | ErrorKind::Conflict | ErrorKind::Invalid => None,
        _ => Some(Failure::new(
            exit_of(error),
            error.code(),
            format!("{told}: {message}"),
        )),
    };
    (Outcome::rejected(told, error.code(), message), end)
}

fn interrupted(path: &Path) -> Failure {
    let message = format!(
        "interrupted at {}; the same command goes on from there",
        path.display()
    );
    Failure::new(Exit::Interrupted, "interrupted", message)
}

/// Lets the first Ctrl-C set a flag and the second one end the program.
pub fn interruptible(cancel: &Arc<AtomicBool>) -> Result<(), Failure> {
    let code = Exit::Interrupted as i32;
    // In this order: the first signal finds the flag unset.
    signal_hook::flag::register_conditional_shutdown(SIGINT, code, Arc::clone(cancel))
        .and_then(|_| signal_hook::flag::register(SIGINT, Arc::clone(cancel)))
        .map(|_| ())
        .map_err(|error| {
            let message = format!("Ctrl-C cannot be watched: {error}");
            Failure::new(Exit::Internal, "signal_failed", message)
        })
}

fn format_of(name: &str) -> Result<Format, Failure> {
    Format::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        let message = format!("there is no format {name}; known are: {}", known.join(", "));
        Failure::usage("format_unknown", message)
    })
}

/// The progress over all files, by bytes; shown on a terminal only.
struct Bar {
    bar: ProgressBar,
    /// Bytes of the files that are done.
    done: u64,
}

impl Bar {
    fn over(files: &[PathBuf]) -> Self {
        let total = files.iter().map(|path| length(path)).sum();
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(
            "{bar:24} {binary_bytes} of {binary_total_bytes}  {wide_msg}",
        ) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, done: 0 }
    }

    /// Shows the progress of one file behind those that are done.
    fn follow(&self, path: &Path) -> folio_import::OnProgress {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.bar.set_message(plain(&name));
        let bar = self.bar.clone();
        let before = self.done;
        Arc::new(move |progress: Progress| {
            bar.set_position(before.saturating_add(progress.done.min(progress.total)));
        })
    }

    fn done(&mut self, path: &Path) {
        self.done = self.done.saturating_add(length(path));
        self.bar.set_position(self.done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// What became of the files.
pub struct Report {
    /// Writes an outcome's line as JSON.
    json: fn(&str) -> String,
    files: usize,
    counts: [u64; 5],
    known: HashSet<SessionId>,
    /// The sessions that the files are in, each once.
    pub sessions: Vec<SessionId>,
}

impl Report {
    /// A report on what was found; `json` makes a line of an outcome.
    pub fn new(found: &Discovery, json: fn(&str) -> String) -> Self {
        Self {
            json,
            files: found.files.len() + found.refused.len(),
            counts: [0; 5],
            known: HashSet::new(),
            sessions: Vec::new(),
        }
    }

    fn add(&mut self, out: &mut Output, outcome: &Outcome) -> Result<(), Failure> {
        let (slot, style) = kind_of(outcome.outcome);
        if let Some(count) = self.counts.get_mut(slot) {
            *count += 1;
        }
        if outcome.outcome != Verdict::Rejected {
            for id in outcome.session_id.iter().chain(&outcome.children) {
                if self.known.insert(id.clone()) {
                    self.sessions.push(id.clone());
                }
            }
        }
        if out.json {
            out.line(&(self.json)(&outcome.to_json()))?;
            return out.flush();
        }
        let quiet = matches!(outcome.outcome, Verdict::Unchanged | Verdict::Skipped);
        if quiet && self.files > FEW {
            return Ok(());
        }
        tell(out, outcome, style)?;
        out.flush()
    }

    /// Says how many files became what.
    pub fn end(&self, out: &mut Output) -> Result<(), Failure> {
        if out.json || self.files < 2 {
            return Ok(());
        }
        let names = [
            "imported",
            "grown",
            "unchanged",
            "without a conversation",
            "rejected",
        ];
        let parts: Vec<String> = self
            .counts
            .iter()
            .zip(names)
            .filter(|(count, _)| **count > 0)
            .map(|(count, name)| format!("{} {name}", number(*count)))
            .collect();
        out.line(&out.paint(style::DIM, &parts.join(", ")))
    }

    /// How the command ends.
    pub fn exit(&self) -> Result<Exit, Failure> {
        let [.., rejected] = self.counts;
        if rejected == 0 {
            return Ok(Exit::Ok);
        }
        let all: u64 = self.counts.iter().sum();
        let message = format!(
            "{} of {} rejected; the output says why",
            number(rejected),
            count(all, "source")
        );
        Err(Failure::new(Exit::Rejected, "rejected", message))
    }
}

/// Where an outcome is counted, and how it is painted.
fn kind_of(verdict: Verdict) -> (usize, Style) {
    match verdict {
        Verdict::Imported => (0, style::USER),
        Verdict::Grown => (1, style::USER),
        Verdict::Unchanged => (2, style::DIM),
        Verdict::Skipped => (3, style::DIM),
        _ => (4, style::BAD),
    }
}

/// Writes an outcome for people.
fn tell(out: &mut Output, outcome: &Outcome, style: Style) -> Result<(), Failure> {
    let verdict = out.paint(style, &format!("{:9}", outcome.outcome.as_str()));
    let path = plain(&outcome.path).replace('\n', " ");
    let line = match &outcome.session_id {
        Some(id) => {
            let facts = format!(
                "{} added, {}",
                count(outcome.events_added, "event"),
                count(outcome.row_count, "row")
            );
            format!(
                "{verdict}  {}  {facts}  {}",
                id.as_str(),
                out.paint(style::DIM, &path)
            )
        }
        None => format!("{verdict}  {path}"),
    };
    out.line(&line)?;
    // What was merely noticed may wait; why something was rejected may not.
    let limit = match outcome.outcome {
        Verdict::Rejected => outcome.diagnostics.len(),
        _ => TOLD,
    };
    for diagnostic in outcome.diagnostics.iter().take(limit) {
        let line = noticed(diagnostic);
        out.line(&format!("           {}", plain(&line).replace('\n', " ")))?;
    }
    let told = outcome.diagnostics.len().min(limit) as u64;
    let hidden = outcome.diagnostics_total.saturating_sub(told);
    if hidden > 0 {
        let text = format!("… {}", count(hidden, "more remark"));
        out.line(&format!("           {}", out.paint(style::DIM, &text)))?;
    }
    Ok(())
}

fn noticed(diagnostic: &Diagnostic) -> String {
    let line = match diagnostic.line {
        Some(line) => format!("line {line}: "),
        None => String::new(),
    };
    let detail = match &diagnostic.detail {
        Some(detail) => format!(" ({detail})"),
        None => String::new(),
    };
    format!("{line}{}{detail}", diagnostic.message)
}
