//! A new session: prepared hidden, filled, read back, compared and marked.

use super::job::{Attempt, Job, is_about_source, overtaken};
use crate::check;
use crate::claude_code::{Diagnostic, Manifest};
use crate::error::ImportError;
use crate::import_ref::Mark;
use crate::outcome::{MAX_DIAGNOSTICS, Outcome, Verdict, about_source};
use crate::pass::{Pass, Standing};
use crate::probe::CrashPoint;
use folio_core::{Authority, SessionId};
use folio_store::{AuthorityChange, NOTES, NewSession, SessionInfo, StoreError};
use sha2::{Digest as _, Sha256};

impl Job<'_> {
    pub(super) async fn begin_again(
        &self,
        info: &SessionInfo,
        n: u32,
    ) -> Result<Outcome, ImportError> {
        self.store
            .discard_session(&info.id, info.authority_rev)
            .await?;
        self.prepare(&info.id, n).await
    }

    /// Begins a new session.
    pub(super) async fn prepare(&self, id: &SessionId, n: u32) -> Result<Outcome, ImportError> {
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
    pub(super) async fn stage(
        &self,
        info: &SessionInfo,
        mark: &Mark,
        n: u32,
    ) -> Result<Attempt, ImportError> {
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
    pub(super) async fn read_back(
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
    pub(super) async fn shown(
        &self,
        id: &SessionId,
        pass: &Pass,
        manifest: &Manifest,
    ) -> Result<Vec<Diagnostic>, ImportError> {
        let pending = pass.pending();
        let (preview, notes) = (pass.preview(), pass.notes());
        let mut shown = check::rows(self.store, id, pass.appended(), preview, &pending).await?;
        shown.entries.extend_from_slice(notes);
        Ok(check::compare(manifest, shown))
    }

    pub(super) async fn reject(
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
}
