//! Deletions that take too much, or leave too much.

use super::append::has_code;
use super::{Mutant, answers, keeps, lock, refusal};
use crate::decorator::Decorator;
use crate::simulated::{Disk, Flaw};
use async_trait::async_trait;
use folio_core::{Authority, SessionId};
use folio_store::engine::{Erase, WriteTxn, Writes};
use folio_store::rows::{RunRow, SpanRow};
use folio_store::{
    BlobId, ErrorKind, NewSession, Scrub, SessionFilter, SessionInfo, Store, StoreError,
};
use folio_store_memory::Tables;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "takes_what_forks_read",
        wrong: "a deletion does not look who reads what it removes",
        caught_by: "erase/a_child_keeps_what_it_reads",
        place: keeps::<TakesWhatForksRead>,
    },
    Mutant {
        name: "what_ended_later_stays_ended",
        wrong: "a run of a deleted parent ends where the prefix does",
        caught_by: "erase/what_ended_after_the_fork_is_open_without_the_parent",
        place: answers::<StaysEnded>,
    },
    Mutant {
        name: "keeps_what_views_hold",
        wrong: "entries of views outlive the session that they were made from",
        caught_by: "erase/notes_and_views_go_with_the_session",
        place: keeps::<KeepsViews>,
    },
    Mutant {
        name: "forgets_a_deletion_that_was_begun",
        wrong: "nobody completes a deletion that was interrupted",
        caught_by: "erase/a_deletion_is_completed_after_reopening",
        place: keeps::<ForgetsTheRest>,
    },
    Mutant {
        name: "scrubs_nothing",
        wrong: "a scrub says that it is done and does nothing",
        caught_by: "erase/erasures_are_counted_until_the_scrub",
        place: answers::<ScrubsNothing>,
    },
    Mutant {
        name: "counts_one_erasure_too_many",
        wrong: "a scrub without work completes something",
        caught_by: "erase/a_scrub_without_work_does_nothing",
        place: answers::<CountsTooMany>,
    },
    Mutant {
        name: "an_erasure_is_complete_at_once",
        wrong: "rows that wait for the scrub are not counted",
        caught_by: "erase/a_deletion_that_nobody_waits_for_is_completed",
        place: answers::<CompleteAtOnce>,
    },
    Mutant {
        name: "counts_refused_deletions",
        wrong: "a deletion that was refused is pending",
        caught_by: "erase/a_refused_deletion_leaves_no_mark",
        place: answers::<CountsTheRefused>,
    },
    Mutant {
        name: "deletes_blindly",
        wrong: "a session is deleted whatever its revision",
        caught_by: "erase/deletion_compares_the_revision",
        place: answers::<DeletesBlindly>,
    },
    Mutant {
        name: "deletes_what_is_gone",
        wrong: "deleting twice succeeds twice",
        caught_by: "erase/deleting_twice_finds_nothing",
        place: answers::<DeletesWhatIsGone>,
    },
    Mutant {
        name: "lists_the_deleted",
        wrong: "deleted sessions are still listed",
        caught_by: "erase/a_deleted_session_is_not_listed",
        place: answers::<ListsTheDeleted>,
    },
    Mutant {
        name: "deletes_children_too",
        wrong: "the forks of a session go with it",
        caught_by: "erase/a_child_goes_on_without_its_parent",
        place: answers::<DeletesChildrenToo>,
    },
    Mutant {
        name: "deletes_the_parent_too",
        wrong: "a session goes with its last fork",
        caught_by: "erase/a_deleted_child_leaves_its_parent",
        place: answers::<DeletesTheParentToo>,
    },
    Mutant {
        name: "deletes_its_neighbour",
        wrong: "a deletion takes another session along",
        caught_by: "erase/other_sessions_are_left_alone",
        place: answers::<DeletesItsNeighbour>,
    },
    Mutant {
        name: "deletes_readable_sessions_only",
        wrong: "a session in preparation cannot be deleted",
        caught_by: "erase/whatever_its_authority_a_session_is_deleted",
        place: answers::<DeletesTheReadable>,
    },
    Mutant {
        name: "deletes_sound_sessions_only",
        wrong: "a damaged session cannot be deleted",
        caught_by: "erase/a_damaged_session_is_deleted",
        place: answers::<DeletesTheSound>,
    },
    Mutant {
        name: "deletes_in_one_go",
        wrong: "nobody else is served while a session is deleted",
        caught_by: "erase/others_write_while_a_long_log_goes",
        place: answers::<DeletesInOneGo>,
    },
    Mutant {
        name: "knows_the_deleted_parent",
        wrong: "a child names a parent that is gone",
        caught_by: "erase/the_id_of_a_deleted_parent_is_nobodys_parent",
        place: answers::<KnowsTheDeletedParent>,
    },
    Mutant {
        name: "one_life_for_each_id",
        wrong: "two lives of an id cannot be told apart",
        caught_by: "erase/an_id_begins_a_new_life",
        place: answers::<OneLife>,
    },
    Mutant {
        name: "an_id_has_one_life",
        wrong: "the id of a session that is gone is never free again",
        caught_by: "erase/a_discarded_session_leaves_its_id_free",
        place: answers::<OnlyOneLife>,
    },
    Mutant {
        name: "citations_of_the_gone",
        wrong: "a deleted session still answers what it cites",
        caught_by: "erase/a_deleted_session_is_not_found",
        place: answers::<CitesForTheGone>,
    },
];

