//! The port: what a ledger's users may rely on, whatever keeps it.
//!
//! Several small traits, split by use, and one umbrella, [`Store`]. All are
//! object safe.
//!
//! # Contracts
//!
//! The promises every adapter keeps. Each is a named group of cases of the
//! conformance suite in `folio-testkit`.
//!
//! * **S1** A batch is atomic: all of its events and contributions or none.
//! * **S2** Ordinals start at 1, are contiguous in a session, and are never
//!   reused or changed.
//! * **S3** `event_seq` is contiguous in each run, assigned at the commit.
//! * **S4** An event is known by its id: the same id with the same digest is
//!   *present* and answers its first ordinal; with another digest it is
//!   `event_id_conflict` and nothing of the batch is kept. A batch whose events
//!   are all present succeeds whatever the head or the seal. `Committed`
//!   answers for each event.
//! * **S5** A wrong `expected_head` is `head_mismatch` with both numbers.
//! * **S6** A malformed event is refused by event, member and rule before the
//!   store is asked, an event made for another session is `session_mismatch`; identities are checked inside the commit.
//! * **S7** Index entries of a batch commit with it, while the index is of this
//!   build's version; otherwise the index stays behind and says so.
//! * **S8** Two writers never interleave inside a batch and never make a
//!   duplicate or a gap.
//! * **S9** Readers never block writers; a reader at a watermark sees the same
//!   rows for ever.
//! * **S10** Acknowledged is synced (where `durable`): after a crash everything
//!   acknowledged is there, an unacknowledged batch is whole or absent.
//! * **S11** A run accepts no event after its terminal event: `run_sealed`.
//! * **S12** A terminal event and its run's row commit together.
//! * **S13** The head only grows, and stands in a row of its own.
//! * **S14** Dropping and rebuilding the index gives byte-identical pages, and
//!   old cursors go on.
//! * **S15** Every row that a read uses is checked against its checksum; the
//!   chain is recomputed by `verify`; a lost index row is noticed by the
//!   items' running number.
//! * **S16** A session in `preparing` or `rejected` refuses ordinary appends
//!   and transcript reads and is not listed; a followed one refuses native
//!   appends.
//! * **S17** Discarding a session removes every trace of it and nothing else.
//! * **S18** An error before the sync leaves the store as it was.
//! * **S19** Opening what is no store, a newer schema or a locked store is a
//!   typed error that says what to do.
//! * **S20** Limits are enforced with typed errors: ids, nesting, a batch of
//!   4,096 events or 16 MiB (one larger event may come alone).
//! * **S21** An error in or after the sync is `indeterminate` for the batch and
//!   `unavailable` for what was queued; the store accepts nothing more until
//!   it was opened again.
//! * **S22** Dropping the future of an append leaves it whole or absent, and
//!   the store usable.
//! * **S23** Ordinals become visible in order.
//! * **S24** What an adapter cannot do is a typed `unsupported`.
//! * **S25** A fork shares its parent's prefix: same ids, ordinals and chain.
//!   Event bytes do not name their session, and logs have numbers of their
//!   own, so that this needs no copy.
//! * **S26** A writer's lease has one holder, is fenced, and dies with its
//!   process.
//! * **S27** Blobs are addressed by content and durable before the event that
//!   cites them.
//! * **S28** A redacted payload is unreadable at once; ordinals and chain still
//!   verify.
//!
//! S25 to S28 constrain the layout from the first day; their operations join
//! the port with the adapters that carry them out.

use crate::StoreError;
use crate::engine::Capabilities;
use crate::rows::RunRow;
use async_trait::async_trait;
use folio_codec::Digest;
use folio_core::item::LanePart;
use folio_core::{
    Authority, CanonicalEvent, Direction, EventId, EventView, Fact, Item, Position, SessionId,
    Spine,
};
use std::sync::Arc;

/// The most events that one batch may hold.
pub const MAX_BATCH_EVENTS: usize = 4_096;
/// The most bytes of canonical text that one batch may hold.
pub const MAX_BATCH_BYTES: usize = 16 << 20;
/// The log of imported and hand-made notes.
pub const NOTES: &str = "notes";

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// [`Authority::RuntimeEvents`] for a new session, [`Authority::Preparing`]
    /// for an import.
    pub authority: Authority,
    /// Whether a source feeds it: only the importer may append.
    pub followed: bool,
    /// What the importer remembers of its source: JSON text.
    pub import_ref: Option<String>,
}

