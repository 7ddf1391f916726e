//! Sessions and their events.

use super::{Embedded, MAX_LISTED};
use crate::engine::{Engine, Snapshot, Writes};
use crate::line::Line;
use crate::member;
use crate::packing::Packing;
use crate::page::{info, stored};
use crate::plan::{fetch, log_written_by, needs, plan, prepare, session_and_log, session_line};
use crate::port::{
    AppendBatch, AuthorityChange, BlobId, Committed, Flush, KnownEvent, Ledger, NewSession,
    RangeQuery, Room, SessionFilter, SessionInfo, StoredEvent,
};
use crate::rows::{FoundEvent, LogRow, RunRow, SessionRow};
use crate::{ErrorKind, StoreError};
use async_trait::async_trait;
use folio_codec::EMPTY_CHAIN;
use folio_core::assign::Tail;
use folio_core::{Authority, EventId, PROJECTION_VERSION, SessionId};
use std::collections::HashMap;
use std::time::Duration;

pub(super) fn authority_changed(session: &SessionRow) -> StoreError {
    let message = format!(
        "session {} is {} at revision {}: read it again and decide anew",
        session.session_id,
        session.authority.as_str(),
        session.authority_rev
    );
    StoreError::new(ErrorKind::Conflict, "authority_changed", message)
}

fn no_transition(session: &SessionRow, to: &str) -> StoreError {
    let message = format!(
        "session {} is {} and cannot become {to}",
        session.session_id,
        session.authority.as_str()
    );
    StoreError::invalid("authority_transition", message)
}

#[async_trait]
impl<E: Engine> Ledger for Embedded<E> {
    async fn create_session(&self, session: NewSession) -> Result<SessionInfo, StoreError> {
        let decide = move |snapshot: &dyn Snapshot, engine: &Packing<E>| {
            create(snapshot, &session, engine.now(), engine.random())
        };
        self.writer.decide(None, 0, Duration::ZERO, decide).await
    }

    async fn session(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        self.read(|snapshot| {
            let (session, line) = session_line(snapshot, id.as_str())?;
            info(&session, &line)
        })
    }

    async fn sessions(
        &self,
        filter: SessionFilter,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let limit = limit.min(MAX_LISTED);
        self.read(|snapshot| {
            let mut out = Vec::new();
            let mut after = after.as_ref().map(|id| id.as_str().to_owned());
            while out.len() < limit {
                let rows = snapshot.sessions(after.as_deref(), limit)?;
                let full = rows.len() == limit;
                after = rows.last().map(|row| row.session_id.as_str().to_owned());
                for row in rows {
                    let listed =
                        filter == SessionFilter::All || row.authority == Authority::RuntimeEvents;
                    if listed && out.len() < limit {
                        let log = log_written_by(snapshot, &row)?;
                        out.push(info(&row, &Line::new(snapshot, log)?)?);
                    }
                }
                if !full {
                    break;
                }
            }
            Ok(out)
        })
    }

    async fn set_authority(
        &self,
        id: &SessionId,
        change: AuthorityChange,
    ) -> Result<SessionInfo, StoreError> {
        let id = id.clone();
        self.write(move |txn, _| {
            let (mut session, _) = session_and_log(txn, id.as_str())?;
            if session.authority_rev != change.expected_rev {
                return Err(authority_changed(&session));
            }
            if !session.authority.may_become(change.to) {
                return Err(no_transition(&session, change.to.as_str()));
            }
            session.authority = change.to;
            session.authority_rev += 1;
            if let Some(import_ref) = &change.import_ref {
                session.import_ref = (!import_ref.is_empty()).then(|| import_ref.clone());
            }
            txn.apply(&Writes {
                sessions: vec![session.clone()],
                ..Writes::default()
            })?;
            let (session, line) = session_line(txn, id.as_str())?;
            info(&session, &line)
        })
        .await
    }

    async fn discard_session(&self, id: &SessionId, expected_rev: u64) -> Result<(), StoreError> {
        self.delete(id, move |session| {
            if session.authority_rev != expected_rev {
                return Err(authority_changed(session));
            }
            if session.authority == Authority::RuntimeEvents {
                return Err(no_transition(session, "discarded"));
            }
            Ok(())
        })
        .await
    }