#[derive(Default)]
struct TakesWhatForksRead;

impl Flaw for TakesWhatForksRead {
    fn spans_of(&self, _: Vec<SpanRow>) -> Vec<SpanRow> {
        Vec::new()
    }
}

#[derive(Default)]
struct StaysEnded;

#[async_trait]
impl Decorator for StaysEnded {
    async fn runs(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<RunRow>, StoreError> {
        let info = inner.session(id).await?;
        let mut runs = inner.runs(id, after, limit).await?;
        if info.inherited > 0 && info.forked_from.is_none() {
            for run in runs.iter_mut().filter(|run| run.opened <= info.inherited) {
                run.terminal = run.terminal.or(Some(info.inherited + 1));
            }
        }
        Ok(runs)
    }
}

#[derive(Default)]
struct KeepsViews;

impl Flaw for KeepsViews {
    fn apply(&self, _: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        let mut writes = writes.clone();
        if writes
            .erase
            .iter()
            .any(|erase| matches!(erase, Erase::Session(_)))
        {
            writes
                .erase
                .retain(|erase| !matches!(erase, Erase::ViewEntries { .. }));
        }
        txn.apply(&writes)
    }
}

#[derive(Default)]
struct ForgetsTheRest;

impl Flaw for ForgetsTheRest {
    fn apply(&self, _: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        let mut writes = writes.clone();
        writes.scrubs.retain(|scrub| scrub.log_no == 0);
        txn.apply(&writes)
    }
}

#[derive(Default)]
struct ScrubsNothing;

#[async_trait]
impl Decorator for ScrubsNothing {
    async fn scrub(&self, _: &dyn Store) -> Result<Scrub, StoreError> {
        Ok(Scrub::default())
    }
}

#[derive(Default)]
struct CountsTooMany;

#[async_trait]
impl Decorator for CountsTooMany {
    async fn scrub(&self, inner: &dyn Store) -> Result<Scrub, StoreError> {
        let mut scrub = inner.scrub().await?;
        scrub.completed += 1;
        Ok(scrub)
    }
}

#[derive(Default)]
struct CompleteAtOnce;

#[async_trait]
impl Decorator for CompleteAtOnce {
    async fn pending_erasures(&self, inner: &dyn Store) -> Result<u64, StoreError> {
        inner.pending_erasures().await?;
        Ok(0)
    }
}

#[derive(Default)]
struct CountsTheRefused(AtomicU64);

#[async_trait]
impl Decorator for CountsTheRefused {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        let done = inner.delete_session(id, expected_rev).await;
        if has_code(&done, "authority_changed") {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    async fn pending_erasures(&self, inner: &dyn Store) -> Result<u64, StoreError> {
        Ok(inner.pending_erasures().await? + self.0.load(Ordering::Relaxed))
    }
}

#[derive(Default)]
struct DeletesBlindly;

#[async_trait]
impl Decorator for DeletesBlindly {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        _: Option<u64>,
    ) -> Result<(), StoreError> {
        inner.delete_session(id, None).await
    }
}

#[derive(Default)]
struct DeletesWhatIsGone;

#[async_trait]
impl Decorator for DeletesWhatIsGone {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        let done = inner.delete_session(id, expected_rev).await;
        if has_code(&done, "session_not_found") {
            return Ok(());
        }
        done
    }
}

#[derive(Default)]
struct ListsTheDeleted(Mutex<Vec<SessionInfo>>);

#[async_trait]
impl Decorator for ListsTheDeleted {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        let info = inner.session(id).await?;
        inner.delete_session(id, expected_rev).await?;
        lock(&self.0).push(info);
        Ok(())
    }

    async fn sessions(
        &self,
        inner: &dyn Store,
        filter: SessionFilter,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let mut listed = inner.sessions(filter, after, limit).await?;
        listed.extend(lock(&self.0).iter().cloned());
        Ok(listed)
    }
}

