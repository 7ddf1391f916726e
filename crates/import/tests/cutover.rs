//! The staged cutover on small sources: every outcome, every crash point.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in its helpers"
)]

mod common;

use common::{Bytes, State, state};
use folio_core::{Authority, CanonicalEvent, Direction, SessionId};
use folio_import::{
    BytesSource, CrashPoint, FileSource, ImportOptions, Importer, Outcome, Probe, Source,
};
use folio_projector::{Projected, RowForm, RuntimeEventReadModel, Stats, TranscriptQuery};
use folio_store::{
    AppendBatch, AuthorityChange, ContributionQuery, ItemQuery, NOTES, NewSession, SessionFilter,
    Start, Store, Writer,
};
use std::io::{self, BufRead, BufReader, Read};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The native id of the sample sessions.
const ID: &str = "11111111-2222-4333-8444-555555555555";

fn uuid(n: usize) -> String {
    format!("aaaaaaaa-0000-4000-8000-{n:012}")
}

fn record(n: usize, kind: &str, message: &str) -> String {
    let (second, uuid) = (n % 60, uuid(n));
    format!(
        r#"{{"type":"{kind}","uuid":"{uuid}","sessionId":"{ID}","timestamp":"2025-06-01T10:00:{second:02}.000Z","message":{message}}}"#
    )
}

fn prompt(n: usize, text: &str) -> String {
    record(
        n,
        "user",
        &format!(r#"{{"role":"user","content":"{text}"}}"#),
    )
}

fn answer(n: usize, block: &str) -> String {
    record(
        n,
        "assistant",
        &format!(
            r#"{{"id":"m{n}","role":"assistant","model":"claude","stop_reason":"end_turn","content":[{block}],"usage":{{"input_tokens":{n},"output_tokens":2}}}}"#
        ),
    )
}

fn said(n: usize, text: &str) -> String {
    answer(n, &format!(r#"{{"type":"text","text":"{text}"}}"#))
}

fn call(n: usize, id: &str) -> String {
    answer(
        n,
        &format!(r#"{{"type":"tool_use","id":"{id}","name":"Read","input":{{"path":"a"}}}}"#),
    )
}

fn result(n: usize, id: &str) -> String {
    record(
        n,
        "user",
        &format!(
            r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"ok"}}]}}"#
        ),
    )
}

fn note(n: usize) -> String {
    format!(r#"{{"type":"summary","summary":"note {n}","leafUuid":"x"}}"#)
}

fn lines(records: &[String]) -> Vec<u8> {
    records
        .iter()
        .flat_map(|record| format!("{record}\n").into_bytes())
        .collect()
}

/// Three turns with calls, results and notes between them.
fn sample() -> Vec<String> {
    let mut records = vec![note(0)];
    for turn in 0..3 {
        let n = 1 + turn * 10;
        let id = format!("call_{turn}");
        records.extend([
            prompt(n, "do it"),
            call(n + 1, &id),
            result(n + 2, &id),
            note(n),
            said(n + 3, "done"),
        ]);
    }
    records
}

/// A session of several batches.
fn long() -> Vec<u8> {
    let mut records = Vec::new();
    for n in 0..600 {
        records.extend([prompt(3 * n + 1, "go"), said(3 * n + 2, "gone"), note(n)]);
    }
    lines(&records)
}

struct Bench {
    store: Arc<dyn Store>,
    options: ImportOptions,
}

impl Bench {
    fn new() -> Self {
        Self {
            store: folio_testkit::memory_store(),
            options: ImportOptions::default(),
        }
    }

    async fn import(&self, bytes: &[u8]) -> Outcome {
        self.import_as(&format!("{ID}.jsonl"), bytes).await
    }

    async fn import_as(&self, name: &str, bytes: &[u8]) -> Outcome {
        let source = BytesSource::new(name, bytes.to_vec());
        Importer::new(Arc::clone(&self.store))
            .import_reader(&source, &self.options)
            .await
            .unwrap()
    }

    async fn state(&self) -> State {
        state(&self.store, &id(ID)).await.unwrap()
    }

    async fn listed(&self, filter: SessionFilter) -> Vec<String> {
        let sessions = self.store.sessions(filter, None, 100).await.unwrap();
        sessions.iter().map(|info| info.id.to_string()).collect()
    }
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn codes(outcome: &Outcome) -> Vec<&'static str> {
    outcome.diagnostics.iter().map(|found| found.code).collect()
}

fn word(outcome: &Outcome) -> &'static str {
    outcome.outcome.as_str()
}

async fn whole(bytes: &[u8]) -> State {
    let bench = Bench::new();
    assert_eq!(word(&bench.import(bytes).await), "imported");
    bench.state().await
}

