//! The arguments of Python's functions, as specifications of the lab.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping};
use thermocline_core::PageCost;
use thermocline_core::config::Given;
use thermocline_core::registry::PolicyEntry;
use thermocline_device::ssd::{Placement, Precondition};
use thermocline_lab::corpus::{Request, Split};
use thermocline_lab::mrc::Rate;
use thermocline_lab::planning::{CURRENCY, Objective, PlanOptions};
use thermocline_lab::spec::{
    BufferSpec, DriveSpec, HIERARCHY_OPTIONS, HierarchyOption, HierarchySpec, HotSpec, MrcSpec,
    OptionKind, ParameterSpec, Selection, Setting, SpecPath, SsdSize, Step, TierSetting, TierSpec,
};
use thermocline_lab::{Counted, RunOptions, TierSize, WarmUp};
use thermocline_trace::Choice;

use crate::errors::configuration;

/// The most intervals of figures over time.
const INTERVALS_MAX: u64 = 100_000;
/// Conversion of a mapping's value to the setting of a tier.
type ToSetting = fn(&str, &str, &Bound<'_, PyAny>) -> PyResult<Setting>;

/// The arguments about the devices of tiers.
const SETTINGS: [(&str, ToSetting); 5] = [
    ("devices", |place, _, value| Ok(Setting::Name(text(place, value)?))),
    ("costs", cost),
    ("latencies", |place, _, value| Ok(Setting::LatencyMs(real(place, value)?))),
    ("prices", |place, _, value| Ok(Setting::Price(real(place, value)?))),
    ("models", |place, _, value| {
        let model = text(place, value)?.parse();
        Ok(Setting::Model(model.map_err(|reason| configuration(format!("{place}: {reason}")))?))
    }),
];

/// The tiers of a plan, in the order of their prices.
const PLAN_TIERS: [&str; 3] = ["ram", "flash", "disk"];

/// Expected form of sizes, for messages.
const SIZE: &str = "write pages, \"64MiB\", \"5%\" or \"4x\"";
/// The policies that a plan chooses from if none are named.
const PLANNED: &str = "lru,arc,lru-exclusive,face-gsc,lc,tac,hat,arc-l2arc";

/// The arguments of a function by name; `None` is the same as absent.
pub(crate) struct Arguments<'py>(Bound<'py, PyDict>);

impl<'py> Arguments<'py> {
    pub(crate) fn new(arguments: Bound<'py, PyDict>) -> Self {
        Self(arguments)
    }

    /// Return the hierarchy of `simulate` and `compare`.
    pub(crate) fn hierarchy(&self) -> PyResult<HierarchySpec> {
        let mut spec = HierarchySpec {
            tiers: self.tiers()?,
            device_file: self.path("device_file")?,
            parameters: self.parameters("parameters")?,
            ..self.shared()?
        };
        for (argument, setting) in SETTINGS {
            for (tier, value) in self.mapping(argument)? {
                let place = format!("{argument}[{tier:?}]");
                let setting = setting(&place, &tier, &value)?;
                spec.set(TierSetting { tier, setting })
                    .map_err(|reason| configuration(format!("{place}: {reason}")))?;
            }
        }
        Ok(spec)
    }

    /// Return the options with which `simulate` and `compare` run.
    pub(crate) fn run_options(&self) -> PyResult<RunOptions> {
        let warm_up = self.take("warm_up", "accesses, or their share as in \"20%\"", |value| {
            let accesses = value.extract::<u64>().map(|accesses| accesses.to_string());
            accesses.or_else(|_| value.extract::<String>()).ok()?.parse::<WarmUp>().ok()
        })?;
        let intervals = self.whole("over_time", 1, INTERVALS_MAX)?.unwrap_or(0);
        Ok(RunOptions {
            warm_up: warm_up.unwrap_or_default(),
            is_checked: self.switch("check")?,
            intervals: usize::try_from(intervals).unwrap_or_default(),
        })
    }

