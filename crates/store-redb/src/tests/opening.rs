//! What is opened, what is refused, and that nothing is touched then.

use super::*;
use crate::rows::Meta;
use crate::tables::{definition, put};
use folio_store::ErrorKind;
use redb::{MultimapTableDefinition, ReadableDatabase, TableDefinition};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Every file of a directory and its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap();
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap_or_default();
            (path, bytes)
        })
        .collect()
}

fn refused(place: &Place, config: &RedbConfig, kind: ErrorKind, code: &str) {
    let before = files(place.dir.path());
    let error = RedbEngine::open(config).unwrap_err();
    assert_eq!((error.kind(), error.code()), (kind, code), "{error}");
    assert!(error.to_string().contains("a store?.folio"), "{error}");
    assert!(
        files(place.dir.path()) == before,
        "{code}: files have changed"
    );
}

/// Refused for writing and for reading.
fn refused_at_all(place: &Place, kind: ErrorKind, code: &str) {
    refused(place, &place.config(), kind, code);
    refused(place, &place.config().read_only(), kind, code);
}

#[test]
fn a_new_file_an_empty_one_and_an_interrupted_start_become_stores() {
    let place = Place::new();
    write(&place.open(), &everything(1)).unwrap();
    assert_eq!(files(place.dir.path()).len(), 1, "no draft stays");
    fs::write(&place.path, "").unwrap();
    write(&place.open(), &everything(1)).unwrap();
    // As after a start that made the database and no table.
    fs::remove_file(&place.path).unwrap();
    drop(place.raw());
    refused(
        &place,
        &place.config().existing(),
        ErrorKind::NotFound,
        "store_missing",
    );
    write(&place.open(), &everything(1)).unwrap();
    drop(RedbEngine::open(&place.config().existing()).unwrap());
}

#[test]
fn a_missing_store_is_missing() {
    let place = Place::new();
    let code = "store_missing";
    for _ in 0..2 {
        for config in [place.config().existing(), place.config().read_only()] {
            refused(&place, &config, ErrorKind::NotFound, code);
        }
        fs::write(&place.path, "").unwrap();
    }
    let mut config = place.config();
    config.path = place.dir.path().join("nowhere/a store?.folio");
    refused(&place, &config, ErrorKind::NotFound, code);
}

#[test]
fn a_directory_is_refused() {
    let place = Place::new();
    fs::create_dir(&place.path).unwrap();
    refused_at_all(&place, ErrorKind::Invalid, "store_is_directory");
}

#[test]
fn what_cannot_be_reached_is_refused() {
    let place = Place::new();
    fs::write(place.dir.path().join("file"), "text").unwrap();
    let mut config = place.config();
    config.path = place.dir.path().join("file/a store?.folio");
    let code = "store_unreachable";
    refused(&place, &config, ErrorKind::Unavailable, code);
    refused(&place, &config.read_only(), ErrorKind::Unavailable, code);
}

#[test]
fn other_files_are_refused() {
    let place = Place::new();
    let sqlite = "SQLite format 3\0, or not ".repeat(400);
    for bytes in [
        &b"x"[..],
        b"# A text\n",
        sqlite.as_bytes(),
        &[0; 80_000],
        b"redb\x1a\x0a",
        b"redb and other databases",
    ] {
        fs::write(&place.path, bytes).unwrap();
        refused_at_all(&place, ErrorKind::Invalid, "store_not_a_store");
    }
}

#[test]
fn a_head_without_a_database_is_damaged() {
    let place = Place::new();
    for tail in [0, 1, 100, 80_000] {
        let mut bytes = b"redb\x1a\x0a\xa9\x0d\x0a".to_vec();
        bytes.resize(9 + tail, 0);
        fs::write(&place.path, bytes).unwrap();
        refused_at_all(&place, ErrorKind::Corrupt, "database_damaged");
    }
}

#[test]
fn other_databases_are_refused() {
    type Make = fn(&redb::WriteTransaction);
    let makers: [Make; 5] = [
        |txn| {
            let table = TableDefinition::<u64, u64>::new("things");
            txn.open_table(table).unwrap().insert(1, 2).unwrap();
        },
        |txn| {
            let table = MultimapTableDefinition::<u64, u64>::new("things");
            drop(txn.open_multimap_table(table).unwrap());
        },
        |txn| {
            let table = MultimapTableDefinition::<&str, &[u8]>::new("meta");
            drop(txn.open_multimap_table(table).unwrap());
        },
        |txn| {
            let table = TableDefinition::<&str, u64>::new("meta");
            txn.open_table(table).unwrap().insert("x", 2).unwrap();
        },
        |txn| {
            let mut meta = txn.open_table(definition::meta).unwrap();
            meta.insert("application", &b"Other"[..]).unwrap();
        },
    ];
    for make in makers {
        let place = Place::new();
        let raw = place.raw();
        let txn = raw.begin_write().unwrap();
        make(&txn);
        txn.commit().unwrap();
        drop(raw);
        refused_at_all(&place, ErrorKind::Invalid, "store_not_a_store");
    }
}

#[test]
fn anothers_database_that_needs_a_repair_is_not_repaired() {
    let other = Place::new();
    let raw = other.raw();
    let txn = raw.begin_write().unwrap();
    let table = TableDefinition::<u64, u64>::new("things");
    txn.open_table(table).unwrap().insert(1, 2).unwrap();
    txn.commit().unwrap();
    // As after a crash.
    let place = Place::new();
    fs::copy(&other.path, &place.path).unwrap();
    assert!(redb::ReadOnlyDatabase::open(&place.path).is_err());
    refused_at_all(&place, ErrorKind::Invalid, "store_not_a_store");
}

