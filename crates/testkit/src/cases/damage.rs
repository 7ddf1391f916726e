//! Rows that were damaged below the store: told, named, and in nobody's way.

use crate::check::{Bench, code, keys, query, rows};
use crate::conformance::{Case, Damage, StorePlace};
use folio_core::{Direction, EventId, Fact, FactOp, ForeignId, PROJECTION_VERSION, SessionId};
use folio_store::{
    AppendBatch, ContributionBatch, ContributionQuery, ErrorKind, ItemQuery, NOTES, RangeQuery,
    Start, Store, StoreError,
};
use std::sync::Arc;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("damage":
    a_damaged_event_is_a_gap_that_names_it: Damage,
    a_damaged_event_leaves_the_others_readable: Damage,
    a_damaged_event_marks_its_item_alone: Damage,
    a_damaged_last_event_keeps_its_place: Damage,
    a_damaged_event_is_not_forgotten: Damage,
    a_damaged_item_row_is_index_damaged: Damage,
    a_lost_item_row_is_index_damaged: Damage,
    a_lost_row_at_an_edge_is_index_damaged: Damage,
    an_index_of_another_build_is_stale_and_says_so: Damage,
    an_index_of_another_build_is_made_anew: Damage,
    verify_names_what_is_damaged: Damage,
    lost_notes_do_not_pass_for_none: Damage,
    a_session_that_lost_its_notes_is_deleted: Damage,
);

type Place = Box<dyn StorePlace>;

/// The number of messages in the session below; each is one event and one
/// item at the same ordinal.
const MESSAGES: u64 = 9;

/// A session of messages that was damaged while it was closed.
async fn damaged(place: &Place, damage: impl Fn(&SessionId) -> Damage<'_>) -> Bench {
    let mut s = Bench::open(&**place).await;
    for n in 1..=MESSAGES {
        let event = s.events.user(&format!("e{n}"), &format!("message {n}"));
        s.append(vec![event]).await;
    }
    let Bench {
        store,
        session,
        events,
    } = s;
    store.close().await.unwrap();
    drop(store);
    place.damage(damage(&session)).await.unwrap();
    Bench {
        store: place.reopen().await.unwrap(),
        session,
        events,
    }
}

async fn range(s: &Bench, from: u64, to: u64) -> Result<Vec<u64>, StoreError> {
    let query = RangeQuery {
        from,
        to,
        max_count: 100,
        max_bytes: usize::MAX,
    };
    let events = s.store.range(&s.session, query).await?;
    Ok(events.iter().map(|event| event.ordinal).collect())
}

fn is_gap(error: &StoreError, ordinals: &[u64]) {
    assert_eq!(error.code(), "projection_gap");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.ordinals(), ordinals, "it names the event");
}

async fn a_damaged_event_is_a_gap_that_names_it(place: Place) {
    let s = damaged(&place, |id| Damage::Event(id, 4)).await;
    is_gap(&range(&s, 1, MESSAGES).await.unwrap_err(), &[4]);
    is_gap(&range(&s, 4, 4).await.unwrap_err(), &[4]);
    let asked = s.store.events(&s.session, &[1, 4, 2]).await;
    is_gap(&asked.unwrap_err(), &[4]);
    assert_eq!(s.info().await.head, MESSAGES);
}

async fn a_damaged_event_leaves_the_others_readable(place: Place) {
    let s = damaged(&place, |id| Damage::Event(id, 4)).await;
    assert_eq!(range(&s, 1, 3).await.unwrap(), [1, 2, 3]);
    assert_eq!(range(&s, 5, 99).await.unwrap(), [5, 6, 7, 8, 9]);
    let asked = s.store.events(&s.session, &[9, 1, 5]).await.unwrap();
    assert_eq!(asked.len(), 3);
    let ids = ["e3", "e5", "e9"].map(|id| EventId::new(id).unwrap());
    let known = s.store.lookup_ids(&s.session, &ids).await.unwrap();
    let known: Vec<_> = known.iter().map(|k| k.map(|k| k.ordinal)).collect();
    assert_eq!(known, [Some(3), Some(5), Some(9)]);
}

async fn a_damaged_event_marks_its_item_alone(place: Place) {
    let s = damaged(&place, |id| Damage::Event(id, 4)).await;
    for direction in [Direction::Older, Direction::Newer] {
        let page = s.page(direction, Start::Edge).await;
        assert_eq!(page.items.len() as u64, MESSAGES);
        for item in &page.items {
            let ordinal = item.item.position.ordinal;
            let wanted: &[u64] = if ordinal == 4 { &[4] } else { &[] };
            assert_eq!(item.damaged, wanted, "the item at {ordinal}");
            assert_eq!(item.events.is_empty(), ordinal == 4);
        }
    }
}

