//! Copying a session into another store.
//!
//! The copy is made hidden, as an import is: events, contributions and blobs
//! go over in batches, then both sides are compared, and only then may anybody
//! read it. What a killed copy leaves is found again by the mark that stands
//! in place of the session's `import_ref`; it names the life of the source, so
//! that nothing which was redacted meanwhile is taken up again.
//!
//! Events keep their ids, ordinals and chain. A fork becomes a session of its
//! own. What a store decides by itself is new: when an event was committed,
//! when the session was created, its incarnation and generation. Leases and
//! views stay behind.

use crate::port::{
    AppendBatch, AuthorityChange, BlobId, ContributionBatch, ContributionQuery, MAX_BATCH_BYTES,
    MAX_BATCH_EVENTS, MAX_BLOB_CALL, NewSession, RangeQuery, SessionInfo, Store, StoredEvent,
    StoredFact, Writer,
};
use crate::{ErrorKind, StoreError};
use folio_codec::Digest;
use folio_core::{Authority, CanonicalEvent, Direction, SessionId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often a session that does not stand still is looked at.
const MAX_LOOKS: usize = 100;
/// How often a copy begins when others are at the same session.
const MAX_TRIES: usize = 8;
/// Facts of one read.
const FACTS: usize = 500;
/// Bytes of a blob that are read at once.
const PIECE: usize = 4 << 20;
/// How the mark of a copy begins.
const MARK: &str = "{\"copy\":";

/// How to copy.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// The most events, or entries of other logs, of one batch.
    pub batch_count: usize,
    /// The most bytes of one batch; one larger event comes alone.
    pub batch_bytes: usize,
    /// Stops the copy between two batches once it is set.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            batch_count: 1_000,
            batch_bytes: 4 << 20,
            cancel: None,
        }
    }
}

/// What became of a session that was to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyOutcome {
    /// It is in the other store now.
    Copied,
    /// It was there already, the same in every event and contribution.
    Unchanged,
}

/// A copied session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// What became of it.
    pub outcome: CopyOutcome,
    /// Its events.
    pub events: u64,
    /// Of these: brought by an earlier copy that did not end.
    pub resumed: u64,
    /// The entries of its contribution logs.
    pub facts: u64,
    /// Blobs that the other store did not have.
    pub blobs: u64,
}