#[tokio::test]
async fn a_session_is_imported_unchanged_and_grown() {
    let bench = Bench::new();
    let records = sample();
    let first = lines(&records[..7]);
    let outcome = bench.import(&first).await;
    assert_eq!(word(&outcome), "imported");
    assert_eq!(outcome.session_id, Some(id(ID)));
    let events = bench.state().await.head;
    assert_eq!(outcome.events_added, events);
    let again = bench.import(&first).await;
    assert_eq!((word(&again), again.events_added), ("unchanged", 0));
    assert_eq!(again.row_count, outcome.row_count);
    let grown = bench.import(&lines(&records)).await;
    assert_eq!(word(&grown), "grown");
    let state = bench.state().await;
    assert_eq!(events + grown.events_added, state.head);
    assert_eq!(state, whole(&lines(&records)).await);
    let shorter = bench.import(&first).await;
    assert_eq!(word(&shorter), "unchanged");
    assert_eq!(codes(&shorter), ["source_shorter"]);
    assert_eq!(shorter.row_count, grown.row_count);
    assert_eq!(bench.state().await, state);
    let stats = Stats::of(&*bench.store, &id(ID)).await.unwrap();
    assert_eq!(stats.rows.values().sum::<u64>(), grown.row_count);
    assert_eq!((stats.user_messages, stats.tool_results), (3, 3));
    assert_eq!(stats.orphan_tool_results, 0);
}

#[tokio::test]
async fn a_session_grows_after_a_redaction_and_stays_redacted() {
    let records = sample();
    let before = lines(&records[..records.len() - 1]);
    for kind in ["user", "assistant", "call", "result"] {
        let bench = Bench::new();
        assert_eq!(word(&bench.import(&before).await), "imported");
        let page = ItemQuery {
            through: None,
            direction: Direction::Newer,
            start: Start::Edge,
            max_items: 100,
            max_bytes: usize::MAX,
            member_bytes: usize::MAX,
        };
        let items = bench.store.read_items(&id(ID), page).await.unwrap().items;
        let keys: Vec<String> = items
            .iter()
            .filter(|loaded| loaded.item.kind.as_str() == kind)
            .map(|loaded| loaded.item.key.to_string())
            .collect();
        assert_ne!(keys, [""; 0], "{kind}");
        bench.store.redact(&id(ID), &keys).await.unwrap();
        let outcome = bench.import(&lines(&records)).await;
        assert_eq!(
            (word(&outcome), codes(&outcome)),
            ("grown", vec![]),
            "{kind}"
        );
        let again = bench.import(&lines(&records)).await;
        assert_eq!(word(&again), "unchanged", "{kind}");
        let report = bench.store.verify(&id(ID)).await.unwrap();
        assert_eq!(report.findings, []);
        assert_eq!(bench.store.session(&id(ID)).await.unwrap().generation, 1);
    }
}

#[tokio::test]
async fn rows_and_notes_are_readable_and_in_place() {
    let bench = Bench::new();
    let outcome = bench.import(&lines(&sample())).await;
    let query = TranscriptQuery {
        session: id(ID),
        through_ordinal: None,
        direction: Direction::Newer,
        position: Start::Edge,
        max_items: 1_000,
        max_bytes: usize::MAX >> 1,
        form: RowForm::Json,
    };
    let model = RuntimeEventReadModel::new(Arc::clone(&bench.store));
    let page = model.read_transcript_page(&query).await.unwrap();
    assert!(page.rows().all(|row| matches!(row.row, Projected::Json(_))));
    let query = ContributionQuery {
        through: u64::MAX >> 1,
        direction: Direction::Newer,
        after: None,
        max_items: 100,
    };
    let facts = bench
        .store
        .contributions(&id(ID), NOTES, query)
        .await
        .unwrap();
    let facts: Vec<_> = facts.iter().map(|stored| stored.fact().unwrap()).collect();
    let names: Vec<_> = facts.iter().map(|fact| fact.id.as_str()).collect();
    assert_eq!(names, ["L1", "L5", "L10", "L15"]);
    assert_eq!(facts[0].anchor, 0);
    for fact in &facts[1..] {
        let event = &bench.store.events(&id(ID), &[fact.anchor]).await.unwrap()[0];
        let view = event.view().unwrap();
        // The note stands behind the result that precedes it.
        assert_eq!(view.kind(), "function_response");
    }
    let visible = facts.iter().filter(|fact| fact.visible).count();
    assert_eq!(outcome.row_count, (page.len() + visible) as u64);
}

