//! From a loaded item to its row.

use folio_core::StoredMessage;
use folio_core::message::TypedRow;
use folio_core::reduce::{RowSink, json_row, reduce};
use folio_store::{FoundItem, LoadedItem, StoreError};

/// What rows are made as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowForm {
    /// Canonical JSON.
    #[default]
    Json,
    /// [`StoredMessage`].
    Typed,
    /// Canonical JSON with places for members that are kept outside of their
    /// events, however small they are: nothing of them is read.
    Apart,
}

/// Makes the row of an item.
///
/// # Errors
/// The ordinals for want of which there is none.
pub(crate) fn project(found: &FoundItem<'_>, row: &mut impl RowSink) -> Result<(), Vec<u64>> {
    if !found.damaged.is_empty() {
        return Err(found.damaged.to_vec());
    }
    reduce(&found.material, row).map_err(|ordinal| vec![ordinal])
}

/// The row that was taken, with the length of its JSON.
pub(crate) fn taken(row: &mut TypedRow) -> Result<(StoredMessage, usize), StoreError> {
    row.take()
        .map_err(|error| StoreError::corrupt("undecodable", format!("a row: {error}")))
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
    /// `projection_gap` naming the ordinals that are missing or damaged, those
    /// included of which a member was not read along.
    pub fn encoded(loaded: &LoadedItem, through: u64) -> Result<String, StoreError> {
        let mut done = Err(loaded.damaged.clone());
        loaded.show(through, |found| {
            if found.damaged.is_empty() {
                done = json_row(&found.material).map_err(|ordinal| vec![ordinal]);
            }
        });
        let row = done.map_err(StoreError::gap)?.into_whole();
        row.ok_or_else(|| StoreError::gap(loaded.item.ordinals(through)))
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
