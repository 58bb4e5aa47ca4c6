//! Boxes: the distribution of one figure for several policies, one below the other.

use super::lines::{AROUND, ROW};
use super::plot::{Kind, Layer, Mark, Place, Plot, Row, Scale, short};
use super::{Chart, Drawn, palette};

/// Percentiles as boxes: from P25 to P75 with a line at the median, whiskers to P10 and P90, a dot at
/// the mean.
#[derive(Clone, Debug)]
pub struct BoxChart {
    /// Title of the chart.
    pub title: String,
    /// Title of the axis, with its unit.
    pub x_title: String,
    /// The boxes, from top to bottom.
    pub boxes: Vec<Distribution>,
}

/// One box.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// Its name.
    pub name: String,
    /// P10, P25, P50, P75 and P90, ascending.
    pub percentiles: [f64; 5],
    /// The mean.
    pub mean: f64,
}

impl Drawn for BoxChart {
    fn chart(&self) -> Chart {
        let ends = self.boxes.iter().flat_map(|one| one.percentiles.into_iter().chain([one.mean]));
        let x = Scale::new(&self.x_title, Kind::around(ends));
        let names: Vec<String> = self.boxes.iter().map(|one| one.name.clone()).collect();
        let height = u32::try_from(names.len()).unwrap_or(u32::MAX).min(200) * ROW + AROUND;
        let styles = palette::styles(names.iter().map(String::as_str));
        let mut plot = Plot::new(&self.title, height, x, Scale::new("", Kind::Bands(names)));
        plot.styles = styles;
        let told = |one: &Distribution| {
            let [p10, p25, p50, p75, p90] = one.percentiles;
            let figures = [
                ("P10", p10),
                ("P25", p25),
                ("median", p50),
                ("P75", p75),
                ("P90", p90),
                ("mean", one.mean),
            ];
            figures.map(|(title, value)| (title.to_owned(), short(value))).to_vec()
        };
        let rows = |from: fn(&Distribution) -> f64, to: Option<fn(&Distribution) -> f64>| {
            let row = move |(place, one): (usize, &Distribution)| {
                let to = to.map(|to| to(one));
                let is_drawn = from(one).is_finite() && to.is_none_or(f64::is_finite);
                is_drawn.then(|| Row {
                    x: Place::Number(from(one)),
                    x2: to.map(Place::Number),
                    y: Place::Band(place),
                    style: Some(place),
                    told: told(one),
                    ..Row::default()
                })
            };
            self.boxes.iter().enumerate().filter_map(row).collect::<Vec<Row>>()
        };
        let whiskers = rows(|one| one.percentiles[0], Some(|one| one.percentiles[4]));
        // A whisker stays in the middle of its band.
        let whiskers = whiskers.into_iter().map(|row| Row { y2: Some(row.y), ..row }).collect();
        let medians = rows(|one| one.percentiles[2], None);
        plot.layers = vec![
            Layer { mark: Mark::Rule(2), rows: whiskers },
            Layer {
                mark: Mark::Bar(60),
                rows: rows(|one| one.percentiles[1], Some(|one| one.percentiles[3])),
            },
            Layer {
                mark: Mark::Across,
                rows: medians.into_iter().map(|row| Row { style: None, ..row }).collect(),
            },
            Layer { mark: Mark::Point, rows: rows(|one| one.mean, None) },
        ];
        Chart::new(plot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_box_is_drawn_and_named() {
        let one = |name: &str, at: f64| Distribution {
            name: name.into(),
            percentiles: [at - 2.0, at - 1.0, at, at + 1.0, at + 2.0],
            mean: at,
        };
        let boxes = vec![one("a < b", -3.0), one("c", 20.0)];
        let chart = BoxChart { title: "t".into(), x_title: "%".into(), boxes };
        let svg = chart.chart().svg();
        assert_eq!(svg.matches("class=\"mark\"").count(), 2);
        assert!(svg.contains("a &lt; b"));
        let empty = BoxChart { boxes: vec![], ..chart };
        assert!(!empty.chart().svg().contains("NaN"));
    }
}
