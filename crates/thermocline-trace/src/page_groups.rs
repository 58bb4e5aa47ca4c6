//! Groups of pages by properties that a trace records: volumes, and classes of files.
//!
//! Groups are numbered in the order of their first access, as page ids are.

use std::collections::HashMap;
use std::hash::Hash;

use thermocline_core::PageId;

use crate::beside::table_of;
use crate::compiled::CompiledTrace;
use crate::error::TraceError;
use crate::file_table::FileTable;
use crate::remote;

/// The last group, which all further ones share.
const LAST_GROUP: u8 = u8::MAX;

impl CompiledTrace {
    /// Return the group of each page by its volume.
    pub fn volume_groups(&self) -> Box<[u8]> {
        self.grouped(|page| self.location(page).0)
    }

    /// Return the group of each page by the class of its file, as the file table beside a recording
    /// states it. Pages of no file of the table are a group of their own.
    ///
    /// # Errors
    /// If there is no file table beside the trace, or it is malformed.
    pub fn class_groups(&self) -> Result<Box<[u8]>, TraceError> {
        let path = self.path();
        let is_there = remote::address(path).is_some() || path.is_file();
        let table = table_of(path, is_there.then_some(path))?;
        let owners = table.owners(self);
        let class =
            |page: PageId| owners[page.index()].map(|file| table.files()[file].class.as_str());
        Ok(self.grouped(class))
    }

    /// Number what pages have in common.
    fn grouped<T: Eq + Hash>(&self, common: impl Fn(PageId) -> T) -> Box<[u8]> {
        let mut numbers = HashMap::new();
        (0..self.footprint_pages())
            .map(|id| {
                let next = u8::try_from(numbers.len()).unwrap_or(LAST_GROUP);
                *numbers.entry(common(PageId(id))).or_insert(next)
            })
            .collect()
    }
}

impl FileTable {
    /// Return the index of the file that each page of a trace belongs to.
    pub(crate) fn owners(&self, trace: &CompiledTrace) -> Vec<Option<usize>> {
        let names = trace.volume_names();
        if names.len() > 1 {
            let owner = |id| self.named(&names[trace.location(PageId(id)).0 as usize]);
            return (0..trace.footprint_pages()).map(owner).collect();
        }
        trace.page_numbers().iter().map(|&number| self.index_of(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{PageSize, ReadOptions, Reader};

    const TABLE: &str = "file_id,base_page,extent_pages,class,read_pages,write_pages,path\n\
                         0,0,10,data,1,1,\"a\"\n1,10,10,log,1,1,\"b\"\n2,20,10,data,1,1,\"c\"\n";

    #[test]
    fn a_recording_tells_the_classes_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let lines = "timestamp_us,op,file_id,page_no,pages,flags\n\
                     0,W,1,0,1,\n1,W,0,3,1,\n2,W,2,0,2,\n3,W,1,1,1,\n";
        fs::write(&path, lines).unwrap();
        fs::write(folder.path().join("t.files.csv"), TABLE).unwrap();
        for volume_of in [crate::VolumeOf::All, crate::VolumeOf::File] {
            let options = ReadOptions { volume_of, ..ReadOptions::default() };
            let mut reader = Reader::open(&path, &options).unwrap();
            let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
            // The pages of b, a, c, c and b, in the order of their first access.
            assert_eq!(*trace.class_groups().unwrap(), [0, 1, 1, 1, 0], "{volume_of:?}");
        }
    }

    #[test]
    fn a_trace_without_a_table_has_volumes_only() {
        let lines = "7,0,4096,w,0.0\n2,0,4096,w,1.0\n7,8,4096,w,2.0\n";
        let input = std::io::Cursor::new(lines.to_owned());
        let mut reader = Reader::from_read("t.spc", input, &ReadOptions::default()).unwrap();
        let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
        assert_eq!(*trace.volume_groups(), [0, 1, 0]);
        assert!(trace.class_groups().unwrap_err().to_string().contains(".files.csv"));
    }
}
