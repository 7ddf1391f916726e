//! Golden files are tied to the compatibility epoch.
//!
//! A golden file holds bytes that somebody outside of this build relies on: a
//! cursor, a page, a row, a wire shape. `golden.lock` says which epoch they
//! belong to and the SHA-256 of each. When one of them differs while the epoch
//! is still the same, an old client would read new bytes as if they were its
//! own: the check fails until the epoch is raised or the change is undone.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::{Error, files};

/// The committed record of epoch and golden files.
const LOCK: &str = "golden.lock";
/// Where the epoch is declared.
const DECLARED_IN: &str = "crates/core/src";
const DECLARATION: &str = "pub const COMPATIBILITY_EPOCH: u32 = ";
const HEADER: &str = "# The golden files of this compatibility epoch, by SHA-256.\n# Written by `cargo xtask epoch --accept`; do not edit by hand.\n";

/// Whether somebody may hold bytes of the present epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// Somebody may: changed files need a new epoch.
    Yes,
    /// Nobody does: what the lock holds may be replaced.
    No,
}

/// What became of one golden file since the lock was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The lock does not know it.
    Appeared,
    /// Its bytes differ.
    Changed,
    /// It is gone.
    Vanished,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Appeared => "appeared",
            Self::Changed => "changed",
            Self::Vanished => "vanished",
        })
    }
}

/// What a check or an acceptance came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to tie to an epoch yet: no lock and no golden file.
    NothingYet,
    /// Every golden file is the one of this epoch.
    Same {
        /// The epoch.
        epoch: u32,
        /// How many golden files.
        files: usize,
    },
    /// The lock was written.
    Accepted {
        /// The epoch.
        epoch: u32,
        /// How many golden files.
        files: usize,
    },
    /// Golden files differ from the lock, and the epoch is the same.
    Differs {
        /// The epoch.
        epoch: u32,
        /// What differs, by path.
        changes: BTreeMap<String, Change>,
    },
    /// The epoch was raised, and the lock still holds the old one.
    Raised {
        /// The lock's epoch.
        from: u32,
        /// The declared epoch.
        to: u32,
    },
    /// The epoch is lower than the lock's: epochs only grow.
    Lowered {
        /// The lock's epoch.
        from: u32,
        /// The declared epoch.
        to: u32,
    },
}

impl Verdict {
    /// Whether the rule holds.
    #[must_use]
    pub const fn holds(&self) -> bool {
        matches!(
            self,
            Self::NothingYet | Self::Same { .. } | Self::Accepted { .. }
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingYet => f.write_str("epoch: no golden files yet"),
            Self::Same { epoch, files } => {
                write!(f, "epoch {epoch}: {files} golden files, none changed")
            }
            Self::Accepted { epoch, files } => {
                write!(f, "epoch {epoch}: {files} golden files written to {LOCK}")
            }
            Self::Differs { epoch, changes } => {
                for (path, change) in changes {
                    writeln!(f, "{path}: {change}")?;
                }
                writeln!(
                    f,
                    "epoch {epoch}: {} golden files differ from {LOCK}",
                    changes.len()
                )?;
                f.write_str(advice(changes))
            }
            Self::Raised { from, to } => write!(
                f,
                "epoch {to}: {LOCK} is still of epoch {from}\n    Run `cargo xtask epoch --accept` and commit {LOCK} with the new epoch."
            ),
            Self::Lowered { from, to } => write!(
                f,
                "epoch {to}: {LOCK} is of epoch {from}, and epochs only grow\n    Put COMPATIBILITY_EPOCH in {DECLARED_IN} back to at least {from}."
            ),
        }
    }
}

fn advice(changes: &BTreeMap<String, Change>) -> &'static str {
    if changes.values().all(|change| *change == Change::Appeared) {
        "    New shapes need no new epoch: run `cargo xtask epoch --accept` and commit golden.lock."
    } else {
        "    If the change was not meant, undo it. If it was, old clients and cursors must be refused:\n    raise COMPATIBILITY_EPOCH in crates/core/src, then run `cargo xtask epoch --accept`.\n    If nothing of this epoch was ever released: `cargo xtask epoch --accept --unreleased`."
    }
}

/// Compares the golden files of a workspace with its lock.
///
/// # Errors
///
/// [`Error::Epoch`] if the epoch is not declared exactly once, [`Error::Lock`]
/// if the lock is malformed, [`Error::Io`] if a file cannot be read.
pub fn check(root: &Path) -> Result<Verdict, Error> {
    let golden = golden_files(root)?;
    let lock = read_lock(root)?;
    if golden.is_empty() && lock.is_none() {
        return Ok(Verdict::NothingYet);
    }
    let epoch = declared_epoch(root)?;
    let lock = lock.unwrap_or(Lock {
        epoch,
        files: BTreeMap::new(),
    });
    Ok(compare(epoch, &golden, &lock))
}