#[tokio::test]
async fn another_conversation_under_the_same_id_gets_a_suffix() {
    let bench = Bench::new();
    let first = [prompt(1, "one"), said(2, "a")];
    let second = [prompt(51, "two"), said(52, "b")];
    let third = [prompt(61, "three"), said(62, "c")];
    let longer = [second.clone().to_vec(), vec![prompt(53, "more")]].concat();
    bench.import(&lines(&first)).await;
    let outcome = bench.import(&lines(&second)).await;
    assert_eq!(word(&outcome), "imported");
    assert_eq!(outcome.session_id, Some(id(&format!("{ID}-2"))));
    assert_eq!(codes(&outcome), ["same_native_id"]);
    let outcome = bench.import(&lines(&third)).await;
    assert_eq!(outcome.session_id, Some(id(&format!("{ID}-3"))));
    let outcome = bench.import(&lines(&longer)).await;
    assert_eq!(word(&outcome), "grown");
    assert_eq!(outcome.session_id, Some(id(&format!("{ID}-2"))));
    let outcome = bench.import(&lines(&first)).await;
    assert_eq!(
        (word(&outcome), outcome.session_id),
        ("unchanged", Some(id(ID)))
    );
    assert_eq!(bench.listed(SessionFilter::All).await.len(), 3);
}

#[tokio::test]
async fn an_id_that_a_program_uses_is_left_to_it() {
    let bench = Bench::new();
    let native = NewSession::native(id(ID));
    bench.store.create_session(native).await.unwrap();
    let outcome = bench.import(&lines(&sample())).await;
    assert_eq!(outcome.session_id, Some(id(&format!("{ID}-2"))));
    assert_eq!(bench.state().await.head, 0);
}

#[tokio::test]
async fn what_is_no_session_is_told_and_not_stored() {
    let bench = Bench::new();
    let cases: [(&[u8], &str, &str); 6] = [
        (b"", "rejected", "empty_file"),
        (b" \n\n", "rejected", "empty_file"),
        (b"\x7fELF\0\0\0", "rejected", "binary_file"),
        (b"\xff\xfe\n", "rejected", "binary_file"),
        (b"# notes\n", "rejected", "not_a_session_file"),
        (
            b"{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"y\"}\n",
            "skipped",
            "no_conversation",
        ),
    ];
    for (bytes, expected, code) in cases {
        let outcome = bench.import(bytes).await;
        assert_eq!((word(&outcome), codes(&outcome)), (expected, vec![code]));
        assert_eq!(outcome.session_id, None);
    }
    let nameless = lines(&[prompt(1, "hi")]);
    assert_eq!(
        word(&bench.import_as("x.jsonl", &nameless).await),
        "skipped"
    );
    let conversation = [prompt(1, "hi"), said(2, "there")];
    for unusable in ["a b", "", "latest", "-x"] {
        let named = String::from_utf8(lines(&conversation)).unwrap();
        let named = named.replace(ID, unusable);
        let outcome = bench.import_as("x.jsonl", named.as_bytes()).await;
        assert_eq!(
            (word(&outcome), codes(&outcome)),
            ("rejected", vec!["unusable_session_id"])
        );
    }
    let odd = lines(&conversation.map(|record| record.replace("hi", r"\ud800")));
    let odd = [
        &b"\xff\n"[..],
        odd.split_inclusive(|b| *b == b'\n').next().unwrap(),
    ]
    .concat();
    let outcome = bench.import(&odd).await;
    assert_eq!(
        (word(&outcome), codes(&outcome)),
        ("rejected", vec!["unreadable_records"])
    );
    let importer = Importer::new(Arc::clone(&bench.store));
    let folder = importer
        .import_path(Path::new("/"), &bench.options)
        .await
        .unwrap();
    assert_eq!(codes(&folder), ["not_a_file"]);
    let gone = importer
        .import_path(Path::new("/no/such"), &bench.options)
        .await;
    assert_eq!(gone.unwrap_err().code(), "io_error");
    assert_eq!(bench.listed(SessionFilter::All).await.len(), 0);
}

/// A line of `x` between two sessions' worth of records, never in memory.
struct Long(u64);

impl Source for Long {
    fn path(&self) -> &Path {
        Path::new("long.jsonl")
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0)
    }
    fn open(&self) -> io::Result<Box<dyn BufRead + Send>> {
        let before = io::Cursor::new(lines(&[prompt(1, "a"), said(2, "b")]));
        let after = io::Cursor::new(lines(&[String::new(), prompt(3, "c")]));
        let line = io::repeat(b'x').take(self.0);
        Ok(Box::new(BufReader::new(before.chain(line).chain(after))))
    }
}

#[tokio::test]
async fn damage_inside_a_session_loses_nothing_else() {
    let bench = Bench::new();
    let importer = Importer::new(Arc::clone(&bench.store));
    let long = Long(64 << 20);
    let outcome = importer.import_reader(&long, &bench.options).await.unwrap();
    assert_eq!(
        (word(&outcome), codes(&outcome)),
        ("imported", vec!["oversize_record"])
    );
    let mut bytes = lines(&[prompt(1, "a"), said(2, "b")]);
    bytes.extend(b"\xff\xfe rubbish\n");
    bytes.extend(lines(&[prompt(3, "c")]));
    let other = Bench::new();
    let outcome = other.import(&bytes).await;
    assert_eq!(
        (word(&outcome), codes(&outcome)),
        ("imported", vec!["broken_line"])
    );
    assert_eq!(outcome.diagnostics[0].line, Some(3));
    let stats = Stats::of(&*other.store, &id(ID)).await.unwrap();
    assert_eq!(stats.user_messages, 2);
}

