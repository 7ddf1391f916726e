//! The group `fork/`: a fork at a turn's end and one inside a turn, at ten
//! thousand and at a million events, against a durable append of one event to
//! the same store.
//!
//! Each sample times the forks and the append in turn; the ratios are printed
//! at the end. `FOLIO_BENCH_EVENTS` sets the larger size.

use criterion::{Criterion, criterion_group, criterion_main};
use folio_bench::Failure;
use folio_bench::measure::fork::{At, Forks};
use folio_bench::sample::Samples;
use folio_bench::stores::{Adapter, Session, fill};
use std::time::Duration;
use tokio::runtime::Runtime;

/// What is timed, in this order; the first is what the others are compared
/// with.
const TIMED: [&str; 4] = [
    "append of one event",
    "fork at a turn's end, fewer events",
    "fork at a turn's end, more events",
    "fork inside a turn, more events",
];

struct Timed<'a> {
    forks: Forks<'a>,
    small: Session,
    large: Session,
}

impl<'a> Timed<'a> {
    fn new(runtime: &'a Runtime, adapter: Adapter) -> Result<(Self, tempfile::TempDir), Failure> {
        let folder = tempfile::tempdir()?;
        let store = adapter.open(&adapter.path(folder.path(), "fork"))?;
        let events = std::env::var("FOLIO_BENCH_EVENTS")
            .ok()
            .and_then(|n| n.parse().ok());
        let small = runtime.block_on(fill(&*store, 10_000))?;
        let large = runtime.block_on(fill(&*store, events.unwrap_or(1_000_000)))?;
        let forks = Forks::new(runtime, store)?;
        let timed = Self {
            forks,
            small,
            large,
        };
        Ok((timed, folder))
    }

    fn sample(&self) -> Result<[Duration; TIMED.len()], Failure> {
        Ok([
            self.forks.append()?,
            self.forks.fork(&self.small, At::TurnEnd)?,
            self.forks.fork(&self.large, At::TurnEnd)?,
            self.forks.fork(&self.large, At::InsideTurn)?,
        ])
    }
}

fn forks(criterion: &mut Criterion) {
    if let Err(error) = measure(criterion) {
        eprintln!("fork: {error}");
        std::process::exit(1);
    }
}

fn measure(criterion: &mut Criterion) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut group = criterion.benchmark_group("fork");
    for adapter in Adapter::ALL {
        let (timed, _folder) = Timed::new(&runtime, adapter)?;
        let name = adapter.name();
        let mut samples: [Samples; TIMED.len()] = Default::default();
        let mut failed = None;
        group.bench_function(format!("{name}/turn_end"), |bencher| {
            bencher.iter_custom(|times| {
                let mut sum = Duration::ZERO;
                for _ in 0..times {
                    match timed.sample() {
                        Ok(sample) => {
                            sum += sample[2];
                            for (all, one) in samples.iter_mut().zip(sample) {
                                all.push(one);
                            }
                        }
                        Err(error) => failed = Some(error),
                    }
                }
                sum.max(Duration::from_nanos(1))
            });
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let medians = samples.map(|samples| samples.median());
        for (what, time) in TIMED.iter().zip(medians) {
            println!(
                "fork/{name}: {what} ({} and {} events): {:.0} us, {:.2} appends",
                timed.small.events,
                timed.large.events,
                time / 1e3,
                time / medians[0],
            );
        }
    }
    group.finish();
    Ok(())
}

criterion_group!(benches, forks);
criterion_main!(benches);
