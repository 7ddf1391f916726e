//! What an embedded adapter implements: reads of one consistent snapshot, and
//! one way to write.
//!
//! Everything that decides (ordinals, idempotency, uniqueness, items, pages)
//! stands in this crate and runs over these traits, so that every adapter
//! decides alike. An adapter fetches rows and writes rows.

use crate::StoreError;
use crate::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRef, EventRow, FactRow, FoundEvent, FoundPack,
    IdRunRow, LogRow, PackRow, RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewEntry,
    ViewRow,
};
use folio_codec::Digest;
use folio_core::item::{LanePart, Position};
use folio_core::{Direction, Item, ItemRef};

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
    /// Blobs.
    pub blob_no: u64,
    /// Views.
    pub view_no: u64,
    /// Erasures.
    pub scrub_seq: u64,
}

impl Counters {
    /// The numbers in the order in which stores keep them.
    pub fn numbers(&self) -> [u64; 7] {
        [
            self.session_no,
            self.log_no,
            self.index_no,
            self.contrib_no,
            self.blob_no,
            self.view_no,
            self.scrub_seq,
        ]
    }

    /// The counters with these numbers.
    pub fn from_numbers(numbers: [u64; 7]) -> Self {
        let [
            session_no,
            log_no,
            index_no,
            contrib_no,
            blob_no,
            view_no,
            scrub_seq,
        ] = numbers;
        Self {
            session_no,
            log_no,
            index_no,
            contrib_no,
            blob_no,
            view_no,
            scrub_seq,
        }
    }
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
    /// The session that writes a log.
    fn session_of_log(&self, log_no: u64) -> Result<Option<SessionRow>, StoreError>;
    /// A log.
    fn log(&self, log_no: u64) -> Result<Option<LogRow>, StoreError>;
    /// What a log reads from others, ascending.
    fn spans(&self, log_no: u64) -> Result<Vec<SpanRow>, StoreError>;
    /// What others read from a log, the greatest `upto` first; at most `limit`.
    fn spans_of(&self, src: u64, limit: usize) -> Result<Vec<SpanRow>, StoreError>;
    /// Log and ordinal of a family's events whose id has this hash, ascending.
    fn event_ids(&self, family: u64, hash: u64) -> Result<Vec<(u64, u64)>, StoreError>;
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
    /// The first and the last number of the commit journal; `None` where it
    /// never had a row.
    fn journal(&self) -> Result<Option<(u64, u64)>, StoreError>;
    /// Rows of the commit journal behind a number, ascending; `row_damaged`
    /// where one does not fit its checksum.
    fn commits(&self, after: u64) -> Result<Vec<CommitRow>, StoreError>;
    /// Segments of a log that begin at or above `from` and at or below `to`,
    /// ascending.
    fn packs(&self, log_no: u64, from: u64, to: u64) -> Result<Vec<FoundPack>, StoreError>;
    /// The ids that count from the greatest number at or below `n` on.
    fn id_run(&self, log_no: u64, stem: &str, n: u64) -> Result<Option<IdRunRow>, StoreError>;
    /// The ordinal of a log's packed chunk with this id. An engine knows rows
    /// alone and answers `None`; what unpacks them knows better.
    fn packed_id(&self, log_no: u64, id: &str) -> Result<Option<u64>, StoreError> {
        let _ = (log_no, id);
        Ok(None)
    }
    /// Hands the whole events from `from` to `to` over, both included,
    /// ascending, each borrowed until the next one. A damaged event is passed
    /// over. Their chains are not computed where they are not stored.
    fn visit_events(
        &self,
        log_no: u64,
        from: u64,
        to: u64,
        visit: &mut dyn FnMut(EventRef<'_>),
    ) -> Result<(), StoreError> {
        for found in self.events(log_no, from, to, usize::MAX, usize::MAX)? {
            found.whole().into_iter().for_each(&mut *visit);
        }
        Ok(())
    }
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
    /// Hands the same items over, each borrowed until the next one.
    fn visit_items(
        &self,
        index_no: u64,
        from: Position,
        direction: Direction,
        limit: usize,
        visit: &mut dyn FnMut(ItemRef<'_>),
    ) -> Result<(), StoreError> {
        for item in self.items(index_no, from, direction, limit)? {
            visit(item.borrowed());
        }
        Ok(())
    }
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
    /// A blob by its address.
    fn blob(&self, sha: &Digest) -> Result<Option<BlobRow>, StoreError>;
    /// Blobs by address, ascending, behind `after`.
    fn blobs(&self, after: Option<&Digest>, limit: usize) -> Result<Vec<BlobRow>, StoreError>;
    /// Blobs that are still arriving, by number, ascending, behind `after`.
    fn stages(&self, after: u64, limit: usize) -> Result<Vec<StageRow>, StoreError>;
    /// The content of a piece; `blob_damaged` where it does not fit its
    /// checksum.
    fn piece(&self, blob_no: u64, piece: u32) -> Result<Option<Vec<u8>>, StoreError>;
    /// Whether an event cites a blob.
    fn is_cited(&self, sha: &Digest) -> Result<bool, StoreError>;
    /// The blobs that events of a log cite, by ordinal and address, ascending,
    /// from an ordinal on.
    fn citations(
        &self,
        log_no: u64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Digest)>, StoreError>;
    /// A view by its name.
    fn view(&self, name: &str) -> Result<Option<ViewRow>, StoreError>;
    /// The value of a key; `view_damaged` where it does not fit its checksum.
    fn view_value(&self, view_no: u64, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Keys and values from `from` on (itself included), below `to`, in a
    /// direction: newer ones ascend, older ones descend.
    fn view_entries(
        &self,
        view_no: u64,
        from: &[u8],
        to: Option<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<ViewEntry>, StoreError>;
    /// The last ordinal of a log that a view has seen; 0 for none.
    fn view_mark(&self, view_no: u64, log_no: u64) -> Result<u64, StoreError>;
    /// Erasures that are not complete, ascending.
    fn scrubs(&self) -> Result<Vec<ScrubRow>, StoreError>;
}

/// An item to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemWrite {
    /// The item; its number is set.
    pub item: Item,
    /// Whether it is new; otherwise the row at its position is replaced.
    pub is_new: bool,
}

/// Entries of a view to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewWrites {
    /// The view.
    pub view: ViewRow,
    /// The log that the entries were computed from: they go with it.
    pub log_no: u64,
    /// The last ordinal of the log that the view has seen now.
    pub mark: u64,
    /// Keys with their values; a key without one is removed.
    pub entries: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Rows to remove. None of them has to exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erase {
    /// A session's own row.
    Session(SessionRow),
    /// Events of a log with what is kept under their ordinals: their ids and
    /// citations. The hash of the id is missing where an event is damaged;
    /// then its id is looked for through all of the family.
    Events {
        /// The log.
        log_no: u64,
        /// The fork family.
        family: u64,
        /// The ordinals, each with the hash of the id.
        events: Vec<(u64, Option<u64>)>,
    },
    /// Segments of a log, each by its first ordinal, with the ids that count
    /// and those that do not: hash and ordinal.
    Packs {
        /// The log.
        log_no: u64,
        /// The fork family.
        family: u64,
        /// The first ordinals.
        packs: Vec<u64>,
        /// Ids that count, by stem and first number.
        id_runs: Vec<(String, u64)>,
        /// The others, by hash and ordinal.
        ids: Vec<(u64, u64)>,
    },
    /// Rows of the commit journal through a number.
    Commits(u64),
    /// What events of a log cite.
    Citations {
        /// The log.
        log_no: u64,
        /// The ordinals.
        ordinals: Vec<u64>,
    },
    /// The runs of a log with a number above this one.
    Runs {
        /// The log.
        log_no: u64,
        /// The last run that stays.
        above: u32,
    },
    /// The items of an index from an ordinal on, with their keys and chunks.
    Items {
        /// The index.
        index_no: u64,
        /// The first ordinal that goes.
        from: u64,
    },
    /// An index generation.
    Index(u64),
    /// A contribution log with its facts.
    Contributions(ContribLogRow),
    /// A log's own row, its spans, ids that count and are left, and what views
    /// have seen of it.
    Log(u64),
    /// What views hold of a log, and how far they have seen it.
    ViewEntries {
        /// The log.
        log_no: u64,
    },
    /// A view with its entries and marks.
    View(ViewRow),
    /// A blob with its pieces.
    Blob(BlobRow),
    /// A blob that is still arriving, with its pieces.
    Stage(StageRow),
    /// The row of a blob that has arrived, without its pieces.
    StageRow(u64),
    /// An erasure that is complete.
    Scrub(u64),
}

/// Rows to write in one transaction. Rows with a key that exists replace what
/// is there, but for events and facts, which never exist yet. What is erased
/// goes first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writes {
    /// Rows to remove, in this order, before anything is written.
    pub erase: Vec<Erase>,
    /// The counters, if they moved.
    pub counters: Option<Counters>,
    /// Sessions.
    pub sessions: Vec<SessionRow>,
    /// The log. The rows below belong to it.
    pub log: Option<LogRow>,
    /// What it reads from others.
    pub spans: Vec<SpanRow>,
    /// Runs.
    pub runs: Vec<RunRow>,
    /// Events, ascending, each with the hash of its id.
    pub events: Vec<(EventRow, u64)>,
    /// Events in the place of ones that exist, with the same id.
    pub redacted: Vec<EventRow>,
    /// Items of the log's live index.
    pub items: Vec<ItemWrite>,
    /// Chunks of items of the log's live index.
    pub segs: Vec<SegRow>,
    /// Segments of the log.
    pub packs: Vec<PackRow>,
    /// Ids in segments of the log that count.
    pub id_runs: Vec<IdRunRow>,
    /// The hashes of ids in segments that do not count, each with its ordinal.
    pub pack_ids: Vec<(u64, u64)>,
    /// A row of the commit journal.
    pub commit: Option<CommitRow>,
    /// Blobs that events of the log cite.
    pub citations: Vec<(u64, Digest)>,
    /// The contribution logs, each with new facts, ascending.
    pub contributions: Vec<(ContribLogRow, Vec<FactRow>)>,
    /// Facts in the place of ones that exist, each with its contribution log.
    pub redacted_facts: Vec<(u64, FactRow)>,
    /// Blobs.
    pub blobs: Vec<BlobRow>,
    /// Blobs that are still arriving.
    pub stages: Vec<StageRow>,
    /// Pieces: the number of the blob, that of the piece, the content.
    pub pieces: Vec<(u64, u32, Vec<u8>)>,
    /// A view's entries.
    pub view: Option<ViewWrites>,
    /// Erasures that are not complete.
    pub scrubs: Vec<ScrubRow>,
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
    /// Opening costs the same after a crash, however large the store is.
    pub fast_open_after_crash: bool,
}

/// The synchronous heart of an embedded adapter.
///
/// # Contract
/// * `read` gives the work one consistent state and holds it no longer than
///   the work runs. While a write is at work it gives the state before it, and
///   neither waits for the other.
/// * `write` is called by one thread at a time. It commits if the work
///   answers `Ok`, and returns only once the commit is synced; otherwise it
///   leaves the store as it was. An error of the commit itself is of kind
///   `Indeterminate`.
/// * `write` may run the work only once.
/// * After an indeterminate commit the next `write` settles it first, and
///   refuses with `store_poisoned` while it cannot.
pub trait Engine: Send + Sync + 'static {
    /// Runs work on one consistent state.
    fn read(&self, work: ReadWork<'_>) -> Result<(), StoreError>;
    /// Runs work in one transaction and commits it.
    fn write(&self, work: WriteWork<'_>) -> Result<(), StoreError>;
    /// Makes sure that the outcome of every earlier commit is decided for
    /// good: what is not found now will not appear later. Answers
    /// `store_poisoned` (`Unavailable`) while that is not possible.
    fn settle(&self) -> Result<(), StoreError>;
    /// What the adapter can do.
    fn capabilities(&self) -> Capabilities;
    /// Milliseconds since 1970, for what was committed when.
    fn now(&self) -> u64;
    /// A random number, for incarnations.
    fn random(&self) -> u64;
    /// Checks what the engine itself can check about its files.
    fn check(&self) -> Result<(), StoreError>;
    /// Rewrites the files so that no byte of a removed row is left in them.
    /// Nothing else is written meanwhile.
    fn rewrite(&self) -> Result<(), StoreError>;
    /// The number of this handle as a holder of leases and a stager of blobs:
    /// not 0, and never that of another one.
    fn owner(&self) -> Result<u64, StoreError>;
    /// Whether the handle with a number is open, here or in another process.
    fn is_alive(&self, owner: u64) -> Result<bool, StoreError>;
    /// A number that changes with every commit of another process. Always the
    /// same where there can be none.
    fn version(&self) -> Result<u64, StoreError>;
    /// Lets go of every file, so that the store can be opened again although
    /// this handle is still there. What is asked afterwards is `store_closed`;
    /// work that has begun ends first, or holds its file until it does.
    fn close(&self);
}
