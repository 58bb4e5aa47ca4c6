//! The manifest of a corpus: a TOML file of data sets and their traces.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thermocline_core::Nanos;
use thermocline_trace::generate::{Options, Pattern, Shift};
use thermocline_trace::{PageSize, TraceError, text_file};

use crate::LabError;
use crate::sweep::places::Step::{At, Key};
use crate::sweep::places::{Origin, Places, Step};
use crate::sweep::{Classes, Described, ObjectsWord, TraceSource, UnitWord, VolumesWord};

/// The traces of a corpus.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The file; errors name it.
    pub path: PathBuf,
    /// The data sets, in the order of the file.
    pub datasets: Vec<Dataset>,
}

/// Traces of one origin.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Its name, unique in the manifest; a folder of the results is called after it.
    pub name: String,
    /// Origin.
    pub origin: Option<String>,
    /// Citation.
    pub citation: Option<String>,
    /// Its licence, in words.
    pub licence: String,
    /// `true` if the licence allows to pass the traces on. No command does.
    pub redistribute: bool,
    /// Its page on the web.
    pub url: Option<String>,
    /// Kind of cache that its traces were taken from.
    pub class: Class,
    /// Its traces, in the order of the file.
    pub traces: Vec<Entry>,
}

/// One trace of a data set.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name, unique in its data set.
    pub name: String,
    /// The file, and how it is read.
    pub source: TraceSource,
    /// Addresses of the pieces of the stored file, in order.
    pub urls: Vec<String>,
    /// Options for generating it, if it is synthetic.
    pub generate: Option<Generated>,
    /// SHA-256 of the stored file; of a recording, of its files one after the other.
    pub sha256: Option<String>,
    /// Bytes of the stored file.
    pub bytes: Option<u64>,
    /// Requests that address something.
    pub requests: Option<u64>,
    /// Distinct pages.
    pub objects: Option<u64>,
    /// Kind of its operations.
    pub ops: Option<Ops>,
    /// Sampling from a larger trace, if it was sampled.
    pub sampling: Option<Sampled>,
    /// Side of the split; `None` in a manifest without a split.
    pub split: Option<Split>,
    /// Traces of one workload are on the same side of the split.
    pub workload: Option<String>,
    /// The line of the manifest that names its file.
    pub(super) path_line: usize,
}

/// Kind of cache that a trace was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Blocks of a volume, or pages of a database.
    Block,
    /// Objects of a store.
    Object,
    /// A key-value cache.
    Kv,
    /// A content delivery network.
    Cdn,
    /// Prompt blocks of a language model.
    Llm,
    /// Made by a generator.
    Synthetic,
}

/// A side of the split between traces for choosing and traces for judging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Parameters may be chosen on it.
    Tune,
    /// Results are reported on it; each policy runs with one setting.
    HoldOut,
}

/// Kind of a trace's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ops {
    /// Reads and writes.
    Yes,
    /// The trace does not say, or has no writes.
    ReadsOnly,
}

/// Sampling of a trace from a larger one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampled {
    /// The share that was taken, above 0 and at most 1.
    pub share: f64,
    /// Sampled items: `pages`, `volumes`, `requests`, or in other words.
    pub by: String,
}

/// Options of a synthetic trace; the keys are those of `thermocline trace generate`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generated {
    kind: Kind,
    requests: u64,
    pages: u64,
    #[serde(default = "one")]
    alpha: f64,
    #[serde(default)]
    write_share: f64,
    #[serde(default)]
    scatter: bool,
    shift_every: Option<u64>,
    shift_pages: Option<u64>,
    #[serde(default = "hundred")]
    interval_us: u64,
    #[serde(default = "first_seed")]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Zipf,
    Uniform,
    Sequential,
    Loop,
    Oltp,
}

const fn one() -> f64 {
    1.0
}

const fn hundred() -> u64 {
    100
}

