//! Reads back every written form: all output formats, and saved compiled traces.

use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use thermocline_core::{Nanos, Op, PageId};
use thermocline_trace::convert::{OutputFormat, convert, write_oracle_general};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{
    CompiledTrace, Extent, Mapping, PageSize, ReadOptions, Reader, Request, Requests, TraceError,
};

/// Requests from memory.
#[derive(Clone, Debug)]
struct Given {
    requests: Vec<Request>,
    volume_names: Vec<String>,
}

impl Given {
    /// Volumes are renumbered in order of first appearance, as readers do.
    fn new(mut requests: Vec<Request>) -> Self {
        let mut seen = Vec::new();
        for request in &mut requests {
            let volume = request.volume;
            let number = seen.iter().position(|&other| other == volume).unwrap_or_else(|| {
                seen.push(volume);
                seen.len() - 1
            });
            request.volume = u32::try_from(number).expect("few volumes");
        }
        let volume_names = seen.iter().map(|volume| format!("disk {volume}")).collect();
        Self { requests, volume_names }
    }
}

impl Requests for Given {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        *batch = std::mem::take(&mut self.requests);
        Ok(!batch.is_empty())
    }

    fn volume_names(&self) -> &[String] {
        &self.volume_names
    }

    fn path(&self) -> &Path {
        Path::new("given")
    }
}

fn given() -> impl Strategy<Value = Given> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write)];
    // The longest length that is not refused, and the last sectors, are within reach.
    let extent = prop_oneof![
        (0_u64..1 << 20, 0_u64..100_000),
        ((1_u64 << 54) - 200..(1 << 54) - 128, 0_u64..65_536),
    ]
    .prop_map(|(sector, length)| Extent::Bytes { offset: sector * 512, length });
    let request = (0_u64..1 << 60, op, 0_u32..4, extent)
        .prop_map(|(at, op, volume, extent)| Request { at: Nanos(at), op, volume, extent });
    prop::collection::vec(request, 1..100).prop_map(Given::new)
}

fn read(path: &Path) -> (Vec<Request>, Vec<String>) {
    let mut reader = Reader::open(path, &ReadOptions::default()).expect("it was just written");
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while reader.read_batch(&mut batch).expect("it was just written") {
        all.append(&mut batch);
    }
    (all, reader.volume_names().to_vec())
}

