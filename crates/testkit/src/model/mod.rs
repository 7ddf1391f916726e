//! Random histories, told to stores and to the simplest possible ledger.
//!
//! A history is a list of [operations](op::Op): sessions are created, written,
//! forked, redacted and deleted, batches are right and wrong, stores are closed
//! and lost. The [model](state::Model) keeps vectors and decides what each
//! operation must answer; a [subject](subject::Subject) is a store that must
//! answer so. After every operation everything that a reader can ask of the
//! sessions is compared; at the end every session verifies.
//!
//! Nothing is random but what proptest draws, and every history has a seed of
//! its own. One that fails is made as small as it can be, and is printed with
//! its seed; the same test runs it again alone:
//!
//! ```text
//! FOLIO_MODEL_SEED=17 cargo test -p folio-testkit --test model
//! ```
//!
//! `FOLIO_MODEL_CASES` sets how many histories are tried. They have the seeds
//! 0, 1, 2 and so on, so that more cases are always the old ones and new ones.

#![allow(
    missing_docs,
    reason = "the fields of operations are what their names say"
)]

pub mod op;
pub mod script;
pub mod state;
pub mod subject;

use crate::conformance::{Factory, Need, StorePlace};
use async_trait::async_trait;
use folio_store::engine::Capabilities;
use folio_store::{Store, StoreError};
use op::Op;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use proptest_state_machine::Sequential;
use state::Model;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use subject::{Check, Subject};

/// How many operations a history has before it is made smaller.
const STEPS: Range<usize> = 20..80;
/// The most histories that are tried to make a failing one smaller.
const SHRINKS: u32 = 4_000;

/// A history that a store does not tell as the model does.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed of the history.
    pub seed: u64,
    /// What was wrong.
    pub reason: String,
    /// The operations, as few and as small as could be found.
    pub history: Vec<Op>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            reason,
            history,
        } = self;
        writeln!(f, "{reason}")?;
        for (step, op) in (1..).zip(history) {
            writeln!(f, "{step:4}. {op:?}")?;
        }
        write!(f, "run it again with FOLIO_MODEL_SEED={seed}")
    }
}

/// Nothing but the process: the store in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryPlace;

#[async_trait]
impl StorePlace for MemoryPlace {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(crate::memory_store())
    }
}

/// Compares the stores of a place with the model over so many histories.
///
/// # Panics
/// With the smallest history found, where a store is not as the model; and
/// where the environment asks for something that is no number.
pub fn run(factory: Factory, cases: u64) {
    differential(&[factory], cases);
}

/// Tells the same histories to the stores of several places, and compares them
/// with the model and with each other, byte by byte.
///
/// # Panics
/// As [`run`], and where they differ.
pub fn differential(factories: &[Factory], cases: u64) {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse::<u64>()
                .expect("FOLIO_MODEL_* are whole numbers"),
        )
    };
    let seeds = match number("FOLIO_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FOLIO_MODEL_CASES").unwrap_or(cases),
    };
    let failure = seeds
        .into_iter()
        .find_map(|seed| find(factories, seed).err());
    let told = failure.as_ref().map(ToString::to_string);
    assert!(failure.is_none(), "{}", told.unwrap_or_default());
}

/// The histories, as a strategy.
fn histories(durable: bool) -> impl Strategy<Value = (Model, Vec<Op>, Seen)> {
    Sequential::new(
        STEPS.into(),
        move || Just(Model::new(durable)).boxed(),
        |_, _| true,
        op::next,
        |model: Model, op: &Op| model.after(op),
    )
}

/// Counts the operations that were tried, so that what came after a failure is
/// left out when its history is made smaller.
type Seen = Option<Arc<AtomicUsize>>;

fn runner(seed: u64) -> TestRunner {
    TestRunner::new(Config {
        cases: 1,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: SHRINKS,
        ..Config::default()
    })
}

/// The history of a seed.
///
/// # Panics
/// Never: no operation is rejected.
pub fn history(durable: bool, seed: u64) -> Vec<Op> {
    let tree = histories(durable).new_tree(&mut runner(seed));
    let (_, history, _) = tree.expect("no operation is rejected").current();
    history
}

/// Tells the history of a seed to stores.
///
/// # Errors
/// The smallest history that some store does not tell as it should.
pub fn find(factories: &[Factory], seed: u64) -> Result<(), Failure> {
    let durable = factories.iter().all(|factory| factory().has(Need::Durable));
    let outcome = runner(seed).run(&histories(durable), |(model, history, seen)| {
        let seen = || {
            if let Some(seen) = &seen {
                seen.fetch_add(1, Ordering::SeqCst);
            }
        };
        tell(factories, model, &history, &seen).map_err(TestCaseError::fail)
    });
    outcome.map_err(|error| {
        let (reason, history) = match error {
            TestError::Fail(reason, (_, history, _)) => (reason, history),
            TestError::Abort(reason) => (reason, Vec::new()),
        };
        Failure {
            seed,
            reason: reason.message().to_owned(),
            history,
        }
    })
}

/// Tells a history to fresh stores.
fn tell(factories: &[Factory], model: Model, history: &[Op], seen: &dyn Fn()) -> Check {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| error.to_string())?
        .block_on(async {
            let mut subjects = Vec::new();
            for factory in factories {
                subjects.push(Subject::open(factory()).await?);
            }
            let mut model = model;
            for (step, op) in (1..).zip(history) {
                seen();
                let after = model.clone().after(op);
                for subject in &mut subjects {
                    let outcome = step_of(subject, &model, op, &after).await;
                    outcome.map_err(|error| format!("step {step}: {error}"))?;
                }
                model = after;
            }
            for subject in &mut subjects {
                subject.check_waits(&model, true)?;
            }
            agree(&subjects, &model).await
        })
}

async fn step_of(subject: &mut Subject, before: &Model, op: &Op, after: &Model) -> Check {
    subject.apply(before, op, after).await?;
    subject.check(after).await?;
    subject.check_waits(after, false)?;
    subject.check_walks(after).await
}

/// Every store is sound, and all of them hold the same.
async fn agree(subjects: &[Subject], model: &Model) -> Check {
    let mut first = None;
    for subject in subjects {
        subject.verify(model).await?;
        let dump = subject.dump(model).await?;
        match &first {
            None => first = Some(dump),
            Some(first) if *first == dump => {}
            Some(first) => {
                return Err(format!("two stores differ\n  {first:?}\n  {dump:?}"));
            }
        }
    }
    Ok(())
}
