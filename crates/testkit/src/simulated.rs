//! A durable engine that is only simulated: what was synced outlives its
//! handles, rows can be damaged below it, and a commit can be made to fail.
//!
//! The engine is right. [`Flaw`] holds what it does at the points where an
//! engine can go wrong, each method the right way; a wrong engine overrides
//! one of them.

use crate::conformance::{Damage, Need, StorePlace, let_index_age, lose_notes};
use async_trait::async_trait;
use folio_codec::Digest;
use folio_core::item::LanePart;
use folio_core::{Direction, Item, Position};
use folio_store::engine::{
    Capabilities, Counters, Engine, ReadWork, Snapshot, WriteTxn, WriteWork, Writes,
};
use folio_store::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRow, FactRow, FoundEvent, FoundPack, IdRunRow, LogRow,
    RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewEntry, ViewRow,
};
use folio_store::{Embedded, ErrorKind, Store, StoreError};
use folio_store_memory::Tables;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an engine does where it can go wrong. Every default is right.
pub trait Flaw: Send + Sync + 'static {
    /// Whether writers wait for each other.
    fn one_writer(&self) -> bool {
        true
    }

    /// Writes rows in a transaction that nobody sees yet.
    fn apply(&self, disk: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        let _ = disk;
        txn.apply(writes)
    }

    /// Syncs a transaction, then lets readers see it.
    fn commit(&self, state: &mut State, next: Tables) {
        state.synced = next.clone();
        state.live = next;
    }

    /// A transaction whose sync failed: it is not seen, and may stand on the
    /// disk nevertheless. Then a fence is committed, which settles that it
    /// does not.
    fn fail(&self, state: &mut State, next: Tables) -> Result<(), StoreError> {
        state.stray = Some(next);
        self.fence(state);
        let message = "the sync failed: look the events up by id";
        Err(StoreError::new(
            ErrorKind::Indeterminate,
            "indeterminate",
            message,
        ))
    }

    /// Commits a row of no meaning in the place of what failed.
    fn fence(&self, state: &mut State) {
        state.stray = None;
    }

    /// Logs and ordinals of events that an id's hash leads to, for a
    /// transaction that writes, or for one that only reads.
    fn event_ids(
        &self,
        writes: bool,
        log: &dyn Fn() -> Option<LogRow>,
        found: Vec<(u64, u64)>,
    ) -> Vec<(u64, u64)> {
        let _ = (writes, log);
        found
    }

    /// What reads from a log.
    fn spans_of(&self, found: Vec<SpanRow>) -> Vec<SpanRow> {
        found
    }

    /// Whether an event cites a blob.
    fn is_cited(&self, cited: bool) -> bool {
        cited
    }

    /// Whether the handle that holds something is open.
    fn is_alive(&self, alive: bool) -> bool {
        alive
    }

    /// A log's row; the last event of the log may be damaged.
    fn log(&self, row: LogRow, last: &dyn Fn() -> Option<FoundEvent>) -> LogRow {
        let _ = last;
        row
    }

    /// An event whose bytes do not fit its checksum.
    fn damaged_event(&self, row: EventRow) -> FoundEvent {
        FoundEvent::Damaged {
            ordinal: row.ordinal,
        }
    }

    /// A piece of a blob whose bytes do not fit its checksum.
    fn damaged_piece(&self, found: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let message = format!("pieces: {} bytes do not fit their checksum", found.len());
        Err(StoreError::corrupt("blob_damaged", message))
    }

    /// An item whose bytes do not fit its checksum.
    fn damaged_item(&self, item: Item) -> Result<Item, StoreError> {
        let message = format!("items, item {}: the checksum does not fit", item.key);
        Err(StoreError::corrupt("index_damaged", message))
    }
}

/// The engine as it should be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Right;

impl Flaw for Right {}

/// What a disk holds, and what its readers see of it.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What readers see.
    pub live: Tables,
    /// What is left when every handle is gone.
    pub synced: Tables,
    /// What a commit wrote whose sync failed: found by the next opening, as if
    /// it had been committed.
    pub stray: Option<Tables>,
    /// Whether the next sync fails.
    pub fails: bool,
    /// The numbers of the open handles.
    handles: BTreeSet<u64>,
    /// The number of the last handle.
    last_handle: u64,
    /// How many transactions were committed.
    commits: u64,
    wounds: Arc<Wounds>,
}

/// Rows that were changed below the store.
#[derive(Debug, Clone, Default)]
struct Wounds {
    /// Events whose bytes do not fit their checksum: log, ordinal.
    events: BTreeSet<(u64, u64)>,
    /// Items whose bytes do not fit their checksum: index, ordinal.
    items: BTreeSet<(u64, u64)>,
    /// Items whose rows are gone: index, ordinal.
    lost: BTreeSet<(u64, u64)>,
    /// Pieces whose bytes do not fit their checksum: blob, piece.
    pieces: BTreeSet<(u64, u32)>,
}

