//! What has no room, and what becomes of a commit, of the WAL and of a rewrite.

use super::*;
use folio_store::ErrorKind;

#[test]
fn what_has_no_room_is_refused() {
    let place = Place::new();
    let engine = place.open();
    let code = |writes: &Writes| {
        let error = write(&engine, writes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.code()
    };
    let mut all = everything(1);
    all.events.push(event(crate::keys::MAX_ORDINAL + 1));
    assert_eq!(code(&all), "limit_exceeded");
    assert_eq!(
        code(&everything(crate::keys::MAX_LOG + 1)),
        "limit_exceeded"
    );
    assert_eq!(
        code(&everything(crate::keys::MAX_INDEX + 1)),
        "limit_exceeded"
    );
    let mut all = everything(1);
    all.items[0].item.position.slot = 8;
    assert_eq!(code(&all), "limit_exceeded");
    let mut all = everything(1);
    all.pieces[0].1 = 1 << 20;
    assert_eq!(code(&all), "limit_exceeded");
    let mut all = everything(1);
    all.blobs[0].blob_no = crate::keys::MAX_BLOB + 1;
    assert_eq!(code(&all), "limit_exceeded");
    let mut all = everything(1);
    all.spans[0].upto = u64::MAX;
    assert_eq!(code(&all), "limit_exceeded");
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap()), []);
}

#[test]
fn two_blobs_never_share_their_pieces_nor_two_views_a_name() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let mut second = everything(2);
    second.blobs[0].blob_no = blob(1).blob_no;
    assert_eq!(write(&engine, &second).unwrap_err().code(), "row_exists");
    let mut second = everything(2);
    second.view.as_mut().unwrap().view.name = "view-1".into();
    assert_eq!(write(&engine, &second).unwrap_err().code(), "row_exists");
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
}

#[test]
fn a_writer_in_another_process_is_waited_for_and_then_reported() {
    let place = Place::new();
    let engine = place.open();
    let raw = place.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = write(&engine, &everything(1)).unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, "store_busy")
    );
    raw.execute_batch("ROLLBACK").unwrap();
    write(&engine, &everything(1)).unwrap();
}

#[test]
fn a_full_disk_leaves_nothing() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    engine.limit_pages(120);
    let mut large = everything(2);
    large.events[0].0.body = vec![1; 1 << 20];
    let error = write(&engine, &large).unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, "storage_full")
    );
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
    write(&engine, &everything(2)).unwrap();
}

fn fence(place: &Place) -> u64 {
    let value: Vec<u8> = place
        .raw()
        .query_row("SELECT value FROM meta WHERE key = 'fence'", [], |row| {
            row.get(0)
        })
        .unwrap();
    u64::from_le_bytes(value.try_into().unwrap())
}

#[test]
fn the_fence_after_a_failed_commit_is_committed_once() {
    let place = Place::new();
    let engine = place.open();
    engine.settle().unwrap();
    assert_eq!(fence(&place), 0, "there is nothing to settle");
    engine.demand_fence();
    let raw = place.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    for error in [
        write(&engine, &everything(1)).unwrap_err(),
        engine.settle().unwrap_err(),
        engine.rewrite().unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, "store_poisoned")
        );
    }
    raw.execute_batch("ROLLBACK").unwrap();
    // The next write settles it and goes on.
    write(&engine, &everything(1)).unwrap();
    write(&engine, &everything(2)).unwrap();
    assert_eq!(fence(&place), 1);
    engine.demand_fence();
    engine.settle().unwrap();
    engine.settle().unwrap();
    assert_eq!(fence(&place), 2);
}

#[test]
fn a_wal_that_was_left_behind_is_begun_anew_before_anything_is_read() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    // What a process that is killed now leaves.
    let left = Place::new();
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", place.path.display());
        let to = format!("{}{suffix}", left.path.display());
        std::fs::copy(from, to).unwrap();
    }
    drop(engine);
    let wal = format!("{}-wal", left.path.display());
    let before = std::fs::read(&wal).unwrap();

    let again = left.open();
    let after = std::fs::read(&wal).unwrap();
    // The salt, which makes frames belong to a WAL.
    assert_ne!(before[16..24], after[16..24]);
    assert!(after.len() < before.len());
    assert_eq!(read(&again, |s| s.sessions(None, 9).unwrap().len()), 1);
    assert_eq!(fence(&left), 1);
    drop(again);
    // One that was closed leaves none.
    drop(left.open());
    assert_eq!(fence(&left), 1);
}

#[test]
fn the_wal_is_reused() {
    let place = Place::new();
    let engine = place.open();
    let mut all = everything(1);
    for n in 0..60_u8 {
        all.events = vec![event(u64::from(n) + 1)];
        all.events[0].0.body = vec![n; 1 << 20];
        all.contributions.clear();
        write(&engine, &all).unwrap();
    }
    let wal = place.dir.path().join("a store?.folio-wal");
    let length = std::fs::metadata(wal).unwrap().len();
    assert!(length < 24 << 20, "{length} bytes of WAL after 60 MiB");
}

#[test]
fn commits_of_another_handle_change_the_version() {
    let place = Place::new();
    let (engine, other) = (place.open(), place.open());
    let before = engine.version().unwrap();
    assert_eq!(engine.version().unwrap(), before);
    write(&other, &everything(1)).unwrap();
    let after = engine.version().unwrap();
    assert_ne!(after, before);
    read(&other, |s| s.counters().unwrap());
    assert_eq!(engine.version().unwrap(), after);
}

#[test]
fn a_rewritten_store_is_small_and_set_up_as_before() {
    let place = Place::new();
    let engine = place.open();
    let mut all = everything(1);
    all.pieces[0].2 = vec![7; 1 << 20];
    write(&engine, &all).unwrap();
    for n in 2..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    write(&engine, &gone(1)).unwrap();
    engine.rewrite().unwrap();
    let length = |path: &std::path::Path| std::fs::metadata(path).unwrap().len();
    assert_eq!(length(&place.dir.path().join("a store?.folio-wal")), 0);
    let left = length(&place.path);
    assert!(
        left < 1 << 20,
        "{left} bytes are left of a MiB that is gone"
    );
    for pragma in ["journal_mode", "application_id", "user_version"] {
        let fresh = Place::new().open().pragma(pragma);
        assert_eq!(engine.pragma(pragma), fresh);
    }
    engine.check().unwrap();
}

#[test]
fn who_reads_is_in_the_way_of_a_rewrite_and_is_told_so() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let other = SqliteEngine::open(&place.config().read_only()).unwrap();
    let busy = || {
        let error = engine.rewrite().unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, "store_busy"),
            "{error}"
        );
    };
    read(&other, |s| {
        s.counters().unwrap();
        busy();
        // Others write on meanwhile.
        write(&engine, &everything(2)).unwrap();
    });
    let raw = place.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    busy();
    raw.execute_batch("ROLLBACK").unwrap();
    engine.rewrite().unwrap();
}
