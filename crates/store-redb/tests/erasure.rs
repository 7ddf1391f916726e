//! No file holds what was erased: the cases of every engine, and reads that a
//! rewrite meets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_store::Store;
use folio_store::engine::Engine;
use folio_store_redb::{RedbConfig, RedbStore};
use folio_testkit::erasure::{Place, a_kill_in_the_midst_of_a_deletion, erase, scrub_and_check};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

folio_testkit::erasure_cases!(open);

fn open(path: &Path) -> Arc<dyn Store> {
    Arc::new(open_redb(path))
}

fn open_redb(path: &Path) -> RedbStore {
    folio_store_redb::open(&RedbConfig::new(path)).unwrap()
}

#[tokio::test]
async fn a_read_that_began_before_a_rewrite_ends_on_what_it_began_with() {
    let place = Place::with_history(open).await;
    let store = open_redb(&place.path());
    erase(&store).await;
    let engine = store.engine();
    engine
        .read(&mut |snapshot| {
            engine.rewrite()?;
            assert!(snapshot.session("other")?.is_some());
            engine.read(&mut |later| {
                assert!(later.session("other")?.is_some());
                Ok(())
            })
        })
        .unwrap();
    drop(store);
    scrub_and_check(&place).await;
}

#[tokio::test]
async fn a_kill_in_the_midst_of_a_deletion_leaves_all_of_a_session_or_nothing_to_find() {
    // Nobody else can open the file and look how far it is.
    let moments = [0, 1, 5, 20, 60, 200].map(Duration::from_millis);
    let wait = |_: &Place, moment| std::thread::sleep(moment);
    a_kill_in_the_midst_of_a_deletion(open, moments, wait).await;
}
