//! Sessions made by rule: long and regular ones, short and wild ones.

use crate::event::Events;
use folio_core::{CanonicalEvent, Field, Json, Role};
use std::fmt::Write;

/// The time of the first event.
const EPOCH: u64 = 1_700_000_000_000;

/// Numbers that look random and are the same for the same seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        // Spread over all bits, so that seeds that are near are not alike, and
        // never the one state that xorshift cannot leave.
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((state ^ (state >> 31)).max(1))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a bound, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from((self.number() >> 16) % bound as u64).expect("below a usize")
    }

    /// Whether something that happens once in so many times happens.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of several values, or `None` of none.
    pub fn pick<'a, T>(&mut self, values: &'a [T]) -> Option<&'a T> {
        if values.is_empty() {
            return None;
        }
        values.get(self.below(values.len()))
    }

    /// Cuts a sequence into batches of up to `most`.
    pub fn batches<T: Clone>(&mut self, mut values: &[T], most: usize) -> Vec<Vec<T>> {
        let mut batches = Vec::new();
        while !values.is_empty() {
            let size = (self.below(most) + 1).min(values.len());
            let (batch, rest) = values.split_at(size);
            batches.push(batch.to_vec());
            values = rest;
        }
        batches
    }
}

const WORDS: &[&str] = &[
    "the", "ledger", "keeps", "every", "event", "of", "a", "session", "in", "order", "and", "turn",
    "reads", "file", "then", "writes", "patch", "test", "fails", "because", "index", "cursor",
    "was", "stale", "we", "should", "rebuild", "it", "before", "page", "is", "served", "to",
    "client", "fn", "main", "let", "value", "match", "none", "some", "error", "path", "src", "lib",
    "module", "commit", "branch", "review", "answer", "question", "model", "token", "budget",
    "window", "summary", "result", "tool", "call", "retry", "timeout", "network", "disk", "memory",
];

/// Words of exactly so many bytes, none of which JSON must escape.
fn prose(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.push_str(WORDS[random.below(WORDS.len())]);
        text.push(if random.one_in(12) { '.' } else { ' ' });
    }
    text.truncate(bytes);
    text
}

/// A long session of turns that all have the same number of bytes.
///
/// Ids and times have a fixed width and texts a fixed length, so that a page
/// costs the same wherever it lies; only the words differ.
///
/// ```
/// use folio_testkit::workload::Periodic;
///
/// let periodic = Periodic::new("s1");
/// let all = periodic.batch(0, 3);
/// assert_eq!(all.len(), 3 * Periodic::EVENTS_PER_TURN);
/// assert_eq!(periodic.batch(2, 1), all[2 * Periodic::EVENTS_PER_TURN..]);
/// ```
#[derive(Debug, Clone)]
pub struct Periodic {
    session: String,
}

impl Periodic {
    /// The events of one turn.
    pub const EVENTS_PER_TURN: usize = 14;
    /// The items of one turn.
    pub const ITEMS_PER_TURN: usize = 10;

    /// The turns of a session.
    pub fn new(session: &str) -> Self {
        Self {
            session: session.into(),
        }
    }

    /// The events of some turns, the first of which is turn 0.
    pub fn batch(&self, from_turn: u64, turns: u64) -> Vec<CanonicalEvent> {
        (from_turn..from_turn + turns)
            .flat_map(|turn| self.turn(turn))
            .collect()
    }

    fn turn(&self, turn: u64) -> [CanonicalEvent; Self::EVENTS_PER_TURN] {
        let random = &mut Random::new(turn);
        let mut events =
            Events::new(&self.session).run(&format!("r{turn:08}"), &format!("t{turn:08}"));
        // A second for each event, as the ids count them.
        events.at(EPOCH + turn * 14_000);
        let id = |k: u32| format!("e{turn:08}-{k:02}");
        let message = |k: u32| format!("m{turn:08}-{k}");
        let tool = |k: u32| format!("c{turn:08}-{k}");
        let (m1, m2, m3) = (message(1), message(2), message(3));
        let (input, output) = (1_000 + random.below(9_000), 100 + random.below(900));
        let dispatch = |events: &mut Events, k: u32, tool: &str| {
            events.raw(&id(k), &format!("\"role\":\"system\",\"author\":\"host\",\"refs\":{{\"toolCallId\":\"{tool}\"}},\"actions\":{{\"toolDispatch\":{{\"toolCallId\":\"{tool}\",\"attempt\":1}}}}"))
        };
        [
            events.opened(&id(1), "prompt", ""),
            events.user(&id(2), &prose(random, 350)),
            events.thinking(&id(3), &m1, false, &prose(random, 800)),
            events.text(&id(4), &m1, false, &prose(random, 600)),
            call(&mut events, &id(5), &m1, &tool(1), &prose(random, 250)),
            dispatch(&mut events, 6, &tool(1)),
            events.result(&id(7), &tool(1), "Read", &prose(random, 1_400)),
            events.usage(&id(8), &m1, input as u64, output as u64),
            events.text(&id(9), &m2, false, &prose(random, 600)),
            call(&mut events, &id(10), &m2, &tool(2), &prose(random, 250)),
            dispatch(&mut events, 11, &tool(2)),
            events.result(&id(12), &tool(2), "Read", &prose(random, 1_000)),
            events.text(&id(13), &m3, false, &prose(random, 700)),
            events.end(&id(14), "completed"),
        ]
    }
}

