//! The scripts of the reports and of `explore`: made from `web/` by npm's esbuild, committed, and tried in
//! Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use xtask::{run, target};

/// Bundles in reports and the page of `explore`, so that a build needs no npm.
const BUNDLES: [&str; 2] = [
    "crates/thermocline-lab/src/report/page.js",
    "crates/thermocline/src/commands/explore/page.js",
];

/// The least version of Node.js that the tests run on.
const NODE: u32 = 20;

/// Names of Chromium.
const CHROMIUM: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Build the scripts again.
pub(crate) fn write(root: &Path) -> Result<()> {
    ensure!(has_npm(), "npm with Node.js {NODE} or newer is missing: install it");
    for (path, script) in BUNDLES.into_iter().zip(bundles(root)?) {
        std::fs::write(root.join(path), script).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

/// Checks the types of the scripts' sources, that the committed scripts are made from them, and that
/// reports, `explore` and the page of `serve` of this `thermocline` work in a browser. A step that needs a
/// missing program says that it is skipped.
pub(crate) fn check(root: &Path, program: &Path) -> Result<()> {
    if !has_npm() {
        eprintln!("skipped: the scripts of pages; they need npm with Node.js {NODE} or newer");
        return Ok(());
    }
    for (path, made) in BUNDLES.into_iter().zip(bundles(root)?) {
        let committed = std::fs::read_to_string(root.join(path));
        if made != committed.with_context(|| format!("cannot read {path}"))? {
            bail!("{path} is not what web/ makes: run `cargo xtask web`");
        }
    }
    let Some(chromium) = CHROMIUM.into_iter().find_map(in_path) else {
        eprintln!("skipped: reports in a browser; they need Chromium");
        return Ok(());
    };
    let folder = tempfile::tempdir().context("cannot make a folder for reports")?;
    let reports = reports(root, program, folder.path())?;
    let reports = reports.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let chromium = chromium.to_str().context("the browser's folder is not UTF-8")?;
    npm(root, &["test"], &[("REPORTS", &reports.join("\n")), ("CHROMIUM", chromium)])?;
    let program = program.to_str().context("the program's folder is not UTF-8")?;
    let programs = [("THERMOCLINE", program), ("CHROMIUM", chromium)];
    npm(root, &["run", "test:explore"], &programs)?;
    npm(root, &["run", "test:engine"], &programs)
}

/// Checks types, and returns the scripts.
fn bundles(root: &Path) -> Result<[String; 2]> {
    npm(root, &["ci", "--no-audit", "--no-fund", "--loglevel=error"], &[])?;
    npm(root, &["run", "check"], &[])?;
    let files = ["page.js", "explore.js"].map(|name| target(root).join(name));
    let [report, explore] = files.each_ref().map(|file| file.display().to_string());
    npm(root, &["run", "build", "--", &report, &explore], &[])?;
    let read = |file: &Path| std::fs::read_to_string(file).context("esbuild wrote no script");
    Ok([read(&files[0])?, read(&files[1])?])
}

fn npm(root: &Path, words: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let silent = [&["--silent"], words].concat();
    // Browsers come from the system.
    let variables = [variables, &[("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1")]].concat();
    run(&root.join("web"), "npm", &silent, &variables)
}

/// Return a program in one of the folders where programs are.
fn in_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn has_npm() -> bool {
    let version = Command::new("node").arg("--version").output();
    let version = version.map(|found| String::from_utf8_lossy(&found.stdout).into_owned());
    let major = |text: &str| text.trim_start_matches('v').split('.').next()?.parse::<u32>().ok();
    in_path("npm").is_some()
        && version.is_ok_and(|text| major(&text).is_some_and(|major| major >= NODE))
}

/// Write one report of each kind on the bundled trace, that of a comparison first.
fn reports(root: &Path, program: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let trace = root.join("testdata/pgbench/pgbench.csv.zst");
    let trace = trace.to_str().context("the project's folder is not UTF-8")?;
    let two = ["--tier", "ram=1%,4%", "--tier", "flash=2x,8x"];
    let commands: [(&str, Vec<&str>); 7] = [
        (
            "compare",
            [
                &[
                    "compare",
                    trace,
                    "--policy",
                    "lru,arc,hat,lc,tac,face-gsc,s3-fifo,two-tier",
                    "--over-time",
                    "40",
                ],
                &two[..],
            ]
            .concat(),
        ),
        ("demo", vec!["demo"]),
        ("information", vec!["trace", "info", trace]),
        ("classes", vec!["trace", "classes", trace]),
        ("mrc", vec!["mrc", trace, "--policy", "lru,hat"]),
        ("hot", vec!["hot", trace, "--identifier", "all"]),
        ("buffer", vec!["buffer", trace, "--policy", "all", "--size", "1MiB,4MiB"]),
    ];
    // A sweep of two traces: tables that are called the same, and names that are longer than a line.
    let long = folder.join(format!("{}.csv", "made_without_a_place_to_break_it_".repeat(3)));
    let long = long.to_str().context("the temporary folder is not UTF-8")?;
    run(
        root,
        program,
        &["trace", "generate", "--requests", "20000", "--pages", "2000", "-o", long],
        &[],
    )?;
    let sweep = folder.join("sweep.toml");
    let text = format!(
        "policies = [\"lru\", \"hat\"]\n[[trace]]\npath = {trace:?}\n[[trace]]\npath = {long:?}\n\
         [[tier]]\nname = \"ram\"\nsizes = [\"2%\"]\n\
         [[tier]]\nname = \"flash\"\nsizes = [\"2x\", \"8x\"]\n"
    );
    std::fs::write(&sweep, text).context("cannot write a sweep")?;
    let sweep = sweep.to_str().context("the temporary folder is not UTF-8")?;
    let results = folder.join("sweep.parquet");
    let results = results.to_str().context("the temporary folder is not UTF-8")?;
    let sweep = ("sweep", vec!["sweep", sweep, "-o", results]);
    let mut reports = vec![];
    for (name, words) in commands.into_iter().chain([sweep]) {
        let report = folder.join(format!("{name}.html"));
        let path = report.to_str().context("the temporary folder is not UTF-8")?;
        run(root, program, &[&words[..], &["--report", path]].concat(), &[])?;
        reports.push(report);
    }
    Ok(reports)
}
