//! The stores that are measured, and how they are filled.

use crate::Failure;
use crate::commits::{Commits, Counted};
use folio_core::SessionId;
use folio_store::{AppendBatch, Embedded, NewSession, Store};
use folio_store_redb::{RedbConfig, RedbEngine};
use folio_store_sqlite::{SqliteConfig, SqliteEngine};
use folio_testkit::workload::Periodic;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinSet;

/// The adapters that keep what they acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adapter {
    /// One SQLite file.
    Sqlite,
    /// One redb file.
    Redb,
}

impl Adapter {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Redb];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Redb => "redb",
        }
    }

    /// One of two values.
    pub fn pick<T>(self, sqlite: T, redb: T) -> T {
        match self {
            Self::Sqlite => sqlite,
            Self::Redb => redb,
        }
    }

    /// A path for a store in a folder.
    pub fn path(self, folder: &Path, stem: &str) -> PathBuf {
        folder.join(format!("{stem}.{}", self.name()))
    }

    /// Opens a store.
    ///
    /// # Errors
    /// Those of the adapter.
    pub fn open(self, path: &Path) -> Result<Arc<dyn Store>, Failure> {
        Ok(match self {
            Self::Sqlite => Arc::new(folio_store_sqlite::open(&SqliteConfig::new(path))?),
            Self::Redb => Arc::new(folio_store_redb::open(&RedbConfig::new(path))?),
        })
    }

    /// Opens a store whose commits are counted.
    ///
    /// # Errors
    /// Those of the adapter.
    pub fn open_counted(self, path: &Path) -> Result<(Arc<dyn Store>, Commits), Failure> {
        let commits = Commits::default();
        let counter = commits.clone();
        let store: Arc<dyn Store> = match self {
            Self::Sqlite => {
                let engine = SqliteEngine::open(&SqliteConfig::new(path))?;
                Arc::new(Embedded::new(Counted::new(engine, counter))?)
            }
            Self::Redb => {
                let engine = RedbEngine::open(&RedbConfig::new(path))?;
                Arc::new(Embedded::new(Counted::new(engine, counter))?)
            }
        };
        Ok((store, commits))
    }
}

/// The bytes of the files of a store: those whose names begin with its own.
///
/// # Errors
/// Those of the system.
pub fn bytes_on_disk(path: &Path) -> Result<u64, Failure> {
    let folder = path.parent().ok_or("a store stands in a folder")?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&*name) {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// A session of turns that all cost the same.
#[derive(Debug, Clone)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its events: its last ordinal.
    pub events: u64,
}

impl Session {
    /// Its items.
    pub fn items(&self) -> u64 {
        self.events / Periodic::EVENTS_PER_TURN as u64 * Periodic::ITEMS_PER_TURN as u64
    }

    /// The last ordinal of a turn in the middle.
    pub fn middle(&self) -> u64 {
        let per_turn = Periodic::EVENTS_PER_TURN as u64;
        self.events / 2 / per_turn * per_turn
    }
}

/// Writes a session of about so many events.
///
/// # Errors
/// Those of the store.
pub async fn fill(store: &dyn Store, events: u64) -> Result<Session, Failure> {
    let turns = events / Periodic::EVENTS_PER_TURN as u64;
    let id = SessionId::new(format!("events-{events}"))?;
    store.create_session(NewSession::native(id.clone())).await?;
    let periodic = Periodic::new(id.as_str());
    for from in (0..turns).step_by(200) {
        let batch = periodic.batch(from, 200.min(turns - from));
        store.append(&id, AppendBatch::native(batch)).await?;
    }
    Ok(Session {
        id,
        events: turns * Periodic::EVENTS_PER_TURN as u64,
    })
}

/// The id of one of many sessions.
///
/// # Errors
/// None in practice: the id is one.
pub fn numbered(number: usize) -> Result<SessionId, Failure> {
    Ok(SessionId::new(format!("session-{number:06}"))?)
}

/// Creates sessions from number 0 on, many to a commit.
///
/// # Errors
/// Those of the store.
pub async fn create_numbered(store: &Arc<dyn Store>, sessions: usize) -> Result<(), Failure> {
    let mut creating = JoinSet::new();
    for number in 0..sessions {
        let (store, id) = (Arc::clone(store), numbered(number)?);
        creating.spawn(async move { store.create_session(NewSession::native(id)).await });
    }
    while let Some(created) = creating.join_next().await {
        created??;
    }
    Ok(())
}
