//! The pages that are measured, by the calls that programs use.

use crate::Failure;
use crate::stores::Session;
use folio_core::{Direction, SessionId, StoredMessage};
use folio_transcript::{Entry, PagePosition, PageRequest, TranscriptService};

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

/// A page as JSON, ready to send.
///
/// # Errors
/// Those of the service.
pub async fn encoded(
    service: &TranscriptService,
    request: &PageRequest,
) -> Result<String, Failure> {
    Ok(service.encode_page(request).await?)
}

/// Where a page as JSON goes on: what a client reads of it, without the rows.
pub fn older(page: &str) -> Option<String> {
    let (_, behind) = page.rsplit_once(",\"older\":\"")?;
    behind.split('"').next().map(str::to_owned)
}

/// A page whose rows are typed, and where older ones go on.
///
/// # Errors
/// Those of the service.
pub async fn typed(
    service: &TranscriptService,
    request: &PageRequest,
) -> Result<(Vec<StoredMessage>, Option<String>), Failure> {
    let page = service.read_typed_page(request).await?;
    let rows = page.entries.into_iter().filter_map(|entry| match entry {
        Entry::Row { row, .. } => Some(row),
        _ => None,
    });
    Ok((rows.collect(), page.older))
}

/// The request that goes on where a page left off, or begins anew at the end.
pub fn onward(session: &SessionId, older: Option<String>) -> PageRequest {
    let newest = PageRequest::newest(session.clone());
    match older {
        Some(cursor) => newest.at_cursor(cursor),
        None => newest,
    }
}
