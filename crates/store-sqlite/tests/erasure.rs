//! What was deleted or redacted is in no file once the scrub is complete, also
//! where the process was killed in between; what must stay is there and
//! verifies.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_core::{CanonicalEvent, Direction, EventId, Fact, FactOp, ForeignId, Json, SessionId};
use folio_store::{
    Admin, AppendBatch, BlobId, Blobs, ContributionBatch, ContributionQuery, Contributions,
    ItemIndex, ItemQuery, Leases, Ledger, NOTES, NewSession, Start, ViewBatch, Views,
};
use folio_store_sqlite::{SqliteConfig, SqliteStore};
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
/// In what the deleted session has left to its fork.
const SHARED: &str = "shared-with-a-fork";
/// In what nobody touches.
const KEPT: &str = "kept-as-it-is";
/// The session that is deleted; so its id is not found either.
const PARENT: &str = "parent-doomed-with-its-session";

/// Turns of the parent, and how many of them its fork shares.
const TURNS: usize = 64;
const INHERITED: usize = 10;
/// Small sessions that begin with a secret. The rows of each grow in front of
/// the next one's beginning, which SQLite moves on from page to page.
const CROWD: usize = 24;
/// The erasures of [`redact`] and of the parent's deletion.
const ERASURES: u64 = CROWD as u64 + 3;
/// The variable by which the child process finds the store, and what it does.
const STORE: &str = "FOLIO_TEST_ERASURE_STORE";
const DEED: &str = "FOLIO_TEST_ERASURE_DEED";

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("sessions.folio")
    }

    fn open(&self) -> SqliteStore {
        open(&self.path())
    }

    /// The files that hold some bytes.
    fn holding(&self, needle: &str) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let mut found: Vec<_> = files
            .map(|entry| entry.unwrap())
            .filter(|entry| {
                let bytes = std::fs::read(entry.path()).unwrap();
                let needle = needle.as_bytes();
                bytes.windows(needle.len()).any(|window| window == needle)
            })
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        found.sort();
        found
    }

    fn assert_erased(&self) {
        for needle in [DOOMED, SECRET] {
            assert_eq!(self.holding(needle), [""; 0], "{needle}");
        }
        for needle in [SHARED, KEPT] {
            assert_ne!(self.holding(needle), [""; 0], "{needle}");
        }
    }
}

fn open(path: &Path) -> SqliteStore {
    folio_store_sqlite::open(&SqliteConfig::new(path)).unwrap()
}

