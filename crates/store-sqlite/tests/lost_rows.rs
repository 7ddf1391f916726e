//! Rows that are gone or moved are noticed: by the read that needs them where
//! it can know, and by `verify` and `check` everywhere.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_core::{Direction, Fact, FactOp, ForeignId, SessionId};
use folio_store::{
    Admin, AppendBatch, Blobs, ContributionBatch, ContributionQuery, Contributions, ItemIndex,
    ItemQuery, Ledger, NOTES, NewSession, Start, StoreError, ViewBatch, Views,
};
use folio_store_sqlite::{SqliteConfig, SqliteStore};
use folio_testkit::workload::Periodic;
use std::path::PathBuf;

struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
    id: SessionId,
}

/// A store with one session of three turns and some notes, closed.
async fn filled() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("folio.db");
    let id = SessionId::new("s1").unwrap();
    let store = open(&path);
    store
        .create_session(NewSession::native(id.clone()))
        .await
        .unwrap();
    let facts = (0..3)
        .map(|n| Fact {
            id: ForeignId::new(format!("n{n}")).unwrap(),
            op: FactOp::Put,
            anchor: n,
            ts: None,
            kind: "mode_change".into(),
            turn_id: None,
            visible: true,
            data: None,
        })
        .collect();
    let batch = AppendBatch {
        contributions: Some(ContributionBatch::new(NOTES, facts)),
        ..AppendBatch::native(Periodic::new("s1").batch(0, 3))
    };
    store.append(&id, batch).await.unwrap();
    store.close().await.unwrap();
    Place {
        _folder: folder,
        path,
        id,
    }
}

fn open(path: &std::path::Path) -> SqliteStore {
    folio_store_sqlite::open(&SqliteConfig::new(path)).unwrap()
}

impl Place {
    fn copy(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio.db");
        std::fs::copy(&self.path, &path).unwrap();
        Self {
            path,
            id: self.id.clone(),
            _folder: folder,
        }
    }

    /// Damages the file behind the store's back and opens it.
    fn after(&self, sql: &str) -> SqliteStore {
        let raw = rusqlite::Connection::open(&self.path).unwrap();
        assert_ne!(raw.execute(sql, []).unwrap(), 0, "{sql} changes something");
        drop(raw);
        open(&self.path)
    }

    async fn walk(&self, store: &SqliteStore, direction: Direction) -> Result<usize, StoreError> {
        let mut start = Start::Edge;
        let mut count = 0;
        loop {
            let (max_items, max_bytes) = (4, 1 << 20);
            let query = ItemQuery {
                through: None,
                direction,
                start,
                max_items,
                max_bytes,
                member_bytes: usize::MAX,
            };
            let page = store.read_items(&self.id, query).await?;
            count += page.items.len();
            match page.items.last() {
                Some(last) if page.more => start = Start::Behind(last.item.position),
                _ => return Ok(count),
            }
        }
    }
}

#[tokio::test]
async fn no_page_is_shorter_for_a_lost_index_row() {
    for sql in [
        "DELETE FROM items",
        "DELETE FROM items WHERE p = (SELECT max(p) FROM items)",
        "DELETE FROM items WHERE p = (SELECT min(p) FROM items)",
        "DELETE FROM items WHERE p IN (SELECT p FROM items ORDER BY p LIMIT 1 OFFSET 9)",
    ] {
        let place = filled().await;
        let store = place.after(sql);
        for direction in [Direction::Older, Direction::Newer] {
            let error = place.walk(&store, direction).await.unwrap_err();
            assert_eq!(error.code(), "index_damaged", "{sql} {direction:?}");
        }
        assert!(
            !store.verify(&place.id).await.unwrap().findings.is_empty(),
            "{sql}"
        );
        store.rebuild_index(&place.id).await.unwrap();
        assert_eq!(place.walk(&store, Direction::Older).await.unwrap(), 30);
        assert_eq!(store.verify(&place.id).await.unwrap().findings, [], "{sql}");
    }
}

/// How many notes are listed, from both ends.
async fn notes(place: &Place, store: &SqliteStore) -> Result<usize, StoreError> {
    let mut counts = Vec::new();
    for direction in [Direction::Older, Direction::Newer] {
        let query = ContributionQuery {
            through: u64::MAX,
            direction,
            after: None,
            max_items: 100,
        };
        let found = store.contributions(&place.id, NOTES, query).await?;
        counts.push(found.len());
    }
    assert_eq!(counts[0], counts[1]);
    Ok(counts[0])
}

