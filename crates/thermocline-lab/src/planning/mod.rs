//! Plan of the tiers and the policy to buy for a budget.
//!
//! 1. Sizes of RAM and flash under the budget, from a thousandth of the footprint to all of it, by
//!    policies: the candidates.
//! 2. Each is simulated in miniature. Those that another one beats in cost, latency and flash
//!    writes are left out, and so are those that could not last long enough even if the drive wrote
//!    nothing twice.
//! 3. The others, up to [`FINALISTS`], are simulated in full, with devices that queue and an SSD
//!    that wears. The front has those that no other one beats in cost, latency and lifetime. One that
//!    wears out too soon, or does not keep pace with the trace, is struck out, with the reason; if
//!    nothing keeps pace, all is simulated again with a closed loop.

mod asked;
mod choice;
mod engine;
mod prompts;

use std::cmp::Ordering;
use std::slice;

use serde::Serialize;
use thermocline_core::Clients;
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_device::ssd::SsdConfig;
use thermocline_trace::CompiledTrace;

use crate::lifetime::{lifetime_years, recorded_s};
use crate::metric::flash_drive;
use crate::mrc::{Estimate, Miniature, Rate};
use crate::spec::Step::Key;
use crate::spec::{
    DeviceSpec, DriveSpec, HierarchySpec, ModelSpec, TierSpec, TimingMode, TimingSpec,
};
use crate::turns::in_parallel;
use crate::{
    Arrivals, Configuration, LabError, RunOptions, TierSize, TimingSummary, TraceSummary, Watch,
    configurations, find_ssd, run,
};

pub use asked::{CURRENCY, LEAST_YEARS, Objective, PlanOptions};
pub use choice::{Choice, StruckOut};
pub use engine::{EnginePoint, check_engine_pages};
pub use prompts::{
    DRIVE_TIER, KvChoice, KvObjective, KvPlan, KvPlanOptions, KvPlanTier, KvStruckOut,
};

/// Maximum number of candidates that are simulated in full.
pub const FINALISTS: usize = 24;
/// Number of these that are the best by the objective; the others are spread over the costs.
const BEST: usize = 8;
/// Number of these without flash, if flash must last: they remain if none of the others lasts.
const LASTING: usize = 4;
/// Number of these that would wear out too soon, if flash must last: a reader may ask for them.
const TEMPTING: usize = 2;
/// Requests kept outstanding where nothing keeps pace with the trace's times.
const CLOSED_LOOP: u32 = 8;
/// Sizes of each tier among the candidates.
const SIZES: u32 = 10;
/// The least size is so much smaller than the greatest.
const SIZES_SPAN: f64 = 1000.0;

/// Plan of purchases. Its JSON form has a stable schema.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The trace.
    pub trace: TraceSummary,
    /// Maximum cost of all tiers together.
    pub budget: f64,
    /// Cost of the disk, which is part of every cost.
    pub disk_cost: f64,
    /// Currency of prices and of every cost.
    pub currency: String,
    /// Objective.
    pub objective: Objective,
    /// Reason for this objective, in words, if the caller named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective_reason: Option<&'static str>,
    /// Number of requests that were kept outstanding; absent if they arrived at the trace's times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<u32>,
    /// Average number of requests that would have waited at one time, had they arrived at the
    /// trace's times: the reason why they did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturated_by: Option<f64>,
    /// Minimum lifetime of flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_lifetime_years: Option<f64>,
    /// Candidates that were simulated in miniature.
    pub candidates: usize,
    /// Candidates that were simulated in full.
    pub simulated: usize,
    /// Choices that no other one beats in cost, latency and lifetime, by cost.
    pub front: Vec<Choice>,
    /// Index in the front of the best choice by the objective.
    pub chosen: usize,
    /// Choices that are better by the objective or cheaper than some of the front, and not
    /// recommended, by cost.
    pub struck_out: Vec<StruckOut>,
    /// The drive that flash is; not part of the JSON.
    #[serde(skip)]
    pub flash_drive: DriveSpec,
}

