//! Open CAS, as `casadm` shows it.
//!
//! `casadm -L` lists caches and cores, `casadm -P` has settings and counters of a cache, and
//! `casadm -G` the parameters of its policies. All are asked for comma-separated values.

use super::counters::{Counted, Counters, Unit};
use super::csv;
use super::error::{InstalledError, Place, shown};
use super::runner::{Program, Runner};
use super::settings::{OpenCas, OpenCasCleaning, OpenCasMode, OpenCasPromotion, SequentialPolicy};
use super::{Core, Found, InstalledCache, InstalledKind, Setting};

const CASADM: Program = Program {
    name: "casadm",
    install: "install Open CAS Linux, or give the name of another kind of cache",
    check: "load the module with `modprobe cas_cache`, and try `casadm -L` as root",
};

const LIST: Place<'_> = Place { source: "the output of `casadm -L -o csv`", look: "casadm -L" };
const STATISTICS: Place<'_> =
    Place { source: "the output of `casadm -P -o csv`", look: "casadm -P -i ID" };
const PARAMETERS: Place<'_> =
    Place { source: "the output of `casadm -G -o csv`", look: "casadm -G -n NAME -i ID" };

/// Bytes of the blocks in which casadm counts.
const BLOCK_BYTES: u64 = 4096;

/// Read all caches of Open CAS.
///
/// # Errors
/// If `casadm` cannot be run, or what it prints is not understood.
pub fn read(runner: &mut Runner<'_>) -> Result<Found, InstalledError> {
    let listed = list(&CASADM.run(runner, &["-L", "-o", "csv"])?)?;
    let mut found = Found::default();
    for cache in listed {
        let running = ["running", "incomplete", "flushing"];
        let status = cache.status.to_ascii_lowercase();
        if !running.iter().any(|word| status.starts_with(word)) {
            found.notes.push(format!(
                "Open CAS cache {} is {}, so it has no settings; look at `casadm -L`",
                cache.id,
                shown(&cache.status)
            ));
            continue;
        }
        let (cache, notes) = read_cache(runner, cache)?;
        found.caches.push(cache);
        found.notes.extend(notes);
    }
    Ok(found)
}

/// A cache of the list.
#[derive(Debug)]
struct Listed {
    id: u16,
    device: String,
    status: String,
    cores: Vec<Core>,
}

fn list(text: &str) -> Result<Vec<Listed>, InstalledError> {
    let mut caches: Vec<Listed> = vec![];
    // Cores of the pool have no cache.
    let mut is_pool = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let fields = csv::fields(line);
        let [kind, id, device, status, _, exported] = fields.as_slice() else {
            if line.trim() == "No caches running" {
                return Ok(vec![]);
            }
            return Err(LIST.error("", format!("expected six fields, found {}", shown(line))));
        };
        match kind.as_str() {
            "type" => {}
            "core pool" => is_pool = true,
            "cache" => {
                is_pool = false;
                caches.push(Listed {
                    id: identifier(id)?,
                    device: device.clone(),
                    status: status.clone(),
                    cores: vec![],
                });
            }
            "core" if is_pool => {}
            "core" => {
                let cache = caches
                    .last_mut()
                    .ok_or_else(|| LIST.error("", "a core comes before the first cache"))?;
                let (device, exported) = (device.clone(), exported.clone());
                cache.cores.push(Core { id: identifier(id)?, device, exported });
            }
            other => return Err(LIST.unknown_word("type", other, "cache, core, core pool")),
        }
    }
    Ok(caches)
}

fn identifier(text: &str) -> Result<u16, InstalledError> {
    let number = LIST.number("id", text)?;
    u16::try_from(number).map_err(|_| LIST.error("id", format!("{number} is too large")))
}