/// Writes the lock anew, if that hides no change from those who rely on it.
///
/// Allowed are a raised epoch, files that the lock does not know yet, and
/// anything within an epoch that nobody was given ([`Released::No`]).
///
/// # Errors
///
/// As for [`check`]; a refusal is a verdict, and leaves the lock as it was.
pub fn accept(root: &Path, released: Released) -> Result<Verdict, Error> {
    let golden = golden_files(root)?;
    let epoch = declared_epoch(root)?;
    if let Some(lock) = read_lock(root)? {
        let verdict = compare(epoch, &golden, &lock);
        let refused = match &verdict {
            Verdict::Lowered { .. } => true,
            Verdict::Differs { changes, .. } => {
                released == Released::Yes
                    && changes.values().any(|change| *change != Change::Appeared)
            }
            _ => false,
        };
        if refused {
            return Ok(verdict);
        }
    }
    let path = root.join(LOCK);
    fs::write(&path, render(epoch, &golden)).map_err(|error| Error::io(&path, error))?;
    Ok(Verdict::Accepted {
        epoch,
        files: golden.len(),
    })
}

/// Digests by path.
type Files = BTreeMap<String, String>;

struct Lock {
    epoch: u32,
    files: Files,
}

fn compare(epoch: u32, golden: &Files, lock: &Lock) -> Verdict {
    if epoch != lock.epoch {
        let (from, to) = (lock.epoch, epoch);
        return if to > from {
            Verdict::Raised { from, to }
        } else {
            Verdict::Lowered { from, to }
        };
    }
    let mut changes = BTreeMap::new();
    for (path, digest) in golden {
        match lock.files.get(path) {
            None => changes.insert(path.clone(), Change::Appeared),
            Some(locked) if locked != digest => changes.insert(path.clone(), Change::Changed),
            Some(_) => None,
        };
    }
    for path in lock.files.keys().filter(|path| !golden.contains_key(*path)) {
        changes.insert(path.clone(), Change::Vanished);
    }
    if changes.is_empty() {
        Verdict::Same {
            epoch,
            files: golden.len(),
        }
    } else {
        Verdict::Differs { epoch, changes }
    }
}

fn golden_files(root: &Path) -> Result<Files, Error> {
    let mut found = Files::new();
    for member in files::entries(&root.join("crates"))? {
        for path in files::below(&member.join("golden"))? {
            let bytes = fs::read(&path).map_err(|error| Error::io(&path, error))?;
            found.insert(files::relative(root, &path), hex(&Sha256::digest(&bytes)));
        }
    }
    Ok(found)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn declared_epoch(root: &Path) -> Result<u32, Error> {
    let mut declared = None;
    for path in files::with_extension(&root.join(DECLARED_IN), "rs")? {
        let text = files::text(&path)?;
        for value in text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(DECLARATION))
        {
            let value = value.trim_end_matches(';').replace('_', "");
            let epoch = value
                .parse()
                .map_err(|_| Error::Epoch(format!("`{value}` is not a number")))?;
            if declared.replace(epoch).is_some() {
                return Err(Error::Epoch(format!("declared twice in {DECLARED_IN}")));
            }
        }
    }
    declared.ok_or_else(|| {
        Error::Epoch(format!(
            "golden files are tied to an epoch, and no file in {DECLARED_IN} has the line `{DECLARATION}N;`"
        ))
    })
}

fn render(epoch: u32, golden: &Files) -> String {
    let mut text = format!("{HEADER}epoch {epoch}\n");
    for (path, digest) in golden {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{digest}  {path}");
    }
    text
}

fn read_lock(root: &Path) -> Result<Option<Lock>, Error> {
    let path = root.join(LOCK);
    match fs::read_to_string(&path) {
        Ok(text) => parse_lock(&text).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(&path, error)),
    }
}

fn parse_lock(text: &str) -> Result<Lock, Error> {
    let mut epoch = None;
    let mut files = Files::new();
    for (index, line) in text.lines().enumerate() {
        let malformed = |problem| Error::Lock {
            line: index + 1,
            problem,
        };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(number) = line.strip_prefix("epoch ") {
            let number = number
                .parse()
                .map_err(|_| malformed("the epoch is not a number"))?;
            if epoch.replace(number).is_some() {
                return Err(malformed("a second epoch"));
            }
            continue;
        }
        let (digest, path) = line
            .split_once("  ")
            .ok_or_else(|| malformed("neither an epoch nor a digest and a path"))?;
        if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(malformed("the digest is not 64 hexadecimal digits"));
        }
        if files.insert(path.to_owned(), digest.to_owned()).is_some() {
            return Err(malformed("a path that is named twice"));
        }
    }
    let epoch = epoch.ok_or(Error::Lock {
        line: 1,
        problem: "no epoch",
    })?;
    Ok(Lock { epoch, files })
}

#[cfg(test)]
mod tests;
