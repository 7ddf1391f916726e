//! The text form of a cursor: opaque, checked, at most 1 KiB.

use crate::MAX_CURSOR;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use folio_codec::{Reader, Writer};
use folio_core::cursor::{CURSOR_VERSION, FragmentPlace};
use folio_core::{
    COMPATIBILITY_EPOCH, Cursor, CursorError, Direction, Position, SessionId, Watermarks,
};
use xxhash_rust::xxh3::xxh3_64;

/// The text of a cursor.
pub fn encode_cursor(cursor: &Cursor) -> String {
    encode(cursor, CURSOR_VERSION, COMPATIBILITY_EPOCH)
}

fn encode(cursor: &Cursor, version: u8, epoch: u32) -> String {
    let mut out = Writer::default();
    out.byte(version);
    out.varint(u64::from(epoch));
    out.bytes(cursor.session.as_str().as_bytes());
    out.0.extend_from_slice(&cursor.incarnation.to_le_bytes());
    out.varint(u64::from(cursor.generation));
    out.varint(cursor.through.len() as u64);
    for (source, watermark) in &cursor.through {
        out.0.extend_from_slice(&source_id(source));
        out.varint(*watermark);
    }
    out.byte(
        u8::from(cursor.direction == Direction::Newer) | u8::from(cursor.fragment.is_some()) << 1,
    );
    out.varint(cursor.position.ordinal);
    out.byte(cursor.position.slot);
    out.0.extend_from_slice(&cursor.item);
    if let Some(place) = &cursor.fragment {
        out.varint(place.byte_offset);
        out.varint(place.total_bytes);
        out.varint(place.revision);
        out.0.extend_from_slice(&place.digest);
    }
    let check = xxh3_64(&out.0);
    out.0.extend_from_slice(&check.to_le_bytes());
    URL_SAFE_NO_PAD.encode(&out.0)
}

/// How a cursor names a source: names may be long, a cursor may not.
fn source_id(name: &str) -> [u8; 8] {
    xxh3_64(name.as_bytes()).to_le_bytes()
}

/// Reads the text of a cursor. `sources` are the names that watermarks may
/// have.
///
/// # Errors
/// [`CursorError`] where the text is damaged, or of another version or epoch.
pub fn decode_cursor(text: &str, sources: &[&str]) -> Result<Cursor, CursorError> {
    if text.len() > MAX_CURSOR {
        return Err(CursorError::Damaged);
    }
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| CursorError::Damaged)?;
    let (body, check) = bytes.split_last_chunk::<8>().ok_or(CursorError::Damaged)?;
    if xxh3_64(body) != u64::from_le_bytes(*check) {
        return Err(CursorError::Damaged);
    }
    let mut reader = Reader::new(body);
    // Version and epoch come first for ever, so that any build can name them.
    match reader.byte().ok_or(CursorError::Damaged)? {
        CURSOR_VERSION => {}
        found => return Err(CursorError::Version { found }),
    }
    match reader.varint32().ok_or(CursorError::Damaged)? {
        COMPATIBILITY_EPOCH => {}
        found => return Err(CursorError::Epoch { found }),
    }
    read(&mut reader, sources)
        .filter(|_| reader.is_empty())
        .ok_or(CursorError::Damaged)
}

fn read(reader: &mut Reader<'_>, sources: &[&str]) -> Option<Cursor> {
    let session = SessionId::new(reader.text()?).ok()?;
    let incarnation = u64::from_le_bytes(reader.take(8)?.try_into().ok()?);
    let generation = reader.varint32()?;
    let mut through = Watermarks::new();
    for _ in 0..reader.varint()? {
        let id = reader.take(8)?;
        let name = sources.iter().find(|name| source_id(name) == id)?;
        through.insert((*name).into(), reader.varint()?);
    }
    let flags = reader.byte()?;
    let direction = if flags & 1 == 0 {
        Direction::Older
    } else {
        Direction::Newer
    };
    let position = Position {
        ordinal: reader.varint()?,
        slot: reader.byte()?,
    };
    let item = reader.take(8)?.try_into().ok()?;
    let fragment = if flags & 2 == 0 {
        None
    } else {
        Some(FragmentPlace {
            byte_offset: reader.varint()?,
            total_bytes: reader.varint()?,
            revision: reader.varint()?,
            digest: reader.take(32)?.try_into().ok()?,
        })
    };
    Some(Cursor {
        session,
        incarnation,
        generation,
        through,
        direction,
        position,
        item,
        fragment,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor() -> Cursor {
        Cursor {
            session: SessionId::new("s".repeat(128)).unwrap(),
            incarnation: u64::MAX,
            generation: 3,
            through: Watermarks::from([("runtime".into(), 1 << 40)]),
            direction: Direction::Newer,
            position: Position {
                ordinal: 77,
                slot: 3,
            },
            item: [9; 8],
            fragment: Some(FragmentPlace {
                byte_offset: 5,
                total_bytes: 1 << 30,
                revision: 78,
                digest: [7; 32],
            }),
        }
    }

    #[test]
    fn text_comes_back_and_is_short() {
        let text = encode_cursor(&cursor());
        assert_eq!(decode_cursor(&text, &["runtime"]), Ok(cursor()));
        assert!(text.len() < MAX_CURSOR / 2);
        let plain = Cursor {
            fragment: None,
            ..cursor()
        };
        assert_eq!(
            decode_cursor(&encode_cursor(&plain), &["x", "runtime"]),
            Ok(plain)
        );
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let text = encode_cursor(&cursor());
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(
                decode_cursor(&changed, &["runtime"]),
                Err(CursorError::Damaged),
                "{at}"
            );
        }
        for cut in 0..text.len() {
            assert_eq!(
                decode_cursor(&text[..cut], &["runtime"]),
                Err(CursorError::Damaged)
            );
        }
        assert_eq!(
            decode_cursor(&"A".repeat(9_999), &[]),
            Err(CursorError::Damaged)
        );
    }

    #[test]
    fn another_version_or_epoch_is_named() {
        let text = encode(&cursor(), CURSOR_VERSION + 1, COMPATIBILITY_EPOCH);
        let found = CURSOR_VERSION + 1;
        assert_eq!(
            decode_cursor(&text, &["runtime"]),
            Err(CursorError::Version { found })
        );
        let text = encode(&cursor(), CURSOR_VERSION, COMPATIBILITY_EPOCH + 1);
        let found = COMPATIBILITY_EPOCH + 1;
        assert_eq!(
            decode_cursor(&text, &["runtime"]),
            Err(CursorError::Epoch { found })
        );
    }
}
