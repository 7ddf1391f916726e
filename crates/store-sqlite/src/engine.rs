//! Connections and transactions.

use crate::error::{Error, Refusal, indeterminate, transaction_failed};
use crate::reader::Txn;
use crate::schema::{self, Source};
use crate::{SqliteConfig, sql};
use folio_store::engine::{Capabilities, Engine, ReadWork, WriteWork};
use folio_store::{ErrorKind, StoreError};
use rusqlite::Connection;
use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
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
    /// Reads nothing; SQLite counts for it what other connections commit.
    observer: Mutex<Option<Connection>>,
    writer: Option<Mutex<Connection>>,
    /// A commit failed, and nothing was committed since.
    fence_due: AtomicBool,
    owner: OnceLock<u64>,
}

impl SqliteEngine {
    /// Opens a store.
    ///
    /// # Errors
    /// A typed error that says what to do; nothing was created or changed then.
    pub fn open(config: &SqliteConfig) -> Result<Self, StoreError> {
        let (source, conn) = schema::open(config)?;
        Ok(Self {
            path: config.path.clone(),
            source,
            readers: Mutex::default(),
            observer: Mutex::default(),
            writer: conn.map(Mutex::new),
            fence_due: AtomicBool::new(false),
            owner: OnceLock::new(),
        })
    }

    /// The connection that writes.
    fn writer(&self) -> Result<MutexGuard<'_, Connection>, StoreError> {
        let writer = self.writer.as_ref().ok_or_else(|| Error::Open {
            path: self.path.clone(),
            why: Refusal::ReadOnly,
        })?;
        Ok(lock(writer))
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
        let conn = self.writer().unwrap();
        let sql = format!("PRAGMA {name}");
        let value = conn.query_row(&sql, [], |row| row.get(0));
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
        let conn = self.writer().unwrap();
        work(&conn);
        [sql::EVENTS, sql::ITEMS_OLDER]
            .map(|sql| {
                let statement = conn.prepare_cached(sql).unwrap();
                statement.get_status(rusqlite::StatementStatus::RePrepare)
            })
            .iter()
            .sum()
    }

    /// Behaves as after a commit that failed.
    pub(crate) fn demand_fence(&self) {
        self.fence_due.store(true, Ordering::Release);
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

/// Commits a row of no meaning after a commit that failed.
///
/// The frames of the failed commit may still stand in the WAL, where the next
/// start would take them for committed. The fence overwrites them, so that from
/// here on the batch is found or not found once and for all.
fn fence(conn: &Connection, due: &AtomicBool) -> Result<(), StoreError> {
    if !due.load(Ordering::Acquire) {
        return Ok(());
    }
    let raised = (|| {
        let open = Open::begin(conn, "BEGIN IMMEDIATE")?;
        let last: Vec<u8> = conn.query_row(sql::META, ["fence"], |row| row.get(0))?;
        let last = <[u8; 8]>::try_from(&*last).map_or(0, u64::from_le_bytes);
        let next = last.wrapping_add(1).to_le_bytes();
        conn.execute(sql::PUT_META, ("fence", &next[..]))?;
        open.commit()
    })();
    raised.map_err(|error: rusqlite::Error| {
        StoreError::new(
            ErrorKind::Unavailable,
            "store_poisoned",
            format!(
                "a commit failed and the disk still refuses ({error}): \
                 nothing was written, try again when the disk is mended"
            ),
        )
        .caused_by(error)
    })?;
    due.store(false, Ordering::Release);
    // Writes anew what the failed sync may have lost of the database. Where
    // readers are in the way the next checkpoint does it.
    let _ = empty_wal(conn);
    Ok(())
}

/// Copies all of the WAL into the database and empties it.
fn empty_wal(conn: &Connection) -> Result<(), Error> {
    let busy: bool = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy { Err(Error::InTheWay) } else { Ok(()) }
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
        let conn = self.writer()?;
        fence(&conn, &self.fence_due)?;
        let open = Open::begin(&conn, "BEGIN IMMEDIATE").map_err(Error::from)?;
        let mut txn = Txn::new(&conn);
        work(&mut txn)?;
        if txn.has_failed() {
            return Err(transaction_failed());
        }
        let Err(error) = open.commit() else {
            return Ok(());
        };
        self.fence_due.store(true, Ordering::Release);
        // At once if possible, so that reads tell the truth about the batch;
        // otherwise before the next write.
        let _ = fence(&conn, &self.fence_due);
        Err(indeterminate(error))
    }

    fn settle(&self) -> Result<(), StoreError> {
        // Only what this handle commits can be unsettled here.
        if !self.fence_due.load(Ordering::Acquire) {
            return Ok(());
        }
        fence(&*self.writer()?, &self.fence_due)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            multi_process: true,
            fast_open_after_crash: true,
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

    /// SQLite builds the new database in memory (`temp_store`), since a file for
    /// it would stand in a folder that only the whole process can choose, and
    /// commits it through the WAL. The rows stay what they are, so whatever
    /// becomes of that commit leaves nothing to settle.
    fn rewrite(&self) -> Result<(), StoreError> {
        let conn = self.writer()?;
        fence(&conn, &self.fence_due)?;
        // First of all, so that who is in the way is in the way of little work.
        empty_wal(&conn)?;
        conn.execute_batch("VACUUM").map_err(Error::from)?;
        Ok(empty_wal(&conn)?)
    }

    fn owner(&self) -> Result<u64, StoreError> {
        Ok(*self.owner.get_or_init(|| self.random().max(1)))
    }

    fn is_alive(&self, owner: u64) -> Result<bool, StoreError> {
        Ok(self.owner.get() == Some(&owner))
    }

    fn version(&self) -> Result<u64, StoreError> {
        let mut observer = lock(&self.observer);
        // Put back only if it answers.
        let conn = match observer.take() {
            Some(conn) => conn,
            None => self.source.connect_reader()?,
        };
        let version: i64 = conn
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(Error::from)?;
        *observer = Some(conn);
        Ok(version.cast_unsigned())
    }
}
