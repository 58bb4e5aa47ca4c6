//! Contents of a sweep's TOML file.

use std::collections::BTreeMap;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use serde::Deserialize;
use thermocline_core::Clients;
use thermocline_core::config::Given;
use thermocline_core::hotness::registry::IdentifierEntry;
use thermocline_core::registry::{self, PolicyEntry};
use thermocline_trace::{Mapping, Objects, PageSize, TimeUnit, TraceError, VolumeOf, text_file};

use super::options::{GivenOption, WithOptions};
use super::places::Step::{At, Key};
use super::places::{Origin, Places, Step};
use super::values::{BadValues, Values, given_of, size_of, word};
use super::{Sweep, SweepPoint, TraceSource};
use crate::hierarchy::find_among;
use crate::parameters::check;
use crate::spec::{
    ColumnsSpec, DISK, DriveSpec, HierarchySpec, ModelSpec, ParameterSpec, Setting,
    Step as SpecStep, TierSetting, TierSpec,
};
use crate::{LabError, Owner, RunOptions, WarmUp, configurations};

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
    device: Vec<String>,
    #[serde(default)]
    cost: Vec<String>,
    #[serde(default)]
    latency: Vec<String>,
    #[serde(default)]
    price: Vec<String>,
    devices: Option<std::path::PathBuf>,
    #[serde(default)]
    model: Vec<String>,
}

/// A file, the options of its hierarchy, and where its keys are.
struct Placed<'a> {
    file: &'a File,
    options: &'a [GivenOption],
    places: &'a Places<'a>,
}

/// A parameter with all its values.
struct SweptParameter<'a> {
    /// Name as users write it: `w`, or `hat.w`.
    name: String,
    /// Keys as TOML has them.
    keys: Vec<&'a str>,
    /// Values, at least one.
    values: Vec<Given>,
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
    #[serde(default)]
    objects: ObjectsWord,
    /// Columns of a trace of no known format.
    columns: Option<Described>,
}

/// A description of columns: the words alone, or a table with all there is.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Described {
    Words(String),
    Table(ColumnsSpec),
}

impl Described {
    /// Return the meaning of the columns.
    pub(crate) fn mapping(&self) -> Result<Arc<Mapping>, TraceError> {
        let mapping = match self {
            Self::Words(words) => words.parse::<Mapping>(),
            Self::Table(table) => table.mapping(),
        };
        mapping.map(Arc::new)
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ObjectsWord {
    #[default]
    Pages,
    One,
}

impl ObjectsWord {
    pub(crate) const fn into_trace(self) -> Objects {
        match self {
            Self::Pages => Objects::Pages,
            Self::One => Objects::One,
        }
    }
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
pub(crate) enum Classes {
    List(Vec<String>),
    Words(String),
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum VolumesWord {
    #[default]
    All,
    Files,
}

/// Parser of a setting's text.
type ParseSetting = fn(&str) -> Result<TierSetting, String>;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UnitWord {
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
        let text = text_file::read(path).map_err(|error| LabError::file(path, error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder).map_err(|error| LabError::file(path, error))
    }

    /// Return the same, from its text; paths in it are relative to `folder`.
    ///
    /// # Errors
    /// If it is invalid, with the place.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, LabError> {
        Self::parse_of(text, folder, Origin::File, &[])
    }

    /// Return the same, from TOML that a mapping was turned into: nobody has seen its lines, so
    /// errors name keys only, with the numbers of elements. `policies` may name policies of the
    /// caller, `own`.
    ///
    /// # Errors
    /// If it is invalid, with the place.
    pub fn parse_mapping(text: &str, folder: &Path, own: &[PolicyEntry]) -> Result<Self, LabError> {
        Self::parse_of(text, folder, Origin::Mapping, own)
    }

    fn parse_of(
        text: &str,
        folder: &Path,
        origin: Origin,
        own: &[PolicyEntry],
    ) -> Result<Self, LabError> {
        let places = Places::new(text, origin)?;
        let file: WithOptions<File> =
            toml::from_str(text).map_err(|error| places.misread(&error))?;
        let file = Placed { file: &file.rest, options: &file.options, places: &places };
        let traces = file.traces(folder)?;
        let policies = file.policies(own)?;
        let spec = file.hierarchy(folder)?;
        let parameters = file.parameters()?;
        file.check_parameters(&policies, &spec, &parameters)?;
        let mut of_one_trace = vec![];
        for place in 0..policies.len() {
            of_one_trace.extend(file.configurations(&policies, place, &spec, &parameters)?);
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
                    objects: section.objects.into_trace(),
                    columns: section
                        .columns
                        .as_ref()
                        .map(Described::mapping)
                        .transpose()
                        .map_err(wrong("columns"))?,
                })
            })
            .collect();
        self.some("trace", traces?)
    }

