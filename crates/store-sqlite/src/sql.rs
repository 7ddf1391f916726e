//! The statements. Every one is a search by key or index; a test asks SQLite
//! for their plans and fails at the first scan or sort.

macro_rules! session_columns {
    () => {
        "session_no, session_id, log_no, incarnation, generation, authority, authority_rev, \
         followed, import_ref, lease_owner, lease_epoch, lease_holder, created_at, sum"
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
        "k, contrib_facts.anchor, id, chain, body, withheld, sum"
    };
}
macro_rules! span_columns {
    () => {
        "log_no, upto, src, runs, sum"
    };
}
macro_rules! blob_columns {
    () => {
        "sha, blob_no, len, stager, sum"
    };
}
macro_rules! entries {
    ($bounds:literal, $order:literal) => {
        concat!(
            "SELECT key, log_no, value, sum FROM view_rows WHERE view = ?1 AND ",
            $bounds,
            " ORDER BY key",
            $order,
            " LIMIT ?3"
        )
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

pub const SESSION_OF_LOG: &str = concat!(
    "SELECT ",
    session_columns!(),
    " FROM sessions WHERE log_no = ?1"
);

pub const SPANS: &str = concat!(
    "SELECT ",
    span_columns!(),
    " FROM spans WHERE log_no = ?1 ORDER BY upto"
);

pub const SPANS_OF: &str = concat!(
    "SELECT ",
    span_columns!(),
    " FROM spans INDEXED BY spans_src WHERE src = ?1 ORDER BY upto DESC LIMIT ?2"
);

pub const LOG: &str = "SELECT log_no, family, head, base, chain, drained_seq, runs, index_no, \
     index_version, index_head, items, sources, tail, sum FROM logs WHERE log_no = ?1";

pub const EVENT_IDS: &str = "SELECT log_no, ordinal FROM event_ids \
     WHERE family = ?1 AND h = ?2 ORDER BY log_no, ordinal";

pub const EVENTS: &str =
    "SELECT k, sum, body FROM events WHERE k BETWEEN ?1 AND ?2 ORDER BY k LIMIT ?3";

// Keys alone, without touching what may be damaged behind them.
pub const EVENT_KEYS: &str = "SELECT k FROM events WHERE k BETWEEN ?1 AND ?2 ORDER BY k LIMIT ?3";

// The ends of the table, one each; both in one statement would scan it.
pub const FIRST_COMMIT: &str = "SELECT min(seq) FROM commits";
pub const LAST_COMMIT: &str = "SELECT max(seq) FROM commits";

pub const COMMITS: &str = "SELECT seq, sum, body FROM commits WHERE seq > ?1 ORDER BY seq";

pub const PACKS: &str = "SELECT k, sum, body FROM segs WHERE k BETWEEN ?1 AND ?2 ORDER BY k";

pub const PACK_KEYS: &str = "SELECT k FROM segs WHERE k BETWEEN ?1 AND ?2 ORDER BY k";

pub const ID_RUN: &str = "SELECT first, n, seg, sum FROM id_runs \
     WHERE log_no = ?1 AND stem = ?2 AND first BETWEEN ?3 AND ?4 ORDER BY first DESC LIMIT 1";

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

pub const BLOB: &str = concat!("SELECT ", blob_columns!(), " FROM blobs WHERE sha = ?1");

// No address is empty, so an empty `after` stands before all of them.
pub const BLOBS: &str = concat!(
    "SELECT ",
    blob_columns!(),
    " FROM blobs WHERE sha > ?1 ORDER BY sha LIMIT ?2"
);

pub const STAGES: &str =
    "SELECT blob_no, stager, sum FROM stages WHERE blob_no > ?1 ORDER BY blob_no LIMIT ?2";

pub const PIECE: &str = "SELECT sum, body FROM pieces WHERE k = ?1";

pub const CITATION_OF: &str = "SELECT 1 FROM blob_refs WHERE sha = ?1 LIMIT 1";

pub const CITATIONS: &str = "SELECT ordinal, sha FROM blob_refs INDEXED BY blob_refs_log \
     WHERE log_no = ?1 AND ordinal >= ?2 ORDER BY ordinal, sha LIMIT ?3";

pub const VIEW: &str = "SELECT view, name, version, sum FROM views WHERE name = ?1";

pub const VIEW_VALUE: &str =
    "SELECT key, log_no, value, sum FROM view_rows WHERE view = ?1 AND key = ?2";

pub const ENTRIES_NEWER: &str = entries!("key >= ?2", "");
pub const ENTRIES_OLDER: &str = entries!("key >= ?2", " DESC");
pub const ENTRIES_NEWER_BELOW: &str = entries!("key >= ?2 AND key < ?4", "");
pub const ENTRIES_OLDER_BELOW: &str = entries!("key >= ?2 AND key < ?4", " DESC");

pub const VIEW_MARK: &str = "SELECT head, sum FROM view_marks WHERE view = ?1 AND log_no = ?2";

// Numbers of erasures begin at 1.
pub const SCRUBS: &str = "SELECT seq, log_no, since, sum FROM scrub WHERE seq > 0 ORDER BY seq";

// Writes.

pub const PUT_META: &str = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";

// A row that has the id under another number is a contradiction and fails.
pub const PUT_SESSION: &str = concat!(
    "INSERT INTO sessions (",
    session_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
     ON CONFLICT (session_no) DO UPDATE SET session_id = excluded.session_id, \
     log_no = excluded.log_no, incarnation = excluded.incarnation, \
     generation = excluded.generation, authority = excluded.authority, \
     authority_rev = excluded.authority_rev, followed = excluded.followed, \
     import_ref = excluded.import_ref, lease_owner = excluded.lease_owner, \
     lease_epoch = excluded.lease_epoch, lease_holder = excluded.lease_holder, \
     created_at = excluded.created_at, sum = excluded.sum"
);

pub const UPDATE_LOG: &str = "UPDATE logs SET family = ?2, head = ?3, base = ?4, chain = ?5, \
     drained_seq = ?6, runs = ?7, index_no = ?8, index_version = ?9, index_head = ?10, \
     items = ?11, sources = ?12, tail = ?13, sum = ?14 WHERE log_no = ?1";

pub const INSERT_LOG: &str = "INSERT INTO logs (log_no, family, head, base, chain, drained_seq, \
     runs, index_no, index_version, index_head, items, sources, tail, sum) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";

pub const PUT_SPAN: &str = concat!(
    "INSERT OR REPLACE INTO spans (",
    span_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5)"
);

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

pub const REPLACE_EVENT: &str = "UPDATE events SET sum = ?2, body = ?3 WHERE k = ?1";

pub const INSERT_EVENT_ID: &str =
    "INSERT INTO event_ids (family, h, log_no, ordinal) VALUES (?1, ?2, ?3, ?4)";

pub const PUT_COMMIT: &str = "INSERT OR REPLACE INTO commits (seq, sum, body) VALUES (?1, ?2, ?3)";

pub const PUT_PACK: &str = "INSERT OR REPLACE INTO segs (k, sum, body) VALUES (?1, ?2, ?3)";

pub const PUT_PACK_ID: &str =
    "INSERT OR IGNORE INTO event_ids (family, h, log_no, ordinal) VALUES (?1, ?2, ?3, ?4)";

pub const PUT_ID_RUN: &str = "INSERT OR REPLACE INTO id_runs (log_no, stem, first, n, seg, sum) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

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

pub const INSERT_FACT: &str = "INSERT INTO contrib_facts \
     (k, anchor, id, chain, body, withheld, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

// Anchor and id lead to the fact and stay what they are.
pub const REPLACE_FACT: &str = "UPDATE contrib_facts \
     SET chain = ?4, body = ?5, withheld = ?6, sum = ?7 WHERE k = ?1 AND anchor = ?2 AND id = ?3";

pub const INSERT_FACT_PLACE: &str =
    "INSERT INTO contrib_items (c, anchor, seq) VALUES (?1, ?2, ?3)";

pub const INSERT_FACT_ID: &str = "INSERT INTO contrib_ids (c, h, seq) VALUES (?1, ?2, ?3)";

pub const PUT_CITATION: &str =
    "INSERT OR IGNORE INTO blob_refs (sha, log_no, ordinal) VALUES (?1, ?2, ?3)";

// Two blobs that claim the same pieces are a contradiction and fail.
pub const PUT_BLOB: &str = concat!(
    "INSERT INTO blobs (",
    blob_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5) \
     ON CONFLICT (sha) DO UPDATE SET blob_no = excluded.blob_no, len = excluded.len, \
     stager = excluded.stager, sum = excluded.sum"
);