/// One of the crowd.
fn member(n: usize) -> SessionId {
    id(&format!("member-{n:02}"))
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

/// So often that it is found wherever a page ends.
fn loud(text: &str) -> String {
    text.repeat(400)
}

/// Where rows are small SQLite moves them from page to page as others come in
/// between, and leaves copies where they were; those it does not wipe out.
fn quiet(text: &str) -> String {
    text.repeat(3)
}

/// A turn of four events, small ones but for every fourth turn.
fn turn(events: &mut Events, n: usize, text: &str) -> Vec<CanonicalEvent> {
    events.enter(&format!("run-{n}"), &format!("turn-{n}"));
    let text = if n.is_multiple_of(4) {
        loud(text)
    } else {
        quiet(text)
    };
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
    // Keys that come between those of other sessions.
    let mut entries: Vec<_> = (0..200)
        .map(|n| {
            let key = format!("{:04} {session}", n * 7_919 % 1_000);
            (key.into_bytes(), Some(quiet(text).into_bytes()))
        })
        .collect();
    entries.push((
        format!("{session} {text}").into_bytes(),
        Some(loud(text).into_bytes()),
    ));
    ViewBatch {
        view: "texts".into(),
        version: 1,
        session: id(session),
        from: 0,
        to: 4,
        entries,
    }
}

fn content(text: &str) -> Vec<u8> {
    // More than one piece.
    text.repeat(100_000 / text.len()).into_bytes()
}

/// Sessions that were written in turns, so that what goes and what stays share
/// pages.
async fn history(place: &Place) {
    let store = place.open();
    for session in [PARENT, "other", "calm"] {
        let new = NewSession::native(id(session));
        store.create_session(new).await.unwrap();
    }
    let mut writers = [PARENT, "other", "calm", "child"].map(Events::new);
    let shared = store.put_blob(content(SHARED)).await.unwrap().id;
    let doomed = store.put_blob(content(DOOMED)).await.unwrap().id;
    store
        .put_blob([content(DOOMED), content(DOOMED)].concat())
        .await
        .unwrap();
    let upload = store.begin_blob().await.unwrap();
    store.extend_blob(upload, content(DOOMED)).await.unwrap();
    for n in 0..TURNS {
        let texts = [
            match n {
                4 => SECRET,
                n if n < INHERITED => SHARED,
                _ => DOOMED,
            },
            if n == 5 { SECRET } else { KEPT },
            KEPT,
        ];
        for (at, session) in [PARENT, "other", "calm"].into_iter().enumerate() {
            let mut batch = AppendBatch::native(turn(&mut writers[at], n, texts[at]));
            if at == 0 && n == 3 {
                batch.cites = vec![(1, shared)];
            }
            if at == 0 && n == INHERITED {
                batch.cites = vec![(1, doomed)];
                batch.contributions = Some(note("n", DOOMED));
            }
            if at == 1 && n == 7 {
                batch.contributions = Some(note("secret", SECRET));
            }
            if at == 1 && n == 8 {
                batch.contributions = Some(note("open", KEPT));
            }
            store.append(&id(session), batch).await.unwrap();
        }
        if n + 1 == INHERITED {
            let head = store.session(&id(PARENT)).await.unwrap().head;
            let fork = store.fork_session(&id(PARENT), head, id("child")).await;
            assert_eq!(fork.unwrap().inherited, 4 * INHERITED as u64);
        }
    }
    let mut crowd: Vec<_> = (0..CROWD)
        .map(|n| (member(n), Events::new(member(n).as_str())))
        .collect();
    for (session, _) in &crowd {
        let new = NewSession::native(session.clone());
        store.create_session(new).await.unwrap();
    }
    for n in [1, 2, 3, 5, 6, 7] {
        for (session, events) in &mut crowd {
            let text = if n == 1 { SECRET } else { KEPT };
            let batch = AppendBatch::native(turn(events, n, text));
            store.append(session, batch).await.unwrap();
        }
    }
    let own = AppendBatch::native(turn(&mut writers[3], TURNS, KEPT));
    store.append(&id("child"), own).await.unwrap();
    store.put_view(entries(PARENT, DOOMED)).await.unwrap();
    store.put_view(entries("other", SECRET)).await.unwrap();
    store.put_view(entries("calm", KEPT)).await.unwrap();
    store.acquire_lease(&id(PARENT), DOOMED).await.unwrap();
    store.close().await.unwrap();
}

/// The keys of the items that some events are in.
async fn keys(store: &SqliteStore, session: &SessionId, events: &[&str]) -> Vec<String> {
    let query = ItemQuery {
        through: None,
        direction: Direction::Newer,
        start: Start::Edge,
        max_items: 1_000,
        max_bytes: 64 << 20,
    };
    let page = store.read_items(session, query).await.unwrap();
    let wanted = page.items.iter().filter(|item| {
        let mut ids = item
            .events
            .iter()
            .map(|event| event.view().unwrap().id.to_owned());
        ids.any(|id| events.contains(&id.as_str()))
    });
    let keys: Vec<_> = wanted.map(|item| item.item.key.to_string()).collect();
    assert_eq!(keys.len(), events.len());
    keys
}

/// Takes all secrets out.
async fn redact(store: &SqliteStore) {
    let mut wanted = keys(store, &id("other"), &["u5", "a5"]).await;
    wanted.push(format!("{NOTES}::secret"));
    store.redact(&id("other"), &wanted).await.unwrap();
    let wanted = keys(store, &id("child"), &["u4", "a4"]).await;
    store.redact(&id("child"), &wanted).await.unwrap();
    for n in 0..CROWD {
        let wanted = keys(store, &member(n), &["u1", "a1"]).await;
        store.redact(&member(n), &wanted).await.unwrap();
    }
}

/// What stays, whole.
async fn check(store: &SqliteStore) {
    store.check().await.unwrap();
    let error = store.session(&id(PARENT)).await.unwrap_err();
    assert_eq!(error.code(), "session_not_found");
    for (session, head) in [
        ("other", 4 * TURNS),
        ("calm", 4 * TURNS),
        ("child", 4 * (INHERITED + 1)),
    ] {
        let info = store.session(&id(session)).await.unwrap();
        assert_eq!(info.head, head as u64, "{session}");
        let report = store.verify(&id(session)).await.unwrap();
        assert_eq!((report.findings, report.events), (vec![], head as u64));
    }
    for n in 0..CROWD {
        let report = store.verify(&member(n)).await.unwrap();
        assert_eq!((report.findings, report.events), (vec![], 24));
    }
    let ids = ["u0", "u4", "u9"].map(|id| EventId::new(id).unwrap());
    let known = store.lookup_ids(&id("child"), &ids).await.unwrap();
    assert!(known.iter().all(Option::is_some));
    let query = ContributionQuery {
        through: u64::MAX,
        direction: Direction::Newer,
        after: None,
        max_items: 9,
    };
    let notes = store.contributions(&id("other"), NOTES, query).await;
    let notes = notes.unwrap();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].withheld.is_some() && notes[1].body.contains(KEPT));

    let shared = BlobId::of(&content(SHARED));
    let found = store.read_blob(&shared, 0, 1 << 20).await.unwrap();
    assert!(found == content(SHARED));
    let cited = store.citations(&id("child"), 0, 9).await.unwrap();
    assert_eq!(cited, [(14, shared)]);
    let view = |session: &'static str, text| {
        let key = format!("{session} {text}").into_bytes();
        async move { store.view_value("texts", 1, &key).await.unwrap() }
    };
    assert!(view("calm", KEPT).await == Some(loud(KEPT).into_bytes()));
    assert!(view("other", SECRET).await.is_none());
    assert!(view(PARENT, DOOMED).await.is_none());
    let mark = |session| async move { store.view_mark("texts", 1, &id(session)).await.unwrap() };
    assert_eq!((mark("calm").await, mark("other").await), (4, 0));
}

