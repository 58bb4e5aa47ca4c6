//! Pairs: what we measure beside what a paper reports, one below the other.

use super::lines::{AROUND, ROW};
use super::plot::{Kind, Layer, Mark, Place, Plot, Row, Scale, short};
use super::{Chart, Drawn, palette};

/// The names of the two values.
const NAMES: [&str; 2] = ["measured", "the paper's"];

/// Measured values beside those of a paper, joined by lines: short lines are good agreement.
#[derive(Clone, Debug)]
pub struct PairChart {
    /// Title of the chart.
    pub title: String,
    /// Title of the axis, with its unit.
    pub x_title: String,
    /// The pairs, from top to bottom.
    pub pairs: Vec<Pair>,
}

/// One value of each.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Name of the item that has these values.
    pub name: String,
    /// Our measured value; a value that is not finite is not drawn.
    pub measured: f64,
    /// Value that the paper reports.
    pub paper: f64,
}

impl Drawn for PairChart {
    fn chart(&self) -> Chart {
        let values = self.pairs.iter().flat_map(|pair| [pair.measured, pair.paper]);
        let x = Scale::new(&self.x_title, Kind::around(values));
        let names: Vec<String> = self.pairs.iter().map(|pair| pair.name.clone()).collect();
        let height = u32::try_from(names.len()).unwrap_or(u32::MAX).min(200) * ROW + AROUND;
        let mut plot = Plot::new(&self.title, height, x, Scale::new("", Kind::Bands(names)));
        plot.styles = palette::styles(NAMES);
        plot.has_legend = true;
        let told = |pair: &Pair| {
            let values = NAMES.into_iter().zip([pair.measured, pair.paper]);
            values.map(|(name, value)| (name.to_owned(), short(value))).collect()
        };
        let row = |place: usize, value: f64, style: Option<usize>| Row {
            x: Place::Number(value),
            y: Place::Band(place),
            style,
            ..Row::default()
        };
        let (mut joins, mut points) = (vec![], vec![]);
        for (place, pair) in self.pairs.iter().enumerate() {
            let values = [pair.measured, pair.paper];
            if values.iter().all(|value| value.is_finite()) {
                let from = row(place, pair.measured, None);
                let to = Some(Place::Number(pair.paper));
                joins.push(Row { x2: to, y2: Some(from.y), ..from });
            }
            for (style, value) in values.into_iter().enumerate() {
                if value.is_finite() {
                    points.push(Row { told: told(pair), ..row(place, value, Some(style)) });
                }
            }
        }
        plot.layers = vec![
            Layer { mark: Mark::Rule(1), rows: joins },
            Layer { mark: Mark::Point, rows: points },
        ];
        Chart::new(plot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_values_are_drawn_and_joined() {
        let pair =
            |name: &str, measured: f64, paper: f64| Pair { name: name.into(), measured, paper };
        let chart = PairChart {
            title: "hits".into(),
            x_title: "%".into(),
            pairs: vec![pair("LRU", 40.0, 30.0), pair("HWB", f64::NAN, 48.0)],
        };
        let specification = chart.chart().vega_lite();
        let rows = |layer: usize| {
            let name = specification["layer"][layer]["data"]["name"].as_str().unwrap();
            specification["datasets"][name].as_array().unwrap().clone()
        };
        assert_eq!(rows(0).len(), 1, "the pair of which both are known");
        let points = rows(1);
        let points: Vec<_> = points
            .iter()
            .map(|row| [&row["y"], &row["name"], &row["x"]].map(ToString::to_string))
            .collect();
        assert_eq!(
            points,
            [
                ["\"LRU\"", "\"measured\"", "40.0"],
                ["\"LRU\"", "\"the paper's\"", "30.0"],
                ["\"HWB\"", "\"the paper's\"", "48.0"],
            ]
        );
        assert!(chart.chart().svg().contains("the paper&#39;s"), "the legend");
    }
}
