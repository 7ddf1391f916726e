//! Forks: a session that shares another one's prefix and goes on by itself.

use crate::check::{
    Bench, append, code, create, fork, is_sound, keys, query, rows, session_id, stored, told,
    told_at, written_for,
};
use crate::conformance::{Case, Damage, StorePlace};
use crate::event::Events;
use crate::workload::{Random, random};
use folio_core::{
    Authority, CanonicalEvent, Direction, EventId, Fact, FactOp, ForeignId, Json, SessionId,
};
use folio_store::{
    AppendBatch, AuthorityChange, ContributionBatch, ContributionQuery, ErrorKind, MAX_SPANS,
    NOTES, NewSession, RangeQuery, SessionFilter, Start,
};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("fork":
    a_child_is_its_parent_at_every_ordinal,
    a_child_shows_every_watermark_as_its_parent_does,
    a_child_goes_on_like_a_session_of_its_own,
    a_child_may_go_another_way_than_its_parent,
    forks_of_forks_are_like_sessions_of_their_own,
    rebuilding_changes_neither_parent_nor_child,
    an_open_run_goes_on_in_both,
    an_open_stream_goes_on_in_both,
    a_call_of_the_prefix_is_answered_in_both,
    a_request_of_the_prefix_is_decided_in_both,
    a_revision_in_the_child_leaves_the_parent_alone,
    a_revision_in_the_parent_leaves_the_child_alone,
    a_run_that_ended_in_the_prefix_is_sealed,
    a_fork_at_nothing_is_an_empty_session,
    a_fork_at_the_head_has_everything,
    a_fork_beyond_the_head_is_refused,
    what_cannot_be_read_cannot_be_forked,
    an_id_that_exists_is_refused,
    a_child_of_a_followed_session_is_a_programs_own,
    a_child_knows_where_it_comes_from,
    a_repeat_of_the_prefix_is_present,
    another_content_under_an_id_of_the_prefix_conflicts,
    the_same_new_id_is_two_facts,
    the_parents_later_events_are_not_the_childs,
    notes_are_not_inherited,
    leases_are_not_inherited,
    ranges_go_across_the_boundary,
    runs_go_across_the_boundary,
    pages_go_across_the_boundary,
    a_fork_has_a_limit_of_depth,
    a_refused_fork_leaves_no_mark,
    both_handles_write_parent_and_child: MultiProcess,
    a_child_is_there_after_reopening: Durable,
    a_lost_index_row_is_not_forked_away: Damage,
    a_damaged_event_is_damaged_in_the_child: Damage,
);

type Place = Box<dyn StorePlace>;

/// A session of the first events, made event by event.
async fn fresh(s: &Bench, id: &str, events: &[CanonicalEvent]) -> SessionId {
    let session = create(&*s.store, id).await;
    if !events.is_empty() {
        append(&*s.store, &session, events.to_vec()).await;
    }
    session
}

/// Appends the same batch to two sessions, which must answer alike.
async fn append_both(s: &Bench, a: &SessionId, b: &SessionId, events: &[CanonicalEvent]) {
    let one = append(&*s.store, a, events.to_vec()).await;
    let other = append(&*s.store, b, events.to_vec()).await;
    assert_eq!(one, other, "{a} and {b} answer alike");
}

/// Asserts that two sessions say the same at their heads, and that both are
/// sound.
async fn are_alike(s: &Bench, a: &SessionId, b: &SessionId) {
    assert_eq!(
        told(&*s.store, a).await,
        told(&*s.store, b).await,
        "{a} and {b}"
    );
    is_sound(&*s.store, a).await;
    is_sound(&*s.store, b).await;
}

async fn a_child_is_its_parent_at_every_ordinal(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(61, 90);
    s.append(events.clone()).await;
    let whole = told(&*s.store, &s.session).await;
    let growing = create(&*s.store, "growing").await;
    for at in 1..=events.len() {
        append(&*s.store, &growing, vec![events[at - 1].clone()]).await;
        let child = s.fork(at as u64, &format!("c{at}")).await;
        let said = told(&*s.store, &child).await;
        assert_eq!(said, told(&*s.store, &growing).await, "at {at}");
        assert_eq!(said.events, whole.events[..at]);
    }
    for at in (1..=events.len()).step_by(7) {
        is_sound(&*s.store, &session_id(&format!("c{at}"))).await;
    }
    assert_eq!(told(&*s.store, &s.session).await, whole);
    s.is_sound().await;
}

async fn a_child_shows_every_watermark_as_its_parent_does(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(62, 140);
    s.append(events.clone()).await;
    let child = s.fork(100, "child").await;
    append(&*s.store, &child, events[100..120].to_vec()).await;
    for through in (0..=120).step_by(3) {
        let parents = rows_at(&s, &s.session, through).await;
        assert_eq!(
            rows_at(&s, &child, through).await,
            parents,
            "through {through}"
        );
        assert_eq!(
            parents,
            crate::reference::project_at(&events, through),
            "through {through}"
        );
    }
}

async fn rows_at(s: &Bench, session: &SessionId, through: u64) -> Vec<crate::check::Row> {
    let items = told_at(&*s.store, session, through).await;
    items.into_iter().map(|told| told.row).collect()
}

