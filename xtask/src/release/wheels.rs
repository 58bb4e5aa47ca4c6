//! The Python packages: a source distribution, and a wheel for each target.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use xtask::run;

use super::{Release, run_at, word};

/// The machines that a wheel is for.
struct Platform {
    target: &'static str,
    /// The oldest system that the wheel promises to run on.
    promise: &'static str,
    library: Library,
}

/// The format of the extension.
enum Library {
    /// A library of Linux, and its machine as `readelf` names it.
    Elf { machine: &'static str },
    /// A library of macOS.
    MachO,
}

const LINUX: [Platform; 4] = [
    Platform {
        target: "x86_64-unknown-linux-gnu",
        promise: "manylinux_2_28",
        library: Library::Elf { machine: "Advanced Micro Devices X86-64" },
    },
    Platform {
        target: "x86_64-unknown-linux-musl",
        promise: "musllinux_1_2",
        library: Library::Elf { machine: "Advanced Micro Devices X86-64" },
    },
    Platform {
        target: "aarch64-unknown-linux-gnu",
        promise: "manylinux_2_28",
        library: Library::Elf { machine: "AArch64" },
    },
    Platform {
        target: "aarch64-unknown-linux-musl",
        promise: "musllinux_1_2",
        library: Library::Elf { machine: "AArch64" },
    },
];

/// Wheels that need the libraries of macOS to be linked, so hosted CI builds them there.
const MACOS: [Platform; 2] = [
    Platform { target: "aarch64-apple-darwin", promise: "macosx_11_0", library: Library::MachO },
    Platform { target: "x86_64-apple-darwin", promise: "macosx_11_0", library: Library::MachO },
];

/// The version of macOS in `Platform::promise`, as linkers take it.
const MACOS_MIN: &str = "11.0";

/// Return the wheels that this machine can build.
fn platforms() -> &'static [Platform] {
    if cfg!(target_os = "macos") { &MACOS } else { &LINUX }
}

/// The largest wheel that is published, in bytes.
const WHEEL_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The licences of the packages that the extension contains, below the wheel's root.
const NOTICES: &str = "thermocline/THIRD-PARTY.txt";

/// The newest version of glibc of which `manylinux_2_28` may use a symbol.
const GLIBC_MAX: (u32, u32) = (2, 28);

/// Makes the source distribution.
pub(super) fn make_sdist(release: &Release) -> Result<()> {
    release.tools.python_tool(
        &release.root,
        "maturin",
        &["sdist", "--out", word(&release.files)?],
    )?;
    let name = format!("thermocline-{}.tar.gz", release.version);
    let path = release.files.join(&name);
    let listing = run_at(&release.root, "tar", &["--list", "--file", word(&path)?])?;
    for wanted in ["Cargo.lock", "python/thermocline/__init__.py", "pyproject.toml", "LICENSE-MIT"]
    {
        ensure!(
            listing
                .lines()
                .any(|line| line.split_once('/').is_some_and(|(_, name)| name == wanted)),
            "the source distribution lacks `{wanted}`"
        );
    }
    Ok(())
}

/// Makes and checks all wheels, and runs the tests of the package from the one for this machine.
pub(super) fn make(release: &Release) -> Result<()> {
    for platform in platforms() {
        let built = build(release, &release.root, &release.root.join("target"), platform)?;
        let name = built.file_name().context("a wheel has a name")?;
        let wheel = release.files.join(name);
        std::fs::copy(&built, &wheel).context("cannot copy the wheel")?;
        check(release, &wheel, platform)?;
        if is_host(platform) {
            run_tests(release, &wheel)?;
        }
    }
    Ok(())
}

/// Build the wheel for this machine, which the check for equal builds builds twice.
pub(super) fn build_for_host(
    release: &Release,
    folder: &Path,
    cargo_target: &Path,
) -> Result<PathBuf> {
    let host = platforms().iter().find(|platform| is_host(platform));
    build(release, folder, cargo_target, host.context("there are no wheels for this machine")?)
}

/// Returns `true` if the Python of this machine is likely to take the wheel.
fn is_host(platform: &Platform) -> bool {
    platform.target.starts_with(std::env::consts::ARCH) && !platform.target.ends_with("musl")
}

