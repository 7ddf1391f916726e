//! The raw events of a store are the same bytes before its chunks are packed,
//! after, and when their stream has settled; and the same as where nothing was
//! packed.

mod support;

use folio_core::{CanonicalEvent, SessionId};
use folio_store::{AppendBatch, NewSession, Store};
use folio_testkit::event::Events;
use std::sync::Arc;
use support::{KINDS, Place};

fn open(place: &Place, kind: &str) -> Arc<dyn Store> {
    match kind {
        "sqlite" => {
            let config = folio_store_sqlite::SqliteConfig::new(place.store());
            Arc::new(folio_store_sqlite::open(&config).expect("a store"))
        }
        _ => {
            let config = folio_store_redb::RedbConfig::new(place.store());
            Arc::new(folio_store_redb::open(&config).expect("a store"))
        }
    }
}

/// Appends each batch, closes the store and exports it.
fn export(place: &Place, kind: &str, batches: &[&[CanonicalEvent]]) -> String {
    let store = open(place, kind);
    let id = SessionId::new("s1").expect("an id");
    let work = async {
        match store.create_session(NewSession::native(id.clone())).await {
            Err(error) if error.code() != "session_exists" => return Err(error),
            _ => {}
        }
        for batch in batches {
            store
                .append(&id, AppendBatch::native(batch.to_vec()))
                .await?;
        }
        store.close().await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(work).expect("appends");
    drop(store);
    place.ok(&["--json", "events", "s1"])
}

#[test]
fn packing_and_settling_change_no_byte_of_the_raw_events() {
    let mut events = Events::new("s1");
    let words: Vec<String> = (0..50).map(|n| format!("wörd {n} \"quoted\"\n")).collect();
    let mut chunks = vec![events.user("u", "say something")];
    for (n, word) in words.iter().enumerate() {
        chunks.push(events.thinking(&format!("h#{n}"), "m", true, word));
        chunks.push(events.text(&format!("foreign-{n}"), "m", true, word));
    }
    let usage = [events.usage("usage", "m", 1, 2)];
    let finals = [
        events.thinking("thought", "m", false, &words.concat()),
        events.text("answer", "m", false, &words.concat()),
        events.end("end", "completed"),
    ];
    let all = [&chunks[..], &usage, &finals].concat();
    for kind in KINDS {
        let whole = export(&Place::of(kind), kind, &[&all]);
        assert_eq!(whole.lines().count(), all.len());
        let place = Place::of(kind);
        let each: Vec<_> = chunks.chunks(1).collect();
        for batches in [&each[..], &[&usage[..]], &[&finals[..]]] {
            let told = export(&place, kind, batches);
            assert!(whole.starts_with(&told), "{kind}: {told}");
        }
        assert_eq!(place.ok(&["--json", "events", "s1"]), whole);
        place.ok(&["verify", "s1"]);
    }
}