async fn a_child_goes_on_like_a_session_of_its_own(place: Place) {
    let s = Bench::open(&*place).await;
    for seed in 0..6 {
        let events = random(630 + seed, 120);
        let mut choice = Random::new(seed);
        let parent = fresh(&s, &format!("p{seed}"), &events).await;
        let before = told(&*s.store, &parent).await;
        for n in 0..3 {
            let at = choice.below(events.len());
            let child = fork(&*s.store, &parent, at as u64, &format!("c{seed}-{n}")).await;
            let alone = fresh(&s, &format!("f{seed}-{n}"), &events[..at]).await;
            for batch in choice.batches(&events[at..], 9) {
                append_both(&s, &child, &alone, &batch).await;
            }
            are_alike(&s, &child, &alone).await;
        }
        assert_eq!(told(&*s.store, &parent).await, before, "seed {seed}");
    }
}

async fn a_child_may_go_another_way_than_its_parent(place: Place) {
    let s = Bench::open(&*place).await;
    for seed in 0..6 {
        let events = random(640 + seed, 150);
        let mut choice = Random::new(seed);
        let at = 20 + choice.below(80);
        // The parent goes on before, while and after the child does.
        let parent = fresh(&s, &format!("p{seed}"), &events[..at + 10]).await;
        let child = fork(&*s.store, &parent, at as u64, &format!("c{seed}")).await;
        let alone = fresh(&s, &format!("f{seed}"), &events[..at]).await;
        let mut rest = events[at + 10..].chunks(5);
        for batch in choice.batches(&without_some(&events[at..], seed), 4) {
            append_both(&s, &child, &alone, &batch).await;
            if let Some(batch) = rest.next() {
                append(&*s.store, &parent, batch.to_vec()).await;
            }
            assert_eq!(
                rows(&*s.store, &child).await,
                rows(&*s.store, &alone).await,
                "seed {seed}"
            );
        }
        are_alike(&s, &child, &alone).await;
        is_sound(&*s.store, &parent).await;
    }
}

/// Every event but for some: another way to go on.
fn without_some(events: &[CanonicalEvent], seed: u64) -> Vec<CanonicalEvent> {
    let mut choice = Random::new(seed);
    let mut events = events.to_vec();
    events.retain(|_| !choice.one_in(3));
    events
}

async fn forks_of_forks_are_like_sessions_of_their_own(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(65, 240);
    let mut choice = Random::new(65);
    // Each session with what was appended to it: its events, in order.
    let mut all: Vec<(SessionId, Vec<CanonicalEvent>)> = Vec::new();
    let first = fresh(&s, "f0", &events[..60]).await;
    all.push((first, events[..60].to_vec()));
    for n in 1..10 {
        // Mostly of the latest one, so that they get deep.
        let of = if choice.one_in(3) {
            choice.below(all.len())
        } else {
            all.len() - 1
        };
        let (parent, history) = all[of].clone();
        let at = choice.below(history.len() + 1);
        let child = fork(&*s.store, &parent, at as u64, &format!("f{n}")).await;
        all.push((child, history[..at].to_vec()));
        for (session, history) in &mut all {
            let more = next_events(&events, history, &mut choice);
            for batch in choice.batches(&more, 5) {
                append(&*s.store, session, batch).await;
            }
            history.extend(more);
        }
    }
    for (n, (session, history)) in all.iter().enumerate() {
        let alone = fresh(&s, &format!("alone{n}"), history).await;
        are_alike(&s, session, &alone).await;
    }
    for (n, (session, _)) in all.iter().enumerate() {
        let alone = session_id(&format!("alone{n}"));
        let positions = told(&*s.store, session).await.items;
        s.store.rebuild_index(session).await.unwrap();
        are_alike(&s, session, &alone).await;
        for told in positions.iter().step_by(5) {
            let start = Start::Behind(told.item.position);
            let page = s
                .store
                .read_items(session, query(Direction::Newer, start))
                .await;
            let next = page.unwrap();
            let numbers: Vec<_> = next.items.iter().map(|item| item.item.number).collect();
            let wanted: Vec<_> = (told.item.number + 1..=positions.len() as u64).collect();
            assert_eq!(numbers, wanted, "an old position still leads on");
        }
    }
    for (n, (session, _)) in all.iter().enumerate() {
        are_alike(&s, session, &session_id(&format!("alone{n}"))).await;
    }
}

/// Some events of a random session that a history of it lacks, in order, from
/// behind its last one on.
fn next_events(
    events: &[CanonicalEvent],
    history: &[CanonicalEvent],
    choice: &mut Random,
) -> Vec<CanonicalEvent> {
    let last = history.last().map(|last| &last.id);
    let from = events.iter().position(|event| Some(&event.id) == last);
    let from = from.map_or(0, |at| at + 1);
    let to = (from + choice.below(18)).min(events.len());
    let some = events[from..to].iter().filter(|_| !choice.one_in(4));
    some.cloned().collect()
}

