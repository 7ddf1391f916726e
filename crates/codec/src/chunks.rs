//! Chunks of one stream in columns.
//!
//! What can be told from its neighbours costs nothing: ordinals and sequences
//! that go on by one, ids that count, moments that are the same. A chunk of an
//! ordinary stream is the length of its text and the time since the one
//! before, two bytes; the text stands behind the columns, or is borrowed.

use crate::CodecError;
use crate::bytes::{Reader, Writer};
use crate::mould::Cut;

/// A chunk: where it stands, and what differs from its neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its place in the session.
    pub ordinal: u64,
    /// Its place in its run.
    pub run_seq: u64,
    /// When it was committed, in milliseconds since 1970.
    pub committed_at: u64,
    /// The id of the event.
    pub id: String,
    /// Its time, as written.
    pub ts: String,
    /// Its text between the quotes, escaped.
    pub text: String,
}

impl Chunk {
    /// What a mould casts an event of.
    pub fn cut(&self) -> Cut<'_> {
        Cut {
            id: &self.id,
            ts: &self.ts,
            text: &self.text,
        }
    }
}

const IDS_COUNT: u8 = 0;
const IDS_EACH: u8 = 1;
const TIMES_WHOLE: u8 = 0;
const TIMES_EACH: u8 = 1;

/// Packs chunks, ascending by ordinal, into columns and their text.
pub fn encode_chunks(chunks: &[Chunk]) -> (Vec<u8>, String) {
    let mut out = Writer::default();
    out.varint(chunks.len() as u64);
    steps(&mut out, chunks.iter().map(|chunk| chunk.ordinal));
    steps(&mut out, chunks.iter().map(|chunk| chunk.run_seq));
    steps(&mut out, chunks.iter().map(|chunk| chunk.committed_at));
    ids(&mut out, chunks);
    times(&mut out, chunks);
    for chunk in chunks {
        out.varint(chunk.text.len() as u64);
    }
    let text = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
    (out.0, text)
}

/// Unpacks what [`encode_chunks`] packed.
///
/// # Errors
/// [`CodecError`] where columns and text do not decode.
pub fn decode_chunks(columns: &[u8], text: &str) -> Result<Vec<Chunk>, CodecError> {
    decode(columns, text).ok_or(CodecError { what: "segment" })
}

/// The bytes of text behind columns; `None` where they do not decode.
pub fn chunks_len(columns: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(columns);
    let count = usize::try_from(reader.varint()?).ok()?;
    if count > columns.len() {
        return None;
    }
    for _ in 0..3 {
        read_steps(&mut reader, count)?;
    }
    read_ids(&mut reader, count)?;
    read_times(&mut reader, count)?;
    (0..count).try_fold(0_usize, |len, _| {
        len.checked_add(usize::try_from(reader.varint()?).ok()?)
    })
}

