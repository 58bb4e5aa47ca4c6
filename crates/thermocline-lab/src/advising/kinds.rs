//! The kinds of caches that people run, and the settings of each that are worth a try.
//!
//! A setting is here if an administrator can set it, the kind's model knows it, and it changes results.
//! dm-cache's migration threshold does not: it bounds what the kernel cleans while the device is idle.

use serde::Serialize;
use thermocline_core::config::Given;

use super::Cache;

/// A kind of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// lvmcache, which is dm-cache.
    Lvmcache,
    /// The write cache of lvm, which is dm-writecache.
    Writecache,
    /// bcache.
    Bcache,
    /// Open CAS.
    OpenCas,
    /// ZFS with a cache device.
    Zfs,
    /// The engine of this project.
    Thermocline,
}

/// Description of a kind.
struct Row {
    kind: Kind,
    /// Common name.
    name: &'static str,
    /// The policy that stands for it; those of the engine have a name of their own.
    policies: &'static [&'static str],
    /// The parameters that are tried.
    axes: &'static [Axis],
}

/// A parameter, and the values of it that are tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    /// Values that are tried with each of the other parameters; the first one is usual.
    coarse: &'static [Word],
    /// Values that are tried with the best of those.
    fine: &'static [Word],
    /// The parameter makes a difference with these values of another one only.
    only_with: Option<(&'static str, &'static [&'static str])>,
    limit: Limit,
    /// The parameter whose value it may not exceed.
    at_most: Option<&'static str>,
}

/// Additional condition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    None,
    /// Chunks of lvm: it allows a million of them, and a chunk is of neighbouring pages.
    Chunks,
    /// Buckets of bcache: the kernel asks for more than 512 of them, and so does a sample.
    Buckets,
    /// The value gathers neighbouring pages: a sample knows only the neighbours in an extent.
    Neighbours,
    /// A clock measures the value, so the requests must have times.
    Times,
}

/// A value of a parameter.
#[derive(Clone, Copy, Debug)]
enum Word {
    Text(&'static str),
    Count(u64),
    /// Pages must have that many bytes.
    Bytes(u64),
}

use Word::{Bytes, Count, Text};

/// Sizes, and what is known of the workload.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Memory above flash.
    pub ram_bytes: u64,
    /// The size of flash.
    pub flash_bytes: u64,
    /// Bytes per page.
    pub page_bytes: u64,
    /// The share of the extents that is known.
    pub rate: f64,
    /// Pages of an extent.
    pub extent_pages: u64,
    /// `true` if the requests have times.
    pub has_times: bool,
}

const fn axis(name: &'static str, coarse: &'static [Word], fine: &'static [Word]) -> Axis {
    Axis { name, coarse, fine, only_with: None, limit: Limit::None, at_most: None }
}

