//! Streamed chunks of real text: how many a second, how soon durable, and in
//! how many bytes.
//!
//! Chunks are events of 4 to 40 characters with the ids `<stream>#<n>`, in 64
//! sessions at once, and may wait ten milliseconds for company. They are made
//! before the clock starts.

use crate::Failure;
use crate::line::{Line, Unit};
use crate::measure::append::RawLog;
use crate::run::{CROWD, Run};
use crate::sample::{Samples, count, per_second, timed};
use crate::stores::{Adapter, bytes_on_disk, create_numbered, numbered};
use crate::system::disk_bytes;
use crate::texts::{assistant_text, chunks};
use folio_core::{CanonicalEvent, SessionId};
use folio_store::{AppendBatch, Committed, Flush, Room, Store, StoreError};
use folio_testkit::event::Events;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Sessions that stream at once.
const SESSIONS: usize = 64;
/// How long a chunk may wait for company.
const WINDOW: Duration = Duration::from_millis(10);
/// How often a writer hands over what has come.
const TICK: Duration = Duration::from_millis(2);
/// The chunks of a batch where they come as fast as they are taken.
const BATCH: usize = 32;
/// Chunks a second of all sessions that are offered to be taken in time.
const OFFERED: f64 = 200_000.0;
/// Chunks a second of one session that a model streams.
const MODEL: f64 = 60.0;

/// One message that is streamed.
struct Stream {
    session: SessionId,
    chunks: Vec<CanonicalEvent>,
    /// The message as a whole.
    last: CanonicalEvent,
    text: String,
}

/// Streams of so many chunks each, cut one behind the other from the text,
/// which begins anew at its end.
fn streams(texts: &[&str], message: &str, sessions: &[SessionId], each: usize) -> Vec<Stream> {
    let mut texts = texts.iter().cycle();
    let stream = |session: &SessionId| {
        let mut events = Events::new(session.as_str()).run(message, message);
        let mut text = String::new();
        let chunks = (0..each)
            .zip(&mut texts)
            .map(|(n, chunk)| {
                text.push_str(chunk);
                events.text(&format!("{message}#{n}"), message, true, chunk)
            })
            .collect();
        Stream {
            session: session.clone(),
            chunks,
            last: events.text(message, message, false, &text),
            text,
        }
    };
    sessions.iter().map(stream).collect()
}

/// The ids of [`SESSIONS`] sessions, spread over those that there are.
fn spread(of: usize) -> Result<Vec<SessionId>, Failure> {
    (0..SESSIONS)
        .map(|number| numbered(number * (of / SESSIONS)))
        .collect()
}

fn batch(chunks: Vec<CanonicalEvent>) -> AppendBatch {
    AppendBatch {
        flush: Flush::Within(WINDOW),
        ..AppendBatch::native(chunks)
    }
}

async fn append(
    store: Arc<dyn Store>,
    room: Room,
    session: SessionId,
    batch: AppendBatch,
) -> Result<Committed, StoreError> {
    store.append_reserved(room, &session, batch).await
}

/// Hands everything over as fast as there is room for it, and waits until all
/// of it is durable.
async fn hand_over(store: &Arc<dyn Store>, streams: Vec<Stream>) -> Result<(), Failure> {
    let mut appends = JoinSet::new();
    let mut rest: Vec<_> = streams
        .into_iter()
        .map(|stream| (stream.session, stream.chunks.into_iter()))
        .collect();
    while !rest.is_empty() {
        for (session, chunks) in &mut rest {
            let batch = batch(chunks.by_ref().take(BATCH).collect());
            let room = store.reserve(batch.bytes()).await?;
            appends.spawn(append(Arc::clone(store), room, session.clone(), batch));
        }
        rest.retain(|(_, chunks)| chunks.len() > 0);
    }
    while let Some(done) = appends.join_next().await {
        done??;
    }
    Ok(())
}

/// When the chunk of a number is there, in seconds from the start.
fn due(number: usize, rate: f64) -> f64 {
    count(number) / rate
}

