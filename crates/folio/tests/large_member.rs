//! A tool's result of any size streams in, pages in fragments, and survives
//! kill -9 at any moment, in memory that does not grow with it.
//!
//! Every store is written and read by other processes: this binary, started
//! again. `FOLIO_MEMBER_BYTES` says how large the result is, 32 MiB by default;
//! the promise is about 1073741824. `FOLIO_MEMBER_KILLS` says how often its
//! writer is killed, 6 times by default.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio::{
    AppendBatch, CanonicalEvent, Content, Direction, Entry, ErrorKind, Member, MemberWriter,
    NewSession, PagePosition, PageRequest, RuntimeEvent, SessionId, Store, TranscriptService,
};
use folio_testkit::event::Events;
use folio_testkit::workload::Random;
use peak_alloc::PeakAlloc;
use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;
/// What a child is to do, and where.
const TASK: &str = "FOLIO_MEMBER_TASK";
const KIND: &str = "FOLIO_MEMBER_KIND";
const PATH: &str = "FOLIO_MEMBER_PATH";
/// The first and the last bytes of the result.
const HEAD: &str = "{\"kind\":\"text\",\"text\":\"";
const TAIL: &str = "\"}";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// The bytes of the result.
fn bytes() -> u64 {
    number("FOLIO_MEMBER_BYTES", 32 << 20)
}

/// The result in slices, the last of them shorter.
fn slices() -> impl Iterator<Item = String> {
    let mut left = bytes() - (HEAD.len() + TAIL.len()) as u64;
    let mut line = 0_u64;
    std::iter::from_fn(move || {
        let mut slice = String::with_capacity(256 << 10);
        while slice.len() < 255 << 10 {
            write!(slice, "{line:012} what a tool said, é 日本 😀; ").unwrap();
            line += 1;
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let whole = slice.floor_char_boundary(most);
        slice.truncate(whole);
        if whole < most && most < 255 << 10 {
            slice.extend(std::iter::repeat_n('.', most - whole));
        }
        left -= slice.len() as u64;
        Some(slice).filter(|slice| !slice.is_empty())
    })
}

fn open(kind: &str, path: &Path) -> Arc<dyn Store> {
    match kind {
        "sqlite" => folio::open_sqlite(path).unwrap(),
        _ => Arc::new(folio_store_redb::open(&folio_store_redb::RedbConfig::new(path)).unwrap()),
    }
}

fn session() -> SessionId {
    SessionId::new("s1").unwrap()
}

/// Everything of the session but the result.
fn others() -> [CanonicalEvent; 3] {
    let mut e = Events::new("s1");
    [
        e.user("u", "read all of it"),
        e.call("c", "m", "tool", "Read"),
        e.result("r", "tool", "Read", "not here"),
    ]
}

async fn write(store: &dyn Store) {
    let id = session();
    match store.create_session(NewSession::native(id.clone())).await {
        Err(error) if error.kind() != ErrorKind::Conflict => unreachable!("{error}"),
        _ => {}
    }
    let [user, call, answer] = others();
    let batch = AppendBatch::native(vec![user, call]);
    store.append(&id, batch).await.unwrap();
    println!("begun");
    let mut result = MemberWriter::new(store);
    result.json(HEAD).await.unwrap();
    for slice in slices() {
        result.text(&slice).await.unwrap();
    }
    result.json(TAIL).await.unwrap();
    let result = result.finish().await.unwrap();
    assert!(matches!(&result, Member::Stored(stored) if stored.len == bytes()));
    let mut event = RuntimeEvent::from_json(&answer.to_json(&id)).unwrap();
    if let Some(Content::FunctionResponse(response)) = &mut event.content {
        response.result = result;
    }
    let event = CanonicalEvent::new(&event).unwrap();
    let batch = AppendBatch::native(vec![event]);
    store.append(&id, batch).await.unwrap();
}

/// Reads the row in fragments and compares it with what was written.
async fn read(store: Arc<dyn Store>) {
    let service = TranscriptService::new(Arc::clone(&store));
    let mut request = PageRequest {
        direction: Some(Direction::Newer),
        position: PagePosition::Around("result:t1:tool".into()),
        max_bytes: MIB,
        ..PageRequest::newest(session())
    };
    let mut written = std::iter::once(HEAD.to_owned())
        .chain(slices())
        .chain([TAIL.to_owned()]);
    let mut expected = String::new();
    let (mut row, mut begun) = (String::new(), false);
    loop {
        let page = service.read_page(&request).await.unwrap();
        let Some(Entry::Fragment { data, .. }) = page.entries.first() else {
            unreachable!("only fragments: {:?}", page.entries.len());
        };
        row.push_str(data);
        if !begun {
            let content = row.find(HEAD).unwrap();
            row.drain(..content);
            begun = true;
        }
        while expected.len() < row.len() {
            let Some(slice) = written.next() else { break };
            expected.push_str(&slice);
        }
        let same = expected.len().min(row.len());
        assert!(
            row[..same] == expected[..same],
            "the row is what was written"
        );
        row.drain(..same);
        expected.drain(..same);
        let Some(next) = page.newer else { break };
        request = request.at_cursor(next);
    }
    assert!(expected.is_empty() && written.next().is_none(), "all of it");
    assert_eq!(row, "}", "and the end of the row");
    // One small fragment from the middle of the way, timed alone.
    let small = PageRequest {
        direction: Some(Direction::Older),
        max_bytes: 64 << 10,
        ..PageRequest::newest(session())
    };
    let began = Instant::now();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let page = service.read_page(&small).await.unwrap();
    let peak = ALLOCATOR.peak_usage().saturating_sub(before);
    assert_eq!(page.entries.len(), 1);
    println!("a fragment of 64 KiB: {:?}, {peak} bytes", began.elapsed());
    assert!(peak < 3 * (64 << 10) + MIB, "{peak}");
}

/// The other process of the tests in this file; nothing where nobody asks for
/// one.
#[test]
fn the_other_process() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let store = open(&std::env::var(KIND).unwrap(), Path::new(&path));
    let task = std::env::var(TASK).unwrap();
    let work = async {
        match &*task {
            "write" => write(&*store).await,
            "read" => read(Arc::clone(&store)).await,
            _ => {
                let report = store.verify(&session()).await.unwrap();
                assert!(report.findings.is_empty(), "{:?}", report.findings);
            }
        }
        store.close().await.unwrap();
    };
    ALLOCATOR.reset_peak_usage();
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work);
    let peak = ALLOCATOR.peak_usage();
    let resident = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = resident.lines().find(|line| line.starts_with("VmHWM"));
    println!("{task}: {:?}, {peak} bytes, {resident:?}", began.elapsed());
    // redb is Rust, too, and its cache may hold 64 MiB; SQLite's is not seen.
    let cache = if std::env::var(KIND).unwrap() == "redb" {
        64
    } else {
        0
    };
    assert!(
        peak < (16 + cache) * MIB,
        "{task} allocated {peak} bytes at once"
    );
}

