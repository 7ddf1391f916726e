//! `folio show`: a page of a session.
//!
//! With `--json` one line, the page: `{"session_id","generation","through":
//! {"runtime":n},"entries":[{"key","revision","row"} | {"key","revision","fragment":
//! {"byte_offset","total_bytes","digest","data"}} | {"gap":{"source","from",
//! "to","code"}}],"older":cursor|null,"newer":cursor|null}`. With `--all` one
//! entry a line, from the beginning to the end.
//!
//! For people a row that is larger than a page is put together first, however
//! many pages that takes.

use crate::app::App;
use crate::args::{Gaps, ShowOptions};
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::render::Renderer;
use crate::select;
use crate::text::count;
use folio_core::cursor::RUNTIME_SOURCE;
use folio_core::{Direction, SessionId};
use folio_store::Store;
use folio_transcript::{
    Entry, OnGap, Page, PagePosition, PageRequest, TranscriptError, TranscriptService,
};
use std::sync::Arc;

/// Runs the command.
pub async fn run(app: &mut App, options: ShowOptions) -> Result<Exit, Failure> {
    if options.at == Some(0) {
        let message = "--at is 0, and the first event has the ordinal 1; write 1 or more";
        return Err(Failure::new(Exit::Invalid, "ordinal_invalid", message));
    }
    let store = app.reader()?;
    let info = select::session(&*store, &options.session, app.out.json).await?;
    let service = App::transcript(&store);
    let mut request = PageRequest::newest(info.id.clone());
    request.on_gap = match options.on_gap {
        Gaps::Fail => OnGap::Fail,
        Gaps::Mark => OnGap::Mark,
    };
    if let Some(most) = options.max_items {
        request.max_items = most;
    }
    if let Some(most) = options.max_bytes {
        request.max_bytes = most;
    }
    request.direction = match (options.older, options.newer || options.all) {
        (true, _) => Some(Direction::Older),
        (_, true) => Some(Direction::Newer),
        _ => None,
    };
    request.position = match (options.cursor, options.around, options.at) {
        (Some(cursor), _, _) => PagePosition::Cursor(cursor),
        (_, Some(key), _) => PagePosition::Around(key.into()),
        (_, _, Some(ordinal)) => PagePosition::AtOrdinal(ordinal),
        _ => PagePosition::Edge,
    };
    if options.all {
        return everything(app, &service, request).await;
    }
    if app.out.json {
        let page = service.read_page(&request).await?;
        app.out.line(&page.to_json())?;
        return Ok(Exit::Ok);
    }
    let page = Joined::read(&service, &mut request).await?;
    readable(app, &page)?;
    Ok(Exit::Ok)
}

/// Writes the last page of a session for people.
pub async fn last_page(
    app: &mut App,
    store: &Arc<dyn Store>,
    session: &SessionId,
) -> Result<(), Failure> {
    let service = App::transcript(store);
    let mut request = PageRequest::newest(session.clone());
    let page = Joined::read(&service, &mut request).await?;
    readable(app, &page)
}

/// Writes all pages, from the beginning.
async fn everything(
    app: &mut App,
    service: &TranscriptService,
    mut request: PageRequest,
) -> Result<Exit, Failure> {
    let mut renderer = Renderer::default();
    loop {
        let next = if app.out.json {
            let page = service.read_page(&request).await?;
            for entry in &page.entries {
                app.out.line(&entry.to_json())?;
            }
            page.newer
        } else {
            let page = Joined::read(service, &mut request).await?.page;
            for entry in &page.entries {
                renderer.entry(&mut app.out, entry)?;
            }
            page.newer
        };
        match next {
            Some(cursor) => request = request.at_cursor(cursor),
            None => break,
        }
    }
    renderer.finish(&mut app.out)?;
    Ok(Exit::Ok)
}

/// A page whose fragment, if it had one, is a whole row.
struct Joined {
    page: Page,
}

impl Joined {
    /// Reads a page, and those after it that hold the rest of its row.
    ///
    /// A row that the request enters in its middle stays a fragment.
    async fn read(
        service: &TranscriptService,
        request: &mut PageRequest,
    ) -> Result<Self, TranscriptError> {
        let mut page = service.read_page(request).await?;
        let Some(Entry::Fragment {
            key,
            revision,
            byte_offset,
            total_bytes,
            members,
            data,
            ..
        }) = page.entries.first()
        else {
            return Ok(Self { page });
        };
        // A row that may be as large as a gibibyte is shown in part.
        let most = *folio_transcript::MAX_BYTES.end() as u64;
        if !members.is_empty() && *total_bytes > most {
            return Ok(Self { page });
        }
        let (key, revision, total) = (key.clone(), *revision, *total_bytes);
        // A fragment at the row's beginning leads on, one at its end back.
        let forward = *byte_offset == 0;
        let mut parts = vec![data.clone()];
        let mut bytes = data.len() as u64;
        while bytes < total {
            let next = if forward { &page.newer } else { &page.older };
            let Some(cursor) = next.clone() else { break };
            let mut follow = request.clone().at_cursor(cursor);
            follow.max_items = 1;
            follow.max_bytes = *folio_transcript::MAX_BYTES.end();
            let more = service.read_page(&follow).await?;
            match more.entries.first() {
                Some(Entry::Fragment {
                    key: same, data, ..
                }) if *same == key => {
                    bytes += data.len() as u64;
                    parts.push(data.clone());
                }
                _ => break,
            }
            if forward {
                page.newer = more.newer;
            } else {
                page.older = more.older;
            }
        }
        if bytes == total {
            if !forward {
                parts.reverse();
            }
            page.entries = vec![Entry::Row {
                key,
                revision,
                row: parts.concat(),
            }];
        }
        Ok(Self { page })
    }
}

/// Writes a page, and how to get to its neighbours.
fn readable(app: &mut App, page: &Joined) -> Result<(), Failure> {
    let page = &page.page;
    let events = page.through.get(RUNTIME_SOURCE).copied().unwrap_or(0);
    let head = format!(
        "{}  {}",
        app.out.paint(style::HEAD, page.session.as_str()),
        app.out.paint(
            style::DIM,
            &format!(
                "{} of the transcript at event {events}",
                count(page.entries.len() as u64, "row")
            )
        )
    );
    app.out.line(&head)?;
    app.out.line("")?;
    let mut renderer = Renderer::default();
    for entry in &page.entries {
        renderer.entry(&mut app.out, entry)?;
    }
    renderer.finish(&mut app.out)?;
    app.out.line("")?;
    for (name, cursor, end) in [
        ("older", &page.older, "This is the beginning."),
        ("newer", &page.newer, "This is the end."),
    ] {
        let text = match cursor {
            Some(_) if !app.keeps() => {
                format!("{name}: more rows; name a store that stays to read them")
            }
            Some(cursor) => {
                let rest = format!("show {} --cursor {cursor}", page.session.as_str());
                format!("{name}: {}", app.command(&rest))
            }
            None => end.to_owned(),
        };
        app.out.line(&app.out.paint(style::DIM, &text))?;
    }
    Ok(())
}
