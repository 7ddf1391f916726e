//! Every case of the conformance suite on every adapter.
//!
//! Adapters are the crates of layer `adapter`; each has a test target
//! `conformance` that speaks the protocol of libtest. What counts as the suite
//! is the list of the reference model: an adapter that lists other cases, or
//! does not run one, fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use cargo_metadata::{Message, Metadata, MetadataCommand, Target};
use serde_json::{Value, json};

use crate::Error;
use crate::layers::{Layer, REFERENCE_ADAPTER, declared_layer};

/// The test target of every adapter.
const TARGET: &str = "conformance";
/// The kind of a case that asserts that an adapter lacks something.
const UNSUPPORTED: &str = "unsupported";
/// How long the suite may take on one adapter. The slowest one needs a small
/// part of it, so what is not done then hangs.
const LIMIT: Duration = Duration::from_secs(900);

/// What became of a case on one adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// The adapter cannot do it, and says so as it must.
    Unsupported,
    /// It was listed by the reference and has no outcome.
    NotRun,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unsupported => UNSUPPORTED,
            Self::NotRun => "not run",
        }
    }
}

/// The cases of one adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The adapter's crate.
    pub adapter: String,
    /// The outcome of every case of the reference, and of every other case
    /// that the adapter listed.
    pub cases: BTreeMap<String, Verdict>,
    /// What is wrong with the adapter's list.
    pub problems: Vec<String>,
}

impl Column {
    fn count(&self, verdict: Verdict) -> usize {
        self.cases.values().filter(|of| **of == verdict).count()
    }

    /// Whether every case has an outcome and none failed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.problems.is_empty()
            && !self.cases.is_empty()
            && self.count(Verdict::Fail) + self.count(Verdict::NotRun) == 0
    }
}

/// Every case by adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// One for each adapter, the reference first.
    pub columns: Vec<Column>,
    /// Adapters that were left out.
    pub left_out: Vec<String>,
}

impl Matrix {
    /// Whether every adapter runs every case and none failed.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.columns.is_empty() && self.columns.iter().all(Column::holds)
    }

    /// The matrix for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let columns = self.columns.iter().map(|column| {
            let cases = column
                .cases
                .iter()
                .map(|(case, verdict)| (case.clone(), Value::from(verdict.name())));
            json!({
                "adapter": column.adapter,
                "holds": column.holds(),
                "pass": column.count(Verdict::Pass),
                "unsupported": column.count(Verdict::Unsupported),
                "fail": column.count(Verdict::Fail),
                "not_run": column.count(Verdict::NotRun),
                "problems": column.problems,
                "cases": cases.collect::<serde_json::Map<_, _>>(),
            })
        });
        json!({
            "holds": self.holds(),
            "left_out": self.left_out,
            "adapters": columns.collect::<Vec<_>>(),
        })
    }
}

/// Groups as rows with counts; then, by name, what did not simply pass.
impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: BTreeSet<&str> = self
            .columns
            .iter()
            .flat_map(|column| column.cases.keys().map(|case| group(case)))
            .collect();
        let width = groups.iter().map(|group| group.len()).max().unwrap_or(0);
        write!(f, "{:width$}", "")?;
        for column in &self.columns {
            write!(f, "  {}", column.adapter)?;
        }
        writeln!(f)?;
        for name in groups {
            let mut line = format!("{name:width$}");
            for column in &self.columns {
                let mine = column.cases.iter().filter(|(case, _)| group(case) == name);
                let mine: Vec<Verdict> = mine.map(|(_, verdict)| *verdict).collect();
                let of = |verdict| mine.iter().filter(|of| **of == verdict).count();
                let mut cell = of(Verdict::Pass).to_string();
                for (verdict, sign) in [
                    (Verdict::Unsupported, "unsupported"),
                    (Verdict::Fail, "FAILED"),
                    (Verdict::NotRun, "NOT RUN"),
                ] {
                    if of(verdict) > 0 {
                        cell = format!("{cell} +{} {sign}", of(verdict));
                    }
                }
                let width = column.adapter.len();
                line.push_str(&format!("  {cell:width$}"));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        for column in &self.columns {
            for (case, verdict) in &column.cases {
                if *verdict != Verdict::Pass {
                    writeln!(f, "{}: {} {case}", column.adapter, verdict.name())?;
                }
            }
            for problem in &column.problems {
                writeln!(f, "{}: {problem}", column.adapter)?;
            }
        }
        for adapter in &self.left_out {
            writeln!(f, "{adapter}: LEFT OUT on demand")?;
        }
        let total = |verdict| -> usize {
            let counts = self.columns.iter().map(|column| column.count(verdict));
            counts.sum()
        };
        write!(
            f,
            "conformance: {} adapters, {} pass, {} unsupported and say so, {} fail, {} not run",
            self.columns.len(),
            total(Verdict::Pass),
            total(Verdict::Unsupported),
            total(Verdict::Fail),
            total(Verdict::NotRun),
        )
    }
}

