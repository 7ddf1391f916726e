//! The commands end to end, on the bundled sample sessions.

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::Stdio;
use support::{Place, generated, json_lines, samples};

const FERRY: &str = "305e7cd9-805a-47f7-83db-d9f6609380fd";
const SIDE: &str = "305e7cd9-805a-47f7-83db-d9f6609380fd-agent-a3be07d41c95f2680";
const ALL: [&str; 4] = [
    FERRY,
    SIDE,
    "5e6b69cf-edff-4f86-a759-1bc64d1fe295",
    "7328a73e-ab96-49b0-af75-7a158ada97ef",
];

fn imported() -> Place {
    let place = Place::new();
    place.import_samples();
    place
}

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

#[test]
fn import_reports_each_session_once_and_repeats_nothing() {
    let place = Place::new();
    let folder = samples();
    let folder = folder.to_str().expect("a path");
    let first = place.json(&["import", folder]);
    assert_eq!(first.len(), 4);
    for line in &first {
        assert_eq!(
            keys(line),
            [
                "path",
                "format",
                "session_id",
                "outcome",
                "events_added",
                "row_count",
                "children",
                "diagnostics",
                "diagnostics_total"
            ]
        );
        assert_eq!(line["outcome"], "imported");
        assert_eq!(line["format"], "claude-code");
        let id = line["session_id"].as_str().expect("an id");
        let stats = &place.json(&["stats", id])[0];
        assert_eq!(line["events_added"], stats["events"]);
        let rows = stats["rows"].as_object().expect("rows");
        let rows: u64 = rows.values().filter_map(Value::as_u64).sum();
        assert_eq!(line["row_count"], rows);
    }
    for line in place.json(&["import", folder]) {
        assert_eq!(line["outcome"], "unchanged");
        assert_eq!(line["events_added"], 0);
    }
    let listed = place.json(&["sessions"]);
    let ids: Vec<_> = listed
        .iter()
        .map(|line| line["session_id"].as_str())
        .collect();
    assert_eq!(ids, ALL.map(Some));
    assert_eq!(
        keys(&listed[0]),
        [
            "session_id",
            "authority",
            "followed",
            "events",
            "items",
            "created_at",
            "last_event_at",
            "title",
            "chain"
        ]
    );
}

#[test]
fn a_grown_file_adds_what_is_new() {
    let place = Place::new();
    let id = "0a0b0c0d-0000-4000-8000-000000000001";
    let whole = generated(id, 20, 50);
    let file = place.path("grown.jsonl");
    let path = file.to_str().expect("a path").to_owned();
    let half = whole.len() / 2;
    std::fs::write(&file, &whole[..half]).expect("half a file");
    assert_eq!(place.json(&["import", &path])[0]["outcome"], "imported");
    std::fs::write(&file, &whole).expect("a file");
    let grown = &place.json(&["import", &path])[0];
    assert_eq!(grown["outcome"], "grown");

    let other = Place::new();
    std::fs::write(other.path("grown.jsonl"), &whole).expect("a file");
    let path = other.path("grown.jsonl");
    other.ok(&["import", path.to_str().expect("a path")]);
    assert_eq!(place.json(&["events", id]), other.json(&["events", id]));
    assert_eq!(place.json(&["notes", id]), other.json(&["notes", id]));
}

#[test]
fn stats_keep_the_contract_and_survive_a_rebuild() {
    let place = imported();
    for id in ALL {
        let before = place.json(&["stats", id]);
        let stats = &before[0];
        assert_eq!(
            keys(stats),
            [
                "session_id",
                "events",
                "high_water",
                "rows",
                "user_messages",
                "assistant_messages",
                "thinking_blocks",
                "tool_calls",
                "tool_results",
                "tool_errors",
                "orphan_tool_results",
                "unanswered_tool_calls",
                "turns",
                "usage",
                "inherited",
                "compactions",
                "chain"
            ]
        );
        assert_eq!(
            keys(&stats["turns"]),
            [
                "total",
                "unprompted",
                "completed",
                "failed",
                "aborted",
                "open"
            ]
        );
        let usage = ["input", "output", "cache_read", "cache_write", "reasoning"];
        assert_eq!(keys(&stats["usage"]), usage);
        assert_eq!(
            keys(&stats["inherited"]),
            [
                "events",
                "user_messages",
                "assistant_messages",
                "tool_calls",
                "usage"
            ]
        );
        assert_eq!(keys(&stats["inherited"]["usage"]), usage);
        assert_eq!(stats["events"], stats["high_water"]);
        for kind in [
            "user",
            "assistant",
            "tool_call",
            "tool_result",
            "permission_decision",
            "token_usage",
            "turn_state",
            "system_note",
        ] {
            assert!(stats["rows"][kind].is_u64(), "{kind}");
        }
        assert_eq!(stats["chain"].as_str().map(str::len), Some(64));

        let rebuilt = &place.json(&["rebuild", id])[0];
        assert_eq!(
            keys(rebuilt),
            ["session_id", "version", "index_head", "head", "items"]
        );
        assert_eq!(rebuilt["index_head"], stats["events"]);
        assert_eq!(before, place.json(&["stats", id]));
    }
}

