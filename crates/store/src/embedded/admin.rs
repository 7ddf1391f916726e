//! Forks, erasures, checks.

use super::Embedded;
use super::ledger::authority_changed;
use crate::engine::{Capabilities, Engine, Erase, Writes};
use crate::port::{Admin, Redaction, Scrub, SessionInfo, VerifyReport};
use crate::rows::{ScrubRow, SessionRow};
use crate::{StoreError, blob, care, erase, fork, redact};
use async_trait::async_trait;
use folio_core::SessionId;

impl<E: Engine> Embedded<E> {
    /// Deletes a session that passes a check.
    pub(super) async fn delete(
        &self,
        id: &SessionId,
        check: impl Fn(&SessionRow) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let id = id.clone();
        let log_no = self
            .write(move |txn, engine| {
                let is_alive = |owner| engine.is_alive(owner);
                erase::disown(txn, &id, &check, &is_alive, engine.now())
            })
            .await?;
        self.trim(Some(log_no)).await
    }

    /// Removes what the logs of deleted sessions hold, until nothing is left
    /// to do: of all of them, or of one and those that it alone was keeping.
    async fn trim(&self, mut only: Option<u64>) -> Result<(), StoreError> {
        loop {
            let scrubs = self.read(|snapshot| snapshot.scrubs())?;
            let next = scrubs.into_iter().find(|scrub| match only {
                Some(log_no) => scrub.log_no == log_no,
                None => scrub.log_no != 0,
            });
            match (next, only) {
                (Some(scrub), _) => while self.trim_step(scrub).await? {},
                // What it alone was keeping has rows of its own.
                (None, Some(_)) => only = None,
                (None, None) => return Ok(()),
            }
        }
    }

    /// One slice, so that other writers go on in between.
    async fn trim_step(&self, scrub: ScrubRow) -> Result<bool, StoreError> {
        self.write(move |txn, engine| erase::trim(txn, &scrub, engine.now()))
            .await
    }

    /// Removes blobs that nobody cites or is about to; answers how many.
    async fn collect_blobs(&self) -> Result<u64, StoreError> {
        let mut count = 0;
        let mut after = 0;
        loop {
            let (removed, next) = self
                .write(move |txn, engine| {
                    let is_alive = |owner| engine.is_alive(owner);
                    blob::collect_stages(txn, after, &is_alive, engine.now())
                })
                .await?;
            count += removed;
            let Some(next) = next else { break };
            after = next;
        }
        let mut after = None;
        loop {
            let (removed, next) = self
                .write(move |txn, engine| {
                    let is_alive = |owner| engine.is_alive(owner);
                    blob::collect(txn, after.as_ref(), &is_alive, engine.now())
                })
                .await?;
            count += removed;
            if next.is_none() {
                return Ok(count);
            }
            after = next;
        }
    }
}

#[async_trait]
impl<E: Engine> Admin for Embedded<E> {
    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    async fn fork_session(
        &self,
        parent: &SessionId,
        at: u64,
        child: SessionId,
    ) -> Result<SessionInfo, StoreError> {
        let parent = parent.clone();
        self.write(move |txn, engine| {
            fork::fork(txn, &parent, at, &child, engine.now(), engine.random())
        })
        .await
    }

    async fn delete_session(
        &self,
        id: &SessionId,
        expected_rev: Option<u64>,
    ) -> Result<(), StoreError> {
        self.delete(id, move |session| match expected_rev {
            Some(rev) if rev != session.authority_rev => Err(authority_changed(session)),
            _ => Ok(()),
        })
        .await
    }

    async fn redact(&self, id: &SessionId, keys: &[String]) -> Result<Redaction, StoreError> {
        let (id, keys) = (id.clone(), keys.to_vec());
        self.write(move |txn, engine| redact::redact(txn, &id, &keys, engine.now()))
            .await
    }

    async fn pending_erasures(&self) -> Result<u64, StoreError> {
        self.read(|snapshot| Ok(snapshot.scrubs()?.len() as u64))
    }

    async fn scrub(&self) -> Result<Scrub, StoreError> {
        self.trim(None).await?;
        let blobs = self.collect_blobs().await?;
        let mut pending = self.read(|snapshot| snapshot.scrubs())?;
        // A deletion that began meanwhile still has rows to remove.
        pending.retain(|scrub| scrub.log_no == 0);
        if pending.is_empty() {
            return Ok(Scrub::default());
        }
        self.writer.alone(Engine::rewrite).await?;
        let completed = pending.len() as u64;
        // What was erased since then waits for the next rewrite.
        self.write(move |txn, _| {
            txn.apply(&Writes {
                erase: pending
                    .iter()
                    .map(|scrub| Erase::Scrub(scrub.seq))
                    .collect(),
                ..Writes::default()
            })
        })
        .await?;
        Ok(Scrub { completed, blobs })
    }

    async fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError> {
        self.read(|snapshot| care::verify(snapshot, id.as_str()))
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.engine.check()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.stop();
        Ok(())
    }
}
