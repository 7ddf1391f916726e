//! The group `page/`: a page of 50 items at ten thousand and at a million
//! events, in one store, against a raw keyset read of 50 rows.
//!
//! Each sample times both sizes and the floor in turn; the ratios are printed
//! at the end. `FOLIO_BENCH_EVENTS` sets the larger size.

use criterion::{Criterion, criterion_group, criterion_main};
use folio_bench::Failure;
use folio_bench::floor::{self, Floor};
use folio_bench::measure::page::{Form, read, read_floor};
use folio_bench::pages::Place;
use folio_bench::sample::Samples;
use folio_bench::stores::{Adapter, Session, fill};
use folio_store::Store;
use folio_transcript::TranscriptService;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Rows of the floor's table.
const FLOOR_ROWS: u64 = 200_000;

struct Sizes {
    name: &'static str,
    service: TranscriptService,
    small: Session,
    large: Session,
}

fn sizes(runtime: &Runtime, name: &'static str, store: Arc<dyn Store>) -> Result<Sizes, Failure> {
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
    let path = floor::path(Adapter::Sqlite, folder.path());
    let floor = floor::make(Adapter::Sqlite, &path, FLOOR_ROWS)?;
    let memory: Arc<dyn Store> = Arc::new(folio_store_memory::open()?);
    let mut stores = vec![("memory", memory)];
    for adapter in Adapter::ALL {
        let path = adapter.path(folder.path(), "page");
        stores.push((adapter.name(), adapter.open(&path)?));
    }
    let mut lines = Vec::new();
    for (name, store) in stores {
        let sizes = sizes(&runtime, name, store)?;
        for place in Place::ALL {
            lines.push(compare(criterion, &runtime, &sizes, &*floor, place)?);
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
    runtime: &Runtime,
    sizes: &Sizes,
    floor: &dyn Floor,
    place: Place,
) -> Result<String, Failure> {
    let mut samples: [Samples; 3] = Default::default();
    let mut failed = None;
    let mut sample = || -> Result<Duration, Failure> {
        let page = |session| read(runtime, &sizes.service, session, place, Form::Encoded);
        samples[0].push(page(&sizes.small)?);
        let took = page(&sizes.large)?;
        samples[1].push(took);
        samples[2].push(read_floor(floor, FLOOR_ROWS, place)?);
        Ok(took)
    };
    let mut group = criterion.benchmark_group("page");
    let name = format!("{}/{}/50_items", sizes.name, place.name());
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            let mut sum = Duration::ZERO;
            for _ in 0..times {
                match sample() {
                    Ok(took) => sum += took,
                    Err(error) => failed = Some(error),
                }
            }
            sum.max(Duration::from_nanos(1))
        });
    });
    group.finish();
    if let Some(error) = failed {
        return Err(error);
    }
    let [small, large, raw] = samples.map(|samples| samples.median());
    Ok(format!(
        "page/{}/{}: {} events {:.1} us, {} events {:.1} us, raw 50 rows {:.1} us; larger to smaller {:.2}, larger to raw {:.2}",
        sizes.name,
        place.name(),
        sizes.small.events,
        small / 1e3,
        sizes.large.events,
        large / 1e3,
        raw / 1e3,
        large / small,
        large / raw,
    ))
}

criterion_group!(benches, pages);
criterion_main!(benches);
