//! The group `page/`: a page of 50 items at ten thousand and at a million
//! events, in one store, against a raw keyset read of 50 rows.
//!
//! A page is read in three forms: *encoded* is the page as JSON, *rows* has a
//! text for each row, and *typed* a value of its type. The floor is that of the
//! same engine; the store in memory has none and is compared with SQLite's.
//! Each sample times all of them in turn; the ratios are printed at the end.
//! `FOLIO_BENCH_EVENTS` sets the larger size.

use criterion::{Criterion, criterion_group, criterion_main};
use folio_bench::{Failure, Floor, RedbFloor, SqliteFloor, fill, median};
use folio_core::{Direction, SessionId};
use folio_store::Store;
use folio_transcript::{PagePosition, PageRequest, TranscriptService};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows of the floor's table.
const FLOOR_ROWS: u64 = 200_000;

struct Sizes {
    name: &'static str,
    service: TranscriptService,
    small: (SessionId, u64),
    large: (SessionId, u64),
}

fn request(session: &(SessionId, u64), middle: bool) -> PageRequest {
    let newest = PageRequest::newest(session.0.clone());
    if middle {
        PageRequest {
            position: PagePosition::AtOrdinal(session.1 / 28 * 14),
            direction: Some(Direction::Older),
            ..newest
        }
    } else {
        newest
    }
}

fn sizes(
    runtime: &tokio::runtime::Runtime,
    name: &'static str,
    store: Arc<dyn Store>,
) -> Result<Sizes, Failure> {
    let events = std::env::var("FOLIO_BENCH_EVENTS")
        .ok()
        .and_then(|n| n.parse().ok());
    let small = runtime.block_on(fill(&*store, 10_000))?;
    let large = runtime.block_on(fill(&*store, events.unwrap_or(1_000_000)))?;
    Ok(Sizes {
        name,
        service: TranscriptService::new(store),
        small,
        large,
    })
}

fn pages(criterion: &mut Criterion) {
    if let Err(error) = measure(criterion) {
        eprintln!("page: {error}");
        std::process::exit(1);
    }
}

fn measure(criterion: &mut Criterion) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let folder = tempfile::tempdir()?;
    let raw_sqlite = SqliteFloor::new(&folder.path().join("floor.db"), FLOOR_ROWS)?;
    let raw_redb = RedbFloor::new(&folder.path().join("floor.redb"), FLOOR_ROWS)?;
    let memory: Arc<dyn Store> = Arc::new(folio_store_memory::open()?);
    let config = folio_store_sqlite::SqliteConfig::new(folder.path().join("folio.db"));
    let sqlite: Arc<dyn Store> = Arc::new(folio_store_sqlite::open(&config)?);
    let config = folio_store_redb::RedbConfig::new(folder.path().join("folio.redb"));
    let redb: Arc<dyn Store> = Arc::new(folio_store_redb::open(&config)?);
    let stores: [(_, _, &dyn Floor); 3] = [
        ("memory", memory, &raw_sqlite),
        ("sqlite", sqlite, &raw_sqlite),
        ("redb", redb, &raw_redb),
    ];
    let mut lines = Vec::new();
    for (name, store, floor) in stores {
        let sizes = sizes(&runtime, name, store)?;
        for middle in [false, true] {
            lines.push(compare(criterion, &runtime, &sizes, floor, middle));
        }
    }
    for line in lines {
        println!("{line}");
    }
    Ok(())
}

/// Times both sizes, every form and the floor in turn; answers the line with
/// the ratios.
fn compare(
    criterion: &mut Criterion,
    runtime: &tokio::runtime::Runtime,
    sizes: &Sizes,
    floor: &dyn Floor,
    middle: bool,
) -> String {
    let place = if middle { "middle" } else { "last" };
    let service = &sizes.service;
    let (small, large) = (request(&sizes.small, middle), request(&sizes.large, middle));
    let mut samples: [Vec<Duration>; 5] = Default::default();
    let mut group = criterion.benchmark_group("page");
    group.bench_function(format!("{}/{place}/50_items", sizes.name), |bencher| {
        bencher.iter_custom(|times| {
            let mut sum = Duration::ZERO;
            for _ in 0..times {
                samples[0].push(timed(|| {
                    let page = runtime.block_on(service.encode_page(&small));
                    page.map_or(0, |page| page.len()) > 50 * 100
                }));
                let took = timed(|| {
                    let page = runtime.block_on(service.encode_page(&large));
                    page.map_or(0, |page| page.len()) > 50 * 100
                });
                samples[1].push(took);
                samples[2].push(timed(|| {
                    let page = runtime.block_on(service.read_page(&large));
                    page.map_or(0, |page| page.entries.len()) == 50
                }));
                samples[3].push(timed(|| {
                    let page = runtime.block_on(service.read_typed_page(&large));
                    page.map_or(0, |page| page.entries.len()) == 50
                }));
                samples[4].push(timed(|| {
                    floor.read(middle).map_or(0, |rows| rows.len()) == 50
                }));
                sum += took;
            }
            sum
        });
    });
    group.finish();
    let medians = samples.map(|mut samples| median(&mut samples) / 1e3);
    let [small_us, encoded, rows, typed, raw] = medians;
    format!(
        "page/{}/{place}: raw 50 rows {raw:.1} us; encoded {encoded:.1} us = {:.2}, rows {rows:.1} us = {:.2}, typed {typed:.1} us = {:.2}; encoded at {} events to {}: {:.2}",
        sizes.name,
        encoded / raw,
        rows / raw,
        typed / raw,
        sizes.large.1,
        sizes.small.1,
        encoded / small_us,
    )
}

/// How long work takes, its answer dropped; it must come out as it should.
fn timed(work: impl FnOnce() -> bool) -> Duration {
    let started = Instant::now();
    let right = black_box(work());
    let took = started.elapsed();
    assert!(right, "a page of 50 items");
    took
}

criterion_group!(benches, pages);
criterion_main!(benches);