fn has_same_content(left: &CompiledTrace, right: &CompiledTrace) -> bool {
    left.packed() == right.packed()
        && left.requests().eq(right.requests())
        && left.page_numbers() == right.page_numbers()
        && left.volume_names() == right.volume_names()
        && left.summary() == right.summary()
        && left.page_size() == right.page_size()
        && (0..left.footprint_pages())
            .all(|id| left.location(PageId(id)) == right.location(PageId(id)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn csv_keeps_everything(given in given()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let format = OutputFormat::Csv;
        let written = convert(&mut given.clone(), &path, format, PageSize::DEFAULT).unwrap();
        prop_assert_eq!(written, given.requests.len() as u64);
        prop_assert_eq!(read(&path), (given.requests, given.volume_names));
    }

    #[test]
    fn parquet_keeps_everything(given in given()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        convert(&mut given.clone(), &path, OutputFormat::Parquet, PageSize::DEFAULT).unwrap();
        prop_assert!(!CompiledTrace::is_saved(&path));
        prop_assert_eq!(read(&path), (given.requests.clone(), given.volume_names.clone()));
        // The same columns as a caller describes them.
        let columns = "time=at_ns:ns, op=op, volume=volume, offset=offset, length=length";
        let columns: Mapping = columns.parse().unwrap();
        let options = ReadOptions { columns: Some(columns.into()), ..ReadOptions::default() };
        let mut reader = Reader::open(&path, &options).unwrap();
        let mut batch = vec![];
        reader.read_batch(&mut batch).unwrap();
        prop_assert_eq!(batch, given.requests);
    }

    #[test]
    fn spc_keeps_all_but_names(given in given()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.spc");
        convert(&mut given.clone(), &path, OutputFormat::Spc, PageSize::DEFAULT).unwrap();
        let (requests, names) = read(&path);
        prop_assert_eq!(requests, given.requests);
        let numbers: Vec<String> = (0..names.len()).map(|number| number.to_string()).collect();
        prop_assert_eq!(names, numbers);
    }

    #[test]
    fn saved_traces_open_as_they_were(mut given in given()) {
        let Ok(trace) = CompiledTrace::compile(&mut given, PageSize::DEFAULT) else {
            return Ok(());
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        trace.save(&path).unwrap();
        prop_assert!(CompiledTrace::is_saved(&path));
        prop_assert!(has_same_content(&CompiledTrace::open(&path).unwrap(), &trace));
    }
}

fn oltp(requests: u64) -> Generator {
    let options = Options { pattern: Pattern::OLTP, requests, pages: 1000, ..Options::default() };
    Generator::new(options).expect("the options are consistent")
}

#[test]
fn generated_traces_survive_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let trace = CompiledTrace::compile(&mut oltp(5000), PageSize::DEFAULT).unwrap();
    let path = folder.path().join("t.parquet");
    trace.save(&path).unwrap();
    assert!(has_same_content(&CompiledTrace::open(&path).unwrap(), &trace));
    let path = folder.path().join("t.csv");
    convert(&mut oltp(5000), &path, OutputFormat::Csv, PageSize::DEFAULT).unwrap();
    let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
    let again = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
    assert!(has_same_content(&again, &trace));
}

#[test]
fn oracle_general_keeps_the_pages_and_knows_the_next_access() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.oracleGeneral");
    let trace = CompiledTrace::compile(&mut oltp(5000), PageSize::DEFAULT).unwrap();
    let written = write_oracle_general(&trace, &path).unwrap();
    assert_eq!(written, trace.len() as u64);
    let bytes = std::fs::read(&path).unwrap();
    let ids: Vec<&[u8]> = bytes.chunks(24).map(|record| &record[4..12]).collect();
    for (index, record) in bytes.chunks(24).enumerate() {
        let next = i64::from_le_bytes(record[16..].try_into().unwrap());
        let later = ids[index + 1..].iter().position(|id| *id == ids[index]);
        assert_eq!(next, later.map_or(-1, |distance| i64::try_from(index + 1 + distance).unwrap()));
    }
    let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
    let again = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
    assert_eq!(again.page_numbers(), trace.page_numbers());
    let ids = |trace: &CompiledTrace| trace.accesses().map(|a| a.page).collect::<Vec<_>>();
    assert_eq!(ids(&again), ids(&trace));
}

#[test]
fn saved_traces_of_objects_keep_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let lines = "0,a,3,9000,40,get,0\n1,b,3,20,9,set,3600\n1,a,3,9000,9,get,0\n";
    let mut reader = Reader::from_read("t", Cursor::new(lines), &ReadOptions::default()).unwrap();
    let trace = CompiledTrace::compile(&mut reader, PageSize::DEFAULT).unwrap();
    assert_eq!(trace.access_bytes().unwrap(), [4096, 4096, 811, 23, 4096, 4096, 811]);
    trace.save(&path).unwrap();
    let opened = CompiledTrace::open(&path).unwrap();
    assert!(has_same_content(&opened, &trace));
    assert_eq!(opened.access_bytes(), trace.access_bytes());
}

