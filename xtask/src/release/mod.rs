//! Builds every file of a release into `target/release-files`, and checks each of them.

mod archive;
mod containers;
mod crates;
mod notices;
mod packages;
mod reproducible;
mod sbom;
mod tools;
mod wheels;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use sha2::{Digest as _, Sha256};

use tools::Tools;

/// The target of the program: static, so that it runs on every distribution.
const PROGRAM_TARGET: &str = "x86_64-unknown-linux-musl";

/// The address in the workspace's manifest as long as the project has none.
const PLACEHOLDER: &str = "https://repository.invalid/thermocline";

/// The options of `cargo xtask release`.
#[derive(Args)]
pub(crate) struct Options {
    /// Build only these parts; those that follow `archive` use the program that it built earlier
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// Allow changes that are not committed; the files are then only a trial
    #[arg(long)]
    allow_dirty: bool,
}

/// A part of a release. Parts are built in this order, quick checks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Package every published crate, and compile it from its package
    Crates,
    /// List the program's dependencies, as `CycloneDX`
    Sbom,
    /// Make the source distribution for Python
    Sdist,
    /// Build the static program, and pack it with completions, man pages and licences
    Archive,
    /// Make the Debian package, install it into a scratch folder, and remove it again
    Deb,
    /// Make the RPM package, install it into a scratch folder, and remove it again
    Rpm,
    /// Build the container images and run the program in each; needs buildah
    Containers,
    /// Build the Python packages for glibc and musl on x86-64 and aarch64 (on macOS: for macOS), and test one
    Wheels,
    /// Build program and wheel again in another folder, which must give the same bytes
    Reproducible,
    /// Write citation and metadata with the address, and the checksums of all files
    Checksums,
}

/// The settings that all parts share.
struct Release {
    /// The root of the project.
    root: PathBuf,
    /// The folder for the files of the release.
    files: PathBuf,
    /// The content of archive and packages, as below `/usr`: the program, its man pages and so on.
    tree: PathBuf,
    version: String,
    repository: String,
    /// Options for cargo that allow changes that are not committed.
    dirty: &'static [&'static str],
    tools: Tools,
}

/// Builds and checks the parts that the options choose; all by default.
pub(crate) fn make(root: &Path, options: &Options) -> Result<()> {
    let is_clean = run_at(root, "git", &["status", "--porcelain"])?.trim().is_empty();
    ensure!(
        is_clean || options.allow_dirty,
        "nobody could build this release again, because the folder has changes that are not committed: commit them, or pass --allow-dirty for a trial"
    );
    let (version, repository) = version_and_repository(root)?;
    let release = Release {
        root: root.to_owned(),
        files: root.join("target/release-files"),
        tree: root.join("target/release-tree"),
        version,
        repository,
        dirty: if options.allow_dirty { &["--allow-dirty"] } else { &[] },
        tools: Tools::install(root)?,
    };
    make_folder(&release.files)?;
    let parts = Part::value_variants().iter().copied();
    for part in parts.filter(|part| options.only.is_empty() || options.only.contains(part)) {
        eprintln!("release: {part:?}");
        release
            .make(part)
            .with_context(|| format!("cannot make the part {part:?} of the release"))?;
    }
    crates::remind_of_placeholder(&release.repository);
    eprintln!("release: the files are in {}", release.files.display());
    Ok(())
}

impl Release {
    fn make(&self, part: Part) -> Result<()> {
        match part {
            Part::Crates => crates::package(self),
            Part::Sbom => sbom::write(self),
            Part::Sdist => wheels::make_sdist(self),
            Part::Archive => archive::make(self),
            Part::Deb => packages::make_deb(self),
            Part::Rpm => packages::make_rpm(self),
            Part::Containers => containers::make(self),
            Part::Wheels => wheels::make(self),
            Part::Reproducible => reproducible::check(self),
            Part::Checksums => self.write_metadata().and_then(|()| self.write_checksums()),
        }
    }

