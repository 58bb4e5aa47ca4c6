//! The answer: what is set today, what would be better, and where more stops paying.

use rayon::prelude::*;
use serde::Serialize;

use super::search::best_setting;
use super::sentences::sentences;
use super::{Cache, Forecast, Hardware, Kind, NoCache, WorkingSet, Workload, Worth, working_sets};
use crate::{LabError, Watch};

/// Sizes of flash that are looked at, as shares of the size that is there.
const SIZES: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// Device times that differ by less than this share are as good as each other.
pub(super) const SAME: f64 = 0.02;
/// Twice the flash pays if it takes this share of the device time away.
const PAYS: f64 = 0.05;
/// Fewer accesses than this tell nothing of a cache.
const LEAST_ACCESSES: usize = 10_000;
/// A cache of which less than this share was ever filled has not been seen at work.
const FILLED: f64 = 1.0;
const SECONDS_PER_HOUR: f64 = 3600.0;

/// Question of the caller.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The cache as it is set today, if there is one.
    pub today: Option<Cache>,
    /// The kinds that may be recommended; today's first.
    pub kinds: Vec<Kind>,
    /// Memory above flash.
    pub ram_bytes: u64,
    /// The size of flash.
    pub flash_bytes: u64,
    /// Minimum lifetime of flash, in months.
    pub least_months: f64,
    /// The price of flash per GiB, if the size may change.
    pub price_per_gib: Option<f64>,
    /// Maximum price of flash.
    pub budget: Option<f64>,
}

/// The answer. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Summary of the workload that was observed.
    pub seen: Seen,
    /// Reasons why the answer may be wrong, in sentences; empty if there are none.
    pub doubts: Vec<String>,
    /// The cache as it is set today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub today: Option<Forecast>,
    /// The disk alone.
    pub no_cache: NoCache,
    /// The best setting of each kind at today's size, today's kind first.
    pub kinds: Vec<KindForecast>,
    /// The best of all at other sizes of flash, ascending.
    pub sizes: Vec<Forecast>,
    /// The best of all with twice the RAM; `None` if it has none of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_ram: Option<Forecast>,
    /// The size beyond which twice as much flash saves too little; one of `sizes`.
    pub enough_flash_bytes: u64,
    /// Index in `kinds` of the recommended one; `None` if nothing is better than the present cache,
    /// or nothing lasts long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended: Option<usize>,
    /// The answer in sentences.
    pub sentences: Vec<String>,
}

/// Summary of an observed workload.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// Requests.
    pub requests: u64,
    /// Page accesses.
    pub accesses: u64,
    /// Number of writes divided by that of all requests.
    pub write_share: f64,
    /// Duration; `None` if the requests have no times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The share of the disk that was looked at.
    pub rate: f64,
    /// Bytes per page.
    pub page_size_bytes: u64,
    /// Bytes of all pages that were accessed.
    pub footprint_bytes: f64,
    /// The working sets of an hour and of a day.
    pub working_sets: Vec<WorkingSet>,
}

/// The best setting of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct KindForecast {
    /// The kind.
    pub kind: Kind,
    /// Forecast of its effect.
    pub forecast: Forecast,
    /// The cache that this is; not part of the JSON.
    #[serde(skip)]
    pub cache: Cache,
}