/// Progress of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanProgress {
    /// Number of candidates that are simulated in miniature from now on.
    Coarse(usize),
    /// Number of candidates that are simulated in full from now on.
    Full(usize),
    /// One is finished.
    Done,
}

/// A candidate with what the miniature says.
struct Candidate {
    configuration: Configuration,
    cost: f64,
    latency: f64,
    io_ms: f64,
    /// Upper bound of the lifetime, in years.
    lifetime: f64,
}

/// Results of the simulations in full.
struct Full {
    choices: Vec<Choice>,
    closed_loop: Option<u32>,
    saturated_by: Option<f64>,
}

impl Plan {
    /// Looks for the best tiers and policy. `progress` is told how far it is.
    ///
    /// # Errors
    /// If the budget leaves nothing for caches, prices or devices are invalid, the trace has no
    /// times and there is no closed loop, or nothing lasts long enough.
    pub fn search(
        trace: &CompiledTrace,
        options: &PlanOptions,
        watch: &Watch,
        progress: impl Fn(PlanProgress) + Sync,
    ) -> Result<Self, LabError> {
        if options.closed_loop.is_none() && !trace.is_timed() {
            return Err(LabError::NoTimes { path: trace.path().display().to_string() });
        }
        let priced = Priced::new(trace, options, watch)?;
        let configurations = priced.configurations()?;
        progress(PlanProgress::Coarse(configurations.len()));
        let candidates = priced.coarse(&configurations, &progress)?;
        let finalists = finalists(candidates, options);
        let simulated = finalists.len();
        let Full { choices, closed_loop, saturated_by } = priced.full(finalists, &progress)?;
        let longest = choices.iter().map(Choice::lifetime).fold(0.0, f64::max);
        let (objective, objective_reason) = match options.objective {
            Some(objective) => (objective, None),
            None => choice::telling_objective(&choices, saturated_by.is_some()),
        };
        let (kept, struck_out) =
            Choice::judge(choices, objective, options.least_years(), &priced.drive);
        let front =
            front(kept, |choice| [choice.cost, choice.figure(objective), -choice.lifetime()]);
        let best = |one: &(usize, &Choice), other: &(usize, &Choice)| {
            let key = |choice: &Choice| [choice.figure(objective), choice.cost];
            compare(&key(one.1), &key(other.1))
        };
        let chosen = front.iter().enumerate().min_by(best).map(|(place, _)| place);
        let chosen = chosen.ok_or(LabError::NothingLasts { longest })?;
        Ok(Self {
            trace: TraceSummary::of(trace),
            budget: options.budget,
            disk_cost: priced.disk_cost(),
            currency: options.currency.clone(),
            objective,
            objective_reason,
            closed_loop,
            saturated_by,
            min_lifetime_years: options.min_lifetime_years,
            candidates: configurations.len(),
            simulated,
            front,
            chosen,
            struck_out,
            flash_drive: priced.flash_drive,
        })
    }

    /// Describe when requests arrived, and why not at the trace's times, in a sentence.
    pub fn arrivals(&self) -> String {
        match (self.closed_loop, self.saturated_by) {
            (None, _) => "Requests arrive at the trace's times (open loop).".into(),
            (Some(requests), None) => {
                format!("{requests} requests are kept outstanding (closed loop).")
            }
            (Some(requests), Some(waiting)) => format!(
                "{requests} requests are kept outstanding (closed loop): at the trace's times, {waiting:.0} would wait at one time, as the trace comes from a faster machine; --closed-loop N takes another number."
            ),
        }
    }
}

/// A trace with what its tiers cost.
struct Priced<'a> {
    trace: &'a CompiledTrace,
    options: &'a PlanOptions,
    watch: &'a Watch,
    policies: Vec<PolicyEntry>,
    flash_drive: DriveSpec,
    drive: SsdConfig,
}

