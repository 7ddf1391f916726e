//! Views: versioned key spaces, each with a mark for every session.

use crate::engine::{Erase, Snapshot, ViewWrites, WriteTxn, Writes};
use crate::page::readable;
use crate::plan::session_and_log;
use crate::port::{MAX_BATCH_BYTES, MAX_VIEW_KEY, ViewBatch, ViewQuery};
use crate::rows::{ViewEntry, ViewRow};
use crate::{ErrorKind, StoreError};
use folio_core::SessionId;

/// The longest name of a view, in bytes.
const MAX_NAME: usize = 64;

/// Whether one call may write so much.
pub(crate) fn check(batch: &ViewBatch) -> Result<(), StoreError> {
    let limit = |what: &str, most: usize| {
        let message = format!("{what} of view {:?}; {most} bytes is the most", batch.view);
        Err(StoreError::invalid("limit_exceeded", message))
    };
    if batch.view.is_empty() || batch.view.len() > MAX_NAME {
        return limit("the name", MAX_NAME);
    }
    if batch
        .entries
        .iter()
        .any(|(key, _)| key.len() > MAX_VIEW_KEY)
    {
        return limit("a key", MAX_VIEW_KEY);
    }
    let bytes: usize = batch
        .entries
        .iter()
        .map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len))
        .sum();
    if bytes > MAX_BATCH_BYTES {
        return limit("a batch", MAX_BATCH_BYTES);
    }
    if batch.from > batch.to {
        let message = format!("the mark of view {:?} cannot go back", batch.view);
        return Err(StoreError::invalid("watermark_unknown", message));
    }
    Ok(())
}

/// Writes entries and moves the mark.
pub(crate) fn put(txn: &mut dyn WriteTxn, batch: &ViewBatch) -> Result<(), StoreError> {
    let (_, line) = readable(txn, batch.session.as_str())?;
    let (log_no, head) = (line.log.log_no, line.log.head);
    if batch.to > head {
        let message = format!("session {} has {head} events", batch.session);
        return Err(StoreError::invalid("watermark_unknown", message).at(vec![head]));
    }
    let stored = txn.view(&batch.view)?;
    let mut writes = Writes::default();
    let (view, mark) = match stored {
        Some(view) if view.version == batch.version => {
            let mark = txn.view_mark(view.view_no, log_no)?;
            (view, mark)
        }
        Some(view) if view.version > batch.version => {
            let message = format!(
                "view {:?} has version {}; version {} is older: leave it to the newer program",
                batch.view, view.version, batch.version
            );
            return Err(StoreError::new(
                ErrorKind::Conflict,
                "view_version",
                message,
            ));
        }
        older => {
            let mut counters = txn.counters()?;
            counters.view_no += 1;
            writes.counters = Some(counters);
            writes.erase = older.map(Erase::View).into_iter().collect();
            let view = ViewRow {
                view_no: counters.view_no,
                name: batch.view.clone(),
                version: batch.version,
            };
            (view, 0)
        }
    };
    if mark != batch.from {
        let message = format!(
            "view {:?} has seen session {} up to {mark}, not {}: go on from there",
            batch.view, batch.session, batch.from
        );
        return Err(
            StoreError::new(ErrorKind::Conflict, "view_moved", message).at(vec![batch.from, mark])
        );
    }
    writes.view = Some(ViewWrites {
        view,
        log_no,
        mark: batch.to,
        entries: batch.entries.clone(),
    });
    txn.apply(&writes)
}

/// A view, if it has the version that the reader understands.
fn of_version(
    snapshot: &dyn Snapshot,
    name: &str,
    version: u32,
) -> Result<Option<u64>, StoreError> {
    let view = snapshot.view(name)?;
    Ok(view
        .filter(|view| view.version == version)
        .map(|view| view.view_no))
}

/// The value of a key.
pub(crate) fn value(
    snapshot: &dyn Snapshot,
    name: &str,
    version: u32,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    match of_version(snapshot, name, version)? {
        Some(view_no) => snapshot.view_value(view_no, key),
        None => Ok(None),
    }
}

/// Entries in the order of their keys.
pub(crate) fn entries(
    snapshot: &dyn Snapshot,
    query: &ViewQuery,
    most: usize,
) -> Result<Vec<ViewEntry>, StoreError> {
    let Some(view_no) = of_version(snapshot, &query.view, query.version)? else {
        return Ok(Vec::new());
    };
    let limit = query.limit.min(most);
    snapshot.view_entries(
        view_no,
        &query.from,
        query.to.as_deref(),
        query.direction,
        limit,
    )
}

/// How far a view has seen a session.
pub(crate) fn mark(
    snapshot: &dyn Snapshot,
    name: &str,
    version: u32,
    session: &SessionId,
) -> Result<u64, StoreError> {
    let (_, log) = session_and_log(snapshot, session.as_str())?;
    match of_version(snapshot, name, version)? {
        Some(view_no) => snapshot.view_mark(view_no, log.log_no),
        None => Ok(0),
    }
}

/// Drops a view.
pub(crate) fn drop_view(txn: &mut dyn WriteTxn, name: &str) -> Result<(), StoreError> {
    let Some(view) = txn.view(name)? else {
        return Ok(());
    };
    txn.apply(&Writes {
        erase: vec![Erase::View(view)],
        ..Writes::default()
    })
}
