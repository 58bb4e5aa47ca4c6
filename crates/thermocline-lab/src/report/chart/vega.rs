//! A drawing in Vega-Lite.

use serde_json::{Map, Value, json};

use super::heat_map::{GREATEST, LEAST};
use super::palette::{GREY, Style};
use super::plot::{Align, Colours, Kind, Layer, Mark, Place, Plot, Row, Scale, Tick};

/// Width of what the axes enclose, in pixels; a page may set another.
const WIDTH: u32 = 600;
/// Height of the copy in which a span is chosen, in pixels.
const OVERVIEW: u32 = 36;

/// The language that specifications are written in.
const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v6.json";
/// Number of charts that stand side by side in a specification of several, and how wide each is, in pixels.
const COLUMNS: u32 = 3;
const NARROW: u32 = 240;

/// Return the whole specification.
pub(super) fn specification(plot: &Plot) -> Value {
    let mut data = Data::default();
    let mut found = view(plot, &mut data);
    found["$schema"] = json!(SCHEMA);
    found["usermeta"] = json!({
        "styles": plot.styles.iter().map(style).collect::<Vec<_>>(),
        "hasLegend": plot.has_legend,
    });
    found["datasets"] = data.into_datasets();
    found
}

/// Return one specification of several charts, side by side.
pub(super) fn side_by_side<'a>(plots: impl IntoIterator<Item = &'a Plot>) -> Value {
    let mut data = Data::default();
    let narrow = |plot: &Plot| {
        let mut view = view(plot, &mut data);
        view["width"] = json!(NARROW);
        view
    };
    let views: Vec<Value> = plots.into_iter().map(narrow).collect();
    json!({
        "$schema": SCHEMA,
        "columns": COLUMNS,
        "concat": views,
        "datasets": data.into_datasets(),
    })
}

/// Return a chart, alone or among others.
fn view(plot: &Plot, data: &mut Data) -> Value {
    let mut layers: Vec<Value> = plot.layers.iter().map(|one| layer(plot, one, data)).collect();
    let mut found = json!({ "title": plot.title, "description": plot.in_words() });
    if !plot.has_overview {
        let is_plane =
            |scale: &Scale| !matches!(scale.kind, Kind::Bands(_)) && !scale.title.is_empty();
        if is_plane(&plot.x) && is_plane(&plot.y) && !layers.is_empty() {
            layers[0]["params"] = json!([{
                "name": "zoom",
                "select": { "type": "interval", "zoom": "wheel![event.ctrlKey]" },
                "bind": "scales",
            }]);
        }
        found["width"] = json!(WIDTH);
        found["height"] = json!(plot.height);
        found["layer"] = Value::Array(layers);
        return found;
    }
    let mut overview = layers.first().cloned().unwrap_or_else(|| json!({}));
    overview["width"] = json!(WIDTH);
    overview["height"] = json!(OVERVIEW);
    overview["params"] = json!([{
        "name": "span",
        "select": { "type": "interval", "encodings": ["x"] },
    }]);
    overview["encoding"]["x"]["title"] = json!("drag over a span to enlarge it");
    overview["encoding"]["y"]["axis"] = json!({ "labels": false, "ticks": false, "grid": false });
    overview["encoding"]["y"]["title"] = json!("");
    if let Some(encoding) = overview["encoding"].as_object_mut() {
        encoding.remove("tooltip");
    }
    for layer in &mut layers {
        layer["encoding"]["x"]["scale"]["domain"] = json!({ "param": "span" });
        layer["mark"]["clip"] = json!(true);
    }
    found["vconcat"] = json!([
        { "width": WIDTH, "height": plot.height, "layer": layers },
        overview,
    ]);
    found
}

/// The rows of all layers. Layers of the same rows share them: a chart over time is half as large.
#[derive(Default)]
struct Data {
    sets: Vec<Value>,
}

impl Data {
    /// Returns what a layer refers to its rows by.
    fn reference(&mut self, rows: Vec<Value>) -> Value {
        let rows = Value::Array(rows);
        let place = self.sets.iter().position(|set| *set == rows).unwrap_or_else(|| {
            self.sets.push(rows);
            self.sets.len() - 1
        });
        json!({ "name": Self::name(place) })
    }