    /// Return the question of `mrc`.
    pub(crate) fn mrc(&self) -> PyResult<MrcSpec> {
        let HierarchySpec { write_miss, admit, .. } = self.shared()?;
        Ok(MrcSpec {
            policies: self.selection("policies")?,
            sizes: self.sizes("sizes")?,
            flash_sizes: self.sizes("flash_sizes")?,
            shards: self.real("shards")?,
            shards_size: self.whole_u32("shards_size")?,
            shards_by: self.word("shards_by", &Choice::WORDS)?.unwrap_or_default(),
            rate: self.real("rate")?,
            seed: self.seed()?,
            is_checked: self.switch("check")?,
            parameters: self.parameters("parameters")?,
            write_miss,
            admit,
        })
    }

    /// Return the question of `buffer`.
    pub(crate) fn buffer(&self) -> PyResult<BufferSpec> {
        let ssd = self.text("ssd")?.filter(|name| name != "none");
        Ok(BufferSpec {
            policies: self.selection("policies")?,
            sizes: self.sizes("sizes")?,
            ssd: ssd.map(|name| DriveSpec::from(name.as_str())),
            ssd_size: self.ssd_size()?,
            precondition: self.precondition()?,
            placement: self.placement()?,
            streams: self.text("streams")?,
            flush_every: self.whole_u32("flush_every")?,
            closed_loop: self.closed_loop()?,
            parameters: self.parameters("parameters")?,
            is_checked: self.switch("check")?,
        })
    }

    /// Return the question of a run over a corpus. Without policies there are no caches, and no
    /// tiers.
    pub(crate) fn corpus(&self) -> PyResult<Request> {
        let has_caches = self.get("policies")?.is_some();
        let options = self.run_options()?;
        if options.intervals > 0 {
            let message = "over_time: results of a corpus have no figures over time";
            return Err(configuration(message.into()));
        }
        let sides = [Split::Tune, Split::HoldOut].map(|side| (side.word(), side));
        let shard = self.text("shard")?.map(|text| text.parse()).transpose();
        let Selection::Named(datasets) = self.selection("datasets")? else {
            let message = "datasets: leave it out for all of them";
            return Err(configuration(message.into()));
        };
        Ok(Request {
            policies: self.selection("policies")?,
            spec: if has_caches { self.hierarchy()? } else { HierarchySpec::default() },
            buffers: self.corpus_buffers(options.is_checked)?,
            options,
            seeds: self.whole("seeds", 1, 1000)?.unwrap_or(5),
            split: self.word("split", &sides)?,
            datasets,
            sample: self.sample()?,
            shard: shard.map_err(|reason| configuration(format!("shard: {reason}")))?,
        })
    }

    /// Return the write buffers of a corpus, over a drive as large as holds the trace.
    fn corpus_buffers(&self, is_checked: bool) -> PyResult<Option<BufferSpec>> {
        if self.get("buffers")?.is_none() {
            return Ok(None);
        }
        let sizes = self.sizes("buffer_sizes")?;
        if sizes.is_empty() {
            return Err(configuration(format!("buffer_sizes: give at least one, {SIZE}")));
        }
        let ssd = self.text("ssd")?.filter(|name| name != "none");
        let ssd = ssd.map(|name| DriveSpec::from(name.as_str()));
        Ok(Some(BufferSpec {
            policies: self.selection("buffers")?,
            sizes,
            ssd_size: ssd.is_some().then_some(SsdSize::Fit),
            ssd,
            precondition: None,
            placement: None,
            streams: None,
            flush_every: None,
            closed_loop: self.whole_u32("buffer_closed_loop")?,
            parameters: self.parameters("buffer_parameters")?,
            is_checked,
        }))
    }

    /// Return the share of pages that caches of a corpus are simulated on.
    fn sample(&self) -> PyResult<Option<Rate>> {
        let Some(value) = self.get("sample")? else { return Ok(None) };
        let seed = self.whole("sample_seed", 0, u64::MAX)?.unwrap_or(1);
        if value.extract::<String>().is_ok_and(|word| word == "auto") {
            return Ok(Some(Rate::Auto { seed }));
        }
        let rate = (!is_bool(&value)).then(|| value.extract::<f64>().ok()).flatten();
        let rate = rate.filter(|rate| *rate > 0.0 && *rate <= 1.0);
        let wrong = || wrong("sample", &value, "a share of the pages, as in 0.01, or \"auto\"");
        Ok(Some(Rate::Fixed { rate: rate.ok_or_else(wrong)?, seed }))
    }

