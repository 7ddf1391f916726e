//! Event digests and the chain over them.
//!
//! `event = SHA-256(lp("folio.event.1") ‖ lp(id) ‖ lp(ts) ‖ SHA-256(envelope)
//! ‖ SHA-256(body))` and `chain(n) = SHA-256(lp("folio.chain.1") ‖ chain(n-1)
//! ‖ ordinal ‖ event_seq ‖ event(n))`, where `lp(x)` is the length of x as a
//! little-endian u64 and then x. Envelope and body are digested apart, so that
//! who, when and what kind stay provable when a body is gone.

use folio_core::json::Object;
use folio_core::member::{LARGE, Piece, Spliced, StoredMembers};
use folio_core::{EventView, Spine, canonical};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// The chain before the first event.
pub const EMPTY_CHAIN: Digest = [0; 32];

/// SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// Feeds a length and the bytes.
fn update_lp(hasher: &mut Sha256, bytes: &[u8]) {
    hasher.update((bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// `lp(x)`: the length as a little-endian u64, then the bytes.
pub fn lp(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

/// The digest of an event.
pub fn event_digest(view: &EventView<'_>, spine: &Spine) -> Digest {
    let mut hasher = Sha256::new();
    update_lp(&mut hasher, b"folio.event.1");
    update_lp(&mut hasher, view.id.as_bytes());
    update_lp(&mut hasher, view.ts.as_bytes());
    hasher.update(object_digest(
        &canonical::envelope(view, spine),
        &["refs"],
        false,
        StoredMembers::default(),
    ));
    hasher.update(body_digest(view));
    hasher.finalize().into()
}

/// The digest of an event's body: of the whole one, also where it is gone.
pub fn body_digest(view: &EventView<'_>) -> Digest {
    view.withheld.map_or_else(
        || object_digest(view.body(), &["content", "actions"], true, view.stored),
        |whole| whole.body,
    )
}

/// The digest of a canonical object in which large values stand for
/// themselves by length and digest: the members of `inner` objects and, if
/// `own` says so, the object's other members. What is kept outside of the text
/// stands for itself in the same way, which makes no difference.
fn object_digest(text: &str, inner: &[&str], own: bool, stored: StoredMembers<'_>) -> Digest {
    if text.len() <= LARGE && stored.is_empty() {
        return sha256(text.as_bytes());
    }
    let mut hasher = Sha256::new();
    members(&mut hasher, text, |hasher, name, raw| {
        if inner.contains(&name) {
            members(hasher, raw, |hasher, member, raw| {
                match stored.named(name, member) {
                    Some(stored) => by_digest(hasher, stored.len, stored.sha256),
                    None => value(hasher, raw, true),
                }
            });
        } else {
            value(hasher, raw, own);
        }
    });
    hasher.finalize().into()
}

fn members(hasher: &mut Sha256, text: &str, mut each: impl FnMut(&mut Sha256, &str, &str)) {
    let Some(object) = Object::of(text) else {
        hasher.update(text);
        return;
    };
    hasher.update(b"{");
    let mut name_text = String::new();
    for (i, (name, raw)) in object.iter().enumerate() {
        if i > 0 {
            hasher.update(b",");
        }
        name_text.clear();
        folio_core::json::quote(name, &mut name_text);
        hasher.update(name_text.as_bytes());
        hasher.update(b":");
        each(hasher, name, raw);
    }
    hasher.update(b"}");
}

fn value(hasher: &mut Sha256, raw: &str, may_be_large: bool) {
    if may_be_large && raw.len() > LARGE {
        by_digest(hasher, raw.len() as u64, &sha256(raw.as_bytes()));
    } else {
        hasher.update(raw.as_bytes());
    }
}

/// Feeds what stands for a large value.
fn by_digest(hasher: &mut Sha256, len: u64, digest: &Digest) {
    hasher.update([0]);
    hasher.update(len.to_le_bytes());
    hasher.update(digest);
}

/// The digest of a text in which members that are kept outside stand for
/// themselves by length and digest; of a text without any, its SHA-256.
pub fn spliced_digest(text: Spliced<'_>) -> Digest {
    let mut hasher = Sha256::new();
    for piece in text.all() {
        match piece {
            Piece::Text(bytes) => hasher.update(bytes),
            Piece::Member(member, _) => by_digest(&mut hasher, member.len, &member.sha256),
        }
    }
    hasher.finalize().into()
}

/// The chain after an event. `event_seq` starts at 1 in each run.
pub fn chain_next(chain: &Digest, ordinal: u64, event_seq: u64, event: &Digest) -> Digest {
    let mut hasher = Sha256::new();
    update_lp(&mut hasher, b"folio.chain.1");
    hasher.update(chain);
    hasher.update(ordinal.to_le_bytes());
    hasher.update(event_seq.to_le_bytes());
    hasher.update(event);
    hasher.finalize().into()
}

/// The digest of a contribution's canonical fact.
pub fn fact_digest(fact: &str) -> Digest {
    let mut hasher = Sha256::new();
    update_lp(&mut hasher, b"folio.fact.1");
    update_lp(&mut hasher, fact.as_bytes());
    hasher.finalize().into()
}

/// A contribution log's chain after a fact.
pub fn facts_chain_next(chain: &Digest, seq: u64, fact: &Digest) -> Digest {
    let mut hasher = Sha256::new();
    update_lp(&mut hasher, b"folio.facts.1");
    hasher.update(chain);
    hasher.update(seq.to_le_bytes());
    hasher.update(fact);
    hasher.finalize().into()
}

/// The nonce of the k-th event that an importer makes from a record: 32
/// lower-case hexadecimal digits.
pub fn nonce(record: &[u8], k: u32) -> String {
    let mut hasher = Sha256::new();
    update_lp(&mut hasher, b"folio.nonce.1");
    update_lp(&mut hasher, record);
    hasher.update(k.to_le_bytes());
    let digest: Digest = hasher.finalize().into();
    digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
