//! Maps of coloured cells: a value for every pair of two sizes.

use super::plot::{Align, Colours, Kind, Layer, Mark, Place, Plot, Row, Scale, short};
use super::{Chart, Drawn};

/// The height of a row, and of what is around all rows.
const ROW: u32 = 34;
const AROUND: u32 = 70;
/// Number of columns above which values have no room in their cells.
const WRITTEN: usize = 12;

/// Colours of the least and of the greatest value: both differ from white paper, and in grey.
pub(super) const LEAST: &str = "#e6f1f8";
pub(super) const GREATEST: &str = "#083a6b";

/// A value for every pair of two sizes, written in its cell where there is room.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Title of the map, with its unit.
    pub title: String,
    /// Title of the columns.
    pub x_title: String,
    /// The columns, as they are labelled.
    pub x_labels: Vec<String>,
    /// Title of the rows.
    pub y_title: String,
    /// The rows from the bottom, as they are labelled.
    pub y_labels: Vec<String>,
    /// The values by row and column; none where there is none.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Drawn for HeatMap {
    fn chart(&self) -> Chart {
        let rows = u32::try_from(self.y_labels.len()).unwrap_or(u32::MAX).clamp(1, 200);
        let x = Scale::new(&self.x_title, Kind::Bands(self.x_labels.clone()));
        let y_labels = self.y_labels.iter().rev().cloned().collect();
        let y = Scale::new(&self.y_title, Kind::Bands(y_labels));
        let mut plot = Plot::new(&self.title, rows * ROW + AROUND, x, y);
        let row = |row: usize, column: usize, value: f64| Row {
            x: Place::Band(column),
            y: Place::Band(self.y_labels.len() - 1 - row),
            value: Some(value),
            told: vec![
                (self.x_title.clone(), self.x_labels[column].clone()),
                (self.y_title.clone(), self.y_labels[row].clone()),
                (self.title.clone(), short(value)),
            ],
            ..Row::default()
        };
        let mut cells = vec![];
        for (place, values) in self.values.iter().enumerate().take(self.y_labels.len()) {
            for (column, value) in values.iter().enumerate().take(self.x_labels.len()) {
                if let Some(value) = value.filter(|value| value.is_finite()) {
                    cells.push(row(place, column, value));
                }
            }
        }
        let values = cells.iter().filter_map(|cell| cell.value);
        let (least, greatest) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), v| (min.min(v), max.max(v)));
        if least <= greatest {
            plot.colours = Some(Colours { title: self.title.clone(), least, greatest });
        }
        let written = if self.x_labels.len() <= WRITTEN { cells.clone() } else { vec![] };
        let written = written.into_iter().map(|cell| Row {
            text: cell.value.map(|value| format!("{value:.1}")),
            told: vec![],
            ..cell
        });
        let written = Layer { mark: Mark::Text(Align::Middle), rows: written.collect() };
        plot.layers = vec![Layer { mark: Mark::Cell, rows: cells }, written];
        Chart::new(plot)
    }
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
        let svg = map.chart().svg();
        assert_eq!(svg.matches("class=\"cell\"").count(), 4, "{svg}");
        assert!(svg.contains("20.2") && svg.contains("miss &lt; ratio"));
        assert!(svg.contains("#e6f1f8") && svg.contains("#083a6b"), "both ends of the scale");
        let wide = HeatMap {
            x_labels: (0..40).map(|size| format!("{size},000,000")).collect(),
            values: vec![vec![Some(50.0); 40]; 2],
            ..map.clone()
        };
        let svg = wide.chart().svg();
        assert!(svg.contains("0,000,000") && !svg.contains(">1,000,000"), "labels overlap");
        assert!(!svg.contains(">50.0<"), "values overlap");
        let empty = HeatMap { x_labels: vec![], y_labels: vec![], values: vec![], ..map };
        assert!(empty.chart().svg().contains("<svg"));
    }
}
