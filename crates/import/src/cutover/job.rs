//! The import of one session: which stored session it belongs to, how often
//! it is begun anew, and what all of its stages use.

use super::{ImportOptions, MAX_LOOKS, MAX_SUFFIX, MAX_TRIES, PAUSE, Progress, failed};
use crate::claude_code::{Diagnostic, Identity};
use crate::error::ImportError;
use crate::format::Format;
use crate::import_ref::{ImportRef, Mark};
use crate::outcome::{Outcome, Verdict, about_source};
use crate::pass::{Batch, Held, Pass};
use crate::probe::CrashPoint;
use crate::source::Source;
use folio_codec::EMPTY_CHAIN;
use folio_core::{Authority, SessionId};
use folio_store::{
    AppendBatch, ContributionBatch, ErrorKind, Flush, NOTES, SessionInfo, Store, StoreError, Writer,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// How much a translation gives, measured by what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Less,
    Same,
    More,
}

/// What became of the attempt to go on with a session.
pub(super) enum Attempt {
    Done(Box<Outcome>),
    /// The session holds something else.
    Another,
}

/// The import of one session.
pub(super) struct Job<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) source: &'a dyn Source,
    pub(super) options: &'a ImportOptions,
    pub(super) format: Format,
    pub(super) identity: Identity,
    pub(super) stem: String,
    pub(super) path: String,
    pub(super) total: u64,
    /// Whether another import was met at the same session.
    pub(super) met: bool,
    /// Events that were appended to a readable session.
    pub(super) added: AtomicU64,
}

/// A hidden session that holds something else, as it was seen last: its
/// incarnation, authority revision, head and number of notes.
#[derive(Debug, Default)]
struct Watch {
    seen: Option<[u64; 4]>,
    looks: u32,
}

impl Watch {
    fn begin(&mut self, state: [u64; 4]) {
        self.seen = Some(state);
        self.looks = 0;
    }

    /// Whether nobody has moved the session for so long that whoever was
    /// preparing it is gone; `None` where it moved, or was never seen.
    fn is_left(&mut self, state: [u64; 4]) -> Option<bool> {
        self.looks += 1;
        (self.seen == Some(state)).then_some(self.looks >= MAX_LOOKS)
    }
}

