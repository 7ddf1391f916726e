//! The statements. Every one is a search by key or index; a test asks SQLite
//! for their plans and fails at the first scan or sort.

macro_rules! session_columns {
    () => {
        "session_no, session_id, log_no, incarnation, generation, authority, authority_rev, \
         followed, import_ref, lease_owner, lease_epoch, created_at, sum"
    };
}
macro_rules! run_columns {
    () => {
        "log_no, run_no, run_id, turn_id, invocation_id, opened, terminal, open_before, inline, \
         output, facts, sum"
    };
}
macro_rules! item_columns {
    () => {
        "items.p, sum, body"
    };
}
macro_rules! seg_columns {
    () => {
        "p, lane, part, seg, before, bytes, n, last, sum"
    };
}
macro_rules! contrib_columns {
    () => {
        "c, source, scope, rank, head, chain, sum"
    };
}
macro_rules! fact_columns {
    () => {
        "k, contrib_facts.anchor, id, chain, body, sum"
    };
}

// Reads.

pub const META: &str = "SELECT value FROM meta WHERE key = ?1";

pub const SESSION: &str = concat!(
    "SELECT ",
    session_columns!(),
    " FROM sessions WHERE session_id = ?1"
);

// No id is empty, so an empty `after` stands before all of them.
pub const SESSIONS: &str = concat!(
    "SELECT ",
    session_columns!(),
    " FROM sessions WHERE session_id > ?1 ORDER BY session_id LIMIT ?2"
);

pub const LOG: &str = "SELECT log_no, family, head, base, chain, drained_seq, runs, index_no, \
     index_version, index_head, items, tail, sum FROM logs WHERE log_no = ?1";

// Across the logs of a family the order is made by the reader: few ids share a
// hash, and sorting them here would cost a temporary tree.
pub const EVENT_IDS: &str = "SELECT ordinal FROM event_ids WHERE family = ?1 AND h = ?2";

pub const EVENTS: &str =
    "SELECT k, sum, body FROM events WHERE k BETWEEN ?1 AND ?2 ORDER BY k LIMIT ?3";

// Keys alone, without touching what may be damaged behind them.
pub const EVENT_KEYS: &str = "SELECT k FROM events WHERE k BETWEEN ?1 AND ?2 ORDER BY k LIMIT ?3";

pub const RUN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM runs WHERE log_no = ?1 AND run_no = ?2"
);

pub const RUNS: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM runs WHERE log_no = ?1 AND run_no > ?2 ORDER BY run_no LIMIT ?3"
);

pub const RUN_BY_ID: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM runs INDEXED BY runs_id WHERE log_no = ?1 AND run_id = ?2 ORDER BY run_no LIMIT 1"
);

pub const RUN_BY_INVOCATION: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM runs INDEXED BY runs_inv WHERE log_no = ?1 AND invocation_id = ?2 \
     ORDER BY run_no LIMIT 1"
);

pub const LAST_RUN_OF_TURN: &str = concat!(
    "SELECT ",
    run_columns!(),
    " FROM runs INDEXED BY runs_turn WHERE log_no = ?1 AND turn_id = ?2 AND run_no < ?3 \
     ORDER BY run_no DESC LIMIT 1"
);

pub const ITEMS_NEWER: &str = concat!(
    "SELECT ",
    item_columns!(),
    " FROM items WHERE p BETWEEN ?1 AND ?2 ORDER BY p LIMIT ?3"
);

pub const ITEMS_OLDER: &str = concat!(
    "SELECT ",
    item_columns!(),
    " FROM items WHERE p BETWEEN ?1 AND ?2 ORDER BY p DESC LIMIT ?3"
);

// The outer joins keep a key whose row is gone, so that it is seen as damage.
pub const ITEMS_BY_HASH: &str = concat!(
    "SELECT ",
    item_columns!(),
    ", item_keys.p FROM item_keys LEFT JOIN items ON items.p = item_keys.p \
     WHERE item_keys.index_no = ?1 AND item_keys.h = ?2 ORDER BY item_keys.p"
);

pub const SEGS: &str = concat!(
    "SELECT ",
    seg_columns!(),
    " FROM item_segs WHERE p = ?1 AND lane = ?2 AND part = ?3 AND seg BETWEEN ?4 AND ?5 \
     ORDER BY seg LIMIT ?6"
);

pub const LAST_SEG: &str = concat!(
    "SELECT ",
    seg_columns!(),
    " FROM item_segs WHERE p = ?1 AND lane = ?2 AND part = ?3 AND seg <= ?4 \
     ORDER BY seg DESC LIMIT 1"
);