pub const PUT_STAGE: &str =
    "INSERT OR REPLACE INTO stages (blob_no, stager, sum) VALUES (?1, ?2, ?3)";

pub const PUT_PIECE: &str = "INSERT OR REPLACE INTO pieces (k, sum, body) VALUES (?1, ?2, ?3)";

// Two views of one name are a contradiction and fail.
pub const PUT_VIEW: &str = "INSERT INTO views (view, name, version, sum) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (view) DO UPDATE SET name = excluded.name, version = excluded.version, \
     sum = excluded.sum";

pub const PUT_ENTRY: &str = "INSERT OR REPLACE INTO view_rows (view, key, log_no, value, sum) \
     VALUES (?1, ?2, ?3, ?4, ?5)";

pub const DROP_ENTRY: &str = "DELETE FROM view_rows WHERE view = ?1 AND key = ?2";

pub const PUT_VIEW_MARK: &str =
    "INSERT OR REPLACE INTO view_marks (view, log_no, head, sum) VALUES (?1, ?2, ?3, ?4)";

pub const PUT_SCRUB: &str =
    "INSERT OR REPLACE INTO scrub (seq, log_no, since, sum) VALUES (?1, ?2, ?3, ?4)";

// Removals.

/// The keys and rows of items, by (first key, last key).
pub const ITEM_RANGE: &str = "SELECT items.p, sum, body FROM items WHERE p BETWEEN ?1 AND ?2";

