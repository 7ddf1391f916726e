//! Writes: rows as they are told. What is erased goes first, so that a session
//! that goes and one that takes its id can share a transaction.

use crate::error::{Error, transaction_failed};
use crate::reader::{Txn, encode_counters, mark_checksum};
use crate::{keys, sql};
use folio_codec::{Digest, encode_item, encode_run_facts, encode_tail, hash64};
use folio_store::StoreError;
use folio_store::engine::{ItemWrite, ViewWrites, WriteTxn, Writes};
use folio_store::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRow, FactRow, IdRunRow, LogRow, PackRow, RunRow,
    ScrubRow, SegRow, SessionRow, SpanRow, StageRow, entry_checksum, event_checksum, item_checksum,
    pack_checksum, piece_checksum,
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
        Ok(done?)
    }
}

impl Txn<'_> {
    /// Whether a write failed: what was written so far must not be committed.
    pub fn has_failed(&self) -> bool {
        self.failed || self.conn.is_autocommit()
    }

    /// Runs a statement; answers how many rows it changed.
    pub(crate) fn run_sql(&self, sql: &str, params: impl Params) -> Result<usize, Error> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    fn put_all(&self, writes: &Writes) -> Result<(), Error> {
        for what in &writes.erase {
            self.erase(what)?;
        }
        if let Some(counters) = writes.counters {
            self.run_sql(sql::PUT_META, ("counters", encode_counters(counters)))?;
        }
        for row in &writes.sessions {
            self.put_session(row)?;
        }
        if let Some(log) = &writes.log {
            self.put_log(log)?;
        }
        self.put_rows_of_log(writes)?;
        self.put_contributions(writes)?;
        self.put_blobs(writes)?;
        if let Some(view) = &writes.view {
            self.put_view(view)?;
        }
        for row in &writes.scrubs {
            self.put_scrub(row)?;
        }
        if let Some(row) = &writes.commit {
            self.put_commit(row)?;
        }
        Ok(())
    }

    fn put_rows_of_log(&self, writes: &Writes) -> Result<(), Error> {
        let Some(log) = &writes.log else {
            let none = writes.spans.is_empty()
                && writes.runs.is_empty()
                && writes.events.is_empty()
                && writes.redacted.is_empty()
                && writes.citations.is_empty()
                && writes.packs.is_empty()
                && writes.id_runs.is_empty()
                && writes.pack_ids.is_empty()
                && writes.items.is_empty()
                && writes.segs.is_empty();
            return if none {
                Ok(())
            } else {
                let (rows, owner) = ("rows of a log", "log");
                Err(Error::Ownerless { rows, owner })
            };
        };
        for span in &writes.spans {
            self.put_span(span)?;
        }
        for run in &writes.runs {
            self.put_run(log.log_no, run)?;
        }
        for (event, hash) in &writes.events {
            self.insert_event(log, event, *hash)?;
        }
        for event in &writes.redacted {
            self.replace_event(log.log_no, event)?;
        }
        for (ordinal, sha) in &writes.citations {
            self.put_citation(log.log_no, *ordinal, sha)?;
        }
        self.put_items(log.index_no, &writes.items)?;
        for seg in &writes.segs {
            self.put_seg(log.index_no, seg)?;
        }
        for pack in &writes.packs {
            self.put_pack(log.log_no, pack)?;
        }
        for run in &writes.id_runs {
            self.put_id_run(log.log_no, run)?;
        }
        for (hash, ordinal) in &writes.pack_ids {
            let id = [log.family, *hash, log.log_no, *ordinal].map(u64::cast_signed);
            self.run_sql(sql::PUT_PACK_ID, id)?;
        }
        Ok(())
    }

    fn put_contributions(&self, writes: &Writes) -> Result<(), Error> {
        for (row, facts) in &writes.contributions {
            self.put_contrib_log(row)?;
            for fact in facts {
                self.insert_fact(row.contrib_no, fact)?;
            }
        }
        for (contrib_no, fact) in &writes.redacted_facts {
            self.replace_fact(*contrib_no, fact)?;
        }
        Ok(())
    }

    fn put_blobs(&self, writes: &Writes) -> Result<(), Error> {
        for row in &writes.blobs {
            self.put_blob(row)?;
        }
        for row in &writes.stages {
            self.put_stage(row)?;
        }
        for (blob_no, piece, content) in &writes.pieces {
            let key = keys::piece(*blob_no, *piece)?;
            let sum = piece_checksum(*blob_no, *piece, content).cast_signed();
            self.run_sql(sql::PUT_PIECE, (key, sum, content))?;
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
                row.lease_holder,
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
            row.sources,
            tail,
            row.checksum().cast_signed(),
        ];
        if self.run_sql(sql::UPDATE_LOG, columns)? == 0 {
            self.run_sql(sql::INSERT_LOG, columns)?;
        }
        Ok(())
    }

    fn put_span(&self, row: &SpanRow) -> Result<(), Error> {
        self.run_sql(
            sql::PUT_SPAN,
            params![
                keys::fits("log number", row.log_no, keys::MAX_LOG)?,
                keys::fits("ordinal", row.upto, keys::MAX_ORDINAL)?,
                keys::fits("log number", row.src, keys::MAX_LOG)?,
                row.runs,
                row.checksum().cast_signed(),
            ],
        )
        .map(drop)
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

    /// Puts an event in the place of one that is there, under the same id.
    fn replace_event(&self, log_no: u64, row: &EventRow) -> Result<(), Error> {
        let packed = row.pack();
        let sum = event_checksum(log_no, row.ordinal, &packed).cast_signed();
        let k = keys::event(log_no, row.ordinal)?;
        if self.run_sql(sql::REPLACE_EVENT, params![k, sum, packed])? == 0 {
            return Err(Error::Missing {
                table: "events",
                key: format!("log {log_no}, event {}", row.ordinal),
            });
        }
        Ok(())
    }

    fn put_citation(&self, log_no: u64, ordinal: u64, sha: &Digest) -> Result<(), Error> {
        let log_no = log_no.cast_signed();
        let ordinal = keys::fits("ordinal", ordinal, keys::MAX_ORDINAL)?;
        self.run_sql(sql::PUT_CITATION, (&sha[..], log_no, ordinal))
            .map(drop)
    }

    fn put_items(&self, index_no: u64, writes: &[ItemWrite]) -> Result<(), Error> {
        if writes.is_empty() {
            return Ok(());
        }
        let mut keys = Vec::with_capacity(writes.len());
        let mut put = self.conn.prepare_cached(sql::PUT_ITEM)?;
        for ItemWrite { item, is_new } in writes {
            let p = keys::item(index_no, item.position)?;
            let packed = encode_item(item);
            let sum = item_checksum(index_no, item.position, &packed).cast_signed();
            put.execute(params![p, sum, packed])?;
            if *is_new {
                keys.push((hash64(item.base().as_bytes()).cast_signed(), p));
            }
        }
        // In the order in which they stand: those of one page come together.
        keys.sort_unstable();
        let mut put = self.conn.prepare_cached(sql::PUT_ITEM_KEY)?;
        for (hash, p) in keys {
            put.execute((index_no.cast_signed(), hash, p))?;
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

    fn put_pack(&self, log_no: u64, row: &PackRow) -> Result<(), Error> {
        let packed = row.pack();
        let sum = pack_checksum(log_no, row.first, &packed).cast_signed();
        let k = keys::event(log_no, row.first)?;
        self.run_sql(sql::PUT_PACK, params![k, sum, packed])
            .map(drop)
    }

    fn put_id_run(&self, log_no: u64, row: &IdRunRow) -> Result<(), Error> {
        let sum = row.checksum(log_no);
        let [log_no, first, pack, sum] = [log_no, row.first, row.pack, sum].map(u64::cast_signed);
        self.run_sql(
            sql::PUT_ID_RUN,
            params![log_no, row.stem, first, row.n, pack, sum],
        )
        .map(drop)
    }

    fn put_commit(&self, row: &CommitRow) -> Result<(), Error> {
        // Read in the order of signed numbers.
        let seq = keys::fits("number of a commit", row.seq, i64::MAX.cast_unsigned())?;
        let sum = row.checksum().cast_signed();
        self.run_sql(sql::PUT_COMMIT, params![seq, sum, row.body])
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
                row.withheld.as_ref().map(|digest| &digest[..]),
                row.checksum(contrib_no).cast_signed(),
            ],
        )?;
        self.run_sql(sql::INSERT_FACT_PLACE, (c, anchor, seq))?;
        let hash = hash64(row.id.as_bytes()).cast_signed();
        self.run_sql(sql::INSERT_FACT_ID, (c, hash, seq)).map(drop)
    }

    /// Puts a fact in the place of one that is there.
    fn replace_fact(&self, contrib_no: u64, row: &FactRow) -> Result<(), Error> {
        let replaced = self.run_sql(
            sql::REPLACE_FACT,
            params![
                keys::event(contrib_no, row.seq)?,
                row.anchor.cast_signed(),
                row.id,
                &row.chain[..],
                row.body,
                row.withheld.as_ref().map(|digest| &digest[..]),
                row.checksum(contrib_no).cast_signed(),
            ],
        )?;
        if replaced == 0 {
            return Err(Error::Missing {
                table: "contrib_facts",
                key: format!("contribution log {contrib_no}, fact {}", row.seq),
            });
        }
        Ok(())
    }

    fn put_blob(&self, row: &BlobRow) -> Result<(), Error> {
        self.run_sql(
            sql::PUT_BLOB,
            params![
                &row.sha[..],
                keys::fits("blob number", row.blob_no, keys::MAX_BLOB)?,
                row.len.cast_signed(),
                row.stager.cast_signed(),
                row.checksum().cast_signed(),
            ],
        )
        .map(drop)
    }

    fn put_stage(&self, row: &StageRow) -> Result<(), Error> {
        let blob_no = keys::fits("blob number", row.blob_no, keys::MAX_BLOB)?;
        let [stager, sum] = [row.stager, row.checksum()].map(u64::cast_signed);
        self.run_sql(sql::PUT_STAGE, [blob_no, stager, sum])
            .map(drop)
    }

    fn put_view(&self, writes: &ViewWrites) -> Result<(), Error> {
        let ViewWrites {
            view,
            log_no,
            mark,
            entries,
        } = writes;
        let number = view.view_no.cast_signed();
        let log = log_no.cast_signed();
        let sum = view.checksum().cast_signed();
        self.run_sql(sql::PUT_VIEW, params![number, view.name, view.version, sum])?;
        for (key, value) in entries {
            match value {
                Some(value) => {
                    let sum = entry_checksum(view.view_no, *log_no, key, value).cast_signed();
                    self.run_sql(sql::PUT_ENTRY, params![number, key, log, value, sum])?;
                }
                None => drop(self.run_sql(sql::DROP_ENTRY, params![number, key])?),
            }
        }
        let sum = mark_checksum(view.view_no, *log_no, *mark).cast_signed();
        self.run_sql(sql::PUT_VIEW_MARK, [number, log, mark.cast_signed(), sum])
            .map(drop)
    }

    fn put_scrub(&self, row: &ScrubRow) -> Result<(), Error> {
        // Read in the order of signed numbers.
        let seq = keys::fits("number of an erasure", row.seq, i64::MAX.cast_unsigned())?;
        let [log_no, since, sum] = [row.log_no, row.since, row.checksum()].map(u64::cast_signed);
        self.run_sql(sql::PUT_SCRUB, [seq, log_no, since, sum])
            .map(drop)
    }
}
