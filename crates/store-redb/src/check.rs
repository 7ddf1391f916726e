//! What a walk over every table finds: damaged rows, rows that nothing leads
//! to any more, and rows that lead to nothing.

use crate::error::Error;
use crate::pieces;
use crate::rows::{Entry, KeyOf, Mark, Meta, Row, open};
use crate::tables::{Bytes, Tables, visit};
use folio_codec::Digest;
use folio_core::{Direction, Item};
use folio_store::engine::Counters;
use folio_store::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRow, FactRow, IdRunRow, LogRow, PIECE_BYTES, PackRow,
    RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewRow,
};
use redb::{Key, ReadableTable};
use std::collections::{BTreeMap, BTreeSet};
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

    /// Whether every entry of a table that finds rows leads to one; the last
    /// argument answers the name of a row that is gone.
    fn finders<K: Key + 'static>(
        &mut self,
        name: &str,
        table: &impl ReadableTable<K, Bytes>,
        gone: impl Fn(K::SelfType<'_>) -> Result<Option<String>, Error>,
    ) -> Result<(), Error> {
        self.entries(name, table, |found, key, _| {
            if let Some(gone) = gone(key)? {
                found.tell(|| format!("{name}: nothing is at {gone}"));
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

/// The name of a row, if it is not there.
fn gone<R: Row>(
    table: &impl ReadableTable<R::Key, Bytes>,
    key: &KeyOf<'_, R>,
) -> Result<Option<String>, Error> {
    Ok(table.get(key)?.is_none().then(|| R::name(key)))
}

/// The numbers that other rows refer to.
#[derive(Default)]
struct Known {
    logs: BTreeMap<u64, LogRow>,
    indexes: BTreeSet<u64>,
}

/// Walks over every table of one state and answers what is wrong.
pub fn everything(tables: &impl Tables) -> Result<Vec<String>, Error> {
    let mut found = Found::default();
    meta(&mut found, tables)?;
    let known = logs(&mut found, tables)?;
    ids(&mut found, tables, &known)?;
    rows_of_logs(&mut found, tables, &known)?;
    found.rows(tables.commits()?, |_, _, _: CommitRow| ())?;
    contributions(&mut found, tables, &known)?;
    blobs(&mut found, tables)?;
    views(&mut found, tables, &known)?;
    Ok(found.0)
}

fn meta(found: &mut Found, tables: &impl Tables) -> Result<(), Error> {
    found.entries("meta", tables.meta()?, |found, key, value| {
        let whole = if key == "counters" {
            open::<Counters>(&key, value).map(drop)
        } else {
            open::<Meta>(&key, value).map(drop)
        };
        if let Err(error) = whole {
            found.tell(|| error.to_string());
        }
        Ok(())
    })
}

fn logs(found: &mut Found, tables: &impl Tables) -> Result<Known, Error> {
    let mut known = Known::default();
    let mut sessions = BTreeSet::new();
    // A log without a session waits to be erased, or a fork reads it.
    let mut excused = BTreeSet::new();
    found.rows(tables.sessions()?, |_, _, row: SessionRow| {
        sessions.insert(row.log_no);
    })?;
    let targets = tables.sessions()?;
    found.finders("sessions_log", tables.sessions_log()?, |(_, id)| {
        gone::<SessionRow>(targets, &id)
    })?;
    found.rows(tables.scrub()?, |_, _, row: ScrubRow| {
        excused.insert(row.log_no);
    })?;
    found.rows(tables.logs()?, |_, log_no, row: LogRow| {
        known.indexes.insert(row.index_no);
        known.logs.insert(log_no, row);
    })?;
    let mut bases = BTreeMap::new();
    found.rows(tables.spans()?, |found, (log_no, upto), row: SpanRow| {
        found.unless(known.logs.contains_key(&log_no), || {
            format!("a span belongs to no log {log_no}")
        });
        found.unless(known.logs.contains_key(&row.src), || {
            format!("log {}, which log {log_no} reads, is missing", row.src)
        });
        excused.insert(row.src);
        bases.insert(log_no, upto);
    })?;
    let targets = tables.spans()?;
    found.finders("spans_src", tables.spans_src()?, |(_, upto, log_no)| {
        gone::<SpanRow>(targets, &(log_no, upto))
    })?;
    for (log_no, row) in &known.logs {
        found.unless(
            sessions.contains(log_no) || excused.contains(log_no),
            || format!("log {log_no} belongs to no session"),
        );
        let base = bases.get(log_no).copied().unwrap_or(0);
        found.unless(row.base == base, || {
            format!("log {log_no} does not know what it was forked from")
        });
    }
    for log_no in sessions {
        found.unless(known.logs.contains_key(&log_no), || {
            format!("a session has no log {log_no}")
        });
    }
    Ok(known)
}

fn rows_of_logs(found: &mut Found, tables: &impl Tables, known: &Known) -> Result<(), Error> {
    found.rows(tables.events()?, |found, key, _: EventRow| {
        found.unless(known.logs.contains_key(&key.0), || {
            format!("event {} belongs to no log {}", key.1, key.0)
        });
    })?;
    found.rows(tables.runs()?, |found, key, _: RunRow| {
        found.unless(known.logs.contains_key(&key.0), || {
            format!("run {} belongs to no log {}", key.1, key.0)
        });
    })?;
    found.rows(tables.items()?, |found, key, _: Item| {
        found.unless(known.indexes.contains(&key.0), || {
            format!("item {}.{} belongs to no index {}", key.1, key.2, key.0)
        });
    })?;
    found.rows(tables.item_segs()?, |found, key, _: SegRow| {
        found.unless(known.indexes.contains(&key.0), || {
            format!("chunk {} belongs to no index {}", key.5, key.0)
        });
    })?;
    let runs = tables.runs()?;
    let run = |(log_no, _, run_no): (u64, &str, u32)| gone::<RunRow>(runs, &(log_no, run_no));
    found.finders("runs_id", tables.runs_id()?, run)?;
    found.finders("runs_inv", tables.runs_inv()?, run)?;
    found.finders("runs_turn", tables.runs_turn()?, run)?;
    let items = tables.items()?;
    found.finders(
        "item_keys",
        tables.item_keys()?,
        |(index_no, _, ordinal, slot)| gone::<Item>(items, &(index_no, ordinal, slot)),
    )
}

/// Segments, and the ids that lead to events or into segments.
fn ids(found: &mut Found, tables: &impl Tables, known: &Known) -> Result<(), Error> {
    // How far the segments of a log reach, by the first ordinal: it and those
    // before it, for they overlap. An event that is lost between the chunks of
    // one `verify` finds.
    let mut reaches: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut before = (0, 0);
    found.rows(tables.packs()?, |found, key, row: PackRow| {
        found.unless(known.logs.contains_key(&key.0), || {
            format!("segment {} belongs to no log {}", key.1, key.0)
        });
        before = before.max((key.0, row.last));
        reaches.insert(key, before.1);
    })?;
    found.rows(tables.id_runs()?, |found, key, row: IdRunRow| {
        let at = (key.0, row.pack);
        found.unless(reaches.contains_key(&at), || {
            let nothing = PackRow::name(&at);
            format!("id_runs: nothing is at {nothing}")
        });
    })?;
    let events = tables.events()?;
    found.finders(
        "event_ids",
        tables.event_ids()?,
        |(_, _, log_no, ordinal)| {
            let mut before = reaches.range((log_no, 0)..=(log_no, ordinal));
            if before
                .next_back()
                .is_some_and(|(_, reach)| *reach >= ordinal)
            {
                return Ok(None);
            }
            gone::<EventRow>(events, &(log_no, ordinal))
        },
    )
}

fn contributions(found: &mut Found, tables: &impl Tables, known: &Known) -> Result<(), Error> {
    let mut heads = BTreeMap::new();
    let mut sources: BTreeMap<u64, u32> = BTreeMap::new();
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    found.rows(tables.contrib_logs()?, |found, key, row: ContribLogRow| {
        found.unless(known.logs.contains_key(&key.0), || {
            format!(
                "the notes log {} belongs to no log {}",
                row.contrib_no, key.0
            )
        });
        heads.insert(row.contrib_no, row.head);
        *sources.entry(key.0).or_default() += 1;
    })?;
    for (log_no, row) in &known.logs {
        let count = sources.get(log_no).copied().unwrap_or(0);
        found.unless(count == row.sources, || {
            format!(
                "log {log_no} has lost a notes log: {count} are found of {}",
                row.sources
            )
        });
    }
    found.rows(tables.contrib_facts()?, |found, key, _: FactRow| {
        *counts.entry(key.0).or_default() += 1;
        found.unless(heads.contains_key(&key.0), || {
            format!("note {} belongs to no notes log {}", key.1, key.0)
        });
    })?;
    for (contrib_no, head) in heads {
        let count = counts.get(&contrib_no).copied().unwrap_or(0);
        found.unless(count == head, || {
            format!("notes log {contrib_no} has lost a note: {count} are found of {head}")
        });
    }
    let facts = tables.contrib_facts()?;
    let fact = |(contrib_no, _, seq): (u64, u64, u64)| gone::<FactRow>(facts, &(contrib_no, seq));
    found.finders("contrib_items", tables.contrib_items()?, fact)?;
    found.finders("contrib_ids", tables.contrib_ids()?, fact)
}

fn blobs(found: &mut Found, tables: &impl Tables) -> Result<(), Error> {
    // The pieces that a blob has, and those that it must have.
    let mut stored: BTreeMap<u64, u64> = BTreeMap::new();
    let mut whole = BTreeMap::new();
    let mut arriving = BTreeSet::new();
    let pieces = tables.pieces()?;
    found.entries("pieces", pieces, |found, (blob_no, piece, slice), _| {
        if slice == 0 {
            *stored.entry(blob_no).or_default() += 1;
            if let Err(error) = pieces::get(pieces, blob_no, piece) {
                found.tell(|| error.to_string());
            }
        }
        Ok(())
    })?;
    found.rows(tables.blobs()?, |_, _, row: BlobRow| {
        whole.insert(row.blob_no, row.len.div_ceil(PIECE_BYTES as u64));
    })?;
    found.rows(tables.stages()?, |found, blob_no, _: StageRow| {
        arriving.insert(blob_no);
        found.unless(!whole.contains_key(&blob_no), || {
            format!("blob {blob_no} is stored and still arriving")
        });
    })?;
    for (blob_no, count) in &whole {
        found.unless(stored.get(blob_no).copied().unwrap_or(0) == *count, || {
            format!("blob {blob_no} has lost a piece")
        });
    }
    for blob_no in stored.keys() {
        let is_known = whole.contains_key(blob_no) || arriving.contains(blob_no);
        found.unless(is_known, || {
            format!("pieces of number {blob_no} belong to no blob")
        });
    }
    let (events, blobs) = (tables.events()?, tables.blobs()?);
    let event = |log_no, ordinal| gone::<EventRow>(events, &(log_no, ordinal));
    let blob = |sha: &Digest| gone::<BlobRow>(blobs, &sha);
    found.finders(
        "citations",
        tables.citations()?,
        |(log_no, ordinal, sha)| Ok(event(log_no, ordinal)?.or(blob(sha)?)),
    )?;
    found.finders("cited", tables.cited()?, |(sha, log_no, ordinal)| {
        Ok(event(log_no, ordinal)?.or(blob(sha)?))
    })
}

fn views(found: &mut Found, tables: &impl Tables, known: &Known) -> Result<(), Error> {
    let mut views = BTreeSet::new();
    found.rows(tables.views()?, |_, _, row: ViewRow| {
        views.insert(row.view_no);
    })?;
    found.rows(tables.view_rows()?, |found, (view_no, _), row: Entry| {
        found.unless(views.contains(&view_no), || {
            format!("an entry belongs to no view {view_no}")
        });
        found.unless(known.logs.contains_key(&row.log_no), || {
            format!(
                "an entry of view {view_no} was made of no log {}",
                row.log_no
            )
        });
    })?;
    let entries = tables.view_rows()?;
    found.finders(
        "view_rows_log",
        tables.view_rows_log()?,
        |(_, view_no, key)| gone::<Entry>(entries, &(view_no, key)),
    )?;
    found.rows(tables.view_marks()?, |found, (log_no, view_no), _: Mark| {
        found.unless(views.contains(&view_no), || {
            format!("a mark belongs to no view {view_no}")
        });
        found.unless(known.logs.contains_key(&log_no), || {
            format!("a mark of view {view_no} is about no log {log_no}")
        });
    })
}
