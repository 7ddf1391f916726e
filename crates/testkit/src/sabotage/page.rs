//! Wrong pages.

use super::{Mutant, answers};
use crate::decorator::Decorator;
use async_trait::async_trait;
use folio_core::key::ItemKind;
use folio_core::{Direction, Position, SessionId};
use folio_store::{IndexStatus, ItemPage, ItemQuery, ReadStats, Start, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "counts_from_the_edge",
        wrong: "a page goes on at a number of items from the edge",
        caught_by: "item/newer_items_do_not_move_a_page",
        place: answers::<CountsFromTheEdge>,
    },
    Mutant {
        name: "repeats_the_last_item",
        wrong: "a page begins with the item that it goes on behind",
        caught_by: "item/a_page_goes_on_behind_an_item",
        place: answers::<RepeatsTheLastItem>,
    },
    Mutant {
        name: "begins_at_the_edge",
        wrong: "a page that was to begin at an item begins at the edge",
        caught_by: "item/a_page_begins_at_an_item_or_its_key",
        place: answers::<BeginsAtTheEdge>,
    },
    Mutant {
        name: "begins_at_the_next_ordinal",
        wrong: "a page that was to begin at an ordinal begins beside it",
        caught_by: "item/a_page_begins_at_an_ordinal",
        place: answers::<BeginsBesideTheOrdinal>,
    },
    Mutant {
        name: "pages_ignore_max_bytes",
        wrong: "a page is as large as its items",
        caught_by: "item/a_page_stops_at_max_bytes_but_loads_one",
        place: answers::<IgnoresMaxBytes>,
    },
    Mutant {
        name: "pages_ignore_max_items",
        wrong: "a page has more items than were asked for",
        caught_by: "item/a_page_never_exceeds_max_items",
        place: answers::<IgnoresMaxItems>,
    },
    Mutant {
        name: "reads_the_whole_session",
        wrong: "a page costs what the session costs",
        caught_by: "item/a_huge_turn_is_paged_like_any_other",
        place: answers::<ReadsEverything>,
    },
    Mutant {
        name: "ignores_the_watermark",
        wrong: "a page at a watermark shows the head",
        caught_by: "item/older_events_never_change_under_a_watermark",
        place: answers::<IgnoresTheWatermark>,
    },
    Mutant {
        name: "clamps_the_watermark",
        wrong: "a watermark that does not exist is the head",
        caught_by: "item/an_unknown_watermark_is_refused",
        place: answers::<ClampsTheWatermark>,
    },
    Mutant {
        name: "begins_somewhere_for_an_unknown_key",
        wrong: "a key that does not exist is the edge",
        caught_by: "item/an_unknown_key_is_not_found",
        place: answers::<TakesUnknownKeys>,
    },
    Mutant {
        name: "guesses_whether_more_follows",
        wrong: "a full page is taken for one with more behind it",
        caught_by: "item/a_page_never_exceeds_max_items",
        place: answers::<GuessesMore>,
    },
    Mutant {
        name: "an_index_that_is_damaged_is_empty",
        wrong: "a page over a damaged index is empty",
        caught_by: "damage/a_damaged_item_row_is_index_damaged",
        place: answers::<EmptyWhenDamaged>,
    },
    Mutant {
        name: "serves_up_to_the_lost_row",
        wrong: "a page ends before an index row that is lost",
        caught_by: "damage/a_lost_item_row_is_index_damaged",
        place: answers::<ServesWhatIsLeft>,
    },
    Mutant {
        name: "hides_items_with_damaged_events",
        wrong: "an item whose event is damaged is left out",
        caught_by: "damage/a_damaged_event_marks_its_item_alone",
        place: answers::<HidesDamagedItems>,
    },
    Mutant {
        name: "joins_chunks_backwards",
        wrong: "the chunks of a stream come newest first",
        caught_by: "item/chunks_join_into_one_text",
        place: answers::<ReversesChunks>,
    },
    Mutant {
        name: "loses_the_last_chunk",
        wrong: "a stream is shown without its last chunk",
        caught_by: "item/a_long_stream_is_one_item",
        place: answers::<LosesTheLastChunk>,
    },
    Mutant {
        name: "a_late_chunk_is_a_revision",
        wrong: "a chunk that comes behind its final gives the item another revision",
        caught_by: "item/a_late_chunk_has_no_effect",
        place: answers::<RevisesByLateChunks>,
    },
    Mutant {
        name: "renames_items_when_their_run_ends",
        wrong: "the key of an item changes when its run ends",
        caught_by: "item/terminalization_keeps_the_key",
        place: answers::<RenamesItems>,
    },
    Mutant {
        name: "a_stream_keeps_its_first_revision",
        wrong: "an item that grows has the revision of its first chunk",
        caught_by: "item/chunks_join_into_one_text",
        place: answers::<KeepsRevisions>,
    },
    Mutant {
        name: "hides_calls_of_running_turns",
        wrong: "a tool call is shown once its run has ended",
        caught_by: "item/a_running_turn_shows_its_items",
        place: answers::<HidesRunningCalls>,
    },
    Mutant {
        name: "hides_what_it_does_not_know",
        wrong: "an item of an unknown kind is left out",
        caught_by: "item/an_unknown_fact_never_hides_the_others",
        place: answers::<HidesTheUnknown>,
    },
    Mutant {
        name: "a_stale_index_is_empty",
        wrong: "a page over an index of another build is empty",
        caught_by: "damage/an_index_of_another_build_is_stale_and_says_so",
        place: answers::<EmptyWhenStale>,
    },
    Mutant {
        name: "rebuilds_no_empty_session",
        wrong: "making the index of an empty session anew is an error",
        caught_by: "index/rebuilding_an_empty_session_is_fine",
        place: answers::<RebuildsNoEmptySession>,
    },
    Mutant {
        name: "does_not_rebuild",
        wrong: "making the index anew keeps the old one",
        caught_by: "damage/a_damaged_item_row_is_index_damaged",
        place: answers::<DoesNotRebuild>,
    },
    Mutant {
        name: "says_the_index_is_behind",
        wrong: "the index's own head is one behind",
        caught_by: "index/the_index_commits_with_its_events",
        place: answers::<SaysBehind>,
    },
];

