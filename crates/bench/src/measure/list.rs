//! A page of 50 sessions of 10,000, to reading 50 rows of a plain table by
//! the same key.

use crate::Failure;
use crate::line::{Line, Unit};
use crate::run::{CROWD, Run};
use crate::sample::{in_turn, timed};
use crate::stores::{Adapter, numbered};
use folio_store::SessionFilter;
use rusqlite::Connection;
use std::hint::black_box;

const SESSIONS: usize = 50;
/// The bytes of a row beside its id.
const ROW: usize = 120;

/// A plain table of sessions.
fn plain(run: &Run) -> Result<Connection, Failure> {
    let mut connection = Connection::open(run.folder().join("list.db"))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID;",
    )?;
    let transaction = connection.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT OR REPLACE INTO sessions VALUES (?1, ?2)")?;
        for number in 0..CROWD {
            insert.execute((numbered(number)?.as_str(), format!("{number:0ROW$}")))?;
        }
    }
    transaction.commit()?;
    Ok(connection)
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let plain = plain(run)?;
    let after = numbered(CROWD / 2)?;
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let store = adapter.open(&run.crowd(adapter)?)?;
        let mut list = || {
            let (listed, took) = timed(|| {
                let after = Some(after.clone());
                let sessions = store.sessions(SessionFilter::Readable, after, SESSIONS);
                Ok(black_box(run.runtime.block_on(sessions)?).len())
            })?;
            if listed == SESSIONS {
                Ok(took)
            } else {
                Err("the list is not whole".into())
            }
        };
        let mut raw = || {
            let (_, took) = timed(|| {
                let mut select = plain.prepare_cached(
                    "SELECT id, body FROM sessions WHERE id > ?1 ORDER BY id LIMIT ?2",
                )?;
                let rows = select.query_map((after.as_str(), 50), |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
                })?;
                Ok(black_box(rows.collect::<Result<Vec<_>, _>>()?))
            })?;
            Ok(took)
        };
        let samples = in_turn(run.size.pick(500, 2_000), [&mut list, &mut raw])?;
        let [list, raw] = samples.map(|samples| samples.median());
        let floor = ("50 rows of a plain table by id (SQLite)", raw);
        lines.push(Line::new("list", adapter.name(), Unit::Time, list, floor).value_goal(100e3));
        run.runtime.block_on(store.close())?;
    }
    Ok(lines)
}