async fn rebuilding_changes_neither_parent_nor_child(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(66, 160);
    s.append(events[..100].to_vec()).await;
    let child = s.fork(77, "child").await;
    append(&*s.store, &child, without_some(&events[77..], 66)).await;
    s.append(events[100..].to_vec()).await;
    let before = (
        told(&*s.store, &s.session).await,
        told(&*s.store, &child).await,
    );
    for rebuilt in [&s.session, &child, &s.session] {
        let status = s.store.rebuild_index(rebuilt).await.unwrap();
        let info = s.store.session(rebuilt).await.unwrap();
        assert_eq!(
            (status.index_head, status.items),
            (info.head, info.items),
            "{rebuilt}"
        );
        let after = (
            told(&*s.store, &s.session).await,
            told(&*s.store, &child).await,
        );
        assert_eq!(after, before, "after {rebuilt} was rebuilt");
        s.is_sound().await;
        is_sound(&*s.store, &child).await;
    }
    // What it goes on with finds what was rebuilt.
    let mut more = Events::new("s1").run("r-new", "t-new");
    let more = [more.user("new", "1"), more.text("new-2", "m1", false, "2")];
    append(&*s.store, &child, more.to_vec()).await;
    s.append(more.to_vec()).await;
    s.is_sound().await;
    is_sound(&*s.store, &child).await;
}

async fn an_open_run_goes_on_in_both(place: Place) {
    let mut s = Bench::open(&*place).await;
    let opened = s.events.opened("open", "prompt", "");
    let asked = s.events.user("a", "question");
    s.append(vec![opened, asked]).await;
    let child = s.fork(2, "child").await;
    let failed = s.events.end("end-p", "failed");
    let parents = s.append(vec![failed]).await;
    assert_eq!(parents.events[0].event_seq, 3);
    let mut mine = s.events.clone();
    let more = vec![mine.user("b", "more"), mine.end("end-c", "completed")];
    let childs = append(&*s.store, &child, more).await;
    let seqs: Vec<_> = childs.events.iter().map(|e| e.event_seq).collect();
    assert_eq!(seqs, [3, 4]);
    let runs = async |session| s.store.runs(session, 0, 9).await.unwrap();
    assert_eq!(runs(&s.session).await[0].terminal, Some(3));
    assert_eq!(runs(&child).await[0].terminal, Some(4));
    assert_eq!(runs(&child).await.len(), 1);
    let late = mine.user("late", "too late");
    let refused = s.store.append(&child, batch_for(&child, vec![late])).await;
    assert_eq!(code(refused), "run_sealed");
    let status = |rows: Vec<crate::check::Row>| rows.last().map(|row| row.2.clone());
    let of = async |session| status(rows(&*s.store, session).await).unwrap();
    assert!(of(&s.session).await.contains("\"failed\""));
    assert!(of(&child).await.contains("\"completed\""));
    s.is_sound().await;
    is_sound(&*s.store, &child).await;
}

fn batch_for(session: &SessionId, events: Vec<CanonicalEvent>) -> AppendBatch {
    written_for(session, AppendBatch::native(events))
}

async fn an_open_stream_goes_on_in_both(place: Place) {
    let mut s = Bench::open(&*place).await;
    let chunks = (0..5).map(|n| {
        s.events
            .text(&format!("k{n}"), "m1", true, &format!("<{n}>"))
    });
    let chunks = chunks.collect();
    s.append(chunks).await;
    let child = s.fork(3, "child").await;
    let own = async |session| rows(&*s.store, session).await[0].clone();
    assert!(own(&child).await.2.contains("<0><1><2>"));
    assert!(!own(&child).await.2.contains("<3>"));
    let mut mine = s.events.clone();
    let more = vec![
        mine.text("c1", "m1", true, "<child>"),
        mine.text("c2", "m1", true, "<again>"),
    ];
    for event in more {
        append(&*s.store, &child, vec![event]).await;
    }
    let (key, revision, json) = own(&child).await;
    assert!(json.contains("<0><1><2><child><again>"), "{json}");
    assert_eq!(revision, 5);
    let (parents_key, _, json) = own(&s.session).await;
    assert!(json.contains("<0><1><2><3><4>"), "{json}");
    assert_eq!(key, parents_key);
    let settled = mine.text("final", "m1", false, "settled in the child");
    append(&*s.store, &child, vec![settled]).await;
    let more = s.events.text("p1", "m1", true, "<parent>");
    s.append(vec![more]).await;
    assert!(own(&child).await.2.contains("settled in the child"));
    assert!(own(&s.session).await.2.contains("<4><parent>"));
    // Older states are still told as they were.
    let at = told_at(&*s.store, &child, 4).await;
    assert!(at[0].row.2.contains("<0><1><2><child>\""));
    let at = told_at(&*s.store, &child, 2).await;
    assert!(at[0].row.2.contains("<0><1>\""));
    s.is_sound().await;
    is_sound(&*s.store, &child).await;
}

async fn a_call_of_the_prefix_is_answered_in_both(place: Place) {
    let mut s = Bench::open(&*place).await;
    let call = s.events.call("c", "m1", "tool", "Read");
    s.append(vec![call]).await;
    let child = s.fork(1, "child").await;
    let mut mine = s.events.clone();
    let answer = s.events.result("p", "tool", "Read", "the parent's");
    s.append(vec![answer]).await;
    let answer = mine.result("k", "tool", "Read", "the child's");
    append(&*s.store, &child, vec![answer]).await;
    for (session, text) in [(&s.session, "the parent's"), (&child, "the child's")] {
        let rows = rows(&*s.store, session).await;
        assert_eq!(keys(&rows), ["call:t1:tool", "result:t1:tool"]);
        assert!(rows[1].2.contains(text));
        is_sound(&*s.store, session).await;
    }
}

