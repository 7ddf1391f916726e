//! A store that is compared with the model, and the comparison.

use super::op::{Append, From, LeaseUse, Op, SOURCES, UploadStep, VIEWS, Walk};
use super::state::{Answer, Event, Model, Outcome, Session, address, content, holder, name};
use crate::check::{Row, poll_once, row};
use crate::conformance::{Need, StorePlace};
use folio_codec::{EMPTY_CHAIN, encode_event};
use folio_core::{Direction, EventId, Position};
use folio_store::rows::RunRow;
use folio_store::{
    AuthorityChange, BlobUpload, ContributionQuery, ItemPage, ItemQuery, KnownEvent, Lease,
    NewSession, RangeQuery, SessionFilter, Start, Store, StoreError, StoredEvent, ViewBatch,
    ViewQuery,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What is wrong with a store, in words.
pub type Check<T = ()> = Result<T, String>;

/// How many walks are remembered.
const WALKS: usize = 12;
/// How many tasks wait at a time.
const WAITS: usize = 6;
/// How often, a millisecond apart, a task that must be done is asked.
const PATIENCE: u32 = 10_000;
/// An upload that nobody began.
const NO_UPLOAD: BlobUpload = BlobUpload(u64::MAX);

/// A place with its open store.
pub struct Subject {
    place: Box<dyn StorePlace>,
    store: Arc<dyn Store>,
    /// Another handle on it, where there can be one.
    second: Option<Arc<dyn Store>>,
    /// The last lease of each session's name.
    leases: BTreeMap<u8, Lease>,
    /// The last upload of each slot.
    uploads: BTreeMap<u8, BlobUpload>,
    walks: Vec<Remembered>,
    waits: Vec<Wait>,
}

/// A task that waits for a session to go on.
struct Wait {
    session: u8,
    life: u64,
    after: u64,
    /// Whether it looks only when its store is closed or the history ends:
    /// what happened in between it has missed.
    sleeps: bool,
    task: Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>>,
}

/// Pages that were read once.
struct Remembered {
    session: u8,
    life: u64,
    generation: u32,
    pages: Vec<(ItemQuery, Page)>,
}

/// What a reader sees of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    through: u64,
    before: bool,
    more: bool,
    items: Vec<(Position, u64, Row)>,
}

/// Everything that every store must tell alike of a session.
#[derive(Debug, PartialEq, Eq)]
pub struct Dump {
    events: Vec<StoredEvent>,
    runs: Vec<RunRow>,
    pages: Vec<Page>,
}

fn same<T: PartialEq + Debug>(what: impl Into<String>, found: &T, wanted: &T) -> Check {
    if found == wanted {
        return Ok(());
    }
    let what = what.into();
    Err(format!("{what}\n   found: {found:?}\n  wanted: {wanted:?}"))
}

/// What a store answered, where it must not refuse.
fn told<T>(what: &str, answer: Result<T, StoreError>) -> Check<T> {
    answer.map_err(|error| format!("{what}: {}: {error}", error.code()))
}

fn refused<T: Debug>(what: &str, answer: Result<T, StoreError>, code: &str) -> Check {
    match answer {
        Err(error) if error.code() == code => Ok(()),
        Err(error) => Err(format!("{what}: {} in the place of {code}", error.code())),
        Ok(answer) => Err(format!("{what}: not {code} but {answer:?}")),
    }
}

fn outcome<T>(answer: Result<T, StoreError>, told: impl FnOnce(T) -> Answer) -> Outcome {
    answer.map(told).map_err(|error| error.code())
}

/// The name of a view.
fn view(number: u8) -> String {
    format!("view {number}")
}

impl Wait {
    /// The answer of a task that must be done by now; it may still be on its
    /// way.
    fn answer(&mut self) -> Option<Result<u64, StoreError>> {
        (0..PATIENCE).find_map(|_| match poll_once(&mut self.task) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => {
                std::thread::sleep(Duration::from_millis(1));
                None
            }
        })
    }
}

impl Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("leases", &self.leases)
            .finish_non_exhaustive()
    }
}

