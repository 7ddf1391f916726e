//! A file that is read and never written: what redb writes stays in memory.
//!
//! redb writes to every file that it opens for writing, and refuses to open one
//! for reading alone after a crash. Over this backend it may recover as it
//! likes, and the file stays byte for byte as it was.

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes that are kept together.
const BLOCK: usize = 4096;

/// The backend.
#[derive(Debug)]
pub struct Overlay {
    file: FileBackend,
    written: RwLock<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// Up to here bytes come from the file; beyond they are zero.
    from_file: u64,
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    /// A view of a file that is open for reading.
    pub fn new(file: File) -> Result<Self, DatabaseError> {
        let file = FileBackend::new(file)?;
        let len = file.len()?;
        Ok(Self {
            file,
            written: RwLock::new(Written {
                len,
                from_file: len,
                blocks: BTreeMap::new(),
            }),
        })
    }

    fn look(&self) -> RwLockReadGuard<'_, Written> {
        self.written.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Written> {
        self.written.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes as the file has them, with zeros beyond its end.
    fn read_file(&self, from_file: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = from_file.saturating_sub(offset).min(out.len() as u64);
        let (there, beyond) = out.split_at_mut(usize::try_from(there).unwrap_or(usize::MAX));
        beyond.fill(0);
        if there.is_empty() {
            return Ok(());
        }
        self.file.read(offset, there)
    }
}

/// Where in its block an offset lies.
fn in_block(offset: u64) -> usize {
    usize::try_from(offset % BLOCK as u64).unwrap_or(0)
}

/// The parts of a range that lie in one block each: the block, where in it, and
/// how many bytes.
fn parts(mut offset: u64, mut left: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    std::iter::from_fn(move || {
        let at = in_block(offset);
        let n = left.min(BLOCK - at);
        let part = (offset - at as u64, at, n);
        offset += n as u64;
        left -= n;
        (n > 0).then_some(part)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.look().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.look();
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > written.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(written.from_file, offset, out)?;
        let mut done = 0;
        for (block, at, n) in parts(offset, out.len()) {
            if let Some(bytes) = written.blocks.get(&block) {
                out[done..done + n].copy_from_slice(&bytes[at..at + n]);
            }
            done += n;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.change();
        if len < written.len {
            written.from_file = written.from_file.min(len);
            drop(
                written
                    .blocks
                    .split_off(&len.next_multiple_of(BLOCK as u64)),
            );
            let at = in_block(len);
            if let Some(bytes) = written.blocks.get_mut(&(len - at as u64)) {
                bytes[at..].fill(0);
            }
        }
        written.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.change();
        let mut done = 0;
        for (block, at, n) in parts(offset, data.len()) {
            if !written.blocks.contains_key(&block) {
                let mut bytes = vec![0; BLOCK].into_boxed_slice();
                self.read_file(written.from_file, block, &mut bytes)?;
                written.blocks.insert(block, bytes);
            }
            if let Some(bytes) = written.blocks.get_mut(&block) {
                bytes[at..at + n].copy_from_slice(&data[done..done + n]);
            }
            done += n;
        }
        written.len = written.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    // What redb locks against others is shared here: nothing is written, so
    // readers may be many, and a writer is still kept out.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_read_back_and_never_reach_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bytes: Vec<u8> = (0..10_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        std::fs::write(&path, &bytes).unwrap();
        let overlay = Overlay::new(File::open(&path).unwrap()).unwrap();
        let mut model = bytes.clone();
        let read = |overlay: &Overlay| {
            let mut out = vec![0; usize::try_from(overlay.len().unwrap()).unwrap()];
            overlay.read(0, &mut out).unwrap();
            out
        };
        assert!(read(&overlay) == model);
        overlay.write(4_090, &[7; 5_000]).unwrap();
        model[4_090..9_090].fill(7);
        assert!(read(&overlay) == model);
        overlay.set_len(5_000).unwrap();
        overlay.set_len(20_000).unwrap();
        model.resize(5_000, 0);
        model.resize(20_000, 0);
        assert!(read(&overlay) == model, "what was cut off is zero");
        overlay.write(9_999, &[3; 2]).unwrap();
        model[9_999..10_001].fill(3);
        assert!(read(&overlay) == model);
        assert!(overlay.read(19_999, &mut [0; 2]).is_err());
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
}
