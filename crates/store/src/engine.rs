//! What an embedded adapter implements: reads of one consistent snapshot, and
//! one way to write.
//!
//! Everything that decides (ordinals, idempotency, uniqueness, items, pages)
//! stands in this crate and runs over these traits, so that every adapter
//! decides alike. An adapter fetches rows and writes rows.

use crate::StoreError;
use crate::rows::{
    ContribLogRow, EventRow, FactRow, FoundEvent, LogRow, RunRow, SegRow, SessionRow,
};
use folio_core::item::{LanePart, Position};
use folio_core::{Direction, Item};

/// Numbers that a store hands out; each is the last one used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Sessions.
    pub session_no: u64,
    /// Logs.
    pub log_no: u64,
    /// Item index generations.
    pub index_no: u64,
    /// Contribution logs.
    pub contrib_no: u64,
}

/// Reads of one consistent state.
///
/// # Contract
/// * All reads through one value see the same state.
/// * Every row is checked against its checksum. A damaged event is answered as
///   [`FoundEvent::Damaged`]; any other damaged row is an error of kind
///   `Corrupt` that names table and key (`index_damaged` for items and segs).
/// * No read is larger than its bounds: `limit` rows, `max_bytes` of bodies
///   (the first row may exceed it alone).
pub trait Snapshot {
    /// The counters.
    fn counters(&self) -> Result<Counters, StoreError>;
    /// A session by id.
    fn session(&self, id: &str) -> Result<Option<SessionRow>, StoreError>;
    /// Sessions by id, ascending, behind `after`.
    fn sessions(&self, after: Option<&str>, limit: usize) -> Result<Vec<SessionRow>, StoreError>;
    /// A log.
    fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError>;
    /// Ordinals of a family's events whose id has this hash, ascending.
    fn event_ids(&self, family: u64, hash: u64) -> Result<Vec<u64>, StoreError>;
    /// Events from `from` to `to`, both included, ascending; stops before the
    /// row that would exceed `limit` or `max_bytes`.
    fn events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<FoundEvent>, StoreError>;
    /// A run by number.
    fn run(&self, log_no: u64, run_no: u32) -> Result<Option<RunRow>, StoreError>;
    /// Runs by number, ascending, behind `after`.
    fn runs(&self, log_no: u64, after: u32, limit: usize) -> Result<Vec<RunRow>, StoreError>;
    /// A run by its id.
    fn run_by_id(&self, log_no: u64, run_id: &str) -> Result<Option<RunRow>, StoreError>;
    /// A run by its invocation.
    fn run_by_invocation(&self, log_no: u64, id: &str) -> Result<Option<RunRow>, StoreError>;
    /// The run of a turn with the greatest number below `before`.
    fn last_run_of_turn(
        &self,
        log_no: u64,
        turn_id: &str,
        before: u32,
    ) -> Result<Option<RunRow>, StoreError>;
    /// Items from a position on (itself included) in a direction, at most
    /// `limit`; newer ones ascend, older ones descend.
    fn items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError>;
    /// Items whose identity has this hash: all incarnations.
    fn items_by_hash(&self, index_no: u64, hash: u64) -> Result<Vec<Item>, StoreError>;
    /// Chunks of an item's lane that begin at or above `from` and at or below
    /// `through`, ascending.
    fn segs(
        &self,
        index_no: u64,
        position: Position,
        lane: LanePart,
        from: u64,
        through: u64,
        limit: usize,
    ) -> Result<Vec<SegRow>, StoreError>;
    /// The last chunk of an item's lane at or below `through`.
    fn last_seg(
        &self,
        index_no: u64,
        position: Position,
        lane: LanePart,
        through: u64,
    ) -> Result<Option<SegRow>, StoreError>;
    /// A contribution log of a session's log.
    fn contrib_log(&self, log_no: u64, source: &str) -> Result<Option<ContribLogRow>, StoreError>;
    /// All contribution logs of a session's log.
    fn contrib_logs(&self, log_no: u64) -> Result<Vec<ContribLogRow>, StoreError>;
    /// Facts by sequence, ascending, from `from` on.
    fn facts(&self, contrib_no: u64, from: u64, limit: usize) -> Result<Vec<FactRow>, StoreError>;
    /// Facts by (anchor, sequence) in a direction, behind `after`; older ones
    /// descend.
    fn facts_by_anchor(
        &self,
        contrib_no: u64,
        after: Option<(u64, u64)>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<FactRow>, StoreError>;
    /// Facts of an item, by the hash of its id, ascending by sequence.
    fn facts_by_id(&self, contrib_no: u64, hash: u64) -> Result<Vec<FactRow>, StoreError>;
}

/// An item to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemWrite {
    /// The item; its number is set.
    pub item: Item,
    /// Whether it is new; otherwise the row at its position is replaced.
    pub is_new: bool,
}

/// Rows to write in one transaction. Rows with a key that exists replace what
/// is there, but for events and facts, which never exist yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writes {
    /// The counters, if they moved.
    pub counters: Option<Counters>,
    /// The session.
    pub session: Option<SessionRow>,
    /// The log. The rows below belong to it.
    pub log: Option<LogRow>,
    /// Runs.
    pub runs: Vec<RunRow>,
    /// Events, ascending, each with the hash of its id.
    pub events: Vec<(EventRow, u64)>,
    /// Items of the log's live index.
    pub items: Vec<ItemWrite>,
    /// Chunks of items of the log's live index.
    pub segs: Vec<SegRow>,
    /// The contribution log.
    pub contrib_log: Option<ContribLogRow>,
    /// Facts of it, ascending.
    pub facts: Vec<FactRow>,
    /// An index generation to remove whole.
    pub drop_index: Option<u64>,
    /// A session to remove with its log, runs, events, live index and
    /// contribution logs: every trace of it.
    pub drop_session: Option<SessionRow>,
}

/// A write transaction: reads see what it wrote.
pub trait WriteTxn: Snapshot {
    /// Writes rows.
    fn apply(&mut self, writes: &Writes) -> Result<(), StoreError>;
}

/// Work on a snapshot.
pub type ReadWork<'a> = &'a mut dyn FnMut(&dyn Snapshot) -> Result<(), StoreError>;
/// Work in a write transaction.
pub type WriteWork<'a> = &'a mut dyn FnMut(&mut dyn WriteTxn) -> Result<(), StoreError>;

/// What an adapter can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// What is acknowledged survives the process and a power cut.
    pub durable: bool,
    /// Several processes may write.
    pub multi_process: bool,
}

/// The synchronous heart of an embedded adapter.
///
/// # Contract
/// * `read` gives the work one consistent state and holds it no longer than
///   the work runs.
/// * `write` is called by one thread at a time. It commits if the work
///   answers `Ok`, and returns only once the commit is synced; otherwise it
///   leaves the store as it was. An error of the commit itself is of kind
///   `Indeterminate`.
/// * `write` may run the work only once.
pub trait Engine: Send + Sync + 'static {
    /// Runs work on one consistent state.
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError>;
    /// Runs work in one transaction and commits it.
    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError>;
    /// What the adapter can do.
    fn capabilities(&self) -> Capabilities;
    /// Milliseconds since 1970, for what was committed when.
    fn now(&self) -> u64;
    /// A random number, for incarnations.
    fn random(&self) -> u64;
    /// Checks what the engine itself can check about its files.
    fn check(&self) -> Result<(), StoreError>;
}
