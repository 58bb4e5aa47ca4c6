//! Charts. The description of a caller (lines, bars, points, boxes, maps, pairs, ranks) becomes one drawing
//! (`plot`), which is written in Vega-Lite (`vega`) and drawn as SVG (`svg`).

mod boxes;
mod heat_map;
mod lines;
mod pairs;
mod palette;
mod plot;
mod ranks;
mod scatter;
mod svg;
mod vega;

pub use boxes::{BoxChart, Distribution};
pub use heat_map::HeatMap;
pub use lines::{Axis, BarChart, LineChart, Series};
pub use pairs::{Pair, PairChart};
pub use palette::{Style, styles};
pub use ranks::RankDiagram;
pub use scatter::{Point, ScatterChart};

use self::plot::{Kind, Plot};

/// A chart of any kind.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Name in a switch between charts.
    pub(super) name: String,
    plot: Plot,
}

impl Chart {
    fn new(plot: Plot) -> Self {
        Self { name: plot.title.clone(), plot }
    }

    /// Return the same under another name in a switch between charts.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Return the title.
    pub(super) fn title(&self) -> &str {
        &self.plot.title
    }

    /// Return the chart in Vega-Lite 6: its data are in it.
    pub fn vega_lite(&self) -> serde_json::Value {
        vega::specification(&self.plot)
    }

    /// Return the chart as a file of SVG, on white paper.
    pub fn svg(&self) -> String {
        svg::file(&self.plot)
    }

    /// Return the chart as SVG in a page: its ink is that of the page.
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

/// Gives maps that are compared the same colours for the same numbers.
pub(super) fn share_colours<'a>(charts: impl IntoIterator<Item = &'a mut Chart>) {
    let mut all: Vec<&mut plot::Colours> =
        charts.into_iter().filter_map(|chart| chart.plot.colours.as_mut()).collect();
    let least = all.iter().map(|colours| colours.least).fold(f64::INFINITY, f64::min);
    let greatest = all.iter().map(|colours| colours.greatest).fold(f64::NEG_INFINITY, f64::max);
    for colours in &mut all {
        (colours.least, colours.greatest) = (least, greatest);
    }
}

/// Returns maps that are compared as one specification in Vega-Lite 6, side by side, with the same colours
/// for the same numbers.
pub fn side_by_side(maps: &[HeatMap]) -> serde_json::Value {
    let mut charts: Vec<Chart> = maps.iter().map(Drawn::chart).collect();
    share_colours(&mut charts);
    vega::side_by_side(charts.iter().map(|chart| &chart.plot))
}

/// Description of a chart by a caller.
pub trait Drawn {
    /// Return the chart.
    fn chart(&self) -> Chart;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return one chart of each kind, with names that HTML would read as tags.
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
            PairChart {
                title: "<i>pairs".into(),
                x_title: "%".into(),
                pairs: names
                    .map(|name| Pair { name: name.into(), measured: 1.0, paper: 2.0 })
                    .to_vec(),
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

    #[test]
    fn maps_that_are_compared_have_the_same_colours() {
        let map = |values: [f64; 2]| HeatMap {
            title: "map".into(),
            x_title: "flash".into(),
            x_labels: vec!["1".into(), "2".into()],
            y_title: "ram".into(),
            y_labels: vec!["1".into()],
            values: vec![values.map(Some).to_vec()],
        };
        let specification = side_by_side(&[map([3.0, 5.0]), map([1.0, 4.0])]);
        let views = specification["concat"].as_array().unwrap();
        let mut sets = vec![];
        for view in views {
            let first = &view["layer"][0];
            let domain = &first["encoding"]["color"]["scale"]["domain"];
            assert_eq!(*domain, serde_json::json!([1.0, 5.0]));
            sets.push(first["data"]["name"].as_str().unwrap());
        }
        assert_ne!(sets[0], sets[1], "each has its own rows");
        assert_eq!(specification["datasets"][sets[1]][0]["value"], 1.0);
    }

    /// Layers of the same marks share their rows.
    #[test]
    fn rows_are_there_once() {
        let chart = LineChart {
            title: "t".into(),
            x: Axis::time("x", [1, 2, 3]),
            y_title: "y".into(),
            series: vec![Series { name: "lru".into(), values: vec![Some(0.123_456); 3] }],
            emphasised: vec![],
        };
        let text = chart.chart().vega_lite().to_string();
        assert_eq!(text.matches("0.123456").count(), 3, "{text}");
    }

    /// Every mark of the drawing is data of the specification: a reader of one sees the other.
    #[test]
    fn specifications_have_the_data_of_the_drawing() {
        for chart in all() {
            let specification = chart.vega_lite();
            assert_eq!(specification["$schema"], "https://vega.github.io/schema/vega-lite/v6.json");
            let layers = specification["layer"].as_array().unwrap();
            assert_eq!(layers.len(), chart.plot.layers.len());
            for (layer, drawn) in layers.iter().zip(&chart.plot.layers) {
                let name = layer["data"]["name"].as_str().unwrap();
                let rows = specification["datasets"][name].as_array().unwrap();
                assert_eq!(rows.len(), drawn.rows.len(), "{specification:#}");
                assert!(rows.iter().all(|row| !row.to_string().contains("null")), "{rows:?}");
                for (row, drawn) in rows.iter().zip(&drawn.rows) {
                    if let Some(style) = drawn.style {
                        assert_eq!(row["name"], chart.plot.styles[style].name);
                    }
                }
            }
        }
    }
}
