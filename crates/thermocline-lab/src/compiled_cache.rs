//! Compiled traces of one machine: a folder that all its processes share, with a bound.
//!
//! A trace is compiled once, by whichever process asks first while the others wait, and mapped by all.
//! A file is found by a hash of the bytes of its trace and of how they are read. When a new one would
//! exceed the bound, those that were opened longest ago are removed, but never one that a process has
//! open: an open file has a shared lock. A trace that does not fit stays in the memory of the process
//! that compiled it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use thermocline_trace::{CompiledTrace, TraceError};

use crate::sweep::{TraceSource, hex};
use crate::{LabError, Watch};

/// Changes when compiled traces of older programs must not be used.
const COMPILED_VERSION: u32 = 2;

/// Suffix of compiled traces.
const COMPILED: &str = "tct";

/// Held by the process that removes and writes files.
const LOCK: &str = "folder.lock";

/// Prefix of files that a process is writing.
const UNFINISHED: &str = ".thermocline-";

/// A file that was not written to for so long belongs to a process that was killed.
const ABANDONED_AFTER: Duration = Duration::from_hours(24);

/// Between two looks at a lock that another process holds.
const LOOK: Duration = Duration::from_millis(20);

/// Return the path of a trace's compiled form in a folder: a hash of its bytes and of the options
/// of reading it.
pub(crate) fn compiled_path(folder: &Path, source: &TraceSource, sha256: &str) -> PathBuf {
    let identity = format!("{COMPILED_VERSION} {}", source.identity(sha256));
    folder.join(format!("{}.{COMPILED}", &hex(&Sha256::digest(identity))[..32]))
}

/// A folder of compiled traces.
#[derive(Clone, Debug)]
pub struct CompiledCache {
    folder: PathBuf,
    bytes_max: u64,
}

/// A file of the folder.
struct Kept {
    path: PathBuf,
    bytes: u64,
    used_at: SystemTime,
}

