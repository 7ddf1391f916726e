//! What stands in for another row, and what goes with a damaged one.

use super::*;
use folio_testkit::engine::lost_after;
use folio_testkit::engine::removals::rows;

#[test]
fn a_redacted_note_has_the_id_of_the_one_whose_place_it_takes() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let other = Writes {
        redacted_facts: vec![(1, fact(3, 2, "b"))],
        ..Writes::default()
    };
    let error = write(&engine, &other).unwrap_err();
    assert_eq!(error.code(), "row_damaged", "{error}");
}

/// What an erasure removes after a statement was run behind the engine's back.
fn lost(damage: &str, erase: Erase) -> Vec<(String, u64)> {
    let damaged = |place: &Place, _: &_| place.raw().execute_batch(damage).unwrap();
    lost_after(damaged, vec![erase])
}

#[test]
fn ids_and_citations_go_also_where_the_event_is_gone() {
    for events in [
        vec![(2, Some(event(2).1)), (3, Some(event(3).1))],
        vec![(2, Some(event(2).1)), (3, None)],
        vec![(3, None), (2, None), (9, None)],
    ] {
        let erase = Erase::Events {
            log_no: 2,
            family: 2,
            events,
        };
        assert_eq!(
            lost("DELETE FROM events WHERE k = (2 << 33 | 3)", erase),
            rows(&[("citations", 1), ("event_ids", 2), ("events", 1)])
        );
    }
}

#[test]
fn a_damaged_item_goes_with_its_key() {
    for damage in [
        "UPDATE items SET sum = sum + 1 WHERE p BETWEEN (2 << 36 | 3 << 3) AND (3 << 36)",
        "UPDATE item_keys SET h = h + 1 WHERE p BETWEEN (2 << 36 | 3 << 3) AND (3 << 36)",
    ] {
        let erase = Erase::Items {
            index_no: 2,
            from: 3,
        };
        assert_eq!(
            lost(damage, erase),
            rows(&[("item_keys", 1), ("items", 1)]),
            "{damage}"
        );
    }
}
