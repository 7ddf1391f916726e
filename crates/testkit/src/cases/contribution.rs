//! Logs of sources that are not the runtime ledger.

use crate::check::{Bench, create};
use crate::conformance::{Case, StorePlace};
use folio_codec::{EMPTY_CHAIN, fact_digest, facts_chain_next};
use folio_core::{CanonicalEvent, Direction, EventId, Fact, FactOp, ForeignId, Json};
use folio_store::{
    AppendBatch, Committed, ContributionBatch, ContributionQuery, ErrorKind, NOTES, StoredFact,
};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("contribution":
    facts_commit_with_their_events,
    the_same_fact_is_present,
    another_content_is_a_conflict_and_nothing_is_kept,
    a_refused_event_keeps_no_fact,
    an_anchor_must_exist,
    facts_are_read_in_both_directions_by_anchor,
    a_watermark_hides_later_facts,
    the_chain_of_facts_equals_its_recomputation,
    sources_and_sessions_have_logs_of_their_own,
    a_log_without_facts_has_head_0,
    facts_leave_the_ledger_alone,
    facts_count_towards_the_limit,
);

type Place = Box<dyn StorePlace>;

fn fact(id: &str, anchor: u64, data: &str) -> Fact {
    Fact {
        id: ForeignId::new(id).unwrap(),
        op: FactOp::Put,
        anchor,
        ts: None,
        kind: "mark".into(),
        turn_id: None,
        visible: true,
        data: Some(Json::string(data)),
    }
}

fn batch(events: Vec<CanonicalEvent>, source: &str, facts: Vec<Fact>) -> AppendBatch {
    AppendBatch {
        contributions: Some(ContributionBatch::new(source, facts)),
        ..AppendBatch::native(events)
    }
}

async fn put(s: &Bench, facts: Vec<Fact>) -> Committed {
    let batch = batch(Vec::new(), NOTES, facts);
    s.store.append(&s.session, batch).await.unwrap()
}

async fn scan(s: &Bench, direction: Direction, through: u64, size: usize) -> Vec<StoredFact> {
    let mut query = ContributionQuery {
        through,
        direction,
        after: None,
        max_items: size,
    };
    let mut all: Vec<StoredFact> = Vec::new();
    loop {
        let page = s.store.contributions(&s.session, NOTES, query).await;
        let page = page.unwrap();
        assert!(page.len() <= size, "a bounded page");
        let Some(last) = page.last() else { return all };
        let after = Some((last.fact().unwrap().anchor, last.seq));
        let beyond = query.after.is_none_or(|before| match direction {
            Direction::Newer => after > Some(before),
            Direction::Older => after < Some(before),
        });
        assert!(beyond, "a page goes on behind the last fact");
        query.after = after;
        all.extend(page);
    }
}

fn ids(facts: &[StoredFact]) -> Vec<String> {
    let id = |fact: &StoredFact| fact.fact().unwrap().id.as_str().to_owned();
    facts.iter().map(id).collect()
}

async fn facts_commit_with_their_events(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![s.events.user("a", "1"), s.events.user("b", "2")];
    let facts = vec![fact("n1", 0, "first"), fact("n2", 2, "second")];
    let batch = batch(events, NOTES, facts.clone());
    let committed = s.store.append(&s.session, batch).await.unwrap();
    assert_eq!((committed.high_water, committed.events.len()), (2, 2));
    assert_eq!((committed.facts_added, committed.facts_head), (2, 2));
    let stored = scan(&s, Direction::Newer, u64::MAX, 10).await;
    let back: Vec<_> = stored.iter().map(|fact| fact.fact().unwrap()).collect();
    assert_eq!(back, facts);
    assert_eq!(stored[1].body, facts[1].canonical());
    let report = s.store.verify(&s.session).await.unwrap();
    assert_eq!((report.facts, report.findings.len()), (2, 0));
}

