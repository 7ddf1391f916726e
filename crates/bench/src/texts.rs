//! Real text, cut as a model streams it.

use folio_testkit::workload::Random;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What assistants wrote in real sessions, one text behind the other.
///
/// The session files are material beside the workspace, or in the folder that
/// `FOLIO_SHARED` names; nothing takes their place.
///
/// # Errors
/// Why there is none.
pub fn assistant_text() -> Result<String, String> {
    let shared = std::env::var_os("FOLIO_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("data/claude-code");
    let missing = |error: std::io::Error| {
        format!(
            "no real text: {}: {error}; set FOLIO_SHARED to the folder that holds data/",
            folder.display()
        )
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(missing)? {
        paths.push(entry.map_err(missing)?.path());
    }
    paths.sort();
    let mut text = String::new();
    for path in paths {
        if path.extension().is_some_and(|ext| ext == "jsonl") {
            let file = std::fs::read_to_string(&path).map_err(missing)?;
            file.lines().for_each(|line| add(&mut text, line));
        }
    }
    if text.is_empty() {
        return Err(format!("no assistant text in {}", folder.display()));
    }
    Ok(text)
}

/// Adds the text of a record, if an assistant wrote any. Session files have
/// broken lines, which hold none.
fn add(text: &mut String, line: &str) {
    let Ok(record) = serde_json::from_str::<Value>(line) else {
        return;
    };
    if record["type"] != "assistant" {
        return;
    }
    for part in record["message"]["content"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if part["type"] == "text" {
            text.push_str(part["text"].as_str().unwrap_or_default());
            text.push('\n');
        }
    }
}

/// A text in pieces of 4 to 40 characters.
pub fn chunks(text: &str) -> Vec<&str> {
    let mut random = Random::new(1);
    let mut rest = text;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let characters = 4 + random.below(37);
        let end = rest
            .char_indices()
            .nth(characters)
            .map_or(rest.len(), |(at, _)| at);
        let (chunk, after) = rest.split_at(end);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_make_up_the_text() {
        let text = "aé😀日本 and so on. ".repeat(40);
        let chunks = chunks(&text);
        assert_eq!(chunks.concat(), text);
        let (last, others) = chunks.split_last().expect("there are some");
        assert!(last.chars().count() <= 40);
        for chunk in others {
            assert!((4..=40).contains(&chunk.chars().count()));
        }
    }

    #[test]
    fn only_what_an_assistant_wrote_is_taken() {
        let mut text = String::new();
        add(
            &mut text,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"type":"tool_use"}]}}"#,
        );
        add(
            &mut text,
            r#"{"type":"user","message":{"content":[{"type":"text","text":"b"}]}}"#,
        );
        add(&mut text, r#"{"type":"assistant","message":"#);
        assert_eq!(text, "a\n");
    }
}
