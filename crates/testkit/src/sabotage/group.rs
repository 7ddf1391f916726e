//! Stores that do wrong by batches that share a commit.

use super::{Mutant, answers, lock, refusal};
use crate::decorator::Decorator;
use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::{AppendBatch, Committed, ErrorKind, Flush, Room, Store, StoreError};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "refuses_the_neighbours",
        wrong: "a refusal refuses all that were committed with it",
        caught_by: "group/a_refused_batch_is_refused_alone",
        place: answers::<RefusesTheNeighbours>,
    },
    Mutant {
        name: "waits_alone",
        wrong: "what may wait is handed over only when its window ends",
        caught_by: "group/what_may_wait_goes_with_the_next_commit",
        place: answers::<WaitsAlone>,
    },
    Mutant {
        name: "waits_for_company",
        wrong: "a window has no end",
        caught_by: "group/a_window_ends",
        place: answers::<WaitsForCompany>,
    },
    Mutant {
        name: "flushes_nothing",
        wrong: "a flush answers and does nothing",
        caught_by: "group/flushing_does_not_wait_for_a_window",
        place: answers::<FlushesNothing>,
    },
    Mutant {
        name: "waits_for_room",
        wrong: "a full queue makes an append wait",
        caught_by: "group/a_full_queue_says_so",
        place: answers::<WaitsForRoom>,
    },
    Mutant {
        name: "keeps_what_it_refused",
        wrong: "a batch that found no room is committed later",
        caught_by: "group/a_full_queue_says_so",
        place: answers::<KeepsWhatItRefused>,
    },
    Mutant {
        name: "has_room_for_all",
        wrong: "the queue has no bound",
        caught_by: "group/room_is_given_when_there_is_some",
        place: answers::<HasRoomForAll>,
    },
    Mutant {
        name: "reserves_twice",
        wrong: "a reserved batch needs room like any other",
        caught_by: "group/a_reserved_batch_needs_no_other_room",
        place: answers::<ReservesTwice>,
    },
    Mutant {
        name: "takes_more_than_was_reserved",
        wrong: "a small room lets a large batch in",
        caught_by: "group/a_batch_must_fit_its_room",
        place: answers::<TakesMore>,
    },
];

type Appended = Result<Committed, StoreError>;

/// Counts those who wait, and the refusals that came meanwhile.
#[derive(Default)]
struct RefusesTheNeighbours {
    waiting: AtomicUsize,
    refused: AtomicUsize,
}

#[async_trait]
impl Decorator for RefusesTheNeighbours {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let refused = self.refused.load(Ordering::Relaxed);
        let done = inner.append(id, batch).await;
        let is_last = self.waiting.fetch_sub(1, Ordering::Relaxed) == 1;
        let is_conflict = |error: &StoreError| error.kind() == ErrorKind::Conflict;
        if done.as_ref().is_err_and(is_conflict) && !is_last {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        if self.refused.load(Ordering::Relaxed) != refused {
            return done.and_then(|_| Err(refusal(ErrorKind::Unavailable, "group_refused")));
        }
        done
    }
}

#[derive(Default)]
struct WaitsAlone;

#[async_trait]
impl Decorator for WaitsAlone {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        match batch.flush {
            Flush::Within(window) if window > Duration::from_secs(1) => {
                std::future::pending::<()>().await;
            }
            Flush::Within(window) => std::thread::sleep(window),
            Flush::Now => {}
        }
        batch.flush = Flush::Now;
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct WaitsForCompany;

#[async_trait]
impl Decorator for WaitsForCompany {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        if batch.flush != Flush::Now {
            batch.flush = Flush::Within(Duration::from_secs(3_600));
        }
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct FlushesNothing;

#[async_trait]
impl Decorator for FlushesNothing {
    async fn flush(&self, _: &dyn Store) -> Result<(), StoreError> {
        Ok(())
    }
}

#[derive(Default)]
struct WaitsForRoom;

#[async_trait]
impl Decorator for WaitsForRoom {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        let room = inner.reserve(batch.bytes()).await?;
        inner.append_reserved(room, id, batch).await
    }
}

#[derive(Default)]
struct KeepsWhatItRefused(Mutex<Vec<(SessionId, AppendBatch)>>);

#[async_trait]
impl Decorator for KeepsWhatItRefused {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        let done = inner.append(id, batch.clone()).await;
        if super::append::has_code(&done, "backpressure") {
            lock(&self.0).push((id.clone(), batch));
        }
        done
    }

    async fn flush(&self, inner: &dyn Store) -> Result<(), StoreError> {
        let kept = std::mem::take(&mut *lock(&self.0));
        for (id, batch) in kept {
            if super::append::has_code(&inner.append(&id, batch.clone()).await, "backpressure") {
                lock(&self.0).push((id, batch));
            }
        }
        inner.flush().await
    }
}

#[derive(Default)]
struct HasRoomForAll;

#[async_trait]
impl Decorator for HasRoomForAll {
    async fn reserve(&self, _: &dyn Store, bytes: usize) -> Result<Room, StoreError> {
        Ok(Room::new(bytes, ()))
    }
}

#[derive(Default)]
struct ReservesTwice;

#[async_trait]
impl Decorator for ReservesTwice {
    async fn append_reserved(
        &self,
        inner: &dyn Store,
        room: Room,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Appended {
        let _room = room;
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct TakesMore;

#[async_trait]
impl Decorator for TakesMore {
    async fn append_reserved(
        &self,
        inner: &dyn Store,
        room: Room,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Appended {
        let room = Room::new(room.bytes().max(batch.bytes()), room);
        inner.append_reserved(room, id, batch).await
    }
}
