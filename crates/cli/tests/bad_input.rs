//! Bad input ends with its exit code, says what is wrong and what to do, and
//! leaves nothing half written.
#![allow(clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use support::{Place, Ran, generated, json_lines};

const ID: &str = "0a0b0c0d-0000-4000-8000-000000000001";
const OTHER: &str = "0a0b0c0d-0000-4000-8000-000000000002";

/// Two sessions of ten turns.
fn filled() -> Place {
    let place = Place::new();
    for id in [ID, OTHER] {
        let file = place.write(&format!("{id}.jsonl"), generated(id, 10, 100));
        place.ok(&["import", text(&file)]);
    }
    place
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Everything a reader can see of the store's sessions.
fn contents(place: &Place) -> String {
    let ran = place.run(&["--json", "sessions"]);
    match ran.code {
        Some(6) => "no store".to_owned(),
        Some(0) => ran.stdout,
        code => panic!("{code:?}: {}", ran.stderr),
    }
}

struct Case {
    name: &'static str,
    place: Place,
    args: Vec<String>,
    exit: i32,
    /// The error's code, or the diagnostic's where a file is rejected.
    code: &'static str,
    /// What the message must say.
    says: &'static str,
}

fn case(
    name: &'static str,
    place: Place,
    args: &[&str],
    exit: i32,
    code: &'static str,
    says: &'static str,
) -> Case {
    Case {
        name,
        place,
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        exit,
        code,
        says,
    }
}

/// A file that cannot be imported, into a store that holds other sessions.
fn rejected(name: &'static str, bytes: &[u8], code: &'static str, says: &'static str) -> Case {
    let place = filled();
    let file = place.write("input.jsonl", bytes);
    case(name, place, &["import", text(&file)], 3, code, says)
}

fn files() -> Vec<Case> {
    let mut cases = vec![
        rejected(
            "not a session file",
            b"# Shopping\nmilk\n",
            "not_a_session_file",
            "session file",
        ),
        rejected(
            "another format",
            b"{\"a\":1}\n",
            "not_a_session_file",
            "session file",
        ),
        rejected("an empty file", b"", "empty_file", "again once"),
        rejected(
            "a binary file",
            b"\x7fELF\x02\x01\x00\x00\xff\xfe",
            "binary_file",
            "not text",
        ),
        rejected(
            "invalid UTF-8",
            b"\xff\xfe{\"type\":\xff}\n\xff\n",
            "binary_file",
            "not text",
        ),
    ];
    let place = filled();
    let folder = place.path("empty");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("notes.txt"), "milk").expect("a file");
    cases.push(case(
        "a directory without sessions",
        place,
        &["import", text(&folder)],
        3,
        "no_sessions",
        "name a file",
    ));
    let place = filled();
    let missing = place.path("missing.jsonl");
    cases.push(case(
        "no such file",
        place,
        &["import", text(&missing)],
        4,
        "path_not_found",
        "missing.jsonl",
    ));
    let place = filled();
    let file = place.write("s.jsonl", generated(ID, 1, 1));
    cases.push(case(
        "an unknown format",
        place,
        &["import", text(&file), "--format", "papyrus"],
        2,
        "format_unknown",
        "claude-code",
    ));
    let place = Place::new();
    let folder = place.path("nothing");
    fs::create_dir(&folder).expect("a folder");
    cases.push(case(
        "open without sessions",
        place,
        &["open", text(&folder)],
        3,
        "no_sessions",
        "name a file",
    ));
    cases.push(case(
        "open without known agents",
        Place::new(),
        &["open"],
        4,
        "no_sessions",
        "name a file",
    ));
    cases
}

