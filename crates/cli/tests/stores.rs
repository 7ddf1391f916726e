//! The commands on each kind of store, and from one kind to another.
#![allow(clippy::panic, reason = "a test fails by panicking")]

mod support;

use folio_core::SessionId;
use folio_store::Leases;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;
use support::{KINDS, Place, Ran, generated, json_lines, samples};

const ID: &str = "0a0b0c0d-0000-4000-8000-000000000001";
const OTHER: &str = "0a0b0c0d-0000-4000-8000-000000000002";

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A store of a kind with sessions of ten turns.
fn filled(kind: &'static str, ids: &[&str]) -> Place {
    let place = Place::of(kind);
    for id in ids {
        let file = place.write(&format!("{id}.jsonl"), generated(id, 10, 100));
        place.ok(&["import", text(&file)]);
    }
    place
}

/// All of a session that a command can tell.
fn told(place: &Place, id: &str) -> Vec<String> {
    ["events", "notes", "export", "stats", "verify"]
        .iter()
        .map(|command| place.ok(&["--json", command, id]))
        .chain([place.ok(&["--json", "show", "--all", id])])
        .collect()
}

fn ids(place: &Place) -> Vec<String> {
    let listed = place.json(&["sessions"]);
    let ids = listed.iter().map(|line| &line["session_id"]);
    ids.map(|id| id.as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn every_kind_of_store_tells_the_same() {
    let all = KINDS.map(|kind| {
        let place = Place::of(kind);
        place.import_samples();
        place.ok(&["rebuild"]);
        let ids = ids(&place);
        assert_eq!(ids.len(), 4, "{kind}");
        ids.iter().map(|id| told(&place, id)).collect::<Vec<_>>()
    });
    assert_eq!(all[0], all[1]);
}

#[test]
fn a_store_in_memory_lasts_as_long_as_the_command() {
    let place = Place::new();
    let folder = samples();
    let shown = place.ok(&["--store", "memory:", "open", text(&folder)]);
    assert!(shown.contains("4 imported"), "{shown}");
    assert!(shown.contains("of the transcript at event"), "{shown}");
    assert!(!shown.contains("--cursor"), "nothing is left for it");
    let ran = place.run(&["--store", "memory:", "sessions"]);
    assert_eq!(ran.code, Some(6), "{}", ran.stdout);
    assert!(ran.stderr.contains("memory: open"), "{}", ran.stderr);
    assert!(!place.store().exists());
}

#[test]
fn what_would_be_lost_or_mistaken_is_refused() {
    let place = filled("sqlite", &[ID]);
    let store = place.name();
    for (command, code) in [
        (&["fork", ID, "--as", "latest"][..], "session_id_invalid"),
        (&["copy", &store, "memory:"], "store_unknown_kind"),
    ] {
        let ran = place.run(&[&["--json"], command].concat());
        assert_eq!(ran.code, Some(2), "{command:?}: {}", ran.stdout);
        assert!(ran.stderr.contains(code), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn a_fork_shares_what_came_before_and_says_whose_it_is() {
    for kind in KINDS {
        let place = filled(kind, &[ID]);
        let parent = place.json(&["stats", ID]);
        let head = parent[0]["events"].as_u64().expect("a head");
        let first = &place.json(&["fork", ID])[0];
        assert_eq!(first["session_id"], format!("{ID}-fork-1"));
        assert_eq!(first["chain"], parent[0]["chain"]);
        assert_eq!(
            (&first["forked_from"], &first["at"]),
            (&ID.into(), &head.into())
        );
        // The parent's own beginning is no ambiguous name: it is a whole id.
        let second = &place.json(&["fork", ID, "--at", "9"])[0];
        assert_eq!(second["session_id"], format!("{ID}-fork-2"));
        let named = place.ok(&["fork", ID, "--as", "mine", "--at", "9"]);
        assert_eq!(named.lines().count(), 1, "{named}");
        assert!(
            named.starts_with(&format!("mine  fork of {ID} at 9, ")),
            "{named}"
        );

        let listed = place.json(&["sessions"]);
        let mine = listed.iter().find(|line| line["session_id"] == "mine");
        let mine = mine.expect("the fork");
        assert_eq!(
            (&mine["forked_from"], &mine["inherited"]),
            (&ID.into(), &9.into())
        );
        let parents = listed.iter().find(|line| line["session_id"] == ID);
        let parents = parents.expect("the parent").as_object().expect("an object");
        assert!(!parents.contains_key("inherited"), "{parents:?}");
        let list = place.ok(&["sessions"]);
        assert!(list.contains(&format!("fork of {ID} at 9")), "{list}");

        // Everything of the fork at the head is inherited, and none of it is
        // counted as its own usage.
        let fork = &place.json(&["stats", &format!("{ID}-fork-1")])[0];
        for same in ["events", "user_messages", "tool_calls", "turns", "chain"] {
            assert_eq!(fork[same], parent[0][same], "{same}");
        }
        // Notes are not shared.
        assert_eq!(parent[0]["rows"]["system_note"], 1);
        let mut rows = parent[0]["rows"].clone();
        rows["system_note"] = 0.into();
        assert_eq!(fork["rows"], rows);
        let inherited = &fork["inherited"];
        for same in [
            "events",
            "user_messages",
            "assistant_messages",
            "tool_calls",
            "usage",
        ] {
            assert_eq!(inherited[same], parent[0][same], "{same}");
        }
        let own = fork["usage"].as_object().expect("usage");
        assert!(own.values().all(|bucket| bucket == 0), "{own:?}");
        let shown = place.ok(&["stats", "mine"]);
        assert!(
            shown.contains("of these inherited      9 events"),
            "{shown}"
        );

        // The parent goes, the fork stays.
        let before = told(&place, "mine");
        place.ok(&["delete", "--yes", ID]);
        place.ok(&["maintain"]);
        assert_eq!(told(&place, "mine"), before);
        let list = place.ok(&["sessions"]);
        assert!(list.contains("fork at 9 of a deleted session"), "{list}");
    }
}

#[test]
fn what_is_deleted_is_gone_at_once_and_nothing_else() {
    for kind in KINDS {
        let place = filled(kind, &[ID, OTHER]);
        let other = told(&place, OTHER);
        let deleted = place.json(&["delete", "--yes", ID, ID]);
        assert_eq!(deleted.len(), 1, "one session, named twice");
        assert_eq!(deleted[0]["session_id"], ID);
        assert_eq!(deleted[0]["outcome"], "deleted");
        assert_eq!(ids(&place), [OTHER]);
        assert_eq!(place.run(&["show", ID]).code, Some(4));
        assert_eq!(told_without_verify(&place, OTHER), other[..4]);

        let verify = place.run(&["--json", "verify"]);
        assert_eq!(verify.code, Some(0), "{}", verify.stderr);
        let warning = &json_lines(&verify.stderr)[0]["warning"];
        assert_eq!(warning["code"], "erasures_pending");
        let message = warning["message"].as_str().expect("a message");
        assert!(message.contains("1 erasure is not complete"), "{message}");
        assert!(message.contains("folio maintain"), "{message}");

        let done = &place.json(&["maintain"])[0];
        assert_eq!(done["completed"], 1);
        assert_eq!((&done["pending"], &done["blobs"]), (&0.into(), &0.into()));
        assert_eq!(place.json(&["maintain"])[0]["completed"], 0);
        assert!(place.ok(&["maintain"]).contains("Nothing was left"));
        assert_eq!(told(&place, OTHER), other);
        // The id is free again.
        let file = place.path(&format!("{ID}.jsonl"));
        let again = &place.json(&["import", text(&file)])[0];
        assert_eq!(
            (&again["outcome"], &again["session_id"]),
            (&"imported".into(), &ID.into())
        );
    }
}

/// All but the verdict, which tells of pending erasures.
fn told_without_verify(place: &Place, id: &str) -> Vec<String> {
    ["events", "notes", "export", "stats"]
        .iter()
        .map(|command| place.ok(&["--json", command, id]))
        .collect()
}

#[test]
fn a_session_that_somebody_holds_is_not_deleted() {
    let place = filled("sqlite", &[ID]);
    let config = folio_store_sqlite::SqliteConfig::new(place.store());
    let store = folio_store_sqlite::open(&config).expect("the store");
    let id = SessionId::new(ID).expect("an id");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let lease = runtime
        .block_on(store.acquire_lease(&id, "the night shift"))
        .expect("a lease");
    let ran = place.run(&["--json", "delete", "--yes", ID]);
    assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
    let error = &json_lines(&ran.stderr)[0]["error"];
    assert_eq!(error["code"], "session_leased");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("the night shift"), "{message}");
    runtime
        .block_on(store.release_lease(&id, lease))
        .expect("its release");
    place.ok(&["delete", "--yes", ID]);
    assert!(ids(&place).is_empty());
}

/// What nobody may find any more.
const SENTINEL: &str = "SENTINEL-4711";

/// A session in which a prompt and a note say the sentinel.
fn secret(id: &str) -> String {
    generated(id, 10, 100)
        .replace("Question 3: why?", &format!("{SENTINEL}: why?"))
        .replace("Title 3", &format!("{SENTINEL} title"))
}

/// The files of the store that contain the sentinel.
fn found(place: &Place) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(place.dir.path()).expect("the folder") {
        let entry = entry.expect("a file");
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("store.db") {
            continue;
        }
        let bytes = std::fs::read(entry.path()).expect("a file of the store");
        let needle = SENTINEL.as_bytes();
        if bytes.windows(needle.len()).any(|window| window == needle) {
            names.push(name);
        }
    }
    names
}

#[test]
fn no_byte_of_what_was_deleted_is_left_after_maintenance() {
    for kind in KINDS {
        let place = filled(kind, &[OTHER]);
        let file = place.write("secret.jsonl", secret(ID));
        place.ok(&["import", text(&file)]);
        assert!(
            !found(&place).is_empty(),
            "{kind}: it is there to begin with"
        );
        place.ok(&["delete", "--yes", ID]);
        place.ok(&["maintain"]);
        assert_eq!(found(&place), [""; 0], "{kind}");
        assert_eq!(place.json(&["verify"])[0]["ok"], true);
    }
}

/// The keys of the rows that say the sentinel, as `show --json` prints them.
fn secret_keys(place: &Place, id: &str) -> Vec<String> {
    let entries = place.json(&["show", "--all", id]);
    let secret = |entry: &&Value| entry["row"].to_string().contains(SENTINEL);
    let keys = entries.iter().filter(secret).map(|entry| &entry["key"]);
    keys.map(|key| key.as_str().expect("a key").to_owned())
        .collect()
}

#[test]
fn no_byte_of_what_was_redacted_is_left_after_maintenance() {
    for kind in KINDS {
        let place = Place::of(kind);
        let file = place.write("secret.jsonl", secret(ID));
        place.ok(&["import", text(&file)]);
        place.ok(&["fork", ID, "--as", "shares-it"]);
        let before = place.json(&["stats", ID]);
        let mut keys = secret_keys(&place, ID);
        assert!(!keys.is_empty());
        for note in place.json(&["notes", ID]) {
            if note["fact"].to_string().contains(SENTINEL) {
                let id = note["fact"]["id"].as_str().expect("an id");
                let key = format!("notes::{id}");
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        let mut args = vec!["redact", ID];
        args.extend(keys.iter().map(String::as_str));
        let done = &place.json(&args)[0];
        assert_eq!(
            (&done["session_id"], &done["generation"]),
            (&ID.into(), &1.into())
        );
        let ordinals = done["ordinals"].as_array().expect("ordinals");
        assert!(!ordinals.is_empty(), "{done}");
        assert_eq!(done["facts"][0]["source"], "notes", "{done}");
        for id in [ID, "shares-it"] {
            assert_eq!(
                secret_keys(&place, id),
                [""; 0],
                "{kind}: unreadable at once"
            );
        }
        place.ok(&["maintain"]);
        assert_eq!(found(&place), [""; 0], "{kind}");
        let after = place.json(&["stats", ID]);
        for same in ["rows", "events", "chain", "usage", "user_messages"] {
            assert_eq!(before[0][same], after[0][same], "{same}");
        }
        assert!(
            place
                .json(&["verify"])
                .iter()
                .all(|line| line["ok"] == true)
        );
        // A copy holds no more than what is left.
        let other = Place::of(if kind == "sqlite" { "redb" } else { "sqlite" });
        place.ok(&["copy", &place.name(), &other.name()]);
        for id in [ID, "shares-it"] {
            assert_eq!(told(&other, id)[..3], told(&place, id)[..3], "{kind} {id}");
        }
        assert_eq!(found(&other), [""; 0], "{kind}");
        // For people.
        let key = place.json(&["show", "--all", ID])[0]["key"].clone();
        let line = place.ok(&["redact", ID, key.as_str().expect("a key")]);
        assert!(line.contains("redacted: "), "{line}");
        assert!(line.contains("generation 2"), "{line}");
        assert!(line.contains("folio maintain"), "{line}");
    }
}

#[test]
fn a_copy_between_kinds_and_back_is_the_same() {
    for (one, two) in [("sqlite", "redb"), ("redb", "sqlite"), ("sqlite", "sqlite")] {
        let (from, to, back) = (Place::of(one), Place::of(two), Place::of(one));
        from.import_samples();
        from.ok(&[
            "fork",
            "305e7cd9-805a-47f7-83db-d9f6609380fd",
            "--as",
            "fork",
        ]);
        let copied = from.json(&["copy", &from.name(), &to.name()]);
        let outcomes: Vec<&Value> = copied.iter().map(|line| &line["outcome"]).collect();
        assert_eq!(outcomes, ["copied"; 5], "{one} to {two}");
        to.ok(&["copy", &to.name(), &back.name()]);
        let ids = ids(&from);
        assert_eq!(ids.len(), 5);
        for id in &ids {
            // A fork's copy is no fork: all of its usage is its own.
            let tells = if id == "fork" { 0..3 } else { 0..6 };
            let all = told(&from, id);
            assert_eq!(told(&to, id)[tells.clone()], all[tells.clone()], "{id}");
            assert_eq!(told(&back, id)[tells.clone()], all[tells], "{id}");
        }
        let again = from.json(&["copy", &from.name(), &to.name()]);
        assert!(
            again.iter().all(|line| line["outcome"] == "unchanged"),
            "{again:?}"
        );
        let some = from.ok(&["copy", &from.name(), &back.name(), "--session", "fork"]);
        assert_eq!(some.lines().count(), 2, "a session and the summary: {some}");
        assert!(some.contains("1 unchanged"), "{some}");
        // An import goes on in the copy.
        let folder = samples();
        for line in back.json(&["import", text(&folder)]) {
            assert_eq!(line["outcome"], "unchanged", "{line}");
        }
    }
}

#[test]
fn a_session_that_cannot_be_copied_keeps_no_other_back() {
    for kind in KINDS {
        let from = filled("sqlite", &[ID, OTHER]);
        let to = Place::of(kind);
        // The same id, another session.
        let file = to.write("other.jsonl", generated(ID, 3, 10));
        to.ok(&["import", text(&file)]);
        let before = told(&to, ID);
        let ran = from.run(&["--json", "copy", &from.name(), &to.name()]);
        assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
        let lines = json_lines(&ran.stdout);
        assert_eq!(lines[0]["outcome"], "failed");
        assert_eq!(lines[0]["error"]["code"], "session_exists");
        assert_eq!(lines[0]["events"], Value::Null);
        assert_eq!(lines[1]["outcome"], "copied");
        assert_eq!(lines[1]["error"], Value::Null);
        let error = &json_lines(&ran.stderr)[0]["error"];
        assert_eq!(error["code"], "copy_failed");
        assert_eq!(told(&to, ID), before);
        assert_eq!(told(&to, OTHER), told(&from, OTHER));
        let ran = from.run(&["copy", &from.name(), &to.name()]);
        assert!(
            ran.stdout.contains("1 unchanged, 1 failed"),
            "{}",
            ran.stdout
        );
        assert!(
            ran.stdout.contains("with another content"),
            "{}",
            ran.stdout
        );
    }
}

/// Kills of the copies into one kind of store.
const KILLS: u64 = 24;
/// Kills of one store, one after the other, before its copy may end.
const IN_A_ROW: u64 = 4;

#[test]
fn a_copy_that_is_killed_again_and_again_ends_whole() {
    let from = Place::new();
    let file = from.write("session.jsonl", generated(ID, 800, 1_500));
    from.ok(&["import", text(&file)]);
    let whole = told(&from, ID);
    for kind in KINDS {
        let begun = Instant::now();
        let to = Place::of(kind);
        from.ok(&["copy", &from.name(), &to.name()]);
        let took = begun.elapsed();
        let (mut killed, mut hidden) = (0, 0);
        // Moments from the first to the last, in an order that is far from both.
        let mut moment = 0_u32;
        while killed < KILLS {
            let to = Place::of(kind);
            for _ in 0..IN_A_ROW {
                moment = (moment + 7) % 24;
                let mut child = from
                    .command()
                    .args(["copy", &from.name(), &to.name()])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("the command starts");
                std::thread::sleep(took * moment / 24);
                let ended = child.try_wait().expect("the command").is_some();
                child.kill().expect("a kill");
                child.wait().expect("its end");
                hidden += u64::from(hidden_or_whole(&to, &whole));
                if ended {
                    break;
                }
                killed += 1;
            }
            from.ok(&["copy", &from.name(), &to.name()]);
            assert_eq!(told(&to, ID), whole, "{kind}");
        }
        println!("{kind}: killed {killed} copies, {hidden} left hidden, undisturbed {took:?}");
        assert!(hidden > 0, "{kind}: no kill came in the middle");
    }
}

/// After a kill the session is not there, or all of it is; whether it is there
/// and hidden.
fn hidden_or_whole(place: &Place, whole: &[String]) -> bool {
    let ran = place.run(&["--json", "sessions"]);
    if ran.code == Some(6) {
        let error = &json_lines(&ran.stderr)[0]["error"];
        assert_eq!(error["code"], "store_missing", "{}", ran.stderr);
        return false;
    }
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    if !ran.stdout.is_empty() {
        assert_eq!(told(place, ID), whole);
        return false;
    }
    let show = place.run(&["--json", "show", ID]);
    assert_eq!(show.code, Some(4), "{}{}", show.stdout, show.stderr);
    json_lines(&show.stderr)[0]["error"]["code"] == "session_preparing"
}

#[test]
fn what_a_killed_copy_left_is_skipped_and_can_be_deleted() {
    let from = filled("sqlite", &[ID]);
    let store = folio_store_sqlite::SqliteConfig::new(from.store());
    let store = folio_store_sqlite::open(&store).expect("the store");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let left = folio_store::NewSession {
        id: SessionId::new("left").expect("an id"),
        authority: folio_core::Authority::Preparing,
        followed: false,
        import_ref: None,
    };
    let created = folio_store::Ledger::create_session(&store, left);
    runtime.block_on(created).expect("a session");
    drop(store);
    let to = Place::of("redb");
    let copied = from.json(&["copy", &from.name(), &to.name()]);
    assert_eq!(copied.len(), 2);
    assert_eq!(copied[1]["session_id"], "left");
    assert_eq!(copied[1]["outcome"], "skipped");
    assert_eq!(copied[1]["error"]["code"], "session_preparing");
    let ran: Ran = from.run(&["show", "left"]);
    assert!(ran.stderr.contains("or delete it"), "{}", ran.stderr);
    from.ok(&["delete", "--yes", "left"]);
    assert_eq!(from.json(&["copy", &from.name(), &to.name()]).len(), 1);
}

/// A cursor knows the store and the life of its session, and says both.
#[test]
fn a_cursor_of_another_copy_says_what_it_may_be() {
    let id = "5a0b0c0d-0000-4000-8000-000000000001";
    for kind in KINDS {
        let place = filled(kind, &[id]);
        let page = &place.json(&["show", id, "--max-items", "2"])[0];
        let cursor = page["older"].as_str().expect("an older page").to_owned();
        let other = format!("{kind}:{}", place.path("other").display());
        place.ok(&["copy", &place.name(), &other]);
        place.ok(&["delete", id, "--yes"]);
        place.ok(&["copy", &other, &place.name()]);
        for store in [other, place.name()] {
            let ran = place.run(&["--json", "--store", &store, "show", id, "--cursor", &cursor]);
            assert_eq!(ran.code, Some(5), "{store}: {}", ran.stdout);
            let error = &json_lines(&ran.stderr)[0]["error"];
            assert_eq!(error["code"], "cursor_incarnation");
            let message = error["message"].as_str().expect("a message");
            for cause in ["another store", "deleted and created anew"] {
                assert!(message.contains(cause), "{store}: {message}");
            }
        }
    }
}
