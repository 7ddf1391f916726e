//! Which item an event speaks for, live and rebuilt.
//!
//! A test is a list of events and the rows that must come of them. [`check`]
//! replays the list one event at a time, compares the rows, and then proves
//! for every watermark that a reader of the longer log sees what a reader of
//! the prefix saw, and that a rebuild, which asks a directory that answers in
//! another order and knows later events already, comes to the same items.
//!
//! A row is written as `key @ordinal.slot rREVISION #id members`: slot 0 is
//! left out, and so are turn, time and an unknown model; quotes are single.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use folio_core::assign::{
    Assigned, Directory, OpenRun, Placed, Tail, WaitingMark, assign, remember_request,
};
use folio_core::claims::claims;
use folio_core::diagnostic::Code;
use folio_core::item::{Lane, LanePart};
use folio_core::key::{ItemKind, base_key};
use folio_core::reduce::{Material, RunFacts, json_row};
use folio_core::{CanonicalEvent, EventView, Field, Item, Json, Position, RuntimeEvent, Spine};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

// ---------------------------------------------------------------------------
// Events, in a word each.

/// An event under construction; its id and time come from its ordinal.
#[derive(Clone)]
struct Ev {
    id: Option<String>,
    run: &'static str,
    turn: &'static str,
    role: &'static str,
    partial: bool,
    status: Option<&'static str>,
    content: String,
    actions: Vec<String>,
    delta: Vec<String>,
    refs: Vec<(&'static str, String)>,
}

fn ev(role: &'static str, content: String) -> Ev {
    Ev {
        id: None,
        run: "r1",
        turn: "t1",
        role,
        partial: false,
        status: None,
        content,
        actions: Vec::new(),
        delta: Vec::new(),
        refs: Vec::new(),
    }
}

impl Ev {
    fn id(mut self, id: &str) -> Self {
        self.id = Some(id.into());
        self
    }
    fn run(mut self, run: &'static str) -> Self {
        self.run = run;
        self
    }
    fn turn(mut self, turn: &'static str) -> Self {
        self.turn = turn;
        self
    }
    fn by(self, name: &'static str, value: &str) -> Self {
        self.raw_ref(name, Json::string(value).as_str().into())
    }
    fn raw_ref(mut self, name: &'static str, raw: String) -> Self {
        self.refs.retain(|(known, _)| *known != name);
        self.refs.push((name, raw));
        self
    }
    fn step(self, step: &str) -> Self {
        self.by("stepId", step)
    }
    fn op(self, operation: &str) -> Self {
        self.by("operationId", operation)
    }
    fn part(self, index: u32) -> Self {
        self.raw_ref("contentIndex", index.to_string())
    }
    fn revises(self, event: &str) -> Self {
        self.by("revises", event)
    }
    fn partial(mut self) -> Self {
        self.partial = true;
        self
    }
    fn action(mut self, member: &str) -> Self {
        self.actions.push(member.into());
        self
    }
    fn delta(mut self, member: &str) -> Self {
        self.delta.push(member.into());
        self
    }
    fn ends(mut self, status: &'static str) -> Self {
        self.status = Some(status);
        self
    }

