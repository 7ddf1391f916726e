//! Cutting a row that is larger than a page.

use folio_core::Direction;
use std::ops::Range;

/// The bytes that the next fragment covers: behind `place` going newer, before
/// it going older; cut between characters, at most `max_bytes`.
pub(crate) fn cut(row: &str, direction: Direction, place: usize, max_bytes: usize) -> Range<usize> {
    match direction {
        Direction::Newer => {
            let mut end = place.saturating_add(max_bytes).min(row.len());
            while !row.is_char_boundary(end) {
                end -= 1;
            }
            place..end
        }
        Direction::Older => {
            let mut begin = place.saturating_sub(max_bytes);
            while !row.is_char_boundary(begin) {
                begin += 1;
            }
            begin..place
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_of_both_directions_tile_the_row() {
        let row = "aé😀日本".repeat(50);
        for max in [4, 5, 7, 64] {
            let mut newer = String::new();
            while newer.len() < row.len() {
                let range = cut(&row, Direction::Newer, newer.len(), max);
                assert!(!range.is_empty() && range.len() <= max);
                newer.push_str(&row[range]);
            }
            assert_eq!(newer, row);
            let mut place = row.len();
            let mut older = Vec::new();
            while place > 0 {
                let range = cut(&row, Direction::Older, place, max);
                assert!(!range.is_empty() && range.len() <= max);
                place = range.start;
                older.push(&row[range]);
            }
            older.reverse();
            assert_eq!(older.concat(), row);
        }
    }
}
