//! Tasks for people and CI: `cargo xtask test`, `python`, `golden`, `readme`, `book`, `bench`, `guest`, `soak`,
//! `torture`, `mutants`, `release`, `dependencies`, `workflows`, `msrv`, `tidy`, `web`.
#![allow(clippy::print_stderr, reason = "a task runner talks")]

mod book;
mod compose;
mod console;
mod dependencies;
mod mutants;
mod papers;
mod python;
mod readme;
#[cfg(unix)]
mod release;
mod suite;
mod tidy;
mod unit;
mod web;
mod workflows;

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand};
use xtask::{cargo, run, tested_program};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The task runner of the project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything that CI runs: format, lints, tidy, all tests, documentation, README, book,
    /// the Python package
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
    Readme {
        /// A `thermocline` that is built already, to run in place of releases
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// Write the source of the documentation site, and check its links and the commands of its tutorials
    Book {
        /// Render it as HTML too; needs mdbook
        #[arg(long)]
        render: bool,
        /// A `thermocline` that is built already, to ask for its help and its registry
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// Build the script of the reports from `web/`; needs npm
    Web {
        /// Check instead: that the script is the one that is committed, and reports of this `thermocline` in Chromium
        #[arg(long, value_name = "FILE")]
        check: Option<PathBuf>,
    },
    /// Run the benchmarks and print ratios; takes minutes
    #[command(disable_help_flag = true)]
    Bench(Passed),
    /// Serve verified load for long, with restarts, kills and faults, and judge memory; needs fio
    #[command(disable_help_flag = true)]
    Soak(Passed),
    /// Serve from files that fail on command, cut the power, and check every sector that clients read; needs FUSE
    #[command(disable_help_flag = true)]
    Torture(Passed),
    /// Run dm-cache and bcache of a real kernel in QEMU under the traces that their models replay, and compare
    /// counters; or boot a guest from a disk of `thermocline serve`, or serve a block device in one
    #[command(disable_help_flag = true)]
    Guest(Passed),
    /// Break the engine's rules of durability one at a time, and fail if no test notices; takes half an hour
    Mutants {
        /// Only the rules that contain this text
        #[arg(default_value = "")]
        filter: String,
    },
    /// Build every file of a release into `target/release-files`, and check each; takes long
    #[cfg(unix)]
    Release(release::Options),
    /// Check licences, sources and versions of dependencies; needs cargo-deny
    Dependencies {
        /// Check for known weaknesses instead; needs the network
        #[arg(long)]
        advisories: bool,
    },
    /// Check the definitions of hosted CI; needs actionlint for their syntax
    Workflows,
    /// Compile everything with the oldest version of Rust that the manifests promise; needs rustup
    Msrv,
    /// Fuzz every trace format, mapped traces, the NBD protocol and the flash format for some seconds each; needs nightly Rust and cargo-fuzz
    Fuzz {
        /// Seconds per target
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

/// Arguments passed to another program of the project.
#[derive(Args)]
struct Passed {
    /// Passed on; `--help` lists what there is
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn main() -> Result<()> {
    let root = xtask::root()?;
    match Arguments::parse().task {
        Task::Test => test(&root),
        Task::Python => python::check(&root),
        Task::Tidy => tidy::check(&root),
        Task::Golden => write_golden(&root),
        Task::Readme { program } => readme::check(&root, program.as_deref()),
        Task::Book { render, program } => book::make(&root, program.as_deref(), render),
        Task::Web { check: None } => web::write(&root),
        Task::Web { check: Some(program) } => web::check(&root, &program),
        Task::Bench(Passed { arguments }) => {
            let benchmark = if arguments.is_empty() { vec!["replay".into()] } else { arguments };
            pass_on(&root, &["--release", "--package", "thermocline-bench"], &[], &benchmark)
        }
        Task::Soak(given) => trial(&root, "soak", &given),
        Task::Torture(given) => trial(&root, "torture", &given),
        Task::Guest(given) => trial(&root, "guest", &given),
        Task::Mutants { filter } => mutants::check(&root, &filter),
        Task::Papers { results } => papers::update(&root, &results),
        #[cfg(unix)]
        Task::Release(options) => release::make(&root, &options),
        Task::Dependencies { advisories: true } => dependencies::check_advisories(&root),
        Task::Dependencies { advisories: false } => dependencies::check(&root),
        Task::Workflows => workflows::check(&root),
        Task::Msrv => workflows::check_oldest_rust(&root),
        Task::Fuzz { seconds } => fuzz(&root, seconds),
    }
}

/// Runs one of the long runs, which have a package of their own.
fn trial(root: &Path, name: &str, Passed { arguments }: &Passed) -> Result<()> {
    pass_on(root, &["--package", "thermocline-trials"], &[name], arguments)
}

/// Builds a program of the project, and runs it.
fn pass_on(root: &Path, package: &[&str], task: &[&str], arguments: &[String]) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cargo(root, &[&["run", "--quiet"], package, &["--"], task, &arguments].concat(), &[])
}

/// Writes what tests compare with: golden results, the table of the engine's figures, the README's picture.
fn write_golden(root: &Path) -> Result<()> {
    let lab = ["--package", "thermocline-lab", "--test", "golden"];
    let figures = ["--package", "thermocline", "--lib", "the_documentation_has_the_table"];
    let picture = ["--package", "thermocline", "--test", "cli", "the_picture_of_the_readme"];
    [&lab[..], &figures, &picture].into_iter().try_for_each(|test| {
        cargo(root, &[&["test"], test].concat(), &[("THERMOCLINE_WRITE_GOLDEN", "1")])
    })
}

/// Run all checks, the quick ones first.
fn test(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"], &[])?;
    check_trace_formats(root)?;
    tidy::check(root)?;
    unit::check(root)?;
    dependencies::check(root)?;
    workflows::check(root)?;
    cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    suite::run(root)?;
    // Each uses one processor most of the time.
    thread::scope(|scope| {
        let package = scope.spawn(|| python::check(root));
        let written = check_documentation(root);
        let package = package.join().unwrap_or_else(|panic| resume_unwind(panic));
        written.and(package)
    })
}

/// Run the checks of documentation, programs in it, the fuzz targets, and pages in a browser.
fn check_documentation(root: &Path) -> Result<()> {
    // Building a release takes as long as all tests; `cargo xtask readme` does it.
    let program = tested_program(root)?;
    cargo(
        root,
        &["doc", "--workspace", "--no-deps", "--document-private-items"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    cargo(root, &["check", "--manifest-path", "fuzz/Cargo.toml"], &[])?;
    run(root, "python3", &["testdata/pgbench/convert.py", "--self-test"], &[])?;
    readme::check(root, Some(&program))?;
    compose::check(root, &program)?;
    web::check(root, &program)?;
    book::make(root, Some(&program), false)
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

/// Return the files that git tracks, or would, as paths from the root.
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
