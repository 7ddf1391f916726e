//! Opaque JSON: text that is checked once and then kept as written.
//!
//! A ledger must give back what it was given, so values that Folio does not
//! interpret (tool arguments, results, unknown members) are never parsed into
//! a tree and printed again: key order, number spelling and escapes stay. This
//! module holds the checked text ([`Json`]), the scanner that checks it and
//! takes it apart ([`Object`], [`elements`]), and the two spellings of a
//! string that the rest of the crate needs ([`quote`], [`unquote`]).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The deepest nesting that is accepted. A scanner without recursion could
/// take any depth; readers of the text may not.
pub const MAX_DEPTH: usize = 100;

/// Why a text is not acceptable JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// Byte offset in the text at which the problem was noticed.
    pub at: usize,
    /// What is wrong there.
    pub kind: JsonErrorKind,
}

/// The kinds of [`JsonError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The text does not follow the JSON grammar (RFC 8259).
    Syntax,
    /// The text ends inside a value.
    Truncated,
    /// Text follows the first value.
    Trailing,
    /// Nesting is deeper than [`MAX_DEPTH`].
    TooDeep,
    /// An object names a member twice.
    DuplicateKey,
    /// A `\u` escape names half of a surrogate pair.
    LoneSurrogate,
    /// The open objects of a text that arrives in pieces name too many members
    /// to remember.
    TooManyNames,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            JsonErrorKind::Syntax => "not JSON",
            JsonErrorKind::Truncated => "JSON that ends too early",
            JsonErrorKind::Trailing => "more than one JSON value",
            JsonErrorKind::TooDeep => "JSON nested deeper than 100 levels",
            JsonErrorKind::DuplicateKey => "a JSON object that names a member twice",
            JsonErrorKind::LoneSurrogate => "a JSON string with half a surrogate pair",
            JsonErrorKind::TooManyNames => "JSON objects with more than 16 MiB of names",
        };
        write!(f, "{what} (at byte {})", self.at)
    }
}

impl core::error::Error for JsonError {}

/// One JSON value as compact text: valid, no insignificant white space, at
/// most [`MAX_DEPTH`] levels, no repeated keys, no lone surrogates; everything
/// else exactly as it was written.
///
/// ```
/// use folio_core::json::Json;
///
/// let json = Json::parse(r#" { "n": 1.10, "a": [1, 2] } "#)?;
/// assert_eq!(json.as_str(), r#"{"n":1.10,"a":[1,2]}"#);
/// # Ok::<(), folio_core::json::JsonError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json(Box<str>);

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Json {
    /// Checks `text` and keeps it without its insignificant white space.
    ///
    /// # Errors
    /// [`JsonError`] where the text breaks one of the rules above.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let (json, end) = Self::parse_prefix(text)?;
        let rest = skip_space(text.as_bytes(), end);
        if rest < text.len() {
            return Err(JsonError {
                at: rest,
                kind: JsonErrorKind::Trailing,
            });
        }
        Ok(json)
    }

    /// Checks the first value of `text` and says where it ends.
    ///
    /// # Errors
    /// [`JsonError`] where the value breaks one of the rules of [`Json`].
    pub fn parse_prefix(text: &str) -> Result<(Self, usize), JsonError> {
        let mut out = String::with_capacity(text.len());
        let end = Checker::new(text).run(Some(&mut out))?;
        Ok((Self(out.into_boxed_str()), end))
    }

    /// A JSON string with minimal escapes.
    pub fn string(text: &str) -> Self {
        let mut out = String::with_capacity(text.len() + 2);
        quote(text, &mut out);
        Self(out.into_boxed_str())
    }

    /// A JSON number from an unsigned integer.
    pub fn integer(value: u64) -> Self {
        Self(alloc::format!("{value}").into_boxed_str())
    }

    /// `true` or `false`.
    pub fn bool(value: bool) -> Self {
        Self(if value { "true" } else { "false" }.into())
    }

    /// Takes text that this crate wrote itself or cut out of checked text.
    pub(crate) fn trusted(text: &str) -> Self {
        debug_assert!(Checker::new(text).run(None).is_ok(), "not JSON: {text}");
        Self(text.into())
    }

    /// A value cut out of text that was checked as a whole, such as a slice
    /// that [`Object`] or [`elements`] gave.
    ///
    /// # Errors
    /// [`JsonError`] as [`Json::parse`]; slices of compact checked text never
    /// fail, so this is the cheap way to keep one.
    pub fn from_checked(text: &str) -> Result<Self, JsonError> {
        Self::parse(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What sort of value this is.
    pub fn kind(&self) -> JsonKind {
        kind_of(&self.0)
    }

    /// The text of a JSON string, unescaped; `None` for other values.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        unquote(&self.0)
    }

    /// The members of a JSON object; `None` for other values.
    pub fn as_object(&self) -> Option<Object<'_>> {
        Object::of(&self.0)
    }
}

