//! One state that is published whole, and one writer at a time.

use crate::reader::Tables;
use folio_store::StoreError;
use folio_store::engine::{Capabilities, Engine, ReadWork, WriteWork};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The engine of [`MemoryStore`](crate::MemoryStore).
#[derive(Debug, Default)]
pub struct MemoryEngine {
    tables: RwLock<Tables>,
    /// One writer at a time.
    writing: Mutex<()>,
    closed: AtomicBool,
}

/// The one handle that a store in memory can have.
const OWNER: u64 = 1;

impl MemoryEngine {
    fn current(&self) -> Result<Tables, StoreError> {
        self.is_open()?;
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        Ok(tables.clone())
    }

    fn is_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::closed());
        }
        Ok(())
    }
}

impl Engine for MemoryEngine {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        work(&self.current()?)
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables = self.current()?;
        work(&mut tables)?;
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = tables;
        Ok(())
    }

    fn settle(&self) -> Result<(), StoreError> {
        // No commit fails.
        self.is_open()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn now(&self) -> u64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u64 {
        // Without the system's randomness incarnations still differ in time.
        getrandom::u64().unwrap_or_else(|_| self.now())
    }

    fn check(&self) -> Result<(), StoreError> {
        self.is_open()
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        // What no state holds is gone.
        self.is_open()
    }

    fn owner(&self) -> Result<u64, StoreError> {
        self.is_open().map(|()| OWNER)
    }

    fn is_alive(&self, owner: u64) -> Result<bool, StoreError> {
        self.is_open().map(|()| owner == OWNER)
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.is_open().map(|()| 0)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
