//! The points of a run over a corpus.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use thermocline_core::config::Given;
use thermocline_core::names::there_are;
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_core::{Clients, WriteMiss};
use thermocline_trace::CompiledTrace;

use super::fetch::{fetch, required_sha256};
use super::manifest::{Class, Entry, Manifest, Split};
use super::results::{RESULTS_VERSION, Row, canonical};
use crate::compiled_cache::compiled_path;
use crate::mrc::Rate;
use crate::parameters::check;
use crate::spec::Step::{At, Key};
use crate::spec::{BufferSpec, HierarchySpec, ParameterSpec, Selection};
use crate::summary::parameters;
use crate::sweep::{SweepPoint, TraceSource, hex};
use crate::{
    CompiledCache, Configuration, LabError, Owner, Parameters, RunOptions, TierSize, Watch,
    configurations,
};

/// The parameter that says where a policy's random numbers begin.
const SEED: &str = "seed";

/// Runs to make over a corpus.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Request {
    /// The policies of caches.
    pub policies: Selection,
    /// Tiers with all their sizes. A parameter that is given several times has several values, and
    /// each is run.
    pub spec: HierarchySpec,
    /// Write buffers with their sizes and drive, if any.
    pub buffers: Option<BufferSpec>,
    /// Options of runs of caches.
    pub options: RunOptions,
    /// Number of seeds a policy that draws random numbers runs with, unless its seed is given.
    pub seeds: u64,
    /// The side of the split to run; all traces if none.
    pub split: Option<Split>,
    /// The data sets to run; all if empty.
    pub datasets: Vec<String>,
    /// Simulates caches on samples; in full if none.
    pub sample: Option<Rate>,
    /// The part of the traces to run; all if none.
    pub shard: Option<Shard>,
}

/// One of several parts of a corpus, which machines can run apart. Traces are dealt out by a hash of
/// their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Shard {
    index: u32,
    count: u32,
}

/// All points of a run over a corpus.
#[derive(Debug)]
pub struct Plan {
    pub(super) manifest: Arc<Manifest>,
    pub(super) traces: Vec<PlannedTrace>,
    pub(super) caches: Vec<CachePoint>,
    pub(super) buffers: Vec<BufferPoint>,
    pub(super) buffer_spec: Option<BufferSpec>,
    pub(super) options: RunOptions,
    pub(super) sample: Option<Rate>,
}

/// A trace that takes part.
#[derive(Clone, Debug)]
pub(super) struct PlannedTrace {
    pub(super) dataset: String,
    class: Class,
    pub(super) entry: Entry,
    pub(super) sha256: String,
}

/// A point of every trace: a cache.
#[derive(Clone, Debug)]
pub(super) struct CachePoint {
    pub(super) point: SweepPoint,
    parameters: String,
    seed: Option<u64>,
    size: String,
    hierarchy: String,
}

/// A point of every trace: a write buffer. Its place among the configurations of the specification is
/// its place here.
#[derive(Clone, Debug)]
pub(super) struct BufferPoint {
    policy: String,
    parameters: String,
    size: String,
    hierarchy: String,
    /// Text of everything but the trace that its results depend on.
    identity: String,
}

impl Request {
    /// Resolve relative paths of devices and models in a folder: a worker may run in another one.
    ///
    /// The file of a write buffer's drive stays as it is, because its name is part of the results.
    pub fn resolve_in(&mut self, folder: &Path) {
        self.spec.resolve_in(folder);
    }
}

impl Plan {
    /// Makes a plan of what is asked, for the traces of a manifest; `own` are policies of the caller,
    /// which the request may name.
    ///
    /// # Errors
    /// If a policy or a part of the specification is invalid, a data set is not in the manifest,
    /// there is no trace, a trace has no hash, or a parameter has several values outside of the
    /// tune side of a split.
    pub fn new(
        manifest: Arc<Manifest>,
        request: &Request,
        own: &[PolicyEntry],
    ) -> Result<Self, LabError> {
        let policies = request.spec.policies(&request.policies, Clients::ONE, own)?;
        let caches = cache_points(request, &policies)?;
        let buffers = request.buffers.as_ref().map(buffer_points).transpose()?.unwrap_or_default();
        let plan = Self {
            traces: traces(&manifest, request)?,
            manifest,
            caches,
            buffers,
            buffer_spec: request.buffers.clone(),
            options: request.options,
            sample: request.sample,
        };
        plan.check_split(request)?;
        Ok(plan)
    }