    /// Return the question of `hot`.
    pub(crate) fn hot(&self) -> PyResult<HotSpec> {
        let count = self.text("count")?.map(|text| text.parse::<Counted>()).transpose();
        let count = count.map_err(|error| configuration(format!("count: {error}")))?;
        Ok(HotSpec {
            identifiers: self.selection("identifiers")?,
            baseline: self.text("baseline")?.unwrap_or_else(|| "wdac".into()),
            count: count.unwrap_or_default(),
            interval: self.whole("interval", 1, u64::MAX)?,
            parameters: self.parameters("parameters")?,
        })
    }

    /// Return the question of `plan`.
    pub(crate) fn plan(&self, own: Vec<PolicyEntry>) -> PyResult<PlanOptions> {
        let objectives = [
            ("p99", Objective::P99),
            ("io-time", Objective::IoTime),
            ("cost-per-io", Objective::CostPerIo),
        ];
        let names = || PLANNED.split(',').map(str::to_owned).collect::<Vec<_>>();
        let is_given = self.get("policies")?.is_some();
        let model = self.text("disk_model")?.map(|text| text.parse()).transpose();
        Ok(PlanOptions {
            budget: self
                .real("budget")?
                .ok_or_else(|| configuration("budget is missing".into()))?,
            prices: self.plan_prices()?,
            disk_bytes: self.disk_bytes()?,
            objective: self.word("objective", &objectives)?,
            currency: self.text("currency")?.unwrap_or_else(|| CURRENCY.into()),
            min_lifetime_years: self.real("min_lifetime_years")?,
            policies: if is_given {
                self.selection("policies")?
            } else {
                Selection::Named(names())
            },
            own,
            devices: self.plan_devices()?,
            drive: self.text("drive")?.map(|name| DriveSpec::from(name.as_str())),
            disk_model: model.map_err(|reason| configuration(format!("disk_model: {reason}")))?,
            closed_loop: self.closed_loop()?,
            seed: self.seed()?,
        })
    }

    /// Return the names of one kind: one, several, or `"all"`.
    pub(crate) fn selection(&self, name: &str) -> PyResult<Selection> {
        let Some(value) = self.get(name)? else { return Ok(Selection::Named(vec![])) };
        if let Ok(one) = value.extract::<String>() {
            let names: Vec<String> = one.split(',').map(str::to_owned).collect();
            return Ok(Selection::new(&names));
        }
        let mut names = vec![];
        for one in value.try_iter().map_err(|_| wrong(name, &value, "names"))? {
            let one = one?;
            let text = one.extract::<String>();
            names.push(text.map_err(|_| {
                configuration(format!("{name}: {} is invalid: expected names", shown(&one)))
            })?);
        }
        if names.is_empty() {
            let message = format!("{name}: a list of names is empty: give at least one");
            return Err(configuration(message));
        }
        Ok(Selection::new(&names))
    }

    /// Return a path.
    pub(crate) fn path(&self, name: &str) -> PyResult<Option<PathBuf>> {
        self.take(name, "a path", |value| value.extract().ok())
    }

    fn tiers(&self) -> PyResult<Vec<TierSpec>> {
        let tiers = self.mapping("tiers")?;
        if tiers.is_empty() {
            return Err(configuration("tiers: give at least one, as {\"ram\": \"5%\"}".into()));
        }
        let tier = |(name, value): &(String, Bound<'py, PyAny>)| {
            Ok(TierSpec::new(name, &sizes(&format!("tiers[{name:?}]"), value)?))
        };
        tiers.iter().map(tier).collect()
    }

