//! Leases that others can take, or that their holder cannot use.

use super::append::has_code;
use super::{Mutant, answers, keeps, lock, refusal};
use crate::decorator::Decorator;
use crate::simulated::Flaw;
use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::{
    AppendBatch, Committed, ErrorKind, Lease, LeaseInfo, SessionInfo, Store, StoreError,
};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a_lease_ends_by_a_timeout",
        wrong: "who asks long enough gets a lease that is held",
        caught_by: "lease/a_session_has_one_holder",
        place: answers::<EndsByATimeout>,
    },
    Mutant {
        name: "leases_are_not_fenced",
        wrong: "a handle writes under any lease that it ever had",
        caught_by: "lease/an_earlier_lease_is_lost",
        place: answers::<NotFenced>,
    },
    Mutant {
        name: "leases_do_not_bind",
        wrong: "everybody writes although a lease is held",
        caught_by: "lease/nobody_else_appends",
        place: answers::<NotBinding>,
    },
    Mutant {
        name: "a_lease_that_was_given_back_is_good",
        wrong: "a lease that nobody holds counts as long as no other one does",
        caught_by: "lease/a_lease_that_was_given_back_is_lost",
        place: answers::<GoodForEver>,
    },
    Mutant {
        name: "a_lease_shuts_out_its_holder",
        wrong: "nobody writes while a lease is held",
        caught_by: "lease/the_holder_appends",
        place: answers::<ShutsOutItsHolder>,
    },
    Mutant {
        name: "facts_need_no_lease",
        wrong: "contributions are taken from everybody",
        caught_by: "lease/facts_need_the_lease_too",
        place: answers::<FactsNeedNone>,
    },
    Mutant {
        name: "checks_the_head_before_the_lease",
        wrong: "who holds no lease is told that the head is another one",
        caught_by: "lease/the_lease_is_checked_before_the_head_and_the_seal",
        place: answers::<HeadBeforeLease>,
    },
    Mutant {
        name: "checks_the_lease_before_ids",
        wrong: "an id with another content is told as a lease that is missing",
        caught_by: "lease/an_id_conflict_comes_before_the_lease",
        place: answers::<LeaseBeforeIds>,
    },
    Mutant {
        name: "a_repeat_needs_the_lease",
        wrong: "what is present is refused while somebody holds the lease",
        caught_by: "lease/what_is_present_needs_no_lease",
        place: answers::<RepeatsNeedIt>,
    },
    Mutant {
        name: "one_lease_for_the_store",
        wrong: "a lease is refused while another session is leased",
        caught_by: "lease/other_sessions_are_free",
        place: answers::<OneForTheStore>,
    },
    Mutant {
        name: "anybody_gives_a_lease_back",
        wrong: "a lost lease gives back the one that is held",
        caught_by: "lease/an_earlier_lease_gives_nothing_back",
        place: answers::<AnybodyGivesItBack>,
    },
    Mutant {
        name: "giving_back_twice_is_an_error",
        wrong: "giving back what is lost is refused",
        caught_by: "lease/giving_back_twice_does_no_harm",
        place: answers::<GivesBackOnce>,
    },
    Mutant {
        name: "a_refusal_names_nobody",
        wrong: "who is refused does not learn who holds the lease",
        caught_by: "lease/a_refusal_names_the_holder",
        place: answers::<NamesNobody>,
    },
    Mutant {
        name: "a_lease_moves_the_revision",
        wrong: "a lease looks like a change of authority",
        caught_by: "lease/a_lease_changes_nothing_that_readers_see",
        place: answers::<MovesTheRevision>,
    },
    Mutant {
        name: "cuts_the_name_of_a_holder",
        wrong: "a name that is too long is cut",
        caught_by: "lease/a_holder_has_a_name",
        place: answers::<CutsTheName>,
    },
    Mutant {
        name: "nobody_holds_what_does_not_exist",
        wrong: "a session that does not exist has no holder",
        caught_by: "lease/an_unknown_session_has_no_lease",
        place: answers::<NobodyHoldsIt>,
    },
    Mutant {
        name: "deletes_what_is_leased",
        wrong: "a session is deleted under its writer",
        caught_by: "lease/a_leased_session_is_not_deleted",
        place: answers::<DeletesTheLeased>,
    },
    Mutant {
        name: "handles_live_for_ever",
        wrong: "a handle that is gone still holds what it held",
        caught_by: "lease/a_dropped_handle_holds_nothing",
        place: keeps::<LivesForEver>,
    },
    Mutant {
        name: "takes_the_living_for_gone",
        wrong: "what an open handle holds is free",
        caught_by: "blob/an_open_handle_keeps_what_it_put",
        place: keeps::<TakesTheLivingForGone>,
    },
];

