//! The plans of all statements.

use super::*;
use crate::sql;
use folio_store::{Embedded, ItemIndex, ItemQuery, Ledger, Start};
use folio_testkit::workload::Periodic;
use rusqlite::Connection;

fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut plan = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        plan.push(row.get(3).unwrap());
    }
    plan
}

#[test]
fn every_statement_searches_and_none_sorts() {
    let place = Place::new();
    drop(place.open());
    let conn = place.raw();
    let by_key = "USING INTEGER PRIMARY KEY";
    let reads = [
        (sql::META, "USING PRIMARY KEY (key=?)"),
        (sql::SESSION, "(session_id=?)"),
        (sql::SESSIONS, "(session_id>?)"),
        (sql::SESSION_OF_LOG, "(log_no=?)"),
        (sql::SPANS, "USING PRIMARY KEY (log_no=?)"),
        (sql::SPANS_OF, "spans_src (src=?)"),
        (sql::LOG, by_key),
        (sql::EVENT_IDS, "USING PRIMARY KEY (family=? AND h=?)"),
        (sql::EVENTS, "(rowid>? AND rowid<?)"),
        (sql::EVENT_KEYS, "(rowid>? AND rowid<?)"),
        (sql::FIRST_COMMIT, "commits"),
        (sql::LAST_COMMIT, "commits"),
        (sql::COMMITS, "(rowid>?)"),
        (sql::PACKS, "(rowid>? AND rowid<?)"),
        (sql::PACK_KEYS, "(rowid>? AND rowid<?)"),
        (sql::ID_RUN, "(log_no=? AND stem=? AND first>? AND first<?)"),
        (sql::RUN, "USING PRIMARY KEY (log_no=? AND run_no=?)"),
        (sql::RUNS, "USING PRIMARY KEY (log_no=? AND run_no>?)"),
        (sql::RUN_BY_ID, "runs_id (log_no=? AND run_id=?)"),
        (
            sql::RUN_BY_INVOCATION,
            "runs_inv (log_no=? AND invocation_id=?)",
        ),
        (
            sql::LAST_RUN_OF_TURN,
            "runs_turn (log_no=? AND turn_id=? AND run_no<?)",
        ),
        (sql::ITEMS_NEWER, "(rowid>? AND rowid<?)"),
        (sql::ITEMS_OLDER, "(rowid>? AND rowid<?)"),
        (sql::ITEMS_BY_HASH, "USING PRIMARY KEY (index_no=? AND h=?)"),
        (sql::SEGS, "(p=? AND lane=? AND part=? AND seg>? AND seg<?)"),
        (sql::LAST_SEG, "(p=? AND lane=? AND part=? AND seg<?)"),
        (sql::CONTRIB_LOG, "(scope=? AND source=?)"),
        (sql::CONTRIB_LOGS, "(scope=?)"),
        (sql::FACTS, "(rowid>? AND rowid<?)"),
        (sql::FACTS_NEWER, "(c=? AND (anchor,seq)>(?,?))"),
        (sql::FACTS_OLDER, "(c=? AND (anchor,seq)<(?,?))"),
        (sql::FACTS_BY_ID, "(c=? AND h=?)"),
        (sql::BLOB, "(sha=?)"),
        (sql::BLOBS, "(sha>?)"),
        (sql::STAGES, "(rowid>?)"),
        (sql::PIECE, by_key),
        (sql::CITATION_OF, "(sha=?)"),
        (sql::CITATIONS, "blob_refs_log (log_no=? AND ordinal>?)"),
        (sql::VIEW, "(name=?)"),
        (sql::VIEW_VALUE, "(view=? AND key=?)"),
        (sql::ENTRIES_NEWER, "(view=? AND key>?)"),
        (sql::ENTRIES_OLDER, "(view=? AND key>?)"),
        (sql::ENTRIES_NEWER_BELOW, "(view=? AND key>? AND key<?)"),
        (sql::ENTRIES_OLDER_BELOW, "(view=? AND key>? AND key<?)"),
        (sql::VIEW_MARK, "(view=? AND log_no=?)"),
        (sql::SCRUBS, "(rowid>?)"),
    ];
    let removals = [
        (sql::ITEM_RANGE, "(rowid>? AND rowid<?)"),
        (sql::DROP_ITEM_KEY, "(index_no=? AND h=? AND p=?)"),
        // Passes over the keys of one index and the ids of one family, where
        // damage has left no other way.
        (sql::DROP_ITEM_KEYS_BETWEEN, "(index_no=?)"),
        (sql::EVENT_IDS_BETWEEN, "(family=?)"),
        (sql::DROP_ITEM_KEYS, "(index_no=?)"),
        (sql::DROP_EVENT, by_key),
        (
            sql::DROP_EVENT_ID,
            "(family=? AND h=? AND log_no=? AND ordinal=?)",
        ),
        (sql::DROP_PACK, by_key),
        (sql::DROP_ID_RUN, "(log_no=? AND stem=? AND first=?)"),
        (sql::DROP_COMMITS, "(rowid<?)"),
        (
            sql::DROP_CITATIONS,
            "blob_refs_log (log_no=? AND ordinal=?)",
        ),
        (sql::DROP_RUNS, "(log_no=? AND run_no>?)"),
        (sql::DROP_VIEW_MARKS_OF_LOG, "view_marks_log (log_no=?)"),
        (sql::DROP_VIEW_ROWS_OF_LOG, "view_rows_log (log_no=?)"),
        (sql::DROP_ENTRY, "(view=? AND key=?)"),
        (sql::DROP_FACTS, "(rowid>? AND rowid<?)"),
        (sql::DROP_PIECES, "(rowid>? AND rowid<?)"),
        (sql::DROP_BLOB, "(sha=?)"),
        (sql::DROP_STAGE, by_key),
        (sql::DROP_SCRUB, by_key),
        (sql::DROP_SESSION, by_key),
        (sql::UPDATE_LOG, by_key),
        (sql::REPLACE_EVENT, by_key),
        (sql::REPLACE_FACT, by_key),
    ];
    let groups = sql::DROP_ITEMS
        .into_iter()
        .chain(sql::DROP_LOG)
        .chain(sql::DROP_CONTRIB)
        .chain(sql::DROP_VIEW)
        .map(|sql| (sql, "?"));
    let removals = removals.into_iter().chain(groups);
    for (sql, how) in reads.into_iter().chain(removals) {
        let plan = plan(&conn, sql);
        assert!(!plan.is_empty(), "{sql}");
        assert!(
            plan.iter().all(|step| step.starts_with("SEARCH ")),
            "{sql}: {plan:?}"
        );
        assert!(
            !plan.iter().any(|step| step.contains("USE TEMP B-TREE")),
            "{sql}: {plan:?}"
        );
        assert!(plan[0].contains(how), "{sql}: {plan:?}");
        // What a search leads to is one row.
        assert!(
            plan[1..].iter().all(|step| step.contains("(rowid=?)")),
            "{sql}: {plan:?}"
        );
    }
}

