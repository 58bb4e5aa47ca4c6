//! `thermocline artifact`: run a part of a study again, and say whether the results that it ships are
//! right.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use serde::Deserialize;
use thermocline_lab::corpus::{
    Difference, DifferenceKind, Manifest, Plan, TraceOutcome, Verification, VerifiedTrace,
    VerifySettings, results,
};
use thermocline_trace::text_file;

use super::corpus::{processors, request};
use crate::arguments::{ArtifactOptions, CorpusRunOptions};
use crate::hierarchy::in_hierarchy;
use crate::{interrupt, output};

/// The file that says how a study was run.
const FILE: &str = "study.toml";

/// A study: the run of a corpus whose results are committed beside it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyFile {
    /// The manifest of the traces, relative to the study's folder.
    manifest: PathBuf,
    /// The folder of results, relative to the study's folder.
    results: PathBuf,
    /// The arguments of `thermocline corpus run`, without the manifest and the output.
    arguments: Vec<String>,
}

/// The arguments of a study, parsed as those of `corpus run`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct StudyRun {
    #[command(flatten)]
    options: CorpusRunOptions,
}

/// Run the command. The exit status is 1 if a result differs or a trace is not usable.
pub(crate) fn run(options: &ArtifactOptions, status: &mut u8) -> Result<String> {
    let path = options.study.join(FILE);
    let at_file = || format!("`{}`", path.display());
    let text = text_file::read(&path).with_context(|| {
        format!("{}: name a folder of a study, such as studies/hybrids", at_file())
    })?;
    let study: StudyFile = toml::from_str(&text).with_context(at_file)?;
    let run = study.arguments(&options.study, options.root.as_deref()).with_context(at_file)?;
    let manifest = Manifest::read(&run.manifest.manifest, run.manifest.root.as_deref())?;
    let request = request(&run).with_context(at_file)?;
    let plan = Plan::new(Arc::new(manifest), &request, &[])
        .map_err(|error| in_hierarchy(error, &run.hierarchy, &request.spec))
        .with_context(at_file)?;
    let shipped = results::read(&run.output)?;
    let settings = VerifySettings {
        threads: options.threads.map_or_else(processors, |threads| threads as usize),
        time_limit: Duration::from_secs(options.minutes * 60),
        seed: options.seed,
    };
    let bar = output::progress(plan.trace_count(), "traces")?;
    let verified =
        interrupt::stopping(|watch| plan.verify(&shipped, &settings, watch, || bar.inc(1)))??;
    bar.finish_and_clear();
    if !verified.agrees {
        *status = 1;
    }
    if options.json { output::json(&verified) } else { Ok(report(&verified, options)) }
}

impl StudyFile {
    /// Return the arguments of the run, with paths below the study's folder.
    fn arguments(&self, folder: &Path, root: Option<&Path>) -> Result<CorpusRunOptions> {
        let is_fixed =
            |one: &&String| ["-o", "--output", "--root", "--dask"].contains(&one.as_str());
        let fixed = self.arguments.iter().find(is_fixed);
        ensure!(
            fixed.is_none(),
            "`arguments` has {}: leave it out, because the command sets it itself",
            fixed.map_or("", String::as_str)
        );
        let mut words: Vec<OsString> = self.arguments.iter().map(OsString::from).collect();
        words.push("--output".into());
        words.push(folder.join(&self.results).into());
        if let Some(root) = root {
            words.push("--root".into());
            words.push(root.into());
        }
        words.push(folder.join(&self.manifest).into());
        let parsed = StudyRun::try_parse_from(words);
        Ok(parsed.context("`arguments` are not those of `thermocline corpus run`")?.options)
    }
}

/// Format one line per trace, and the verdict.
fn report(verified: &Verification, options: &ArtifactOptions) -> String {
    let mut text: String = verified.traces.iter().map(line).collect();
    let count = |number: usize| output::count(number as u64);
    let with =
        |outcome: TraceOutcome| verified.traces.iter().filter(|one| one.outcome == outcome).count();
    let ran = with(TraceOutcome::Agrees) + with(TraceOutcome::Differs);
    let scope = format!(
        "{} of {} points on {} of {} traces",
        count(verified.compared_points),
        count(verified.shipped_points),
        count(ran),
        count(verified.traces.len()),
    );
    let verdict = if verified.agrees {
        format!("The shipped results are right: every figure is the same, for {scope}.\n")
    } else if ran == 0 {
        "Nothing was compared: no trace could be run.\n".to_owned()
    } else if verified.differing_points == 0 {
        format!(
            "Every figure that was compared is the same, for {scope}, but some traces are not usable.\n"
        )
    } else {
        format!(
            "The shipped results are not those of this program: {} points differ. Compared: {}.\n",
            count(verified.differing_points),
            scope
        )
    };
    text += &verdict;
    let shipped = verified.shipped_versions.join(", ");
    text += &format!("Shipped by version {shipped}, run by version {}.\n", verified.version);
    let missing = with(TraceOutcome::Missing);
    if missing > 0 {
        let remedy = match options.root {
            None => "name the folder that has them with --root",
            Some(_) => "put them where the manifest says",
        };
        text += &format!("Traces that are not here: {}; {remedy}.\n", count(missing));
    }
    let late = with(TraceOutcome::NotReached);
    if late > 0 {
        let (late, minutes) = (count(late), options.minutes);
        text +=
            &format!("Traces without a turn within {minutes} minutes: {late}; see --minutes.\n");
    }
    text
}

fn line(one: &VerifiedTrace) -> String {
    let word = match one.outcome {
        TraceOutcome::Agrees => "same    ",
        TraceOutcome::Differs => "DIFFERS ",
        TraceOutcome::Missing => "missing ",
        TraceOutcome::Unusable => "UNUSABLE",
        TraceOutcome::NotReached => "no turn ",
    };
    let mut line = format!("{word} {}/{}", one.dataset, one.trace);
    if let Some(reason) = &one.reason {
        line += &format!(": {reason}");
    } else if one.compared_points > 0 {
        line += &format!(": {} points", output::count(one.compared_points as u64));
    }
    line.push('\n');
    if let Some(difference) = &one.difference {
        line += &format!("         {}\n", explained(difference, one.differing_points));
    }
    line
}

fn explained(difference: &Difference, points: usize) -> String {
    let Difference { point, parameters, kind } = difference;
    let more = match points {
        0 | 1 => String::new(),
        2 => "; 1 more point differs".into(),
        points => format!("; {} more points differ", points - 1),
    };
    match kind {
        DifferenceKind::Figure { column, shipped, found } => {
            format!("{point}: {column} is {found} now, {shipped} in the results{more}")
        }
        DifferenceKind::OnlyShipped => {
            format!("{point}: the results have it with {parameters}, the run does not{more}")
        }
        DifferenceKind::OnlyFound => {
            format!("{point}: the run has it with {parameters}, the results do not{more}")
        }
    }
}
