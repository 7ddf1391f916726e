//! Columns of a row as the types they must have; anything else is damage, and
//! answers `None`.

use folio_codec::Digest;
use rusqlite::Row;
use rusqlite::types::ValueRef;

/// A row's columns, by number.
#[derive(Clone, Copy)]
pub struct Columns<'a>(pub &'a Row<'a>);

impl<'a> Columns<'a> {
    /// A column as it is.
    fn value(self, at: usize) -> Option<ValueRef<'a>> {
        self.0.get_ref(at).ok()
    }

    /// Whether a column is NULL.
    pub fn is_null(self, at: usize) -> bool {
        matches!(self.value(at), Some(ValueRef::Null))
    }

    /// A signed number.
    pub fn i64(self, at: usize) -> Option<i64> {
        match self.value(at)? {
            ValueRef::Integer(number) => Some(number),
            _ => None,
        }
    }

    /// A number, kept as the bits of a signed one.
    pub fn u64(self, at: usize) -> Option<u64> {
        self.i64(at).map(i64::cast_unsigned)
    }

    /// A small number.
    pub fn small<T: TryFrom<i64>>(self, at: usize) -> Option<T> {
        T::try_from(self.i64(at)?).ok()
    }

    /// 0 or 1.
    pub fn bool(self, at: usize) -> Option<bool> {
        match self.i64(at)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Text.
    pub fn text(self, at: usize) -> Option<&'a str> {
        match self.value(at)? {
            ValueRef::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// Bytes.
    pub fn bytes(self, at: usize) -> Option<&'a [u8]> {
        match self.value(at)? {
            ValueRef::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A chain value.
    pub fn digest(self, at: usize) -> Option<Digest> {
        self.bytes(at)?.try_into().ok()
    }

    /// A column that may be NULL.
    pub fn optional<T>(
        self,
        at: usize,
        read: impl Fn(Self, usize) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.is_null(at) {
            Some(None)
        } else {
            read(self, at).map(Some)
        }
    }

    /// Whether the checksum in a column is this one.
    pub fn has_sum(self, at: usize, sum: u64) -> bool {
        self.u64(at) == Some(sum)
    }
}
