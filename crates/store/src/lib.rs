//! The store port: what a ledger promises, and who decides it.
pub mod engine;
mod error;
pub mod rows;
pub use error::{ErrorKind, StoreError};
