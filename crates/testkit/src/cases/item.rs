//! Items and their pages.

use crate::check::{Bench, keys, pages, rows_of, rows_of_pages, texts};
use crate::conformance::{Case, StorePlace};
use folio_core::{Direction, Position};
use folio_store::{ErrorKind, ItemQuery, Start};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("item":
    a_running_turn_shows_its_items,
    the_end_of_a_run_commits_its_row,
    terminalization_keeps_the_key,
    chunks_join_into_one_text,
    the_final_takes_the_place_of_its_chunks,
    a_late_chunk_has_no_effect,
    both_edges_begin_where_they_must,
    a_page_goes_on_behind_an_item,
    newer_items_do_not_move_a_page,
    a_page_begins_at_an_item_or_its_key,
    a_page_begins_at_an_ordinal,
    an_unknown_key_is_not_found,
    an_unknown_watermark_is_refused,
    older_events_never_change_under_a_watermark,
    a_page_never_exceeds_max_items,
    a_page_stops_at_max_bytes_but_loads_one,
    a_page_holds_exactly_the_events_it_needs,
    a_huge_turn_is_paged_like_any_other,
    a_long_stream_is_one_item,
    an_unknown_fact_never_hides_the_others,
);

type Place = Box<dyn StorePlace>;

async fn a_running_turn_shows_its_items(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![
        s.events.user("u1", "hello"),
        s.events.text("a1", "m1", true, "Hel"),
        s.events.call("c1", "m1", "call_0", "Read"),
    ];
    s.append(events).await;
    let rows = s.rows().await;
    assert_eq!(
        keys(&rows),
        ["user::u1", "assistant:r1:m1", "call:t1:call_0"]
    );
    assert!(rows[1].2.contains("\"text\":\"Hel\""), "{}", rows[1].2);
    let runs = s.store.runs(&s.session, 0, 10).await.unwrap();
    assert_eq!((runs.len(), runs[0].terminal), (1, None));
}

async fn the_end_of_a_run_commits_its_row(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![
        s.events
            .opened("o", "prompt", "\"retriedFromTurnId\":\"t0\""),
        s.events.text("a", "m1", false, "done"),
        s.events.end("z", "failed"),
    ];
    s.append_each(events).await;
    let runs = s.store.runs(&s.session, 0, 10).await.unwrap();
    let run = &runs[0];
    assert_eq!((run.opened, run.terminal), (1, Some(3)));
    assert!(run.output && run.inline);
    assert_eq!(run.facts.model.as_deref(), Some("\"model-1\""));
    let rows = s.rows().await;
    let end = &rows[1];
    assert_eq!(end.0, "turn:r1:r1");
    for member in [
        "\"status\":\"failed\"",
        "\"partialOutputRetained\":true",
        "\"retriedFromTurnId\":\"t0\"",
    ] {
        assert!(end.2.contains(member), "{member} in {}", end.2);
    }
}

async fn terminalization_keeps_the_key(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![
        s.events.user("u1", "hello"),
        s.events.thinking("x1", "m1", true, "hm"),
        s.events.text("a1", "m1", true, "Hel"),
        s.events.call("c1", "m1", "call_0", "Read"),
        s.events.result("d1", "call_0", "Read", "ok"),
    ];
    s.append(events).await;
    let before = s.rows().await;
    let end = s.events.end("z", "aborted");
    s.append(vec![end]).await;
    let after = s.rows().await;
    assert_eq!(after[..before.len()], before[..], "a stop changes no row");
    assert_eq!(keys(&after)[before.len()..], ["turn:r1:r1"]);
}

async fn chunks_join_into_one_text(place: Place) {
    let mut s = Bench::open(&*place).await;
    for (n, text) in ["He", "l", "lo \"", "日本\n", "", "😀"]
        .into_iter()
        .enumerate()
    {
        let event = s.events.text(&format!("a{n}"), "m1", true, text);
        s.append(vec![event]).await;
    }
    let rows = s.rows().await;
    assert_eq!(keys(&rows), ["assistant:r1:m1"]);
    assert_eq!(rows[0].1, 6, "the revision is the last chunk");
    let text = "\"text\":\"Hello \\\"日本\\n😀\"";
    assert!(rows[0].2.contains(text), "{}", rows[0].2);
}

