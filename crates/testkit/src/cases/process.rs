//! Two handles on one store, as two processes have them.

use crate::check::{Bench, Stop, append, code, rows, session_id, stored, wait};
use crate::conformance::{Case, StorePlace};
use crate::event::Events;
use crate::workload::random;
use folio_core::SessionId;
use folio_store::{AppendBatch, ErrorKind, NewSession, Store};
use std::sync::Arc;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("process":
    two_handles_append_by_turns: MultiProcess,
    two_handles_append_at_once: MultiProcess,
    a_handle_sees_what_the_other_commits: MultiProcess,
    a_reader_follows_the_other_handle: MultiProcess,
    two_handles_agree_about_conflicts: MultiProcess,
    two_handles_create_sessions_at_once: MultiProcess,
    a_handle_outlives_the_other: MultiProcess,
);

type Place = Box<dyn StorePlace>;

async fn two(place: &Place) -> (Bench, Arc<dyn Store>) {
    let s = Bench::open(&**place).await;
    let other = place.second().await.unwrap();
    (s, other)
}

async fn two_handles_append_by_turns(place: Place) {
    let (s, other) = two(&place).await;
    let events = random(51, 300);
    let mut head = 0;
    for (n, batch) in events.chunks(7).enumerate() {
        let store = if n % 2 == 0 { &s.store } else { &other };
        let committed = append(&**store, &s.session, batch.to_vec()).await;
        assert_eq!(committed.events[0].ordinal, head + 1);
        head += batch.len() as u64;
        assert_eq!(committed.high_water, head);
    }
    let wanted = crate::reference::project(&events);
    assert_eq!(s.rows().await, wanted);
    assert_eq!(rows(&*other, &s.session).await, wanted);
    s.is_sound().await;
}

async fn two_handles_append_at_once(place: Place) {
    const WRITERS: usize = 2;
    const BATCHES: usize = 20;
    let (s, other) = two(&place).await;
    let mut threads = Vec::new();
    for (handle, store) in [Arc::clone(&s.store), other].into_iter().enumerate() {
        for writer in 0..WRITERS {
            let (store, session) = (Arc::clone(&store), s.session.clone());
            threads.push(std::thread::spawn(move || {
                let run = format!("r{handle}-{writer}");
                let mut events = Events::new("s1").run(&run, &run);
                let mut ordinals = Vec::new();
                for n in 0..BATCHES {
                    let batch = (0..3)
                        .map(|k| events.user(&format!("{run}-{n}-{k}"), "text"))
                        .collect();
                    let committed = wait(append(&*store, &session, batch));
                    let first = committed.events[0].ordinal;
                    let places: Vec<_> = committed.events.iter().map(|e| e.ordinal).collect();
                    assert_eq!(
                        places,
                        [first, first + 1, first + 2],
                        "a batch is one piece"
                    );
                    let seqs: Vec<_> = committed.events.iter().map(|e| e.event_seq).collect();
                    let seq = n as u64 * 3;
                    assert_eq!(seqs, [seq + 1, seq + 2, seq + 3]);
                    ordinals.extend(places);
                }
                ordinals
            }));
        }
    }
    let mut ordinals = Vec::new();
    for thread in threads {
        ordinals.extend(thread.join().expect("the writer ended well"));
    }
    ordinals.sort_unstable();
    let head = (2 * WRITERS * BATCHES * 3) as u64;
    assert_eq!(ordinals, (1..=head).collect::<Vec<_>>());
    assert_eq!(s.info().await.head, head);
    s.is_sound().await;
}

async fn a_handle_sees_what_the_other_commits(place: Place) {
    let (mut s, other) = two(&place).await;
    assert_eq!(other.session(&s.session).await.unwrap(), s.info().await);
    for n in 1..=20 {
        let event = s.events.user(&format!("e{n}"), "text");
        let committed = s.append(vec![event]).await;
        let info = other.session(&s.session).await.unwrap();
        assert_eq!((info.head, info.chain), (n, committed.chain));
        assert_eq!(stored(&*other, &s.session).await, s.stored().await);
        assert_eq!(rows(&*other, &s.session).await, s.rows().await);
    }
}

