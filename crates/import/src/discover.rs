//! Session files under paths.

use crate::format::{Format, Recognition};
use crate::outcome::Outcome;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// What was found under some paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The files to import: those that were named, whatever they are, and the
    /// session files of folders, sorted, each once.
    pub files: Vec<PathBuf>,
    /// Paths that give no file to import, with the reason.
    pub refused: Vec<Outcome>,
}

/// Finds session files. A file is taken as it is named; a folder is walked,
/// and files in it that no format recognizes are passed over. A link that is
/// named is followed, and so is one in a folder that leads to a file; one in a
/// folder that leads to a folder is not.
pub fn discover(paths: &[PathBuf], format: Option<Format>) -> Discovery {
    let mut walk = Walk {
        format,
        found: Discovery::default(),
        folders: HashMap::new(),
        files: HashMap::new(),
        at: 0,
        again: false,
    };
    for (at, path) in paths.iter().enumerate() {
        (walk.at, walk.again) = (at, false);
        match std::fs::metadata(path) {
            Err(error) => walk.refuse(path, &error),
            Ok(metadata) if metadata.is_dir() => {
                let before = walk.found.files.len() + walk.found.refused.len();
                walk.folder(path);
                let after = walk.found.files.len() + walk.found.refused.len();
                if after == before && !walk.again {
                    walk.found.refused.push(Outcome::rejected(
                        path.display().to_string(),
                        "no_sessions",
                        "there is no session file in this folder; \
                         name a file, or the folder of an agent's sessions"
                            .to_owned(),
                    ));
                }
            }
            Ok(_) => walk.take(path),
        }
    }
    walk.found
}

/// The folders where agents keep their sessions, as far as they exist.
/// `variable` answers environment variables.
pub fn known_folders(home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let claude = variable("CLAUDE_CONFIG_DIR")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| home.join(".claude"), PathBuf::from);
    let folders = [claude.join("projects")];
    folders.into_iter().filter(|path| path.is_dir()).collect()
}

struct Walk {
    format: Option<Format>,
    found: Discovery,
    /// Folders and files by their real paths, since several may lead to one,
    /// and the path that led to each first.
    folders: HashMap<PathBuf, usize>,
    files: HashMap<PathBuf, usize>,
    /// The path that is walked.
    at: usize,
    /// Whether it leads to what an earlier path has given already.
    again: bool,
}