impl Axis {
    const fn only_with(mut self, name: &'static str, values: &'static [&'static str]) -> Self {
        self.only_with = Some((name, values));
        self
    }

    const fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    const fn at_most(mut self, name: &'static str) -> Self {
        self.at_most = Some(name);
        self
    }

    /// Return `true` if its value goes together with the others.
    fn is_possible(&self, parameters: &[(String, Given)]) -> bool {
        let number = |name: &str| -> Option<u64> {
            let known = parameters.iter().find(|(known, _)| known == name);
            known.and_then(|(_, value)| value.to_string().parse().ok())
        };
        let most = self.at_most.and_then(number);
        most.is_none_or(|most| number(self.name).is_none_or(|value| value <= most))
    }

    /// Return `true` if the parameter makes a difference beside these.
    pub(super) fn is_active(&self, parameters: &[(String, Given)]) -> bool {
        self.only_with.is_none_or(|(name, values)| {
            parameters
                .iter()
                .any(|(known, value)| known == name && values.contains(&value.to_string().as_str()))
        })
    }

    /// Return `true` if several values are tried with each of the other parameters.
    pub(super) const fn has_coarse_values(&self) -> bool {
        self.coarse.len() > 1
    }

    /// Return all values that are possible here, the usual one first.
    pub(super) fn values(&self, place: &Place) -> Vec<Given> {
        self.possible(self.coarse.iter().chain(self.fine), place)
    }

    /// Return the values that are tried with each of the other parameters.
    fn coarse_values(&self, place: &Place) -> Vec<Given> {
        let coarse = self.possible(self.coarse.iter(), place);
        if coarse.is_empty() && !self.coarse.is_empty() {
            // The least that is possible.
            return self.values(place).into_iter().take(1).collect();
        }
        coarse
    }

    fn possible<'a>(&self, words: impl Iterator<Item = &'a Word>, place: &Place) -> Vec<Given> {
        let mut values: Vec<Given> = vec![];
        for value in words.filter_map(|word| word.given(self.limit, place)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Modes of Open CAS in which pages are dirty.
const LAZY: &[&str] = &["wb", "wo"];

const ROWS: &[Row] = &[
    Row {
        kind: Kind::Lvmcache,
        name: "lvmcache",
        policies: &["dm-cache"],
        axes: &[
            axis("mode", &[Text("writethrough"), Text("writeback")], &[]),
            axis(
                "block_pages",
                &[Bytes(64 * KIB)],
                &[
                    Bytes(32 * KIB),
                    Bytes(128 * KIB),
                    Bytes(256 * KIB),
                    Bytes(512 * KIB),
                    Bytes(MIB),
                ],
            )
            .limit(Limit::Chunks),
        ],
    },
    Row {
        kind: Kind::Writecache,
        name: "lvm writecache",
        policies: &["dm-writecache"],
        axes: &[
            axis("high_watermark", &[Count(50), Count(90)], &[Count(70), Count(98)]),
            axis("low_watermark", &[Count(45)], &[Count(20), Count(65), Count(85)])
                .at_most("high_watermark"),
        ],
    },
    Row {
        kind: Kind::Bcache,
        name: "bcache",
        policies: &["bcache"],
        axes: &[
            axis("mode", &[Text("writethrough"), Text("writeback"), Text("writearound")], &[]),
            axis(
                "sequential_cutoff",
                &[Bytes(4 * MIB), Count(0)],
                &[Bytes(256 * KIB), Bytes(MIB), Bytes(16 * MIB)],
            ),
            axis("writeback_percent", &[Count(10)], &[Count(20), Count(40)])
                .only_with("mode", &["writeback"]),
            axis("replacement", &[Text("lru")], &[Text("fifo"), Text("random")]),
            // Without it, the model and the commands take 512 KiB, or less in a small cache.
            axis("bucket_pages", &[], &[Bytes(64 * KIB), Bytes(128 * KIB), Bytes(2 * MIB)])
                .limit(Limit::Buckets),
        ],
    },
    Row {
        kind: Kind::OpenCas,
        name: "Open CAS",
        policies: &["open-cas"],
        axes: &[
            axis("mode", &[Text("wt"), Text("wb"), Text("wa"), Text("wo")], &[]),
            axis("promotion", &[Text("always"), Text("nhit")], &[]),
            axis("nhit_threshold", &[Count(3)], &[Count(2), Count(5), Count(10)])
                .only_with("promotion", &["nhit"]),
            axis("nhit_trigger", &[Count(80)], &[Count(0), Count(95)])
                .only_with("promotion", &["nhit"]),
            axis("cleaning", &[Text("alru")], &[Text("acp"), Text("nop")]).only_with("mode", LAZY),
            axis("seq_policy", &[Text("full")], &[Text("never"), Text("always")]),
            axis(
                "seq_threshold",
                &[Bytes(MIB)],
                &[Bytes(128 * KIB), Bytes(4 * MIB), Bytes(16 * MIB)],
            )
            .only_with("seq_policy", &["full", "always"]),
            axis(
                "line_pages",
                &[Bytes(4 * KIB)],
                &[Bytes(8 * KIB), Bytes(16 * KIB), Bytes(64 * KIB)],
            )
            .limit(Limit::Neighbours),
        ],
    },
    Row {
        kind: Kind::Zfs,
        name: "ZFS L2ARC",
        policies: &["arc-l2arc"],
        axes: &[
            axis("feed_ms", &[Count(1000)], &[]).limit(Limit::Times),
            axis(
                "write_max",
                &[Bytes(32 * MIB)],
                &[Bytes(8 * MIB), Bytes(64 * MIB), Bytes(128 * MIB)],
            )
            .limit(Limit::Times),
            // Twice `l2arc_headroom`, as the boost of 200 % applies to compressed buffers; 1024: no limit.
            axis("headroom", &[Count(16)], &[Count(4), Count(32), Count(1024)]).limit(Limit::Times),
        ],
    },
    Row {
        kind: Kind::Thermocline,
        name: "thermocline",
        policies: &["hat", "face-gsc", "tac", "hca", "two-tier"],
        axes: &[],
    },
];

/// lvm allows so many chunks (`allocation/cache_pool_max_chunks`).
const CHUNKS_MAX: u64 = 1_000_000;
/// Minimum number of buckets: the kernel refuses a bcache of fewer.
const BUCKETS_REFUSED: u64 = 512;

impl Limit {
    fn allows(self, bytes: u64, place: &Place) -> bool {
        let is_known = place.rate >= 1.0 || bytes <= place.extent_pages * place.page_bytes;
        match self {
            Self::None => true,
            Self::Times => place.has_times,
            Self::Neighbours => is_known,
            Self::Chunks => {
                let least = place.flash_bytes.div_ceil(CHUNKS_MAX);
                // If the usual chunk is too small, lvm rounds up the least one that it allows.
                bytes >= least && (is_known || bytes < 2 * least)
            }
            Self::Buckets => {
                place.flash_bytes as f64 * place.rate / bytes as f64 > BUCKETS_REFUSED as f64
            }
        }
    }
}

impl Word {
    /// Return the value, if it is possible.
    fn given(self, limit: Limit, place: &Place) -> Option<Given> {
        match self {
            Text(text) => limit.allows(0, place).then(|| Given::Text(text.into())),
            Count(count) => limit.allows(0, place).then_some(Given::Integer(count)),
            Bytes(bytes) => {
                let pages = bytes / place.page_bytes;
                let is_whole = pages > 0 && bytes.is_multiple_of(place.page_bytes);
                (is_whole && limit.allows(bytes, place)).then_some(Given::Integer(pages))
            }
        }
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Lvmcache,
        Self::Writecache,
        Self::Bcache,
        Self::OpenCas,
        Self::Zfs,
        Self::Thermocline,
    ];

    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.kind == self).expect("every kind has a row")
    }

    /// Return the common name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Return the kind that a policy stands for; `None` if nobody ships it.
    pub fn of_policy(policy: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.policies.contains(&policy)).map(|row| row.kind)
    }
}

