//! All or nothing, and one state for each read.

use super::*;
use folio_core::Direction;
use folio_store::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn refused() -> StoreError {
    StoreError::new(ErrorKind::Conflict, "refused", "no")
}

fn is_empty(engine: &RedbEngine) -> bool {
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
fn what_has_no_owner_is_refused() {
    let place = Place::new();
    let engine = place.open();
    let code = |writes: &Writes| {
        let error = write(&engine, writes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.code()
    };
    let mut all = everything(1);
    all.log = None;
    assert_eq!(code(&all), "rows_without_owner");
    assert!(is_empty(&engine));
}

#[test]
fn the_greatest_numbers_have_room() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let mut all = everything(u64::MAX);
    all.events.push(event(4));
    all.events[3].0.ordinal = u64::MAX;
    all.items[1].item.position = at(u64::MAX, u8::MAX);
    write(&engine, &all).unwrap();
    read(&engine, |s| {
        assert_eq!(s.events(u64::MAX, 4, u64::MAX, 9, 900).unwrap().len(), 1);
        let newest = s
            .items(u64::MAX, at(u64::MAX, u8::MAX), Direction::Older, 1)
            .unwrap();
        assert_eq!(newest[0].position, at(u64::MAX, u8::MAX));
    });
    engine.check().unwrap();
    let mut gone = gone(u64::MAX);
    gone.erase.push(Erase::Events {
        log_no: u64::MAX,
        family: u64::MAX,
        events: vec![(u64::MAX, None)],
    });
    write(&engine, &gone).unwrap();
    engine.check().unwrap();
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
}

#[test]
fn two_sessions_never_share_an_id() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let mut second = everything(2);
    second.sessions[0].session_id = SessionId::new("session-1").unwrap();
    assert_eq!(write(&engine, &second).unwrap_err().code(), "row_exists");
    assert_eq!(
        read(&engine, |s| s.session("session-1").unwrap()),
        Some(session(1))
    );
}

#[test]
fn what_the_engine_says_of_itself() {
    let place = Place::new();
    let engine = place.open();
    let can = engine.capabilities();
    assert!(can.durable && can.fast_open_after_crash && !can.multi_process);
    let owner = engine.owner().unwrap();
    assert_ne!(owner, 0);
    assert_eq!(engine.owner().unwrap(), owner);
    assert!(engine.is_alive(owner).unwrap() && !engine.is_alive(owner ^ 1).unwrap());
    assert_eq!(engine.version().unwrap(), engine.version().unwrap());
    engine.settle().unwrap();
    assert!(engine.now() > 1_700_000_000_000);
    assert_ne!(engine.random(), engine.random());
    engine.check().unwrap();
}

#[test]
fn a_read_that_is_under_way_is_waited_for() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let (began, has_begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            read(&engine, |s| {
                began.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(300));
                s.counters().unwrap().session_no
            })
        });
        has_begun.recv().unwrap();
        engine.demand_fence();
        write(&engine, &everything(2)).unwrap();
        assert!(reader.is_finished(), "the file was taken from the reader");
        assert_eq!(reader.join().unwrap(), 1);
    });
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 2);
}
