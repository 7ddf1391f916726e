//! Typed JSON objects that lose nothing.
//!
//! `object!` declares a struct whose fields are the known
//! members of a JSON object. Reading fills them and keeps every other member
//! verbatim in `unknown`; writing puts all of them back. One declaration gives
//! the names, the types and both directions, so they cannot drift apart.

use crate::json::{self, Json, JsonKind, Object};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// A member that is not what its name promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    /// The path of the member, such as `content.text`.
    pub field: String,
    /// What it must be.
    pub rule: &'static str,
}

impl core::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.field.is_empty() {
            write!(f, "it must be {}", self.rule)
        } else {
            write!(f, "{} must be {}", self.field, self.rule)
        }
    }
}

impl core::error::Error for ShapeError {}

impl ShapeError {
    /// An error about one member.
    pub fn new(field: &str, rule: &'static str) -> Self {
        Self {
            field: field.to_owned(),
            rule,
        }
    }

    /// The same error seen from one level further out.
    #[must_use]
    pub fn inside(mut self, outer: &str) -> Self {
        if self.field.is_empty() {
            self.field = outer.to_owned();
        } else {
            self.field.insert(0, '.');
            self.field.insert_str(0, outer);
        }
        self
    }
}

/// A value that a member can hold.
pub trait Value: Sized {
    /// Reads the value from checked JSON text; the error says what it must be.
    ///
    /// # Errors
    /// What the value must be, as a phrase.
    fn read(raw: &str) -> Result<Self, &'static str>;
    /// The value of a text.
    ///
    /// # Errors
    /// What the value must be, as a phrase.
    fn of_text(text: &str) -> Result<Self, &'static str> {
        let mut raw = String::with_capacity(text.len() + 2);
        json::quote(text, &mut raw);
        Self::read(&raw)
    }
    /// Writes the value as JSON text.
    fn write(&self, out: &mut String);
    /// Whether a missing member has a value all the same, and which.
    fn absent() -> Option<Self> {
        None
    }
    /// Whether the value stands for a missing member and is not written.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T: Value> Value for Option<T> {
    fn read(raw: &str) -> Result<Self, &'static str> {
        T::read(raw).map(Some)
    }
    fn of_text(text: &str) -> Result<Self, &'static str> {
        T::of_text(text).map(Some)
    }
    fn write(&self, out: &mut String) {
        if let Some(value) = self {
            value.write(out);
        }
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl Value for String {
    fn read(raw: &str) -> Result<Self, &'static str> {
        json::unquote(raw)
            .map(alloc::borrow::Cow::into_owned)
            .ok_or("a string")
    }
    fn of_text(text: &str) -> Result<Self, &'static str> {
        Ok(text.to_owned())
    }
    fn write(&self, out: &mut String) {
        json::quote(self, out);
    }
}

impl Value for bool {
    fn read(raw: &str) -> Result<Self, &'static str> {
        raw.parse().map_err(|_| "true or false")
    }
    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

/// The largest integer that every JSON reader keeps exactly.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

impl Value for u64 {
    fn read(raw: &str) -> Result<Self, &'static str> {
        let rule = "a whole number from 0 to 9007199254740991";
        let value = raw.parse().map_err(|_| rule)?;
        if value <= MAX_SAFE_INTEGER {
            Ok(value)
        } else {
            Err(rule)
        }
    }
    fn write(&self, out: &mut String) {
        use core::fmt::Write;
        // Writing to a String cannot fail.
        let _unfailing = write!(out, "{self}");
    }
}

impl Value for Json {
    fn read(raw: &str) -> Result<Self, &'static str> {
        Ok(Json::trusted(raw))
    }
    fn write(&self, out: &mut String) {
        out.push_str(self.as_str());
    }
}

/// A finite JSON number in the spelling it was written with.
///
/// ```
/// use folio_core::Number;
/// assert_eq!(Number::from(42).as_str(), "42");
/// assert_eq!(Number::parse("1.50").map(|n| n.as_str().to_owned()), Some("1.50".to_owned()));
/// assert!(Number::parse("x").is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Number(Box<str>);