/// Lets chunks come at a rate for each session and hands over what has come
/// once in a [`TICK`]; answers how long after it came each was durable.
async fn offer(
    store: &Arc<dyn Store>,
    streams: Vec<Stream>,
    rate: f64,
) -> Result<Samples, Failure> {
    let mut appends: JoinSet<Result<Vec<Duration>, StoreError>> = JoinSet::new();
    let mut rest: Vec<_> = streams
        .into_iter()
        .enumerate()
        // Sessions do not beat in time: their first chunks are spread.
        .map(|(at, stream)| {
            let first = count(at) / count(SESSIONS) / rate;
            (stream.session, stream.chunks.into_iter(), 0_usize, first)
        })
        .collect();
    let started = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    while !rest.is_empty() {
        ticks.tick().await;
        let now = started.elapsed().as_secs_f64();
        for (session, chunks, taken, first) in &mut rest {
            let mut came = Vec::new();
            let mut batch = batch(Vec::new());
            while *first + due(*taken, rate) <= now
                && batch.events.len() < folio_store::MAX_BATCH_EVENTS
                && let Some(chunk) = chunks.next()
            {
                came.push(started + Duration::from_secs_f64(*first + due(*taken, rate)));
                batch.events.push(chunk);
                *taken += 1;
            }
            if came.is_empty() {
                continue;
            }
            let room = store.reserve(batch.bytes()).await?;
            let appended = append(Arc::clone(store), room, session.clone(), batch);
            appends.spawn(async move {
                appended.await?;
                let now = Instant::now();
                Ok(came.into_iter().map(|came| now - came).collect())
            });
        }
        rest.retain(|(_, chunks, _, _)| chunks.len() > 0);
    }
    let mut waited = Samples::default();
    while let Some(done) = appends.join_next().await {
        waited.extend(done??);
    }
    Ok(waited)
}

/// Chunks a second, as fast as they are taken.
fn flat_out(run: &Run, adapter: Adapter, texts: &[&str]) -> Result<Line, Failure> {
    let path = adapter.path(run.folder(), "stream-flat");
    let (store, commits) = adapter.open_counted(&path)?;
    run.runtime.block_on(create_numbered(&store, SESSIONS))?;
    let mut log = RawLog::new(&run.folder().join("stream.log"))?;
    let sessions = spread(SESSIONS)?;
    let each = run.size.pick(256, 1_024);
    let (mut taken, mut raw) = (Samples::default(), Samples::default());
    for round in 0..run.size.pick(3, 5) {
        let streams = streams(texts, &format!("m{round}"), &sessions, each);
        let bytes: Vec<u8> = streams
            .iter()
            .flat_map(|stream| &stream.chunks)
            .flat_map(|chunk| chunk.text.bytes())
            .collect();
        let before = commits.so_far();
        let (_, took) = timed(|| run.runtime.block_on(hand_over(&store, streams)))?;
        taken.push(took);
        let groups = usize::try_from(commits.so_far() - before)?.max(1);
        let (_, took) = timed(|| {
            let parts = bytes.chunks(bytes.len().div_ceil(groups));
            parts
                .map(|part| log.append(part))
                .collect::<Result<Vec<_>, _>>()
        })?;
        raw.push(took);
    }
    run.runtime.block_on(store.close())?;
    let rate = |samples: &Samples| per_second(each * SESSIONS, samples.median());
    let floor = ("their JSON appended to a file, as many syncs", rate(&raw));
    let line = Line::new(
        "stream.flat_out",
        adapter.name(),
        Unit::PerSecond,
        rate(&taken),
        floor,
    );
    Ok(line.value_goal(500e3).unsteady())
}

/// How soon chunks are durable when many are offered.
fn offered(run: &Run, adapter: Adapter, texts: &[&str]) -> Result<Vec<Line>, Failure> {
    let path = adapter.path(run.folder(), "stream-offered");
    let store = adapter.open(&path)?;
    run.runtime.block_on(create_numbered(&store, SESSIONS))?;
    let each = run.size.pick(1_000, 4_000);
    let streams = streams(texts, "m", &spread(SESSIONS)?, each);
    let rate = OFFERED / count(SESSIONS);
    let (waited, took) = timed(|| run.runtime.block_on(offer(&store, streams, rate)))?;
    run.runtime.block_on(store.close())?;
    let window = ("the window", WINDOW.as_secs_f64() * 1e9);
    let latency = |what: &str, percent| {
        let waited = waited.percentile(percent);
        Line::new(what, adapter.name(), Unit::Time, waited, window)
    };
    let taken = count(each * SESSIONS) / took.as_secs_f64();
    let offered = ("what was offered", OFFERED);
    Ok(vec![
        Line::new(
            "stream.offered.rate",
            adapter.name(),
            Unit::PerSecond,
            taken,
            offered,
        )
        .unsteady(),
        latency("stream.offered.p50", 50)
            .value_goal(15e6)
            .unsteady(),
        latency("stream.offered.p99", 99)
            .value_goal(40e6)
            .unsteady(),
    ])
}

