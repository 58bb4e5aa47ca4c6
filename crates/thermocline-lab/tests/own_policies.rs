//! Policies of the caller, and a watch that looks at runs and stops them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::thread;

use thermocline_core::policy::Survivor;
use thermocline_core::registry::{self, Capabilities, Depth, PolicyEntry};
use thermocline_core::{Access, Actions, Clients, PageId, Policy, Tier};
use thermocline_lab::mrc::{Sample, StackPass};
use thermocline_lab::spec::{HierarchySpec, Selection, TierSpec, TimingMode, TimingSpec};
use thermocline_lab::{
    Arrivals, BufferConfiguration, Configuration, LabError, RunOptions, Summary, TierSize, Watch,
    compare, configurations, run, run_buffer,
};
use thermocline_trace::generate::{Generator, Options, Pattern};
use thermocline_trace::{CompiledTrace, PageSize};

/// Serves everything from disk, and stops its watch or does a wrong thing at some access.
#[derive(Debug)]
struct Bypass {
    disk: Tier,
    accesses: u64,
    stops: Option<(u64, Watch)>,
    errs_at: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Bypasses {
    stops: Option<(u64, Watch)>,
    errs_at: Option<u64>,
}

impl Bypasses {
    fn entry(self, name: &'static str, depth: Depth) -> PolicyEntry {
        PolicyEntry::new(name, Capabilities::untested(depth), move |setup, _values| {
            let Self { stops, errs_at } = self.clone();
            Box::new(Bypass { disk: setup.disk(), accesses: 0, stops, errs_at })
        })
    }
}

impl Policy for Bypass {
    fn access(&mut self, access: Access, out: &mut Actions) {
        self.accesses += 1;
        if let Some((at, watch)) = &self.stops
            && *at == self.accesses
        {
            watch.stop();
        }
        let tier = if self.errs_at == Some(self.accesses) { Tier::RAM } else { self.disk };
        out.serve(access.page, access.op, self.disk, tier);
    }

    fn flush(&mut self, _out: &mut Actions) {}

    fn restore(&mut self, survivors: &[Survivor], _out: &mut Actions) {
        assert!(survivors.is_empty(), "nothing was cached");
    }

    fn assert_invariants(&self) {}

    fn memory_bytes(&self) -> usize {
        0
    }
}

fn trace(requests: u64) -> CompiledTrace {
    let pattern = Pattern::Zipf { alpha: 1.0 };
    let options = Options { pattern, requests, pages: 1000, ..Options::default() };
    CompiledTrace::compile(&mut Generator::new(options).unwrap(), PageSize::DEFAULT).unwrap()
}

fn configuration(bypasses: Bypasses, timing: TimingSpec) -> Configuration {
    let tiers = vec![TierSpec::new("ram", &[TierSize::Pages(10.0)])];
    let spec = HierarchySpec { tiers, timing, ..HierarchySpec::default() };
    let policy = bypasses.entry("bypass", Depth::Ram);
    configurations(&spec, &[policy], Clients::ONE).unwrap().remove(0)
}

fn timings() -> [TimingSpec; 2] {
    let events = TimingSpec { mode: TimingMode::Events, closed_loop: Some(1) };
    [TimingSpec::default(), events]
}

fn run_it(bypasses: Bypasses, timing: TimingSpec, watch: &Watch) -> Result<Summary, LabError> {
    run(&trace(100_000), &configuration(bypasses, timing), RunOptions::default(), watch)
}

#[test]
fn an_own_policy_runs_under_the_ledger() {
    for timing in timings() {
        let watch = Watch::default();
        let summary = run_it(Bypasses::default(), timing, &watch).unwrap();
        assert_eq!(summary.policy.name, "bypass");
        assert_eq!(summary.tiers[1].hits, 100_000);
        assert_eq!(watch.accesses(), 100_000);
        let wrong = Bypasses { errs_at: Some(20_001), ..Bypasses::default() };
        let refused = run_it(wrong, timing, &watch).unwrap_err().to_string();
        assert!(refused.contains("`bypass`") && refused.contains("access 20001"), "{refused}");
    }
}

#[test]
fn it_is_chosen_by_a_name_of_its_own() {
    let tiers = vec![TierSpec::new("ram", &[TierSize::Pages(10.0)])];
    let spec = HierarchySpec { tiers, ..HierarchySpec::default() };
    let choose = |name: &str, own: &[PolicyEntry]| {
        spec.policies(&Selection::Named(vec![name.to_owned()]), Clients::ONE, own)
    };
    let own = |name| [Bypasses::default().entry(name, Depth::Ram)];
    let found = choose("mine", &own("mine")).unwrap();
    assert!(found[0].name == "mine" && !found[0].capabilities.takes_clients);
    assert_eq!(choose("lru", &own("mine")).unwrap()[0].name, "lru");
    assert!(matches!(choose("mine", &[]), Err(LabError::UnknownPolicy { .. })));
    assert!(matches!(choose("fifo", &own("lru")), Err(LabError::NameTaken { .. })));
    assert!(!spec.policies(&Selection::All, Clients::ONE, &own("mine")).unwrap().is_empty());
}

#[test]
fn a_stopped_run_ends_soon_and_says_so() {
    for timing in timings() {
        let watch = Watch::default();
        let bypasses = Bypasses { stops: Some((30_000, watch.clone())), ..Bypasses::default() };
        let stopped = run_it(bypasses, timing, &watch).unwrap_err();
        assert!(matches!(stopped, LabError::Stopped), "{stopped}");
        assert!((30_000..50_000).contains(&watch.accesses()), "{}", watch.accesses());
        let more = compare(
            &trace(10),
            &[configuration(Bypasses::default(), TimingSpec::default())],
            RunOptions::default(),
            &watch,
            || (),
        );
        assert!(matches!(more, Err(LabError::Stopped)), "whatever it looks at is stopped");
    }
}

#[test]
fn buffers_curves_and_compilation_stop_too() {
    let watch = Watch::default();
    let buffer = BufferConfiguration {
        policy: registry::find_buffer("lru").unwrap(),
        parameters: vec![],
        size: "100p".parse().unwrap(),
        ssd: None,
        arrivals: Arrivals::Trace,
    };
    let trace = trace(50_000);
    run_buffer(&trace, &buffer, false, &watch).unwrap();
    assert_eq!(watch.accesses(), 50_000);
    let other = watch.clone();
    thread::spawn(move || other.stop()).join().unwrap();
    assert!(matches!(run_buffer(&trace, &buffer, false, &watch), Err(LabError::Stopped)));
    assert!(matches!(StackPass::over(&trace, Sample::All, &watch), Err(LabError::Stopped)));
    let generator = || Generator::new(Options::default()).unwrap();
    assert!(matches!(watch.compile(generator(), PageSize::DEFAULT, 2), Err(LabError::Stopped)));
    let whole = Watch::default().compile(generator(), PageSize::DEFAULT, 2).unwrap();
    assert_eq!(whole.access(0).page, PageId(0));
}