async fn a_request_of_the_prefix_is_decided_in_both(place: Place) {
    let mut s = Bench::open(&*place).await;
    let call = s.events.call("c", "m1", "tool", "Read");
    let request = s.events.raw("q", "\"role\":\"system\",\"author\":\"host\",\"actions\":{\"permissionRequest\":{\"requestId\":\"p1\",\"toolUseId\":\"tool\",\"toolName\":\"Read\",\"hint\":\"a hint\"}}");
    s.append(vec![call, request]).await;
    let child = s.fork(2, "child").await;
    let decide = |events: &mut Events, id: &str, word: &str| {
        events.raw(id, &format!("\"role\":\"user\",\"author\":\"user\",\"actions\":{{\"permissionDecision\":{{\"requestId\":\"p1\",\"decision\":\"{word}\"}}}}"))
    };
    let mut mine = s.events.clone();
    let allowed = decide(&mut s.events, "allowed", "allow");
    s.append(vec![allowed]).await;
    let denied = decide(&mut mine, "denied", "deny");
    append(&*s.store, &child, vec![denied]).await;
    for (session, word) in [(&s.session, "\"allow\""), (&child, "\"deny\"")] {
        let rows = rows(&*s.store, session).await;
        let (key, _, json) = rows.last().unwrap();
        assert_eq!(key, "permission:t1:p1");
        for text in [word, "a hint", "Read"] {
            assert!(json.contains(text), "{json}");
        }
        is_sound(&*s.store, session).await;
    }
}

async fn revised_in(first_in_child: bool, place: &Place) {
    let mut s = Bench::open(&**place).await;
    let said = s.events.text("a", "m1", false, "as it was");
    let other = s.events.user("b", "between");
    s.append(vec![said, other]).await;
    let child = s.fork(2, "child").await;
    let revision = s.events.raw("a2", "\"role\":\"model\",\"author\":\"agent\",\"refs\":{\"providerEventId\":\"m1\",\"revises\":\"a\"},\"content\":{\"kind\":\"text\",\"text\":\"as it is\"}");
    let (revised, kept) = if first_in_child {
        (&child, &s.session)
    } else {
        (&s.session, &child)
    };
    let before = told(&*s.store, kept).await;
    append(&*s.store, revised, vec![revision]).await;
    assert_eq!(told(&*s.store, kept).await, before);
    let rows = rows(&*s.store, revised).await;
    assert_eq!(rows.len(), 2, "it takes the place of what it revises");
    assert!(rows[0].2.contains("as it is"));
    assert_eq!(rows[0].1, 3);
    let at = told_at(&*s.store, revised, 2).await;
    assert!(
        at[0].row.2.contains("as it was"),
        "before the revision it was not"
    );
    is_sound(&*s.store, revised).await;
    is_sound(&*s.store, kept).await;
}

async fn a_revision_in_the_child_leaves_the_parent_alone(place: Place) {
    revised_in(true, &place).await;
}

async fn a_revision_in_the_parent_leaves_the_child_alone(place: Place) {
    revised_in(false, &place).await;
}

async fn a_run_that_ended_in_the_prefix_is_sealed(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![s.events.user("a", "1"), s.events.end("end", "completed")];
    s.append(events).await;
    let child = s.fork(2, "child").await;
    let open = s.fork(1, "open").await;
    let late = s.events.user("late", "too late");
    let batch = batch_for(&child, vec![late.clone()]);
    let error = s.store.append(&child, batch).await.unwrap_err();
    assert_eq!(error.code(), "run_sealed");
    assert_eq!(error.ordinals(), [2]);
    // Where the fork lies before its end it is open.
    assert_eq!(append(&*s.store, &open, vec![late]).await.high_water, 2);
    // Its ids cannot be taken by another run.
    let mut stray = Events::new("s1").run("r1", "t9");
    let batch = batch_for(&child, vec![stray.user("stray", "1")]);
    assert_eq!(code(s.store.append(&child, batch).await), "run_conflict");
}

async fn a_fork_at_nothing_is_an_empty_session(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(67, 40);
    s.append(events.clone()).await;
    let child = s.fork(0, "child").await;
    let info = s.store.session(&child).await.unwrap();
    assert_eq!((info.head, info.items, info.inherited), (0, 0, 0));
    assert_eq!(info.chain, folio_codec::EMPTY_CHAIN);
    assert!(rows(&*s.store, &child).await.is_empty());
    assert!(s.store.runs(&child, 0, 9).await.unwrap().is_empty());
    let ids = [events[0].id.clone()];
    assert_eq!(s.store.lookup_ids(&child, &ids).await.unwrap(), [None]);
    append(&*s.store, &child, events.clone()).await;
    are_alike(&s, &child, &s.session).await;
    let empty = create(&*s.store, "empty").await;
    let of_nothing = fork(&*s.store, &empty, 0, "of-nothing").await;
    append(&*s.store, &of_nothing, events).await;
    are_alike(&s, &of_nothing, &s.session).await;
}

