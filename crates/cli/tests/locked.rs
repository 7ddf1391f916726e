//! A redb store has one process at a time, and says so to the others.

mod support;

use support::{Place, generated, json_lines};

const ID: &str = "0a0b0c0d-0000-4000-8000-000000000001";

#[test]
fn a_redb_store_that_is_in_use_says_so() {
    let place = Place::of("redb");
    let file = place.write("session.jsonl", generated(ID, 10, 100));
    place.ok(&["import", file.to_str().expect("a path in UTF-8")]);
    let config = folio_store_redb::RedbConfig::new(place.store());
    let held = folio_store_redb::open(&config).expect("the store");
    for args in [&["sessions"][..], &["maintain"], &["delete", ID, "--yes"]] {
        let ran = place.run(&[&["--json"], args].concat());
        assert_eq!(ran.code, Some(6), "{}{}", ran.stdout, ran.stderr);
        let error = &json_lines(&ran.stderr)[0]["error"];
        assert_eq!(error["code"], "store_locked");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("one at a time"), "{message}");
    }
    drop(held);
    place.ok(&["sessions"]);
}
