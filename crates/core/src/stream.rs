//! JSON that arrives in pieces: checked by the rules of [`Json`](crate::Json)
//! without ever being held.
//!
//! Beside the few bytes that say where in the grammar the text is, only the
//! names of the members of open objects are kept, since none may come twice.

use crate::json::{JsonError, JsonErrorKind, MAX_DEPTH, unquote};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// The most bytes of names that open objects may have together.
pub const MAX_NAMES: usize = 16 << 20;
/// The longest `kind` that is told, in bytes of its text.
pub const MAX_KIND: usize = 64;

/// Where in the grammar a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    ValueOrEnd,
    NameOrEnd,
    Name,
    Colon,
    AfterValue,
    Text,
    Escape,
    /// Digits of a `\u` escape: how many came, and what they say.
    Unit(u8, u32),
    /// Behind the first half of a pair; how much of `\u` came.
    Pair(u8),
    /// Digits of the second half.
    Low(u8, u32),
    Number(Digits),
    /// What is left of `true`, `false` or `null`.
    Word(&'static [u8]),
}

/// Where in a number a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Whole,
    Point,
    Part,
    Exponent,
    Sign,
    Power,
}

/// The checker of one value. Feed it the text in pieces, cut anywhere.
///
/// ```
/// use folio_core::stream::JsonStream;
///
/// let mut json = JsonStream::default();
/// json.feed(br#"{"kind":"te"#)?;
/// json.feed(br#"xt","text":""}"#)?;
/// assert_eq!(json.finish()?.as_deref(), Some("text"));
/// # Ok::<(), folio_core::JsonError>(())
/// ```
#[derive(Debug)]
pub struct JsonStream {
    state: State,
    /// Whether the string that is being read is a member's name.
    is_name: bool,
    /// For each open container the names of its members; `None` for arrays.
    open: Vec<Option<BTreeSet<Box<str>>>>,
    names: usize,
    /// The string that is being read, where it matters, without its quotes.
    text: Vec<u8>,
    keeps: bool,
    /// Whether the next value is that of the outermost object's `kind`.
    at_kind: bool,
    kind: Option<Box<str>>,
    /// The end of a piece that ended inside of a character.
    cut: Vec<u8>,
    at: usize,
}

impl Default for JsonStream {
    fn default() -> Self {
        Self {
            state: State::Value,
            is_name: false,
            open: Vec::new(),
            names: 0,
            text: Vec::new(),
            keeps: false,
            at_kind: false,
            kind: None,
            cut: Vec::new(),
            at: 0,
        }
    }
}

impl JsonStream {
    fn fail<T>(&self, kind: JsonErrorKind) -> Result<T, JsonError> {
        Err(JsonError { at: self.at, kind })
    }

