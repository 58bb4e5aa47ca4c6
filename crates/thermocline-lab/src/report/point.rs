//! One run in full: over time, and where its pages went.

use thermocline_core::Tier;

use super::over_time::add_over_time;
use super::{BarChart, Cell, Report, Table};
use crate::Summary;
use crate::metric::{columns, grouped, sizes_in_bytes};

/// A way that pages took.
struct Flow {
    /// Action and its tiers: `flash to RAM: promoted`.
    name: String,
    pages: u64,
}

/// Return the report of one run; its title names the policy and the sizes.
pub fn point(summary: &Summary) -> Report {
    let mut report =
        Report::new(&format!("{}: {}", summary.policy.label(), sizes_in_bytes(summary)));
    add_over_time(&mut report, &[vec![summary]]);
    let flows = flows(summary);
    report.heading("Where pages went");
    report.paragraph(
        "Accesses that each tier answered, and copies of pages from one tier to another. A write that a \
         policy passes on to the disk is answered by the disk.",
    );
    report.chart(&BarChart {
        title: "Pages served and moved".into(),
        x_title: "pages".into(),
        bars: flows.iter().map(|flow| (flow.name.clone(), flow.pages as f64)).collect(),
    });
    let accesses = summary.counts.accesses().max(1) as f64;
    let row = |flow: &Flow| {
        let share = flow.pages as f64 * 100.0 / accesses;
        vec![
            Cell::text(flow.name.as_str()),
            Cell::number(grouped(flow.pages)).with_value(flow.pages as f64),
            Cell::number(format!("{share:.2}")).with_value(share),
        ]
    };
    let header = ["what", "pages", "per 100 accesses"];
    report.table(Table {
        header: header.map(String::from).to_vec(),
        rows: flows.iter().map(row).collect(),
    });
    report.heading("Figures");
    let metrics = columns(std::slice::from_ref(summary));
    let figures = metrics.iter().filter_map(|metric| {
        let value = metric.value(summary)?;
        let shown = Cell::number((metric.show)(value)).with_value(value);
        Some(vec![Cell::text(metric.title.as_ref()), shown, Cell::text(metric.unit)])
    });
    report.table(Table {
        header: ["figure", "value", "unit"].map(String::from).to_vec(),
        rows: figures.collect(),
    });
    report
}

/// Return the ways that pages took, from the fastest tier down; none that no page took.
fn flows(summary: &Summary) -> Vec<Flow> {
    let counts = &summary.counts;
    let tiers: Vec<(Tier, &str)> =
        (0..).map(Tier).zip(summary.tiers.iter().map(|tier| shown(&tier.name))).collect();
    let mut flows = vec![];
    for &(tier, name) in &tiers {
        let served = [("reads", counts.read_serves(tier)), ("writes", counts.write_serves(tier))];
        let served = served.map(|(what, pages)| Flow { name: format!("{what} by {name}"), pages });
        flows.extend(served);
    }
    let disk = tiers.len().saturating_sub(1);
    for (from, &(source, above)) in tiers.iter().enumerate() {
        for (to, &(target, below)) in tiers.iter().enumerate() {
            let what = match (from, to) {
                _ if from == to => "written again",
                _ if from == disk => "fetched",
                _ if to == disk => "written back",
                _ if from < to => "demoted",
                _ => "promoted",
            };
            let name = format!("{above} to {below}: {what}");
            flows.push(Flow { name, pages: counts.copies(source, target) });
        }
    }
    flows.retain(|flow| flow.pages > 0);
    flows
}

fn shown(tier: &str) -> &str {
    if tier == "ram" { "RAM" } else { tier }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TierSize;
    use crate::spec::{HierarchySpec, TierSpec};
    use crate::{
        Configuration, RunOptions, Watch, bundled_trace, configurations, find_policy, run,
    };

    fn configuration(policy: &str) -> Configuration {
        let tiers = vec![
            TierSpec::new("ram", &[TierSize::Pages(500.0)]),
            TierSpec::new("flash", &[TierSize::Pages(3000.0)]),
        ];
        let spec = HierarchySpec { tiers, ..HierarchySpec::default() };
        let policies = [find_policy(policy).unwrap().clone()];
        configurations(&spec, &policies, thermocline_core::Clients::ONE).unwrap().remove(0)
    }

    /// Every transfer that a device makes is in one way that pages took.
    #[test]
    fn ways_of_pages_are_what_the_devices_do() {
        let trace = bundled_trace().unwrap();
        for policy in ["hat", "face-gsc", "tac", "lru"] {
            let options = RunOptions { intervals: 4, ..RunOptions::default() };
            let summary = run(&trace, &configuration(policy), options, &Watch::default()).unwrap();
            let flows = flows(&summary);
            let pages = |is_it: &dyn Fn(&str) -> bool| {
                flows.iter().filter(|flow| is_it(&flow.name)).map(|flow| flow.pages).sum::<u64>()
            };
            for (tier, name) in summary.tiers.iter().zip(["RAM", "flash", "disk"]) {
                let again = pages(&|flow| flow == format!("{name} to {name}: written again"));
                let reads = pages(&|flow| {
                    flow == format!("reads by {name}") || flow.starts_with(&format!("{name} to"))
                });
                assert_eq!(reads - again, tier.page_reads, "{policy}: {name}");
                let writes = pages(&|flow| {
                    flow == format!("writes by {name}") || flow.contains(&format!(" to {name}:"))
                });
                assert_eq!(writes, tier.page_writes, "{policy}: {name}");
            }
            let served = pages(&|flow| flow.contains(" by "));
            assert_eq!(served, summary.trace.accesses);
            let html = point(&summary).to_fragment();
            assert!(html.contains("Over time") && html.contains("<td>disk to "), "{html}");
        }
    }
}
