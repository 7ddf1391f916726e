//! Sessions: creation, listing, authority, and being discarded.

use crate::check::{Bench, append, code, create, query, session_id, stored};
use crate::conformance::{Case, StorePlace};
use crate::event::Events;
use folio_core::{Authority, Direction, EventId, Fact, FactOp, ForeignId, SessionId};
use folio_store::{
    AppendBatch, AuthorityChange, ContributionBatch, ContributionQuery, ErrorKind, NOTES,
    NewSession, SessionFilter, SessionInfo, Start, Store, StoreError, Writer,
};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("session":
    a_new_session_is_empty,
    creating_twice_is_a_conflict,
    none_begins_rejected,
    listing_is_paged_and_bounded,
    listing_hides_what_cannot_be_read,
    authority_is_compared_and_swapped,
    only_known_steps_of_authority_exist,
    one_of_many_switches_wins,
    a_preparing_session_is_for_its_importer_alone,
    a_rejected_session_refuses_everybody,
    a_followed_session_refuses_native_events,
    the_importer_remembers_its_source,
    discarding_leaves_no_trace,
    discarding_touches_nothing_else,
    discarding_is_compared_and_refused_for_real_sessions,
    sessions_do_not_share_events_or_runs,
);

type Place = Box<dyn StorePlace>;

async fn prepare(store: &dyn Store, id: &str) -> SessionInfo {
    let new = NewSession {
        id: session_id(id),
        authority: Authority::Preparing,
        followed: false,
        import_ref: Some("{\"source\":1}".into()),
    };
    store.create_session(new).await.unwrap()
}

async fn set(
    store: &dyn Store,
    id: &SessionId,
    expected_rev: u64,
    to: Authority,
) -> Result<SessionInfo, StoreError> {
    let change = AuthorityChange {
        expected_rev,
        to,
        import_ref: None,
    };
    store.set_authority(id, change).await
}

fn importer(events: Vec<folio_core::CanonicalEvent>) -> AppendBatch {
    AppendBatch {
        writer: Writer::Importer,
        ..AppendBatch::native(events)
    }
}

fn note(id: &str, anchor: u64) -> ContributionBatch {
    let fact = Fact {
        id: ForeignId::new(id).unwrap(),
        op: FactOp::Put,
        anchor,
        ts: None,
        kind: "mark".into(),
        turn_id: None,
        visible: true,
        data: None,
    };
    ContributionBatch::new(NOTES, vec![fact])
}

async fn a_new_session_is_empty(place: Place) {
    let s = Bench::open(&*place).await;
    let info = s.info().await;
    assert_eq!(info.id, s.session);
    assert_eq!((info.head, info.items, info.generation), (0, 0, 0));
    assert_eq!(info.chain, folio_codec::EMPTY_CHAIN);
    assert_eq!(info.authority, Authority::RuntimeEvents);
    assert_eq!((info.followed, info.import_ref.as_deref()), (false, None));
    assert_eq!(s.rows().await, []);
    assert_eq!(s.stored().await, []);
    assert_eq!(s.store.runs(&s.session, 0, 10).await.unwrap(), []);
    let status = s.store.index_status(&s.session).await.unwrap();
    assert_eq!((status.head, status.index_head, status.items), (0, 0, 0));
    for direction in [Direction::Older, Direction::Newer] {
        let page = s.page(direction, Start::Edge).await;
        assert_eq!((page.through, page.more, page.before), (0, false, false));
    }
    s.is_sound().await;
}

