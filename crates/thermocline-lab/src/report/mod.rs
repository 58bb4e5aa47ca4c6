//! Reports: one self-contained HTML file that opens offline.
//!
//! A [`Report`] is a list of blocks (headings, paragraphs, tables, charts, commands). The same input
//! makes the same bytes: nothing that depends on the machine or the day is in it.

mod buffering;
mod by_size;
mod character;
mod chart;
mod classes;
mod comparison;
mod corpus;
mod escape;
mod html;
mod identification;
mod information;
mod miss_ratios;
mod over_time;
mod plan;
mod point;
mod prompt_plan;
mod prompts;
mod purchase;
mod study;
mod sweep;

pub use buffering::buffers;
pub use character::character;
pub use chart::{
    Axis, BarChart, BoxChart, Chart, Distribution, Drawn, HeatMap, LineChart, Pair, PairChart,
    Point, RankDiagram, ScatterChart, Series, Style, side_by_side, styles,
};
pub use classes::classes;
pub use comparison::{Options, comparison};
pub use corpus::corpus;
pub use escape::escape;
pub use html::STYLE;
pub use identification::{charts_over_time, identification};
pub use information::{Information, information};
pub use miss_ratios::miss_ratios;
pub use over_time::chart_over_time;
pub use plan::plan;
pub use point::point;
pub use prompt_plan::prompt_plan;
pub use prompts::prompts;
pub use study::{Difference, Study, study};
pub use sweep::sweep;

use std::path::{Path, PathBuf};

use crate::LabError;
use crate::files::write_file;

/// A document.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    blocks: Vec<Block>,
    /// Definitions of column titles, in the order in which they came.
    definitions: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
enum Block {
    Heading(String),
    /// Sentences of which the first stands out.
    Answer(Vec<String>),
    Paragraph(String),
    Code(String),
    Table(Table),
    Figure(Figure),
}

/// Charts of which one choice is shown at a time.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Title of all of them.
    pub title: String,
    /// The choices: what each is called, and its charts, which stand side by side.
    pub choices: Vec<(String, Vec<Chart>)>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The titles of the columns.
    pub header: Vec<String>,
    /// The rows; each has as many cells as there are titles.
    pub rows: Vec<Vec<Cell>>,
}

/// One cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    kind: CellKind,
    /// The number that the text is rounded from, if it is known.
    value: Option<f64>,
}

/// Form of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellKind {
    Text,
    Number,
    Best,
    Good,
    Bad,
    StruckOut,
}

impl Report {
    /// Create an empty document.
    pub fn new(title: &str) -> Self {
        Self { title: title.into(), blocks: vec![], definitions: vec![] }
    }

