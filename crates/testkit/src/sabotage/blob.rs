//! Blobs that are not what was put, or not there as long as they must be.

use super::append::has_code;
use super::{Mutant, answers, keeps, lock, miswrites, refusal};
use crate::decorator::{Decorator, instead};
use crate::simulated::Flaw;
use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::rows::PIECE_BYTES;
use folio_store::{
    AppendBatch, BlobId, BlobInfo, BlobUpload, Committed, ErrorKind, MAX_BLOB_CALL, Store,
    StoreError, VerifyReport,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "reads_one_piece",
        wrong: "a read ends with the piece that it began in",
        caught_by: "blob/what_was_put_is_read",
        place: answers::<ReadsOnePiece>,
    },
    Mutant {
        name: "reads_from_the_piece",
        wrong: "a range begins with the piece that holds its first byte",
        caught_by: "blob/ranges_are_read_at_any_border",
        place: answers::<ReadsFromThePiece>,
    },
    Mutant {
        name: "refuses_to_read_behind_the_end",
        wrong: "a read behind the last byte is an error",
        caught_by: "blob/an_empty_blob_is_one",
        place: answers::<RefusesTheEnd>,
    },
    Mutant {
        name: "a_blob_has_another_address",
        wrong: "the address is not the digest of the content",
        caught_by: "blob/the_address_is_the_digest",
        place: answers::<HasAnotherAddress>,
    },
    Mutant {
        name: "refuses_known_content",
        wrong: "content that is stored cannot be put",
        caught_by: "blob/the_same_content_is_one_blob",
        place: answers::<RefusesTheKnown>,
    },
    Mutant {
        name: "refuses_empty_pieces",
        wrong: "a piece without bytes ends an upload",
        caught_by: "blob/content_may_arrive_in_odd_pieces",
        place: answers::<RefusesEmptyPieces>,
    },
    Mutant {
        name: "refuses_empty_uploads",
        wrong: "an upload of nothing is an error",
        caught_by: "blob/an_upload_of_nothing_is_an_empty_blob",
        place: answers::<RefusesEmptyUploads>,
    },
    Mutant {
        name: "one_upload_at_a_time",
        wrong: "what arrives goes to the upload that was begun last",
        caught_by: "blob/uploads_do_not_mix",
        place: answers::<OneUpload>,
    },
    Mutant {
        name: "an_upload_ends_twice",
        wrong: "an upload that ended is answered again",
        caught_by: "blob/an_upload_ends_once",
        place: answers::<EndsTwice>,
    },
    Mutant {
        name: "takes_content_for_no_upload",
        wrong: "content of an upload that nobody began is thrown away",
        caught_by: "blob/an_unknown_upload_is_refused",
        place: answers::<TakesContentForNone>,
    },
    Mutant {
        name: "numbers_uploads_by_handle",
        wrong: "two handles have uploads of one number",
        caught_by: "blob/an_upload_belongs_to_its_handle",
        place: answers::<NumbersByHandle>,
    },
    Mutant {
        name: "puts_without_a_limit",
        wrong: "one call puts more than a call may hold",
        caught_by: "blob/one_call_has_a_limit",
        place: answers::<PutsWithoutLimit>,
    },
    Mutant {
        name: "an_unknown_blob_is_empty",
        wrong: "a blob that does not exist has no bytes",
        caught_by: "blob/an_unknown_blob_is_not_found",
        place: answers::<UnknownIsEmpty>,
    },
    Mutant {
        name: "cites_what_is_there",
        wrong: "a citation of a missing blob is passed over",
        caught_by: "blob/a_missing_blob_refuses_the_batch",
        place: answers::<CitesWhatIsThere>,
    },
    Mutant {
        name: "passes_over_wrong_citations",
        wrong: "a citation of no event of the batch is passed over",
        caught_by: "blob/a_citation_names_an_event_of_the_batch",
        place: answers::<PassesOverCitations>,
    },
    Mutant {
        name: "a_repeat_cites_anew",
        wrong: "what is present cites what its repeat names",
        caught_by: "blob/what_is_present_cites_nothing_new",
        place: answers::<CitesAnew>,
    },
    Mutant {
        name: "an_event_cites_one_blob",
        wrong: "the last citation of an event counts",
        caught_by: "blob/one_event_may_cite_many_and_many_events_one",
        place: answers::<CitesOne>,
    },
    Mutant {
        name: "citations_come_by_address",
        wrong: "citations are ordered by what they cite",
        caught_by: "blob/citations_are_listed_in_order",
        place: answers::<CitesByAddress>,
    },
    Mutant {
        name: "a_child_cites_nothing_of_its_prefix",
        wrong: "the citations of a prefix are the parent's alone",
        caught_by: "blob/a_child_cites_what_its_prefix_cites",
        place: answers::<CitesItsOwn>,
    },
    Mutant {
        name: "forgets_citations",
        wrong: "what an event cites is not kept",
        caught_by: "blob/an_event_cites_a_blob_that_is_stored",
        place: keeps::<ForgetsCitations>,
    },
    Mutant {
        name: "collects_what_is_cited",
        wrong: "a scrub removes blobs that events cite",
        caught_by: "blob/the_last_citation_keeps_a_blob",
        place: keeps::<CollectsTheCited>,
    },
    Mutant {
        name: "collects_nothing",
        wrong: "a blob that nobody cites stays for ever",
        caught_by: "blob/a_blob_of_a_gone_handle_is_collected",
        place: keeps::<CollectsNothing>,
    },
    Mutant {
        name: "a_blob_is_the_handles_own",
        wrong: "a blob is read by the handle that put it",
        caught_by: "blob/another_handle_reads_and_cites",
        place: answers::<OwnBlobs>,
    },
    Mutant {
        name: "verify_reads_no_blob",
        wrong: "the content of cited blobs is not checked",
        caught_by: "blob/a_blob_is_checked_by_verify",
        place: answers::<VerifiesNoBlob>,
    },
];

