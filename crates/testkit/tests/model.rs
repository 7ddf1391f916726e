//! Random histories over the store in memory and the simulated engine, and
//! over engines that are wrong.

use folio_store::StoreError;
use folio_store::engine::{WriteTxn, Writes};
use folio_store::rows::LogRow;
use folio_store_memory::Tables;
use folio_testkit::conformance::{Factory, StorePlace};
use folio_testkit::model::state::{Answer, Model};
use folio_testkit::model::{self, Failure, MemoryPlace};
use folio_testkit::simulated::{Disk, Flaw, SimulatedPlace, State};
use std::collections::{BTreeMap, BTreeSet};

fn memory() -> Box<dyn StorePlace> {
    Box::new(MemoryPlace)
}

fn simulated() -> Box<dyn StorePlace> {
    Box::new(SimulatedPlace::default())
}

fn wrong(flaw: impl Flaw) -> Box<dyn StorePlace> {
    Box::new(SimulatedPlace::new(flaw, |store, _| store))
}

#[test]
fn a_durable_store_is_as_the_model_through_reopening_and_failed_commits() {
    model::run(simulated, 60);
}

#[test]
fn the_store_in_memory_and_the_simulated_engine_hold_the_same() {
    model::differential(&[memory, simulated], 60);
}

#[test]
fn histories_hold_what_they_promise() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..100 {
        let mut model = Model::new(true);
        for op in model::history(true, seed) {
            let after = model.clone().after(&op);
            let name = format!("{op:?}");
            let name = name.split([' ', '(']).next().unwrap_or_default();
            let mut count = |what: &str| *seen.entry(what.to_owned()).or_default() += 1;
            for outcome in &after.outcomes {
                match outcome {
                    Ok(Answer::Redacted(what)) => {
                        what.ordinals.iter().for_each(|_| count("payload gone"));
                        what.facts.iter().for_each(|_| count("facts gone"));
                    }
                    Ok(Answer::Collected(1..)) => count("blobs gone"),
                    Ok(_) => count(name),
                    Err(code) => count(code),
                }
            }
            for session in after.sessions.values() {
                let withheld = session.events.iter().filter_map(|event| event.now.withheld);
                let sources = withheld.filter(|withheld| !withheld.payload);
                sources.for_each(|_| count("source gone"));
                let notes = session.notes.values().flatten();
                let copies = notes.filter(|note| note.redacted && session.generation == 0);
                copies.for_each(|_| count("facts copied"));
                let writers = session.events.iter().map(|event| event.writer);
                let writers: BTreeSet<u64> = writers.collect();
                if writers.len() > 2 {
                    count("forks of forks");
                }
                let alive = |life| after.sessions.values().any(|other| other.life == life);
                if !writers.into_iter().all(alive) {
                    count("forks of what is gone");
                }
            }
            model = after;
        }
    }
    let wanted = [
        "Append",
        "Together",
        "indeterminate",
        "Create",
        "Fork",
        "Delete",
        "Discard",
        "Rebuild",
        "Reopen",
        "Walk",
        "Acquire",
        "Release",
        "PutBlob",
        "ReadBlob",
        "Upload",
        "PutView",
        "DropView",
        "Wait",
        "SetAuthority",
        "payload gone",
        "facts gone",
        "blobs gone",
        "forks of forks",
        "forks of what is gone",
        "session_exists",
        "session_not_found",
        "session_mismatch",
        "event_withheld",
        "event_id_conflict",
        "fact_id_conflict",
        "session_preparing",
        "session_rejected",
        "session_followed",
        "session_leased",
        "lease_lost",
        "head_mismatch",
        "blob_not_found",
        "run_conflict",
        "run_sealed",
        "anchor_unknown",
        "watermark_unknown",
        "item_not_found",
        "authority_changed",
        "authority_transition",
        "upload_unknown",
        "view_moved",
        "view_version",
        "source gone",
        "facts copied",
    ];
    for what in wanted {
        let count = seen.get(what).copied().unwrap_or_default();
        assert!(count >= 3, "{what}: {count} in {seen:#?}");
    }
}

/// The failure of a wrong engine, made small, and found again by its seed.
fn found(factory: Factory) -> Failure {
    let mut seeds = 0..50;
    let failure = seeds.find_map(|seed| model::find(&[factory], seed).err());
    let failure = failure.expect("the engine is wrong, and a history must tell");
    let again = model::find(&[factory], failure.seed);
    let again = again.expect_err("a history fails whenever it is told");
    assert_eq!(failure.to_string(), again.to_string());
    assert!(failure.history.len() <= 8, "it can be smaller: {failure}");
    failure
}

/// It acknowledges what was not synced.
struct Unsynced;

impl Flaw for Unsynced {
    fn commit(&self, state: &mut State, next: Tables) {
        state.live = next;
    }
}

#[test]
fn what_was_acknowledged_and_is_gone_is_found() {
    let failure = found(|| wrong(Unsynced));
    let last = format!("{:?}", failure.history.last());
    assert!(last.contains("Reopen") || last.contains("Failed"), "{last}");
}

/// A batch whose sync failed comes back.
struct Stray;

impl Flaw for Stray {
    fn fence(&self, _: &mut State) {}
}

#[test]
fn what_failed_and_comes_back_is_found() {
    let failure = found(|| wrong(Stray));
    let history = format!("{:?}", failure.history);
    assert!(history.contains("Failed"), "{history}");
}

/// It leaves the payload where it was.
struct Unredacted;

impl Flaw for Unredacted {
    fn apply(&self, _: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        let redacted = Vec::new();
        txn.apply(&Writes {
            redacted,
            ..writes.clone()
        })
    }
}

#[test]
fn what_was_redacted_and_can_be_read_is_found() {
    let failure = found(|| wrong(Unredacted));
    let last = format!("{:?}", failure.history.last());
    assert!(last.contains("Redact"), "{last}");
}

/// It knows events of a session's own log by their ids, and of no fork's.
struct Forgetful;

impl Flaw for Forgetful {
    fn event_ids(
        &self,
        _: bool,
        log: &dyn Fn() -> Option<LogRow>,
        mut found: Vec<(u64, u64)>,
    ) -> Vec<(u64, u64)> {
        let own = log().map(|log| log.log_no);
        found.retain(|(log_no, _)| own == Some(*log_no));
        found
    }
}

#[test]
fn an_id_that_a_fork_forgets_is_found() {
    let failure = found(|| wrong(Forgetful));
    let history = format!("{:?}", failure.history);
    assert!(history.contains("Fork"), "{history}");
}
