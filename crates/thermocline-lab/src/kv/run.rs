//! One trace of prompts through one cache.

use thermocline_core::config::Values;
use thermocline_core::kv::{KvFound, KvRequest, PrefixCache};
use thermocline_core::{Actions, Nanos};
use thermocline_trace::prompts::{Prompt, PromptTrace};

use super::checking::{Checker, Wrong};
use super::drive::{self, PlaceDrive};
use super::tally::{Answered, Tally};
use super::{
    KvConfiguration, KvPolicySummary, KvSettingsSummary, KvSummary, KvTierSummary, KvTraceSummary,
    Split, money,
};
use crate::{LabError, Watch, summary};

/// Blocks that are replayed between two looks at the watch.
const LOOK_BLOCKS: usize = 1 << 14;

/// A cache that answers, maybe under the Ledger.
struct Stage<'a> {
    configuration: &'a KvConfiguration,
    cache: Box<dyn PrefixCache>,
    checker: Option<Checker>,
    /// The drives beneath the places of tiers that have one, by tier.
    drives: Vec<(usize, PlaceDrive)>,
    moves: Actions,
}

/// See [`run_kv`](super::run_kv).
pub(super) fn run(
    trace: &PromptTrace,
    configuration: &KvConfiguration,
    is_checked: bool,
    watch: &Watch,
) -> Result<KvSummary, LabError> {
    let KvConfiguration { policy, settings, .. } = configuration;
    let mut values = Values::defaults(policy.parameters());
    for (name, value) in &configuration.parameters {
        values.set(&policy.name, name, value)?;
    }
    let blocks = trace.distinct_blocks();
    let checks_moves = is_checked && !policy.is_own_placement();
    let mut stage = Stage {
        configuration,
        cache: policy.build(&values, blocks, settings.clone(), is_checked)?,
        checker: checks_moves.then(|| Checker::new(blocks, settings)),
        drives: drives(configuration, blocks)?,
        moves: Actions::new(),
    };
    let requests = trace.prompts().len() as u64;
    let warm_up = configuration.warm_up.accesses(requests)?;
    let mut tally = Tally::default();
    let mut writes_before = vec![0; settings.tiers.len()];
    let (mut known, mut unseen_by_watch) = (0, 0);
    let next = trace.prompts().iter().skip(1).map(Some).chain([None]);
    for ((prompt, next), number) in trace.prompts().iter().zip(next).zip(0..) {
        if number == warm_up {
            writes_before.copy_from_slice(stage.cache.writes());
        }
        let chain = trace.chain(prompt);
        if let Some(next) = next {
            trace.chain(next).iter().for_each(|&page| stage.cache.prefetch(page));
        }
        let found = stage.answer(trace, prompt, number)?;
        let known_blocks = chain.iter().take_while(|page| page.0 < known).count() as u64;
        known = chain.iter().fold(known, |known, page| known.max(page.0 + 1));
        if number >= warm_up {
            let (tokens, blocks) = (prompt.input_tokens, chain.len() as u64);
            let answered = Answered { tokens, blocks, known_blocks, found };
            tally.add(&answered, trace.block_tokens(), configuration);
        }
        unseen_by_watch += chain.len();
        if unseen_by_watch >= LOOK_BLOCKS {
            watch.advance(unseen_by_watch);
            unseen_by_watch = 0;
            watch.check()?;
        }
    }
    watch.advance(unseen_by_watch);
    stage.cache.assert_invariants();
    let counted = trace.prompts().iter().skip(usize::try_from(warm_up).unwrap_or(usize::MAX));
    let writes = stage.cache.writes().iter().zip(writes_before);
    let counts = Counts {
        tally,
        writes: writes.map(|(after, before)| after - before).collect(),
        expired: stage.cache.expired(),
        duration: span(counted),
        warm_up,
        drives: stage.drives,
    };
    Ok(summarise(trace, configuration, &values, counts))
}

impl Stage<'_> {
    fn answer(
        &mut self,
        trace: &PromptTrace,
        prompt: &Prompt,
        number: u64,
    ) -> Result<KvFound, LabError> {
        let engines = u64::from(self.configuration.settings.engines.get());
        let dealt = match self.configuration.split {
            Split::RoundRobin => number,
            Split::Session => prompt.session.into(),
        };
        let engine = u8::try_from(dealt % engines).expect("engines have numbers of 8 bits");
        let request = KvRequest { at: prompt.at, engine, chain: trace.chain(prompt) };
        let policy = || self.configuration.policy.name.to_string();
        let Some(checker) = &mut self.checker else {
            let found = if self.drives.is_empty() {
                self.cache.request(request)
            } else {
                self.moves.clear();
                self.cache.request_with_moves(request, &mut self.moves)
            };
            self.drives.iter_mut().try_for_each(|(_, drive)| drive.follow(&self.moves))?;
            return match self.cache.violation() {
                Some(violation) => {
                    let violation = violation.clone();
                    Err(LabError::Violation { policy: policy(), violation })
                }
                None => Ok(found),
            };
        };
        let found = checker.request(&mut *self.cache, request).map_err(|wrong| match wrong {
            Wrong::Violation(violation) => LabError::Violation { policy: policy(), violation },
            Wrong::Hits(reason) => LabError::WrongHits { policy: policy(), reason },
        })?;
        self.drives.iter_mut().try_for_each(|(_, drive)| drive.follow(checker.moves()))?;
        Ok(found)
    }
}

