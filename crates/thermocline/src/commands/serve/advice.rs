//! Advice from the shadows: the policy that would have needed the least I/O time lately, and how sure that
//! is.
//!
//! The window is the last day, or as much of it as the shadows have seen once they had filled: they
//! begin empty, so the first quarter of their time does not count. It is cut into up to 24 blocks of the
//! same length, and the saving is the ratio of the sums over them.
//!
//! * Source: the ratio estimator and its variance as in Cochran, *Sampling Techniques*, section 6; its
//!   interval by Student's t, wider by the correlation of neighbouring blocks.
//! * The range is that of 95 % over times like the window. It knows nothing of the sample of pages that
//!   shadows see.

use super::history::{DAY_S, DayPoint, History};
use super::status::{ShadowStatus, Status, Takes};
use crate::output;

/// The most blocks, and the fewest that say something.
const BLOCKS_MAX: usize = 24;
const BLOCKS_MIN: usize = 8;
/// Accesses that each shadow must have seen in the window.
const SAMPLED_MIN: u64 = 10_000;
/// Policies whose I/O times differ by less are as good as each other.
const TIE_SHARE: f64 = thermocline_lab::verdict::TIE_SHARE;
/// By which share flash writes must differ to be mentioned.
const WEAR_SHARE: f64 = 0.1;
/// A range that is narrower than this has a decimal more.
const NARROW_SHARE: f64 = 0.02;
/// The share of their time in which shadows fill.
const FILLING_SHARE: f64 = 0.25;
/// The greatest correlation that is corrected for; beyond it, blocks would say next to nothing.
const CORRELATION_MAX: f64 = 0.9;

/// A share with the range in which it lies with 95 % probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Saving {
    pub(super) share: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Saving {
    /// Format a share in percent, with more decimals if the range is narrow: it would look empty otherwise.
    pub(super) fn percent(self, share: f64) -> String {
        let decimals = usize::from(self.high - self.low < NARROW_SHARE);
        format!("{:.decimals$}", share * 100.0)
    }
}

/// A shadow in the window.
#[derive(Clone, Debug)]
pub(super) struct Rated<'a> {
    pub(super) shadow: &'a ShadowStatus,
    /// Milliseconds of I/O and page writes to flash, per access.
    pub(super) io_ms: f64,
    pub(super) flash_writes: f64,
    /// Share of I/O time that it would have saved; `None` for the running policy itself.
    pub(super) saving: Option<Saving>,
}

/// Conclusions from the shadows.
#[derive(Clone, Debug, Default)]
pub(super) struct Advice<'a> {
    /// The first is the answer.
    pub(super) sentences: Vec<String>,
    /// The shadow to put in force.
    pub(super) adopt: Option<&'a ShadowStatus>,
    /// Every shadow with its figures in the window; none if there is too little data.
    pub(super) rated: Vec<Rated<'a>>,
    /// The window, as in "the last 24 h"; empty if there is too little data.
    pub(super) window: String,
}

