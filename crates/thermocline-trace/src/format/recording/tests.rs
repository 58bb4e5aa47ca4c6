//! Recordings with their companions, in a temporary folder.

use super::*;
use crate::file_table::TABLE_HEADER;
use crate::{PageSize, Reader, Requests};
use thermocline_core::Op;

const LINES: &str = "timestamp_us,op,file_id,page_no,pages,flags\n0,R,0,0,1,p\n7.5,W,1,2,3,xp\n";
const TABLE: &str = "file_id,base_page,extent_pages,class,read_pages,write_pages,path\n\
    0,0,1,data,1,0,\"a, \"\"b\"\"\"\n1,10,5,log,0,3,plain\n";

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn error(files: &[(&str, &[u8])]) -> String {
    let folder = folder(files);
    let opened = Reader::open(folder.path().join("x.csv"), &ReadOptions::default());
    opened.and_then(|mut reader| reader.read_batch(&mut Vec::new())).unwrap_err().to_string()
}

#[test]
fn pages_are_placed_by_the_table() {
    let table = zstd::encode_all(TABLE.as_bytes(), 1).unwrap();
    let stats = br#"{"page_size": 8192}"#;
    let files: [(&str, &[u8]); 3] =
        [("x.csv", LINES.as_bytes()), ("x.files.csv.zst", &table), ("x.stats.json", stats)];
    let folder = folder(&files);
    let mut reader = Reader::open(folder.path().join("x.csv"), &ReadOptions::default()).unwrap();
    let mut batch = Vec::new();
    assert!(reader.read_batch(&mut batch).unwrap());
    let requests = [(0, Op::Read, 0, 1), (7500, Op::Write, 12, 3)].map(|(at, op, first, count)| {
        let extent = crate::Extent::Pages { first, count };
        Request { at: Nanos(at), op, volume: 0, extent }
    });
    assert_eq!(batch, requests);
    assert_eq!(reader.page_size(), Some(PageSize::new(8192).unwrap()));
    let table = reader.file_table().unwrap();
    assert_eq!(table.file_of(0).unwrap().path, "a, \"b\"");
    assert_eq!(table.file_of(14).unwrap().class, "log");
    assert_eq!(table.file_of(5), None);
    assert_eq!(table.file_of(15), None);
}

#[test]
fn empty_files_own_no_page() {
    let lines = "0,5,0,empty,0,0,a\n1,5,3,data,0,0,b\n2,8,0,empty,0,0,c\n";
    let header = String::from_utf8_lossy(TABLE_HEADER);
    let table = FileTable::parse("t", format!("{header}\n{lines}").as_bytes()).unwrap();
    let owner = |page| table.file_of(page).map(|file| file.path.as_str());
    assert_eq!([4, 5, 7, 8].map(owner), [None, Some("b"), Some("b"), None]);
}

#[test]
fn a_missing_table_is_named() {
    let message = error(&[("x.csv", LINES.as_bytes())]);
    assert!(
        message.contains("needs its file table") && message.contains("x.files.csv"),
        "{message}"
    );
}

#[test]
fn errors_say_what_is_wrong() {
    let with = |line: &str| {
        let lines = format!("{LINES}{line}\n");
        error(&[("x.csv", lines.as_bytes()), ("x.files.csv", TABLE.as_bytes())])
    };
    assert!(with("8,R,2,0,1,").contains("line 4: the file is not in the file table"));
    assert!(with("8,R,1,3,3,").contains("the file has 5 pages in the file table"));
    assert!(with("8,R,1,3,18446744073709551615,").contains("has 5 pages"));
    assert!(
        with("8,R,1,0,1").contains("the flags are missing")
            || with("8,R,1,0,1").contains("flags is missing")
    );
    let table = |lines: &str| {
        let table = format!("{TABLE}{lines}\n");
        error(&[("x.csv", LINES.as_bytes()), ("x.files.csv", table.as_bytes())])
    };
    assert!(table("3,99,1,data,0,0,x").contains("line 4: file ids are not consecutive"));
    assert!(table("2,14,1,data,0,0,x").contains("overlaps"));
    assert!(table("2,99,1,data,0,0,\"x").contains("closing quote"));
    let stats: [(&str, &[u8]); 3] = [
        ("x.csv", LINES.as_bytes()),
        ("x.files.csv", TABLE.as_bytes()),
        ("x.stats.json", br#"{"page_size": 1000}"#),
    ];
    assert!(error(&stats).contains("page size 1000 B"));
}