fn stores() -> Vec<Case> {
    let mut cases = Vec::new();
    let place = Place::new();
    fs::create_dir(place.store()).expect("a folder");
    let file = place.write("s.jsonl", generated(ID, 1, 1));
    cases.push(case(
        "a store path that is a directory",
        place,
        &["import", text(&file)],
        6,
        "store_is_directory",
        "name the file",
    ));

    for args in [&["import", "FILE"][..], &["show", "latest"]] {
        let place = filled();
        patch(&place.store(), 60, &99_u32.to_be_bytes());
        let file = place.write("s.jsonl", generated(ID, 20, 1));
        let args: Vec<&str> = args
            .iter()
            .map(|arg| if *arg == "FILE" { text(&file) } else { arg })
            .collect();
        cases.push(case(
            "a newer schema",
            place,
            &args,
            6,
            "store_newer_schema",
            "newer build",
        ));
    }

    let place = filled();
    patch(&place.store(), 68, &0x1234_5678_u32.to_be_bytes());
    cases.push(case(
        "a foreign SQLite file",
        place,
        &["sessions"],
        6,
        "store_not_a_store",
        "not a Folio store",
    ));

    let place = Place::new();
    place.write("store.db", "this is a letter, not a database\n".repeat(400));
    let file = place.write("s.jsonl", generated(ID, 1, 1));
    cases.push(case(
        "a file that is no database",
        place,
        &["import", text(&file)],
        6,
        "store_not_a_store",
        "not a Folio store",
    ));

    for args in [
        &["sessions"][..],
        &["verify"],
        &["rebuild"],
        &["maintain"],
        &["fork", "latest"],
        &["delete", "latest", "--yes"],
        &["redact", "latest", "key"],
    ] {
        cases.push(case(
            "no store",
            Place::new(),
            args,
            6,
            "store_missing",
            "folio import",
        ));
    }
    cases.push(case(
        "a store of no known kind",
        Place::new(),
        &["--store", "postgres://x", "sessions"],
        2,
        "store_unknown_kind",
        "sqlite:PATH",
    ));
    for (name, store) in [
        ("a store without a name", ""),
        ("a store without a path", "sqlite:"),
        ("a store in memory", "sqlite::memory:"),
        ("a path without a kind", "sessions.db"),
        ("a redb store without a path", "redb:"),
        ("a path in memory", "memory:x"),
        ("a kind in capitals", "SQLITE:x"),
    ] {
        for says in ["sqlite:PATH", "redb:PATH", "memory:"] {
            let args = ["--store", store, "sessions"];
            let (exit, code) = (2, "store_unknown_kind");
            cases.push(case(name, Place::new(), &args, exit, code, says));
        }
        let args = ["copy", store, "sqlite:b.db"];
        let (exit, code, says) = (2, "store_unknown_kind", "sqlite:PATH");
        cases.push(case(name, Place::new(), &args, exit, code, says));
    }
    for args in [
        &["sessions"][..],
        &["show", "latest"],
        &["verify"],
        &["fork", "x"],
    ] {
        let args = [&["--store", "memory:"], args].concat();
        let (exit, code, says) = (6, "store_empty", "memory: open");
        cases.push(case("memory", Place::new(), &args, exit, code, says));
    }
    cases
}

fn copies() -> Vec<Case> {
    let mut cases = Vec::new();
    let other = |place: &Place| format!("redb:{}", text(&place.path("other.redb")));
    for change in ["", "x/../"] {
        let place = filled();
        fs::create_dir(place.path("x")).expect("a folder");
        let from = place.name();
        let to = format!("sqlite:{}", text(&place.path(&format!("{change}store.db"))));
        cases.push(case(
            "a copy onto itself",
            place,
            &["copy", &from, &to],
            2,
            "copy_same_store",
            "another one",
        ));
    }
    let place = filled();
    let (from, to) = (place.name(), other(&place));
    let unknown = ["copy", &from, &to, "--session", "nope"];
    let (exit, code, says) = (4, "session_not_found", "nope");
    let name = "a copy of nothing";
    cases.push(case(name, place, &unknown, exit, code, says));
    let place = filled();
    let (from, to) = (place.name(), other(&place));
    let ambiguous = ["copy", &from, &to, "--session", "0a0b"];
    let (exit, code, says) = (2, "session_ambiguous", OTHER);
    let name = "a copy of several";
    cases.push(case(name, place, &ambiguous, exit, code, says));
    let place = filled();
    let (from, to) = (place.name(), other(&place));
    let three = ["--store", &from, "copy", &from, &to];
    let (exit, code, says) = (2, "usage", "--store");
    let name = "a copy with a third store";
    cases.push(case(name, place, &three, exit, code, says));
    let place = Place::new();
    let (from, to) = (place.name(), other(&place));
    let (exit, code, says) = (6, "store_missing", "no store");
    let name = "a copy from nowhere";
    cases.push(case(name, place, &["copy", &from, &to], exit, code, says));
    let place = Place::new();
    let to = other(&place);
    let (exit, code, says) = (6, "store_empty", "memory");
    let args = ["copy", "memory:", &to];
    cases.push(case("a copy from memory", place, &args, exit, code, says));
    cases
}

