//! The open database: transactions, and what happens after an error.

use crate::RedbConfig;
use crate::check;
use crate::error::{Error, Refusal, damaged_handle, indeterminate, poisoned, transaction_failed};
use crate::health::Health;
use crate::reader::Txn;
use crate::schema::{self, FileId, Layer, Source};
use crate::tables::{Reading, Writing};
use folio_store::engine::{Capabilities, Engine, ReadWork, WriteWork};
use folio_store::{ErrorKind, StoreError};
use redb::{Database, ReadableDatabase, WriteTransaction};
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long reads that began may hold up opening the file again.
const READS_END_WITHIN: Duration = Duration::from_secs(5);

/// One redb file.
#[derive(Debug)]
pub struct RedbEngine {
    source: Source,
    health: Health,
    database: Mutex<Slot>,
    /// The file that is open.
    file: Mutex<Option<FileId>>,
    /// One writer at a time.
    writing: Mutex<()>,
    /// A commit failed, and nothing was committed since.
    fence_due: AtomicBool,
    /// The file got its place, and the folder may not have kept that.
    folder_due: AtomicBool,
    owner: OnceLock<u64>,
}

/// What reads and writes are given.
#[derive(Debug)]
enum Slot {
    Open(Arc<Database>),
    /// The file could not be opened again after an error.
    Lost,
    Closed,
}

impl RedbEngine {
    /// Opens a store.
    ///
    /// # Errors
    /// A typed error that says what to do; nothing was created or changed then.
    pub fn open(config: &RedbConfig) -> Result<Self, StoreError> {
        Self::open_over(config, None)
    }

    /// Opens a store over a layer of a test's.
    ///
    /// # Errors
    /// As [`RedbEngine::open`].
    #[doc(hidden)]
    pub fn open_over(
        config: &RedbConfig,
        layer: Option<Arc<dyn Layer>>,
    ) -> Result<Self, StoreError> {
        let (source, database) = schema::open(config, layer)?;
        let file = schema::file_at(source.path());
        Ok(Self {
            source,
            health: Health::default(),
            database: Mutex::new(Slot::Open(Arc::new(database))),
            file: Mutex::new(file),
            writing: Mutex::default(),
            fence_due: AtomicBool::new(false),
            folder_due: AtomicBool::new(false),
            owner: OnceLock::new(),
        })
    }

    /// The database, opened again if it serves nothing more.
    fn database(&self) -> Result<Arc<Database>, StoreError> {
        let mut slot = lock(&self.database);
        match &*slot {
            Slot::Closed => return Err(StoreError::closed()),
            Slot::Open(database) if !self.health.is_broken() => return Ok(Arc::clone(database)),
            Slot::Open(_) | Slot::Lost => {}
        }
        // What stands there now may be another store.
        self.is_in_place()?;
        // After an error of the disk redb serves nothing more until the file
        // was opened again; opening repairs what the error left.
        if !give_up(&mut slot) {
            return Err(poisoned("reads still use it"));
        }
        let database = self
            .health
            .guard(|| self.source.reopen())
            .map_err(|error| match StoreError::from(error) {
                error if error.kind() == ErrorKind::Corrupt => error,
                error => poisoned(&error.to_string()),
            })?;
        let database = Arc::new(database);
        *slot = Slot::Open(Arc::clone(&database));
        self.health.set_broken(false);
        Ok(database)
    }

    /// Readies the database for a write: opened again and fenced, if an earlier
    /// write asks for it. Called by the one who writes.
    fn ready(&self) -> Result<Arc<Database>, StoreError> {
        if self.source.is_read_only() {
            return Err(self.read_only());
        }
        self.is_open()?;
        if self.health.is_damaged() {
            return Err(damaged_handle());
        }
        let database = self.database()?;
        self.is_in_place()?;
        if self.folder_due.load(Ordering::Acquire) {
            self.source
                .sync_folder()
                .map_err(|error| poisoned(&error.to_string()))?;
            self.folder_due.store(false, Ordering::Release);
        }
        if self.fence_due.load(Ordering::Acquire) {
            self.health
                .guard(|| schema::commit_fence(&database))
                .map_err(|error| poisoned(&error.to_string()))?;
            self.fence_due.store(false, Ordering::Release);
        }
        Ok(database)
    }

