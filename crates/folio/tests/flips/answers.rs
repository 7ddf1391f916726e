//! All that a store answers about its sessions, so that two states of its files
//! can be compared answer by answer.

use folio::{
    Direction, Entry, ErrorKind, EventId, OnGap, PagePosition, PageRequest, RangeQuery,
    SessionFilter, SessionId, Store, StoreError, TranscriptError,
};
use folio_store::{BlobId, ContributionQuery, NOTES, ViewQuery};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// What one read answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Values, each as text.
    Values(Vec<String>),
    /// Entries of a transcript in which gaps are marked: the JSON of each, and
    /// the ordinals that a gap stands for.
    Marked(Vec<(String, Option<(u64, u64)>)>),
    /// A refusal.
    Refused {
        kind: ErrorKind,
        code: &'static str,
        ordinals: Vec<u64>,
        message: String,
    },
}

/// By session (empty for the store as a whole) and read.
pub type Answers = BTreeMap<(String, String), Answer>;

/// What to ask for.
#[derive(Debug, Clone)]
pub struct Questions {
    pub sessions: Vec<Asked>,
    pub blobs: Vec<BlobId>,
    pub view_keys: Vec<Vec<u8>>,
}

/// What to ask about a session.
#[derive(Debug, Clone)]
pub struct Asked {
    pub id: SessionId,
    pub head: u64,
    pub events: Vec<EventId>,
    pub items: Vec<Box<str>>,
}

/// The view that the stores of these tests hold.
pub const VIEW: &str = "words";

impl From<StoreError> for Answer {
    fn from(error: StoreError) -> Self {
        Self::Refused {
            kind: error.kind(),
            code: error.code(),
            ordinals: error.ordinals().to_vec(),
            message: error.to_string(),
        }
    }
}

impl From<TranscriptError> for Answer {
    fn from(error: TranscriptError) -> Self {
        match error {
            TranscriptError::Store(error) => error.into(),
            other => Self::Refused {
                kind: other.kind(),
                code: other.code(),
                ordinals: Vec::new(),
                message: other.to_string(),
            },
        }
    }
}

fn one<T: Debug, E: Into<Answer>>(result: Result<T, E>) -> Answer {
    result.map_or_else(Into::into, |value| {
        Answer::Values(vec![format!("{value:?}")])
    })
}

/// Asks everything.
pub async fn ask(store: &Arc<dyn Store>, questions: &Questions) -> Answers {
    let mut answers = Answers::new();
    let listed = store.sessions(SessionFilter::All, None, 100).await;
    answers.insert((String::new(), "sessions".into()), one(listed));
    for blob in &questions.blobs {
        let name = (String::new(), format!("blob {blob}"));
        answers.insert(name, one(store.read_blob(blob, 0, 1 << 20).await));
    }
    for key in &questions.view_keys {
        let name = (String::new(), format!("view key {}", key.escape_ascii()));
        answers.insert(name, one(store.view_value(VIEW, 1, key).await));
    }
    let query = ViewQuery {
        view: VIEW.into(),
        version: 1,
        from: Vec::new(),
        to: None,
        direction: Direction::Newer,
        limit: 100,
    };
    let entries = one(store.view_entries(query).await);
    answers.insert((String::new(), "view entries".into()), entries);
    for asked in &questions.sessions {
        for (read, answer) in ask_session(store, asked).await {
            answers.insert((asked.id.as_str().to_owned(), read), answer);
        }
    }
    answers
}

async fn ask_session(store: &Arc<dyn Store>, asked: &Asked) -> Vec<(String, Answer)> {
    let id = &asked.id;
    let all = RangeQuery {
        from: 1,
        to: asked.head,
        max_count: 10_000,
        max_bytes: usize::MAX,
    };
    let mut out = vec![
        ("session".into(), one(store.session(id).await)),
        ("range".into(), one(store.range(id, all).await)),
        (
            "lookup".into(),
            one(store.lookup_ids(id, &asked.events).await),
        ),
        ("runs".into(), one(store.runs(id, 0, 1_000).await)),
        ("index".into(), one(store.index_status(id).await)),
        ("lease".into(), one(store.lease(id).await)),
        ("citations".into(), one(store.citations(id, 1, 100).await)),
        ("mark".into(), one(store.view_mark(VIEW, 1, id).await)),
        (
            "notes".into(),
            one(store.contribution_status(id, NOTES).await),
        ),
    ];
    for direction in [Direction::Newer, Direction::Older] {
        let query = ContributionQuery {
            through: u64::MAX,
            direction,
            after: None,
            max_items: 100,
        };
        let notes = one(store.contributions(id, NOTES, query).await);
        out.push((format!("notes {direction:?}"), notes));
        out.push((
            format!("pages {direction:?}"),
            walk(store, id, direction).await,
        ));
        out.push((
            format!("marked {direction:?}"),
            marked(store, id, direction).await,
        ));
    }
    for ordinal in 1..=asked.head {
        let event = one(store.events(id, &[ordinal]).await);
        out.push((format!("event {ordinal}"), event));
    }
    let transcripts = folio::transcripts(store);
    for key in &asked.items {
        let request = PageRequest {
            position: PagePosition::Around(key.clone()),
            max_items: 1,
            ..PageRequest::newest(id.clone())
        };
        let row = transcripts.read_page(&request).await;
        let row = one(row.map(|page| page.entries));
        out.push((format!("row {key}"), row));
    }
    out
}

/// Every entry from an edge to the other, by pages of seven.
pub async fn entries(
    store: &Arc<dyn Store>,
    id: &SessionId,
    direction: Direction,
    on_gap: OnGap,
) -> Result<Vec<Entry>, TranscriptError> {
    let transcripts = folio::transcripts(store);
    let mut request = PageRequest {
        direction: Some(direction),
        max_items: 7,
        on_gap,
        ..PageRequest::newest(id.clone())
    };
    let mut all = Vec::new();
    // A page makes at least an item's progress; more pages would be a circle.
    for _ in 0..10_000 {
        let page = transcripts.read_page(&request).await?;
        let (on, mut entries) = match direction {
            Direction::Newer => (page.newer, page.entries),
            Direction::Older => (page.older, page.entries),
        };
        if direction == Direction::Older {
            entries.reverse();
        }
        all.extend(entries);
        match on {
            Some(cursor) => request = request.at_cursor(cursor),
            None => return Ok(all),
        }
    }
    panic!("the pages of {id} do not end");
}

async fn walk(store: &Arc<dyn Store>, id: &SessionId, direction: Direction) -> Answer {
    match entries(store, id, direction, OnGap::Fail).await {
        Ok(all) => Answer::Values(all.iter().map(Entry::to_json).collect()),
        Err(error) => error.into(),
    }
}

async fn marked(store: &Arc<dyn Store>, id: &SessionId, direction: Direction) -> Answer {
    match entries(store, id, direction, OnGap::Mark).await {
        Ok(all) => Answer::Marked(
            all.iter()
                .map(|entry| match entry {
                    Entry::Gap { from, to, .. } => (entry.to_json(), Some((*from, *to))),
                    _ => (entry.to_json(), None),
                })
                .collect(),
        ),
        Err(error) => error.into(),
    }
}
