//! Which tiers and which policy to buy for a budget.
//!
//! 1. Sizes of RAM and flash under the budget, from a thousandth of the footprint to all of it, by
//!    policies: the candidates.
//! 2. Each is simulated in miniature. What another one beats in cost, latency and flash writes is left
//!    out, and so is what could not last as long as is asked even if the drive wrote nothing twice.
//! 3. What is left, up to [`FINALISTS`], is simulated in full, with devices that queue and an SSD that
//!    wears. What no other one beats in cost, latency and lifetime is the front.

mod asked;
mod engine;

use std::cmp::Ordering;
use std::slice;

use serde::Serialize;
use thermocline_core::Clients;
use thermocline_core::registry::{Depth, PolicyEntry};
use thermocline_device::ssd::SsdConfig;
use thermocline_trace::CompiledTrace;

use crate::metric::flash_drive;
use crate::mrc::{Estimate, Miniature, Rate};
use crate::spec::Step::Key;
use crate::spec::{
    DeviceSpec, DriveSpec, HierarchySpec, ModelSpec, TierSpec, TimingMode, TimingSpec,
};
use crate::timing::SECONDS_PER_DAY;
use crate::turns::in_parallel;
use crate::{
    Configuration, LabError, PolicySummary, RunOptions, TierSize, TraceSummary, Watch,
    configurations, find_ssd, run,
};

pub use asked::{Objective, PlanOptions};
pub use engine::check_engine_pages;

/// So many candidates are simulated in full.
pub const FINALISTS: usize = 24;
/// Of these, so many are the best by the objective; the others are spread over the costs.
const BEST: usize = 8;
/// Of these, so many have no flash, if it must last: what is left if none of the others does.
const LASTING: usize = 4;
/// Sizes of each tier among the candidates.
const SIZES: u32 = 10;
/// The least size is so much smaller than the greatest.
const SIZES_SPAN: f64 = 1000.0;
/// Days per year.
const DAYS_PER_YEAR: f64 = 365.25;

/// What to buy. Its JSON form is a contract.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// The trace.
    pub trace: TraceSummary,
    /// What all tiers may cost together.
    pub budget: f64,
    /// What the disk costs, which is part of every cost.
    pub disk_cost: f64,
    /// What is best.
    pub objective: Objective,
    /// How long flash must last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_lifetime_years: Option<f64>,
    /// Candidates that were simulated in miniature.
    pub candidates: usize,
    /// Candidates that were simulated in full.
    pub simulated: usize,
    /// What no other one beats in cost, latency and lifetime, by cost.
    pub front: Vec<Choice>,
    /// Which one of the front is best by the objective.
    pub chosen: usize,
    /// The drive that flash is; not part of the JSON.
    #[serde(skip)]
    pub flash_drive: DriveSpec,
}

/// Sizes and a policy, simulated in full.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The policy.
    pub policy: PolicySummary,
    /// Pages of RAM.
    pub ram_pages: u64,
    /// Pages of flash; 0 for none.
    pub flash_pages: u64,
    /// What all tiers cost together.
    pub cost: f64,
    /// Accesses that neither RAM nor flash answers, divided by all.
    pub miss_ratio: f64,
    /// All page transfers at the costs of their tiers.
    pub io_time_ms: f64,
    /// The mean access time of the tiers that accesses were found in.
    pub average_response_ms: f64,
    /// `cost` divided by the I/Os per second at the average response.
    pub cost_per_io: f64,
    /// 99 % of reads, and of writes, are answered within this.
    pub p99_us: f64,
    /// Pages written to flash.
    pub flash_page_writes: u64,
    /// Years until flash is worn out if it goes on like this; absent without flash, or without a
    /// write to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
}

/// What progress is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanProgress {
    /// So many candidates are simulated in miniature from now on.
    Coarse(usize),
    /// So many are simulated in full from now on.
    Full(usize),
    /// One is finished.
    Done,
}

/// A candidate with what the miniature says.
struct Candidate {
    configuration: Configuration,
    cost: f64,
    latency: f64,
    /// In years, at best.
    lifetime: f64,
}

impl Choice {
    /// What the objective is about: less is better.
    fn latency(&self, objective: Objective) -> f64 {
        match objective {
            Objective::P99 => self.p99_us,
            Objective::IoTime => self.io_time_ms,
            Objective::CostPerIo => self.cost_per_io,
        }
    }
}

impl Plan {
    /// Looks for the best tiers and policy. `progress` is told how far it is.
    ///
    /// # Errors
    /// A budget that leaves nothing for caches, prices or devices that cannot be, a trace without times
    /// and no closed loop, or nothing that lasts as long as is asked.
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
        progress(PlanProgress::Full(finalists.len()));
        let simulated = finalists.len();
        let simulate = |configuration: &Configuration| {
            let choice = priced.simulate(configuration);
            progress(PlanProgress::Done);
            choice
        };
        let choices = in_parallel(&finalists, |one| one.policy.is_hosted(), simulate);
        let mut choices = choices.into_iter().collect::<Result<Vec<Choice>, LabError>>()?;
        let longest = choices.iter().map(lifetime).fold(0.0, f64::max);
        if let Some(years) = options.min_lifetime_years {
            choices.retain(|choice| lifetime(choice) >= years);
        }
        let front = front(choices, |choice| {
            [choice.cost, choice.latency(options.objective), -lifetime(choice)]
        });
        let best = |one: &(usize, &Choice), other: &(usize, &Choice)| {
            let key = |choice: &Choice| [choice.latency(options.objective), choice.cost];
            compare(&key(one.1), &key(other.1))
        };
        let chosen = front.iter().enumerate().min_by(best).map(|(place, _)| place);
        let chosen = chosen.ok_or(LabError::NothingLasts { longest })?;
        Ok(Self {
            trace: TraceSummary::of(trace),
            budget: options.budget,
            disk_cost: priced.disk_cost(),
            objective: options.objective,
            min_lifetime_years: options.min_lifetime_years,
            candidates: configurations.len(),
            simulated,
            front,
            chosen,
            flash_drive: priced.flash_drive,
        })
    }
}

