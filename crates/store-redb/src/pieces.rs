//! Pieces of blobs, each in slices.
//!
//! redb gives a value that is larger than a page the next power of two of
//! bytes, so a whole piece with its checksum would take twice its size. A slice
//! stays just below a power of two. The checksum stands before the first slice
//! and covers the piece.

use crate::error::Error;
use crate::tables::{Bytes, collect};
use folio_core::Direction;
use folio_store::rows::piece_checksum;
use redb::{ReadableTable, Table};
use std::ops::Bound::Included;

/// What stays below 32 KiB with what a page needs.
const SLICE_BYTES: usize = 32_000;

/// The key of a slice: blob, piece, slice.
type Key = (u64, u32, u32);

/// The content of a piece, checked.
pub fn get(
    table: &impl ReadableTable<Key, Bytes>,
    blob_no: u64,
    piece: u32,
) -> Result<Option<Vec<u8>>, Error> {
    let bounds = (
        Included((blob_no, piece, 0)),
        Included((blob_no, piece, u32::MAX)),
    );
    let mut slices = 0;
    let mut stored = Vec::new();
    collect(table, bounds, Direction::Newer, usize::MAX, |_, slice| {
        slices += 1;
        stored.extend_from_slice(slice);
        Ok(())
    })?;
    if slices == 0 {
        return Ok(None);
    }
    stored
        .split_first_chunk::<8>()
        .filter(|(sum, content)| {
            piece_checksum(blob_no, piece, content) == u64::from_le_bytes(**sum)
        })
        .map(|(_, content)| Some(content.to_vec()))
        .ok_or_else(|| Error::Damaged {
            table: "pieces",
            key: format!("blob {blob_no}, piece {piece}"),
        })
}

/// Writes a piece.
pub fn put(
    table: &mut Table<'_, Key, Bytes>,
    blob_no: u64,
    piece: u32,
    content: &[u8],
) -> Result<(), Error> {
    let sum = piece_checksum(blob_no, piece, content).to_le_bytes();
    let stored = [&sum[..], content].concat();
    let mut slice = 0;
    for bytes in stored.chunks(SLICE_BYTES) {
        table.insert((blob_no, piece, slice), bytes)?;
        slice += 1;
    }
    // Of a longer piece that stood here.
    while table.remove((blob_no, piece, slice))?.is_some() {
        slice += 1;
    }
    Ok(())
}