/// Pages from an edge to the other, as the cursors lead.
fn pages(place: &Place, id: &str, direction: &str, limits: &[&str]) -> Vec<Value> {
    let mut out = Vec::new();
    let mut args = vec!["show", id, direction];
    args.extend(limits);
    let mut page = place.json(&args).remove(0);
    loop {
        assert_eq!(
            keys(&page),
            [
                "session_id",
                "generation",
                "through",
                "entries",
                "older",
                "newer"
            ]
        );
        let next = page[&direction[2..]].as_str().map(str::to_owned);
        out.push(page);
        let Some(cursor) = next else { return out };
        let mut args = vec!["show", id, "--cursor", &cursor];
        args.extend(limits);
        page = place.json(&args).remove(0);
    }
}

fn entries(pages: &[Value]) -> Vec<Value> {
    pages
        .iter()
        .flat_map(|page| page["entries"].as_array().expect("entries").clone())
        .collect()
}

#[test]
fn pages_of_both_directions_hold_everything_in_order() {
    let place = imported();
    for id in ALL {
        let all = place.json(&["show", id, "--all"]);
        let newer = pages(&place, id, "--newer", &["--max-items", "5"]);
        assert_eq!(entries(&newer), all);
        let mut older = pages(&place, id, "--older", &["--max-items", "7"]);
        older.reverse();
        assert_eq!(entries(&older), all);
        for page in &older {
            assert!(
                page["entries"]
                    .as_array()
                    .is_some_and(|rows| rows.len() <= 7)
            );
            assert!(page["through"]["runtime"].is_u64());
        }
        let row = &all[all.len() / 2];
        assert_eq!(keys(row), ["key", "revision", "row"]);
        let key = row["key"].as_str().expect("a key");
        let around = &place.json(&["show", id, "--around", key, "--max-items", "3"])[0];
        assert!(
            around["entries"]
                .as_array()
                .is_some_and(|rows| rows.contains(row))
        );
        let at = &place.json(&["show", id, "--at", "1", "--newer", "--max-items", "1"])[0];
        assert_eq!(at["entries"][0], all[0]);
        assert_eq!(at["older"], Value::Null);
    }
}

#[test]
fn fragments_join_to_the_row() {
    let place = imported();
    let limits = ["--max-bytes", "100"];
    let whole: Vec<String> = place
        .json(&["show", FERRY, "--all"])
        .iter()
        .map(|entry| entry["row"].to_string())
        .collect();
    for (direction, backwards) in [("--newer", false), ("--older", true)] {
        let mut found = pages(&place, FERRY, direction, &limits);
        if backwards {
            found.reverse();
        }
        let mut rows: Vec<String> = Vec::new();
        for entry in entries(&found) {
            let Some(part) = entry.get("fragment") else {
                rows.push(entry["row"].to_string());
                continue;
            };
            assert_eq!(keys(part), ["byte_offset", "total_bytes", "digest", "data"]);
            let data = part["data"].as_str().expect("data");
            match part["byte_offset"].as_u64() {
                Some(0) => rows.push(data.to_owned()),
                Some(at) => {
                    let row = rows.last_mut().expect("a beginning");
                    assert_eq!(row.len() as u64, at);
                    row.push_str(data);
                }
                None => panic!("no offset"),
            }
        }
        assert_eq!(rows, whole);
    }
    // For people the rows are put together, whatever the pages hold.
    let small = place.ok(&["show", FERRY, "--all", "--max-bytes", "100"]);
    assert_eq!(small, place.ok(&["show", FERRY, "--all"]));
    let last = place.ok(&["show", FERRY, "--max-bytes", "64"]);
    assert!(
        last.contains("turn completed") || last.contains("turn"),
        "{last}"
    );
    assert!(!last.contains("part  "), "{last}");
}

