//! Integer keys that hold two or three numbers, so that rows stand in the
//! order in which they are read.
//!
//! Writing refuses a number that does not fit. Reading clamps: a bound beyond
//! the last possible key finds the same rows as that key, and never those of
//! the neighbour.

use crate::error::Error;
use folio_core::{Direction, Position};

/// The bits of an ordinal, or of a sequence.
pub const ORDINAL_BITS: u32 = 33;
/// The greatest ordinal and sequence.
pub const MAX_ORDINAL: u64 = (1 << ORDINAL_BITS) - 1;
/// The greatest number of a log, or of a contribution log.
pub const MAX_LOG: u64 = (1 << 30) - 1;
/// The bits of an ordinal and a slot.
const POSITION_BITS: u32 = ORDINAL_BITS + 3;
/// The greatest slot.
const MAX_SLOT: u8 = 7;
/// The greatest number of an index generation.
pub const MAX_INDEX: u64 = (1 << 27) - 1;

/// The bits of a piece's number in its blob.
const PIECE_BITS: u32 = 20;
/// The greatest number of a piece.
const MAX_PIECE: u32 = (1 << PIECE_BITS) - 1;
/// The greatest number of a blob.
pub const MAX_BLOB: u64 = (1 << (63 - PIECE_BITS)) - 1;

/// A number that is small enough for its column.
pub fn fits(what: &'static str, value: u64, most: u64) -> Result<i64, Error> {
    if value > most {
        return Err(Error::Limit { what, value, most });
    }
    Ok(value.cast_signed())
}

