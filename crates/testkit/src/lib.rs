//! How a store proves itself.
//!
//! [`conformance`] is the registry: every case has a name, and every adapter
//! runs every case. [`event`] builds events in a line each. [`workload`] makes
//! long, regular sessions. [`decorator`] wraps a store to watch it.

pub mod cases;
pub mod conformance;
pub mod event;