/// Items with their chunks, by (first key, last key).
pub const DROP_ITEMS: [&str; 3] = [
    "DELETE FROM items WHERE p BETWEEN ?1 AND ?2",
    "DELETE FROM item_more WHERE p BETWEEN ?1 AND ?2",
    "DELETE FROM item_segs WHERE p BETWEEN ?1 AND ?2",
];

/// The key of one item, by index, hash and item.
pub const DROP_ITEM_KEY: &str = "DELETE FROM item_keys WHERE index_no = ?1 AND h = ?2 AND p = ?3";

/// The keys of items from a first through a last one, by a pass over all keys
/// of their index.
pub const DROP_ITEM_KEYS_BETWEEN: &str =
    "DELETE FROM item_keys WHERE index_no = ?1 AND p BETWEEN ?2 AND ?3";

/// The keys of all items of an index.
pub const DROP_ITEM_KEYS: &str = "DELETE FROM item_keys WHERE index_no = ?1";

pub const DROP_EVENT: &str = "DELETE FROM events WHERE k = ?1";

/// The id of one event, by family, hash, log and ordinal.
pub const DROP_EVENT_ID: &str =
    "DELETE FROM event_ids WHERE family = ?1 AND h = ?2 AND log_no = ?3 AND ordinal = ?4";

/// Hash and ordinal of a log's ids between two ordinals, by a pass over all
/// ids of the family.
pub const EVENT_IDS_BETWEEN: &str = "SELECT h, ordinal FROM event_ids \
     WHERE family = ?1 AND log_no = ?2 AND ordinal BETWEEN ?3 AND ?4";

pub const DROP_PACK: &str = "DELETE FROM segs WHERE k = ?1";

pub const DROP_ID_RUN: &str = "DELETE FROM id_runs WHERE log_no = ?1 AND stem = ?2 AND first = ?3";

/// The rows of the commit journal through a number.
pub const DROP_COMMITS: &str = "DELETE FROM commits WHERE seq <= ?1";

/// The citations of one event, by log and ordinal.
pub const DROP_CITATIONS: &str =
    "DELETE FROM blob_refs INDEXED BY blob_refs_log WHERE log_no = ?1 AND ordinal = ?2";

/// The runs of a log above one.
pub const DROP_RUNS: &str = "DELETE FROM runs WHERE log_no = ?1 AND run_no > ?2";

