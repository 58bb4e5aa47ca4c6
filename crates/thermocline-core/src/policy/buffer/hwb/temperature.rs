//! The temperature of a page: how often it is written, and when it will be written again.
//!
//! * Source: HWB, section III-B, equations 1 and 2; section III-D, equation 3.
//! * State: 8 bytes per page that exists, 64 per page that is known.
//! * Cost: O(1) per write and per temperature.
//! * Deviations: those of the policy, (1) to (4).

use alloc::boxed::Box;
use alloc::vec;

use crate::PageId;
use crate::config::Values;

/// Rules by which temperatures are computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The greatest scaling factor (Eq. 2).
    lambda_cap: f64,
    /// `true` if the factor is 2 times lambda, not 2 to the power of lambda.
    is_product: bool,
    /// `true` if the last error of the prediction is added to the next one.
    with_residual: bool,
    /// `true` if a page that is overdue cools down.
    with_aging: bool,
}

/// Times at which a page, or a block, was written, and the prediction from them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct History {
    /// The number of the last write (PT).
    last_write: u64,
    /// The last re-use distance (`D_last`) and the one before it, in page writes.
    last: u64,
    last_but_one: u64,
    /// Number of distances.
    distances: u32,
    /// Their mean (`D_avg`).
    mean: f64,
    /// The next one, as predicted (`D_predict`), at least 1.
    predicted: f64,
}

/// Writes of a page in this period and the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frequency {
    period: u64,
    current: u32,
    previous: u32,
}

/// Writes of all pages in this period and the one before.
///
/// Every page that was written counts, even if the policy has forgotten everything else about it.
#[derive(Clone, Debug)]
pub(super) struct Frequencies {
    /// Page writes per period; all, if there is but one.
    length: Option<u64>,
    period: u64,
    current_writes: u64,
    previous_writes: u64,
    /// Distinct pages of this period, and of both.
    current_pages: u64,
    pages: u64,
    /// Per page: one more than the period in which it was last written; 0 if it never was.
    last_period: Box<[u64]>,
}

impl Rules {
    pub(super) fn of(values: &Values) -> Self {
        Self {
            lambda_cap: values.real("lambda_cap"),
            is_product: values.choice("prediction") == "product",
            with_residual: values.switch("residual"),
            with_aging: values.switch("aging"),
        }
    }

    /// Return the next re-use distance (Eq. 2). Lambda is 0 while distances do not grow, which as
    /// an exponent says: no longer than last time.
    fn predict(&self, last: u64, last_but_one: Option<u64>, residual: f64) -> f64 {
        let last = last as f64;
        let lambda = match last_but_one.map(|distance| distance as f64) {
            // Section III-B: a distance that grows means a page that cools, with lambda as the
            // ratio; else lambda is 0. The cap keeps a ratio of thousands from making the power
            // infinite.
            Some(last_but_one) if last_but_one < last => (last / last_but_one).min(self.lambda_cap),
            _ => 0.0,
        };
        // The paper prints 2 lambda, but its Eq. 3 repeats the term as a power. A product would
        // predict the distance 0 for pages that heat up.
        let factor = if self.is_product { 2.0 * lambda } else { libm::exp2(lambda) };
        let residual = if self.with_residual { residual } else { 0.0 };
        // A write cannot come before the next one, so a residual must not make the distance 0 or
        // negative.
        (factor * last + residual).max(1.0)
    }

    /// Return the terms of the temperature (Eq. 1), of the frequency and of the distance; a page
    /// that was written once has no distance, and 0 for the term.
    pub(super) fn terms(
        &self,
        now: u64,
        history: &History,
        frequency: &Frequency,
        all: &Frequencies,
    ) -> [f64; 2] {
        // Ours: without it a page that was hot once keeps its temperature for ever, as the equation
        // knows only past distances.
        let overdue = if self.with_aging { now - history.last_write } else { 0 };
        let predicted = history.predicted.max(overdue as f64);
        // Eq. 1: F_self / F_avg, and D_avg / D_predict. The page itself was just counted, so the
        // mean is never 0.
        [all.of(frequency) / all.mean(), history.mean / predicted]
    }
}

impl History {
    /// Create the history of a page that is written for the first time.
    pub(super) fn new(now: u64) -> Self {
        Self { last_write: now, predicted: 1.0, ..Self::default() }
    }

    /// Notes another write.
    pub(super) fn write(&mut self, now: u64, rules: &Rules) {
        // Deviation (2): the paper's Section I counts distinct pages, but Eq. 3 adds the distance
        // to PT, a number of write requests. Only writes fit both.
        let distance = now - self.last_write;
        let is_first = self.distances == 0;
        // Beta is the error of the last prediction.
        let residual = if is_first { 0.0 } else { distance as f64 - self.predicted };
        self.last_but_one = self.last;
        self.last = distance;
        self.distances = self.distances.saturating_add(1);
        // A running mean of all distances, D_avg, needs no list of them.
        self.mean += (distance as f64 - self.mean) / f64::from(self.distances);
        let last_but_one = (!is_first).then_some(self.last_but_one);
        self.predicted = rules.predict(distance, last_but_one, residual);
        self.last_write = now;
    }

    /// Predict the time of the next write (Eq. 3), if there was a distance to predict it from.
    pub(super) fn expected(&self) -> Option<f64> {
        // Eq. 3: ED = PT + 2^lambda * D_last + beta, where the last two terms are the prediction of
        // Eq. 2.
        (self.distances > 0).then_some(self.last_write as f64 + self.predicted)
    }
}

