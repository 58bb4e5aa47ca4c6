//! Files that a command reads and writes.

use std::path::{Path, PathBuf};
use std::slice::from_ref;

use anyhow::{Result, bail};

use super::{Command, CorpusCommand, TraceCommand};

impl Command {
    /// Refuses to write over what is read, or one result over another.
    ///
    /// # Errors
    /// If a file is named twice; the error is that file.
    pub(crate) fn check_files(&self) -> Result<()> {
        let (read, written) = self.files();
        let written: Vec<&PathBuf> = written.into_iter().flatten().collect();
        for (index, file) in written.iter().enumerate() {
            if read.iter().any(|read| is_same(read, file)) {
                bail!("`{}` is what is read: name another file to be written", file.display());
            }
            if written[..index].iter().any(|other| is_same(other, file)) {
                bail!("`{}` would be written twice: name two files", file.display());
            }
        }
        Ok(())
    }

    /// Return the files that are read, and those that are written, as far as options name them.
    fn files(&self) -> (&[PathBuf], [Option<&PathBuf>; 2]) {
        match self {
            Self::Trace(options) => match &options.command {
                TraceCommand::Info(info) => (from_ref(&info.trace), [info.report.as_ref(), None]),
                TraceCommand::Classes(classes) => {
                    (from_ref(&classes.trace), [classes.report.as_ref(), None])
                }
                TraceCommand::Convert(convert) => {
                    (from_ref(&convert.trace), [Some(&convert.output), None])
                }
                TraceCommand::Fit(fit) => (from_ref(&fit.trace), [Some(&fit.output), None]),
                TraceCommand::Generate(generate) => {
                    (generate.profile.as_slice(), [Some(&generate.output), None])
                }
                TraceCommand::Record(_) => (&[], [None; 2]),
            },
            Self::Compare(compare) => (&compare.traces, [compare.report.as_ref(), None]),
            Self::Mrc(mrc) => (from_ref(&mrc.trace), [mrc.csv.as_ref(), mrc.report.as_ref()]),
            Self::Sweep(sweep) => {
                (sweep.sweep.as_slice(), [sweep.output.as_ref(), sweep.report.as_ref()])
            }
            Self::Corpus(corpus) => match &corpus.command {
                CorpusCommand::Report(options) => {
                    (from_ref(&options.results), [options.report.as_ref(), None])
                }
                CorpusCommand::Run(options) => {
                    (from_ref(&options.manifest.manifest), [Some(&options.output), None])
                }
                CorpusCommand::Compile(options) => {
                    (from_ref(&options.manifest.manifest), [Some(&options.output), None])
                }
                CorpusCommand::Check(_) | CorpusCommand::Fetch(_) => (&[], [None; 2]),
            },
            Self::Plan(plan) => (from_ref(&plan.trace), [plan.output.as_ref(), None]),
            Self::Advise(advise) => (&advise.traces, [advise.save.as_ref(), None]),
            Self::Hot(hot) => (from_ref(&hot.trace), [hot.report.as_ref(), None]),
            Self::Buffer(buffer) => (from_ref(&buffer.trace), [buffer.report.as_ref(), None]),
            Self::Kv(kv) => (from_ref(&kv.trace), [kv.report.as_ref(), None]),
            // Reports go to the browser.
            Self::Explore(_)
            | Self::Demo(_)
            | Self::Policies(_)
            | Self::Identifiers(_)
            | Self::Devices(_)
            | Self::Drives(_)
            | Self::Simulate(_)
            | Self::Buffers(_)
            | Self::Reproduce(_)
            | Self::Artifact(_)
            | Self::Serve(_)
            | Self::Cache(_)
            | Self::Top(_)
            | Self::Completions(_) => (&[], [None; 2]),
        }
    }
}

/// Return `true` if two names are of one file, which need not exist.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
