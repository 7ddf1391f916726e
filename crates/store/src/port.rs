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
//! * **S17** Deleting a session makes it unreadable at once and removes every
//!   trace of it and nothing else; what a fork still reads stays, without its
//!   id. The bytes are gone from the files when the scrub is complete.
//! * **S18** An error before the sync leaves the store as it was.
//! * **S19** Opening what is no store, a newer schema or a locked store is a
//!   typed error that says what to do.
//! * **S20** Limits are enforced with typed errors: ids, nesting, a batch of
//!   4,096 events or 16 MiB (one larger event may come alone), a member that
//!   is kept outside of its event 1 GiB and what stands beside it 256 KiB.
//!   Such a member is a blob that its event cites, and the whole of it JSON:
//!   `member_invalid` otherwise.
//! * **S21** An error in or after the sync is `indeterminate` for the batch and
//!   `unavailable` for what was queued; the store accepts nothing more until
//!   it was opened again.
//! * **S22** Dropping the future of an append leaves it whole or absent, and
//!   the store usable.
//! * **S23** Ordinals become visible in order.
//! * **S24** What an adapter cannot do is a typed `unsupported`.
//! * **S25** A fork shares its parent's prefix: same ids, ordinals and chain.
//!   Notes and leases are not inherited. The prefix is immutable for the
//!   child; deleting the parent takes nothing from it.
//! * **S26** A lease has one holder, is fenced (an append under a lost lease
//!   is `lease_lost`), names its holder to others (`session_leased`), and dies
//!   with the store handle that holds it. It never ends by a timeout.
//! * **S27** Blobs are addressed by their SHA-256, durable before the event
//!   that cites them, checked on every read, and gone with their last
//!   citation.
//! * **S28** What is redacted is unreadable at once, for every session that
//!   shares it, and gone from the files when the scrub is complete; ordinals
//!   and chain still verify, the row says so, and the generation rises.

use crate::StoreError;
use crate::engine::Capabilities;
use crate::rows::{RunRow, ViewEntry};
use crate::scan::{FoundItem, ItemScan};
use async_trait::async_trait;
use folio_codec::Digest;
use folio_core::item::LanePart;
use folio_core::member::Loaded;
use folio_core::reduce::Material;
use folio_core::{
    Authority, CanonicalEvent, Direction, EventId, EventView, Fact, Item, Position, SessionId,
    Spine,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The most events that one batch may hold.
pub const MAX_BATCH_EVENTS: usize = 4_096;
/// The most bytes of canonical text that one batch may hold.
pub const MAX_BATCH_BYTES: usize = 16 << 20;
/// The log of imported and hand-made notes.
pub const NOTES: &str = "notes";
/// The most contribution logs that one session may have.
pub const MAX_SOURCES: usize = 16;
/// The most stretches of other logs that a session may be read through: forks
/// of forks.
pub const MAX_SPANS: usize = 256;
/// The most bytes of a blob that one call puts or reads.
pub const MAX_BLOB_CALL: usize = 16 << 20;
/// The most bytes of a view's key.
pub const MAX_VIEW_KEY: usize = 1_024;

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
    /// The last ordinal that it shares with the session it was forked from; 0
    /// for a session of its own.
    pub inherited: u64,
    /// The session that wrote the last event that it shares, as long as that
    /// exists: the one it was forked from, or where that one inherited the
    /// event itself, the one from which it did.
    pub forked_from: Option<SessionId>,
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
    /// Replaces what the importer remembers, if given; empty text removes it.
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
    /// For facts whose payload is gone, by their number from 0: the digests
    /// of what they were. Only a copy of a redacted session has such.
    pub withheld: Vec<(usize, Digest)>,
}

