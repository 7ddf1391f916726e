//! Writes: rows as they are told, in an order that lets a session that goes
//! and one that takes its id share a transaction.

use crate::error::{Error, transaction_failed};
use crate::reader::{Txn, encode_counters};
use crate::{keys, sql};
use folio_codec::{encode_item, encode_run_facts, encode_tail, hash64};
use folio_core::Item;
use folio_store::StoreError;
use folio_store::engine::{ItemWrite, Snapshot, WriteTxn, Writes};
use folio_store::rows::{
    ContribLogRow, EventRow, FactRow, LogRow, RunRow, SegRow, SessionRow, event_checksum,
    item_checksum,
};
use rusqlite::{Params, params};

impl WriteTxn for Txn<'_> {
    fn apply(&mut self, writes: &Writes) -> Result<(), StoreError> {
        // SQLite ends a transaction by itself after some errors; statements
        // would then commit one by one.
        if self.has_failed() {
            return Err(transaction_failed());
        }
        let done = self.put_all(writes);
        self.failed |= done.is_err();
        done
    }
}

impl Txn<'_> {
    /// Whether a write failed: what was written so far must not be committed.
    pub fn has_failed(&self) -> bool {
        self.failed || self.conn.is_autocommit()
    }

    fn run_sql(&self, sql: &str, params: impl Params) -> Result<usize, Error> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    fn put_all(&self, writes: &Writes) -> Result<(), StoreError> {
        if let Some(row) = &writes.drop_session {
            self.drop_session(row)?;
        }
        if let Some(index_no) = writes.drop_index {
            self.drop_index(index_no)?;
        }
        if let Some(counters) = writes.counters {
            self.run_sql(sql::PUT_META, ("counters", encode_counters(counters)))?;
        }
        if let Some(row) = &writes.session {
            self.put_session(row)?;
        }
        if let Some(log) = &writes.log {
            self.put_log(log)?;
        }
        self.put_rows_of_log(writes)?;
        self.put_contributions(writes)?;
        Ok(())
    }

    fn put_rows_of_log(&self, writes: &Writes) -> Result<(), Error> {
        let Some(log) = &writes.log else {
            let none = writes.runs.is_empty()
                && writes.events.is_empty()
                && writes.items.is_empty()
                && writes.segs.is_empty();
            return if none {
                Ok(())
            } else {
                let (rows, owner) = ("rows of a log", "log");
                Err(Error::Ownerless { rows, owner })
            };
        };
        for run in &writes.runs {
            self.put_run(log.log_no, run)?;
        }
        for (event, hash) in &writes.events {
            self.insert_event(log, event, *hash)?;
        }
        for ItemWrite { item, is_new } in &writes.items {
            self.put_item(log.index_no, item, *is_new)?;
        }
        for seg in &writes.segs {
            self.put_seg(log.index_no, seg)?;
        }
        Ok(())
    }

    fn put_contributions(&self, writes: &Writes) -> Result<(), Error> {
        if let Some(row) = &writes.contrib_log {
            self.put_contrib_log(row)?;
            for fact in &writes.facts {
                self.insert_fact(row.contrib_no, fact)?;
            }
        } else if !writes.facts.is_empty() {
            let (rows, owner) = ("facts", "contribution log");
            return Err(Error::Ownerless { rows, owner });
        }
        Ok(())
    }

    fn put_session(&self, row: &SessionRow) -> Result<(), Error> {
        self.run_sql(
            sql::PUT_SESSION,
            params![
                row.session_no.cast_signed(),
                row.session_id.as_str(),
                keys::fits("log number", row.log_no, keys::MAX_LOG)?,
                row.incarnation.cast_signed(),
                row.generation,
                row.authority as u8,
                row.authority_rev.cast_signed(),
                row.followed,
                row.import_ref,
                row.lease_owner.cast_signed(),
                row.lease_epoch.cast_signed(),
                row.created_at.cast_signed(),
                row.checksum().cast_signed(),
            ],
        )
        .map(drop)
    }

    fn put_log(&self, row: &LogRow) -> Result<(), Error> {
        let log_no = keys::fits("log number", row.log_no, keys::MAX_LOG)?;
        let tail = encode_tail(&row.tail);
        let columns = params![
            log_no,
            row.family.cast_signed(),
            keys::fits("ordinal", row.head, keys::MAX_ORDINAL)?,
            row.base.cast_signed(),
            &row.chain[..],
            row.drained_seq.cast_signed(),
            row.runs,
            keys::fits("index number", row.index_no, keys::MAX_INDEX)?,
            row.index_version,
            row.index_head.cast_signed(),
            row.items.cast_signed(),
            tail,
            row.checksum().cast_signed(),
        ];
        if self.run_sql(sql::UPDATE_LOG, columns)? == 0 {
            self.run_sql(sql::INSERT_LOG, columns)?;
            // It reads all of its events from itself.
            self.run_sql(sql::PUT_SPAN, (log_no, i64::MAX, log_no))?;
        }
        Ok(())
    }

    fn put_run(&self, log_no: u64, row: &RunRow) -> Result<(), Error> {
        let open_before: Vec<u8> = row
            .open_before
            .iter()
            .flat_map(|run| run.to_le_bytes())
            .collect();
        self.run_sql(
            sql::PUT_RUN,
            params![
                log_no.cast_signed(),
                row.run_no,
                row.spine.run_id.as_str(),
                row.spine.turn_id.as_str(),
                row.spine.invocation_id.as_str(),
                row.opened.cast_signed(),
                row.terminal.map(u64::cast_signed),
                open_before,
                row.inline,
                row.output,
                encode_run_facts(&row.facts),
                row.checksum(log_no).cast_signed(),
            ],
        )
        .map(drop)
    }

    fn insert_event(&self, log: &LogRow, row: &EventRow, hash: u64) -> Result<(), Error> {
        let packed = row.pack();
        let sum = event_checksum(log.log_no, row.ordinal, &packed).cast_signed();
        let k = keys::event(log.log_no, row.ordinal)?;
        self.run_sql(sql::INSERT_EVENT, params![k, sum, packed])?;
        let id = [log.family, hash, log.log_no, row.ordinal].map(u64::cast_signed);
        self.run_sql(sql::INSERT_EVENT_ID, id).map(drop)
    }

    fn put_item(&self, index_no: u64, item: &Item, is_new: bool) -> Result<(), Error> {
        let p = keys::item(index_no, item.position)?;
        let packed = encode_item(item);
        let sum = item_checksum(index_no, item.position, &packed).cast_signed();
        self.run_sql(sql::PUT_ITEM, params![p, sum, packed])?;
        if is_new {
            let hash = hash64(item.base().as_bytes()).cast_signed();
            self.run_sql(sql::PUT_ITEM_KEY, (index_no.cast_signed(), hash, p))?;
        }
        Ok(())
    }

    fn put_seg(&self, index_no: u64, row: &SegRow) -> Result<(), Error> {
        self.run_sql(
            sql::PUT_SEG,
            params![
                keys::item(index_no, row.position)?,
                row.lane.0 as u8,
                row.lane.1,
                keys::fits("ordinal", row.seg, keys::MAX_ORDINAL)?,
                row.before.cast_signed(),
                row.bytes.cast_signed(),
                row.n,
                row.last.cast_signed(),
                row.checksum(index_no).cast_signed(),
            ],
        )
        .map(drop)
    }

    fn put_contrib_log(&self, row: &ContribLogRow) -> Result<(), Error> {
        self.run_sql(
            sql::PUT_CONTRIB_LOG,
            params![
                keys::fits("contribution log number", row.contrib_no, keys::MAX_LOG)?,
                row.source,
                row.log_no.cast_signed(),
                row.rank,
                row.head.cast_signed(),
                &row.chain[..],
                row.checksum().cast_signed(),
            ],
        )
        .map(drop)
    }

    fn insert_fact(&self, contrib_no: u64, row: &FactRow) -> Result<(), Error> {
        let c = contrib_no.cast_signed();
        let anchor = keys::fits("anchor", row.anchor, keys::MAX_ORDINAL)?;
        let seq = row.seq.cast_signed();
        self.run_sql(
            sql::INSERT_FACT,
            params![
                keys::event(contrib_no, row.seq)?,
                anchor,
                row.id,
                &row.chain[..],
                row.body,
                row.checksum(contrib_no).cast_signed(),
            ],
        )?;
        self.run_sql(sql::INSERT_FACT_PLACE, (c, anchor, seq))?;
        let hash = hash64(row.id.as_bytes()).cast_signed();
        self.run_sql(sql::INSERT_FACT_ID, (c, hash, seq)).map(drop)
    }

    fn drop_index(&self, index_no: u64) -> Result<(), Error> {
        let Some((first, last)) = keys::items(index_no) else {
            return Ok(());
        };
        for sql in sql::DROP_ITEMS {
            self.run_sql(sql, (first, last))?;
        }
        self.run_sql(sql::DROP_ITEM_KEYS, [index_no.cast_signed()])
            .map(drop)
    }

    /// Removes every row of a session. The log row is read with its checksum:
    /// a damaged one could name the index of another session.
    fn drop_session(&self, row: &SessionRow) -> Result<(), StoreError> {
        let log_no = row.log_no.cast_signed();
        if let Some(log) = self.log(row.log_no)? {
            self.drop_index(log.index_no)?;
            for sql in sql::DROP_IDS {
                self.run_sql(sql, (log.family.cast_signed(), log_no))?;
            }
        }
        for contrib in self.contrib_logs(row.log_no)? {
            if let Some(range) = keys::events(contrib.contrib_no, 0, u64::MAX) {
                self.run_sql(sql::DROP_FACTS, range)?;
            }
            for sql in sql::DROP_CONTRIB {
                self.run_sql(sql, [contrib.contrib_no.cast_signed()])?;
            }
        }
        if let Some(range) = keys::events(row.log_no, 0, u64::MAX) {
            for sql in sql::DROP_EVENTS {
                self.run_sql(sql, range)?;
            }
        }
        for sql in sql::DROP_LOG {
            self.run_sql(sql, [log_no])?;
        }
        self.run_sql(sql::DROP_SESSION, [row.session_no.cast_signed()])?;
        Ok(())
    }
}