async fn creating_twice_is_a_conflict(place: Place) {
    let s = Bench::open(&*place).await;
    let before = s.info().await;
    for authority in [Authority::RuntimeEvents, Authority::Preparing] {
        let new = NewSession {
            authority,
            ..NewSession::native(s.session.clone())
        };
        let error = s.store.create_session(new).await.unwrap_err();
        assert_eq!(error.code(), "session_exists");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    assert_eq!(s.info().await, before);
}

async fn none_begins_rejected(place: Place) {
    let s = Bench::open(&*place).await;
    let new = NewSession {
        authority: Authority::Rejected,
        ..NewSession::native(session_id("s2"))
    };
    assert_eq!(
        code(s.store.create_session(new).await),
        "authority_transition"
    );
    let missing = s.store.session(&session_id("s2")).await;
    assert_eq!(code(missing), "session_not_found");
}

async fn listing_is_paged_and_bounded(place: Place) {
    let store = place.open().await.unwrap();
    // Order is by bytes, and an id may be the beginning of another.
    let mut ids = vec!["a", "a-1", "aa", "b", "B", "z9", "z10", "z"];
    for id in &ids {
        create(&*store, id).await;
    }
    ids.sort_unstable();
    for limit in [1, 2, 3, 7, 8, 9, 1_000] {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().map(|id| session_id(id));
            let page = store
                .sessions(SessionFilter::Readable, after, limit)
                .await
                .unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            listed.extend(page.iter().map(|info| info.id.as_str().to_owned()));
        }
        assert_eq!(listed, ids, "{limit} at a time");
    }
    let none = store.sessions(SessionFilter::All, None, 0).await.unwrap();
    assert_eq!(none, []);
    // The last seen one need not exist.
    let after = Some(session_id("a-9"));
    let page = store.sessions(SessionFilter::All, after, 1).await.unwrap();
    assert_eq!(page[0].id.as_str(), "aa");
    assert_eq!(page[0], store.session(&page[0].id).await.unwrap());
}

async fn listing_hides_what_cannot_be_read(place: Place) {
    let store = place.open().await.unwrap();
    for n in 0..6 {
        create(&*store, &format!("s{n}")).await;
        let info = prepare(&*store, &format!("s{n}-import")).await;
        if n % 2 == 0 {
            set(&*store, &info.id, info.authority_rev, Authority::Rejected)
                .await
                .unwrap();
        }
    }
    for limit in [1, 2, 5, 100] {
        let page = store.sessions(SessionFilter::Readable, None, limit).await;
        let page = page.unwrap();
        assert_eq!(page.len(), limit.min(6), "hidden ones take no place");
        assert!(page.iter().all(|s| s.authority == Authority::RuntimeEvents));
    }
    let all = store.sessions(SessionFilter::All, None, 100).await.unwrap();
    assert_eq!(all.len(), 12);
}

