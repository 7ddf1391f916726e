//! Whether two translations are the same but for the numbers of lines.
//!
//! What has no id in its source is named by its place, `L<line>`, alone or
//! behind `run-` or `turn-`. Blank lines move these places without saying
//! anything else, so a comparison may leave them out.

use folio_core::canonical::event_json;
use folio_core::{CanonicalEvent, Fact};
use folio_store::{StoreError, StoredEvent};

/// Whether a stored event is `ours`, places left out.
///
/// # Errors
/// `undecodable` where a newer build wrote it.
pub(crate) fn same_event(stored: &StoredEvent, ours: &CanonicalEvent) -> Result<bool, StoreError> {
    let theirs = event_json(&stored.view()?, &stored.spine, &ours.session_id);
    // What an import wrote stands whole in its events.
    let Some(theirs) = theirs.into_whole() else {
        return Ok(false);
    };
    Ok(without_places(&theirs) == without_places(&ours.to_json(&ours.session_id)))
}

/// Whether a stored note is `ours`, places left out.
pub(crate) fn same_note(stored: &Fact, ours: &Fact) -> bool {
    without_places(&stored.canonical()) == without_places(&ours.canonical())
}

/// A JSON text whose strings no longer tell on which line something stood.
fn without_places(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('"') {
        let (before, string) = rest.split_at(at + 1);
        out.push_str(before);
        rest = string;
        if before.ends_with("\\\"") {
            continue;
        }
        for prefix in ["", "run-", "turn-"] {
            let digits = rest
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix('L'))
                .filter(|digits| digits.starts_with(|c: char| c.is_ascii_digit()));
            if let Some(digits) = digits {
                out.push_str(prefix);
                out.push('L');
                rest = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
                break;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_places_are_left_out() {
        let cases = [
            (
                r#"{"id":"L12-0","run":"run-L7"}"#,
                r#"{"id":"L","run":"run-L"}"#,
            ),
            (
                r#"{"id":"turn-L3","call":"L3-2/0"}"#,
                r#"{"id":"turn-L","call":"L/0"}"#,
            ),
            (
                r#"{"text":"see L5","x":"Lx"}"#,
                r#"{"text":"see L5","x":"Lx"}"#,
            ),
            (r#"{"text":"\"L5\""}"#, r#"{"text":"\"L5\""}"#),
        ];
        for (json, expected) in cases {
            assert_eq!(without_places(json), expected);
        }
    }
}
