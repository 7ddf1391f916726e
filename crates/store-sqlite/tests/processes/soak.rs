//! Writers in several processes for some seconds, undisturbed and disturbed.

use crate::child::{session, wait};
use crate::ledger::{Said, compare};
use crate::process::Process;
use folio_store::{Admin, Ledger, NewSession};
use folio_store_sqlite::{SqliteConfig, open};
use folio_testkit::workload::Random;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The threads that write in one process.
const WRITERS: usize = 10;

fn duration() -> Duration {
    let seconds = std::env::var("FOLIO_SOAK_SECONDS");
    Duration::from_secs(seconds.map_or(5, |text| text.parse().unwrap()))
}

/// A store with some empty sessions.
struct Place {
    _dir: TempDir,
    path: PathBuf,
    sessions: usize,
}

impl Place {
    fn new(sessions: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.folio");
        let store = open(&SqliteConfig::new(&path)).unwrap();
        for n in 0..sessions {
            wait(store.create_session(NewSession::native(session(n)))).unwrap();
        }
        wait(store.close()).unwrap();
        Self {
            _dir: dir,
            path,
            sessions,
        }
    }

    fn writer(&self, name: &str, writers: usize, bytes: usize) -> Process {
        Process::start(
            "writer",
            &self.path,
            &self
                .arguments(name, writers, bytes)
                .each_ref()
                .map(String::as_str),
        )
    }

    fn arguments(&self, name: &str, writers: usize, bytes: usize) -> [String; 4] {
        [
            name.to_owned(),
            self.sessions.to_string(),
            writers.to_string(),
            bytes.to_string(),
        ]
    }

    fn reader(&self) -> Process {
        Process::start("reader", &self.path, &[&self.sessions.to_string()])
    }
}

/// Says who got how far, for whoever looks.
fn print(test: &str, said: &[Said], rounds: &[String]) {
    for (n, said) in said.iter().enumerate() {
        eprintln!(
            "{test}: process {n} made {} appends, the longest took {} ms",
            said.appends(),
            said.longest.as_millis(),
        );
    }
    eprintln!("{test}: readers said {rounds:?}");
}

pub fn one_session() {
    undisturbed("one session", 1);
}

pub fn ten_sessions() {
    undisturbed("ten sessions", 10);
}

fn undisturbed(test: &str, sessions: usize) {
    let place = Place::new(sessions);
    let reader = place.reader();
    let writers = [0, 1].map(|n| place.writer(&format!("p{n}"), WRITERS, 40));
    std::thread::sleep(duration());
    let said = writers.map(|writer| {
        let mut said = Said::default();
        said.add(&writer.stop());
        said
    });
    print(test, &said, &reader.stop());
    for said in &said {
        assert_eq!(said.errors, [""; 0]);
        assert_eq!(said.writers(), WRITERS, "every writer got its turn");
    }
    let [a, b] = said.each_ref().map(Said::appends);
    assert!(a.min(b) * 2 > a.max(b), "{a} and {b} are not fair");
    compare(&place.path, place.sessions, &said);
}

pub fn killed_writers() {
    let place = Place::new(3);
    let reader = place.reader();
    let mut random = Random::new(u64::from(std::process::id()));
    let mut said = [Said::default(), Said::default()];
    let mut writers = [0, 1].map(|n| place.writer(&format!("p{n}_0"), WRITERS, 40));
    let start = Instant::now();
    for life in 1.. {
        if start.elapsed() >= duration() {
            break;
        }
        // Not in step with anything that the writers do.
        std::thread::sleep(Duration::from_millis(700 + random.below(600) as u64));
        let n = random.below(2);
        let next = place.writer(&format!("p{n}_{life}"), WRITERS, 40);
        said[n].add(&std::mem::replace(&mut writers[n], next).kill());
    }
    for (said, writer) in said.iter_mut().zip(writers) {
        said.add(&writer.stop());
        assert_eq!(said.errors, [""; 0]);
        assert_ne!(said.appends(), 0);
    }
    print("killed writers", &said, &reader.stop());
    compare(&place.path, place.sessions, &said);
}

pub fn bounded_wal() {
    const BOUND: u64 = 80 << 20;
    let place = Place::new(2);
    let mut readers = [place.reader(), place.reader()];
    let writers = [0, 1].map(|n| place.writer(&format!("p{n}"), 2, 64 << 10));
    let mut wal = place.path.clone().into_os_string();
    wal.push("-wal");
    // Asked for its length alone: a file that SQLite has open is not opened.
    let length = |path: &Path| path.metadata().map_or(0, |meta| meta.len());
    let (start, mut most, mut came) = (Instant::now(), 0, 0);
    // Until it would have outgrown the bound had it never started over.
    while start.elapsed() < duration() || length(&place.path) < 2 * BOUND {
        assert!(start.elapsed() < duration() + Duration::from_secs(120));
        most = most.max(length(wal.as_ref()));
        std::thread::sleep(Duration::from_millis(5));
        came += 1;
        if came % 100 == 0 {
            std::mem::replace(&mut readers[came / 100 % 2], place.reader()).kill();
        }
    }
    let said = writers.map(|writer| {
        let mut said = Said::default();
        said.add(&writer.stop());
        assert_eq!(said.errors, [""; 0]);
        said
    });
    let rounds = readers.map(Process::stop).concat();
    print("bounded wal", &said, &rounds);
    let stored = length(&place.path);
    eprintln!("bounded wal: at most {most} bytes, for {stored} of database");
    assert!(most < BOUND, "{most} bytes of WAL");
    compare(&place.path, place.sessions, &said);
}

/// One process cannot make a file longer than some length and has to live with
/// it; the other sees nothing of it.
pub fn full_disk() {
    let place = Place::new(2);
    let arguments = place.arguments("full", 3, 4_000);
    let arguments = arguments.each_ref().map(String::as_str);
    let limited = Process::start_limited("writer", &place.path, &arguments, 4 << 20);
    let free = place.writer("free", 3, 4_000);
    std::thread::sleep(duration());
    let mut full = Said::default();
    full.add(&limited.stop());
    // The space is back.
    let writer = place.writer("back", 3, 4_000);
    std::thread::sleep(Duration::from_secs(1));
    let [mut free_said, mut back] = [Said::default(), Said::default()];
    back.add(&writer.stop());
    free_said.add(&free.stop());
    let mut codes = full.errors.clone();
    codes.sort();
    codes.dedup();
    eprintln!("full disk: {codes:?}");
    assert!(!codes.is_empty(), "the disk was never full");
    let typed = [
        "indeterminate",
        "io_error",
        "storage_full",
        "store_poisoned",
    ];
    assert!(
        codes.iter().all(|code| typed.contains(&code.as_str())),
        "{codes:?}"
    );
    for said in [&free_said, &back] {
        assert_eq!(said.errors, [""; 0]);
        assert_ne!(said.appends(), 0);
    }
    let said = [full, free_said, back];
    print("full disk", &said, &[]);
    compare(&place.path, place.sessions, &said);
}
