//! The stores in files, for the tests over real session files: only a root may
//! name them.

use crate::common::{Kind, Opened};
use folio_store_redb::RedbConfig;
use folio_store_sqlite::SqliteConfig;
use std::sync::Arc;

pub const SQLITE: Kind = Kind {
    name: "sqlite",
    open: || {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let config = SqliteConfig::new(folder.path().join("folio.db"));
        let store = folio_store_sqlite::open(&config).map_err(|error| error.to_string())?;
        Ok(Opened {
            store: Arc::new(store),
            folder: Some(folder),
        })
    },
};

pub const REDB: Kind = Kind {
    name: "redb",
    open: || {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let config = RedbConfig::new(folder.path().join("folio.redb"));
        let store = folio_store_redb::open(&config).map_err(|error| error.to_string())?;
        Ok(Opened {
            store: Arc::new(store),
            folder: Some(folder),
        })
    },
};
