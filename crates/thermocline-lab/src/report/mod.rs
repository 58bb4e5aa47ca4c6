//! Reports: one self-contained HTML file that opens offline.
//!
//! A [`Report`] is a list of blocks (headings, paragraphs, tables, charts, commands). The same input
//! makes the same bytes: nothing that depends on the machine or the day is in it.

mod boxes;
mod buffering;
mod chart;
mod classes;
mod comparison;
mod corpus;
mod critical_difference;
mod heat_map;
mod html;
mod identification;
mod information;
mod miss_ratios;
mod over_time;
mod sweep;

pub use boxes::{BoxChart, Distribution};
pub use buffering::buffers;
pub use chart::{BarChart, LineChart, Series};
pub use classes::classes;
pub use comparison::{Options, comparison};
pub use corpus::corpus;
pub use critical_difference::RankDiagram;
pub use heat_map::HeatMap;
pub use identification::{charts_over_time, identification};
pub use information::{Information, information};
pub use miss_ratios::miss_ratios;
pub use over_time::chart_over_time;
pub use sweep::sweep;

use crate::LabError;

/// A document.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
enum Block {
    Heading(String),
    /// Sentences of which the first stands out.
    Answer(Vec<String>),
    Paragraph(String),
    Code(String),
    Table(Table),
    /// A finished drawing with its title and legend.
    Figure(String),
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
}

/// How a cell is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellKind {
    Text,
    Number,
    Best,
    Good,
    Bad,
}

impl Report {
    /// An empty document.
    pub fn new(title: &str) -> Self {
        Self { title: title.into(), blocks: vec![] }
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

    /// Adds a chart of lines.
    ///
    /// # Errors
    /// [`LabError::Chart`] if it cannot be drawn.
    pub fn lines(&mut self, chart: &LineChart) -> Result<(), LabError> {
        self.blocks.push(Block::Figure(chart.figure()?));
        Ok(())
    }

    /// Adds a chart of bars.
    ///
    /// # Errors
    /// [`LabError::Chart`] if it cannot be drawn.
    pub fn bars(&mut self, chart: &BarChart) -> Result<(), LabError> {
        self.blocks.push(Block::Figure(chart.figure()?));
        Ok(())
    }

    /// Adds a chart of boxes.
    ///
    /// # Errors
    /// [`LabError::Chart`] if it cannot be drawn.
    pub fn boxes(&mut self, chart: &BoxChart) -> Result<(), LabError> {
        self.blocks.push(Block::Figure(chart.figure()?));
        Ok(())
    }

    /// Adds a diagram of mean ranks.
    ///
    /// # Errors
    /// [`LabError::Chart`] if it cannot be drawn.
    pub fn ranks(&mut self, diagram: &RankDiagram) -> Result<(), LabError> {
        self.blocks.push(Block::Figure(diagram.figure()?));
        Ok(())
    }

    /// Adds a map of coloured cells.
    ///
    /// # Errors
    /// [`LabError::Chart`] if it cannot be drawn.
    pub fn heat_map(&mut self, map: &HeatMap) -> Result<(), LabError> {
        self.blocks.push(Block::Figure(map.figure()?));
        Ok(())
    }

    /// The document as one HTML file.
    pub fn to_html(&self) -> String {
        html::document(&self.title, &self.blocks)
    }
}

impl Cell {
    /// A cell of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: CellKind::Text }
    }

    /// A cell with a number.
    pub fn number(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: CellKind::Number }
    }

    /// A cell with the best number of its column.
    pub fn best(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: CellKind::Best }
    }

    /// A verdict: yes or no, and a word for it.
    pub fn verdict(is_good: bool, text: impl Into<String>) -> Self {
        let kind = if is_good { CellKind::Good } else { CellKind::Bad };
        Self { text: text.into(), kind }
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
        for name in ["one-a-b", "one-a-b-1", "-2", "four"] {
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
    fn what_users_write_cannot_break_the_document() {
        let mut report = Report::new("a <b> & \"c\"");
        report.paragraph("<script>alert('x')</script>");
        report.code("thermocline 'a&b'");
        report.table(Table {
            header: vec!["<i>".into()],
            rows: vec![vec![Cell::best("<1>")], vec![Cell::verdict(false, "no & no")]],
        });
        let html = report.to_html();
        assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains("<i>"));
        assert!(html.contains("a &lt;b&gt; &amp; &quot;c&quot;"), "{html}");
        assert!(html.contains("&lt;1&gt;") && html.contains("no &amp; no"));
    }
}
