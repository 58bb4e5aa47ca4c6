//! The report of caches of keys and values: what hits where, what that saves, and what it wears.

use super::chart::share_y;
use super::{
    Axis, BarChart, Cell, Chart, Drawn as _, Figure, LineChart, Options, Report, Series, Table,
};
use crate::kv::{KvModel, KvSummary};
use crate::metric::{Metric, byte_size, grouped, prompt_columns};
use crate::verdict;

/// Builds the report of caches over one trace of prompts.
pub fn prompts(summaries: &[KvSummary], options: &Options) -> Report {
    let mut report = Report::new(&options.title);
    report.answer(&verdict::prompts(summaries));
    if let Some(first) = summaries.first() {
        report.paragraph(&about(first));
    }
    let metrics = prompt_columns(summaries);
    report.figure(by_size(summaries, &metrics));
    report.heading("All figures");
    report.paragraph("A star marks the best of its column among tiers of equal size.");
    for metric in &metrics {
        report.define(metric.title_with_unit(), metric.definition());
    }
    report.table(figures(summaries, &metrics));
    report.heading("How the tiers were filled");
    report.table(settings(summaries));
    report.heading("What the figures mean");
    report.paragraph(
        "A block hits only if all blocks of the prompt before it hit. What does not hit is computed \
         and kept again. Prompts are answered one after the other, in the order of the trace; queues \
         are not modelled, so times are lower bounds.",
    );
    report.heading("How to make this report again");
    report.code(&options.command);
    report.paragraph(&options.version);
    report
}

fn about(run: &KvSummary) -> String {
    let trace = &run.trace;
    let mut text = format!(
        "{}: {} prompts, of which {} are counted, with {} tokens in {} blocks of {} tokens; {} blocks \
         of the trace are distinct.",
        trace.path,
        grouped(trace.requests),
        grouped(run.requests),
        grouped(run.tokens),
        grouped(run.blocks),
        grouped(trace.block_tokens.into()),
        grouped(trace.distinct_blocks.into()),
    );
    if let Some(KvModel { name, source, .. }) = run.model {
        let bytes = run.block_bytes.unwrap_or_default();
        let speed = run.flops_per_s / 1e12;
        text += &format!(
            " Model: {name} ({source}), {} for each block; a prefill does {speed:.0} TFLOP/s.",
            byte_size(bytes)
        );
    }
    text
}

fn sizes(run: &KvSummary) -> String {
    run.capacities().into_iter().map(grouped).collect::<Vec<String>>().join(", ")
}

/// Return every figure: bars at one size, lines over several.
fn by_size(summaries: &[KvSummary], metrics: &[Metric<KvSummary>]) -> Figure {
    let ladders = ladders(summaries);
    let choices = metrics.iter().map(|metric| {
        let mut charts: Vec<Chart> = ladders.iter().map(|ladder| ladder.chart(metric)).collect();
        share_y(&mut charts);
        (metric.title_with_unit(), charts)
    });
    let title = match &ladders[..] {
        [Ladder { sizes, over, .. }, ..] if sizes.len() > 1 => {
            format!("Figures over size of {over}")
        }
        _ => "Figures by policy".into(),
    };
    Figure { title, choices: choices.collect() }
}

/// Runs at sizes that one chart can show: only the tiers that are counted in `sizes` differ.
struct Ladder<'a> {
    /// The sizes of the other tiers, if other ladders have others.
    common: Option<String>,
    /// Quantity that the sizes measure.
    over: String,
    /// The sizes in blocks, ascending.
    sizes: Vec<u64>,
    /// The runs, each with its size.
    runs: Vec<(u64, &'a KvSummary)>,
}

