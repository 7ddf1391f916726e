//! `folio delete`: deletes sessions. Nobody finds them any more at once; their
//! bytes are gone from the files after `folio maintain`.
//!
//! With `--json` one line for each: `{"session_id","outcome":"deleted"}`. All
//! names are looked up before anything is deleted. A session that is not
//! complete is named by its whole id.

use crate::app::App;
use crate::args::DeleteOptions;
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::select;
use crate::text::count;
use folio_core::{Authority, SessionId};
use folio_store::{SessionInfo, Store};
use serde_json::json;
use std::io::{self, BufRead, IsTerminal, Write};

/// Runs the command.
pub async fn run(app: &mut App, options: DeleteOptions) -> Result<Exit, Failure> {
    let store = app.writer()?;
    let mut chosen: Vec<SessionInfo> = Vec::new();
    for word in &options.sessions {
        let info = find(&*store, word, app.out.json).await?;
        if chosen.iter().all(|known| known.id != info.id) {
            chosen.push(info);
        }
    }
    if !options.yes && !confirmed(&chosen)? {
        if !app.out.json {
            app.out.line("Nothing was deleted.")?;
        }
        return Ok(Exit::Ok);
    }
    for info in &chosen {
        store.delete_session(&info.id, None).await?;
        let line = if app.out.json {
            json!({"session_id": info.id.as_str(), "outcome": "deleted"}).to_string()
        } else {
            format!("{}  deleted, {}", info.id, count(info.head, "event"))
        };
        app.out.line(&line)?;
        app.out.flush()?;
    }
    store.close().await?;
    if !app.out.json {
        let text = format!(
            "The bytes are gone from the files after `{}`.",
            app.command("maintain")
        );
        app.out.line(&app.out.paint(style::DIM, &text))?;
    }
    Ok(Exit::Ok)
}

/// The session that a word names; one that is not complete by its whole id.
async fn find(store: &dyn Store, word: &str, json: bool) -> Result<SessionInfo, Failure> {
    if let Ok(id) = SessionId::new(word)
        && let Ok(info) = store.session(&id).await
        && info.authority == Authority::Preparing
    {
        return Ok(info);
    }
    select::session(store, word, json).await
}

/// Asks whoever sits at the terminal.
fn confirmed(chosen: &[SessionInfo]) -> Result<bool, Failure> {
    let what = match chosen {
        [one] => format!("session {} ({})", one.id, count(one.head, "event")),
        many => count(many.len() as u64, "session"),
    };
    if !io::stdin().is_terminal() {
        let message = format!("nobody can be asked whether to delete {what}; add --yes");
        return Err(Failure::usage("confirmation_needed", message));
    }
    let mut terminal = io::stderr().lock();
    write!(terminal, "Delete {what} for good? [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