impl NewSession {
    /// A session for a program's own events.
    pub fn native(id: SessionId) -> Self {
        Self {
            id,
            authority: Authority::RuntimeEvents,
            followed: false,
            import_ref: None,
        }
    }
}

/// A session as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Tells this life of the id from earlier ones.
    pub incarnation: u64,
    /// Raised by every redaction.
    pub generation: u32,
    /// Who has the say.
    pub authority: Authority,
    /// What compare-and-swap compares.
    pub authority_rev: u64,
    /// Whether only the importer may append.
    pub followed: bool,
    /// What the importer remembers of its source: JSON text.
    pub import_ref: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub created_at: u64,
    /// The ordinal of its last event.
    pub head: u64,
    /// The chain at the head.
    pub chain: Digest,
    /// The number of its items.
    pub items: u64,
}

/// Which sessions to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionFilter {
    /// Those that can be read.
    Readable,
    /// All, those in preparation and the rejected ones included.
    All,
}

/// A change of authority, by compare-and-swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityChange {
    /// The `authority_rev` that the caller saw.
    pub expected_rev: u64,
    /// The authority to pass to.
    pub to: Authority,
    /// Replaces what the importer remembers, if given.
    pub import_ref: Option<String>,
}

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A program that records its own events.
    Native,
    /// The importer.
    Importer,
}

/// Facts for one contribution log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContributionBatch {
    /// The log, such as [`NOTES`].
    pub source: String,
    /// The facts, in order.
    pub facts: Vec<Fact>,
}

/// Events and contributions to commit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendBatch {
    /// The events, in order.
    pub events: Vec<CanonicalEvent>,
    /// Contributions; an anchor may name an event of this batch.
    pub contributions: Option<ContributionBatch>,
    /// The head that the caller saw, if the batch depends on it.
    pub expected_head: Option<u64>,
    /// Who appends.
    pub writer: Writer,
    /// Replaces what the importer remembers, if given.
    pub import_ref: Option<String>,
}

impl AppendBatch {
    /// A batch of a program's own events.
    pub fn native(events: Vec<CanonicalEvent>) -> Self {
        Self {
            events,
            contributions: None,
            expected_head: None,
            writer: Writer::Native,
            import_ref: None,
        }
    }
}

/// What became of one event of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Its ordinal.
    pub ordinal: u64,
    /// Its place in its run.
    pub event_seq: u64,
    /// Whether it was there before.
    pub present: bool,
}

/// A committed batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// For each event of the batch, in order.
    pub events: Vec<Placement>,
    /// The session's head after the commit.
    pub high_water: u64,
    /// The chain at that head.
    pub chain: Digest,
    /// How many facts were new.
    pub facts_added: u64,
    /// The head of the contribution log, if the batch had contributions.
    pub facts_head: u64,
}

/// An event that is known by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownEvent {
    /// Its ordinal.
    pub ordinal: u64,
    /// Its digest.
    pub digest: Digest,
}

/// Which events to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeQuery {
    /// The first ordinal.
    pub from: u64,
    /// The last ordinal.
    pub to: u64,
    /// The most events.
    pub max_count: usize,
    /// The most bytes of bodies; one event may exceed it alone.
    pub max_bytes: usize,
}

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place in the session.
    pub ordinal: u64,
    /// Its place in its run.
    pub event_seq: u64,
    /// Its run's number.
    pub run_no: u32,
    /// Its ids.
    pub spine: Arc<Spine>,
    /// When it was committed, in milliseconds since 1970.
    pub committed_at: u64,
    /// The chain at this event.
    pub chain: Digest,
    /// The form of the body.
    pub form: u8,
    /// The packed event.
    pub body: Vec<u8>,
}

