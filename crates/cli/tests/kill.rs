//! An import that is killed at any moment, or stopped with Ctrl-C, and begun
//! again ends where an undisturbed one ends; until then nobody sees it.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Place, Ran, generated, json_lines};

const ID: &str = "0a0b0c0d-0000-4000-8000-000000000001";
/// Kills in all.
const KILLS: u64 = 200;
/// Kills of one store, one after the other, before its import may end.
const IN_A_ROW: u64 = 5;
/// Variables of the crash child.
const STORE: &str = "FOLIO_TEST_CRASH_STORE";
const FILE: &str = "FOLIO_TEST_CRASH_FILE";
const POINT: &str = "FOLIO_TEST_CRASH_POINT";

/// A file of several megabytes, so that its import takes several batches.
fn content() -> String {
    generated(ID, 800, 1_500)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// What identifies all that an import has stored.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    stats: String,
    last_note: Option<String>,
}

fn facts(place: &Place) -> Facts {
    let notes = place.ok(&["--json", "notes", ID]);
    Facts {
        stats: place.ok(&["--json", "stats", ID]),
        last_note: notes.lines().last().map(str::to_owned),
    }
}

fn undisturbed(content: &str) -> (Facts, Duration) {
    let place = Place::new();
    let file = place.write("session.jsonl", content);
    let begun = Instant::now();
    place.ok(&["import", text(&file)]);
    let took = begun.elapsed();
    (facts(&place), took)
}

/// After a crash the session is not there, or all of it is.
fn hidden_or_whole(place: &Place, whole: &Facts) {
    let ran = place.run(&["--json", "sessions"]);
    if ran.code == Some(6) {
        let error = &json_lines(&ran.stderr)[0]["error"];
        assert_eq!(error["code"], "store_missing", "{}", ran.stderr);
        return;
    }
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    if ran.stdout.is_empty() {
        let show = place.run(&["--json", "show", ID]);
        assert_eq!(show.code, Some(4), "{}{}", show.stdout, show.stderr);
        assert_eq!(place.run(&["show", "latest"]).code, Some(4));
        return;
    }
    assert_eq!(&facts(place), whole);
}

fn ends_as(place: &Place, file: &Path, whole: &Facts) {
    place.ok(&["import", text(file)]);
    assert_eq!(&facts(place), whole);
    let report = &place.json(&["verify", ID])[0];
    assert_eq!(report["ok"], true, "{report}");
}

/// Numbers that differ from run to run of the loop, and never from test run to
/// test run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: Duration) -> Duration {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.next() % micros)
    }
}

#[test]
fn an_import_killed_at_random_moments_ends_like_an_undisturbed_one() {
    let content = Arc::new(content());
    let (whole, took) = undisturbed(&content);
    let whole = Arc::new(whole);
    let threads = std::thread::available_parallelism()
        .map_or(2, usize::from)
        .clamp(1, 8) as u64;
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let (content, whole) = (Arc::clone(&content), Arc::clone(&whole));
            std::thread::spawn(move || {
                let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (thread + 1));
                let mut killed = 0;
                while killed < KILLS.div_ceil(threads) {
                    killed += round(&content, &whole, took, &mut random);
                }
                killed
            })
        })
        .collect();
    let killed: u64 = workers
        .into_iter()
        .map(|worker| worker.join().expect("a round"))
        .sum();
    println!("killed {killed} imports before their end, undisturbed {took:?}");
    assert!(killed >= KILLS, "only {killed} were killed in time");
}

