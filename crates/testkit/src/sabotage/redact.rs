//! Redactions that leave something, take something else, or break the proof.

use super::append::has_code;
use super::{Mutant, answers, keeps, lock, miswrites, refusal};
use crate::decorator::{Decorator, instead};
use async_trait::async_trait;
use folio_codec::decode_event;
use folio_core::{EventView, SessionId};
use folio_store::engine::{Erase, Writes};
use folio_store::rows::EventRow;
use folio_store::{
    AppendBatch, Committed, ErrorKind, ItemPage, ItemQuery, Redaction, Store, StoreError,
};
use std::collections::BTreeSet;
use std::sync::Mutex;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "leaves_finals",
        wrong: "only the chunks of an item lose their payload",
        caught_by: "redact/every_kind_of_item_loses_its_payload",
        place: keeps::<LeavesFinals>,
    },
    Mutant {
        name: "leaves_chunks",
        wrong: "the chunks of an item keep their payload",
        caught_by: "redact/a_redacted_stream_goes_on",
        place: keeps::<LeavesChunks>,
    },
    Mutant {
        name: "leaves_the_source_record",
        wrong: "an import's source record still says what was redacted",
        caught_by: "redact/the_source_record_of_an_import_goes_with_its_events",
        place: keeps::<LeavesTheRecord>,
    },
    Mutant {
        name: "leaves_notes",
        wrong: "notes keep what they say",
        caught_by: "redact/notes_lose_what_they_say",
        place: keeps::<LeavesNotes>,
    },
    Mutant {
        name: "leaves_citations",
        wrong: "a redacted event still cites its blobs",
        caught_by: "blob/redaction_takes_the_citation",
        place: keeps::<LeavesCitations>,
    },
    Mutant {
        name: "leaves_views",
        wrong: "views still hold what was made of a redacted event",
        caught_by: "redact/views_are_made_anew",
        place: keeps::<LeavesViews>,
    },
    Mutant {
        name: "forgets_the_generation",
        wrong: "a redaction does not raise the generation",
        caught_by: "redact/the_answer_names_the_events",
        place: keeps::<ForgetsTheGeneration>,
    },
    Mutant {
        name: "raises_one_generation",
        wrong: "the generations of forks that share the event stay",
        caught_by: "redact/generations_rise_where_the_event_is_shared",
        place: keeps::<RaisesOne>,
    },
    Mutant {
        name: "forgets_that_bytes_are_left",
        wrong: "a redaction waits for no scrub",
        caught_by: "redact/a_redaction_is_an_erasure_until_the_scrub",
        place: keeps::<ForgetsTheErasure>,
    },
    Mutant {
        name: "breaks_the_chain",
        wrong: "a redacted event has another chain",
        caught_by: "redact/the_events_are_the_same_ones",
        place: keeps::<BreaksTheChain>,
    },
    Mutant {
        name: "redacts_key_by_key",
        wrong: "a redaction that is refused has taken what stood before the unknown key",
        caught_by: "redact/an_unknown_key_refuses_all",
        place: answers::<RedactsKeyByKey>,
    },
    Mutant {
        name: "a_redaction_counts_again",
        wrong: "redacting what is redacted raises the generation",
        caught_by: "redact/redacting_again_changes_nothing",
        place: answers::<CountsAgain>,
    },
    Mutant {
        name: "refuses_a_key_that_is_said_twice",
        wrong: "a key may be said once",
        caught_by: "redact/a_key_may_be_said_twice",
        place: answers::<RefusesRepeatedKeys>,
    },
    Mutant {
        name: "redacts_in_the_parent",
        wrong: "what a child does not have is redacted in its parent",
        caught_by: "redact/a_note_of_another_session_is_unknown",
        place: answers::<RedactsInTheParent>,
    },
    Mutant {
        name: "redacts_the_first_of_a_stem",
        wrong: "whatever shares the stem of an id counts as its source",
        caught_by: "redact/a_record_that_is_no_source_stays",
        place: answers::<RedactsTheFirst>,
    },
    Mutant {
        name: "redacts_what_cannot_be_read",
        wrong: "a session in preparation is redacted",
        caught_by: "redact/what_cannot_be_read_cannot_be_redacted",
        place: answers::<RedactsTheUnreadable>,
    },
    Mutant {
        name: "a_redacted_session_is_sealed",
        wrong: "a redacted session takes no events",
        caught_by: "redact/a_revision_after_a_redaction_counts",
        place: answers::<SealsTheRedacted>,
    },
    Mutant {
        name: "hides_redacted_items",
        wrong: "a redacted item has no row any more",
        caught_by: "redact/what_is_left_is_sound_and_makes_the_same_index",
        place: answers::<HidesTheRedacted>,
    },
];