fn read_cache(
    runner: &mut Runner<'_>,
    listed: Listed,
) -> Result<(InstalledCache, Vec<String>), InstalledError> {
    let id = listed.id.to_string();
    let row = Row::of(&CASADM.run(runner, &["-P", "-i", &id, "-o", "csv"])?)?;
    let mut asked = Asked { runner, id: &id, other_settings: row.other_settings() };
    let promotion = asked.promotion(row.text("Promotion Policy")?)?;
    let cleaning = asked.cleaning(row.text("Cleaning Policy")?)?;
    let mut notes = vec![];
    let mut sequential = None;
    for core in &listed.cores {
        let given = asked.cutoff(core.id)?;
        if *sequential.get_or_insert(given) != given {
            notes.push(format!(
                "Open CAS cache {id}: core {} has another sequential cutoff than the first; \
                 estimates use the first core's",
                core.id
            ));
        }
    }
    // The defaults of a core that is added.
    let (sequential_policy, sequential_cutoff_bytes) =
        sequential.unwrap_or((SequentialPolicy::Full, 1 << 20));
    let settings = OpenCas {
        line_bytes: row.size("Cache line size", "[KiB]", 1024)?,
        mode: row.mode()?,
        promotion,
        cleaning,
        sequential_policy,
        sequential_cutoff_bytes,
    };
    let other_settings = asked.other_settings;
    let Listed { id: number, device, cores, .. } = listed;
    let cache = InstalledCache {
        name: id,
        size_bytes: row.size("Cache Size", "[4KiB Blocks]", BLOCK_BYTES)?,
        counters: row.counters()?,
        kind: InstalledKind::OpenCas { id: number, device, cores, settings },
        other_settings,
    };
    Ok((cache, notes))
}

/// Questions to `casadm` about one cache.
struct Asked<'a, 'b> {
    runner: &'a mut Runner<'b>,
    id: &'a str,
    /// Parameters of policies that no model knows.
    other_settings: Vec<Setting>,
}

impl Asked<'_, '_> {
    /// Ask for the parameters of a policy, take some, and keep the others.
    fn parameters<T>(
        &mut self,
        name: &str,
        more: &[&str],
        take: impl FnOnce(&mut Parameters) -> Result<T, InstalledError>,
    ) -> Result<T, InstalledError> {
        let arguments = [&["-G", "-n", name, "-i", self.id], more, &["-o", "csv"]].concat();
        let mut parameters = Parameters::of(&CASADM.run(self.runner, &arguments)?)?;
        let taken = take(&mut parameters)?;
        self.other_settings.extend(parameters.left());
        Ok(taken)
    }

    fn promotion(&mut self, policy: &str) -> Result<OpenCasPromotion, InstalledError> {
        match policy {
            "always" => Ok(OpenCasPromotion::Always),
            "nhit" => self.parameters("promotion-nhit", &[], |parameters| {
                Ok(OpenCasPromotion::Nhit {
                    threshold: parameters.number("Insertion threshold")?,
                    trigger_percent: parameters.number("Policy trigger [%]")?,
                })
            }),
            other => Err(STATISTICS.unknown_word("Promotion Policy", other, "always, nhit")),
        }
    }

    fn cleaning(&mut self, policy: &str) -> Result<OpenCasCleaning, InstalledError> {
        match policy {
            "nop" => Ok(OpenCasCleaning::Nop),
            "alru" => self.parameters("cleaning-alru", &[], alru),
            "acp" => self.parameters("cleaning-acp", &[], |parameters| {
                Ok(OpenCasCleaning::Acp {
                    wake_ms: parameters.number("Wake up time [ms]")?,
                    batch: parameters.number_of(BATCH)?,
                })
            }),
            other => Err(STATISTICS.unknown_word("Cleaning Policy", other, "nop, alru, acp")),
        }
    }

