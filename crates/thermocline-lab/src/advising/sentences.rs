//! The answer in plain sentences, made from the figures.

use super::advice::{Advice, Asked, bytes, duration, lasts, needs_no_cache, saved_by_ram};
use super::{Forecast, NoCache, Range};

const HOUR_S: u64 = 3600;
/// Number of months from which lives are stated in years.
const MONTHS_PER_YEAR: f64 = 12.0;
const DAYS_PER_MONTH: f64 = 365.25 / MONTHS_PER_YEAR;
/// Upper bound of lives, in months: nothing lasts longer.
const MONTHS_MOST: f64 = 1200.0;

/// Return the answer, one sentence after the other.
pub(super) fn sentences(advice: &Advice, asked: &Asked) -> Vec<String> {
    let mut all = vec![seen(advice)];
    all.extend(advice.seen.working_sets.iter().map(|set| {
        let window = if set.seconds == HOUR_S { "an hour" } else { "a day" };
        format!(
            "The working set of {window} is {} ({} to {}).",
            bytes(set.median_bytes),
            bytes(set.least_bytes),
            bytes(set.most_bytes)
        )
    }));
    if let Some(today) = &advice.today {
        all.push(format!("Today {} {}.", called(today), does(today)));
        if !lasts(today, asked.least_months) {
            all.push(format!(
                "That wears flash out sooner than in the {} that it must last.",
                months(asked.least_months)
            ));
        }
    }
    for one in &advice.kinds {
        all.push(format!("The best setting of {} {}.", called(&one.forecast), does(&one.forecast)));
    }
    let NoCache { read_ms, write_ms, .. } = advice.no_cache;
    all.push(format!(
        "Without a cache, a read takes {read_ms:.2} ms, and a write {write_ms:.2} ms."
    ));
    all.push(verdict(advice, asked));
    all.extend(size(advice, asked));
    all.extend(ram(advice));
    all
}

fn seen(advice: &Advice) -> String {
    let seen = &advice.seen;
    let sample = match seen.rate {
        rate if rate >= 1.0 => String::new(),
        rate => format!(", of which one in {:.0} was looked at", 1.0 / rate),
    };
    format!(
        "Seen: {} requests{}, {:.0} % of the pages written, to {} of the disk{sample}.",
        crate::metric::grouped(seen.requests),
        seen.seconds.map_or_else(String::new, |seconds| format!(" in {}", duration(seconds))),
        100.0 * seen.write_share,
        bytes(seen.footprint_bytes),
    )
}

/// Return a cache with its settings.
fn called(forecast: &Forecast) -> String {
    let settings: Vec<String> = forecast
        .parameters
        .iter()
        .map(|(name, value)| format!("{name} {}", value.as_str().unwrap_or_default()))
        .collect();
    let size = bytes(forecast.flash_bytes as f64);
    if settings.is_empty() {
        return format!("{} of {size}", forecast.name);
    }
    format!("{} of {size} ({})", forecast.name, settings.join(", "))
}

/// Describe the effect of a cache.
fn does(forecast: &Forecast) -> String {
    let ms = |range| between(range, |ms| format!("{ms:.2}"));
    let mut text = format!(
        "answers {} of the accesses, and a read takes {} ms",
        percent(forecast.hit_ratio),
        ms(forecast.read_ms),
    );
    if let Some(write_ms) = forecast.write_ms {
        text += &format!(", a write {} ms", ms(write_ms));
    }
    if let Some(written) = forecast.flash_bytes_written_per_day {
        text += &format!("; it writes {} to flash a day", between(written, bytes));
    }
    if let Some(life) = forecast.life_months {
        text += &format!(", which then lasts {}", between(life, months));
    }
    text
}

