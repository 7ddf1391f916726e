//! What the other processes do. Each tells what it does in lines on its
//! standard output and stops when its standard input ends.

use folio_core::{CanonicalEvent, Direction, Item, SessionId};
use folio_store::engine::Engine;
use folio_store::{
    Admin, AppendBatch, ItemIndex, ItemQuery, Ledger, NewSession, RangeQuery, Start, StoreError,
};
use folio_store_sqlite::{SqliteConfig, SqliteStore, open};
use folio_testkit::event::Events;
use folio_testkit::workload::Random;
use std::collections::HashMap;
use std::future::Future;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first argument of a child.
pub const MARK: &str = "child";

/// Set once the parent has closed the pipe.
static STOP: AtomicBool = AtomicBool::new(false);

pub fn run(arguments: &[String]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match &arguments[..] {
        ["writer", path, name, sessions, writers, bytes] => Writer {
            path,
            name,
            sessions: sessions.parse().unwrap(),
            bytes: bytes.parse().unwrap(),
        }
        .run(writers.parse().unwrap()),
        ["reader", path, sessions] => read(path, sessions.parse().unwrap()),
        ["opener", path, name] => open_and_append(path, name),
        ["owner", path] => own(path),
        ["waiter", path] => wait_for_others(path),
        other => unreachable!("{other:?} is no child"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("E {}", error.code()));
            eprintln!("{arguments:?}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what waits on the calling thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

/// The sessions are named by number.
pub fn session(n: usize) -> SessionId {
    SessionId::new(format!("s{n}")).unwrap()
}

/// One write for a line: short ones never mix and are never cut in two.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever listened may be gone.
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

fn wait_for_end_of_input() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    STOP.store(true, Ordering::Relaxed);
}

fn stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

#[derive(Clone, Copy)]
struct Writer<'a> {
    path: &'a str,
    name: &'a str,
    sessions: usize,
    bytes: usize,
}

impl Writer<'_> {
    /// Writes with several threads at once. Says `I <session> <batch> <events>`
    /// before a batch, `A <session> <batch> <ordinals>` when it is
    /// acknowledged, and `T <longest wait in microseconds>` at the end. After
    /// an error, `E <code>`, it opens the store anew and goes on.
    fn run(self, writers: usize) -> Result<(), StoreError> {
        std::thread::spawn(wait_for_end_of_input);
        let mut longest = Duration::ZERO;
        let mut life = 0;
        while !stopped() {
            let store = open(&SqliteConfig::new(self.path))?;
            let ended = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..writers)
                    .map(|n| {
                        let (store, name) = (&store, format!("{}_{life}-w{n}", self.name));
                        scope.spawn(move || self.write(store, n, &name))
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect::<Vec<_>>()
            });
            for (waited, error) in ended {
                longest = longest.max(waited);
                if let Some(error) = error {
                    say(&format!("E {}", error.code()));
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            wait(store.close())?;
            life += 1;
        }
        say(&format!("T {}", longest.as_micros()));
        Ok(())
    }

    /// Appends until the end or the first error; answers the longest wait.
    fn write(self, store: &SqliteStore, n: usize, name: &str) -> (Duration, Option<StoreError>) {
        let mut random = Random::new(n as u64);
        let session = session(n % self.sessions);
        let mut events = Events::new(session.as_str());
        let mut longest = Duration::ZERO;
        for k in 0.. {
            if stopped() {
                break;
            }
            let batch = format!("{name}-{k}");
            let run = k / 20;
            events.enter(&format!("r-{name}-{run}"), &format!("t-{name}-{run}"));
            let made = self.batch(&mut events, &batch, 1 + random.below(5), k % 20 == 19);
            say(&format!("I {session} {batch} {}", made.len()));
            let start = Instant::now();
            match wait(store.append(&session, AppendBatch::native(made))) {
                Ok(done) => {
                    assert!(done.events.iter().all(|event| !event.present));
                    let ordinals: Vec<String> = done
                        .events
                        .iter()
                        .map(|event| event.ordinal.to_string())
                        .collect();
                    say(&format!("A {session} {batch} {}", ordinals.join(" ")));
                }
                Err(error) => return (longest, Some(error)),
            }
            longest = longest.max(start.elapsed());
        }
        (longest, None)
    }

    /// Messages, and now and then the end of the run behind them.
    fn batch(
        self,
        events: &mut Events,
        name: &str,
        count: usize,
        ends: bool,
    ) -> Vec<CanonicalEvent> {
        let text = "x".repeat(self.bytes);
        (0..count)
            .map(|i| {
                let id = format!("{name}_{i}");
                match i {
                    _ if ends && i == count - 1 => events.end(&id, "completed"),
                    0 => events.user(&id, &text),
                    _ => events.text(&id, &format!("m-{id}"), false, &text),
                }
            })
            .collect()
    }
}

/// Pages all the while and compares with what it saw before. Says `R <rounds>`
/// at the end.
fn read(path: &str, sessions: usize) -> Result<(), StoreError> {
    std::thread::spawn(wait_for_end_of_input);
    let mut seen: HashMap<SessionId, Seen> = HashMap::new();
    let mut rounds = 0_u64;
    while !stopped() {
        let store = open(&SqliteConfig::new(path).read_only())?;
        for _ in 0..20 {
            for n in 0..sessions {
                let id = session(n);
                wait(seen.entry(id.clone()).or_default().read_again(&store, &id))?;
            }
            rounds += 1;
        }
    }
    say(&format!("R {rounds}"));
    Ok(())
}

/// What a reader knows of a session.
#[derive(Default)]
struct Seen {
    head: u64,
    /// The first page, and the last one at some watermark.
    first: Vec<Item>,
    last: Option<(u64, Vec<Item>)>,
}

impl Seen {
    const PAGE: usize = 20;

    async fn read_again(&mut self, store: &SqliteStore, id: &SessionId) -> Result<(), StoreError> {
        let page = |through, direction| ItemQuery {
            through,
            direction,
            start: Start::Edge,
            max_items: Self::PAGE,
            max_bytes: 1 << 20,
            member_bytes: usize::MAX,
        };
        let items = |page: folio_store::ItemPage| -> Vec<Item> {
            page.items.into_iter().map(|loaded| loaded.item).collect()
        };
        if let Some((through, last)) = &self.last {
            let again = store
                .read_items(id, page(Some(*through), Direction::Older))
                .await?;
            assert_eq!(items(again), *last, "{id} at {through}");
        }
        let first = items(store.read_items(id, page(None, Direction::Newer)).await?);
        assert!(first.starts_with(&self.first), "{id}: the first page");
        self.first = first;
        let last = store.read_items(id, page(None, Direction::Older)).await?;
        assert!(last.through >= self.head, "{id}: the head fell");
        self.last = Some((last.through, items(last)));
        let query = RangeQuery {
            from: self.head + 1,
            to: u64::MAX,
            max_count: 1_000,
            max_bytes: 8 << 20,
        };
        for event in store.range(id, query).await? {
            self.head += 1;
            assert_eq!(event.ordinal, self.head, "{id}");
        }
        Ok(())
    }
}

/// Opens when it is told to and adds a session with one event.
fn open_and_append(path: &str, name: &str) -> Result<(), StoreError> {
    wait_for_end_of_input();
    let store = open(&SqliteConfig::new(path))?;
    let id = SessionId::new(name).unwrap();
    wait(async {
        store.create_session(NewSession::native(id.clone())).await?;
        let event = Events::new(name).user("u1", "hello");
        store.append(&id, AppendBatch::native(vec![event])).await?;
        store.close().await
    })
}

/// Becomes an owner: says `O <number>`, and is one until the end.
fn own(path: &str) -> Result<(), StoreError> {
    let store = open(&SqliteConfig::new(path))?;
    say(&format!("O {}", store.engine().owner()?));
    wait_for_end_of_input();
    Ok(())
}

/// Waits for the commits of others. Says `W <head> <microseconds since 1970>`
/// whenever one woke it, and `S <times>` at the end: how often its watcher
/// slept in the last seconds, in which nothing happened.
fn wait_for_others(path: &str) -> Result<(), StoreError> {
    let store = open(&SqliteConfig::new(path))?;
    let mut head = 0;
    say("ready");
    while head < crate::owners::WOKEN {
        head = wait(store.wait(&session(0), head))?;
        say(&format!("W {head} {}", crate::owners::micros()));
    }
    let idle = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(store.wait(&session(0), head)));
        // Just after a commit it looks more often.
        std::thread::sleep(Duration::from_millis(1_500));
        let before = watcher_slept();
        std::thread::sleep(crate::owners::IDLE);
        let slept = watcher_slept()
            .zip(before)
            .map(|(after, before)| after - before);
        wait_for_end_of_input();
        drop(wait(store.close()));
        drop(waiter.join());
        slept
    });
    if let Some(idle) = idle {
        say(&format!("S {idle}"));
    }
    Ok(())
}

/// How often the watcher's thread gave up the processor, where the system
/// tells.
fn watcher_slept() -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    for task in tasks.flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if read("comm").trim_end() == "folio-watcher" {
            let status = read("status");
            let line = status
                .lines()
                .find(|line| line.starts_with("voluntary_ctxt"))?;
            return line.split_whitespace().last()?.parse().ok();
        }
    }
    None
}
