//! Forks at a turn's end and inside a turn, to durable appends of one event to
//! the same store.

use crate::Failure;
use crate::line::{Line, Unit};
use crate::run::Run;
use crate::sample::{in_turn, timed};
use crate::stores::{Adapter, Session};
use folio_core::SessionId;
use folio_store::{AppendBatch, NewSession, Store};
use folio_testkit::event::Events;
use folio_testkit::workload::Periodic;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Where a fork leaves its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Where no run is open.
    TurnEnd,
    /// Where one is.
    InsideTurn,
}

/// A store in which sessions are forked and appended to.
pub struct Forks<'a> {
    runtime: &'a Runtime,
    store: Arc<dyn Store>,
    scratch: SessionId,
    events: RefCell<Events>,
    done: Cell<u64>,
}

impl fmt::Debug for Forks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forks").finish_non_exhaustive()
    }
}

impl<'a> Forks<'a> {
    /// In a store that has no session `scratch` yet.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(runtime: &'a Runtime, store: Arc<dyn Store>) -> Result<Self, Failure> {
        let scratch = SessionId::new("scratch")?;
        runtime.block_on(store.create_session(NewSession::native(scratch.clone())))?;
        Ok(Self {
            runtime,
            store,
            events: RefCell::new(Events::new(scratch.as_str())),
            scratch,
            done: Cell::new(0),
        })
    }

    fn number(&self) -> u64 {
        self.done.set(self.done.get() + 1);
        self.done.get()
    }

    /// Appends one event.
    ///
    /// # Errors
    /// Those of the store.
    pub fn append(&self) -> Result<Duration, Failure> {
        let id = format!("e{}", self.number());
        let event = self.events.borrow_mut().user(&id, &"x".repeat(500));
        let batch = AppendBatch::native(vec![event]);
        let append = || {
            Ok(self
                .runtime
                .block_on(self.store.append(&self.scratch, batch))?)
        };
        Ok(timed(append)?.1)
    }

    /// Forks a session in its middle.
    ///
    /// # Errors
    /// Those of the store.
    pub fn fork(&self, parent: &Session, at: At) -> Result<Duration, Failure> {
        let inside = match at {
            At::TurnEnd => 0,
            At::InsideTurn => Periodic::EVENTS_PER_TURN as u64 / 2,
        };
        let child = SessionId::new(format!("fork-{}", self.number()))?;
        let at = parent.middle() + inside;
        let fork = || {
            let fork = self.store.fork_session(&parent.id, at, child);
            Ok(self.runtime.block_on(fork)?)
        };
        Ok(timed(fork)?.1)
    }
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let filled = run.filled(adapter)?;
        let large = filled.large()?;
        let forks = Forks::new(&run.runtime, Arc::clone(&filled.store))?;
        let samples = in_turn(
            run.size.pick(200, 600),
            [
                &mut || forks.append(),
                &mut || forks.fork(large, At::TurnEnd),
                &mut || forks.fork(large, At::InsideTurn),
            ],
        )?;
        let [append, turn_end, inside] = samples.map(|samples| samples.median());
        let floor = ("a durable append of one event to it", append);
        let line = |what, value| Line::new(what, adapter.name(), Unit::Time, value, floor);
        lines.push(line("fork.turn_end", turn_end).ratio_goal(3.0).unsteady());
        lines.push(line("fork.inside_turn", inside).ratio_goal(3.0).unsteady());
    }
    Ok(lines)
}
