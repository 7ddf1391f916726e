//! `folio copy`: copies sessions from one store into another, of whatever kind.
//!
//! With `--json` one line for each session, by id: `{"session_id","outcome":
//! "copied"|"unchanged"|"skipped"|"failed","events","notes","blobs","error":
//! {"code","message"}|null}`. `notes` are the entries of all logs beside the
//! ledger, `blobs` those that the other store did not have. Sessions that are
//! not complete or were rejected are skipped, and `error` says why. A session
//! that fails keeps no other from being copied; the command then ends with exit
//! code 3. Where a store itself fails, the command ends with exit code 6. A
//! copy that was killed, or stopped with Ctrl-C (exit code 130), stays hidden;
//! the same command goes on from there.

use super::import::interruptible;
use crate::app::App;
use crate::args::CopyOptions as Options;
use crate::failure::{Exit, Failure, advice, exit_of};
use crate::output::style;
use crate::place::{Access, Place, unusable};
use crate::select;
use crate::text::{count, number, plain};
use crate::walk::Seen;
use folio_core::{Authority, SessionId};
use folio_store::{
    CopyOptions, CopyOutcome, CopyReport, ErrorKind, SessionFilter, Store, StoreError, copy_session,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What became of a session.
enum Outcome {
    Done(CopyReport),
    Skipped(&'static str, String),
    Failed(StoreError),
}

/// Runs the command.
pub async fn run(app: &mut App, options: Options) -> Result<Exit, Failure> {
    let (from, to) = (Place::parse(&options.from)?, Place::parse(&options.to)?);
    if from.is_same(&to) {
        let message = "both stores are the same file; name another one to copy into";
        return Err(Failure::usage("copy_same_store", message));
    }
    if matches!(to, Place::Memory) {
        let message = "a copy in memory would be gone when the command ends; name a file";
        return Err(Failure::usage("store_unknown_kind", message));
    }
    let from = from.open(Access::Read);
    let from =
        from.map_err(|error| unusable(&error, "; the sessions were to be copied from there"))?;
    let chosen = choose(&*from, &options.sessions, app.out.json).await?;
    // Nothing is made where nothing is to be copied.
    let to = to.open(Access::Make);
    let to = to.map_err(|error| unusable(&error, ""))?;
    let cancel = Arc::new(AtomicBool::new(false));
    interruptible(&cancel)?;
    let options = CopyOptions {
        cancel: Some(cancel),
        ..CopyOptions::default()
    };
    let mut report = Report::default();
    for seen in &chosen {
        let (outcome, end) = match copy(&*from, &*to, seen, &options).await {
            Ok(outcome) => (outcome, None),
            Err(error) => {
                let message = format!("{}: {}", seen.name(), advice(&error));
                let end = Failure::new(exit_of(&error), error.code(), message);
                (Outcome::Failed(error), Some(end))
            }
        };
        report.add(app, seen, &outcome)?;
        if let Some(end) = end {
            return Err(end);
        }
    }
    to.close().await?;
    report.end(app)
}

/// The sessions to copy.
async fn choose(from: &dyn Store, words: &[String], json: bool) -> Result<Vec<Seen>, Failure> {
    if words.is_empty() {
        return Ok(select::listed(from, SessionFilter::All).await?);
    }
    let mut chosen: Vec<Seen> = Vec::new();
    for word in words {
        let info = select::session(from, word, json).await?;
        if chosen.iter().all(|seen| seen.id() != Some(&info.id)) {
            chosen.push(Seen::Session(Box::new(info)));
        }
    }
    Ok(chosen)
}

/// Copies a session. What keeps it alone from being copied is its outcome; an
/// error keeps the others from it too.
async fn copy(
    from: &dyn Store,
    to: &dyn Store,
    seen: &Seen,
    options: &CopyOptions,
) -> Result<Outcome, StoreError> {
    let info = match seen {
        Seen::Session(info) => info,
        Seen::Damaged(damaged) => {
            let error = StoreError::corrupt(damaged.error.code(), damaged.error.to_string());
            return Ok(Outcome::Failed(error));
        }
    };
    let skipped = |code, why: &str| Ok(Outcome::Skipped(code, why.to_owned()));
    match info.authority {
        Authority::RuntimeEvents => {}
        Authority::Preparing => {
            return skipped("session_preparing", "its import or copy is not complete");
        }
        Authority::Rejected => {
            return skipped("session_rejected", "its import rejected it");
        }
    }
    match copy_session(from, to, &info.id, options).await {
        Ok(report) => Ok(Outcome::Done(report)),
        Err(error) => match error.kind() {
            ErrorKind::Corrupt
            | ErrorKind::Conflict
            | ErrorKind::Invalid
            | ErrorKind::NotFound
            | ErrorKind::Unsupported => Ok(Outcome::Failed(error)),
            _ => Err(error),
        },
    }
}

/// What became of the sessions.
#[derive(Default)]
struct Report {
    copied: u64,
    unchanged: u64,
    skipped: u64,
    failed: u64,
}

impl Report {
    fn add(&mut self, app: &mut App, seen: &Seen, outcome: &Outcome) -> Result<(), Failure> {
        let (name, paint, counter) = match outcome {
            Outcome::Done(report) if report.outcome == CopyOutcome::Copied => {
                ("copied", style::USER, &mut self.copied)
            }
            Outcome::Done(_) => ("unchanged", style::DIM, &mut self.unchanged),
            Outcome::Skipped(..) => ("skipped", style::DIM, &mut self.skipped),
            Outcome::Failed(_) => ("failed", style::BAD, &mut self.failed),
        };
        *counter += 1;
        let (report, error) = match outcome {
            Outcome::Done(report) => (Some(report), None),
            Outcome::Skipped(code, why) => (None, Some((*code, why.clone()))),
            Outcome::Failed(error) => (None, Some((error.code(), advice(error)))),
        };
        let line = if app.out.json {
            json!({
                "session_id": seen.id().map(SessionId::as_str),
                "outcome": name,
                "events": report.map(|report| report.events),
                "notes": report.map(|report| report.facts),
                "blobs": report.map(|report| report.blobs),
                "error": error.map_or(Value::Null, |(code, message)| {
                    json!({"code": code, "message": message})
                }),
            })
            .to_string()
        } else {
            let verdict = app.out.paint(paint, &format!("{name:9}"));
            let rest = match (report, error) {
                (Some(report), _) => facts(report),
                (None, Some((_, why))) => plain(&why).replace('\n', " "),
                (None, None) => String::new(),
            };
            format!("{verdict}  {}  {rest}", seen.name())
        };
        app.out.line(&line)?;
        app.out.flush()
    }

    /// Says how many sessions became what, and how the command ends.
    fn end(&self, app: &mut App) -> Result<Exit, Failure> {
        let parts: Vec<String> = [
            (self.copied, "copied"),
            (self.unchanged, "unchanged"),
            (self.skipped, "skipped"),
            (self.failed, "failed"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{} {name}", number(count)))
        .collect();
        if !app.out.json {
            let text = if parts.is_empty() {
                "The store holds no session.".to_owned()
            } else {
                parts.join(", ")
            };
            app.out.line(&app.out.paint(style::DIM, &text))?;
        }
        if self.failed == 0 {
            return Ok(Exit::Ok);
        }
        let all = self.copied + self.unchanged + self.skipped + self.failed;
        let message = format!(
            "{} of {} failed; the output says why",
            number(self.failed),
            count(all, "session")
        );
        Err(Failure::new(Exit::Rejected, "copy_failed", message))
    }
}

/// What was copied.
fn facts(report: &CopyReport) -> String {
    let mut parts = vec![count(report.events, "event")];
    if report.facts > 0 {
        parts.push(count(report.facts, "note"));
    }
    if report.blobs > 0 {
        parts.push(count(report.blobs, "new blob"));
    }
    parts.join(", ")
}
