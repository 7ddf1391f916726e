//! Blobs: content by its digest, there as long as somebody needs it.

use crate::check::{Bench, append, code, create, fork, is_sound, session_id, written_for};
use crate::conformance::{Case, StorePlace};
use folio_core::{CanonicalEvent, SessionId};
use folio_store::{AppendBatch, BlobId, BlobInfo, BlobUpload, ErrorKind, MAX_BLOB_CALL, Store};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("blob":
    what_was_put_is_read,
    an_empty_blob_is_one,
    ranges_are_read_at_any_border,
    the_address_is_the_digest,
    the_same_content_is_one_blob,
    content_may_arrive_in_odd_pieces,
    an_upload_of_nothing_is_an_empty_blob,
    an_upload_of_known_content_is_the_known_blob,
    uploads_do_not_mix,
    an_upload_ends_once,
    an_unknown_upload_is_refused,
    one_call_has_a_limit,
    an_unknown_blob_is_not_found,
    an_event_cites_a_blob_that_is_stored,
    a_missing_blob_refuses_the_batch,
    a_citation_names_an_event_of_the_batch,
    what_is_present_cites_nothing_new,
    one_event_may_cite_many_and_many_events_one,
    citations_are_listed_in_order,
    a_child_cites_what_its_prefix_cites,
    an_open_handle_keeps_what_it_put,
    a_cited_blob_outlives_the_scrub,
    a_blob_is_checked_by_verify,
    redaction_takes_the_citation,
    a_blob_of_a_gone_handle_is_collected: MultiProcess,
    an_upload_of_a_gone_handle_is_collected: MultiProcess,
    an_upload_belongs_to_its_handle: MultiProcess,
    the_last_citation_keeps_a_blob: MultiProcess,
    a_citation_of_the_prefix_outlives_the_parent: MultiProcess,
    another_handle_reads_and_cites: MultiProcess,
    a_blob_is_there_after_reopening: Durable,
    what_nobody_cites_is_collected_after_reopening: Durable,
    an_upload_whose_commit_failed_is_lost: FailedCommit,
);

type Place = Box<dyn StorePlace>;

/// Bytes of one row: what lies at its borders is what goes wrong.
const PIECE: usize = 64 << 10;

/// So many bytes, no two stretches of which are alike.
fn content(bytes: usize) -> Vec<u8> {
    let mut random = crate::workload::Random::new(bytes as u64);
    let words = (0..bytes.div_ceil(8)).flat_map(|_| random.number().to_le_bytes());
    let mut content: Vec<u8> = words.collect();
    content.truncate(bytes);
    content
}

async fn put(store: &dyn Store, content: &[u8]) -> BlobInfo {
    store.put_blob(content.to_vec()).await.unwrap()
}

/// The whole of a blob, read in bounded calls.
async fn whole(store: &dyn Store, id: &BlobId) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let more = store
            .read_blob(id, all.len() as u64, 100_000)
            .await
            .unwrap();
        if more.is_empty() {
            return all;
        }
        assert!(more.len() <= 100_000, "a bounded read");
        all.extend(more);
    }
}

/// A batch of one event that cites blobs.
fn citing(event: CanonicalEvent, blobs: &[BlobId]) -> AppendBatch {
    AppendBatch {
        cites: blobs.iter().map(|blob| (0, *blob)).collect(),
        ..AppendBatch::native(vec![event])
    }
}

async fn cite(store: &dyn Store, session: &SessionId, event: CanonicalEvent, blobs: &[BlobId]) {
    let batch = written_for(session, citing(event, blobs));
    store.append(session, batch).await.unwrap();
}

async fn cited(store: &dyn Store, session: &SessionId) -> Vec<(u64, BlobId)> {
    store.citations(session, 1, 1_000).await.unwrap()
}