#[test]
fn parquet_that_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    convert(&mut oltp(50), &path, OutputFormat::Parquet, PageSize::DEFAULT).unwrap();
    let read = |columns: &str| {
        let columns: Mapping = columns.parse().unwrap();
        let options = ReadOptions { columns: Some(columns.into()), ..ReadOptions::default() };
        let mut reader = Reader::open(&path, &options)?;
        reader.read_batch(&mut vec![])
    };
    let message = read("key=page").unwrap_err().to_string();
    assert!(
        message.contains("unknown column `page`; the columns are: at_ns, op, volume"),
        "{message}"
    );
    let message = read("offset=volume:pages").unwrap_err().to_string();
    assert!(message.contains("row 1: the offset is not"), "{message}");
    assert!(read("offset=4:pages").unwrap());
    let bytes = std::fs::read(&path).unwrap();
    let error = Reader::from_read("pipe", Cursor::new(bytes.clone()), &ReadOptions::default());
    let message = error.unwrap_err().to_string();
    assert!(message.contains("Parquet, which is read from a file"), "{message}");
    for cut in [4, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        assert!(Reader::open(&path, &ReadOptions::default()).is_err());
    }
}

#[test]
fn parquet_compressed_by_snappy_is_read() {
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let schema = "message t { required int64 at_ns; required binary op (UTF8); \
        required binary volume (UTF8); required int64 offset; required int64 length; }";
    let schema = parse_message_type(schema).unwrap().into();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let numbers = [(0..100).collect(), (0..100).map(|row| row * 4096).collect(), vec![4096; 100]];
    let [at_ns, offsets, lengths]: [Vec<i64>; 3] = numbers;
    let words = |word: &str| vec![ByteArray::from(word); 100];
    let columns = [Ok(at_ns), Err(words("W")), Err(words("v")), Ok(offsets), Ok(lengths)];
    for column in &columns {
        let mut writer = group.next_column().unwrap().unwrap();
        match column {
            Ok(numbers) => writer.typed::<Int64Type>().write_batch(numbers, None, None).unwrap(),
            Err(words) => writer.typed::<ByteArrayType>().write_batch(words, None, None).unwrap(),
        };
        writer.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let (requests, volumes) = read(&path);
    assert_eq!((requests.len(), &volumes[..]), (100, &["v".to_owned()][..]));
    let extent = Extent::Bytes { offset: 99 * 4096, length: 4096 };
    assert_eq!(requests[99], Request { at: Nanos(99), op: Op::Write, volume: 0, extent });
}

#[test]
fn converted_parquet_is_complete() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let written = convert(&mut oltp(5000), &path, OutputFormat::Parquet, PageSize::DEFAULT);
    assert_eq!(written.unwrap(), 5000);
    let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    for (row, request) in reader.get_row_iter(None).unwrap().zip(oltp(5000)) {
        let Extent::Pages { first, count } = request.extent else { unreachable!() };
        let volume = ["data", "log"][request.volume as usize];
        let op = if request.op == Op::Read { "R" } else { "W" };
        let expected = format!(
            "{{at_ns: {}, op: \"{op}\", volume: \"{volume}\", offset: {}, length: {}}}",
            request.at.0,
            first * 4096,
            count * 4096
        );
        assert_eq!(row.unwrap().to_string(), expected);
    }
    let message = CompiledTrace::open(&path).unwrap_err().to_string();
    assert!(message.contains("not a compiled trace"), "{message}");
}

#[test]
fn a_failed_conversion_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.spc");
    std::fs::write(&path, "old").unwrap();
    let lines = "timestamp_us,op,volume,offset,length\n1,R,a,0,512\n2,R,a,100,512\n";
    let mut reader = Reader::from_read("x", Cursor::new(lines), &ReadOptions::default()).unwrap();
    let error = convert(&mut reader, &path, OutputFormat::Spc, PageSize::DEFAULT).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("x: request 2") && message.contains("sectors of 512 B"), "{message}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_damaged_saved_trace_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    CompiledTrace::compile(&mut oltp(500), PageSize::DEFAULT).unwrap().save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    for cut in [0, 3, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let message = CompiledTrace::open(&path).unwrap_err().to_string();
        assert!(message.starts_with(&path.display().to_string()), "{message}");
    }
}