impl<'a> Priced<'a> {
    fn new(
        trace: &'a CompiledTrace,
        options: &'a PlanOptions,
        watch: &'a Watch,
    ) -> Result<Self, LabError> {
        let is_bad = |price: &&f64| !price.is_finite() || **price < 0.0;
        if let Some(&price) = options.prices.iter().find(is_bad) {
            return Err(LabError::BadPrice { price });
        }
        if is_bad(&&options.budget) {
            let reason = format!("{} is invalid: expected a number of at least 0", options.budget);
            return Err(LabError::at(&[Key("budget")], reason));
        }
        let policies = options.check()?;
        let flash_drive = options.flash_drive(trace)?;
        let drive = find_ssd(&flash_drive)?;
        let priced = Self { trace, options, watch, policies, flash_drive, drive };
        let (disk_cost, page_cost) = (priced.disk_cost(), priced.cost(1, 0));
        if page_cost > options.budget {
            let budget = options.budget;
            return Err(LabError::BudgetTooSmall { budget, disk_cost, least: page_cost });
        }
        Ok(priced)
    }

    fn gib(&self, pages: u64) -> f64 {
        pages as f64 * self.trace.page_size_bytes() as f64 / f64::from(1 << 30)
    }

    fn disk_cost(&self) -> f64 {
        let footprint_bytes =
            u64::from(self.trace.footprint_pages()) * self.trace.page_size_bytes();
        let bytes = self.options.disk_bytes.unwrap_or(footprint_bytes);
        bytes as f64 / f64::from(1 << 30) * self.options.prices[2]
    }

    /// Return the cost of all tiers together.
    fn cost(&self, ram_pages: u64, flash_pages: u64) -> f64 {
        let [ram, flash, _] = self.options.prices;
        self.disk_cost() + self.gib(ram_pages) * ram + self.gib(flash_pages) * flash
    }

