//! Deletion: the session is gone at once, and nothing else is.

use crate::check::{
    Bench, Told, append, code, create, fork, is_sound, poll_once, rows, session_id, told,
    written_for,
};
use crate::conformance::{Case, StorePlace};
use crate::event::Events;
use crate::workload::{Periodic, Random, random};
use folio_core::{Authority, CanonicalEvent, Direction, SessionId};
use folio_store::{
    AppendBatch, AuthorityChange, ContributionQuery, ErrorKind, NewSession, RangeQuery, Scrub,
    SessionFilter, Start, Store, ViewBatch, Writer,
};
use std::task::Poll;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("erase":
    a_deleted_session_is_not_found,
    a_deleted_session_is_not_listed,
    deleting_twice_finds_nothing,
    other_sessions_are_left_alone,
    an_id_begins_a_new_life,
    deletion_compares_the_revision,
    whatever_its_authority_a_session_is_deleted,
    a_discarded_session_leaves_its_id_free,
    a_refused_deletion_leaves_no_mark,
    a_child_keeps_what_it_reads,
    a_child_goes_on_without_its_parent,
    a_child_is_rebuilt_without_its_parent,
    a_child_of_a_deleted_parent_is_forked,
    what_ended_after_the_fork_is_open_without_the_parent,
    a_deleted_child_leaves_its_parent,
    a_deleted_middle_leaves_both_ends,
    a_family_is_deleted_in_any_order,
    the_id_of_a_deleted_parent_is_nobodys_parent,
    long_logs_are_deleted_from_both_ends,
    notes_and_views_go_with_the_session,
    erasures_are_counted_until_the_scrub,
    a_scrub_without_work_does_nothing,
    a_deletion_that_nobody_waits_for_is_completed,
    others_write_while_a_long_log_goes,
    two_handles_delete_at_once: MultiProcess,
    another_handle_completes_a_deletion: MultiProcess,
    a_deletion_is_completed_after_reopening: Durable,
    a_deleted_session_stays_deleted: Durable,
);

type Place = Box<dyn StorePlace>;

/// The codes of every question that needs the session.
async fn codes(store: &dyn Store, session: &SessionId) -> Vec<&'static str> {
    let range = RangeQuery {
        from: 1,
        to: 1,
        max_count: 1,
        max_bytes: 1,
    };
    let facts = ContributionQuery {
        through: 1,
        direction: Direction::Newer,
        after: None,
        max_items: 1,
    };
    let event = Events::new(session.as_str()).user("late", "text");
    let append = store
        .append(session, AppendBatch::native(vec![event]))
        .await;
    let page = crate::check::query(Direction::Older, Start::Edge);
    vec![
        code(append),
        code(store.session(session).await),
        code(store.range(session, range).await),
        code(store.events(session, &[1]).await),
        code(store.runs(session, 0, 1).await),
        code(store.lookup_ids(session, &[]).await),
        code(store.read_items(session, page).await),
        code(store.index_status(session).await),
        code(store.rebuild_index(session).await),
        code(store.verify(session).await),
        code(store.contribution_status(session, "notes").await),
        code(store.contributions(session, "notes", facts).await),
        code(store.citations(session, 1, 1).await),
        code(store.lease(session).await),
        code(store.view_mark("v", 1, session).await),
        code(store.redact(session, &["user::a".into()]).await),
        code(
            store
                .fork_session(session, 0, session_id("of-nobody"))
                .await,
        ),
        code(store.wait(session, 0).await),
        code(store.delete_session(session, None).await),
    ]
}

async fn is_gone(store: &dyn Store, session: &SessionId) {
    let codes = codes(store, session).await;
    assert!(
        codes.iter().all(|code| *code == "session_not_found"),
        "{codes:?}"
    );
}

async fn delete(store: &dyn Store, session: &SessionId) {
    store.delete_session(session, None).await.unwrap();
}

async fn a_deleted_session_is_not_found(place: Place) {
    let s = Bench::open(&*place).await;
    s.append(random(81, 60)).await;
    delete(&*s.store, &s.session).await;
    is_gone(&*s.store, &s.session).await;
    s.store.scrub().await.unwrap();
    is_gone(&*s.store, &s.session).await;
    s.store.check().await.unwrap();
}