/// The lease that somebody holds.
async fn held(inner: &dyn Store, id: &SessionId) -> Result<Option<Lease>, StoreError> {
    Ok(inner.lease(id).await?.map(|info| info.lease))
}

#[derive(Default)]
struct EndsByATimeout(AtomicU64);

#[async_trait]
impl Decorator for EndsByATimeout {
    async fn acquire_lease(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        holder: &str,
    ) -> Result<Lease, StoreError> {
        let taken = inner.acquire_lease(id, holder).await;
        if !has_code(&taken, "session_leased") || self.0.fetch_add(1, Ordering::Relaxed) == 0 {
            return taken;
        }
        if let Some(lease) = held(inner, id).await? {
            inner.release_lease(id, lease).await?;
        }
        inner.acquire_lease(id, holder).await
    }
}

#[derive(Default)]
struct NotFenced;

#[async_trait]
impl Decorator for NotFenced {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        mut batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        if let (Some(lease), Some(held)) = (batch.lease, held(inner, id).await?)
            && lease.owner == held.owner
        {
            batch.lease = Some(held);
        }
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct NotBinding;

#[async_trait]
impl Decorator for NotBinding {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        mut batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        batch.lease = held(inner, id).await.unwrap_or_default();
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct GoodForEver;

#[async_trait]
impl Decorator for GoodForEver {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let done = inner.append(id, batch.clone()).await;
        if has_code(&done, "lease_lost") && held(inner, id).await?.is_none() {
            return inner
                .append(
                    id,
                    AppendBatch {
                        lease: None,
                        ..batch
                    },
                )
                .await;
        }
        done
    }
}

#[derive(Default)]
struct ShutsOutItsHolder;

#[async_trait]
impl Decorator for ShutsOutItsHolder {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        if batch.lease.is_some() && batch.lease == held(inner, id).await? {
            return Err(refusal(ErrorKind::Conflict, "session_leased"));
        }
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct FactsNeedNone;

#[async_trait]
impl Decorator for FactsNeedNone {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        mut batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        if batch.events.is_empty() && batch.contributions.is_some() {
            batch.lease = held(inner, id).await?;
        }
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct HeadBeforeLease;

#[async_trait]
impl Decorator for HeadBeforeLease {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let expected = batch.expected_head;
        let done = inner.append(id, batch).await;
        let head = inner.session(id).await?.head;
        if has_code(&done, "session_leased") && expected.is_some_and(|expected| expected != head) {
            return Err(refusal(ErrorKind::Conflict, "head_mismatch"));
        }
        done
    }
}

#[derive(Default)]
struct LeaseBeforeIds;

#[async_trait]
impl Decorator for LeaseBeforeIds {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let done = inner.append(id, batch).await;
        if has_code(&done, "event_id_conflict") && held(inner, id).await?.is_some() {
            return Err(refusal(ErrorKind::Conflict, "session_leased"));
        }
        done
    }
}

#[derive(Default)]
struct RepeatsNeedIt;

#[async_trait]
impl Decorator for RepeatsNeedIt {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let under = batch.lease;
        let committed = inner.append(id, batch).await?;
        let held = held(inner, id).await?;
        if held.is_some() && held != under {
            return Err(refusal(ErrorKind::Conflict, "session_leased"));
        }
        Ok(committed)
    }
}