    /// Return the most pages that a rest of the budget buys, up to the footprint.
    fn affordable_pages(&self, rest: f64, price: f64) -> u32 {
        let footprint_pages = self.trace.footprint_pages();
        let pages = rest / (self.gib(1) * price);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and at most the footprint"
        )]
        let pages = pages.clamp(0.0, f64::from(footprint_pages)) as u32;
        // A price of 0 buys everything.
        if price > 0.0 { pages } else { footprint_pages }
    }

    /// Return all configurations under the budget.
    fn configurations(&self) -> Result<Vec<Configuration>, LabError> {
        let [ram_price, flash_price, _] = self.options.prices;
        let rest = self.options.budget - self.disk_cost();
        let mut all = vec![];
        for ram in sizes(self.affordable_pages(rest, ram_price)) {
            let rest = rest - self.gib(u64::from(ram)) * ram_price;
            let flash_sizes = sizes(self.affordable_pages(rest, flash_price));
            for policy in &self.policies {
                if policy.capabilities.depth == Depth::Ram {
                    all.push(self.configuration(policy, ram, 0)?);
                    continue;
                }
                for &flash in &flash_sizes {
                    all.push(self.configuration(policy, ram, flash)?);
                }
            }
        }
        // Sizes with which a policy cannot be built, like a flash smaller than its groups, are left out.
        all.retain(|configuration| configuration.build(self.trace).is_ok());
        Ok(all)
    }

    fn configuration(
        &self,
        policy: &PolicyEntry,
        ram: u32,
        flash: u32,
    ) -> Result<Configuration, LabError> {
        let options = self.options;
        let [ram_device, flash_device, disk_device] = options.devices.clone();
        let tier = |name: &str, pages: u32, device| TierSpec {
            device,
            ..TierSpec::new(name, &[TierSize::Pages(pages.into())])
        };
        let mut tiers =
            vec![tier("ram", ram, DeviceSpec { name: ram_device, ..DeviceSpec::default() })];
        if flash > 0 {
            let model = Some(ModelSpec::Drive(self.flash_drive.clone()));
            let device = DeviceSpec { name: flash_device, model, ..DeviceSpec::default() };
            tiers.push(tier("flash", flash, device));
        }
        let (name, model) = (disk_device, options.disk_model.clone());
        let spec = HierarchySpec {
            tiers,
            disk: DeviceSpec { name, model, ..DeviceSpec::default() },
            timing: TimingSpec { mode: TimingMode::Events, closed_loop: options.closed_loop },
            ..HierarchySpec::default()
        };
        let mut all = configurations(&spec, slice::from_ref(policy), Clients::ONE)?;
        Ok(all.pop().expect("one policy and one size of each tier are one configuration"))
    }

    /// Estimate the configurations with miniatures.
    fn coarse(
        &self,
        configurations: &[Configuration],
        progress: &(impl Fn(PlanProgress) + Sync),
    ) -> Result<Vec<Candidate>, LabError> {
        let rate = Rate::Auto { seed: self.options.seed };
        let mut candidates = vec![];
        for (miniature, places) in
            Miniature::for_each(self.trace, configurations, rate, self.watch)?
        {
            let candidate = |&place: &usize| {
                let estimate = miniature.estimate(&configurations[place], self.watch)?;
                progress(PlanProgress::Done);
                Ok((place, self.candidate(&configurations[place], &estimate)?))
            };
            let is_hosted = |&place: &usize| configurations[place].policy.is_hosted();
            let found = in_parallel(&places, is_hosted, candidate);
            candidates.extend(found.into_iter().collect::<Result<Vec<_>, LabError>>()?);
        }
        candidates.sort_by_key(|(place, _)| *place);
        Ok(candidates.into_iter().map(|(_, candidate)| candidate).collect())
    }

    fn candidate(
        &self,
        configuration: &Configuration,
        estimate: &Estimate,
    ) -> Result<Candidate, LabError> {
        let pages = configuration.capacity_pages(self.trace)?;
        let flash_pages = pages.get(1).copied().unwrap_or(0);
        let cost = self.cost(u64::from(pages[0]), u64::from(flash_pages));
        let writes = match flash_pages {
            0 => 0.0,
            _ => estimate.page_writes_per_access[1] * self.trace.len() as f64,
        };
        // Devices that do not keep pace take longer than the trace: at most as long as all transfers one
        // after the other.
        let one_by_one = estimate.io_ms_per_access * self.trace.len() as f64 / 1000.0;
        let seconds = recorded_s(self.trace).max(one_by_one);
        Ok(Candidate {
            configuration: configuration.clone(),
            cost,
            io_ms: estimate.io_ms_per_access,
            latency: match self.options.objective {
                Some(Objective::P99 | Objective::IoTime) | None => estimate.io_ms_per_access,
                Some(Objective::CostPerIo) => cost * estimate.average_response_ms,
            },
            lifetime: self.years(u64::from(flash_pages), writes, seconds),
        })
    }

    /// Return the lifetime, in years, of flash of `flash_pages` if `page_writes` are written to it
    /// in `seconds`, and the drive writes nothing twice.
    fn years(&self, flash_pages: u64, page_writes: f64, seconds: f64) -> f64 {
        if flash_pages == 0 {
            return f64::INFINITY;
        }
        let physical = flash_pages as f64 * (1.0 + self.drive.over_provisioning);
        lifetime_years(physical * f64::from(self.drive.erase_limit), page_writes, seconds)
    }

    /// Return the finalists on the whole trace: at its times if any of those that may be
    /// recommended keeps pace with it, else with a closed loop.
    fn full(
        &self,
        finalists: Vec<Candidate>,
        progress: &(impl Fn(PlanProgress) + Sync),
    ) -> Result<Full, LabError> {
        let least_years = self.options.least_years();
        let may_last = finalists.iter().filter(|one| one.lifetime >= least_years);
        let quickest = may_last.min_by(|one, other| one.io_ms.total_cmp(&other.io_ms));
        let quickest = quickest.map(|one| one.configuration.clone());
        let mut configurations: Vec<Configuration> =
            finalists.into_iter().map(|one| one.configuration).collect();
        if self.options.closed_loop.is_some() {
            let choices = self.simulate_all(&configurations, progress)?;
            let closed_loop = self.options.closed_loop;
            return Ok(Full { choices, closed_loop, saturated_by: None });
        }
        // Where the one with the least work does not keep pace, hardly another one does.
        let probe = quickest.map(|quickest| self.simulate(&quickest)).transpose()?;
        let mut saturated_by = probe.as_ref().and_then(Choice::piled_up);
        if saturated_by.is_none() {
            let choices = self.simulate_all(&configurations, progress)?;
            let lasting = || choices.iter().filter(|choice| choice.lifetime() >= least_years);
            saturated_by = lasting().filter_map(Choice::piled_up).min_by(f64::total_cmp);
            if saturated_by.is_none() || lasting().any(|choice| !choice.is_saturated) {
                return Ok(Full { choices, closed_loop: None, saturated_by: None });
            }
        }
        let arrivals = Arrivals::Closed { requests: CLOSED_LOOP };
        let timings = configurations.iter_mut().filter_map(|one| one.timing.as_mut());
        timings.for_each(|timing| timing.arrivals = arrivals);
        let choices = self.simulate_all(&configurations, progress)?;
        Ok(Full { choices, closed_loop: Some(CLOSED_LOOP), saturated_by })
    }

    fn simulate_all(
        &self,
        configurations: &[Configuration],
        progress: &(impl Fn(PlanProgress) + Sync),
    ) -> Result<Vec<Choice>, LabError> {
        progress(PlanProgress::Full(configurations.len()));
        let simulate = |configuration: &Configuration| {
            let choice = self.simulate(configuration);
            progress(PlanProgress::Done);
            choice
        };
        let choices = in_parallel(configurations, |one| one.policy.is_hosted(), simulate);
        choices.into_iter().collect()
    }

    /// Return a configuration on the whole trace, with devices that queue.
    fn simulate(&self, configuration: &Configuration) -> Result<Choice, LabError> {
        let summary = run(self.trace, configuration, RunOptions::default(), self.watch)?;
        let flash = summary.tiers[1..].iter().find(|tier| tier.name == "flash");
        let [ram_pages, flash_pages] = [Some(&summary.tiers[0]), flash]
            .map(|tier| tier.and_then(|tier| tier.capacity_pages).unwrap_or(0));
        let flash_page_writes = flash.map_or(0, |tier| tier.page_writes);
        let cost = self.cost(ram_pages, flash_pages);
        let timing = summary.timing.as_ref();
        let response = timing.map(|timing| timing.response_us).unwrap_or_default();
        let duration_s = timing.map_or(0.0, |timing| timing.duration_s);
        // Clients ask as fast as they did when they were recorded, or as fast as they are answered.
        let seconds = duration_s.max(recorded_s(self.trace));
        let worn = flash_drive(&summary).and_then(|drive| drive.lifetime_years);
        let worn = worn.map(|years| years * seconds / duration_s);
        let written = self.years(flash_pages, flash_page_writes as f64, seconds);
        Ok(Choice {
            policy: summary.policy.clone(),
            ram_pages,
            flash_pages,
            cost,
            miss_ratio: summary.tiers.last().map_or(0.0, |disk| disk.hit_ratio),
            io_time_ms: summary.io_time_ms,
            average_response_ms: summary.average_response_ms,
            cost_per_io: cost * summary.average_response_ms / 1000.0,
            p99_us: response.read.p99.max(response.write.p99),
            flash_page_writes,
            // A trace that is over before the first erase has only told what is written.
            lifetime_years: worn.or_else(|| written.is_finite().then_some(written)),
            outstanding_mean: timing.map_or(0.0, |timing| timing.outstanding_mean),
            is_saturated: timing.is_some_and(TimingSummary::is_saturated),
        })
    }
}

