//! What happens in a history, and how histories are made.
//!
//! An operation holds numbers only. What they name is decided when it happens,
//! by the state then, so that a history from which operations were taken is a
//! history still.

use super::script::{ODDITIES, Part, Shape, Spec, WORDS, WORKLOADS};
use super::state::Model;
use folio_core::Authority;
use proptest::prelude::*;
use proptest::strategy::Union;

/// The number of session ids that a history uses.
pub const SESSIONS: u8 = 6;
/// The number of contents that blobs have.
pub const CONTENTS: u8 = 4;
/// The number of views that a history writes.
pub const VIEWS: u8 = 2;
/// The number of uploads that a caller remembers.
pub const UPLOADS: u8 = 2;
/// The contribution logs that a history writes.
pub const SOURCES: [&str; 3] = ["notes", "git", "ci.log"];

/// One step of a history.
#[derive(Debug, Clone)]
pub enum Op {
    /// A session is created.
    Create {
        session: u8,
        authority: Authority,
        followed: bool,
        workload: u8,
    },
    /// A batch is appended.
    Append(Append),
    /// Two tasks append at the same time; the first one began first.
    Together(Append, Append),
    /// Something is done, the sync fails, and the store goes on, or is opened
    /// again.
    Failed { op: Box<Op>, reopen: bool },
    /// A session is forked, at its head or near it or beyond.
    Fork { parent: u8, at: u16, child: u8 },
    /// A session is deleted.
    Delete { session: u8, revision: Revision },
    /// A session in preparation is removed.
    Discard { session: u8, revision: Revision },
    /// Items and contributions are redacted.
    Redact { session: u8, keys: Vec<Key> },
    /// Erasures are completed.
    Scrub,
    /// An index is made anew.
    Rebuild { session: u8 },
    /// The store is opened again, after it was closed or only dropped.
    Reopen { closed: bool },
    /// Pages are read at a watermark, and remembered.
    Walk(Walk),
    /// A lease is acquired.
    Acquire { session: u8, holder: u8 },
    /// The last lease of a session is given back.
    Release { session: u8 },
    /// A blob is put, at once or in pieces of so many bytes.
    PutBlob { content: u8, pieces: Option<u32> },
    /// A blob arrives over several operations. It may never be finished.
    Upload { slot: u8, step: UploadStep },
    /// A part of a blob is read.
    ReadBlob { content: u8, from: u32, bytes: u32 },
    /// A session passes to another authority.
    SetAuthority {
        session: u8,
        to: Authority,
        revision: Revision,
        import_ref: Option<u8>,
    },
    /// Entries of a view are written.
    PutView(PutView),
    /// A view is dropped.
    DropView { view: u8 },
    /// A task waits for the event so many behind the last one but one.
    Wait { session: u8, ahead: u8 },
}

/// What becomes of an upload.
#[derive(Debug, Clone, Copy)]
pub enum UploadStep {
    /// It begins. What was begun in its slot is forgotten by the caller.
    Begin { content: u8 },
    /// So many of its bytes arrive.
    Extend { bytes: u32 },
    /// The rest arrives, and it becomes a blob.
    Finish,
}

/// Entries of a view, in numbers: keys with values.
#[derive(Debug, Clone)]
pub struct PutView {
    pub view: u8,
    pub version: u32,
    pub session: u8,
    /// Whether the caller knows the mark.
    pub knows_mark: bool,
    /// Where the mark moves: an ordinal, at times one that is not yet.
    pub to: u16,
    pub entries: Vec<(u8, Option<u8>)>,
}

/// A batch, in numbers.
#[derive(Debug, Clone)]
pub struct Append {
    pub session: u8,
    pub parts: Vec<Part>,
    /// Whether a head is expected, and whether it is the right one.
    pub head: Option<bool>,
    pub importer: bool,
    pub facts: Option<Facts>,
    pub lease: LeaseUse,
    /// Blobs that events of the batch cite: event, content.
    pub cites: Vec<(u8, u8)>,
    pub import_ref: Option<u8>,
    /// Whether one of its events was made for another session.
    pub stray: bool,
    /// Whether another handle writes it, where there can be one.
    pub second: bool,
}

