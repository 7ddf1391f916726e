//! Chunks apart from where they are kept: cut into segments, opened, cast into
//! events.

use super::journal::{Entry, Part};
use crate::StoreError;
use crate::rows::{EventRow, IdRunRow, PackRow, PackText, SegRow};
use folio_codec::{
    Chunk, Digest, EMPTY_CHAIN, FORM_SLICED, Mould, counted, decode_chunks, encode_chunks, hash64,
};
use folio_core::item::{LanePart, Position};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// A segment spans fewer ordinals than this, so that a range of events needs
/// none that begins further below it.
pub(super) const SPAN: u64 = 4_096;
/// The most chunks of a segment.
const MAX_CHUNKS: usize = 3_000;
/// The most bytes of text of a segment of more than one chunk.
const MAX_TEXT: usize = 16 << 10;
/// How many ordinals stand between chains that segments keep, at least.
const MARKS: u64 = 256;

/// A segment, decoded.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) row: PackRow,
    pub(super) chunks: Vec<Chunk>,
}

/// Decodes a segment; `None` where something of it is damaged. `lent` reads
/// the stored form of an event that lends its text.
pub(super) fn open(
    row: PackRow,
    lent: impl Fn(u64) -> Result<Option<Vec<u8>>, StoreError>,
) -> Result<Option<Opened>, StoreError> {
    let chunks = match row.text {
        PackText::Own => decode_chunks(&row.columns, &row.own).ok(),
        PackText::Of(ordinal, at) => lent(ordinal)?.and_then(|body| {
            let at = usize::try_from(at).ok()?;
            // How long the text is stand in the columns.
            let len = folio_codec::chunks_len(&row.columns)?;
            let text = body.get(at..at.checked_add(len)?)?;
            decode_chunks(&row.columns, std::str::from_utf8(text).ok()?).ok()
        }),
    };
    let fits = |chunks: &Vec<Chunk>| {
        let ends = (chunks.first(), chunks.last());
        matches!(ends, (Some(a), Some(b)) if (a.ordinal, b.ordinal) == (row.first, row.last))
    };
    Ok(chunks.filter(fits).map(|chunks| Opened { row, chunks }))
}

impl Opened {
    /// The chunks between two ordinals, both included.
    pub(super) fn between(&self, from: u64, to: u64) -> Range<usize> {
        let low = self.chunks.partition_point(|chunk| chunk.ordinal < from);
        let high = self.chunks.partition_point(|chunk| chunk.ordinal <= to);
        low..high.max(low)
    }

    /// The chunks that a row of an index stands for, if they are in here.
    pub(super) fn seg_chunks(&self, seg: &SegRow) -> Option<Vec<SegRow>> {
        let at = |ordinal| {
            self.chunks
                .binary_search_by_key(&ordinal, |chunk| chunk.ordinal)
        };
        let chunks = self.chunks.get(at(seg.seg).ok()?..=at(seg.last).ok()?)?;
        let segs = each(chunks, seg.position, seg.lane, seg.before);
        Some(segs.collect())
    }

    /// The text of all chunks.
    pub(super) fn text(&self) -> String {
        text(&self.chunks)
    }

    /// The rows of an index that say where its ids are: those that count, and
    /// the hashes of the others with their ordinals.
    pub(super) fn ids(&self) -> (Vec<IdRunRow>, Vec<(u64, u64)>) {
        ids(&self.chunks)
    }
}

fn text(chunks: &[Chunk]) -> String {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}

/// See [`Opened::ids`].
pub(super) fn ids(chunks: &[Chunk]) -> (Vec<IdRunRow>, Vec<(u64, u64)>) {
    let pack = chunks.first().map_or(0, |chunk| chunk.ordinal);
    let mut runs: Vec<IdRunRow> = Vec::new();
    let mut others = Vec::new();
    for chunk in chunks {
        let Some((stem, number)) = counted(&chunk.id) else {
            others.push((hash64(chunk.id.as_bytes()), chunk.ordinal));
            continue;
        };
        match runs.last_mut() {
            Some(run)
                if run.stem == stem && run.first.checked_add(u64::from(run.n)) == Some(number) =>
            {
                run.n += 1;
            }
            _ => runs.push(IdRunRow {
                stem: stem.to_owned(),
                first: number,
                n: 1,
                pack,
            }),
        }
    }
    (runs, others)
}

/// Where chunks of a lane stand, one after another.
fn each<'a>(
    chunks: impl IntoIterator<Item = &'a Chunk>,
    position: Position,
    lane: LanePart,
    mut before: u64,
) -> impl Iterator<Item = SegRow> {
    chunks.into_iter().map(move |chunk| {
        let bytes = chunk.text.len() as u64;
        before += bytes;
        SegRow {
            position,
            lane,
            before: before - bytes,
            bytes,
            seg: chunk.ordinal,
            n: 1,
            last: chunk.ordinal,
        }
    })
}

/// Where the live chunks of a lane stand whose stored text ends at `end`.
pub(super) fn segs<'a>(
    parts: impl Iterator<Item = &'a Part>,
    position: Position,
    lane: LanePart,
    end: u64,
) -> impl Iterator<Item = SegRow> {
    each(parts.flat_map(|part| &part.chunks), position, lane, end)
}

