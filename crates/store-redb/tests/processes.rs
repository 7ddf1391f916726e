//! What a process that dies leaves behind, and what a second one is told.
//!
//! The test program is its own second process: told a part, it plays it until
//! it is killed.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use folio_core::SessionId;
use folio_store::{Admin, AppendBatch, Ledger, NewSession, RangeQuery};
use folio_store_redb::{RedbConfig, RedbStore, open};
use folio_testkit::workload::{Periodic, Random};
use libtest_mimic::{Arguments, Trial};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

/// Tells a child its part.
const PART: &str = "FOLIO_TEST_PART";
/// Tells a child which store it works on.
const STORE: &str = "FOLIO_TEST_STORE";

/// Events of a turn, which are one batch.
const TURN: u64 = 14;

fn main() -> ExitCode {
    match std::env::var(PART).as_deref() {
        Ok("append") => append_until_killed(),
        Ok("hold") => hold_the_store(),
        Ok(part) => panic!("there is no part {part}"),
        Err(_) => {
            let trials = vec![
                Trial::test("what_was_acknowledged_is_there_after_a_kill", || {
                    what_was_acknowledged_is_there_after_a_kill();
                    Ok(())
                }),
                Trial::test("a_second_process_is_told_who_may", || {
                    a_second_process_is_told_who_may();
                    Ok(())
                }),
            ];
            libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
        }
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(work)
}

fn session() -> SessionId {
    SessionId::new("s1").unwrap()
}

fn say(what: u64) {
    let mut out = std::io::stdout();
    writeln!(out, "{what}").unwrap();
    out.flush().unwrap();
}

/// A child that is killed at the latest when the test ends.
struct Other {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Other {
    fn start(part: &str, path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(PART, part)
            .env(STORE, path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// What it says next; `None` once it is dead.
    fn hear(&mut self) -> Option<u64> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        // A line that was cut off says nothing.
        line.strip_suffix('\n').map(|said| said.parse().unwrap())
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn store_of_child() -> RedbStore {
    let path = PathBuf::from(std::env::var_os(STORE).expect("the parent names the store"));
    open(&RedbConfig::new(path)).unwrap()
}

/// A child's part: appends turn after turn and says each head once it is
/// acknowledged.
fn append_until_killed() -> ! {
    block_on(async {
        let store = store_of_child();
        if store.session(&session()).await.is_err() {
            let new = NewSession::native(session());
            store.create_session(new).await.unwrap();
        }
        let mut turn = store.session(&session()).await.unwrap().head / TURN;
        loop {
            let batch = AppendBatch::native(Periodic::new("s1").batch(turn, 1));
            let done = store.append(&session(), batch).await.unwrap();
            say(done.high_water);
            turn += 1;
        }
    })
}

/// A child's part: opens the store, says so and keeps it.
fn hold_the_store() -> ! {
    let _store = store_of_child();
    say(0);
    loop {
        std::thread::park();
    }
}

/// Whether redb has nothing to repair.
fn opens_at_once(path: &Path) -> bool {
    let repairs = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&repairs);
    let opened = redb::Builder::new()
        .set_repair_callback(move |_| seen.store(true, std::sync::atomic::Ordering::SeqCst))
        .open(path);
    drop(opened.unwrap());
    !repairs.load(std::sync::atomic::Ordering::SeqCst)
}

fn what_was_acknowledged_is_there_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.redb");
    let mut random = Random::new(17);
    let mut acknowledged = 0;
    for round in 0..30 {
        let mut child = Other::start("append", &path);
        // Some are killed at the very start, before or while they make the
        // store; the others after some commits, at any moment of the next.
        let commits = random.below(8);
        for _ in 0..commits {
            acknowledged = child.hear().unwrap();
        }
        std::thread::sleep(Duration::from_micros(random.below(4_000) as u64));
        child.kill();
        while let Some(head) = child.hear() {
            acknowledged = head;
        }
        if !path.exists() {
            assert_eq!(acknowledged, 0, "round {round}");
            continue;
        }
        let copy = dir.path().join("copy.redb");
        std::fs::copy(&path, &copy).unwrap();
        assert!(opens_at_once(&copy), "round {round}: a repair was needed");
        block_on(async {
            let store = open(&RedbConfig::new(&path).existing()).unwrap();
            store.check().await.unwrap();
            let Ok(info) = store.session(&session()).await else {
                assert_eq!(acknowledged, 0, "round {round}");
                return;
            };
            assert!(info.head >= acknowledged, "round {round}: events are lost");
            assert_eq!(info.head % TURN, 0, "round {round}: half a batch");
            let report = store.verify(&session()).await.unwrap();
            assert_eq!(report.findings, []);
            assert_eq!(report.events, info.head);
            let query = RangeQuery {
                from: 1,
                to: info.head,
                max_count: usize::MAX,
                max_bytes: usize::MAX,
            };
            let events = store.range(&session(), query).await.unwrap();
            assert_eq!(events.len() as u64, info.head);
        });
    }
    assert!(acknowledged > 0);
}

fn a_second_process_is_told_who_may() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.redb");
    let mut child = Other::start("hold", &path);
    assert_eq!(child.hear(), Some(0));
    for config in [RedbConfig::new(&path), RedbConfig::new(&path).read_only()] {
        let error = open(&config).unwrap_err();
        assert_eq!(error.code(), "store_locked");
    }
    child.kill();
    // The lock dies with its process.
    drop(open(&RedbConfig::new(&path).read_only()).unwrap());
    drop(open(&RedbConfig::new(&path)).unwrap());
}
