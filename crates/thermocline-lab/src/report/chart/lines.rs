//! Lines over sizes or time, and bars.

use super::plot::{Align, Kind, Layer, Mark, Place, Plot, Row, Scale, Tick, short};
use super::{Chart, Drawn, palette};
use crate::numbers::{byte_size, grouped};

/// Height of a drawing of lines, in pixels.
const HEIGHT: u32 = 340;
/// Height of a bar with its gap, and of what is around all bars.
pub(super) const ROW: u32 = 26;
pub(super) const AROUND: u32 = 62;
/// Maximum number of values at which a line has marks.
const MARKED: usize = 24;
/// Sizes of which one is more than so many times the one before are on a logarithmic axis.
const STEP_MAX: f64 = 1.5;

/// A horizontal axis, with the places at which lines have values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    title: String,
    /// The places in ascending order, with their labels.
    places: Vec<(f64, String)>,
    is_log: bool,
    is_time: bool,
}

impl Axis {
    /// Sizes in bytes. They are spaced by their logarithms.
    pub fn sizes(title: &str, bytes: &[u64]) -> Self {
        let places = bytes.iter().map(|&bytes| (bytes as f64, byte_size(bytes)));
        Self::log(title, places.collect())
    }

    /// Numbers with labels of their own. They are spaced by their logarithms where one is more than
    /// half as large again as the one before and none is 0; else as they are.
    pub fn numbers(title: &str, places: Vec<(f64, String)>) -> Self {
        let is_growing = places.windows(2).all(|pair| pair[1].0 > STEP_MAX * pair[0].0);
        if places.len() > 2 && is_growing {
            return Self::log(title, places);
        }
        Self::plain(title, places)
    }

    /// Create a chart of counts on a logarithmic axis.
    pub fn counts(title: &str, counts: &[u64]) -> Self {
        Self::log(title, counts.iter().map(|&count| (count as f64, grouped(count))).collect())
    }

    /// Points in time, or the numbers of the accesses at which intervals end.
    pub fn time(title: &str, ends: impl IntoIterator<Item = u64>) -> Self {
        let places = ends.into_iter().map(|end| (end as f64, short(end as f64)));
        let is_time = true;
        Self { title: title.into(), places: places.collect(), is_log: false, is_time }
    }

    /// Return the names without a magnitude, evenly spaced.
    pub fn names(title: &str, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let places = names.into_iter().enumerate();
        Self::plain(title, places.map(|(place, name)| (place as f64, name.into())).collect())
    }

    /// Numbers with labels of their own, spaced as they are.
    pub fn plain(title: &str, places: Vec<(f64, String)>) -> Self {
        Self { title: title.into(), places, is_log: false, is_time: false }
    }

    /// Numbers with labels of their own, spaced by their logarithms unless one is 0 or less.
    pub fn log(title: &str, places: Vec<(f64, String)>) -> Self {
        let has_logarithms = places.iter().all(|(at, _)| *at > 0.0);
        Self { title: title.into(), places, is_log: has_logarithms, is_time: false }
    }

    fn scale(&self) -> Scale {
        let from = self.places.first().map_or(0.0, |(at, _)| *at);
        let to = self.places.last().map_or(1.0, |(at, _)| *at);
        let ticks = self.places.iter().map(|(at, label)| Tick { at: *at, label: label.clone() });
        let kind = match (self.is_log, self.is_time) {
            // One place alone is in the middle.
            (true, _) if to > from => Kind::Log(from, to, ticks.collect()),
            (true, _) => Kind::Log(from / 2.0, to.max(from) * 2.0, ticks.collect()),
            (false, true) => Kind::Linear(0.0, to.max(f64::MIN_POSITIVE), None),
            (false, false) if to > from => Kind::Linear(from, to, Some(ticks.collect())),
            (false, false) => Kind::Linear(from - 1.0, from + 1.0, Some(ticks.collect())),
        };
        Scale::new(&self.title, kind)
    }
}

/// Lines over sizes or over time.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// Title of the chart.
    pub title: String,
    /// Axis of the values.
    pub x: Axis,
    /// Title of the lines' axis, with its unit.
    pub y_title: String,
    /// The lines.
    pub series: Vec<Series>,
    /// The names of the lines that stand out from the others; all if there is none.
    pub emphasised: Vec<String>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// A value for each place of the axis; none where there is none. A value that is not finite is not
    /// drawn.
    pub values: Vec<Option<f64>>,
}

