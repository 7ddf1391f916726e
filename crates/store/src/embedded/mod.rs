//! The asynchronous shell that embedded adapters share.
//!
//! One thread writes, fed by a queue, so appends are ordered and no caller
//! ever waits for another's lock; reads are short transactions on the
//! caller's thread. Everything between the port and the [`Engine`] is here;
//! what it decides stands in modules of its own.

mod admin;
mod contents;
mod ledger;
mod reads;
mod watch;
mod writer;

use crate::StoreError;
use crate::blob::Uploads;
use crate::engine::{Engine, Snapshot, WriteTxn};
use crate::packing::Packing;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use watch::Watch;
use writer::Writer;

pub use writer::QUEUE_BYTES;

/// The most rows that one listing answers.
pub(crate) const MAX_LISTED: usize = 1_024;

/// A store over an [`Engine`].
pub struct Embedded<E: Engine> {
    engine: Arc<Packing<E>>,
    writer: Writer<Packing<E>>,
    watch: Watch<Packing<E>>,
    uploads: Arc<Uploads>,
}

impl<E: Engine> fmt::Debug for Embedded<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl<E: Engine> Drop for Embedded<E> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<E: Engine> Embedded<E> {
    /// A store over an engine.
    ///
    /// # Errors
    /// `thread_failed` where the system gives no thread.
    pub fn new(engine: E) -> Result<Self, StoreError> {
        let engine = Arc::new(Packing::new(engine));
        let watch = Watch::new(Arc::clone(&engine));
        Ok(Self {
            writer: Writer::start(Arc::clone(&engine), watch.commits())?,
            watch,
            engine,
            uploads: Arc::default(),
        })
    }

    /// The engine, for what the port does not offer.
    pub fn engine(&self) -> &E {
        self.engine.engine()
    }

    /// Lets the writer finish what it was handed, ends every thread, and lets
    /// go of the files.
    fn stop(&self) {
        self.writer.stop();
        self.watch.stop();
        self.engine.close();
    }

    fn read<T>(
        &self,
        mut work: impl FnMut(&dyn Snapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut out = None;
        self.engine.read(&mut |snapshot| {
            out = Some(work(snapshot)?);
            Ok(())
        })?;
        out.ok_or_else(StoreError::closed)
    }

    /// Hands work to the writer, to be done in a transaction of its own, and
    /// waits for its outcome. Dropping the wait changes nothing about the work.
    async fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut dyn WriteTxn, &Packing<E>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let commits = self.watch.commits();
        let work = move |engine: &Packing<E>| {
            let mut out = None;
            engine.write(&mut |txn| {
                out = Some(work(txn, engine)?);
                Ok(())
            })?;
            commits.send_modify(|count| *count += 1);
            out.ok_or_else(StoreError::closed)
        };
        self.writer.alone(work).await
    }
}

/// Starts a thread with a name.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(|error| StoreError::no_thread(name, error))
}
