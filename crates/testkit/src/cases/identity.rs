//! Which item an event speaks for.
//!
//! Every case is a list of events and the items that must come of them. The
//! list is written three times: an event at a time, in one batch, and an event
//! at a time with the index made anew after each. All three must show the same
//! rows at every watermark, the first one already while it was written, and
//! all must show them again when their indexes have been rebuilt.

use crate::conformance::{Case, StorePlace};
use crate::event::Events;
use folio_core::key::{ItemKind, base_key};
use folio_core::reduce::json_row;
use folio_core::{CanonicalEvent, Direction, SessionId};
use folio_store::{AppendBatch, ItemQuery, LoadedItem, NewSession, Start, Store, StoreError};

/// The cases of this group.
pub(crate) const CASES: &[Case] = &[
    crate::case!("identity", a_thinking_final_does_not_hide_streaming_text),
    crate::case!(
        "identity",
        steering_stands_beside_the_message_it_is_named_as
    ),
    crate::case!("identity", one_id_for_every_response_loses_no_answer),
    crate::case!("identity", a_retry_does_not_glue_to_the_run_that_died),
    crate::case!("identity", a_reused_call_id_opens_the_next_incarnation),
    crate::case!("identity", a_continuation_answers_the_calls_of_its_turn),
    crate::case!("identity", chunks_of_arguments_and_output_are_no_rows),
    crate::case!("identity", a_revision_replaces_and_a_repeat_does_not),
    crate::case!("identity", a_late_chunk_has_no_effect),
    crate::case!("identity", a_real_result_replaces_a_closer),
    crate::case!("identity", an_operation_decides_which_call_is_answered),
    crate::case!("identity", a_result_may_stand_before_its_call),
    crate::case!("identity", a_mark_waits_for_its_item),
    crate::case!("identity", scopes_continue_items_of_other_runs_and_turns),
    crate::case!("identity", a_decision_keeps_what_it_knew),
    crate::case!("identity", one_event_has_a_slot_for_each_row),
    crate::case!("identity", parts_of_a_message_are_one_row),
    crate::case!("identity", child_runs_make_no_items),
    crate::case!("identity", the_longest_ids_make_bounded_keys),
];

/// A row with everything that must not differ.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    place: String,
    row: String,
}

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn told(error: StoreError) -> String {
    error.to_string()
}

fn show(loaded: &LoadedItem, through: u64) -> Result<Shown, String> {
    let LoadedItem { item, revision, .. } = loaded;
    ensure(loaded.damaged.is_empty(), || {
        format!("{} lacks events {:?}", item.key, loaded.damaged)
    })?;
    let mut done = Err(0);
    loaded.show(through, |found| done = json_row(&found.material));
    let row = done.map_err(|ordinal| format!("{} was loaded without event {ordinal}", item.key))?;
    let row = row.into_whole().ok_or("a member was not read along")?;
    let slot = match item.position.slot {
        0 => String::new(),
        slot => format!(".{slot}"),
    };
    let ordinal = item.position.ordinal;
    let place = format!("{} @{ordinal}{slot} r{revision}", item.key);
    Ok(Shown { place, row })
}

/// The rows at a watermark, in order, after a look from the other end.
async fn rows(store: &dyn Store, id: &SessionId, through: u64) -> Result<Vec<Shown>, String> {
    let mut found = Vec::new();
    for direction in [Direction::Newer, Direction::Older] {
        let query = ItemQuery {
            through: Some(through),
            direction,
            start: Start::Edge,
            max_items: 1_024,
            max_bytes: 16 << 20,
            member_bytes: usize::MAX,
        };
        let page = store.read_items(id, query).await.map_err(told)?;
        ensure(!page.more, || "the page is cut".to_owned())?;
        let rows: Result<Vec<_>, _> = page.items.iter().map(|item| show(item, through)).collect();
        found.push(rows?);
    }
    let mut older = found.pop().unwrap_or_default();
    let newer = found.pop().unwrap_or_default();
    older.reverse();
    ensure(newer == older, || {
        format!("{id} at {through}: forward\n{newer:#?}\nbackward\n{older:#?}")
    })?;
    Ok(newer)
}

/// The rows at every watermark.
async fn history(store: &dyn Store, id: &SessionId, head: u64) -> Result<Vec<Vec<Shown>>, String> {
    let mut history = Vec::new();
    for through in 1..=head {
        history.push(rows(store, id, through).await?);
    }
    Ok(history)
}

