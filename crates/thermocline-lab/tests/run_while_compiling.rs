//! A run while the trace is compiled is the run on the compiled trace, for every policy that allows it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use thermocline_core::registry;
use thermocline_lab::spec::HierarchySpec;
use thermocline_lab::{
    Configuration, RunOptions, Summary, WarmUp, Watch, can_run_while_compiling, configurations,
    run, run_while_compiling,
};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

const REQUESTS: u64 = 200_000;

fn source() -> Generator {
    let pattern = Pattern::Zipf { alpha: 0.8 };
    let options = Options {
        pattern,
        requests: REQUESTS,
        pages: 20_000,
        write_share: 0.3,
        ..Options::default()
    };
    Generator::new(options).unwrap()
}

fn configuration(policy: &str, size: &str) -> Option<Configuration> {
    let spec = HierarchySpec {
        tiers: vec![format!("ram={size}").parse().unwrap()],
        ..HierarchySpec::default()
    };
    let policy = registry::find(policy).unwrap();
    configurations(&spec, std::slice::from_ref(policy), thermocline_core::Clients::ONE).ok()?.pop()
}

/// Return the results of a run, except its time.
fn found(summary: &Summary) -> serde_json::Value {
    let mut found = serde_json::to_value(summary).unwrap();
    for key in ["replay_seconds", "accesses_per_second"] {
        found.as_object_mut().unwrap().remove(key).unwrap();
    }
    found
}

#[test]
fn it_is_the_run_on_the_compiled_trace() {
    let trace = CompiledTrace::compile(&mut source(), PageSize::DEFAULT).unwrap();
    assert!((10_000..30_000).contains(&trace.footprint_pages()), "30,000 pages hold all");
    let mut policies = 0;
    for entry in registry::entries() {
        for size in ["1p", "40p", "8MiB", "30000p"] {
            let Some(configuration) = configuration(&entry.name, size) else { continue };
            let options = RunOptions::default();
            if !can_run_while_compiling(&configuration, options, REQUESTS) {
                continue;
            }
            let Ok(expected) = run(&trace, &configuration, options, &Watch::default()) else {
                continue;
            };
            let (compiled, summary) =
                run_while_compiling(&mut source(), PageSize::DEFAULT, REQUESTS, &configuration)
                    .unwrap();
            assert_eq!(compiled.packed(), trace.packed());
            assert_eq!(found(&summary.unwrap()), found(&expected), "{} {size}", entry.name);
            policies += usize::from(size == "40p");
        }
    }
    assert!(policies > 15, "{policies}");
}

#[test]
fn what_needs_the_whole_trace_waits_for_it() {
    let can = can_run_while_compiling;
    let plain = configuration("lru", "100p").unwrap();
    let options = RunOptions::default();
    assert!(can(&plain, options, REQUESTS));
    assert!(!can(&plain, options, 1 << 27), "tables of so many pages are too large");
    assert!(!can(&plain, RunOptions { warm_up: WarmUp::Percent(1.0), ..options }, REQUESTS));
    assert!(!can(&plain, RunOptions { is_checked: true, ..options }, REQUESTS));
    assert!(!can(&plain, RunOptions { intervals: 2, ..options }, REQUESTS));
    assert!(!can(&configuration("lru", "1%").unwrap(), options, REQUESTS), "a share of the pages");
    for policy in ["lecar", "opt"] {
        assert!(!can(&configuration(policy, "100p").unwrap(), options, REQUESTS), "{policy}");
    }
}