#[tokio::test]
async fn no_list_of_notes_is_shorter_for_a_lost_row() {
    for (sql, code) in [
        ("DELETE FROM contrib_logs", "row_damaged"),
        ("UPDATE contrib_logs SET scope = 9", "row_damaged"),
        ("UPDATE contrib_logs SET source = 'x'", "row_damaged"),
        ("UPDATE logs SET sources = 0", "row_damaged"),
        ("DELETE FROM contrib_items", "fact_missing"),
        ("DELETE FROM contrib_items WHERE seq = 1", "fact_missing"),
        ("DELETE FROM contrib_items WHERE seq = 3", "fact_missing"),
        ("DELETE FROM contrib_facts", "row_damaged"),
        (
            "DELETE FROM contrib_facts WHERE (k & 0xff) = 3",
            "row_damaged",
        ),
    ] {
        let place = filled().await;
        let store = place.after(sql);
        let error = notes(&place, &store).await.unwrap_err();
        assert_eq!(error.code(), code, "{sql}");
        let report = store.verify(&place.id).await;
        assert!(report.map_or(true, |r| !r.findings.is_empty()), "{sql}");
    }
}

#[tokio::test]
async fn no_list_of_notes_is_shorter_for_a_zeroed_block() {
    const PAGE: usize = 4_096;
    const BLOCK: usize = 512;
    let whole = filled().await;
    let bytes = std::fs::read(&whole.path).unwrap();
    let mut told = 0;
    // Rows fill a page from its end.
    for end in (PAGE..=bytes.len()).step_by(PAGE) {
        let place = whole.copy();
        let mut damaged = bytes.clone();
        damaged[end - BLOCK..end].fill(0);
        std::fs::write(&place.path, damaged).unwrap();
        let Ok(store) = folio_store_sqlite::open(&SqliteConfig::new(&place.path)) else {
            continue;
        };
        match notes(&place, &store).await {
            Ok(count) => assert_eq!(count, 3, "page {}", end / PAGE),
            Err(_) => told += 1,
        }
        if let Ok(report) = store.verify(&place.id).await
            && report.findings.is_empty()
        {
            assert_eq!(report.facts, 3, "page {}", end / PAGE);
        }
    }
    assert_ne!(told, 0, "a page holds the notes");
}

#[tokio::test]
async fn verify_compares_every_lookup() {
    for sql in [
        "DELETE FROM item_keys",
        "UPDATE item_keys SET h = h + 1",
        "DELETE FROM event_ids",
        "UPDATE event_ids SET h = h + 1",
        "DELETE FROM contrib_ids",
        "DELETE FROM contrib_items",
        "UPDATE contrib_items SET anchor = anchor + 1",
        "DELETE FROM contrib_facts WHERE k = (SELECT min(k) FROM contrib_facts)",
        "DELETE FROM events WHERE k = (SELECT max(k) FROM events)",
    ] {
        let place = filled().await;
        let store = place.after(sql);
        let report = store.verify(&place.id).await;
        assert!(
            report.is_err() || report.is_ok_and(|r| !r.findings.is_empty()),
            "{sql}"
        );
    }
}

/// A store that also has a fork, blobs, a view and erasures that wait.
async fn varied() -> Place {
    let place = filled().await;
    let store = open(&place.path);
    let cited = store.put_blob(vec![7; 100_000]).await.unwrap().id;
    let batch = AppendBatch {
        cites: vec![(0, cited)],
        ..AppendBatch::native(Periodic::new("s1").batch(3, 1))
    };
    let head = store.append(&place.id, batch).await.unwrap().high_water;
    let upload = store.begin_blob().await.unwrap();
    store.extend_blob(upload, vec![8; 100_000]).await.unwrap();
    let fork = SessionId::new("fork").unwrap();
    store.fork_session(&place.id, head, fork).await.unwrap();
    let batch = ViewBatch {
        view: "v".into(),
        version: 1,
        session: place.id.clone(),
        from: 0,
        to: head,
        entries: vec![(b"k".to_vec(), Some(b"v".to_vec()))],
    };
    store.put_view(batch).await.unwrap();
    let parent = SessionId::new("parent").unwrap();
    let new = NewSession::native(parent.clone());
    store.create_session(new).await.unwrap();
    let batch = AppendBatch::native(Periodic::new("parent").batch(0, 3));
    let head = store.append(&parent, batch).await.unwrap().high_water;
    let orphan = SessionId::new("orphan").unwrap();
    store.fork_session(&parent, head / 2, orphan).await.unwrap();
    store.delete_session(&parent, None).await.unwrap();
    store.close().await.unwrap();
    place
}