/// Pages of 50 items, of sessions of one turn and of many: each is one read of
/// its rows, and never one for each item.
#[tokio::test]
async fn a_page_runs_each_of_a_few_statements_once() {
    let place = Place::new();
    let store = Embedded::new(place.open()).unwrap();
    let id = folio_core::SessionId::new("s").unwrap();
    let new = folio_store::NewSession::native(id.clone());
    store.create_session(new).await.unwrap();
    let turns = Periodic::new("s").batch(0, 40);
    let batch = folio_store::AppendBatch::native(turns);
    store.append(&id, batch).await.unwrap();
    let all = [
        sql::SESSION,
        sql::LOG,
        sql::SPANS,
        sql::ITEMS_NEWER,
        sql::ITEMS_OLDER,
        sql::ITEMS_BY_HASH,
        sql::EVENTS,
        sql::RUN,
        sql::RUNS,
        sql::SEGS,
        sql::LAST_SEG,
    ];
    // Opens the read connection.
    store.index_status(&id).await.unwrap();
    let mut behind = Start::Edge;
    for page in 0..5 {
        let query = ItemQuery {
            through: None,
            direction: folio_core::Direction::Older,
            start: behind,
            max_items: 50,
            max_bytes: 1 << 20,
            member_bytes: usize::MAX,
        };
        // What ran before does not count.
        for sql in all {
            store.engine().runs(sql);
        }
        let items = store.read_items(&id, query).await.unwrap().items;
        assert_eq!(items.len(), 50);
        behind = Start::Behind(items[49].item.position);
        let runs = all.map(|sql| store.engine().runs(sql));
        assert_eq!(runs, [1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0], "page {page}");
    }
}

#[test]
fn a_statement_is_compiled_once() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let compiled = engine.compilations(|conn| {
        let txn = crate::reader::Txn::new(conn);
        for from in 0..100 {
            txn.events(1, from, from + 7, 9, 900).unwrap();
            let at = at(from, 0);
            txn.items(1, at, folio_core::Direction::Older, 9).unwrap();
        }
    });
    assert_eq!(compiled, 0);
}
