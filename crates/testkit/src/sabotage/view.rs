//! Views that ignore marks, versions, order, bounds or whose entries are whose.

use super::append::has_code;
use super::{Mutant, answers, keeps, lock};
use crate::decorator::Decorator;
use crate::simulated::{Disk, Flaw, State};
use async_trait::async_trait;
use folio_core::{Direction, SessionId};
use folio_store::engine::{WriteTxn, Writes};
use folio_store::rows::ViewEntry;
use folio_store::{Store, StoreError, ViewBatch, ViewQuery};
use folio_store_memory::Tables;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "views_ignore_their_marks",
        wrong: "a follower that was too slow writes all the same",
        caught_by: "view/another_follower_was_faster",
        place: answers::<IgnoresMarks>,
    },
    Mutant {
        name: "a_mark_goes_back",
        wrong: "a mark that would go back is left where it is",
        caught_by: "view/a_mark_does_not_go_back",
        place: answers::<GoesBack>,
    },
    Mutant {
        name: "a_mark_is_cut_to_the_head",
        wrong: "a mark beyond the head is one at the head",
        caught_by: "view/a_mark_is_not_beyond_the_head",
        place: answers::<CutsMarks>,
    },
    Mutant {
        name: "one_mark_for_all_sessions",
        wrong: "a view has seen every session as far as one of them",
        caught_by: "view/every_session_has_a_mark",
        place: answers::<OneMark>,
    },
    Mutant {
        name: "views_share_their_keys",
        wrong: "all views are one key space",
        caught_by: "view/views_have_key_spaces_of_their_own",
        place: answers::<SharesKeys>,
    },
    Mutant {
        name: "views_have_no_version",
        wrong: "entries of every version are one view",
        caught_by: "view/readers_of_another_version_find_nothing",
        place: answers::<NoVersion>,
    },
    Mutant {
        name: "an_older_version_takes_over",
        wrong: "an older program drops what a newer one wrote",
        caught_by: "view/an_older_version_is_refused",
        place: answers::<TakesOver>,
    },
    Mutant {
        name: "a_newer_version_drops_before_it_looks",
        wrong: "a refused batch of a newer version drops the older one",
        caught_by: "view/a_newer_version_drops_the_older_one",
        place: answers::<DropsEarly>,
    },
    Mutant {
        name: "drops_no_view",
        wrong: "a view that was dropped is still there",
        caught_by: "view/a_dropped_view_is_empty",
        place: answers::<DropsNone>,
    },
    Mutant {
        name: "views_are_read_forwards",
        wrong: "older entries first, whatever was asked for",
        caught_by: "view/entries_are_read_in_both_directions_between_bounds",
        place: answers::<ReadsForwards>,
    },
    Mutant {
        name: "a_bound_is_included",
        wrong: "the key at which a listing ends is listed",
        caught_by: "view/entries_are_read_in_both_directions_between_bounds",
        place: answers::<IncludesTheBound>,
    },
    Mutant {
        name: "short_keys_come_first",
        wrong: "keys are ordered by their length",
        caught_by: "view/keys_are_ordered_by_their_bytes",
        place: answers::<OrdersByLength>,
    },
    Mutant {
        name: "a_listing_has_no_bound",
        wrong: "a listing holds every entry",
        caught_by: "view/a_listing_is_bounded",
        place: answers::<ListsEverything>,
    },
    Mutant {
        name: "writes_what_it_refuses",
        wrong: "the entries of a refused batch are written",
        caught_by: "view/a_refused_batch_writes_nothing",
        place: answers::<WritesTheRefused>,
    },
    Mutant {
        name: "removes_no_key",
        wrong: "a key that is removed keeps its value",
        caught_by: "view/a_key_is_replaced_and_removed",
        place: answers::<RemovesNoKey>,
    },
    Mutant {
        name: "marks_move_with_entries_only",
        wrong: "a mark stays where nothing is to be written",
        caught_by: "view/the_mark_moves_with_the_entries",
        place: answers::<NeedsEntries>,
    },
    Mutant {
        name: "an_empty_value_is_none",
        wrong: "a key with an empty value is not kept",
        caught_by: "view/what_was_put_is_found",
        place: answers::<EmptyIsNone>,
    },
    Mutant {
        name: "cuts_the_name_of_a_view",
        wrong: "a name that is too long is cut",
        caught_by: "view/limits_are_told",
        place: answers::<CutsTheName>,
    },
    Mutant {
        name: "an_unknown_session_has_a_mark",
        wrong: "a session that does not exist was seen up to nothing",
        caught_by: "view/an_unknown_session_is_not_found",
        place: answers::<UnknownHasAMark>,
    },
    Mutant {
        name: "views_are_kept_in_memory",
        wrong: "entries of views are not on the disk when they are acknowledged",
        caught_by: "view/a_view_is_there_after_reopening",
        place: keeps::<ViewsInMemory>,
    },
];

