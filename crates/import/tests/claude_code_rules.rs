//! The rules of the Claude Code translation, each shown on a few made records.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in its helpers"
)]

use folio_core::{CanonicalEvent, Content, RuntimeEvent, SessionId};
use folio_import::claude_code::{Increment, Translation, Translator};
use folio_import::lines::Lines;

fn id(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// A record with the usual members, at second `n`.
fn rec(n: u32, kind: &str, more: &str) -> String {
    format!(
        r#"{{"type":"{kind}","uuid":"{}","sessionId":"s","cwd":"/w","timestamp":"1970-01-01T00:{:02}:{:02}.000Z",{more}}}"#,
        id(n),
        n / 60,
        n % 60
    )
}

fn user(n: u32, text: &str) -> String {
    rec(
        n,
        "user",
        &format!(r#""message":{{"role":"user","content":"{text}"}}"#),
    )
}

fn model(n: u32, message: &str, block: &str, more: &str) -> String {
    let body = format!(r#""message":{{"id":"{message}","model":"m","content":[{block}]{more}}}"#);
    rec(n, "assistant", &body)
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"b":1, "a":2}}}}"#)
}

fn result(n: u32, id: &str, more: &str) -> String {
    let block = format!(r#"{{"type":"tool_result","tool_use_id":"{id}",{more}}}"#);
    rec(
        n,
        "user",
        &format!(r#""message":{{"role":"user","content":[{block}]}}"#),
    )
}

fn run(records: &[String]) -> (Increment, Translation) {
    let mut translator = Translator::new(SessionId::new("s").unwrap(), "stem", &[]);
    let mut out = Increment::default();
    let bytes = records.join("\n") + "\n";
    let mut lines = Lines::new(bytes.as_bytes());
    while let Some(line) = lines.next_line().unwrap() {
        translator.push(&line, &mut out);
    }
    let whole = events(&out);
    for cut in 0..bytes.len() {
        // The prefix law, at every byte.
        let mut translator = Translator::new(SessionId::new("s").unwrap(), "stem", &[]);
        let mut part = Increment::default();
        let mut lines = Lines::new(&bytes.as_bytes()[..cut]);
        while let Some(line) = lines.next_line().unwrap() {
            translator.push(&line, &mut part);
        }
        let events = events(&part);
        assert_eq!(events[..], whole[..events.len()], "cut at {cut}");
        assert_eq!(part.notes[..], out.notes[..part.notes.len()]);
    }
    (out, translator.summary())
}

fn events(out: &Increment) -> Vec<String> {
    let json = |event: &RuntimeEvent| {
        CanonicalEvent::new(event)
            .unwrap()
            .to_json(&event.session_id)
    };
    out.events.iter().map(json).collect()
}

/// Each event as run, turn, kind and status, with ids cut to their numbers.
fn shape(out: &Increment) -> Vec<String> {
    let short = |text: &str| {
        text.rsplit('-')
            .next()
            .unwrap()
            .trim_start_matches('0')
            .to_owned()
    };
    out.events
        .iter()
        .map(|event| {
            let kind = match &event.content {
                Some(Content::RunOpened(opened)) => {
                    let root = opened.root.as_object().unwrap();
                    format!("opened/{}", root.text("kind").unwrap())
                }
                Some(content) => content.kind().to_owned(),
                None if event.actions.as_ref().unwrap().token_usage.is_some() => "usage".into(),
                None if event
                    .actions
                    .as_ref()
                    .unwrap()
                    .permission_decision
                    .is_some() =>
                {
                    "deny".into()
                }
                None => format!(
                    "end/{}@{}",
                    event.status.unwrap().as_str(),
                    event.ts.as_str()
                ),
            };
            let scope = event.refs.as_ref().map_or(String::new(), |refs| {
                let run = refs
                    .scope_run_id
                    .as_ref()
                    .map_or(String::new(), |id| short(id.as_str()));
                let turn = refs
                    .scope_turn_id
                    .as_ref()
                    .map_or(String::new(), |id| short(id.as_str()));
                if run.is_empty() && turn.is_empty() {
                    run
                } else {
                    format!(" in {run}/{turn}")
                }
            });
            format!(
                "{}/{} {kind}{scope}",
                short(event.run_id.as_str()),
                short(event.turn_id.as_str())
            )
        })
        .collect()
}

#[test]
fn a_turn_is_closed_by_the_next_prompt_at_its_last_time() {
    let stop = r#","stop_reason":"end_turn""#;
    let (out, _) = run(&[
        user(1, "a"),
        model(2, "m1", &text("x"), stop),
        user(3, "b"),
        model(4, "m2", &text("y"), ""),
        user(5, "c"),
    ]);
    assert_eq!(
        shape(&out),
        [
            "1/1 opened/user",
            "1/1 text",
            "1/1 text",
            "1/1 end/completed@2000",
            "3/3 opened/user",
            "3/3 text",
            "3/3 text",
            "3/3 end/aborted@4000",
            "5/5 opened/user",
            "5/5 text"
        ]
    );
    // The record stands in the first of its events, whatever that is.
    assert_eq!(out.events[3].id.as_str(), format!("{}-0", id(3)));
    assert!(out.events[3].unknown.get("source").is_some());
    assert!(out.events[4].unknown.get("source").is_none());
}

#[test]
fn what_follows_an_end_is_an_amendment_in_the_old_scope() {
    let (out, _) = run(&[
        user(1, "a"),
        model(2, "m1", &call("t1"), ""),
        rec(3, "system", r#""subtype":"turn_duration","durationMs":5"#),
        rec(4, "system", r#""subtype":"stop_hook_summary""#),
        result(5, "t1", r#""content":"late""#),
        model(
            6,
            "m1",
            &text("x"),
            r#","usage":{"input_tokens":1,"output_tokens":2}"#,
        ),
        user(7, "b"),
        result(8, "t1", r#""content":"again""#),
    ]);
    assert_eq!(
        shape(&out),
        [
            "1/1 opened/user",
            "1/1 text",
            "1/1 function_call",
            "1/1 end/completed@3000",
            "5/1 opened/amendment",
            "5/1 function_response in 1/",
            "5/1 text in 1/",
            "5/1 usage in 1/",
            "5/1 end/completed@6000",
            "7/7 opened/user",
            "7/7 text",
            "7/7 function_response in 1/1"
        ]
    );
    let kinds: Vec<_> = out
        .notes
        .iter()
        .map(|note| (&*note.kind, note.anchor, note.visible))
        .collect();
    assert_eq!(kinds, [("system.stop_hook_summary", 4, true)]);
}

#[test]
fn interrupts_and_failures_end_the_run() {
    let (out, summary) = run(&[
        user(1, "[Request interrupted by user]"),
        user(2, "a"),
        result(
            3,
            "t1",
            r#""is_error":true,"content":"The user doesn't want to proceed with this tool use. x""#,
        ),
        user(4, "[Request interrupted by user for tool use]"),
        user(5, "b"),
        rec(
            6,
            "assistant",
            r#""isApiErrorMessage":true,"message":{"id":"e","model":"<synthetic>","content":[{"type":"text","text":"API Error"}],"usage":{"input_tokens":0}}"#,
        ),
        model(7, "m1", &call("t1"), ""),
    ]);
    assert_eq!(
        shape(&out),
        [
            "2/2 opened/user",
            "2/2 text",
            "2/2 deny",
            "2/2 function_response",
            "2/2 end/aborted@4000",
            "5/5 opened/user",
            "5/5 text",
            "5/5 text",
            "5/5 end/failed@6000",
            "7/5 opened/amendment",
            "7/5 function_call in /2"
        ]
    );
    assert_eq!(out.notes[0].kind, "user.interrupt");
    let delta = |at: usize| {
        let actions = out.events[at].actions.as_ref().unwrap();
        actions.state_delta.as_ref().unwrap().as_str().to_owned()
    };
    assert_eq!(delta(4), r#"{"abortSource":"claude-code.interrupt"}"#);
    assert_eq!(delta(8), r#"{"failureClass":"api_error"}"#);
    let permission = summary
        .manifest
        .entries
        .iter()
        .find(|e| e.kind == "permission_decision");
    assert_eq!(permission.unwrap().link.as_deref(), Some("t1"));
}

#[test]
fn sub_agents_in_the_file_are_child_runs() {
    let side = r#""isSidechain":true,"agentId":"z","#;
    let sidechain =
        |record: String| record.replacen(r#""sessionId""#, &format!(r#"{side}"sessionId""#), 1);
    let (out, summary) = run(&[
        user(1, "a"),
        sidechain(user(2, "task")),
        model(3, "m1", &text("x"), ""),
        sidechain(model(4, "m2", &text("y"), r#","stop_reason":"end_turn""#)),
        user(5, "b"),
    ]);
    assert_eq!(
        shape(&out),
        [
            "1/1 opened/user",
            "1/1 text",
            "2/1 opened/subagent",
            "2/1 text",
            "1/1 text",
            "2/1 text",
            "2/1 end/completed@4000",
            "1/1 end/aborted@3000",
            "5/5 opened/user",
            "5/5 text"
        ]
    );
    let Some(Content::RunOpened(opened)) = &out.events[2].content else {
        panic!("not an opening")
    };
    let expected = format!(r#"{{"parentRunId":"run-{}","agentId":"z"}}"#, id(1));
    assert_eq!(opened.lineage.as_ref().unwrap().as_str(), expected);
    let users = summary.manifest.entries.iter().filter(|e| e.kind == "user");
    assert_eq!(users.count(), 2);

    // A file that begins with a sub-agent's record is its own session.
    let (out, summary) = run(&[
        sidechain(user(2, "task")),
        sidechain(model(4, "m2", &text("y"), "")),
    ]);
    assert_eq!(summary.session_id.unwrap().as_str(), "s-agent-z");
    assert_eq!(shape(&out), ["2/2 opened/subagent", "2/2 text", "2/2 text"]);
    let Some(Content::Text(text)) = &out.events[1].content else {
        panic!("not a text")
    };
    let expected = r#"{"kind":"subagent","agentId":"z","parentSessionId":"s"}"#;
    assert_eq!(text.origin.as_ref().unwrap().as_str(), expected);
}

#[test]
fn a_boundary_waits_for_its_summary() {
    let boundary = |n| {
        rec(
            n,
            "system",
            r#""subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":9}"#,
        )
    };
    let summary = |n| {
        rec(
            n,
            "user",
            r#""isCompactSummary":true,"message":{"content":"so far"}"#,
        )
    };
    let (out, state) = run(&[
        user(1, "a"),
        boundary(2),
        summary(3),
        boundary(4),
        boundary(5),
    ]);
    assert_eq!(
        shape(&out),
        [
            "1/1 opened/user",
            "1/1 text",
            "1/1 compaction",
            "1/1 compaction"
        ]
    );
    let compactions: Vec<_> = out
        .events
        .iter()
        .filter_map(|event| match &event.content {
            Some(Content::Compaction(c)) => {
                Some((c.summary.as_deref(), c.through_ordinal, c.tokens_before))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        compactions,
        [(Some("so far"), 2, Some(9)), (None, 3, Some(9))]
    );
    assert_eq!(
        (state.items, state.lines),
        (4, 4),
        "the last boundary is held"
    );
    assert_eq!(out.notes.len(), 1);
    assert!(!out.notes[0].visible);
}

#[test]
fn prompts_keep_what_was_written_and_show_what_was_meant() {
    let queued = rec(
        4,
        "attachment",
        r#""attachment":{"type":"queued_command","commandMode":"prompt","prompt":"and"}"#,
    );
    let image = r#"{"type":"image","source":{"type":"base64","data":"AA=="}}"#;
    let blocks = format!(
        r#""message":{{"content":[{},{image},{}]}}"#,
        text("one"),
        text("two")
    );
    let (out, _) = run(&[
        user(1, "<system-reminder>x</system-reminder>hi"),
        user(
            2,
            "<command-name>/model</command-name><command-args>opus</command-args>",
        ),
        rec(3, "user", &blocks),
        queued,
    ]);
    let texts: Vec<_> = out
        .events
        .iter()
        .filter_map(|event| match &event.content {
            Some(Content::Text(text)) => Some((event.author.as_str(), text)),
            _ => None,
        })
        .collect();
    assert_eq!(texts[0].1.display_text.as_deref(), Some("hi"));
    assert_eq!(
        (texts[1].0, texts[1].1.display_text.as_deref()),
        ("host", Some("/model opus"))
    );
    assert_eq!(
        texts[1].1.origin.as_ref().unwrap().as_str(),
        r#"{"kind":"slash_command"}"#
    );
    assert_eq!(
        (&*texts[2].1.text, &texts[2].1.display_text),
        ("one\n\ntwo", &None)
    );
    assert_eq!(
        texts[2].1.unknown.get("blocks").unwrap().as_str(),
        format!("[{image}]")
    );
    assert_eq!(
        (&*texts[3].1.text, texts[3].1.steering),
        ("and", Some(true))
    );
}

#[test]
fn values_stay_as_written_and_parts_are_numbered() {
    let usage = |n| {
        format!(
            r#","usage":{{"input_tokens":3,"output_tokens":{n},"cache_read_input_tokens":5,"cache_creation_input_tokens":7}}"#
        )
    };
    let (out, _) = run(&[
        user(1, "a"),
        model(2, "m1", &text("x"), &usage(1)),
        model(3, "m1", &text("y"), &usage(1)),
        model(4, "m1", &call("t"), &usage(2)),
        result(5, "t", r#""content":[{"type":"tool_reference","x":1.0}]"#),
    ]);
    let json = events(&out);
    let has = |at: usize, part: &str| assert!(json[at].contains(part), "{}", json[at]);
    has(2, r#""modelId":"m""#);
    has(
        3,
        r#""tokenUsage":{"input":15,"output":1,"cacheHitInput":5,"cacheMissInput":3,"cacheWriteInput":7}"#,
    );
    has(4, r#""contentIndex":1"#);
    has(5, r#""args":{"b":1,"a":2}"#);
    has(5, r#""stepId":"m1""#);
    has(6, r#""output":2"#);
    has(
        7,
        r#""result":{"kind":"json","value":[{"type":"tool_reference","x":1.0}]}"#,
    );
    has(7, r#""name":"Bash""#);
    assert_eq!(json.len(), 8);
}

#[test]
fn nothing_is_lost_that_cannot_be_read() {
    let (out, summary) = run(&[
        user(1, "a"),
        user(1, "a"),
        r#"{"type":"user","type":"user"} rest"#.to_owned(),
        r#"{"type":"brand-new","x":1}{"type":"brand-new"}"#.to_owned(),
    ]);
    let notes: Vec<_> = out
        .notes
        .iter()
        .map(|note| (note.id.as_str(), &*note.kind))
        .collect();
    assert_eq!(
        notes,
        [
            ("L2", "repeated"),
            ("L3", "odd_record"),
            ("L3-2", "broken_line"),
            ("L4", "unknown.brand-new"),
            ("L4-2", "unknown.brand-new")
        ]
    );
    let codes: Vec<_> = summary.diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(
        codes,
        [
            "repeated_record",
            "duplicate_key",
            "broken_line",
            "glued_records",
            "unknown_record"
        ]
    );
    assert_eq!(summary.session_id, None, "no answer has named the session");
    assert_eq!(summary.items, 6);
}