#[tokio::test]
async fn check_finds_what_nothing_leads_to_any_more() {
    let cases = [
        ("DELETE FROM sessions", "a log belongs to no session"),
        (
            "DELETE FROM sessions WHERE session_id = 'fork'",
            "a log belongs to no session",
        ),
        ("DELETE FROM logs WHERE log_no = 1", "a session has no log"),
        (
            "DELETE FROM logs WHERE log_no = 2",
            "a span belongs to no log",
        ),
        (
            "DELETE FROM logs WHERE log_no = 3",
            "a log that a fork reads is missing",
        ),
        (
            "DELETE FROM spans",
            "a fork does not know what it was forked from",
        ),
        (
            "INSERT INTO spans VALUES (1, 5, 2, 0, 0)",
            "a fork does not know what it was forked from",
        ),
        (
            "UPDATE events SET k = k + (99 << 33)",
            "an event belongs to no log",
        ),
        (
            "DELETE FROM events WHERE k = 1 << 33 | 3",
            "an event id leads to no event",
        ),
        (
            "UPDATE runs SET log_no = log_no + 99",
            "a run belongs to no log",
        ),
        (
            "UPDATE items SET p = p + (99 << 36)",
            "an item belongs to no log's index",
        ),
        (
            "DELETE FROM items WHERE p = (SELECT max(p) FROM items)",
            "a key leads to no item",
        ),
        (
            "INSERT INTO item_segs VALUES (99 << 36, 0, 0, 1, 0, 0, 1, 1, 0)",
            "a chunk belongs to no item",
        ),
        ("DELETE FROM contrib_logs", "a note belongs to no notes log"),
        (
            "DELETE FROM contrib_facts",
            "a note's place belongs to no note",
        ),
        ("DELETE FROM contrib_logs", "a log has lost a notes log"),
        (
            "DELETE FROM contrib_items WHERE seq = 2",
            "a notes log has lost a note or its place",
        ),
        (
            "UPDATE contrib_ids SET seq = 9",
            "a note's id leads to no note",
        ),
        (
            "UPDATE contrib_logs SET scope = scope + 9",
            "a notes log belongs to no log",
        ),
        ("DELETE FROM blobs", "a piece belongs to no blob"),
        ("DELETE FROM stages", "a piece belongs to no blob"),
        (
            "DELETE FROM pieces WHERE k = 1 << 20 | 1",
            "a blob has lost a piece",
        ),
        (
            "UPDATE stages SET blob_no = 1",
            "a blob is stored and still arriving",
        ),
        (
            "UPDATE blob_refs SET ordinal = 9999",
            "a citation belongs to no event",
        ),
        ("DELETE FROM blobs", "a blob that an event cites is missing"),
        ("DELETE FROM views", "an entry belongs to no view"),
        (
            "UPDATE view_rows SET log_no = 99",
            "an entry of a view was made from no log",
        ),
        ("DELETE FROM views", "a mark belongs to no view"),
        (
            "UPDATE view_marks SET log_no = 99",
            "a mark of a view is about no log",
        ),
    ];
    let whole = varied().await;
    open(&whole.path).check().await.unwrap();
    for (sql, wrong) in cases {
        let place = whole.copy();
        let store = place.after(sql);
        let error = store.check().await.unwrap_err();
        assert_eq!(error.code(), "database_damaged", "{sql}");
        assert!(error.to_string().contains(wrong), "{sql}: {error}");
    }
}

#[tokio::test]
async fn a_gap_names_the_events_that_are_missing() {
    let place = filled().await;
    let store = place.after("DELETE FROM events WHERE (k & 0xff) BETWEEN 11 AND 13");
    let query = folio_store::RangeQuery {
        from: 1,
        to: 42,
        max_count: 100,
        max_bytes: 1 << 20,
    };
    let error = store.range(&place.id, query).await.unwrap_err();
    assert_eq!(
        (error.code(), error.ordinals()),
        ("projection_gap", &[11, 12, 13][..])
    );
    let findings = store.verify(&place.id).await.unwrap().findings;
    let sequences = findings
        .iter()
        .filter(|finding| finding.code == "event_seq")
        .count();
    assert!(sequences <= 1, "one gap is one finding: {findings:?}");
}
