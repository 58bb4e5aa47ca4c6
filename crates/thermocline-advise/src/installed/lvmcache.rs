//! dm-cache and dm-writecache, as `lvs` and `dmsetup` show them.
//!
//! The kernel's tables say what runs; lvm says which volume it is, and what it would set the next time
//! the volume is activated.

use serde_json::Value;

use super::device_mapper::{self, Described, Target};
use super::error::{InstalledError, Place, shown};
use super::runner::{Program, Runner};
use super::{Found, InstalledCache, InstalledKind, Volume};
use crate::size::{Units, bytes};

const DMSETUP: Program = Program {
    name: "dmsetup",
    install: "install it with `apt install dmsetup` or `dnf install device-mapper`",
    check: "load the module with `modprobe dm_mod`, and try `dmsetup table` as root",
};

const LVS: Program = Program {
    name: "lvs",
    install: "install it with `apt install lvm2` or `dnf install lvm2`",
    check: "try `lvs` as root",
};

/// The arguments for `lvs`; every release that knows caches has these fields.
const LVS_ARGUMENTS: [&str; 8] = [
    "--reportformat",
    "json",
    "--units",
    "b",
    "--nosuffix",
    "--all",
    "-o",
    "vg_name,lv_name,segtype,chunk_size,cache_mode,cache_policy,cache_settings,\
     kernel_cache_settings",
];

const LVS_PLACE: Place<'_> = Place {
    source: "the output of `lvs --reportformat json`",
    look: "lvs -o+cache_mode,chunksize,cache_policy,cache_settings,kernel_cache_settings",
};

/// Read all caches of the device mapper.
///
/// Without lvm, caches have their device mapper names.
///
/// # Errors
/// If `dmsetup` cannot be run, or what it or `lvs` prints is not understood.
pub fn read(runner: &mut Runner<'_>) -> Result<Found, InstalledError> {
    let table = DMSETUP.run(runner, &["table"])?;
    let status = DMSETUP.run(runner, &["status", "--noflush"])?;
    let mut found = Found::default();
    let volumes = match LVS.run(runner, &LVS_ARGUMENTS) {
        Ok(text) => volumes(&text)?,
        Err(InstalledError::NotInstalled { .. }) => {
            found.notes.push("lvm is not installed, so caches have device mapper names".into());
            vec![]
        }
        Err(error) => return Err(error),
    };
    let statuses = device_mapper::status(&status)?;
    let mut active = vec![];
    for target in device_mapper::table(&table)? {
        let Some(described) = described(&target, &statuses)? else { continue };
        let volume = volumes.iter().find(|volume| volume.device() == target.device);
        active.push(target.device.to_owned());
        found.add(target.device, described, volume);
    }
    for volume in volumes.iter().filter(|volume| !active.contains(&volume.device())) {
        let name = volume.full_name();
        found.notes.push(format!(
            "the cached volume {name} is not active, so the kernel has no counters of it; activate \
             it with `lvchange --activate y {name}`"
        ));
    }
    Ok(found)
}

