//! What counts as a suite that ran.

use super::{End, Matrix, Verdict, column, in_flight, listed, outcome, outcomes};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

const LIST: &str =
    "append/is_atomic: test\n[unsupported] process/two_handles: test\nread/all: test\n";

fn passed(cases: &[(&str, bool)]) -> BTreeMap<String, bool> {
    let own = cases.iter().map(|(case, ok)| ((*case).to_owned(), *ok));
    own.collect()
}

fn all() -> BTreeMap<String, bool> {
    passed(&[
        ("append/is_atomic", true),
        ("process/two_handles", true),
        ("read/all", true),
    ])
}

#[test]
fn a_suite_that_ran_holds() {
    let list = listed(LIST);
    let column = column("memory", &list, &list, &all());
    assert!(column.holds());
    assert_eq!(column.cases["process/two_handles"], Verdict::Unsupported);
    let matrix = Matrix {
        columns: vec![column],
        left_out: vec!["redb".to_owned()],
    };
    assert!(matrix.holds());
    let text = matrix.to_string();
    assert!(
        text.contains("memory: unsupported process/two_handles"),
        "{text}"
    );
    assert!(text.contains("redb: LEFT OUT"), "{text}");
    assert!(
        text.ends_with("1 adapters, 2 pass, 1 unsupported and say so, 0 fail, 0 not run"),
        "{text}"
    );
    assert_eq!(matrix.json()["adapters"][0]["cases"]["read/all"], "pass");
}

#[test]
fn a_case_that_failed_or_did_not_run_fails_the_matrix() {
    let list = listed(LIST);
    for (outcomes, verdict) in [
        (
            passed(&[
                ("append/is_atomic", true),
                ("process/two_handles", true),
                ("read/all", false),
            ]),
            Verdict::Fail,
        ),
        (
            passed(&[("append/is_atomic", true), ("process/two_handles", true)]),
            Verdict::NotRun,
        ),
        // What asserts a lack may fail as well.
        (
            passed(&[
                ("append/is_atomic", true),
                ("process/two_handles", false),
                ("read/all", true),
            ]),
            Verdict::Fail,
        ),
    ] {
        let column = column("memory", &list, &list, &outcomes);
        assert!(!column.holds());
        assert_eq!(
            column.cases.values().filter(|of| **of == verdict).count(),
            1
        );
    }
}

#[test]
fn an_adapter_runs_the_suite_and_nothing_else() {
    let (reference, mut list) = (listed(LIST), listed(LIST));
    list.remove("read/all");
    let missing = column("other", &reference, &list, &all());
    assert!(!missing.holds() && missing.problems.len() == 1);
    list = listed(LIST);
    list.insert("read/mine".to_owned(), false);
    let more = column("other", &reference, &list, &all());
    assert!(!more.holds() && more.problems.len() == 1);
    // A suite without cases proves nothing.
    let nothing = BTreeMap::new();
    assert!(!column("other", &nothing, &nothing, &nothing).holds());
}

#[test]
fn only_outcomes_of_cases_are_outcomes() {
    for (line, wanted) in [
        (
            r#"{ "type": "test", "name": "read/all", "event": "ok" }"#,
            Some(true),
        ),
        (
            r#"{ "type": "test", "name": "read/all", "event": "failed", "stdout": "Error" }"#,
            Some(false),
        ),
        (
            r#"{ "type": "test", "event": "started", "name": "read/all" }"#,
            None,
        ),
        (
            r#"{ "type": "test", "name": "read/all", "event": "ignored" }"#,
            None,
        ),
        (r#"{ "type": "suite", "event": "ok", "passed": 3 }"#, None),
        ("what a case printed", None),
    ] {
        let told = outcome(line).map(|(case, ok)| {
            assert_eq!(case, "read/all");
            ok
        });
        assert_eq!(told, wanted, "{line}");
    }
}

#[test]
fn what_hangs_is_named() {
    // In the order of the list, not of the alphabet.
    let list = "b/1: test\n[unsupported] a/2: test\nc/3: test\nd/4: test\n";
    let done = passed(&[("b/1", true), ("c/3", false)]);
    assert_eq!(in_flight(list, &done, 1), ["a/2"]);
    assert_eq!(in_flight(list, &done, 4), ["a/2", "d/4"]);
    assert_eq!(in_flight(list, &listed(list), 4), [""; 0]);
}

#[cfg(unix)]
fn suite(script: &str, limit: Duration) -> (BTreeMap<String, bool>, End) {
    let told = r#"echo '{"type":"test","event":"ok","name":"a/1"}'"#;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{told}; {script}")]);
    outcomes(command, "memory", limit).unwrap()
}

#[cfg(unix)]
#[test]
fn a_suite_that_hangs_is_stopped() {
    let begun = Instant::now();
    let (done, end) = suite("exec sleep 600", Duration::from_millis(500));
    assert_eq!((done, end), (passed(&[("a/1", true)]), End::Stopped));
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[cfg(unix)]
#[test]
fn a_suite_that_ends_says_how() {
    let long = Duration::from_secs(60);
    for (script, wanted) in [("exit 0", End::Well), ("exit 1", End::Failed)] {
        let (done, end) = suite(script, long);
        assert_eq!((done, end), (passed(&[("a/1", true)]), wanted));
    }
}
