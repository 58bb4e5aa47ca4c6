//! Charts as SVG, with their legend beside them in HTML.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::html::escape;
use crate::LabError;

/// Colours that the colour-blind tell apart (Okabe and Ito), without the yellow.
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0x00, 0x00, 0x00),
];
/// The size of a drawing; it scales with the page.
pub(super) const SIZE: (u32, u32) = (560, 340);
/// Up to so many lines are told apart in one drawing.
const LINES: usize = 15;
/// Up to so many values of a line are marked.
const MARKED: usize = 24;
pub(super) const GREY: RGBColor = RGBColor(0x44, 0x50, 0x5C);
const LIGHT: RGBColor = RGBColor(0xE2, 0xE8, 0xEE);

/// Lines over the sizes of something, which are evenly spaced.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// What the chart shows.
    pub title: String,
    /// What the sizes are, with their unit.
    pub x_title: String,
    /// The sizes, as they are labelled.
    pub x_labels: Vec<String>,
    /// What the lines show, with its unit.
    pub y_title: String,
    /// The lines.
    pub series: Vec<Series>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// A value for each size; none where there is none. A value that is not finite is not drawn.
    pub values: Vec<Option<f64>>,
}

/// Bars, one below the other.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// What the chart shows.
    pub title: String,
    /// What the bars show, with its unit.
    pub x_title: String,
    /// The bars: name and length.
    pub bars: Vec<(String, f64)>,
}

impl Series {
    /// The points that can be drawn. An axis up to infinity would never end.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let values = self.values.iter().enumerate();
        let points = values.filter_map(|(place, value)| Some((place as f64, (*value)?)));
        points.filter(|(_, value)| value.is_finite())
    }
}

impl LineChart {
    /// The chart with its title and legend, as HTML: more than one drawing of the same scale, if its
    /// lines are many.
    pub(super) fn figure(&self) -> Result<String, LabError> {
        let drawings = self.series.len().div_ceil(LINES).max(1);
        let lines = self.series.len().div_ceil(drawings).max(1);
        let mut figures = String::new();
        for drawing in 0..drawings {
            let series = self.series.chunks(lines).nth(drawing).unwrap_or_default();
            let title = match drawings {
                1 => self.title.clone(),
                _ => format!("{}, part {} of {drawings}", self.title, drawing + 1),
            };
            let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
            let legend: String =
                names.iter().enumerate().map(|(index, name)| key(index, name)).collect();
            let legend = format!("<ul class=\"legend\">{legend}</ul>\n");
            let drawing = draw(SIZE, |area| self.draw(area, series))?;
            figures += &figure(&title, &names.join(", "), &drawing, &legend);
        }
        Ok(figures)
    }

