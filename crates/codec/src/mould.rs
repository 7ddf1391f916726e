//! The mould of a stream: one of its chunks, with holes for what differs.
//!
//! The chunks of a stream differ in id, time and text, and in nothing else. So
//! one whole event stands for all of them, and a chunk is what is cut out of
//! the holes. An event is a chunk of a stream only if casting what was cut
//! gives back its stored form byte for byte.

use crate::bytes::{Reader, Writer};
use crate::row::{FORM_SLICED, has_branch, has_origin, has_status, has_visibility, is_partial};
use folio_core::Field;
use folio_core::view::PACKED_PLACE;
use std::ops::Range;

/// A stored event seen as a mould.
#[derive(Debug, Clone, Copy)]
pub struct Mould<'a> {
    /// Flags, roles, status.
    head: &'a [u8],
    /// Branch, origin and visibility, where the event has them.
    lanes: &'a [u8],
    fields: &'a [u8],
    refs_len: u64,
    /// The canonical text up to the hole, and behind it: the quotes of what is
    /// cut out stand here.
    before: &'a str,
    after: &'a str,
    /// Where the hole begins.
    hole: u32,
    /// How long it is.
    len: u32,
}

/// What is cut out of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut<'a> {
    /// The id of the event.
    pub id: &'a str,
    /// Its time, as written.
    pub ts: &'a str,
    /// Its text between the quotes, escaped as it stands in the event.
    pub text: &'a str,
}

impl<'a> Mould<'a> {
    /// The mould of a stored event, and what it has in the holes; `None` where
    /// the event is no chunk of a text.
    pub fn of(form: u8, body: &'a [u8]) -> Option<(Self, Cut<'a>)> {
        if form != FORM_SLICED {
            return None;
        }
        let mut reader = Reader::new(body);
        let flags = *body.first()?;
        let head = reader.take(2 + usize::from(has_status(flags)))?;
        let (id, ts) = (reader.text()?, reader.text()?);
        let lanes = &body[body.len() - reader.len()..];
        for has in [has_branch(flags), has_origin(flags), has_visibility(flags)] {
            if has {
                reader.bytes()?;
            }
        }
        let lanes = &lanes[..lanes.len() - reader.len()];
        let fields = reader.bytes()?;
        let refs_len = reader.varint()?;
        let text = reader.text()?;
        let hole = hole(fields, text)?;
        let mould = Self {
            head,
            lanes,
            fields,
            refs_len,
            before: text.get(..hole.start)?,
            after: text.get(hole.end..)?,
            hole: u32::try_from(hole.start).ok()?,
            len: u32::try_from(hole.len()).ok()?,
        };
        let refs_end = usize::try_from(refs_len).ok()?;
        let fits = reader.is_empty() && is_partial(flags) && refs_end <= hole.start;
        let text = text.get(hole)?;
        fits.then_some((mould, Cut { id, ts, text }))
    }

    /// Tells moulds apart, nearly always: equal ones have equal fingerprints.
    pub fn fingerprint(&self) -> u64 {
        let texts = [self.before.as_bytes(), self.after.as_bytes()];
        crate::row::sum(
            &[self.refs_len],
            &[self.head, self.lanes, texts[0], texts[1]],
        )
    }

    /// What is cut out of another stored event, if it is cast from this mould.
    pub fn cut<'e>(&self, form: u8, body: &'e [u8]) -> Option<Cut<'e>> {
        let (theirs, cut) = Mould::of(form, body)?;
        let same = (self.head, self.lanes, self.refs_len)
            == (theirs.head, theirs.lanes, theirs.refs_len)
            && (self.before, self.after) == (theirs.before, theirs.after);
        (same && self.cast(&cut).as_deref() == Some(body)).then_some(cut)
    }

    /// The stored event with these in the holes; `None` where they are too
    /// long to be told from there.
    pub fn cast(&self, cut: &Cut<'_>) -> Option<Vec<u8>> {
        let text_len = self.before.len() + cut.text.len() + self.after.len();
        let mut out = Writer(Vec::with_capacity(
            text_len + self.fields.len() + self.lanes.len() + cut.id.len() + 64,
        ));
        out.0.extend_from_slice(self.head);
        out.bytes(cut.id.as_bytes());
        out.bytes(cut.ts.as_bytes());
        out.0.extend_from_slice(self.lanes);
        out.varint(self.fields.len() as u64);
        let len = u32::try_from(cut.text.len()).ok()?;
        for place in self.fields.chunks_exact(PACKED_PLACE) {
            let (number, mut at, mut length) = read_place(place)?;
            if at > self.hole {
                at = at.checked_sub(self.len)?.checked_add(len)?;
            } else if at.checked_add(length)? > self.hole {
                length = length.checked_sub(self.len)?.checked_add(len)?;
            }
            out.byte(number);
            for value in [at, length] {
                let [a, b, c, 0] = value.to_le_bytes() else {
                    return None;
                };
                out.0.extend([a, b, c]);
            }
        }
        out.varint(self.refs_len);
        out.varint(text_len as u64);
        for piece in [self.before, cut.text, self.after] {
            out.0.extend_from_slice(piece.as_bytes());
        }
        Some(out.0)
    }
}

fn read_place(place: &[u8]) -> Option<(u8, u32, u32)> {
    let [number, a, b, c, d, e, f] = *place else {
        return None;
    };
    let whole = |a, b, c| u32::from_le_bytes([a, b, c, 0]);
    Some((number, whole(a, b, c), whole(d, e, f)))
}

/// How a tool's output begins that is a text with its kind.
const OUTPUT: &str = r#"{"kind":"text","text":""#;

/// Where the text of a chunk stands, without its quotes: what a model says or
/// thinks, the arguments of a call, the output of a tool.
fn hole(fields: &[u8], text: &str) -> Option<Range<usize>> {
    let holes = [Field::Text, Field::Args, Field::Result].map(|field| field as u8);
    let mut places = fields.chunks_exact(PACKED_PLACE).filter_map(read_place);
    let (_, at, len) = places.find(|(number, ..)| holes.contains(number))?;
    let (start, end) = (at as usize, (at as usize).checked_add(len as usize)?);
    let raw = text.get(start..end)?;
    let (before, after) = if raw.starts_with('"') {
        (1, "\"")
    } else {
        raw.starts_with(OUTPUT).then_some((OUTPUT.len(), "\"}"))?
    };
    let inner = raw.get(before..)?.strip_suffix(after)?;
    Some(start + before..start + before + inner.len())
}