/// The last of them at or below an ordinal.
pub(super) fn last_seg<'a>(
    parts: impl Iterator<Item = &'a Part>,
    position: Position,
    lane: LanePart,
    mut end: u64,
    through: u64,
) -> Option<SegRow> {
    let mut last = None;
    for part in parts.take_while(|part| part.ends().0 <= through) {
        last = Some((part, end));
        end += part.bytes;
    }
    let (part, end) = last?;
    each(&part.chunks, position, lane, end)
        .take_while(|seg| seg.seg <= through)
        .last()
}

/// A chunk and where it was found.
#[derive(Debug)]
pub(super) enum Piece {
    Packed {
        ordinal: u64,
        pack: Rc<Opened>,
        at: usize,
    },
    Live {
        ordinal: u64,
        entry: Arc<Entry>,
        part: usize,
        at: usize,
    },
    /// A segment that begins here is damaged.
    Damaged(u64),
}

impl Piece {
    pub(super) fn ordinal(&self) -> u64 {
        match self {
            Self::Packed { ordinal, .. } | Self::Live { ordinal, .. } | Self::Damaged(ordinal) => {
                *ordinal
            }
        }
    }

    /// The opener of its stream, its run, itself.
    pub(super) fn chunk(&self) -> Option<(u64, u32, &Chunk)> {
        match self {
            Self::Packed { pack, at, .. } => {
                let (row, chunk) = (&pack.row, pack.chunks.get(*at)?);
                Some((row.opener, row.run_no, chunk))
            }
            Self::Live {
                entry, part, at, ..
            } => {
                let part = entry.parts.get(*part)?;
                Some((part.opener, part.run_no, part.chunks.get(*at)?))
            }
            Self::Damaged(_) => None,
        }
    }

    /// The chain at it, where that is stored.
    pub(super) fn chain(&self) -> Option<Digest> {
        match self {
            Self::Packed { ordinal, pack, .. } => {
                let marks = &pack.row.marks;
                let at = marks.binary_search_by_key(ordinal, |(at, _)| *at).ok()?;
                marks.get(at).map(|(_, chain)| *chain)
            }
            Self::Live { ordinal, entry, .. } => (entry.head == *ordinal).then_some(entry.chain),
            Self::Damaged(_) => None,
        }
    }
}

/// The live chunks between two ordinals, both included.
pub(super) fn live(entries: &[Arc<Entry>], from: u64, to: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut before = 0;
    for entry in entries {
        let skips = entry.head < from || before >= to;
        before = entry.head;
        if skips {
            continue;
        }
        for (part, chunks) in entry.parts.iter().enumerate() {
            for (at, chunk) in chunks.chunks.iter().enumerate() {
                if (from..=to).contains(&chunk.ordinal) {
                    pieces.push(Piece::Live {
                        ordinal: chunk.ordinal,
                        entry: Arc::clone(entry),
                        part,
                        at,
                    });
                }
            }
        }
    }
    pieces
}

/// A chunk as an event, its chain still to be computed; `None` where the
/// opener is no mould.
pub(super) fn cast(opener: &EventRow, run_no: u32, chunk: &Chunk) -> Option<EventRow> {
    let (mould, _) = Mould::of(opener.form, &opener.body)?;
    Some(EventRow {
        ordinal: chunk.ordinal,
        run_no,
        run_seq: chunk.run_seq,
        committed_at: chunk.committed_at,
        form: FORM_SLICED,
        chain: EMPTY_CHAIN,
        body: mould.cast(&chunk.cut())?,
    })
}

/// Cuts the live chunks of one stream into segments. `heads` are the chains at
/// ends of commits, ascending.
pub(super) fn cut(
    opener: u64,
    content: Option<folio_core::assign::Chunk>,
    parts: &[&Part],
    heads: &[(u64, Digest)],
) -> Vec<Opened> {
    let run_no = parts.first().map_or(0, |part| part.run_no);
    let mut segments: Vec<Vec<Chunk>> = Vec::new();
    let mut bytes = 0;
    for chunk in parts.iter().flat_map(|part| &part.chunks) {
        bytes += chunk.text.len();
        match segments.last_mut() {
            Some(chunks)
                if chunks.len() < MAX_CHUNKS
                    && bytes <= MAX_TEXT
                    && chunks
                        .first()
                        .is_some_and(|first| chunk.ordinal - first.ordinal < SPAN) =>
            {
                chunks.push(chunk.clone());
            }
            _ => {
                bytes = chunk.text.len();
                segments.push(vec![chunk.clone()]);
            }
        }
    }
    let segments = segments.into_iter();
    segments
        .map(|chunks| {
            let own = |(ordinal, _): &&(u64, Digest)| {
                let at = chunks.binary_search_by_key(ordinal, |chunk| chunk.ordinal);
                at.is_ok()
            };
            let marks = heads.iter().filter(own).copied().collect();
            let (columns, own) = encode_chunks(&chunks);
            let ends = chunks.first().zip(chunks.last());
            let (first, last) = ends.map_or((0, 0), |(a, b)| (a.ordinal, b.ordinal));
            let row = PackRow {
                first,
                last,
                opener,
                run_no,
                content,
                marks,
                text: PackText::Own,
                columns,
                own,
            };
            Opened { row, chunks }
        })
        .collect()
}

/// The chains that segments keep of those at the ends of commits: the last
/// one, and others that are far enough from each other.
pub(super) fn heads(entries: &[Arc<Entry>]) -> Vec<(u64, Digest)> {
    let mut kept: Vec<(u64, Digest)> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let far = kept
            .last()
            .is_none_or(|(last, _)| entry.head - last >= MARKS);
        if far || at + 1 == entries.len() {
            kept.push((entry.head, entry.chain));
        }
    }
    kept
}
