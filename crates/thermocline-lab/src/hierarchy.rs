//! Expansion of a specification to configurations.

use std::path::Path;

use thermocline_core::hotness::registry::IdentifierEntry;
use thermocline_core::names::there_are;
use thermocline_core::registry::{self, PolicyEntry};
use thermocline_core::{Admission, Clients, hotness};
use thermocline_device::hdd::HddConfig;
use thermocline_device::ssd::SsdConfig;
use thermocline_device::{Catalogue, Device};
use thermocline_trace::text_file;

use crate::parameters::{Owner, Parameters};
use crate::placing::Chosen;
use crate::spec::Step::{self, At, Key};
use crate::spec::{
    DISK, DeviceSpec, DriveSpec, HierarchySpec, ModelSpec, Selection, TierSpec, TimingMode, text,
};
use crate::{
    Arrivals, Configuration, DeviceModel, LabError, Prices, TierConfiguration, TierSize, Timing,
    default_latencies_ms,
};

/// The cache tiers of a hybrid cache, fastest first, with the device that each has by default.
const HYBRID: [(&str, &str); 2] = [("ram", "memory"), ("flash", "samsung-470")];
/// The cache tiers of a hierarchy of any depth, fastest first. By default the first is memory, and the
/// others take their access time per page.
const LEVELS: [&str; 8] = ["l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8"];
/// The disk's default device.
const DISK_DEVICE: &str = "st380011a";

/// Checked tiers of a [`HierarchySpec`].
#[derive(Clone, Debug)]
struct Tiers {
    /// Names of the cache tiers.
    names: Vec<&'static str>,
    /// Device of each tier, the disk last.
    devices: Vec<Device>,
    /// Latency of each tier, the disk last.
    latencies_ms: Vec<f64>,
    prices: Option<Prices>,
    timing: Option<Timing>,
}

