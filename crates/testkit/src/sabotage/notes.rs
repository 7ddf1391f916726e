//! Wrong answers to reads of contributions.

use super::{Mutant, answers};
use crate::decorator::Decorator;
use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::{ContributionQuery, ContributionStatus, NOTES, Store, StoreError, StoredFact};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "renumbers_notes",
        wrong: "the sequence of a note is its place in the answer",
        caught_by: "contribution/the_chain_of_facts_equals_its_recomputation",
        place: answers::<RenumbersNotes>,
    },
    Mutant {
        name: "notes_ignore_their_watermark",
        wrong: "later notes are seen at an earlier watermark",
        caught_by: "contribution/a_watermark_hides_later_facts",
        place: answers::<IgnoresTheWatermark>,
    },
    Mutant {
        name: "notes_ignore_their_limit",
        wrong: "all notes come at once",
        caught_by: "contribution/facts_are_read_in_both_directions_by_anchor",
        place: answers::<IgnoresTheLimit>,
    },
    Mutant {
        name: "notes_come_as_they_arrived",
        wrong: "notes are ordered by sequence, not by anchor",
        caught_by: "contribution/facts_are_read_in_both_directions_by_anchor",
        place: answers::<OrdersByArrival>,
    },
    Mutant {
        name: "sources_share_a_log",
        wrong: "every source is the notes",
        caught_by: "contribution/sources_and_sessions_have_logs_of_their_own",
        place: answers::<SharesALog>,
    },
    Mutant {
        name: "an_empty_log_has_a_fact",
        wrong: "a log without facts has head 1",
        caught_by: "contribution/a_log_without_facts_has_head_0",
        place: answers::<BeginsAtOne>,
    },
    Mutant {
        name: "notes_vanish_in_silence",
        wrong: "notes that were lost pass for none",
        caught_by: "damage/lost_notes_do_not_pass_for_none",
        place: answers::<VanishesInSilence>,
    },
];

type Facts = Result<Vec<StoredFact>, StoreError>;

#[derive(Default)]
struct RenumbersNotes;

#[async_trait]
impl Decorator for RenumbersNotes {
    async fn contributions(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Facts {
        let mut facts = inner.contributions(id, source, query).await?;
        // Only the first page, so that paging always comes to an end.
        if query.after.is_none() {
            for (fact, seq) in facts.iter_mut().zip(1..) {
                fact.seq = seq;
            }
        }
        Ok(facts)
    }
}

#[derive(Default)]
struct VanishesInSilence;

#[async_trait]
impl Decorator for VanishesInSilence {
    async fn contributions(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Facts {
        match inner.contributions(id, source, query).await {
            Err(error) if error.code() == "row_damaged" => Ok(Vec::new()),
            answer => answer,
        }
    }
}

#[derive(Default)]
struct IgnoresTheWatermark;

#[async_trait]
impl Decorator for IgnoresTheWatermark {
    async fn contributions(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
        mut query: ContributionQuery,
    ) -> Facts {
        query.through = u64::MAX;
        inner.contributions(id, source, query).await
    }
}

#[derive(Default)]
struct IgnoresTheLimit;

#[async_trait]
impl Decorator for IgnoresTheLimit {
    async fn contributions(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
        mut query: ContributionQuery,
    ) -> Facts {
        query.max_items = usize::MAX;
        inner.contributions(id, source, query).await
    }
}

#[derive(Default)]
struct OrdersByArrival;

#[async_trait]
impl Decorator for OrdersByArrival {
    async fn contributions(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Facts {
        let mut facts = inner.contributions(id, source, query).await?;
        // Only the first page, so that paging always comes to an end.
        if query.after.is_none() {
            facts.sort_by_key(|fact| fact.seq);
        }
        Ok(facts)
    }
}

#[derive(Default)]
struct SharesALog;

#[async_trait]
impl Decorator for SharesALog {
    async fn contribution_status(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        _: &str,
    ) -> Result<ContributionStatus, StoreError> {
        inner.contribution_status(id, NOTES).await
    }
}

#[derive(Default)]
struct BeginsAtOne;

#[async_trait]
impl Decorator for BeginsAtOne {
    async fn contribution_status(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
    ) -> Result<ContributionStatus, StoreError> {
        let mut status = inner.contribution_status(id, source).await?;
        status.head = status.head.max(1);
        Ok(status)
    }
}
