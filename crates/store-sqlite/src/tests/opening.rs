//! What is opened, what is refused, and that nothing is touched then.

use super::*;
use folio_store::ErrorKind;
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

fn refused(place: &Place, config: &SqliteConfig, kind: ErrorKind, code: &str) {
    let before = files(place.dir.path());
    let error = SqliteEngine::open(config).unwrap_err();
    assert_eq!((error.kind(), error.code()), (kind, code), "{error}");
    assert!(error.to_string().contains("a store?.folio"), "{error}");
    assert!(
        files(place.dir.path()) == before,
        "{code}: files have changed"
    );
}

#[test]
fn a_new_file_an_empty_one_and_an_interrupted_start_become_stores() {
    let place = Place::new();
    drop(place.open());
    fs::write(&place.path, "").unwrap();
    drop(place.open());
    fs::remove_file(&place.path).unwrap();
    let raw = place.raw();
    let mode: String = raw
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    drop(raw);
    drop(place.open());
    drop(SqliteEngine::open(&place.config().existing()).unwrap());
}

#[test]
fn an_opened_store_is_not_written() {
    let place = Place::new();
    write(&place.open(), &everything(1)).unwrap();
    let database = || fs::read(&place.path).unwrap();
    let before = database();
    drop(place.open());
    assert!(database() == before);
    let left: Vec<_> = files(place.dir.path()).into_keys().collect();
    let named = |suffix| crate::lock::beside(&place.path, suffix);
    let lasting = [named(""), named("-lock"), named("-turn")];
    assert_eq!(left, lasting, "the log goes with the last handle");
}

#[test]
fn the_file_is_set_up_as_promised() {
    let place = Place::new();
    let engine = place.open();
    let pragma = |name: &str| engine.pragma(name);
    assert_eq!(pragma("journal_mode"), "wal");
    for (name, value) in [
        ("page_size", "4096"),
        ("synchronous", "2"),
        ("secure_delete", "1"),
        ("temp_store", "2"),
        ("cell_size_check", "1"),
        ("trusted_schema", "0"),
        ("mmap_size", "0"),
        ("foreign_keys", "0"),
        ("wal_autocheckpoint", "4000"),
        ("application_id", "1181707369"),
        ("user_version", "1"),
    ] {
        assert_eq!(pragma(name), value, "{name}");
    }
}

#[test]
fn a_missing_store_is_missing() {
    let place = Place::new();
    let code = "store_missing";
    refused(
        &place,
        &place.config().existing(),
        ErrorKind::NotFound,
        code,
    );
    refused(
        &place,
        &place.config().read_only(),
        ErrorKind::NotFound,
        code,
    );
    fs::write(&place.path, "").unwrap();
    refused(
        &place,
        &place.config().existing(),
        ErrorKind::NotFound,
        code,
    );
    refused(
        &place,
        &place.config().read_only(),
        ErrorKind::NotFound,
        code,
    );
    let mut config = place.config();
    config.path = place.dir.path().join("nowhere/a store?.folio");
    refused(&place, &config, ErrorKind::NotFound, code);
}

#[test]
fn a_directory_is_refused() {
    let place = Place::new();
    fs::create_dir(&place.path).unwrap();
    let code = "store_is_directory";
    refused(&place, &place.config(), ErrorKind::Invalid, code);
    refused(
        &place,
        &place.config().read_only(),
        ErrorKind::Invalid,
        code,
    );
}

#[cfg(unix)]
#[test]
fn a_store_with_two_names_is_not_written() {
    let place = Place::new();
    drop(place.open());
    let other = place.dir.path().join("another name");
    fs::hard_link(&place.path, &other).unwrap();
    refused(&place, &place.config(), ErrorKind::Invalid, "store_linked");
    drop(SqliteEngine::open(&place.config().read_only()).unwrap());
    fs::remove_file(other).unwrap();
    drop(place.open());
}

#[test]
fn other_files_are_refused() {
    let place = Place::new();
    let code = "store_not_a_store";
    for text in ["x", "# A text\n", &"SQLite format 3\0, or not ".repeat(400)] {
        fs::write(&place.path, text).unwrap();
        refused(&place, &place.config(), ErrorKind::Invalid, code);
        refused(
            &place,
            &place.config().read_only(),
            ErrorKind::Invalid,
            code,
        );
    }
}

#[test]
fn other_databases_are_refused() {
    for sql in [
        "CREATE TABLE t (x)",
        "PRAGMA journal_mode = WAL; CREATE TABLE t (x)",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 7",
        "PRAGMA application_id = 7; CREATE TABLE t (x)",
    ] {
        let place = Place::new();
        place.raw().execute_batch(sql).unwrap();
        let code = "store_not_a_store";
        refused(&place, &place.config(), ErrorKind::Invalid, code);
        refused(
            &place,
            &place.config().read_only(),
            ErrorKind::Invalid,
            code,
        );
    }
}

