//! The rules on this tree, and on small ones that break them.

use std::fs;

use tempfile::TempDir;

use super::*;

type Rule = fn(&Path) -> Result<Vec<String>, Error>;

#[track_caller]
fn this_tree_keeps(rule: Rule) {
    let findings = rule(&crate::workspace_root()).unwrap();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Asserts what a rule finds in a tree of these files.
#[track_caller]
fn finds(rule: Rule, tree: &[(&str, &str)], expected: &[&str]) {
    let dir = TempDir::new().unwrap();
    for (path, text) in tree {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let findings = rule(dir.path()).unwrap();
    assert_eq!(findings.len(), expected.len(), "{findings:#?}");
    for (finding, expected) in findings.iter().zip(expected) {
        assert!(finding.contains(expected), "{findings:#?}");
    }
}

#[test]
fn every_module_of_this_tree_has_docs() {
    this_tree_keeps(modules_without_docs);
}

#[test]
fn every_manifest_of_this_tree_takes_the_lints() {
    this_tree_keeps(manifests_without_lints);
}

#[test]
fn nothing_in_this_tree_is_unfinished() {
    this_tree_keeps(unfinished_code);
}

#[test]
fn every_link_of_this_tree_leads_somewhere() {
    this_tree_keeps(broken_links);
}

#[test]
fn every_place_that_the_architecture_names_exists() {
    this_tree_keeps(lost_places);
}

#[test]
fn a_module_without_docs_is_found() {
    finds(
        modules_without_docs,
        &[
            ("crates/a/src/lib.rs", "//! A.\n"),
            ("crates/a/src/b/c.rs", "use x;\n//! late\n"),
            ("xtask/src/d.rs", ""),
        ],
        &["crates/a/src/b/c.rs", "xtask/src/d.rs"],
    );
}

#[test]
fn a_manifest_without_lints_is_found() {
    finds(
        manifests_without_lints,
        &[
            (
                "crates/a/Cargo.toml",
                "[package]\n\n[lints]\nworkspace = true\n",
            ),
            ("crates/b/Cargo.toml", "lints.workspace = true\n[package]\n"),
            (
                "crates/c/Cargo.toml",
                "[package]\nversion.workspace = true\n[dependencies.x]\nworkspace = true\n",
            ),
            (
                "crates/d/Cargo.toml",
                "[lints]\nworkspace = false\n[other]\nworkspace = true\n",
            ),
        ],
        &["crates/c/Cargo.toml", "crates/d/Cargo.toml"],
    );
}

#[test]
fn a_copy_of_the_lints_may_differ_in_unsafe_code_alone() {
    let workspace = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n[profile.dev]\nx = 1\n";
    let copy = "[lints.rust]\n# Needed.\nunsafe_code = \"deny\"\nmissing_docs = \"warn\"\n";
    let weaker = "[lints.rust]\nunsafe_code = \"deny\"\nmissing_docs = \"allow\"\n";
    let shorter = "[lints.rust]\nunsafe_code = \"forbid\"\n";
    finds(
        manifests_without_lints,
        &[
            ("Cargo.toml", workspace),
            ("crates/a/Cargo.toml", copy),
            ("crates/b/Cargo.toml", weaker),
            ("crates/c/Cargo.toml", shorter),
        ],
        &["crates/b/Cargo.toml", "crates/c/Cargo.toml"],
    );
}

#[test]
fn unfinished_code_is_found_with_its_line() {
    let source = "//! M.\n#[test]\n#[ignore = \"slow\"]\nfn a() {}\nfn b() { todo!() }\nfn c() {\n    unimplemented !(\"c\")\n}\n#[cfg_attr(windows, ignore)]\nfn d() {}\n";
    finds(
        unfinished_code,
        &[("crates/a/src/lib.rs", source)],
        &[
            "lib.rs:3: a test",
            "lib.rs:5: code",
            "lib.rs:7: code",
            "lib.rs:9: a test",
        ],
    );
}

#[test]
fn words_in_comments_and_literals_are_not_code() {
    let source = r###"
        // todo!() and #[ignore]
        /* todo!() /* nested */ todo!() */
        let a = "todo!() \" #[ignore] todo!()";
        let b = r#"todo!() " #[ignore]"#;
        let c = br"todo!()";
        let d: &'static str = 'x: loop { break 'x "\\" };
        let e = ['"', '\'', '\u{1F600}', '猫'];
        let my_todo = 1; if todo != 2 {}
        mytodo!();
    "###;
    assert_eq!(unfinished_lines(source), []);
    assert_eq!(code_only(source).lines().count(), source.lines().count());
}

#[test]
fn code_after_literals_is_still_code() {
    let all = "let a = ('\"', \"'\", r\"\\\", '\\\\', r#\"\"\"#); /**/ todo!()";
    assert_eq!(unfinished_lines(all).len(), 1, "{}", code_only(all));
    assert_eq!(
        unfinished_lines("fn f<'a>(x: &'a str) { todo!() }").len(),
        1
    );
}

#[test]
fn a_link_to_a_missing_file_is_found() {
    let document = "\
[there](docs/a.md) [web](https://example.com/x.md) [top](#head)
[gone](docs/b.md#part) and ![picture](docs/c.png \"title\")
`[code](not/a/link.md)`
```
[fenced](not/a/link.md)
```
[named]: <docs/d e.md>
[outside](../outside.md)
[folder](docs/) [^1]: not a link
";
    finds(
        broken_links,
        &[
            ("README.md", document),
            ("docs/a.md", "[up](../README.md) [space](x%20y.md)"),
            ("docs/x y.md", ""),
            ("target/CACHEDIR.TAG", ""),
            ("target/doc/x.md", "[gone](gone.md)"),
        ],
        &[
            "README.md:2: no file docs/b.md",
            "README.md:2: no file docs/c.png",
            "README.md:7: no file docs/d e.md",
            "README.md:8: no file ../outside.md",
        ],
    );
}

#[test]
fn a_place_that_does_not_exist_is_found() {
    let document = "`crates/a/src/lib.rs:12` `crates/*/golden` `crates/a/<name>.rs`\n`crates/b` and `crates/a/src/c.rs`, crates/d\n";
    finds(
        lost_places,
        &[
            ("ARCHITECTURE.md", document),
            ("crates/a/src/lib.rs", "//! A.\n"),
        ],
        &[
            "ARCHITECTURE.md:2: no file crates/b",
            "ARCHITECTURE.md:2: no file crates/a/src/c.rs",
        ],
    );
    finds(lost_places, &[("crates/a/src/lib.rs", "//! A.\n")], &[]);
}
