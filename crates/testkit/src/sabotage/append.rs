//! Wrong answers to appends.

use super::{Mutant, answers, refusal};
use crate::check::written_for;
use crate::decorator::Decorator;
use async_trait::async_trait;
use folio_codec::hash64;
use folio_core::{Authority, InvocationId, RunId, SessionId};
use folio_store::{
    AppendBatch, AuthorityChange, Committed, ErrorKind, MAX_BATCH_EVENTS, NewSession, Placement,
    RangeQuery, SessionInfo, Store, StoreError, StoredEvent, Writer,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "ignores_the_expected_head",
        wrong: "an append at a stale head succeeds",
        caught_by: "append/stale_expected_head_is_a_conflict_with_both_numbers",
        place: answers::<IgnoresTheExpectedHead>,
    },
    Mutant {
        name: "keeps_a_part_of_a_refused_batch",
        wrong: "the good events of a refused batch stay",
        caught_by: "append/is_atomic_per_batch",
        place: answers::<KeepsAPart>,
    },
    Mutant {
        name: "accepts_another_content",
        wrong: "an id with another content counts as present",
        caught_by: "append/same_event_id_with_other_content_is_a_conflict",
        place: answers::<AcceptsAnotherContent>,
    },
    Mutant {
        name: "refuses_a_repeat",
        wrong: "a retry of a committed append is a conflict",
        caught_by: "append/same_event_id_twice_is_one_fact",
        place: answers::<RefusesARepeat>,
    },
    Mutant {
        name: "refuses_an_empty_batch",
        wrong: "a batch of nothing is an error",
        caught_by: "append/an_empty_batch_changes_nothing",
        place: answers::<RefusesAnEmptyBatch>,
    },
    Mutant {
        name: "opens_sealed_runs",
        wrong: "an event after the end of its run is accepted",
        caught_by: "append/a_sealed_run_refuses_but_for_the_repeat_of_its_end",
        place: answers::<OpensSealedRuns>,
    },
    Mutant {
        name: "moves_runs",
        wrong: "a run may change its invocation and its turn",
        caught_by: "append/a_run_keeps_its_invocation_and_turn",
        place: answers::<MovesRuns>,
    },
    Mutant {
        name: "counts_events_by_session",
        wrong: "event_seq counts in the session, not in the run",
        caught_by: "append/assigns_contiguous_ordinals",
        place: answers::<CountsBySession>,
    },
    Mutant {
        name: "chains_the_session",
        wrong: "the chain covers the session's id",
        caught_by: "append/the_chain_does_not_cover_the_session",
        place: answers::<ChainsTheSession>,
    },
    Mutant {
        name: "takes_its_place_late",
        wrong: "an append is not handed over by its first poll",
        caught_by: "close/flushing_waits_for_what_was_handed_over",
        place: answers::<TakesItsPlaceLate>,
    },
    Mutant {
        name: "stays_poisoned",
        wrong: "after a failed commit everything is refused until the store is opened anew",
        caught_by: "failure/the_next_write_settles_a_failed_commit_and_goes_on",
        place: answers::<StaysPoisoned>,
    },
    Mutant {
        name: "takes_events_of_other_sessions",
        wrong: "an event lands in whatever session it is handed to",
        caught_by: "append/an_event_of_another_session_is_refused",
        place: answers::<TakesEventsOfOthers>,
    },
    Mutant {
        name: "splits_large_batches",
        wrong: "a batch above the limits is committed in two",
        caught_by: "append/a_batch_has_a_limit_of_events",
        place: answers::<SplitsLargeBatches>,
    },
    Mutant {
        name: "splits_batches_in_a_race",
        wrong: "a batch is committed event by event",
        caught_by: "append/eight_writers_leave_no_gap",
        place: answers::<InterleavesBatches>,
    },
    Mutant {
        name: "lets_everybody_write",
        wrong: "imported sessions take native events",
        caught_by: "session/a_followed_session_refuses_native_events",
        place: answers::<LetsEverybodyWrite>,
    },
    Mutant {
        name: "writes_to_rejected_sessions",
        wrong: "a rejected session takes the events of its importer",
        caught_by: "session/a_rejected_session_refuses_everybody",
        place: answers::<WritesToRejected>,
    },
    Mutant {
        name: "forgets_its_import",
        wrong: "what an importer remembers is not kept with its batch",
        caught_by: "session/the_importer_remembers_its_source",
        place: answers::<ForgetsItsImport>,
    },
    Mutant {
        name: "commits_facts_first",
        wrong: "contributions are committed before the events of their batch",
        caught_by: "contribution/a_refused_event_keeps_no_fact",
        place: answers::<CommitsFactsFirst>,
    },
    Mutant {
        name: "accepts_another_fact",
        wrong: "a contribution with a known id and another content counts as present",
        caught_by: "contribution/another_content_is_a_conflict_and_nothing_is_kept",
        place: answers::<AcceptsAnotherFact>,
    },
    Mutant {
        name: "counts_repeated_facts",
        wrong: "a contribution that is present counts as added",
        caught_by: "contribution/the_same_fact_is_present",
        place: answers::<CountsRepeatedFacts>,
    },
    Mutant {
        name: "moves_anchors",
        wrong: "a contribution whose anchor does not exist goes to the head",
        caught_by: "contribution/an_anchor_must_exist",
        place: answers::<MovesAnchors>,
    },
];