/// The lifetime of a choice's flash: without end, if it has none or never writes it.
fn lifetime(choice: &Choice) -> f64 {
    choice.lifetime_years.unwrap_or(f64::INFINITY)
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
            let reason = format!("{} cannot be: it takes a number of at least 0", options.budget);
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

    /// What all tiers cost together.
    fn cost(&self, ram_pages: u64, flash_pages: u64) -> f64 {
        let [ram, flash, _] = self.options.prices;
        self.disk_cost() + self.gib(ram_pages) * ram + self.gib(flash_pages) * flash
    }

    /// The most pages that a rest of the budget buys, up to the footprint.
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

    /// All configurations under the budget.
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
        // What a policy cannot be built with, as a flash smaller than its groups, is no candidate.
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

    /// What miniatures say of the configurations.
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
        let summary = self.trace.summary();
        let seconds = (summary.last_at.0 - summary.first_at.0) as f64 / 1e9;
        // A closed loop has a time of its own: at most that of all transfers one after the other.
        let one_by_one = estimate.io_ms_per_access * self.trace.len() as f64 / 1000.0;
        let seconds = if self.options.closed_loop.is_some() { one_by_one } else { seconds };
        Ok(Candidate {
            configuration: configuration.clone(),
            cost,
            latency: match self.options.objective {
                Objective::P99 | Objective::IoTime => estimate.io_ms_per_access,
                Objective::CostPerIo => cost * estimate.average_response_ms,
            },
            lifetime: self.years(u64::from(flash_pages), writes, seconds),
        })
    }

    /// How long flash of so many pages lasts if so many are written to it in that time, and the drive
    /// writes nothing twice.
    fn years(&self, flash_pages: u64, page_writes: f64, seconds: f64) -> f64 {
        if flash_pages == 0 || page_writes <= 0.0 {
            return f64::INFINITY;
        }
        let physical = flash_pages as f64 * (1.0 + self.drive.over_provisioning);
        let times = physical * f64::from(self.drive.erase_limit) / page_writes;
        times * seconds / SECONDS_PER_DAY / DAYS_PER_YEAR
    }

    /// A configuration on the whole trace, with devices that queue.
    fn simulate(&self, configuration: &Configuration) -> Result<Choice, LabError> {
        let summary = run(self.trace, configuration, RunOptions::default(), self.watch)?;
        let flash = summary.tiers[1..].iter().find(|tier| tier.name == "flash");
        let [ram_pages, flash_pages] = [Some(&summary.tiers[0]), flash]
            .map(|tier| tier.and_then(|tier| tier.capacity_pages).unwrap_or(0));
        let flash_page_writes = flash.map_or(0, |tier| tier.page_writes);
        let cost = self.cost(ram_pages, flash_pages);
        let timing = summary.timing.as_ref();
        let response = timing.map(|timing| timing.response_us).unwrap_or_default();
        let seconds = timing.map_or(0.0, |timing| timing.duration_s);
        let worn = flash_drive(&summary).and_then(|drive| drive.lifetime_years);
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
        })
    }
}

/// Sizes up to `most`, evenly spaced in their logarithm, ascending.
fn sizes(most: u32) -> Vec<u32> {
    let size = |index: u32| {
        let exponent = f64::from(SIZES - 1 - index) / f64::from(SIZES - 1);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of the greatest size"
        )]
        let pages = (f64::from(most) / SIZES_SPAN.powf(exponent)).floor() as u32;
        pages
    };
    let mut sizes: Vec<u32> = (0..SIZES).map(size).filter(|&pages| pages > 0).collect();
    sizes.dedup();
    sizes
}

/// The candidates that are simulated in full: of those that no other one beats, the best by the
/// objective, and others at all costs.
fn finalists(mut candidates: Vec<Candidate>, options: &PlanOptions) -> Vec<Configuration> {
    if let Some(years) = options.min_lifetime_years {
        candidates.retain(|candidate| candidate.lifetime >= years);
    }
    let left = front(candidates, |one| [one.cost, one.latency, -one.lifetime]);
    let lasting = if options.min_lifetime_years.is_some() { LASTING } else { 0 };
    let (mut chosen, mut others) = (vec![], vec![]);
    let (mut best, mut without_flash) = (0, 0);
    let by_objective = |one: &Candidate, other: &Candidate| {
        compare(&[one.latency, one.cost], &[other.latency, other.cost])
    };
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
    let room = FINALISTS - BEST - lasting;
    let count = others.len();
    let spread = sorted(others, by_cost).into_iter().enumerate().filter(|(place, _)| {
        // Evenly over the places: as many steps of `room` per `count` as fall on this one.
        count <= room || place * room / count != (place + 1) * room / count
    });
    chosen.extend(spread.map(|(_, candidate)| candidate));
    chosen.into_iter().map(|candidate| candidate.configuration).collect()
}

fn sorted<T>(mut all: Vec<T>, order: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    all.sort_by(order);
    all
}

/// What no other one beats: is as good in all, and better in one; less is better. By the first figure.
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