/// Judges the shadows by what they did in the last day.
pub(super) fn advice<'a>(history: &History, now: &'a Status) -> Advice<'a> {
    let say = |text: &str| Advice { sentences: vec![text.to_owned()], ..Advice::default() };
    if now.is_flash_configured && !now.has_flash {
        return say("There is no advice while the flash is not in use.");
    }
    let Some(place) = now.shadows.iter().position(|one| one.adoption.takes == Takes::Nothing)
    else {
        return say(if now.shadows.is_empty() {
            "No shadow policies run. With `shadow = [\"lru\", \"face-gsc\"]` in the configuration, and a \
             reload, this says what they would have done."
        } else {
            "The policy that runs cannot be a shadow at the size of the sample, so there is nothing to \
             compare the shadows with. A greater `shadow_sample` may help."
        });
    };
    if now.shadows.len() == 1 {
        return say("The only shadow is the policy that runs: name others under `shadow`.");
    }
    let newest = DayPoint::of(now);
    let Some(blocks) = blocks(history, now, &newest) else {
        return say(&format!(
            "There is too little data for advice yet: once the shadows have filled, it takes \
             {BLOCKS_MIN} minutes with accesses, and {} accesses that each of them sees. This one has \
             seen {} in {}.",
            output::count(SAMPLED_MIN),
            output::count(now.shadows[place].sampled_accesses),
            duration(now.uptime_s - now.shadow_start_s),
        ));
    };
    let window = window_name(&blocks);
    let rated = rate(&blocks, now, place);
    let mut sentences = vec![];
    let reload = best(&rated, |takes| takes == Takes::Reload);
    let restart = best(&rated, |takes| takes == Takes::Restart);
    let own = &rated[place];
    if own.io_ms <= 0.0 {
        sentences.push(format!("`{}` needed no I/O time in {window}.", own.shadow.name));
        return Advice { sentences, adopt: None, rated, window };
    }
    let mut adopt = None;
    let candidates = reload.into_iter().chain(restart);
    for candidate in candidates {
        let Some(saving) = candidate.saving else { continue };
        let is_better = saving.share >= TIE_SHARE && saving.low > 0.0;
        let beats = |other: &Rated<'_>| candidate.io_ms < other.io_ms * (1.0 - TIE_SHARE);
        let is_restart = candidate.shadow.adoption.takes == Takes::Restart;
        if is_restart && (!is_better || adopt.is_some_and(|other| !beats(other))) {
            continue;
        }
        sentences.push(sentence(candidate, saving, own, &window));
        if is_better {
            sentences.extend(wear(candidate, own));
            adopt = adopt.or(Some(candidate));
            if is_restart {
                sentences.push("Its sizes take a restart.".to_owned());
            }
        }
    }
    if sentences.is_empty() {
        sentences.push(format!(
            "Nothing would have been better than `{}` in {window}.",
            own.shadow.name
        ));
    }
    let adopt = adopt.map(|rated| rated.shadow);
    Advice { sentences, adopt, rated, window }
}

/// Return the points at which the window's blocks begin and end, if it has enough of them.
fn blocks(history: &History, now: &Status, newest: &DayPoint) -> Option<Vec<DayPoint>> {
    let age_s = now.uptime_s - now.shadow_start_s;
    let beginning_s = (now.uptime_s - DAY_S).max(now.shadow_start_s + age_s * FILLING_SHARE);
    let same = |point: &&DayPoint| {
        point.uptime_s >= beginning_s
            && point.uptime_s < newest.uptime_s
            && point.shadow_start_s.total_cmp(&now.shadow_start_s).is_eq()
            && point.shadows.len() == newest.shadows.len()
    };
    let mut points: Vec<&DayPoint> = history.day(now).filter(same).collect();
    points.push(newest);
    let steps = points.len() - 1;
    let count = steps.min(BLOCKS_MAX);
    if count < BLOCKS_MIN {
        return None;
    }
    let bounds: Vec<DayPoint> =
        (0..=count).map(|block| points[block * steps / count].clone()).collect();
    let sampled = |pair: &[DayPoint]| pair[1].shadows[0].sampled - pair[0].shadows[0].sampled;
    let busy = bounds.windows(2).filter(|pair| sampled(pair) > 0.0).count();
    let least = (0..newest.shadows.len())
        .map(|shadow| newest.shadows[shadow].sampled - bounds[0].shadows[shadow].sampled)
        .fold(f64::INFINITY, f64::min);
    (busy >= BLOCKS_MIN && least >= SAMPLED_MIN as f64).then_some(bounds)
}

/// Return the figures of all shadows in the window. `place` is the index of the running policy.
fn rate<'a>(blocks: &[DayPoint], now: &'a Status, place: usize) -> Vec<Rated<'a>> {
    let (first, last) = (&blocks[0], &blocks[blocks.len() - 1]);
    let io_ms = |shadow: usize| -> Vec<f64> {
        let parts = blocks.windows(2);
        parts.map(|pair| pair[1].shadows[shadow].io_ms - pair[0].shadows[shadow].io_ms).collect()
    };
    let own = io_ms(place);
    let rated = now.shadows.iter().enumerate().map(|(shadow, status)| {
        let (from, to) = (&first.shadows[shadow], &last.shadows[shadow]);
        let accesses = (to.accesses - from.accesses).max(1.0);
        Rated {
            shadow: status,
            io_ms: (to.io_ms - from.io_ms) / accesses,
            flash_writes: (to.flash_writes - from.flash_writes) / accesses,
            saving: (shadow != place).then(|| saving(&own, &io_ms(shadow))).flatten(),
        }
    });
    rated.collect()
}