    async fn append(&self, id: &SessionId, batch: AppendBatch) -> Result<Committed, StoreError> {
        let room = self.writer.try_reserve(batch.bytes())?;
        self.append_reserved(room, id, batch).await
    }

    async fn reserve(&self, bytes: usize) -> Result<Room, StoreError> {
        self.writer.reserve(bytes).await
    }

    async fn append_reserved(
        &self,
        room: Room,
        id: &SessionId,
        batch: AppendBatch,
    ) -> Result<Committed, StoreError> {
        let bytes = batch.bytes();
        if bytes > room.bytes() {
            let message = format!("a batch of {bytes} bytes in the room of {}", room.bytes());
            return Err(StoreError::invalid("room_exceeded", message));
        }
        let id = id.clone();
        let window = match batch.flush {
            Flush::Now => Duration::ZERO,
            Flush::Within(window) => window,
        };
        // Content does not change under its address, so it is looked at here
        // and not while others wait for the writer.
        let mut batch = batch;
        let mut unseen = Vec::new();
        for event in &mut batch.events {
            let read = |id: &BlobId, at| self.read(|snapshot| member::slice(snapshot, id, at));
            unseen.extend(member::check(event, read)?);
        }
        let mut batch = prepare(&id, batch)?;
        batch.unseen = unseen;
        let decide = move |snapshot: &dyn Snapshot, engine: &Packing<E>| {
            let needs = needs(&batch);
            let is_alive = |owner| engine.is_alive(owner);
            let found = fetch(snapshot, id.as_str(), &batch, needs, &is_alive)?;
            let plan = plan(found, batch, engine.now())?;
            Ok((plan.committed, plan.writes))
        };
        self.writer.decide(Some(room), bytes, window, decide).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.writer.alone(|_| Ok(())).await
    }

    async fn lookup_ids(
        &self,
        id: &SessionId,
        ids: &[EventId],
    ) -> Result<Vec<Option<KnownEvent>>, StoreError> {
        // An answer must hold: the outcome of a failed commit is decided first.
        self.engine.settle()?;
        self.read(|snapshot| {
            let (_, line) = session_line(snapshot, id.as_str())?;
            ids.iter()
                .map(|id| crate::plan::lookup(&line, id.as_str()))
                .collect()
        })
    }

    async fn range(
        &self,
        id: &SessionId,
        query: RangeQuery,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.read(|snapshot| {
            let (_, line) = session_line(snapshot, id.as_str())?;
            let (from, to) = (query.from.max(1), query.to.min(line.log.head));
            if from > to {
                return Ok(Vec::new());
            }
            let found = line.events(from, to, query.max_count, query.max_bytes)?;
            if found.is_empty() && query.max_count > 0 {
                return Err(StoreError::gap(vec![from]));
            }
            let mut found = without_gaps(found, from);
            // Where it ended before a limit did, the rest is missing.
            if let Some(last) = found.last().map(FoundEvent::ordinal)
                && last < to
                && found.len() < query.max_count
                && line.events(last + 1, to, 1, usize::MAX)?.is_empty()
            {
                let missing = last + 1..=to.min(last.saturating_add(MAX_NAMED));
                found.extend(missing.map(|ordinal| FoundEvent::Damaged { ordinal }));
            }
            whole(&line, found)
        })
    }

    async fn events(
        &self,
        id: &SessionId,
        ordinals: &[u64],
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.read(|snapshot| {
            let (_, line) = session_line(snapshot, id.as_str())?;
            let mut found = Vec::with_capacity(ordinals.len());
            for ordinal in ordinals {
                let row = line.events(*ordinal, *ordinal, 1, usize::MAX)?;
                found.push(
                    row.into_iter()
                        .next()
                        .unwrap_or(FoundEvent::Damaged { ordinal: *ordinal }),
                );
            }
            whole(&line, found)
        })
    }

