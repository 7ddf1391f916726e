//! Redaction: the payload is gone from every read, and nothing else is.

use crate::check::{
    Bench, Row, append, code, create, fork, is_sound, keys, pages, session_id, stored, told,
    told_at,
};
use crate::conformance::{Case, StorePlace};
use crate::event::Events;
use crate::workload::random;
use folio_core::canonical::event_json;
use folio_core::{CanonicalEvent, Direction, SessionId};
use folio_store::{
    AppendBatch, ContributionQuery, ErrorKind, NOTES, NewSession, Redaction, Store, ViewBatch,
};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("redact":
    every_kind_of_item_loses_its_payload,
    what_is_left_is_sound_and_makes_the_same_index,
    the_events_are_the_same_ones,
    the_answer_names_the_events,
    one_item_of_a_random_session_at_a_time,
    all_items_at_once,
    a_redacted_stream_goes_on,
    an_unknown_key_refuses_all,
    redacting_again_changes_nothing,
    a_key_may_be_said_twice,
    notes_lose_what_they_say,
    a_note_of_another_session_is_unknown,
    the_source_record_of_an_import_goes_with_its_events,
    a_record_that_is_no_source_stays,
    generations_rise_where_the_event_is_shared,
    a_prefix_is_redacted_through_a_child,
    an_own_item_of_a_child_is_redacted_there_alone,
    a_fork_of_what_was_redacted_shows_as_little,
    an_inherited_item_that_went_on_in_a_child_loses_all,
    what_outlives_its_session_is_redacted,
    views_are_made_anew,
    a_redaction_is_an_erasure_until_the_scrub,
    what_cannot_be_read_cannot_be_redacted,
    a_revision_after_a_redaction_counts,
    another_handle_redacts: MultiProcess,
    what_was_redacted_stays_so: Durable,
);

type Place = Box<dyn StorePlace>;

/// The secret that the item with a key holds.
fn secret(key: &str) -> String {
    format!("SECRET<{key}>")
}

