//! ARC and the level 2 ARC of ZFS, as `/proc`, `/sys` and `zpool list` show them.
//!
//! Settings and counters are those of the module: all pools of the machine share them.

use std::collections::BTreeMap;
use std::path::Path;

use super::counters::{Counted, Counters, Unit};
use super::error::{InstalledError, Place, shown};
use super::files::{exists, names, read_text};
use super::runner::{Program, Runner};
use super::settings::Zfs;
use super::{CacheDevice, Found, InstalledCache, InstalledKind, Setting};
use crate::size::{Units, bytes};

const ZPOOL: Program = Program {
    name: "zpool",
    install: "install it with `apt install zfsutils-linux` or `dnf install zfs`",
    check: "load the module with `modprobe zfs`, and try `zpool list -v`",
};

const LIST: Place<'_> = Place { source: "the output of `zpool list -vHPp`", look: "zpool list -v" };
const ARCSTATS: Place<'_> =
    Place { source: "/proc/spl/kstat/zfs/arcstats", look: "cat /proc/spl/kstat/zfs/arcstats" };
const PARAMETERS: Place<'_> = Place {
    source: "/sys/module/zfs/parameters",
    look: "grep . /sys/module/zfs/parameters/l2arc_*",
};

/// Read all pools, and the caches of the module below a root, which is `/` on the machine itself.
///
/// # Errors
/// If ZFS is not loaded, `zpool` cannot be run, or something is not understood.
pub fn read(root: &Path, runner: &mut Runner<'_>) -> Result<Found, InstalledError> {
    let module = root.join("sys/module/zfs/parameters");
    if !exists(&module)? {
        let remedy = "ZFS is not loaded; try `modprobe zfs`";
        return Err(InstalledError::Absent { path: module, remedy });
    }
    let text = read_text(&root.join("proc/spl/kstat/zfs/arcstats"))?;
    let statistics = statistics(&text)?;
    let mut parameters = BTreeMap::new();
    for name in names(&module)? {
        if name.starts_with("l2arc_") || name.starts_with("zfs_arc_") {
            let value = read_text(&module.join(&name))?;
            parameters.insert(name, value);
        }
    }
    let mut parameters = Parameters(parameters);
    let settings = parameters.settings(&statistics)?;
    let counters = counters(&statistics)?;
    let mut found = Found::default();
    for pool in pools(&ZPOOL.run(runner, &["list", "-vHPp"])?)? {
        if pool.devices.is_empty() {
            found.notes.push(format!(
                "the pool {} has no cache device; `zpool add POOL cache DEVICE` adds one",
                shown(&pool.name)
            ));
        }
        found.notes.extend(pool.notes);
        let sizes = pool.devices.iter().map(|device| device.size_bytes);
        found.caches.push(InstalledCache {
            name: pool.name,
            size_bytes: sizes.fold(0, u64::saturating_add),
            kind: InstalledKind::Zfs { devices: pool.devices, settings: settings.clone() },
            counters: counters.clone(),
            other_settings: parameters.left(),
        });
    }
    Ok(found)
}

/// Parse a table of the kernel: two lines of heads, then a name, a type and a value each.
fn statistics(text: &str) -> Result<BTreeMap<&str, u64>, InstalledError> {
    let mut statistics = BTreeMap::new();
    let rows = text.lines().skip_while(|line| !line.starts_with("name")).skip(1);
    for row in rows.filter(|row| !row.trim().is_empty()) {
        let mut words = row.split_ascii_whitespace();
        let (Some(name), Some(_), Some(value), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(ARCSTATS.error("", format!("expected three words, found {}", shown(row))));
        };
        // A few values are signed; none of those is read.
        if !value.starts_with('-') {
            statistics.insert(name, ARCSTATS.number(name, value)?);
        }
    }
    if statistics.is_empty() {
        return Err(ARCSTATS.error("", "it has no rows under the line 'name type data'"));
    }
    Ok(statistics)
}

fn statistic(statistics: &BTreeMap<&str, u64>, name: &str) -> Result<u64, InstalledError> {
    statistics.get(name).copied().ok_or_else(|| ARCSTATS.error(name, "the row is missing"))
}

fn counters(statistics: &BTreeMap<&str, u64>) -> Result<Counters, InstalledError> {
    let mut counters = Counters::default();
    for (counted, name, unit, meaning) in [
        (
            Counted::RamHits,
            "hits",
            Unit::Requests,
            "requests that ARC had in memory, of all pools, since the module was loaded",
        ),
        (Counted::RamMisses, "misses", Unit::Requests, "requests that ARC did not have, likewise"),
        (
            Counted::ReadHits,
            "l2_hits",
            Unit::Requests,
            "reads that the cache devices of all pools served, since the module was loaded",
        ),
        (
            Counted::ReadMisses,
            "l2_misses",
            Unit::Requests,
            "reads of pools with cache devices that these did not have",
        ),
        (Counted::FlashReads, "l2_read_bytes", Unit::Bytes, "bytes read from cache devices"),
        (Counted::FlashWrites, "l2_write_bytes", Unit::Bytes, "bytes written to cache devices"),
        (Counted::Used, "l2_asize", Unit::Bytes, "bytes on cache devices now, compressed"),
    ] {
        counters.add(counted, statistic(statistics, name)?, unit, meaning);
    }
    let clean = "a cache device never has newer bytes than the pool";
    counters.add(Counted::Dirty, 0, Unit::Bytes, clean);
    Ok(counters)
}