async fn the_final_takes_the_place_of_its_chunks(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![
        s.events.text("a1", "m1", true, "draft "),
        s.events.thinking("x1", "m1", true, "hm"),
        s.events.text("a2", "m1", true, "one"),
        s.events.text("a3", "m1", false, "Something else."),
    ];
    s.append_each(events).await;
    let rows = s.rows().await;
    assert_eq!(keys(&rows), ["assistant:r1:m1"]);
    assert_eq!(rows[0].1, 4);
    assert!(rows[0].2.contains("\"text\":\"Something else.\""));
    assert!(rows[0].2.contains("\"thinking\":{\"text\":\"hm\"}"));
    let draft = s.rows_at(3).await;
    assert_eq!(draft[0].1, 3);
    assert!(draft[0].2.contains("\"text\":\"draft one\""));
}

async fn a_late_chunk_has_no_effect(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.text("a1", "m1", false, "All of it.");
    s.append(vec![event]).await;
    let before = s.rows().await;
    let late = s.events.text("a2", "m1", true, "late");
    s.append(vec![late]).await;
    assert_eq!(s.rows().await, before);
    assert_eq!(s.info().await.head, 2);
    s.is_sound().await;
}

/// Ten messages; every second event makes no item.
async fn ten(place: &Place) -> Bench {
    let mut s = Bench::open(&**place).await;
    for n in 1..=10 {
        let text = format!("message {n}");
        let events = vec![
            s.events.user(&format!("u{n}"), &text),
            s.events
                .raw(&format!("x{n}"), "\"role\":\"system\",\"author\":\"host\""),
        ];
        s.append(events).await;
    }
    s
}

fn numbers(page: &folio_store::ItemPage) -> Vec<u64> {
    page.items.iter().map(|item| item.item.number).collect()
}

async fn read(s: &Bench, direction: Direction, start: Start, max_items: usize) -> Vec<u64> {
    let query = ItemQuery {
        max_items,
        ..crate::check::query(direction, start)
    };
    let page = s.store.read_items(&s.session, query).await.unwrap();
    numbers(&page)
}

async fn both_edges_begin_where_they_must(place: Place) {
    let s = ten(&place).await;
    use Direction::{Newer, Older};
    assert_eq!(read(&s, Older, Start::Edge, 3).await, [10, 9, 8]);
    assert_eq!(read(&s, Newer, Start::Edge, 3).await, [1, 2, 3]);
    let page = s.page(Older, Start::Edge).await;
    assert_eq!((page.more, page.before, page.through), (false, false, 20));
    assert_eq!(page.session, s.info().await);
    let mut forward = rows_of(&s.page(Newer, Start::Edge).await);
    forward.reverse();
    assert_eq!(forward, rows_of(&page));
}

async fn a_page_goes_on_behind_an_item(place: Place) {
    let s = ten(&place).await;
    use Direction::{Newer, Older};
    let at = |n: u64| Position {
        ordinal: 2 * n - 1,
        slot: 0,
    };
    let behind = |n| Start::Behind(at(n));
    assert_eq!(read(&s, Older, behind(5), 2).await, [4, 3]);
    assert_eq!(read(&s, Newer, behind(5), 2).await, [6, 7]);
    assert_eq!(read(&s, Newer, behind(10), 2).await, [0; 0]);
    assert_eq!(read(&s, Older, behind(1), 2).await, [0; 0]);
    let page = s.page(Older, behind(1)).await;
    assert_eq!((page.more, page.before), (false, true));
    let query = ItemQuery {
        max_items: 4,
        ..crate::check::query(Older, behind(5))
    };
    let page = s.store.read_items(&s.session, query).await.unwrap();
    assert_eq!((numbers(&page), page.more), (vec![4, 3, 2, 1], false));
}

async fn newer_items_do_not_move_a_page(place: Place) {
    let mut s = ten(&place).await;
    let query = ItemQuery {
        max_items: 3,
        ..crate::check::query(Direction::Older, Start::Edge)
    };
    let page = s.store.read_items(&s.session, query).await.unwrap();
    assert_eq!(numbers(&page), [10, 9, 8]);
    let last = page.items.last().expect("three items").item.position;
    for n in 11..=15 {
        let event = s.events.user(&format!("u{n}"), "meanwhile");
        s.append(vec![event]).await;
        let next = read(&s, Direction::Older, Start::Behind(last), 3).await;
        assert_eq!(next, [7, 6, 5], "with {n} items");
    }
}

