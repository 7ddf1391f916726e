//! The power goes at every moment.

use crate::oracle::{Held, examine};
use crate::workload::{Workload, config};
use crate::{block_on, is_whole, new_folder, point, seed};
use folio_fault::sqlite::Vfs;
use folio_fault::{Disk, Image, Loss, Record, Replay};
use folio_store_sqlite::open;
use std::collections::HashMap;
use std::path::Path;

/// The step before which the store is closed and opened again.
const REOPEN: usize = 8;

/// All steps, from an empty folder to a closed store.
fn record(all: &Workload) -> Record {
    let folder = new_folder();
    let disk = Disk::of_folder(folder.path()).unwrap();
    let vfs = Vfs::register(folder.path(), disk.clone()).unwrap();
    let config = config(folder.path(), Some(vfs.name()));
    let mut store = open(&config).unwrap();
    for (at, step) in all.steps.iter().enumerate() {
        if at == REOPEN {
            drop(store);
            store = open(&config).unwrap();
        }
        disk.begin(at as u64 + 1);
        block_on(step.perform(&store)).unwrap();
        disk.acknowledge(at as u64 + 1);
    }
    drop(store);
    disk.record()
}

/// What an image holds; most images are met several times.
struct Opener {
    folder: tempfile::TempDir,
    known: HashMap<u64, Held>,
}

impl Opener {
    fn new() -> Self {
        Self {
            folder: new_folder(),
            known: HashMap::new(),
        }
    }

    fn held(&mut self, image: &Image) -> Held {
        let folder = self.folder.path();
        let known = self.known.entry(image.print());
        known
            .or_insert_with(|| open_image(image, folder).unwrap())
            .clone()
    }
}

/// What an image holds, or why it is none of a sound store.
fn open_image(image: &Image, folder: &Path) -> Result<Held, String> {
    image.write_to(folder).unwrap();
    let store = open(&config(folder, None)).map_err(|error| error.to_string())?;
    block_on(examine(&store))
}

/// How often chance decides at a position.
const DRAWS: u64 = 3;

/// What a power cut may take at this position, and names for it.
fn losses(replay: &Replay<'_>) -> Vec<(String, Loss)> {
    let mut losses = vec![("all".to_owned(), Loss::Nothing)];
    if replay.is_settled() {
        return losses;
    }
    losses.push(("none".to_owned(), Loss::Everything));
    for draw in 0..DRAWS {
        let seed = seed() ^ ((replay.position() as u64) << 20) ^ (draw << 60);
        losses.extend([
            (format!("some {draw}"), Loss::Some(seed)),
            (format!("torn {draw}"), Loss::Torn(seed)),
            (format!("reordered {draw}"), Loss::Reordered(seed)),
        ]);
    }
    losses
}

/// Nothing that was acknowledged is lost, whatever the power cut takes.
pub fn whole() {
    const TEST: &str = "images/no_power_cut_takes_what_was_acknowledged";
    let all = Workload::new();
    let record = record(&all);
    let mut opener = Opener::new();
    let (mut images, mut in_flight) = (0_u64, 0_u64);
    let mut replay = Replay::new(&record);
    while replay.advance().is_some() {
        let done = usize::try_from(replay.acknowledged().unwrap_or(0)).unwrap();
        let begun = usize::try_from(replay.begun().unwrap_or(0)).unwrap();
        for (name, loss) in losses(&replay) {
            let name = format!("position={} {name}", replay.position());
            let found = point(TEST, &name, || {
                let found = all.is_right(&opener.held(&replay.image(loss)), done);
                assert!(!found || begun > done, "what was not begun is there");
                found
            });
            images += 1;
            in_flight += u64::from(found == Some(true));
        }
    }
    println!(
        "{TEST}: {} positions, {images} images, {} of them different, \
         {in_flight} with the batch that was under way, seed {}",
        record.steps.len(),
        opener.known.len(),
        seed()
    );
    assert!((images > 1_000 && in_flight > 0) || !is_whole());
}

/// Stores that are opened twice, of all that there could be.
const OPENED_TWICE: usize = 24;

/// Opening a store after a power cut writes, and the power may go again.
pub fn twice() {
    const TEST: &str = "images/a_second_power_cut_while_opening_takes_nothing";
    let all = Workload::new();
    let record = record(&all);
    let mut opener = Opener::new();
    let (mut stores, mut images) = (0_u64, 0_u64);
    let mut replay = Replay::new(&record);
    while replay.advance().is_some() {
        if replay.position() % (record.steps.len() / OPENED_TWICE) != 0 {
            continue;
        }
        let seed = seed() ^ replay.position() as u64;
        let first = replay.image(Loss::Torn(seed));
        let wanted = opener.held(&first);
        let opening = opening(&first);
        stores += 1;
        let mut again = Replay::new(&opening);
        while again.advance().is_some() {
            let seed = seed ^ ((again.position() as u64) << 20);
            for loss in [Loss::Everything, Loss::Some(seed), Loss::Torn(seed)] {
                let name = format!(
                    "position={} then={} {loss:?}",
                    replay.position(),
                    again.position()
                );
                let image = again.image(loss);
                point(TEST, &name, || assert_eq!(opener.held(&image), wanted));
                images += 1;
            }
        }
    }
    println!("{TEST}: {stores} stores, {images} images, seed {}", seed());
    assert!((stores > 0 && images > 0) || !is_whole());
}

/// What opening and closing a store does to these files.
fn opening(image: &Image) -> Record {
    let folder = new_folder();
    image.write_to(folder.path()).unwrap();
    let disk = Disk::of_folder(folder.path()).unwrap();
    let vfs = Vfs::register(folder.path(), disk.clone()).unwrap();
    drop(open(&config(folder.path(), Some(vfs.name()))).unwrap());
    disk.record()
}

/// The same check must find what is lost where syncs are missing.
pub fn sabotaged() {
    const TEST: &str = "images/syncs_that_are_left_out_are_caught";
    let all = Workload::new();
    let record = record(&all);
    let wal = format!("{}-wal", crate::workload::FILE);
    let database = crate::workload::FILE;
    let cases = [
        ("the WAL", Some(&*wal)),
        ("the database", Some(database)),
        ("the folder", None),
    ];
    for (what, left_out) in cases {
        let record = record.without_syncs(|name| name == left_out);
        let folder = new_folder();
        let (mut images, mut lost, mut damaged) = (0, 0, 0);
        let mut replay = Replay::new(&record);
        while let Some(step) = replay.advance() {
            if !matches!(step, folio_fault::Step::Acknowledged(_)) {
                continue;
            }
            let done = usize::try_from(replay.acknowledged().unwrap_or(0)).unwrap();
            for (_, loss) in losses(&replay) {
                images += 1;
                let image = replay.image(loss);
                match open_image(&image, folder.path()) {
                    Err(_) => damaged += 1,
                    Ok(held) => lost += u64::from(held != all.states[done]),
                }
            }
        }
        println!(
            "{TEST}: without the syncs of {what}: of {images} images {lost} lack something \
             and {damaged} are damaged"
        );
        assert!(
            lost + damaged > 0,
            "without the syncs of {what} nothing is missed"
        );
    }
}