impl Subject {
    /// Opens an empty place.
    pub async fn open(place: Box<dyn StorePlace>) -> Check<Self> {
        let store = told("to open", place.open().await)?;
        let mut subject = Self {
            place,
            store,
            second: None,
            leases: BTreeMap::new(),
            uploads: BTreeMap::new(),
            walks: Vec::new(),
            waits: Vec::new(),
        };
        subject.open_second().await?;
        Ok(subject)
    }

    async fn open_second(&mut self) -> Check {
        if self.place.has(Need::MultiProcess) {
            self.second = Some(told("a second handle", self.place.second().await)?);
        }
        Ok(())
    }

    /// Opens the store again.
    async fn reopen(&mut self, closed: bool) -> Check {
        self.second = None;
        let mut waits = std::mem::take(&mut self.waits);
        if closed {
            told("to close", self.store.close().await)?;
            for wait in &mut waits {
                let answer = wait.answer();
                let answer = answer.ok_or("a closed store lets a task wait")?;
                refused("a wait at a closed store", answer, "store_closed")?;
            }
        }
        drop(waits);
        // The handle must be gone before the store is opened again.
        self.store = crate::memory_store();
        self.store = told("to reopen", self.place.reopen().await)?;
        self.open_second().await
    }

    /// Does an operation and compares what it answers.
    pub async fn apply(&mut self, before: &Model, op: &Op, after: &Model) -> Check {
        let outcomes = match op {
            Op::Together(first, second) => {
                let a = self.append(before, first);
                let b = self.append(before, second);
                let (a, b) = tokio::join!(biased; a, b);
                vec![a, b]
            }
            Op::Failed { op, reopen } => return self.fail(before, op, *reopen, after).await,
            Op::Append(append) => vec![self.append(before, append).await],
            Op::Walk(walk) => vec![self.walk(before, walk).await?],
            Op::Wait { session, ahead } => vec![self.wait(before, *session, *ahead).await?],
            Op::Reopen { closed } => {
                self.reopen(*closed).await?;
                vec![Ok(Answer::Done)]
            }
            _ => vec![self.simple(before, op).await],
        };
        same("the answer", &outcomes, &after.outcomes)
    }

    async fn append(&self, before: &Model, append: &Append) -> Outcome {
        let mut batch = before.batch(append);
        let last = self.leases.get(&append.session);
        let bogus = Lease {
            owner: u64::MAX,
            epoch: u64::MAX,
        };
        batch.lease = match append.lease {
            LeaseUse::None => None,
            LeaseUse::Last => Some(last.copied().unwrap_or(bogus)),
            LeaseUse::Bogus => Some(bogus),
        };
        let second = self.second.as_ref().filter(|_| append.second);
        let store = second.unwrap_or(&self.store);
        let id = name(append.session);
        outcome(store.append(&id, batch).await, Answer::Committed)
    }

    /// Does something whose sync fails, where that can be made to happen.
    async fn fail(&mut self, before: &Model, op: &Op, reopen: bool, after: &Model) -> Check {
        let wanted = &after.outcomes;
        let fails = *wanted == [Err("indeterminate")];
        let possible = self.place.has(Need::FailedCommit);
        if fails && possible {
            told("to fail a commit", self.place.fail_next_commit().await)?;
        }
        if !fails || possible {
            let outcome = match op {
                Op::Append(append) => self.append(before, append).await,
                _ => self.simple(before, op).await,
            };
            same("the failed commit", &vec![outcome], wanted)?;
        } else if let Op::Upload { slot, step } = op
            && !matches!(step, UploadStep::Begin { .. })
        {
            self.uploads.remove(slot);
        }
        if fails && reopen {
            self.reopen(false).await?;
        }
        Ok(())
    }