impl Advice {
    /// Return the advice for a workload.
    ///
    /// # Errors
    /// If a policy or device is unknown, the sample is too small for caches of this size, or the
    /// watch stops it.
    pub fn of(
        workload: &Workload,
        asked: &Asked,
        hardware: &Hardware,
        watch: &Watch,
    ) -> Result<Self, LabError> {
        // The writes of some minutes say nothing about years.
        let is_short = workload.seconds().is_some_and(|seconds| seconds < SECONDS_PER_HOUR);
        let least_months = if is_short { 0.0 } else { asked.least_months };
        let asked = &Asked { least_months, ..asked.clone() };
        let forecast = |cache: &Cache| workload.forecast(cache, hardware, watch);
        let today = asked.today.as_ref().map(forecast).transpose()?;
        let place = workload.place(asked.ram_bytes, asked.flash_bytes);
        let worth = |cache: &Cache| workload.worth(cache, hardware, watch);
        let best_of_kind = |&kind: &Kind| -> Result<KindForecast, LabError> {
            let cache =
                best_setting(kind, &place, asked.today.as_ref(), asked.least_months, &worth)?;
            Ok(KindForecast { kind, forecast: forecast(&cache)?, cache })
        };
        let kinds: Vec<Result<KindForecast, LabError>> =
            asked.kinds.par_iter().map(best_of_kind).collect();
        watch.check()?;
        let kinds: Vec<KindForecast> = kinds.into_iter().collect::<Result<_, _>>()?;
        let no_cache = workload.without_cache(hardware)?;
        let recommended = recommended(&kinds, today.as_ref(), no_cache, asked.least_months);
        let best = best_of(&kinds, asked.least_months).map(|best| kinds[best].cache.clone());
        let best = best.or_else(|| asked.today.clone());
        let more_ram = best
            .as_ref()
            .filter(|best| best.ram_bytes > 0)
            .map(|best| Cache { ram_bytes: best.ram_bytes.saturating_mul(2), ..best.clone() });
        let more_ram = more_ram.as_ref().map(forecast).transpose()?;
        let sizes =
            best.map(|best| sizes(&best, asked, &forecast)).transpose()?.unwrap_or_default();
        let mut advice = Self {
            doubts: doubts(workload, asked),
            seen: Seen::of(workload),
            enough_flash_bytes: enough(&sizes).unwrap_or(asked.flash_bytes),
            today,
            no_cache,
            kinds,
            sizes,
            more_ram,
            recommended,
            sentences: vec![],
        };
        advice.sentences = sentences(&advice, asked);
        Ok(advice)
    }
}

impl Seen {
    fn of(workload: &Workload) -> Self {
        let totals = workload.totals();
        Self {
            requests: totals.requests,
            accesses: totals.accesses,
            write_share: totals.writes as f64 / totals.accesses.max(1) as f64,
            seconds: workload.seconds(),
            rate: workload.rate(),
            page_size_bytes: workload.trace().page_size_bytes(),
            footprint_bytes: workload.footprint_bytes(),
            working_sets: working_sets(workload.trace(), workload.rate()),
        }
    }
}

/// Return `true` if flash lasts as long as it must; it does if nobody knows how fast it is written.
pub(super) fn lasts(forecast: &Forecast, least_months: f64) -> bool {
    Worth::from(forecast).lasts(least_months)
}

/// Return `true` if one is better than another.
fn is_better(one: &Forecast, other: &Forecast, least_months: f64) -> bool {
    Worth::from(one).is_better(&other.into(), least_months)
}

/// Return the best of all that last.
fn best_of(kinds: &[KindForecast], least_months: f64) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (place, one) in kinds.iter().enumerate() {
        let beats =
            best.is_none_or(|best| is_better(&one.forecast, &kinds[best].forecast, least_months));
        if lasts(&one.forecast, least_months) && beats {
            best = Some(place);
        }
    }
    best
}

/// Return the best of all that last, if it is better than what there is, and than no cache.
fn recommended(
    kinds: &[KindForecast],
    today: Option<&Forecast>,
    no_cache: NoCache,
    least_months: f64,
) -> Option<usize> {
    let best = best_of(kinds, least_months)?;
    let ours = kinds[best].forecast.device_ms_per_access;
    let beats = |theirs: f64| ours < (1.0 - SAME) * theirs;
    let beats_today =
        today.is_none_or(|today| beats(today.device_ms_per_access) || !lasts(today, least_months));
    (beats_today && beats(no_cache.device_ms_per_access)).then_some(best)
}