async fn a_fork_at_the_head_has_everything(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(68, 80);
    s.append(events[..50].to_vec()).await;
    let child = s.fork(50, "child").await;
    let grandchild = fork(&*s.store, &child, 50, "grandchild").await;
    for session in [&child, &grandchild] {
        are_alike(&s, session, &s.session).await;
    }
    for session in [&s.session, &child, &grandchild] {
        append(&*s.store, session, events[50..].to_vec()).await;
    }
    for session in [&child, &grandchild] {
        are_alike(&s, session, &s.session).await;
    }
}

async fn a_fork_beyond_the_head_is_refused(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    for at in [2, u64::MAX] {
        let refused = s.store.fork_session(&s.session, at, session_id("c")).await;
        let error = refused.unwrap_err();
        assert_eq!(error.code(), "watermark_unknown");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.ordinals(), [1], "it names the head");
    }
}

async fn what_cannot_be_read_cannot_be_forked(place: Place) {
    let s = Bench::open(&*place).await;
    let store = &*s.store;
    let forked = async |parent: &SessionId| {
        let refused = store.fork_session(parent, 0, session_id("child")).await;
        code(refused)
    };
    assert_eq!(forked(&session_id("nobody")).await, "session_not_found");
    let new = NewSession {
        authority: Authority::Preparing,
        ..NewSession::native(session_id("p"))
    };
    let preparing = store.create_session(new).await.unwrap();
    assert_eq!(forked(&preparing.id).await, "session_preparing");
    let change = AuthorityChange {
        expected_rev: preparing.authority_rev,
        to: Authority::Rejected,
        import_ref: None,
    };
    store.set_authority(&preparing.id, change).await.unwrap();
    assert_eq!(forked(&preparing.id).await, "session_rejected");
}