/// The sorts of JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// The sort of a checked value, told by its first byte.
pub fn kind_of(raw: &str) -> JsonKind {
    match raw.as_bytes().first() {
        Some(b'{') => JsonKind::Object,
        Some(b'[') => JsonKind::Array,
        Some(b'"') => JsonKind::String,
        Some(b't' | b'f') => JsonKind::Bool,
        Some(b'n') | None => JsonKind::Null,
        Some(_) => JsonKind::Number,
    }
}

/// The members of one checked JSON object, in the order written, one level
/// deep: values are slices of the text.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Object<'a> {
    /// Takes a checked object apart; `None` if `raw` is another sort of value.
    pub fn of(raw: &'a str) -> Option<Self> {
        let raw = raw.trim_matches(is_space);
        let bytes = raw.as_bytes();
        if bytes.first() != Some(&b'{') {
            return None;
        }
        let mut members = Vec::new();
        let mut at = skip_space(bytes, 1);
        while bytes.get(at) == Some(&b'"') {
            let key_end = string_end(bytes, at)?;
            let key = unquote(raw.get(at..key_end)?)?;
            at = skip_space(bytes, key_end);
            at = skip_space(bytes, at + 1); // the colon
            let end = value_end(bytes, at)?;
            members.push((key, raw.get(at..end)?));
            at = skip_space(bytes, end);
            if bytes.get(at) == Some(&b',') {
                at = skip_space(bytes, at + 1);
            }
        }
        Some(Self { members })
    }

    /// The raw value of a member.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.members
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| *value)
    }

    /// The text of a member that is a string, unescaped.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(unquote)
    }

    /// The value of a member that is an unsigned integer.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|raw| raw.parse().ok())
    }

    /// The value of a member that is `true` or `false`.
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(|raw| raw.parse().ok())
    }

    /// The members of a member that is an object.
    pub fn object(&self, name: &str) -> Option<Object<'a>> {
        self.get(name).and_then(Object::of)
    }

    /// All members in the order written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.members
            .iter()
            .map(|(key, value)| (key.as_ref(), *value))
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// The elements of a checked JSON array as slices; empty for other values.
pub fn elements(raw: &str) -> Vec<&str> {
    let raw = raw.trim_matches(is_space);
    let bytes = raw.as_bytes();
    let mut out = Vec::new();
    if bytes.first() != Some(&b'[') {
        return out;
    }
    let mut at = skip_space(bytes, 1);
    while at < bytes.len() && bytes.get(at) != Some(&b']') {
        let Some(end) = value_end(bytes, at) else {
            break;
        };
        if let Some(value) = raw.get(at..end) {
            out.push(value);
        }
        at = skip_space(bytes, end);
        if bytes.get(at) == Some(&b',') {
            at = skip_space(bytes, at + 1);
        }
    }
    out
}

/// Writes `text` as a JSON string with minimal escapes: `\"`, `\\`, the five
/// short forms, and `\u00xx` in lower case for the other control characters.
pub fn quote(text: &str, out: &mut String) {
    out.push('"');
    quote_inner(text, out);
    out.push('"');
}

/// As [`quote`], without the quotation marks.
pub fn quote_inner(text: &str, out: &mut String) {
    let mut kept = 0;
    while let Some((at, byte)) = next_special(text.as_bytes(), kept) {
        out.push_str(text.get(kept..at).unwrap_or_default());
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => {
                out.push_str("\\u00");
                out.push(hex(byte >> 4));
                out.push(hex(byte & 15));
            }
        }
        kept = at + 1;
    }
    out.push_str(text.get(kept..).unwrap_or_default());
}

/// The bytes of a text as a JSON string with minimal escapes.
pub fn quoted_len(text: &str) -> usize {
    let mut len = text.len() + 2;
    let mut from = 0;
    while let Some((at, byte)) = next_special(text.as_bytes(), from) {
        len += match byte {
            b'"' | b'\\' | 0x08 | 0x0c | b'\n' | b'\r' | b'\t' => 1,
            _ => 5,
        };
        from = at + 1;
    }
    len
}