async fn a_page_begins_at_an_item_or_its_key(place: Place) {
    let s = ten(&place).await;
    use Direction::{Newer, Older};
    for start in [
        Start::Key("user::u5".into()),
        Start::At(Position {
            ordinal: 9,
            slot: 0,
        }),
    ] {
        assert_eq!(read(&s, Older, start.clone(), 2).await, [5, 4]);
        assert_eq!(read(&s, Newer, start.clone(), 2).await, [5, 6]);
        let page = s.page(Older, start).await;
        assert_eq!((page.more, page.before), (false, true));
    }
    for (direction, key, first) in [(Older, "user::u10", 10), (Newer, "user::u1", 1)] {
        let page = s.page(direction, Start::Key(key.into())).await;
        assert_eq!((page.before, page.more), (false, false));
        assert_eq!(numbers(&page)[0], first);
        assert_eq!(page.items.len(), 10);
    }
}

async fn a_page_begins_at_an_ordinal(place: Place) {
    let s = ten(&place).await;
    use Direction::{Newer, Older};
    // Ordinal 9 is the item, ordinal 10 the event without one behind it.
    let at = Start::AtOrdinal;
    assert_eq!(read(&s, Older, at(9), 2).await, [5, 4]);
    assert_eq!(read(&s, Older, at(10), 2).await, [5, 4]);
    assert_eq!(read(&s, Newer, at(9), 2).await, [5, 6]);
    assert_eq!(read(&s, Newer, at(10), 2).await, [6, 7]);
    assert_eq!(read(&s, Newer, at(0), 1).await, [1]);
    assert_eq!(read(&s, Older, at(0), 1).await, [0; 0]);
    assert_eq!(read(&s, Newer, at(20), 1).await, [0; 0]);
    assert_eq!(read(&s, Older, at(u64::MAX), 1).await, [10]);
    let page = s.page(Newer, at(20)).await;
    assert_eq!((page.more, page.before), (false, true));
    let page = s.page(Older, at(0)).await;
    assert_eq!((page.more, page.before), (false, true));
}

async fn an_unknown_key_is_not_found(place: Place) {
    let s = ten(&place).await;
    for (key, through) in [
        ("user::nobody", None),
        ("user::u5~2", None),
        ("", None),
        // It exists, above the watermark.
        ("user::u5", Some(8)),
    ] {
        let query = ItemQuery {
            through,
            ..crate::check::query(Direction::Older, Start::Key(key.into()))
        };
        let error = s.store.read_items(&s.session, query).await.unwrap_err();
        assert_eq!(error.code(), "item_not_found", "{key}");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}

async fn an_unknown_watermark_is_refused(place: Place) {
    let s = ten(&place).await;
    for through in [21, u64::MAX] {
        let query = ItemQuery {
            through: Some(through),
            ..crate::check::query(Direction::Older, Start::Edge)
        };
        let error = s.store.read_items(&s.session, query).await.unwrap_err();
        assert_eq!(error.code(), "watermark_unknown");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.ordinals(), [20], "it names the head");
    }
    assert_eq!(s.rows_at(0).await, []);
    assert_eq!(s.rows_at(20).await.len(), 10);
}

