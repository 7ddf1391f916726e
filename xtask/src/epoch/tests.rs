//! The life of golden files in a workspace of three folders.

use tempfile::TempDir;

use super::*;

const PAGE: &str = "crates/transcript/golden/page/last.json";
const CURSOR: &str = "crates/transcript/golden/cursor.txt";

struct Tree(TempDir);

impl Tree {
    /// A tree at an epoch, without golden files.
    fn at(epoch: u32) -> Self {
        let tree = Self(TempDir::new().unwrap());
        tree.declare(epoch);
        tree
    }

    /// A tree whose page and cursor are locked.
    fn locked() -> Self {
        let tree = Self::at(1);
        tree.write(PAGE, "{\"entries\":[]}\n");
        tree.write(CURSOR, "AQID\n");
        assert!(tree.accept(Released::Yes).holds());
        tree
    }

    fn declare(&self, epoch: u32) {
        self.write(
            "crates/core/src/epoch.rs",
            &format!("//! Epoch.\n\n/// E.\npub const COMPATIBILITY_EPOCH: u32 = {epoch};\n"),
        );
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.0.path().join(path)).unwrap();
    }

    fn lock(&self) -> String {
        fs::read_to_string(self.0.path().join(LOCK)).unwrap()
    }

    fn check(&self) -> Verdict {
        check(self.0.path()).unwrap()
    }

    fn accept(&self, released: Released) -> Verdict {
        accept(self.0.path(), released).unwrap()
    }

    /// Asserts that the check fails with these changes, and with this advice.
    #[track_caller]
    fn differs(&self, changes: &[(&str, Change)], advice: &str) {
        let verdict = self.check();
        let expected = changes
            .iter()
            .map(|(path, change)| ((*path).to_owned(), *change))
            .collect();
        assert_eq!(
            verdict,
            Verdict::Differs {
                epoch: 1,
                changes: expected
            }
        );
        assert!(!verdict.holds());
        assert!(verdict.to_string().contains(advice), "{verdict}");
    }

    /// Asserts that accepting is refused and leaves the lock alone.
    #[track_caller]
    fn refuses(&self, released: Released) {
        let before = self.lock();
        assert!(!self.accept(released).holds());
        assert_eq!(self.lock(), before);
    }
}

#[test]
fn a_tree_without_golden_files_has_nothing_to_check() {
    let tree = Tree(TempDir::new().unwrap());
    assert_eq!(tree.check(), Verdict::NothingYet);
}

#[test]
fn golden_files_without_an_epoch_are_an_error() {
    let tree = Tree(TempDir::new().unwrap());
    tree.write(PAGE, "{}");
    assert!(matches!(check(tree.0.path()), Err(Error::Epoch(_))));
}

#[test]
fn an_epoch_that_is_declared_twice_is_an_error() {
    let tree = Tree::locked();
    tree.write(
        "crates/core/src/other.rs",
        "pub const COMPATIBILITY_EPOCH: u32 = 1;\n",
    );
    assert!(matches!(check(tree.0.path()), Err(Error::Epoch(_))));
}

#[test]
fn golden_files_without_a_lock_are_new() {
    let tree = Tree::at(1);
    tree.write(PAGE, "{}");
    tree.differs(&[(PAGE, Change::Appeared)], "need no new epoch");
}

#[test]
fn a_locked_tree_holds() {
    let tree = Tree::locked();
    assert_eq!(tree.check(), Verdict::Same { epoch: 1, files: 2 });
    assert_eq!(
        tree.lock(),
        format!(
            "{HEADER}epoch 1\n\
             cff1164fe1dda3f4081e3c39a6b8ac92808ce2effdfaa210776052bb334719c2  {CURSOR}\n\
             7a0b7943ccd293821e69c3413abdfebf3d74e3d9a2a92c2f362a7fcbab72f8b3  {PAGE}\n"
        )
    );
}

#[test]
fn a_changed_file_needs_a_new_epoch() {
    let tree = Tree::locked();
    tree.write(PAGE, "{\"entries\":[],\"older\":null}\n");
    tree.differs(&[(PAGE, Change::Changed)], "raise COMPATIBILITY_EPOCH");
    tree.refuses(Released::Yes);

    tree.declare(2);
    assert_eq!(tree.check(), Verdict::Raised { from: 1, to: 2 });
    assert!(tree.accept(Released::Yes).holds());
    assert_eq!(tree.check(), Verdict::Same { epoch: 2, files: 2 });
}

#[test]
fn a_vanished_file_needs_a_new_epoch() {
    let tree = Tree::locked();
    tree.remove(CURSOR);
    tree.differs(&[(CURSOR, Change::Vanished)], "raise COMPATIBILITY_EPOCH");
    tree.refuses(Released::Yes);
}

#[test]
fn a_moved_file_has_vanished_and_appeared() {
    let tree = Tree::locked();
    let moved = "crates/projector/golden/cursor.txt";
    tree.remove(CURSOR);
    tree.write(moved, "AQID\n");
    tree.differs(
        &[(CURSOR, Change::Vanished), (moved, Change::Appeared)],
        "raise COMPATIBILITY_EPOCH",
    );
    tree.refuses(Released::Yes);
}

#[test]
fn a_new_file_is_accepted_in_the_same_epoch() {
    let tree = Tree::locked();
    let row = "crates/core/golden/row.json";
    tree.write(row, "{}\n");
    tree.differs(&[(row, Change::Appeared)], "need no new epoch");
    assert!(tree.accept(Released::Yes).holds());
    assert_eq!(tree.check(), Verdict::Same { epoch: 1, files: 3 });
}

#[test]
fn an_unreleased_epoch_may_be_rewritten() {
    let tree = Tree::locked();
    tree.write(PAGE, "{\"entries\":[1]}\n");
    tree.remove(CURSOR);
    assert!(tree.accept(Released::No).holds());
    assert_eq!(tree.check(), Verdict::Same { epoch: 1, files: 1 });
}

#[test]
fn a_lowered_epoch_is_refused_even_if_unreleased() {
    let tree = Tree::locked();
    tree.declare(0);
    assert_eq!(tree.check(), Verdict::Lowered { from: 1, to: 0 });
    tree.refuses(Released::No);
}

#[test]
fn a_damaged_lock_is_an_error_with_its_line() {
    let tree = Tree::locked();
    tree.write(LOCK, "epoch 1\nnot a digest\n");
    let error = check(tree.0.path()).unwrap_err();
    assert!(
        error.to_string().starts_with("golden.lock, line 2:"),
        "{error}"
    );
    tree.write(LOCK, "");
    assert!(check(tree.0.path()).is_err());
}
