//! The static program with all that belongs to it, as an archive.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{PROGRAM_TARGET, Release, notices, run_at, word};

/// Documents that go into archive and packages.
const DOCUMENTS: [&str; 5] =
    ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md", "SECURITY.md"];

/// Builds the program, collects the tree, and packs it.
pub(super) fn make(release: &Release) -> Result<()> {
    let program = build(release, &release.root, &release.root.join("target"))?;
    check_static(release, &program)?;
    fill_tree(release, &program)?;
    pack(release, &release.files)?;
    Ok(())
}

/// Builds the program from the sources in a folder, and returns its path.
pub(super) fn build(release: &Release, folder: &Path, target: &Path) -> Result<PathBuf> {
    release.tools.build(
        folder,
        &[
            &["cargo", "zigbuild", "--locked", "--release", "--package", "thermocline"][..],
            &["--bin", "thermocline", "--target", PROGRAM_TARGET],
        ]
        .concat(),
        target,
        &[],
    )?;
    Ok(target.join(PROGRAM_TARGET).join("release/thermocline"))
}

/// Checks that the program runs, needs no library of the machine, and names no folder of this one.
fn check_static(release: &Release, program: &Path) -> Result<()> {
    let dynamic = run_at(&release.root, "readelf", &["--dynamic", word(program)?])?;
    ensure!(!dynamic.contains("(NEEDED)"), "the program is not static:\n{dynamic}");
    let said = run_at(&release.root, word(program)?, &["--version"])?;
    ensure!(said.contains(&release.version), "the program says that it is `{}`", said.trim());
    let bytes = std::fs::read(program).context("cannot read the program")?;
    let folder = word(&release.root)?.as_bytes();
    ensure!(
        !bytes.windows(folder.len()).any(|part| part == folder),
        "the program names the folder `{}` in which it was built",
        release.root.display()
    );
    Ok(())
}

/// Collects what archive and packages contain.
fn fill_tree(release: &Release, program: &Path) -> Result<()> {
    let tree = &release.tree;
    super::make_empty(tree)?;
    let documents = tree.join("share/doc/thermocline");
    super::make_folder(&tree.join("bin"))?;
    super::make_folder(&documents)?;
    let installed = tree.join("bin/thermocline");
    std::fs::copy(program, &installed).context("cannot copy the program")?;
    std::fs::set_permissions(&installed, Permissions::from_mode(0o755))
        .context("cannot make the program executable")?;
    run_at(&release.root, word(program)?, &["completions", "--install", word(tree)?])?;
    for name in DOCUMENTS {
        let file = Path::new(name).file_name().context("a document has a name")?;
        std::fs::copy(release.root.join(name), documents.join(file))
            .with_context(|| format!("cannot copy `{name}`"))?;
    }
    let example = run_at(&release.root, word(program)?, &["serve", "--example-config"])?;
    std::fs::write(documents.join("cache.toml.example"), example)
        .context("cannot write the example of a configuration")?;
    let notices = notices::collect(&release.root, "thermocline", PROGRAM_TARGET)?;
    std::fs::write(documents.join("LICENSES-OF-DEPENDENCIES"), notices)
        .context("cannot write the licences of dependencies")
}

/// Packs the tree into a folder, and returns the archive's path. Order, times and owners of the files are
/// the same everywhere.
pub(super) fn pack(release: &Release, into: &Path) -> Result<PathBuf> {
    let name = format!("thermocline-{}-{PROGRAM_TARGET}", release.version);
    let archive = into.join(format!("{name}.tar.gz"));
    let time = format!("--mtime=@{}", release.tools.epoch);
    let rename = format!("--transform=s,^\\.,{name},");
    run_at(
        &release.tree,
        "tar",
        &[
            &["--create", "--sort=name", &time, "--owner=0", "--group=0", "--numeric-owner"][..],
            &["--mode=u=rwX,go=rX", "--format=gnu", "--use-compress-program=gzip -n -9"],
            &[&rename, "--file", word(&archive)?, "."],
        ]
        .concat(),
    )?;
    let listing = run_at(&release.root, "tar", &["--list", "--file", word(&archive)?])?;
    for wanted in [
        "bin/thermocline",
        "share/man/man1/thermocline.1",
        "share/bash-completion/completions/thermocline",
        "share/doc/thermocline/LICENSE-MIT",
        "share/doc/thermocline/LICENSES-OF-DEPENDENCIES",
    ] {
        let wanted = format!("{name}/{wanted}");
        ensure!(listing.lines().any(|line| line == wanted), "the archive lacks `{wanted}`");
    }
    Ok(archive)
}
