//! Opening a store and reading its last page, to opening a plain table of the
//! same engine and reading one row.

use crate::Failure;
use crate::floor;
use crate::line::{Line, Unit};
use crate::measure::page::{Form, read};
use crate::pages::Place;
use crate::run::Run;
use crate::sample::{in_turn, timed};
use crate::stores::{Adapter, Session, bytes_on_disk};
use folio_transcript::TranscriptService;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A closed store and a closed table.
#[derive(Debug)]
pub struct Closed {
    /// The adapter of both.
    pub adapter: Adapter,
    /// The store's file.
    pub path: PathBuf,
    /// The session whose pages are read.
    pub session: Session,
    /// The table's file.
    pub floor_path: PathBuf,
}

impl Closed {
    /// The store that reads are measured on, closed.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(run: &mut Run, adapter: Adapter) -> Result<Self, Failure> {
        let filled = run.filled(adapter)?;
        let closed = Self {
            adapter,
            path: filled.path.clone(),
            session: filled.large()?.clone(),
            floor_path: filled.floor_path.clone(),
        };
        drop(filled);
        run.close(adapter)?;
        Ok(closed)
    }

    /// Opens the store and reads a page.
    ///
    /// # Errors
    /// Those of the store.
    pub fn page(&self, runtime: &Runtime, place: Place) -> Result<Duration, Failure> {
        let (store, took) = timed(|| {
            let store = self.adapter.open(&self.path)?;
            let service = TranscriptService::new(Arc::clone(&store));
            read(runtime, &service, &self.session, place, Form::Encoded)?;
            Ok(store)
        })?;
        runtime.block_on(store.close())?;
        Ok(took)
    }

    /// Opens the table and reads rows.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn rows(&self, upto: u64, limit: usize) -> Result<Duration, Failure> {
        let (floor, took) = timed(|| {
            let floor = floor::open(self.adapter, &self.floor_path)?;
            if floor.read(upto, limit)?.len() == limit {
                Ok(floor)
            } else {
                Err("the floor has too few rows".into())
            }
        })?;
        drop(floor);
        Ok(took)
    }
}

/// How large a file is, in words.
fn size_note(path: &Path) -> Result<String, Failure> {
    let bytes = bytes_on_disk(path)? >> 20;
    Ok(format!("a store of {bytes} MiB"))
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let closed = Closed::new(run, adapter)?;
        let rows = run.size.floor_rows();
        let samples = in_turn(
            run.size.pick(60, 200),
            [&mut || closed.page(&run.runtime, Place::Last), &mut || {
                closed.rows(rows, 1)
            }],
        )?;
        let [page, row] = samples.map(|samples| samples.median());
        let floor = ("open a plain table + one row", row);
        let line = Line::new("open", adapter.name(), Unit::Time, page, floor);
        let line = line.ratio_goal(1.75).note(size_note(&closed.path)?);
        // redb syncs when it opens a file.
        lines.push(adapter.pick(line.clone(), line.unsteady()));
    }
    Ok(lines)
}