    fn sizes(&self, name: &str) -> PyResult<Vec<TierSize>> {
        self.get(name)?.map_or_else(|| Ok(vec![]), |value| sizes(name, &value))
    }

    fn parameters(&self, argument: &str) -> PyResult<Vec<ParameterSpec>> {
        let given = self.mapping(argument)?.into_iter();
        given
            .map(|(name, value)| Ok(ParameterSpec::new(&name, given_value(&name, &value)?)))
            .collect()
    }

    /// Return a hierarchy without tiers that has the options which all tiers share.
    fn shared(&self) -> PyResult<HierarchySpec> {
        let mut spec = HierarchySpec::default();
        for HierarchyOption { key, kind, .. } in HIERARCHY_OPTIONS {
            match kind {
                OptionKind::Words(words) => {
                    let words: Vec<_> = words.iter().map(|word| (word.word, word.set)).collect();
                    if let Some(set) = self.word(key, &words)? {
                        set(&mut spec);
                    }
                }
                OptionKind::Name { set, .. } => {
                    if let Some(name) = self.text(key)? {
                        set(&mut spec, name);
                    }
                }
                OptionKind::Text { set, .. } => {
                    if let Some(text) = self.text(key)? {
                        set(&mut spec, &text)
                            .map_err(|reason| configuration(format!("{key}: {reason}")))?;
                    }
                }
                OptionKind::Count { set, .. } => {
                    if let Some(count) = self.whole_u32(key)? {
                        set(&mut spec, count);
                    }
                }
            }
        }
        Ok(spec)
    }

    fn closed_loop(&self) -> PyResult<Option<u32>> {
        self.whole_u32("closed_loop")
    }

    fn seed(&self) -> PyResult<u64> {
        Ok(self.whole("seed", 0, u64::MAX)?.unwrap_or(1))
    }

    fn ssd_size(&self) -> PyResult<Option<SsdSize>> {
        let Some(text) = self.text("ssd_size")? else { return Ok(None) };
        if text == "fit" {
            return Ok(Some(SsdSize::Fit));
        }
        let bytes = text.parse().ok().and_then(TierSize::whole_bytes);
        let message = || format!("ssd_size={text:?}: expected bytes, as in \"4GiB\", or \"fit\"");
        Ok(Some(SsdSize::Bytes(bytes.ok_or_else(|| configuration(message()))?)))
    }

    fn disk_bytes(&self) -> PyResult<Option<u64>> {
        let Some(text) = self.text("disk_size")? else { return Ok(None) };
        let bytes = text.parse().ok().and_then(TierSize::whole_bytes);
        let message = || format!("disk_size={text:?}: expected bytes, as in \"4TiB\"");
        Ok(Some(bytes.ok_or_else(|| configuration(message()))?))
    }

    fn precondition(&self) -> PyResult<Option<Precondition>> {
        let given = self.mapping("precondition")?;
        if given.is_empty() {
            return Ok(None);
        }
        let mut precondition = Precondition { fill: 1.0, overwrite: 0.0, seed: 1 };
        for (name, value) in given {
            let place = format!("precondition[{name:?}]");
            match name.as_str() {
                "fill" => precondition.fill = real(&place, &value)?,
                "overwrite" => precondition.overwrite = real(&place, &value)?,
                "seed" => precondition.seed = whole(&place, &value, 0, u64::MAX)?,
                _ => {
                    let message = format!("{place}: there are fill, overwrite and seed");
                    return Err(configuration(message));
                }
            }
        }
        Ok(Some(precondition))
    }

    fn placement(&self) -> PyResult<Option<Placement>> {
        let given = self.mapping("placement")?;
        if given.is_empty() {
            return Ok(None);
        }
        let parts = given.into_iter().map(|(name, value)| format!("{name}={value}"));
        let text = parts.collect::<Vec<String>>().join(",");
        let placement = text.parse::<Placement>();
        placement.map(Some).map_err(|reason| configuration(format!("placement: {text}: {reason}")))
    }

