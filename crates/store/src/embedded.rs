//! The asynchronous shell that embedded adapters share.
//!
//! One thread writes, fed by a queue, so appends are ordered and no caller
//! ever waits for another's lock; reads are short transactions on the
//! caller's thread. Everything between the port and the [`Engine`] is here.

use crate::engine::{Capabilities, Engine, Snapshot, WriteTxn, Writes};
use crate::page::{info, read_items, readable, stored};
use crate::plan::{fetch, needs, plan, prepare, run_of, session_and_log};
use crate::port::{
    Admin, AppendBatch, AuthorityChange, Committed, ContributionQuery, ContributionStatus,
    Contributions, IndexStatus, ItemIndex, ItemPage, ItemQuery, KnownEvent, Ledger, NewSession,
    RangeQuery, SessionFilter, SessionInfo, StoredEvent, StoredFact, VerifyReport,
};
use crate::rows::{FoundEvent, LogRow, RunRow, SessionRow};
use crate::{ErrorKind, StoreError, care};
use async_trait::async_trait;
use folio_codec::EMPTY_CHAIN;
use folio_core::assign::Tail;
use folio_core::{Authority, Direction, EventId, PROJECTION_VERSION, SessionId, Spine};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// The most rows that one listing answers.
const MAX_LISTED: usize = 1_024;

/// Work for the writer thread.
type Job<E> = Box<dyn FnOnce(&E) + Send>;

/// A store over an [`Engine`].
pub struct Embedded<E> {
    engine: Arc<E>,
    writer: Mutex<Option<Thread<E>>>,
    /// Set by a commit whose outcome is not known: nothing more is written.
    poisoned: Arc<AtomicBool>,
}

struct Thread<E> {
    queue: mpsc::Sender<Job<E>>,
    thread: JoinHandle<()>,
}

impl<E> fmt::Debug for Embedded<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded")
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

impl<E> Drop for Embedded<E> {
    fn drop(&mut self) {
        let writer = self
            .writer
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        join(writer);
    }
}

/// Lets the writer finish what it was handed and waits for it.
fn join<E>(writer: Option<Thread<E>>) {
    if let Some(Thread { queue, thread }) = writer {
        drop(queue);
        // A writer that panicked has answered its caller already.
        drop(thread.join());
    }
}

fn closed() -> StoreError {
    StoreError::new(
        ErrorKind::Closed,
        "store_closed",
        "the store is closed: open it again",
    )
}

impl<E: Engine> Embedded<E> {
    /// A store over an engine.
    ///
    /// # Errors
    /// `thread_failed` where the system gives no thread.
    pub fn new(engine: E) -> Result<Self, StoreError> {
        let engine = Arc::new(engine);
        let (queue, jobs) = mpsc::channel::<Job<E>>();
        let worker = Arc::clone(&engine);
        let thread = std::thread::Builder::new()
            .name("folio-writer".into())
            .spawn(move || {
                for job in jobs {
                    job(&worker);
                }
            })
            .map_err(|error| {
                let message = format!("no writer thread could be started: {error}");
                StoreError::new(ErrorKind::Unavailable, "thread_failed", message).caused_by(error)
            })?;
        let writer = Mutex::new(Some(Thread { queue, thread }));
        Ok(Self {
            engine,
            writer,
            poisoned: Arc::default(),
        })
    }

    /// The engine, for what the port does not offer.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    fn read<T>(
        &self,
        mut work: impl FnMut(&dyn Snapshot) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut out = None;
        self.engine.read(&mut |snapshot| {
            out = Some(work(snapshot)?);
            Ok(())
        })?;
        out.ok_or_else(closed)
    }

    /// Hands work to the writer thread and waits for its outcome. Dropping the
    /// wait changes nothing about the work.
    async fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut dyn WriteTxn, u64, u64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let poisoned = Arc::clone(&self.poisoned);
        self.enqueue(Box::new(move |engine| {
            let result = if poisoned.load(Ordering::Acquire) {
                Err(StoreError::new(
                    ErrorKind::Unavailable,
                    "store_poisoned",
                    "an earlier commit has an unknown outcome: open the store again",
                ))
            } else {
                transact(engine, &mut work)
            };
            if result
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::Indeterminate)
            {
                poisoned.store(true, Ordering::Release);
            }
            // The caller may have stopped waiting.
            drop(answer.send(result));
        }))?;
        outcome.await.map_err(|_| {
            let message = "the writer stopped before it answered: look the events up by id";
            StoreError::new(ErrorKind::Indeterminate, "indeterminate", message)
        })?
    }

    fn enqueue(&self, job: Job<E>) -> Result<(), StoreError> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = writer.as_ref().ok_or_else(closed)?;
        writer.queue.send(job).map_err(|_| closed())
    }
}

