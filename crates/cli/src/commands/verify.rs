//! `folio verify`: recomputes every digest and compares every index.
//!
//! With `--json` one line for each session: `{"session_id","ok","events",
//! "items","facts","findings":[{"code","at","message"}]}`; `at` is the ordinal
//! or sequence that a finding is about, or null. A session that cannot be read
//! has the error as its finding, and `session_id` is null where not even its id
//! can be read. Without a session the store's own files are checked first; what
//! is wrong with them is told on standard error, and the sessions are verified
//! all the same. Findings end the command with exit code 6. Erasures that are
//! not complete are no finding; a warning on standard error tells them.

use crate::app::App;
use crate::failure::{Exit, Failure, advice, warn};
use crate::output::style;
use crate::select;
use crate::text::{count, plain};
use crate::walk::Seen;
use folio_core::SessionId;
use folio_store::{Finding, Store, StoreError, VerifyReport};
use serde_json::{Value, json};

/// Runs the command.
pub async fn run(app: &mut App, session: Option<&str>) -> Result<Exit, Failure> {
    let store = app.reader()?;
    let json = app.out.json;
    let mut exit = Exit::Ok;
    if session.is_none()
        && let Err(error) = store.check().await
    {
        exit = Failure::from(error).tell(json);
    }
    for seen in select::some(&*store, session, json).await? {
        let report = verify(&*store, &seen).await;
        let ok = report.findings.is_empty();
        if !ok {
            exit = Exit::Store;
        }
        if json {
            let line = json!({
                "session_id": seen.id().map(SessionId::as_str),
                "ok": ok,
                "events": report.events,
                "items": report.items,
                "facts": report.facts,
                "findings": to_json(&report.findings),
            });
            app.out.line(&line.to_string())?;
            continue;
        }
        let looked = format!(
            "{}, {}, {}",
            count(report.events, "event"),
            count(report.items, "item"),
            count(report.facts, "note")
        );
        let verdict = if ok {
            app.out.paint(style::USER, "ok")
        } else {
            app.out.paint(style::BAD, "damaged")
        };
        app.out
            .line(&format!("{}  {verdict}  {looked}", seen.name()))?;
        tell(app, &report.findings)?;
    }
    let pending = store.pending_erasures().await?;
    if pending > 0 {
        // What was found is seen before what is still to do.
        app.out.flush()?;
        let message = format!(
            "{} not complete: bytes of what was deleted or redacted are still in the files; \
             `folio maintain` removes them",
            if pending == 1 {
                "1 erasure is".to_owned()
            } else {
                format!("{} are", count(pending, "erasure"))
            }
        );
        warn(json, "erasures_pending", &message);
    }
    if exit != Exit::Ok && !app.out.json {
        app.out.line(
            "Keep the file and restore a copy; `folio rebuild` mends an index that is damaged.",
        )?;
    }
    Ok(exit)
}

async fn verify(store: &dyn Store, seen: &Seen) -> VerifyReport {
    let failed = |error: &StoreError| VerifyReport {
        findings: vec![finding(error)],
        ..VerifyReport::default()
    };
    match seen {
        Seen::Session(info) => match store.verify(&info.id).await {
            Ok(report) => report,
            Err(error) => failed(&error),
        },
        Seen::Damaged(damaged) => failed(&damaged.error),
    }
}

/// An error as a finding about the session that it came from.
pub fn finding(error: &StoreError) -> Finding {
    Finding {
        code: error.code(),
        at: error.ordinals().first().copied(),
        message: advice(error),
    }
}

/// Findings as JSON.
pub fn to_json(findings: &[Finding]) -> Vec<Value> {
    let each = findings.iter();
    each.map(|finding| json!({"code": finding.code, "at": finding.at, "message": finding.message}))
        .collect()
}

/// Writes findings for people.
pub fn tell(app: &mut App, findings: &[Finding]) -> Result<(), Failure> {
    for finding in findings {
        let at = finding.at.map(|at| format!(" at {at}")).unwrap_or_default();
        let text = format!("  {}{at}: {}", finding.code, plain(&finding.message));
        app.out.line(&text)?;
    }
    Ok(())
}