    /// Return its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        self.blocks.push(Block::Heading(text.into()));
    }

    /// Adds the answer to what the document is about, in sentences of which the first stands out; none adds
    /// nothing.
    pub fn answer(&mut self, sentences: &[String]) {
        if !sentences.is_empty() {
            self.blocks.push(Block::Answer(sentences.to_vec()));
        }
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.blocks.push(Block::Paragraph(text.into()));
    }

    /// Adds commands, to be copied as they are.
    pub fn code(&mut self, text: &str) {
        self.blocks.push(Block::Code(text.into()));
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a chart.
    pub fn chart(&mut self, chart: &impl Drawn) {
        let chart = chart.chart();
        let title = chart.title().to_owned();
        self.figure(Figure { title, choices: vec![(String::new(), vec![chart])] });
    }

    /// Adds charts between which readers switch; none adds nothing.
    pub fn figure(&mut self, figure: Figure) {
        if figure.choices.iter().any(|(_, charts)| !charts.is_empty()) {
            self.blocks.push(Block::Figure(figure));
        }
    }

    /// Adds all blocks of another document, under a heading of its title.
    pub fn append(&mut self, other: Self) {
        self.heading(&other.title);
        self.blocks.extend(other.blocks);
        self.definitions.extend(other.definitions);
    }

    /// Keeps what comes before the first heading, the sections whose heading is wanted, and of the others
    /// the charts whose title is, and tables after a paragraph that is. Returns `true` if anything
    /// is left of the sections.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) -> bool {
        let mut kept = vec![];
        let mut has_any = false;
        let (mut is_whole, mut heading, mut is_table_next) = (true, None, false);
        let mut is_begun = false;
        for block in std::mem::take(&mut self.blocks) {
            let is_table_wanted = std::mem::take(&mut is_table_next);
            let block = match block {
                Block::Heading(text) => {
                    is_begun = true;
                    is_whole = is_wanted(&text);
                    heading = Some(Block::Heading(text));
                    continue;
                }
                block if is_whole => Some(block),
                Block::Figure(figure) => figure.of_wanted(&is_wanted).map(Block::Figure),
                Block::Paragraph(text) if is_wanted(&text) => {
                    is_table_next = true;
                    Some(Block::Paragraph(text))
                }
                Block::Table(table) if is_table_wanted => Some(Block::Table(table)),
                Block::Answer(_) | Block::Paragraph(_) | Block::Code(_) | Block::Table(_) => None,
            };
            if let Some(block) = block {
                has_any |= is_begun;
                kept.extend(heading.take());
                kept.push(block);
            }
        }
        self.blocks = kept;
        has_any
    }

    /// Says what the columns of this title mean, in all tables. Readers see it where they point.
    pub fn define(&mut self, title: impl Into<String>, meaning: impl Into<String>) {
        self.definitions.push((title.into(), meaning.into()));
    }

    /// Return all charts, each with a name as files have them, that no other has.
    pub fn charts(&self) -> Vec<(String, &Chart)> {
        let mut names = html::Names::default();
        let figures = self.blocks.iter().filter_map(|block| {
            let Block::Figure(figure) = block else { return None };
            Some(figure)
        });
        let charts = figures.flat_map(|figure| figure.choices.iter().flat_map(|(_, all)| all));
        charts.map(|chart| (names.take(chart.title()), chart)).collect()
    }

    /// Saves the document as HTML, or its charts as SVG if that is how the name ends. Charts after the
    /// first have the title of the chart in their name. Returns the files written.
    ///
    /// # Errors
    /// [`LabError::File`] if a file cannot be written, or if there is no chart.
    pub fn save(&self, path: &Path) -> Result<Vec<PathBuf>, LabError> {
        if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("svg")) {
            write_file(path, &self.to_html())?;
            return Ok(vec![path.to_owned()]);
        }
        let charts = self.charts();
        if charts.is_empty() {
            let reason = "the report has no chart: give it a name that ends in .html";
            return Err(LabError::file(path, reason));
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut written = vec![];
        for (place, (name, chart)) in charts.into_iter().enumerate() {
            let path = match place {
                0 => path.to_owned(),
                _ => path.with_file_name(format!("{stem}-{name}.svg")),
            };
            write_file(&path, &chart.svg())?;
            written.push(path);
        }
        Ok(written)
    }

    /// Return the document as one HTML file.
    pub fn to_html(&self) -> String {
        html::document(self)
    }

    /// Return the document as HTML for a page that has [`STYLE`] and brings charts and tables to
    /// life itself: no title, no contents, no script.
    pub fn to_fragment(&self) -> String {
        html::body(self)
    }
}

impl Figure {
    /// Return the figure with the choices that have a chart of a wanted title; all if its own title
    /// is.
    fn of_wanted(mut self, is_wanted: impl Fn(&str) -> bool) -> Option<Self> {
        if !is_wanted(&self.title) {
            let has = |charts: &[Chart]| charts.iter().any(|chart| is_wanted(chart.title()));
            self.choices.retain(|(_, charts)| has(charts));
        }
        (!self.choices.is_empty()).then_some(self)
    }
}