async fn older_events_never_change_under_a_watermark(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut tool = s.events.clone();
    tool.at(1_800_000_000_000);
    let events = vec![
        s.events.user("u1", "hello"),
        s.events.text("a1", "m1", true, "dra"),
        s.events.thinking("x1", "m2", true, "hm"),
        s.events.text("a2", "m3", false, "whole"),
        s.events.usage("g1", "m1", 1, 2),
        s.events.call("c1", "m3", "call_0", "Read"),
        s.events.raw("p1", "\"role\":\"system\",\"author\":\"host\",\"actions\":{\"permissionRequest\":{\"requestId\":\"p\",\"toolUseId\":\"call_0\"}}"),
    ];
    s.append(events).await;
    let mut pinned = vec![(7, s.rows().await)];
    let later = vec![
        s.events.text("a3", "m1", true, "ft"),
        s.events.text("a4", "m1", false, "final"),
        s.events.thinking("x2", "m2", false, "hm, hm"),
        s.events.text("a5", "m3", false, "once more"),
        s.events.raw("v1", "\"role\":\"model\",\"author\":\"agent\",\"refs\":{\"providerEventId\":\"m1\",\"revises\":\"a4\"},\"content\":{\"kind\":\"text\",\"text\":\"revised\"}"),
        s.events.usage("g2", "m1", 10, 20),
        s.events.raw("d1", "\"role\":\"user\",\"author\":\"user\",\"actions\":{\"permissionDecision\":{\"requestId\":\"p\",\"decision\":\"allow\"}}"),
        s.events.result("f1", "call_0", "Read", "ok"),
        s.events.raw("v2", "\"role\":\"user\",\"author\":\"user\",\"refs\":{\"revises\":\"u1\",\"storedMessageId\":\"u1\"},\"content\":{\"kind\":\"text\",\"text\":\"hello!\"}"),
        s.events.end("z", "failed"),
    ];
    for event in later {
        s.append(vec![event]).await;
        for (through, rows) in &pinned {
            assert_eq!(&s.rows_at(*through).await, rows, "at {through}");
        }
        pinned.push((s.info().await.head, s.rows().await));
    }
    s.store.rebuild_index(&s.session).await.unwrap();
    for (through, rows) in &pinned {
        assert_eq!(&s.rows_at(*through).await, rows, "at {through}, rebuilt");
    }
    let last = s.rows().await;
    assert!(texts(&last)[0].contains("hello!"), "{}", texts(&last)[0]);
    assert!(texts(&last)[1].contains("revised"), "{}", texts(&last)[1]);
}

async fn a_page_never_exceeds_max_items(place: Place) {
    let s = ten(&place).await;
    let all = s.rows().await;
    for max_items in 1..=11 {
        for direction in [Direction::Older, Direction::Newer] {
            let pages = pages(
                &*s.store,
                &s.session,
                None,
                direction,
                max_items,
                usize::MAX,
            )
            .await;
            assert_eq!(pages.len(), 10_usize.div_ceil(max_items));
            let mut rows = rows_of_pages(&pages);
            if direction == Direction::Older {
                rows.reverse();
            }
            assert_eq!(rows, all);
        }
    }
    // Any number of items may be asked for.
    let query = ItemQuery {
        max_items: usize::MAX,
        ..crate::check::query(Direction::Older, Start::Edge)
    };
    let page = s.store.read_items(&s.session, query).await.unwrap();
    assert_eq!((page.items.len(), page.more), (10, false));
}

async fn a_page_stops_at_max_bytes_but_loads_one(place: Place) {
    let mut s = Bench::open(&*place).await;
    let mut events = Vec::new();
    for n in 0..12 {
        let size = [100, 30_000, 3_000][n % 3];
        events.push(s.events.user(&format!("u{n}"), &"x".repeat(size)));
        let message = format!("m{n}");
        for k in 0..4 {
            let id = format!("a{n}-{k}");
            events.push(s.events.text(&id, &message, true, &"y".repeat(size / 4)));
        }
    }
    s.append(events).await;
    let all = s.rows().await;
    assert_eq!(all.len(), 24);
    for max_bytes in [0, 1, 1_000, 5_000, 40_000, 200_000] {
        for direction in [Direction::Older, Direction::Newer] {
            let pages = pages(&*s.store, &s.session, None, direction, 100, max_bytes).await;
            for page in &pages {
                let bytes = page.stats.bytes;
                assert!(!page.items.is_empty());
                // What is packed around a text is small.
                let most = max_bytes as u64 + page.stats.events * 200;
                assert!(
                    bytes <= most || page.items.len() == 1,
                    "{bytes} of {max_bytes}"
                );
            }
            if max_bytes <= 1 {
                assert_eq!(pages.len(), 24);
            }
            let mut rows = rows_of_pages(&pages);
            if direction == Direction::Older {
                rows.reverse();
            }
            assert_eq!(rows, all);
        }
    }
}

