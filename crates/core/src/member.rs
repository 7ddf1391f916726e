//! Large members: values whose text is kept outside of their event.
//!
//! Where a value is kept is not part of what the event says. A value longer
//! than [`LARGE`] enters the event's digest by its length and its SHA-256
//! wherever it stands, so that an event that holds it and one that names it
//! are the same event. The names are [`Stored`]; texts with places for what
//! they name are [`SplicedText`].

use crate::json::Json;
use crate::object::Value;
use crate::view::Field;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// A value of more bytes than this enters digests by its length and its own
/// digest, and may be kept outside of its event.
pub const LARGE: usize = 16_384;
/// The most bytes of a value that is kept outside.
pub const MAX_STORED: u64 = 1 << 30;
/// The most bytes of refs and body beside values that are kept outside.
pub const MAX_INLINE: usize = 256 << 10;

/// The members that may be kept outside, each with the object that it is a
/// member of and its name there. No rule about items looks into them.
pub const STORABLE: &[(Field, &str, &str)] = &[(Field::Result, "content", "result")];

/// What stands in an event's text in the place of a member kept outside.
pub(crate) const STAND_IN: &str = "null";

/// A value that is kept outside, by the text that it is: compact JSON, as
/// [`Json`] has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The bytes of the text: more than [`LARGE`], at most [`MAX_STORED`].
    pub len: u64,
    /// The SHA-256 of the text.
    pub sha256: [u8; 32],
    /// What its member `kind` says, where it is an object that has a short
    /// one. The store fills it in when it accepts the event, whatever stands
    /// here.
    pub kind: Option<Box<str>>,
}

/// The value of a member that may be large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// It stands in the event.
    Inline(Json),
    /// It is kept outside.
    Stored(Stored),
}

impl From<Json> for Member {
    fn from(json: Json) -> Self {
        Self::Inline(json)
    }
}

impl Value for Member {
    fn read(raw: &str) -> Result<Self, &'static str> {
        Json::read(raw).map(Self::Inline)
    }
    fn write(&self, out: &mut String) {
        match self {
            Self::Inline(json) => json.write(out),
            Self::Stored(_) => out.push_str(STAND_IN),
        }
    }
}

/// The text of a member that was read along with its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The event's ordinal.
    pub ordinal: u64,
    /// The member.
    pub field: Field,
    /// Its text.
    pub text: String,
}

impl Loaded {
    /// Those of one event, among some that ascend by ordinal.
    pub fn of(loaded: &[Self], ordinal: u64) -> &[Self] {
        let from = loaded.partition_point(|loaded| loaded.ordinal < ordinal);
        let to = loaded.partition_point(|loaded| loaded.ordinal <= ordinal);
        loaded.get(from..to).unwrap_or_default()
    }
}

/// A [`Stored`], borrowed from its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredRef<'a> {
    /// See [`Stored::len`].
    pub len: u64,
    /// See [`Stored::sha256`].
    pub sha256: &'a [u8; 32],
    /// See [`Stored::kind`].
    pub kind: Option<&'a str>,
    /// The text, where it was read along.
    pub loaded: Option<&'a str>,
}

impl StoredRef<'_> {
    /// The same as a value of its own.
    pub fn to_stored(&self) -> Stored {
        Stored {
            len: self.len,
            sha256: *self.sha256,
            kind: self.kind.map(Into::into),
        }
    }
}

/// The members of an event that are kept outside, as they are packed: for each
/// the number of its field, its length in eight little-endian bytes, its
/// SHA-256, and its kind behind the byte that counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredMembers<'a> {
    packed: &'a [u8],
    /// What was read along, of this event alone.
    loaded: &'a [Loaded],
}

impl<'a> StoredMembers<'a> {
    /// The members that some bytes pack; `None` where they pack none or
    /// anything else.
    pub fn unpack(packed: &'a [u8]) -> Option<Self> {
        let mut rest = packed;
        while !rest.is_empty() {
            let (field, _, after) = first(rest)?;
            STORABLE.iter().find(|(known, ..)| *known == field)?;
            rest = after;
        }
        (!packed.is_empty()).then_some(Self::trusted(packed))
    }

    pub(crate) fn trusted(packed: &'a [u8]) -> Self {
        Self {
            packed,
            loaded: &[],
        }
    }

    /// The same, with the texts that were read along with the event.
    #[must_use]
    pub fn with(self, loaded: &'a [Loaded]) -> Self {
        Self { loaded, ..self }
    }