    /// Begins to wait, or is answered at once.
    async fn wait(&mut self, before: &Model, session: u8, ahead: u8) -> Check<Outcome> {
        let id = name(session);
        let Some(there) = before.sessions.get(&session) else {
            return Ok(Err(match self.store.wait(&id, 0).await {
                Ok(_) => "a session that is not there has a head",
                Err(error) => error.code(),
            }));
        };
        let after = (there.head() + u64::from(ahead)).saturating_sub(1);
        let (store, life) = (Arc::clone(&self.store), there.life);
        let mut wait = Wait {
            session,
            life,
            after,
            sleeps: life % 2 == 0,
            task: Box::pin(async move { store.wait(&id, after).await }),
        };
        // Which life of the session it waits for is decided when it begins.
        match poll_once(&mut wait.task) {
            Poll::Ready(head) => {
                let head = told("a wait", head)?;
                same("the head that was waited for", &head, &there.head())?;
                same("whether it is behind", &(head > after), &true)?;
            }
            Poll::Pending => {
                same("whether it is ahead", &(there.head() <= after), &true)?;
                self.waits.push(wait);
                let old = self.waits.len().saturating_sub(WAITS);
                self.waits.drain(..old);
            }
        }
        Ok(Ok(Answer::Done))
    }

    /// Asks those who wait; at the end of a history also those who slept.
    pub fn check_waits(&mut self, model: &Model, end: bool) -> Check {
        let mut waits = std::mem::take(&mut self.waits);
        for mut wait in waits.drain(..) {
            if wait.sleeps && !end {
                self.waits.push(wait);
                continue;
            }
            let session = model.sessions.get(&wait.session);
            let session = session.filter(|session| session.life == wait.life);
            let what = format!("a wait for {} behind {}", name(wait.session), wait.after);
            match session {
                Some(session) if session.head() <= wait.after => {
                    if let Poll::Ready(answer) = poll_once(&mut wait.task) {
                        return Err(format!("{what}: {answer:?}"));
                    }
                    self.waits.push(wait);
                }
                Some(session) => {
                    let answer = wait
                        .answer()
                        .ok_or_else(|| format!("{what} does not end"))?;
                    same(what.as_str(), &told(&what, answer)?, &session.head())?;
                }
                None => {
                    let answer = wait
                        .answer()
                        .ok_or_else(|| format!("{what} does not end"))?;
                    refused(&what, answer, "session_not_found")?;
                }
            }
        }
        Ok(())
    }

    async fn simple(&mut self, before: &Model, op: &Op) -> Outcome {
        let store = &self.store;
        let done = |()| Answer::Done;
        match op {
            Op::Create {
                session,
                authority,
                followed,
                ..
            } => {
                let mut new = NewSession::native(name(*session));
                (new.authority, new.followed) = (*authority, *followed);
                outcome(store.create_session(new).await.map(drop), done)
            }
            Op::Fork { parent, at, child } => {
                let at = before.fork_point(*parent, *at);
                let (parent, child) = (name(*parent), name(*child));
                let fork = store.fork_session(&parent, at, child).await;
                outcome(fork.map(drop), done)
            }
            Op::Delete { session, revision } => {
                let expected = before.revision(*session, *revision);
                let delete = store.delete_session(&name(*session), expected).await;
                outcome(delete, done)
            }
            Op::Discard { session, revision } => {
                let right = before.revision(*session, super::op::Revision::Right);
                let expected = before.revision(*session, *revision).or(right);
                let expected = expected.unwrap_or(1);
                let discard = store.discard_session(&name(*session), expected).await;
                outcome(discard, done)
            }
            Op::Redact { session, keys } => {
                let keys = before.keys(*session, keys);
                let redact = store.redact(&name(*session), &keys).await;
                outcome(redact, |mut redaction| {
                    redaction.facts.sort();
                    Answer::Redacted(redaction)
                })
            }
            Op::Scrub => {
                let scrub = store.scrub().await;
                let pending = store.pending_erasures().await;
                match (scrub, pending) {
                    (Ok(scrub), Ok(0)) => Ok(Answer::Collected(scrub.blobs)),
                    (Ok(_), Ok(_)) => Err("erasures are left"),
                    (Err(error), _) | (_, Err(error)) => Err(error.code()),
                }
            }
            Op::Rebuild { session } => {
                outcome(store.rebuild_index(&name(*session)).await.map(drop), done)
            }
            Op::Acquire {
                session,
                holder: number,
            } => {
                let holder = holder(*number);
                let lease = store.acquire_lease(&name(*session), &holder).await;
                if let Ok(lease) = &lease {
                    self.leases.insert(*session, *lease);
                }
                outcome(lease.map(drop), done)
            }
            Op::Release { session } => {
                let bogus = Lease { owner: 0, epoch: 0 };
                let lease = self.leases.get(session).copied().unwrap_or(bogus);
                outcome(store.release_lease(&name(*session), lease).await, done)
            }
            Op::PutBlob {
                content: number,
                pieces,
            } => outcome(self.put_blob(*number, *pieces).await, done),
            Op::ReadBlob {
                content,
                from,
                bytes,
            } => {
                let (from, bytes) = (u64::from(*from), *bytes as usize);
                let read = store.read_blob(&address(*content), from, bytes).await;
                outcome(read, Answer::Bytes)
            }
            Op::SetAuthority {
                session,
                to,
                revision,
                import_ref,
            } => {
                let right = before.revision(*session, super::op::Revision::Right);
                let expected = before.revision(*session, *revision).or(right);
                let change = AuthorityChange {
                    expected_rev: expected.unwrap_or(1),
                    to: *to,
                    import_ref: import_ref.map(super::state::import_ref),
                };
                let change = store.set_authority(&name(*session), change).await;
                outcome(change.map(drop), done)
            }
            Op::Upload { slot, step } => outcome(self.upload(before, *slot, *step).await, done),
            Op::PutView(put) => {
                let (from, to) = before.marks(put);
                let entries = put.entries.iter();
                let entries =
                    entries.map(|(key, value)| (vec![*key], value.map(|value| vec![value])));
                let batch = ViewBatch {
                    view: view(put.view),
                    version: put.version,
                    session: name(put.session),
                    from,
                    to,
                    entries: entries.collect(),
                };
                outcome(store.put_view(batch).await, done)
            }
            Op::DropView { view: number } => outcome(store.drop_view(&view(*number)).await, done),
            Op::Append(_)
            | Op::Together(..)
            | Op::Failed { .. }
            | Op::Walk(_)
            | Op::Wait { .. }
            | Op::Reopen { .. } => unreachable!("these are done elsewhere"),
        }
    }