fn start(kind: &str, path: &Path, task: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--nocapture"])
        .env(TASK, task)
        .env(KIND, kind)
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a child to its end; answers how long that took.
fn run(kind: &str, path: &Path, task: &str) -> Duration {
    let began = Instant::now();
    let output = start(kind, path, task).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{kind} {task}: {said}");
    for line in said.lines().filter(|line| line.contains(" bytes")) {
        println!("{kind}: {line}");
    }
    began.elapsed()
}

/// After a kill everything is whole, and what was half written goes.
async fn check(store: &dyn Store) -> u64 {
    let info = match store.session(&session()).await {
        Ok(info) => info,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            return 0;
        }
    };
    let report = store.verify(&session()).await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(
        (report.events, report.blobs),
        (info.head, u64::from(info.head == 3))
    );
    store.check().await.unwrap();
    info.head
}

fn survives(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let undisturbed = folder.path().join("undisturbed");
    let took = run(kind, &undisturbed, "write");
    run(kind, &undisturbed, "read");
    run(kind, &undisturbed, "verify");
    std::fs::remove_file(&undisturbed).unwrap();
    let path = folder.path().join("killed");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut random = Random::new(7);
    let kills = number("FOLIO_MEMBER_KILLS", 6);
    let mut heads = Vec::new();
    for kill in 0..kills {
        let mut child = start(kind, &path, "write");
        // Spread over the whole of the time, the end of it included.
        let share = took.mul_f64((kill as f64 + 1.0) / kills as f64);
        std::thread::sleep(share + Duration::from_millis(random.number() % 50));
        child.kill().unwrap();
        child.wait().unwrap();
        let store = open(kind, &path);
        heads.push(runtime.block_on(check(&*store)));
        if kill % 2 == 1 {
            // What nobody goes on with is collected, and nothing else.
            runtime.block_on(store.scrub()).unwrap();
            runtime.block_on(check(&*store));
        }
        runtime.block_on(store.close()).unwrap();
    }
    println!("{kind}: heads after the kills: {heads:?}");
    assert!(heads.is_sorted(), "what was there stays: {heads:?}");
    run(kind, &path, "write");
    run(kind, &path, "read");
    let store = open(kind, &path);
    assert_eq!(runtime.block_on(check(&*store)), 3);
    runtime.block_on(store.scrub()).unwrap();
    assert_eq!(runtime.block_on(check(&*store)), 3);
    // What is there, and room for what came again and was there already: the
    // rest was collected.
    runtime.block_on(store.close()).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < bytes() * 5 / 2 + (16 << 20), "{kind}: {size} bytes");
}

#[test]
fn a_large_result_survives_kills_in_sqlite() {
    survives("sqlite");
}

#[test]
fn a_large_result_survives_kills_in_redb() {
    survives("redb");
}
