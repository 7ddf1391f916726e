//! No panic of redb leaves the crate, and what went wrong is remembered.

use crate::error::Error;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs calls into redb; a panic is an error.
///
/// Nothing that the calls touched is used after a panic without a check of its
/// own: redb poisons its transactions and locks, and [`Health`] the engine.
pub fn caught<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Error::Panicked(text(&*panic))))
}

fn text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no message".to_owned())
}

/// What is known of an open database.
#[derive(Debug, Default)]
pub struct Health {
    /// redb panicked: the file is damaged, and nothing more is written.
    damaged: AtomicBool,
    /// redb serves nothing more until the file was opened again.
    broken: AtomicBool,
}

impl Health {
    /// Runs calls into redb and remembers what their errors mean.
    pub fn guard<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let done = caught(work);
        if let Err(error) = &done {
            if matches!(error, Error::Panicked(_)) {
                self.damaged.store(true, Ordering::Release);
            }
            if error.breaks_handle() {
                self.set_broken(true);
            }
        }
        done
    }

    /// Whether redb panicked.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    /// Whether the file must be opened again.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Says whether the file must be opened again.
    pub fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::Release);
    }
}
