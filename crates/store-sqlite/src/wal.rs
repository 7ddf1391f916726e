//! How long the WAL may get.
//!
//! SQLite copies the WAL into the database as it grows, and starts it over at
//! a moment when nobody reads from it. Where readers come and go all the time
//! there is no such moment, and it grows for as long as they do. So a writer
//! that finds it too long waits for one: whoever begins to read meanwhile reads
//! the database alone, and the wait is for those who are at it.

use crate::lock::beside;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes above which a writer waits for readers: twice what SQLite lets stand
/// where none is in the way.
const BOUND: u64 = 32 << 20;
/// How long it waits for each of them: a read is a short transaction, also on
/// a busy machine.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a reader that is slower is then left alone, unless the WAL grows
/// by so much.
const PAUSE: Duration = Duration::from_secs(2);
const STEP: u64 = BOUND / 2;

/// Keeps a WAL in bounds.
#[derive(Debug)]
pub struct Wal {
    path: PathBuf,
    /// When it was too long, and how long.
    tried: Option<(Instant, u64)>,
    busy_timeout: Duration,
}

impl Wal {
    /// The WAL of a database, whose connections otherwise wait so long.
    pub fn new(db: &Path, busy_timeout: Duration) -> Self {
        Self {
            path: beside(db, "-wal"),
            tried: None,
            busy_timeout,
        }
    }

    /// Called by a writer behind each commit, before others may write.
    pub fn bound(&mut self, conn: &Connection) {
        let length = std::fs::metadata(&self.path).map_or(0, |meta| meta.len());
        if length <= BOUND {
            self.tried = None;
            return;
        }
        if let Some((at, then)) = self.tried
            && at.elapsed() < PAUSE
            && length < then + STEP
        {
            return;
        }
        // What fails here fails again, and is answered, where it matters.
        let _ = conn.busy_timeout(PATIENCE);
        let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let _ = conn.busy_timeout(self.busy_timeout);
        self.tried = Some((Instant::now(), length));
    }
}
