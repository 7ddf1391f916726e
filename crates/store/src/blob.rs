//! Blobs: content by its digest, in pieces.

use crate::engine::{Counters, Erase, Snapshot, WriteTxn, Writes};
use crate::port::{BlobId, BlobInfo, BlobUpload, MAX_BLOB_CALL};
use crate::rows::{BlobRow, PIECE_BYTES, StageRow};
use crate::{ErrorKind, StoreError, erase};
use folio_codec::Digest;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The blobs that a store handle is putting piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Uploads(Mutex<HashMap<BlobUpload, Upload>>);

/// A blob that is arriving: what was not yet a whole piece stands here.
#[derive(Debug, Clone, Default)]
struct Upload {
    digest: Sha256,
    len: u64,
    pieces: u32,
    rest: Vec<u8>,
}

impl Uploads {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<BlobUpload, Upload>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes an upload out, so that one call at a time works on it.
    fn take(&self, upload: BlobUpload) -> Result<Upload, StoreError> {
        self.with(|uploads| uploads.remove(&upload)).ok_or_else(|| {
            let message = "no such upload is open, or another call works on it: begin one anew";
            StoreError::new(ErrorKind::NotFound, "upload_unknown", message)
        })
    }

    fn put(&self, upload: BlobUpload, state: Upload) {
        self.with(|uploads| uploads.insert(upload, state));
    }
}

/// Whether one call may hold so much content.
pub(crate) fn check_len(content: &[u8]) -> Result<(), StoreError> {
    if content.len() <= MAX_BLOB_CALL {
        return Ok(());
    }
    let message = format!(
        "{} bytes at once; {MAX_BLOB_CALL} is the most: put it piece by piece",
        content.len()
    );
    Err(StoreError::invalid("limit_exceeded", message))
}

fn next_number(txn: &dyn Snapshot) -> Result<Counters, StoreError> {
    let mut counters = txn.counters()?;
    counters.blob_no += 1;
    Ok(counters)
}

/// Puts content that is there whole.
pub(crate) fn put(
    txn: &mut dyn WriteTxn,
    content: &[u8],
    id: BlobId,
    owner: u64,
) -> Result<BlobInfo, StoreError> {
    if let Some(known) = adopt(txn, &id, owner)? {
        return Ok(known);
    }
    let counters = next_number(txn)?;
    let blob_no = counters.blob_no;
    let len = content.len() as u64;
    let row = BlobRow {
        sha: id.0,
        blob_no,
        len,
        stager: owner,
    };
    let pieces = (0..).zip(content.chunks(PIECE_BYTES));
    txn.apply(&Writes {
        counters: Some(counters),
        blobs: vec![row],
        pieces: pieces
            .map(|(piece, bytes)| (blob_no, piece, bytes.to_vec()))
            .collect(),
        ..Writes::default()
    })?;
    Ok(BlobInfo { id, len })
}

/// A blob that is stored already, kept for this handle from now on.
fn adopt(txn: &mut dyn WriteTxn, id: &BlobId, owner: u64) -> Result<Option<BlobInfo>, StoreError> {
    let Some(mut row) = txn.blob(&id.0)? else {
        return Ok(None);
    };
    if row.stager != owner {
        row.stager = owner;
        txn.apply(&Writes {
            blobs: vec![row],
            ..Writes::default()
        })?;
    }
    let len = row.len;
    Ok(Some(BlobInfo { id: *id, len }))
}

/// Begins an upload.
pub(crate) fn begin(txn: &mut dyn WriteTxn, owner: u64) -> Result<BlobUpload, StoreError> {
    let counters = next_number(txn)?;
    let blob_no = counters.blob_no;
    txn.apply(&Writes {
        counters: Some(counters),
        stages: vec![StageRow {
            blob_no,
            stager: owner,
        }],
        ..Writes::default()
    })?;
    Ok(BlobUpload(blob_no))
}

impl Uploads {
    /// Remembers an upload that has begun.
    pub(crate) fn begun(&self, upload: BlobUpload) {
        self.put(upload, Upload::default());
    }

    /// Adds content, with what commits the pieces of it. An upload that fails
    /// is lost, whatever its commit came to, and what arrived of it goes with a
    /// scrub when its handle is gone.
    pub(crate) fn extend(
        &self,
        upload: BlobUpload,
        content: &[u8],
        commit: impl FnOnce(&Writes) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut state = self.take(upload)?;
        state.digest.update(content);
        state.len += content.len() as u64;
        state.rest.extend_from_slice(content);
        let whole = state.rest.len() / PIECE_BYTES * PIECE_BYTES;
        let rest = state.rest.split_off(whole);
        let whole = std::mem::replace(&mut state.rest, rest);
        let mut writes = Writes::default();
        for bytes in whole.chunks(PIECE_BYTES) {
            writes.pieces.push((upload.0, state.pieces, bytes.to_vec()));
            state.pieces += 1;
        }
        commit(&writes)?;
        self.put(upload, state);
        Ok(())
    }