    /// Return the prices of RAM, flash and disk.
    fn plan_prices(&self) -> PyResult<[f64; 3]> {
        let mut prices = [None; 3];
        for (tier, value) in self.mapping("prices")? {
            let place = format!("prices[{tier:?}]");
            let price = real(&place, &value)?;
            *plan_tier(&place, &tier, &mut prices)? = Some(price);
        }
        let mut all = [0.0; 3];
        for ((price, found), tier) in all.iter_mut().zip(prices).zip(PLAN_TIERS) {
            *price = found.ok_or_else(|| {
                configuration(format!(
                    "prices: that of `{tier}` is missing; give those of ram, flash and disk"
                ))
            })?;
        }
        Ok(all)
    }

    /// Return the devices of RAM, flash and disk.
    fn plan_devices(&self) -> PyResult<[Option<String>; 3]> {
        let mut devices = [const { None }; 3];
        for (tier, value) in self.mapping("devices")? {
            let place = format!("devices[{tier:?}]");
            let device = text(&place, &value)?;
            *plan_tier(&place, &tier, &mut devices)? = Some(device);
        }
        Ok(devices)
    }

    /// Return a mapping from names; none if it is absent.
    fn mapping(&self, name: &str) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        let Some(value) = self.get(name)? else { return Ok(vec![]) };
        let expected = "a mapping from names, a `dict`";
        let mapping = value.cast::<PyMapping>().map_err(|_| wrong(name, &value, expected))?;
        let items = mapping.items()?;
        items.iter().map(|item| item.extract().map_err(|_| wrong(name, &value, expected))).collect()
    }

    fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.get(name)?.map(|value| text(name, &value)).transpose()
    }

    /// Parse one of some words.
    fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> PyResult<Option<T>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        let found = value.extract::<String>().ok();
        let found = found.and_then(|text| words.iter().find(|(word, _)| *word == text));
        let known: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        Ok(Some(found.ok_or_else(|| wrong(name, &value, &known.join(" or ")))?.1))
    }

    fn real(&self, name: &str) -> PyResult<Option<f64>> {
        self.get(name)?.map(|value| real(name, &value)).transpose()
    }

    fn whole(&self, name: &str, least: u64, most: u64) -> PyResult<Option<u64>> {
        self.get(name)?.map(|value| whole(name, &value, least, most)).transpose()
    }

    fn whole_u32(&self, name: &str) -> PyResult<Option<u32>> {
        let found = self.whole(name, 1, u32::MAX.into())?;
        Ok(found.and_then(|number| u32::try_from(number).ok()))
    }

    fn switch(&self, name: &str) -> PyResult<bool> {
        let is_on = self.take(name, "True or False", |value| value.extract().ok())?;
        Ok(is_on.unwrap_or(false))
    }

    fn take<T>(
        &self,
        name: &str,
        expected: &str,
        extract: impl FnOnce(&Bound<'py, PyAny>) -> Option<T>,
    ) -> PyResult<Option<T>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        Ok(Some(extract(&value).ok_or_else(|| wrong(name, &value, expected))?))
    }

    fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }
}

/// Return the argument that a part of a specification comes from, as its caller wrote it.
pub(crate) fn argument(
    path: &SpecPath,
    tiers: &[TierSpec],
    parameters: &[ParameterSpec],
) -> String {
    let of_tier = |tier: &str, field: &str| {
        let argument = match field {
            "name" => "devices",
            "cost" => "costs",
            "latency_ms" => "latencies",
            "price" => "prices",
            _ => "models",
        };
        format!("{argument}[{tier:?}]")
    };
    match *path.steps() {
        [Step::Key("tiers"), Step::At(tier), Step::Key("name" | "sizes"), ..] => {
            format!("tiers[{:?}]", tiers[tier].name)
        }
        [Step::Key("tiers"), Step::At(tier), _, Step::Key(field)] => {
            of_tier(&tiers[tier].name, field)
        }
        [Step::Key("disk"), Step::Key(field)] => of_tier("disk", field),
        [Step::Key("parameters"), Step::At(place)] => {
            let ParameterSpec { owner, name, .. } = &parameters[place];
            let owner = owner.iter().map(|owner| format!("{owner}."));
            format!("parameters[{:?}]", owner.chain([name.clone()]).collect::<String>())
        }
        _ => path.keys().last().unwrap_or_default().to_owned(),
    }
}

