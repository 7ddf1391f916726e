//! What a store is made to do, and what it holds after each step.

use crate::oracle::{Held, held};
use folio_core::{CanonicalEvent, EventId, Fact, FactOp, ForeignId, SessionId};
use folio_store::{
    AppendBatch, ContributionBatch, ErrorKind, NOTES, NewSession, Store, StoreError,
};
use folio_store_sqlite::SqliteConfig;
use folio_testkit::check::session_id;
use folio_testkit::event::Events;
use folio_testkit::workload::Periodic;
use std::path::Path;

/// The file of a store.
pub const FILE: &str = "sessions.folio";
/// A checkpoint every few commits.
const CHECKPOINT_PAGES: u32 = 40;

/// How the stores of these tests are opened.
pub fn config(folder: &Path, vfs: Option<&str>) -> SqliteConfig {
    let mut config = SqliteConfig::new(folder.join(FILE));
    config.checkpoint_pages = CHECKPOINT_PAGES;
    config.vfs = vfs.map(str::to_owned);
    config
}

/// One thing that a store is asked to do; each is one commit.
#[derive(Debug, Clone)]
pub enum Step {
    /// A new session.
    Create(SessionId),
    /// Events and notes.
    Append(SessionId, Box<AppendBatch>),
    /// The item index made anew.
    Rebuild(SessionId),
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It was done now.
    Now,
    /// It had been done before.
    Before,
    /// Nobody can tell.
    Either,
}

impl Step {
    /// Does it, or finds that it was done.
    pub async fn perform(&self, store: &dyn Store) -> Result<Done, StoreError> {
        match self {
            Self::Create(id) => match store.create_session(NewSession::native(id.clone())).await {
                Ok(_) => Ok(Done::Now),
                Err(error) if error.code() == "session_exists" => Ok(Done::Before),
                Err(error) => Err(error),
            },
            Self::Append(id, batch) => {
                let committed = store.append(id, (**batch).clone()).await?;
                let facts = batch.contributions.as_ref().map_or(0, |it| it.facts.len());
                let before = committed.events.iter().filter(|it| it.present).count()
                    + (facts - usize::try_from(committed.facts_added).unwrap());
                match before {
                    0 => Ok(Done::Now),
                    all if all == batch.events.len() + facts => Ok(Done::Before),
                    some => panic!("{some} of a batch were there"),
                }
            }
            Self::Rebuild(id) => store.rebuild_index(id).await.map(|_| Done::Either),
        }
    }

    /// The events that it appends.
    pub fn ids(&self) -> Vec<EventId> {
        match self {
            Self::Append(_, batch) => batch.events.iter().map(|it| it.id.clone()).collect(),
            _ => Vec::new(),
        }
    }

    fn session(&self) -> &SessionId {
        match self {
            Self::Create(id) | Self::Append(id, _) | Self::Rebuild(id) => id,
        }
    }
}

/// Steps, and what a store holds after none, one, two and so on of them.
#[derive(Debug)]
pub struct Workload {
    /// The steps.
    pub steps: Vec<Step>,
    /// What is held, one more than there are steps.
    pub states: Vec<Held>,
}

impl Workload {
    /// Two sessions: a turn with a stream, a call and an end; one in a batch;
    /// notes, and indexes that are made anew.
    pub fn new() -> Self {
        let steps = steps();
        let states = crate::block_on(states(&steps));
        Self { steps, states }
    }

    /// What is held after all steps.
    pub fn end(&self) -> &Held {
        &self.states[self.steps.len()]
    }

    /// Asserts that a store that acknowledged the first `done` steps holds them
    /// and, of the others, at most the next one; answers whether it does.
    #[track_caller]
    pub fn is_right(&self, held: &Held, done: usize) -> bool {
        if *held == self.states[done] {
            return false;
        }
        let next = self.states.get(done + 1);
        assert_eq!(Some(held), next, "after {done} acknowledged steps");
        true
    }