async fn what_was_put_is_read(place: Place) {
    let s = Bench::open(&*place).await;
    for bytes in [1, 100, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 300_007] {
        let content = content(bytes);
        let info = put(&*s.store, &content).await;
        assert_eq!(info.len, bytes as u64);
        assert_eq!(s.store.blob(&info.id).await.unwrap(), info);
        let read = s.store.read_blob(&info.id, 0, usize::MAX).await.unwrap();
        assert!(read == content, "{bytes} bytes come back");
        assert!(whole(&*s.store, &info.id).await == content);
    }
}

async fn an_empty_blob_is_one(place: Place) {
    let mut s = Bench::open(&*place).await;
    let info = put(&*s.store, b"").await;
    assert_eq!((info.id, info.len), (BlobId::of(b""), 0));
    assert_eq!(s.store.blob(&info.id).await.unwrap(), info);
    for offset in [0, 1, u64::MAX] {
        let read = s.store.read_blob(&info.id, offset, 10).await.unwrap();
        assert!(read.is_empty());
    }
    let event = s.events.user("a", "1");
    cite(&*s.store, &s.session, event, &[info.id]).await;
    assert_eq!(is_sound(&*s.store, &s.session).await.blobs, 1);
}

async fn ranges_are_read_at_any_border(place: Place) {
    let s = Bench::open(&*place).await;
    let content = content(2 * PIECE + 17);
    let id = put(&*s.store, &content).await.id;
    let len = content.len();
    let borders = [
        0,
        1,
        PIECE - 1,
        PIECE,
        PIECE + 1,
        2 * PIECE - 1,
        2 * PIECE,
        len - 1,
        len,
        len + 1,
        usize::MAX,
    ];
    for offset in borders {
        for max in [0, 1, 2, 16, PIECE - 1, PIECE, PIECE + 1, len, usize::MAX] {
            let read = s.store.read_blob(&id, offset as u64, max).await.unwrap();
            let from = offset.min(len);
            let to = from.saturating_add(max).min(len);
            assert!(read == content[from..to], "{max} bytes from {offset} on");
        }
    }
}

async fn the_address_is_the_digest(place: Place) {
    let s = Bench::open(&*place).await;
    let id = put(&*s.store, b"abc").await.id;
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(id.to_string(), known);
    assert_eq!(BlobId::parse(known), Some(id));
    assert_eq!(id, BlobId::of(b"abc"));
}

async fn the_same_content_is_one_blob(place: Place) {
    let s = Bench::open(&*place).await;
    let content = content(PIECE + 5);
    let first = put(&*s.store, &content).await;
    assert_eq!(put(&*s.store, &content).await, first);
    let upload = s.store.begin_blob().await.unwrap();
    s.store.extend_blob(upload, content.clone()).await.unwrap();
    assert_eq!(s.store.finish_blob(upload).await.unwrap(), first);
    assert!(whole(&*s.store, &first.id).await == content);
}

async fn content_may_arrive_in_odd_pieces(place: Place) {
    let s = Bench::open(&*place).await;
    let content = content(3 * PIECE + 1_234);
    let alike = BlobInfo {
        id: BlobId::of(&content),
        len: content.len() as u64,
    };
    let cuts = [
        vec![content.len()],
        vec![1, PIECE - 1, 1, PIECE, PIECE - 1],
        vec![PIECE, PIECE, PIECE],
        vec![0, PIECE + 1, 0, 0, 7],
        vec![2 * PIECE + 3, 1],
    ];
    for (n, cuts) in cuts.into_iter().enumerate() {
        // Another content each time, so that it is not known yet.
        let mut content = content.clone();
        content[0] = u8::try_from(n).unwrap();
        let upload = s.store.begin_blob().await.unwrap();
        let mut rest = &content[..];
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut);
            s.store.extend_blob(upload, piece.to_vec()).await.unwrap();
            rest = behind;
        }
        s.store.extend_blob(upload, rest.to_vec()).await.unwrap();
        let id = BlobId::of(&content);
        let missing = s.store.blob(&id).await;
        assert_eq!(code(missing), "blob_not_found", "it is not whole yet");
        let info = s.store.finish_blob(upload).await.unwrap();
        assert_eq!(info, BlobInfo { id, ..alike });
        assert!(whole(&*s.store, &id).await == content);
    }
}

