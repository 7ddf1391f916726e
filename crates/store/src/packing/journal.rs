//! The commit journal: chunks that are committed and not yet in the rows of
//! their logs.
//!
//! A commit of chunks alone writes one row, for all sessions in it. The newest
//! entry for a log says where the log stands; [`Journal`] keeps what the journal
//! holds, by log, so that a reader reads only the rows that came since.

use crate::StoreError;
use crate::engine::Snapshot;
use folio_codec::{Chunk, Digest, Reader, Writer, counted, decode_chunks, encode_chunks};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Chunks of one stream in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The ordinal of the event that opened the stream.
    pub(super) opener: u64,
    /// The run.
    pub(super) run_no: u32,
    /// The chunks, ascending.
    pub(super) chunks: Vec<Chunk>,
    /// The bytes of their text.
    pub(super) bytes: u64,
    /// The least and the greatest number where all ids count from one stem.
    numbers: Option<(u64, u64)>,
}

impl Part {
    /// Chunks of a stream, ascending.
    pub(super) fn new(opener: u64, run_no: u32, chunks: Vec<Chunk>) -> Self {
        let number = |chunk: &Chunk| counted(&chunk.id).map(|(_, number)| number);
        let stem = chunks.first().and_then(|chunk| counted(&chunk.id));
        let one = |(stem, _): &(&str, u64)| {
            let same = |chunk: &Chunk| counted(&chunk.id).is_some_and(|(of, _)| of == *stem);
            chunks.iter().all(same)
        };
        let numbers = stem.filter(one).and_then(|_| {
            let numbers = || chunks.iter().filter_map(number);
            numbers().min().zip(numbers().max())
        });
        Self {
            opener,
            run_no,
            bytes: chunks.iter().map(|chunk| chunk.text.len() as u64).sum(),
            chunks,
            numbers,
        }
    }

    /// The ordinal of the chunk with an id, whose stem and number are given
    /// where it counts.
    pub(super) fn find(&self, id: &str, count: Option<(&str, u64)>) -> Option<u64> {
        let may_have = match (self.numbers, count) {
            (Some((low, high)), Some((_, number))) => (low..=high).contains(&number),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let mut chunks = self.chunks.iter().filter(|_| may_have);
        chunks
            .find(|chunk| chunk.id == id)
            .map(|chunk| chunk.ordinal)
    }

    /// The ordinals of its first and last chunk.
    pub(super) fn ends(&self) -> (u64, u64) {
        let ordinal = |chunk: Option<&Chunk>| chunk.map_or(0, |chunk| chunk.ordinal);
        (ordinal(self.chunks.first()), ordinal(self.chunks.last()))
    }
}

/// What a commit added to a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The log.
    pub(super) log_no: u64,
    /// Its head afterwards.
    pub(super) head: u64,
    /// The chain at the head.
    pub(super) chain: Digest,
    /// The chunks, by stream.
    pub(super) parts: Vec<Part>,
}