/// What outlives the handles of a store.
#[derive(Debug, Default)]
pub struct Disk {
    state: Mutex<State>,
    writing: Mutex<()>,
}

impl Disk {
    /// What it holds now.
    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// What a panic left behind is whole: states change in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle on a disk.
struct Simulated {
    number: u64,
    closed: AtomicBool,
    disk: Arc<Disk>,
    flaw: Arc<dyn Flaw>,
}

impl Simulated {
    fn open(disk: &Arc<Disk>, flaw: &Arc<dyn Flaw>) -> Self {
        let mut state = disk.state();
        if state.handles.is_empty() {
            let found = state.stray.take();
            state.synced = found.unwrap_or_else(|| state.synced.clone());
            state.live = state.synced.clone();
        }
        state.last_handle += 1;
        let number = state.last_handle;
        state.handles.insert(number);
        Self {
            number,
            closed: AtomicBool::new(false),
            disk: Arc::clone(disk),
            flaw: Arc::clone(flaw),
        }
    }

    fn view(&self, writes: bool) -> Result<View<'_>, StoreError> {
        self.is_open()?;
        let state = self.disk.state();
        Ok(View {
            writes,
            tables: state.live.clone(),
            wounds: Arc::clone(&state.wounds),
            disk: &self.disk,
            flaw: &*self.flaw,
        })
    }

    fn is_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::closed());
        }
        Ok(())
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.close();
    }
}

impl Engine for Simulated {
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError> {
        work(&self.view(false)?)
    }

    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError> {
        let _one = self.flaw.one_writer().then(|| lock(&self.disk.writing));
        let mut view = self.view(true)?;
        work(&mut view)?;
        let next = view.tables;
        let mut state = self.disk.state();
        if std::mem::take(&mut state.fails) {
            return self.flaw.fail(&mut state, next);
        }
        state.commits += 1;
        self.flaw.commit(&mut state, next);
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn now(&self) -> u64 {
        // One millisecond for each call: later is greater.
        static NOW: AtomicU64 = AtomicU64::new(1_700_000_000_000);
        NOW.fetch_add(1, Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        self.now()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.is_open()
    }

    fn settle(&self) -> Result<(), StoreError> {
        // A fence follows a failed commit at once.
        self.is_open()
    }

    fn rewrite(&self) -> Result<(), StoreError> {
        self.is_open()
    }

    fn owner(&self) -> Result<u64, StoreError> {
        self.is_open().map(|()| self.number)
    }

    fn is_alive(&self, owner: u64) -> Result<bool, StoreError> {
        self.is_open()?;
        let alive = self.disk.state().handles.contains(&owner);
        Ok(self.flaw.is_alive(alive))
    }

    fn version(&self) -> Result<u64, StoreError> {
        self.is_open()?;
        Ok(self.disk.state().commits)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.disk.state().handles.remove(&self.number);
    }
}

const CAPABILITIES: Capabilities = Capabilities {
    durable: true,
    multi_process: true,
    fast_open_after_crash: true,
};

/// Tables with their wounds: where checksums would be compared.
struct View<'a> {
    writes: bool,
    tables: Tables,
    wounds: Arc<Wounds>,
    disk: &'a Disk,
    flaw: &'a dyn Flaw,
}

impl View<'_> {
    fn check(&self, index_no: u64, items: Vec<Item>) -> Result<Vec<Item>, StoreError> {
        let key = |item: &Item| (index_no, item.position.ordinal);
        let there = items
            .into_iter()
            .filter(|item| !self.wounds.lost.contains(&key(item)));
        there
            .map(|mut item| {
                if self.wounds.items.contains(&key(&item)) {
                    item.revision += 1;
                    self.flaw.damaged_item(item)
                } else {
                    Ok(item)
                }
            })
            .collect()
    }
}