type Appended = Result<Committed, StoreError>;

/// Whether it was refused with a code.
pub(super) fn has_code<T>(result: &Result<T, StoreError>, code: &str) -> bool {
    result.as_ref().is_err_and(|error| error.code() == code)
}

/// Appends the events of a batch one by one; answers as for one batch.
async fn each(inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
    let mut done = AppendBatch {
        events: Vec::new(),
        ..batch.clone()
    };
    let mut committed = inner.append(id, done.clone()).await?;
    done.contributions = None;
    for event in batch.events {
        done.events = vec![event];
        done.expected_head = None;
        let one = inner.append(id, done.clone()).await?;
        committed.events.extend(one.events);
        (committed.high_water, committed.chain) = (one.high_water, one.chain);
    }
    Ok(committed)
}

#[derive(Default)]
struct IgnoresTheExpectedHead;

#[async_trait]
impl Decorator for IgnoresTheExpectedHead {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        batch.expected_head = None;
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct KeepsAPart;

#[async_trait]
impl Decorator for KeepsAPart {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        let done = inner.append(id, batch.clone()).await;
        if has_code(&done, "event_id_conflict") {
            for event in batch.events {
                // What is refused alone is what was refused before.
                drop(inner.append(id, AppendBatch::native(vec![event])).await);
            }
        }
        done
    }
}

#[derive(Default)]
struct AcceptsAnotherContent;

#[async_trait]
impl Decorator for AcceptsAnotherContent {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        let done = inner.append(id, batch.clone()).await;
        if !has_code(&done, "event_id_conflict") {
            return done;
        }
        let ids: Vec<_> = batch.events.iter().map(|event| event.id.clone()).collect();
        let known = inner.lookup_ids(id, &ids).await?;
        let mut known_ids: BTreeSet<_> = ids
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        batch
            .events
            .retain(|event| known_ids.insert(event.id.clone()));
        let mut committed = inner.append(id, batch).await?;
        let present = known.iter().flatten().map(|known| Placement {
            ordinal: known.ordinal,
            event_seq: known.ordinal,
            present: true,
        });
        committed.events.extend(present);
        Ok(committed)
    }
}

#[derive(Default)]
struct RefusesARepeat;

#[async_trait]
impl Decorator for RefusesARepeat {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        let committed = inner.append(id, batch).await?;
        match committed.events.iter().find(|event| event.present) {
            Some(event) => Err(StoreError::new(
                ErrorKind::Conflict,
                "event_id_conflict",
                format!("there is an event {} already", event.ordinal),
            )),
            None => Ok(committed),
        }
    }
}

#[derive(Default)]
struct RefusesAnEmptyBatch;