    async fn runs(
        &self,
        id: &SessionId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<RunRow>, StoreError> {
        self.read(|snapshot| {
            let (_, line) = session_line(snapshot, id.as_str())?;
            line.runs(after, limit.min(MAX_LISTED))
        })
    }

    async fn wait(&self, id: &SessionId, after: u64) -> Result<u64, StoreError> {
        let (mut commits, _waiting) = self.watch.listen()?;
        let mut life = None;
        loop {
            commits.borrow_and_update();
            if self.watch.is_stopped() {
                return Err(StoreError::closed());
            }
            let (session, log) = self.read(|snapshot| session_and_log(snapshot, id.as_str()))?;
            let head = log.head;
            // Deleted and created again, it is another session.
            if *life.get_or_insert(session.incarnation) != session.incarnation {
                return Err(StoreError::no_session(id.as_str()));
            }
            if head > after {
                return Ok(head);
            }
            commits.changed().await.map_err(|_| StoreError::closed())?;
        }
    }
}

/// The most missing ordinals that one answer names.
const MAX_NAMED: u64 = 1_000;

/// A range in which every row that is passed over stands as a damaged one.
fn without_gaps(found: Vec<FoundEvent>, from: u64) -> Vec<FoundEvent> {
    let mut out = Vec::with_capacity(found.len());
    let mut next = from;
    for found in found {
        let ordinal = found.ordinal();
        let missing = next..ordinal.min(next.saturating_add(MAX_NAMED));
        out.extend(missing.map(|ordinal| FoundEvent::Damaged { ordinal }));
        next = ordinal + 1;
        out.push(found);
    }
    out
}

/// The rows as events, or the ordinals of those that are damaged.
fn whole(line: &Line<'_>, found: Vec<FoundEvent>) -> Result<Vec<StoredEvent>, StoreError> {
    let mut spines = HashMap::new();
    let mut events = Vec::with_capacity(found.len());
    let mut missing = Vec::new();
    for found in found {
        match found {
            FoundEvent::Whole(row) => {
                let spine = line.spine(&mut spines, row.run_no)?;
                events.push(stored(row, &spine));
            }
            FoundEvent::Damaged { ordinal } => missing.push(ordinal),
        }
    }
    if missing.is_empty() {
        Ok(events)
    } else {
        Err(StoreError::gap(missing))
    }
}

/// A session with its log and an empty index.
fn create(
    snapshot: &dyn Snapshot,
    new: &NewSession,
    now: u64,
    random: u64,
) -> Result<(SessionInfo, Option<Writes>), StoreError> {
    if snapshot.session(new.id.as_str())?.is_some() {
        return Err(StoreError::session_exists(&new.id));
    }
    if new.authority == Authority::Rejected {
        return Err(StoreError::invalid(
            "authority_transition",
            "a session is rejected by its import, it cannot begin so",
        ));
    }
    let mut counters = snapshot.counters()?;
    counters.session_no += 1;
    counters.log_no += 1;
    counters.index_no += 1;
    let session = SessionRow {
        session_no: counters.session_no,
        session_id: new.id.clone(),
        log_no: counters.log_no,
        incarnation: random,
        generation: 0,
        authority: new.authority,
        authority_rev: 1,
        followed: new.followed,
        import_ref: new.import_ref.clone(),
        lease_owner: 0,
        lease_epoch: 0,
        lease_holder: String::new(),
        created_at: now,
    };
    let log = LogRow {
        log_no: counters.log_no,
        family: counters.log_no,
        head: 0,
        base: 0,
        chain: EMPTY_CHAIN,
        drained_seq: 0,
        runs: 0,
        index_no: counters.index_no,
        index_version: PROJECTION_VERSION,
        index_head: 0,
        items: 0,
        sources: 0,
        tail: Tail::default(),
    };
    let writes = Writes {
        counters: Some(counters),
        sessions: vec![session.clone()],
        log: Some(log.clone()),
        ..Writes::default()
    };
    let created = info(&session, &Line::new(snapshot, log)?)?;
    Ok((created, Some(writes)))
}
