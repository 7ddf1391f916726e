//! A disk that fails, and power that goes: the batch is whole or absent, what
//! was acknowledged is there, and the engine goes on by itself once the disk is
//! mended.

use super::*;
use crate::rows::Meta;
use crate::tables::{definition, get};
use folio_store::ErrorKind;
use folio_testkit::workload::Random;
use redb::backends::FileBackend;
use redb::{BackendError, ReadableDatabase, StorageBackend};
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// When the disk fails.
#[derive(Debug, Default)]
pub struct Faults {
    on: AtomicBool,
    /// Changes of the file that still succeed.
    left: AtomicI64,
    medium: Mutex<Option<Medium>>,
}

/// What is on the disk for certain, and what is on its way.
#[derive(Debug, Clone)]
struct Medium {
    synced: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Len(u64),
    Write(u64, Vec<u8>),
    Sync,
}

impl Change {
    fn make(&self, file: &mut Vec<u8>) {
        match self {
            Self::Len(len) => file.resize(usize::try_from(*len).unwrap(), 0),
            Self::Write(offset, data) => {
                let from = usize::try_from(*offset).unwrap();
                let to = from + data.len();
                file.resize(file.len().max(to), 0);
                file[from..to].copy_from_slice(data);
            }
            Self::Sync => {}
        }
    }
}

impl Medium {
    fn take(&mut self, change: Change) {
        self.pending.push(change);
        if let Some(Change::Sync) = self.pending.last() {
            for change in self.pending.drain(..) {
                change.make(&mut self.synced);
            }
        }
    }

    /// The file after the power went: of what was not synced each change is
    /// whole, torn or lost, in any order of the disk's.
    fn after_a_cut(&self, random: &mut Random) -> Vec<u8> {
        let mut file = self.synced.clone();
        for change in &self.pending {
            match (random.below(3), change) {
                (0, _) => {}
                (1, Change::Write(offset, data)) => {
                    let torn = data[..random.below(data.len())].to_vec();
                    Change::Write(*offset, torn).make(&mut file);
                }
                (_, change) => change.make(&mut file),
            }
        }
        file
    }
}

impl Faults {
    /// Lets a number of changes succeed, and none after them.
    fn fail_after(&self, changes: i64) {
        self.left.store(changes, Ordering::SeqCst);
        self.on.store(true, Ordering::SeqCst);
    }

    fn mend(&self) {
        self.on.store(false, Ordering::SeqCst);
    }

    /// Remembers from now on what is synced and what is not.
    fn watch(&self, synced: Vec<u8>) {
        *self.medium.lock().unwrap() = Some(Medium {
            synced,
            pending: Vec::new(),
        });
    }

    fn medium(&self) -> Medium {
        self.medium.lock().unwrap().clone().unwrap()
    }

    fn note(&self, change: impl FnOnce() -> Change) {
        if let Some(medium) = &mut *self.medium.lock().unwrap() {
            medium.take(change());
        }
    }

