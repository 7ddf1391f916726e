//! Physical lines, and the records that stand on them.
//!
//! A session file is read while another program still appends to it, so what
//! a line yields must never change when more bytes arrive: a complete object
//! counts at once, with or without its line feed, and text that is no object
//! counts only when the line feed shows that nothing will complete it.

use folio_core::json::{Json, JsonErrorKind};
use sha2::{Digest, Sha256};
use std::io::{self, BufRead};

/// The most bytes of one line that are kept in memory. What lies beyond is
/// known by its length and digest only.
pub const MAX_LINE: usize = 16 * 1024 * 1024;

/// The end of a line that is too long to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oversize {
    /// Its length in bytes, without the line end.
    pub length: u64,
    /// The SHA-256 digest of these bytes.
    pub sha256: [u8; 32],
}

/// One physical line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number in the file, from 1; blank lines have numbers too.
    pub number: u64,
    /// Its bytes without the line end. Of an oversize line, only the complete
    /// objects that stand in its first [`MAX_LINE`] bytes.
    pub bytes: Vec<u8>,
    /// What followed `bytes` on a line longer than [`MAX_LINE`].
    pub oversize: Option<Oversize>,
    /// Whether the line feed was seen.
    pub ended: bool,
}

/// What stands on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The number of the line, from 1.
    pub line: u64,
    /// Its place on the line, from 1.
    pub index: usize,
    /// What it is.
    pub body: Body,
}

/// The sorts of [`Item`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A JSON object.
    Record {
        /// The object as it was written.
        text: String,
        /// The same, checked.
        json: Json,
    },
    /// An object that breaks a rule beyond the grammar (a repeated key, half a
    /// surrogate pair, too deep nesting): kept as text, never interpreted.
    Odd {
        /// The object as it was written.
        text: String,
        /// The rule that it breaks.
        why: JsonErrorKind,
    },
    /// The rest of a line, which is no object.
    Broken(Vec<u8>),
    /// The rest of a line that is too long to keep.
    Oversize(Oversize),
}

impl Item {
    /// The name of the position: `L<line>` for the first item of a line,
    /// `L<line>-<i>` for the others.
    pub fn position(&self) -> String {
        match self.index {
            0 | 1 => format!("L{}", self.line),
            i => format!("L{}-{i}", self.line),
        }
    }

    /// The bytes by which the item enters the digest of its source. An
    /// oversize item enters by a fixed spelling of its length and digest.
    pub fn digest_text(&self) -> Vec<u8> {
        match &self.body {
            Body::Record { text, .. } | Body::Odd { text, .. } => text.clone().into_bytes(),
            Body::Broken(bytes) => bytes.clone(),
            Body::Oversize(big) => {
                format!("oversize:{}:{}", big.length, hex(&big.sha256)).into_bytes()
            }
        }
    }
}

impl Line {
    /// Whether the line holds white space only.
    pub fn is_blank(&self) -> bool {
        self.oversize.is_none() && self.bytes.iter().copied().all(is_space)
    }

    /// The items of the line, in order.
    pub fn items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        let (objects, end) = objects(&self.bytes);
        for body in objects {
            items.push(self.item(items.len() + 1, body));
        }
        if let Some(oversize) = &self.oversize {
            if self.ended {
                let body = Body::Oversize(oversize.clone());
                items.push(self.item(items.len() + 1, body));
            }
        } else if self.ended {
            let rest = trim(self.bytes.get(end..).unwrap_or_default());
            if !rest.is_empty() {
                items.push(self.item(items.len() + 1, Body::Broken(rest.to_vec())));
            }
        }
        items
    }

    /// Whether the line ends in something that is not complete and may still
    /// become so: the file ends within it.
    pub fn is_torn(&self) -> bool {
        if self.ended {
            return false;
        }
        let rest = self.bytes.get(objects(&self.bytes).1..).unwrap_or_default();
        self.oversize.is_some() || !trim(rest).is_empty()
    }

    fn item(&self, index: usize, body: Body) -> Item {
        Item {
            line: self.number,
            index,
            body,
        }
    }
}

