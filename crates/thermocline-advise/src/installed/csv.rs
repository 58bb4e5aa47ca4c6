//! Tables of comma-separated values as casadm prints them.

/// Split a line at its commas; a field may be in double quotes, with a quote doubled in it.
pub(super) fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = line.trim_end_matches('\r').chars().peekable();
    while let Some(character) = characters.next() {
        let Some(field) = fields.last_mut() else { break };
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                field.push('"');
                characters.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn fields_may_have_commas_in_quotes() {
        assert_eq!(fields("a,,\"b,\"\"c\"\"\",d\r"), ["a", "", "b,\"c\"", "d"]);
        assert_eq!(fields(""), [""]);
        assert_eq!(fields("\"open"), ["open"]);
    }
}
