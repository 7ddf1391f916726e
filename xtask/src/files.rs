//! Walking a source tree in a stable order, with paths that read alike everywhere.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// Lists the entries of a folder by name; a missing folder has none.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listing = match fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(folder, error)),
    };
    let mut paths = Vec::new();
    for entry in listing {
        paths.push(entry.map_err(|error| Error::io(folder, error))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Lists every file below a folder, but for build output and hidden folders.
///
/// Build output is a folder that cargo marked with a `CACHEDIR.TAG`. Links to
/// folders are not followed.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(next) = waiting.pop() {
        if next.join("CACHEDIR.TAG").is_file() {
            continue;
        }
        for path in entries(&next)? {
            let hidden = path
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with('.'));
            if path.is_dir() && !path.is_symlink() {
                if !hidden {
                    waiting.push(path);
                }
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Lists the files below a folder with one extension.
pub(crate) fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, Error> {
    let mut found = below(folder)?;
    found.retain(|path| path.extension().is_some_and(|own| own == extension));
    Ok(found)
}

/// Reads a text file.
pub(crate) fn text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::io(path, error))
}

/// Names a path from the root, with `/` on every platform.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = inside
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    parts.join("/")
}
