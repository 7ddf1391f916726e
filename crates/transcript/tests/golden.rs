//! Pages, rows and cursors are what they were: the shapes that the
//! compatibility epoch stands for.
//!
//! `GOLDEN=write cargo test` makes the files anew; `cargo xtask epoch` says
//! what a change of one means.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_core::cursor::FragmentPlace;
use folio_core::{
    CanonicalEvent, Content, Cursor, Direction, Position, RuntimeEvent, SessionId, Watermarks,
};
use folio_projector::TranscriptProjector;
use folio_store::{AppendBatch, MemberWriter, NewSession};
use folio_testkit::event::Events;
use folio_transcript::{Entry, PageRequest, TranscriptService, encode_cursor};
use std::path::Path;
use std::sync::Arc;

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(name);
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == found,
        "{} changed; it now is:\n{found}",
        path.display()
    );
}

#[tokio::test]
async fn every_kind_of_row() {
    let store = folio_testkit::memory_store();
    let session = SessionId::new("golden").unwrap();
    store
        .create_session(NewSession::native(session.clone()))
        .await
        .unwrap();
    let mut e = Events::new("golden").run("r1", "t1");
    let system = "\"role\":\"system\",\"author\":\"system\"";
    let events = vec![
        e.raw("o1", &format!("{system},\"content\":{{\"kind\":\"run_opened\",\"route\":{{\"modelId\":\"m-1\"}},\"configuration\":{{}},\"root\":{{\"kind\":\"user\"}},\"source\":{{\"kind\":\"fresh\"}},\"lineage\":{{\"parentTurnId\":\"t0\"}}}}")),
        e.raw("u1", "\"role\":\"user\",\"author\":\"user\",\"content\":{\"kind\":\"text\",\"text\":\"caf\\u00e9 😀\\n\",\"displayText\":\"café\",\"attachments\":[{\"kind\":\"txt\"}],\"quotes\":[],\"inlineReferences\":[]}"),
        e.text("x1", "m1", false, "Looking."),
        e.raw("h1", "\"role\":\"model\",\"author\":\"agent\",\"refs\":{\"providerEventId\":\"m1\"},\"content\":{\"kind\":\"thinking\",\"text\":\"hm\",\"signature\":\"sig\"}"),
        e.raw("h2", "\"role\":\"model\",\"author\":\"agent\",\"refs\":{\"providerEventId\":\"m1\",\"contentIndex\":1},\"content\":{\"kind\":\"thinking\",\"text\":\"so\"}"),
        e.raw("c1", "\"role\":\"model\",\"author\":\"agent\",\"refs\":{\"stepId\":\"m1\"},\"content\":{\"kind\":\"function_call\",\"id\":\"call_0\",\"name\":\"Read\",\"args\":{\"b\":1,\"a\":1.0}},\"actions\":{\"stateDelta\":{\"displayName\":\"Read file\",\"intent\":\"look\",\"activityKind\":\"read\"}}"),
        e.raw("q1", &format!("{system},\"actions\":{{\"permissionRequest\":{{\"requestId\":\"p1\",\"toolUseId\":\"call_0\",\"toolName\":\"Read\",\"hint\":\"reads\"}}}}")),
        e.raw("d1", &format!("{system},\"actions\":{{\"permissionDecision\":{{\"requestId\":\"p1\",\"decision\":\"allow\",\"rememberForTurn\":true}}}}")),
        e.raw("f1", "\"role\":\"tool\",\"author\":\"tool\",\"content\":{\"kind\":\"function_response\",\"id\":\"call_0\",\"name\":\"Read\",\"result\":{\"kind\":\"text\",\"text\":\"body\"},\"isError\":true},\"actions\":{\"stateDelta\":{\"durationMs\":42}}"),
        e.raw("f2", "\"role\":\"tool\",\"author\":\"tool\",\"content\":{\"kind\":\"function_response\",\"id\":\"other\",\"name\":\"\",\"result\":{\"kind\":\"of a newer build\"}}"),
        e.usage("g1", "m1", 10, 5),
        e.raw("s1", "\"role\":\"user\",\"author\":\"user\",\"content\":{\"kind\":\"text\",\"text\":\"stop\",\"steering\":true}"),
        e.raw("k1", &format!("{system},\"content\":{{\"kind\":\"compaction\",\"throughOrdinal\":3,\"summary\":\"short\",\"tokensBefore\":9,\"trigger\":\"auto\"}}")),
        e.raw("n1", &format!("{system},\"content\":{{\"kind\":\"error\",\"message\":\"again\",\"code\":\"e1\"}}")),
        e.raw("n2", "\"role\":\"model\",\"author\":\"agent\",\"content\":{\"kind\":\"hologram\",\"data\":1}"),
        e.raw("y1", "\"role\":\"system\",\"author\":\"host\",\"content\":{\"kind\":\"extension\",\"namespace\":\"acme\",\"name\":\"score\",\"version\":2,\"criticality\":\"required\",\"payload\":{\"v\":1}}"),
        e.text("m2#0", "m2", true, "Hel"),
        e.text("m2#1", "m2", true, "lo"),
        e.raw("z1", &format!("{system},\"status\":\"failed\",\"actions\":{{\"endInvocation\":true,\"stateDelta\":{{\"failureClass\":\"tool_step_cap_reached\"}}}}")),
    ];
    store
        .append(&session, AppendBatch::native(events))
        .await
        .unwrap();
    let service = TranscriptService::new(Arc::clone(&store));
    let page = service
        .read_page(&PageRequest::newest(session.clone()))
        .await
        .unwrap();
    assert_eq!((page.older.as_ref(), page.newer.as_ref()), (None, None));
    check(
        "page.json",
        &(page.to_json().replace("},{\"key\"", "},\n{\"key\"") + "\n"),
    );
    for entry in &page.entries {
        let Entry::Row { row, .. } = entry else {
            continue;
        };
        let typed = TranscriptProjector::typed(row).unwrap();
        assert_eq!(&typed.to_json(), row, "a row is its type, written");
    }
    let redacted = [
        "user::u1",
        "assistant:r1:m1",
        "call:t1:call_0",
        "result:t1:call_0",
    ];
    let redacted = redacted.map(String::from);
    store.redact(&session, &redacted).await.unwrap();
    let page = service
        .read_page(&PageRequest::newest(session.clone()))
        .await
        .unwrap();
    assert_eq!(page.generation, 1);
    let mut rows = String::new();
    for entry in &page.entries {
        if let Entry::Row { key, row, .. } = entry
            && row.contains("redacted")
        {
            let typed = TranscriptProjector::typed(row).unwrap();
            assert_eq!(&typed.to_json(), row, "a row is its type, written");
            rows.push_str(&format!("{key} {row}\n"));
        }
    }
    check("redacted.txt", &rows);
    let mut small = PageRequest::newest(session);
    (small.max_bytes, small.max_items) = (64, 1);
    let page = service.read_page(&small).await.unwrap();
    check("fragment.json", &format!("{}\n", page.entries[0].to_json()));
}