/// Return every combination of policies and tier sizes, policies last, for `clients` clients.
///
/// # Errors
/// [`LabError::Spec`] with the part of the specification that cannot be and what would be right, or
/// a policy that does not run on these tiers, with these clients or with these parameters together.
pub fn configurations(
    spec: &HierarchySpec,
    policies: &[PolicyEntry],
    clients: Clients,
) -> Result<Vec<Configuration>, LabError> {
    let Tiers { names, devices, latencies_ms, prices, timing } = Tiers::new(spec)?;
    let owners = policies.iter().map(Owner::from);
    let identifiers = spec.identifiers()?;
    let owners: Vec<Owner<'_>> = owners.chain(identifiers.into_iter().map(Owner::from)).collect();
    let parameters = Parameters::new(&spec.parameters, &owners)?;
    let streams = spec.chooser()?.map(|chosen| chosen.streams(&parameters)).transpose()?;
    let timing = timing.map(|timing| timing.with_streams(streams.as_ref()));
    let admission = match spec.admission()? {
        Some(entry) => Admission::hot(entry, parameters.values(entry.into())?)?,
        None => Admission::ALL,
    };
    let mut configurations = vec![];
    for sizes in sizes(&spec.tiers) {
        for policy in policies {
            check_depth(policy, &names)?;
            policy.check_clients(clients)?;
            let tiers = names.iter().zip(&sizes).zip(&devices).map(|((name, size), device)| {
                TierConfiguration { name: (*name).into(), size: *size, device: device.clone() }
            });
            configurations.push(Configuration {
                policy: policy.clone(),
                values: parameters.values(policy.into())?,
                tiers: tiers.collect(),
                disk: devices[names.len()].clone(),
                write_miss: spec.write_miss,
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

/// Return the policy of that name.
///
/// # Errors
/// [`LabError::UnknownPolicy`], which names those that there are.
pub fn find_policy(name: &str) -> Result<&'static PolicyEntry, LabError> {
    registry::find(name).map_err(|_| {
        let known = there_are(name, registry::entries().map(|entry| &*entry.name));
        LabError::UnknownPolicy { name: name.into(), known }
    })
}

/// Return the policies of a selection, by name among the registered ones and those of the caller;
/// all are the registered ones that suit.
///
/// # Errors
/// If a policy is unknown, or one of the caller's has the name of a registered one.
pub(crate) fn choose(
    selection: &Selection,
    suits: impl Fn(&PolicyEntry) -> bool,
    own: &[PolicyEntry],
) -> Result<Vec<PolicyEntry>, LabError> {
    let find = |name: &str| find_among(own, name);
    selection.resolve(|| registry::entries().filter(|entry| suits(entry)).cloned().collect(), find)
}

/// Find a policy by name among the caller's own and the registered ones.
///
/// # Errors
/// If a policy is unknown, or one of the caller's has the name of a registered one.
pub(crate) fn find_among(own: &[PolicyEntry], name: &str) -> Result<PolicyEntry, LabError> {
    if let Some(taken) = own.iter().find(|entry| registry::find(&entry.name).is_ok()) {
        return Err(LabError::NameTaken { name: taken.name.to_string() });
    }
    match own.iter().find(|entry| entry.name == name) {
        Some(entry) => Ok(entry.clone()),
        None => find_policy(name).cloned(),
    }
}

/// Return the presets and the devices of a file.
///
/// # Errors
/// [`LabError::File`] if the file cannot be read, or is not as expected.
pub fn catalogue(file: Option<&Path>) -> Result<Catalogue, LabError> {
    let mut catalogue = Catalogue::default();
    if let Some(path) = file {
        let text = text_file::read(path).map_err(|error| LabError::file(path, error))?;
        catalogue.add_toml(&text).map_err(|error| LabError::file(path, error))?;
    }
    Ok(catalogue)
}

/// Return the configuration of a drive.
///
/// # Errors
/// [`LabError::UnknownDrive`], which names those that there are, or [`LabError::File`].
pub fn find_ssd(drive: &DriveSpec) -> Result<SsdConfig, LabError> {
    match drive {
        DriveSpec::File(path) => {
            let file = text_file::read(path).map_err(|error| LabError::file(path, error))?;
            let config =
                SsdConfig::from_toml(&file).map_err(|error| LabError::file(path, error))?;
            config.validate().map_err(|error| LabError::file(path, error))?;
            Ok(config)
        }
        DriveSpec::Named(name) => SsdConfig::preset(name).map_err(|_| {
            let presets = SsdConfig::presets().iter();
            let known = there_are(name, presets.map(|preset| preset.name.as_str()));
            LabError::UnknownDrive { name: name.clone(), known }
        }),
    }
}

impl HierarchySpec {
    /// Check all that does not depend on a policy or a trace.
    ///
    /// # Errors
    /// [`LabError::Spec`] with the part that cannot be, or [`LabError::File`] for the file of devices.
    pub fn check(&self) -> Result<(), LabError> {
        Tiers::new(self)?;
        self.identifiers()?;
        Ok(())
    }

    /// Return the policies of a selection, among them `own` ones of the caller. All are the
    /// registered ones that run on these tiers with that number of clients.
    ///
    /// # Errors
    /// If a name is unknown, or an own policy has the name of a registered one.
    pub fn policies(
        &self,
        selection: &Selection,
        clients: Clients,
        own: &[PolicyEntry],
    ) -> Result<Vec<PolicyEntry>, LabError> {
        let suits = |entry: &PolicyEntry| {
            entry.capabilities.depth.allows(self.tiers.len())
                && entry.check_clients(clients).is_ok()
        };
        choose(selection, suits, own)
    }

    /// Return the identifiers that take part: that which decides what enters flash, and that which
    /// chooses placement handles.
    pub(crate) fn identifiers(&self) -> Result<Vec<&'static IdentifierEntry>, LabError> {
        let chooser = self.chooser()?.and_then(|chosen| chosen.identifier());
        Ok(self.admission()?.into_iter().chain(chooser).collect())
    }

    /// Return the identifier that decides what enters flash.
    fn admission(&self) -> Result<Option<&'static IdentifierEntry>, LabError> {
        let found = self.admit.as_deref().map(hotness::registry::find).transpose();
        found.map_err(|error| LabError::at(&[Key("admit")], error))
    }

    /// Return the chooser of placement handles.
    fn chooser(&self) -> Result<Option<Chosen>, LabError> {
        let Some(name) = &self.streams else { return Ok(None) };
        Chosen::find(name).map_err(|error| LabError::at(&[Key("streams")], error))
    }

    /// Return the specification of each device with its path, the disk's last.
    fn devices(&self) -> impl Iterator<Item = (&DeviceSpec, Vec<Step>)> {
        let caches = self.tiers.iter().enumerate();
        caches
            .map(|(place, tier)| (&tier.device, vec![Key("tiers"), At(place), Key("device")]))
            .chain([(&self.disk, vec![Key(DISK)])])
    }
}

impl Tiers {
    fn new(spec: &HierarchySpec) -> Result<Self, LabError> {
        let catalogue = catalogue(spec.device_file.as_deref())?;
        let names = names(&spec.tiers)?;
        let latencies_ms = latencies_ms(spec)?;
        let devices = devices(spec, &catalogue, &names, &latencies_ms)?;
        let (prices, timing) = (prices(spec)?, timing(spec, &devices)?);
        Ok(Self { names, devices, latencies_ms, prices, timing })
    }
}

/// Return the names of the cache tiers, which must be in their order.
fn names(tiers: &[TierSpec]) -> Result<Vec<&'static str>, LabError> {
    let hybrid = HYBRID.map(|(name, _)| name);
    let mut names: Vec<&'static str> = vec![];
    for (index, tier) in tiers.iter().enumerate() {
        let name = tier.name.as_str();
        let bad =
            |reason: String| Err(LabError::at(&[Key("tiers"), At(index), Key("name")], reason));
        let is_hybrid = names.first().map_or(hybrid.contains(&name), |first| *first == hybrid[0]);
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
                    "unknown tier `{name}`; there are: ram, flash; or l1 to l{}",
                    LEVELS.len()
                ));
            }
        }
        if tier.sizes.is_empty() {
            let path = [Key("tiers"), At(index), Key("sizes")];
            return Err(LabError::at(&path, "expected at least one size"));
        }
        names.push(known[index]);
    }
    Ok(names)
}

