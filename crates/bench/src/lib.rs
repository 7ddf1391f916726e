//! What the benchmarks share: long sessions in one store, and a floor to
//! compare with that is measured in the same run.
//!
//! Machines are noisy, so nothing here judges a time: every figure is a ratio
//! of medians of samples that were taken in turn.

use folio_core::SessionId;
use folio_store::{AppendBatch, NewSession, Store};
use folio_testkit::workload::Periodic;
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
#[derive(Debug)]
pub struct Floor {
    connection: Connection,
    rows: u64,
}

impl Floor {
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
            for ordinal in 1..=rows {
                let body = format!("{ordinal:0FLOOR_ROW$}");
                insert.execute((i64::try_from(ordinal)?, body))?;
            }
        }
        transaction.commit()?;
        Ok(Self { connection, rows })
    }

    /// Reads 50 rows by key, newest first, from the end or the middle.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn read(&self, middle: bool) -> Result<Vec<(i64, String)>, Failure> {
        let from = if middle { self.rows / 2 } else { self.rows };
        let mut select = self.connection.prepare_cached(
            "SELECT ord, body FROM rows WHERE session = 1 AND ord <= ?1 ORDER BY ord DESC LIMIT 50",
        )?;
        let rows =
            select.query_map([i64::try_from(from)?], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
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