async fn a_deleted_session_is_not_listed(place: Place) {
    let s = Bench::open(&*place).await;
    let other = create(&*s.store, "other").await;
    delete(&*s.store, &s.session).await;
    for filter in [SessionFilter::All, SessionFilter::Readable] {
        let listed = s.store.sessions(filter, None, 9).await.unwrap();
        let listed: Vec<_> = listed.into_iter().map(|info| info.id).collect();
        assert_eq!(listed, std::slice::from_ref(&other));
    }
}

async fn deleting_twice_finds_nothing(place: Place) {
    let s = Bench::open(&*place).await;
    delete(&*s.store, &s.session).await;
    let error = s.store.delete_session(&s.session, None).await.unwrap_err();
    assert_eq!(error.code(), "session_not_found");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

async fn other_sessions_are_left_alone(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(82, 80);
    s.append(events.clone()).await;
    let other = create(&*s.store, "other").await;
    append(&*s.store, &other, events.clone()).await;
    let before = (
        told(&*s.store, &other).await,
        s.store.session(&other).await.unwrap(),
    );
    delete(&*s.store, &s.session).await;
    s.store.scrub().await.unwrap();
    let after = (
        told(&*s.store, &other).await,
        s.store.session(&other).await.unwrap(),
    );
    assert_eq!(after, before);
    let again = append(&*s.store, &other, events).await;
    assert!(again.events.iter().all(|event| event.present));
    is_sound(&*s.store, &other).await;
}

async fn an_id_begins_a_new_life(place: Place) {
    let s = Bench::open(&*place).await;
    s.append(random(83, 60)).await;
    let before = s.info().await;
    delete(&*s.store, &s.session).await;
    let info = s
        .store
        .create_session(NewSession::native(s.session.clone()))
        .await;
    let info = info.unwrap();
    assert_ne!(info.incarnation, before.incarnation);
    assert_eq!((info.head, info.items, info.generation), (0, 0, 0));
    assert!(s.rows().await.is_empty());
    assert!(s.store.runs(&s.session, 0, 9).await.unwrap().is_empty());
    // Ids, runs and ordinals are free: other events may have them.
    let other = random(84, 60);
    let committed = s.append(other.clone()).await;
    assert!(committed.events.iter().all(|event| !event.present));
    assert_eq!(committed.events[0].ordinal, 1);
    assert_eq!(s.rows().await, crate::reference::project(&other));
    s.store.scrub().await.unwrap();
    assert_eq!(s.rows().await, crate::reference::project(&other));
    s.is_sound().await;
}

async fn deletion_compares_the_revision(place: Place) {
    let s = Bench::open(&*place).await;
    let rev = s.info().await.authority_rev;
    for stale in [rev + 1, 0] {
        let refused = s.store.delete_session(&s.session, Some(stale)).await;
        let error = refused.unwrap_err();
        assert_eq!(error.code(), "authority_changed");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    s.info().await;
    s.store.delete_session(&s.session, Some(rev)).await.unwrap();
    is_gone(&*s.store, &s.session).await;
}

async fn preparing(s: &Bench, id: &str) -> SessionId {
    let new = NewSession {
        authority: Authority::Preparing,
        ..NewSession::native(session_id(id))
    };
    let id = s.store.create_session(new).await.unwrap().id;
    import(s, &id, random(85, 30)).await;
    id
}

async fn import(s: &Bench, session: &SessionId, events: Vec<CanonicalEvent>) {
    let batch = AppendBatch {
        writer: Writer::Importer,
        ..AppendBatch::native(events)
    };
    let batch = written_for(session, batch);
    s.store.append(session, batch).await.unwrap();
}

async fn whatever_its_authority_a_session_is_deleted(place: Place) {
    let s = Bench::open(&*place).await;
    let one = preparing(&s, "preparing").await;
    let two = preparing(&s, "rejected").await;
    let change = |rev| AuthorityChange {
        expected_rev: rev,
        to: Authority::Rejected,
        import_ref: None,
    };
    let rejected = s.store.set_authority(&two, change(1)).await.unwrap();
    // Somebody who saw it before it was rejected must look again.
    let refused = s.store.delete_session(&two, Some(1)).await;
    assert_eq!(code(refused), "authority_changed");
    for (session, rev) in [(one, None), (two, Some(rejected.authority_rev))] {
        s.store.delete_session(&session, rev).await.unwrap();
        is_gone(&*s.store, &session).await;
    }
}

async fn a_discarded_session_leaves_its_id_free(place: Place) {
    let s = Bench::open(&*place).await;
    let id = preparing(&s, "import").await;
    for turns in 0..20 {
        import(&s, &id, Periodic::new("import").batch(turns * 10, 10)).await;
    }
    s.store.discard_session(&id, 1).await.unwrap();
    is_gone(&*s.store, &id).await;
    let again = preparing(&s, "import").await;
    assert_eq!(s.store.session(&again).await.unwrap().head, 30);
    is_sound(&*s.store, &again).await;
}

async fn a_refused_deletion_leaves_no_mark(place: Place) {
    let s = Bench::open(&*place).await;
    s.append(random(86, 40)).await;
    let before = (s.info().await, told(&*s.store, &s.session).await);
    let refused = s.store.delete_session(&s.session, Some(9)).await;
    assert_eq!(code(refused), "authority_changed");
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
    assert_eq!((s.info().await, told(&*s.store, &s.session).await), before);
}

/// A parent that went on behind the fork, and its child that did too.
async fn forked(s: &Bench, seed: u64) -> (SessionId, Vec<CanonicalEvent>) {
    let events = random(seed, 150);
    s.append(events[..110].to_vec()).await;
    let child = s.fork(70, "child").await;
    append(&*s.store, &child, events[70..100].to_vec()).await;
    s.append(events[110..].to_vec()).await;
    (child, events)
}

async fn a_child_keeps_what_it_reads(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, _) = forked(&s, 87).await;
    let before = told(&*s.store, &child).await;
    let at = crate::check::told_at(&*s.store, &child, 50).await;
    delete(&*s.store, &s.session).await;
    for _ in 0..2 {
        assert_eq!(told(&*s.store, &child).await, before);
        assert_eq!(crate::check::told_at(&*s.store, &child, 50).await, at);
        is_sound(&*s.store, &child).await;
        let info = s.store.session(&child).await.unwrap();
        assert_eq!((info.inherited, info.forked_from), (70, None));
        s.store.scrub().await.unwrap();
    }
    is_gone(&*s.store, &s.session).await;
}

async fn a_child_goes_on_without_its_parent(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, events) = forked(&s, 88).await;
    delete(&*s.store, &s.session).await;
    let alone = create(&*s.store, "alone").await;
    append(&*s.store, &alone, events[..100].to_vec()).await;
    for batch in Random::new(88).batches(&events[100..], 6) {
        let one = append(&*s.store, &child, batch.clone()).await;
        assert_eq!(one, append(&*s.store, &alone, batch).await);
    }
    assert_eq!(told(&*s.store, &child).await, told(&*s.store, &alone).await);
    is_sound(&*s.store, &child).await;
    let again = append(&*s.store, &child, events).await;
    assert!(again.events.iter().all(|event| event.present));
}

