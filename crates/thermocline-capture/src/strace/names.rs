//! Files by path, and the sizes of files.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::class::split;
use crate::collector::Collector;
use crate::options::Identity;

/// The size of a file, as far as the recording tells.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// Minimum size.
    bytes: u64,
    is_known: bool,
}

/// The names of files so far.
#[derive(Debug)]
pub(super) struct Names {
    identity: Identity,
    file_of: BTreeMap<Vec<u8>, u32>,
    /// All names of the files that have had several.
    linked: HashMap<u32, BTreeSet<Vec<u8>>>,
    sizes: Vec<Size>,
    /// Folders that are reached by other names too, through symbolic links.
    folders: HashMap<Vec<u8>, Vec<u8>>,
}

/// Way in which a file is opened.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are the flags of open")]
pub(super) struct Opening {
    /// `true` if it is created, and did not exist.
    pub(super) is_new: bool,
    /// `true` if it is truncated.
    pub(super) is_emptied: bool,
    /// `true` if it has no name.
    pub(super) is_nameless: bool,
    /// Its name was removed since.
    pub(super) is_deleted: bool,
}

impl Names {
    pub(super) fn new(identity: Identity) -> Self {
        let (file_of, linked, folders) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Self { identity, file_of, linked, sizes: vec![], folders }
    }

    /// Return the file of this name, if it was met before.
    pub(super) fn known(&self, path: &[u8]) -> Option<u32> {
        self.file_of.get(path).copied()
    }

    /// Return the file that is opened by this name.
    pub(super) fn open(
        &mut self,
        path: &[u8],
        opening: Opening,
        collector: &mut Collector<'_>,
    ) -> u32 {
        let is_by_path = self.identity == Identity::Path;
        let known = self.known(path).filter(|_| {
            !opening.is_nameless && !opening.is_deleted && (is_by_path || !opening.is_new)
        });
        let file = known.unwrap_or_else(|| {
            let file = collector.add_file(path);
            self.sizes.push(Size::default());
            if !opening.is_nameless {
                self.file_of.insert(path.to_vec(), file);
            }
            file
        });
        if opening.is_emptied || opening.is_new || opening.is_nameless {
            self.set_size(file, 0);
        }
        file
    }

