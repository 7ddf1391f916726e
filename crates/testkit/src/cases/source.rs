//! Contribution logs of several sources beside one session.

use crate::check::{Bench, is_sound};
use crate::conformance::{Case, StorePlace};
use folio_codec::{EMPTY_CHAIN, fact_digest, facts_chain_next};
use folio_core::{CanonicalEvent, Direction, Fact, FactOp, ForeignId, Json};
use folio_store::{
    AppendBatch, ContributionBatch, ContributionQuery, ErrorKind, MAX_SOURCES, StoredFact,
};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("source":
    every_source_has_a_sequence_and_a_chain_of_its_own,
    one_id_of_two_sources_is_two_facts,
    a_session_has_a_limit_of_sources,
    a_repeat_opens_no_log,
    names_are_plain,
    a_source_that_was_never_used_is_empty,
    many_facts_of_one_anchor_are_read_in_order,
    a_watermark_holds_for_each_source,
    a_source_is_there_after_reopening: Durable,
);

type Place = Box<dyn StorePlace>;

/// A fact that says one text.
pub(super) fn fact(id: &str, anchor: u64, data: &str) -> Fact {
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

/// A batch of events, and facts for one source.
pub(super) fn batch(events: Vec<CanonicalEvent>, source: &str, facts: Vec<Fact>) -> AppendBatch {
    AppendBatch {
        contributions: Some(ContributionBatch::new(source, facts)),
        ..AppendBatch::native(events)
    }
}

async fn put(s: &Bench, source: &str, facts: Vec<Fact>) -> u64 {
    let batch = batch(Vec::new(), source, facts);
    let committed = s.store.append(&s.session, batch).await.unwrap();
    committed.facts_head
}

/// Every fact of a source by its anchor.
pub(super) async fn facts(s: &Bench, source: &str, through: u64) -> Vec<StoredFact> {
    let query = ContributionQuery {
        through,
        direction: Direction::Newer,
        after: None,
        max_items: 1_000,
    };
    s.store
        .contributions(&s.session, source, query)
        .await
        .unwrap()
}

fn says(facts: &[StoredFact]) -> Vec<(u64, String)> {
    let says = |stored: &StoredFact| {
        let fact = stored.fact().unwrap();
        (stored.seq, fact.id.as_str().to_owned())
    };
    facts.iter().map(says).collect()
}

async fn every_source_has_a_sequence_and_a_chain_of_its_own(place: Place) {
    let s = Bench::open(&*place).await;
    let sources = ["notes", "telemetry", "a.b_c-9"];
    let mut chains = [EMPTY_CHAIN; 3];
    for round in 1..=5_u64 {
        for (n, source) in sources.iter().enumerate() {
            let fact = fact(&format!("f{round}"), 0, &format!("{source} {round}"));
            let digest = fact_digest(&fact.canonical());
            chains[n] = facts_chain_next(&chains[n], round, &digest);
            assert_eq!(put(&s, source, vec![fact]).await, round);
        }
    }
    for (source, chain) in sources.iter().zip(chains) {
        let status = s.store.contribution_status(&s.session, source).await;
        let status = status.unwrap();
        assert_eq!((status.head, status.chain), (5, chain));
        let all = facts(&s, source, u64::MAX).await;
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|fact| fact.body.contains(source)));
        assert_eq!(all[4].chain, chain);
    }
    let report = is_sound(&*s.store, &s.session).await;
    assert_eq!(report.facts, 15);
}

async fn one_id_of_two_sources_is_two_facts(place: Place) {
    let s = Bench::open(&*place).await;
    put(&s, "one", vec![fact("n", 0, "of one")]).await;
    put(&s, "two", vec![fact("n", 0, "of two")]).await;
    let again = batch(Vec::new(), "one", vec![fact("n", 0, "of one")]);
    let again = s.store.append(&s.session, again).await.unwrap();
    assert_eq!((again.facts_added, again.facts_head), (0, 1));
    let other = batch(Vec::new(), "two", vec![fact("n", 0, "of one")]);
    assert_eq!(s.refused(other).await.code(), "fact_id_conflict");
}

async fn a_session_has_a_limit_of_sources(place: Place) {
    let s = Bench::open(&*place).await;
    for n in 0..MAX_SOURCES {
        put(&s, &format!("s{n}"), vec![fact("n", 0, "text")]).await;
    }
    let event = s.events.clone().user("a", "1");
    let more = batch(vec![event], "another", vec![fact("n", 0, "text")]);
    let error = s.refused(more).await;
    assert_eq!(error.code(), "limit_exceeded");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    // Those that exist go on; another session has its own.
    assert_eq!(put(&s, "s3", vec![fact("m", 0, "text")]).await, 2);
    let other = crate::check::create(&*s.store, "other").await;
    let more = batch(Vec::new(), "another", vec![fact("n", 0, "text")]);
    s.store.append(&other, more).await.unwrap();
}

