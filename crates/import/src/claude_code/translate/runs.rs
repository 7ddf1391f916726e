//! Runs and turns: which one a record belongs to, and when they end.

use super::super::FORMAT;
use super::super::record::Record;
use super::Translator;
use super::draft::Draft;
use super::make::{members, object, run_ids, turn_id};
use folio_core::{
    Actions, Author, Content, InvocationId, Json, Members, Role, RunId, RunOpened, Status, TurnId,
};

/// A run that has no terminal event yet.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) invocation: InvocationId,
    pub(super) turn: TurnId,
    /// The time of its last event, in milliseconds.
    pub(super) last: u64,
    /// Whether its last assistant line says that the model was done.
    pub(super) done: Option<String>,
    pub(super) amendment: bool,
}

/// How a run ended, kept for the amendments that follow it.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) status: Status,
    pub(super) delta: String,
}

/// The main runs of a turn, or its runs of sub-agents.
#[derive(Debug, Clone, Default)]
pub(super) struct Lane {
    pub(super) open: Option<Run>,
    pub(super) ended: Option<End>,
}

#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) id: TurnId,
    /// The main run that was opened last.
    pub(super) main: RunId,
    /// Whether a sub-agent's record opened it, so that there is no run that a
    /// child could hang under.
    pub(super) sidechain: bool,
}

/// Which of a turn's lanes a record belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Main,
    Child,
}

impl Translator {
    pub(super) fn side(&self, record: &Record<'_>) -> Side {
        let child = record.is_sidechain()
            && !self.identifier.is_agent_file()
            && self.turn.as_ref().is_some_and(|turn| !turn.sidechain);
        if child { Side::Child } else { Side::Main }
    }

    pub(super) fn lane(&mut self, side: Side) -> &mut Lane {
        match side {
            Side::Main => &mut self.main,
            Side::Child => &mut self.child,
        }
    }

    /// The open run of a lane, opened now if there is none.
    pub(super) fn run(&mut self, record: &Record<'_>, side: Side) -> Run {
        if let Some(run) = &self.lane(side).open {
            return run.clone();
        }
        match (side, self.turn.clone()) {
            (Side::Main, None) => {
                let sidechain = record.is_sidechain() && !self.identifier.is_agent_file();
                self.open_turn(record, "unprompted", sidechain)
            }
            (Side::Main, Some(turn)) => {
                let run = self.open_run(record, side, &turn.id, "amendment", None);
                if let Some(turn) = &mut self.turn {
                    turn.main = run.id.clone();
                }
                run
            }
            (Side::Child, turn) => {
                let mut lineage = Members::default();
                let root = if self.child.ended.is_some() {
                    "amendment"
                } else {
                    "subagent"
                };
                if let Some(turn) = &turn {
                    lineage.set("parentRunId", Json::string(turn.main.as_str()));
                }
                if let Some(agent) = record.object.text("agentId") {
                    lineage.set("agentId", Json::string(&agent));
                }
                let id = turn.map_or_else(|| turn_id(&self.cause.r), |turn| turn.id);
                self.open_run(record, side, &id, root, Some(&lineage))
            }
        }
    }

    pub(super) fn open_turn(&mut self, record: &Record<'_>, root: &str, sidechain: bool) -> Run {
        self.close_lanes();
        self.main.ended = None;
        self.child.ended = None;
        let id = turn_id(&self.cause.r);
        let run = self.open_run(record, Side::Main, &id, root, None);
        self.turn = Some(Turn {
            id,
            main: run.id.clone(),
            sidechain,
        });
        run
    }

    pub(super) fn open_run(
        &mut self,
        record: &Record<'_>,
        side: Side,
        turn: &TurnId,
        root: &str,
        lineage: Option<&Members>,
    ) -> Run {
        let (id, invocation) = run_ids(&self.cause.r);
        let run = Run {
            id,
            invocation,
            turn: turn.clone(),
            last: self.cause.ts,
            done: None,
            amendment: root == "amendment",
        };
        self.lane(side).open = Some(run.clone());
        let mut configuration = Members::default();
        for name in [
            "cwd",
            "gitBranch",
            "version",
            "entrypoint",
            "permissionMode",
        ] {
            let value = record.object.get(name).filter(|raw| *raw != "null");
            if let Some(value) = value.and_then(|raw| Json::from_checked(raw).ok()) {
                configuration.set(name, value);
            }
        }
        let mut route = Members::default();
        route.set("backendKind", Json::string(FORMAT));
        route.set("llmConnectionSlug", Json::string(FORMAT));
        let mut from = Members::default();
        from.set("kind", Json::string("import"));
        from.set("format", Json::string(FORMAT));
        let mut kind = Members::default();
        kind.set("kind", Json::string(root));
        let opened = RunOpened {
            route: members(&route),
            configuration: members(&configuration),
            root: members(&kind),
            source: members(&from),
            lineage: lineage.map(members),
            unknown: Members::default(),
        };
        let mut draft = Draft::new(
            Role::System,
            Author::System,
            Some(Content::RunOpened(opened)),
        );
        draft.hidden = true;
        self.emit(side, draft);
        run
    }

    /// Ends the open run of a lane; answers whether there was one.
    pub(super) fn end(&mut self, side: Side, status: Status, delta: &str, ts: Option<u64>) -> bool {
        if self.lane(side).open.is_none() {
            return false;
        }
        let mut draft = Draft::new(Role::System, Author::System, None);
        draft.status = Some(status);
        draft.ts = ts;
        draft.actions = Some(Actions {
            end_invocation: Some(true),
            state_delta: Json::from_checked(delta).ok(),
            ..Actions::default()
        });
        self.emit(side, draft);
        let lane = self.lane(side);
        lane.open = None;
        lane.ended = Some(End {
            status,
            delta: delta.to_owned(),
        });
        true
    }

    pub(super) fn mark_end(&mut self, record: &Record<'_>, status: Status, delta: &str) {
        let side = self.side(record);
        self.end(side, status, delta, None);
    }

    /// Closes what is open because something else begins: by the evidence
    /// there is, at the time of the run's last event.
    pub(super) fn close_lanes(&mut self) {
        for side in [Side::Child, Side::Main] {
            let lane = self.lane(side);
            let Some(run) = lane.open.clone() else {
                continue;
            };
            let (status, delta) = match (&lane.ended, &run.done) {
                (Some(end), _) if run.amendment => (end.status, end.delta.clone()),
                (_, Some(reason)) => {
                    let mut delta = Members::default();
                    delta.set("evidence", Json::string(reason));
                    (Status::Completed, object(&delta))
                }
                _ => {
                    let delta = r#"{"abortSource":"external_session_snapshot"}"#;
                    (Status::Aborted, delta.to_owned())
                }
            };
            self.end(side, status, &delta, Some(run.last));
        }
    }
}