type Page = Result<ItemPage, StoreError>;

/// How many items were served up to one, by session, direction and position.
#[derive(Default)]
struct CountsFromTheEdge(Mutex<BTreeMap<(String, bool, Position), usize>>);

#[async_trait]
impl Decorator for CountsFromTheEdge {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let older = query.direction == Direction::Older;
        let key = |position| (id.as_str().to_owned(), older, position);
        let served = match query.start {
            Start::Behind(position) => {
                let served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                served.get(&key(position)).copied()
            }
            _ => None,
        };
        let mut page = match served {
            Some(served) => {
                let from_the_edge = ItemQuery {
                    start: Start::Edge,
                    max_items: served.saturating_add(query.max_items),
                    max_bytes: usize::MAX,
                    ..query
                };
                let mut page = inner.read_items(id, from_the_edge).await?;
                page.items.drain(..served.min(page.items.len()));
                page.before = true;
                page
            }
            None if query.start == Start::Edge => inner.read_items(id, query).await?,
            None => return inner.read_items(id, query).await,
        };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (item, count) in page.items.iter_mut().zip(served.unwrap_or(0) + 1..) {
            counts.insert(key(item.item.position), count);
        }
        Ok(page)
    }
}

#[derive(Default)]
struct RepeatsTheLastItem;

#[async_trait]
impl Decorator for RepeatsTheLastItem {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        if let Start::Behind(position) = query.start {
            query.start = Start::At(position);
        }
        inner.read_items(id, query).await
    }
}

#[derive(Default)]
struct BeginsAtTheEdge;

#[async_trait]
impl Decorator for BeginsAtTheEdge {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        if matches!(query.start, Start::At(_)) {
            query.start = Start::Edge;
        }
        inner.read_items(id, query).await
    }
}

#[derive(Default)]
struct BeginsBesideTheOrdinal;

