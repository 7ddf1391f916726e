//! One state that is published whole, and one writer at a time.

use crate::reader::Tables;
use folio_store::StoreError;
use folio_store::engine::{Capabilities, Engine, ReadWork, WriteWork};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The engine of [`MemoryStore`](crate::MemoryStore).
#[derive(Debug, Default)]
pub struct MemoryEngine {
    tables: RwLock<Tables>,
    /// One writer at a time.
    writing: Mutex<()>,
}

/// The one handle that a store in memory can have.
const OWNER: u64 = 1;

impl MemoryEngine {
    fn current(&self) -> Tables {
        self.tables
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Engine for MemoryEngine {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        work(&self.current())
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tables = self.current();
        work(&mut tables)?;
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = tables;
        Ok(())
    }

    fn settle(&self) -> Result<(), StoreError> {
        // No commit fails.
        Ok(())
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
        Ok(())
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        // What no state holds is gone.
        Ok(())
    }

    fn owner(&self) -> Result<u64, StoreError> {
        Ok(OWNER)
    }

    fn is_alive(&self, owner: u64) -> Result<bool, StoreError> {
        Ok(owner == OWNER)
    }

    fn version(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}