async fn a_reader_follows_the_other_handle(place: Place) {
    let (s, other) = two(&place).await;
    let stop = Stop::default();
    let (session, told) = (s.session.clone(), stop.told());
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        loop {
            let last = told();
            let head = wait(other.session(&session)).unwrap().head;
            assert!(head >= seen, "the head only grows");
            assert!(head.is_multiple_of(3), "batches are seen whole");
            assert!(wait(stored(&*other, &session)).len() as u64 >= head);
            assert!(wait(rows(&*other, &session)).len() as u64 >= head);
            seen = head;
            if last {
                return seen;
            }
        }
    });
    let mut events = Events::new("s1");
    for n in 0..60 {
        let batch = (0..3).map(|k| events.user(&format!("e{n}-{k}"), "text"));
        let batch = batch.collect();
        s.append(batch).await;
    }
    drop(stop);
    assert_eq!(reader.join().expect("the reader ended well"), 180);
}

async fn two_handles_agree_about_conflicts(place: Place) {
    let (mut s, other) = two(&place).await;
    let (a, end) = (s.events.user("a", "1"), s.events.end("end", "completed"));
    s.append(vec![a.clone()]).await;
    let again = append(&*other, &s.session, vec![a]).await;
    assert!(again.events[0].present, "it is known to both");
    append(&*other, &s.session, vec![end]).await;
    let mut events = s.events.clone();
    let late = s.events.user("late", "too late");
    assert_eq!(s.refused_code(vec![late]).await, "run_sealed");
    events.enter("r2", "t2");
    let stale = AppendBatch {
        expected_head: Some(1),
        ..AppendBatch::native(vec![events.user("b", "2")])
    };
    let error = s.refused(stale).await;
    assert_eq!(error.code(), "head_mismatch");
    assert_eq!(error.ordinals(), [1, 2]);
    let other_content = events.user("a", "another");
    let batch = AppendBatch::native(vec![other_content]);
    let refused = other.append(&s.session, batch).await;
    assert_eq!(code(refused), "event_id_conflict");
}

async fn two_handles_create_sessions_at_once(place: Place) {
    let (s, other) = two(&place).await;
    let create = |store: Arc<dyn Store>, mine: &'static str| {
        std::thread::spawn(move || {
            let mut won = 0;
            for n in 0..20 {
                let own = NewSession::native(session_id(&format!("{mine}{n}")));
                wait(store.create_session(own)).unwrap();
                let shared = NewSession::native(session_id(&format!("shared{n}")));
                match wait(store.create_session(shared)) {
                    Ok(_) => won += 1,
                    Err(error) => assert_eq!(error.code(), "session_exists"),
                }
            }
            won
        })
    };
    let threads = [
        create(Arc::clone(&s.store), "a"),
        create(Arc::clone(&other), "b"),
    ];
    let won = threads.map(|thread| thread.join().expect("the thread ended well"));
    assert_eq!(won.iter().sum::<i32>(), 20, "each is created once");
    // No two of them share a log.
    let mut ids: Vec<SessionId> = Vec::new();
    for n in 0..20 {
        ids.extend(["a", "b", "shared"].map(|of| session_id(&format!("{of}{n}"))));
    }
    for (n, id) in ids.iter().enumerate() {
        let event = Events::new(id.as_str()).user(&format!("e{n}"), "text");
        assert_eq!(append(&*other, id, vec![event]).await.high_water, 1);
    }
    for id in &ids {
        assert_eq!(rows(&*s.store, id).await.len(), 1);
    }
}

async fn a_handle_outlives_the_other(place: Place) {
    let (mut s, other) = two(&place).await;
    let event = s.events.user("a", "1");
    append(&*other, &s.session, vec![event]).await;
    other.close().await.unwrap();
    let batch = AppendBatch::native(vec![s.events.user("b", "2")]);
    let refused = other.append(&s.session, batch.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    drop(other);
    let committed = s.store.append(&s.session, batch).await.unwrap();
    assert_eq!(committed.high_water, 2);
    let again = place.second().await.unwrap();
    assert_eq!(again.session(&s.session).await.unwrap(), s.info().await);
}
