//! No file holds what was erased: the cases of every engine, and who else has
//! the file open meanwhile.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_store::Store;
use folio_store_sqlite::SqliteConfig;
use folio_testkit::erasure::{
    ERASURES, LONG, Place, a_kill_in_the_midst_of_a_deletion, erase, scrub_and_check,
};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

folio_testkit::erasure_cases!(open);

fn open(path: &Path) -> Arc<dyn Store> {
    Arc::new(folio_store_sqlite::open(&SqliteConfig::new(path)).unwrap())
}

#[tokio::test]
async fn a_reader_holds_a_scrub_up_and_the_next_one_completes_it() {
    let place = Place::with_history(open).await;
    let store = place.open();
    erase(&*store).await;
    let reader = Connection::open(place.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    let error = store.scrub().await.unwrap_err();
    assert_eq!(error.code(), "store_busy");
    // What it collected before it came to the files is an erasure as well.
    assert!(store.pending_erasures().await.unwrap() > ERASURES);
    drop(reader);
    scrub_and_check(&place).await;
}

#[tokio::test]
async fn a_kill_in_the_midst_of_a_deletion_leaves_all_of_a_session_or_nothing_to_find() {
    let moments = [0, 1, 1_001, 2_001, 3_001];
    let was_there = a_kill_in_the_midst_of_a_deletion(open, moments, |place, removed| {
        let watch = Connection::open(place.path()).unwrap();
        let left = || -> u64 {
            let sql = "SELECT head FROM logs WHERE log_no = 1";
            let head: i64 = watch.query_row(sql, [], |row| row.get(0)).unwrap();
            head.cast_unsigned()
        };
        while left() > LONG - removed {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    // It is out of sight before its first event goes.
    assert_eq!(was_there.await[1..], [false; 4]);
}
