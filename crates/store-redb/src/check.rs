//! What a walk over every table finds: damaged rows, rows that nothing leads
//! to any more, and rows that lead to nothing.

use crate::error::Error;
use crate::rows::{KeyOf, Meta, Row, SpanRow, open};
use crate::tables::{Bytes, Tables, visit};
use folio_core::{Direction, Item};
use folio_store::rows::{ContribLogRow, EventRow, FactRow, LogRow, RunRow, SegRow, SessionRow};
use redb::{Key, ReadableTable};
use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;

/// How many problems are told.
const MOST: usize = 10;

/// The problems.
#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.0.len() < MOST {
            self.0.push(what());
        }
    }

    /// Reads every entry of a table, looks each up by its key, and compares how
    /// many there are with what redb counted.
    fn entries<K: Key + 'static>(
        &mut self,
        name: &str,
        table: &impl ReadableTable<K, Bytes>,
        mut each: impl FnMut(&mut Self, K::SelfType<'_>, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut count = 0_u64;
        let all = (Unbounded, Unbounded);
        visit(table, all, Direction::Newer, |key, value| {
            count += 1;
            if table.get(&key)?.is_none() {
                self.tell(|| format!("{name}: row {count} is not found by its key"));
            }
            each(self, key, value)?;
            Ok(true)
        })?;
        let counted = table.len()?;
        if count != counted {
            self.tell(|| format!("{name}: {count} rows are found of {counted}"));
        }
        Ok(())
    }

    /// Reads every row of a table.
    fn rows<R: Row>(
        &mut self,
        table: &impl ReadableTable<R::Key, Bytes>,
        mut each: impl FnMut(&mut Self, KeyOf<'_, R>, R),
    ) -> Result<(), Error> {
        self.entries(R::TABLE, table, |found, key, value| {
            match open::<R>(&key, value) {
                Ok(row) => each(found, key, row),
                Err(error) => found.tell(|| error.to_string()),
            }
            Ok(())
        })
    }

    /// Whether every entry of a table that finds rows leads to one.
    fn finders<K: Key + 'static, R: Row>(
        &mut self,
        name: &str,
        table: &impl ReadableTable<K, Bytes>,
        rows: &impl ReadableTable<R::Key, Bytes>,
        target: impl Fn(K::SelfType<'_>) -> KeyOf<'static, R>,
    ) -> Result<(), Error> {
        self.entries(name, table, |found, key, _| {
            let target = target(key);
            if rows.get(&target)?.is_none() {
                found.tell(|| format!("{name}: nothing is at {}", R::name(&target)));
            }
            Ok(())
        })
    }

    fn unless(&mut self, fine: bool, what: impl FnOnce() -> String) {
        if !fine {
            self.tell(what);
        }
    }
}

/// Walks over every table of one state and answers what is wrong.
pub fn everything(tables: &impl Tables) -> Result<Vec<String>, Error> {
    let mut found = Found::default();
    let mut sessions = BTreeSet::new();
    let mut logs = BTreeSet::new();
    let mut spans = BTreeSet::new();
    let mut contribs = BTreeSet::new();
    found.entries("meta", tables.meta()?, |found, key, value| {
        let whole = if key == "counters" {
            open::<folio_store::engine::Counters>(&key, value).map(drop)
        } else {
            open::<Meta>(&key, value).map(drop)
        };
        if let Err(error) = whole {
            found.tell(|| error.to_string());
        }
        Ok(())
    })?;
    found.rows(tables.sessions()?, |_, _, row: SessionRow| {
        sessions.insert(row.log_no);
    })?;
    found.rows(tables.logs()?, |found, log_no, _: LogRow| {
        found.unless(sessions.contains(&log_no), || {
            format!("log {log_no} belongs to no session")
        });
        logs.insert(log_no);
    })?;
    for log_no in sessions.difference(&logs) {
        found.tell(|| format!("a session has no log {log_no}"));
    }
    found.rows(tables.spans()?, |_, (log_no, _), _: SpanRow| {
        spans.insert(log_no);
    })?;
    for log_no in logs.difference(&spans) {
        found.tell(|| format!("log {log_no} has no span"));
    }
    found.rows(tables.events()?, |found, key, _: EventRow| {
        found.unless(logs.contains(&key.0), || {
            format!("event {} belongs to no log {}", key.1, key.0)
        });
    })?;
    found.rows(tables.runs()?, |found, key, _: RunRow| {
        found.unless(logs.contains(&key.0), || {
            format!("run {} belongs to no log {}", key.1, key.0)
        });
    })?;
    found.rows(tables.items()?, |_, _, _: Item| {})?;
    found.rows(tables.item_segs()?, |_, _, _: SegRow| {})?;
    found.rows(tables.contrib_logs()?, |found, key, row: ContribLogRow| {
        found.unless(logs.contains(&key.0), || {
            format!(
                "the notes log {} belongs to no log {}",
                row.contrib_no, key.0
            )
        });
        contribs.insert(row.contrib_no);
    })?;
    found.rows(tables.contrib_facts()?, |found, key, _: FactRow| {
        found.unless(contribs.contains(&key.0), || {
            format!("note {} belongs to no notes log {}", key.1, key.0)
        });
    })?;

    found.finders::<_, EventRow>(
        "event_ids",
        tables.event_ids()?,
        tables.events()?,
        |(_, _, log_no, ordinal)| (log_no, ordinal),
    )?;
    let runs = tables.runs()?;
    let run = |(log_no, _, run_no): (u64, &str, u32)| (log_no, run_no);
    found.finders::<_, RunRow>("runs_id", tables.runs_id()?, runs, run)?;
    found.finders::<_, RunRow>("runs_inv", tables.runs_inv()?, runs, run)?;
    found.finders::<_, RunRow>("runs_turn", tables.runs_turn()?, runs, run)?;
    found.finders::<_, Item>(
        "item_keys",
        tables.item_keys()?,
        tables.items()?,
        |(index_no, _, ordinal, slot)| (index_no, ordinal, slot),
    )?;
    let fact = |(contrib_no, _, seq): (u64, u64, u64)| (contrib_no, seq);
    let facts = tables.contrib_facts()?;
    found.finders::<_, FactRow>("contrib_items", tables.contrib_items()?, facts, fact)?;
    found.finders::<_, FactRow>("contrib_ids", tables.contrib_ids()?, facts, fact)?;
    Ok(found.0)
}
