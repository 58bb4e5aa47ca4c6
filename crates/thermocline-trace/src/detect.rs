//! Telling a trace's format from its first bytes.
//!
//! The rule: a sample with NUL or control bytes is binary, anything else is text.
//!
//! * Text: every format's own parser is run over the sample's lines. A format that understands
//!   every line as requests wins; if there is none, the format that understands most lines and more
//!   than half of them, so that a malformed line is reported with its number.
//! * The numeric formats differ in their number of columns (1 `pages`, 4 `lis`, 5 `ssdsim` and
//!   `mqsim`). The last two have the same columns and codes; fractional times mean `ssdsim`,
//!   otherwise the file's extension decides and without one it is `ssdsim`: both read the same
//!   requests from whole nanoseconds.
//! * Binary: `vscsi` by the version and command of its records, `oracle-general` by times that do
//!   not go back, sizes that are not zero, and next accesses that lie ahead and are to the same
//!   object.

use std::path::Path;

use crate::decode::{Line, TextFormat};
use crate::error::{Reason, TraceError};
use crate::format::csv;
use crate::format::{FormatName, ReadOptions, Recognition};
use crate::input::Input;
use crate::mapping::Mapping;
use crate::text::is_blank_line;
use crate::volumes::Volumes;

/// Maximum length of the excerpt from a line that no format understands.
const SHOWN_LETTERS: usize = 60;

/// Number of uncompressed bytes of a file that detection reads.
pub(crate) const SAMPLE_BYTES: usize = 64 << 10;

/// Return the part of the available bytes that is looked at.
pub(crate) fn sample(input: &Input) -> &[u8] {
    let bytes = input.available();
    &bytes[..bytes.len().min(SAMPLE_BYTES)]
}

/// Return the format of a file that begins with `sample`.
pub(crate) fn detect(
    input: &Input,
    sample: &[u8],
    options: &ReadOptions,
) -> Result<FormatName, TraceError> {
    let is_whole = input.has_ended() && sample.len() == input.available().len();
    let found = if is_text(sample) {
        detect_text(sample, is_whole, input.path(), options)
    } else {
        detect_binary(sample)
    };
    found.map_err(|reason| TraceError::UnknownFormat { path: input.path().to_owned(), reason })
}

fn is_text(sample: &[u8]) -> bool {
    sample.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r'))
}

fn detect_binary(sample: &[u8]) -> Result<FormatName, String> {
    let mut others = vec![];
    for &format in FormatName::ALL {
        match format.format().recognition {
            Recognition::Records(fits) if fits(sample) => return Ok(format),
            Recognition::Records(_) => others.push(format.name()),
            Recognition::Lines(_) | Recognition::Parquet { .. } | Recognition::Named => {}
        }
    }
    Err(format!("binary, and neither {} records", others.join(" nor ")))
}

/// Return the format and the meaning of a Parquet file of these columns.
pub(crate) fn detect_parquet(
    path: &Path,
    names: &[String],
) -> Result<(FormatName, Mapping), TraceError> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    for &format in FormatName::ALL {
        if let Recognition::Parquet { names, mapping } = format.format().recognition
            && names.iter().all(|name| has(name))
        {
            return Ok((format, mapping()));
        }
    }
    let reason = if ["page_id", "write", "request"].into_iter().all(has) {
        "a Parquet file; a saved compiled trace is opened, not read".to_owned()
    } else {
        format!("Parquet, and no format has its columns, which are: {}", names.join(", "))
    };
    Err(TraceError::UnknownFormat { path: path.to_owned(), reason })
}

/// Quality of a format's fit to the sample's lines.
struct Score {
    format: FormatName,
    understood_lines: u64,
    requests: u64,
    headers: u64,
    first_failure: Option<(u64, Reason)>,
    failed_lines: u64,
}

