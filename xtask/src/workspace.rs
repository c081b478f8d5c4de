//! Where things are: asked of cargo, never assumed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::semver::Version;
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package};

/// The package whose kernels become PTX.
pub const KERNELS: &str = "pagelift-kernels";

/// The workspace that the current folder belongs to.
pub struct Workspace {
    metadata: Metadata,
}

impl Workspace {
    /// Asks cargo. No registry is needed for that.
    pub fn find() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("cargo could not read the workspace; is the current folder inside the repository?")?;
        Ok(Self { metadata })
    }

    /// The folder of the root `Cargo.toml`.
    pub fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

    /// Cargo's target folder, wherever this machine keeps it.
    pub fn target(&self) -> &Path {
        self.metadata.target_directory.as_std_path()
    }

    /// The folder of the package that owns the kernels and their PTX.
    pub fn kernels(&self) -> Result<PathBuf> {
        folder(self.package(KERNELS)?)
    }

    /// The oldest Rust that the workspace says it compiles with.
    pub fn minimum_rust(&self) -> Result<Version> {
        let package = self.package(KERNELS)?;
        package.rust_version.clone().with_context(|| format!("{KERNELS} has no rust-version"))
    }

    /// A package's version.
    pub fn version(&self, name: &str) -> Result<String> {
        Ok(self.package(name)?.version.to_string())
    }

    /// All packages as a registry would name their folders: name, dash, version.
    pub fn releases(&self) -> Vec<String> {
        let packages = self.metadata.packages.iter();
        packages.map(|package| format!("{}-{}", package.name, package.version)).collect()
    }

    /// The names of the packages that are meant to be published.
    pub fn published(&self) -> impl Iterator<Item = &str> {
        let packages = self.metadata.packages.iter();
        // `publish = false` is a list of no registry.
        let meant = packages.filter(|package| package.publish.as_ref().is_none_or(|to| !to.is_empty()));
        meant.map(|package| package.name.as_str())
    }

    /// Every feature of every package, as cargo takes them, but for NIXL's, whose bindings take a C++ compiler to build, and that
    /// which makes a driver's library of the one in software: steps of their own build them.
    pub fn features(&self) -> String {
        let of_package = |package: &Package| {
            let names = package
                .features
                .keys()
                .filter(|name| !["nixl", "library", "default"].contains(&name.as_str()));
            names.map(|name| format!("{}/{name}", package.name)).collect::<Vec<_>>()
        };
        self.metadata.packages.iter().flat_map(of_package).collect::<Vec<_>>().join(",")
    }

    /// A package and all packages of the workspace that it is built from, by name.
    ///
    /// Follows dependencies by path, as those are all that the workspace itself brings.
    pub fn built_from(&self, name: &str) -> Result<BTreeMap<String, PathBuf>> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![name.to_owned()];
        while let Some(name) = waiting.pop() {
            let package = self.package(&name)?;
            if found.insert(name, folder(package)?).is_some() {
                continue;
            }
            let own = package.dependencies.iter().filter(|dependency| {
                dependency.path.is_some() && dependency.kind != DependencyKind::Development
            });
            waiting.extend(own.map(|dependency| dependency.name.clone()));
        }
        Ok(found)
    }

    /// The folder of a package that the workspace depends on, with some feature. Cargo fetches what is missing.
    pub fn dependency(&self, name: &str) -> Result<PathBuf> {
        let all = MetadataCommand::new()
            .features(CargoOpt::AllFeatures)
            .exec()
            .context("cargo could not list the dependencies")?;
        let package = all.packages.iter().find(|package| package.name.as_str() == name);
        folder(package.with_context(|| format!("nothing depends on {name}"))?)
    }

    /// Cargo, as the one that started us: the same toolchain throughout.
    pub fn cargo(&self) -> Command {
        let mut cargo = Command::new(cargo_program());
        cargo.current_dir(self.root());
        cargo
    }

    fn package(&self, name: &str) -> Result<&Package> {
        self.metadata
            .packages
            .iter()
            .find(|package| package.name.as_str() == name)
            .with_context(|| format!("the workspace has no package {name}"))
    }
}

/// The cargo that started us.
pub fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn folder(package: &Package) -> Result<PathBuf> {
    let manifest = package.manifest_path.as_std_path();
    let folder = manifest.parent().with_context(|| format!("{} has no folder", manifest.display()))?;
    Ok(folder.to_owned())
}
