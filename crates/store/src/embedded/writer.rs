//! The writer: one thread that commits what every caller hands over.
//!
//! What is handed over waits in a queue until its first entry is due. Then the
//! writer takes entries in their order and decides and writes them in one
//! transaction, so that all of them share one sync: under load the next
//! transaction holds whatever came while the last one was syncing. An entry
//! that is refused has written nothing and is answered alone.

use super::spawn;
use crate::engine::{Engine, Snapshot, Writes};
use crate::port::Room;
use crate::{ErrorKind, StoreError};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, TryAcquireError, oneshot, watch};

/// The most bytes that wait for the writer; a request counts as its text and
/// 1 KiB.
pub const QUEUE_BYTES: usize = 64 << 20;
/// What a request costs beside its text.
const OVERHEAD: usize = 1 << 10;
/// A transaction takes no further request when it has written so much,
const GROUP_BYTES: usize = 4 << 20;
/// or has taken so long: whoever is first in it waits for the last one.
const GROUP_TIME: Duration = Duration::from_millis(20);

/// Something to decide and to write, and somebody who waits for it.
trait Request<E>: Send {
    /// Decides. Nothing is written where the answer is a refusal, which is
    /// kept for whoever waits.
    fn decide(&mut self, snapshot: &dyn Snapshot, engine: &E) -> Option<Writes>;
    /// The bytes of its text.
    fn bytes(&self) -> usize;
    /// Tells whoever waits what was decided, or why it was not kept.
    fn answer(self: Box<Self>, kept: Result<(), StoreError>);
}

/// A request that is a closure.
struct Decision<T, F> {
    decide: Option<F>,
    decided: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
    bytes: usize,
    /// Given back when the request is answered.
    _room: Option<Room>,
}

