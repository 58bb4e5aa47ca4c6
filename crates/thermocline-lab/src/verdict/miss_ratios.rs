//! Verdict of miss-ratio curves: the policy with the fewest misses at a customary size, and the
//! size above which more does not pay.

use super::{Ranked, Ranking, share, sizes_in_words, ties};
use crate::metric::byte_size;
use crate::mrc::{Curve, MissRatios, Point};

/// The size at which policies are compared: this share of the trace's pages, in all caches together.
const COMPARED_AT: f64 = 0.1;
/// Twice the size pays if it saves at least this share of all accesses from missing.
const PAYS: f64 = 0.01;

/// A policy at one size.
struct At<'a> {
    curve: &'a Curve,
    point: &'a Point,
    page_size_bytes: u64,
}

impl Ranked for At<'_> {
    fn name(&self) -> String {
        self.curve.policy.clone()
    }

    fn sizes(&self) -> String {
        let pages = self.curve.tiers.iter().zip(&self.point.capacity_pages);
        sizes_in_words(pages.map(|(name, pages)| (name.as_str(), pages * self.page_size_bytes)))
    }
}

/// Says what the curves of each kind of hierarchy tell; those of RAM alone come first.
pub fn miss_ratios(found: &MissRatios) -> Vec<String> {
    let trace = &found.trace;
    let of = |depth| of_depth(&found.curves, depth, trace.footprint_pages, trace.page_size_bytes);
    [1, 2].map(of).into_iter().flatten().collect()
}

/// Describe the curves with `depth` cache tiers.
fn of_depth(
    curves: &[Curve],
    depth: usize,
    footprint_pages: u64,
    page_size_bytes: u64,
) -> Vec<String> {
    let curves = curves.iter().filter(|curve| curve.tiers.len() == depth);
    let footprint = footprint_pages.max(1) as f64;
    let customary = COMPARED_AT * footprint;
    let total = |point: &Point| point.capacity_pages.iter().sum::<u64>().max(1) as f64;
    let away = |point: &Point| (total(point) / customary).ln().abs();
    let nearest = |curve: &Curve| {
        let points = curve.points.iter().enumerate();
        let nearest = points.min_by(|(_, one), (_, other)| away(one).total_cmp(&away(other)));
        nearest.map(|(place, _)| place)
    };
    let at = |curve| Some(At { curve, point: &curve.points[nearest(curve)?], page_size_bytes });
    let all: Vec<At<'_>> = curves.filter_map(at).collect();
    let ranking = Ranking::new(&all, |one| Some(one.point.miss_ratio));
    if ranking.runs.is_empty() {
        return vec![];
    }
    let (figure, best) = ranking.best();
    let percent = |ratio: f64| format!("{:.1} %", 100.0 * ratio);
    let of_all = total(best.point) / footprint;
    let least = if ranking.is_choice() { " least" } else { "" };
    let mut answer = format!(
        "With {}, {:.0} % of the pages, {} misses{least}: {}",
        best.sizes(),
        100.0 * of_all,
        best.name(),
        percent(figure)
    );
    if let Some((figure, rival)) = ranking.behind() {
        answer += &format!(", {} less than {}", share(ranking.saved(figure)), rival.name());
    }
    let mut sentences = vec![answer + "."];
    sentences.extend(ties(&ranking));
    if depth == 1 {
        sentences.push(match knee(best.curve) {
            Some(pages) => format!(
                "From {} on, twice as much RAM saves less than one point of its misses.",
                byte_size(pages * page_size_bytes)
            ),
            None => {
                "Up to the largest size, twice as much RAM saves more than one point of its misses."
                    .into()
            }
        });
    }
    sentences
}

/// Return the least size from which on twice as much never pays; `None` if it pays up to the
/// largest.
fn knee(curve: &Curve) -> Option<u64> {
    let points = &curve.points;
    let pays = |point: &Point| {
        let twice = 2 * point.capacity_pages[0];
        let next = points.iter().find(|next| next.capacity_pages[0] >= twice);
        next.map(|next| point.miss_ratio - next.miss_ratio >= PAYS)
    };
    // Sizes whose double was not looked at tell nothing.
    let told: Vec<(u64, bool)> =
        points.iter().map_while(|point| Some((point.capacity_pages[0], pays(point)?))).collect();
    let last = told.iter().rposition(|&(_, pays)| pays);
    let knee = last.map_or(0, |last| last + 1);
    told.get(knee).map(|&(pages, _)| pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mrc::Method;

    fn curve(policy: &str, points: &[(&[u64], f64)]) -> Curve {
        let point = |&(pages, miss_ratio): &(&[u64], f64)| Point {
            capacity_pages: pages.to_vec(),
            miss_ratio,
            hit_ratios: vec![],
            rate: 1.0,
            simulated_miss_ratio: None,
        };
        Curve {
            policy: policy.into(),
            parameters: serde_json::Map::new(),
            method: Method::Exact,
            tiers: ["ram", "flash"][..points[0].0.len()].iter().map(|&name| name.into()).collect(),
            points: points.iter().map(point).collect(),
            mean_absolute_error: None,
            max_absolute_error: None,
        }
    }

    #[test]
    fn a_knee_is_where_more_does_not_pay_any_more() {
        let of = |ratios: &[f64]| {
            let pages: Vec<[u64; 1]> = (0..ratios.len()).map(|place| [1 << place]).collect();
            let points: Vec<(&[u64], f64)> =
                pages.iter().map(|pages| &pages[..]).zip(ratios.iter().copied()).collect();
            knee(&curve("lru", &points))
        };
        assert_eq!(of(&[0.9, 0.5, 0.3, 0.299, 0.298]), Some(4));
        assert_eq!(of(&[0.9, 0.899, 0.3, 0.299, 0.298]), Some(4), "a cliff after a plain");
        assert_eq!(of(&[0.9, 0.8, 0.7]), None);
        assert_eq!(of(&[0.5, 0.5]), Some(1));
        assert_eq!(of(&[0.5]), None);
    }

    #[test]
    fn the_least_misses_at_a_customary_size_are_told() {
        let curves = [
            curve("lru", &[(&[50], 0.6), (&[100], 0.5), (&[400], 0.3), (&[800], 0.2999)]),
            curve("arc", &[(&[50], 0.5), (&[100], 0.4), (&[400], 0.3), (&[800], 0.2999)]),
            curve("hat", &[(&[10, 20], 0.7), (&[10, 80], 0.35), (&[20, 400], 0.1)]),
        ];
        let lru = "With RAM 400 KiB, 10 % of the pages, lru misses: 50.0 %.";
        let knee = "From 1.6 MiB on, twice as much RAM saves less than one point of its misses.";
        assert_eq!(of_depth(&curves[..1], 1, 1000, 4096), [lru, knee]);
        let arc =
            "With RAM 400 KiB, 10 % of the pages, arc misses least: 40.0 %, 20 % less than lru.";
        assert_eq!(of_depth(&curves, 1, 1000, 4096), [arc, knee]);
        let hat = "With RAM 40 KiB and flash 320 KiB, 9 % of the pages, hat misses: 35.0 %.";
        assert_eq!(of_depth(&curves, 2, 1000, 4096), [hat]);
        assert_eq!(of_depth(&curves, 3, 1000, 4096), [""; 0]);
    }
}
