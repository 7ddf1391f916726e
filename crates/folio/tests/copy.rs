//! A session copied into another store is the same session: chain, rows, other
//! logs, blobs and what was redacted. Anything less is not there for readers.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; what is unwrapped is what it claims"
)]

use async_trait::async_trait;
use folio::{
    AppendBatch, Authority, ContributionBatch, Direction, Fact, FactOp, ForeignId, NewSession,
    SessionId, Store, StoreError,
};
use folio_store::{
    AuthorityChange, BlobId, CopyOptions, CopyOutcome, CopyReport, MAX_BLOB_CALL, NOTES, Writer,
    copy_session,
};
use folio_testkit::check::{append, code, create, rows, session_id, stored};
use folio_testkit::decorator::{Decorated, Decorator};
use folio_testkit::event::Events;
use folio_testkit::memory_store;
use folio_testkit::workload::{Periodic, random};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(work)
}

/// Small batches, so that a few events need many.
fn options() -> CopyOptions {
    CopyOptions {
        batch_count: 7,
        batch_bytes: 4_000,
        cancel: None,
    }
}

async fn copy(from: &dyn Store, to: &dyn Store, id: &SessionId) -> Result<CopyReport, StoreError> {
    copy_session(from, to, id, &options()).await
}

fn note(id: &str, anchor: u64, text: &str) -> Fact {
    Fact {
        id: ForeignId::new(id).unwrap(),
        op: FactOp::Put,
        anchor,
        ts: None,
        kind: "session_title".into(),
        turn_id: None,
        visible: true,
        data: Some(folio::Json::string(text)),
    }
}

async fn contribute(store: &dyn Store, id: &SessionId, source: &str, facts: Vec<Fact>) {
    let mut batch = AppendBatch::native(Vec::new());
    batch.contributions = Some(ContributionBatch::new(source, facts));
    store.append(id, batch).await.unwrap();
}

/// Whether two stores hold the same session, in all that a reader can ask for.
async fn assert_same(from: &dyn Store, to: &dyn Store, id: &SessionId) {
    let (here, there) = (
        from.session(id).await.unwrap(),
        to.session(id).await.unwrap(),
    );
    assert_eq!((here.head, here.chain), (there.head, there.chain));
    assert_eq!(here.items, there.items);
    assert_eq!(here.authority, there.authority);
    assert_eq!(here.followed, there.followed);
    assert_eq!(here.import_ref, there.import_ref);
    let (events, copied) = (stored(from, id).await, stored(to, id).await);
    assert_eq!(events.len(), copied.len());
    for (event, copied) in events.iter().zip(&copied) {
        assert_eq!((event.form, &event.body), (copied.form, &copied.body));
        assert_eq!(event.spine, copied.spine);
        assert_eq!(event.event_seq, copied.event_seq);
        assert_eq!(event.chain, copied.chain);
    }
    assert_eq!(rows(from, id).await, rows(to, id).await);
    let sources = from.contribution_sources(id).await.unwrap();
    assert_eq!(sources, to.contribution_sources(id).await.unwrap());
    for source in sources {
        let status = from.contribution_status(id, &source).await.unwrap();
        assert_eq!(status, to.contribution_status(id, &source).await.unwrap());
        let query = folio_store::ContributionQuery {
            through: status.head,
            direction: Direction::Newer,
            after: None,
            max_items: 1_000,
        };
        let facts = from.contributions(id, &source, query).await.unwrap();
        assert_eq!(facts, to.contributions(id, &source, query).await.unwrap());
    }
    let cited = from.citations(id, 1, usize::MAX).await.unwrap();
    assert_eq!(cited, to.citations(id, 1, usize::MAX).await.unwrap());
    for (_, blob) in cited {
        assert_eq!(content(from, &blob).await, content(to, &blob).await);
    }
    assert_eq!(to.verify(id).await.unwrap().findings, []);
}

async fn content(store: &dyn Store, blob: &BlobId) -> Vec<u8> {
    let len = store.blob(blob).await.unwrap().len;
    let mut content = Vec::new();
    while (content.len() as u64) < len {
        let at = content.len() as u64;
        content.extend(store.read_blob(blob, at, MAX_BLOB_CALL).await.unwrap());
    }
    content
}

#[test]
fn wild_sessions_are_the_same_in_the_other_store() {
    block_on(async {
        for seed in 1..12 {
            let (from, to) = (memory_store(), memory_store());
            let id = create(&*from, "wild").await;
            append(&*from, &id, random(seed, 120)).await;
            let report = copy(&*from, &*to, &id).await.unwrap();
            let head = from.session(&id).await.unwrap().head;
            assert_eq!((report.outcome, report.events), (CopyOutcome::Copied, head));
            assert_same(&*from, &*to, &id).await;
            // And back into a third one, from the copy.
            let back = memory_store();
            copy(&*to, &*back, &id).await.unwrap();
            assert_same(&*from, &*back, &id).await;
        }
    });
}

