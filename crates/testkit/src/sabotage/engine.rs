//! Engines that keep their rows wrongly.

use super::{Mutant, keeps};
use crate::simulated::{Disk, Flaw, State};
use folio_core::Item;
use folio_store::engine::{Erase, Snapshot, WriteTxn, Writes};
use folio_store::rows::{EventRow, FoundEvent, LogRow};
use folio_store::{ErrorKind, StoreError};
use folio_store_memory::Tables;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "syncs_nothing",
        wrong: "what is acknowledged is not on the disk",
        caught_by: "durability/a_store_that_was_dropped_keeps_what_it_acknowledged",
        place: keeps::<SyncsNothing>,
    },
    Mutant {
        name: "drops_the_last_commit_on_reopen",
        wrong: "a commit is synced by the next one",
        caught_by: "durability/acknowledged_survives_reopen",
        place: keeps::<SyncsTheOneBefore>,
    },
    Mutant {
        name: "publishes_before_the_commit",
        wrong: "readers see a head before its events",
        caught_by: "append/ordinals_become_visible_in_order",
        place: keeps::<PublishesEarly>,
    },
    Mutant {
        name: "publishes_half_a_batch",
        wrong: "readers see the first event of a batch before the others",
        caught_by: "process/a_reader_follows_the_other_handle",
        place: keeps::<PublishesHalf>,
    },
    Mutant {
        name: "indexes_after_the_commit",
        wrong: "the index follows its events in a transaction of its own",
        caught_by: "index/readers_never_find_the_index_behind",
        place: keeps::<IndexesLate>,
    },
    Mutant {
        name: "two_write_at_once",
        wrong: "writers of two handles do not wait for each other",
        caught_by: "process/two_handles_append_at_once",
        place: keeps::<WritesAtOnce>,
    },
    Mutant {
        name: "acknowledges_a_failed_sync",
        wrong: "a sync that failed is taken for one that did not",
        caught_by: "failure/a_failed_commit_is_indeterminate",
        place: keeps::<SwallowsFailures>,
    },
    Mutant {
        name: "says_that_a_failed_commit_did_nothing",
        wrong: "after a sync that failed the store goes on as if nothing had happened",
        caught_by: "failure/a_failed_commit_is_indeterminate",
        place: keeps::<BelittlesFailures>,
    },
    Mutant {
        name: "commits_no_fence",
        wrong: "a failed commit comes back when the store is opened again",
        caught_by: "failure/what_became_of_a_failed_commit_stays_so",
        place: keeps::<CommitsNoFence>,
    },
    Mutant {
        name: "tears_a_failed_batch",
        wrong: "a part of a batch whose commit failed is found after reopening",
        caught_by: "failure/a_failed_commit_is_indeterminate",
        place: keeps::<TearsBatches>,
    },
    Mutant {
        name: "forgets_ids",
        wrong: "an event that is sent again is a new one",
        caught_by: "append/same_event_id_twice_is_one_fact",
        place: keeps::<ForgetsIds>,
    },
    Mutant {
        name: "remembers_the_newest_ids",
        wrong: "only the newest 2,000 events are known by id",
        caught_by: "append/an_event_is_known_for_ever",
        place: keeps::<RemembersTheNewest>,
    },
    Mutant {
        name: "reuses_the_ordinal_of_a_damaged_event",
        wrong: "an append takes the place of a last event that is damaged",
        caught_by: "damage/a_damaged_last_event_keeps_its_place",
        place: keeps::<ReusesAnOrdinal>,
    },
    Mutant {
        name: "trusts_its_engine_with_events",
        wrong: "events are read without their checksums",
        caught_by: "damage/a_damaged_event_is_a_gap_that_names_it",
        place: keeps::<TrustsEvents>,
    },
    Mutant {
        name: "trusts_its_engine_with_items",
        wrong: "index rows are read without their checksums",
        caught_by: "damage/a_damaged_item_row_is_index_damaged",
        place: keeps::<TrustsItems>,
    },
    Mutant {
        name: "keeps_rows_of_the_discarded",
        wrong: "a session with the id of a discarded one finds its rows",
        caught_by: "session/discarding_leaves_no_trace",
        place: keeps::<KeepsTheDiscarded>,
    },
    Mutant {
        name: "loses_the_journal",
        wrong: "chunks are not on the disk until they are drained",
        caught_by: "packing/streams_in_pieces_are_those_in_one_batch",
        place: keeps::<LosesTheJournal>,
    },
    Mutant {
        name: "loses_segments",
        wrong: "what is drained is not written",
        caught_by: "packing/streams_that_are_interleaved",
        place: keeps::<LosesSegments>,
    },
    Mutant {
        name: "forgets_ids_that_count",
        wrong: "a packed chunk that is sent again is a new one",
        caught_by: "packing/a_chunk_that_comes_again_is_present",
        place: keeps::<ForgetsIdsThatCount>,
    },
    Mutant {
        name: "forgets_other_ids_in_segments",
        wrong: "a packed chunk with an id of another kind is not known by it",
        caught_by: "packing/foreign_ids_are_found_in_segments",
        place: keeps::<ForgetsPackedIds>,
    },
    Mutant {
        name: "keeps_unpacked_segments",
        wrong: "a segment stays when its chunks get rows of their own",
        caught_by: "packing/a_redaction_inside_a_segment",
        place: keeps::<KeepsUnpacked>,
    },
    Mutant {
        name: "gives_no_text_back",
        wrong: "a segment goes on to borrow from an event that is gone",
        caught_by: "packing/a_fork_keeps_what_its_parent_packed",
        place: keeps::<GivesNothingBack>,
    },
];

