//! Charts. What a caller describes (lines, bars, points, boxes, maps, ranks) becomes one drawing
//! (`plot`), which is written in Vega-Lite (`vega`) and drawn as SVG (`svg`).

mod boxes;
mod heat_map;
mod lines;
mod palette;
mod plot;
mod ranks;
mod scatter;
mod svg;
mod vega;

pub use boxes::{BoxChart, Distribution};
pub use heat_map::HeatMap;
pub use lines::{Axis, BarChart, LineChart, Series};
pub use palette::{Style, styles};
pub use ranks::RankDiagram;
pub use scatter::{Point, ScatterChart};

use self::plot::{Kind, Plot};

/// A chart of any kind.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What a switch between charts calls it.
    pub(super) name: String,
    plot: Plot,
}

impl Chart {
    fn new(plot: Plot) -> Self {
        Self { name: plot.title.clone(), plot }
    }

    /// The same under another name in a switch between charts.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// What it shows.
    pub(super) fn title(&self) -> &str {
        &self.plot.title
    }

    /// The chart in Vega-Lite 6: its data are in it.
    pub fn vega_lite(&self) -> serde_json::Value {
        vega::specification(&self.plot)
    }

    /// The chart as a file of SVG, on white paper.
    pub fn svg(&self) -> String {
        svg::file(&self.plot)
    }

    /// The chart as SVG in a page: its ink is that of the page.
    pub(super) fn drawing(&self) -> String {
        svg::inline(&self.plot)
    }
}

/// Gives charts of one figure the same vertical axis, so that they can be compared.
pub(super) fn share_y(charts: &mut [Chart]) {
    let ends = charts.iter().filter_map(|chart| {
        let Kind::Linear(from, to, None) = chart.plot.y.kind else { return None };
        Some((from, to))
    });
    let all = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let Some((from, to)) = all else { return };
    for chart in charts {
        if let Kind::Linear(_, _, None) = chart.plot.y.kind {
            chart.plot.y.kind = Kind::Linear(from, to, None);
        }
    }
}

/// What a caller describes a chart by.
pub trait Drawn {
    /// The chart.
    fn chart(&self) -> Chart;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One chart of each kind, with names that HTML would read as tags.
    fn all() -> Vec<Chart> {
        let names = ["a < b & \"c\"", "lru"];
        let series =
            |name: &&str| Series { name: (*name).into(), values: vec![Some(1.0), None, Some(3.0)] };
        vec![
            LineChart {
                title: "<i>lines".into(),
                x: Axis::sizes("flash", &[4096, 8192, 32768]),
                y_title: "s".into(),
                series: names.iter().map(series).collect(),
                emphasised: vec![],
            }
            .chart(),
            BarChart {
                title: "<i>bars".into(),
                x_title: "s".into(),
                bars: names.map(|name| (name.to_owned(), 2.0)).to_vec(),
            }
            .chart(),
            ScatterChart {
                title: "<i>points".into(),
                x_title: "s".into(),
                y_title: "writes".into(),
                points: names.map(|name| Point { name: name.into(), x: 1.0, y: 2.0 }).to_vec(),
            }
            .chart(),
            BoxChart {
                title: "<i>boxes".into(),
                x_title: "%".into(),
                boxes: names
                    .map(|name| Distribution {
                        name: name.into(),
                        percentiles: [1.0, 2.0, 3.0, 4.0, 5.0],
                        mean: 3.0,
                    })
                    .to_vec(),
            }
            .chart(),
            HeatMap {
                title: "<i>map".into(),
                x_title: "flash".into(),
                x_labels: names.map(String::from).to_vec(),
                y_title: "ram".into(),
                y_labels: vec!["1".into()],
                values: vec![vec![Some(1.0), None]],
            }
            .chart(),
            RankDiagram {
                title: "<i>ranks".into(),
                ranks: names.iter().zip([1.2, 1.8]).map(|(n, r)| ((*n).to_owned(), r)).collect(),
                critical_difference: 1.0,
            }
            .chart(),
        ]
    }

    #[test]
    fn every_kind_is_drawn_named_and_escaped() {
        for chart in all() {
            let svg = chart.svg();
            assert_eq!(svg, chart.svg());
            assert!(svg.starts_with("<svg ") && svg.contains("role=\"img\""), "{svg}");
            assert!(svg.contains("&lt;i&gt;") && !svg.contains("<i>"), "{svg}");
            assert!(svg.contains("a &lt; b &amp; &quot;c&quot;"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    /// Every mark of the drawing is data of the specification: whoever opens one sees the other.
    #[test]
    fn specifications_have_the_data_of_the_drawing() {
        for chart in all() {
            let specification = chart.vega_lite();
            assert_eq!(specification["$schema"], "https://vega.github.io/schema/vega-lite/v6.json");
            let layers = specification["layer"].as_array().unwrap();
            assert_eq!(layers.len(), chart.plot.layers.len());
            for (layer, drawn) in layers.iter().zip(&chart.plot.layers) {
                let rows = layer["data"]["values"].as_array().unwrap();
                assert_eq!(rows.len(), drawn.rows.len(), "{specification:#}");
                assert!(!layer["data"].to_string().contains("null"), "{layer:#}");
                for (row, drawn) in rows.iter().zip(&drawn.rows) {
                    if let Some(style) = drawn.style {
                        assert_eq!(row["name"], chart.plot.styles[style].name);
                    }
                }
            }
        }
    }
}