/// Cuts a reader into [`Line`]s with bounded memory.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines from the start of a file.
    pub fn new(reader: R) -> Self {
        Self { reader, number: 0 }
    }

    /// The next line; `None` at the end of the file.
    ///
    /// # Errors
    /// What the reader answers.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        let mut line = Line {
            number: self.number + 1,
            bytes: Vec::new(),
            oversize: None,
            ended: false,
        };
        let mut tail: Option<Tail> = None;
        let mut empty = true;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break;
            }
            empty = false;
            let feed = memchr::memchr(b'\n', available);
            let part = available
                .get(..feed.unwrap_or(available.len()))
                .unwrap_or_default();
            match &mut tail {
                Some(tail) => tail.take(part),
                None => {
                    line.bytes.extend_from_slice(part);
                    if line.bytes.len() > MAX_LINE {
                        tail = Some(Tail::begin(&mut line.bytes));
                    }
                }
            }
            let used = feed.map_or(available.len(), |at| at + 1);
            self.reader.consume(used);
            if feed.is_some() {
                line.ended = true;
                break;
            }
        }
        if empty {
            return Ok(None);
        }
        if self.number == 0 && line.bytes.starts_with(b"\xef\xbb\xbf") {
            line.bytes.drain(..3);
        }
        if line.ended && tail.is_none() && line.bytes.last() == Some(&b'\r') {
            line.bytes.pop();
        }
        line.oversize = tail.map(Tail::finish);
        self.number += 1;
        Ok(Some(line))
    }
}

/// The part of an oversize line that is digested instead of kept.
struct Tail {
    hasher: Sha256,
    length: u64,
    /// A carriage return that may turn out to belong to the line end.
    cr: bool,
}

impl Tail {
    /// Keeps the complete objects of the first [`MAX_LINE`] bytes and begins
    /// to digest what follows them. How much more than that was read by chance
    /// must not matter.
    fn begin(bytes: &mut Vec<u8>) -> Self {
        let head = bytes.get(..MAX_LINE).unwrap_or(bytes);
        let bom = if head.starts_with(b"\xef\xbb\xbf") {
            3
        } else {
            0
        };
        let end = bom + objects(head.get(bom..).unwrap_or_default()).1;
        let mut tail = Self {
            hasher: Sha256::new(),
            length: 0,
            cr: false,
        };
        tail.take(bytes.get(end..).unwrap_or_default());
        bytes.truncate(end);
        bytes.shrink_to_fit();
        tail
    }

    fn take(&mut self, part: &[u8]) {
        let Some((last, rest)) = part.split_last() else {
            return;
        };
        if self.cr {
            self.add(b"\r");
        }
        self.cr = *last == b'\r';
        self.add(if self.cr { rest } else { part });
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
    }

    fn finish(self) -> Oversize {
        Oversize {
            length: self.length,
            sha256: self.hasher.finalize().into(),
        }
    }
}

/// The leading complete objects of some bytes, and where they end.
fn objects(bytes: &[u8]) -> (Vec<Body>, usize) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => bytes
            .get(..error.valid_up_to())
            .and_then(|valid| std::str::from_utf8(valid).ok())
            .unwrap_or_default(),
    };
    let mut found = Vec::new();
    let mut end = 0;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let start = end + (rest.len() - rest.trim_start_matches(SPACE).len());
        let rest = text.get(start..).unwrap_or_default();
        if !rest.starts_with('{') {
            return (found, end);
        }
        match Json::parse_prefix(rest) {
            Ok((json, length)) => {
                let text = rest.get(..length).unwrap_or_default().to_owned();
                found.push(Body::Record { text, json });
                end = start + length;
            }
            Err(error) => {
                let odd = matches!(
                    error.kind,
                    JsonErrorKind::DuplicateKey
                        | JsonErrorKind::LoneSurrogate
                        | JsonErrorKind::TooDeep
                );
                let Some(length) = odd.then(|| object_end(rest.as_bytes())).flatten() else {
                    return (found, end);
                };
                let text = rest.get(..length).unwrap_or_default().to_owned();
                found.push(Body::Odd {
                    text,
                    why: error.kind,
                });
                end = start + length;
            }
        }
    }
}