async fn authority_is_compared_and_swapped(place: Place) {
    let store = place.open().await.unwrap();
    let info = prepare(&*store, "s1").await;
    let (id, rev) = (&info.id, info.authority_rev);
    for wrong in [0, rev + 1, u64::MAX] {
        let error = set(&*store, id, wrong, Authority::RuntimeEvents).await;
        let error = error.unwrap_err();
        assert_eq!(error.code(), "authority_changed");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    assert_eq!(store.session(id).await.unwrap(), info);
    let rejected = set(&*store, id, rev, Authority::Rejected).await.unwrap();
    assert_eq!(rejected.authority, Authority::Rejected);
    assert!(rejected.authority_rev > rev);
    assert_eq!(store.session(id).await.unwrap(), rejected);
    // The number that was seen first is of no use any more.
    let stale = set(&*store, id, rev, Authority::Preparing).await;
    assert_eq!(code(stale), "authority_changed");
    let again = set(&*store, id, rejected.authority_rev, Authority::Preparing).await;
    let change = AuthorityChange {
        expected_rev: again.unwrap().authority_rev,
        to: Authority::RuntimeEvents,
        import_ref: Some("{\"source\":2}".into()),
    };
    let done = store.set_authority(id, change).await.unwrap();
    assert_eq!(done.authority, Authority::RuntimeEvents);
    assert_eq!(done.import_ref.as_deref(), Some("{\"source\":2}"));
    assert_eq!(done.incarnation, info.incarnation);
}

async fn only_known_steps_of_authority_exist(place: Place) {
    let store = place.open().await.unwrap();
    let all = [
        Authority::Preparing,
        Authority::RuntimeEvents,
        Authority::Rejected,
    ];
    for (n, from) in all.into_iter().enumerate() {
        for to in all {
            let id = format!("s{n}-{}", to.as_str());
            let mut info = prepare(&*store, &id).await;
            if from != Authority::Preparing {
                info = set(&*store, &info.id, info.authority_rev, from)
                    .await
                    .unwrap();
            }
            let outcome = set(&*store, &info.id, info.authority_rev, to).await;
            if from.may_become(to) {
                assert_eq!(outcome.unwrap().authority, to);
            } else {
                let error = outcome.unwrap_err();
                assert_eq!(error.code(), "authority_transition");
                assert_eq!(error.kind(), ErrorKind::Invalid);
                assert_eq!(store.session(&info.id).await.unwrap(), info);
            }
        }
    }
}

async fn one_of_many_switches_wins(place: Place) {
    let store = place.open().await.unwrap();
    let info = prepare(&*store, "s1").await;
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let (store, info) = (std::sync::Arc::clone(&store), info.clone());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                let set = set(
                    &*store,
                    &info.id,
                    info.authority_rev,
                    Authority::RuntimeEvents,
                );
                runtime
                    .expect("a runtime")
                    .block_on(set)
                    .map_err(|e| e.code())
            })
        })
        .collect();
    let mut won = 0;
    for thread in threads {
        match thread.join().expect("the thread ended well") {
            Ok(_) => won += 1,
            Err(code) => assert_eq!(code, "authority_changed"),
        }
    }
    assert_eq!(won, 1);
}

async fn a_preparing_session_is_for_its_importer_alone(place: Place) {
    let store = place.open().await.unwrap();
    let info = prepare(&*store, "s1").await;
    let mut events = Events::new("s1");
    let event = events.user("a", "1");
    let native = AppendBatch::native(vec![event.clone()]);
    let error = store.append(&info.id, native.clone()).await.unwrap_err();
    assert_eq!(error.code(), "session_preparing");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut batch = importer(vec![event]);
    batch.contributions = Some(note("n1", 1));
    store.append(&info.id, batch).await.unwrap();
    let refused = [
        code(
            store
                .read_items(&info.id, query(Direction::Older, Start::Edge))
                .await,
        ),
        code(store.contributions(&info.id, NOTES, all_facts()).await),
    ];
    assert_eq!(refused, ["session_preparing"; 2]);
    // It can be verified before it is handed over.
    let report = store.verify(&info.id).await.unwrap();
    assert!(report.findings.is_empty() && report.events == 1 && report.facts == 1);
    set(
        &*store,
        &info.id,
        info.authority_rev,
        Authority::RuntimeEvents,
    )
    .await
    .unwrap();
    assert_eq!(crate::check::rows(&*store, &info.id).await.len(), 1);
    let again = store.append(&info.id, native).await.unwrap();
    assert!(again.events[0].present);
}

fn all_facts() -> ContributionQuery {
    ContributionQuery {
        through: u64::MAX,
        direction: Direction::Newer,
        after: None,
        max_items: 100,
    }
}

async fn a_rejected_session_refuses_everybody(place: Place) {
    let store = place.open().await.unwrap();
    let info = prepare(&*store, "s1").await;
    let id = &info.id;
    let event = Events::new("s1").user("a", "1");
    store.append(id, importer(vec![event])).await.unwrap();
    set(&*store, id, info.authority_rev, Authority::Rejected)
        .await
        .unwrap();
    let more = Events::new("s1").user("b", "2");
    let codes = [
        code(
            store
                .append(id, AppendBatch::native(vec![more.clone()]))
                .await,
        ),
        code(store.append(id, importer(vec![more])).await),
        code(
            store
                .read_items(id, query(Direction::Older, Start::Edge))
                .await,
        ),
        code(store.contributions(id, NOTES, all_facts()).await),
    ];
    assert_eq!(codes, ["session_rejected"; 4]);
    assert_eq!(store.session(id).await.unwrap().head, 1);
}