#[tokio::test]
async fn a_torn_last_line_is_told_and_taken_when_it_is_whole() {
    let whole_source = format!("{}\n{}\n", prompt(1, "hello"), said(2, "there"));
    let place = Bench::new();
    let torn = place
        .import(&whole_source.as_bytes()[..whole_source.len() - 20])
        .await;
    let told: Vec<_> = torn.diagnostics.iter().map(|d| (d.code, d.line)).collect();
    assert_eq!(told, [("torn_line", Some(2))]);
    let grown = place.import(whole_source.as_bytes()).await;
    assert_eq!(grown.diagnostics_total, 0);
    assert_eq!(place.state().await, whole(whole_source.as_bytes()).await);
    // A complete record without its line end is no torn one.
    let ended = Bench::new()
        .import(&whole_source.as_bytes()[..whole_source.len() - 1])
        .await;
    assert_eq!(ended.diagnostics_total, 0);
}

#[tokio::test]
async fn a_line_of_more_than_a_batch_is_split() {
    let bench = Bench::new();
    let big = |n: usize| {
        let text = "x".repeat(5 << 20);
        format!(
            r#"{{"type":"progress","uuid":"{}","sessionId":"{ID}","data":"{text}"}}"#,
            uuid(n)
        )
    };
    let glued = format!("{}{}{}\n", big(10), big(11), big(12));
    let bytes = [
        lines(&[prompt(1, "a"), said(2, "b")]),
        glued.into_bytes(),
        lines(&[prompt(3, "c")]),
    ]
    .concat();
    let outcome = bench.import(&bytes).await;
    assert_eq!(
        (word(&outcome), codes(&outcome)),
        ("imported", vec!["glued_records"])
    );
    assert_eq!(bench.state().await.notes, 3);
    assert_eq!(word(&bench.import(&bytes).await), "unchanged");
}

#[tokio::test]
async fn diagnostics_are_capped_and_types_told_once() {
    let bench = Bench::new();
    let mut bytes = lines(&[prompt(1, "a"), said(2, "b")]);
    for _ in 0..150 {
        bytes.extend(b"rubbish\n{\"type\":\"new-thing\",\"sessionId\":\"s\"}\n");
    }
    let outcome = bench.import(&bytes).await;
    assert_eq!(
        (outcome.diagnostics.len(), outcome.diagnostics_total),
        (100, 151)
    );
    let unknown = codes(&outcome)
        .iter()
        .filter(|code| **code == "unknown_record")
        .count();
    assert_eq!(unknown, 1);
    let json: serde_json::Value = serde_json::from_str(&outcome.to_json()).unwrap();
    assert_eq!(json["outcome"], "imported");
    assert_eq!(json["session_id"], ID);
    assert_eq!(json["format"], "claude-code");
    assert_eq!(json["children"], serde_json::json!([]));
    assert_eq!(json["diagnostics"][0]["code"], "unknown_record");
    assert_eq!(json["diagnostics"][0]["detail"], "new-thing");
}

type Fits = fn(CrashPoint) -> bool;

/// Panics at the n-th crash point that fits.
struct Bomb {
    at: Fits,
    after: AtomicU64,
}

impl Probe for Bomb {
    fn reached(&self, point: CrashPoint) {
        if (self.at)(point) && self.after.fetch_sub(1, Ordering::SeqCst) == 0 {
            panic!("killed at {point:?}");
        }
    }
}

fn points() -> Vec<(&'static str, Fits, u64)> {
    vec![
        ("prepared", |p| p == CrashPoint::Prepared, 0),
        ("translated 1", |p| p == CrashPoint::Translated(1), 0),
        ("translated 2", |p| p == CrashPoint::Translated(2), 0),
        ("committed", |p| p == CrashPoint::Committed, 0),
        ("committed later", |p| p == CrashPoint::Committed, 1),
        ("verified", |p| p == CrashPoint::Verified, 0),
        ("before the mark", |p| p == CrashPoint::BeforeMark, 0),
        ("after the mark", |p| p == CrashPoint::AfterMark, 0),
    ]
}

/// Imports and is killed at a point; answers whether the point was reached.
fn killed(store: &Arc<dyn Store>, bytes: &[u8], at: Fits, after: u64) -> bool {
    let bench = Bench {
        store: Arc::clone(store),
        options: ImportOptions {
            probe: Arc::new(Bomb {
                at,
                after: AtomicU64::new(after),
            }),
            ..ImportOptions::default()
        },
    };
    let import = || common::block_on(bench.import(bytes)).unwrap();
    std::panic::catch_unwind(AssertUnwindSafe(import)).is_err()
}

