//! The n-th operation fails, for every n.

use crate::oracle::{Held, held};
use crate::workload::{Done, Workload, config, is_refusal};
use crate::{MOST_POINTS, block_on, is_whole, new_folder, point};
use folio_core::SessionId;
use folio_fault::sqlite::Vfs;
use folio_fault::{Disk, Fault, Kind, Kinds, Loss, Replay};
use folio_store::{Admin, ErrorKind, Store};
use folio_store_sqlite::{SqliteStore, open};
use std::path::Path;
use tempfile::TempDir;

/// One operation fails, the next one succeeds.
pub fn once() {
    sweep("sweep/an_error_once", Fault::once, true);
}

/// From an operation on, nothing can be changed.
pub fn lasting() {
    sweep("sweep/an_error_that_lasts", Fault::lasting, true);
}

/// From a write on, the disk is full.
pub fn full() {
    let counts = sweep("sweep/a_full_disk", Fault::full, true);
    assert_eq!(counts.indeterminate, 0, "a full disk is no riddle");
}

/// One read fails.
pub fn reads() {
    let fault = |n| Fault::once(n).over(Kinds::of(&[Kind::Read]));
    let counts = sweep("sweep/a_read_that_fails", fault, true);
    assert_eq!(counts.indeterminate, 0, "no read decides about a commit");
}

/// The same while the file is made, up to the first events.
pub fn making() {
    sweep("sweep/faults_while_a_store_is_made", Fault::lasting, false);
}

/// What a sweep saw.
#[derive(Debug, Default)]
struct Counts {
    /// Operations that failed, one a run.
    points: u64,
    /// Runs in which the store could not be opened.
    closed: u64,
    /// Steps that were refused, and done once the fault was gone.
    refused: u64,
    /// Commits of which nobody knew whether they were kept.
    indeterminate: u64,
    /// Of those, commits that were found.
    found: u64,
    /// Faults that nobody noticed, in a checkpoint for example.
    hidden: u64,
    /// Power cuts right after an error.
    images: u64,
}

fn sweep(test: &str, fault: fn(u64) -> Fault, made: bool) -> Counts {
    let mut all = Workload::new();
    if !made {
        all.steps.truncate(2);
        all.states.truncate(3);
    }
    let template = new_folder();
    if made {
        drop(open(&config(template.path(), None)).unwrap());
    }
    let mut counts = Counts::default();
    for n in 1..MOST_POINTS {
        let fired = point(test, &format!("n={n}"), || {
            Point::new(&template, fault(n)).run(&all, &mut counts)
        });
        if fired == Some(false) {
            break;
        }
        counts.points += u64::from(fired.is_some());
    }
    println!("{test}: {counts:?}");
    assert!(counts.points > 20 || !is_whole(), "{counts:?}");
    counts
}

/// How a run with a fault ended.
struct Ran {
    /// The steps that were acknowledged.
    done: usize,
    /// The next step may have been kept.
    unknown: bool,
    /// The fault became an error.
    noticed: bool,
}

struct Point {
    folder: TempDir,
    disk: Disk,
    vfs: Vfs,
    fault: Fault,
}

impl Point {
    fn new(template: &TempDir, fault: Fault) -> Self {
        let folder = new_folder();
        for entry in std::fs::read_dir(template.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        let disk = Disk::of_folder(folder.path()).unwrap();
        let vfs = Vfs::register(folder.path(), disk.clone()).unwrap();
        Self {
            folder,
            disk,
            vfs,
            fault,
        }
    }

    /// Runs the workload with the fault; answers whether it struck.
    fn run(self, all: &Workload, counts: &mut Counts) -> bool {
        self.disk.arm(self.fault);
        let ran = match open(&config(self.folder.path(), Some(self.vfs.name()))) {
            Ok(store) => self.work(store, all, counts),
            Err(error) => {
                is_refusal(&error);
                counts.closed += 1;
                Ran {
                    done: 0,
                    unknown: false,
                    noticed: true,
                }
            }
        };
        let fired = ran.noticed || self.disk.fired().is_some();
        counts.hidden += u64::from(fired && !ran.noticed);
        self.disk.disarm();
        let Ran { done, unknown, .. } = ran;
        let folder = self.folder.path();
        block_on(async {
            let store = reopen(folder);
            let found = all.is_right(&held(&store).await, done);
            let may_be = unknown && self.fault.lasting;
            assert!(may_be || !found, "what was refused was kept");
            counts.indeterminate += u64::from(unknown);
            counts.found += u64::from(found);
            let first = if found { Done::Before } else { Done::Now };
            all.go_on(&store, done, first).await;
            assert_eq!(held(&store).await, *all.end());
            store.close().await.unwrap();
        });
        fired
    }

    /// Does the steps as far as they go, and closes the store.
    fn work(&self, store: SqliteStore, all: &Workload, counts: &mut Counts) -> Ran {
        let mut refused = false;
        for (at, step) in all.steps.iter().enumerate() {
            let Err(error) = block_on(step.perform(&store)) else {
                continue;
            };
            assert!(!refused, "nothing fails twice: {error}");
            self.disk.disarm();
            if error.kind() == ErrorKind::Indeterminate {
                assert_eq!(error.code(), "indeterminate");
                if self.fault.lasting {
                    block_on(async { all.is_right(&held(&store).await, at) });
                    // The disk stays as it is: what dies with it cannot tidy up.
                    self.disk.arm(Fault {
                        at: 1,
                        ..self.fault
                    });
                    block_on(is_poisoned(&store, all, at));
                }
                self.cut_power(counts, |held| {
                    let found = all.is_right(held, at);
                    assert!(self.fault.lasting || !found, "the fence was raised");
                });
                if self.fault.lasting {
                    drop(store);
                    return Ran {
                        done: at,
                        unknown: true,
                        noticed: true,
                    };
                }
                // The fence was raised at once, so the store goes on as after
                // a refusal.
                counts.indeterminate += 1;
            } else {
                is_refusal(&error);
                counts.refused += 1;
            }
            self.cut_power(counts, |held| assert_eq!(*held, all.states[at]));
            block_on(async {
                let now = held(&store).await;
                assert_eq!(now, all.states[at], "a refusal leaves no mark");
                let again = step.perform(&store).await.unwrap();
                assert_ne!(again, Done::Before, "a refusal leaves no mark");
            });
            refused = true;
        }
        drop(store);
        Ran {
            done: all.steps.len(),
            unknown: false,
            noticed: refused,
        }
    }

    /// The files as they would be found after a power cut now.
    fn cut_power(&self, counts: &mut Counts, check: impl Fn(&Held)) {
        let record = self.disk.record();
        let mut replay = Replay::new(&record);
        replay.finish();
        let place = new_folder();
        let seed = crate::seed() ^ self.fault.at;
        for loss in [Loss::Nothing, Loss::Everything, Loss::Some(seed)] {
            replay.image(loss).write_to(place.path()).unwrap();
            check(&block_on(held(&reopen(place.path()))));
            counts.images += 1;
        }
    }
}

fn reopen(folder: &Path) -> SqliteStore {
    open(&config(folder, None)).unwrap()
}

/// After a commit of unknown outcome, as long as the disk refuses: nothing is
/// written or said about what became of it.
async fn is_poisoned(store: &dyn Store, all: &Workload, done: usize) {
    let nobody = SessionId::new("nobody").unwrap();
    let refused = [
        all.steps[done].perform(store).await.map(drop),
        store.lookup_ids(&nobody, &[]).await.map(drop),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, "store_poisoned")
        );
    }
}