async fn an_id_that_exists_is_refused(place: Place) {
    let s = Bench::open(&*place).await;
    let other = create(&*s.store, "other").await;
    for id in [&s.session, &other] {
        let refused = s.store.fork_session(&s.session, 0, id.clone()).await;
        let error = refused.unwrap_err();
        assert_eq!(error.code(), "session_exists");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
}

async fn a_child_of_a_followed_session_is_a_programs_own(place: Place) {
    let s = Bench::open(&*place).await;
    let new = NewSession {
        followed: true,
        import_ref: Some("{\"at\":1}".into()),
        ..NewSession::native(session_id("followed"))
    };
    let followed = s.store.create_session(new).await.unwrap().id;
    let mut events = Events::new("followed");
    let batch = AppendBatch {
        writer: folio_store::Writer::Importer,
        ..AppendBatch::native(vec![events.user("a", "1")])
    };
    s.store.append(&followed, batch).await.unwrap();
    let child = fork(&*s.store, &followed, 1, "child").await;
    let info = s.store.session(&child).await.unwrap();
    assert!(!info.followed);
    assert_eq!(info.import_ref, None);
    assert_eq!(info.authority, Authority::RuntimeEvents);
    let next = events.user("b", "2");
    let batch = AppendBatch::native(vec![next.clone()]);
    let refused = s.store.append(&followed, batch).await;
    assert_eq!(code(refused), "session_followed");
    assert_eq!(append(&*s.store, &child, vec![next]).await.high_water, 2);
}

async fn a_child_knows_where_it_comes_from(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![s.events.user("a", "1"), s.events.user("b", "2")];
    s.append(events).await;
    let parent = s.info().await;
    assert_eq!((parent.inherited, parent.forked_from.clone()), (0, None));
    let answered = s
        .store
        .fork_session(&s.session, 1, session_id("child"))
        .await;
    let info = answered.unwrap();
    assert_eq!(info, s.store.session(&session_id("child")).await.unwrap());
    assert_eq!(info.inherited, 1);
    assert_eq!(info.forked_from, Some(s.session.clone()));
    assert_eq!((info.head, info.items, info.generation), (1, 1, 0));
    assert_eq!(Some(info.chain), s.stored().await[0].chain);
    assert_ne!(info.incarnation, parent.incarnation);
    append(&*s.store, &info.id, vec![s.events.user("c", "3")]).await;
    let after = s.store.session(&info.id).await.unwrap();
    assert_eq!((after.head, after.inherited), (2, 1));
    let listed = s.store.sessions(SessionFilter::Readable, None, 9).await;
    let listed: Vec<_> = listed.unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(listed, [info.id, s.session.clone()]);
    assert_eq!(s.info().await, parent, "the parent does not change");
}

async fn a_repeat_of_the_prefix_is_present(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(69, 30);
    let first = s.append(events.clone()).await;
    let child = s.fork(20, "child").await;
    let again = append(&*s.store, &child, events[..20].to_vec()).await;
    assert_eq!(again.high_water, 20);
    for (one, other) in again.events.iter().zip(&first.events) {
        assert!(one.present);
        assert_eq!(
            (one.ordinal, one.event_seq),
            (other.ordinal, other.event_seq)
        );
    }
    // Old ones and new ones in one batch.
    let mixed = append(&*s.store, &child, events[15..25].to_vec()).await;
    let present: Vec<_> = mixed.events.iter().map(|e| e.present).collect();
    assert_eq!(present, [[true; 5], [false; 5]].concat());
    let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
    let known = s.store.lookup_ids(&child, &ids).await.unwrap();
    let parents = s.store.lookup_ids(&s.session, &ids).await.unwrap();
    assert_eq!(known[..25], parents[..25]);
    assert!(known[25..].iter().all(Option::is_none));
}

async fn another_content_under_an_id_of_the_prefix_conflicts(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let child = s.fork(1, "child").await;
    let before = told(&*s.store, &child).await;
    let batch = vec![s.events.user("b", "new"), s.events.user("a", "another")];
    let refused = s.store.append(&child, batch_for(&child, batch)).await;
    assert_eq!(code(refused), "event_id_conflict");
    assert_eq!(told(&*s.store, &child).await, before, "nothing is kept");
}

async fn the_same_new_id_is_two_facts(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let (child, sibling) = (s.fork(1, "child").await, s.fork(1, "sibling").await);
    let sessions = [&s.session, &child, &sibling];
    for session in sessions {
        let text = format!("of {session}");
        let event = s.events.clone().user("b", &text);
        let committed = append(&*s.store, session, vec![event.clone()]).await;
        assert!(!committed.events[0].present);
        let again = append(&*s.store, session, vec![event]).await;
        assert!(again.events[0].present);
    }
    for session in sessions {
        let rows = rows(&*s.store, session).await;
        assert_eq!(keys(&rows), ["user::a", "user::b"]);
        assert!(rows[1].2.contains(&format!("of {session}")));
        is_sound(&*s.store, session).await;
    }
}

async fn the_parents_later_events_are_not_the_childs(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(70, 120);
    s.append(events[..60].to_vec()).await;
    let child = s.fork(40, "child").await;
    let before = told(&*s.store, &child).await;
    let at = told_at(&*s.store, &child, 25).await;
    for batch in events[60..].chunks(11) {
        s.append(batch.to_vec()).await;
        assert_eq!(told(&*s.store, &child).await, before);
    }
    assert_eq!(told_at(&*s.store, &child, 25).await, at);
    let ids: Vec<_> = events[40..].iter().map(|event| event.id.clone()).collect();
    let known = s.store.lookup_ids(&child, &ids).await.unwrap();
    assert!(known.iter().all(Option::is_none));
    let asked = s.store.events(&child, &[41]).await.unwrap_err();
    assert_eq!(asked.code(), "projection_gap");
}

async fn notes_are_not_inherited(place: Place) {
    let mut s = Bench::open(&*place).await;
    let note = |text: &str| Fact {
        id: ForeignId::new("n1").unwrap(),
        op: FactOp::Put,
        anchor: 1,
        ts: None,
        kind: "mark".into(),
        turn_id: None,
        visible: true,
        data: Some(Json::string(text)),
    };
    let batch = |events, text: &str| AppendBatch {
        contributions: Some(ContributionBatch::new(NOTES, vec![note(text)])),
        ..AppendBatch::native(events)
    };
    let event = s.events.user("a", "1");
    let parents = batch(vec![event], "the parent's");
    s.store.append(&s.session, parents).await.unwrap();
    let child = s.fork(1, "child").await;
    let head = async |session| {
        let status = s.store.contribution_status(session, NOTES).await;
        status.unwrap().head
    };
    assert_eq!((head(&s.session).await, head(&child).await), (1, 0));
    let all = ContributionQuery {
        through: u64::MAX,
        direction: Direction::Newer,
        after: None,
        max_items: 9,
    };
    assert_eq!(s.store.contributions(&child, NOTES, all).await.unwrap(), []);
    // The same id is another note, at an anchor of the prefix.
    let own = batch(Vec::new(), "the child's");
    s.store.append(&child, own).await.unwrap();
    for (session, text) in [(&s.session, "the parent's"), (&child, "the child's")] {
        let facts = s.store.contributions(session, NOTES, all).await.unwrap();
        assert_eq!(facts.len(), 1);
        assert!(facts[0].body.contains(text));
        assert_eq!(is_sound(&*s.store, session).await.facts, 1);
    }
}

async fn leases_are_not_inherited(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let lease = s.store.acquire_lease(&s.session, "me").await.unwrap();
    let child = s.fork(1, "child").await;
    assert_eq!(s.store.lease(&child).await.unwrap(), None);
    let event = s.events.user("b", "2");
    assert_eq!(
        append(&*s.store, &child, vec![event.clone()])
            .await
            .high_water,
        2
    );
    let other = s.events.user("c", "3");
    let under = batch_for(&child, vec![other]).under(lease);
    assert_eq!(code(s.store.append(&child, under).await), "lease_lost");
    assert_eq!(s.refused_code(vec![event]).await, "session_leased");
}

async fn ranges_go_across_the_boundary(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(71, 60);
    s.append(events[..40].to_vec()).await;
    let child = s.fork(20, "child").await;
    append(&*s.store, &child, events[20..30].to_vec()).await;
    let deep = fork(&*s.store, &child, 25, "deep").await;
    append(&*s.store, &deep, events[25..40].to_vec()).await;
    let all = s.stored().await;
    for (session, head) in [(&child, 30), (&deep, 40)] {
        let own = stored(&*s.store, session).await;
        assert_eq!(own.len() as u64, head);
        for (event, parents) in own.iter().zip(&all) {
            assert_eq!(
                (event.ordinal, event.event_seq, event.chain, &event.body),
                (
                    parents.ordinal,
                    parents.event_seq,
                    parents.chain,
                    &parents.body
                )
            );
        }
        let sizes: Vec<usize> = own.iter().map(|event| event.body.len()).collect();
        for from in [1, 18, 19, 20, 21, 24, 25, 26, head, head + 1] {
            for max_count in [0, 1, 2, 5, 100] {
                for max_bytes in [0, 1, 700, 2_000, usize::MAX] {
                    for to in [20, 21, 25, 26, u64::MAX] {
                        let query = RangeQuery {
                            from,
                            to,
                            max_count,
                            max_bytes,
                        };
                        let found = s.store.range(session, query).await.unwrap();
                        let ordinals: Vec<_> = found.iter().map(|e| e.ordinal).collect();
                        assert_eq!(ordinals, fitting(&sizes, query), "{session} {query:?}");
                    }
                }
            }
        }
        let asked: Vec<u64> = (1..=head).rev().collect();
        let found = s.store.events(session, &asked).await.unwrap();
        let ordinals: Vec<_> = found.iter().map(|event| event.ordinal).collect();
        assert_eq!(ordinals, asked);
        assert!(found.iter().rev().eq(&own));
    }
}

/// The ordinals of a range by the sizes of all bodies.
fn fitting(sizes: &[usize], query: RangeQuery) -> Vec<u64> {
    let to = query.to.min(sizes.len() as u64);
    let mut bytes = 0;
    let mut ordinals = Vec::new();
    for ordinal in query.from..=to {
        bytes += sizes[usize::try_from(ordinal - 1).unwrap()];
        let full = ordinals.len() == query.max_count;
        if full || bytes > query.max_bytes && !ordinals.is_empty() {
            break;
        }
        ordinals.push(ordinal);
    }
    ordinals
}

async fn runs_go_across_the_boundary(place: Place) {
    let s = Bench::open(&*place).await;
    // Runs that nest, so that several are open wherever it is forked.
    let mut events = Vec::new();
    let mut clock = Events::new("s1");
    for n in 0..24 {
        clock.enter(&format!("r{n}"), &format!("t{}", n / 2));
        events.push(clock.user(&format!("e{n}"), "text"));
        if n % 3 == 2 {
            clock.enter(&format!("r{}", n - 1), &format!("t{}", (n - 1) / 2));
            events.push(clock.end(&format!("end{n}"), "completed"));
        }
    }
    s.append(events.clone()).await;
    let child = s.fork(9, "child").await;
    append(&*s.store, &child, events[9..20].to_vec()).await;
    let deep = fork(&*s.store, &child, 14, "deep").await;
    append(&*s.store, &deep, events[14..].to_vec()).await;
    let short = fresh(&s, "short", &events[..20]).await;
    for (session, like) in [(&child, &short), (&deep, &s.session)] {
        let all = s.store.runs(like, 0, 100).await.unwrap();
        for after in 0..=all.len() + 1 {
            for limit in [0, 1, 2, 3, 7, 100] {
                let wanted: Vec<_> = all.iter().skip(after).take(limit).cloned().collect();
                let after = u32::try_from(after).unwrap();
                let found = s.store.runs(session, after, limit).await.unwrap();
                assert_eq!(found, wanted, "{session} after {after}, {limit}");
            }
        }
        are_alike(&s, session, like).await;
    }
}

async fn pages_go_across_the_boundary(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(72, 120);
    s.append(events[..80].to_vec()).await;
    let child = s.fork(50, "child").await;
    append(&*s.store, &child, events[50..90].to_vec()).await;
    let deep = fork(&*s.store, &child, 70, "deep").await;
    append(&*s.store, &deep, events[70..].to_vec()).await;
    let alone = fresh(&s, "alone", &events).await;
    let items = told(&*s.store, &alone).await.items;
    let mut starts = vec![Start::Edge];
    for told in items.iter().step_by(4) {
        let position = told.item.position;
        starts.push(Start::Behind(position));
        starts.push(Start::At(position));
        starts.push(Start::AtOrdinal(position.ordinal + 1));
        starts.push(Start::Key(told.item.key.clone()));
    }
    for start in starts {
        for direction in [Direction::Newer, Direction::Older] {
            for max_items in [1, 6] {
                let query = folio_store::ItemQuery {
                    max_items,
                    ..query(direction, start.clone())
                };
                let one = s.store.read_items(&deep, query.clone()).await.unwrap();
                let other = s.store.read_items(&alone, query).await.unwrap();
                let at = format!("{start:?}, {direction:?}, {max_items}");
                assert_eq!((one.more, one.before), (other.more, other.before), "{at}");
                let rows = crate::check::rows_of;
                assert_eq!(rows(&one), rows(&other), "{at}");
            }
        }
    }
    let gone = Start::Key("user::nobody".into());
    let missing = s
        .store
        .read_items(&deep, query(Direction::Newer, gone))
        .await;
    assert_eq!(code(missing), "item_not_found");
}

async fn a_fork_has_a_limit_of_depth(place: Place) {
    let s = Bench::open(&*place).await;
    let mut events = Events::new("s1");
    let mut session = s.session.clone();
    for depth in 1..=MAX_SPANS {
        // Each run ends at once: where none is open a fork replays nothing.
        events.enter(&format!("r{depth}"), &format!("t{depth}"));
        let event = events.end(&format!("e{depth}"), "completed");
        append(&*s.store, &session, vec![event]).await;
        session = fork(&*s.store, &session, depth as u64, &format!("f{depth}")).await;
    }
    events.enter("last", "last");
    let event = events.user("last", "text");
    let head = append(&*s.store, &session, vec![event]).await.high_water;
    let refused = s
        .store
        .fork_session(&session, head, session_id("deeper"))
        .await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), "fork_too_deep");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    // Nearer to the beginning it works, and the deepest one is whole.
    fork(&*s.store, &session, head - 1, "not-deeper").await;
    is_sound(&*s.store, &session).await;
    let ids = [EventId::new("e1").unwrap(), EventId::new("last").unwrap()];
    let known = s.store.lookup_ids(&session, &ids).await.unwrap();
    let known: Vec<_> = known.iter().flatten().map(|known| known.ordinal).collect();
    assert_eq!(known, [1, head]);
}