/// Return the best at other sizes, as far as the sample tells and the budget goes.
fn sizes(
    best: &Cache,
    asked: &Asked,
    forecast: &(impl Fn(&Cache) -> Result<Forecast, LabError> + Sync),
) -> Result<Vec<Forecast>, LabError> {
    let affordable = asked.budget.zip(asked.price_per_gib).map(|(budget, price)| {
        if price > 0.0 { budget / price * f64::from(1 << 30) } else { f64::INFINITY }
    });
    let caches: Vec<Cache> = SIZES
        .iter()
        .map(|share| asked.flash_bytes as f64 * share)
        .filter(|&bytes| bytes >= 1.0 && affordable.is_none_or(|most| bytes <= most))
        .map(|bytes| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a size, not negative"
            )]
            let flash_bytes = bytes as u64;
            Cache { flash_bytes, ..best.clone() }
        })
        .collect();
    let found: Vec<Result<Forecast, LabError>> = caches.par_iter().map(forecast).collect();
    let mut sizes = vec![];
    for one in found {
        match one {
            Ok(forecast) => sizes.push(forecast),
            // Of the smallest sizes, a sample may say nothing.
            Err(LabError::SampleTooSmall { .. } | LabError::Config(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sizes)
}

/// Return `true` if no cache that lasts is better than the disk alone.
pub(super) fn needs_no_cache(advice: &Advice, least_months: f64) -> bool {
    let bound = (1.0 - SAME) * advice.no_cache.device_ms_per_access;
    let all = advice.kinds.iter().map(|one| &one.forecast).chain(&advice.today);
    all.filter(|one| lasts(one, least_months)).all(|one| one.device_ms_per_access >= bound)
}

/// Return the share of the device time that twice the RAM saves, if it pays.
pub(super) fn saved_by_ram(more: &Forecast, best: &Forecast) -> Option<f64> {
    let saved = 1.0 - more.device_ms_per_access / best.device_ms_per_access;
    (saved > PAYS).then_some(saved)
}

/// Return the size beyond which the next one saves too little.
fn enough(sizes: &[Forecast]) -> Option<u64> {
    let saves = |pair: &[Forecast]| {
        pair[1].device_ms_per_access < (1.0 - PAYS) * pair[0].device_ms_per_access
    };
    let last = sizes.windows(2).rposition(saves).map_or(0, |place| place + 1);
    sizes.get(last).map(|forecast| forecast.flash_bytes)
}

/// Return the reasons to doubt an answer.
fn doubts(workload: &Workload, asked: &Asked) -> Vec<String> {
    let mut doubts = vec![];
    let known = workload.trace().len();
    if known < LEAST_ACCESSES {
        doubts.push(format!(
            "Only {known} accesses are known, which is too few to tell; watch for longer."
        ));
    }
    let footprint = workload.footprint_bytes();
    let flash = asked.flash_bytes as f64;
    if footprint < FILLED * flash {
        doubts.push(format!(
            "All that was accessed is {}, less than the {} of flash: the cache was never full, so this is too short to tell what it would evict. A cache larger than all that is used is larger than it need be.",
            bytes(footprint),
            bytes(flash),
        ));
    }
    match workload.seconds() {
        Some(seconds) if seconds < SECONDS_PER_HOUR => doubts.push(format!(
            "{} is too short to know how the hours of a day differ: the intervals cover this time only, and how long flash lasts decides nothing.",
            duration(seconds),
        )),
        Some(_) => {}
        None => doubts.push(
            "The requests have no times, so nothing can be said of a day, nor of the life of flash."
                .into(),
        ),
    }
    if workload.totals().writes == 0 {
        doubts.push("Nothing was written: what writes would do is not known.".into());
    }
    doubts
}

/// Format a number of bytes for a sentence.
pub(super) fn bytes(bytes: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and sizes are not negative"
    )]
    let whole = bytes as u64;
    crate::metric::byte_size(whole)
}