/// A session in which every kind of item holds a secret of its own, and only
/// that.
fn rich(session: &str) -> Vec<CanonicalEvent> {
    let mut e = Events::new(session);
    let m1 = secret("assistant:r1:m1");
    let (m2, call) = (secret("assistant:r1:m2"), secret("call:t1:c1"));
    let (result, decision) = (secret("result:t1:c1"), secret("permission:t1:p1"));
    let model = "\"role\":\"model\",\"author\":\"agent\"";
    let host = "\"role\":\"system\",\"author\":\"host\"";
    vec![
        e.opened("opened", "prompt", ""),
        e.raw("a", &format!("\"role\":\"user\",\"author\":\"user\",\"content\":{{\"kind\":\"text\",\"text\":\"{0}\",\"displayText\":\"{0}\",\"attachments\":[{{\"name\":\"{0}\"}}]}}", secret("user::a"))),
        e.raw("b", &format!("\"role\":\"user\",\"author\":\"user\",\"content\":{{\"kind\":\"text\",\"text\":\"{}\",\"steering\":true}}", secret("steer::b"))),
        // Streamed, settled, revised, with a chunk that comes late and
        // reasoning that shows nothing.
        e.thinking("m1-t1", "m1", true, &m1),
        e.thinking("m1-t2", "m1", true, &m1),
        e.text("m1-k1", "m1", true, &m1),
        e.text("m1-k2", "m1", true, &m1),
        e.raw("m1-t", &format!("{model},\"refs\":{{\"providerEventId\":\"m1\"}},\"content\":{{\"kind\":\"thinking\",\"text\":\"{m1}\",\"summary\":\"{m1}\",\"signature\":\"{m1}\"}}")),
        e.raw("m1-f", &format!("{model},\"refs\":{{\"providerEventId\":\"m1\"}},\"content\":{{\"kind\":\"text\",\"text\":\"{m1}\",\"providerOptions\":{{\"x\":\"{m1}\"}}}}")),
        e.raw("m1-r", &format!("{model},\"refs\":{{\"providerEventId\":\"m1\",\"revises\":\"m1-f\"}},\"content\":{{\"kind\":\"text\",\"text\":\"{m1}\"}}")),
        e.text("m1-late", "m1", true, &m1),
        e.raw("m1-mark", &format!("{model},\"refs\":{{\"providerEventId\":\"m1\",\"contentIndex\":1}},\"content\":{{\"kind\":\"thinking\",\"text\":\"\",\"signature\":\"{m1}\"}}")),
        e.raw("m1-mark-2", &format!("{model},\"refs\":{{\"providerEventId\":\"m1\",\"contentIndex\":1}},\"content\":{{\"kind\":\"thinking\",\"text\":\"\",\"signature\":\"{m1}\"}}")),
        // Streamed and never settled.
        e.text("m2-k1", "m2", true, &m2),
        e.text("m2-k2", "m2", true, &m2),
        // A call with chunks of its arguments and of its output.
        e.raw("c1-k", &format!("{model},\"partial\":true,\"refs\":{{\"stepId\":\"m1\"}},\"content\":{{\"kind\":\"function_call\",\"id\":\"c1\",\"name\":\"Read\",\"args\":{{\"q\":\"{call}\"}}}}")),
        e.raw("c1", &format!("{model},\"refs\":{{\"stepId\":\"m1\"}},\"content\":{{\"kind\":\"function_call\",\"id\":\"c1\",\"name\":\"Read\",\"args\":{{\"q\":\"{call}\"}}}},\"actions\":{{\"stateDelta\":{{\"intent\":\"{call}\"}}}}")),
        e.raw("p1-q", &format!("{host},\"actions\":{{\"permissionRequest\":{{\"requestId\":\"p1\",\"toolUseId\":\"c1\",\"toolName\":\"Read\",\"hint\":\"{decision}\"}}}}")),
        e.raw("p1-d", &format!("\"role\":\"user\",\"author\":\"user\",\"actions\":{{\"permissionDecision\":{{\"requestId\":\"p1\",\"decision\":\"allow\",\"rationale\":\"{decision}\"}}}}")),
        e.raw("c1-o", &format!("\"role\":\"tool\",\"author\":\"tool\",\"partial\":true,\"content\":{{\"kind\":\"function_response\",\"id\":\"c1\",\"name\":\"Read\",\"result\":{{\"kind\":\"text\",\"text\":\"{result}\"}}}}")),
        e.raw("c1-r", &format!("\"role\":\"tool\",\"author\":\"tool\",\"content\":{{\"kind\":\"function_response\",\"id\":\"c1\",\"name\":\"Read\",\"result\":{{\"kind\":\"text\",\"text\":\"{result}\"}},\"providerOutput\":{{\"raw\":\"{result}\"}}}},\"actions\":{{\"stateDelta\":{{\"note\":\"{result}\"}}}}")),
        e.raw("c1-o2", &format!("\"role\":\"tool\",\"author\":\"tool\",\"partial\":true,\"content\":{{\"kind\":\"function_response\",\"id\":\"c1\",\"name\":\"Read\",\"result\":{{\"kind\":\"text\",\"text\":\"{result}\"}}}}")),
        e.raw("n", &format!("\"role\":\"system\",\"author\":\"system\",\"content\":{{\"kind\":\"compaction\",\"summary\":\"{}\",\"throughOrdinal\":3,\"tokensBefore\":9}}", secret("note::n"))),
        e.raw("h", &format!("{model},\"content\":{{\"kind\":\"hologram\",\"frames\":[\"{}\"]}}", secret("note::h"))),
        e.raw("x", &format!("{host},\"content\":{{\"kind\":\"extension\",\"namespace\":\"acme\",\"name\":\"vote\",\"version\":1,\"criticality\":\"required\",\"payload\":{{\"x\":\"{}\"}}}}", secret("ext::x"))),
        e.raw("end", &format!("\"role\":\"system\",\"author\":\"system\",\"status\":\"failed\",\"content\":{{\"kind\":\"error\",\"message\":\"{0}\",\"code\":\"boom\",\"details\":[\"{0}\"]}}", secret("turn:r1:r1"))),
    ]
}

const KEYS: &[&str] = &[
    "user::a",
    "steer::b",
    "assistant:r1:m1",
    "assistant:r1:m2",
    "call:t1:c1",
    "permission:t1:p1",
    "result:t1:c1",
    "note::n",
    "note::h",
    "ext::x",
    "turn:r1:r1",
];

