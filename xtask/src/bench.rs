//! The performance measures, run as programs are built for use.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use crate::Error;

/// The crate whose binary of the same name measures.
const PACKAGE: &str = "folio-bench";

/// Builds the binary with optimisations and runs it with these words; answers
/// whether it was content.
///
/// # Errors
///
/// [`Error::Task`] if cargo cannot be started.
pub fn run(root: &Path, words: &[impl AsRef<OsStr>]) -> Result<bool, Error> {
    let status = command(root, words)
        .status()
        .map_err(|error| Error::Task(format!("cargo run -p {PACKAGE}: {error}")))?;
    Ok(status.success())
}

fn command(root: &Path, words: &[impl AsRef<OsStr>]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--release", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .args(["--package", PACKAGE, "--bin", PACKAGE, "--"])
        .args(words);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use cargo_metadata::MetadataCommand;

    #[test]
    fn the_workspace_has_the_binary_that_is_run() -> Result<(), Error> {
        let root = crate::workspace_root();
        let metadata = MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .other_options(["--offline".to_owned()])
            .exec()?;
        let found = metadata
            .packages
            .iter()
            .filter(|package| package.name.as_str() == PACKAGE)
            .flat_map(|package| &package.targets)
            .any(|target| target.is_bin() && target.name == PACKAGE);
        assert!(found, "no binary {PACKAGE}");
        Ok(())
    }

    #[test]
    fn words_are_passed_on_behind_the_dashes() {
        let command = command(Path::new("/w"), &["--quick", "page"]);
        let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        assert_eq!(words[words.len() - 3..], ["--", "--quick", "page"]);
        assert!(words.iter().any(|word| word == "--release"));
    }
}