async fn an_upload_of_nothing_is_an_empty_blob(place: Place) {
    let s = Bench::open(&*place).await;
    let upload = s.store.begin_blob().await.unwrap();
    let info = s.store.finish_blob(upload).await.unwrap();
    assert_eq!((info.id, info.len), (BlobId::of(b""), 0));
}

async fn an_upload_of_known_content_is_the_known_blob(place: Place) {
    let s = Bench::open(&*place).await;
    let content = content(2 * PIECE + 9);
    let uploads = [
        s.store.begin_blob().await.unwrap(),
        s.store.begin_blob().await.unwrap(),
    ];
    for upload in uploads {
        for piece in content.chunks(50_000) {
            s.store.extend_blob(upload, piece.to_vec()).await.unwrap();
        }
    }
    let first = s.store.finish_blob(uploads[0]).await.unwrap();
    assert_eq!(s.store.finish_blob(uploads[1]).await.unwrap(), first);
    assert!(whole(&*s.store, &first.id).await == content);
    assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
    assert!(whole(&*s.store, &first.id).await == content);
}

async fn uploads_do_not_mix(place: Place) {
    let s = Bench::open(&*place).await;
    let (one, two) = (content(2 * PIECE), content(2 * PIECE + 1));
    let a = s.store.begin_blob().await.unwrap();
    let b = s.store.begin_blob().await.unwrap();
    assert_ne!(a, b);
    for (x, y) in one.chunks(30_000).zip(two.chunks(30_000)) {
        s.store.extend_blob(a, x.to_vec()).await.unwrap();
        s.store.extend_blob(b, y.to_vec()).await.unwrap();
    }
    let a = s.store.finish_blob(a).await.unwrap().id;
    let b = s.store.finish_blob(b).await.unwrap().id;
    assert!(whole(&*s.store, &a).await == one);
    assert!(whole(&*s.store, &b).await == two);
}

async fn an_upload_ends_once(place: Place) {
    let s = Bench::open(&*place).await;
    let upload = s.store.begin_blob().await.unwrap();
    s.store.extend_blob(upload, vec![1]).await.unwrap();
    s.store.finish_blob(upload).await.unwrap();
    let codes = [
        code(s.store.finish_blob(upload).await),
        code(s.store.extend_blob(upload, vec![2]).await),
    ];
    assert_eq!(codes, ["upload_unknown"; 2]);
}

async fn an_unknown_upload_is_refused(place: Place) {
    let s = Bench::open(&*place).await;
    let unknown = BlobUpload(77);
    let extended = s.store.extend_blob(unknown, vec![1]).await;
    let error = extended.unwrap_err();
    assert_eq!(error.code(), "upload_unknown");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(code(s.store.finish_blob(unknown).await), "upload_unknown");
}

async fn one_call_has_a_limit(place: Place) {
    let s = Bench::open(&*place).await;
    let large = vec![0; MAX_BLOB_CALL + 1];
    let error = s.store.put_blob(large.clone()).await.unwrap_err();
    assert_eq!(error.code(), "limit_exceeded");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let upload = s.store.begin_blob().await.unwrap();
    let refused = s.store.extend_blob(upload, large).await;
    assert_eq!(code(refused), "limit_exceeded");
    // The upload is none the worse, and piece by piece there is no limit.
    for byte in [0, 1] {
        let most = vec![byte; MAX_BLOB_CALL];
        s.store.extend_blob(upload, most).await.unwrap();
    }
    let info = s.store.finish_blob(upload).await.unwrap();
    assert_eq!(info.len, 2 * MAX_BLOB_CALL as u64);
    let read = s.store.read_blob(&info.id, 1, usize::MAX).await.unwrap();
    assert_eq!(read.len(), MAX_BLOB_CALL, "a read has the same limit");
    let end = info.len - 2;
    assert_eq!(s.store.read_blob(&info.id, end, 9).await.unwrap(), [1, 1]);
}

