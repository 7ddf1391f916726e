//! Opening a store and reading a page from its middle when the system has
//! nothing of the file in memory, to the same with 50 plain rows.

use crate::Failure;
use crate::line::{Line, Unit};
use crate::measure::open::Closed;
use crate::pages::{ITEMS, Place};
use crate::run::Run;
use crate::sample::in_turn;
use crate::stores::Adapter;
use crate::system::{disk_bytes, forget};
use std::path::Path;
use std::time::Duration;

/// Does something with a file of which nothing is in memory, and makes sure of
/// that.
fn cold(
    path: &Path,
    work: impl FnOnce() -> Result<Duration, Failure>,
) -> Result<Duration, Failure> {
    forget(path)?;
    let before = disk_bytes()?;
    let took = work()?;
    if disk_bytes()?.read == before.read {
        return Err("the system kept the file in memory".into());
    }
    Ok(took)
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let closed = Closed::new(run, adapter)?;
        // Whether it can be measured at all is known before it is.
        if let Err(why) = cold(&closed.path, || closed.page(&run.runtime, Place::Middle)) {
            lines.push(Line::not_measured("cold", adapter.name(), why.to_string()));
            continue;
        }
        let middle = run.size.floor_rows() / 2;
        let samples = in_turn(
            run.size.pick(30, 60),
            [
                &mut || cold(&closed.path, || closed.page(&run.runtime, Place::Middle)),
                &mut || cold(&closed.floor_path, || closed.rows(middle, ITEMS)),
            ],
        )?;
        let [page, rows] = samples.map(|samples| samples.median());
        let floor = ("open a plain table + 50 rows, cold", rows);
        let line = Line::new("cold", adapter.name(), Unit::Time, page, floor);
        lines.push(line.ratio_goal(1.3).unsteady());
    }
    Ok(lines)
}
