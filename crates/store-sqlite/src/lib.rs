//! store-sqlite
