//! Tests of rows, files and transactions: what every engine promises, and what
//! this one does.

mod damage;
mod opening;
mod plans;
mod processes;
mod rows;
mod transactions;

use crate::{SqliteConfig, SqliteEngine};
use folio_core::item::Lane;
use folio_store::StoreError;
use folio_store::engine::{Engine, Erase, Snapshot, Writes};
use folio_testkit::engine::rows::*;
use folio_testkit::engine::{EnginePlace, read, write};
use rusqlite::Connection;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

folio_testkit::engine_cases!(Place);

/// A directory, and the path of a store in it.
struct Place {
    dir: TempDir,
    path: PathBuf,
}

impl Place {
    fn config(&self) -> SqliteConfig {
        let mut config = SqliteConfig::new(&self.path);
        config.busy_timeout = Duration::from_millis(200);
        config
    }

    /// The file as SQLite sees it, beside the engine.
    fn raw(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }
}

impl EnginePlace for Place {
    type Engine = SqliteEngine;
    const MULTI_PROCESS: bool = true;

    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a store?.folio");
        Self { dir, path }
    }

    fn open(&self) -> SqliteEngine {
        SqliteEngine::open(&self.config()).unwrap()
    }

    fn open_read_only(&self) -> SqliteEngine {
        SqliteEngine::open(&self.config().read_only()).unwrap()
    }

    fn counts(&self, _: &SqliteEngine) -> Vec<(String, u64)> {
        let raw = self.raw();
        let mut tables = raw
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
            .unwrap();
        let names = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let mut counts: Vec<_> = names
            .map(|name| {
                let name = name.unwrap();
                let sql = format!("SELECT count(*) FROM {name}");
                let count: i64 = raw.query_row(&sql, [], |row| row.get(0)).unwrap();
                let sort = match &*name {
                    "blob_refs" => "citations",
                    "segs" => "packs",
                    name => name,
                };
                (sort.to_owned(), count.cast_unsigned())
            })
            .collect();
        counts.sort();
        counts
    }
}
