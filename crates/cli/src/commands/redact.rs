//! `folio redact`: takes the payload out of rows, for every session that shares
//! them. Place and proof stay; the bytes are gone from the files after `folio
//! maintain`.
//!
//! With `--json` one line: `{"session_id","generation","ordinals":[n],
//! "facts":[{"source","seq"}]}`: the events and the entries of other logs whose
//! payload is gone.

use crate::app::App;
use crate::failure::{Exit, Failure};
use crate::output::style;
use crate::select;
use crate::text::count;
use folio_store::Redaction;
use serde_json::{Value, json};

/// Runs the command.
pub async fn run(app: &mut App, session: &str, keys: &[String]) -> Result<Exit, Failure> {
    let store = app.writer()?;
    let info = select::session(&*store, session, app.out.json).await?;
    let done = store.redact(&info.id, keys).await?;
    store.close().await?;
    if app.out.json {
        let facts: Vec<Value> = done
            .facts
            .iter()
            .map(|(source, seq)| json!({"source": source, "seq": seq}))
            .collect();
        let line = json!({
            "session_id": info.id.as_str(),
            "generation": done.generation,
            "ordinals": done.ordinals,
            "facts": facts,
        });
        app.out.line(&line.to_string())?;
        return Ok(Exit::Ok);
    }
    let line = format!(
        "{}  redacted: {}; generation {}",
        info.id,
        what(&done),
        done.generation
    );
    app.out.line(&line)?;
    let text = format!(
        "The bytes are gone from the files after `{}`.",
        app.command("maintain")
    );
    app.out.line(&app.out.paint(style::DIM, &text))?;
    Ok(Exit::Ok)
}

/// What lost its payload.
fn what(done: &Redaction) -> String {
    let mut parts = Vec::new();
    if !done.ordinals.is_empty() {
        let ordinals: Vec<String> = done.ordinals.iter().map(u64::to_string).collect();
        let events = count(done.ordinals.len() as u64, "event");
        parts.push(format!("{events} ({})", ordinals.join(", ")));
    }
    for (source, seq) in &done.facts {
        parts.push(format!("{source} {seq}"));
    }
    parts.join(", ")
}
