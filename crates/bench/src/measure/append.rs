//! A durable append of one event by one writer, to appending as many bytes to
//! a plain file and syncing them.

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
    let line = |what: &str, store, of: fn(&Samples) -> f64, samples: &Samples| {
        Line::new(what, store, Unit::Time, of(samples), (RAW, of(&floor)))
    };
    Ok(vec![
        line("append.p50", "sqlite", Samples::median, &sqlite).ratio_goal(1.2),
        line("append.mean", "sqlite", Samples::mean, &sqlite).ratio_goal(1.35),
        line("append.p50", "redb", Samples::median, &redb).ratio_goal(2.7),
        line("append.mean", "redb", Samples::mean, &redb).ratio_goal(2.7),
    ])
}