/// Runs work in one transaction and takes its answer out.
fn transact<E: Engine, T>(
    engine: &E,
    work: &mut impl FnMut(&mut dyn WriteTxn, u64, u64) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let (now, random) = (engine.now(), engine.random());
    let mut out = None;
    engine.write(&mut |txn| {
        out = Some(work(txn, now, random)?);
        Ok(())
    })?;
    out.ok_or_else(closed)
}

fn authority_changed(session: &SessionRow) -> StoreError {
    let message = format!(
        "session {} is {} at revision {}: read it again and decide anew",
        session.session_id,
        session.authority.as_str(),
        session.authority_rev
    );
    StoreError::new(ErrorKind::Conflict, "authority_changed", message)
}

fn no_transition(session: &SessionRow, to: &str) -> StoreError {
    let message = format!(
        "session {} is {} and cannot become {to}",
        session.session_id,
        session.authority.as_str()
    );
    StoreError::invalid("authority_transition", message)
}

#[async_trait]
impl<E: Engine> Ledger for Embedded<E> {
    async fn create_session(&self, session: NewSession) -> Result<SessionInfo, StoreError> {
        self.write(move |txn, now, random| create(txn, &session, now, random))
            .await
    }

    async fn session(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        self.read(|snapshot| {
            let (session, log) = session_and_log(snapshot, id.as_str())?;
            Ok(info(&session, &log))
        })
    }

    async fn sessions(
        &self,
        filter: SessionFilter,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let limit = limit.min(MAX_LISTED);
        self.read(|snapshot| {
            let mut out = Vec::new();
            let mut after = after.as_ref().map(|id| id.as_str().to_owned());
            while out.len() < limit {
                let rows = snapshot.sessions(after.as_deref(), limit)?;
                let full = rows.len() == limit;
                after = rows.last().map(|row| row.session_id.as_str().to_owned());
                for row in rows {
                    let listed =
                        filter == SessionFilter::All || row.authority == Authority::RuntimeEvents;
                    if listed && out.len() < limit {
                        let (row, log) = session_and_log(snapshot, row.session_id.as_str())?;
                        out.push(info(&row, &log));
                    }
                }
                if !full {
                    break;
                }
            }
            Ok(out)
        })
    }

    async fn set_authority(
        &self,
        id: &SessionId,
        change: AuthorityChange,
    ) -> Result<SessionInfo, StoreError> {
        let id = id.clone();
        self.write(move |txn, _, _| {
            let (mut session, log) = session_and_log(txn, id.as_str())?;
            if session.authority_rev != change.expected_rev {
                return Err(authority_changed(&session));
            }
            if !session.authority.may_become(change.to) {
                return Err(no_transition(&session, change.to.as_str()));
            }
            session.authority = change.to;
            session.authority_rev += 1;
            if change.import_ref.is_some() {
                session.import_ref.clone_from(&change.import_ref);
            }
            txn.apply(&Writes {
                session: Some(session.clone()),
                ..Writes::default()
            })?;
            Ok(info(&session, &log))
        })
        .await
    }

