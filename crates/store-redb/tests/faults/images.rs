//! The power goes at every moment.

use crate::workload::{Held, Workload, examine};
use crate::{FILE, block_on, made, open, open_over};
use folio_fault::{Disk, Fault, Image, Kind, Kinds, Loss, Record, Replay};
use std::collections::HashMap;
use std::path::Path;

/// The step before which the store is closed and opened again.
const REOPEN: usize = 4;
/// How often chance decides at a position.
const DRAWS: u64 = 3;

/// All steps, to a closed store.
fn record(all: &Workload) -> Record {
    let folder = made();
    let disk = Disk::of_folder(folder.path()).unwrap();
    let mut store = open_over(folder.path(), &disk).unwrap();
    for (at, step) in all.steps.iter().enumerate() {
        if at == REOPEN {
            drop(store);
            store = open_over(folder.path(), &disk).unwrap();
        }
        disk.begin(at as u64 + 1);
        block_on(step.perform(&store)).unwrap();
        disk.acknowledge(at as u64 + 1);
    }
    drop(store);
    disk.record()
}

/// What a power cut may take at this position.
fn losses(replay: &Replay<'_>) -> Vec<Loss> {
    let mut losses = vec![Loss::Nothing];
    if !replay.is_settled() {
        losses.push(Loss::Everything);
        for draw in 0..DRAWS {
            let seed = 20_260 ^ ((replay.position() as u64) << 20) ^ (draw << 60);
            losses.extend([Loss::Some(seed), Loss::Torn(seed), Loss::Reordered(seed)]);
        }
    }
    losses
}

/// What an image holds, or why it is none of a sound store.
fn open_image(image: &Image, folder: &Path) -> Result<Held, String> {
    image.write_to(folder).unwrap();
    let store = open(folder).map_err(|error| error.to_string())?;
    block_on(examine(&store))
}

#[test]
fn no_power_cut_takes_what_was_acknowledged() {
    let all = Workload::new();
    let record = record(&all);
    let folder = folio_fault::folder().unwrap();
    let mut known: HashMap<u64, Held> = HashMap::new();
    let (mut images, mut under_way) = (0_u64, 0_u64);
    let mut replay = Replay::new(&record);
    while replay.advance().is_some() {
        let done = usize::try_from(replay.acknowledged().unwrap_or(0)).unwrap();
        let begun = usize::try_from(replay.begun().unwrap_or(0)).unwrap();
        for loss in losses(&replay) {
            let image = replay.image(loss);
            let held = known.entry(image.print()).or_insert_with(|| {
                let held = open_image(&image, folder.path());
                held.unwrap_or_else(|why| {
                    unreachable!("position {}, {loss:?}: {why}", replay.position())
                })
            });
            let found = all.is_right(held, done);
            assert!(!found || begun > done, "what was not begun is there");
            images += 1;
            under_way += u64::from(found);
        }
    }
    println!(
        "power cuts: {} positions, {images} images, {} of them different, \
         {under_way} with the batch that was under way",
        record.steps.len(),
        known.len()
    );
    assert!(images > 300 && under_way > 0);
}

#[test]
fn syncs_that_are_left_out_are_caught() {
    let all = Workload::new();
    let record = record(&all).without_syncs(|name| name == Some(FILE));
    let folder = folio_fault::folder().unwrap();
    let (mut images, mut lost, mut damaged) = (0, 0, 0);
    let mut replay = Replay::new(&record);
    while let Some(step) = replay.advance() {
        if !matches!(step, folio_fault::Step::Acknowledged(_)) {
            continue;
        }
        let done = usize::try_from(replay.acknowledged().unwrap_or(0)).unwrap();
        for loss in losses(&replay) {
            images += 1;
            match open_image(&replay.image(loss), folder.path()) {
                Err(_) => damaged += 1,
                Ok(held) => lost += u64::from(held != all.states[done]),
            }
        }
    }
    println!("without syncs: of {images} images {lost} lack something, {damaged} are damaged");
    assert!(lost + damaged > 0, "nothing is missed without syncs");
}

/// A sync fails, and what it was to keep may be lost for good although later
/// ones succeed: what is acknowledged afterwards must not stand on it.
#[test]
fn what_is_acknowledged_after_a_failed_sync_does_not_stand_on_what_it_lost() {
    let all = Workload::new();
    let place = folio_fault::folder().unwrap();
    let (mut syncs, mut images) = (0, 0);
    for n in 1.. {
        let folder = made();
        let disk = Disk::of_folder(folder.path()).unwrap();
        let store = open_over(folder.path(), &disk).unwrap();
        disk.arm(Fault::once(n).over(Kinds::of(&[Kind::Sync])));
        let mut done = 0;
        for (at, step) in all.steps.iter().enumerate() {
            if block_on(step.perform(&store)).is_err() {
                block_on(step.perform(&store)).unwrap();
                done = at + 1;
                break;
            }
        }
        if disk.fired().is_none() {
            break;
        }
        syncs += 1;
        let record = disk.record();
        let mut replay = Replay::new(&record);
        replay.finish();
        for loss in losses(&replay) {
            let held = open_image(&replay.image(loss), place.path());
            assert_eq!(held.as_ref(), Ok(&all.states[done]), "sync {n}, {loss:?}");
            images += 1;
        }
    }
    println!("failed syncs: {syncs}, {images} images");
    assert!(syncs > 10);
}
