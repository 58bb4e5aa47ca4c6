//! A folder of traces: which of its files a workload names.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use thermocline_papers::Named;

use crate::{output, reading};

/// Folders below the folder of traces are searched to this depth: archives have few levels.
const DEPTH_MAX: usize = 4;
/// Suffixes of compressed files.
const COMPRESSED: [&str; 4] = [".gz", ".xz", ".bz2", ".zst"];

/// The files of a folder and of the folders below it, the nearest first.
#[derive(Debug, Default)]
pub(super) struct Folder {
    root: Option<PathBuf>,
    /// The files of each folder by name.
    folders: Vec<Vec<PathBuf>>,
}

/// The files of one trace, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Files {
    /// The files; at least one.
    pub(super) paths: Vec<PathBuf>,
    /// Number of files of the whole trace, if there should be more than were found.
    pub(super) wanted: Option<usize>,
}

impl Folder {
    /// Lists a folder, and notes the folders below it that cannot be listed.
    pub(super) fn read(root: PathBuf) -> Result<Self> {
        let mut folders = vec![];
        let mut level = vec![root.clone()];
        for _ in 0..=DEPTH_MAX {
            let mut below = vec![];
            for folder in level {
                match list(&folder) {
                    Ok((files, inner)) => {
                        folders.push(files);
                        below.extend(inner);
                    }
                    Err(error) if folder != root => {
                        output::note(&format!("note: skipped a folder: {error:#}"));
                    }
                    Err(error) => return Err(error),
                }
            }
            level = below;
        }
        Ok(Self { root: Some(root), folders })
    }

    /// Return the folder that was named, if one was.
    pub(super) fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Return the files of the first of these names that is there, all from one folder.
    pub(super) fn find(&self, names: &[Named]) -> Option<Files> {
        names.iter().find_map(|named| self.folders.iter().find_map(|files| named_in(files, named)))
    }
}

impl Files {
    /// Describe the findings in a few words.
    pub(super) fn words(&self) -> String {
        let [first, .., last] = self.paths.as_slice() else {
            return self.paths[0].display().to_string();
        };
        let count = self.paths.len();
        let of = self.wanted.map_or_else(String::new, |wanted| format!(" of {wanted}"));
        format!("{count}{of} files: {} to {}", first.display(), reading::file_name(last))
    }
}

