//! Floors of reads: the same amount of plain rows in the same engine.

use crate::Failure;
use crate::stores::Adapter;
use redb::{Database, ReadableDatabase, TableDefinition};
use rusqlite::Connection;
use std::fmt;
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// The bytes of a row: those of an event's canonical text.
pub const ROW: usize = 700;

const ROWS: TableDefinition<'_, (u64, u64), &str> = TableDefinition::new("rows");

/// A table of plain rows under (session, ordinal), as a store without items,
/// checksums or JSON would keep them.
pub trait Floor: fmt::Debug {
    /// Reads so many rows by key into memory of their own, the newest first,
    /// from an ordinal on.
    ///
    /// # Errors
    /// Those of the engine.
    fn read(&self, upto: u64, limit: usize) -> Result<Vec<(u64, String)>, Failure>;
    /// Reads rows in the order of the table; answers the sum of their lengths.
    ///
    /// # Errors
    /// Those of the engine.
    fn scan(&self, limit: u64) -> Result<u64, Failure>;
}

/// The path of the rows for an adapter.
pub fn path(adapter: Adapter, folder: &Path) -> PathBuf {
    adapter.path(folder, "floor")
}

/// Makes the table with so many rows and opens it.
///
/// # Errors
/// Those of the engine.
pub fn make(adapter: Adapter, path: &Path, rows: u64) -> Result<Box<dyn Floor>, Failure> {
    let bodies = (1..=rows).map(|ordinal| (ordinal, format!("{ordinal:0ROW$}")));
    match adapter {
        Adapter::Sqlite => {
            let mut connection = Connection::open(path)?;
            connection.execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
                 CREATE TABLE rows (session INTEGER, ord INTEGER, body TEXT,
                   PRIMARY KEY (session, ord)) WITHOUT ROWID;",
            )?;
            let transaction = connection.transaction()?;
            {
                let mut insert = transaction.prepare("INSERT INTO rows VALUES (1, ?1, ?2)")?;
                for (ordinal, body) in bodies {
                    insert.execute((ordinal.cast_signed(), body))?;
                }
            }
            transaction.commit()?;
        }
        Adapter::Redb => {
            let database = Database::create(path)?;
            let write = database.begin_write()?;
            {
                let mut table = write.open_table(ROWS)?;
                for (ordinal, body) in bodies {
                    table.insert((1, ordinal), &*body)?;
                }
            }
            write.commit()?;
        }
    }
    open(adapter, path)
}

/// Opens a table that was made.
///
/// # Errors
/// Those of the engine.
pub fn open(adapter: Adapter, path: &Path) -> Result<Box<dyn Floor>, Failure> {
    Ok(match adapter {
        Adapter::Sqlite => {
            let connection = Connection::open(path)?;
            connection.execute_batch("PRAGMA mmap_size = 0")?;
            Box::new(SqliteRows(connection))
        }
        Adapter::Redb => Box::new(RedbRows(Database::open(path)?)),
    })
}

#[derive(Debug)]
struct SqliteRows(Connection);

impl Floor for SqliteRows {
    fn read(&self, upto: u64, limit: usize) -> Result<Vec<(u64, String)>, Failure> {
        let mut select = self.0.prepare_cached(
            "SELECT ord, body FROM rows WHERE session = 1 AND ord <= ?1 ORDER BY ord DESC LIMIT ?2",
        )?;
        let rows = select.query_map((upto.cast_signed(), i64::try_from(limit)?), |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn scan(&self, limit: u64) -> Result<u64, Failure> {
        let mut select = self
            .0
            .prepare_cached("SELECT body FROM rows WHERE session = 1 ORDER BY ord LIMIT ?1")?;
        let mut rows = select.query([limit.cast_signed()])?;
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            bytes += black_box(row.get_ref(0)?.as_str()?).len() as u64;
        }
        Ok(bytes)
    }
}

struct RedbRows(Database);

impl fmt::Debug for RedbRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbRows").finish_non_exhaustive()
    }
}

impl Floor for RedbRows {
    fn read(&self, upto: u64, limit: usize) -> Result<Vec<(u64, String)>, Failure> {
        let table = self.0.begin_read()?.open_table(ROWS)?;
        let rows = table.range((1, 0)..=(1, upto))?.rev().take(limit);
        rows.map(|row| {
            let (key, body) = row?;
            Ok((key.value().1, body.value().to_owned()))
        })
        .collect()
    }

    fn scan(&self, limit: u64) -> Result<u64, Failure> {
        let table = self.0.begin_read()?.open_table(ROWS)?;
        let rows = table.range((1, 0)..)?.take(usize::try_from(limit)?);
        let mut bytes = 0;
        for row in rows {
            bytes += black_box(row?.1.value()).len() as u64;
        }
        Ok(bytes)
    }
}
