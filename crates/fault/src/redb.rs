//! redb over a [`Disk`].

use crate::{Disk, Fault, FileNo};
use redb::{BackendError, StorageBackend};
use std::io;
use std::ops::Bound;

/// A storage of redb that leads another one through a [`Disk`].
///
/// The file counts as there and synced from the beginning: how it was made is
/// the business of who makes it.
#[derive(Debug)]
pub struct Backend<B> {
    inner: B,
    disk: Disk,
    file: FileNo,
}

impl<B: StorageBackend> Backend<B> {
    /// Leads a storage through a disk, under a name.
    ///
    /// # Errors
    /// Where the disk has an armed fault that forbids to open it.
    pub fn new(inner: B, name: &str, disk: Disk) -> io::Result<Self> {
        let file = disk.open(name, true).map_err(failed)?;
        Ok(Self { inner, disk, file })
    }
}

fn failed(fault: Fault) -> io::Error {
    if fault.full {
        io::Error::new(io::ErrorKind::StorageFull, "no room, by order of the test")
    } else {
        io::Error::other("the disk failed, by order of the test")
    }
}

impl<B: StorageBackend> StorageBackend for Backend<B> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(self.file).map_err(failed)?;
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.resize(self.file, len).map_err(failed)?;
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        // Recorded and not carried out: nothing here loses power.
        self.disk.sync(self.file, false).map_err(failed)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.disk.write(self.file, offset, data) {
            Ok(()) => self.inner.write(offset, data),
            Err((fault, kept)) => {
                self.inner.write(offset, &data[..kept])?;
                Err(failed(fault))
            }
        }
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }
}