/// What streaming at the rate of a model writes, in a closed store.
fn written(
    run: &Run,
    adapter: Adapter,
    (path, of): (&Path, usize),
    texts: &[&str],
) -> Result<Vec<Line>, Failure> {
    let size = if of == SESSIONS { "64" } else { "10k" };
    let what = [
        format!("stream.written.{size}"),
        format!("stream.growth.{size}"),
        format!("stream.p50.{size}"),
    ];
    if let Err(why) = disk_bytes() {
        let lines = what.map(|what| Line::not_measured(what, adapter.name(), why.clone()));
        return Ok(lines.into());
    }
    let held = bytes_on_disk(path)?;
    let store = adapter.open(path)?;
    let each = run.size.pick(180, 600);
    let streams = streams(texts, "m", &spread(of)?, each);
    let text: usize = streams.iter().map(|stream| stream.text.len()).sum();
    let before = disk_bytes()?;
    let waited = run.runtime.block_on(offer(&store, streams, MODEL))?;
    run.runtime.block_on(store.close())?;
    let written = disk_bytes()?.written - before.written;
    let grown = bytes_on_disk(path)?.saturating_sub(held);
    let [what_written, what_grown, what_waited] = what;
    let floor = ("the bytes of the text", count(text));
    let bytes = |what, bytes: u64| -> Result<Line, Failure> {
        let bytes = count(usize::try_from(bytes)?);
        Ok(Line::new(what, adapter.name(), Unit::Bytes, bytes, floor))
    };
    let window = ("the window", WINDOW.as_secs_f64() * 1e9);
    let waited = waited.median();
    Ok(vec![
        bytes(what_written, written)?.ratio_goal(15.0).unsteady(),
        bytes(what_grown, grown)?.ratio_goal(1.3),
        Line::new(what_waited, adapter.name(), Unit::Time, waited, window).unsteady(),
    ])
}

/// The bytes of a closed store with streams and their messages, or with the
/// messages alone.
fn settle(run: &Run, name: &str, streams: Vec<Stream>, chunks: bool) -> Result<u64, Failure> {
    let path = Adapter::Sqlite.path(run.folder(), name);
    let store = Adapter::Sqlite.open(&path)?;
    run.runtime.block_on(async {
        create_numbered(&store, SESSIONS).await?;
        for mut stream in streams {
            if chunks {
                let chunks = std::mem::take(&mut stream.chunks);
                for part in chunks.chunks(BATCH) {
                    store.append(&stream.session, batch(part.to_vec())).await?;
                }
            }
            let last = AppendBatch::native(vec![stream.last]);
            store.append(&stream.session, last).await?;
        }
        store.close().await?;
        Ok::<(), Failure>(())
    })?;
    bytes_on_disk(&path)
}

/// What a chunk still takes once its message is whole.
fn settled(run: &Run, texts: &[&str]) -> Result<Line, Failure> {
    // No text twice: it would compress to nothing.
    let each = (texts.len() / SESSIONS).min(run.size.pick(150, usize::MAX));
    let sessions = spread(SESSIONS)?;
    let streams = || streams(texts, "m", &sessions, each);
    let text: String = streams().into_iter().map(|stream| stream.text).collect();
    let blob = zstd::encode_all(text.as_bytes(), 3)?.len();
    let with = settle(run, "stream-settled", streams(), true)?;
    let without = settle(run, "stream-whole", streams(), false)?;
    let chunks = count(each * SESSIONS);
    let a_chunk = |bytes: usize| count(bytes) / chunks;
    let taken = a_chunk(usize::try_from(with.saturating_sub(without))?);
    let least = a_chunk(blob);
    let floor = ("its share of the text as one zstd-3 blob", least);
    let line = Line::new("stream.settled", "sqlite", Unit::Bytes, taken, floor);
    let note = format!(
        "{:.1} B a chunk beyond the blob; {:.1} B of text a chunk",
        taken - least,
        a_chunk(text.len())
    );
    Ok(line.value_goal(least + 3.0).note(note))
}

/// Measures.
///
/// # Errors
/// Those of the stores.
pub fn measure(run: &mut Run) -> Result<Vec<Line>, Failure> {
    let text = match assistant_text() {
        Ok(text) => text,
        Err(why) => return Ok(vec![Line::not_measured("stream", "all", why)]),
    };
    let texts = chunks(&text);
    let mut lines = Vec::new();
    for adapter in Adapter::ALL {
        lines.push(flat_out(run, adapter, &texts)?);
        lines.extend(offered(run, adapter, &texts)?);
        let few = adapter.path(run.folder(), "stream-few");
        let store = adapter.open(&few)?;
        run.runtime.block_on(create_numbered(&store, SESSIONS))?;
        run.runtime.block_on(store.close())?;
        lines.extend(written(run, adapter, (&few, SESSIONS), &texts)?);
        let many = run.crowd(adapter)?;
        lines.extend(written(run, adapter, (&many, CROWD), &texts)?);
    }
    lines.push(settled(run, &texts)?);
    Ok(lines)
}
