//! The model of the disk against what a real kernel did to the same settings:
//! which of SQLite's modes lose acknowledged commits in a power cut, and how
//! many.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_fault::sqlite::Vfs;
use folio_fault::{Disk, Fault, Image, Kind, Kinds, Loss, Record, Replay};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

const FILE: &str = "test.db";
/// Commits of the workload.
const COMMITS: i64 = 20;

fn open(folder: &Path, vfs: &Vfs) -> Connection {
    let path = folder.join(FILE);
    Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs.name()).unwrap()
}

/// Commits of one row each, acknowledged one by one, with some checkpoints.
fn record(journal: &str, synchronous: &str) -> Record {
    let folder = folio_fault::folder().unwrap();
    let disk = Disk::of_folder(folder.path()).unwrap();
    let vfs = Vfs::register(folder.path(), disk.clone()).unwrap();
    let conn = open(folder.path(), &vfs);
    let found: String = conn
        .query_row(&format!("PRAGMA journal_mode = {journal}"), [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(found.eq_ignore_ascii_case(journal));
    conn.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 12; CREATE TABLE t (n)"
    ))
    .unwrap();
    disk.acknowledge(0);
    for n in 1..=COMMITS {
        disk.begin(n.unsigned_abs());
        conn.execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
        disk.acknowledge(n.unsigned_abs());
    }
    disk.record()
}

/// The rows in an image, or `None` if it is damaged.
fn rows(image: &Image, folder: &Path) -> Option<u64> {
    image.write_to(folder).unwrap();
    let conn = Connection::open(folder.join(FILE)).unwrap();
    let check: String = conn
        .query_row("PRAGMA quick_check", [], |row| row.get(0))
        .ok()?;
    if check != "ok" {
        return None;
    }
    let tables: bool = conn
        .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| {
            row.get(0)
        })
        .ok()?;
    if !tables {
        return Some(0);
    }
    // Rows are whole or absent, and none is passed over.
    conn.query_row("SELECT count(*), ifnull(max(n), 0) FROM t", [], |row| {
        let (count, last): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok((count == last).then_some(count.unsigned_abs()))
    })
    .ok()?
}

/// What the images of a record lose.
#[derive(Debug, Default)]
struct Losses {
    images: u64,
    damaged: u64,
    /// The most acknowledged commits that one image lacks.
    most: u64,
}

fn losses(record: &Record) -> Losses {
    let folder = folio_fault::folder().unwrap();
    let mut losses = Losses::default();
    let mut replay = Replay::new(record);
    while replay.advance().is_some() {
        let seed = replay.position() as u64;
        for loss in [
            Loss::Nothing,
            Loss::Everything,
            Loss::Some(seed),
            Loss::Torn(seed),
            Loss::Reordered(seed),
        ] {
            losses.images += 1;
            match (
                rows(&replay.image(loss), folder.path()),
                replay.acknowledged(),
            ) {
                (None, _) => losses.damaged += 1,
                (Some(found), Some(acknowledged)) => {
                    losses.most = losses.most.max(acknowledged.saturating_sub(found));
                }
                (Some(_), None) => {}
            }
        }
    }
    losses
}

#[track_caller]
fn check(journal: &str, synchronous: &str, most: std::ops::RangeInclusive<u64>) {
    let losses = losses(&record(journal, synchronous));
    println!("{journal} with {synchronous}: {losses:?}");
    assert_eq!(
        losses.damaged, 0,
        "{journal} with {synchronous}: {losses:?}"
    );
    assert!(
        most.contains(&losses.most),
        "{journal} with {synchronous}: {losses:?}"
    );
}

#[test]
fn a_wal_that_is_synced_at_each_commit_loses_nothing() {
    check("WAL", "FULL", 0..=0);
    check("WAL", "EXTRA", 0..=0);
}

#[test]
fn a_wal_that_is_synced_at_checkpoints_alone_loses_many() {
    check("WAL", "NORMAL", 2..=COMMITS.unsigned_abs());
}

#[test]
fn a_journal_whose_removal_is_not_synced_loses_the_last_commit() {
    check("DELETE", "FULL", 1..=1);
    check("DELETE", "EXTRA", 0..=0);
    check("TRUNCATE", "FULL", 0..=0);
}

#[test]
fn syncs_that_are_left_out_are_noticed() {
    let whole = record("WAL", "FULL");
    for left_out in [Some("test.db-wal"), Some("test.db"), None] {
        let losses = losses(&whole.without_syncs(|name| name == left_out));
        println!("without the syncs of {left_out:?}: {losses:?}");
        assert!(losses.most > 0 || losses.damaged > 0, "{left_out:?}");
    }
}

#[test]
fn a_fault_strikes_once_or_lasts_and_names_what_it_struck() {
    let folder = folio_fault::folder().unwrap();
    let disk = Disk::of_folder(folder.path()).unwrap();
    let vfs = Vfs::register(folder.path(), disk.clone()).unwrap();
    let conn = open(folder.path(), &vfs);
    conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n)")
        .unwrap();
    let insert = || conn.execute("INSERT INTO t VALUES (1)", []);
    let code = |fault: Fault| {
        disk.arm(fault);
        let error = insert().unwrap_err();
        error.sqlite_error().unwrap().extended_code
    };
    let syncs = Kinds::of(&[Kind::Sync]);
    assert_eq!(code(Fault::once(1)), rusqlite::ffi::SQLITE_IOERR_WRITE);
    insert().unwrap();
    assert_eq!(
        code(Fault::once(1).over(syncs)),
        rusqlite::ffi::SQLITE_IOERR_FSYNC
    );
    let fired = disk.fired().unwrap();
    assert_eq!((fired.kind, &*fired.name), (Kind::Sync, "test.db-wal"));
    insert().unwrap();
    assert_eq!(code(Fault::full(1)), rusqlite::ffi::SQLITE_FULL);
    insert().unwrap_err();
    disk.disarm();
    insert().unwrap();
    disk.arm(Fault::lasting(1).over(Kinds::ALL));
    insert().unwrap_err();
    insert().unwrap_err();
    disk.disarm();
    let count: i64 = conn
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 3);
}

#[test]
fn runs_side_by_side_share_nothing() {
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| record("WAL", "FULL").steps.len()))
        .collect();
    let steps: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    assert!(steps.iter().all(|count| *count == steps[0]), "{steps:?}");
}

#[test]
fn what_a_failed_sync_was_to_keep_may_be_lost_although_later_syncs_succeed() {
    let disk = Disk::new([("a".to_owned(), Vec::new())].into());
    let file = disk.open("a", true).unwrap();
    disk.write(file, 0, b"one").unwrap();
    disk.arm(Fault::once(1).over(Kinds::of(&[Kind::Sync])));
    disk.sync(file, false).unwrap_err();
    disk.write(file, 3, b"two").unwrap();
    disk.sync(file, false).unwrap();
    let record = disk.record();
    let mut replay = Replay::new(&record);
    replay.finish();
    let after = |loss| replay.image(loss).files["a"].clone();
    assert_eq!(after(Loss::Nothing), b"onetwo");
    assert_eq!(after(Loss::Everything), b"\0\0\0two");
    assert!(!replay.is_settled());
}
