//! Imports every Claude Code session file of the shared material, each into a
//! fresh store, and compares the counts with independently made ones.
//!
//! Known differences are listed with their reasons in
//! `docs/import-ground-truth.md`; a difference that is not listed there, or a
//! listed one that is gone, fails the test.

use crate::common::{self, Kind};
use folio_projector::Stats;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

type Count = fn(&Stats) -> u64;

/// The fields of the ground truth, and the same numbers of the session.
const FIELDS: [(&str, Count); 12] = [
    ("user_messages", |stats| stats.user_messages),
    ("assistant_messages", |stats| stats.assistant_messages),
    ("thinking_blocks", |stats| stats.thinking_blocks),
    ("tool_calls", |stats| stats.tool_calls),
    ("tool_results", |stats| stats.tool_results),
    ("tool_results_error", |stats| stats.tool_errors),
    ("orphan_tool_results", |stats| stats.orphan_tool_results),
    ("unanswered_tool_calls", |stats| stats.unanswered_tool_calls),
    ("usage.input_tokens", |stats| stats.usage.input),
    ("usage.output_tokens", |stats| stats.usage.output),
    ("usage.cache_creation_input_tokens", |stats| {
        stats.usage.cache_write
    }),
    ("usage.cache_read_input_tokens", |stats| {
        stats.usage.cache_read
    }),
];

type Difference = (String, String);

/// Runs the comparison on each kind of store.
pub fn run(kinds: &[Kind]) -> ExitCode {
    let arguments = Arguments::from_args();
    let shared = common::shared();
    if let Err(why) = &shared {
        eprintln!("ground_truth is ignored: {why}");
    }
    let trials = kinds
        .iter()
        .map(|&kind| {
            let name = format!(
                "claude_code/{}/counts_agree_with_the_ground_truth",
                kind.name
            );
            match shared.clone() {
                Ok(shared) => {
                    Trial::test(name, move || compare(&shared, kind).map_err(Failed::from))
                }
                Err(why) => {
                    Trial::test(format!("{name} ({why})"), || Ok(())).with_ignored_flag(true)
                }
            }
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn compare(shared: &Path, kind: Kind) -> Result<(), String> {
    let truth = read(&shared.join("data/ground-truth.json"))?;
    let truth: Value = serde_json::from_str(&truth).map_err(|error| error.to_string())?;
    let mut known = known()?;
    let store = kind.name;
    let (mut agree, mut explained, mut unexplained, mut fields) = (0, 0, 0, 0);
    for (name, bytes) in common::files(shared)? {
        let stats = common::block_on(stats(kind, &name, bytes))??;
        let truth = &truth[format!("claude-code/{name}")];
        for (field, counted) in FIELDS {
            let expected = field
                .split('.')
                .fold(truth, |value, member| &value[member])
                .as_u64()
                .ok_or_else(|| format!("{name}: the ground truth has no {field}"))?;
            let counted = counted(&stats);
            fields += 1;
            let listed = known.remove(&(name.clone(), field.to_owned()));
            match listed {
                None if counted == expected => agree += 1,
                Some((t, c, why)) if (t, c) == (expected, counted) => {
                    explained += 1;
                    println!("{store}: explained: {name} {field}: truth {t}, counted {c}: {why}");
                }
                _ => {
                    unexplained += 1;
                    println!(
                        "{store}: UNEXPLAINED: {name} {field}: truth {expected}, counted {counted}"
                    );
                }
            }
        }
    }
    println!(
        "{store}: agree {agree} of {fields}; explained {explained}; unexplained {unexplained}"
    );
    if unexplained > 0 {
        return Err(format!("{unexplained} differences are not explained"));
    }
    if !known.is_empty() {
        return Err(format!("listed, and not there: {:?}", known.keys()));
    }
    Ok(())
}

async fn stats(kind: Kind, name: &str, bytes: common::Bytes) -> Result<Stats, String> {
    let opened = (kind.open)()?;
    let store = &opened.store;
    let outcome = common::import(store, name, bytes).await?;
    if outcome.outcome.as_str() != "imported" {
        return Err(outcome.to_json());
    }
    let id = outcome.session_id.ok_or("imported without a session")?;
    let stats = Stats::of(&**store, &id)
        .await
        .map_err(|error| error.to_string())?;
    let rows: u64 = stats.rows.values().sum();
    if (stats.events, rows) != (outcome.events_added, outcome.row_count) {
        return Err(format!(
            "{name}: {} events and {rows} rows in the store, {} and {} told",
            stats.events, outcome.events_added, outcome.row_count
        ));
    }
    Ok(stats)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The table of known differences: file, field, truth, counted, reason.
fn known() -> Result<BTreeMap<Difference, (u64, u64, String)>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/import-ground-truth.md");
    let mut known = BTreeMap::new();
    for line in read(&path)?.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let [_, file, field, truth, counted, why, _] = cells[..]
            && let (Ok(truth), Ok(counted)) = (truth.parse(), counted.parse())
        {
            let key = (
                file.trim_matches('`').to_owned(),
                field.trim_matches('`').to_owned(),
            );
            known.insert(key, (truth, counted, why.to_owned()));
        }
    }
    Ok(known)
}