    fn cutoff(&mut self, core: u16) -> Result<(SequentialPolicy, u64), InstalledError> {
        self.parameters("seq-cutoff", &["-j", &core.to_string()], |parameters| {
            let part = "Sequential cutoff policy";
            let word = parameters.text(part)?;
            let policy = SequentialPolicy::of(&word)
                .ok_or_else(|| PARAMETERS.unknown_word(part, &word, &SequentialPolicy::known()))?;
            let part = "Sequential cutoff threshold [KiB]";
            let kib = parameters.number(part)?;
            Ok((policy, PARAMETERS.scaled(part, kib, 1024)?))
        })
    }
}

/// The names of the same parameter in several releases.
const BATCH: &[&str] = &["Flush max buffers", "Flush max buffers [blocks]"];
const DIRTY_RATIO: &[&str] =
    &["Dirty ratio trigger threshold [%]", "Dirty ratio trigger threshold"];
const INERTIA: &[&str] = &["Dirty ratio trigger inertia [MiB]", "Dirty ratio trigger inertia"];

fn alru(parameters: &mut Parameters) -> Result<OpenCasCleaning, InstalledError> {
    // Releases without a dirty ratio never clean for it.
    let dirty_ratio = parameters.optional(DIRTY_RATIO)?.unwrap_or(100);
    let inertia_mib = parameters.optional(INERTIA)?.unwrap_or(128);
    Ok(OpenCasCleaning::Alru {
        wake_s: parameters.number("Wake up time [s]")?,
        staleness_s: parameters.number("Stale buffer time [s]")?,
        batch: parameters.number_of(BATCH)?,
        activity_ms: parameters.number("Activity threshold [ms]")?,
        dirty_ratio,
        inertia_bytes: PARAMETERS.scaled("inertia", inertia_mib, 1 << 20)?,
    })
}

/// The parameters of a policy, a name and a value each.
#[derive(Debug)]
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn of(text: &str) -> Result<Self, InstalledError> {
        let mut parameters = vec![];
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let fields = csv::fields(line);
            let [name, value] = fields.as_slice() else {
                let reason = format!("expected a name and a value, found {}", shown(line));
                return Err(PARAMETERS.error("", reason));
            };
            if name != "Parameter name" {
                parameters.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        Ok(Self(parameters))
    }

    fn take(&mut self, names: &[&str]) -> Option<String> {
        let place = self.0.iter().position(|(name, _)| names.contains(&name.as_str()))?;
        Some(self.0.remove(place).1)
    }

    fn text(&mut self, name: &str) -> Result<String, InstalledError> {
        self.take(&[name]).ok_or_else(|| PARAMETERS.error(name, "the parameter is missing"))
    }

    fn number(&mut self, name: &str) -> Result<u64, InstalledError> {
        self.number_of(&[name])
    }

    fn number_of(&mut self, names: &[&str]) -> Result<u64, InstalledError> {
        let part = names.first().copied().unwrap_or_default();
        self.optional(names)?.ok_or_else(|| PARAMETERS.error(part, "the parameter is missing"))
    }

    fn optional(&mut self, names: &[&str]) -> Result<Option<u64>, InstalledError> {
        let part = names.first().copied().unwrap_or_default();
        self.take(names).map(|text| PARAMETERS.number(part, &text)).transpose()
    }

    /// Return the parameters that were not taken.
    fn left(self) -> impl Iterator<Item = Setting> {
        self.0.into_iter().map(|(name, value)| Setting { name, value })
    }
}

/// The one row of statistics, with the names of its columns.
#[derive(Debug)]
struct Row {
    columns: Vec<(String, String)>,
}

