//! `folio show` reads as much of a store of a million events as of one of ten
//! thousand, but for the depth of its trees.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use folio_core::SessionId;
use folio_store::{Admin, AppendBatch, Ledger, NewSession};
use folio_store_sqlite::SqliteConfig;
use folio_testkit::workload::Periodic;
use std::path::Path;
use std::process::{Command, Stdio};

/// Fills a store with one session of about so many events.
fn fill(path: &Path, events: u64) {
    let store = folio_store_sqlite::open(&SqliteConfig::new(path)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let id = SessionId::new("long").unwrap();
        store
            .create_session(NewSession::native(id.clone()))
            .await
            .unwrap();
        let periodic = Periodic::new("long");
        let turns = events / Periodic::EVENTS_PER_TURN as u64;
        for from in (0..turns).step_by(250) {
            let batch = AppendBatch::native(periodic.batch(from, 250.min(turns - from)));
            store.append(&id, batch).await.unwrap();
        }
        store.close().await.unwrap();
    });
}

/// Bytes that this process and its ended children have read.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

/// What one `folio show` reads, its own loading included.
fn show(path: &Path, extra: &[&str]) -> u64 {
    let before = bytes_read();
    let status = Command::new(env!("CARGO_BIN_EXE_folio"))
        .arg("--store")
        .arg(format!("sqlite:{}", path.display()))
        .args(["--json", "show", "long", "--max-items", "50"])
        .args(extra)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    bytes_read() - before
}

#[test]
fn show_reads_a_page_and_not_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (
        folder.path().join("small.db"),
        folder.path().join("large.db"),
    );
    fill(&small, 10_000);
    fill(&large, 1_000_000);
    let cases: [(&str, &[&str], &[&str]); 2] = [
        ("last", &[], &[]),
        ("middle", &["--at", "5000"], &["--at", "500000"]),
    ];
    for (place, at_small, at_large) in cases {
        let (small, large) = (show(&small, at_small), show(&large, at_large));
        let ratio = large as f64 / small as f64;
        println!("{place} page: {small} bytes read at 10k events, {large} at 1M: {ratio:.2}");
        assert!(ratio <= 1.5, "{place}: {ratio:.2}");
    }
}