/// Everything that any read of a session shows.
async fn everything(store: &dyn Store, session: &SessionId) -> String {
    let mut all = String::new();
    let events = stored(store, session).await;
    let ordinals: Vec<_> = events.iter().map(|event| event.ordinal).collect();
    let asked = store.events(session, &ordinals).await.unwrap();
    for event in events.iter().chain(&asked) {
        all.push_str(&event_json(&event.view().unwrap(), &event.spine, session).text);
    }
    for through in 0..=events.len() as u64 {
        for page in pages(
            store,
            session,
            Some(through),
            Direction::Newer,
            50,
            usize::MAX,
        )
        .await
        {
            for loaded in &page.items {
                let (key, _, json) = crate::check::row(loaded, through);
                write!(all, "{key}{json}").unwrap();
                let chunks = loaded.chunks.iter().flat_map(|(_, chunks)| chunks);
                for event in loaded.events.iter().chain(chunks) {
                    all.push_str(event.view().unwrap().text);
                }
            }
        }
    }
    let query = ContributionQuery {
        through: u64::MAX,
        direction: Direction::Newer,
        after: None,
        max_items: 1_000,
    };
    let facts = store.contributions(session, NOTES, query).await.unwrap();
    for fact in facts {
        all.push_str(&fact.body);
    }
    let runs = store.runs(session, 0, 1_000).await.unwrap();
    write!(all, "{runs:?}").unwrap();
    all
}

/// Asserts that of the secrets of `all` exactly those of `gone` are gone.
async fn only_these_are_gone(store: &dyn Store, session: &SessionId, all: &[&str], gone: &[&str]) {
    let everything = everything(store, session).await;
    for key in all {
        assert_eq!(
            everything.contains(&secret(key)),
            !gone.contains(key),
            "the secret of {key} in {session}, where {gone:?} were redacted"
        );
    }
}

async fn redact(store: &dyn Store, session: &SessionId, keys: &[&str]) -> Redaction {
    let keys: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
    store.redact(session, &keys).await.unwrap()
}

fn says_so(row: &Row) -> bool {
    row.2.contains("\"redacted\":true")
}

/// A session of its own with everything in it.
async fn rich_session(s: &Bench, id: &str) -> SessionId {
    let session = create(&*s.store, id).await;
    append(&*s.store, &session, rich(id)).await;
    session
}

async fn every_kind_of_item_loses_its_payload(place: Place) {
    let s = Bench::open(&*place).await;
    for (n, key) in KEYS.iter().enumerate() {
        let session = rich_session(&s, &format!("x{n}")).await;
        let before = crate::check::rows(&*s.store, &session).await;
        let found: BTreeSet<_> = keys(&before).into_iter().collect();
        assert_eq!(
            found,
            KEYS.iter().copied().collect(),
            "the rows of the session"
        );
        only_these_are_gone(&*s.store, &session, KEYS, &[]).await;
        redact(&*s.store, &session, &[key]).await;
        only_these_are_gone(&*s.store, &session, KEYS, &[key]).await;
        let after = crate::check::rows(&*s.store, &session).await;
        for (row, before) in after.iter().zip(&before) {
            assert_eq!((&row.0, row.1), (&before.0, before.1));
            // A decision shows its call.
            let about_it = row.0 == *key || (*key == "call:t1:c1" && row.0 == "permission:t1:p1");
            if about_it {
                assert!(says_so(row), "{row:?}");
            } else {
                assert_eq!(row, before, "where {key} was redacted");
            }
        }
    }
}

async fn what_is_left_is_sound_and_makes_the_same_index(place: Place) {
    let s = Bench::open(&*place).await;
    for (n, key) in KEYS.iter().enumerate() {
        let session = rich_session(&s, &format!("x{n}")).await;
        let before = told(&*s.store, &session).await;
        redact(&*s.store, &session, &[key]).await;
        let after = told(&*s.store, &session).await;
        assert_eq!(after.head, before.head, "head, chain and count");
        let items = |told: &crate::check::Told| -> Vec<_> {
            told.items.iter().map(|told| told.item.clone()).collect()
        };
        assert_eq!(items(&after), items(&before), "{key}");
        is_sound(&*s.store, &session).await;
        s.store.rebuild_index(&session).await.unwrap();
        assert_eq!(told(&*s.store, &session).await, after, "{key}");
        is_sound(&*s.store, &session).await;
    }
}

async fn the_events_are_the_same_ones(place: Place) {
    let s = Bench::open(&*place).await;
    let session = rich_session(&s, "x").await;
    let ids: Vec<_> = rich("x").into_iter().map(|event| event.id).collect();
    let known = s.store.lookup_ids(&session, &ids).await.unwrap();
    let chains = async || -> Vec<_> {
        let all = stored(&*s.store, &session).await;
        all.into_iter()
            .map(|event| {
                (
                    event.ordinal,
                    event.event_seq,
                    event.committed_at,
                    event.chain,
                )
            })
            .collect()
    };
    let before = chains().await;
    redact(&*s.store, &session, KEYS).await;
    assert_eq!(s.store.lookup_ids(&session, &ids).await.unwrap(), known);
    assert_eq!(chains().await, before);
    // A repeat of what was written is present, and brings nothing back.
    let again = append(&*s.store, &session, rich("x")).await;
    assert!(again.events.iter().all(|event| event.present));
    only_these_are_gone(&*s.store, &session, KEYS, KEYS).await;
    let other = Events::new("x").user("a", "another");
    let refused = s
        .store
        .append(&session, AppendBatch::native(vec![other]))
        .await;
    assert_eq!(code(refused), "event_id_conflict");
    is_sound(&*s.store, &session).await;
}

