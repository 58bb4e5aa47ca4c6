//! The software bill of materials: the packages that the program is built from, as `CycloneDX`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{PROGRAM_TARGET, Release};

/// The program has more dependencies than this; fewer in the list mean that it is not complete.
const COMPONENTS_MIN: usize = 100;

/// Writes the list of what the program is built from.
pub(super) fn write(release: &Release) -> Result<()> {
    release.tools.demand("cyclonedx", "cargo-cyclonedx")?;
    let name = format!("thermocline-{}.cdx", release.version);
    release.tools.cargo(
        &release.root,
        &[
            &["cyclonedx", "--manifest-path", "crates/thermocline/Cargo.toml"][..],
            &["--format", "json", "--target", PROGRAM_TARGET],
            &["--override-filename", &name],
        ]
        .concat(),
    )?;
    let name = format!("{name}.json");
    collect(release, &name)?;
    let text = super::read(&release.files.join(&name))?;
    let list: serde_json::Value = serde_json::from_str(&text).context("the list is not JSON")?;
    let components = list["components"].as_array().map_or(0, Vec::len);
    ensure!(list["bomFormat"] == "CycloneDX", "the list is not CycloneDX");
    ensure!(
        components >= COMPONENTS_MIN,
        "the list has {components} components: expected at least {COMPONENTS_MIN}"
    );
    eprintln!("release: {components} components in {name}");
    Ok(())
}

/// Keeps the list of the program. cargo-cyclonedx writes one beside the manifest of every member, and has
/// no option to write only one.
fn collect(release: &Release, name: &str) -> Result<()> {
    let members = folders(&release.root.join("crates")).into_iter().chain(folders(&release.root));
    for written in members.map(|member| member.join(name)).filter(|path| path.exists()) {
        if written.ends_with(Path::new("crates/thermocline").join(name)) {
            std::fs::copy(&written, release.files.join(name)).context("cannot copy the list")?;
        }
        std::fs::remove_file(&written)
            .with_context(|| format!("cannot remove `{}`", written.display()))?;
    }
    Ok(())
}

/// Return the folders in a folder, in no order; empty if it cannot be listed.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
