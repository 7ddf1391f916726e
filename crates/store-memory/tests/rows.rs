//! The rows in memory are read as those of the engines that keep files.

use folio_store_memory::MemoryEngine;
use folio_testkit::engine::reads::check_everything;
use folio_testkit::engine::rows::{commit, everything, gone};
use folio_testkit::engine::{read, write};

#[test]
fn every_row_comes_back_and_goes_without_its_neighbours() {
    let engine = MemoryEngine::default();
    for n in 1..=3 {
        write(&engine, &everything(n)).unwrap();
    }
    for n in 1..=3 {
        check_everything(&engine, n);
    }
    write(&engine, &gone(2)).unwrap();
    check_everything(&engine, 1);
    check_everything(&engine, 3);
    read(&engine, |s| {
        assert_eq!(s.packs(2, 0, u64::MAX).unwrap(), []);
        assert_eq!(s.id_run(2, "c", u64::MAX).unwrap(), None);
        assert_eq!(s.journal().unwrap(), Some((1, 3)));
        assert_eq!(s.commits(1).unwrap(), [commit(2), commit(3)]);
    });
}
