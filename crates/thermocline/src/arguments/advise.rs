//! Arguments of `advise`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use thermocline_lab::TierSize;
use thermocline_lab::advising::Kind;

use super::{OUTPUT, PartOfTrace, Reading, TimeUnit};

/// Default number of times that the whole flash may be written: once a day for five years.
pub(crate) const ENDURANCE_CYCLES: f64 = 1825.0;

#[derive(Args, Debug)]
pub(crate) struct AdviseOptions {
    /// Traces, or samples that `--save` wrote; several samples are joined, as those of several days
    #[arg(required_unless_present_any = ["device", "path", "pid"], conflicts_with_all = ["device", "path", "pid"])]
    pub(crate) traces: Vec<PathBuf>,
    /// Listen to the requests to a block device, as /dev/sdb (root, and bpftrace or blktrace)
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["path", "pid"])]
    pub(crate) device: Option<PathBuf>,
    /// Listen to the block device that a file or folder lies on
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub(crate) path: Option<PathBuf>,
    /// Listen to the reads and writes of files by a process and those that it begins (root, bpftrace)
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Recorder; default: bpftrace if it is permitted, else blktrace, which only records block
    /// devices
    #[arg(long, value_enum, value_name = "PROGRAM", conflicts_with = "traces")]
    pub(crate) with: Option<ListenWith>,
    /// Time to listen, as 90s, 30m, 24h; default: until Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Duration>,
    /// Write the recorded sample to a file; a later `advise` accepts it in place of a trace
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, value_parser = super::to_be_written())]
    pub(crate) save: Option<PathBuf>,
    /// The present cache, whose settings are read from the machine: lvmcache:vg/lv, bcache:bcache0, open-cas:1, zfs:tank
    #[arg(long, value_name = "CACHE", value_parser = Have::parse)]
    pub(crate) have: Option<Have>,
    /// The size of flash, as 100GiB; default: that of the present cache
    #[arg(long, value_name = "SIZE")]
    pub(crate) flash: Option<TierSize>,
    /// Memory for a cache above flash that the requests have not passed, as 4GiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) ram: Option<TierSize>,
    /// Kinds of cache to consider, separated by commas; default: the present cache, and
    /// all that need no other file system
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_enum)]
    pub(crate) kinds: Vec<KindWord>,
    /// Maximum price of flash
    #[arg(long, value_name = "PRICE", requires = "price")]
    pub(crate) budget: Option<f64>,
    /// The price of flash per GiB
    #[arg(long, value_name = "PRICE", requires = "budget")]
    pub(crate) price: Option<f64>,
    /// Minimum lifetime of flash, in years
    #[arg(long, value_name = "YEARS", default_value_t = 5.0)]
    pub(crate) min_lifetime_years: f64,
    /// Number of times that the whole flash may be written: its rated terabytes divided by its size
    #[arg(long, value_name = "TIMES", default_value_t = ENDURANCE_CYCLES)]
    pub(crate) endurance: f64,
    /// The device of the flash tier; see `thermocline devices`
    #[arg(long, value_name = "NAME", default_value = "sata-ssd")]
    pub(crate) flash_device: String,
    /// The device of the disk tier; see `thermocline devices`
    #[arg(long, value_name = "NAME", default_value = "hdd-7200")]
    pub(crate) disk_device: String,
    /// The seed of the sample
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Maximum number of requests in the sample; a million needs 80 MiB
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(1000..=16 << 20))]
    pub(crate) most_requests: u64,
    /// Format of the traces; detected from their content if not given
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,
    /// Bytes per page, as in 4096 or 8KiB; default: the recording's own, else 4KiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) page_size: Option<String>,
    /// The unit of time, for formats that do not define it
    #[arg(long, value_enum, value_name = "UNIT")]
    pub(crate) time_unit: Option<TimeUnit>,
    /// Accept a truncated file, and use the part that it has
    #[arg(long)]
    pub(crate) allow_truncated: bool,
    /// Format of the answer
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub(crate) format: AdviceFormat,
    #[command(flatten)]
    pub(crate) part: PartOfTrace,
}

impl AdviseOptions {
    /// Return the options for reading the traces.
    pub(crate) fn reading(&self) -> Reading {
        Reading {
            format: self.from.clone(),
            page_size: self.page_size.clone(),
            time_unit: self.time_unit,
            allow_truncated: self.allow_truncated,
            part: self.part.clone(),
            ..Reading::default()
        }
    }
}

/// Recorder of a machine's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListenWith {
    /// bpftrace: root, and a kernel with BTF
    Bpftrace,
    /// blktrace: root, and debugfs
    Blktrace,
}

/// Format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AdviceFormat {
    /// Sentences, a table, and the commands
    #[default]
    Text,
    /// The commands alone, with the answer as comments
    Shell,
    /// JSON
    Json,
    /// A page of HTML
    Html,
}

/// A kind of cache, as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindWord {
    /// lvmcache (dm-cache)
    Lvmcache,
    /// The write cache of lvm (dm-writecache)
    Writecache,
    /// bcache
    Bcache,
    /// Open CAS
    OpenCas,
    /// ZFS with a cache device
    Zfs,
    /// The engine of this project
    Thermocline,
}

impl KindWord {
    pub(crate) const fn into_lab(self) -> Kind {
        match self {
            Self::Lvmcache => Kind::Lvmcache,
            Self::Writecache => Kind::Writecache,
            Self::Bcache => Kind::Bcache,
            Self::OpenCas => Kind::OpenCas,
            Self::Zfs => Kind::Zfs,
            Self::Thermocline => Kind::Thermocline,
        }
    }
}

/// A cache that the machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Have {
    /// Kind of the cache whose settings are read.
    pub(crate) kind: KindWord,
    /// Name of the cache; the only one if absent.
    pub(crate) name: Option<String>,
}

impl Have {
    fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once(':') {
            Some((kind, name)) => (kind, Some(name.to_owned()).filter(|name| !name.is_empty())),
            None => (text, None),
        };
        let kind = KindWord::from_str(kind, true)
            .ok()
            .filter(|kind| *kind != KindWord::Thermocline)
            .ok_or(
                "expected lvmcache, writecache, bcache, open-cas or zfs, as in lvmcache:vg/lv",
            )?;
        Ok(Self { kind, name })
    }
}

/// Return a time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let wanted = || "expected a number and a unit: 90s, 30m, 24h or 7d".to_owned();
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let seconds: u64 = match &text[digits.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wanted()),
    };
    let number: u64 = digits.parse().map_err(|_| wanted())?;
    let seconds = number.checked_mul(seconds).filter(|&seconds| seconds > 0).ok_or_else(wanted)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("24h"), Ok(Duration::from_hours(24)));
        assert_eq!(time("7d"), time("168h"));
        for text in ["", "h", "5", "0s", "-1s", "1.5h", "5x", "99999999999999999999s", "1e9d"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_cache_is_a_kind_and_perhaps_a_name() {
        let of = |text| Have::parse(text).map(|have| (have.kind, have.name));
        assert_eq!(of("bcache"), Ok((KindWord::Bcache, None)));
        assert_eq!(of("lvmcache:vg/lv"), Ok((KindWord::Lvmcache, Some("vg/lv".into()))));
        assert!(of("thermocline").is_err());
        assert!(of("flashcache:x").unwrap_err().contains("lvmcache:vg/lv"));
    }
}
