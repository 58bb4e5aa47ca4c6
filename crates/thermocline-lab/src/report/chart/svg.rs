//! A drawing as SVG, for paper and for readers without scripts.

use std::fmt::Write as _;

use super::heat_map::{GREATEST, LEAST};
use super::palette::Style;
use super::plot::{Align, Kind, Layer, Mark, Place, Plot, Row, Scale, round_numbers, short};
use super::vega::{colour, opacity};
use crate::report::escape::escape;

/// Width of a drawing; it scales with the page.
const WIDTH: f64 = 640.0;
/// Average width of a letter, and height of a line of text, in pixels.
const LETTER: f64 = 7.0;
const LINE: f64 = 18.0;
/// Free space at the edges.
const MARGIN: f64 = 10.0;
/// Distance from the ends of an axis of sizes to the first and last of them.
const PADDING: f64 = 14.0;
/// Number of round numbers an axis has, about.
const TICKS: u32 = 6;

/// Return the drawing as a file of its own: black on white.
pub(super) fn file(plot: &Plot) -> String {
    let Drawn { width, height, body } = drawn(plot);
    let label = escape(&plot.in_words());
    let title = escape(&plot.title);
    let top = LINE + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {:.0}\" width=\"{width}\" height=\"{:.0}\" role=\"img\" aria-label=\"{label}\" color=\"#1b2733\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{MARGIN}\" y=\"{LINE}\" font-family=\"sans-serif\" font-size=\"15\" font-weight=\"bold\" fill=\"currentColor\">{title}</text>\n<g transform=\"translate(0 {top})\">\n{body}</g>\n</svg>\n",
        height + top,
        height + top,
    )
}

/// Return the drawing in a page: its ink is that of the page, and its title stands beside it.
pub(super) fn inline(plot: &Plot) -> String {
    let Drawn { width, height, body } = drawn(plot);
    let label = escape(&plot.in_words());
    format!(
        "<svg viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{label}\">\n{body}</svg>\n"
    )
}

struct Drawn {
    width: f64,
    height: f64,
    body: String,
}

/// Area of the marks, which the axes enclose.
struct Area<'a> {
    plot: &'a Plot,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    out: String,
}

fn drawn(plot: &Plot) -> Drawn {
    let height = f64::from(plot.height);
    let y_labels = labels(&plot.y);
    let longest = y_labels.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
    let y_title = if plot.y.title.is_empty() { 0.0 } else { LINE };
    let labels_width = (longest as f64 * LETTER).min(WIDTH / 2.0);
    // Names of bars have lengths written after them.
    let after = if has_labels_after(plot) { 70.0 } else { 0.0 };
    let mut area = Area {
        plot,
        left: MARGIN + y_title + labels_width + 8.0,
        right: WIDTH - MARGIN - 10.0 - after,
        top: MARGIN,
        bottom: height - MARGIN - LINE - if plot.x.title.is_empty() { 0.0 } else { LINE },
        out: String::new(),
    };
    area.axes(&y_labels);
    for layer in &plot.layers {
        area.layer(layer);
    }
    let height = height + area.legend(height);
    let body = format!(
        "<g font-family=\"sans-serif\" font-size=\"13\" fill=\"currentColor\">\n{}</g>\n",
        area.out
    );
    Drawn { width: WIDTH, height, body }
}

fn has_labels_after(plot: &Plot) -> bool {
    let is_after = |layer: &Layer| layer.mark == Mark::Text(Align::After);
    plot.layers.iter().any(is_after)
}

