//! The staged cutover: a source becomes a readable session in one step, or not
//! at all.
//!
//! A new session is prepared hidden, filled batch by batch, read back and
//! compared with what its reader drew up from the records alone, and only then
//! marked readable. A session that grows stays readable meanwhile: what it
//! will show is computed and compared before anything is appended.

use crate::check;
use crate::claude_code::{Diagnostic, Identity, Manifest};
use crate::error::ImportError;
use crate::format::{Format, Recognition};
use crate::import_ref::{ImportRef, Mark};
use crate::lineless;
use crate::lines::{Body, Lines};
use crate::outcome::{MAX_DIAGNOSTICS, Outcome, Verdict, about_source};
use crate::pass::{Batch, Held, Pass, Standing};
use crate::probe::{CrashPoint, NoProbe, Probe};
use crate::source::{FileSource, Source};
use folio_codec::EMPTY_CHAIN;
use folio_core::{Authority, Direction, SessionId};
use folio_store::{
    AppendBatch, AuthorityChange, ContributionBatch, ContributionQuery, ErrorKind, NOTES,
    NewSession, SessionInfo, Store, StoreError, Writer,
};
use sha2::{Digest as _, Sha256};
use std::cmp::Ordering as Cmp;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of an increment that are checked and appended together.
const SLICE_BYTES: usize = 32 << 20;
/// The most sessions that may share one native id.
const MAX_SUFFIX: u32 = 1_000;

/// How often a session is begun anew because another import was faster.
const MAX_TRIES: u32 = 200;
/// How often a hidden session of another source is looked at, and found
/// unmoved, before it counts as left behind.
const MAX_LOOKS: u32 = 20;
/// The pause before the second try, and the longest one.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// The most characters of an unusable id that a message repeats.
const SHOWN: usize = 60;

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read. They begin anew if the source must be read again.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Is told how far an import is, after each batch.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// How to import.
#[derive(Clone)]
pub struct ImportOptions {
    /// The only format to try; `None` recognizes it.
    pub format: Option<Format>,
    /// Closes what is open at the end of the source, as if it said so.
    pub finish: bool,
    /// Is told of progress.
    pub progress: Option<OnProgress>,
    /// Set from elsewhere to stop between two batches.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Is told where the import could crash.
    pub probe: Arc<dyn Probe>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            format: None,
            finish: false,
            progress: None,
            cancel: None,
            probe: Arc::new(NoProbe),
        }
    }
}

impl fmt::Debug for ImportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportOptions")
            .field("format", &self.format)
            .field("finish", &self.finish)
            .finish_non_exhaustive()
    }
}

/// Brings session files into a store.
#[derive(Clone)]
pub struct Importer {
    store: Arc<dyn Store>,
}

impl fmt::Debug for Importer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importer").finish_non_exhaustive()
    }
}

/// How much a translation gives, measured by what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Less,
    Same,
    More,
}

/// What became of the attempt to go on with a session.
enum Attempt {
    Done(Box<Outcome>),
    /// The session holds something else.
    Another,
}

impl Importer {
    /// Imports into a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Imports one file.
    ///
    /// What is no session is an outcome with reasons, not an error.
    ///
    /// # Errors
    /// The file cannot be read, the store fails, or the import was stopped.
    pub async fn import_path(
        &self,
        path: &Path,
        options: &ImportOptions,
    ) -> Result<Outcome, ImportError> {
        let metadata = std::fs::metadata(path).map_err(|source| ImportError::Io {
            path: path.to_owned(),
            source,
        })?;
        if !metadata.is_file() {
            let message = if metadata.is_dir() {
                "this is a folder; its session files are imported one by one"
            } else {
                "this is no regular file; name a session file"
            };
            let name = path.display().to_string();
            return Ok(Outcome::rejected(name, "not_a_file", message.to_owned()));
        }
        self.import_reader(&FileSource::new(path), options).await
    }

