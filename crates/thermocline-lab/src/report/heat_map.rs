//! Maps of coloured cells: a value for every pair of two sizes.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{Area, DrawError, GREY, SIZE, draw, figure};
use crate::LabError;

/// Where the cells begin, from the left.
const LEFT: i32 = 96;
/// What is left free at the other sides.
const MARGIN: i32 = 12;
/// Room for the labels below the cells.
const BELOW: i32 = 56;
/// The height of a row.
const ROW: i32 = 34;
/// The width that a value takes, and that a letter of a label takes.
const VALUE: i32 = 42;
const LETTER: i32 = 8;
/// The colours of the least and of the greatest value: both are told from white paper, and in grey.
const LEAST: RGBColor = RGBColor(0xE6, 0xF1, 0xF8);
const GREATEST: RGBColor = RGBColor(0x08, 0x3A, 0x6B);

/// A value for every pair of two sizes, written in its cell where there is room.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// What the map shows, with its unit.
    pub title: String,
    /// What the columns are.
    pub x_title: String,
    /// The columns, as they are labelled.
    pub x_labels: Vec<String>,
    /// What the rows are.
    pub y_title: String,
    /// The rows from the bottom, as they are labelled.
    pub y_labels: Vec<String>,
    /// The values by row and column; none where there is none.
    pub values: Vec<Vec<Option<f64>>>,
}

impl HeatMap {
    /// The map with its title, as HTML.
    pub(super) fn figure(&self) -> Result<String, LabError> {
        let rows = i32::try_from(self.y_labels.len().max(1)).unwrap_or(i32::MAX).min(200);
        let height = u32::try_from(rows * ROW + MARGIN + BELOW).unwrap_or(SIZE.1);
        let drawing = draw((SIZE.0, height), |area| self.draw(area, rows))?;
        Ok(figure(&self.title, &format!("{} by {}", self.y_title, self.x_title), &drawing, ""))
    }

    fn draw(&self, area: &Area<'_>, rows: i32) -> Result<(), DrawError> {
        let columns = i32::try_from(self.x_labels.len().max(1)).unwrap_or(i32::MAX).min(10_000);
        let width = i32::try_from(SIZE.0).unwrap_or(i32::MAX) - LEFT - MARGIN;
        let x_of = |column: i32| LEFT + width * column / columns;
        let y_of = |row: i32| MARGIN + (rows - 1 - row) * ROW;
        let cells = self.values.iter().flatten().flatten();
        let (least, greatest) = cells
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), v| (min.min(*v), max.max(*v)));
        let label = |x: HPos, y: VPos, colour: RGBColor| {
            ("sans-serif", 14).into_font().color(&colour).pos(Pos::new(x, y))
        };
        for (row, values) in (0..rows).zip(&self.values) {
            for (column, value) in (0..columns).zip(values) {
                let Some(value) = value else { continue };
                let share =
                    if greatest > least { (value - least) / (greatest - least) } else { 0.0 };
                let corners =
                    [(x_of(column), y_of(row)), (x_of(column + 1) - 2, y_of(row) + ROW - 2)];
                area.draw(&Rectangle::new(corners, mix(share).filled()))?;
                let ink = if share > 0.5 { WHITE } else { BLACK };
                let middle = (i32::midpoint(x_of(column), x_of(column + 1)), y_of(row) + ROW / 2);
                if width / columns < VALUE {
                    continue;
                }
                let text = format!("{value:.1}");
                area.draw_text(&text, &label(HPos::Center, VPos::Center, ink), middle)?;
            }
        }
        for (row, text) in (0..rows).zip(&self.y_labels) {
            let place = (LEFT - 8, y_of(row) + ROW / 2);
            area.draw_text(text, &label(HPos::Right, VPos::Center, GREY), place)?;
        }
        let bottom = MARGIN + rows * ROW;
        // As many labels as there is room for.
        let longest = self.x_labels.iter().map(String::len).max().unwrap_or(0);
        let longest = i32::try_from(longest).unwrap_or(i32::MAX).min(width / LETTER) * LETTER;
        let step = (longest * columns / width + 1).max(1);
        for (column, text) in (0..columns).zip(&self.x_labels) {
            if column % step != 0 {
                continue;
            }
            let place = (i32::midpoint(x_of(column), x_of(column + 1)), bottom + 6);
            area.draw_text(text, &label(HPos::Center, VPos::Top, GREY), place)?;
        }
        let titles = format!("{} (rows: {})", self.x_title, self.y_title);
        let place = (LEFT + width / 2, bottom + BELOW - 10);
        area.draw_text(&titles, &label(HPos::Center, VPos::Bottom, GREY), place)
    }
}

/// The colour of a share between the least and the greatest value.
fn mix(share: f64) -> RGBColor {
    let part = |from: u8, to: u8| {
        let mixed = f64::from(from) + (f64::from(to) - f64::from(from)) * share.clamp(0.0, 1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between two numbers of eight bits"
        )]
        let mixed = mixed.round() as u8;
        mixed
    };
    RGBColor(part(LEAST.0, GREATEST.0), part(LEAST.1, GREATEST.1), part(LEAST.2, GREATEST.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_cell() {
        let map = HeatMap {
            title: "miss < ratio".into(),
            x_title: "flash".into(),
            x_labels: vec!["10".into(), "20".into(), "30".into()],
            y_title: "ram".into(),
            y_labels: vec!["1".into(), "2".into()],
            values: vec![vec![Some(50.0), None, Some(30.0)], vec![Some(20.25), Some(10.0), None]],
        };
        let figure = map.figure().unwrap();
        assert_eq!(figure.matches("<rect").count(), 4, "{figure}");
        assert!(figure.contains("20.2") && figure.contains("miss &lt; ratio"));
        let upper = figure.to_uppercase();
        assert!(upper.contains("#E6F1F8") && upper.contains("#083A6B"), "both ends of the scale");
        assert_eq!(figure, map.figure().unwrap());
        let wide = HeatMap {
            x_labels: (0..40).map(|size| format!("{size},000,000")).collect(),
            values: vec![vec![Some(50.0); 40]; 2],
            ..map.clone()
        };
        let figure = wide.figure().unwrap();
        assert!(figure.contains("0,000,000") && !figure.contains("\n1,000,000"), "labels overlap");
        assert!(!figure.contains("50.0"), "values overlap");
        let empty = HeatMap { x_labels: vec![], y_labels: vec![], values: vec![], ..map };
        assert!(empty.figure().unwrap().contains("<svg"));
    }
}
