//! Wrong answers to reads of events, runs and sessions.

use super::{Mutant, answers};
use crate::conformance::StorePlace;
use crate::decorator::{Decorated, Decorator};
use crate::simulated::{Right, SimulatedPlace};
use async_trait::async_trait;
use folio_core::{Direction, EventId, SessionId};
use folio_store::rows::RunRow;
use folio_store::{
    AppendBatch, Committed, IndexStatus, ItemPage, ItemQuery, KnownEvent, NOTES, RangeQuery,
    SessionFilter, SessionInfo, Store, StoreError, StoredEvent,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "orders_by_time",
        wrong: "events come in the order of their timestamps",
        caught_by: "append/every_event_comes_back_as_it_was",
        place: answers::<OrdersByTime>,
    },
    Mutant {
        name: "orders_items_by_time",
        wrong: "the items of a page come in the order of their timestamps",
        caught_by: "append/order_is_by_commit_not_by_time",
        place: answers::<OrdersItemsByTime>,
    },
    Mutant {
        name: "limits_batches",
        wrong: "the limit of a range counts batches, not events",
        caught_by: "read/a_range_is_bounded_by_count",
        place: answers::<LimitsBatches>,
    },
    Mutant {
        name: "ranges_ignore_max_bytes",
        wrong: "a range is as large as its events",
        caught_by: "read/a_range_is_bounded_by_bytes_and_always_progresses",
        place: answers::<RangesIgnoreMaxBytes>,
    },
    Mutant {
        name: "ranges_ignore_their_end",
        wrong: "a range goes on to the head",
        caught_by: "read/a_range_ends_at_the_head",
        place: answers::<RangesIgnoreTheirEnd>,
    },
    Mutant {
        name: "sorts_what_was_asked_for",
        wrong: "given events come by ordinal and once each",
        caught_by: "read/events_come_in_the_order_asked_for",
        place: answers::<SortsWhatWasAskedFor>,
    },
    Mutant {
        name: "passes_over_missing_events",
        wrong: "what is missing or damaged is left out without a word",
        caught_by: "damage/a_damaged_event_is_a_gap_that_names_it",
        place: answers::<PassesOverMissing>,
    },
    Mutant {
        name: "passes_over_unknown_ids",
        wrong: "looking ids up answers the known ones alone",
        caught_by: "read/ids_are_looked_up_in_the_order_asked_for",
        place: answers::<PassesOverUnknownIds>,
    },
    Mutant {
        name: "looks_in_every_session",
        wrong: "an id of any session is known in all",
        caught_by: "session/sessions_do_not_share_events_or_runs",
        place: answers::<LooksInEverySession>,
    },
    Mutant {
        name: "runs_ignore_their_limit",
        wrong: "all runs come at once",
        caught_by: "read/runs_are_paged_by_number",
        place: answers::<RunsIgnoreTheirLimit>,
    },
    Mutant {
        name: "forgets_the_end_of_runs",
        wrong: "the row of a run does not tell its end",
        caught_by: "item/the_end_of_a_run_commits_its_row",
        place: answers::<ForgetsTheEndOfRuns>,
    },
    Mutant {
        name: "an_unknown_session_is_an_empty_one",
        wrong: "reads of a session that does not exist find nothing",
        caught_by: "append/an_unknown_session_is_not_found",
        place: answers::<UnknownIsEmpty>,
    },
    Mutant {
        name: "takes_the_head_from_the_last_readable_row",
        wrong: "the head is lower where the last event is damaged",
        caught_by: "damage/a_damaged_last_event_keeps_its_place",
        place: answers::<HeadFromTheLastRow>,
    },
    Mutant {
        name: "keeps_heads_in_a_cache",
        wrong: "a handle knows of its own appends alone",
        caught_by: "process/a_handle_sees_what_the_other_commits",
        place: answers::<KeepsHeads>,
    },
    Mutant {
        name: "renumbers_on_reopen",
        wrong: "ordinals change when the store is opened again",
        caught_by: "durability/acknowledged_survives_reopen",
        place: renumbers_on_reopen,
    },
    Mutant {
        name: "counts_notes_as_items",
        wrong: "a note changes how many items its session has",
        caught_by: "contribution/facts_leave_the_ledger_alone",
        place: answers::<CountsNotes>,
    },
    Mutant {
        name: "rewrites_events_when_rebuilding",
        wrong: "events are other ones when the index was made anew",
        caught_by: "index/rebuilding_changes_no_event_and_no_run",
        place: answers::<RewritesEvents>,
    },
    Mutant {
        name: "cuts_bodies",
        wrong: "an event loses its last bytes",
        caught_by: "append/every_event_comes_back_as_it_was",
        place: answers::<CutsBodies>,
    },
];

