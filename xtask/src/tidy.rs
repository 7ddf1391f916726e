//! Small rules about source files, manifests and documents.
//!
//! Each rule is a function from a workspace folder to a list of findings, each
//! a line that names the file and what is wrong with it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::{Error, files};

/// Finds module files that do not start with `//!`.
///
/// # Errors
///
/// [`Error::Io`] if a file cannot be read; so for every rule of this module.
pub fn modules_without_docs(root: &Path) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for path in rust_files(root)? {
        if !files::text(&path)?.starts_with("//!") {
            findings.push(format!(
                "{}: a module starts with `//!` and what it is for",
                files::relative(root, &path)
            ));
        }
    }
    Ok(findings)
}

/// Finds manifests that do not take the workspace's lints.
///
/// # Errors
///
/// [`Error::Io`] if a file cannot be read.
pub fn manifests_without_lints(root: &Path) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    let workspace = root.join("Cargo.toml");
    let table = if workspace.is_file() {
        lint_lines(&files::text(&workspace)?, "[workspace.lints")
    } else {
        BTreeSet::new()
    };
    for member in members(root)? {
        let path = member.join("Cargo.toml");
        if !path.is_file() {
            continue;
        }
        let manifest = files::text(&path)?;
        // Cargo takes a table whole or not at all; a crate that needs `unsafe`
        // has to copy it.
        let copied = !table.is_empty() && lint_lines(&manifest, "[lints") == table;
        if !copied && !takes_workspace_lints(&manifest) {
            findings.push(format!(
                "{}: a crate has `[lints] workspace = true`, or a copy that differs in `unsafe_code` alone",
                files::relative(root, &path)
            ));
        }
    }
    Ok(findings)
}

/// The lints of a table but for `unsafe_code`, each with the end of its
/// section's name.
fn lint_lines(manifest: &str, table: &str) -> BTreeSet<String> {
    let mut section = None;
    let mut lines = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.strip_prefix(table);
        } else if let Some(section) = section
            && !line.is_empty()
            && !line.starts_with('#')
            && !line.starts_with("unsafe_code")
        {
            lines.insert(format!("{section} {line}"));
        }
    }
    lines
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let mut section = "";
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            section = line;
        }
        let key: String = line.split_whitespace().collect();
        match section {
            "[lints]" => key == "workspace=true",
            "" => key == "lints.workspace=true",
            _ => false,
        }
    })
}

/// Finds tests that do not run and code that is not there yet.
///
/// # Errors
///
/// [`Error::Io`] if a file cannot be read.
pub fn unfinished_code(root: &Path) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for path in rust_files(root)? {
        for (line, problem) in unfinished_lines(&files::text(&path)?) {
            findings.push(format!(
                "{}:{line}: {problem}",
                files::relative(root, &path)
            ));
        }
    }
    Ok(findings)
}

fn unfinished_lines(source: &str) -> Vec<(usize, &'static str)> {
    let mut findings = Vec::new();
    for (index, line) in code_only(source).lines().enumerate() {
        let dense: String = line.split_whitespace().collect();
        let ignores = dense.contains("#[ignore")
            || (dense.contains("cfg_attr(")
                && (dense.contains(",ignore)") || dense.contains(",ignore=")));
        if ignores {
            findings.push((index + 1, "a test that is ignored proves nothing"));
        }
        for name in ["todo", "unimplemented"] {
            if calls_macro(&dense, name) {
                findings.push((index + 1, "code that is not there yet is not committed"));
            }
        }
    }
    findings
}

fn calls_macro(dense: &str, name: &str) -> bool {
    let call = format!("{name}!");
    dense.match_indices(&call).any(|(at, _)| {
        let longer_name = dense[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let comparison = dense[at + call.len()..].starts_with('=');
        !longer_name && !comparison
    })
}

/// Blanks comments and the insides of literals, so that what is left is code.
///
/// Lines stay where they are. Lifetimes are told from characters by the quote
/// that does not follow.
fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = raw_string(&code, rest) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            character(rest)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..length].chars().filter(|c| *c == '\n'));
        code.push(' ');
        rest = &rest[length..];
    }
    code
}

