//! Counts of a session, folded from its stored events and notes.

use folio_codec::Digest;
use folio_core::reduce::row_type;
use folio_core::{Direction, EventView, Field, Role, SessionId, Status};
use folio_store::{
    ContributionQuery, ItemQuery, NOTES, RangeQuery, Start, Store, StoreError, StoredEvent,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Rows of one slice.
const SLICE: usize = 1_000;
/// Bytes of one slice.
const SLICE_BYTES: usize = 8 << 20;

/// Tokens, in disjoint buckets; `reasoning` is a part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the prompt: neither read from nor written to a cache.
    pub input: u64,
    /// Of the answer.
    pub output: u64,
    /// Of the prompt: read from a cache.
    pub cache_read: u64,
    /// Of the prompt: written to a cache.
    pub cache_write: u64,
    /// Of the answer: reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// The buckets of a usage fact. Maka's `input` is the whole prompt, so
    /// what the caches took is taken off, unless the rest is given.
    fn of(view: &EventView<'_>) -> Self {
        let first = |fields: [Field; 2]| {
            fields
                .into_iter()
                .find(|field| view.raw(*field).is_some())
                .map_or(0, |f| view.whole(f))
        };
        let cache_read = first([Field::UsageCacheHitInput, Field::UsageCacheRead]);
        let cache_write = first([Field::UsageCacheWriteInput, Field::UsageCacheCreation]);
        let input = match view.raw(Field::UsageCacheMissInput) {
            Some(_) => view.whole(Field::UsageCacheMissInput),
            None => view
                .whole(Field::UsageInput)
                .saturating_sub(cache_read + cache_write),
        };
        Self {
            input,
            output: view.whole(Field::UsageOutput),
            cache_read,
            cache_write,
            reasoning: view.whole(Field::UsageReasoning),
        }
    }

    fn take(&mut self, other: Self) {
        self.input = self.input.saturating_sub(other.input);
        self.output = self.output.saturating_sub(other.output);
        self.cache_read = self.cache_read.saturating_sub(other.cache_read);
        self.cache_write = self.cache_write.saturating_sub(other.cache_write);
        self.reasoning = self.reasoning.saturating_sub(other.reasoning);
    }

    fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// Turns by how they began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turns {
    /// Opened by a person's prompt or slash command.
    pub total: u64,
    /// Opened by anything else.
    pub unprompted: u64,
    /// Of all: ended as intended.
    pub completed: u64,
    /// Of all: ended by a failure.
    pub failed: u64,
    /// Of all: stopped.
    pub aborted: u64,
    /// Of all: their latest run has no end.
    pub open: u64,
}

/// What a fork shares with the session it was forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inherited {
    /// Events.
    pub events: u64,
    /// Messages typed by a person.
    pub user_messages: u64,
    /// Distinct messages of the model.
    pub assistant_messages: u64,
    /// Distinct calls that the model issued.
    pub tool_calls: u64,
    /// The usage that is the other session's.
    pub usage: Usage,
}

/// Counts of a session.
///
/// They are folded from events and notes whenever they are asked for, and
/// never remembered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// The session.
    pub session_id: String,
    /// Events that were read.
    pub events: u64,
    /// The head.
    pub high_water: u64,
    /// Rows by type, visible notes included.
    pub rows: BTreeMap<String, u64>,
    /// Messages typed by a person, those delivered to a running turn and
    /// slash commands left out.
    pub user_messages: u64,
    /// Distinct messages of the model.
    pub assistant_messages: u64,
    /// Final thoughts, unreadable ones included.
    pub thinking_blocks: u64,
    /// Distinct calls that the model issued.
    pub tool_calls: u64,
    /// Distinct calls that were answered.
    pub tool_results: u64,
    /// Of these: with an error.
    pub tool_errors: u64,
    /// Of these: without a call in the session.
    pub orphan_tool_results: u64,
    /// Calls without an answer in the session.
    pub unanswered_tool_calls: u64,
    /// Turns.
    pub turns: Turns,
    /// The session's own usage; what it inherited is not in it.
    pub usage: Usage,
    /// Of all that is counted here but for `usage`: inherited. Nothing where
    /// the session is no fork.
    pub inherited: Inherited,
    /// Times that the model's history was replaced by a summary.
    pub compactions: u64,
    /// The chain at the head.
    pub chain: Digest,
}

