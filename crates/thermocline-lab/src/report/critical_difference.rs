//! A diagram of mean ranks: bars join policies that the test does not tell apart.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{Area, COLOURS, DrawError, GREY, draw, figure};
use crate::LabError;

/// Width of a drawing, in pixels.
const WIDTH: u32 = 720;
/// Free pixels left and right of the axis, for names.
const SIDE: i32 = 190;
/// Where the axis is, in pixels from the top.
const AXIS: i32 = 46;
/// Pixels from one name to the next.
const ROW: i32 = 22;

/// Mean ranks with their critical difference, as in Demsar (2006).
#[derive(Clone, Debug)]
pub struct RankDiagram {
    /// What the diagram shows.
    pub title: String,
    /// The policies with their mean ranks.
    pub ranks: Vec<(String, f64)>,
    /// Ranks that differ by less are not told apart.
    pub critical_difference: f64,
}

impl RankDiagram {
    /// The diagram with its title, as HTML.
    pub(super) fn figure(&self) -> Result<String, LabError> {
        let mut ranks = self.ranks.clone();
        ranks.sort_by(|one, other| one.1.total_cmp(&other.1));
        let bars = self.bars(&ranks);
        let rows = ranks.len().div_ceil(2) + bars.len();
        let height = u32::try_from(rows).unwrap_or(u32::MAX).min(200) * ROW.unsigned_abs() + 80;
        let drawing = draw((WIDTH, height), |area| self.draw(area, &ranks, &bars))?;
        let names: Vec<&str> = ranks.iter().map(|(name, _)| name.as_str()).collect();
        Ok(figure(&self.title, &names.join(", "), &drawing, ""))
    }

    /// The greatest groups of neighbours within the critical difference: first and last, by place.
    fn bars(&self, ranks: &[(String, f64)]) -> Vec<(usize, usize)> {
        let mut bars: Vec<(usize, usize)> = vec![];
        for (first, (_, rank)) in ranks.iter().enumerate() {
            let within = |(_, other): &(String, f64)| *other - rank < self.critical_difference;
            let last = first + ranks[first..].iter().take_while(|one| within(one)).count() - 1;
            let is_inside = bars.last().is_some_and(|&(_, end)| last <= end);
            if last > first && !is_inside {
                bars.push((first, last));
            }
        }
        bars
    }

    fn draw(
        &self,
        area: &Area<'_>,
        ranks: &[(String, f64)],
        bars: &[(usize, usize)],
    ) -> Result<(), DrawError> {
        let policies = ranks.len().max(2) as f64;
        let width = f64::from(WIDTH) - 2.0 * f64::from(SIDE);
        #[expect(clippy::cast_possible_truncation, reason = "a pixel of the drawing")]
        let x = |rank: f64| SIDE + ((rank - 1.0) / (policies - 1.0) * width).round() as i32;
        let grey = GREY.stroke_width(1);
        let line = |from: (i32, i32), to: (i32, i32), style: ShapeStyle| {
            area.draw(&PathElement::new(vec![from, to], style))
        };
        let font = |horizontal, vertical| {
            ("sans-serif", 15).into_font().color(&GREY).pos(Pos::new(horizontal, vertical))
        };
        line((x(1.0), AXIS), (x(policies), AXIS), grey)?;
        for rank in 1..=ranks.len() {
            let at = x(rank as f64);
            line((at, AXIS - 5), (at, AXIS), grey)?;
            area.draw_text(&rank.to_string(), &font(HPos::Center, VPos::Bottom), (at, AXIS - 7))?;
        }
        let length = x(1.0 + self.critical_difference.min(policies - 1.0));
        line((x(1.0), 14), (length, 14), GREY.stroke_width(2))?;
        let words = format!("critical difference {:.2}", self.critical_difference);
        area.draw_text(&words, &font(HPos::Left, VPos::Center), (length + 8, 14))?;
        for (row, &(first, last)) in (1..).zip(bars) {
            let y = AXIS + row * ROW / 2;
            let [from, to] = [first, last].map(|place| x(ranks[place].1));
            line((from - 3, y), (to + 3, y), COLOURS[1].stroke_width(4))?;
        }
        let below = AXIS + i32::try_from(bars.len()).unwrap_or(0) * ROW / 2 + ROW;
        let left = ranks.len().div_ceil(2);
        for (place, (name, rank)) in ranks.iter().enumerate() {
            let is_left = place < left;
            // The outer ones are nearest to the axis, so that no lines cross.
            let row = if is_left { place } else { ranks.len() - 1 - place };
            let y = below + i32::try_from(row).unwrap_or(0) * ROW;
            let at = x(*rank);
            let edge = if is_left { SIDE - 8 } else { SIDE + 8 + x(policies) - SIDE };
            line((at, AXIS), (at, y), grey)?;
            line((at, y), (edge, y), grey)?;
            let text = format!("{name} {rank:.2}");
            let (style, shift) = if is_left {
                (font(HPos::Right, VPos::Center), -4)
            } else {
                (font(HPos::Left, VPos::Center), 4)
            };
            area.draw_text(&text, &style, (edge + shift, y))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagram(ranks: &[f64], critical_difference: f64) -> RankDiagram {
        let ranks = ranks.iter().enumerate();
        let ranks = ranks.map(|(place, rank)| (format!("p{place}"), *rank)).collect();
        RankDiagram { title: "t".into(), ranks, critical_difference }
    }

    #[test]
    fn bars_join_what_does_not_differ() {
        let ranks = [1.2, 1.8, 2.6, 4.4];
        for (critical_difference, expected) in [
            (1.0, vec![(0, 1), (1, 2)]),
            (2.0, vec![(0, 2), (2, 3)]),
            (0.5, vec![]),
            (9.0, vec![(0, 3)]),
        ] {
            let diagram = diagram(&ranks, critical_difference);
            assert_eq!(diagram.bars(&diagram.ranks), expected, "{critical_difference}");
        }
    }

    #[test]
    fn every_policy_is_named_with_its_rank() {
        let html = diagram(&[2.5, 1.25, 2.25], 0.4).figure().unwrap();
        for text in ["p1 1.25", "p2 2.25", "p0 2.50", "critical difference 0.40"] {
            assert!(html.contains(text), "{text}: {html}");
        }
    }
}