impl NumbersByHandle {
    fn known(&self, upload: BlobUpload) -> Result<BlobUpload, StoreError> {
        let number = usize::try_from(upload.0).unwrap_or(0).wrapping_sub(1);
        let known = lock(&self.0).get(number).copied();
        known.ok_or_else(|| refusal(ErrorKind::NotFound, "upload_unknown"))
    }
}

instead!(ReadsOnePiece: read_blob(inner, id, offset, max_bytes) {
    let rest = PIECE_BYTES - usize::try_from(offset % PIECE_BYTES as u64).unwrap_or(0);
    inner.read_blob(id, offset, max_bytes.min(rest)).await
});

instead!(ReadsFromThePiece: read_blob(inner, id, offset, max_bytes) {
    let offset = offset - offset % PIECE_BYTES as u64;
    inner.read_blob(id, offset, max_bytes).await
});

instead!(RefusesTheEnd: read_blob(inner, id, offset, max_bytes) {
    if offset > 0 && offset >= inner.blob(id).await?.len {
        return Err(refusal(ErrorKind::Invalid, "range_invalid"));
    }
    inner.read_blob(id, offset, max_bytes).await
});

instead!(HasAnotherAddress: put_blob(inner, content) {
    let mut info = inner.put_blob(content).await?;
    info.id.0[0] ^= 1;
    Ok(info)
});

#[derive(Default)]
struct RefusesTheKnown(Mutex<BTreeSet<BlobId>>);

#[async_trait]
impl Decorator for RefusesTheKnown {
    async fn put_blob(&self, inner: &dyn Store, content: Vec<u8>) -> Result<BlobInfo, StoreError> {
        let info = inner.put_blob(content).await?;
        if !lock(&self.0).insert(info.id) {
            return Err(refusal(ErrorKind::Conflict, "blob_exists"));
        }
        Ok(info)
    }

    async fn finish_blob(
        &self,
        inner: &dyn Store,
        upload: BlobUpload,
    ) -> Result<BlobInfo, StoreError> {
        let info = inner.finish_blob(upload).await?;
        if !lock(&self.0).insert(info.id) {
            return Err(refusal(ErrorKind::Conflict, "blob_exists"));
        }
        Ok(info)
    }
}

instead!(RefusesEmptyPieces: extend_blob(inner, upload, content) {
    if content.is_empty() {
        return Err(refusal(ErrorKind::Invalid, "piece_empty"));
    }
    inner.extend_blob(upload, content).await
});

instead!(RefusesEmptyUploads: finish_blob(inner, upload) {
    let info = inner.finish_blob(upload).await?;
    if info.len == 0 {
        return Err(refusal(ErrorKind::Invalid, "upload_empty"));
    }
    Ok(info)
});

#[derive(Default)]
struct OneUpload(Mutex<Option<BlobUpload>>);

#[async_trait]
impl Decorator for OneUpload {
    async fn begin_blob(&self, inner: &dyn Store) -> Result<BlobUpload, StoreError> {
        let upload = inner.begin_blob().await?;
        *lock(&self.0) = Some(upload);
        Ok(upload)
    }

    async fn extend_blob(
        &self,
        inner: &dyn Store,
        upload: BlobUpload,
        content: Vec<u8>,
    ) -> Result<(), StoreError> {
        let latest = lock(&self.0).unwrap_or(upload);
        inner.extend_blob(latest, content).await
    }
}

#[derive(Default)]
struct EndsTwice(Mutex<HashMap<BlobUpload, BlobInfo>>);

#[async_trait]
impl Decorator for EndsTwice {
    async fn finish_blob(
        &self,
        inner: &dyn Store,
        upload: BlobUpload,
    ) -> Result<BlobInfo, StoreError> {
        if let Some(info) = lock(&self.0).get(&upload) {
            return Ok(*info);
        }
        let info = inner.finish_blob(upload).await?;
        lock(&self.0).insert(upload, info);
        Ok(info)
    }
}

instead!(TakesContentForNone: extend_blob(inner, upload, content) {
    let done = inner.extend_blob(upload, content).await;
    if has_code(&done, "upload_unknown") {
        return Ok(());
    }
    done
});

#[derive(Default)]
struct NumbersByHandle(Mutex<Vec<BlobUpload>>);

