//! Views: key spaces that can be made anew at any time.

use crate::check::{Bench, append, code, create, session_id};
use crate::conformance::{Case, StorePlace};
use folio_core::{Direction, SessionId};
use folio_store::{ErrorKind, MAX_BATCH_BYTES, MAX_VIEW_KEY, ViewBatch, ViewQuery};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("view":
    what_was_put_is_found,
    a_key_is_replaced_and_removed,
    keys_are_ordered_by_their_bytes,
    entries_are_read_in_both_directions_between_bounds,
    a_listing_is_bounded,
    the_mark_moves_with_the_entries,
    another_follower_was_faster,
    a_mark_does_not_go_back,
    a_mark_is_not_beyond_the_head,
    every_session_has_a_mark,
    views_have_key_spaces_of_their_own,
    a_newer_version_drops_the_older_one,
    an_older_version_is_refused,
    readers_of_another_version_find_nothing,
    a_dropped_view_is_empty,
    an_entry_goes_with_the_session_that_wrote_it_last,
    a_refused_batch_writes_nothing,
    limits_are_told,
    a_child_has_a_mark_of_its_own,
    an_unknown_session_is_not_found,
    two_followers_take_turns: MultiProcess,
    a_view_is_there_after_reopening: Durable,
);

type Place = Box<dyn StorePlace>;
type Entry = (Vec<u8>, Vec<u8>);

/// A session of 9 events.
async fn nine(place: &Place) -> Bench {
    let mut s = Bench::open(&**place).await;
    let events = (1..=9).map(|n| s.events.user(&format!("e{n}"), "text"));
    let events = events.collect();
    s.append(events).await;
    s
}

fn batch(session: &SessionId, from: u64, to: u64, entries: &[(&[u8], &[u8])]) -> ViewBatch {
    ViewBatch {
        view: "v".into(),
        version: 1,
        session: session.clone(),
        from,
        to,
        entries: entries
            .iter()
            .map(|(key, value)| (key.to_vec(), Some(value.to_vec())))
            .collect(),
    }
}

fn all(view: &str, version: u32) -> ViewQuery {
    ViewQuery {
        view: view.into(),
        version,
        from: Vec::new(),
        to: None,
        direction: Direction::Newer,
        limit: 1_000,
    }
}

async fn entries(s: &Bench) -> Vec<Entry> {
    s.store.view_entries(all("v", 1)).await.unwrap()
}

async fn value(s: &Bench, key: &[u8]) -> Option<Vec<u8>> {
    s.store.view_value("v", 1, key).await.unwrap()
}

async fn mark(s: &Bench) -> u64 {
    s.store.view_mark("v", 1, &s.session).await.unwrap()
}

async fn what_was_put_is_found(place: Place) {
    let s = nine(&place).await;
    assert_eq!(value(&s, b"a").await, None);
    assert_eq!(mark(&s).await, 0);
    let put = batch(&s.session, 0, 4, &[(b"a", b"1"), (b"", b""), (b"b", b"2")]);
    s.store.put_view(put).await.unwrap();
    assert_eq!(value(&s, b"a").await, Some(b"1".to_vec()));
    assert_eq!(value(&s, b"").await, Some(Vec::new()));
    assert_eq!(value(&s, b"ab").await, None);
    assert_eq!(mark(&s).await, 4);
    let long = vec![7; 300_000];
    let put = batch(&s.session, 4, 4, &[(b"long", &long)]);
    s.store.put_view(put).await.unwrap();
    assert_eq!(value(&s, b"long").await, Some(long));
}

