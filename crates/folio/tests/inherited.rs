//! What a fork inherited is shown and counted, and its usage is paid for once.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; what is unwrapped is what it claims"
)]

use folio::{Stats, Store};
use folio_testkit::check::{append, create, session_id};
use folio_testkit::event::Events;
use folio_testkit::memory_store;
use folio_testkit::workload::Periodic;

async fn stats(store: &dyn Store, id: &folio::SessionId) -> Stats {
    Stats::of(store, id).await.unwrap()
}

#[tokio::test]
async fn usage_of_a_family_adds_up_to_what_was_paid() {
    let store = memory_store();
    let parent = create(&*store, "parent").await;
    append(&*store, &parent, Periodic::new("parent").batch(0, 2)).await;
    let whole = stats(&*store, &parent).await;
    assert_eq!(whole.inherited, folio_projector::Inherited::default());

    // Behind the usage of the second turn, inside its run.
    let at = Periodic::EVENTS_PER_TURN as u64 + 8;
    let child = session_id("child");
    store
        .fork_session(&parent, at, child.clone())
        .await
        .unwrap();
    let before = stats(&*store, &child).await;
    assert_eq!(before.usage, folio_projector::Usage::default());
    assert_eq!(before.inherited.usage, whole.usage);
    assert_eq!((before.inherited.events, before.events), (at, at));

    let mut events = Events::new("child").run("r00000001", "t00000001");
    let revised = events.usage("own-1", "m00000001-1", 20_000, 2_000);
    let end = events.end("own-2", "completed");
    append(&*store, &child, vec![revised, end]).await;
    let mut events = Events::new("child").run("own", "own");
    let turn = vec![
        events.user("own-3", "and now?"),
        events.text("own-4", "own-message", false, "this"),
        events.usage("own-5", "own-message", 30, 4),
        events.end("own-6", "completed"),
    ];
    append(&*store, &child, turn).await;

    let after = stats(&*store, &child).await;
    assert_eq!(after.inherited, before.inherited);
    assert_eq!(after.user_messages, before.user_messages + 1);
    assert_eq!(after.events, at + 6);
    let first_turn = {
        let alone = create(&*store, "alone").await;
        append(&*store, &alone, Periodic::new("alone").batch(0, 1)).await;
        stats(&*store, &alone).await.usage
    };
    // Both together are the first turn, the revised call and the child's own.
    let input = whole.usage.input + after.usage.input;
    let output = whole.usage.output + after.usage.output;
    assert_eq!(input, first_turn.input + 20_000 + 30);
    assert_eq!(output, first_turn.output + 2_000 + 4);
}
