//! Checking, fetching and compiling the traces of a manifest.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::Serialize;
use thermocline_lab::corpus::{Checked, Entry, Fetched, Manifest};

use crate::arguments::{
    CorpusCheckOptions, CorpusCompileOptions, CorpusFetchOptions, ManifestOptions,
};
use crate::{interrupt, output};

/// Return the manifest that the options name.
pub(super) fn manifest(options: &ManifestOptions) -> Result<Manifest> {
    Ok(Manifest::read(&options.manifest, options.root.as_deref())?)
}

/// Run `corpus check`: print a line per trace; the exit status is 1 if something is wrong.
pub(super) fn check(options: &CorpusCheckOptions, status: &mut u8) -> Result<String> {
    let mut manifest = manifest(&options.manifest)?;
    let mut checked = check_all(&manifest)?;
    if options.write {
        let keys = manifest.fill(&checked)?;
        let keys = output::count(keys as u64);
        output::note(&format!("{keys} keys added to `{}`", manifest.path.display()));
        manifest = self::manifest(&options.manifest)?;
        checked = manifest.compare(checked);
    }
    let wrong = checked.iter().filter(|one| !one.problems.is_empty()).count();
    if wrong > 0 {
        *status = 1;
    }
    if options.json {
        return output::json(&checked);
    }
    let mut text: String = checked.iter().map(line).collect();
    let traces = output::count(checked.len() as u64);
    writeln!(text, "{traces} traces: {wrong} wrong").context("a string takes any text")?;
    Ok(text)
}

fn check_all(manifest: &Manifest) -> Result<Vec<Checked>> {
    let bar = output::progress(manifest.entries().count(), "traces")?;
    let checked = interrupt::stopping(|watch| manifest.check(watch, || bar.inc(1)))?;
    bar.finish_and_clear();
    Ok(checked?)
}

/// Describe the findings about a trace, and its faults.
fn line(checked: &Checked) -> String {
    let Checked { dataset, trace, found, problems, split } = checked;
    let split = split.map_or_else(String::new, |split| format!(", {split}"));
    let found = found.as_ref().map_or_else(String::new, |found| {
        format!(
            ": {} requests, {} pages, {} % writes{split}",
            output::count(found.requests),
            output::count(found.objects),
            found.writes * 100 / found.accesses.max(1)
        )
    });
    let verdict = if problems.is_empty() { "ok   " } else { "WRONG" };
    let problems: String = problems.iter().map(|problem| format!("      {problem}\n")).collect();
    format!("{verdict} {dataset}/{trace}{found}\n{problems}")
}

/// Outcome of a trace. Its JSON form has a stable schema.
#[derive(Serialize)]
struct Done<'a> {
    dataset: &'a str,
    trace: &'a str,
    outcome: &'a str,
}

/// Run `corpus fetch`: bring traces to their places, one after the other.
pub(super) fn fetch(options: &CorpusFetchOptions) -> Result<String> {
    let manifest = manifest(&options.manifest)?;
    each(&manifest, options.json, |entry| {
        let fetched = thermocline_lab::corpus::fetch(&manifest, entry)?;
        Ok(match fetched {
            Fetched::Present => "present",
            Fetched::Copied => "copied",
            Fetched::Generated => "generated",
        })
    })
}

/// Run `corpus compile`: decode traces into a folder.
pub(super) fn compile(options: &CorpusCompileOptions) -> Result<String> {
    let manifest = manifest(&options.manifest)?;
    interrupt::stopping(|watch| {
        each(&manifest, options.json, |entry| {
            let compiled = thermocline_lab::corpus::compile(entry, &options.output, watch)?;
            Ok(if compiled { "compiled" } else { "present" })
        })
    })?
}

/// Process each trace, and report the outcome.
fn each(
    manifest: &Manifest,
    is_json: bool,
    work: impl Fn(&Entry) -> Result<&'static str>,
) -> Result<String> {
    let bar = output::progress(manifest.entries().count(), "traces")?;
    let mut all = vec![];
    for (dataset, entry) in manifest.entries() {
        let outcome = work(entry).with_context(|| format!("{}/{}", dataset.name, entry.name));
        all.push(Done { dataset: &dataset.name, trace: &entry.name, outcome: outcome? });
        bar.inc(1);
    }
    bar.finish_and_clear();
    if is_json {
        return output::json(&all);
    }
    let line = |done: &Done<'_>| format!("{} {}/{}\n", done.outcome, done.dataset, done.trace);
    Ok(all.iter().map(line).collect())
}