async fn a_key_is_replaced_and_removed(place: Place) {
    let s = nine(&place).await;
    let put = batch(&s.session, 0, 1, &[(b"a", b"1"), (b"b", b"2")]);
    s.store.put_view(put).await.unwrap();
    let mut put = batch(&s.session, 1, 2, &[(b"a", b"3"), (b"b", b"4")]);
    put.entries[1].1 = None;
    put.entries.push((b"never".to_vec(), None));
    s.store.put_view(put).await.unwrap();
    assert_eq!(entries(&s).await, [(b"a".to_vec(), b"3".to_vec())]);
    // In the order of the batch: the last word counts.
    let mut put = batch(&s.session, 2, 3, &[(b"c", b"1"), (b"c", b"2")]);
    put.entries.push((b"d".to_vec(), Some(b"1".to_vec())));
    put.entries.push((b"d".to_vec(), None));
    s.store.put_view(put).await.unwrap();
    assert_eq!(value(&s, b"c").await, Some(b"2".to_vec()));
    assert_eq!(value(&s, b"d").await, None);
}

/// Keys whose order as bytes is not that of text or of numbers.
fn odd_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        &b"\0"[..],
        b"\0\0",
        b"\0\xff",
        b"10",
        b"9",
        b"A",
        b"a",
        b"a\0",
        b"a\0b",
        b"aa",
        b"ab",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\xff\0",
        b"\xff\xff",
    ]
    .iter()
    .map(|key| key.to_vec())
    .collect();
    keys.push(vec![0xff; MAX_VIEW_KEY]);
    keys.sort();
    keys
}

async fn put_odd_keys(s: &Bench) -> Vec<Vec<u8>> {
    let keys = odd_keys();
    let mut put = batch(&s.session, 0, 1, &[]);
    put.entries = keys
        .iter()
        .rev()
        .map(|key| (key.clone(), Some(key.clone())))
        .collect();
    s.store.put_view(put).await.unwrap();
    keys
}

async fn keys_are_ordered_by_their_bytes(place: Place) {
    let s = nine(&place).await;
    let keys = put_odd_keys(&s).await;
    let found = entries(&s).await;
    assert!(found.iter().all(|(key, value)| key == value));
    let found: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, keys);
}

async fn entries_are_read_in_both_directions_between_bounds(place: Place) {
    let s = nine(&place).await;
    let keys = put_odd_keys(&s).await;
    let mut bounds = keys.clone();
    bounds.push(Vec::new());
    bounds.push(b"a\0a".to_vec());
    for from in &bounds {
        for to in bounds.iter().map(Some).chain([None]) {
            for limit in [0, 1, 3, 100] {
                for direction in [Direction::Newer, Direction::Older] {
                    let query = ViewQuery {
                        from: from.clone(),
                        to: to.cloned(),
                        direction,
                        limit,
                        ..all("v", 1)
                    };
                    let mut wanted: Vec<_> = keys
                        .iter()
                        .filter(|key| *key >= from && to.is_none_or(|to| *key < to))
                        .cloned()
                        .collect();
                    if direction == Direction::Older {
                        wanted.reverse();
                    }
                    wanted.truncate(limit);
                    let found = s.store.view_entries(query.clone()).await.unwrap();
                    let found: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
                    assert_eq!(found, wanted, "{query:?}");
                }
            }
        }
    }
}

async fn a_listing_is_bounded(place: Place) {
    let s = nine(&place).await;
    let mut put = batch(&s.session, 0, 1, &[]);
    put.entries = (0..3_000_u32)
        .map(|n| (n.to_be_bytes().to_vec(), Some(vec![1])))
        .collect();
    s.store.put_view(put).await.unwrap();
    let mut query = ViewQuery {
        limit: usize::MAX,
        ..all("v", 1)
    };
    let mut count = 0;
    loop {
        let found = s.store.view_entries(query.clone()).await.unwrap();
        assert!(found.len() <= 1_024, "a bounded listing");
        let Some((last, _)) = found.last() else { break };
        count += found.len();
        query.from = [last, &[0][..]].concat();
    }
    assert_eq!(count, 3_000);
}

async fn the_mark_moves_with_the_entries(place: Place) {
    let s = nine(&place).await;
    for to in [0, 3, 3, 9] {
        let from = mark(&s).await;
        let put = batch(&s.session, from, to, &[(b"n", &to.to_be_bytes())]);
        s.store.put_view(put).await.unwrap();
        assert_eq!(mark(&s).await, to);
        assert_eq!(value(&s, b"n").await, Some(to.to_be_bytes().to_vec()));
    }
    // A mark may move although nothing is to be written.
    let event = s.events.clone().user("e10", "text");
    s.append(vec![event]).await;
    let put = batch(&s.session, 9, 10, &[]);
    s.store.put_view(put).await.unwrap();
    assert_eq!(mark(&s).await, 10);
}

