//! Which crate may depend on which.
//!
//! Every manifest declares its layer in `[package.metadata.folio]`. The check
//! reads what the manifests declare, without resolving it, so an edge counts
//! whether it is optional, renamed, bound to a platform or a build dependency.
//! A crate without a layer fails: a new crate cannot stand outside the rules.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use cargo_metadata::camino::Utf8Path;
use cargo_metadata::{Dependency, DependencyKind, MetadataCommand, Package};

use crate::{Error, files};

/// The one adapter that the proof layer may build on: the reference model.
pub(crate) const REFERENCE_ADAPTER: &str = "folio-store-memory";

/// Where a crate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Types and pure rules.
    Domain,
    /// Versioned bytes of domain types.
    Bytes,
    /// The store's contract.
    Port,
    /// One engine behind the port.
    Adapter,
    /// Views computed from the ledger.
    Projection,
    /// Write path, read path, cutover, search.
    UseCase,
    /// What proves the others.
    Proof,
    /// Where other processes come in.
    Edge,
    /// Where adapters are chosen and the whole is put together.
    Root,
}

impl Layer {
    /// Every layer, the lowest first.
    pub const ALL: [Self; 9] = [
        Self::Domain,
        Self::Bytes,
        Self::Port,
        Self::Adapter,
        Self::Projection,
        Self::UseCase,
        Self::Proof,
        Self::Edge,
        Self::Root,
    ];

    /// The name in `[package.metadata.folio]`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Domain => "domain",
            Self::Bytes => "bytes",
            Self::Port => "port",
            Self::Adapter => "adapter",
            Self::Projection => "projection",
            Self::UseCase => "use-case",
            Self::Proof => "proof",
            Self::Edge => "edge",
            Self::Root => "root",
        }
    }

    /// The layers that this one may name, whatever the kind of dependency.
    const fn may_use(self) -> &'static [Self] {
        match self {
            Self::Domain => &[],
            Self::Bytes => &[Self::Domain],
            Self::Port => &[Self::Domain, Self::Bytes],
            Self::Adapter | Self::Projection | Self::Proof => {
                &[Self::Domain, Self::Bytes, Self::Port]
            }
            Self::UseCase => &[Self::Domain, Self::Bytes, Self::Port, Self::Projection],
            Self::Edge => &[Self::Domain, Self::UseCase],
            Self::Root => &Self::ALL,
        }
    }

    /// The rule in a sentence, for the person whose edge is refused.
    const fn rule(self) -> &'static str {
        match self {
            Self::Domain => "The domain depends on nothing.",
            Self::Bytes => "The codec depends on core and on no other crate of ours.",
            Self::Port => "The port depends on core and codec and knows no engine.",
            Self::Adapter => {
                "An adapter depends on core, codec and store, never on another adapter and never on a use case."
            }
            Self::Projection => "The projector depends on store, codec and core only.",
            Self::UseCase => {
                "A use case depends on projector, store, codec and core, and never names an adapter or another use case; its tests take a store from testkit."
            }
            Self::Proof => {
                "The testkit depends on core, codec and store, and on store-memory alone among the adapters."
            }
            Self::Edge => {
                "The edge depends on the use cases and on core; only the roots choose adapters."
            }
            Self::Root => "A root may use everything.",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| layer.name() == name)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that a manifest may not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The manifest, from the workspace's folder.
    pub manifest: String,
    /// The dependency, or the crate if it is the crate itself that is wrong.
    pub edge: String,
    /// The sentence of the rule.
    pub rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.manifest, self.edge, self.rule)
    }
}

/// What the check saw.
#[derive(Debug)]
pub struct Report {
    /// How many crates the workspace has.
    pub crates: usize,
    /// How many dependencies between them their manifests declare.
    pub edges: usize,
    /// What is not allowed, in the order of the manifests' paths.
    pub violations: Vec<Violation>,
}