#[derive(Default)]
struct SyncsNothing;

impl Flaw for SyncsNothing {
    fn commit(&self, state: &mut State, next: Tables) {
        state.live = next;
    }
}

#[derive(Default)]
struct SyncsTheOneBefore;

impl Flaw for SyncsTheOneBefore {
    fn commit(&self, state: &mut State, next: Tables) {
        state.synced = std::mem::replace(&mut state.live, next);
    }
}

/// Shows readers a part of a transaction before it is committed, long enough
/// for them to look.
fn publish(disk: &Disk, txn: &Tables, part: &Writes) -> Result<(), StoreError> {
    let mut early = txn.clone();
    early.apply(part)?;
    disk.state().live = early;
    std::thread::sleep(Duration::from_micros(200));
    Ok(())
}

#[derive(Default)]
struct PublishesEarly;

impl Flaw for PublishesEarly {
    fn apply(&self, disk: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        if !writes.events.is_empty() {
            let part = Writes {
                log: writes.log.clone(),
                ..Writes::default()
            };
            publish(disk, txn, &part)?;
        }
        txn.apply(writes)
    }
}

/// The rows of the first event of a batch, as if it were the whole.
fn first_event(writes: &Writes) -> Option<Writes> {
    let ([(first, _), _, ..], Some(log)) = (writes.events.as_slice(), &writes.log) else {
        return None;
    };
    let items = writes.items.iter();
    let items = items.filter(|write| write.item.position.ordinal <= first.ordinal);
    let items: Vec<_> = items.cloned().collect();
    let before = log.items - writes.items.iter().filter(|write| write.is_new).count() as u64;
    let added = items.iter().filter(|write| write.is_new).count() as u64;
    let sources = writes.contributions.iter();
    let sources = sources.filter(|(log, facts)| log.head == facts.len() as u64);
    let made = u32::try_from(sources.count()).unwrap_or(u32::MAX);
    Some(Writes {
        log: Some(LogRow {
            head: first.ordinal,
            chain: first.chain,
            index_head: first.ordinal,
            items: before + added,
            sources: log.sources - made,
            ..log.clone()
        }),
        runs: writes.runs.clone(),
        events: writes.events[..1].to_vec(),
        items,
        ..Writes::default()
    })
}

#[derive(Default)]
struct PublishesHalf;

impl Flaw for PublishesHalf {
    fn apply(&self, disk: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        if let Some(part) = first_event(writes) {
            publish(disk, txn, &part)?;
        }
        txn.apply(writes)
    }
}

/// What the disk holds if the sync of the latest transaction fails.
#[derive(Default)]
struct TearsBatches(Mutex<Option<Tables>>);

impl Flaw for TearsBatches {
    fn apply(&self, _: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        if let Some(part) = first_event(writes) {
            let mut torn = txn.clone();
            torn.apply(&part)?;
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(torn);
        }
        txn.apply(writes)
    }

    fn fail(&self, state: &mut State, _: Tables) -> Result<(), StoreError> {
        state.stray = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let message = "the sync failed: look the events up by id";
        Err(StoreError::new(
            ErrorKind::Indeterminate,
            "indeterminate",
            message,
        ))
    }
}

#[derive(Default)]
struct IndexesLate;

impl Flaw for IndexesLate {
    fn apply(&self, disk: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        if let (false, Some(log)) = (writes.events.is_empty(), &writes.log)
            && let Some(before) = txn.log(log.log_no)?
        {
            let part = Writes {
                log: Some(LogRow {
                    index_head: before.index_head,
                    items: before.items,
                    ..log.clone()
                }),
                items: Vec::new(),
                segs: Vec::new(),
                ..writes.clone()
            };
            publish(disk, txn, &part)?;
        }
        txn.apply(writes)
    }
}

