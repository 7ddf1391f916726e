//! Rows whose member is kept outside of its event, on every store: they are
//! the rows that they would be if it stood there, and cost what is shown.

use crate::common::{append, block_on, session, stores};
use folio::{
    CanonicalEvent, Content, CopyOptions, Direction, Entry, Member, OnGap, Page, PagePosition,
    PageRequest, RuntimeEvent, SessionId, Store, Stored, TranscriptService, copy_session,
};
use folio_store::BlobId;
use folio_testkit::check::told;
use folio_testkit::event::Events;
use std::sync::Arc;

const PIECE: usize = 64 << 10;

/// A text of so many bytes.
fn text(bytes: usize) -> String {
    let mut text: String = (0..bytes / 20).map(|n| format!("{n:09} é日😀\n")).collect();
    while text.len() < bytes {
        text.push('.');
    }
    text
}

/// A question, a tool's answers of some sizes, and what is said of them.
fn events(id: &str, sizes: &[usize]) -> Vec<CanonicalEvent> {
    let mut e = Events::new(id);
    let mut events = vec![e.user("u", "what does it say?")];
    for (n, bytes) in sizes.iter().enumerate() {
        events.push(e.result(&format!("r{n}"), &format!("c{n}"), "Read", &text(*bytes)));
    }
    events.push(e.text("m", "m", false, "this and that"));
    events
}

/// The same event with a large result outside, which is put into the store.
async fn apart(store: &dyn Store, event: &CanonicalEvent) -> CanonicalEvent {
    let mut event = RuntimeEvent::from_json(&event.to_json(&event.session_id)).unwrap();
    if let Some(Content::FunctionResponse(response)) = &mut event.content {
        let text = response.result.inline().unwrap().to_string();
        let put = store.put_blob(text.into_bytes()).await.unwrap();
        response.result = Member::Stored(Stored {
            len: put.len,
            sha256: put.id.0,
            kind: None,
        });
    }
    CanonicalEvent::new(&event).unwrap()
}

/// Two sessions of the same events, one with its members outside.
async fn pair(store: &dyn Store, sizes: &[usize]) -> [SessionId; 2] {
    let inline = session(store, "inline").await;
    append(store, &inline, &events("inline", sizes), 10).await;
    let outside = session(store, "outside").await;
    for event in events("outside", sizes) {
        let event = apart(store, &event).await;
        append(store, &outside, &[event], 1).await;
    }
    [inline, outside]
}

fn request(session: &SessionId, direction: Direction, max_bytes: usize) -> PageRequest {
    PageRequest {
        direction: Some(direction),
        max_bytes,
        ..PageRequest::newest(session.clone())
    }
}

fn onward(page: &Page, direction: Direction) -> Option<String> {
    match direction {
        Direction::Older => page.older.clone(),
        Direction::Newer => page.newer.clone(),
    }
}

/// Every entry of a walk but the digests of fragments, which tell where a
/// member is kept. The sizes of pages are taken in turn.
async fn walk(
    service: &TranscriptService,
    session: &SessionId,
    direction: Direction,
    sizes: &[usize],
) -> Vec<String> {
    let mut walked = Vec::new();
    let mut request = request(session, direction, sizes[0]);
    for size in sizes.iter().cycle().skip(1) {
        let page = service.read_page(&request).await.unwrap();
        let typed = service.read_typed_page(&request).await.unwrap();
        assert_eq!(typed.entries.len(), page.entries.len());
        for (entry, typed) in page.entries.iter().zip(&typed.entries) {
            walked.push(match (entry, typed) {
                (Entry::Row { row, .. }, Entry::Row { row: typed, .. }) => {
                    assert_eq!(&typed.to_json(), row);
                    format!("row {row}")
                }
                (
                    Entry::Fragment {
                        byte_offset,
                        total_bytes,
                        data,
                        ..
                    },
                    Entry::Fragment { data: same, .. },
                ) => {
                    assert_eq!(same, data);
                    format!("{byte_offset} of {total_bytes}: {data}")
                }
                other => panic!("{other:?}"),
            });
        }
        let Some(cursor) = onward(&page, direction) else {
            return walked;
        };
        request = PageRequest {
            max_bytes: *size,
            ..request.at_cursor(cursor)
        };
    }
    walked
}

