//! A tool's result that is kept outside of its event, as the commands show it:
//! exports hold it whole, as if it stood in the event.

mod support;

use folio_core::{CanonicalEvent, RuntimeEvent, SessionId};
use folio_store::{AppendBatch, MemberWriter, NewSession, Store};
use folio_testkit::event::Events;
use serde_json::Value;
use std::sync::Arc;
use support::Place;

/// A store of a kind with a session `s1` whose tool answers at length.
fn filled(kind: &'static str, bytes: usize) -> (Place, String) {
    let place = Place::of(kind);
    let text = "what a tool said, é 日本 😀\n".repeat(bytes / 36);
    let store: Arc<dyn Store> = match kind {
        "sqlite" => {
            let config = folio_store_sqlite::SqliteConfig::new(place.store());
            Arc::new(folio_store_sqlite::open(&config).expect("a new store"))
        }
        _ => {
            let config = folio_store_redb::RedbConfig::new(place.store());
            Arc::new(folio_store_redb::open(&config).expect("a new store"))
        }
    };
    let work = async {
        let id = SessionId::new("s1").expect("an id");
        let new = NewSession::native(id.clone());
        store.create_session(new).await?;
        let mut e = Events::new("s1");
        let question = e.user("u", "what does it say?");
        let answer = e.result("r", "c", "Read", "elsewhere");
        let mut result = MemberWriter::new(&*store);
        result.json("{\"kind\":\"text\",\"text\":\"").await?;
        result.text(&text).await?;
        result.json("\"}").await?;
        let mut event = RuntimeEvent::from_json(&answer.to_json(&id)).expect("an event");
        if let Some(folio_core::Content::FunctionResponse(response)) = &mut event.content {
            response.result = result.finish().await?;
        }
        let answer = CanonicalEvent::new(&event).expect("an event");
        assert!(!answer.stored.is_empty(), "it is kept outside");
        let batch = AppendBatch::native(vec![question, answer]);
        store.append(&id, batch).await?;
        store.close().await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime
        .expect("a runtime")
        .block_on(work)
        .expect("a session");
    (place, text)
}

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path).and_then(Value::as_str)
}

#[test]
fn what_is_exported_holds_the_member() {
    for kind in ["sqlite", "redb"] {
        for bytes in [100_000, 6 << 20] {
            let (place, text) = filled(kind, bytes);
            let events = place.json(&["events", "s1"]);
            let result = at(&events[1], "/event/content/result/text");
            assert!(result == Some(&text), "{kind}: the event is whole");
            let line = serde_json::to_string(&events[1]["event"]).expect("JSON");
            let again = RuntimeEvent::from_json(&line).expect("an event");
            assert!(CanonicalEvent::new(&again).is_ok_and(|event| event.stored.is_empty()));
            let rows = place.json(&["export", "s1"]);
            assert_eq!(rows.len(), 2);
            assert!(
                at(&rows[1], "/content/text") == Some(&text),
                "{kind}: the row is whole"
            );
            let report = &place.json(&["verify", "s1"])[0];
            assert_eq!(report["ok"], true, "{report}");
            let shown = place.ok(&["show", "s1"]);
            assert!(shown.contains("what a tool said"), "{shown}");
        }
    }
}

#[test]
fn what_is_redacted_is_exported_without_it() {
    let (place, _) = filled("sqlite", 100_000);
    place.ok(&["redact", "s1", "result:t1:c"]);
    for command in ["events", "export"] {
        let output = place.ok(&["--json", command, "s1"]);
        assert!(!output.contains("what a tool said") && output.contains("[redacted]"));
    }
    // It says on the side that bytes wait for a rewrite of the file.
    let ran = place.run(&["--json", "verify", "s1"]);
    assert!(ran.stdout.contains("\"ok\":true"), "{}", ran.stdout);
}
