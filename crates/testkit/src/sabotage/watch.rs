//! Waits that end too early, too late or never.

use super::append::has_code;
use super::{Mutant, answers, lock, refusal};
use crate::decorator::Decorator;
use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::{AppendBatch, Committed, ErrorKind, Store, StoreError};
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "sleeps_before_it_looks",
        wrong: "a wait does not see what was committed before it began",
        caught_by: "watch/what_is_behind_is_told_at_once",
        place: answers::<SleepsFirst>,
    },
    Mutant {
        name: "other_handles_do_not_wake",
        wrong: "what another handle commits wakes nobody",
        caught_by: "watch/an_append_of_another_handle_wakes",
        place: answers::<DeafToOthers>,
    },
    Mutant {
        name: "every_commit_wakes",
        wrong: "a wait ends with whatever is committed",
        caught_by: "watch/other_commits_do_not_wake",
        place: answers::<EveryCommitWakes>,
    },
    Mutant {
        name: "deletion_wakes_nobody",
        wrong: "who waits for a session that is deleted waits for ever",
        caught_by: "watch/deletion_ends_a_wait",
        place: answers::<DeafToDeletion>,
    },
    Mutant {
        name: "closing_wakes_nobody",
        wrong: "who waits when the store is closed waits for ever",
        caught_by: "watch/closing_ends_a_wait",
        place: answers::<DeafToClosing>,
    },
    Mutant {
        name: "an_unknown_session_is_at_nothing",
        wrong: "a session that does not exist ends a wait as one without events",
        caught_by: "watch/nobody_waits_for_an_unknown_session",
        place: answers::<UnknownIsAtNothing>,
    },
    Mutant {
        name: "one_waits_for_a_session",
        wrong: "a second wait at the same time is refused",
        caught_by: "watch/many_waiters_wake",
        place: answers::<OneWaiter>,
    },
    Mutant {
        name: "dropped_waits_are_counted",
        wrong: "a wait that was dropped takes its place for ever",
        caught_by: "watch/a_wait_that_is_dropped_disturbs_nobody",
        place: answers::<CountsDroppedWaits>,
    },
    Mutant {
        name: "a_fork_waits_for_its_parent",
        wrong: "what is appended to a parent ends the waits for its forks",
        caught_by: "watch/a_fork_is_waited_for_by_itself",
        place: answers::<WaitsForTheParent>,
    },
];

#[derive(Default)]
struct SleepsFirst;

#[async_trait]
impl Decorator for SleepsFirst {
    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        let head = inner.session(id).await?.head;
        inner.wait(id, after.max(head)).await
    }
}

#[derive(Default)]
struct DeafToOthers(Mutex<BTreeMap<SessionId, u64>>);

#[async_trait]
impl Decorator for DeafToOthers {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let committed = inner.append(id, batch).await?;
        lock(&self.0).insert(id.clone(), committed.high_water);
        Ok(committed)
    }

    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        let seen = inner.session(id).await?.head;
        let head = inner.wait(id, after).await?;
        let own = lock(&self.0).get(id).copied().unwrap_or(0);
        if head > seen.max(own) {
            pending::<()>().await;
        }
        Ok(head)
    }
}

#[derive(Default)]
struct EveryCommitWakes(AtomicU64);

#[async_trait]
impl Decorator for EveryCommitWakes {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let committed = inner.append(id, batch).await;
        self.0.fetch_add(1, Ordering::Relaxed);
        committed
    }

    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        let before = self.0.load(Ordering::Relaxed);
        let mut wait = pin!(inner.wait(id, after));
        poll_fn(|context| {
            if self.0.load(Ordering::Relaxed) > before {
                return Poll::Ready(Ok(after));
            }
            wait.as_mut().poll(context)
        })
        .await
    }
}

#[derive(Default)]
struct DeafToDeletion;

#[async_trait]
impl Decorator for DeafToDeletion {
    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        inner.session(id).await?;
        let answer = inner.wait(id, after).await;
        if has_code(&answer, "session_not_found") {
            pending::<()>().await;
        }
        answer
    }
}

#[derive(Default)]
struct DeafToClosing;

#[async_trait]
impl Decorator for DeafToClosing {
    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        let answer = inner.wait(id, after).await;
        if has_code(&answer, "store_closed") {
            pending::<()>().await;
        }
        answer
    }
}

#[derive(Default)]
struct UnknownIsAtNothing;

#[async_trait]
impl Decorator for UnknownIsAtNothing {
    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        if has_code(&inner.session(id).await, "session_not_found") {
            return Ok(0);
        }
        inner.wait(id, after).await
    }
}

#[derive(Default)]
struct OneWaiter(AtomicU64);

#[async_trait]
impl Decorator for OneWaiter {
    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        if self.0.fetch_add(1, Ordering::AcqRel) > 0 {
            return Err(refusal(ErrorKind::Unavailable, "too_many_waits"));
        }
        let answer = inner.wait(id, after).await;
        self.0.fetch_sub(1, Ordering::AcqRel);
        answer
    }
}

#[derive(Default)]
struct CountsDroppedWaits(AtomicU64);

#[async_trait]
impl Decorator for CountsDroppedWaits {
    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        if self.0.fetch_add(1, Ordering::AcqRel) >= 32 {
            return Err(refusal(ErrorKind::Unavailable, "too_many_waits"));
        }
        let answer = inner.wait(id, after).await;
        self.0.fetch_sub(1, Ordering::AcqRel);
        answer
    }
}

#[derive(Default)]
struct WaitsForTheParent;

#[async_trait]
impl Decorator for WaitsForTheParent {
    async fn wait(&self, inner: &dyn Store, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        let parent = inner.session(id).await?.forked_from;
        inner.wait(parent.as_ref().unwrap_or(id), after).await
    }
}