async fn an_unknown_blob_is_not_found(place: Place) {
    let s = Bench::open(&*place).await;
    let id = BlobId::of(b"nothing");
    let error = s.store.blob(&id).await.unwrap_err();
    assert_eq!(error.code(), "blob_not_found");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&id.to_string()));
    let read = s.store.read_blob(&id, 0, 1).await;
    assert_eq!(code(read), "blob_not_found");
}

async fn an_event_cites_a_blob_that_is_stored(place: Place) {
    let mut s = Bench::open(&*place).await;
    let id = put(&*s.store, b"content").await.id;
    assert!(cited(&*s.store, &s.session).await.is_empty());
    let plain = s.events.user("a", "1");
    s.append(vec![plain]).await;
    let event = s.events.user("b", "2");
    cite(&*s.store, &s.session, event, &[id]).await;
    assert_eq!(cited(&*s.store, &s.session).await, [(2, id)]);
    s.is_sound().await;
}

async fn a_missing_blob_refuses_the_batch(place: Place) {
    let mut s = Bench::open(&*place).await;
    let there = put(&*s.store, b"there").await.id;
    let missing = BlobId::of(b"missing");
    for blobs in [vec![missing], vec![there, missing], vec![missing, there]] {
        let batch = AppendBatch {
            cites: blobs.into_iter().map(|blob| (1, blob)).collect(),
            ..AppendBatch::native(vec![s.events.user("a", "1"), s.events.user("b", "2")])
        };
        let error = s.refused(batch).await;
        assert_eq!(error.code(), "blob_not_found");
        assert!(error.to_string().contains(&missing.to_string()));
    }
    assert!(cited(&*s.store, &s.session).await.is_empty());
    assert!(s.stored().await.is_empty(), "nothing of the batch is kept");
}

