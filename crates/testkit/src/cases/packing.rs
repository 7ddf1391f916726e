//! Streamed chunks. A store may pack them as it likes: nobody can tell a
//! stream that came in pieces from the same events in one batch.

use crate::check::{Bench, Told, append, create, fork, is_sound, told, told_at};
use crate::conformance::{Case, StorePlace};
use crate::event::Events;
use crate::workload::Random;
use folio_core::{CanonicalEvent, EventId, Json, SessionId};
use folio_store::{RangeQuery, Store, StoredEvent};

/// The cases of this group.
pub(crate) const CASES: &[Case] = cases!("packing":
    streams_in_pieces_are_those_in_one_batch,
    a_watermark_stands_inside_a_segment,
    a_range_begins_and_ends_inside_a_segment,
    a_long_stream_is_cut_into_segments,
    streams_that_are_interleaved,
    a_chunk_that_comes_again_is_present,
    foreign_ids_are_found_in_segments,
    a_chunk_with_another_text_is_refused,
    a_fork_inside_a_segment,
    a_fork_goes_on_with_the_stream,
    a_fork_keeps_what_its_parent_packed,
    a_redaction_inside_a_segment,
    a_redacted_opener_is_no_mould,
    a_rebuilt_index_knows_packed_chunks,
    streams_of_many_sessions_share_commits,
    packed_chunks_survive_reopening: Durable,
    another_handle_sees_packed_chunks: MultiProcess,
);

type Place = Box<dyn StorePlace>;

/// Texts that are long enough to be lent, with what JSON escapes.
const WORDS: [&str; 8] = [
    "the ",
    "answer\n",
    "\"is\" ",
    "é",
    "\u{1f600} ",
    "forty-two, ",
    "\\ ",
    "or so. ",
];

/// The same session twice: one gets its events in pieces, the other in one
/// batch.
struct Pair {
    pieces: SessionId,
    whole: SessionId,
}

impl Pair {
    async fn create(store: &dyn Store, name: &str) -> Self {
        Self {
            pieces: create(store, &format!("{name}-pieces")).await,
            whole: create(store, &format!("{name}-whole")).await,
        }
    }

    /// Appends events to both, to one of them so many at once.
    async fn append(
        &self,
        store: &dyn Store,
        made: impl Fn(&SessionId) -> Vec<CanonicalEvent> + Send + Sync,
        size: usize,
    ) {
        let pieces = made(&self.pieces);
        let pieces = pieces
            .chunks(size)
            .map(<[CanonicalEvent]>::to_vec)
            .collect();
        self.append_batches(store, pieces, made(&self.whole)).await;
    }

    async fn append_batches(
        &self,
        store: &dyn Store,
        pieces: Vec<Vec<CanonicalEvent>>,
        whole: Vec<CanonicalEvent>,
    ) {
        for batch in pieces {
            append(store, &self.pieces, batch).await;
        }
        for batch in whole.chunks(4_000) {
            append(store, &self.whole, batch.to_vec()).await;
        }
    }

    async fn fork(&self, store: &dyn Store, at: u64, name: &str) -> Self {
        Self {
            pieces: fork(store, &self.pieces, at, &format!("{name}-pieces")).await,
            whole: fork(store, &self.whole, at, &format!("{name}-whole")).await,
        }
    }

    async fn head(&self, store: &dyn Store) -> u64 {
        store.session(&self.pieces).await.unwrap().head
    }

    /// Both say the same, and are sound.
    async fn agree(&self, store: &dyn Store) -> Told {
        let (pieces, whole) = (
            told(store, &self.pieces).await,
            told(store, &self.whole).await,
        );
        assert_eq!(pieces, whole, "{} and {}", self.pieces, self.whole);
        for session in [&self.pieces, &self.whole] {
            is_sound(store, session).await;
        }
        pieces
    }

    async fn agree_at(&self, store: &dyn Store, through: u64) {
        let pieces = told_at(store, &self.pieces, through).await;
        let whole = told_at(store, &self.whole, through).await;
        assert_eq!(pieces, whole, "{} through {through}", self.pieces);
    }
}

/// An ordinal up to a head.
fn below(random: &mut Random, head: u64) -> u64 {
    1 + random.number() % head
}

/// A message that streams so many chunks, and its final.
fn message(events: &mut Events, id: &str, chunks: usize, settles: bool) -> Vec<CanonicalEvent> {
    let mut text = String::new();
    let mut out: Vec<_> = (0..chunks)
        .map(|n| {
            let word = WORDS[n % WORDS.len()];
            text.push_str(word);
            events.text(&format!("{id}#{n}"), id, true, word)
        })
        .collect();
    if settles {
        out.push(events.text(&format!("{id}-final"), id, false, &text));
    }
    out
}