fn verdict(advice: &Advice, asked: &Asked) -> String {
    let Some(best) = advice.recommended.map(|best| &advice.kinds[best].forecast) else {
        let any_lasts = advice.kinds.iter().any(|one| lasts(&one.forecast, asked.least_months));
        if any_lasts && needs_no_cache(advice, asked.least_months) {
            return format!(
                "Use no cache: the disk alone takes {:.2} ms per access, and no cache here takes 2 % less.",
                advice.no_cache.device_ms_per_access
            );
        }
        return match (&advice.today, any_lasts) {
            (Some(_), true) => "Leave it as it is: nothing here is better by more than 2 %.".into(),
            (_, false) => format!(
                "Nothing here lasts {}: use flash that may be written more often, or more of it.",
                months(asked.least_months)
            ),
            (None, true) => "Nothing can be recommended.".into(),
        };
    };
    match &advice.today {
        Some(today) if lasts(today, asked.least_months) => format!(
            "Set {}: the devices work {:.0} % less for the same requests.",
            called(best),
            100.0 * (1.0 - best.device_ms_per_access / today.device_ms_per_access)
        ),
        Some(_) => format!("Set {}: it lasts as long as it must.", called(best)),
        None => format!("Set up {}.", called(best)),
    }
}

/// Describe the size above which more flash stops paying.
fn size(advice: &Advice, asked: &Asked) -> Option<String> {
    let last = advice.sizes.last().filter(|_| advice.sizes.len() > 1)?;
    let of = |bytes: u64| advice.sizes.iter().find(|one| one.flash_bytes == bytes);
    let (here, enough) = (of(asked.flash_bytes), of(advice.enough_flash_bytes)?);
    let hits = |forecast: &Forecast| 100.0 * forecast.hit_ratio.estimate;
    let size = bytes(enough.flash_bytes as f64);
    if enough.flash_bytes == last.flash_bytes {
        return Some(format!(
            "More flash pays at least up to {size}, where {:.0} % are answered.",
            hits(enough)
        ));
    }
    Some(match (enough.flash_bytes.cmp(&asked.flash_bytes), here) {
        (std::cmp::Ordering::Greater, Some(here)) => format!(
            "Flash stops paying at {size}, where {:.0} % are answered instead of {:.0} %.",
            hits(enough),
            hits(here)
        ),
        (std::cmp::Ordering::Less, Some(here)) => format!(
            "{size} of flash would do: {:.0} % are answered there, and {:.0} % at this size.",
            hits(enough),
            hits(here)
        ),
        _ => format!("More flash than {size} does not pay."),
    })
}

/// Return the sentence about more RAM: if it pays.
fn ram(advice: &Advice) -> Option<String> {
    let more = advice.more_ram.as_ref()?;
    let is_same = |one: &&Forecast| {
        one.flash_bytes == more.flash_bytes && one.name == more.name && one.policy == more.policy
    };
    let best = advice.sizes.iter().find(is_same)?;
    let size = bytes(more.ram_bytes as f64);
    Some(match saved_by_ram(more, best) {
        Some(saved) => format!(
            "More RAM pays: with {size}, the devices work {:.0} % less than with {}.",
            100.0 * saved,
            bytes(best.ram_bytes as f64)
        ),
        None => format!("More RAM does not pay: with {size}, the devices work nearly as much."),
    })
}

fn between(range: Range, show: impl Fn(f64) -> String) -> String {
    let [estimate, low, high] = [range.estimate, range.low, range.high].map(show);
    if low == high { estimate } else { format!("{estimate} ({low} to {high})") }
}

/// Return a share, of which the ends need no sign.
fn percent(range: Range) -> String {
    let Range { estimate, low, high } = range;
    format!("{:.0} % ({:.0} to {:.0} %)", 100.0 * estimate, 100.0 * low, 100.0 * high)
}

/// Return a time in months, in the unit that suits it.
pub fn months(months: f64) -> String {
    match months {
        months if months > MONTHS_MOST => "over a hundred years".into(),
        months if months >= 3.0 * MONTHS_PER_YEAR => {
            format!("{:.0} years", months / MONTHS_PER_YEAR)
        }
        months if months >= 2.0 => format!("{months:.0} months"),
        months if months * DAYS_PER_MONTH >= 2.0 => format!("{:.0} days", months * DAYS_PER_MONTH),
        months => format!("{:.1} h", months * DAYS_PER_MONTH * 24.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        for (given, says) in [
            (5000.0, "over a hundred years"),
            (61.0, "5 years"),
            (35.0, "35 months"),
            (1.0, "30 days"),
            (0.02, "14.6 h"),
        ] {
            assert_eq!(months(given), says);
        }
    }
}