async fn the_answer_names_the_events(place: Place) {
    let s = Bench::open(&*place).await;
    for (n, key) in KEYS.iter().enumerate() {
        let session = rich_session(&s, &format!("x{n}")).await;
        let before = stored(&*s.store, &session).await;
        let answer = redact(&*s.store, &session, &[key]).await;
        let after = stored(&*s.store, &session).await;
        let changed: Vec<_> = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before.body != after.body)
            .map(|(before, _)| before.ordinal)
            .collect();
        assert_eq!(answer.ordinals, changed, "{key}");
        assert!(answer.facts.is_empty());
        assert_eq!(answer.generation, 1);
        let info = s.store.session(&session).await.unwrap();
        assert_eq!(info.generation, 1);
    }
}

async fn one_item_of_a_random_session_at_a_time(place: Place) {
    let s = Bench::open(&*place).await;
    for seed in 0..3 {
        let session = create(&*s.store, &format!("x{seed}")).await;
        append(&*s.store, &session, random(110 + seed, 150)).await;
        let mut before = told(&*s.store, &session).await;
        let keys: Vec<_> = before.items.iter().map(|told| told.row.0.clone()).collect();
        for key in keys.iter().step_by(5) {
            let answer = redact(&*s.store, &session, &[key]).await;
            let after = told(&*s.store, &session).await;
            assert_eq!(after.head, before.head);
            for (one, other) in after.items.iter().zip(&before.items) {
                assert_eq!(one.item, other.item, "{key}");
                let shows_it = one
                    .item
                    .need
                    .iter()
                    .any(|need| answer.ordinals.contains(&need.ordinal));
                if !shows_it {
                    assert_eq!(one, other, "where {key} was redacted");
                }
            }
            before = after;
        }
        is_sound(&*s.store, &session).await;
        s.store.rebuild_index(&session).await.unwrap();
        assert_eq!(told(&*s.store, &session).await, before);
        let again = append(&*s.store, &session, random(110 + seed, 150)).await;
        assert!(again.events.iter().all(|event| event.present));
    }
}

async fn all_items_at_once(place: Place) {
    let s = Bench::open(&*place).await;
    let session = rich_session(&s, "x").await;
    let answer = redact(&*s.store, &session, KEYS).await;
    assert_eq!(answer.generation, 1, "it rises once");
    only_these_are_gone(&*s.store, &session, KEYS, KEYS).await;
    let rows = crate::check::rows(&*s.store, &session).await;
    assert!(rows.iter().all(says_so));
    is_sound(&*s.store, &session).await;
}

async fn a_redacted_stream_goes_on(place: Place) {
    let mut s = Bench::open(&*place).await;
    let key = "assistant:r1:m1";
    let chunks = vec![
        s.events.text("k1", "m1", true, &secret(key)),
        s.events.text("k2", "m1", true, &secret(key)),
    ];
    s.append(chunks).await;
    redact(&*s.store, &s.session, &[key]).await;
    let more = s.events.text("k3", "m1", true, "goes on");
    s.append(vec![more]).await;
    let rows = s.rows().await;
    assert_eq!(keys(&rows), [key]);
    assert!(rows[0].2.contains("goes on") && says_so(&rows[0]));
    only_these_are_gone(&*s.store, &s.session, &[key], &[key]).await;
    s.is_sound().await;
    let settled = s.events.text("f", "m1", false, "settled");
    s.append(vec![settled]).await;
    assert!(s.rows().await[0].2.contains("settled"));
    s.is_sound().await;
}

async fn an_unknown_key_refuses_all(place: Place) {
    let s = Bench::open(&*place).await;
    let session = rich_session(&s, "x").await;
    let before = (
        s.store.session(&session).await.unwrap(),
        told(&*s.store, &session).await,
    );
    for unknown in [
        "user::nobody",
        "user::a~2",
        "notes::n1",
        "nothing",
        "",
        "::",
    ] {
        let keys = ["user::a".to_owned(), unknown.to_owned()];
        let error = s.store.redact(&session, &keys).await.unwrap_err();
        assert_eq!(error.code(), "item_not_found", "{unknown:?}");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains(unknown));
        let after = (
            s.store.session(&session).await.unwrap(),
            told(&*s.store, &session).await,
        );
        assert_eq!(after, before, "nothing was redacted");
    }
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
}

