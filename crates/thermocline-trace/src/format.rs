//! The trace formats: one file each, one row each in [`FormatName::ALL`].

use std::fmt;
use std::str::FromStr;

use crate::decode::{Decoder, Lines, Records};
use crate::error::TraceError;
use crate::reader::ReadOptions;

pub(crate) mod blkparse;
pub(crate) mod csv;
pub(crate) mod diskmon;
pub(crate) mod fiu;
pub(crate) mod lis;
pub(crate) mod mobibench;
pub(crate) mod mqsim;
pub(crate) mod msr;
pub(crate) mod oracle_general;
pub(crate) mod pages;
pub(crate) mod recording;
pub(crate) mod spc;
pub(crate) mod ssdsim;
pub(crate) mod vscsi;

#[cfg(test)]
pub(crate) mod test_support;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FormatName {
    /// Storage Performance Council ASCII: `asu,lba,size,opcode,timestamp`.
    Spc,
    /// MSR Cambridge CSV.
    Msr,
    /// Florida International University's `blkparse` text with content hashes.
    Fiu,
    /// The text that `blkparse` prints.
    Blkparse,
    /// SSDsim and DiskSim ASCII: `time device sector sectors op`, 1 is a read.
    Ssdsim,
    /// MQSim ASCII: the same columns as [`Ssdsim`](Self::Ssdsim), always in nanoseconds.
    Mqsim,
    /// CloudPhysics `vscsi` binary, versions 1 and 2.
    Vscsi,
    /// The ARC paper's `start count 0 index`.
    Lis,
    /// One page number per line, as in the LIRS paper's traces.
    Pages,
    /// libCacheSim's oracleGeneral binary.
    OracleGeneral,
    /// Windows DiskMon text.
    Diskmon,
    /// `MobiBench` file-level text.
    Mobibench,
    /// Our CSV: `timestamp_us,op,volume,offset,length`.
    Csv,
    /// A recording of a real program, beside its file table.
    Recording,
}

impl FormatName {
    /// Every format.
    pub const ALL: [Self; 14] = [
        Self::Spc,
        Self::Msr,
        Self::Fiu,
        Self::Blkparse,
        Self::Ssdsim,
        Self::Mqsim,
        Self::Vscsi,
        Self::Lis,
        Self::Pages,
        Self::OracleGeneral,
        Self::Diskmon,
        Self::Mobibench,
        Self::Csv,
        Self::Recording,
    ];

