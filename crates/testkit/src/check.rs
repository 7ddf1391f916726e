//! Questions to a store in a line each; a wrong answer panics.

use crate::conformance::StorePlace;
use crate::event::Events;
use folio_codec::Digest;
use folio_core::reduce::json_row;
use folio_core::{CanonicalEvent, Direction, Item, SessionId, Spine};
use folio_store::rows::RunRow;
use folio_store::{
    AppendBatch, Committed, FoundItem, ItemPage, ItemQuery, LoadedItem, NewSession, RangeQuery,
    SessionInfo, Start, Store, StoreError, StoredEvent, VerifyReport,
};
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

/// A row with its identity: key, revision, JSON.
pub type Row = (String, u64, String);

/// A session id.
pub fn session_id(id: &str) -> SessionId {
    SessionId::new(id).expect("a test's session id is one")
}

/// The code of a refusal; panics if it was none.
pub fn code<T: Debug>(result: Result<T, StoreError>) -> &'static str {
    result.expect_err("this must be refused").code()
}

/// Polls a future once.
pub fn poll_once<T>(future: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Poll<T> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

/// Creates a session for a program's own events.
pub async fn create(store: &dyn Store, id: &str) -> SessionId {
    let session = NewSession::native(session_id(id));
    store.create_session(session).await.unwrap().id
}

/// Appends events that must be accepted.
pub async fn append(
    store: &dyn Store,
    session: &SessionId,
    events: Vec<CanonicalEvent>,
) -> Committed {
    let batch = written_for(session, AppendBatch::native(events));
    store.append(session, batch).await.unwrap()
}

/// The batch as if its events had been made for this session.
pub fn written_for(session: &SessionId, mut batch: AppendBatch) -> AppendBatch {
    for event in &mut batch.events {
        event.session_id = session.clone();
    }
    batch
}

/// Every event of a session.
pub async fn stored(store: &dyn Store, session: &SessionId) -> Vec<StoredEvent> {
    let mut events: Vec<StoredEvent> = Vec::new();
    loop {
        let query = RangeQuery {
            from: events.len() as u64 + 1,
            to: u64::MAX,
            max_count: 1_000,
            max_bytes: usize::MAX,
        };
        let more = store.range(session, query).await.unwrap();
        let Some(first) = more.first() else {
            return events;
        };
        assert!(
            first.ordinal >= query.from,
            "a range begins where it was to begin"
        );
        events.extend(more);
    }
}

/// The row of a loaded item.
pub fn row(loaded: &LoadedItem, through: u64) -> Row {
    let mut row = None;
    loaded.show(through, |found| row = Some(row_of(found)));
    row.expect("an item is shown")
}

/// The row of an item that was found.
fn row_of(found: &FoundItem<'_>) -> Row {
    assert!(found.damaged.is_empty(), "nothing is damaged here");
    let row = json_row(&found.material).expect("everything that a row needs was loaded");
    let json = row.into_whole().expect("members were read along");
    (found.material.item.key.into(), found.revision, json)
}

/// A packed read of items is the same read.
async fn is_packed_alike(store: &dyn Store, id: &SessionId, query: &ItemQuery, page: &ItemPage) {
    let scan = store.scan_items(id, query.clone()).await.unwrap();
    if scan.session != page.session {
        // Another writer has committed in between.
        return;
    }
    assert_eq!(
        (&scan.session, scan.through, scan.more, scan.before),
        (&page.session, page.through, page.more, page.before)
    );
    assert_eq!(scan.stats, page.stats);
    let mut packed = Vec::new();
    scan.show(|found| packed.push((found.run.clone(), row_of(found))));
    let loaded: Vec<_> = page
        .items
        .iter()
        .map(|item| ((*item.run).clone(), row(item, page.through)))
        .collect();
    assert_eq!(packed, loaded);
}

/// The rows of a page, in its direction.
pub fn rows_of(page: &ItemPage) -> Vec<Row> {
    page.items
        .iter()
        .map(|item| row(item, page.through))
        .collect()
}

/// A query for many items, at the head.
pub fn query(direction: Direction, start: Start) -> ItemQuery {
    ItemQuery {
        through: None,
        direction,
        start,
        max_items: 1_000,
        max_bytes: usize::MAX,
        member_bytes: usize::MAX,
    }
}

/// All pages from an edge to the other.
pub async fn pages(
    store: &dyn Store,
    session: &SessionId,
    through: Option<u64>,
    direction: Direction,
    max_items: usize,
    max_bytes: usize,
) -> Vec<ItemPage> {
    let mut query = ItemQuery {
        through,
        direction,
        start: Start::Edge,
        max_items,
        max_bytes,
        member_bytes: usize::MAX,
    };
    let mut pages: Vec<ItemPage> = Vec::new();
    loop {
        let page = store.read_items(session, query.clone()).await.unwrap();
        is_packed_alike(store, session, &query, &page).await;
        if let (Start::Behind(last), Some(first)) = (&query.start, page.items.first()) {
            let beyond = match direction {
                Direction::Newer => first.item.position > *last,
                Direction::Older => first.item.position < *last,
            };
            assert!(beyond, "a page goes on behind the last item");
        }
        assert_eq!(page.before, !pages.is_empty(), "whether items lie before");
        assert!(
            page.items.len() <= max_items,
            "a page of the size asked for"
        );
        query.through = Some(page.through);
        let last = page.items.last().map(|item| item.item.position);
        let more = page.more;
        assert!(
            last.is_some() || !more,
            "a page with more behind it is empty"
        );
        pages.push(page);
        match last {
            Some(last) if more => query.start = Start::Behind(last),
            _ => return pages,
        }
    }
}

/// All rows at the head, oldest first.
pub async fn rows(store: &dyn Store, session: &SessionId) -> Vec<Row> {
    rows_of_pages(&pages(store, session, None, Direction::Newer, 1_000, usize::MAX).await)
}

/// All rows at a watermark, oldest first.
pub async fn rows_at(store: &dyn Store, session: &SessionId, through: u64) -> Vec<Row> {
    let through = Some(through);
    rows_of_pages(&pages(store, session, through, Direction::Newer, 1_000, usize::MAX).await)
}

/// The rows of several pages, one behind the other.
pub fn rows_of_pages(pages: &[ItemPage]) -> Vec<Row> {
    pages.iter().flat_map(rows_of).collect()
}

/// The JSON of rows alone.
pub fn texts(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|(_, _, json)| &**json).collect()
}