async fn redacting_again_changes_nothing(place: Place) {
    let s = Bench::open(&*place).await;
    let session = rich_session(&s, "x").await;
    let first = redact(&*s.store, &session, &["user::a", "note::n"]).await;
    let before = (
        s.store.session(&session).await.unwrap(),
        told(&*s.store, &session).await,
    );
    let again = redact(&*s.store, &session, &["user::a", "note::n"]).await;
    assert_eq!(again, first);
    let after = (
        s.store.session(&session).await.unwrap(),
        told(&*s.store, &session).await,
    );
    assert_eq!(after, before);
    let more = redact(&*s.store, &session, &["user::a", "ext::x"]).await;
    assert_eq!(more.generation, 2);
    let nothing = redact(&*s.store, &session, &[]).await;
    assert_eq!((nothing.ordinals.len(), nothing.generation), (0, 2));
}

async fn a_key_may_be_said_twice(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", &secret("user::a"));
    let note = crate::cases::source::fact("n1", 0, "text");
    let batch = crate::cases::source::batch(vec![event], NOTES, vec![note]);
    s.store.append(&s.session, batch).await.unwrap();
    let twice = ["user::a", "notes::n1", "user::a", "notes::n1"];
    let answer = redact(&*s.store, &s.session, &twice).await;
    assert_eq!(answer.ordinals, [1]);
    assert_eq!(answer.facts, [(NOTES.to_owned(), 1)]);
    s.is_sound().await;
}

async fn notes_lose_what_they_say(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    let names = ["notes::n1", "notes::n2", "other::n1"];
    let note = |name: &str, id: &str| crate::cases::source::fact(id, 1, &secret(name));
    let notes = vec![note(names[0], "n1"), note(names[1], "n2")];
    let batch = crate::cases::source::batch(vec![event], NOTES, notes.clone());
    s.store.append(&s.session, batch).await.unwrap();
    let other = vec![note(names[2], "n1")];
    let batch = crate::cases::source::batch(Vec::new(), "other", other);
    s.store.append(&s.session, batch).await.unwrap();
    let status = async || {
        s.store
            .contribution_status(&s.session, NOTES)
            .await
            .unwrap()
    };
    let before = status().await;
    let answer = redact(&*s.store, &s.session, &["notes::n1"]).await;
    assert_eq!(answer.facts, [(NOTES.to_owned(), 1)]);
    assert_eq!((answer.ordinals.len(), answer.generation), (0, 1));
    assert_eq!(status().await, before);
    only_these_are_gone(&*s.store, &s.session, &names[..2], &names[..1]).await;
    let others = crate::cases::source::facts(&s, "other", u64::MAX).await;
    assert!(others[0].body.contains(&secret(names[2])));
    let left = crate::cases::source::facts(&s, NOTES, u64::MAX).await;
    let fact = left[0].fact().unwrap();
    assert_eq!((fact.id.as_str(), fact.anchor), ("n1", 1));
    assert!(fact.to_row().contains("\"redacted\":true"));
    let digest = folio_codec::fact_digest(&notes[0].canonical());
    assert_eq!(left[0].withheld, Some(digest));
    assert_eq!(left[1].withheld, None);
    assert_eq!(s.rows().await.len(), 1, "the ledger is left alone");
    s.is_sound().await;
    // The same note is present, another one under its id a conflict.
    let batch = crate::cases::source::batch(Vec::new(), NOTES, notes);
    let again = s.store.append(&s.session, batch).await.unwrap();
    assert_eq!((again.facts_added, again.facts_head), (0, 2));
    let another = crate::cases::source::fact("n1", 1, "another");
    let batch = crate::cases::source::batch(Vec::new(), NOTES, vec![another]);
    assert_eq!(s.refused(batch).await.code(), "fact_id_conflict");
    only_these_are_gone(&*s.store, &s.session, &names[..2], &names[..1]).await;
    let again = redact(&*s.store, &s.session, &["notes::n1"]).await;
    assert_eq!(again, answer);
}

