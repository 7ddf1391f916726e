//! The stable identity of a visible row.
//!
//! A key is `kind:scope:local`, with `~n` behind it for the second and later
//! incarnations of one identity. Scope and local part are escaped so that no
//! id can forge another key, and a long local part enters as its digest, so a
//! key is at most 192 bytes.

use crate::json::hex;
use crate::sha256;
use alloc::boxed::Box;
use alloc::string::String;

words! {
    /// The kinds of item.
    pub closed enum ItemKind {
        /// A message of the person, or of what stands for one.
        User = "user",
        /// A message put into a running turn.
        Steer = "steer",
        /// A message of the model.
        Assistant = "assistant",
        /// A tool call.
        Call = "call",
        /// The answer to a tool call.
        Result = "result",
        /// A decided permission.
        Permission = "permission",
        /// What one model call used.
        Usage = "usage",
        /// The end of a run.
        Turn = "turn",
        /// Anything shown as a note.
        Note = "note",
        /// A fact of a program's own vocabulary.
        Extension = "ext",
    }
}

/// The longest key without its incarnation.
const LONGEST: usize = 180;

/// The key of an identity's first incarnation. An empty scope gives
/// `user::<id>`.
///
/// ```
/// use folio_core::key::{base_key, incarnation, ItemKind};
///
/// let key = base_key(ItemKind::Call, "turn-1", "call/0");
/// assert_eq!(&*key, "call:turn-1:call%2F0");
/// assert_eq!(&*incarnation(&key, 2), "call:turn-1:call%2F0~2");
/// ```
pub fn base_key(kind: ItemKind, scope: &str, local: &str) -> Box<str> {
    let mut key = String::with_capacity(kind.as_str().len() + scope.len() + local.len() + 2);
    key.push_str(kind.as_str());
    key.push(':');
    escape(scope, &mut key);
    key.push(':');
    let prefix = key.len();
    escape(local, &mut key);
    if key.len() > LONGEST {
        key.truncate(prefix);
        key.push('#');
        for byte in sha256::digest(local.as_bytes()).into_iter().take(16) {
            key.push(hex(byte >> 4));
            key.push(hex(byte & 15));
        }
    }
    key.into_boxed_str()
}

/// The key of an incarnation, counted from 1.
pub fn incarnation(base: &str, n: u32) -> Box<str> {
    if n <= 1 {
        base.into()
    } else {
        alloc::format!("{base}~{n}").into_boxed_str()
    }
}

/// Takes a key apart into its identity and incarnation.
pub fn split(key: &str) -> (&str, u32) {
    match key.rsplit_once('~') {
        Some((base, n)) => (base, n.parse().unwrap_or(1)),
        None => (key, 1),
    }
}

/// The first 8 bytes of the key's SHA-256: how a cursor names an item.
pub fn key_hash(key: &str) -> [u8; 8] {
    let digest = sha256::digest(key.as_bytes());
    let mut out = [0; 8];
    out.copy_from_slice(&digest[..8]);
    out
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(hex(byte >> 4).to_ascii_uppercase());
            out.push(hex(byte & 15).to_ascii_uppercase());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_can_forge_another_key() {
        assert_eq!(
            &*base_key(ItemKind::User, "", "a:b~2%é"),
            "user::a%3Ab%7E2%25%C3%A9"
        );
        assert_eq!(split("user::a~2"), ("user::a", 2));
        assert_eq!(split("user::a%7E2"), ("user::a%7E2", 1));
    }

    #[test]
    fn a_long_id_enters_as_its_digest() {
        let long = "x".repeat(512);
        let turn = "t".repeat(128);
        let key = base_key(ItemKind::Permission, &turn, &long);
        assert_eq!(key.len(), "permission:".len() + 128 + 1 + 33);
        assert!(key.starts_with("permission:") && key.contains(":#"));
        let fits = "y".repeat(180 - "user::".len());
        assert_eq!(base_key(ItemKind::User, "", &fits).len(), 180);
        let over = "y".repeat(181 - "user::".len());
        assert_eq!(
            base_key(ItemKind::User, "", &over).len(),
            "user::#".len() + 32
        );
        assert_ne!(
            base_key(ItemKind::User, "", &long),
            base_key(ItemKind::User, "", &over)
        );
    }
}