const fn first_seed() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    dataset: Vec<DatasetSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetSection {
    name: String,
    origin: Option<String>,
    citation: Option<String>,
    licence: String,
    #[serde(default)]
    redistribute: bool,
    url: Option<String>,
    class: Class,
    split: Option<Split>,
    #[serde(default)]
    trace: Vec<TraceSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceSection {
    name: String,
    path: PathBuf,
    #[serde(default)]
    url: Urls,
    generate: Option<Generated>,
    sha256: Option<String>,
    bytes: Option<u64>,
    requests: Option<u64>,
    objects: Option<u64>,
    ops: Option<Ops>,
    sampling: Option<Sampled>,
    split: Option<Split>,
    workload: Option<String>,
    #[serde(alias = "page-size")]
    page_size: Option<String>,
    format: Option<String>,
    time_unit: Option<UnitWord>,
    #[serde(default)]
    allow_truncated: bool,
    #[serde(default)]
    only: Classes,
    #[serde(default)]
    volumes: VolumesWord,
    /// Rule by which objects with sizes get pages; `objects` is their number.
    #[serde(default, rename = "as")]
    read_as: ObjectsWord,
    columns: Option<Described>,
}

/// One address, or those of the pieces of a file in order.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Urls {
    #[default]
    None,
    One(String),
    Pieces(Vec<String>),
}

impl Manifest {
    /// Reads a manifest; the paths of traces are relative to `root`, or to the manifest's folder if
    /// none is given.
    ///
    /// # Errors
    /// [`LabError::File`] that says what is wrong, and where.
    pub fn read(path: &Path, root: Option<&Path>) -> Result<Self, LabError> {
        let text = text_file::read(path).map_err(|error| LabError::file(path, error))?;
        Self::parse(&text, path, root)
    }

    /// Understands the text of a manifest that another process has read from `path`.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn parse(text: &str, path: &Path, root: Option<&Path>) -> Result<Self, LabError> {
        let root = root.unwrap_or_else(|| path.parent().unwrap_or(Path::new("")));
        let datasets = parse(text, root).map_err(|error| LabError::file(path, error))?;
        Ok(Self { path: path.to_owned(), datasets })
    }

    /// Return the traces with their data sets, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&Dataset, &Entry)> {
        self.datasets
            .iter()
            .flat_map(|dataset| dataset.traces.iter().map(move |entry| (dataset, entry)))
    }

    /// `true` if the traces are split.
    pub fn is_split(&self) -> bool {
        self.entries().any(|(_, entry)| entry.split.is_some())
    }
}

impl Generated {
    /// Return the options of the generator.
    pub(super) fn options(&self) -> Options {
        Options {
            pattern: match self.kind {
                Kind::Zipf => Pattern::Zipf { alpha: self.alpha },
                Kind::Uniform => Pattern::Uniform,
                Kind::Sequential => Pattern::Sequential,
                Kind::Loop => Pattern::Loop,
                Kind::Oltp => Pattern::OLTP,
            },
            requests: self.requests,
            pages: self.pages,
            write_share: self.write_share,
            interarrival: Nanos(self.interval_us.saturating_mul(1000)),
            scatter: self.scatter,
            shift: self.shift_every.map(|every_requests| Shift {
                every_requests,
                pages: self.shift_pages.unwrap_or((self.pages / 10).max(1)),
            }),
            seed: self.seed,
        }
    }
}

impl Split {
    /// Return its word in manifests and results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tune => "tune",
            Self::HoldOut => "hold-out",
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Split {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [Self::Tune, Self::HoldOut];
        let found = all.into_iter().find(|split| split.word() == word);
        found.ok_or_else(|| format!("unknown side of a split `{word}`: use tune or hold-out"))
    }
}

impl Class {
    /// Return its word in manifests and results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Object => "object",
            Self::Kv => "kv",
            Self::Cdn => "cdn",
            Self::Llm => "llm",
            Self::Synthetic => "synthetic",
        }
    }
}

/// Return the data sets of a text; paths in it are relative to `root`.
fn parse(text: &str, root: &Path) -> Result<Vec<Dataset>, LabError> {
    let places = Places::new(text, Origin::File)?;
    let file: File = toml::from_str(text).map_err(|error| places.misread(&error))?;
    let reading = Reading { places: &places, root };
    let sections = file.dataset.into_iter().enumerate();
    let datasets: Result<Vec<Dataset>, LabError> =
        sections.map(|(place, section)| reading.dataset(place, section)).collect();
    let datasets = datasets?;
    if datasets.iter().all(|dataset| dataset.traces.is_empty()) {
        return Err(
            places.bad(&[Key("dataset")], "no data set has a trace: add a [[dataset.trace]]")
        );
    }
    reading.check_names(&datasets)?;
    reading.check_splits(&datasets)?;
    Ok(datasets)
}

