//! The stored form of an event whose text segments borrow.
//!
//! When a stream settles, its text stands in the final event too. The final
//! keeps it, compressed, and knows the segments that borrow from it, so that
//! they get it back before it goes.

use crate::CodecError;
use crate::bytes::{Reader, Writer};

/// The form of such an event.
pub const FORM_LENDING: u8 = 5;

/// The level of zstd: its default.
const LEVEL: i32 = 3;

/// An event and the segments that borrow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lending {
    /// The first ordinals of the segments, ascending.
    pub borrowers: Vec<u64>,
    /// The form of the event itself.
    pub form: u8,
    /// The event itself.
    pub body: Vec<u8>,
}

/// Packs an event that lends.
///
/// # Errors
/// [`CodecError`] where it cannot be compressed.
pub fn encode_lending(lending: &Lending) -> Result<Vec<u8>, CodecError> {
    let packed = zstd::bulk::compress(&lending.body, LEVEL).map_err(|_| FAILED)?;
    let mut out = Writer(Vec::with_capacity(packed.len() + 64));
    out.varint(lending.borrowers.len() as u64);
    let mut last = 0;
    for borrower in &lending.borrowers {
        out.varint(borrower.wrapping_sub(last));
        last = *borrower;
    }
    out.byte(lending.form);
    out.varint(lending.body.len() as u64);
    out.0.extend_from_slice(&packed);
    Ok(out.0)
}

/// Unpacks what [`encode_lending`] packed.
///
/// # Errors
/// [`CodecError`] where it does not decode.
pub fn decode_lending(bytes: &[u8]) -> Result<Lending, CodecError> {
    let mut reader = Reader::new(bytes);
    let (borrowers, form, len) = read_head(&mut reader).ok_or(FAILED)?;
    let body = zstd::bulk::decompress(reader.rest(), len).map_err(|_| FAILED)?;
    if body.len() != len {
        return Err(FAILED);
    }
    Ok(Lending {
        borrowers,
        form,
        body,
    })
}

const FAILED: CodecError = CodecError {
    what: "event that lends its text",
};

fn read_head(reader: &mut Reader<'_>) -> Option<(Vec<u64>, u8, usize)> {
    let mut borrowers = Vec::new();
    let mut last = 0_u64;
    for _ in 0..reader.varint()? {
        last = last.checked_add(reader.varint()?)?;
        borrowers.push(last);
    }
    let form = reader.byte()?;
    let len = usize::try_from(reader.varint()?).ok()?;
    // Text does not compress further than this; more is no promise to keep.
    (len <= reader.len().saturating_mul(40_000)).then_some((borrowers, form, len))
}