    /// Return the number of traces that take part.
    pub fn trace_count(&self) -> usize {
        self.traces.len()
    }

    /// Return the number of points each trace has.
    pub fn points_per_trace(&self) -> usize {
        self.caches.len() + self.buffers.len()
    }

    /// `true` if caches are simulated on samples, which all points of a trace share.
    pub const fn is_sampled(&self) -> bool {
        self.sample.is_some()
    }

    /// Return a trace in words: `dataset/trace`.
    pub fn trace_name(&self, trace: usize) -> String {
        let PlannedTrace { dataset, entry, .. } = &self.traces[trace];
        format!("{dataset}/{}", entry.name)
    }

    /// Return a point of a trace in words.
    pub fn describe(&self, trace: usize, point: usize) -> String {
        let row = self.row(&self.traces[trace], point);
        format!("`{}` with {} on `{}/{}`", row.policy, row.size, row.dataset, row.trace)
    }

    /// Opens a trace from the compiled ones of `folder`, if it is there, or of this machine; and says
    /// whether it was compiled now. One whose file is not here is fetched or generated for that, and
    /// its file is not kept.
    ///
    /// # Errors
    /// If a trace is not found or differs from the manifest, or a file cannot be read or written.
    pub fn open(
        &self,
        trace: usize,
        folder: Option<&Path>,
        cache: &CompiledCache,
        watch: &Watch,
    ) -> Result<(CompiledTrace, bool), LabError> {
        let planned = &self.traces[trace];
        let PlannedTrace { entry, sha256, .. } = planned;
        if let Some(path) = planned.compiled(folder) {
            return Ok((CompiledTrace::open(path)?, false));
        }
        let fetched = temporary_folder()?;
        cache.open(&entry.source, sha256, watch, 1, || self.bring(entry, fetched.path()))
    }

