//! Options of a conversion.

use std::str::FromStr;

use globset::{Glob, GlobSet, GlobSetBuilder};
use thermocline_trace::PageSize;

use crate::error::CaptureError;

/// Program that made a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// `strace -f -ttt -o FILE`, with or without `-y` or `-yy`.
    Strace,
    /// [`BPFTRACE_SCRIPT`](super::BPFTRACE_SCRIPT), run by bpftrace.
    Bpftrace,
    /// The text that blkparse prints.
    Blkparse,
    /// The binary files of blktrace, or what `blkparse -d` joins of them.
    Blktrace,
    /// The log that fio writes with `--write_iolog`, versions 2 and 3.
    FioIolog,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Strace, Self::Bpftrace, Self::Blkparse, Self::Blktrace, Self::FioIolog];

    /// Return its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strace => "strace",
            Self::Bpftrace => "bpftrace",
            Self::Blkparse => "blkparse",
            Self::Blktrace => "blktrace",
            Self::FioIolog => "fio-iolog",
        }
    }
}

impl FromStr for Source {
    type Err = CaptureError;

    fn from_str(name: &str) -> Result<Self, CaptureError> {
        let found = Self::ALL.into_iter().find(|source| source.name() == name);
        found.ok_or_else(|| CaptureError::NoSuchSource { name: name.to_owned() })
    }
}

/// Rule by which two accesses go to the same file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// The inode: a rename keeps it, and a file that is removed and created again is another one.
    #[default]
    Inode,
    /// The name at the time of opening: a file that is removed and created again is the same.
    Path,
}

/// Treatment of files that are mapped into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mmap {
    /// Mapped files are counted.
    #[default]
    Ignore,
    /// The whole range is read when it is mapped, and written too if it is shared and writable:
    /// an upper bound.
    Map,
}

/// Options of a conversion.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Bytes per page.
    pub page_size: PageSize,
    /// Files that are taken.
    pub files: FileFilter,
    /// Rule by which two accesses go to the same file.
    pub identity: Identity,
    /// Treatment of mapped files.
    pub mmap: Mmap,
    /// Maximum number of lines or records that cannot be understood.
    pub max_unknown: u64,
    /// The folder in which the recorded program began, if the recording does not say it.
    pub folder: Option<Vec<u8>>,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self {
            page_size: PageSize::DEFAULT,
            files: FileFilter::default(),
            identity: Identity::Inode,
            mmap: Mmap::Ignore,
            max_unknown: 0,
            folder: None,
        }
    }
}

/// Files that are taken, by patterns over their whole paths.
#[derive(Clone, Debug, Default)]
pub struct FileFilter {
    include: Option<GlobSet>,
    exclude: Option<GlobSet>,
}

impl FileFilter {
    /// Files that match one of `include`, or all if there is none, and none of `exclude`. A `*`
    /// stands for any text, `/` included.
    ///
    /// # Errors
    /// If a pattern is malformed.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, CaptureError> {
        Ok(Self { include: globs(include)?, exclude: globs(exclude)? })
    }

    /// Return `true` if the file of this name is taken.
    pub(crate) fn takes(&self, path: &str) -> bool {
        self.include.as_ref().is_none_or(|globs| globs.is_match(path))
            && !self.exclude.as_ref().is_some_and(|globs| globs.is_match(path))
    }
}

fn globs(patterns: &[String]) -> Result<Option<GlobSet>, CaptureError> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let bad = |error: globset::Error| CaptureError::Pattern { reason: error.to_string() };
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(Glob::new(pattern).map_err(bad)?);
    }
    builder.build().map(Some).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_parsed_from_their_names() {
        for source in Source::ALL {
            assert_eq!(source.name().parse::<Source>().unwrap(), source);
        }
        let error = "dtrace".parse::<Source>().unwrap_err().to_string();
        assert!(error.contains("'dtrace'") && error.contains("fio-iolog"), "{error}");
    }

    #[test]
    fn patterns_take_and_leave_files() {
        let patterns = |texts: &[&str]| texts.iter().map(|&text| text.into()).collect::<Vec<_>>();
        let filter =
            FileFilter::new(&patterns(&["*.db", "/d/*"]), &patterns(&["*/no.db"])).unwrap();
        assert!(filter.takes("/a/b/x.db") && filter.takes("/d/e/f"));
        assert!(!filter.takes("/a/no.db") && !filter.takes("/a/x.dbx"));
        assert!(FileFilter::default().takes("anything"));
        let error = FileFilter::new(&patterns(&["a[b"]), &[]).unwrap_err().to_string();
        assert!(error.contains("a[b"), "{error}");
    }
}
