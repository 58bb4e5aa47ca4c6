//! A recording that is read line by line, as often as it takes.

use std::path::{Path, PathBuf};

use thermocline_trace::{Input, Position, TraceError, excerpt};

use super::progress::Progress;

/// Longer lines are refused, so that a binary file cannot eat memory.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 20;

/// A recording: a file, compressed or not, or text in memory.
#[derive(Debug)]
pub(super) enum Recorded {
    /// A file.
    File(PathBuf),
    /// Its content, and what stands for it in messages.
    Text(PathBuf, Vec<u8>),
}

impl Recorded {
    /// Return the path that stands for it in messages.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Text(path, _) => path,
        }
    }

    /// Return its bytes, from the beginning.
    pub(super) fn open(&self) -> Result<Input, TraceError> {
        match self {
            Self::File(path) => Input::open(path),
            Self::Text(path, text) => Input::new(path, std::io::Cursor::new(text.clone())),
        }
    }

    /// Gives every line to `each`, with its number and without its end.
    pub(super) fn each_line(
        &self,
        progress: &mut dyn Progress,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let mut input = self.open()?;
        let mut number = 0;
        loop {
            progress.at(input.fetched_bytes(), input.size_bytes());
            let bytes = input.available();
            let mut begin = 0;
            while let Some(length) = memchr::memchr(b'\n', &bytes[begin..]) {
                number += 1;
                let line = &bytes[begin..begin + length];
                each(number, line.strip_suffix(b"\r").unwrap_or(line))?;
                begin += length + 1;
            }
            let left_bytes = bytes.len() - begin;
            input.consume(begin);
            if left_bytes > LINE_BYTES_MAX {
                return Err(TraceError::Malformed {
                    path: self.path().into(),
                    position: Position::Line(number + 1),
                    reason: "the line is longer than 1 MiB".into(),
                    text: excerpt(input.available()),
                });
            }
            if !input.fill()? {
                if left_bytes > 0 {
                    each(number + 1, input.available())?;
                }
                return Ok(());
            }
        }
    }
}