/// The module's parameters, by name.
#[derive(Debug)]
struct Parameters(BTreeMap<String, String>);

impl Parameters {
    fn optional(&mut self, name: &str) -> Result<Option<u64>, InstalledError> {
        self.0.remove(name).map(|text| PARAMETERS.number(name, &text)).transpose()
    }

    fn number(&mut self, name: &str) -> Result<u64, InstalledError> {
        self.optional(name)?.ok_or_else(|| PARAMETERS.error(name, "the parameter is missing"))
    }

    fn settings(&mut self, statistics: &BTreeMap<&str, u64>) -> Result<Zfs, InstalledError> {
        // 0 leaves the limit to the module, whose choice is in the statistics.
        let arc_max_bytes = match self.number("zfs_arc_max")? {
            0 => statistic(statistics, "c_max")?,
            bytes => bytes,
        };
        Ok(Zfs {
            arc_max_bytes,
            write_max_bytes: self.number("l2arc_write_max")?,
            write_boost_bytes: self.optional("l2arc_write_boost")?,
            headroom: self.number("l2arc_headroom")?,
            headroom_boost_percent: self.number("l2arc_headroom_boost")?,
            feed_s: self.number("l2arc_feed_secs")?,
            no_prefetch: self.number("l2arc_noprefetch")? != 0,
            // The oldest releases have neither.
            mfu_only: self.optional("l2arc_mfuonly")?.unwrap_or(0),
            meta_percent: self.optional("l2arc_meta_percent")?.unwrap_or(100),
            dwpd_limit_percent: self.optional("l2arc_dwpd_limit")?,
            ext_headroom_percent: self.optional("l2arc_ext_headroom_pct")?,
            meta_cycles: self.optional("l2arc_meta_cycles")?,
        })
    }

    fn left(&self) -> Vec<Setting> {
        self.0.iter().map(|(name, value)| Setting::new(name.as_str(), value.as_str())).collect()
    }
}

/// A pool of the list.
#[derive(Debug)]
struct Pool {
    name: String,
    devices: Vec<CacheDevice>,
    notes: Vec<String>,
}

/// Parse `zpool list -v`, with or without `-H`, `-P` and `-p`.
fn pools(text: &str) -> Result<Vec<Pool>, InstalledError> {
    let mut pools: Vec<Pool> = vec![];
    let mut is_cache = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let is_inner = line.starts_with(['\t', ' ']);
        let fields = columns(line);
        let (Some(&name), Some(&size)) = (fields.first(), fields.get(1)) else {
            if line.trim() == "no pools available" {
                return Ok(vec![]);
            }
            return Err(
                LIST.error("", format!("expected a name and a size, found {}", shown(line)))
            );
        };
        let is_class = size == "-" && fields.iter().skip(1).all(|&field| field == "-");
        if is_class && !is_inner {
            is_cache = name == "cache";
        } else if is_inner {
            let Some(pool) = pools.last_mut().filter(|_| is_cache) else { continue };
            let health = fields.iter().skip(2).find(|field| is_health(field));
            if let Some(&health) = health.filter(|&&health| health != "ONLINE") {
                let device = shown(name);
                pool.notes
                    .push(format!("the cache device {device} is {health}, so it is not counted"));
                continue;
            }
            let size_bytes = bytes(size, Units::Binary).ok_or_else(|| {
                LIST.error(name, format!("expected a size, found {}", shown(size)))
            })?;
            pool.devices.push(CacheDevice { name: name.into(), size_bytes });
        } else if name != "NAME" {
            is_cache = false;
            bytes(size, Units::Binary).ok_or_else(|| {
                LIST.error(name, format!("expected the size of a pool, found {}", shown(size)))
            })?;
            pools.push(Pool { name: name.into(), devices: vec![], notes: vec![] });
        }
    }
    Ok(pools)
}

/// Return the columns of a line: separated by tabs for programs, because names may have blanks.
fn columns(line: &str) -> Vec<&str> {
    let inner = line.trim();
    if inner.contains('\t') {
        inner.split('\t').map(str::trim).collect()
    } else {
        inner.split_ascii_whitespace().collect()
    }
}

/// Return `true` if a column is the state of a device.
fn is_health(field: &str) -> bool {
    matches!(field, "ONLINE" | "DEGRADED" | "FAULTED" | "OFFLINE" | "REMOVED" | "UNAVAIL")
}
