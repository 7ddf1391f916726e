//! A durable append of one event by one writer, to appending as many bytes to
//! a plain file and syncing them.
//!
//! Where other work keeps the processors busy, a sync costs a tick of the
//! scheduler, many times what it costs otherwise, and the median falls now
//! into one case and now into the other; the fastest appends mostly into one.

use crate::Failure;
use crate::line::{Line, Unit};
use crate::run::Run;
use crate::sample::{Samples, in_turn, timed};
use crate::stores::{Adapter, fill};
use folio_core::{CanonicalEvent, SessionId};
use folio_store::{AppendBatch, NewSession, Store};
use folio_testkit::workload::Periodic;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What is appended to the plain file.
pub const RAW: &str = "append of 700 B to a file + fdatasync";
const RAW_BYTES: usize = 700;

/// A plain file that grows.
#[derive(Debug)]
pub struct RawLog(File);

impl RawLog {
    /// An empty one.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        Ok(Self(File::create(path)?))
    }

    /// Appends and syncs; answers how long that took.
    ///
    /// # Errors
    /// Those of the system.
    pub fn append(&mut self, bytes: &[u8]) -> Result<Duration, Failure> {
        let ((), took) = timed(|| {
            self.0.write_all(bytes)?;
            Ok(self.0.sync_data()?)
        })?;
        Ok(took)
    }
}

/// A session to which one event after the other is appended.
struct Appender<'a> {
    runtime: &'a Runtime,
    store: Arc<dyn Store>,
    session: SessionId,
    events: std::vec::IntoIter<CanonicalEvent>,
}

impl<'a> Appender<'a> {
    fn new(run: &'a Run, adapter: Adapter, events: usize) -> Result<Self, Failure> {
        let store = adapter.open(&adapter.path(run.folder(), "append"))?;
        let held = run.size.pick(10_000, 100_000);
        run.runtime.block_on(fill(&*store, held))?;
        let session = SessionId::new("one-by-one")?;
        let created = store.create_session(NewSession::native(session.clone()));
        run.runtime.block_on(created)?;
        let turns = events.div_ceil(Periodic::EVENTS_PER_TURN) as u64;
        let events = Periodic::new(session.as_str()).batch(0, turns);
        Ok(Self {
            runtime: &run.runtime,
            store,
            session,
            events: events.into_iter(),
        })
    }

    fn append(&mut self) -> Result<Duration, Failure> {
        let event = self.events.next().ok_or("too few events were made")?;
        let batch = AppendBatch::native(vec![event]);
        let (_, took) = timed(|| {
            let append = self.store.append(&self.session, batch);
            Ok(self.runtime.block_on(append)?)
        })?;
        Ok(took)
    }
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let rounds = run.size.pick(1_000, 4_000);
    let mut raw = RawLog::new(&run.folder().join("append.log"))?;
    let mut sqlite = Appender::new(run, Adapter::Sqlite, rounds)?;
    let mut redb = Appender::new(run, Adapter::Redb, rounds)?;
    let bytes = [b'x'; RAW_BYTES];
    let [floor, sqlite, redb] = in_turn(
        rounds,
        [
            &mut || raw.append(&bytes),
            &mut || sqlite.append(),
            &mut || redb.append(),
        ],
    )?;
    let mut lines = Vec::new();
    for (store, samples, goals) in [("sqlite", sqlite, [1.2, 1.35]), ("redb", redb, [2.7, 2.7])] {
        let line = |what: &str, of: &dyn Fn(&Samples) -> f64| {
            Line::new(what, store, Unit::Time, of(&samples), (RAW, of(&floor)))
        };
        let [median, mean] = goals;
        lines.push(
            line("append.p50", &Samples::median)
                .ratio_goal(median)
                .unsteady(),
        );
        lines.push(
            line("append.mean", &Samples::mean)
                .ratio_goal(mean)
                .unsteady(),
        );
        // The fastest: most of them waited for nobody else's work.
        lines.push(line("append.p2", &|samples| samples.percentile(2)).unsteady());
    }
    Ok(lines)
}
