//! The bytes that Folio keeps.
//!
//! Digests and the chain are defined over canonical text and know nothing of
//! sessions, stores or row layouts; the stored forms of rows reproduce that
//! text exactly. Everything here is fixed by golden files: a new form may
//! stand beside an old one, never in its place.

mod bytes;
mod chunks;
mod digest;
mod lending;
mod mould;
mod row;

pub use bytes::{Reader, Writer};
pub use chunks::{Chunk, chunks_len, counted, decode_chunks, encode_chunks};
pub use digest::{
    Digest, EMPTY_CHAIN, body_digest, chain_next, event_digest, fact_digest, facts_chain_next, lp,
    nonce, sha256, spliced_digest,
};
pub use lending::{FORM_LENDING, Lending, decode_lending, encode_lending};
pub use mould::{Cut, Mould};
pub use row::{
    FORM_SCANNED, FORM_SLICED, FORM_STORED, FORM_WITHHELD, SEG_FORM_WHOLE, borrow_item,
    decode_content, decode_event, decode_item, decode_need, decode_run_facts, decode_tail,
    encode_content, encode_event, encode_item, encode_need, encode_run_facts, encode_tail, hash64,
    sum,
};

/// The version of the stored forms. A store keeps it and refuses a newer one.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes that do not decode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a stored {what} does not decode")]
pub struct CodecError {
    /// What was to be decoded.
    pub what: &'static str,
}
