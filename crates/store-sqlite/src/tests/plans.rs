//! The plans of all statements.

use super::*;
use crate::sql;
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
        (sql::LOG, by_key),
        (sql::EVENT_IDS, "USING PRIMARY KEY (family=? AND h=?)"),
        (sql::EVENTS, "(rowid>? AND rowid<?)"),
        (sql::EVENT_KEYS, "(rowid>? AND rowid<?)"),
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
    ];
    let removals = sql::DROP_ITEMS
        .iter()
        .chain(&sql::DROP_EVENTS)
        .chain(&sql::DROP_IDS)
        .chain(&sql::DROP_LOG)
        .chain(&sql::DROP_CONTRIB)
        .chain([
            &sql::DROP_ITEM_KEYS,
            &sql::DROP_FACTS,
            &sql::DROP_SESSION,
            &sql::UPDATE_LOG,
        ])
        .map(|sql| (*sql, "?"));
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