    /// The members packed.
    pub fn packed(&self) -> &'a [u8] {
        self.packed
    }

    /// Whether everything stands in the event.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The members, each by its field.
    pub fn iter(&self) -> impl Iterator<Item = (Field, StoredRef<'a>)> + use<'a> {
        let (mut rest, loaded) = (self.packed, self.loaded);
        core::iter::from_fn(move || {
            let (field, mut stored, after) = first(rest)?;
            rest = after;
            let text = loaded.iter().find(|loaded| loaded.field == field);
            stored.loaded = text.map(|loaded| &*loaded.text);
            Some((field, stored))
        })
    }

    /// A member, if it is kept outside.
    pub fn get(&self, field: Field) -> Option<StoredRef<'a>> {
        if self.packed.is_empty() {
            return None;
        }
        self.iter()
            .find(|(of, _)| *of == field)
            .map(|(_, stored)| stored)
    }

    /// The member of an object, if it is kept outside.
    pub fn named(&self, object: &str, name: &str) -> Option<StoredRef<'a>> {
        let wanted = |(_, of, known): &&(Field, &str, &str)| (*of, *known) == (object, name);
        self.get(STORABLE.iter().find(wanted)?.0)
    }

    /// How many bytes more the event would have if it held all of them.
    pub fn weight(&self) -> u64 {
        let beyond = |(_, stored): (Field, StoredRef<'_>)| stored.len - STAND_IN.len() as u64;
        self.iter().map(beyond).sum()
    }
}

/// The first of some packed members, and what follows it.
fn first(packed: &[u8]) -> Option<(Field, StoredRef<'_>, &[u8])> {
    let (field, rest) = packed.split_first()?;
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let (sha256, rest) = rest.split_first_chunk::<32>()?;
    let (kind, rest) = rest.split_first()?;
    let (kind, rest) = rest.split_at_checked(usize::from(*kind))?;
    let kind = core::str::from_utf8(kind).ok()?;
    let stored = StoredRef {
        len: u64::from_le_bytes(*len),
        sha256,
        kind: Some(kind).filter(|kind| !kind.is_empty()),
        loaded: None,
    };
    let is_large = stored.len > LARGE as u64;
    is_large.then_some((Field::from_number(*field)?, stored, rest))
}

/// Packs members. A kind that is longer than 255 bytes is as good as none.
pub(crate) fn pack<'s>(members: impl Iterator<Item = (Field, &'s Stored)>) -> Box<[u8]> {
    let mut out = Vec::new();
    for (field, stored) in members {
        out.push(field as u8);
        out.extend(stored.len.to_le_bytes());
        out.extend(stored.sha256);
        let kind = stored.kind.as_deref().unwrap_or_default();
        let len = u8::try_from(kind.len()).unwrap_or(0);
        out.push(len);
        out.extend(kind.bytes().take(usize::from(len)));
    }
    out.into_boxed_slice()
}

/// A place in a text at which a member belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The byte of the text before which it stands.
    pub at: usize,
    /// The member.
    pub member: Stored,
}

/// A text with places for members that are kept outside. Its length, and what
/// any range of its bytes is made of, are known without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spliced<'a> {
    /// The text.
    pub text: &'a str,
    /// The places, ascending.
    pub splices: &'a [Splice],
}

/// A stretch of a [`Spliced`] text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of the text.
    Text(&'a [u8]),
    /// Bytes of a member.
    Member(&'a Stored, Range<u64>),
}

impl<'a> Spliced<'a> {
    /// The bytes of the whole.
    pub fn len(&self) -> u64 {
        let members = self.splices.iter().map(|splice| splice.member.len);
        self.text.len() as u64 + members.sum::<u64>()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it, one stretch after another.
    pub fn all(&self) -> Vec<Piece<'a>> {
        self.range(0..self.len())
    }

    /// The members, each with the byte of the whole at which it begins.
    pub fn members(&self) -> impl Iterator<Item = (u64, &'a Stored)> + use<'a> {
        let mut before = 0;
        self.splices.iter().map(move |splice| {
            let at = splice.at as u64 + before;
            before += splice.member.len;
            (at, &splice.member)
        })
    }

    /// What a range of the whole is made of.
    pub fn range(&self, range: Range<u64>) -> Vec<Piece<'a>> {
        let mut out = Vec::new();
        // The part of a stretch that lies in the range, counted from where the
        // stretch begins.
        let within = |from: u64, len: u64| {
            let (low, high) = (range.start.max(from), range.end.min(from + len));
            (low < high).then(|| low - from..high - from)
        };
        let text = |from: u64, text: &'a str, out: &mut Vec<Piece<'a>>| {
            if let Some(part) = within(from, text.len() as u64)
                && let (Ok(low), Ok(high)) = (part.start.try_into(), part.end.try_into())
            {
                let bytes: &[u8] = text
                    .as_bytes()
                    .get::<Range<usize>>(low..high)
                    .unwrap_or_default();
                out.push(Piece::Text(bytes));
            }
        };
        let (mut written, mut at) = (0, 0);
        for Splice { at: place, member } in self.splices {
            let before = self.text.get(at..*place).unwrap_or_default();
            text(written, before, &mut out);
            written += before.len() as u64;
            if let Some(part) = within(written, member.len) {
                out.push(Piece::Member(member, part));
            }
            written += member.len;
            at = *place;
        }
        text(written, self.text.get(at..).unwrap_or_default(), &mut out);
        out
    }
}

/// A [`Spliced`] text as a value of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SplicedText {
    /// The text.
    pub text: String,
    /// The places, ascending.
    pub splices: Vec<Splice>,
}