/// The keys of rows alone.
pub fn keys(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|(key, _, _)| &**key).collect()
}

/// Tells a thread to stop when a case ends, however it ends.
#[derive(Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// What the thread looks at: whether it must stop.
    pub fn told(&self) -> impl Fn() -> bool + Send + 'static {
        let told = Arc::clone(&self.0);
        move || told.load(Ordering::Acquire)
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs a future on this thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime for one thread").block_on(future)
}

/// Asserts that `verify` has nothing to say about a session.
pub async fn is_sound(store: &dyn Store, session: &SessionId) -> VerifyReport {
    let report = store.verify(session).await.unwrap();
    assert!(
        report.findings.is_empty(),
        "{session}: {:?}",
        report.findings
    );
    let info = store.session(session).await.unwrap();
    assert_eq!((report.events, report.items), (info.head, info.items));
    report
}

/// Forks a session at an ordinal.
pub async fn fork(store: &dyn Store, parent: &SessionId, at: u64, child: &str) -> SessionId {
    let child = session_id(child);
    store.fork_session(parent, at, child).await.unwrap().id
}

/// What a session says, but for its own name and the time of its commits: two
/// sessions of the same events say the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The head, the chain and the number of items.
    pub head: (u64, Digest, u64),
    /// Every event.
    pub events: Vec<ToldEvent>,
    /// Every run.
    pub runs: Vec<RunRow>,
    /// Every item at the head.
    pub items: Vec<ToldItem>,
}

/// An event, but for the time of its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldEvent {
    ordinal: u64,
    event_seq: u64,
    run_no: u32,
    spine: Spine,
    chain: Option<Digest>,
    body: (u8, Vec<u8>),
}

/// An item with its row and the ordinals that it was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldItem {
    /// The item, as the index has it.
    pub item: Item,
    /// Its key, revision and JSON.
    pub row: Row,
    run: RunRow,
    needs: Vec<u64>,
}

/// What a session says.
pub async fn told(store: &dyn Store, session: &SessionId) -> Told {
    let info = store.session(session).await.unwrap();
    let events = stored(store, session).await;
    let events = events.into_iter().map(|event| ToldEvent {
        ordinal: event.ordinal,
        event_seq: event.event_seq,
        run_no: event.run_no,
        spine: (*event.spine).clone(),
        chain: event.chain,
        body: (event.form, event.body),
    });
    Told {
        head: (info.head, info.chain, info.items),
        events: events.collect(),
        runs: store.runs(session, 0, 1_000).await.unwrap(),
        items: told_at(store, session, info.head).await,
    }
}

