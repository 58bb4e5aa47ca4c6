//! The HTML of a report.

use super::{Block, Cell, CellKind, Table};

const STYLE: &str = include_str!("style.css");

/// A document with fewer headings has no list of contents.
const LISTED_HEADINGS_MIN: usize = 4;

/// A whole document.
pub(super) fn document(title: &str, blocks: &[Block]) -> String {
    let title = escape(title);
    let headings = headings(blocks);
    let mut names = headings.iter().map(|(name, _)| name.as_str());
    let body: String = blocks.iter().map(|one| block(one, &mut names)).collect();
    let contents = contents(&headings);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n{contents}{body}</main>\n</body>\n</html>\n"
    )
}

/// Text as it may stand between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// The headings, each with the name that links to it: its letters and digits, and a number if another
/// heading has those as well.
fn headings(blocks: &[Block]) -> Vec<(String, &str)> {
    let mut headings: Vec<(String, &str)> = vec![];
    for block in blocks {
        let Block::Heading(text) = block else { continue };
        let letters =
            text.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let parts = letters.split('-').filter(|part| !part.is_empty());
        let mut name = parts.collect::<Vec<_>>().join("-");
        let place = headings.len();
        if name.is_empty() || headings.iter().any(|(other, _)| *other == name) {
            name += &format!("-{place}");
        }
        headings.push((name, text));
    }
    headings
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

/// A block; a heading takes the next name.
fn block<'a>(block: &Block, names: &mut impl Iterator<Item = &'a str>) -> String {
    match block {
        Block::Heading(text) => {
            let name = names.next().expect("every heading has a name");
            format!("<h2 id=\"{name}\">{}</h2>\n", escape(text))
        }
        Block::Answer(sentences) => answer(sentences),
        Block::Paragraph(text) => format!("<p>{}</p>\n", escape(text)),
        Block::Code(text) => format!("<pre><code>{}</code></pre>\n", escape(text)),
        Block::Table(content) => table(content),
        Block::Figure(figure) => figure.clone(),
    }
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

fn table(table: &Table) -> String {
    let is_number = |column: usize| {
        let kinds = table.rows.first().and_then(|row| row.get(column)).map(|cell| cell.kind);
        matches!(kinds, Some(CellKind::Number | CellKind::Best))
    };
    let header: String = table
        .header
        .iter()
        .enumerate()
        .map(|(column, text)| {
            let class = if is_number(column) { " class=\"number\"" } else { "" };
            format!("<th scope=\"col\"{class}>{}</th>", escape(text))
        })
        .collect();
    let rows: String = table
        .rows
        .iter()
        .map(|row| format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<String>()))
        .collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

fn cell(cell: &Cell) -> String {
    let text = escape(&cell.text);
    match cell.kind {
        CellKind::Text => format!("<td>{text}</td>"),
        CellKind::Number => format!("<td class=\"number\">{text}</td>"),
        CellKind::Best => format!("<td class=\"number best\">{text}</td>"),
        CellKind::Good => format!("<td class=\"good\">{text}</td>"),
        CellKind::Bad => format!("<td class=\"bad\">{text}</td>"),
    }
}
