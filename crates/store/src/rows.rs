//! The rows that every adapter keeps, free of any engine.
//!
//! A *log* owns events; a *session* names the log it is read through. Keys
//! below are what an adapter orders by: events by (log, ordinal), items by
//! (index, position), runs by (log, run number).

use folio_codec::{
    Digest, Reader, Writer, decode_content, encode_content, encode_run_facts, encode_tail, sum,
};
use folio_core::assign::{Chunk, Tail};
use folio_core::item::{LanePart, Position};
use folio_core::reduce::RunFacts;
use folio_core::{Authority, SessionId, Spine};

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its number in the store.
    pub session_no: u64,
    /// Its id.
    pub session_id: SessionId,
    /// The log that it writes.
    pub log_no: u64,
    /// Random; tells this life of the id from earlier ones.
    pub incarnation: u64,
    /// Raised by every redaction.
    pub generation: u32,
    /// Who has the say.
    pub authority: Authority,
    /// Raised by every change of authority; what compare-and-swap compares.
    pub authority_rev: u64,
    /// Whether a source still feeds it: only the importer may append.
    pub followed: bool,
    /// What the importer remembers of its source: JSON text.
    pub import_ref: Option<String>,
    /// The store handle that holds the writer's lease; 0 for nobody.
    pub lease_owner: u64,
    /// Raised by every change of the lease.
    pub lease_epoch: u64,
    /// How the holder of the lease calls itself; empty for nobody.
    pub lease_holder: String,
    /// When it was created, in milliseconds since 1970.
    pub created_at: u64,
}

impl SessionRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        let import_ref = self.import_ref.as_deref().unwrap_or_default();
        sum(
            &[
                self.session_no,
                self.log_no,
                self.incarnation,
                u64::from(self.generation),
                self.authority as u64,
                self.authority_rev,
                u64::from(self.followed),
                u64::from(self.import_ref.is_some()),
                self.lease_owner,
                self.lease_epoch,
                self.created_at,
            ],
            &[
                self.session_id.as_str().as_bytes(),
                import_ref.as_bytes(),
                self.lease_holder.as_bytes(),
            ],
        )
    }
}

/// A log: the head of its events and of its item index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// Its number in the store.
    pub log_no: u64,
    /// The fork family: event ids are looked up in it.
    pub family: u64,
    /// The ordinal of the last event.
    pub head: u64,
    /// The ordinal behind which this log's own events begin.
    pub base: u64,
    /// The chain at the head.
    pub chain: Digest,
    /// The last entry of the commit journal that is in this row.
    pub drained_seq: u64,
    /// The number of runs, and of the latest run.
    pub runs: u32,
    /// The live index generation.
    pub index_no: u64,
    /// The projection version that made it.
    pub index_version: u32,
    /// The last ordinal that is in it.
    pub index_head: u64,
    /// The number of its items.
    pub items: u64,
    /// The number of the session's contribution logs, so that a lost row of
    /// one is missed.
    pub sources: u32,
    /// What must be remembered between events.
    pub tail: Tail,
}

impl LogRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        sum(
            &[
                self.log_no,
                self.family,
                self.head,
                self.base,
                self.drained_seq,
                u64::from(self.runs),
                self.index_no,
                u64::from(self.index_version),
                self.index_head,
                self.items,
                u64::from(self.sources),
            ],
            &[&self.chain, &encode_tail(&self.tail)],
        )
    }

    /// Whether the index is this build's and has every event.
    pub fn index_is_current(&self) -> bool {
        self.index_version == folio_core::PROJECTION_VERSION && self.index_head == self.head
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Its place in the session, from 1.
    pub ordinal: u64,
    /// Its run's number.
    pub run_no: u32,
    /// Its place in the run, from 1.
    pub run_seq: u64,
    /// When it was committed, in milliseconds since 1970.
    pub committed_at: u64,
    /// The form of `body`.
    pub form: u8,
    /// The chain at this event.
    pub chain: Digest,
    /// The packed event.
    pub body: Vec<u8>,
}

impl EventRow {
    /// The row but for its ordinal, which is its key: what stands before the
    /// packed event, then the event.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(self.body.len() + 56));
        out.byte(self.form);
        out.varint(u64::from(self.run_no));
        out.varint(self.run_seq);
        out.varint(self.committed_at);
        out.0.extend_from_slice(&self.chain);
        out.0.extend_from_slice(&self.body);
        out.0
    }

    /// Unpacks what [`EventRow::pack`] packed.
    pub fn unpack(ordinal: u64, bytes: &[u8]) -> Option<Self> {
        EventRef::unpack(ordinal, bytes).map(|row| row.to_row())
    }

    /// The row, borrowed.
    pub fn borrowed(&self) -> EventRef<'_> {
        EventRef {
            ordinal: self.ordinal,
            run_no: self.run_no,
            run_seq: self.run_seq,
            committed_at: self.committed_at,
            form: self.form,
            chain: &self.chain,
            body: &self.body,
        }
    }
}

