//! Connections and transactions.

use crate::error::{Error, Refusal, indeterminate, is_full, transaction_failed};
use crate::lock::WriterLock;
use crate::owner::{self, Owner};
use crate::reader::Txn;
use crate::schema::{self, Source};
use crate::wal::Wal;
use crate::{SqliteConfig, sql};
use folio_store::engine::{Capabilities, Engine, ReadWork, WriteWork};
use folio_store::{ErrorKind, StoreError};
use rusqlite::{Connection, ffi};
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Read connections that are kept for the next read.
const IDLE_READERS: usize = 8;

/// What is known of commits by anybody.
#[derive(Debug, Default)]
struct Changes {
    /// A connection for this alone, since SQLite counts what others than the
    /// asking one commit, and what it counted last.
    seen: Option<(Connection, i64)>,
    /// Goes on where a new connection counts anew.
    version: u64,
}

/// One SQLite file: a connection that writes, and a few that read.
#[derive(Debug)]
pub struct SqliteEngine {
    path: PathBuf,
    /// What the names of the files beside the database begin with.
    files: PathBuf,
    /// Which file the path led to, where the system can tell.
    file: Option<(u64, u64)>,
    source: Source,
    // Dropped before the writer: the last connection to close folds the WAL
    // into the database, and only the writer can.
    readers: Mutex<Vec<Connection>>,
    changes: Mutex<Changes>,
    /// `None` where the store was opened for reading; in it, once it is closed.
    writer: Option<Mutex<Option<Writer>>>,
    /// The WAL may hold what no sync has seen: a commit failed, or a process
    /// left it behind. Nothing is committed before the fence.
    fence_due: AtomicBool,
    owner: Mutex<Option<Owner>>,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Writer {
    conn: Connection,
    /// Whether what it commits is on the disk.
    durable: bool,
    lock: WriterLock,
    wal: Wal,
}

impl SqliteEngine {
    /// Opens a store.
    ///
    /// # Errors
    /// A typed error that says what to do; nothing was created or changed then.
    pub fn open(config: &SqliteConfig) -> Result<Self, StoreError> {
        let (source, opened) = schema::open(config)?;
        let files = source.files();
        // The WAL may hold what no sync has seen: a process left it behind.
        let fence_due = AtomicBool::new(opened.as_ref().is_some_and(|opened| opened.has_wal));
        let mut readers = Vec::new();
        let writer = opened.map(|opened| {
            readers.extend(opened.reader);
            Writer {
                conn: opened.conn,
                durable: opened.durable,
                lock: opened.lock,
                wal: Wal::new(&files, source.busy_timeout()),
            }
        });
        if let Some(writer) = &writer
            && fence_due.load(Ordering::Acquire)
            && let Ok(_held) = writer.lock.acquire()
        {
            // At once if possible, so that nothing is read that a power cut
            // could take back; otherwise before the first write.
            let _ = fence(&writer.conn, &fence_due);
        }
        // Another file system than the system's has files of its own.
        let file = config.vfs.is_none().then(|| file_at(&files)).flatten();
        Ok(Self {
            path: config.path.clone(),
            files,
            file,
            source,
            readers: Mutex::new(readers),
            changes: Mutex::default(),
            writer: writer.map(|writer| Mutex::new(Some(writer))),
            fence_due,
            owner: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Whether the path still leads to the file that was opened. SQLite would
    /// go on writing to one that was removed, or share the WAL of the one that
    /// took its place.
    fn is_in_place(&self) -> Result<(), StoreError> {
        if self.file.is_none() || self.file == file_at(&self.files) {
            return Ok(());
        }
        let (path, why) = (self.path.clone(), Refusal::Moved);
        Err(Error::Open { path, why }.into())
    }

    /// The connection that writes and its place in the queue; `None` once the
    /// store is closed.
    fn writer(&self) -> Result<MutexGuard<'_, Option<Writer>>, StoreError> {
        let writer = self.writer.as_ref().ok_or_else(|| self.read_only())?;
        Ok(lock(writer))
    }

    /// Readies the connection that writes. Called by the one who writes.
    fn ready(&self, conn: &Connection, durable: &mut bool) -> Result<(), StoreError> {
        if !*durable {
            self.source.make_durable(conn)?;
            *durable = true;
        }
        fence(conn, &self.fence_due)
    }

    fn is_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::closed());
        }
        Ok(())
    }

