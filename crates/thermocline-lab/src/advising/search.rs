//! The best setting of a kind of cache, without trying all.
//!
//! 1. Each mode, and what else makes most difference, is simulated with each other one.
//! 2. From the best of these, one parameter after the other takes the value that is best with all others
//!    as they are, until a round changes nothing (coordinate descent). The first round leaves those of
//!    step 1 alone.
//! 3. Each parameter returns to where it began, as long as that loses less than 2 % in all: what makes
//!    hardly a difference stays as it usually is, or as it is today.
//!
//! Each setting is simulated once, on the sample, without the simulations that make intervals.
//!
//! * Source: none.
//! * Deviations: (1) Two parameters that only help together are not found, unless they are in step 1.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::advice::SAME;
use super::kinds::{Place, axes, settings_beside, with_each_value, with_value_of};
use super::{Cache, Kind, Worth};
use crate::LabError;

/// Rounds of the descent at most.
const ROUNDS: usize = 4;
/// A step of the descent must gain this share.
const STEP: f64 = 0.001;

/// Finds the best setting of a kind.
///
/// # Errors
/// As for `worth`; settings that contradict each other are skipped.
pub(super) fn best_setting(
    kind: Kind,
    place: &Place,
    today: Option<&Cache>,
    least_months: f64,
    worth: &(impl Fn(&Cache) -> Result<Worth, LabError> + Sync),
) -> Result<Cache, LabError> {
    let mut known = Known { worth, found: BTreeMap::new(), refused: None };
    let mut start: Option<(Cache, Worth)> = None;
    for one in known.all_of(settings_beside(kind, place, today))? {
        if start.as_ref().is_none_or(|start| one.1.is_better(&start.1, least_months)) {
            start = Some(one);
        }
    }
    let Some(start) = start else {
        return Err(known.refused.expect("every kind has a setting, and none was possible"));
    };
    let mut best = start.clone();
    for round in 0..ROUNDS {
        let mut has_moved = false;
        for axis in axes(kind) {
            // Parameters that were tried together are tried again when the others are set.
            let is_next = round > 0 || !axis.has_coarse_values();
            if !is_next || !axis.is_active(&best.0.parameters) {
                continue;
            }
            for other in known.all_of(with_each_value(kind, &best.0, axis, place))? {
                if other.1.is_better_by(STEP, &best.1, least_months) {
                    (best, has_moved) = (other, true);
                }
            }
        }
        if round > 0 && !has_moved {
            break;
        }
    }
    let mut simplest = best.0;
    for axis in axes(kind) {
        let usual = with_value_of(kind, &simplest, &start.0, axis, place);
        for (cache, found) in known.all_of(usual.into_iter().collect())? {
            if !best.1.is_better_by(SAME, &found, least_months) {
                simplest = cache;
            }
        }
    }
    Ok(simplest)
}

/// Results of the settings that were tried.
struct Known<'a, W> {
    worth: &'a W,
    /// Results by parameters; `None` if the parameters contradict each other.
    found: BTreeMap<String, Option<Worth>>,
    /// Reason why the last one of these was refused.
    refused: Option<LabError>,
}

impl<W: Fn(&Cache) -> Result<Worth, LabError> + Sync> Known<'_, W> {
    /// Return the caches that are possible, with what they are worth.
    fn all_of(&mut self, caches: Vec<Cache>) -> Result<Vec<(Cache, Worth)>, LabError> {
        let is_new = |cache: &&Cache| !self.found.contains_key(&words(cache));
        let found: Vec<(String, Result<Worth, LabError>)> = caches
            .par_iter()
            .filter(is_new)
            .map(|cache| (words(cache), (self.worth)(cache)))
            .collect();
        for (words, found) in found {
            let found = match found {
                Err(error @ LabError::Config(_)) => {
                    self.refused = Some(error);
                    None
                }
                found => Some(found?),
            };
            self.found.insert(words, found);
        }
        let worths = caches.into_iter().filter_map(|cache| {
            let found = self.found.get(&words(&cache)).copied().flatten();
            found.map(|found| (cache, found))
        });
        Ok(worths.collect())
    }
}

/// Return a setting in words.
fn words(cache: &Cache) -> String {
    let mut words: Vec<String> =
        cache.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    words.sort_unstable();
    format!("{} {}", cache.policy, words.join(" "))
}

impl Worth {
    /// Return `true` if flash lasts as long as it must; it does if nobody knows how fast it is written.
    pub(super) fn lasts(&self, least_months: f64) -> bool {
        self.life_months >= least_months
    }

    /// Return `true` if one is better than another: it lasts and the other does not; or it takes less of
    /// the devices' time; or as much, and writes less to flash.
    pub(super) fn is_better(&self, other: &Self, least_months: f64) -> bool {
        let [ours, theirs] = [self, other].map(|one| one.device_ms_per_access);
        match (self.lasts(least_months), other.lasts(least_months)) {
            (true, true) if (ours - theirs).abs() > SAME * theirs => ours < theirs,
            (true, false) => true,
            (false, true) => false,
            // As good as each other, or nothing lasts: what lasts longest.
            _ => self.life_months > other.life_months,
        }
    }

