//! The ends of a parameter's range.

use thermocline_core::config::{Kind, Parameter};

/// Return the texts of its least and greatest value, or of all its words, and all of them together.
pub(crate) fn of(parameter: &Parameter) -> Vec<String> {
    match parameter.kind {
        Kind::Integer { min, max } => vec![min.to_string(), max.to_string()],
        Kind::Real { min, max } => vec![min.to_string(), max.to_string()],
        Kind::Switch => vec!["false".into(), "true".into()],
        Kind::Choice(words) => words.iter().map(ToString::to_string).collect(),
        Kind::Words(words) => {
            [words.iter().map(ToString::to_string).collect(), vec![words.join("+")]].concat()
        }
    }
}
