//! Events that go on wherever a history has brought a session: each is told in
//! a few small numbers, so that a failing history can be made smaller.

use crate::event::Events;
use crate::workload;
use folio_core::{CanonicalEvent, Field, Json, Role};
use std::sync::OnceLock;

/// One event of a batch.
#[derive(Debug, Clone)]
pub enum Part {
    /// An event made from numbers.
    New(Spec),
    /// So many next events of the session's random workload.
    Workload(u8),
    /// An event that the session has, as it was written.
    Again(u16),
    /// The id of an event that the session has, with another content.
    Clash(u16),
    /// What an import made of one record, in a run.
    Record(u8, u8),
    /// An event of any session, as it is there now: without its payload, if it
    /// has such.
    Copy(u8, u16),
}

/// An event, in numbers.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Tells its id from others.
    pub id: u32,
    /// Its run. Two runs share a turn.
    pub run: u8,
    /// Whether it names a turn that its run does not have.
    pub odd_turn: bool,
    /// What it says.
    pub shape: Shape,
    /// Which text it carries.
    pub words: u8,
}

/// What an event says. The numbers name messages, calls and requests of its
/// run's turn, few enough to meet again.
#[derive(Debug, Clone)]
pub enum Shape {
    /// The opening of a run.
    Opened(u8),
    /// A message of the person.
    User,
    /// A chunk of a message: text or thinking, and which part.
    Chunk(u8, bool, u8),
    /// The whole of such a part.
    Whole(u8, bool, u8),
    /// Thinking that was withheld.
    Mark(u8),
    /// A tool's call, whole or a chunk.
    Call(u8, u8, bool),
    /// A tool's result, whole or a chunk.
    Result(u8, bool),
    /// What a message has used.
    Usage(u8, u16),
    /// A request for permission for a call.
    Ask(u8, u8),
    /// The decision about a request.
    Decide(u8, bool),
    /// It replaces what another event of the session said.
    Revise(u16),
    /// Something rare.
    Odd(u8),
    /// The end of its run.
    End(u8),
}

/// The number of [`Shape::Odd`] events.
pub const ODDITIES: u8 = 6;
/// The number of texts.
pub const WORDS: u8 = 8;
/// The number of workloads that sessions are made from.
pub const WORKLOADS: u8 = 4;

/// The text of a number. The last one is so long that it is digested apart.
fn words(number: u8) -> String {
    const TEXTS: [&str; WORDS as usize - 1] = [
        "a",
        "",
        "two words",
        " \n",
        "日本語 👩\u{200d}👧 e\u{301}",
        "\"quoted\\\" \u{0}\u{7f}",
        "a sentence that is somewhat longer than the other ones are",
    ];
    match TEXTS.get(usize::from(number % WORDS)) {
        Some(text) => (*text).to_owned(),
        None => "long ".repeat(4_000),
    }
}

/// The events of a workload.
pub fn workload(number: u8) -> &'static [CanonicalEvent] {
    static MADE: [OnceLock<Vec<CanonicalEvent>>; WORKLOADS as usize] =
        [const { OnceLock::new() }; WORKLOADS as usize];
    let number = number % WORKLOADS;
    MADE[usize::from(number)].get_or_init(|| workload::random(u64::from(number), 400))
}

/// An event that has the id of another one and not its content.
pub fn clash(session: &str, id: &str) -> CanonicalEvent {
    let mut events = Events::new(session).run("clash", "clash");
    events.user(id, "another content")
}

/// The events that an import made of a record, the same whenever it is
/// repeated. The first one keeps the record.
pub fn record(session: &str, run: u8, record: u8) -> Vec<CanonicalEvent> {
    let mut events = Events::new(session).run(&format!("q{run}"), &format!("u{}", run / 2));
    let source = format!(",\"source\":{{\"record\":{record}}},\"sourceHoles\":[1]");
    [source.as_str(), ""]
        .into_iter()
        .zip(0..)
        .map(|(source, part)| {
            let id = format!("record-{run}-{record}-{part}");
            events.raw(&id, &format!("\"role\":\"user\",\"author\":\"user\",\"content\":{{\"kind\":\"text\",\"text\":\"part {part}\"}}{source}"))
        })
        .collect()
}

