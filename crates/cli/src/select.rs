//! Which session is meant: an id, the beginning of one, or `latest`.

use crate::failure::Failure;
use folio_core::{Authority, SessionId};
use folio_store::{SessionFilter, SessionInfo, Store, StoreError};

/// Sessions of one slice of a listing.
const SLICE: usize = 500;
/// The most candidates that are named.
const NAMED: usize = 10;

/// The session that a word names.
pub async fn session(store: &dyn Store, word: &str) -> Result<SessionInfo, Failure> {
    let unknown = || {
        let message = format!("there is no session {word}; `folio sessions` lists them");
        Failure::not_found("session_not_found", message)
    };
    let id = SessionId::new(word).map_err(|_| unknown())?;
    match store.session(&id).await {
        Ok(info) if info.authority != Authority::Preparing => return Ok(info),
        Ok(_) => {
            let message = format!("the import of session {word} is not done; import it again");
            return Err(Failure::not_found("session_preparing", message));
        }
        Err(error) if error.code() == "session_not_found" => {}
        Err(error) => return Err(error.into()),
    }
    if word == "latest" {
        return latest(store, all(store).await?).await?.ok_or_else(|| {
            let message =
                "the store holds no session; `folio open` or `folio import PATH` adds some";
            Failure::not_found("session_not_found", message)
        });
    }
    // Ids that begin with the word follow it directly.
    let mut found = store
        .sessions(SessionFilter::Readable, Some(id), NAMED + 1)
        .await?;
    found.retain(|info| info.id.as_str().starts_with(word));
    match (found.pop(), found.len()) {
        (None, _) => Err(unknown()),
        (Some(info), 0) => Ok(info),
        (Some(last), others) => {
            let mut names: Vec<&str> = found.iter().map(|info| info.id.as_str()).collect();
            if others < NAMED {
                names.push(last.id.as_str());
            } else {
                names.push("…");
            }
            let message = format!(
                "{word} is the beginning of several sessions; write more of one: {}",
                names.join(", ")
            );
            Err(Failure::usage("session_ambiguous", message))
        }
    }
}

/// The sessions that a command without a name is about, or the named one.
pub async fn some(store: &dyn Store, word: Option<&str>) -> Result<Vec<SessionInfo>, Failure> {
    match word {
        Some(word) => Ok(vec![session(store, word).await?]),
        None => Ok(all(store).await?),
    }
}

/// Every session that can be read, by id.
pub async fn all(store: &dyn Store) -> Result<Vec<SessionInfo>, StoreError> {
    let mut out: Vec<SessionInfo> = Vec::new();
    loop {
        let after = out.last().map(|info| info.id.clone());
        let slice = store
            .sessions(SessionFilter::Readable, after, SLICE)
            .await?;
        let done = slice.len() < SLICE;
        out.extend(slice);
        if done {
            return Ok(out);
        }
    }
}

/// The session whose last event is the newest.
pub async fn latest(
    store: &dyn Store,
    sessions: Vec<SessionInfo>,
) -> Result<Option<SessionInfo>, Failure> {
    let mut newest: Option<(u64, SessionInfo)> = None;
    for info in sessions {
        // A session whose last event cannot be read still has its place.
        let at = last_event_at(store, &info).await.unwrap_or(0);
        if newest.as_ref().is_none_or(|(best, _)| at >= *best) {
            newest = Some((at, info));
        }
    }
    Ok(newest.map(|(_, info)| info))
}

/// The time of a session's last event; 0 where it has none.
pub async fn last_event_at(store: &dyn Store, info: &SessionInfo) -> Result<u64, StoreError> {
    if info.head == 0 {
        return Ok(0);
    }
    let events = store.events(&info.id, &[info.head]).await?;
    let Some(event) = events.first() else {
        return Ok(0);
    };
    Ok(folio_core::object::whole(event.view()?.ts))
}