/// Return a time, in the unit that suits it.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 2.0 * SECONDS_PER_HOUR => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 48.0 * SECONDS_PER_HOUR => {
            format!("{:.1} h", seconds / SECONDS_PER_HOUR)
        }
        seconds => format!("{:.1} days", seconds / 24.0 / SECONDS_PER_HOUR),
    }
}

#[cfg(test)]
mod tests {
    use thermocline_trace::{PageSize, RunningSample};

    use super::*;
    use crate::advising::Range;

    fn forecast(flash_bytes: u64, device_ms_per_access: f64, months: Option<f64>) -> Forecast {
        let of = |estimate| Range { estimate, low: estimate, high: estimate };
        Forecast {
            name: "a".into(),
            policy: "arc-l2arc".into(),
            parameters: serde_json::Map::new(),
            ram_bytes: 0,
            flash_bytes,
            hit_ratio: of(0.5),
            read_ms: of(1.0),
            write_ms: Some(of(1.0)),
            device_ms_per_access,
            flash_writes_per_access: of(0.1),
            flash_bytes_written_per_day: None,
            life_months: months.map(of),
        }
    }

    fn kind(device_ms: f64, months: f64) -> KindForecast {
        let forecast = forecast(1, device_ms, Some(months));
        let cache = Cache {
            name: "a".into(),
            policy: "arc-l2arc".into(),
            parameters: vec![],
            ram_bytes: 0,
            flash_bytes: 1,
        };
        KindForecast { kind: Kind::Zfs, forecast, cache }
    }

    #[test]
    fn what_lasts_and_takes_least_time_is_best() {
        // The second is faster, and dies too soon.
        let kinds = [kind(2.0, 70.0), kind(1.0, 50.0), kind(3.0, 90.0)];
        assert_eq!(best_of(&kinds, 60.0), Some(0));
        assert_eq!(best_of(&kinds, 0.0), Some(1));
        assert_eq!(best_of(&kinds, 100.0), None);
        // As good as the other within the noise, and kinder to flash.
        assert_eq!(best_of(&[kind(1.0, 70.0), kind(1.01, 80.0)], 60.0), Some(1));
    }

    #[test]
    fn what_there_is_stays_unless_another_is_worth_it() {
        let kinds = [kind(2.0, 70.0)];
        let today = |device_ms, months| forecast(1, device_ms, Some(months));
        let slow = NoCache { read_ms: 9.0, write_ms: 9.0, device_ms_per_access: 9.0 };
        assert_eq!(recommended(&kinds, Some(&today(2.03, 70.0)), slow, 60.0), None);
        assert_eq!(recommended(&kinds, Some(&today(2.5, 70.0)), slow, 60.0), Some(0));
        assert_eq!(recommended(&kinds, Some(&today(1.0, 10.0)), slow, 60.0), Some(0));
        assert_eq!(recommended(&kinds, None, slow, 60.0), Some(0));
        // A disk that is as fast alone needs no cache.
        let fast = NoCache { read_ms: 2.0, write_ms: 2.0, device_ms_per_access: 2.01 };
        assert_eq!(recommended(&kinds, None, fast, 60.0), None);
    }

    #[test]
    fn flash_is_enough_where_twice_as_much_saves_too_little() {
        let sizes = |times: [f64; 4]| {
            let sizes = times.into_iter().zip([1, 2, 4, 8]);
            enough(&sizes.map(|(ms, size)| forecast(size, ms, None)).collect::<Vec<_>>())
        };
        assert_eq!(sizes([8.0, 4.0, 3.9, 3.9]), Some(2));
        assert_eq!(sizes([8.0, 7.9, 7.8, 7.7]), Some(1));
        assert_eq!(sizes([8.0, 4.0, 2.0, 1.0]), Some(8));
        assert_eq!(enough(&[]), None);
    }

    #[test]
    fn an_empty_sample_is_an_error() {
        let sample = RunningSample::new(PageSize::DEFAULT, 1);
        assert!(Workload::new(&sample, "t".as_ref()).is_err());
    }
}
