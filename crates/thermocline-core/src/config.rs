//! The typed parameters that a policy or an identifier is built from.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

pub use error::ConfigError;
pub use words::{WORDS_MAX, Words};

use crate::names::it_has;

mod error;
mod words;

/// One parameter of a policy or an identifier, as the registries list it.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, in `snake_case`.
    pub name: &'static str,
    /// Its type and range.
    pub kind: Kind,
    /// Its default.
    pub default: Value,
    /// Purpose, in one sentence.
    pub summary: &'static str,
    /// Origin of the default, such as a paper's section.
    pub source: &'static str,
    /// Rule by which it follows the size of the cache.
    pub scaling: Scaling,
}

/// Rule by which a parameter follows the size of the cache. A small cache on a sample of a workload
/// then behaves as a large one does on all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// The value never changes: a share, a period in seconds, a count of accesses to one page.
    Fixed,
    /// The value counts pages of the whole cache or accesses of the whole workload, and shrinks
    /// with them.
    Proportional,
    /// The value counts pages per period. It shrinks if a clock measures the period, which the
    /// named parameter says by not being 0: a sample has fewer accesses in the same time.
    PerPeriod(&'static str),
}

/// The type and range of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number between `min` and `max`, both included; `auto` leaves it to the policy.
    Integer {
        /// The least value.
        min: u64,
        /// The greatest value.
        max: u64,
    },
    /// A number between `min` and `max`, both included; `auto` leaves it to the policy.
    Real {
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
    },
    /// `true` or `false`.
    Switch,
    /// Declare a choice of one of these words.
    Choice(&'static [&'static str]),
    /// Declare a choice of one or more of these words, joined by `+`; at most [`WORDS_MAX`] are
    /// declared.
    Words(&'static [&'static str]),
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(u64),
    /// A number.
    Real(f64),
    /// True or false.
    Switch(bool),
    /// A word.
    Choice(&'static str),
    /// Several words.
    Words(Words),
    /// Chosen by the policy from the hierarchy.
    Auto,
}

/// A value as a caller gives it, whatever parameter it is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A whole number, at least 0.
    Integer(u64),
    /// A number.
    Real(f64),
    /// True or false.
    Switch(bool),
    /// A word, or a value of any other type as text.
    Text(String),
}

/// The values of all parameters of one policy or identifier.
#[derive(Clone, Debug)]
pub struct Values {
    entries: Vec<(Parameter, Value)>,
}

impl Parameter {
    /// Declare a whole number within `range`.
    ///
    /// # Panics
    /// If the default is not within it.
    pub const fn integer(name: &'static str, range: RangeInclusive<u64>, default: u64) -> Self {
        assert!(*range.start() <= default && default <= *range.end(), "the default is in range");
        Self { default: Value::Integer(default), ..Self::integer_or_auto(name, range) }
    }

    /// Declare a whole number within `range`, which the policy chooses by default.
    pub const fn integer_or_auto(name: &'static str, range: RangeInclusive<u64>) -> Self {
        let kind = Kind::Integer { min: *range.start(), max: *range.end() };
        Self::new(name, kind, Value::Auto)
    }

    /// Declare a number within `range`.
    ///
    /// # Panics
    /// If the default is not within it.
    pub const fn real(name: &'static str, range: RangeInclusive<f64>, default: f64) -> Self {
        assert!(*range.start() <= default && default <= *range.end(), "the default is in range");
        Self { default: Value::Real(default), ..Self::real_or_auto(name, range) }
    }

    /// Declare a number within `range`, which the policy chooses by default.
    pub const fn real_or_auto(name: &'static str, range: RangeInclusive<f64>) -> Self {
        let kind = Kind::Real { min: *range.start(), max: *range.end() };
        Self::new(name, kind, Value::Auto)
    }

    /// Declare a parameter that is `true` or `false`.
    pub const fn switch(name: &'static str, default: bool) -> Self {
        Self::new(name, Kind::Switch, Value::Switch(default))
    }

