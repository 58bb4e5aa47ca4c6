//! The crates that are published, and the packages made of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use super::{PLACEHOLDER, output, tools};

/// Files that each package must have besides its sources: both licences ask to be passed on.
const PACKAGED: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// The greatest number of keywords that a registry takes.
const KEYWORDS_MAX: usize = 5;

/// The output of `cargo metadata`, as far as it matters here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    /// The registries that may have it; `None` permits all.
    publish: Option<Vec<String>>,
    description: Option<String>,
    license: Option<String>,
    readme: Option<PathBuf>,
    repository: Option<String>,
    rust_version: Option<String>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

impl Package {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Faults for which a registry or its readers would refuse the package.
    fn faults(&self) -> Vec<String> {
        let present = [
            ("description", self.description.is_some()),
            ("license", self.license.is_some()),
            ("readme", self.readme.is_some()),
            ("repository", self.repository.is_some()),
            ("rust-version", self.rust_version.is_some()),
            ("keywords", (1..=KEYWORDS_MAX).contains(&self.keywords.len())),
            ("categories", !self.categories.is_empty()),
        ];
        let missing = present.iter().filter(|(_, is_right)| !is_right);
        missing.map(|(key, _)| format!("`{}` has no valid `{key}`", self.name)).collect()
    }
}

/// Check, in seconds, that every published crate has its metadata, and that its package has its licences.
fn check_metadata(root: &Path) -> Result<()> {
    let members = members(root)?;
    let published: Vec<&Package> = members.iter().filter(|member| member.is_published()).collect();
    let mut faults: Vec<String> = published.iter().flat_map(|package| package.faults()).collect();
    for package in &published {
        let words = ["package", "--list", "--allow-dirty", "--quiet", "--package", &package.name];
        let listing = cargo_output(root, &words)?;
        let lacks = PACKAGED.iter().filter(|wanted| !listing.lines().any(|line| line == **wanted));
        faults.extend(lacks.map(|name| format!("the package `{}` lacks `{name}`", package.name)));
    }
    if !faults.is_empty() {
        bail!("the crates cannot be published:\n{}", faults.join("\n"));
    }
    eprintln!("release: {} crates have all that a registry asks for", published.len());
    Ok(())
}

/// Packages every published crate, and compiles each from its package alone.
pub(super) fn package(release: &super::Release) -> Result<()> {
    check_metadata(&release.root)?;
    let members = members(&release.root)?;
    let hidden = members.iter().filter(|member| !member.is_published());
    let hidden: Vec<&str> = hidden.flat_map(|member| ["--exclude", &member.name]).collect();
    let published = members.iter().filter(|member| member.is_published());
    forget_unpacked(&tools::cargo_home()?, published)?;
    let words = [&["package", "--quiet", "--workspace"], &hidden[..], release.dirty].concat();
    xtask::cargo(&release.root, &words, &[])
}

/// Remove the sources of these packages that cargo unpacked when it packaged them before.
///
/// cargo compiles each package with the other packages from a local registry, and unpacks those into its own
/// folder, under a name that is the same each time. It does not unpack a version twice, and so would compile with
/// packages of an earlier run.
fn forget_unpacked<'a>(home: &Path, packages: impl Iterator<Item = &'a Package>) -> Result<()> {
    let Ok(registries) = std::fs::read_dir(home.join("registry/src")) else { return Ok(()) };
    let registries = registries.collect::<std::io::Result<Vec<_>>>()?;
    // A local registry has no host in its name.
    let local = |entry: &&std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with('-');
    let local: Vec<PathBuf> =
        registries.iter().filter(local).map(std::fs::DirEntry::path).collect();
    for package in packages {
        for registry in &local {
            let unpacked = registry.join(format!("{}-{}", package.name, package.version));
            if unpacked.exists() {
                std::fs::remove_dir_all(&unpacked)
                    .with_context(|| format!("cannot remove {}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}

/// Says that the address is still the placeholder, if it is.
pub(super) fn remind_of_placeholder(repository: &str) {
    if repository == PLACEHOLDER {
        eprintln!(
            "release: `repository` in Cargo.toml is still the placeholder {PLACEHOLDER}: replace it by the address of the project before you publish (docs/releasing.md)"
        );
    }
}

fn members(root: &Path) -> Result<Vec<Package>> {
    let words = ["metadata", "--locked", "--no-deps", "--format-version", "1"];
    let metadata: Metadata = serde_json::from_str(&cargo_output(root, &words)?)
        .context("cannot understand the output of `cargo metadata`")?;
    ensure!(!metadata.packages.is_empty(), "cargo names no member of the workspace");
    Ok(metadata.packages)
}

fn cargo_output(root: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(xtask::cargo_program());
    xtask::forget_package(&mut command);
    output(command.current_dir(root), words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(text: &str) -> Package {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_complete_package_has_no_fault_and_each_gap_is_named() {
        let whole = package(
            r#"{"name":"a","version":"1.0.0","publish":null,"description":"d","license":"MIT","readme":"README.md",
                "repository":"r","rust_version":"1.95","keywords":["k"],"categories":["c"]}"#,
        );
        assert!(whole.is_published());
        assert_eq!(whole.faults(), [""; 0]);
        let bare =
            package(r#"{"name":"b","version":"1.0.0","keywords":["1","2","3","4","5","6"]}"#);
        let faults = bare.faults().join(" ");
        for key in ["description", "license", "readme", "repository", "keywords", "categories"] {
            assert!(faults.contains(&format!("`{key}`")), "{key}: {faults}");
        }
    }

    #[test]
    fn only_unpacked_packages_of_this_version_are_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let place = |name: &str| home.path().join("registry/src").join(name);
        let own = package(r#"{"name":"a","version":"1.0.0"}"#);
        // There is nothing to forget at first.
        forget_unpacked(home.path(), std::iter::once(&own)).unwrap();
        let kept = ["-1f/a-1.0.1", "-1f/b-1.0.0", "index.example-1f/a-1.0.0"];
        for name in kept.iter().chain(&["-1f/a-1.0.0/src", "-2f/a-1.0.0"]) {
            std::fs::create_dir_all(place(name)).unwrap();
        }
        forget_unpacked(home.path(), std::iter::once(&own)).unwrap();
        assert!(kept.iter().all(|name| place(name).exists()));
        assert!(!place("-1f/a-1.0.0").exists() && !place("-2f/a-1.0.0").exists());
    }

    #[test]
    fn the_crates_of_this_workspace_can_be_published() {
        check_metadata(&xtask::root().unwrap()).unwrap();
    }

    #[test]
    fn a_package_that_no_registry_may_have_is_not_published() {
        assert!(!package(r#"{"name":"a","version":"1.0.0","publish":[]}"#).is_published());
        assert!(package(r#"{"name":"a","version":"1.0.0","publish":["inner"]}"#).is_published());
    }
}