pub const CONTRIB_LOG: &str = concat!(
    "SELECT ",
    contrib_columns!(),
    " FROM contrib_logs WHERE scope = ?1 AND source = ?2"
);

pub const CONTRIB_LOGS: &str = concat!(
    "SELECT ",
    contrib_columns!(),
    " FROM contrib_logs WHERE scope = ?1 ORDER BY source"
);

pub const FACTS: &str = concat!(
    "SELECT ",
    fact_columns!(),
    " FROM contrib_facts WHERE k BETWEEN ?1 AND ?2 ORDER BY k LIMIT ?3"
);

pub const FACTS_NEWER: &str = concat!(
    "SELECT ",
    fact_columns!(),
    ", contrib_items.anchor, contrib_items.seq FROM contrib_items \
     LEFT JOIN contrib_facts ON k = (?1 << 33 | contrib_items.seq) \
     WHERE contrib_items.c = ?1 AND (contrib_items.anchor, contrib_items.seq) > (?2, ?3) \
     ORDER BY contrib_items.anchor, contrib_items.seq LIMIT ?4"
);

pub const FACTS_OLDER: &str = concat!(
    "SELECT ",
    fact_columns!(),
    ", contrib_items.anchor, contrib_items.seq FROM contrib_items \
     LEFT JOIN contrib_facts ON k = (?1 << 33 | contrib_items.seq) \
     WHERE contrib_items.c = ?1 AND (contrib_items.anchor, contrib_items.seq) < (?2, ?3) \
     ORDER BY contrib_items.anchor DESC, contrib_items.seq DESC LIMIT ?4"
);

pub const FACTS_BY_ID: &str = concat!(
    "SELECT ",
    fact_columns!(),
    ", contrib_ids.seq FROM contrib_ids \
     LEFT JOIN contrib_facts ON k = (?1 << 33 | contrib_ids.seq) \
     WHERE contrib_ids.c = ?1 AND contrib_ids.h = ?2 ORDER BY contrib_ids.seq"
);

// Writes.

pub const PUT_META: &str = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";

// A row that has the id under another number is a contradiction and fails.
pub const PUT_SESSION: &str = concat!(
    "INSERT INTO sessions (",
    session_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
     ON CONFLICT (session_no) DO UPDATE SET session_id = excluded.session_id, \
     log_no = excluded.log_no, incarnation = excluded.incarnation, \
     generation = excluded.generation, authority = excluded.authority, \
     authority_rev = excluded.authority_rev, followed = excluded.followed, \
     import_ref = excluded.import_ref, lease_owner = excluded.lease_owner, \
     lease_epoch = excluded.lease_epoch, created_at = excluded.created_at, sum = excluded.sum"
);

pub const UPDATE_LOG: &str = "UPDATE logs SET family = ?2, head = ?3, base = ?4, chain = ?5, \
     drained_seq = ?6, runs = ?7, index_no = ?8, index_version = ?9, index_head = ?10, \
     items = ?11, tail = ?12, sum = ?13 WHERE log_no = ?1";

pub const INSERT_LOG: &str = "INSERT INTO logs (log_no, family, head, base, chain, drained_seq, \
     runs, index_no, index_version, index_head, items, tail, sum) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

pub const PUT_SPAN: &str = "INSERT OR REPLACE INTO spans (log_no, upto, src) VALUES (?1, ?2, ?3)";

pub const PUT_RUN: &str = concat!(
    "INSERT INTO runs (",
    run_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
     ON CONFLICT (log_no, run_no) DO UPDATE SET run_id = excluded.run_id, \
     turn_id = excluded.turn_id, invocation_id = excluded.invocation_id, \
     opened = excluded.opened, terminal = excluded.terminal, \
     open_before = excluded.open_before, inline = excluded.inline, output = excluded.output, \
     facts = excluded.facts, sum = excluded.sum"
);

pub const INSERT_EVENT: &str = "INSERT INTO events (k, sum, body) VALUES (?1, ?2, ?3)";

pub const INSERT_EVENT_ID: &str =
    "INSERT INTO event_ids (family, h, log_no, ordinal) VALUES (?1, ?2, ?3, ?4)";

pub const PUT_ITEM: &str = "INSERT OR REPLACE INTO items (p, sum, body) VALUES (?1, ?2, ?3)";

