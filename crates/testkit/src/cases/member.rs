//! Members that are kept outside of their events: the same events, in pieces.

use crate::check::{
    Bench, Row, append, code, create, is_sound, query, rows, rows_of, session_id, told_at,
    written_for,
};
use crate::conformance::{Case, Damage, StorePlace};
use crate::event::Events;
use folio_core::member::MAX_INLINE;
use folio_core::reduce::json_row;
use folio_core::{
    CanonicalEvent, Content, Direction, Field, Member, RuntimeEvent, SessionId, Stored,
};
use folio_store::{
    AppendBatch, BlobId, ErrorKind, ItemPage, ItemQuery, MAX_BLOB_CALL, MemberWriter, Start, Store,
};
use std::fmt::Write;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("member":
    an_event_is_the_same_wherever_its_member_is_kept,
    a_small_member_is_read_along_and_a_large_one_is_not,
    a_member_must_be_stored,
    a_member_is_json_of_its_length,
    what_stands_beside_members_is_bounded,
    a_member_is_written_as_it_comes,
    redaction_takes_the_member: Durable,
    deletion_takes_the_member: Durable,
    a_child_shares_the_member: Durable,
    a_damaged_piece_damages_what_needs_it: Damage,
);

type Place = Box<dyn StorePlace>;

const PIECE: usize = 64 << 10;

/// A tool's result of about so many bytes, as JSON.
fn result(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    text.push_str("{\"kind\":\"text\",\"text\":\"");
    let mut line = 0;
    while text.len() < bytes {
        write!(text, "line {line} of an answer, é日😀\\n").unwrap();
        line += 1;
    }
    text.push_str("\"}");
    text
}

/// A tool's answer that holds its result.
fn inline(events: &mut Events, id: &str, result: &str) -> CanonicalEvent {
    events.raw(id, &format!("\"role\":\"tool\",\"author\":\"tool\",\"content\":{{\"kind\":\"function_response\",\"id\":\"tool-{id}\",\"name\":\"Read\",\"result\":{result}}}"))
}

/// The same event with its result outside, and the text of that.
fn apart(event: &CanonicalEvent) -> (CanonicalEvent, String) {
    let json = event.to_json(&event.session_id);
    let mut apart = RuntimeEvent::from_json(&json).unwrap();
    let text = match &apart.content {
        Some(Content::FunctionResponse(response)) => response.result.inline().unwrap().to_string(),
        other => unreachable!("{other:?} answers nothing"),
    };
    let stored = Stored {
        len: text.len() as u64,
        sha256: BlobId::of(text.as_bytes()).0,
        // Whatever a caller says about it is not taken up.
        kind: Some("wrong".into()),
    };
    apart.store_member("content.result", stored).unwrap();
    (CanonicalEvent::new(&apart).unwrap(), text)
}

async fn put(store: &dyn Store, text: &str) -> BlobId {
    store.put_blob(text.into()).await.unwrap().id
}

/// Appends a tool's answer whose result is kept outside; answers its address.
async fn answer(s: &mut Bench, id: &str, bytes: usize) -> BlobId {
    let (event, text) = apart(&inline(&mut s.events, id, &result(bytes)));
    let blob = put(&*s.store, &text).await;
    s.append(vec![event]).await;
    blob
}

async fn page(store: &dyn Store, session: &SessionId, member_bytes: usize) -> ItemPage {
    let query = ItemQuery {
        member_bytes,
        ..query(Direction::Newer, Start::Edge)
    };
    store.read_items(session, query).await.unwrap()
}

async fn reopened(place: &Place, s: Bench) -> Bench {
    let Bench {
        store,
        session,
        events,
    } = s;
    store.close().await.unwrap();
    drop(store);
    Bench {
        store: place.reopen().await.unwrap(),
        session,
        events,
    }
}

