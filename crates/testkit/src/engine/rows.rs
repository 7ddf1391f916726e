//! Rows of every sort, made of a number: neighbours differ in it alone.

use folio_codec::Digest;
use folio_core::assign::{OpenRequest, OpenRun, OpenStream, Tail, WaitingMark};
use folio_core::item::{Lane, Need, Part, Position};
use folio_core::reduce::RunFacts;
use folio_core::{Authority, InvocationId, Item, ItemKind, RunId, SessionId, Spine, TurnId};
use folio_store::engine::{Counters, Erase, ItemWrite, ViewWrites, Writes};
use folio_store::rows::{
    BlobRow, CommitRow, ContribLogRow, EventRow, FactRow, IdRunRow, LogRow, PackRow, PackText,
    RunRow, ScrubRow, SegRow, SessionRow, SpanRow, StageRow, ViewRow,
};

/// A session, with every member set.
pub fn session(n: u64) -> SessionRow {
    SessionRow {
        session_no: n,
        session_id: SessionId::new(format!("session-{n}")).unwrap(),
        log_no: n,
        incarnation: u64::MAX - n,
        generation: 3,
        authority: Authority::Preparing,
        authority_rev: 7,
        followed: true,
        import_ref: Some(r#"{"source":1}"#.into()),
        lease_owner: 1 << 63,
        lease_epoch: 2,
        lease_holder: "somebody".into(),
        created_at: 1_700_000_000_000,
    }
}

/// Its log: the index has the log's own number.
pub fn log(n: u64) -> LogRow {
    LogRow {
        log_no: n,
        family: n,
        head: 3,
        base: 2,
        chain: [7; 32],
        drained_seq: 5,
        runs: 2,
        index_no: n,
        index_version: 1,
        index_head: 3,
        items: 2,
        sources: 1,
        tail: Tail {
            runs: vec![OpenRun {
                run_no: 2,
                next_seq: 4,
                turn_id: TurnId::new("t1").unwrap(),
                inline: true,
                output: false,
            }],
            marks: vec![WaitingMark {
                base: "assistant:r1:x".into(),
                run_no: 2,
                lane: Lane::Tools,
                index: 0,
                ordinal: 3,
            }],
            requests: vec![OpenRequest {
                request_id: "q1".into(),
                run_no: 2,
                ordinal: 3,
                call: Some("call:t1:c".into()),
            }],
            streams: vec![OpenStream {
                opener: 3,
                run_no: 2,
                mould: u64::MAX,
                content: None,
            }],
        },
    }
}

/// A run of a log.
pub fn run(n: u32, turn: &str) -> RunRow {
    RunRow {
        run_no: n,
        spine: Spine {
            run_id: RunId::new(format!("run-{n}")).unwrap(),
            turn_id: TurnId::new(turn).unwrap(),
            invocation_id: InvocationId::new(format!("invocation-{n}")).unwrap(),
        },
        opened: n.into(),
        terminal: (n == 1).then_some(2),
        open_before: (1..n).collect(),
        inline: n != 1,
        output: n == 1,
        facts: RunFacts {
            turn_id: turn.into(),
            model: Some("model".into()),
            lineage: "{}".into(),
        },
    }
}

/// An event, with the hash of its id.
pub fn event(ordinal: u64) -> (EventRow, u64) {
    let row = EventRow {
        ordinal,
        run_no: 1,
        run_seq: ordinal,
        committed_at: 1_700_000_000_000 + ordinal,
        form: 1,
        chain: [ordinal.to_le_bytes()[0]; 32],
        body: format!("body of {ordinal}").into_bytes(),
    };
    (row, u64::MAX - ordinal)
}

/// A segment of three chunks, two ordinals apart: others stand between them.
pub fn pack(first: u64) -> PackRow {
    PackRow {
        first,
        last: first + 4,
        opener: 3,
        run_no: 2,
        content: None,
        marks: vec![(first + 2, [first.to_le_bytes()[0]; 32])],
        text: match first % 2 {
            0 => PackText::Own,
            _ => PackText::Of(first + 9, 70),
        },
        columns: format!("chunks from {first} on").into_bytes(),
        own: String::from("and what they say"),
    }
}

/// The first ordinals of a session's segments; two of them overlap.
pub const PACKS: [u64; 3] = [11, 12, 21];

/// Ids that count, of the segment at 11 or at 21.
pub fn id_run(stem: &str, first: u64, pack: u64) -> IdRunRow {
    IdRunRow {
        stem: stem.into(),
        first,
        n: 3,
        pack,
    }
}

/// The ids of the segment at 12, which do not count: the hash of each, with its
/// ordinal.
pub fn pack_ids() -> Vec<(u64, u64)> {
    [12, 14, 16]
        .map(|ordinal| (1 << 63 | ordinal, ordinal))
        .into()
}

/// A row of the commit journal.
pub fn commit(seq: u64) -> CommitRow {
    CommitRow {
        seq,
        body: format!("what commit {seq} added").into_bytes(),
    }
}

/// A position.
pub fn at(ordinal: u64, slot: u8) -> Position {
    Position { ordinal, slot }
}

/// An item that needs two events.
pub fn item(number: u64, position: Position, key: &str) -> Item {
    Item {
        position,
        number,
        kind: ItemKind::Assistant,
        key: key.into(),
        run_no: 1,
        ts: "1.5e3".into(),
        revision: position.ordinal,
        output_retained: number == 2,
        step: u64::MAX,
        operation: 5,
        weight: 600,
        need: vec![
            Need {
                ordinal: position.ordinal,
                lane: Lane::Text,
                index: 1,
                part: Part::FirstChunk,
            },
            Need {
                ordinal: position.ordinal + 1,
                lane: Lane::Thinking,
                index: 0,
                part: Part::Final,
            },
        ],
    }
}

/// A chunk of the item at `1.0`.
pub fn seg(seg: u64, before: u64) -> SegRow {
    SegRow {
        position: at(1, 0),
        lane: (Lane::Text, 1),
        before,
        bytes: 4,
        seg,
        n: 2,
        last: seg + 1,
    }
}

/// The notes of a log.
pub fn contrib_log(n: u64) -> ContribLogRow {
    ContribLogRow {
        contrib_no: n,
        source: "notes".into(),
        log_no: n,
        rank: 1,
        head: 3,
        chain: [9; 32],
    }
}

/// A note; the second one is withheld.
pub fn fact(seq: u64, anchor: u64, id: &str) -> FactRow {
    FactRow {
        seq,
        anchor,
        id: id.into(),
        chain: [seq.to_le_bytes()[0]; 32],
        body: format!(r#"{{"n":{seq}}}"#),
        withheld: (seq == 2).then_some([8; 32]),
    }
}

/// What a log reads: two stretches, here of itself, so that nothing is missing.
pub fn span(n: u64, upto: u64) -> SpanRow {
    SpanRow {
        log_no: n,
        upto,
        src: n,
        runs: u32::MAX,
    }
}

/// The addresses of blobs in the order of their numbers.
pub fn sha(n: u64) -> Digest {
    let mut sha = [0xfe; 32];
    sha[..8].copy_from_slice(&n.to_be_bytes());
    sha
}

/// What is in a blob; larger than a page of any engine.
pub fn content(n: u64) -> Vec<u8> {
    vec![n.to_le_bytes()[0]; 40_000]
}

/// A blob of one piece. Its number is even, that of a [`stage`] odd; the
/// greatest `n` has numbers too.
pub fn blob(n: u64) -> BlobRow {
    BlobRow {
        sha: sha(n),
        blob_no: n << 1,
        len: 40_000,
        stager: 1 << 63,
    }
}

/// A blob that is still arriving, in two pieces so far.
pub fn stage(n: u64) -> StageRow {
    StageRow {
        blob_no: n << 1 | 1,
        stager: u64::MAX,
    }
}

/// A view.
pub fn view(n: u64) -> ViewRow {
    ViewRow {
        view_no: n,
        name: format!("view-{n}"),
        version: 2,
    }
}

/// Keys of a view: the least one, and two that share a beginning.
pub const KEYS: [&[u8]; 3] = [b"", b"a", b"a\xff"];

/// An erasure of a session's log.
pub fn scrub(n: u64) -> ScrubRow {
    ScrubRow {
        seq: n,
        log_no: n,
        since: 1_700_000_000_000,
    }
}

/// One row of every sort and a few more, all of one session but for that of the
/// commit journal, which is of all of them.
pub fn everything(n: u64) -> Writes {
    Writes {
        counters: Some(Counters {
            session_no: n,
            log_no: n,
            index_no: n,
            contrib_no: n,
            blob_no: n,
            view_no: n,
            scrub_seq: n,
        }),
        sessions: vec![session(n)],
        log: Some(log(n)),
        spans: vec![span(n, 1), span(n, 2)],
        runs: vec![run(1, "t1"), run(2, "t2"), run(3, "t1")],
        events: vec![event(1), event(2), event(3)],
        items: vec![
            ItemWrite {
                item: item(1, at(1, 0), "assistant:r1:m"),
                is_new: true,
            },
            ItemWrite {
                item: item(2, at(3, 2), "assistant:r1:m~2"),
                is_new: true,
            },
        ],
        segs: vec![seg(1, 0), seg(3, 4), seg(6, 8)],
        packs: PACKS.map(pack).into(),
        id_runs: vec![
            id_run("c", 0, 11),
            id_run("c", u64::MAX - 3, 21),
            id_run("c:2", 5, 21),
        ],
        pack_ids: pack_ids(),
        commit: Some(commit(n)),
        contributions: vec![(
            contrib_log(n),
            vec![fact(1, 2, "a"), fact(2, 1, "b"), fact(3, 2, "a")],
        )],
        citations: vec![(1, sha(n)), (3, sha(n))],
        blobs: vec![blob(n)],
        stages: vec![stage(n)],
        pieces: vec![
            (blob(n).blob_no, 0, content(n)),
            (stage(n).blob_no, 0, b"in".to_vec()),
            (stage(n).blob_no, 1, b"pieces".to_vec()),
        ],
        view: Some(ViewWrites {
            view: view(n),
            log_no: n,
            mark: 3,
            entries: KEYS
                .map(|key| (key.to_vec(), Some([b"value of ", key].concat())))
                .into(),
        }),
        scrubs: vec![scrub(n)],
        ..Writes::default()
    }
}

/// The ordinals of a session's events; the hash of one id is not known.
pub fn event_hashes() -> Vec<(u64, Option<u64>)> {
    let hash = |ordinal| (ordinal != 2).then(|| event(ordinal).1);
    (1..=3).map(|ordinal| (ordinal, hash(ordinal))).collect()
}

/// What removes all segments of a session.
pub fn packs_gone(n: u64) -> Erase {
    let all = everything(n);
    let id_runs = all.id_runs.into_iter();
    Erase::Packs {
        log_no: n,
        family: n,
        packs: PACKS.into(),
        id_runs: id_runs.map(|run| (run.stem, run.first)).collect(),
        ids: all.pack_ids,
    }
}

/// What removes [`everything`] of a session.
pub fn gone(n: u64) -> Writes {
    let erase = vec![
        Erase::Contributions(contrib_log(n)),
        Erase::ViewEntries { log_no: n },
        Erase::Session(session(n)),
        Erase::Events {
            log_no: n,
            family: n,
            events: event_hashes(),
        },
        packs_gone(n),
        Erase::Items {
            index_no: n,
            from: 0,
        },
        Erase::Runs {
            log_no: n,
            above: 0,
        },
        Erase::Index(n),
        Erase::Log(n),
        Erase::View(view(n)),
        Erase::Blob(blob(n)),
        Erase::Stage(stage(n)),
        Erase::Scrub(n),
    ];
    erasing(erase)
}

/// Writes that only remove.
pub fn erasing(erase: Vec<Erase>) -> Writes {
    Writes {
        erase,
        ..Writes::default()
    }
}
