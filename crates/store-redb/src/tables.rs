//! What is in the file: one table for each sort of row, and the few ways in
//! which tables are used.
//!
//! A key is a tuple, ordered by its parts. A value is eight bytes of checksum
//! and the packed row (`rows`); a table that only finds rows of another one has
//! empty values. A new table is one line below.

#![expect(
    clippy::needless_pass_by_value,
    reason = "keys are small tuples, made where they are used"
)]

use crate::error::Error;
use crate::rows::{KeyOf, Row};
use folio_codec::Digest;
use folio_core::Direction;
use redb::{
    AccessGuard, Key, Range, ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata,
    Table, TableDefinition, WriteTransaction,
};
use std::cell::OnceCell;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// A stored value.
pub type Bytes = &'static [u8];

macro_rules! tables {
    ($($(#[doc = $doc:literal])+ $name:ident: $key:ty;)+) => {
        /// The definition of every table.
        #[allow(non_upper_case_globals, reason = "named as the tables are")]
        pub mod definition {
            use super::*;
            $(
                $(#[doc = $doc])+
                pub const $name: TableDefinition<'static, $key, Bytes> =
                    TableDefinition::new(stringify!($name));
            )+
        }

        /// The tables of one state.
        pub trait Tables {
            $(
                $(#[doc = $doc])+
                fn $name(&self) -> Result<&impl ReadableTable<$key, Bytes>, Error>;
            )+
        }

        /// The tables of a read transaction, each opened when it is first used.
        pub struct Reading {
            txn: ReadTransaction,
            $($name: OnceCell<ReadOnlyTable<$key, Bytes>>,)+
        }

        impl Reading {
            /// The tables of a transaction.
            pub fn new(txn: ReadTransaction) -> Self {
                Self { txn, $($name: OnceCell::new(),)+ }
            }
        }

        impl Tables for Reading {
            $(fn $name(&self) -> Result<&impl ReadableTable<$key, Bytes>, Error> {
                if let Some(table) = self.$name.get() {
                    return Ok(table);
                }
                let table = self.txn.open_table(definition::$name)?;
                Ok(self.$name.get_or_init(|| table))
            })+
        }

        /// The tables of a write transaction.
        pub struct Writing<'t> {
            $(
                $(#[doc = $doc])+
                pub $name: Table<'t, $key, Bytes>,
            )+
        }

        impl<'t> Writing<'t> {
            /// Opens every table, and makes those that are missing.
            pub fn open(txn: &'t WriteTransaction) -> Result<Self, Error> {
                Ok(Self { $($name: txn.open_table(definition::$name)?,)+ })
            }

            /// Takes every row of another database over as it stands, whether
            /// it is damaged or not.
            pub fn copy_all(&mut self, from: &Reading) -> Result<(), Error> {
                $(copy(stringify!($name), from.$name()?, &mut self.$name)?;)+
                Ok(())
            }
        }

        impl Tables for Writing<'_> {
            $(fn $name(&self) -> Result<&impl ReadableTable<$key, Bytes>, Error> {
                Ok(&self.$name)
            })+
        }
    };
}

tables! {
    /// Facts about the store, by name.
    meta: &'static str;
    /// Sessions, by id.
    sessions: &'static str;
    /// Logs, by number.
    logs: u64;
    /// Finds the session that writes a log, by (log, id).
    sessions_log: (u64, &'static str);
    /// What a log reads from others, by (log, last ordinal of the stretch).
    spans: (u64, u64);
    /// Finds who reads from a log, by (log read, last ordinal, log that reads).
    spans_src: (u64, u64, u64);
    /// Events, by (log, ordinal).
    events: (u64, u64);
    /// Finds events and chunks of segments, by (family, hash of the id, log,
    /// ordinal).
    event_ids: (u64, u64, u64, u64);
    /// Segments, by (log, ordinal of the first chunk).
    packs: (u64, u64);
    /// Ids of chunks that count, by (log, stem, first number).
    id_runs: (u64, &'static str, u64);
    /// The commit journal, by number.
    commits: u64;
    /// Runs, by (log, number).
    runs: (u64, u32);
    /// Finds runs, by (log, run id, number).
    runs_id: (u64, &'static str, u32);
    /// Finds runs, by (log, invocation id, number).
    runs_inv: (u64, &'static str, u32);
    /// Finds runs, by (log, turn id, number).
    runs_turn: (u64, &'static str, u32);
    /// Items, by (index, ordinal, slot).
    items: (u64, u64, u8);
    /// Chunks of items, by (index, ordinal, slot, lane, part, first ordinal).
    item_segs: (u64, u64, u8, u8, u32, u64);
    /// Finds items, by (index, hash of the identity, ordinal, slot).
    item_keys: (u64, u64, u64, u8);
    /// Contribution logs, by (log of the session, source).
    contrib_logs: (u64, &'static str);
    /// Facts, by (contribution log, sequence).
    contrib_facts: (u64, u64);
    /// Finds facts, by (contribution log, anchor, sequence).
    contrib_items: (u64, u64, u64);
    /// Finds facts, by (contribution log, hash of the id, sequence).
    contrib_ids: (u64, u64, u64);
    /// Blobs, by address.
    blobs: &'static Digest;
    /// Blobs that are still arriving, by number.
    stages: u64;
    /// Slices of the pieces of blobs, by (blob, piece, slice).
    pieces: (u64, u32, u32);
    /// What events cite, by (log, ordinal, address).
    citations: (u64, u64, &'static Digest);
    /// Finds who cites, by (address, log, ordinal).
    cited: (&'static Digest, u64, u64);
    /// Views, by name.
    views: &'static str;
    /// Entries of views, by (view, key).
    view_rows: (u64, &'static [u8]);
    /// Finds what views made of a log, by (log, view, key).
    view_rows_log: (u64, u64, &'static [u8]);
    /// How far views have seen logs, by (log, view).
    view_marks: (u64, u64);
    /// Erasures that are not complete, by number.
    scrub: u64;
}

/// A key that begins with a number: all rows of a log, an index or a family
/// stand together.
pub trait Led: Key {
    /// The first possible key of a number.
    fn first<'a>(number: u64) -> Self::SelfType<'a>;
}

macro_rules! led {
    ($($key:ty: $($rest:expr),*;)+) => {$(
        impl Led for $key {
            fn first<'a>(number: u64) -> Self::SelfType<'a> {
                (number, $($rest),*)
            }
        }
    )+};
}
led! {
    (u64, u64): 0;
    (u64, u32): 0;
    (u64, &'static str): "";
    (u64, &'static str, u32): "", 0;
    (u64, &'static [u8]): &[];
    (u64, u64, &'static [u8]): 0, &[];
    (u64, u32, u32): 0, 0;
    (u64, u64, &'static Digest): 0, &LEAST;
    (u64, u64, u64): 0, 0;
    (u64, u64, u8): 0, 0;
    (u64, u64, u64, u8): 0, 0, 0;
    (u64, u64, u64, u64): 0, 0, 0;
    (u64, u64, u8, u8, u32, u64): 0, 0, 0, 0, 0;
}

/// No address comes before this one.
pub const LEAST: Digest = [0; 32];
/// No address comes behind this one.
pub const GREATEST: Digest = [u8::MAX; 32];

/// The bounds of a range of keys.
pub type Bounds<K> = (Bound<K>, Bound<K>);

/// All keys that begin with a number.
pub fn led_by<'a, K: Led>(number: u64) -> Bounds<K::SelfType<'a>> {
    let end = number.checked_add(1);
    (
        Included(K::first(number)),
        end.map_or(Unbounded, |end| Excluded(K::first(end))),
    )
}

/// The entries of a range; none for one that ends before it begins.
fn range<'t, 'k, K: Key + 'static>(
    table: &'t impl ReadableTable<K, Bytes>,
    bounds: Bounds<K::SelfType<'k>>,
) -> Result<Range<'t, K, Bytes>, Error> {
    Ok(table.range::<K::SelfType<'k>>(bounds)?)
}

/// An entry of a table.
type Entry<'t, K> = (AccessGuard<'t, K>, AccessGuard<'t, Bytes>);

/// Walks a range in a direction until the visitor has enough.
pub fn visit<'k, K: Key + 'static>(
    table: &impl ReadableTable<K, Bytes>,
    bounds: Bounds<K::SelfType<'k>>,
    direction: Direction,
    mut visitor: impl FnMut(K::SelfType<'_>, &[u8]) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut entries = range(table, bounds)?;
    let mut next = || -> Option<Result<Entry<'_, K>, redb::StorageError>> {
        match direction {
            Direction::Newer => entries.next(),
            Direction::Older => entries.next_back(),
        }
    };
    while let Some(entry) = next() {
        let (key, value) = entry?;
        if !visitor(key.value(), value.value())? {
            break;
        }
    }
    Ok(())
}

/// What a visitor makes of the first entries of a range.
pub fn collect<'k, K: Key + 'static, T>(
    table: &impl ReadableTable<K, Bytes>,
    bounds: Bounds<K::SelfType<'k>>,
    direction: Direction,
    limit: usize,
    mut read: impl FnMut(K::SelfType<'_>, &[u8]) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut out = Vec::new();
    if limit > 0 {
        visit(table, bounds, direction, |key, value| {
            out.push(read(key, value)?);
            Ok(out.len() < limit)
        })?;
    }
    Ok(out)
}

/// A row, checked.
pub fn get<R: Row>(
    table: &impl ReadableTable<R::Key, Bytes>,
    key: KeyOf<'_, R>,
) -> Result<Option<R>, Error> {
    let found = table.get(&key)?;
    found
        .map(|value| crate::rows::open(&key, value.value()))
        .transpose()
}

/// The first rows of a range, checked.
pub fn rows<'k, R: Row>(
    table: &impl ReadableTable<R::Key, Bytes>,
    bounds: Bounds<KeyOf<'k, R>>,
    direction: Direction,
    limit: usize,
) -> Result<Vec<R>, Error> {
    collect(table, bounds, direction, limit, |key, value| {
        crate::rows::open(&key, value)
    })
}

/// Writes a row; answers whether it is new.
pub fn put<R: Row>(
    table: &mut Table<'_, R::Key, Bytes>,
    key: KeyOf<'_, R>,
    row: &R,
) -> Result<bool, Error> {
    let sealed = crate::rows::seal(&key, row);
    Ok(table.insert(&key, sealed.as_slice())?.is_none())
}

/// Writes a row that must be new.
pub fn insert<R: Row>(
    table: &mut Table<'_, R::Key, Bytes>,
    key: KeyOf<'_, R>,
    row: &R,
) -> Result<(), Error> {
    let sealed = crate::rows::seal(&key, row);
    if table.insert(&key, sealed.as_slice())?.is_none() {
        Ok(())
    } else {
        Err(crate::rows::exists::<R>(&key))
    }
}

/// Writes a row in the place of one that must be there.
pub fn replace<R: Row>(
    table: &mut Table<'_, R::Key, Bytes>,
    key: KeyOf<'_, R>,
    row: &R,
) -> Result<(), Error> {
    let sealed = crate::rows::seal(&key, row);
    if table.insert(&key, sealed.as_slice())?.is_some() {
        Ok(())
    } else {
        Err(crate::rows::missing::<R>(&key))
    }
}

/// Writes an entry that finds a row.
pub fn mark<K: Key + 'static>(
    table: &mut Table<'_, K, Bytes>,
    key: K::SelfType<'_>,
) -> Result<(), Error> {
    table.insert(&key, &[][..])?;
    Ok(())
}

/// Takes the rows of a table over. One of which fewer are found than redb has
/// counted is damaged, and no copy of it is a copy.
fn copy<K: Key + 'static>(
    name: &'static str,
    from: &impl ReadableTable<K, Bytes>,
    to: &mut Table<'_, K, Bytes>,
) -> Result<(), Error> {
    let mut found = 0_u64;
    visit(
        from,
        (Unbounded, Unbounded),
        Direction::Newer,
        |key, value| {
            to.insert(&key, value)?;
            found += 1;
            Ok(true)
        },
    )?;
    if (found, found) != (from.len()?, to.len()?) {
        let damage = format!("rows of {name} are missing, {found} were found");
        return Err(redb::StorageError::Corrupted(damage).into());
    }
    Ok(())
}

/// Removes every entry whose key begins with a number.
///
/// `retain_in` frees whole pages as it goes; `extract_from_if` would hand out
/// every row, and remove only those that are taken.
pub fn clear<K: Led + 'static>(table: &mut Table<'_, K, Bytes>, number: u64) -> Result<(), Error> {
    let bounds = led_by::<K>(number);
    Ok(table.retain_in::<K::SelfType<'_>, _>(bounds, |_, _| false)?)
}
