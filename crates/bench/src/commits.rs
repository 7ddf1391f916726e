//! Counting the commits of an engine: each is one sync that appends share.

use folio_store::StoreError;
use folio_store::engine::{Capabilities, Engine, ReadWork, WriteWork};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many transactions were committed so far.
#[derive(Debug, Clone, Default)]
pub struct Commits(Arc<AtomicU64>);

impl Commits {
    /// The number.
    pub fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An engine whose commits are counted.
#[derive(Debug)]
pub struct Counted<E> {
    inner: E,
    commits: Commits,
}

impl<E> Counted<E> {
    /// Counts the commits of an engine.
    pub fn new(inner: E, commits: Commits) -> Self {
        Self { inner, commits }
    }
}

impl<E: Engine> Engine for Counted<E> {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        self.inner.read(work)
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        self.inner.write(work)?;
        self.commits.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.inner.settle()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn now(&self) -> u64 {
        self.inner.now()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.inner.check()
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        self.inner.rewrite()
    }

    fn owner(&self) -> Result<u64, StoreError> {
        self.inner.owner()
    }

    fn is_alive(&self, owner: u64) -> Result<bool, StoreError> {
        self.inner.is_alive(owner)
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.inner.version()
    }

    fn close(&self) {
        self.inner.close();
    }
}