#[test]
fn a_killed_import_goes_on_where_it_was() {
    let bytes = long();
    let expected = common::block_on(whole(&bytes)).unwrap();
    for (name, at, after) in points() {
        let bench = Bench::new();
        assert!(
            killed(&bench.store, &bytes, at, after),
            "{name} is never reached"
        );
        common::block_on(async {
            let readable = bench.listed(SessionFilter::Readable).await;
            assert_eq!(
                readable.len(),
                usize::from(name == "after the mark"),
                "{name}"
            );
            let before = bench.store.session(&id(ID)).await.unwrap();
            let outcome = bench.import(&bytes).await;
            let wanted = if readable.is_empty() {
                "imported"
            } else {
                "unchanged"
            };
            assert_eq!(word(&outcome), wanted, "{name}");
            assert_eq!(bench.state().await, expected, "{name}");
            // It was resumed, not begun again.
            let after = bench.store.session(&id(ID)).await.unwrap();
            assert_eq!(before.incarnation, after.incarnation, "{name}");
            assert!(
                bench
                    .store
                    .verify(&id(ID))
                    .await
                    .unwrap()
                    .findings
                    .is_empty()
            );
        })
        .unwrap();
    }
}

#[test]
fn a_killed_growth_leaves_a_readable_prefix_and_goes_on() {
    let bytes = long();
    let cut = bytes.len() / 10;
    let expected = common::block_on(whole(&bytes)).unwrap();
    for (name, at, after) in points() {
        let bench = Bench::new();
        common::block_on(bench.import(&bytes[..cut])).unwrap();
        let reached = killed(&bench.store, &bytes, at, after);
        let staged = ["prepared", "before the mark", "after the mark"].contains(&name);
        assert_eq!(reached, !staged, "{name}");
        common::block_on(async {
            assert_eq!(bench.listed(SessionFilter::Readable).await, [ID]);
            Stats::of(&*bench.store, &id(ID)).await.unwrap();
            let outcome = bench.import(&bytes).await;
            let wanted = if reached { "grown" } else { "unchanged" };
            assert_eq!(word(&outcome), wanted, "{name}");
            assert_eq!(bench.state().await, expected, "{name}");
        })
        .unwrap();
    }
}

#[test]
fn a_prepared_session_of_another_source_is_begun_again() {
    let bench = Bench::new();
    assert!(killed(
        &bench.store,
        &long(),
        |p| p == CrashPoint::Committed,
        0
    ));
    common::block_on(async {
        let bytes = lines(&sample());
        let outcome = bench.import(&bytes).await;
        assert_eq!((word(&outcome), codes(&outcome)), ("imported", vec![]));
        assert_eq!(bench.state().await, whole(&bytes).await);
    })
    .unwrap();
}

#[tokio::test]
async fn a_rejected_session_is_begun_again() {
    let bytes = lines(&sample());
    let expected = whole(&bytes).await;
    let bench = Bench::new();
    let new = NewSession {
        id: id(ID),
        authority: Authority::Preparing,
        followed: true,
        import_ref: expected.import_ref.clone(),
    };
    let info = bench.store.create_session(new).await.unwrap();
    let change = AuthorityChange {
        expected_rev: info.authority_rev,
        to: Authority::Rejected,
        import_ref: None,
    };
    bench.store.set_authority(&id(ID), change).await.unwrap();
    assert_eq!(word(&bench.import(&bytes).await), "imported");
    assert_eq!(bench.state().await, expected);
}

#[tokio::test]
async fn a_stopped_import_goes_on() {
    let bytes = long();
    let expected = whole(&bytes).await;
    let mut bench = Bench::new();
    let cancel = Arc::new(AtomicBool::new(false));
    let told = Arc::new(AtomicU64::new(0));
    let (flag, seen) = (Arc::clone(&cancel), Arc::clone(&told));
    bench.options.cancel = Some(Arc::clone(&cancel));
    bench.options.progress = Some(Arc::new(move |progress| {
        assert!(progress.done <= progress.total);
        seen.fetch_max(progress.done, Ordering::SeqCst);
        flag.store(true, Ordering::SeqCst);
    }));
    let source = BytesSource::new(format!("{ID}.jsonl"), bytes.clone());
    let importer = Importer::new(Arc::clone(&bench.store));
    let stopped = importer.import_reader(&source, &bench.options).await;
    assert_eq!(stopped.unwrap_err().code(), "interrupted");
    assert!(told.load(Ordering::SeqCst) > 0);
    assert_eq!(bench.listed(SessionFilter::Readable).await.len(), 0);
    assert!(bench.state().await.head > 0);
    bench.options.cancel = None;
    assert_eq!(word(&bench.import(&bytes).await), "imported");
    assert_eq!(bench.state().await, expected);
}