#[derive(Default)]
struct IgnoresMarks;

#[async_trait]
impl Decorator for IgnoresMarks {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        if batch.from <= batch.to
            && let Ok(mark) = inner
                .view_mark(&batch.view, batch.version, &batch.session)
                .await
        {
            batch.from = mark.min(batch.to);
        }
        inner.put_view(batch).await
    }
}

#[derive(Default)]
struct GoesBack;

#[async_trait]
impl Decorator for GoesBack {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        batch.to = batch.to.max(batch.from);
        inner.put_view(batch).await
    }
}

#[derive(Default)]
struct CutsMarks;

#[async_trait]
impl Decorator for CutsMarks {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        let head = inner.session(&batch.session).await?.head;
        batch.to = batch.to.min(head);
        inner.put_view(batch).await
    }
}

#[derive(Default)]
struct OneMark(Mutex<BTreeMap<String, u64>>);

#[async_trait]
impl Decorator for OneMark {
    async fn put_view(&self, inner: &dyn Store, batch: ViewBatch) -> Result<(), StoreError> {
        let (view, to) = (batch.view.clone(), batch.to);
        inner.put_view(batch).await?;
        lock(&self.0).insert(view, to);
        Ok(())
    }

    async fn view_mark(
        &self,
        inner: &dyn Store,
        view: &str,
        version: u32,
        session: &SessionId,
    ) -> Result<u64, StoreError> {
        let mark = inner.view_mark(view, version, session).await?;
        let latest = lock(&self.0).get(view).copied();
        Ok(if mark == 0 { latest.unwrap_or(0) } else { mark })
    }
}

#[derive(Default)]
struct SharesKeys;

#[async_trait]
impl Decorator for SharesKeys {
    async fn view_value(
        &self,
        inner: &dyn Store,
        _: &str,
        version: u32,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        inner.view_value("v", version, key).await
    }
}

#[derive(Default)]
struct NoVersion;

#[async_trait]
impl Decorator for NoVersion {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        batch.version = 1;
        inner.put_view(batch).await
    }

    async fn view_value(
        &self,
        inner: &dyn Store,
        view: &str,
        _: u32,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        inner.view_value(view, 1, key).await
    }

    async fn view_entries(
        &self,
        inner: &dyn Store,
        mut query: ViewQuery,
    ) -> Result<Vec<ViewEntry>, StoreError> {
        query.version = 1;
        inner.view_entries(query).await
    }

    async fn view_mark(
        &self,
        inner: &dyn Store,
        view: &str,
        _: u32,
        session: &SessionId,
    ) -> Result<u64, StoreError> {
        inner.view_mark(view, 1, session).await
    }
}

#[derive(Default)]
struct TakesOver;

#[async_trait]
impl Decorator for TakesOver {
    async fn put_view(&self, inner: &dyn Store, batch: ViewBatch) -> Result<(), StoreError> {
        let done = inner.put_view(batch.clone()).await;
        if has_code(&done, "view_version") {
            inner.drop_view(&batch.view).await?;
            return inner.put_view(ViewBatch { from: 0, ..batch }).await;
        }
        done
    }
}

#[derive(Default)]
struct DropsEarly;

#[async_trait]
impl Decorator for DropsEarly {
    async fn put_view(&self, inner: &dyn Store, batch: ViewBatch) -> Result<(), StoreError> {
        let done = inner.put_view(batch.clone()).await;
        if has_code(&done, "view_moved")
            && inner
                .view_mark(&batch.view, batch.version, &batch.session)
                .await?
                == 0
        {
            inner.drop_view(&batch.view).await?;
        }
        done
    }
}

#[derive(Default)]
struct DropsNone;

#[async_trait]
impl Decorator for DropsNone {
    async fn drop_view(&self, _: &dyn Store, _: &str) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Default)]