/// Runs of messages whose streams are interleaved, some of which settle, with
/// other events in between.
fn script(random: &mut Random, session: &SessionId, run: &str) -> Vec<CanonicalEvent> {
    let mut events = Events::new(session.as_str()).run(run, &format!("turn-{run}"));
    let mut out = vec![events.user(&format!("{run}-user"), "hello")];
    for number in 0..1 + random.below(3) {
        let id = format!("{run}-m{number}");
        let counts = !random.one_in(4);
        let mut texts = [String::new(), String::new()];
        let mut printed = String::new();
        for n in 0..random.below(50) {
            let lane = usize::from(random.one_in(3));
            let word = WORDS[random.below(WORDS.len())];
            let chunk = match counts {
                true => format!("{id}-{lane}#{n}"),
                false => format!("{id}-{n}-{:x}", random.below(1 << 30)),
            };
            texts[lane].push_str(word);
            out.push(match lane {
                0 => events.text(&chunk, &id, true, word),
                _ => events.thinking(&chunk, &id, true, word),
            });
            if random.one_in(3) {
                printed.push_str(word);
                out.push(output(&mut events, &format!("{id}-out#{n}"), &id, word));
            }
            if random.one_in(25) {
                out.push(events.usage(&format!("{chunk}-usage"), &id, 1, 2));
            }
        }
        if !random.one_in(3) {
            out.push(events.call(&format!("{id}-call"), &id, &id, "Bash"));
            out.push(events.result(&format!("{id}-result"), &id, "Bash", &printed));
        }
        let [text, thinking] = &texts;
        if !thinking.is_empty() && !random.one_in(3) {
            out.push(events.thinking(&format!("{id}-thought"), &id, false, thinking));
        }
        if !random.one_in(3) {
            // Some providers trim what they streamed.
            let text = if random.one_in(5) { text.trim() } else { text };
            out.push(events.text(&format!("{id}-final"), &id, false, text));
        }
    }
    if !random.one_in(3) {
        out.push(events.end(&format!("{run}-end"), "completed"));
    }
    out
}

/// A chunk of a tool's output, which is content of no row.
fn output(events: &mut Events, id: &str, tool: &str, text: &str) -> CanonicalEvent {
    let text = Json::string(text);
    events.raw(id, &format!("\"role\":\"tool\",\"author\":\"tool\",\"partial\":true,\"content\":{{\"kind\":\"function_response\",\"id\":\"{tool}\",\"name\":\"Bash\",\"result\":{{\"kind\":\"text\",\"text\":{text}}}}}"))
}

async fn streams_in_pieces_are_those_in_one_batch(place: Place) {
    let store = &*place.open().await.unwrap();
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut pairs = vec![Pair::create(store, &format!("s{seed}")).await];
        for phase in 0..4 {
            let at = random.below(pairs.len());
            let run = format!("r{phase}");
            // Both from the same numbers.
            let whole = script(&mut random.clone(), &pairs[at].whole, &run);
            let pieces = script(&mut random, &pairs[at].pieces, &run);
            let pieces = random.batches(&pieces, 8);
            pairs[at].append_batches(store, pieces, whole).await;
            let told = pairs[at].agree(store).await;
            let (head, ..) = told.head;
            match random.below(4) {
                0 => {
                    let at_event = below(&mut random, head);
                    let name = format!("s{seed}-{phase}");
                    let child = pairs[at].fork(store, at_event, &name).await;
                    child.agree(store).await;
                    pairs.push(child);
                }
                1 => {
                    let item = random.pick(&told.items).unwrap();
                    let key = [item.item.key.to_string()];
                    for session in [&pairs[at].pieces, &pairs[at].whole] {
                        store.redact(session, &key).await.unwrap();
                    }
                }
                2 => {
                    for session in [&pairs[at].pieces, &pairs[at].whole] {
                        store.rebuild_index(session).await.unwrap();
                    }
                }
                _ if pairs.len() > 1 => {
                    let gone = pairs.remove(at);
                    for session in [&gone.pieces, &gone.whole] {
                        store.delete_session(session, None).await.unwrap();
                    }
                    store.scrub().await.unwrap();
                }
                _ => {}
            }
            for pair in &pairs {
                pair.agree(store).await;
                let through = below(&mut random, pair.head(store).await);
                pair.agree_at(store, through).await;
            }
        }
    }
}

