//! Many writers that share commits, to a loop that writes the same rows into
//! trees of the same shape, as many to a transaction.
//!
//! The loop knows everything beforehand: it decides nothing, hashes nothing,
//! checks nothing and encodes nothing. The two updates that a turn makes of
//! rows that are there (a message's item, the run at its end) it leaves out.

use crate::Failure;
use crate::commits::Commits;
use crate::line::{Line, Unit};
use crate::run::Run;
use crate::sample::{Samples, count, per_second, timed};
use crate::stores::{Adapter, create_numbered, numbered};
use folio_core::CanonicalEvent;
use folio_store::{AppendBatch, Store};
use folio_testkit::workload::Periodic;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// What of the SQLite adapter's tables an append writes to.
const TREES: &str = "
CREATE TABLE logs (
  log_no INTEGER PRIMARY KEY, family INTEGER NOT NULL, head INTEGER NOT NULL,
  base INTEGER NOT NULL, chain BLOB NOT NULL, drained_seq INTEGER NOT NULL, runs INTEGER NOT NULL,
  index_no INTEGER NOT NULL, index_version INTEGER NOT NULL, index_head INTEGER NOT NULL,
  items INTEGER NOT NULL, tail BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;
CREATE TABLE events (
  k INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE event_ids (
  family INTEGER NOT NULL, h INTEGER NOT NULL, log_no INTEGER NOT NULL, ordinal INTEGER NOT NULL,
  PRIMARY KEY (family, h, log_no, ordinal)) STRICT, WITHOUT ROWID;
CREATE TABLE runs (
  log_no INTEGER NOT NULL, run_no INTEGER NOT NULL, run_id TEXT NOT NULL, turn_id TEXT NOT NULL,
  invocation_id TEXT NOT NULL, opened INTEGER NOT NULL, terminal INTEGER,
  open_before BLOB NOT NULL, inline INTEGER NOT NULL, output INTEGER NOT NULL,
  facts BLOB NOT NULL, sum INTEGER NOT NULL,
  PRIMARY KEY (log_no, run_no)) STRICT, WITHOUT ROWID;
CREATE INDEX runs_id ON runs (log_no, run_id, run_no);
CREATE INDEX runs_inv ON runs (log_no, invocation_id, run_no);
CREATE INDEX runs_turn ON runs (log_no, turn_id, run_no);
CREATE INDEX runs_open ON runs (log_no, run_no) WHERE terminal IS NULL;
CREATE TABLE items (
  p INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE item_keys (
  index_no INTEGER NOT NULL, h INTEGER NOT NULL, p INTEGER NOT NULL,
  PRIMARY KEY (index_no, h, p)) STRICT, WITHOUT ROWID;
";
/// About the bytes that the adapter keeps in these columns; of an event it
/// keeps the text and the envelope.
const ENVELOPE: usize = 100;
const ITEM: usize = 60;
const TAIL: usize = 16;
const FACTS: usize = 21;
/// The appends of a round, of all sessions.
const ROUND: usize = 320;
/// The events of a turn that begin no item.
const NO_ITEM: [usize; 4] = [0, 3, 5, 10];

/// The loop.
struct Loop {
    connection: Connection,
    /// For each session, the events that were written.
    heads: Vec<u64>,
}

/// Spreads numbers as hashes are.
fn hash(number: u64) -> i64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29))
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .cast_signed()
}

impl Loop {
    fn new(path: &Path, sessions: usize) -> Result<Self, Failure> {
        let connection = Connection::open(path)?;
        connection.set_prepared_statement_cache_capacity(32);
        connection.execute_batch(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = -1",
        )?;
        connection.execute_batch(TREES)?;
        for log in 1..=sessions {
            connection.execute(
                "INSERT INTO logs VALUES (?1, ?1, 0, 0, zeroblob(32), 0, 0, ?1, 1, 0, 0, ?2, 0)",
                (i64::try_from(log)?, [0_u8; TAIL]),
            )?;
        }
        Ok(Self {
            connection,
            heads: vec![0; sessions],
        })
    }

