//! The index can be made anew at any time, and nobody can tell.

use crate::check::{Bench, Stop, pages, query, wait};
use crate::conformance::{Case, StorePlace};
use crate::workload::{Random, random};
use folio_core::{Direction, PROJECTION_VERSION};
use folio_store::{IndexStatus, ItemPage, Start};
use std::sync::Arc;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("index":
    the_index_commits_with_its_events,
    readers_never_find_the_index_behind,
    rebuild_equals_incremental,
    a_rebuilt_index_goes_on_like_the_old_one,
    rebuilding_an_empty_session_is_fine,
    rebuilding_changes_no_event_and_no_run,
    verify_finds_nothing_in_mixed_histories,
    two_runs_of_one_turn_agree_about_its_output,
);

type Place = Box<dyn StorePlace>;

/// Pages of several sizes, directions and watermarks.
async fn all_pages(s: &Bench) -> Vec<ItemPage> {
    let head = s.info().await.head;
    let mut all = Vec::new();
    for (through, size) in [(head, 1_000), (head, 13), (head / 2, 37), (head / 3, 5)] {
        for direction in [Direction::Older, Direction::Newer] {
            let pages = pages(
                &*s.store,
                &s.session,
                Some(through),
                direction,
                size,
                100_000,
            );
            all.extend(pages.await);
        }
    }
    all
}

/// Appends a random session in random batches.
async fn fill(s: &Bench, seed: u64, size: usize) {
    let events = random(seed, size);
    for batch in Random::new(seed).batches(&events, 60) {
        s.append(batch).await;
    }
}

async fn the_index_commits_with_its_events(place: Place) {
    let s = Bench::open(&*place).await;
    for batch in random(21, 100).chunks(9) {
        let committed = s.append(batch.to_vec()).await;
        let status = s.store.index_status(&s.session).await.unwrap();
        let head = committed.high_water;
        assert_eq!((status.head, status.index_head), (head, head));
        assert_eq!(status.version, PROJECTION_VERSION);
        assert_eq!(status.items, s.info().await.items);
        assert_eq!(status.items, s.rows().await.len() as u64);
    }
}

async fn readers_never_find_the_index_behind(place: Place) {
    let mut s = Bench::open(&*place).await;
    let stop = Stop::default();
    let (store, session, told) = (Arc::clone(&s.store), s.session.clone(), stop.told());
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        while !told() {
            let status = wait(store.index_status(&session)).unwrap();
            assert_eq!(status.index_head, status.head);
            let query = query(Direction::Older, Start::Edge);
            let page = wait(store.read_items(&session, query)).unwrap();
            assert_eq!(
                page.items.len() as u64,
                page.through,
                "an item for each event"
            );
            assert!(page.through >= seen, "the head only grows");
            seen = page.through;
        }
    });
    for n in 0..150 {
        let event = s.events.user(&format!("e{n}"), "text");
        s.append(vec![event]).await;
    }
    drop(stop);
    reader.join().expect("the reader ended well");
}

async fn rebuild_equals_incremental(place: Place) {
    let s = Bench::open(&*place).await;
    // More than one slice of any length that a rebuild may have.
    fill(&s, 22, 2_600).await;
    let (pages, info) = (all_pages(&s).await, s.info().await);
    for _ in 0..2 {
        let status = s.store.rebuild_index(&s.session).await.unwrap();
        let wanted = IndexStatus {
            version: PROJECTION_VERSION,
            index_head: info.head,
            head: info.head,
            items: info.items,
        };
        assert_eq!(status, wanted);
        assert_eq!(s.store.index_status(&s.session).await.unwrap(), wanted);
        assert_eq!(s.info().await, info);
        let again = all_pages(&s).await;
        assert_eq!(again.len(), pages.len());
        for (a, b) in pages.iter().zip(&again) {
            assert_eq!(a, b);
        }
        s.is_sound().await;
    }
}

async fn a_rebuilt_index_goes_on_like_the_old_one(place: Place) {
    let s = Bench::open(&*place).await;
    let other = crate::check::create(&*s.store, "s2").await;
    let events = random(23, 900);
    for (n, batch) in Random::new(23).batches(&events, 50).into_iter().enumerate() {
        s.append(batch.clone()).await;
        crate::check::append(&*s.store, &other, batch).await;
        if n % 5 == 0 {
            s.store.rebuild_index(&s.session).await.unwrap();
        }
    }
    let rows = crate::check::rows(&*s.store, &other).await;
    assert_eq!(s.rows().await, rows);
    s.is_sound().await;
}

async fn rebuilding_an_empty_session_is_fine(place: Place) {
    let mut s = Bench::open(&*place).await;
    let status = s.store.rebuild_index(&s.session).await.unwrap();
    assert_eq!((status.index_head, status.items), (0, 0));
    let event = s.events.user("a", "1");
    s.append(vec![event]).await;
    assert_eq!(s.rows().await.len(), 1);
}

async fn rebuilding_changes_no_event_and_no_run(place: Place) {
    let s = Bench::open(&*place).await;
    fill(&s, 24, 300).await;
    let (events, runs) = (s.stored().await, s.store.runs(&s.session, 0, 100).await);
    s.store.rebuild_index(&s.session).await.unwrap();
    assert_eq!(s.stored().await, events);
    let after = s.store.runs(&s.session, 0, 100).await;
    assert_eq!(after.unwrap(), runs.unwrap());
}

async fn verify_finds_nothing_in_mixed_histories(place: Place) {
    let store = place.open().await.unwrap();
    for seed in 100..112 {
        let session = crate::check::create(&*store, &format!("s{seed}")).await;
        let events = random(seed, 250);
        for batch in Random::new(seed).batches(&events, 40) {
            crate::check::append(&*store, &session, batch).await;
        }
        let report = store.verify(&session).await.unwrap();
        assert!(
            report.findings.is_empty(),
            "seed {seed}: {:?}",
            report.findings
        );
        assert_eq!(report.events, events.len() as u64);
    }
    store.check().await.unwrap();
}

async fn two_runs_of_one_turn_agree_about_its_output(place: Place) {
    // Two runs of a turn overlap. The second ends first, without output so
    // far; then the first one speaks and ends. A third run of that turn fails:
    // its turn had output, however the events were batched.
    let mut s = Bench::open(&*place).await;
    let mut make = |run: &str, id: &str| {
        s.events.enter(run, "t1");
        match id.as_bytes()[0] {
            b'z' => s.events.end(id, "failed"),
            b'a' => s.events.text(id, id, false, "spoken"),
            _ => s.events.raw(id, "\"role\":\"system\",\"author\":\"host\""),
        }
    };
    let events = [
        make("r1", "x1"),
        make("r2", "x2"),
        make("r2", "z2"),
        make("r1", "a1"),
        make("r1", "z1"),
        make("r3", "x3"),
        make("r3", "z3"),
    ];
    let wanted = crate::reference::project(&events);
    assert!(wanted[3].2.contains("\"partialOutputRetained\":true"));
    for size in 1..=events.len() {
        let session = crate::check::create(&*s.store, &format!("by-{size}")).await;
        for batch in events.chunks(size) {
            crate::check::append(&*s.store, &session, batch.to_vec()).await;
        }
        let rows = crate::check::rows(&*s.store, &session).await;
        assert_eq!(rows, wanted, "in batches of {size}");
        let report = s.store.verify(&session).await.unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        s.store.rebuild_index(&session).await.unwrap();
        let rows = crate::check::rows(&*s.store, &session).await;
        assert_eq!(rows, wanted, "rebuilt");
    }
}
