//! Owners of leases: an owner is one open store handle.
//!
//! A handle has a number and a file beside the database that it keeps locked
//! for as long as it lives. The system gives the lock back however the process
//! ends, so an owner whose file can be locked is dead, and no clock decides.
//! Numbers are random and never used again, so a file of a dead owner can be
//! removed by whoever finds it.

use crate::error::Error;
use crate::lock::beside;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Attempts to find a number that nobody has. One is enough unless somebody
/// sweeps in the instant between making the file and locking it.
const ATTEMPTS: usize = 16;
/// The most files of one folder that a sweep looks at, and of owners that it
/// tests: opening must not get slow where many died.
const SWEPT: (usize, usize) = (4_096, 64);

/// A living owner: this handle.
#[derive(Debug)]
pub struct Owner {
    number: u64,
    path: PathBuf,
    /// Locked until it is closed.
    _file: File,
}

impl Owner {
    /// Makes the owner of a handle; its number is one of these random ones.
    pub fn new(db: &Path, random: impl Fn() -> u64) -> Result<Self, Error> {
        let failed = |path: &Path, source| Error::Lock {
            path: path.to_owned(),
            source,
        };
        for _ in 0..ATTEMPTS {
            let number = random() >> 1;
            if number == 0 {
                continue;
            }
            let path = path_of(db, number);
            let made = OpenOptions::new().write(true).create_new(true).open(&path);
            let file = match made {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed(&path, error)),
            };
            match file.try_lock() {
                // Until here a sweep could take the file for a dead owner's.
                Ok(()) if path.exists() => {
                    let _file = file;
                    return Ok(Self {
                        number,
                        path,
                        _file,
                    });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    let _ = fs::remove_file(&path);
                    return Err(failed(&path, error));
                }
            }
        }
        Err(failed(db, io::ErrorKind::AlreadyExists.into()))
    }

    /// Its number: not 0, and below 2^63.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Still locked here; what cannot be removed is swept later.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether an owner lives. The file of a dead one is removed.
pub fn is_alive(db: &Path, number: u64) -> Result<bool, Error> {
    let path = path_of(db, number);
    test(&path).map_err(|source| Error::Lock { path, source })
}

/// Removes the files of dead owners, as far as it can.
pub fn sweep(db: &Path) {
    let (Some(folder), Some(name)) = (db.parent(), db.file_name()) else {
        return;
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut prefix = name.as_encoded_bytes().to_vec();
    prefix.extend_from_slice(b"-owner-");
    entries
        .take(SWEPT.0)
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let digits = name.as_encoded_bytes().strip_prefix(&*prefix);
            digits.is_some_and(|it| it.len() == 16 && it.iter().all(u8::is_ascii_hexdigit))
        })
        .take(SWEPT.1)
        .for_each(|entry| drop(test(&entry.path())));
}

/// Whether somebody has a file locked; otherwise it is removed.
fn test(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // Shared, so that two who test a dead owner do not take each other for it.
    match file.try_lock_shared() {
        Ok(()) => {
            // Under the lock: an owner that is just being made sees it.
            let _ = fs::remove_file(path);
            Ok(false)
        }
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn path_of(db: &Path, number: u64) -> PathBuf {
    beside(db, &format!("-owner-{number:016x}"))
}