impl Job<'_> {
    /// Imports the source. Where another import is at the same session, what
    /// is stored is read again and the work goes on from there.
    pub(super) async fn run(&mut self, base: &SessionId) -> Result<Outcome, ImportError> {
        let mut watch = Watch::default();
        let mut tries = 1;
        loop {
            self.go_on()?;
            match self.attempt(base, &mut watch).await {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) if tries < MAX_TRIES => {}
                Ok(None) => return Err(overtaken(base).into()),
                Err(ImportError::Store(error)) if is_overtaken(&error) && tries < MAX_TRIES => {}
                Err(error) => return Err(error),
            }
            self.met = true;
            std::thread::sleep((PAUSE.0 * tries).min(PAUSE.1));
            tries += 1;
        }
    }

    /// Finds the session that the source belongs to: the first one of its
    /// name that it extends or repeats, else a new one. `None` asks to wait
    /// for another import that is preparing it.
    async fn attempt(
        &self,
        base: &SessionId,
        watch: &mut Watch,
    ) -> Result<Option<Outcome>, ImportError> {
        for n in 1..=MAX_SUFFIX {
            let id = match n {
                1 => Some(base.clone()),
                n => SessionId::new(format!("{base}-{n}")).ok(),
            };
            let Some(id) = id else { break };
            let info = match self.store.session(&id).await {
                Ok(info) => info,
                Err(error) if error.code() == "session_not_found" => {
                    return self.prepare(&id, n).await.map(Some);
                }
                Err(error) => return Err(error.into()),
            };
            let record = info.import_ref.as_deref().and_then(ImportRef::parse);
            let mine = record
                .as_ref()
                .filter(|record| record.is_about(self.format.name(), &self.identity));
            let attempt = match (info.authority, mine) {
                (Authority::RuntimeEvents, Some(record)) => self.grow(&info, record, n).await?,
                (Authority::Preparing, Some(record)) => {
                    let notes = self.notes_head(&info.id).await?;
                    let state = [info.incarnation, info.authority_rev, info.head, notes];
                    match watch.is_left(state) {
                        Some(true) => return self.begin_again(&info, n).await.map(Some),
                        Some(false) => return Ok(None),
                        None => {}
                    }
                    match self.stage(&info, &record.mark, n).await? {
                        Attempt::Done(outcome) => Attempt::Done(outcome),
                        Attempt::Another => {
                            watch.begin(state);
                            return Ok(None);
                        }
                    }
                }
                (Authority::Rejected, Some(_)) => {
                    return self.begin_again(&info, n).await.map(Some);
                }
                (_, None) => Attempt::Another,
            };
            if let Attempt::Done(outcome) = attempt {
                return Ok(Some(*outcome));
            }
        }
        Ok(Some(self.rejected(
            None,
            vec![about_source(
                "same_native_id",
                format!(
                    "more than {MAX_SUFFIX} sessions share the id {base}, or the id leaves no room \
                     for a suffix; give the file another name"
                ),
            )],
        )))
    }

    /// Opens the source beside what a session holds of it.
    pub(super) async fn open(&self, info: &SessionInfo, mark: &Mark) -> Result<Pass, ImportError> {
        let notes = self.store.contribution_status(&info.id, NOTES).await?;
        let held = Held {
            head: info.head,
            chain: if info.head == 0 {
                EMPTY_CHAIN
            } else {
                info.chain
            },
            notes_head: notes.head,
            notes_chain: notes.chain,
            items: mark.items,
            digest: mark.digest,
        };
        let id = info.id.clone();
        Pass::open(
            self.format,
            self.source,
            &self.stem,
            id,
            &mark.finishes,
            held,
        )
        .map_err(|error| failed(self.source, error))
    }

    pub(super) fn step(&self, pass: &mut Pass) -> Result<bool, ImportError> {
        pass.step().map_err(|error| failed(self.source, error))
    }

    pub(super) async fn notes_head(&self, id: &SessionId) -> Result<u64, StoreError> {
        Ok(self.store.contribution_status(id, NOTES).await?.head)
    }

    /// Refuses to go on where another import has moved the session on.
    pub(super) async fn unmoved(
        &self,
        seen: &SessionInfo,
        head: u64,
        notes: u64,
    ) -> Result<(), StoreError> {
        let now = self.store.session(&seen.id).await?;
        let stored = self.notes_head(&seen.id).await?;
        let expected = (seen.incarnation, seen.authority_rev, head, notes);
        if (now.incarnation, now.authority_rev, now.head, stored) == expected {
            return Ok(());
        }
        Err(overtaken(&seen.id))
    }

    /// Appends the batch that `pass` gave last; answers how many events are
    /// new with it. Notes are not compared and swapped, so the place of all is
    /// looked at before and behind.
    pub(super) async fn append(
        &self,
        info: &SessionInfo,
        batch: Batch,
        pass: &Pass,
    ) -> Result<u64, StoreError> {
        let id = &info.id;
        let head = pass.appended() - batch.events.len() as u64;
        let notes_head = pass.notes_appended() - batch.notes.len() as u64;
        self.unmoved(info, head, notes_head).await?;
        let Batch {
            events,
            notes,
            mark,
        } = batch;
        let contributions = (!notes.is_empty()).then(|| ContributionBatch::new(NOTES, notes));
        let batch = AppendBatch {
            events,
            contributions,
            expected_head: Some(head),
            writer: Writer::Importer,
            import_ref: mark.map(|mark| self.record(mark, &[])),
            lease: None,
            cites: Vec::new(),
            flush: Flush::Now,
        };
        let with_notes = batch.contributions.is_some();
        // Whoever has much to bring waits for its turn.
        let room = self.store.reserve(batch.bytes()).await?;
        let committed = match self.store.append_reserved(room, id, batch).await {
            Ok(committed) => committed,
            // What another import brought meanwhile is no fault of the source.
            Err(error) if is_about_source(&error) => {
                self.unmoved(info, head, notes_head).await?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        if committed.high_water != pass.appended()
            || (with_notes && committed.facts_head != pass.notes_appended())
        {
            return Err(overtaken(id));
        }
        let new = committed.events.iter().filter(|event| !event.present);
        Ok(new.count() as u64)
    }

    pub(super) fn record(&self, mark: Mark, reasons: &[Diagnostic]) -> String {
        let record = ImportRef {
            format: self.format.name().to_owned(),
            native_id: self.identity.native_id.clone(),
            agent_id: self.identity.agent_id.clone(),
            translator_version: u64::from(self.format.translator_version()),
            mark,
        };
        record.to_json(reasons)
    }

    /// Stops where the import was asked to.
    pub(super) fn go_on(&self) -> Result<(), ImportError> {
        let cancel = self.options.cancel.as_ref();
        if cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(ImportError::Interrupted {
                path: self.source.path().to_owned(),
            });
        }
        Ok(())
    }

    pub(super) fn tell(&self, pass: &Pass) {
        if let Some(progress) = &self.options.progress {
            progress(Progress {
                done: pass.bytes_read().min(self.total),
                total: self.total,
            });
        }
    }

    pub(super) fn reached(&self, point: CrashPoint) {
        self.options.probe.reached(point);
    }

    pub(super) fn outcome(&self, verdict: Verdict, id: &SessionId) -> Outcome {
        let mut outcome = Outcome::without_session(self.path.clone(), verdict);
        outcome.format = Some(self.format.name());
        outcome.session_id = Some(id.clone());
        outcome
    }

    pub(super) fn rejected(&self, id: Option<&SessionId>, reasons: Vec<Diagnostic>) -> Outcome {
        let mut outcome = Outcome::without_session(self.path.clone(), Verdict::Rejected);
        outcome.format = Some(self.format.name());
        outcome.session_id = id.cloned();
        outcome.report(reasons);
        outcome
    }

    /// Says so where another session has the name already.
    pub(super) fn with_suffix(
        &self,
        mut noticed: Vec<Diagnostic>,
        id: &SessionId,
        n: u32,
    ) -> Vec<Diagnostic> {
        if n > 1 {
            let native = self.identity.native_id.as_deref().unwrap_or_default();
            let message = format!(
                "another session has the id {native}, and this file does not go on where \
                 that one stands; it is session {id}"
            );
            noticed.insert(0, about_source("same_native_id", message));
        }
        noticed
    }
}

/// Another import was faster at a session.
pub(super) fn overtaken(id: &SessionId) -> StoreError {
    let message = format!("another import is at session {id}; import the file again");
    StoreError::new(ErrorKind::Conflict, "head_mismatch", message)
}

/// Refusals that another import causes: what is stored must be read again.
pub(super) fn is_overtaken(error: &StoreError) -> bool {
    matches!(
        error.code(),
        "head_mismatch"
            | "authority_changed"
            | "session_exists"
            | "session_rejected"
            | "session_not_found"
    )
}

/// Refusals of a batch that say something about the source, not the store.
pub(super) fn is_about_source(error: &StoreError) -> bool {
    matches!(
        error.code(),
        "event_id_conflict"
            | "run_sealed"
            | "run_conflict"
            | "fact_id_conflict"
            | "anchor_unknown"
            | "limit_exceeded"
    )
}