/// The next byte from a place on that cannot stand in a JSON string as it is.
fn next_special(bytes: &[u8], from: usize) -> Option<(usize, u8)> {
    let rest = bytes.get(from..)?;
    let (words, _) = rest.as_chunks::<8>();
    // Eight bytes at a time, mostly none of them special.
    let plain = words
        .iter()
        .take_while(|word| !has_special(u64::from_le_bytes(**word)))
        .count();
    let from = from + plain * 8;
    let special = |(_, byte): &(usize, &u8)| **byte < 0x20 || matches!(**byte, b'"' | b'\\');
    let (at, byte) = bytes.get(from..)?.iter().enumerate().find(special)?;
    Some((from + at, *byte))
}

/// Whether any byte of a word is below 0x20, a quotation mark or a backslash.
/// (Where one is, the sum may carry and take the next byte for one, too.)
fn has_special(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let below = |word: u64, least: u64| word.wrapping_sub(ONES * least) & !word;
    let equals = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | equals(b'"') | equals(b'\\')) & (ONES * 0x80) != 0
}

/// The lower-case hexadecimal digit of a value below 16.
pub(crate) fn hex(digit: u8) -> char {
    char::from(if digit < 10 {
        b'0' + digit
    } else {
        b'a' + (digit - 10)
    })
}

/// The text of a JSON string; `None` if `raw` is no string or a bad one.
pub fn unquote(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(rest.get(..at)?);
        let code = *rest.as_bytes().get(at + 1)?;
        let mut used = 2;
        match code {
            b'"' => out.push('"'),
            b'\\' => out.push('\\'),
            b'/' => out.push('/'),
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let unit = hex4(rest.get(at + 2..at + 6)?)?;
                used = 6;
                let code = if (0xd800..0xdc00).contains(&unit) {
                    let tail = rest.get(at + 6..at + 12)?.strip_prefix("\\u")?;
                    let low = hex4(tail)?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return None;
                    }
                    used = 12;
                    0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                } else {
                    unit
                };
                out.push(char::from_u32(code)?);
            }
            _ => return None,
        }
        rest = rest.get(at + used..)?;
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

fn hex4(text: &str) -> Option<u32> {
    if text.len() == 4 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        u32::from_str_radix(text, 16).ok()
    } else {
        None
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The end of the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The end of the checked value that begins at `at`.
fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => string_end(bytes, at),
        b'{' | b'[' => {
            let mut depth = 0_usize;
            let mut at = at;
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = string_end(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        _ => {
            let mut end = at;
            while let Some(byte) = bytes.get(end) {
                if matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r') {
                    break;
                }
                end += 1;
            }
            Some(end)
        }
    }
}

/// The iterative checker behind [`Json::parse`].
struct Checker<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// For each open container: whether it is an object, and where its keys
    /// begin in `keys`.
    open: Vec<(bool, usize)>,
    keys: Vec<&'a str>,
}