/// An [`EventRow`], borrowed from wherever it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRef<'a> {
    /// See [`EventRow::ordinal`].
    pub ordinal: u64,
    /// See [`EventRow::run_no`].
    pub run_no: u32,
    /// See [`EventRow::run_seq`].
    pub run_seq: u64,
    /// See [`EventRow::committed_at`].
    pub committed_at: u64,
    /// See [`EventRow::form`].
    pub form: u8,
    /// See [`EventRow::chain`].
    pub chain: &'a Digest,
    /// See [`EventRow::body`].
    pub body: &'a [u8],
}

impl<'a> EventRef<'a> {
    /// Unpacks what [`EventRow::pack`] packed, without a copy.
    pub fn unpack(ordinal: u64, bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        Some(Self {
            ordinal,
            form: reader.byte()?,
            run_no: reader.varint32()?,
            run_seq: reader.varint()?,
            committed_at: reader.varint()?,
            chain: reader.take(32)?.try_into().ok()?,
            body: reader.rest(),
        })
    }

    /// The row as a value of its own.
    pub fn to_row(&self) -> EventRow {
        EventRow {
            ordinal: self.ordinal,
            run_no: self.run_no,
            run_seq: self.run_seq,
            committed_at: self.committed_at,
            form: self.form,
            chain: *self.chain,
            body: self.body.to_vec(),
        }
    }
}

/// The checksum that is stored with an event of a log, over its packed form.
pub fn event_checksum(log_no: u64, ordinal: u64, packed: &[u8]) -> u64 {
    sum(&[log_no, ordinal], &[packed])
}

/// An event row as it was found: a damaged one keeps its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundEvent {
    /// The row, its checksum verified.
    Whole(EventRow),
    /// The checksum does not fit.
    Damaged {
        /// The ordinal.
        ordinal: u64,
    },
}

impl FoundEvent {
    /// The ordinal.
    pub fn ordinal(&self) -> u64 {
        match self {
            Self::Whole(row) => row.ordinal,
            Self::Damaged { ordinal } => *ordinal,
        }
    }

    /// The row, borrowed; `None` for a damaged one.
    pub fn whole(&self) -> Option<EventRef<'_>> {
        match self {
            Self::Whole(row) => Some(row.borrowed()),
            Self::Damaged { .. } => None,
        }
    }
}

/// A stretch of events that a log reads from another one.
///
/// A log that was forked at ordinal n has spans up to n; what lies behind is
/// its own. A log that was not has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanRow {
    /// The log that reads.
    pub log_no: u64,
    /// The last ordinal of the stretch; it begins behind the span before.
    pub upto: u64,
    /// The log that holds the events.
    pub src: u64,
    /// The number of runs that were opened up to here.
    pub runs: u32,
}

impl SpanRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        sum(
            &[self.log_no, self.upto, self.src, u64::from(self.runs)],
            &[],
        )
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its number in the log, from 1.
    pub run_no: u32,
    /// Its ids.
    pub spine: Spine,
    /// The ordinal of its first event.
    pub opened: u64,
    /// The ordinal of its terminal event.
    pub terminal: Option<u64>,
    /// The runs that were open when it opened.
    pub open_before: Vec<u32>,
    /// Whether it belongs to this transcript.
    pub inline: bool,
    /// Once it ended: whether its turn had visible output.
    pub output: bool,
    /// What rows take from it.
    pub facts: RunFacts,
}

impl RunRow {
    /// The checksum that is stored with the row of a log.
    pub fn checksum(&self, log_no: u64) -> u64 {
        let open: Vec<u8> = self
            .open_before
            .iter()
            .flat_map(|run| run.to_le_bytes())
            .collect();
        sum(
            &[
                log_no,
                u64::from(self.run_no),
                self.opened,
                u64::from(self.terminal.is_some()),
                self.terminal.unwrap_or(0),
                u64::from(self.inline),
                u64::from(self.output),
            ],
            &[
                self.spine.run_id.as_str().as_bytes(),
                self.spine.turn_id.as_str().as_bytes(),
                self.spine.invocation_id.as_str().as_bytes(),
                &open,
                &encode_run_facts(&self.facts),
            ],
        )
    }
}