    /// Declare a choice of one of these words.
    pub const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        default: &'static str,
    ) -> Self {
        Self::new(name, Kind::Choice(words), Value::Choice(default))
    }

    /// Declare a choice of one or more of these words, joined by `+`; by default those of a mask.
    ///
    /// # Panics
    /// As for [`Words::new`].
    pub const fn words(name: &'static str, words: &'static [&'static str], default: u32) -> Self {
        Self::new(name, Kind::Words(words), Value::Words(Words::new(words, default)))
    }

    const fn new(name: &'static str, kind: Kind, default: Value) -> Self {
        Self { name, kind, default, summary: "", source: "", scaling: Scaling::Fixed }
    }

    /// Return the same parameter with its meaning, in one sentence.
    #[must_use]
    pub const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// Return the same parameter with the place that its default comes from.
    #[must_use]
    pub const fn source(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    /// Return the same parameter with the way in which it follows the size of the cache.
    #[must_use]
    pub const fn scaling(mut self, scaling: Scaling) -> Self {
        self.scaling = scaling;
        self
    }

    /// Return the value for a cache that is smaller by `rate`, on a sample of that rate. Whole numbers
    /// are rounded and stay in range; 0, which switches something off in most parameters, stays 0.
    fn scaled(&self, value: Value, rate: f64) -> Value {
        match (value, self.kind) {
            (Value::Integer(0), _) => value,
            (Value::Integer(whole), Kind::Integer { min, max }) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the cast saturates, and the number is not negative"
                )]
                let scaled = libm::round(whole as f64 * rate) as u64;
                Value::Integer(scaled.max(1).clamp(min, max))
            }
            (Value::Real(whole), Kind::Real { min, max }) => {
                Value::Real((whole * rate).clamp(min, max))
            }
            _ => value,
        }
    }

    /// Parse a value of this parameter.
    ///
    /// # Errors
    /// [`ConfigError::BadValue`] if the text does not have the parameter's type or is out of range.
    pub fn parse(&self, text: &str) -> Result<Value, ConfigError> {
        let value = match self.kind {
            _ if text == "auto" && self.default == Value::Auto => Some(Value::Auto),
            Kind::Integer { min, max } => {
                text.parse().ok().filter(|value| (min..=max).contains(value)).map(Value::Integer)
            }
            Kind::Real { min, max } => {
                text.parse().ok().filter(|value| (min..=max).contains(value)).map(Value::Real)
            }
            Kind::Switch => text.parse().ok().map(Value::Switch),
            Kind::Choice(words) => {
                words.iter().find(|&&word| word == text).map(|&word| Value::Choice(word))
            }
            Kind::Words(words) => Words::parse(words, text).map(Value::Words),
        };
        value.ok_or_else(|| ConfigError::BadValue {
            name: self.name.to_owned(),
            text: text.to_owned(),
            expected: self.range(),
        })
    }

    /// Give a value the type of this parameter.
    ///
    /// # Errors
    /// [`ConfigError::BadValue`] if the value has another type or is out of range.
    pub fn accept(&self, given: &Given) -> Result<Value, ConfigError> {
        match given {
            Given::Text(text) => self.parse(text),
            Given::Integer(_) | Given::Real(_) | Given::Switch(_) => self.parse(&given.to_string()),
        }
    }

    /// Return its type and range in words.
    pub fn range(&self) -> String {
        let auto = if self.default == Value::Auto { ", or auto" } else { "" };
        format!("{}{auto}", self.kind)
    }
}

impl Values {
    /// Return the defaults, with those given by name and text put in their place; the last one
    /// counts.
    ///
    /// # Errors
    /// If a name is unknown, or a text is invalid for its parameter.
    pub fn resolve(
        owner: &str,
        parameters: &[Parameter],
        given: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        let mut values = Self::defaults(parameters);
        for (name, text) in given {
            values.set(owner, name, &Given::Text(text.clone()))?;
        }
        Ok(values)
    }

    /// Return the defaults of all parameters.
    pub fn defaults(parameters: &[Parameter]) -> Self {
        let entries = parameters.iter().map(|parameter| (*parameter, parameter.default)).collect();
        Self { entries }
    }

    /// Replace the value of a parameter; `owner` is the policy or identifier, for the error.
    ///
    /// # Errors
    /// If a name is unknown, or a value is invalid for its parameter.
    pub fn set(&mut self, owner: &str, name: &str, given: &Given) -> Result<(), ConfigError> {
        let found = self.entries.iter_mut().find(|(parameter, _)| parameter.name == name);
        let Some((parameter, value)) = found else {
            let known = match &*self.entries {
                [] => String::new(),
                entries => it_has(name, entries.iter().map(|(known, _)| known.name)),
            };
            return Err(ConfigError::UnknownParameter {
                owner: owner.to_owned(),
                name: name.to_owned(),
                known,
            });
        };
        *value = parameter.accept(given)?;
        Ok(())
    }

    /// Return the values for a cache that is smaller by `rate`, on a sample of that rate: those
    /// parameters are scaled that say so ([`Scaling`]).
    ///
    /// * Source: none; what miniature simulation (Waldspurger et al., USENIX ATC 2017) leaves open.
    #[must_use]
    pub fn scaled(&self, rate: f64) -> Self {
        let scaled = |&(parameter, value): &(Parameter, Value)| {
            let is_scaled = match parameter.scaling {
                Scaling::Fixed => false,
                Scaling::Proportional => true,
                Scaling::PerPeriod(period) => self.integer(period) != 0,
            };
            (parameter, if is_scaled { parameter.scaled(value, rate) } else { value })
        };
        Self { entries: self.entries.iter().map(scaled).collect() }
    }

    /// Copy the value of every parameter that `others` have too.
    #[must_use]
    pub fn with_those_of(mut self, others: &Self) -> Self {
        for (parameter, value) in &mut self.entries {
            let other = others.iter().find(|(name, _)| *name == parameter.name);
            *value = other.map_or(*value, |(_, value)| value);
        }
        self
    }