fn call(events: &mut Events, id: &str, step: &str, tool: &str, text: &str) -> CanonicalEvent {
    events.raw(id, &format!("\"role\":\"model\",\"author\":\"agent\",\"refs\":{{\"stepId\":\"{step}\"}},\"content\":{{\"kind\":\"function_call\",\"id\":\"{tool}\",\"name\":\"Read\",\"args\":{{\"path\":\"src/lib.rs\",\"why\":\"{text}\"}}}}"))
}

/// A session of about so many events in which everything happens: runs that
/// overlap and share turns, streams with and without an end, call ids that
/// come again, results before their calls, decisions without requests, chunks
/// that come late, child runs, odd texts, unknown kinds. The events may be
/// appended to the session `s1`, in this order, in batches of any size.
pub fn random(seed: u64, size: usize) -> Vec<CanonicalEvent> {
    let mut wild = Wild {
        random: Random::new(seed),
        events: Events::new("s1"),
        out: Vec::with_capacity(size + 8),
        open: Vec::new(),
        turns: Vec::new(),
        runs: 0,
        messages: 0,
    };
    while wild.out.len() < size {
        wild.step();
    }
    wild.out
}

/// A run that may go on.
#[derive(Debug, Clone)]
struct Open {
    run: String,
    turn: String,
    /// Messages with the kind and part that are being streamed.
    streams: Vec<(String, &'static str, u32)>,
    /// Messages that were settled at least once.
    settled: Vec<(String, &'static str, u32)>,
    /// Calls without a result.
    calls: Vec<String>,
    /// Requests without a decision.
    requests: Vec<String>,
    step: String,
    input: u64,
}

struct Wild {
    random: Random,
    events: Events,
    out: Vec<CanonicalEvent>,
    open: Vec<Open>,
    turns: Vec<String>,
    runs: u32,
    messages: u32,
}

const STATUSES: &[&str] = &["completed", "failed", "aborted", "cancelled"];

impl Wild {
    fn id(&self) -> String {
        format!("e{}", self.out.len() + 1)
    }

    /// Adds an event of the members that follow the envelope.
    fn push(&mut self, members: &str) {
        let id = self.id();
        let event = self.events.raw(&id, members);
        self.out.push(event);
    }

    fn message(&mut self) -> String {
        self.messages += 1;
        format!("m{}", self.messages)
    }

    fn step(&mut self) {
        if self.open.is_empty() || (self.open.len() < 4 && self.random.one_in(25)) {
            self.open_run();
            return;
        }
        // Mostly the latest run, so that runs nest; now and then another one.
        let last = self.open.len() - 1;
        let at = if self.random.one_in(3) {
            self.random.below(self.open.len())
        } else {
            last
        };
        let mut open = self.open.remove(at);
        self.events.enter(&open.run, &open.turn);
        // Sometimes the clock stands still or goes back: order is by commit.
        if self.random.one_in(10) {
            self.events.at(EPOCH + self.random.below(100_000) as u64);
        }
        if self.random.one_in(30) {
            self.end(&open);
            return;
        }
        match self.random.below(22) {
            0 => self.user(),
            1..=4 => self.chunk(&mut open),
            5..=6 => self.settle(&mut open),
            7 => self.whole(&mut open),
            8 => self.late(&open),
            9 => self.again(&open),
            10..=12 => self.call(&mut open),
            13..=14 => self.result(&mut open),
            15 => self.usage(&mut open),
            16..=17 => self.permission(&mut open),
            18 => self.mark(&open),
            19 => self.elsewhere(&open),
            20 => self.revise(),
            _ => self.odd(),
        }
        let at = at.min(self.open.len());
        self.open.insert(at, open);
    }

    /// A text as a JSON string.
    fn text(&mut self) -> String {
        const ODD: &[&str] = &[
            "",
            " ",
            "\n",
            "日本語のテキスト",
            "汉字",
            "😀👩\u{200d}👩\u{200d}👧",
            "e\u{301}",
            "\"quoted\\\"",
            "C:\\path\\",
            "\u{1}\u{7f}\u{0}",
            "\t<b>&amp;</b>\r\n",
            "\u{2028}\u{feff}שלום",
            "{\"partial\":true}",
        ];
        // Spelled as another writer might.
        const SPELLED: &[&str] = &[
            r#""\u00e9\/\u0041""#,
            r#""\ud83d\ude00 \b\f""#,
            r#""\u0000\u001f""#,
        ];
        if self.random.one_in(15) {
            return SPELLED[self.random.below(SPELLED.len())].into();
        }
        let mut text = String::new();
        if self.random.one_in(60) {
            let bytes = 20_000 + self.random.below(60_000);
            text = prose(&mut self.random, bytes);
        } else if !self.random.one_in(3) {
            let bytes = self.random.below(120);
            text = prose(&mut self.random, bytes);
        }
        if self.random.one_in(2) {
            text.push_str(ODD[self.random.below(ODD.len())]);
        }
        Json::string(&text).as_str().to_owned()
    }

    fn open_run(&mut self) {
        self.runs += 1;
        let run = format!("r{}", self.runs);
        let again = if self.random.one_in(3) {
            self.random.pick(&self.turns).cloned()
        } else {
            None
        };
        let turn = again.unwrap_or_else(|| format!("t{}", self.runs));
        self.turns.push(turn.clone());
        self.events.enter(&run, &turn);
        let parent = self.random.pick(&self.open).map(|open| open.run.clone());
        let id = self.id();
        let opening = match (self.random.below(5), parent) {
            (0, Some(parent)) => Some((
                "agent",
                format!("\"parentRunId\":\"{parent}\",\"agentId\":\"helper\""),
            )),
            (1, Some(parent)) => Some(("continuation", format!("\"parentRunId\":\"{parent}\""))),
            (2, _) => None,
            (3, _) => Some((
                "retry",
                format!("\"retriedFromTurnId\":\"t{}\"", self.runs / 2),
            )),
            _ => Some(("prompt", String::new())),
        };
        match opening {
            Some((source, lineage)) => {
                let event = self.events.opened(&id, source, &lineage);
                self.out.push(event);
            }
            None => self.user(),
        }
        let step = self.message();
        self.open.push(Open {
            run,
            turn,
            streams: Vec::new(),
            settled: Vec::new(),
            calls: Vec::new(),
            requests: Vec::new(),
            step,
            input: 100,
        });
    }

    fn end(&mut self, open: &Open) {
        let status = STATUSES[self.random.below(STATUSES.len())];
        let text = self.text();
        let members = match self.random.below(6) {
            0 => "\"role\":\"system\",\"author\":\"system\",\"actions\":{\"endInvocation\":true}".to_owned(),
            1 => "\"role\":\"system\",\"author\":\"system\",\"status\":\"failed\",\"actions\":{\"stateDelta\":{\"failureClass\":\"tool_step_cap_reached\"}}".to_owned(),
            2 => format!("\"role\":\"system\",\"author\":\"system\",\"status\":\"failed\",\"content\":{{\"kind\":\"error\",\"message\":{text},\"code\":\"boom\"}}"),
            3 => format!("\"role\":\"model\",\"author\":\"agent\",\"status\":\"{status}\",\"refs\":{{\"providerEventId\":\"{}\"}},\"content\":{{\"kind\":\"text\",\"text\":{text}}}", open.step),
            4 => "\"role\":\"system\",\"author\":\"user\",\"status\":\"aborted\",\"actions\":{\"stateDelta\":{\"abortSource\":\"user\"},\"tokenUsage\":{\"input\":1,\"output\":2}}".to_owned(),
            _ => format!("\"role\":\"system\",\"author\":\"system\",\"status\":\"{status}\""),
        };
        self.push(&members);
    }

    fn user(&mut self) {
        let text = self.text();
        let more = match self.random.below(5) {
            0 => ",\"steering\":true",
            1 => ",\"displayText\":\"short\",\"attachments\":[{\"name\":\"a.png\"}]",
            2 => ",\"origin\":{\"kind\":\"schedule\"},\"inlineReferences\":[]",
            _ => "",
        };
        self.push(&format!("\"role\":\"user\",\"author\":\"user\",\"content\":{{\"kind\":\"text\",\"text\":{text}{more}}}"));
    }

    /// Text or thinking of a message, whole or a chunk.
    fn model(&mut self, (message, kind, part): &(String, &'static str, u32), partial: bool) {
        let text = self.text();
        let index = if *part == 0 && self.random.one_in(2) {
            String::new()
        } else {
            format!("\"contentIndex\":{part},")
        };
        let more = match (partial, self.random.below(4), *kind) {
            (false, 0, "text") => {
                ",\"modelId\":\"model-2\",\"providerOptions\":{\"x\":{\"y\":[1,2]}}"
            }
            (false, 0, _) => ",\"signature\":\"c2ln\"",
            (false, 1, "thinking") => ",\"summary\":\"in short\"",
            _ => "",
        };
        self.push(&format!("\"role\":\"model\",\"author\":\"agent\",\"partial\":{partial},\"refs\":{{{index}\"providerEventId\":\"{message}\"}},\"content\":{{\"kind\":\"{kind}\",\"text\":{text}{more}}}"));
    }

    fn chunk(&mut self, open: &mut Open) {
        let known = if self.random.one_in(4) {
            None
        } else {
            self.random.pick(&open.streams).cloned()
        };
        let stream = known.unwrap_or_else(|| {
            let message = match self.random.pick(&open.streams) {
                // A second lane of a message that streams.
                Some((message, _, _)) if self.random.one_in(2) => message.clone(),
                _ => self.message(),
            };
            let kind = if self.random.one_in(3) {
                "thinking"
            } else {
                "text"
            };
            let part = u32::try_from(self.random.below(4) / 2).expect("0 or 1");
            let stream = (message, kind, part);
            if !open.streams.contains(&stream) && !open.settled.contains(&stream) {
                open.streams.push(stream.clone());
            }
            stream
        });
        self.model(&stream, true);
    }

    fn settle(&mut self, open: &mut Open) {
        if open.streams.is_empty() {
            return self.whole(open);
        }
        let at = self.random.below(open.streams.len());
        let stream = open.streams.remove(at);
        self.model(&stream, false);
        open.settled.push(stream);
    }

    fn whole(&mut self, open: &mut Open) {
        let message = if self.random.one_in(2) {
            open.step.clone()
        } else {
            self.message()
        };
        let kind = if self.random.one_in(4) {
            "thinking"
        } else {
            "text"
        };
        let stream = (message, kind, 0);
        self.model(&stream, false);
        open.settled.push(stream);
    }

    fn late(&mut self, open: &Open) {
        match self.random.pick(&open.settled).cloned() {
            Some(stream) => self.model(&stream, true),
            None => self.odd(),
        }
    }

    fn again(&mut self, open: &Open) {
        match self.random.pick(&open.settled).cloned() {
            Some(stream) => self.model(&stream, false),
            None => self.user(),
        }
    }

    fn call(&mut self, open: &mut Open) {
        if self.random.one_in(3) {
            open.step = self.message();
        }
        let tool = format!("call_{}", self.random.below(3));
        let text = self.text();
        let partial = self.random.one_in(8);
        let refs = match self.random.below(5) {
            0 => String::new(),
            1 => format!(
                "\"refs\":{{\"stepId\":\"{}\",\"operationId\":\"op-{}\"}},",
                open.step,
                self.random.below(3)
            ),
            _ => format!("\"refs\":{{\"stepId\":\"{}\"}},", open.step),
        };
        let actions = if self.random.one_in(4) {
            ",\"actions\":{\"stateDelta\":{\"displayName\":\"Read a file\",\"intent\":\"look\",\"activityKind\":\"read\"}}"
        } else {
            ""
        };
        self.push(&format!("\"role\":\"model\",\"author\":\"agent\",\"partial\":{partial},{refs}\"content\":{{\"kind\":\"function_call\",\"id\":\"{tool}\",\"name\":\"Read\",\"args\":{{\"q\":{text}}}}}{actions}"));
        if !partial {
            open.calls.push(tool);
        }
    }

    fn result(&mut self, open: &mut Open) {
        let known = if self.random.one_in(5) {
            None
        } else {
            self.random.pick(&open.calls).cloned()
        };
        let tool = known.unwrap_or_else(|| format!("call_{}", self.random.below(4)));
        if let Some(at) = open.calls.iter().position(|call| *call == tool) {
            open.calls.remove(at);
        }
        let text = self.text();
        let result = match self.random.below(5) {
            0 => format!("{{\"kind\":\"from_the_future\",\"x\":{text}}}"),
            1 => text,
            _ => format!("{{\"kind\":\"text\",\"text\":{text}}}"),
        };
        let refs = match self.random.below(4) {
            0 => format!(
                "\"refs\":{{\"operationId\":\"op-{}\"}},",
                self.random.below(3)
            ),
            _ => String::new(),
        };
        let more = match self.random.below(6) {
            0 => ",\"isError\":true",
            1 => ",\"providerExecuted\":true,\"providerOutput\":{\"raw\":1}",
            _ => "",
        };
        let actions = match self.random.below(6) {
            0 => ",\"actions\":{\"stateDelta\":{\"closer\":\"crash\"}}",
            1 => ",\"actions\":{\"stateDelta\":{\"durationMs\":12.5}}",
            _ => "",
        };
        let partial = self.random.one_in(8);
        self.push(&format!("\"role\":\"tool\",\"author\":\"tool\",\"partial\":{partial},{refs}\"content\":{{\"kind\":\"function_response\",\"id\":\"{tool}\",\"name\":\"Read\",\"result\":{result}{more}}}{actions}"));
    }

    fn usage(&mut self, open: &mut Open) {
        open.input += self.random.below(1_000) as u64;
        let (step, input) = (&open.step, open.input);
        let mut more = String::new();
        if self.random.one_in(2) {
            write!(
                more,
                ",\"reasoning\":{},\"costUsd\":0.25",
                self.random.below(50)
            )
            .expect("a string takes all");
        }
        let members = format!(
            "\"role\":\"system\",\"author\":\"system\",\"refs\":{{\"providerEventId\":\"{step}\"}},\"actions\":{{\"tokenUsage\":{{\"input\":{input},\"output\":7{more}}}}}"
        );
        self.push(&members);
    }

    fn permission(&mut self, open: &mut Open) {
        if self.random.one_in(2) {
            let request = format!("p{}", self.random.below(20));
            let tool = match self.random.pick(&open.calls) {
                Some(tool) => format!(",\"toolUseId\":\"{tool}\",\"toolName\":\"Read\""),
                None => String::new(),
            };
            self.push(&format!("\"role\":\"system\",\"author\":\"host\",\"actions\":{{\"permissionRequest\":{{\"requestId\":\"{request}\"{tool},\"hint\":\"a hint\"}}}}"));
            open.requests.push(request);
            return;
        }
        let known = if self.random.one_in(4) {
            None
        } else {
            self.random.pick(&open.requests).cloned()
        };
        let request = known.unwrap_or_else(|| format!("p{}", self.random.below(20)));
        let refs = match self.random.pick(&open.calls) {
            Some(tool) if self.random.one_in(3) => {
                format!("\"refs\":{{\"toolCallId\":\"{tool}\"}},")
            }
            _ => String::new(),
        };
        let decision = if self.random.one_in(3) {
            "deny"
        } else {
            "allow"
        };
        let more = if self.random.one_in(3) {
            ",\"rememberForTurn\":true,\"rationale\":\"fine\""
        } else {
            ""
        };
        self.push(&format!("\"role\":\"user\",\"author\":\"user\",{refs}\"actions\":{{\"permissionDecision\":{{\"requestId\":\"{request}\",\"decision\":\"{decision}\"{more}}}}}"));
    }

    /// Thinking that was withheld: seen, and without content.
    fn mark(&mut self, open: &Open) {
        let message = match self.random.pick(&open.settled) {
            Some((message, _, _)) if self.random.one_in(2) => message.clone(),
            _ => format!("m{}", self.messages + u32::from(self.random.one_in(2))),
        };
        self.push(&format!("\"role\":\"model\",\"author\":\"agent\",\"refs\":{{\"providerEventId\":\"{message}\"}},\"content\":{{\"kind\":\"thinking\",\"text\":\"\",\"signature\":\"czI=\"}}"));
    }

    /// An item that began in another run goes on in this one.
    fn elsewhere(&mut self, open: &Open) {
        let other = self.random.pick(&self.open).cloned();
        let other = other.as_ref().unwrap_or(open);
        let scope = format!(
            "\"scopeRunId\":\"{}\",\"scopeTurnId\":\"{}\"",
            other.run, other.turn
        );
        let text = self.text();
        let members = match (
            self.random.pick(&other.streams),
            self.random.pick(&other.calls),
        ) {
            (Some((message, kind, part)), _) => format!(
                "\"role\":\"model\",\"author\":\"agent\",\"refs\":{{\"providerEventId\":\"{message}\",\"contentIndex\":{part},{scope}}},\"content\":{{\"kind\":\"{kind}\",\"text\":{text}}}"
            ),
            (None, Some(tool)) => format!(
                "\"role\":\"tool\",\"author\":\"tool\",\"refs\":{{{scope}}},\"content\":{{\"kind\":\"function_response\",\"id\":\"{tool}\",\"name\":\"Read\",\"result\":{{\"kind\":\"text\",\"text\":{text}}}}}"
            ),
            (None, None) => format!(
                "\"role\":\"user\",\"author\":\"user\",\"refs\":{{{scope}}},\"content\":{{\"kind\":\"text\",\"text\":{text}}}"
            ),
        };
        self.push(&members);
    }

    /// An event that replaces what an earlier one contributed.
    fn revise(&mut self) {
        let at = self.random.below(self.out.len());
        let old = &self.out[at];
        let (view, id) = (old.view(), old.id.as_str());
        let of = |field| view.text(field).map(std::borrow::Cow::into_owned);
        // The same scope, wherever it is said from.
        let run = of(Field::ScopeRunId).unwrap_or_else(|| old.spine.run_id.as_str().to_owned());
        let turn = of(Field::ScopeTurnId).unwrap_or_else(|| old.spine.turn_id.as_str().to_owned());
        let refs =
            format!("\"revises\":\"{id}\",\"scopeRunId\":\"{run}\",\"scopeTurnId\":\"{turn}\"");
        let (id, kind, role) = (id.to_owned(), view.kind().into_owned(), view.role);
        let message = of(Field::ProviderEventId).unwrap_or_default();
        let part = view.raw(Field::ContentIndex).unwrap_or("0").to_owned();
        let (tool, request) = (of(Field::CallId), of(Field::DecisionRequestId));
        let text = self.text();
        let members = match (&*kind, role, request) {
            (_, _, Some(request)) => format!(
                "\"role\":\"user\",\"author\":\"user\",\"refs\":{{{refs}}},\"actions\":{{\"permissionDecision\":{{\"requestId\":\"{request}\",\"decision\":\"deny\"}}}}"
            ),
            ("text" | "thinking", Role::Model, _) if !message.is_empty() => format!(
                "\"role\":\"model\",\"author\":\"agent\",\"refs\":{{\"contentIndex\":{part},\"providerEventId\":\"{message}\",{refs}}},\"content\":{{\"kind\":\"{kind}\",\"text\":{text}}}"
            ),
            ("function_call", _, _) => format!(
                "\"role\":\"model\",\"author\":\"agent\",\"refs\":{{{refs}}},\"content\":{{\"kind\":\"function_call\",\"id\":\"{}\",\"name\":\"Write\",\"args\":{text}}}",
                tool.unwrap_or_default()
            ),
            ("function_response", _, _) => format!(
                "\"role\":\"tool\",\"author\":\"tool\",\"refs\":{{{refs}}},\"content\":{{\"kind\":\"function_response\",\"id\":\"{}\",\"name\":\"Read\",\"result\":{{\"kind\":\"text\",\"text\":{text}}}}}",
                tool.unwrap_or_default()
            ),
            _ => format!(
                "\"role\":\"user\",\"author\":\"user\",\"refs\":{{\"storedMessageId\":\"{id}\",{refs}}},\"content\":{{\"kind\":\"text\",\"text\":{text}}}"
            ),
        };
        self.push(&members);
    }

    fn odd(&mut self) {
        let text = self.text();
        let ordinal = self.out.len();
        let members = match self.random.below(9) {
            0 => format!("\"role\":\"system\",\"author\":\"system\",\"content\":{{\"kind\":\"error\",\"message\":{text},\"details\":[\"a\"]}}"),
            1 => format!("\"role\":\"system\",\"author\":\"system\",\"content\":{{\"kind\":\"compaction\",\"summary\":{text},\"throughOrdinal\":{ordinal},\"tokensBefore\":9}}"),
            2 => format!("\"role\":\"system\",\"author\":\"host\",\"content\":{{\"kind\":\"extension\",\"namespace\":\"acme\",\"name\":\"vote\",\"version\":1,\"criticality\":\"required\",\"payload\":{{\"x\":{text}}}}}"),
            3 => "\"role\":\"system\",\"author\":\"host\",\"content\":{\"kind\":\"extension\",\"namespace\":\"acme\",\"name\":\"ping\",\"version\":2,\"criticality\":\"ignorable\",\"payload\":null}".to_owned(),
            4 => format!("\"role\":\"model\",\"author\":\"agent\",\"content\":{{\"kind\":\"hologram\",\"frames\":[{text}]}}"),
            5 => format!("\"role\":\"system\",\"author\":\"system\",\"content\":{{\"kind\":\"text\",\"text\":{text}}}"),
            6 => format!("\"role\":\"system\",\"author\":\"host\",\"status\":\"streaming\",\"actions\":{{\"stateDelta\":{{\"note\":{text}}}}},\"zeta\":{{\"b\":1e3}}"),
            7 => format!("\"role\":\"model\",\"author\":\"agent\",\"branch\":\"a.b\",\"origin\":\"code_mode\",\"modelVisibility\":\"hidden\",\"nonce\":\"n\",\"content\":{{\"kind\":\"text\",\"text\":{text}}}"),
            _ => "\"role\":\"system\",\"author\":\"host\"".to_owned(),
        };
        self.push(&members);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_core::SessionId;
    use std::collections::HashSet;

    #[test]
    fn every_turn_has_the_same_sizes_and_other_words() {
        let session = SessionId::new("s1").unwrap();
        let periodic = Periodic::new("s1");
        let sizes = |turn| -> Vec<usize> {
            let events = periodic.batch(turn, 1);
            events.iter().map(|e| e.to_json(&session).len()).collect()
        };
        let first = sizes(0);
        assert_eq!(first.len(), Periodic::EVENTS_PER_TURN);
        for turn in [1, 9, 10, 4_711, 99_999_999] {
            assert_eq!(sizes(turn), first, "turn {turn}");
        }
        let average = first.iter().sum::<usize>() / first.len();
        assert!((650..=750).contains(&average), "{average} bytes");
        assert_ne!(periodic.batch(0, 1)[3].text, periodic.batch(1, 1)[3].text);
        let rows = crate::reference::project(&periodic.batch(0, 3));
        assert_eq!(rows.len(), 3 * Periodic::ITEMS_PER_TURN);
    }

    #[test]
    fn a_seed_always_gives_the_same_session_and_no_id_twice() {
        let session = random(7, 500);
        assert_eq!(session, random(7, 500));
        assert_ne!(session, random(8, 500));
        assert!(session.len() >= 500);
        let ids: HashSet<_> = session.iter().map(|event| event.id.as_str()).collect();
        assert_eq!(ids.len(), session.len());
    }

    #[test]
    fn random_sessions_hold_what_they_promise() {
        let rows: Vec<_> = (0..20)
            .flat_map(|seed| crate::reference::project(&random(seed, 300)))
            .collect();
        let has = |text: &str| rows.iter().any(|(_, _, json)| json.contains(text));
        for kind in [
            "\"type\":\"user\"",
            "\"type\":\"assistant\"",
            "\"type\":\"tool_call\"",
            "\"type\":\"tool_result\"",
            "\"type\":\"permission_decision\"",
            "\"type\":\"token_usage\"",
            "\"type\":\"turn_state\"",
            "\"type\":\"extension\"",
            "\"kind\":\"step_limit\"",
            "\"kind\":\"context_compacted\"",
            "\"kind\":\"unsupported_event\"",
            "\"contentOrder\"",
            "\"steeringEventId\"",
            "\"hint\":\"a hint\"",
            "\"parts\":[",
            "日本語",
        ] {
            assert!(has(kind), "{kind}");
        }
        let keys = || rows.iter().map(|(key, _, _)| key);
        assert!(keys().any(|key| key.starts_with("call:") && key.ends_with("~2")));
        assert!(keys().any(|key| key.starts_with("assistant:") && key.ends_with("~2")));
    }
}
