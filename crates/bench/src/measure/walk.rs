//! Paging through a whole session, 50 items a page from the newest to the
//! oldest, to reading as many plain rows in the same pages.

use crate::Failure;
use crate::line::{Line, Unit};
use crate::pages::{ITEMS, encoded, older, onward, typed};
use crate::run::Run;
use crate::sample::{count, in_turn, timed};
use crate::stores::Adapter;
use std::hint::black_box;

/// The pages of a sample.
const PAGES: usize = 10;

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let filled = run.filled(adapter)?;
        let session = filled.large()?;
        let (service, runtime) = (&filled.service, &run.runtime);
        let (mut cursor, mut typed_cursor) = (None, None);
        let mut walk = || {
            let ((), took) = timed(|| {
                for _ in 0..PAGES {
                    let request = onward(&session.id, cursor.take());
                    let page = runtime.block_on(encoded(service, &request))?;
                    cursor = older(&black_box(page));
                }
                Ok(())
            })?;
            Ok(took)
        };
        let mut walk_typed = || {
            let ((), took) = timed(|| {
                for _ in 0..PAGES {
                    let request = onward(&session.id, typed_cursor.take());
                    let (page, older) = runtime.block_on(typed(service, &request))?;
                    black_box(page);
                    typed_cursor = older;
                }
                Ok(())
            })?;
            Ok(took)
        };
        let newest = run.size.floor_rows();
        let mut upto = newest;
        let mut raw = || {
            let ((), took) = timed(|| {
                for _ in 0..PAGES {
                    let page = filled.floor.read(upto, ITEMS)?;
                    let oldest = black_box(page).last().map_or(1, |(ordinal, _)| *ordinal);
                    upto = if oldest > 1 { oldest - 1 } else { newest };
                }
                Ok(())
            })?;
            Ok(took)
        };
        // Each sample goes on where the last one ended, so that together they
        // pass through all of the session.
        let pages = usize::try_from(session.items())? / ITEMS;
        let rounds = pages.div_ceil(PAGES);
        let samples = in_turn(rounds, [&mut walk, &mut walk_typed, &mut raw])?;
        let rate = |nanos: f64| count(PAGES * ITEMS) * 1e9 / nanos;
        let [encoded, typed, raw] = samples.map(|samples| rate(samples.median()));
        let floor = ("rows of 700 B by key, 50 a read", raw);
        let line = |what, value| Line::new(what, adapter.name(), Unit::PerSecond, value, floor);
        lines.push(line("walk.encoded", encoded).value_goal(650e3));
        lines.push(line("walk.typed", typed).value_goal(500e3));
    }
    Ok(lines)
}