impl<E, T, F> Request<E> for Decision<T, F>
where
    T: Send,
    F: FnOnce(&dyn Snapshot, &E) -> Result<(T, Option<Writes>), StoreError> + Send,
{
    fn decide(&mut self, snapshot: &dyn Snapshot, engine: &E) -> Option<Writes> {
        let decide = self.decide.take()?;
        match decide(snapshot, engine) {
            Ok((answer, writes)) => {
                self.decided = Some(Ok(answer));
                writes
            }
            Err(refusal) => {
                self.decided = Some(Err(refusal));
                None
            }
        }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn answer(self: Box<Self>, kept: Result<(), StoreError>) {
        let outcome = match (self.decided, kept) {
            // What was refused is refused whatever became of the others.
            (Some(Err(refusal)), _) => Err(refusal),
            (Some(Ok(answer)), Ok(())) => Ok(answer),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Err(StoreError::closed()),
        };
        // The caller may have stopped waiting.
        drop(self.answer.send(outcome));
    }
}

/// Work for the writer thread.
enum Job<E> {
    /// Shares a transaction with its neighbours.
    Shared(Box<dyn Request<E>>),
    /// Has the writer for itself.
    Alone(Box<dyn FnOnce(&E) + Send>),
}

/// What waits.
struct Waiting<E> {
    jobs: VecDeque<Job<E>>,
    /// When the first of them must be begun with; the others go along.
    due: Option<Instant>,
    closed: bool,
}

struct Queue<E> {
    waiting: Mutex<Waiting<E>>,
    handed_over: Condvar,
}

impl<E> Queue<E> {
    fn with<T>(&self, work: impl FnOnce(&mut Waiting<E>) -> T) -> T {
        work(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, job: Job<E>, due: Instant) -> Result<(), StoreError> {
        self.with(|waiting| {
            if waiting.closed {
                return Err(StoreError::closed());
            }
            waiting.jobs.push_back(job);
            waiting.due = Some(waiting.due.map_or(due, |first| first.min(due)));
            Ok(())
        })?;
        self.handed_over.notify_one();
        Ok(())
    }

    /// The next job, once one is due; `None` when the queue is closed and
    /// empty. Closing makes everything due.
    fn next(&self) -> Option<Job<E>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            match waiting.due {
                None if waiting.closed => return None,
                Some(due) if waiting.closed || due <= now => return waiting.pop(),
                Some(due) => {
                    let waited = self.handed_over.wait_timeout(waiting, due - now);
                    waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    let waited = self.handed_over.wait(waiting);
                    waiting = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// The next job, if it shares a transaction.
    fn next_shared(&self) -> Option<Box<dyn Request<E>>> {
        self.with(|waiting| match waiting.jobs.front() {
            Some(Job::Shared(_)) => match waiting.pop() {
                Some(Job::Shared(request)) => Some(request),
                _ => None,
            },
            _ => None,
        })
    }

    fn close(&self) {
        self.with(|waiting| waiting.closed = true);
        self.handed_over.notify_one();
    }
}

impl<E> Waiting<E> {
    fn pop(&mut self) -> Option<Job<E>> {
        let job = self.jobs.pop_front();
        if self.jobs.is_empty() {
            self.due = None;
        }
        job
    }
}

/// The queue, the thread behind it, and the room that is left.
pub(super) struct Writer<E> {
    queue: Arc<Queue<E>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    room: Arc<Semaphore>,
}

impl<E: Engine> Writer<E> {
    /// Starts the thread. `commits` is raised after every commit, before
    /// anybody is answered.
    pub(super) fn start(
        engine: Arc<E>,
        commits: Arc<watch::Sender<u64>>,
    ) -> Result<Self, StoreError> {
        let queue: Arc<Queue<E>> = Arc::new(Queue {
            waiting: Mutex::new(Waiting {
                jobs: VecDeque::new(),
                due: None,
                closed: false,
            }),
            handed_over: Condvar::new(),
        });
        let served = Arc::clone(&queue);
        let thread = spawn("folio-writer", move || {
            let served = Served(served);
            while let Some(job) = served.0.next() {
                match job {
                    Job::Alone(work) => work(&*engine),
                    Job::Shared(first) => commit(first, &served.0, &*engine, &commits),
                }
            }
        })?;
        Ok(Self {
            queue,
            thread: Mutex::new(Some(thread)),
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
        })
    }

    /// Hands over a decision; it is begun with within `window`, at the latest.
    /// Dropping the answer changes nothing about it.
    pub(super) async fn decide<T: Send + 'static>(
        &self,
        room: Option<Room>,
        bytes: usize,
        window: Duration,
        decide: impl FnOnce(&dyn Snapshot, &E) -> Result<(T, Option<Writes>), StoreError>
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let request = Box::new(Decision {
            decide: Some(decide),
            decided: None,
            answer,
            bytes,
            _room: room,
        });
        let due = Instant::now() + window;
        self.queue.push(Job::Shared(request), due)?;
        wait(outcome).await
    }

    /// Hands over work that has the writer for itself. Dropping the answer
    /// changes nothing about it.
    pub(super) async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce(&E) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let job = Job::Alone(Box::new(move |engine: &E| {
            // The caller may have stopped waiting.
            drop(answer.send(work(engine)));
        }));
        self.queue.push(job, Instant::now())?;
        wait(outcome).await
    }

    /// Room for a request of so many bytes of text, if there is any now.
    pub(super) fn try_reserve(&self, bytes: usize) -> Result<Room, StoreError> {
        let room = Arc::clone(&self.room).try_acquire_many_owned(cost(bytes));
        let held = room.map_err(|error| match error {
            TryAcquireError::Closed => StoreError::closed(),
            TryAcquireError::NoPermits => {
                let message = format!(
                    "{QUEUE_BYTES} bytes wait for the writer already: nothing was accepted; \
                     reserve room, then append"
                );
                StoreError::new(ErrorKind::Unavailable, "backpressure", message)
            }
        })?;
        Ok(Room::new(bytes, held))
    }

    /// Waits for room, first come first served.
    pub(super) async fn reserve(&self, bytes: usize) -> Result<Room, StoreError> {
        let room = Arc::clone(&self.room).acquire_many_owned(cost(bytes)).await;
        let held = room.map_err(|_| StoreError::closed())?;
        Ok(Room::new(bytes, held))
    }

    /// Lets the writer finish what it was handed, and ends it.
    pub(super) fn stop(&self) {
        self.room.close();
        self.queue.close();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A writer that panicked has answered everybody already.
            drop(thread.join());
        }
    }
}

/// What a request of so many bytes of text takes of the queue.
fn cost(bytes: usize) -> u32 {
    let cost = bytes.saturating_add(OVERHEAD).min(QUEUE_BYTES);
    u32::try_from(cost).unwrap_or(u32::MAX)
}

async fn wait<T>(outcome: oneshot::Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    outcome.await.map_err(|_| {
        let message = "the writer stopped before it answered: look the events up by id";
        StoreError::new(ErrorKind::Indeterminate, "indeterminate", message)
    })?
}

/// The queue as its thread holds it: when the thread ends, by a panic too,
/// nobody waits any longer.
struct Served<E>(Arc<Queue<E>>);

impl<E> Drop for Served<E> {
    fn drop(&mut self) {
        let left = self.0.with(|waiting| {
            waiting.closed = true;
            std::mem::take(&mut waiting.jobs)
        });
        drop(left);
    }
}

/// Commits a request together with those that wait behind it.
fn commit<E: Engine>(
    first: Box<dyn Request<E>>,
    queue: &Queue<E>,
    engine: &E,
    commits: &watch::Sender<u64>,
) {
    let mut group = vec![first];
    let kept = engine.write(&mut |txn| {
        let began = Instant::now();
        let mut bytes = 0;
        let mut at = 0;
        while let Some(request) = group.get_mut(at) {
            bytes += request.bytes();
            if let Some(writes) = request.decide(txn, engine) {
                txn.apply(&writes)?;
            }
            at += 1;
            if at == group.len() && bytes < GROUP_BYTES && began.elapsed() < GROUP_TIME {
                group.extend(queue.next_shared());
            }
        }
        Ok(())
    });
    if kept.is_ok() {
        commits.send_modify(|count| *count += 1);
    }
    for request in group {
        request.answer(kept.clone());
    }
}