    /// Whether the open file still stands at its path. What is written to one
    /// that does not is found by nobody.
    fn is_in_place(&self) -> Result<(), StoreError> {
        let path = self.source.path();
        if *lock(&self.file) == schema::file_at(path) {
            return Ok(());
        }
        let (path, why) = (path.to_owned(), Refusal::Moved);
        Err(Error::Open { path, why }.into())
    }

    fn is_open(&self) -> Result<(), StoreError> {
        match &*lock(&self.database) {
            Slot::Closed => Err(StoreError::closed()),
            Slot::Open(_) | Slot::Lost => Ok(()),
        }
    }

    fn read_only(&self) -> StoreError {
        let path = self.source.path().to_owned();
        let why = Refusal::ReadOnly;
        Error::Open { path, why }.into()
    }

    /// Runs work on one state of a database. A panic of the work is told apart
    /// from one of redb: it passes, but not through redb.
    fn look(
        &self,
        database: &Database,
        work: ReadWork<'_>,
    ) -> Result<std::thread::Result<Result<(), StoreError>>, Error> {
        let txn = self.health.guard(|| Ok(database.begin_read()?))?;
        let txn = Txn::new(Reading::new(txn), &self.health);
        let done = catch_unwind(AssertUnwindSafe(|| work(&txn)));
        self.health.guard(|| {
            drop(txn);
            Ok(())
        })?;
        Ok(done)
    }

    /// Runs the work in a transaction; commits nothing.
    fn work(&self, txn: &WriteTransaction, work: WriteWork<'_>) -> Result<(), StoreError> {
        let tables = self.health.guard(|| Writing::open(txn))?;
        let mut txn = Txn::new(tables, &self.health);
        // redb would take a panic that passes its tables for one of its own.
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut txn)));
        let Txn { tables, failed, .. } = txn;
        let closed = self.health.guard(|| {
            drop(tables);
            Ok(())
        });
        done.unwrap_or_else(|panic| resume_unwind(panic))?;
        closed?;
        if failed {
            return Err(transaction_failed());
        }
        Ok(())
    }
}

impl Drop for RedbEngine {
    fn drop(&mut self) {
        self.close();
    }
}

