//! The rules on this workspace, and on small ones that each break one.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// A workspace of crates that exist only as manifests.
struct Workspace(TempDir);

impl Workspace {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(
            dir.path().join("Cargo.toml"),
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n",
        )
        .unwrap();
        Self(dir)
    }

    /// Adds a crate in its own folder, `crates/NAME` without the `folio-`.
    fn with(self, name: &str, layer: &str, rest: &str) -> Self {
        let metadata = format!("[package.metadata.folio]\nlayer = \"{layer}\"\n{rest}");
        self.with_manifest(name, &metadata)
    }

    fn with_manifest(self, name: &str, rest: &str) -> Self {
        let folder = self
            .0
            .path()
            .join("crates")
            .join(name.trim_start_matches("folio-"));
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src/lib.rs"), "").unwrap();
        fs::write(
            folder.join("Cargo.toml"),
            format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}"
            ),
        )
        .unwrap();
        self
    }

    fn report(&self) -> Report {
        check(self.0.path()).unwrap()
    }

    /// Asserts exactly one violation: its file, its edge and a part of its rule.
    #[track_caller]
    fn refuses(&self, manifest: &str, edge: &str, rule: &str) {
        let report = self.report();
        let shown: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
        let [violation] = report.violations.as_slice() else {
            panic!("one violation expected, not {shown:#?}");
        };
        assert_eq!(violation.manifest, manifest);
        assert_eq!(violation.edge, edge);
        assert!(violation.rule.contains(rule), "{shown:#?}");
    }
}

/// One crate of each lower layer, in order.
fn tower() -> Workspace {
    Workspace::new()
        .with(
            "folio-core",
            "domain",
            "[dependencies]\nserde = { version = \"1\", optional = true }\n[dev-dependencies]\nproptest = \"1\"\n",
        )
        .with("folio-codec", "bytes", "[dependencies]\nfolio-core = { path = \"../core\" }\nsha2 = \"0.11\"\n")
        .with(
            "folio-store",
            "port",
            "[dependencies]\nfolio-core = { path = \"../core\" }\nfolio-codec = { path = \"../codec\" }\n",
        )
        .with(
            "folio-store-memory",
            "adapter",
            "[dependencies]\nfolio-store = { path = \"../store\" }\n[dev-dependencies]\nfolio-testkit = { path = \"../testkit\" }\n",
        )
        .with(
            "folio-testkit",
            "proof",
            "[dependencies]\nfolio-store = { path = \"../store\" }\nfolio-store-memory = { path = \"../store-memory\" }\n",
        )
        .with("folio-projector", "projection", "[dependencies]\nfolio-store = { path = \"../store\" }\n")
}

fn dependency(section: &str, line: &str) -> String {
    format!("[{section}]\n{line}\n")
}

#[test]
fn this_workspace_keeps_its_layers() {
    let report = check(&crate::workspace_root()).unwrap();
    let shown: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert!(report.crates > 1 && report.edges > 1, "{report:?}");
}

#[test]
fn a_tower_in_order_is_allowed() {
    let report = tower()
        .with(
            "folio-transcript",
            "use-case",
            "[dependencies]\nfolio-projector = { path = \"../projector\" }\n[dev-dependencies]\nfolio-testkit = { path = \"../testkit\" }\n",
        )
        .with("folio-host", "edge", "[dependencies]\nfolio-transcript = { path = \"../transcript\" }\n")
        .with(
            "folio-bench",
            "root",
            "[dependencies]\nfolio-host = { path = \"../host\" }\nfolio-testkit = { path = \"../testkit\" }\nfolio-store-memory = { path = \"../store-memory\" }\n",
        )
        .report();
    assert_eq!(report.violations, []);
    assert_eq!((report.crates, report.edges), (9, 14));
}

#[test]
fn a_crate_without_a_layer_is_refused() {
    tower().with_manifest("folio-search", "").refuses(
        "crates/search/Cargo.toml",
        "folio-search",
        "declares its layer",
    );
}

#[test]
fn an_unknown_layer_is_refused() {
    tower().with("folio-search", "usecase", "").refuses(
        "crates/search/Cargo.toml",
        "folio-search",
        "\"usecase\" is not a layer",
    );
}

#[test]
fn a_layer_that_is_not_a_name_is_refused() {
    tower()
        .with_manifest("folio-search", "[package.metadata.folio]\nlayer = 3\n")
        .refuses(
            "crates/search/Cargo.toml",
            "folio-search",
            "3 is not a layer",
        );
}

#[test]
fn the_domain_on_another_crate_is_refused_even_if_optional() {
    Workspace::new()
        .with("folio-codec", "bytes", "")
        .with(
            "folio-core",
            "domain",
            &dependency(
                "dependencies",
                "folio-codec = { path = \"../codec\", optional = true }",
            ),
        )
        .refuses(
            "crates/core/Cargo.toml",
            "folio-core (domain) -> folio-codec (bytes), optional",
            "depends on nothing",
        );
}

#[test]
fn the_domain_on_a_crate_from_elsewhere_is_refused() {
    Workspace::new()
        .with(
            "folio-core",
            "domain",
            &dependency("dependencies", "memchr = \"2\""),
        )
        .refuses(
            "crates/core/Cargo.toml",
            "folio-core (domain) -> memchr",
            "when default features are off",
        );
}

#[test]
fn the_domain_with_a_build_dependency_is_refused() {
    Workspace::new()
        .with(
            "folio-core",
            "domain",
            &dependency("build-dependencies", "cc = \"1\""),
        )
        .refuses(
            "crates/core/Cargo.toml",
            "folio-core (domain) -> cc, build dependency",
            "when default features are off",
        );
}

