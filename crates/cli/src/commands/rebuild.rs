//! `folio rebuild`: drops the item index and makes it anew from the events.
//!
//! With `--json` one line for each session: `{"session_id","version",
//! "index_head","head","items"}`.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::select;
use crate::text::count;
use serde_json::json;

/// Runs the command.
pub async fn run(app: &mut App, session: Option<&str>) -> Result<Exit, Failure> {
    let store = app.writer()?;
    for info in select::some(&*store, session).await? {
        let status = store.rebuild_index(&info.id).await?;
        let line = if app.out.json {
            json!({
                "session_id": info.id.as_str(),
                "version": status.version,
                "index_head": status.index_head,
                "head": status.head,
                "items": status.items,
            })
            .to_string()
        } else {
            format!(
                "{}  {} from {}",
                info.id.as_str(),
                count(status.items, "item"),
                count(status.index_head, "event")
            )
        };
        app.out.line(&line)?;
    }
    store.close().await?;
    Ok(Exit::Ok)
}
