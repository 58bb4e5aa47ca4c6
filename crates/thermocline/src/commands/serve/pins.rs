//! Pinned ranges of a volume, in a file beside the note: they outlive the server.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use thermocline_engine::{Options, PageRanges};

use super::beside_note;
use super::ranges::RangeWord;
use crate::bytes::ByteRange;
use crate::note::NotePlace;

const HEADER: &str =
    "# Ranges that `thermocline cache pin` keeps in the cache: OFFSET+LENGTH in bytes.\n";

/// The file of the pinned ranges, and what it says.
#[derive(Debug)]
pub(crate) struct PinFile {
    /// Path of the file; `None` if the backing store has no note.
    path: Option<PathBuf>,
    page_bytes: u64,
    pages: Mutex<PageRanges>,
}

impl PinFile {
    /// Reads the file, if it is there.
    ///
    /// # Errors
    /// A file that cannot be read, or is not one of ranges.
    pub(super) fn load(note: Option<&NotePlace>, page_bytes: u64) -> Result<Self> {
        let path = note.map(|note| beside_note::path(note, ".pins"));
        let pages = path.as_deref().map(|path| {
            read(path, page_bytes).with_context(|| {
                format!("`{}`: the pinned ranges; correct or remove the file", path.display())
            })
        });
        let pages = Mutex::new(pages.transpose()?.unwrap_or_default());
        Ok(Self { path, page_bytes, pages })
    }

    /// Return the pinned pages.
    pub(super) fn pages(&self) -> PageRanges {
        self.lock().clone()
    }

    /// Check that the shards have room for all that is pinned.
    ///
    /// # Errors
    /// If one has not; the error names the file.
    pub(super) fn check(&self, shards: &[Options]) -> Result<()> {
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        shards.iter().try_for_each(Options::check_pins).with_context(|| {
            format!(
                "the ranges in `{}` cannot be pinned: raise `flash.pinned` (`ram.pinned` without a flash), or \
                 remove ranges from the file",
                path.display()
            )
        })
    }

    /// Notes durably that a range is pinned, or no longer is.
    ///
    /// # Errors
    /// If a shard, by its options, has no room for it, or the file cannot be written; nothing changes then.
    pub(super) fn change(
        &self,
        word: RangeWord,
        range: ByteRange,
        shards: &[Options],
    ) -> Result<()> {
        let mut known = self.lock();
        let (mut pages, changed) = (known.clone(), range.pages(self.page_bytes));
        match word {
            RangeWord::Pin => pages.add(changed),
            RangeWord::Unpin => pages.remove(&changed),
            RangeWord::Evict | RangeWord::Promote => return Ok(()),
        }
        for options in shards.iter().filter(|_| word == RangeWord::Pin) {
            let options = Options { pins: pages.clone(), ..options.clone() };
            options.check_pins().context(
                "`flash.pinned`, or `ram.pinned` without a flash, says how much may be pinned",
            )?;
        }
        let path = self.path.as_deref().ok_or_else(|| {
            anyhow!(
                "the backing store has no note, and the pinned ranges have their file beside it: set \
                 `backing.note`, and restart"
            )
        })?;
        let store = || store(path, &pages, self.page_bytes);
        store().with_context(|| format!("`{}`: the pinned ranges", path.display()))?;
        // After the file: a range that only memory knows would not outlive the server.
        *known = pages;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, PageRanges> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads ranges, one a line.
fn read(path: &Path, page_bytes: u64) -> Result<PageRanges> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(PageRanges::default()),
        text => text?,
    };
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let ranges = lines.map(|(index, line)| {
        let range = line.trim().parse::<ByteRange>();
        range
            .map(|range| range.pages(page_bytes))
            .map_err(|error| anyhow!(error).context(format!("line {}", index + 1)))
    });
    ranges.collect()
}

/// Writes ranges in place of the former file, durably.
fn store(path: &Path, pages: &PageRanges, page_bytes: u64) -> io::Result<()> {
    let lines = pages.iter().map(|range| {
        let [offset, length] = [range.start, range.end - range.start].map(|it| it * page_bytes);
        format!("{offset}+{length}\n")
    });
    beside_note::replace(path, &(HEADER.to_owned() + &lines.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use thermocline_engine::PolicyOptions;

    use super::*;

    #[test]
    fn pinned_ranges_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let note = NotePlace::at(&folder.path().join("disk.img.thermocline"));
        let load = || PinFile::load(Some(&note), 4096);
        let file = load().unwrap();
        assert_eq!(file.pages(), PageRanges::default());
        let policy = PolicyOptions::named("lru").unwrap();
        let options = Options { pinned_pages: 8, ..Options::new(64, 8, 0, policy) };
        let shards = [options];
        let change = |word, range: &str| file.change(word, range.parse().unwrap(), &shards);
        change(RangeWord::Pin, "4095+2").unwrap();
        change(RangeWord::Pin, "40KiB-48KiB").unwrap();
        let pinned: Vec<_> = load().unwrap().pages().iter().collect();
        assert_eq!(pinned, [0..2, 10..12]);
        let error = format!("{:#}", change(RangeWord::Pin, "0-1MiB").unwrap_err());
        assert!(error.contains("`flash.pinned`") && error.contains("at most 8"), "{error}");
        assert_eq!(load().unwrap().pages(), file.pages(), "nothing changed");
        change(RangeWord::Unpin, "0-44KiB").unwrap();
        assert_eq!(load().unwrap().pages(), std::iter::once(11..12).collect());
        let path = folder.path().join("disk.img.thermocline.pins");
        fs::write(&path, "0+4096\n\nnonsense\n").unwrap();
        let error = format!("{:#}", load().unwrap_err());
        assert!(error.contains("line 3") && error.contains("disk.img.thermocline.pins"), "{error}");
        let error = PinFile::load(None, 4096).unwrap();
        let error = error.change(RangeWord::Pin, "0+1".parse().unwrap(), &shards).unwrap_err();
        assert!(error.to_string().contains("set `backing.note`"), "{error}");
    }
}
