//! Places in a specification, which errors name.

use std::fmt;

/// A step from a specification to one of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The field of this name.
    Key(&'static str),
    /// An element of a list, from 0.
    At(usize),
}

/// The way to a part of a specification, as in `tiers[1].sizes[0]`.
///
/// A surface that builds specifications matches on the steps to name the part in its own terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecPath(Vec<Step>);

impl SpecPath {
    /// Return the way of these steps, the outermost first.
    pub(super) fn new(steps: &[Step]) -> Self {
        Self(steps.to_vec())
    }

    /// Return the steps, the outermost first.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Return the fields on the way, without the places in lists, as in `tiers.sizes`.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().filter_map(|step| match step {
            Step::Key(name) => Some(*name),
            Step::At(_) => None,
        })
    }
}

impl fmt::Display for SpecPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(name) if place == 0 => f.write_str(name)?,
                Step::Key(name) => write!(f, ".{name}")?,
                Step::At(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
