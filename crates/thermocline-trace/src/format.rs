//! The trace formats: one file each, one row each in the table below.

mod options;

use std::fmt;
use std::str::FromStr;

use crate::decode::{Decoder, Lines, RecordFormat, Records, State, TextFormat};
use crate::delimited::Delimited;
use crate::error::TraceError;
use crate::input::Input;
use crate::mapping::Mapping;
use crate::request::{PageSize, Request};

pub use options::{ReadOptions, TencentUnit, TimeUnit, VolumeOf};

/// Declares the module of each format, and makes [`FormatName`] of the rows.
macro_rules! formats {
    ($($variant:ident in $module:ident: $summary:literal,)*) => {
        $(pub(crate) mod $module;)*

        /// A trace format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[expect(clippy::doc_markdown, reason = "the summaries are plain text for tables, too")]
        pub enum FormatName {
            $(#[doc = $summary] $variant,)*
        }

        impl FormatName {
            /// Every format, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Return a description in one line.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => $summary,)*
                }
            }

            /// Return its name, recognition and reader: `FORMAT` in its module.
            pub(crate) const fn format(self) -> &'static Format {
                match self {
                    $(Self::$variant => &$module::FORMAT,)*
                }
            }
        }
    };
}

// rustfmt does not look into macros; `cargo xtask test` checks the files of this table by name.
formats! {
    Spc in spc: "SPC ASCII: asu,lba,size,opcode,timestamp (UMass Financial, WebSearch)",
    Msr in msr: "MSR Cambridge CSV: filetime,host,disk,Read|Write,offset,size,response",
    Fiu in fiu: "FIU: ns pid process lba sectors R|W major minor hash",
    Blkparse in blkparse: "text printed by blkparse; queue events unless told otherwise",
    Ssdsim in ssdsim: "SSDsim, DiskSim ASCII: time device sector sectors op (1 = read)",
    Mqsim in mqsim: "MQSim ASCII: ns device sector sectors type (1 = read)",
    Vscsi in vscsi: "CloudPhysics vscsi binary, 32-byte (v1) or 40-byte (v2) records",
    Lis in lis: "ARC paper: start count 0 index; reads of pages",
    Pages in pages: "one page number per line; reads",
    OracleGeneral in oracle_general: "libCacheSim oracleGeneral, 24-byte records of objects; reads",
    Lcs in lcs: "libCacheSim lcs, versions 1 to 8, and the one before late 2024; objects",
    OracleGeneralOpNs in oracle_general_op_ns: "libCacheSim oracleGeneralOpNS, 27-byte records of objects",
    Kosmo in kosmo: "Kosmo, 25-byte records: time, get or set, key, size, ttl",
    Diskmon in diskmon: "Windows DiskMon text: number time duration disk op sector sectors",
    Etw in etw: "Microsoft ETW text printed by xperf; DiskRead and DiskWrite are the requests",
    Mobibench in mobibench: "MobiBench file-level text: every file is a volume",
    Alibaba in alibaba: "Alibaba block traces: device,R|W,offset,length,us",
    TencentCbs in tencent_cbs: "Tencent CBS block traces: s,offset,size,0|1,volume",
    Systor in systor17: "Systor '17 CSV: Timestamp,Response,IOType,LUN,Offset,Size",
    Thesios in thesios: "Google Thesios CSV: filename,file_offset,...; files are objects",
    Tectonic in tectonic: "Meta Tectonic CSV: op_time,block_id,...; blocks are objects",
    Baleen in baleen: "Baleen: block offset size time op namespace user host repeat",
    Twitter in twitter: "Twitter cache traces: s,key,key size,value size,client,op,ttl",
    MetaKv in meta_kv: "Meta key-value CSV of 2022 or 2024: key,op,size,op_count,key_size,...",
    MetaCdn in meta_cdn: "Meta CDN CSV: timestamp,cacheKey,OpType,objectSize,...",
    IbmCos in ibm_cos: "IBM COS: ms REST.GET.OBJECT id size start end",
    Wikimedia in wikimedia: "Wikimedia upload and text traces of 2019 and 2016, with a header; reads",
    Wikibench in wikibench: "Wikibench of 2007: counter s URL -|save; a page per URL",
    Ycsb in ycsb: "log of YCSB's basic binding: READ|UPDATE|INSERT|SCAN|DELETE table key",
    RocksdbBlock in rocksdb_block: "RocksDB block-cache trace in human-readable form; reads",
    CachesimParquet in cachesim_parquet: "Parquet of cachesim: timestamp,obj_id,obj_size,...",
    Parquet in parquet: "our Parquet: at_ns,op,volume,offset,length",
    Columns in columns: "any columns, JSON lines, Parquet or records, as described",
    Csv in csv: "our CSV: timestamp_us,op,volume,offset,length",
    Recording in recording: "recording: timestamp_us,op,file_id,page_no,pages,flags + file table",
}

#[cfg(test)]
pub(crate) mod test_support;

/// Name, recognition and reader of a format.
pub(crate) struct Format {
    /// Its name on the command line, in lower case with hyphens.
    name: &'static str,
    /// Another name that is accepted.
    alias: Option<&'static str>,
    /// Extensions that settle a tie between formats that the content fits equally well.
    pub(crate) extensions: &'static [&'static str],
    /// `true` if its requests number pages, not bytes.
    is_page_numbered: bool,
    /// Recognition of a file by its first bytes.
    pub(crate) recognition: Recognition,
    /// The page size that fits it best, if it is not the usual one.
    pub(crate) page_size: Option<PageSize>,
    /// The decoder of a file that begins with these bytes.
    pub(crate) decoder: fn(&[u8], &ReadOptions) -> Box<dyn Decoder>,
}

