//! Builds the Python package, and runs its lints, type checks, tests, doctests and notebooks.

use std::env::consts::DLL_EXTENSION;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use xtask::{artifacts, run, target, tested_program};

/// The least version of Python, as in `pyproject.toml`.
const LEAST: (u32, u32) = (3, 10);

/// Requirement of the program that builds the package, as in `pyproject.toml`.
const MATURIN: &str = "maturin>=1.9.4,<2";

/// Folders of Python sources, which its tools are given.
const SOURCES: [&str; 3] = ["python", "examples", "xtask"];

/// Extras of the package that its tests take.
const EXTRAS: &str = "plot,chart,cluster,compiled,tune,test";

/// Makes an environment below the target folder, installs the package with all that its tests need,
/// and checks it.
pub(crate) fn check(root: &Path) -> Result<()> {
    let (python, version) = interpreter()?;
    let environment = target(root).join(format!("python-{version}"));
    let folder = environment.to_str().context("the target folder's name is not UTF-8")?;
    if !program(&environment, "python").exists() {
        run(root, &python, &["-m", "venv", folder], &[])?;
    }
    let tool = |name: &str, arguments: &[&str]| {
        run(root, program(&environment, name), arguments, &[("VIRTUAL_ENV", folder)])
    };
    // Packages are compiled when they are imported; most of them never are.
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"];
    tool("python", &[&install[..], &[MATURIN]].concat())?;
    install_extension(root)?;
    describe_package(root, &environment)?;
    tool("python", &[&install[..], &[&format!("thermocline[{EXTRAS}]")]].concat())?;
    tool("ruff", &[&["format", "--check"], &SOURCES[..]].concat())?;
    tool("ruff", &[&["check"], &SOURCES[..]].concat())?;
    tool("mypy", &[])?;
    tool("stubtest", &["thermocline._thermocline"])?;
    // Tests compare the package with the command line, which it does not contain.
    let command_line = tested_program(root)?;
    let command_line = command_line.to_str().context("the target folder's name is not UTF-8")?;
    run(
        root,
        program(&environment, "pytest"),
        &["--quiet", "--doctest-modules", "python"],
        &[("VIRTUAL_ENV", folder), ("THERMOCLINE_PROGRAM", command_line)],
    )
}

/// Builds the extension, and puts it among the package's sources, where `maturin develop` puts it too.
///
/// That would build most of the workspace again: a package alone resolves other features of what it depends
/// on than all do together. Here it shares what the tests of Rust built.
fn install_extension(root: &Path) -> Result<()> {
    let manifest = Path::new("crates/thermocline-python/Cargo.toml");
    // An extension takes the interpreter's functions from the program that loads it. With
    // examples, which the tests of Rust build too, cargo resolves the features that tests have.
    let built = artifacts::built(
        root,
        &["build", "--workspace", "--lib", "--examples"],
        &[("PYO3_BUILD_EXTENSION_MODULE", "1")],
    )?;
    let files = built
        .iter()
        .filter(|it| it.manifest_path == root.join(manifest))
        .flat_map(|it| &it.filenames);
    let library = files
        .into_iter()
        .find(|file| file.extension() == Some(DLL_EXTENSION.as_ref()))
        .with_context(|| format!("cargo built no library of `{}`", manifest.display()))?;
    let name = if cfg!(windows) { "_thermocline.pyd" } else { "_thermocline.abi3.so" };
    let package = root.join("python/thermocline");
    // A program that runs still has the former file open.
    let file = tempfile::NamedTempFile::new_in(&package).context("cannot write the extension")?;
    fs::copy(library, file.path())
        .with_context(|| format!("cannot copy `{}`", library.display()))?;
    file.persist(package.join(name)).context("cannot write the extension")?;
    Ok(())
}

/// Writes what the environment needs to know of the package: its version, its requirements, and where its
/// sources are.
fn describe_package(root: &Path, environment: &Path) -> Result<()> {
    let packages = site_packages(environment)?;
    for entry in list(&packages)? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("thermocline-") && name.ends_with(".dist-info") {
            fs::remove_dir_all(&entry)
                .with_context(|| format!("cannot remove `{}`", entry.display()))?;
        }
    }
    let folder = packages.to_str().context("the target folder's name is not UTF-8")?;
    let described = Command::new(program(environment, "maturin"))
        .args(["pep517", "write-dist-info", "--metadata-directory", folder])
        .current_dir(root)
        .output()
        .context("cannot start maturin")?;
    ensure!(
        described.status.success(),
        "maturin cannot describe the package: {}",
        String::from_utf8_lossy(&described.stderr)
    );
    let sources = root.join("python");
    let sources = sources.to_str().context("the project's folder is not UTF-8")?;
    fs::write(packages.join("thermocline.pth"), sources).context("cannot write `thermocline.pth`")
}

/// Return the folder of an environment's packages.
fn site_packages(environment: &Path) -> Result<PathBuf> {
    let script = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let python = program(environment, "python");
    let found = Command::new(python).args(["-c", script]).output();
    let found = found.context("cannot start the environment's interpreter")?;
    ensure!(found.status.success(), "the environment's interpreter names no folder for packages");
    Ok(String::from_utf8_lossy(&found.stdout).trim().into())
}

/// Return what a folder holds.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()
    });
    entries.with_context(|| format!("cannot list `{}`", folder.display()))
}

/// Return the interpreter that `PYTHON` names, or `python3`, and its version.
pub(crate) fn interpreter() -> Result<(OsString, String)> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let name = python.to_string_lossy().into_owned();
    let (major, minor) = LEAST;
    let remedy = || {
        format!(
            "the Python package needs Python {major}.{minor} or newer with `venv`, and `{name}` is none: install it (on Debian: python3, python3-venv), or name one with PYTHON=/path/to/python"
        )
    };
    let script = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])";
    let found = Command::new(&python).args(["-c", script]).output().with_context(remedy)?;
    ensure!(found.status.success(), remedy());
    let version = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let numbers = version
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
    ensure!(numbers.is_some_and(|numbers| numbers >= LEAST), remedy());
    Ok((python, version))
}

/// Return a program of an environment.
fn program(environment: &Path, name: &str) -> PathBuf {
    environment.join(if cfg!(windows) { "Scripts" } else { "bin" }).join(name)
}