/// Return the parameters of a kind that are tried.
pub(super) fn axes(kind: Kind) -> &'static [Axis] {
    kind.row().axes
}

/// Return the settings of a kind that a search begins with, at these sizes.
pub fn settings_of(kind: Kind, place: &Place) -> Vec<Cache> {
    settings_beside(kind, place, None)
}

/// Return all settings that a search can come by in one step from where it begins: each of
/// [`settings_of`], and each of these with one parameter changed.
pub fn settings_tried(kind: Kind, place: &Place) -> Vec<Cache> {
    let mut all = settings_of(kind, place);
    for start in all.clone() {
        for axis in axes(kind).iter().filter(|axis| axis.is_active(&start.parameters)) {
            for cache in with_each_value(kind, &start, axis, place) {
                if !all.contains(&cache) {
                    all.push(cache);
                }
            }
        }
    }
    all
}

/// Return the settings that a search begins with, where what is not tried is as it is today.
pub(super) fn settings_beside(kind: Kind, place: &Place, today: Option<&Cache>) -> Vec<Cache> {
    let row = kind.row();
    let mut all = vec![];
    for policy in row.policies {
        let today = today.filter(|today| today.policy == *policy);
        let mut settings = vec![today.map_or_else(Vec::new, |today| today.parameters.clone())];
        for axis in row.axes {
            let values = axis.coarse_values(place);
            settings =
                settings.into_iter().flat_map(|before| with_each(before, axis, &values)).collect();
        }
        let caches = settings.into_iter().map(|parameters| Cache {
            name: match row.policies {
                [_] => row.name.to_owned(),
                _ => format!("{} {policy}", row.name),
            },
            policy: (*policy).to_owned(),
            parameters: completed(kind, parameters, place),
            ram_bytes: place.ram_bytes,
            flash_bytes: place.flash_bytes,
        });
        all.extend(caches.filter(|cache| is_possible(kind, cache)));
    }
    all
}

