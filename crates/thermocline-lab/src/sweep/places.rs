//! Where in a TOML file a key is, so that what is wrong with its value can be told with its line.

use std::fmt::Display;

use toml::Spanned;
use toml::de::{DeArray, DeTable};

use crate::LabError;

/// The text of a file, and its values with their places.
pub(super) struct Places<'a> {
    text: &'a str,
    root: Spanned<DeTable<'a>>,
}

/// A step from a value to one inside it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// The value of a key.
    Key(&'a str),
    /// An element of a list.
    At(usize),
}

impl<'a> Places<'a> {
    /// Of a text that is TOML.
    pub(super) fn new(text: &'a str) -> Result<Self, LabError> {
        let root = DeTable::parse(text).map_err(|error| bad_toml(&error))?;
        Ok(Self { text, root })
    }

    /// What is wrong with the value at the end of the steps.
    pub(super) fn bad(&self, steps: &[Step<'_>], reason: impl Display) -> LabError {
        LabError::BadKey { place: self.find(steps), reason: reason.to_string() }
    }

    /// The line and the key of the value at the end of the steps. Steps that lead nowhere are left out.
    pub(super) fn find(&self, steps: &[Step<'_>]) -> String {
        let mut start = None;
        let mut table = Some(self.root.get_ref());
        let mut list: Option<&DeArray<'_>> = None;
        let mut key = String::new();
        for step in steps {
            let next = match *step {
                Step::Key(name) => {
                    let found =
                        table.into_iter().flatten().find(|(key, _)| **key.get_ref() == *name);
                    key = if key.is_empty() { name.into() } else { format!("{key}.{name}") };
                    found.map(|(_, value)| value)
                }
                Step::At(index) => list.and_then(|list| list.get(index)),
            };
            let Some(value) = next else { break };
            start = Some(value.span().start);
            (table, list) = (value.get_ref().as_table(), value.get_ref().as_array());
        }
        let line = start.map(|start| 1 + self.text[..start].matches('\n').count());
        let line = line.map_or_else(String::new, |line| format!("line {line}, "));
        format!("{line}key `{key}`")
    }
}

/// What the parser says of a file, which names line and key.
pub(super) fn bad_toml(error: &toml::de::Error) -> LabError {
    LabError::BadToml { reason: error.to_string().trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::Step::{At, Key};
    use super::*;

    #[test]
    fn a_value_is_found_where_it_is() {
        let text = "a = 1\nb = [\n  1,\n  2,\n]\n[[t]]\nx = 1\n[[t]]\n\nx = { y = 3 }\n[p]\nh.w = 1\n\"h.v\" = 1\n";
        let places = Places::new(text).unwrap();
        let place = |steps: &[Step<'_>]| places.bad(steps, "wrong").to_string();
        for (steps, expected) in [
            (&[Key("a")][..], "line 1, key `a`: wrong"),
            (&[Key("b"), At(1)], "line 4, key `b`: wrong"),
            (&[Key("b"), At(9)], "line 2, key `b`: wrong"),
            (&[Key("t"), At(1), Key("x"), Key("y")], "line 10, key `t.x.y`: wrong"),
            (&[Key("p"), Key("h"), Key("w")], "line 12, key `p.h.w`: wrong"),
            (&[Key("p"), Key("h.v")], "line 13, key `p.h.v`: wrong"),
            (&[Key("c")], "key `c`: wrong"),
        ] {
            assert_eq!(place(steps), expected);
        }
        assert!(Places::new("a = \n").is_err());
    }
}