#[test]
fn export_holds_what_stats_count() {
    let place = imported();
    for id in ALL {
        let exported = place.json(&["export", id]);
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for row in &exported {
            *counted
                .entry(row["type"].as_str().expect("a type").to_owned())
                .or_default() += 1;
        }
        let stats = &place.json(&["stats", id])[0];
        let rows: BTreeMap<String, u64> =
            serde_json::from_value(stats["rows"].clone()).expect("counts");
        let rows: BTreeMap<_, _> = rows.into_iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(counted, rows);
        let shown = place.json(&["show", id, "--all"]);
        let notes = place.json(&["notes", id]);
        let visible = |note: &&Value| note["fact"]["visible"] == true;
        assert_eq!(
            exported.len(),
            shown.len() + notes.iter().filter(visible).count()
        );
        let runtime: Vec<&Value> = shown.iter().map(|entry| &entry["row"]).collect();
        let note_ids: Vec<&Value> = notes.iter().map(|note| &note["fact"]["id"]).collect();
        let others: Vec<&Value> = exported
            .iter()
            .filter(|row| !(row["type"] == "system_note" && note_ids.contains(&&row["id"])))
            .collect();
        assert_eq!(others, runtime);
        assert_eq!(
            place.ok(&["export", id]),
            place.ok(&["--json", "export", id])
        );
    }
}

#[test]
fn events_are_whole_and_can_be_cut() {
    let place = imported();
    let all = place.json(&["events", FERRY]);
    for (at, event) in all.iter().enumerate() {
        assert_eq!(keys(event), ["ordinal", "event_seq", "event", "chain"]);
        assert_eq!(event["ordinal"], at as u64 + 1);
        assert_eq!(event["event"]["sessionId"], FERRY);
    }
    assert_eq!(
        all.last().map(|event| &event["chain"]),
        Some(&place.json(&["stats", FERRY])[0]["chain"])
    );
    assert_eq!(
        place.json(&["events", FERRY, "--from", "3", "--to", "5"]),
        all[2..5]
    );
    assert_eq!(
        place.json(&["events", FERRY, "--from", "9999"]),
        Vec::<Value>::new()
    );
    assert_eq!(place.ok(&["events", FERRY]).lines().count(), all.len());
}

#[test]
fn verify_finds_nothing_wrong() {
    let place = imported();
    let reports = place.json(&["verify"]);
    assert_eq!(reports.len(), 4);
    for report in &reports {
        assert_eq!(
            keys(report),
            ["session_id", "ok", "events", "items", "facts", "findings"]
        );
        assert_eq!(report["ok"], true);
    }
    assert_eq!(place.ok(&["verify", FERRY]).lines().count(), 1);
}

#[test]
fn sessions_are_named_by_id_beginning_or_latest() {
    let place = imported();
    let newest = |listed: &[Value]| {
        listed
            .iter()
            .max_by_key(|line| line["last_event_at"].as_u64())
            .map(|line| line["session_id"].clone())
    };
    let latest = newest(&place.json(&["sessions"]));
    assert_eq!(
        latest.as_ref(),
        Some(&place.json(&["show", "latest"])[0]["session_id"])
    );
    assert_eq!(place.json(&["show", "5e6b"])[0]["session_id"], ALL[2]);
    // An id that is the beginning of another one is meant as it stands.
    assert_eq!(place.json(&["show", FERRY])[0]["session_id"], FERRY);
    assert_eq!(place.run(&["show", "305e"]).code, Some(2));
}