async fn a_followed_session_refuses_native_events(place: Place) {
    let store = place.open().await.unwrap();
    let new = NewSession {
        followed: true,
        ..NewSession::native(session_id("s1"))
    };
    let info = store.create_session(new).await.unwrap();
    assert!(info.followed);
    let mut events = Events::new("s1");
    let (a, b) = (events.user("a", "1"), events.user("b", "2"));
    let native = |events| AppendBatch::native(events);
    let refused = store.append(&info.id, native(vec![a.clone()])).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "session_followed");
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    store
        .append(&info.id, importer(vec![a.clone()]))
        .await
        .unwrap();
    let again = store
        .append(&info.id, native(vec![a.clone()]))
        .await
        .unwrap();
    assert!(again.events[0].present, "what is there needs no right");
    let partly = store.append(&info.id, native(vec![a, b])).await;
    assert_eq!(code(partly), "session_followed");
    let mut facts = native(Vec::new());
    facts.contributions = Some(note("n1", 0));
    assert_eq!(
        code(store.append(&info.id, facts).await),
        "session_followed"
    );
    assert_eq!(crate::check::rows(&*store, &info.id).await.len(), 1);
}

async fn the_importer_remembers_its_source(place: Place) {
    let store = place.open().await.unwrap();
    let info = prepare(&*store, "s1").await;
    assert_eq!(info.import_ref.as_deref(), Some("{\"source\":1}"));
    let mut events = Events::new("s1");
    let mut batch = importer(vec![events.user("a", "1")]);
    store.append(&info.id, batch.clone()).await.unwrap();
    let kept = store.session(&info.id).await.unwrap().import_ref;
    assert_eq!(kept, info.import_ref, "no news is no change");
    batch.import_ref = Some("{\"source\":2}".into());
    let again = store.append(&info.id, batch.clone()).await.unwrap();
    assert!(again.events[0].present, "it may move on without new events");
    let moved = store.session(&info.id).await.unwrap();
    assert_eq!(moved.import_ref, batch.import_ref);
    assert_eq!(moved.authority_rev, info.authority_rev);
    // It moves with its batch or not at all.
    let mut bad = importer(vec![events.user("a", "other")]);
    bad.import_ref = Some("{\"source\":3}".into());
    assert_eq!(code(store.append(&info.id, bad).await), "event_id_conflict");
    let kept = store.session(&info.id).await.unwrap().import_ref;
    assert_eq!(kept, batch.import_ref);
}

async fn discarding_leaves_no_trace(place: Place) {
    let store = place.open().await.unwrap();
    let info = prepare(&*store, "s1").await;
    let mut events = Events::new("s1");
    let mut batch = importer(vec![
        events.user("a", "1"),
        events.text("b", "m1", true, "chunk"),
        events.end("c", "completed"),
    ]);
    batch.contributions = Some(note("n1", 1));
    store.append(&info.id, batch).await.unwrap();
    store.rebuild_index(&info.id).await.unwrap();
    store
        .discard_session(&info.id, info.authority_rev)
        .await
        .unwrap();
    assert_eq!(code(store.session(&info.id).await), "session_not_found");
    let listed = store.sessions(SessionFilter::All, None, 10).await.unwrap();
    assert_eq!(listed, []);
    let again = create(&*store, "s1").await;
    let fresh = store.session(&again).await.unwrap();
    assert_ne!(fresh.incarnation, info.incarnation, "another life");
    assert_eq!((fresh.head, fresh.items), (0, 0));
    assert_eq!(fresh.import_ref, None);
    assert_eq!(stored(&*store, &again).await, []);
    assert_eq!(store.runs(&again, 0, 10).await.unwrap(), []);
    let a = [EventId::new("a").unwrap()];
    assert_eq!(store.lookup_ids(&again, &a).await.unwrap(), [None]);
    let notes = store.contribution_status(&again, NOTES).await.unwrap();
    assert_eq!(notes.head, 0);
    // Its ids are free: of events, runs, invocations and notes.
    let mut events = Events::new("s1").run("r1", "another-turn");
    let mut batch = AppendBatch::native(vec![events.user("a", "other")]);
    batch.contributions = Some(note("n1", 0));
    let committed = store.append(&again, batch).await.unwrap();
    assert_eq!((committed.high_water, committed.facts_head), (1, 1));
    assert_eq!(crate::check::rows(&*store, &again).await.len(), 1);
    assert!(store.verify(&again).await.unwrap().findings.is_empty());
}

