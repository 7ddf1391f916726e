//! Members that are taken as they come, or read as they are found.

use super::{Mutant, answers, keeps, refusal};
use crate::decorator::Decorator;
use crate::decorator::instead;
use crate::simulated::Flaw;
use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::{
    AppendBatch, BlobUpload, Committed, ErrorKind, ItemPage, ItemQuery, Store, StoreError,
};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a_member_outside_is_another_event",
        wrong: "an event is not known where its member is kept elsewhere",
        caught_by: "member/an_event_is_the_same_wherever_its_member_is_kept",
        place: answers::<IsAnotherEvent>,
    },
    Mutant {
        name: "reads_every_member_along",
        wrong: "a page reads members that it does not show",
        caught_by: "member/a_small_member_is_read_along_and_a_large_one_is_not",
        place: answers::<ReadsAll>,
    },
    Mutant {
        name: "drops_members_that_are_missing",
        wrong: "an event whose member is not stored is kept without it",
        caught_by: "member/a_member_must_be_stored",
        place: answers::<DropsMissing>,
    },
    Mutant {
        name: "drops_members_that_are_wrong",
        wrong: "an event whose member is no JSON is kept without it",
        caught_by: "member/a_member_is_json_of_its_length",
        place: answers::<DropsWrong>,
    },
    Mutant {
        name: "drops_members_beside_much",
        wrong: "an event that holds too much beside its member is kept without it",
        caught_by: "member/what_stands_beside_members_is_bounded",
        place: answers::<DropsBeside>,
    },
    Mutant {
        name: "loses_the_end_of_an_upload",
        wrong: "what comes last of a large member is lost",
        caught_by: "member/a_member_is_written_as_it_comes",
        place: answers::<LosesTheEnd>,
    },
    Mutant {
        name: "reads_damaged_pieces",
        wrong: "a piece is read although it does not fit its checksum",
        caught_by: "member/a_damaged_piece_damages_what_needs_it",
        place: keeps::<ReadsDamaged>,
    },
];

instead!(IsAnotherEvent: append(inner, id, batch) {
    let outside = |event: &folio_core::CanonicalEvent| !event.stored.is_empty();
    let ids: Vec<_> = batch.events.iter().map(|event| event.id.clone()).collect();
    let known = inner.lookup_ids(id, &ids).await?;
    for (event, known) in batch.events.iter().zip(known) {
        let Some(known) = known else { continue };
        let there = inner.events(id, &[known.ordinal]).await?;
        let there = there.first().map(folio_store::StoredEvent::view).transpose()?;
        if there.is_some_and(|view| view.stored.is_empty() == outside(event)) {
            return Err(refusal(ErrorKind::Conflict, "event_id_conflict"));
        }
    }
    inner.append(id, batch).await
});

instead!(ReadsAll: read_items(inner, id, query) {
    let member_bytes = usize::MAX;
    inner.read_items(id, ItemQuery { member_bytes, ..query }).await
});

/// Appends a batch; where that is refused for a reason, without its members.
async fn dropping(
    inner: &dyn Store,
    id: &SessionId,
    batch: AppendBatch,
    reason: &str,
) -> Result<Committed, StoreError> {
    let mut without = batch.clone();
    match inner.append(id, batch).await {
        Err(error) if error.code() == reason => {
            let outside = without.events.iter().any(|event| !event.stored.is_empty());
            if !outside {
                return Err(error);
            }
            for event in &mut without.events {
                event.stored = Box::default();
            }
            inner.append(id, without).await
        }
        done => done,
    }
}

instead!(DropsMissing: append(inner, id, batch) {
    dropping(inner, id, batch, "blob_not_found").await
});

instead!(DropsWrong: append(inner, id, batch) {
    dropping(inner, id, batch, "member_invalid").await
});

instead!(DropsBeside: append(inner, id, batch) {
    dropping(inner, id, batch, "limit_exceeded").await
});

/// Keeps half of what ends an object.
#[derive(Default)]
struct LosesTheEnd;

#[async_trait]
impl Decorator for LosesTheEnd {
    async fn extend_blob(
        &self,
        inner: &dyn Store,
        upload: BlobUpload,
        mut content: Vec<u8>,
    ) -> Result<(), StoreError> {
        if content.ends_with(b"\"}") {
            content.truncate(content.len() / 2);
        }
        inner.extend_blob(upload, content).await
    }
}

#[derive(Default)]
struct ReadsDamaged;

impl Flaw for ReadsDamaged {
    fn damaged_piece(&self, found: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        Ok(found)
    }
}
