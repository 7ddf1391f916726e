//! What a store is made to do, and what it holds after each step.

use folio_codec::Digest;
use folio_core::{Fact, FactOp, ForeignId, SessionId};
use folio_store::{
    AppendBatch, BlobId, ContributionBatch, NOTES, NewSession, SessionFilter, Store, StoreError,
};
use folio_testkit::check::{Row, rows, session_id};
use folio_testkit::event::Events;
use folio_testkit::workload::Periodic;

/// One thing that a store is asked to do; each is one commit and may be done
/// again.
#[derive(Debug, Clone)]
pub enum Step {
    /// A new session.
    Create(SessionId),
    /// Events and notes.
    Append(SessionId, Box<AppendBatch>),
    /// A blob.
    Blob(Vec<u8>),
    /// The item index made anew.
    Rebuild(SessionId),
}

impl Step {
    /// Does it, or finds that it was done.
    pub async fn perform(&self, store: &dyn Store) -> Result<(), StoreError> {
        match self {
            Self::Create(id) => match store.create_session(NewSession::native(id.clone())).await {
                Err(error) if error.code() == "session_exists" => Ok(()),
                done => done.map(drop),
            },
            Self::Append(id, batch) => store.append(id, (**batch).clone()).await.map(drop),
            Self::Blob(content) => store.put_blob(content.clone()).await.map(drop),
            Self::Rebuild(id) => store.rebuild_index(id).await.map(drop),
        }
    }
}

/// All that a store holds but what differs between stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    sessions: Vec<Session>,
    has_blob: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Session {
    id: SessionId,
    head: u64,
    chain: Digest,
    notes: u64,
    rows: Vec<Row>,
}

/// Everything that a store holds, or what is unsound about it.
pub async fn examine(store: &dyn Store) -> Result<Held, String> {
    let text = |error: StoreError| error.to_string();
    store.check().await.map_err(text)?;
    let mut sessions = Vec::new();
    let all = store.sessions(SessionFilter::All, None, 100).await;
    for info in all.map_err(text)? {
        let report = store.verify(&info.id).await.map_err(text)?;
        if !report.findings.is_empty() || report.events != info.head {
            return Err(format!("{}: {report:?}", info.id));
        }
        let notes = store.contribution_status(&info.id, NOTES).await;
        sessions.push(Session {
            notes: notes.map_err(text)?.head,
            rows: rows(store, &info.id).await,
            id: info.id,
            head: info.head,
            chain: info.chain,
        });
    }
    let found = store.read_blob(&BlobId::of(&content()), 0, 1 << 20).await;
    let has_blob = match found {
        Ok(found) if found == content() => true,
        Err(error) if error.code() == "blob_not_found" => false,
        other => return Err(format!("the blob: {:?}", other.map(|bytes| bytes.len()))),
    };
    Ok(Held { sessions, has_blob })
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
    /// The workload with its states, as a store in memory has them.
    pub fn new() -> Self {
        let steps = steps();
        let states = crate::block_on(async {
            let model = folio_testkit::memory_store();
            let mut states = vec![examine(&*model).await.unwrap()];
            for step in &steps {
                step.perform(&*model).await.unwrap();
                states.push(examine(&*model).await.unwrap());
            }
            states
        });
        Self { steps, states }
    }

    /// Asserts that a store that acknowledged the first `done` steps holds them
    /// and, of the others, at most the next one; answers whether it holds that.
    #[track_caller]
    pub fn is_right(&self, held: &Held, done: usize) -> bool {
        if *held == self.states[done] {
            return false;
        }
        let next = self.states.get(done + 1);
        assert_eq!(Some(held), next, "after {done} acknowledged steps");
        true
    }
}

/// More than one piece.
fn content() -> Vec<u8> {
    b"a blob ".repeat(12_000)
}

fn steps() -> Vec<Step> {
    let (a, b) = (session_id("a"), session_id("b"));
    let mut events = Events::new("a");
    let append = |id: &SessionId, batch| Step::Append(id.clone(), Box::new(batch));
    let mut with_notes = AppendBatch::native(vec![
        events.opened("a1", "prompt", ""),
        events.user("a2", "a question"),
    ]);
    with_notes.contributions = Some(ContributionBatch::new(
        NOTES,
        vec![Fact {
            id: ForeignId::new("n").unwrap(),
            op: FactOp::Put,
            anchor: 1,
            ts: None,
            kind: "mark".into(),
            turn_id: None,
            visible: true,
            data: None,
        }],
    ));
    // A row, the journal, a segment, the journal again; what settles them lends
    // the text of the first ones.
    let mut chunk = |n: u64| {
        let chunk = events.text(&format!("m1#{n}"), "m1", true, "a long answer. ");
        AppendBatch::native(vec![chunk])
    };
    let [one, two, three, four, five, six] = [0, 1, 2, 3, 4, 5].map(&mut chunk);
    let usage = AppendBatch::native(vec![events.usage("a0", "m1", 1, 2)]);
    let long = vec![
        events.text("a3", "m1", false, &"a long answer. ".repeat(700)),
        events.end("a4", "completed"),
    ];
    let mut steps = vec![
        Step::Create(a.clone()),
        append(&a, with_notes),
        Step::Blob(content()),
    ];
    for batch in [one, two, three, four, usage, five, six] {
        steps.push(append(&a, batch));
    }
    steps.extend([
        append(&a, AppendBatch::native(long)),
        Step::Rebuild(a),
        Step::Create(b.clone()),
        append(&b, AppendBatch::native(Periodic::new("b").batch(0, 2))),
    ]);
    steps
}