async fn a_child_is_rebuilt_without_its_parent(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, _) = forked(&s, 89).await;
    let before = told(&*s.store, &child).await;
    delete(&*s.store, &s.session).await;
    for _ in 0..2 {
        s.store.rebuild_index(&child).await.unwrap();
        assert_eq!(told(&*s.store, &child).await, before);
        is_sound(&*s.store, &child).await;
    }
}

async fn a_child_of_a_deleted_parent_is_forked(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, events) = forked(&s, 90).await;
    delete(&*s.store, &s.session).await;
    for (n, at) in [0, 20, 69, 70, 71, 100].into_iter().enumerate() {
        let grandchild = fork(&*s.store, &child, at, &format!("g{n}")).await;
        let alone = create(&*s.store, &format!("a{n}")).await;
        let at = usize::try_from(at).unwrap();
        append(&*s.store, &alone, events[..at.max(1)].to_vec()).await;
        append(&*s.store, &grandchild, events[at..at.max(1)].to_vec()).await;
        append(&*s.store, &grandchild, events[at.max(1)..].to_vec()).await;
        append(&*s.store, &alone, events[at.max(1)..].to_vec()).await;
        assert_eq!(
            told(&*s.store, &grandchild).await,
            told(&*s.store, &alone).await,
            "at {at}"
        );
        is_sound(&*s.store, &grandchild).await;
    }
}

async fn what_ended_after_the_fork_is_open_without_the_parent(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![s.events.user("a", "1"), s.events.user("b", "2")];
    s.append(events).await;
    let child = s.fork(2, "child").await;
    let end = s.events.end("end", "completed");
    s.append(vec![end.clone()]).await;
    delete(&*s.store, &s.session).await;
    let grandchild = fork(&*s.store, &child, 1, "grandchild").await;
    for session in [&child, &grandchild] {
        let runs = s.store.runs(session, 0, 9).await.unwrap();
        assert_eq!((runs.len(), runs[0].terminal), (1, None));
        let head = s.store.session(session).await.unwrap().head;
        let committed = append(&*s.store, session, vec![end.clone()]).await;
        assert_eq!(committed.events[0].event_seq, head + 1);
        is_sound(&*s.store, session).await;
    }
}

