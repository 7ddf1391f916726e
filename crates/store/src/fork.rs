//! Forks: a session that reads another one's events up to an ordinal and
//! writes a log of its own behind them.

use crate::care::{items_at, tail_at};
use crate::engine::{Snapshot, WriteTxn, Writes};
use crate::line::{Line, first_at};
use crate::page::{info, readable};
use crate::port::{MAX_SPANS, SessionInfo};
use crate::rows::{LogRow, SessionRow, SpanRow};
use crate::{ErrorKind, StoreError};
use folio_codec::EMPTY_CHAIN;
use folio_core::{Authority, Direction, PROJECTION_VERSION, SessionId};

/// What makes the child.
struct Plan {
    log: LogRow,
    spans: Vec<SpanRow>,
}

/// Creates a session that shares its parent's events up to an ordinal.
pub(crate) fn fork(
    txn: &mut dyn WriteTxn,
    parent: &SessionId,
    at: u64,
    child: &SessionId,
    now: u64,
    random: u64,
) -> Result<SessionInfo, StoreError> {
    if txn.session(child.as_str())?.is_some() {
        return Err(StoreError::session_exists(child));
    }
    let mut counters = txn.counters()?;
    counters.session_no += 1;
    counters.log_no += 1;
    counters.index_no += 1;
    let plan = plan(txn, parent, at, counters.log_no, counters.index_no)?;
    let session = SessionRow {
        session_no: counters.session_no,
        session_id: child.clone(),
        log_no: counters.log_no,
        incarnation: random,
        generation: 0,
        authority: Authority::RuntimeEvents,
        authority_rev: 1,
        followed: false,
        import_ref: None,
        lease_owner: 0,
        lease_epoch: 0,
        lease_holder: String::new(),
        created_at: now,
    };
    txn.apply(&Writes {
        counters: Some(counters),
        sessions: vec![session.clone()],
        log: Some(plan.log),
        spans: plan.spans,
        ..Writes::default()
    })?;
    let (session, line) = crate::plan::session_line(txn, child.as_str())?;
    info(&session, &line)
}

fn plan(
    snapshot: &dyn Snapshot,
    parent: &SessionId,
    at: u64,
    log_no: u64,
    index_no: u64,
) -> Result<Plan, StoreError> {
    let (_, line) = readable(snapshot, parent.as_str())?;
    let head = line.log.head;
    if at > head {
        let message = format!("session {parent} has {head} events; there is no {at}");
        return Err(StoreError::invalid("watermark_unknown", message).at(vec![head]));
    }
    let runs = line.runs_at(at)?;
    let spans: Vec<_> = line.spans_at(at, log_no, runs).collect();
    if spans.len() > MAX_SPANS {
        let message = format!(
            "session {parent} is a fork of forks, {MAX_SPANS} deep: fork one that stands nearer \
             to the beginning, or copy it"
        );
        return Err(StoreError::invalid("fork_too_deep", message));
    }
    // Without an index that this build made the child begins without one too.
    let (index_head, version) = line.index_state(at)?;
    let indexed = version == PROJECTION_VERSION && index_head >= at;
    let tail = tail_at(&line, at)?;
    let log = LogRow {
        log_no,
        family: line.log.family,
        head: at,
        base: at,
        chain: if at == 0 {
            EMPTY_CHAIN
        } else {
            line.event(at)?.chain
        },
        drained_seq: 0,
        runs,
        index_no,
        index_version: if indexed { PROJECTION_VERSION } else { 0 },
        index_head: if indexed { at } else { 0 },
        items: if indexed { items_until(&line, at)? } else { 0 },
        // Contributions stay with the parent.
        sources: 0,
        tail,
    };
    Ok(Plan { log, spans })
}

/// The number of items up to an ordinal. Items are numbered without gaps, so
/// a row that was lost there shows; the child would never miss it.
fn items_until(line: &Line<'_>, at: u64) -> Result<u64, StoreError> {
    let items = items_at(line, at)?;
    let beyond = line.items(first_at(at.saturating_add(1)), Direction::Newer, 1)?;
    let next = beyond
        .first()
        .map_or(line.log.items + 1, |item| item.number);
    if items + 1 != next {
        let message = format!(
            "the index of log {} has lost rows near ordinal {at}: rebuild it, then fork",
            line.log.log_no
        );
        return Err(StoreError::corrupt("index_damaged", message));
    }
    Ok(items)
}

impl StoreError {
    /// A session of this id is there already.
    pub(crate) fn session_exists(id: &SessionId) -> Self {
        let message = format!("session {id} exists");
        Self::new(ErrorKind::Conflict, "session_exists", message)
    }
}