    /// Checks the next bytes. White space between values is an error: what is
    /// kept is compact.
    ///
    /// # Errors
    /// [`JsonError`], with the byte of the whole text.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), JsonError> {
        self.characters(bytes)?;
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            if self.state == State::Text {
                let plain = rest
                    .iter()
                    .take_while(|byte| **byte >= 0x20 && !matches!(**byte, b'"' | b'\\'))
                    .count();
                if plain > 0 {
                    let (text, after) = rest.split_at(plain);
                    self.keep(text)?;
                    self.at += plain;
                    rest = after;
                    continue;
                }
            }
            if self.step(*byte)? {
                rest = after;
                self.at += 1;
            }
        }
        Ok(())
    }

    /// Ends the text; answers what its member `kind` says, where it is an
    /// object and that is a text of at most [`MAX_KIND`] bytes.
    ///
    /// # Errors
    /// [`JsonErrorKind::Truncated`] where the value is not complete.
    pub fn finish(mut self) -> Result<Option<Box<str>>, JsonError> {
        if let State::Number(digits) = self.state {
            self.end_number(digits)?;
        }
        if self.state == State::AfterValue && self.open.is_empty() && self.cut.is_empty() {
            Ok(self.kind)
        } else {
            self.fail(JsonErrorKind::Truncated)
        }
    }

    /// Checks that the bytes go on as UTF-8.
    fn characters(&mut self, bytes: &[u8]) -> Result<(), JsonError> {
        let mut bytes = bytes;
        while !self.cut.is_empty() {
            let Some((byte, rest)) = bytes.split_first() else {
                return Ok(());
            };
            self.cut.push(*byte);
            bytes = rest;
            match core::str::from_utf8(&self.cut) {
                Ok(_) => self.cut.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return self.fail(JsonErrorKind::Syntax),
            }
        }
        match core::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_none() => {
                let cut = bytes.get(error.valid_up_to()..).unwrap_or_default();
                self.cut.extend_from_slice(cut);
                Ok(())
            }
            Err(error) => Err(JsonError {
                at: self.at + error.valid_up_to(),
                kind: JsonErrorKind::Syntax,
            }),
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), JsonError> {
        if !self.keeps {
            return Ok(());
        }
        if !self.is_name && self.text.len() + bytes.len() > MAX_KIND * 6 {
            // No kind is so long, even if all of it were escaped.
            self.keeps = false;
            return Ok(());
        }
        if self.text.len() + bytes.len() > MAX_NAMES {
            return self.fail(JsonErrorKind::TooManyNames);
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes a byte; answers whether it is used up.
    fn step(&mut self, byte: u8) -> Result<bool, JsonError> {
        use State::{
            AfterValue, Colon, Escape, Low, Name, NameOrEnd, Number, Pair, Text, Unit, ValueOrEnd,
            Word,
        };
        match (self.state, byte) {
            (ValueOrEnd, b']') | (NameOrEnd, b'}') => self.close()?,
            (NameOrEnd | Name, b'"') => self.begin_text(true),
            (State::Value | ValueOrEnd, _) => self.begin_value(byte)?,
            (Colon, b':') => self.state = State::Value,
            (AfterValue, b',') => match self.open.last() {
                Some(Some(_)) => self.state = Name,
                Some(None) => self.state = State::Value,
                None => return self.fail(JsonErrorKind::Trailing),
            },
            (AfterValue, b'}') if matches!(self.open.last(), Some(Some(_))) => self.close()?,
            (AfterValue, b']') if matches!(self.open.last(), Some(None)) => self.close()?,
            (AfterValue, _) if self.open.is_empty() => return self.fail(JsonErrorKind::Trailing),
            (Text, b'"') => self.end_text()?,
            (Text, b'\\') => {
                self.keep(b"\\")?;
                self.state = Escape;
            }
            (Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.keep(&[byte])?;
                self.state = Text;
            }
            (Escape, b'u') => {
                self.keep(b"u")?;
                self.state = Unit(0, 0);
            }
            (Unit(count, unit) | Low(count, unit), _) => {
                let Some(digit) = char::from(byte).to_digit(16) else {
                    return self.fail(JsonErrorKind::Syntax);
                };
                self.keep(&[byte])?;
                let is_low = matches!(self.state, Low(..));
                self.state = self.digit(is_low, count + 1, unit << 4 | digit)?;
            }
            (Pair(0), b'\\') => {
                self.keep(b"\\")?;
                self.state = Pair(1);
            }
            (Pair(1), b'u') => {
                self.keep(b"u")?;
                self.state = Low(0, 0);
            }
            (Pair(_), _) => return self.fail(JsonErrorKind::LoneSurrogate),
            (Word(left), _) => match left.split_first() {
                Some((wanted, left)) if *wanted == byte => {
                    self.state = if left.is_empty() {
                        AfterValue
                    } else {
                        Word(left)
                    };
                }
                _ => return self.fail(JsonErrorKind::Syntax),
            },
            (Number(digits), _) => return self.number(digits, byte),
            _ => return self.fail(JsonErrorKind::Syntax),
        }
        Ok(true)
    }

    fn begin_value(&mut self, byte: u8) -> Result<(), JsonError> {
        if byte != b'"' {
            self.at_kind = false;
        }
        self.state = match byte {
            b'{' | b'[' => {
                if self.open.len() == MAX_DEPTH {
                    return self.fail(JsonErrorKind::TooDeep);
                }
                let is_object = byte == b'{';
                self.open.push(is_object.then(BTreeSet::new));
                if is_object {
                    State::NameOrEnd
                } else {
                    State::ValueOrEnd
                }
            }
            b'"' => {
                self.begin_text(false);
                State::Text
            }
            b'-' => State::Number(Digits::Minus),
            b'0' => State::Number(Digits::Zero),
            b'1'..=b'9' => State::Number(Digits::Whole),
            b't' => State::Word(b"rue"),
            b'f' => State::Word(b"alse"),
            b'n' => State::Word(b"ull"),
            _ => return self.fail(JsonErrorKind::Syntax),
        };
        Ok(())
    }

    fn close(&mut self) -> Result<(), JsonError> {
        if let Some(Some(names)) = self.open.pop() {
            let freed: usize = names.iter().map(|name| name.len()).sum();
            self.names = self.names.saturating_sub(freed);
        }
        self.state = State::AfterValue;
        Ok(())
    }

    fn begin_text(&mut self, is_name: bool) {
        self.state = State::Text;
        self.is_name = is_name;
        self.keeps = is_name || core::mem::take(&mut self.at_kind);
        self.text.clear();
    }

    fn end_text(&mut self) -> Result<(), JsonError> {
        let text = self.keeps.then(|| unescaped(&self.text)).flatten();
        if !self.is_name {
            if let Some(text) = text.filter(|text| text.len() <= MAX_KIND) {
                self.kind = Some(text.into());
            }
            self.state = State::AfterValue;
            return Ok(());
        }
        let Some(name) = text else {
            return self.fail(JsonErrorKind::Syntax);
        };
        self.names += name.len();
        if self.names > MAX_NAMES {
            return self.fail(JsonErrorKind::TooManyNames);
        }
        self.at_kind = self.open.len() == 1 && name == "kind";
        if let Some(Some(names)) = self.open.last_mut()
            && !names.insert(name.into())
        {
            return self.fail(JsonErrorKind::DuplicateKey);
        }
        self.state = State::Colon;
        Ok(())
    }

    /// The state behind a digit of a `\u` escape.
    fn digit(&self, is_low: bool, count: u8, unit: u32) -> Result<State, JsonError> {
        Ok(match (is_low, count, unit) {
            (false, 4, 0xd800..0xdc00) => State::Pair(0),
            (false, 4, 0xdc00..0xe000) => return self.fail(JsonErrorKind::LoneSurrogate),
            (true, 4, 0xdc00..0xe000) | (false, 4, _) => State::Text,
            (true, 4, _) => return self.fail(JsonErrorKind::LoneSurrogate),
            (false, ..) => State::Unit(count, unit),
            (true, ..) => State::Low(count, unit),
        })
    }

    fn number(&mut self, digits: Digits, byte: u8) -> Result<bool, JsonError> {
        use Digits::{Exponent, Minus, Part, Point, Power, Sign, Whole, Zero};
        let next = match (digits, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => Whole,
            (Zero | Whole, b'.') => Point,
            (Point | Part, b'0'..=b'9') => Part,
            (Zero | Whole | Part, b'e' | b'E') => Exponent,
            (Exponent, b'+' | b'-') => Sign,
            (Exponent | Sign | Power, b'0'..=b'9') => Power,
            _ => {
                self.end_number(digits)?;
                return Ok(false);
            }
        };
        self.state = State::Number(next);
        Ok(true)
    }

    fn end_number(&mut self, digits: Digits) -> Result<(), JsonError> {
        match digits {
            Digits::Zero | Digits::Whole | Digits::Part | Digits::Power => {
                self.state = State::AfterValue;
                Ok(())
            }
            _ => self.fail(JsonErrorKind::Syntax),
        }
    }
}

/// What a string says whose inside this is.
fn unescaped(inside: &[u8]) -> Option<String> {
    let inside = core::str::from_utf8(inside).ok()?;
    if !inside.contains('\\') {
        return Some(inside.to_owned());
    }
    let quoted = alloc::format!("\"{inside}\"");
    unquote(&quoted).map(alloc::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;

    /// Feeds a text in pieces of some length.
    fn fed(text: &[u8], step: usize) -> Result<Option<Box<str>>, JsonError> {
        let mut stream = JsonStream::default();
        for piece in text.chunks(step) {
            stream.feed(piece)?;
        }
        stream.finish()
    }

    #[test]
    fn the_kind_is_that_of_the_outermost_object() {
        for (text, kind) in [
            (r#"{"kind":"json","value":{"kind":"no"}}"#, Some("json")),
            (r#"{"a":{"kind":"no"},"kind":"t\u0065xt"}"#, Some("text")),
            (r#"{"a":{"kind":"no"}}"#, None),
            (r#"[{"kind":"no"}]"#, None),
            (r#"{"kind":["no"]}"#, None),
            (r#"{"kind":1,"x":"no"}"#, None),
            (r#""kind""#, None),
        ] {
            for step in 1..4 {
                assert_eq!(
                    fed(text.as_bytes(), step).unwrap().as_deref(),
                    kind,
                    "{text}"
                );
            }
        }
        let long = alloc::format!(r#"{{"kind":"{}"}}"#, "k".repeat(MAX_KIND + 1));
        assert_eq!(fed(long.as_bytes(), 7).unwrap(), None);
    }

    #[test]
    fn what_is_no_text_or_not_compact_is_refused() {
        for bad in [
            &b"\"\xff\""[..],
            b"\"\xe2\x82",
            b"\"\xe2\x28\x80\"",
            b" 1",
            b"1 ",
            b"[1, 2]",
        ] {
            for step in 1..4 {
                assert!(fed(bad, step).is_err(), "{bad:?}");
            }
        }
        let names: String = (0..MAX_NAMES / 7)
            .map(|n| alloc::format!("\"{n:07}\":0,"))
            .collect();
        let many = alloc::format!("{{{names}\"last\":0}}");
        let error = fed(many.as_bytes(), 1 << 16).unwrap_err();
        assert_eq!(error.kind, JsonErrorKind::TooManyNames);
    }

    proptest::proptest! {
        #[test]
        fn pieces_are_judged_as_the_whole(
            text in "(\\[|\\]|\\{|\\}|\"|:|,|\\\\|u|d8|dc|00|e|n|null|true|-|\\.|1|0|a|é|😀|\"a\":|\"b\":|\"kind\":){0,20}",
            step in 1..9_usize,
        ) {
            let whole = Json::parse(&text);
            let ours = fed(text.as_bytes(), step);
            match whole {
                Ok(json) => {
                    proptest::prop_assert_eq!(json.as_str(), &text);
                    let object = json.as_object();
                    let kind = object.as_ref().and_then(|object| object.text("kind"));
                    let ours = ours.unwrap();
                    proptest::prop_assert_eq!(ours.as_deref(), kind.as_deref());
                }
                Err(_) => proptest::prop_assert!(ours.is_err()),
            }
        }
    }
}