async fn the_same_fact_is_present(place: Place) {
    let s = Bench::open(&*place).await;
    let (a, b) = (fact("a", 0, "x"), fact("b", 0, "y"));
    let first = put(&s, vec![a.clone(), a.clone()]).await;
    assert_eq!((first.facts_added, first.facts_head), (1, 1));
    let again = put(&s, vec![a.clone()]).await;
    assert_eq!((again.facts_added, again.facts_head), (0, 1));
    let more = put(&s, vec![a, b]).await;
    assert_eq!((more.facts_added, more.facts_head), (1, 2));
}

async fn another_content_is_a_conflict_and_nothing_is_kept(place: Place) {
    let mut s = Bench::open(&*place).await;
    put(&s, vec![fact("a", 0, "x")]).await;
    let before = s
        .store
        .contribution_status(&s.session, NOTES)
        .await
        .unwrap();
    let event = s.events.user("e", "1");
    for facts in [
        vec![fact("new", 0, "y"), fact("a", 0, "other")],
        vec![fact("a", 1, "x"), fact("new", 0, "y")],
        vec![fact("new", 0, "y"), fact("new", 0, "z")],
    ] {
        let batch = batch(vec![event.clone()], NOTES, facts);
        let error = s.refused(batch).await;
        assert_eq!(error.code(), "fact_id_conflict");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let after = s.store.contribution_status(&s.session, NOTES).await;
        assert_eq!(after.unwrap(), before);
    }
    let id = [EventId::new("e").unwrap()];
    let known = s.store.lookup_ids(&s.session, &id).await.unwrap();
    assert_eq!(known, [None]);
}

async fn a_refused_event_keeps_no_fact(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let other = s.events.user("a", "2");
    let bad = batch(vec![other], NOTES, vec![fact("n", 0, "x")]);
    assert_eq!(s.refused(bad).await.code(), "event_id_conflict");
    let stale = AppendBatch {
        expected_head: Some(0),
        ..batch(Vec::new(), NOTES, vec![fact("n", 0, "x")])
    };
    assert_eq!(s.refused(stale).await.code(), "head_mismatch");
    assert_eq!(scan(&s, Direction::Newer, u64::MAX, 10).await, []);
}

async fn an_anchor_must_exist(place: Place) {
    let mut s = Bench::open(&*place).await;
    put(&s, vec![fact("zero", 0, "before all")]).await;
    let event = s.events.user("a", "1");
    for anchor in [2, u64::MAX >> 12] {
        let bad = batch(vec![event.clone()], NOTES, vec![fact("n", anchor, "x")]);
        let error = s.refused(bad).await;
        assert_eq!(error.code(), "anchor_unknown");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.ordinals(), [anchor]);
    }
    let good = batch(vec![event], NOTES, vec![fact("n", 1, "x")]);
    s.store.append(&s.session, good).await.unwrap();
    assert_eq!(ids(&scan(&s, Direction::Newer, 9, 9).await), ["zero", "n"]);
}

async fn noted(place: &Place) -> Bench {
    let mut s = Bench::open(&**place).await;
    let events = (0..5).map(|n| s.events.user(&format!("e{n}"), "text"));
    let events = events.collect();
    s.append(events).await;
    let anchors = [("a", 3), ("b", 0), ("c", 3), ("d", 5), ("e", 3), ("f", 1)];
    for (id, anchor) in anchors {
        put(&s, vec![fact(id, anchor, id)]).await;
    }
    s
}

async fn facts_are_read_in_both_directions_by_anchor(place: Place) {
    let s = noted(&place).await;
    let mut order = ["b", "f", "a", "c", "e", "d"];
    for size in 1..=7 {
        let newer = scan(&s, Direction::Newer, u64::MAX, size).await;
        assert_eq!(ids(&newer), order, "{size} at a time");
    }
    order.reverse();
    for size in 1..=7 {
        let older = scan(&s, Direction::Older, u64::MAX, size).await;
        assert_eq!(ids(&older), order, "{size} at a time");
    }
    assert_eq!(scan(&s, Direction::Newer, u64::MAX, 0).await, []);
}