/// Find one of the tiers of a plan, by its name.
fn plan_tier<'a, T>(place: &str, tier: &str, all: &'a mut [T; 3]) -> PyResult<&'a mut T> {
    let found = PLAN_TIERS.iter().zip(all).find(|(known, _)| **known == tier);
    let message = || format!("{place}: no tier `{tier}`; there are: {}", PLAN_TIERS.join(", "));
    found.map(|(_, one)| one).ok_or_else(|| configuration(message()))
}

/// Parse one size or several; a whole number is pages.
fn sizes(place: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<TierSize>> {
    let is_one = value.extract::<String>().is_ok() || value.is_instance_of::<PyBytes>();
    let several = if is_one { None } else { value.try_iter().ok() };
    let Some(several) = several else { return Ok(vec![size(place, value)?]) };
    let sizes = several.map(|one| size(place, &one?)).collect::<PyResult<Vec<TierSize>>>()?;
    if sizes.is_empty() {
        let message = format!("{place}: a list of sizes is empty: give at least one");
        return Err(configuration(message));
    }
    Ok(sizes)
}

fn size(place: &str, value: &Bound<'_, PyAny>) -> PyResult<TierSize> {
    if let Ok(text) = value.extract::<String>() {
        return text.parse().map_err(|error| configuration(format!("{place}: {error}")));
    }
    let pages = (!is_bool(value)).then(|| value.extract::<u64>().ok()).flatten();
    let message = || format!("{place}: invalid size {}: {SIZE}", shown(value));
    Ok(TierSize::Pages(pages.ok_or_else(|| configuration(message()))? as f64))
}

/// Return the value of a parameter.
pub(crate) fn given_value(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Given> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(Given::Text(text));
    }
    if is_bool(value) {
        return Ok(Given::Switch(value.extract()?));
    }
    if let Ok(number) = value.extract::<u64>() {
        return Ok(Given::Integer(number));
    }
    let place = format!("parameters[{name:?}]");
    let number = value.extract::<f64>();
    Ok(Given::Real(number.map_err(|_| wrong(&place, value, "text, a number, True or False"))?))
}

fn cost(place: &str, tier: &str, value: &Bound<'_, PyAny>) -> PyResult<Setting> {
    let costs = value.extract::<Vec<f64>>().unwrap_or_default();
    let [read_ms, write_ms] = costs[..] else {
        let message = format!(
            "{place}: {} is not a cost of `{tier}`: expected (READ_MS, WRITE_MS), two numbers",
            shown(value)
        );
        return Err(configuration(message));
    };
    Ok(Setting::Cost(PageCost { read_ms, write_ms }))
}

fn text(place: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let path = || value.extract::<PathBuf>().map(|path| path.display().to_string());
    value.extract::<String>().or_else(|_| path()).map_err(|_| wrong(place, value, "text"))
}

fn real(place: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let number = (!is_bool(value)).then(|| value.extract().ok()).flatten();
    number.ok_or_else(|| wrong(place, value, "a number"))
}

fn whole(place: &str, value: &Bound<'_, PyAny>, least: u64, most: u64) -> PyResult<u64> {
    let number = (!is_bool(value)).then(|| value.extract::<u64>().ok()).flatten();
    let expected = || match most {
        u64::MAX => format!("a whole number of at least {least}"),
        _ => format!("a whole number from {least} to {most}"),
    };
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| wrong(place, value, &expected()))
}

/// Python takes True and False for numbers; a caller who writes them means something else.
fn is_bool(value: &Bound<'_, PyAny>) -> bool {
    value.extract::<bool>().is_ok()
}

/// Create the error of an argument's value.
fn wrong(place: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    configuration(format!("{place}={}: expected {expected}", shown(value)))
}

/// Return a value as Python writes it.
fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "a value".to_owned(), |text| text.to_string())
}