impl StoredEvent {
    /// The event as readers see it.
    ///
    /// # Errors
    /// `undecodable` where a newer build wrote it.
    pub fn view(&self) -> Result<EventView<'_>, StoreError> {
        Ok(folio_codec::decode_event(self.form, &self.body)?)
    }
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At the end that the direction leads away from.
    Edge,
    /// Behind an item, in the direction of the page.
    Behind(Position),
    /// At an item, itself included.
    At(Position),
    /// At the first item at or after an ordinal (newer), or at or before it
    /// (older).
    AtOrdinal(u64),
    /// At the item with this key, itself included.
    Key(Box<str>),
}

/// Which items to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemQuery {
    /// The watermark; `None` is the head.
    pub through: Option<u64>,
    /// The direction.
    pub direction: Direction,
    /// Where to begin.
    pub start: Start,
    /// The most items.
    pub max_items: usize,
    /// Loading stops once the loaded events exceed this many bytes; the first
    /// item is loaded whole.
    pub max_bytes: usize,
}

/// An item with everything that its row is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedItem {
    /// The item.
    pub item: Item,
    /// Its revision at the watermark.
    pub revision: u64,
    /// The run of its first contribution.
    pub run: Arc<RunRow>,
    /// The events that the row needs, ascending.
    pub events: Vec<StoredEvent>,
    /// The chunks of its open lanes.
    pub chunks: Vec<(LanePart, Vec<StoredEvent>)>,
    /// Ordinals that are missing or damaged.
    pub damaged: Vec<u64>,
}

/// What a read of items cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadStats {
    /// Index rows read.
    pub items: u64,
    /// Events read.
    pub events: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

/// Items of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemPage {
    /// The session.
    pub session: SessionInfo,
    /// The watermark.
    pub through: u64,
    /// The items in the direction of the page.
    pub items: Vec<LoadedItem>,
    /// Whether items lie further in the direction.
    pub more: bool,
    /// Whether items lie on the other side of the first one.
    pub before: bool,
    /// What it cost.
    pub stats: ReadStats,
}

/// Which items to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexStatus {
    /// The projection version that made the index.
    pub version: u32,
    /// The last ordinal that is in it.
    pub index_head: u64,
    /// The head of the session.
    pub head: u64,
    /// The number of items.
    pub items: u64,
}

/// A contribution log as callers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContributionStatus {
    /// The sequence of the last fact: its watermark.
    pub head: u64,
    /// The chain at the head.
    pub chain: Digest,
}

/// Which facts to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContributionQuery {
    /// Facts above this sequence do not exist for the reader.
    pub through: u64,
    /// The direction over (anchor, sequence).
    pub direction: Direction,
    /// Behind this anchor and sequence.
    pub after: Option<(u64, u64)>,
    /// The most facts.
    pub max_items: usize,
}

/// A fact as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFact {
    /// Its place in the log.
    pub seq: u64,
    /// The chain at this fact.
    pub chain: Digest,
    /// The canonical fact.
    pub body: String,
}

impl StoredFact {
    /// The fact.
    ///
    /// # Errors
    /// `undecodable` where the stored text is no fact.
    pub fn fact(&self) -> Result<Fact, StoreError> {
        Fact::from_json(&self.body)
            .map_err(|error| StoreError::corrupt("undecodable", format!("a fact: {error}")))
    }
}

/// One problem that `verify` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The stable code.
    pub code: &'static str,
    /// The ordinal or sequence, where it is about one.
    pub at: Option<u64>,
    /// What is wrong, and with what.
    pub message: String,
}

/// What `verify` looked at and found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Events whose digests were recomputed.
    pub events: u64,
    /// Index items that were compared.
    pub items: u64,
    /// Facts whose digests were recomputed.
    pub facts: u64,
    /// The problems; none if all is well.
    pub findings: Vec<Finding>,
}

