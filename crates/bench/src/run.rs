//! What the measures of one run share: sizes, a folder, stores that were
//! filled once.

use crate::Failure;
use crate::floor::{self, Floor};
use crate::stores::{Adapter, Session, create_numbered, fill};
use folio_store::Store;
use folio_transcript::TranscriptService;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How large everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Minutes: up to a hundred thousand events.
    Quick,
    /// Up to a million events.
    Standard,
    /// Up to ten million events.
    Full,
}

impl Size {
    /// One of two values: of the quick run, and of the others.
    pub fn pick<T>(self, quick: T, others: T) -> T {
        if self == Self::Quick { quick } else { others }
    }

    /// The events of the sessions that reads are measured on, ascending.
    pub fn sessions(self) -> &'static [u64] {
        match self {
            Self::Quick => &[10_000, 100_000],
            Self::Standard => &[10_000, 1_000_000],
            Self::Full => &[10_000, 1_000_000, 10_000_000],
        }
    }

    /// The rows of the tables that reads are compared with.
    pub fn floor_rows(self) -> u64 {
        self.pick(50_000, 200_000)
    }
}

/// The sessions of a store in which there are many.
pub const CROWD: usize = 10_000;

/// A store with sessions of several sizes, and its floor.
pub struct Filled {
    /// Its file.
    pub path: PathBuf,
    /// The store.
    pub store: Arc<dyn Store>,
    /// What reads pages of it.
    pub service: TranscriptService,
    /// The sessions, the shortest first.
    pub sessions: Vec<Session>,
    /// Plain rows in the same engine.
    pub floor: Box<dyn Floor>,
    /// Their file.
    pub floor_path: PathBuf,
}

impl fmt::Debug for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filled")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Filled {
    /// The session of ten thousand events.
    ///
    /// # Errors
    /// None in practice: there is one.
    pub fn small(&self) -> Result<&Session, Failure> {
        Ok(self.sessions.first().ok_or("a store has sessions")?)
    }

    /// The session that the measures are about.
    ///
    /// # Errors
    /// None in practice: there is one.
    pub fn large(&self) -> Result<&Session, Failure> {
        Ok(self.sessions.get(1).ok_or("a store has two sessions")?)
    }
}

/// The files of a filled store, and the store while it is open.
#[derive(Debug)]
struct Kept {
    adapter: Adapter,
    path: PathBuf,
    floor_path: PathBuf,
    sessions: Vec<Session>,
    open: Option<Rc<Filled>>,
}

/// One run.
#[derive(Debug)]
pub struct Run {
    /// How large everything is.
    pub size: Size,
    /// What futures are awaited on.
    pub runtime: Runtime,
    folder: TempDir,
    kept: Vec<Kept>,
    crowds: Vec<(Adapter, PathBuf)>,
}

impl Run {
    /// A run whose files stand in a folder of their own within `folder`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(size: Size, folder: &Path) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(Self {
            size,
            runtime,
            folder: tempfile::Builder::new()
                .prefix("folio-bench-")
                .tempdir_in(folder)?,
            kept: Vec::new(),
            crowds: Vec::new(),
        })
    }

    /// Where files go.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The store that reads are measured on, filled the first time.
    ///
    /// # Errors
    /// Those of the store.
    pub fn filled(&mut self, adapter: Adapter) -> Result<Rc<Filled>, Failure> {
        let kept = match self.kept.iter_mut().position(|k| k.adapter == adapter) {
            Some(at) => &mut self.kept[at],
            None => {
                eprintln!("filling a store ({})", adapter.name());
                let path = adapter.path(self.folder.path(), "filled");
                let store = adapter.open(&path)?;
                let mut sessions = Vec::new();
                for events in self.size.sessions() {
                    sessions.push(self.runtime.block_on(fill(&*store, *events))?);
                }
                self.runtime.block_on(store.close())?;
                let floor_path = floor::path(adapter, self.folder.path());
                drop(floor::make(adapter, &floor_path, self.size.floor_rows())?);
                self.kept.push(Kept {
                    adapter,
                    path,
                    floor_path,
                    sessions,
                    open: None,
                });
                self.kept.last_mut().ok_or("it was pushed")?
            }
        };
        if let Some(open) = &kept.open {
            return Ok(Rc::clone(open));
        }
        let store = adapter.open(&kept.path)?;
        let open = Rc::new(Filled {
            path: kept.path.clone(),
            service: TranscriptService::new(Arc::clone(&store)),
            store,
            sessions: kept.sessions.clone(),
            floor: floor::open(adapter, &kept.floor_path)?,
            floor_path: kept.floor_path.clone(),
        });
        kept.open = Some(Rc::clone(&open));
        Ok(open)
    }

    /// Closes the store that reads are measured on; the next who asks for it
    /// opens it again.
    ///
    /// # Errors
    /// Those of the store.
    pub fn close(&mut self, adapter: Adapter) -> Result<(), Failure> {
        for kept in self.kept.iter_mut().filter(|k| k.adapter == adapter) {
            if let Some(open) = kept.open.take() {
                self.runtime.block_on(open.store.close())?;
            }
        }
        Ok(())
    }

    /// The path of a closed store with [`CROWD`] sessions.
    ///
    /// # Errors
    /// Those of the store.
    pub fn crowd(&mut self, adapter: Adapter) -> Result<PathBuf, Failure> {
        if let Some((_, path)) = self.crowds.iter().find(|(of, _)| *of == adapter) {
            return Ok(path.clone());
        }
        eprintln!("creating {CROWD} sessions ({})", adapter.name());
        let path = adapter.path(self.folder.path(), "crowd");
        let store = adapter.open(&path)?;
        self.runtime.block_on(create_numbered(&store, CROWD))?;
        self.runtime.block_on(store.close())?;
        self.crowds.push((adapter, path.clone()));
        Ok(path)
    }
}
