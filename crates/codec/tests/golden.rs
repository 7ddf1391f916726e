//! The stored bytes and digests are what they were.
//!
//! `GOLDEN=write cargo test` makes the files anew; a change of one that exists
//! means that stored sessions no longer verify.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_codec::{
    Chunk, EMPTY_CHAIN, FORM_SCANNED, FORM_STORED, FORM_WITHHELD, Lending, body_digest, chain_next,
    chunks_len, decode_chunks, decode_event, decode_lending, decode_need, decode_tail,
    encode_chunks, encode_event, encode_lending, encode_need, encode_tail, event_digest,
    fact_digest, facts_chain_next, nonce, sha256, sum,
};
use folio_core::assign::{self, OpenRequest, OpenRun, OpenStream, Tail, WaitingMark};
use folio_core::canonical;
use folio_core::item::{Lane, Need, Part, Position};
use folio_core::{
    CanonicalEvent, Content, Fact, FactOp, Field, ForeignId, Json, RuntimeEvent, Stored, TurnId,
};
use std::fmt::Write as _;
use std::path::Path;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(name);
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == found,
        "{} changed; it now is:\n{found}",
        path.display()
    );
}

fn events() -> Vec<CanonicalEvent> {
    let large = format!(
        r#"{{"id":"e7","invocationId":"i2","runId":"r2","sessionId":"s1","turnId":"t2","ts":1,"partial":false,"role":"tool","author":"tool","content":{{"kind":"function_response","id":"c","name":"n","result":{{"kind":"text","text":"{}"}}}},"large":"{}"}}"#,
        "r".repeat(20_000),
        "u".repeat(16_383)
    );
    include_str!("../golden/events.jsonl")
        .lines()
        .chain([large.as_str()])
        .map(|line| CanonicalEvent::new(&RuntimeEvent::from_json(line).unwrap()).unwrap())
        .collect()
}

#[test]
fn canonical_text_digests_and_chain() {
    let mut out = String::new();
    let mut chain = EMPTY_CHAIN;
    for (event, ordinal) in events().iter().zip(1..) {
        let digest = event_digest(&event.view(), &event.spine);
        let seq = if event.spine.run_id.as_str() == "r2" {
            1
        } else {
            ordinal
        };
        chain = chain_next(&chain, ordinal, seq, &digest);
        let body = if event.body().len() > 2_000 {
            "(large)"
        } else {
            event.body()
        };
        writeln!(
            out,
            "id {}\nts {}\nenvelope {}\nbody {body}\ndigest {}\nchain {}\n",
            event.id,
            event.ts,
            event.envelope(),
            hex(&digest),
            hex(&chain)
        )
        .unwrap();
    }
    check("digests.txt", &out);
}

/// The rule for large members, spelled out once more by hand.
#[test]
fn a_large_member_enters_by_length_and_digest() {
    use sha2::{Digest, Sha256};
    let events = events();
    let event = events.last().unwrap();
    let body = event.body();
    let result = format!("{{\"kind\":\"text\",\"text\":\"{}\"}}", "r".repeat(20_000));
    let large = format!("\"{}\"", "u".repeat(16_383));
    let stand_in = |text: &str| {
        let mut out = vec![0];
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(Sha256::digest(text.as_bytes()));
        out
    };
    let mut preimage = Vec::new();
    let (before, rest) = body.split_once(&result).unwrap();
    let (between, after) = rest.split_once(&large).unwrap();
    preimage.extend(before.as_bytes());
    preimage.extend(stand_in(&result));
    preimage.extend(between.as_bytes());
    preimage.extend(stand_in(&large));
    preimage.extend(after.as_bytes());
    let mut whole = Sha256::new();
    for part in ["folio.event.1", "e7", "1"] {
        whole.update((part.len() as u64).to_le_bytes());
        whole.update(part.as_bytes());
    }
    whole.update(Sha256::digest(event.envelope().as_bytes()));
    whole.update(Sha256::digest(&preimage));
    let wanted: [u8; 32] = whole.finalize().into();
    assert_eq!(event_digest(&event.view(), &event.spine), wanted);
}

#[test]
fn stored_rows() {
    let mut out = String::new();
    for event in events() {
        let (form, bytes) = encode_event(&event);
        let view = decode_event(form, &bytes).unwrap();
        assert_eq!(view.text, &*event.text);
        assert_eq!(view.fields, event.fields);
        assert_eq!(
            event_digest(&view, &event.spine),
            event_digest(&event.view(), &event.spine)
        );
        let shown = if bytes.len() > 2_000 {
            "(large)".to_owned()
        } else {
            hex(&bytes)
        };
        writeln!(
            out,
            "{} form {form} sum {:016x} {shown}",
            event.id,
            sum(&[1, 2], &[&bytes])
        )
        .unwrap();
    }
    check("rows.txt", &out);
}

