//! All or nothing, and one state for each read.

use super::*;
use folio_store::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn refused() -> StoreError {
    StoreError::new(ErrorKind::Conflict, "refused", "no")
}

fn is_empty(engine: &SqliteEngine) -> bool {
    read(engine, |s| {
        s.sessions(None, 9).unwrap().is_empty() && s.events(1, 1, 9, 9, 900).unwrap().is_empty()
    })
}

#[test]
fn a_read_sees_one_state_while_others_commit() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    read(&engine, |s| {
        assert_eq!(s.sessions(None, 9).unwrap().len(), 1);
        write(&engine, &everything(2)).unwrap();
        assert_eq!(s.sessions(None, 9).unwrap().len(), 1);
        assert_eq!(s.log(2).unwrap(), None);
        // Another read is another state.
        assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 2);
    });
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 2);
}

#[test]
fn a_write_reads_what_it_wrote_and_an_error_leaves_nothing() {
    let place = Place::new();
    let engine = place.open();
    let error = engine
        .write(&mut |txn| {
            txn.apply(&everything(1))?;
            assert_eq!(txn.sessions(None, 9)?.len(), 1);
            Err(refused())
        })
        .unwrap_err();
    assert_eq!(error.code(), "refused");
    assert!(is_empty(&engine));
    assert_eq!(
        read(&engine, |s| s.counters().unwrap()),
        Counters::default()
    );
    write(&engine, &everything(1)).unwrap();
}

#[test]
fn a_panic_leaves_nothing_and_breaks_nothing() {
    let place = Place::new();
    let engine = place.open();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = engine.write(&mut |txn| {
            txn.apply(&everything(1))?;
            panic!("in the middle of it");
        });
    }));
    assert!(panicked.is_err());
    assert!(is_empty(&engine));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        read(&engine, |s| {
            s.counters().unwrap();
            panic!("while reading");
        })
    }));
    assert!(panicked.is_err());
    write(&engine, &everything(1)).unwrap();
    assert!(!is_empty(&engine));
}

#[test]
fn a_failed_apply_cannot_be_committed() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let mut twice = everything(2);
    twice.events.push(event(3));
    let error = engine
        .write(&mut |txn| {
            let error = txn.apply(&twice).unwrap_err();
            assert_eq!(
                (error.kind(), error.code()),
                (ErrorKind::Corrupt, "row_exists")
            );
            assert_eq!(
                txn.apply(&everything(3)).unwrap_err().code(),
                "transaction_failed"
            );
            Ok(())
        })
        .unwrap_err();
    assert_eq!(error.code(), "transaction_failed");
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
}

#[test]
fn what_has_no_room_or_no_owner_is_refused() {
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
    all.log = None;
    assert_eq!(code(&all), "rows_without_owner");
    let mut all = everything(1);
    all.pieces[0].1 = 1 << 20;
    assert_eq!(code(&all), "limit_exceeded");
    let mut all = everything(1);
    all.blobs[0].blob_no = crate::keys::MAX_BLOB + 1;
    assert_eq!(code(&all), "limit_exceeded");
    let mut all = everything(1);
    all.spans[0].upto = u64::MAX;
    assert_eq!(code(&all), "limit_exceeded");
    for writes in [
        Writes {
            spans: vec![span(1, 1)],
            ..Writes::default()
        },
        Writes {
            redacted: vec![event(1).0],
            ..Writes::default()
        },
        Writes {
            citations: vec![(1, sha(1))],
            ..Writes::default()
        },
    ] {
        assert_eq!(code(&writes), "rows_without_owner");
    }
    assert!(is_empty(&engine));
}

#[test]
fn two_never_share_what_is_one_alone() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let mut second = everything(2);
    second.sessions[0].session_id = SessionId::new("session-1").unwrap();
    assert_eq!(write(&engine, &second).unwrap_err().code(), "row_exists");
    // Nor two blobs their pieces, nor two views a name.
    let mut second = everything(2);
    second.blobs[0].blob_no = blob(1).blob_no;
    assert_eq!(write(&engine, &second).unwrap_err().code(), "row_exists");
    let mut second = everything(2);
    second.view.as_mut().unwrap().view.name = "view-1".into();
    assert_eq!(write(&engine, &second).unwrap_err().code(), "row_exists");
    assert_eq!(
        read(&engine, |s| s.session("session-1").unwrap()),
        Some(session(1))
    );
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
fn a_store_that_is_only_read_has_nothing_to_settle_and_is_not_rewritten() {
    let place = Place::new();
    write(&place.open(), &everything(1)).unwrap();
    let engine = SqliteEngine::open(&place.config().read_only()).unwrap();
    engine.settle().unwrap();
    assert_eq!(engine.rewrite().unwrap_err().code(), "store_read_only");
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
fn what_the_engine_says_of_itself() {
    let place = Place::new();
    let engine = place.open();
    let able = engine.capabilities();
    assert!(able.durable && able.multi_process && able.fast_open_after_crash);
    assert!(engine.now() > 1_700_000_000_000);
    assert_ne!(engine.random(), engine.random());
    let owner = engine.owner().unwrap();
    assert_eq!(engine.owner().unwrap(), owner);
    assert_ne!(owner, 0);
    assert!(engine.is_alive(owner).unwrap());
    assert!(!engine.is_alive(owner ^ 1).unwrap());
    engine.check().unwrap();
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
fn a_rewritten_store_is_small_and_whole() {
    let place = Place::new();
    let engine = place.open();
    let mut all = everything(1);
    all.pieces[0].2 = vec![7; 1 << 20];
    write(&engine, &all).unwrap();
    for n in 2..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    write(&engine, &nothing(1)).unwrap();
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
    write(&engine, &everything(1)).unwrap();
    drop(engine);
    let engine = place.open();
    for n in 1..=3 {
        read(&engine, |s| {
            let found = s.events(n, 1, 9, 9, 900).unwrap();
            assert_eq!(found.len(), 3);
        });
    }
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