/// Contributions of a batch, in numbers: the source; id, anchor and text of
/// each.
#[derive(Debug, Clone)]
pub struct Facts {
    pub source: u8,
    pub facts: Vec<(u8, u16, u8)>,
    /// In their place one of any session, as it is there now: without its
    /// payload, if there is such.
    pub copy: Option<u16>,
}

/// Under which lease a batch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseUse {
    /// Under none.
    None,
    /// Under the last one of the session, lost or not.
    Last,
    /// Under one that never was.
    Bogus,
}

/// Whether the caller saw the last revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// The caller names none, or the right one where it must.
    Any,
    /// The right one.
    Right,
    /// Another one.
    Wrong,
}

/// What is to be redacted.
#[derive(Debug, Clone)]
pub enum Key {
    /// One of the session's items.
    Item(u16),
    /// One of the entries of the session's contribution logs.
    Fact(u16),
    /// The key before it, once more.
    Again,
    /// Nothing that exists.
    Missing,
}

/// How pages are read.
#[derive(Debug, Clone)]
pub struct Walk {
    pub session: u8,
    /// One of its watermarks.
    pub through: u16,
    pub newer: bool,
    pub max_items: u8,
    /// Whether pages are bounded by few bytes too.
    pub small: bool,
    pub start: From,
}

/// Where pages begin.
#[derive(Debug, Clone, Copy)]
pub enum From {
    /// At the edge.
    Edge,
    /// At one of the items, by its key.
    Key(u16),
    /// At one of the items, by its position.
    Item(u16),
    /// At the first item at an ordinal or behind it in the direction.
    Ordinal(u16),
}

/// The next operation of a history.
pub fn next(model: &Model) -> BoxedStrategy<Op> {
    let one = || 0..SESSIONS;
    let there = || session(model);
    let creates = match model.sessions.len() {
        0 => 300,
        1 => 20,
        _ => 2,
    };
    let mut ops: Vec<(u32, BoxedStrategy<Op>)> = vec![
        (creates, create(model)),
        (30, appends(model).prop_map(Op::Append).boxed()),
        (3, together(model)),
        (9, fork(model)),
        (
            2,
            (one(), revision())
                .prop_map(|(session, revision)| Op::Delete { session, revision })
                .boxed(),
        ),
        (
            3,
            (there(), revision())
                .prop_map(|(session, revision)| Op::Discard { session, revision })
                .boxed(),
        ),
        (7, redact(model)),
        (2, Just(Op::Scrub).boxed()),
        (
            2,
            there().prop_map(|session| Op::Rebuild { session }).boxed(),
        ),
        (6, walk(model).prop_map(Op::Walk).boxed()),
        (
            2,
            (there(), 0..3_u8)
                .prop_map(|(session, holder)| Op::Acquire { session, holder })
                .boxed(),
        ),
        (
            3,
            there().prop_map(|session| Op::Release { session }).boxed(),
        ),
        (3, put_blob()),
        (2, read_blob(model)),
        (6, set_authority(model)),
        (4, upload(model)),
        (5, put_view(model)),
        (1, (0..VIEWS).prop_map(|view| Op::DropView { view }).boxed()),
        (
            2,
            (there(), 0..4_u8)
                .prop_map(|(session, ahead)| Op::Wait { session, ahead })
                .boxed(),
        ),
    ];
    if model.durable {
        ops.push((5, failed(model)));
        ops.push((
            3,
            any::<bool>()
                .prop_map(|closed| Op::Reopen { closed })
                .boxed(),
        ));
    }
    Union::new_weighted(ops).boxed()
}

fn together(model: &Model) -> BoxedStrategy<Op> {
    (appends(model), appends(model))
        .prop_map(|(first, mut second)| {
            // Through one handle: which of two is faster is nobody's to say.
            (second.session, second.second) = (first.session, first.second);
            Op::Together(first, second)
        })
        .boxed()
}

