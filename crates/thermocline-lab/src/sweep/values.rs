//! The values of a sweep's key: one, a list or a range, as sizes or as values of a parameter.

use serde::Deserialize;
use thermocline_core::config::Given;

use crate::{LabError, TierSize};

/// Maximum number of values of a range.
const RANGE_MAX: usize = 10_000;

/// A list, a range or one value.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Values {
    List(Vec<toml::Value>),
    Range(Range),
    One(toml::Value),
}

/// The unit of a range.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
    Plain,
    Bytes,
    Pages,
    FootprintPercent,
    TimesAbove,
}

/// Fault of some values, and the index of the wrong one if it is one of a list.
pub(super) type BadValues = (Option<usize>, String);

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    from: toml::Value,
    to: toml::Value,
    step: Option<toml::Value>,
    factor: Option<f64>,
}

impl Values {
    /// Return the values, at least one, from those of a list or the numbers of a range.
    pub(super) fn typed<T>(
        &self,
        of_value: impl Fn(&toml::Value) -> Result<T, String>,
        of_number: impl Fn(f64, Unit) -> Result<T, String>,
    ) -> Result<Vec<T>, BadValues> {
        let whole = |reason: String| (None, reason);
        let values: Result<Vec<T>, BadValues> = match self {
            Self::List(values) => {
                let element =
                    |(place, value)| of_value(value).map_err(|error| (Some(place), error));
                values.iter().enumerate().map(element).collect()
            }
            Self::One(toml::Value::Table(_)) => {
                return Err(whole(
                    "a range has `from`, `to`, and either `step` or `factor`".into(),
                ));
            }
            Self::One(value) => of_value(value).map(|value| vec![value]).map_err(whole),
            Self::Range(range) => {
                let (numbers, unit) = range.numbers().map_err(whole)?;
                let numbers = numbers.into_iter().map(|number| of_number(number, unit));
                numbers.collect::<Result<_, String>>().map_err(whole)
            }
        };
        let values = values?;
        if values.is_empty() {
            return Err(whole("the list is empty: expected at least one value".into()));
        }
        Ok(values)
    }
}

impl Range {
    /// Return the numbers from the first to the last one that is not beyond `to`, and their unit.
    fn numbers(&self) -> Result<(Vec<f64>, Unit), String> {
        let [(from, unit), (to, other)] = [quantity(&self.from)?, quantity(&self.to)?];
        let step = self.step.as_ref().map(quantity).transpose()?;
        if unit != other || step.is_some_and(|(_, of_step)| of_step != unit) {
            return Err("a range is of one unit: `from`, `to` and `step` differ in theirs".into());
        }
        let next: Box<dyn Fn(usize) -> f64> = match (step, self.factor) {
            (Some((step, _)), None) if step > 0.0 => {
                Box::new(move |index| from + step * index as f64)
            }
            (None, Some(factor)) if factor > 1.0 && factor.is_finite() && from > 0.0 => {
                Box::new(move |index| from * factor.powf(index as f64))
            }
            _ => {
                return Err("a range takes either a `step` above 0, or a `factor` above 1 and a `from` above 0".into());
            }
        };
        // The last value may miss `to` by rounding.
        let limit = to + to.abs() * 1e-9;
        let values: Vec<f64> =
            (0..=RANGE_MAX).map(next).take_while(|value| *value <= limit).collect();
        match values.len() {
            0 => Err("`from` is beyond `to`".into()),
            count if count > RANGE_MAX => Err(format!("a range has at most {RANGE_MAX} values")),
            _ => Ok((values.into_iter().map(rounded).collect(), unit)),
        }
    }
}

impl Unit {
    pub(super) fn size(self, number: f64) -> Result<TierSize, String> {
        let size = match self {
            Self::Plain => return size_of(&number.into()),
            Self::Bytes => TierSize::Bytes(number),
            Self::Pages => TierSize::Pages(number),
            Self::FootprintPercent => TierSize::FootprintPercent(number),
            Self::TimesAbove => TierSize::TimesAbove(number),
        };
        // A step may lead to a part of a page.
        size.to_string().parse().map_err(|error: LabError| error.to_string())
    }

