//! `folio rebuild`: drops the item index and makes it anew from the events.
//!
//! With `--json` one line for each session: `{"session_id","version",
//! "index_head","head","items"}`, or `{"session_id","findings":[{"code","at",
//! "message"}]}` where it cannot be read; `session_id` is then null where not
//! even its id can be read. The others are rebuilt all the same, and the command
//! ends with exit code 6.

use super::verify::{finding, tell, to_json};
use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::select;
use crate::text::count;
use crate::walk::Seen;
use folio_core::SessionId;
use folio_store::{Finding, IndexStatus, Store};
use serde_json::json;

/// Runs the command.
pub async fn run(app: &mut App, session: Option<&str>) -> Result<Exit, Failure> {
    let store = app.writer()?;
    let mut exit = Exit::Ok;
    for seen in select::some(&*store, session, app.out.json).await? {
        match rebuild(&*store, &seen).await {
            Ok(status) => {
                let line = if app.out.json {
                    json!({
                        "session_id": seen.id().map(SessionId::as_str),
                        "version": status.version,
                        "index_head": status.index_head,
                        "head": status.head,
                        "items": status.items,
                    })
                    .to_string()
                } else {
                    format!(
                        "{}  {} from {}",
                        seen.name(),
                        count(status.items, "item"),
                        count(status.index_head, "event")
                    )
                };
                app.out.line(&line)?;
            }
            Err(finding) => {
                exit = Exit::Store;
                unread(app, &seen, finding)?;
            }
        }
    }
    store.close().await?;
    Ok(exit)
}

async fn rebuild(store: &dyn Store, seen: &Seen) -> Result<IndexStatus, Finding> {
    match seen {
        Seen::Session(info) => {
            let done = store.rebuild_index(&info.id).await;
            done.map_err(|error| finding(&error))
        }
        Seen::Damaged(damaged) => Err(finding(&damaged.error)),
    }
}

/// Writes the line of a session that cannot be rebuilt.
fn unread(app: &mut App, seen: &Seen, finding: Finding) -> Result<(), Failure> {
    let findings = [finding];
    if app.out.json {
        let line = json!({
            "session_id": seen.id().map(SessionId::as_str),
            "findings": to_json(&findings),
        });
        return app.out.line(&line.to_string());
    }
    let verdict = app.out.paint(style::BAD, "not rebuilt");
    app.out.line(&format!("{}  {verdict}", seen.name()))?;
    tell(app, &findings)
}