    /// Writes one event of a session in the transaction that is open.
    fn write(&mut self, session: usize, body: &[u8]) -> Result<(), Failure> {
        let head = self.heads.get_mut(session).ok_or("a session of the loop")?;
        *head += 1;
        let (log, ordinal) = (i64::try_from(session)? + 1, head.cast_signed());
        let place = usize::try_from(*head - 1)? % Periodic::EVENTS_PER_TURN;
        let turn = *head / Periodic::EVENTS_PER_TURN as u64;
        let h = hash((*head << 16) + session as u64);
        let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> Result<(), Failure> {
            self.connection.prepare_cached(sql)?.execute(params)?;
            Ok(())
        };
        if place == 0 {
            let (run_id, turn_id) = (format!("r{turn:08}"), format!("t{turn:08}"));
            run(
                "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, x'', 0, 0, ?7, ?8)",
                &[
                    &log,
                    &turn.cast_signed(),
                    &run_id,
                    &turn_id,
                    &format!("i-{run_id}"),
                    &ordinal,
                    &[0_u8; FACTS],
                    &h,
                ],
            )?;
        }
        run(
            "INSERT INTO events VALUES (?1, ?2, ?3)",
            &[&(log << 33 | ordinal), &h, &body],
        )?;
        run(
            "INSERT INTO event_ids VALUES (?1, ?2, ?1, ?3)",
            &[&log, &h, &ordinal],
        )?;
        if !NO_ITEM.contains(&place) {
            let p = log << 36 | ordinal << 3;
            run(
                "INSERT OR REPLACE INTO items VALUES (?1, ?2, ?3)",
                &[&p, &h, &[0_u8; ITEM]],
            )?;
            run(
                "INSERT OR IGNORE INTO item_keys VALUES (?1, ?2, ?3)",
                &[&log, &h, &p],
            )?;
        }
        run(
            "UPDATE logs SET head = ?2, chain = ?3, runs = ?4, index_head = ?2, items = ?2, \
             tail = ?5, sum = ?6 WHERE log_no = ?1",
            &[
                &log,
                &ordinal,
                &[0_u8; 32],
                &turn.cast_signed(),
                &[0_u8; TAIL],
                &h,
            ],
        )
    }

    /// Writes the events of all sessions in turn, so many to a transaction.
    fn round(&mut self, work: &Work, per_commit: usize) -> Result<Duration, Failure> {
        let most = work.iter().map(|(_, events)| events.len()).max();
        let mut all = Vec::new();
        for nth in 0..most.unwrap_or(0) {
            for (session, (_, events)) in work.iter().enumerate() {
                let event = events.get(nth).ok_or("sessions have as many events")?;
                let mut body = event.text.as_bytes().to_vec();
                body.resize(body.len() + ENVELOPE, 0);
                all.push((session, body));
            }
        }
        let ((), took) = timed(|| {
            for group in all.chunks(per_commit.max(1)) {
                self.connection.execute_batch("BEGIN IMMEDIATE")?;
                for (session, body) in group {
                    self.write(*session, body)?;
                }
                self.connection.execute_batch("COMMIT")?;
            }
            Ok(())
        })?;
        Ok(took)
    }
}

/// For each session, what is appended to it, one event after the other.
type Work = Vec<(folio_core::SessionId, Vec<CanonicalEvent>)>;

/// The next events of each of some sessions.
fn work(sessions: usize, from: usize, events: usize) -> Result<Work, Failure> {
    (0..sessions)
        .map(|session| {
            let id = numbered(session)?;
            let turns = (from + events).div_ceil(Periodic::EVENTS_PER_TURN) as u64;
            let all = Periodic::new(id.as_str()).batch(0, turns);
            let next = all.into_iter().skip(from).take(events).collect();
            Ok((id, next))
        })
        .collect()
}

/// How the writers are there at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writers {
    /// Tasks of one thread.
    Tasks,
    /// Threads with a runtime each.
    Threads,
}

async fn write_all(
    store: Arc<dyn Store>,
    id: folio_core::SessionId,
    events: Vec<CanonicalEvent>,
) -> Result<(), folio_store::StoreError> {
    for event in events {
        store.append(&id, AppendBatch::native(vec![event])).await?;
    }
    Ok(())
}

