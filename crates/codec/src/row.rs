//! The stored forms of rows.

use crate::CodecError;
use crate::bytes::{Reader, Writer};
use folio_core::assign::{Chunk, OpenRequest, OpenRun, OpenStream, Tail, WaitingMark};
use folio_core::item::{Item, ItemRef, Lane, Need, Part, Position};
use folio_core::member::StoredMembers;
use folio_core::redact::Withheld;
use folio_core::reduce::RunFacts;
use folio_core::view::{PACKED_PLACE, PackedFields};
use folio_core::{Author, CanonicalEvent, EventView, Fields, ItemKind, Role, Status, TurnId};

/// A packed envelope, canonical text, and a table of where fields stand.
pub const FORM_SLICED: u8 = 1;
/// The same without the table: the text is scanned when it is read. Kept for
/// events whose table would not come back exactly.
pub const FORM_SCANNED: u8 = 2;
/// An event whose payload is gone: what is known of the whole, then what is
/// left in one of the forms above.
pub const FORM_WITHHELD: u8 = 3;
/// An event with members that are kept outside: their names, then the event in
/// one of the first two forms.
pub const FORM_STORED: u8 = 4;
/// An index row of a chunk that is an event row of its own.
pub const SEG_FORM_WHOLE: u8 = 1;

/// Packs an event; answers the form and the bytes.
pub fn encode_event(event: &CanonicalEvent) -> (u8, Vec<u8>) {
    let (form, bytes) = encode_stored(event);
    let Some(whole) = event.withheld else {
        return (form, bytes);
    };
    let mut out = Writer(Vec::with_capacity(bytes.len() + 56));
    out.varint(whole.weight);
    out.varint(whole.chunk);
    out.0.extend_from_slice(&whole.body);
    out.byte(u8::from(whole.payload));
    out.byte(form);
    out.0.extend_from_slice(&bytes);
    (FORM_WITHHELD, out.0)
}

fn encode_stored(event: &CanonicalEvent) -> (u8, Vec<u8>) {
    let (form, bytes) = encode_text(event);
    if event.stored.is_empty() {
        return (form, bytes);
    }
    let mut out = Writer(Vec::with_capacity(bytes.len() + event.stored.len() + 4));
    out.bytes(&event.stored);
    out.byte(form);
    out.0.extend_from_slice(&bytes);
    (FORM_STORED, out.0)
}

fn encode_text(event: &CanonicalEvent) -> (u8, Vec<u8>) {
    let sliced = encode_as(FORM_SLICED, event);
    match decode_event(FORM_SLICED, &sliced) {
        Ok(view) if same(&view, event) => (FORM_SLICED, sliced),
        _ => (FORM_SCANNED, encode_as(FORM_SCANNED, event)),
    }
}

fn same(view: &EventView<'_>, event: &CanonicalEvent) -> bool {
    let theirs = event.view();
    view.fields == theirs.fields
        && (view.id, view.ts, view.text) == (theirs.id, theirs.ts, theirs.text)
        && (view.partial, view.role, view.author) == (theirs.partial, theirs.role, theirs.author)
        && (view.branch, view.origin, view.model_visibility)
            == (theirs.branch, theirs.origin, theirs.model_visibility)
        && (view.status, view.refs_len) == (theirs.status, theirs.refs_len)
}

const PARTIAL: u8 = 1;
const BRANCH: u8 = 2;
const ORIGIN: u8 = 4;
const VISIBILITY: u8 = 8;
const STATUS: u8 = 16;

pub(crate) fn is_partial(flags: u8) -> bool {
    flags & PARTIAL != 0
}

pub(crate) fn has_branch(flags: u8) -> bool {
    flags & BRANCH != 0
}

pub(crate) fn has_origin(flags: u8) -> bool {
    flags & ORIGIN != 0
}

pub(crate) fn has_visibility(flags: u8) -> bool {
    flags & VISIBILITY != 0
}

pub(crate) fn has_status(flags: u8) -> bool {
    flags & STATUS != 0
}

fn number_of<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter()
        .position(|v| v == value)
        .and_then(|at| u8::try_from(at).ok())
        .unwrap_or(u8::MAX)
}

fn encode_as(form: u8, event: &CanonicalEvent) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(event.text.len() + 64));
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    out.byte(
        flag(event.partial, PARTIAL)
            | flag(event.branch.is_some(), BRANCH)
            | flag(event.origin.is_some(), ORIGIN)
            | flag(event.model_visibility.is_some(), VISIBILITY)
            | flag(event.status.is_some(), STATUS),
    );
    out.byte(number_of(Role::ALL, &event.role) << 4 | number_of(Author::ALL, &event.author));
    if let Some(status) = &event.status {
        out.byte(number_of(Status::ALL, status));
    }
    out.bytes(event.id.as_str().as_bytes());
    out.bytes(event.ts.as_bytes());
    for text in [&event.branch, &event.origin, &event.model_visibility]
        .into_iter()
        .flatten()
    {
        out.bytes(text.as_bytes());
    }
    if form == FORM_SLICED {
        out.bytes(&event.fields.pack().unwrap_or_default());
    }
    out.varint(event.refs_len as u64);
    out.bytes(event.text.as_bytes());
    out.0
}

