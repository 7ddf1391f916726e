//! `folio fork`: makes a session that shares the events of another one up to
//! an ordinal, and goes on by itself.
//!
//! With `--json` one line: `{"session_id","forked_from","at","items","chain"}`.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::select;
use crate::text::{count, hex, quoted};
use folio_core::SessionId;
use folio_store::{SessionInfo, Store, StoreError};
use serde_json::json;

/// The most forks of one session that are named by themselves.
const MAX_NAMED: u32 = 10_000;

/// Runs the command.
pub async fn run(
    app: &mut App,
    session: &str,
    at: Option<u64>,
    id: Option<&str>,
) -> Result<Exit, Failure> {
    if at == Some(0) {
        let message = "--at is 0, and the first event has the ordinal 1; write 1 or more";
        return Err(Failure::new(Exit::Invalid, "ordinal_invalid", message));
    }
    let id = id.map(new_id).transpose()?;
    let store = app.writer()?;
    let parent = select::session(&*store, session, app.out.json).await?;
    let at = at.unwrap_or(parent.head);
    let child = match id {
        Some(id) => store.fork_session(&parent.id, at, id).await?,
        None => fork_by_number(&*store, &parent.id, at).await?,
    };
    store.close().await?;
    let line = if app.out.json {
        json!({
            "session_id": child.id.as_str(),
            "forked_from": parent.id.as_str(),
            "at": at,
            "items": child.items,
            "chain": hex(&child.chain),
        })
        .to_string()
    } else {
        format!(
            "{}  fork of {} at {at}, {}",
            child.id,
            parent.id,
            count(child.items, "item")
        )
    };
    app.out.line(&line)?;
    Ok(Exit::Ok)
}

/// Forks under the first free id of `PARENT-fork-1`, `PARENT-fork-2` and so on.
async fn fork_by_number(
    store: &dyn Store,
    parent: &SessionId,
    at: u64,
) -> Result<SessionInfo, Failure> {
    for n in 1..=MAX_NAMED {
        let id = new_id(&format!("{parent}-fork-{n}"))?;
        match store.session(&id).await {
            Err(error) if error.code() == "session_not_found" => {}
            // Damaged or not, the id is taken.
            _ => continue,
        }
        match store.fork_session(parent, at, id).await {
            // Somebody else was faster.
            Err(error) if error.code() == "session_exists" => {}
            forked => return Ok(forked?),
        }
    }
    let message = format!("session {parent} has {MAX_NAMED} forks; name this one with --as");
    Err(StoreError::invalid("limit_exceeded", message).into())
}

fn new_id(id: &str) -> Result<SessionId, Failure> {
    if id == select::LATEST {
        let message =
            format!("{id} names the newest session everywhere; give another id with --as");
        return Err(Failure::usage("session_id_invalid", message));
    }
    SessionId::new(id).map_err(|error| {
        let id = quoted(id);
        let message = format!("{id} cannot name a session ({error}); give another id with --as");
        Failure::usage("session_id_invalid", message)
    })
}