#[async_trait]
impl Decorator for NumbersByHandle {
    async fn begin_blob(&self, inner: &dyn Store) -> Result<BlobUpload, StoreError> {
        let upload = inner.begin_blob().await?;
        let mut uploads = lock(&self.0);
        uploads.push(upload);
        Ok(BlobUpload(uploads.len() as u64))
    }

    async fn extend_blob(
        &self,
        inner: &dyn Store,
        upload: BlobUpload,
        content: Vec<u8>,
    ) -> Result<(), StoreError> {
        let known = self.known(upload)?;
        inner.extend_blob(known, content).await
    }

    async fn finish_blob(
        &self,
        inner: &dyn Store,
        upload: BlobUpload,
    ) -> Result<BlobInfo, StoreError> {
        let known = self.known(upload)?;
        inner.finish_blob(known).await
    }
}

instead!(PutsWithoutLimit: put_blob(inner, content) {
    if content.len() <= MAX_BLOB_CALL {
        return inner.put_blob(content).await;
    }
    let upload = inner.begin_blob().await?;
    for piece in content.chunks(MAX_BLOB_CALL) {
        inner.extend_blob(upload, piece.to_vec()).await?;
    }
    inner.finish_blob(upload).await
});

instead!(UnknownIsEmpty: blob(inner, id) {
    let found = inner.blob(id).await;
    if has_code(&found, "blob_not_found") {
        return Ok(BlobInfo { id: *id, len: 0 });
    }
    found
});

instead!(CitesWhatIsThere: append(inner, id, batch) {
    let mut batch = batch;
    let mut there = Vec::new();
    for (event, blob) in batch.cites {
        if inner.blob(&blob).await.is_ok() {
            there.push((event, blob));
        }
    }
    batch.cites = there;
    inner.append(id, batch).await
});

instead!(PassesOverCitations: append(inner, id, batch) {
    let mut batch = batch;
    batch.cites.retain(|(event, _)| *event < batch.events.len());
    inner.append(id, batch).await
});

#[derive(Default)]
struct CitesAnew(Mutex<BTreeSet<(SessionId, u64, BlobId)>>);

#[async_trait]
impl Decorator for CitesAnew {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let cites = batch.cites.clone();
        let committed = inner.append(id, batch).await?;
        for (event, blob) in cites {
            let at = committed.events[event].ordinal;
            lock(&self.0).insert((id.clone(), at, blob));
        }
        Ok(committed)
    }

    async fn citations(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, BlobId)>, StoreError> {
        let mut found = inner.citations(id, from, limit).await?;
        for (session, at, blob) in lock(&self.0).iter() {
            if session == id && *at >= from && !found.contains(&(*at, *blob)) && found.len() < limit
            {
                found.push((*at, *blob));
            }
        }
        Ok(found)
    }
}

instead!(CitesOne: append(inner, id, batch) {
    let mut batch = batch;
    let last: BTreeMap<_, _> = batch.cites.iter().copied().collect();
    if batch
        .cites
        .iter()
        .all(|(event, _)| *event < batch.events.len())
    {
        batch.cites = last.into_iter().collect();
    }
    inner.append(id, batch).await
});

instead!(CitesByAddress: citations(inner, id, from, limit) {
    let mut found = inner.citations(id, from, limit).await?;
    found.sort_by_key(|(_, blob)| *blob);
    Ok(found)
});

instead!(CitesItsOwn: citations(inner, id, from, limit) {
    let inherited = inner.session(id).await?.inherited;
    inner.citations(id, from.max(inherited + 1), limit).await
});

miswrites!(ForgetsCitations: (txn, writes) {
    writes.citations.clear();
});

#[derive(Default)]
struct CollectsTheCited;

impl Flaw for CollectsTheCited {
    fn is_cited(&self, _: bool) -> bool {
        false
    }
}

#[derive(Default)]
struct CollectsNothing;

impl Flaw for CollectsNothing {
    fn is_cited(&self, _: bool) -> bool {
        true
    }
}

#[derive(Default)]
struct OwnBlobs(Mutex<BTreeSet<BlobId>>);

#[async_trait]
impl Decorator for OwnBlobs {
    async fn put_blob(&self, inner: &dyn Store, content: Vec<u8>) -> Result<BlobInfo, StoreError> {
        let info = inner.put_blob(content).await?;
        lock(&self.0).insert(info.id);
        Ok(info)
    }

    async fn finish_blob(
        &self,
        inner: &dyn Store,
        upload: BlobUpload,
    ) -> Result<BlobInfo, StoreError> {
        let info = inner.finish_blob(upload).await?;
        lock(&self.0).insert(info.id);
        Ok(info)
    }

    async fn read_blob(
        &self,
        inner: &dyn Store,
        id: &BlobId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Vec<u8>, StoreError> {
        if !lock(&self.0).contains(id) {
            return Err(refusal(ErrorKind::NotFound, "blob_not_found"));
        }
        inner.read_blob(id, offset, max_bytes).await
    }
}

instead!(VerifiesNoBlob: verify(inner, id) {
    let mut report = inner.verify(id).await?;
    report.blobs = 0;
    Ok(report)
});
