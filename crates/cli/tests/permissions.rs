//! Who may look into the files that the command makes, and what it says where
//! it may not write.
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use support::{KINDS, Place, Ran, generated, json_lines, samples};

const ID: &str = "6a0b0c0d-0000-4000-8000-000000000001";

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
}

/// Runs the command without the rights of the superuser, who may write
/// anything.
struct Somebody {
    binary: PathBuf,
    is_root: bool,
}

impl Somebody {
    fn new(place: &Place) -> Self {
        let binary = place.path("folio");
        fs::copy(env!("CARGO_BIN_EXE_folio"), &binary).expect("a copy");
        set_mode(&binary, 0o555);
        set_mode(place.dir.path(), 0o755);
        let is_root = fs::metadata(&binary).expect("the copy").uid() == 0;
        Self { binary, is_root }
    }

    fn run(&self, place: &Place, store: Option<&str>, args: &[&str]) -> Ran {
        let mut command = std::process::Command::new(&self.binary);
        place.settle(&mut command);
        command.env_remove("FOLIO_STORE");
        if let Some(store) = store {
            command.env("FOLIO_STORE", store);
        }
        if self.is_root {
            command.uid(65_534).gid(65_534);
        }
        Ran::of(command.arg("--json").args(args))
    }
}

#[track_caller]
fn is_read_only(ran: &Ran, what: &str) {
    assert_eq!(ran.code, Some(6), "{what}: {}{}", ran.stdout, ran.stderr);
    let error = &json_lines(&ran.stderr)[0]["error"];
    assert_eq!(error["code"], "store_read_only", "{what}: {error}");
}

#[test]
fn the_default_folder_and_its_store_are_the_owners_alone() {
    let place = Place::new();
    let mut command = std::process::Command::new("sh");
    place.settle(&mut command);
    command.env_remove("FOLIO_STORE");
    // Whatever the user lets others see of other files.
    let script = r#"umask 000; exec "$0" import "$1""#;
    let ran = Ran::of(
        command
            .args(["-c", script, env!("CARGO_BIN_EXE_folio")])
            .arg(samples()),
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let folder = walk(place.dir.path())
        .into_iter()
        .find(|path| path.ends_with("folio/folio.db"))
        .and_then(|store| store.parent().map(Path::to_owned))
        .expect("the default store");
    assert_eq!(mode_of(&folder), 0o700);
    assert_eq!(mode_of(&folder.join("folio.db")), 0o600);
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn a_folder_that_was_there_keeps_its_mode() {
    let place = Place::new();
    let folder = place.path("data/folio");
    fs::create_dir_all(&folder).expect("a folder");
    set_mode(&folder, 0o750);
    let mut command = place.command();
    command.env_remove("FOLIO_STORE");
    let ran = Ran::of(command.arg("import").arg(samples()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(mode_of(&folder), 0o750);
}

/// Also after a rewrite, which makes new files; and a mode that somebody gave
/// the store stays.
#[test]
fn stores_are_made_for_their_owner_alone() {
    for kind in KINDS {
        let place = Place::of(kind);
        let file = place.write("s.jsonl", generated(ID, 5, 10));
        let import = ["import", file.to_str().expect("a path")];
        place.ok(&import);
        assert_eq!(mode_of(&place.store()), 0o600, "{kind}");
        let copy = format!("{kind}:{}", place.path("copy").display());
        place.ok(&["copy", &place.name(), &copy]);
        assert_eq!(mode_of(&place.path("copy")), 0o600, "{kind}");
        set_mode(&place.store(), 0o640);
        place.ok(&["delete", ID, "--yes"]);
        place.ok(&["maintain"]);
        assert_eq!(mode_of(&place.store()), 0o640, "{kind}");
    }
}

/// One code for every command that writes, for either kind, and whatever it is
/// that forbids writing.
#[test]
fn where_nothing_may_be_written_every_command_says_store_read_only() {
    for kind in KINDS {
        let place = Place::of(kind);
        let file = place.write("s.jsonl", generated(ID, 5, 10));
        let file = file.to_str().expect("a path");
        place.ok(&["import", file]);
        place.ok(&["fork", ID, "--as", "other"]);
        // Something for `maintain` to do.
        place.ok(&["delete", "other", "--yes"]);
        set_mode(&place.store(), 0o644);
        let somebody = Somebody::new(&place);
        set_mode(&place.store(), 0o444);
        set_mode(place.dir.path(), 0o555);
        let name = place.name();
        let run = |args: &[&str]| somebody.run(&place, Some(&name), args);
        let new = format!("{kind}:{}", place.path("new").display());
        for args in [
            &["import", file][..],
            &["open", file],
            &["rebuild"],
            &["fork", ID],
            &["redact", ID, "key"],
            &["delete", ID, "--yes"],
            &["maintain"],
            &["copy", &name, &new],
            &["--store", &new, "import", file],
        ] {
            is_read_only(&run(args), &format!("{kind}: {args:?}"));
        }
        let show = run(&["show", ID]);
        assert_eq!(show.code, Some(0), "{kind}: {}", show.stderr);
        // The default store has nowhere to be.
        let import = somebody.run(&place, None, &["import", file]);
        is_read_only(&import, &format!("{kind}: the default store"));
        set_mode(place.dir.path(), 0o755);
    }
}

/// The file may be written and its folder not, so nothing can take its place.
#[test]
fn a_rewrite_in_a_folder_that_is_read_only_says_so() {
    for kind in KINDS {
        let place = Place::of(kind);
        let file = place.write("s.jsonl", generated(ID, 5, 10));
        place.ok(&["import", file.to_str().expect("a path")]);
        place.ok(&["delete", ID, "--yes"]);
        let somebody = Somebody::new(&place);
        set_mode(&place.store(), 0o666);
        set_mode(place.dir.path(), 0o555);
        let maintain = somebody.run(&place, Some(&place.name()), &["maintain"]);
        set_mode(place.dir.path(), 0o755);
        is_read_only(&maintain, kind);
        let path = place.store().display().to_string();
        assert!(maintain.stderr.contains(&path), "{}", maintain.stderr);
        assert_eq!(place.json(&["maintain"])[0]["pending"], 0, "{kind}");
    }
}

/// The mode of the folder says that its owner may write there; somebody else
/// still may not.
#[test]
fn somebody_elses_folder_is_read_only() {
    for kind in KINDS {
        let place = Place::of(kind);
        let file = place.write("s.jsonl", generated(ID, 5, 10));
        let file = file.to_str().expect("a path").to_owned();
        place.ok(&["import", &file]);
        let somebody = Somebody::new(&place);
        if !somebody.is_root {
            // Then the owner runs the command, and only the modes forbid.
            set_mode(place.dir.path(), 0o555);
        }
        set_mode(&place.store(), if somebody.is_root { 0o644 } else { 0o444 });
        let new = format!("{kind}:{}", place.path("new").display());
        for store in [place.name(), new] {
            let import = somebody.run(&place, Some(&store), &["import", &file]);
            is_read_only(&import, &store);
        }
        set_mode(place.dir.path(), 0o755);
    }
}