/// Return the share by which the sum of the other values is less than that of the first, block by block.
fn saving(own: &[f64], other: &[f64]) -> Option<Saving> {
    let count = own.len() as f64;
    let (own_sum, other_sum): (f64, f64) = (own.iter().sum(), other.iter().sum());
    if own_sum <= 0.0 || own.len() < 2 {
        return None;
    }
    let ratio = other_sum / own_sum;
    let rests: Vec<f64> = own.iter().zip(other).map(|(own, other)| other - ratio * own).collect();
    let squares: f64 = rests.iter().map(|rest| rest * rest).sum();
    let products: f64 = rests.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation =
        if squares > 0.0 { (products / squares).clamp(0.0, CORRELATION_MAX) } else { 0.0 };
    let variance = squares / (count - 1.0) * count / (own_sum * own_sum);
    let wider = (1.0 + correlation) / (1.0 - correlation);
    let half = student(count - 1.0) * (variance * wider).sqrt();
    // No time is less than none.
    Some(Saving {
        share: 1.0 - ratio,
        low: 1.0 - ratio - half,
        high: (1.0 - ratio + half).min(1.0),
    })
}

/// Return the value of Student's t below which 97.5 % lie: the expansion by Cornish and Fisher, good to 1 %
/// from 7 degrees of freedom on.
fn student(freedom: f64) -> f64 {
    let z: f64 = 1.959_964;
    let cube = z.powi(3);
    z + (cube + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * cube + 3.0 * z) / (96.0 * freedom * freedom)
}

/// Return the shadow of this kind with the least I/O time, if any.
fn best<'r, 'a>(
    rated: &'r [Rated<'a>],
    is_wanted: impl Fn(Takes) -> bool,
) -> Option<&'r Rated<'a>> {
    let wanted =
        rated.iter().filter(|one| one.saving.is_some() && is_wanted(one.shadow.adoption.takes));
    wanted.min_by(|one, other| one.io_ms.total_cmp(&other.io_ms))
}

fn sentence(one: &Rated<'_>, saving: Saving, own: &Rated<'_>, window: &str) -> String {
    let (name, own) = (&one.shadow.name, &own.shadow.name);
    let Saving { share, low, high } = saving;
    let percent = |share: f64| saving.percent(share);
    let range =
        |low: f64, high: f64| format!("likely range {} to {} %", percent(low), percent(high));
    if share >= TIE_SHARE && low > 0.0 {
        return format!(
            "`{name}` would have needed {} % less I/O time than `{own}` in {window}, {}.",
            percent(share),
            range(low, high)
        );
    }
    if share >= TIE_SHARE {
        return format!(
            "No other policy would have been better for certain: `{name}` would have needed {} % less I/O time \
             than `{own}` in {window}, but the likely range reaches from {} % more to {} % less.",
            percent(share),
            percent(-low),
            percent(high)
        );
    }
    if share > -TIE_SHARE {
        return format!(
            "No other policy would have been better: `{name}` comes next, with as much I/O time as `{own}` within \
             {:.0} % in {window}.",
            TIE_SHARE * 100.0
        );
    }
    format!(
        "No other policy would have been better: `{name}` comes next, with {} % more I/O time than `{own}` in \
         {window}.",
        percent(-share)
    )
}

/// Say how much more or less a shadow would write to flash.
fn wear(one: &Rated<'_>, own: &Rated<'_>) -> Option<String> {
    if own.flash_writes <= 0.0 {
        return (one.flash_writes > 0.0)
            .then(|| "It would write to flash, which the policy that runs does not.".to_owned());
    }
    let share = one.flash_writes / own.flash_writes - 1.0;
    let word = if share > 0.0 { "more" } else { "less" };
    (share.abs() >= WEAR_SHARE)
        .then(|| format!("It would write {:.0} % {word} to flash.", share.abs() * 100.0))
}

/// Name the window.
fn window_name(blocks: &[DayPoint]) -> String {
    let seconds = blocks[blocks.len() - 1].uptime_s - blocks[0].uptime_s;
    format!("the last {}", duration(seconds))
}

/// Format a time in the unit that reads best, rounded.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 99.5 => format!("{seconds:.0} s"),
        _ if seconds < 99.5 * 60.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 72.0 * 3600.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / DAY_S),
    }
}

#[cfg(test)]
mod tests;