impl Snapshot for View<'_> {
    fn counters(&self) -> Result<Counters, StoreError> {
        self.tables.counters()
    }

    fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError> {
        self.tables.session(id)
    }

    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<SessionRow>, StoreError> {
        self.tables.sessions(after, limit)
    }

    fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError> {
        let Some(row) = self.tables.log(log_no)? else {
            return Ok(None);
        };
        let (log_no, head) = (row.log_no, row.head);
        let last = || {
            let found = self.events(log_no, head, head, 1, usize::MAX).ok()?;
            found.into_iter().next()
        };
        Ok(Some(self.flaw.log(row, &last)))
    }

    fn session_of_log(&self, log_no: u64) -> Result<Option<SessionRow>, StoreError> {
        self.tables.session_of_log(log_no)
    }

    fn spans(&self, log_no: u64) -> Result<Vec<SpanRow>, StoreError> {
        self.tables.spans(log_no)
    }

    fn spans_of(&self, src: u64, limit: usize) -> Result<Vec<SpanRow>, StoreError> {
        Ok(self.flaw.spans_of(self.tables.spans_of(src, limit)?))
    }

    fn event_ids(&self, family: u64, hash: u64) -> Result<Vec<(u64, u64)>, StoreError> {
        let found = self.tables.event_ids(family, hash)?;
        let log = || self.tables.log(family).ok().flatten();
        Ok(self.flaw.event_ids(self.writes, &log, found))
    }

    fn events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<FoundEvent>, StoreError> {
        let mut found = self.tables.events(log_no, from, to, limit, max_bytes)?;
        for event in &mut found {
            if let FoundEvent::Whole(row) = event
                && self.wounds.events.contains(&(log_no, row.ordinal))
            {
                let mut row = row.clone();
                if let Some(byte) = row.body.last_mut() {
                    *byte ^= 1;
                }
                *event = self.flaw.damaged_event(row);
            }
        }
        Ok(found)
    }

    fn journal(&self) -> Result<Option<(u64, u64)>, StoreError> {
        self.tables.journal()
    }

    fn commits(&self, after: u64) -> Result<Vec<CommitRow>, StoreError> {
        self.tables.commits(after)
    }

    fn packs(&self, log_no: u64, from: u64, to: u64) -> Result<Vec<FoundPack>, StoreError> {
        self.tables.packs(log_no, from, to)
    }

    fn id_run(&self, log_no: u64, stem: &str, n: u64) -> Result<Option<IdRunRow>, StoreError> {
        self.tables.id_run(log_no, stem, n)
    }

    fn run(&self, log_no: u64, run_no: u32) -> Result<Option<RunRow>, StoreError> {
        self.tables.run(log_no, run_no)
    }

    fn runs(&self, log_no: u64, after: u32, limit: usize) -> Result<Vec<RunRow>, StoreError> {
        self.tables.runs(log_no, after, limit)
    }

    fn run_by_id(&self, log_no: u64, run_id: &str) -> Result<Option<RunRow>, StoreError> {
        self.tables.run_by_id(log_no, run_id)
    }

    fn run_by_invocation(&self, log_no: u64, id: &str) -> Result<Option<RunRow>, StoreError> {
        self.tables.run_by_invocation(log_no, id)
    }

    fn last_run_of_turn(
        &self,
        log_no: u64,
        turn_id: &str,
        before: u32,
    ) -> Result<Option<RunRow>, StoreError> {
        self.tables.last_run_of_turn(log_no, turn_id, before)
    }

    fn items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let more = limit.saturating_add(self.wounds.lost.len());
        let items = self.tables.items(index_no, from, direction, more)?;
        let mut items = self.check(index_no, items)?;
        items.truncate(limit);
        Ok(items)
    }

    fn items_by_hash(&self, index_no: u64, hash: u64) -> Result<Vec<Item>, StoreError> {
        self.check(index_no, self.tables.items_by_hash(index_no, hash)?)
    }

    fn segs(
        &self,
        index_no: u64,
        position: Position,
        lane: LanePart,
        from: u64,
        through: u64,
        limit: usize,
    ) -> Result<Vec<SegRow>, StoreError> {
        self.tables
            .segs(index_no, position, lane, from, through, limit)
    }

    fn last_seg(
        &self,
        index_no: u64,
        position: Position,
        lane: LanePart,
        through: u64,
    ) -> Result<Option<SegRow>, StoreError> {
        self.tables.last_seg(index_no, position, lane, through)
    }

    fn contrib_log(&self, log_no: u64, source: &str) -> Result<Option<ContribLogRow>, StoreError> {
        self.tables.contrib_log(log_no, source)
    }

    fn contrib_logs(&self, log_no: u64) -> Result<Vec<ContribLogRow>, StoreError> {
        self.tables.contrib_logs(log_no)
    }

    fn facts(&self, contrib_no: u64, from: u64, limit: usize) -> Result<Vec<FactRow>, StoreError> {
        self.tables.facts(contrib_no, from, limit)
    }

    fn facts_by_anchor(
        &self,
        contrib_no: u64,
        after: Option<(u64, u64)>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<FactRow>, StoreError> {
        self.tables
            .facts_by_anchor(contrib_no, after, direction, limit)
    }

    fn facts_by_id(&self, contrib_no: u64, hash: u64) -> Result<Vec<FactRow>, StoreError> {
        self.tables.facts_by_id(contrib_no, hash)
    }

    fn blob(&self, sha: &Digest) -> Result<Option<BlobRow>, StoreError> {
        self.tables.blob(sha)
    }

    fn blobs(&self, after: Option<&Digest>, limit: usize) -> Result<Vec<BlobRow>, StoreError> {
        self.tables.blobs(after, limit)
    }

    fn stages(&self, after: u64, limit: usize) -> Result<Vec<StageRow>, StoreError> {
        self.tables.stages(after, limit)
    }

    fn piece(&self, blob_no: u64, piece: u32) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.tables.piece(blob_no, piece)?;
        match found {
            Some(mut bytes) if self.wounds.pieces.contains(&(blob_no, piece)) => {
                if let Some(byte) = bytes.first_mut() {
                    *byte ^= 1;
                }
                self.flaw.damaged_piece(bytes).map(Some)
            }
            found => Ok(found),
        }
    }

    fn is_cited(&self, sha: &Digest) -> Result<bool, StoreError> {
        Ok(self.flaw.is_cited(self.tables.is_cited(sha)?))
    }

    fn citations(
        &self,
        log_no: u64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Digest)>, StoreError> {
        self.tables.citations(log_no, from, limit)
    }

    fn view(&self, name: &str) -> Result<Option<ViewRow>, StoreError> {
        self.tables.view(name)
    }

    fn view_value(&self, view_no: u64, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.tables.view_value(view_no, key)
    }

    fn view_entries(
        &self,
        view_no: u64,
        from: &[u8],
        to: Option<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<ViewEntry>, StoreError> {
        self.tables
            .view_entries(view_no, from, to, direction, limit)
    }

    fn view_mark(&self, view_no: u64, log_no: u64) -> Result<u64, StoreError> {
        self.tables.view_mark(view_no, log_no)
    }

    fn scrubs(&self) -> Result<Vec<ScrubRow>, StoreError> {
        self.tables.scrubs()
    }
}

