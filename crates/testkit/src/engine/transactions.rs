//! All or nothing, and one state for each read.
#![expect(missing_docs, reason = "the name of a case says what holds")]

use super::rows::*;
use super::{EnginePlace, place_with, read, sessions, write};
use folio_store::engine::{Counters, Engine, Writes};
use folio_store::{ErrorKind, StoreError};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn refused() -> StoreError {
    StoreError::new(ErrorKind::Conflict, "refused", "no")
}

fn is_empty(engine: &impl Engine) -> bool {
    read(engine, |s| {
        s.sessions(None, 9).unwrap().is_empty() && s.events(1, 1, 9, 9, 900).unwrap().is_empty()
    })
}

pub fn a_read_sees_one_state_while_others_commit<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([1]);
    read(&engine, |s| {
        assert_eq!(s.sessions(None, 9).unwrap().len(), 1);
        write(&engine, &everything(2)).unwrap();
        assert_eq!(s.sessions(None, 9).unwrap().len(), 1);
        assert_eq!(s.log(2).unwrap(), None);
        // Another read is another state.
        assert_eq!(sessions(&engine), 2);
    });
    assert_eq!(sessions(&engine), 2);
}

pub fn a_write_reads_what_it_wrote_and_an_error_leaves_nothing<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([]);
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

#[expect(clippy::panic, reason = "it is about panics")]
pub fn a_panic_leaves_nothing_and_breaks_nothing<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([]);
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

pub fn a_failed_apply_cannot_be_committed<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([1]);
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
    assert_eq!(sessions(&engine), 1);
}

pub fn what_has_no_owner_is_refused<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([]);
    let all = everything(1);
    for writes in [
        Writes {
            log: None,
            ..all.clone()
        },
        Writes {
            spans: all.spans,
            ..Writes::default()
        },
        Writes {
            redacted: vec![event(1).0],
            ..Writes::default()
        },
        Writes {
            citations: all.citations,
            ..Writes::default()
        },
        Writes {
            packs: all.packs,
            ..Writes::default()
        },
        Writes {
            id_runs: all.id_runs,
            ..Writes::default()
        },
        Writes {
            pack_ids: all.pack_ids,
            ..Writes::default()
        },
    ] {
        let error = write(&engine, &writes).unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Invalid, "rows_without_owner")
        );
    }
    assert!(is_empty(&engine));
}

pub fn two_sessions_never_share_an_id<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([1]);
    let mut second = everything(2);
    second.sessions[0].session_id = session(1).session_id;
    assert_eq!(write(&engine, &second).unwrap_err().code(), "row_exists");
    assert_eq!(
        read(&engine, |s| s.session("session-1").unwrap()),
        Some(session(1))
    );
}

pub fn a_store_that_is_only_read_has_nothing_to_settle_and_is_not_rewritten<P: EnginePlace>() {
    let (place, engine) = place_with::<P>([1]);
    drop(engine);
    let engine = place.open_read_only();
    engine.settle().unwrap();
    assert_eq!(engine.rewrite().unwrap_err().code(), "store_read_only");
}

pub fn what_the_engine_says_of_itself<P: EnginePlace>() {
    let (_place, engine) = place_with::<P>([]);
    let can = engine.capabilities();
    assert!(can.durable && can.fast_open_after_crash);
    assert_eq!(can.multi_process, P::MULTI_PROCESS);
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
