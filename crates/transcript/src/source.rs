//! What offers rows to a transcript.

use async_trait::async_trait;
use folio_core::cursor::RUNTIME_SOURCE;
use folio_core::{Direction, SessionId, Stored};
use folio_projector::{RowForm, RuntimeEventReadModel, TranscriptProjectionPage, TranscriptQuery};
use folio_store::{Start, StoreError};
use std::ops::Range;

/// Which rows a source is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The session.
    pub session: SessionId,
    /// The source's watermark; `None` is its newest.
    pub through: Option<u64>,
    /// The direction.
    pub direction: Direction,
    /// Where to begin.
    pub start: Start,
    /// The most rows.
    pub max_items: usize,
    /// The most bytes of rows as JSON; the first may exceed it alone.
    pub max_bytes: usize,
    /// What rows are made as; one that exceeds `max_bytes` is JSON, with places
    /// for members that are kept outside of their events.
    pub form: RowForm,
}

/// The rows that a source offers.
pub type Scanned = TranscriptProjectionPage;

/// A source of rows: the seam at which transcripts are composed.
///
/// # Contract
/// A scan answers at most `max_items` rows, whatever the source holds, from
/// the state at its watermark, in the direction asked for. A row keeps its
/// place for ever.
#[async_trait]
pub trait ContributionSource: Send + Sync {
    /// The name under which its watermark stands in pages and cursors.
    fn name(&self) -> &str;
    /// Reads rows.
    ///
    /// # Errors
    /// Those of the source.
    async fn scan(&self, scan: Scan) -> Result<Scanned, StoreError>;
    /// Reads bytes of a member for which a row leaves a place.
    ///
    /// # Errors
    /// Those of the source.
    async fn member(&self, member: &Stored, range: Range<u64>) -> Result<Vec<u8>, StoreError>;
}

/// The runtime ledger as a source.
#[derive(Debug, Clone)]
pub struct RuntimeSource {
    model: RuntimeEventReadModel,
}

impl RuntimeSource {
    /// The rows of a read model.
    pub fn new(model: RuntimeEventReadModel) -> Self {
        Self { model }
    }
}

#[async_trait]
impl ContributionSource for RuntimeSource {
    fn name(&self) -> &str {
        RUNTIME_SOURCE
    }

    async fn scan(&self, scan: Scan) -> Result<Scanned, StoreError> {
        let Scan {
            session,
            through,
            direction,
            start,
            max_items,
            max_bytes,
            form,
        } = scan;
        let query = TranscriptQuery {
            session,
            through_ordinal: through,
            direction,
            position: start,
            max_items,
            max_bytes,
            form,
        };
        self.model.read_transcript_page(&query).await
    }

    async fn member(&self, member: &Stored, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        self.model.member(member, range).await
    }
}