/// Return the labels of an axis, as numbers of its scale.
fn labels(scale: &Scale) -> Vec<(f64, String)> {
    match &scale.kind {
        Kind::Linear(from, to, None) => {
            let numbers = round_numbers(*from, *to, TICKS).into_iter();
            // The sum of steps is not always zero where it should be.
            let near = (to - from) * 1e-9;
            numbers.map(|at| (at, short(if at.abs() < near { 0.0 } else { at }))).collect()
        }
        Kind::Linear(_, _, Some(ticks)) | Kind::Log(_, _, ticks) => {
            ticks.iter().map(|tick| (tick.at, tick.label.clone())).collect()
        }
        Kind::Bands(names) => {
            names.iter().enumerate().map(|(place, name)| (place as f64, name.clone())).collect()
        }
    }
}

/// Return the position of a place between the ends of an axis, from 0 to 1; the middle of a band.
fn share(scale: &Scale, place: Place) -> f64 {
    match (&scale.kind, place) {
        (Kind::Linear(from, to, _), Place::Number(at)) => (at - from) / (to - from),
        (Kind::Log(from, to, _), Place::Number(at)) => {
            libm::log2(at / from) / libm::log2(to / from)
        }
        (Kind::Bands(names), Place::Band(band)) => (band as f64 + 0.5) / names.len().max(1) as f64,
        (Kind::Bands(names), Place::Number(at)) => (at + 0.5) / names.len().max(1) as f64,
        (_, Place::Band(_)) => 0.0,
    }
}

/// Return the extent of a band along an axis of this length.
fn band(scale: &Scale, length: f64) -> f64 {
    match &scale.kind {
        Kind::Bands(names) => length / names.len().max(1) as f64,
        Kind::Linear(..) | Kind::Log(..) => length,
    }
}