/// Sizes up to `most`, evenly spaced in their logarithm, ascending.
fn sizes(most: u32) -> Vec<u32> {
    sizes_of(most, SIZES)
}

/// Return the same, of which there are `count`, at least two, or fewer if pages are too few.
fn sizes_of(most: u32, count: u32) -> Vec<u32> {
    let size = |index: u32| {
        let exponent = f64::from(count - 1 - index) / f64::from(count - 1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of the greatest size"
        )]
        let pages = (f64::from(most) / SIZES_SPAN.powf(exponent)).floor() as u32;
        pages
    };
    let mut sizes: Vec<u32> = (0..count).map(size).filter(|&pages| pages > 0).collect();
    sizes.dedup();
    sizes
}

/// Return the candidates that are simulated in full: of those that no other one beats, the best by
/// the objective, and others at all costs. With them some that wear out too soon, to be struck out.
fn finalists(candidates: Vec<Candidate>, options: &PlanOptions) -> Vec<Candidate> {
    let by_objective = |one: &Candidate, other: &Candidate| {
        compare(&[one.latency, one.cost], &[other.latency, other.cost])
    };
    let least_years = options.least_years();
    let (candidates, short): (Vec<Candidate>, Vec<Candidate>) =
        candidates.into_iter().partition(|candidate| candidate.lifetime >= least_years);
    let short = sorted(front(short, |one| [one.cost, one.latency, 0.0]), by_objective);
    let left = front(candidates, |one| [one.cost, one.latency, -one.lifetime]);
    let (lasting, tempting) = if least_years > 0.0 { (LASTING, TEMPTING) } else { (0, 0) };
    let (mut chosen, mut others) = (vec![], vec![]);
    let (mut best, mut without_flash) = (0, 0);
    for one in sorted(left, by_objective) {
        if best < BEST {
            best += 1;
            chosen.push(one);
        } else if without_flash < lasting && one.configuration.tiers.len() == 1 {
            without_flash += 1;
            chosen.push(one);
        } else {
            others.push(one);
        }
    }
    let by_cost = |one: &Candidate, other: &Candidate| {
        compare(&[one.cost, one.latency], &[other.cost, other.latency])
    };
    let room = FINALISTS - BEST - lasting - tempting;
    let count = others.len();
    let spread = sorted(others, by_cost).into_iter().enumerate().filter(|(place, _)| {
        // Evenly over the places: as many steps of `room` per `count` as fall on this one.
        count <= room || place * room / count != (place + 1) * room / count
    });
    chosen.extend(spread.map(|(_, candidate)| candidate));
    chosen.extend(short.into_iter().take(tempting));
    chosen
}