impl Drawn for LineChart {
    fn chart(&self) -> Chart {
        let values = self.series.iter().flat_map(|series| &series.values).flatten().copied();
        let y = Scale::new(&self.y_title, Kind::around(values));
        let mut plot = Plot::new(&self.title, HEIGHT, self.x.scale(), y);
        plot.styles = palette::styles(self.series.iter().map(|series| series.name.as_str()));
        for style in &mut plot.styles {
            style.is_emphasised =
                self.emphasised.is_empty() || self.emphasised.contains(&style.name);
        }
        plot.has_legend = true;
        plot.has_overview = self.x.is_time && self.x.places.len() > 1;
        let rows = self.rows();
        if self.x.places.len() <= MARKED {
            let points = Layer { mark: Mark::Point, rows: rows.clone() };
            plot.layers = vec![Layer { mark: Mark::Line, rows }, points];
        } else {
            // A mark for each of many values would hide the line.
            plot.layers = vec![Layer { mark: Mark::Line, rows }];
        }
        Chart::new(plot)
    }
}

impl LineChart {
    fn rows(&self) -> Vec<Row> {
        // Emphasised series come last, above the others.
        let mut order: Vec<usize> = (0..self.series.len()).collect();
        let is_emphasised = |&place: &usize| self.emphasised.contains(&self.series[place].name);
        order.sort_by_key(is_emphasised);
        let of_series = |place: usize| {
            let series = &self.series[place];
            let values = self.x.places.iter().zip(&series.values);
            let values = values.filter_map(|(x, value)| Some((x, (*value)?)));
            values.filter(|(_, value)| value.is_finite()).map(move |((at, label), value)| Row {
                x: Place::Number(*at),
                y: Place::Number(value),
                style: Some(place),
                told: vec![
                    (self.x.title.clone(), label.clone()),
                    (self.y_title.clone(), short(value)),
                ],
                ..Row::default()
            })
        };
        order.into_iter().flat_map(of_series).collect()
    }
}

/// Bars, one below the other.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// Title of the chart.
    pub title: String,
    /// Title of the bars' axis, with its unit.
    pub x_title: String,
    /// The bars: name and length.
    pub bars: Vec<(String, f64)>,
}