    fn name(place: usize) -> String {
        format!("rows{place}")
    }

    fn into_datasets(self) -> Value {
        let sets = self.sets.into_iter().enumerate();
        Value::Object(sets.map(|(place, rows)| (Self::name(place), rows)).collect())
    }
}

/// Return the keys by which a page sets colours: the specification has grey where a style is not
/// emphasised.
fn style(style: &Style) -> Value {
    json!({
        "name": style.name,
        "colour": style.colour,
        "marker": style.marker,
        "dashes": style.dashes,
        "emphasised": style.is_emphasised,
    })
}

fn layer(plot: &Plot, layer: &Layer, data: &mut Data) -> Value {
    let values: Vec<Value> = layer.rows.iter().map(|one| row(plot, one)).collect();
    let mut encoding = Map::new();
    encoding.insert("x".into(), channel("x", &plot.x));
    encoding.insert("y".into(), channel("y", &plot.y));
    let has = |has: fn(&Row) -> bool| layer.rows.iter().any(has);
    if has(|row| row.x2.is_some()) {
        encoding.insert("x2".into(), json!({ "field": "x2" }));
    }
    if has(|row| matches!(row.y2, Some(Place::Number(_)))) {
        encoding.insert("y2".into(), json!({ "field": "y2" }));
    }
    if has(|row| row.style.is_some()) {
        encoding.insert("color".into(), of_styles(plot, |style| json!(colour(style))));
        encoding.insert("opacity".into(), of_styles(plot, |style| json!(opacity(style))));
        match layer.mark {
            Mark::Line => {
                let dashes = |style: &Style| match style.dashes {
                    [] => json!([1, 0]),
                    dashes => json!(dashes),
                };
                encoding.insert("strokeDash".into(), of_styles(plot, dashes));
            }
            Mark::Point => {
                encoding.insert("shape".into(), of_styles(plot, |style| json!(style.marker)));
            }
            Mark::Bar(_) | Mark::Cell | Mark::Rule(_) | Mark::Across | Mark::Text(_) => {}
        }
    } else if let (Mark::Cell, Some(colours)) = (layer.mark, &plot.colours) {
        encoding.insert("color".into(), of_numbers(colours));
    } else if let (Mark::Text(Align::Middle), Some(colours)) = (layer.mark, &plot.colours) {
        let middle = f64::midpoint(colours.least, colours.greatest);
        let condition = json!({ "test": format!("datum.value > {middle}"), "value": "#fff" });
        encoding.insert("color".into(), json!({ "condition": condition, "value": "#000" }));
    }
    if matches!(layer.mark, Mark::Text(_)) {
        encoding.insert("text".into(), json!({ "field": "text" }));
    }
    if let Some(first) = layer.rows.first().filter(|row| !row.told.is_empty()) {
        let name = first.style.map(|_| json!({ "field": "name", "title": "name" }));
        let told =
            first.told.iter().enumerate().map(
                |(place, (title, _))| json!({ "field": format!("told{place}"), "title": title }),
            );
        let told = name.into_iter().chain(told).collect::<Vec<_>>();
        encoding.insert("tooltip".into(), Value::Array(told));
    }
    json!({ "data": data.reference(values), "mark": mark(layer.mark), "encoding": encoding })
}

fn mark(mark: Mark) -> Value {
    match mark {
        Mark::Line => json!({ "type": "line", "strokeWidth": 2 }),
        Mark::Point => json!({ "type": "point", "filled": true, "size": 50 }),
        Mark::Bar(percent) => {
            json!({ "type": "bar", "height": { "band": f64::from(percent) / 100.0 } })
        }
        Mark::Cell => json!({ "type": "rect" }),
        Mark::Rule(width) => json!({ "type": "rule", "strokeWidth": width }),
        Mark::Across => json!({ "type": "tick", "thickness": 3 }),
        Mark::Text(Align::Middle) => json!({ "type": "text" }),
        Mark::Text(Align::After) => json!({ "type": "text", "align": "left", "dx": 7 }),
        Mark::Text(Align::Before) => json!({ "type": "text", "align": "right", "dx": -7 }),
    }
}