async fn another_follower_was_faster(place: Place) {
    let s = nine(&place).await;
    let put = batch(&s.session, 0, 4, &[(b"a", b"1")]);
    s.store.put_view(put.clone()).await.unwrap();
    for stale in [put, batch(&s.session, 5, 6, &[(b"a", b"2")])] {
        let from = stale.from;
        let error = s.store.put_view(stale).await.unwrap_err();
        assert_eq!(error.code(), "view_moved");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.ordinals(), [from, 4], "it says where the view is");
    }
    assert_eq!(
        (mark(&s).await, value(&s, b"a").await),
        (4, Some(b"1".to_vec()))
    );
}

async fn a_mark_does_not_go_back(place: Place) {
    let s = nine(&place).await;
    s.store
        .put_view(batch(&s.session, 0, 4, &[]))
        .await
        .unwrap();
    let back = s.store.put_view(batch(&s.session, 4, 3, &[])).await;
    assert_eq!(code(back), "watermark_unknown");
    assert_eq!(mark(&s).await, 4);
}

async fn a_mark_is_not_beyond_the_head(place: Place) {
    let s = nine(&place).await;
    for to in [10, u64::MAX] {
        let beyond = s.store.put_view(batch(&s.session, 0, to, &[(b"a", b"1")]));
        let error = beyond.await.unwrap_err();
        assert_eq!(error.code(), "watermark_unknown");
        assert_eq!(error.ordinals(), [9]);
    }
    assert_eq!((mark(&s).await, value(&s, b"a").await), (0, None));
}

async fn every_session_has_a_mark(place: Place) {
    let s = nine(&place).await;
    let other = create(&*s.store, "other").await;
    let event = s.events.clone().user("a", "1");
    append(&*s.store, &other, vec![event]).await;
    let put = batch(&s.session, 0, 9, &[(b"shared", b"first"), (b"a", b"1")]);
    s.store.put_view(put).await.unwrap();
    assert_eq!(s.store.view_mark("v", 1, &other).await.unwrap(), 0);
    let put = batch(&other, 0, 1, &[(b"shared", b"second"), (b"b", b"2")]);
    s.store.put_view(put).await.unwrap();
    assert_eq!(mark(&s).await, 9);
    assert_eq!(s.store.view_mark("v", 1, &other).await.unwrap(), 1);
    assert_eq!(value(&s, b"shared").await, Some(b"second".to_vec()));
    assert_eq!(entries(&s).await.len(), 3);
}

async fn views_have_key_spaces_of_their_own(place: Place) {
    let s = nine(&place).await;
    for (view, to) in [("v", 3), ("w", 5), ("v2", 7)] {
        let put = ViewBatch {
            view: view.into(),
            ..batch(&s.session, 0, to, &[(b"a", view.as_bytes())])
        };
        s.store.put_view(put).await.unwrap();
    }
    for (view, to) in [("v", 3), ("w", 5), ("v2", 7)] {
        let value = s.store.view_value(view, 1, b"a").await.unwrap();
        assert_eq!(value.as_deref(), Some(view.as_bytes()));
        let found = s.store.view_entries(all(view, 1)).await.unwrap();
        assert_eq!(found.len(), 1);
        let mark = s.store.view_mark(view, 1, &s.session).await.unwrap();
        assert_eq!(mark, to);
    }
    s.store.drop_view("v").await.unwrap();
    let value = s.store.view_value("v2", 1, b"a").await.unwrap();
    assert!(value.is_some(), "another view is left alone");
}

