//! The numbers of a paper's figures, in titles.

/// Return the figures that a title names: 2 for `Classes (Figure 2)`, 13 for `Memory (Figure 13
/// d)`, 4 and 5 for `Hits (Figures 4 and 5)`.
pub(crate) fn figures(title: &str) -> Vec<u32> {
    let mut numbers = vec![];
    for after in title.split("Figure").skip(1) {
        let after = after.strip_prefix('s').unwrap_or(after);
        for word in after.split([' ', ',', ')', ':']) {
            match word.parse() {
                Ok(number) => numbers.push(number),
                Err(_) if word.is_empty() || word == "and" => {}
                Err(_) => break,
            }
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_name_figures() {
        for (title, numbers) in [
            ("Classes (Figure 2)", &[2][..]),
            ("Memory (Figure 13 d), and more", &[13]),
            ("Hits (Figures 6, 13, 15 and 22)", &[6, 13, 15, 22]),
            ("Figure 15: hot ratio in 2 tables", &[15]),
            ("Runs of 2 policies", &[]),
            ("Figure of merit 3", &[]),
        ] {
            assert_eq!(figures(title), numbers, "{title}");
        }
    }
}
