//! Parts beside an output: results that are on disk, and not in the output yet.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::LabError;

/// The file among the parts that the run at work holds.
const LOCK: &str = "lock";

/// The folder of the parts of one output, which one run at a time writes. Without any part, nothing is
/// left of it.
#[derive(Debug)]
pub(crate) struct Parts {
    folder: PathBuf,
    /// Held as long as the run lasts.
    lock: Option<File>,
}

impl Parts {
    /// Return the parts beside an output, which nobody else writes now.
    pub(crate) fn open(output: &Path) -> Result<Self, LabError> {
        let mut name = output.as_os_str().to_owned();
        name.push(".parts");
        let folder = PathBuf::from(name);
        let failed = |error: std::io::Error| LabError::file(&folder, error);
        if !folder.is_dir() {
            fs::create_dir(&folder).map_err(failed)?;
        }
        let lock = File::create(folder.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { folder, lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => {
                let reason = "another run writes here: wait for it, or take another output";
                Err(LabError::file(output, reason))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Return the files of all parts, sorted.
    pub(crate) fn paths(&self) -> Result<Vec<PathBuf>, LabError> {
        let failed = |error: std::io::Error| LabError::file(&self.folder, error);
        let mut paths = vec![];
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|end| end == "parquet"));
        paths.sort();
        Ok(paths)
    }

    /// Return the file of the part of that name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.parquet"))
    }

    /// Removes the parts, whose results are in the output.
    pub(crate) fn remove(mut self) -> Result<(), LabError> {
        // Some systems do not remove what is open.
        self.lock = None;
        fs::remove_dir_all(&self.folder).map_err(|error| LabError::file(&self.folder, error))
    }
}

impl Drop for Parts {
    /// Removes the folder of a run that ends without a result.
    fn drop(&mut self) {
        let Some(lock) = self.lock.take() else { return };
        let is_lock = |entry: std::io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name() == LOCK)
        };
        if fs::read_dir(&self.folder).is_ok_and(|mut entries| entries.all(is_lock)) {
            // A lock that cannot be removed harms nobody: the next run takes it over.
            drop(fs::remove_file(self.folder.join(LOCK)));
            drop(lock);
            drop(fs::remove_dir(&self.folder));
        }
    }
}
