//! `folio open`: finds sessions, imports them, lists them, and shows the last
//! page of the newest one. Without a path it looks into the folders of the
//! agents that are known.
//!
//! With `--json` one line for each step: `{"import":…}` for each session found
//! (as `folio import`), `{"session":…}` for each session that they are in (as
//! `folio sessions`), and `{"page":…}` for the newest of these (as `folio
//! show`).

use super::{
    import,
    sessions::{Listed, sort},
    show,
};
use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::select;
use crate::text::count;
use folio_import::{ImportOptions, known_folders};
use folio_transcript::PageRequest;
use std::path::PathBuf;

/// The most sessions that people are shown; the newest.
const LISTED: usize = 20;

/// Runs the command.
pub async fn run(app: &mut App, mut paths: Vec<PathBuf>) -> Result<Exit, Failure> {
    if paths.is_empty() {
        paths = agents()?;
    }
    let found = import::find(&paths, None)?;
    let mut report = import::Report::new(&found, |line| format!(r#"{{"import":{line}}}"#));
    if found.files.is_empty() {
        let options = ImportOptions::default();
        import::import_all(&mut app.out, None, &found, options, &mut report).await?;
        return report.exit();
    }
    let store = app.maker()?;
    let options = ImportOptions::default();
    import::import_all(&mut app.out, Some(&store), &found, options, &mut report).await?;
    report.end(&mut app.out)?;

    let mut listed = Vec::new();
    for id in &report.sessions {
        let info = store.session(id).await?;
        listed.push(Listed::read(&store, info, app.out.json).await);
    }
    // The newest stands last, next to its page.
    sort(&mut listed);
    if app.out.json {
        for session in &listed {
            app.out
                .line(&format!(r#"{{"session":{}}}"#, session.to_json()))?;
        }
    } else {
        list(app, &listed)?;
    }
    let infos = listed.into_iter().map(|session| session.info).collect();
    if let Some(newest) = select::latest(&*store, infos).await? {
        if app.out.json {
            let request = PageRequest::newest(newest.id.clone());
            let page = App::transcript(&store).read_page(&request).await?;
            app.out.line(&format!(r#"{{"page":{}}}"#, page.to_json()))?;
        } else {
            app.out.line("")?;
            show::last_page(app, &store, &newest.id).await?;
        }
    }
    store.close().await?;
    report.exit()
}

fn list(app: &mut App, listed: &[Listed]) -> Result<(), Failure> {
    if listed.is_empty() {
        return Ok(());
    }
    app.out.line("")?;
    let hidden = listed.len().saturating_sub(LISTED);
    if hidden > 0 {
        let mut text = format!("… {}", count(hidden as u64, "older session"));
        if app.keeps() {
            text.push_str(": ");
            text.push_str(&app.command("sessions"));
        }
        app.out.line(&app.out.paint(style::DIM, &text))?;
    }
    for session in listed.iter().skip(hidden) {
        session.line(&mut app.out)?;
    }
    Ok(())
}

/// The folders where agents keep their sessions.
fn agents() -> Result<Vec<PathBuf>, Failure> {
    let home = etcetera::home_dir().map_err(|error| {
        let message = format!("your home folder is not known ({error}); name a file or a folder");
        Failure::not_found("home_unknown", message)
    })?;
    let folders = known_folders(&home, |name| std::env::var_os(name));
    if folders.is_empty() {
        let message = format!(
            "no agent that is known keeps sessions under {}; name a file or a folder",
            home.display()
        );
        return Err(Failure::not_found("no_sessions", message));
    }
    Ok(folders)
}