/// What one commit does, so that its failure undoes all of it.
fn failed(model: &Model) -> BoxedStrategy<Op> {
    let op = prop_oneof![
        6 => appends(model).prop_map(Op::Append),
        1 => create(model),
        2 => fork(model),
        2 => redact(model),
        1 => set_authority(model),
        4 => upload(model),
        1 => put_blob(),
        1 => put_view(model),
        1 => (session(model), 0..3_u8)
            .prop_map(|(session, holder)| Op::Acquire { session, holder }),
        1 => session(model).prop_map(|session| Op::Delete {
            session,
            revision: Revision::Any,
        }),
    ];
    (op, any::<bool>())
        .prop_map(|(op, reopen)| Op::Failed {
            op: Box::new(op),
            reopen,
        })
        .boxed()
}

fn fork(model: &Model) -> BoxedStrategy<Op> {
    (session(model), any::<u16>(), free(model))
        .prop_map(|(parent, at, child)| Op::Fork { parent, at, child })
        .boxed()
}

fn redact(model: &Model) -> BoxedStrategy<Op> {
    (session(model), prop::collection::vec(key(), 1..4))
        .prop_map(|(session, keys)| Op::Redact { session, keys })
        .boxed()
}

fn read_blob(model: &Model) -> BoxedStrategy<Op> {
    let content = blob(model.blobs.keys().copied().collect());
    (content, 0..200_000_u32, 0..150_000_u32)
        .prop_map(|(content, from, bytes)| Op::ReadBlob {
            content,
            from,
            bytes,
        })
        .boxed()
}

/// A session that exists, or seldom any.
fn session(model: &Model) -> BoxedStrategy<u8> {
    let there: Vec<u8> = model.sessions.keys().copied().collect();
    if there.is_empty() {
        return (0..SESSIONS).boxed();
    }
    prop_oneof![30 => prop::sample::select(there), 1 => 0..SESSIONS].boxed()
}

/// A session that does not exist, or seldom any.
fn free(model: &Model) -> BoxedStrategy<u8> {
    let free = (0..SESSIONS).filter(|number| !model.sessions.contains_key(number));
    let free: Vec<u8> = free.collect();
    if free.is_empty() {
        return (0..SESSIONS).boxed();
    }
    prop_oneof![8 => prop::sample::select(free), 1 => 0..SESSIONS].boxed()
}

fn revision() -> BoxedStrategy<Revision> {
    prop_oneof![
        3 => Just(Revision::Any),
        2 => Just(Revision::Right),
        1 => Just(Revision::Wrong),
    ]
    .boxed()
}

fn authority() -> BoxedStrategy<Authority> {
    prop_oneof![
        16 => Just(Authority::RuntimeEvents),
        4 => Just(Authority::Preparing),
        1 => Just(Authority::Rejected),
    ]
    .boxed()
}

fn create(model: &Model) -> BoxedStrategy<Op> {
    let followed = prop::bool::weighted(0.1);
    (free(model), authority(), followed, 0..WORKLOADS)
        .prop_map(|(session, authority, followed, workload)| Op::Create {
            session,
            authority,
            followed,
            workload,
        })
        .boxed()
}

fn set_authority(model: &Model) -> BoxedStrategy<Op> {
    let import_ref = prop::option::weighted(0.3, 0..3_u8);
    let to = prop::sample::select(vec![
        Authority::RuntimeEvents,
        Authority::Preparing,
        Authority::Rejected,
    ]);
    (session(model), to, revision(), import_ref)
        .prop_map(|(session, to, revision, import_ref)| Op::SetAuthority {
            session,
            to,
            revision,
            import_ref,
        })
        .boxed()
}

