//! Tests of rows, files and transactions: what every engine promises, and what
//! this one does.

mod damage;
mod opening;
mod rows;
mod transactions;

use crate::{RedbConfig, RedbEngine};
use folio_core::item::Lane;
use folio_store::StoreError;
use folio_store::engine::{Engine, Erase, Snapshot};
use folio_testkit::engine::rows::*;
use folio_testkit::engine::{EnginePlace, read, write};
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableHandle};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tempfile::TempDir;

folio_testkit::engine_cases!(Place);

/// A directory, and the path of a store in it.
struct Place {
    dir: TempDir,
    path: PathBuf,
}

impl Place {
    fn config(&self) -> RedbConfig {
        RedbConfig::new(&self.path)
    }

    /// The file as redb sees it; no engine may have it open.
    fn raw(&self) -> Database {
        Database::create(&self.path).unwrap()
    }
}

/// Tables that find rows of another one, one entry for each.
const FINDERS: [(&str, &str); 7] = [
    ("sessions_log", "sessions"),
    ("spans_src", "spans"),
    ("runs_id", "runs"),
    ("runs_inv", "runs"),
    ("runs_turn", "runs"),
    ("cited", "citations"),
    ("view_rows_log", "view_rows"),
];

impl EnginePlace for Place {
    type Engine = RedbEngine;
    const MULTI_PROCESS: bool = false;

    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a store?.folio");
        Self { dir, path }
    }

    fn open(&self) -> RedbEngine {
        RedbEngine::open(&self.config()).unwrap()
    }

    fn open_read_only(&self) -> RedbEngine {
        RedbEngine::open(&self.config().read_only()).unwrap()
    }

    fn counts(&self, engine: &RedbEngine) -> Vec<(String, u64)> {
        let txn = engine.raw().begin_read().unwrap();
        let mut counts: BTreeMap<_, _> = txn
            .list_tables()
            .unwrap()
            .map(|table| {
                let name = table.name().to_owned();
                let count = txn.open_untyped_table(table).unwrap().len().unwrap();
                (name, count)
            })
            .collect();
        for (finder, rows) in FINDERS {
            assert_eq!(counts.remove(finder), Some(counts[rows]), "{finder}");
        }
        let slices = txn.open_table(crate::tables::definition::pieces).unwrap();
        let keys = slices.iter().unwrap().map(|slice| slice.unwrap().0.value());
        let pieces = keys.filter(|(_, _, slice)| *slice == 0).count();
        counts.insert("pieces".into(), pieces as u64);
        counts.into_iter().collect()
    }
}