/// What goes with a log, by its number; the log itself is last.
pub const DROP_LOG: [&str; 4] = [
    "DELETE FROM id_runs WHERE log_no = ?1",
    "DELETE FROM spans WHERE log_no = ?1",
    DROP_VIEW_MARKS_OF_LOG,
    "DELETE FROM logs WHERE log_no = ?1",
];

pub const DROP_VIEW_MARKS_OF_LOG: &str =
    "DELETE FROM view_marks INDEXED BY view_marks_log WHERE log_no = ?1";

pub const DROP_VIEW_ROWS_OF_LOG: &str =
    "DELETE FROM view_rows INDEXED BY view_rows_log WHERE log_no = ?1";

/// The facts of a contribution log, by (first key, last key).
pub const DROP_FACTS: &str = "DELETE FROM contrib_facts WHERE k BETWEEN ?1 AND ?2";

/// What goes with a contribution log, by its number; the log itself is last.
pub const DROP_CONTRIB: [&str; 3] = [
    "DELETE FROM contrib_items WHERE c = ?1",
    "DELETE FROM contrib_ids WHERE c = ?1",
    "DELETE FROM contrib_logs WHERE c = ?1",
];

pub const DROP_SESSION: &str = "DELETE FROM sessions WHERE session_no = ?1";

/// A view with its entries and marks, by its number.
pub const DROP_VIEW: [&str; 3] = [
    "DELETE FROM view_rows WHERE view = ?1",
    "DELETE FROM view_marks WHERE view = ?1",
    "DELETE FROM views WHERE view = ?1",
];

/// The pieces of a blob, by (first key, last key).
pub const DROP_PIECES: &str = "DELETE FROM pieces WHERE k BETWEEN ?1 AND ?2";

pub const DROP_BLOB: &str = "DELETE FROM blobs WHERE sha = ?1";

pub const DROP_STAGE: &str = "DELETE FROM stages WHERE blob_no = ?1";

pub const DROP_SCRUB: &str = "DELETE FROM scrub WHERE seq = ?1";

/// All of it, for a check: no limit, and no order but the table's.
pub const ALL_ENTRIES: &str = "SELECT key, log_no, value, sum, view FROM view_rows";

/// The same of ids that count.
pub const ALL_ID_RUNS: &str = "SELECT first, n, seg, sum, log_no, stem FROM id_runs";

/// The keys that the ids lead to where no event is.
pub const IDS_WITHOUT_EVENT: &str = "SELECT log_no << 33 | ordinal FROM event_ids \
     WHERE (log_no << 33 | ordinal) NOT IN (SELECT k FROM events) ORDER BY 1";

