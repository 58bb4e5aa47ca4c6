//! Tables of the page.

use thermocline_lab::report::escape;

/// A table whose first column names its rows.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) caption: &'a str,
    /// The titles of the columns, that of the names first.
    pub(super) header: &'a [&'a str],
    /// The name of each row, and its cells.
    pub(super) rows: Vec<(String, Vec<String>)>,
}

impl Table<'_> {
    /// Render the table as HTML, in a box that scrolls where the table is wider than the screen.
    pub(super) fn to_html(&self) -> String {
        let class = |text: &str| if is_number(text) { " class=\"number\"" } else { "" };
        let first = self.rows.first().map(|(_, cells)| cells.as_slice()).unwrap_or_default();
        let header: String = self
            .header
            .iter()
            .enumerate()
            .map(|(column, title)| {
                let below = column.checked_sub(1).and_then(|column| first.get(column));
                let class = below.map_or("", |text| class(text));
                format!("<th scope=\"col\"{class}>{}</th>", escape(title))
            })
            .collect();
        let rows: String = self
            .rows
            .iter()
            .map(|(name, cells)| {
                let cells: String = cells
                    .iter()
                    .map(|text| format!("<td{}>{}</td>", class(text), escape(text)))
                    .collect();
                format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(name))
            })
            .collect();
        let caption = escape(self.caption);
        format!(
            "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"Table: {caption}\">\n<table>\n\
             <caption>{caption}</caption>\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}</tbody>\n\
             </table>\n</div>\n"
        )
    }
}

/// Return `true` if a cell is a number, or stands where one would.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix("> ").unwrap_or(text);
    digits == "-"
        || digits.trim_start_matches('-').starts_with(|first: char| first.is_ascii_digit())
}

/// Put two tables beside each other where there is room.
pub(super) fn pair(one: &str, other: &str) -> String {
    format!("<div class=\"pair\">\n{one}{other}</div>\n")
}