impl Number {
    /// A number from its JSON text; `None` if it is no finite number.
    pub fn parse(text: &str) -> Option<Self> {
        // Nearly all are counts and times.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        if digits && (1..=20).contains(&text.len()) && (text == "0" || !text.starts_with('0')) {
            return Some(Self(text.into()));
        }
        let json = Json::parse(text).ok()?;
        let finite = text.parse::<f64>().is_ok_and(f64::is_finite);
        (json.kind() == JsonKind::Number && finite).then(|| Self(json.as_str().into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value, rounded to a whole number toward zero; 0 below zero.
    pub fn whole(&self) -> u64 {
        whole(&self.0)
    }
}

/// The value of a number's text, rounded toward zero; 0 below zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates"
)]
pub fn whole(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| text.parse::<f64>().map_or(0, |value| value as u64))
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(alloc::format!("{value}").into_boxed_str())
    }
}

impl Value for Number {
    fn read(raw: &str) -> Result<Self, &'static str> {
        Self::parse(raw).ok_or("a finite number")
    }
    fn write(&self, out: &mut String) {
        out.push_str(&self.0);
    }
}

/// Members that this build gives no meaning to, kept verbatim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members(pub Vec<(Box<str>, Json)>);

impl Members {
    /// The value of a member.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0
            .iter()
            .find(|(key, _)| &**key == name)
            .map(|(_, value)| value)
    }

    /// Adds a member, or replaces one of that name.
    pub fn set(&mut self, name: &str, value: Json) {
        if let Some(slot) = self.0.iter_mut().find(|(key, _)| &**key == name) {
            slot.1 = value;
        } else {
            self.0.push((name.into(), value));
        }
    }
}

/// The members of an object on their way into canonical text: sorted by the
/// bytes of their names, direct strings with minimal escapes.
#[derive(Debug, Default)]
pub struct Writer {
    members: Vec<(Box<str>, String)>,
}

impl Writer {
    /// Adds a typed member unless it is absent.
    pub fn member<T: Value>(&mut self, name: &str, value: &T) {
        if !value.is_absent() {
            let mut text = String::new();
            value.write(&mut text);
            self.members.push((name.into(), text));
        }
    }

    /// Adds a member whose text is canonical already.
    pub fn raw(&mut self, name: &str, text: String) {
        self.members.push((name.into(), text));
    }