/// Copies a session from one store into another, where it must not exist yet.
///
/// A copy that failed or was killed leaves a hidden session in `to`; the same
/// call goes on from there. What is appended to the source meanwhile is not
/// copied.
///
/// # Errors
/// * `session_exists`: the other store has a session of this id that differs.
/// * `session_preparing`: the session, or another one of its id in `to`, is
///   not complete; `session_rejected`: it cannot be read.
/// * `copy_source_changed`: the source was redacted or replaced meanwhile, and
///   `copy_source_moving`: it never stood still.
/// * `copy_differs`: the two sides are not the same. Nothing of it is kept.
/// * `copy_stopped`: `cancel` was set.
/// * Those of reading the one store and of writing the other.
pub async fn copy_session(
    from: &dyn Store,
    to: &dyn Store,
    id: &SessionId,
    options: &CopyOptions,
) -> Result<CopyReport, StoreError> {
    let source = Source::of(from, id).await?;
    let staged = match source.stage(to).await? {
        Some(staged) => staged,
        None => return Ok(source.report(CopyOutcome::Unchanged, 0, 0)),
    };
    let mut copy = Copy {
        source: &source,
        to,
        options,
        blobs: 0,
    };
    copy.events(staged.head + 1).await?;
    copy.facts().await?;
    if let Err(error) = source.compare(to).await {
        // A copy that differs is not gone on with: the next one begins anew.
        if error.kind() == ErrorKind::Corrupt || error.code() == "copy_source_changed" {
            to.discard_session(id, staged.authority_rev).await?;
        }
        return Err(error);
    }
    let blobs = copy.blobs;
    let change = AuthorityChange {
        expected_rev: staged.authority_rev,
        to: Authority::RuntimeEvents,
        // In place of the mark.
        import_ref: Some(source.info.import_ref.clone().unwrap_or_default()),
    };
    match to.set_authority(id, change).await {
        Ok(_) => Ok(source.report(CopyOutcome::Copied, staged.head, blobs)),
        // Another copy of the same session was faster.
        Err(error) if error.code() == "authority_changed" => match source.stage(to).await? {
            None => Ok(source.report(CopyOutcome::Unchanged, 0, 0)),
            Some(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// A contribution log, as far as it is copied.
#[derive(Debug, PartialEq, Eq)]
struct Log {
    source: String,
    head: u64,
    chain: Digest,
}

/// A session at one moment: what is to be copied.
struct Source<'a> {
    store: &'a dyn Store,
    info: SessionInfo,
    logs: Vec<Log>,
}

/// The contribution logs of a session.
async fn logs(store: &dyn Store, id: &SessionId) -> Result<Vec<Log>, StoreError> {
    let mut logs = Vec::new();
    for source in store.contribution_sources(id).await? {
        let status = store.contribution_status(id, &source).await?;
        logs.push(Log {
            source,
            head: status.head,
            chain: status.chain,
        });
    }
    Ok(logs)
}

impl<'a> Source<'a> {
    /// The session as it stands. Events and their contributions are committed
    /// together and read one after the other, so it is looked at until it
    /// stands still in between.
    async fn of(store: &'a dyn Store, id: &SessionId) -> Result<Self, StoreError> {
        for _ in 0..MAX_LOOKS {
            let info = store.session(id).await?;
            match info.authority {
                Authority::RuntimeEvents => {}
                Authority::Preparing => return Err(preparing(id)),
                Authority::Rejected => {
                    let message = format!("session {id} was rejected by its import: leave it out");
                    let kind = ErrorKind::Conflict;
                    return Err(StoreError::new(kind, "session_rejected", message));
                }
            }
            let logs = logs(store, id).await?;
            if store.session(id).await? == info {
                return Ok(Self { store, info, logs });
            }
        }
        let message = format!("session {id} never stands still: copy it when its writer is done");
        let kind = ErrorKind::Conflict;
        Err(StoreError::new(kind, "copy_source_moving", message))
    }

    fn id(&self) -> &SessionId {
        &self.info.id
    }

    fn report(&self, outcome: CopyOutcome, resumed: u64, blobs: u64) -> CopyReport {
        CopyReport {
            outcome,
            events: self.info.head,
            resumed,
            facts: self.logs.iter().map(|log| log.head).sum(),
            blobs,
        }
    }

    /// What a hidden copy of this life of the session is known by.
    fn mark(&self) -> String {
        let SessionInfo {
            incarnation,
            generation,
            ..
        } = self.info;
        format!("{MARK}{{\"incarnation\":\"{incarnation:016x}\",\"generation\":{generation}}}}}")
    }

    /// The hidden session to fill, made or found again; `None` where the whole
    /// session is there already.
    async fn stage(&self, to: &dyn Store) -> Result<Option<SessionInfo>, StoreError> {
        let id = self.id();
        let mut tries = 1;
        loop {
            let tried = match to.session(id).await {
                Ok(found) => match found.authority {
                    Authority::RuntimeEvents if self.is_same(to, &found).await? => {
                        return Ok(None);
                    }
                    Authority::RuntimeEvents => return Err(self.exists(&found)),
                    Authority::Rejected => {
                        let message = format!(
                            "session {id} is in the other store, rejected by its import: delete \
                             it there first"
                        );
                        let kind = ErrorKind::Conflict;
                        return Err(StoreError::new(kind, "session_exists", message));
                    }
                    Authority::Preparing if self.goes_on(&found).await? => {
                        return Ok(Some(found));
                    }
                    Authority::Preparing if !is_copy(&found) => return Err(preparing(id)),
                    Authority::Preparing => to.discard_session(id, found.authority_rev).await,
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let session = NewSession {
                        id: id.clone(),
                        authority: Authority::Preparing,
                        followed: self.info.followed,
                        import_ref: Some(self.mark()),
                    };
                    match to.create_session(session).await {
                        Ok(staged) => return Ok(Some(staged)),
                        Err(error) => Err(error),
                    }
                }
                Err(error) => Err(error),
            };
            // Where another copy is at the same session, what it left is looked
            // at again.
            tries += 1;
            match tried {
                Ok(()) => {}
                Err(error)
                    if tries <= MAX_TRIES
                        && matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a hidden session is the beginning of this one.
    async fn goes_on(&self, staged: &SessionInfo) -> Result<bool, StoreError> {
        if staged.import_ref.as_deref() != Some(&self.mark()) || staged.head > self.info.head {
            return Ok(false);
        }
        if staged.head == 0 {
            return Ok(true);
        }
        // An older state of the source may have gone another way since.
        let events = self.store.events(self.id(), &[staged.head]).await?;
        Ok(events.first().and_then(|event| event.chain) == Some(staged.chain))
    }

    /// Whether a session of the other store is the same.
    async fn is_same(&self, to: &dyn Store, found: &SessionInfo) -> Result<bool, StoreError> {
        if (found.head, found.chain) != (self.info.head, self.info.chain)
            || logs(to, self.id()).await? != self.logs
        {
            return Ok(false);
        }
        // Chains do not tell what was redacted since.
        if found.generation == 0 && self.info.generation == 0 {
            return Ok(true);
        }
        let there = Source {
            store: to,
            info: found.clone(),
            logs: Vec::new(),
        };
        let mut next = 1;
        while next <= self.info.head {
            let (here, there) = (
                self.range(next, FACTS).await?,
                there.range(next, FACTS).await?,
            );
            for (here, there) in here.iter().zip(&there) {
                if here.view()?.withheld != there.view()?.withheld {
                    return Ok(false);
                }
                next = here.ordinal + 1;
            }
        }
        for log in &self.logs {
            let mut after = None;
            loop {
                let here = self.slice(log, after, FACTS).await?;
                let there = there.slice(log, after, FACTS).await?;
                let withheld = |facts: &[StoredFact]| -> Vec<_> {
                    facts.iter().map(|fact| fact.withheld).collect()
                };
                if withheld(&here) != withheld(&there) {
                    return Ok(false);
                }
                let Some(last) = here.last() else { break };
                after = Some((last.fact()?.anchor, last.seq));
            }
        }
        Ok(true)
    }

    fn exists(&self, found: &SessionInfo) -> StoreError {
        let message = format!(
            "session {} is in the other store with another content ({} events there, {} here): \
             delete it there first, or copy into another store",
            found.id, found.head, self.info.head
        );
        StoreError::new(ErrorKind::Conflict, "session_exists", message)
    }

    /// Events from an ordinal on; at least one.
    async fn range(&self, from: u64, count: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let query = RangeQuery {
            from,
            to: self.info.head,
            max_count: count,
            max_bytes: PIECE,
        };
        let events = self.store.range(self.id(), query).await?;
        match events.first() {
            Some(first) if first.ordinal == from => Ok(events),
            _ => Err(StoreError::gap(vec![from])),
        }
    }

    /// Facts behind a place, in the order of their anchors.
    async fn slice(
        &self,
        log: &Log,
        after: Option<(u64, u64)>,
        count: usize,
    ) -> Result<Vec<StoredFact>, StoreError> {
        let query = ContributionQuery {
            through: log.head,
            direction: Direction::Newer,
            after,
            max_items: count,
        };
        self.store
            .contributions(self.id(), &log.source, query)
            .await
    }

    /// Where the facts of a log stand by anchor, in that order.
    async fn places(&self, log: &Log) -> Result<Vec<(u64, u64)>, StoreError> {
        let mut places: Vec<(u64, u64)> = Vec::new();
        loop {
            let facts = self.slice(log, places.last().copied(), FACTS).await?;
            if facts.is_empty() {
                break;
            }
            for stored in facts {
                places.push((stored.fact()?.anchor, stored.seq));
            }
        }
        Ok(places)
    }

    /// Compares both sides, before anybody may read the copy.
    async fn compare(&self, to: &dyn Store) -> Result<(), StoreError> {
        let id = self.id();
        let differs = |what: &str| {
            let message = format!(
                "the copy of session {id} differs from it in {what}, and was discarded: verify \
                 the session, then copy it again"
            );
            Err(StoreError::corrupt("copy_differs", message))
        };
        let now = self.store.session(id).await?;
        if (now.incarnation, now.generation) != (self.info.incarnation, self.info.generation) {
            let message = format!(
                "session {id} was redacted or replaced while it was copied, and the copy was \
                 discarded: copy it again"
            );
            let kind = ErrorKind::Conflict;
            return Err(StoreError::new(kind, "copy_source_changed", message));
        }
        let copy = to.session(id).await?;
        if (copy.head, copy.chain) != (self.info.head, self.info.chain) {
            return differs("its events");
        }
        if logs(to, id).await? != self.logs {
            return differs("its contributions");
        }
        let (here, there) = (
            self.store.index_status(id).await?,
            to.index_status(id).await?,
        );
        // An index that another build made, or that has moved on, says nothing
        // about this one.
        let comparable = here.version == there.version && here.index_head == there.index_head;
        if comparable && here.items != there.items {
            return differs("the number of its items");
        }
        // Reads everything back: what is stored is what was compared.
        match to.verify(id).await?.findings.first() {
            Some(finding) => differs(&format!("what was stored ({})", finding.message)),
            None => Ok(()),
        }
    }
}

/// A copy under way.
struct Copy<'a> {
    source: &'a Source<'a>,
    to: &'a dyn Store,
    options: &'a CopyOptions,
    blobs: u64,
}

impl Copy<'_> {
    fn batch_count(&self) -> usize {
        self.options.batch_count.clamp(1, MAX_BATCH_EVENTS)
    }

    fn batch_bytes(&self) -> usize {
        self.options.batch_bytes.clamp(1, MAX_BATCH_BYTES)
    }

    /// Copies the events from an ordinal on.
    async fn events(&mut self, from: u64) -> Result<(), StoreError> {
        let source = self.source;
        let mut next = from;
        while next <= source.info.head {
            let mut first = next;
            let mut batch: Vec<CanonicalEvent> = Vec::new();
            let mut bytes = 0;
            for stored in source.range(next, self.batch_count()).await? {
                next = stored.ordinal + 1;
                let event = CanonicalEvent::from_view(&stored.view()?, &stored.spine, source.id())
                    .map_err(|error| {
                        let message = format!("event {}: {error}", stored.ordinal);
                        StoreError::corrupt("undecodable", message)
                    })?;
                if !batch.is_empty() && bytes + event.text.len() > self.batch_bytes() {
                    self.append(first, std::mem::take(&mut batch)).await?;
                    (first, bytes) = (stored.ordinal, 0);
                }
                bytes += event.text.len();
                batch.push(event);
            }
            self.append(first, batch).await?;
        }
        Ok(())
    }

    /// Appends events that stand in the source from an ordinal on, with what
    /// they cite.
    async fn append(
        &mut self,
        first: u64,
        mut events: Vec<CanonicalEvent>,
    ) -> Result<(), StoreError> {
        let id = self.source.id();
        let mut first = first;
        while !events.is_empty() {
            let mut behind = first + events.len() as u64;
            // One more than fits tells where a batch must end.
            let limit = MAX_BATCH_EVENTS + 1;
            let mut cited = self.source.store.citations(id, first, limit).await?;
            if let (true, Some((ordinal, _))) = (cited.len() == limit, cited.last()) {
                behind = behind.min((*ordinal).max(first + 1));
            }
            cited.retain(|(ordinal, _)| *ordinal < behind);
            let count = usize::try_from(behind - first).unwrap_or(usize::MAX);
            let rest = events.split_off(count.min(events.len()));
            let missing: BTreeSet<BlobId> = cited.iter().map(|(_, blob)| *blob).collect();
            for blob in missing {
                self.blob(&blob).await?;
            }
            let cites = cited.into_iter().map(|(ordinal, blob)| {
                let at = usize::try_from(ordinal - first).unwrap_or(usize::MAX);
                (at, blob)
            });
            let batch = AppendBatch {
                writer: Writer::Importer,
                cites: cites.collect(),
                ..AppendBatch::native(events)
            };
            self.go_on(first)?;
            self.commit(id, batch).await?;
            (first, events) = (behind, rest);
        }
        Ok(())
    }

    /// Brings a blob over, unless it is there.
    async fn blob(&mut self, blob: &BlobId) -> Result<(), StoreError> {
        match self.to.blob(blob).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let from = self.source.store;
        let len = from.blob(blob).await?.len;
        let put = if len <= PIECE.min(MAX_BLOB_CALL) as u64 {
            let content = from.read_blob(blob, 0, PIECE).await?;
            self.to.put_blob(content).await?
        } else {
            let upload = self.to.begin_blob().await?;
            let mut at = 0;
            while at < len {
                let content = from.read_blob(blob, at, PIECE).await?;
                if content.is_empty() {
                    break;
                }
                at += content.len() as u64;
                self.to.extend_blob(upload, content).await?;
            }
            self.to.finish_blob(upload).await?
        };
        if put.id != *blob {
            let message = format!("blob {blob} is not its content: keep the files");
            return Err(StoreError::corrupt("blob_damaged", message));
        }
        self.blobs += 1;
        Ok(())
    }

    /// Copies the contribution logs.
    async fn facts(&self) -> Result<(), StoreError> {
        for log in &self.source.logs {
            let status = self.to.contribution_status(self.source.id(), &log.source);
            let done = status.await?.head;
            if done < log.head {
                self.log(log, done + 1).await?;
            }
        }
        Ok(())
    }

    /// Copies a log from a sequence on. It is read by anchor and has to be
    /// written by sequence: what follows in both orders goes over at once.
    async fn log(&self, log: &Log, from: u64) -> Result<(), StoreError> {
        let places = self.source.places(log).await?;
        let gap = || {
            let message = format!("entries of {} are missing or damaged", log.source);
            StoreError::corrupt("fact_missing", message)
        };
        let mut by_seq: Vec<usize> = (0..places.len()).collect();
        by_seq.sort_unstable_by_key(|at| places.get(*at).map(|(_, seq)| *seq));
        let mut at = usize::try_from(from - 1).map_err(|_| gap())?;
        while let Some(place) = by_seq.get(at).copied() {
            let run = by_seq.iter().skip(at).zip(place..);
            let run = run.take_while(|(a, b)| **a == *b);
            let count = run.take(self.batch_count().min(FACTS)).count();
            let after = place.checked_sub(1).and_then(|before| places.get(before));
            let facts = self.source.slice(log, after.copied(), count).await?;
            let seqs = facts.iter().map(|fact| fact.seq);
            if facts.is_empty() || !seqs.eq((at as u64 + 1..).take(facts.len())) {
                return Err(gap());
            }
            at += facts.len();
            self.append_facts(log, facts).await?;
        }
        if at as u64 == log.head {
            Ok(())
        } else {
            Err(gap())
        }
    }

    /// Appends facts in as many batches as they need.
    async fn append_facts(&self, log: &Log, facts: Vec<StoredFact>) -> Result<(), StoreError> {
        let mut bytes = 0;
        let mut batch = ContributionBatch::new(&log.source, Vec::new());
        for stored in facts {
            if !batch.facts.is_empty() && bytes + stored.body.len() > self.batch_bytes() {
                let next = ContributionBatch::new(&log.source, Vec::new());
                self.contribute(std::mem::replace(&mut batch, next)).await?;
                bytes = 0;
            }
            bytes += stored.body.len();
            if let Some(digest) = stored.withheld {
                batch.withheld.push((batch.facts.len(), digest));
            }
            batch.facts.push(stored.fact()?);
        }
        self.contribute(batch).await
    }

    async fn contribute(&self, contributions: ContributionBatch) -> Result<(), StoreError> {
        self.go_on(self.source.info.head)?;
        let batch = AppendBatch {
            writer: Writer::Importer,
            contributions: Some(contributions),
            ..AppendBatch::native(Vec::new())
        };
        self.commit(self.source.id(), batch).await
    }

    /// Commits a batch once there is room for it.
    async fn commit(&self, id: &SessionId, batch: AppendBatch) -> Result<(), StoreError> {
        let room = self.to.reserve(batch.bytes()).await?;
        self.to.append_reserved(room, id, batch).await.map(drop)
    }

    /// Whether the caller wants to go on.
    fn go_on(&self, at: u64) -> Result<(), StoreError> {
        let cancel = self.options.cancel.as_deref();
        if !cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let message = format!(
            "the copy of session {} was stopped at event {at}; the same copy goes on from there",
            self.source.id()
        );
        let kind = ErrorKind::Unavailable;
        Err(StoreError::new(kind, "copy_stopped", message))
    }
}

/// Whether a hidden session is what a copy left.
fn is_copy(session: &SessionInfo) -> bool {
    let import_ref = session.import_ref.as_deref();
    import_ref.is_some_and(|import_ref| import_ref.starts_with(MARK))
}

fn preparing(id: &SessionId) -> StoreError {
    let message = format!("session {id} is not complete: repeat its import or its copy first");
    StoreError::new(ErrorKind::Conflict, "session_preparing", message)
}
