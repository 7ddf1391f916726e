//! From a loaded item to its row.

use folio_core::item::LanePart;
use folio_core::reduce::{Material, reduce};
use folio_core::{EventView, StoredMessage};
use folio_store::{LoadedItem, StoreError, StoredEvent};

/// A row, or the ordinals for want of which there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projected {
    /// The row as canonical JSON.
    Row(String),
    /// Events that the row needs are missing or damaged.
    Gap {
        /// Their ordinals.
        ordinals: Vec<u64>,
    },
}

/// The row of an item at a watermark.
pub fn project_row<'a>(loaded: &'a LoadedItem, through: u64) -> Projected {
    // The common item is one event: no list is made for it.
    if let ([event], [], []) = (&*loaded.events, &*loaded.chunks, &*loaded.damaged)
        && let Ok(view) = event.view()
    {
        return finish(loaded, through, &[(event.ordinal, view)], &[]);
    }
    let mut ordinals = loaded.damaged.clone();
    let mut read = |event: &'a StoredEvent| {
        let view = event.view().ok();
        if view.is_none() {
            ordinals.push(event.ordinal);
        }
        view
    };
    let events: Vec<(u64, EventView<'_>)> = loaded
        .events
        .iter()
        .filter_map(|event| Some((event.ordinal, read(event)?)))
        .collect();
    let chunks: Vec<(LanePart, Vec<EventView<'_>>)> = loaded
        .chunks
        .iter()
        .map(|(lane, chunks)| (*lane, chunks.iter().filter_map(&mut read).collect()))
        .collect();
    if !ordinals.is_empty() {
        ordinals.sort_unstable();
        ordinals.dedup();
        return Projected::Gap { ordinals };
    }
    finish(loaded, through, &events, &chunks)
}

/// The row of an item whose events are all there.
fn finish(
    loaded: &LoadedItem,
    through: u64,
    events: &[(u64, EventView<'_>)],
    chunks: &[(LanePart, Vec<EventView<'_>>)],
) -> Projected {
    let material = Material {
        item: &loaded.item,
        through,
        run: &loaded.run.facts,
        events,
        chunks,
    };
    let mut row = String::new();
    match reduce(&material, &mut row) {
        Ok(()) => Projected::Row(row),
        Err(ordinal) => Projected::Gap {
            ordinals: vec![ordinal],
        },
    }
}

/// The conversion of events to rows, typed.
///
/// ```
/// use folio_projector::TranscriptProjector;
///
/// let row = TranscriptProjector::typed(
///     r#"{"type":"user","id":"u1","turnId":"t1","ts":1,"text":"hi"}"#,
/// )?;
/// assert_eq!(row.id(), "u1");
/// # Ok::<(), folio_store::StoreError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TranscriptProjector;

impl TranscriptProjector {
    /// The row of an item at a watermark as canonical JSON.
    ///
    /// # Errors
    /// `projection_gap` naming the ordinals that are missing or damaged.
    pub fn encoded(loaded: &LoadedItem, through: u64) -> Result<String, StoreError> {
        match project_row(loaded, through) {
            Projected::Row(row) => Ok(row),
            Projected::Gap { ordinals } => Err(StoreError::gap(ordinals)),
        }
    }

    /// A row as its type.
    ///
    /// # Errors
    /// `undecodable` where the text is no row of this build.
    pub fn typed(row: &str) -> Result<StoredMessage, StoreError> {
        StoredMessage::from_json(row)
            .map_err(|error| StoreError::corrupt("undecodable", format!("a row: {error}")))
    }
}
