//! Points by two figures of which less is better, and those that no other point beats in both.

use super::plot::{Align, Kind, Layer, Mark, Place, Plot, Row, Scale, short};
use super::{Chart, Drawn, palette};

const HEIGHT: u32 = 360;
/// Plane of a drawing for which names are laid out, in pixels. A wider page has more room.
const PLANE: (f64, f64) = (520.0, 300.0);
/// The width of a letter and the height of a line, in pixels.
const LETTER: f64 = 7.5;
const LINE: f64 = 16.0;
/// Gap between a point and its name, in pixels.
const GAP: f64 = 7.0;

/// Two figures of each of several items, of which less is better.
#[derive(Clone, Debug)]
pub struct ScatterChart {
    /// Title of the chart.
    pub title: String,
    /// The figure to the right, with its unit.
    pub x_title: String,
    /// The figure upwards, with its unit.
    pub y_title: String,
    /// The points.
    pub points: Vec<Point>,
}

/// One point.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its name.
    pub name: String,
    /// The figure to the right.
    pub x: f64,
    /// The figure upwards.
    pub y: f64,
}

impl ScatterChart {
    /// Return the places of the points that no other beats in one figure without being worse in the
    /// other, from left to right.
    fn front(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        order.retain(|&place| {
            let Point { x, y, .. } = self.points[place];
            x.is_finite() && y.is_finite()
        });
        order.sort_by(|&one, &other| {
            let (one, other) = (&self.points[one], &self.points[other]);
            one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y))
        });
        let mut least = f64::INFINITY;
        order.retain(|&place| {
            let y = self.points[place].y;
            let is_front = y < least;
            least = least.min(y);
            is_front
        });
        order
    }
}

impl Drawn for ScatterChart {
    fn chart(&self) -> Chart {
        // Points far from zero would stand in a heap.
        let x = Scale::new(&self.x_title, Kind::between(self.points.iter().map(|point| point.x)));
        let y = Scale::new(&self.y_title, Kind::around(self.points.iter().map(|point| point.y)));
        let mut plot = Plot::new(&self.title, HEIGHT, x, y);
        plot.styles = palette::styles(self.points.iter().map(|point| point.name.as_str()));
        let front = self.front();
        for (place, style) in plot.styles.iter_mut().enumerate() {
            style.is_emphasised = front.contains(&place);
        }
        plot.has_legend = true;
        let row = |place: usize| {
            let Point { x, y, .. } = self.points[place];
            Row {
                x: Place::Number(x),
                y: Place::Number(y),
                style: Some(place),
                told: vec![(self.x_title.clone(), short(x)), (self.y_title.clone(), short(y))],
                ..Row::default()
            }
        };
        let is_drawn =
            |&place: &usize| self.points[place].x.is_finite() && self.points[place].y.is_finite();
        let mut order: Vec<usize> = (0..self.points.len()).filter(is_drawn).collect();
        order.sort_by_key(|place| front.contains(place));
        let step = |pair: &[usize]| {
            let [from, to] = [pair[0], pair[1]].map(|place| &self.points[place]);
            // No point is known between two: the front goes right, then down.
            let corners = [((from.x, from.y), (to.x, from.y)), ((to.x, from.y), (to.x, to.y))];
            corners.map(|((x, y), (x2, y2))| Row {
                x: Place::Number(x),
                y: Place::Number(y),
                x2: Some(Place::Number(x2)),
                y2: Some(Place::Number(y2)),
                ..Row::default()
            })
        };
        let steps = front.windows(2).flat_map(step).collect();
        let [after, before] = self.named(&front, &plot).map(|places| {
            let name = |place: usize| Row {
                text: Some(self.points[place].name.clone()),
                told: vec![],
                style: None,
                ..row(place)
            };
            places.into_iter().map(name).collect::<Vec<Row>>()
        });
        plot.layers = vec![
            Layer { mark: Mark::Rule(1), rows: steps },
            Layer { mark: Mark::Point, rows: order.into_iter().map(row).collect() },
            Layer { mark: Mark::Text(Align::After), rows: after },
            Layer { mark: Mark::Text(Align::Before), rows: before },
        ];
        Chart::new(plot)
    }
}