#[async_trait]
impl Decorator for RefusesAnEmptyBatch {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        if batch.events.is_empty() && batch.contributions.is_none() && batch.import_ref.is_none() {
            return Err(StoreError::invalid("empty_batch", "nothing to append"));
        }
        inner.append(id, batch).await
    }
}

/// Appends; what is refused with a code is appended under new names.
async fn renamed(inner: &dyn Store, id: &SessionId, batch: AppendBatch, code: &str) -> Appended {
    let done = inner.append(id, batch.clone()).await;
    if !has_code(&done, code) {
        return done;
    }
    let mut committed: Option<Committed> = None;
    for mut event in batch.events {
        let one = |event| inner.append(id, AppendBatch::native(vec![event]));
        let mut done = one(event.clone()).await;
        if has_code(&done, code) {
            let name = format!(
                "{}-{}",
                event.spine.run_id,
                hash64(event.id.as_str().as_bytes())
            );
            let (run, invocation) = (RunId::new(name.clone()), InvocationId::new(name));
            event.spine.run_id = run.expect("a short id");
            event.spine.invocation_id = invocation.expect("a short id");
            done = one(event).await;
        }
        let done = done?;
        let all = committed.get_or_insert_with(|| Committed {
            events: Vec::new(),
            ..done.clone()
        });
        all.events.extend(done.events);
        (all.high_water, all.chain) = (done.high_water, done.chain);
    }
    match committed {
        Some(committed) => Ok(committed),
        None => inner.append(id, AppendBatch::native(Vec::new())).await,
    }
}

#[derive(Default)]
struct OpensSealedRuns;

#[async_trait]
impl Decorator for OpensSealedRuns {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        renamed(inner, id, batch, "run_sealed").await
    }
}

#[derive(Default)]
struct MovesRuns;

#[async_trait]
impl Decorator for MovesRuns {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        renamed(inner, id, batch, "run_conflict").await
    }
}

#[derive(Default)]
struct CountsBySession;

#[async_trait]
impl Decorator for CountsBySession {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        let mut committed = inner.append(id, batch).await?;
        for event in &mut committed.events {
            event.event_seq = event.ordinal;
        }
        Ok(committed)
    }

    async fn range(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        query: RangeQuery,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut events = inner.range(id, query).await?;
        for event in &mut events {
            event.event_seq = event.ordinal;
        }
        Ok(events)
    }
}

#[derive(Default)]
struct ChainsTheSession;

fn chained(id: &SessionId, chain: &mut folio_codec::Digest) {
    chain[0] ^= hash64(id.as_str().as_bytes()).to_le_bytes()[0] | 1;
}

#[async_trait]
impl Decorator for ChainsTheSession {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        let mut committed = inner.append(id, batch).await?;
        chained(id, &mut committed.chain);
        Ok(committed)
    }

    async fn session(&self, inner: &dyn Store, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let mut info = inner.session(id).await?;
        if info.head > 0 {
            chained(id, &mut info.chain);
        }
        Ok(info)
    }

    async fn range(
        &self,
        inner: &dyn Store,
        id: &SessionId,
        query: RangeQuery,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut events = inner.range(id, query).await?;
        for event in &mut events {
            if let Some(chain) = &mut event.chain {
                chained(id, chain);
            }
        }
        Ok(events)
    }
}

#[derive(Default)]
struct TakesItsPlaceLate;

#[async_trait]
impl Decorator for TakesItsPlaceLate {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        tokio::task::yield_now().await;
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct StaysPoisoned(AtomicBool);

impl StaysPoisoned {
    fn check(&self) -> Result<(), StoreError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(refusal(ErrorKind::Unavailable, "store_poisoned"));
        }
        Ok(())
    }
}

#[async_trait]
impl Decorator for StaysPoisoned {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        self.check()?;
        let done = inner.append(id, batch).await;
        if has_code(&done, "indeterminate") {
            self.0.store(true, Ordering::Relaxed);
        }
        done
    }

    async fn create_session(
        &self,
        inner: &dyn Store,
        session: NewSession,
    ) -> Result<SessionInfo, StoreError> {
        self.check()?;
        inner.create_session(session).await
    }
}

