//! Which session is meant: an id, the beginning of one, or `latest`.

use crate::failure::{self, Failure};
use crate::text::quoted;
use crate::walk::{Damaged, Seen, Walk};
use folio_core::{Authority, SessionId};
use folio_store::{SessionFilter, SessionInfo, Store, StoreError};

/// The word for the newest session; no session can have it as its id.
pub const LATEST: &str = "latest";

/// Sessions of one slice of a listing.
const SLICE: usize = 500;
/// The most candidates that are named.
const NAMED: usize = 10;

/// The session that a word names. `json` is the form of warnings.
pub async fn session(store: &dyn Store, word: &str, json: bool) -> Result<SessionInfo, Failure> {
    let unknown = || {
        let word = quoted(word);
        let message = format!("there is no session {word}; `folio sessions` lists them");
        Failure::not_found("session_not_found", message)
    };
    let id = SessionId::new(word).map_err(|_| unknown())?;
    match store.session(&id).await {
        Ok(info) if info.authority != Authority::Preparing => return Ok(info),
        Ok(_) => {
            let message = format!(
                "session {word} is not complete; repeat its import or its copy, or delete it"
            );
            return Err(Failure::not_found("session_preparing", message));
        }
        Err(error) if error.code() == "session_not_found" => {}
        Err(error) => return Err(error.into()),
    }
    if word == LATEST {
        return newest(store, json).await;
    }
    let mut found = beginning(store, &id).await?;
    match (found.pop(), found.len()) {
        (None, _) => Err(unknown()),
        (Some(Seen::Session(info)), 0) => Ok(*info),
        (Some(Seen::Damaged(damaged)), 0) => Err(damaged.into()),
        (Some(last), others) => {
            let mut names: Vec<String> = found.iter().map(Seen::name).collect();
            names.push(if others < NAMED {
                last.name()
            } else {
                "…".to_owned()
            });
            let message = format!(
                "{word} is the beginning of several sessions; write more of one: {}",
                names.join(", ")
            );
            Err(Failure::usage("session_ambiguous", message))
        }
    }
}

/// Sessions whose ids begin with a word, a few more than are named. They
/// follow the word directly.
async fn beginning(store: &dyn Store, word: &SessionId) -> Result<Vec<Seen>, StoreError> {
    let mut found = Vec::new();
    let mut walk = Walk::behind(store, Some(word.clone()), NAMED + 1);
    while let Some(slice) = walk.next().await? {
        for seen in slice {
            match seen.id() {
                Some(id) if !id.as_str().starts_with(word.as_str()) => return Ok(found),
                Some(_) => found.push(seen),
                None => {}
            }
            if found.len() > NAMED {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

async fn newest(store: &dyn Store, json: bool) -> Result<SessionInfo, Failure> {
    let mut sessions = Vec::new();
    let mut hidden = None;
    for seen in all(store).await? {
        match seen {
            Seen::Session(info) => sessions.push(*info),
            // It may have been the newest one.
            Seen::Damaged(damaged) => {
                failure::warn(json, damaged.error.code(), &damaged.to_string());
                hidden = Some(damaged);
            }
        }
    }
    match (latest(store, sessions).await?, hidden) {
        (Some(info), _) => Ok(info),
        (None, Some(damaged)) => Err(damaged.into()),
        (None, None) => {
            let message =
                "the store holds no session; `folio open` or `folio import PATH` adds some";
            Err(Failure::not_found("session_not_found", message))
        }
    }
}

/// The sessions that a command without a name is about, or the named one.
pub async fn some(store: &dyn Store, word: Option<&str>, json: bool) -> Result<Vec<Seen>, Failure> {
    match word {
        Some(word) => {
            let info = session(store, word, json).await?;
            Ok(vec![Seen::Session(Box::new(info))])
        }
        None => Ok(all(store).await?),
    }
}

/// Every session that may be read, by id, those with damaged rows included.
pub async fn all(store: &dyn Store) -> Result<Vec<Seen>, StoreError> {
    listed(store, SessionFilter::Readable).await
}

/// Every session that passes a filter, by id, those with damaged rows included.
pub async fn listed(store: &dyn Store, filter: SessionFilter) -> Result<Vec<Seen>, StoreError> {
    let mut out = Vec::new();
    let mut walk = Walk::over(store, filter, None, SLICE);
    while let Some(slice) = walk.next().await? {
        out.extend(slice);
    }
    Ok(out)
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
        return Err(StoreError::gap(vec![info.head]));
    };
    Ok(folio_core::object::whole(event.view()?.ts))
}

impl From<Damaged> for Failure {
    fn from(damaged: Damaged) -> Self {
        Self::new(
            failure::exit_of(&damaged.error),
            damaged.error.code(),
            damaged.to_string(),
        )
    }
}