    /// Decode a trace for a single use. Fetch or generate its file first if it is not here; the file
    /// is not kept.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub(super) fn open_once(&self, trace: usize, watch: &Watch) -> Result<CompiledTrace, LabError> {
        let PlannedTrace { entry, sha256, .. } = &self.traces[trace];
        let fetched = temporary_folder()?;
        let path = self.bring(entry, fetched.path())?;
        TraceSource { path, ..entry.source.clone() }.open_verified(sha256, watch, 1)
    }

    /// Return the path of a trace's file, after fetching or generating it in `folder` if it is not
    /// where the manifest says.
    fn bring(&self, entry: &Entry, folder: &Path) -> Result<PathBuf, LabError> {
        let path = &entry.source.path;
        let is_elsewhere = !entry.urls.is_empty() || entry.generate.is_some();
        if path.exists() || !is_elsewhere {
            return Ok(path.clone());
        }
        let place = folder.join(path.file_name().unwrap_or_default());
        let source = TraceSource { path: place.clone(), ..entry.source.clone() };
        fetch(&self.manifest, &Entry { source, ..entry.clone() })?;
        Ok(place)
    }

    /// Return the key of a point's result: a hash of all that it depends on.
    pub(super) fn key(&self, trace: &PlannedTrace, point: usize) -> String {
        let source = &trace.entry.source;
        let identity = match self.caches.get(point) {
            Some(cache) => {
                let sample = self.sample.map(|rate| format!("{rate:?}"));
                let exact = cache.point.key(source, &trace.sha256, self.options);
                format!("{RESULTS_VERSION} {exact} {sample:?}")
            }
            None => {
                let buffer = &self.buffers[point - self.caches.len()];
                let version = env!("CARGO_PKG_VERSION");
                let trace = source.identity(&trace.sha256);
                format!("{RESULTS_VERSION} {version} {trace} {}", buffer.identity)
            }
        };
        // Two traces may have the same bytes, and each has results of its own.
        let identity = format!("{} {} {identity}", trace.dataset, trace.entry.name);
        hex(&Sha256::digest(identity))[..32].to_owned()
    }

    /// Return the row of a point, without figures.
    pub(super) fn row(&self, trace: &PlannedTrace, point: usize) -> Row {
        let (kind, policy, parameters, seed, size, hierarchy) = match self.caches.get(point) {
            Some(cache) => {
                let policy = cache.point.configuration.policy.name.to_string();
                ("cache", policy, &cache.parameters, cache.seed, &cache.size, &cache.hierarchy)
            }
            None => {
                let BufferPoint { policy, parameters, size, hierarchy, .. } =
                    &self.buffers[point - self.caches.len()];
                ("buffer", policy.clone(), parameters, None, size, hierarchy)
            }
        };
        Row {
            dataset: trace.dataset.clone(),
            trace: trace.entry.name.clone(),
            class: trace.class.word().into(),
            split: trace.entry.split.map(|split| split.word().into()),
            kind: kind.into(),
            policy,
            parameters: parameters.clone(),
            seed,
            size: size.clone(),
            hierarchy: hierarchy.clone(),
            rate: 1.0,
            trace_sha256: trace.sha256.clone(),
            key: self.key(trace, point),
            version: env!("CARGO_PKG_VERSION").into(),
            figures: BTreeMap::new(),
        }
    }

    /// Check that only the tune side of a split sees several settings of one policy.
    fn check_split(&self, request: &Request) -> Result<(), LabError> {
        let is_tuned = |one: &ParameterSpec| {
            let all = request.spec.parameters.iter();
            all.filter(|other| (&other.owner, &other.name) == (&one.owner, &one.name)).count() > 1
        };
        let Some(place) = request.spec.parameters.iter().position(is_tuned) else { return Ok(()) };
        let is_seed = request.spec.parameters[place].name == SEED;
        let held_out = self.traces.iter().find(|one| one.entry.split == Some(Split::HoldOut));
        match held_out.filter(|_| !is_seed) {
            None => Ok(()),
            Some(trace) => Err(LabError::at(
                &[Key("parameters"), At(place)],
                format!(
                    "several values of a parameter choose among settings, and `{}` is held out from that: run the values with --split tune, and one of them on the other side",
                    trace.entry.name
                ),
            )),
        }
    }
}

fn temporary_folder() -> Result<tempfile::TempDir, LabError> {
    tempfile::tempdir().map_err(|error| LabError::file(&std::env::temp_dir(), error))
}

impl PlannedTrace {
    /// Return its compiled form in a folder of `corpus compile`, if it is there.
    pub(super) fn compiled(&self, folder: Option<&Path>) -> Option<PathBuf> {
        let path = compiled_path(folder?, &self.entry.source, &self.sha256);
        path.exists().then_some(path)
    }
}

fn traces(manifest: &Manifest, request: &Request) -> Result<Vec<PlannedTrace>, LabError> {
    let known = || manifest.datasets.iter().map(|dataset| dataset.name.as_str());
    if let Some(name) = request.datasets.iter().find(|name| !known().any(|one| one == **name)) {
        let reason = format!("unknown data set `{name}`; {}", there_are(name, known()));
        return Err(LabError::file(&manifest.path, reason));
    }
    if request.split.is_some() && !manifest.is_split() {
        let reason = "its traces are not split: add `split` to its data sets, or leave --split out";
        return Err(LabError::file(&manifest.path, reason));
    }
    let mut traces = vec![];
    for (dataset, entry) in manifest.entries() {
        let is_chosen = (request.datasets.is_empty() || request.datasets.contains(&dataset.name))
            && request.split.is_none_or(|split| entry.split == Some(split))
            && request.shard.is_none_or(|shard| shard.has(&dataset.name, &entry.name));
        if is_chosen {
            let sha256 =
                required_sha256(entry).map_err(|error| LabError::file(&manifest.path, error))?;
            traces.push(PlannedTrace {
                dataset: dataset.name.clone(),
                class: dataset.class,
                sha256: sha256.to_owned(),
                entry: entry.clone(),
            });
        }
    }
    if traces.is_empty() && request.shard.is_none() {
        return Err(LabError::file(&manifest.path, "no trace is left to run: choose others"));
    }
    Ok(traces)
}