async fn discarding_touches_nothing_else(place: Place) {
    let s = Bench::open(&*place).await;
    let events = crate::workload::random(3, 120);
    s.append(events.clone()).await;
    let mut notes = AppendBatch::native(Vec::new());
    notes.contributions = Some(note("n1", 5));
    s.store.append(&s.session, notes.clone()).await.unwrap();
    let (before, rows) = (s.info().await, s.rows().await);
    let other = prepare(&*s.store, "s0").await;
    // A neighbour in the same state, which no id tells from it but its own.
    let neighbour = prepare(&*s.store, "s00").await;
    let mut batch = importer(events);
    batch.contributions = notes.contributions;
    let batch = crate::check::written_for(&other.id, batch);
    s.store.append(&other.id, batch).await.unwrap();
    s.store
        .discard_session(&other.id, other.authority_rev)
        .await
        .unwrap();
    assert_eq!(s.store.session(&neighbour.id).await.unwrap(), neighbour);
    assert_eq!(s.info().await, before);
    assert_eq!(s.rows().await, rows);
    let facts = s.store.contributions(&s.session, NOTES, all_facts()).await;
    assert_eq!(facts.unwrap().len(), 1);
    s.is_sound().await;
}

async fn discarding_is_compared_and_refused_for_real_sessions(place: Place) {
    let s = Bench::open(&*place).await;
    let rev = s.info().await.authority_rev;
    let error = s.store.discard_session(&s.session, rev).await.unwrap_err();
    assert_eq!(error.code(), "authority_transition");
    let info = prepare(&*s.store, "s2").await;
    let rev = info.authority_rev;
    for wrong in [0, rev + 1] {
        let refused = s.store.discard_session(&info.id, wrong).await;
        assert_eq!(code(refused), "authority_changed");
    }
    let info = set(&*s.store, &info.id, rev, Authority::Rejected)
        .await
        .unwrap();
    let stale = s.store.discard_session(&info.id, rev).await;
    assert_eq!(code(stale), "authority_changed");
    let rev = info.authority_rev;
    s.store.discard_session(&info.id, rev).await.unwrap();
    let gone = s.store.discard_session(&info.id, rev).await;
    assert_eq!(code(gone), "session_not_found");
}

async fn sessions_do_not_share_events_or_runs(place: Place) {
    let mut s = Bench::open(&*place).await;
    let other = create(&*s.store, "s1-more").await;
    let end = vec![s.events.user("a", "1"), s.events.end("b", "completed")];
    s.append(end).await;
    // The same ids with other contents, and the run is not sealed here.
    let mut events = Events::new("s1-more").run("r1", "other-turn");
    let batch = vec![events.user("a", "other"), events.user("c", "3")];
    let committed = append(&*s.store, &other, batch).await;
    assert_eq!(committed.high_water, 2);
    assert!(committed.events.iter().all(|event| !event.present));
    assert_eq!(s.info().await.head, 2);
    let c = [EventId::new("c").unwrap()];
    assert_eq!(s.store.lookup_ids(&s.session, &c).await.unwrap(), [None]);
}
