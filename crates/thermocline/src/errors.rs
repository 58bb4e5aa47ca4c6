//! Errors in the words of a user.

use std::error::Error;

use thermocline_lab::LabError;
use thermocline_trace::TraceError;

use crate::note;

/// Return an error with all its causes, and the option that helps if there is one; `spell` makes of
/// its name what the reader would write.
pub(crate) fn explained(error: &anyhow::Error, spell: impl Fn(&str) -> String) -> String {
    let remedy = |one: &'_ (dyn Error + 'static)| match one.downcast_ref::<LabError>() {
        Some(error) => error.remedy(&spell),
        None => one.downcast_ref::<TraceError>()?.remedy(&spell),
    };
    let note = |one: &'_ (dyn Error + 'static)| {
        one.downcast_ref().and_then(note::remedy).map(str::to_owned)
    };
    let message = plain(&format!("{error:#}"));
    match error.chain().find_map(|one| remedy(one).or_else(|| note(one))) {
        Some(remedy) => format!("{message}; {remedy}"),
        None => message,
    }
}

/// Types that readers of files expect, in their words and in a user's.
const EXPECTED: [(&str, &str); 11] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number of at least 0"),
    ("usize", "a whole number of at least 0"),
    ("a nonzero u16", "a whole number from 1 to 65535"),
    ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ("a nonzero u64", "a whole number of at least 1"),
    ("f64", "a number"),
    ("a sequence", "a list"),
    ("path string", "a path in quotes"),
];

/// Return a message with types of the program named as a user would name them: where a reader's own message
/// ends, at the end of a line or before a place in JSON.
fn plain(message: &str) -> String {
    let name = |line: &str| {
        EXPECTED.iter().fold(line.to_owned(), |line, (type_name, words)| {
            let from = format!("expected {type_name}");
            let line =
                line.replace(&format!("{from} at line "), &format!("expected {words} at line "));
            match line.strip_suffix(&from) {
                Some(start) => format!("{start}expected {words}"),
                None => line,
            }
        })
    };
    message.split('\n').map(name).collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_a_user_names_them() {
        #[derive(Debug, serde::Deserialize)]
        #[expect(dead_code, reason = "it is never read")]
        struct File {
            size: Option<u64>,
            shards: Option<std::num::NonZeroU16>,
            share: Option<f64>,
            files: Option<Vec<String>>,
            path: Option<std::path::PathBuf>,
        }
        for (text, expected) in [
            ("size = -1", "expected a whole number of at least 0"),
            ("shards = 0", "expected a whole number from 1 to 65535"),
            ("share = \"much\"", "expected a number"),
            ("files = 3", "expected a list"),
            ("path = 3", "expected a path in quotes"),
        ] {
            let error = toml::from_str::<File>(text).unwrap_err();
            let found = explained(&anyhow::Error::from(error).context("a file"), str::to_owned);
            assert!(found.trim_end().ends_with(expected), "{found}");
            assert!(found.starts_with("a file: ") && found.contains(text), "{found}");
        }
        assert_eq!(plain("2 were u8, expected u8 and u16"), "2 were u8, expected u8 and u16");
        let error = serde_json::from_str::<File>("{\"size\": true}").unwrap_err();
        let expected = "(invalid type: boolean `true`, expected a whole number of at least 0 at line 1 column 13)";
        assert_eq!(plain(&format!("({error})")), expected);
    }
}