/// Return the caches of a request: policies by parameters by seeds by sizes.
fn cache_points(request: &Request, policies: &[PolicyEntry]) -> Result<Vec<CachePoint>, LabError> {
    let spec = &request.spec;
    let identifiers = spec.identifiers()?;
    let identifiers = || identifiers.iter().map(|&entry| Owner::from(entry));
    let mut owners: Vec<Owner<'_>> = policies.iter().map(Owner::from).collect();
    owners.extend(identifiers());
    if !policies.is_empty() {
        Parameters::new(&spec.parameters, &owners)?;
    }
    let mut points = vec![];
    for policy in policies {
        let mut own = vec![Owner::from(policy)];
        own.extend(identifiers());
        // A policy of one tier leaves flash empty, and is run once for each size of RAM.
        let tiers = if policy.capabilities.depth == Depth::Ram { 1 } else { spec.tiers.len() };
        let spec = spec.with_first_tiers(tiers);
        for parameters in settings(&spec.parameters, policy, &own, request.seeds) {
            let spec = HierarchySpec { parameters, ..spec.clone() };
            let all = configurations(&spec, std::slice::from_ref(policy), Clients::ONE)?;
            points.extend(all.into_iter().map(|one| CachePoint::new(one, request.options)));
        }
    }
    Ok(points)
}