#[derive(Default)]
struct WritesAtOnce;

impl Flaw for WritesAtOnce {
    fn one_writer(&self) -> bool {
        false
    }

    fn apply(&self, _: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        std::thread::sleep(Duration::from_micros(200));
        txn.apply(writes)
    }
}

#[derive(Default)]
struct SwallowsFailures;

impl Flaw for SwallowsFailures {
    fn fail(&self, state: &mut State, next: Tables) -> Result<(), StoreError> {
        state.live = next;
        Ok(())
    }
}

#[derive(Default)]
struct BelittlesFailures;

impl Flaw for BelittlesFailures {
    fn fail(&self, _: &mut State, _: Tables) -> Result<(), StoreError> {
        let message = "the disk refuses: try again";
        Err(StoreError::new(ErrorKind::Unavailable, "busy", message))
    }
}

#[derive(Default)]
struct CommitsNoFence;

impl Flaw for CommitsNoFence {
    fn fence(&self, _: &mut State) {}
}

/// Logs and ordinals.
type Places = Vec<(u64, u64)>;

#[derive(Default)]
struct ForgetsIds;

impl Flaw for ForgetsIds {
    fn event_ids(&self, writes: bool, _: &dyn Fn() -> Option<LogRow>, mut found: Places) -> Places {
        found.retain(|_| !writes);
        found
    }
}

#[derive(Default)]
struct RemembersTheNewest;

impl Flaw for RemembersTheNewest {
    fn event_ids(&self, _: bool, log: &dyn Fn() -> Option<LogRow>, mut found: Places) -> Places {
        let head = log().map_or(0, |log| log.head);
        found.retain(|(_, ordinal)| ordinal + 2_000 > head);
        found
    }
}

#[derive(Default)]
struct ReusesAnOrdinal;

impl Flaw for ReusesAnOrdinal {
    fn log(&self, mut row: LogRow, last: &dyn Fn() -> Option<FoundEvent>) -> LogRow {
        if let Some(FoundEvent::Damaged { ordinal }) = last() {
            row.head = ordinal - 1;
            row.index_head = row.head;
        }
        row
    }
}

#[derive(Default)]
struct TrustsEvents;

impl Flaw for TrustsEvents {
    fn damaged_event(&self, row: EventRow) -> FoundEvent {
        FoundEvent::Whole(row)
    }
}

#[derive(Default)]
struct TrustsItems;

impl Flaw for TrustsItems {
    fn damaged_item(&self, item: Item) -> Result<Item, StoreError> {
        Ok(item)
    }
}

/// Logs of discarded sessions, by id.
#[derive(Default)]
struct KeepsTheDiscarded(Mutex<BTreeMap<String, u64>>);

impl Flaw for KeepsTheDiscarded {
    fn apply(&self, _: &Disk, txn: &mut Tables, writes: &Writes) -> Result<(), StoreError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut writes = writes.clone();
        // Only the session's row goes; what its log holds stays.
        writes.erase.retain(|erase| {
            if let Erase::Session(session) = erase {
                kept.insert(session.session_id.as_str().to_owned(), session.log_no);
            }
            matches!(erase, Erase::Session(_))
        });
        if let ([session], Some(log)) = (writes.sessions.as_mut_slice(), &mut writes.log)
            && let Some(old) = kept.remove(session.session_id.as_str())
        {
            (session.log_no, log.log_no, log.family) = (old, old, old);
        }
        txn.apply(&writes)
    }
}

/// An engine that writes something else than it is told.
macro_rules! writes_wrongly {
    ($($name:ident: |$writes:ident| $change:expr;)*) => {
        $(
            #[derive(Default)]
            struct $name;

            impl Flaw for $name {
                fn apply(
                    &self,
                    _: &Disk,
                    txn: &mut Tables,
                    writes: &Writes,
                ) -> Result<(), StoreError> {
                    let mut $writes = writes.clone();
                    $change;
                    txn.apply(&$writes)
                }
            }
        )*
    };
}

writes_wrongly! {
    LosesTheJournal: |writes| writes.commit = None;
    LosesSegments: |writes| writes.packs.clear();
    ForgetsIdsThatCount: |writes| writes.id_runs.clear();
    ForgetsPackedIds: |writes| writes.pack_ids.clear();
    KeepsUnpacked: |writes| writes.erase.retain(|erase| !matches!(erase, Erase::Packs { .. }));
    GivesNothingBack: |writes| {
        let bare = writes.events.is_empty() && writes.segs.is_empty() && writes.erase.is_empty();
        writes.packs.retain(|_| !bare);
    };
}