impl WriteTxn for View<'_> {
    fn apply(&mut self, writes: &Writes) -> Result<(), StoreError> {
        self.flaw.apply(self.disk, &mut self.tables, writes)
    }
}

/// How a place hands a store out; the number counts the openings, from 1.
pub type Wrap = fn(Arc<dyn Store>, u64) -> Arc<dyn Store>;

/// A disk on which stores are opened.
pub struct SimulatedPlace {
    disk: Arc<Disk>,
    flaw: Arc<dyn Flaw>,
    wrap: Wrap,
    opened: AtomicU64,
}

impl std::fmt::Debug for SimulatedPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedPlace")
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}

impl SimulatedPlace {
    /// What outlives the stores of this place.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// An empty disk, an engine, and what is put around its stores.
    pub fn new(flaw: impl Flaw, wrap: Wrap) -> Self {
        Self {
            disk: Arc::default(),
            flaw: Arc::new(flaw),
            wrap,
            opened: AtomicU64::new(0),
        }
    }
}

impl Default for SimulatedPlace {
    fn default() -> Self {
        Self::new(Right, |store, _| store)
    }
}

#[async_trait]
impl StorePlace for SimulatedPlace {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn has(&self, _: Need) -> bool {
        true
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let engine = Simulated::open(&self.disk, &self.flaw);
        let opened = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((self.wrap)(Arc::new(Embedded::new(engine)?), opened))
    }

    async fn damage(&self, damage: Damage<'_>) -> Result<(), StoreError> {
        let mut state = self.disk.state();
        let id = match damage {
            Damage::Event(id, _) | Damage::Item(id, _) | Damage::LostItem(id, _) => id,
            Damage::OldIndex(id) => return let_index_age(&mut state.synced, id),
            Damage::LostNotes(id) => return lose_notes(&mut state.synced, id),
            Damage::Piece(id, piece) => {
                let row = state.synced.blob(&id.0)?;
                let blob_no = row.ok_or_else(|| StoreError::no_blob(id))?.blob_no;
                Arc::make_mut(&mut state.wounds)
                    .pieces
                    .insert((blob_no, piece));
                return Ok(());
            }
        };
        let session = state.synced.session(id.as_str())?;
        let session = session.ok_or_else(|| StoreError::no_session(id.as_str()))?;
        let log = state.synced.log(session.log_no)?;
        let log = log.ok_or_else(|| StoreError::no_session(id.as_str()))?;
        let wounds = Arc::make_mut(&mut state.wounds);
        match damage {
            Damage::Event(_, ordinal) => wounds.events.insert((log.log_no, ordinal)),
            Damage::Item(_, ordinal) => wounds.items.insert((log.index_no, ordinal)),
            Damage::LostItem(_, ordinal) => wounds.lost.insert((log.index_no, ordinal)),
            Damage::OldIndex(_) | Damage::LostNotes(_) | Damage::Piece(..) => false,
        };
        Ok(())
    }

    async fn fail_next_commit(&self) -> Result<(), StoreError> {
        self.disk.state().fails = true;
        Ok(())
    }
}
