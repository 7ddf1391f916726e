//! `folio export`: every row of a session, one JSON line each.
//!
//! Runtime rows stand in the order of the transcript; a visible note stands
//! behind the rows of the events up to its anchor. A line is the row itself,
//! `{"type","id","turnId","ts",…}`, so that the rows counted by `type` equal
//! `rows` of `folio stats --json`. The output is the same with and without
//! `--json`. A session with missing or damaged events is not exported in part:
//! the command ends with `projection_gap`.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::pieces;
use crate::select;
use folio_core::Direction;
use folio_projector::{Projected, RowForm, RuntimeEventReadModel, TranscriptQuery};
use folio_store::{Start, Store, StoreError};
use std::sync::Arc;

use super::notes::Notes;

/// Rows of one read.
const SLICE: usize = 200;
/// Bytes of one read.
const SLICE_BYTES: usize = 4 << 20;

/// Runs the command.
pub async fn run(app: &mut App, session: &str) -> Result<Exit, Failure> {
    let store = app.reader()?;
    let info = select::session(&*store, session, app.out.json).await?;
    let model = RuntimeEventReadModel::new(Arc::clone(&store));
    let mut notes = Notes::of(&*store, &info.id).await?;
    let mut start = Start::Edge;
    loop {
        let query = TranscriptQuery {
            session: info.id.clone(),
            through_ordinal: Some(info.head),
            direction: Direction::Newer,
            position: start,
            max_items: SLICE,
            max_bytes: SLICE_BYTES,
            form: RowForm::Json,
        };
        let page = model.read_transcript_page(&query).await?;
        for row in page.rows() {
            before(app, &*store, &mut notes, Some(row.position.ordinal)).await?;
            match row.row {
                Projected::Json(row) => app.out.line(row)?,
                Projected::Apart(row) => {
                    pieces::write(&mut app.out, &*store, row).await?;
                    app.out.line("")?;
                }
                // Not asked for.
                Projected::Typed(_) => {}
                Projected::Gap { ordinals } => {
                    let message = format!("events are missing or damaged at ordinals {ordinals:?}");
                    return Err(StoreError::corrupt("projection_gap", message).into());
                }
            }
        }
        match page.rows().next_back() {
            Some(last) if page.more => start = Start::Behind(last.position),
            _ => break,
        }
    }
    before(app, &*store, &mut notes, None).await?;
    Ok(Exit::Ok)
}

/// Writes the visible notes that stand before a row.
async fn before(
    app: &mut App,
    store: &dyn Store,
    notes: &mut Notes,
    ordinal: Option<u64>,
) -> Result<(), Failure> {
    while let Some((_, fact)) = notes.next_below(store, ordinal).await? {
        if fact.visible {
            app.out.line(&fact.to_row())?;
        }
    }
    Ok(())
}
