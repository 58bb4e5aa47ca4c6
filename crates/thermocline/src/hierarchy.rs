//! From the command line's words to configurations.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_core::registry::{self, Depth, Entry};
use thermocline_core::{Admission, hotness};
use thermocline_device::hdd::HddConfig;
use thermocline_device::{Catalogue, Device};
use thermocline_lab::{Arrivals, Configuration, DeviceModel, TierConfiguration, TierSize, Timing};

use crate::arguments::{HierarchyOptions, TimingMode, WriteMiss};
use crate::commands::buffer::find_ssd;
use crate::output;
use crate::parameters::{Given, Owner, split};

/// The cache tiers that there can be, fastest first, with the device that each has by default.
const TIERS: [(&str, &str); 2] = [("ram", "memory"), ("flash", "samsung-470")];
/// The disk's name and its default device.
const DISK: (&str, &str) = ("disk", "st380011a");

/// Every combination of policies and tier sizes, policies last.
pub(crate) fn configurations(
    options: &HierarchyOptions,
    policies: &[&'static Entry],
) -> Result<Vec<Configuration>> {
    let catalogue = catalogue(options.device_file.as_deref())?;
    let tiers = tiers(&options.tiers)?;
    let names: Vec<&str> = tiers.iter().map(|(name, _)| *name).collect();
    let devices = devices(options, &catalogue, &names)?;
    let identifier = options.admit.as_deref().map(hotness::registry::find).transpose()?;
    let owners = policies.iter().map(|&policy| policy.into());
    let owners: Vec<Owner> = owners.chain(identifier.map(Owner::from)).collect();
    let parameters = Given::parse(&options.parameters, &owners)?;
    let admission = match identifier {
        Some(entry) => Admission::hot(entry, entry.values(&parameters.of(entry.into()))?)?,
        None => Admission::ALL,
    };
    let timing = timing(options, &names, &devices)?;
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
            let tiers = names.iter().zip(sizes).zip(&devices).map(|((name, size), device)| {
                TierConfiguration { name: (*name).into(), size: *size, device: device.clone() }
            });
            configurations.push(Configuration {
                policy,
                values: policy.values(&parameters.of(policy.into()))?,
                tiers: tiers.collect(),
                disk: devices[names.len()].clone(),
                write_miss: options.write_miss.into_core(),
                admission: admission.clone(),
                timing: timing.clone(),
            });
        }
    }
    Ok(configurations)
}

/// Says which policies leave the flash that they are given empty.
pub(crate) fn note_unused_flash(configurations: &[Configuration]) {
    let mut unused: Vec<&str> = configurations
        .iter()
        .filter(|configuration| {
            configuration.policy.depth == Depth::Ram && configuration.tiers.len() > 1
        })
        .map(|configuration| configuration.policy.name)
        .collect();
    unused.dedup();
    for policy in unused {
        output::note(&format!("note: `{policy}` leaves the flash tier empty"));
    }
}

/// The policy of that name, or an error that names those that there are.
pub(crate) fn find_policy(name: &str) -> Result<&'static Entry> {
    registry::find(name).map_err(|error| {
        let known: Vec<&str> = registry::entries().iter().map(|entry| entry.name).collect();
        anyhow::anyhow!("{error}; there are: {}", known.join(", "))
    })
}

/// The presets and the devices of a file.
pub(crate) fn catalogue(file: Option<&Path>) -> Result<Catalogue> {
    let mut catalogue = Catalogue::default();
    if let Some(path) = file {
        let context = || format!("in `{}`", path.display());
        let text = std::fs::read_to_string(path).with_context(context)?;
        catalogue.add_toml(&text).with_context(context)?;
    }
    Ok(catalogue)
}

impl WriteMiss {
    fn into_core(self) -> thermocline_core::WriteMiss {
        match self {
            Self::Fetch => thermocline_core::WriteMiss::Fetch,
            Self::Allocate => thermocline_core::WriteMiss::Allocate,
        }
    }
}

