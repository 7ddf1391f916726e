//! Contribution logs and what is listed of them.
//!
//! Most sessions have none and a listing may well be empty, so a row that was
//! lost would pass for one that never was. The log's row counts its
//! contribution logs, and each of these its facts; what is found is compared
//! with that.

use crate::StoreError;
use crate::embedded::MAX_LISTED;
use crate::engine::Snapshot;
use crate::port::{ContributionQuery, StoredFact};
use crate::rows::{ContribLogRow, LogRow};

/// All contribution logs of a session's log.
///
/// # Errors
/// `row_damaged` where there are more or fewer than were made.
pub(crate) fn logs(
    snapshot: &dyn Snapshot,
    log: &LogRow,
) -> Result<Vec<ContribLogRow>, StoreError> {
    let found = snapshot.contrib_logs(log.log_no)?;
    match miscount(log, &found) {
        None => Ok(found),
        Some(message) => Err(StoreError::corrupt("row_damaged", message)),
    }
}

/// A contribution log of a session's log.
///
/// # Errors
/// `row_damaged` where it is not found, and nor is each of the others: then it
/// may be the one that was lost.
pub(crate) fn log(
    snapshot: &dyn Snapshot,
    log: &LogRow,
    source: &str,
) -> Result<Option<ContribLogRow>, StoreError> {
    let found = snapshot.contrib_log(log.log_no, source)?;
    if found.is_none() {
        logs(snapshot, log)?;
    }
    Ok(found)
}

/// What is wrong with the contribution logs that were found of a log.
pub(crate) fn miscount(log: &LogRow, found: &[ContribLogRow]) -> Option<String> {
    let (made, found) = (log.sources as usize, found.len());
    (made != found).then(|| {
        format!(
            "contrib_logs, log {}: {found} rows are found of {made}; keep the files",
            log.log_no
        )
    })
}

/// Facts at a watermark, in the order of their anchors. Those above the
/// watermark are passed over, a bounded number at a time.
///
/// # Errors
/// `fact_missing` where a listing from one end to the other has more or fewer
/// than were written. One that begins or ends between them cannot know; who
/// walks by pages counts.
pub(crate) fn facts(
    snapshot: &dyn Snapshot,
    contrib: &ContribLogRow,
    query: &ContributionQuery,
) -> Result<Vec<StoredFact>, StoreError> {
    let limit = query.max_items.min(MAX_LISTED);
    let mut out = Vec::new();
    let mut after = query.after;
    let mut seen = 0;
    while out.len() < limit {
        let rows = snapshot.facts_by_anchor(contrib.contrib_no, after, query.direction, limit)?;
        let full = rows.len() == limit;
        seen += rows.len() as u64;
        after = rows.last().map(|row| (row.anchor, row.seq));
        let rows = rows.into_iter().filter(|row| row.seq <= query.through);
        out.extend(rows.map(|row| StoredFact {
            seq: row.seq,
            chain: row.chain,
            body: row.body,
            withheld: row.withheld,
        }));
        if !full {
            if query.after.is_none() && seen != contrib.head {
                return Err(StoreError::facts_missing(
                    &contrib.source,
                    seen,
                    contrib.head,
                ));
            }
            break;
        }
    }
    out.truncate(limit);
    Ok(out)
}
