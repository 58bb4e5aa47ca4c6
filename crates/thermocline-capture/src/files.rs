//! Files that a recording identifies by keys of its own.

use std::collections::HashMap;

use super::collector::Collector;

/// The files so far.
#[derive(Debug, Default)]
pub(super) struct FilesByKey {
    file_of: HashMap<Box<[u8]>, u32>,
}

impl FilesByKey {
    /// Return the file of this key, with this path if it is new.
    pub(super) fn file(&mut self, key: &[u8], path: &[u8], collector: &mut Collector<'_>) -> u32 {
        if let Some(&file) = self.file_of.get(key) {
            return file;
        }
        let file = collector.add_file(path);
        self.file_of.insert(key.into(), file);
        file
    }

    /// Return the file of this key, if it is known.
    pub(super) fn known(&self, key: &[u8]) -> Option<u32> {
        self.file_of.get(key).copied()
    }
}
