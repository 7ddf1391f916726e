//! What the judge of the suite lets through.

use super::{Finding, Mutant, judge, mutants, try_one};
use crate::conformance::{Case, cases};
use crate::simulated::SimulatedPlace;
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 8] = ["a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7", "a/8"];

fn suite() -> Vec<Case> {
    let case = |name| Case {
        name,
        needs: None,
        run: |_| Box::pin(async { Ok(()) }),
    };
    NAMES.map(case).into()
}

fn finding(caught_by: &'static str, failed: &[&'static str]) -> Finding {
    Finding {
        mutant: mutant(caught_by),
        failed: failed.iter().map(|case| (*case, String::new())).collect(),
    }
}

fn mutant(caught_by: &'static str) -> Mutant {
    Mutant {
        name: "m",
        wrong: "something",
        caught_by,
        place: || Box::new(SimulatedPlace::default()),
    }
}

/// Findings that reach every case but the last.
fn enough() -> Vec<Finding> {
    NAMES[..7]
        .iter()
        .map(|case| finding(case, &[*case]))
        .collect()
}

const EXCUSE: &str = "# why\n\na/8: it is about the harness\n";

#[test]
fn a_suite_that_finds_all_out_has_no_problem() {
    assert_eq!(judge(&enough(), &suite(), EXCUSE), [""; 0]);
}

#[test]
fn whatever_is_missing_is_a_problem() {
    let problem = |more: Option<Finding>, excuse: &str, wanted: &str| {
        let mut findings = enough();
        findings.extend(more);
        let problems = judge(&findings, &suite(), excuse);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(wanted), "{problems:?}");
    };
    problem(Some(finding("a/1", &[])), EXCUSE, "survives");
    problem(
        Some(finding("a/1", &["a/2"])),
        EXCUSE,
        "a/1 does not find out m",
    );
    problem(
        Some(finding("a/1", &["a/1", "a/2", "a/3"])),
        EXCUSE,
        "breaks too much",
    );
    problem(None, "", "a/8 is failed by no mutant");
    problem(
        Some(finding("a/8", &["a/8"])),
        EXCUSE,
        "which a mutant fails",
    );
    problem(None, "a/8: why\na/9: why", "no case");
    problem(None, "a/8", "no reason");
}

#[test]
fn a_case_that_panics_or_refuses_has_failed() {
    let case = |run| Case {
        name: "a/1",
        needs: None,
        run,
    };
    let told = try_one(mutant(""), case(|_| Box::pin(async { Err("no".into()) })));
    assert_eq!(told, Err("no".into()));
    let told = try_one(
        mutant(""),
        case(|_| Box::pin(async { unreachable!("oh {}", 1) })),
    );
    assert!(told.is_err_and(|said| said.contains("oh 1")));
    let told = try_one(mutant(""), case(|_| Box::pin(async { Ok(()) })));
    assert_eq!(told, Ok(()));
}

#[test]
fn every_mutant_has_a_name_of_its_own_and_a_case() {
    let names: BTreeSet<_> = mutants().iter().map(|mutant| mutant.name).collect();
    assert_eq!(names.len(), mutants().len());
    let cases: BTreeMap<_, _> = cases().iter().map(|case| (case.name, ())).collect();
    for mutant in mutants() {
        assert!(cases.contains_key(mutant.caught_by), "{}", mutant.caught_by);
    }
}