/// Kills the imports of one store until one ends; how many were killed before
/// their end.
fn round(content: &str, whole: &Facts, took: Duration, random: &mut Random) -> u64 {
    let place = Place::new();
    let file = place.write("session.jsonl", content);
    let mut killed = 0;
    while killed < IN_A_ROW {
        let mut child = place
            .command()
            .args(["import", text(&file)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        std::thread::sleep(random.below(took));
        let ended = child.try_wait().expect("the command").is_some();
        child.kill().expect("a kill");
        child.wait().expect("its end");
        hidden_or_whole(&place, whole);
        if ended {
            break;
        }
        killed += 1;
    }
    ends_as(&place, &file, whole);
    killed
}

#[test]
fn an_import_killed_at_each_stage_ends_like_an_undisturbed_one() {
    let content = content();
    let (whole, _) = undisturbed(&content);
    for point in [
        "Prepared",
        "Translated(1)",
        "Translated(2)",
        "Committed",
        "Committed 2",
        "Verified",
        "BeforeMark",
        "AfterMark",
    ] {
        let place = Place::new();
        let file = place.write("session.jsonl", &content);
        crash(&place, &file, point);
        hidden_or_whole(&place, &whole);
        ends_as(&place, &file, &whole);
    }
}

#[test]
fn a_growing_session_killed_at_each_stage_stays_readable() {
    let content = content();
    let (whole, _) = undisturbed(&content);
    let cut = content[..content.len() / 3].rfind('\n').expect("a line") + 1;
    for point in ["Translated(1)", "Committed", "AfterMark"] {
        let place = Place::new();
        let file = place.write("session.jsonl", &content[..cut]);
        place.ok(&["import", text(&file)]);
        std::fs::write(&file, &content).expect("a longer file");
        if !crash_if_reached(&place, &file, point) {
            println!("a growing session does not pass {point}");
        }
        assert_eq!(place.json(&["sessions"]).len(), 1, "{point}");
        assert_eq!(place.json(&["verify", ID])[0]["ok"], true, "{point}");
        ends_as(&place, &file, &whole);
    }
}

fn crash(place: &Place, file: &Path, point: &str) {
    assert!(
        crash_if_reached(place, file, point),
        "{point} was not reached"
    );
}

/// Imports in a child that aborts at a point; whether it did.
fn crash_if_reached(place: &Place, file: &Path, point: &str) -> bool {
    let this = std::env::current_exe().expect("this test");
    let status = Command::new(this)
        .args(["--exact", "crash_child", "--nocapture"])
        .env(STORE, place.store())
        .env(FILE, file)
        .env(POINT, point)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the child starts");
    !status.success()
}

/// The child of the tests above; by itself it does nothing.
#[test]
fn crash_child() {
    use folio_import::{CrashPoint, ImportOptions, Importer, Probe};
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Abort {
        point: String,
        nth: u64,
        seen: AtomicU64,
    }

    impl Probe for Abort {
        fn reached(&self, point: CrashPoint) {
            if format!("{point:?}") == self.point
                && self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.nth
            {
                std::process::abort();
            }
        }
    }

    let (Some(store), Some(file), Ok(point)) = (
        std::env::var_os(STORE),
        std::env::var_os(FILE),
        std::env::var(POINT),
    ) else {
        return;
    };
    let (point, nth) = match point.split_once(' ') {
        Some((point, nth)) => (point.to_owned(), nth.parse().expect("a number")),
        None => (point, 1),
    };
    let config = folio_store_sqlite::SqliteConfig::new(store);
    let store = Arc::new(folio_store_sqlite::open(&config).expect("a store"));
    let options = ImportOptions {
        probe: Arc::new(Abort {
            point,
            nth,
            seen: AtomicU64::new(0),
        }),
        ..ImportOptions::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime
        .block_on(Importer::new(store).import_path(Path::new(&file), &options))
        .expect("an import");
}

/// Ctrl-C stops between two batches; the same command goes on.
#[cfg(unix)]
#[test]
fn ctrl_c_stops_and_the_same_command_goes_on() {
    let content = content();
    let (whole, took) = undisturbed(&content);
    let mut random = Random(7);
    let mut stopped = 0;
    for _ in 0..10 {
        let place = Place::new();
        let file = place.write("session.jsonl", &content);
        let child = place
            .command()
            .args(["--json", "import", text(&file)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        // Not so early that nothing watches yet.
        std::thread::sleep(took / 4 + random.below(took / 2));
        let signal = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .expect("a signal");
        assert!(signal.success());
        let ran = Ran::from(child.wait_with_output().expect("its end"));
        match ran.code {
            Some(130) => {
                stopped += 1;
                let error = &json_lines(&ran.stderr)[0]["error"];
                assert_eq!(error["code"], "interrupted", "{}", ran.stderr);
                hidden_or_whole(&place, &whole);
            }
            code => assert_eq!(code, Some(0), "{}", ran.stderr),
        }
        ends_as(&place, &file, &whole);
    }
    assert!(stopped > 0, "no import was stopped before its end");
}