/// Return these parameters with each of the values; unchanged if the parameter makes no difference,
/// or only the usual value is to be tried and there is one already.
fn with_each(
    before: Vec<(String, Given)>,
    axis: &Axis,
    values: &[Given],
) -> Vec<Vec<(String, Given)>> {
    let is_set = before.iter().any(|(name, _)| name == axis.name);
    if !axis.is_active(&before) || values.is_empty() || values.len() == 1 && is_set {
        return vec![before];
    }
    values.iter().map(|value| with(&before, axis.name, value)).collect()
}

/// Return these parameters with another value of one.
fn with(before: &[(String, Given)], name: &str, value: &Given) -> Vec<(String, Given)> {
    let mut parameters = before.to_vec();
    match parameters.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = value.clone(),
        None => parameters.push((name.to_owned(), value.clone())),
    }
    parameters
}

/// Return the same cache with each possible value of a parameter.
pub(super) fn with_each_value(kind: Kind, cache: &Cache, axis: &Axis, place: &Place) -> Vec<Cache> {
    let caches = axis.values(place).into_iter().map(|value| {
        let parameters = with(&cache.parameters, axis.name, &value);
        Cache { parameters: completed(kind, parameters, place), ..cache.clone() }
    });
    caches.filter(|cache| is_possible(kind, cache)).collect()
}

/// Return the first cache with the value that the second one has of a parameter, if that is another
/// one and is possible.
pub(super) fn with_value_of(
    kind: Kind,
    cache: &Cache,
    other: &Cache,
    axis: &Axis,
    place: &Place,
) -> Option<Cache> {
    let parameters = match other.parameters.iter().find(|(name, _)| name == axis.name) {
        Some((_, value)) => with(&cache.parameters, axis.name, value),
        None => {
            let others = cache.parameters.iter().filter(|(name, _)| name != axis.name);
            others.cloned().collect()
        }
    };
    let parameters = completed(kind, parameters, place);
    let changed = Cache { parameters, ..cache.clone() };
    (changed != *cache && is_possible(kind, &changed)).then_some(changed)
}

fn is_possible(kind: Kind, cache: &Cache) -> bool {
    axes(kind).iter().all(|axis| axis.is_possible(&cache.parameters))
}