#[test]
fn a_wal_that_another_program_left_is_left_alone() {
    let other = Place::new();
    let raw = other.raw();
    raw.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
        .unwrap();
    // As after a crash: the database is empty but for what stands in its WAL.
    let place = Place::new();
    let wal = place.dir.path().join("a store?.folio-wal");
    fs::copy(&other.path, &place.path).unwrap();
    fs::copy(other.dir.path().join("a store?.folio-wal"), &wal).unwrap();
    let before = [&place.path, &wal].map(|path| fs::read(path).unwrap());
    let error = SqliteEngine::open(&place.config()).unwrap_err();
    assert_eq!(error.code(), "store_not_a_store");
    let after = [&place.path, &wal].map(|path| fs::read(path).unwrap());
    assert!(after == before);
}

#[test]
fn a_store_whose_writer_was_killed_keeps_what_was_committed() {
    let other = Place::new();
    let engine = other.open();
    write(&engine, &everything(1)).unwrap();
    let place = Place::new();
    let wal = "a store?.folio-wal";
    fs::copy(&other.path, &place.path).unwrap();
    fs::copy(other.dir.path().join(wal), place.dir.path().join(wal)).unwrap();
    for config in [place.config().read_only(), place.config()] {
        let engine = SqliteEngine::open(&config).unwrap();
        assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
    }
}

#[test]
fn a_newer_store_is_refused() {
    for sql in [
        "PRAGMA user_version = 2",
        "UPDATE meta SET value = x'02000000' WHERE key = 'format'",
    ] {
        let place = Place::new();
        drop(place.open());
        place.raw().execute_batch(sql).unwrap();
        let code = "store_newer_schema";
        refused(&place, &place.config(), ErrorKind::Unsupported, code);
        let error = SqliteEngine::open(&place.config().read_only()).unwrap_err();
        assert_eq!(error.code(), code);
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
    refused(
        &place,
        &place.config(),
        ErrorKind::Unavailable,
        "store_read_only",
    );
    let engine = SqliteEngine::open(&place.config().read_only()).unwrap();
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
    let error = write(&engine, &everything(2)).unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, "store_read_only")
    );
    fs::set_permissions(&place.path, writable).unwrap();
}

#[cfg(unix)]
#[test]
fn a_store_in_a_read_only_directory_is_only_read() {
    let place = Place::new();
    write(&place.open(), &everything(1)).unwrap();
    let dir = place.dir.path();
    let writable = fs::metadata(dir).unwrap().permissions();
    let mut read_only = writable.clone();
    read_only.set_readonly(true);
    fs::set_permissions(dir, read_only).unwrap();
    refused(
        &place,
        &place.config(),
        ErrorKind::Unavailable,
        "store_read_only",
    );
    let before = files(dir);
    let engine = SqliteEngine::open(&place.config().read_only()).unwrap();
    assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 1);
    engine.check().unwrap();
    drop(engine);
    assert!(files(dir) == before);
    fs::set_permissions(dir, writable).unwrap();
}

#[test]
fn a_reader_follows_a_living_writer() {
    let place = Place::new();
    let writer = place.open();
    let reader = SqliteEngine::open(&place.config().read_only()).unwrap();
    for n in 1..=3 {
        write(&writer, &everything(n)).unwrap();
        assert_eq!(
            read(&reader, |s| s.sessions(None, 9).unwrap().len() as u64),
            n
        );
    }
}

#[test]
fn a_held_file_is_locked() {
    let place = Place::new();
    drop(place.open());
    let raw = place.raw();
    raw.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")
        .unwrap();
    refused(
        &place,
        &place.config(),
        ErrorKind::Unavailable,
        "store_locked",
    );
    drop(raw);
    drop(place.open());
}

#[test]
fn openers_that_race_make_one_store() {
    for _ in 0..10 {
        let place = Place::new();
        let mut config = place.config();
        config.busy_timeout = Duration::from_secs(20);
        std::thread::scope(|scope| {
            let openers: Vec<_> = (1..=6)
                .map(|n| {
                    let config = &config;
                    scope.spawn(move || {
                        let engine = SqliteEngine::open(config).unwrap();
                        write(&engine, &everything(n)).unwrap();
                    })
                })
                .collect();
            for opener in openers {
                opener.join().unwrap();
            }
        });
        let engine = place.open();
        assert_eq!(read(&engine, |s| s.sessions(None, 9).unwrap().len()), 6);
        engine.check().unwrap();
    }
}
