//! The translation of real Claude Code sessions, against independently counted
//! numbers and against itself.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in its helpers"
)]

mod common;

use folio_core::{CanonicalEvent, Content, Fact, Role, RuntimeEvent, SessionId};
use folio_import::claude_code::{Detection, Increment, Translation, Translator, detect, identify};
use folio_import::lines::Lines;
use libtest_mimic::{Arguments, Trial};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::ExitCode;

/// A test, given the folder of the shared material.
type Test = fn(&Path);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: [(&str, Test); 7] = [
        (
            "counts_agree_with_the_ground_truth",
            counts_agree_with_the_ground_truth,
        ),
        (
            "every_record_is_kept_once_and_every_run_is_well_formed",
            every_record_is_kept_once_and_every_run_is_well_formed,
        ),
        (
            "records_can_be_told_from_their_events",
            records_can_be_told_from_their_events,
        ),
        (
            "sessions_are_recognized_and_other_files_are_not",
            sessions_are_recognized_and_other_files_are_not,
        ),
        ("a_prefix_gives_a_prefix", a_prefix_gives_a_prefix),
        (
            "a_finish_is_repeated_where_it_was_made",
            a_finish_is_repeated_where_it_was_made,
        ),
        (
            "the_manifest_names_the_rows_of_the_events",
            the_manifest_names_the_rows_of_the_events,
        ),
    ];
    let shared = common::shared();
    if let Err(why) = &shared {
        eprintln!("claude_code is ignored: {why}");
    }
    let trials = tests.into_iter().map(|(name, test)| match &shared {
        Ok(shared) => {
            let shared = shared.clone();
            Trial::test(name, move || {
                test(&shared);
                Ok(())
            })
        }
        Err(why) => Trial::test(format!("{name} ({why})"), || Ok(())).with_ignored_flag(true),
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn files(shared: &Path) -> Vec<(String, Vec<u8>)> {
    let files = common::files(shared).unwrap();
    let owned = |(name, bytes): (String, common::Bytes)| (name, bytes.as_ref().to_vec());
    files.into_iter().map(owned).collect()
}

fn start(finishes: &[u64]) -> Translator {
    Translator::new(SessionId::new("s").unwrap(), "stem", finishes)
}

fn feed(translator: &mut Translator, bytes: &[u8]) -> Increment {
    let mut out = Increment::default();
    let mut lines = Lines::new(bytes);
    while let Some(line) = lines.next_line().unwrap() {
        translator.push(&line, &mut out);
    }
    out
}

fn translate(bytes: &[u8], finishes: &[u64]) -> (Increment, Translation) {
    let mut translator = start(finishes);
    let out = feed(&mut translator, bytes);
    (out, translator.summary())
}

fn canonical(events: &[RuntimeEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| {
            CanonicalEvent::new(event)
                .unwrap_or_else(|error| panic!("{}: {error}", event.id))
                .to_json(&event.session_id)
        })
        .collect()
}

fn counts(events: &[RuntimeEvent]) -> BTreeMap<&'static str, u64> {
    let mut n: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut messages = BTreeSet::new();
    let (mut calls, mut results) = (BTreeSet::new(), BTreeMap::new());
    let mut usage: HashMap<String, [u64; 4]> = HashMap::new();
    for event in events {
        let refs = event.refs.as_ref();
        let message =
            refs.and_then(|refs| refs.provider_event_id.as_ref().or(refs.step_id.as_ref()));
        if event.role == Role::Model
            && let Some(message) = message
        {
            messages.insert(message.as_str().to_owned());
        }
        match &event.content {
            Some(Content::Text(text)) if event.role == Role::User => {
                let human = text.origin.is_none() && text.steering.is_none();
                *n.entry("user_messages").or_default() += u64::from(human);
            }
            Some(Content::Thinking(_)) => *n.entry("thinking_blocks").or_default() += 1,
            Some(Content::FunctionCall(call)) if call.provider_executed.is_none() => {
                calls.insert(call.id.as_str().to_owned());
            }
            Some(Content::FunctionResponse(result)) if result.provider_executed.is_none() => {
                let failed = result.is_error == Some(true);
                results.insert(result.id.as_str().to_owned(), failed);
            }
            _ => {}
        }
        if let Some(used) = event.actions.as_ref().and_then(|a| a.token_usage.as_ref()) {
            let used = used.as_object().unwrap();
            let get = |name| used.integer(name).unwrap();
            assert_eq!(
                get("input"),
                get("cacheHitInput") + get("cacheMissInput") + get("cacheWriteInput")
            );
            usage.insert(
                message.unwrap().as_str().to_owned(),
                [
                    "cacheMissInput",
                    "output",
                    "cacheWriteInput",
                    "cacheHitInput",
                ]
                .map(get),
            );
        }
    }
    n.insert("assistant_messages", messages.len() as u64);
    n.insert("tool_calls", calls.len() as u64);
    n.insert("tool_results", results.len() as u64);
    n.insert(
        "tool_results_error",
        results.values().filter(|f| **f).count() as u64,
    );
    let orphans = results.keys().filter(|id| !calls.contains(*id)).count();
    n.insert("orphan_tool_results", orphans as u64);
    let open = calls.iter().filter(|id| !results.contains_key(*id)).count();
    n.insert("unanswered_tool_calls", open as u64);
    for (at, name) in [
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ]
    .into_iter()
    .enumerate()
    {
        n.insert(name, usage.values().map(|used| used[at]).sum());
    }
    n
}

fn counts_agree_with_the_ground_truth(shared: &Path) {
    let text = std::fs::read_to_string(shared.join("data/ground-truth.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (mut fields, mut differ) = (0, Vec::new());
    for (name, bytes) in files(shared) {
        let (out, _) = translate(&bytes, &[]);
        let counted = counts(&out.events);
        let truth = &truth[format!("claude-code/{name}")];
        for field in [
            "user_messages",
            "assistant_messages",
            "thinking_blocks",
            "tool_calls",
            "tool_results",
            "tool_results_error",
            "orphan_tool_results",
            "unanswered_tool_calls",
            "input_tokens",
            "output_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ] {
            let expected = truth.get(field).or_else(|| truth["usage"].get(field));
            let expected = expected.and_then(serde_json::Value::as_u64).unwrap();
            let found = counted.get(field).copied().unwrap_or_default();
            fields += 1;
            if found != expected {
                println!("{name} {field}: truth {expected}, counted {found}");
                differ.push(name.clone());
            }
        }
        let refusals = out.events.iter().filter(|e| {
            e.actions
                .as_ref()
                .is_some_and(|a| a.permission_decision.is_some())
        });
        let expected = truth["tool_results_user_rejected"].as_u64().unwrap();
        assert_eq!(refusals.count() as u64, expected, "{name}: refusals");
    }
    println!("{} of {fields} fields agree", fields - differ.len());
    // Repeated lines and single specimens: their numbers count a repeated id
    // again, and parts without ids.
    differ.retain(|name| {
        name != "cc-derived-dup-lines.jsonl" && name != "cc-record-gallery-2.1.220.jsonl"
    });
    assert_eq!(differ, Vec::<String>::new());
}

fn every_record_is_kept_once_and_every_run_is_well_formed(shared: &Path) {
    for (name, bytes) in files(shared) {
        let (out, summary) = translate(&bytes, &[]);
        canonical(&out.events);
        let mut ids = BTreeSet::new();
        let mut runs: HashMap<&str, (&str, &str, bool)> = HashMap::new();
        let mut sources = 0;
        for event in &out.events {
            assert!(ids.insert(event.id.as_str()), "{name}: {} twice", event.id);
            let run = event.run_id.as_str();
            let opens = matches!(event.content, Some(Content::RunOpened(_)));
            assert_eq!(opens, !runs.contains_key(run), "{name}: {}", event.id);
            let spine = (event.turn_id.as_str(), event.invocation_id.as_str(), false);
            let known = runs.entry(run).or_insert(spine);
            assert_eq!(
                (known.0, known.1),
                (spine.0, spine.1),
                "{name}: {}",
                event.id
            );
            assert!(!known.2, "{name}: {} after the end of its run", event.id);
            known.2 = event.is_terminal();
            sources += u64::from(event.unknown.get("source").is_some());
        }
        let mut notes = BTreeSet::new();
        for note in &out.notes {
            assert!(
                notes.insert(note.id.as_str()),
                "{name}: note {} twice",
                note.id
            );
            let text = note.canonical();
            assert_eq!(&Fact::from_json(&text).unwrap(), note);
        }
        assert_eq!(sources + out.notes.len() as u64, summary.items, "{name}");
        assert_eq!(summary.events, out.events.len() as u64);
        assert!(summary.session_id.is_some(), "{name} has no session id");
        let found = identify(&bytes[..], "stem").unwrap();
        assert_eq!(found.session_id, summary.session_id, "{name}");
    }
}

/// The record of each event with its holes filled again is the record that
/// stands in the file.
fn records_can_be_told_from_their_events(shared: &Path) {
    for (name, bytes) in files(shared) {
        let (out, _) = translate(&bytes, &[]);
        let mut by_id: HashMap<&str, serde_json::Value> = HashMap::new();
        for event in &out.events {
            let json = canonical(std::slice::from_ref(event)).remove(0);
            by_id.insert(event.id.as_str(), serde_json::from_str(&json).unwrap());
        }
        let mut found = Vec::new();
        for event in &out.events {
            let value = &by_id[event.id.as_str()];
            let Some(source) = value.get("source") else {
                continue;
            };
            let mut source = source.clone();
            let r = event.id.as_str().strip_suffix("-0").unwrap();
            for hole in value
                .get("sourceHoles")
                .and_then(|h| h.as_array())
                .into_iter()
                .flatten()
            {
                let holder = &by_id[format!("{r}-{}", hole[1]).as_str()];
                let path = format!("/{}", hole[2].as_str().unwrap().replace('.', "/"));
                let slot = source.pointer_mut(hole[0].as_str().unwrap()).unwrap();
                assert!(slot.is_null());
                *slot = holder.pointer(&path).expect(&path).clone();
                assert!(!slot.is_null());
            }
            found.push(source.to_string());
        }
        for note in &out.notes {
            let text = note.data.as_ref().unwrap().as_str();
            found.push(
                serde_json::from_str::<serde_json::Value>(text)
                    .unwrap()
                    .to_string(),
            );
        }
        let mut expected = Vec::new();
        for line in bytes
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(&bytes)
            .split(|b| *b == b'\n')
        {
            let values =
                serde_json::Deserializer::from_slice(line).into_iter::<serde_json::Value>();
            expected.extend(values.map_while(Result::ok).map(|v| v.to_string()));
        }
        found.sort();
        expected.sort();
        assert_eq!(found.len(), expected.len(), "{name}");
        assert!(found == expected, "{name}: a record differs");
    }
}

fn sessions_are_recognized_and_other_files_are_not(shared: &Path) {
    for folder in std::fs::read_dir(shared.join("data")).unwrap() {
        let folder = folder.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let ours = folder.ends_with("claude-code");
        for path in std::fs::read_dir(&folder).unwrap() {
            let path = path.unwrap().path();
            if let Ok(bytes) = std::fs::read(&path) {
                let found = detect(&bytes[..]).unwrap();
                assert_eq!(found == Detection::Session, ours, "{}", path.display());
            }
        }
    }
}

fn is_prefix<T: PartialEq + std::fmt::Debug>(name: &str, cut: usize, part: &[T], whole: &[T]) {
    assert!(part.len() <= whole.len(), "{name} cut at {cut}");
    for (at, (a, b)) in part.iter().zip(whole).enumerate() {
        assert!(a == b, "{name} cut at {cut}, entry {at}:\n{a:?}\n{b:?}");
    }
}

/// The part ends where the whole went on, digest of the source included.
fn a_prefix_gives_a_prefix(shared: &Path) {
    let files = files(shared);
    std::thread::scope(|scope| {
        for (name, bytes) in &files {
            scope.spawn(move || prefixes(name, bytes));
        }
    });
}

fn prefixes(name: &str, bytes: &[u8]) {
    let (whole, _) = translate(bytes, &[]);
    let whole_events = canonical(&whole.events);
    let mut cuts: Vec<usize> = memchr::memchr_iter(b'\n', bytes).map(|at| at + 1).collect();
    let step = (cuts.len() / 60).max(1);
    cuts = cuts.into_iter().step_by(step).collect();
    let extra: Vec<usize> = cuts
        .iter()
        .flat_map(|at| [at.saturating_sub(1), at.saturating_sub(17)])
        .collect();
    cuts.extend(extra);
    // One pass at every line, kept as digests, shows each state on the way.
    let mut running = start(&[]);
    let mut states = HashMap::new();
    let mut lines = Lines::new(bytes);
    let mut ignored = Increment::default();
    while let Some(line) = lines.next_line().unwrap() {
        for item in line.items() {
            running.push_item(&item, &mut ignored);
            states.insert(running.items(), running.source_digest());
        }
    }
    for cut in cuts {
        let (part, summary) = translate(&bytes[..cut], &[]);
        is_prefix(name, cut, &canonical(&part.events), &whole_events);
        is_prefix(name, cut, &part.notes, &whole.notes);
        if summary.items > 0 {
            assert_eq!(
                states.get(&summary.items),
                Some(&summary.source_digest),
                "{name} {cut}"
            );
        }
    }
}

fn a_finish_is_repeated_where_it_was_made(shared: &Path) {
    for (name, bytes) in files(shared) {
        let feeds: Vec<usize> = memchr::memchr_iter(b'\n', &bytes)
            .map(|at| at + 1)
            .collect();
        for cut in feeds.iter().copied().step_by((feeds.len() / 8).max(1)) {
            let mut translator = start(&[]);
            let mut part = feed(&mut translator, &bytes[..cut]);
            translator.finish(&mut part);
            let stored = translator.summary();
            let (whole, summary) = translate(&bytes, &stored.finishes);
            assert_eq!(summary.finishes, stored.finishes);
            is_prefix(
                &name,
                cut,
                &canonical(&part.events),
                &canonical(&whole.events),
            );
            is_prefix(&name, cut, &part.notes, &whole.notes);
            let open: BTreeSet<&str> = part.events.iter().map(|e| e.run_id.as_str()).collect();
            let ended = part
                .events
                .iter()
                .filter(|event| event.is_terminal())
                .count();
            assert_eq!(open.len(), ended, "{name} cut at {cut}");
        }
    }
}

/// The source's id, how often it occurred before, and the digest of the text.
type Row = (String, usize, [u8; 32]);

fn digest(text: &str) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(text.as_bytes()).into()
}

/// A second, plain reading of the events gives the rows that the manifest
/// drew up from the records.
fn the_manifest_names_the_rows_of_the_events(shared: &Path) {
    for (name, bytes) in files(shared) {
        let mut translator = start(&[]);
        let mut out = feed(&mut translator, &bytes);
        translator.finish(&mut out);
        let summary = translator.summary();
        let mut children = BTreeSet::new();
        let mut rows: BTreeMap<&str, BTreeSet<Row>> = BTreeMap::new();
        let mut many: HashMap<(&str, String), usize> = HashMap::new();
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        let mut usage: HashMap<String, [u64; 4]> = HashMap::new();
        for event in &out.events {
            if let Some(Content::RunOpened(opened)) = &event.content
                && let Some(lineage) = opened
                    .lineage
                    .as_ref()
                    .and_then(folio_core::Json::as_object)
                && lineage.get("parentRunId").is_some()
            {
                children.insert(event.run_id.clone());
            }
            if children.contains(&event.run_id) {
                continue;
            }
            let r = event.id.as_str().rsplit_once('-').unwrap().0.to_owned();
            let refs = event.refs.clone();
            let message = refs.and_then(|refs| refs.provider_event_id.map(|id| id.to_string()));
            let mut add = |kind: &'static str, id: String, text: &str| {
                let n = many.entry((kind, id.clone())).or_default();
                *n += 1;
                rows.entry(kind).or_default().insert((id, *n, digest(text)));
            };
            match &event.content {
                Some(Content::Text(text)) if event.role == Role::User => {
                    add("user", r.clone(), &text.text);
                }
                Some(Content::Text(text)) => {
                    texts
                        .entry(message.clone().unwrap())
                        .or_default()
                        .push_str(&text.text);
                }
                Some(Content::Thinking(thinking)) if !thinking.text.is_empty() => {
                    texts.entry(message.clone().unwrap()).or_default();
                }
                Some(Content::FunctionCall(call)) => {
                    add("tool_call", call.id.to_string(), call.args.as_str());
                }
                Some(Content::FunctionResponse(response)) => {
                    let result = response.result.inline().unwrap().as_object().unwrap();
                    let text = result
                        .text("text")
                        .unwrap_or_else(|| result.get("value").unwrap().into());
                    add("tool_result", response.id.to_string(), &text);
                }
                Some(Content::Compaction(compaction)) => {
                    let summary = compaction.summary.clone().unwrap_or_default();
                    add("system_note", r.clone(), &summary);
                }
                _ => {}
            }
            if let Some(actions) = &event.actions {
                if let Some(decision) = &actions.permission_decision {
                    let id = decision
                        .as_object()
                        .unwrap()
                        .text("requestId")
                        .unwrap()
                        .into_owned();
                    add("permission_decision", id, "deny");
                }
                if let Some(used) = &actions.token_usage {
                    let used = used.as_object().unwrap();
                    usage.insert(
                        message.unwrap(),
                        [
                            "cacheMissInput",
                            "output",
                            "cacheHitInput",
                            "cacheWriteInput",
                        ]
                        .map(|name| used.integer(name).unwrap()),
                    );
                }
            }
            if let Some(status) = event.status.filter(|status| status.is_terminal()) {
                let n = many.entry(("turn_state", r.clone())).or_default();
                *n += 1;
                let row = (r, *n, digest(status.as_str()));
                rows.entry("turn_state").or_default().insert(row);
            }
        }
        for (id, text) in texts {
            rows.entry("assistant")
                .or_default()
                .insert((id, 1, digest(&text)));
        }
        for note in out.notes.iter().filter(|note| note.visible) {
            let text = note.data.as_ref().unwrap().as_str();
            let row = (note.id.to_string(), 1, digest(text));
            rows.entry("system_note").or_default().insert(row);
        }
        let mut expected: BTreeMap<&str, BTreeSet<Row>> = BTreeMap::new();
        let mut many: HashMap<(&str, &str), usize> = HashMap::new();
        for entry in &summary.manifest.entries {
            let n = many.entry((entry.kind, &entry.source_id)).or_default();
            *n += 1;
            if entry.kind == "token_usage" {
                assert_eq!(usage.remove(&entry.source_id), entry.usage, "{name}");
                continue;
            }
            let row = (entry.source_id.clone(), *n, entry.digest);
            expected.entry(entry.kind).or_default().insert(row);
        }
        assert!(usage.is_empty(), "{name}: {usage:?}");
        assert_eq!(rows, expected, "{name}");
    }
}
