//! Who writes next, among processes.
//!
//! SQLite lets one write at a time but keeps no queue: who waits sleeps ever
//! longer, and a writer that never pauses takes the lock again before anybody
//! wakes. So writers queue for two locks beside the database. Whoever writes
//! holds `-lock`; whoever is next holds `-turn` until it has `-lock`. A writer
//! that comes back finds the turn taken and cannot overtake, so two writers
//! alternate and each waits for one transaction of the other.
//!
//! The locks order writers and decide nothing: SQLite's own still keep them
//! apart. Both die with their process. The files stay, because removing a file
//! that others may be about to lock would split the queue.

use crate::error::Error;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The bounds of the time between two looks at a lock. In between it is an
/// eighth of the wait so far: short beside the commit that is waited for, so
/// that the lock does not lie idle, and long where the wait is.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// The place of a store's writers in the queue.
#[derive(Debug)]
pub struct WriterLock {
    turn: File,
    lock: File,
    lock_path: PathBuf,
    /// The most that a write waits.
    timeout: Duration,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub struct Held<'a>(&'a File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // If this fails the lock goes with the file.
        let _ = self.0.unlock();
    }
}

/// Who has the lock, as it wrote into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pid: u32,
    /// Milliseconds since 1970.
    since: u64,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pid == std::process::id() {
            f.write_str("another handle of this process")?;
        } else {
            write!(f, "process {}", self.pid)?;
        }
        let millis = now().saturating_sub(self.since);
        write!(f, ", for {}.{} s", millis / 1_000, millis % 1_000 / 100)
    }
}

impl WriterLock {
    /// Opens the lock files of a store, and makes them if there are none.
    ///
    /// # Errors
    /// `Error::Lock` that names the file.
    pub fn open(db: &Path, timeout: Duration) -> Result<Self, Error> {
        Ok(Self {
            turn: open_or_create(db, "-turn")?,
            lock: open_or_create(db, "-lock")?,
            lock_path: beside(db, "-lock"),
            timeout,
        })
    }

    /// Waits for the right to write.
    ///
    /// # Errors
    /// `Error::Busy` that names the holder once the wait is over.
    pub fn acquire(&self) -> Result<Held<'_>, Error> {
        let start = Instant::now();
        let turn = self.wait(&self.turn, start)?;
        let held = self.wait(&self.lock, start)?;
        self.name_holder();
        drop(turn);
        Ok(held)
    }

    /// Waits for one of the locks, until the time since the start is up.
    fn wait<'a>(&self, file: &'a File, start: Instant) -> Result<Held<'a>, Error> {
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Held(file)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => {
                    let path = self.lock_path.clone();
                    return Err(Error::Lock { path, source });
                }
            }
            if start.elapsed() >= self.timeout {
                return Err(Error::Busy(self.holder()));
            }
            std::thread::sleep((since.elapsed() / 8).clamp(PAUSES.0, PAUSES.1));
        }
    }

    /// Writes down who holds the lock: of use to people alone, so that a
    /// failure changes nothing. The width is fixed, so that nothing of an
    /// earlier name is left.
    fn name_holder(&self) {
        let line = format!("{:>10} {:>20}\n", std::process::id(), now());
        let mut file = &self.lock;
        let _ = file.rewind().and_then(|()| file.write_all(line.as_bytes()));
    }

    /// Who holds the lock. Windows lets nobody read a locked file.
    fn holder(&self) -> Option<Holder> {
        let line = std::fs::read_to_string(&self.lock_path).ok()?;
        let (pid, since) = line.trim().split_once(' ')?;
        Some(Holder {
            pid: pid.parse().ok()?,
            since: since.trim().parse().ok()?,
        })
    }
}

#[cfg(test)]
impl WriterLock {
    /// Whether nobody waits to be next.
    pub(crate) fn turn_is_free(&self) -> bool {
        self.wait(&self.turn, Instant::now()).is_ok()
    }
}

/// The path of a file that is kept beside the database.
pub fn beside(db: &Path, suffix: &str) -> PathBuf {
    let mut name = db.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Opens a lock file of a database. A new one gets the database's permissions,
/// as SQLite's own side files do: whoever may write the one may lock the other.
fn open_or_create(db: &Path, suffix: &str) -> Result<File, Error> {
    let path = beside(db, suffix);
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let opened = match options.clone().create_new(true).open(&path) {
        Ok(file) => {
            if let Ok(meta) = std::fs::metadata(db) {
                let _ = file.set_permissions(meta.permissions());
            }
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(&path),
        Err(error) => Err(error),
    };
    opened.map_err(|source| Error::Lock { path, source })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