fn key() -> BoxedStrategy<Key> {
    prop_oneof![
        12 => any::<u16>().prop_map(Key::Item),
        4 => any::<u16>().prop_map(Key::Fact),
        2 => Just(Key::Again),
        1 => Just(Key::Missing),
    ]
    .boxed()
}

fn walk(model: &Model) -> BoxedStrategy<Walk> {
    (
        session(model),
        any::<u16>(),
        any::<bool>(),
        1..12_u8,
        prop::bool::weighted(0.3),
        prop_oneof![
            3 => Just(From::Edge),
            1 => any::<u16>().prop_map(From::Key),
            1 => any::<u16>().prop_map(From::Item),
            1 => any::<u16>().prop_map(From::Ordinal),
        ],
    )
        .prop_map(|(session, through, newer, max_items, small, start)| Walk {
            session,
            through,
            newer,
            max_items,
            small,
            start,
        })
        .boxed()
}

fn put_blob() -> BoxedStrategy<Op> {
    let pieces = prop::option::of(1_000..100_000_u32);
    (0..CONTENTS, pieces)
        .prop_map(|(content, pieces)| Op::PutBlob { content, pieces })
        .boxed()
}

fn upload(model: &Model) -> BoxedStrategy<Op> {
    let step = prop_oneof![
        2 => (0..CONTENTS).prop_map(|content| UploadStep::Begin { content }),
        3 => (1_000..100_000_u32).prop_map(|bytes| UploadStep::Extend { bytes }),
        1 => Just(UploadStep::Finish),
    ];
    let begun: Vec<u8> = model.uploads.keys().copied().collect();
    let slot = match begun.is_empty() {
        true => (0..UPLOADS).boxed(),
        false => prop_oneof![2 => prop::sample::select(begun), 1 => 0..UPLOADS].boxed(),
    };
    (slot, step)
        .prop_map(|(slot, step)| Op::Upload { slot, step })
        .boxed()
}

fn put_view(model: &Model) -> BoxedStrategy<Op> {
    let entries = prop::collection::vec((0..6_u8, prop::option::weighted(0.8, 0..9_u8)), 0..4);
    let version = prop_oneof![8 => Just(1_u32), 2 => Just(2), 1 => Just(3)];
    let knows_mark = prop::bool::weighted(0.9);
    (
        0..VIEWS,
        version,
        session(model),
        knows_mark,
        any::<u16>(),
        entries,
    )
        .prop_map(|(view, version, session, knows_mark, to, entries)| {
            Op::PutView(PutView {
                view,
                version,
                session,
                knows_mark,
                to,
                entries,
            })
        })
        .boxed()
}

/// A content that is stored, or seldom any.
fn blob(stored: Vec<u8>) -> BoxedStrategy<u8> {
    if stored.is_empty() {
        return (0..CONTENTS).boxed();
    }
    prop_oneof![20 => prop::sample::select(stored), 1 => 0..CONTENTS].boxed()
}

/// A batch for one of the sessions, mostly one that can be accepted.
fn appends(model: &Model) -> BoxedStrategy<Append> {
    let some = model.sessions.iter().map(|(name, session)| {
        let sealed = session.first_open_run();
        let importer = session.followed || session.authority == Authority::Preparing;
        let blobs = model.blobs.keys().copied().collect();
        (
            40,
            batch(*name, sealed, importer, session.lease.is_some(), blobs),
        )
    });
    let mut some: Vec<_> = some.collect();
    some.push((1, batch(0, 0, false, false, Vec::new())));
    Union::new_weighted(some).boxed()
}

