//! Wrong stores, each wrong in one way, that the suite must find out.
//!
//! A rule counts only if a store that breaks it fails a case. [`mutants`] are
//! of two kinds: stores whose answers are changed on their way out, and
//! engines that keep their rows wrongly. All stand on the simulated engine,
//! which is right and passes every case. [`run`] runs the whole suite against
//! each of them and says what is missing: a mutant that survives, one that
//! breaks so much that it proves little, and a case that no mutant fails.

mod append;
mod blob;
mod engine;
mod erase;
mod fork;
mod group;
mod lease;
mod member;
mod notes;
mod page;
mod read;
mod redact;
mod session;
mod source;
mod view;
mod watch;

use crate::conformance::{Case, Factory, StorePlace, cases};
use crate::decorator::{Decorated, Decorator};
use crate::simulated::{Flaw, Right, SimulatedPlace};
use folio_store::{ErrorKind, StoreError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// Cases that no mutant fails, each with the reason.
const UNREACHED: &str = include_str!("unreached.txt");
/// A case that has not answered after this has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Cases that run at once. Those that wait for what never comes cost nothing,
/// so there are more than most machines have processors.
const WORKERS: usize = 4;
/// A mutant may fail one case of so many; more tell that the whole store is
/// broken, and nothing about the cases.
const AT_MOST_ONE_OF: usize = 4;

/// A wrong store.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// What is wrong, in a sentence.
    pub wrong: &'static str,
    /// The case that is there to find it out; others may as well.
    pub caught_by: &'static str,
    /// Makes a fresh place.
    pub place: Factory,
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Every mutant.
pub fn mutants() -> Vec<Mutant> {
    [
        append::MUTANTS,
        read::MUTANTS,
        page::MUTANTS,
        session::MUTANTS,
        notes::MUTANTS,
        source::MUTANTS,
        fork::MUTANTS,
        erase::MUTANTS,
        redact::MUTANTS,
        blob::MUTANTS,
        member::MUTANTS,
        lease::MUTANTS,
        view::MUTANTS,
        watch::MUTANTS,
        group::MUTANTS,
        engine::MUTANTS,
    ]
    .concat()
}

/// A store whose answers a decorator changes.
fn answers<D: Decorator + Default>() -> Box<dyn StorePlace> {
    let place = SimulatedPlace::new(Right, |inner, _| {
        Arc::new(Decorated::by(D::default(), inner))
    });
    Box::new(place)
}

/// Makes a flaw that changes rows before they are written.
macro_rules! miswrites {
    ($flaw:ident: ($txn:ident, $writes:ident) { $($change:tt)* }) => {
        #[derive(Default)]
        struct $flaw;

        impl $crate::simulated::Flaw for $flaw {
            fn apply(
                &self,
                _: &$crate::simulated::Disk,
                $txn: &mut folio_store_memory::Tables,
                writes: &folio_store::engine::Writes,
            ) -> Result<(), folio_store::StoreError> {
                let mut $writes = writes.clone();
                $($change)*
                folio_store::engine::WriteTxn::apply($txn, &$writes)
            }
        }
    };
}
use miswrites;

/// A store over a flawed engine.
fn keeps<F: Flaw + Default>() -> Box<dyn StorePlace> {
    Box::new(SimulatedPlace::new(F::default(), |store, _| store))
}

/// What a mutant answers where it refuses.
fn refusal(kind: ErrorKind, code: &'static str) -> StoreError {
    StoreError::new(kind, code, "a wrong store refuses this")
}

/// What a mutant remembers; a panic elsewhere leaves it whole.
fn lock<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cases that a mutant failed, with what they said.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The mutant.
    pub mutant: Mutant,
    /// Its cases.
    pub failed: BTreeMap<&'static str, String>,
}

/// What the suite made of the mutants.
#[derive(Debug, Clone)]
pub struct Report {
    /// How many cases ran against each.
    pub cases: usize,
    /// One for each mutant.
    pub findings: Vec<Finding>,
    /// What is missing; empty if the suite is as good as it says.
    pub problems: Vec<String>,
}

