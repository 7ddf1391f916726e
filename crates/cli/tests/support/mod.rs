//! Runs the real command in a place of its own.
#![allow(dead_code, reason = "each test uses what it needs")]
#![allow(clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The ids of the bundled sample sessions, the newest last.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples")
}

/// The kinds of stores that stay.
pub const KINDS: [&str; 2] = ["sqlite", "redb"];

/// A folder with a store in it.
pub struct Place {
    pub dir: TempDir,
    kind: &'static str,
}

/// How a command ended.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        Self::of("sqlite")
    }

    /// A place whose store is of some kind.
    pub fn of(kind: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a folder for the test");
        Self { dir, kind }
    }

    /// The store as a command line names it.
    pub fn name(&self) -> String {
        format!("{}:{}", self.kind, self.store().display())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("the test's own file");
        path
    }

    pub fn store(&self) -> PathBuf {
        self.path("store.db")
    }

    /// The command, with nothing of the caller's settings.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_folio"));
        self.settle(&mut command);
        command
    }

    pub fn settle(&self, command: &mut Command) {
        for name in ["NO_COLOR", "RUST_LOG", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command
            .env("HOME", self.dir.path())
            .env("APPDATA", self.dir.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .env("FOLIO_STORE", self.name())
            .env("TZ", "UTC")
            .stdin(Stdio::null());
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command().args(args))
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stderr, "", "{args:?}");
        ran.stdout
    }

    /// Runs a command that must succeed, and reads its JSON lines.
    pub fn json(&self, args: &[&str]) -> Vec<serde_json::Value> {
        let mut all = vec!["--json"];
        all.extend(args);
        json_lines(&self.ok(&all))
    }

    pub fn import_samples(&self) {
        self.ok(&["import", samples().to_str().expect("a path in UTF-8")]);
    }
}

impl Ran {
    pub fn of(command: &mut Command) -> Self {
        command.output().expect("the command starts").into()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

pub fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// A session file with a prompt and an answer for each turn, and calls with
/// results in between.
pub fn generated(id: &str, turns: usize, bulk: usize) -> String {
    let mut out = String::new();
    let mut parent = "null".to_owned();
    let mut n = 0_u64;
    let mut record = |kind: &str, message: String, out: &mut String| {
        n += 1;
        let uuid = format!("{n:08x}-0000-4000-8000-{turns:012x}");
        let second = n % 60;
        let minute = n / 60 % 60;
        let hour = n / 3_600 % 24;
        let day = 1 + n / 86_400;
        out.push_str(&format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"type":"{kind}","message":{message},"uuid":"{uuid}","timestamp":"2026-03-{day:02}T{hour:02}:{minute:02}:{second:02}.000Z","userType":"external","cwd":"/home/x","sessionId":"{id}","version":"2.1.0","gitBranch":"main"}}"#
        ));
        out.push('\n');
        parent = format!("\"{uuid}\"");
    };
    for turn in 0..turns {
        // Records outside the conversation become notes.
        if turn % 10 == 3 {
            out.push_str(&format!(
                r#"{{"type":"ai-title","aiTitle":"Title {turn}","sessionId":"{id}"}}"#
            ));
            out.push('\n');
        }
        let text = format!("Question {turn}: why?");
        let message = format!(r#"{{"role":"user","content":"{text}"}}"#);
        record("user", message, &mut out);
        let assistant = |content: String, stop: &str, which: usize| {
            format!(
                r#"{{"model":"claude-opus-4-6","id":"msg_{turn}_{which}","type":"message","role":"assistant","content":[{content}],"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":3,"cache_creation_input_tokens":10,"cache_read_input_tokens":20,"output_tokens":7}}}}"#
            )
        };
        let call = format!(
            r#"{{"type":"tool_use","id":"toolu_{turn}","name":"Bash","input":{{"command":"ls {turn}"}}}}"#
        );
        record("assistant", assistant(call, "tool_use", 0), &mut out);
        let result = format!(
            r#"{{"role":"user","content":[{{"tool_use_id":"toolu_{turn}","type":"tool_result","content":"{}"}}]}}"#,
            "r".repeat(bulk)
        );
        record("user", result, &mut out);
        let answer = format!(
            r#"{{"type":"text","text":"Because {turn}. {}"}}"#,
            "a".repeat(bulk / 4)
        );
        record("assistant", assistant(answer, "end_turn", 1), &mut out);
    }
    out
}