impl SplicedText {
    /// The same, borrowed.
    pub fn borrowed(&self) -> Spliced<'_> {
        Spliced {
            text: &self.text,
            splices: &self.splices,
        }
    }

    /// The text, if nothing of it is kept outside.
    pub fn into_whole(self) -> Option<String> {
        self.splices.is_empty().then_some(self.text)
    }

    /// Adds a place behind the text so far.
    pub(crate) fn splice(&mut self, member: &StoredRef<'_>) {
        self.splices.push(Splice {
            at: self.text.len(),
            member: member.to_stored(),
        });
    }
}

impl core::fmt::Display for Stored {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes sha256:", self.len)?;
        self.sha256
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Member {
    /// The value, if it stands in the event.
    pub fn inline(&self) -> Option<&Json> {
        match self {
            Self::Inline(json) => Some(json),
            Self::Stored(_) => None,
        }
    }

    /// Why it cannot be kept outside, if it is.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::Stored(Stored { len, .. }) if *len <= LARGE as u64 || *len > MAX_STORED => {
                Err("kept outside only if it has more than 16384 bytes and at most 1 GiB")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    fn stored(len: u64, kind: Option<&str>) -> Stored {
        Stored {
            len,
            sha256: [7; 32],
            kind: kind.map(Into::into),
        }
    }

    #[test]
    fn packed_members_come_back() {
        let member = stored(70_000, Some("text"));
        let packed = pack([(Field::Result, &member)].into_iter());
        let members = StoredMembers::unpack(&packed).unwrap();
        assert_eq!(members.get(Field::Result).unwrap().to_stored(), member);
        assert_eq!(
            members.named("content", "result").unwrap().kind,
            Some("text")
        );
        assert_eq!(members.named("content", "text"), None);
        assert_eq!(members.weight(), 70_000 - 4);
        assert_eq!(StoredMembers::unpack(&packed[..packed.len() - 1]), None);
        assert_eq!(StoredMembers::unpack(&[]), None);
        // What is not large never stands outside, and texts are not storable.
        for bad in [(Field::Result, 16_384), (Field::Text, 70_000)] {
            let packed = pack([(bad.0, &stored(bad.1, None))].into_iter());
            assert_eq!(StoredMembers::unpack(&packed), None);
        }
    }

    #[test]
    fn any_range_is_made_of_its_parts() {
        let text = SplicedText {
            text: "abcdef".to_owned(),
            splices: [2, 2, 6]
                .map(|at| Splice {
                    at,
                    member: stored(10, None),
                })
                .to_vec(),
        };
        // What each byte of the whole is: a letter, or a digit for a member.
        let whole = "ab00000000001111111111cdef2222222222";
        let text = text.borrowed();
        assert_eq!(text.len(), whole.len() as u64);
        let starts: Vec<u64> = text.members().map(|(at, _)| at).collect();
        assert_eq!(starts, [2, 12, 26]);
        for from in 0..=whole.len() {
            for to in from..=whole.len() {
                let mut bytes = 0;
                for piece in text.range(from as u64..to as u64) {
                    bytes += match piece {
                        Piece::Text(part) => {
                            let at = from + bytes;
                            assert_eq!(part, &whole.as_bytes()[at..at + part.len()]);
                            part.len()
                        }
                        Piece::Member(_, range) => {
                            let start =
                                [2, 12, 26][usize::from(whole.as_bytes()[from + bytes] - b'0')];
                            assert_eq!(range.start, (from + bytes - start) as u64);
                            usize::try_from(range.end - range.start).unwrap()
                        }
                    };
                }
                assert_eq!(bytes, to - from);
            }
        }
    }
}