async fn a_watermark_stands_inside_a_segment(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| message(&mut Events::new(session.as_str()), "m", 40, true);
    pair.append(store, made, 1).await;
    for through in 1..=41 {
        pair.agree_at(store, through).await;
    }
}

async fn ranges(store: &dyn Store, session: &SessionId, query: RangeQuery) -> Vec<StoredEvent> {
    let mut events = store.range(session, query).await.unwrap();
    for event in &mut events {
        event.committed_at = 0;
    }
    events
}

async fn a_range_begins_and_ends_inside_a_segment(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        let mut all = message(&mut events, "m", 20, true);
        all.extend(message(&mut events, "n", 20, false));
        all
    };
    pair.append(store, made, 1).await;
    for from in 1..=41 {
        for (to, max_count, max_bytes) in [
            (from, 1, usize::MAX),
            (41, 3, usize::MAX),
            (41, 100, 1_500),
            (from.max(30), 100, usize::MAX),
            (41, 100, 1),
        ] {
            let query = RangeQuery {
                from,
                to,
                max_count,
                max_bytes,
            };
            let pieces = ranges(store, &pair.pieces, query).await;
            assert_eq!(pieces, ranges(store, &pair.whole, query).await, "{query:?}");
        }
    }
}

async fn a_long_stream_is_cut_into_segments(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        let mut all = message(&mut events, "m", 9_000, false);
        // One that lies between its chunks by the thousand.
        let mut other = message(&mut events.clone(), "n", 900, false).into_iter();
        let mut mixed = Vec::new();
        for (at, event) in all.drain(..).enumerate() {
            mixed.push(event);
            if at % 10 == 0 {
                mixed.extend(other.next());
            }
        }
        mixed.push(events.usage("usage", "m", 1, 2));
        mixed
    };
    pair.append(store, made, 90).await;
    let told = pair.agree(store).await;
    for through in [1, 4_096, 4_097, told.head.0 - 1] {
        pair.agree_at(store, through).await;
    }
    for from in (1..told.head.0).step_by(997) {
        let query = RangeQuery {
            from,
            to: told.head.0,
            max_count: 3,
            max_bytes: usize::MAX,
        };
        let pieces = ranges(store, &pair.pieces, query).await;
        assert_eq!(pieces, ranges(store, &pair.whole, query).await, "{query:?}");
    }
}

async fn streams_that_are_interleaved(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        let mut all = Vec::new();
        for n in 0..60 {
            let word = WORDS[n % WORDS.len()];
            all.push(events.text(&format!("t#{n}"), "m", true, word));
            all.push(events.thinking(&format!("h#{n}"), "m", true, word));
            all.push(output(&mut events, &format!("a#{n}"), "one", word));
            all.push(output(&mut events, &format!("b#{n}"), "two", word));
        }
        let text: String = (0..60).map(|n| WORDS[n % WORDS.len()]).collect();
        // Reasoning settles while its text still streams.
        all.insert(200, events.thinking("h", "m", false, &text));
        all.push(events.text("t", "m", false, &text));
        for tool in ["one", "two"] {
            all.push(events.call(&format!("call-{tool}"), "m", tool, "Bash"));
            all.push(events.result(&format!("result-{tool}"), tool, "Bash", &text));
        }
        all
    };
    pair.append(store, made, 3).await;
    pair.agree(store).await;
    for through in (1..=246).step_by(7) {
        pair.agree_at(store, through).await;
    }
}

/// Lets chunks be live, then in a segment, then settled.
async fn advance(s: &mut Bench, stage: usize) -> Vec<CanonicalEvent> {
    let usage = s.events.usage("usage", "m", 1, 2);
    let mut all = message(&mut Events::new("s1"), "m", 30, true);
    let last = all.split_off(30);
    match stage {
        0 => s.append_each(all.clone()).await,
        1 => drop(s.append(vec![usage]).await),
        _ => drop(s.append(last).await),
    }
    all
}

async fn a_chunk_that_comes_again_is_present(place: Place) {
    let mut s = Bench::open(&*place).await;
    for stage in 0..3 {
        let chunks = advance(&mut s, stage).await;
        let before = s.info().await;
        for (event, ordinal) in chunks.iter().zip(1..) {
            let committed = s.append(vec![event.clone()]).await;
            let place = committed.events[0];
            assert_eq!((place.ordinal, place.event_seq), (ordinal, ordinal));
            assert!(place.present, "at stage {stage}");
        }
        let ids: Vec<EventId> = chunks.iter().map(|event| event.id.clone()).collect();
        let known = s.store.lookup_ids(&s.session, &ids).await.unwrap();
        let known = known.iter().map(|known| known.map(|known| known.ordinal));
        assert!(known.eq((1..=30).map(Some)));
        assert_eq!(s.info().await, before);
    }
}