/// Makes an event for a session that has some already.
pub fn event(session: &str, spec: &Spec, there: &[&CanonicalEvent]) -> CanonicalEvent {
    let turn = match spec.odd_turn {
        true => "odd".to_owned(),
        false => format!("u{}", spec.run / 2),
    };
    let mut events = Events::new(session).run(&format!("q{}", spec.run), &turn);
    // The clock runs anyhow: order is by commit.
    events.at(1_700_000_000_000 + u64::from(spec.id % 5_000));
    let (id, text) = (format!("n{}", spec.id), words(spec.words));
    let json = Json::string(&text);
    let message = |number: u8| format!("p{number}");
    let tool = |number: u8| format!("tool_{number}");
    match spec.shape {
        Shape::Opened(source) => {
            let parent = format!("\"parentRunId\":\"q{}\"", spec.run.saturating_sub(1));
            match source % 4 {
                0 => events.opened(&id, "prompt", ""),
                1 => events.opened(&id, "continuation", &parent),
                2 => events.opened(&id, "retry", "\"retriedFromTurnId\":\"u0\""),
                _ => events.opened(&id, "agent", &format!("{parent},\"agentId\":\"helper\"")),
            }
        }
        Shape::User => events.user(&id, &text),
        Shape::Chunk(of, thinking, part) => model(&mut events, &id, &message(of), true, thinking, part, &json),
        Shape::Whole(of, thinking, part) => model(&mut events, &id, &message(of), false, thinking, part, &json),
        Shape::Mark(of) => events.raw(&id, &format!("\"role\":\"model\",\"author\":\"agent\",\"refs\":{{\"providerEventId\":\"{}\"}},\"content\":{{\"kind\":\"thinking\",\"text\":\"\",\"signature\":\"c2ln\"}}", message(of))),
        Shape::Call(number, step, partial) => events.raw(&id, &format!("\"role\":\"model\",\"author\":\"agent\",\"partial\":{partial},\"refs\":{{\"stepId\":\"{}\"}},\"content\":{{\"kind\":\"function_call\",\"id\":\"{}\",\"name\":\"Read\",\"args\":{{\"q\":{json}}}}}", message(step), tool(number))),
        Shape::Result(number, partial) => events.raw(&id, &format!("\"role\":\"tool\",\"author\":\"tool\",\"partial\":{partial},\"content\":{{\"kind\":\"function_response\",\"id\":\"{}\",\"name\":\"Read\",\"result\":{{\"kind\":\"text\",\"text\":{json}}}}}", tool(number))),
        Shape::Usage(of, input) => events.usage(&id, &message(of), input.into(), 7),
        Shape::Ask(request, number) => events.raw(&id, &format!("\"role\":\"system\",\"author\":\"host\",\"actions\":{{\"permissionRequest\":{{\"requestId\":\"ask_{request}\",\"toolUseId\":\"{}\",\"toolName\":\"Read\",\"hint\":{json}}}}}", tool(number))),
        Shape::Decide(request, allow) => {
            let decision = if allow { "allow" } else { "deny" };
            events.raw(&id, &format!("\"role\":\"user\",\"author\":\"user\",\"actions\":{{\"permissionDecision\":{{\"requestId\":\"ask_{request}\",\"decision\":\"{decision}\",\"rationale\":{json}}}}}"))
        }
        Shape::Revise(pick) => match at(there, pick) {
            Some(old) => revise(&mut events, &id, old, &json),
            None => events.user(&id, &text),
        },
        Shape::Odd(number) => {
            let members = match number % ODDITIES {
                0 => format!("\"role\":\"system\",\"author\":\"system\",\"content\":{{\"kind\":\"error\",\"message\":{json},\"code\":\"boom\"}}"),
                1 => format!("\"role\":\"system\",\"author\":\"system\",\"content\":{{\"kind\":\"compaction\",\"summary\":{json},\"throughOrdinal\":1,\"tokensBefore\":9}}"),
                2 => format!("\"role\":\"system\",\"author\":\"host\",\"content\":{{\"kind\":\"extension\",\"namespace\":\"acme\",\"name\":\"vote\",\"version\":1,\"criticality\":\"required\",\"payload\":{{\"x\":{json}}}}}"),
                3 => format!("\"role\":\"model\",\"author\":\"agent\",\"content\":{{\"kind\":\"hologram\",\"frames\":[{json}]}}"),
                4 => format!("\"role\":\"system\",\"author\":\"host\",\"status\":\"streaming\",\"actions\":{{\"stateDelta\":{{\"note\":{json}}}}},\"nonce\":\"00\""),
                _ => "\"role\":\"system\",\"author\":\"host\"".to_owned(),
            };
            events.raw(&id, &members)
        }
        Shape::End(how) => match how % 4 {
            0 => events.end(&id, "completed"),
            1 => events.raw(&id, "\"role\":\"system\",\"author\":\"system\",\"status\":\"failed\",\"actions\":{\"stateDelta\":{\"failureClass\":\"tool_step_cap_reached\"}}"),
            2 => events.raw(&id, &format!("\"role\":\"model\",\"author\":\"agent\",\"status\":\"completed\",\"refs\":{{\"providerEventId\":\"p0\"}},\"content\":{{\"kind\":\"text\",\"text\":{json}}}")),
            _ => events.end(&id, "aborted"),
        },
    }
}

