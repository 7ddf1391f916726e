//! Whether standard output was closed when the program began (`folio … >&-`).
//!
//! Before `main` the standard library opens the null device in place of a
//! stream that is closed, and writing to it succeeds; from then on nobody can
//! tell. So the stream is looked at before that.

use crate::failure::Failure;

/// Fails where nothing that is written can arrive anywhere.
///
/// # Errors
/// `output_failed`.
pub fn check() -> Result<(), Failure> {
    #[cfg(unix)]
    if begin::CLOSED.load(std::sync::atomic::Ordering::Relaxed) {
        let error = std::io::Error::from(rustix::io::Errno::BADF);
        let message = format!(
            "standard output is closed ({error}), and nothing was done; \
             send it to a file, or to /dev/null where nobody is to read it"
        );
        return Err(Failure::new(
            crate::failure::Exit::Internal,
            "output_failed",
            message,
        ));
    }
    Ok(())
}

#[cfg(unix)]
mod begin {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whether it was closed.
    pub static CLOSED: AtomicBool = AtomicBool::new(false);

    /// Asks for the stream's flags, and neither allocates nor can panic.
    #[ctor::ctor(unsafe)]
    fn look() {
        let flags = rustix::io::fcntl_getfd(rustix::stdio::stdout());
        CLOSED.store(flags == Err(rustix::io::Errno::BADF), Ordering::Relaxed);
    }
}