/// Understand a line of the table with its line of the status; none if it is another kind of target.
fn described(
    target: &Target<'_>,
    statuses: &[Target<'_>],
) -> Result<Option<Described>, InstalledError> {
    let describe = match target.kind {
        "cache" => device_mapper::cache,
        "writecache" => device_mapper::writecache,
        _ => return Ok(None),
    };
    let status = statuses
        .iter()
        .find(|status| status.device == target.device && status.kind == target.kind)
        .ok_or_else(|| {
            let place = Place { source: "`dmsetup status`", look: "dmsetup status --noflush" };
            place.error(target.device, "it has no line for a device of the table")
        })?;
    describe(target, status).map(Some)
}

impl Found {
    fn add(&mut self, device: &str, described: Described, volume: Option<&Reported>) {
        let Described { size_bytes, mut kind, counters, other_settings, notes } = described;
        self.notes.extend(notes);
        if let Some(reported) = volume {
            self.notes.extend(reported.differences(&kind));
            match &mut kind {
                InstalledKind::DmCache { volume, .. }
                | InstalledKind::DmWritecache { volume, .. } => {
                    *volume = Some(reported.volume.clone());
                }
                InstalledKind::Bcache { .. }
                | InstalledKind::OpenCas { .. }
                | InstalledKind::Zfs { .. } => {}
            }
        }
        let name = volume.map_or_else(|| device.to_owned(), Reported::full_name);
        self.caches.push(InstalledCache { name, size_bytes, kind, counters, other_settings });
    }
}

/// A cached volume as lvm reports it.
#[derive(Clone, Debug)]
struct Reported {
    volume: Volume,
    chunk_bytes: Option<u64>,
    mode: String,
    policy: String,
    settings: String,
}

impl Reported {
    fn full_name(&self) -> String {
        format!("{}/{}", self.volume.group, self.volume.name)
    }

    /// Return its name in the device mapper, in which a hyphen of a name is doubled.
    fn device(&self) -> String {
        let doubled = |name: &str| name.replace('-', "--");
        format!("{}-{}", doubled(&self.volume.group), doubled(&self.volume.name))
    }

    /// Say where lvm would set something else than what the kernel runs.
    fn differences(&self, kind: &InstalledKind) -> Vec<String> {
        let InstalledKind::DmCache { settings, .. } = kind else { return vec![] };
        let name = self.full_name();
        let mut notes = vec![];
        let mut compare = |what: &str, lvm: &str, kernel: &str| {
            if !lvm.is_empty() && lvm != kernel {
                notes.push(format!(
                    "{name}: lvm has the {what} {lvm}, the kernel runs {kernel}; `lvchange --refresh \
                     {name}` makes them equal"
                ));
            }
        };
        compare("cache mode", &self.mode, settings.mode.word());
        compare("policy", &self.policy, &settings.policy);
        if let Some(chunk_bytes) = self.chunk_bytes {
            compare("chunk size", &chunk_bytes.to_string(), &settings.block_bytes.to_string());
        }
        for setting in self.settings.split(',').map(str::trim) {
            if let Some(("migration_threshold", value)) = setting.split_once('=') {
                let kernel = settings.migration_threshold_sectors.to_string();
                compare("migration threshold", value, &kernel);
            }
        }
        notes
    }
}

/// Find the cached volumes in a report of `lvs`.
fn volumes(text: &str) -> Result<Vec<Reported>, InstalledError> {
    let report: Value = serde_json::from_str(text)
        .map_err(|error| LVS_PLACE.error("", format!("it is not JSON: {error}")))?;
    let reports = report
        .get("report")
        .and_then(Value::as_array)
        .ok_or_else(|| LVS_PLACE.error("", "it has no list 'report'"))?;
    let mut volumes = vec![];
    for rows in reports.iter().filter_map(|report| report.get("lv")) {
        let rows = rows.as_array().ok_or_else(|| LVS_PLACE.error("", "'lv' is not a list"))?;
        for row in rows {
            if let "cache" | "writecache" = field(row, "segtype")?.as_str() {
                volumes.push(reported(row)?);
            }
        }
    }
    Ok(volumes)
}

fn reported(row: &Value) -> Result<Reported, InstalledError> {
    // lvm puts volumes that only it uses in brackets; their devices have the names without.
    let name = field(row, "lv_name")?.trim_matches(['[', ']']).to_owned();
    let volume = Volume { group: field(row, "vg_name")?, name };
    let chunk = field(row, "chunk_size")?;
    let chunk_bytes = match chunk.as_str() {
        "" | "0" => None,
        text => Some(bytes(text, Units::Lvm).ok_or_else(|| {
            LVS_PLACE.error(&volume.name, format!("expected a chunk size, found {}", shown(text)))
        })?),
    };
    Ok(Reported {
        volume,
        chunk_bytes,
        mode: field(row, "cache_mode")?,
        policy: field(row, "cache_policy")?,
        settings: field(row, "cache_settings")?,
    })
}

/// Read a field, which is text, or a number or a list with the report format `json_std`.
fn field(row: &Value, name: &str) -> Result<String, InstalledError> {
    match row.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(Value::Null) => Ok(String::new()),
        Some(Value::Array(values)) => {
            let texts: Vec<_> = values.iter().filter_map(Value::as_str).collect();
            Ok(texts.join(","))
        }
        Some(Value::Bool(_) | Value::Object(_)) => {
            Err(LVS_PLACE.error(name, "expected text or a number"))
        }
        None => Err(LVS_PLACE.error(name, "the field is missing")),
    }
}