/// The checksum that is stored with an item of an index, over its packed form.
pub fn item_checksum(index_no: u64, position: Position, packed: &[u8]) -> u64 {
    sum(
        &[index_no, position.ordinal, u64::from(position.slot)],
        &[packed],
    )
}

/// Where a chunk of an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegRow {
    /// The item.
    pub position: Position,
    /// The lane and part.
    pub lane: LanePart,
    /// Bytes of the lane's escaped text before it.
    pub before: u64,
    /// Bytes of its own escaped text.
    pub bytes: u64,
    /// The ordinal at which it begins.
    pub seg: u64,
    /// How many chunks it holds.
    pub n: u32,
    /// The ordinal of its last chunk.
    pub last: u64,
}

impl SegRow {
    /// The checksum that is stored with the row of an index.
    pub fn checksum(&self, index_no: u64) -> u64 {
        sum(
            &[
                index_no,
                self.position.ordinal,
                u64::from(self.position.slot),
                self.lane.0 as u64,
                u64::from(self.lane.1),
                self.before,
                self.bytes,
                self.seg,
                u64::from(self.n),
                self.last,
            ],
            &[],
        )
    }
}

/// One commit of chunks, for all sessions in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitRow {
    /// Its number, from 1; the newest row of the journal always stays, so that
    /// none is used twice.
    pub seq: u64,
    /// What it added, by log.
    pub body: Vec<u8>,
}

impl CommitRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        sum(&[self.seq], &[&self.body])
    }
}

/// How the text of a segment is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackText {
    /// As it is, in the segment.
    Own,
    /// As a slice of the stored form of the event that settled the stream: its
    /// ordinal, and the byte at which the slice begins.
    Of(u64, u64),
}

/// A segment: chunks of one stream of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackRow {
    /// The ordinal of its first chunk.
    pub first: u64,
    /// The ordinal of its last chunk.
    pub last: u64,
    /// The ordinal of the event that opened the stream.
    pub opener: u64,
    /// The run.
    pub run_no: u32,
    /// The lane whose text its chunks are, as the stream says it.
    pub content: Option<Chunk>,
    /// The chain at some of its chunks, by ordinal, ascending.
    pub marks: Vec<(u64, Digest)>,
    /// Where its text is.
    pub text: PackText,
    /// What [`folio_codec::encode_chunks`] made of the chunks.
    pub columns: Vec<u8>,
    /// The text, where it is the segment's own.
    pub own: String,
}

impl PackRow {
    /// The row but for its first ordinal, which is its key.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(
            self.columns.len() + self.own.len() + 40 * self.marks.len() + 32,
        ));
        out.varint(self.last - self.first);
        out.varint(self.first - self.opener);
        out.varint(u64::from(self.run_no));
        encode_content(&mut out, self.content);
        out.varint(self.marks.len() as u64);
        for (ordinal, chain) in &self.marks {
            out.varint(ordinal - self.first);
            out.0.extend_from_slice(chain);
        }
        match self.text {
            PackText::Own => out.byte(0),
            PackText::Of(ordinal, at) => {
                out.byte(1);
                out.varint(ordinal);
                out.varint(at);
            }
        }
        out.bytes(&self.columns);
        out.0.extend_from_slice(self.own.as_bytes());
        out.0
    }

    /// Unpacks what [`PackRow::pack`] packed.
    pub fn unpack(first: u64, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let last = first.checked_add(reader.varint()?)?;
        let opener = first.checked_sub(reader.varint()?)?;
        let run_no = reader.varint32()?;
        let content = decode_content(&mut reader)?;
        let mut marks = Vec::new();
        for _ in 0..reader.varint()? {
            let ordinal = first.checked_add(reader.varint()?)?;
            marks.push((ordinal, reader.take(32)?.try_into().ok()?));
        }
        Some(Self {
            first,
            last,
            opener,
            run_no,
            content,
            marks,
            text: match reader.byte()? {
                0 => PackText::Own,
                1 => PackText::Of(reader.varint()?, reader.varint()?),
                _ => return None,
            },
            columns: reader.bytes()?.to_vec(),
            own: String::from_utf8(reader.rest().to_vec()).ok()?,
        })
    }
}

/// The checksum that is stored with a segment of a log, over its packed form.
pub fn pack_checksum(log_no: u64, first: u64, packed: &[u8]) -> u64 {
    sum(&[log_no, first, u64::MAX], &[packed])
}

/// A segment as it was found: a damaged one keeps its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundPack {
    /// The row, its checksum verified.
    Whole(PackRow),
    /// The checksum does not fit.
    Damaged {
        /// Its first ordinal.
        first: u64,
    },
}

