//! Events in a line each.
//!
//! ```
//! use folio_testkit::event::Events;
//!
//! let mut events = Events::new("s1").run("r1", "t1");
//! let event = events.user("u1", "hello");
//! assert_eq!(event.id.as_str(), "u1");
//! ```

use folio_core::{CanonicalEvent, RuntimeEvent};

/// Makes events of one session, run and turn, with a clock that ticks by one.
#[derive(Debug, Clone)]
pub struct Events {
    session: String,
    run: String,
    turn: String,
    ts: u64,
}

impl Events {
    /// Events of a session; run and turn are `r1` and `t1` until set.
    pub fn new(session: &str) -> Self {
        Self {
            session: session.into(),
            run: "r1".into(),
            turn: "t1".into(),
            ts: 1_700_000_000_000,
        }
    }

    /// The same clock, in another run and turn.
    #[must_use]
    pub fn run(mut self, run: &str, turn: &str) -> Self {
        self.run = run.into();
        self.turn = turn.into();
        self
    }

    /// Goes on in another run and turn.
    pub fn enter(&mut self, run: &str, turn: &str) {
        self.run = run.into();
        self.turn = turn.into();
    }

    /// Sets the clock: the next event is one millisecond later.
    pub fn at(&mut self, ts: u64) {
        self.ts = ts;
    }

    /// An event from the members that follow the envelope, such as
    /// `"role":"user","author":"user","content":{...}`.
    ///
    /// # Panics
    /// If the members make no event: a mistake in the test.
    pub fn raw(&mut self, id: &str, members: &str) -> CanonicalEvent {
        self.ts += 1;
        let Self {
            session,
            run,
            turn,
            ts,
        } = self;
        let partial = if members.contains("\"partial\"") {
            ""
        } else {
            "\"partial\":false,"
        };
        let id = folio_core::Json::string(id);
        let text = format!(
            "{{\"id\":{id},\"invocationId\":\"i-{run}\",\"runId\":\"{run}\",\"sessionId\":\"{session}\",\"turnId\":\"{turn}\",\"ts\":{ts},{partial}{members}}}"
        );
        let event = RuntimeEvent::from_json(&text).and_then(|event| CanonicalEvent::new(&event));
        match event {
            Ok(event) => event,
            Err(error) => unreachable!("a test event must be one: {error}: {text}"),
        }
    }

    /// The opening of the run: `source` is the kind of how it came about,
    /// `lineage` the inside of the lineage object.
    pub fn opened(&mut self, id: &str, source: &str, lineage: &str) -> CanonicalEvent {
        self.raw(id, &format!("\"role\":\"system\",\"author\":\"host\",\"content\":{{\"kind\":\"run_opened\",\"route\":{{\"backendKind\":\"api\",\"llmConnectionSlug\":\"main\",\"modelId\":\"model-1\"}},\"configuration\":{{\"cwd\":\"/home/me/project\",\"permissionMode\":\"ask\"}},\"root\":{{\"kind\":\"prompt\"}},\"source\":{{\"kind\":\"{source}\"}},\"lineage\":{{{lineage}}}}}"))
    }

    /// A message of the person.
    pub fn user(&mut self, id: &str, text: &str) -> CanonicalEvent {
        let text = folio_core::Json::string(text);
        self.raw(id, &format!("\"role\":\"user\",\"author\":\"user\",\"content\":{{\"kind\":\"text\",\"text\":{text}}}"))
    }

    /// A chunk or the whole of a model's text, under its message id.
    pub fn text(&mut self, id: &str, message: &str, partial: bool, text: &str) -> CanonicalEvent {
        self.model(id, message, partial, "text", text)
    }

    /// A chunk or the whole of a model's reasoning, under its message id.
    pub fn thinking(
        &mut self,
        id: &str,
        message: &str,
        partial: bool,
        text: &str,
    ) -> CanonicalEvent {
        self.model(id, message, partial, "thinking", text)
    }

    fn model(
        &mut self,
        id: &str,
        message: &str,
        partial: bool,
        kind: &str,
        text: &str,
    ) -> CanonicalEvent {
        let text = folio_core::Json::string(text);
        self.raw(id, &format!("\"role\":\"model\",\"author\":\"agent\",\"partial\":{partial},\"refs\":{{\"providerEventId\":\"{message}\"}},\"content\":{{\"kind\":\"{kind}\",\"text\":{text}}}"))
    }

    /// A tool call of a message.
    pub fn call(&mut self, id: &str, message: &str, tool: &str, name: &str) -> CanonicalEvent {
        self.raw(id, &format!("\"role\":\"model\",\"author\":\"agent\",\"refs\":{{\"stepId\":\"{message}\"}},\"content\":{{\"kind\":\"function_call\",\"id\":\"{tool}\",\"name\":\"{name}\",\"args\":{{\"path\":\"README.md\"}}}}"))
    }

    /// A tool's answer.
    pub fn result(&mut self, id: &str, tool: &str, name: &str, text: &str) -> CanonicalEvent {
        let text = folio_core::Json::string(text);
        self.raw(id, &format!("\"role\":\"tool\",\"author\":\"tool\",\"content\":{{\"kind\":\"function_response\",\"id\":\"{tool}\",\"name\":\"{name}\",\"result\":{{\"kind\":\"text\",\"text\":{text}}}}}"))
    }

    /// What a model call used.
    pub fn usage(&mut self, id: &str, message: &str, input: u64, output: u64) -> CanonicalEvent {
        self.raw(id, &format!("\"role\":\"system\",\"author\":\"system\",\"refs\":{{\"providerEventId\":\"{message}\"}},\"actions\":{{\"tokenUsage\":{{\"input\":{input},\"output\":{output}}}}}"))
    }

    /// The end of the run.
    pub fn end(&mut self, id: &str, status: &str) -> CanonicalEvent {
        self.raw(id, &format!("\"role\":\"system\",\"author\":\"system\",\"status\":\"{status}\",\"actions\":{{\"endInvocation\":true}}"))
    }
}