/// Unpacks an event. Nothing of its text is parsed in the sliced form.
///
/// # Errors
/// [`CodecError`] where the bytes are of no known form.
#[inline]
pub fn decode_event(form: u8, bytes: &[u8]) -> Result<EventView<'_>, CodecError> {
    let mut reader = Reader::new(bytes);
    let view = if form == FORM_WITHHELD {
        read_withheld(&mut reader)
    } else {
        read_stored(form, &mut reader)
    };
    view.ok_or(CodecError { what: "event" })
}

fn read_withheld<'a>(reader: &mut Reader<'a>) -> Option<EventView<'a>> {
    let whole = Withheld {
        weight: reader.varint()?,
        chunk: reader.varint()?,
        body: reader.take(32)?.try_into().ok()?,
        payload: match reader.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        },
    };
    let form = reader.byte()?;
    let mut view = read_stored(form, reader)?;
    view.withheld = Some(whole);
    Some(view)
}

#[inline]
fn read_stored<'a>(form: u8, reader: &mut Reader<'a>) -> Option<EventView<'a>> {
    if form != FORM_STORED {
        return read_event(form, reader);
    }
    let stored = StoredMembers::unpack(reader.bytes()?)?;
    let form = reader.byte()?;
    let mut view = read_event(form, reader)?;
    view.stored = stored;
    Some(view)
}

#[inline]
fn read_event<'a>(form: u8, reader: &mut Reader<'a>) -> Option<EventView<'a>> {
    if form != FORM_SLICED && form != FORM_SCANNED {
        return None;
    }
    let flags = reader.byte()?;
    let has = |flag: u8| flags & flag != 0;
    let roles = reader.byte()?;
    let status = if has(STATUS) {
        Some(*Status::ALL.get(usize::from(reader.byte()?))?)
    } else {
        None
    };
    let id = reader.text()?;
    let ts = reader.text()?;
    let branch = if has(BRANCH) {
        Some(reader.text()?)
    } else {
        None
    };
    let origin = if has(ORIGIN) {
        Some(reader.text()?)
    } else {
        None
    };
    let model_visibility = if has(VISIBILITY) {
        Some(reader.text()?)
    } else {
        None
    };
    let packed = if form == FORM_SLICED {
        Some(reader.bytes()?).filter(|bytes| bytes.len() % PACKED_PLACE == 0)
    } else {
        None
    };
    let refs_len = usize::try_from(reader.varint()?).ok()?;
    let text = reader.text()?;
    if !reader.is_empty() || !text.is_char_boundary(refs_len) {
        return None;
    }
    let fields = match packed {
        Some(packed) => Fields::Packed(PackedFields::new(packed)),
        None if form == FORM_SCANNED => Fields::scan(text, refs_len),
        None => return None,
    };
    Some(EventView {
        id,
        ts,
        partial: has(PARTIAL),
        role: *Role::ALL.get(usize::from(roles >> 4))?,
        author: *Author::ALL.get(usize::from(roles & 15))?,
        branch,
        origin,
        model_visibility,
        status,
        text,
        refs_len,
        fields,
        stored: StoredMembers::default(),
        withheld: None,
    })
}

/// Packs the events that an item is made of.
pub fn encode_need(need: &[Need]) -> Vec<u8> {
    let mut out = Writer::default();
    let mut last = 0;
    for entry in need {
        // Ascending, so the distance to the one before is small.
        out.varint(entry.ordinal.wrapping_sub(last));
        last = entry.ordinal;
        out.byte((entry.part as u8) << 4 | entry.lane as u8);
        out.varint(u64::from(entry.index));
    }
    out.0
}

/// Unpacks what [`encode_need`] packed.
///
/// # Errors
/// [`CodecError`] where the bytes do not decode.
pub fn decode_need(bytes: &[u8]) -> Result<Vec<Need>, CodecError> {
    let mut need = Vec::new();
    read_need(&mut Reader::new(bytes), &mut need).ok_or(CodecError { what: "item" })?;
    Ok(need)
}

fn read_need(reader: &mut Reader<'_>, need: &mut Vec<Need>) -> Option<()> {
    let mut ordinal = 0_u64;
    while !reader.is_empty() {
        ordinal = ordinal.wrapping_add(reader.varint()?);
        let byte = reader.byte()?;
        need.push(Need {
            ordinal,
            part: Part::from_number(byte >> 4)?,
            lane: Lane::from_number(byte & 15)?,
            index: reader.varint32()?,
        });
    }
    Some(())
}