async fn a_deleted_child_leaves_its_parent(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, events) = forked(&s, 91).await;
    let sibling = s.fork(90, "sibling").await;
    let before = told(&*s.store, &s.session).await;
    let siblings = told(&*s.store, &sibling).await;
    delete(&*s.store, &child).await;
    s.store.scrub().await.unwrap();
    is_gone(&*s.store, &child).await;
    assert_eq!(told(&*s.store, &s.session).await, before);
    assert_eq!(told(&*s.store, &sibling).await, siblings);
    s.is_sound().await;
    // Its id and what it had appended are free.
    let again = s.fork(70, "child").await;
    let committed = append(&*s.store, &again, events[70..].to_vec()).await;
    assert!(committed.events.iter().all(|event| !event.present));
    assert_eq!(told(&*s.store, &again).await, before);
    is_sound(&*s.store, &again).await;
}

async fn a_deleted_middle_leaves_both_ends(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, events) = forked(&s, 92).await;
    let low = fork(&*s.store, &child, 60, "low").await;
    let high = fork(&*s.store, &child, 85, "high").await;
    append(&*s.store, &low, events[60..90].to_vec()).await;
    append(&*s.store, &high, events[85..120].to_vec()).await;
    let ends = [&s.session, &low, &high];
    let mut before = Vec::new();
    for end in ends {
        before.push(told(&*s.store, end).await);
    }
    delete(&*s.store, &child).await;
    s.store.scrub().await.unwrap();
    for (end, before) in ends.into_iter().zip(&before) {
        assert_eq!(&told(&*s.store, end).await, before, "{end}");
        is_sound(&*s.store, end).await;
        s.store.rebuild_index(end).await.unwrap();
        assert_eq!(&told(&*s.store, end).await, before, "{end} rebuilt");
    }
    let parent_of = async |id| s.store.session(id).await.unwrap().forked_from;
    assert_eq!(parent_of(&high).await, None);
}

async fn a_family_is_deleted_in_any_order(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(93, 90);
    delete(&*s.store, &s.session).await;
    for round in 0..8 {
        let mut choice = Random::new(930 + round);
        let mut family: Vec<(SessionId, Told)> = Vec::new();
        let first = create(&*s.store, &format!("f{round}-0")).await;
        append(&*s.store, &first, events[..40].to_vec()).await;
        let mut all = vec![(first, 40)];
        for n in 1..6 {
            let (parent, head) = all[choice.below(all.len())].clone();
            let at = choice.below(head + 1);
            let child = fork(&*s.store, &parent, at as u64, &format!("f{round}-{n}")).await;
            let to = (at + choice.below(40)).min(events.len());
            if at < to {
                append(&*s.store, &child, events[at..to].to_vec()).await;
            }
            all.push((child, to));
        }
        for (session, _) in all {
            let told = told(&*s.store, &session).await;
            family.push((session, told));
        }
        while !family.is_empty() {
            let (gone, _) = family.remove(choice.below(family.len()));
            delete(&*s.store, &gone).await;
            if choice.one_in(2) {
                s.store.scrub().await.unwrap();
            }
            for (session, before) in &family {
                assert_eq!(&told(&*s.store, session).await, before, "{session}");
                is_sound(&*s.store, session).await;
            }
        }
    }
    s.store.scrub().await.unwrap();
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
    let left = s.store.sessions(SessionFilter::All, None, 9).await.unwrap();
    assert!(left.is_empty());
}

async fn the_id_of_a_deleted_parent_is_nobodys_parent(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, events) = forked(&s, 94).await;
    let before = told(&*s.store, &child).await;
    delete(&*s.store, &s.session).await;
    create(&*s.store, "s1").await;
    let mut stranger = Events::new("s1").run("rx", "tx");
    s.append(vec![
        stranger.user(events[0].id.as_str(), "of the new life"),
    ])
    .await;
    let info = s.store.session(&child).await.unwrap();
    assert_eq!(info.forked_from, None);
    assert_eq!(told(&*s.store, &child).await, before);
    assert_eq!(s.rows().await.len(), 1);
    delete(&*s.store, &child).await;
    s.store.scrub().await.unwrap();
    assert_eq!(s.rows().await.len(), 1);
    s.is_sound().await;
}