#[test]
fn an_event_without_its_payload_keeps_the_digest_of_the_whole() {
    use folio_core::redact::redacted_body;
    let mut out = String::new();
    for event in events() {
        let whole = event_digest(&event.view(), &event.spine);
        let (spine, session) = (event.spine.clone(), event.session_id.clone());
        let weight = event.view().weight();
        let digest = body_digest(&event.view());
        let body = redacted_body(event.body());
        let (form, bytes) = encode_event(&event.with_body(&body, digest, true));
        assert_eq!(form, FORM_WITHHELD);
        let view = decode_event(form, &bytes).unwrap();
        assert_eq!((view.body(), view.weight()), (&*body, weight));
        let again = CanonicalEvent::from_view(&view, &spine, &session).unwrap();
        assert_eq!(encode_event(&again), (form, bytes.clone()));
        assert!(decode_event(form, &bytes[..bytes.len() - 1]).is_err());
        assert_eq!(event_digest(&view, &spine), whole);
        writeln!(out, "{} {body} {}", view.id, hex(&bytes)).unwrap();
    }
    check("withheld.txt", &out);
}

#[test]
fn an_event_is_the_same_wherever_its_large_member_is_kept() {
    let inline = events().pop().unwrap();
    let json = inline.to_json(&inline.session_id);
    let mut event = RuntimeEvent::from_json(&json).unwrap();
    let Some(Content::FunctionResponse(response)) = &event.content else {
        unreachable!("it is a tool's answer");
    };
    let result = response.result.inline().unwrap().clone();
    let stored = Stored {
        len: result.as_str().len() as u64,
        sha256: sha256(result.as_str().as_bytes()),
        kind: Some("text".into()),
    };
    event
        .store_member("content.result", stored.clone())
        .unwrap();
    let event = CanonicalEvent::new(&event).unwrap();
    assert!(event.text.len() + 20_000 < inline.text.len());
    let whole = |event: &CanonicalEvent| {
        let view = event.view();
        (event_digest(&view, &event.spine), view.weight())
    };
    assert_eq!(whole(&event), whole(&inline));
    let (form, bytes) = encode_event(&event);
    assert_eq!(form, FORM_STORED);
    let view = decode_event(form, &bytes).unwrap();
    assert_eq!(view.stored(Field::Result).unwrap().to_stored(), stored);
    assert_eq!(
        (view.raw(Field::Result), &*view.result_kind()),
        (None, "text")
    );
    let again = CanonicalEvent::from_view(&view, &event.spine, &event.session_id).unwrap();
    assert_eq!(again, event);
    assert!(decode_event(form, &bytes[..bytes.len() - 1]).is_err());
    let spliced = canonical::event_json(&view, &event.spine, &event.session_id);
    let at = spliced.splices[0].at;
    let json_again = format!(
        "{}{}{}",
        &spliced.text[..at],
        result.as_str(),
        &spliced.text[at..]
    );
    assert_eq!(json_again, json);
    // Without its payload the digest stays, and with it goes what named it.
    let left = event.with_body("{}", body_digest(&view), true);
    assert!(left.stored.is_empty());
    assert_eq!(whole(&left), whole(&inline));
    let head = &bytes[..bytes.len() - 16_500];
    check("stored.txt", &format!("{}\n", hex(head)));
}

#[test]
fn the_form_without_a_table_reads_alike() {
    for event in events() {
        let (_, sliced) = encode_event(&event);
        // The table stands between the header and the text: taking it out
        // gives the other form.
        let mut table = folio_codec::Writer::default();
        table.bytes(&event.fields.pack().unwrap());
        let at = sliced
            .windows(table.0.len())
            .position(|window| window == table.0)
            .unwrap();
        let mut scanned = sliced.clone();
        scanned.drain(at..at + table.0.len());
        let view = decode_event(FORM_SCANNED, &scanned).unwrap();
        assert_eq!(view.fields, event.fields);
        assert_eq!(view.text, &*event.text);
        assert!(decode_event(9, &sliced).is_err());
        assert!(decode_event(1, &sliced[..sliced.len() - 1]).is_err());
    }
}