/// Return these parameters in the order of the table, without those that make no difference, and
/// with the usual values of those that do and are missing.
fn completed(kind: Kind, parameters: Vec<(String, Given)>, place: &Place) -> Vec<(String, Given)> {
    let axes = axes(kind);
    let (tried, mut completed): (Vec<_>, Vec<_>) =
        parameters.into_iter().partition(|(name, _)| axes.iter().any(|axis| axis.name == name));
    for axis in axes {
        let known =
            tried.iter().find(|(name, _)| name == axis.name).map(|(_, value)| value.clone());
        let value = known.or_else(|| axis.coarse_values(place).into_iter().next());
        if let Some(value) = value.filter(|_| axis.is_active(&completed)) {
            completed.push((axis.name.to_owned(), value));
        }
    }
    completed
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place {
        ram_bytes: 1 << 30,
        flash_bytes: 100 << 30,
        page_bytes: 4096,
        rate: 1.0,
        extent_pages: 16,
        has_times: true,
    };

    fn values(kind: Kind, name: &str, place: &Place) -> Vec<String> {
        let axis = axes(kind).iter().find(|axis| axis.name == name).expect("it is tried");
        axis.values(place).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_are_possible_at_the_size_and_known_to_the_sample() {
        // A million chunks of 128 KiB are more than 100 GiB.
        assert_eq!(values(Kind::Lvmcache, "block_pages", &PLACE), ["32", "64", "128", "256"]);
        let sampled = Place { rate: 0.1, ..PLACE };
        assert_eq!(values(Kind::Lvmcache, "block_pages", &sampled), ["32"]);
        let small = Place { flash_bytes: 1 << 30, ..sampled };
        assert_eq!(values(Kind::Lvmcache, "block_pages", &small), ["16", "8"]);
        assert_eq!(values(Kind::OpenCas, "line_pages", &small), ["1", "2", "4", "16"]);
        assert_eq!(values(Kind::Bcache, "bucket_pages", &small), ["16", "32"]);
        let large_pages = Place { page_bytes: 16 << 10, ..PLACE };
        assert_eq!(values(Kind::OpenCas, "line_pages", &large_pages), ["1", "4"]);
        let timeless = Place { has_times: false, ..PLACE };
        assert!(values(Kind::Zfs, "write_max", &timeless).is_empty());
        assert!(settings_of(Kind::Zfs, &timeless)[0].parameters.is_empty());
    }

    #[test]
    fn a_search_begins_with_each_mode_and_todays_other_settings() {
        let texts = |caches: Vec<Cache>| -> Vec<Vec<String>> {
            let text = |(name, value): &(String, Given)| format!("{name}={value}");
            caches.iter().map(|cache| cache.parameters.iter().map(text).collect()).collect()
        };
        let all = texts(settings_of(Kind::Bcache, &PLACE));
        assert_eq!(all.len(), 6);
        assert_eq!(all[0], ["mode=writethrough", "sequential_cutoff=1024", "replacement=lru"]);
        let of_writeback =
            ["mode=writeback", "sequential_cutoff=0", "writeback_percent=10", "replacement=lru"];
        assert_eq!(all[3], of_writeback);
        let today = Cache {
            parameters: vec![
                (
                    "mode".into(),
                    Text("writearound").given(Limit::None, &PLACE).expect("it is a word"),
                ),
                ("replacement".into(), Given::Text("fifo".into())),
            ],
            ..settings_of(Kind::Bcache, &PLACE).remove(0)
        };
        let beside = texts(settings_beside(Kind::Bcache, &PLACE, Some(&today)));
        assert_eq!(beside[0], ["mode=writethrough", "sequential_cutoff=1024", "replacement=fifo"]);
        // Another kind's settings say nothing.
        let lvmcache = texts(settings_beside(Kind::Lvmcache, &PLACE, Some(&today)));
        assert_eq!(lvmcache, texts(settings_of(Kind::Lvmcache, &PLACE)));
    }

    #[test]
    fn every_parameter_that_is_tried_is_one_of_its_policy() {
        for kind in Kind::ALL {
            for cache in settings_of(kind, &PLACE) {
                let entry = crate::find_policy(&cache.policy).expect("it is registered");
                for axis in axes(kind) {
                    let mut parameters = entry.parameters.iter();
                    let parameter = parameters.find(|parameter| parameter.name == axis.name);
                    let parameter = parameter.expect("the policy has it");
                    for value in axis.values(&PLACE) {
                        assert!(parameter.accept(&value).is_ok(), "{} {value}", axis.name);
                    }
                }
            }
        }
    }
}
