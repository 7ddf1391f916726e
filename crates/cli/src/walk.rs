//! Every session of a store, one behind the other, past those whose rows are
//! damaged.
//!
//! The store lists sessions behind an id, and a damaged row fails the slice
//! that it is in. Such a slice is cut until the damaged row stands alone. The
//! id of that one is not known, but listing behind an id fails with the same
//! error for every id before it and for none from it on; so a search finds the
//! id, character by character, and the walk goes on behind it.

use folio_core::SessionId;
use folio_store::{ErrorKind, SessionFilter, SessionInfo, Store, StoreError};
use std::fmt;

/// The characters of session ids, in the order of ids.
const ALPHABET: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
/// The characters of the longest id.
const LONGEST: usize = 128;

/// What stands at a place of the listing.
#[derive(Debug)]
pub enum Seen {
    /// A session.
    Session(Box<SessionInfo>),
    /// One whose rows cannot be read.
    Damaged(Damaged),
}

/// A session whose rows cannot be read.
#[derive(Debug)]
pub struct Damaged {
    /// Its id, where it could be found out.
    pub id: Option<SessionId>,
    /// Why it cannot be read.
    pub error: StoreError,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "session {id} cannot be read: {}", self.error),
            None => write!(f, "a session cannot be read: {}", self.error),
        }
    }
}

impl Seen {
    /// The id, where it is known.
    pub fn id(&self) -> Option<&SessionId> {
        match self {
            Self::Session(info) => Some(&info.id),
            Self::Damaged(damaged) => damaged.id.as_ref(),
        }
    }

    /// The id for people.
    pub fn name(&self) -> String {
        self.id()
            .map_or_else(|| "?".to_owned(), ToString::to_string)
    }
}

/// A walk over the sessions of a store, by id.
pub struct Walk<'a> {
    store: &'a dyn Store,
    filter: SessionFilter,
    after: Option<SessionId>,
    /// How many the next slice asks for.
    limit: usize,
    most: usize,
    done: bool,
}

impl<'a> Walk<'a> {
    /// The readable sessions behind an id, in slices of at most `most`.
    pub fn behind(store: &'a dyn Store, after: Option<SessionId>, most: usize) -> Self {
        Self::over(store, SessionFilter::Readable, after, most)
    }

    /// The sessions that pass a filter behind an id, in slices of at most
    /// `most`.
    pub fn over(
        store: &'a dyn Store,
        filter: SessionFilter,
        after: Option<SessionId>,
        most: usize,
    ) -> Self {
        Self {
            store,
            filter,
            after,
            limit: most,
            most,
            done: false,
        }
    }

    /// The next slice; `None` behind the last one.
    pub async fn next(&mut self) -> Result<Option<Vec<Seen>>, StoreError> {
        loop {
            if self.done {
                return Ok(None);
            }
            let slice = self.list(self.after.clone(), self.limit).await;
            match slice {
                Ok(infos) => {
                    self.done = infos.len() < self.limit;
                    self.limit = self.limit.saturating_mul(2).min(self.most);
                    if let Some(last) = infos.last() {
                        self.after = Some(last.id.clone());
                    }
                    let seen = infos.into_iter().map(|info| Seen::Session(Box::new(info)));
                    return Ok(Some(seen.collect()));
                }
                Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
                Err(_) if self.limit > 1 => self.limit /= 2,
                Err(error) => return Ok(Some(vec![Seen::Damaged(self.pass(error).await?)])),
            }
        }
    }

    async fn list(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        self.store.sessions(self.filter, after, limit).await
    }

    /// Goes behind the damaged session that stands next.
    async fn pass(&mut self, error: StoreError) -> Result<Damaged, StoreError> {
        let told = error.to_string();
        let Some(behind) = self.first_behind(&told).await? else {
            // Nothing that follows can be reached.
            self.done = true;
            return Ok(Damaged { id: None, error });
        };
        // An id that is damaged itself is found nowhere.
        let found = self.store.session(&behind).await;
        let known = !matches!(&found, Err(error) if error.kind() == ErrorKind::NotFound);
        self.after = Some(behind.clone());
        Ok(Damaged {
            id: known.then_some(behind),
            error,
        })
    }

    /// The smallest id behind which the listing does not fail with this error.
    async fn first_behind(&self, told: &str) -> Result<Option<SessionId>, StoreError> {
        let mut prefix = String::new();
        let mut best = None;
        while prefix.len() < LONGEST {
            // How many of the characters, put behind the prefix, still fail.
            let (mut low, mut high) = (0, ALPHABET.len());
            while low < high {
                let middle = usize::midpoint(low, high);
                let candidate = extended(&prefix, middle);
                if self.fails(&candidate, told).await? {
                    low = middle + 1;
                } else {
                    best = Some(candidate);
                    high = middle;
                }
            }
            let Some(last_failing) = low.checked_sub(1) else {
                break;
            };
            prefix = extended(&prefix, last_failing);
            // If everything that begins like this fails, the id is the one
            // right behind, which was tried already.
            let end = format!("{prefix:z<LONGEST$}");
            if self.fails(&end, told).await? {
                break;
            }
            best = Some(end);
        }
        // Every text that is tried has the shape of an id.
        Ok(best.and_then(|best| SessionId::new(best).ok()))
    }

    async fn fails(&self, after: &str, told: &str) -> Result<bool, StoreError> {
        // What stands before the walk's own place says nothing.
        if self
            .after
            .as_ref()
            .is_some_and(|here| after <= here.as_str())
        {
            return Ok(true);
        }
        let after = SessionId::new(after).ok();
        match self.list(after, 1).await {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(error.to_string() == told),
            Err(error) => Err(error),
        }
    }
}

fn extended(prefix: &str, character: usize) -> String {
    let mut out = prefix.to_owned();
    out.extend(ALPHABET.get(character).map(|byte| char::from(*byte)));
    out
}