    async fn discard_session(&self, id: &SessionId, expected_rev: u64) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |txn, _, _| {
            let (session, _) = session_and_log(txn, id.as_str())?;
            if session.authority_rev != expected_rev {
                return Err(authority_changed(&session));
            }
            if session.authority == Authority::RuntimeEvents {
                return Err(no_transition(&session, "discarded"));
            }
            txn.apply(&Writes {
                drop_session: Some(session),
                ..Writes::default()
            })
        })
        .await
    }

    async fn append(&self, id: &SessionId, batch: AppendBatch) -> Result<Committed, StoreError> {
        let id = id.clone();
        let mut batch = Some(prepare(&id, batch)?);
        self.write(move |txn, now, _| {
            let batch = batch.take().ok_or_else(closed)?;
            let needs = needs(&batch);
            let found = fetch(txn, id.as_str(), &batch, needs)?;
            let plan = plan(found, batch, now)?;
            if let Some(writes) = &plan.writes {
                txn.apply(writes)?;
            }
            Ok(plan.committed)
        })
        .await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let (answer, done) = oneshot::channel();
        self.enqueue(Box::new(move |_| {
            // The caller may have stopped waiting.
            answer.send(()).ok();
        }))?;
        done.await.map_err(|_| closed())
    }

    async fn lookup_ids(
        &self,
        id: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<KnownEvent>>, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            ids.iter()
                .map(|id| crate::plan::lookup(snapshot, &log, id.as_str()))
                .collect()
        })
    }

    async fn range(
        &self,
        id: &SessionId,
        query: RangeQuery,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            let (from, to) = (query.from.max(1), query.to.min(log.head));
            if from > to {
                return Ok(Vec::new());
            }
            let found = snapshot.events(log.log_no, from, to, query.max_count, query.max_bytes)?;
            if found.is_empty() && query.max_count > 0 {
                return Err(StoreError::gap(vec![from]));
            }
            whole(snapshot, &log, without_gaps(found, from))
        })
    }

    async fn events(
        &self,
        id: &SessionId,
        ordinals: &[u64],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            let mut found = Vec::with_capacity(ordinals.len());
            for ordinal in ordinals {
                let row = snapshot.events(log.log_no, *ordinal, *ordinal, 1, usize::MAX)?;
                found.push(
                    row.into_iter()
                        .next()
                        .unwrap_or(FoundEvent::Damaged { ordinal: *ordinal }),
                );
            }
            whole(snapshot, &log, found)
        })
    }

    async fn runs(
        &self,
        id: &SessionId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<RunRow>, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            snapshot.runs(log.log_no, after, limit.min(MAX_LISTED))
        })
    }
}

/// The most missing ordinals that one answer names.
const MAX_NAMED: u64 = 1_000;

/// A range in which every row that is passed over stands as a damaged one.
fn without_gaps(found: Vec<FoundEvent>, from: u64) -> Vec<FoundEvent> {
    let mut out = Vec::with_capacity(found.len());
    let mut next = from;
    for found in found {
        let ordinal = found.ordinal();
        let missing = next..ordinal.min(next.saturating_add(MAX_NAMED));
        out.extend(missing.map(|ordinal| FoundEvent::Damaged { ordinal }));
        next = ordinal + 1;
        out.push(found);
    }
    out
}

/// The rows as events, or the ordinals of those that are damaged.
fn whole(
    snapshot: &dyn Snapshot,
    log: &LogRow,
    found: Vec<FoundEvent>,
) -> Result<Vec<StoredEvent>, StoreError> {
    let mut spines: HashMap<u32, Arc<Spine>> = HashMap::new();
    let mut events = Vec::with_capacity(found.len());
    let mut missing = Vec::new();
    for found in found {
        match found {
            FoundEvent::Whole(row) => {
                let spine = match spines.entry(row.run_no) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let run = run_of(snapshot, log.log_no, row.run_no)?;
                        new.insert(Arc::new(run.spine))
                    }
                };
                events.push(stored(row, spine));
            }
            FoundEvent::Damaged { ordinal } => missing.push(ordinal),
        }
    }
    if missing.is_empty() {
        Ok(events)
    } else {
        Err(StoreError::gap(missing))
    }
}