struct ReadsForwards;

#[async_trait]
impl Decorator for ReadsForwards {
    async fn view_entries(
        &self,
        inner: &dyn Store,
        mut query: ViewQuery,
    ) -> Result<Vec<ViewEntry>, StoreError> {
        query.direction = Direction::Newer;
        inner.view_entries(query).await
    }
}

#[derive(Default)]
struct IncludesTheBound;

#[async_trait]
impl Decorator for IncludesTheBound {
    async fn view_entries(
        &self,
        inner: &dyn Store,
        mut query: ViewQuery,
    ) -> Result<Vec<ViewEntry>, StoreError> {
        if let Some(to) = &mut query.to {
            to.push(0);
        }
        inner.view_entries(query).await
    }
}

#[derive(Default)]
struct OrdersByLength;

#[async_trait]
impl Decorator for OrdersByLength {
    async fn view_entries(
        &self,
        inner: &dyn Store,
        query: ViewQuery,
    ) -> Result<Vec<ViewEntry>, StoreError> {
        let mut found = inner.view_entries(query).await?;
        found.sort_by_key(|(key, _)| key.len());
        Ok(found)
    }
}

#[derive(Default)]
struct ListsEverything;

#[async_trait]
impl Decorator for ListsEverything {
    async fn view_entries(
        &self,
        inner: &dyn Store,
        mut query: ViewQuery,
    ) -> Result<Vec<ViewEntry>, StoreError> {
        let mut all = Vec::new();
        loop {
            let more = inner.view_entries(query.clone()).await?;
            query.limit -= more.len();
            let last = more.last().map(|(key, _)| key.clone());
            all.extend(more);
            match last {
                Some(last) if query.limit > 0 && query.direction == Direction::Newer => {
                    query.from = [&last, &[0][..]].concat();
                }
                Some(last) if query.limit > 0 => query.to = Some(last),
                _ => return Ok(all),
            }
        }
    }
}

#[derive(Default)]
struct WritesTheRefused;

#[async_trait]
impl Decorator for WritesTheRefused {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        let done = inner.put_view(batch.clone()).await;
        if has_code(&done, "view_moved") {
            let mark = inner
                .view_mark(&batch.view, batch.version, &batch.session)
                .await?;
            (batch.from, batch.to) = (mark, mark);
            inner.put_view(batch).await?;
        }
        done
    }
}

#[derive(Default)]
struct RemovesNoKey;

#[async_trait]
impl Decorator for RemovesNoKey {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        batch.entries.retain(|(_, value)| value.is_some());
        inner.put_view(batch).await
    }
}

#[derive(Default)]
struct NeedsEntries;

#[async_trait]
impl Decorator for NeedsEntries {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        if batch.entries.is_empty() {
            batch.to = batch.to.min(batch.from);
        }
        inner.put_view(batch).await
    }
}

#[derive(Default)]
struct EmptyIsNone;

#[async_trait]
impl Decorator for EmptyIsNone {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        batch
            .entries
            .retain(|(_, value)| value.as_ref().is_none_or(|value| !value.is_empty()));
        inner.put_view(batch).await
    }
}

#[derive(Default)]
struct CutsTheName;

#[async_trait]
impl Decorator for CutsTheName {
    async fn put_view(&self, inner: &dyn Store, mut batch: ViewBatch) -> Result<(), StoreError> {
        batch.view.truncate(64);
        inner.put_view(batch).await
    }
}

#[derive(Default)]
struct UnknownHasAMark;

#[async_trait]
impl Decorator for UnknownHasAMark {
    async fn view_mark(
        &self,
        inner: &dyn Store,
        view: &str,
        version: u32,
        session: &SessionId,
    ) -> Result<u64, StoreError> {
        let mark = inner.view_mark(view, version, session).await;
        if has_code(&mark, "session_not_found") {
            return Ok(0);
        }
        mark
    }
}

#[derive(Default)]
struct ViewsInMemory(AtomicBool);

impl Flaw for ViewsInMemory {
    fn apply(&self, _: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        if writes.view.is_some() {
            self.0.store(true, Ordering::Relaxed);
        }
        txn.apply(writes)
    }

    fn commit(&self, state: &mut State, next: Tables) {
        if !self.0.swap(false, Ordering::Relaxed) {
            state.synced = next.clone();
        }
        state.live = next;
    }
}