/// Closes a database once the reads that have begun on it have ended; answers
/// whether they did.
fn give_up(slot: &mut Slot) -> bool {
    let until = Instant::now() + READS_END_WITHIN;
    loop {
        match std::mem::replace(slot, Slot::Lost) {
            Slot::Open(shared) => match Arc::try_unwrap(shared) {
                Ok(database) => schema::release(database),
                Err(shared) => {
                    *slot = Slot::Open(shared);
                    if Instant::now() > until {
                        return false;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            },
            Slot::Lost | Slot::Closed => return true,
        }
    }
}

/// What a panic under the lock left behind is whole: a slot is set as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine for RedbEngine {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        let database = self.database()?;
        let done = self.look(&database, work);
        // After a rewrite this read may be the last who holds the old file.
        schema::release(database);
        done?.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        let _one = lock(&self.writing);
        let database = self.ready()?;
        let txn = self.health.guard(|| schema::begin_write(&database))?;
        let done = catch_unwind(AssertUnwindSafe(|| self.work(&txn, work)));
        if !matches!(done, Ok(Ok(()))) {
            // An error of the rollback is an error of the handle, which is
            // remembered, and the next write begins with it.
            let _ = self.health.guard(|| Ok(txn.abort()?));
            return done.unwrap_or_else(|panic| resume_unwind(panic));
        }
        let committed = self.health.guard(|| Ok(txn.commit()?));
        schema::release(database);
        let Err(error) = committed else {
            return Ok(());
        };
        if is_rolled_back(&error) {
            return Err(transaction_failed());
        }
        self.fence_due.store(true, Ordering::Release);
        self.health.set_broken(true);
        // At once if possible, so that reads tell the truth about the batch;
        // otherwise before the next write.
        let _ = self.ready().map(schema::release);
        Err(indeterminate(&error))
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.is_open()?;
        // Nobody else commits, so only a failed commit of this handle is open.
        if !self.fence_due.load(Ordering::Acquire) {
            return Ok(());
        }
        let _one = lock(&self.writing);
        self.ready().map(schema::release)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            multi_process: false,
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

    /// Reads every row of one state: whether it fits its checksum, is found by
    /// its key, and has what it belongs to or leads to.
    ///
    /// redb's own `check_integrity` is not used: it wants the file for itself,
    /// so every read would have to end first, and it repairs what it finds,
    /// while damage is to be kept and looked at. It compares the checksums of
    /// pages; the walk reads the same pages, but for free ones, by what is
    /// expected of their rows.
    fn check(&self) -> Result<(), StoreError> {
        let database = self.database()?;
        let found = self.health.guard(|| {
            let tables = Reading::new(database.begin_read()?);
            check::everything(&tables)
        });
        schema::release(database);
        let found = found?;
        if found.is_empty() {
            return Ok(());
        }
        Err(StoreError::corrupt(
            "database_damaged",
            format!(
                "{}: the database file is damaged; keep it and restore a copy: {}",
                self.source.path().display(),
                found.join("; ")
            ),
        ))
    }

    /// Copies every row into a new file that takes the place of the old one.
    /// redb's own `compact` moves pages within the file and leaves copies.
    ///
    /// Reads that have begun end on the old file, which has no name any more.
    fn rewrite(&self) -> Result<(), StoreError> {
        let _one = lock(&self.writing);
        let database = self.ready()?;
        let rewritten = self.source.rewrite(&database);
        schema::release(database);
        let rewritten = Slot::Open(Arc::new(rewritten?));
        // Nothing is committed before the folder has kept the new file: what a
        // power cut brings back until then is the old one, whole.
        self.folder_due.store(true, Ordering::Release);
        *lock(&self.file) = schema::file_at(self.source.path());
        let old = {
            let mut slot = lock(&self.database);
            if matches!(*slot, Slot::Closed) {
                schema::release(rewritten);
                return Err(StoreError::closed());
            }
            self.health.set_broken(false);
            std::mem::replace(&mut *slot, rewritten)
        };
        schema::release(old);
        self.ready().map(schema::release)
    }

    fn owner(&self) -> Result<u64, StoreError> {
        if self.source.is_read_only() {
            return Err(self.read_only());
        }
        self.is_open()?;
        Ok(*self.owner.get_or_init(|| self.random().max(1)))
    }

    fn is_alive(&self, owner: u64) -> Result<bool, StoreError> {
        self.is_open()?;
        // One handle at a time: whoever had the file before is gone.
        Ok(self.owner.get() == Some(&owner))
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.is_open().map(|()| 0)
    }

    fn close(&self) {
        let mut slot = lock(&self.database);
        give_up(&mut slot);
        // The last of reads that take longer lets the file go.
        let rest = std::mem::replace(&mut *slot, Slot::Closed);
        schema::release(rest);
    }
}

/// Whether a commit refused before it wrote anything.
fn is_rolled_back(error: &Error) -> bool {
    matches!(error, Error::Redb(error) if matches!(**error, redb::Error::TransactionPoisoned))
}

#[cfg(test)]
impl RedbEngine {
    /// Behaves as after a commit that failed.
    pub(crate) fn demand_fence(&self) {
        self.fence_due.store(true, Ordering::Release);
        self.health.set_broken(true);
    }

    /// What a panic inside redb becomes.
    pub(crate) fn panic_in_redb(&self) -> StoreError {
        let panicked = self
            .health
            .guard(|| -> Result<(), Error> { panic!("as redb does") });
        panicked.unwrap_err().into()
    }

    /// The database, for what only tests do.
    pub(crate) fn raw(&self) -> Arc<Database> {
        self.database().unwrap()
    }
}