fn sorted<T>(mut all: Vec<T>, order: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    all.sort_by(order);
    all
}

/// Keep the items that no other one beats: none is as good in all figures and better in one; less
/// is better. By the first figure.
fn front<T>(mut all: Vec<T>, figures: impl Fn(&T) -> [f64; 3]) -> Vec<T> {
    all.sort_by(|one, other| compare(&figures(one), &figures(other)));
    let mut front: Vec<T> = vec![];
    // Whoever beats one comes before it in this order; of equals the first stays.
    for one in all {
        let ours = figures(&one);
        let beats =
            |other: &T| figures(other).iter().zip(&ours).all(|(theirs, ours)| theirs <= ours);
        if !front.iter().any(beats) {
            front.push(one);
        }
    }
    front
}

fn compare(one: &[f64], other: &[f64]) -> Ordering {
    let pairs = one.iter().zip(other).map(|(one, other)| one.total_cmp(other));
    pairs.fold(Ordering::Equal, Ordering::then)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_what_no_other_one_beats() {
        let points =
            [[1.0, 9.0, 0.0], [2.0, 5.0, 0.0], [2.0, 6.0, 0.0], [3.0, 5.0, -1.0], [1.0, 9.0, 0.0]];
        let found = front(points.to_vec(), |point| *point);
        assert_eq!(found, [[1.0, 9.0, 0.0], [2.0, 5.0, 0.0], [3.0, 5.0, -1.0]]);
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % 8) as f64
        };
        let many: Vec<[f64; 3]> = (0..300).map(|_| [draw(), draw(), draw()]).collect();
        let found = front(many.clone(), |point| *point);
        for point in &many {
            let beaten = many.iter().any(|other| {
                let pairs = || other.iter().zip(point);
                pairs().all(|(theirs, ours)| theirs <= ours)
                    && pairs().any(|(theirs, ours)| theirs < ours)
            });
            assert_eq!(found.contains(point), !beaten, "{point:?}");
        }
    }

    #[test]
    fn sizes_end_at_the_most_that_is_affordable() {
        assert_eq!(sizes(0), [0_u32; 0]);
        assert_eq!(sizes(1), [1]);
        let many = sizes(100_000);
        assert_eq!((many.len(), many[0], many[9]), (10, 100, 100_000));
    }
}
