//! Writing texts of which parts are kept outside, however large those are.

use crate::failure::Failure;
use crate::output::Output;
use folio_core::member::{Piece, Spliced};
use folio_store::{BlobId, Store, StoreError};

/// Bytes that are held at once.
const SLICE: usize = 1 << 20;

/// Writes a text with its members in their places.
pub async fn write(out: &mut Output, store: &dyn Store, text: Spliced<'_>) -> Result<(), Failure> {
    for piece in text.all() {
        match piece {
            Piece::Text(bytes) => out.bytes(bytes)?,
            Piece::Member(member, _) => {
                let id = BlobId(member.sha256);
                let mut at = 0;
                while at < member.len {
                    let bytes = store.read_blob(&id, at, SLICE).await?;
                    if bytes.is_empty() {
                        let message = format!("blob {id} ends at byte {at}: keep the files");
                        return Err(StoreError::corrupt("blob_damaged", message).into());
                    }
                    at += bytes.len() as u64;
                    out.bytes(&bytes)?;
                }
            }
        }
    }
    Ok(())
}