/// The length of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a raw string that starts here.
fn raw_string(before: &str, text: &str) -> Option<usize> {
    let inside_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
        && !(before.ends_with('b') || before.ends_with('c'));
    let after = text.strip_prefix('r').filter(|_| !inside_name)?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let inner = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = inner
        .find(&close)
        .map_or(inner.len(), |at| at + close.len());
    Some(text.len() - inner.len() + end)
}

/// The length of a literal with escapes, its quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// The length of a character literal, or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(text, '\''),
        _ => 1,
    }
}

/// Finds relative Markdown links to files that do not exist in this tree.
///
/// # Errors
///
/// [`Error::Io`] if a file cannot be read.
pub fn broken_links(root: &Path) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for path in files::with_extension(root, "md")? {
        let from = path.parent().unwrap_or(root);
        for (line, target) in links(&files::text(&path)?) {
            if !leads_somewhere(root, from, &target) {
                findings.push(format!(
                    "{}:{line}: no file {target}",
                    files::relative(root, &path)
                ));
            }
        }
    }
    Ok(findings)
}

fn leads_somewhere(root: &Path, from: &Path, target: &str) -> bool {
    let path = target.split(['#', '?']).next().unwrap_or("");
    let elsewhere = path.contains("://") || path.starts_with("mailto:");
    if path.is_empty() || elsewhere {
        return true;
    }
    let path = path.replace("%20", " ");
    // A clone has nothing outside of the root, whatever this machine has there.
    let inside = normal(&from.join(&path)).starts_with(normal(root));
    inside && from.join(path).exists()
}

/// A path without `.` and `..`, links not followed.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

/// The targets of a document's links, with their lines, from 1.
fn links(document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(document) {
        let text = without_code_spans(text);
        for (at, opening) in text.match_indices("](") {
            let target = &text[at + opening.len()..];
            if let Some(target) = link_target(target, ')') {
                found.push((line, target));
            }
        }
        let definition = text
            .trim_start()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]:"))
            .filter(|(name, _)| !name.contains(']') && !name.starts_with('^'));
        if let Some((_, target)) = definition
            && let Some(target) = link_target(target.trim_start(), ' ')
        {
            found.push((line, target));
        }
    }
    found
}

/// Reads one target: bare up to a blank or the closing character, or in `<>`.
fn link_target(text: &str, close: char) -> Option<String> {
    let target = match text.strip_prefix('<') {
        Some(inner) => inner.split('>').next(),
        None => text.split(|c: char| c == close || c.is_whitespace()).next(),
    };
    target
        .filter(|target| !target.is_empty())
        .map(ToOwned::to_owned)
}

/// The lines of a document that are not inside a fenced block.
fn prose(document: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (index, line) in document.lines().enumerate() {
        let marker = ["```", "~~~"]
            .into_iter()
            .find(|marker| line.trim_start().starts_with(marker));
        match (fence, marker) {
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if open == marker => fence = None,
            (None, None) => lines.push((index + 1, line)),
            _ => {}
        }
    }
    lines
}

fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Finds paths into `crates/` that ARCHITECTURE.md names and that do not exist.
///
/// A path with a wildcard or a placeholder is checked up to it.
///
/// # Errors
///
/// [`Error::Io`] if a file cannot be read.
pub fn lost_places(root: &Path) -> Result<Vec<String>, Error> {
    let path = root.join("ARCHITECTURE.md");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    for (line, text) in prose(&files::text(&path)?) {
        for span in text.split('`').skip(1).step_by(2) {
            let word = span.split([' ', ':', '#']).next().unwrap_or("");
            if !word.starts_with("crates/") {
                continue;
            }
            let sure: PathBuf = word
                .split('/')
                .take_while(|part| {
                    !part.contains(['*', '<', '{', '?']) && *part != "…" && *part != "..."
                })
                .collect();
            if !root.join(sure).exists() {
                findings.push(format!("ARCHITECTURE.md:{line}: no file {word}"));
            }
        }
    }
    Ok(findings)
}

/// The folders of the workspace's crates.
fn members(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut folders = files::entries(&root.join("crates"))?;
    folders.push(root.join("xtask"));
    Ok(folders)
}

/// Every source file of every crate: library, binaries, tests, benches, examples.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for member in members(root)? {
        found.extend(files::with_extension(&member, "rs")?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
