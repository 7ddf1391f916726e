//! Reading events: ranges, given ordinals, ids, runs.

use crate::check::Bench;
use crate::conformance::{Case, StorePlace};
use folio_core::EventId;
use folio_store::{ErrorKind, RangeQuery, StoredEvent};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("read":
    a_range_is_bounded_by_count,
    a_range_is_bounded_by_bytes_and_always_progresses,
    a_range_ends_at_the_head,
    events_come_in_the_order_asked_for,
    a_missing_event_is_a_gap_that_names_it,
    ids_are_looked_up_in_the_order_asked_for,
    runs_are_paged_by_number,
);

type Place = Box<dyn StorePlace>;

fn range(from: u64, to: u64, max_count: usize, max_bytes: usize) -> RangeQuery {
    RangeQuery {
        from,
        to,
        max_count,
        max_bytes,
    }
}

fn ordinals(events: &[StoredEvent]) -> Vec<u64> {
    events.iter().map(|event| event.ordinal).collect()
}

async fn filled(place: &Place, count: usize) -> Bench {
    let mut s = Bench::open(&**place).await;
    let events = (1..=count).map(|n| {
        let text = "x".repeat(if n == 5 { 10_000 } else { 100 });
        s.events.user(&format!("e{n}"), &text)
    });
    let events = events.collect();
    s.append(events).await;
    s
}

async fn a_range_is_bounded_by_count(place: Place) {
    let s = filled(&place, 10).await;
    let read = async |query| ordinals(&s.store.range(&s.session, query).await.unwrap());
    assert_eq!(read(range(1, 10, 3, usize::MAX)).await, [1, 2, 3]);
    assert_eq!(read(range(4, 5, 100, usize::MAX)).await, [4, 5]);
    assert_eq!(read(range(10, 10, 1, usize::MAX)).await, [10]);
    assert_eq!(read(range(0, 2, 100, usize::MAX)).await, [1, 2]);
    assert_eq!(read(range(1, 10, 0, usize::MAX)).await, [0; 0]);
}

async fn a_range_is_bounded_by_bytes_and_always_progresses(place: Place) {
    let s = filled(&place, 10).await;
    for max_bytes in [0, 1, 150, 500, 1_000, 9_000, 20_000] {
        let mut next = 1;
        while next <= 10 {
            let query = range(next, 10, 100, max_bytes);
            let events = s.store.range(&s.session, query).await.unwrap();
            assert_eq!(events.first().map(|event| event.ordinal), Some(next));
            let bytes: usize = events.iter().map(|event| event.body.len()).sum();
            assert!(bytes <= max_bytes || events.len() == 1, "{bytes} bytes");
            next += events.len() as u64;
        }
    }
}

async fn a_range_ends_at_the_head(place: Place) {
    let s = filled(&place, 3).await;
    let read = async |query| ordinals(&s.store.range(&s.session, query).await.unwrap());
    assert_eq!(read(range(2, u64::MAX, 100, usize::MAX)).await, [2, 3]);
    assert_eq!(read(range(4, u64::MAX, 100, usize::MAX)).await, [0; 0]);
    assert_eq!(read(range(3, 2, 100, usize::MAX)).await, [0; 0]);
}

async fn events_come_in_the_order_asked_for(place: Place) {
    let s = filled(&place, 10).await;
    let asked = [7, 1, 10, 1, 2];
    let events = s.store.events(&s.session, &asked).await.unwrap();
    assert_eq!(ordinals(&events), asked);
    let ids: Vec<_> = events
        .iter()
        .map(|e| e.view().unwrap().id.to_owned())
        .collect();
    assert_eq!(ids, ["e7", "e1", "e10", "e1", "e2"]);
    assert_eq!(s.store.events(&s.session, &[]).await.unwrap(), []);
}

async fn a_missing_event_is_a_gap_that_names_it(place: Place) {
    let s = filled(&place, 3).await;
    let error = s.store.events(&s.session, &[1, 9, 2, 0]).await.unwrap_err();
    assert_eq!(error.code(), "projection_gap");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.ordinals(), [9, 0]);
}

async fn ids_are_looked_up_in_the_order_asked_for(place: Place) {
    let s = filled(&place, 4).await;
    let ids = ["e4", "nobody", "e1", "e4"].map(|id| EventId::new(id).unwrap());
    let known = s.store.lookup_ids(&s.session, &ids).await.unwrap();
    let known: Vec<_> = known.iter().map(|k| k.map(|k| k.ordinal)).collect();
    assert_eq!(known, [Some(4), None, Some(1), Some(4)]);
}

async fn runs_are_paged_by_number(place: Place) {
    let mut s = Bench::open(&*place).await;
    for n in 1..=7 {
        s.events.enter(&format!("r{n}"), "t1");
        let event = s.events.user(&format!("e{n}"), "text");
        s.append(vec![event]).await;
    }
    let mut runs = Vec::new();
    loop {
        let after = runs.last().copied().unwrap_or(0);
        let page = s.store.runs(&s.session, after, 3).await.unwrap();
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        for run in page {
            assert_eq!(run.spine.run_id.as_str(), format!("r{}", run.run_no));
            assert_eq!(run.opened, u64::from(run.run_no));
            runs.push(run.run_no);
        }
    }
    assert_eq!(runs, [1, 2, 3, 4, 5, 6, 7]);
}
