//! Making the item index of a session anew, to reading as many plain rows in
//! the order of the table.

use crate::Failure;
use crate::line::{Line, Unit};
use crate::run::Run;
use crate::sample::{in_turn, per_second, timed};
use crate::stores::Adapter;

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let filled = run.filled(adapter)?;
        let session = filled.large()?;
        let mut rebuild = || {
            let (index, took) = timed(|| {
                let rebuild = filled.store.rebuild_index(&session.id);
                Ok(run.runtime.block_on(rebuild)?)
            })?;
            if (index.index_head, index.items) == (session.events, session.items()) {
                Ok(took)
            } else {
                Err("the index that was made anew is not whole".into())
            }
        };
        let rows = run.size.floor_rows().min(session.events);
        let mut raw = || {
            // Once more often: the first time finds nothing near.
            filled.floor.scan(rows)?;
            let (_, took) = timed(|| filled.floor.scan(rows))?;
            Ok(took)
        };
        let [rebuild, raw] = in_turn(3, [&mut rebuild, &mut raw])?;
        let rebuilt = per_second(usize::try_from(session.events)?, rebuild.median());
        let read = per_second(usize::try_from(rows)?, raw.median());
        let floor = ("rows of 700 B in the table's order", read);
        let line = Line::new("rebuild", adapter.name(), Unit::PerSecond, rebuilt, floor);
        // It writes as much as it reads.
        lines.push(line.value_goal(700e3).unsteady());
    }
    Ok(lines)
}