impl ContributionBatch {
    /// Facts that are whole.
    pub fn new(source: impl Into<String>, facts: Vec<Fact>) -> Self {
        Self {
            source: source.into(),
            facts,
            withheld: Vec::new(),
        }
    }
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
    /// The lease under which it is written. Without one it is refused while
    /// somebody holds the lease.
    pub lease: Option<Lease>,
    /// Blobs that events of this batch cite, by the number of the event in the
    /// batch, from 0.
    pub cites: Vec<(usize, BlobId)>,
    /// How long it may wait for company.
    pub flush: Flush,
}

/// How long a batch may wait for others to share a commit with. It is durable
/// when it is answered in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flush {
    /// It is committed as soon as the writer is free, with what waits then.
    #[default]
    Now,
    /// It goes with the next commit, and makes one within this time: for
    /// streamed chunks, of which many are due at once. Ten milliseconds keep a
    /// promise of twenty-five.
    Within(Duration),
}

/// Room in the queue of a store for one batch; given back when the batch is
/// answered, or when this is dropped.
pub struct Room {
    bytes: usize,
    _held: Box<dyn Send + Sync>,
}

impl Room {
    /// Room for a batch of so many bytes, and what gives it back when dropped.
    pub fn new(bytes: usize, held: impl Send + Sync + 'static) -> Self {
        let _held: Box<dyn Send + Sync> = Box::new(held);
        Self { bytes, _held }
    }

    /// The most bytes that the batch may have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
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
            lease: None,
            cites: Vec::new(),
            flush: Flush::Now,
        }
    }

    /// The bytes of canonical text that it holds.
    pub fn bytes(&self) -> usize {
        let facts = self.contributions.iter().flat_map(|batch| &batch.facts);
        self.events
            .iter()
            .map(|event| event.text.len())
            .sum::<usize>()
            + facts
                .filter_map(|fact| fact.data.as_ref())
                .map(|data| data.as_str().len())
                .sum::<usize>()
    }

    /// The batch, written under a lease.
    #[must_use]
    pub fn under(mut self, lease: Lease) -> Self {
        self.lease = Some(lease);
        self
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
    /// The chain at this event; `None` in a page of items, which proves
    /// nothing.
    pub chain: Option<Digest>,
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
    /// A member of so many bytes at most is read along with its event, where
    /// it is kept outside; a larger one is not touched.
    pub member_bytes: usize,
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
    /// Members that were read along, ascending by ordinal.
    pub members: Vec<Loaded>,
    /// Of its events those with a member that was to be read along and is
    /// missing or damaged.
    pub unread: Vec<u64>,
}

impl LoadedItem {
    /// Hands the item over as [`ItemScan::show`] does.
    pub fn show(&self, through: u64, take: impl FnOnce(&FoundItem<'_>)) {
        let mut damaged = self.damaged.clone();
        let events = views(&self.events, &self.members, &mut damaged);
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for (lane, events) in &self.chunks {
            let views = views(events, &self.members, &mut damaged).into_iter();
            chunks.push((*lane, views.map(|(_, view)| view).collect()));
        }
        damaged.sort_unstable();
        damaged.dedup();
        take(&FoundItem {
            revision: self.revision,
            run: &self.run,
            material: Material {
                item: self.item.borrowed(),
                through,
                run: &self.run.facts,
                events: &events,
                chunks: &chunks,
            },
            damaged: &damaged,
            unread: &self.unread,
        });
    }
}

/// Events as readers see them; those that no reader can see are damaged.
fn views<'a>(
    events: &'a [StoredEvent],
    members: &'a [Loaded],
    damaged: &mut Vec<u64>,
) -> Vec<(u64, EventView<'a>)> {
    let mut views = Vec::with_capacity(events.len());
    for event in events {
        match event.view() {
            Ok(mut view) => {
                view.stored = view.stored.with(Loaded::of(members, event.ordinal));
                views.push((event.ordinal, view));
            }
            Err(_) => damaged.push(event.ordinal),
        }
    }
    views
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
    /// The canonical fact; what is left of it, where it was redacted.
    pub body: String,
    /// The digest of the fact as it was written, where it was redacted.
    pub withheld: Option<Digest>,
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

/// The right to append to a session until it is released or the store handle
/// that acquired it closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The store handle that acquired it.
    pub owner: u64,
    /// Tells it from earlier leases of the session.
    pub epoch: u64,
}

