//! From words to configurations: a hierarchy as users write it.

use std::path::{Path, PathBuf};

use thermocline_core::registry::{self, Entry};
use thermocline_core::{Admission, Clients, WriteMiss, hotness};
use thermocline_device::hdd::HddConfig;
use thermocline_device::ssd::{SsdConfig, ssd_presets};
use thermocline_device::{Catalogue, Device};

use crate::parameters::{Given, Owner, split};
use crate::{
    Arrivals, Configuration, DeviceModel, LabError, Prices, TierConfiguration, TierSize, Timing,
    Watch, default_latencies_ms,
};

/// The cache tiers of a hybrid cache, fastest first, with the device that each has by default.
const HYBRID: [(&str, &str); 2] = [("ram", "memory"), ("flash", "samsung-470")];
/// The cache tiers of a hierarchy of any depth, fastest first. By default the first is memory, and the
/// others take their access time per page.
const LEVELS: [&str; 8] = ["l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8"];
/// The disk's name and its default device.
const DISK: (&str, &str) = ("disk", "st380011a");

/// A hierarchy in words, as the command line's options and a sweep's keys give them.
#[derive(Clone, Debug, Default)]
pub struct HierarchyWords {
    /// The cache tiers, fastest first, each as `ram=64MiB,5%`: a name and the sizes that it is to have.
    pub tiers: Vec<String>,
    /// Devices of tiers, as `flash=nvme-ssd`.
    pub devices: Vec<String>,
    /// Costs of tiers per page, as `flash=0.09/0.03`.
    pub costs: Vec<String>,
    /// Access times of tiers in milliseconds, as `l2=2`.
    pub latencies: Vec<String>,
    /// Prices of tiers per GiB, as `ram=4.5`.
    pub prices: Vec<String>,
    /// A TOML file of more devices.
    pub device_file: Option<PathBuf>,
    /// Parameters, as `name=value` or `policy.name=value`.
    pub parameters: Vec<String>,
    /// What a write miss does.
    pub write_miss: WriteMiss,
    /// The identifier that decides which pages enter flash, if one does.
    pub admit: Option<String>,
    /// Whether time is simulated, and how.
    pub timing: TimingWords,
    /// Who looks on while they run.
    pub watch: Watch,
}

/// How time is counted, in words.
#[derive(Clone, Debug, Default)]
pub struct TimingWords {
    /// Whether devices queue, instead of a constant cost per page transfer.
    pub is_events: bool,
    /// Requests kept outstanding instead of the trace's times, at least 1.
    pub closed_loop: Option<u32>,
    /// Models of tiers that queue, as `disk=st380011a` or `flash=server:8`.
    pub models: Vec<String>,
}

/// Every combination of policies and tier sizes, policies last, for so many clients.
///
/// # Errors
/// [`LabError::BadOption`] that names the word and what would be right, or a parameter that cannot be.
pub fn configurations(
    words: &HierarchyWords,
    policies: &[&'static Entry],
    clients: Clients,
) -> Result<Vec<Configuration>, LabError> {
    let catalogue = catalogue(words.device_file.as_deref())?;
    let tiers = tiers(&words.tiers)?;
    let names: Vec<&str> = tiers.iter().map(|(name, _)| *name).collect();
    let latencies_ms = latencies_ms(words, &names)?;
    let devices = devices(words, &catalogue, &names, &latencies_ms)?;
    let prices = prices(words, &names)?;
    let identifier = words.admit.as_deref().map(hotness::registry::find).transpose()?;
    let owners = policies.iter().map(|&policy| policy.into());
    let owners: Vec<Owner> = owners.chain(identifier.map(Owner::from)).collect();
    let parameters = Given::parse(&words.parameters, &owners)?;
    let admission = match identifier {
        Some(entry) => Admission::hot(entry, entry.values(&parameters.of(entry.into()))?)?,
        None => Admission::ALL,
    };
    let timing = timing(&words.timing, &names, &devices)?;
    let mut sizes: Vec<Vec<TierSize>> = vec![vec![]];
    for (_, choices) in &tiers {
        let extend = |so_far: &Vec<TierSize>| {
            let so_far = so_far.clone();
            choices.iter().map(move |size| [so_far.as_slice(), &[*size]].concat())
        };
        sizes = sizes.iter().flat_map(extend).collect();
    }
    let mut configurations = vec![];
    for sizes in &sizes {
        for &policy in policies {
            check_depth(policy, &names)?;
            policy.check_clients(clients)?;
            let tiers = names.iter().zip(sizes).zip(&devices).map(|((name, size), device)| {
                TierConfiguration { name: (*name).into(), size: *size, device: device.clone() }
            });
            configurations.push(Configuration {
                policy,
                values: policy.values(&parameters.of(policy.into()))?,
                tiers: tiers.collect(),
                disk: devices[names.len()].clone(),
                write_miss: words.write_miss,
                admission: admission.clone(),
                latencies_ms: latencies_ms.clone(),
                prices: prices.clone(),
                timing: timing.clone(),
                clients,
                watch: words.watch.clone(),
            });
        }
    }
    Ok(configurations)
}

/// The policy of that name.
///
/// # Errors
/// [`LabError::UnknownPolicy`], which names those that there are.
pub fn find_policy(name: &str) -> Result<&'static Entry, LabError> {
    registry::find(name).map_err(|_| {
        let known: Vec<&str> = registry::entries().iter().map(|entry| entry.name).collect();
        LabError::UnknownPolicy { name: name.into(), known: known.join(", ") }
    })
}