impl Row {
    fn of(text: &str) -> Result<Self, InstalledError> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
            return Err(STATISTICS.error("", "expected a line of names and a line of values"));
        };
        let (names, values) = (csv::fields(names), csv::fields(values));
        if names.len() != values.len() {
            let reason = format!("{} names and {} values", names.len(), values.len());
            return Err(STATISTICS.error("", reason));
        }
        Ok(Self { columns: names.into_iter().zip(values).collect() })
    }

    fn text(&self, name: &str) -> Result<&str, InstalledError> {
        self.columns
            .iter()
            .find(|(column, _)| column == name)
            .map(|(_, value)| value.trim())
            .ok_or_else(|| STATISTICS.error(name, "the column is missing"))
    }

    fn size(&self, name: &str, unit: &str, unit_bytes: u64) -> Result<u64, InstalledError> {
        let name = format!("{name} {unit}");
        let count = STATISTICS.number(&name, self.text(&name)?)?;
        STATISTICS.scaled(&name, count, unit_bytes)
    }

    fn mode(&self) -> Result<OpenCasMode, InstalledError> {
        let part = "Write Policy";
        let word = self.text(part)?;
        OpenCasMode::of(word)
            .ok_or_else(|| STATISTICS.unknown_word(part, word, &OpenCasMode::known()))
    }

    fn counters(&self) -> Result<Counters, InstalledError> {
        let count = |name: &str| STATISTICS.number(name, self.text(name)?);
        let requests = |name: &str| count(&format!("{name} [Requests]"));
        let misses = |op: &str| {
            let partial = requests(&format!("{op} partial misses"))?;
            requests(&format!("{op} full misses")).map(|full| partial.saturating_add(full))
        };
        let mut counters = Counters::default();
        let bypassed =
            requests("Pass-Through reads")?.saturating_add(requests("Pass-Through writes")?);
        for (counted, value, meaning) in [
            (
                Counted::ReadHits,
                requests("Read hits")?,
                "reads that were cached as a whole, since the counters were reset",
            ),
            (
                Counted::ReadMisses,
                misses("Read")?,
                "reads that were not cached, or only in part, since the counters were reset",
            ),
            (
                Counted::WriteHits,
                requests("Write hits")?,
                "writes to what was cached as a whole, since the counters were reset",
            ),
            (
                Counted::WriteMisses,
                misses("Write")?,
                "writes to what was not cached, or only in part, since the counters were reset",
            ),
            (
                Counted::Bypassed,
                bypassed,
                "reads and writes that bypassed the cache; no other counter includes them",
            ),
        ] {
            counters.add(counted, value, Unit::Requests, meaning);
        }
        for (counted, name, meaning) in [
            (Counted::Used, "Occupancy", "bytes that are cached now"),
            (Counted::Dirty, "Dirty", "bytes that are newer in the cache than on the cores now"),
            (Counted::FlashReads, "Reads from cache", "bytes read from the cache device"),
            (Counted::FlashWrites, "Writes to cache", "bytes written to the cache device"),
        ] {
            let bytes = self.size(name, "[4KiB Blocks]", BLOCK_BYTES)?;
            counters.add(counted, bytes, Unit::Bytes, meaning);
        }
        Ok(counters)
    }

    /// Return the columns before the counters that have a setting nobody knows.
    fn other_settings(&self) -> Vec<Setting> {
        /// Columns about the cache itself that are read, or that are no settings.
        const KNOWN: [&str; 17] = [
            "Cache Id",
            "Cache Size [4KiB Blocks]",
            "Cache Size [GiB]",
            "Cache Device",
            "Exported Object",
            "Core Devices",
            "Inactive Core Devices",
            "Write Policy",
            "Cleaning Policy",
            "Promotion Policy",
            "Cache line size [KiB]",
            "Metadata Memory Footprint [MiB]",
            "Metadata Memory Footprint [GiB]",
            "Metadata Memory Footprint [KiB]",
            "Dirty for [s]",
            "Dirty for",
            "Status",
        ];
        let settings = self.columns.iter().take_while(|(name, _)| !name.starts_with("Occupancy"));
        settings
            .filter(|(name, _)| !KNOWN.contains(&name.as_str()))
            .map(|(name, value)| Setting::new(name.as_str(), value.as_str()))
            .collect()
    }
}