    /// A number that is another one whenever any process has committed since
    /// the last call on this handle. It says nothing about the first call, and
    /// nothing to other handles. Costs microseconds and reads no rows.
    ///
    /// # Errors
    /// What SQLite says, such as `io_error`; the next call then counts as a
    /// change.
    fn changes(&self) -> Result<u64, StoreError> {
        let mut changes = lock(&self.changes);
        self.is_open()?;
        let (conn, last) = match changes.seen.take() {
            Some((conn, last)) => (conn, Some(last)),
            None => (self.source.connect_reader()?, None),
        };
        let now = conn
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(Error::from)?;
        changes.version += u64::from(last != Some(now));
        changes.seen = Some((conn, now));
        Ok(changes.version)
    }

    /// The number of this handle as an owner of leases: not 0, below 2^63, and
    /// never that of another handle, in whatever process. The first call makes
    /// it, and a file beside the database by which others see that it lives;
    /// the file goes with the handle.
    ///
    /// # Errors
    /// `store_read_only` where the store was opened for reading, `lock_failed`
    /// where the file cannot be made and locked.
    fn own_number(&self) -> Result<u64, StoreError> {
        if self.writer.is_none() {
            return Err(self.read_only());
        }
        let mut owner = lock(&self.owner);
        self.is_open()?;
        let number = match &*owner {
            Some(owner) => owner.number(),
            None => owner
                .insert(Owner::new(&self.files, || self.random())?)
                .number(),
        };
        Ok(number)
    }

    /// Whether the handle with this number is still open, in whatever process.
    /// One that is not will never be again; its file is removed.
    ///
    /// # Errors
    /// `lock_failed` where the file cannot be tested: then nobody knows.
    fn is_owner_open(&self, owner: u64) -> Result<bool, StoreError> {
        self.is_open()?;
        let own = lock(&self.owner).as_ref().map(Owner::number);
        if own == Some(owner) {
            return Ok(true);
        }
        Ok(owner::is_alive(&self.files, owner)?)
    }

    fn read_only(&self) -> StoreError {
        let (path, why) = (self.path.clone(), Refusal::ReadOnly);
        Error::Open { path, why }.into()
    }

    fn reader(&self) -> Result<Reading<'_>, StoreError> {
        self.is_open()?;
        self.is_in_place()?;
        let idle = lock(&self.readers).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.source.connect_reader()?,
        };
        Ok(Reading {
            conn: Some(conn),
            idle: &self.readers,
            closed: &self.closed,
        })
    }
}

#[cfg(test)]
impl SqliteEngine {
    /// A setting of the write connection.
    pub(crate) fn pragma(&self, name: &str) -> String {
        let writer = self.writer().unwrap();
        let writer = writer.as_ref().unwrap();
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
        let writer = self.writer().unwrap();
        let conn = &writer.as_ref().unwrap().conn;
        work(conn);
        [sql::EVENTS, sql::ITEMS_OLDER]
            .map(|sql| {
                let statement = conn.prepare_cached(sql).unwrap();
                statement.get_status(rusqlite::StatementStatus::RePrepare)
            })
            .iter()
            .sum()
    }

    /// How often the read connection, which must be the only one, has run a
    /// statement since it was last asked.
    pub(crate) fn runs(&self, sql: &str) -> i32 {
        let readers = lock(&self.readers);
        let [conn] = readers.as_slice() else {
            panic!("there are {} read connections", readers.len());
        };
        let statement = conn.prepare_cached(sql).unwrap();
        statement.reset_status(rusqlite::StatementStatus::Run)
    }

    /// Behaves as after a commit that failed.
    pub(crate) fn demand_fence(&self) {
        self.fence_due.store(true, Ordering::Release);
    }
}