async fn an_event_is_the_same_wherever_its_member_is_kept(place: Place) {
    let s = Bench::open(&*place).await;
    let other = create(&*s.store, "s2").await;
    let mut events = Events::new("s1");
    let inline: Vec<_> = [
        "{\"kind\":\"image\",\"data\":",
        "[",
        "{\"kind\":\"other\",\"x\":",
    ]
    .iter()
    .enumerate()
    .map(|(n, begin)| {
        let end = if *begin == "[" { "]" } else { "}" };
        let text = format!("{begin}{}{end}", result(20_000 + n));
        inline(&mut events, &format!("e{n}"), &text)
    })
    .collect();
    let mut apart: Vec<_> = Vec::new();
    for event in &inline {
        let (event, text) = self::apart(event);
        put(&*s.store, &text).await;
        apart.push(event);
    }
    s.append(apart.clone()).await;
    append(&*s.store, &other, inline.clone()).await;
    let heads = [&s.session, &other].map(|session| s.store.session(session));
    let [one, two] = heads;
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!((one.head, one.chain), (two.head, two.chain));
    let items = told_at(&*s.store, &s.session, 3).await;
    assert_eq!(items, told_at(&*s.store, &other, 3).await);
    // Each is known where the other one is stored.
    for (session, events) in [(&s.session, inline), (&other, apart)] {
        let repeat = append(&*s.store, session, events).await;
        assert!(repeat.events.iter().all(|event| event.present));
        assert_eq!(repeat.high_water, 3);
    }
    assert_eq!(is_sound(&*s.store, &s.session).await.blobs, 3);
    assert_eq!(is_sound(&*s.store, &other).await.blobs, 0);
    s.store.rebuild_index(&s.session).await.unwrap();
    assert_eq!(told_at(&*s.store, &s.session, 3).await, items);
}

async fn a_small_member_is_read_along_and_a_large_one_is_not(place: Place) {
    let mut s = Bench::open(&*place).await;
    let first = s.events.user("u", "before");
    s.append(vec![first]).await;
    let blob = answer(&mut s, "a", PIECE + 1).await;
    let len = usize::try_from(s.store.blob(&blob).await.unwrap().len).unwrap();
    let along = page(&*s.store, &s.session, len).await;
    let whole = rows_of(&along);
    assert!(whole[1].2.contains(&result(PIECE + 1)), "the row is whole");
    assert!(along.stats.bytes > len as u64);
    let apart = page(&*s.store, &s.session, len - 1).await;
    assert!(apart.stats.bytes < 2_000, "{:?}", apart.stats);
    assert_eq!(apart.items.len(), 2);
    assert!(apart.items.iter().all(|item| item.members.is_empty()));
    // A row without its member has a place for it, and nothing else differs.
    apart.items[1].show(2, |found| {
        assert!(found.unread.is_empty() && found.damaged.is_empty());
        let row = json_row(&found.material).unwrap();
        let [place] = &row.splices[..] else {
            unreachable!("one place: {row:?}");
        };
        assert_eq!(BlobId(place.member.sha256), blob);
        let mut text = row.text.clone();
        text.insert_str(place.at, &result(PIECE + 1));
        assert_eq!(text, whole[1].2);
    });
}

async fn a_member_must_be_stored(place: Place) {
    let mut s = Bench::open(&*place).await;
    let (event, text) = apart(&inline(&mut s.events, "a", &result(20_000)));
    let batch = AppendBatch::native(vec![s.events.user("u", "1"), event.clone()]);
    let error = s.refused(batch).await;
    assert_eq!(error.code(), "blob_not_found");
    assert!(s.stored().await.is_empty(), "nothing of the batch is kept");
    put(&*s.store, &text).await;
    s.append(vec![event]).await;
    s.is_sound().await;
}