async fn a_refused_fork_leaves_no_mark(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let before = s.info().await;
    let child = session_id("child");
    let refused = s.store.fork_session(&s.session, 9, child.clone()).await;
    assert_eq!(code(refused), "watermark_unknown");
    assert_eq!(code(s.store.session(&child).await), "session_not_found");
    assert_eq!(s.info().await, before);
    fork(&*s.store, &s.session, 1, "child").await;
}

async fn both_handles_write_parent_and_child(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let events = random(73, 160);
    s.append(events[..80].to_vec()).await;
    let child = fork(&*other, &s.session, 60, "child").await;
    let own = without_some(&events[60..], 73);
    for (n, batch) in own.chunks(6).enumerate() {
        let store = if n % 2 == 0 { &s.store } else { &other };
        append(&**store, &child, batch.to_vec()).await;
        if let Some(batch) = events[80..].chunks(6).nth(n) {
            append(&*other, &s.session, batch.to_vec()).await;
        }
        assert_eq!(
            told(&*s.store, &child).await,
            told(&*other, &child).await,
            "both see the same"
        );
    }
    let history = [&events[..60], &own].concat();
    let alone = fresh(&s, "alone", &history).await;
    are_alike(&s, &child, &alone).await;
    s.is_sound().await;
}

async fn a_child_is_there_after_reopening(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(74, 90);
    s.append(events[..60].to_vec()).await;
    let child = s.fork(33, "child").await;
    append(&*s.store, &child, events[33..50].to_vec()).await;
    let before = (
        s.store.session(&child).await.unwrap(),
        told(&*s.store, &child).await,
    );
    let Bench { store, session, .. } = s;
    store.close().await.unwrap();
    drop(store);
    let store = place.reopen().await.unwrap();
    let after = (
        store.session(&child).await.unwrap(),
        told(&*store, &child).await,
    );
    assert_eq!(after, before);
    append(&*store, &child, events[50..].to_vec()).await;
    is_sound(&*store, &child).await;
    is_sound(&*store, &session).await;
}

