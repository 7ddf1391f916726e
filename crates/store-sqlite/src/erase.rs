//! Removals. None of the rows has to exist, and none of a neighbour goes.

use crate::error::Error;
use crate::reader::{Txn, item};
use crate::{keys, sql};
use folio_codec::hash64;
use folio_core::{Direction, Position};
use folio_store::engine::Erase;
use std::collections::BTreeSet;

impl Txn<'_> {
    /// Removes what is named.
    pub fn erase(&self, what: &Erase) -> Result<(), Error> {
        match what {
            Erase::Session(row) => self.run_sql(sql::DROP_SESSION, [row.session_no.cast_signed()]),
            Erase::Events {
                log_no,
                family,
                events,
            } => return self.erase_events(*log_no, *family, events),
            Erase::Citations { log_no, ordinals } => {
                for ordinal in ordinals {
                    self.run_sql(
                        sql::DROP_CITATIONS,
                        (log_no.cast_signed(), ordinal.cast_signed()),
                    )?;
                }
                return Ok(());
            }
            Erase::Packs {
                log_no,
                family,
                packs,
                id_runs,
                ids,
            } => {
                for first in packs {
                    if let Ok(key) = keys::event(*log_no, *first) {
                        self.run_sql(sql::DROP_PACK, [key])?;
                    }
                }
                let log = log_no.cast_signed();
                for (stem, first) in id_runs {
                    self.run_sql(sql::DROP_ID_RUN, (log, stem, first.cast_signed()))?;
                }
                for (hash, ordinal) in ids {
                    let id = [*family, *hash, *log_no, *ordinal].map(u64::cast_signed);
                    self.run_sql(sql::DROP_EVENT_ID, id)?;
                }
                return Ok(());
            }
            Erase::Commits(through) => self.run_sql(sql::DROP_COMMITS, [keys::clamped(*through)]),
            Erase::Runs { log_no, above } => {
                self.run_sql(sql::DROP_RUNS, (log_no.cast_signed(), above))
            }
            Erase::Items { index_no, from } => return self.erase_items(*index_no, *from),
            Erase::Index(index_no) => {
                self.erase_range(&sql::DROP_ITEMS, keys::items(*index_no))?;
                self.run_sql(sql::DROP_ITEM_KEYS, [index_no.cast_signed()])
            }
            Erase::Contributions(row) => {
                let facts = keys::events(row.contrib_no, 0, u64::MAX);
                self.erase_range(&[sql::DROP_FACTS], facts)?;
                return self.erase_all(&sql::DROP_CONTRIB, row.contrib_no);
            }
            Erase::Log(log_no) => return self.erase_all(&sql::DROP_LOG, *log_no),
            Erase::ViewEntries { log_no } => {
                let of_log = [sql::DROP_VIEW_ROWS_OF_LOG, sql::DROP_VIEW_MARKS_OF_LOG];
                return self.erase_all(&of_log, *log_no);
            }
            Erase::View(row) => return self.erase_all(&sql::DROP_VIEW, row.view_no),
            Erase::Blob(row) => {
                self.erase_range(&[sql::DROP_PIECES], keys::pieces(row.blob_no))?;
                self.run_sql(sql::DROP_BLOB, [&row.sha[..]])
            }
            Erase::Stage(row) => {
                self.erase_range(&[sql::DROP_PIECES], keys::pieces(row.blob_no))?;
                self.run_sql(sql::DROP_STAGE, [row.blob_no.cast_signed()])
            }
            Erase::StageRow(blob_no) => self.run_sql(sql::DROP_STAGE, [blob_no.cast_signed()]),
            Erase::Scrub(seq) => self.run_sql(sql::DROP_SCRUB, [seq.cast_signed()]),
        }
        .map(drop)
    }

    /// Statements that take a number.
    fn erase_all(&self, statements: &[&str], number: u64) -> Result<(), Error> {
        for sql in statements {
            self.run_sql(sql, [number.cast_signed()])?;
        }
        Ok(())
    }

    /// Statements that take a first and a last key.
    fn erase_range(&self, statements: &[&str], range: Option<(i64, i64)>) -> Result<(), Error> {
        let Some(range) = range else { return Ok(()) };
        for sql in statements {
            self.run_sql(sql, range)?;
        }
        Ok(())
    }

    fn erase_events(
        &self,
        log_no: u64,
        family: u64,
        events: &[(u64, Option<u64>)],
    ) -> Result<(), Error> {
        let [family, log] = [family, log_no].map(u64::cast_signed);
        let mut without_hash = BTreeSet::new();
        for (ordinal, hash) in events {
            let Ok(key) = keys::event(log_no, *ordinal) else {
                continue;
            };
            let place = ordinal.cast_signed();
            self.run_sql(sql::DROP_EVENT, [key])?;
            self.run_sql(sql::DROP_CITATIONS, (log, place))?;
            match hash {
                Some(hash) => {
                    let id = (family, hash.cast_signed(), log, place);
                    self.run_sql(sql::DROP_EVENT_ID, id)?;
                }
                None => drop(without_hash.insert(place)),
            }
        }
        let (Some(first), Some(last)) = (without_hash.first(), without_hash.last()) else {
            return Ok(());
        };
        // One pass for all of them.
        let bounds = (family, log, *first, *last);
        let found = self.all(sql::EVENT_IDS_BETWEEN, bounds, |columns| {
            Ok((columns.i64(0), columns.i64(1)))
        })?;
        for (hash, ordinal) in found {
            if ordinal.is_some_and(|ordinal| without_hash.contains(&ordinal)) {
                self.run_sql(sql::DROP_EVENT_ID, (family, hash, log, ordinal))?;
            }
        }
        Ok(())
    }

    /// The keys of items are ordered by their hashes, which the items tell.
    /// Where one is damaged, a pass over all keys of the index finds them.
    fn erase_items(&self, index_no: u64, from: u64) -> Result<(), Error> {
        let from = Position {
            ordinal: from,
            slot: 0,
        };
        let Some((low, high)) = keys::items_from(index_no, from, Direction::Newer) else {
            return Ok(());
        };
        let index = index_no.cast_signed();
        let found = self.all(sql::ITEM_RANGE, (low, high), |columns| {
            let hash = item(index_no, columns).map(|item| hash64(item.base().as_bytes()));
            Ok(columns.i64(0).zip(hash))
        })?;
        let mut by_a_pass = false;
        for key in found {
            let dropped = match key {
                Some((p, hash)) => {
                    self.run_sql(sql::DROP_ITEM_KEY, (index, hash.cast_signed(), p))?
                }
                None => 0,
            };
            by_a_pass |= dropped == 0;
        }
        if by_a_pass {
            self.run_sql(sql::DROP_ITEM_KEYS_BETWEEN, (index, low, high))?;
        }
        self.erase_range(&sql::DROP_ITEMS, Some((low, high)))
    }
}
