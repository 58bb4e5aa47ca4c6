//! What people run by hand or in CI: `cargo xtask test`, `python`, `golden`, `readme`, `book`, `bench`,
//! `guest`, `soak`, `torture`, `mutants`, `tidy`.
#![allow(clippy::print_stderr, reason = "a task runner talks")]

mod book;
mod console;
mod dependencies;
mod guest;
mod mutants;
mod papers;
mod python;
mod readme;
mod soak;
mod tidy;
mod torture;
mod unit;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The task runner of the project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that CI runs: format, lints, tidy, all tests, documentation, README, book, the Python package
    Test,
    /// Build the Python package, and run its lints, type checks, tests, doctests and notebooks
    Python,
    /// Check the rules that no lint knows: sizes, headers, titles, dependency directions, circles of imports
    Tidy,
    /// Write the golden results and the table of the engine's figures; review the difference
    Golden,
    /// Write the tables of claims on the studies' pages from the results of `thermocline reproduce --json`
    Papers {
        /// The folder with `hat.json`, `shipped.json` and so on, one per study; studies without one are skipped
        results: PathBuf,
    },
    /// Run the README's commands in a clean copy of the project
    Readme,
    /// Write the source of the documentation site, and check its links and the guide's commands
    Book {
        /// Render it as HTML too; needs mdbook
        #[arg(long)]
        render: bool,
        /// A `thermocline` that is built already, to ask for its help and its registry
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// Run the benchmarks and print ratios; takes minutes
    Bench {
        /// Passed on to the benchmark
        arguments: Vec<String>,
    },
    /// Serve verified load for long, with restarts, kills and faults, and judge memory; needs fio
    Soak {
        /// How long
        #[arg(long, default_value_t = 60.0)]
        minutes: f64,
    },
    /// Serve from files that fail on command, cut the power, and check every sector that clients read; needs FUSE
    Torture {
        /// How long
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// What the faults and the load are drawn from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Write the figures to this file, too
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// A `thermocline` that is built already
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
        /// Only rounds with this fault, by its name in the table of the figures
        #[arg(long, value_name = "NAME")]
        fault: Option<String>,
    },
    /// Run dm-cache and bcache of a real kernel in QEMU under the traces that their models replay, and compare counters
    Guest {
        /// A kernel package of Debian, or the folder that it was unpacked to
        #[arg(long, value_name = "PATH")]
        kernel: Option<PathBuf>,
        /// Compare with what an earlier guest printed, `console.txt` of `--keep`, and run none
        #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
        console: Option<PathBuf>,
        /// Only cases whose names contain this text, such as `zipf:dm-cache,64k`
        #[arg(long = "case", value_name = "TEXT", default_value = "")]
        filter: String,
        /// Accesses of each trace
        #[arg(long, value_name = "N", default_value_t = 30_000)]
        accesses: usize,
        /// End the guest after so long
        #[arg(long, default_value_t = 60.0)]
        minutes: f64,
        /// Write the console, the recorded machines and the table to this folder
        #[arg(long, value_name = "FOLDER")]
        keep: Option<PathBuf>,
    },
    /// Break the engine's rules of durability one at a time, and fail if no test notices; takes half an hour
    Mutants {
        /// Only the rules that contain this text
        #[arg(default_value = "")]
        filter: String,
    },
    /// Fuzz every trace format, the NBD protocol and the flash format for some seconds each; needs nightly Rust and cargo-fuzz
    Fuzz {
        /// Seconds per target
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

fn main() -> Result<()> {
    let root = root()?;
    match Arguments::parse().task {
        Task::Test => test(&root),
        Task::Python => python::check(&root),
        Task::Tidy => tidy::check(&root),
        Task::Golden => write_golden(&root),
        Task::Readme => readme::check(&root).map(drop),
        Task::Book { render, program } => book::make(&root, program.as_deref(), render),
        Task::Bench { arguments } => {
            let mut words = vec!["run", "--release", "--package", "thermocline-bench", "--"];
            if arguments.is_empty() {
                words.push("replay");
            }
            words.extend(arguments.iter().map(String::as_str));
            cargo(&root, &words, &[])
        }
        Task::Soak { minutes } => soak::run(&root, minutes),
        Task::Torture { minutes, seed, json, program, fault } => {
            torture::run(&root, &torture::Options { minutes, seed, json, program, fault })
        }
        Task::Guest { kernel, console, filter, accesses, minutes, keep } => {
            let options = guest::Options { kernel, console, accesses, filter, minutes, keep };
            guest::run(&root, &options)
        }
        Task::Mutants { filter } => mutants::check(&root, &filter),
        Task::Papers { results } => papers::update(&root, &results),
        Task::Fuzz { seconds } => fuzz(&root, seconds),
    }
}

/// Writes what tests compare with: the golden results, and the table of the engine's figures.
fn write_golden(root: &Path) -> Result<()> {
    let lab = ["--package", "thermocline-lab", "--test", "golden"];
    let figures = ["--package", "thermocline", "--lib", "the_documentation_has_the_table"];
    [&lab[..], &figures].into_iter().try_for_each(|test| {
        cargo(root, &[&["test"], test].concat(), &[("THERMOCLINE_WRITE_GOLDEN", "1")])
    })
}

/// All checks, the quick ones first.
fn test(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"], &[])?;
    check_trace_formats(root)?;
    tidy::check(root)?;
    unit::check(root)?;
    dependencies::check(root)?;
    cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo(root, &["test", "--workspace"], &[])?;
    cargo(
        root,
        &["doc", "--workspace", "--no-deps", "--document-private-items"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    cargo(root, &["check", "--manifest-path", "fuzz/Cargo.toml"], &[])?;
    run(root, "python3", &["testdata/pgbench/convert.py", "--self-test"], &[])?;
    let program = readme::check(root)?;
    book::make(root, Some(&program), false)?;
    python::check(root)
}

/// Checks how the modules of trace formats are written: a macro declares them, where `cargo fmt` does not
/// look.
fn check_trace_formats(root: &Path) -> Result<()> {
    let files = files(root)?;
    let folder = "crates/thermocline-trace/src/format/";
    let formats = files.iter().map(String::as_str).filter(|name| name.starts_with(folder));
    let formats: Vec<&str> = formats.collect();
    run(root, "rustfmt", &[&["--check", "--edition", "2024"], &formats[..]].concat(), &[])
}

fn fuzz(root: &Path, seconds: u32) -> Result<()> {
    let folder = root.join("fuzz/fuzz_targets");
    let mut targets: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| format!("cannot list `{}`", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    targets.sort();
    let time = format!("-max_total_time={seconds}");
    for target in targets.iter().filter_map(|path| path.file_stem()?.to_str()) {
        cargo(root, &["+nightly", "fuzz", "run", target, "--", &time], &[])?;
    }
    Ok(())
}

/// Runs cargo at the root of the project, and fails if it does.
fn cargo(root: &Path, words: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    // A toolchain is chosen by the `cargo` of the path, not by the one that runs this program.
    let program = if words[0].starts_with('+') { "cargo".into() } else { cargo_program() };
    run(root, program, words, variables)
}

/// Runs a program at the root of the project, and fails if it does.
fn run(
    root: &Path,
    program: impl AsRef<OsStr>,
    words: &[&str],
    variables: &[(&str, &str)],
) -> Result<()> {
    let name = program.as_ref().to_string_lossy().into_owned();
    let status = Command::new(program)
        .args(words)
        .envs(variables.iter().copied())
        .current_dir(root)
        .status()
        .with_context(|| format!("cannot start `{name}`"))?;
    ensure!(status.success(), "`{name} {}` failed", words.join(" "));
    Ok(())
}

/// Builds the command line as `cargo test --workspace` does, with the features that all members want
/// together, so that nothing is built twice.
fn tested_program(root: &Path) -> Result<PathBuf> {
    // A test that starts the program has cargo build it.
    cargo(root, &["test", "--workspace", "--no-run", "--test", "serve"], &[])?;
    let program = target(root).join("debug").join("thermocline");
    Ok(program.with_extension(std::env::consts::EXE_EXTENSION))
}

/// The folder that cargo builds into.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The files that git tracks, or would, as paths from the root.
fn files(root: &Path) -> Result<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    ensure!(listing.status.success(), "git cannot list the project's files");
    let listing = String::from_utf8(listing.stdout).context("a file name is not UTF-8")?;
    let names = listing.split('\0').filter(|name| !name.is_empty());
    Ok(names.filter(|name| root.join(name).is_file()).map(ToOwned::to_owned).collect())
}

/// The root of the project: the folder above this package.
fn root() -> Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(package.parent().context("the package lies in the project")?.to_owned())
}