async fn foreign_ids_are_found_in_segments(place: Place) {
    let mut s = Bench::open(&*place).await;
    // Of no order, of one stem with holes, and what only looks like a number.
    let names = [
        "x9f", "m#7", "m#3", "m#4", "m#007", "other#8", "m#5", "#", "m#99", "x9e",
    ];
    let mut chunks = vec![s.events.text("opener", "m", true, "so ")];
    for name in names {
        chunks.push(s.events.text(name, "m", true, "and so "));
    }
    s.append_each(chunks.clone()).await;
    for stage in 0..2 {
        for (event, ordinal) in chunks.iter().zip(1..) {
            let committed = s.append(vec![event.clone()]).await;
            let place = committed.events[0];
            assert!(place.present, "{} at stage {stage}", event.id);
            assert_eq!(place.ordinal, ordinal);
        }
        for id in ["m#6", "m#8", "m#08", "x9", "m"] {
            let ids = [EventId::new(id).unwrap()];
            let known = s.store.lookup_ids(&s.session, &ids).await;
            assert_eq!(known.unwrap(), [None], "{id}");
        }
        let usage = s.events.usage(&format!("usage-{stage}"), "m", 1, 2);
        s.append(vec![usage]).await;
    }
    s.is_sound().await;
}

async fn a_chunk_with_another_text_is_refused(place: Place) {
    let mut s = Bench::open(&*place).await;
    for stage in 0..3 {
        advance(&mut s, stage).await;
        for n in [1, 14, 29] {
            let mut events = Events::new("s1");
            let other = events.text(&format!("m#{n}"), "m", true, "something else");
            assert_eq!(s.refused_code(vec![other]).await, "event_id_conflict");
        }
        s.is_sound().await;
    }
}

async fn a_fork_inside_a_segment(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| message(&mut Events::new(session.as_str()), "m", 30, false);
    pair.append(store, made, 1).await;
    // Of live chunks, and of a segment.
    for (at, name) in [(12, "live"), (30, "head"), (1, "opener")] {
        pair.fork(store, at, name).await.agree(store).await;
    }
    let more = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        events.at(1_800_000_000_000);
        vec![events.usage("usage", "m", 1, 2)]
    };
    pair.append(store, &more, 1).await;
    pair.fork(store, 17, "drained").await.agree(store).await;
    pair.agree(store).await;
}

async fn a_fork_goes_on_with_the_stream(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| message(&mut Events::new(session.as_str()), "m", 30, false);
    pair.append(store, made, 1).await;
    let child = pair.fork(store, 20, "child").await;
    let more = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        events.at(1_800_000_000_000);
        let chunk = |n| events.text(&format!("more#{n}"), "m", true, WORDS[n % WORDS.len()]);
        (0..25).map(chunk).collect()
    };
    // The same ids in both branches.
    for branch in [&pair, &child] {
        branch.append(store, &more, 1).await;
    }
    for branch in [&pair, &child] {
        branch.agree(store).await;
    }
}

async fn a_fork_keeps_what_its_parent_packed(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        let mut all = message(&mut events, "m", 30, true);
        // So that one segment ends below the fork and one goes through it.
        all.insert(15, events.usage("usage", "m", 1, 2));
        all
    };
    pair.append(store, made, 1).await;
    // The final that the text was lent by belongs to the parent alone.
    let child = pair.fork(store, 20, "child").await;
    for session in [&pair.pieces, &pair.whole] {
        store.delete_session(session, None).await.unwrap();
    }
    store.scrub().await.unwrap();
    let told = child.agree(store).await;
    assert_eq!(told.events.len(), 20);
    let rows = told.items.iter().map(|item| item.row.2.as_str());
    assert!(rows.collect::<String>().contains("forty-two"));
}

async fn a_redaction_inside_a_segment(place: Place) {
    for settles in [false, true] {
        let store = &*place.open().await.unwrap();
        let pair = Pair::create(store, &format!("s-{settles}")).await;
        let made = |session: &SessionId| {
            let mut events = Events::new(session.as_str());
            let mut one = message(&mut events, "m", 30, settles);
            let two = message(&mut events.clone(), "n", 30, settles);
            for (at, event) in two.into_iter().enumerate() {
                one.insert(2 * at + 1, event);
            }
            one
        };
        pair.append(store, made, 1).await;
        for session in [&pair.pieces, &pair.whole] {
            let gone = store.redact(session, &["assistant:r1:m".into()]).await;
            assert_eq!(gone.unwrap().ordinals.len(), 30 + usize::from(settles));
        }
        store.scrub().await.unwrap();
        let told = pair.agree(store).await;
        let row = |key: &str| {
            let item = told.items.iter().find(|item| &*item.item.key == key);
            item.map(|item| item.row.2.contains("forty-two"))
        };
        assert_eq!(row("assistant:r1:m"), Some(false));
        assert_eq!(row("assistant:r1:n"), Some(true));
    }
}