const OUTPUT_RETAINED: u8 = 1;
const HAS_STEP: u8 = 2;
const HAS_OPERATION: u8 = 4;

/// Packs an item but for its position, which is its key.
pub fn encode_item(item: &Item) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(item.key.len() + 48));
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    out.varint(item.number);
    out.byte(number_of(ItemKind::ALL, &item.kind));
    out.byte(
        flag(item.output_retained, OUTPUT_RETAINED)
            | flag(item.step != 0, HAS_STEP)
            | flag(item.operation != 0, HAS_OPERATION),
    );
    out.varint(u64::from(item.run_no));
    out.varint(item.revision);
    out.varint(item.weight);
    for number in [item.step, item.operation] {
        if number != 0 {
            out.0.extend_from_slice(&number.to_le_bytes());
        }
    }
    out.bytes(item.key.as_bytes());
    out.bytes(item.ts.as_bytes());
    out.0.extend_from_slice(&encode_need(&item.need));
    out.0
}

/// Unpacks what [`encode_item`] packed.
///
/// # Errors
/// [`CodecError`] where the bytes do not decode.
pub fn decode_item(position: Position, bytes: &[u8]) -> Result<Item, CodecError> {
    let mut need = Vec::new();
    let item = borrow_item(position, bytes, &mut need)?;
    Ok(item.to_item())
}

/// As [`decode_item`], without a copy of the texts; what the item needs is put
/// in the place of what `need` holds.
///
/// # Errors
/// [`CodecError`] where the bytes do not decode.
pub fn borrow_item<'a>(
    position: Position,
    bytes: &'a [u8],
    need: &'a mut Vec<Need>,
) -> Result<ItemRef<'a>, CodecError> {
    need.clear();
    read_item(position, &mut Reader::new(bytes), need).ok_or(CodecError { what: "item" })
}

fn read_item<'a>(
    position: Position,
    reader: &mut Reader<'a>,
    need: &'a mut Vec<Need>,
) -> Option<ItemRef<'a>> {
    let number = reader.varint()?;
    let kind = *ItemKind::ALL.get(usize::from(reader.byte()?))?;
    let flags = reader.byte()?;
    let (run_no, revision, weight) = (reader.varint32()?, reader.varint()?, reader.varint()?);
    let mut optional = |flag: u8| {
        if flags & flag == 0 {
            return Some(0);
        }
        Some(u64::from_le_bytes(reader.take(8)?.try_into().ok()?))
    };
    let (step, operation) = (optional(HAS_STEP)?, optional(HAS_OPERATION)?);
    let (key, ts) = (reader.text()?, reader.text()?);
    read_need(reader, need)?;
    let output_retained = flags & OUTPUT_RETAINED != 0;
    Some(ItemRef {
        position,
        number,
        kind,
        key,
        run_no,
        ts,
        revision,
        output_retained,
        step,
        operation,
        weight,
        need,
    })
}

/// Packs what rows take from a run.
pub fn encode_run_facts(facts: &RunFacts) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(
        facts.turn_id.len()
            + facts.model.as_ref().map_or(0, String::len)
            + facts.lineage.len()
            + 12,
    ));
    out.bytes(facts.turn_id.as_bytes());
    out.bytes(facts.model.as_deref().unwrap_or_default().as_bytes());
    out.bytes(facts.lineage.as_bytes());
    out.0
}

/// Unpacks what [`encode_run_facts`] packed.
///
/// # Errors
/// [`CodecError`] where the bytes do not decode.
pub fn decode_run_facts(bytes: &[u8]) -> Result<RunFacts, CodecError> {
    let mut reader = Reader::new(bytes);
    (|| {
        let turn_id = reader.text()?.to_owned();
        let model = Some(reader.text()?.to_owned()).filter(|model| !model.is_empty());
        let lineage = reader.text()?.to_owned();
        reader.is_empty().then_some(RunFacts {
            turn_id,
            model,
            lineage,
        })
    })()
    .ok_or(CodecError { what: "run" })
}