fn by_tasks(runtime: &Runtime, store: &Arc<dyn Store>, work: Work) -> Result<(), Failure> {
    runtime.block_on(async {
        let mut writers = JoinSet::new();
        for (id, events) in work {
            writers.spawn(write_all(Arc::clone(store), id, events));
        }
        while let Some(done) = writers.join_next().await {
            done??;
        }
        Ok(())
    })
}

fn by_threads(store: &Arc<dyn Store>, work: Work) -> Result<(), Failure> {
    let mut threads = Vec::new();
    for (id, events) in work {
        let writing = write_all(Arc::clone(store), id, events);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        threads.push(std::thread::spawn(move || runtime.block_on(writing)));
    }
    for thread in threads {
        thread.join().map_err(|_| "a writer panicked")??;
    }
    Ok(())
}

/// What a comparison found.
struct Compared {
    store: Samples,
    raw: Samples,
    appends: usize,
    syncs: u64,
}

/// Lets the store and the loop write the same in turn.
fn compare(
    run: &Run,
    (store, commits): &(Arc<dyn Store>, Commits),
    sessions: usize,
    writers: Writers,
    name: &str,
) -> Result<Compared, Failure> {
    run.runtime.block_on(create_numbered(store, sessions))?;
    let mut raw = Loop::new(&run.folder().join(format!("{name}.db")), sessions)?;
    // Both hold something before.
    let held = run.size.pick(140, 1_400);
    let before = work(sessions, 0, held)?;
    raw.round(&before, 4_096)?;
    for (id, events) in before {
        let batch = AppendBatch::native(events);
        run.runtime.block_on(store.append(&id, batch))?;
    }
    let (rounds, each) = (run.size.pick(20, 60), ROUND / sessions);
    let mut compared = Compared {
        store: Samples::default(),
        raw: Samples::default(),
        appends: 0,
        syncs: 0,
    };
    for round in 0..rounds {
        let todo = work(sessions, held + round * each, each)?;
        let before = commits.so_far();
        let mine = todo.clone();
        let ((), took) = timed(|| match writers {
            Writers::Tasks => by_tasks(&run.runtime, store, mine),
            Writers::Threads => by_threads(store, mine),
        })?;
        compared.store.push(took);
        let syncs = commits.so_far() - before;
        let per_commit = (sessions * each).div_ceil(usize::try_from(syncs.max(1))?);
        compared.raw.push(raw.round(&todo, per_commit)?);
        compared.appends += sessions * each;
        compared.syncs += syncs;
    }
    Ok(compared)
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let cases = [
        (16, Writers::Tasks, "group.16"),
        (64, Writers::Tasks, "group.64"),
        (64, Writers::Threads, "group.64.threads"),
    ];
    let mut lines = Vec::new();
    for (sessions, writers, name) in cases {
        let opened = Adapter::Sqlite.open_counted(&Adapter::Sqlite.path(run.folder(), name))?;
        let compared = compare(run, &opened, sessions, writers, name)?;
        run.runtime.block_on(opened.0.close())?;
        let rate = |samples: &Samples| per_second(ROUND, samples.median());
        let floor = (
            "a loop writing the same rows, as many a commit",
            rate(&compared.raw),
        );
        let line = Line::new(
            name,
            "sqlite",
            Unit::PerSecond,
            rate(&compared.store),
            floor,
        );
        lines.push(line.ratio_goal(0.9).unsteady());
        let syncs = count(usize::try_from(compared.syncs)?);
        let appends = count(compared.appends);
        let shared = Line::new(
            format!("{name}.shared"),
            "sqlite",
            Unit::Plain,
            appends / syncs,
            ("one append a sync", 1.0),
        )
        .more_is_better();
        let shared = shared.note(format!("appends {appends}, syncs {syncs}"));
        lines.push(match (sessions, writers) {
            (64, Writers::Tasks) => shared.ratio_goal(8.0),
            // When threads run is for the system to say.
            (64, Writers::Threads) => shared.ratio_goal(8.0).unsteady(),
            _ => shared,
        });
    }
    Ok(lines)
}