    /// All names, for messages.
    pub(crate) const LIST: &'static str = "spc, msr, fiu, blkparse, ssdsim (disksim), mqsim, \
        vscsi, lis, pages, oracle-general, diskmon, mobibench, csv, recording";

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spc => "spc",
            Self::Msr => "msr",
            Self::Fiu => "fiu",
            Self::Blkparse => "blkparse",
            Self::Ssdsim => "ssdsim",
            Self::Mqsim => "mqsim",
            Self::Vscsi => "vscsi",
            Self::Lis => "lis",
            Self::Pages => "pages",
            Self::OracleGeneral => "oracle-general",
            Self::Diskmon => "diskmon",
            Self::Mobibench => "mobibench",
            Self::Csv => "csv",
            Self::Recording => "recording",
        }
    }

    /// One line that says what it is.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Spc => "SPC ASCII: asu,lba,size,opcode,timestamp (UMass Financial, WebSearch)",
            Self::Msr => "MSR Cambridge CSV: filetime,host,disk,Read|Write,offset,size,response",
            Self::Fiu => "FIU: ns pid process lba sectors R|W major minor hash",
            Self::Blkparse => "text printed by blkparse; queue events unless told otherwise",
            Self::Ssdsim => "SSDsim, DiskSim ASCII: time device sector sectors op (1 = read)",
            Self::Mqsim => "MQSim ASCII: ns device sector sectors type (1 = read)",
            Self::Vscsi => "CloudPhysics vscsi binary, 32-byte (v1) or 40-byte (v2) records",
            Self::Lis => "ARC paper: start count 0 index; reads of pages",
            Self::Pages => "one page number per line; reads",
            Self::OracleGeneral => "libCacheSim oracleGeneral, 24-byte records; reads",
            Self::Diskmon => "Windows DiskMon text: number time duration disk op sector sectors",
            Self::Mobibench => "MobiBench file-level text: every file is a volume",
            Self::Csv => "our CSV: timestamp_us,op,volume,offset,length",
            Self::Recording => {
                "recording: timestamp_us,op,file_id,page_no,pages,flags + file table"
            }
        }
    }

    /// Whether its requests number pages, so that the page size changes nothing.
    pub const fn is_page_numbered(self) -> bool {
        matches!(self, Self::Lis | Self::Pages | Self::OracleGeneral | Self::Recording)
    }

    /// Extensions that settle a tie between formats that the content fits equally well.
    pub(crate) const fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Ssdsim => &["ssdsim", "disksim", "disksim-ms", "ascii"],
            Self::Mqsim => &["mqsim", "trace"],
            Self::OracleGeneral => &["oraclegeneral", "bin"],
            Self::Spc
            | Self::Msr
            | Self::Fiu
            | Self::Blkparse
            | Self::Vscsi
            | Self::Lis
            | Self::Pages
            | Self::Diskmon
            | Self::Mobibench
            | Self::Csv
            | Self::Recording => &[],
        }
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
        let wanted = match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "disksim" => "ssdsim".to_owned(),
            "oraclegeneral" => "oracle-general".to_owned(),
            other => other.to_owned(),
        };
        Self::ALL
            .into_iter()
            .find(|format| format.name() == wanted)
            .ok_or_else(|| TraceError::NoSuchFormat { name: name.to_owned() })
    }
}

/// The decoder of `format`, set up for a file that begins with `sample`.
pub(crate) fn decoder(
    format: FormatName,
    sample: &[u8],
    options: &ReadOptions,
) -> Box<dyn Decoder> {
    match format {
        FormatName::Spc => Box::new(Lines(spc::Spc)),
        FormatName::Msr => Box::new(Lines(msr::Msr)),
        FormatName::Fiu => Box::new(Lines(fiu::Fiu)),
        FormatName::Blkparse => Box::new(Lines(blkparse::Blkparse::new(options.blkparse_action))),
        FormatName::Ssdsim => {
            let unit = options.time_unit.unwrap_or_else(|| ssdsim::guess_time_unit(sample));
            Box::new(Lines(ssdsim::Ssdsim::new(unit)))
        }
        FormatName::Mqsim => Box::new(Lines(mqsim::Mqsim::new(options.time_unit))),
        FormatName::Vscsi if vscsi::version(sample) == Some(2) => Box::new(Records(vscsi::VscsiV2)),
        FormatName::Vscsi => Box::new(Records(vscsi::VscsiV1)),
        FormatName::Lis => Box::new(Lines(lis::Lis)),
        FormatName::Pages => Box::new(Lines(pages::Pages)),
        FormatName::OracleGeneral => Box::new(Records(oracle_general::OracleGeneral)),
        FormatName::Diskmon => Box::new(Lines(diskmon::Diskmon)),
        FormatName::Mobibench => Box::new(Lines(mobibench::Mobibench)),
        FormatName::Csv => Box::new(Lines(csv::Csv::default())),
        FormatName::Recording => {
            let table = options.file_table.clone().unwrap_or_default();
            let only = &options.only_classes;
            Box::new(Lines(recording::Recording::new(table, only, options.volume_of)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parsed() {
        for format in FormatName::ALL {
            assert_eq!(format.name().parse::<FormatName>().unwrap(), format);
            assert!(FormatName::LIST.contains(format.name()), "{format} is listed");
        }
        assert_eq!("DiskSim".parse::<FormatName>().unwrap(), FormatName::Ssdsim);
        assert_eq!("oracleGeneral".parse::<FormatName>().unwrap(), FormatName::OracleGeneral);
        let error = "spcc".parse::<FormatName>().unwrap_err().to_string();
        assert!(error.contains("'spcc'") && error.contains("blkparse"), "{error}");
    }
}
