//! One trace in several files, such as one file per day.

use std::path::{Path, PathBuf};

use thermocline_core::Nanos;

use crate::error::TraceError;
use crate::format::ReadOptions;
use crate::reader::Reader;
use crate::request::{PageSize, Request, Requests};
use crate::volumes::Volumes;

/// The requests of several files, one file after the other.
///
/// Volumes of the same name are one volume. If the clock of a file starts again, so that its first
/// request comes before the last one so far, its times are shifted to begin where the file before it
/// ended. Only one file is open at a time.
#[derive(Debug)]
pub struct Series {
    paths: Vec<PathBuf>,
    options: ReadOptions,
    /// Stands for all files in messages.
    name: PathBuf,
    part: Option<Part>,
    /// Number of files that have been opened.
    opened: usize,
    volumes: Volumes,
    last_at: Nanos,
}

/// The file that is being read.
#[derive(Debug)]
struct Part {
    reader: Reader,
    /// Per volume of the file: its number in the series.
    volumes: Vec<u32>,
    /// Added to each time; unknown before the first request.
    shift_ns: Option<u64>,
}

impl Series {
    /// Opens the first of the files, which are read in this order.
    ///
    /// # Errors
    /// If that file cannot be opened, as for [`Reader::open`]; later files fail when their turn
    /// comes.
    ///
    /// # Panics
    /// If there is no file.
    pub fn open(paths: Vec<PathBuf>, options: ReadOptions) -> Result<Self, TraceError> {
        let first = paths.first().expect("a series has a file");
        let name = match paths.len() {
            1 => first.clone(),
            files => PathBuf::from(format!("{} and {} more", first.display(), files - 1)),
        };
        let part = Some(Part::open(first, &options)?);
        let (volumes, last_at) = (Volumes::default(), Nanos(0));
        Ok(Self { paths, options, name, part, opened: 1, volumes, last_at })
    }

    /// Return the page size that the first file states, if it does.
    pub fn page_size(&self) -> Option<PageSize> {
        self.part.as_ref().and_then(|part| part.reader.page_size())
    }
}

impl Part {
    fn open(path: &Path, options: &ReadOptions) -> Result<Self, TraceError> {
        Ok(Self { reader: Reader::open(path, options)?, volumes: vec![], shift_ns: None })
    }

    /// Gives requests the numbers of their volumes and the times that they have in the series.
    fn adopt(
        &mut self,
        batch: &mut [Request],
        volumes: &mut Volumes,
        last_at: &mut Nanos,
    ) -> Result<(), TraceError> {
        let names = self.reader.volume_names();
        let new = names.get(self.volumes.len()..).unwrap_or_default();
        self.volumes.extend(new.iter().map(|name| volumes.number(name.as_bytes())));
        for request in batch {
            let previous_end = *last_at;
            let shift_ns =
                // Decided by the first request of a file: a file that goes on where the last one
                // ended is not shifted.
                self.shift_ns.get_or_insert_with(|| previous_end.0.saturating_sub(request.at.0));
            request.volume = self.volumes[request.volume as usize];
            let at_ns = request.at.0.checked_add(*shift_ns).ok_or_else(|| TraceError::Limit {
                path: self.reader.path().to_owned(),
                reason: "its times end after 2^64 ns".into(),
            })?;
            request.at = Nanos(at_ns);
            *last_at = request.at.max(*last_at);
        }
        Ok(())
    }
}

impl Requests for Series {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        loop {
            if let Some(part) = &mut self.part {
                if part.reader.read_batch(batch)? {
                    part.adopt(batch, &mut self.volumes, &mut self.last_at)?;
                    return Ok(true);
                }
                self.part = None;
            }
            let Some(path) = self.paths.get(self.opened) else {
                batch.clear();
                return Ok(false);
            };
            self.part = Some(Part::open(path, &self.options)?);
            self.opened += 1;
        }
    }

    fn volume_names(&self) -> &[String] {
        self.volumes.names()
    }

    fn path(&self) -> &Path {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CompiledTrace;

    /// Writes each text as a file, and reads all of them as one trace.
    fn series(texts: &[&str]) -> (tempfile::TempDir, Series) {
        let folder = tempfile::tempdir().unwrap();
        let path = |(number, text): (usize, &&str)| {
            let path = folder.path().join(format!("part.{number}.spc"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths = texts.iter().enumerate().map(path).collect();
        let series = Series::open(paths, ReadOptions::default()).unwrap();
        (folder, series)
    }

    fn all(series: &mut Series) -> Vec<(u64, String)> {
        let (mut all, mut batch) = (vec![], vec![]);
        while series.read_batch(&mut batch).unwrap() {
            for request in &batch {
                let volume = series.volume_names()[request.volume as usize].clone();
                all.push((request.at.0 / 1_000_000_000, volume));
            }
        }
        assert!(!series.read_batch(&mut batch).unwrap(), "the end stays the end");
        all
    }

    #[test]
    fn files_follow_each_other_and_share_volumes() {
        let (_folder, mut series) = series(&["7,0,512,r,5\n", "3,0,512,w,6\n7,8,512,r,9\n"]);
        let expected = [(5, "7"), (6, "3"), (9, "7")].map(|(at, name)| (at, name.to_owned()));
        assert_eq!(all(&mut series), expected);
        assert_eq!(series.volume_names(), ["7", "3"]);
        assert!(series.path().to_string_lossy().ends_with("part.0.spc and 1 more"));
    }

    #[test]
    fn a_clock_that_starts_again_goes_on() {
        let (_folder, mut series) =
            series(&["0,0,512,r,5\n0,0,512,r,9\n", "0,0,512,w,1\n0,0,512,r,4\n", "0,0,512,r,2\n"]);
        let times: Vec<u64> = all(&mut series).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [5, 9, 9, 12, 12]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let (_folder, mut series) = series(&["0,0,512,r,5\n", "no trace\n"]);
        let error = CompiledTrace::compile(&mut series, PageSize::DEFAULT).unwrap_err();
        assert!(error.to_string().contains("part.1.spc: cannot detect the format"), "{error}");
    }
}