async fn a_note_of_another_session_is_unknown(place: Place) {
    let mut s = Bench::open(&*place).await;
    let event = s.events.user("a", "1");
    let note = crate::cases::source::fact("n1", 1, &secret("notes::n1"));
    let batch = crate::cases::source::batch(vec![event], NOTES, vec![note]);
    s.store.append(&s.session, batch).await.unwrap();
    let child = s.fork(1, "child").await;
    let refused = s.store.redact(&child, &["notes::n1".into()]).await;
    assert_eq!(code(refused), "item_not_found");
    only_these_are_gone(&*s.store, &s.session, &["notes::n1"], &[]).await;
}

/// What an import makes of a record: several events under one stem, the first
/// of which keeps the record.
fn imported(e: &mut Events) -> Vec<CanonicalEvent> {
    let (zero, one) = ("user::rec-0", "user::rec-1");
    vec![
        e.raw("rec-0", &format!("\"role\":\"user\",\"author\":\"user\",\"content\":{{\"kind\":\"text\",\"text\":\"the first\"}},\"source\":{{\"one\":\"{}\",\"two\":\"{}\"}},\"sourceHoles\":[1]", secret(zero), secret(one))),
        e.user("rec-1", &secret(one)),
        e.user("record-1", "of another record"),
    ]
}

async fn the_source_record_of_an_import_goes_with_its_events(place: Place) {
    let s = Bench::open(&*place).await;
    let (zero, one) = ("user::rec-0", "user::rec-1");
    for (n, key) in [one, zero].into_iter().enumerate() {
        let id = format!("x{n}");
        let session = create(&*s.store, &id).await;
        let events = imported(&mut Events::new(&id));
        append(&*s.store, &session, events.clone()).await;
        only_these_are_gone(&*s.store, &session, &[zero, one], &[]).await;
        let answer = redact(&*s.store, &session, &[key]).await;
        let gone: &[&str] = if key == one { &[zero, one] } else { &[zero] };
        only_these_are_gone(&*s.store, &session, &[zero, one], gone).await;
        assert_eq!(answer.ordinals, [if key == one { 2 } else { 1 }]);
        let rows = crate::check::rows(&*s.store, &session).await;
        assert_eq!(rows[0].2.contains("the first"), key == one);
        assert!(rows[2].2.contains("of another record") && !says_so(&rows[2]));
        is_sound(&*s.store, &session).await;
        let again = append(&*s.store, &session, events).await;
        assert!(again.events.iter().all(|event| event.present));
        // The rest of the first event goes later, and is still the same event.
        redact(&*s.store, &session, &[zero]).await;
        let rows = crate::check::rows(&*s.store, &session).await;
        assert!(!rows[0].2.contains("the first"));
        is_sound(&*s.store, &session).await;
        let again = append(&*s.store, &session, imported(&mut Events::new(&id))).await;
        assert!(again.events.iter().all(|event| event.present));
    }
}

async fn a_record_that_is_no_source_stays(place: Place) {
    let mut s = Bench::open(&*place).await;
    let events = vec![
        s.events.user("rec-0", "kept"),
        s.events.user("rec-1", "gone"),
    ];
    s.append(events).await;
    let before = s.stored().await;
    redact(&*s.store, &s.session, &["user::rec-1"]).await;
    assert_eq!(s.stored().await[0], before[0]);
}

/// Parent, a child from before the secret, one from behind it, and a
/// grandchild.
struct Family {
    before: SessionId,
    behind: SessionId,
    grand: SessionId,
}

async fn family(s: &mut Bench) -> Family {
    let events = vec![
        s.events.user("a", "1"),
        s.events.user("b", &secret("user::b")),
        s.events.user("c", "3"),
    ];
    s.append(events).await;
    let before = s.fork(1, "before").await;
    let behind = s.fork(2, "behind").await;
    let own = s.events.user("d", &secret("user::d"));
    append(&*s.store, &behind, vec![own]).await;
    let grand = fork(&*s.store, &behind, 3, "grand").await;
    Family {
        before,
        behind,
        grand,
    }
}

async fn generations(s: &Bench, f: &Family) -> [u32; 4] {
    let of = async |id| s.store.session(id).await.unwrap().generation;
    [
        of(&s.session).await,
        of(&f.before).await,
        of(&f.behind).await,
        of(&f.grand).await,
    ]
}

