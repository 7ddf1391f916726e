//! Waiting for other writers, whoever they are.

use super::*;
use crate::lock::{WriterLock, beside};
use folio_store::ErrorKind;
use std::time::Instant;

fn count(engine: &SqliteEngine) -> usize {
    read(engine, |s| s.sessions(None, 9).unwrap().len())
}

#[test]
fn a_writer_that_waits_too_long_is_told_for_whom() {
    let place = Place::new();
    let engine = place.open();
    let lock = WriterLock::open(&place.path, Duration::ZERO).unwrap();
    let held = lock.acquire().unwrap();
    let start = Instant::now();
    let error = write(&engine, &everything(1)).unwrap_err();
    assert!(start.elapsed() >= place.config().busy_timeout);
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, "store_busy")
    );
    let opening = SqliteEngine::open(&place.config()).unwrap_err();
    assert_eq!(
        (opening.kind(), opening.code()),
        (ErrorKind::Unavailable, "store_locked")
    );
    // Windows lets nobody read a locked file.
    if cfg!(unix) {
        for error in [error, opening] {
            let text = error.to_string();
            assert!(
                text.contains("(another handle of this process, for "),
                "{text}"
            );
        }
    }
    // Who only reads waits for nobody.
    let reader = SqliteEngine::open(&place.config().read_only()).unwrap();
    assert_eq!(count(&reader), 0);
    drop(held);
    write(&engine, &everything(1)).unwrap();
    assert_eq!(count(&reader), 1);
}

#[test]
fn another_process_is_named() {
    let place = Place::new();
    let engine = place.open();
    let lock = WriterLock::open(&place.path, Duration::ZERO).unwrap();
    let held = lock.acquire().unwrap();
    for (name, expected) in [
        ("         7                    1\n", "(process 7, for "),
        ("what is this", "writing; nothing was written"),
    ] {
        std::fs::write(beside(&place.path, "-lock"), name).unwrap();
        let text = write(&engine, &everything(1)).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    drop(held);
    write(&engine, &everything(1)).unwrap();
}

#[test]
fn whoever_is_next_cannot_be_overtaken() {
    let place = Place::new();
    drop(place.open());
    let open = |timeout| WriterLock::open(&place.path, timeout).unwrap();
    let (first, second) = (open(Duration::ZERO), open(Duration::from_secs(60)));
    let held = first.acquire().unwrap();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let next = scope.spawn(move || {
            let _held = second.acquire().unwrap();
            wait.recv().unwrap_err();
        });
        // Until the other stands in the queue.
        while !next.is_finished() && open(Duration::ZERO).turn_is_free() {
            std::thread::yield_now();
        }
        drop(held);
        // The writer that has just written comes back at once, and has to wait.
        assert!(first.acquire().is_err());
        drop(done);
        next.join().unwrap();
        first.acquire().unwrap();
    });
}

#[cfg(unix)]
#[test]
fn a_store_has_one_queue_by_whatever_path() {
    let place = Place::new();
    let engine = place.open();
    let link = place.dir.path().join("link");
    std::os::unix::fs::symlink(&place.path, &link).unwrap();
    let mut config = place.config();
    config.path = link;
    let linked = SqliteEngine::open(&config).unwrap();
    assert!(linked.is_alive(engine.owner().unwrap()).unwrap());
    let lock = WriterLock::open(&place.path, Duration::ZERO).unwrap();
    let held = lock.acquire().unwrap();
    let error = write(&linked, &everything(1)).unwrap_err();
    assert_eq!(error.code(), "store_busy");
    drop(held);
    write(&linked, &everything(1)).unwrap();
    assert_eq!(count(&engine), 1);
}

#[test]
fn a_wait_without_end_can_be_asked_for() {
    let place = Place::new();
    let mut config = place.config();
    config.busy_timeout = Duration::MAX;
    let engine = SqliteEngine::open(&config).unwrap();
    write(&engine, &everything(1)).unwrap();
}

#[test]
fn a_disk_that_is_full_for_one_is_not_for_the_other() {
    let place = Place::new();
    let (full, other) = (place.open(), place.open());
    write(&full, &everything(1)).unwrap();
    full.limit_pages(60);
    let mut large = everything(2);
    large.events[0].0.body = vec![1; 1 << 20];
    for _ in 0..2 {
        let error = write(&full, &large).unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, "storage_full")
        );
    }
    write(&other, &everything(3)).unwrap();
    full.limit_pages(10_000);
    write(&full, &large).unwrap();
    assert_eq!((count(&full), count(&other)), (3, 3));
    other.check().unwrap();
}

#[test]
fn a_log_that_readers_kept_from_starting_over_is_cut() {
    let place = Place::new();
    let engine = place.open();
    let wal = beside(&place.path, "-wal");
    let length = || std::fs::metadata(&wal).unwrap().len();
    let mut n = 0;
    let mut fill = |mebibytes: u64| {
        for _ in 0..mebibytes {
            n += 1;
            let mut all = everything(1);
            all.contributions.clear();
            all.events = vec![event(n)];
            all.events[0].0.body = vec![1; 1 << 20];
            write(&engine, &all).unwrap();
        }
    };
    fill(1);
    let reader = place.raw();
    reader.execute_batch("BEGIN; SELECT 1 FROM meta").unwrap();
    fill(40);
    assert!(length() > 40 << 20, "a reader needs all of it");
    reader.execute_batch("COMMIT").unwrap();
    std::thread::sleep(Duration::from_millis(2_100));
    fill(1);
    assert_eq!(length(), 0);
    fill(1);
    assert_ne!(length(), 0);
}

#[test]
fn a_lock_file_that_is_none_is_named() {
    let place = Place::new();
    write(&place.open(), &everything(1)).unwrap();
    let path = beside(&place.path, "-lock");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = SqliteEngine::open(&place.config()).unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, "lock_failed")
    );
    assert!(error.to_string().contains("-lock"), "{error}");
    let reader = SqliteEngine::open(&place.config().read_only()).unwrap();
    assert_eq!(count(&reader), 1);
}

#[cfg(unix)]
#[test]
fn whoever_may_write_the_database_may_lock() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    std::fs::write(&place.path, "").unwrap();
    std::fs::set_permissions(&place.path, PermissionsExt::from_mode(0o660)).unwrap();
    drop(place.open());
    for suffix in ["-lock", "-turn"] {
        let meta = std::fs::metadata(beside(&place.path, suffix)).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o660, "{suffix}");
    }
}