/// One of several, by any number.
pub fn at<T: Copy>(several: &[T], pick: u16) -> Option<T> {
    let at = usize::from(pick).checked_rem(several.len())?;
    several.get(at).copied()
}

fn model(
    events: &mut Events,
    id: &str,
    message: &str,
    partial: bool,
    thinking: bool,
    part: u8,
    json: &Json,
) -> CanonicalEvent {
    let kind = if thinking { "thinking" } else { "text" };
    events.raw(id, &format!("\"role\":\"model\",\"author\":\"agent\",\"partial\":{partial},\"refs\":{{\"contentIndex\":{part},\"providerEventId\":\"{message}\"}},\"content\":{{\"kind\":\"{kind}\",\"text\":{json}}}"))
}

/// An event in the place of an older one, in the scope of that.
fn revise(events: &mut Events, id: &str, old: &CanonicalEvent, json: &Json) -> CanonicalEvent {
    let view = old.view();
    let of = |field| view.text(field).map(std::borrow::Cow::into_owned);
    let run = of(Field::ScopeRunId).unwrap_or_else(|| old.spine.run_id.as_str().to_owned());
    let turn = of(Field::ScopeTurnId).unwrap_or_else(|| old.spine.turn_id.as_str().to_owned());
    let revised = old.id.as_str();
    let refs =
        format!("\"revises\":\"{revised}\",\"scopeRunId\":\"{run}\",\"scopeTurnId\":\"{turn}\"");
    let tool = of(Field::CallId).unwrap_or_default();
    let members = match (&*view.kind(), view.role, of(Field::ProviderEventId)) {
        (kind @ ("text" | "thinking"), Role::Model, Some(message)) => {
            let part = view.raw(Field::ContentIndex).unwrap_or("0");
            format!(
                "\"role\":\"model\",\"author\":\"agent\",\"refs\":{{\"contentIndex\":{part},\"providerEventId\":\"{message}\",{refs}}},\"content\":{{\"kind\":\"{kind}\",\"text\":{json}}}"
            )
        }
        ("function_call", ..) => format!(
            "\"role\":\"model\",\"author\":\"agent\",\"refs\":{{{refs}}},\"content\":{{\"kind\":\"function_call\",\"id\":\"{tool}\",\"name\":\"Write\",\"args\":{json}}}"
        ),
        ("function_response", ..) => format!(
            "\"role\":\"tool\",\"author\":\"tool\",\"refs\":{{{refs}}},\"content\":{{\"kind\":\"function_response\",\"id\":\"{tool}\",\"name\":\"Read\",\"result\":{{\"kind\":\"text\",\"text\":{json}}}}}"
        ),
        _ => format!(
            "\"role\":\"user\",\"author\":\"user\",\"refs\":{{\"storedMessageId\":\"{revised}\",{refs}}},\"content\":{{\"kind\":\"text\",\"text\":{json}}}"
        ),
    };
    events.raw(id, &members)
}