impl Area<'_> {
    fn x(&self, place: Place) -> f64 {
        let padding = if matches!(self.plot.x.kind, Kind::Log(..)) { PADDING } else { 0.0 };
        let [left, right] = [self.left + padding, self.right - padding];
        left + share(&self.plot.x, place) * (right - left)
    }

    fn y(&self, place: Place) -> f64 {
        let share = share(&self.plot.y, place);
        match self.plot.y.kind {
            // The first name is at the top, the least number at the bottom.
            Kind::Bands(_) => self.top + share * (self.bottom - self.top),
            Kind::Linear(..) | Kind::Log(..) => self.bottom - share * (self.bottom - self.top),
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a string takes all that is written to it");
        self.out.push('\n');
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = escape(text);
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), style: &str) {
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>"
        ));
    }

    fn axes(&mut self, y_labels: &[(f64, String)]) {
        let [left, right, top, bottom] = [self.left, self.right, self.top, self.bottom];
        let grid = "stroke=\"currentColor\" stroke-opacity=\"0.15\"";
        let axis = "stroke=\"currentColor\" stroke-opacity=\"0.5\"";
        let is_numbers = !matches!(self.plot.y.kind, Kind::Bands(_));
        for (at, label) in y_labels {
            let y = self.y(Place::Number(*at));
            if is_numbers {
                self.line((left, y), (right, y), grid);
            }
            self.text(left - 6.0, y + 4.5, "end", label);
        }
        let x_labels = labels(&self.plot.x);
        let longest = x_labels.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let mut free_from = f64::NEG_INFINITY;
        for (at, label) in &x_labels {
            let x = self.x(Place::Number(*at));
            if !matches!(self.plot.x.kind, Kind::Bands(_)) {
                self.line((x, top), (x, bottom), grid);
            }
            let half = longest as f64 * LETTER / 2.0;
            // Labels without room are left out.
            if x - half >= free_from {
                self.text(x, bottom + LINE - 2.0, "middle", label);
                free_from = x + half + LETTER;
            }
        }
        self.line((left, bottom), (right, bottom), axis);
        if is_numbers && !self.plot.y.title.is_empty() {
            self.line((left, top), (left, bottom), axis);
        }
        let x_title = self.plot.x.title.clone();
        self.text(f64::midpoint(left, right), bottom + 2.0 * LINE, "middle", &x_title);
        if !self.plot.y.title.is_empty() {
            let (x, y) = (MARGIN + 4.0, f64::midpoint(top, bottom));
            let title = escape(&self.plot.y.title);
            self.put(format_args!(
                "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{title}</text>"
            ));
        }
    }

    fn layer(&mut self, layer: &Layer) {
        match layer.mark {
            Mark::Line => self.lines(&layer.rows),
            Mark::Point => layer.rows.iter().for_each(|row| {
                let (x, y) = (self.x(row.x), self.y(row.y));
                let marker = self.style(row).map_or("circle", |style| style.marker);
                let colour = self.colour(row);
                self.marker(x, y, marker, colour);
            }),
            Mark::Bar(percent) => {
                let height = band(&self.plot.y, self.bottom - self.top);
                let height = height * f64::from(percent) / 100.0;
                for row in &layer.rows {
                    let [from, to] = [row.x, row.x2.unwrap_or(row.x)].map(|place| self.x(place));
                    let (y, colour) = (self.y(row.y) - height / 2.0, self.colour(row));
                    let (x, width) = (from.min(to), (to - from).abs());
                    self.put(format_args!(
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
                    ));
                }
            }
            Mark::Cell => self.cells(&layer.rows),
            Mark::Rule(width) => {
                for row in &layer.rows {
                    let [x1, x2] = [row.x, row.x2.unwrap_or(row.x)].map(|place| self.x(place));
                    let [y1, y2] = [row.y, row.y2.unwrap_or(row.y)].map(|place| self.y(place));
                    let style = format!("stroke=\"{}\" stroke-width=\"{width}\"", self.colour(row));
                    self.line((x1, y1), (x2, y2), &style);
                }
            }
            Mark::Across => {
                let half = band(&self.plot.y, self.bottom - self.top) * 0.36;
                for row in &layer.rows {
                    let (x, y) = (self.x(row.x), self.y(row.y));
                    self.line(
                        (x, y - half),
                        (x, y + half),
                        "stroke=\"currentColor\" stroke-width=\"3\"",
                    );
                }
            }
            Mark::Text(align) => {
                for row in &layer.rows {
                    let (x, y) = (self.x(row.x), self.y(row.y) + 4.5);
                    let text = row.text.clone().unwrap_or_default();
                    match align {
                        Align::Middle => self.written(row, (x, y), &text),
                        Align::After => self.text(x + 7.0, y, "start", &text),
                        Align::Before => self.text(x - 7.0, y, "end", &text),
                    }
                }
            }
        }
    }

    /// Draw a line per style, through its rows.
    fn lines(&mut self, rows: &[Row]) {
        for of_style in rows.chunk_by(|one, other| one.style == other.style) {
            let points: Vec<String> = of_style
                .iter()
                .map(|row| format!("{:.1},{:.1}", self.x(row.x), self.y(row.y)))
                .collect();
            let dashes = self.style(&of_style[0]).map_or(String::new(), dash_array);
            let colour = self.colour(&of_style[0]);
            let opacity = self.style(&of_style[0]).map_or(1.0, opacity);
            self.put(format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-opacity=\"{opacity}\"{dashes}/>",
                points.join(" ")
            ));
        }
    }

    fn cells(&mut self, rows: &[Row]) {
        let width = band(&self.plot.x, self.right - self.left);
        let height = band(&self.plot.y, self.bottom - self.top);
        for row in rows {
            let (x, y) = (self.x(row.x) - width / 2.0, self.y(row.y) - height / 2.0);
            let colour = mixed(self.share_of_colours(row));
            self.put(format_args!(
                "<rect class=\"cell\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                width - 1.0,
                height - 1.0
            ));
        }
    }

    /// Draw a number on its cell.
    fn written(&mut self, row: &Row, (x, y): (f64, f64), text: &str) {
        let ink = if self.share_of_colours(row) > 0.5 { "#fff" } else { "#000" };
        let text = escape(text);
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"{ink}\">{text}</text>"
        ));
    }

    fn share_of_colours(&self, row: &Row) -> f64 {
        let (Some(value), Some(colours)) = (row.value, &self.plot.colours) else { return 0.0 };
        let span = colours.greatest - colours.least;
        if span > 0.0 { (value - colours.least) / span } else { 0.0 }
    }

    fn style(&self, row: &Row) -> Option<&Style> {
        self.plot.styles.get(row.style?)
    }

    fn colour(&self, row: &Row) -> &'static str {
        self.style(row).map_or("currentColor", colour)
    }

    fn marker(&mut self, x: f64, y: f64, marker: &str, colour: &str) {
        let polygon = |points: &[(f64, f64)]| {
            let points = points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy));
            points.collect::<Vec<_>>().join(" ")
        };
        let points = match marker {
            "square" => polygon(&[(-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)]),
            "diamond" => polygon(&[(0.0, -5.0), (4.2, 0.0), (0.0, 5.0), (-4.2, 0.0)]),
            "triangle-up" => polygon(&[(0.0, -4.6), (4.6, 3.8), (-4.6, 3.8)]),
            "triangle-down" => polygon(&[(0.0, 4.6), (4.6, -3.8), (-4.6, -3.8)]),
            "triangle-right" => polygon(&[(4.6, 0.0), (-3.8, 4.6), (-3.8, -4.6)]),
            "triangle-left" => polygon(&[(-4.6, 0.0), (3.8, 4.6), (3.8, -4.6)]),
            "cross" => polygon(&[
                (-1.6, -4.6),
                (1.6, -4.6),
                (1.6, -1.6),
                (4.6, -1.6),
                (4.6, 1.6),
                (1.6, 1.6),
                (1.6, 4.6),
                (-1.6, 4.6),
                (-1.6, 1.6),
                (-4.6, 1.6),
                (-4.6, -1.6),
                (-1.6, -1.6),
            ]),
            _ => {
                self.put(format_args!(
                    "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" fill=\"{colour}\"/>"
                ));
                return;
            }
        };
        self.put(format_args!("<polygon class=\"mark\" points=\"{points}\" fill=\"{colour}\"/>"));
    }

    /// Return the names below the drawing; returns the height that they take.
    fn legend(&mut self, top: f64) -> f64 {
        if !self.plot.has_legend {
            return 0.0;
        }
        let (mut x, mut y) = (MARGIN, top + LINE / 2.0);
        for style in &self.plot.styles {
            let width = 44.0 + style.name.chars().count() as f64 * LETTER;
            if x > MARGIN && x + width > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + LINE + 2.0);
            }
            let colour = colour(style);
            let stroke = format!("stroke=\"{colour}\" stroke-width=\"2\"{}", dash_array(style));
            self.line((x, y), (x + 24.0, y), &stroke);
            self.marker(x + 12.0, y, style.marker, colour);
            self.text(x + 29.0, y + 4.5, "start", &style.name);
            x += width;
        }
        y + LINE - top
    }
}

fn dash_array(style: &Style) -> String {
    if style.dashes.is_empty() {
        return String::new();
    }
    let dashes: Vec<String> = style.dashes.iter().map(u32::to_string).collect();
    format!(" stroke-dasharray=\"{}\"", dashes.join(" "))
}

/// Return the colour of a share between the least and the greatest value.
fn mixed(share: f64) -> String {
    let part = |place: usize| {
        let of = |colour: &str| u32::from_str_radix(&colour[place..place + 2], 16).unwrap_or(0);
        let [from, to] = [LEAST, GREATEST].map(|colour| f64::from(of(colour)));
        from + (to - from) * share.clamp(0.0, 1.0)
    };
    format!("#{}", [1, 3, 5].map(|place| hexadecimal(part(place))).concat())
}

fn hexadecimal(part: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two numbers of eight bits"
    )]
    let part = part.round() as u8;
    format!("{part:02x}")
}