async fn generations_rise_where_the_event_is_shared(place: Place) {
    let mut s = Bench::open(&*place).await;
    let f = family(&mut s).await;
    redact(&*s.store, &s.session, &["user::b"]).await;
    assert_eq!(generations(&s, &f).await, [1, 0, 1, 1]);
    for session in [&s.session, &f.behind, &f.grand] {
        only_these_are_gone(&*s.store, session, &["user::b"], &["user::b"]).await;
        is_sound(&*s.store, session).await;
    }
    redact(&*s.store, &s.session, &["user::c"]).await;
    assert_eq!(generations(&s, &f).await, [2, 0, 1, 1], "nobody shares it");
    redact(&*s.store, &s.session, &["user::a"]).await;
    assert_eq!(generations(&s, &f).await, [3, 1, 2, 2]);
}

async fn a_prefix_is_redacted_through_a_child(place: Place) {
    let mut s = Bench::open(&*place).await;
    let f = family(&mut s).await;
    let answer = redact(&*s.store, &f.grand, &["user::b"]).await;
    assert_eq!((answer.ordinals, answer.generation), (vec![2], 1));
    assert_eq!(generations(&s, &f).await, [1, 0, 1, 1]);
    for session in [&s.session, &f.behind, &f.grand] {
        only_these_are_gone(&*s.store, session, &["user::b"], &["user::b"]).await;
        is_sound(&*s.store, session).await;
    }
}

async fn an_own_item_of_a_child_is_redacted_there_alone(place: Place) {
    let mut s = Bench::open(&*place).await;
    let f = family(&mut s).await;
    // The same id, and another event.
    let mine = s.events.user("d", &secret("user::d"));
    s.append(vec![mine]).await;
    redact(&*s.store, &f.behind, &["user::d"]).await;
    assert_eq!(generations(&s, &f).await, [0, 0, 1, 1]);
    only_these_are_gone(&*s.store, &s.session, &["user::b", "user::d"], &[]).await;
    for session in [&f.behind, &f.grand] {
        only_these_are_gone(&*s.store, session, &["user::b", "user::d"], &["user::d"]).await;
    }
    let refused = s.store.redact(&f.behind, &["user::c".into()]).await;
    assert_eq!(code(refused), "item_not_found", "it is the parent's alone");
}

async fn a_fork_of_what_was_redacted_shows_as_little(place: Place) {
    let mut s = Bench::open(&*place).await;
    let f = family(&mut s).await;
    redact(&*s.store, &s.session, &["user::b"]).await;
    let late = s.fork(3, "late").await;
    only_these_are_gone(&*s.store, &late, &["user::b"], &["user::b"]).await;
    let info = s.store.session(&late).await.unwrap();
    assert_eq!(info.generation, 0, "nobody has read it before");
    is_sound(&*s.store, &late).await;
    let again = Events::new("s1");
    let again = again.clone().user("nothing", "else");
    append(&*s.store, &late, vec![again]).await;
    is_sound(&*s.store, &f.before).await;
}

async fn an_inherited_item_that_went_on_in_a_child_loses_all(place: Place) {
    let mut s = Bench::open(&*place).await;
    let key = "assistant:r1:m1";
    let chunk = |e: &mut Events, id: &str| e.text(id, "m1", true, &secret(key));
    let first = vec![chunk(&mut s.events, "k1"), chunk(&mut s.events, "k2")];
    s.append(first).await;
    let child = s.fork(2, "child").await;
    let grand = fork(&*s.store, &child, 1, "grand").await;
    let more = chunk(&mut s.events, "p3");
    s.append(vec![more]).await;
    let more = vec![
        chunk(&mut s.events, "c3"),
        s.events.text("c4", "m1", false, &secret(key)),
    ];
    append(&*s.store, &child, more).await;
    let answer = redact(&*s.store, &child, &[key]).await;
    assert_eq!(answer.ordinals, [1, 2, 3, 4]);
    only_these_are_gone(&*s.store, &child, &[key], &[key]).await;
    only_these_are_gone(&*s.store, &grand, &[key], &[key]).await;
    // What the parent said later is not the child's.
    let parents = s.stored().await;
    assert!(parents[2].view().unwrap().text.contains(&secret(key)));
    assert!(!parents[1].view().unwrap().text.contains(&secret(key)));
    for session in [&s.session, &child, &grand] {
        is_sound(&*s.store, session).await;
        let before = told(&*s.store, session).await;
        s.store.rebuild_index(session).await.unwrap();
        assert_eq!(told(&*s.store, session).await, before);
    }
    redact(&*s.store, &s.session, &[key]).await;
    only_these_are_gone(&*s.store, &s.session, &[key], &[key]).await;
}