    async fn put_blob(&self, number: u8, pieces: Option<u32>) -> Result<(), StoreError> {
        let content = content(number);
        let Some(piece) = pieces else {
            return self.store.put_blob(content).await.map(drop);
        };
        let upload = self.store.begin_blob().await?;
        for piece in content.chunks(piece as usize) {
            self.store.extend_blob(upload, piece.to_vec()).await?;
        }
        self.store.finish_blob(upload).await.map(drop)
    }

    async fn upload(
        &mut self,
        before: &Model,
        slot: u8,
        step: UploadStep,
    ) -> Result<(), StoreError> {
        let store = &self.store;
        if let UploadStep::Begin { .. } = step {
            self.uploads.insert(slot, store.begin_blob().await?);
            return Ok(());
        }
        let upload = self.uploads.get(&slot).copied().unwrap_or(NO_UPLOAD);
        let known = before.uploads.get(&slot);
        let all = known.map_or_else(Vec::new, |known| content(known.content));
        let rest = all
            .get(known.map_or(0, |known| known.arrived)..)
            .unwrap_or_default();
        match step {
            UploadStep::Extend { bytes } => {
                let some = rest.iter().take(bytes as usize).copied().collect();
                store.extend_blob(upload, some).await
            }
            _ => {
                store.extend_blob(upload, rest.to_vec()).await?;
                store.finish_blob(upload).await.map(drop)
            }
        }
    }