/// Creates a session with its log and an empty index.
fn create(
    txn: &mut dyn WriteTxn,
    new: &NewSession,
    now: u64,
    random: u64,
) -> Result<SessionInfo, StoreError> {
    if txn.session(new.id.as_str())?.is_some() {
        let message = format!("session {} exists", new.id);
        return Err(StoreError::new(
            ErrorKind::Conflict,
            "session_exists",
            message,
        ));
    }
    if new.authority == Authority::Rejected {
        return Err(StoreError::invalid(
            "authority_transition",
            "a session is rejected by its import, it cannot begin so",
        ));
    }
    let mut counters = txn.counters()?;
    counters.session_no += 1;
    counters.log_no += 1;
    counters.index_no += 1;
    let session = SessionRow {
        session_no: counters.session_no,
        session_id: new.id.clone(),
        log_no: counters.log_no,
        incarnation: random,
        generation: 0,
        authority: new.authority,
        authority_rev: 1,
        followed: new.followed,
        import_ref: new.import_ref.clone(),
        lease_owner: 0,
        lease_epoch: 0,
        created_at: now,
    };
    let log = LogRow {
        log_no: counters.log_no,
        family: counters.log_no,
        head: 0,
        base: 0,
        chain: EMPTY_CHAIN,
        drained_seq: 0,
        runs: 0,
        index_no: counters.index_no,
        index_version: PROJECTION_VERSION,
        index_head: 0,
        items: 0,
        tail: Tail::default(),
    };
    txn.apply(&Writes {
        counters: Some(counters),
        session: Some(session.clone()),
        log: Some(log.clone()),
        ..Writes::default()
    })?;
    Ok(info(&session, &log))
}

#[async_trait]
impl<E: Engine> ItemIndex for Embedded<E> {
    async fn index_status(&self, id: &SessionId) -> Result<IndexStatus, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            Ok(care::index_status(&log))
        })
    }

    async fn read_items(&self, id: &SessionId, query: ItemQuery) -> Result<ItemPage, StoreError> {
        self.read(|snapshot| read_items(snapshot, id.as_str(), &query))
    }

    async fn rebuild_index(&self, id: &SessionId) -> Result<IndexStatus, StoreError> {
        let id = id.clone();
        self.write(move |txn, _, _| care::rebuild(txn, id.as_str()))
            .await
    }
}

#[async_trait]
impl<E: Engine> Contributions for Embedded<E> {
    async fn contribution_status(
        &self,
        id: &SessionId,
        source: &str,
    ) -> Result<ContributionStatus, StoreError> {
        self.read(|snapshot| {
            let (_, log) = session_and_log(snapshot, id.as_str())?;
            let contrib = snapshot.contrib_log(log.log_no, source)?;
            let (head, chain) = contrib.map_or((0, EMPTY_CHAIN), |log| (log.head, log.chain));
            Ok(ContributionStatus { head, chain })
        })
    }

    async fn contributions(
        &self,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError> {
        self.read(|snapshot| {
            let (_, log) = readable(snapshot, id.as_str())?;
            let Some(contrib) = snapshot.contrib_log(log.log_no, source)? else {
                return Ok(Vec::new());
            };
            facts(snapshot, contrib.contrib_no, &query)
        })
    }
}

/// Facts at a watermark, in the order of their anchors. Those above the
/// watermark are passed over, a bounded number at a time.
fn facts(
    snapshot: &dyn Snapshot,
    contrib_no: u64,
    query: &ContributionQuery,
) -> Result<Vec<StoredFact>, StoreError> {
    let limit = query.max_items.min(MAX_LISTED);
    let mut out = Vec::new();
    let mut after = query.after;
    while out.len() < limit {
        let direction: Direction = query.direction;
        let rows = snapshot.facts_by_anchor(contrib_no, after, direction, limit)?;
        let full = rows.len() == limit;
        after = rows.last().map(|row| (row.anchor, row.seq));
        let rows = rows.into_iter().filter(|row| row.seq <= query.through);
        out.extend(rows.map(|row| StoredFact {
            seq: row.seq,
            chain: row.chain,
            body: row.body,
        }));
        if !full {
            break;
        }
    }
    out.truncate(limit);
    Ok(out)
}

#[async_trait]
impl<E: Engine> Admin for Embedded<E> {
    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    async fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError> {
        self.read(|snapshot| care::verify(snapshot, id.as_str()))
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.engine.check()
    }

    async fn close(&self) -> Result<(), StoreError> {
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        join(writer);
        Ok(())
    }
}
