//! The pages that are measured, by the calls that programs use.

use crate::Failure;
use crate::stores::Session;
use folio_core::{Direction, SessionId, StoredMessage};
use folio_projector::TranscriptProjector;
use folio_transcript::{Entry, Page, PagePosition, PageRequest, TranscriptService};

/// The items of a page.
pub const ITEMS: usize = 50;

/// Where a page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the end of the session.
    Last,
    /// In the middle of it.
    Middle,
}

impl Place {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Last, Self::Middle];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Middle => "middle",
        }
    }

    /// The request for a page of [`ITEMS`] items.
    pub fn request(self, session: &Session) -> PageRequest {
        let newest = PageRequest::newest(session.id.clone());
        match self {
            Self::Last => newest,
            Self::Middle => PageRequest {
                position: PagePosition::AtOrdinal(session.middle()),
                direction: Some(Direction::Older),
                ..newest
            },
        }
    }
}

/// A page whose rows are JSON.
///
/// # Errors
/// Those of the service.
pub async fn rows(service: &TranscriptService, request: &PageRequest) -> Result<Page, Failure> {
    Ok(service.read_page(request).await?)
}

/// A page as JSON, ready to send.
///
/// # Errors
/// Those of the service.
pub async fn encoded(
    service: &TranscriptService,
    request: &PageRequest,
) -> Result<String, Failure> {
    Ok(service.read_page(request).await?.to_json())
}

/// A page whose rows are typed, and where older ones go on.
///
/// # Errors
/// Those of the service.
pub async fn typed(
    service: &TranscriptService,
    request: &PageRequest,
) -> Result<(Vec<StoredMessage>, Option<String>), Failure> {
    let page = service.read_page(request).await?;
    let mut rows = Vec::with_capacity(page.entries.len());
    for entry in &page.entries {
        if let Entry::Row { row, .. } = entry {
            rows.push(TranscriptProjector::typed(row)?);
        }
    }
    Ok((rows, page.older))
}

/// The request that goes on where a page left off, or begins anew at the end.
pub fn onward(session: &SessionId, older: Option<String>) -> PageRequest {
    let newest = PageRequest::newest(session.clone());
    match older {
        Some(cursor) => newest.at_cursor(cursor),
        None => newest,
    }
}
