//! Chunks come back from their columns and moulds exactly as they were.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_codec::{Chunk, Cut, Mould, counted, decode_chunks, encode_chunks, encode_event};
use folio_core::{CanonicalEvent, Json, RuntimeEvent};
use proptest::prelude::*;

fn stored(id: &str, ts: i64, message: &str, text: &str, more: &str) -> (u8, Vec<u8>) {
    let (id, message, text) = (Json::string(id), Json::string(message), Json::string(text));
    let json = format!(
        r#"{{"id":{id},"invocationId":"i","runId":"r","sessionId":"s","turnId":"t","ts":{ts},"partial":true,"role":"model","author":"agent","refs":{{"providerEventId":{message}}},"content":{{"kind":"text","text":{text}{more}}},"nonce":"n"}}"#
    );
    let event = RuntimeEvent::from_json(&json).unwrap();
    encode_event(&CanonicalEvent::new(&event).unwrap())
}

/// Texts with everything that escapes, and none.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ,.]{0,40}",
        r#"[\\"/\n\t\u{1}\u{7f}é😀a-c]{0,12}"#,
        Just(String::new()),
    ]
}

fn any_id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,4}#[0-9]{1,3}", "[0-9a-f-]{1,36}", "#{1,3}"]
}

prop_compose! {
    fn any_chunk()(
        step in prop_oneof![Just(1_u64), 1..90_u64],
        seq in prop_oneof![Just(1_u64), 1..9_u64],
        wait in prop_oneof![Just(0_u64), 0..5_000_u64],
        id in any_id(),
        ts in prop_oneof![
            (-3..2_000_000_000_000_i64).prop_map(|ts| ts.to_string()),
            Just("1.5e3".to_owned()),
            Just("9999999999999999999".to_owned()),
        ],
        text in any_text(),
    ) -> Chunk {
        let text = Json::string(&text).as_str().trim_matches('"').to_owned();
        Chunk { ordinal: step, run_seq: seq, committed_at: wait, id, ts, text }
    }
}

/// Steps made into places, and ids that count where `counts` says so.
fn placed(mut chunks: Vec<Chunk>, counts: bool) -> Vec<Chunk> {
    let (mut ordinal, mut seq, mut at) = (7, 0, 1_700_000_000_000);
    for (chunk, n) in chunks.iter_mut().zip(3..) {
        ordinal += chunk.ordinal;
        seq += chunk.run_seq;
        at += chunk.committed_at;
        (chunk.ordinal, chunk.run_seq, chunk.committed_at) = (ordinal, seq, at);
        if counts {
            chunk.id = format!("m#{n}");
        }
    }
    chunks
}