impl Frequencies {
    /// Create periods of `length` page writes; a single one if `None`.
    pub(super) fn new(length: Option<u64>, pages: u32) -> Self {
        Self {
            length,
            period: 0,
            current_writes: 0,
            previous_writes: 0,
            current_pages: 0,
            pages: 0,
            last_period: vec![0; pages as usize].into_boxed_slice(),
        }
    }

    /// Notes write number `now`, of a page of which nothing is known if it has no frequency.
    pub(super) fn write(
        &mut self,
        now: u64,
        page: PageId,
        frequency: Option<Frequency>,
    ) -> Frequency {
        self.turn_to(self.length.map_or(0, |length| (now - 1) / length));
        self.current_writes += 1;
        let this_period = self.period + 1;
        let last_period = core::mem::replace(&mut self.last_period[page.index()], this_period);
        self.current_pages += u64::from(last_period != this_period);
        // A page counts once for both periods: not again if it was written in this one or the one
        // before.
        self.pages += u64::from(last_period == 0 || last_period + 1 < this_period);
        let known = self.shifted(frequency.unwrap_or_default());
        Frequency { current: known.current.saturating_add(1), ..known }
    }

    /// Return the writes of a page in this period and the one before.
    fn of(&self, frequency: &Frequency) -> f64 {
        let Frequency { current, previous, .. } = self.shifted(*frequency);
        f64::from(current) + f64::from(previous)
    }

    /// Return the same, of all pages written in them, on average.
    fn mean(&self) -> f64 {
        (self.current_writes + self.previous_writes) as f64 / self.pages as f64
    }

    /// Return a frequency as of the period that it is now.
    fn shifted(&self, frequency: Frequency) -> Frequency {
        let period = self.period;
        match period - frequency.period {
            0 => frequency,
            1 => Frequency { period, current: 0, previous: frequency.current },
            _ => Frequency { period, current: 0, previous: 0 },
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.last_period)
    }

    fn turn_to(&mut self, period: u64) {
        if period > self.period {
            // Each write is in the period of the one before it, or in the next.
            self.previous_writes = core::mem::take(&mut self.current_writes);
            // The pages of the period that ends are the start of the next count over two periods.
            self.pages = core::mem::take(&mut self.current_pages);
            self.period = period;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules =
        Rules { lambda_cap: 8.0, is_product: false, with_residual: true, with_aging: false };

    #[track_caller]
    fn assert_near(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-9, "{one} is not {other}");
    }

    #[test]
    fn predictions_follow_equation_2() {
        assert_near(RULES.predict(10, None, 0.0), 10.0);
        assert_near(RULES.predict(20, Some(10), 10.0), 90.0);
        assert_near(RULES.predict(5, Some(20), -85.0), 1.0);
        assert_near(RULES.predict(7, Some(7), 0.0), 7.0);
        assert_near(RULES.predict(100, Some(1), 0.0), 25_600.0);
        let product = Rules { is_product: true, ..RULES };
        assert_near(product.predict(20, Some(10), 10.0), 90.0);
        assert_near(product.predict(7, Some(9), 3.0), 3.0);
        assert_near(Rules { with_residual: false, ..RULES }.predict(20, Some(10), 10.0), 80.0);
    }

    #[test]
    fn temperatures_follow_equation_1() {
        let mut all = Frequencies::new(None, 32);
        let mut page: Option<(History, Frequency)> = None;
        for now in 1..=31 {
            if ![1, 11, 31].contains(&now) {
                all.write(now, PageId(u32::try_from(now).unwrap()), None);
                continue;
            }
            let frequency = all.write(now, PageId(0), page.map(|(_, frequency)| frequency));
            let history = page.map_or(History::new(now), |(mut history, _)| {
                history.write(now, &RULES);
                history
            });
            page = Some((history, frequency));
        }
        let (history, frequency) = page.unwrap();
        let temperature = |rules: &Rules, now| {
            let [frequency, distance] = rules.terms(now, &history, &frequency, &all);
            0.5 * frequency + 0.5 * distance
        };
        assert_near(temperature(&RULES, 31), 0.5 * 3.0 * 29.0 / 31.0 + 0.5 * 15.0 / 90.0);
        let aging = Rules { with_aging: true, ..RULES };
        assert_near(temperature(&aging, 121), temperature(&RULES, 121));
        assert_near(temperature(&aging, 211), 0.5 * 3.0 * 29.0 / 31.0 + 0.5 * 15.0 / 180.0);
        assert_eq!(history.expected(), Some(121.0));
        assert_eq!(History::new(5).expected(), None);
    }

    #[test]
    fn frequencies_forget_what_is_two_periods_ago() {
        let mut all = Frequencies::new(Some(4), 3);
        let mut one = None;
        for now in 1..=4 {
            one = Some(all.write(now, PageId(0), one));
        }
        let one = one.unwrap();
        assert_near(all.of(&one) / all.mean(), 1.0);
        let mut other = None;
        for now in 5..=8 {
            other = Some(all.write(now, PageId(1), other));
        }
        assert_near(all.of(&one), 4.0);
        assert_near(all.mean(), 4.0);
        let third = all.write(9, PageId(2), None);
        assert_near(all.of(&one), 0.0);
        assert_near(all.of(&third), 1.0);
        assert_near(all.mean(), 2.5);
    }
}
