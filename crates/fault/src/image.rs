//! The files as a power cut may leave them.

use crate::record::{FileNo, Record, Step};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{fs, io};

/// What a power cut takes of what was not synced. Seeds make the same image
/// again from the same record and position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Nothing: as if the process alone had been killed.
    Nothing,
    /// All of it.
    Everything,
    /// Some of it, here and there.
    Some(u64),
    /// All behind a point, and the write at that point is torn.
    Torn(u64),
    /// Some of it, and what was kept was written in another order.
    Reordered(u64),
}

/// A change of one file.
#[derive(Debug, Clone)]
enum Change {
    Wrote(u64, Vec<u8>),
    Resized(u64),
}

/// What is known about a change's way to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It will be synced.
    Open,
    /// It is there.
    Kept,
    /// Its sync failed; no later one will see to it.
    Doubtful,
}

/// One file: the part that no crash can change, and the changes since.
#[derive(Debug, Clone, Default)]
struct File {
    settled: Vec<u8>,
    changes: Vec<(Change, Fate)>,
}

/// A change of the folder.
#[derive(Debug, Clone)]
enum Entry {
    Made(String, FileNo),
    Removed(String),
}

/// A record that is played from its beginning, one step after the other.
#[derive(Debug, Clone)]
pub struct Replay<'a> {
    steps: &'a [Step],
    position: usize,
    files: Vec<File>,
    /// The folder as it was when it was last synced.
    names: BTreeMap<String, FileNo>,
    /// What happened to it since.
    entries: Vec<Entry>,
    begun: Option<u64>,
    acknowledged: Option<u64>,
}

impl<'a> Replay<'a> {
    /// The state in which a record begins.
    #[must_use]
    pub fn new(record: &'a Record) -> Self {
        let numbers = (0..).map(FileNo);
        Self {
            steps: &record.steps,
            position: 0,
            files: record
                .base
                .values()
                .map(|bytes| File {
                    settled: bytes.clone(),
                    changes: Vec::new(),
                })
                .collect(),
            names: record.base.keys().cloned().zip(numbers).collect(),
            entries: Vec::new(),
            begun: None,
            acknowledged: None,
        }
    }

    /// How many steps were played.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The last batch that was begun.
    #[must_use]
    pub fn begun(&self) -> Option<u64> {
        self.begun
    }

    /// The last batch that was acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> Option<u64> {
        self.acknowledged
    }

    /// Plays the next step and answers it; `None` at the end.
    pub fn advance(&mut self) -> Option<&'a Step> {
        let step = self.steps.get(self.position)?;
        self.position += 1;
        match step {
            Step::Made { file, name } => {
                self.entries.push(Entry::Made(name.clone(), *file));
                self.file(*file);
            }
            Step::Wrote { file, at, bytes } => {
                self.change(*file, Change::Wrote(*at, bytes.clone()));
            }
            Step::Resized { file, len } => self.change(*file, Change::Resized(*len)),
            Step::Synced { file } => {
                let file = self.file(*file);
                file.settle(Fate::Kept);
                file.fold();
            }
            Step::SyncFailed { file } => self.file(*file).settle(Fate::Doubtful),
            Step::SyncedFolder => {
                for entry in std::mem::take(&mut self.entries) {
                    apply_entry(&mut self.names, &entry);
                }
            }
            Step::Removed { name } => self.entries.push(Entry::Removed(name.clone())),
            Step::Begun(batch) => self.begun = Some(*batch),
            Step::Acknowledged(batch) => self.acknowledged = Some(*batch),
        }
        Some(step)
    }

    /// Plays all steps that are left.
    pub fn finish(&mut self) {
        while self.advance().is_some() {}
    }

    fn file(&mut self, file: FileNo) -> &mut File {
        let at = file.0 as usize;
        if self.files.len() <= at {
            self.files.resize_with(at + 1, File::default);
        }
        &mut self.files[at]
    }

    fn change(&mut self, file: FileNo, change: Change) {
        self.file(file).changes.push((change, Fate::Open));
    }

    /// Whether there is anything that a power cut could take here.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.entries.is_empty() && self.files.iter().all(|file| file.changes.is_empty())
    }

    /// The files after a power cut at this point.
    #[must_use]
    pub fn image(&self, loss: Loss) -> Image {
        let mut rng = Rng::with_seed(match loss {
            Loss::Nothing | Loss::Everything => 0,
            Loss::Some(seed) | Loss::Torn(seed) | Loss::Reordered(seed) => seed,
        });
        let mut names = self.names.clone();
        // Names are metadata, which file systems keep in order.
        let kept = match loss {
            Loss::Nothing => self.entries.len(),
            Loss::Everything => 0,
            _ => rng.usize(..=self.entries.len()),
        };
        for entry in &self.entries[..kept] {
            apply_entry(&mut names, entry);
        }
        let files = names
            .into_iter()
            .map(|(name, file)| {
                let bytes = self
                    .files
                    .get(file.0 as usize)
                    .map(|file| file.after(loss, &mut rng))
                    .unwrap_or_default();
                (name, bytes)
            })
            .collect();
        Image { files }
    }
}

