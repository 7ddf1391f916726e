//! The tasks of the workspace: rules about the tree that the compiler cannot check.
//!
//! * [`mod@bench`]: the performance measures (`cargo xtask bench`)
//! * [`layers`]: which crate may depend on which (`cargo xtask layers`)
//! * [`conformance`]: every case on every adapter (`cargo xtask conformance`)
//! * [`epoch`]: golden files are tied to the compatibility epoch (`cargo xtask epoch`)
//! * [`tidy`]: small rules about source files, manifests and documents (tests only)
//!
//! Each task is a function from a workspace folder to its findings, so the
//! tests run the same code on this workspace and on small broken ones.

pub mod bench;
pub mod conformance;
pub mod epoch;
mod files;
pub mod layers;
pub mod tidy;

use std::path::{Path, PathBuf};

/// Why a task could not give an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// `cargo metadata` failed, so the manifests are not known.
    #[error("cargo metadata: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    /// A task could not build or start what it needs.
    #[error("{0}")]
    Task(String),
    /// The epoch is declared in no place, in several, or not as a number.
    #[error("compatibility epoch: {0}")]
    Epoch(String),
    /// A line of `golden.lock` that `cargo xtask epoch --accept` never writes.
    #[error("golden.lock, line {line}: {problem}; restore the file from version control")]
    Lock {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_path_buf(),
            source,
        }
    }
}

/// The folder of this workspace.
///
/// `cargo run` names the manifest of the crate it runs; a binary that is
/// started by hand falls back to the folder it was built in.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}
