//! The commit journal: chunks that are committed and not yet in the rows of
//! their logs.
//!
//! A commit of chunks alone writes one row, for all sessions in it. The newest
//! entry for a log says where the log stands; [`Live`] keeps what the journal
//! holds, by log, so that a reader reads only the rows that came since.

use crate::StoreError;
use crate::rows::CommitRow;
use folio_codec::{Chunk, Digest, Reader, Writer, decode_chunks, encode_chunks};
use std::collections::HashMap;
use std::sync::Arc;

/// Chunks of one stream in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The ordinal of the event that opened the stream.
    pub opener: u64,
    /// The run.
    pub run_no: u32,
    /// The chunks, ascending.
    pub chunks: Vec<Chunk>,
}

impl Part {
    /// The ordinals of its first and last chunk.
    pub fn ends(&self) -> (u64, u64) {
        let ordinal = |chunk: Option<&Chunk>| chunk.map_or(0, |chunk| chunk.ordinal);
        (ordinal(self.chunks.first()), ordinal(self.chunks.last()))
    }
}

/// What a commit added to a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The log.
    pub log_no: u64,
    /// Its head afterwards.
    pub head: u64,
    /// The chain at the head.
    pub chain: Digest,
    /// The chunks, by stream.
    pub parts: Vec<Part>,
}

/// Packs what one commit added.
pub fn encode_commit(entries: &[Entry]) -> Vec<u8> {
    let mut out = Writer::default();
    out.varint(entries.len() as u64);
    for entry in entries {
        out.varint(entry.log_no);
        out.varint(entry.head);
        out.0.extend_from_slice(&entry.chain);
        out.varint(entry.parts.len() as u64);
        for part in &entry.parts {
            out.varint(part.opener);
            out.varint(u64::from(part.run_no));
            let (columns, text) = encode_chunks(&part.chunks);
            out.bytes(&columns);
            out.bytes(text.as_bytes());
        }
    }
    out.0
}

/// Unpacks what [`encode_commit`] packed.
///
/// # Errors
/// `undecodable`.
pub fn decode_commit(bytes: &[u8]) -> Result<Vec<Entry>, StoreError> {
    let mut reader = Reader::new(bytes);
    let entries = read_commit(&mut reader).transpose()?;
    entries.filter(|_| reader.is_empty()).ok_or_else(|| {
        let message = "a row of the commit journal does not decode: the store is damaged, or a \
                       newer build wrote it";
        StoreError::corrupt("undecodable", message)
    })
}

fn read_commit(reader: &mut Reader<'_>) -> Option<Result<Vec<Entry>, StoreError>> {
    let mut entries = Vec::new();
    for _ in 0..reader.varint()? {
        let (log_no, head) = (reader.varint()?, reader.varint()?);
        let chain = reader.take(32)?.try_into().ok()?;
        let mut parts = Vec::new();
        for _ in 0..reader.varint()? {
            let (opener, run_no) = (reader.varint()?, reader.varint32()?);
            let (columns, text) = (reader.bytes()?, reader.text()?);
            match decode_chunks(columns, text) {
                Ok(chunks) => parts.push(Part {
                    opener,
                    run_no,
                    chunks,
                }),
                Err(error) => return Some(Err(error.into())),
            }
        }
        entries.push(Entry {
            log_no,
            head,
            chain,
            parts,
        });
    }
    Some(Ok(entries))
}

/// What the journal holds, by log.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// The last row that is in here.
    pub seq: u64,
    logs: HashMap<u64, Vec<(u64, Arc<Entry>)>>,
}

impl Live {
    /// Adds rows that came since, ascending.
    ///
    /// # Errors
    /// `undecodable`.
    pub fn advance(&mut self, rows: &[CommitRow]) -> Result<(), StoreError> {
        for row in rows {
            for entry in decode_commit(&row.body)? {
                let entries = self.logs.entry(entry.log_no).or_default();
                entries.push((row.seq, Arc::new(entry)));
            }
            self.seq = row.seq;
        }
        Ok(())
    }

    /// Forgets rows that are no longer in the journal: those below `first`.
    pub fn forget(&mut self, first: u64) {
        self.logs.retain(|_, entries| {
            entries.retain(|(seq, _)| *seq >= first);
            !entries.is_empty()
        });
    }

    /// What was added to a log and is not in its rows, ascending.
    pub fn of(&self, log_no: u64, drained_seq: u64) -> &[(u64, Arc<Entry>)] {
        let entries = self.logs.get(&log_no).map_or(&[][..], Vec::as_slice);
        let drained = entries.partition_point(|(seq, _)| *seq <= drained_seq);
        entries.get(drained..).unwrap_or_default()
    }
}
