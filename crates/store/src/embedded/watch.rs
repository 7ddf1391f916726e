//! Waking those who wait for commits.
//!
//! Every commit of this handle raises a number that waiters watch. Commits of
//! other processes raise it too: as long as somebody waits, one thread asks
//! the engine for its version, rarely while nothing happens and more often
//! for a while after something did.

use super::spawn;
use crate::StoreError;
use crate::engine::Engine;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Between two questions while nothing happens: 20 a second.
const IDLE: Duration = Duration::from_millis(50);
/// Between two questions after something happened.
const BUSY: Duration = Duration::from_millis(20);
/// How long something counts as recent.
const RECENT: Duration = Duration::from_secs(1);

/// The number of commits seen, and the thread that sees those of others.
pub(super) struct Watch<E> {
    engine: Arc<E>,
    commits: Arc<watch::Sender<u64>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    stopped: bool,
    /// Whether the thread runs or is about to.
    running: bool,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Somebody who waits.
pub(super) struct Waiting(Arc<Shared>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.with(|state| state.waiting -= 1);
        self.0.changed.notify_all();
    }
}

impl<E: Engine> Watch<E> {
    pub(super) fn new(engine: Arc<E>) -> Self {
        Self {
            engine,
            commits: Arc::new(watch::Sender::new(0)),
            shared: Arc::default(),
        }
    }

    /// The number to raise after a commit.
    pub(super) fn commits(&self) -> Arc<watch::Sender<u64>> {
        Arc::clone(&self.commits)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.shared.with(|state| state.stopped)
    }

    /// Begins to wait: the number changes with every commit from now on.
    pub(super) fn listen(&self) -> Result<(watch::Receiver<u64>, Waiting), StoreError> {
        let receiver = self.commits.subscribe();
        let start = self.shared.with(|state| {
            state.waiting += 1;
            let start =
                self.engine.capabilities().multi_process && !state.stopped && !state.running;
            state.running |= start;
            start
        });
        let waiting = Waiting(Arc::clone(&self.shared));
        if start && let Err(error) = self.start() {
            self.shared.with(|state| state.running = false);
            return Err(error);
        }
        Ok((receiver, waiting))
    }

    fn start(&self) -> Result<(), StoreError> {
        let (engine, commits) = (Arc::clone(&self.engine), self.commits());
        let shared = Arc::clone(&self.shared);
        // Read before the waiter looks, so that nothing falls between.
        let seen = engine.version()?;
        let thread = spawn("folio-watcher", move || {
            watch_others(&*engine, &commits, &shared, seen);
        })?;
        self.shared.with(|state| state.thread = Some(thread));
        Ok(())
    }

    /// Wakes everybody for the last time and ends the thread.
    pub(super) fn stop(&self) {
        let thread = self.shared.with(|state| {
            state.stopped = true;
            state.thread.take()
        });
        self.shared.changed.notify_all();
        self.commits.send_modify(|count| *count += 1);
        if let Some(thread) = thread {
            drop(thread.join());
        }
    }
}

fn watch_others(
    engine: &impl Engine,
    commits: &watch::Sender<u64>,
    shared: &Shared,
    mut seen: u64,
) {
    let mut last_change: Option<Instant> = None;
    loop {
        let recent = last_change.is_some_and(|at| at.elapsed() < RECENT);
        let pause = if recent { BUSY } else { IDLE };
        let state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = shared
            .changed
            .wait_timeout_while(state, pause, |state| state.waiting > 0 && !state.stopped);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.stopped || state.waiting == 0 {
            // Decided under the lock: whoever comes next starts another.
            state.running = false;
            return;
        }
        drop(state);
        // What cannot be asked now is asked again; readers get the error.
        if let Ok(version) = engine.version()
            && version != seen
        {
            seen = version;
            last_change = Some(Instant::now());
            commits.send_modify(|count| *count += 1);
        }
    }
}
