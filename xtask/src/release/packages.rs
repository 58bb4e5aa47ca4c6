//! The packages of distributions, each installed into a scratch folder and removed again.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::{PROGRAM_TARGET, Release, has, make_folder, run_at, word};

/// Files that every package must install.
const INSTALLED: [&str; 6] = [
    "usr/bin/thermocline",
    "usr/lib/systemd/system/thermocline.service",
    "usr/lib/systemd/system/thermocline.socket",
    "usr/lib/sysusers.d/thermocline.conf",
    "usr/share/doc/thermocline/cache.toml.example",
    "usr/share/bash-completion/completions/thermocline",
];

/// Makes the Debian package from the tree, and tries it.
pub(super) fn make_deb(release: &Release) -> Result<()> {
    super::demand_tree(release)?;
    release.tools.demand("deb", "cargo-deb")?;
    let name = format!("thermocline_{}_amd64.deb", release.version);
    let package = release.files.join(&name);
    release.tools.cargo(
        &release.root,
        &[
            &["deb", "--quiet", "--no-build", "--no-strip", "--package", "thermocline", "--locked"]
                [..],
            &["--target", PROGRAM_TARGET, "--output", word(&package)?],
        ]
        .concat(),
    )?;
    if has("dpkg", "the installation of the Debian package") {
        try_deb(release, &package)?;
    }
    Ok(())
}

fn try_deb(release: &Release, package: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
    let database = scratch.path().join("var/lib/dpkg");
    for folder in ["updates", "info"] {
        make_folder(&database.join(folder))?;
    }
    File::create(database.join("status")).context("cannot make dpkg's database")?;
    let place = format!("--root={}", word(scratch.path())?);
    // The scratch folder has no shell, so scripts run outside of it; `DPKG_ROOT` names it to them.
    let dpkg = |words: &[&str]| {
        let given = [&place, "--force-not-root", "--force-script-chrootless", "--force-depends"];
        run_at(&release.root, "dpkg", &[&given[..], words].concat())
    };
    dpkg(&["--install", word(package)?])?;
    check_installed(release, scratch.path())?;
    dpkg(&["--purge", "thermocline"])?;
    check_removed(scratch.path())
}

/// Makes the RPM package from the tree, and tries it.
pub(super) fn make_rpm(release: &Release) -> Result<()> {
    super::demand_tree(release)?;
    release.tools.demand("generate-rpm", "cargo-generate-rpm")?;
    let package = release.files.join(format!("thermocline-{}-1.x86_64.rpm", release.version));
    release.tools.cargo(
        &release.root,
        &[
            &["generate-rpm", "--package", "crates/thermocline", "--target", PROGRAM_TARGET][..],
            &["--output", word(&package)?],
        ]
        .concat(),
    )?;
    if has("rpm", "the installation of the RPM package") {
        try_rpm(release, &package)?;
    }
    Ok(())
}

fn try_rpm(release: &Release, package: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
    let place = format!("--root={}", word(scratch.path())?);
    // The scratch folder has no shell for the scripts.
    let rpm = |words: &[&str]| {
        run_at(&release.root, "rpm", &[&[&place, "--noscripts", "--nodeps"][..], words].concat())
    };
    rpm(&["--install", word(package)?])?;
    check_installed(release, scratch.path())?;
    rpm(&["--erase", "thermocline"])?;
    check_removed(scratch.path())
}

fn check_installed(release: &Release, scratch: &Path) -> Result<()> {
    for name in INSTALLED {
        ensure!(scratch.join(name).exists(), "the package does not install /{name}");
    }
    let said = run_at(scratch, word(&scratch.join(INSTALLED[0]))?, &["--version"])?;
    ensure!(said.contains(&release.version), "the installed program says `{}`", said.trim());
    // Packages compress manual pages or leave them as they are.
    let pages = scratch.join("usr/share/man/man1");
    let pages = std::fs::read_dir(pages).context("the package installs no manual pages")?.count();
    ensure!(pages > 20, "the package installs {pages} manual pages, expected one for each command");
    Ok(())
}

fn check_removed(scratch: &Path) -> Result<()> {
    for name in INSTALLED {
        ensure!(!scratch.join(name).exists(), "/{name} stays after the package is removed");
    }
    Ok(())
}