/// Packs what one commit added.
pub(super) fn encode_commit(entries: &[Arc<Entry>]) -> Vec<u8> {
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
pub(super) fn decode_commit(bytes: &[u8]) -> Result<Vec<Entry>, StoreError> {
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
                Ok(chunks) => parts.push(Part::new(opener, run_no, chunks)),
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

/// Bytes of text of one log that are moved into segments at once: they fill one.
const HEAVY: u64 = 16 << 10;

/// What a process knows of the journal, so that it reads only the rows that
/// came since it last looked.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The first number that is known; what was before it is forgotten.
    first: u64,
    /// The last number that is known.
    last: u64,
    /// The sizes of the rows.
    rows: VecDeque<(u64, usize)>,
    bytes: usize,
    logs: HashMap<u64, Vec<Numbered>>,
    /// Logs that have more text than [`HEAVY`] in the journal.
    heavy: BTreeSet<u64>,
}

/// What a commit added to a log, with the number of its row.
pub(super) type Numbered = (u64, Arc<Entry>);

impl Journal {
    fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a state has added to a log behind a number, ascending.
    pub(super) fn of(
        &self,
        state: &dyn Snapshot,
        (first, last): (u64, u64),
        log_no: u64,
        drained: u64,
    ) -> Result<Vec<Numbered>, StoreError> {
        self.follow(state, first, last)?;
        let needed = first.max(drained + 1);
        let known = self.with(|known| {
            (needed >= known.first).then(|| {
                let entries = known.logs.get(&log_no).map_or(&[][..], Vec::as_slice);
                let from = entries.partition_point(|(seq, _)| *seq < needed);
                let upto = entries.partition_point(|(seq, _)| *seq <= last);
                entries.get(from..upto).unwrap_or_default().to_vec()
            })
        });
        if let Some(known) = known {
            return Ok(known);
        }
        // An older state than what is known.
        let mut found = Vec::new();
        for row in state.commits(needed - 1)? {
            let entries = decode_commit(&row.body)?.into_iter();
            let own = entries.filter(|entry| entry.log_no == log_no);
            found.extend(own.map(|entry| (row.seq, Arc::new(entry))));
        }
        Ok(found)
    }

    /// Reads what a state has and is not known yet.
    pub(super) fn follow(
        &self,
        state: &dyn Snapshot,
        first: u64,
        last: u64,
    ) -> Result<(), StoreError> {
        let behind = self.with(|known| (known.last < last).then_some(known.last));
        let Some(behind) = behind else { return Ok(()) };
        let rows = state.commits(behind)?;
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| Ok((row.seq, row.body.len(), decode_commit(&row.body)?)))
            .collect::<Result<_, StoreError>>()?;
        self.with(|known| {
            for (seq, bytes, entries) in rows {
                // Somebody may have read it meanwhile.
                if seq > known.last {
                    known.add(seq, bytes, entries.into_iter().map(Arc::new));
                }
            }
            known.forget(first);
        });
        Ok(())
    }

    /// Learns a row that this process has committed, behind the last one.
    pub(super) fn committed(&self, seq: u64, bytes: usize, entries: Vec<Arc<Entry>>) {
        self.with(|known| {
            if seq > known.last {
                known.add(seq, bytes, entries.into_iter());
            }
        });
    }

    /// Forgets the rows before a number.
    pub(super) fn forget(&self, first: u64) {
        self.with(|known| known.forget(first));
    }

    /// Rows and bytes of the journal.
    pub(super) fn size(&self) -> (usize, usize) {
        self.with(|known| (known.rows.len(), known.bytes))
    }

    /// The logs that have something in the journal, each with the number of
    /// its first row, the oldest first.
    pub(super) fn logs(&self) -> Vec<(u64, u64)> {
        let mut logs: Vec<_> = self.with(|known| {
            let first = |entries: &Vec<Numbered>| entries.first().map(|(seq, _)| *seq);
            let logs = known.logs.iter();
            logs.filter_map(|(log, entries)| Some((first(entries)?, *log)))
                .collect()
        });
        logs.sort_unstable();
        logs
    }

    /// Logs that have so much in the journal that it fills segments.
    pub(super) fn heavy(&self, limit: usize) -> Vec<u64> {
        self.with(|known| known.heavy.iter().copied().take(limit).collect())
    }

    /// Forgets what is in the rows of a log by now.
    pub(super) fn drained(&self, log_no: u64, through: u64) {
        self.with(|known| {
            known.heavy.remove(&log_no);
            if let Some(entries) = known.logs.get_mut(&log_no) {
                entries.retain(|(seq, _)| *seq > through);
                if entries.is_empty() {
                    known.logs.remove(&log_no);
                }
            }
        });
    }
}

impl Known {
    fn add(&mut self, seq: u64, bytes: usize, entries: impl Iterator<Item = Arc<Entry>>) {
        if self.rows.is_empty() {
            self.first = seq;
        }
        for entry in entries {
            let log_no = entry.log_no;
            let own = self.logs.entry(log_no).or_default();
            own.push((seq, entry));
            let parts = own.iter().flat_map(|(_, entry)| &entry.parts);
            if parts.map(|part| part.bytes).sum::<u64>() >= HEAVY {
                self.heavy.insert(log_no);
            }
        }
        self.rows.push_back((seq, bytes));
        self.bytes += bytes;
        self.last = seq;
    }

    fn forget(&mut self, first: u64) {
        let mut gone = false;
        while let Some((seq, bytes)) = self.rows.front().copied().filter(|(seq, _)| *seq < first) {
            gone |= seq < first;
            self.bytes -= bytes;
            self.rows.pop_front();
        }
        self.first = self.first.max(first);
        if gone {
            self.logs.retain(|_, entries| {
                entries.retain(|(seq, _)| *seq >= first);
                !entries.is_empty()
            });
        }
    }
}
