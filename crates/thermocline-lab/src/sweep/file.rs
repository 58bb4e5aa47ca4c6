//! What a sweep's TOML file says.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use thermocline_core::registry::{self, Depth, Entry};
use thermocline_core::{Clients, WriteMiss, hotness};
use thermocline_trace::{PageSize, TimeUnit, TraceError, VolumeOf};

use super::places::Step::{At, Key};
use super::places::{Origin, Places, Step};
use super::{Sweep, SweepPoint, TraceSource};
use crate::{
    Given, HierarchyWords, LabError, Owner, RunOptions, TierSize, TimingWords, WarmUp, Watch,
    configurations, find_policy,
};

/// Up to so many values are a range.
const RANGE_MAX: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    trace: Vec<TraceSection>,
    policies: toml::Value,
    tier: Vec<TierSection>,
    #[serde(default)]
    parameters: BTreeMap<String, toml::Value>,
    #[serde(default)]
    warm_up: Option<String>,
    #[serde(default)]
    check: bool,
    #[serde(default)]
    write_miss: MissWord,
    admit: Option<String>,
    #[serde(default)]
    device: Vec<String>,
    #[serde(default)]
    cost: Vec<String>,
    #[serde(default)]
    latency: Vec<String>,
    #[serde(default)]
    price: Vec<String>,
    devices: Option<std::path::PathBuf>,
    #[serde(default)]
    timing: TimingWord,
    closed_loop: Option<u32>,
    #[serde(default)]
    model: Vec<String>,
}

/// A file, and where its keys are.
struct Placed<'a> {
    file: &'a File,
    places: &'a Places<'a>,
}

