//! Studies that are refined: what is told, in which order, and what it comes to.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Mutex;

use thermocline_core::Clients;
use thermocline_core::registry::PolicyEntry;
use thermocline_lab::mrc::Rate;
use thermocline_lab::spec::{HierarchySpec, TierSpec};
use thermocline_lab::{
    Configuration, Found, LabError, Progress, Refined, RunOptions, Summary, TierSize, Watch,
    bundled_trace, compare, configurations, find_policy, refine,
};
use thermocline_trace::generate::{Generator, Options};
use thermocline_trace::{CompiledTrace, PageSize};

fn study(policies: &[&str], ram: &[f64], flash: &[f64]) -> Vec<Configuration> {
    let ram: Vec<TierSize> = ram.iter().map(|&size| TierSize::FootprintPercent(size)).collect();
    let flash: Vec<TierSize> = flash.iter().map(|&size| TierSize::TimesAbove(size)).collect();
    let tiers = vec![TierSpec::new("ram", &ram), TierSpec::new("flash", &flash)];
    let spec = HierarchySpec { tiers, ..HierarchySpec::default() };
    let policies: Vec<PolicyEntry> =
        policies.iter().map(|name| find_policy(name).unwrap().clone()).collect();
    configurations(&spec, &policies, Clients::ONE).unwrap()
}

/// All that is told, in order; nothing stands for the end of the samples.
type Told = Vec<Option<(usize, Found, Result<Summary, String>)>>;

fn told(configurations: &[Configuration], watch: &Watch) -> (Told, Result<(), LabError>) {
    let told = Mutex::new(vec![]);
    let tell = |progress| {
        told.lock().unwrap().push(match progress {
            Progress::Sampled => None,
            Progress::Refined(refined) => {
                let summary = refined.summary.map_err(|error| error.to_string());
                Some((refined.place, refined.found, summary))
            }
        });
    };
    let trace = bundled_trace().unwrap();
    let result = refine(&trace, configurations, Rate::Auto { seed: 1 }, watch, tell);
    (told.into_inner().unwrap(), result)
}

/// Return a summary without what differs from run to run.
fn figures(summary: &Summary) -> serde_json::Value {
    let mut json = serde_json::to_value(summary).unwrap();
    for key in ["replay_seconds", "accesses_per_second"] {
        json[key] = serde_json::Value::Null;
    }
    json
}

#[test]
fn samples_come_first_and_exact_figures_are_those_of_a_comparison() {
    // TAC decides by extents, and a sample with enough of them is the whole of so small a trace. ARC and
    // LRU have one run for all sizes of flash.
    let all = study(&["hat", "arc", "tac", "lru"], &[5.0, 10.0], &[1.0, 2.0, 4.0]);
    let (told, result) = told(&all, &Watch::default());
    result.unwrap();
    let end_of_samples = told.iter().position(Option::is_none).unwrap();
    let (mut sampled, mut exact) = (vec![0; all.len()], vec![None; all.len()]);
    for (order, one) in told.iter().enumerate() {
        let Some((place, found, summary)) = one else { continue };
        let summary = summary.as_ref().unwrap();
        match found {
            Found::Sampled { rate } => {
                assert!(order < end_of_samples && *rate < 1.0);
                sampled[*place] += 1;
            }
            Found::Beginning { .. } => panic!("the trace is short"),
            Found::Exact => {
                assert!(order > end_of_samples && exact[*place].is_none());
                exact[*place] = Some(figures(summary));
            }
        }
    }
    for (one, times) in all.iter().zip(sampled) {
        assert_eq!(times, usize::from(one.policy.name != "tac"), "{}", one.policy.name);
    }
    let trace = bundled_trace().unwrap();
    let options = RunOptions::default();
    let compared = compare(&trace, &all, options, &Watch::default(), || ()).unwrap();
    for (exact, compared) in exact.into_iter().zip(&compared) {
        assert_eq!(exact.unwrap(), figures(compared));
    }
    // The ends of HAT's curve are begun first; each other thread may be done with one more before.
    let size = |place: usize| all[place].capacity_pages(&trace).unwrap();
    let of_hat = told.iter().flatten().filter(|(place, ..)| all[*place].policy.name == "hat");
    let threads = std::thread::available_parallelism().unwrap().get();
    let first: Vec<_> = of_hat.take(1 + threads).map(|(place, ..)| size(*place)).collect();
    assert!(first.contains(&size(0)) && first.contains(&size(all.len() - 1)), "{first:?}");
}

#[test]
fn a_long_trace_of_few_pages_is_estimated_from_its_beginning() {
    let made = Options { requests: 6_000_000, pages: 4_000, ..Options::default() };
    let trace = Generator::new(made).unwrap();
    let trace = CompiledTrace::compile(&mut { trace }, PageSize::DEFAULT).unwrap();
    let all = study(&["lru", "hat", "lfu"], &[5.0, 20.0], &[1.0, 2.0]);
    let told = Mutex::new(vec![]);
    let tell = |progress| {
        if let Progress::Refined(refined) = progress {
            let Refined { place, found, summary } = *refined;
            told.lock().unwrap().push((place, found, summary.unwrap()));
        }
    };
    refine(&trace, &all, Rate::Auto { seed: 1 }, &Watch::default(), tell).unwrap();
    let told = told.into_inner().unwrap();
    for (place, configuration) in all.iter().enumerate() {
        let of_it: Vec<_> = told.iter().filter(|one| one.0 == place).collect();
        let [(_, first, estimate), (_, Found::Exact, exact)] = of_it[..] else {
            panic!("{}: {of_it:?}", configuration.policy.name)
        };
        let Found::Beginning { share } = first else { panic!("{first:?}") };
        assert!((0.15..0.25).contains(share), "{share}");
        assert_eq!(estimate.trace.accesses, exact.trace.accesses);
        let off = estimate.aggregate_hit_ratio() - exact.aggregate_hit_ratio();
        assert!(off.abs() < 0.005, "{}: {off}", configuration.policy.name);
        let time = estimate.io_time_ms / exact.io_time_ms;
        assert!((0.95..1.05).contains(&time), "{}: {time}", configuration.policy.name);
    }
}

#[test]
fn what_cannot_be_is_told_and_the_rest_goes_on() {
    // HAT needs memory, and bcache has none of its own.
    let mut all = study(&["hat", "bcache"], &[5.0], &[1.0]);
    for configuration in &mut all {
        configuration.tiers[0].size = TierSize::Pages(0.0);
        configuration.tiers[1].size = TierSize::Pages(2000.0);
    }
    let (told, result) = told(&all, &Watch::default());
    result.unwrap();
    let exact = told.iter().flatten().filter(|(_, found, _)| *found == Found::Exact);
    let mut exact: Vec<_> = exact.map(|(place, _, summary)| (*place, summary.is_ok())).collect();
    exact.sort_unstable();
    assert_eq!(exact, [(0, false), (1, true)]);
}

#[test]
fn a_watch_stops_it() {
    let watch = Watch::default();
    watch.stop();
    let (told, result) = told(&study(&["hat"], &[5.0], &[1.0]), &watch);
    assert!(matches!(result, Err(LabError::Stopped)));
    assert!(told.iter().flatten().next().is_none());
}
