//! What was deleted or redacted is in no file once the scrub is complete, also
//! where the process was killed in between; what must stay is there and
//! verifies.
//!
//! [`erasure_cases!`](crate::erasure_cases) makes a test of each case. A test
//! runs its own binary again as the process that is killed, so the macro stands
//! at the root of a test of its own.
#![expect(missing_docs, reason = "the name of a case says what holds")]

use crate::check::{append, create, is_sound, session_id, told};
use crate::event::Events;
use folio_core::{CanonicalEvent, Direction, EventId, Fact, FactOp, ForeignId, Json, SessionId};
use folio_store::{
    AppendBatch, BlobId, ContributionBatch, ContributionQuery, ItemQuery, NOTES, NewSession, Start,
    Store, ViewBatch,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
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
/// the next one's beginning, which a tree moves on from page to page.
const CROWD: usize = 24;
/// The erasures of [`erase`].
pub const ERASURES: u64 = CROWD as u64 + 3;
/// Events of the parent once `lengthen` has made it long.
pub const LONG: u64 = 4 * TURNS as u64 + 3_000;
/// The variables by which the child process finds the store, and what it does.
const STORE: &str = "FOLIO_TEST_ERASURE_STORE";
const DEED: &str = "FOLIO_TEST_ERASURE_DEED";
/// What it does: to delete the parent, to erase all that has to go, and to scrub
/// then. It says so when the first begins, and before the others' last step.
const DELETING: &str = "deleting";
const ERASED: &str = "erased";
const SCRUBBING: &str = "scrubbing";

/// How to open the store of a file, which is made if there is none.
pub type Open = fn(&Path) -> Arc<dyn Store>;

/// A directory with one store.
#[derive(Debug)]
pub struct Place {
    dir: TempDir,
    open: Open,
}

impl Place {
    /// An empty one.
    ///
    /// # Panics
    /// If there can be no temporary directory.
    pub fn new(open: Open) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, open }
    }

    /// One with the sessions that the cases are about.
    pub async fn with_history(open: Open) -> Self {
        let place = Self::new(open);
        history(&place).await;
        place
    }

    /// One with a copy of the store's file; what stands beside it is not copied.
    fn copy(&self) -> Self {
        let copy = Self::new(self.open);
        std::fs::copy(self.path(), copy.path()).unwrap();
        copy
    }

    /// The file of the store.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("sessions.folio")
    }

    /// Opens the store.
    pub fn open(&self) -> Arc<dyn Store> {
        (self.open)(&self.path())
    }

    fn files(&self) -> BTreeSet<OsString> {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        files.map(|entry| entry.unwrap().file_name()).collect()
    }

    /// The files that hold some bytes.
    fn holding(&self, needle: &str) -> BTreeSet<OsString> {
        let needle = needle.as_bytes();
        let mut files = self.files();
        files.retain(|name| {
            let bytes = std::fs::read(self.dir.path().join(name)).unwrap();
            bytes.windows(needle.len()).any(|window| window == needle)
        });
        files
    }

    fn assert_erased(&self) {
        for needle in [DOOMED, SECRET] {
            assert_eq!(self.holding(needle), BTreeSet::new(), "{needle}");
        }
        self.assert_held(&[SHARED, KEPT]);
    }

    fn assert_held(&self, needles: &[&str]) {
        for needle in needles {
            assert!(!self.holding(needle).is_empty(), "{needle}");
        }
    }
}

/// One of the crowd.
fn member(n: usize) -> SessionId {
    session_id(&format!("member-{n:02}"))
}

/// So often that it is found wherever a page ends.
fn loud(text: &str) -> String {
    text.repeat(400)
}