/// A session of 9 messages, one row of which was damaged.
async fn damaged(place: &Place, damage: impl Fn(&SessionId) -> Damage<'_>) -> Bench {
    let mut s = Bench::open(&**place).await;
    let events = (1..=9).map(|n| s.events.user(&format!("e{n}"), "text"));
    let events = events.collect();
    s.append(events).await;
    let Bench {
        store,
        session,
        events,
    } = s;
    store.close().await.unwrap();
    drop(store);
    place.damage(damage(&session)).await.unwrap();
    Bench {
        store: place.reopen().await.unwrap(),
        session,
        events,
    }
}

async fn a_lost_index_row_is_not_forked_away(place: Place) {
    let s = damaged(&place, |id| Damage::LostItem(id, 4)).await;
    for at in 1..=9 {
        let child = session_id(&format!("c{at}"));
        let forked = s.store.fork_session(&s.session, at, child.clone()).await;
        // Either it is noticed now, or whoever reads the child notices it.
        if let Err(error) = forked {
            assert_eq!(error.code(), "index_damaged", "at {at}");
            continue;
        }
        let page = query(Direction::Newer, Start::Edge);
        match s.store.read_items(&child, page).await {
            Ok(page) => assert_eq!((page.items.len() as u64, at < 4), (at, true)),
            Err(error) => assert_eq!(error.code(), "index_damaged", "at {at}"),
        }
    }
    s.store.rebuild_index(&s.session).await.unwrap();
    let child = s.fork(4, "rebuilt").await;
    assert_eq!(is_sound(&*s.store, &child).await.items, 4);
}

async fn a_damaged_event_is_damaged_in_the_child(place: Place) {
    let mut s = damaged(&place, |id| Damage::Event(id, 4)).await;
    // The run is open from the first event on: what was remembered at an
    // ordinal is read from there, and a fork in front of the damage is fine.
    let child = s.fork(3, "child").await;
    is_sound(&*s.store, &child).await;
    let refused = s.store.fork_session(&s.session, 6, session_id("six")).await;
    let error = refused.unwrap_err();
    assert_eq!(
        (error.code(), error.ordinals()),
        ("projection_gap", &[4][..])
    );
    let next = s.events.user("next", "text");
    append(&*s.store, &child, vec![next]).await;
    is_sound(&*s.store, &child).await;
}