/// Return every combination of one size of each tier, the last tier's changing fastest.
fn sizes(tiers: &[TierSpec]) -> Vec<Vec<TierSize>> {
    let mut sizes: Vec<Vec<TierSize>> = vec![vec![]];
    for tier in tiers {
        let extend = |so_far: &Vec<TierSize>| {
            let so_far = so_far.clone();
            tier.sizes.iter().map(move |size| [so_far.as_slice(), &[*size]].concat())
        };
        sizes = sizes.iter().flat_map(extend).collect();
    }
    sizes
}

/// Return the access time of each tier, and the disk's last.
fn latencies_ms(spec: &HierarchySpec) -> Result<Vec<f64>, LabError> {
    let mut latencies_ms = default_latencies_ms(spec.tiers.len());
    for (latency_ms, (device, path)) in latencies_ms.iter_mut().zip(spec.devices()) {
        if let Some(given) = device.latency_ms {
            *latency_ms = at_least_zero(given, &path, "latency_ms", text::LATENCY)?;
        }
    }
    Ok(latencies_ms)
}

/// Return the price of each tier per GiB, and the disk's last, if any is given; the others cost
/// nothing.
fn prices(spec: &HierarchySpec) -> Result<Option<Prices>, LabError> {
    if spec.devices().all(|(device, _)| device.price.is_none()) {
        return Ok(None);
    }
    let price = |(device, path): (&DeviceSpec, Vec<Step>)| {
        at_least_zero(device.price.unwrap_or(0.0), &path, "price", text::PRICE)
    };
    let prices: Result<Vec<f64>, LabError> = spec.devices().map(price).collect();
    Ok(Some(Prices::new(prices?)?))
}

fn at_least_zero(
    number: f64,
    path: &[Step],
    key: &'static str,
    expected: &str,
) -> Result<f64, LabError> {
    if number.is_finite() && number >= 0.0 {
        return Ok(number);
    }
    Err(LabError::at(&[path, &[Key(key)]].concat(), expected))
}

/// Return the device of each cache tier, and the disk's last.
fn devices(
    spec: &HierarchySpec,
    catalogue: &Catalogue,
    names: &[&str],
    latencies_ms: &[f64],
) -> Result<Vec<Device>, LabError> {
    let mut devices = vec![];
    let names = names.iter().copied().chain([DISK]);
    for ((given, path), (name, latency_ms)) in spec.devices().zip(names.zip(latencies_ms)) {
        let bad = |key, error| LabError::at(&[path.as_slice(), &[Key(key)]].concat(), error);
        let device = match &given.name {
            Some(device) => catalogue.find(device).map_err(|error| bad("name", error))?.clone(),
            None => default_device(catalogue, name, devices.len(), *latency_ms)?,
        };
        devices.push(match given.cost {
            Some(cost) => Device::custom(name, cost).map_err(|error| bad("cost", error))?,
            None => device,
        });
    }
    Ok(devices)
}

/// Return the device that a tier has if none is given; `place` counts from the fastest tier, from
/// 0.
fn default_device(
    catalogue: &Catalogue,
    name: &str,
    place: usize,
    latency_ms: f64,
) -> Result<Device, LabError> {
    let known = match HYBRID.iter().find(|(known, _)| *known == name) {
        Some((_, device)) => Some(*device),
        None if name == DISK => Some(DISK_DEVICE),
        None => (place == 0).then_some(HYBRID[0].1),
    };
    Ok(match known {
        Some(device) => catalogue.find(device)?.clone(),
        None => Device {
            name: name.into(),
            summary: "its access time, per page".into(),
            read_ms: latency_ms,
            write_ms: latency_ms,
            source: String::new(),
        },
    })
}