    /// Imports a source, whose path's stem may name the session.
    ///
    /// # Errors
    /// As for [`import_path`](Self::import_path).
    pub async fn import_reader(
        &self,
        source: &dyn Source,
        options: &ImportOptions,
    ) -> Result<Outcome, ImportError> {
        let path = source.path().display().to_string();
        let read = |error| failed(source, error);
        let recognized = Format::recognize(options.format, || source.open()).map_err(read)?;
        let format = match recognized {
            Recognition::Session(format) => format,
            Recognition::NoConversation(format) => return Ok(skipped(path, format)),
            Recognition::Nothing(code, message) => {
                return Ok(Outcome::rejected(path, code, message.to_owned()));
            }
        };
        let stem = source.path().file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy().into_owned();
        let reader = source.open().map_err(read)?;
        let identity = format.identify(reader, &stem).map_err(read)?;
        let Some(base) = identity.session_id.clone() else {
            return nameless(source, path, format, &identity).map_err(read);
        };
        let mut job = Job {
            store: &*self.store,
            source,
            options,
            format,
            identity,
            stem,
            path,
            total: source.len().map_err(read)?,
            met: false,
            added: AtomicU64::new(0),
        };
        job.run(&base).await
    }
}

fn failed(source: &dyn Source, error: std::io::Error) -> ImportError {
    ImportError::Io {
        path: source.path().to_owned(),
        source: error,
    }
}

fn skipped(path: String, format: Format) -> Outcome {
    let mut outcome = Outcome::without_session(path, Verdict::Skipped);
    outcome.format = Some(format.name());
    outcome.report(vec![about_source(
        "no_conversation",
        "there is no conversation in this file yet; import it again when there is".to_owned(),
    )]);
    outcome
}

/// A session that nothing names: why there is none yet.
fn nameless(
    source: &dyn Source,
    path: String,
    format: Format,
    identity: &Identity,
) -> std::io::Result<Outcome> {
    let (code, message) = if let Some(given) = &identity.unusable {
        let mut shown: String = given.chars().take(SHOWN).collect();
        if shown.len() < given.len() {
            shown.push('…');
        }
        let message = format!(
            "the session id {shown:?} of this file cannot name a session; \
             rename the file to a UUID and import it again"
        );
        ("unusable_session_id", message)
    } else if only_odd(source)? {
        let message = "every record of this file breaks a rule of JSON texts (half a surrogate \
                       pair, a repeated key, too deep nesting), so none can be read; \
                       import the file again when it holds others";
        ("unreadable_records", message.to_owned())
    } else {
        return Ok(skipped(path, format));
    };
    let mut outcome = Outcome::rejected(path, code, message);
    outcome.format = Some(format.name());
    Ok(outcome)
}

/// Whether there are records, and all break a rule beyond the grammar.
fn only_odd(source: &dyn Source) -> std::io::Result<bool> {
    let mut lines = Lines::new(source.open()?);
    let mut odd = false;
    while let Some(line) = lines.next_line()? {
        for item in line.items() {
            match item.body {
                Body::Record { .. } => return Ok(false),
                Body::Odd { .. } => odd = true,
                Body::Broken(_) | Body::Oversize(_) => {}
            }
        }
    }
    Ok(odd)
}