fn apply_entry(names: &mut BTreeMap<String, FileNo>, entry: &Entry) {
    match entry {
        Entry::Made(name, file) => {
            names.insert(name.clone(), *file);
        }
        Entry::Removed(name) => {
            names.remove(name);
        }
    }
}

impl File {
    fn settle(&mut self, fate: Fate) {
        for (_, was) in &mut self.changes {
            if *was == Fate::Open {
                *was = fate;
            }
        }
    }

    /// Takes what is certain into the settled part.
    fn fold(&mut self) {
        // Nothing that came before an emptying that was kept can come back.
        let emptied = self.changes.iter().rposition(|(change, fate)| {
            matches!(change, Change::Resized(0)) && *fate == Fate::Kept
        });
        if let Some(at) = emptied {
            self.settled.clear();
            self.changes.drain(..=at);
        }
        let certain = self
            .changes
            .iter()
            .take_while(|(_, fate)| *fate == Fate::Kept)
            .count();
        for (change, _) in self.changes.drain(..certain) {
            apply(&mut self.settled, &change);
        }
    }

    fn after(&self, loss: Loss, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.settled.clone();
        match loss {
            Loss::Nothing => self
                .changes
                .iter()
                .for_each(|(change, _)| apply(&mut bytes, change)),
            Loss::Everything => {
                for (change, _) in self.changes.iter().filter(|(_, fate)| *fate == Fate::Kept) {
                    apply(&mut bytes, change);
                }
            }
            Loss::Some(_) => {
                for (change, fate) in &self.changes {
                    if *fate == Fate::Kept || rng.bool() {
                        apply(&mut bytes, change);
                    }
                }
            }
            Loss::Torn(_) => {
                let open = self.changes.iter().filter(|(_, fate)| *fate != Fate::Kept);
                let whole = rng.usize(..=open.count());
                let mut seen = 0;
                for (change, fate) in &self.changes {
                    if *fate == Fate::Kept || seen < whole {
                        apply(&mut bytes, change);
                    } else if seen == whole {
                        tear(&mut bytes, change, rng);
                    }
                    seen += usize::from(*fate != Fate::Kept);
                }
            }
            Loss::Reordered(_) => {
                // Nothing passes a sync that succeeded.
                let mut late = Vec::new();
                for (change, fate) in &self.changes {
                    if *fate == Fate::Kept {
                        shuffled(&mut bytes, &mut late, rng);
                        apply(&mut bytes, change);
                    } else if rng.bool() {
                        late.push(change);
                    }
                }
                shuffled(&mut bytes, &mut late, rng);
            }
        }
        bytes
    }
}

fn shuffled(bytes: &mut Vec<u8>, changes: &mut Vec<&Change>, rng: &mut Rng) {
    rng.shuffle(changes);
    for change in changes.drain(..) {
        apply(bytes, change);
    }
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

fn write(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    let end = at.saturating_add(new.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(new);
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Wrote(at, new) => write(bytes, index(*at), new),
        Change::Resized(len) => bytes.resize(index(*len), 0),
    }
}

/// The first or the last part of a write arrives. A length is set or not.
fn tear(bytes: &mut Vec<u8>, change: &Change, rng: &mut Rng) {
    let Change::Wrote(at, new) = change else {
        return;
    };
    let cut = match rng.u8(..4) {
        0 => rng.usize(..=new.len()),
        1 => new.len() / 2,
        // Sectors are what devices write whole.
        _ => rng.usize(..=new.len() / 512) * 512,
    };
    if rng.bool() {
        write(bytes, index(*at), &new[..cut]);
    } else {
        write(bytes, index(*at) + cut, &new[cut..]);
    }
}

/// The files of a folder, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Image {
    /// The files.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Image {
    /// Tells images apart: equal images have equal prints.
    #[must_use]
    pub fn print(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Makes a folder hold these files and no others. Nobody may have one of
    /// them open.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            fs::remove_file(entry?.path())?;
        }
        for (name, bytes) in &self.files {
            fs::write(folder.join(name), bytes)?;
        }
        Ok(())
    }
}