#[test]
fn other_logs_keep_their_order_whatever_they_are_anchored_at() {
    block_on(async {
        let (from, to) = (memory_store(), memory_store());
        let id = create(&*from, "noted").await;
        append(&*from, &id, Periodic::new("noted").batch(0, 3)).await;
        // Sequence and anchor agree, then run against each other, then mix.
        let anchors = [1, 2, 3, 9, 8, 7, 6, 5, 5, 5, 1, 9, 1, 9, 2, 3, 4, 0];
        for (n, anchor) in anchors.into_iter().enumerate() {
            let fact = note(&format!("n{n}"), anchor, "text");
            contribute(&*from, &id, NOTES, vec![fact]).await;
        }
        let many = (0..40).map(|n| note(&format!("m{n}"), n % 5, &"x".repeat(300)));
        contribute(&*from, &id, "reviews", many.collect()).await;
        let report = copy(&*from, &*to, &id).await.unwrap();
        assert_eq!(report.facts, anchors.len() as u64 + 40);
        assert_same(&*from, &*to, &id).await;
        let again = copy(&*from, &*to, &id).await.unwrap();
        assert_eq!(again.outcome, CopyOutcome::Unchanged);
    });
}

#[test]
fn blobs_go_along_with_what_cites_them() {
    block_on(async {
        let (from, to) = (memory_store(), memory_store());
        let id = create(&*from, "cited").await;
        let small = from.put_blob(b"small".to_vec()).await.unwrap().id;
        let upload = from.begin_blob().await.unwrap();
        for part in 0..5_u8 {
            let part = vec![part; 2 << 20];
            from.extend_blob(upload, part).await.unwrap();
        }
        let large = from.finish_blob(upload).await.unwrap().id;
        let there = to.put_blob(b"there".to_vec()).await.unwrap().id;
        from.put_blob(b"there".to_vec()).await.unwrap();
        let mut batch = AppendBatch::native(Periodic::new("cited").batch(0, 2));
        batch.cites = vec![(0, small), (9, small), (9, large), (12, there)];
        from.append(&id, batch).await.unwrap();
        let report = copy(&*from, &*to, &id).await.unwrap();
        assert_eq!(report.blobs, 2, "one is there already");
        assert_same(&*from, &*to, &id).await;
    });
}

#[test]
fn a_fork_becomes_a_session_of_its_own() {
    block_on(async {
        let (from, to) = (memory_store(), memory_store());
        let parent = create(&*from, "parent").await;
        append(&*from, &parent, Periodic::new("parent").batch(0, 4)).await;
        // Inside a turn, so that a run is open there.
        let child = session_id("child");
        from.fork_session(&parent, 31, child.clone()).await.unwrap();
        let mut events = Events::new("child").run("own", "own-turn");
        let own = vec![
            events.user("own-1", "mine"),
            events.end("own-2", "completed"),
        ];
        append(&*from, &child, own).await;
        copy(&*from, &*to, &child).await.unwrap();
        assert_same(&*from, &*to, &child).await;
        let info = to.session(&child).await.unwrap();
        assert_eq!((info.inherited, info.forked_from), (0, None));
        assert_eq!(code(to.session(&parent).await), "session_not_found");
    });
}

#[test]
fn what_was_redacted_stays_redacted() {
    block_on(async {
        let (from, to) = (memory_store(), memory_store());
        let id = create(&*from, "secret").await;
        append(&*from, &id, Periodic::new("secret").batch(0, 2)).await;
        let facts = vec![note("n1", 3, "secret"), note("n2", 4, "plain")];
        contribute(&*from, &id, NOTES, facts).await;
        let key = rows(&*from, &id).await[1].0.clone();
        from.redact(&id, &[key, "notes::n1".into()]).await.unwrap();
        copy(&*from, &*to, &id).await.unwrap();
        assert_same(&*from, &*to, &id).await;
        let again = copy(&*from, &*to, &id).await.unwrap();
        assert_eq!(again.outcome, CopyOutcome::Unchanged);
        // What one side has lost since makes two sessions of one chain.
        for key in [rows(&*from, &id).await[3].0.clone(), "notes::n2".into()] {
            let whole = memory_store();
            copy(&*from, &*whole, &id).await.unwrap();
            from.redact(&id, &[key]).await.unwrap();
            assert_eq!(code(copy(&*from, &*whole, &id).await), "session_exists");
        }
    });
}

#[test]
fn an_imported_session_keeps_what_its_importer_knows() {
    block_on(async {
        let (from, to) = (memory_store(), memory_store());
        let id = session_id("followed");
        let session = NewSession {
            id: id.clone(),
            authority: Authority::Preparing,
            followed: true,
            import_ref: Some("{\"line\":1}".into()),
        };
        let staged = from.create_session(session).await.unwrap();
        assert_eq!(code(copy(&*from, &*to, &id).await), "session_preparing");
        let mut batch = AppendBatch::native(Periodic::new("followed").batch(0, 1));
        batch.writer = Writer::Importer;
        from.append(&id, batch).await.unwrap();
        let change = AuthorityChange {
            expected_rev: staged.authority_rev,
            to: Authority::RuntimeEvents,
            import_ref: Some("{\"line\":2}".into()),
        };
        from.set_authority(&id, change).await.unwrap();
        copy(&*from, &*to, &id).await.unwrap();
        assert_same(&*from, &*to, &id).await;
    });
}

