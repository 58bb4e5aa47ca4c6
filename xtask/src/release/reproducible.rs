//! A second build in another folder, which must give the same bytes.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::{Release, archive, hash, wheels, word};

/// Copies the project, builds program and wheel there, and compares them with the first.
pub(super) fn check(release: &Release) -> Result<()> {
    // A path of another length in the program would move the bytes that follow it, so names differ in length.
    let copy = tempfile::Builder::new()
        .prefix("a-folder-of-another-name-")
        .tempdir()
        .context("cannot make a folder for the copy")?;
    crate::console::copy_project(&release.root, copy.path())?;
    let (first, second) = (release.root.join("target"), copy.path().join("target"));
    compare(
        &archive::build(release, &release.root, &first)?,
        &archive::build(release, copy.path(), &second)?,
    )?;
    compare(
        &wheels::build_for_host(release, &release.root, &first)?,
        &wheels::build_for_host(release, copy.path(), &second)?,
    )
}

fn compare(first: &Path, second: &Path) -> Result<()> {
    let sums = (hash(first)?, hash(second)?);
    ensure!(
        sums.0 == sums.1,
        "two builds differ: `{}` has {}, `{}` has {}",
        word(first)?,
        sums.0,
        word(second)?,
        sums.1
    );
    eprintln!("release: two builds of `{}` are equal: {}", word(first)?, sums.0);
    Ok(())
}
