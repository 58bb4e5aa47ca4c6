//! A run over a corpus on a Dask cluster: the Python package drives the workers.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use thermocline_lab::corpus::{Outcome, Request};
use thermocline_lab::{LabError, Watch};

use crate::arguments::CorpusRunOptions;
use crate::interrupt;

/// The module of the Python package that answers.
const MODULE: &str = "thermocline._command";

/// The exit status of the package after Ctrl-C.
const INTERRUPTED: i32 = 130;
/// Between two looks at the package and at signals.
const LOOK: Duration = Duration::from_millis(20);

/// Question to the package.
#[derive(Serialize)]
struct Asked<'a> {
    version: &'a str,
    address: &'a str,
    manifest: &'a Path,
    root: Option<&'a Path>,
    compiled: Option<&'a Path>,
    output: &'a Path,
    /// A [`Request`] as JSON.
    request: String,
}

/// Its answer.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Outcome(Outcome),
    Error(String),
}

/// Runs the points on the cluster whose scheduler is at `address`.
pub(super) fn run(address: &str, options: &CorpusRunOptions, request: &Request) -> Result<Outcome> {
    let asked = Asked {
        version: env!("CARGO_PKG_VERSION"),
        address,
        manifest: &options.manifest.manifest,
        root: options.manifest.root.as_deref(),
        compiled: options.compiled.as_deref(),
        output: &options.output,
        request: serde_json::to_string(request).context("a request is JSON")?,
    };
    let asked = serde_json::to_vec(&asked).context("a question is JSON")?;
    let python = options.python.as_str();
    let (answer, status) = interrupt::stopping(|watch| ask(python, &asked, watch))??;
    match serde_json::from_slice(&answer) {
        Ok(Answer::Outcome(outcome)) => Ok(outcome),
        Ok(Answer::Error(error)) => bail!("--dask {address}: {error}"),
        Err(_) if status.code() == Some(INTERRUPTED) => Err(LabError::Stopped.into()),
        Err(_) => bail!("--dask: `{python}` gave no answer ({status}): {}", remedy()),
    }
}

/// Starts the package, writes the question, and waits for the answer. The package, too, sees Ctrl-C on
/// a terminal; any other signal that would end this process is passed on to it as Ctrl-C.
fn ask(python: &str, asked: &[u8], watch: &Watch) -> Result<(Vec<u8>, ExitStatus)> {
    let mut child = Command::new(python)
        .args(["-m", MODULE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("--dask: cannot start `{python}`: {}", remedy()))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut answer = vec![];
            stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut answer)).map(|_| answer)
        });
        // One that ends before it has read the question says why by its status.
        drop(stdin.map(|mut stdin| stdin.write_all(asked)));
        let mut is_passed_on = false;
        let status = loop {
            if let Some(status) = child.try_wait().context("cannot wait for Python")? {
                break status;
            }
            if watch.is_stopped() && !is_passed_on {
                is_passed_on = kill_process(Pid::from_child(&child), Signal::INT).is_ok();
            }
            thread::sleep(LOOK);
        };
        let answer = reader.join().map_err(|_| anyhow!("the answer was not read"))?;
        Ok((answer.context("cannot read the answer of Python")?, status))
    })
}

/// Return the remedy for a missing package.
fn remedy() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "install the Python package with `pip install 'thermocline[cluster]=={version}'`, or name the Python that has it with --python"
    )
}
