//! A page costs what it shows: the same events and bytes in a session of a
//! thousand events and in one of a million.

use crate::common::{append, block_on, session, stores};
use folio::{Direction, PagePosition, PageRequest, Store, TranscriptService};
use folio_testkit::decorator::Recording;
use folio_testkit::workload::Periodic;
use std::sync::Arc;

#[test]
fn pages_read_as_much_at_a_million_events_as_at_a_thousand() {
    // Whole turns nearest to the round numbers.
    let sizes = [1_000_u64, 10_000, 100_000, 1_000_000].map(|events| events / 14);
    for opened in stores() {
        let mut seen: Vec<[(u64, u64, u64); 2]> = Vec::new();
        for turns in sizes {
            block_on(async {
                let name = format!("n{turns:08}");
                let id = session(&*opened.store, &name).await;
                let periodic = Periodic::new(&name);
                for from in (0..turns).step_by(200) {
                    let events = periodic.batch(from, 200.min(turns - from));
                    append(&*opened.store, &id, &events, 4_000).await;
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
