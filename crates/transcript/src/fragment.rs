//! Cutting a row that is larger than a page.

use folio_core::Direction;
use std::ops::Range;

/// The bytes from which the next fragment is cut: behind `place` going newer,
/// before it going older, at most `max_bytes` of a row of `total`.
pub(crate) fn reach(total: u64, direction: Direction, place: u64, max_bytes: usize) -> Range<u64> {
    match direction {
        Direction::Newer => place..place.saturating_add(max_bytes as u64).min(total),
        Direction::Older => place.saturating_sub(max_bytes as u64)..place.min(total),
    }
}

/// What of those bytes is whole characters, cut at the end that leads on;
/// `None` where `place` is inside of a character.
pub(crate) fn cut(
    mut reached: Range<u64>,
    direction: Direction,
    mut bytes: Vec<u8>,
) -> Option<(Range<u64>, String)> {
    match direction {
        Direction::Newer => {
            let whole = match std::str::from_utf8(&bytes) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => bytes.len(),
            };
            reached.end -= (bytes.len() - whole) as u64;
            bytes.truncate(whole);
        }
        Direction::Older => {
            let is_inner = |byte: &&u8| **byte & 0xc0 == 0x80;
            let partial = bytes.iter().take(3).take_while(is_inner).count();
            reached.start += partial as u64;
            bytes.drain(..partial);
        }
    }
    Some((reached, String::from_utf8(bytes).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(row: &str, direction: Direction, place: usize, max: usize) -> Option<Range<usize>> {
        let reached = reach(row.len() as u64, direction, place as u64, max);
        let usize_of = |at: u64| usize::try_from(at).unwrap();
        let bytes = row.as_bytes()[usize_of(reached.start)..usize_of(reached.end)].to_vec();
        let (range, data) = cut(reached, direction, bytes)?;
        let range = usize_of(range.start)..usize_of(range.end);
        assert_eq!(row[range.clone()], data);
        Some(range)
    }

    #[test]
    fn fragments_of_both_directions_tile_the_row() {
        let row = "aé😀日本".repeat(50);
        for max in [4, 5, 7, 64] {
            let mut newer = String::new();
            while newer.len() < row.len() {
                let range = fragment(&row, Direction::Newer, newer.len(), max).unwrap();
                assert!(!range.is_empty() && range.len() <= max);
                newer.push_str(&row[range]);
            }
            assert_eq!(newer, row);
            let mut place = row.len();
            let mut older = Vec::new();
            while place > 0 {
                let range = fragment(&row, Direction::Older, place, max).unwrap();
                assert!(!range.is_empty() && range.len() <= max);
                place = range.start;
                older.push(&row[range]);
            }
            older.reverse();
            assert_eq!(older.concat(), row);
        }
    }

    #[test]
    fn a_place_inside_of_a_character_is_none() {
        let row = "aé😀日本".repeat(5);
        for place in (0..row.len()).filter(|at| !row.is_char_boundary(*at)) {
            for direction in [Direction::Newer, Direction::Older] {
                assert_eq!(fragment(&row, direction, place, 64), None, "{place}");
            }
        }
    }
}