/// Returns one ladder if all tiers that vary grow together; otherwise one for each choice of all tiers but
/// the last one that varies.
fn ladders(summaries: &[KvSummary]) -> Vec<Ladder<'_>> {
    let Some(first) = summaries.first() else { return vec![] };
    let mut sizes: Vec<Vec<u64>> = summaries.iter().map(KvSummary::capacities).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let varies = |tier: &usize| sizes.iter().any(|size| size[*tier] != sizes[0][*tier]);
    let varying: Vec<usize> = (0..first.tiers.len()).filter(varies).collect();
    // Sizes that all grow together are one ladder; of a grid, no sum says which point it is.
    let grow_together =
        sizes.windows(2).all(|pair| varying.iter().all(|&tier| pair[0][tier] < pair[1][tier]));
    let counted = if grow_together { &varying[..] } else { &varying[varying.len() - 1..] };
    let rest = |size: &[u64]| -> Vec<u64> {
        let others = size.iter().enumerate().filter(|(tier, _)| !counted.contains(tier));
        others.map(|(_, &blocks)| blocks).collect()
    };
    let mut rests: Vec<Vec<u64>> = sizes.iter().map(|size| rest(size)).collect();
    rests.dedup();
    let names = counted.iter().map(|&tier| first.tiers[tier].name.as_str());
    let over = names.collect::<Vec<&str>>().join(" and ");
    let is_grid = rests.len() > 1;
    let ladder = |common: Vec<u64>| {
        let runs = summaries.iter().map(|run| (run.capacities(), run));
        let runs = runs.filter(|(size, _)| rest(size) == common);
        let runs: Vec<(u64, &KvSummary)> =
            runs.map(|(size, run)| (counted.iter().map(|&tier| size[tier]).sum(), run)).collect();
        let mut sizes: Vec<u64> = runs.iter().map(|(size, _)| *size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let others = first.tiers.iter().enumerate().filter(|(tier, _)| !counted.contains(tier));
        let words = others.zip(common).map(|((_, tier), blocks)| {
            let size = first.block_bytes.map(|bytes| byte_size(blocks * bytes));
            format!(
                "{} {}",
                tier.name,
                size.unwrap_or_else(|| format!("{} blocks", grouped(blocks)))
            )
        });
        let common = is_grid.then(|| words.collect::<Vec<String>>().join(", "));
        Ladder { common, over: over.clone(), sizes, runs }
    };
    rests.into_iter().map(ladder).collect()
}

impl Ladder<'_> {
    /// Return a chart of one metric, in which each policy has one colour.
    fn chart(&self, metric: &Metric<KvSummary>) -> Chart {
        let mut policies: Vec<&str> = vec![];
        for (_, run) in &self.runs {
            if !policies.contains(&run.policy.name.as_str()) {
                policies.push(&run.policy.name);
            }
        }
        let value = |policy: &str, size: u64| {
            let mut runs = self.runs.iter();
            let run = runs.find(|(own, run)| *own == size && run.policy.name == policy);
            run.and_then(|(_, run)| metric.value(run))
        };
        let title = |title: String| match &self.common {
            Some(common) => format!("{title}, {common}"),
            None => title,
        };
        let unit = metric.title_with_unit();
        let name = self.common.clone().unwrap_or_else(|| metric.title.to_string());
        if let [size] = self.sizes[..] {
            let bar = |policy: &&str| Some(((*policy).to_owned(), value(policy, size)?));
            let bars = policies.iter().filter_map(bar).collect();
            let chart = BarChart { title: title(metric.title.to_string()), x_title: unit, bars };
            return chart.chart().named(name);
        }
        let block_bytes = self.runs.first().and_then(|(_, run)| run.block_bytes);
        let x = match block_bytes {
            Some(bytes) => {
                let bytes: Vec<u64> = self.sizes.iter().map(|blocks| blocks * bytes).collect();
                Axis::sizes(&self.over, &bytes)
            }
            None => Axis::counts(&format!("{} (blocks)", self.over), &self.sizes),
        };
        let series = policies.iter().map(|policy| Series {
            name: (*policy).into(),
            values: self.sizes.iter().map(|&size| value(policy, size)).collect(),
        });
        let chart = LineChart {
            title: title(format!("{} over size of {}", metric.title, self.over)),
            x,
            y_title: unit,
            series: series.collect(),
            emphasised: vec![],
        };
        chart.chart().named(name)
    }
}

/// Tabulate one row per run.
fn figures(summaries: &[KvSummary], metrics: &[Metric<KvSummary>]) -> Table {
    let mut header = ["policy", "blocks of each tier"].map(String::from).to_vec();
    header.extend(metrics.iter().map(Metric::title_with_unit));
    let row = |run: &KvSummary| {
        let is_rival = |other: &&KvSummary| other.capacities() == run.capacities();
        let rivals: Vec<&KvSummary> = summaries.iter().filter(is_rival).collect();
        let mut row = vec![Cell::text(&run.policy.name), Cell::text(sizes(run))];
        row.extend(metrics.iter().map(|metric| match metric.value(run) {
            None => Cell::number("-"),
            Some(value) if metric.is_best(run, &rivals) => {
                Cell::best((metric.show)(value)).with_value(value)
            }
            Some(value) => Cell::number((metric.show)(value)).with_value(value),
        }));
        row
    };
    Table { header, rows: summaries.iter().map(row).collect() }
}

