//! A session that is there: what is new in its source, if it is its source.

use super::job::{Attempt, Extent, Job};
use super::{SLICE_BYTES, failed};
use crate::check;
use crate::claude_code::Diagnostic;
use crate::error::ImportError;
use crate::import_ref::ImportRef;
use crate::lineless;
use crate::outcome::{Outcome, Verdict, about_source};
use crate::pass::{Batch, Held, Pass, Standing};
use crate::probe::CrashPoint;
use folio_codec::EMPTY_CHAIN;
use folio_core::{Direction, SessionId};
use folio_store::{ContributionQuery, NOTES, SessionInfo};
use std::cmp::Ordering as Cmp;
use std::sync::atomic::Ordering;

impl Job<'_> {
    /// Goes on with a readable session, if the source extends or repeats what
    /// it was made from.
    pub(super) async fn grow(
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
    pub(super) async fn increment(
        &self,
        id: &SessionId,
        pass: &Pass,
    ) -> Result<Vec<Diagnostic>, ImportError> {
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
    pub(super) async fn ended_early(
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
    pub(super) async fn is_prefix(
        &self,
        info: &SessionInfo,
        pass: &Pass,
    ) -> Result<bool, ImportError> {
        let head = pass.head();
        if head > info.head {
            return Ok(false);
        }
        if head > 0 {
            let events = self.store.events(&info.id, &[head]).await?;
            if events
                .first()
                .is_none_or(|event| event.chain != Some(pass.chain()))
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
    pub(super) async fn held_otherwise(
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
    pub(super) async fn extent_without_lines(
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
    pub(super) fn is_ours(&self, record: &ImportRef) -> bool {
        record.translator_version == u64::from(self.format.translator_version())
    }

    /// The source is the same, and this build would translate it otherwise.
    pub(super) async fn translated_otherwise(
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

    pub(super) async fn unchanged(
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
    pub(super) fn diverged(&self, info: &SessionInfo) -> Outcome {
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
}