    /// Copies the files for citation, and adds the address to them.
    fn write_metadata(&self) -> Result<()> {
        let citation = read(&self.root.join("CITATION.cff"))?;
        let citation = format!("{citation}repository-code: \"{}\"\n", self.repository);
        let path = self.files.join("CITATION.cff");
        std::fs::write(&path, citation).context("cannot write CITATION.cff")?;
        let metadata = read(&self.root.join("codemeta.json"))?;
        let mut metadata: serde_json::Value =
            serde_json::from_str(&metadata).context("codemeta.json is not JSON")?;
        metadata["codeRepository"] = self.repository.as_str().into();
        let metadata = serde_json::to_string_pretty(&metadata).context("cannot write JSON")?;
        std::fs::write(self.files.join("codemeta.json"), metadata + "\n")
            .context("cannot write codemeta.json")
    }

    /// Writes the SHA-256 of each file, as `sha256sum --check` reads them.
    fn write_checksums(&self) -> Result<()> {
        let list = self.files.join("SHA256SUMS");
        let sums = checksums(&self.files)?;
        std::fs::write(&list, sums).context("cannot write SHA256SUMS")
    }
}

/// Format a line for each file of a folder, except for the list of checksums itself.
fn checksums(folder: &Path) -> Result<String> {
    let mut lines = vec![];
    for entry in std::fs::read_dir(folder).context("cannot list the files of the release")? {
        let entry = entry.context("cannot list the files of the release")?;
        let name = entry.file_name().into_string().ok().context("a file name is not UTF-8")?;
        if name != "SHA256SUMS" && entry.path().is_file() {
            lines.push(format!("{}  {name}\n", hash(&entry.path())?));
        }
    }
    lines.sort_by(|a, b| a[64..].cmp(&b[64..]));
    Ok(lines.concat())
}

/// Return the SHA-256 of a file, in hexadecimal digits.
fn hash(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads the version and the address that all manifests share.
fn version_and_repository(root: &Path) -> Result<(String, String)> {
    let manifest: toml::Table =
        read(&root.join("Cargo.toml"))?.parse().context("Cargo.toml is not TOML")?;
    let package = &manifest["workspace"]["package"];
    let word = |key: &str| {
        let word = package.get(key).and_then(toml::Value::as_str);
        word.map(ToOwned::to_owned).with_context(|| format!("workspace.package has no `{key}`"))
    };
    Ok((word("version")?, word("repository")?))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path)
        .with_context(|| format!("cannot make the folder `{}`", path.display()))
}

/// Makes an empty folder in place of what was there.
fn make_empty(path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_dir_all(path)
            .with_context(|| format!("cannot remove the folder `{}`", path.display()))?;
    }
    make_folder(path)
}

/// Fails unless an earlier run has built the program: packages and images hold the archive's tree.
fn demand_tree(release: &Release) -> Result<()> {
    ensure!(
        release.tree.join("bin/thermocline").exists(),
        "the program is not built yet: run `cargo xtask release --only archive` first"
    );
    Ok(())
}

/// Runs a program in a folder, and returns its output.
fn run_at(folder: &Path, program: &str, words: &[&str]) -> Result<String> {
    output(Command::new(program).current_dir(folder), words)
}

/// Runs a command with these arguments, and returns its output.
fn output(command: &mut Command, words: &[&str]) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let found = command.args(words).output().with_context(|| format!("cannot start `{name}`"))?;
    let complaint = String::from_utf8_lossy(&found.stderr);
    ensure!(found.status.success(), "`{name} {}` failed: {}", words.join(" "), complaint.trim());
    String::from_utf8(found.stdout).with_context(|| format!("`{name}` prints no UTF-8"))
}

/// Return a path as an argument of a command.
fn word(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("the path `{}` is not UTF-8", path.display()))
}

/// Returns `true` if a program can be started. If not, it reports the check that is skipped.
fn has(program: &str, skipped: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {skipped}; {program} is not installed");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citation_and_metadata_have_the_version_of_the_manifest() {
        let root = xtask::root().unwrap();
        let (version, _) = version_and_repository(&root).unwrap();
        let citation = read(&root.join("CITATION.cff")).unwrap();
        assert!(citation.contains(&format!("\nversion: {version}\n")), "CITATION.cff");
        let metadata = read(&root.join("codemeta.json")).unwrap();
        let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
        assert_eq!(metadata["version"], version.as_str(), "codemeta.json");
    }

    #[test]
    fn checksums_are_sorted_by_name_and_leave_out_their_own_file() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("b", "two"), ("a", "one"), ("SHA256SUMS", "old")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let one = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
        let two = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";
        assert_eq!(checksums(folder.path()).unwrap(), format!("{one}  a\n{two}  b\n"));
    }
}
