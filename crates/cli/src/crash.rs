//! What a panic becomes: an error like any other.
//!
//! A library may panic on a damaged file, and the store that called it then
//! answers with an error. So nothing is written when a panic begins, but only
//! when nobody caught it.

use crate::failure::{Exit, Failure};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};

/// The last panic, and where it was.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Does the work of a command.
///
/// # Errors
/// Those of the work; `internal_error` where it panicked.
pub fn caught(work: impl FnOnce() -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    let before = take_hook();
    set_hook(Box::new(|panic| {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
    // Nothing that the work was about is looked at again.
    let done = catch_unwind(AssertUnwindSafe(work));
    set_hook(before);
    done.unwrap_or_else(|_| {
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        let message = format!("the program failed and that is its own mistake, report it: {last}");
        Err(Failure::new(Exit::Internal, "internal_error", message))
    })
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn a_panic_is_an_error_that_says_what_and_where() {
        let failure = caught(|| panic!("of no use")).expect_err("a failure");
        assert_eq!(failure.code(), "internal_error");
        let message = failure.to_string();
        assert!(message.contains("of no use"), "{message}");
        assert!(message.contains(file!()), "{message}");
    }
}