    /// Return the value of a parameter, which refuses a unit by itself.
    pub(super) fn given(self, number: f64) -> Given {
        match self {
            Self::Plain => given_of(&number.into()),
            Self::Bytes | Self::Pages | Self::FootprintPercent | Self::TimesAbove => {
                Given::Text(self.size(number).map_or_else(|error| error, |size| size.to_string()))
            }
        }
    }
}

/// Return a number and its unit.
fn quantity(value: &toml::Value) -> Result<(f64, Unit), String> {
    if let Some(number) = value.as_float().or_else(|| Some(value.as_integer()? as f64)) {
        return Ok((number, Unit::Plain));
    }
    let text = value.as_str().ok_or_else(|| format!("{value} is neither a number nor a size"))?;
    Ok(match text.parse::<TierSize>().map_err(|error| error.to_string())? {
        TierSize::Bytes(bytes) => (bytes, Unit::Bytes),
        TierSize::Pages(pages) => (pages, Unit::Pages),
        TierSize::FootprintPercent(percent) => (percent, Unit::FootprintPercent),
        TierSize::TimesAbove(times) => (times, Unit::TimesAbove),
    })
}

/// Return a value without what rounding adds in its last digits.
fn rounded(value: f64) -> f64 {
    let digits = format!("{value:.12e}");
    digits.parse().unwrap_or(value)
}

pub(super) fn size_of(value: &toml::Value) -> Result<TierSize, String> {
    word(value).parse().map_err(|error: LabError| error.to_string())
}

/// Return the value of a parameter; numbers of either type are for parameters of either type.
pub(super) fn given_of(value: &toml::Value) -> Given {
    match value {
        toml::Value::Boolean(is_on) => Given::Switch(*is_on),
        toml::Value::Float(number) => Given::Real(*number),
        toml::Value::Integer(number) => {
            u64::try_from(*number).map_or(Given::Real(*number as f64), Given::Integer)
        }
        toml::Value::String(text) => Given::Text(text.clone()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            Given::Text(value.to_string())
        }
    }
}

/// Return a value as text.
pub(super) fn word(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of a parameter, as it reads them.
    fn texts(values: &Values) -> Result<Vec<String>, String> {
        let given =
            values.typed(|value| Ok(given_of(value)), |number, unit| Ok(unit.given(number)));
        let texts = given.map(|given| given.iter().map(Given::to_string).collect());
        texts.map_err(|(_, reason)| reason)
    }

    #[test]
    fn ranges_have_both_ends() {
        for (range, expected) in [
            ("{ from = 1, to = 10, step = 3 }", &["1", "4", "7", "10"][..]),
            ("{ from = 0.1, to = 0.3, step = 0.1 }", &["0.1", "0.2", "0.3"]),
            ("{ from = '1MiB', to = '5MiB', factor = 2 }", &["1MiB", "2MiB", "4MiB"]),
            ("{ from = '5%', to = '5%', step = '1%' }", &["5%"]),
        ] {
            let value: toml::Table = format!("x = {range}").parse().unwrap();
            let values: Values = value["x"].clone().try_into().unwrap();
            assert_eq!(texts(&values).unwrap(), expected, "{range}");
        }
        for (range, expected) in [
            ("{ from = 1, to = 10 }", "`step` above 0"),
            ("{ from = 1, to = 10, step = 0 }", "`step` above 0"),
            ("{ from = 1, to = 10, factor = 1 }", "`factor` above 1"),
            ("{ from = 2, to = 1, step = 1 }", "beyond `to`"),
            ("{ from = '1p', to = '1%', step = '1p' }", "one unit"),
            ("{ from = 1, to = 1e9, step = 1 }", "at most 10000"),
            ("{ from = 1, to = 2, by = 1 }", "either `step` or `factor`"),
            ("{ from = true, to = 1, step = 1 }", "neither a number"),
            ("[]", "at least one value"),
        ] {
            let value: toml::Table = format!("x = {range}").parse().unwrap();
            let values: Values = value["x"].clone().try_into().unwrap();
            let error = texts(&values).unwrap_err();
            assert!(error.contains(expected), "{range}: {error}");
        }
    }
}