    /// Reads pages, compares their rows with the model's, and remembers them.
    async fn walk(&mut self, before: &Model, walk: &Walk) -> Check<Outcome> {
        let id = name(walk.session);
        let there = before.sessions.get(&walk.session);
        let head = there.map_or(0, Session::head);
        let through = u64::from(walk.through) % (head + 1);
        let mut wanted = match there {
            Some(session) if session.unreadable().is_none() => session.placed_rows(through),
            _ => Vec::new(),
        };
        let direction = if walk.newer {
            Direction::Newer
        } else {
            wanted.reverse();
            Direction::Older
        };
        let (start, skipped) = start(walk.start, direction, through, &wanted);
        let mut query = ItemQuery {
            through: Some(through),
            direction,
            start,
            max_items: usize::from(walk.max_items),
            max_bytes: if walk.small { 300 } else { usize::MAX },
            member_bytes: usize::MAX,
        };
        let mut pages = Vec::new();
        loop {
            let page = match self.store.read_items(&id, query.clone()).await {
                Ok(page) => page,
                Err(error) if pages.is_empty() => return Ok(Err(error.code())),
                Err(error) => return Err(format!("a page: {error}")),
            };
            let page = seen(&page);
            let next = page.items.last().map(|(position, ..)| *position);
            let next = next.filter(|_| page.more);
            pages.push((query.clone(), page));
            match next {
                Some(next) => query.start = Start::Behind(next),
                None => break,
            }
        }
        let rows = pages.iter().flat_map(|(_, page)| &page.items);
        let rows: Vec<Row> = rows.map(|(.., row)| row.clone()).collect();
        let before = pages.first().map(|(_, page)| page.before);
        let wanted = wanted.into_iter().map(|(_, row)| row).skip(skipped);
        let wanted: Vec<Row> = wanted.collect();
        same(format!("the rows of a walk at {through}"), &rows, &wanted)?;
        same("whether items lie before", &before, &Some(skipped > 0))?;
        // How much fits into bytes depends on what came later.
        if let Some(session) = there.filter(|_| !walk.small) {
            self.walks.push(Remembered {
                session: walk.session,
                life: session.life,
                generation: session.generation,
                pages,
            });
            let old = self.walks.len().saturating_sub(WALKS);
            self.walks.drain(..old);
        }
        Ok(Ok(Answer::Done))
    }

    /// Reads what was read once: it is the same for ever, unless the session
    /// is another one or lost something to a redaction.
    pub async fn check_walks(&self, model: &Model) -> Check {
        for walk in &self.walks {
            let same_session = model.sessions.get(&walk.session).is_some_and(|session| {
                session.life == walk.life
                    && session.generation == walk.generation
                    && session.unreadable().is_none()
            });
            if !same_session {
                continue;
            }
            let id = name(walk.session);
            for (query, page) in &walk.pages {
                let again = self.store.read_items(&id, query.clone()).await;
                let again = seen(&told("an old page", again)?);
                same(format!("an old page of {id}: {query:?}"), &again, page)?;
            }
        }
        Ok(())
    }

    /// Compares what readers of every version see of the views.
    async fn check_views(&self, model: &Model) -> Check {
        for number in 0..VIEWS {
            for version in 1..=3 {
                let there = model.views.get(&number);
                let there = there.filter(|there| there.version == version);
                let entries = there.into_iter().flat_map(|there| &there.entries);
                let wanted = entries.map(|(key, (_, value))| (vec![*key], vec![*value]));
                let wanted: Vec<_> = wanted.collect();
                let query = ViewQuery {
                    view: view(number),
                    version,
                    from: Vec::new(),
                    to: None,
                    direction: Direction::Newer,
                    limit: 100,
                };
                let found = self.store.view_entries(query).await;
                let what = format!("the entries of {}, version {version}", view(number));
                same(what.as_str(), &told(&what, found)?, &wanted)?;
                for (session, info) in &model.sessions {
                    let (view, id) = (view(number), name(*session));
                    let mark = self.store.view_mark(&view, version, &id).await;
                    let mark = told("a mark", mark)?;
                    let wanted = there.and_then(|there| there.marks.get(&info.life));
                    let wanted = wanted.copied().unwrap_or(0);
                    same(format!("the mark of {id} in {view}"), &mark, &wanted)?;
                }
            }
        }
        Ok(())
    }

