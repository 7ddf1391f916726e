//! Connections and transactions.

use crate::error::{Error, Refusal, indeterminate, transaction_failed};
use crate::reader::Txn;
use crate::schema::{self, Source};
use crate::{SqliteConfig, sql};
use folio_store::engine::{Capabilities, Engine, ReadWork, WriteWork};
use folio_store::{ErrorKind, StoreError};
use rusqlite::{Connection, ffi};
use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Read connections that are kept for the next read.
const IDLE_READERS: usize = 8;

/// One SQLite file: a connection that writes, and a few that read.
#[derive(Debug)]
pub struct SqliteEngine {
    path: PathBuf,
    source: Source,
    // Dropped before the writer: the last connection to close folds the WAL
    // into the database, and only the writer can.
    readers: Mutex<Vec<Connection>>,
    writer: Option<Mutex<Writer>>,
}

#[derive(Debug)]
struct Writer {
    conn: Connection,
    /// The WAL may hold what no sync has seen: a commit failed, or a process
    /// left it behind. Nothing is committed before the fence.
    fence_due: bool,
}

impl SqliteEngine {
    /// Opens a store.
    ///
    /// # Errors
    /// A typed error that says what to do; nothing was created or changed then.
    pub fn open(config: &SqliteConfig) -> Result<Self, StoreError> {
        let (source, opened) = schema::open(config)?;
        let writer = opened.map(|opened| {
            let mut writer = Writer {
                conn: opened.conn,
                fence_due: opened.has_wal,
            };
            // At once if possible, so that nothing is read that a power cut
            // could take back; otherwise before the first write.
            let _ = writer.fence();
            Mutex::new(writer)
        });
        Ok(Self {
            path: config.path.clone(),
            source,
            readers: Mutex::new(Vec::new()),
            writer,
        })
    }

    fn reader(&self) -> Result<Reading<'_>, Error> {
        let idle = lock(&self.readers).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.source.connect_reader()?,
        };
        Ok(Reading {
            conn: Some(conn),
            idle: &self.readers,
        })
    }
}

#[cfg(test)]
impl SqliteEngine {
    /// A setting of the write connection.
    pub(crate) fn pragma(&self, name: &str) -> String {
        let writer = lock(self.writer.as_ref().unwrap());
        let sql = format!("PRAGMA {name}");
        let value = writer.conn.query_row(&sql, [], |row| row.get(0));
        match value.unwrap() {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            value => panic!("{name} is {value:?}"),
        }
    }

    /// Makes the disk full at a number of pages.
    pub(crate) fn limit_pages(&self, pages: u32) {
        self.pragma(&format!("max_page_count = {pages}"));
    }

    /// How often a range read was compiled anew in the course of some work.
    pub(crate) fn compilations(&self, work: impl FnOnce(&Connection)) -> i32 {
        let writer = lock(self.writer.as_ref().unwrap());
        work(&writer.conn);
        [sql::EVENTS, sql::ITEMS_OLDER]
            .map(|sql| {
                let statement = writer.conn.prepare_cached(sql).unwrap();
                statement.get_status(rusqlite::StatementStatus::RePrepare)
            })
            .iter()
            .sum()
    }

    /// Behaves as after a commit that failed.
    pub(crate) fn demand_fence(&self) {
        lock(self.writer.as_ref().unwrap()).fence_due = true;
    }
}

/// What a panic under the lock left behind is whole: transactions roll back as
/// the stack unwinds.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A read connection on loan.
struct Reading<'a> {
    conn: Option<Connection>,
    idle: &'a Mutex<Vec<Connection>>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // One that is stuck in a transaction would show old rows for ever.
        if let Some(conn) = self.conn.take().filter(Connection::is_autocommit) {
            let mut idle = lock(self.idle);
            if idle.len() < IDLE_READERS {
                idle.push(conn);
            }
        }
    }
}

/// A transaction that rolls back unless it is committed.
struct Open<'c>(&'c Connection);

impl<'c> Open<'c> {
    fn begin(conn: &'c Connection, sql: &str) -> Result<Self, rusqlite::Error> {
        conn.prepare_cached(sql)?.execute([])?;
        Ok(Self(conn))
    }