/// Redacts only the events that pass.
fn keep(writes: &mut Writes, passes: fn(&EventView<'_>) -> bool) {
    let passes = |row: &EventRow| decode_event(row.form, &row.body).is_ok_and(|view| passes(&view));
    writes.redacted.retain(passes);
}

/// Whether these are the rows that complete a redaction.
fn completes(writes: &Writes) -> bool {
    let only_views = |erase: &Erase| matches!(erase, Erase::ViewEntries { .. });
    !writes.scrubs.is_empty() && !writes.erase.is_empty() && writes.erase.iter().all(only_views)
}

miswrites!(LeavesFinals: (txn, writes) {
    keep(&mut writes, |view| view.partial);
});

miswrites!(LeavesChunks: (txn, writes) {
    keep(&mut writes, |view| !view.partial);
});

miswrites!(LeavesTheRecord: (txn, writes) {
    keep(&mut writes, |view| {
        view.withheld.is_some_and(|whole| whole.payload)
    });
});

miswrites!(LeavesNotes: (txn, writes) {
    writes.redacted_facts.clear();
});

miswrites!(LeavesCitations: (txn, writes) {
    writes
        .erase
        .retain(|erase| !matches!(erase, Erase::Citations { .. }));
});

miswrites!(LeavesViews: (txn, writes) {
    if completes(&writes) {
        writes.erase.clear();
    }
});

miswrites!(ForgetsTheGeneration: (txn, writes) {
    if completes(&writes) {
        writes.sessions.clear();
    }
});

miswrites!(RaisesOne: (txn, writes) {
    if completes(&writes) {
        writes.sessions.truncate(1);
    }
});

miswrites!(ForgetsTheErasure: (txn, writes) {
    if completes(&writes) {
        writes.scrubs.clear();
    }
});

miswrites!(BreaksTheChain: (txn, writes) {
    for row in &mut writes.redacted {
        row.chain[0] ^= 1;
    }
});

instead!(RedactsKeyByKey: redact(inner, id, keys) {
    for key in keys.iter().take(keys.len().saturating_sub(1)) {
        inner.redact(id, std::slice::from_ref(key)).await?;
    }
    inner.redact(id, keys).await
});

instead!(CountsAgain: redact(inner, id, keys) {
    let before = inner.session(id).await?.generation;
    let mut done = inner.redact(id, keys).await?;
    done.generation = before + 1;
    Ok(done)
});

instead!(RefusesRepeatedKeys: redact(inner, id, keys) {
    let distinct: BTreeSet<_> = keys.iter().collect();
    if distinct.len() < keys.len() {
        return Err(refusal(ErrorKind::Invalid, "key_repeated"));
    }
    inner.redact(id, keys).await
});

instead!(RedactsInTheParent: redact(inner, id, keys) {
    let done = inner.redact(id, keys).await;
    if has_code(&done, "item_not_found")
        && let Some(parent) = inner.session(id).await?.forked_from
    {
        return inner.redact(&parent, keys).await;
    }
    done
});

instead!(RedactsTheFirst: redact(inner, id, keys) {
    let mut all = keys.to_vec();
    all.extend(
        keys.iter()
            .filter_map(|key| Some(format!("{}-0", key.strip_suffix("-1")?))),
    );
    inner.redact(id, &all).await
});

instead!(RedactsTheUnreadable: redact(inner, id, keys) {
    let done = inner.redact(id, keys).await;
    if has_code(&done, "session_preparing") {
        return Ok(Redaction {
            ordinals: Vec::new(),
            facts: Vec::new(),
            generation: 0,
        });
    }
    done
});

#[derive(Default)]
struct SealsTheRedacted(Mutex<BTreeSet<SessionId>>);

#[async_trait]
impl Decorator for SealsTheRedacted {
    async fn redact(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        keys: &[String],
    ) -> Result<Redaction, StoreError> {
        let done = inner.redact(id, keys).await?;
        lock(&self.0).insert(id.clone());
        Ok(done)
    }

    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        if lock(&self.0).contains(id) {
            return Err(refusal(ErrorKind::Conflict, "session_redacted"));
        }
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct HidesTheRedacted(Mutex<BTreeSet<(SessionId, String)>>);

#[async_trait]
impl Decorator for HidesTheRedacted {
    async fn redact(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        keys: &[String],
    ) -> Result<Redaction, StoreError> {
        let done = inner.redact(id, keys).await?;
        lock(&self.0).extend(keys.iter().map(|key| (id.clone(), key.clone())));
        Ok(done)
    }

    async fn read_items(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        query: ItemQuery,
    ) -> Result<ItemPage, StoreError> {
        let mut page = inner.read_items(id, query).await?;
        let hidden = lock(&self.0);
        page.items
            .retain(|item| !hidden.contains(&(id.clone(), item.item.key.to_string())));
        drop(hidden);
        Ok(page)
    }
}
