//! From the command line's words to configurations.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use thermocline_core::registry::{self, Depth, Entry};
use thermocline_core::{Admission, Clients, hotness};
use thermocline_device::hdd::HddConfig;
use thermocline_device::{Catalogue, Device};
use thermocline_lab::{
    Arrivals, Configuration, DeviceModel, Prices, TierConfiguration, TierSize, Timing,
    default_latencies_ms,
};
use thermocline_trace::CompiledTrace;

use crate::arguments::{HierarchyOptions, TimingMode, WriteMiss};
use crate::commands::buffer::find_ssd;
use crate::output;
use crate::parameters::{Given, Owner, split};

/// The cache tiers of a hybrid cache, fastest first, with the device that each has by default.
const HYBRID: [(&str, &str); 2] = [("ram", "memory"), ("flash", "samsung-470")];
/// The cache tiers of a hierarchy of any depth, fastest first. By default the first is memory, and the
/// others take their access time per page.
const LEVELS: [&str; 8] = ["l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8"];
/// The disk's name and its default device.
const DISK: (&str, &str) = ("disk", "st380011a");

/// Every combination of policies and tier sizes, policies last, for so many clients.
pub(crate) fn configurations(
    options: &HierarchyOptions,
    policies: &[&'static Entry],
    clients: Clients,
) -> Result<Vec<Configuration>> {
    let catalogue = catalogue(options.device_file.as_deref())?;
    let tiers = tiers(&options.tiers)?;
    let names: Vec<&str> = tiers.iter().map(|(name, _)| *name).collect();
    let latencies_ms = latencies_ms(options, &names)?;
    let devices = devices(options, &catalogue, &names, &latencies_ms)?;
    let prices = prices(options, &names)?;
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
            policy.check_clients(clients)?;
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
                latencies_ms: latencies_ms.clone(),
                prices: prices.clone(),
                timing: timing.clone(),
                clients,
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

/// Says where a tier is smaller than the one above it, for policies that want it larger.
pub(crate) fn note_shrinking_tiers(
    configurations: &[Configuration],
    trace: &CompiledTrace,
) -> Result<()> {
    let deep = configurations.iter().filter(|one| one.policy.depth == Depth::Tiers);
    let mut noted: Vec<Vec<u32>> = vec![];
    for configuration in deep {
        let pages = configuration.capacity_pages(trace)?;
        let shrinks = pages.windows(2).position(|pair| pair[1] < pair[0]);
        if let Some(tier) = shrinks.filter(|_| !noted.contains(&pages)) {
            let [above, below] = [tier, tier + 1].map(|tier| &configuration.tiers[tier].name);
            output::note(&format!(
                "note: tier `{below}` is smaller than `{above}` above it; these policies expect it larger"
            ));
            noted.push(pages);
        }
    }
    Ok(())
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
    let hybrid = HYBRID.map(|(name, _)| name);
    let mut tiers: Vec<(&'static str, Vec<TierSize>)> = vec![];
    for option in options {
        let (name, sizes) = split(option, "--tier", "ram=64MiB")?;
        let index = tiers.len();
        let is_hybrid = tiers.first().map_or(hybrid.contains(&name), |first| first.0 == hybrid[0]);
        let known: &[&'static str] = if is_hybrid { &hybrid } else { &LEVELS };
        match known.iter().position(|known| *known == name) {
            Some(known) if known == index => {}
            Some(known) if known < index => bail!(
                "--tier {option}: tier `{name}` is given twice or out of order; fastest first: ram, then flash; or l1, l2 and so on"
            ),
            Some(_) => {
                bail!("--tier {option}: `{}` must be given before `{name}`", known[index])
            }
            None => bail!(
                "--tier {option}: no tier is called `{name}` here; there are: ram, flash; or l1 to l{}",
                LEVELS.len()
            ),
        }
        let sizes: Result<Vec<TierSize>> = sizes
            .split(',')
            .map(|size| size.parse().with_context(|| format!("--tier {option}")))
            .collect();
        tiers.push((known[index], sizes?));
    }
    Ok(tiers)
}

/// Where a tier of that name is, the disk last.
fn place(names: &[&str], option: &str, name: &str, flag: &str) -> Result<usize> {
    let all: Vec<&str> = names.iter().copied().chain([DISK.0]).collect();
    all.iter().position(|known| *known == name).with_context(|| {
        format!("{flag} {option}: no tier `{name}`; there are: {}", all.join(", "))
    })
}

/// The access time of each tier, and the disk's last.
fn latencies_ms(options: &HierarchyOptions, names: &[&str]) -> Result<Vec<f64>> {
    let mut latencies_ms = default_latencies_ms(names.len());
    for option in &options.latencies {
        let (name, text) = split(option, "--latency", "l2=2")?;
        let place = place(names, option, name, "--latency")?;
        latencies_ms[place] = number(text).with_context(|| {
            format!("--latency {option}: it takes a number of milliseconds, at least 0")
        })?;
    }
    Ok(latencies_ms)
}

/// The price of each tier per GiB, and the disk's last, if any is given; the others cost nothing.
fn prices(options: &HierarchyOptions, names: &[&str]) -> Result<Option<Prices>> {
    if options.prices.is_empty() {
        return Ok(None);
    }
    let mut prices = vec![0.0; names.len() + 1];
    for option in &options.prices {
        let (name, text) = split(option, "--price", "ram=4.5")?;
        let place = place(names, option, name, "--price")?;
        prices[place] = number(text).with_context(|| {
            format!("--price {option}: it takes a price per GiB, a number of at least 0")
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
    options: &HierarchyOptions,
    catalogue: &Catalogue,
    names: &[&str],
    latencies_ms: &[f64],
) -> Result<Vec<Device>> {
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
    for option in &options.devices {
        let (name, device) = split(option, "--device", "flash=nvme-ssd")?;
        let place = place(names, option, name, "--device")?;
        devices[place] =
            catalogue.find(device).with_context(|| format!("--device {option}"))?.clone();
    }
    for option in &options.costs {
        let (name, costs) = split(option, "--cost", "flash=0.09/0.03")?;
        let place = place(names, option, name, "--cost")?;
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
        models.push(match (models.len(), HddConfig::preset(&device.name)) {
            (0, _) => server(device, None),
            (_, Ok(disk)) if *name == DISK.0 => DeviceModel::Hdd(Box::new(disk)),
            _ => server(device, Some(1)),
        });
    }
    for option in &options.models {
        let (name, model) = split(option, "--model", "disk=st380011a")?;
        let place = place(names, option, name, "--model")?;
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