    fn commit(self) -> Result<(), rusqlite::Error> {
        self.0.prepare_cached("COMMIT")?.execute([]).map(drop)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // Some errors have rolled back already.
        if !self.0.is_autocommit() {
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

impl Writer {
    /// Begins the WAL anew, with a row of no meaning, where it may hold frames
    /// that no sync has seen.
    ///
    /// A failed sync may have lost for good what it was to keep, and no later
    /// one says so. The frames may still be found as long as the system runs, and
    /// be gone after a power cut, with all that was committed behind them. So
    /// what counts is copied into the database and synced there, and the fence
    /// begins a WAL in which nothing of the old one is valid. From here on a batch
    /// is found or not found once and for all.
    fn fence(&mut self) -> Result<(), StoreError> {
        if !self.fence_due {
            return Ok(());
        }
        let raised = (|| {
            // Where readers are in the way the WAL stays, and the fence overwrites
            // the frames behind the last commit that others can see.
            self.conn
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            let open = Open::begin(&self.conn, "BEGIN IMMEDIATE")?;
            let last: Vec<u8> = self
                .conn
                .query_row(sql::META, ["fence"], |row| row.get(0))?;
            let last = <[u8; 8]>::try_from(&*last).map_or(0, u64::from_le_bytes);
            let next = last.wrapping_add(1).to_le_bytes();
            self.conn.execute(sql::PUT_META, ("fence", &next[..]))?;
            open.commit()
        })();
        raised.map_err(|error: rusqlite::Error| {
            StoreError::new(
                ErrorKind::Unavailable,
                "store_poisoned",
                format!(
                    "an earlier commit was not synced and the disk still refuses ({error}): \
                     nothing was written, try again when the disk is mended"
                ),
            )
            .caused_by(error)
        })?;
        self.fence_due = false;
        Ok(())
    }
}

/// Whether a commit failed while its frames were written: the last of them makes
/// the commit, so there is none, and the next one overwrites the others.
fn failed_before_sync(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        matches!(
            error.extended_code,
            ffi::SQLITE_FULL | ffi::SQLITE_IOERR_WRITE
        )
    })
}

impl Engine for SqliteEngine {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        let reading = self.reader()?;
        let Some(conn) = &reading.conn else {
            return Err(transaction_failed());
        };
        let open = Open::begin(conn, "BEGIN").map_err(Error::from)?;
        let done = work(&Txn::new(conn));
        // Nothing depends on how a read ends; the guard ends it in any case.
        let _ = open.commit();
        done
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        let Some(writer) = &self.writer else {
            return Err(Error::Open {
                path: self.path.clone(),
                why: Refusal::ReadOnly,
            }
            .into());
        };
        let mut writer = lock(writer);
        writer.fence()?;
        let open = Open::begin(&writer.conn, "BEGIN IMMEDIATE").map_err(Error::from)?;
        let mut txn = Txn::new(&writer.conn);
        work(&mut txn)?;
        if txn.has_failed() {
            return Err(transaction_failed());
        }
        let Err(error) = open.commit() else {
            return Ok(());
        };
        if failed_before_sync(&error) {
            return Err(Error::from(error).into());
        }
        writer.fence_due = true;
        // At once if possible, so that reads tell the truth about the batch;
        // otherwise before the next write.
        let _ = writer.fence();
        Err(indeterminate(error))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            multi_process: true,
        }
    }

    fn now(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|since| u64::try_from(since.as_millis()).ok())
            .unwrap_or(0)
    }

    fn random(&self) -> u64 {
        // The standard library's hash keys are random too, and never fail.
        getrandom::u64().unwrap_or_else(|_| std::hash::RandomState::new().build_hasher().finish())
    }

    fn check(&self) -> Result<(), StoreError> {
        let reading = self.reader()?;
        let Some(conn) = &reading.conn else {
            return Err(transaction_failed());
        };
        let found = (|| {
            let mut statement = conn.prepare("PRAGMA quick_check(10)")?;
            let found = statement.query_map([], |row| row.get::<_, String>(0))?;
            let mut found = found.collect::<Result<Vec<_>, _>>()?;
            found.retain(|line| line != "ok");
            if found.is_empty() {
                for (wrong, sql) in sql::ORPHANS {
                    if conn.query_row(sql, [], |row| row.get(0))? {
                        found.push((*wrong).to_owned());
                    }
                }
            }
            Ok(found)
        })()
        .map_err(Error::Sql)?;
        if found.is_empty() {
            return Ok(());
        }
        Err(StoreError::corrupt(
            "database_damaged",
            format!(
                "{}: the database file is damaged; keep it and restore a copy: {}",
                self.path.display(),
                found.join("; ")
            ),
        ))
    }
}
