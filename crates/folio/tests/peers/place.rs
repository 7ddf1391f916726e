//! The stores of these tests, and how their rows are changed below them.

use folio::{
    AppendBatch, Committed, Direction, Entry, NewSession, OnGap, Page, PageRequest, SessionId,
    Store, StoreError, TranscriptError,
};
use folio_testkit::event::Events;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What becomes of a row, by its log and ordinal; `None` removes it.
pub type Change<'a> = &'a mut dyn FnMut(u64, u64, &[u8]) -> Option<Vec<u8>>;

/// A kind of store in one file.
#[derive(Clone, Copy)]
pub struct Engine {
    pub name: &'static str,
    pub open: fn(&Path) -> Result<Arc<dyn Store>, StoreError>,
    /// Changes the rows of events below the store.
    pub change_events: fn(&Path, Change<'_>),
    /// Removes every row of the item index below the store.
    pub drop_items: fn(&Path),
}

pub const ENGINES: &[Engine] = &[
    Engine {
        name: "sqlite",
        open: |path| folio::open_sqlite(path),
        change_events: sqlite_events,
        drop_items: |path| {
            let file = rusqlite::Connection::open(path).unwrap();
            assert_ne!(file.execute("DELETE FROM items", []).unwrap(), 0);
        },
    },
    Engine {
        name: "redb",
        open: |path| {
            let config = folio_store_redb::RedbConfig::new(path);
            Ok(Arc::new(folio_store_redb::open(&config)?))
        },
        change_events: redb_events,
        drop_items: |path| {
            const ITEMS: redb::TableDefinition<'_, (u64, u64, u8), &[u8]> =
                redb::TableDefinition::new("items");
            let file = redb::Database::create(path).unwrap();
            let txn = file.begin_write().unwrap();
            {
                let mut items = txn.open_table(ITEMS).unwrap();
                items.retain(|_, _| false).unwrap();
            }
            txn.commit().unwrap();
        },
    },
];

fn sqlite_events(path: &Path, change: Change<'_>) {
    let file = rusqlite::Connection::open(path).unwrap();
    let mut rows = file.prepare("SELECT k, body FROM events").unwrap();
    let rows: Vec<(i64, Vec<u8>)> = rows
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for (key, row) in rows {
        let number = key.cast_unsigned();
        let (log_no, ordinal) = (number >> 33, number & ((1 << 33) - 1));
        match change(log_no, ordinal, &row) {
            Some(new) => file.execute("UPDATE events SET body = ?2 WHERE k = ?1", (key, new)),
            None => file.execute("DELETE FROM events WHERE k = ?1", [key]),
        }
        .unwrap();
    }
}

fn redb_events(path: &Path, change: Change<'_>) {
    use redb::ReadableTable;
    const EVENTS: redb::TableDefinition<'_, (u64, u64), &[u8]> =
        redb::TableDefinition::new("events");
    let file = redb::Database::create(path).unwrap();
    let txn = file.begin_write().unwrap();
    {
        let mut events = txn.open_table(EVENTS).unwrap();
        let rows: Vec<_> = events
            .iter()
            .unwrap()
            .map(|row| row.map(|(key, row)| (key.value(), row.value().to_vec())))
            .collect::<Result<_, _>>()
            .unwrap();
        for (key, row) in rows {
            match change(key.0, key.1, &row) {
                Some(new) => events.insert(key, &*new).unwrap(),
                None => events.remove(key).unwrap(),
            };
        }
    }
    txn.commit().unwrap();
}

/// The messages of a session; each is one event and one item at one ordinal.
pub const MESSAGES: u64 = 40;

/// A store with the sessions `s1`, which is the one to damage, and `s2`.
pub struct Place {
    pub engine: Engine,
    pub path: PathBuf,
    pub id: SessionId,
    pub other: SessionId,
    pub events: Events,
    _folder: tempfile::TempDir,
}

impl Place {
    /// Both sessions have messages, and the store is closed.
    pub async fn new(engine: Engine) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio");
        let store = (engine.open)(&path).unwrap();
        let mut events = Events::new("s1");
        let id = create(&*store, "s1").await;
        let other = create(&*store, "s2").await;
        for n in 1..=MESSAGES {
            append(
                &*store,
                &id,
                vec![events.user(&format!("e{n}"), &format!("message {n}"))],
            )
            .await;
        }
        let mut others = Events::new("s2");
        let all = (1..=MESSAGES).map(|n| others.user(&format!("o{n}"), "another message"));
        append(&*store, &other, all.collect()).await;
        close(store).await;
        Self {
            engine,
            path,
            id,
            other,
            events,
            _folder: folder,
        }
    }

    pub fn open(&self) -> Arc<dyn Store> {
        (self.engine.open)(&self.path).unwrap()
    }

    /// Changes one event of `s1` below the closed store.
    pub fn change(&self, ordinal: u64, change: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        let mut changed = 0;
        (self.engine.change_events)(&self.path, &mut |log_no, at, row| {
            if (log_no, at) != (1, ordinal) {
                return Some(row.to_vec());
            }
            changed += 1;
            change(row)
        });
        assert_eq!(changed, 1, "{}: the event is there", self.engine.name);
    }
}

pub async fn create(store: &dyn Store, id: &str) -> SessionId {
    let id = SessionId::new(id).unwrap();
    let session = NewSession::native(id.clone());
    store.create_session(session).await.unwrap();
    id
}

pub async fn append(
    store: &dyn Store,
    id: &SessionId,
    events: Vec<folio::CanonicalEvent>,
) -> Committed {
    store.append(id, AppendBatch::native(events)).await.unwrap()
}

pub async fn close(store: Arc<dyn Store>) {
    store.close().await.unwrap();
    drop(store);
}

/// The pages of a session from its end to its beginning.
pub async fn pages(
    store: &Arc<dyn Store>,
    id: &SessionId,
    max_items: usize,
    on_gap: OnGap,
) -> Result<Vec<Page>, TranscriptError> {
    let transcripts = folio::transcripts(store);
    let mut request = PageRequest {
        direction: Some(Direction::Older),
        max_items,
        on_gap,
        ..PageRequest::newest(id.clone())
    };
    let mut pages = Vec::new();
    loop {
        let page = transcripts.read_page(&request).await?;
        let older = page.older.clone();
        pages.push(page);
        match older {
            Some(cursor) => request = request.at_cursor(cursor),
            None => return Ok(pages),
        }
    }
}

/// All entries in the order of the transcript, gaps marked.
pub async fn marked(store: &Arc<dyn Store>, id: &SessionId) -> Vec<Entry> {
    let pages = pages(store, id, 50, OnGap::Mark).await.unwrap();
    pages
        .into_iter()
        .rev()
        .flat_map(|page| page.entries)
        .collect()
}

/// The text of a row, which its message ends with.
pub fn says(entry: &Entry, text: &str) -> bool {
    matches!(entry, Entry::Row { row, .. } if row.contains(&format!("\"{text}\"")))
}

/// Runs a future to its end.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(work)
}