impl<'a> Checker<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            open: Vec::new(),
            keys: Vec::new(),
        }
    }

    fn fail<T>(&self, kind: JsonErrorKind) -> Result<T, JsonError> {
        let kind = if self.at >= self.bytes.len() && kind == JsonErrorKind::Syntax {
            JsonErrorKind::Truncated
        } else {
            kind
        };
        Err(JsonError { at: self.at, kind })
    }

    fn space(&mut self) {
        self.at = skip_space(self.bytes, self.at);
    }

    /// Checks one value, copies it compactly, and answers where it ends.
    fn run(mut self, mut out: Option<&mut String>) -> Result<usize, JsonError> {
        let mut copy = |text: &str| {
            if let Some(out) = out.as_deref_mut() {
                out.push_str(text);
            }
        };
        self.space();
        'value: loop {
            // A value begins here.
            let start = self.at;
            match self.bytes.get(self.at) {
                Some(open @ (b'{' | b'[')) => {
                    let object = *open == b'{';
                    if self.open.len() == MAX_DEPTH {
                        return self.fail(JsonErrorKind::TooDeep);
                    }
                    self.open.push((object, self.keys.len()));
                    self.at += 1;
                    copy(if object { "{" } else { "[" });
                    self.space();
                    let close = if object { b'}' } else { b']' };
                    if self.bytes.get(self.at) != Some(&close) {
                        if object {
                            copy(self.key()?);
                            copy(":");
                        }
                        continue 'value;
                    }
                }
                Some(b'"') => {
                    self.string()?;
                    copy(self.text.get(start..self.at).unwrap_or_default());
                }
                Some(b'-' | b'0'..=b'9') => {
                    self.number()?;
                    copy(self.text.get(start..self.at).unwrap_or_default());
                }
                _ => {
                    let rest = self.text.get(self.at..).unwrap_or_default();
                    let Some(word) = ["true", "false", "null"]
                        .into_iter()
                        .find(|w| rest.starts_with(w))
                    else {
                        if ["true", "false", "null"]
                            .iter()
                            .any(|w| w.starts_with(rest))
                        {
                            self.at = self.bytes.len();
                        }
                        return self.fail(JsonErrorKind::Syntax);
                    };
                    self.at += word.len();
                    copy(word);
                }
            }
            // A value, or an opening bracket whose container is empty, is done.
            loop {
                let Some(&(object, keys)) = self.open.last() else {
                    return Ok(self.at);
                };
                self.space();
                match (self.bytes.get(self.at), object) {
                    (Some(b','), _) => {
                        self.at += 1;
                        copy(",");
                        self.space();
                        if object {
                            copy(self.key()?);
                            copy(":");
                        }
                        continue 'value;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        if object {
                            self.unique_keys(keys)?;
                            self.keys.truncate(keys);
                        }
                        self.open.pop();
                        self.at += 1;
                        copy(if object { "}" } else { "]" });
                    }
                    _ => return self.fail(JsonErrorKind::Syntax),
                }
            }
        }
    }

    /// A member name and its colon; answers the name as written.
    fn key(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        if self.bytes.get(self.at) != Some(&b'"') {
            return self.fail(JsonErrorKind::Syntax);
        }
        self.string()?;
        let key = self.text.get(start..self.at).unwrap_or_default();
        self.keys.push(key);
        self.space();
        if self.bytes.get(self.at) != Some(&b':') {
            return self.fail(JsonErrorKind::Syntax);
        }
        self.at += 1;
        self.space();
        Ok(key)
    }

    fn unique_keys(&self, from: usize) -> Result<(), JsonError> {
        let keys = self.keys.get(from..).unwrap_or_default();
        let plain = keys.iter().all(|key| !key.contains('\\'));
        let unique = if keys.len() <= 8 && plain {
            keys.iter()
                .enumerate()
                .all(|(i, key)| !keys.iter().take(i).any(|other| other == key))
        } else {
            let mut seen = BTreeSet::new();
            keys.iter().all(|key| seen.insert(unquote(key)))
        };
        if unique {
            Ok(())
        } else {
            self.fail(JsonErrorKind::DuplicateKey)
        }
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None => return self.fail(JsonErrorKind::Truncated),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(0x00..=0x1f) => return self.fail(JsonErrorKind::Syntax),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let unit = self.unit(self.at)?;
                if (0xdc00..0xe000).contains(&unit) {
                    return self.fail(JsonErrorKind::LoneSurrogate);
                }
                if (0xd800..0xdc00).contains(&unit) {
                    // A text that ends inside the pair is merely truncated.
                    let rest = self.bytes.get(self.at + 6..).unwrap_or_default();
                    let low = self.unit(self.at + 6).unwrap_or_default();
                    if !(0xdc00..0xe000).contains(&low) {
                        let cut = rest.is_empty() || rest == b"\\" || rest.starts_with(b"\\u");
                        if rest.len() < 6 && cut {
                            self.at = self.bytes.len();
                            return self.fail(JsonErrorKind::Truncated);
                        }
                        return self.fail(JsonErrorKind::LoneSurrogate);
                    }
                    self.at += 6;
                }
                self.at += 6;
                Ok(())
            }
            None => {
                self.at = self.bytes.len();
                self.fail(JsonErrorKind::Truncated)
            }
            Some(_) => self.fail(JsonErrorKind::Syntax),
        }
    }

    /// The code unit of the `\uXXXX` escape at `at`.
    fn unit(&self, at: usize) -> Result<u32, JsonError> {
        let Some(raw) = self.bytes.get(at..at + 6) else {
            return Err(JsonError {
                at: self.bytes.len(),
                kind: JsonErrorKind::Truncated,
            });
        };
        core::str::from_utf8(raw)
            .ok()
            .and_then(|raw| raw.strip_prefix("\\u"))
            .and_then(hex4)
            .ok_or(JsonError {
                at,
                kind: JsonErrorKind::Syntax,
            })
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            self.fail(JsonErrorKind::Syntax)
        } else {
            Ok(())
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
mod serde_impl {
    //! Through serde_json's `RawValue`, the only way to keep a value's
    //! spelling; other serde formats cannot carry it and say so.
    use super::Json;
    use alloc::boxed::Box;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    impl Serialize for Json {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serialize_raw(self.as_str(), serializer)
        }
    }

    impl<'de> Deserialize<'de> for Json {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let raw = <Box<RawValue>>::deserialize(deserializer)?;
            Json::parse(raw.get()).map_err(serde::de::Error::custom)
        }
    }

    pub(crate) fn serialize_raw<S: Serializer>(
        text: &str,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(text).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}