impl Report {
    /// The report for programs.
    pub fn json(&self) -> Value {
        let mutants = self.findings.iter().map(|finding| {
            json!({
                "name": finding.mutant.name,
                "wrong": finding.mutant.wrong,
                "caught_by": finding.mutant.caught_by,
                "failed": finding.failed,
            })
        });
        json!({
            "holds": self.problems.is_empty(),
            "cases": self.cases,
            "mutants": mutants.collect::<Vec<_>>(),
            "problems": self.problems,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Mutant { name, wrong, .. } = finding.mutant;
            writeln!(f, "{name}: {wrong}: {} cases fail", finding.failed.len())?;
            for case in finding.failed.keys() {
                writeln!(f, "    {case}")?;
            }
        }
        for problem in &self.problems {
            writeln!(f, "PROBLEM: {problem}")?;
        }
        write!(
            f,
            "sabotage: {} mutants, {} cases, {} problems",
            self.findings.len(),
            self.cases,
            self.problems.len()
        )
    }
}

/// Runs every case against the engine that is right and against every mutant.
pub fn run() -> Report {
    let cases = cases();
    let right = Mutant {
        name: "right",
        wrong: "nothing is wrong with it",
        caught_by: "",
        place: || Box::new(SimulatedPlace::default()),
    };
    let mutants = mutants();
    let all: Vec<Mutant> = std::iter::once(right).chain(mutants).collect();
    let mut findings = try_all(&all, &cases);
    let right = findings.remove(0);
    let mut problems: Vec<String> = right
        .failed
        .iter()
        .map(|(case, said)| format!("{case} fails on the store that is right: {said}"))
        .collect();
    problems.extend(judge(&findings, &cases, UNREACHED));
    Report {
        cases: cases.len(),
        findings,
        problems,
    }
}

/// What the outcomes say about the suite and its mutants.
fn judge(findings: &[Finding], cases: &[Case], unreached: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut reached = BTreeSet::new();
    for Finding { mutant, failed } in findings {
        let (name, caught_by) = (mutant.name, mutant.caught_by);
        if failed.is_empty() {
            problems.push(format!("{name} survives: no case finds it out"));
        } else if !failed.contains_key(caught_by) {
            problems.push(format!("{caught_by} does not find out {name}"));
        }
        if failed.len() * AT_MOST_ONE_OF > cases.len() {
            let count = failed.len();
            problems.push(format!("{name} fails {count} cases: it breaks too much"));
        }
        reached.extend(failed.keys().copied());
    }
    let mut excused = BTreeSet::new();
    let lines = unreached.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, reason) = line.split_once(": ").unwrap_or((line, ""));
        if reason.is_empty() {
            problems.push(format!("unreached.txt gives no reason for {name}"));
        }
        if !cases.iter().any(|case| case.name == name) {
            problems.push(format!("unreached.txt names {name}, which is no case"));
        }
        if reached.contains(name) {
            problems.push(format!("unreached.txt names {name}, which a mutant fails"));
        }
        excused.insert(name);
    }
    for case in cases.iter().map(|case| case.name) {
        if !reached.contains(case) && !excused.contains(case) {
            problems.push(format!("{case} is failed by no mutant"));
        }
    }
    problems
}

/// Runs every case against every mutant, some at a time.
fn try_all(mutants: &[Mutant], cases: &[Case]) -> Vec<Finding> {
    let findings: Vec<_> = mutants
        .iter()
        .map(|mutant| {
            Mutex::new(Finding {
                mutant: *mutant,
                failed: BTreeMap::new(),
            })
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let (Some(finding), Some(case)) =
                (findings.get(n / cases.len()), cases.get(n % cases.len()))
            else {
                return;
            };
            let mutant = &mutants[n / cases.len()];
            if let Err(said) = try_one(*mutant, *case) {
                let mut finding = finding.lock().unwrap_or_else(PoisonError::into_inner);
                finding.failed.insert(case.name, said);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
    });
    let findings = findings.into_iter();
    findings
        .map(|finding| finding.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

/// Runs a case on a thread of its own, so that a case that hangs holds up
/// nothing but itself.
fn try_one(mutant: Mutant, case: Case) -> Result<(), String> {
    let (told, answer) = mpsc::channel();
    let run = move || {
        let run = AssertUnwindSafe(|| case.check((mutant.place)()));
        let outcome = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).into()));
            Err(said.unwrap_or_else(|| "it panicked".into()))
        });
        // Nobody waits any more for a case that took too long.
        drop(told.send(outcome));
    };
    let started = std::thread::Builder::new()
        .name(case.name.into())
        .spawn(run);
    if let Err(error) = started {
        return Err(format!("no thread could be started: {error}"));
    }
    answer
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(format!("no answer in {} seconds", PATIENCE.as_secs())))
}

#[cfg(test)]
mod tests;