/// The items of a session at a watermark, oldest first, the same from both
/// ends.
pub async fn told_at(store: &dyn Store, session: &SessionId, through: u64) -> Vec<ToldItem> {
    let mut ends = Vec::new();
    for (direction, size) in [(Direction::Newer, 1_000), (Direction::Older, 7)] {
        let pages = pages(store, session, Some(through), direction, size, usize::MAX).await;
        let items = pages.iter().flat_map(|page| &page.items);
        let items: Vec<_> = items.map(|loaded| told_item(loaded, through)).collect();
        ends.push(items);
    }
    let (mut older, newer) = (ends.remove(1), ends.remove(0));
    older.reverse();
    assert_eq!(older, newer, "the items of {session} from both ends");
    newer
}

fn told_item(loaded: &LoadedItem, through: u64) -> ToldItem {
    let chunks = loaded.chunks.iter().flat_map(|(_, chunks)| chunks);
    ToldItem {
        item: loaded.item.clone(),
        row: row(loaded, through),
        run: (*loaded.run).clone(),
        needs: loaded
            .events
            .iter()
            .chain(chunks)
            .map(|event| event.ordinal)
            .collect(),
    }
}

/// A store with the session `s1`, and events for it.
pub struct Bench {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The session `s1`.
    pub session: SessionId,
    /// Events for it, of run `r1` and turn `t1`.
    pub events: Events,
}

impl Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Bench {
    /// Opens the place and creates the session.
    pub async fn open(place: &dyn StorePlace) -> Self {
        let store = place.open().await.unwrap();
        let session = create(&*store, "s1").await;
        Self {
            store,
            session,
            events: Events::new("s1"),
        }
    }

    /// Appends events that must be accepted.
    pub async fn append(&self, events: Vec<CanonicalEvent>) -> Committed {
        append(&*self.store, &self.session, events).await
    }

    /// Appends events one by one.
    pub async fn append_each(&self, events: Vec<CanonicalEvent>) {
        for event in events {
            self.append(vec![event]).await;
        }
    }

    /// Hands an event over and stops waiting for it.
    pub fn hand_over(&mut self, id: &str) {
        let batch = AppendBatch::native(vec![self.events.user(id, "text")]);
        let mut append = self.store.append(&self.session, batch);
        // Its first poll gives it its place; whether it is ready does not matter.
        let _ = poll_once(&mut append);
    }

    /// Appends a batch that must be refused and must leave no mark.
    pub async fn refused(&self, batch: AppendBatch) -> StoreError {
        let before = self.info().await;
        let batch = written_for(&self.session, batch);
        let error = self.store.append(&self.session, batch).await;
        let error = error.expect_err("this batch must be refused");
        assert_eq!(self.info().await, before, "a refusal leaves no mark");
        error
    }

    /// Appends events that must be refused; answers the code.
    pub async fn refused_code(&self, events: Vec<CanonicalEvent>) -> &'static str {
        self.refused(AppendBatch::native(events)).await.code()
    }

    /// The session.
    pub async fn info(&self) -> SessionInfo {
        self.store.session(&self.session).await.unwrap()
    }

    /// All rows at the head.
    pub async fn rows(&self) -> Vec<Row> {
        rows(&*self.store, &self.session).await
    }

    /// All rows at a watermark.
    pub async fn rows_at(&self, through: u64) -> Vec<Row> {
        rows_at(&*self.store, &self.session, through).await
    }

    /// Forks the session at an ordinal.
    pub async fn fork(&self, at: u64, child: &str) -> SessionId {
        fork(&*self.store, &self.session, at, child).await
    }

    /// Every event.
    pub async fn stored(&self) -> Vec<StoredEvent> {
        stored(&*self.store, &self.session).await
    }

    /// A page at the head.
    pub async fn page(&self, direction: Direction, start: Start) -> ItemPage {
        let query = query(direction, start);
        self.store.read_items(&self.session, query).await.unwrap()
    }

    /// Asserts that `verify` has nothing to say.
    pub async fn is_sound(&self) {
        is_sound(&*self.store, &self.session).await;
    }
}