/// The tiers with the sizes that each is to have.
fn tiers(options: &[String]) -> Result<Vec<(&'static str, Vec<TierSize>)>> {
    let mut tiers: Vec<(&'static str, Vec<TierSize>)> = vec![];
    for option in options {
        let (name, sizes) = split(option, "--tier", "ram=64MiB")?;
        let index = tiers.len();
        match TIERS.iter().position(|(known, _)| *known == name) {
            Some(known) if known == index => {}
            Some(known) if known < index => {
                bail!(
                    "--tier {option}: tier `{name}` is given twice or out of order; fastest first: ram, then flash"
                )
            }
            Some(_) => bail!("--tier {option}: `ram` must be given before `flash`"),
            None => bail!("--tier {option}: no tier is called `{name}`; there are: ram, flash"),
        }
        let sizes: Result<Vec<TierSize>> = sizes
            .split(',')
            .map(|size| size.parse().with_context(|| format!("--tier {option}")))
            .collect();
        tiers.push((TIERS[index].0, sizes?));
    }
    Ok(tiers)
}

/// The device of each cache tier, and the disk's last.
fn devices(
    options: &HierarchyOptions,
    catalogue: &Catalogue,
    names: &[&str],
) -> Result<Vec<Device>> {
    let all: Vec<(&str, &str)> = TIERS[..names.len()].iter().copied().chain([DISK]).collect();
    let place = |option: &str, name: &str, flag: &str| {
        let known: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        all.iter().position(|(known, _)| *known == name).with_context(|| {
            format!("{flag} {option}: no tier `{name}`; there are: {}", known.join(", "))
        })
    };
    let mut devices = vec![];
    for (_, device) in &all {
        devices.push(catalogue.find(device)?.clone());
    }
    for option in &options.devices {
        let (name, device) = split(option, "--device", "flash=nvme-ssd")?;
        let place = place(option, name, "--device")?;
        devices[place] =
            catalogue.find(device).with_context(|| format!("--device {option}"))?.clone();
    }
    for option in &options.costs {
        let (name, costs) = split(option, "--cost", "flash=0.09/0.03")?;
        let place = place(option, name, "--cost")?;
        devices[place] = Device::custom(name, costs).with_context(|| format!("--cost {option}"))?;
    }
    Ok(devices)
}

/// The queues of the devices, if time is to be simulated.
fn timing(
    options: &HierarchyOptions,
    names: &[&str],
    devices: &[Device],
) -> Result<Option<Timing>> {
    if options.timing == TimingMode::Cost {
        ensure!(
            options.models.is_empty() && options.closed_loop.is_none(),
            "--model and --closed-loop belong to --timing events"
        );
        return Ok(None);
    }
    let all: Vec<&str> = names.iter().copied().chain([DISK.0]).collect();
    let mut models = vec![];
    for (name, device) in all.iter().zip(devices) {
        models.push(match (*name, HddConfig::preset(&device.name)) {
            (name, _) if name == TIERS[0].0 => server(device, None),
            (name, Ok(disk)) if name == DISK.0 => DeviceModel::Hdd(Box::new(disk)),
            _ => server(device, Some(1)),
        });
    }
    for option in &options.models {
        let (name, model) = split(option, "--model", "disk=st380011a")?;
        let place = all.iter().position(|known| *known == name).with_context(|| {
            format!("--model {option}: no tier `{name}`; there are: {}", all.join(", "))
        })?;
        models[place] =
            self::model(&devices[place], model).with_context(|| format!("--model {option}"))?;
    }
    let arrivals =
        options.closed_loop.map_or(Arrivals::Trace, |requests| Arrivals::Closed { requests });
    Ok(Some(Timing { arrivals, devices: models }))
}

/// `server`, `server:8`, or a disk's name.
fn model(device: &Device, text: &str) -> Result<DeviceModel> {
    match text.split_once(':').unwrap_or((text, "1")) {
        ("server", servers) => {
            let servers = servers.parse().ok().filter(|servers| *servers > 0);
            let servers =
                servers.context("a server takes a number of at least 1, as in server:8")?;
            Ok(server(device, Some(servers)))
        }
        _ => {
            if let Ok(disk) = HddConfig::preset(text) {
                return Ok(DeviceModel::Hdd(Box::new(disk)));
            }
            let disks = HddConfig::presets().into_iter().map(|disk| disk.name);
            let ssd = find_ssd(text).with_context(|| {
                let disks: Vec<String> = disks.collect();
                format!("it takes `server`, `server:N`, a disk ({}) or an SSD", disks.join(", "))
            })?;
            Ok(DeviceModel::Ssd(Box::new(ssd)))
        }
    }
}

fn server(device: &Device, servers: Option<u32>) -> DeviceModel {
    DeviceModel::Server { device: device.clone(), servers }
}

/// Says which policies run on the tiers given, if this one does not.
fn check_depth(policy: &Entry, names: &[&str]) -> Result<()> {
    if policy.depth.allows(names.len()) {
        return Ok(());
    }
    let suited: Vec<&str> = registry::entries()
        .iter()
        .filter(|entry| entry.depth.allows(names.len()))
        .map(|entry| entry.name)
        .collect();
    bail!(
        "`{}` runs on {}, but the tiers given are: {}; on these run: {}",
        policy.name,
        policy.depth.describe(),
        names.join(", "),
        suited.join(", ")
    )
}