    /// Compares the whole store with the model.
    pub async fn check(&self, model: &Model) -> Check {
        self.check_views(model).await?;
        for filter in [SessionFilter::All, SessionFilter::Readable] {
            let listed = self.store.sessions(filter, None, 1_000).await;
            let listed = told("the sessions", listed)?.into_iter();
            let listed: Vec<_> = listed.map(|info| info.id).collect();
            let wanted = model.sessions.iter().filter(|(_, session)| {
                filter == SessionFilter::All || session.unreadable().is_none()
            });
            let wanted: Vec<_> = wanted.map(|(number, _)| name(*number)).collect();
            same(format!("the sessions, {filter:?}"), &listed, &wanted)?;
        }
        for number in 0..super::op::CONTENTS {
            let blob = self.store.blob(&address(number)).await;
            if model.blobs.contains_key(&number) {
                let len = told("a blob", blob)?.len;
                same(
                    "the length of a blob",
                    &len,
                    &(content(number).len() as u64),
                )?;
            } else {
                refused("a blob", blob, "blob_not_found")?;
            }
        }
        for number in 0..super::op::SESSIONS {
            match model.sessions.get(&number) {
                Some(session) => self.check_session(model, number, session).await?,
                None => {
                    let gone = self.store.session(&name(number)).await;
                    refused("a session that is gone", gone, "session_not_found")?;
                    let gone = self.page(number, None, Direction::Newer).await;
                    refused("rows that are gone", gone, "session_not_found")?;
                }
            }
        }
        Ok(())
    }

    async fn page(
        &self,
        number: u8,
        through: Option<u64>,
        direction: Direction,
    ) -> Result<ItemPage, StoreError> {
        let query = ItemQuery {
            through,
            ..crate::check::query(direction, Start::Edge)
        };
        self.store.read_items(&name(number), query).await
    }

    /// Compares a session with the model's.
    pub async fn check_session(&self, model: &Model, number: u8, wanted: &Session) -> Check {
        self.check_info(model, number, wanted)
            .await
            .and(self.check_events(number, wanted).await)
            .and(self.check_notes(number, wanted).await)
            .and(self.check_rows(number, wanted).await)
            .map_err(|error| format!("session {}: {error}", name(number)))
    }

    async fn check_info(&self, model: &Model, number: u8, wanted: &Session) -> Check {
        let info = told("the session", self.store.session(&name(number)).await)?;
        same("the authority", &info.authority, &wanted.authority)?;
        same("its revision", &info.authority_rev, &wanted.revision)?;
        same("who may append", &info.followed, &wanted.followed)?;
        same("the import", &info.import_ref, &wanted.import_ref)?;
        same("the generation", &info.generation, &wanted.generation)?;
        same("the head", &info.head, &wanted.head())?;
        same("the chain", &info.chain, &wanted.chain())?;
        same("what is inherited", &info.inherited, &wanted.inherited)?;
        // The nearest session whose own events are inherited.
        let last = wanted.inherited.checked_sub(1);
        let last = last.and_then(|at| wanted.events.get(usize::try_from(at).ok()?));
        let parent = model
            .sessions
            .iter()
            .find(|(_, session)| last.is_some_and(|last| last.writer == session.life))
            .map(|(parent, _)| name(*parent));
        same("what it was forked from", &info.forked_from, &parent)?;
        let lease = told("the lease", self.store.lease(&name(number)).await)?;
        let lease = lease.map(|lease| lease.holder);
        same("the holder of the lease", &lease, &wanted.lease)
    }

    async fn range(&self, number: u8) -> Check<Vec<StoredEvent>> {
        let mut found: Vec<StoredEvent> = Vec::new();
        loop {
            let query = RangeQuery {
                from: found.len() as u64 + 1,
                to: u64::MAX,
                max_count: 37,
                max_bytes: 20_000,
            };
            let more = self.store.range(&name(number), query).await;
            let more = told("a range", more)?;
            if more.is_empty() {
                return Ok(found);
            }
            found.extend(more);
        }
    }

