//! `folio sessions`: what the store holds.
//!
//! With `--json` one line for each session, by id:
//! `{"session_id","authority","followed","events","items","created_at",
//! "last_event_at","title","chain"}`. Times are milliseconds since 1970,
//! `last_event_at` is null where there is no event; `title` is the first line
//! that a person typed, at most 80 columns, or null. A fork has `forked_from`,
//! null where that session is deleted, and `inherited`, the last ordinal that it
//! shares with it, besides. Where time or title cannot be
//! read it is null too, and a warning on standard error says so. A session that
//! cannot be read at all is an error there, and the command ends with exit code
//! 6. For people the list is by time, the newest last.

use crate::app::App;
use crate::failure::{Exit, Failure, advice, warn};
use crate::output::{Output, style};
use crate::select;
use crate::text::{count, hex, minute, one_line};
use crate::walk::Seen;
use folio_core::{Direction, SessionId, StoredMessage};
use folio_store::{SessionInfo, Store};
use folio_transcript::{Entry, OnGap, PageRequest};
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
    /// When its last event happened: 0 where there is none, `None` where it
    /// cannot be read.
    pub last: Option<u64>,
    title: Title,
}

/// What a session is about.
#[derive(Debug)]
enum Title {
    /// The first line that a person typed.
    Line(String),
    /// Nobody typed anything near the beginning.
    None,
    /// It cannot be read.
    Damaged,
}

impl Listed {
    /// Reads what the listing of a session says; `json` is the form of
    /// warnings.
    pub async fn read(store: &Arc<dyn Store>, info: SessionInfo, json: bool) -> Self {
        // A session with damaged events is listed too.
        let lacks = |what: &str, code: &str, why: &str| {
            let id = &info.id;
            let message = format!(
                "the {what} of session {id} cannot be read: {why}; \
                 `folio verify {id}` says what is damaged"
            );
            warn(json, code, &message);
        };
        let last = match select::last_event_at(&**store, &info).await {
            Ok(last) => Some(last),
            Err(error) => {
                lacks("last event", error.code(), &advice(&error));
                None
            }
        };
        let title = match title(store, &info.id).await {
            Ok(title) => title,
            Err(failure) => {
                lacks("beginning", failure.code(), &failure.to_string());
                Title::Damaged
            }
        };
        Self { info, last, title }
    }

    /// The session as a JSON line.
    pub fn to_json(&self) -> String {
        let mut line = serde_json::json!({
            "session_id": self.info.id.as_str(),
            "authority": self.info.authority.as_str(),
            "followed": self.info.followed,
            "events": self.info.head,
            "items": self.info.items,
            "created_at": self.info.created_at,
            "last_event_at": self.last.filter(|last| *last > 0),
            "title": match &self.title {
                Title::Line(line) => Some(line),
                Title::None | Title::Damaged => None,
            },
            "chain": hex(&self.info.chain),
        });
        if self.info.inherited > 0 {
            let parent = self.info.forked_from.as_ref().map(SessionId::as_str);
            line["forked_from"] = parent.into();
            line["inherited"] = self.info.inherited.into();
        }
        line.to_string()
    }

    /// Writes the session for people.
    pub fn line(&self, out: &mut Output) -> Result<(), Failure> {
        let id = out.paint(style::HEAD, self.info.id.as_str());
        let facts = format!(
            "{:16}  {:>13}",
            self.last.map_or_else(|| "?".to_owned(), minute),
            count(self.info.head, "event")
        );
        let title = match &self.title {
            Title::Line(line) => line,
            Title::None => "(no prompt)",
            Title::Damaged => "?",
        };
        let fork = match (&self.info.forked_from, self.info.inherited) {
            (_, 0) => String::new(),
            (Some(parent), at) => format!("  fork of {parent} at {at}"),
            (None, at) => format!("  fork at {at} of a deleted session"),
        };
        let facts = format!("{facts}{fork}");
        out.line(&format!("{id}  {}", out.paint(style::DIM, &facts)))?;
        out.line(&format!(
            "  {}",
            one_line(title, out.width.saturating_sub(2))
        ))
    }
}

/// The first line that a person typed.
async fn title(store: &Arc<dyn Store>, id: &SessionId) -> Result<Title, Failure> {
    let mut request = PageRequest::newest(id.clone());
    request.direction = Some(Direction::Newer);
    request.max_items = TITLE_ROWS;
    // Damage behind the title takes nothing from it.
    request.on_gap = OnGap::Mark;
    let page = App::transcript(store).read_page(&request).await?;
    for entry in &page.entries {
        match entry {
            Entry::Gap { from, code, .. } => {
                let message = format!("there is damage at {from}");
                return Err(Failure::new(Exit::Store, code, message));
            }
            Entry::Row { row, .. } => {
                if let Ok(StoredMessage::User(row)) = StoredMessage::from_json(row) {
                    let text = row.display_text.as_deref().unwrap_or(&row.text);
                    if let Some(line) = text.lines().find(|line| !line.trim().is_empty()) {
                        return Ok(Title::Line(one_line(line, TITLE_WIDTH)));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Title::None)
}

/// Runs the command.
pub async fn run(app: &mut App) -> Result<Exit, Failure> {
    let store = app.reader()?;
    let json = app.out.json;
    let mut listed = Vec::new();
    let mut damaged = Vec::new();
    for seen in select::all(&*store).await? {
        match seen {
            Seen::Damaged(one) => damaged.push(one),
            Seen::Session(info) => {
                let session = Listed::read(&store, *info, json).await;
                if json {
                    app.out.line(&session.to_json())?;
                } else {
                    listed.push(session);
                }
            }
        }
    }
    if !json && listed.is_empty() && damaged.is_empty() {
        let command = app.command("import PATH");
        app.out.line(&format!(
            "The store holds no session; `{command}` adds some."
        ))?;
    }
    sort(&mut listed);
    for session in &listed {
        session.line(&mut app.out)?;
    }
    // The list is seen before what is missing from it.
    app.out.flush()?;
    let mut exit = Exit::Ok;
    for one in damaged {
        Failure::from(one).tell(json);
        exit = Exit::Store;
    }
    Ok(exit)
}

/// By time: the newest stands last, next to the prompt. One whose time is not
/// known stands first.
pub fn sort(listed: &mut [Listed]) {
    listed.sort_by(|a, b| (a.last, &a.info.id).cmp(&(b.last, &b.info.id)));
}
