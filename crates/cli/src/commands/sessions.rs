//! `folio sessions`: what the store holds.
//!
//! With `--json` one line for each session, by id:
//! `{"session_id","authority","followed","events","items","created_at",
//! "last_event_at","title","chain"}`. Times are milliseconds since 1970,
//! `last_event_at` is null where there is no event; `title` is the first line
//! that a person typed, at most 80 columns, or null.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::output::{Output, style};
use crate::select;
use crate::text::{hex, minute, number, one_line};
use folio_core::{Direction, SessionId, StoredMessage};
use folio_store::{SessionInfo, Store};
use folio_transcript::{Entry, PageRequest};
use std::sync::Arc;

/// Rows at the beginning of a session that are searched for its title.
const TITLE_ROWS: usize = 8;
/// Columns of a title.
const TITLE_WIDTH: usize = 80;

/// A session with what its listing says.
#[derive(Debug)]
pub struct Listed {
    /// The session.
    pub info: SessionInfo,
    /// When its last event happened; 0 where there is none.
    pub last: u64,
    title: Option<String>,
}

impl Listed {
    /// Reads what the listing of a session says.
    pub async fn read(store: &Arc<dyn Store>, info: SessionInfo) -> Self {
        // A damaged session is listed too; `verify` says what is wrong.
        let last = select::last_event_at(&**store, &info).await.unwrap_or(0);
        let title = title(store, &info.id).await;
        Self { info, last, title }
    }

    /// The session as a JSON line.
    pub fn to_json(&self) -> String {
        serde_json::json!({
            "session_id": self.info.id.as_str(),
            "authority": self.info.authority.as_str(),
            "followed": self.info.followed,
            "events": self.info.head,
            "items": self.info.items,
            "created_at": self.info.created_at,
            "last_event_at": (self.last > 0).then_some(self.last),
            "title": self.title,
            "chain": hex(&self.info.chain),
        })
        .to_string()
    }

    /// Writes the session for people.
    pub fn line(&self, out: &mut Output) -> Result<(), Failure> {
        let id = out.paint(style::HEAD, self.info.id.as_str());
        let facts = format!(
            "{:16}  {:>9} events",
            minute(self.last),
            number(self.info.head)
        );
        let title = self.title.as_deref().unwrap_or("(no prompt)");
        out.line(&format!("{id}  {}", out.paint(style::DIM, &facts)))?;
        out.line(&format!(
            "  {}",
            one_line(title, out.width.saturating_sub(2))
        ))
    }
}

/// The first line that a person typed.
async fn title(store: &Arc<dyn Store>, id: &SessionId) -> Option<String> {
    let mut request = PageRequest::newest(id.clone());
    request.direction = Some(Direction::Newer);
    request.max_items = TITLE_ROWS;
    let page = App::transcript(store).read_page(&request).await.ok()?;
    page.entries.iter().find_map(|entry| {
        let Entry::Row { row, .. } = entry else {
            return None;
        };
        match StoredMessage::from_json(row) {
            Ok(StoredMessage::User(row)) => {
                let text = row.display_text.as_deref().unwrap_or(&row.text);
                let line = text.lines().find(|line| !line.trim().is_empty())?;
                Some(one_line(line, TITLE_WIDTH))
            }
            _ => None,
        }
    })
}

/// Runs the command.
pub async fn run(app: &mut App) -> Result<Exit, Failure> {
    let store = app.reader()?;
    let mut listed = Vec::new();
    for info in select::all(&*store).await? {
        let session = Listed::read(&store, info).await;
        if app.out.json {
            app.out.line(&session.to_json())?;
        } else {
            listed.push(session);
        }
    }
    if app.out.json {
        return Ok(Exit::Ok);
    }
    if listed.is_empty() {
        let command = app.command("import PATH");
        app.out.line(&format!(
            "The store holds no session; `{command}` adds some."
        ))?;
    }
    // The newest stands last, next to the prompt.
    listed.sort_by(|a, b| (a.last, &a.info.id).cmp(&(b.last, &b.info.id)));
    for session in &listed {
        session.line(&mut app.out)?;
    }
    Ok(Exit::Ok)
}
