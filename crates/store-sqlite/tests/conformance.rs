//! The conformance suite over the store in one SQLite file.

use async_trait::async_trait;
use folio_store::engine::{Capabilities, Engine};
use folio_store::{ErrorKind, Store, StoreError};
use folio_store_sqlite::{SqliteConfig, open};
use folio_testkit::conformance::{Damage, Need, StorePlace, let_index_age, lose_notes, run};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tempfile::TempDir;

/// A directory that goes when the case ends.
struct Place(TempDir);

impl Place {
    fn file(&self) -> PathBuf {
        self.0.path().join("sessions.folio")
    }
}

#[async_trait]
impl StorePlace for Place {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            multi_process: true,
            fast_open_after_crash: true,
        }
    }

    fn has(&self, need: Need) -> bool {
        // Commits that fail need a disk that fails; the tests of this crate
        // and of the command line bring their own.
        need != Need::FailedCommit
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(open(&SqliteConfig::new(self.file()))?))
    }

    async fn damage(&self, damage: Damage<'_>) -> Result<(), StoreError> {
        const EVENT: &str = "k = (SELECT log_no << 33 FROM sessions WHERE session_id = ?1) | ?2";
        const ITEM: &str = "p >> 3 = ?2 | (SELECT index_no << 33 FROM logs
             JOIN sessions USING (log_no) WHERE session_id = ?1)";
        const CHANGE: &str = "SET body = CAST(body || x'00' AS BLOB)";
        let (sql, id, ordinal) = match damage {
            Damage::Event(id, at) => (format!("UPDATE events {CHANGE} WHERE {EVENT}"), id, at),
            Damage::Item(id, at) => (format!("UPDATE items {CHANGE} WHERE {ITEM}"), id, at),
            Damage::LostItem(id, at) => (format!("DELETE FROM items WHERE {ITEM}"), id, at),
            Damage::OldIndex(id) => {
                let store = open(&SqliteConfig::new(self.file()))?;
                return store.engine().write(&mut |txn| let_index_age(txn, id));
            }
            Damage::LostNotes(id) => {
                let store = open(&SqliteConfig::new(self.file()))?;
                return store.engine().write(&mut |txn| lose_notes(txn, id));
            }
            Damage::Piece(id, piece) => {
                const PIECE: &str = "k = (SELECT blob_no << 20 FROM blobs WHERE sha = ?1) | ?2";
                let sql = format!("UPDATE pieces {CHANGE} WHERE {PIECE}");
                let damaged = rusqlite::Connection::open(self.file())
                    .and_then(|file| file.execute(&sql, (&id.0[..], piece)));
                return is_one(damage, &damaged);
            }
        };
        let damaged = rusqlite::Connection::open(self.file())
            .and_then(|file| file.execute(&sql, (id.as_str(), ordinal.cast_signed())));
        is_one(damage, &damaged)
    }
}

/// Whether the damage hit one row.
fn is_one(damage: Damage<'_>, damaged: &rusqlite::Result<usize>) -> Result<(), StoreError> {
    match damaged {
        Ok(1) => Ok(()),
        other => Err(StoreError::new(
            ErrorKind::Invalid,
            "not_damaged",
            format!("{damage:?} damaged {other:?} rows, not one"),
        )),
    }
}

fn main() -> ExitCode {
    run(|| Box::new(Place(tempfile::tempdir().expect("a temporary directory"))))
}