/// Describe how each policy's tiers were filled, once per policy.
fn settings(summaries: &[KvSummary]) -> Table {
    let mut rows: Vec<Vec<Cell>> = vec![];
    let mut seen: Vec<&str> = vec![];
    for run in summaries {
        let policy = &run.policy;
        if seen.contains(&policy.name.as_str()) {
            continue;
        }
        seen.push(&policy.name);
        let own = || "its own".to_owned();
        let word = |word: Option<&str>| word.map_or_else(own, str::to_owned);
        let settings = &policy.settings;
        let parameters = policy.parameters.iter();
        let parameters: Vec<String> =
            parameters.map(|(name, value)| format!("{name}={value}").replace('"', "")).collect();
        let admit = settings.admit.as_ref().map_or_else(own, |uses| {
            uses.iter().map(u32::to_string).collect::<Vec<String>>().join(", ")
        });
        rows.push(vec![
            Cell::text(&policy.name),
            Cell::text(policy.version.unwrap_or("-")),
            Cell::text(word(settings.mode)),
            Cell::text(settings.order),
            Cell::text(word(settings.victim)),
            Cell::text(admit),
            Cell::number(settings.engines.to_string()),
            Cell::text(if parameters.is_empty() { "none".into() } else { parameters.join(", ") }),
        ]);
    }
    let header =
        ["policy", "models", "mode", "leaves first", "makes room", "uses", "engines", "parameters"];
    Table { header: header.map(String::from).to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{
        KvPolicySummary, KvSettingsSummary, KvTierCosts, KvTierSummary, KvTraceSummary,
    };

    /// Return a run with these sizes of `hbm` and `ssd`.
    fn run(policy: &str, sizes: [u64; 2], hit_tokens: u64) -> KvSummary {
        let tier = |(name, capacity_blocks): (&str, u64)| KvTierSummary {
            name: name.into(),
            capacity_blocks,
            copies: 1,
            hits: 0,
            hit_tokens: 0,
            writes: 0,
            costs: KvTierCosts::default(),
            drive: None,
            dollars: None,
        };
        KvSummary {
            trace: KvTraceSummary {
                path: "t".into(),
                format: "mooncake",
                block_tokens: 512,
                requests: 1,
                distinct_blocks: 1,
            },
            policy: KvPolicySummary {
                name: policy.into(),
                version: None,
                parameters: serde_json::Map::new(),
                settings: KvSettingsSummary {
                    mode: None,
                    order: "tail",
                    matching: "cascade",
                    touch: None,
                    victim: None,
                    admit: None,
                    ghost_blocks: None,
                    engines: 1,
                    private_tiers: 1,
                },
            },
            model: None,
            block_bytes: None,
            warm_up_requests: 0,
            requests: 1,
            tokens: 1000,
            blocks: 2,
            hit_tokens,
            hit_blocks: 1,
            stranded: 0,
            complete: 0,
            unlimited_hit_tokens: 1000,
            expired: 0,
            duration_s: 1.0,
            tiers: ["hbm", "ssd"].into_iter().zip(sizes).map(tier).collect(),
            flops: 0,
            saved_flops: 0,
            flops_per_s: 1.0,
            first_token_s: vec![],
            overlapped_s: 0.0,
            processor_dollars: None,
        }
    }

    /// Return the title of the figure, and for each of the first metric's charts its title and its
    /// series.
    fn drawn(sizes: &[[u64; 2]]) -> (String, Vec<(String, Vec<String>)>) {
        let of = |&size: &[u64; 2]| ["lru", "arc"].map(|policy| run(policy, size, size[1]));
        let runs: Vec<KvSummary> = sizes.iter().flat_map(of).collect();
        let figure = by_size(&runs, &prompt_columns(&runs));
        let (metric, charts) = &figure.choices[0];
        assert_eq!(metric, "Tokens that hit, %");
        let chart = |chart: &Chart| {
            let styles = &chart.vega_lite()["layer"][0]["encoding"]["color"]["scale"]["domain"];
            let names = styles.as_array().into_iter().flatten();
            let names = names.filter_map(|name| name.as_str().map(str::to_owned));
            (chart.title().to_owned(), names.collect())
        };
        (figure.title.clone(), charts.iter().map(chart).collect())
    }

    #[test]
    fn each_policy_is_one_line_over_sizes() {
        let both = || vec!["lru".to_owned(), "arc".to_owned()];
        let lines = |title: &str| (title.to_owned(), both());
        let (title, charts) = drawn(&[[4, 20], [4, 40], [4, 80]]);
        assert_eq!(title, "Figures over size of ssd");
        assert_eq!(charts, [lines("Tokens that hit over size of ssd")]);
        let (title, charts) = drawn(&[[4, 20], [8, 40], [16, 80]]);
        assert_eq!(title, "Figures over size of hbm and ssd");
        assert_eq!(charts, [lines("Tokens that hit over size of hbm and ssd")]);
        let (_, charts) = drawn(&[[4, 20], [4, 40], [8, 20], [8, 40]]);
        let expected = ["hbm 4 blocks", "hbm 8 blocks"]
            .map(|common| lines(&format!("Tokens that hit over size of ssd, {common}")));
        assert_eq!(charts, expected);
        let (title, charts) = drawn(&[[4, 20]]);
        assert_eq!(title, "Figures by policy");
        assert_eq!(charts[0].0, "Tokens that hit");
    }
}