async fn a_member_is_json_of_its_length(place: Place) {
    let mut s = Bench::open(&*place).await;
    let long = "x".repeat(20_000);
    let texts = [
        format!("\"{long}"),
        format!("[\"{long}\", 1]"),
        format!("\"{long}\" "),
        format!("{long}1"),
        format!("{{\"a\":\"{long}\",\"a\":1}}"),
        format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)),
    ];
    let (event, _) = apart(&inline(&mut s.events, "a", &result(20_000)));
    let mut wrong: Vec<_> = texts
        .iter()
        .map(|text| (text.as_str(), text.len()))
        .collect();
    let right = format!("\"{long}\"");
    wrong.push((&right, right.len() + 1));
    for (text, len) in wrong {
        put(&*s.store, text).await;
        let stored = Stored {
            len: len as u64,
            sha256: BlobId::of(text.as_bytes()).0,
            kind: None,
        };
        let event = event.clone().with_stored(Field::Result, &stored);
        let error = s.refused(AppendBatch::native(vec![event])).await;
        assert_eq!(error.code(), "member_invalid");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

async fn what_stands_beside_members_is_bounded(place: Place) {
    let mut s = Bench::open(&*place).await;
    let text = format!(
        "{},\"providerOutput\":\"{}\"",
        result(20_000),
        "x".repeat(MAX_INLINE)
    );
    let (event, text) = apart(&inline(&mut s.events, "a", &text));
    put(&*s.store, &text).await;
    let error = s.refused(AppendBatch::native(vec![event])).await;
    assert_eq!(error.code(), "limit_exceeded");
}

async fn a_member_is_written_as_it_comes(place: Place) {
    let mut s = Bench::open(&*place).await;
    // Small enough for the event, for one call, and for neither.
    for (n, lines) in [3, 3_000, 100_000].into_iter().enumerate() {
        let mut writer = MemberWriter::new(&*s.store);
        let mut whole = String::new();
        writer.json("{\"kind\":\"text\",\"text\":\"").await.unwrap();
        for line in 0..lines {
            let line = format!("\"line\" {line}\té😀");
            writer.text(&line).await.unwrap();
            whole.push_str(&line);
        }
        writer.json("\"}").await.unwrap();
        let member = writer.finish().await.unwrap();
        assert_eq!(member.inline().is_some(), n == 0);
        let empty = inline(&mut s.events, &format!("e{n}"), "0");
        let mut event = RuntimeEvent::from_json(&empty.to_json(&s.session)).unwrap();
        if let Some(Content::FunctionResponse(response)) = &mut event.content {
            response.result = member;
        }
        s.append(vec![CanonicalEvent::new(&event).unwrap()]).await;
        let wanted = folio_core::Json::string(&whole);
        let rows = s.rows().await;
        assert!(
            rows[n].2.contains(wanted.as_str()),
            "the row holds all of it"
        );
    }
    // However much of it comes at once.
    let mut writer = MemberWriter::new(&*s.store);
    let whole = format!("\"{}\"", "x".repeat(MAX_BLOB_CALL));
    writer.json(&whole).await.unwrap();
    let member = writer.finish().await.unwrap();
    let stored = matches!(&member, Member::Stored(stored) if stored.len == whole.len() as u64);
    assert!(stored, "{member:?}");
    let mut wrong = MemberWriter::new(&*s.store);
    assert_eq!(code(wrong.json("{ ").await), "member_invalid");
    let mut open = MemberWriter::new(&*s.store);
    open.json("[1").await.unwrap();
    assert_eq!(code(open.finish().await), "member_invalid");
    s.is_sound().await;
}

async fn redaction_takes_the_member(place: Place) {
    let mut s = Bench::open(&*place).await;
    let (event, text) = apart(&inline(&mut s.events, "a", &result(PIECE)));
    let blob = put(&*s.store, &text).await;
    s.append(vec![event.clone()]).await;
    let before = s.info().await;
    let keys = ["result:t1:tool-a".to_owned()];
    s.store.redact(&s.session, &keys).await.unwrap();
    let mut s = reopened(&place, s).await;
    assert_eq!(s.store.scrub().await.unwrap().blobs, 1);
    assert_eq!(code(s.store.blob(&blob).await), "blob_not_found");
    let rows = s.rows().await;
    assert!(rows[0].2.contains("[redacted]") && rows[0].2.contains("\"redacted\":true"));
    let stored = s.stored().await;
    assert!(stored[0].view().unwrap().stored.is_empty());
    assert_eq!(s.info().await.chain, before.chain);
    // The same event is still known, although what it names is gone.
    let again = s.append(vec![event]).await;
    assert!(again.events[0].present);
    s.is_sound().await;
    let last = s.events.user("u", "after");
    s.append(vec![last]).await;
}

async fn deletion_takes_the_member(place: Place) {
    let mut s = Bench::open(&*place).await;
    let blob = answer(&mut s, "a", PIECE).await;
    s.store.delete_session(&s.session, None).await.unwrap();
    let s = reopened(&place, s).await;
    assert_eq!(s.store.scrub().await.unwrap().blobs, 1);
    assert_eq!(code(s.store.blob(&blob).await), "blob_not_found");
}

async fn a_child_shares_the_member(place: Place) {
    let mut s = Bench::open(&*place).await;
    answer(&mut s, "a", 2 * PIECE).await;
    let whole: Vec<Row> = s.rows().await;
    let child = s.fork(1, "child").await;
    assert_eq!(rows(&*s.store, &child).await, whole);
    // What the child adds may name the same content.
    let mut events = Events::new("child");
    events.enter("r1", "t1");
    let (event, _) = apart(&inline(&mut events, "b", &result(2 * PIECE)));
    let batch = written_for(&child, AppendBatch::native(vec![event]));
    s.store.append(&child, batch).await.unwrap();
    s.store.delete_session(&s.session, None).await.unwrap();
    let s = reopened(&place, s).await;
    assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
    let child = session_id("child");
    let rows = rows(&*s.store, &child).await;
    assert_eq!((rows.len(), &rows[0]), (2, &whole[0]));
    assert_eq!(is_sound(&*s.store, &child).await.blobs, 1);
}

async fn a_damaged_piece_damages_what_needs_it(place: Place) {
    let mut s = Bench::open(&*place).await;
    let first = s.events.user("u1", "before");
    s.append(vec![first]).await;
    let large = answer(&mut s, "a", 3 * PIECE).await;
    answer(&mut s, "b", 20_000).await;
    let last = s.events.user("u2", "after");
    s.append(vec![last]).await;
    let whole = s.rows().await;
    s.store.close().await.unwrap();
    let Bench {
        store,
        session,
        events,
    } = s;
    drop(store);
    place.damage(Damage::Piece(&large, 1)).await.unwrap();
    let store = place.reopen().await.unwrap();
    let s = Bench {
        store,
        session,
        events,
    };
    // Whoever reads the whole of it is told, and nobody else.
    let along = page(&*s.store, &s.session, usize::MAX).await;
    let unread: Vec<_> = along
        .items
        .iter()
        .map(|item| item.unread.as_slice())
        .collect();
    assert_eq!(unread, [&[][..], &[2], &[], &[]]);
    for at in [0, 2, 3] {
        let row = crate::check::row(&along.items[at], 4);
        assert_eq!(row, whole[at]);
    }
    let apart = page(&*s.store, &s.session, 2 * PIECE).await;
    assert!(apart.items.iter().all(|item| item.unread.is_empty()));
    for (piece, is_whole) in [(0, true), (1, false), (2, true)] {
        let read = s.store.read_blob(&large, piece * PIECE as u64, PIECE).await;
        match read {
            Ok(bytes) => assert!(is_whole && bytes.len() == PIECE),
            Err(error) => {
                assert_eq!((error.code(), is_whole), ("blob_damaged", false));
                assert_eq!(error.kind(), ErrorKind::Corrupt);
            }
        }
    }
    let report = s.store.verify(&s.session).await.unwrap();
    let found: Vec<_> = report.findings.iter().map(|f| (f.code, f.at)).collect();
    assert_eq!(found, [("blob_damaged", Some(2))]);
}
