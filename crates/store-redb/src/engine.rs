//! The open database: transactions, and what happens after an error.

use crate::RedbConfig;
use crate::check;
use crate::error::{Error, Refusal, damaged_handle, indeterminate, poisoned, transaction_failed};
use crate::health::Health;
use crate::reader::Txn;
use crate::schema::{self, Source};
use crate::tables::{Reading, Writing};
use folio_store::engine::{Capabilities, Engine, ReadWork, WriteWork};
use folio_store::{ErrorKind, StoreError};
use redb::{Database, ReadableDatabase, WriteTransaction};
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long reads that began may hold up opening the file again.
const READS_END_WITHIN: Duration = Duration::from_secs(5);

/// One redb file.
#[derive(Debug)]
pub struct RedbEngine {
    source: Source,
    health: Health,
    /// None where the file could not be opened again after an error.
    database: Mutex<Option<Arc<Database>>>,
    writer: Mutex<Writer>,
}

#[derive(Debug, Default)]
struct Writer {
    /// A commit failed, and nothing was committed since.
    fence_due: bool,
}

impl RedbEngine {
    /// Opens a store.
    ///
    /// # Errors
    /// A typed error that says what to do; nothing was created or changed then.
    pub fn open(config: &RedbConfig) -> Result<Self, StoreError> {
        let (source, database) = schema::open(config)?;
        Ok(Self {
            source,
            health: Health::default(),
            database: Mutex::new(Some(Arc::new(database))),
            writer: Mutex::default(),
        })
    }

    /// The database, opened again if it serves nothing more.
    fn database(&self) -> Result<Arc<Database>, StoreError> {
        let mut slot = lock(&self.database);
        if self.health.is_broken() || slot.is_none() {
            self.reopen(&mut slot)?;
        }
        slot.clone().ok_or_else(|| poisoned("it is closed"))
    }

    /// Closes the database and opens it again. After an error of the disk redb
    /// serves nothing more until then; opening repairs what the error left.
    fn reopen(&self, slot: &mut Option<Arc<Database>>) -> Result<(), StoreError> {
        let until = Instant::now() + READS_END_WITHIN;
        while let Some(shared) = slot.take() {
            match Arc::try_unwrap(shared) {
                Ok(database) => schema::release(database),
                Err(shared) => {
                    *slot = Some(shared);
                    if Instant::now() > until {
                        return Err(poisoned("reads still use it"));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        let database = self
            .health
            .guard(|| self.source.reopen())
            .map_err(|error| match StoreError::from(error) {
                error if error.kind() == ErrorKind::Corrupt => error,
                error => poisoned(&error.to_string()),
            })?;
        *slot = Some(Arc::new(database));
        self.health.set_broken(false);
        Ok(())
    }

    /// Readies the database for a write: opened again and fenced, if an earlier
    /// write asks for it.
    fn ready(&self, writer: &mut Writer) -> Result<Arc<Database>, StoreError> {
        let database = self.database()?;
        if writer.fence_due {
            self.health
                .guard(|| schema::commit_fence(&database))
                .map_err(|error| poisoned(&error.to_string()))?;
            writer.fence_due = false;
        }
        Ok(database)
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
        schema::release(lock(&self.database).take());
    }
}

/// What a panic under the lock left behind is whole: a slot is set as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine for RedbEngine {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        let database = self.database()?;
        let txn = self.health.guard(|| Ok(database.begin_read()?))?;
        let txn = Txn::new(Reading::new(txn), &self.health);
        // A panic of the work passes, but not through redb.
        let done = catch_unwind(AssertUnwindSafe(|| work(&txn)));
        self.health.guard(|| {
            drop(txn);
            Ok(())
        })?;
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        if self.source.is_read_only() {
            return Err(Error::Open {
                path: self.source.path().to_owned(),
                why: Refusal::ReadOnly,
            }
            .into());
        }
        let mut writer = lock(&self.writer);
        if self.health.is_damaged() {
            return Err(damaged_handle());
        }
        let database = self.ready(&mut writer)?;
        let txn = self.health.guard(|| schema::begin_write(&database))?;
        let done = catch_unwind(AssertUnwindSafe(|| self.work(&txn, work)));
        if !matches!(done, Ok(Ok(()))) {
            // An error of the rollback is an error of the handle, which is
            // remembered, and the next write begins with it.
            let _ = self.health.guard(|| Ok(txn.abort()?));
            return done.unwrap_or_else(|panic| resume_unwind(panic));
        }
        let committed = self.health.guard(|| Ok(txn.commit()?));
        drop(database);
        let Err(error) = committed else {
            return Ok(());
        };
        if is_rolled_back(&error) {
            return Err(transaction_failed());
        }
        writer.fence_due = true;
        self.health.set_broken(true);
        if !self.health.is_damaged() {
            // At once if possible, so that reads tell the truth about the batch;
            // otherwise before the next write.
            let _ = self.ready(&mut writer);
        }
        Err(indeterminate(&error))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            multi_process: false,
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
        })?;
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
}

/// Whether a commit refused before it wrote anything.
fn is_rolled_back(error: &Error) -> bool {
    matches!(error, Error::Redb(error) if matches!(**error, redb::Error::TransactionPoisoned))
}

#[cfg(test)]
impl RedbEngine {
    /// Makes the disk fail.
    pub(crate) fn faults(&self) -> &crate::tests::Faults {
        &self.source.faults
    }

    /// Behaves as after a commit that failed.
    pub(crate) fn demand_fence(&self) {
        lock(&self.writer).fence_due = true;
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