/// The presets and the devices of a file.
///
/// # Errors
/// [`LabError::File`] if the file cannot be read, or is not as expected.
pub fn catalogue(file: Option<&Path>) -> Result<Catalogue, LabError> {
    let mut catalogue = Catalogue::default();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(|error| LabError::file(path, error))?;
        catalogue.add_toml(&text).map_err(|error| LabError::file(path, error))?;
    }
    Ok(catalogue)
}

/// The drive of a name, or of a TOML file.
///
/// # Errors
/// [`LabError::UnknownDrive`], which names those that there are, or [`LabError::File`].
pub fn find_ssd(text: &str) -> Result<SsdConfig, LabError> {
    let path = Path::new(text);
    if path.extension().is_some_and(|extension| extension == "toml") {
        let file = std::fs::read_to_string(path).map_err(|error| LabError::file(path, error))?;
        let config = SsdConfig::from_toml(&file).map_err(|error| LabError::file(path, error))?;
        config.validate().map_err(|error| LabError::file(path, error))?;
        return Ok(config);
    }
    SsdConfig::preset(text).map_err(|_| {
        let known: Vec<String> = ssd_presets().into_iter().map(|preset| preset.name).collect();
        LabError::UnknownDrive { name: text.into(), known: known.join(", ") }
    })
}