/// Return the queues of the devices, if time is to be simulated.
fn timing(spec: &HierarchySpec, devices: &[Device]) -> Result<Option<Timing>, LabError> {
    let closed_loop = [Key("timing"), Key("closed_loop")];
    let model = |path: &[Step]| [path, &[Key("model")]].concat();
    if spec.timing.mode == TimingMode::Cost {
        let unused = spec.devices().find(|(device, _)| device.model.is_some());
        let unused = unused.map(|(_, path)| model(&path));
        let unused = unused
            .or(spec.timing.closed_loop.map(|_| closed_loop.to_vec()))
            .or(spec.placement.map(|_| vec![Key("placement")]))
            .or(spec.streams.as_ref().map(|_| vec![Key("streams")]));
        return match unused {
            Some(path) => Err(LabError::at(&path, "it belongs to the timing `events`")),
            None => Ok(None),
        };
    }
    if spec.timing.closed_loop == Some(0) {
        return Err(LabError::at(&closed_loop, "expected at least 1 request"));
    }
    let disk = devices.len() - 1;
    let mut models = vec![];
    for (place, ((given, path), device)) in spec.devices().zip(devices).enumerate() {
        models.push(match (&given.model, HddConfig::preset(&device.name)) {
            (Some(given), _) => {
                self::model(device, given).map_err(|reason| LabError::at(&model(&path), reason))?
            }
            (None, _) if place == 0 => server(device, None),
            (None, Ok(preset)) if place == disk => DeviceModel::Hdd(Box::new(preset)),
            (None, _) => server(device, Some(1)),
        });
    }
    place(spec, &mut models[..disk])?;
    let requests = spec.timing.closed_loop;
    let arrivals = requests.map_or(Arrivals::Trace, |requests| Arrivals::Closed { requests });
    Ok(Some(Timing { arrivals, devices: models }))
}

/// Give the drives of cache tiers, the first one excepted, the placement handles of a specification.
fn place(spec: &HierarchySpec, models: &mut [DeviceModel]) -> Result<(), LabError> {
    let mut has_handles = false;
    let mut has_drive = false;
    for model in models.iter_mut().skip(1) {
        let DeviceModel::Ssd { config, .. } = model else { continue };
        config.placement = spec.placement.or(config.placement);
        has_handles |= config.placement.is_some();
        has_drive = true;
        config.validate().map_err(|error| LabError::at(&[Key("placement")], error))?;
    }
    if spec.placement.is_some() && !has_drive {
        let reason = "no cache tier below the first has the model of an SSD; set `model`, for example to `flash=tlc-nvme`";
        return Err(LabError::at(&[Key("placement")], reason));
    }
    if spec.streams.as_deref().is_some_and(|name| name != "none") && !has_handles {
        let reason = "no drive of a cache tier has placement handles to choose from; set `placement`, for example to `handles=4`";
        return Err(LabError::at(&[Key("streams")], reason));
    }
    Ok(())
}

/// Return the model of a device, or what is wrong with it.
fn model(device: &Device, model: &ModelSpec) -> Result<DeviceModel, String> {
    let drive = match model {
        ModelSpec::Server { servers: 0 } => return Err(text::SERVERS.into()),
        ModelSpec::Server { servers } => return Ok(server(device, Some(*servers))),
        ModelSpec::Drive(drive) => drive,
    };
    if let DriveSpec::Named(name) = drive
        && let Ok(disk) = HddConfig::preset(name)
    {
        return Ok(DeviceModel::Hdd(Box::new(disk)));
    }
    let ssd = find_ssd(drive).map_err(|error| {
        let disks: Vec<&str> = HddConfig::presets().iter().map(|disk| disk.name.as_str()).collect();
        let disks = disks.join(", ");
        format!("expected `server`, `server:N`, a disk ({disks}) or an SSD: {error}")
    })?;
    Ok(DeviceModel::Ssd { config: Box::new(ssd), streams: None })
}

fn server(device: &Device, servers: Option<u32>) -> DeviceModel {
    DeviceModel::Server { device: device.clone(), servers }
}

/// Says which policies run on the tiers given, if this one does not.
fn check_depth(policy: &PolicyEntry, names: &[&str]) -> Result<(), LabError> {
    if policy.capabilities.depth.allows(names.len()) {
        return Ok(());
    }
    let suited = registry::entries().filter(|entry| entry.capabilities.depth.allows(names.len()));
    let suited: Vec<&str> = suited.map(|entry| &*entry.name).collect();
    Err(LabError::WrongTiers {
        policy: policy.name.to_string(),
        wanted: policy.capabilities.depth.describe(),
        given: names.join(", "),
        suited: suited.join(", "),
    })
}
