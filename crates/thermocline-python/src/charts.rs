//! Charts for notebooks: made by the lab, as those of reports are, and opened by Altair.

use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use thermocline_lab::metric::grouped;
use thermocline_lab::report::{
    Axis, BarChart, Drawn as _, HeatMap, LineChart, Series, side_by_side,
};

use crate::errors::{configuration, python};

/// Chart that Python asks for.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Described {
    Lines { title: String, x: Over, y_title: String, lines: Vec<Line> },
    Bars { title: String, x_title: String, bars: Vec<(String, f64)> },
    Maps { x: Sizes, y: Sizes, maps: Vec<Map> },
}

/// A horizontal axis of numbers, ascending.
#[derive(Deserialize)]
struct Over {
    title: String,
    places: Vec<f64>,
    is_log: bool,
}

#[derive(Deserialize)]
struct Line {
    name: String,
    values: Vec<Option<f64>>,
}

/// An axis of sizes in pages, ascending.
#[derive(Deserialize)]
struct Sizes {
    title: String,
    pages: Vec<u64>,
}

/// Values by the sizes of `y`, then of `x`.
#[derive(Deserialize)]
struct Map {
    title: String,
    values: Vec<Vec<Option<f64>>>,
}

/// Return the Vega-Lite specification of the chart that a JSON text describes, as JSON.
#[pyfunction]
pub(crate) fn chart(described: &str) -> PyResult<String> {
    let described: Described = serde_json::from_str(described)
        .map_err(|error| configuration(format!("not a chart: {error}")))?;
    serde_json::to_string(&described.specification()).map_err(python)
}

impl Described {
    fn specification(self) -> Value {
        match self {
            Self::Lines { title, x, y_title, lines } => {
                let series = lines.into_iter();
                let series = series.map(|Line { name, values }| Series { name, values }).collect();
                let emphasised = vec![];
                let chart = LineChart { title, x: x.axis(), y_title, series, emphasised };
                chart.chart().vega_lite()
            }
            Self::Bars { title, x_title, bars } => {
                BarChart { title, x_title, bars }.chart().vega_lite()
            }
            Self::Maps { x, y, maps } => {
                let map = |Map { title, values }| HeatMap {
                    title,
                    x_title: x.title.clone(),
                    x_labels: x.labels(),
                    y_title: y.title.clone(),
                    y_labels: y.labels(),
                    values,
                };
                side_by_side(&maps.into_iter().map(map).collect::<Vec<HeatMap>>())
            }
        }
    }
}

impl Over {
    fn axis(self) -> Axis {
        let places = self.places.into_iter().map(|at| (at, label(at))).collect();
        if self.is_log { Axis::log(&self.title, places) } else { Axis::plain(&self.title, places) }
    }
}

impl Sizes {
    fn labels(&self) -> Vec<String> {
        self.pages.iter().map(|&pages| grouped(pages)).collect()
    }
}

/// Return a number on an axis: whole ones in groups of three digits.
fn label(at: f64) -> String {
    if at.fract() == 0.0 && (0.0..1e15).contains(&at) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "just checked")]
        let whole = at as u64;
        return grouped(whole);
    }
    at.to_string()
}