#[derive(Default)]
struct OneForTheStore(Mutex<BTreeSet<SessionId>>);

#[async_trait]
impl Decorator for OneForTheStore {
    async fn acquire_lease(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        holder: &str,
    ) -> Result<Lease, StoreError> {
        if lock(&self.0).iter().any(|other| other != id) {
            return Err(refusal(ErrorKind::Conflict, "session_leased"));
        }
        let lease = inner.acquire_lease(id, holder).await?;
        lock(&self.0).insert(id.clone());
        Ok(lease)
    }

    async fn release_lease(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        lease: Lease,
    ) -> Result<(), StoreError> {
        inner.release_lease(id, lease).await?;
        lock(&self.0).remove(id);
        Ok(())
    }
}

#[derive(Default)]
struct AnybodyGivesItBack;

#[async_trait]
impl Decorator for AnybodyGivesItBack {
    async fn release_lease(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        lease: Lease,
    ) -> Result<(), StoreError> {
        let lease = held(inner, id).await?.unwrap_or(lease);
        inner.release_lease(id, lease).await
    }
}

#[derive(Default)]
struct GivesBackOnce;

#[async_trait]
impl Decorator for GivesBackOnce {
    async fn release_lease(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        lease: Lease,
    ) -> Result<(), StoreError> {
        if held(inner, id).await?.is_none() {
            return Err(refusal(ErrorKind::Conflict, "lease_lost"));
        }
        inner.release_lease(id, lease).await
    }
}

#[derive(Default)]
struct NamesNobody;

#[async_trait]
impl Decorator for NamesNobody {
    async fn acquire_lease(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        holder: &str,
    ) -> Result<Lease, StoreError> {
        let taken = inner.acquire_lease(id, holder).await;
        if has_code(&taken, "session_leased") {
            return Err(refusal(ErrorKind::Conflict, "session_leased"));
        }
        taken
    }
}

#[derive(Default)]
struct MovesTheRevision;

#[async_trait]
impl Decorator for MovesTheRevision {
    async fn session(&self, inner: &dyn Store, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let mut info = inner.session(id).await?;
        info.authority_rev += u64::from(held(inner, id).await?.is_some());
        Ok(info)
    }
}

#[derive(Default)]
struct CutsTheName;

#[async_trait]
impl Decorator for CutsTheName {
    async fn acquire_lease(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        holder: &str,
    ) -> Result<Lease, StoreError> {
        inner
            .acquire_lease(id, holder.get(..256).unwrap_or(holder))
            .await
    }
}

#[derive(Default)]
struct NobodyHoldsIt;

#[async_trait]
impl Decorator for NobodyHoldsIt {
    async fn lease(
        &self,
        inner: &dyn Store,
        id: &SessionId,
    ) -> Result<Option<LeaseInfo>, StoreError> {
        let found = inner.lease(id).await;
        if has_code(&found, "session_not_found") {
            return Ok(None);
        }
        found
    }
}

#[derive(Default)]
struct DeletesTheLeased;

#[async_trait]
impl Decorator for DeletesTheLeased {
    async fn delete_session(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        if let Some(lease) = held(inner, id).await? {
            inner.release_lease(id, lease).await?;
        }
        inner.delete_session(id, expected_rev).await
    }
}

#[derive(Default)]
struct LivesForEver;

impl Flaw for LivesForEver {
    fn is_alive(&self, _: bool) -> bool {
        true
    }
}

#[derive(Default)]
struct TakesTheLivingForGone;

impl Flaw for TakesTheLivingForGone {
    fn is_alive(&self, _: bool) -> bool {
        false
    }
}
