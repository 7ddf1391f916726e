//! What an engine did to its files, in order.

use std::collections::BTreeMap;

/// A file of a record; a name that is made anew is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNo(pub u32);

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A file got a name in the folder.
    Made {
        /// The file.
        file: FileNo,
        /// The name.
        name: String,
    },
    /// Bytes were written.
    Wrote {
        /// The file.
        file: FileNo,
        /// Where the bytes begin.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The length was set.
    Resized {
        /// The file.
        file: FileNo,
        /// The new length.
        len: u64,
    },
    /// A file was synced.
    Synced {
        /// The file.
        file: FileNo,
    },
    /// A sync failed: what it was to keep may be lost for good.
    SyncFailed {
        /// The file.
        file: FileNo,
    },
    /// The folder was synced: names that came and went are kept.
    SyncedFolder,
    /// A name was removed.
    Removed {
        /// The name.
        name: String,
    },
    /// The test began a batch.
    Begun(u64),
    /// The engine acknowledged a batch.
    Acknowledged(u64),
}

/// What happened to the files of one folder, from a state that was synced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The files at the beginning, by name; their numbers are 0, 1, 2 and so
    /// on, in this order.
    pub base: BTreeMap<String, Vec<u8>>,
    /// What happened then.
    pub steps: Vec<Step>,
}

impl Record {
    /// The same without some of its syncs, as if the engine had left them out:
    /// for proving that a check finds what that loses. The judge is told the
    /// name of the synced file, or `None` for the folder.
    #[must_use]
    pub fn without_syncs(&self, mut left_out: impl FnMut(Option<&str>) -> bool) -> Self {
        let mut names: Vec<String> = self.base.keys().cloned().collect();
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let out = match step {
                Step::Made { name, .. } => {
                    names.push(name.clone());
                    false
                }
                Step::Synced { file } => left_out(names.get(file.0 as usize).map(String::as_str)),
                Step::SyncedFolder => left_out(None),
                _ => false,
            };
            if !out {
                steps.push(step.clone());
            }
        }
        Self {
            base: self.base.clone(),
            steps,
        }
    }
}