/// Builds the wheel for a platform from the sources in a folder, and returns its path.
fn build(
    release: &Release,
    folder: &Path,
    cargo_target: &Path,
    platform: &Platform,
) -> Result<PathBuf> {
    let into = cargo_target.join(format!("wheel-{}", platform.target));
    super::make_empty(&into)?;
    let notices = super::notices::collect(folder, "thermocline-python", platform.target)?;
    // maturin takes the file from the sources (`include` in pyproject.toml). It goes when this ends.
    let path = tempfile::TempPath::try_from_path(folder.join("python").join(NOTICES))
        .context("cannot name the file of notices")?;
    std::fs::write(&path, notices).with_context(|| format!("cannot write `{}`", path.display()))?;
    let options: &[&str] = match platform.library {
        Library::Elf { .. } => &["--zig", "--compatibility", platform.promise],
        Library::MachO => &[],
    };
    release.tools.build(
        folder,
        &[
            &["maturin", "build", "--quiet", "--release", "--locked"][..],
            &["--target", platform.target, "--out", word(&into)?],
            options,
        ]
        .concat(),
        cargo_target,
        &[("MACOSX_DEPLOYMENT_TARGET", MACOS_MIN)],
    )?;
    let mut files = std::fs::read_dir(&into).context("cannot list the wheels")?;
    let built =
        files.next().context("maturin built no wheel")?.context("cannot list the wheels")?;
    Ok(built.path())
}

/// Checks that a wheel is small, serves all versions of Python, and needs no more of a machine than it
/// promises.
fn check(release: &Release, wheel: &Path, platform: &Platform) -> Result<()> {
    let name = word(wheel)?;
    ensure!(
        name.contains("-cp310-abi3-"),
        "`{name}` is not for all versions of Python from 3.10 on"
    );
    ensure!(name.contains(platform.promise), "`{name}` does not promise {}", platform.promise);
    let bytes = wheel.metadata().context("cannot ask for the size of the wheel")?.len();
    ensure!(bytes <= WHEEL_BYTES_MAX, "`{name}` has {bytes} bytes; at most {WHEEL_BYTES_MAX}");
    eprintln!("release: {name}: {bytes} bytes");
    match platform.library {
        Library::Elf { machine } => check_library(release, wheel, machine, platform.target),
        Library::MachO => Ok(()),
    }
}

/// Checks that the extension is for a machine, and needs no newer glibc than the wheel promises.
fn check_library(release: &Release, wheel: &Path, machine: &str, target: &str) -> Result<()> {
    let name = word(wheel)?;
    let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
    let folder = word(scratch.path())?;
    release.tools.python_tool(&release.root, "python", &["-m", "zipfile", "-e", name, folder])?;
    ensure!(scratch.path().join(NOTICES).is_file(), "`{name}` lacks `{NOTICES}`");
    let library = scratch.path().join("thermocline/_thermocline.abi3.so");
    let read = |what: &str| run_at(&release.root, "readelf", &[what, word(&library)?]);
    ensure!(read("--file-header")?.contains(machine), "`{name}` is not for {machine}");
    let newest = newest_glibc(&read("--version-info")?);
    let is_old_enough = if target.ends_with("musl") {
        newest.is_none()
    } else {
        newest.is_some_and(|newest| newest <= GLIBC_MAX)
    };
    ensure!(is_old_enough, "`{name}` needs glibc {newest:?}, but at most {GLIBC_MAX:?} is allowed");
    Ok(())
}

/// Return the newest version of glibc that `readelf --version-info` names.
fn newest_glibc(listing: &str) -> Option<(u32, u32)> {
    let versions = listing.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|letter: char| !letter.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    versions.max()
}

/// Installs the wheel into an environment that has nothing else of the project, and runs its tests there.
fn run_tests(release: &Release, wheel: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("cannot make a scratch folder")?;
    let environment = scratch.path().join("environment");
    let (python, _) = crate::python::interpreter()?;
    run(&release.root, &python, &["-m", "venv", word(&environment)?], &[])?;
    let python = environment.join("bin/python");
    let wanted = format!("{}[plot,chart,cluster,compiled,tune,test]", word(wheel)?);
    let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(&release.root, &python, &[&quiet[..], &[&wanted]].concat(), &[])?;
    let program = program(release)?;
    run(
        &release.root,
        &python,
        &["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "python/tests"],
        &[("THERMOCLINE_PROGRAM", word(&program)?)],
    )
}

/// Return the program with which the tests compare the package: the released one, or on macOS one of the
/// tests'.
fn program(release: &Release) -> Result<PathBuf> {
    if cfg!(target_os = "macos") {
        return xtask::tested_program(&release.root);
    }
    super::demand_tree(release)?;
    Ok(release.tree.join("bin/thermocline"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_glibc_are_compared_as_numbers() {
        let listing = "  Name: GLIBC_2.4  Flags: none\n  Name: GLIBC_2.17\n  Name: GLIBC_2.2.5\n";
        assert_eq!(newest_glibc(listing), Some((2, 17)));
        assert_eq!(newest_glibc("Name: GCC_3.0"), None);
    }
}