#[test]
fn nothing_that_is_there_is_replaced() {
    block_on(async {
        let (from, to) = (memory_store(), memory_store());
        let id = create(&*from, "taken").await;
        append(&*from, &id, Periodic::new("taken").batch(0, 3)).await;
        // A beginning of the same session, a session of its own, an import.
        create(&*to, "taken").await;
        append(&*to, &id, Periodic::new("taken").batch(0, 2)).await;
        let before = to.session(&id).await.unwrap();
        assert_eq!(code(copy(&*from, &*to, &id).await), "session_exists");
        assert_eq!(to.session(&id).await.unwrap(), before);
        to.delete_session(&id, None).await.unwrap();
        let import = NewSession {
            id: id.clone(),
            authority: Authority::Preparing,
            followed: true,
            import_ref: Some("{\"format\":\"x\"}".into()),
        };
        let staged = to.create_session(import).await.unwrap();
        assert_eq!(code(copy(&*from, &*to, &id).await), "session_preparing");
        assert_eq!(to.session(&id).await.unwrap(), staged);
        let change = AuthorityChange {
            expected_rev: staged.authority_rev,
            to: Authority::Rejected,
            import_ref: None,
        };
        to.set_authority(&id, change).await.unwrap();
        assert_eq!(code(copy(&*from, &*to, &id).await), "session_exists");
        assert_eq!(code(copy(&*to, &*from, &id).await), "session_rejected");
        let nobody = session_id("nobody");
        assert_eq!(code(copy(&*from, &*to, &nobody).await), "session_not_found");
    });
}

/// Sets a flag at the n-th append, as a person does who stops a copy.
struct StopAt {
    appends: AtomicU64,
    limit: u64,
    cancel: Arc<AtomicBool>,
}

#[async_trait]
impl Decorator for StopAt {
    fn called(&self, method: &'static str) {
        if method == "append_reserved"
            && self.appends.fetch_add(1, Ordering::Relaxed) + 1 == self.limit
        {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

async fn stopped_after(limit: u64, from: &dyn Store, to: &Arc<dyn Store>, id: &SessionId) {
    let cancel = Arc::new(AtomicBool::new(false));
    let stop = StopAt {
        appends: AtomicU64::new(0),
        limit,
        cancel: Arc::clone(&cancel),
    };
    let to = Decorated::by(stop, Arc::clone(to));
    let options = CopyOptions {
        cancel: Some(cancel),
        ..options()
    };
    let result = copy_session(from, &to, id, &options).await;
    assert_eq!(code(result), "copy_stopped");
}

#[test]
fn a_stopped_copy_is_hidden_and_goes_on() {
    block_on(async {
        let from = memory_store();
        let id = create(&*from, "long").await;
        append(&*from, &id, Periodic::new("long").batch(0, 20)).await;
        let facts = (0..30).map(|n| note(&format!("n{n}"), 30 - n, "text"));
        contribute(&*from, &id, NOTES, facts.collect()).await;
        for appends in [1, 5, 30] {
            let to = memory_store();
            stopped_after(appends, &*from, &to, &id).await;
            let staged = to.session(&id).await.unwrap();
            assert_eq!(staged.authority, Authority::Preparing);
            let report = copy(&*from, &*to, &id).await.unwrap();
            assert_eq!(report.resumed, staged.head);
            assert!(staged.head > 0);
            assert_same(&*from, &*to, &id).await;
        }
    });
}

#[test]
fn a_redaction_in_the_middle_is_in_the_copy_too() {
    block_on(async {
        let (from, to) = (memory_store(), memory_store());
        let id = create(&*from, "late").await;
        append(&*from, &id, Periodic::new("late").batch(0, 20)).await;
        stopped_after(5, &*from, &to, &id).await;
        let key = rows(&*from, &id).await[0].0.clone();
        from.redact(&id, &[key]).await.unwrap();
        let report = copy(&*from, &*to, &id).await.unwrap();
        assert_eq!(report.resumed, 0, "what was taken over held the payload");
        assert_same(&*from, &*to, &id).await;
    });
}

#[test]
fn two_copies_at_once_make_one_session() {
    block_on(async {
        let (from, to) = (memory_store(), memory_store());
        let id = create(&*from, "twice").await;
        append(&*from, &id, Periodic::new("twice").batch(0, 20)).await;
        let (one, other) = tokio::join!(copy(&*from, &*to, &id), copy(&*from, &*to, &id));
        let outcomes = [one.unwrap().outcome, other.unwrap().outcome];
        assert!(outcomes.contains(&CopyOutcome::Copied), "{outcomes:?}");
        assert_same(&*from, &*to, &id).await;
    });
}