#[test]
fn the_port_on_an_adapter_is_refused_under_another_name_and_for_one_platform() {
    Workspace::new()
        .with("folio-store-redb", "adapter", "")
        .with(
            "folio-store",
            "port",
            "[target.'cfg(windows)'.dependencies]\nengine = { package = \"folio-store-redb\", path = \"../store-redb\" }\n",
        )
        .refuses(
            "crates/store/Cargo.toml",
            "folio-store (port) -> folio-store-redb (adapter), for cfg(windows), renamed to engine",
            "knows no engine",
        );
}

#[test]
fn an_adapter_on_another_adapter_is_refused_as_a_build_dependency_too() {
    tower()
        .with(
            "folio-store-sqlite",
            "adapter",
            &dependency(
                "build-dependencies",
                "folio-store-memory = { path = \"../store-memory\" }",
            ),
        )
        .refuses(
            "crates/store-sqlite/Cargo.toml",
            "folio-store-sqlite (adapter) -> folio-store-memory (adapter), build dependency",
            "never on another adapter",
        );
}

#[test]
fn an_adapter_on_a_use_case_is_refused() {
    tower()
        .with("folio-import", "use-case", "")
        .with(
            "folio-store-sqlite",
            "adapter",
            &dependency("dependencies", "folio-import = { path = \"../import\" }"),
        )
        .refuses(
            "crates/store-sqlite/Cargo.toml",
            "folio-store-sqlite (adapter) -> folio-import (use-case)",
            "never on a use case",
        );
}

#[test]
fn a_use_case_on_an_adapter_is_refused_in_its_tests_too() {
    tower()
        .with(
            "folio-import",
            "use-case",
            &dependency(
                "dev-dependencies",
                "folio-store-memory = { path = \"../store-memory\" }",
            ),
        )
        .refuses(
            "crates/import/Cargo.toml",
            "folio-import (use-case) -> folio-store-memory (adapter), dev-dependency",
            "tests take a store from testkit",
        );
}

#[test]
fn a_use_case_on_another_use_case_is_refused() {
    tower()
        .with("folio-transcript", "use-case", "")
        .with(
            "folio-import",
            "use-case",
            &dependency(
                "dependencies",
                "folio-transcript = { path = \"../transcript\" }",
            ),
        )
        .refuses(
            "crates/import/Cargo.toml",
            "folio-import (use-case) -> folio-transcript (use-case)",
            "another use case",
        );
}

#[test]
fn the_projector_on_an_adapter_is_refused() {
    Workspace::new()
        .with("folio-store-memory", "adapter", "")
        .with(
            "folio-projector",
            "projection",
            &dependency(
                "dependencies",
                "folio-store-memory = { path = \"../store-memory\" }",
            ),
        )
        .refuses(
            "crates/projector/Cargo.toml",
            "folio-projector (projection) -> folio-store-memory (adapter)",
            "store, codec and core only",
        );
}

#[test]
fn the_testkit_on_an_adapter_other_than_the_reference_model_is_refused() {
    Workspace::new()
        .with("folio-store-sqlite", "adapter", "")
        .with(
            "folio-testkit",
            "proof",
            &dependency(
                "dependencies",
                "folio-store-sqlite = { path = \"../store-sqlite\" }",
            ),
        )
        .refuses(
            "crates/testkit/Cargo.toml",
            "folio-testkit (proof) -> folio-store-sqlite (adapter)",
            "store-memory alone",
        );
}

#[test]
fn the_testkit_outside_of_tests_is_refused() {
    tower()
        .with(
            "folio-import",
            "use-case",
            &dependency("dependencies", "folio-testkit = { path = \"../testkit\" }"),
        )
        .refuses(
            "crates/import/Cargo.toml",
            "folio-import (use-case) -> folio-testkit (proof)",
            "dev-dependency",
        );
}

#[test]
fn the_edge_on_an_adapter_is_refused() {
    tower()
        .with(
            "folio-host",
            "edge",
            &dependency(
                "dependencies",
                "folio-store-memory = { path = \"../store-memory\" }",
            ),
        )
        .refuses(
            "crates/host/Cargo.toml",
            "folio-host (edge) -> folio-store-memory (adapter)",
            "only the roots choose adapters",
        );
}

#[test]
fn a_crate_outside_the_workspace_is_refused() {
    let outside = TempDir::new().unwrap();
    let manifest = "[package]\nname = \"stray\"\nversion = \"0.1.0\"\n[workspace]\n";
    fs::create_dir(outside.path().join("src")).unwrap();
    fs::write(outside.path().join("src/lib.rs"), "").unwrap();
    fs::write(outside.path().join("Cargo.toml"), manifest).unwrap();
    let path = toml_path(outside.path());
    tower()
        .with(
            "folio-cli",
            "root",
            &dependency("dependencies", &format!("stray = {{ path = {path} }}")),
        )
        .refuses(
            "crates/cli/Cargo.toml",
            "folio-cli (root) -> stray",
            "a crate of this workspace",
        );
}

#[test]
fn a_crate_may_test_itself_with_other_features() {
    let report = Workspace::new()
        .with(
            "folio-core",
            "domain",
            "[features]\nall = []\n[dev-dependencies]\nfolio-core = { path = \".\", features = [\"all\"] }\n",
        )
        .report();
    assert_eq!(report.violations, []);
}

/// A path as a TOML literal string, where a backslash stands for itself.
fn toml_path(path: &Path) -> String {
    format!("'{}'", path.display())
}
