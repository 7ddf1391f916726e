//! The group `page/`: a page of 50 items at ten thousand and at a million
//! events, in one store, against a raw keyset read of 50 rows.
//!
//! Each sample times both sizes and the floor in turn; the ratios are printed
//! at the end. `FOLIO_BENCH_EVENTS` sets the larger size.

use criterion::{Criterion, criterion_group, criterion_main};
use folio_bench::{Failure, Floor, fill, median};
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
    let floor = Floor::new(&folder.path().join("floor.db"), FLOOR_ROWS)?;
    let memory: Arc<dyn Store> = Arc::new(folio_store_memory::open()?);
    let config = folio_store_sqlite::SqliteConfig::new(folder.path().join("folio.db"));
    let sqlite: Arc<dyn Store> = Arc::new(folio_store_sqlite::open(&config)?);
    let config = folio_store_redb::RedbConfig::new(folder.path().join("folio.redb"));
    let redb: Arc<dyn Store> = Arc::new(folio_store_redb::open(&config)?);
    let mut lines = Vec::new();
    for (name, store) in [("memory", memory), ("sqlite", sqlite), ("redb", redb)] {
        let sizes = sizes(&runtime, name, store)?;
        for middle in [false, true] {
            lines.push(compare(criterion, &runtime, &sizes, &floor, middle));
        }
    }
    for line in lines {
        println!("{line}");
    }
    Ok(())
}

/// Times both sizes and the floor in turn; answers the line with the ratios.
fn compare(
    criterion: &mut Criterion,
    runtime: &tokio::runtime::Runtime,
    sizes: &Sizes,
    floor: &Floor,
    middle: bool,
) -> String {
    let place = if middle { "middle" } else { "last" };
    let (small, large) = (request(&sizes.small, middle), request(&sizes.large, middle));
    let mut samples: [Vec<Duration>; 3] = Default::default();
    let read = |request: &PageRequest| {
        let started = Instant::now();
        let page = runtime.block_on(sizes.service.read_page(request));
        let took = started.elapsed();
        assert_eq!(black_box(page).map_or(0, |page| page.entries.len()), 50);
        took
    };
    let mut group = criterion.benchmark_group("page");
    group.bench_function(format!("{}/{place}/50_items", sizes.name), |bencher| {
        bencher.iter_custom(|times| {
            let mut sum = Duration::ZERO;
            for _ in 0..times {
                samples[0].push(read(&small));
                let took = read(&large);
                samples[1].push(took);
                sum += took;
                let started = Instant::now();
                let rows = floor.read(middle).map_or(0, |rows| black_box(rows).len());
                samples[2].push(started.elapsed());
                assert_eq!(rows, 50);
            }
            sum
        });
    });
    group.finish();
    let [small_ns, large_ns, floor_ns] = samples.map(|mut samples| median(&mut samples));
    format!(
        "page/{}/{place}: {} events {:.1} us, {} events {:.1} us, raw 50 rows {:.1} us; larger to smaller {:.2}, larger to raw {:.2}",
        sizes.name,
        sizes.small.1,
        small_ns / 1e3,
        sizes.large.1,
        large_ns / 1e3,
        floor_ns / 1e3,
        large_ns / small_ns,
        large_ns / floor_ns,
    )
}

criterion_group!(benches, pages);
criterion_main!(benches);
