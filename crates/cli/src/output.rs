//! Standard output: one writer, with colours only where they are wanted.

use crate::args::Color;
use crate::failure::Failure;
use anstyle::{AnsiColor, Style};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// The styles of the terminal output.
pub mod style {
    use super::{AnsiColor, Style};

    /// What a person said.
    pub const USER: Style = AnsiColor::Green.on_default().bold();
    /// What the model said.
    pub const ASSISTANT: Style = AnsiColor::Cyan.on_default().bold();
    /// A call of a tool.
    pub const TOOL: Style = AnsiColor::Yellow.on_default().bold();
    /// What went wrong.
    pub const BAD: Style = AnsiColor::Red.on_default().bold();
    /// A heading.
    pub const HEAD: Style = Style::new().bold();
    /// What may be passed over.
    pub const DIM: Style = Style::new().dimmed();
}

/// Where results go.
#[derive(Debug)]
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    color: bool,
    outlives_reader: bool,
    /// Whether the reader is gone: nothing more is written.
    closed: bool,
    /// Whether results are JSON lines.
    pub json: bool,
    /// The columns of the terminal, 80 where there is none.
    pub width: usize,
}

impl Output {
    /// Writes to standard output.
    pub fn new(json: bool, color: Color) -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && terminal_wants_color(),
        };
        let width = match terminal_size::terminal_size_of(&stdout) {
            Some((columns, _)) if terminal => usize::from(columns.0),
            _ => 80,
        };
        Self {
            writer: BufWriter::new(stdout.lock()),
            color,
            outlives_reader: false,
            closed: false,
            json,
            width: width.max(20),
        }
    }

    /// From here on a reader who goes away does not end the command: the rest
    /// of the output is dropped.
    pub fn outlive_reader(&mut self) {
        self.outlives_reader = true;
    }

    /// Writes a line.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.reach(|writer| {
            writer.write_all(text.as_bytes())?;
            writer.write_all(b"\n")
        })
    }

    /// Writes a part of a line.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.reach(|writer| writer.write_all(bytes))
    }

    /// Hands over what was written, so that a reader sees it now.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.reach(Write::flush)
    }

    fn reach(
        &mut self,
        write: impl FnOnce(&mut BufWriter<StdoutLock<'static>>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        match write(&mut self.writer) {
            Err(error) if self.outlives_reader && error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            done => Ok(done?),
        }
    }

    /// Text in a style, where styles are shown.
    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

fn terminal_wants_color() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
