//! Owners live as long as their handles, and everybody sees commits.

use crate::child::{session, wait};
use crate::process::Process;
use folio_store::engine::Engine;
use folio_store::{AppendBatch, Ledger, NewSession};
use folio_store_sqlite::{SqliteConfig, SqliteStore, open};
use folio_testkit::event::Events;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf, SqliteStore) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.folio");
    let store = open(&SqliteConfig::new(&path)).unwrap();
    (dir, path, store)
}

/// A process that owns, and its number.
fn owner(path: &Path) -> (Process, u64) {
    let process = Process::start("owner", path, &[]);
    let number = process.line().strip_prefix("O ").unwrap().parse().unwrap();
    (process, number)
}

fn owner_files(dir: &TempDir) -> usize {
    let entries = std::fs::read_dir(dir.path()).unwrap();
    entries
        .filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_str().unwrap().contains("-owner-")
        })
        .count()
}

pub fn killed() {
    let (dir, path, store) = place();
    let engine = store.engine();
    let (process, number) = owner(&path);
    let (other, other_number) = owner(&path);
    assert!(number != 0 && number >> 63 == 0);
    assert_ne!(number, other_number);
    assert!(engine.is_alive(number).unwrap());
    assert!(engine.is_alive(other_number).unwrap());
    process.kill();
    assert_eq!(owner_files(&dir), 2, "the killed remove nothing");
    assert!(!engine.is_alive(number).unwrap());
    assert_eq!(owner_files(&dir), 1);
    assert!(!engine.is_alive(number).unwrap());
    assert!(engine.is_alive(other_number).unwrap());
    // The last handle of all, so that a reader tells it alone.
    let reader = open(&SqliteConfig::new(&path).read_only()).unwrap();
    assert!(reader.engine().is_alive(other_number).unwrap());
    other.kill();
    assert!(!reader.engine().is_alive(other_number).unwrap());
}

pub fn closed() {
    let (dir, path, store) = place();
    assert_eq!(owner_files(&dir), 0, "who owns nothing needs no file");
    let number = store.engine().owner().unwrap();
    assert_eq!(store.engine().owner().unwrap(), number);
    assert!(store.engine().is_alive(number).unwrap());
    let (process, child) = owner(&path);
    process.stop();
    assert!(!store.engine().is_alive(child).unwrap());
    // Two handles of one process are two owners.
    let second = open(&SqliteConfig::new(&path)).unwrap();
    assert_ne!(second.engine().owner().unwrap(), number);
    assert!(second.engine().is_alive(number).unwrap());
    assert_eq!(owner_files(&dir), 2);
    drop(store);
    assert!(!second.engine().is_alive(number).unwrap());
    assert!(!second.engine().is_alive(0).unwrap());
    drop(second);
    assert_eq!(owner_files(&dir), 0);
}

pub fn swept() {
    let (dir, path, store) = place();
    let living = store.engine().owner().unwrap();
    for _ in 0..3 {
        owner(&path).0.kill();
    }
    // A neighbour's file, and one that is no owner's.
    for name in [
        "other.folio-owner-0123456789abcdef",
        "sessions.folio-owner-x",
    ] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    assert_eq!(owner_files(&dir), 4, "one of the dead is left, by the last");
    drop(open(&SqliteConfig::new(&path)).unwrap());
    assert_eq!(owner_files(&dir), 3, "the living and two strangers");
    assert!(store.engine().is_alive(living).unwrap());
}

pub fn reader() {
    let (dir, path, store) = place();
    drop(store);
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    for name in ["sessions.folio-lock", "sessions.folio-turn"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let reader = open(&SqliteConfig::new(&path).read_only()).unwrap();
    let error = reader.engine().owner().unwrap_err();
    assert_eq!(error.code(), "store_read_only");
    assert!(!reader.engine().is_alive(7).unwrap());
    drop(reader);
    // SQLite's own side files apart, which a reader of a log needs.
    let lasting = std::fs::read_dir(dir.path()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        !["-wal", "-shm"]
            .iter()
            .any(|end| name.to_str().unwrap().ends_with(end))
    });
    assert_eq!(lasting.count(), 1, "of {}", files());
}

pub fn version() {
    let (_dir, path, store) = place();
    let reader = open(&SqliteConfig::new(&path).read_only()).unwrap();
    let engines = [store.engine(), reader.engine()];
    let versions = || engines.map(|engine| engine.version().unwrap());
    let first = versions();
    assert_eq!(versions(), first, "nothing happened");
    wait(store.create_session(NewSession::native(session(0)))).unwrap();
    let own = versions();
    assert!(own[0] != first[0] && own[1] != first[1]);
    assert_eq!(versions(), own);
    let opener = Process::start("opener", &path, &["theirs"]);
    assert_eq!(opener.stop(), [""; 0]);
    let others = versions();
    assert!(others[0] != own[0] && others[1] != own[1]);
    assert_eq!(versions(), others);
    wait(store.session(&session(0))).unwrap();
    assert_eq!(versions(), others, "reading changes nothing");
}

/// How many commits wake the waiter.
pub const WOKEN: u64 = 8;
/// How long it is watched while nothing happens.
pub const IDLE: Duration = Duration::from_secs(2);

/// The time that processes share.
pub fn micros() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_micros()
}

pub fn watch() {
    let (_dir, path, store) = place();
    wait(store.create_session(NewSession::native(session(0)))).unwrap();
    let waiter = Process::start("waiter", &path, &[]);
    assert_eq!(waiter.line(), "ready");
    let mut events = Events::new("s0");
    let mut waited: Vec<u128> = (1..=WOKEN)
        .map(|n| {
            // After a while without commits, and soon after one.
            std::thread::sleep(Duration::from_millis(if n % 2 == 0 { 70 } else { 1_300 }));
            let batch = AppendBatch::native(vec![events.user(&n.to_string(), "hello")]);
            wait(store.append(&session(0), batch)).unwrap();
            let committed = micros();
            let line = waiter.line();
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[..2], ["W", &n.to_string()]);
            words[2].parse::<u128>().unwrap().saturating_sub(committed)
        })
        .collect();
    std::thread::sleep(Duration::from_millis(1_700) + IDLE);
    let slept: Vec<u64> = waiter
        .stop()
        .iter()
        .map(|line| line.strip_prefix("S ").unwrap().parse().unwrap())
        .collect();
    waited.sort_unstable();
    let (median, longest) = (waited[waited.len() / 2], waited[waited.len() - 1]);
    println!("woken after {median} us, {longest} us at most; slept {slept:?} times in {IDLE:?}");
    // One late answer may be the machine's.
    let late = waited.iter().filter(|waited| **waited > 100_000).count();
    assert!(late <= 1, "{waited:?}");
    assert!(
        slept.iter().all(|times| *times <= 20 * IDLE.as_secs() + 4),
        "{slept:?}"
    );
}