/// The tiers with the sizes that each is to have.
fn tiers(options: &[String]) -> Result<Vec<(&'static str, Vec<TierSize>)>, LabError> {
    let hybrid = HYBRID.map(|(name, _)| name);
    let mut tiers: Vec<(&'static str, Vec<TierSize>)> = vec![];
    for option in options {
        let bad = |reason: String| Err(LabError::bad_option("--tier", option, reason));
        let (name, sizes) = split(option, "--tier", "ram=64MiB")?;
        let index = tiers.len();
        let is_hybrid = tiers.first().map_or(hybrid.contains(&name), |first| first.0 == hybrid[0]);
        let known: &[&'static str] = if is_hybrid { &hybrid } else { &LEVELS };
        match known.iter().position(|known| *known == name) {
            Some(known) if known == index => {}
            Some(known) if known < index => {
                return bad(format!(
                    "tier `{name}` is given twice or out of order; fastest first: ram, then flash; or l1, l2 and so on"
                ));
            }
            Some(_) => return bad(format!("`{}` must be given before `{name}`", known[index])),
            None => {
                return bad(format!(
                    "no tier is called `{name}` here; there are: ram, flash; or l1 to l{}",
                    LEVELS.len()
                ));
            }
        }
        let sizes: Result<Vec<TierSize>, LabError> = sizes
            .split(',')
            .map(|size| {
                let bad =
                    |error: LabError| LabError::bad_option("--tier", option, error.to_string());
                size.parse().map_err(bad)
            })
            .collect();
        tiers.push((known[index], sizes?));
    }
    Ok(tiers)
}

/// Where a tier of that name is, the disk last.
fn place(names: &[&str], option: &str, name: &str, flag: &str) -> Result<usize, LabError> {
    let all: Vec<&str> = names.iter().copied().chain([DISK.0]).collect();
    all.iter().position(|known| *known == name).ok_or_else(|| {
        let reason = format!("no tier `{name}`; there are: {}", all.join(", "));
        LabError::bad_option(flag, option, reason)
    })
}

/// The access time of each tier, and the disk's last.
fn latencies_ms(words: &HierarchyWords, names: &[&str]) -> Result<Vec<f64>, LabError> {
    let mut latencies_ms = default_latencies_ms(names.len());
    for option in &words.latencies {
        let (name, text) = split(option, "--latency", "l2=2")?;
        let place = place(names, option, name, "--latency")?;
        latencies_ms[place] = number(text).ok_or_else(|| {
            let reason = "it takes a number of milliseconds, at least 0";
            LabError::bad_option("--latency", option, reason.into())
        })?;
    }
    Ok(latencies_ms)
}

/// The price of each tier per GiB, and the disk's last, if any is given; the others cost nothing.
fn prices(words: &HierarchyWords, names: &[&str]) -> Result<Option<Prices>, LabError> {
    if words.prices.is_empty() {
        return Ok(None);
    }
    let mut prices = vec![0.0; names.len() + 1];
    for option in &words.prices {
        let (name, text) = split(option, "--price", "ram=4.5")?;
        let place = place(names, option, name, "--price")?;
        prices[place] = number(text).ok_or_else(|| {
            let reason = "it takes a price per GiB, a number of at least 0";
            LabError::bad_option("--price", option, reason.into())
        })?;
    }
    Ok(Some(Prices::new(prices)?))
}

/// A number of at least 0.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// The device of each cache tier, and the disk's last.
fn devices(
    words: &HierarchyWords,
    catalogue: &Catalogue,
    names: &[&str],
    latencies_ms: &[f64],
) -> Result<Vec<Device>, LabError> {
    let mut devices = vec![];
    for ((index, name), latency_ms) in names.iter().enumerate().zip(latencies_ms) {
        let hybrid = HYBRID.iter().find(|(known, _)| known == name);
        devices.push(match hybrid {
            Some((_, device)) => catalogue.find(device)?.clone(),
            None if index == 0 => catalogue.find(HYBRID[0].1)?.clone(),
            None => Device {
                name: (*name).into(),
                summary: "its access time, per page".into(),
                read_ms: *latency_ms,
                write_ms: *latency_ms,
                source: String::new(),
            },
        });
    }
    devices.push(catalogue.find(DISK.1)?.clone());
    for option in &words.devices {
        let (name, device) = split(option, "--device", "flash=nvme-ssd")?;
        let place = place(names, option, name, "--device")?;
        let bad = |error| LabError::bad_option("--device", option, format!("{error}"));
        devices[place] = catalogue.find(device).map_err(bad)?.clone();
    }
    for option in &words.costs {
        let (name, costs) = split(option, "--cost", "flash=0.09/0.03")?;
        let place = place(names, option, name, "--cost")?;
        let bad = |error| LabError::bad_option("--cost", option, format!("{error}"));
        devices[place] = Device::custom(name, costs).map_err(bad)?;
    }
    Ok(devices)
}

/// The queues of the devices, if time is to be simulated.
fn timing(
    words: &TimingWords,
    names: &[&str],
    devices: &[Device],
) -> Result<Option<Timing>, LabError> {
    if !words.is_events {
        if words.models.is_empty() && words.closed_loop.is_none() {
            return Ok(None);
        }
        return Err(LabError::EventsOnly);
    }
    let all: Vec<&str> = names.iter().copied().chain([DISK.0]).collect();
    let mut models = vec![];
    for (name, device) in all.iter().zip(devices) {
        models.push(match (models.len(), HddConfig::preset(&device.name)) {
            (0, _) => server(device, None),
            (_, Ok(disk)) if *name == DISK.0 => DeviceModel::Hdd(Box::new(disk)),
            _ => server(device, Some(1)),
        });
    }
    for option in &words.models {
        let (name, model) = split(option, "--model", "disk=st380011a")?;
        let place = place(names, option, name, "--model")?;
        let bad = |reason| LabError::bad_option("--model", option, reason);
        models[place] = self::model(&devices[place], model).map_err(bad)?;
    }
    let arrivals =
        words.closed_loop.map_or(Arrivals::Trace, |requests| Arrivals::Closed { requests });
    Ok(Some(Timing { arrivals, devices: models }))
}

/// `server`, `server:8`, a disk's or an SSD's name, or what is wrong.
fn model(device: &Device, text: &str) -> Result<DeviceModel, String> {
    if let ("server", servers) = text.split_once(':').unwrap_or((text, "1")) {
        let servers = servers.parse().ok().filter(|servers| *servers > 0);
        let servers = servers.ok_or("a server takes a number of at least 1, as in server:8")?;
        return Ok(server(device, Some(servers)));
    }
    if let Ok(disk) = HddConfig::preset(text) {
        return Ok(DeviceModel::Hdd(Box::new(disk)));
    }
    let ssd = find_ssd(text).map_err(|error| {
        let disks: Vec<String> = HddConfig::presets().into_iter().map(|disk| disk.name).collect();
        let disks = disks.join(", ");
        format!("it takes `server`, `server:N`, a disk ({disks}) or an SSD: {error}")
    })?;
    Ok(DeviceModel::Ssd(Box::new(ssd)))
}

fn server(device: &Device, servers: Option<u32>) -> DeviceModel {
    DeviceModel::Server { device: device.clone(), servers }
}

/// Says which policies run on the tiers given, if this one does not.
fn check_depth(policy: &Entry, names: &[&str]) -> Result<(), LabError> {
    if policy.depth.allows(names.len()) {
        return Ok(());
    }
    let suited = registry::entries().iter().filter(|entry| entry.depth.allows(names.len()));
    let suited: Vec<&str> = suited.map(|entry| entry.name).collect();
    Err(LabError::WrongTiers {
        policy: policy.name.into(),
        wanted: policy.depth.describe(),
        given: names.join(", "),
        suited: suited.join(", "),
    })
}