fn detect_text(
    sample: &[u8],
    is_whole: bool,
    path: &Path,
    options: &ReadOptions,
) -> Result<FormatName, String> {
    let end = if is_whole {
        sample.len()
    } else {
        memchr::memrchr(b'\n', sample).map_or(sample.len(), |at| at + 1)
    };
    let mut scores = scores(&sample[..end], options);
    // Behind a header, the first request may come after the sample.
    scores.retain(|score| score.requests > 0 || score.headers > 0);
    let perfect: Vec<FormatName> =
        scores.iter().filter(|score| score.failed_lines == 0).map(|score| score.format).collect();
    if let Some(&first) = perfect.first() {
        return Ok(by_extension(&perfect, path).unwrap_or(first));
    }
    // The first of equals, so that the order of the formats settles it.
    let best = scores.into_iter().reduce(|best, score| {
        if score.understood_lines > best.understood_lines { score } else { best }
    });
    match best {
        Some(best) if best.understood_lines > best.failed_lines => Ok(best.format),
        Some(Score { format, first_failure: Some((line, reason)), .. }) => {
            Err(format!("it resembles {format}, but line {line}: {reason}"))
        }
        _ => Err(not_understood(&sample[..end])),
    }
}

/// Describe text that no format understands: the fault in the first line, if it resembles our own
/// CSV, or its kind.
fn not_understood(sample: &[u8]) -> String {
    let mut lines = (1..).zip(sample.split(|&byte| byte == b'\n'));
    let first = lines.find(|(_, line)| !line.starts_with(b"#") && !is_blank_line(line));
    let Some((number, line)) = first else { return "text without a line of data".into() };
    let line = String::from_utf8_lossy(line.trim_ascii_end());
    let expected = String::from_utf8_lossy(csv::HEADER);
    let mut columns = line.split(',').zip(expected.split(','));
    let names: Vec<&str> = expected.split(',').collect();
    let known = line.split(',').filter(|column| names.contains(column)).count();
    if 2 * known < names.len() {
        let shown: String = line.chars().take(SHOWN_LETTERS).collect();
        return format!("text, and no format understands its lines; line {number} is `{shown}`");
    }
    let must_be = format!("the first line of csv must be {expected}");
    match columns.position(|(found, expected)| found != expected) {
        Some(place) => {
            let found = line.split(',').nth(place).unwrap_or_default();
            let (column, expected) = (place + 1, names[place]);
            format!(
                "it resembles csv, but line {number}: column {column} is `{found}` in place of `{expected}`: {must_be}"
            )
        }
        None => {
            let columns = line.split(',').count();
            format!("it resembles csv, but line {number} names {columns} columns: {must_be}")
        }
    }
}

/// Return the one of `formats` to which the extension of `path`, without that of a compression,
/// belongs.
fn by_extension(formats: &[FormatName], path: &Path) -> Option<FormatName> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let stem = [".gz", ".xz", ".bz2", ".zst"]
        .iter()
        .find_map(|extension| name.strip_suffix(extension))
        .unwrap_or(&name);
    let (_, extension) = stem.rsplit_once('.')?;
    formats.iter().copied().find(|format| format.format().extensions.contains(&extension))
}

fn scores(sample: &[u8], options: &ReadOptions) -> Vec<Score> {
    let scored = |&format: &FormatName| match format.format().recognition {
        Recognition::Lines(parser) => {
            parser(sample, options).map(|mut parser| score(format, &mut *parser, sample))
        }
        Recognition::Records(_) | Recognition::Parquet { .. } | Recognition::Named => None,
    };
    FormatName::ALL.iter().filter_map(scored).collect()
}