/// The device and the number of a file.
#[cfg(unix)]
fn file_at(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Elsewhere an open file cannot be removed or replaced.
#[cfg(not(unix))]
fn file_at(_: &Path) -> Option<(u64, u64)> {
    None
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
    closed: &'a AtomicBool,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // One that is stuck in a transaction would show old rows for ever.
        if let Some(conn) = self.conn.take().filter(Connection::is_autocommit) {
            let mut idle = lock(self.idle);
            if idle.len() < IDLE_READERS && !self.closed.load(Ordering::Acquire) {
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

/// Begins the WAL anew, with a row of no meaning, where it may hold frames that
/// no sync has seen.
///
/// A failed sync may have lost for good what it was to keep, and no later one
/// says so. The frames may still be found as long as the system runs, and be
/// gone after a power cut, with all that was committed behind them. So what
/// counts is copied into the database and synced there, and the fence begins a
/// WAL in which nothing of the old one is valid. From here on a batch is found
/// or not found once and for all.
fn fence(conn: &Connection, due: &AtomicBool) -> Result<(), StoreError> {
    if !due.load(Ordering::Acquire) {
        return Ok(());
    }
    let raised = (|| {
        // Where readers are in the way the WAL stays, and the fence overwrites
        // the frames behind the last commit that others can see.
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let open = Open::begin(conn, "BEGIN IMMEDIATE")?;
        let last: Vec<u8> = conn.query_row(sql::META, ["fence"], |row| row.get(0))?;
        let last = <[u8; 8]>::try_from(&*last).map_or(0, u64::from_le_bytes);
        let next = last.wrapping_add(1).to_le_bytes();
        conn.execute(sql::PUT_META, ("fence", &next[..]))?;
        open.commit()
    })();
    raised.map_err(|error: rusqlite::Error| {
        let (code, remedy) = if is_full(&error) {
            ("storage_full", "free some space and try again")
        } else {
            ("store_poisoned", "try again when the disk is mended")
        };
        let message = format!(
            "{}: an earlier commit may not be on the disk yet, and the disk refuses ({error}): \
             nothing was written, {remedy}",
            conn.path().unwrap_or_default()
        );
        StoreError::new(ErrorKind::Unavailable, code, message).caused_by(error)
    })?;
    due.store(false, Ordering::Release);
    Ok(())
}

/// Copies all of the WAL into the database and empties it.
fn empty_wal(conn: &Connection) -> Result<(), Error> {
    let busy: bool = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy { Err(Error::InTheWay) } else { Ok(()) }
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
        let mut writer = self.writer()?;
        let Writer {
            conn,
            durable,
            lock: queue,
            wal,
        } = writer.as_mut().ok_or_else(StoreError::closed)?;
        // Until the outcome is known and the fence, if it came to that, stands.
        let _held = queue.acquire()?;
        self.is_in_place()?;
        self.ready(conn, durable)?;
        let open = Open::begin(conn, "BEGIN IMMEDIATE").map_err(Error::from)?;
        let mut txn = Txn::new(conn);
        work(&mut txn)?;
        if txn.has_failed() {
            return Err(transaction_failed());
        }
        let Err(error) = open.commit() else {
            wal.bound(conn);
            return Ok(());
        };
        if failed_before_sync(&error) {
            return Err(Error::from(error).into());
        }
        self.fence_due.store(true, Ordering::Release);
        // At once if possible, so that reads tell the truth about the batch;
        // otherwise before the next write.
        let _ = fence(conn, &self.fence_due);
        Err(indeterminate(error))
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.is_open()?;
        // Only what this handle commits can be unsettled here.
        if !self.fence_due.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut writer = self.writer()?;
        let Writer { conn, lock, .. } = writer.as_mut().ok_or_else(StoreError::closed)?;
        let _held = lock.acquire()?;
        fence(conn, &self.fence_due)
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
        let mut found = (|| {
            // The quick one does not look whether indexes and tables agree, and
            // sessions are found through an index.
            let mut statement = conn.prepare("PRAGMA integrity_check(10)")?;
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
            match Txn::new(conn).check_rows()? {
                Some(wrong) => found.push(wrong.to_owned()),
                None => return Ok(()),
            }
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
        let mut writer = self.writer()?;
        let Writer {
            conn,
            durable,
            lock,
            ..
        } = writer.as_mut().ok_or_else(StoreError::closed)?;
        let _held = lock.acquire()?;
        self.is_in_place()?;
        self.ready(conn, durable)?;
        // First of all, so that who is in the way is in the way of little work.
        empty_wal(conn)?;
        conn.execute_batch("VACUUM").map_err(Error::from)?;
        Ok(empty_wal(conn)?)
    }

    fn owner(&self) -> Result<u64, StoreError> {
        self.own_number()
    }

    fn is_alive(&self, owner: u64) -> Result<bool, StoreError> {
        self.is_owner_open(owner)
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.changes()
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.owner).take();
        lock(&self.changes).seen = None;
        lock(&self.readers).clear();
        // Last of all, since the last connection folds the WAL into the
        // database, and only the writer can.
        if let Some(writer) = &self.writer {
            lock(writer).take();
        }
    }
}
