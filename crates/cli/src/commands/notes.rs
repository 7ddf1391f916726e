//! `folio notes`: the entries of a session's notes log, by the place where
//! they stand in the transcript.
//!
//! With `--json` one line for each: `{"seq","fact","chain"}`. `seq` is its
//! place in the log; `fact` has `id`, `op`, `anchor` (the ordinal of the event
//! that it stands behind), `kind`, `visible` (whether it is a row of the
//! transcript) and, where known, `ts`, `turnId` and `data`.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::select;
use crate::text::{hex, moment, one_line};
use folio_core::{Direction, Fact, Json, SessionId};
use folio_store::{ContributionQuery, NOTES, Store, StoreError, StoredFact};
use std::collections::VecDeque;

/// Notes of one read.
const SLICE: usize = 500;

/// The notes of a session in the order of their anchors, read bit by bit.
#[derive(Debug)]
pub struct Notes {
    session: SessionId,
    through: u64,
    after: Option<(u64, u64)>,
    /// How many were read.
    count: u64,
    ready: VecDeque<(StoredFact, Fact)>,
    done: bool,
}

impl Notes {
    /// The notes that there are now.
    pub async fn of(store: &dyn Store, session: &SessionId) -> Result<Self, Failure> {
        let status = store.contribution_status(session, NOTES).await?;
        Ok(Self {
            session: session.clone(),
            through: status.head,
            after: None,
            count: 0,
            ready: VecDeque::new(),
            done: status.head == 0,
        })
    }

    /// The next note, if its anchor is below `limit`.
    pub async fn next_below(
        &mut self,
        store: &dyn Store,
        limit: Option<u64>,
    ) -> Result<Option<(StoredFact, Fact)>, Failure> {
        if self.ready.is_empty() && !self.done {
            let query = ContributionQuery {
                through: self.through,
                direction: Direction::Newer,
                after: self.after,
                max_items: SLICE,
            };
            let facts = store.contributions(&self.session, NOTES, query).await?;
            self.done = facts.len() < SLICE;
            self.count += facts.len() as u64;
            if self.done && self.count != self.through {
                return Err(StoreError::facts_missing(NOTES, self.count, self.through).into());
            }
            for stored in facts {
                let fact = stored.fact()?;
                self.after = Some((fact.anchor, stored.seq));
                self.ready.push_back((stored, fact));
            }
        }
        let near = |(_, fact): &(StoredFact, Fact)| limit.is_none_or(|limit| fact.anchor < limit);
        if self.ready.front().is_some_and(near) {
            return Ok(self.ready.pop_front());
        }
        Ok(None)
    }
}

/// Runs the command.
pub async fn run(app: &mut App, session: &str) -> Result<Exit, Failure> {
    let store = app.reader()?;
    let info = select::session(&*store, session, app.out.json).await?;
    let mut notes = Notes::of(&*store, &info.id).await?;
    while let Some((stored, fact)) = notes.next_below(&*store, None).await? {
        let line = if app.out.json {
            format!(
                r#"{{"seq":{},"fact":{},"chain":"{}"}}"#,
                stored.seq,
                stored.body,
                hex(&stored.chain)
            )
        } else {
            readable(app, &fact)
        };
        app.out.line(&line)?;
    }
    Ok(Exit::Ok)
}

fn readable(app: &App, fact: &Fact) -> String {
    let at = fact.ts.as_ref().map_or(0, folio_core::Number::whole);
    let place = format!("after {:>7}  {:19}", fact.anchor, moment(at));
    let hidden = if fact.visible { "" } else { " (hidden)" };
    let mut text = format!("{}{hidden}", fact.kind);
    if let Some(data) = &fact.data {
        text.push_str("  ");
        text.push_str(&Json::as_text(data).map_or_else(|| data.to_string(), Into::into));
    }
    let room = app.out.width.saturating_sub(place.len() + 2);
    let text = one_line(&text, room);
    let place = app.out.paint(style::DIM, &place);
    format!("{place}  {text}")
}
