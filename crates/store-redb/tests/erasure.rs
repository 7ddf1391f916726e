//! What was deleted or redacted is in no file once the scrub is complete, also
//! where the process was killed in between; what must stay is there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_core::{CanonicalEvent, Direction, Fact, FactOp, ForeignId, Json, SessionId};
use folio_store::{
    Admin, AppendBatch, BlobId, Blobs, ContributionBatch, ItemIndex, ItemQuery, Ledger, NOTES,
    NewSession, Start, ViewBatch, Views,
};
use folio_store_redb::{RedbConfig, RedbStore};
use folio_testkit::event::Events;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// In everything that goes with a deleted session.
const DOOMED: &str = "doomed-with-its-session";
/// In what is redacted.
const SECRET: &str = "secret-until-redacted";
/// In what nobody touches.
const KEPT: &str = "kept-as-it-is";
/// Turns of each session.
const TURNS: usize = 48;
/// The turn whose texts are redacted.
const REDACTED: usize = 5;
/// The variables by which the child finds the store, and what it does.
const STORE: &str = "FOLIO_TEST_ERASURE_STORE";
const DEED: &str = "FOLIO_TEST_ERASURE_DEED";

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("sessions.redb")
    }

    fn open(&self) -> RedbStore {
        open(&self.path())
    }

    /// The files that hold some bytes.
    fn holding(&self, needle: &str) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        files
            .map(|entry| entry.unwrap())
            .filter(|entry| {
                let bytes = std::fs::read(entry.path()).unwrap();
                let needle = needle.as_bytes();
                bytes.windows(needle.len()).any(|window| window == needle)
            })
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    }

    fn assert_erased(&self) {
        for needle in [DOOMED, SECRET] {
            assert_eq!(self.holding(needle), [""; 0], "{needle}");
        }
        assert_ne!(self.holding(KEPT), [""; 0]);
    }

    /// Scrubs, and whether all that had to go is gone.
    async fn scrub_and_check(&self) {
        let store = self.open();
        check(&store).await;
        store.scrub().await.unwrap();
        assert_eq!(store.pending_erasures().await.unwrap(), 0);
        self.assert_erased();
        check(&store).await;
        // The new file takes what comes.
        let more = AppendBatch::native(turn(&mut Events::new("other"), TURNS, KEPT));
        store.append(&id("other"), more).await.unwrap();
        store.close().await.unwrap();
        self.assert_erased();
        let report = self.open().verify(&id("other")).await.unwrap();
        let events = 4 * (TURNS as u64 + 1);
        assert_eq!((report.findings, report.events), (vec![], events));
    }
}