    /// Does all steps from one on; the first of them may have been done.
    pub async fn go_on(&self, store: &dyn Store, from: usize, first: Done) {
        for (at, step) in self.steps.iter().enumerate().skip(from) {
            let done = step.perform(store).await.unwrap();
            let wanted = if at == from { first } else { Done::Now };
            assert!(
                done == wanted || done == Done::Either || wanted == Done::Either,
                "step {at} was done {done:?}, not {wanted:?}"
            );
        }
    }
}

fn note(n: u64) -> Fact {
    Fact {
        id: ForeignId::new(format!("n{n}")).unwrap(),
        op: FactOp::Put,
        anchor: n,
        ts: None,
        kind: "mark".into(),
        turn_id: None,
        visible: true,
        data: None,
    }
}

fn append(session: &str, events: Vec<CanonicalEvent>, notes: &[u64]) -> Step {
    let batch = AppendBatch {
        contributions: (!notes.is_empty())
            .then(|| ContributionBatch::new(NOTES, notes.iter().map(|n| note(*n)).collect())),
        ..AppendBatch::native(events)
    };
    Step::Append(session_id(session), Box::new(batch))
}

fn steps() -> Vec<Step> {
    let mut a = Events::new("a");
    let mut steps = vec![Step::Create(session_id("a"))];
    steps.push(append(
        "a",
        vec![a.opened("a1", "prompt", ""), a.user("a2", "a question")],
        &[],
    ));
    // A row, the journal, a segment, the journal again; what settles them lends
    // the text of the first ones.
    for n in 0..5 {
        let chunk = a.text(&format!("m1#{n}"), "m1", true, "some of the answer ");
        steps.push(append("a", vec![chunk], &[]));
    }
    steps.push(append("a", vec![a.usage("a0", "m1", 1, 2)], &[]));
    for n in 0..2 {
        let chunk = a.thinking(&format!("thought {n}"), "m1", true, "some of the thought ");
        steps.push(append("a", vec![chunk], &[]));
    }
    let chunk = a.text("m1#5", "m1", true, "and its end");
    steps.push(append("a", vec![chunk], &[]));
    let answer = format!("{}and its end, at last", "some of the answer ".repeat(5));
    steps.push(append(
        "a",
        vec![
            a.text("a3", "m1", false, &answer),
            a.call("a4", "m1", "t1", "Read"),
        ],
        &[1],
    ));
    steps.push(Step::Create(session_id("b")));
    steps.push(append("b", Periodic::new("b").batch(0, 1), &[]));
    steps.push(append(
        "a",
        vec![
            a.result("a5", "t1", "Read", &"a long result. ".repeat(700)),
            a.usage("a6", "m1", 10, 20),
        ],
        &[],
    ));
    steps.push(append("a", vec![a.end("a7", "completed")], &[]));
    steps.push(Step::Rebuild(session_id("a")));
    steps.push(append("a", Vec::new(), &[2, 3]));
    steps.push(append("b", Periodic::new("b").batch(1, 2), &[4]));
    steps.push(Step::Rebuild(session_id("b")));
    steps
}

async fn states(steps: &[Step]) -> Vec<Held> {
    let model = folio_testkit::memory_store();
    let mut states = vec![held(&*model).await];
    let mut appended: Vec<(SessionId, Vec<CanonicalEvent>)> = Vec::new();
    for step in steps {
        assert_ne!(step.perform(&*model).await.unwrap(), Done::Before);
        let state = held(&*model).await;
        match step {
            Step::Create(id) => appended.push((id.clone(), Vec::new())),
            Step::Append(id, batch) => {
                let mine = appended.iter_mut().find(|it| it.0 == *id).unwrap();
                mine.1.extend(batch.events.iter().cloned());
            }
            Step::Rebuild(_) => {}
        }
        // The rows do not depend on any store.
        let (_, events) = appended.iter().find(|it| it.0 == *step.session()).unwrap();
        let rows = folio_testkit::reference::project(events);
        assert_eq!(state.rows(step.session()), rows);
        states.push(state);
    }
    states
}

/// Asserts that an error says that nothing was kept, and what to do.
#[track_caller]
pub fn is_refusal(error: &StoreError) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        ["io_error", "storage_full", "store_unreachable"].contains(&error.code()),
        "{}: {error}",
        error.code()
    );
}