fn requests() -> Vec<Case> {
    let mut cases = vec![
        case(
            "an unknown session",
            filled(),
            &["show", "nope"],
            4,
            "session_not_found",
            "folio sessions",
        ),
        case(
            "no session at all",
            filled(),
            &["stats", ""],
            4,
            "session_not_found",
            "folio sessions",
        ),
        case(
            "a session of an empty name",
            filled(),
            &["export", ""],
            4,
            "session_not_found",
            "no session \"\";",
        ),
        case(
            "a name with a blank that nobody sees",
            filled(),
            &["delete", "--yes", "latest "],
            4,
            "session_not_found",
            "no session \"latest \";",
        ),
        case(
            "a range that begins before the first event",
            filled(),
            &["events", ID, "--from", "0"],
            5,
            "range_invalid",
            "write 1 or more",
        ),
        case(
            "an ambiguous session",
            filled(),
            &["show", "0a0b"],
            2,
            "session_ambiguous",
            OTHER,
        ),
        case(
            "an unknown item",
            filled(),
            &["show", ID, "--around", "nope"],
            4,
            "item_not_found",
            "nope",
        ),
        case(
            "an item without a name",
            filled(),
            &["show", ID, "--around", ""],
            4,
            "item_not_found",
            "no item \"\" at",
        ),
        case(
            "a redaction of a row without a name",
            filled(),
            &["redact", ID, ""],
            4,
            "item_not_found",
            "no item \"\"; nothing was redacted",
        ),
        case(
            "a damaged cursor",
            filled(),
            &["show", ID, "--cursor", "AAAA"],
            5,
            "cursor_damaged",
            "start without",
        ),
        case(
            "no rows asked for",
            filled(),
            &["show", ID, "--max-items", "0"],
            5,
            "max_items_out_of_range",
            "1",
        ),
        case(
            "no bytes asked for",
            filled(),
            &["show", ID, "--max-bytes", "0"],
            5,
            "max_bytes_out_of_range",
            "64",
        ),
        case(
            "an empty range",
            filled(),
            &["events", ID, "--from", "5", "--to", "4"],
            5,
            "range_invalid",
            "--from",
        ),
        case(
            "a range to nothing",
            filled(),
            &["events", ID, "--to", "0"],
            5,
            "range_invalid",
            "--to is 0",
        ),
        case(
            "an ordinal before the first",
            filled(),
            &["show", ID, "--at", "0"],
            5,
            "ordinal_invalid",
            "--at is 0",
        ),
        case(
            "everything and a place",
            filled(),
            &["show", ID, "--all", "--at", "3"],
            2,
            "usage",
            "--all",
        ),
        case(
            "everything and a direction",
            filled(),
            &["show", ID, "--newer", "--all"],
            2,
            "usage",
            "--all",
        ),
        case("a wrong word", filled(), &["shwo", ID], 2, "usage", "show"),
        case(
            "a fork beyond the head",
            filled(),
            &["fork", ID, "--at", "100000"],
            5,
            "watermark_unknown",
            "100000",
        ),
        case(
            "a fork before the first event",
            filled(),
            &["fork", ID, "--at", "0"],
            5,
            "ordinal_invalid",
            "--at is 0",
        ),
        case(
            "a fork under a name that is taken",
            filled(),
            &["fork", ID, "--as", OTHER],
            5,
            "session_exists",
            OTHER,
        ),
        case(
            "a fork under no name",
            filled(),
            &["fork", ID, "--as", "a/b"],
            2,
            "session_id_invalid",
            "--as",
        ),
        case(
            "a fork of nothing",
            filled(),
            &["fork", "nope"],
            4,
            "session_not_found",
            "nope",
        ),
        case(
            "a deletion that nobody confirms",
            filled(),
            &["delete", ID],
            2,
            "confirmation_needed",
            "--yes",
        ),
        case(
            "a deletion of nothing",
            filled(),
            &["delete", "--yes", ID, "nope"],
            4,
            "session_not_found",
            "nope",
        ),
        case(
            "a deletion of several by one name",
            filled(),
            &["delete", "--yes", "0a0b"],
            2,
            "session_ambiguous",
            OTHER,
        ),
        case(
            "a redaction of an unknown row",
            filled(),
            &["redact", ID, "nope"],
            4,
            "item_not_found",
            "nothing was redacted",
        ),
        case(
            "a redaction of an unknown note",
            filled(),
            &["redact", ID, "notes::nope"],
            4,
            "item_not_found",
            "notes::nope",
        ),
        case(
            "a redaction of no row",
            filled(),
            &["redact", ID],
            2,
            "usage",
            "KEY",
        ),
    ];
    let place = filled();
    let cursor = cursor_of(&place, OTHER);
    cases.push(case(
        "a foreign cursor",
        place,
        &["show", ID, "--cursor", &cursor],
        5,
        "cursor_foreign_session",
        OTHER,
    ));
    let place = filled();
    let cursor = other_epoch(&cursor_of(&place, ID));
    cases.push(case(
        "a cursor of an old epoch",
        place,
        &["show", ID, "--cursor", &cursor],
        5,
        "cursor_epoch",
        "start without",
    ));
    let place = filled();
    let cursor = cursor_of(&place, ID);
    cases.push(case(
        "a cursor and a contradiction",
        place,
        &["show", ID, "--cursor", &cursor, "--newer"],
        5,
        "cursor_mismatch",
        "contradicts",
    ));
    cases
}