async fn a_watermark_hides_later_facts(place: Place) {
    let s = noted(&place).await;
    // In the order of their sequence: a b c d e f.
    for (through, wanted) in [
        (0, vec![]),
        (1, vec!["a"]),
        (3, vec!["b", "a", "c"]),
        (5, vec!["b", "a", "c", "e", "d"]),
        (6, vec!["b", "f", "a", "c", "e", "d"]),
    ] {
        for size in [1, 2, 10] {
            let newer = scan(&s, Direction::Newer, through, size).await;
            assert_eq!(ids(&newer), wanted, "at {through}, {size} at a time");
            let mut older = ids(&scan(&s, Direction::Older, through, size).await);
            older.reverse();
            assert_eq!(older, wanted, "at {through}, {size} at a time");
        }
    }
}

async fn the_chain_of_facts_equals_its_recomputation(place: Place) {
    let s = noted(&place).await;
    let mut facts = scan(&s, Direction::Newer, u64::MAX, 100).await;
    facts.sort_by_key(|fact| fact.seq);
    let mut chain = EMPTY_CHAIN;
    for (fact, seq) in facts.iter().zip(1..) {
        assert_eq!(fact.seq, seq);
        chain = facts_chain_next(&chain, seq, &fact_digest(&fact.body));
        assert_eq!(fact.chain, chain);
    }
    let status = s
        .store
        .contribution_status(&s.session, NOTES)
        .await
        .unwrap();
    assert_eq!((status.head, status.chain), (6, chain));
}

async fn sources_and_sessions_have_logs_of_their_own(place: Place) {
    let s = Bench::open(&*place).await;
    let other = create(&*s.store, "s2").await;
    put(&s, vec![fact("a", 0, "x"), fact("b", 0, "x")]).await;
    let elsewhere = batch(Vec::new(), "marks", vec![fact("a", 0, "other")]);
    let committed = s.store.append(&s.session, elsewhere).await.unwrap();
    assert_eq!((committed.facts_added, committed.facts_head), (1, 1));
    let another = batch(Vec::new(), NOTES, vec![fact("a", 0, "third")]);
    let committed = s.store.append(&other, another).await.unwrap();
    assert_eq!(committed.facts_head, 1);
    assert_eq!(ids(&scan(&s, Direction::Newer, 9, 9).await), ["a", "b"]);
    for (session, source, head) in [
        (&s.session, NOTES, 2),
        (&s.session, "marks", 1),
        (&other, NOTES, 1),
        (&other, "marks", 0),
    ] {
        let status = s.store.contribution_status(session, source).await.unwrap();
        assert_eq!(status.head, head, "{source} of {session}");
    }
}

async fn a_log_without_facts_has_head_0(place: Place) {
    let s = Bench::open(&*place).await;
    let empty = put(&s, Vec::new()).await;
    assert_eq!((empty.facts_added, empty.facts_head), (0, 0));
    let status = s
        .store
        .contribution_status(&s.session, NOTES)
        .await
        .unwrap();
    assert_eq!((status.head, status.chain), (0, EMPTY_CHAIN));
    assert_eq!(scan(&s, Direction::Older, u64::MAX, 10).await, []);
}

async fn facts_leave_the_ledger_alone(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    let (before, rows) = (s.info().await, s.rows().await);
    put(&s, vec![fact("n", 1, "x")]).await;
    assert_eq!(s.info().await, before);
    assert_eq!(s.rows().await, rows);
    s.store.rebuild_index(&s.session).await.unwrap();
    assert_eq!(scan(&s, Direction::Newer, 9, 9).await.len(), 1);
}

async fn facts_count_towards_the_limit(place: Place) {
    let s = Bench::open(&*place).await;
    let facts = (0..=folio_store::MAX_BATCH_EVENTS)
        .map(|n| fact(&format!("n{n}"), 0, "x"))
        .collect();
    let error = s.refused(batch(Vec::new(), NOTES, facts)).await;
    assert_eq!(error.code(), "limit_exceeded");
}