type Events = Result<Vec<StoredEvent>, StoreError>;

fn time(ts: &str) -> u64 {
    ts.parse().unwrap_or(u64::MAX)
}

#[derive(Default)]
struct OrdersByTime;

#[async_trait]
impl Decorator for OrdersByTime {
    async fn range(&self, inner: &dyn Store, id: &SessionId, query: RangeQuery) -> Events {
        let mut events = inner.range(id, query).await?;
        events.sort_by_key(|event| event.view().map_or(0, |view| time(view.ts)));
        Ok(events)
    }
}

#[derive(Default)]
struct OrdersItemsByTime;

#[async_trait]
impl Decorator for OrdersItemsByTime {
    async fn read_items(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        query: ItemQuery,
    ) -> Result<ItemPage, StoreError> {
        let older = query.direction == Direction::Older;
        let mut page = inner.read_items(id, query).await?;
        page.items.sort_by_key(|item| time(&item.item.ts));
        if older {
            page.items.reverse();
        }
        Ok(page)
    }
}

/// Where batches end, by session.
#[derive(Default)]
struct LimitsBatches(Mutex<BTreeMap<String, Vec<u64>>>);

#[async_trait]
impl Decorator for LimitsBatches {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let committed = inner.append(id, batch).await?;
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = ends.entry(id.as_str().to_owned()).or_default();
        ends.push(committed.high_water);
        Ok(committed)
    }

    async fn range(&self, inner: &dyn Store, id: &SessionId, mut query: RangeQuery) -> Events {
        let ends = {
            let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            ends.get(id.as_str()).cloned().unwrap_or_default()
        };
        let mut later = ends.into_iter().filter(|end| *end >= query.from);
        if let Some(batches) = query.max_count.checked_sub(1) {
            query.to = query.to.min(later.nth(batches).unwrap_or(u64::MAX));
            query.max_count = usize::MAX;
        }
        inner.range(id, query).await
    }
}

#[derive(Default)]
struct RangesIgnoreMaxBytes;

#[async_trait]
impl Decorator for RangesIgnoreMaxBytes {
    async fn range(&self, inner: &dyn Store, id: &SessionId, mut query: RangeQuery) -> Events {
        query.max_bytes = usize::MAX;
        inner.range(id, query).await
    }
}

#[derive(Default)]
struct RangesIgnoreTheirEnd;

#[async_trait]
impl Decorator for RangesIgnoreTheirEnd {
    async fn range(&self, inner: &dyn Store, id: &SessionId, mut query: RangeQuery) -> Events {
        query.to = u64::MAX;
        inner.range(id, query).await
    }
}

#[derive(Default)]
struct SortsWhatWasAskedFor;

#[async_trait]
impl Decorator for SortsWhatWasAskedFor {
    async fn events(&self, inner: &dyn Store, id: &SessionId, ordinals: &[u64]) -> Events {
        let mut ordinals = ordinals.to_vec();
        ordinals.sort_unstable();
        ordinals.dedup();
        inner.events(id, &ordinals).await
    }
}

#[derive(Default)]
struct PassesOverMissing;

#[async_trait]
impl Decorator for PassesOverMissing {
    async fn range(&self, inner: &dyn Store, id: &SessionId, query: RangeQuery) -> Events {
        let found = inner.range(id, query).await;
        if found
            .as_ref()
            .is_err_and(|error| error.code() == "projection_gap")
        {
            let to = query.to.min(inner.session(id).await?.head);
            let ordinals: Vec<_> = (query.from..=to).collect();
            return self.events(inner, id, &ordinals).await;
        }
        found
    }

    async fn events(&self, inner: &dyn Store, id: &SessionId, ordinals: &[u64]) -> Events {
        let mut found = Vec::new();
        for ordinal in ordinals {
            match inner.events(id, &[*ordinal]).await {
                Err(error) if error.code() == "projection_gap" => {}
                event => found.extend(event?),
            }
        }
        Ok(found)
    }
}

#[derive(Default)]
struct PassesOverUnknownIds;