impl FoundPack {
    /// Its first ordinal, and its last one where it is whole.
    pub fn ends(&self) -> (u64, Option<u64>) {
        match self {
            Self::Whole(row) => (row.first, Some(row.last)),
            Self::Damaged { first } => (*first, None),
        }
    }
}

/// The ids `<stem>#<n>` of a segment that count without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRunRow {
    /// What stands before the `#`.
    pub stem: String,
    /// The first number.
    pub first: u64,
    /// How many follow each other.
    pub n: u32,
    /// The segment.
    pub pack: u64,
}

impl IdRunRow {
    /// The checksum that is stored with the row of a log.
    pub fn checksum(&self, log_no: u64) -> u64 {
        sum(
            &[log_no, self.first, u64::from(self.n), self.pack],
            &[self.stem.as_bytes()],
        )
    }
}

/// A contribution log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContribLogRow {
    /// Its number in the store.
    pub contrib_no: u64,
    /// Its source, such as `notes`.
    pub source: String,
    /// The log of the session that it belongs to.
    pub log_no: u64,
    /// Where the source stands among equals; the runtime has 0.
    pub rank: u32,
    /// The sequence of the last fact.
    pub head: u64,
    /// The chain at the head.
    pub chain: Digest,
}

impl ContribLogRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        sum(
            &[
                self.contrib_no,
                self.log_no,
                u64::from(self.rank),
                self.head,
            ],
            &[self.source.as_bytes(), &self.chain],
        )
    }
}

/// A fact of a contribution log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactRow {
    /// Its place in the log, from 1.
    pub seq: u64,
    /// The ordinal that its item stands behind.
    pub anchor: u64,
    /// The id of its item.
    pub id: String,
    /// The chain at this fact.
    pub chain: Digest,
    /// The canonical fact; what is left of it, where it was redacted.
    pub body: String,
    /// The digest of the fact as it was written, where it was redacted.
    pub withheld: Option<Digest>,
}

impl FactRow {
    /// The checksum that is stored with the row of a contribution log.
    pub fn checksum(&self, contrib_no: u64) -> u64 {
        sum(
            &[contrib_no, self.seq, self.anchor],
            &[
                self.id.as_bytes(),
                &self.chain,
                self.body.as_bytes(),
                self.withheld.as_ref().map_or(&[], |digest| &digest[..]),
            ],
        )
    }
}

/// The bytes of a blob that one row holds; the last piece may hold fewer.
pub const PIECE_BYTES: usize = 64 << 10;

/// A blob whose content is stored whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobRow {
    /// The SHA-256 of its content: its address.
    pub sha: Digest,
    /// What its pieces are stored under.
    pub blob_no: u64,
    /// The bytes of its content.
    pub len: u64,
    /// The store handle that put it: as long as it lives the blob needs no
    /// reference.
    pub stager: u64,
}

impl BlobRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        sum(&[self.blob_no, self.len, self.stager], &[&self.sha])
    }
}

/// The checksum that is stored with a piece of a blob.
pub fn piece_checksum(blob_no: u64, piece: u32, content: &[u8]) -> u64 {
    sum(&[blob_no, u64::from(piece)], &[content])
}

/// A blob whose content is still arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageRow {
    /// What its pieces are stored under.
    pub blob_no: u64,
    /// The store handle that puts it.
    pub stager: u64,
}

impl StageRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        sum(&[self.blob_no, self.stager], &[])
    }
}

/// A versioned key space that somebody computes from events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRow {
    /// Its number in the store.
    pub view_no: u64,
    /// Its name.
    pub name: String,
    /// The version of the code that made its rows.
    pub version: u32,
}

impl ViewRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        sum(
            &[self.view_no, u64::from(self.version)],
            &[self.name.as_bytes()],
        )
    }
}

/// A key of a view with its value.
pub type ViewEntry = (Vec<u8>, Vec<u8>);

/// The checksum that is stored with an entry of a view.
pub fn entry_checksum(view_no: u64, log_no: u64, key: &[u8], value: &[u8]) -> u64 {
    sum(&[view_no, log_no], &[key, value])
}

/// An erasure that is not complete: rows of a log may still have to go, and
/// bytes are still in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubRow {
    /// Its number in the store.
    pub seq: u64,
    /// The log whose rows go; 0 where only bytes are left.
    pub log_no: u64,
    /// When it was asked for, in milliseconds since 1970.
    pub since: u64,
}

impl ScrubRow {
    /// The checksum that is stored with the row.
    pub fn checksum(&self) -> u64 {
        sum(&[self.seq, self.log_no, self.since], &[])
    }
}