impl Cell {
    /// Create a cell of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: CellKind::Text, value: None }
    }

    /// Create a cell with a number.
    pub fn number(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: CellKind::Number, value: None }
    }

    /// Create a cell with the best number of its column.
    pub fn best(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: CellKind::Best, value: None }
    }

    /// Return the same with the number that its text is rounded from: tables are sorted by it and
    /// saved with it.
    #[must_use]
    pub fn with_value(self, value: f64) -> Self {
        Self { value: value.is_finite().then_some(value), ..self }
    }

    /// Create a cell of words that are struck out.
    pub fn struck_out(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: CellKind::StruckOut, value: None }
    }

    /// Create a verdict: yes or no, and a word for it.
    pub fn verdict(is_good: bool, text: impl Into<String>) -> Self {
        let kind = if is_good { CellKind::Good } else { CellKind::Bad };
        Self { text: text.into(), kind, value: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_headings_are_listed_each_with_a_name_of_its_own() {
        let html = |headings: &[&str]| {
            let mut report = Report::new("t");
            for heading in headings {
                report.heading(heading);
            }
            report.to_html()
        };
        assert!(!html(&["One", "Two", "Three"]).contains("<nav"));
        let html = html(&["One: a & b", "One, a b", "&", "Four"]);
        for name in ["one-a-b", "one-a-b-1", "part-2", "four"] {
            let (link, heading) = (format!("<a href=\"#{name}\">"), format!("<h2 id=\"{name}\">"));
            assert_eq!(
                [link, heading].map(|it| html.matches(&it).count()),
                [1, 1],
                "{name}: {html}"
            );
        }
        assert!(html.contains("<h2 id=\"one-a-b\">One: a &amp; b</h2>"), "{html}");
    }

    #[test]
    fn charts_have_names_of_their_own() {
        let chart = |title: &str| BarChart {
            title: title.into(),
            x_title: "x".into(),
            bars: vec![("a".into(), 1.0)],
        };
        let mut report = Report::new("t");
        report.chart(&chart("One, two"));
        report.figure(Figure {
            title: "both".into(),
            choices: vec![
                ("1".into(), vec![chart("One & two").chart(), chart("x").chart()]),
                ("2".into(), vec![]),
            ],
        });
        report.figure(Figure { title: "no chart at all".into(), choices: vec![] });
        let names: Vec<String> = report.charts().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["one-two", "one-two-1", "x"]);
        assert!(!report.to_html().contains("no chart at all"));
    }

    /// The data of a chart end where they should, for any name in it.
    #[test]
    fn data_cannot_end_their_script() {
        let mut report = Report::new("t");
        let bars = vec![("</script><script>alert(1)</script><!--".into(), 1.0)];
        report.chart(&BarChart { title: "t".into(), x_title: "x".into(), bars });
        let html = report.to_html();
        assert!(!html.contains("</script><script>alert") && !html.contains("<!--"), "{html}");
        let data = html.split("<script type=\"application/json\">").nth(1).unwrap();
        let data = data.split("</script>").next().unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["datasets"]["rows0"][0]["name"], "</script><script>alert(1)</script><!--");
    }

    #[test]
    fn titles_of_columns_have_their_meaning() {
        let mut report = Report::new("t");
        report.define("hits", "all \"hits\"");
        report.table(Table {
            header: vec!["policy".into(), "hits".into()],
            rows: vec![vec![Cell::text("a"), Cell::number("1,234").with_value(1234.4)]],
        });
        let html = report.to_html();
        let title = "<th scope=\"col\" class=\"number\"><abbr title=\"all &quot;hits&quot;\">hits</abbr></th>";
        assert!(html.contains(title), "{html}");
        assert!(html.contains("<td class=\"number\" data-value=\"1234.4\">1,234</td>"), "{html}");
    }

    #[test]
    fn a_fragment_is_what_a_document_shows() {
        let mut report = Report::new("title");
        report.heading("One & two");
        let mut other = Report::new("another");
        other.paragraph("below");
        report.append(other);
        let fragment = report.to_fragment();
        let wanted = "<h2 id=\"one-two\">One &amp; two</h2>\n<h2 id=\"another\">another</h2>\n<p>below</p>\n";
        assert_eq!(fragment, wanted);
        assert!(report.to_html().contains(&fragment));
    }

    #[test]
    fn only_what_is_wanted_is_kept() {
        let chart = |title: &str| BarChart {
            title: title.into(),
            x_title: "s".into(),
            bars: vec![("lru".into(), 1.0)],
        };
        let made = |is_wanted: &dyn Fn(&str) -> bool| {
            let mut report = Report::new("t");
            report.paragraph("about");
            report.heading("all of x");
            report.paragraph("of x");
            report.heading("some");
            report.paragraph("lost");
            report.chart(&chart("chart of x"));
            report.chart(&chart("chart of y"));
            report.paragraph("x in a table");
            for text in ["first", "second"] {
                let rows = vec![vec![Cell::text(text)]];
                report.table(Table { header: vec!["a".into()], rows });
            }
            report.heading("none");
            report.paragraph("lost");
            let has_any = report.retain(is_wanted);
            (has_any, report.to_html())
        };
        let (has_any, html) = made(&|text| text.split(' ').any(|word| word == "x"));
        let body = html.split("<script>").next().unwrap();
        for kept in ["about", "all of x", "of x", "some", "chart of x", "x in a table", "first"] {
            assert!(body.contains(&format!(">{kept}<")), "{kept}: {body}");
        }
        for lost in ["lost", "chart of y", "second", "none"] {
            assert!(!body.contains(&format!(">{lost}<")), "{lost}: {body}");
        }
        assert!(has_any);
        let (has_any, html) = made(&|_| false);
        assert!(!has_any && html.contains("<p>about</p>"), "{html}");
    }

    #[test]
    fn what_users_write_cannot_break_the_document() {
        let mut report = Report::new("a <b> & \"c\"");
        report.paragraph("<script>alert('x')</script>");
        report.code("thermocline 'a&b'");
        report.table(Table {
            header: vec!["<i>".into()],
            rows: vec![vec![Cell::best("<1>")], vec![Cell::verdict(false, "no & no")]],
        });
        let html = report.to_html();
        assert!(!html.contains("<script>alert") && !html.contains("<b>") && !html.contains("<i>"));
        assert!(html.contains("a &lt;b&gt; &amp; &quot;c&quot;"), "{html}");
        assert!(html.contains("&lt;1&gt;") && html.contains("no &amp; no"));
    }
}