/// The same, but for reading: no row has a greater number than the greatest.
pub fn clamped(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The ranges of a column of signed numbers that hold the numbers from 0
/// through `n`, the greater ones first. The upper half of the numbers stands
/// below zero.
pub fn through(n: u64) -> impl Iterator<Item = (i64, i64)> {
    let signed = n.cast_signed();
    let upper = (signed < 0).then_some((i64::MIN, signed));
    upper.into_iter().chain([(0, clamped(n))])
}

/// The key of an event, of a segment by its first chunk, or of a fact.
pub fn event(log_no: u64, ordinal: u64) -> Result<i64, Error> {
    let log = fits("log number", log_no, MAX_LOG)?;
    Ok(log << ORDINAL_BITS | fits("ordinal", ordinal, MAX_ORDINAL)?)
}

/// The keys of events between two ordinals, both included.
pub fn events(log_no: u64, from: u64, to: u64) -> Option<(i64, i64)> {
    let to = to.min(MAX_ORDINAL);
    if from > to {
        return None;
    }
    Some((event(log_no, from).ok()?, event(log_no, to).ok()?))
}

/// The ordinal in an event's key.
pub fn ordinal_of(key: i64) -> u64 {
    key.cast_unsigned() & MAX_ORDINAL
}

/// The key of an item.
pub fn item(index_no: u64, position: Position) -> Result<i64, Error> {
    let index = fits("index number", index_no, MAX_INDEX)?;
    let ordinal = fits("ordinal", position.ordinal, MAX_ORDINAL)?;
    let slot = fits("slot", position.slot.into(), MAX_SLOT.into())?;
    Ok(index << POSITION_BITS | ordinal << 3 | slot)
}

/// The keys of all items of an index.
pub fn items(index_no: u64) -> Option<(i64, i64)> {
    let first = Position {
        ordinal: 0,
        slot: 0,
    };
    let last = Position {
        ordinal: MAX_ORDINAL,
        slot: MAX_SLOT,
    };
    Some((item(index_no, first).ok()?, item(index_no, last).ok()?))
}

/// The keys of the items from a position on, itself included.
pub fn items_from(index_no: u64, from: Position, direction: Direction) -> Option<(i64, i64)> {
    let (first, last) = items(index_no)?;
    let slot = from.slot.min(MAX_SLOT);
    let at = item(index_no, Position { slot, ..from }).ok();
    let (low, high) = match direction {
        // A slot beyond the last one stands behind all items of its event.
        Direction::Newer => (at? + i64::from(from.slot > MAX_SLOT), last),
        Direction::Older => (first, at.unwrap_or(last)),
    };
    (low <= high).then_some((low, high))
}

/// The position in an item's key.
pub fn position_of(key: i64) -> Position {
    let key = key.cast_unsigned();
    Position {
        ordinal: key >> 3 & MAX_ORDINAL,
        slot: (key & 7) as u8,
    }
}

/// The key of a piece of a blob.
pub fn piece(blob_no: u64, piece: u32) -> Result<i64, Error> {
    let blob = fits("blob number", blob_no, MAX_BLOB)?;
    let piece = fits("number of a piece", piece.into(), MAX_PIECE.into())?;
    Ok(blob << PIECE_BITS | piece)
}

/// The keys of all pieces of a blob.
pub fn pieces(blob_no: u64) -> Option<(i64, i64)> {
    Some((piece(blob_no, 0).ok()?, piece(blob_no, MAX_PIECE).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ordinal: u64, slot: u8) -> Position {
        Position { ordinal, slot }
    }

    #[test]
    fn keys_come_back_and_never_reach_a_neighbour() {
        let key = event(MAX_LOG, MAX_ORDINAL).unwrap();
        assert_eq!((key, ordinal_of(key)), (i64::MAX, MAX_ORDINAL));
        let key = item(MAX_INDEX, at(MAX_ORDINAL, 7)).unwrap();
        assert_eq!((key, position_of(key)), (i64::MAX, at(MAX_ORDINAL, 7)));

        let (low, high) = events(3, 0, u64::MAX).unwrap();
        assert_eq!(high + 1, event(4, 0).unwrap());
        assert_eq!(low - 1, event(2, MAX_ORDINAL).unwrap());
        assert_eq!(events(3, u64::MAX, u64::MAX), None);
        assert_eq!(events(u64::MAX, 1, 2), None);
        assert_eq!(items(3).unwrap().1 + 1, items(4).unwrap().0);

        assert_eq!(piece(MAX_BLOB, MAX_PIECE).unwrap(), i64::MAX);
        assert_eq!(pieces(3).unwrap().1 + 1, pieces(4).unwrap().0);
        assert_eq!(pieces(MAX_BLOB + 1), None);
    }

    #[test]
    fn bounds_beyond_the_last_key_are_clamped() {
        let all = items(3);
        assert_eq!(items_from(3, at(u64::MAX, 255), Direction::Older), all);
        assert_eq!(items_from(3, at(u64::MAX, 0), Direction::Newer), None);
        assert_eq!(items_from(3, at(MAX_ORDINAL, 8), Direction::Newer), None);
        assert_eq!(
            items_from(3, at(5, 9), Direction::Newer),
            items_from(3, at(6, 0), Direction::Newer)
        );
        assert_eq!(
            items_from(3, at(5, 9), Direction::Older),
            items_from(3, at(5, 7), Direction::Older)
        );
    }

    #[test]
    fn numbers_that_are_kept_as_signed_ones_are_found_in_their_order() {
        let ranges = |n| through(n).collect::<Vec<_>>();
        assert_eq!(ranges(0), [(0, 0)]);
        assert_eq!(ranges(u64::MAX >> 1), [(0, i64::MAX)]);
        assert_eq!(ranges(1 << 63), [(i64::MIN, i64::MIN), (0, i64::MAX)]);
        assert_eq!(ranges(u64::MAX), [(i64::MIN, -1), (0, i64::MAX)]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(event(MAX_LOG + 1, 1).is_err());
        assert!(event(1, MAX_ORDINAL + 1).is_err());
        assert!(item(MAX_INDEX + 1, at(1, 0)).is_err());
        assert!(item(1, at(1, 8)).is_err());
        assert!(piece(MAX_BLOB + 1, 0).is_err());
        assert!(piece(1, MAX_PIECE + 1).is_err());
    }
}