    async fn check_events(&self, number: u8, wanted: &Session) -> Check {
        let id = name(number);
        let found = self.range(number).await?;
        same("the number of events", &found.len(), &wanted.events.len())?;
        for ((ordinal, event), found) in (1..).zip(&wanted.events).zip(&found) {
            check_event(ordinal, event, found)?;
        }
        let ordinals: Vec<u64> = (1..=wanted.head()).rev().step_by(7).collect();
        let some = told("some events", self.store.events(&id, &ordinals).await)?;
        let some: Vec<_> = some.iter().map(|event| event.ordinal).collect();
        same("the ordinals of some events", &some, &ordinals)?;
        let mut ids: Vec<EventId> = wanted.events.iter().map(|e| e.written.id.clone()).collect();
        ids.push(EventId::new("nobody").expect("this is an id"));
        let known = told("ids", self.store.lookup_ids(&id, &ids).await)?;
        let events = (1..).zip(&wanted.events);
        let mut placed: Vec<_> = events
            .map(|(ordinal, event)| {
                let digest = event.digest;
                Some(KnownEvent { ordinal, digest })
            })
            .collect();
        placed.push(None);
        same("what is known of ids", &known, &placed)?;
        let runs = told("the runs", self.store.runs(&id, 0, 1_000).await)?;
        let runs: Vec<_> = runs
            .into_iter()
            .map(|run| (run.run_no, run.spine, run.opened, run.terminal))
            .collect();
        let wanted_runs: Vec<_> = (1..)
            .zip(&wanted.runs)
            .map(|(run_no, run)| (run_no, run.spine.clone(), run.opened, run.terminal))
            .collect();
        same("the runs", &runs, &wanted_runs)?;
        let cited = told("the citations", self.store.citations(&id, 0, 1_000).await)?;
        let cited: Vec<_> = cited.into_iter().map(|(at, blob)| (at, blob.0)).collect();
        let cites = |(ordinal, event): (u64, &Event)| -> Vec<_> {
            event.cites.iter().map(|blob| (ordinal, *blob)).collect()
        };
        let wanted_cites: Vec<_> = (1..).zip(&wanted.events).flat_map(cites).collect();
        same("the citations", &cited, &wanted_cites)
    }

    async fn check_notes(&self, number: u8, wanted: &Session) -> Check {
        let id = name(number);
        for source in SOURCES {
            let log = wanted.notes.get(source).map_or(&[][..], Vec::as_slice);
            let status = self.store.contribution_status(&id, source).await;
            let status = told("a contribution log", status)?;
            let chain = log.last().map_or(EMPTY_CHAIN, |note| note.chain);
            let found = (status.head, status.chain);
            same("its head and chain", &found, &(log.len() as u64, chain))?;
            let query = ContributionQuery {
                through: (log.len() as u64).saturating_sub(1).max(1),
                direction: Direction::Newer,
                after: None,
                max_items: 1_000,
            };
            let found = self.store.contributions(&id, source, query).await;
            if let Some(code) = wanted.unreadable() {
                refused("contributions", found, code)?;
                continue;
            }
            let found: Vec<_> = told("contributions", found)?
                .into_iter()
                .map(|fact| (fact.seq, fact.chain, fact.body, fact.withheld))
                .collect();
            let notes = (1..=query.through).zip(log);
            let mut notes: Vec<_> = notes
                .map(|(seq, note)| {
                    let withheld = note.redacted.then_some(note.digest);
                    let kept = (seq, note.chain, note.fact.canonical(), withheld);
                    ((note.fact.anchor, seq), kept)
                })
                .collect();
            notes.sort_by_key(|(place, _)| *place);
            let notes: Vec<_> = notes.into_iter().map(|(_, kept)| kept).collect();
            same("the contributions", &found, &notes)?;
        }
        Ok(())
    }

    async fn check_rows(&self, number: u8, wanted: &Session) -> Check {
        let head = wanted.head();
        let whole = self.page(number, None, Direction::Newer).await;
        if let Some(code) = wanted.unreadable() {
            return refused("the rows", whole, code);
        }
        let beyond = self.page(number, Some(head + 1), Direction::Newer).await;
        refused("rows that are not yet", beyond, "watermark_unknown")?;
        // A watermark that wanders, as the session grows.
        for through in [head, head.saturating_sub(head % 7), head * 5 / 8] {
            let rows = wanted.rows(through);
            for direction in [Direction::Newer, Direction::Older] {
                let page = self.page(number, Some(through), direction).await;
                let mut items = seen(&told("the rows", page)?).items;
                if direction == Direction::Older {
                    items.reverse();
                }
                let numbers: Vec<u64> = items.iter().map(|(_, number, _)| *number).collect();
                let consecutive: Vec<u64> = (1..=rows.len() as u64).collect();
                let what = format!("the rows at {through}, {direction:?}");
                let found: Vec<_> = items.into_iter().map(|(.., row)| row).collect();
                same(what, &found, &rows)?;
                same("the numbers of items", &numbers, &consecutive)?;
            }
            if through == head {
                let items = told("the rows", whole.as_ref().map_err(copied))?
                    .session
                    .items;
                same("the number of items", &items, &(rows.len() as u64))?;
            }
        }
        Ok(())
    }