async fn a_newer_version_drops_the_older_one(place: Place) {
    let s = nine(&place).await;
    let other = create(&*s.store, "other").await;
    let event = s.events.clone().user("a", "1");
    append(&*s.store, &other, vec![event]).await;
    let put = batch(&s.session, 0, 5, &[(b"a", b"old"), (b"b", b"old")]);
    s.store.put_view(put).await.unwrap();
    let put = batch(&other, 0, 1, &[(b"c", b"old")]);
    s.store.put_view(put).await.unwrap();
    // It begins anew: from nothing.
    let mut newer = batch(&s.session, 5, 6, &[(b"a", b"new")]);
    newer.version = 3;
    let moved = s.store.put_view(newer.clone()).await.unwrap_err();
    assert_eq!(moved.code(), "view_moved");
    assert_eq!(entries(&s).await.len(), 3, "a refusal drops nothing");
    newer.from = 0;
    s.store.put_view(newer).await.unwrap();
    assert_eq!(entries(&s).await, []);
    assert_eq!(mark(&s).await, 0);
    let found = s.store.view_entries(all("v", 3)).await.unwrap();
    assert_eq!(found, [(b"a".to_vec(), b"new".to_vec())]);
    let mark = async |session| s.store.view_mark("v", 3, session).await.unwrap();
    assert_eq!((mark(&s.session).await, mark(&other).await), (6, 0));
}

