//! Members that are kept outside of their events.
//!
//! Such a member is a blob that its event cites: its pieces, its checksums,
//! how it is shared, collected and copied are those of blobs. What is added
//! here is that it is what a member must be, which is looked at once, before
//! the append, and that a page reads the small ones along with their events.

use crate::blob;
use crate::engine::Snapshot;
use crate::packed::Pool;
use crate::port::BlobId;
use crate::{ErrorKind, StoreError};
use folio_codec::Digest;
use folio_core::item::Part;
use folio_core::member::{Loaded, MAX_INLINE, StoredMembers, StoredRef};
use folio_core::stream::JsonStream;
use folio_core::{CanonicalEvent, EventView, Field, ItemRef};

/// Bytes of a member that are looked at in one read.
const SLICE: usize = 1 << 20;

/// The blobs of an event's members.
pub(crate) fn blobs(event: &CanonicalEvent) -> impl Iterator<Item = BlobId> {
    let members = event.view().stored.iter();
    members.map(|(_, stored)| BlobId(*stored.sha256))
}

/// Checks the members that an event names, and fills in what they say of
/// themselves. `read` reads a part of a blob. Answers those that are not
/// stored: an event that is not present yet must not cite them.
pub(crate) fn check(
    event: &mut CanonicalEvent,
    mut read: impl FnMut(&BlobId, u64) -> Result<(u64, Vec<u8>), StoreError>,
) -> Result<Vec<BlobId>, StoreError> {
    if event.stored.is_empty() {
        return Ok(Vec::new());
    }
    if event.text.len() > MAX_INLINE {
        let message = format!(
            "event {} has {} bytes beside the members that are kept outside of it; {MAX_INLINE} \
             is the most",
            event.id,
            event.text.len()
        );
        return Err(StoreError::invalid("limit_exceeded", message));
    }
    let mut missing = Vec::new();
    let named: Vec<_> = event.view().stored.iter().map(owned).collect();
    for (field, mut stored) in named {
        let id = BlobId(stored.sha256);
        match kind(&id, stored.len, &mut read) {
            Ok(kind) => stored.kind = kind,
            Err(error) if error.code() == "blob_not_found" => {
                missing.push(id);
                continue;
            }
            Err(error) if error.code() == "member_invalid" => {
                let message = format!("event {}: {error}", event.id);
                return Err(StoreError::invalid("member_invalid", message));
            }
            Err(error) => return Err(error),
        }
        *event = event.clone().with_stored(field, &stored);
    }
    Ok(missing)
}

fn owned((field, stored): (Field, StoredRef<'_>)) -> (Field, folio_core::Stored) {
    (field, stored.to_stored())
}

/// What a member says its kind is, once all of it was found to be one.
fn kind(
    id: &BlobId,
    len: u64,
    read: &mut impl FnMut(&BlobId, u64) -> Result<(u64, Vec<u8>), StoreError>,
) -> Result<Option<Box<str>>, StoreError> {
    let wrong = |what: String| {
        let message = format!("blob {id} is not the text of a member: {what}");
        StoreError::invalid("member_invalid", message)
    };
    let mut json = JsonStream::default();
    let mut at = 0;
    loop {
        let (found, bytes) = read(id, at)?;
        if found != len {
            return Err(wrong(format!("it has {found} bytes, not {len}")));
        }
        json.feed(&bytes)
            .map_err(|error| wrong(error.to_string()))?;
        at += bytes.len() as u64;
        if at >= len || bytes.is_empty() {
            return json.finish().map_err(|error| wrong(error.to_string()));
        }
    }
}

/// Reads a part of a blob, with the length of the whole.
pub(crate) fn slice(
    snapshot: &dyn Snapshot,
    id: &BlobId,
    at: u64,
) -> Result<(u64, Vec<u8>), StoreError> {
    let len = blob::row(snapshot, id)?.len;
    Ok((len, blob::read(snapshot, id, at, SLICE)?))
}

/// Texts of members that were read along with their events.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// Ascending by ordinal.
    loaded: Vec<Loaded>,
    /// Events of whose members one is missing or damaged, ascending.
    unread: Vec<u64>,
}

impl Members {
    /// Reads the members of an item's finals that have at most so many bytes.
    pub(crate) fn load(
        &mut self,
        snapshot: &dyn Snapshot,
        item: &ItemRef<'_>,
        through: u64,
        pool: &Pool,
        max_bytes: usize,
    ) -> Result<(), StoreError> {
        for need in item.need {
            let is_shown = matches!(need.part, Part::Final | Part::Closer);
            if !is_shown || need.ordinal > through {
                continue;
            }
            let Some(view) = pool.with_members(need.ordinal) else {
                continue;
            };
            for (field, stored) in view.stored.iter() {
                if stored.len > max_bytes as u64 {
                    continue;
                }
                let (id, ordinal) = (BlobId(*stored.sha256), need.ordinal);
                let text = blob::read(snapshot, &id, 0, max_bytes).map(String::from_utf8);
                match text {
                    Ok(Ok(text)) if text.len() as u64 == stored.len => self.loaded.push(Loaded {
                        ordinal,
                        field,
                        text,
                    }),
                    Ok(_) => self.unread.push(ordinal),
                    Err(error)
                        if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) =>
                    {
                        self.unread.push(ordinal);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Puts what was read into order; answers its bytes.
    pub(crate) fn done(&mut self) -> u64 {
        self.loaded.sort_by_key(|loaded| loaded.ordinal);
        self.unread.sort_unstable();
        self.loaded
            .iter()
            .map(|loaded| loaded.text.len() as u64)
            .sum()
    }

    /// An event with what was read of its members.
    pub(crate) fn with<'a>(&'a self, ordinal: u64, mut view: EventView<'a>) -> EventView<'a> {
        if !view.stored.is_empty() {
            view.stored = view.stored.with(Loaded::of(&self.loaded, ordinal));
        }
        view
    }

    /// The texts and the unread events of an item's own.
    pub(crate) fn among(&self, ordinals: &[u64]) -> (Vec<Loaded>, Vec<u64>) {
        let loaded = ordinals
            .iter()
            .flat_map(|ordinal| Loaded::of(&self.loaded, *ordinal));
        let mut loaded: Vec<_> = loaded.cloned().collect();
        loaded.sort_by_key(|loaded| loaded.ordinal);
        (loaded, self.unread(ordinals))
    }

    /// The unread events among some.
    pub(crate) fn unread(&self, ordinals: &[u64]) -> Vec<u64> {
        let is_own = |ordinal: &&u64| ordinals.contains(*ordinal);
        self.unread.iter().filter(is_own).copied().collect()
    }
}

/// What is wrong with where the members of an event are kept: each must be
/// stored whole and cited, or the next scrub takes it.
pub(crate) fn finding(
    snapshot: &dyn Snapshot,
    stored: StoredMembers<'_>,
    cited: &[Digest],
) -> Result<Option<String>, StoreError> {
    for (_, member) in stored.iter() {
        let id = BlobId(*member.sha256);
        if !cited.contains(member.sha256) {
            return Ok(Some(format!("member {id} is not cited by its event")));
        }
        let len = snapshot.blob(member.sha256)?.map(|row| row.len);
        if let Some(len) = len.filter(|len| *len != member.len) {
            let message = format!("member {id} has {len} bytes, not {}", member.len);
            return Ok(Some(message));
        }
    }
    Ok(None)
}
