//! Identifiers, each a type of its own so that no two can be mixed up.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// Why a text cannot serve as an identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdError {
    /// What sort of id was asked for.
    pub what: &'static str,
    /// The rule that the text breaks.
    pub rule: &'static str,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.what, self.rule)
    }
}

impl core::error::Error for IdError {}

const SAFE_RULE: &str = "1 to 128 characters of A-Z, a-z, 0-9, _ and -";
const FREE_RULE: &str = "1 to 512 bytes of text";

/// Whether `text` has the shape of a session, run, turn or invocation id.
pub fn is_safe(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Whether `text` has the shape of any other id.
pub fn is_free(text: &str) -> bool {
    (1..=512).contains(&text.len())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:ident, $rule:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks and keeps an id.
            ///
            /// # Errors
            /// [`IdError`] with the rule that the text breaks.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                if $check(&text) {
                    Ok(Self(text.into_boxed_str()))
                } else {
                    Err(IdError { what: $what, rule: $rule })
                }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl crate::object::Value for $name {
            fn read(raw: &str) -> Result<Self, &'static str> {
                let text = crate::json::unquote(raw).ok_or("a string")?;
                Self::new(text).map_err(|error| error.rule)
            }
            fn write(&self, out: &mut String) {
                crate::json::quote(&self.0, out);
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(de)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// The identity of a session: one conversation, the unit of order and
    /// deletion.
    ///
    /// ```
    /// use folio_core::SessionId;
    /// assert_eq!(SessionId::new("chat-1")?.as_str(), "chat-1");
    /// assert!(SessionId::new("no spaces").is_err());
    /// # Ok::<(), folio_core::IdError>(())
    /// ```
    SessionId, "a session id", is_safe, SAFE_RULE
);
id!(
    /// The identity of a run: one execution attempt of the agent.
    RunId, "a run id", is_safe, SAFE_RULE
);
id!(
    /// The identity of a turn: one request and all that answers it.
    TurnId, "a turn id", is_safe, SAFE_RULE
);
id!(
    /// The identity of an invocation: the execution spine of one run.
    InvocationId, "an invocation id", is_safe, SAFE_RULE
);
id!(
    /// The identity of an event, unique in its session.
    EventId, "an event id", is_free, FREE_RULE
);
id!(
    /// Any other identity that an event carries: of a provider's message, a
    /// tool call, a permission request.
    ForeignId, "an id", is_free, FREE_RULE
);