async fn long_logs_are_deleted_from_both_ends(place: Place) {
    let s = Bench::open(&*place).await;
    let short = |turns: u64| Events::new("s1").run(&format!("r{turns}"), "t");
    // More than two slices on each side of the fork.
    let events = |from: u64, to: u64| -> Vec<CanonicalEvent> {
        let mut clock = short(from / 100);
        (from..to)
            .map(|n| clock.user(&format!("e{n}"), "text"))
            .collect()
    };
    s.append(events(0, 4_000)).await;
    let child = s.fork(2_050, "child").await;
    append(&*s.store, &child, events(5_000, 7_300)).await;
    let grandchild = fork(&*s.store, &child, 2_060, "grandchild").await;
    let before = rows(&*s.store, &grandchild).await;
    delete(&*s.store, &s.session).await;
    is_sound(&*s.store, &child).await;
    delete(&*s.store, &child).await;
    assert_eq!(rows(&*s.store, &grandchild).await, before);
    is_sound(&*s.store, &grandchild).await;
    let committed = append(&*s.store, &grandchild, events(3_000, 3_100)).await;
    assert_eq!(committed.high_water, 2_160);
    delete(&*s.store, &grandchild).await;
    s.store.scrub().await.unwrap();
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
}

async fn notes_and_views_go_with_the_session(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    let note = crate::cases::source::fact("n1", 1, "text");
    let batch = crate::cases::source::batch(vec![event.clone()], "notes", vec![note.clone()]);
    s.store.append(&s.session, batch).await.unwrap();
    let view = |session: &SessionId, key: &[u8]| ViewBatch {
        view: "v".into(),
        version: 1,
        session: session.clone(),
        from: 0,
        to: 1,
        entries: vec![(key.to_vec(), Some(b"value".to_vec()))],
    };
    s.store.put_view(view(&s.session, b"a")).await.unwrap();
    let other = create(&*s.store, "other").await;
    append(&*s.store, &other, vec![event]).await;
    s.store.put_view(view(&other, b"b")).await.unwrap();
    delete(&*s.store, &s.session).await;
    let value = async |key: &[u8]| s.store.view_value("v", 1, key).await.unwrap();
    assert_eq!(value(b"a").await, None);
    assert_eq!(value(b"b").await.as_deref(), Some(&b"value"[..]));
    create(&*s.store, "s1").await;
    let status = s.store.contribution_status(&s.session, "notes").await;
    assert_eq!(status.unwrap().head, 0);
    let mark = s.store.view_mark("v", 1, &s.session).await.unwrap();
    assert_eq!(mark, 0);
    let batch = crate::cases::source::batch(
        vec![s.events.user("b", "2")],
        "notes",
        vec![crate::cases::source::fact("n1", 1, "another text")],
    );
    let committed = s.store.append(&s.session, batch).await.unwrap();
    assert_eq!((committed.facts_added, committed.facts_head), (1, 1));
}

async fn erasures_are_counted_until_the_scrub(place: Place) {
    let s = Bench::open(&*place).await;
    for n in 1..=3 {
        let id = create(&*s.store, &format!("x{n}")).await;
        append(&*s.store, &id, random(95, 20)).await;
        delete(&*s.store, &id).await;
        assert_eq!(s.store.pending_erasures().await.unwrap(), n);
    }
    let scrub = s.store.scrub().await.unwrap();
    assert_eq!((scrub.completed, scrub.blobs), (3, 0));
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
}

async fn a_scrub_without_work_does_nothing(place: Place) {
    let s = Bench::open(&*place).await;
    s.append(random(96, 30)).await;
    let before = (s.info().await, told(&*s.store, &s.session).await);
    for _ in 0..2 {
        assert_eq!(s.store.scrub().await.unwrap(), Scrub::default());
    }
    assert_eq!((s.info().await, told(&*s.store, &s.session).await), before);
}

/// Hands a deletion over and stops waiting for it: its first step is done,
/// and nothing more.
async fn begin_to_delete(store: &dyn Store, session: &SessionId) {
    {
        let mut deletion = store.delete_session(session, None);
        // Its first poll hands it over; whether it is ready does not matter.
        let _ = poll_once(&mut deletion);
    }
    store.flush().await.unwrap();
}

