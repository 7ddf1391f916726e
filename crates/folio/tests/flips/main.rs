//! One bit of a closed store is flipped, or its end is cut off, and everything
//! is read.
//!
//! Whatever the bit, opening and reading end, without a panic. A bit of a
//! stored event is found by `verify` and by the reads that need the event, each
//! of which names it; every other answer, and each one about other sessions,
//! is what it was. A bit elsewhere changes nothing, or is a typed error, or a
//! finding of `verify` or `check`: never another answer and silence.
//!
//! Names that rows are found by carry no checksum where they stand in an index;
//! there a row may be answered as unknown, and `check` is what tells.
//!
//! `FOLIO_FLIPS` is how many bits are flipped in each kind of store. How the
//! flips ended is printed. A panic of redb that shows on the way is one that its
//! adapter has caught.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod answers;
mod cuts;
mod store;

use answers::{Answer, Answers, Questions, VIEW, ask};
use folio::{ErrorKind, Store, StoreError};
use folio_testkit::workload::Random;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use store::{ENGINES, Engine, Stored, Whole, whole};

/// Longer than any machine needs for one flip.
const HANGS: Duration = Duration::from_secs(60);

/// What a store with a flipped bit says.
struct Said {
    /// The answers that are not what they were.
    changed: Vec<((String, String), Answer)>,
    /// What `verify` found, by session: codes and ordinals.
    verified: BTreeMap<String, Vec<(&'static str, Option<u64>)>>,
    /// What `check` says.
    checked: Result<(), StoreError>,
}

impl Said {
    fn found(&self) -> bool {
        self.checked.is_err() || self.verified.values().any(|findings| !findings.is_empty())
    }
}

/// Opens a file and reads everything; an error is the refusal to open it.
async fn read(
    engine: Engine,
    path: &Path,
    questions: &Questions,
    before: &Answers,
) -> Result<Said, StoreError> {
    let store = (engine.open)(path)?;
    let after = ask(&store, questions).await;
    assert_eq!(before.len(), after.len());
    let changed = after
        .into_iter()
        .filter(|(read, answer)| before[read] != *answer)
        .collect();
    let mut verified = BTreeMap::new();
    for asked in &questions.sessions {
        let findings = match store.verify(&asked.id).await {
            Ok(report) => report.findings.iter().map(|f| (f.code, f.at)).collect(),
            Err(error) if is_loud(error.kind()) => vec![(error.code(), None)],
            // Another answer, but no finding: `check` has to tell.
            Err(_) => Vec::new(),
        };
        verified.insert(asked.id.as_str().to_owned(), findings);
    }
    let checked = store.check().await;
    // What cannot be closed was told by then, and there is nothing to lose.
    let _ = store.close().await;
    Ok(Said {
        changed,
        verified,
        checked,
    })
}

/// Kinds of errors that nobody can take for an answer about the session.
fn is_loud(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Corrupt | ErrorKind::Unavailable | ErrorKind::Unsupported
    )
}

/// Whether a changed answer tells by itself that something is wrong: an error,
/// or a transcript that is what it was but for gaps that it marks.
fn tells(before: &Answer, after: &Answer) -> bool {
    match (before, after) {
        (_, Answer::Refused { kind, .. }) => is_loud(*kind),
        (Answer::Marked(before), Answer::Marked(after)) => {
            let mut rows = before.iter();
            after.iter().any(|entry| entry.1.is_some())
                && after
                    .iter()
                    .filter(|entry| entry.1.is_none())
                    .all(|entry| rows.any(|row| row == entry))
        }
        _ => false,
    }
}

