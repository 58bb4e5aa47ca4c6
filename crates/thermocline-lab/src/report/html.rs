//! The HTML of a report.

use super::{Block, Cell, CellKind, Table};

const STYLE: &str = include_str!("style.css");

/// A whole document.
pub(super) fn document(title: &str, blocks: &[Block]) -> String {
    let title = escape(title);
    let body: String = blocks.iter().map(block).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
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

fn block(block: &Block) -> String {
    match block {
        Block::Heading(text) => format!("<h2>{}</h2>\n", escape(text)),
        Block::Paragraph(text) => format!("<p>{}</p>\n", escape(text)),
        Block::Code(text) => format!("<pre><code>{}</code></pre>\n", escape(text)),
        Block::Table(content) => table(content),
        Block::Figure(figure) => figure.clone(),
    }
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