impl Stats {
    /// Folds a session.
    ///
    /// # Errors
    /// Those of the reads; `projection_gap` where events are missing.
    pub async fn of(store: &dyn Store, id: &SessionId) -> Result<Self, StoreError> {
        let info = store.session(id).await?;
        let mut fold = Fold::default();
        let mut inherited = Inherited::default();
        let mut events = 0;
        let mut from = 1;
        while from <= info.head {
            let query = RangeQuery {
                from,
                to: info.head,
                max_count: SLICE,
                max_bytes: SLICE_BYTES,
            };
            for event in store.range(id, query).await? {
                fold.event(&event)?;
                from = event.ordinal + 1;
                events += 1;
                if event.ordinal == info.inherited {
                    inherited = fold.so_far(events);
                }
            }
        }
        let mut stats = fold.finish();
        // A revision of what the other session was billed for counts here by
        // what it adds.
        stats.usage.take(inherited.usage);
        stats.inherited = inherited;
        stats.session_id = id.as_str().to_owned();
        stats.events = events;
        stats.high_water = info.head;
        stats.chain = info.chain;
        stats.rows = rows(store, id, info.head).await?;
        Ok(stats)
    }
}

/// Rows by type at a watermark, visible notes included.
async fn rows(
    store: &dyn Store,
    id: &SessionId,
    through: u64,
) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut rows: BTreeMap<String, u64> = [
        "user",
        "assistant",
        "tool_call",
        "tool_result",
        "permission_decision",
        "token_usage",
        "turn_state",
        "system_note",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), 0))
    .collect();
    let mut start = Start::Edge;
    loop {
        let query = ItemQuery {
            through: Some(through),
            direction: Direction::Newer,
            start,
            max_items: SLICE,
            max_bytes: SLICE_BYTES,
            member_bytes: 0,
        };
        let page = store.read_items(id, query).await?;
        for loaded in &page.items {
            let name = row_type(loaded.item.kind, loaded.item.position.slot);
            *rows.entry(name.to_owned()).or_default() += 1;
        }
        match page.items.last() {
            Some(last) if page.more => start = Start::Behind(last.item.position),
            _ => break,
        }
    }
    let head = store.contribution_status(id, NOTES).await?.head;
    let mut after = None;
    let mut notes = 0;
    loop {
        let query = ContributionQuery {
            through: head,
            direction: Direction::Newer,
            after,
            max_items: SLICE,
        };
        let facts = store.contributions(id, NOTES, query).await?;
        let count = facts.len();
        notes += count as u64;
        for stored in facts {
            let fact = stored.fact()?;
            after = Some((fact.anchor, stored.seq));
            if fact.visible {
                *rows.entry("system_note".to_owned()).or_default() += 1;
            }
        }
        if count < SLICE {
            break;
        }
    }
    if notes == head {
        Ok(rows)
    } else {
        Err(StoreError::facts_missing(NOTES, notes, head))
    }
}