/// A parameter with all its values.
struct SweptParameter<'a> {
    /// As users write it: `w`, or `hat.w`.
    name: String,
    /// As TOML sees it.
    keys: Vec<&'a str>,
    /// There is at least one.
    values: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceSection {
    path: String,
    page_size: Option<String>,
    format: Option<String>,
    time_unit: Option<UnitWord>,
    #[serde(default)]
    allow_truncated: bool,
    #[serde(default)]
    only: Classes,
    #[serde(default)]
    volumes: VolumesWord,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierSection {
    name: String,
    sizes: Values,
}

/// Classes of a recording's files: a list, or words with commas as on the command line.
#[derive(Deserialize)]
#[serde(untagged)]
enum Classes {
    List(Vec<String>),
    Words(String),
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum VolumesWord {
    #[default]
    All,
    Files,
}

/// A list, a range or one value.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Values {
    List(Vec<toml::Value>),
    Range(Range),
    One(toml::Value),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: toml::Value,
    to: toml::Value,
    step: Option<toml::Value>,
    factor: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MissWord {
    #[default]
    Fetch,
    Allocate,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum TimingWord {
    #[default]
    Cost,
    Events,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum UnitWord {
    Ns,
    Us,
    Ms,
}

impl Sweep {
    /// Reads a sweep; paths in it are relative to the file.
    ///
    /// # Errors
    /// [`LabError::File`] that says what is wrong, and where.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let text = std::fs::read_to_string(path).map_err(|error| LabError::file(path, error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder).map_err(|error| LabError::file(path, error))
    }

    /// The same, from its text; paths in it are relative to `folder`.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, LabError> {
        Self::parse_of(text, folder, Origin::File)
    }

    /// The same, from TOML that a mapping was turned into: nobody has seen its lines, so errors name
    /// keys only, with the numbers of elements.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse_mapping(text: &str, folder: &Path) -> Result<Self, LabError> {
        Self::parse_of(text, folder, Origin::Mapping)
    }

    fn parse_of(text: &str, folder: &Path, origin: Origin) -> Result<Self, LabError> {
        let places = Places::new(text, origin)?;
        let file: File = toml::from_str(text).map_err(|error| places.misread(&error))?;
        let file = Placed { file: &file, places: &places };
        let traces = file.traces(folder)?;
        let policies = file.policies()?;
        let tiers = file.tiers()?;
        let parameters = file.parameters()?;
        file.check_timing()?;
        file.check_parameters(&policies, &parameters)?;
        let mut of_one_trace = vec![];
        for place in 0..policies.len() {
            of_one_trace.extend(file.configurations(
                &policies,
                place,
                &tiers,
                &parameters,
                folder,
            )?);
        }
        let options = file.options()?;
        let points = (0..traces.len()).flat_map(|trace| {
            let point = move |configuration| SweepPoint { trace, configuration };
            of_one_trace.iter().cloned().map(point)
        });
        Ok(Self { points: points.collect(), traces, options })
    }
}

impl Placed<'_> {
    fn traces(&self, folder: &Path) -> Result<Vec<TraceSource>, LabError> {
        let sections = self.file.trace.iter().enumerate();
        let traces: Result<Vec<TraceSource>, LabError> = sections
            .map(|(place, section)| {
                let wrong = |key: &'static str| {
                    move |error: TraceError| {
                        self.places.bad(&[Key("trace"), At(place), Key(key)], error)
                    }
                };
                let page_size = section.page_size.as_deref().map(str::parse::<PageSize>);
                let format = section.format.as_deref().map(str::parse);
                Ok(TraceSource {
                    name: section.path.clone(),
                    place: Some(self.places.find(&[Key("trace"), At(place), Key("path")])),
                    path: folder.join(&section.path),
                    page_size: page_size.transpose().map_err(wrong("page_size"))?,
                    format: format.transpose().map_err(wrong("format"))?,
                    time_unit: section.time_unit.map(UnitWord::into_trace),
                    allow_truncated: section.allow_truncated,
                    only_classes: section.only.names(),
                    volume_of: section.volumes.into_trace(),
                })
            })
            .collect();
        self.some("trace", traces?)
    }

    /// A list, if it has an element.
    fn some<T>(&self, key: &str, all: Vec<T>) -> Result<Vec<T>, LabError> {
        if all.is_empty() {
            return Err(self.places.bad(&[Key(key)], "it takes at least one"));
        }
        Ok(all)
    }

    fn policies(&self) -> Result<Vec<&'static Entry>, LabError> {
        let policies = &self.file.policies;
        if policies.as_str() == Some("all") {
            let depth = self.file.tier.len();
            let all = registry::entries().iter().filter(|entry| entry.depth.allows(depth));
            return self.some("policies", all.collect());
        }
        let Some(names) = policies.as_array() else {
            let reason = format!("{policies} is no list: write [\"hat\", \"lru\"], or \"all\"");
            return Err(self.places.bad(&[Key("policies")], reason));
        };
        let find = |(place, name): (usize, &toml::Value)| {
            find_policy(&word(name))
                .map_err(|error| self.places.bad(&[Key("policies"), At(place)], error))
        };
        let found: Result<_, LabError> = names.iter().enumerate().map(find).collect();
        self.some("policies", found?)
    }

    /// The tiers as words, each with all its sizes.
    fn tiers(&self) -> Result<Vec<String>, LabError> {
        let tier = |(place, tier): (usize, &TierSection)| {
            let key = [Key("tier"), At(place), Key("sizes")];
            let sizes = tier.sizes.words().map_err(|reason| self.places.bad(&key, reason))?;
            for (place, size) in sizes.iter().enumerate() {
                let steps = [&key[..], &[At(place)]].concat();
                size.parse::<TierSize>().map_err(|error| self.places.bad(&steps, error))?;
            }
            Ok(format!("{}={}", tier.name, sizes.join(",")))
        };
        let tiers: Result<_, LabError> = self.file.tier.iter().enumerate().map(tier).collect();
        self.some("tier", tiers?)
    }

    /// The parameters by their full names, each with all its values.
    fn parameters(&self) -> Result<Vec<SweptParameter<'_>>, LabError> {
        let mut all = vec![];
        for (name, value) in &self.file.parameters {
            // `hat.w = [..]` is a table to TOML, `"hat.w" = [..]` is not.
            let nested = value.as_table().filter(|table| !table.contains_key("from"));
            let keys: Vec<(Vec<&str>, &toml::Value)> = match nested {
                Some(table) => {
                    table.iter().map(|(inner, value)| (vec![name, inner.as_str()], value)).collect()
                }
                None => vec![(vec![name], value)],
            };
            for (keys, value) in keys {
                let swept = SweptParameter { name: keys.join("."), keys, values: vec![] };
                let bad = |reason: String| self.places.bad(&swept.steps(), reason);
                let values: Values =
                    value.clone().try_into().map_err(|error| bad(format!("{error}")))?;
                let values = values.words().map_err(bad)?;
                all.push(SweptParameter { values, ..swept });
            }
        }
        Ok(all)
    }

    /// Every parameter belongs to a policy, or to the identifier, and may have these values.
    fn check_parameters(
        &self,
        policies: &[&'static Entry],
        parameters: &[SweptParameter<'_>],
    ) -> Result<(), LabError> {
        let identifier = self.identifier()?;
        let mut owners: Vec<Owner> = policies.iter().map(|&policy| policy.into()).collect();
        owners.extend(identifier.map(Owner::from));
        for parameter in parameters {
            for (place, value) in parameter.values.iter().enumerate() {
                let steps = [&parameter.steps()[..], &[At(place)]].concat();
                let bad = |error: &dyn std::fmt::Display| self.places.bad(&steps, error);
                let word = [format!("{}={value}", parameter.name)];
                let given = Given::parse(&word, &owners).map_err(|error| bad(&reason(&error)))?;
                for &policy in policies {
                    policy.values(&given.of(policy.into())).map_err(|error| bad(&error))?;
                }
                if let Some(entry) = identifier {
                    entry.values(&given.of(entry.into())).map_err(|error| bad(&error))?;
                }
            }
        }
        Ok(())
    }

    fn check_timing(&self) -> Result<(), LabError> {
        let keys = [
            ("closed_loop", self.file.closed_loop.is_some()),
            ("model", !self.file.model.is_empty()),
        ];
        for (key, is_given) in keys {
            if is_given && self.file.timing == TimingWord::Cost {
                return Err(self.places.bad(&[Key(key)], "it belongs to timing = \"events\""));
            }
        }
        if self.file.closed_loop == Some(0) {
            return Err(self.places.bad(&[Key("closed_loop")], "it takes at least 1 request"));
        }
        Ok(())
    }

    fn options(&self) -> Result<RunOptions, LabError> {
        let bad = |error| self.places.bad(&[Key("warm_up")], error);
        let warm_up = self.file.warm_up.as_deref().map(str::parse::<WarmUp>);
        Ok(RunOptions {
            warm_up: warm_up.transpose().map_err(bad)?.unwrap_or_default(),
            is_checked: self.file.check,
            intervals: 0,
        })
    }

    fn identifier(&self) -> Result<Option<&'static hotness::registry::Entry>, LabError> {
        let found = self.file.admit.as_deref().map(hotness::registry::find).transpose();
        found.map_err(|error| self.places.bad(&[Key("admit")], error))
    }

    /// All configurations of a policy: one for each of its parameters' values and each size.
    fn configurations(
        &self,
        policies: &[&'static Entry],
        place: usize,
        tiers: &[String],
        parameters: &[SweptParameter<'_>],
        folder: &Path,
    ) -> Result<Vec<crate::Configuration>, LabError> {
        let policy = policies[place];
        let mut owners = vec![Owner::from(policy)];
        owners.extend(self.identifier()?.map(Owner::from));
        let mut choices: Vec<Vec<String>> = vec![vec![]];
        for SweptParameter { name, values, .. } in parameters {
            let word = [format!("{name}={}", values[0])];
            if Given::parse(&word, &owners).is_err() {
                continue;
            }
            let extend = |so_far: &Vec<String>| {
                let so_far = so_far.clone();
                values
                    .iter()
                    .map(move |value| [so_far.as_slice(), &[format!("{name}={value}")]].concat())
            };
            choices = choices.iter().flat_map(extend).collect();
        }
        // A policy of one tier leaves flash empty, and is run once for each size of RAM.
        let cache_tiers = if policy.depth == Depth::Ram { 1 } else { tiers.len() };
        let mut all = vec![];
        for parameters in choices {
            let words = self.file.words(&tiers[..cache_tiers], parameters, folder);
            let found = configurations(&words, &[policy], Clients::ONE);
            all.extend(found.map_err(|error| self.placed(place, error))?);
        }
        Ok(all)
    }

    /// What is wrong with the configurations of the policy at a place, by the key that it comes from.
    fn placed(&self, policy: usize, error: LabError) -> LabError {
        let file = self.file;
        let of_policy = [Key("policies"), At(policy)];
        let LabError::BadOption { option, reason } = &error else {
            let is_of_a_file = matches!(error, LabError::File { .. });
            let steps = if is_of_a_file { &[Key("devices")][..] } else { &of_policy };
            return self.places.bad(steps, error);
        };
        let (flag, word) = option.split_once(' ').unwrap_or((option, ""));
        if flag == "--tier" {
            let name = word.split('=').next().unwrap_or(word);
            // Of two tiers with one name, the second one is too many.
            let tier = file.tier.iter().rposition(|tier| tier.name == name);
            return self.places.bad(&[Key("tier"), At(tier.unwrap_or(0)), Key("name")], reason);
        }
        let lists = [
            ("device", &file.device),
            ("cost", &file.cost),
            ("latency", &file.latency),
            ("price", &file.price),
            ("model", &file.model),
        ];
        let list = lists.into_iter().find(|(key, _)| flag.strip_prefix("--") == Some(*key));
        match list.and_then(|(key, words)| Some((key, words.iter().position(|w| w == word)?))) {
            Some((key, place)) => self.places.bad(&[Key(key), At(place)], reason),
            None => self.places.bad(&of_policy, reason),
        }
    }
}

impl<'a> SweptParameter<'a> {
    fn steps(&self) -> Vec<Step<'a>> {
        [Key("parameters")].into_iter().chain(self.keys.iter().copied().map(Key)).collect()
    }
}

impl File {
    fn words(&self, tiers: &[String], parameters: Vec<String>, folder: &Path) -> HierarchyWords {
        // What is said of a tier that the policy does not have is not for it.
        let names: Vec<&str> =
            tiers.iter().filter_map(|tier| Some(tier.split_once('=')?.0)).collect();
        let has = |word: &&String| {
            let tier = word.split_once('=').map_or("", |(tier, _)| tier);
            let is_elsewhere = self.tier.iter().any(|section| section.name == tier);
            names.contains(&tier) || !is_elsewhere
        };
        let kept =
            |words: &[String]| -> Vec<String> { words.iter().filter(has).cloned().collect() };
        HierarchyWords {
            tiers: tiers.to_vec(),
            devices: kept(&self.device),
            costs: kept(&self.cost),
            latencies: kept(&self.latency),
            prices: kept(&self.price),
            device_file: self.devices.as_ref().map(|file| folder.join(file)),
            parameters,
            write_miss: match self.write_miss {
                MissWord::Fetch => WriteMiss::Fetch,
                MissWord::Allocate => WriteMiss::Allocate,
            },
            admit: self.admit.clone(),
            timing: TimingWords {
                is_events: self.timing == TimingWord::Events,
                closed_loop: self.closed_loop,
                models: kept(&self.model).iter().map(|word| in_folder(word, folder)).collect(),
            },
            watch: Watch::default(),
        }
    }
}

impl UnitWord {
    const fn into_trace(self) -> TimeUnit {
        match self {
            Self::Ns => TimeUnit::Nanoseconds,
            Self::Us => TimeUnit::Microseconds,
            Self::Ms => TimeUnit::Milliseconds,
        }
    }
}

impl VolumesWord {
    const fn into_trace(self) -> VolumeOf {
        match self {
            Self::All => VolumeOf::All,
            Self::Files => VolumeOf::File,
        }
    }
}

impl Default for Classes {
    fn default() -> Self {
        Self::List(vec![])
    }
}

impl Classes {
    fn names(&self) -> Vec<String> {
        match self {
            Self::List(names) => names.clone(),
            Self::Words(words) => words.split(',').map(|name| name.trim().to_owned()).collect(),
        }
    }
}

impl Values {
    /// The values as words, at least one, or what is wrong.
    fn words(&self) -> Result<Vec<String>, String> {
        let words = match self {
            Self::List(values) => values.iter().map(word).collect(),
            Self::One(toml::Value::Table(_)) => {
                return Err("a range has `from`, `to`, and either `step` or `factor`".into());
            }
            Self::One(value) => vec![word(value)],
            Self::Range(range) => range.words()?,
        };
        if words.is_empty() {
            return Err("the list is empty: it takes at least one value".into());
        }
        Ok(words)
    }
}

impl Range {
    /// From the first value to the last one that is not beyond `to`.
    fn words(&self) -> Result<Vec<String>, String> {
        let [(from, unit), (to, other)] = [quantity(&self.from)?, quantity(&self.to)?];
        let step = self.step.as_ref().map(quantity).transpose()?;
        if unit != other || step.as_ref().is_some_and(|(_, of_step)| *of_step != unit) {
            return Err("a range is of one unit: `from`, `to` and `step` differ in theirs".into());
        }
        let next: Box<dyn Fn(usize) -> f64> = match (step, self.factor) {
            (Some((step, _)), None) if step > 0.0 => {
                Box::new(move |index| from + step * index as f64)
            }
            (None, Some(factor)) if factor > 1.0 && factor.is_finite() && from > 0.0 => {
                Box::new(move |index| from * factor.powf(index as f64))
            }
            _ => {
                return Err("a range takes either a `step` above 0, or a `factor` above 1 and a `from` above 0".into());
            }
        };
        // The last value may miss `to` by rounding.
        let limit = to + to.abs() * 1e-9;
        let values: Vec<f64> =
            (0..=RANGE_MAX).map(next).take_while(|value| *value <= limit).collect();
        match values.len() {
            0 => Err("`from` is beyond `to`".into()),
            count if count > RANGE_MAX => Err(format!("a range has at most {RANGE_MAX} values")),
            _ => Ok(values.into_iter().map(|value| format!("{}{unit}", rounded(value))).collect()),
        }
    }
}

/// A number and its unit: of sizes that of [`TierSize`], of plain numbers none.
fn quantity(value: &toml::Value) -> Result<(f64, String), String> {
    if let Some(number) = value.as_float().or_else(|| Some(value.as_integer()? as f64)) {
        return Ok((number, String::new()));
    }
    let text = value.as_str().ok_or_else(|| format!("{value} is no number and no size"))?;
    let (number, unit) = match text.parse::<TierSize>().map_err(|error| error.to_string())? {
        TierSize::Bytes(bytes) => (bytes, "B"),
        TierSize::Pages(pages) => (pages, "p"),
        TierSize::FootprintPercent(percent) => (percent, "%"),
        TierSize::TimesAbove(times) => (times, "x"),
    };
    Ok((number, unit.into()))
}

/// A value without what rounding adds in its last digits.
fn rounded(value: f64) -> f64 {
    let digits = format!("{value:.12e}");
    digits.parse().unwrap_or(value)
}

/// What is wrong with an option, without the option.
fn reason(error: &LabError) -> String {
    if let LabError::BadOption { reason, .. } = error { reason.clone() } else { error.to_string() }
}

/// A model of a tier whose file, if it is one, is in the folder.
fn in_folder(word: &str, folder: &Path) -> String {
    match word.split_once('=') {
        Some((tier, model)) if Path::new(model).extension().is_some_and(|end| end == "toml") => {
            format!("{tier}={}", folder.join(model).display())
        }
        _ => word.to_owned(),
    }
}

fn word(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Sweep, String> {
        parse_as(text, Origin::File)
    }

    fn parse_as(text: &str, origin: Origin) -> Result<Sweep, String> {
        Sweep::parse_of(text, Path::new("there"), origin).map_err(|error| error.to_string())
    }

    const SMALL: &str = r#"
        policies = ["face", "lru"]
        device = ["flash=nvme-ssd"]
        [[trace]]
        path = "a.csv"
        page_size = "8KiB"
        [[tier]]
        name = "ram"
        sizes = { from = "100p", to = "400p", factor = 2 }
        [[tier]]
        name = "flash"
        sizes = ["1x", "4x"]
        [parameters]
    "#;

    #[test]
    fn ranges_have_both_ends() {
        for (range, expected) in [
            ("{ from = 1, to = 10, step = 3 }", &["1", "4", "7", "10"][..]),
            ("{ from = 0.1, to = 0.3, step = 0.1 }", &["0.1", "0.2", "0.3"]),
            ("{ from = '1MiB', to = '5MiB', factor = 2 }", &["1048576B", "2097152B", "4194304B"]),
            ("{ from = '5%', to = '5%', step = '1%' }", &["5%"]),
        ] {
            let value: toml::Table = format!("x = {range}").parse().unwrap();
            let values: Values = value["x"].clone().try_into().unwrap();
            assert_eq!(values.words().unwrap(), expected, "{range}");
        }
        for (range, expected) in [
            ("{ from = 1, to = 10 }", "`step` above 0"),
            ("{ from = 1, to = 10, step = 0 }", "`step` above 0"),
            ("{ from = 1, to = 10, factor = 1 }", "`factor` above 1"),
            ("{ from = 2, to = 1, step = 1 }", "beyond `to`"),
            ("{ from = '1p', to = '1%', step = '1p' }", "one unit"),
            ("{ from = 1, to = 1e9, step = 1 }", "at most 10000"),
            ("{ from = 1, to = 2, by = 1 }", "either `step` or `factor`"),
            ("{ from = true, to = 1, step = 1 }", "no number"),
            ("[]", "at least one value"),
        ] {
            let value: toml::Table = format!("x = {range}").parse().unwrap();
            let values: Values = value["x"].clone().try_into().unwrap();
            let error = values.words().unwrap_err();
            assert!(error.contains(expected), "{range}: {error}");
        }
    }

    #[test]
    fn points_are_the_product_of_what_each_policy_takes() {
        let sweep = parse(SMALL).unwrap();
        let points: Vec<(&str, usize)> = sweep
            .points
            .iter()
            .map(|point| (point.configuration.policy.name, point.configuration.tiers.len()))
            .collect();
        let expected = [vec![("face", 2); 6], vec![("lru", 1); 3]].concat();
        assert_eq!(points, expected);
        assert_eq!(sweep.traces[0].path, Path::new("there/a.csv"));
        assert_eq!(sweep.points[0].configuration.tiers[1].device.name, "nvme-ssd");
        // Of two policies the one that has the parameter is run with each value of it.
        let swept = SMALL.to_owned() + "face.cache_clean = [true, false]";
        assert_eq!(parse(&swept).unwrap().points.len(), 2 * 6 + 3);
        let quoted = SMALL.to_owned() + "'face.cache_clean' = true";
        assert_eq!(parse(&quoted).unwrap().points.len(), 6 + 3);
    }

    #[test]
    fn classes_are_a_list_or_words() {
        for (only, expected) in [
            ("'data'", &["data"][..]),
            ("'data, log'", &["data", "log"]),
            ("['log', 'other']", &["log", "other"]),
        ] {
            let text = SMALL.replacen("\"8KiB\"", &format!("\"8KiB\"\nonly = {only}"), 1);
            assert_eq!(parse(&text).unwrap().traces[0].only_classes, expected);
        }
        let by_file = SMALL.replacen("\"8KiB\"", "\"8KiB\"\nvolumes = 'files'", 1);
        assert_eq!(parse(&by_file).unwrap().traces[0].volume_of, VolumeOf::File);
        assert_eq!(parse(SMALL).unwrap().traces[0].volume_of, VolumeOf::All);
    }

    #[test]
    fn keys_change_with_what_they_are_of() {
        let key = |text: &str, sha256: &str| {
            let sweep = parse(text).unwrap();
            sweep.points[0].key(&sweep.traces[0], sha256, sweep.options)
        };
        let text = SMALL;
        let first = key(text, "00");
        assert_eq!(first, key(text, "00"));
        assert_eq!(first.len(), 32);
        assert_ne!(first, key(text, "01"), "another trace");
        for (from, to) in [
            ("8KiB", "4KiB"),
            ("nvme-ssd", "sata-ssd"),
            ("100p", "101p"),
            ("policies", "warm_up = '10%'\npolicies"),
            ("policies", "write_miss = 'allocate'\npolicies"),
            ("policies", "check = true\npolicies"),
            ("policies", "timing = 'events'\npolicies"),
            ("\"8KiB\"", "\"8KiB\"\nonly = 'data'"),
            ("\"8KiB\"", "\"8KiB\"\nvolumes = 'files'"),
        ] {
            assert_ne!(first, key(&text.replacen(from, to, 1), "00"), "{to}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (from, to, place, reason) in [
            ("\"lru\"", "\"lru2\"", "line 2, key `policies`", "lru2"),
            ("\"lru\"", "3", "line 2, key `policies`", "called `3`"),
            ("policies", "polices", "line 2", "polices"),
            ("\"face\"", "\"face\" \"hat\"", "line 2", "parse error"),
            ("nvme-ssd", "floppy", "line 3, key `device`", "floppy"),
            ("flash=nvme-ssd", "tape=nvme-ssd", "line 3, key `device`", "flash, disk"),
            ("\"8KiB\"", "\"lots\"", "line 6, key `trace.page_size`", "4KiB"),
            ("\"8KiB\"", "\"8KiB\"\nformat = \"lots\"", "line 7, key `trace.format`", "spc"),
            ("factor = 2", "factor = 1", "line 9, key `tier.sizes`", "above 1"),
            ("name = \"flash\"", "name = \"tape\"", "line 11, key `tier.name`", "ram, flash"),
            ("name = \"flash\"", "name = \"ram\"", "line 11, key `tier.name`", "twice"),
            ("\"4x\"", "\"4y\"", "line 12, key `tier.sizes`", "64MiB"),
            ("[\"1x\", \"4x\"]", "[]", "line 12, key `tier.sizes`", "at least one"),
            ("\"8KiB\"", "\"8KiB\"\nvolumes = \"disks\"", "line 7", "`files`"),
            ("\"8KiB\"", "\"8KiB\"\nonly = 3", "line 7", "only"),
            (
                "[parameters]",
                "[parameters]\nface.colour = 1",
                "line 14, key `parameters.face.colour`",
                "face.",
            ),
            (
                "[parameters]",
                "[parameters]\nhat.w = 1",
                "line 14, key `parameters.hat.w`",
                "take part",
            ),
            (
                "[parameters]",
                "[parameters]\nface.cache_clean = [true, \"x\"]",
                "line 14, key `parameters.face.cache_clean`",
                "`x`",
            ),
            ("[\"face\", \"lru\"]", "\"many\"", "line 2, key `policies`", "\"all\""),
            ("[\"face\", \"lru\"]", "[]", "line 2, key `policies`", "at least one"),
            ("policies", "warm_up = 'x'\npolicies", "line 2, key `warm_up`", "20%"),
            ("policies", "admit = 'x'\npolicies", "line 2, key `admit`", "`x`"),
            ("policies", "closed_loop = 4\npolicies", "line 2, key `closed_loop`", "events"),
            ("policies", "devices = 'x.toml'\npolicies", "line 2, key `devices`", "x.toml"),
            (
                "policies",
                "price = ['ram=1', 'flash=-1']\npolicies",
                "line 2, key `price`",
                "at least 0",
            ),
            ("policies", "timing = 'event'\npolicies", "line 2", "`events`"),
        ] {
            let error = parse(&SMALL.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(place) && error.contains(reason), "{to}: {error}");
        }
    }

    #[test]
    fn mistakes_of_a_mapping_are_told_by_their_keys() {
        for (from, to, expected) in [
            ("\"lru\"", "\"lruu\"", "key `policies[1]`: no policy"),
            ("\"4x\"", "\"4y\"", "key `tier[1].sizes[1]`: `4y` is no size"),
            ("\"4x\"", "\"4x\"]\nwidth = [1", "key `tier[1].width`: unknown field `width`"),
            ("\"8KiB\"", "8192", "key `trace[0].page_size`: invalid type"),
            ("path = \"a.csv\"", "", "key `trace[0]`: missing field `path`"),
            ("policies =", "policy =", "key `policy`: unknown field `policy`"),
            ("[[trace]]", "timing = 'event'\n[[trace]]", "key `timing`: unknown variant `event`"),
            ("[parameters]", "[parameters]\nlc.w = 1", "key `parameters.lc.w`: `lc` does not"),
        ] {
            let error = parse_as(&SMALL.replacen(from, to, 1), Origin::Mapping).unwrap_err();
            assert!(error.starts_with(expected), "{to}: {error}");
            assert!(!error.contains("line"), "{error}");
        }
        let error = parse_as("check = true", Origin::Mapping).unwrap_err();
        assert_eq!(error, "missing field `trace`");
    }
}