    /// What the store has to say against itself: nothing.
    pub async fn verify(&self, model: &Model) -> Check {
        for (number, session) in &model.sessions {
            let id = name(*number);
            let report = told("to verify", self.store.verify(&id).await)?;
            same(
                format!("what {id} suffers from"),
                &report.findings,
                &Vec::new(),
            )?;
            same("the events verified", &report.events, &session.head())?;
        }
        told("to check", self.store.check().await)
    }

    /// Everything that other stores must tell alike.
    pub async fn dump(&self, model: &Model) -> Check<Vec<Dump>> {
        let mut dumps = Vec::new();
        for (number, session) in &model.sessions {
            let mut events = self.range(*number).await?;
            for event in &mut events {
                // Every store has its own clock.
                event.committed_at = 0;
            }
            let runs = self.store.runs(&name(*number), 0, 1_000).await;
            let mut pages = Vec::new();
            for direction in [Direction::Newer, Direction::Older] {
                let mut query = ItemQuery {
                    max_items: 5,
                    max_bytes: 2_000,
                    ..crate::check::query(direction, Start::Edge)
                };
                while session.unreadable().is_none() {
                    let page = self.store.read_items(&name(*number), query.clone()).await;
                    let page = seen(&told("a page", page)?);
                    let next = page.items.last().map(|(position, ..)| *position);
                    let next = next.filter(|_| page.more);
                    pages.push(page);
                    let Some(next) = next else { break };
                    query.start = Start::Behind(next);
                }
            }
            dumps.push(Dump {
                events,
                runs: told("the runs", runs)?,
                pages,
            });
        }
        Ok(dumps)
    }
}

/// Where pages begin, and how many of the rows, in the direction, lie before.
fn start(
    from: From,
    direction: Direction,
    through: u64,
    rows: &[(Position, Row)],
) -> (Start, usize) {
    let one = |pick: u16| usize::from(pick).checked_rem(rows.len());
    match from {
        From::Key(pick) => one(pick).map(|at| (Start::Key(rows[at].1.0.clone().into()), at)),
        From::Item(pick) => one(pick).map(|at| (Start::At(rows[at].0), at)),
        From::Ordinal(pick) => {
            let ordinal = u64::from(pick) % (through + 1);
            let lies_before = |row: &&(Position, Row)| match direction {
                Direction::Newer => row.0.ordinal < ordinal,
                Direction::Older => row.0.ordinal > ordinal,
            };
            let skipped = rows.iter().take_while(lies_before).count();
            Some((Start::AtOrdinal(ordinal), skipped))
        }
        From::Edge => None,
    }
    .unwrap_or((Start::Edge, 0))
}

fn copied(error: &StoreError) -> StoreError {
    StoreError::new(error.kind(), error.code(), error.to_string())
}

fn seen(page: &ItemPage) -> Page {
    let item = |item: &folio_store::LoadedItem| {
        let row = row(item, page.through);
        (item.item.position, item.item.number, row)
    };
    Page {
        through: page.through,
        before: page.before,
        more: page.more,
        items: page.items.iter().map(item).collect(),
    }
}

fn check_event(ordinal: u64, wanted: &Event, found: &StoredEvent) -> Check {
    let what = format!("event {ordinal}");
    let place = (found.ordinal, found.run_no, found.event_seq);
    let wanted_place = (ordinal, wanted.run_no, wanted.event_seq);
    same(format!("{what}: its place"), &place, &wanted_place)?;
    same(
        format!("{what}: its chain"),
        &found.chain,
        &Some(wanted.chain),
    )?;
    same(format!("{what}: its ids"), &*found.spine, &wanted.now.spine)?;
    let stored = (found.form, &found.body);
    let (form, body) = encode_event(&wanted.now);
    same(what, &stored, &(form, &body))
}