async fn a_citation_names_an_event_of_the_batch(place: Place) {
    let mut s = Bench::open(&*place).await;
    let id = put(&*s.store, b"content").await.id;
    let batch = AppendBatch {
        cites: vec![(1, id)],
        ..AppendBatch::native(vec![s.events.user("a", "1")])
    };
    let error = s.refused(batch).await;
    assert_eq!(error.code(), "citation_invalid");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn what_is_present_cites_nothing_new(place: Place) {
    let mut s = Bench::open(&*place).await;
    let id = put(&*s.store, b"content").await.id;
    let event = s.events.user("a", "1");
    s.append(vec![event.clone()]).await;
    cite(&*s.store, &s.session, event, &[id]).await;
    assert!(cited(&*s.store, &s.session).await.is_empty());
    let event = s.events.user("b", "2");
    for _ in 0..2 {
        cite(&*s.store, &s.session, event.clone(), &[id, id]).await;
        assert_eq!(cited(&*s.store, &s.session).await, [(2, id)]);
    }
}

async fn one_event_may_cite_many_and_many_events_one(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut blobs = Vec::new();
    for n in 0..5_u8 {
        blobs.push(put(&*s.store, &[n]).await.id);
    }
    let event = s.events.user("a", "1");
    cite(&*s.store, &s.session, event, &blobs).await;
    let batch = AppendBatch {
        cites: vec![(0, blobs[0]), (2, blobs[0]), (2, blobs[1])],
        ..AppendBatch::native(vec![
            s.events.user("b", "2"),
            s.events.user("c", "3"),
            s.events.user("d", "4"),
        ])
    };
    s.store.append(&s.session, batch).await.unwrap();
    let mut wanted: Vec<_> = blobs.iter().map(|blob| (1, *blob)).collect();
    wanted.extend([(2, blobs[0]), (4, blobs[0]), (4, blobs[1])]);
    wanted.sort_unstable();
    assert_eq!(cited(&*s.store, &s.session).await, wanted);
    assert_eq!(is_sound(&*s.store, &s.session).await.blobs, 5);
}

async fn citations_are_listed_in_order(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut wanted = Vec::new();
    for n in 1..=30_u64 {
        let id = put(&*s.store, &n.to_le_bytes()).await.id;
        let event = s.events.user(&format!("e{n}"), "text");
        cite(&*s.store, &s.session, event, &[id]).await;
        wanted.push((n, id));
    }
    let child = s.fork(12, "child").await;
    let own = s.events.user("own", "text");
    cite(&*s.store, &child, own, &[wanted[0].1]).await;
    let grand = fork(&*s.store, &child, 13, "grand").await;
    let mut childs = wanted[..12].to_vec();
    childs.push((13, wanted[0].1));
    let sessions = [(&s.session, &wanted), (&child, &childs), (&grand, &childs)];
    for (session, wanted) in sessions {
        for from in [0, 1, 5, 11, 12, 13, 14, 30, 31, u64::MAX] {
            for limit in [0, 1, 2, 8, 100] {
                let found = s.store.citations(session, from, limit).await.unwrap();
                let behind = wanted.iter().filter(|(ordinal, _)| *ordinal >= from);
                let behind: Vec<_> = behind.take(limit).copied().collect();
                assert_eq!(found, behind, "{session} from {from}, {limit}");
            }
        }
        is_sound(&*s.store, session).await;
    }
}

async fn a_child_cites_what_its_prefix_cites(place: Place) {
    let mut s = Bench::open(&*place).await;
    let (one, two) = (
        put(&*s.store, b"one").await.id,
        put(&*s.store, b"two").await.id,
    );
    let event = s.events.user("a", "1");
    cite(&*s.store, &s.session, event, &[one]).await;
    let event = s.events.user("b", "2");
    cite(&*s.store, &s.session, event, &[two]).await;
    let child = s.fork(1, "child").await;
    assert_eq!(cited(&*s.store, &child).await, [(1, one)]);
    assert_eq!(is_sound(&*s.store, &child).await.blobs, 1);
    s.store.delete_session(&s.session, None).await.unwrap();
    s.store.scrub().await.unwrap();
    assert_eq!(cited(&*s.store, &child).await, [(1, one)]);
    assert_eq!(is_sound(&*s.store, &child).await.blobs, 1);
}

async fn an_open_handle_keeps_what_it_put(place: Place) {
    let mut s = Bench::open(&*place).await;
    let id = put(&*s.store, b"content").await.id;
    let upload = s.store.begin_blob().await.unwrap();
    let large = content(PIECE + 1);
    s.store.extend_blob(upload, large.clone()).await.unwrap();
    assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
    assert_eq!(whole(&*s.store, &id).await, b"content");
    let event = s.events.user("a", "1");
    cite(&*s.store, &s.session, event, &[id]).await;
    s.store.delete_session(&s.session, None).await.unwrap();
    assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
    assert_eq!(whole(&*s.store, &id).await, b"content");
    let info = s.store.finish_blob(upload).await.unwrap();
    assert!(whole(&*s.store, &info.id).await == large);
}

async fn a_cited_blob_outlives_the_scrub(place: Place) {
    let mut s = Bench::open(&*place).await;
    let content = content(PIECE + 1);
    let id = put(&*s.store, &content).await.id;
    let event = s.events.user("a", "1");
    cite(&*s.store, &s.session, event, &[id]).await;
    let other = create(&*s.store, "other").await;
    s.store.delete_session(&other, None).await.unwrap();
    let scrub = s.store.scrub().await.unwrap();
    assert_eq!((scrub.completed, scrub.blobs), (1, 0));
    assert!(whole(&*s.store, &id).await == content);
    s.is_sound().await;
}

async fn a_blob_is_checked_by_verify(place: Place) {
    let mut s = Bench::open(&*place).await;
    let ids = [
        put(&*s.store, &content(3 * PIECE)).await.id,
        put(&*s.store, &content(10)).await.id,
    ];
    put(&*s.store, b"cited by nobody").await;
    for n in 0..4 {
        let event = s.events.user(&format!("e{n}"), "text");
        cite(&*s.store, &s.session, event, &ids).await;
    }
    let report = is_sound(&*s.store, &s.session).await;
    assert_eq!(report.blobs, 2, "each is read once");
}

async fn redaction_takes_the_citation(place: Place) {
    let mut s = Bench::open(&*place).await;
    let id = put(&*s.store, b"secret").await.id;
    let first = s.events.user("a", "1");
    cite(&*s.store, &s.session, first.clone(), &[id]).await;
    let event = s.events.user("b", "2");
    cite(&*s.store, &s.session, event, &[id]).await;
    let child = s.fork(2, "child").await;
    s.store
        .redact(&s.session, &["user::a".into()])
        .await
        .unwrap();
    for session in [&s.session, &child] {
        assert_eq!(cited(&*s.store, session).await, [(2, id)]);
        assert_eq!(is_sound(&*s.store, session).await.blobs, 1);
    }
    // It is still the same event.
    assert!(s.append(vec![first]).await.events[0].present);
    s.store.redact(&child, &["user::b".into()]).await.unwrap();
    assert!(cited(&*s.store, &s.session).await.is_empty());
    s.is_sound().await;
}

async fn a_blob_of_a_gone_handle_is_collected(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let content = content(2 * PIECE + 1);
    let id = put(&*other, &content).await.id;
    assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
    assert!(whole(&*s.store, &id).await == content);
    drop(other);
    assert_eq!(s.store.scrub().await.unwrap().blobs, 1);
    assert_eq!(code(s.store.blob(&id).await), "blob_not_found");
    assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
    // It can be put again.
    assert_eq!(put(&*s.store, &content).await.id, id);
    assert!(whole(&*s.store, &id).await == content);
}

async fn an_upload_of_a_gone_handle_is_collected(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let upload = other.begin_blob().await.unwrap();
    let large = content(2 * PIECE + 1);
    other.extend_blob(upload, large).await.unwrap();
    assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
    drop(other);
    assert_eq!(s.store.scrub().await.unwrap().blobs, 1);
    assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
}

async fn an_upload_belongs_to_its_handle(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let upload = s.store.begin_blob().await.unwrap();
    let stranger = other.extend_blob(upload, vec![1]).await;
    assert_eq!(code(stranger), "upload_unknown");
    let mine = other.begin_blob().await.unwrap();
    assert_ne!(mine, upload, "no two handles have the same");
    other.extend_blob(mine, vec![2]).await.unwrap();
    s.store.extend_blob(upload, vec![1]).await.unwrap();
    let one = s.store.finish_blob(upload).await.unwrap().id;
    let two = other.finish_blob(mine).await.unwrap().id;
    assert_eq!(whole(&*other, &one).await, [1]);
    assert_eq!(whole(&*s.store, &two).await, [2]);
}

async fn the_last_citation_keeps_a_blob(place: Place) {
    let mut s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let id = put(&*other, b"content").await.id;
    let sessions = ["x", "y"].map(session_id);
    for session in &sessions {
        create(&*s.store, session.as_str()).await;
        let event = s.events.user("a", "1");
        cite(&*other, session, event, &[id]).await;
    }
    drop(other);
    for session in &sessions {
        assert_eq!(s.store.scrub().await.unwrap().blobs, 0);
        assert_eq!(whole(&*s.store, &id).await, b"content");
        s.store.delete_session(session, None).await.unwrap();
    }
    assert_eq!(s.store.scrub().await.unwrap().blobs, 1);
    assert_eq!(code(s.store.blob(&id).await), "blob_not_found");
}

async fn a_citation_of_the_prefix_outlives_the_parent(place: Place) {
    let mut s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let mut ids = Vec::new();
    for n in 1..=4_u8 {
        let id = put(&*other, &[n]).await.id;
        let event = s.events.user(&format!("e{n}"), "text");
        cite(&*s.store, &s.session, event, &[id]).await;
        ids.push(id);
    }
    drop(other);
    let child = s.fork(3, "child").await;
    let grand = fork(&*s.store, &child, 1, "grand").await;
    let there = async |ids: &[BlobId]| {
        let mut there = Vec::new();
        for id in ids {
            there.push(s.store.blob(id).await.is_ok());
        }
        there
    };
    s.store.delete_session(&s.session, None).await.unwrap();
    assert_eq!(s.store.scrub().await.unwrap().blobs, 1);
    assert_eq!(there(&ids).await, [true, true, true, false]);
    assert_eq!(is_sound(&*s.store, &child).await.blobs, 3);
    s.store.delete_session(&child, None).await.unwrap();
    assert_eq!(s.store.scrub().await.unwrap().blobs, 2);
    assert_eq!(there(&ids).await, [true, false, false, false]);
    assert_eq!(is_sound(&*s.store, &grand).await.blobs, 1);
    s.store.delete_session(&grand, None).await.unwrap();
    assert_eq!(s.store.scrub().await.unwrap().blobs, 1);
}

async fn another_handle_reads_and_cites(place: Place) {
    let mut s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let content = content(PIECE + 1);
    let id = put(&*s.store, &content).await.id;
    assert!(whole(&*other, &id).await == content);
    let event = s.events.user("a", "1");
    cite(&*other, &s.session, event, &[id]).await;
    assert_eq!(cited(&*s.store, &s.session).await, [(1, id)]);
    s.is_sound().await;
}

async fn a_blob_is_there_after_reopening(place: Place) {
    let mut s = Bench::open(&*place).await;
    let content = content(2 * PIECE + 1);
    let id = put(&*s.store, &content).await.id;
    let event = s.events.user("a", "1");
    cite(&*s.store, &s.session, event, &[id]).await;
    let Bench { store, session, .. } = s;
    store.close().await.unwrap();
    drop(store);
    let store = place.reopen().await.unwrap();
    assert!(whole(&*store, &id).await == content);
    assert_eq!(store.scrub().await.unwrap().blobs, 0);
    assert_eq!(cited(&*store, &session).await, [(1, id)]);
    assert_eq!(is_sound(&*store, &session).await.blobs, 1);
}

async fn what_nobody_cites_is_collected_after_reopening(place: Place) {
    let mut s = Bench::open(&*place).await;
    let id = put(&*s.store, b"content").await.id;
    let upload = s.store.begin_blob().await.unwrap();
    s.store
        .extend_blob(upload, content(PIECE + 1))
        .await
        .unwrap();
    let event = s.events.user("a", "1");
    append(&*s.store, &s.session, vec![event]).await;
    let Bench { store, .. } = s;
    store.close().await.unwrap();
    drop(store);
    let store = place.reopen().await.unwrap();
    assert_eq!(whole(&*store, &id).await, b"content");
    let lost = store.finish_blob(upload).await;
    assert_eq!(code(lost), "upload_unknown");
    assert_eq!(store.scrub().await.unwrap().blobs, 2);
    assert_eq!(code(store.blob(&id).await), "blob_not_found");
}

async fn an_upload_whose_commit_failed_is_lost(place: Place) {
    let s = Bench::open(&*place).await;
    let content = content(PIECE + 9);
    let upload = s.store.begin_blob().await.unwrap();
    place.fail_next_commit().await.unwrap();
    let extend = s.store.extend_blob(upload, content.clone()).await;
    assert_eq!(extend.unwrap_err().kind(), ErrorKind::Indeterminate);
    // A blob of which a piece may be missing must not come to be.
    let more = s.store.extend_blob(upload, content.clone()).await;
    assert_eq!(code(more), "upload_unknown");
    assert_eq!(code(s.store.finish_blob(upload).await), "upload_unknown");
    let missing = s.store.blob(&BlobId::of(&content)).await;
    assert_eq!(code(missing), "blob_not_found");
    // It can be put anew.
    let id = put(&*s.store, &content).await.id;
    let read = s.store.read_blob(&id, 0, usize::MAX).await.unwrap();
    assert!(read == content, "what was put is read");
}