#[async_trait]
impl Decorator for PassesOverUnknownIds {
    async fn lookup_ids(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<KnownEvent>>, StoreError> {
        let mut known = inner.lookup_ids(id, ids).await?;
        known.retain(Option::is_some);
        Ok(known)
    }
}

#[derive(Default)]
struct LooksInEverySession;

#[async_trait]
impl Decorator for LooksInEverySession {
    async fn lookup_ids(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<KnownEvent>>, StoreError> {
        let mut known = inner.lookup_ids(id, ids).await?;
        for other in inner.sessions(SessionFilter::All, None, 100).await? {
            let there = inner.lookup_ids(&other.id, ids).await?;
            for (known, there) in known.iter_mut().zip(there) {
                *known = known.or(there);
            }
        }
        Ok(known)
    }
}

#[derive(Default)]
struct RunsIgnoreTheirLimit;

#[async_trait]
impl Decorator for RunsIgnoreTheirLimit {
    async fn runs(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        after: u32,
        _: usize,
    ) -> Result<Vec<RunRow>, StoreError> {
        inner.runs(id, after, usize::MAX).await
    }
}

#[derive(Default)]
struct ForgetsTheEndOfRuns;

#[async_trait]
impl Decorator for ForgetsTheEndOfRuns {
    async fn runs(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<RunRow>, StoreError> {
        let mut runs = inner.runs(id, after, limit).await?;
        for run in &mut runs {
            run.terminal = None;
        }
        Ok(runs)
    }
}

#[derive(Default)]
struct UnknownIsEmpty;

#[async_trait]
impl Decorator for UnknownIsEmpty {
    async fn range(&self, inner: &dyn Store, id: &SessionId, query: RangeQuery) -> Events {
        match inner.range(id, query).await {
            Err(error) if error.code() == "session_not_found" => Ok(Vec::new()),
            found => found,
        }
    }
}

#[derive(Default)]
struct HeadFromTheLastRow;

#[async_trait]
impl Decorator for HeadFromTheLastRow {
    async fn session(&self, inner: &dyn Store, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let mut info = inner.session(id).await?;
        while info.head > 0 && inner.events(id, &[info.head]).await.is_err() {
            info.head -= 1;
        }
        Ok(info)
    }
}

#[derive(Default)]
struct KeepsHeads(Mutex<BTreeMap<String, SessionInfo>>);

impl KeepsHeads {
    fn forget(&self, id: &SessionId) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(id.as_str());
    }
}

#[async_trait]
impl Decorator for KeepsHeads {
    async fn session(&self, inner: &dyn Store, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let kept = {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get(id.as_str()).cloned()
        };
        if let Some(info) = kept {
            return Ok(info);
        }
        let info = inner.session(id).await?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(id.as_str().to_owned(), info.clone());
        Ok(info)
    }

    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let done = inner.append(id, batch).await;
        self.forget(id);
        done
    }

    async fn set_authority(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        change: folio_store::AuthorityChange,
    ) -> Result<SessionInfo, StoreError> {
        let done = inner.set_authority(id, change).await;
        self.forget(id);
        done
    }

    async fn discard_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: u64,
    ) -> Result<(), StoreError> {
        let done = inner.discard_session(id, expected_rev).await;
        self.forget(id);
        done
    }
}

/// How often the store was opened before.
struct Renumbers(u64);

fn renumbers_on_reopen() -> Box<dyn StorePlace> {
    let place = SimulatedPlace::new(Right, |inner, opened| {
        Arc::new(Decorated::by(Renumbers(opened - 1), inner))
    });
    Box::new(place)
}

#[async_trait]
impl Decorator for Renumbers {
    async fn range(&self, inner: &dyn Store, id: &SessionId, query: RangeQuery) -> Events {
        let mut events = inner.range(id, query).await?;
        for event in &mut events {
            event.ordinal += self.0;
        }
        Ok(events)
    }
}

#[derive(Default)]
struct CountsNotes;

#[async_trait]
impl Decorator for CountsNotes {
    async fn session(&self, inner: &dyn Store, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let mut info = inner.session(id).await?;
        info.items += inner.contribution_status(id, NOTES).await?.head;
        Ok(info)
    }
}

/// Whether an index was made anew.
#[derive(Default)]
struct RewritesEvents(AtomicBool);

#[async_trait]
impl Decorator for RewritesEvents {
    async fn rebuild_index(
        &self,
        inner: &dyn Store,
        id: &SessionId,
    ) -> Result<IndexStatus, StoreError> {
        self.0.store(true, Ordering::Release);
        inner.rebuild_index(id).await
    }

    async fn range(&self, inner: &dyn Store, id: &SessionId, query: RangeQuery) -> Events {
        let mut events = inner.range(id, query).await?;
        let later = u64::from(self.0.load(Ordering::Acquire));
        for event in &mut events {
            event.committed_at += later;
        }
        Ok(events)
    }
}

#[derive(Default)]
struct CutsBodies;

#[async_trait]
impl Decorator for CutsBodies {
    async fn range(&self, inner: &dyn Store, id: &SessionId, query: RangeQuery) -> Events {
        let mut events = inner.range(id, query).await?;
        for event in events.iter_mut().filter(|event| event.ordinal % 7 == 0) {
            event.body.truncate(event.body.len() - 2);
        }
        Ok(events)
    }
}
