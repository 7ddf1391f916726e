//! Starting, hearing, stopping and killing other processes.

use crate::child::MARK;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// A running child. What is not stopped is killed with the test.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts a child of some role on a store.
    pub fn start(role: &str, path: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([MARK, role]).arg(path).args(more);
        Self::spawn(command)
    }

    /// Starts a child that cannot make a file longer than so many bytes.
    pub fn start_limited(role: &str, path: &Path, more: &[&str], bytes: u64) -> Self {
        let mut command = Command::new("sh");
        // The signal would kill; without it the write fails as on a full disk.
        let script = format!(
            "trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"",
            bytes / 512
        );
        command
            .args(["-c", &script])
            .arg(std::env::current_exe().unwrap());
        command.args([MARK, role]).arg(path).args(more);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // The killed may leave half a line behind.
            while out.read_line(&mut line).is_ok() && line.ends_with('\n') {
                if send.send(line.trim_end().to_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Self { child, lines }
    }

    /// The next line.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// What it says from here on until it has stopped of itself.
    pub fn stop(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let lines = self.lines.iter().collect();
        assert!(self.child.wait().unwrap().success(), "a child failed");
        lines
    }

    /// Kills it in the middle of whatever it does; what it had said.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