    /// Return `true` if one is better by at least a share of the devices' time, or of the life if
    /// nothing lasts.
    fn is_better_by(&self, share: f64, other: &Self, least_months: f64) -> bool {
        match (self.lasts(least_months), other.lasts(least_months)) {
            (true, true) => self.device_ms_per_access < (1.0 - share) * other.device_ms_per_access,
            (false, false) => self.life_months > (1.0 + share) * other.life_months,
            (lasts, _) => lasts,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use thermocline_core::config::{Given, Values};

    use super::*;

    const PLACE: Place = Place {
        ram_bytes: 0,
        flash_bytes: 1 << 30,
        page_bytes: 4096,
        rate: 1.0,
        extent_pages: 16,
        has_times: true,
    };

    fn text(cache: &Cache, name: &str) -> String {
        let known = cache.parameters.iter().find(|(known, _)| known == name);
        known.map_or_else(String::new, |(_, value)| value.to_string())
    }

    /// Return a cost that each parameter adds to, and how often it was asked for.
    fn search(kind: Kind, good: &[(&str, &str)]) -> (Cache, usize) {
        let asked = Mutex::new(vec![]);
        let worth = |cache: &Cache| {
            asked.lock().expect("no test panics here").push(format!("{:?}", cache.parameters));
            let bad = good.iter().filter(|(name, value)| text(cache, name) != *value).count();
            Ok(Worth { device_ms_per_access: 1.0 + bad as f64, life_months: f64::INFINITY })
        };
        let best = best_setting(kind, &PLACE, None, 0.0, &worth).expect("it is possible");
        let asked = asked.into_inner().expect("no test panics here");
        let different: HashSet<&String> = asked.iter().collect();
        assert_eq!(different.len(), asked.len(), "nothing is simulated twice");
        (best, asked.len())
    }

    #[test]
    fn the_best_value_of_each_parameter_is_found_with_few_simulations() {
        let good = [
            ("mode", "writeback"),
            ("sequential_cutoff", "256"),
            ("writeback_percent", "40"),
            ("replacement", "random"),
            ("bucket_pages", "512"),
        ];
        let (best, count) = search(Kind::Bcache, &good[..4]);
        assert!(good[..4].iter().all(|(name, value)| text(&best, name) == *value), "{best:?}");
        // Of 3 * 5 * 3 * 3 * 4.
        assert!(count < 40, "{count}");
        let good = [
            ("mode", "wb"),
            ("promotion", "nhit"),
            ("nhit_threshold", "5"),
            ("cleaning", "nop"),
            ("seq_policy", "always"),
            ("seq_threshold", "1024"),
            ("line_pages", "4"),
        ];
        let (best, count) = search(Kind::OpenCas, &good);
        assert!(good.iter().all(|(name, value)| text(&best, name) == *value), "{best:?}");
        assert!(count < 60, "{count}");
    }

    #[test]
    fn what_is_hardly_better_is_no_reason_to_leave_the_usual_setting() {
        let worth = |cache: &Cache| {
            let is_fifo = text(cache, "replacement") == "fifo";
            let device_ms_per_access = if is_fifo { 0.99 } else { 1.0 };
            let life_months = if is_fifo { 200.0 } else { 100.0 };
            Ok(Worth { device_ms_per_access, life_months })
        };
        let best = best_setting(Kind::Bcache, &PLACE, None, 60.0, &worth).expect("it is possible");
        assert_eq!(text(&best, "replacement"), "lru");
        // Unless the usual one does not last.
        let best = best_setting(Kind::Bcache, &PLACE, None, 150.0, &worth).expect("it is possible");
        assert_eq!(text(&best, "replacement"), "fifo");
    }

    #[test]
    fn settings_that_do_not_go_together_are_passed_over_and_other_errors_are_not() {
        let too_small =
            || LabError::SampleTooSmall { tier: "flash".into(), pages: 1, rate: 0.1, least: 0.5 };
        let worth = |cache: &Cache| match text(cache, "mode").as_str() {
            "writeback" => Ok(Worth { device_ms_per_access: 1.0, life_months: 1.0 }),
            "writethrough" => {
                Err(Values::defaults(&[]).set("a", "b", &Given::Integer(1)).unwrap_err().into())
            }
            _ => Ok(Worth { device_ms_per_access: 2.0, life_months: 1.0 }),
        };
        let best = best_setting(Kind::Bcache, &PLACE, None, 0.0, &worth).expect("it is possible");
        assert_eq!(text(&best, "mode"), "writeback");
        let failing = |_: &Cache| Err(too_small());
        assert!(best_setting(Kind::Bcache, &PLACE, None, 0.0, &failing).is_err());
    }
}
