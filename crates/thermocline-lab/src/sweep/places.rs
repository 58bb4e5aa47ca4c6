//! Places of keys in TOML, so that an error can name the line of a wrong value; or the place in a
//! mapping, if the TOML was made of one and nobody has seen its lines.

use std::fmt::Display;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::LabError;

/// Origin of a sweep's text, which decides how errors name a place in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file, or what somebody wrote like one: the line, and the key.
    File,
    /// A mapping that was turned into TOML: the key, with numbers of elements from 0.
    Mapping,
}

/// A text, and its values with their places.
pub(crate) struct Places<'a> {
    text: &'a str,
    origin: Origin,
    root: Spanned<DeTable<'a>>,
}

/// A step from a value to one inside it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    /// The value of a key.
    Key(&'a str),
    /// An element of a list.
    At(usize),
}

impl<'a> Places<'a> {
    /// Parse a text in TOML.
    pub(crate) fn new(text: &'a str, origin: Origin) -> Result<Self, LabError> {
        let root = DeTable::parse(text)
            .map_err(|error| LabError::BadToml { reason: error.to_string().trim_end().into() })?;
        Ok(Self { text, origin, root })
    }

    /// Create the error of the parser's message about the values, with line and key.
    pub(crate) fn misread(&self, error: &toml::de::Error) -> LabError {
        if self.origin == Origin::File {
            return LabError::BadToml { reason: error.to_string().trim_end().into() };
        }
        let mut nearest = None;
        // A key that is missing outside of all tables has no place.
        if let Some(misread) = error.span().filter(|misread| !misread.is_empty()) {
            nearest_in_table(self.root.get_ref(), &[], &misread, &mut nearest);
        }
        let reason = error.message().to_owned();
        match nearest {
            Some((_, steps)) => self.bad(&steps, reason),
            None => LabError::BadToml { reason },
        }
    }

    /// Create the error of the value at the end of the steps.
    pub(crate) fn bad(&self, steps: &[Step<'_>], reason: impl Display) -> LabError {
        LabError::BadKey { place: self.find(steps), reason: reason.to_string() }
    }

    /// Return the line, from 1, on which the value at the end of the steps begins; `None` if there
    /// is none.
    pub(crate) fn line(&self, steps: &[Step<'_>]) -> Option<usize> {
        let mut found: Option<&Spanned<DeValue<'_>>> = None;
        for step in steps {
            let inside = found.map(Spanned::get_ref);
            found = Some(match *step {
                Step::Key(name) => {
                    let table = inside.map_or(Some(self.root.get_ref()), DeValue::as_table)?;
                    table.iter().find(|(key, _)| **key.get_ref() == *name)?.1
                }
                Step::At(index) => inside.and_then(DeValue::as_array)?.get(index)?,
            });
        }
        Some(1 + self.text[..found?.span().start].matches('\n').count())
    }

    /// Return the line and the key of the value at the end of the steps. Steps that lead nowhere
    /// are left out.
    pub(crate) fn find(&self, steps: &[Step<'_>]) -> String {
        let mut found: Option<&Spanned<DeValue<'_>>> = None;
        let mut key = String::new();
        for step in steps {
            let inside = found.map(Spanned::get_ref);
            let next = match *step {
                Step::Key(name) => {
                    let table = inside.map_or(Some(self.root.get_ref()), DeValue::as_table);
                    let next =
                        table.into_iter().flatten().find(|(key, _)| **key.get_ref() == *name);
                    key = if key.is_empty() { name.into() } else { format!("{key}.{name}") };
                    next.map(|(_, value)| value)
                }
                Step::At(index) => {
                    let next = inside.and_then(DeValue::as_array).and_then(|list| list.get(index));
                    if next.is_some() && self.origin == Origin::Mapping {
                        key = format!("{key}[{index}]");
                    }
                    next
                }
            };
            let Some(value) = next else { break };
            found = Some(value);
        }
        let start = found.map(|value| value.span().start);
        let start = start.filter(|_| self.origin == Origin::File);
        let line = start.map(|start| 1 + self.text[..start].matches('\n').count());
        let line = line.map_or_else(String::new, |line| format!("line {line}, "));
        format!("{line}key `{key}`")
    }
}

/// The shortest piece of the text around a place so far, and the steps to it.
type Nearest<'a> = Option<(usize, Vec<Step<'a>>)>;

/// Looks for the key or value of a table that is around what is misread.
fn nearest_in_table<'a>(
    table: &'a DeTable<'_>,
    steps: &[Step<'a>],
    misread: &Range<usize>,
    nearest: &mut Nearest<'a>,
) {
    for (key, value) in table {
        let steps = [steps, &[Step::Key(key.get_ref())]].concat();
        take_nearer(key.span(), &steps, misread, nearest);
        nearest_in_value(value, &steps, misread, nearest);
    }
}

fn nearest_in_value<'a>(
    value: &'a Spanned<DeValue<'_>>,
    steps: &[Step<'a>],
    misread: &Range<usize>,
    nearest: &mut Nearest<'a>,
) {
    take_nearer(value.span(), steps, misread, nearest);
    if let Some(table) = value.get_ref().as_table() {
        nearest_in_table(table, steps, misread, nearest);
    }
    for (index, value) in value.get_ref().as_array().into_iter().flatten().enumerate() {
        nearest_in_value(value, &[steps, &[Step::At(index)]].concat(), misread, nearest);
    }
}

fn take_nearer<'a>(
    span: Range<usize>,
    steps: &[Step<'a>],
    misread: &Range<usize>,
    nearest: &mut Nearest<'a>,
) {
    let is_nearer = nearest.as_ref().is_none_or(|(length, _)| span.len() <= *length);
    let is_around = span.start <= misread.start && misread.end <= span.end;
    if is_around && is_nearer {
        *nearest = Some((span.len(), steps.to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{At, Key};
    use super::*;

    #[test]
    fn a_value_is_found_where_it_is() {
        let text = "a = 1\nb = [\n  1,\n  2,\n]\n[[t]]\nx = 1\n[[t]]\n\nx = { y = 3 }\n[p]\nh.w = 1\n\"h.v\" = 1\n";
        let places = Places::new(text, Origin::File).unwrap();
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
        assert!(Places::new("a = \n", Origin::File).is_err());
        let places = Places::new(text, Origin::Mapping).unwrap();
        for (steps, expected) in [
            (&[Key("b"), At(1)][..], "key `b[1]`"),
            (&[Key("b"), At(9)], "key `b`"),
            (&[Key("t"), At(1), Key("x"), Key("y")], "key `t[1].x.y`"),
        ] {
            assert_eq!(places.find(steps), expected);
        }
    }
}