#[test]
fn bad_input_says_what_to_do_and_leaves_nothing_half_written() {
    let tables = [files(), stores(), requests(), copies()];
    for case in tables.into_iter().flatten() {
        check(&case);
    }
}

fn check(case: &Case) {
    let Case { name, place, .. } = case;
    let readable = |place: &Place| {
        !name.contains("schema") && !name.contains("foreign SQLite") && place.store().is_file()
    };
    let before = readable(place).then(|| contents(place));
    let bytes = fs::read(place.store()).ok();
    let args: Vec<&str> = case.args.iter().map(String::as_str).collect();

    let plain = place.run(&args);
    assert_eq!(
        plain.code,
        Some(case.exit),
        "{name}: {}{}",
        plain.stdout,
        plain.stderr
    );
    let told = format!("{}{}", plain.stdout, plain.stderr);
    assert!(told.contains(case.says), "{name}: {told}");
    assert!(
        !plain.stderr.is_empty(),
        "{name} says nothing on standard error"
    );

    let mut all = vec!["--json"];
    all.extend(&args);
    let json = place.run(&all);
    assert_eq!(
        json.code,
        Some(case.exit),
        "{name}: {}{}",
        json.stdout,
        json.stderr
    );
    if case.exit == 3 {
        let lines = json_lines(&json.stdout);
        let line = lines[0].get("import").unwrap_or(&lines[0]);
        assert_eq!(line["outcome"], "rejected", "{name}");
        assert_eq!(line["session_id"], serde_json::Value::Null, "{name}");
        assert_eq!(line["diagnostics"][0]["code"], case.code, "{name}");
    } else {
        let error = &json_lines(&json.stderr)[0]["error"];
        assert_eq!(error["code"], case.code, "{name}: {}", json.stderr);
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(case.says), "{name}: {message}");
        assert_eq!(json.stdout, "", "{name}");
    }

    match before {
        Some(before) => assert_eq!(before, contents(place), "{name} changed the store"),
        None if bytes.is_some() => assert_eq!(bytes, fs::read(place.store()).ok(), "{name}"),
        None => assert!(!place.store().is_file(), "{name} made a store"),
    }
}

#[test]
fn a_good_session_with_bad_lines_is_imported_and_says_which() {
    let place = Place::new();
    let good = generated(ID, 3, 10);
    let mut lines: Vec<&[u8]> = good.lines().map(str::as_bytes).collect();
    lines.insert(4, b"{\"type\":\"user\",\xff\xfe broken");
    let file = place.write("bad.jsonl", [lines.join(&b'\n'), b"\n".to_vec()].concat());
    let outcome = &place.json(&["import", text(&file)])[0];
    assert_eq!(outcome["outcome"], "imported");
    let found = &outcome["diagnostics"][0];
    assert_eq!(
        (found["code"].as_str(), found["line"].as_u64()),
        (Some("broken_line"), Some(5))
    );
}