    fn build(&self, ordinal: u64) -> CanonicalEvent {
        let id = self.id.clone().unwrap_or_else(|| format!("e{ordinal}"));
        let mut text = format!(
            r#"{{"id":{},"sessionId":"s","invocationId":"{}","runId":"{}","turnId":"{}","ts":{},"partial":{},"role":"{}","author":"agent""#,
            Json::string(&id).as_str(),
            self.run,
            self.run,
            self.turn,
            1_000 + ordinal,
            self.partial,
            self.role
        );
        if let Some(status) = self.status {
            write!(text, r#","status":"{status}""#).unwrap();
        }
        if !self.content.is_empty() {
            write!(text, r#","content":{{{}}}"#, self.content).unwrap();
        }
        let mut actions = self.actions.clone();
        if !self.delta.is_empty() {
            actions.push(format!(r#""stateDelta":{{{}}}"#, self.delta.join(",")));
        }
        if !actions.is_empty() {
            write!(text, r#","actions":{{{}}}"#, actions.join(",")).unwrap();
        }
        if !self.refs.is_empty() {
            let refs: Vec<_> = self
                .refs
                .iter()
                .map(|(name, raw)| format!("\"{name}\":{raw}"))
                .collect();
            write!(text, r#","refs":{{{}}}"#, refs.join(",")).unwrap();
        }
        text.push('}');
        let event = RuntimeEvent::from_json(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        CanonicalEvent::new(&event).unwrap()
    }
}

fn content(kind: &str, text: &str) -> String {
    let text = Json::string(text);
    format!(r#""kind":"{kind}","text":{}"#, text.as_str())
}
fn user(text: &str) -> Ev {
    ev("user", content("text", text))
}
fn steer(text: &str) -> Ev {
    ev("user", content("text", text) + r#","steering":true"#)
}
/// The whole of a message's text.
fn text(message: &str, text: &str) -> Ev {
    ev("model", content("text", text)).by("providerEventId", message)
}
/// A chunk of it.
fn chunk(message: &str, words: &str) -> Ev {
    text(message, words).partial()
}
/// The whole of a message's reasoning.
fn thought(message: &str, text: &str) -> Ev {
    ev("model", content("thinking", text)).by("providerEventId", message)
}
/// A chunk of it.
fn musing(message: &str, words: &str) -> Ev {
    thought(message, words).partial()
}
fn call(id: &str) -> Ev {
    let id = Json::string(id);
    let id = id.as_str();
    ev(
        "model",
        format!(r#""kind":"function_call","id":{id},"name":"Read","args":{{}}"#),
    )
}
fn answer(id: &str, text: &str) -> Ev {
    let (id, text) = (Json::string(id), Json::string(text));
    let (id, text) = (id.as_str(), text.as_str());
    ev(
        "tool",
        format!(
            r#""kind":"function_response","id":{id},"name":"Read","result":{{"kind":"text","text":{text}}}"#
        ),
    )
}
/// A result that stands in for one that never came.
fn closer(id: &str) -> Ev {
    answer(id, "unknown").delta(r#""closer":"tool_outcome_unknown""#)
}
fn ask(request: &str, tool: &str) -> Ev {
    ev("system", String::new()).action(&format!(
        r#""permissionRequest":{{"requestId":"{request}","toolUseId":"{tool}","toolName":"Bash","hint":"why"}}"#
    ))
}
fn decide(request: &str) -> Ev {
    let request = Json::string(request);
    ev("user", String::new()).action(&format!(
        r#""permissionDecision":{{"requestId":{},"decision":"allow"}}"#,
        request.as_str()
    ))
}
fn usage(message: &str, input: u64) -> Ev {
    ev("system", String::new())
        .by("providerEventId", message)
        .action(&format!(r#""tokenUsage":{{"input":{input},"output":1}}"#))
}
fn end() -> Ev {
    ev("system", String::new()).ends("completed")
}
fn opened(extra: &str) -> Ev {
    ev(
        "system",
        format!(
            r#""kind":"run_opened","route":{{"modelId":"big"}},"configuration":{{}},"root":{{"kind":"user"}}{extra}"#
        ),
    )
}

// ---------------------------------------------------------------------------
// A log in memory.

/// How a directory answers; what it answers is the same.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// As a writer's: in order, and no event is known before its time.
    Live,
    /// As a rebuild's: in another order, and every event is known.
    Rebuilt,
}

struct Run {
    spine: Spine,
    inline: bool,
    output: bool,
    ended: bool,
    facts: RunFacts,
}

struct Log {
    mode: Mode,
    events: Vec<CanonicalEvent>,
    items: Vec<Item>,
    ordinals: BTreeMap<String, u64>,
    chunks: BTreeMap<(Position, LanePart), Vec<u64>>,
    runs: Vec<Run>,
    tail: Tail,
    odd: Vec<(u64, Code)>,
}

impl Directory for Log {
    fn incarnations(&self, base: &str) -> Vec<Item> {
        let mut found: Vec<_> = self
            .items
            .iter()
            .filter(|item| item.base() == base)
            .cloned()
            .collect();
        if self.mode == Mode::Rebuilt {
            found.reverse();
        }
        found
    }
    fn ordinal_of(&self, event_id: &str) -> Option<u64> {
        self.ordinals.get(event_id).copied()
    }
}

/// A row at a watermark, with everything that must not differ.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    position: Position,
    key: String,
    revision: u64,
    row: String,
}

impl Log {
    fn new(mode: Mode, events: &[CanonicalEvent]) -> Self {
        let mut log = Self {
            mode,
            events: Vec::new(),
            items: Vec::new(),
            ordinals: BTreeMap::new(),
            chunks: BTreeMap::new(),
            runs: Vec::new(),
            tail: Tail::default(),
            odd: Vec::new(),
        };
        if mode == Mode::Rebuilt {
            log.ordinals = (1..)
                .zip(events)
                .map(|(ordinal, event)| (event.id.as_str().to_owned(), ordinal))
                .collect();
        }
        for event in events {
            log.append(event);
        }
        log
    }

    /// Opens the run of an event, as every writer does.
    fn enter(&mut self, event: &CanonicalEvent) -> u32 {
        let known = self.runs.iter().position(|run| run.spine == event.spine);
        if let Some(at) = known {
            assert!(!self.runs[at].ended, "{} comes too late", event.id);
            return u32::try_from(at + 1).unwrap();
        }
        let view = event.view();
        let turn_id = event.spine.turn_id.clone();
        let child = view.raw(Field::ParentRunId).is_some()
            && !(view.raw(Field::SourceKind) == Some("\"continuation\"")
                && view.raw(Field::LineageAgentId).is_none());
        let before = self.runs.iter().rev();
        let before = before
            .filter(|run| run.spine.turn_id == turn_id)
            .any(|run| run.output);
        let facts = if view.kind() == "run_opened" {
            RunFacts::of_opening(&view, turn_id.as_str())
        } else {
            RunFacts {
                turn_id: turn_id.as_str().into(),
                ..RunFacts::default()
            }
        };
        self.runs.push(Run {
            spine: event.spine.clone(),
            inline: !child,
            output: false,
            ended: false,
            facts,
        });
        let run_no = u32::try_from(self.runs.len()).unwrap();
        let open = self.tail.runs.iter().find(|run| run.turn_id == turn_id);
        let output = open.map_or(before, |run| run.output);
        self.tail.runs.push(OpenRun {
            run_no,
            next_seq: 1,
            turn_id,
            inline: !child,
            output,
        });
        run_no
    }

    fn append(&mut self, event: &CanonicalEvent) -> Assigned {
        let run_no = self.enter(event);
        let ordinal = self.events.len() as u64 + 1;
        let view = event.view();
        let inline = self.runs[run_no as usize - 1].inline;
        self.ordinals.insert(event.id.as_str().into(), ordinal);
        let claims = claims(&view, &event.spine, inline);
        let placed = Placed {
            ordinal,
            run_no,
            ts: view.ts,
            weight: view.weight(),
        };
        let mut tail = std::mem::take(&mut self.tail);
        let assigned = assign(&claims, &placed, &mut tail, self);
        if let Some(id) = view.text(Field::RequestId).filter(|_| inline) {
            let tool = view.text(Field::RequestToolUseId).unwrap_or_default();
            let turn = event.spine.turn_id.as_str();
            let base = base_key(ItemKind::Call, turn, &tool);
            remember_request(&mut tail, &id, Some(base), &placed);
        }
        if view.is_terminal() {
            let open = tail.close_run(run_no);
            let run = &mut self.runs[run_no as usize - 1];
            run.output = open.is_some_and(|open| open.output);
            run.ended = true;
        }
        self.tail = tail;
        for item in &assigned.items {
            let mut item = item.clone();
            match self.items.iter().position(|known| known.key == item.key) {
                Some(at) => {
                    assert_eq!(item.number, self.items[at].number, "{}", item.key);
                    assert_eq!(item.position, self.items[at].position, "{}", item.key);
                    self.items[at] = item;
                }
                None => {
                    assert_eq!(item.number, 0, "{} is new", item.key);
                    item.number = self.items.len() as u64 + 1;
                    self.items.push(item);
                }
            }
        }
        if let Some(chunk) = assigned.chunk {
            let lane = (chunk.position, (chunk.lane, chunk.index));
            self.chunks.entry(lane).or_default().push(ordinal);
        }
        let odd = assigned.diagnostics.iter().map(|code| (ordinal, *code));
        self.odd.extend(odd);
        self.events.push(event.clone());
        assigned
    }

    fn view(&self, ordinal: u64) -> EventView<'_> {
        self.events[usize::try_from(ordinal).unwrap() - 1].view()
    }

    /// All rows at a watermark, in order.
    fn rows(&self, through: u64) -> Vec<Shown> {
        let mut items: Vec<_> = self
            .items
            .iter()
            .filter(|item| item.position.ordinal <= through)
            .collect();
        items.sort_by_key(|item| item.position);
        items
            .into_iter()
            .map(|item| self.show(item, through))
            .collect()
    }

    fn show(&self, item: &Item, through: u64) -> Shown {
        let events: Vec<_> = item
            .ordinals(through)
            .into_iter()
            .map(|ordinal| (ordinal, self.view(ordinal)))
            .collect();
        let mut last_chunk = None;
        let mut chunks = Vec::new();
        for lane in item.open_lanes(through) {
            let of_lane = self.chunks.get(&(item.position, lane));
            let ordinals: Vec<u64> = of_lane
                .into_iter()
                .flatten()
                .copied()
                .filter(|ordinal| *ordinal <= through)
                .collect();
            last_chunk = last_chunk.max(ordinals.last().copied());
            let views = ordinals.iter().map(|ordinal| self.view(*ordinal));
            chunks.push((lane, views.collect()));
        }
        let run = &self.runs[item.run_no as usize - 1];
        let material = Material {
            item: item.borrowed(),
            through,
            run: &run.facts,
            events: &events,
            chunks: &chunks,
        };
        let row = json_row(&material).and_then(|row| row.into_whole().ok_or(0));
        let row = row.unwrap_or_else(|ordinal| panic!("{} lacks {ordinal}", item.key));
        Json::parse(&row).unwrap_or_else(|error| panic!("{error}: {row}"));
        Shown {
            position: item.position,
            key: item.key.to_string(),
            revision: item.revision_at(through, last_chunk),
            row,
        }
    }
}

/// A row in one line, as the tests write it.
fn line(shown: &Shown) -> String {
    let Shown {
        position: Position { ordinal, slot },
        key,
        revision,
        row,
    } = shown;
    let json = Json::parse(row).unwrap();
    let object = json.as_object().unwrap();
    let mut out = format!("{key} @{ordinal}");
    if *slot > 0 {
        write!(out, ".{slot}").unwrap();
    }
    write!(out, " r{revision} #{}", object.text("id").unwrap()).unwrap();
    for (name, raw) in object.iter() {
        if !matches!(name, "type" | "id" | "turnId" | "ts")
            && (name, raw) != ("modelId", "\"unknown\"")
        {
            write!(out, " {name}={}", raw.replace('"', "'")).unwrap();
        }
    }
    out
}

fn build(events: &[Ev]) -> Vec<CanonicalEvent> {
    (1..)
        .zip(events)
        .map(|(ordinal, event)| event.build(ordinal))
        .collect()
}

/// What must hold whatever the events are: snapshots never change, a rebuild
/// agrees, and keys and positions are unique and bounded.
fn check_laws(events: &[CanonicalEvent]) -> Log {
    let log = Log::new(Mode::Live, events);
    for through in 0..=events.len() {
        let prefix = Log::new(Mode::Live, &events[..through]);
        let through = through as u64;
        let (now, then) = (log.rows(through), prefix.rows(through));
        assert_eq!(now, then, "the rows at watermark {through} have changed");
        for shown in &now {
            let Position { ordinal, .. } = shown.position;
            assert!((ordinal..=through).contains(&shown.revision), "{shown:?}");
            let ts = format!("\"ts\":{}", 1_000 + ordinal);
            assert!(shown.row.contains(&ts), "the time is the first one's");
            assert!(shown.key.len() <= 192, "{}", shown.key);
        }
        let positions: BTreeSet<_> = now.iter().map(|shown| shown.position).collect();
        let keys: BTreeSet<_> = now.iter().map(|shown| &shown.key).collect();
        assert_eq!((positions.len(), keys.len()), (now.len(), now.len()));
    }
    let rebuilt = Log::new(Mode::Rebuilt, events);
    assert_eq!(rebuilt.items, log.items, "a rebuild makes other items");
    assert_eq!(rebuilt.tail, log.tail, "a rebuild remembers other things");
    assert_eq!(
        rebuilt.chunks, log.chunks,
        "a rebuild places chunks elsewhere"
    );
    assert_eq!(rebuilt.odd, log.odd, "a rebuild finds other things odd");
    log
}

/// Rows at the head, and behind them what was odd: `! code @ordinal`.
fn check(events: &[Ev], expect: &[&str]) -> Log {
    check_at(events, events.len() as u64, expect)
}

/// Rows at a watermark below the head; what was odd above it is left out.
fn check_at(events: &[Ev], through: u64, expect: &[&str]) -> Log {
    let log = check_laws(&build(events));
    let mut lines: Vec<_> = log.rows(through).iter().map(line).collect();
    for (ordinal, code) in &log.odd {
        if *ordinal <= through {
            lines.push(format!("! {} @{ordinal}", code.as_str()));
        }
    }
    assert_eq!(
        lines,
        expect,
        "\nat watermark {through} the rows are\n{}\n",
        lines.join("\n")
    );
    log
}

/// The incarnations that calls and results have, as `call`, `result~2`, by
/// position: for tests that are about nothing else.
fn check_pairs(events: &[Ev], expect: &[&str], odd: &[(u64, Code)]) {
    let log = check_laws(&build(events));
    let rows = log.rows(events.len() as u64);
    let keys: Vec<_> = rows
        .iter()
        .filter(|shown| shown.key.starts_with("call:") || shown.key.starts_with("result:"))
        .map(|shown| {
            let (kind, rest) = shown.key.split_once(':').unwrap();
            let (_, local) = rest.split_once(':').unwrap();
            format!("{kind} {local} @{}", shown.position.ordinal)
        })
        .collect();
    assert_eq!(keys, expect, "\nthe pairs are\n{}\n", keys.join("\n"));
    assert_eq!(log.odd, odd);
}

// ---------------------------------------------------------------------------
// The identities.

#[test]
fn a_user_message_is_known_by_its_stored_id_then_the_providers_then_the_events() {
    check(
        &[
            user("a")
                .by("storedMessageId", "old")
                .by("providerEventId", "p"),
            user("b").by("providerEventId", "p"),
            user("c"),
        ],
        &[
            "user::old @1 r1 #old text='a'",
            "user::p @2 r2 #p text='b'",
            "user::e3 @3 r3 #e3 text='c'",
        ],
    );
}

#[test]
fn the_same_user_message_id_in_another_run_and_turn_is_the_next_incarnation() {
    check(
        &[
            user("a").by("storedMessageId", "u"),
            user("b").by("storedMessageId", "u").run("r2").turn("t2"),
            user("c").by("storedMessageId", "u").run("r3").turn("t3"),
        ],
        &[
            "user::u @1 r1 #u text='a'",
            "user::u~2 @2 r2 #u text='b'",
            "user::u~3 @3 r3 #u text='c'",
        ],
    );
}

#[test]
fn a_chunk_of_a_users_message_is_no_row() {
    check(&[user("a").by("providerEventId", "p").partial()], &[]);
}

#[test]
fn an_assistant_message_is_scoped_by_its_run() {
    check(
        &[
            text("m", "a"),
            text("m", "b").run("r2"),
            text("m", "c").run("r3").turn("t2"),
        ],
        &[
            "assistant:r1:m @1 r1 #m text='a'",
            "assistant:r2:m @2 r2 #m text='b'",
            "assistant:r3:m @3 r3 #m text='c'",
        ],
    );
}

#[test]
fn an_assistant_message_without_any_id_is_known_by_its_event() {
    let bare = ev("model", content("text", "a"));
    check(&[bare], &["assistant:r1:e1 @1 r1 #e1 text='a'"]);
}

#[test]
fn an_empty_answer_is_a_row() {
    check(&[text("m", "")], &["assistant:r1:m @1 r1 #m text=''"]);
}

#[test]
fn a_stored_id_leads_for_text_and_thinking_alike() {
    check(
        &[
            thought("p", "hm").by("storedMessageId", "old"),
            text("p", "a").by("storedMessageId", "old"),
        ],
        &["assistant:r1:old @1 r2 #old text='a' thinking={'text':'hm'}"],
    );
}

#[test]
fn a_call_is_scoped_by_its_turn() {
    check_pairs(
        &[
            call("c"),
            call("c").run("r2").turn("t2"),
            answer("c", "2").run("r2").turn("t2"),
            answer("c", "1"),
        ],
        &["call c @1", "call c @2", "result c @3", "result c @4"],
        &[],
    );
}

#[test]
fn a_call_and_its_result_are_two_rows_that_share_an_incarnation() {
    check(
        &[call("c").step("s"), answer("c", "out").step("s")],
        &[
            "call:t1:c @1 r1 #c toolName='Read' args={} stepId='s'",
            "result:t1:c @2 r2 #e2 toolUseId='c' isError=false content={'kind':'text','text':'out'}",
        ],
    );
}

#[test]
fn a_result_shows_the_stable_id_of_its_event() {
    check(
        &[call("c"), answer("c", "out").by("storedMessageId", "old")],
        &[
            "call:t1:c @1 r1 #c toolName='Read' args={}",
            "result:t1:c @2 r2 #old toolUseId='c' isError=false content={'kind':'text','text':'out'}",
        ],
    );
}

#[test]
fn a_permission_is_decided_once_in_its_turn() {
    check(
        &[
            decide("p"),
            decide("p"),
            decide("p").run("r2").turn("t2"),
            decide("p").run("r3"),
        ],
        &[
            "permission:t1:p @1.1 r1 #p toolUseId='' toolName='' decision='allow'",
            "permission:t1:p~2 @2.1 r2 #p toolUseId='' toolName='' decision='allow'",
            "permission:t2:p @3.1 r3 #p toolUseId='' toolName='' decision='allow'",
            "permission:t1:p~3 @4.1 r4 #p toolUseId='' toolName='' decision='allow'",
        ],
    );
}

#[test]
fn a_decision_shows_the_request_and_the_call_that_stand_before_it() {
    check(
        &[call("c"), ask("p", "c"), decide("p")],
        &[
            "call:t1:c @1 r1 #c toolName='Read' args={}",
            "permission:t1:p @3.1 r3 #p toolUseId='c' toolName='Bash' decision='allow' hint='why'",
        ],
    );
}

#[test]
fn a_decision_without_a_request_finds_the_call_that_it_names() {
    check(
        &[call("c"), decide("p").by("toolCallId", "c")],
        &[
            "call:t1:c @1 r1 #c toolName='Read' args={}",
            "permission:t1:p @2.1 r2 #p toolUseId='c' toolName='Read' decision='allow'",
        ],
    );
}

#[test]
fn a_request_that_is_not_decided_is_no_row() {
    check(&[ask("p", "c")], &[]);
}

#[test]
fn usage_that_grows_is_one_item_whose_revision_moves() {
    let events = [usage("m", 1), usage("m", 2), usage("m", 3)];
    check(&events, &["usage:r1:m @1.2 r3 #m input=3 output=1"]);
    check_at(&events, 2, &["usage:r1:m @1.2 r2 #m input=2 output=1"]);
}

#[test]
fn usage_is_scoped_by_run_and_message() {
    check(
        &[
            usage("m", 1),
            usage("n", 2),
            usage("m", 3).run("r2"),
            ev("system", String::new()).action(r#""tokenUsage":{"input":4,"output":1}"#),
        ],
        &[
            "usage:r1:m @1.2 r1 #m input=1 output=1",
            "usage:r1:n @2.2 r2 #n input=2 output=1",
            "usage:r2:m @3.2 r3 #m input=3 output=1",
            "usage:r1:e4 @4.2 r4 #e4 input=4 output=1",
        ],
    );
}

#[test]
fn the_end_of_a_run_is_its_turn_state() {
    check(
        &[
            end(),
            end()
                .run("r2")
                .ends("cancelled")
                .delta(r#""abortSource":"user""#),
            end()
                .run("r3")
                .ends("failed")
                .delta(r#""failureClass":"auth""#),
        ],
        &[
            "turn:r1:r1 @1.3 r1 #e1 status='completed' partialOutputRetained=false",
            "turn:r2:r2 @2.3 r2 #e2 status='aborted' partialOutputRetained=false abortedAt=1002 abortSource='user'",
            "turn:r3:r3 @3.3 r3 #e3 status='failed' partialOutputRetained=false errorClass='auth'",
        ],
    );
}

#[test]
fn the_end_of_a_run_is_also_told_by_an_action() {
    let end = ev("system", String::new()).action(r#""endInvocation":true"#);
    check(
        &[end],
        &["turn:r1:r1 @1.3 r1 #e1 status='completed' partialOutputRetained=false"],
    );
}

#[test]
fn a_run_that_used_up_its_steps_has_a_note_behind_its_turn_state() {
    let end = end()
        .ends("failed")
        .delta(r#""failureClass":"tool_step_cap_reached""#);
    let log = check_laws(&build(&[end]));
    let rows = log.rows(1);
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].position.slot, rows[1].position.slot), (3, 4));
    assert!(rows[0].key.starts_with("turn:r1:") && rows[1].key.starts_with("turn:r1:"));
    assert_eq!(
        rows[1].row,
        r#"{"type":"system_note","id":"e1:step-limit-notice","turnId":"t1","ts":1001,"kind":"step_limit"}"#
    );
}

#[test]
fn output_of_any_run_of_the_turn_is_retained_output() {
    check(
        &[
            text("m", " "),
            end(),
            call("c").run("r2"),
            answer("c", "out").run("r2"),
            end().run("r2"),
            end().run("r3"),
            end().run("r4").turn("t2"),
        ],
        &[
            "assistant:r1:m @1 r1 #m text=' '",
            "turn:r1:r1 @2.3 r2 #e2 status='completed' partialOutputRetained=false",
            "call:t1:c @3 r3 #c toolName='Read' args={}",
            "result:t1:c @4 r4 #e4 toolUseId='c' isError=false content={'kind':'text','text':'out'}",
            "turn:r2:r2 @5.3 r5 #e5 status='completed' partialOutputRetained=true",
            "turn:r3:r3 @6.3 r6 #e6 status='completed' partialOutputRetained=true",
            "turn:r4:r4 @7.3 r7 #e7 status='completed' partialOutputRetained=false",
        ],
    );
}

#[test]
fn a_closer_is_no_retained_output() {
    let log = check_laws(&build(&[call("c"), closer("c"), end()]));
    let rows = log.rows(3);
    assert!(rows[2].row.contains("\"partialOutputRetained\":false"));
}

#[test]
fn errors_compactions_and_unknown_kinds_are_notes_of_the_session() {
    check(
        &[
            ev(
                "system",
                r#""kind":"error","message":"oh","code":"x""#.into(),
            ),
            ev(
                "system",
                r#""kind":"compaction","summary":"so far","throughOrdinal":1"#.into(),
            ),
            ev("system", content("text", "a")),
            ev("model", r#""kind":"hologram","n":1"#.into()).by("providerEventId", "m"),
        ],
        &[
            "note::e1 @1 r1 #e1 kind='error' data={'message':'oh','code':'x'}",
            "note::e2 @2 r2 #e2 kind='context_compacted' data={'summary':'so far','throughOrdinal':1}",
            "note::e3 @3 r3 #e3 kind='unsupported_event' data={'contentKind':'text','text':'a'}",
            "note::e4 @4 r4 #m kind='unsupported_event' data={'contentKind':'hologram'}",
        ],
    );
}

#[test]
fn notes_of_one_provider_id_stay_apart() {
    let error =
        || ev("system", r#""kind":"error","message":"oh""#.into()).by("providerEventId", "m");
    check(
        &[error(), error()],
        &[
            "note::e1 @1 r1 #m kind='error' data={'message':'oh'}",
            "note::e2 @2 r2 #m kind='error' data={'message':'oh'}",
        ],
    );
}

#[test]
fn an_error_that_ends_its_run_shows_in_the_turn_state_alone() {
    check(
        &[ev(
            "system",
            r#""kind":"error","message":"oh","code":"x""#.into(),
        )
        .ends("failed")],
        &["turn:r1:r1 @1.3 r1 #e1 status='failed' partialOutputRetained=false errorClass='x'"],
    );
}

#[test]
fn an_extension_is_a_row_if_its_writer_wants_it_seen() {
    let extension = |criticality: &str| {
        ev(
            "system",
            format!(
                r#""kind":"extension","namespace":"n","name":"x","version":1,"criticality":"{criticality}","payload":7"#
            ),
        )
    };
    check(
        &[extension("required"), extension("ignorable")],
        &["ext::e1 @1 r1 #e1 namespace='n' name='x' version=1 criticality='required' payload=7"],
    );
}

#[test]
fn each_row_of_one_event_has_its_slot() {
    let event = text("m", "a")
        .ends("failed")
        .action(r#""permissionDecision":{"requestId":"p","decision":"deny"}"#)
        .action(r#""tokenUsage":{"input":1,"output":1}"#)
        .delta(r#""failureClass":"tool_step_cap_reached""#);
    let log = check_laws(&build(&[event]));
    let rows = log.rows(1);
    let slots: Vec<_> = rows
        .iter()
        .map(|shown| (shown.position.slot, shown.key.split(':').next().unwrap()))
        .collect();
    assert_eq!(
        slots,
        [
            (0, "assistant"),
            (1, "permission"),
            (2, "usage"),
            (3, "turn"),
            (4, "turn")
        ]
    );
    assert!(rows[3].row.contains("\"partialOutputRetained\":true"));
}

#[test]
fn control_facts_and_openings_make_no_item() {
    let control = ev("system", String::new())
        .action(r#""toolDispatch":{}"#)
        .action(r#""workspaceFact":{}"#)
        .action(r#""somethingNew":{}"#);
    check(&[opened(r#","source":{"kind":"user"}"#), control], &[]);
}

#[test]
fn the_model_is_the_events_else_the_runs_else_unknown() {
    let of_event =
        ev("model", content("text", "b") + r#","modelId":"small""#).by("providerEventId", "n");
    check(
        &[
            opened(r#","source":{"kind":"user"}"#),
            text("m", "a"),
            of_event,
            text("m", "c").run("r2"),
        ],
        &[
            "assistant:r1:m @2 r2 #m text='a' modelId='big'",
            "assistant:r1:n @3 r3 #n text='b' modelId='small'",
            "assistant:r2:m @4 r4 #m text='c'",
        ],
    );
}

#[test]
fn the_runs_of_child_agents_make_no_items() {
    let child = opened(r#","source":{"kind":"agent"},"lineage":{"parentRunId":"r1"}"#).run("r2");
    let continued = opened(r#","source":{"kind":"continuation"},"lineage":{"parentRunId":"r1"}"#);
    check(
        &[
            text("m", "a"),
            child,
            user("b").run("r2"),
            chunk("m", "c").run("r2"),
            call("c").step("m").run("r2"),
            ask("p", "c").run("r2"),
            decide("p").run("r2"),
            usage("m", 1).run("r2"),
            end().run("r2"),
            end(),
            continued.run("r3"),
            text("m", "d").run("r3"),
        ],
        &[
            "assistant:r1:m @1 r1 #m text='a'",
            "turn:r1:r1 @10.3 r10 #e10 status='completed' partialOutputRetained=true",
            "assistant:r3:m @12 r12 #m text='d' modelId='big'",
        ],
    );
}

#[test]
fn output_of_a_child_agent_is_not_retained_output_of_the_turn() {
    let child = opened(r#","source":{"kind":"agent"},"lineage":{"parentRunId":"r1"}"#).run("r2");
    check(
        &[
            user("a"),
            child,
            text("m", "b").run("r2"),
            end().run("r2"),
            end(),
        ],
        &[
            "user::e1 @1 r1 #e1 text='a'",
            "turn:r1:r1 @5.3 r5 #e5 status='completed' partialOutputRetained=false",
        ],
    );
}

// ---------------------------------------------------------------------------
// Cases that break simpler rules.

#[test]
fn a_thinking_final_does_not_hide_text_that_still_streams() {
    let events = [
        musing("m", "h"),
        chunk("m", "He"),
        thought("m", "hm"),
        chunk("m", "llo"),
        text("m", "Hello."),
    ];
    for (through, row) in [
        (1, "assistant:r1:m @1 r1 #m text='' thinking={'text':'h'}"),
        (2, "assistant:r1:m @1 r2 #m text='He' thinking={'text':'h'}"),
        (
            3,
            "assistant:r1:m @1 r3 #m text='He' thinking={'text':'hm'}",
        ),
        (
            4,
            "assistant:r1:m @1 r4 #m text='Hello' thinking={'text':'hm'}",
        ),
        (
            5,
            "assistant:r1:m @1 r5 #m text='Hello.' thinking={'text':'hm'}",
        ),
    ] {
        check_at(&events, through, &[row]);
    }
}

#[test]
fn a_text_final_does_not_hide_thinking_that_still_streams() {
    check(
        &[musing("m", "h"), text("m", "Hello."), musing("m", "m")],
        &["assistant:r1:m @1 r3 #m text='Hello.' thinking={'text':'hm'}"],
    );
}

#[test]
fn steering_stands_beside_the_message_whose_id_it_uses() {
    check(
        &[
            user("a").by("storedMessageId", "u"),
            steer("b").by("storedMessageId", "u"),
            steer("c").by("storedMessageId", "u"),
        ],
        &[
            "user::u @1 r1 #u text='a'",
            "steer::u @2 r2 #u text='b' steeringEventId='e2'",
            "steer::u~2 @3 r3 #u text='c' steeringEventId='e3'",
        ],
    );
}

#[test]
fn a_server_that_gives_every_response_one_id_loses_no_answer() {
    check(
        &[
            chunk("chatcmpl-0", "o"),
            text("chatcmpl-0", "one"),
            text("chatcmpl-0", "two"),
            text("chatcmpl-0", "three"),
        ],
        &[
            "assistant:r1:chatcmpl-0 @1 r2 #chatcmpl-0 text='one'",
            "assistant:r1:chatcmpl-0~2 @3 r3 #chatcmpl-0 text='two'",
            "assistant:r1:chatcmpl-0~3 @4 r4 #chatcmpl-0 text='three'",
        ],
    );
}

#[test]
fn the_second_response_under_one_id_takes_its_thinking_and_text_into_one_row() {
    check(
        &[
            thought("x", "a"),
            text("x", "one"),
            thought("x", "b"),
            chunk("x", "tw"),
            text("x", "two"),
        ],
        &[
            "assistant:r1:x @1 r2 #x text='one' thinking={'text':'a'}",
            "assistant:r1:x~2 @3 r5 #x text='two' thinking={'text':'b'}",
        ],
    );
}

#[test]
fn a_retry_under_the_same_provider_id_does_not_glue_to_the_run_that_died() {
    check(
        &[
            chunk("m", "par"),
            end().ends("failed"),
            chunk("m", "who").run("r2"),
            chunk("m", "le").run("r2"),
            text("m", "whole").run("r2"),
        ],
        &[
            "assistant:r1:m @1 r1 #m text='par'",
            "turn:r1:r1 @2.3 r2 #e2 status='failed' partialOutputRetained=true",
            "assistant:r2:m @3 r5 #m text='whole'",
        ],
    );
}

#[test]
fn a_later_step_may_reuse_the_id_of_an_unanswered_call() {
    check_pairs(
        &[call("c").step("s1"), call("c").step("s2"), answer("c", "2")],
        &["call c @1", "call c~2 @2", "result c~2 @3"],
        &[],
    );
}

#[test]
fn a_later_step_may_reuse_the_id_of_an_answered_call() {
    check_pairs(
        &[
            call("c").step("s1"),
            answer("c", "1"),
            call("c").step("s2"),
            answer("c", "2"),
        ],
        &["call c @1", "result c @2", "call c~2 @3", "result c~2 @4"],
        &[],
    );
}

#[test]
fn argument_chunks_are_no_row_and_no_position() {
    let arguments = ev(
        "model",
        r#""kind":"function_call","id":"c","name":"Read","args":"{\"pa""#.into(),
    )
    .step("m")
    .partial();
    let events = [
        text("m", "a"),
        arguments.clone(),
        arguments,
        call("c").step("m"),
    ];
    check_at(&events, 3, &["assistant:r1:m @1 r1 #m text='a'"]);
    check(
        &events,
        &[
            "assistant:r1:m @1 r4 #m text='a'",
            "call:t1:c @4 r4 #c toolName='Read' args={} stepId='m'",
        ],
    );
}

#[test]
fn output_chunks_are_no_row_and_no_output_and_the_result_begins_at_its_response() {
    let events = [
        call("c"),
        answer("c", "o").partial(),
        answer("c", "u").partial(),
        answer("c", "out"),
    ];
    check_at(&events, 3, &["call:t1:c @1 r1 #c toolName='Read' args={}"]);
    check(
        &events,
        &[
            "call:t1:c @1 r1 #c toolName='Read' args={}",
            "result:t1:c @4 r4 #e4 toolUseId='c' isError=false content={'kind':'text','text':'out'}",
        ],
    );
    check(
        &[answer("c", "o").partial(), end().ends("aborted")],
        &["turn:r1:r1 @2.3 r2 #e2 status='aborted' partialOutputRetained=false abortedAt=1002"],
    );
}

#[test]
fn a_chunk_of_an_answered_calls_output_changes_nothing() {
    check_pairs(
        &[call("c"), answer("c", "out"), answer("c", "o").partial()],
        &["call c @1", "result c @2"],
        &[],
    );
}

#[test]
fn a_continuation_answers_the_call_of_another_run_of_its_turn() {
    check_pairs(
        &[
            call("c").step("s1"),
            end().ends("aborted"),
            answer("c", "out").run("r2"),
        ],
        &["call c @1", "result c @3"],
        &[],
    );
}

#[test]
fn a_continuation_counts_the_calls_of_every_run_of_its_turn() {
    check_pairs(
        &[
            call("c").step("s1"),
            answer("c", "1"),
            end(),
            call("c").step("s2").run("r2"),
            answer("c", "2").run("r2"),
            end().run("r2"),
            call("c").step("s3").run("r3"),
            answer("c", "3").run("r3"),
        ],
        &[
            "call c @1",
            "result c @2",
            "call c~2 @4",
            "result c~2 @5",
            "call c~3 @7",
            "result c~3 @8",
        ],
        &[],
    );
}

// ---------------------------------------------------------------------------
// Contributions, lanes and parts.

#[test]
fn two_text_blocks_of_one_message_are_parts_of_one_row() {
    let events = [
        chunk("m", "a"),
        chunk("m", "b").part(1),
        text("m", "A."),
        chunk("m", "c").part(1),
        text("m", "B.").part(1),
    ];
    check_at(&events, 4, &["assistant:r1:m @1 r4 #m text='A.bc'"]);
    check(&events, &["assistant:r1:m @1 r5 #m text='A.B.'"]);
}

#[test]
fn parts_stand_in_the_order_of_their_index() {
    check(
        &[text("m", "b").part(1), text("m", "a").part(0)],
        &["assistant:r1:m @1 r2 #m text='ab'"],
    );
}

#[test]
fn several_thoughts_of_one_message_are_parts_of_one_row() {
    check(
        &[thought("m", "a"), thought("m", "b").part(1), text("m", "c")],
        &[
            "assistant:r1:m @1 r3 #m text='c' thinking={'text':'ab','parts':[{'text':'a'},{'text':'b'}]}",
        ],
    );
}

#[test]
fn a_second_final_of_one_part_opens_the_next_incarnation_and_leaves_the_other_parts() {
    check(
        &[
            text("m", "a"),
            text("m", "b").part(1),
            text("m", "c").part(1),
        ],
        &[
            "assistant:r1:m @1 r2 #m text='ab'",
            "assistant:r1:m~2 @3 r3 #m text='c'",
        ],
    );
}

#[test]
fn a_late_chunk_has_no_effect() {
    let log = check(
        &[chunk("m", "a"), text("m", "ab"), chunk("m", "c")],
        &["assistant:r1:m @1 r2 #m text='ab'", "! late_partial @3"],
    );
    assert_eq!(log.items[0].revision, 2);
    assert_eq!(log.chunks.values().map(Vec::len).sum::<usize>(), 1);
}

#[test]
fn a_late_chunk_of_a_message_that_never_streamed_has_no_effect() {
    check(
        &[thought("m", "a"), musing("m", "b"), chunk("m", "c")],
        &[
            "assistant:r1:m @1 r3 #m text='c' thinking={'text':'a'}",
            "! late_partial @2",
        ],
    );
}

#[test]
fn a_final_that_revises_replaces_what_it_names() {
    let events = [
        text("m", "a"),
        text("m", "b").revises("e1"),
        text("m", "c").revises("e2"),
    ];
    check(&events, &["assistant:r1:m @1 r3 #m text='c'"]);
    check_at(&events, 2, &["assistant:r1:m @1 r2 #m text='b'"]);
}

#[test]
fn a_revision_reaches_an_incarnation_that_is_not_the_latest() {
    check(
        &[text("m", "a"), text("m", "b"), text("m", "A").revises("e1")],
        &[
            "assistant:r1:m @1 r3 #m text='A'",
            "assistant:r1:m~2 @2 r2 #m text='b'",
        ],
    );
}

#[test]
fn a_revision_of_something_else_is_a_final_like_any_other() {
    check(
        &[
            text("m", "a"),
            thought("n", "b"),
            text("m", "c").revises("e2"),
            text("m", "d").revises("nobody"),
            text("m", "e").revises("e6"),
            text("m", "f"),
        ],
        &[
            "assistant:r1:m @1 r1 #m text='a'",
            "assistant:r1:n @2 r2 #n text='' thinking={'text':'b'}",
            "assistant:r1:m~2 @3 r3 #m text='c'",
            "assistant:r1:m~3 @4 r4 #m text='d'",
            "assistant:r1:m~4 @5 r5 #m text='e'",
            "assistant:r1:m~5 @6 r6 #m text='f'",
        ],
    );
}

#[test]
fn every_kind_that_settles_once_can_be_revised() {
    check(
        &[
            user("a"),
            user("b").by("storedMessageId", "e1").revises("e1"),
            call("c").step("s"),
            call("c").step("s").revises("e3"),
            answer("c", "1"),
            answer("c", "2").revises("e5"),
            decide("p"),
            decide("p").revises("e7"),
        ],
        &[
            "user::e1 @1 r2 #e1 text='b'",
            "call:t1:c @3 r4 #c toolName='Read' args={} stepId='s'",
            "result:t1:c @5 r6 #e6 toolUseId='c' isError=false content={'kind':'text','text':'2'}",
            "permission:t1:p @7.1 r8 #p toolUseId='' toolName='' decision='allow'",
        ],
    );
}

#[test]
fn a_real_result_takes_the_place_of_a_closer() {
    let events = [
        call("c"),
        closer("c"),
        end().ends("failed"),
        answer("c", "out").run("r2"),
        answer("c", "again").run("r2"),
    ];
    check_at(
        &events,
        4,
        &[
            "call:t1:c @1 r1 #c toolName='Read' args={}",
            "result:t1:c @2 r4 #e4 toolUseId='c' isError=false content={'kind':'text','text':'out'}",
            "turn:r1:r1 @3.3 r3 #e3 status='failed' partialOutputRetained=false",
        ],
    );
    check_pairs(
        &events,
        &["call c @1", "result c @2", "result c~2 @5"],
        &[(5, Code::OrphanToolResult)],
    );
}

#[test]
fn a_closer_does_not_take_the_place_of_a_real_result() {
    let log = check_laws(&build(&[call("c"), answer("c", "out"), closer("c")]));
    let rows = log.rows(3);
    assert!(rows[1].row.contains("\"out\"") && rows[1].revision == 2);
    assert_eq!(rows[2].key, "result:t1:c~2");
}

#[test]
fn a_closer_answers_an_open_call_like_a_result() {
    check_pairs(
        &[
            call("c").step("s1"),
            call("c").step("s2"),
            closer("c"),
            closer("c"),
        ],
        &["call c @1", "call c~2 @2", "result c~2 @3", "result c @4"],
        &[],
    );
}

#[test]
fn a_result_answers_an_unanswered_call_before_it_replaces_a_closer() {
    check_pairs(
        &[
            call("c"),
            closer("c"),
            end().ends("failed"),
            call("c").run("r2"),
            answer("c", "out").run("r2"),
        ],
        &["call c @1", "result c @2", "call c~2 @4", "result c~2 @5"],
        &[],
    );
}

#[test]
fn an_importer_continues_a_message_of_another_run_by_its_scope() {
    check(
        &[
            chunk("m", "He"),
            end(),
            text("m", "Hello")
                .run("r2")
                .turn("t2")
                .by("scopeRunId", "r1"),
            usage("m", 1).run("r2").turn("t2").by("scopeRunId", "r1"),
            usage("m", 2).run("r3").turn("t3").by("scopeRunId", "r1"),
        ],
        &[
            "assistant:r1:m @1 r3 #m text='Hello'",
            "turn:r1:r1 @2.3 r2 #e2 status='completed' partialOutputRetained=true",
            "usage:r1:m @4.2 r5 #m input=2 output=1",
        ],
    );
}

#[test]
fn an_importer_answers_a_call_of_another_turn_by_its_scope() {
    check_pairs(
        &[
            call("c"),
            answer("c", "out")
                .run("r2")
                .turn("t2")
                .by("scopeTurnId", "t1"),
            answer("c", "out").run("r2").turn("t2"),
        ],
        &["call c @1", "result c @2", "result c @3"],
        &[(3, Code::OrphanToolResult)],
    );
}

#[test]
fn a_permission_and_a_mark_follow_their_scope() {
    check(
        &[
            text("m", "a"),
            call("c")
                .run("r2")
                .turn("t2")
                .step("m")
                .by("scopeRunId", "r1")
                .by("scopeTurnId", "t1"),
            decide("p")
                .run("r2")
                .turn("t2")
                .by("scopeTurnId", "t1")
                .by("toolCallId", "c"),
        ],
        &[
            "assistant:r1:m @1 r2 #m text='a'",
            "call:t1:c @2 r2 #c toolName='Read' args={} stepId='m'",
            "permission:t1:p @3.1 r3 #p toolUseId='c' toolName='Read' decision='allow'",
        ],
    );
}

#[test]
fn the_end_of_a_run_has_no_scope_but_its_own() {
    check(
        &[end()
            .run("r2")
            .by("scopeRunId", "r1")
            .by("scopeTurnId", "t9")],
        &["turn:r2:r2 @1.3 r1 #e1 status='completed' partialOutputRetained=false"],
    );
}

// ---------------------------------------------------------------------------
// Pairing.

#[test]
fn a_call_that_repeats_an_open_call_of_its_step_is_a_duplicate_and_a_row() {
    check_pairs(
        &[call("c").step("s"), call("c").step("s")],
        &["call c @1", "call c~2 @2"],
        &[(2, Code::DuplicateCall)],
    );
}

#[test]
fn a_call_that_repeats_an_answered_call_of_its_step_is_no_duplicate() {
    check_pairs(
        &[call("c").step("s"), answer("c", "1"), call("c").step("s")],
        &["call c @1", "result c @2", "call c~2 @3"],
        &[],
    );
}

#[test]
fn a_result_answers_the_latest_step_and_there_the_oldest_call() {
    check_pairs(
        &[
            call("c").step("s1"),
            call("c").step("s2"),
            call("c").step("s2"),
            answer("c", "?"),
            answer("c", "?"),
            answer("c", "?"),
        ],
        &[
            "call c @1",
            "call c~2 @2",
            "call c~3 @3",
            "result c~2 @4",
            "result c~3 @5",
            "result c @6",
        ],
        &[(3, Code::DuplicateCall), (4, Code::AmbiguousToolPairing)],
    );
}

#[test]
fn an_operation_decides_alone() {
    check_pairs(
        &[
            call("c").step("s1").op("o1"),
            call("c").step("s2").op("o2"),
            call("c").step("s2").op("o3"),
            answer("c", "?").op("o3"),
            answer("c", "?").op("o1"),
            answer("c", "?").op("o2"),
        ],
        &[
            "call c @1",
            "call c~2 @2",
            "call c~3 @3",
            "result c~3 @4",
            "result c @5",
            "result c~2 @6",
        ],
        &[(3, Code::DuplicateCall)],
    );
}

#[test]
fn a_result_does_not_answer_the_call_of_another_operation() {
    check_pairs(
        &[
            call("c").step("s1").op("o1"),
            call("c").step("s2").op("o2"),
            answer("c", "one").op("o1"),
            answer("c", "one again").op("o1"),
            answer("c", "two").op("o2"),
        ],
        &[
            "call c @1",
            "call c~2 @2",
            "result c @3",
            "result c~3 @4",
            "result c~2 @5",
        ],
        &[(4, Code::OrphanToolResult)],
    );
}

#[test]
fn a_result_of_an_unknown_operation_leaves_the_calls_of_known_ones_open() {
    check_pairs(
        &[
            call("c").op("o1"),
            answer("c", "?").op("o9"),
            answer("c", "one").op("o1"),
        ],
        &["call c @1", "result c~2 @2", "result c @3"],
        &[(2, Code::OrphanToolResult)],
    );
}

#[test]
fn two_calls_of_one_operation_are_answered_oldest_first() {
    check_pairs(
        &[
            call("c").step("s1").op("o"),
            answer("c", "1").op("o"),
            call("c").step("s2").op("o"),
            call("c").step("s3").op("o3"),
            answer("c", "2").op("o"),
        ],
        &[
            "call c @1",
            "result c @2",
            "call c~2 @3",
            "call c~3 @4",
            "result c~2 @5",
        ],
        &[],
    );
}

#[test]
fn a_result_may_stand_before_its_call() {
    let events = [
        answer("c", "out"),
        call("c").step("s"),
        answer("c", "again"),
    ];
    check_pairs(
        &events,
        &["result c @1", "call c @2", "result c~2 @3"],
        &[(1, Code::OrphanToolResult), (3, Code::OrphanToolResult)],
    );
}

#[test]
fn calls_take_the_incarnations_that_results_have_opened_lowest_first() {
    check_pairs(
        &[
            answer("c", "1"),
            answer("c", "2"),
            call("c").step("s1"),
            call("c").step("s2"),
            call("c").step("s3"),
            answer("c", "3"),
        ],
        &[
            "result c @1",
            "result c~2 @2",
            "call c @3",
            "call c~2 @4",
            "call c~3 @5",
            "result c~3 @6",
        ],
        &[(1, Code::OrphanToolResult), (2, Code::OrphanToolResult)],
    );
}

#[test]
fn a_call_that_finds_its_result_waiting_is_answered() {
    check_pairs(
        &[
            answer("c", "1"),
            call("c").step("s"),
            call("c").step("s"),
            answer("c", "2"),
        ],
        &["result c @1", "call c @2", "call c~2 @3", "result c~2 @4"],
        &[(1, Code::OrphanToolResult)],
    );
}

#[test]
fn references_move_neither_position_nor_revision() {
    let log = check_laws(&build(&[
        call("c"),
        ask("p", "c"),
        decide("p"),
        answer("c", "out"),
    ]));
    let rows: Vec<_> = log
        .rows(4)
        .into_iter()
        .map(|shown| (shown.key, shown.position.ordinal, shown.revision))
        .collect();
    assert_eq!(
        rows,
        [
            ("call:t1:c".into(), 1, 1),
            ("permission:t1:p".into(), 3, 3),
            ("result:t1:c".into(), 4, 4),
        ]
    );
}

#[test]
fn a_decision_shows_nothing_that_came_after_it() {
    check(
        &[decide("p").by("toolCallId", "c"), ask("p", "c"), call("c")],
        &[
            "permission:t1:p @1.1 r1 #p toolUseId='c' toolName='' decision='allow'",
            "call:t1:c @3 r3 #c toolName='Read' args={}",
        ],
    );
}

#[test]
fn a_revised_decision_shows_its_first_form_at_the_watermarks_before_it() {
    check_at(
        &[
            decide("p").by("toolCallId", "c"),
            call("c"),
            decide("p").by("toolCallId", "c").revises("e1"),
        ],
        2,
        &[
            "permission:t1:p @1.1 r1 #p toolUseId='c' toolName='' decision='allow'",
            "call:t1:c @2 r2 #c toolName='Read' args={}",
        ],
    );
}

#[test]
fn a_revision_that_names_a_decisions_request_does_not_replace_the_decision() {
    let log = check_laws(&build(&[
        ask("p", "c"),
        decide("p"),
        decide("p").revises("e1"),
    ]));
    let keys: Vec<_> = log.rows(3).into_iter().map(|shown| shown.key).collect();
    assert_eq!(keys, ["permission:t1:p", "permission:t1:p~2"]);
}

#[test]
fn a_decision_shows_the_call_as_it_was_when_decided() {
    let renamed = ev(
        "model",
        r#""kind":"function_call","id":"c","name":"Write","args":{}"#.into(),
    );
    check(
        &[
            call("c"),
            decide("p").by("toolCallId", "c"),
            renamed.revises("e1"),
        ],
        &[
            "call:t1:c @1 r3 #c toolName='Write' args={}",
            "permission:t1:p @2.1 r2 #p toolUseId='c' toolName='Read' decision='allow'",
        ],
    );
}

// ---------------------------------------------------------------------------
// Marks and the order of a message's content.

#[test]
fn the_usual_order_of_content_is_not_told() {
    check(
        &[thought("m", "a"), text("m", "b"), call("c").step("m")],
        &[
            "assistant:r1:m @1 r3 #m text='b' thinking={'text':'a'}",
            "call:t1:c @3 r3 #c toolName='Read' args={} stepId='m'",
        ],
    );
}

#[test]
fn an_unusual_order_of_content_comes_from_what_was_seen_first() {
    let events = [
        chunk("m", "b"),
        musing("m", "a"),
        thought("m", "a"),
        text("m", "b"),
    ];
    check(
        &events,
        &[
            "assistant:r1:m @1 r4 #m text='b' thinking={'text':'a'} contentOrder=['text','thinking']",
        ],
    );
    check_at(
        &events,
        3,
        &[
            "assistant:r1:m @1 r3 #m text='b' thinking={'text':'a'} contentOrder=['text','thinking']",
        ],
    );
}

#[test]
fn the_first_chunk_counts_even_if_the_final_comes_last() {
    check(
        &[musing("m", "a"), text("m", "b"), thought("m", "a")],
        &["assistant:r1:m @1 r3 #m text='b' thinking={'text':'a'}"],
    );
}

#[test]
fn the_first_call_of_a_step_moves_the_revision_and_later_ones_do_not() {
    let events = [
        text("m", "a"),
        call("c").step("m"),
        call("d").step("m"),
        thought("m", "b"),
    ];
    check_at(
        &events,
        3,
        &[
            "assistant:r1:m @1 r2 #m text='a'",
            "call:t1:c @2 r2 #c toolName='Read' args={} stepId='m'",
            "call:t1:d @3 r3 #d toolName='Read' args={} stepId='m'",
        ],
    );
    check(
        &events,
        &[
            "assistant:r1:m @1 r4 #m text='a' thinking={'text':'b'} contentOrder=['text','tools','thinking']",
            "call:t1:c @2 r2 #c toolName='Read' args={} stepId='m'",
            "call:t1:d @3 r3 #d toolName='Read' args={} stepId='m'",
        ],
    );
}

#[test]
fn a_mark_that_precedes_its_item_waits_for_it() {
    let events = [call("c").step("m"), call("d").step("m"), text("m", "a")];
    check(
        &events,
        &[
            "call:t1:c @1 r1 #c toolName='Read' args={} stepId='m'",
            "call:t1:d @2 r2 #d toolName='Read' args={} stepId='m'",
            "assistant:r1:m @3 r3 #m text='a' contentOrder=['tools','text']",
        ],
    );
}

#[test]
fn a_waiting_mark_is_kept_once_for_each_lane() {
    let events = build(&[
        call("c").step("m"),
        call("d").step("m"),
        call("e").step("m"),
    ]);
    let log = check_laws(&events);
    let expect = WaitingMark {
        base: "assistant:r1:m".into(),
        run_no: 1,
        lane: Lane::Tools,
        index: 0,
        ordinal: 1,
    };
    assert_eq!(log.tail.marks, [expect]);
}

#[test]
fn a_waiting_mark_is_forgotten_when_its_run_ends() {
    let log = check_laws(&build(&[
        call("c").step("m"),
        call("d").step("n").run("r2"),
        end(),
    ]));
    let runs: Vec<_> = log.tail.marks.iter().map(|mark| mark.run_no).collect();
    assert_eq!(runs, [2]);
}

#[test]
fn a_mark_joins_the_item_that_the_runs_last_event_creates() {
    let log = check_laws(&build(&[
        call("c").step("m"),
        text("m", "a").ends("completed"),
    ]));
    assert!(log.rows(2)[1].row.contains("contentOrder"));
    assert!(log.tail.marks.is_empty());
}

#[test]
fn thinking_with_neither_text_nor_summary_is_no_row_until_text_arrives() {
    let events = [
        ev("model", content("thinking", "") + r#","signature":"sig""#).by("providerEventId", "m"),
        text("m", "a"),
    ];
    check_at(&events, 1, &[]);
    check(&events, &["assistant:r1:m @2 r2 #m text='a'"]);
}

#[test]
fn thinking_with_a_summary_alone_is_a_row() {
    let summed = ev(
        "model",
        content("thinking", "") + r#","summary":"in short""#,
    )
    .by("providerEventId", "m");
    check(
        &[summed],
        &["assistant:r1:m @1 r1 #m text='' thinking={'text':'in short'}"],
    );
}

#[test]
fn thinking_without_an_answer_is_a_row_whether_the_run_goes_on_or_not() {
    let row = "assistant:r1:m @1 r1 #m text='' thinking={'text':'hm'}";
    check(&[thought("m", "hm")], &[row]);
    check(
        &[thought("m", "hm"), end().ends("failed")],
        &[
            row,
            "turn:r1:r1 @2.3 r2 #e2 status='failed' partialOutputRetained=false",
        ],
    );
}

#[test]
fn an_empty_thinking_final_does_not_settle_the_chunks_before_it() {
    let signature = ev("model", content("thinking", "") + r#","signature":"s""#);
    check(
        &[
            musing("m", "hm"),
            signature.by("providerEventId", "m"),
            text("m", "a"),
        ],
        &["assistant:r1:m @1 r3 #m text='a' thinking={'text':'hm'}"],
    );
}

// ---------------------------------------------------------------------------
// Facts after the end.

#[test]
fn a_late_result_comes_in_an_amendment_run_of_its_turn() {
    let amendment = ev(
        "system",
        r#""kind":"run_opened","route":{},"configuration":{},"root":{"kind":"amendment"},"source":{"kind":"runtime"}"#.into(),
    );
    check(
        &[
            call("c"),
            end().ends("failed"),
            amendment.run("r2"),
            answer("c", "out").run("r2"),
            usage("m", 5).run("r2").by("scopeRunId", "r1"),
            end().run("r2"),
        ],
        &[
            "call:t1:c @1 r1 #c toolName='Read' args={}",
            "turn:r1:r1 @2.3 r2 #e2 status='failed' partialOutputRetained=false",
            "result:t1:c @4 r4 #e4 toolUseId='c' isError=false content={'kind':'text','text':'out'}",
            "usage:r1:m @5.2 r5 #m input=5 output=1",
            "turn:r2:r2 @6.3 r6 #e6 status='completed' partialOutputRetained=true",
        ],
    );
}

#[test]
fn an_amended_usage_is_the_item_of_the_run_that_it_corrects() {
    check(
        &[
            usage("m", 1),
            end(),
            usage("m", 5).run("r2").by("scopeRunId", "r1"),
        ],
        &[
            "usage:r1:m @1.2 r3 #m input=5 output=1",
            "turn:r1:r1 @2.3 r2 #e2 status='completed' partialOutputRetained=false",
        ],
    );
}

// ---------------------------------------------------------------------------
// Keys.

#[test]
fn keys_of_the_longest_ids_stay_within_192_bytes_and_apart() {
    let run: &'static str = "r".repeat(128).leak();
    let turn: &'static str = "t".repeat(128).leak();
    let long = |last: char| "é".repeat(255) + &last.to_string();
    let mut events = Vec::new();
    for id in [long('1'), long('2')] {
        for _ in 0..2 {
            events.push(user("a").by("storedMessageId", &id));
            events.push(steer("a").by("storedMessageId", &id));
            events.push(text(&id, "a"));
            events.push(call(&id));
            events.push(answer(&id, "a"));
            events.push(decide(&id));
            events.push(usage(&id, 1));
        }
        events.push(
            ev("system", r#""kind":"error","message":"oh""#.into())
                .id(&long('3'))
                .id(&id),
        );
    }
    events.push(
        end()
            .ends("failed")
            .delta(r#""failureClass":"tool_step_cap_reached""#),
    );
    let events: Vec<_> = events
        .into_iter()
        .map(|event| event.run(run).turn(turn))
        .collect();
    let log = check_laws(&build(&events));
    let rows = log.rows(events.len() as u64);
    // Usage takes the latest, all else a new incarnation; two notes and the
    // two rows of the end are there once.
    assert_eq!(rows.len(), 2 * (6 * 2 + 1 + 1) + 2);
    assert!(rows.iter().all(|shown| shown.key.contains(":#")));
}

#[test]
fn no_id_can_pass_for_another_identity() {
    check(
        &[
            user("a").by("storedMessageId", "u~2"),
            user("b").by("storedMessageId", "u"),
            user("c").by("storedMessageId", "u"),
            text("r2:m", "d"),
            text("m", "e").run("r1-r2"),
        ],
        &[
            "user::u%7E2 @1 r1 #u~2 text='a'",
            "user::u @2 r2 #u text='b'",
            "user::u~2 @3 r3 #u text='c'",
            "assistant:r1:r2%3Am @4 r4 #r2:m text='d'",
            "assistant:r1-r2:m @5 r5 #m text='e'",
        ],
    );
}

// ---------------------------------------------------------------------------
// Everything at once.

/// Small numbers from a seed: enough to mix events, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
    fn one_of<T: Copy>(&mut self, faces: &[T]) -> T {
        let at = self.roll(faces.len() as u64);
        faces[usize::try_from(at).unwrap()]
    }
}

/// An event over very few ids, so that everything collides with everything.
fn any_event(dice: &mut Dice, ordinal: u64) -> Ev {
    let message = dice.one_of(&["m", "n"]);
    let tool = dice.one_of(&["c", "d"]);
    let word = format!("{ordinal}.");
    let event = match dice.roll(16) {
        0 => user("u").by("storedMessageId", message),
        1 => steer("s").by("storedMessageId", message),
        2 | 3 => chunk(message, &word),
        4 => text(message, &word),
        5 | 6 => musing(message, &word),
        7 => thought(message, dice.one_of(&["", "hm"])),
        8 | 9 => call(tool).step(message),
        10 | 11 => answer(tool, &word),
        12 => closer(tool),
        13 => ask(message, tool),
        14 => decide(message).by("toolCallId", tool),
        _ => usage(message, ordinal),
    };
    let event = match dice.roll(4) {
        0 => event.part(1),
        1 => event.op(dice.one_of(&["o1", "o2"])),
        2 if ordinal > 1 => {
            let earlier = dice.roll(ordinal - 1) + 1;
            event.revises(&format!("e{earlier}"))
        }
        _ => event,
    };
    let event = if dice.roll(8) == 0 {
        event.by("scopeRunId", "r1")
    } else {
        event
    };
    event.run(dice.one_of(&["r1", "r2"]))
}

#[test]
fn snapshots_and_rebuilds_hold_for_any_mixture_of_events() {
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let mut events: Vec<_> = (1..=24)
            .map(|ordinal| any_event(&mut dice, ordinal))
            .collect();
        events.push(end());
        events.extend((26..=32).map(|ordinal| any_event(&mut dice, ordinal).run("r3")));
        let outcome = std::panic::catch_unwind(|| check_laws(&build(&events)));
        assert!(outcome.is_ok(), "the laws are broken by seed {seed}");
    }
}
