//! What `check` reads row by row: rows that no read of a session comes by, and
//! ids, which lead to an event or into a segment.

use crate::error::Error;
use crate::keys;
use crate::reader::{Txn, checked_entry, checked_id_run, pack};
use crate::sql;
use folio_store::StoreError;
use folio_store::engine::Snapshot;

impl Txn<'_> {
    /// Reads those rows; answers what is wrong with the ids.
    pub fn check_rows(&self) -> Result<Option<&'static str>, StoreError> {
        self.check_entries()?;
        self.check_id_runs()?;
        self.commits(0)?;
        let whole = self.ids_lead_somewhere()?;
        Ok((!whole).then_some("an event id leads to no event"))
    }

    /// Whether every entry of every view fits its checksum. An entry under a
    /// damaged key is not found when it is asked for, so that nothing else
    /// notices; `verify` looks at sessions, which views are no part of.
    fn check_entries(&self) -> Result<(), Error> {
        self.all(sql::ALL_ENTRIES, [], |columns| {
            checked_entry(columns.u64(4).unwrap_or_default(), columns).map(drop)
        })
        .map(drop)
    }

    /// Whether all ids that count fit their checksum. What a damaged stem or
    /// number hides is only not found.
    fn check_id_runs(&self) -> Result<(), Error> {
        self.all(sql::ALL_ID_RUNS, [], |columns| {
            let log_no = columns.u64(4).unwrap_or_default();
            let stem = columns.text(5).unwrap_or_default();
            checked_id_run(log_no, stem, columns).map(drop)
        })
        .map(drop)
    }

    /// Whether every id leads to an event, or to an ordinal that a segment of
    /// its log spans. Segments overlap, and only an opened one tells how far it
    /// reaches. An event that is lost between the chunks of one `verify` finds.
    fn ids_lead_somewhere(&self) -> Result<bool, Error> {
        let ids = self.all(sql::IDS_WITHOUT_EVENT, [], |columns| {
            Ok(columns.i64(0).unwrap_or_default())
        })?;
        let mut ids = ids.into_iter().peekable();
        // The last key that a segment spans, of those up to here.
        let mut reach = -1;
        let mut whole = true;
        self.each(sql::PACKS, (0, i64::MAX), |columns| {
            let key = columns.i64(0).unwrap_or_default();
            while let Some(id) = ids.next_if(|id| *id < key) {
                whole &= id <= reach;
            }
            let row = pack(key, columns).ok_or_else(|| damaged_pack(key))?;
            reach = reach.max(key.saturating_add_unsigned(row.last - row.first));
            Ok(())
        })?;
        Ok(whole && ids.all(|id| id <= reach))
    }
}

fn damaged_pack(key: i64) -> Error {
    let (log_no, first) = (key >> keys::ORDINAL_BITS, keys::ordinal_of(key));
    Error::damaged("segs", format!("log {log_no}, segment {first}"))
}