fn group(case: &str) -> &str {
    case.split_once('/').map_or(case, |(group, _)| group)
}

/// What `--list` of an adapter says: every case, and whether it is one that
/// asserts a lack.
#[must_use]
pub fn listed(text: &str) -> BTreeMap<String, bool> {
    let line = |line: &str| {
        let case = line.strip_suffix(": test")?;
        let unsupported = case.strip_prefix(&format!("[{UNSUPPORTED}] "));
        let name = unsupported.unwrap_or(case).to_owned();
        Some((name, unsupported.is_some()))
    };
    text.lines().filter_map(line).collect()
}

/// The cases that were running when a run was stopped: cases begin in the
/// order of the list, each on one of a number of threads.
#[must_use]
pub fn in_flight(list: &str, passed: &BTreeMap<String, bool>, threads: usize) -> Vec<String> {
    let lines = list.lines().flat_map(|line| listed(line).into_keys());
    let open = lines.filter(|case| !passed.contains_key(case));
    open.take(threads).collect()
}

/// Puts an adapter's list and its outcomes beside the reference's list.
#[must_use]
pub fn column(
    adapter: &str,
    reference: &BTreeMap<String, bool>,
    listed: &BTreeMap<String, bool>,
    passed: &BTreeMap<String, bool>,
) -> Column {
    let mut problems = Vec::new();
    for case in reference.keys().filter(|case| !listed.contains_key(*case)) {
        problems.push(format!("{case} is in the suite and not in its list"));
    }
    for case in listed.keys().filter(|case| !reference.contains_key(*case)) {
        problems.push(format!("{case} is in its list and not in the suite"));
    }
    let verdict = |case: &String| match (passed.get(case), listed.get(case)) {
        (Some(true), Some(true)) => Verdict::Unsupported,
        (Some(true), _) => Verdict::Pass,
        (Some(false), _) => Verdict::Fail,
        (None, _) => Verdict::NotRun,
    };
    let cases = reference.keys().chain(listed.keys());
    Column {
        adapter: adapter.to_owned(),
        cases: cases.map(|case| (case.clone(), verdict(case))).collect(),
        problems,
    }
}

/// Runs every case on every adapter of the workspace in a folder, and writes
/// `conformance.json` into its build folder.
///
/// # Errors
///
/// [`Error::Metadata`] and [`Error::Task`] where the adapters cannot be found,
/// built or started; [`Error::Io`] where the matrix cannot be written.
pub fn run(root: &Path, without: &[&str]) -> Result<Matrix, Error> {
    let metadata = metadata(root)?;
    let (left_out, adapters) = adapters(&metadata, without)?;
    let binaries = build(&metadata, &adapters)?;
    let mut lists = Vec::new();
    for (adapter, binary) in &binaries {
        let text = started(Command::new(binary).arg("--list").output(), adapter)?;
        lists.push(String::from_utf8_lossy(&text.stdout).into_owned());
    }
    let reference = lists.first().map(|list| listed(list)).unwrap_or_default();
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    let mut columns = Vec::new();
    for ((adapter, binary), text) in binaries.iter().zip(&lists) {
        let list = listed(text);
        eprintln!("conformance: {adapter}, {} cases", list.len());
        let mut command = Command::new(binary);
        command.args(["--format", "json", "--test-threads"]);
        command.arg(threads.to_string());
        let (passed, end) = outcomes(command, adapter, LIMIT)?;
        let mut column = column(adapter, &reference, &list, &passed);
        match end {
            End::Stopped => {
                let limit = LIMIT.as_secs();
                for case in in_flight(text, &passed, threads) {
                    let problem = format!("{case} hangs: the run was stopped after {limit} s");
                    column.problems.push(problem);
                }
            }
            End::Failed if column.holds() => {
                let problem = "every case passed, and the run ended with an error";
                column.problems.push(problem.to_owned());
            }
            End::Failed | End::Well => {}
        }
        columns.push(column);
    }
    let matrix = Matrix { columns, left_out };
    write_json(&metadata, "conformance.json", &matrix.json())?;
    Ok(matrix)
}

/// Runs the suite against wrong stores, each of which it must find out, and
/// writes `sabotage.json` into the build folder; answers whether it did.
///
/// # Errors
///
/// [`Error::Metadata`] and [`Error::Task`] where it cannot be built or started.
pub fn sabotage(root: &Path) -> Result<bool, Error> {
    let report = metadata(root)?.target_directory.join("sabotage.json");
    let status = cargo(root)
        // Some 80,000 cases: what it takes to optimise them pays.
        .args(["run", "--quiet", "--release", "--package", "folio-testkit"])
        .args(["--example", "sabotage", "--", "--json"])
        .arg(report)
        .status();
    Ok(started(status, "sabotage")?.success())
}

fn metadata(root: &Path) -> Result<Metadata, Error> {
    Ok(MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()?)
}

fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

