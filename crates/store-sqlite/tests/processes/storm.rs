//! Many at once: openers of one file, sessions of one store.

use crate::child::wait;
use crate::process::Process;
use folio_core::SessionId;
use folio_store::{Admin, AppendBatch, Ledger, NewSession, SessionFilter};
use folio_store_sqlite::{SqliteConfig, SqliteStore, open};
use folio_testkit::event::Events;
use std::sync::Arc;
use std::time::Instant;

/// All sessions of a store, with their heads.
async fn heads(store: &SqliteStore) -> Vec<(SessionId, u64)> {
    let mut out: Vec<(SessionId, u64)> = Vec::new();
    loop {
        let after = out.last().map(|(id, _)| id.clone());
        let page = store
            .sessions(SessionFilter::All, after, 1_000)
            .await
            .unwrap();
        if page.is_empty() {
            return out;
        }
        out.extend(page.into_iter().map(|info| (info.id, info.head)));
    }
}

pub fn eight_openers() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.folio");
        let names = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| format!("s{n}"));
        let openers = names
            .each_ref()
            .map(|name| Process::start("opener", &path, &[name.as_str()]));
        // Stopping lets all go at once; it is waited for one by one.
        let openers = openers.map(|opener| std::thread::spawn(|| opener.stop()));
        for opener in openers {
            assert_eq!(opener.join().unwrap(), [""; 0]);
        }
        let store = open(&SqliteConfig::new(&path).existing()).unwrap();
        let found = wait(heads(&store));
        assert_eq!(found, names.map(|name| (SessionId::new(name).unwrap(), 1)));
        wait(store.check()).unwrap();
    }
}

pub fn many_sessions() {
    const SESSIONS: usize = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let config = SqliteConfig::new(dir.path().join("sessions.folio"));
    let store = Arc::new(open(&config).unwrap());
    let names: Vec<String> = (0..SESSIONS).map(|n| format!("s{n:05}")).collect();
    let start = Instant::now();
    wait(async {
        let tasks: Vec<_> = names
            .iter()
            .map(|name| {
                let (store, name) = (Arc::clone(&store), name.clone());
                tokio::spawn(async move {
                    let id = SessionId::new(name.as_str()).unwrap();
                    store.create_session(NewSession::native(id.clone())).await?;
                    let event = Events::new(&name).user("u1", "hello");
                    store.append(&id, AppendBatch::native(vec![event])).await
                })
            })
            .collect();
        for task in tasks {
            let done = task.await.unwrap().unwrap();
            assert_eq!(done.high_water, 1);
        }
    });
    eprintln!(
        "{SESSIONS} sessions took {} ms",
        start.elapsed().as_millis()
    );
    drop(store);
    let store = open(&config.existing()).unwrap();
    let found = wait(heads(&store));
    let expected = names
        .iter()
        .map(|name| (SessionId::new(name.as_str()).unwrap(), 1));
    assert!(found.into_iter().eq(expected));
    wait(store.check()).unwrap();
}
