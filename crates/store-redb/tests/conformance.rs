//! The conformance suite over the store in one redb file.

use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::engine::{Capabilities, Engine};
use folio_store::{BlobId, ErrorKind, Store, StoreError};
use folio_store_redb::{RedbConfig, open};
use folio_testkit::conformance::{Damage, Need, StorePlace, let_index_age, lose_notes, run};
use redb::{Database, ReadableTable, TableDefinition};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tempfile::TempDir;

/// Events, by log and ordinal.
const EVENTS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("events");
/// Items, by index, ordinal and slot.
const ITEMS: TableDefinition<'_, (u64, u64, u8), &[u8]> = TableDefinition::new("items");

/// Slices of pieces, by blob, piece and slice.
const PIECES: TableDefinition<'_, (u64, u32, u32), &[u8]> = TableDefinition::new("pieces");

/// A directory that goes when the case ends.
struct Place(TempDir);

impl Place {
    fn file(&self) -> PathBuf {
        self.0.path().join("sessions.redb")
    }

    /// The numbers of a session's log and of its index.
    fn numbers(&self, id: &SessionId) -> Result<(u64, u64), StoreError> {
        let store = open(&RedbConfig::new(self.file()))?;
        let mut numbers = (0, 0);
        store.engine().read(&mut |snapshot| {
            let missing = || StoreError::no_session(id.as_str());
            let session = snapshot.session(id.as_str())?.ok_or_else(missing)?;
            let log = snapshot.log(session.log_no)?.ok_or_else(missing)?;
            numbers = (log.log_no, log.index_no);
            Ok(())
        })?;
        Ok(numbers)
    }

    /// The number under which the pieces of a blob stand.
    fn blob_no(&self, id: &BlobId) -> Result<u64, StoreError> {
        let store = open(&RedbConfig::new(self.file()))?;
        let mut number = 0;
        store.engine().read(&mut |snapshot| {
            let row = snapshot.blob(&id.0)?;
            number = row.ok_or_else(|| StoreError::no_blob(id))?.blob_no;
            Ok(())
        })?;
        Ok(number)
    }

    /// Changes the rows of a table below the store; answers how many.
    fn change(&self, damage: Damage<'_>) -> Result<usize, Box<dyn std::error::Error>> {
        let changed = match damage {
            Damage::OldIndex(id) => {
                let store = open(&RedbConfig::new(self.file()))?;
                store.engine().write(&mut |txn| let_index_age(txn, id))?;
                1
            }
            Damage::LostNotes(id) => {
                let store = open(&RedbConfig::new(self.file()))?;
                store.engine().write(&mut |txn| lose_notes(txn, id))?;
                1
            }
            Damage::Piece(id, piece) => {
                let blob_no = self.blob_no(id)?;
                let file = Database::create(self.file())?;
                let txn = file.begin_write()?;
                let changed = {
                    let mut pieces = txn.open_table(PIECES)?;
                    let key = (blob_no, piece, 0);
                    let row = pieces.get(key)?.map(|row| [row.value(), b"\0"].concat());
                    match row {
                        Some(row) => pieces.insert(key, &*row)?.map_or(0, |_| 1),
                        None => 0,
                    }
                };
                txn.commit()?;
                changed
            }
            Damage::Event(id, ordinal) => {
                let (log_no, _) = self.numbers(id)?;
                let file = Database::create(self.file())?;
                let txn = file.begin_write()?;
                let changed = {
                    let mut events = txn.open_table(EVENTS)?;
                    let key = (log_no, ordinal);
                    let row = events.get(key)?.map(|row| [row.value(), b"\0"].concat());
                    match row {
                        Some(row) => events.insert(key, &*row)?.map_or(0, |_| 1),
                        None => 0,
                    }
                };
                txn.commit()?;
                changed
            }
            Damage::Item(id, ordinal) | Damage::LostItem(id, ordinal) => {
                let (_, index_no) = self.numbers(id)?;
                let file = Database::create(self.file())?;
                let txn = file.begin_write()?;
                let changed = {
                    let mut items = txn.open_table(ITEMS)?;
                    let rows: Vec<_> = items
                        .range((index_no, ordinal, 0)..=(index_no, ordinal, u8::MAX))?
                        .map(|row| row.map(|(key, row)| (key.value(), row.value().to_vec())))
                        .collect::<Result<_, _>>()?;
                    for (key, mut row) in rows.clone() {
                        if matches!(damage, Damage::Item(..)) {
                            row.push(0);
                            items.insert(key, &*row)?;
                        } else {
                            items.remove(key)?;
                        }
                    }
                    rows.len()
                };
                txn.commit()?;
                changed
            }
        };
        Ok(changed)
    }
}

#[async_trait]
impl StorePlace for Place {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            multi_process: false,
            fast_open_after_crash: true,
        }
    }

    fn has(&self, need: Need) -> bool {
        match need {
            Need::Durable | Need::Damage => true,
            // Commits that fail need a disk that fails: see `faults`.
            Need::MultiProcess | Need::FailedCommit => false,
        }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(open(&RedbConfig::new(self.file()))?))
    }

    async fn second(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.open().await
    }

    async fn damage(&self, damage: Damage<'_>) -> Result<(), StoreError> {
        match self.change(damage) {
            Ok(1) => Ok(()),
            other => Err(StoreError::new(
                ErrorKind::Invalid,
                "not_damaged",
                format!("{damage:?} damaged {other:?} rows, not one"),
            )),
        }
    }
}

fn main() -> ExitCode {
    run(|| Box::new(Place(tempfile::tempdir().expect("a temporary directory"))))
}