/// The import of one session.
struct Job<'a> {
    store: &'a dyn Store,
    source: &'a dyn Source,
    options: &'a ImportOptions,
    format: Format,
    identity: Identity,
    stem: String,
    path: String,
    total: u64,
    /// Whether another import was met at the same session.
    met: bool,
    /// Events that were appended to a readable session.
    added: AtomicU64,
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
    async fn run(&mut self, base: &SessionId) -> Result<Outcome, ImportError> {
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

    async fn begin_again(&self, info: &SessionInfo, n: u32) -> Result<Outcome, ImportError> {
        self.store
            .discard_session(&info.id, info.authority_rev)
            .await?;
        self.prepare(&info.id, n).await
    }

    /// Begins a new session.
    async fn prepare(&self, id: &SessionId, n: u32) -> Result<Outcome, ImportError> {
        let mark = Mark {
            lines: 0,
            items: 0,
            digest: Sha256::digest(b"").into(),
            finishes: Vec::new(),
        };
        let info = self
            .store
            .create_session(NewSession {
                id: id.clone(),
                authority: Authority::Preparing,
                followed: true,
                import_ref: Some(self.record(mark.clone(), &[])),
            })
            .await?;
        self.reached(CrashPoint::Prepared);
        match self.stage(&info, &mark, n).await? {
            Attempt::Done(outcome) => Ok(*outcome),
            // Nothing was held, so what differs came from elsewhere meanwhile.
            Attempt::Another => Err(overtaken(id).into()),
        }
    }

    /// Fills a hidden session from where it is, and makes it readable.
    async fn stage(&self, info: &SessionInfo, mark: &Mark, n: u32) -> Result<Attempt, ImportError> {
        let mut pass = self.open(info, mark).await?;
        let mut batches = 0;
        loop {
            self.go_on()?;
            let more = self.step(&mut pass)?;
            if pass.ledger_stands() == Standing::Differs
                || (pass.ledger_stands() == Standing::Behind && (pass.is_waiting() || !more))
            {
                return Ok(Attempt::Another);
            }
            if !more && self.options.finish {
                pass.finish();
            }
            while let Some(batch) = pass.batch(!more) {
                self.go_on()?;
                batches += 1;
                self.reached(CrashPoint::Translated(batches));
                match self.append(info, batch, &pass).await {
                    Ok(_) => {}
                    Err(error) if is_about_source(&error) => {
                        let reason = about_source(error.code(), error.to_string());
                        return self.reject(info, &pass, vec![reason]).await;
                    }
                    Err(error) => return Err(error.into()),
                }
                self.tell(&pass);
                self.reached(CrashPoint::Committed);
            }
            if !more {
                break;
            }
        }
        let (noticed, manifest) = pass.findings();
        let reasons = if pass.refused().is_empty() {
            self.read_back(info, &pass, &manifest).await?
        } else {
            pass.refused().to_vec()
        };
        if !reasons.is_empty() {
            return self.reject(info, &pass, reasons).await;
        }
        self.reached(CrashPoint::Verified);
        self.reached(CrashPoint::BeforeMark);
        self.unmoved(info, pass.head(), pass.notes_head()).await?;
        self.store
            .set_authority(
                &info.id,
                AuthorityChange {
                    expected_rev: info.authority_rev,
                    to: Authority::RuntimeEvents,
                    import_ref: Some(self.record(pass.mark(), &[])),
                },
            )
            .await?;
        self.reached(CrashPoint::AfterMark);
        self.tell(&pass);
        let mut outcome = self.outcome(Verdict::Imported, &info.id);
        outcome.events_added = pass.head();
        outcome.row_count = manifest.entries.len() as u64;
        outcome.report(self.with_suffix(noticed, &info.id, n));
        Ok(Attempt::Done(Box::new(outcome)))
    }

    /// Compares the hidden session with the translation, and what it will show
    /// with what the source says. A hidden session answers no reads of items,
    /// so its index is compared with one made anew, its notes by their chain,
    /// and its rows are made from the stored events.
    async fn read_back(
        &self,
        seen: &SessionInfo,
        pass: &Pass,
        manifest: &Manifest,
    ) -> Result<Vec<Diagnostic>, ImportError> {
        let id = &seen.id;
        let info = self.store.session(id).await?;
        let notes = self.store.contribution_status(id, NOTES).await?;
        if (info.incarnation, info.authority_rev) != (seen.incarnation, seen.authority_rev)
            || info.head > pass.head()
            || notes.head > pass.notes_head()
        {
            return Err(overtaken(id).into());
        }
        let differs = |what: &str| {
            let message = format!("the {what} of session {id} are not those that were appended");
            Err(StoreError::corrupt("chain_mismatch", message).into())
        };
        if (info.head, info.chain) != (pass.head(), pass.chain()) {
            return differs("events");
        }
        if (notes.head, notes.chain) != (pass.notes_head(), pass.notes_chain()) {
            return differs("notes");
        }
        let report = self.store.verify(id).await?;
        if let Some(finding) = report.findings.first() {
            let message = format!("session {id} was not stored well: {}", finding.message);
            return Err(StoreError::corrupt(finding.code, message).into());
        }
        if info.items != pass.preview().items().len() as u64 {
            return differs("items");
        }
        self.shown(id, pass, manifest).await
    }

    /// What the session would show otherwise than the source says.
    async fn shown(
        &self,
        id: &SessionId,
        pass: &Pass,
        manifest: &Manifest,
    ) -> Result<Vec<Diagnostic>, ImportError> {
        let pending = pass.pending();
        let (preview, notes) = (pass.preview(), pass.notes());
        let mut shown = check::rows(self.store, id, pass.appended(), preview, &pending).await?;
        shown.extend_from_slice(notes);
        Ok(check::compare(manifest, shown))
    }

    async fn reject(
        &self,
        info: &SessionInfo,
        pass: &Pass,
        reasons: Vec<Diagnostic>,
    ) -> Result<Attempt, ImportError> {
        let kept = reasons.get(..MAX_DIAGNOSTICS).unwrap_or(&reasons);
        self.store
            .set_authority(
                &info.id,
                AuthorityChange {
                    expected_rev: info.authority_rev,
                    to: Authority::Rejected,
                    import_ref: Some(self.record(pass.mark(), kept)),
                },
            )
            .await?;
        Ok(Attempt::Done(Box::new(
            self.rejected(Some(&info.id), reasons),
        )))
    }

    /// Goes on with a readable session, if the source extends or repeats what
    /// it was made from.
    async fn grow(
        &self,
        info: &SessionInfo,
        record: &ImportRef,
        n: u32,
    ) -> Result<Attempt, ImportError> {
        let id = &info.id;
        let mut pass = self.open(info, &record.mark).await?;
        let mut grown = false;
        loop {
            self.go_on()?;
            let more = self.step(&mut pass)?;
            if pass.source_stands() == Standing::Differs {
                return Ok(Attempt::Another);
            }
            if pass.ledger_stands() == Standing::Differs && pass.source_stands() == Standing::Same {
                return self.held_otherwise(info, record, Standing::Same).await;
            }
            if more && pass.waiting_bytes() < SLICE_BYTES {
                continue;
            }
            let reached = (pass.source_stands(), pass.ledger_stands());
            if reached != (Standing::Same, Standing::Same) {
                if more {
                    continue;
                }
                return self.ended_early(info, record, &pass, reached).await;
            }
            if !info.followed {
                return Ok(Attempt::Done(Box::new(self.diverged(info))));
            }
            if !more && self.options.finish {
                pass.finish();
            }
            let reasons = self.increment(id, &pass).await?;
            if !reasons.is_empty() {
                let mut outcome = self.rejected(Some(id), reasons);
                outcome.events_added = self.added.load(Ordering::Relaxed);
                outcome.row_count = info.items + check::visible_notes(self.store, id).await?;
                return Ok(Attempt::Done(Box::new(outcome)));
            }
            let mut batches = 0;
            while let Some(batch) = pass.batch(true) {
                self.go_on()?;
                batches += 1;
                self.reached(CrashPoint::Translated(batches));
                let added = self.append(info, batch, &pass).await?;
                self.added.fetch_add(added, Ordering::Relaxed);
                grown = true;
                self.tell(&pass);
                self.reached(CrashPoint::Committed);
            }
            if !more {
                break;
            }
        }
        if !grown && pass.mark().items > record.mark.items {
            // Everything is held, and the record of it lags behind.
            let batch = Batch {
                mark: Some(pass.mark()),
                ..Batch::default()
            };
            self.append(info, batch, &pass).await?;
        }
        self.tell(&pass);
        let events = self.added.load(Ordering::Relaxed);
        let verdict = if grown || events > 0 {
            Verdict::Grown
        } else {
            Verdict::Unchanged
        };
        let (noticed, manifest) = pass.findings();
        let mut outcome = self.outcome(verdict, id);
        outcome.events_added = events;
        outcome.row_count = manifest.entries.len() as u64;
        outcome.report(self.with_suffix(noticed, id, n));
        Ok(Attempt::Done(Box::new(outcome)))
    }

    /// Checks the whole of what the session will show before an increment, and
    /// what it shows already if another import had a hand in it.
    async fn increment(&self, id: &SessionId, pass: &Pass) -> Result<Vec<Diagnostic>, ImportError> {
        if !pass.refused().is_empty() {
            return Ok(pass.refused().to_vec());
        }
        if !pass.is_waiting() && !self.met {
            return Ok(Vec::new());
        }
        let (_, manifest) = pass.findings();
        let reasons = self.shown(id, pass, &manifest).await?;
        self.reached(CrashPoint::Verified);
        Ok(reasons)
    }

    /// The source ended before everything was given again that is held.
    async fn ended_early(
        &self,
        info: &SessionInfo,
        record: &ImportRef,
        pass: &Pass,
        (source, _): (Standing, Standing),
    ) -> Result<Attempt, ImportError> {
        let same_source = source == Standing::Same;
        if same_source && !self.is_ours(record) {
            return self.translated_otherwise(info, record).await;
        }
        if !self.is_prefix(info, pass).await? {
            return self.held_otherwise(info, record, source).await;
        }
        if !info.followed {
            return Ok(Attempt::Done(Box::new(self.diverged(info))));
        }
        let shorter = about_source(
            "source_shorter",
            "the session holds all of this file, and more from a longer copy of it".to_owned(),
        );
        Ok(Attempt::Done(Box::new(
            self.unchanged(info, vec![shorter]).await?,
        )))
    }

    /// Whether the session once held exactly what the source gives.
    async fn is_prefix(&self, info: &SessionInfo, pass: &Pass) -> Result<bool, ImportError> {
        let head = pass.head();
        if head > info.head {
            return Ok(false);
        }
        if head > 0 {
            let events = self.store.events(&info.id, &[head]).await?;
            if events
                .first()
                .is_none_or(|event| event.chain != pass.chain())
            {
                return Ok(false);
            }
        }
        let through = pass.notes_head();
        if through == 0 {
            return Ok(true);
        }
        // Notes are appended in the order of their anchors, so the latest one
        // at this watermark is the last one.
        let query = ContributionQuery {
            through,
            direction: Direction::Older,
            after: None,
            max_items: 1,
        };
        let facts = self.store.contributions(&info.id, NOTES, query).await?;
        Ok(facts
            .first()
            .is_some_and(|fact| (fact.seq, fact.chain) == (through, pass.notes_chain())))
    }

    /// The session does not hold the translation as it is: perhaps it holds it
    /// under other line numbers, because blank lines came or went.
    async fn held_otherwise(
        &self,
        info: &SessionInfo,
        record: &ImportRef,
        source: Standing,
    ) -> Result<Attempt, ImportError> {
        let extent = if self.is_ours(record) {
            self.extent_without_lines(info, record).await?
        } else {
            None
        };
        let outcome = match extent {
            Some(Extent::Less | Extent::Same) if !info.followed => self.diverged(info),
            Some(Extent::Less | Extent::Same) => {
                let noticed = about_source(
                    "line_numbers_differ",
                    "the session holds all records of this file; only the numbers of their lines \
                     differ, as blank lines make them"
                        .to_owned(),
                );
                self.unchanged(info, vec![noticed]).await?
            }
            None if source == Standing::Same => {
                return self.translated_otherwise(info, record).await;
            }
            Some(Extent::More) | None => return Ok(Attempt::Another),
        };
        Ok(Attempt::Done(Box::new(outcome)))
    }

    /// How much the whole translation gives, measured by what is held, if the
    /// names of lines do not count; `None` where they differ in more than that.
    async fn extent_without_lines(
        &self,
        info: &SessionInfo,
        record: &ImportRef,
    ) -> Result<Option<Extent>, ImportError> {
        let id = &info.id;
        let through = self.notes_head(id).await?;
        let nothing = Held {
            head: 0,
            chain: EMPTY_CHAIN,
            notes_head: 0,
            notes_chain: EMPTY_CHAIN,
            items: record.mark.items,
            digest: record.mark.digest,
        };
        let finishes = &record.mark.finishes;
        let opened = Pass::open(
            self.format,
            self.source,
            &self.stem,
            id.clone(),
            finishes,
            nothing,
        );
        let mut pass = opened.map_err(|error| failed(self.source, error))?;
        let (mut head, mut notes, mut after) = (0, 0, None);
        loop {
            self.go_on()?;
            let more = self.step(&mut pass)?;
            while let Some(batch) = pass.batch(!more) {
                let count = (info.head - head).min(batch.events.len() as u64);
                let ordinals: Vec<u64> = (head + 1..=head + count).collect();
                head += count;
                let stored = self.store.events(id, &ordinals).await?;
                let mut same = stored.len() == ordinals.len();
                for (stored, ours) in stored.iter().zip(&batch.events) {
                    same = same && lineless::same_event(stored, ours)?;
                }
                let count = (through - notes).min(batch.notes.len() as u64);
                let query = ContributionQuery {
                    through,
                    direction: Direction::Newer,
                    after,
                    max_items: usize::try_from(count).unwrap_or_default(),
                };
                notes += count;
                if count > 0 {
                    let stored = self.store.contributions(id, NOTES, query).await?;
                    same = same && stored.len() as u64 == count;
                    for (stored, ours) in stored.iter().zip(&batch.notes) {
                        let fact = stored.fact()?;
                        after = Some((fact.anchor, stored.seq));
                        same = same && lineless::same_note(&fact, ours);
                    }
                }
                if !same {
                    return Ok(None);
                }
            }
            if !pass.refused().is_empty() {
                return Ok(None);
            }
            if !more {
                break;
            }
        }
        let extent = match (pass.head().cmp(&info.head), pass.notes_head().cmp(&through)) {
            (Cmp::Equal, Cmp::Equal) => Some(Extent::Same),
            (Cmp::Less | Cmp::Equal, Cmp::Less | Cmp::Equal) => Some(Extent::Less),
            (Cmp::Greater | Cmp::Equal, Cmp::Greater | Cmp::Equal) => Some(Extent::More),
            _ => None,
        };
        Ok(extent)
    }

    /// Whether this version of the translation made the session.
    fn is_ours(&self, record: &ImportRef) -> bool {
        record.translator_version == u64::from(self.format.translator_version())
    }

    /// The source is the same, and this build would translate it otherwise.
    async fn translated_otherwise(
        &self,
        info: &SessionInfo,
        record: &ImportRef,
    ) -> Result<Attempt, ImportError> {
        let ours = u64::from(self.format.translator_version());
        let (stored, id) = (record.translator_version, &info.id);
        let outcome = if stored == ours {
            self.rejected(
                Some(id),
                vec![about_source(
                    "translation_differs",
                    format!(
                        "session {id} does not hold what its source gives; \
                         verify the store, and import the file into another one"
                    ),
                )],
            )
        } else {
            let code = if stored < ours {
                "translated_by_older"
            } else {
                "translated_by_newer"
            };
            let message = format!(
                "session {id} was translated by version {stored} and this is version {ours}; \
                 it is left as it is"
            );
            self.unchanged(info, vec![about_source(code, message)])
                .await?
        };
        Ok(Attempt::Done(Box::new(outcome)))
    }

    async fn unchanged(
        &self,
        info: &SessionInfo,
        noticed: Vec<Diagnostic>,
    ) -> Result<Outcome, ImportError> {
        let mut outcome = self.outcome(Verdict::Unchanged, &info.id);
        outcome.row_count = info.items + check::visible_notes(self.store, &info.id).await?;
        outcome.report(noticed);
        Ok(outcome)
    }

    /// The session is a program's own by now.
    fn diverged(&self, info: &SessionInfo) -> Outcome {
        let id = &info.id;
        self.rejected(
            Some(id),
            vec![about_source(
                "import_diverged",
                format!(
                    "session {id} no longer follows its source; \
                     import the file into another store to have it as it is"
                ),
            )],
        )
    }

    /// Opens the source beside what a session holds of it.
    async fn open(&self, info: &SessionInfo, mark: &Mark) -> Result<Pass, ImportError> {
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

    fn step(&self, pass: &mut Pass) -> Result<bool, ImportError> {
        pass.step().map_err(|error| failed(self.source, error))
    }

    async fn notes_head(&self, id: &SessionId) -> Result<u64, StoreError> {
        Ok(self.store.contribution_status(id, NOTES).await?.head)
    }

    /// Refuses to go on where another import has moved the session on.
    async fn unmoved(&self, seen: &SessionInfo, head: u64, notes: u64) -> Result<(), StoreError> {
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
    async fn append(
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
        let contributions = (!notes.is_empty()).then(|| ContributionBatch {
            source: NOTES.to_owned(),
            facts: notes,
        });
        let batch = AppendBatch {
            events,
            contributions,
            expected_head: Some(head),
            writer: Writer::Importer,
            import_ref: mark.map(|mark| self.record(mark, &[])),
        };
        let with_notes = batch.contributions.is_some();
        let committed = match self.store.append(id, batch).await {
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

    fn record(&self, mark: Mark, reasons: &[Diagnostic]) -> String {
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
    fn go_on(&self) -> Result<(), ImportError> {
        let cancel = self.options.cancel.as_ref();
        if cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(ImportError::Interrupted {
                path: self.source.path().to_owned(),
            });
        }
        Ok(())
    }

    fn tell(&self, pass: &Pass) {
        if let Some(progress) = &self.options.progress {
            progress(Progress {
                done: pass.bytes_read().min(self.total),
                total: self.total,
            });
        }
    }

    fn reached(&self, point: CrashPoint) {
        self.options.probe.reached(point);
    }

    fn outcome(&self, verdict: Verdict, id: &SessionId) -> Outcome {
        let mut outcome = Outcome::without_session(self.path.clone(), verdict);
        outcome.format = Some(self.format.name());
        outcome.session_id = Some(id.clone());
        outcome
    }

    fn rejected(&self, id: Option<&SessionId>, reasons: Vec<Diagnostic>) -> Outcome {
        let mut outcome = Outcome::without_session(self.path.clone(), Verdict::Rejected);
        outcome.format = Some(self.format.name());
        outcome.session_id = id.cloned();
        outcome.report(reasons);
        outcome
    }

    /// Says so where another session has the name already.
    fn with_suffix(&self, mut noticed: Vec<Diagnostic>, id: &SessionId, n: u32) -> Vec<Diagnostic> {
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
fn overtaken(id: &SessionId) -> StoreError {
    let message = format!("another import is at session {id}; import the file again");
    StoreError::new(ErrorKind::Conflict, "head_mismatch", message)
}

/// Refusals that another import causes: what is stored must be read again.
fn is_overtaken(error: &StoreError) -> bool {
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
fn is_about_source(error: &StoreError) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::BytesSource;

    const SESSION: &str = concat!(
        r#"{"type":"user","uuid":"u","sessionId":"s","message":{"content":"hi"}}"#,
        "\n",
        r#"{"type":"assistant","uuid":"v","sessionId":"s","message":{"id":"m","content":[]}}"#,
        "\n",
    );

    #[tokio::test]
    async fn a_mismatch_hides_the_session_with_its_reasons() {
        let store = folio_testkit::memory_store();
        let source = BytesSource::new("x.jsonl", SESSION);
        let options = ImportOptions::default();
        let job = Job {
            store: &*store,
            source: &source,
            options: &options,
            format: Format::ClaudeCode,
            identity: Format::ClaudeCode
                .identify(source.open().unwrap(), "x")
                .unwrap(),
            stem: "x".into(),
            path: "x.jsonl".into(),
            total: 0,
            met: false,
            added: AtomicU64::new(0),
        };
        let id = SessionId::new("s").unwrap();
        let mark = Mark {
            lines: 0,
            items: 0,
            digest: Sha256::digest(b"").into(),
            finishes: Vec::new(),
        };
        let new = NewSession {
            id: id.clone(),
            authority: Authority::Preparing,
            followed: true,
            import_ref: Some(job.record(mark.clone(), &[])),
        };
        let info = store.create_session(new).await.unwrap();
        let mut pass = job.open(&info, &mark).await.unwrap();
        while pass.step().unwrap() {}
        // The manifest of nothing differs from what the pass shows.
        let batch = pass.batch(true).unwrap();
        job.append(&info, batch, &pass).await.unwrap();
        let reasons = job
            .read_back(&info, &pass, &Manifest::default())
            .await
            .unwrap();
        assert_eq!(reasons.len(), 1);
        let Attempt::Done(outcome) = job.reject(&info, &pass, reasons).await.unwrap() else {
            unreachable!("a rejection is an outcome");
        };
        assert_eq!(outcome.outcome, Verdict::Rejected);
        assert_eq!(outcome.diagnostics[0].code, "row_unexpected");
        let hidden = store.session(&id).await.unwrap();
        assert_eq!(hidden.authority, Authority::Rejected);
        assert!(hidden.import_ref.unwrap().contains("row_unexpected"));
        let importer = Importer::new(Arc::clone(&store));
        let again = importer.import_reader(&source, &options).await.unwrap();
        assert_eq!(again.outcome, Verdict::Imported);
        assert_eq!(again.session_id, Some(id));
    }
}