fn open(path: &Path) -> RedbStore {
    folio_store_redb::open(&RedbConfig::new(path)).unwrap()
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn loud(text: &str) -> String {
    text.repeat(200)
}

/// More than one piece.
fn content(text: &str) -> Vec<u8> {
    text.repeat(100_000 / text.len()).into_bytes()
}

/// A turn of four events, small ones but for every fourth turn.
fn turn(events: &mut Events, n: usize, text: &str) -> Vec<CanonicalEvent> {
    events.enter(&format!("run-{n}"), &format!("turn-{n}"));
    let text = text.repeat(if n.is_multiple_of(4) { 400 } else { 3 });
    vec![
        events.opened(&format!("o{n}"), "prompt", ""),
        events.user(&format!("u{n}"), &text),
        events.text(&format!("a{n}"), &format!("m{n}"), false, &text),
        events.end(&format!("e{n}"), "completed"),
    ]
}

fn note(name: &str, text: &str) -> ContributionBatch {
    let fact = Fact {
        id: ForeignId::new(name).unwrap(),
        op: FactOp::Put,
        anchor: 1,
        ts: None,
        kind: "mode_change".into(),
        turn_id: None,
        visible: true,
        data: Some(Json::parse(&format!("{{\"text\":\"{}\"}}", loud(text))).unwrap()),
    };
    ContributionBatch::new(NOTES, vec![fact])
}

fn entries(session: &str, text: &str) -> ViewBatch {
    ViewBatch {
        view: "texts".into(),
        version: 1,
        session: id(session),
        from: 0,
        to: 4,
        entries: (0..100)
            .map(|n| {
                // Keys that come between those of other sessions.
                let key = format!("{:04} {session} {text}", n * 7_919 % 1_000);
                (key.into_bytes(), Some(text.repeat(3).into_bytes()))
            })
            .collect(),
    }
}

/// Two sessions that were written in turns, so that what goes and what stays
/// share pages.
async fn history(place: &Place) {
    let store = place.open();
    for session in ["gone", "other"] {
        let new = NewSession::native(id(session));
        store.create_session(new).await.unwrap();
    }
    let (mut gone, mut other) = (Events::new("gone"), Events::new("other"));
    let doomed = store.put_blob(content(DOOMED)).await.unwrap().id;
    let kept = store.put_blob(content(KEPT)).await.unwrap().id;
    let upload = store.begin_blob().await.unwrap();
    store.extend_blob(upload, content(DOOMED)).await.unwrap();
    for n in 0..TURNS {
        let mut batch = AppendBatch::native(turn(&mut gone, n, DOOMED));
        if n == 3 {
            batch.cites = vec![(1, doomed)];
            batch.contributions = Some(note("n", DOOMED));
        }
        store.append(&id("gone"), batch).await.unwrap();
        let text = if n == REDACTED { SECRET } else { KEPT };
        let mut batch = AppendBatch::native(turn(&mut other, n, text));
        if n == 3 {
            batch.cites = vec![(1, kept)];
            batch.contributions = Some(note("secret", SECRET));
        }
        if n == 4 {
            batch.contributions = Some(note("open", KEPT));
        }
        store.append(&id("other"), batch).await.unwrap();
    }
    store.put_view(entries("gone", DOOMED)).await.unwrap();
    store.put_view(entries("other", SECRET)).await.unwrap();
    store.close().await.unwrap();
}

/// Takes all that has to go out of sight.
async fn erase(store: &RedbStore) {
    let query = ItemQuery {
        through: None,
        direction: Direction::Newer,
        start: Start::Edge,
        max_items: 1_000,
        max_bytes: 64 << 20,
    };
    let page = store.read_items(&id("other"), query).await.unwrap();
    let secrets = [format!("u{REDACTED}"), format!("a{REDACTED}")];
    let mut keys: Vec<_> = page
        .items
        .iter()
        .filter(|item| {
            let mut ids = item.events.iter().map(|event| event.view().unwrap().id);
            ids.any(|id| secrets.iter().any(|secret| secret == id))
        })
        .map(|item| item.item.key.to_string())
        .collect();
    assert_eq!(keys.len(), secrets.len());
    keys.push(format!("{NOTES}::secret"));
    store.redact(&id("other"), &keys).await.unwrap();
    store.delete_session(&id("gone"), None).await.unwrap();
}

/// What stays, whole.
async fn check(store: &RedbStore) {
    store.check().await.unwrap();
    let error = store.session(&id("gone")).await.unwrap_err();
    assert_eq!(error.code(), "session_not_found");
    let report = store.verify(&id("other")).await.unwrap();
    let events = 4 * TURNS as u64;
    assert_eq!((report.findings, report.events), (vec![], events));
    let kept = BlobId::of(&content(KEPT));
    let found = store.read_blob(&kept, 0, 1 << 20).await.unwrap();
    assert!(found == content(KEPT));
}

/// Runs the deed of [`child`] in a process of its own, until it says that it
/// is about to begin or that it is done.
fn run(place: &Place, deed: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(STORE, place.path())
        .env(DEED, deed)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == deed), "{deed}");
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The child of the tests of this file; by itself it does nothing.
#[tokio::test]
async fn child() {
    let (Some(path), Ok(deed)) = (std::env::var_os(STORE), std::env::var(DEED)) else {
        return;
    };
    let store = open(&PathBuf::from(path));
    erase(&store).await;
    println!("{deed}");
    if deed == "scrubbing" {
        store.scrub().await.unwrap();
    }
    std::thread::sleep(Duration::from_secs(600));
}

#[tokio::test]
async fn a_scrub_leaves_no_byte_of_what_was_erased() {
    let place = Place::new();
    history(&place).await;
    for needle in [DOOMED, SECRET, KEPT] {
        assert_ne!(
            place.holding(needle),
            [""; 0],
            "{needle} is stored as it is"
        );
    }
    let store = place.open();
    erase(&store).await;
    assert_ne!(place.holding(SECRET), [""; 0], "bytes stay until the scrub");
    store.close().await.unwrap();
    place.scrub_and_check().await;
}

#[tokio::test]
async fn a_kill_before_the_scrub_only_puts_it_off() {
    let place = Place::new();
    history(&place).await;
    kill(run(&place, "erased"));
    assert!(place.open().pending_erasures().await.unwrap() > 0);
    place.scrub_and_check().await;
}

#[tokio::test]
async fn a_kill_in_the_midst_of_a_scrub_loses_nothing() {
    let whole = Place::new();
    history(&whole).await;
    let mut drafts = 0;
    for delay in [0, 1, 2, 3, 4, 6, 8, 10, 14, 20, 30] {
        let place = Place::new();
        std::fs::copy(whole.path(), place.path()).unwrap();
        let child = run(&place, "scrubbing");
        std::thread::sleep(Duration::from_millis(delay));
        kill(child);
        drafts += std::fs::read_dir(place.0.path()).unwrap().count() - 1;
        let store = place.open();
        let files = std::fs::read_dir(place.0.path()).unwrap().count();
        assert_eq!(files, 1, "the draft goes with the next opening");
        if store.pending_erasures().await.unwrap() == 0 {
            // Whoever says that it is complete has completed it.
            place.assert_erased();
        }
        drop(store);
        place.scrub_and_check().await;
    }
    println!("{drafts} kills left a draft");
}

#[tokio::test]
async fn a_read_that_began_before_a_rewrite_ends_on_what_it_began_with() {
    use folio_store::engine::Engine;
    let place = Place::new();
    history(&place).await;
    let store = place.open();
    erase(&store).await;
    let engine = store.engine();
    engine
        .read(&mut |snapshot| {
            engine.rewrite()?;
            assert!(snapshot.session("other")?.is_some());
            engine.read(&mut |later| {
                assert!(later.session("other")?.is_some());
                Ok(())
            })
        })
        .unwrap();
    drop(store);
    place.scrub_and_check().await;
}
