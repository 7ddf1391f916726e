//! The engines, and a closed store in which there is something of everything.

use crate::answers::{Asked, Questions, VIEW, entries};
use folio::{
    AppendBatch, CanonicalEvent, ContributionBatch, Direction, Entry, Fact, FactOp, ForeignId,
    NewSession, OnGap, RangeQuery, SessionId, Store, StoreError,
};
use folio_store::{NOTES, ViewBatch};
use folio_testkit::event::Events;
use folio_testkit::workload::{self, Periodic};
use std::path::Path;
use std::sync::Arc;

/// A kind of store in one file.
#[derive(Clone, Copy)]
pub struct Engine {
    pub name: &'static str,
    pub open: fn(&Path) -> Result<Arc<dyn Store>, StoreError>,
}

/// The kinds of store that keep a file.
pub const ENGINES: &[Engine] = &[
    Engine {
        name: "sqlite",
        open: |path| folio::open_sqlite(path),
    },
    Engine {
        name: "redb",
        open: |path| {
            let config = folio_store_redb::RedbConfig::new(path);
            Ok(Arc::new(folio_store_redb::open(&config)?))
        },
    },
];

/// The file of a store that was closed, and what was in it.
pub struct Whole {
    pub bytes: Vec<u8>,
    pub questions: Questions,
    /// The packed events that stand in the file in one piece.
    pub events: Vec<Stored>,
}

/// Where an event stands.
pub struct Stored {
    /// The sessions that read it.
    pub sessions: Vec<SessionId>,
    pub ordinal: u64,
    /// The first byte of its row and the one behind its last.
    pub bytes: std::ops::Range<usize>,
}

async fn create(store: &dyn Store, id: &str) -> SessionId {
    let id = SessionId::new(id).unwrap();
    let session = NewSession::native(id.clone());
    store.create_session(session).await.unwrap();
    id
}

fn notes(count: u64) -> ContributionBatch {
    let fact = |n| Fact {
        id: ForeignId::new(format!("note-{n}")).unwrap(),
        op: FactOp::Put,
        anchor: n,
        ts: None,
        kind: "mode_change".into(),
        turn_id: None,
        visible: true,
        data: None,
    };
    ContributionBatch::new(NOTES, (0..count).map(fact).collect())
}

/// Chunks of a text that is still being written.
fn stream(session: &str) -> Vec<CanonicalEvent> {
    let mut events = Events::new(session);
    let mut out = vec![
        events.opened("s-open", "prompt", ""),
        events.user("s-ask", "tell me"),
    ];
    for n in 0..12 {
        out.push(events.text(
            &format!("s-{n}"),
            "m1",
            true,
            &format!("chunk number {n}. "),
        ));
    }
    out
}

/// Fills a store: sessions of turns, of everything at once, of a stream, a fork
/// with an event of its own, notes, a cited blob, a view.
async fn fill(store: &Arc<dyn Store>) -> Questions {
    let turns = create(&**store, "turns").await;
    let content: Vec<u8> = (0..6_000_u32).flat_map(u32::to_le_bytes).collect();
    let blob = store.put_blob(content[..9_000].to_vec()).await.unwrap().id;
    let batch = AppendBatch {
        contributions: Some(notes(6)),
        cites: vec![(6, blob)],
        ..AppendBatch::native(Periodic::new("turns").batch(0, 2))
    };
    store.append(&turns, batch).await.unwrap();
    // The one that its rule writes for.
    let wild = create(&**store, "s1").await;
    for batch in workload::random(11, 70).chunks(9) {
        let batch = AppendBatch::native(batch.to_vec());
        store.append(&wild, batch).await.unwrap();
    }
    let live = create(&**store, "live").await;
    let batch = AppendBatch::native(stream("live"));
    store.append(&live, batch).await.unwrap();
    let fork = SessionId::new("fork").unwrap();
    store.fork_session(&turns, 14, fork.clone()).await.unwrap();
    let mut own = Events::new("fork").run("own", "own");
    let batch = AppendBatch::native(vec![
        own.user("own-1", "another way"),
        own.user("own-2", "on"),
    ]);
    store.append(&fork, batch).await.unwrap();
    let view_keys: Vec<Vec<u8>> = (0..5).map(|n| format!("word {n}").into_bytes()).collect();
    for (session, part) in [(&turns, &view_keys[..3]), (&live, &view_keys[3..])] {
        let entry = |key: &Vec<u8>| (key.clone(), Some(b"how often it was said".to_vec()));
        let batch = ViewBatch {
            view: VIEW.into(),
            version: 1,
            session: session.clone(),
            from: 0,
            to: store.session(session).await.unwrap().head,
            entries: part.iter().map(entry).collect(),
        };
        store.put_view(batch).await.unwrap();
    }
    let mut sessions = Vec::new();
    for id in [turns, wild, live, fork] {
        sessions.push(asked(store, id).await);
    }
    Questions {
        sessions,
        blobs: vec![blob],
        view_keys,
    }
}

async fn asked(store: &Arc<dyn Store>, id: SessionId) -> Asked {
    let head = store.session(&id).await.unwrap().head;
    let events = stored(&**store, &id, head).await;
    let events = events
        .iter()
        .map(|event| folio::EventId::new(event.view().unwrap().id).unwrap())
        .collect();
    let rows = entries(store, &id, Direction::Newer, OnGap::Fail).await;
    let items = rows
        .unwrap()
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Row { key, .. } => Some(key),
            _ => None,
        })
        .collect();
    Asked {
        id,
        head,
        events,
        items,
    }
}

async fn stored(store: &dyn Store, id: &SessionId, head: u64) -> Vec<folio_store::StoredEvent> {
    let all = RangeQuery {
        from: 1,
        to: head,
        max_count: 10_000,
        max_bytes: usize::MAX,
    };
    store.range(id, all).await.unwrap()
}

/// A store of a kind, filled and closed.
pub async fn whole(engine: Engine) -> Whole {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio");
    let store = (engine.open)(&path).unwrap();
    let questions = fill(&store).await;
    let mut rows: Vec<(Vec<u8>, SessionId, u64)> = Vec::new();
    for asked in &questions.sessions {
        for event in stored(&*store, &asked.id, asked.head).await {
            let packed = [&event.chain.unwrap()[..], &event.body].concat();
            rows.push((packed, asked.id.clone(), event.ordinal));
        }
    }
    store.close().await.unwrap();
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    Whole {
        events: locate(&bytes, rows),
        bytes,
        questions,
    }
}

/// The rows that stand in a file in one piece and once. Those of a fork's
/// prefix are one row for both sessions.
fn locate(file: &[u8], mut rows: Vec<(Vec<u8>, SessionId, u64)>) -> Vec<Stored> {
    rows.sort();
    let mut found = Vec::new();
    for same in rows.chunk_by(|a, b| a.0 == b.0) {
        let packed = &same[0].0;
        let mut places = file
            .windows(packed.len())
            .enumerate()
            .filter(|(_, window)| window == packed)
            .map(|(at, _)| at);
        if let (Some(at), None) = (places.next(), places.next()) {
            found.push(Stored {
                sessions: same.iter().map(|row| row.1.clone()).collect(),
                ordinal: same[0].2,
                bytes: at..at + packed.len(),
            });
        }
    }
    found
}
