//! Blobs, leases and views.

use super::{Embedded, MAX_LISTED};
use crate::engine::Engine;
use crate::plan::session_line;
use crate::port::{
    BlobId, BlobInfo, BlobUpload, Blobs, Lease, LeaseInfo, Leases, MAX_BLOB_CALL, ViewBatch,
    ViewQuery, Views,
};
use crate::rows::ViewEntry;
use crate::{StoreError, blob, lease, view};
use async_trait::async_trait;
use folio_core::SessionId;
use std::sync::Arc;

#[async_trait]
impl<E: Engine> Blobs for Embedded<E> {
    async fn put_blob(&self, content: Vec<u8>) -> Result<BlobInfo, StoreError> {
        blob::check_len(&content)?;
        let id = BlobId::of(&content);
        self.write(move |txn, engine| blob::put(txn, &content, id, engine.owner()?))
            .await
    }

    async fn begin_blob(&self) -> Result<BlobUpload, StoreError> {
        let upload = self
            .write(move |txn, engine| blob::begin(txn, engine.owner()?))
            .await?;
        self.uploads.begun(upload);
        Ok(upload)
    }

    async fn extend_blob(&self, upload: BlobUpload, content: Vec<u8>) -> Result<(), StoreError> {
        blob::check_len(&content)?;
        let uploads = Arc::clone(&self.uploads);
        self.writer
            .alone(move |engine| {
                uploads.extend(upload, &content, |writes| {
                    engine.write(&mut |txn| txn.apply(writes))
                })
            })
            .await
    }

    async fn finish_blob(&self, upload: BlobUpload) -> Result<BlobInfo, StoreError> {
        let uploads = Arc::clone(&self.uploads);
        self.write(move |txn, engine| uploads.finish(txn, upload, engine.owner()?))
            .await
    }

    async fn blob(&self, id: &BlobId) -> Result<BlobInfo, StoreError> {
        self.read(|snapshot| {
            let len = blob::row(snapshot, id)?.len;
            Ok(BlobInfo { id: *id, len })
        })
    }

    async fn read_blob(
        &self,
        id: &BlobId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Vec<u8>, StoreError> {
        let max_bytes = max_bytes.min(MAX_BLOB_CALL);
        self.read(|snapshot| blob::read(snapshot, id, offset, max_bytes))
    }

    async fn citations(
        &self,
        id: &SessionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, BlobId)>, StoreError> {
        self.read(|snapshot| {
            let (_, line) = session_line(snapshot, id.as_str())?;
            let mut cited = Vec::new();
            for (first, upto, log_no) in line.logs(line.log.head) {
                if upto < from || cited.len() >= limit {
                    continue;
                }
                let found = snapshot.citations(log_no, from.max(first), limit - cited.len())?;
                let found = found.into_iter().filter(|(ordinal, _)| *ordinal <= upto);
                cited.extend(found.map(|(ordinal, sha)| (ordinal, BlobId(sha))));
            }
            Ok(cited)
        })
    }
}

#[async_trait]
impl<E: Engine> Leases for Embedded<E> {
    async fn acquire_lease(&self, id: &SessionId, holder: &str) -> Result<Lease, StoreError> {
        let (id, holder) = (id.clone(), holder.to_owned());
        self.write(move |txn, engine| {
            let is_alive = |owner| engine.is_alive(owner);
            lease::acquire(txn, &id, &holder, engine.owner()?, &is_alive)
        })
        .await
    }

    async fn release_lease(&self, id: &SessionId, lease: Lease) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |txn, _| lease::release(txn, &id, lease))
            .await
    }

    async fn lease(&self, id: &SessionId) -> Result<Option<LeaseInfo>, StoreError> {
        let is_alive = |owner| self.engine.is_alive(owner);
        self.read(|snapshot| lease::holder(snapshot, id, &is_alive))
    }
}

#[async_trait]
impl<E: Engine> Views for Embedded<E> {
    async fn put_view(&self, batch: ViewBatch) -> Result<(), StoreError> {
        view::check(&batch)?;
        self.write(move |txn, _| view::put(txn, &batch)).await
    }

    async fn view_value(
        &self,
        view: &str,
        version: u32,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|snapshot| view::value(snapshot, view, version, key))
    }

    async fn view_entries(&self, query: ViewQuery) -> Result<Vec<ViewEntry>, StoreError> {
        self.read(|snapshot| view::entries(snapshot, &query, MAX_LISTED))
    }

    async fn view_mark(
        &self,
        view: &str,
        version: u32,
        session: &SessionId,
    ) -> Result<u64, StoreError> {
        self.read(|snapshot| view::mark(snapshot, view, version, session))
    }

    async fn drop_view(&self, view: &str) -> Result<(), StoreError> {
        let view = view.to_owned();
        self.write(move |txn, _| view::drop_view(txn, &view)).await
    }
}