/// How a turn stands.
#[derive(Debug, Default)]
struct Turn {
    prompted: Option<bool>,
    latest_run: u32,
    end: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Fold {
    stats: Stats,
    messages: HashSet<String>,
    calls: HashSet<String>,
    own_calls: HashSet<String>,
    results: HashMap<String, bool>,
    usage: HashMap<(String, String), Usage>,
    turns: HashMap<String, Turn>,
    /// Runs that are not part of the transcript: their turns count once,
    /// through the run that started them.
    children: BTreeSet<u32>,
}

impl Fold {
    fn event(&mut self, event: &StoredEvent) -> Result<(), StoreError> {
        let view = event.view()?;
        let kind = view.kind();
        if event.event_seq == 1 && view.raw(Field::ParentRunId).is_some() {
            self.children.insert(event.run_no);
        }
        let inline = !self.children.contains(&event.run_no);
        if inline {
            self.turn(event, &view, &kind);
        }
        if view.partial {
            return Ok(());
        }
        match (&*kind, view.role) {
            ("text", Role::User) if inline && typed_by_a_person(&view) => {
                self.stats.user_messages += 1;
            }
            ("text" | "thinking", Role::Model) => {
                self.message(folio_core::claims::stable_id(&view).into_owned());
                if kind == "thinking" {
                    self.stats.thinking_blocks += 1;
                }
            }
            ("function_call", _) => {
                if let Some(step) = view.text(Field::StepId) {
                    self.message(step.into_owned());
                }
                let id = view.text(Field::CallId).unwrap_or_default().into_owned();
                let issued_by_model = view.raw(Field::ParentToolCallId).is_none()
                    && !view.is_true(Field::ProviderExecuted);
                if issued_by_model {
                    self.own_calls.insert(id.clone());
                }
                self.calls.insert(id);
            }
            ("function_response", _) => {
                let id = view.text(Field::CallId).unwrap_or_default().into_owned();
                let failed = self.results.entry(id).or_default();
                *failed |= view.is_true(Field::IsError);
            }
            ("compaction", _) => self.stats.compactions += 1,
            _ => {}
        }
        if view.raw(Field::Usage).is_some() {
            // A later fact of one message revises the earlier one.
            let run = view.text(Field::ScopeRunId);
            let run = run
                .as_deref()
                .unwrap_or(event.spine.run_id.as_str())
                .to_owned();
            if let Some(message) = view.text(Field::ProviderEventId) {
                self.message(message.into_owned());
            }
            let message = folio_core::claims::stable_id(&view).into_owned();
            self.usage.insert((run, message), Usage::of(&view));
        }
        Ok(())
    }

    fn message(&mut self, id: String) {
        self.messages.insert(id);
    }

    fn turn(&mut self, event: &StoredEvent, view: &EventView<'_>, kind: &str) {
        let turn = self
            .turns
            .entry(event.spine.turn_id.as_str().to_owned())
            .or_default();
        if event.run_no > turn.latest_run {
            turn.latest_run = event.run_no;
            turn.end = None;
        }
        let opening = matches!(kind, "run_opened" | "invocation_opened");
        if turn.prompted.is_none() && !opening {
            turn.prompted = Some(
                kind == "text"
                    && view.role == Role::User
                    && !view.is_true(Field::Steering)
                    && matches!(
                        view.text(Field::TurnOriginKind).as_deref(),
                        None | Some("slash_command")
                    ),
            );
        }
        if view.is_terminal() && event.run_no == turn.latest_run {
            turn.end = Some(match view.status {
                Some(Status::Failed) => "failed",
                Some(Status::Aborted | Status::Cancelled) => "aborted",
                _ => "completed",
            });
        }
    }

    /// The counts of the events that were folded until now.
    fn so_far(&self, events: u64) -> Inherited {
        let mut usage = Usage::default();
        for one in self.usage.values() {
            usage.add(*one);
        }
        Inherited {
            events,
            user_messages: self.stats.user_messages,
            assistant_messages: self.messages.len() as u64,
            tool_calls: self.own_calls.len() as u64,
            usage,
        }
    }

    fn finish(self) -> Stats {
        let mut stats = self.stats;
        stats.assistant_messages = self.messages.len() as u64;
        stats.tool_calls = self.own_calls.len() as u64;
        stats.tool_results = self.results.len() as u64;
        stats.tool_errors = self.results.values().filter(|failed| **failed).count() as u64;
        stats.orphan_tool_results = self
            .results
            .keys()
            .filter(|id| !self.calls.contains(*id))
            .count() as u64;
        stats.unanswered_tool_calls = self
            .own_calls
            .iter()
            .filter(|id| !self.results.contains_key(*id))
            .count() as u64;
        for usage in self.usage.into_values() {
            stats.usage.add(usage);
        }
        for turn in self.turns.into_values() {
            if turn.prompted == Some(true) {
                stats.turns.total += 1;
            } else {
                stats.turns.unprompted += 1;
            }
            match turn.end {
                Some("failed") => stats.turns.failed += 1,
                Some("aborted") => stats.turns.aborted += 1,
                Some(_) => stats.turns.completed += 1,
                None => stats.turns.open += 1,
            }
        }
        stats
    }
}

/// Whether a person typed it: not queued for a running turn, not a command,
/// not another agent.
fn typed_by_a_person(view: &EventView<'_>) -> bool {
    !view.is_true(Field::Steering) && view.raw(Field::TurnOrigin).is_none()
}