    fn draw(&self, area: &Area<'_>, series: &[Series]) -> Result<(), DrawError> {
        let last = self.x_labels.len().saturating_sub(1).max(1) as f64;
        let values = self.series.iter().flat_map(Series::points).map(|(_, value)| value);
        let top = values.fold(0.0_f64, f64::max);
        let top = if top > 0.0 { top * 1.06 } else { 1.0 };
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(26)
            .x_label_area_size(46)
            .y_label_area_size(72)
            .build_cartesian_2d(-0.15..last + 0.15, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(LIGHT)
            .axis_style(GREY)
            .x_desc(&self.x_title)
            .y_desc(&self.y_title)
            .x_labels(0)
            .y_labels(6)
            .y_label_formatter(&|value| short(*value))
            .axis_desc_style(("sans-serif", 16).into_font().color(&GREY))
            .label_style(("sans-serif", 15).into_font().color(&GREY))
            .draw()?;
        self.draw_x_labels(area, &chart)?;
        for (index, series) in series.iter().enumerate() {
            let points: Vec<(f64, f64)> = series.points().collect();
            let style = ShapeStyle { color: colour(index).into(), filled: true, stroke_width: 2 };
            if let Some([dash, gap]) = dashes(index) {
                let path = DashedPathElement::new(points.clone(), dash, gap, style);
                chart.plotting_area().draw(&path)?;
            } else {
                chart.plotting_area().draw(&PathElement::new(points.clone(), style))?;
            }
            // A mark for each of many points would hide the line.
            for point in points.into_iter().take_while(|_| self.x_labels.len() <= MARKED) {
                chart.plotting_area().draw(&Circle::new(point, 3, style))?;
            }
        }
        Ok(())
    }

    /// Labels each size below its place, as many as there is room for.
    fn draw_x_labels(&self, area: &Area<'_>, chart: &Chart<'_>) -> Result<(), DrawError> {
        use plotters::style::text_anchor::{HPos, Pos, VPos};
        let longest = self.x_labels.iter().map(String::len).max().unwrap_or(1).max(1);
        let fitting = (450 / (longest * 8 + 10)).max(1);
        let step = self.x_labels.len().div_ceil(fitting).max(1);
        let style =
            ("sans-serif", 15).into_font().color(&GREY).pos(Pos::new(HPos::Center, VPos::Top));
        for (place, label) in self.x_labels.iter().enumerate().step_by(step) {
            let (x, y) = chart.backend_coord(&(place as f64, 0.0));
            area.draw_text(label, &style, (x, y + 7))?;
        }
        Ok(())
    }
}

impl BarChart {
    /// The chart with its title, as HTML.
    pub(super) fn figure(&self) -> Result<String, LabError> {
        let height = u32::try_from(self.bars.len()).unwrap_or(u32::MAX).min(200) * 28 + 70;
        let drawing = draw((SIZE.0, height), |area| self.draw(area))?;
        let names: Vec<&str> = self.bars.iter().map(|bar| bar.0.as_str()).collect();
        Ok(figure(&self.title, &names.join(", "), &drawing, ""))
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), DrawError> {
        let lengths = self.bars.iter().map(|bar| bar.1).filter(|length| length.is_finite());
        let top = lengths.fold(0.0_f64, f64::max);
        let top = if top > 0.0 { top * 1.12 } else { 1.0 };
        let rows = self.bars.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(26)
            .x_label_area_size(46)
            .y_label_area_size(130)
            .build_cartesian_2d(0.0..top, -rows..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(LIGHT)
            .axis_style(GREY)
            .x_desc(&self.x_title)
            .x_labels(6)
            .y_labels(0)
            .x_label_formatter(&|value| short(*value))
            .axis_desc_style(("sans-serif", 16).into_font().color(&GREY))
            .label_style(("sans-serif", 15).into_font().color(&GREY))
            .draw()?;
        for (row, (name, length)) in self.bars.iter().enumerate() {
            let middle = -(row as f64) - 0.5;
            // A bar that is not finite has a name and no length.
            let length = if length.is_finite() { *length } else { 0.0 };
            chart.plotting_area().draw(&Rectangle::new(
                [(0.0, middle + 0.36), (length, middle - 0.36)],
                COLOURS[0].filled(),
            ))?;
            draw_bar_labels(area, &chart, (name, length), middle)?;
        }
        Ok(())
    }
}

/// The name of a bar before it, and its length after it.
fn draw_bar_labels(
    area: &Area<'_>,
    chart: &Chart<'_>,
    (name, length): (&str, f64),
    middle: f64,
) -> Result<(), DrawError> {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    let style = ("sans-serif", 15).into_font().color(&GREY);
    let (x, y) = chart.backend_coord(&(0.0, middle));
    area.draw_text(name, &style.pos(Pos::new(HPos::Right, VPos::Center)), (x - 8, y))?;
    let (x, y) = chart.backend_coord(&(length, middle));
    let style = ("sans-serif", 15).into_font().color(&GREY);
    area.draw_text(&short(length), &style.pos(Pos::new(HPos::Left, VPos::Center)), (x + 6, y))
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<
    'a,
    SVGBackend<'a>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
pub(super) type DrawError = DrawingAreaErrorKind<std::io::Error>;

pub(super) fn draw(
    size: (u32, u32),
    paint: impl Fn(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, LabError> {
    let failed = |error: DrawError| LabError::Chart { reason: error.to_string() };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        paint(&area).map_err(failed)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// A drawing with its title and, below it, its legend.
pub(super) fn figure(title: &str, names: &str, drawing: &str, legend: &str) -> String {
    let label = escape(&format!("{title}: {names}"));
    let drawing =
        drawing.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1);
    let title = escape(title);
    format!("<figure>\n<figcaption>{title}</figcaption>\n{drawing}{legend}</figure>\n")
}

/// One entry of the legend.
fn key(index: usize, name: &str) -> String {
    let RGBColor(red, green, blue) = colour(index);
    let colour = format!("#{red:02x}{green:02x}{blue:02x}");
    let dashes = dashes(index)
        .map_or_else(String::new, |[dash, gap]| format!(" stroke-dasharray=\"{dash} {gap}\""));
    format!(
        "<li><svg width=\"30\" height=\"10\" aria-hidden=\"true\"><line x1=\"0\" y1=\"5\" x2=\"30\" \
         y2=\"5\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/><circle cx=\"15\" cy=\"5\" r=\"3\" \
         fill=\"{colour}\"/></svg>{}</li>",
        escape(name)
    )
}

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// The dashes of a line and the gaps between them, none if it is whole: the colours are few, so the
/// second round of them is dashed and the third dotted.
fn dashes(index: usize) -> Option<[i32; 2]> {
    match (index / COLOURS.len()) % 3 {
        0 => None,
        1 => Some([7, 4]),
        _ => Some([2, 3]),
    }
}

/// A number with a unit prefix, for an axis: `1.5M`.
fn short(value: f64) -> String {
    let (divided, prefix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match divided.abs() {
        size if size >= 100.0 || divided.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{divided:.decimals$}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (17.26, "17.3"),
            (2_500.0, "2500"),
            (15_500.0, "15.5k"),
            (2e6, "2M"),
        ] {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn values_that_are_not_finite_are_gaps() {
        let chart = |missing: [Option<f64>; 2]| {
            let values = vec![Some(1.0), missing[0], missing[1], Some(3.0)];
            LineChart {
                title: "t".into(),
                x_title: "x".into(),
                x_labels: ["1", "2", "3", "4"].map(String::from).to_vec(),
                y_title: "y".into(),
                series: vec![Series { name: "cost".into(), values }],
            }
        };
        let odd = chart([Some(f64::INFINITY), Some(f64::NAN)]).figure().unwrap();
        assert_eq!(odd, chart([None, None]).figure().unwrap());
        let bars = [("a", 1.0), ("b", f64::INFINITY)].map(|(name, bar)| (name.to_owned(), bar));
        let chart = BarChart { title: "t".into(), x_title: "x".into(), bars: bars.to_vec() };
        assert!(chart.figure().unwrap().contains("<svg"));
    }

    #[test]
    fn every_series_is_drawn_and_named() {
        let series = |name: &str, values: &[Option<f64>]| Series {
            name: name.into(),
            values: values.to_vec(),
        };
        let chart = LineChart {
            title: "a < b".into(),
            x_title: "flash".into(),
            x_labels: vec!["1x".into(), "2x".into(), "4x".into()],
            y_title: "s".into(),
            series: vec![
                series("one & only", &[Some(1.0), Some(2.0), None]),
                series("two", &[Some(0.0), None, Some(5.0)]),
            ],
        };
        let figure = chart.figure().unwrap();
        assert_eq!(
            figure.matches("<circle").count(),
            4 + 2,
            "a mark per value and per legend entry"
        );
        let upper = figure.to_uppercase();
        assert!(upper.contains("STROKE=\"#0072B2\"") && upper.contains("STROKE=\"#D55E00\""));
        assert_eq!(figure.matches("<li>").count(), 2);
        assert!(figure.contains("one &amp; only") && figure.contains("a &lt; b"));
        assert!(figure.contains("viewBox"), "it scales with the page");
        assert_eq!(figure, chart.figure().unwrap());
    }

    #[test]
    fn many_lines_are_drawn_apart_on_one_scale() {
        let chart = |lines: usize| LineChart {
            title: "t".into(),
            x_title: "x".into(),
            x_labels: vec!["1".into(), "2".into()],
            y_title: "y".into(),
            series: (0..lines)
                .map(|line| Series {
                    name: format!("line {line}"),
                    values: vec![Some(line as f64), Some(0.0)],
                })
                .collect(),
        };
        let one = chart(15).figure().unwrap();
        assert_eq!(one.matches("<figure>").count(), 1);
        assert!(one.contains("<figcaption>t</figcaption>"));
        let two = chart(25).figure().unwrap();
        assert_eq!(two.matches("<figure>").count(), 2);
        assert_eq!(two.matches("<li>").count(), 25, "every line is in one legend");
        assert!(two.contains("t, part 1 of 2") && two.contains("t, part 2 of 2"));
        let (first, second) = two.split_at(two.rfind("<figure>").unwrap());
        assert!(first.contains(">line 12<") || first.contains("line 12</li>"));
        assert!(second.contains("line 13</li>"));
        for part in [first, second] {
            assert!(part.contains("\n20\n"), "the axis of both goes to the highest of all: {part}");
        }
    }

    #[test]
    fn a_chart_of_nothing_is_no_failure() {
        let bars = BarChart { title: "t".into(), x_title: "x".into(), bars: vec![] };
        assert!(bars.figure().unwrap().contains("<svg"));
        let empty = LineChart {
            title: "t".into(),
            x_title: "x".into(),
            x_labels: vec![],
            y_title: "y".into(),
            series: vec![Series { name: "none".into(), values: vec![] }],
        };
        assert!(!empty.figure().unwrap().contains("NaN"));
    }
}