/// Packs the state that is kept beside a log's head.
pub fn encode_tail(tail: &Tail) -> Vec<u8> {
    let mut out = Writer::default();
    out.varint(tail.runs.len() as u64);
    for run in &tail.runs {
        out.varint(u64::from(run.run_no));
        out.varint(run.next_seq);
        out.bytes(run.turn_id.as_str().as_bytes());
        out.byte(u8::from(run.inline) | u8::from(run.output) << 1);
    }
    out.varint(tail.marks.len() as u64);
    for mark in &tail.marks {
        out.bytes(mark.base.as_bytes());
        out.varint(u64::from(mark.run_no));
        out.byte(mark.lane as u8);
        out.varint(u64::from(mark.index));
        out.varint(mark.ordinal);
    }
    out.varint(tail.requests.len() as u64);
    for request in &tail.requests {
        out.bytes(request.request_id.as_bytes());
        out.varint(u64::from(request.run_no));
        out.varint(request.ordinal);
        out.bytes(request.call.as_deref().unwrap_or_default().as_bytes());
    }
    out.varint(tail.streams.len() as u64);
    for stream in &tail.streams {
        out.varint(stream.opener);
        out.varint(u64::from(stream.run_no));
        out.0.extend_from_slice(&stream.mould.to_le_bytes());
        encode_content(&mut out, stream.content);
    }
    out.0
}

/// Unpacks what [`encode_tail`] packed; no bytes are an empty tail.
///
/// # Errors
/// [`CodecError`] where the bytes do not decode.
pub fn decode_tail(bytes: &[u8]) -> Result<Tail, CodecError> {
    if bytes.is_empty() {
        return Ok(Tail::default());
    }
    let mut reader = Reader::new(bytes);
    read_tail(&mut reader)
        .filter(|_| reader.is_empty())
        .ok_or(CodecError { what: "log" })
}

/// Writes which lane the chunks of a stream are content of.
pub fn encode_content(out: &mut Writer, content: Option<Chunk>) {
    out.byte(u8::from(content.is_some()));
    if let Some(content) = content {
        out.varint(content.position.ordinal);
        out.byte(content.position.slot);
        out.byte(content.lane as u8);
        out.varint(u64::from(content.index));
    }
}

/// Reads what [`encode_content`] wrote; `None` where it does not decode.
pub fn decode_content(reader: &mut Reader<'_>) -> Option<Option<Chunk>> {
    let content = |reader: &mut Reader<'_>| {
        Some(Chunk {
            position: Position {
                ordinal: reader.varint()?,
                slot: reader.byte()?,
            },
            lane: Lane::from_number(reader.byte()?)?,
            index: reader.varint32()?,
        })
    };
    match reader.byte()? {
        0 => Some(None),
        1 => content(reader).map(Some),
        _ => None,
    }
}

fn read_tail(reader: &mut Reader<'_>) -> Option<Tail> {
    let mut tail = Tail::default();
    for _ in 0..reader.varint()? {
        let (run_no, next_seq) = (reader.varint32()?, reader.varint()?);
        let turn_id = TurnId::new(reader.text()?).ok()?;
        let flags = reader.byte()?;
        let (inline, output) = (flags & 1 != 0, flags & 2 != 0);
        tail.runs.push(OpenRun {
            run_no,
            next_seq,
            turn_id,
            inline,
            output,
        });
    }
    for _ in 0..reader.varint()? {
        tail.marks.push(WaitingMark {
            base: reader.text()?.into(),
            run_no: reader.varint32()?,
            lane: Lane::from_number(reader.byte()?)?,
            index: reader.varint32()?,
            ordinal: reader.varint()?,
        });
    }
    for _ in 0..reader.varint()? {
        tail.requests.push(OpenRequest {
            request_id: reader.text()?.into(),
            run_no: reader.varint32()?,
            ordinal: reader.varint()?,
            call: Some(reader.text()?)
                .filter(|call| !call.is_empty())
                .map(Into::into),
        });
    }
    for _ in 0..reader.varint()? {
        tail.streams.push(OpenStream {
            opener: reader.varint()?,
            run_no: reader.varint32()?,
            mould: u64::from_le_bytes(reader.take(8)?.try_into().ok()?),
            content: decode_content(reader)?,
        });
    }
    Some(tail)
}

/// The 64-bit hash under which ids and identities are looked up (XXH3). What
/// is found is always compared in full.
pub fn hash64(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// The checksum of a stored row: XXH3-64 over the numbers of its key and
/// columns as little-endian u64, then the length and the XXH3-64 of each byte
/// string. (One pass over short buffers; streaming state costs more than the
/// hashing itself.)
pub fn sum(numbers: &[u64], bytes: &[&[u8]]) -> u64 {
    let mut words = [0_u8; 8 * 32];
    let parts = bytes
        .iter()
        .flat_map(|part| [part.len() as u64, hash64(part)]);
    let mut used = 0;
    let mut carry = 0;
    for word in numbers.iter().copied().chain(parts) {
        if used == words.len() {
            // Rows are narrower than this; a wider one is folded.
            carry = hash64(&words);
            used = 0;
        }
        words[used..used + 8].copy_from_slice(&(word ^ carry).to_le_bytes());
        used += 8;
    }
    hash64(&words[..used])
}