/// A line of 2 GB costs its reading, never its size in memory.
#[test]
fn a_line_of_two_gigabytes_is_read_with_bounded_memory() {
    const TWO_GB: u64 = 2 << 30;
    let place = Place::new();

    let alone = place.path("alone.jsonl");
    let mut file = fs::File::create(&alone).expect("a file");
    file.write_all(b"{\"type\":\"user\",\"message\":\"")
        .expect("a beginning");
    file.set_len(TWO_GB).expect("a sparse file");
    let (ran, peak) = measured(&place, &["--json", "import", text(&alone)]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(json_lines(&ran.stdout)[0]["outcome"], "rejected");
    assert!(peak < 200 << 20, "{peak} bytes");

    let inside = place.path("inside.jsonl");
    let good = generated(ID, 3, 10);
    let (head, tail) = good.split_at(good.find("Question 1").expect("a second turn"));
    let cut = head.rfind('\n').expect("a line") + 1;
    let mut file = fs::File::create(&inside).expect("a file");
    file.write_all(&good.as_bytes()[..cut])
        .expect("a beginning");
    file.write_all(b"{\"type\":\"user\",\"message\":\"")
        .expect("a line");
    file.seek(SeekFrom::Start(TWO_GB)).expect("a sparse file");
    file.write_all(b"\n").expect("a line end");
    file.write_all(&good.as_bytes()[cut..]).expect("an end");
    assert!(good.ends_with(tail));
    let (ran, peak) = measured(&place, &["--json", "import", text(&inside)]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let outcome = &json_lines(&ran.stdout)[0];
    assert_eq!(outcome["outcome"], "imported");
    assert_eq!(outcome["diagnostics"][0]["code"], "oversize_record");
    assert_eq!(outcome["diagnostics"][0]["line"], 5);
    assert!(peak < 200 << 20, "{peak} bytes");
    let stats = &place.json(&["stats", ID])[0];
    assert_eq!(stats["user_messages"], 3);
}

/// Runs a command; its output, and the most memory that it held (0 where the
/// system does not say).
fn measured(place: &Place, args: &[&str]) -> (Ran, u64) {
    // Two gigabytes are hashed a few times; a slow machine takes a while.
    let limit = Duration::from_secs(120);
    let begun = Instant::now();
    let mut child = place
        .command()
        .args(args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("the command").is_none() {
        let held = fs::read_to_string(&status).unwrap_or_default();
        let high = held.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = high.and_then(|high| high.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        if begun.elapsed() > limit {
            child.kill().expect("the command ends");
            panic!("{args:?} takes longer than {limit:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    (child.wait_with_output().expect("its output").into(), peak)
}

/// A store that this user may only read can be read and not imported into.
#[cfg(unix)]
#[test]
fn a_read_only_store_is_read_and_never_written() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    let place = filled();
    let file = place.write("s.jsonl", generated(ID, 20, 1));
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    let before = fs::read(place.store()).expect("the store");
    let folder = place.dir.path().to_owned();
    mode(&file, 0o444);
    mode(&place.store(), 0o444);
    // The superuser may write anything, so the command runs as somebody else.
    let root = fs::metadata(&folder).expect("the folder").uid() == 0;
    let binary = place.path("folio");
    fs::copy(env!("CARGO_BIN_EXE_folio"), &binary).expect("a copy");
    mode(&binary, 0o555);
    mode(&folder, 0o555);
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(&binary);
        place.settle(&mut command);
        if root {
            command.uid(65_534).gid(65_534);
        }
        Ran::of(command.args(args))
    };

    let import = run(&["--json", "import", text(&file)]);
    let show = run(&["show", ID]);
    let rebuild = run(&["--json", "rebuild", ID]);
    mode(&folder, 0o755);
    assert_eq!(import.code, Some(6), "{}{}", import.stdout, import.stderr);
    let error = &json_lines(&import.stderr)[0]["error"];
    assert_eq!(error["code"], "store_read_only");
    assert!(
        error["message"]
            .as_str()
            .expect("a message")
            .contains("make it writable")
    );
    assert_eq!(show.code, Some(0), "{}", show.stderr);
    assert!(show.stdout.contains("Because 9."), "{}", show.stdout);
    assert_eq!(
        rebuild.code,
        Some(6),
        "{}{}",
        rebuild.stdout,
        rebuild.stderr
    );
    assert_eq!(before, fs::read(place.store()).expect("the store"));
}

/// A store that cannot grow refuses the file at hand by name, and the same
/// command goes on once there is room.
#[cfg(unix)]
#[test]
fn a_full_disk_rejects_the_file_at_hand() {
    let place = filled();
    let folder = place.path("more");
    fs::create_dir(&folder).expect("a folder");
    let ids = [
        "1a0b0c0d-0000-4000-8000-000000000001",
        "1a0b0c0d-0000-4000-8000-000000000002",
    ];
    for id in ids {
        let file = folder.join(format!("{id}.jsonl"));
        fs::write(file, generated(id, 200, 20_000)).expect("a file");
    }
    // No file may grow beyond a megabyte or two, and saying so is an error of the
    // write, not a signal.
    let mut command = std::process::Command::new("sh");
    place.settle(&mut command);
    let script = r#"trap '' XFSZ; ulimit -f 2048; exec "$0" "$@""#;
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_folio")])
        .args(["--json", "import", text(&folder)]);
    let ran = Ran::of(&mut command);
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    let lines = json_lines(&ran.stdout);
    assert_eq!(lines.len(), 1, "{}", ran.stdout);
    assert_eq!(lines[0]["outcome"], "rejected");
    let error = &json_lines(&ran.stderr)[0]["error"];
    assert_eq!(lines[0]["diagnostics"][0]["code"], error["code"]);
    let path = lines[0]["path"].as_str().expect("a path");
    let message = error["message"].as_str().expect("a message");
    assert!(message.starts_with(path), "{message}");
    assert!(message.contains("check the disk"), "{message}");
    assert!(message.contains("again"), "{message}");

    let again = place.json(&["import", text(&folder)]);
    assert_eq!(again.len(), 2);
    assert!(
        again.iter().all(|line| line["outcome"] == "imported"),
        "{again:?}"
    );
    assert!(
        place
            .json(&["verify"])
            .iter()
            .all(|line| line["ok"] == true)
    );
}

/// Overwrites bytes of a store's header.
fn patch(path: &Path, at: u64, bytes: &[u8]) {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    assert!(
        fs::metadata(&wal).map_or(0, |wal| wal.len()) == 0,
        "the store was closed with its log folded in"
    );
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("the store");
    file.seek(SeekFrom::Start(at)).expect("a place");
    file.write_all(bytes).expect("a patch");
}

fn cursor_of(place: &Place, session: &str) -> String {
    let page = &place.json(&["show", session, "--max-items", "2"])[0];
    page["older"].as_str().expect("an older page").to_owned()
}

/// The same cursor, as another epoch would have written it.
fn other_epoch(cursor: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let mut bytes = URL_SAFE_NO_PAD.decode(cursor).expect("a cursor");
    bytes.truncate(bytes.len() - 8);
    assert_eq!(u32::from(bytes[1]), folio_core::COMPATIBILITY_EPOCH);
    bytes[1] = 0;
    let check = xxhash_rust::xxh3::xxh3_64(&bytes);
    bytes.extend(check.to_le_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Whatever stands in a name, the message stays a message.
#[test]
fn a_name_of_any_size_makes_a_short_message() {
    let place = filled();
    for name in [
        "x".repeat(4_096),
        "\u{1f600}".repeat(1_024),
        "a\nb\u{1b}[31m".to_owned(),
    ] {
        for args in [
            &["show", &name][..],
            &["stats", &name],
            &["export", &name],
            &["delete", "--yes", &name],
            &["fork", &name],
            &["fork", ID, "--as", &name],
        ] {
            let ran = place.run(args);
            assert!(matches!(ran.code, Some(2 | 4)), "{}", ran.stderr);
            assert!(ran.stderr.len() < 800, "{}", ran.stderr);
            assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
            assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
        }
    }
}

/// redb panics on some damaged files; people are told about the file, and
/// programs find lines of JSON.
#[test]
fn a_store_with_pages_of_nothing_is_an_error_and_no_crash() {
    for kind in support::KINDS {
        let place = Place::of(kind);
        let file = place.write("s.jsonl", generated(ID, 20, 100));
        place.ok(&["import", text(&file)]);
        let whole = fs::read(place.store()).expect("the store");
        for at in (4_096..whole.len()).step_by(4_096 * 12) {
            let mut bytes = whole.clone();
            let end = whole.len().min(at + 4_096 * 12);
            bytes[at..end].fill(0);
            fs::write(place.store(), bytes).expect("the store");
            for args in [&["export", ID][..], &["sessions"], &["verify"]] {
                let mut all = vec!["--json"];
                all.extend(args);
                let ran = place.run(&all);
                assert!(
                    matches!(ran.code, Some(0 | 4 | 6)),
                    "{kind} {at}: {}",
                    ran.stderr
                );
                for line in json_lines(&ran.stderr) {
                    let what = ["error", "warning"].map(|what| line.get(what));
                    assert!(what.iter().any(Option::is_some), "{kind} {at}: {line}");
                }
            }
        }
    }
}
