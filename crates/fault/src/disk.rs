//! The switch and the recorder that every operation passes.

use crate::fault::{Fault, Kind};
use crate::record::{FileNo, Record, Step};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io};

/// The disk of one run: every copy is the same disk.
#[derive(Debug, Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

/// The operation that failed first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    /// What was to be done.
    pub kind: Kind,
    /// The name of the file.
    pub name: String,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    /// Operations that were counted since the fault was armed.
    counted: u64,
    fired: Option<Fired>,
    /// `None` where nothing is recorded.
    record: Option<Record>,
    /// The name of every file that there ever was.
    files: Vec<String>,
    /// The files that have a name now.
    names: BTreeMap<String, FileNo>,
}

impl State {
    fn add(&mut self, name: &str) -> FileNo {
        let file = FileNo(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        self.files.push(name.to_owned());
        self.names.insert(name.to_owned(), file);
        file
    }

    fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(record) = &mut self.record {
            record.steps.push(step());
        }
    }

    fn name_of(&self, file: FileNo) -> &str {
        self.files.get(file.0 as usize).map_or("", String::as_str)
    }

    /// Whether an operation fails, and if so the fault that does it.
    fn judge(&mut self, kind: Kind, name: &str) -> Option<Fault> {
        let fault = self.fault.filter(|fault| fault.kinds.has(kind))?;
        self.counted += 1;
        let strikes = self.counted == fault.at || (fault.lasting && self.fired.is_some());
        if !strikes {
            return None;
        }
        self.fired.get_or_insert_with(|| Fired {
            kind,
            name: name.to_owned(),
        });
        Some(fault)
    }
}

impl Disk {
    /// A disk that holds some files, all of them synced, and records.
    #[must_use]
    pub fn new(base: BTreeMap<String, Vec<u8>>) -> Self {
        let mut state = State::default();
        for name in base.keys() {
            state.add(name);
        }
        state.record = Some(Record {
            base,
            steps: Vec::new(),
        });
        Self(Arc::new(Mutex::new(state)))
    }

    /// A disk that holds the files of a folder, which nobody has open.
    ///
    /// # Errors
    /// What the system says of a file that cannot be read.
    pub fn of_folder(folder: &Path) -> io::Result<Self> {
        let mut base = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            base.insert(name, fs::read(entry.path())?);
        }
        Ok(Self::new(base))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No state is half changed where a panic could strike.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from here on, and lets the fault strike when it is due.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.state();
        state.fault = Some(fault);
        state.counted = 0;
        state.fired = None;
    }

    /// Mends the disk; what has fired is still known.
    pub fn disarm(&self) {
        self.state().fault = None;
    }

    /// The first operation that failed since the fault was armed.
    #[must_use]
    pub fn fired(&self) -> Option<Fired> {
        self.state().fired.clone()
    }

    /// Notes that the test begins a batch.
    pub fn begin(&self, batch: u64) {
        self.state().note(|| Step::Begun(batch));
    }

    /// Notes that the engine acknowledged a batch.
    pub fn acknowledge(&self, batch: u64) {
        self.state().note(|| Step::Acknowledged(batch));
    }

    /// What was recorded so far.
    #[must_use]
    pub fn record(&self) -> Record {
        self.state().record.clone().unwrap_or_default()
    }

    /// Records nothing from here on, and forgets what was recorded.
    pub fn stop_recording(&self) {
        self.state().record = None;
    }

    /// Asks whether a file may be opened, and which one it is.
    ///
    /// # Errors
    /// The fault that forbids it.
    pub fn open(&self, name: &str, exists: bool) -> Result<FileNo, Fault> {
        let mut state = self.state();
        if let Some(fault) = state.judge(Kind::Open, name) {
            return Err(fault);
        }
        match state.names.get(name) {
            Some(file) if exists => Ok(*file),
            _ => {
                let file = state.add(name);
                state.note(|| Step::Made {
                    file,
                    name: name.to_owned(),
                });
                Ok(file)
            }
        }
    }

    /// Asks whether a read succeeds.
    ///
    /// # Errors
    /// The fault that forbids it.
    pub fn read(&self, file: FileNo) -> Result<(), Fault> {
        let mut state = self.state();
        let name = state.name_of(file).to_owned();
        state.judge(Kind::Read, &name).map_or(Ok(()), Err)
    }

    /// Asks how many of some bytes are written, and notes those.
    ///
    /// # Errors
    /// The fault that forbids it, and how many bytes were written none the
    /// less.
    pub fn write(&self, file: FileNo, at: u64, bytes: &[u8]) -> Result<(), (Fault, usize)> {
        let mut state = self.state();
        let name = state.name_of(file).to_owned();
        let fault = state.judge(Kind::Write, &name);
        let kept = match fault {
            None => bytes.len(),
            Some(fault) if fault.full => bytes.len() / 2,
            Some(_) => 0,
        };
        if kept > 0 {
            state.note(|| Step::Wrote {
                file,
                at,
                bytes: bytes[..kept].to_vec(),
            });
        }
        fault.map_or(Ok(()), |fault| Err((fault, kept)))
    }

    /// Asks whether the length may be set, and notes it.
    ///
    /// # Errors
    /// The fault that forbids it.
    pub fn resize(&self, file: FileNo, len: u64) -> Result<(), Fault> {
        let mut state = self.state();
        let name = state.name_of(file).to_owned();
        if let Some(fault) = state.judge(Kind::Resize, &name) {
            return Err(fault);
        }
        state.note(|| Step::Resized { file, len });
        Ok(())
    }

    /// Asks whether a sync succeeds, and notes how it went; with the folder, if
    /// the engine syncs it along.
    ///
    /// # Errors
    /// The fault that forbids it.
    pub fn sync(&self, file: FileNo, folder: bool) -> Result<(), Fault> {
        let mut state = self.state();
        let name = state.name_of(file).to_owned();
        if let Some(fault) = state.judge(Kind::Sync, &name) {
            state.note(|| Step::SyncFailed { file });
            return Err(fault);
        }
        state.note(|| Step::Synced { file });
        if folder {
            state.note(|| Step::SyncedFolder);
        }
        Ok(())
    }

    /// Asks whether a file may be removed.
    ///
    /// # Errors
    /// The fault that forbids it.
    pub fn remove(&self, name: &str) -> Result<(), Fault> {
        self.state().judge(Kind::Remove, name).map_or(Ok(()), Err)
    }

    /// Notes that a file was removed; with the folder's sync, if the engine
    /// asked for it.
    pub fn removed(&self, name: &str, folder: bool) {
        let mut state = self.state();
        state.names.remove(name);
        state.note(|| Step::Removed {
            name: name.to_owned(),
        });
        if folder {
            state.note(|| Step::SyncedFolder);
        }
    }
}