    /// Return a list, if it has an element.
    fn some<T>(&self, key: &str, all: Vec<T>) -> Result<Vec<T>, LabError> {
        if all.is_empty() {
            return Err(self.places.bad(&[Key(key)], "expected at least one"));
        }
        Ok(all)
    }

    fn policies(&self, own: &[PolicyEntry]) -> Result<Vec<PolicyEntry>, LabError> {
        let policies = &self.file.policies;
        if policies.as_str() == Some("all") {
            let depth = self.file.tier.len();
            let all = registry::entries().filter(|entry| entry.capabilities.depth.allows(depth));
            return self.some("policies", all.cloned().collect());
        }
        let Some(names) = policies.as_array() else {
            let reason = format!("{policies} is not a list: write [\"hat\", \"lru\"], or \"all\"");
            return Err(self.places.bad(&[Key("policies")], reason));
        };
        let find = |(place, name): (usize, &toml::Value)| {
            find_among(own, &word(name))
                .map_err(|error| self.places.bad(&[Key("policies"), At(place)], error))
        };
        let found: Result<_, LabError> = names.iter().enumerate().map(find).collect();
        self.some("policies", found?)
    }

    /// Return the hierarchy with all its tiers, each with all its sizes, checked.
    fn hierarchy(&self, folder: &Path) -> Result<HierarchySpec, LabError> {
        let file = self.file;
        let mut spec = HierarchySpec {
            tiers: self.tiers()?,
            device_file: file.devices.as_ref().map(|file| folder.join(file)),
            ..self.shared()?
        };
        // The settings of tiers below name tiers, which must be right first.
        spec.check().map_err(|error| self.placed(error))?;
        for (key, words, parse) in file.settings() {
            for (place, word) in words.iter().enumerate() {
                let set = |mut setting: TierSetting| {
                    if let Setting::Model(ModelSpec::Drive(DriveSpec::File(path))) =
                        &mut setting.setting
                    {
                        *path = folder.join(&path);
                    }
                    spec.set(setting)
                };
                parse(word)
                    .and_then(set)
                    .map_err(|reason| self.places.bad(&[Key(key), At(place)], reason))?;
            }
        }
        spec.check().map_err(|error| self.placed(error))?;
        Ok(spec)
    }

    /// Return a hierarchy without tiers that has the options.
    fn shared(&self) -> Result<HierarchySpec, LabError> {
        let mut spec = HierarchySpec::default();
        for option in self.options {
            let bad = |reason| self.places.bad(&[Key(option.key)], reason);
            option.apply(&mut spec).map_err(bad)?;
        }
        Ok(spec)
    }

    fn tiers(&self) -> Result<Vec<TierSpec>, LabError> {
        let tier = |(place, tier): (usize, &TierSection)| {
            let sizes = tier.sizes.typed(size_of, |number, unit| unit.size(number));
            let sizes = sizes
                .map_err(|error| self.bad_values(&[Key("tier"), At(place), Key("sizes")], error))?;
            Ok(TierSpec::new(&tier.name, &sizes))
        };
        let tiers: Result<_, LabError> = self.file.tier.iter().enumerate().map(tier).collect();
        self.some("tier", tiers?)
    }