/// Where rows are small a tree moves them from page to page as others come in
/// between, and leaves copies where they were.
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
        session: session_id(session),
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
        let new = NewSession::native(session_id(session));
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
            store.append(&session_id(session), batch).await.unwrap();
        }
        if n + 1 == INHERITED {
            let head = store.session(&session_id(PARENT)).await.unwrap().head;
            let fork = store
                .fork_session(&session_id(PARENT), head, session_id("child"))
                .await;
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
    store.append(&session_id("child"), own).await.unwrap();
    store.put_view(entries(PARENT, DOOMED)).await.unwrap();
    store.put_view(entries("other", SECRET)).await.unwrap();
    store.put_view(entries("calm", KEPT)).await.unwrap();
    store
        .acquire_lease(&session_id(PARENT), DOOMED)
        .await
        .unwrap();
    store.close().await.unwrap();
}

/// The keys of the items that some events are in.
async fn keys(store: &dyn Store, session: &SessionId, events: &[&str]) -> Vec<String> {
    let query = ItemQuery {
        through: None,
        direction: Direction::Newer,
        start: Start::Edge,
        max_items: 1_000,
        max_bytes: 64 << 20,
        member_bytes: usize::MAX,
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

/// Takes all secrets out and deletes the parent: [`ERASURES`] in all.
pub async fn erase(store: &dyn Store) {
    erase_secrets(store).await;
    delete_parent(store).await;
}

async fn erase_secrets(store: &dyn Store) {
    let mut wanted = keys(store, &session_id("other"), &["u5", "a5"]).await;
    wanted.push(format!("{NOTES}::secret"));
    store.redact(&session_id("other"), &wanted).await.unwrap();
    let wanted = keys(store, &session_id("child"), &["u4", "a4"]).await;
    store.redact(&session_id("child"), &wanted).await.unwrap();
    for n in 0..CROWD {
        let wanted = keys(store, &member(n), &["u1", "a1"]).await;
        store.redact(&member(n), &wanted).await.unwrap();
    }
}

async fn delete_parent(store: &dyn Store) {
    let parent = session_id(PARENT);
    store.delete_session(&parent, None).await.unwrap();
}

/// What stays, whole.
async fn check(store: &dyn Store) {
    store.check().await.unwrap();
    let error = store.session(&session_id(PARENT)).await.unwrap_err();
    assert_eq!(error.code(), "session_not_found");
    for (session, head) in [
        ("other", 4 * TURNS),
        ("calm", 4 * TURNS),
        ("child", 4 * (INHERITED + 1)),
    ] {
        let info = store.session(&session_id(session)).await.unwrap();
        assert_eq!(info.head, head as u64, "{session}");
        let report = store.verify(&session_id(session)).await.unwrap();
        assert_eq!((report.findings, report.events), (vec![], head as u64));
    }
    for n in 0..CROWD {
        let report = store.verify(&member(n)).await.unwrap();
        assert_eq!((report.findings, report.events), (vec![], 24));
    }
    let ids = ["u0", "u4", "u9"].map(|id| EventId::new(id).unwrap());
    let known = store.lookup_ids(&session_id("child"), &ids).await.unwrap();
    assert!(known.iter().all(Option::is_some));
    let query = ContributionQuery {
        through: u64::MAX,
        direction: Direction::Newer,
        after: None,
        max_items: 9,
    };
    let notes = store
        .contributions(&session_id("other"), NOTES, query)
        .await;
    let notes = notes.unwrap();
    assert_eq!(notes.len(), 2);
    assert!(notes[0].withheld.is_some() && notes[1].body.contains(KEPT));

    let shared = BlobId::of(&content(SHARED));
    let found = store.read_blob(&shared, 0, 1 << 20).await.unwrap();
    assert!(found == content(SHARED));
    let cited = store.citations(&session_id("child"), 0, 9).await.unwrap();
    assert_eq!(cited, [(14, shared)]);
    let view = |session: &'static str, text| {
        let key = format!("{session} {text}").into_bytes();
        async move { store.view_value("texts", 1, &key).await.unwrap() }
    };
    assert!(view("calm", KEPT).await == Some(loud(KEPT).into_bytes()));
    assert!(view("other", SECRET).await.is_none());
    assert!(view(PARENT, DOOMED).await.is_none());
    let mark = |session| async move {
        store
            .view_mark("texts", 1, &session_id(session))
            .await
            .unwrap()
    };
    assert_eq!((mark("calm").await, mark("other").await), (4, 0));
}

/// Scrubs, and asserts that all that had to go is gone and that all else is
/// there. A scrub may have been there before.
pub async fn scrub_and_check(place: &Place) {
    let store = place.open();
    check(&*store).await;
    store.scrub().await.unwrap();
    assert_eq!(store.pending_erasures().await.unwrap(), 0);
    // With the store open: what stands beside its file is looked at too.
    place.assert_erased();
    check(&*store).await;
    // Nothing is left to do.
    let again = store.scrub().await.unwrap();
    assert_eq!((again.completed, again.blobs), (0, 0));
    store.close().await.unwrap();
    drop(store);
    place.assert_erased();
    let store = place.open();
    check(&*store).await;
    // What was rewritten takes what comes.
    let calm = session_id("calm");
    let more = turn(&mut Events::new("calm"), TURNS, KEPT);
    append(&*store, &calm, more).await;
    store.close().await.unwrap();
    drop(store);
    place.assert_erased();
    let report = place.open().verify(&calm).await.unwrap();
    let events = 4 * (TURNS as u64 + 1);
    assert_eq!((report.findings, report.events), (vec![], events));
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

/// The deed of a child process; by itself it does nothing.
pub async fn child(open: Open) {
    let (Some(path), Ok(deed)) = (std::env::var_os(STORE), std::env::var(DEED)) else {
        return;
    };
    let store = open(Path::new(&path));
    if deed == DELETING {
        println!("{deed}");
        delete_parent(&*store).await;
    } else {
        erase(&*store).await;
        println!("{deed}");
        if deed == SCRUBBING {
            store.scrub().await.unwrap();
        }
    }
    std::thread::sleep(Duration::from_secs(600));
}

pub async fn a_scrub_leaves_no_byte_of_what_was_erased(open: Open) {
    let place = Place::with_history(open).await;
    // Everything is stored as it is.
    place.assert_held(&[DOOMED, SECRET, SHARED, KEPT]);
    let store = place.open();
    erase(&*store).await;
    assert_eq!(store.pending_erasures().await.unwrap(), ERASURES);
    // Bytes stay until the scrub.
    place.assert_held(&[DOOMED, SECRET]);
    store.close().await.unwrap();
    drop(store);
    scrub_and_check(&place).await;
}

/// Text that was streamed is in the journal, in segments and in finals, and in
/// what those were before; none of it stays.
pub async fn a_scrub_leaves_no_byte_of_streamed_text(open: Open) {
    for settles in [false, true] {
        let place = Place::new(open);
        let store = place.open();
        let said = [("redacted", SECRET), ("doomed", DOOMED), ("kept", KEPT)];
        for (name, text) in said {
            let session = create(&*store, name).await;
            let mut events = Events::new(name);
            for n in 0..40 {
                let chunk = events.text(&format!("m#{n}"), "m", true, &format!("{text} {n} "));
                append(&*store, &session, vec![chunk]).await;
            }
            if settles {
                let whole: String = (0..40).map(|n| format!("{text} {n} ")).collect();
                let last = events.text("final", "m", false, &whole);
                append(&*store, &session, vec![last]).await;
            }
        }
        let (redacted, doomed) = (session_id("redacted"), session_id("doomed"));
        let keys = ["assistant:r1:m".to_owned()];
        let gone = store.redact(&redacted, &keys).await.unwrap();
        assert_eq!(gone.ordinals.len(), 40 + usize::from(settles));
        store.delete_session(&doomed, None).await.unwrap();
        store.scrub().await.unwrap();
        store.close().await.unwrap();
        drop(store);
        for needle in [SECRET, DOOMED, "doomed"] {
            assert_eq!(place.holding(needle), BTreeSet::new(), "{needle}");
        }
        let store = place.open();
        let kept = told(&*store, &session_id("kept")).await;
        assert!(kept.items[0].row.2.contains("kept-as-it-is 39 "));
        is_sound(&*store, &redacted).await;
    }
}

pub async fn a_kill_before_the_scrub_only_puts_it_off(open: Open) {
    let place = Place::with_history(open).await;
    kill(run(&place, ERASED));
    place.assert_held(&[DOOMED, SECRET]);
    let store = place.open();
    assert_eq!(store.pending_erasures().await.unwrap(), ERASURES);
    drop(store);
    scrub_and_check(&place).await;
}

pub async fn a_kill_in_the_midst_of_a_scrub_loses_nothing(open: Open) {
    let whole = Place::with_history(open).await;
    let fresh = Place::new(open);
    let _open = fresh.open();
    for delay in [0, 1, 2, 3, 4, 6, 8, 10, 14, 20, 30] {
        let place = whole.copy();
        let child = run(&place, SCRUBBING);
        std::thread::sleep(Duration::from_millis(delay));
        kill(child);
        let store = place.open();
        let left = place.files();
        assert!(left.is_subset(&fresh.files()), "{left:?}");
        if store.pending_erasures().await.unwrap() == 0 {
            // Whoever says that it is complete has completed it.
            place.assert_erased();
        }
        drop(store);
        scrub_and_check(&place).await;
    }
}

/// Makes the parent so long that it is removed in several steps.
async fn lengthen(store: &dyn Store) {
    let mut events = Events::new(PARENT);
    for batch in 1..=4 {
        let turns = (0..250).flat_map(|n| {
            let n = batch * 1_000 + n;
            events.enter(&format!("run-{n}"), &format!("turn-{n}"));
            [
                events.opened(&format!("o{n}"), "prompt", ""),
                events.user(&format!("u{n}"), DOOMED),
                events.end(&format!("e{n}"), "completed"),
            ]
        });
        append(store, &session_id(PARENT), turns.collect()).await;
    }
}

/// Kills a process that deletes the parent, of [`LONG`] events, once for each
/// moment; `wait` returns when it has come. All of the session is there then,
/// or nothing that can be found. Answers for each moment whether it was there.
pub async fn a_kill_in_the_midst_of_a_deletion<M>(
    open: Open,
    moments: impl IntoIterator<Item = M>,
    wait: impl Fn(&Place, M),
) -> Vec<bool> {
    let whole = Place::with_history(open).await;
    let store = whole.open();
    erase_secrets(&*store).await;
    lengthen(&*store).await;
    store.close().await.unwrap();
    drop(store);
    let parent = session_id(PARENT);
    let mut was_there = Vec::new();
    for moment in moments {
        let place = whole.copy();
        let child = run(&place, DELETING);
        wait(&place, moment);
        kill(child);
        let store = place.open();
        let found = store.session(&parent).await;
        was_there.push(found.is_ok());
        if let Ok(info) = found {
            assert_eq!(info.head, LONG);
            let report = store.verify(&parent).await.unwrap();
            assert_eq!((report.findings, report.events), (vec![], LONG));
            delete_parent(&*store).await;
        }
        store.check().await.unwrap();
        drop(store);
        scrub_and_check(&place).await;
    }
    was_there
}

/// Makes a test of each case, and of [`child`](crate::erasure::child), for a
/// function that is an [`Open`](crate::erasure::Open).
#[macro_export]
macro_rules! erasure_cases {
    ($open:path) => {
        $crate::erasure_cases! { @tests $open:
            child,
            a_scrub_leaves_no_byte_of_what_was_erased,
            a_kill_before_the_scrub_only_puts_it_off,
            a_kill_in_the_midst_of_a_scrub_loses_nothing,
            a_scrub_leaves_no_byte_of_streamed_text,
        }
    };
    (@tests $open:path: $($case:ident,)*) => {
        $(#[tokio::test]
        async fn $case() {
            $crate::erasure::$case($open).await;
        })*
    };
}