#[derive(Default)]
struct DeletesChildrenToo;

#[async_trait]
impl Decorator for DeletesChildrenToo {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        let all = inner.sessions(SessionFilter::All, None, 1_000).await?;
        inner.delete_session(id, expected_rev).await?;
        for child in all
            .iter()
            .filter(|info| info.forked_from.as_ref() == Some(id))
        {
            inner.delete_session(&child.id, None).await?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct DeletesTheParentToo;

#[async_trait]
impl Decorator for DeletesTheParentToo {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        let parent = inner.session(id).await?.forked_from;
        inner.delete_session(id, expected_rev).await?;
        match parent {
            Some(parent) => inner.delete_session(&parent, None).await,
            None => Ok(()),
        }
    }
}

#[derive(Default)]
struct DeletesItsNeighbour;

#[async_trait]
impl Decorator for DeletesItsNeighbour {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        inner.delete_session(id, expected_rev).await?;
        let left = inner.sessions(SessionFilter::All, None, 1).await?;
        match left.first() {
            Some(info) => inner.delete_session(&info.id, None).await,
            None => Ok(()),
        }
    }
}

#[derive(Default)]
struct DeletesTheReadable;

#[async_trait]
impl Decorator for DeletesTheReadable {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        if inner.session(id).await?.authority == Authority::Preparing {
            return Err(refusal(ErrorKind::Conflict, "session_preparing"));
        }
        inner.delete_session(id, expected_rev).await
    }
}

#[derive(Default)]
struct DeletesTheSound;

#[async_trait]
impl Decorator for DeletesTheSound {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        if !inner.verify(id).await?.findings.is_empty() {
            return Err(refusal(ErrorKind::Corrupt, "session_damaged"));
        }
        inner.delete_session(id, expected_rev).await
    }
}

#[derive(Default)]
struct DeletesInOneGo;

#[async_trait]
impl Decorator for DeletesInOneGo {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        // As if all were done in the first poll.
        std::thread::scope(|scope| {
            let deletion = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                let runtime = runtime.map_err(|_| refusal(ErrorKind::Unavailable, "no_runtime"))?;
                runtime.block_on(inner.delete_session(id, expected_rev))
            });
            let lost = |_| Err(refusal(ErrorKind::Unavailable, "it_panicked"));
            deletion.join().unwrap_or_else(lost)
        })
    }
}

#[derive(Default)]
struct KnowsTheDeletedParent(Mutex<BTreeMap<SessionId, SessionId>>);

#[async_trait]
impl Decorator for KnowsTheDeletedParent {
    async fn fork_session(
        &self,
        inner: &dyn Store,
        parent: &SessionId,
        at: u64,
        child: SessionId,
    ) -> Result<SessionInfo, StoreError> {
        let info = inner.fork_session(parent, at, child).await?;
        lock(&self.0).insert(info.id.clone(), parent.clone());
        Ok(info)
    }

    async fn session(&self, inner: &dyn Store, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let mut info = inner.session(id).await?;
        if info.inherited > 0 && info.forked_from.is_none() {
            info.forked_from = lock(&self.0).get(id).cloned();
        }
        Ok(info)
    }
}

#[derive(Default)]
struct OneLife;

#[async_trait]
impl Decorator for OneLife {
    async fn create_session(
        &self,
        inner: &dyn Store,
        session: NewSession,
    ) -> Result<SessionInfo, StoreError> {
        let mut info = inner.create_session(session).await?;
        info.incarnation = 1;
        Ok(info)
    }

    async fn session(&self, inner: &dyn Store, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let mut info = inner.session(id).await?;
        info.incarnation = 1;
        Ok(info)
    }
}

#[derive(Default)]
struct OnlyOneLife(Mutex<BTreeSet<SessionId>>);

#[async_trait]
impl Decorator for OnlyOneLife {
    async fn create_session(
        &self,
        inner: &dyn Store,
        session: NewSession,
    ) -> Result<SessionInfo, StoreError> {
        if !lock(&self.0).insert(session.id.clone()) {
            return Err(refusal(ErrorKind::Conflict, "session_exists"));
        }
        inner.create_session(session).await
    }
}

#[derive(Default)]
struct CitesForTheGone;

#[async_trait]
impl Decorator for CitesForTheGone {
    async fn citations(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, BlobId)>, StoreError> {
        let found = inner.citations(id, from, limit).await;
        if has_code(&found, "session_not_found") {
            return Ok(Vec::new());
        }
        found
    }
}