#[test]
fn cursor_text() {
    let cursor = Cursor {
        session: SessionId::new("golden").unwrap(),
        incarnation: 0x0102_0304_0506_0708,
        generation: 2,
        through: Watermarks::from([("runtime".into(), 812)]),
        direction: Direction::Older,
        position: Position {
            ordinal: 700,
            slot: 3,
        },
        item: *b"12345678",
        fragment: None,
    };
    let plain = encode_cursor(&cursor);
    let fragment = Some(FragmentPlace {
        byte_offset: 65_536,
        total_bytes: 1 << 20,
        revision: 701,
        digest: [0xab; 32],
    });
    let inside = encode_cursor(&Cursor {
        direction: Direction::Newer,
        fragment,
        ..cursor
    });
    check("cursor.txt", &format!("{plain}\n{inside}\n"));
}

#[tokio::test]
async fn a_fragment_of_a_row_whose_member_is_kept_outside() {
    let store = folio_testkit::memory_store();
    let session = SessionId::new("golden").unwrap();
    let new = NewSession::native(session.clone());
    store.create_session(new).await.unwrap();
    let mut result = MemberWriter::new(&*store);
    result
        .json("{\"kind\":\"of a tool\",\"text\":\"")
        .await
        .unwrap();
    result
        .text(&"a line of it \u{1f600}\n".repeat(1_000))
        .await
        .unwrap();
    result.json("\"}").await.unwrap();
    let mut e = Events::new("golden").run("r1", "t1");
    let answer = e.result("f1", "call_0", "Read", "elsewhere");
    let mut answer = RuntimeEvent::from_json(&answer.to_json(&session)).unwrap();
    if let Some(Content::FunctionResponse(response)) = &mut answer.content {
        response.result = result.finish().await.unwrap();
    }
    let answer = CanonicalEvent::new(&answer).unwrap();
    let batch = AppendBatch::native(vec![answer]);
    store.append(&session, batch).await.unwrap();
    let service = TranscriptService::new(store);
    let request = PageRequest {
        direction: Some(Direction::Newer),
        max_bytes: 200,
        ..PageRequest::newest(session)
    };
    let page = service.read_page(&request).await.unwrap();
    let fragments: Vec<_> = page.entries.iter().map(Entry::to_json).collect();
    check(
        "fragment_members.json",
        &format!("{}\n", fragments.join("\n")),
    );
}