fn decode(columns: &[u8], text: &str) -> Option<Vec<Chunk>> {
    let mut reader = Reader::new(columns);
    let count = usize::try_from(reader.varint()?).ok()?;
    // Each has a byte at least, so this is no promise that input can break.
    if count > columns.len() {
        return None;
    }
    let ordinals = read_steps(&mut reader, count)?;
    let sequences = read_steps(&mut reader, count)?;
    let moments = read_steps(&mut reader, count)?;
    let ids = read_ids(&mut reader, count)?;
    let times = read_times(&mut reader, count)?;
    let mut rest = text;
    let mut chunks = Vec::with_capacity(count);
    let columns = ordinals
        .into_iter()
        .zip(sequences)
        .zip(moments)
        .zip(ids)
        .zip(times);
    for ((((ordinal, run_seq), committed_at), id), ts) in columns {
        let len = usize::try_from(reader.varint()?).ok()?;
        let (own, behind) = rest.split_at_checked(len)?;
        rest = behind;
        chunks.push(Chunk {
            ordinal,
            run_seq,
            committed_at,
            id,
            ts,
            text: own.to_owned(),
        });
    }
    (reader.is_empty() && rest.is_empty()).then_some(chunks)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// The first number, then how many steps of what size follow each other.
fn steps(out: &mut Writer, mut numbers: impl Iterator<Item = u64>) {
    let Some(mut last) = numbers.next() else {
        return;
    };
    out.varint(last);
    let mut run: Option<(u64, u64)> = None;
    for number in numbers {
        let step = zigzag(number.wrapping_sub(last).cast_signed());
        last = number;
        match &mut run {
            Some((size, times)) if *size == step => *times += 1,
            _ => {
                if let Some((size, times)) = run.replace((step, 1)) {
                    out.varint(times);
                    out.varint(size);
                }
            }
        }
    }
    if let Some((size, times)) = run {
        out.varint(times);
        out.varint(size);
    }
}

fn read_steps(reader: &mut Reader<'_>, count: usize) -> Option<Vec<u64>> {
    let mut numbers = Vec::with_capacity(count);
    if count == 0 {
        return Some(numbers);
    }
    let mut last = reader.varint()?;
    numbers.push(last);
    while numbers.len() < count {
        let times = usize::try_from(reader.varint()?).ok()?;
        let step = unzigzag(reader.varint()?).cast_unsigned();
        if times == 0 || times > count - numbers.len() {
            return None;
        }
        for _ in 0..times {
            last = last.wrapping_add(step);
            numbers.push(last);
        }
    }
    Some(numbers)
}

/// The stem and the number of an id that counts: `<stem>#<n>`, the number
/// written as numbers are.
pub fn counted(id: &str) -> Option<(&str, u64)> {
    let (stem, digits) = id.rsplit_once('#')?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    let number = digits.parse().ok()?;
    plain.then_some((stem, number))
}

fn ids(out: &mut Writer, chunks: &[Chunk]) {
    let stem = chunks.first().and_then(|chunk| counted(&chunk.id));
    let numbers: Option<Vec<u64>> = stem.and_then(|(stem, _)| {
        let number = |chunk: &Chunk| {
            let of = counted(&chunk.id).filter(|(of, _)| *of == stem);
            of.map(|(_, number)| number)
        };
        chunks.iter().map(number).collect()
    });
    if let (Some((stem, _)), Some(numbers)) = (stem, numbers) {
        out.byte(IDS_COUNT);
        out.bytes(stem.as_bytes());
        steps(out, numbers.into_iter());
    } else {
        out.byte(IDS_EACH);
        for chunk in chunks {
            out.bytes(chunk.id.as_bytes());
        }
    }
}

fn read_ids(reader: &mut Reader<'_>, count: usize) -> Option<Vec<String>> {
    match reader.byte()? {
        IDS_COUNT => {
            let stem = reader.text()?;
            let numbers = read_steps(reader, count)?;
            Some(
                numbers
                    .into_iter()
                    .map(|number| format!("{stem}#{number}"))
                    .collect(),
            )
        }
        IDS_EACH => (0..count)
            .map(|_| reader.text().map(str::to_owned))
            .collect(),
        _ => None,
    }
}

/// Times are whole milliseconds, nearly always.
fn times(out: &mut Writer, chunks: &[Chunk]) {
    let whole = |ts: &str| ts.parse::<i64>().ok().filter(|n| n.to_string() == ts);
    let all: Option<Vec<i64>> = chunks.iter().map(|chunk| whole(&chunk.ts)).collect();
    if let Some(all) = all {
        out.byte(TIMES_WHOLE);
        let mut last = 0_i64;
        for time in all {
            out.varint(zigzag(time.wrapping_sub(last)));
            last = time;
        }
    } else {
        out.byte(TIMES_EACH);
        for chunk in chunks {
            out.bytes(chunk.ts.as_bytes());
        }
    }
}

fn read_times(reader: &mut Reader<'_>, count: usize) -> Option<Vec<String>> {
    match reader.byte()? {
        TIMES_WHOLE => {
            let mut last = 0_i64;
            (0..count)
                .map(|_| {
                    last = last.wrapping_add(unzigzag(reader.varint()?));
                    Some(last.to_string())
                })
                .collect()
        }
        TIMES_EACH => (0..count)
            .map(|_| reader.text().map(str::to_owned))
            .collect(),
        _ => None,
    }
}