#[test]
fn a_row_is_the_same_wherever_its_member_is_kept() {
    block_on(async {
        for opened in stores() {
            let store = &opened.store;
            let [inline, outside] = pair(&**store, &[20_000, 3 * PIECE + 5, 40_000]).await;
            let service = TranscriptService::new(Arc::clone(store));
            for direction in [Direction::Newer, Direction::Older] {
                // Within a piece, of pieces, of all, and of changing sizes.
                for sizes in [
                    &[1_000][..],
                    &[PIECE],
                    &[100_001],
                    &[1 << 20],
                    &[64, 5_000, 1 << 20, 70_000],
                ] {
                    let wanted = walk(&service, &inline, direction, sizes).await;
                    let found = walk(&service, &outside, direction, sizes).await;
                    assert!(found == wanted, "{}: {direction:?} {sizes:?}", opened.name);
                }
            }
        }
    });
}

#[test]
fn a_row_a_little_larger_than_the_page_comes_in_fragments() {
    block_on(async {
        for opened in stores() {
            let store = &opened.store;
            let [inline, outside] = pair(&**store, &[30_000]).await;
            let service = TranscriptService::new(Arc::clone(store));
            // Around the length of the member and around that of the row.
            for max_bytes in (31_400..32_200).step_by(13) {
                let wanted = walk(&service, &inline, Direction::Newer, &[max_bytes]).await;
                let found = walk(&service, &outside, Direction::Newer, &[max_bytes]).await;
                assert!(found == wanted, "{}: {max_bytes}", opened.name);
            }
        }
    });
}

/// The fragments of a row from its beginning on.
async fn fragments(service: &TranscriptService, session: &SessionId, size: usize) -> Vec<Entry> {
    let mut request = PageRequest {
        position: PagePosition::Around("result:t1:c0".into()),
        ..request(session, Direction::Newer, size)
    };
    let mut fragments = Vec::new();
    loop {
        let page = service.read_page(&request).await.unwrap();
        match page.entries.into_iter().next() {
            Some(fragment @ Entry::Fragment { .. }) => fragments.push(fragment),
            _ => return fragments,
        }
        let Some(cursor) = page.newer else {
            return fragments;
        };
        request = request.at_cursor(cursor);
    }
}

#[test]
fn a_client_can_check_what_it_put_together() {
    block_on(async {
        for opened in stores() {
            let store = &opened.store;
            let [_, outside] = pair(&**store, &[3 * PIECE]).await;
            let service = TranscriptService::new(Arc::clone(store));
            let parts = fragments(&service, &outside, 10_000).await;
            let mut row = String::new();
            let mut told = Vec::new();
            for part in &parts {
                let Entry::Fragment {
                    digest,
                    members,
                    data,
                    ..
                } = part
                else {
                    unreachable!("only fragments: {part:?}");
                };
                row.push_str(data);
                told.push((*digest, members.clone()));
            }
            told.dedup();
            let [(digest, members)] = &told[..] else {
                unreachable!("all fragments tell the same: {told:?}");
            };
            let [(at, member)] = &members[..] else {
                unreachable!("one member: {members:?}");
            };
            let (at, len) = (
                usize::try_from(*at).unwrap(),
                usize::try_from(member.len).unwrap(),
            );
            let content = &row.as_bytes()[at..at + len];
            assert_eq!(folio_codec::sha256(content), member.sha256);
            let mut hashed = row.as_bytes()[..at].to_vec();
            hashed.push(0);
            hashed.extend(member.len.to_le_bytes());
            hashed.extend(member.sha256);
            hashed.extend(&row.as_bytes()[at + len..]);
            assert_eq!(folio_codec::sha256(&hashed), *digest);
            let json = parts[0].to_json();
            let address = BlobId(member.sha256);
            let wanted = format!(
                "\"members\":[{{\"byte_offset\":{at},\"total_bytes\":{len},\"digest\":\"sha256:{address}\"}}],\"data\":"
            );
            assert!(json.contains(&wanted), "{}", &json[..400]);
        }
    });
}

