//! A key-value workload of redb: every fault in turn, and every crash.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_fault::redb::Backend;
use folio_fault::{Disk, Fault, Kind, Kinds, Loss, Record, Replay};
use redb::{
    Database, Durability, Error, ReadableDatabase, ReadableTableMetadata, TableDefinition,
    backends::FileBackend,
};
use std::fs::OpenOptions;
use std::path::Path;

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("batches");
const NAME: &str = "test.redb";
/// Batches of the workload.
const BATCHES: u64 = 12;
/// Rows of a batch.
const ROWS: u64 = 5;

/// The value of a row, some of which take several pages.
fn value(batch: u64, row: u64) -> Vec<u8> {
    let length = if row == 4 { 9_000 } else { 40 };
    vec![u8::try_from(batch * ROWS + row).unwrap(); length]
}

fn open(folder: &Path, disk: Option<&Disk>) -> Result<Database, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join(NAME))?;
    let inner = FileBackend::new(file)?;
    let mut builder = Database::builder();
    builder.set_cache_size(1 << 20);
    Ok(match disk {
        Some(disk) => builder.create_with_backend(Backend::new(inner, NAME, disk.clone())?)?,
        None => builder.create_with_backend(inner)?,
    })
}

fn commit(database: &Database, batch: u64, durability: Durability) -> Result<(), Error> {
    let mut txn = database.begin_write()?;
    txn.set_durability(durability)?;
    {
        let mut table = txn.open_table(TABLE)?;
        for row in 0..ROWS {
            table.insert(batch * ROWS + row, value(batch, row).as_slice())?;
        }
    }
    txn.commit()?;
    Ok(())
}

/// How far a workload came.
struct Ran {
    /// The last batch; 0 where only the database was made, `None` where not even
    /// that.
    acknowledged: Option<u64>,
    error: Option<Error>,
}

/// Commits batches 1, 2, 3 and so on until one fails.
fn work(folder: &Path, disk: &Disk, durability: Durability) -> Ran {
    let mut acknowledged = None;
    let error = (|| {
        let database = open(folder, Some(disk))?;
        disk.acknowledge(0);
        acknowledged = Some(0);
        for batch in 1..=BATCHES {
            disk.begin(batch);
            commit(&database, batch, durability)?;
            disk.acknowledge(batch);
            acknowledged = Some(batch);
        }
        Ok(())
    })()
    .err();
    Ran {
        acknowledged,
        error,
    }
}

/// The batches that are there, each of them whole and none passed over; `None`
/// where there is no database. A file whose making was interrupted is none:
/// redb does not make a database in one step.
fn recovered(folder: &Path) -> Option<u64> {
    let mut database = open(folder, None).ok()?;
    assert!(database.check_integrity().unwrap());
    let txn = database.begin_read().unwrap();
    let table = match txn.open_table(TABLE) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Some(0),
        table => table.unwrap(),
    };
    let batches = table.len().unwrap() / ROWS;
    assert_eq!(table.len().unwrap(), batches * ROWS, "a batch is in pieces");
    for batch in 1..=batches {
        for row in 0..ROWS {
            let found = table.get(batch * ROWS + row).unwrap().unwrap();
            assert_eq!(found.value(), value(batch, row));
        }
    }
    Some(batches)
}

fn disk_in(folder: &Path) -> Disk {
    std::fs::write(folder.join(NAME), []).unwrap();
    Disk::of_folder(folder).unwrap()
}

#[test]
fn every_operation_fails_in_turn_and_nothing_acknowledged_is_lost() {
    type Mode = (&'static str, fn(u64) -> Fault);
    let modes: [Mode; 4] = [
        ("once", Fault::once),
        ("lasting", Fault::lasting),
        ("full", |n| {
            Fault::full(n).over(Kinds::of(&[Kind::Write, Kind::Resize]))
        }),
        ("reads too", |n| Fault::lasting(n).over(Kinds::ALL)),
    ];
    for (mode, fault) in modes {
        let mut points = 0;
        for n in 1.. {
            let folder = folio_fault::folder().unwrap();
            let disk = disk_in(folder.path());
            disk.arm(fault(n));
            let ran = work(folder.path(), &disk, Durability::Immediate);
            let fired = disk.fired();
            disk.disarm();
            if fired.is_none() {
                assert!(ran.error.is_none() && ran.acknowledged == Some(BATCHES));
                break;
            }
            points = n;
            let found = recovered(folder.path());
            assert!(
                is_right(
                    found,
                    ran.acknowledged,
                    ran.acknowledged.map_or(0, |last| last + 1)
                ),
                "{mode}, n = {n}, {fired:?}: {found:?} of {:?} ({:?})",
                ran.acknowledged,
                ran.error
            );
        }
        println!("{mode}: {points} points");
        assert!(points > BATCHES, "{mode}");
    }
}

/// Whether what was found holds all that was acknowledged, and no more than was
/// begun.
fn is_right(found: Option<u64>, acknowledged: Option<u64>, begun: u64) -> bool {
    match found {
        None => acknowledged.is_none(),
        Some(found) => (acknowledged.unwrap_or(0)..=begun).contains(&found),
    }
}

/// The images that lack an acknowledged batch or cannot be opened, and all.
fn losing(record: &Record) -> (u64, u64) {
    let folder = folio_fault::folder().unwrap();
    let (mut losing, mut images) = (0, 0);
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
            images += 1;
            replay.image(loss).write_to(folder.path()).unwrap();
            let path = folder.path().to_owned();
            let found = std::panic::catch_unwind(|| recovered(&path));
            let begun = replay.begun().unwrap_or(0);
            let right = found.is_ok_and(|found| is_right(found, replay.acknowledged(), begun));
            losing += u64::from(!right);
        }
    }
    (losing, images)
}

#[test]
fn no_power_cut_takes_an_acknowledged_batch() {
    let folder = folio_fault::folder().unwrap();
    let disk = disk_in(folder.path());
    work(folder.path(), &disk, Durability::Immediate);
    let (losing, images) = losing(&disk.record());
    println!("{images} images");
    assert_eq!(losing, 0, "of {images}");
}

#[test]
fn commits_that_are_not_synced_are_caught() {
    let folder = folio_fault::folder().unwrap();
    let disk = disk_in(folder.path());
    work(folder.path(), &disk, Durability::None);
    let (losing, images) = losing(&disk.record());
    println!("{losing} of {images} images lose something");
    assert!(losing > 0);
}