/// Empty drives beneath every place of each tier that lies on one.
fn drives(
    configuration: &KvConfiguration,
    blocks: u32,
) -> Result<Vec<(usize, PlaceDrive)>, LabError> {
    let settings = &configuration.settings;
    let mut drives = vec![];
    for (tier, drive) in configuration.drives.iter().enumerate() {
        let (Some(drive), Some(bytes)) = (drive, configuration.block_bytes) else { continue };
        let slots = settings.tiers[tier].capacity_pages;
        if slots == 0 {
            continue;
        }
        let is_private = tier < settings.private_tiers;
        let engines = if is_private { settings.engines.get() } else { 1 };
        for engine in 0..engines {
            let place = settings.place(engine, tier);
            drives.push((tier, PlaceDrive::new(place, slots, bytes, blocks, drive)?));
        }
    }
    Ok(drives)
}

/// Return the time from the first arrival to the last.
fn span<'a>(prompts: impl Iterator<Item = &'a Prompt>) -> Nanos {
    let times = prompts.map(|prompt| prompt.at.0);
    let (first, last) =
        times.fold((u64::MAX, 0), |(first, last), at| (first.min(at), last.max(at)));
    Nanos(last.saturating_sub(first))
}

/// Counts of a run.
struct Counts {
    tally: Tally,
    writes: Vec<u64>,
    expired: u64,
    duration: Nanos,
    warm_up: u64,
    drives: Vec<(usize, PlaceDrive)>,
}

fn summarise(
    trace: &PromptTrace,
    configuration: &KvConfiguration,
    values: &Values,
    counts: Counts,
) -> KvSummary {
    let KvConfiguration { policy, settings, .. } = configuration;
    let Counts { mut tally, writes, expired, duration, warm_up, drives } = counts;
    tally.first_token_s.sort_unstable_by(f64::total_cmp);
    let engines = u64::from(settings.engines.get());
    let tiers = settings.tiers.iter().zip(&configuration.tier_names).enumerate();
    let tiers = tiers.map(|(place, (tier, name))| {
        let of_tier = drives.iter().filter(|(tier, _)| *tier == place);
        let of_tier: Vec<&PlaceDrive> = of_tier.map(|(_, drive)| drive).collect();
        let config = configuration.drives[place].as_ref().filter(|_| !of_tier.is_empty());
        let drive = config.map(|config| drive::summary(config, &of_tier));
        let mut costs = configuration.costs.tiers[place];
        let rated = config.zip(drive.as_ref());
        let rated = rated.map(|(config, one)| drive::rated_writes(config, one.write_amplification));
        costs.rated_writes = rated.or(costs.rated_writes);
        KvTierSummary {
            name: name.clone(),
            capacity_blocks: tier.capacity_pages.into(),
            copies: if place < settings.private_tiers { engines } else { 1 },
            hits: tally.hits[place],
            hit_tokens: tally.tier_tokens[place],
            writes: writes[place],
            costs,
            drive,
            dollars: None,
        }
    });
    let mut summary = KvSummary {
        trace: KvTraceSummary::of(trace),
        policy: KvPolicySummary {
            name: policy.name.to_string(),
            version: policy.version(),
            parameters: summary::parameters(values),
            settings: KvSettingsSummary::of(configuration),
        },
        model: configuration.model,
        block_bytes: configuration.block_bytes,
        warm_up_requests: warm_up,
        requests: tally.requests,
        tokens: tally.tokens,
        blocks: tally.blocks,
        hit_tokens: tally.hit_tokens,
        hit_blocks: tally.hit_blocks,
        stranded: tally.stranded,
        complete: tally.complete,
        unlimited_hit_tokens: tally.unlimited_hit_tokens,
        expired,
        duration_s: duration.0 as f64 / 1e9,
        tiers: tiers.collect(),
        flops: tally.flops,
        saved_flops: tally.saved_flops,
        flops_per_s: configuration.costs.flops_per_s,
        first_token_s: tally.first_token_s,
        overlapped_s: tally.overlapped_s,
        processor_dollars: None,
    };
    money::set(&mut summary, &configuration.costs);
    summary
}