/// Sessions and their events.
///
/// # Contract
/// S1 to S6, S8 to S13, S16 to S23. The futures do nothing before they are
/// polled. An append takes its place in the order when it is first polled;
/// dropping it later leaves it whole or absent.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Creates a session.
    ///
    /// # Errors
    /// `session_exists`.
    async fn create_session(&self, session: NewSession) -> Result<SessionInfo, StoreError>;
    /// A session, whatever its authority.
    ///
    /// # Errors
    /// `session_not_found`.
    async fn session(&self, id: &SessionId) -> Result<SessionInfo, StoreError>;
    /// Sessions by id, ascending, behind `after`; at most `limit`.
    async fn sessions(
        &self,
        filter: SessionFilter,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError>;
    /// Passes a session to another authority.
    ///
    /// # Errors
    /// `authority_changed` where somebody else was faster,
    /// `authority_transition` where the step does not exist.
    async fn set_authority(
        &self,
        id: &SessionId,
        change: AuthorityChange,
    ) -> Result<SessionInfo, StoreError>;
    /// Removes a session in preparation or a rejected one, without a trace.
    ///
    /// # Errors
    /// `authority_changed`, and `authority_transition` for any other session.
    async fn discard_session(&self, id: &SessionId, expected_rev: u64) -> Result<(), StoreError>;
    /// Commits a batch.
    ///
    /// # Errors
    /// `session_mismatch`, `event_id_conflict`, `head_mismatch`, `run_sealed`, `run_conflict`,
    /// `session_preparing`, `session_rejected`, `session_followed`,
    /// `fact_id_conflict`, `anchor_unknown`, `limit_exceeded`.
    async fn append(&self, id: &SessionId, batch: AppendBatch) -> Result<Committed, StoreError>;
    /// Waits until everything that was handed over is committed.
    async fn flush(&self) -> Result<(), StoreError>;
    /// Looks events up by id.
    async fn lookup_ids(
        &self,
        id: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<KnownEvent>>, StoreError>;
    /// Reads a range of events, ascending.
    ///
    /// # Errors
    /// `projection_gap` naming the ordinals that are missing or damaged.
    async fn range(
        &self,
        id: &SessionId,
        query: RangeQuery,
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// Reads given events, in the order asked for.
    ///
    /// # Errors
    /// `projection_gap` naming the ordinals that are missing or damaged.
    async fn events(
        &self,
        id: &SessionId,
        ordinals: &[u64],
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// Runs by number, ascending, behind `after`.
    async fn runs(
        &self,
        id: &SessionId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<RunRow>, StoreError>;
}

/// The item index: where items stand and what they are made of.
///
/// # Contract
/// S7, S9, S14, S15. The index decides nothing and can be rebuilt from the
/// events at any time.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait ItemIndex: Send + Sync {
    /// How far the index is.
    async fn index_status(&self, id: &SessionId) -> Result<IndexStatus, StoreError>;
    /// Reads a bounded number of items with the events they need.
    ///
    /// # Errors
    /// `index_stale`, `index_damaged`, `watermark_unknown`, `item_not_found`,
    /// `session_preparing`, `session_rejected`.
    async fn read_items(&self, id: &SessionId, query: ItemQuery) -> Result<ItemPage, StoreError>;
    /// Drops the index and makes it anew from the events.
    async fn rebuild_index(&self, id: &SessionId) -> Result<IndexStatus, StoreError>;
}

/// The logs of sources that are not the runtime ledger.
///
/// # Contract
/// A log is append-only, with its own sequence and chain. Facts are appended
/// by [`Ledger::append`], so that an import commits both in one step.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Contributions: Send + Sync {
    /// How far a log is; a log without facts has head 0.
    async fn contribution_status(
        &self,
        id: &SessionId,
        source: &str,
    ) -> Result<ContributionStatus, StoreError>;
    /// Reads a bounded number of facts by (anchor, sequence).
    async fn contributions(
        &self,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError>;
}

/// Care for the store as a whole.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Admin: Send + Sync {
    /// What the adapter can do.
    fn capabilities(&self) -> Capabilities;
    /// Recomputes every digest of a session and compares its index with one
    /// made anew.
    async fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError>;
    /// Checks what the engine can check about its own files.
    async fn check(&self) -> Result<(), StoreError>;
    /// Commits what was handed over and accepts nothing more.
    async fn close(&self) -> Result<(), StoreError>;
}

/// A whole store.
pub trait Store: Ledger + ItemIndex + Contributions + Admin {}

impl<T: Ledger + ItemIndex + Contributions + Admin> Store for T {}