fn with_meta(name: &str, value: &[u8]) -> Place {
    let place = Place::new();
    drop(place.open());
    let raw = place.raw();
    let txn = raw.begin_write().unwrap();
    let mut meta = txn.open_table(definition::meta).unwrap();
    put(&mut meta, name, &Meta(value.to_vec())).unwrap();
    drop(meta);
    txn.commit().unwrap();
    place
}

#[test]
fn a_newer_store_is_refused() {
    for name in ["schema", "format"] {
        let place = with_meta(name, &2_u32.to_le_bytes());
        refused_at_all(&place, ErrorKind::Unsupported, "store_newer_schema");
    }
}

#[test]
fn a_store_of_no_version_is_damaged() {
    for value in [&[][..], &[0; 4], &[1, 0, 0, 0, 0]] {
        let place = with_meta("schema", value);
        let error = RedbEngine::open(&place.config()).unwrap_err();
        assert_eq!(error.code(), "row_damaged");
        assert!(error.to_string().starts_with("meta, schema"), "{error}");
    }
}

#[test]
fn a_read_only_file_is_only_read() {
    let place = Place::new();
    write(&place.open(), &everything(1)).unwrap();
    let writable = fs::metadata(&place.path).unwrap().permissions();
    let mut read_only = writable.clone();
    read_only.set_readonly(true);
    fs::set_permissions(&place.path, read_only).unwrap();
    let code = "store_read_only";
    refused(&place, &place.config(), ErrorKind::Unavailable, code);
    let before = files(place.dir.path());
    let engine = RedbEngine::open(&place.config().read_only()).unwrap();
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
    let error = write(&engine, &everything(2)).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, code));
    engine.check().unwrap();
    drop(engine);
    assert!(files(place.dir.path()) == before);
    fs::set_permissions(&place.path, writable).unwrap();
}

#[cfg(unix)]
#[test]
fn no_store_is_made_in_a_read_only_directory() {
    let place = Place::new();
    let dir = place.dir.path();
    let writable = fs::metadata(dir).unwrap().permissions();
    let mut read_only = writable.clone();
    read_only.set_readonly(true);
    fs::set_permissions(dir, read_only).unwrap();
    let code = "store_read_only";
    let error = RedbEngine::open(&place.config()).unwrap_err();
    fs::set_permissions(dir, writable).unwrap();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, code));
    assert!(files(dir).is_empty());
}

#[test]
fn one_handle_holds_the_file() {
    let place = Place::new();
    let first = place.open();
    let code = "store_locked";
    for config in [
        place.config(),
        place.config().existing(),
        place.config().read_only(),
    ] {
        let error = RedbEngine::open(&config).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, code));
        assert!(error.to_string().contains("close that one"), "{error}");
    }
    write(&first, &everything(1)).unwrap();
    drop(first);
    drop(place.open());
}

#[test]
fn readers_share_the_file_and_keep_a_writer_out() {
    let place = Place::new();
    write(&place.open(), &everything(1)).unwrap();
    let before = files(place.dir.path());
    let readers = [0; 2].map(|_| RedbEngine::open(&place.config().read_only()).unwrap());
    let code = "store_locked";
    refused(&place, &place.config(), ErrorKind::Unavailable, code);
    for reader in &readers {
        assert_eq!(read(reader, |s| s.sessions(None, 9).unwrap().len()), 1);
    }
    drop(readers);
    assert!(files(place.dir.path()) == before);
    write(&place.open(), &everything(2)).unwrap();
}

#[test]
fn a_store_whose_writer_was_killed_keeps_what_was_committed() {
    let other = Place::new();
    let engine = other.open();
    write(&engine, &everything(1)).unwrap();
    let place = Place::new();
    fs::copy(&other.path, &place.path).unwrap();
    let before = files(place.dir.path());
    let reader = RedbEngine::open(&place.config().read_only()).unwrap();
    assert_eq!(read(&reader, |s| s.sessions(None, 9).unwrap().len()), 1);
    drop(reader);
    assert!(files(place.dir.path()) == before);
    let engine = place.open();
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
    engine.check().unwrap();
}

#[test]
fn openers_that_race_make_one_store() {
    for _ in 0..10 {
        let place = Place::new();
        std::thread::scope(|scope| {
            for n in 1..=4 {
                let config = place.config();
                scope.spawn(move || {
                    loop {
                        match RedbEngine::open(&config) {
                            Ok(engine) => return write(&engine, &everything(n)).unwrap(),
                            Err(error) => assert_eq!(error.code(), "store_locked"),
                        }
                        std::thread::yield_now();
                    }
                });
            }
        });
        let engine = place.open();
        assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 4);
        engine.check().unwrap();
        assert_eq!(files(place.dir.path()).len(), 1);
    }
}

#[test]
fn the_cache_is_as_large_as_it_was_told() {
    let place = Place::new();
    let mut config = place.config();
    config.cache_bytes = 256 << 10;
    let engine = RedbEngine::open(&config).unwrap();
    for n in 1..=20 {
        let mut all = everything(n);
        all.events[0].0.body = vec![1; 100 << 10];
        write(&engine, &all).unwrap();
    }
    read(&engine, |s| {
        for n in 1..=20 {
            assert_eq!(s.events(n, 1, 3, 9, 1 << 20).unwrap().len(), 3);
        }
    });
    let used = engine.raw().cache_stats().used_bytes();
    assert!(used <= 512 << 10, "{used} bytes are cached");
}
