//! The last 10 events of a session, to reading 10 plain rows by key.

use crate::Failure;
use crate::line::{Line, Unit};
use crate::run::Run;
use crate::sample::{in_turn, timed};
use crate::stores::Adapter;
use folio_store::RangeQuery;
use std::hint::black_box;

const EVENTS: usize = 10;

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let filled = run.filled(adapter)?;
        let session = filled.large()?;
        let query = RangeQuery {
            from: session.events + 1 - EVENTS as u64,
            to: session.events,
            max_count: EVENTS,
            max_bytes: 1 << 20,
        };
        let mut tail = || {
            let (read, took) = timed(|| {
                let events = filled.store.range(&session.id, query);
                Ok(black_box(run.runtime.block_on(events)?).len())
            })?;
            if read == EVENTS {
                Ok(took)
            } else {
                Err("the tail is not whole".into())
            }
        };
        let rows = run.size.floor_rows();
        let mut raw = || {
            let (_, took) = timed(|| Ok(black_box(filled.floor.read(rows, EVENTS)?)))?;
            Ok(took)
        };
        let samples = in_turn(run.size.pick(2_000, 5_000), [&mut tail, &mut raw])?;
        let [tail, raw] = samples.map(|samples| samples.median());
        let floor = ("10 rows of 700 B by key", raw);
        lines.push(Line::new("tail", adapter.name(), Unit::Time, tail, floor).value_goal(15e3));
    }
    Ok(lines)
}