async fn a_repeat_opens_no_log(place: Place) {
    let s = Bench::open(&*place).await;
    let nothing = batch(Vec::new(), "empty", Vec::new());
    let committed = s.store.append(&s.session, nothing).await.unwrap();
    assert_eq!((committed.facts_added, committed.facts_head), (0, 0));
    for n in 0..MAX_SOURCES {
        put(&s, &format!("s{n}"), vec![fact("n", 0, "text")]).await;
    }
    let nothing = batch(Vec::new(), "another", Vec::new());
    s.store.append(&s.session, nothing).await.unwrap();
}

async fn names_are_plain(place: Place) {
    let s = Bench::open(&*place).await;
    let long = "x".repeat(65);
    for name in ["", "Notes", "a b", "a::b", "é", "a/b", "a\0", &long] {
        let refused = batch(Vec::new(), name, vec![fact("n", 0, "text")]);
        let error = s.refused(refused).await;
        assert_eq!(error.code(), "source_invalid", "{name:?}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    for name in ["x", "0", "-", &long[1..]] {
        assert_eq!(put(&s, name, vec![fact("n", 0, "text")]).await, 1);
    }
}

async fn a_source_that_was_never_used_is_empty(place: Place) {
    let s = Bench::open(&*place).await;
    put(&s, "one", vec![fact("n", 0, "text")]).await;
    assert_eq!(facts(&s, "on", u64::MAX).await, []);
    assert_eq!(facts(&s, "one1", u64::MAX).await, []);
    let status = s.store.contribution_status(&s.session, "on").await.unwrap();
    assert_eq!((status.head, status.chain), (0, EMPTY_CHAIN));
}

async fn many_facts_of_one_anchor_are_read_in_order(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![s.events.user("a", "1"), s.events.user("b", "2")];
    s.append(events).await;
    let all: Vec<_> = (0..60)
        .map(|n| fact(&format!("f{n}"), n % 3, "text"))
        .collect();
    put(&s, "one", all).await;
    let mut wanted: Vec<_> = (0..60).map(|n| (n % 3, n + 1)).collect();
    wanted.sort_unstable();
    for direction in [Direction::Newer, Direction::Older] {
        for size in [1, 7, 100] {
            let mut query = ContributionQuery {
                through: u64::MAX,
                direction,
                after: None,
                max_items: size,
            };
            let mut found = Vec::new();
            loop {
                let page = s.store.contributions(&s.session, "one", query).await;
                let page = page.unwrap();
                let places = page
                    .iter()
                    .map(|stored| (stored.fact().unwrap().anchor, stored.seq));
                found.extend(places);
                assert!(found.len() <= 60, "an entry comes once");
                if page.len() < size {
                    break;
                }
                query.after = found.last().copied();
            }
            if direction == Direction::Older {
                found.reverse();
            }
            assert_eq!(found, wanted, "{direction:?} by {size}");
        }
    }
}

async fn a_watermark_holds_for_each_source(place: Place) {
    let s = Bench::open(&*place).await;
    for n in 1..=4 {
        put(&s, "one", vec![fact(&format!("f{n}"), 0, "text")]).await;
    }
    put(&s, "two", vec![fact("g", 0, "text")]).await;
    let one = facts(&s, "one", 2).await;
    assert_eq!(says(&one), [(1, "f1".to_owned()), (2, "f2".to_owned())]);
    assert_eq!(facts(&s, "two", 1).await.len(), 1);
    assert_eq!(facts(&s, "two", 0).await, []);
}

async fn a_source_is_there_after_reopening(place: Place) {
    let s = Bench::open(&*place).await;
    for source in ["one", "two"] {
        put(&s, source, vec![fact("n", 0, source)]).await;
    }
    let before = facts(&s, "two", u64::MAX).await;
    let Bench {
        store,
        session,
        events,
    } = s;
    store.close().await.unwrap();
    drop(store);
    let s = Bench {
        store: place.reopen().await.unwrap(),
        session,
        events,
    };
    assert_eq!(facts(&s, "two", u64::MAX).await, before);
    assert_eq!(put(&s, "two", vec![fact("m", 0, "text")]).await, 2);
    assert_eq!(is_sound(&*s.store, &s.session).await.facts, 3);
}
