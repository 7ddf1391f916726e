//! What the tests over real session files share. The tests of the roots use it
//! too, for the stores that only a root may name.
#![allow(dead_code, reason = "each test uses a part of it")]

use folio_core::SessionId;
use folio_import::{BytesSource, ImportOptions, Importer, Outcome};
use folio_store::{NOTES, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store and what keeps its file alive.
pub struct Opened {
    pub store: Arc<dyn Store>,
    pub folder: Option<tempfile::TempDir>,
}

/// A kind of store to run on.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    /// Opens a fresh store.
    pub open: fn() -> Result<Opened, String>,
}

/// The store in memory.
pub const MEMORY: Kind = Kind {
    name: "memory",
    open: || {
        Ok(Opened {
            store: folio_testkit::memory_store(),
            folder: None,
        })
    },
};

/// The folder of the shared material, if it is there.
pub fn shared() -> Result<PathBuf, String> {
    let root = std::env::var_os("FOLIO_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    if root.join("data/claude-code").is_dir() {
        return Ok(root);
    }
    Err(format!(
        "no session files at {}: set FOLIO_SHARED to the folder that holds data/",
        root.display()
    ))
}

/// The session files with their names, sorted.
pub fn files(shared: &Path) -> Result<Vec<(String, Bytes)>, String> {
    let folder = shared.join("data/claude-code");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut out = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ext| ext == "jsonl") {
            let name = path.file_name().unwrap_or_default();
            let bytes = std::fs::read(&path).map_err(failed)?;
            out.push((name.to_string_lossy().into_owned(), Bytes::new(bytes)));
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(out)
}

/// Shared bytes, or a prefix of them.
#[derive(Clone)]
pub struct Bytes {
    all: Arc<[u8]>,
    length: usize,
}

impl Bytes {
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let all = bytes.into();
        let length = all.len();
        Self { all, length }
    }

    pub fn prefix(&self, length: usize) -> Self {
        Self {
            length: length.min(self.all.len()),
            ..self.clone()
        }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.all.get(..self.length).unwrap_or(&self.all)
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| error.to_string())?;
    Ok(runtime.block_on(future))
}

/// Imports bytes under the name of a file.
pub async fn import(store: &Arc<dyn Store>, name: &str, bytes: Bytes) -> Result<Outcome, String> {
    let importer = Importer::new(Arc::clone(store));
    importer
        .import_reader(&BytesSource::new(name, bytes), &ImportOptions::default())
        .await
        .map_err(|error| format!("{name}: {} {error}", error.code()))
}

/// Everything by which two imports of a session are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub head: u64,
    pub chain: [u8; 32],
    pub items: u64,
    pub notes: u64,
    pub notes_chain: [u8; 32],
    pub import_ref: Option<String>,
}

pub async fn state(store: &Arc<dyn Store>, id: &SessionId) -> Result<State, String> {
    let info = store.session(id).await.map_err(|error| error.to_string())?;
    let notes = store
        .contribution_status(id, NOTES)
        .await
        .map_err(|error| error.to_string())?;
    Ok(State {
        head: info.head,
        chain: info.chain,
        items: info.items,
        notes: notes.head,
        notes_chain: notes.chain,
        import_ref: info.import_ref,
    })
}
