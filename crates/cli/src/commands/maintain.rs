//! `folio maintain`: completes deletions and redactions. What is left of them
//! is removed, blobs that nobody cites go, and the files are rewritten, so that
//! no byte of it is in them.
//!
//! With `--json` one line: `{"completed","blobs","pending"}`: erasures that are
//! complete now, blobs that were removed, and erasures that others began
//! meanwhile.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::text::{count, number};
use serde_json::json;

/// Runs the command.
pub async fn run(app: &mut App) -> Result<Exit, Failure> {
    let store = app.writer()?;
    let done = store.scrub().await?;
    let pending = store.pending_erasures().await?;
    store.close().await?;
    if app.out.json {
        let line = json!({
            "completed": done.completed,
            "blobs": done.blobs,
            "pending": pending,
        });
        app.out.line(&line.to_string())?;
        return Ok(Exit::Ok);
    }
    let line = if done.completed == 0 && done.blobs == 0 {
        "Nothing was left to erase.".to_owned()
    } else {
        format!(
            "{} completed, {} removed, the files rewritten.",
            count(done.completed, "erasure"),
            count(done.blobs, "blob")
        )
    };
    app.out.line(&line)?;
    if pending > 0 {
        let text = format!("{} not complete yet; run it again.", number(pending));
        app.out.line(&text)?;
    }
    Ok(Exit::Ok)
}