async fn an_older_version_is_refused(place: Place) {
    let s = nine(&place).await;
    let mut put = batch(&s.session, 0, 5, &[(b"a", b"new")]);
    put.version = 2;
    s.store.put_view(put).await.unwrap();
    for from in [0, 5] {
        let older = batch(&s.session, from, 6, &[(b"a", b"old")]);
        let error = s.store.put_view(older).await.unwrap_err();
        assert_eq!(error.code(), "view_version");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    let value = s.store.view_value("v", 2, b"a").await.unwrap();
    assert_eq!(value, Some(b"new".to_vec()));
}

async fn readers_of_another_version_find_nothing(place: Place) {
    let s = nine(&place).await;
    let mut put = batch(&s.session, 0, 5, &[(b"a", b"1")]);
    put.version = 2;
    s.store.put_view(put).await.unwrap();
    for version in [0, 1, 3] {
        let value = s.store.view_value("v", version, b"a").await.unwrap();
        assert_eq!(value, None);
        assert_eq!(s.store.view_entries(all("v", version)).await.unwrap(), []);
        let mark = s.store.view_mark("v", version, &s.session).await.unwrap();
        assert_eq!(mark, 0);
    }
}

async fn a_dropped_view_is_empty(place: Place) {
    let s = nine(&place).await;
    s.store.drop_view("v").await.unwrap();
    let mut put = batch(&s.session, 0, 5, &[(b"a", b"1")]);
    put.version = 4;
    s.store.put_view(put).await.unwrap();
    s.store.drop_view("v").await.unwrap();
    let found = s.store.view_entries(all("v", 4)).await.unwrap();
    assert_eq!(found, []);
    // Any version may begin it again.
    let put = batch(&s.session, 0, 2, &[(b"b", b"2")]);
    s.store.put_view(put).await.unwrap();
    assert_eq!(entries(&s).await, [(b"b".to_vec(), b"2".to_vec())]);
    assert_eq!(mark(&s).await, 2);
}

async fn an_entry_goes_with_the_session_that_wrote_it_last(place: Place) {
    let s = nine(&place).await;
    let other = create(&*s.store, "other").await;
    let event = s.events.clone().user("a", "1");
    append(&*s.store, &other, vec![event]).await;
    let put = batch(&s.session, 0, 1, &[(b"a", b"1"), (b"b", b"1")]);
    s.store.put_view(put).await.unwrap();
    let put = batch(&other, 0, 1, &[(b"b", b"2"), (b"c", b"2")]);
    s.store.put_view(put).await.unwrap();
    s.store.delete_session(&other, None).await.unwrap();
    assert_eq!(entries(&s).await, [(b"a".to_vec(), b"1".to_vec())]);
    assert_eq!(mark(&s).await, 1);
}

async fn a_refused_batch_writes_nothing(place: Place) {
    let s = nine(&place).await;
    let missing = batch(&session_id("nobody"), 0, 0, &[(b"a", b"1")]);
    let refused = s.store.put_view(missing).await;
    assert_eq!(code(refused), "session_not_found");
    let moved = s.store.put_view(batch(&s.session, 3, 4, &[(b"a", b"1")]));
    assert_eq!(code(moved.await), "view_moved");
    assert_eq!(entries(&s).await, []);
    // Nor did it leave a version behind.
    let put = ViewBatch {
        version: 0,
        ..batch(&s.session, 0, 1, &[])
    };
    s.store.put_view(put).await.unwrap();
}

async fn limits_are_told(place: Place) {
    let s = nine(&place).await;
    let fine = batch(&s.session, 0, 1, &[]);
    let with = |entries: Vec<(Vec<u8>, Option<Vec<u8>>)>| ViewBatch {
        entries,
        ..fine.clone()
    };
    let named = |view: String| ViewBatch {
        view,
        ..fine.clone()
    };
    let half = vec![1; MAX_BATCH_BYTES / 2];
    let refused = [
        named(String::new()),
        named("x".repeat(65)),
        with(vec![(vec![1; MAX_VIEW_KEY + 1], None)]),
        with(vec![(vec![1], Some(half.clone())), (vec![2], Some(half))]),
    ];
    for batch in refused {
        let error = s.store.put_view(batch).await.unwrap_err();
        assert_eq!(error.code(), "limit_exceeded");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    s.store.put_view(named("x".repeat(64))).await.unwrap();
    let longest = with(vec![(vec![1; MAX_VIEW_KEY], Some(vec![1]))]);
    s.store.put_view(longest).await.unwrap();
    assert_eq!(entries(&s).await.len(), 1);
}

async fn a_child_has_a_mark_of_its_own(place: Place) {
    let s = nine(&place).await;
    let put = batch(&s.session, 0, 5, &[(b"a", b"1")]);
    s.store.put_view(put).await.unwrap();
    let child = s.fork(5, "child").await;
    assert_eq!(s.store.view_mark("v", 1, &child).await.unwrap(), 0);
    let put = batch(&child, 0, 5, &[(b"b", b"2")]);
    s.store.put_view(put).await.unwrap();
    s.store.delete_session(&s.session, None).await.unwrap();
    assert_eq!(entries(&s).await, [(b"b".to_vec(), b"2".to_vec())]);
    assert_eq!(s.store.view_mark("v", 1, &child).await.unwrap(), 5);
}

async fn an_unknown_session_is_not_found(place: Place) {
    let s = nine(&place).await;
    let nobody = session_id("nobody");
    let marked = s.store.view_mark("v", 1, &nobody).await;
    assert_eq!(code(marked), "session_not_found");
}

async fn two_followers_take_turns(place: Place) {
    let s = nine(&place).await;
    let other = place.second().await.unwrap();
    let mut lost = 0;
    for to in 1..=9 {
        let put = batch(
            &s.session,
            to - 1,
            to,
            &[(b"n", &[u8::try_from(to).unwrap()])],
        );
        let (one, two) = tokio::join!(s.store.put_view(put.clone()), other.put_view(put));
        for outcome in [one, two] {
            if let Err(error) = outcome {
                assert_eq!(error.code(), "view_moved");
                lost += 1;
            }
        }
        assert_eq!(other.view_mark("v", 1, &s.session).await.unwrap(), to);
    }
    assert_eq!(lost, 9, "one of them wins each time");
}

async fn a_view_is_there_after_reopening(place: Place) {
    let s = nine(&place).await;
    let put = batch(&s.session, 0, 5, &[(b"a", b"1")]);
    s.store.put_view(put).await.unwrap();
    let Bench {
        store,
        session,
        events,
    } = s;
    store.close().await.unwrap();
    drop(store);
    let s = Bench {
        store: place.reopen().await.unwrap(),
        session,
        events,
    };
    assert_eq!(entries(&s).await, [(b"a".to_vec(), b"1".to_vec())]);
    assert_eq!(mark(&s).await, 5);
}