/// Whether a changed answer says that this event is missing, and nothing else.
fn names(before: &Answer, after: &Answer, ordinal: u64) -> bool {
    match after {
        Answer::Refused { code, ordinals, .. } => {
            *code == "projection_gap" && *ordinals == [ordinal]
        }
        Answer::Marked(entries) => {
            tells(before, after)
                && entries
                    .iter()
                    .filter_map(|entry| entry.1)
                    .all(|(from, to)| (from, to) == (ordinal, ordinal))
        }
        Answer::Values(_) => false,
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    changes: usize,
    in_events: usize,
    found_elsewhere: usize,
    found_by_care_alone: usize,
    harmless: usize,
    refused: usize,
}

/// A store to flip bits of.
struct Bench {
    engine: Engine,
    whole: Whole,
    before: Answers,
    folder: tempfile::TempDir,
    counts: Counts,
    wrong: Vec<String>,
}

impl Bench {
    async fn new(engine: Engine) -> Self {
        let whole = whole(engine).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whole");
        std::fs::write(&path, &whole.bytes).unwrap();
        let store: Arc<dyn Store> = (engine.open)(&path).unwrap();
        let before = ask(&store, &whole.questions).await;
        store.close().await.unwrap();
        let bench = Self {
            engine,
            whole,
            before,
            folder,
            counts: Counts::default(),
            wrong: Vec::new(),
        };
        let said = bench.says(&bench.whole.bytes).await.unwrap();
        assert!(said.changed.is_empty() && !said.found(), "it is whole");
        assert!(
            bench
                .before
                .values()
                .all(|answer| !matches!(answer, Answer::Refused { .. })),
            "every question has an answer"
        );
        bench
    }

    /// What the store says where its file holds these bytes.
    async fn says(&self, bytes: &[u8]) -> Result<Said, StoreError> {
        let path = self.folder.path().join("changed");
        for stale in std::fs::read_dir(self.folder.path()).unwrap() {
            std::fs::remove_file(stale.unwrap().path()).unwrap();
        }
        std::fs::write(&path, bytes).unwrap();
        let said = read(self.engine, &path, &self.whole.questions, &self.before).await;
        if said.is_err() {
            let left = std::fs::read(&path).unwrap();
            assert!(left == bytes, "what is refused is left as it is");
        }
        said
    }

    /// Reads the store that ends after so many bytes.
    async fn cut(&mut self, len: usize) {
        let name = self.engine.name;
        let what = format!("{name} cut to {len} bytes");
        let said = self.says(&self.whole.bytes[..len]).await;
        self.counts.changes += 1;
        match said {
            // An empty file is where a store is made.
            Ok(_) if len == 0 => self.counts.refused += 1,
            Ok(said) => self.judge(&what, &said),
            Err(error) => self.refused(&what, &error),
        }
    }

    fn refused(&mut self, what: &str, error: &StoreError) {
        self.counts.refused += 1;
        // What cannot be told from a stranger's file is refused as one.
        let as_stranger = error.code() == "store_not_a_store";
        if !is_loud(error.kind()) && !as_stranger {
            self.wrong.push(format!("{what}: opening: {error:?}"));
        }
    }

    /// Reads the store with a bit flipped.
    async fn flip(&mut self, (at, bit): (usize, u8)) {
        let mut bytes = self.whole.bytes.clone();
        bytes[at] ^= 1 << bit;
        let said = self.says(&bytes).await;
        self.counts.changes += 1;
        let what = format!("{} byte {at} bit {bit}", self.engine.name);
        let mut events = self.whole.events.iter();
        let event = events.find(|event| event.bytes.contains(&at));
        match (said, event) {
            (Err(error), None) => self.refused(&what, &error),
            (Err(error), Some(event)) => {
                let ordinal = event.ordinal;
                self.wrong
                    .push(format!("{what}: event {ordinal}: {error:?}"));
            }
            (Ok(said), Some(event)) => {
                self.counts.in_events += 1;
                if let Err(why) = judge_event(&self.before, &said, event) {
                    self.wrong.push(format!("{what}: {why}"));
                }
            }
            (Ok(said), None) => self.judge(&what, &said),
        }
    }

    fn judge(&mut self, what: &str, said: &Said) {
        let silent: Vec<_> = said
            .changed
            .iter()
            .filter(|(read, after)| !tells(&self.before[read], after))
            .collect();
        if said.changed.is_empty() && !said.found() {
            self.counts.harmless += 1;
        } else if silent.is_empty() {
            self.counts.found_elsewhere += 1;
        } else if said.found() {
            self.counts.found_by_care_alone += 1;
        } else {
            let other = "other answers, and nothing is found";
            self.wrong.push(format!("{what}: {other}: {silent:?}"));
        }
    }
}

/// The flip of a bit of an event: found, named, and in nobody's way.
fn judge_event(before: &Answers, said: &Said, event: &Stored) -> Result<(), String> {
    let ordinal = event.ordinal;
    let reads_it = |id: &str| event.sessions.iter().any(|session| session.as_str() == id);
    for (id, findings) in &said.verified {
        let named = findings.contains(&("event_damaged", Some(ordinal)));
        if named != reads_it(id) || (!named && !findings.is_empty()) {
            return Err(format!("event {ordinal}: verify of {id}: {findings:?}"));
        }
    }
    for (read, after) in &said.changed {
        if !reads_it(&read.0) || !names(&before[read], after, ordinal) {
            return Err(format!("event {ordinal}: {read:?} answers {after:?}"));
        }
    }
    for session in &event.sessions {
        for read in ["range".to_owned(), format!("event {ordinal}")] {
            let read = (session.as_str().to_owned(), read);
            if !said.changed.iter().any(|(changed, _)| *changed == read) {
                return Err(format!("event {ordinal}: {read:?} does not notice"));
            }
        }
    }
    Ok(())
}

/// Which bits: of events, of whatever is not zero, and of everything.
fn bits(whole: &Whole, count: usize, seed: u64) -> Vec<(usize, u8)> {
    let mut random = Random::new(seed);
    let filled: Vec<usize> = (0..whole.bytes.len())
        .filter(|at| whole.bytes[*at] != 0)
        .collect();
    let mut bits = Vec::new();
    for n in 0..count {
        let at = match n % 5 {
            0 => {
                let event = random.pick(&whole.events).unwrap();
                event.bytes.start + random.below(event.bytes.len())
            }
            1 => random.below(whole.bytes.len()),
            _ => *random.pick(&filled).unwrap(),
        };
        bits.push((at, u8::try_from(random.below(8)).unwrap()));
    }
    bits
}

/// A bit of every byte of a small event's row, and of those before it that
/// belong to the row's frame.
fn bits_of_a_row(whole: &Whole) -> Vec<(usize, u8)> {
    let small = whole
        .events
        .iter()
        .min_by_key(|event| event.bytes.len())
        .unwrap();
    (small.bytes.start - 32..small.bytes.end)
        .map(|at| (at, u8::try_from(at % 8).unwrap()))
        .collect()
}

/// Bits of the names that rows are found by: the first and the last byte,
/// so that some names stay in their order.
fn bits_of_names(whole: &Whole) -> Vec<(usize, u8)> {
    const EACH: usize = 12;
    let questions = &whole.questions;
    let mut names: Vec<Vec<u8>> = [VIEW, "notes", "own-1"].map(Into::into).to_vec();
    names.extend(questions.view_keys.iter().cloned());
    names.extend(questions.blobs.iter().map(|blob| blob.0.to_vec()));
    let ids = questions.sessions.iter().map(|asked| asked.id.as_str());
    names.extend(ids.map(|id| id.as_bytes().to_vec()));
    let mut bits = Vec::new();
    for name in names {
        let found = whole.bytes.windows(name.len()).enumerate();
        let found = found.filter(|(_, window)| **window == *name);
        for (at, _) in found.take(EACH) {
            bits.extend([(at, 0), (at + name.len() - 1, 0), (at + name.len() - 1, 1)]);
        }
    }
    bits
}

/// Changes a store in many ways, each at a time, and judges what it says.
fn judge_all<T: Copy + Debug + Send + 'static>(
    engine: Engine,
    changes: impl FnOnce(&Whole) -> Vec<T> + Send + 'static,
    change: impl AsyncFn(&mut Bench, T) + Send + 'static,
) -> Counts {
    let (tell, told) = mpsc::channel();
    let work = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut bench = Bench::new(engine).await;
            let events = bench.whole.events.len();
            assert!(events > 100, "only {events} events stand in one piece");
            for one in changes(&bench.whole) {
                tell.send(Some(one)).unwrap();
                change(&mut bench, one).await;
            }
            tell.send(None).unwrap();
            (bench.counts, bench.wrong)
        })
    });
    let mut last = None;
    loop {
        match told.recv_timeout(HANGS) {
            Ok(Some(one)) => last = Some(one),
            // Done, or it panicked: joining tells which.
            Ok(None) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{}: {last:?} hangs", engine.name),
        }
    }
    let Ok((counts, wrong)) = work.join() else {
        panic!("{}: a panic at {last:?}", engine.name)
    };
    println!("{}: {counts:?}", engine.name);
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        counts.changes,
        wrong.join("\n")
    );
    counts
}

fn count() -> usize {
    std::env::var("FOLIO_FLIPS").map_or(250, |count| count.parse().unwrap())
}

#[test]
fn no_flipped_bit_is_answered_in_silence() {
    for engine in ENGINES {
        let bits = |whole: &Whole| bits(whole, count(), 1);
        let counts = judge_all(*engine, bits, Bench::flip);
        assert_ne!(counts.in_events, 0, "the flips reach events");
    }
}

#[test]
fn no_bit_of_an_events_row_is_missed() {
    for engine in ENGINES {
        let counts = judge_all(*engine, bits_of_a_row, Bench::flip);
        assert!(counts.in_events > 32, "{counts:?}");
    }
}

#[test]
fn no_bit_of_a_name_is_missed() {
    for engine in ENGINES {
        judge_all(*engine, bits_of_names, Bench::flip);
    }
}