    fn change(&self) -> io::Result<()> {
        let fails = self.on.load(Ordering::SeqCst) && self.left.fetch_sub(1, Ordering::SeqCst) <= 0;
        if fails {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// A file on that disk.
#[derive(Debug)]
pub struct FaultyFile {
    file: FileBackend,
    faults: Arc<Faults>,
}

impl FaultyFile {
    pub fn new(file: FileBackend, faults: &Arc<Faults>) -> Self {
        let faults = Arc::clone(faults);
        Self { file, faults }
    }
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.change()?;
        self.faults.note(|| Change::Len(len));
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.change()?;
        self.faults.note(|| Change::Sync);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.change()?;
        self.faults.note(|| Change::Write(offset, data.to_vec()));
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

/// How many sessions there are, each of them whole.
fn sessions(engine: &RedbEngine) -> usize {
    let count = read(engine, |s| {
        let sessions = s.sessions(None, 9).unwrap();
        for session in &sessions {
            let log = session.log_no;
            assert_eq!(s.events(log, 1, 9, 9, 900).unwrap().len(), 3);
            assert_eq!(s.facts(log, 1, 9).unwrap().len(), 3);
        }
        sessions.len()
    });
    engine.check().unwrap();
    count
}

fn fence(engine: &RedbEngine) -> u64 {
    let txn = engine.raw().begin_read().unwrap();
    let meta = txn.open_table(definition::meta).unwrap();
    let Meta(bytes) = get(&meta, "fence").unwrap().unwrap();
    u64::from_le_bytes(bytes.try_into().unwrap())
}

#[test]
fn whatever_fails_the_batch_is_whole_or_absent_and_the_engine_goes_on() {
    let (mut before, mut within, mut kept) = (0, 0, 0);
    for changes in 0.. {
        let place = Place::new();
        let engine = place.open();
        write(&engine, &everything(1)).unwrap();
        engine.faults().fail_after(changes);
        let Err(error) = write(&engine, &everything(2)) else {
            break;
        };
        let is_unknown = error.kind() == ErrorKind::Indeterminate;
        if is_unknown {
            within += 1;
        } else {
            before += 1;
            assert_eq!(
                (error.kind(), error.code()),
                (ErrorKind::Unavailable, "storage_full"),
                "{changes}: {error}"
            );
        }
        // Still failing: nothing is written, and the error says so.
        let error = write(&engine, &everything(3)).unwrap_err();
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::Unavailable, "store_poisoned"),
            "{changes}: {error}"
        );
        engine.faults().mend();
        let found = sessions(&engine);
        let most = if is_unknown { 2 } else { 1 };
        assert!((1..=most).contains(&found), "{changes}: {found}");
        kept += found - 1;
        write(&engine, &everything(3)).unwrap();
        assert_eq!(sessions(&engine), found + 1);
        assert_eq!(fence(&engine), u64::from(is_unknown));
        drop(engine);
        assert_eq!(sessions(&place.open()), found + 1);
    }
    assert!(before > 0 && within > 2, "{before}, {within}");
    assert!(kept < within, "{kept} of {within}");
}

#[test]
fn a_read_that_is_under_way_is_waited_for() {
    let place = Place::new();
    let engine = place.open();
    write(&engine, &everything(1)).unwrap();
    let (began, has_begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            read(&engine, |s| {
                began.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(300));
                s.counters().unwrap().session_no
            })
        });
        has_begun.recv().unwrap();
        engine.demand_fence();
        write(&engine, &everything(2)).unwrap();
        assert!(reader.is_finished(), "the file was taken from the reader");
        assert_eq!(reader.join().unwrap(), 1);
    });
    assert_eq!((sessions(&engine), fence(&engine)), (2, 1));
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_cut() {
    let mut random = Random::new(3);
    let mut lost = 0;
    for changes in 0.. {
        let place = Place::new();
        let engine = place.open();
        write(&engine, &everything(1)).unwrap();
        engine.faults().watch(std::fs::read(&place.path).unwrap());
        engine.faults().fail_after(changes);
        let mut acknowledged = 1;
        while acknowledged < 4 && write(&engine, &everything(acknowledged + 1)).is_ok() {
            acknowledged += 1;
        }
        if acknowledged == 4 {
            break;
        }
        for _ in 0..2 {
            let after = Place::new();
            let file = engine.faults().medium().after_a_cut(&mut random);
            std::fs::write(&after.path, file).unwrap();
            let engine = after.open();
            let found = sessions(&engine) as u64;
            assert!(
                (acknowledged..=acknowledged + 1).contains(&found),
                "{changes}: {found} of {acknowledged}"
            );
            lost += u32::from(found == acknowledged);
            write(&engine, &everything(9)).unwrap();
            assert_eq!(sessions(&engine) as u64, found + 1);
        }
    }
    assert!(lost > 0, "no cut lost what was not acknowledged");
}
