//! Text for terminals: nothing in a session may steer the reader's terminal.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt::{self, Write};
use unicode_width::UnicodeWidthStr;

/// The widest text that is comfortable to read.
const MEASURE: usize = 100;
/// What is shown of one very long line where only its beginning matters.
const LONG: usize = 2_000;
/// The most characters of a name in a message; no session has a longer id.
const QUOTED: usize = 128;

/// Text without control characters: line feeds stay, tabs become spaces, the
/// others are shown by their number. Marks that reverse the reading direction
/// are shown the same way, because they can make text read as what it is not.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => out.push('\n'),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\t' => out.push_str("    "),
            c if is_unsafe(c) => {
                // Writing to a String cannot fail.
                let _unfailing = write!(out, "{}", c.escape_unicode());
            }
            c => out.push(c),
        }
    }
    out
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}' | '\u{2029}'
            | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Plain text in one line of at most `width` columns.
pub fn one_line(text: &str, width: usize) -> String {
    // Only what can be shown is looked at.
    let head: String = text.chars().take(width.saturating_mul(4)).collect();
    let joined = plain(&head)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let whole = head.len() == text.len();
    if whole && joined.width() <= width {
        return joined;
    }
    let mut out = String::new();
    let mut used = 1;
    for c in joined.chars() {
        let wide = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if used + wide > width {
            break;
        }
        used += wide;
        out.push(c);
    }
    out.push('…');
    out
}

/// Plain text as lines of at most `width` columns, blank lines at its ends
/// left out.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.clamp(20, MEASURE);
    let text = plain(text);
    let mut lines = Vec::new();
    for line in text.trim_end().trim_start_matches('\n').split('\n') {
        wrap_line(line.trim_end(), width, &mut lines);
    }
    lines
}

/// The first `limit` lines of a text, and how many follow.
pub fn folded(text: &str, width: usize, limit: usize) -> (Vec<String>, usize) {
    let width = width.clamp(20, MEASURE);
    let mut lines = Vec::new();
    let mut source = text.trim_end().trim_start_matches('\n').split('\n');
    for line in source.by_ref() {
        let head: String = line.chars().take(LONG).collect();
        let mut head = plain(&head);
        if head.len() < line.len() && line.chars().nth(LONG).is_some() {
            head.push('…');
        }
        wrap_line(head.trim_end(), width, &mut lines);
        if lines.len() > limit {
            break;
        }
    }
    let hidden = lines.len().saturating_sub(limit) + source.count();
    lines.truncate(limit);
    (lines, hidden)
}

fn wrap_line(line: &str, width: usize, lines: &mut Vec<String>) {
    if line.is_ascii() && line.len() <= width {
        lines.push(line.to_owned());
        return;
    }
    lines.extend(
        textwrap::wrap(line, width)
            .into_iter()
            .map(std::borrow::Cow::into_owned),
    );
}

/// A moment in the reader's own time zone; empty where it is unknown.
pub fn moment(millis: u64) -> String {
    time(millis, "%Y-%m-%d %H:%M:%S")
}

/// The day and minute of a moment.
pub fn minute(millis: u64) -> String {
    time(millis, "%Y-%m-%d %H:%M")
}

fn time(millis: u64, format: &str) -> String {
    if millis == 0 {
        return String::new();
    }
    i64::try_from(millis)
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .map(|at| {
            at.to_zoned_datetime(TimeZone::system())
                .strftime(format)
                .to_string()
        })
        .unwrap_or_default()
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a String cannot fail.
        let _unfailing = write!(out, "{byte:02x}");
        out
    })
}

/// A number with its thousands apart.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun, which takes an s unless it is one.
pub fn count(value: u64, noun: &str) -> String {
    let s = if value == 1 { "" } else { "s" };
    format!("{} {noun}{s}", number(value))
}

/// What a model call, or several, took and gave, in tokens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tokens {
    /// The whole prompt.
    pub prompt: u64,
    /// Of the prompt: neither read from nor written to a cache.
    pub new: u64,
    /// Of the prompt: read from a cache.
    pub cached: u64,
    /// Of the prompt: written to a cache.
    pub kept: u64,
    /// The answer.
    pub answer: u64,
    /// Of the answer: reasoning.
    pub reasoning: u64,
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prompt {}", number(self.prompt))?;
        let parts: Vec<String> = [
            (self.new, "new"),
            (self.cached, "from the cache"),
            (self.kept, "to the cache"),
        ]
        .into_iter()
        .filter(|(value, _)| *value > 0)
        .map(|(value, what)| format!("{} {what}", number(value)))
        .collect();
        // Where no cache had a part in it, all of it is new.
        if self.cached > 0 || self.kept > 0 {
            write!(f, " ({})", parts.join(", "))?;
        }
        write!(f, ", answer {}", number(self.answer))?;
        if self.reasoning > 0 {
            write!(f, " ({} reasoning)", number(self.reasoning))?;
        }
        Ok(())
    }
}

/// A name as somebody wrote it, for a message: it is seen that it is empty or
/// has blanks around it, and a long one is cut.
pub fn quoted(name: &str) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=QUOTED).contains(&name.len()) && name.chars().all(simple) {
        return name.to_owned();
    }
    let head: String = name.chars().take(QUOTED).collect();
    let more = if head.len() < name.len() { "…" } else { "" };
    format!("{head:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_never_sent() {
        let text = "a\u{1b}[31mred\r\nb\tc\u{9b}\u{202e}\u{7}\r";
        let plain = plain(text);
        assert_eq!(plain, "a\\u{1b}[31mred\nb    c\\u{9b}\\u{202e}\\u{7}\\u{d}");
        assert!(!plain.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn folding_says_how_much_is_hidden() {
        let text = (1..=10).map(|n| format!("line {n}\n")).collect::<String>();
        let (lines, hidden) = folded(&text, 80, 3);
        assert_eq!(lines, ["line 1", "line 2", "line 3"]);
        assert_eq!(hidden, 7);
        let (lines, hidden) = folded("one\ntwo", 80, 3);
        assert_eq!((lines.len(), hidden), (2, 0));
        let (lines, hidden) = folded(&"x".repeat(10_000), 80, 2);
        assert_eq!((lines.len(), hidden), (2, 24));
    }

    #[test]
    fn one_line_fits_its_columns() {
        assert_eq!(one_line("a\n  b", 10), "a b");
        assert_eq!(one_line("日本語テキスト", 7), "日本語…");
        assert_eq!(one_line("abcdef", 6), "abcdef");
    }

    #[test]
    fn tokens_are_a_prompt_with_its_parts_and_an_answer() {
        let tokens = Tokens {
            prompt: 18_477,
            new: 659,
            cached: 17_599,
            kept: 219,
            answer: 164,
            reasoning: 20,
        };
        assert_eq!(
            tokens.to_string(),
            "prompt 18,477 (659 new, 17,599 from the cache, 219 to the cache), \
             answer 164 (20 reasoning)"
        );
        let tokens = Tokens {
            prompt: 5,
            new: 5,
            answer: 1,
            ..Tokens::default()
        };
        assert_eq!(tokens.to_string(), "prompt 5, answer 1");
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(count(1, "event"), "1 event");
        assert_eq!(count(1_000, "event"), "1,000 events");
    }
}