/// Return every combination of the values of a policy's parameters, and its seeds.
fn settings(
    given: &[ParameterSpec],
    policy: &PolicyEntry,
    owners: &[Owner<'_>],
    seeds: u64,
) -> Vec<Vec<ParameterSpec>> {
    let mut by_name: Vec<Vec<ParameterSpec>> = vec![];
    for one in given.iter().filter(|one| check(one, owners).is_ok()) {
        let is_same = |all: &&mut Vec<ParameterSpec>| {
            (&all[0].owner, &all[0].name) == (&one.owner, &one.name)
        };
        match by_name.iter_mut().find(is_same) {
            Some(all) => all.push(one.clone()),
            None => by_name.push(vec![one.clone()]),
        }
    }
    let is_random = policy.parameters.iter().any(|parameter| parameter.name == SEED);
    if is_random && !by_name.iter().any(|all| all[0].name == SEED) {
        let seed = |seed: u64| ParameterSpec {
            owner: Some(policy.name.to_string()),
            name: SEED.into(),
            value: Given::Text(seed.to_string()),
        };
        by_name.push((1..=seeds).map(seed).collect());
    }
    let mut settings = vec![vec![]];
    for values in by_name {
        let extend = |so_far: &Vec<ParameterSpec>| {
            let so_far = so_far.clone();
            values.clone().into_iter().map(move |value| [so_far.as_slice(), &[value]].concat())
        };
        settings = settings.iter().flat_map(extend).collect();
    }
    settings
}

impl CachePoint {
    fn new(configuration: Configuration, options: RunOptions) -> Self {
        let mut all = parameters(&configuration.values);
        let seed = all.remove(SEED).and_then(|seed| seed.as_u64());
        let sizes = configuration.tiers.iter().map(|tier| format!("{}={}", tier.name, tier.size));
        let size = sizes.collect::<Vec<_>>().join(" ");
        let hierarchy = hierarchy(&configuration, options);
        let point = SweepPoint { trace: 0, configuration };
        Self { point, parameters: canonical(&Value::Object(all)), seed, size, hierarchy }
    }

    /// `true` if a tier that is not asked to be empty has no page; `None` if that depends on more
    /// than the footprint.
    pub(super) fn is_empty(&self, footprint_pages: u64) -> Option<bool> {
        let tiers = &self.point.configuration.tiers;
        if tiers.iter().any(|tier| tier.size.whole_bytes().is_some()) {
            return None;
        }
        let footprint_pages = u32::try_from(footprint_pages).ok()?;
        let trace = crate::TracePages { page_size_bytes: 1, footprint_pages };
        let pages = self.point.configuration.capacity_pages(trace).ok()?;
        Some(self.has_empty_tier(&pages))
    }

    /// `true` if a tier that is not asked to be empty has no page.
    pub(super) fn has_empty_tier(&self, pages: &[u32]) -> bool {
        let tiers = self.point.configuration.tiers.iter().zip(pages);
        tiers.into_iter().any(|(tier, pages)| *pages == 0 && !is_zero(tier.size))
    }
}

/// `true` if a size is nothing by itself.
fn is_zero(size: TierSize) -> bool {
    let (TierSize::Bytes(number)
    | TierSize::Pages(number)
    | TierSize::FootprintPercent(number)
    | TierSize::TimesAbove(number)) = size;
    number <= 0.0
}

/// Serialize devices, costs and options as JSON.
fn hierarchy(configuration: &Configuration, options: RunOptions) -> String {
    let device = |name: &str, device: &thermocline_device::Device| {
        json!([name, device.name, device.read_ms, device.write_ms])
    };
    let tiers = configuration.tiers.iter().map(|tier| device(&tier.name, &tier.device));
    let tiers: Vec<Value> = tiers.chain([device("disk", &configuration.disk)]).collect();
    let mut all = Map::new();
    all.insert("tiers".into(), tiers.into());
    if configuration.write_miss != WriteMiss::Fetch {
        all.insert("write_miss".into(), "allocate".into());
    }
    if let Some((entry, values)) = configuration.admission.identifier() {
        all.insert("admit".into(), json!([entry.name, parameters(values)]));
    }
    if let Some(timing) = &configuration.timing {
        all.insert("timing".into(), format!("{timing:?}").into());
    }
    if options.warm_up != crate::WarmUp::default() {
        all.insert("warm_up".into(), format!("{:?}", options.warm_up).into());
    }
    canonical(&Value::Object(all))
}

/// Return the write buffers of a specification, in the order of its configurations: by size, then
/// by policy.
fn buffer_points(spec: &BufferSpec) -> Result<Vec<BufferPoint>, LabError> {
    let (policies, drive) = spec.buffers()?.identity();
    let hierarchy = json!({
        "drive": spec.ssd.as_ref().map(ToString::to_string),
        "drive_size": spec.ssd_size.map(|size| format!("{size:?}")),
        "precondition": spec.precondition.map(|how| format!("{how:?}")),
        "streams": spec.streams,
        "closed_loop": spec.closed_loop,
    });
    let hierarchy = canonical(&hierarchy);
    let mut points = vec![];
    for size in &spec.sizes {
        for (policy, given) in &policies {
            let given: Map<String, Value> = given
                .iter()
                .map(|one| (one.name.clone(), Value::from(one.value.to_string())))
                .collect();
            let parameters = canonical(&Value::Object(given));
            points.push(BufferPoint {
                identity: format!("{policy} {parameters} {size} {hierarchy} {drive}"),
                policy: policy.clone(),
                parameters,
                size: format!("buffer={size}"),
                hierarchy: hierarchy.clone(),
            });
        }
    }
    Ok(points)
}

impl Shard {
    /// `true` if a trace is in it.
    fn has(self, dataset: &str, trace: &str) -> bool {
        let digest = Sha256::digest(format!("{dataset}/{trace}"));
        let number =
            digest.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        number % u64::from(self.count) == u64::from(self.index - 1)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(index, count)| {
            let (index, count) = (index.parse().ok()?, count.parse().ok()?);
            (1 <= index && index <= count).then_some(Self { index, count })
        });
        parsed.ok_or_else(|| format!("`{text}` is not a shard: write 1/4 for the first of four"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}
