//! How a store proves itself.
//!
//! [`conformance`] is the registry: every case has a name, and every adapter
//! runs every case. [`event`] builds events in a line each, [`check`] asks a
//! store in a line each. [`workload`] makes long, regular sessions and short,
//! wild ones. [`mod@reference`] projects events by the simplest possible path, as
//! the oracle.
#![expect(
    clippy::unwrap_used,
    reason = "a case fails by panicking; what is unwrapped is what it claims"
)]

#[macro_use]
pub mod conformance;
pub mod cases;
pub mod check;
pub mod event;
pub mod reference;
pub mod workload;