#[async_trait]
impl Decorator for BeginsBesideTheOrdinal {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        if let Start::AtOrdinal(ordinal) = &mut query.start {
            *ordinal = match query.direction {
                Direction::Newer => ordinal.saturating_add(1),
                Direction::Older => ordinal.saturating_sub(1),
            };
        }
        inner.read_items(id, query).await
    }
}

#[derive(Default)]
struct IgnoresMaxBytes;

#[async_trait]
impl Decorator for IgnoresMaxBytes {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        query.max_bytes = usize::MAX;
        inner.read_items(id, query).await
    }
}

#[derive(Default)]
struct IgnoresMaxItems;

#[async_trait]
impl Decorator for IgnoresMaxItems {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        query.max_items = query.max_items.saturating_mul(2);
        inner.read_items(id, query).await
    }
}

#[derive(Default)]
struct ReadsEverything;

#[async_trait]
impl Decorator for ReadsEverything {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let everything = ItemQuery {
            max_items: usize::MAX,
            max_bytes: usize::MAX,
            ..query.clone()
        };
        let ReadStats {
            events,
            bytes,
            items,
        } = inner.read_items(id, everything).await?.stats;
        let mut page = inner.read_items(id, query).await?;
        page.stats = ReadStats {
            events,
            bytes,
            items,
        };
        Ok(page)
    }
}

#[derive(Default)]
struct IgnoresTheWatermark;

#[async_trait]
impl Decorator for IgnoresTheWatermark {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        let head = inner.session(id).await?.head;
        query.through = query.through.map(|through| through.max(head));
        inner.read_items(id, query).await
    }
}

#[derive(Default)]
struct ClampsTheWatermark;

#[async_trait]
impl Decorator for ClampsTheWatermark {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        let head = inner.session(id).await?.head;
        query.through = query.through.map(|through| through.min(head));
        inner.read_items(id, query).await
    }
}

#[derive(Default)]
struct TakesUnknownKeys;

#[async_trait]
impl Decorator for TakesUnknownKeys {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        let page = inner.read_items(id, query.clone()).await;
        if page
            .as_ref()
            .is_err_and(|error| error.code() == "item_not_found")
        {
            query.start = Start::Edge;
            return inner.read_items(id, query).await;
        }
        page
    }
}

#[derive(Default)]
struct GuessesMore;

#[async_trait]
impl Decorator for GuessesMore {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let max_items = query.max_items;
        let mut page = inner.read_items(id, query).await?;
        page.more |= page.items.len() == max_items;
        Ok(page)
    }
}

/// A page without items.
async fn empty(inner: &dyn Store, id: &SessionId) -> Page {
    let session = inner.session(id).await?;
    Ok(ItemPage {
        through: session.head,
        session,
        items: Vec::new(),
        more: false,
        before: false,
        stats: ReadStats::default(),
    })
}

#[derive(Default)]
struct EmptyWhenDamaged;

#[async_trait]
impl Decorator for EmptyWhenDamaged {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let page = inner.read_items(id, query).await;
        if page
            .as_ref()
            .is_err_and(|error| error.code() == "index_damaged")
        {
            return empty(inner, id).await;
        }
        page
    }
}

#[derive(Default)]
struct ServesWhatIsLeft;

#[async_trait]
impl Decorator for ServesWhatIsLeft {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, mut query: ItemQuery) -> Page {
        query.max_items = query.max_items.min(1_000);
        let mut page = inner.read_items(id, query.clone()).await;
        while query.max_items > 0
            && page
                .as_ref()
                .is_err_and(|error| error.code() == "index_damaged")
        {
            query.max_items -= 1;
            page = inner
                .read_items(id, query.clone())
                .await
                .map(|page| ItemPage {
                    more: false,
                    ..page
                });
        }
        page
    }
}

#[derive(Default)]
struct HidesDamagedItems;

#[async_trait]
impl Decorator for HidesDamagedItems {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let mut page = inner.read_items(id, query).await?;
        page.items.retain(|item| item.damaged.is_empty());
        Ok(page)
    }
}

#[derive(Default)]
struct ReversesChunks;