    /// Return the file of this name, which was opened out of sight.
    pub(super) fn adopt(&mut self, path: &[u8], collector: &mut Collector<'_>) -> u32 {
        let opening =
            Opening { is_new: false, is_emptied: false, is_nameless: false, is_deleted: false };
        self.open(path, opening, collector)
    }

    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], collector: &mut Collector<'_>) {
        if from == to {
            return;
        }
        if self.identity == Identity::Path {
            self.rename_path(from, to, collector);
            return;
        }
        if self.known(from).is_some() && self.known(from) == self.known(to) {
            // Two names of one file: POSIX has both stay.
            return;
        }
        self.take_name(to, collector);
        match self.take_name(from, collector) {
            Some(file) => {
                self.give_name(to.to_vec(), file);
                collector.rename(file, to);
            }
            None => self.rename_folder(from, to, collector),
        }
    }

    /// Rename a file: identified by path, a file that takes a name becomes the file of that name.
    fn rename_path(&mut self, from: &[u8], to: &[u8], collector: &mut Collector<'_>) {
        let Some(from) = self.known(from) else { return };
        let to = self.adopt(to, collector);
        self.sizes[to as usize] = self.sizes[from as usize];
        self.set_size(from, 0);
    }

    fn rename_folder(&mut self, from: &[u8], to: &[u8], collector: &mut Collector<'_>) {
        let prefix = [from, b"/"].concat();
        let below: Vec<(Vec<u8>, u32)> = self
            .file_of
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .map(|(path, &file)| (path.clone(), file))
            .collect();
        for (path, file) in below {
            self.take_name(&path, collector);
            let path = [to, &path[from.len()..]].concat();
            collector.rename(file, &path);
            self.give_name(path, file);
        }
    }

    pub(super) fn exchange(&mut self, one: &[u8], other: &[u8], collector: &mut Collector<'_>) {
        if self.identity == Identity::Path {
            return;
        }
        let files = (self.take_name(one, collector), self.take_name(other, collector));
        for (file, path) in [(files.0, other), (files.1, one)] {
            if let Some(file) = file {
                collector.rename(file, path);
                self.give_name(path.to_vec(), file);
            }
        }
    }

    /// Gives a file a further name.
    pub(super) fn link(&mut self, from: &[u8], to: &[u8], collector: &mut Collector<'_>) {
        if self.identity == Identity::Inode {
            let file = self.adopt(from, collector);
            self.linked.entry(file).or_default().insert(from.to_vec());
            self.give_name(to.to_vec(), file);
        }
    }

    /// Gives a file without a name one.
    pub(super) fn name(&mut self, file: u32, path: &[u8], collector: &mut Collector<'_>) {
        collector.rename(file, path);
        self.give_name(path.to_vec(), file);
    }

    /// Takes a name away. A file that went by it goes by another one, if it has one.
    fn take_name(&mut self, path: &[u8], collector: &mut Collector<'_>) -> Option<u32> {
        let file = self.file_of.remove(path)?;
        if let Some(names) = self.linked.get_mut(&file) {
            names.remove(path);
            if let Some(other) = names.first().filter(|_| collector.path_of(file) == path) {
                collector.rename(file, other);
            }
        }
        Some(file)
    }

    fn give_name(&mut self, path: Vec<u8>, file: u32) {
        if let Some(names) = self.linked.get_mut(&file) {
            names.insert(path.clone());
        }
        self.file_of.insert(path, file);
    }

    pub(super) fn unlink(&mut self, path: &[u8], collector: &mut Collector<'_>) {
        match self.identity {
            Identity::Inode => {
                self.take_name(path, collector);
            }
            Identity::Path => {
                if let Some(file) = self.known(path) {
                    self.set_size(file, 0);
                }
            }
        }
    }

    /// Return the size of a file, and whether that is certain; else it is the least that it can be.
    pub(super) fn size(&self, file: u32) -> (u64, bool) {
        let Size { bytes, is_known } = self.sizes[file as usize];
        (bytes, is_known)
    }

    pub(super) fn set_size(&mut self, file: u32, bytes: u64) {
        self.sizes[file as usize] = Size { bytes, is_known: true };
    }

    /// Extend a file to the end of a write.
    pub(super) fn grow(&mut self, file: u32, end: u64) {
        let size = &mut self.sizes[file as usize];
        size.bytes = size.bytes.max(end);
    }

    /// Learns of symbolic links from a path that was asked for and the one that was opened.
    pub(super) fn learn(&mut self, asked: &[u8], opened: &[u8]) {
        let ((asked, one), (opened, other)) = (split(asked), split(opened));
        if one == other && asked != opened && !self.folders.contains_key(asked) {
            self.folders.insert(asked.to_vec(), opened.to_vec());
        }
    }

    /// Replaces a folder that is a symbolic link by the one it leads to.
    pub(super) fn follow(&self, path: &mut Vec<u8>) {
        let (folder, _) = split(path);
        if let Some(other) = self.folders.get(folder) {
            let length = folder.len();
            path.splice(..length, other.iter().copied());
        }
    }
}

/// Appends the steps of `path` to `target`, an absolute folder or a relative one, `.` and `..`
/// understood.
pub(super) fn append_path(target: &mut Vec<u8>, path: &[u8]) {
    if path.first() == Some(&b'/') {
        target.clear();
        target.push(b'/');
    }
    for step in path.split(|&byte| byte == b'/') {
        match step {
            b"" | b"." => {}
            b".." if !matches!(split(target).1, b"" | b"..") => {
                let (folder, _) = split(target);
                let length = folder.len().max(usize::from(target.first() == Some(&b'/')));
                target.truncate(length);
            }
            b".." if target.as_slice() == b"/" => {}
            step => {
                if !target.is_empty() && target.last() != Some(&b'/') {
                    target.push(b'/');
                }
                target.extend_from_slice(step);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::append_path;

    #[test]
    fn paths_are_joined_by_their_steps() {
        for (folder, path, joined) in [
            ("/a/b", "c", "/a/b/c"),
            ("/a/b", "../c/./d//e", "/a/c/d/e"),
            ("/a", "../../x", "/x"),
            ("/", "x", "/x"),
            ("/a", "/x/../y", "/y"),
            ("", "x/y", "x/y"),
            ("", "../x", "../x"),
            ("x", "../../y", "../y"),
            ("/a", "..", "/"),
        ] {
            let mut target = folder.as_bytes().to_vec();
            append_path(&mut target, path.as_bytes());
            assert_eq!(target, joined.as_bytes(), "{folder} {path}");
        }
    }
}
