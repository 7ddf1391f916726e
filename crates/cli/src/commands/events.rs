//! `folio events`: the stored events of a session, in their order.
//!
//! With `--json` one line for each event: `{"ordinal","event_seq","event",
//! "chain"}`, where `event` is the whole event with sorted members, those
//! included that are kept outside of it.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::pieces;
use crate::select;
use crate::text::{hex, moment, one_line};
use folio_core::canonical::event_json;
use folio_core::object::whole;
use folio_core::{EventView, Field, SessionId};
use folio_store::{RangeQuery, Store, StoredEvent};

/// Events of one read.
const SLICE: usize = 500;
/// Bytes of one read.
const SLICE_BYTES: usize = 4 << 20;

/// Runs the command.
pub async fn run(
    app: &mut App,
    session: &str,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<Exit, Failure> {
    for (option, ordinal) in [("--from", from), ("--to", to)] {
        if ordinal == Some(0) {
            let message =
                format!("{option} is 0, and the first event has the ordinal 1; write 1 or more");
            return Err(Failure::new(Exit::Invalid, "range_invalid", message));
        }
    }
    let mut from = from.unwrap_or(1);
    if to.is_some_and(|to| to < from) {
        let message = "--to is below --from; write the smaller ordinal after --from";
        return Err(Failure::new(Exit::Invalid, "range_invalid", message));
    }
    let store = app.reader()?;
    let info = select::session(&*store, session, app.out.json).await?;
    let to = to.unwrap_or(info.head).min(info.head);
    while from <= to {
        let query = RangeQuery {
            from,
            to,
            max_count: SLICE,
            max_bytes: SLICE_BYTES,
        };
        let events = store.range(&info.id, query).await?;
        if events.is_empty() {
            break;
        }
        for event in &events {
            from = event.ordinal + 1;
            let view = event.view()?;
            if app.out.json {
                json(app, &*store, event, &view, &info.id).await?;
            } else {
                let line = readable(app, event, &view);
                app.out.line(&line)?;
            }
        }
    }
    Ok(Exit::Ok)
}

async fn json(
    app: &mut App,
    store: &dyn Store,
    event: &StoredEvent,
    view: &EventView<'_>,
    session: &SessionId,
) -> Result<(), Failure> {
    let StoredEvent {
        ordinal, event_seq, ..
    } = event;
    let begin = format!(r#"{{"ordinal":{ordinal},"event_seq":{event_seq},"event":"#);
    app.out.bytes(begin.as_bytes())?;
    let text = event_json(view, &event.spine, session);
    pieces::write(&mut app.out, store, text.borrowed()).await?;
    let chain = event
        .chain
        .as_ref()
        .map(|chain| hex(chain))
        .unwrap_or_default();
    app.out.line(&format!(r#","chain":"{chain}"}}"#))
}

/// One line: place, time, what it is, and how it begins.
fn readable(app: &App, event: &StoredEvent, view: &EventView<'_>) -> String {
    let kind = view.kind();
    let mut what = format!("{} {kind}", view.role.as_str());
    if view.partial {
        what.push_str(" (part)");
    }
    if let Some(status) = view.status {
        what.push_str(" → ");
        what.push_str(status.as_str());
    }
    let place = format!(
        "{:>7}  run {:>3}.{:<4}  {:19}",
        event.ordinal,
        event.run_no,
        event.event_seq,
        moment(whole(view.ts))
    );
    let text = [Field::Text, Field::Name]
        .into_iter()
        .find_map(|field| view.text(field))
        .unwrap_or_default();
    let room = app.out.width.saturating_sub(place.len() + what.len() + 4);
    format!(
        "{}  {}  {}",
        app.out.paint(style::DIM, &place),
        one_line(&what, app.out.width),
        if room < 8 {
            String::new()
        } else {
            one_line(&text, room)
        }
    )
    .trim_end()
    .to_owned()
}