impl Walk {
    fn folder(&mut self, folder: &Path) {
        match std::fs::canonicalize(folder) {
            Ok(real) => {
                if let Some(first) = self.folders.get(&real) {
                    self.again |= *first != self.at;
                    return;
                }
                self.folders.insert(real, self.at);
            }
            Err(error) => return self.refuse(folder, &error),
        }
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.refuse(folder, &error),
        };
        let mut paths = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => paths.push(entry.path()),
                Err(error) => self.refuse(folder, &error),
            }
        }
        paths.sort();
        for path in paths {
            match std::fs::metadata(&path) {
                // A link may lead anywhere, to the root of all files too.
                Ok(metadata) if metadata.is_dir() => {
                    if !path.is_symlink() {
                        self.folder(&path);
                    }
                }
                Ok(metadata) if metadata.is_file() => self.file(&path),
                Ok(_) => {}
                // A link that leads nowhere, or to itself, is no session.
                Err(_) if path.is_symlink() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.refuse(&path, &error),
            }
        }
    }

    /// A file of a folder: taken if a format recognizes it.
    fn file(&mut self, path: &Path) {
        let open = || Ok(BufReader::new(File::open(path)?));
        match Format::recognize(self.format, open) {
            Ok(Recognition::Session(_) | Recognition::NoConversation(_)) => self.take(path),
            Ok(Recognition::Nothing(..)) => {}
            Err(error) => self.refuse(path, &error),
        }
    }

    fn take(&mut self, path: &Path) {
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Some(first) = self.files.get(&real) {
            self.again |= *first != self.at;
            return;
        }
        self.files.insert(real, self.at);
        self.found.files.push(path.to_owned());
    }

    fn refuse(&mut self, path: &Path, error: &io::Error) {
        let message = format!("cannot be read: {error}; check the path and its permissions");
        let path = path.display().to_string();
        let outcome = Outcome::rejected(path, "io_error", message);
        self.found.refused.push(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_to_files_are_followed_and_links_to_folders_only_where_they_are_named() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let [walked, outside] = ["walked", "outside"].map(|name| dir.path().join(name));
        let session = b"{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"hi\"}}\n";
        for folder in [&walked, &outside] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(outside.join("1.jsonl"), session).unwrap();
        std::fs::write(outside.join("2.jsonl"), session).unwrap();
        symlink(outside.join("1.jsonl"), walked.join("file.jsonl")).unwrap();
        symlink(&outside, walked.join("folder")).unwrap();
        symlink("/", walked.join("root")).unwrap();
        symlink(&walked, walked.join("loop")).unwrap();
        symlink(walked.join("b"), walked.join("a")).unwrap();
        symlink(walked.join("a"), walked.join("b")).unwrap();
        let found = discover(std::slice::from_ref(&walked), None);
        assert_eq!(found.files, [walked.join("file.jsonl")]);
        assert_eq!(found.refused, []);
        let named = walked.join("folder");
        let found = discover(std::slice::from_ref(&named), None);
        assert_eq!(found.files, [named.join("1.jsonl"), named.join("2.jsonl")]);
        assert_eq!(found.refused, []);
    }

    #[test]
    fn folders_are_walked_and_only_sessions_taken() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let projects = home.join(".claude/projects");
        std::fs::create_dir_all(projects.join("b/deep")).unwrap();
        let session = b"{\"type\":\"user\",\"sessionId\":\"s\",\"message\":{\"content\":\"hi\"}}\n";
        std::fs::write(projects.join("b/deep/2.jsonl"), session).unwrap();
        std::fs::write(projects.join("a.jsonl"), session).unwrap();
        std::fs::write(projects.join("notes.md"), b"# notes\n").unwrap();
        std::fs::write(projects.join("empty.jsonl"), b"").unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&projects, projects.join("b/loop")).unwrap();
            std::os::unix::fs::symlink(projects.join("a.jsonl"), projects.join("c.jsonl")).unwrap();
            std::os::unix::fs::symlink("nowhere", projects.join("dead.jsonl")).unwrap();
        }
        assert_eq!(
            known_folders(home, |_| None),
            std::slice::from_ref(&projects)
        );
        assert!(known_folders(home, |_| Some("/nowhere".into())).is_empty());
        let found = discover(&known_folders(home, |_| None), None);
        let expected = [projects.join("a.jsonl"), projects.join("b/deep/2.jsonl")];
        assert_eq!(found.files, expected);
        assert_eq!(found.refused, []);
        let named = [
            projects.join("notes.md"),
            projects.join("gone"),
            projects.join("b/nothing"),
        ];
        std::fs::create_dir(&named[2]).unwrap();
        let found = discover(&named, None);
        assert_eq!(found.files, named[..1]);
        let codes: Vec<_> = found
            .refused
            .iter()
            .map(|outcome| outcome.diagnostics[0].code)
            .collect();
        assert_eq!(codes, ["io_error", "no_sessions"]);
        // What was visited is not visited again, and that is no outcome.
        let file = projects.join("a.jsonl");
        let deep = projects.join("b/deep");
        for paths in [
            [&projects, &projects],
            [&projects, &deep],
            [&deep, &projects],
            [&projects, &file],
            [&file, &projects],
        ] {
            let found = discover(&paths.map(Clone::clone), None);
            let mut files = found.files;
            files.sort();
            assert_eq!(files, expected);
            assert_eq!(found.refused, []);
        }
        let only = discover(&[deep.join("2.jsonl"), deep.clone()], None);
        assert_eq!((only.files.len(), only.refused.len()), (1, 0));
    }
}