#[tokio::test]
async fn a_finish_is_remembered_when_the_source_grows() {
    let records = sample();
    let (part, all) = (lines(&records[..4]), lines(&records));
    let mut bench = Bench::new();
    bench.import(&part).await;
    let open = Stats::of(&*bench.store, &id(ID)).await.unwrap().turns.open;
    assert_eq!(open, 1);
    bench.options.finish = true;
    let outcome = bench.import(&part).await;
    assert_eq!((word(&outcome), outcome.events_added), ("grown", 1));
    assert_eq!(word(&bench.import(&part).await), "unchanged");
    let finished = bench.state().await;
    assert!(finished.import_ref.unwrap().contains("\"finishes\":[4]"));
    bench.options.finish = false;
    assert_eq!(word(&bench.import(&part).await), "unchanged");
    assert_eq!(word(&bench.import(&all).await), "grown");
    assert_eq!(word(&bench.import(&all).await), "unchanged");
    let grown = bench.state().await;
    // Finished at once, then grown: the same session.
    let mut other = Bench::new();
    other.options.finish = true;
    assert_eq!(word(&other.import(&part).await), "imported");
    other.options.finish = false;
    assert_eq!(word(&other.import(&all).await), "grown");
    assert_eq!(other.state().await, grown);
    // A source that ends before the finish is a prefix still.
    assert_eq!(
        word(&bench.import(&lines(&records[..3])).await),
        "unchanged"
    );
}

#[tokio::test]
async fn a_session_that_left_its_source_is_not_touched() {
    let bytes = lines(&sample());
    let expected = whole(&bytes).await;
    let bench = Bench::new();
    let new = NewSession {
        id: id(ID),
        authority: Authority::RuntimeEvents,
        followed: false,
        import_ref: expected.import_ref,
    };
    bench.store.create_session(new).await.unwrap();
    let outcome = bench.import(&bytes).await;
    assert_eq!(
        (word(&outcome), codes(&outcome)),
        ("rejected", vec!["import_diverged"])
    );
    assert_eq!(outcome.session_id, Some(id(ID)));
    assert_eq!(bench.state().await.head, 0);
}

fn event(text: &str) -> CanonicalEvent {
    folio_testkit::event::Events::new(ID).user("u1", text)
}

#[tokio::test]
async fn a_session_of_another_translation_is_left_as_it_is() {
    let bytes = lines(&sample());
    let expected = whole(&bytes).await;
    let ours = expected.import_ref.unwrap();
    let current = folio_import::claude_code::TRANSLATOR_VERSION;
    for (version, wanted) in [
        (current - 1, ("unchanged", "translated_by_older")),
        (current + 1, ("unchanged", "translated_by_newer")),
        (current, ("rejected", "translation_differs")),
    ] {
        let bench = Bench::new();
        let import_ref = ours.replace(
            &format!("\"translator_version\":{current}"),
            &format!("\"translator_version\":{version}"),
        );
        let new = NewSession {
            id: id(ID),
            authority: Authority::RuntimeEvents,
            followed: true,
            import_ref: Some(import_ref),
        };
        bench.store.create_session(new).await.unwrap();
        let batch = AppendBatch {
            writer: Writer::Importer,
            ..AppendBatch::native(vec![event("otherwise")])
        };
        bench.store.append(&id(ID), batch).await.unwrap();
        let before = bench.state().await;
        let outcome = bench.import(&bytes).await;
        assert_eq!(
            (word(&outcome), codes(&outcome)),
            (wanted.0, vec![wanted.1])
        );
        assert_eq!(bench.state().await, before);
    }
}

#[tokio::test]
async fn repeated_and_late_calls_are_paired_as_they_are_shown() {
    let bench = Bench::new();
    let records = [
        prompt(1, "a"),
        // A result before its call, an id used twice, one result too many.
        result(2, "early"),
        call(3, "early"),
        call(4, "twice"),
        result(5, "twice"),
        call(6, "twice"),
        result(7, "twice"),
        result(8, "twice"),
        prompt(9, "b"),
        result(10, "twice"),
        call(11, "early"),
        result(12, "early"),
        result(13, "nobody"),
    ];
    for cut in 3..=records.len() {
        let outcome = bench.import(&lines(&records[..cut])).await;
        assert_eq!(codes(&outcome), Vec::<&str>::new(), "{cut}: {outcome:?}");
        assert!(["imported", "grown"].contains(&word(&outcome)));
        let alone = Bench::new();
        let outcome = alone.import(&lines(&records[..cut])).await;
        assert_eq!(word(&outcome), "imported");
        assert_eq!(alone.state().await, bench.state().await);
    }
}