/// Where the object at the start of `bytes` closes, told by its brackets only:
/// this serves text that the checker refuses to read on.
fn object_end(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_u64;
    let mut string = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (string, byte) {
            (true, b'\\') => at += 1,
            (_, b'"') => string = !string,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let Some((first, rest)) = bytes.split_first()
        && is_space(*first)
    {
        bytes = rest;
    }
    while let Some((last, rest)) = bytes.split_last()
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a String cannot fail.
        let _unfailing = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Line> {
        // A tiny buffer, so that every boundary is crossed.
        let mut lines = Lines::new(io::BufReader::with_capacity(3, bytes));
        let mut out = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            out.push(line);
        }
        out
    }

    fn shapes(bytes: &[u8]) -> Vec<String> {
        all(bytes)
            .iter()
            .flat_map(Line::items)
            .map(|item| {
                let what = match &item.body {
                    Body::Record { text, .. } => format!("record {text}"),
                    Body::Odd { why, .. } => format!("odd {why:?}"),
                    Body::Broken(bytes) => format!("broken {}", String::from_utf8_lossy(bytes)),
                    Body::Oversize(big) => format!("oversize {}", big.length),
                };
                format!("{} {what}", item.position())
            })
            .collect()
    }

    #[test]
    fn lines_yield_objects_at_once_and_rubbish_at_the_line_feed() {
        assert_eq!(
            shapes(b"\xef\xbb\xbf{\"a\":1}\r\n \r\n{\"b\":1}{\"c\": 2} x\r\n{\"d\":1} {\"e"),
            [
                "L1 record {\"a\":1}",
                "L3 record {\"b\":1}",
                "L3-2 record {\"c\": 2}",
                "L3-3 broken x",
                "L4 record {\"d\":1}",
            ]
        );
        assert_eq!(
            shapes(b"{\"a\":\"\xff\"}\n[1]\n{\"b\":1,"),
            ["L1 broken {\"a\":\"\u{fffd}\"}", "L2 broken [1]"]
        );
    }

    #[test]
    fn odd_objects_are_kept_whole() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        let text = format!("{{\"a\":1,\"a\":\"}}\"}}{{\"s\":\"\\ud800\"}}{deep}{{\"z\":1}}");
        assert_eq!(
            shapes(text.as_bytes()),
            [
                "L1 odd DuplicateKey",
                "L1-2 odd LoneSurrogate",
                "L1-3 odd TooDeep",
                "L1-4 record {\"z\":1}"
            ]
        );
    }

    #[test]
    fn a_line_beyond_the_limit_is_known_by_length_and_digest() {
        let mut bytes = b"{\"a\":1}".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', MAX_LINE));
        let torn = Lines::new(&bytes[..]).next_line().unwrap().unwrap();
        assert_eq!(torn.items().len(), 1);
        bytes.extend(b"\r\n{\"b\":1}");
        let mut lines = Lines::new(io::BufReader::new(&bytes[..]));
        let line = lines.next_line().unwrap().unwrap();
        let items = line.items();
        assert_eq!(line.bytes, b"{\"a\":1}");
        let expected = Oversize {
            length: MAX_LINE as u64,
            sha256: Sha256::digest(vec![b'x'; MAX_LINE]).into(),
        };
        assert_eq!(items[1].body, Body::Oversize(expected));
        assert_eq!(lines.next_line().unwrap().unwrap().number, 2);
    }
}