/// A manifest that is being read.
struct Reading<'a> {
    places: &'a Places<'a>,
    root: &'a Path,
}

/// Return the steps to a key of a trace.
const fn trace_key(dataset: usize, trace: usize, key: &str) -> [Step<'_>; 5] {
    [Key("dataset"), At(dataset), Key("trace"), At(trace), Key(key)]
}

impl Reading<'_> {
    fn dataset(&self, place: usize, section: DatasetSection) -> Result<Dataset, LabError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let name = section.name;
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            let reason = format!(
                "`{name}` cannot name a folder of results: use letters, digits, `-`, `_` and `.`"
            );
            return Err(self.places.bad(&[Key("dataset"), At(place), Key("name")], reason));
        }
        let traces = section.trace.into_iter().enumerate();
        let traces: Result<Vec<Entry>, LabError> =
            traces.map(|(trace, one)| self.entry([place, trace], one, section.split)).collect();
        Ok(Dataset {
            name,
            origin: section.origin,
            citation: section.citation,
            licence: section.licence,
            redistribute: section.redistribute,
            url: section.url,
            class: section.class,
            traces: traces?,
        })
    }

    fn entry(
        &self,
        [dataset, trace]: [usize; 2],
        section: TraceSection,
        split: Option<Split>,
    ) -> Result<Entry, LabError> {
        let steps = |key: &'static str| trace_key(dataset, trace, key);
        let wrong = |key| move |error: TraceError| self.places.bad(&steps(key), error);
        if let Some(sha256) = &section.sha256 {
            let is_digit = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
            if sha256.len() != 64 || !sha256.chars().all(is_digit) {
                let reason =
                    "a SHA-256 has 64 digits from 0 to 9 and a to f: `sha256sum FILE` prints it";
                return Err(self.places.bad(&steps("sha256"), reason));
            }
        }
        let sampling = section.sampling.as_ref();
        if sampling.is_some_and(|sampling| !(sampling.share > 0.0 && sampling.share <= 1.0)) {
            let reason = "a share is above 0 and at most 1";
            return Err(self.places.bad(&steps("sampling"), reason));
        }
        let page_size = section.page_size.as_deref().map(str::parse::<PageSize>);
        let format = section.format.as_deref().map(str::parse);
        Ok(Entry {
            path_line: self.places.line(&steps("path")).unwrap_or(0),
            source: TraceSource {
                name: section.name.clone(),
                place: Some(self.places.find(&steps("path"))),
                path: self.root.join(&section.path),
                page_size: page_size.transpose().map_err(wrong("page_size"))?,
                format: format.transpose().map_err(wrong("format"))?,
                time_unit: section.time_unit.map(UnitWord::into_trace),
                allow_truncated: section.allow_truncated,
                only_classes: section.only.names(),
                volume_of: section.volumes.into_trace(),
                objects: section.read_as.into_trace(),
                columns: section
                    .columns
                    .as_ref()
                    .map(Described::mapping)
                    .transpose()
                    .map_err(wrong("columns"))?,
            },
            name: section.name,
            urls: match section.url {
                Urls::None => vec![],
                Urls::One(url) => vec![url],
                Urls::Pieces(urls) => urls,
            },
            generate: section.generate,
            sha256: section.sha256,
            bytes: section.bytes,
            requests: section.requests,
            objects: section.objects,
            ops: section.ops,
            sampling: section.sampling,
            split: section.split.or(split),
            workload: section.workload,
        })
    }

    fn check_names(&self, datasets: &[Dataset]) -> Result<(), LabError> {
        for (place, dataset) in datasets.iter().enumerate() {
            if datasets[..place].iter().any(|other| other.name == dataset.name) {
                let reason = format!("two data sets are called `{}`", dataset.name);
                return Err(self.places.bad(&[Key("dataset"), At(place), Key("name")], reason));
            }
            for (trace, entry) in dataset.traces.iter().enumerate() {
                if dataset.traces[..trace].iter().any(|other| other.name == entry.name) {
                    let reason =
                        format!("two traces of `{}` are called `{}`", dataset.name, entry.name);
                    return Err(self.places.bad(&trace_key(place, trace, "name"), reason));
                }
            }
        }
        Ok(())
    }

    /// Check the splits: if any trace has a side, all have one, and neither a file nor a workload
    /// is on both.
    fn check_splits(&self, datasets: &[Dataset]) -> Result<(), LabError> {
        let all = || {
            let traces = datasets.iter().enumerate();
            traces.flat_map(|(place, dataset)| {
                dataset.traces.iter().enumerate().map(move |(trace, entry)| (place, trace, entry))
            })
        };
        if all().all(|(_, _, entry)| entry.split.is_none()) {
            return Ok(());
        }
        let mut seen: HashMap<(&str, &str), (Split, &str)> = HashMap::new();
        for (place, trace, entry) in all() {
            let Some(split) = entry.split else {
                let reason = format!(
                    "`{}` is on no side of the split, and others are: give it or its data set `split = \"tune\"` or `split = \"hold-out\"`",
                    entry.name
                );
                return Err(self.places.bad(&trace_key(place, trace, "name"), reason));
            };
            let workload = entry.workload.as_deref().map(|name| ("workload", name));
            let sha256 = entry.sha256.as_deref().map(|digits| ("sha256", digits));
            for identity in workload.into_iter().chain(sha256) {
                let (other, name) = *seen.entry(identity).or_insert((split, &entry.name));
                if other != split {
                    let reason = format!(
                        "`{name}` is in `{other}` and `{}` in `{split}`, but both have this {}: put them on one side of the split",
                        entry.name, identity.0
                    );
                    return Err(self.places.bad(&trace_key(place, trace, identity.0), reason));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
[[dataset]]
name = "one"
licence = "ours"
class = "block"
split = "tune"
[[dataset.trace]]
name = "a"
path = "a.csv"
workload = "w"
page_size = "8KiB"
[[dataset.trace]]
name = "b"
path = "b.csv"
split = "hold-out"
"#;

    fn error(text: &str) -> String {
        parse(text, Path::new("/root")).unwrap_err().to_string()
    }

    #[test]
    fn a_manifest_has_what_its_file_says() {
        let datasets = parse(SMALL, Path::new("/root")).unwrap();
        let [a, b] = datasets[0].traces.as_slice() else { panic!("two traces") };
        assert_eq!((a.split, b.split), (Some(Split::Tune), Some(Split::HoldOut)));
        assert_eq!(a.source.path, Path::new("/root/a.csv"));
        assert_eq!(a.source.page_size.unwrap().bytes(), 8192);
        assert_eq!((a.path_line, b.path_line), (9, 14));
        assert_eq!((datasets[0].class, datasets[0].redistribute), (Class::Block, false));
    }

    #[test]
    fn mistakes_name_their_line() {
        for (from, to, expected) in [
            ("class = \"block\"", "class = \"disk\"", "line"),
            ("licence", "license", "unknown field `license`"),
            ("name = \"one\"", "name = \"o/ne\"", "line 3, key `dataset.name`: `o/ne` cannot name"),
            ("name = \"b\"", "name = \"a\"", "line 13, key `dataset.trace.name`: two traces"),
            ("\"8KiB\"", "\"7KiB\"", "line 11, key `dataset.trace.page_size`"),
            ("page_size", "sha256", "line 11, key `dataset.trace.sha256`: a SHA-256 has 64"),
            ("split = \"tune\"\n", "", "line 7, key `dataset.trace.name`: `a` is on no side"),
            (
                "split = \"hold-out\"",
                "split = \"hold-out\"\nworkload = \"w\"",
                "both have this workload",
            ),
            ("workload = \"w\"", "sampling = { share = 0, by = \"pages\" }", "above 0"),
        ] {
            let error = error(&SMALL.replacen(from, to, 1));
            assert!(error.contains(expected), "{to}: {error}");
        }
        assert!(error("").contains("missing field `dataset`"));
    }

    #[test]
    fn one_file_is_on_one_side_of_the_split() {
        let digits = format!("sha256 = \"{}\"", "ab".repeat(32));
        let text = SMALL.replace("path =", &format!("{digits}\npath ="));
        assert!(error(&text).contains("both have this sha256"));
    }
}