async fn what_outlives_its_session_is_redacted(place: Place) {
    let mut s = Bench::open(&*place).await;
    let f = family(&mut s).await;
    s.store.delete_session(&s.session, None).await.unwrap();
    redact(&*s.store, &f.grand, &["user::b", "user::d"]).await;
    for session in [&f.behind, &f.grand] {
        let keys = ["user::b", "user::d"];
        only_these_are_gone(&*s.store, session, &keys, &keys).await;
        assert_eq!(s.store.session(session).await.unwrap().generation, 1);
        is_sound(&*s.store, session).await;
    }
    s.store.scrub().await.unwrap();
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
}

async fn views_are_made_anew(place: Place) {
    let mut s = Bench::open(&*place).await;
    let f = family(&mut s).await;
    let sessions = [&s.session, &f.before, &f.behind, &f.grand];
    for session in sessions {
        let batch = ViewBatch {
            view: "v".into(),
            version: 1,
            session: session.clone(),
            from: 0,
            to: 1,
            entries: vec![(session.as_str().into(), Some(b"secret".to_vec()))],
        };
        s.store.put_view(batch).await.unwrap();
    }
    redact(&*s.store, &s.session, &["user::b"]).await;
    for session in sessions {
        let kept = *session == f.before;
        let key = session.as_str().as_bytes();
        let value = s.store.view_value("v", 1, key).await.unwrap();
        assert_eq!(value.is_some(), kept, "{session}");
        let mark = s.store.view_mark("v", 1, session).await.unwrap();
        assert_eq!(mark, u64::from(kept), "{session}");
    }
}

async fn a_redaction_is_an_erasure_until_the_scrub(place: Place) {
    let s = Bench::open(&*place).await;
    let session = rich_session(&s, "x").await;
    redact(&*s.store, &session, &["user::a"]).await;
    redact(&*s.store, &session, &["user::a"]).await;
    assert_eq!(s.store.pending_erasures().await.unwrap(), 1);
    let before = told(&*s.store, &session).await;
    assert_eq!(s.store.scrub().await.unwrap().completed, 1);
    assert_eq!(s.store.pending_erasures().await.unwrap(), 0);
    assert_eq!(told(&*s.store, &session).await, before);
    is_sound(&*s.store, &session).await;
}

async fn what_cannot_be_read_cannot_be_redacted(place: Place) {
    let s = Bench::open(&*place).await;
    let new = NewSession {
        authority: folio_core::Authority::Preparing,
        ..NewSession::native(session_id("p"))
    };
    let preparing = s.store.create_session(new).await.unwrap().id;
    let refused = s.store.redact(&preparing, &["user::a".into()]).await;
    assert_eq!(code(refused), "session_preparing");
}

async fn a_revision_after_a_redaction_counts(place: Place) {
    let mut s = Bench::open(&*place).await;
    let said = s.events.text("a", "m1", false, &secret("assistant:r1:m1"));
    s.append(vec![said]).await;
    redact(&*s.store, &s.session, &["assistant:r1:m1"]).await;
    let revised = s.events.raw("a2", "\"role\":\"model\",\"author\":\"agent\",\"refs\":{\"providerEventId\":\"m1\",\"revises\":\"a\"},\"content\":{\"kind\":\"text\",\"text\":\"new\"}");
    s.append(vec![revised]).await;
    let rows = s.rows().await;
    assert_eq!(rows.len(), 1);
    assert!(rows[0].2.contains("new") && !says_so(&rows[0]));
    let at = told_at(&*s.store, &s.session, 1).await;
    assert!(says_so(&at[0].row));
    s.is_sound().await;
}

async fn another_handle_redacts(place: Place) {
    let s = Bench::open(&*place).await;
    let other = place.second().await.unwrap();
    let session = rich_session(&s, "x").await;
    redact(&*other, &session, &["call:t1:c1"]).await;
    for store in [&s.store, &other] {
        only_these_are_gone(&**store, &session, KEYS, &["call:t1:c1"]).await;
        assert_eq!(store.session(&session).await.unwrap().generation, 1);
    }
    is_sound(&*s.store, &session).await;
}

async fn what_was_redacted_stays_so(place: Place) {
    let s = Bench::open(&*place).await;
    let session = rich_session(&s, "x").await;
    redact(&*s.store, &session, &["result:t1:c1"]).await;
    let before = told(&*s.store, &session).await;
    let Bench { store, .. } = s;
    store.close().await.unwrap();
    drop(store);
    let store = place.reopen().await.unwrap();
    assert_eq!(told(&*store, &session).await, before);
    only_these_are_gone(&*store, &session, KEYS, &["result:t1:c1"]).await;
    assert_eq!(store.pending_erasures().await.unwrap(), 1);
    is_sound(&*store, &session).await;
}