/// Checks every manifest of the workspace in a folder.
///
/// # Errors
///
/// [`Error::Metadata`] if cargo cannot read the manifests.
pub fn check(root: &Path) -> Result<Report, Error> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()?;
    let mut packages: Vec<&Package> = metadata.packages.iter().collect();
    packages.sort_by(|a, b| a.manifest_path.cmp(&b.manifest_path));

    let mut report = Report {
        crates: packages.len(),
        edges: 0,
        violations: Vec::new(),
    };
    let mut members: BTreeMap<&Utf8Path, Member<'_>> = BTreeMap::new();
    for package in packages {
        let manifest = files::relative(
            metadata.workspace_root.as_std_path(),
            package.manifest_path.as_std_path(),
        );
        let layer = match declared_layer(package) {
            Ok(layer) => Some(layer),
            Err(rule) => {
                report.violations.push(Violation {
                    manifest: manifest.clone(),
                    edge: package.name.to_string(),
                    rule,
                });
                None
            }
        };
        let folder = package.manifest_path.parent().unwrap_or(Utf8Path::new(""));
        members.insert(
            folder,
            Member {
                package,
                manifest,
                layer,
            },
        );
    }
    for (folder, member) in &members {
        for dependency in &member.package.dependencies {
            if let Some(path) = &dependency.path {
                report.edges += 1;
                let own = path == folder && dependency.kind == DependencyKind::Development;
                if !own {
                    let refusal = judge_edge(member, dependency, members.get(path.as_path()));
                    report.violations.extend(refusal);
                }
            }
            report.violations.extend(judge_domain(member, dependency));
        }
    }
    report
        .violations
        .sort_by(|a, b| a.manifest.cmp(&b.manifest));
    Ok(report)
}

struct Member<'a> {
    package: &'a Package,
    manifest: String,
    layer: Option<Layer>,
}

impl Member<'_> {
    fn refuse(&self, edge: String, rule: &str) -> Violation {
        Violation {
            manifest: self.manifest.clone(),
            edge,
            rule: rule.to_owned(),
        }
    }

    fn describe(&self) -> String {
        let layer = self.layer.map_or("no layer", Layer::name);
        format!("{} ({layer})", self.package.name)
    }
}

pub(crate) fn declared_layer(package: &Package) -> Result<Layer, String> {
    let known = Layer::ALL.map(Layer::name).join(", ");
    match package.metadata.pointer("/folio/layer") {
        None => Err(format!(
            "Every manifest declares its layer in [package.metadata.folio]: one of {known}."
        )),
        Some(value) => value
            .as_str()
            .and_then(Layer::parse)
            .ok_or_else(|| format!("{value} is not a layer; the layers are {known}.")),
    }
}

/// Judges a dependency on another crate of the workspace.
fn judge_edge(
    from: &Member<'_>,
    dependency: &Dependency,
    to: Option<&Member<'_>>,
) -> Option<Violation> {
    let how = describe_dependency(dependency);
    let Some(to) = to else {
        return Some(from.refuse(
            format!("{} -> {}{how}", from.describe(), dependency.name),
            "A path dependency points to a crate of this workspace, where its layer can be checked.",
        ));
    };
    // A crate without a layer has its own violation already.
    let (from_layer, to_layer) = (from.layer?, to.layer?);
    let allowed = from_layer.may_use().contains(&to_layer)
        || (to_layer == Layer::Proof && dependency.kind == DependencyKind::Development)
        || (from_layer == Layer::Proof && to.package.name.as_str() == REFERENCE_ADAPTER);
    if allowed {
        return None;
    }
    let edge = format!("{} -> {}{how}", from.describe(), to.describe());
    let rule = if to_layer == Layer::Proof {
        "Only roots use the testkit; every other crate takes it as a dev-dependency."
    } else {
        from_layer.rule()
    };
    Some(from.refuse(edge, rule))
}

/// Judges that the domain stands alone with default features off.
fn judge_domain(member: &Member<'_>, dependency: &Dependency) -> Option<Violation> {
    let counts = dependency.kind != DependencyKind::Development && !dependency.optional;
    // Path dependencies are judged as edges.
    let elsewhere = dependency.path.is_none();
    (member.layer == Some(Layer::Domain) && counts && elsewhere).then(|| {
        member.refuse(
            format!(
                "{} -> {}{}",
                member.describe(),
                dependency.name,
                describe_dependency(dependency)
            ),
            "The domain builds without any dependency when default features are off; make it optional, behind a feature.",
        )
    })
}

/// Names what is unusual about a dependency, so that it is found in the manifest.
fn describe_dependency(dependency: &Dependency) -> String {
    let mut words = Vec::new();
    match dependency.kind {
        DependencyKind::Development => words.push("dev-dependency".to_owned()),
        DependencyKind::Build => words.push("build dependency".to_owned()),
        _ => {}
    }
    if dependency.optional {
        words.push("optional".to_owned());
    }
    if let Some(target) = &dependency.target {
        words.push(format!("for {target}"));
    }
    if let Some(alias) = &dependency.rename {
        words.push(format!("renamed to {alias}"));
    }
    if words.is_empty() {
        String::new()
    } else {
        format!(", {}", words.join(", "))
    }
}

#[cfg(test)]
mod tests;
