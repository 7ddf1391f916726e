//! How a store proves itself.
//!
//! [`conformance`] is the registry: every case has a name, and every adapter
//! runs every case. [`event`] builds events in a line each, [`check`] asks a
//! store in a line each. [`workload`] makes long, regular sessions and short,
//! wild ones. [`mod@reference`] projects events by the simplest possible path, as
//! the oracle. [`decorator`] wraps a store to watch it. [`simulated`] is a
//! durable store without a disk, and [`sabotage`] the wrong stores that the
//! suite must find out. [`model`] compares stores with the simplest possible
//! ledger, over random histories. For adapters with files, [`engine`] has the
//! cases below the port, and [`erasure`] those about the bytes in the files.
#![expect(
    clippy::unwrap_used,
    reason = "a case fails by panicking; what is unwrapped is what it claims"
)]

#[macro_use]
pub mod conformance;
pub mod cases;
pub mod check;
pub mod decorator;
#[macro_use]
pub mod engine;
#[macro_use]
pub mod erasure;
pub mod event;
pub mod model;
pub mod reference;
pub mod sabotage;
pub mod simulated;
pub mod workload;

/// A fresh store in memory: what tests of use cases run on.
///
/// # Panics
/// If the system gives no thread.
pub fn memory_store() -> std::sync::Arc<dyn folio_store::Store> {
    match folio_store_memory::open() {
        Ok(store) => std::sync::Arc::new(store),
        Err(error) => unreachable!("a store in memory always opens: {error}"),
    }
}
