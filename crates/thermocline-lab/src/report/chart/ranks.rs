//! Diagram of mean ranks: bars join policies that the test does not separate.

use super::plot::{Align, Kind, Layer, Mark, Place, Plot, Row, Scale, Tick};
use super::{Chart, Drawn};

/// Height of a row, and of what is around all rows, in pixels.
const ROW: u32 = 22;
const AROUND: u32 = 60;

/// Mean ranks with their critical difference, as in Demsar (2006).
#[derive(Clone, Debug)]
pub struct RankDiagram {
    /// Title of the diagram.
    pub title: String,
    /// The policies with their mean ranks.
    pub ranks: Vec<(String, f64)>,
    /// Difference of ranks below which the test does not separate them.
    pub critical_difference: f64,
}

impl Drawn for RankDiagram {
    fn chart(&self) -> Chart {
        let mut ranks = self.ranks.clone();
        ranks.sort_by(|one, other| one.1.total_cmp(&other.1));
        let bars = self.bars(&ranks);
        let policies = ranks.len().max(2) as f64;
        // Rows from the top: the difference, the bars, then a row per policy.
        let rows = 1 + bars.len() + ranks.len();
        let height = u32::try_from(rows).unwrap_or(u32::MAX).min(400) * ROW + AROUND;
        let ticks = 1..=ranks.len().max(2);
        let ticks = ticks.map(|rank| Tick { at: rank as f64, label: rank.to_string() });
        let x = Scale::new(
            "mean rank, less is better",
            Kind::Linear(0.5, policies + 0.5, Some(ticks.collect())),
        );
        let y = Scale::new("", Kind::Linear(-(rows as f64), 0.0, Some(vec![])));
        let mut plot = Plot::new(&self.title, height, x, y);
        let line = |(from, to): (f64, f64), row: usize| Row {
            x: Place::Number(from),
            y: Place::Number(-(row as f64) - 0.5),
            x2: Some(Place::Number(to)),
            y2: Some(Place::Number(-(row as f64) - 0.5)),
            ..Row::default()
        };
        let words = |at: f64, row: usize, text: String| Row {
            x: Place::Number(at),
            y: Place::Number(-(row as f64) - 0.5),
            text: Some(text),
            ..Row::default()
        };
        let length = self.critical_difference.min(policies - 1.0);
        let mut texts = vec![words(
            1.0 + length,
            0,
            format!("critical difference {:.2}", self.critical_difference),
        )];
        let mut thick = vec![line((1.0, 1.0 + length), 0)];
        for (row, &(first, last)) in (1..).zip(&bars) {
            thick.push(line((ranks[first].1 - 0.03, ranks[last].1 + 0.03), row));
        }
        let first = 1 + bars.len();
        let mut points = vec![];
        for (place, (name, rank)) in ranks.iter().enumerate() {
            let row = first + place;
            points.push(Row { text: None, ..words(*rank, row, String::new()) });
            texts.push(words(*rank, row, format!("{name} {rank:.2}")));
        }
        plot.layers = vec![
            Layer { mark: Mark::Rule(4), rows: thick },
            Layer { mark: Mark::Point, rows: points },
            Layer { mark: Mark::Text(Align::After), rows: texts },
        ];
        Chart::new(plot)
    }
}

impl RankDiagram {
    /// Return the greatest groups of neighbours within the critical difference: first and last, by
    /// place.
    fn bars(&self, ranks: &[(String, f64)]) -> Vec<(usize, usize)> {
        let mut bars: Vec<(usize, usize)> = vec![];
        for (first, (_, rank)) in ranks.iter().enumerate() {
            let within = |(_, other): &(String, f64)| *other - rank < self.critical_difference;
            let last = first + ranks[first..].iter().take_while(|one| within(one)).count() - 1;
            let is_inside = bars.last().is_some_and(|&(_, end)| last <= end);
            if last > first && !is_inside {
                bars.push((first, last));
            }
        }
        bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagram(ranks: &[f64], critical_difference: f64) -> RankDiagram {
        let ranks = ranks.iter().enumerate();
        let ranks = ranks.map(|(place, rank)| (format!("p{place}"), *rank)).collect();
        RankDiagram { title: "t".into(), ranks, critical_difference }
    }

    #[test]
    fn bars_join_what_does_not_differ() {
        let ranks = [1.2, 1.8, 2.6, 4.4];
        for (critical_difference, expected) in [
            (1.0, vec![(0, 1), (1, 2)]),
            (2.0, vec![(0, 2), (2, 3)]),
            (0.5, vec![]),
            (9.0, vec![(0, 3)]),
        ] {
            let diagram = diagram(&ranks, critical_difference);
            assert_eq!(diagram.bars(&diagram.ranks), expected, "{critical_difference}");
        }
    }

    #[test]
    fn every_policy_is_named_with_its_rank() {
        let svg = diagram(&[2.5, 1.25, 2.25], 0.4).chart().svg();
        for text in ["p1 1.25", "p2 2.25", "p0 2.50", "critical difference 0.40"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}