    /// Return the parameters by their full names, each with all its values.
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
                let values = values
                    .typed(|value| Ok(given_of(value)), |number, unit| Ok(unit.given(number)));
                let values = values.map_err(|error| self.bad_values(&swept.steps(), error))?;
                all.push(SweptParameter { values, ..swept });
            }
        }
        Ok(all)
    }

    /// Check that every parameter belongs to a policy, or to the identifier, and may have these
    /// values.
    fn check_parameters(
        &self,
        policies: &[PolicyEntry],
        spec: &HierarchySpec,
        parameters: &[SweptParameter<'_>],
    ) -> Result<(), LabError> {
        let identifiers = self.identifiers(spec)?;
        let mut owners: Vec<Owner<'_>> = policies.iter().map(Owner::from).collect();
        owners.extend(identifiers.into_iter().map(Owner::from));
        for parameter in parameters {
            for (place, value) in parameter.values.iter().enumerate() {
                let steps = [&parameter.steps()[..], &[At(place)]].concat();
                check(&parameter.spec(value), &owners)
                    .map_err(|reason| self.places.bad(&steps, reason))?;
            }
        }
        Ok(())
    }

    /// Create the error of a key's values.
    fn bad_values(&self, steps: &[Step<'_>], (place, reason): BadValues) -> LabError {
        self.places.bad(&[steps, place.map(At).as_slice()].concat(), reason)
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

    fn identifiers(&self, spec: &HierarchySpec) -> Result<Vec<&'static IdentifierEntry>, LabError> {
        spec.identifiers().map_err(|error| self.placed(error))
    }

    /// Return all configurations of a policy: one for each of its parameters' values and each size.
    fn configurations(
        &self,
        policies: &[PolicyEntry],
        place: usize,
        spec: &HierarchySpec,
        parameters: &[SweptParameter<'_>],
    ) -> Result<Vec<crate::Configuration>, LabError> {
        let policy = &policies[place];
        let mut owners = vec![Owner::from(policy)];
        owners.extend(self.identifiers(spec)?.into_iter().map(Owner::from));
        let mut choices: Vec<Vec<ParameterSpec>> = vec![vec![]];
        for parameter in parameters {
            if check(&parameter.spec(&parameter.values[0]), &owners).is_err() {
                continue;
            }
            let extend = |so_far: &Vec<ParameterSpec>| {
                let so_far = so_far.clone();
                let values = parameter.values.iter();
                values.map(move |value| [so_far.as_slice(), &[parameter.spec(value)]].concat())
            };
            choices = choices.iter().flat_map(extend).collect();
        }
        let mut all = vec![];
        for parameters in choices {
            let spec = HierarchySpec { parameters, ..spec.clone() };
            let found = configurations(&spec, slice::from_ref(policy), Clients::ONE);
            let of_policy = [Key("policies"), At(place)];
            all.extend(found.map_err(|error| self.places.bad(&of_policy, error))?);
        }
        Ok(all)
    }

    /// Create the error of a hierarchy, with the key of the file that it comes from.
    fn placed(&self, error: LabError) -> LabError {
        let LabError::Spec { path, reason } = &error else {
            return self.places.bad(&[Key("devices")], error);
        };
        let steps = match *path.steps() {
            [
                SpecStep::Key("tiers"),
                SpecStep::At(tier),
                SpecStep::Key(key @ ("name" | "sizes")),
            ] => {
                vec![Key("tier"), At(tier), Key(key)]
            }
            [SpecStep::Key("tiers"), SpecStep::At(tier), _, SpecStep::Key(field)] => {
                self.setting(&self.file.tier[tier].name, field)
            }
            [SpecStep::Key(DISK), SpecStep::Key(field)] => self.setting(DISK, field),
            _ => path.keys().last().map(Key).into_iter().collect(),
        };
        self.places.bad(&steps, reason)
    }

    /// Return the path of the setting from which a field of a tier's device comes.
    fn setting(&self, tier: &str, field: &str) -> Vec<Step<'static>> {
        let key = match field {
            "name" => "device",
            "latency_ms" => "latency",
            "cost" => "cost",
            "price" => "price",
            _ => "model",
        };
        let mut settings = self.file.settings().into_iter();
        let words =
            settings.find(|(known, ..)| *known == key).map_or(&[][..], |(_, words, _)| words);
        // Of several settings of one tier the last one counts.
        let place = words
            .iter()
            .rposition(|word| word.split_once('=').is_some_and(|(of_tier, _)| of_tier == tier));
        [Key(key)].into_iter().chain(place.map(At)).collect()
    }
}

impl<'a> SweptParameter<'a> {
    fn steps(&self) -> Vec<Step<'a>> {
        [Key("parameters")].into_iter().chain(self.keys.iter().copied().map(Key)).collect()
    }

    fn spec(&self, value: &Given) -> ParameterSpec {
        ParameterSpec::new(&self.name, value.clone())
    }
}

