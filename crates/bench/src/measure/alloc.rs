//! The most memory that a page takes beyond what was held before, to
//! `max_bytes`: with items far smaller than a page, and far larger.

use crate::Failure;
use crate::allocator;
use crate::line::{Line, Unit};
use crate::pages::encoded;
use crate::run::Run;
use crate::stores::Adapter;
use folio_core::SessionId;
use folio_store::{AppendBatch, NewSession, Store};
use folio_testkit::event::Events;
use folio_transcript::{MAX_ITEMS, PageRequest, TranscriptService};
use std::hint::black_box;
use std::sync::Arc;

const MAX_BYTES: usize = 256 << 10;
/// The bytes of a huge item: nearly what one batch holds.
const HUGE: usize = 15 << 20;
const HUGE_ITEMS: usize = 3;

/// Writes a session of huge items.
async fn fill_huge(store: &Arc<dyn Store>) -> Result<SessionId, Failure> {
    let id = SessionId::new("huge")?;
    store.create_session(NewSession::native(id.clone())).await?;
    let mut events = Events::new(id.as_str());
    for number in 0..HUGE_ITEMS {
        let mut text = String::with_capacity(HUGE + 32);
        let mut line = 0;
        while text.len() < HUGE {
            line += 1;
            text.push_str(&format!("line {line} of item {number}\n"));
        }
        let event = events.user(&format!("u{number}"), &text);
        store.append(&id, AppendBatch::native(vec![event])).await?;
    }
    Ok(id)
}

/// The most bytes that reading a page takes, and where an older one goes on.
fn peak(
    run: &Run,
    service: &TranscriptService,
    request: &PageRequest,
) -> Result<Option<u64>, Failure> {
    // Once before, so that what is kept for the next page is there already.
    run.runtime.block_on(encoded(service, request))?;
    let (page, peak) = allocator::peak(|| {
        run.runtime
            .block_on(encoded(service, request))
            .map(black_box)
    });
    page?;
    Ok(peak)
}

fn line(what: &str, adapter: Adapter, peak: Option<u64>) -> Result<Line, Failure> {
    let Some(peak) = peak else {
        let why = "this binary's allocator does not count".to_owned();
        return Ok(Line::not_measured(what, adapter.name(), why));
    };
    let max = f64::from(u32::try_from(MAX_BYTES)?);
    let peak = f64::from(u32::try_from(peak)?);
    let most = 3.0 * max + f64::from(1 << 20);
    let line = Line::new(what, adapter.name(), Unit::Bytes, peak, ("max_bytes", max));
    Ok(line.value_goal(most))
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        let filled = run.filled(adapter)?;
        let bounded = |session: &SessionId| PageRequest {
            max_items: *MAX_ITEMS.end(),
            max_bytes: MAX_BYTES,
            ..PageRequest::newest(session.clone())
        };
        let request = bounded(&filled.large()?.id);
        let short = peak(run, &filled.service, &request)?;
        lines.push(line("alloc.short_items", adapter, short)?);

        let store = adapter.open(&adapter.path(run.folder(), "huge"))?;
        let request = bounded(&run.runtime.block_on(fill_huge(&store))?);
        let service = TranscriptService::new(Arc::clone(&store));
        let first = peak(run, &service, &request)?;
        lines.push(line("alloc.huge.first", adapter, first)?);
        let older = run.runtime.block_on(service.read_page(&request))?.older;
        let request = request.at_cursor(older.ok_or("a huge item has more than a page")?);
        let next = peak(run, &service, &request)?;
        lines.push(line("alloc.huge.next", adapter, next)?);
        run.runtime.block_on(store.close())?;
    }
    Ok(lines)
}
