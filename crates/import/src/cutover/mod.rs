//! The staged cutover: a source becomes a readable session in one step, or not
//! at all.
//!
//! A new session is prepared hidden, filled batch by batch, read back and
//! compared with what its reader drew up from the records alone, and only then
//! marked readable. A session that grows stays readable meanwhile: what it
//! will show is computed and compared before anything is appended.

mod grow;
mod job;
mod stage;

use job::Job;

use crate::claude_code::Identity;
use crate::error::ImportError;
use crate::format::{Format, Recognition};
use crate::lines::{Body, Lines};
use crate::outcome::{Outcome, Verdict, about_source};
use crate::probe::{NoProbe, Probe};
use crate::source::{FileSource, Source};
use folio_store::Store;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
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

#[cfg(test)]
mod tests {
    use super::job::Attempt;
    use super::*;
    use crate::claude_code::Manifest;
    use crate::import_ref::Mark;
    use crate::source::BytesSource;
    use folio_core::{Authority, SessionId};
    use folio_store::NewSession;
    use sha2::{Digest as _, Sha256};

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