/// Rows that no other row leads to any more: what each says is wrong, and how
/// to see whether there is one. These look at whole tables; only `check` uses
/// them.
pub const ORPHANS: &[(&str, &str)] = &[
    (
        // One whose session is gone is waiting to be erased, or a fork reads it.
        "a log belongs to no session",
        "SELECT EXISTS (SELECT 1 FROM logs WHERE log_no NOT IN (SELECT log_no FROM sessions) \
         AND log_no NOT IN (SELECT src FROM spans) \
         AND log_no NOT IN (SELECT log_no FROM scrub))",
    ),
    (
        "a session has no log",
        "SELECT EXISTS (SELECT 1 FROM sessions WHERE log_no NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "a span belongs to no log",
        "SELECT EXISTS (SELECT 1 FROM spans WHERE log_no NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "a log that a fork reads is missing",
        "SELECT EXISTS (SELECT 1 FROM spans WHERE src NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "a fork does not know what it was forked from",
        "SELECT EXISTS (SELECT 1 FROM logs WHERE base <> \
         (SELECT coalesce(max(upto), 0) FROM spans WHERE spans.log_no = logs.log_no))",
    ),
    (
        "an event belongs to no log",
        "SELECT EXISTS (SELECT 1 FROM events WHERE (k >> 33) NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "a segment belongs to no log",
        "SELECT EXISTS (SELECT 1 FROM segs WHERE (k >> 33) NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "ids that count lead to no segment",
        "SELECT EXISTS (SELECT 1 FROM id_runs WHERE (log_no << 33 | seg) NOT IN (SELECT k FROM segs))",
    ),
    (
        "a run belongs to no log",
        "SELECT EXISTS (SELECT 1 FROM runs WHERE log_no NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "an item belongs to no log's index",
        "SELECT EXISTS (SELECT 1 FROM items WHERE (p >> 36) NOT IN (SELECT index_no FROM logs))",
    ),
    (
        "a key leads to no item",
        "SELECT EXISTS (SELECT 1 FROM item_keys WHERE p NOT IN (SELECT p FROM items))",
    ),
    (
        "a chunk belongs to no item",
        "SELECT EXISTS (SELECT 1 FROM item_segs \
         WHERE (p >> 36) NOT IN (SELECT index_no FROM logs))",
    ),
    (
        "a note belongs to no notes log",
        "SELECT EXISTS (SELECT 1 FROM contrib_facts WHERE (k >> 33) NOT IN (SELECT c FROM contrib_logs))",
    ),
    (
        "a note's place belongs to no note",
        "SELECT EXISTS (SELECT 1 FROM contrib_items \
         WHERE (c << 33 | seq) NOT IN (SELECT k FROM contrib_facts))",
    ),
    (
        "a note's id leads to no note",
        "SELECT EXISTS (SELECT 1 FROM contrib_ids \
         WHERE (c << 33 | seq) NOT IN (SELECT k FROM contrib_facts))",
    ),
    (
        "a notes log belongs to no log",
        "SELECT EXISTS (SELECT 1 FROM contrib_logs WHERE scope NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "a log has lost a notes log",
        "SELECT EXISTS (SELECT 1 FROM logs WHERE sources <> \
         (SELECT count(*) FROM contrib_logs WHERE scope = log_no))",
    ),
    (
        "a notes log has lost a note or its place",
        "SELECT EXISTS (SELECT 1 FROM contrib_logs WHERE \
         head <> (SELECT count(*) FROM contrib_facts WHERE k BETWEEN c << 33 AND (c + 1 << 33) - 1) \
         OR head <> (SELECT count(*) FROM contrib_items WHERE contrib_items.c = contrib_logs.c) \
         OR head <> (SELECT count(*) FROM contrib_ids WHERE contrib_ids.c = contrib_logs.c))",
    ),
    (
        "a piece belongs to no blob",
        "SELECT EXISTS (SELECT 1 FROM pieces WHERE (k >> 20) NOT IN (SELECT blob_no FROM blobs) \
         AND (k >> 20) NOT IN (SELECT blob_no FROM stages))",
    ),
    (
        // 65536: the bytes of a piece.
        "a blob has lost a piece",
        "SELECT EXISTS (SELECT 1 FROM blobs WHERE (len + 65535) / 65536 <> (SELECT count(*) \
         FROM pieces WHERE k BETWEEN blob_no << 20 AND blob_no << 20 | 0xfffff))",
    ),
    (
        "a blob is stored and still arriving",
        "SELECT EXISTS (SELECT 1 FROM stages WHERE blob_no IN (SELECT blob_no FROM blobs))",
    ),
    (
        "a citation belongs to no event",
        "SELECT EXISTS (SELECT 1 FROM blob_refs \
         WHERE (log_no << 33 | ordinal) NOT IN (SELECT k FROM events))",
    ),
    (
        "a blob that an event cites is missing",
        "SELECT EXISTS (SELECT 1 FROM blob_refs WHERE sha NOT IN (SELECT sha FROM blobs))",
    ),
    (
        "an entry belongs to no view",
        "SELECT EXISTS (SELECT 1 FROM view_rows WHERE view NOT IN (SELECT view FROM views))",
    ),
    (
        "an entry of a view was made from no log",
        "SELECT EXISTS (SELECT 1 FROM view_rows WHERE log_no NOT IN (SELECT log_no FROM logs))",
    ),
    (
        "a mark belongs to no view",
        "SELECT EXISTS (SELECT 1 FROM view_marks WHERE view NOT IN (SELECT view FROM views))",
    ),
    (
        "a mark of a view is about no log",
        "SELECT EXISTS (SELECT 1 FROM view_marks WHERE log_no NOT IN (SELECT log_no FROM logs))",
    ),
];
const _: () = assert!(folio_store::rows::PIECE_BYTES == 65_536);