#[cfg(feature = "serde")]
pub(crate) use serde_impl::serialize_raw;

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<JsonErrorKind> {
        Json::parse(text).err().map(|error| error.kind)
    }

    #[test]
    fn spelling_is_kept_and_white_space_is_not() {
        let text = "\t[1e3, 1.10,\n1180591620717411303424, 1e400, \"\\u00e9\\/\", {\"b\":1,\"a\":{}}, []]\r\n";
        assert_eq!(
            Json::parse(text).unwrap().as_str(),
            "[1e3,1.10,1180591620717411303424,1e400,\"\\u00e9\\/\",{\"b\":1,\"a\":{}},[]]"
        );
    }

    #[test]
    fn bad_texts_are_named_by_kind() {
        use JsonErrorKind::*;
        for (text, want) in [
            ("", Truncated),
            ("{", Truncated),
            ("[1,", Truncated),
            ("\"a", Truncated),
            ("\"\\", Truncated),
            ("tru", Truncated),
            ("[1 2]", Syntax),
            ("[1,]", Syntax),
            ("{\"a\":1,}", Syntax),
            ("{a:1}", Syntax),
            ("01", Trailing),
            ("-", Truncated),
            ("1.", Truncated),
            ("+1", Syntax),
            ("nul]", Syntax),
            ("\"\u{1}\"", Syntax),
            ("\"\\x\"", Syntax),
            ("{} {}", Trailing),
            ("{\"a\":1,\"a\":2}", DuplicateKey),
            ("{\"a\":1,\"\\u0061\":2}", DuplicateKey),
            ("\"\\ud800\"", LoneSurrogate),
            ("\"\\ud800\\n1234\"", LoneSurrogate),
            ("\"\\udc00\"", LoneSurrogate),
        ] {
            assert_eq!(kind(text), Some(want), "{text}");
        }
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert_eq!(kind(&deep(MAX_DEPTH)), None);
        assert_eq!(kind(&deep(MAX_DEPTH + 1)), Some(TooDeep));
        assert_eq!(kind(&"[".repeat(2_000_000)), Some(TooDeep));
    }

    #[test]
    fn objects_and_arrays_come_apart_one_level() {
        let json = Json::parse(r#"{"a":{"x":"}]\""},"b":[1,"2",{"c":[]}],"\u0063":null}"#).unwrap();
        let object = json.as_object().unwrap();
        assert_eq!(object.get("a"), Some(r#"{"x":"}]\""}"#));
        assert_eq!(object.get("c"), Some("null"));
        assert_eq!(
            elements(object.get("b").unwrap()),
            ["1", "\"2\"", "{\"c\":[]}"]
        );
        assert!(elements("[]").is_empty());
        assert!(Object::of("[]").is_none());
    }

    #[test]
    fn quote_and_unquote_are_inverse() {
        let text = "a\"b\\c\n\r\t\u{8}\u{c}\u{1}\u{7f}é😀/";
        let json = Json::string(text);
        assert_eq!(
            json.as_str(),
            "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\u{7f}é😀/\""
        );
        assert_eq!(json.as_text().unwrap(), text);
        assert_eq!(quoted_len(text), json.as_str().len());
        assert_eq!(unquote("\"\\ud83d\\ude00\\/\\u00e9\"").unwrap(), "😀/é");
        assert_eq!(unquote("\"\\ud83d\""), None);
    }

    proptest::proptest! {
        #[test]
        fn the_checker_agrees_with_serde_json(text in "[\\[\\]{}\",:0-9a-u\\\\ .eE+-]{0,24}") {
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text);
            match Json::parse(&text) {
                Ok(ours) => {
                    proptest::prop_assert!(theirs.is_ok());
                    proptest::prop_assert_eq!(ours.as_str().is_empty(), false);
                }
                Err(error) => proptest::prop_assert!(
                    theirs.is_err()
                        || matches!(error.kind, JsonErrorKind::DuplicateKey | JsonErrorKind::LoneSurrogate)
                ),
            }
        }
    }
}
