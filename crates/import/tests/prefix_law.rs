//! Importing a prefix of a file and then the whole gives what importing the
//! whole at once gives: same events, same chains, same rows.

mod common;

use common::Bytes;
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most lines at which one file is cut.
const LINES: usize = 60;

#[derive(Default)]
struct Totals {
    files: AtomicU64,
    cuts: AtomicU64,
    differences: AtomicU64,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let totals = Arc::new(Totals::default());
    let files = common::shared().and_then(|shared| common::files(&shared));
    let trials = match files {
        Ok(mut files) => {
            // The largest first: the threads end together.
            files.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.as_ref().len()));
            files
                .into_iter()
                .map(|(name, bytes)| {
                    let totals = Arc::clone(&totals);
                    Trial::test(format!("claude_code/{name}"), move || {
                        common::block_on(holds(&name, &bytes, &totals))
                            .and_then(|result| result)
                            .map_err(Failed::from)
                    })
                })
                .collect()
        }
        Err(why) => {
            eprintln!("prefix_law is ignored: {why}");
            let name = format!("claude_code ({why})");
            vec![Trial::test(name, || Ok(())).with_ignored_flag(true)]
        }
    };
    let conclusion = libtest_mimic::run(&arguments, trials);
    let total = |number: &AtomicU64| number.load(Ordering::Relaxed);
    if total(&totals.files) > 0 {
        println!(
            "prefix law: {} files, {} cuts, {} differences",
            total(&totals.files),
            total(&totals.cuts),
            total(&totals.differences)
        );
    }
    conclusion.exit_code()
}

/// The cuts of a file: at lines, and one and 17 bytes before each.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', bytes).map(|at| at + 1).collect();
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

async fn holds(name: &str, bytes: &Bytes, totals: &Totals) -> Result<(), String> {
    let store = folio_testkit::memory_store();
    let whole = common::import(&store, name, bytes.clone()).await?;
    let id = whole.session_id.clone().ok_or("no session")?;
    let expected = common::state(&store, &id).await?;
    let again = common::import(&store, name, bytes.clone()).await?;
    if again.outcome.as_str() != "unchanged" || common::state(&store, &id).await? != expected {
        return Err(format!("imported twice: {}", again.to_json()));
    }
    totals.files.fetch_add(1, Ordering::Relaxed);
    let mut differences = Vec::new();
    // What an import does depends on what is stored and on the source, so a
    // state that was carried on once need not be carried on again.
    let mut carried_on = HashSet::new();
    for cut in cuts(bytes.as_ref()) {
        totals.cuts.fetch_add(1, Ordering::Relaxed);
        let store = folio_testkit::memory_store();
        let part = common::import(&store, name, bytes.prefix(cut)).await?;
        let word = part.outcome.as_str();
        if word == "skipped" || (word == "rejected" && part.session_id.is_none()) {
            continue;
        }
        if part.session_id.as_ref() != Some(&id) || word != "imported" {
            differences.push(format!("cut at {cut}: {}", part.to_json()));
            continue;
        }
        if !carried_on.insert(common::state(&store, &id).await?) {
            continue;
        }
        let grown = common::import(&store, name, bytes.clone()).await?;
        let state = common::state(&store, &id).await?;
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
