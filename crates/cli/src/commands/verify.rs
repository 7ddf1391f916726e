//! `folio verify`: recomputes every digest and compares every index.
//!
//! With `--json` one line for each session: `{"session_id","ok","events",
//! "items","facts","findings":[{"code","at","message"}]}`; `at` is the ordinal
//! or sequence that a finding is about, or null. Without a session the store's
//! own files are checked first. Findings end the command with exit code 6.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::select;
use crate::text::{count, plain};
use serde_json::json;

/// Runs the command.
pub async fn run(app: &mut App, session: Option<&str>) -> Result<Exit, Failure> {
    let store = app.reader()?;
    if session.is_none() {
        store.check().await?;
    }
    let mut exit = Exit::Ok;
    for info in select::some(&*store, session).await? {
        let report = store.verify(&info.id).await?;
        let ok = report.findings.is_empty();
        if !ok {
            exit = Exit::Store;
        }
        if app.out.json {
            let findings: Vec<_> = report
                .findings
                .iter()
                .map(|finding| {
                    json!({"code": finding.code, "at": finding.at, "message": finding.message})
                })
                .collect();
            let line = json!({
                "session_id": info.id.as_str(),
                "ok": ok,
                "events": report.events,
                "items": report.items,
                "facts": report.facts,
                "findings": findings,
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
            .line(&format!("{}  {verdict}  {looked}", info.id.as_str()))?;
        for finding in &report.findings {
            let at = finding.at.map(|at| format!(" at {at}")).unwrap_or_default();
            let text = format!("  {}{at}: {}", finding.code, plain(&finding.message));
            app.out.line(&text)?;
        }
    }
    if exit != Exit::Ok && !app.out.json {
        app.out.line(
            "Keep the file and restore a copy; `folio rebuild` mends an index that is damaged.",
        )?;
    }
    Ok(exit)
}