    /// Return all parameters with their values, in the registry's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.entries.iter().map(|(parameter, value)| (parameter.name, *value))
    }

    /// Return the value of a parameter that the policy declares as an integer.
    ///
    /// # Panics
    /// If the policy does not declare it.
    pub fn integer(&self, name: &str) -> u64 {
        let Value::Integer(value) = self.value(name) else {
            panic!("parameter `{name}` is not declared as an integer")
        };
        value
    }

    /// Return the value of an integer parameter whose range lies within `u32`.
    ///
    /// # Panics
    /// If the policy does not declare it, or with a greater range.
    pub fn integer_u32(&self, name: &str) -> u32 {
        u32::try_from(self.integer(name)).expect("the declared range lies within u32")
    }

    /// Return the value of an integer parameter whose range lies within `u32`; `None` if it is
    /// `auto`.
    ///
    /// # Panics
    /// If it is not declared, or with a greater range.
    pub fn integer_u32_or_auto(&self, name: &str) -> Option<u32> {
        (self.value(name) != Value::Auto).then(|| self.integer_u32(name))
    }

    /// Return the value of an integer parameter; `None` if it is `auto`.
    ///
    /// # Panics
    /// If it is not declared.
    pub fn integer_or_auto(&self, name: &str) -> Option<u64> {
        (self.value(name) != Value::Auto).then(|| self.integer(name))
    }

    /// Return the value of a parameter that the policy declares as a number; `None` if it is
    /// `auto`.
    ///
    /// # Panics
    /// If the policy does not declare it.
    pub fn real_or_auto(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Value::Real(value) => Some(value),
            Value::Auto => None,
            Value::Integer(_) | Value::Switch(_) | Value::Choice(_) | Value::Words(_) => {
                panic!("parameter `{name}` is not declared as a number")
            }
        }
    }

    /// Return the value of a parameter that the policy declares as a number.
    ///
    /// # Panics
    /// If the policy does not declare it, or lets it be `auto`.
    pub fn real(&self, name: &str) -> f64 {
        self.real_or_auto(name).expect("a number without `auto` always has a value")
    }

    /// Return the value of a parameter that the policy declares as a switch.
    ///
    /// # Panics
    /// If the policy does not declare it.
    pub fn switch(&self, name: &str) -> bool {
        let Value::Switch(value) = self.value(name) else {
            panic!("parameter `{name}` is not declared as a switch")
        };
        value
    }

    /// Return the value of a parameter that is declared as a choice of words.
    ///
    /// # Panics
    /// If it is not declared.
    pub fn choice(&self, name: &str) -> &'static str {
        let Value::Choice(value) = self.value(name) else {
            panic!("parameter `{name}` is not declared as a choice")
        };
        value
    }

    /// Return the value of a parameter that is declared as several words.
    ///
    /// # Panics
    /// If it is not declared.
    pub fn words(&self, name: &str) -> Words {
        let Value::Words(words) = self.value(name) else {
            panic!("parameter `{name}` is not declared as several words")
        };
        words
    }

    fn value(&self, name: &str) -> Value {
        self.iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("parameter `{name}` is not declared in the registry"))
            .1
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Integer { min, max: u64::MAX } => write!(f, "a whole number from {min}"),
            Self::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Real { min, max } if min <= f64::MIN && max >= f64::MAX => {
                f.write_str("a number")
            }
            Self::Real { min: f64::MIN_POSITIVE, max } => {
                write!(f, "a number above 0, up to {max}")
            }
            Self::Real { min, max: f64::MAX } => write!(f, "a number from {min}"),
            Self::Real { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Switch => f.write_str("true or false"),
            Self::Choice(words) => f.write_str(&words.join(" or ")),
            Self::Words(words) => write!(f, "one or more, joined by +, of {}", words.join(", ")),
        }
    }
}

impl From<&str> for Given {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value}"),
            Self::Switch(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value}"),
            Self::Switch(value) => write!(f, "{value}"),
            Self::Choice(word) => f.write_str(word),
            Self::Words(words) => write!(f, "{words}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the scaled parameters of a feed, which takes a number of pages in each period.
    fn scaled(period: u64) -> [u64; 2] {
        let pages = Parameter::integer("pages", 1..=100, 50);
        let parameters =
            [Parameter::integer("period", 0..=9, 1), pages.scaling(Scaling::PerPeriod("period"))];
        let mut values = Values::defaults(&parameters);
        values.set("a", "period", &Given::Integer(period)).expect("it is in range");
        let scaled = values.scaled(0.1);
        [scaled.integer("period"), scaled.integer("pages")]
    }

    #[test]
    fn what_counts_per_period_shrinks_if_the_period_is_one_of_the_clock() {
        assert_eq!(scaled(2), [2, 5]);
        assert_eq!(scaled(0), [0, 50]);
    }
}