#[derive(Default)]
struct TakesEventsOfOthers;

#[async_trait]
impl Decorator for TakesEventsOfOthers {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        inner.append(id, written_for(id, batch)).await
    }
}

#[derive(Default)]
struct SplitsLargeBatches;

#[async_trait]
impl Decorator for SplitsLargeBatches {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        let done = inner.append(id, batch.clone()).await;
        if !has_code(&done, "limit_exceeded") {
            return done;
        }
        if let Some(facts) = &mut batch.contributions {
            facts.facts.truncate(MAX_BATCH_EVENTS / 2);
        }
        let rest = batch.events.split_off(batch.events.len() / 2);
        inner.append(id, batch).await?;
        inner.append(id, AppendBatch::native(rest)).await
    }
}

#[derive(Default)]
struct InterleavesBatches;

#[async_trait]
impl Decorator for InterleavesBatches {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        each(inner, id, batch).await
    }
}

#[derive(Default)]
struct LetsEverybodyWrite;

#[async_trait]
impl Decorator for LetsEverybodyWrite {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        batch.writer = Writer::Importer;
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct WritesToRejected;

#[async_trait]
impl Decorator for WritesToRejected {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        let done = inner.append(id, batch.clone()).await;
        if batch.writer != Writer::Importer || !has_code(&done, "session_rejected") {
            return done;
        }
        let mut change = AuthorityChange {
            expected_rev: inner.session(id).await?.authority_rev,
            to: Authority::Preparing,
            import_ref: None,
        };
        change.expected_rev = inner.set_authority(id, change.clone()).await?.authority_rev;
        let done = inner.append(id, batch).await;
        change.to = Authority::Rejected;
        inner.set_authority(id, change).await?;
        done
    }
}

#[derive(Default)]
struct CountsRepeatedFacts;

#[async_trait]
impl Decorator for CountsRepeatedFacts {
    async fn append(&self, inner: &dyn Store, id: &SessionId, batch: AppendBatch) -> Appended {
        let facts = batch.contributions.as_ref();
        let count = facts.map_or(0, |facts| facts.facts.len() as u64);
        let mut committed = inner.append(id, batch).await?;
        committed.facts_added = count;
        Ok(committed)
    }
}

#[derive(Default)]
struct ForgetsItsImport;

#[async_trait]
impl Decorator for ForgetsItsImport {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        batch.import_ref = None;
        inner.append(id, batch).await
    }
}

#[derive(Default)]
struct CommitsFactsFirst;

#[async_trait]
impl Decorator for CommitsFactsFirst {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        let first = AppendBatch {
            events: Vec::new(),
            contributions: batch.contributions.take(),
            ..batch.clone()
        };
        let facts = inner.append(id, first).await?;
        let mut committed = inner.append(id, batch).await?;
        committed.facts_added = facts.facts_added;
        committed.facts_head = facts.facts_head;
        Ok(committed)
    }
}

#[derive(Default)]
struct AcceptsAnotherFact;

#[async_trait]
impl Decorator for AcceptsAnotherFact {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        let done = inner.append(id, batch.clone()).await;
        if has_code(&done, "fact_id_conflict") {
            batch.contributions = None;
            return inner.append(id, batch).await;
        }
        done
    }
}

#[derive(Default)]
struct MovesAnchors;

#[async_trait]
impl Decorator for MovesAnchors {
    async fn append(&self, inner: &dyn Store, id: &SessionId, mut batch: AppendBatch) -> Appended {
        let done = inner.append(id, batch.clone()).await;
        if !has_code(&done, "anchor_unknown") {
            return done;
        }
        let head = inner.session(id).await?.head;
        for fact in batch
            .contributions
            .iter_mut()
            .flat_map(|facts| &mut facts.facts)
        {
            fact.anchor = fact.anchor.min(head);
        }
        inner.append(id, batch).await
    }
}