async fn a_page_holds_exactly_the_events_it_needs(place: Place) {
    let s = Bench::open(&*place).await;
    let events = crate::workload::Periodic::new("s1").batch(0, 20);
    for batch in events.chunks(100) {
        s.append(batch.to_vec()).await;
    }
    let mut costs = Vec::new();
    for page in pages(
        &*s.store,
        &s.session,
        None,
        Direction::Older,
        10,
        usize::MAX,
    )
    .await
    {
        for item in &page.items {
            let own: Vec<_> = item.events.iter().map(|event| event.ordinal).collect();
            assert_eq!(own, item.item.ordinals(page.through));
            for (_, chunks) in &item.chunks {
                assert!(chunks.is_sorted_by_key(|event| event.ordinal));
            }
        }
        costs.push((page.stats.events, page.stats.bytes));
    }
    assert_eq!(costs.len(), 20);
    let events = costs.iter().map(|cost| cost.0);
    assert!(events.clone().max() <= Some(14) && events.min() >= Some(10));
}

async fn a_huge_turn_is_paged_like_any_other(place: Place) {
    const MESSAGES: usize = 9_000;
    let mut s = Bench::open(&*place).await;
    let events: Vec<_> = (0..MESSAGES)
        .map(|n| {
            s.events
                .text(&format!("e{n}"), &format!("m{n}"), false, "text")
        })
        .collect();
    for batch in events.chunks(3_000) {
        s.append(batch.to_vec()).await;
    }
    for direction in [Direction::Older, Direction::Newer] {
        let query = ItemQuery {
            max_items: 50,
            ..crate::check::query(direction, Start::Edge)
        };
        let page = s.store.read_items(&s.session, query).await.unwrap();
        assert_eq!((page.items.len(), page.more), (50, true));
        assert_eq!(page.stats.events, 50, "the page costs what it shows");
    }
    assert_eq!(s.rows().await.len(), MESSAGES);
}

async fn a_long_stream_is_one_item(place: Place) {
    const CHUNKS: usize = 5_000;
    let mut s = Bench::open(&*place).await;
    let events: Vec<_> = (0..CHUNKS)
        .map(|n| s.events.text(&format!("e{n}"), "m", true, &format!("{n} ")))
        .collect();
    for batch in events.chunks(1_000) {
        s.append(batch.to_vec()).await;
    }
    let text = |n: usize| (0..n).map(|n| format!("{n} ")).collect::<String>();
    for through in [1, 2, 1_023, 1_024, 1_025, 2_048, 4_999, 5_000] {
        let rows = s.rows_at(through as u64).await;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].1, through as u64);
        let wanted = format!("\"text\":\"{}\"", text(through));
        assert!(rows[0].2.contains(&wanted), "at {through}");
    }
    let whole = s.events.text("final", "m", false, "short");
    s.append(vec![whole]).await;
    let page = s.page(Direction::Older, Start::Edge).await;
    assert_eq!(page.stats.events, 1, "a settled stream costs its final");
    assert_eq!(s.rows_at(5_000).await[0].1, 5_000);
    s.is_sound().await;
}

async fn an_unknown_fact_never_hides_the_others(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![
        s.events.user("u1", "hello"),
        s.events.raw("k1", "\"role\":\"system\",\"author\":\"host\",\"actions\":{\"fromTheFuture\":{\"x\":1}},\"alien\":[1,2]"),
        s.events.raw("k2", "\"role\":\"model\",\"author\":\"agent\",\"content\":{\"kind\":\"hologram\",\"frames\":[]}"),
        s.events.raw("k3", "\"role\":\"system\",\"author\":\"host\",\"content\":{\"kind\":\"extension\",\"namespace\":\"acme\",\"name\":\"x\",\"version\":1,\"criticality\":\"required\",\"payload\":{}}"),
        s.events.raw("k4", "\"role\":\"system\",\"author\":\"host\",\"content\":{\"kind\":\"extension\",\"namespace\":\"acme\",\"name\":\"x\",\"version\":1,\"criticality\":\"ignorable\",\"payload\":{}}"),
        s.events.text("a1", "m1", false, "there"),
    ];
    s.append(events).await;
    let rows = s.rows().await;
    assert_eq!(
        keys(&rows),
        ["user::u1", "note::k2", "ext::k3", "assistant:r1:m1"]
    );
    assert!(rows[1].2.contains("\"unsupported_event\""));
}