fn same(what: &str, expect: &[Vec<Shown>], found: &[Vec<Shown>]) -> Result<(), String> {
    ensure(expect.len() == found.len(), || {
        format!("{what}: {} watermarks, not {}", found.len(), expect.len())
    })?;
    for (through, (expect, found)) in (1..).zip(expect.iter().zip(found)) {
        ensure(expect == found, || {
            format!("{what}, at watermark {through}: expected\n{expect:#?}\nfound\n{found:#?}")
        })?;
    }
    Ok(())
}

async fn session(store: &dyn Store, name: &str) -> Result<SessionId, String> {
    let id = SessionId::new(name).map_err(|error| error.to_string())?;
    let new = NewSession::native(id.clone());
    store.create_session(new).await.map_err(told)?;
    Ok(id)
}

async fn append(
    store: &dyn Store,
    id: &SessionId,
    events: Vec<CanonicalEvent>,
) -> Result<(), String> {
    let batch = AppendBatch::native(events);
    store.append(id, batch).await.map_err(told)?;
    Ok(())
}

/// Writes the events in three ways and compares what readers see. Answers the
/// rows at the head.
async fn hold(
    place: &dyn StorePlace,
    events: impl Fn(&mut Events) -> Vec<CanonicalEvent>,
    expect: &[&str],
) -> Result<Vec<Shown>, String> {
    let store = place.open().await.map_err(told)?;
    let store = &*store;
    let made = |name: &str| events(&mut Events::new(name));

    let single = session(store, "single").await?;
    let mut live = Vec::new();
    for (through, event) in (1..).zip(made("single")) {
        append(store, &single, vec![event]).await?;
        live.push(rows(store, &single, through).await?);
    }
    let head = live.len() as u64;
    same(
        "snapshots of the past",
        &live,
        &history(store, &single, head).await?,
    )?;

    let whole = session(store, "whole").await?;
    append(store, &whole, made("whole")).await?;
    same("one batch", &live, &history(store, &whole, head).await?)?;

    let anew = session(store, "anew").await?;
    for event in made("anew") {
        append(store, &anew, vec![event]).await?;
        store.rebuild_index(&anew).await.map_err(told)?;
    }
    same(
        "rebuilt after each event",
        &live,
        &history(store, &anew, head).await?,
    )?;

    for id in [&single, &whole] {
        let report = store.verify(id).await.map_err(told)?;
        ensure(report.findings.is_empty(), || {
            format!("{id} does not verify: {:?}", report.findings)
        })?;
        store.rebuild_index(id).await.map_err(told)?;
        same(
            "rebuilt at the end",
            &live,
            &history(store, id, head).await?,
        )?;
    }

    let last = live.pop().unwrap_or_default();
    let places: Vec<_> = last.iter().map(|shown| shown.place.as_str()).collect();
    ensure(places == expect, || {
        format!("expected\n{expect:#?}\nfound\n{last:#?}")
    })?;
    Ok(last)
}

/// A row must hold a piece of text.
fn holds(rows: &[Shown], at: usize, text: &str) -> Result<(), String> {
    let row = rows.get(at).map_or("", |shown| &shown.row);
    ensure(row.contains(text), || {
        format!("row {at} lacks {text}: {row}")
    })
}

const MODEL: &str = r#""role":"model","author":"agent""#;
const TOOL: &str = r#""role":"tool","author":"tool""#;
const SYSTEM: &str = r#""role":"system","author":"system""#;
const USER: &str = r#""role":"user","author":"user""#;

