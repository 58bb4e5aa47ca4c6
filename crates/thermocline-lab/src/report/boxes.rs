//! Boxes: the distribution of one figure for several policies, one below the other.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{Area, COLOURS, DrawError, GREY, draw, figure};
use crate::LabError;

/// Height of a box with its gap, in pixels.
const ROW: u32 = 30;
/// Width of a drawing, in pixels.
const WIDTH: u32 = 720;

/// Percentiles as boxes: from P25 to P75 with a line at the median, whiskers to P10 and P90, a dot at
/// the mean.
#[derive(Clone, Debug)]
pub struct BoxChart {
    /// What the chart shows.
    pub title: String,
    /// What the axis shows, with its unit.
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

impl BoxChart {
    /// The chart with its title, as HTML.
    pub(super) fn figure(&self) -> Result<String, LabError> {
        let rows = u32::try_from(self.boxes.len()).unwrap_or(u32::MAX).min(200);
        let drawing = draw((WIDTH, rows * ROW + 70), |area| self.draw(area))?;
        let names: Vec<&str> = self.boxes.iter().map(|one| one.name.as_str()).collect();
        Ok(figure(&self.title, &names.join(", "), &drawing, ""))
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), DrawError> {
        let ends = self.boxes.iter().flat_map(|one| one.percentiles.into_iter().chain([one.mean]));
        let ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
        let low = ends.iter().copied().fold(0.0, f64::min);
        let high = ends.iter().copied().fold(0.0, f64::max);
        let margin = ((high - low) * 0.05).max(1e-6);
        let rows = self.boxes.len().max(1) as f64;
        let longest = self.boxes.iter().map(|one| one.name.len()).max().unwrap_or(0);
        let label_width = u32::try_from(longest * 8 + 20).unwrap_or(300).clamp(80, 300);
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(26)
            .x_label_area_size(46)
            .y_label_area_size(label_width)
            .build_cartesian_2d(low - margin..high + margin, -rows..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .axis_style(GREY)
            .x_desc(&self.x_title)
            .x_labels(8)
            .y_labels(0)
            .x_label_formatter(&|value| format!("{value:.0}"))
            .axis_desc_style(("sans-serif", 16).into_font().color(&GREY))
            .label_style(("sans-serif", 15).into_font().color(&GREY))
            .draw()?;
        let plot = chart.plotting_area();
        plot.draw(&PathElement::new(vec![(0.0, -rows), (0.0, 0.0)], GREY.stroke_width(1)))?;
        for (row, one) in self.boxes.iter().enumerate() {
            let middle = -(row as f64) - 0.5;
            let [p10, p25, p50, p75, p90] = one.percentiles;
            let line = COLOURS[0].stroke_width(2);
            plot.draw(&PathElement::new(vec![(p10, middle), (p90, middle)], line))?;
            let [top, bottom] = [middle + 0.3, middle - 0.3];
            plot.draw(&Rectangle::new([(p25, top), (p75, bottom)], WHITE.filled()))?;
            plot.draw(&Rectangle::new([(p25, top), (p75, bottom)], line))?;
            let median = COLOURS[1].stroke_width(3);
            plot.draw(&PathElement::new(vec![(p50, top), (p50, bottom)], median))?;
            plot.draw(&Circle::new((one.mean, middle), 3, COLOURS[0].filled()))?;
            let style = ("sans-serif", 15).into_font().color(&GREY);
            let style = style.pos(Pos::new(HPos::Right, VPos::Center));
            let (x, y) = chart.backend_coord(&(low - margin, middle));
            area.draw_text(&one.name, &style, (x - 8, y))?;
        }
        Ok(())
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
        let html = chart.figure().unwrap();
        assert_eq!(html.matches("<circle").count(), 2);
        assert!(html.contains("a &lt; b"));
        let empty = BoxChart { boxes: vec![], ..chart };
        assert!(!empty.figure().unwrap().contains("NaN"));
    }
}