fn score(format: FormatName, parser: &mut dyn TextFormat, sample: &[u8]) -> Score {
    let mut score = Score {
        format,
        understood_lines: 0,
        requests: 0,
        headers: 0,
        first_failure: None,
        failed_lines: 0,
    };
    let mut volumes = Volumes::default();
    for (number, line) in (1..).zip(sample.split(|&byte| byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"#") {
            parser.comment(line);
            continue;
        }
        if is_blank_line(line) {
            continue;
        }
        match parser.line(line, &mut volumes) {
            Ok(Line::Request(_) | Line::Repeated { .. }) => {
                score.understood_lines += 1;
                score.requests += 1;
            }
            Ok(Line::Header) => {
                score.understood_lines += 1;
                score.headers += 1;
            }
            Ok(Line::OtherEvent | Line::Summary | Line::Skipped(_)) => score.understood_lines += 1,
            Err(reason) => {
                score.failed_lines += 1;
                score.first_failure.get_or_insert((number, reason));
            }
        }
    }
    score
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use crate::file_table::FileTable;
    use std::io::Cursor;

    fn detected(name: &str, content: &[u8]) -> Result<FormatName, TraceError> {
        let table = FileTable::parse("t", b"file_id,base_page,extent_pages,class,read_pages,write_pages,path\n0,0,9,data,1,1,\"x\"\n")?;
        let options = ReadOptions { file_table: Some(table.into()), ..ReadOptions::default() };
        Reader::from_read(name, Cursor::new(content.to_vec()), &options)
            .map(|reader| reader.format())
    }

    fn check(name: &str, content: &str, expected: FormatName) {
        assert_eq!(detected(name, content.as_bytes()).unwrap(), expected, "{name}: {content}");
    }

    #[test]
    fn each_text_format_is_told_from_its_lines() {
        check("t", "0,100,512,w,0.5\n1,7,4096,R,0.75\n", FormatName::Spc);
        check("t", "128166372003061629,web,1,Read,4096,512,77\n", FormatName::Msr);
        check("t", "500 7 sh 64 8 W 6 0 ff00\n", FormatName::Fiu);
        check("t", "  8,0  1  1  0.000000001  697  Q  W 64 + 8 [sh]\n", FormatName::Blkparse);
        check("t", "0.5 0 64 8 1\n", FormatName::Ssdsim);
        check("t", "5 0 64 8 1\n", FormatName::Ssdsim);
        check("t.mqsim.xz", "5 0 64 8 1\n", FormatName::Mqsim);
        check("t.mqsim", "0.5 0 64 8 1\n", FormatName::Ssdsim);
        check("t", "64 8 0 0\n", FormatName::Lis);
        check("t", "64\n*\n65\n", FormatName::Pages);
        check("t", "0\t0.5\t0.25\t1\tRead\t64\t8\r\n", FormatName::Diskmon);
        check(
            "t",
            "  DiskWrite, 3, a.exe (1), 2, 0x0, 0x200, 0x200, 9, 0, 0x0, 9, 0\r\n",
            FormatName::Etw,
        );
        check("t", "1 1411412592.5 READ 3 9000 0 128 MISS\n", FormatName::Mobibench);
        check("t", "timestamp_us,op,volume,offset,length\n1,R,v,0,512\n", FormatName::Csv);
        check(
            "t",
            "timestamp_us,op,file_id,page_no,pages,flags\n1,R,0,0,1,\n",
            FormatName::Recording,
        );
    }

    #[test]
    fn a_bad_line_among_good_ones_does_not_hide_the_format() {
        check("t", "0,100,512,w,0.5\nwhat?\n1,7,4096,R,0.75\n", FormatName::Spc);
    }

    #[test]
    fn a_first_line_like_that_of_our_own_csv_says_which_column_is_wrong() {
        for (header, reason) in [
            ("timestamp_us,opp,volume,offset,length", "line 1: column 2 is `opp` in place of `op`"),
            (
                "# mine\ntime_us,op,volume,offset,length",
                "line 2: column 1 is `time_us` in place of",
            ),
            (
                "timestamp_us,op,volume,offset",
                "line 1 names 4 columns: the first line of csv must be",
            ),
            ("timestamp_us,op,volume,offset,length,pid", "line 1 names 6 columns: the first line"),
            ("timestamp_us,op,offset,length", "line 1: column 3 is `offset` in place of `volume`"),
            ("at,what,where", "no format understands its lines; line 1 is `at,what,where`"),
        ] {
            let error = detected("t", format!("{header}\n1,R,v,0,512\n").as_bytes()).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    #[test]
    fn what_has_no_format_says_so() {
        let error = detected("t", b"hello world\n").unwrap_err().to_string();
        assert!(error.contains("t: cannot detect the format"), "{error}");
        let error = detected("t", b"0,100,512,w,0.5\na\nb\n").unwrap_err().to_string();
        assert!(error.contains("resembles spc, but line 2"), "{error}");
        let noise: Vec<u8> =
            (0..10_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert!(detected("t.oracleGeneral", &noise).unwrap_err().to_string().contains("binary"));
        assert!(matches!(detected("t", b"").unwrap_err(), TraceError::Empty { .. }));
    }
}