async fn a_redacted_opener_is_no_mould(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| message(&mut Events::new(session.as_str()), "m", 20, false);
    pair.append(store, made, 1).await;
    for session in [&pair.pieces, &pair.whole] {
        let keys = ["assistant:r1:m".to_owned()];
        store.redact(session, &keys).await.unwrap();
    }
    let more = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        events.at(1_800_000_000_000);
        let chunk = |n| events.text(&format!("m#{}", 20 + n), "m", true, WORDS[n % WORDS.len()]);
        (0..20).map(chunk).collect()
    };
    pair.append(store, &more, 1).await;
    pair.agree(store).await;
}

async fn a_rebuilt_index_knows_packed_chunks(place: Place) {
    let store = &*place.open().await.unwrap();
    let pair = Pair::create(store, "s").await;
    let made = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        let mut all = message(&mut events, "m", 1_500, false);
        all.extend(message(&mut events, "n", 30, true));
        all
    };
    pair.append(store, made, 50).await;
    for session in [&pair.pieces, &pair.whole] {
        store.rebuild_index(session).await.unwrap();
    }
    pair.agree(store).await;
    let more = |session: &SessionId| {
        let mut events = Events::new(session.as_str());
        events.at(1_800_000_000_000);
        let chunk = |n| events.text(&format!("more#{n}"), "m", true, WORDS[n % WORDS.len()]);
        (0..20).map(chunk).collect()
    };
    pair.append(store, &more, 1).await;
    for through in [1_000, 1_490, 1_540] {
        pair.agree_at(store, through).await;
    }
    pair.agree(store).await;
}

async fn streams_of_many_sessions_share_commits(place: Place) {
    let store = &*place.open().await.unwrap();
    let mut pairs = Vec::new();
    for n in 0..6 {
        pairs.push(Pair::create(store, &format!("s{n}")).await);
    }
    let made = |session: &SessionId| message(&mut Events::new(session.as_str()), "m", 700, true);
    // Each session's chunks one by one, and all sessions in turn.
    let streams: Vec<_> = pairs.iter().map(|pair| made(&pair.pieces)).collect();
    for at in 0..streams[0].len() {
        for (pair, events) in pairs.iter().zip(&streams) {
            append(store, &pair.pieces, vec![events[at].clone()]).await;
        }
    }
    for pair in &pairs {
        append(store, &pair.whole, made(&pair.whole)).await;
        pair.agree(store).await;
    }
}

async fn packed_chunks_survive_reopening(place: Place) {
    let mut store = place.open().await.unwrap();
    let pair = Pair::create(&*store, "s").await;
    let all = message(&mut Events::new(pair.pieces.as_str()), "m", 40, true);
    for (at, event) in all.into_iter().enumerate() {
        append(&*store, &pair.pieces, vec![event]).await;
        if at % 6 == 5 {
            store.close().await.unwrap();
            drop(store);
            store = place.reopen().await.unwrap();
        }
    }
    let whole = message(&mut Events::new(pair.whole.as_str()), "m", 40, true);
    append(&*store, &pair.whole, whole).await;
    pair.agree(&*store).await;
}

async fn another_handle_sees_packed_chunks(place: Place) {
    let one = place.open().await.unwrap();
    let two = place.second().await.unwrap();
    let pair = Pair::create(&*one, "s").await;
    let all = message(&mut Events::new(pair.pieces.as_str()), "m", 40, true);
    for (at, event) in all.into_iter().enumerate() {
        // They take turns, and both see what the other one wrote.
        let (writer, reader) = if at / 3 % 2 == 0 {
            (&one, &two)
        } else {
            (&two, &one)
        };
        append(&**writer, &pair.pieces, vec![event]).await;
        let session = reader.session(&pair.pieces).await.unwrap();
        assert_eq!(session.head, at as u64 + 1);
        let told = told_at(&**reader, &pair.pieces, session.head).await;
        assert_eq!(told, told_at(&**writer, &pair.pieces, session.head).await);
    }
    let whole = message(&mut Events::new(pair.whole.as_str()), "m", 40, true);
    append(&*one, &pair.whole, whole).await;
    for store in [&one, &two] {
        pair.agree(&**store).await;
    }
}