fn refs(members: &str) -> String {
    format!(r#""refs":{{{members}}}"#)
}

fn words(kind: &str, text: &str) -> String {
    format!(r#""content":{{"kind":"{kind}","text":"{text}"}}"#)
}

fn request(tool: &str) -> String {
    format!(r#""content":{{"kind":"function_call","id":"{tool}","name":"Read","args":{{}}}}"#)
}

fn response(tool: &str, text: &str) -> String {
    format!(
        r#""content":{{"kind":"function_response","id":"{tool}","name":"Read","result":{{"kind":"text","text":"{text}"}}}}"#
    )
}

async fn a_thinking_final_does_not_hide_streaming_text(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        vec![
            e.thinking("1", "m", true, "h"),
            e.text("2", "m", true, "He"),
            e.thinking("3", "m", false, "hm"),
            e.text("4", "m", true, "llo"),
        ]
    };
    let rows = hold(&*place, events, &["assistant:r1:m @1 r4"]).await?;
    holds(
        &rows,
        0,
        r#""text":"Hello","modelId":"unknown","thinking":{"text":"hm"}"#,
    )
}

async fn steering_stands_beside_the_message_it_is_named_as(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        let named = refs(r#""storedMessageId":"u""#);
        let steer = r#""content":{"kind":"text","text":"b","steering":true}"#;
        vec![
            e.raw("1", &format!("{USER},{named},{}", words("text", "a"))),
            e.raw("2", &format!("{USER},{named},{steer}")),
            e.raw("3", &format!("{USER},{named},{}", words("text", "c"))),
        ]
    };
    let expect = ["user::u @1 r1", "steer::u @2 r2", "user::u~2 @3 r3"];
    hold(&*place, events, &expect).await.map(drop)
}

async fn one_id_for_every_response_loses_no_answer(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        vec![
            e.text("1", "chatcmpl-0", true, "on"),
            e.text("2", "chatcmpl-0", false, "one"),
            e.text("3", "chatcmpl-0", true, "tw"),
            e.text("4", "chatcmpl-0", false, "two"),
            e.thinking("5", "chatcmpl-0", false, "hm"),
            e.text("6", "chatcmpl-0", false, "three"),
        ]
    };
    let expect = [
        "assistant:r1:chatcmpl-0 @1 r2",
        "assistant:r1:chatcmpl-0~2 @4 r5",
        "assistant:r1:chatcmpl-0~3 @6 r6",
    ];
    let rows = hold(&*place, events, &expect).await?;
    for (at, text) in ["one", "two", "three"].iter().enumerate() {
        holds(&rows, at, r#""id":"chatcmpl-0","turnId":"t1""#)?;
        holds(&rows, at, &format!(r#""text":"{text}""#))?;
    }
    Ok(())
}

async fn a_retry_does_not_glue_to_the_run_that_died(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        let mut events = vec![e.text("1", "m", true, "par"), e.end("2", "failed")];
        e.enter("r2", "t1");
        events.push(e.text("3", "m", true, "who"));
        events.push(e.text("4", "m", true, "le"));
        events.push(e.end("5", "completed"));
        events
    };
    let expect = [
        "assistant:r1:m @1 r1",
        "turn:r1:r1 @2.3 r2",
        "assistant:r2:m @3 r4",
        "turn:r2:r2 @5.3 r5",
    ];
    let rows = hold(&*place, events, &expect).await?;
    holds(&rows, 0, r#""text":"par""#)?;
    holds(&rows, 2, r#""text":"whole""#)
}

async fn a_reused_call_id_opens_the_next_incarnation(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        vec![
            e.call("1", "s1", "call_0", "Read"),
            e.call("2", "s2", "call_0", "Read"),
            e.call("3", "s2", "call_0", "Read"),
            e.result("4", "call_0", "Read", "2"),
            e.result("5", "call_0", "Read", "3"),
            e.result("6", "call_0", "Read", "1"),
            e.result("7", "call_0", "Read", "nobody's"),
        ]
    };
    let expect = [
        "call:t1:call_0 @1 r1",
        "call:t1:call_0~2 @2 r2",
        "call:t1:call_0~3 @3 r3",
        "result:t1:call_0~2 @4 r4",
        "result:t1:call_0~3 @5 r5",
        "result:t1:call_0 @6 r6",
        "result:t1:call_0~4 @7 r7",
    ];
    hold(&*place, events, &expect).await.map(drop)
}

async fn a_continuation_answers_the_calls_of_its_turn(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        let mut events = vec![
            e.call("1", "s1", "c", "Read"),
            e.call("2", "s1", "d", "Read"),
            e.result("3", "c", "Read", "1"),
            e.end("4", "aborted"),
        ];
        e.enter("r2", "t1");
        events.push(e.result("5", "d", "Read", "late"));
        events.push(e.call("6", "s2", "c", "Read"));
        events.push(e.result("7", "c", "Read", "2"));
        e.enter("r3", "t2");
        events.push(e.call("8", "s3", "c", "Read"));
        events
    };
    let expect = [
        "call:t1:c @1 r1",
        "call:t1:d @2 r2",
        "result:t1:c @3 r3",
        "turn:r1:r1 @4.3 r4",
        "result:t1:d @5 r5",
        "call:t1:c~2 @6 r6",
        "result:t1:c~2 @7 r7",
        "call:t2:c @8 r8",
    ];
    hold(&*place, events, &expect).await.map(drop)
}

async fn chunks_of_arguments_and_output_are_no_rows(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        let arguments =
            r#""content":{"kind":"function_call","id":"c","name":"Read","args":"{\"p"}"#;
        vec![
            e.raw("1", &format!(r#"{MODEL},"partial":true,{arguments}"#)),
            e.call("2", "m", "c", "Read"),
            e.raw(
                "3",
                &format!(r#"{TOOL},"partial":true,{}"#, response("c", "o")),
            ),
            e.result("4", "c", "Read", "out"),
            e.raw(
                "5",
                &format!(r#"{TOOL},"partial":true,{}"#, response("c", "o")),
            ),
        ]
    };
    let expect = ["call:t1:c @2 r2", "result:t1:c @4 r4"];
    hold(&*place, events, &expect).await.map(drop)
}

async fn a_revision_replaces_and_a_repeat_does_not(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        let revised = refs(r#""providerEventId":"m","revises":"1""#);
        vec![
            e.text("1", "m", false, "one"),
            e.text("2", "m", false, "two"),
            e.raw("3", &format!("{MODEL},{revised},{}", words("text", "ONE"))),
            e.usage("4", "m", 1, 1),
            e.usage("5", "m", 9, 1),
        ]
    };
    let expect = [
        "assistant:r1:m @1 r3",
        "assistant:r1:m~2 @2 r2",
        "usage:r1:m @4.2 r5",
    ];
    let rows = hold(&*place, events, &expect).await?;
    holds(&rows, 0, r#""text":"ONE""#)?;
    holds(&rows, 2, r#""input":9"#)
}

async fn a_late_chunk_has_no_effect(place: Box<dyn StorePlace>) -> Result<(), String> {
    let events = |e: &mut Events| {
        vec![
            e.text("1", "m", true, "on"),
            e.text("2", "m", false, "one"),
            e.text("3", "m", true, "late"),
            e.thinking("4", "m", true, "hm"),
            e.text("5", "m", true, "late"),
        ]
    };
    let rows = hold(&*place, events, &["assistant:r1:m @1 r4"]).await?;
    holds(&rows, 0, r#""text":"one""#)
}

async fn a_real_result_replaces_a_closer(place: Box<dyn StorePlace>) -> Result<(), String> {
    let events = |e: &mut Events| {
        let closes = r#""actions":{"stateDelta":{"closer":"tool_outcome_unknown"}}"#;
        let closer = format!("{TOOL},{},{closes}", response("c", "unknown"));
        let mut events = vec![
            e.raw("1", &format!("{MODEL},{}", request("c"))),
            e.raw("2", &closer),
            e.end("3", "failed"),
        ];
        e.enter("r2", "t1");
        events.push(e.raw("4", &format!("{MODEL},{}", request("c"))));
        events.push(e.result("5", "c", "Read", "of the second call"));
        events.push(e.result("6", "c", "Read", "late"));
        events
    };
    let expect = [
        "call:t1:c @1 r1",
        "result:t1:c @2 r6",
        "turn:r1:r1 @3.3 r3",
        "call:t1:c~2 @4 r4",
        "result:t1:c~2 @5 r5",
    ];
    let rows = hold(&*place, events, &expect).await?;
    holds(&rows, 1, r#""text":"late""#)?;
    holds(&rows, 2, r#""partialOutputRetained":false"#)
}

async fn an_operation_decides_which_call_is_answered(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        let call = |operation: &str| {
            let refs = refs(&format!(r#""stepId":"s","operationId":"{operation}""#));
            format!("{MODEL},{refs},{}", request("c"))
        };
        let result = |operation: &str| {
            let refs = refs(&format!(r#""operationId":"{operation}""#));
            format!("{TOOL},{refs},{}", response("c", operation))
        };
        vec![
            e.raw("1", &call("o1")),
            e.raw("2", &call("o2")),
            e.raw("3", &call("o3")),
            e.raw("4", &result("o3")),
            e.raw("5", &result("o3")),
            e.raw("6", &result("o2")),
            e.raw("7", &result("o1")),
        ]
    };
    let expect = [
        "call:t1:c @1 r1",
        "call:t1:c~2 @2 r2",
        "call:t1:c~3 @3 r3",
        "result:t1:c~3 @4 r4",
        "result:t1:c~4 @5 r5",
        "result:t1:c~2 @6 r6",
        "result:t1:c @7 r7",
    ];
    hold(&*place, events, &expect).await.map(drop)
}

async fn a_result_may_stand_before_its_call(place: Box<dyn StorePlace>) -> Result<(), String> {
    let events = |e: &mut Events| {
        vec![
            e.result("1", "c", "Read", "1"),
            e.call("2", "s", "c", "Read"),
            e.call("3", "s", "c", "Read"),
            e.result("4", "c", "Read", "2"),
        ]
    };
    let expect = [
        "result:t1:c @1 r1",
        "call:t1:c @2 r2",
        "call:t1:c~2 @3 r3",
        "result:t1:c~2 @4 r4",
    ];
    hold(&*place, events, &expect).await.map(drop)
}

async fn a_mark_waits_for_its_item(place: Box<dyn StorePlace>) -> Result<(), String> {
    let events = |e: &mut Events| {
        vec![
            e.thinking("1", "m", false, ""),
            e.call("2", "m", "c", "Read"),
            e.call("3", "n", "d", "Read"),
            e.text("4", "m", true, "a"),
            e.text("5", "n", false, "b"),
            e.call("6", "n", "f", "Read"),
            e.end("7", "completed"),
        ]
    };
    let expect = [
        "call:t1:c @2 r2",
        "call:t1:d @3 r3",
        "assistant:r1:m @4 r4",
        "assistant:r1:n @5 r5",
        "call:t1:f @6 r6",
        "turn:r1:r1 @7.3 r7",
    ];
    let rows = hold(&*place, events, &expect).await?;
    holds(&rows, 2, r#""contentOrder":["tools","text"]"#)?;
    holds(&rows, 3, r#""contentOrder":["tools","text"]"#)
}

async fn scopes_continue_items_of_other_runs_and_turns(
    place: Box<dyn StorePlace>,
) -> Result<(), String> {
    let events = |e: &mut Events| {
        let text = refs(r#""providerEventId":"m","scopeRunId":"r1""#);
        let result = refs(r#""scopeTurnId":"t1""#);
        let usage = r#""actions":{"tokenUsage":{"input":7,"output":1}}"#;
        let mut events = vec![
            e.text("1", "m", true, "He"),
            e.call("2", "m", "c", "Read"),
            e.usage("3", "m", 1, 1),
            e.end("4", "completed"),
        ];
        e.enter("r2", "t2");
        events.push(e.raw("5", &format!("{MODEL},{text},{}", words("text", "Hello"))));
        events.push(e.raw("6", &format!("{TOOL},{result},{}", response("c", "out"))));
        events.push(e.raw("7", &format!("{SYSTEM},{text},{usage}")));
        events.push(e.end("8", "completed"));
        events
    };
    let expect = [
        "assistant:r1:m @1 r5",
        "call:t1:c @2 r2",
        "usage:r1:m @3.2 r7",
        "turn:r1:r1 @4.3 r4",
        "result:t1:c @6 r6",
        "turn:r2:r2 @8.3 r8",
    ];
    hold(&*place, events, &expect).await.map(drop)
}

async fn a_decision_keeps_what_it_knew(place: Box<dyn StorePlace>) -> Result<(), String> {
    let events = |e: &mut Events| {
        let decision = r#""actions":{"permissionDecision":{"requestId":"p","decision":"allow"}}"#;
        let asks =
            r#""actions":{"permissionRequest":{"requestId":"q","toolUseId":"c","hint":"why"}}"#;
        let other = r#""actions":{"permissionDecision":{"requestId":"q","decision":"deny"}}"#;
        let about = refs(r#""toolCallId":"c""#);
        let again = refs(r#""toolCallId":"c","revises":"1""#);
        vec![
            e.raw("1", &format!("{USER},{about},{decision}")),
            e.raw("2", &format!("{SYSTEM},{asks}")),
            e.call("3", "s", "c", "Read"),
            e.raw("4", &format!("{USER},{again},{decision}")),
            e.raw("5", &format!("{USER},{other}")),
        ]
    };
    let expect = [
        "permission:t1:p @1.1 r4",
        "call:t1:c @3 r3",
        "permission:t1:q @5.1 r5",
    ];
    let rows = hold(&*place, events, &expect).await?;
    holds(&rows, 2, r#""toolName":"Read""#)?;
    holds(&rows, 2, r#""hint":"why""#)
}

async fn one_event_has_a_slot_for_each_row(place: Box<dyn StorePlace>) -> Result<(), String> {
    let events = |e: &mut Events| {
        let actions = r#""actions":{"permissionDecision":{"requestId":"p","decision":"deny"},"tokenUsage":{"input":1,"output":1},"stateDelta":{"failureClass":"tool_step_cap_reached"}}"#;
        let named = refs(r#""providerEventId":"m""#);
        let text = words("text", "a");
        vec![e.raw(
            "1",
            &format!(r#"{MODEL},"status":"failed",{named},{text},{actions}"#),
        )]
    };
    let expect = [
        "assistant:r1:m @1 r1",
        "permission:t1:p @1.1 r1",
        "usage:r1:m @1.2 r1",
        "turn:r1:r1 @1.3 r1",
        "turn:r1:r1.step_limit @1.4 r1",
    ];
    let rows = hold(&*place, events, &expect).await?;
    holds(&rows, 3, r#""partialOutputRetained":true"#)?;
    holds(&rows, 4, r#""kind":"step_limit""#)
}

async fn parts_of_a_message_are_one_row(place: Box<dyn StorePlace>) -> Result<(), String> {
    let events = |e: &mut Events| {
        let second = refs(r#""providerEventId":"m","contentIndex":1"#);
        vec![
            e.raw(
                "1",
                &format!(
                    r#"{MODEL},"partial":true,{second},{}"#,
                    words("text", "wor")
                ),
            ),
            e.text("2", "m", true, "hel"),
            e.raw(
                "3",
                &format!(r#"{MODEL},"partial":true,{second},{}"#, words("text", "ld")),
            ),
            e.text("4", "m", false, "hello "),
        ]
    };
    let rows = hold(&*place, events, &["assistant:r1:m @1 r4"]).await?;
    holds(&rows, 0, r#""text":"hello world""#)
}

async fn child_runs_make_no_items(place: Box<dyn StorePlace>) -> Result<(), String> {
    let events = |e: &mut Events| {
        let opening = r#""content":{"kind":"run_opened","route":{},"configuration":{},"root":{"kind":"user"},"source":{"kind":"agent"},"lineage":{"parentRunId":"r1"}}"#;
        let mut events = vec![e.user("1", "go")];
        e.enter("r2", "t1");
        events.push(e.raw("2", &format!("{SYSTEM},{opening}")));
        events.push(e.text("3", "m", true, "chi"));
        events.push(e.call("4", "m", "c", "Read"));
        events.push(e.text("5", "m", false, "child"));
        events.push(e.end("6", "completed"));
        e.enter("r1", "t1");
        events.push(e.call("7", "m", "c", "Read"));
        events.push(e.end("8", "completed"));
        events
    };
    let expect = ["user::1 @1 r1", "call:t1:c @7 r7", "turn:r1:r1 @8.3 r8"];
    let rows = hold(&*place, events, &expect).await?;
    holds(&rows, 2, r#""partialOutputRetained":false"#)
}

async fn the_longest_ids_make_bounded_keys(place: Box<dyn StorePlace>) -> Result<(), String> {
    let long = "x".repeat(512);
    let id = long.clone();
    let events = move |e: &mut Events| {
        vec![
            e.text("1", &id, true, "a"),
            e.text("2", &id, false, "ab"),
            e.text("3", &id, false, "c"),
            e.call("4", &id, &id, "Read"),
            e.result("5", &id, "Read", "out"),
        ]
    };
    let assistant = base_key(ItemKind::Assistant, "r1", &long);
    let call = base_key(ItemKind::Call, "t1", &long);
    let result = base_key(ItemKind::Result, "t1", &long);
    let expect = [
        format!("{assistant} @1 r2"),
        format!("{assistant}~2 @3 r4"),
        format!("{call} @4 r4"),
        format!("{result} @5 r5"),
    ];
    let expect: Vec<_> = expect.iter().map(String::as_str).collect();
    let rows = hold(&*place, events, &expect).await?;
    ensure(
        rows.iter().all(|shown| shown.place.len() <= 192 + 6),
        || "a key is too long".to_owned(),
    )
}