/// Makes the parser of a text format for a sample.
type LinesParser = fn(&[u8], &ReadOptions) -> Option<Box<dyn TextFormat>>;

/// Recognition of a format by the first bytes of a file.
pub(crate) enum Recognition {
    /// The parser that is run over the lines of the sample; none if the options exclude the format.
    Lines(LinesParser),
    /// `true` if the sample consists of its records.
    Records(fn(&[u8]) -> bool),
    /// The names of the columns of a Parquet file, all of which it has, and what they mean.
    Parquet { names: &'static [&'static str], mapping: fn() -> Mapping },
    /// Never: it must be named.
    Named,
}

/// A format of lines in columns.
pub(crate) trait Described: 'static {
    /// Return the reader of its lines.
    fn lines(options: &ReadOptions) -> Delimited;
}

impl Format {
    /// Create a format that addresses bytes, without another name and without extensions.
    const fn new(
        name: &'static str,
        recognition: Recognition,
        decoder: fn(&[u8], &ReadOptions) -> Box<dyn Decoder>,
    ) -> Self {
        Self {
            name,
            alias: None,
            extensions: &[],
            is_page_numbered: false,
            recognition,
            page_size: None,
            decoder,
        }
    }

    /// Create a format of lines in columns.
    const fn described<F: Described>(name: &'static str) -> Self {
        let recognition = Recognition::Lines(|_, options| Some(Box::new(F::lines(options))));
        Self::new(name, recognition, |_, options| Box::new(Lines(F::lines(options))))
    }

    /// Create a format of Parquet files, which are not read as a stream of bytes.
    const fn parquet(
        name: &'static str,
        names: &'static [&'static str],
        mapping: fn() -> Mapping,
    ) -> Self {
        Self::new(name, Recognition::Parquet { names, mapping }, |_, _| Box::new(NoStream))
    }

    /// Create a text format whose parser `F` depends neither on the sample nor on the options.
    const fn text<F: TextFormat + Default + 'static>(name: &'static str) -> Self {
        let recognition = Recognition::Lines(|_, _| Some(Box::new(F::default())));
        Self::new(name, recognition, |_, _| Box::new(Lines(F::default())))
    }

    /// Create a binary format of records `F`, which a sample consists of if `fits` says so.
    const fn binary<F: RecordFormat + Default + 'static>(
        name: &'static str,
        fits: fn(&[u8]) -> bool,
    ) -> Self {
        Self::new(name, Recognition::Records(fits), |_, _| Box::new(Records(F::default())))
    }
}

/// Stands for the decoder of a file that cannot be read as a stream of bytes.
struct NoStream;

impl Decoder for NoStream {
    fn decode(
        &mut self,
        input: &mut Input,
        _: &mut State,
        _: &mut Vec<Request>,
    ) -> Result<(), TraceError> {
        Err(TraceError::Content {
            path: input.path().to_owned(),
            reason:
                "not a Parquet file that can be read: it must be a file, not compressed and no pipe"
                    .to_owned(),
        })
    }
}

impl FormatName {
    /// Return its name on the command line.
    pub const fn name(self) -> &'static str {
        self.format().name
    }

    /// Return `true` if its requests number pages, so that the page size changes nothing.
    pub const fn is_page_numbered(self) -> bool {
        self.format().is_page_numbered
    }

    /// Return all names, for messages.
    fn list() -> String {
        let shown = |format: &Self| match format.format().alias {
            None => format.name().to_owned(),
            Some(alias) => format!("{} ({alias})", format.name()),
        };
        Self::ALL.iter().map(shown).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FormatName {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        // `oracleGeneral` and `oracle_general` are `oracle-general`.
        let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '_'], "");
        let wanted = plain(name);
        let is_wanted = |format: &Format| {
            plain(format.name) == wanted || format.alias.is_some_and(|alias| alias == wanted)
        };
        Self::ALL
            .iter()
            .copied()
            .find(|format| is_wanted(format.format()))
            .ok_or_else(|| TraceError::NoSuchFormat { name: name.to_owned(), known: Self::list() })
    }
}

impl TraceError {
    /// Suggest the option of [`ReadOptions`] that helps, if one does.
    pub fn remedy(&self, spell: impl Fn(&str) -> String) -> Option<String> {
        if let Self::UnknownFormat { .. } = self {
            return Some(format!(
                "name it with {}, one of: {}; or say what its columns are with {}, as in `time=1:us,op=2,offset=3,length=4`",
                spell("format"),
                FormatName::list(),
                spell("columns")
            ));
        }
        let is_truncated = matches!(self, Self::Truncated { .. });
        is_truncated.then(|| format!("{} takes what is there", spell("allow_truncated")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parsed() {
        let list = FormatName::list();
        for &format in FormatName::ALL {
            // Of two formats with one name, the first would be found.
            assert_eq!(format.name().parse::<FormatName>().unwrap(), format);
            assert!(list.split(", ").any(|name| name.starts_with(format.name())), "{format}");
            assert!(!format.summary().is_empty(), "{format}");
            let Some(alias) = format.format().alias else { continue };
            assert_eq!(alias.parse::<FormatName>().unwrap(), format);
        }
        assert!(list.starts_with("spc, msr, ") && list.contains("ssdsim (disksim), "), "{list}");
        assert_eq!("DiskSim".parse::<FormatName>().unwrap(), FormatName::Ssdsim);
        assert_eq!("oracleGeneral".parse::<FormatName>().unwrap(), FormatName::OracleGeneral);
        assert_eq!("oracle_general".parse::<FormatName>().unwrap(), FormatName::OracleGeneral);
        let error = "spcc".parse::<FormatName>().unwrap_err().to_string();
        assert!(error.contains("'spcc'") && error.contains("blkparse"), "{error}");
    }
}