/// The lines of a sub-agent inside a main file: they make no rows, and what
/// they share with lines of the main agent is told where it is shown.
#[tokio::test]
async fn inner_lines_of_sub_agents_are_followed() {
    let inner = |record: String| record.replacen('{', r#"{"isSidechain":true,"#, 1);
    let end = |n: usize| {
        format!(
            r#"{{"type":"system","subtype":"turn_duration","uuid":"{}","sessionId":"{ID}","durationMs":5}}"#,
            uuid(n)
        )
    };
    let same = said(2, "x").replace(&uuid(2), &uuid(3));
    let records = [
        prompt(1, "a"),
        inner(said(2, "x")),
        same,
        inner(end(4)),
        inner(end(5)),
        inner(call(6, "c")),
        result(7, "c"),
        end(8),
        prompt(9, "b"),
        inner(end(10)),
    ];
    let mut bench = Bench::new();
    for cut in 3..=records.len() {
        let outcome = bench.import(&lines(&records[..cut])).await;
        assert!(
            ["imported", "grown"].contains(&word(&outcome)),
            "{cut}: {outcome:?}"
        );
        assert_eq!(bench.state().await, whole(&lines(&records[..cut])).await);
    }
    bench.options.finish = true;
    let outcome = bench.import(&lines(&records)).await;
    assert_eq!(word(&outcome), "grown");
}

#[tokio::test]
async fn a_file_is_imported_by_its_path() {
    let bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session.jsonl");
    std::fs::write(&path, lines(&sample())).unwrap();
    let importer = Importer::new(Arc::clone(&bench.store));
    let outcome = importer.import_path(&path, &bench.options).await.unwrap();
    assert_eq!(
        (word(&outcome), outcome.session_id),
        ("imported", Some(id(ID)))
    );
    assert_eq!(outcome.path, path.display().to_string());
    assert!(!FileSource::new(&path).is_empty().unwrap());
    let found = folio_import::discover(&[dir.path().to_owned()], None);
    assert_eq!(found.files, [path]);
    // Bytes under another name are the same session.
    let bytes = Bytes::new(lines(&sample()));
    let again = common::import(&bench.store, "else.jsonl", bytes)
        .await
        .unwrap();
    assert_eq!(word(&again), "unchanged");
}

/// Imports sources at once, each on a thread of its own.
fn at_once(store: &Arc<dyn Store>, sources: &[Vec<u8>]) -> Vec<Outcome> {
    let start = std::sync::Barrier::new(sources.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = sources
            .iter()
            .map(|bytes| {
                let start = &start;
                scope.spawn(move || {
                    let bench = Bench {
                        store: Arc::clone(store),
                        options: ImportOptions::default(),
                    };
                    start.wait();
                    common::block_on(bench.import(bytes)).unwrap()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn imports_of_one_source_at_once_agree() {
    let small = lines(&sample());
    for (bytes, rounds) in [(small, 20), (long(), 3)] {
        let expected = common::block_on(whole(&bytes)).unwrap();
        for _ in 0..rounds {
            let bench = Bench::new();
            let outcomes = at_once(&bench.store, &vec![bytes.clone(); 8]);
            for outcome in &outcomes {
                assert!(
                    ["imported", "grown", "unchanged"].contains(&word(outcome)),
                    "{outcome:?}"
                );
                assert_eq!(outcome.session_id, Some(id(ID)));
            }
            common::block_on(async {
                assert_eq!(bench.state().await, expected);
                assert_eq!(bench.listed(SessionFilter::All).await, [ID]);
                let report = bench.store.verify(&id(ID)).await.unwrap();
                assert_eq!(report.findings, []);
            })
            .unwrap();
        }
    }
}

#[test]
fn prefixes_of_one_source_at_once_lose_nothing() {
    let records = sample();
    let short = lines(&records);
    let many = long();
    let cases = [
        (short.clone(), vec![lines(&records[..7]), short], 20),
        (
            many.clone(),
            vec![
                many[..many.len() / 3].to_vec(),
                many.clone(),
                many[..many.len() / 2].to_vec(),
            ],
            3,
        ),
    ];
    for (bytes, sources, rounds) in cases {
        let expected = common::block_on(whole(&bytes)).unwrap();
        for round in 0..rounds {
            let bench = Bench::new();
            if round % 2 == 1 {
                // Both grow what is readable already.
                common::block_on(bench.import(&bytes[..bytes.len() / 4])).unwrap();
            }
            for outcome in at_once(&bench.store, &sources) {
                assert!(
                    ["imported", "grown", "unchanged"].contains(&word(&outcome)),
                    "{outcome:?}"
                );
                assert_eq!(outcome.session_id, Some(id(ID)));
            }
            let state = common::block_on(bench.state()).unwrap();
            assert_eq!(state, expected);
            let again = common::block_on(bench.import(&bytes)).unwrap();
            assert_eq!((word(&again), codes(&again)), ("unchanged", vec![]));
        }
    }
}

/// The same records with blank lines between some of them.
fn spaced(records: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, record) in records.iter().enumerate() {
        out.extend("\n".repeat(n % 3).into_bytes());
        out.extend(format!("{record}\n").into_bytes());
    }
    out
}

#[tokio::test]
async fn blank_lines_make_no_other_session() {
    let records: Vec<String> = sample()
        .into_iter()
        // Some events are named by their places, too.
        .map(|record| record.replace(&format!(r#""uuid":"{}","#, uuid(12)), ""))
        .collect();
    let (plain, blank) = (lines(&records[..9]), spaced(&records[..9]));
    for (first, second, grown) in [
        (&plain, &blank, spaced(&records)),
        (&blank, &plain, lines(&records)),
    ] {
        let bench = Bench::new();
        assert_eq!(word(&bench.import(first).await), "imported");
        let before = bench.state().await;
        let outcome = bench.import(second).await;
        assert_eq!(
            (word(&outcome), codes(&outcome)),
            ("unchanged", vec!["line_numbers_differ"])
        );
        assert_eq!(outcome.session_id, Some(id(ID)));
        // A shorter file of them brings nothing new either.
        let shorter = &second[..second.len() - 4];
        assert_eq!(
            codes(&bench.import(shorter).await)[0],
            "line_numbers_differ"
        );
        assert_eq!(bench.state().await, before);
        // Grown beyond what is stored, it is a session of its own.
        for wanted in ["imported", "unchanged"] {
            let outcome = bench.import(&grown).await;
            assert_eq!(
                (word(&outcome), codes(&outcome)),
                (wanted, vec!["same_native_id"])
            );
            assert_eq!(outcome.session_id, Some(id(&format!("{ID}-2"))));
        }
        assert_eq!(bench.state().await, before);
        assert_eq!(word(&bench.import(first).await), "unchanged");
    }
}

#[tokio::test]
async fn counts_and_times_that_cannot_be_read_are_told() {
    let bench = Bench::new();
    let odd = |n: usize, value: &str| {
        said(n, "x").replace("\"output_tokens\":2", &format!("\"output_tokens\":{value}"))
    };
    let records = [
        prompt(1, "a"),
        odd(2, "-5"),
        odd(3, "1.5"),
        odd(4, "\"6\""),
        odd(5, "9007199254740993"),
        odd(6, "null"),
        odd(7, "7"),
        said(8, "y").replace("2025-06-01T10:00:08.000Z", "yesterday"),
    ];
    let outcome = bench.import(&lines(&records)).await;
    let told: Vec<_> = outcome
        .diagnostics
        .iter()
        .map(|found| (found.code, found.line, found.detail.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("unreadable_usage", Some(2), Some("4")),
            ("unreadable_timestamp", Some(8), Some("1")),
        ]
    );
    assert_eq!(word(&outcome), "imported");
    let stats = Stats::of(&*bench.store, &id(ID)).await.unwrap();
    assert_eq!(
        (stats.usage.output, stats.usage.input),
        (7 + 2, 2 + 3 + 4 + 5 + 6 + 7 + 8)
    );
}

#[test]
fn two_conversations_of_one_id_at_once_are_both_kept() {
    let sources = [
        lines(&[prompt(1, "one"), said(2, "a")]),
        lines(&[prompt(51, "two"), said(52, "b")]),
    ];
    for _ in 0..10 {
        let bench = Bench::new();
        let outcomes = at_once(&bench.store, &sources);
        let mut names: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.session_id.clone().unwrap().to_string())
            .collect();
        names.sort();
        assert_eq!(names, [ID.to_owned(), format!("{ID}-2")], "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| word(outcome) == "imported"));
    }
}

#[tokio::test]
async fn damaged_sessions_of_a_folder_are_not_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let session = lines(&sample());
    for (name, before) in [("byte", &b"{\"x\":\"\xff\"}\n"[..]), ("nul", b"\0\n")] {
        let bytes = [before, &session].concat();
        std::fs::write(dir.path().join(name).with_extension("jsonl"), bytes).unwrap();
    }
    std::fs::write(
        dir.path().join("other.jsonl"),
        b"{\"type\":\"x\",\"a\":\"\\ud800\"}\n",
    )
    .unwrap();
    std::fs::write(dir.path().join("binary"), b"\x7fELF\0\0\n\xff\n").unwrap();
    let found = folio_import::discover(&[dir.path().to_owned()], None);
    let names = ["byte.jsonl", "nul.jsonl"].map(|name| dir.path().join(name));
    assert_eq!((found.files, found.refused), (names.to_vec(), vec![]));
    let bench = Bench::new();
    let importer = Importer::new(Arc::clone(&bench.store));
    for path in names {
        let outcome = importer.import_path(&path, &bench.options).await.unwrap();
        assert_eq!(word(&outcome), "imported");
        assert!(codes(&outcome).contains(&"broken_line"));
    }
}