async fn a_damaged_last_event_keeps_its_place(place: Place) {
    let mut s = damaged(&place, |id| Damage::Event(id, MESSAGES)).await;
    assert_eq!(
        s.info().await.head,
        MESSAGES,
        "the head has a row of its own"
    );
    let event = s.events.user("next", "after the damage");
    let committed = s.append(vec![event]).await;
    assert_eq!(committed.events[0].ordinal, MESSAGES + 1);
    is_gap(&range(&s, MESSAGES, 99).await.unwrap_err(), &[MESSAGES]);
    assert_eq!(range(&s, MESSAGES + 1, 99).await.unwrap(), [MESSAGES + 1]);
}

async fn a_damaged_event_is_not_forgotten(place: Place) {
    // Its id is taken, although what it said is lost: a repeat is neither
    // accepted as new nor taken for the same.
    let s = damaged(&place, |id| Damage::Event(id, 4)).await;
    let error = s
        .refused(AppendBatch::native(vec![
            s.events.clone().user("e4", "message 4"),
        ]))
        .await;
    is_gap(&error, &[4]);
}

async fn is_index_damaged(s: &Bench) {
    for direction in [Direction::Older, Direction::Newer] {
        let page = s
            .store
            .read_items(&s.session, query(direction, Start::Edge));
        let error = page.await.unwrap_err();
        assert_eq!(error.code(), "index_damaged", "{direction:?}");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let walked = walk(&s.store, &s.session, direction).await;
        assert_eq!(code(walked), "index_damaged", "{direction:?}, by twos");
    }
    // No event is lost with it, and the index can be made anew.
    assert_eq!(range(s, 1, 99).await.unwrap().len() as u64, MESSAGES);
    s.store.rebuild_index(&s.session).await.unwrap();
    assert_eq!(rows(&*s.store, &s.session).await.len() as u64, MESSAGES);
    s.is_sound().await;
}

/// Pages of two items from an edge to the other.
async fn walk(
    store: &Arc<dyn Store>,
    session: &SessionId,
    direction: Direction,
) -> Result<u64, StoreError> {
    let mut query = ItemQuery {
        max_items: 2,
        ..query(direction, Start::Edge)
    };
    let mut count = 0;
    loop {
        let page = store.read_items(session, query.clone()).await?;
        count += page.items.len() as u64;
        match page.items.last() {
            Some(last) if page.more => query.start = Start::Behind(last.item.position),
            _ => return Ok(count),
        }
    }
}

async fn a_damaged_item_row_is_index_damaged(place: Place) {
    let s = damaged(&place, |id| Damage::Item(id, 4)).await;
    is_index_damaged(&s).await;
    let rows = s.rows().await;
    assert_eq!(keys(&rows)[3], "user::e4");
}

async fn a_lost_item_row_is_index_damaged(place: Place) {
    let s = damaged(&place, |id| Damage::LostItem(id, 4)).await;
    is_index_damaged(&s).await;
}

async fn a_lost_row_at_an_edge_is_index_damaged(place: Place) {
    let s = damaged(&place, |id| Damage::LostItem(id, MESSAGES)).await;
    is_index_damaged(&s).await;
    let Bench { store, session, .. } = s;
    store.close().await.unwrap();
    drop(store);
    place.damage(Damage::LostItem(&session, 1)).await.unwrap();
    let store = place.reopen().await.unwrap();
    for direction in [Direction::Older, Direction::Newer] {
        let walked = walk(&store, &session, direction).await;
        assert_eq!(code(walked), "index_damaged", "{direction:?}");
    }
}