pub const PUT_ITEM_KEY: &str =
    "INSERT OR IGNORE INTO item_keys (index_no, h, p) VALUES (?1, ?2, ?3)";

pub const PUT_SEG: &str = concat!(
    "INSERT OR REPLACE INTO item_segs (",
    seg_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
);

pub const PUT_CONTRIB_LOG: &str = concat!(
    "INSERT INTO contrib_logs (",
    contrib_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
     ON CONFLICT (c) DO UPDATE SET source = excluded.source, scope = excluded.scope, \
     rank = excluded.rank, head = excluded.head, chain = excluded.chain, sum = excluded.sum"
);

pub const INSERT_FACT: &str = "INSERT INTO contrib_facts (k, anchor, id, chain, body, sum) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

pub const INSERT_FACT_PLACE: &str =
    "INSERT INTO contrib_items (c, anchor, seq) VALUES (?1, ?2, ?3)";

pub const INSERT_FACT_ID: &str = "INSERT INTO contrib_ids (c, h, seq) VALUES (?1, ?2, ?3)";

/// What goes with an index generation, by (first key, last key).
pub const DROP_ITEMS: [&str; 3] = [
    "DELETE FROM items WHERE p BETWEEN ?1 AND ?2",
    "DELETE FROM item_more WHERE p BETWEEN ?1 AND ?2",
    "DELETE FROM item_segs WHERE p BETWEEN ?1 AND ?2",
];

/// What goes with an index generation, by its number.
pub const DROP_ITEM_KEYS: &str = "DELETE FROM item_keys WHERE index_no = ?1";

/// What goes with a log, by (first key, last key) of its events.
pub const DROP_EVENTS: [&str; 2] = [
    "DELETE FROM events WHERE k BETWEEN ?1 AND ?2",
    "DELETE FROM segs WHERE k BETWEEN ?1 AND ?2",
];

/// What goes with a log, by its family and number: one pass over the ids of
/// the family, and nothing is decoded.
pub const DROP_IDS: [&str; 2] = [
    "DELETE FROM event_ids WHERE family = ?1 AND log_no = ?2",
    "DELETE FROM id_runs WHERE family = ?1 AND log_no = ?2",
];

/// What goes with a log, by its number; the log itself is last.
pub const DROP_LOG: [&str; 6] = [
    "DELETE FROM runs WHERE log_no = ?1",
    "DELETE FROM streams WHERE log_no = ?1",
    "DELETE FROM spans WHERE log_no = ?1",
    "DELETE FROM blob_refs INDEXED BY blob_refs_log WHERE log_no = ?1",
    "DELETE FROM view_marks INDEXED BY view_marks_log WHERE log_no = ?1",
    "DELETE FROM logs WHERE log_no = ?1",
];

/// The facts of a contribution log, by (first key, last key).
pub const DROP_FACTS: &str = "DELETE FROM contrib_facts WHERE k BETWEEN ?1 AND ?2";

/// What goes with a contribution log, by its number; the log itself is last.
pub const DROP_CONTRIB: [&str; 3] = [
    "DELETE FROM contrib_items WHERE c = ?1",
    "DELETE FROM contrib_ids WHERE c = ?1",
    "DELETE FROM contrib_logs WHERE c = ?1",
];

/// The session row.
pub const DROP_SESSION: &str = "DELETE FROM sessions WHERE session_no = ?1";

/// Rows that no other row leads to any more: what each says is wrong, and how
/// to see whether there is one. These look at whole tables; only `check` uses
/// them.
pub const ORPHANS: &[(&str, &str)] = &[
    (
        "a log belongs to no session",
        "SELECT EXISTS (SELECT 1 FROM logs WHERE log_no NOT IN (SELECT log_no FROM sessions))",
    ),
    (
        "a session has no log",
        "SELECT EXISTS (SELECT 1 FROM sessions WHERE log_no NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "a log has no span",
        "SELECT EXISTS (SELECT 1 FROM logs WHERE log_no NOT IN (SELECT log_no FROM spans))",
    ),
    (
        "an event belongs to no log",
        "SELECT EXISTS (SELECT 1 FROM events WHERE (k >> 33) NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "a note belongs to no notes log",
        "SELECT EXISTS (SELECT 1 FROM contrib_facts WHERE (k >> 33) NOT IN (SELECT c FROM contrib_logs))",
    ),
    (
        "a notes log belongs to no log",
        "SELECT EXISTS (SELECT 1 FROM contrib_logs WHERE scope NOT IN (SELECT log_no FROM logs))",
    ),
];
