//! Options for reading a trace.

use clap::{Args, ValueEnum};

/// Options for reading a trace.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Reading the trace")]
pub(crate) struct Reading {
    /// Format of the trace; detected from its content if not given
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Bytes per page, as in 4096 or 8KiB; default: the recording's own, else 4KiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) page_size: Option<String>,
    /// For a recording: only requests to files of these classes, separated by commas: data, log,
    /// temporary, other
    #[arg(long, value_name = "CLASSES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// For a recording: one volume of all files, or each file a volume; default: all
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) volumes: Option<VolumesOf>,
    /// The unit of time, for formats that do not define it
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) time_unit: Option<TimeUnit>,
    /// Accept a truncated file, and use the part that it has
    #[arg(long)]
    pub(crate) allow_truncated: bool,
    /// Treatment of an object with a size: its pages, or one page for any size; default: pages
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) objects: Option<ObjectsAre>,
    /// The units of a tencent-cbs trace: both in sectors, both in bytes, or offsets in bytes and sizes in sectors; default: sectors
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) tencent_unit: Option<TencentUnit>,
    #[command(flatten)]
    pub(crate) columns: ColumnOptions,
    #[command(flatten)]
    pub(crate) part: PartOfTrace,
}

/// Columns of a trace in an unknown format.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "A trace of no known format")]
pub(crate) struct ColumnOptions {
    /// Contents of columns, by number or name, with units, as in
    /// time=1:us,op=2,offset=3,length=4,volume=5, or key=url,size=bytes for objects; or a TOML file
    /// with them
    #[arg(long, value_name = "ROLE=COLUMN,...", conflicts_with = "format")]
    pub(crate) columns: Option<String>,
    /// Meanings of operations, as in GET=read,PUT=write,DELETE=remove,HEAD=ignore
    #[arg(long, value_name = "WORD=OP,...", requires = "columns")]
    pub(crate) ops: Option<String>,
    /// Separator of columns: comma, tab, semicolon, bar, blanks; default: the one in the first line
    #[arg(long, value_name = "NAME", requires = "columns")]
    pub(crate) delimiter: Option<String>,
    /// First line with the names of the columns: yes or no; default: yes if --columns has names
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no, requires = "columns")]
    pub(crate) header: Option<bool>,
    /// The fields of binary records, letters of Python's struct, as in <IQIB
    #[arg(long = "struct", value_name = "LETTERS", requires = "columns")]
    pub(crate) layout: Option<String>,
}

/// Requests of a trace that are taken.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "A part of the trace")]
pub(crate) struct PartOfTrace {
    /// Leave out the first requests
    #[arg(long, value_name = "N")]
    pub(crate) skip: Option<u64>,
    /// Take at most this number of requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Take requests from this time after the first on, as in 90s, 5m, 2h, 500ms
    #[arg(long, value_name = "TIME", value_parser = duration_ns)]
    pub(crate) from_time: Option<u64>,
    /// Take requests before this time after the first
    #[arg(long, value_name = "TIME", value_parser = duration_ns)]
    pub(crate) to_time: Option<u64>,
}

impl Reading {
    /// Return the words of a command line that say the same.
    pub(crate) fn words(&self) -> Vec<String> {
        let Self {
            format,
            page_size,
            only,
            volumes,
            time_unit,
            allow_truncated,
            objects,
            tencent_unit,
            columns: ColumnOptions { columns, ops, delimiter, header, layout },
            part: PartOfTrace { skip, limit, from_time, to_time },
        } = self;
        let only = (!only.is_empty()).then(|| only.join(","));
        let header = header.map(|is_there| if is_there { "yes" } else { "no" }.to_owned());
        let count = |number: &Option<u64>| number.map(|number| number.to_string());
        let time = |time: &Option<u64>| {
            time.map(|ns| format!("{}.{:03}us", ns / 1000, ns % 1000).replace(".000us", "us"))
        };
        let options = [
            ("--format", format.clone()),
            ("--page-size", page_size.clone()),
            ("--only", only),
            ("--volumes", volumes.as_ref().and_then(word)),
            ("--time-unit", time_unit.as_ref().and_then(word)),
            ("--objects", objects.as_ref().and_then(word)),
            ("--tencent-unit", tencent_unit.as_ref().and_then(word)),
            ("--columns", columns.clone()),
            ("--ops", ops.clone()),
            ("--delimiter", delimiter.clone()),
            ("--header", header),
            ("--struct", layout.clone()),
            ("--skip", count(skip)),
            ("--limit", count(limit)),
            ("--from-time", time(from_time)),
            ("--to-time", time(to_time)),
        ];
        let given = options.into_iter().filter_map(|(flag, value)| Some([flag.into(), value?]));
        let truncated = allow_truncated.then(|| "--allow-truncated".to_owned());
        given.flatten().chain(truncated).collect()
    }
}

/// Return the word that stands for a value of an option.
fn word(value: &impl ValueEnum) -> Option<String> {
    value.to_possible_value().map(|value| value.get_name().to_owned())
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("it is yes or no".to_owned()),
    }
}

/// Return a time with its unit, in nanoseconds.
fn duration_ns(text: &str) -> Result<u64, String> {
    let units = [("ms", 6, 1), ("us", 3, 1), ("s", 9, 1), ("m", 9, 60), ("h", 9, 3600)];
    let (number, exponent, factor) = units
        .iter()
        .find_map(|&(unit, exponent, factor)| Some((text.strip_suffix(unit)?, exponent, factor)))
        .ok_or("write a number and a unit: 90s, 5m, 2h, 500ms, 20us")?;
    let ns = thermocline_trace::text::time(number.as_bytes(), "time", exponent);
    let ns = ns.map_err(|reason| reason.to_string())?;
    ns.checked_mul(factor).ok_or_else(|| "the time is too large".to_owned())
}

/// Treatment of an object with a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectsAre {
    /// The pages that its bytes need; no page belongs to two objects
    Pages,
    /// One page, whatever its size, whose number is the object's id
    One,
}

/// The units of a tencent-cbs trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TencentUnit {
    /// Offsets and sizes in sectors of 512 bytes
    Sectors,
    /// Both in bytes
    Bytes,
    /// Offsets in bytes, sizes in sectors
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumesOf {
    /// One volume of all files
    All,
    /// Each file is a volume
    Files,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TimeUnit {
    Ns,
    Us,
    Ms,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        reading: Reading,
    }

    #[test]
    fn words_are_what_was_given() {
        let read = |words: &[String]| {
            let line = [&["t".to_owned()], words].concat();
            Line::try_parse_from(line).unwrap().reading
        };
        let all = "--page-size 8KiB --only data,log --volumes files --time-unit us --objects one \
                   --tencent-unit mixed --columns time=1:us,key=2 --ops GET=read --delimiter tab \
                   --header yes --struct <IQ --skip 3 --limit 7 --from-time 1500us --to-time 2.5us \
                   --allow-truncated";
        let all: Vec<String> = all.split_whitespace().map(str::to_owned).collect();
        assert_eq!(read(&all).words().join(" "), all.join(" ").replace("2.5us", "2.500us"));
        let again = read(&read(&all).words());
        assert_eq!(format!("{again:?}"), format!("{:?}", read(&all)));
        let format: Vec<String> = vec!["--format".into(), "spc".into()];
        assert_eq!(read(&format).words(), format);
        assert!(Reading::default().words().is_empty());
    }
}