async fn an_index_of_another_build_is_stale_and_says_so(place: Place) {
    let mut s = damaged(&place, |id| Damage::OldIndex(id)).await;
    for head in [MESSAGES, MESSAGES + 1] {
        for direction in [Direction::Older, Direction::Newer] {
            let page = s
                .store
                .read_items(&s.session, query(direction, Start::Edge));
            let error = page.await.unwrap_err();
            assert_eq!(error.code(), "index_stale", "{direction:?}");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
        let status = s.store.index_status(&s.session).await.unwrap();
        assert_ne!(status.version, PROJECTION_VERSION);
        assert_eq!((status.index_head, status.head), (MESSAGES, head));
        // The ledger does not depend on its index.
        let event = s.events.user(&format!("after {head}"), "text");
        s.append(vec![event]).await;
        assert_eq!(range(&s, 1, 99).await.unwrap().len() as u64, head + 1);
    }
}

async fn an_index_of_another_build_is_made_anew(place: Place) {
    let mut s = damaged(&place, |id| Damage::OldIndex(id)).await;
    let event = s.events.user("after", "text");
    s.append(vec![event]).await;
    let status = s.store.rebuild_index(&s.session).await.unwrap();
    assert_eq!(status.version, PROJECTION_VERSION);
    assert_eq!(status.index_head, MESSAGES + 1);
    let event = s.events.user("later", "text");
    s.append(vec![event]).await;
    assert_eq!(s.rows().await.len() as u64, MESSAGES + 2);
    s.is_sound().await;
}

async fn verify_names_what_is_damaged(place: Place) {
    let s = damaged(&place, |id| Damage::Event(id, 4)).await;
    let report = s.store.verify(&s.session).await.unwrap();
    assert!(
        report
            .findings
            .iter()
            .any(|finding| (finding.code, finding.at) == ("event_damaged", Some(4))),
        "{:?}",
        report.findings
    );
}

/// A session with a message and two contribution logs, of which the notes were
/// lost while it was closed.
async fn without_its_notes(place: &Place) -> Bench {
    let mut s = Bench::open(&**place).await;
    let event = s.events.user("e1", "message");
    s.append(vec![event]).await;
    note(&s, NOTES, "n1").await.unwrap();
    note(&s, "other", "o1").await.unwrap();
    let Bench {
        store,
        session,
        events,
    } = s;
    store.close().await.unwrap();
    drop(store);
    place.damage(Damage::LostNotes(&session)).await.unwrap();
    Bench {
        store: place.reopen().await.unwrap(),
        session,
        events,
    }
}

/// Appends a contribution alone.
async fn note(s: &Bench, source: &str, id: &str) -> Result<(), StoreError> {
    let fact = Fact {
        id: ForeignId::new(id).unwrap(),
        op: FactOp::Put,
        anchor: 1,
        ts: None,
        kind: "mode_change".into(),
        turn_id: None,
        visible: true,
        data: None,
    };
    let batch = AppendBatch {
        contributions: Some(ContributionBatch::new(source, vec![fact])),
        ..AppendBatch::native(Vec::new())
    };
    s.store.append(&s.session, batch).await.map(drop)
}

async fn lost_notes_do_not_pass_for_none(place: Place) {
    let s = without_its_notes(&place).await;
    let (store, id) = (&s.store, &s.session);
    let all = |direction| ContributionQuery {
        through: u64::MAX,
        direction,
        after: None,
        max_items: 10,
    };
    for direction in [Direction::Older, Direction::Newer] {
        let listed = store.contributions(id, NOTES, all(direction)).await;
        let error = listed.unwrap_err();
        assert_eq!(error.code(), "row_damaged", "{direction:?}");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    let status = store.contribution_status(id, NOTES).await;
    assert_eq!(code(status), "row_damaged");
    assert_eq!(code(store.contribution_sources(id).await), "row_damaged");
    // A log made anew would hide that there was one.
    assert_eq!(code(note(&s, NOTES, "n2").await), "row_damaged");
    assert_eq!(code(note(&s, "third", "t1").await), "row_damaged");
    let keys = ["notes::n1".to_owned()];
    assert_eq!(code(store.redact(id, &keys).await), "row_damaged");
    let report = store.verify(id).await.unwrap();
    let findings: Vec<_> = report.findings.iter().map(|found| found.code).collect();
    assert_eq!(findings, ["row_damaged"]);
    // What is there is in nobody's way.
    let other = store.contributions(id, "other", all(Direction::Newer));
    assert_eq!(other.await.unwrap().len(), 1);
    note(&s, "other", "o2").await.unwrap();
    assert_eq!(range(&s, 1, 9).await.unwrap(), [1]);
}

async fn a_session_that_lost_its_notes_is_deleted(place: Place) {
    let s = without_its_notes(&place).await;
    s.store.delete_session(&s.session, None).await.unwrap();
    s.store.scrub().await.unwrap();
    let gone = s.store.session(&s.session).await;
    assert_eq!(code(gone), "session_not_found");
}