#[async_trait]
impl Decorator for ReversesChunks {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let mut page = inner.read_items(id, query).await?;
        for (_, chunks) in page.items.iter_mut().flat_map(|item| &mut item.chunks) {
            chunks.reverse();
        }
        Ok(page)
    }
}

#[derive(Default)]
struct LosesTheLastChunk;

#[async_trait]
impl Decorator for LosesTheLastChunk {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let mut page = inner.read_items(id, query).await?;
        for (_, chunks) in page.items.iter_mut().flat_map(|item| &mut item.chunks) {
            if chunks.len() > 1 {
                chunks.pop();
            }
        }
        Ok(page)
    }
}

#[derive(Default)]
struct RenamesItems;

#[async_trait]
impl Decorator for RenamesItems {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let mut page = inner.read_items(id, query).await?;
        for item in &mut page.items {
            if item.run.terminal.is_some_and(|end| end <= page.through) {
                item.item.key = format!("{}-ended", item.item.key).into();
            }
        }
        Ok(page)
    }
}

#[derive(Default)]
struct KeepsRevisions;

#[async_trait]
impl Decorator for KeepsRevisions {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let mut page = inner.read_items(id, query).await?;
        for item in page.items.iter_mut().filter(|item| !item.chunks.is_empty()) {
            item.revision = item.item.position.ordinal;
        }
        Ok(page)
    }
}

#[derive(Default)]
struct HidesRunningCalls;

#[async_trait]
impl Decorator for HidesRunningCalls {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let mut page = inner.read_items(id, query).await?;
        page.items
            .retain(|item| item.item.kind != ItemKind::Call || item.run.terminal.is_some());
        Ok(page)
    }
}

#[derive(Default)]
struct HidesTheUnknown;

#[async_trait]
impl Decorator for HidesTheUnknown {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let mut page = inner.read_items(id, query).await?;
        page.items.retain(|item| !item.item.key.starts_with("ext:"));
        Ok(page)
    }
}

#[derive(Default)]
struct RevisesByLateChunks;

#[async_trait]
impl Decorator for RevisesByLateChunks {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let mut page = inner.read_items(id, query).await?;
        let newest = inner.events(id, &[page.through]).await.unwrap_or_default();
        let is_chunk = newest
            .iter()
            .any(|event| event.view().is_ok_and(|view| view.partial));
        let last = page.items.iter_mut().max_by_key(|item| item.item.position);
        if let (true, Some(last)) = (is_chunk, last)
            && last.item.kind == ItemKind::Assistant
        {
            last.revision = page.through;
        }
        Ok(page)
    }
}

#[derive(Default)]
struct EmptyWhenStale;

#[async_trait]
impl Decorator for EmptyWhenStale {
    async fn read_items(&self, inner: &dyn Store, id: &SessionId, query: ItemQuery) -> Page {
        let page = inner.read_items(id, query).await;
        if page
            .as_ref()
            .is_err_and(|error| error.code() == "index_stale")
        {
            return empty(inner, id).await;
        }
        page
    }
}

#[derive(Default)]
struct RebuildsNoEmptySession;

#[async_trait]
impl Decorator for RebuildsNoEmptySession {
    async fn rebuild_index(
        &self,
        inner: &dyn Store,
        id: &SessionId,
    ) -> Result<IndexStatus, StoreError> {
        if inner.session(id).await?.head == 0 {
            return Err(StoreError::gap(vec![1]));
        }
        inner.rebuild_index(id).await
    }
}

#[derive(Default)]
struct DoesNotRebuild;

#[async_trait]
impl Decorator for DoesNotRebuild {
    async fn rebuild_index(
        &self,
        inner: &dyn Store,
        id: &SessionId,
    ) -> Result<IndexStatus, StoreError> {
        inner.index_status(id).await
    }
}

#[derive(Default)]
struct SaysBehind;

#[async_trait]
impl Decorator for SaysBehind {
    async fn index_status(
        &self,
        inner: &dyn Store,
        id: &SessionId,
    ) -> Result<IndexStatus, StoreError> {
        let mut status = inner.index_status(id).await?;
        status.index_head = status.index_head.saturating_sub(1);
        Ok(status)
    }
}