    /// Adds members that were kept verbatim; a direct string is spelled anew.
    pub fn unknown(&mut self, members: &Members) {
        for (name, value) in &members.0 {
            let text = match value.as_text() {
                Some(text) => Json::string(&text).as_str().to_owned(),
                None => value.as_str().to_owned(),
            };
            self.members.push((name.clone(), text));
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The object's text with its members sorted by name.
    pub fn sorted(mut self) -> String {
        self.members
            .sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        self.written()
    }

    /// The object's text with its members in the order they were added.
    pub fn written(self) -> String {
        let size = self
            .members
            .iter()
            .map(|(k, v)| k.len() + v.len() + 4)
            .sum::<usize>();
        let mut out = String::with_capacity(size + 2);
        out.push('{');
        for (i, (name, value)) in self.members.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            json::quote(name, &mut out);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        out
    }
}

/// Reads one member of an object, for `object!`.
pub(crate) fn member<T: Value>(object: &Object<'_>, name: &'static str) -> Result<T, ShapeError> {
    match object.get(name) {
        Some(raw) => T::read(raw).map_err(|rule| ShapeError::new(name, rule)),
        None => T::absent().ok_or_else(|| ShapeError::new(name, "present")),
    }
}

/// Collects the members that a struct does not name.
pub(crate) fn unknown(object: &Object<'_>, known: &[&str]) -> Members {
    let rest = object.iter().filter(|(name, _)| !known.contains(name));
    Members(
        rest.map(|(name, raw)| (name.into(), Json::trusted(raw)))
            .collect(),
    )
}

/// Declares a struct for the known members of a JSON object.
///
/// Fields whose type has an absent value (`Option`) may be missing; all others
/// are required. A trailing `[kind = "..."]` names the `kind` member that is
/// written with the object and read by the caller.
macro_rules! object {
    (
        $(#[$doc:meta])*
        pub struct $name:ident $([kind = $kind:literal])? {
            $( $(#[$fdoc:meta])* $field:ident: $ty:ty = $json:literal, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$fdoc])* pub $field: $ty, )*
            /// Members that this build does not know, verbatim.
            pub unknown: $crate::object::Members,
        }

        impl $name {
            /// The names of the members that the fields stand for.
            pub const MEMBERS: &'static [&'static str] = &[$($json,)*];

            /// Reads the object from its members.
            ///
            /// # Errors
            /// [`ShapeError`]($crate::object::ShapeError) naming the member and its rule.
            pub fn from_object(
                object: &$crate::json::Object<'_>,
            ) -> Result<Self, $crate::object::ShapeError> {
                let known: &[&str] = &[$($json,)* $(object!(@kind $kind),)?];
                Ok(Self {
                    $( $field: $crate::object::member(object, $json)?, )*
                    unknown: $crate::object::unknown(object, known),
                })
            }

            /// Adds the members to a writer, in the order declared.
            pub fn write_members(&self, writer: &mut $crate::object::Writer) {
                $( writer.raw("kind", $crate::json::Json::string($kind).as_str().into()); )?
                $( writer.member($json, &self.$field); )*
                writer.unknown(&self.unknown);
            }
        }

        impl $crate::object::Value for $name {
            fn read(raw: &str) -> Result<Self, &'static str> {
                let object = $crate::json::Object::of(raw).ok_or("an object")?;
                Self::from_object(&object).map_err(|error| error.rule)
            }
            fn write(&self, out: &mut alloc::string::String) {
                let mut writer = $crate::object::Writer::default();
                self.write_members(&mut writer);
                out.push_str(&writer.written());
            }
        }
    };
    (@kind $kind:literal) => { "kind" };
}

/// Declares an enum of texts. `open` ones keep a text they do not know.
macro_rules! words {
    ($(#[$doc:meta])* pub closed enum $name:ident { $( $(#[$vdoc:meta])* $variant:ident = $text:literal, )* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$vdoc])* $variant, )* }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The value as it stands in JSON.
            pub fn as_str(&self) -> &'static str {
                match self { $( Self::$variant => $text, )* }
            }
            /// The value of a text, if it is one.
            pub fn from_text(text: &str) -> Option<Self> {
                match text { $( $text => Some(Self::$variant), )* _ => None }
            }
        }

        impl $crate::object::Value for $name {
            fn read(raw: &str) -> Result<Self, &'static str> {
                let text = $crate::json::unquote(raw).ok_or("a string")?;
                Self::from_text(&text).ok_or(concat!("one of", $(" ", $text,)*))
            }
            fn write(&self, out: &mut alloc::string::String) {
                $crate::json::quote(self.as_str(), out);
            }
        }
    };
    ($(#[$doc:meta])* pub open enum $name:ident { $( $(#[$vdoc:meta])* $variant:ident = $text:literal, )* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$vdoc])* $variant, )*
            /// A value that this build does not know.
            Other(alloc::boxed::Box<str>),
        }

        impl $name {
            /// The value as it stands in JSON.
            pub fn as_str(&self) -> &str {
                match self { $( Self::$variant => $text, )* Self::Other(text) => text }
            }
            /// The value of a text.
            pub fn from_text(text: &str) -> Self {
                match text { $( $text => Self::$variant, )* other => Self::Other(other.into()) }
            }
        }

        impl $crate::object::Value for $name {
            fn read(raw: &str) -> Result<Self, &'static str> {
                Ok(Self::from_text(&$crate::json::unquote(raw).ok_or("a string")?))
            }
            fn write(&self, out: &mut alloc::string::String) {
                $crate::json::quote(self.as_str(), out);
            }
        }
    };
}