    /// Makes an upload a blob.
    pub(crate) fn finish(
        &self,
        txn: &mut dyn WriteTxn,
        upload: BlobUpload,
        owner: u64,
    ) -> Result<BlobInfo, StoreError> {
        let state = self.take(upload)?;
        let id = BlobId(state.digest.finalize().into());
        if let Some(known) = adopt(txn, &id, owner)? {
            txn.apply(&Writes {
                erase: vec![Erase::Stage(StageRow {
                    blob_no: upload.0,
                    stager: owner,
                })],
                ..Writes::default()
            })?;
            return Ok(known);
        }
        let mut writes = Writes {
            erase: vec![Erase::StageRow(upload.0)],
            blobs: vec![BlobRow {
                sha: id.0,
                blob_no: upload.0,
                len: state.len,
                stager: owner,
            }],
            ..Writes::default()
        };
        if !state.rest.is_empty() {
            writes.pieces.push((upload.0, state.pieces, state.rest));
        }
        txn.apply(&writes)?;
        let len = state.len;
        Ok(BlobInfo { id, len })
    }
}

/// A blob's row.
pub(crate) fn row(snapshot: &dyn Snapshot, id: &BlobId) -> Result<BlobRow, StoreError> {
    snapshot.blob(&id.0)?.ok_or_else(|| StoreError::no_blob(id))
}

/// Reads at most `max_bytes` bytes of a blob from `offset` on.
pub(crate) fn read(
    snapshot: &dyn Snapshot,
    id: &BlobId,
    offset: u64,
    max_bytes: usize,
) -> Result<Vec<u8>, StoreError> {
    let row = row(snapshot, id)?;
    let end = row.len.min(offset.saturating_add(max_bytes as u64));
    let mut out = Vec::with_capacity(usize::try_from(end.saturating_sub(offset)).unwrap_or(0));
    let mut at = offset;
    while at < end {
        let damaged = || {
            let message = format!("blob {id} is damaged at byte {at}: keep the files");
            StoreError::corrupt("blob_damaged", message)
        };
        let piece = u32::try_from(at / PIECE_BYTES as u64).map_err(|_| damaged())?;
        let content = snapshot.piece(row.blob_no, piece)?.ok_or_else(damaged)?;
        let start = usize::try_from(at % PIECE_BYTES as u64).map_err(|_| damaged())?;
        let stop = usize::try_from(end - (at - start as u64))
            .unwrap_or(usize::MAX)
            .min(PIECE_BYTES);
        out.extend_from_slice(content.get(start..stop).ok_or_else(damaged)?);
        at += (stop - start) as u64;
    }
    Ok(out)
}

/// The digest of what is stored as a blob.
pub(crate) fn digest(snapshot: &dyn Snapshot, id: &BlobId) -> Result<Digest, StoreError> {
    let len = row(snapshot, id)?.len;
    let mut digest = Sha256::new();
    let mut at = 0;
    while at < len {
        let content = read(snapshot, id, at, 16 * PIECE_BYTES)?;
        digest.update(&content);
        at += content.len() as u64;
    }
    Ok(digest.finalize().into())
}

/// Blobs that one transaction of a collection looks at.
const SLICE: usize = 256;

/// Removes blobs that nobody cites and no open handle has put, behind `after`;
/// answers how many, and where to go on.
pub(crate) fn collect(
    txn: &mut dyn WriteTxn,
    after: Option<&Digest>,
    is_alive: &dyn Fn(u64) -> Result<bool, StoreError>,
    now: u64,
) -> Result<(u64, Option<Digest>), StoreError> {
    let rows = txn.blobs(after, SLICE)?;
    let next = rows
        .last()
        .map(|row| row.sha)
        .filter(|_| rows.len() == SLICE);
    let mut erase = Vec::new();
    for row in rows {
        if !txn.is_cited(&row.sha)? && !is_alive(row.stager)? {
            erase.push(Erase::Blob(row));
        }
    }
    Ok((remove(txn, erase, now)?, next))
}

/// Removes blobs; their bytes are in the files until the next rewrite.
fn remove(txn: &mut dyn WriteTxn, erase: Vec<Erase>, now: u64) -> Result<u64, StoreError> {
    let count = erase.len() as u64;
    if count > 0 {
        let (counters, scrub) = erase::begin(txn, 0, now)?;
        txn.apply(&Writes {
            erase,
            counters: Some(counters),
            scrubs: vec![scrub],
            ..Writes::default()
        })?;
    }
    Ok(count)
}

/// Removes what arrived of blobs whose putter is gone, behind a number;
/// answers how many, and where to go on.
pub(crate) fn collect_stages(
    txn: &mut dyn WriteTxn,
    after: u64,
    is_alive: &dyn Fn(u64) -> Result<bool, StoreError>,
    now: u64,
) -> Result<(u64, Option<u64>), StoreError> {
    let rows = txn.stages(after, SLICE)?;
    let next = rows
        .last()
        .map(|row| row.blob_no)
        .filter(|_| rows.len() == SLICE);
    let mut erase = Vec::new();
    for row in rows {
        if !is_alive(row.stager)? {
            erase.push(Erase::Stage(row));
        }
    }
    Ok((remove(txn, erase, now)?, next))
}