impl CompiledCache {
    /// Open or create a folder that holds at most `bytes_max` bytes.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn new(folder: &Path, bytes_max: u64) -> Result<Self, LabError> {
        fs::create_dir_all(folder).map_err(|error| LabError::file(folder, error))?;
        Ok(Self { folder: folder.to_owned(), bytes_max })
    }

    /// Return the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Return a trace, and whether it was compiled now; `bring` is called before that, and gives
    /// the path of the trace's file, whose SHA-256 must be the one given.
    ///
    /// # Errors
    /// As for `bring`; or if a trace cannot be read or is another file, a file of the folder cannot
    /// be written, or [`LabError::Stopped`].
    pub fn open(
        &self,
        source: &TraceSource,
        sha256: &str,
        watch: &Watch,
        threads: usize,
        bring: impl FnOnce() -> Result<PathBuf, LabError>,
    ) -> Result<(CompiledTrace, bool), LabError> {
        let path = compiled_path(&self.folder, source, sha256);
        if let Some(trace) = Self::mapped(&path)? {
            return Ok((trace, false));
        }
        let lock_path = path.with_extension("lock");
        let lock = Self::locked(&lock_path, watch)?;
        if let Some(trace) = Self::mapped(&path)? {
            return Ok((trace, false));
        }
        let here = TraceSource { path: bring()?, ..source.clone() };
        let trace = here.open_verified(sha256, watch, threads)?;
        let kept = if trace.is_mapped() { None } else { self.keep(&trace, &path, watch)? };
        // Another process that waits for this file finds the trace when it has the lock.
        drop(fs::remove_file(lock_path));
        drop(lock);
        Ok((kept.unwrap_or(trace), true))
    }

    /// Removes files until so many bytes more are within the bound; `false` if too many are in use.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file cannot be removed.
    fn make_room(&self, bytes: u64) -> Result<bool, LabError> {
        let mut kept = self.kept()?;
        kept.sort_by_key(|one| one.used_at);
        let mut total: u64 = kept.iter().map(|one| one.bytes).sum();
        for one in kept {
            if total.saturating_add(bytes) <= self.bytes_max {
                break;
            }
            if Self::remove(&one.path)? {
                total -= one.bytes;
            }
        }
        Ok(total.saturating_add(bytes) <= self.bytes_max)
    }

    /// Writes a trace and maps it; none if there is no room for it.
    fn keep(
        &self,
        trace: &CompiledTrace,
        path: &Path,
        watch: &Watch,
    ) -> Result<Option<CompiledTrace>, LabError> {
        // One at a time, so that two of them together do not exceed the bound.
        let _lock = Self::locked(&self.folder.join(LOCK), watch)?;
        if !self.make_room(trace.mapped_bytes()?)? {
            return Ok(None);
        }
        trace.save_mapped(path)?;
        Self::mapped(path)
    }

    /// Return the trace of a file, which is now the last one used; `None` if it is not there or is
    /// of no use.
    fn mapped(path: &Path) -> Result<Option<CompiledTrace>, LabError> {
        if !path.exists() {
            return Ok(None);
        }
        let trace = match CompiledTrace::open(path) {
            Ok(trace) => trace,
            Err(TraceError::Content { .. }) => {
                // Damaged, or of another version.
                Self::remove(path)?;
                return Ok(None);
            }
            // Another process removed it just now.
            Err(_) if !path.exists() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Where times cannot be set, files are removed in the order in which they were written.
        drop(File::open(path).and_then(|file| file.set_modified(SystemTime::now())));
        Ok(Some(trace))
    }

    /// Removes a file unless a process has it open; `true` if it is gone.
    fn remove(path: &Path) -> Result<bool, LabError> {
        let failed = |error: io::Error| LabError::file(path, error);
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            opened => opened.map_err(failed)?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(false),
            // Without locks nobody knows; a file that is removed stays readable for those who have it.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(true),
        }
    }

    /// Return the compiled traces of the folder. Remains of killed processes are removed.
    fn kept(&self) -> Result<Vec<Kept>, LabError> {
        let failed = |error: io::Error| LabError::file(&self.folder, error);
        let mut kept = vec![];
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // One that has gone meanwhile takes no room.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let used_at = metadata.modified().map_err(failed)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(UNFINISHED) {
                let age = SystemTime::now().duration_since(used_at).unwrap_or_default();
                if age < ABANDONED_AFTER || fs::remove_file(&path).is_err() {
                    kept.push(Kept { path: path.clone(), bytes: metadata.len(), used_at });
                }
            } else if path.extension().is_some_and(|end| end == COMPILED) {
                kept.push(Kept { path, bytes: metadata.len(), used_at });
            }
        }
        Ok(kept)
    }

    /// Return a file that this process alone holds from now on.
    fn locked(path: &Path, watch: &Watch) -> Result<File, LabError> {
        let failed = |error: io::Error| LabError::file(path, error);
        let file = File::create(path).map_err(failed)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            watch.check()?;
            thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Create a trace of `pages` pages; return it with its SHA-256 and the size of its compiled
    /// form.
    fn trace(folder: &Path, pages: u64) -> (TraceSource, String, u64) {
        let path = folder.join(format!("{pages}.spc"));
        let lines: String = (0..pages).map(|page| format!("0,{},4096,r,0.5\n", page * 8)).collect();
        fs::write(&path, lines).unwrap();
        let source = TraceSource {
            name: path.display().to_string(),
            place: None,
            path,
            page_size: None,
            format: Some("spc".parse().unwrap()),
            time_unit: None,
            allow_truncated: false,
            only_classes: vec![],
            volume_of: thermocline_trace::VolumeOf::All,
            objects: thermocline_trace::Objects::Pages,
            columns: None,
        };
        let sha256 = source.sha256().unwrap();
        let bytes = source.open(&Watch::default(), 1).unwrap().mapped_bytes().unwrap();
        (source, sha256, bytes)
    }

    fn open(cache: &CompiledCache, of: &(TraceSource, String, u64)) -> (CompiledTrace, bool) {
        let bring = || Ok(of.0.path.clone());
        cache.open(&of.0, &of.1, &Watch::default(), 1, bring).unwrap()
    }

    fn files(cache: &CompiledCache) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            cache.kept().unwrap().into_iter().map(|kept| kept.path).collect();
        files.sort();
        files
    }

    #[test]
    fn a_trace_is_compiled_once_and_mapped_by_all() {
        let folder = tempfile::tempdir().unwrap();
        let one = trace(folder.path(), 100);
        let cache = CompiledCache::new(&folder.path().join("cache"), 1 << 20).unwrap();
        let compiled = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (trace, is_new) = open(&cache, &one);
                    assert!(trace.is_mapped());
                    assert_eq!(trace.len(), 100);
                    compiled.fetch_add(usize::from(is_new), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(compiled.into_inner(), 1);
        assert_eq!(files(&cache).len(), 1);
        // Other options of reading make another trace.
        let other = TraceSource { page_size: Some("8KiB".parse().unwrap()), ..one.0.clone() };
        let (trace, is_new) = open(&cache, &(other, one.1, 0));
        assert!(is_new && trace.page_size_bytes() == 8192);
    }

    #[test]
    fn the_bound_holds_and_spares_what_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<_> = [300, 301, 302, 303].map(|pages| trace(folder.path(), pages)).into();
        let bytes_max = all[0].2 + all[1].2 + 8;
        let cache = CompiledCache::new(&folder.path().join("cache"), bytes_max + 100).unwrap();
        let path = |of: &(TraceSource, String, u64)| compiled_path(cache.folder(), &of.0, &of.1);
        let total = || cache.kept().unwrap().iter().map(|kept| kept.bytes).sum::<u64>();
        let (first, _) = open(&cache, &all[0]);
        drop(open(&cache, &all[1]));
        // The second one was used last, but the first one is open.
        drop(open(&cache, &all[2]));
        assert!(path(&all[0]).exists() && !path(&all[1]).exists() && path(&all[2]).exists());
        assert!(total() <= cache.bytes_max);
        let (third, _) = open(&cache, &all[2]);
        // Nothing can go, so the last one stays in memory.
        let (last, is_new) = open(&cache, &all[3]);
        assert!(is_new && !last.is_mapped() && !path(&all[3]).exists());
        drop((first, third));
        assert!(open(&cache, &all[3]).0.is_mapped());
        assert!(!path(&all[0]).exists() && total() <= cache.bytes_max);
    }

    #[test]
    fn what_is_damaged_is_compiled_again_and_another_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let one = trace(folder.path(), 50);
        let cache = CompiledCache::new(&folder.path().join("cache"), 1 << 20).unwrap();
        drop(open(&cache, &one));
        let path = compiled_path(cache.folder(), &one.0, &one.1);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(open(&cache, &one).1);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        let (other, ..) = trace(folder.path(), 51);
        let refused = cache.open(&one.0, "00", &Watch::default(), 1, || Ok(other.path));
        assert!(refused.unwrap_err().to_string().contains("another file"));
        let stopped = Watch::default();
        stopped.stop();
        let lock = File::create(path.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        fs::remove_file(&path).unwrap();
        let waited = cache.open(&one.0, &one.1, &stopped, 1, || unreachable!("it is locked"));
        assert!(matches!(waited, Err(LabError::Stopped)));
    }

    #[test]
    fn what_killed_processes_left_goes_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CompiledCache::new(folder.path(), 1 << 20).unwrap();
        for (name, hours) in [(".thermocline-old", 25), (".thermocline-new", 1)] {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        }
        assert!(cache.make_room(1).unwrap());
        assert_eq!(files(&cache), [folder.path().join(".thermocline-new")]);
    }
}
