//! Tests of rows, files and transactions.