/// Scrubs, and whether all that had to go is gone.
async fn scrub_and_check(place: &Place) {
    let store = place.open();
    assert!(store.pending_erasures().await.unwrap() > 0);
    drop(store);
    scrub_again_and_check(place).await;
}

/// The same, where a scrub may have been there before.
async fn scrub_again_and_check(place: &Place) {
    let store = place.open();
    store.scrub().await.unwrap();
    assert_eq!(store.pending_erasures().await.unwrap(), 0);
    // With the store open: its WAL is looked at too.
    place.assert_erased();
    check(&store).await;
    // Nothing is left to do.
    let again = store.scrub().await.unwrap();
    assert_eq!((again.completed, again.blobs), (0, 0));
    store.close().await.unwrap();
    drop(store);
    place.assert_erased();
    check(&place.open()).await;
}

#[tokio::test]
async fn a_scrub_leaves_no_byte_of_what_was_erased() {
    let place = Place::new();
    history(&place).await;
    let store = place.open();
    for needle in [DOOMED, SECRET, SHARED, KEPT] {
        assert_ne!(
            place.holding(needle),
            [""; 0],
            "{needle} is stored as it is"
        );
    }
    redact(&store).await;
    store.delete_session(&id(PARENT), None).await.unwrap();
    assert_eq!(store.pending_erasures().await.unwrap(), ERASURES);
    check(&store).await;
    assert_ne!(place.holding(SECRET), [""; 0], "bytes stay until the scrub");
    scrub_and_check(&place).await;
}

