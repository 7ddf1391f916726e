//! A page of 50 items at several sizes, to reading 50 plain rows by key.

use crate::Failure;
use crate::floor::Floor;
use crate::line::{Line, Unit};
use crate::pages::{ITEMS, Place, encoded, typed};
use crate::run::{Filled, Run};
use crate::sample::{Samples, in_turn, timed};
use crate::stores::{Adapter, Session};
use folio_transcript::TranscriptService;
use std::hint::black_box;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What pages are compared with.
pub const RAW: &str = "50 rows of 700 B by key";

/// What is made of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON, ready to send.
    Encoded,
    /// Rows of their types.
    Typed,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Encoded => "encoded",
            Self::Typed => "typed",
        }
    }
}

/// Reads a page; answers how long it took.
///
/// # Errors
/// Those of the service, and where the page is not whole.
pub fn read(
    runtime: &Runtime,
    service: &TranscriptService,
    session: &Session,
    place: Place,
    form: Form,
) -> Result<Duration, Failure> {
    let request = place.request(session);
    let (whole, took) = timed(|| {
        Ok(match form {
            Form::Encoded => {
                let page = runtime.block_on(encoded(service, &request))?;
                black_box(page).len() > ITEMS
            }
            Form::Typed => {
                let (rows, _) = runtime.block_on(typed(service, &request))?;
                black_box(rows).len() == ITEMS
            }
        })
    })?;
    if !whole {
        return Err(format!("a page of {} is not whole", session.id).into());
    }
    Ok(took)
}

/// Reads the plain rows of a page; answers how long it took.
///
/// # Errors
/// Those of the engine, and where there are too few.
pub fn read_floor(floor: &dyn Floor, rows: u64, place: Place) -> Result<Duration, Failure> {
    let upto = match place {
        Place::Last => rows,
        Place::Middle => rows / 2,
    };
    let (read, took) = timed(|| Ok(black_box(floor.read(upto, ITEMS)?).len()))?;
    if read != ITEMS {
        return Err("the floor has too few rows".into());
    }
    Ok(took)
}

/// A number of events, as people say it.
pub fn short(events: u64) -> String {
    let (million, thousand) = (events.div_ceil(1_000_000), events.div_ceil(1_000));
    if thousand >= 1_000 {
        format!("{million}M")
    } else {
        format!("{thousand}k")
    }
}

/// Times the session of ten thousand events, a larger one and the floor in
/// turn.
fn compare(
    run: &Run,
    filled: &Filled,
    large: &Session,
    place: Place,
    form: Form,
) -> Result<[Samples; 3], Failure> {
    let small = filled.small()?;
    let rows = run.size.floor_rows();
    let page = |session| read(&run.runtime, &filled.service, session, place, form);
    let rounds = run.size.pick(600, 2_000);
    in_turn(
        rounds,
        [&mut || page(small), &mut || page(large), &mut || {
            read_floor(&*filled.floor, rows, place)
        }],
    )
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let filled = run.filled(adapter)?;
        for large in filled.sessions.iter().skip(1) {
            for form in [Form::Encoded, Form::Typed] {
                for place in Place::ALL {
                    let samples = compare(run, &filled, large, place, form)?;
                    let [small, large_ns, raw] = samples.map(|samples| samples.median());
                    let what = format!("page.{}.{}", place.name(), form.name());
                    let size = short(large.events);
                    let floor = (RAW, raw);
                    let goal = match form {
                        Form::Encoded => adapter.pick(2.5, 3.0),
                        Form::Typed => adapter.pick(4.0, 5.0),
                    };
                    let line = |what, value, floor| {
                        Line::new(what, adapter.name(), Unit::Time, value, floor)
                    };
                    lines.push(line(format!("{what}.10k"), small, floor).ratio_goal(goal));
                    lines.push(line(format!("{what}.{size}"), large_ns, floor).ratio_goal(goal));
                    let growth = line(
                        format!("{what}.growth.{size}"),
                        large_ns,
                        ("the same page at 10k", small),
                    );
                    lines.push(growth.ratio_goal(1.05));
                }
            }
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_said_shortly() {
        assert_eq!(super::short(9_996), "10k");
        assert_eq!(super::short(99_988), "100k");
        assert_eq!(super::short(999_992), "1M");
        assert_eq!(super::short(10_000_000), "10M");
    }
}