fn channel(field: &str, scale: &Scale) -> Value {
    let title =
        if scale.title.is_empty() { Value::String(String::new()) } else { json!(scale.title) };
    let of_numbers = |kind: &str, from: &f64, to: &f64, ticks: Option<&[Tick]>| {
        let mut scale_of = json!({ "type": kind, "domain": [from, to], "nice": false });
        if kind == "log" {
            scale_of["base"] = json!(2);
            scale_of["padding"] = json!(12);
        } else {
            scale_of["zero"] = json!(false);
        }
        let mut axis = json!({ "labelOverlap": true, "tickCount": 7 });
        if let Some(ticks) = ticks {
            let places: Vec<f64> = ticks.iter().map(|tick| tick.at).collect();
            let labels: Vec<&str> = ticks.iter().map(|tick| tick.label.as_str()).collect();
            // The label of a number is at its place in the list.
            let labels = format!("{}[indexof({}, datum.value)]", json!(labels), json!(places));
            axis["values"] = json!(places);
            axis["labelExpr"] = json!(labels);
            if ticks.is_empty() {
                axis["grid"] = json!(false);
                axis["domain"] = json!(false);
            }
        }
        json!({
            "field": field, "type": "quantitative", "title": title, "scale": scale_of, "axis": axis,
        })
    };
    match &scale.kind {
        Kind::Linear(from, to, ticks) => of_numbers("linear", from, to, ticks.as_deref()),
        Kind::Log(from, to, ticks) => of_numbers("log", from, to, Some(ticks)),
        Kind::Bands(names) => json!({
            "field": field,
            "type": "nominal",
            "title": title,
            "sort": names,
            "scale": { "domain": names },
            "axis": { "labelAngle": 0, "labelOverlap": true, "labelLimit": 240 },
        }),
    }
}

/// Return a channel with a value per style.
fn of_styles(plot: &Plot, value: impl Fn(&Style) -> Value) -> Value {
    let names: Vec<&str> = plot.styles.iter().map(|style| style.name.as_str()).collect();
    let values: Vec<Value> = plot.styles.iter().map(value).collect();
    let mut channel = json!({
        "field": "name",
        "type": "nominal",
        "title": "",
        // Vega-Lite would spread opacities over a range of its own.
        "scale": { "type": "ordinal", "domain": names, "range": values },
    });
    if !plot.has_legend {
        channel["legend"] = Value::Null;
    }
    channel
}

fn of_numbers(colours: &Colours) -> Value {
    json!({
        "field": "value",
        "type": "quantitative",
        "title": colours.title,
        "scale": { "range": [LEAST, GREATEST], "domain": [colours.least, colours.greatest] },
        "legend": { "orient": "top", "titleLimit": 600 },
    })
}

pub(super) fn colour(style: &Style) -> &'static str {
    if style.is_emphasised { style.colour } else { GREY }
}

/// Return the opacity: marks that are not emphasised let the paper through.
pub(super) fn opacity(style: &Style) -> f64 {
    if style.is_emphasised { 1.0 } else { 0.5 }
}

fn row(plot: &Plot, row: &Row) -> Value {
    let mut found = Map::new();
    let mut put = |key: &str, place: Option<Place>, scale: &Scale| {
        let value = match (place, &scale.kind) {
            (Some(Place::Number(number)), _) => json!(number),
            (Some(Place::Band(band)), Kind::Bands(names)) => json!(names.get(band)),
            _ => return,
        };
        found.insert(key.into(), value);
    };
    put("x", Some(row.x), &plot.x);
    put("y", Some(row.y), &plot.y);
    put("x2", row.x2, &plot.x);
    if matches!(row.y2, Some(Place::Number(_))) {
        put("y2", row.y2, &plot.y);
    }
    if let Some(style) = row.style.and_then(|style| plot.styles.get(style)) {
        found.insert("name".into(), json!(style.name));
    }
    if let Some(value) = row.value {
        found.insert("value".into(), json!(value));
    }
    if let Some(text) = &row.text {
        found.insert("text".into(), json!(text));
    }
    for (place, (_, text)) in row.told.iter().enumerate() {
        found.insert(format!("told{place}"), json!(text));
    }
    Value::Object(found)
}
