//! How a row is packed: eight bytes of checksum, then its fields.
//!
//! What stands in the key is not repeated in the row, and is covered by the
//! checksum all the same: a row in another's place is damaged. Rows other than
//! events, segments and items begin with a form, so that a field can be added
//! later.

use crate::error::Error;
use folio_codec::{
    Digest, Reader, Writer, decode_item, decode_run_facts, decode_tail, encode_item,
    encode_run_facts, encode_tail, sum,
};
use folio_core::item::{Lane, Position};
use folio_core::{Authority, InvocationId, Item, RunId, SessionId, Spine, TurnId};
use folio_store::BlobId;
use folio_store::engine::Counters;
use folio_store::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRow, FactRow, IdRunRow, LogRow, PackRow, RunRow,
    ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewRow, entry_checksum, event_checksum,
    item_checksum, pack_checksum,
};
use redb::{Key, Value};

/// The only form so far.
const FORM: u8 = 1;

/// A row of a table.
pub trait Row: Sized {
    /// Its key.
    type Key: Key + 'static;
    /// The table, as errors name it.
    const TABLE: &'static str;
    /// The key, as errors name it.
    fn name(key: &KeyOf<'_, Self>) -> String;
    /// Packs what the key does not say.
    fn pack(&self, out: &mut Writer);
    /// The checksum of the row, whose packed form is given.
    fn sum(&self, key: &KeyOf<'_, Self>, packed: &[u8]) -> u64;
    /// Unpacks; the checksum is compared later.
    fn unpack(key: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self>;
}

/// The key of a row as it is handed around.
pub type KeyOf<'a, R> = <<R as Row>::Key as Value>::SelfType<'a>;

/// The stored value of a row.
pub fn seal<R: Row>(key: &KeyOf<'_, R>, row: &R) -> Vec<u8> {
    let mut out = Writer(vec![0; 8]);
    row.pack(&mut out);
    let sum = row.sum(key, &out.0[8..]);
    out.0[..8].copy_from_slice(&sum.to_le_bytes());
    out.0
}

/// A row of a stored value, or what is damaged.
pub fn open<R: Row>(key: &KeyOf<'_, R>, value: &[u8]) -> Result<R, Error> {
    unseal(key, value).ok_or_else(|| damaged::<R>(key))
}

fn unseal<R: Row>(key: &KeyOf<'_, R>, value: &[u8]) -> Option<R> {
    let (sum, packed) = value.split_first_chunk::<8>()?;
    let mut reader = Reader::new(packed);
    let row = R::unpack(key, &mut reader).filter(|_| reader.is_empty())?;
    (row.sum(key, packed) == u64::from_le_bytes(*sum)).then_some(row)
}

/// The error of a damaged row.
pub fn damaged<R: Row>(key: &KeyOf<'_, R>) -> Error {
    Error::Damaged {
        table: R::TABLE,
        key: R::name(key),
    }
}

/// The error of a row that must be there and is not.
pub fn missing<R: Row>(key: &KeyOf<'_, R>) -> Error {
    Error::Missing {
        table: R::TABLE,
        key: R::name(key),
    }
}

/// The error of a row that must be new and is not.
pub fn exists<R: Row>(key: &KeyOf<'_, R>) -> Error {
    Error::Exists {
        table: R::TABLE,
        key: R::name(key),
    }
}

fn form(reader: &mut Reader<'_>) -> Option<()> {
    (reader.byte()? == FORM).then_some(())
}

fn digest(reader: &mut Reader<'_>) -> Option<Digest> {
    reader.take(32)?.try_into().ok()
}

fn bits(flags: &[bool]) -> u8 {
    let bit = |(at, flag): (usize, &bool)| u8::from(*flag) << at;
    flags.iter().enumerate().map(bit).sum()
}

fn unbits<const N: usize>(reader: &mut Reader<'_>) -> Option<[bool; N]> {
    let byte = reader.byte()?;
    (byte >> N == 0).then(|| std::array::from_fn(|at| byte >> at & 1 == 1))
}

/// A fact about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta(pub Vec<u8>);

impl Row for Meta {
    type Key = &'static str;
    const TABLE: &'static str = "meta";

    fn name(key: &KeyOf<'_, Self>) -> String {
        (*key).to_owned()
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.bytes(&self.0);
    }

    fn sum(&self, key: &KeyOf<'_, Self>, packed: &[u8]) -> u64 {
        sum(&[], &[key.as_bytes(), packed])
    }

    fn unpack(_: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self(reader.bytes()?.to_vec()))
    }
}

impl Row for Counters {
    type Key = &'static str;
    const TABLE: &'static str = "meta";

    fn name(key: &KeyOf<'_, Self>) -> String {
        (*key).to_owned()
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        for number in self.numbers() {
            out.varint(number);
        }
    }

    fn sum(&self, key: &KeyOf<'_, Self>, packed: &[u8]) -> u64 {
        sum(&[], &[key.as_bytes(), packed])
    }

    fn unpack(_: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        let mut numbers = [0; 7];
        for number in &mut numbers {
            *number = reader.varint()?;
        }
        Some(Self::from_numbers(numbers))
    }
}

impl Row for SessionRow {
    type Key = &'static str;
    const TABLE: &'static str = "sessions";

    fn name(key: &KeyOf<'_, Self>) -> String {
        format!("session {key}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.session_no);
        out.varint(self.log_no);
        out.0.extend_from_slice(&self.incarnation.to_le_bytes());
        out.varint(u64::from(self.generation));
        out.byte(self.authority as u8);
        out.varint(self.authority_rev);
        out.byte(bits(&[self.followed, self.import_ref.is_some()]));
        if let Some(import_ref) = &self.import_ref {
            out.bytes(import_ref.as_bytes());
        }
        out.varint(self.lease_owner);
        out.varint(self.lease_epoch);
        out.bytes(self.lease_holder.as_bytes());
        out.varint(self.created_at);
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(key: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        let session_no = reader.varint()?;
        let log_no = reader.varint()?;
        let incarnation = u64::from_le_bytes(reader.take(8)?.try_into().ok()?);
        let generation = reader.varint32()?;
        let authority = *Authority::ALL.get(usize::from(reader.byte()?))?;
        let authority_rev = reader.varint()?;
        let [followed, has_ref] = unbits(reader)?;
        let import_ref = if has_ref {
            Some(reader.text()?.to_owned())
        } else {
            None
        };
        Some(Self {
            session_no,
            session_id: SessionId::new(*key).ok()?,
            log_no,
            incarnation,
            generation,
            authority,
            authority_rev,
            followed,
            import_ref,
            lease_owner: reader.varint()?,
            lease_epoch: reader.varint()?,
            lease_holder: reader.text()?.to_owned(),
            created_at: reader.varint()?,
        })
    }
}

impl Row for LogRow {
    type Key = u64;
    const TABLE: &'static str = "logs";

    fn name(key: &KeyOf<'_, Self>) -> String {
        format!("log {key}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.family);
        out.varint(self.head);
        out.varint(self.base);
        out.0.extend_from_slice(&self.chain);
        out.varint(self.drained_seq);
        out.varint(u64::from(self.runs));
        out.varint(self.index_no);
        out.varint(u64::from(self.index_version));
        out.varint(self.index_head);
        out.varint(self.items);
        out.varint(u64::from(self.sources));
        out.bytes(&encode_tail(&self.tail));
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(key: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            log_no: *key,
            family: reader.varint()?,
            head: reader.varint()?,
            base: reader.varint()?,
            chain: digest(reader)?,
            drained_seq: reader.varint()?,
            runs: reader.varint32()?,
            index_no: reader.varint()?,
            index_version: reader.varint32()?,
            index_head: reader.varint()?,
            items: reader.varint()?,
            sources: reader.varint32()?,
            tail: decode_tail(reader.bytes()?).ok()?,
        })
    }
}

impl Row for SpanRow {
    type Key = (u64, u64);
    const TABLE: &'static str = "spans";

    fn name((log_no, upto): &KeyOf<'_, Self>) -> String {
        format!("log {log_no}, up to {upto}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.src);
        out.varint(u64::from(self.runs));
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(&(log_no, upto): &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            log_no,
            upto,
            src: reader.varint()?,
            runs: reader.varint32()?,
        })
    }
}

impl Row for EventRow {
    type Key = (u64, u64);
    const TABLE: &'static str = "events";

    fn name((log_no, ordinal): &KeyOf<'_, Self>) -> String {
        format!("log {log_no}, event {ordinal}")
    }

    fn pack(&self, out: &mut Writer) {
        out.0.extend_from_slice(&EventRow::pack(self));
    }

    fn sum(&self, (log_no, ordinal): &KeyOf<'_, Self>, packed: &[u8]) -> u64 {
        event_checksum(*log_no, *ordinal, packed)
    }

    fn unpack((_, ordinal): &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        EventRow::unpack(*ordinal, reader.rest())
    }
}

impl Row for PackRow {
    type Key = (u64, u64);
    const TABLE: &'static str = "packs";

    fn name((log_no, first): &KeyOf<'_, Self>) -> String {
        format!("log {log_no}, segment {first}")
    }

    fn pack(&self, out: &mut Writer) {
        out.0.extend_from_slice(&PackRow::pack(self));
    }

    fn sum(&self, (log_no, first): &KeyOf<'_, Self>, packed: &[u8]) -> u64 {
        pack_checksum(*log_no, *first, packed)
    }

    fn unpack((_, first): &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        PackRow::unpack(*first, reader.rest())
    }
}

impl Row for IdRunRow {
    type Key = (u64, &'static str, u64);
    const TABLE: &'static str = "id_runs";

    fn name((log_no, stem, first): &KeyOf<'_, Self>) -> String {
        format!("log {log_no}, id {stem}#{first}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(u64::from(self.n));
        out.varint(self.pack);
    }

    fn sum(&self, (log_no, ..): &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum(*log_no)
    }

    fn unpack(&(_, stem, first): &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            stem: stem.to_owned(),
            first,
            n: reader.varint32()?,
            pack: reader.varint()?,
        })
    }
}

impl Row for CommitRow {
    type Key = u64;
    const TABLE: &'static str = "commits";

    fn name(seq: &KeyOf<'_, Self>) -> String {
        format!("commit {seq}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.0.extend_from_slice(&self.body);
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(seq: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            seq: *seq,
            body: reader.rest().to_vec(),
        })
    }
}

impl Row for RunRow {
    type Key = (u64, u32);
    const TABLE: &'static str = "runs";

    fn name((log_no, run_no): &KeyOf<'_, Self>) -> String {
        format!("log {log_no}, run {run_no}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.bytes(self.spine.run_id.as_str().as_bytes());
        out.bytes(self.spine.turn_id.as_str().as_bytes());
        out.bytes(self.spine.invocation_id.as_str().as_bytes());
        out.varint(self.opened);
        out.byte(bits(&[self.inline, self.output, self.terminal.is_some()]));
        if let Some(terminal) = self.terminal {
            out.varint(terminal);
        }
        out.varint(self.open_before.len() as u64);
        for run in &self.open_before {
            out.varint(u64::from(*run));
        }
        out.bytes(&encode_run_facts(&self.facts));
    }

    fn sum(&self, (log_no, _): &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum(*log_no)
    }

    fn unpack((_, run_no): &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        let spine = Spine {
            run_id: RunId::new(reader.text()?).ok()?,
            turn_id: TurnId::new(reader.text()?).ok()?,
            invocation_id: InvocationId::new(reader.text()?).ok()?,
        };
        let opened = reader.varint()?;
        let [inline, output, ended] = unbits(reader)?;
        let terminal = if ended { Some(reader.varint()?) } else { None };
        let open_before = (0..reader.varint()?)
            .map(|_| reader.varint32())
            .collect::<Option<_>>()?;
        Some(Self {
            run_no: *run_no,
            spine,
            opened,
            terminal,
            open_before,
            inline,
            output,
            facts: decode_run_facts(reader.bytes()?).ok()?,
        })
    }
}

impl Row for Item {
    type Key = (u64, u64, u8);
    const TABLE: &'static str = "items";

    fn name((index_no, ordinal, slot): &KeyOf<'_, Self>) -> String {
        format!("index {index_no}, item {ordinal}.{slot}")
    }

    fn pack(&self, out: &mut Writer) {
        out.0.extend_from_slice(&encode_item(self));
    }

    fn sum(&self, (index_no, ..): &KeyOf<'_, Self>, packed: &[u8]) -> u64 {
        item_checksum(*index_no, self.position, packed)
    }

    fn unpack(&(_, ordinal, slot): &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        decode_item(Position { ordinal, slot }, reader.rest()).ok()
    }
}

impl Row for SegRow {
    type Key = (u64, u64, u8, u8, u32, u64);
    const TABLE: &'static str = "item_segs";

    fn name((index_no, ordinal, slot, _, _, seg): &KeyOf<'_, Self>) -> String {
        format!("index {index_no}, item {ordinal}.{slot}, chunk {seg}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.before);
        out.varint(self.bytes);
        out.varint(u64::from(self.n));
        out.varint(self.last);
    }

    fn sum(&self, (index_no, ..): &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum(*index_no)
    }

    fn unpack(
        &(_, ordinal, slot, lane, part, seg): &KeyOf<'_, Self>,
        reader: &mut Reader<'_>,
    ) -> Option<Self> {
        form(reader)?;
        Some(Self {
            position: Position { ordinal, slot },
            lane: (Lane::from_number(lane)?, part),
            before: reader.varint()?,
            bytes: reader.varint()?,
            seg,
            n: reader.varint32()?,
            last: reader.varint()?,
        })
    }
}

impl Row for ContribLogRow {
    type Key = (u64, &'static str);
    const TABLE: &'static str = "contrib_logs";

    fn name((log_no, source): &KeyOf<'_, Self>) -> String {
        format!("log {log_no}, source {source}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.contrib_no);
        out.varint(u64::from(self.rank));
        out.varint(self.head);
        out.0.extend_from_slice(&self.chain);
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(&(log_no, source): &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            contrib_no: reader.varint()?,
            source: source.to_owned(),
            log_no,
            rank: reader.varint32()?,
            head: reader.varint()?,
            chain: digest(reader)?,
        })
    }
}

impl Row for FactRow {
    type Key = (u64, u64);
    const TABLE: &'static str = "contrib_facts";

    fn name((contrib_no, seq): &KeyOf<'_, Self>) -> String {
        format!("contribution log {contrib_no}, fact {seq}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.anchor);
        out.bytes(self.id.as_bytes());
        out.0.extend_from_slice(&self.chain);
        out.bytes(self.body.as_bytes());
        out.byte(bits(&[self.withheld.is_some()]));
        if let Some(withheld) = &self.withheld {
            out.0.extend_from_slice(withheld);
        }
    }

    fn sum(&self, (contrib_no, _): &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum(*contrib_no)
    }

    fn unpack((_, seq): &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        let anchor = reader.varint()?;
        let id = reader.text()?.to_owned();
        let chain = digest(reader)?;
        let body = reader.text()?.to_owned();
        let [was_redacted] = unbits(reader)?;
        Some(Self {
            seq: *seq,
            anchor,
            id,
            chain,
            body,
            withheld: if was_redacted {
                Some(digest(reader)?)
            } else {
                None
            },
        })
    }
}

impl Row for BlobRow {
    type Key = &'static Digest;
    const TABLE: &'static str = "blobs";

    fn name(sha: &KeyOf<'_, Self>) -> String {
        format!("blob {}", BlobId(**sha))
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.blob_no);
        out.varint(self.len);
        out.varint(self.stager);
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(sha: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            sha: **sha,
            blob_no: reader.varint()?,
            len: reader.varint()?,
            stager: reader.varint()?,
        })
    }
}

impl Row for StageRow {
    type Key = u64;
    const TABLE: &'static str = "stages";

    fn name(blob_no: &KeyOf<'_, Self>) -> String {
        format!("blob {blob_no}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.stager);
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(blob_no: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            blob_no: *blob_no,
            stager: reader.varint()?,
        })
    }
}

impl Row for ViewRow {
    type Key = &'static str;
    const TABLE: &'static str = "views";

    fn name(key: &KeyOf<'_, Self>) -> String {
        format!("view {key}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.view_no);
        out.varint(u64::from(self.version));
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(name: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            view_no: reader.varint()?,
            name: (*name).to_owned(),
            version: reader.varint32()?,
        })
    }
}

/// An entry of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The log that it was made from.
    pub log_no: u64,
    /// The value.
    pub value: Vec<u8>,
}

impl Row for Entry {
    type Key = (u64, &'static [u8]);
    const TABLE: &'static str = "view_rows";

    fn name((view_no, key): &KeyOf<'_, Self>) -> String {
        format!("view {view_no}, key {}", key.escape_ascii())
    }

    fn pack(&self, out: &mut Writer) {
        out.varint(self.log_no);
        out.0.extend_from_slice(&self.value);
    }

    fn sum(&self, (view_no, key): &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        entry_checksum(*view_no, self.log_no, key, &self.value)
    }

    fn unpack(_: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            log_no: reader.varint()?,
            value: reader.rest().to_vec(),
        })
    }
}

/// How far a view has seen a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(pub u64);

impl Row for Mark {
    type Key = (u64, u64);
    const TABLE: &'static str = "view_marks";

    fn name((log_no, view_no): &KeyOf<'_, Self>) -> String {
        format!("view {view_no}, log {log_no}")
    }

    fn pack(&self, out: &mut Writer) {
        out.varint(self.0);
    }

    fn sum(&self, (log_no, view_no): &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        sum(&[*view_no, *log_no, self.0], &[])
    }

    fn unpack(_: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self(reader.varint()?))
    }
}

impl Row for ScrubRow {
    type Key = u64;
    const TABLE: &'static str = "scrub";

    fn name(key: &KeyOf<'_, Self>) -> String {
        format!("erasure {key}")
    }

    fn pack(&self, out: &mut Writer) {
        out.byte(FORM);
        out.varint(self.log_no);
        out.varint(self.since);
    }

    fn sum(&self, _: &KeyOf<'_, Self>, _: &[u8]) -> u64 {
        self.checksum()
    }

    fn unpack(seq: &KeyOf<'_, Self>, reader: &mut Reader<'_>) -> Option<Self> {
        form(reader)?;
        Some(Self {
            seq: *seq,
            log_no: reader.varint()?,
            since: reader.varint()?,
        })
    }
}