proptest! {
    #[test]
    fn chunks_come_back(chunks in prop::collection::vec(any_chunk(), 0..60), counts: bool) {
        let chunks = placed(chunks, counts);
        let (columns, text) = encode_chunks(&chunks);
        prop_assert_eq!(decode_chunks(&columns, &text).unwrap(), chunks);
    }

    #[test]
    fn damaged_columns_are_no_panic(
        chunks in prop::collection::vec(any_chunk(), 1..20),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut columns, text) = encode_chunks(&placed(chunks, true));
        for (at, bit) in flips {
            let at = at.index(columns.len());
            columns[at] ^= 1 << bit;
        }
        let _ = decode_chunks(&columns, &text);
        let _ = decode_chunks(&columns[..cut.index(columns.len())], &text);
    }

    #[test]
    fn a_cast_is_the_event(
        first in any_text(), second in any_text(),
        ids in (any_id(), any_id()), times in (any::<i64>(), any::<i64>()),
        message in "[a-zé\"]{1,20}",
        more in prop_oneof![Just(""), Just(r#","x":[1, {"text":"in"}]"#), Just(r#","zz":"behind","aa":1.50"#)],
    ) {
        let (form, opening) = stored(&ids.0, times.0, &message, &first, more);
        let (mould, own) = Mould::of(form, &opening).unwrap();
        prop_assert_eq!(mould.cast(&own).unwrap(), opening.clone());
        let (form, next) = stored(&ids.1, times.1, &message, &second, more);
        let cut = mould.cut(form, &next).unwrap();
        prop_assert_eq!(cut.id, ids.1);
        prop_assert_eq!(mould.cast(&cut).unwrap(), next);
    }
}

/// A chunk of arguments or of output; `raw` is what stands in its place.
fn of_tool(id: &str, kind: &str, field: &str, raw: &str) -> (u8, Vec<u8>) {
    let json = format!(
        r#"{{"id":"{id}","invocationId":"i","runId":"r","sessionId":"s","turnId":"t","ts":1,"partial":true,"role":"tool","author":"tool","content":{{"kind":"{kind}","id":"c","name":"Bash","{field}":{raw},"zz":[1]}},"refs":{{"stepId":"m"}}}}"#
    );
    let event = RuntimeEvent::from_json(&json).unwrap();
    encode_event(&CanonicalEvent::new(&event).unwrap())
}

#[test]
fn arguments_and_output_are_cut_out_as_well() {
    let text = |inner: &str| format!(r#"{{"kind":"text","text":"{inner}"}}"#);
    for (kind, field, first, second) in [
        (
            "function_call",
            "args",
            r#""{\"pa""#.into(),
            r#""th\":1}""#.into(),
        ),
        (
            "function_response",
            "result",
            r#""one\n""#.into(),
            r#""""#.into(),
        ),
        (
            "function_response",
            "result",
            text("one"),
            text("two and more"),
        ),
    ] {
        let (form, opening) = of_tool("a#0", kind, field, &first);
        let (mould, own) = Mould::of(form, &opening).unwrap();
        assert_eq!(mould.cast(&own).unwrap(), opening);
        let (form, next) = of_tool("a#1", kind, field, &second);
        let cut = mould.cut(form, &next).unwrap();
        assert!(second.contains(cut.text));
        assert_eq!(mould.cast(&cut).unwrap(), next);
    }
    let (form, whole) = of_tool("a#0", "function_call", "args", r#"{"path":"x"}"#);
    assert!(Mould::of(form, &whole).is_none(), "no text");
}

#[test]
fn what_differs_elsewhere_is_not_of_the_stream() {
    let (form, opening) = stored("a#1", 1, "m", "one", "");
    let (mould, _) = Mould::of(form, &opening).unwrap();
    for (message, more) in [
        ("other", ""),
        ("m", r#","modelId":"x""#),
        ("m", r#","aa":1"#),
    ] {
        let (form, other) = stored("a#2", 1, message, "two", more);
        assert_eq!(mould.cut(form, &other), None, "{message} {more}");
    }
    let whole = RuntimeEvent::from_json(
        r#"{"id":"u","invocationId":"i","runId":"r","sessionId":"s","turnId":"t","ts":1,"partial":false,"role":"user","author":"user","content":{"kind":"text","text":"hi"}}"#,
    );
    let (form, whole) = encode_event(&CanonicalEvent::new(&whole.unwrap()).unwrap());
    assert!(
        Mould::of(form, &whole).is_none(),
        "a whole event is no chunk"
    );
}

#[test]
fn a_chunk_of_an_ordinary_stream_costs_two_bytes() {
    let chunks: Vec<Chunk> = (0..500)
        .map(|n| Chunk {
            ordinal: 100 + n,
            run_seq: 5 + n,
            committed_at: 1_700_000_000_000 + n / 5 * 12,
            id: format!("message-1#{n}"),
            ts: (1_700_000_000_000 + n * 3).to_string(),
            text: "some words".to_owned(),
        })
        .collect();
    let (columns, text) = encode_chunks(&chunks);
    assert_eq!(text.len(), 5_000);
    // Two each, and what the steps of the commits cost.
    assert!(columns.len() < 2 * 500 + 600, "{}", columns.len());
}

#[test]
fn ids_count_only_as_numbers_are_written() {
    assert_eq!(counted("a#b#12"), Some(("a#b", 12)));
    assert_eq!(counted("#0"), Some(("", 0)));
    for id in ["a", "a#", "a#01", "a#+1", "a#1x", "a#99999999999999999999"] {
        assert_eq!(counted(id), None, "{id}");
    }
}

#[test]
fn a_hole_holds_any_length() {
    let (form, opening) = stored("a#1", 1, "m", "", r#","zz":"behind""#);
    let (mould, _) = Mould::of(form, &opening).unwrap();
    let text = "x".repeat(70_000);
    let cut = Cut {
        id: "a#2",
        ts: "1",
        text: &text,
    };
    assert_eq!(
        mould.cast(&cut).unwrap(),
        stored("a#2", 1, "m", &text, r#","zz":"behind""#).1
    );
}
