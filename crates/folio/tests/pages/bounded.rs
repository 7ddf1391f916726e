//! A page costs what it shows: the same events and bytes in a short session and
//! in one of many times its length.

use crate::common::{append, block_on, session, stores};
use folio::{Direction, PagePosition, PageRequest, Store, TranscriptService};
use folio_store::MAX_BATCH_EVENTS;
use folio_testkit::decorator::Recording;
use folio_testkit::workload::Periodic;
use std::sync::Arc;

/// As many turns as one batch may hold.
const TURNS_AT_ONCE: usize = MAX_BATCH_EVENTS / Periodic::EVENTS_PER_TURN;

/// The sizes to compare, in events. Filling is what takes long, and most so in
/// a file: those go to a hundred thousand, which tells growth as well. What is
/// counted is asked of the port, so a million in memory stands for all; what the
/// command reads of a SQLite file of a million is tested with the command.
fn sizes(store: &str) -> &'static [u64] {
    match store {
        "memory" => &[1_000, 10_000, 100_000, 1_000_000],
        _ => &[1_000, 10_000, 100_000],
    }
}

#[test]
fn pages_read_as_much_of_a_long_session_as_of_a_short_one() {
    for opened in stores() {
        let mut seen: Vec<[(u64, u64, u64); 2]> = Vec::new();
        for events in sizes(opened.name) {
            // Whole turns nearest to the round number.
            let turns = events / Periodic::EVENTS_PER_TURN as u64;
            block_on(async {
                let name = format!("n{turns:08}");
                let id = session(&*opened.store, &name).await;
                let periodic = Periodic::new(&name);
                for from in (0..turns).step_by(TURNS_AT_ONCE) {
                    let events = periodic.batch(from, (TURNS_AT_ONCE as u64).min(turns - from));
                    append(&*opened.store, &id, &events, MAX_BATCH_EVENTS).await;
                }
                let recording = Arc::new(Recording::new(Arc::clone(&opened.store)));
                let service = TranscriptService::new(Arc::clone(&recording) as Arc<dyn Store>);
                let last = PageRequest::newest(id.clone());
                let middle = PageRequest {
                    position: PagePosition::AtOrdinal(turns / 2 * 14),
                    direction: Some(Direction::Older),
                    ..last.clone()
                };
                let mut costs = Vec::new();
                for (place, request) in [("last", last), ("middle", middle)] {
                    let page = service.read_page(&request).await.unwrap();
                    assert_eq!(page.entries.len(), 50);
                    let record = recording.take();
                    println!(
                        "{} {place} page at {} events: {} index rows, {} events, {} bytes",
                        opened.name,
                        turns * 14,
                        record.items,
                        record.events,
                        record.bytes
                    );
                    assert_eq!(record.calls_of("range"), 0, "no page reads a range");
                    costs.push((record.items, record.events, record.bytes));
                }
                seen.push([costs[0], costs[1]]);
            });
        }
        assert!(
            seen.windows(2).all(|pair| pair[0] == pair[1]),
            "{}: {seen:?}",
            opened.name
        );
    }
}
