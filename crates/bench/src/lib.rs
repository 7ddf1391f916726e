//! What the benchmarks share: long sessions in one store, and a floor to
//! compare with that is measured in the same run.
//!
//! Machines are noisy, so nothing here judges a time: every figure is a ratio
//! of medians of samples that were taken in turn.

use folio_core::SessionId;
use folio_store::{AppendBatch, NewSession, Store};
use folio_testkit::workload::Periodic;
use redb::{Database, ReadableDatabase, TableDefinition};
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;

/// Rows of the floor: 50 of them are read, each of the size of an event.
pub const FLOOR_ROW: usize = 700;

/// What a benchmark can fail with.
pub type Failure = Box<dyn std::error::Error>;

/// Writes a session of about so many events; answers its id and its head.
///
/// # Errors
/// Those of the store.
pub async fn fill(store: &dyn Store, events: u64) -> Result<(SessionId, u64), Failure> {
    let per_turn = Periodic::EVENTS_PER_TURN as u64;
    let turns = events / per_turn;
    let id = SessionId::new(format!("events-{events}"))?;
    store.create_session(NewSession::native(id.clone())).await?;
    let periodic = Periodic::new(id.as_str());
    for from in (0..turns).step_by(200) {
        let batch = periodic.batch(from, 200.min(turns - from));
        store.append(&id, AppendBatch::native(batch)).await?;
    }
    Ok((id, turns * per_turn))
}

/// A table of plain rows under (session, ordinal), as a store without items,
/// checksums or JSON would keep them.
pub trait Floor {
    /// Reads 50 rows by key, newest first, from the end or the middle.
    ///
    /// # Errors
    /// Those of the engine.
    fn read(&self, middle: bool) -> Result<Vec<(u64, String)>, Failure>;
}

/// The bodies of a floor's rows, by ordinal.
fn bodies(rows: u64) -> impl Iterator<Item = (u64, String)> {
    (1..=rows).map(|ordinal| (ordinal, format!("{ordinal:0FLOOR_ROW$}")))
}

/// The last row that a floor of so many rows reads.
fn last(rows: u64, middle: bool) -> u64 {
    if middle { rows / 2 } else { rows }
}

/// The floor of SQLite.
#[derive(Debug)]
pub struct SqliteFloor {
    connection: Connection,
    rows: u64,
}

impl SqliteFloor {
    /// Makes the table with so many rows.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn new(path: &Path, rows: u64) -> Result<Self, Failure> {
        let mut connection = Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
             CREATE TABLE rows (session INTEGER, ord INTEGER, body TEXT, PRIMARY KEY (session, ord)) WITHOUT ROWID;",
        )?;
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare("INSERT INTO rows VALUES (1, ?1, ?2)")?;
            for (ordinal, body) in bodies(rows) {
                insert.execute((ordinal.cast_signed(), body))?;
            }
        }
        transaction.commit()?;
        Ok(Self { connection, rows })
    }
}

impl Floor for SqliteFloor {
    fn read(&self, middle: bool) -> Result<Vec<(u64, String)>, Failure> {
        let mut select = self.connection.prepare_cached(
            "SELECT ord, body FROM rows WHERE session = 1 AND ord <= ?1 ORDER BY ord DESC LIMIT 50",
        )?;
        let rows = select.query_map([last(self.rows, middle).cast_signed()], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// The floor of redb.
#[derive(Debug)]
pub struct RedbFloor {
    database: Database,
    rows: u64,
}

const ROWS: TableDefinition<'static, (u64, u64), &'static str> = TableDefinition::new("rows");

impl RedbFloor {
    /// Makes the table with so many rows.
    ///
    /// # Errors
    /// Those of redb.
    pub fn new(path: &Path, rows: u64) -> Result<Self, Failure> {
        let database = Database::create(path)?;
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(ROWS)?;
            for (ordinal, body) in bodies(rows) {
                table.insert((1, ordinal), &*body)?;
            }
        }
        transaction.commit()?;
        Ok(Self { database, rows })
    }
}

impl Floor for RedbFloor {
    fn read(&self, middle: bool) -> Result<Vec<(u64, String)>, Failure> {
        let transaction = self.database.begin_read()?;
        let table = transaction.open_table(ROWS)?;
        let newest = table.range((1, 0)..=(1, last(self.rows, middle)))?.rev();
        let rows = newest.take(50).map(|row| {
            let (key, body) = row?;
            Ok((key.value().1, body.value().to_owned()))
        });
        rows.collect::<Result<_, redb::StorageError>>()
            .map_err(Into::into)
    }
}

/// The median of some durations, in nanoseconds.
pub fn median(samples: &mut [Duration]) -> f64 {
    samples.sort_unstable();
    samples
        .get(samples.len() / 2)
        .map_or(f64::NAN, Duration::as_secs_f64)
        * 1e9
}