#[tokio::test]
async fn a_reader_holds_a_scrub_up_and_the_next_one_completes_it() {
    let place = Place::new();
    history(&place).await;
    let store = place.open();
    redact(&store).await;
    store.delete_session(&id(PARENT), None).await.unwrap();
    let reader = rusqlite::Connection::open(place.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    let error = store.scrub().await.unwrap_err();
    assert_eq!(error.code(), "store_busy");
    // What it collected before it came to the files is an erasure as well.
    assert!(store.pending_erasures().await.unwrap() > ERASURES);
    drop(reader);
    scrub_and_check(&place).await;
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
    let store = open(Path::new(&path));
    match &*deed {
        "deleting" => {
            println!("deleting");
            store.delete_session(&id(PARENT), None).await.unwrap();
        }
        _ => {
            redact(&store).await;
            store.delete_session(&id(PARENT), None).await.unwrap();
            println!("{deed}");
            if deed == "scrubbing" {
                store.scrub().await.unwrap();
            }
        }
    }
    std::thread::sleep(Duration::from_secs(600));
}

#[tokio::test]
async fn a_kill_before_the_scrub_only_puts_it_off() {
    let place = Place::new();
    history(&place).await;
    kill(run(&place, "erased"));
    for needle in [DOOMED, SECRET] {
        assert_ne!(place.holding(needle), [""; 0], "{needle}");
    }
    let store = place.open();
    assert_eq!(store.pending_erasures().await.unwrap(), ERASURES);
    check(&store).await;
    drop(store);
    scrub_and_check(&place).await;
}

#[tokio::test]
async fn a_kill_in_the_midst_of_a_scrub_loses_nothing() {
    let whole = Place::new();
    history(&whole).await;
    for delay in [0, 2, 4, 8, 16, 32] {
        let place = Place::new();
        std::fs::copy(whole.path(), place.path()).unwrap();
        let child = run(&place, "scrubbing");
        std::thread::sleep(Duration::from_millis(delay));
        kill(child);
        let store = place.open();
        if store.pending_erasures().await.unwrap() == 0 {
            // Whoever says that it is complete has completed it.
            for needle in [DOOMED, SECRET] {
                assert_eq!(place.holding(needle), [""; 0], "{needle}");
            }
        }
        check(&store).await;
        drop(store);
        scrub_again_and_check(&place).await;
    }
}

#[tokio::test]
async fn a_kill_in_the_midst_of_a_deletion_leaves_all_of_a_session_or_nothing_to_find() {
    let place = Place::new();
    history(&place).await;
    let mut more = Events::new(PARENT);
    let store = place.open();
    redact(&store).await;
    // So many that they are removed in several steps.
    for batch in 0..4 {
        let turns = (0..250).flat_map(|n| {
            let n = 1_000 + batch * 1_000 + n;
            more.enter(&format!("run-{n}"), &format!("turn-{n}"));
            [
                more.opened(&format!("o{n}"), "prompt", ""),
                more.user(&format!("u{n}"), DOOMED),
                more.end(&format!("e{n}"), "completed"),
            ]
        });
        let batch = AppendBatch::native(turns.collect());
        store.append(&id(PARENT), batch).await.unwrap();
    }
    drop(store);
    let head = 4 * TURNS as u64 + 3_000;
    for removed in [0, 1, 1_001, 2_001, 3_001] {
        let copy = Place::new();
        std::fs::copy(place.path(), copy.path()).unwrap();
        let child = run(&copy, "deleting");
        let watch = rusqlite::Connection::open(copy.path()).unwrap();
        let left = || -> u64 {
            let sql = "SELECT head FROM logs WHERE log_no = 1";
            let head: i64 = watch.query_row(sql, [], |row| row.get(0)).unwrap();
            head.cast_unsigned()
        };
        while left() > head - removed {
            std::thread::sleep(Duration::from_millis(1));
        }
        kill(child);
        drop(watch);
        let store = copy.open();
        match store.session(&id(PARENT)).await {
            Ok(info) => {
                assert_eq!((info.head, removed), (head, 0));
                let report = store.verify(&id(PARENT)).await.unwrap();
                assert_eq!((report.findings, report.events), (vec![], head));
                store.delete_session(&id(PARENT), None).await.unwrap();
            }
            Err(_) => store.check().await.unwrap(),
        }
        drop(store);
        scrub_and_check(&copy).await;
    }
}
