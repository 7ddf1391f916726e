//! The group `fork/`: a fork at a turn's end and one inside a turn, at ten
//! thousand and at a million events, against a durable append of one event to
//! the same store.
//!
//! Each sample times the forks and the append in turn; the ratios are printed
//! at the end. `FOLIO_BENCH_EVENTS` sets the larger size.

use criterion::{Criterion, criterion_group, criterion_main};
use folio_bench::{Failure, fill, median};
use folio_core::SessionId;
use folio_store::{AppendBatch, NewSession, Store};
use folio_testkit::event::Events;
use folio_testkit::workload::Periodic;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is timed, in this order; the first is what the others are compared
/// with.
const TIMED: [&str; 4] = [
    "append of one event",
    "fork at a turn's end, fewer events",
    "fork at a turn's end, more events",
    "fork inside a turn, more events",
];

struct Timed {
    runtime: tokio::runtime::Runtime,
    store: Arc<dyn Store>,
    small: (SessionId, u64),
    large: (SessionId, u64),
    scratch: SessionId,
    events: Events,
    n: u64,
}

impl Timed {
    fn new(store: Arc<dyn Store>) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let events = std::env::var("FOLIO_BENCH_EVENTS")
            .ok()
            .and_then(|n| n.parse().ok());
        let small = runtime.block_on(fill(&*store, 10_000))?;
        let large = runtime.block_on(fill(&*store, events.unwrap_or(1_000_000)))?;
        let scratch = SessionId::new("scratch")?;
        runtime.block_on(store.create_session(NewSession::native(scratch.clone())))?;
        Ok(Self {
            runtime,
            store,
            small,
            large,
            scratch,
            events: Events::new("scratch"),
            n: 0,
        })
    }

    fn append(&mut self) -> Result<Duration, Failure> {
        self.n += 1;
        let event = self.events.user(&format!("e{}", self.n), &"x".repeat(500));
        let batch = AppendBatch::native(vec![event]);
        let started = Instant::now();
        self.runtime
            .block_on(self.store.append(&self.scratch, batch))?;
        Ok(started.elapsed())
    }

    fn fork(&mut self, large: bool, inside: bool) -> Result<Duration, Failure> {
        self.n += 1;
        let (parent, head) = if large { &self.large } else { &self.small };
        let per_turn = Periodic::EVENTS_PER_TURN as u64;
        let at = head / 2 / per_turn * per_turn + if inside { per_turn / 2 } else { 0 };
        let child = SessionId::new(format!("fork-{}", self.n))?;
        let started = Instant::now();
        self.runtime
            .block_on(self.store.fork_session(parent, at, child))?;
        Ok(started.elapsed())
    }

    fn sample(&mut self) -> Result<[Duration; TIMED.len()], Failure> {
        Ok([
            self.append()?,
            self.fork(false, false)?,
            self.fork(true, false)?,
            self.fork(true, true)?,
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
    let folder = tempfile::tempdir()?;
    let sqlite = folio_store_sqlite::SqliteConfig::new(folder.path().join("folio.db"));
    let redb = folio_store_redb::RedbConfig::new(folder.path().join("folio.redb"));
    let stores: [(&str, Arc<dyn Store>); 2] = [
        ("sqlite", Arc::new(folio_store_sqlite::open(&sqlite)?)),
        ("redb", Arc::new(folio_store_redb::open(&redb)?)),
    ];
    let mut group = criterion.benchmark_group("fork");
    for (name, store) in stores {
        let mut timed = Timed::new(store)?;
        let mut samples: [Vec<Duration>; TIMED.len()] = Default::default();
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
        let medians = samples.map(|mut samples| median(&mut samples));
        for (what, time) in TIMED.iter().zip(medians) {
            println!(
                "fork/{name}: {what} ({} and {} events): {:.0} us, {:.2} appends",
                timed.small.1,
                timed.large.1,
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