fn batch(
    session: u8,
    first_run: u8,
    importer: bool,
    leased: bool,
    blobs: Vec<u8>,
) -> BoxedStrategy<Append> {
    let rare = |flag: bool| prop_oneof![15 => Just(flag), 1 => Just(!flag)];
    let lease = if leased {
        prop_oneof![
            6 => Just(LeaseUse::Last),
            1 => Just(LeaseUse::None),
            1 => Just(LeaseUse::Bogus)
        ]
        .boxed()
    } else {
        prop_oneof![20 => Just(LeaseUse::None), 1 => Just(LeaseUse::Last)].boxed()
    };
    let facts = (
        0..3_u8,
        prop::collection::vec((0..6_u8, any::<u16>(), 0..2_u8), 0..4),
        prop::option::weighted(0.2, any::<u16>()),
    )
        .prop_map(|(source, facts, copy)| Facts {
            source,
            facts,
            copy,
        });
    let marks = (
        prop::option::weighted(0.2, prop::bool::weighted(0.8)),
        rare(importer),
        prop::option::weighted(0.3, facts),
        lease,
        prop::option::weighted(0.05, 0..3_u8),
        prop::bool::weighted(0.02),
        any::<bool>(),
    );
    let blob = blob(blobs);
    let cites = prop_oneof![
        8 => Just(Vec::new()),
        1 => prop::collection::vec((0..4_u8, blob), 1..3),
    ];
    let parts = prop::collection::vec(part(first_run), 0..8);
    (parts, cites, marks)
        .prop_map(move |(parts, cites, marks)| {
            let (head, importer, facts, lease, import_ref, stray, second) = marks;
            Append {
                session,
                parts,
                head,
                importer,
                facts,
                lease,
                cites,
                import_ref,
                stray,
                second,
            }
        })
        .boxed()
}

fn part(first_run: u8) -> BoxedStrategy<Part> {
    prop_oneof![
        30 => spec(first_run).prop_map(Part::New),
        6 => (1..10_u8).prop_map(Part::Workload),
        2 => (0..SESSIONS, any::<u16>()).prop_map(|(from, pick)| Part::Copy(from, pick)),
        2 => (first_run..first_run + 3, 0..3_u8).prop_map(|(run, of)| Part::Record(run, of)),
        1 => prop_oneof![
            3 => any::<u16>().prop_map(Part::Again),
            1 => any::<u16>().prop_map(Part::Clash)
        ],
    ]
    .boxed()
}

fn spec(first_run: u8) -> BoxedStrategy<Spec> {
    let run = prop_oneof![40 => first_run..first_run + 3, 1 => 0..=first_run];
    let words = prop_oneof![30 => 0..WORDS - 1, 1 => Just(WORDS - 1)];
    (
        (0..1_000_000_u32).no_shrink(),
        run,
        prop::bool::weighted(0.01),
        shape(),
        words,
    )
        .prop_map(|(id, run, odd_turn, shape, words)| Spec {
            id,
            run,
            odd_turn,
            shape,
            words,
        })
        .boxed()
}

fn shape() -> BoxedStrategy<Shape> {
    let few = 0..3_u8;
    let message = || (0..3_u8, any::<bool>(), 0..2_u8);
    let mostly_whole = prop::bool::weighted(0.25);
    prop_oneof![
        3 => Just(Shape::User),
        2 => (0..4_u8).prop_map(Shape::Opened),
        6 => message().prop_map(|(of, thinking, part)| Shape::Chunk(of, thinking, part)),
        4 => message().prop_map(|(of, thinking, part)| Shape::Whole(of, thinking, part)),
        1 => few.clone().prop_map(Shape::Mark),
        4 => (few.clone(), few.clone(), mostly_whole)
            .prop_map(|(tool, step, partial)| Shape::Call(tool, step, partial)),
        4 => (few.clone(), mostly_whole).prop_map(|(tool, partial)| Shape::Result(tool, partial)),
        1 => (few.clone(), any::<u16>()).prop_map(|(of, input)| Shape::Usage(of, input)),
        2 => (few.clone(), few.clone()).prop_map(|(request, tool)| Shape::Ask(request, tool)),
        2 => (few, any::<bool>()).prop_map(|(request, allow)| Shape::Decide(request, allow)),
        2 => any::<u16>().prop_map(Shape::Revise),
        1 => (0..ODDITIES).prop_map(Shape::Odd),
        2 => (0..4_u8).prop_map(Shape::End),
    ]
    .boxed()
}
