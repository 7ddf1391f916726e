//! Importing a prefix of a file and then the whole gives what importing the
//! whole at once gives: same events, same chains, same rows.
//!
//! With `FOLIO_PREFIX_CUTS=all` every cut is made on every store.

use crate::common::{self, Bytes, Kind};
use folio_testkit::workload::Random;
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most lines at which one file is cut.
const LINES: usize = 60;
/// Up to this many bytes, a file is cut behind every line in every run.
const SMALL: usize = 32 << 10;
/// One cut of so many is in a sample.
const ONE_IN: usize = 10;

/// Which of the cuts are made.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each test uses one of them")]
pub enum Cuts {
    /// All of them.
    All,
    /// Those behind each line of small files, and a sample of the others that
    /// is the same in every run.
    Sample,
}

#[derive(Default)]
struct Totals {
    files: AtomicU64,
    cuts: AtomicU64,
    of: AtomicU64,
    differences: AtomicU64,
}

/// Runs the law over every file, on each kind of store.
pub fn run(kinds: &[(Kind, Cuts)]) -> ExitCode {
    let arguments = Arguments::from_args();
    let files = common::shared().and_then(|shared| common::files(&shared));
    if let Err(why) = &files {
        eprintln!("prefix_law is ignored: {why}");
    }
    let mut trials = Vec::new();
    let mut all_totals = Vec::new();
    let every = std::env::var("FOLIO_PREFIX_CUTS").is_ok_and(|cuts| cuts == "all");
    for &(kind, which) in kinds {
        let which = if every { Cuts::All } else { which };
        let mut files = match files.clone() {
            Ok(files) => files,
            Err(why) => {
                let name = format!("claude_code/{} ({why})", kind.name);
                trials.push(Trial::test(name, || Ok(())).with_ignored_flag(true));
                continue;
            }
        };
        let totals = Arc::new(Totals::default());
        all_totals.push((kind.name, Arc::clone(&totals)));
        // The largest first: the threads end together.
        files.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.as_ref().len()));
        trials.extend(files.into_iter().map(|(name, bytes)| {
            let totals = Arc::clone(&totals);
            Trial::test(format!("claude_code/{}/{name}", kind.name), move || {
                common::block_on(holds(kind, which, &name, &bytes, &totals))
                    .and_then(|result| result)
                    .map_err(Failed::from)
            })
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let total = |number: &AtomicU64| number.load(Ordering::Relaxed);
    for (name, totals) in all_totals {
        if total(&totals.files) > 0 {
            println!(
                "prefix law on {name}: {} files, {} of {} cuts, {} differences",
                total(&totals.files),
                total(&totals.cuts),
                total(&totals.of),
                total(&totals.differences)
            );
        }
    }
    conclusion.exit_code()
}

/// The cuts of a file: at lines, and one and 17 bytes before each.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let ends = line_ends(bytes);
    let step = ends.len().div_ceil(LINES).max(1);
    let mut cuts: Vec<usize> = ends
        .into_iter()
        .step_by(step)
        .flat_map(|at| [at, at.saturating_sub(1), at.saturating_sub(17)])
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

fn line_ends(bytes: &[u8]) -> Vec<usize> {
    memchr::memchr_iter(b'\n', bytes).map(|at| at + 1).collect()
}

/// One in [`ONE_IN`] of the cuts of a file, rounded up, and each line's end
/// where the file is small.
fn sample(bytes: &[u8], mut cuts: Vec<usize>) -> Vec<usize> {
    let mut random = Random::new(bytes.len() as u64);
    let mut sample = Vec::new();
    for _ in 0..cuts.len().div_ceil(ONE_IN) {
        sample.push(cuts.swap_remove(random.below(cuts.len())));
    }
    if bytes.len() <= SMALL {
        sample.extend(line_ends(bytes));
    }
    sample.sort_unstable();
    sample.dedup();
    sample
}

async fn holds(
    kind: Kind,
    which: Cuts,
    name: &str,
    bytes: &Bytes,
    totals: &Totals,
) -> Result<(), String> {
    let opened = (kind.open)()?;
    let store = &opened.store;
    let whole = common::import(store, name, bytes.clone()).await?;
    let id = whole.session_id.clone().ok_or("no session")?;
    let expected = common::state(store, &id).await?;
    let again = common::import(store, name, bytes.clone()).await?;
    if again.outcome.as_str() != "unchanged" || common::state(store, &id).await? != expected {
        return Err(format!("imported twice: {}", again.to_json()));
    }
    totals.files.fetch_add(1, Ordering::Relaxed);
    let mut differences = Vec::new();
    // What an import does depends on what is stored and on the source, so a
    // state that was carried on once need not be carried on again.
    let mut carried_on = HashSet::new();
    let mut cuts = cuts(bytes.as_ref());
    totals.of.fetch_add(cuts.len() as u64, Ordering::Relaxed);
    if which == Cuts::Sample {
        cuts = sample(bytes.as_ref(), cuts);
    }
    for cut in cuts {
        totals.cuts.fetch_add(1, Ordering::Relaxed);
        let opened = (kind.open)()?;
        let store = &opened.store;
        let part = common::import(store, name, bytes.prefix(cut)).await?;
        let word = part.outcome.as_str();
        if word == "skipped" || (word == "rejected" && part.session_id.is_none()) {
            continue;
        }
        if part.session_id.as_ref() != Some(&id) || word != "imported" {
            differences.push(format!("cut at {cut}: {}", part.to_json()));
            continue;
        }
        if !carried_on.insert(common::state(store, &id).await?) {
            continue;
        }
        let grown = common::import(store, name, bytes.clone()).await?;
        let state = common::state(store, &id).await?;
        let told = (part.events_added + grown.events_added, grown.row_count);
        if state != expected || told != (whole.events_added, whole.row_count) {
            differences.push(format!(
                "cut at {cut}: {state:?} instead of {expected:?}; {}",
                grown.to_json()
            ));
        }
    }
    let count = differences.len() as u64;
    totals.differences.fetch_add(count, Ordering::Relaxed);
    match differences.first() {
        None => Ok(()),
        Some(first) => Err(format!("{count} differences; {first}")),
    }
}
