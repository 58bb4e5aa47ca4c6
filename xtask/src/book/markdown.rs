//! Pieces of Markdown.

/// Return a table.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut table = line(&mut header.iter().copied());
    table += &line(&mut header.iter().map(|_| "---"));
    for row in rows {
        table += &line(&mut row.iter().map(String::as_str));
    }
    table
}

/// Return a number with commas.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Return a ratio in per cent.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.2}", ratio * 100.0)
}

/// Return a text with a capital.
pub(crate) fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