/// Extent of a name, in pixels: left, right and middle.
type Extent = (f64, f64, f64);

impl ScatterChart {
    /// Returns which of the front have their names right of them, and which left. A name that would cover
    /// another, or leave the drawing, is left out: it is in the legend.
    fn named(&self, front: &[usize], plot: &Plot) -> [Vec<usize>; 2] {
        let share = |scale: &Scale, value: f64| match scale.kind {
            Kind::Linear(from, to, _) => (value - from) / (to - from),
            Kind::Log(..) | Kind::Bands(_) => 0.0,
        };
        let mut taken: Vec<Extent> = vec![];
        let mut sides = [vec![], vec![]];
        for &place in front {
            let Point { name, x, y } = &self.points[place];
            let x = share(&plot.x, *x) * PLANE.0;
            let y = share(&plot.y, *y) * PLANE.1;
            let width = name.chars().count() as f64 * LETTER;
            let boxes = [(x + GAP, x + GAP + width, y), (x - GAP - width, x - GAP, y)];
            let is_free = |&(left, right, middle): &Extent| {
                let is_inside = left >= 0.0 && right <= PLANE.0;
                let covers = |other: &Extent| {
                    left < other.1 && other.0 < right && (middle - other.2).abs() < LINE
                };
                is_inside && !taken.iter().any(covers)
            };
            if let Some(side) = boxes.iter().position(is_free) {
                taken.push(boxes[side]);
                sides[side].push(place);
            }
        }
        sides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)]) -> ScatterChart {
        let points = points.iter().enumerate();
        let points = points.map(|(place, &(x, y))| Point { name: format!("policy {place}"), x, y });
        ScatterChart {
            title: "t".into(),
            x_title: "x".into(),
            y_title: "y".into(),
            points: points.collect(),
        }
    }

    #[test]
    fn the_front_is_what_no_other_beats() {
        for (points, front) in [
            (&[(1.0, 9.0), (2.0, 5.0), (3.0, 6.0), (4.0, 1.0)][..], &[0, 1, 3][..]),
            // Of equals the first; of one figure the better.
            (&[(1.0, 1.0), (1.0, 1.0)], &[0]),
            (&[(1.0, 2.0), (1.0, 1.0), (2.0, 1.0)], &[1]),
            (&[(f64::NAN, 0.0), (5.0, 5.0)], &[1]),
            (&[], &[]),
        ] {
            assert_eq!(chart(points).front(), front, "{points:?}");
        }
    }

    #[test]
    fn names_do_not_cover_one_another() {
        let named = |points: &[(f64, f64)]| {
            let chart = chart(points);
            let plot = chart.chart().plot;
            let front = chart.front();
            chart.named(&front, &plot)
        };
        assert_eq!(named(&[(0.0, 9.0), (10.0, 5.0)]), [vec![0], vec![1]], "the last has no room");
        // Nearly the same point twice: one name each side, and none for the third.
        let near = [(5.0, 5.02), (5.01, 5.01), (5.02, 5.0), (0.0, 9.0), (10.0, 1.0)];
        assert_eq!(named(&near), [vec![3, 0], vec![1, 4]]);
        assert!(named(&[]).iter().all(Vec::is_empty));
    }

    #[test]
    fn the_front_is_named_and_the_others_are_grey() {
        let drawn = chart(&[(1.0, 9.0), (3.0, 9.5), (4.0, 1.0)]).chart();
        let specification = drawn.vega_lite();
        let rows = specification["layer"][2]["data"]["name"].as_str().unwrap();
        let names: Vec<_> = specification["datasets"][rows]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["text"].clone())
            .collect();
        assert_eq!(names, ["policy 0"]);
        assert!(drawn.svg().contains(palette::GREY));
    }
}
