//! The HTML of a report.

use super::escape::escape;
use super::{Block, Cell, CellKind, Chart, Figure, Report, Table};

/// Style sheet of reports: rules for elements and for a few classes.
pub const STYLE: &str = include_str!("style.css");
/// Script of a page in a browser; made from `web/` by `cargo xtask web`.
const SCRIPT: &str = include_str!("page.js");

/// A document with fewer headings has no list of contents.
const LISTED_HEADINGS_MIN: usize = 4;

/// Return a whole document.
pub(super) fn document(report: &Report) -> String {
    let title = escape(&report.title);
    let contents = contents(&headings(&report.blocks));
    let body = body(report);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n{contents}{body}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// Return all blocks, for a page that has the style and the script.
pub(super) fn body(report: &Report) -> String {
    let headings = headings(&report.blocks);
    let mut names = headings.iter().map(|(name, _)| name.as_str());
    let page = Page { definitions: &report.definitions };
    report.blocks.iter().map(|one| page.block(one, &mut names)).collect()
}

/// Names made of letters and digits, no two of them the same.
#[derive(Default)]
pub(super) struct Names {
    taken: Vec<String>,
}

impl Names {
    /// Return the name of something: its letters and digits, and a number if another has those as
    /// well.
    pub(super) fn take(&mut self, text: &str) -> String {
        let letters =
            text.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let parts = letters.split('-').filter(|part| !part.is_empty());
        let mut name = parts.collect::<Vec<_>>().join("-");
        if name.is_empty() {
            name = format!("part-{}", self.taken.len());
        }
        if self.taken.contains(&name) {
            let numbers = self.taken.len()..;
            let free = numbers.map(|number| format!("{name}-{number}"));
            name = free.into_iter().find(|name| !self.taken.contains(name)).unwrap_or_default();
        }
        self.taken.push(name.clone());
        name
    }
}

/// Return the headings, each with the name that links to it.
fn headings(blocks: &[Block]) -> Vec<(String, &str)> {
    let mut names = Names::default();
    let headings = blocks.iter().filter_map(|block| {
        let Block::Heading(text) = block else { return None };
        Some(text)
    });
    headings.map(|text| (names.take(text), text.as_str())).collect()
}

/// Links to the headings, if there are enough to look for one.
fn contents(headings: &[(String, &str)]) -> String {
    if headings.len() < LISTED_HEADINGS_MIN {
        return String::new();
    }
    let link = |(name, text): &(String, &str)| {
        format!("<li><a href=\"#{name}\">{}</a></li>\n", escape(text))
    };
    let links: String = headings.iter().map(link).collect();
    format!("<nav aria-label=\"Contents\">\n<ul>\n{links}</ul>\n</nav>\n")
}

/// State that blocks share.
struct Page<'a> {
    definitions: &'a [(String, String)],
}

impl Page<'_> {
    /// Return a block; a heading takes the next name.
    fn block<'a>(&self, block: &Block, names: &mut impl Iterator<Item = &'a str>) -> String {
        match block {
            Block::Heading(text) => {
                let name = names.next().expect("every heading has a name");
                format!("<h2 id=\"{name}\">{}</h2>\n", escape(text))
            }
            Block::Answer(sentences) => answer(sentences),
            Block::Paragraph(text) => format!("<p>{}</p>\n", escape(text)),
            Block::Code(text) => format!("<pre><code>{}</code></pre>\n", escape(text)),
            Block::Table(content) => self.table(content),
            Block::Figure(content) => figure(content),
        }
    }

    fn table(&self, table: &Table) -> String {
        let is_number = |column: usize| {
            let kinds = table.rows.first().and_then(|row| row.get(column)).map(|cell| cell.kind);
            matches!(kinds, Some(CellKind::Number | CellKind::Best))
        };
        let title = |(column, text): (usize, &String)| {
            let class = if is_number(column) { " class=\"number\"" } else { "" };
            let meaning = self.definitions.iter().find(|(title, _)| title == text);
            let text = match meaning {
                Some((_, meaning)) => {
                    format!("<abbr title=\"{}\">{}</abbr>", escape(meaning), escape(text))
                }
                None => escape(text),
            };
            // A title that is empty heads the names of rows.
            let tag = if text.is_empty() { "td" } else { "th scope=\"col\"" };
            let end = if text.is_empty() { "td" } else { "th" };
            format!("<{tag}{class}>{text}</{end}>")
        };
        let header: String = table.header.iter().enumerate().map(title).collect();
        let rows: String = table
            .rows
            .iter()
            .map(|row| format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<String>()))
            .collect();
        format!(
            "<div class=\"wide\"><table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
        )
    }
}

/// Render charts, each drawn for readers without scripts, with its specification for the others.
fn figure(figure: &Figure) -> String {
    let is_named = figure.choices.len() > 1;
    let choice = |(name, charts): &(String, Vec<Chart>)| {
        let heading = if is_named {
            format!("<p class=\"choice\">{}</p>\n", escape(name))
        } else {
            String::new()
        };
        let several = charts.len() > 1;
        let chart = |chart: &Chart| {
            let caption = if several {
                format!("<p class=\"caption\">{}</p>\n", escape(&chart.name))
            } else {
                String::new()
            };
            // In a script, only `<` could end it.
            let data = chart.vega_lite().to_string().replace('<', "\\u003c");
            format!(
                "<div class=\"chart\">\n{caption}{}<script type=\"application/json\">{data}</script>\n</div>\n",
                chart.drawing()
            )
        };
        let charts: String = charts.iter().map(chart).collect();
        let class = if several { "charts several" } else { "charts" };
        format!("<div class=\"{class}\" data-name=\"{}\">\n{heading}{charts}</div>\n", escape(name))
    };
    let choices: String = figure.choices.iter().map(choice).collect();
    let title = escape(&figure.title);
    format!("<figure>\n<figcaption>{title}</figcaption>\n{choices}</figure>\n")
}

fn answer(sentences: &[String]) -> String {
    let Some((first, rest)) = sentences.split_first() else { return String::new() };
    let rest: String =
        rest.iter().map(|sentence| format!("<p>{}</p>\n", escape(sentence))).collect();
    format!(
        "<section class=\"answer\" aria-label=\"The answer\">\n<p><strong>{}</strong></p>\n{rest}</section>\n",
        escape(first)
    )
}

fn cell(cell: &Cell) -> String {
    let text = escape(&cell.text);
    let value = cell.value.map_or_else(String::new, |value| format!(" data-value=\"{value}\""));
    let class = match cell.kind {
        CellKind::Text | CellKind::StruckOut => "",
        CellKind::Number => " class=\"number\"",
        CellKind::Best => " class=\"number best\"",
        CellKind::Good => " class=\"good\"",
        CellKind::Bad => " class=\"bad\"",
    };
    let text = if cell.kind == CellKind::StruckOut { format!("<s>{text}</s>") } else { text };
    format!("<td{class}{value}>{text}</td>")
}
