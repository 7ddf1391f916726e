//! Pages count items, and items stand in the order of their appends.

use crate::identity::fresh;
use crate::place::{append, block_on, create, marked, pages, says};
use folio::{CanonicalEvent, Entry, OnGap};
use folio_testkit::event::Events;
use folio_testkit::workload::Periodic;

/// A session of at least 120 items, in one batch.
type Made = (&'static str, fn() -> Vec<CanonicalEvent>);

const MADE: &[Made] = &[
    ("one event an item", || {
        let mut events = Events::new("s1");
        (0..130)
            .map(|n| events.user(&format!("e{n}"), "text"))
            .collect()
    }),
    ("empty texts", || {
        let mut events = Events::new("s1");
        (0..130)
            .map(|n| events.user(&format!("e{n}"), ""))
            .collect()
    }),
    ("twenty-five chunks an item", || {
        let mut events = Events::new("s1");
        let chunk = |n: u32| (n / 25, n % 25);
        (0..130 * 25)
            .map(|n| {
                let (message, part) = chunk(n);
                let id = format!("e{message}-{part}");
                events.text(&id, &format!("m{message}"), part < 24, "some words ")
            })
            .collect()
    }),
    ("events that are no items between them", || {
        Periodic::new("s1").batch(0, 13)
    }),
];

#[test]
fn a_page_of_fifty_has_fifty_items_whatever_they_are_made_of() {
    block_on(async {
        for (name, store, _folder) in fresh() {
            for (number, (what, make)) in MADE.iter().enumerate() {
                let id = create(&*store, &format!("s-{number}")).await;
                let events = make().into_iter().map(|event| of(&event, &id));
                append(&*store, &id, events.collect()).await;
                let pages = pages(&store, &id, 50, OnGap::Fail).await.unwrap();
                let sizes: Vec<_> = pages.iter().map(|page| page.entries.len()).collect();
                assert_eq!(sizes, [50, 50, 30], "{name}: {what}");
                let rows = pages.iter().flat_map(|page| &page.entries);
                assert!(
                    rows.into_iter()
                        .all(|entry| matches!(entry, Entry::Row { .. }))
                );
            }
        }
    });
}

/// The event in another session.
fn of(event: &CanonicalEvent, session: &folio::SessionId) -> CanonicalEvent {
    let event = folio::RuntimeEvent::from_json(&event.to_json(session)).unwrap();
    CanonicalEvent::new(&event).unwrap()
}

#[test]
fn a_clock_that_steps_back_or_stands_still_moves_nothing() {
    const HOUR: u64 = 3_600_000;
    block_on(async {
        for (name, store, _folder) in fresh() {
            let id = create(&*store, "s1").await;
            let mut events = Events::new("s1");
            let now = 1_700_000_000_000;
            let times = [
                now,
                now - HOUR,
                now - 1,
                now - 1,
                now - 1,
                now + HOUR,
                now - HOUR,
            ];
            for (n, ts) in times.iter().enumerate() {
                events.at(*ts);
                let event = events.user(&format!("e{n}"), &format!("message {n}"));
                let placed = append(&*store, &id, vec![event]).await.events[0];
                assert_eq!(placed.ordinal, n as u64 + 1);
            }
            let entries = marked(&store, &id).await;
            assert_eq!(entries.len(), times.len(), "{name}");
            for (n, entry) in entries.iter().enumerate() {
                assert!(says(entry, &format!("message {n}")), "{name}: {entry:?}");
            }
            // By ones, as a client that pages through ties.
            let single = pages(&store, &id, 1, OnGap::Fail).await.unwrap();
            let single: Vec<_> = single.iter().rev().flat_map(|page| &page.entries).collect();
            assert_eq!(single, entries.iter().collect::<Vec<_>>(), "{name}");
        }
    });
}
