//! The n-th operation fails, for every n.

use crate::workload::{Workload, examine};
use crate::{block_on, made, open, open_over};
use folio_core::SessionId;
use folio_fault::{Disk, Fault, Kinds};
use folio_store::{Admin, ErrorKind, Ledger, NewSession};

/// What a sweep saw.
#[derive(Debug, Default)]
struct Counts {
    /// Operations that failed, one a run.
    points: u64,
    /// Runs in which the store could not be opened.
    closed: u64,
    /// Steps that were refused, with nothing kept.
    refused: u64,
    /// Commits without a known outcome.
    indeterminate: u64,
    /// Those of them that turned out to be kept.
    found: u64,
}

fn sweep(name: &str, fault: fn(u64) -> Fault) -> Counts {
    let all = Workload::new();
    let mut counts = Counts::default();
    while run(&all, fault(counts.points + 1), &mut counts) {
        counts.points += 1;
    }
    println!("{name}: {counts:?}");
    assert!(counts.points > 20, "{counts:?}");
    counts
}

/// Runs the workload with a fault; answers whether it struck.
fn run(all: &Workload, fault: Fault, counts: &mut Counts) -> bool {
    let folder = made();
    let disk = Disk::of_folder(folder.path()).unwrap();
    disk.arm(fault);
    let store = match open_over(folder.path(), &disk) {
        Ok(store) => store,
        Err(error) => {
            counts.closed += 1;
            // Whoever opened it is told which one it was.
            let path = folder.path().display().to_string();
            assert!(error.to_string().starts_with(&path), "{fault:?}: {error}");
            assert!(!fault.full || error.code() == "storage_full", "{error}");
            let held = block_on(examine(&open(folder.path()).unwrap()));
            assert_eq!(held.as_ref(), Ok(&all.states[0]), "{fault:?}");
            return true;
        }
    };
    for (at, step) in all.steps.iter().enumerate() {
        let Err(error) = block_on(step.perform(&store)) else {
            continue;
        };
        let is_unknown = error.kind() == ErrorKind::Indeterminate;
        if !is_unknown {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}: {error}");
            counts.refused += 1;
        }
        if fault.lasting {
            // Nothing is accepted while the disk fails, and the error says so.
            let error = block_on(step.perform(&store)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}: {error}");
            assert!(!is_unknown || error.code() == "store_poisoned", "{error}");
        }
        disk.disarm();
        // Decided once and for all, in this handle and in every later one.
        let held = block_on(examine(&store)).unwrap();
        let found = all.is_right(&held, at);
        assert!(is_unknown || !found, "{fault:?}: what was refused is kept");
        counts.indeterminate += u64::from(is_unknown);
        counts.found += u64::from(found);
        for step in &all.steps[at..] {
            block_on(step.perform(&store)).unwrap();
        }
        break;
    }
    let fired = disk.fired().is_some();
    disk.disarm();
    drop(store);
    let held = block_on(examine(&open(folder.path()).unwrap()));
    assert_eq!(held.as_ref(), Ok(&all.states[all.steps.len()]), "{fault:?}");
    fired
}

#[test]
fn an_error_once() {
    let counts = sweep("an error once", |n| Fault::once(n).over(Kinds::CHANGES));
    assert!(counts.indeterminate > 0);
}

#[test]
fn an_error_that_lasts() {
    let counts = sweep("an error that lasts", |n| {
        Fault::lasting(n).over(Kinds::CHANGES)
    });
    assert!(counts.indeterminate > 0 && counts.found < counts.indeterminate);
}

#[test]
fn a_full_disk() {
    sweep("a full disk", Fault::full);
}

/// What is killed while the disk fails, and opened again, decides once.
#[test]
fn a_restart_after_a_failed_commit_decides_once() {
    let all = Workload::new();
    let (mut restarts, mut found) = (0, 0);
    for n in 1.. {
        let folder = made();
        let disk = Disk::of_folder(folder.path()).unwrap();
        let store = open_over(folder.path(), &disk).unwrap();
        disk.arm(Fault::lasting(n).over(Kinds::CHANGES));
        let failed = all
            .steps
            .iter()
            .position(|step| block_on(step.perform(&store)).is_err());
        // Closing fails as all else does: the file is that of a killed process.
        drop(store);
        let Some(done) = failed else { break };
        let held = block_on(examine(&open(folder.path()).unwrap())).unwrap();
        restarts += 1;
        found += u64::from(all.is_right(&held, done));
        for _ in 0..2 {
            let again = block_on(examine(&open(folder.path()).unwrap()));
            assert_eq!(again.as_ref(), Ok(&held), "{n}");
        }
    }
    println!("restarts: {restarts}, {found} with the batch of unknown outcome");
    assert!(restarts > 20);
}

/// A rewrite that fails leaves the store as it was, and the next one is done.
#[test]
fn faults_in_a_rewrite() {
    let all = Workload::new();
    let gone = SessionId::new("gone").unwrap();
    let (mut points, mut failed) = (0, 0);
    for n in 1.. {
        let folder = made();
        let disk = Disk::of_folder(folder.path()).unwrap();
        let store = open_over(folder.path(), &disk).unwrap();
        for step in &all.steps {
            block_on(step.perform(&store)).unwrap();
        }
        block_on(async {
            let new = NewSession::native(gone.clone());
            store.create_session(new).await.unwrap();
            store.delete_session(&gone, None).await.unwrap();
        });
        disk.arm(Fault::once(n).over(Kinds::CHANGES));
        let scrubbed = block_on(store.scrub());
        let fired = disk.fired().is_some();
        disk.disarm();
        failed += u64::from(scrubbed.is_err());
        let end = &all.states[all.steps.len()];
        assert_eq!(block_on(examine(&store)).as_ref(), Ok(end), "{n}");
        let names = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 1, "{n}: a draft is left");
        block_on(store.scrub()).unwrap();
        assert_eq!(block_on(store.pending_erasures()).unwrap(), 0);
        drop(store);
        let held = block_on(examine(&open(folder.path()).unwrap()));
        assert_eq!(held.as_ref(), Ok(end), "{n}");
        if !fired {
            break;
        }
        points += 1;
    }
    println!("a rewrite: {points} points, {failed} failed");
    assert!(points > 5 && failed > 5);
}
