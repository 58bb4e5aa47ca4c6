//! Checks the project's prose against the rules of `xtask/prose.toml`.
//!
//! A rule is a regular expression over one sentence, and a remedy. People must see what a machine cannot:
//! STYLE.md has the rules for those who write. A rule that old text breaks says how often (`allowed`); that
//! number only goes down.

mod extract;

use anyhow::{Context as _, Result};
use regex_lite::Regex;
use serde::Deserialize;

use self::extract::{Kind, Sentence, sentences};

/// The rules.
const RULES: &str = include_str!("../../../prose.toml");
/// Number of places that a message shows.
const PLACES_MAX: usize = 20;

/// The file of rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Rule>,
}

/// A rule as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Name, for messages.
    name: String,
    /// Pattern that no sentence may match.
    pattern: String,
    /// Remedy.
    instead: String,
    /// Kinds of text that the rule is for.
    kinds: Vec<Kind>,
    /// Number of matches in old text that nobody has rewritten yet.
    #[serde(default)]
    allowed: usize,
}

/// The rules, and the places where text breaks them.
pub(super) struct Prose {
    rules: Vec<(Rule, Regex, Vec<Place>)>,
}

/// A match.
#[derive(Debug)]
struct Place {
    file: String,
    line: usize,
    text: String,
}

impl Prose {
    /// Read the rules.
    ///
    /// # Errors
    /// If the file cannot be understood.
    pub(super) fn new() -> Result<Self> {
        let Rules { rule } = toml::from_str(RULES).context("xtask/prose.toml")?;
        let compile = |rule: Rule| {
            let pattern = Regex::new(&rule.pattern)
                .with_context(|| format!("xtask/prose.toml: pattern of `{}`", rule.name))?;
            Ok((rule, pattern, vec![]))
        };
        Ok(Self { rules: rule.into_iter().map(compile).collect::<Result<_>>()? })
    }

    /// Check a file.
    ///
    /// # Errors
    /// If a Rust source cannot be read as tokens.
    pub(super) fn add(&mut self, file: &str, text: &str) -> Result<()> {
        for Sentence { kind, line, text } in sentences(file, text)? {
            for (rule, pattern, places) in &mut self.rules {
                if rule.kinds.contains(&kind) && pattern.is_match(&text) {
                    places.push(Place { file: file.to_owned(), line, text: text.clone() });
                }
            }
        }
        Ok(())
    }

    /// Describe the rules that text breaks more often than is allowed.
    pub(super) fn faults(&self) -> Vec<String> {
        let broken = self.rules.iter().filter(|(rule, _, places)| places.len() > rule.allowed);
        broken.map(|(rule, _, places)| message(rule, places)).collect()
    }

    /// Rules whose number of allowed matches can be lowered, with the number found.
    pub(super) fn slack(&self) -> impl Iterator<Item = (&str, usize)> {
        let is_slack = |(rule, _, places): &&(Rule, Regex, Vec<Place>)| places.len() < rule.allowed;
        self.rules.iter().filter(is_slack).map(|(rule, _, places)| (&*rule.name, places.len()))
    }
}

fn message(rule: &Rule, places: &[Place]) -> String {
    let Rule { name, instead, allowed, .. } = rule;
    let count = places.len();
    let mut text = match allowed {
        0 => format!("prose, rule `{name}`: {instead}"),
        _ => format!("prose, rule `{name}`: {count} matches, {allowed} allowed: {instead}"),
    };
    for Place { file, line, text: sentence } in places.iter().rev().take(PLACES_MAX) {
        text += &format!("\n    {file}:{line}: {sentence}");
    }
    if count > PLACES_MAX {
        text += &format!("\n    and {} more", count - PLACES_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(file: &str, text: &str) -> String {
        let mut prose = Prose::new().unwrap();
        for (rule, _, _) in &mut prose.rules {
            rule.allowed = 0;
        }
        prose.add(file, text).unwrap();
        prose.faults().join("\n")
    }

    #[test]
    fn a_noun_clause_is_no_summary() {
        let found = faults("a.rs", "/// Whether the hot zone was ever full.\nfn f() {}\n");
        assert!(found.contains("a.rs:1: Whether the hot zone"), "{found}");
        assert_eq!(faults("a.rs", "/// `true` once the hot zone has been full.\nfn f() {}\n"), "");
    }

    #[test]
    fn only_the_first_sentence_is_a_summary() {
        let text = "/// Return the size. Pages that follow are free.\nfn f() {}\n";
        assert_eq!(faults("a.rs", text), "");
    }

    #[test]
    fn a_noun_clause_is_no_subject_anywhere() {
        for text in ["/// Size. What follows is free.\nfn f() {}\n", "// What follows is free.\n"] {
            assert!(faults("a.rs", text).contains("What follows is free."), "{text}");
        }
        assert_eq!(faults("a.rs", "// What follows?\nfn f() {}\n"), "");
    }

    #[test]
    fn code_is_not_prose() {
        let text = "# T\n\n```text\nWhat is told\n```\n\nRun `thermocline told`.\n";
        assert_eq!(faults("a.md", text), "");
        assert_eq!(faults("a.rs", "/// ```\n/// // So many told\n/// ```\nfn f() {}\n"), "");
    }

    #[test]
    fn errors_are_read_in_macros_and_attributes() {
        let attribute = "#[error(\"`{0}` is no size\")]\nstruct E(u8);\n";
        assert!(faults("a.rs", attribute).contains("a.rs:1: `{0}` is no size"));
        let call = "fn f() -> anyhow::Result<()> {\n    bail!(\"`{x}` is no size\")\n}\n";
        assert!(faults("a.rs", call).contains("a.rs:2: `{x}` is no size"));
        assert_eq!(faults("a.rs", "const NAME: &str = \"is no size\";\n"), "");
    }

    #[test]
    fn more_matches_than_allowed_are_a_fault() {
        let mut prose = Prose::new().unwrap();
        for (rule, _, _) in &mut prose.rules {
            rule.allowed = 1;
        }
        prose.add("a.rs", "/// Whether it is so.\nfn f() {}\n").unwrap();
        assert!(prose.faults().is_empty());
        prose.add("b.rs", "/// Whether it is so.\nfn f() {}\n").unwrap();
        assert!(prose.faults()[0].contains("2 matches, 1 allowed"));
    }
}