fn started<T>(done: std::io::Result<T>, what: &str) -> Result<T, Error> {
    done.map_err(|error| Error::Task(format!("{what} could not be started: {error}")))
}

/// The adapters that are left out and those that are not, the reference first.
fn adapters(metadata: &Metadata, without: &[&str]) -> Result<(Vec<String>, Vec<String>), Error> {
    let mut names: Vec<String> = Vec::new();
    for package in &metadata.packages {
        if declared_layer(package) != Ok(Layer::Adapter) {
            continue;
        }
        if !package.targets.iter().any(is_suite) {
            let message = format!(
                "{} has no test `{TARGET}`: an adapter runs it",
                package.name
            );
            return Err(Error::Task(message));
        }
        names.push(package.name.to_string());
    }
    names.sort_by_key(|name| (name != REFERENCE_ADAPTER, name.clone()));
    if let Some(unknown) = without
        .iter()
        .find(|name| !names.iter().any(|n| n == **name))
    {
        let known = names.join(", ");
        return Err(Error::Task(format!(
            "there is no adapter {unknown}: the adapters are {known}"
        )));
    }
    if without.contains(&REFERENCE_ADAPTER) {
        return Err(Error::Task(format!(
            "{REFERENCE_ADAPTER} cannot be left out: its list is the suite"
        )));
    }
    Ok(names
        .into_iter()
        .partition(|name| without.contains(&name.as_str())))
}

fn is_suite(target: &Target) -> bool {
    target.is_test() && target.name == TARGET
}

/// Builds the suites; answers the binary of each adapter, in their order.
fn build(metadata: &Metadata, adapters: &[String]) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut command = cargo(metadata.workspace_root.as_std_path());
    command.args(["test", "--no-run", "--test", TARGET]);
    command.arg("--message-format=json-render-diagnostics");
    for adapter in adapters {
        command.args(["--package", adapter]);
    }
    let mut child = started(command.stdout(Stdio::piped()).spawn(), "cargo")?;
    let mut found = BTreeMap::new();
    if let Some(out) = child.stdout.take() {
        for message in Message::parse_stream(BufReader::new(out)) {
            let Ok(Message::CompilerArtifact(artifact)) = message else {
                continue;
            };
            let Some(binary) = artifact.executable.filter(|_| is_suite(&artifact.target)) else {
                continue;
            };
            let folder = artifact.manifest_path.parent().map(ToOwned::to_owned);
            found.insert(folder, binary.into_std_path_buf());
        }
    }
    if !started(child.wait(), "cargo")?.success() {
        return Err(Error::Task("the suites do not build".to_owned()));
    }
    adapters
        .iter()
        .map(|adapter| {
            let package = metadata.packages.iter().find(|of| of.name == *adapter);
            let folder = package.map(|package| package.manifest_path.parent());
            let binary = found.get(&folder.flatten().map(ToOwned::to_owned));
            let binary = binary
                .ok_or_else(|| Error::Task(format!("cargo built no `{TARGET}` of {adapter}")))?;
            Ok((adapter.clone(), binary.clone()))
        })
        .collect()
}

/// How a run of a suite ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By itself, and it says that all is well.
    Well,
    /// By itself, and it says that something is not.
    Failed,
    /// Its time was up.
    Stopped,
}

/// Runs an adapter's suite for a limited time; answers whether each case
/// passed, and how the run ended.
fn outcomes(
    mut command: Command,
    adapter: &str,
    limit: Duration,
) -> Result<(BTreeMap<String, bool>, End), Error> {
    let deadline = Instant::now() + limit;
    let mut child = started(command.stdout(Stdio::piped()).spawn(), adapter)?;
    let mut passed = BTreeMap::new();
    let mut stopped = false;
    if let Some(out) = child.stdout.take() {
        let (told, lines) = mpsc::channel();
        // A line may never come, so somebody else waits for it.
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.map_while(|line| told.send(line).ok()).for_each(drop);
        });
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) => passed.extend(outcome(&line)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    stopped = true;
                    started(child.kill(), adapter)?;
                    break;
                }
            }
        }
    }
    let ended_well = started(child.wait(), adapter)?.success();
    let end = match (stopped, ended_well) {
        (true, _) => End::Stopped,
        (false, true) => End::Well,
        (false, false) => End::Failed,
    };
    Ok((passed, end))
}

/// The outcome of a case, if a line of the run tells one.
#[must_use]
pub fn outcome(line: &str) -> Option<(String, bool)> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event.get("type")? != "test" {
        return None;
    }
    let ok = match event.get("event")?.as_str()? {
        "ok" => true,
        "failed" => false,
        _ => return None,
    };
    Some((event.get("name")?.as_str()?.to_owned(), ok))
}

fn write_json(metadata: &Metadata, name: &str, value: &Value) -> Result<(), Error> {
    let path = metadata.target_directory.join(name).into_std_path_buf();
    std::fs::write(&path, format!("{value:#}\n")).map_err(|error| Error::io(&path, error))
}

#[cfg(test)]
mod tests;