/// The lease of a session as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseInfo {
    /// The lease.
    pub lease: Lease,
    /// How the holder calls itself.
    pub holder: String,
}

/// The address of a blob: the SHA-256 of its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub Digest);

impl BlobId {
    /// The address of some content.
    pub fn of(content: &[u8]) -> Self {
        Self(folio_codec::sha256(content))
    }

    /// The address that 64 lower-case hexadecimal digits spell.
    pub fn parse(text: &str) -> Option<Self> {
        let mut digest = [0; 32];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != digest.len() || !rest.is_empty() {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(pairs) {
            let digit = |byte: u8| match byte {
                b'0'..=b'9' => Some(byte - b'0'),
                b'a'..=b'f' => Some(byte - b'a' + 10),
                _ => None,
            };
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(digest))
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A stored blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobInfo {
    /// Its address.
    pub id: BlobId,
    /// The bytes of its content.
    pub len: u64,
}

/// A blob that is being put piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlobUpload(pub u64);

/// Entries of a view to write, with how far the view is then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewBatch {
    /// The view's name.
    pub view: String,
    /// The version of the code that made the entries.
    pub version: u32,
    /// The session from whose events they were made.
    pub session: SessionId,
    /// How far the view was before: another mark is `view_moved`.
    pub from: u64,
    /// The last ordinal that the view has seen now.
    pub to: u64,
    /// Keys with their values; a key without one is removed.
    pub entries: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Which entries of a view to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewQuery {
    /// The view's name.
    pub view: String,
    /// The version that the reader understands.
    pub version: u32,
    /// The first key, itself included.
    pub from: Vec<u8>,
    /// The key below which all stand; `None` is the end.
    pub to: Option<Vec<u8>>,
    /// Newer ascends from `from`, older descends from below `to`.
    pub direction: Direction,
    /// The most entries.
    pub limit: usize,
}

/// What a redaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redaction {
    /// The events whose payload is gone, ascending.
    pub ordinals: Vec<u64>,
    /// The entries of contribution logs whose payload is gone: source and
    /// sequence.
    pub facts: Vec<(String, u64)>,
    /// The generation of the session after it.
    pub generation: u32,
}

/// What is left of erasures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scrub {
    /// Erasures that were completed.
    pub completed: u64,
    /// Blobs that nobody cited and nobody is about to, removed.
    pub blobs: u64,
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
    /// Blobs whose digests were recomputed.
    pub blobs: u64,
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
    /// Commits a batch, alone or with others that wait: each is decided by
    /// itself, and a refused one leaves no trace.
    ///
    /// # Errors
    /// `backpressure` where too much waits to be written: nothing of it was
    /// accepted. Then `session_mismatch`, `event_id_conflict`, `head_mismatch`, `run_sealed`, `run_conflict`,
    /// `session_preparing`, `session_rejected`, `session_followed`,
    /// `session_leased`, `lease_lost`, `blob_not_found`, `member_invalid`,
    /// `fact_id_conflict`, `anchor_unknown`, `source_invalid`, `limit_exceeded`.
    /// An event that names a member kept outside costs one read of it, on the
    /// caller's thread, before anything waits for the writer.
    async fn append(&self, id: &SessionId, batch: AppendBatch) -> Result<Committed, StoreError>;
    /// Waits for room for a batch of so many bytes ([`AppendBatch::bytes`]),
    /// first come first served.
    ///
    /// # Errors
    /// `store_closed`.
    async fn reserve(&self, bytes: usize) -> Result<Room, StoreError>;
    /// Commits a batch for which there is room already, so that it never meets
    /// `backpressure`.
    ///
    /// # Errors
    /// `room_exceeded` where the batch is larger, and those of
    /// [`append`](Ledger::append).
    async fn append_reserved(
        &self,
        room: Room,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError>;
    /// Commits everything that was handed over, also what could wait longer,
    /// and answers when that is done.
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
    /// Waits until a session's head is above `after`, and answers it. Commits
    /// of other processes wake it too, within 100 ms, where the store can have
    /// several. It waits for ever; dropping the future ends the wait.
    ///
    /// # Errors
    /// `session_not_found`, also when the session is deleted meanwhile, and
    /// `store_closed`.
    async fn wait(&self, id: &SessionId, after: u64) -> Result<u64, StoreError>;
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
    /// Reads the same items, packed: without a value of its own for each.
    ///
    /// # Errors
    /// As [`ItemIndex::read_items`].
    async fn scan_items(&self, id: &SessionId, query: ItemQuery) -> Result<ItemScan, StoreError> {
        Ok(self.read_items(id, query).await?.into())
    }
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
    /// The logs of a session that hold facts, by name.
    async fn contribution_sources(&self, id: &SessionId) -> Result<Vec<String>, StoreError>;
    /// Reads a bounded number of facts by (anchor, sequence).
    async fn contributions(
        &self,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError>;
}

/// Content too large for an event, by its digest.
///
/// # Contract
/// S27. A blob that was put is durable when the call answers, and stays while
/// an event cites it or the store handle that put it last is open. Content is kept
/// in pieces, each with a checksum that every read checks; reading a range
/// costs what the range holds.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Puts content of at most [`MAX_BLOB_CALL`] bytes.
    ///
    /// # Errors
    /// `limit_exceeded`: put larger content piece by piece.
    async fn put_blob(&self, content: Vec<u8>) -> Result<BlobInfo, StoreError>;
    /// Begins to put a blob piece by piece.
    async fn begin_blob(&self) -> Result<BlobUpload, StoreError>;
    /// Adds at most [`MAX_BLOB_CALL`] bytes.
    ///
    /// # Errors
    /// `upload_unknown`, `limit_exceeded`.
    async fn extend_blob(&self, upload: BlobUpload, content: Vec<u8>) -> Result<(), StoreError>;
    /// Makes it a blob. Where the content is stored already that one answers.
    ///
    /// # Errors
    /// `upload_unknown`.
    async fn finish_blob(&self, upload: BlobUpload) -> Result<BlobInfo, StoreError>;
    /// A blob.
    ///
    /// # Errors
    /// `blob_not_found`.
    async fn blob(&self, id: &BlobId) -> Result<BlobInfo, StoreError>;
    /// At most `max_bytes` bytes of the content from `offset` on; fewer at the
    /// end.
    ///
    /// # Errors
    /// `blob_not_found`, and `blob_damaged` where a piece does not fit its
    /// checksum.
    async fn read_blob(
        &self,
        id: &BlobId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Vec<u8>, StoreError>;
    /// The blobs that events of a session cite, by ordinal, from an ordinal
    /// on.
    async fn citations(
        &self,
        id: &SessionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, BlobId)>, StoreError>;
}

/// The right of one writer to a session.
///
/// # Contract
/// S26. The holder is a store handle; a second call of the same handle is
/// refused like one of another. A handle that is closed, or whose process is
/// gone, holds nothing.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Leases: Send + Sync {
    /// Takes the lease of a session that nobody holds. `holder` is how the
    /// caller wants to be called; the error of others names it.
    ///
    /// # Errors
    /// `session_leased`, naming the holder.
    async fn acquire_lease(&self, id: &SessionId, holder: &str) -> Result<Lease, StoreError>;
    /// Gives it back. Giving back what is lost does no harm.
    async fn release_lease(&self, id: &SessionId, lease: Lease) -> Result<(), StoreError>;
    /// Who holds the lease.
    async fn lease(&self, id: &SessionId) -> Result<Option<LeaseInfo>, StoreError>;
}

/// Disposable key spaces that followers compute from committed events.
///
/// # Contract
/// A view has one version at a time: the first write of a newer version drops
/// every entry of the older one, and readers of another version find nothing.
/// Each session has a mark, how far the view has seen its events; entries go
/// with the session they were made from, and marks fall back to 0 where it is
/// redacted. Keys are ordered by their bytes.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Views: Send + Sync {
    /// Writes entries and moves the mark in one commit.
    ///
    /// # Errors
    /// `view_moved` where another follower was faster, `view_version` where
    /// the stored version is newer, `watermark_unknown` where `to` is beyond
    /// the head, `limit_exceeded`.
    async fn put_view(&self, batch: ViewBatch) -> Result<(), StoreError>;
    /// The value of a key.
    ///
    /// # Errors
    /// `view_damaged`: drop the view, it can be made anew.
    async fn view_value(
        &self,
        view: &str,
        version: u32,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError>;
    /// Entries in the order of their keys.
    ///
    /// # Errors
    /// `view_damaged`.
    async fn view_entries(&self, query: ViewQuery) -> Result<Vec<ViewEntry>, StoreError>;
    /// The last ordinal of a session that a view has seen; 0 for none.
    async fn view_mark(
        &self,
        view: &str,
        version: u32,
        session: &SessionId,
    ) -> Result<u64, StoreError>;
    /// Drops a view, whatever its version.
    async fn drop_view(&self, view: &str) -> Result<(), StoreError>;
}

/// Care for the store as a whole.
///
/// # Contract
/// S15, S17, S24, S25, S28. Forking costs about two appends where no run is
/// open at the ordinal, and otherwise in proportion to the open runs. What
/// deletes works in slices: other writers go on in between, and what a crash
/// interrupted the next scrub completes.
#[cfg_attr(feature = "mock", mockall::automock)]
#[async_trait]
pub trait Admin: Send + Sync {
    /// What the adapter can do.
    fn capabilities(&self) -> Capabilities;
    /// Creates a session that shares the events of another one up to an
    /// ordinal. Runs that are open there are open in the child too.
    ///
    /// # Errors
    /// `session_exists`, `session_not_found`, `session_preparing`,
    /// `session_rejected`, `watermark_unknown`, `fork_too_deep`.
    async fn fork_session(
        &self,
        parent: &SessionId,
        at: u64,
        child: SessionId,
    ) -> Result<SessionInfo, StoreError>;
    /// Deletes a session, whatever its authority.
    ///
    /// # Errors
    /// `session_not_found`, `session_leased`, and `authority_changed` where
    /// `expected_rev` is given and somebody else was faster.
    async fn delete_session(
        &self,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError>;
    /// Takes the payload out of items: of their events, superseded ones and
    /// chunks included, and of entries of contribution logs, whose keys are
    /// `source::id`.
    ///
    /// A call takes the requests for its permission along, which tell what it
    /// would do.
    ///
    /// # Errors
    /// `item_not_found`, `index_stale`; nothing was redacted then.
    async fn redact(&self, id: &SessionId, keys: &[String]) -> Result<Redaction, StoreError>;
    /// How many erasures are not complete.
    async fn pending_erasures(&self) -> Result<u64, StoreError>;
    /// Completes erasures: removes what deletions have left, collects blobs
    /// that nobody cites, and rewrites the files if anything was erased.
    async fn scrub(&self) -> Result<Scrub, StoreError>;
    /// Recomputes every digest of a session and compares its index with one
    /// made anew.
    async fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError>;
    /// Checks what the engine can check about its own files.
    async fn check(&self) -> Result<(), StoreError>;
    /// Commits what was handed over and lets go of the files: the store can be
    /// opened again at once. Whatever this handle is asked afterwards is
    /// `store_closed`, but for closing it again.
    async fn close(&self) -> Result<(), StoreError>;
}

/// A whole store.
pub trait Store: Ledger + ItemIndex + Contributions + Blobs + Leases + Views + Admin {}

impl<T: Ledger + ItemIndex + Contributions + Blobs + Leases + Views + Admin> Store for T {}
