//! The store's rows are those of the oracle.

use crate::check::{Bench, Row, append, create, pages, rows_of_pages};
use crate::conformance::{Case, StorePlace};
use crate::reference::{project, project_at};
use crate::workload::{Periodic, Random, random};
use folio_core::Direction;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("projection":
    rows_equal_the_reference_at_random_watermarks,
    rows_equal_the_reference_at_every_watermark,
    rows_equal_the_reference_while_the_session_grows,
    batches_have_no_part_in_the_rows,
    joined_pages_equal_the_whole,
    long_regular_sessions_equal_the_reference,
);

type Place = Box<dyn StorePlace>;

fn same(rows: &[Row], wanted: &[Row], of: &str) {
    for (row, wanted) in rows.iter().zip(wanted) {
        assert_eq!(row, wanted, "{of}");
    }
    assert_eq!(rows.len(), wanted.len(), "{of}: the number of rows");
}

async fn rows_equal_the_reference_at_random_watermarks(place: Place) {
    let store = place.open().await.unwrap();
    for seed in 0..24 {
        let mut choice = Random::new(seed);
        let events = random(seed, 60 + choice.below(250));
        let session = create(&*store, &format!("s{seed}")).await;
        for batch in choice.batches(&events, 30) {
            append(&*store, &session, batch).await;
        }
        let head = events.len() as u64;
        for _ in 0..6 {
            let through = choice.below(events.len() + 1) as u64;
            let rows = crate::check::rows_at(&*store, &session, through).await;
            let of = format!("seed {seed} at {through} of {head}");
            same(&rows, &project_at(&events, through), &of);
        }
        let rows = crate::check::rows(&*store, &session).await;
        same(&rows, &project(&events), &format!("seed {seed}"));
    }
}

async fn rows_equal_the_reference_at_every_watermark(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(1_000, 150);
    s.append(events.clone()).await;
    for through in 0..=events.len() as u64 {
        let rows = s.rows_at(through).await;
        same(
            &rows,
            &project_at(&events, through),
            &format!("at {through}"),
        );
    }
}

async fn rows_equal_the_reference_while_the_session_grows(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(1_001, 160);
    for (event, head) in events.iter().zip(1_u64..) {
        s.append(vec![event.clone()]).await;
        let rows = s.rows().await;
        same(&rows, &project_at(&events, head), &format!("at {head}"));
    }
}

async fn batches_have_no_part_in_the_rows(place: Place) {
    let store = place.open().await.unwrap();
    for seed in 40..52 {
        let events = random(seed, 200);
        let wanted = project(&events);
        for most in [1, 7, 1_000] {
            let session = create(&*store, &format!("s{seed}-{most}")).await;
            for batch in Random::new(seed).batches(&events, most) {
                append(&*store, &session, batch).await;
            }
            let rows = crate::check::rows(&*store, &session).await;
            same(&rows, &wanted, &format!("seed {seed}, batches of {most}"));
        }
    }
}

async fn joined_pages_equal_the_whole(place: Place) {
    let s = Bench::open(&*place).await;
    let events = random(1_002, 220);
    for batch in events.chunks(31) {
        s.append(batch.to_vec()).await;
    }
    for through in [0, 1, 77, 150, events.len() as u64] {
        let wanted = project_at(&events, through);
        for (size, bytes) in [
            (1, 0),
            (2, usize::MAX),
            (5, 2_000),
            (9, 50_000),
            (500, 10_000),
        ] {
            for direction in [Direction::Older, Direction::Newer] {
                let pages = pages(&*s.store, &s.session, Some(through), direction, size, bytes);
                let mut rows = rows_of_pages(&pages.await);
                if direction == Direction::Older {
                    rows.reverse();
                }
                same(&rows, &wanted, &format!("at {through}, {size} a page"));
            }
        }
    }
}

async fn long_regular_sessions_equal_the_reference(place: Place) {
    let s = Bench::open(&*place).await;
    let events = Periodic::new("s1").batch(0, 30);
    for batch in events.chunks(Periodic::EVENTS_PER_TURN) {
        s.append(batch.to_vec()).await;
    }
    same(&s.rows().await, &project(&events), "the session");
    assert_eq!(s.info().await.items, 30 * Periodic::ITEMS_PER_TURN as u64);
    s.is_sound().await;
}
