//! Contribution logs of several sources that are not told apart.

use super::append::has_code;
use super::{Mutant, answers, keeps, lock};
use crate::decorator::Decorator;
use crate::simulated::{Disk, Flaw, State};
use async_trait::async_trait;
use folio_core::SessionId;
use folio_store::engine::{WriteTxn, Writes};
use folio_store::{
    AppendBatch, Committed, ContributionQuery, ContributionStatus, MAX_SOURCES, NOTES, Store,
    StoreError, StoredFact,
};
use folio_store_memory::Tables;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "sources_share_a_sequence",
        wrong: "all sources are one log",
        caught_by: "source/every_source_has_a_sequence_and_a_chain_of_its_own",
        place: answers::<SharesASequence>,
    },
    Mutant {
        name: "a_source_too_many_is_dropped",
        wrong: "the facts of a source too many are thrown away",
        caught_by: "source/a_session_has_a_limit_of_sources",
        place: answers::<DropsASource>,
    },
    Mutant {
        name: "an_odd_name_is_the_notes",
        wrong: "a source with a name that is none is the notes",
        caught_by: "source/names_are_plain",
        place: answers::<OddIsNotes>,
    },
    Mutant {
        name: "naming_a_source_opens_it",
        wrong: "a source without facts counts towards the limit",
        caught_by: "source/a_repeat_opens_no_log",
        place: answers::<NamingOpens>,
    },
    Mutant {
        name: "names_are_compared_by_their_beginning",
        wrong: "two sources whose names begin alike are one",
        caught_by: "source/a_source_that_was_never_used_is_empty",
        place: answers::<ComparesBeginnings>,
    },
    Mutant {
        name: "pages_of_facts_go_on_behind_the_anchor",
        wrong: "a page of facts leaves out the rest of an anchor",
        caught_by: "source/many_facts_of_one_anchor_are_read_in_order",
        place: answers::<SkipsTheAnchor>,
    },
    Mutant {
        name: "facts_are_kept_in_memory",
        wrong: "facts are not on the disk when they are acknowledged",
        caught_by: "source/a_source_is_there_after_reopening",
        place: keeps::<FactsInMemory>,
    },
];

/// Whether it may be the name of a source.
fn is_plain(source: &str) -> bool {
    !source.is_empty() && source.bytes().all(|byte| byte.is_ascii_lowercase())
}

#[derive(Default)]
struct SharesASequence;

#[async_trait]
impl Decorator for SharesASequence {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        mut batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        if let Some(facts) = batch
            .contributions
            .as_mut()
            .filter(|facts| is_plain(&facts.source))
        {
            facts.source = NOTES.into();
        }
        inner.append(id, batch).await
    }

    async fn contributions(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError> {
        let source = if is_plain(source) { NOTES } else { source };
        inner.contributions(id, source, query).await
    }

    async fn contribution_status(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
    ) -> Result<ContributionStatus, StoreError> {
        let source = if is_plain(source) { NOTES } else { source };
        inner.contribution_status(id, source).await
    }
}

#[derive(Default)]
struct DropsASource;

#[async_trait]
impl Decorator for DropsASource {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let done = inner.append(id, batch.clone()).await;
        if has_code(&done, "limit_exceeded") && batch.events.len() == 1 {
            return inner
                .append(
                    id,
                    AppendBatch {
                        contributions: None,
                        ..batch
                    },
                )
                .await;
        }
        done
    }
}

#[derive(Default)]
struct OddIsNotes;

#[async_trait]
impl Decorator for OddIsNotes {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        mut batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let done = inner.append(id, batch.clone()).await;
        if let (true, Some(facts)) = (has_code(&done, "source_invalid"), &mut batch.contributions) {
            facts.source = NOTES.into();
            return inner.append(id, batch).await;
        }
        done
    }
}

#[derive(Default)]
struct NamingOpens(Mutex<BTreeSet<String>>);

#[async_trait]
impl Decorator for NamingOpens {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        if let Some(facts) = &batch.contributions {
            let mut named = lock(&self.0);
            named.insert(facts.source.clone());
            if named.len() > MAX_SOURCES && facts.facts.is_empty() {
                return Err(StoreError::invalid("limit_exceeded", "too many sources"));
            }
        }
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct ComparesBeginnings;

#[async_trait]
impl Decorator for ComparesBeginnings {
    async fn append(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        mut batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        if let Some(facts) = batch
            .contributions
            .as_mut()
            .filter(|facts| is_plain(&facts.source))
        {
            facts.source.truncate(2);
        }
        inner.append(id, batch).await
    }

    async fn contributions(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
        query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError> {
        let source = if is_plain(source) {
            &source[..source.len().min(2)]
        } else {
            source
        };
        inner.contributions(id, source, query).await
    }

    async fn contribution_status(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
    ) -> Result<ContributionStatus, StoreError> {
        let source = if is_plain(source) {
            &source[..source.len().min(2)]
        } else {
            source
        };
        inner.contribution_status(id, source).await
    }
}

#[derive(Default)]
struct SkipsTheAnchor;

#[async_trait]
impl Decorator for SkipsTheAnchor {
    async fn contributions(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        source: &str,
        mut query: ContributionQuery,
    ) -> Result<Vec<StoredFact>, StoreError> {
        if let Some((_, seq)) = &mut query.after {
            *seq = match query.direction {
                folio_core::Direction::Newer => u64::MAX,
                folio_core::Direction::Older => 0,
            };
        }
        inner.contributions(id, source, query).await
    }
}

#[derive(Default)]
struct FactsInMemory(AtomicBool);

impl Flaw for FactsInMemory {
    fn apply(&self, _: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        if !writes.contributions.is_empty() {
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