#[test]
fn open_imports_lists_and_shows() {
    let place = Place::new();
    let folder = samples();
    let folder = folder.to_str().expect("a path");
    let lines = place.json(&["open", folder]);
    let named = |name: &str| lines.iter().filter(|line| line.get(name).is_some()).count();
    assert_eq!(
        (named("import"), named("session"), named("page")),
        (4, 4, 1)
    );
    let page = &lines.last().expect("a page")["page"];
    assert_eq!(page, &place.json(&["show", "latest"])[0]);
    let text = place.ok(&["open", folder]);
    for id in ALL {
        assert!(text.contains(id), "{text}");
    }
    assert!(text.contains("This is the end."), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours outside a terminal");
}

#[test]
fn colours_are_shown_when_asked_for_and_control_characters_never() {
    let place = Place::new();
    let id = "0a0b0c0d-0000-4000-8000-000000000001";
    let evil = generated(id, 1, 10).replace("why?", r"why\u001b]0;owned\u0007?\u009b31m");
    let file = place.write("evil.jsonl", evil);
    place.ok(&["import", file.to_str().expect("a path")]);
    let plain = place.ok(&["show", id]);
    assert!(plain.contains(r"\u{1b}]0;owned\u{7}"), "{plain}");
    assert!(!plain.chars().any(|c| c.is_control() && c != '\n'));
    let sessions = place.ok(&["sessions"]);
    assert!(!sessions.chars().any(|c| c.is_control() && c != '\n'));
    let events = place.ok(&["events", id]);
    assert!(!events.chars().any(|c| c.is_control() && c != '\n'));
    let colours = place.ok(&["--color", "always", "show", id]);
    assert!(colours.contains("\u{1b}[1m"), "{colours}");
    assert!(!colours.contains("\u{1b}]"), "{colours}");
}

#[test]
fn the_footer_leads_to_the_older_page() {
    let place = imported();
    let text = place.ok(&["show", FERRY, "--max-items", "3"]);
    let command = text
        .lines()
        .find_map(|line| line.strip_prefix("older: folio "))
        .expect("an older page");
    let args: Vec<&str> = command.split(' ').collect();
    let older = place.ok(&args);
    assert!(older.contains("newer: folio show"), "{older}");
    // A store that was named has to be named again.
    let store = format!("sqlite:{}", place.store().display());
    let mut command = place.command();
    command.env_remove("FOLIO_STORE");
    let ran =
        support::Ran::of(command.args(["--store", &store, "show", FERRY, "--max-items", "3"]));
    assert!(
        ran.stdout
            .contains(&format!("older: folio --store {store} show")),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_closed_pipe_ends_the_command_quietly() {
    let place = Place::new();
    let id = "0a0b0c0d-0000-4000-8000-000000000001";
    let file = place.write("long.jsonl", generated(id, 400, 2_000));
    place.ok(&["import", file.to_str().expect("a path")]);
    for args in [
        &["show", id, "--all"][..],
        &["export", id],
        &["--json", "events", id],
    ] {
        let mut child = place
            .command()
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut first = [0; 10];
        let mut stdout = child.stdout.take().expect("its output");
        stdout.read_exact(&mut first).expect("a beginning");
        drop(stdout);
        let done = child.wait_with_output().expect("its end");
        assert_eq!(done.status.code(), Some(0), "{args:?}");
        assert_eq!(done.stderr, b"", "{args:?}");
    }
}

/// Every command that prints, over a session of a store of its own.
fn printing(id: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = [
        &["sessions"][..],
        &["show", id],
        &["show", id, "--all"],
        &["stats", id],
        &["events", id],
        &["notes", id],
        &["export", id],
        &["verify"],
        &["rebuild"],
        &["maintain"],
        &["fork", id],
        &["redact", id, "no such key"],
        &["delete", id, "--yes"],
        &["--help"],
        &["--version"],
        &["show", "--help"],
    ]
    .iter()
    .map(|args| args.iter().map(|arg| (*arg).to_owned()).collect())
    .collect();
    let samples = samples().to_str().expect("a path").to_owned();
    all.push(vec!["open".to_owned(), samples.clone()]);
    all.push(vec!["import".to_owned(), samples]);
    all
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let place = imported();
    for args in printing("305e7cd9-805a-47f7-83db-d9f6609380fd") {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("the full device");
        let mut command = place.command();
        let ran = command.args(&args).stdout(full).output();
        let ran = support::Ran::from(ran.expect("the command starts"));
        assert_ne!(ran.code, Some(0), "{args:?}");
        assert!(
            ran.stderr.starts_with("error: "),
            "{args:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_direction_alone_is_the_page_at_that_end() {
    let place = imported();
    let id = "305e7cd9-805a-47f7-83db-d9f6609380fd";
    let page = |more: &[&str]| {
        let mut args = vec!["show", id, "--max-items", "3"];
        args.extend(more);
        place.json(&args).remove(0)
    };
    let all = place.json(&["show", id, "--all"]);
    let (oldest, newest) = (page(&["--newer"]), page(&["--older"]));
    assert_eq!(oldest["entries"].as_array().expect("entries")[..], all[..3]);
    assert_eq!(oldest["older"], Value::Null);
    let last = &all[all.len() - 3..];
    assert_eq!(newest["entries"].as_array().expect("entries")[..], *last);
    assert_eq!(newest["newer"], Value::Null);
    assert_eq!(newest, page(&[]), "the newest page comes first");
    // A cursor leads one way, and the other is no silent choice.
    let cursor = newest["older"].as_str().expect("an older page");
    assert_eq!(
        page(&["--cursor", cursor]),
        page(&["--cursor", cursor, "--older"])
    );
    let wrong = place.run(&["--json", "show", id, "--cursor", cursor, "--newer"]);
    assert_eq!(wrong.code, Some(5), "{}", wrong.stdout);
    let error = &json_lines(&wrong.stderr)[0]["error"];
    assert_eq!(error["code"], "cursor_mismatch");
}

#[test]
fn a_damaged_row_is_told_and_can_be_passed_over() {
    let place = Place::new();
    let id = "0a0b0c0d-0000-4000-8000-000000000001";
    let file = place.write("s.jsonl", generated(id, 8, 10));
    place.ok(&["import", file.to_str().expect("a path")]);
    let mut bytes = std::fs::read(place.store()).expect("the store");
    let needle = b"Because 4.";
    let mut at = 0;
    let mut flips = 0;
    while let Some(found) = bytes[at..]
        .windows(needle.len())
        .position(|part| part == needle)
    {
        at += found + needle.len();
        bytes[at - 2] = b'5';
        flips += 1;
    }
    assert!(flips > 0, "the text stands in the file");
    std::fs::write(place.store(), bytes).expect("the store");
    let failed = place.run(&["--json", "show", id]);
    assert_eq!(failed.code, Some(6), "{}", failed.stdout);
    assert_eq!(
        json_lines(&failed.stderr)[0]["error"]["code"],
        "projection_gap"
    );
    let page = &place.json(&["show", id, "--on-gap", "mark"])[0];
    let gaps: Vec<&Value> = page["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|entry| entry.get("gap"))
        .collect();
    assert_eq!(gaps.len(), 1);
    assert_eq!(keys(gaps[0]), ["source", "from", "to", "code"]);
    assert!(place.ok(&["show", id, "--on-gap", "mark"]).contains("gap"));
    let verify = place.run(&["--json", "verify", id]);
    assert_eq!(verify.code, Some(6), "{}", verify.stdout);
    assert_eq!(json_lines(&verify.stdout)[0]["ok"], false);
    assert_eq!(place.run(&["export", id]).code, Some(6));
}

#[test]
fn the_default_store_stands_in_the_data_folder() {
    let place = Place::new();
    let mut command = place.command();
    command.env_remove("FOLIO_STORE");
    let folder = samples();
    let ran = support::Ran::of(command.arg("import").arg(&folder));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    if cfg!(target_os = "linux") {
        assert!(place.path("data/folio/folio.db").is_file());
    }
}

/// Starts a command, and closes its output before it has written anything.
fn unread(place: &Place, args: &[&str]) -> Option<i32> {
    let mut child = place
        .command()
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    drop(child.stdout.take());
    child.wait().expect("its end").code()
}

#[test]
fn an_import_goes_on_when_its_output_is_closed() {
    let folder = samples();
    let folder = folder.to_str().expect("a path");
    for args in [
        &["--json", "import", folder][..],
        &["import", folder],
        &["--json", "open", folder],
        &["open", folder],
    ] {
        let place = Place::new();
        assert_eq!(unread(&place, args), Some(0), "{args:?}");
        assert_eq!(place.json(&["sessions"]).len(), ALL.len(), "{args:?}");
        // What was rejected unseen is not a success.
        let bad = place.write("bad.jsonl", "milk\n");
        let good = place.write("good.jsonl", generated(ID, 2, 10));
        let path = |path: &std::path::Path| path.to_str().expect("a path").to_owned();
        let (bad, good) = (path(&bad), path(&good));
        let mut args = args[..args.len() - 1].to_vec();
        args.extend([&*bad, &*good]);
        assert_eq!(unread(&place, &args), Some(3), "{args:?}");
        assert_eq!(place.json(&["sessions"]).len(), ALL.len() + 1, "{args:?}");
    }
}

const ID: &str = "0a0b0c0d-0000-4000-8000-000000000001";

/// Replaces each occurrence of some bytes in the store's file.
fn damage(place: &Place, needle: &[u8], with: &[u8]) {
    assert_eq!(needle.len(), with.len());
    let mut bytes = std::fs::read(place.store()).expect("the store");
    let mut at = 0;
    let mut times = 0;
    while let Some(found) = bytes[at..]
        .windows(needle.len())
        .position(|part| part == needle)
    {
        at += found;
        bytes[at..at + needle.len()].copy_from_slice(with);
        times += 1;
    }
    assert!(times > 0, "it stands in the file");
    std::fs::write(place.store(), bytes).expect("the store");
}

/// Samples of which the sessions with these numbers have damaged rows.
fn damaged(numbers: &[usize]) -> Place {
    let place = imported();
    for number in numbers {
        // A session's row remembers which file it came from.
        let needle = format!(r#""native_id":"{}","translator"#, ALL[*number]);
        let with = needle.replace("native", "nativE");
        damage(&place, needle.as_bytes(), with.as_bytes());
    }
    place
}

#[test]
fn damaged_sessions_do_not_hide_the_others() {
    // The first, the last, two in a row, all.
    for numbers in [&[0][..], &[3], &[2, 3], &[0, 2], &[0, 2, 3]] {
        let place = damaged(numbers);
        let expected: Vec<bool> = (0..ALL.len()).map(|at| !numbers.contains(&at)).collect();

        let ran = place.run(&["--json", "verify"]);
        assert_eq!(ran.code, Some(6), "{}", ran.stderr);
        let lines = json_lines(&ran.stdout);
        let ids: Vec<_> = lines
            .iter()
            .map(|line| line["session_id"].as_str())
            .collect();
        assert_eq!(ids, ALL.map(Some), "{}", ran.stdout);
        let ok: Vec<_> = lines.iter().map(|line| line["ok"] == true).collect();
        assert_eq!(ok, expected, "{}", ran.stdout);
        for line in lines.iter().filter(|line| line["ok"] == false) {
            assert_eq!(line["findings"][0]["code"], "row_damaged");
            assert!(line["findings"][0]["message"].is_string());
        }

        let ran = place.run(&["--json", "rebuild"]);
        assert_eq!(ran.code, Some(6), "{}", ran.stderr);
        let lines = json_lines(&ran.stdout);
        let rebuilt: Vec<_> = lines.iter().map(|line| line["items"].is_u64()).collect();
        assert_eq!(rebuilt, expected, "{}", ran.stdout);
        assert_eq!(
            lines[numbers[0]]["findings"][0]["code"], "row_damaged",
            "{}",
            ran.stdout
        );

        let ran = place.run(&["--json", "sessions"]);
        assert_eq!(ran.code, Some(6), "{}", ran.stderr);
        let listed = json_lines(&ran.stdout);
        assert_eq!(listed.len(), ALL.len() - numbers.len(), "{}", ran.stdout);
        let told = json_lines(&ran.stderr);
        assert_eq!(told.len(), numbers.len(), "{}", ran.stderr);
        for (line, number) in told.iter().zip(numbers) {
            assert_eq!(line["error"]["code"], "row_damaged");
            let message = line["error"]["message"].as_str().expect("a message");
            assert!(
                message.contains(&format!("session {} ", ALL[*number])),
                "{message}"
            );
        }

        for command in ["verify", "rebuild", "sessions"] {
            let ran = place.run(&[command]);
            assert_eq!(ran.code, Some(6), "{}", ran.stderr);
            for (id, ok) in ALL.iter().zip(&expected) {
                let stdout = ran.stdout.contains(id);
                assert!(stdout || (command == "sessions" && !ok), "{}", ran.stdout);
            }
        }
    }
    // All of them are looked at, whether or not anybody reads along.
    assert_eq!(unread(&damaged(&[3]), &["rebuild"]), Some(6));
    // A beginning names a session whatever its neighbours are like.
    let place = damaged(&[3]);
    assert_eq!(place.json(&["show", "5e6b"])[0]["session_id"], ALL[2]);
    let ran = place.run(&["--json", "show", "7328"]);
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    let ran = place.run(&["--json", "show", "latest"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(json_lines(&ran.stderr)[0]["warning"]["code"], "row_damaged");
}

#[test]
fn a_listing_says_what_it_cannot_read() {
    // The last event, then the first one.
    for (needle, with, lost, kept) in [
        (
            r#""durationMs":3404"#,
            r#""durationMs":3405"#,
            "last_event_at",
            "title",
        ),
        ("/changelog 0", "/changelog 1", "title", "last_event_at"),
    ] {
        let place = Place::new();
        let file = samples().join(format!("claude-code/{}.jsonl", ALL[3]));
        place.ok(&["import", file.to_str().expect("a path")]);
        damage(&place, needle.as_bytes(), with.as_bytes());
        let ran = place.run(&["--json", "sessions"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let line = &json_lines(&ran.stdout)[0];
        assert_eq!(line[lost], Value::Null, "{line}");
        assert_ne!(line[kept], Value::Null, "{line}");
        let told = json_lines(&ran.stderr);
        assert_eq!(told.len(), 1, "{}", ran.stderr);
        assert_eq!(told[0]["warning"]["code"], "projection_gap");
        let ran = place.run(&["sessions"]);
        assert!(ran.stderr.starts_with("warning: "), "{}", ran.stderr);
        assert!(ran.stdout.contains("  ?"), "{}", ran.stdout);
    }
}

#[test]
fn tokens_have_one_meaning_and_stand_under_what_they_paid_for() {
    let place = imported();
    let shown = place.ok(&["show", FERRY, "--all"]);
    let first: Vec<&str> = shown
        .split("\n\n")
        .find(|row| row.starts_with("assistant"))
        .expect("an answer")
        .lines()
        .collect();
    assert_eq!(
        first.last().copied(),
        Some("  tokens: prompt 17,053 (3 new, 17,050 to the cache), answer 388"),
        "{shown}"
    );
    for row in shown.split("\n\n").filter(|row| row.starts_with("user")) {
        assert!(!row.contains("tokens:"), "{row}");
    }
    let stats = place.ok(&["stats", FERRY]);
    assert!(
        stats.contains("prompt 70,489 (18 new, 52,467 from the cache, 18,004 to the cache)"),
        "{stats}"
    );
}

#[test]
fn a_compaction_shows_its_summary_as_text() {
    let place = imported();
    let shown = place.ok(&["show", ALL[3], "--all"]);
    let note = shown
        .split("\n\n")
        .position(|row| row.contains("context_compacted"))
        .and_then(|at| shown.split("\n\n").nth(at))
        .expect("a compaction");
    assert!(
        note.contains("\n  This session is being continued"),
        "{note}"
    );
    assert!(!note.contains('{'), "{note}");
}

/// A session of a program's own events: a prompt, and the given ones.
fn native(place: &Place, more: &[&str]) {
    use folio_core::{CanonicalEvent, RuntimeEvent, SessionId};
    use folio_store::{AppendBatch, NewSession};
    let prompt = r#""role":"user","author":"user","content":{"kind":"text","text":"hello"}"#;
    let events = std::iter::once(&prompt).chain(more).enumerate();
    let events = events.map(|(at, event)| {
        let json = format!(
            r#"{{"id":"e{at}","invocationId":"i1","runId":"r1","sessionId":"{ID}","turnId":"t1","ts":{},"partial":false,{event}}}"#,
            at + 1
        );
        CanonicalEvent::new(&RuntimeEvent::from_json(&json).expect("an event")).expect("an event")
    });
    let batch = AppendBatch::native(events.collect());
    let config = folio_store_sqlite::SqliteConfig::new(place.store());
    let store = folio_store_sqlite::open(&config).expect("a store");
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(async {
        use folio_store::{Admin, Ledger};
        let id = SessionId::new(ID).expect("an id");
        let session = NewSession::native(id.clone());
        store.create_session(session).await.expect("a session");
        store.append(&id, batch).await.expect("a commit");
        store.close().await.expect("an end");
    });
}

#[test]
fn one_event_is_no_events() {
    let place = Place::new();
    native(&place, &[]);
    let listed = place.ok(&["sessions"]);
    let first = listed.lines().next().expect("a line");
    assert!(first.ends_with(" 1 event"), "{listed}");
}

#[test]
fn usage_without_an_answer_stands_alone() {
    let place = Place::new();
    let usage =
        r#""role":"system","author":"system","actions":{"tokenUsage":{"input":9,"output":0}}"#;
    native(&place, &[usage]);
    let shown = place.ok(&["show", ID, "--all"]);
    let rows: Vec<&str> = shown.trim_end().split("\n\n").collect();
    assert_eq!(rows[1..], ["  tokens: prompt 9, answer 0"], "{shown}");
}