/// Return the files of a folder, by name, and the folders in it.
fn list(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let context = || format!("cannot list `{}`", folder.display());
    let (mut files, mut folders) = (vec![], vec![]);
    for entry in std::fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // A link to a folder may lead back to where we are.
        match entry.file_type().with_context(context)? {
            kind if kind.is_dir() && !is_hidden => folders.push(entry.path()),
            kind if kind.is_dir() => {}
            _ => files.push(entry.path()),
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

/// Return the files of a folder that a name stands for.
fn named_in(files: &[PathBuf], named: &Named) -> Option<Files> {
    match named {
        Named::One(name) => {
            let begin = format!("{}.", name.to_lowercase());
            let path = files.iter().find(|path| is_trace(path, &begin))?;
            Some(Files { paths: vec![path.clone()], wanted: None })
        }
        Named::Many { parts, count } => {
            let mut paths: Vec<PathBuf> = vec![];
            for pattern in parts {
                paths.extend(parts_of(files, pattern, &paths));
            }
            let wanted = count.filter(|&count| paths.len() < count);
            (!paths.is_empty()).then_some(Files { paths, wanted })
        }
    }
}

/// Return `true` if the name begins so, and is not that of a file that stands beside a recording.
fn is_trace(path: &Path, begin: &str) -> bool {
    let name = reading::file_name(path).to_lowercase();
    let rest = name.strip_prefix(begin);
    rest.is_some_and(|rest| !rest.starts_with("files.") && !rest.starts_with("stats."))
}

/// Return the files that match a pattern and were not taken, in the order of the numbers in their
/// names. A file that is there twice, compressed and not, is taken once.
fn parts_of(files: &[PathBuf], pattern: &str, taken: &[PathBuf]) -> Vec<PathBuf> {
    let pattern = pattern.to_lowercase();
    let plain = |path: &Path| {
        let name = reading::file_name(path).to_lowercase();
        let end = COMPRESSED.iter().find(|&&end| name.ends_with(end)).map_or(0, |end| end.len());
        name[..name.len() - end].to_owned()
    };
    let is_taken = |path: &Path| taken.iter().any(|other| plain(other) == plain(path));
    let matching = files.iter().filter(|path| {
        matches(&pattern, &reading::file_name(path).to_lowercase()) && !is_taken(path)
    });
    let mut parts: Vec<(String, PathBuf)> =
        matching.map(|path| (plain(path), path.clone())).collect();
    parts.sort_by(|(one, _), (other, _)| by_numbers(one).cmp(&by_numbers(other)));
    parts.dedup_by(|(one, _), (other, _)| one == other);
    parts.into_iter().map(|(_, path)| path).collect()
}

/// Return `true` if a name matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(begin) else { return false };
    let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    ends.into_iter().any(|at| matches(rest, &name[at..]))
}

/// Return a key by which names sort by the numbers in them, so that part 2 comes before part 10:
/// runs of digits with their lengths, other text with length 0.
fn by_numbers(name: &str) -> Vec<(usize, &str)> {
    let mut key = vec![];
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_number = first.is_ascii_digit();
        let end = rest.find(|other: char| other.is_ascii_digit() != is_number);
        let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let digits = run.trim_start_matches('0');
        key.push(if is_number { (digits.len() + 1, digits) } else { (0, run) });
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        folder
    }

    /// Return the names of the files that are found, and how many there should be.
    fn found(files: &[&str], names: &[Named]) -> (Vec<String>, Option<usize>) {
        let root = folder(files);
        let found = Folder::read(root.path().to_owned()).unwrap().find(names);
        let name = |path: &PathBuf| path.strip_prefix(root.path()).unwrap().display().to_string();
        found.map_or((vec![], None), |found| (found.paths.iter().map(name).collect(), found.wanted))
    }

    fn many(parts: &[&str], count: Option<usize>) -> Named {
        Named::Many { parts: parts.iter().map(|&part| part.into()).collect(), count }
    }

    #[test]
    fn one_file_is_found_by_how_its_name_begins() {
        let names = [Named::One("Financial1".into()), Named::One("fin1".into())];
        let files = ["fin1.csv", "a/financial10.spc", "a/FINANCIAL1.spc.bz2", "a/b/financial1.spc"];
        assert_eq!(found(&files, &names).0, ["a/FINANCIAL1.spc.bz2"]);
        assert_eq!(found(&files[..2], &names).0, ["fin1.csv"]);
        assert_eq!(found(&["t.files.csv", "t.stats.json"], &[Named::One("t".into())]).0.len(), 0);
        assert_eq!(found(&["1/2/3/4/t.csv"], &[Named::One("t".into())]).0, ["1/2/3/4/t.csv"]);
        let too_deep = ["1/2/3/4/5/t.csv", ".hidden/t.csv"];
        assert_eq!(found(&too_deep, &[Named::One("t".into())]).0.len(), 0);
    }

    #[test]
    fn the_parts_of_a_trace_come_in_order() {
        let day = |day| format!("homes-110108-112108.{day}.blkparse.gz");
        let days = [10, 1, 2].map(day);
        let files: Vec<&str> = days.iter().map(String::as_str).chain(["homes.txt"]).collect();
        let homes = many(&["homes-110108-112108.*.blkparse*"], Some(21));
        assert_eq!(found(&files, &[homes]), ([1, 2, 10].map(day).to_vec(), Some(21)));
        let files = ["m.01-01.csv", "m.12-41.csv.gz", "m.12-51.csv", "m.12-51.csv.gz", "m.readme"];
        let (paths, wanted) = found(&files, &[many(&["m.12-*.csv*", "m.*.csv*"], Some(3))]);
        assert_eq!(paths, ["m.12-41.csv.gz", "m.12-51.csv", "m.01-01.csv"]);
        assert_eq!(wanted, None);
    }

    #[test]
    fn the_files_of_one_trace_are_from_one_folder() {
        let files = ["b/x.2.csv", "b/x.1.csv", "a/b/x.1.csv", "a/b/x.3.csv"];
        assert_eq!(found(&files, &[many(&["x.*"], None)]).0, ["b/x.1.csv", "b/x.2.csv"]);
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, name) in [("a", "a"), ("a*", "a"), ("*b*", "abc"), ("a*c*", "abcc.gz")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("a*c", "ab"), ("*b", "abc"), ("a*b*c", "acb")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