async fn a_deletion_that_nobody_waits_for_is_completed(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, events) = forked(&s, 97).await;
    let before = told(&*s.store, &child).await;
    begin_to_delete(&*s.store, &s.session).await;
    is_gone(&*s.store, &s.session).await;
    assert_eq!(s.store.pending_erasures().await.unwrap(), 1);
    assert_eq!(told(&*s.store, &child).await, before);
    // Its id may be used before the old life is gone.
    create(&*s.store, "s1").await;
    s.append(events.clone()).await;
    let scrub = s.store.scrub().await.unwrap();
    assert_eq!(scrub.completed, 1);
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
    assert_eq!(told(&*s.store, &child).await, before);
    is_sound(&*s.store, &child).await;
    s.is_sound().await;
    begin_to_delete(&*s.store, &child).await;
    begin_to_delete(&*s.store, &s.session).await;
    s.store.scrub().await.unwrap();
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
}

async fn others_write_while_a_long_log_goes(place: Place) {
    let s = Bench::open(&*place).await;
    let mut clock = Events::new("s1");
    let long = (0..3_500).map(|n| clock.user(&format!("e{n}"), "text"));
    let long = long.collect();
    s.append(long).await;
    let other = create(&*s.store, "other").await;
    let mut deletion = s.store.delete_session(&s.session, None);
    let mut clock = Events::new("other");
    let mut written = 0;
    // One append between two slices of the deletion.
    loop {
        if let Poll::Ready(outcome) = poll_once(&mut deletion) {
            outcome.unwrap();
            break;
        }
        written += 1;
        let event = clock.user(&format!("e{written}"), "text");
        let committed = append(&*s.store, &other, vec![event]).await;
        assert_eq!(committed.high_water, written);
    }
    drop(deletion);
    assert!(written > 0, "an append had its turn");
    is_gone(&*s.store, &s.session).await;
    is_sound(&*s.store, &other).await;
    s.store.scrub().await.unwrap();
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
}

async fn two_handles_delete_at_once(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    for n in 0..10 {
        let id = create(&*s.store, &format!("x{n}")).await;
        append(&*s.store, &id, random(98, 30)).await;
        let (one, two) = tokio::join!(
            s.store.delete_session(&id, None),
            other.delete_session(&id, None)
        );
        let lost = match (one, two) {
            (Ok(()), Err(lost)) | (Err(lost), Ok(())) => lost,
            both => panic!("one of them deletes it: {both:?}"),
        };
        assert_eq!(lost.code(), "session_not_found");
    }
    let (one, two) = tokio::join!(s.store.scrub(), other.scrub());
    one.unwrap();
    two.unwrap();
    assert_eq!(other.pending_erasures().await.unwrap(), 0);
}

async fn another_handle_completes_a_deletion(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let (child, _) = forked(&s, 99).await;
    let before = told(&*s.store, &child).await;
    begin_to_delete(&*s.store, &s.session).await;
    is_gone(&*other, &s.session).await;
    assert_eq!(other.pending_erasures().await.unwrap(), 1);
    assert_eq!(other.scrub().await.unwrap().completed, 1);
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
    assert_eq!(told(&*s.store, &child).await, before);
    is_sound(&*s.store, &child).await;
}

async fn a_deletion_is_completed_after_reopening(place: Place) {
    let s = Bench::open(&*place).await;
    let (child, _) = forked(&s, 100).await;
    let before = told(&*s.store, &child).await;
    begin_to_delete(&*s.store, &s.session).await;
    let Bench { store, session, .. } = s;
    store.close().await.unwrap();
    drop(store);
    let store = place.reopen().await.unwrap();
    is_gone(&*store, &session).await;
    assert_eq!(store.pending_erasures().await.unwrap(), 1);
    assert_eq!(told(&*store, &child).await, before);
    assert_eq!(store.scrub().await.unwrap().completed, 1);
    assert_eq!(store.pending_erasures().await.unwrap(), 0);
    assert_eq!(told(&*store, &child).await, before);
    is_sound(&*store, &child).await;
}

async fn a_deleted_session_stays_deleted(place: Place) {
    let s = Bench::open(&*place).await;
    s.append(random(101, 40)).await;
    delete(&*s.store, &s.session).await;
    s.store.scrub().await.unwrap();
    let Bench { store, session, .. } = s;
    store.close().await.unwrap();
    drop(store);
    let store = place.reopen().await.unwrap();
    is_gone(&*store, &session).await;
    assert_eq!(store.pending_erasures().await.unwrap(), 0);
    store.check().await.unwrap();
}