impl Drawn for BarChart {
    fn chart(&self) -> Chart {
        // A bar that is not finite has a name and no length.
        let length = |bar: &(String, f64)| if bar.1.is_finite() { bar.1 } else { 0.0 };
        let x = Scale::new(&self.x_title, Kind::around(self.bars.iter().map(length)));
        let names: Vec<String> = self.bars.iter().map(|(name, _)| name.clone()).collect();
        let height = u32::try_from(names.len()).unwrap_or(u32::MAX).min(200) * ROW + AROUND;
        let styles = palette::styles(names.iter().map(String::as_str));
        let mut plot = Plot::new(&self.title, height, x, Scale::new("", Kind::Bands(names)));
        plot.styles = styles;
        let row = |(place, bar): (usize, &(String, f64))| Row {
            x: Place::Number(0.0),
            x2: Some(Place::Number(length(bar))),
            y: Place::Band(place),
            style: Some(place),
            told: vec![(self.x_title.clone(), short(bar.1))],
            ..Row::default()
        };
        let bars: Vec<Row> = self.bars.iter().enumerate().map(row).collect();
        let label = |(place, bar): (usize, &(String, f64))| Row {
            x: Place::Number(length(bar)),
            y: Place::Band(place),
            text: Some(short(length(bar))),
            ..Row::default()
        };
        let labels = self.bars.iter().enumerate().map(label).collect();
        plot.layers = vec![
            Layer { mark: Mark::Bar(72), rows: bars },
            Layer { mark: Mark::Text(Align::After), rows: labels },
        ];
        Chart::new(plot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(x: Axis, values: &[&[Option<f64>]]) -> LineChart {
        let series = values
            .iter()
            .enumerate()
            .map(|(line, values)| Series { name: format!("line {line}"), values: values.to_vec() });
        LineChart {
            title: "t".into(),
            x,
            y_title: "y".into(),
            series: series.collect(),
            emphasised: vec![],
        }
    }

    #[test]
    fn values_that_are_not_finite_are_gaps() {
        let chart = |missing: [Option<f64>; 2]| {
            let values = [Some(1.0), missing[0], missing[1], Some(3.0)];
            lines(Axis::counts("x", &[1, 2, 4, 8]), &[&values]).chart()
        };
        let odd = chart([Some(f64::INFINITY), Some(f64::NAN)]);
        assert_eq!(odd.svg(), chart([None, None]).svg());
        assert_eq!(odd.vega_lite(), chart([None, None]).vega_lite());
        let bars = [("a", 1.0), ("b", f64::INFINITY)].map(|(name, bar)| (name.to_owned(), bar));
        let chart = BarChart { title: "t".into(), x_title: "x".into(), bars: bars.to_vec() };
        assert!(!chart.chart().svg().contains("inf"));
    }

    #[test]
    fn every_value_is_marked_and_every_line_named() {
        let values: [&[_]; 2] = [&[Some(1.0), Some(2.0), None], &[Some(0.0), None, Some(5.0)]];
        let svg = lines(Axis::names("x", ["1x", "2x", "4x"]), &values).chart().svg();
        // A circle or square per value, and one per entry of the legend.
        assert_eq!(svg.matches("class=\"mark\"").count(), 4 + 2, "{svg}");
        assert!(svg.contains(">line 0<") && svg.contains(">line 1<"), "{svg}");
        let many: Vec<Option<f64>> = (0..100).map(|value| Some(f64::from(value))).collect();
        let svg = lines(Axis::time("x", (1..=100).map(|end| end * 10)), &[&many]).chart().svg();
        assert_eq!(svg.matches("class=\"mark\"").count(), 1, "the legend's");
    }

    #[test]
    fn sizes_are_where_their_logarithms_are() {
        let values = [Some(1.0); 3];
        let chart = lines(Axis::sizes("flash", &[1 << 20, 1 << 22, 1 << 24]), &[&values]).chart();
        assert_eq!(chart.vega_lite()["layer"][0]["encoding"]["x"]["scale"]["type"], "log");
        let svg = chart.svg();
        let at = |label: &str| -> f64 {
            let before = svg.split(&format!(">{label}<")).next().unwrap();
            let place = before.rsplit("x=\"").next().unwrap();
            place.split('"').next().unwrap().parse().unwrap()
        };
        let [small, middle, large] = ["1 MiB", "4 MiB", "16 MiB"].map(at);
        assert!((middle - small - (large - middle)).abs() < 0.2, "{small} {middle} {large}");
        // Three times as far, not twice as far.
        let values = [Some(1.0); 4];
        let places = [1.0, 2.0, 3.0, 5.0].map(|at| (at, format!("{at:.1}")));
        let svg = lines(Axis::numbers("x", places.to_vec()), &[&values]).chart().svg();
        let at = |label: &str| -> f64 {
            let before = svg.split(&format!(">{label}<")).next().unwrap();
            before.rsplit("x=\"").next().unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let step = at("2.0") - at("1.0");
        assert!((at("5.0") - at("3.0") - 2.0 * step).abs() < 0.2, "{svg}");
    }

    #[test]
    fn what_is_not_emphasised_is_grey_and_below() {
        let mut chart = lines(Axis::counts("x", &[1, 2]), &[&[Some(1.0); 2], &[Some(2.0); 2]]);
        chart.emphasised = vec!["line 0".into()];
        let specification = chart.chart().vega_lite();
        let names = specification["datasets"]["rows0"].as_array().unwrap();
        assert_eq!(names[0]["name"], "line 1");
        assert_eq!(names[3]["name"], "line 0");
        let svg = chart.chart().svg();
        assert!(svg.contains(palette::GREY), "{svg}");
    }

    #[test]
    fn a_chart_of_nothing_is_no_failure() {
        let bars = BarChart { title: "t".into(), x_title: "x".into(), bars: vec![] };
        assert!(bars.chart().svg().contains("<svg"));
        for x in [Axis::counts("x", &[]), Axis::names("x", ["only"]), Axis::sizes("x", &[0, 4096])]
        {
            let svg = lines(x, &[&[]]).chart().svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