impl File {
    /// Return the lists of settings of tiers: key, texts, and how a text is read.
    fn settings(&self) -> [(&'static str, &[String], ParseSetting); 5] {
        [
            ("device", &self.device, TierSetting::device),
            ("cost", &self.cost, TierSetting::cost),
            ("latency", &self.latency, TierSetting::latency),
            ("price", &self.price, TierSetting::price),
            ("model", &self.model, TierSetting::model),
        ]
    }
}

impl UnitWord {
    pub(crate) const fn into_trace(self) -> TimeUnit {
        match self {
            Self::Ns => TimeUnit::Nanoseconds,
            Self::Us => TimeUnit::Microseconds,
            Self::Ms => TimeUnit::Milliseconds,
        }
    }
}

impl VolumesWord {
    pub(crate) const fn into_trace(self) -> VolumeOf {
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
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::List(names) => names.clone(),
            Self::Words(words) => words.split(',').map(|name| name.trim().to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Sweep, String> {
        parse_as(text, Origin::File)
    }

    fn parse_as(text: &str, origin: Origin) -> Result<Sweep, String> {
        Sweep::parse_of(text, Path::new("there"), origin, &[]).map_err(|error| error.to_string())
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
    fn points_are_the_product_of_what_each_policy_takes() {
        let sweep = parse(SMALL).unwrap();
        let points: Vec<(&str, usize)> = sweep
            .points
            .iter()
            .map(|point| (&*point.configuration.policy.name, point.configuration.tiers.len()))
            .collect();
        let expected = [vec![("face", 2); 6], vec![("lru", 2); 6]].concat();
        assert_eq!(points, expected);
        assert_eq!(sweep.traces[0].path, Path::new("there/a.csv"));
        assert_eq!(sweep.points[0].configuration.tiers[1].device.name, "nvme-ssd");
        // Of two policies the one that has the parameter is run with each value of it.
        let swept = SMALL.to_owned() + "face.cache_clean = [true, false]";
        assert_eq!(parse(&swept).unwrap().points.len(), 2 * 6 + 6);
        let quoted = SMALL.to_owned() + "'face.cache_clean' = true";
        assert_eq!(parse(&quoted).unwrap().points.len(), 6 + 6);
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
            ("\"lru\"", "3", "line 2, key `policies`", "policy `3`"),
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
            ("policies", "admit = 3\npolicies", "line 2", "a string"),
            ("policies", "admitt = 'mbf'\npolicies", "line 2", "`closed_loop`"),
            (
                "policies",
                "timing = 'events'\nclosed_loop = 0\npolicies",
                "line 3, key `closed_loop`",
                "at least 1 request",
            ),
        ] {
            let error = parse(&SMALL.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(place) && error.contains(reason), "{to}: {error}");
        }
    }

    #[test]
    fn mistakes_of_a_mapping_are_told_by_their_keys() {
        for (from, to, expected) in [
            ("\"lru\"", "\"lruu\"", "key `policies[1]`: unknown policy"),
            ("\"4x\"", "\"4y\"", "key `tier[1].sizes[1]`: invalid size `4y`"),
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