#[test]
fn state_beside_the_head_and_needs() {
    let tail = Tail {
        runs: vec![OpenRun {
            run_no: 3,
            next_seq: 300,
            turn_id: TurnId::new("t").unwrap(),
            inline: true,
            output: false,
        }],
        marks: vec![WaitingMark {
            base: "assistant:r:m".into(),
            run_no: 3,
            lane: Lane::Tools,
            index: 0,
            ordinal: 9,
        }],
        requests: vec![OpenRequest {
            request_id: "p".into(),
            run_no: 3,
            ordinal: 7,
            call: None,
        }],
        streams: vec![
            OpenStream {
                opener: 8,
                run_no: 3,
                mould: 0x0102_0304_0506_0708,
                content: Some(assign::Chunk {
                    position: Position {
                        ordinal: 8,
                        slot: 1,
                    },
                    lane: Lane::Text,
                    index: 2,
                }),
            },
            OpenStream {
                opener: 300,
                run_no: 3,
                mould: 9,
                content: None,
            },
        ],
    };
    let need = vec![
        Need {
            ordinal: 5,
            lane: Lane::Text,
            index: 0,
            part: Part::FirstChunk,
        },
        Need {
            ordinal: 1_000,
            lane: Lane::Thinking,
            index: 300,
            part: Part::Final,
        },
    ];
    let (packed_tail, packed_need) = (encode_tail(&tail), encode_need(&need));
    assert_eq!(decode_tail(&packed_tail).unwrap(), tail);
    assert_eq!(decode_tail(&[]).unwrap(), Tail::default());
    assert_eq!(decode_need(&packed_need).unwrap(), need);
    check(
        "state.txt",
        &format!("tail {}\nneed {}\n", hex(&packed_tail), hex(&packed_need)),
    );
}

#[test]
fn chunks_in_columns() {
    let chunk = |n: u64, id: String, text: &str| Chunk {
        ordinal: 10 + 3 * n,
        run_seq: 5 + n,
        committed_at: 1_700_000_000_000 + n / 2,
        id,
        ts: (1_700_000_000_000 + 7 * n).to_string(),
        text: text.into(),
    };
    let count = ["a", "\\n", "\u{1f600}"];
    let count = count.iter().zip(0..);
    let count = count.map(|(text, n)| chunk(n, format!("m#{n}"), text));
    let mut each: Vec<_> = (0..2).map(|n| chunk(n, format!("id-{n}"), "x")).collect();
    each[1].ts = "1.5e3".into();
    let mut out = String::new();
    for chunks in [count.collect(), each] {
        let (columns, text) = encode_chunks(&chunks);
        assert_eq!(decode_chunks(&columns, &text).unwrap(), chunks);
        assert_eq!(chunks_len(&columns), Some(text.len()));
        writeln!(out, "{} {text}", hex(&columns)).unwrap();
    }
    check("chunks.txt", &out);
}

#[test]
fn an_event_that_lends_its_text() {
    let lending = Lending {
        borrowers: vec![5, 300, 301],
        form: 1,
        body: b"what is said twice, what is said twice, what is said twice".to_vec(),
    };
    let packed = encode_lending(&lending).unwrap();
    assert_eq!(decode_lending(&packed).unwrap(), lending);
    // How it is compressed may change; what was written stays readable.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/lending.txt");
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::write(&path, hex(&packed)).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let byte = |at: usize| u8::from_str_radix(&kept[at..at + 2], 16).unwrap();
    let kept: Vec<u8> = (0..kept.len()).step_by(2).map(byte).collect();
    assert_eq!(decode_lending(&kept).unwrap(), lending);
    for end in 0..kept.len() {
        assert!(decode_lending(&kept[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn facts_and_nonces() {
    let fact = |id: &str, data: Option<&str>| Fact {
        id: ForeignId::new(id).unwrap(),
        op: FactOp::Put,
        anchor: 7,
        ts: None,
        kind: "mode_change".into(),
        turn_id: Some(TurnId::new("t").unwrap()),
        visible: true,
        data: data.map(|data| Json::parse(data).unwrap()),
    };
    let mut out = String::new();
    let mut chain = EMPTY_CHAIN;
    for (fact, seq) in [fact("a", Some("{\"z\": 1.0, \"a\":2}")), fact("b", None)]
        .iter()
        .zip(1..)
    {
        let body = fact.canonical();
        assert_eq!(&Fact::from_json(&body).unwrap(), fact);
        let digest = fact_digest(&body);
        chain = facts_chain_next(&chain, seq, &digest);
        writeln!(out, "{body}\n{}\n{}", hex(&digest), hex(&chain)).unwrap();
    }
    writeln!(out, "{} {}", nonce(b"{}", 0), nonce(b"{}", 1)).unwrap();
    check("facts.txt", &out);
}