#[test]
fn a_redacted_row_is_not_gone_on_with() {
    block_on(async {
        for opened in stores() {
            let store = &opened.store;
            let [_, outside] = pair(&**store, &[3 * PIECE]).await;
            let service = TranscriptService::new(Arc::clone(store));
            let first = PageRequest {
                position: PagePosition::Around("result:t1:c0".into()),
                ..request(&outside, Direction::Newer, 10_000)
            };
            let page = service.read_page(&first).await.unwrap();
            let keys = ["result:t1:c0".to_owned()];
            store.redact(&outside, &keys).await.unwrap();
            let next = first.clone().at_cursor(page.newer.unwrap());
            let error = service.read_page(&next).await.unwrap_err();
            assert_eq!(error.code(), "item_changed", "{error}");
            let page = service.read_page(&first).await.unwrap();
            assert!(page.to_json().contains("[redacted]"));
        }
    });
}

#[test]
fn a_copy_holds_the_members() {
    block_on(async {
        let sizes = [3 * PIECE, 20_000];
        let opened = stores();
        for from in &opened {
            for to in stores() {
                let id = match from
                    .store
                    .session(&SessionId::new("outside").unwrap())
                    .await
                {
                    Ok(info) => info.id,
                    Err(_) => pair(&*from.store, &sizes).await[1].clone(),
                };
                let options = CopyOptions::default();
                let copy = copy_session(&*from.store, &*to.store, &id, &options).await;
                assert_eq!(copy.unwrap().blobs, 2);
                let (here, there) = (told(&*from.store, &id).await, told(&*to.store, &id).await);
                assert!(here == there, "{} to {}", from.name, to.name);
            }
        }
    });
}

#[test]
fn a_damaged_piece_is_told_by_the_fragments_that_show_it() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("folio.db");
        let store = folio::open_sqlite(&path).unwrap();
        let [_, outside] = pair(&*store, &[3 * PIECE]).await;
        store.close().await.unwrap();
        drop(store);
        let file = rusqlite::Connection::open(&path).unwrap();
        let damage = "UPDATE pieces SET body = CAST(body || x'00' AS BLOB) WHERE k & 0xfffff = 1";
        assert_eq!(file.execute(damage, ()).unwrap(), 1);
        drop(file);
        let store = folio::open_sqlite(&path).unwrap();
        let service = TranscriptService::new(Arc::clone(&store));
        // The newest page, up to the row that is too large for it, is whole.
        let newest = request(&outside, Direction::Older, 1_000);
        let page = service.read_page(&newest).await.unwrap();
        assert!(page.to_json().contains("this and that"));
        for (direction, walked) in [(Direction::Newer, 3), (Direction::Older, 2)] {
            let mut request = PageRequest {
                position: PagePosition::Around("result:t1:c0".into()),
                ..request(&outside, direction, 20_000)
            };
            let mut read = 0;
            let error = loop {
                match service.read_page(&request).await {
                    Ok(page) => request = request.at_cursor(onward(&page, direction).unwrap()),
                    Err(error) => break error,
                }
                read += 1;
            };
            assert_eq!(error.code(), "blob_damaged", "{error}");
            assert!(read >= walked, "{direction:?}: {read} fragments are whole");
            // Who takes gaps is told and led past the row.
            request.on_gap = OnGap::Mark;
            let page = service.read_page(&request).await.unwrap();
            let json = page.to_json();
            assert!(
                json.contains("\"from\":2,\"to\":2,\"code\":\"projection_gap\""),
                "{json}"
            );
            let next = request.at_cursor(onward(&page, direction).unwrap());
            let page = service.read_page(&next).await.unwrap();
            let beyond = match direction {
                Direction::Newer => "this and that",
                Direction::Older => "what does it say?",
            };
            assert!(page.to_json().contains(beyond));
        }
        // A page that would hold the row says which event it cannot show.
        let large = request(&outside, Direction::Older, 1 << 20);
        let error = service.read_page(&large).await.unwrap_err();
        assert_eq!(error.code(), "projection_gap", "{error}");
        let marked = PageRequest {
            on_gap: OnGap::Mark,
            ..large
        };
        assert_eq!(service.read_page(&marked).await.unwrap().entries.len(), 3);
    });
}
