//! A chart, as it is drawn: scales, and layers of marks over them. It is written in Vega-Lite by
//! [`super::vega`], and drawn without a browser by [`super::svg`].

use super::palette::Style;

/// One drawing.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub title: String,
    /// Height of the drawing, with its axes, in pixels.
    pub height: u32,
    pub x: Scale,
    pub y: Scale,
    /// Lines, bars or points that belong together, in the order of the legend.
    pub styles: Vec<Style>,
    /// `true` if the styles stand in a legend; else the marks are named otherwise.
    pub has_legend: bool,
    /// Meanings of colours, where they stand for numbers.
    pub colours: Option<Colours>,
    /// `true` if a span of the x axis can be chosen in a small copy below.
    pub has_overview: bool,
    pub layers: Vec<Layer>,
}

/// Numbers as colours.
#[derive(Clone, Debug)]
pub(super) struct Colours {
    pub title: String,
    pub least: f64,
    pub greatest: f64,
}

/// One axis.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// Title, with its unit; an axis without is not drawn.
    pub title: String,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Linear from the first number to the second. Without ticks they are chosen.
    Linear(f64, f64, Option<Vec<Tick>>),
    /// The same in powers of two.
    Log(f64, f64, Vec<Tick>),
    /// A band per name.
    Bands(Vec<String>),
}

/// A place on an axis with its label.
#[derive(Clone, Debug)]
pub(super) struct Tick {
    pub at: f64,
    pub label: String,
}

/// Marks of one kind, the later above the earlier.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub mark: Mark,
    pub rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A line through the rows of each style.
    Line,
    /// The marker of the style.
    Point,
    /// A bar from `x` to `x2` in the band `y`, of this share of its height in percent.
    Bar(u32),
    /// A cell of two bands.
    Cell,
    /// A straight line to `x2` and `y2`, as thick as this.
    Rule(u32),
    /// A short line across the band `y`.
    Across,
    /// Words: at the place, right of it, or left.
    Text(Align),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Middle,
    /// The words begin at the place.
    After,
    /// They end there.
    Before,
}

/// Position of one mark, and its item.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub x: Place,
    pub y: Place,
    pub x2: Option<Place>,
    pub y2: Option<Place>,
    /// Its place among the styles; none is drawn in the colour of text.
    pub style: Option<usize>,
    /// The number that its colour stands for.
    pub value: Option<f64>,
    pub text: Option<String>,
    /// Titles and texts of its tooltip.
    pub told: Vec<(String, String)>,
}

/// A place on an axis.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Number(f64),
    /// The band of this number.
    Band(usize),
}

impl Default for Place {
    fn default() -> Self {
        Self::Number(0.0)
    }
}

impl Plot {
    /// Create a drawing of nothing yet.
    pub(super) fn new(title: &str, height: u32, x: Scale, y: Scale) -> Self {
        Self {
            title: title.into(),
            height,
            x,
            y,
            styles: vec![],
            has_legend: false,
            colours: None,
            has_overview: false,
            layers: vec![],
        }
    }

    /// Describe the plot in a sentence.
    pub(super) fn in_words(&self) -> String {
        let names: Vec<&str> = self.styles.iter().map(|style| style.name.as_str()).collect();
        if names.is_empty() {
            return self.title.clone();
        }
        format!("{}: {}", self.title, names.join(", "))
    }
}

impl Scale {
    pub(super) fn new(title: &str, kind: Kind) -> Self {
        Self { title: title.into(), kind }
    }
}

impl Kind {
    /// Numbers from zero, or from the least if there is one below, to a little above the greatest.
    /// Those that are not finite are not counted.
    pub(super) fn around(numbers: impl Iterator<Item = f64>) -> Self {
        let numbers = numbers.filter(|number| number.is_finite());
        let (least, greatest) = numbers.fold((0.0_f64, 0.0_f64), |(least, greatest), number| {
            (least.min(number), greatest.max(number))
        });
        let room = (greatest - least) * 0.05;
        if room <= 0.0 {
            return Self::Linear(0.0, 1.0, None);
        }
        let least = if least < 0.0 { least - room } else { 0.0 };
        let greatest = if greatest > 0.0 { greatest + room } else { 0.0 };
        Self::Linear(least, greatest, None)
    }

    /// Numbers from a little below the least to a little above the greatest.
    pub(super) fn between(numbers: impl Iterator<Item = f64>) -> Self {
        let numbers = numbers.filter(|number| number.is_finite());
        let ends = numbers.map(|number| (number, number));
        let ends = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let (least, greatest) = ends.unwrap_or((0.0, 1.0));
        let room = match (greatest - least) * 0.08 {
            room if room > 0.0 => room,
            _ => (least.abs() * 0.1).max(1.0),
        };
        Self::Linear(least - room, greatest + room, None)
    }
}

/// Round numbers between two, about this many.
pub(super) fn round_numbers(from: f64, to: f64, about: u32) -> Vec<f64> {
    let span = to - from;
    if span.is_nan() || span <= 0.0 || !span.is_finite() {
        return vec![];
    }
    let rough = span / f64::from(about);
    let power = libm::pow(10.0, libm::floor(libm::log10(rough)));
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let step = step.into_iter().find(|step| span / step <= f64::from(about)).unwrap_or(span);
    let first = (from / step).ceil();
    let numbers = (0..=2 * about).map(|place| (first + f64::from(place)) * step);
    numbers.take_while(|number| *number <= to + step * 1e-9).collect()
}

/// Return a number with a unit prefix, for an axis: `1.5M`.
pub(super) fn short(value: f64) -> String {
    let (divided, prefix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match divided.abs() {
        size if size >= 100.0 || divided.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        size if size >= 0.001 => 4,
        _ => return format!("{divided:.1e}"),
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
            (0.0125, "0.0125"),
            (0.000_02, "2.0e-5"),
            (17.26, "17.3"),
            (2_500.0, "2500"),
            (15_500.0, "15.5k"),
            (2e6, "2M"),
        ] {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(round_numbers(0.0, 21.0, 6), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(round_numbers(-3.0, 1.0, 4), [-3.0, -2.0, -1.0, 0.0, 1.0]);
        assert_eq!(round_numbers(0.0, 0.5, 5), [0.0, 0.1, 0.2, 0.300_000_000_000_000_04, 0.4, 0.5]);
        assert!(round_numbers(1.0, 1.0, 5).is_empty());
        assert!(round_numbers(0.0, f64::INFINITY, 5).is_empty());
    }

    #[test]
    fn axes_begin_at_zero_and_skip_what_is_not_finite() {
        let ends = |numbers: &[f64]| match Kind::around(numbers.iter().copied()) {
            Kind::Linear(from, to, None) => (from, to),
            other @ (Kind::Linear(..) | Kind::Log(..) | Kind::Bands(_)) => panic!("{other:?}"),
        };
        assert_eq!(ends(&[10.0, 100.0, f64::INFINITY]), (0.0, 105.0));
        assert_eq!(ends(&[-100.0, f64::NAN]), (-105.0, 0.0));
        assert_eq!(ends(&[]), (0.0, 1.0));
    }
}
