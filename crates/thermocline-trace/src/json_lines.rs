//! Lines of JSON: an object in each, whose values are found by dotted names.

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::{Line, TextFormat};
use crate::error::Reason;
use crate::mapping::{Mapping, Source};
use crate::meaning::{Field, Meaning, Row};
use crate::volumes::Volumes;

/// The meaning of lines of JSON.
#[derive(Debug)]
pub(crate) struct JsonLines {
    /// The names that are looked for; their places are the numbers of columns.
    names: Vec<String>,
    meaning: Result<Meaning, String>,
}

impl JsonLines {
    pub(crate) fn new(mapping: &Mapping) -> Self {
        let names: Vec<String> = mapping
            .assignments
            .iter()
            .filter_map(|assignment| match &assignment.source {
                Source::Name(name) => Some(name.clone()),
                Source::Number(_) | Source::Constant(_) => None,
            })
            .collect();
        let has_numbers =
            mapping.assignments.iter().any(|one| matches!(one.source, Source::Number(_)));
        let meaning = if has_numbers {
            Err("values of JSON have names, not numbers: write the names of the columns".to_owned())
        } else {
            Meaning::new(mapping, |name| names.iter().position(|known| known == name))
        };
        Self { names, meaning }
    }
}

impl TextFormat for JsonLines {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        let meaning = self.meaning.as_mut().map_err(|reason| reason.clone())?;
        let mut values = Values { found: vec![Value::Missing; self.names.len()] };
        let mut parser = serde_json::Deserializer::from_slice(line);
        let object = Object { names: &self.names, path: "", found: &mut values.found };
        object
            .deserialize(&mut parser)
            .and_then(|()| parser.end())
            .map_err(|error| Reason::from(format!("not an object of JSON: {error}")))?;
        meaning.line(&values, volumes)
    }
}

#[derive(Clone)]
enum Value {
    Missing,
    /// Text, or a number or word as it is written.
    Text(Vec<u8>),
    Number(i128),
}

struct Values {
    found: Vec<Value>,
}

impl Row for Values {
    fn field(&self, column: usize) -> Field<'_> {
        match self.found.get(column) {
            Some(Value::Text(text)) => Field::Text(text),
            Some(Value::Number(number)) => Field::Number(*number),
            Some(Value::Missing) | None => Field::Missing,
        }
    }
}

/// Finds values in an object, and in objects in it.
struct Object<'a> {
    names: &'a [String],
    /// The names of the objects around it, each with a dot.
    path: &'a str,
    found: &'a mut [Value],
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let here = |name: &str| name.strip_prefix(self.path) == Some(&key);
            if let Some(place) = self.names.iter().position(|name| here(name)) {
                let raw: &RawValue = map.next_value()?;
                let value = value(raw.get()).map_err(serde::de::Error::custom)?;
                for (name, found) in self.names.iter().zip(&mut *self.found) {
                    if *name == self.names[place] {
                        found.clone_from(&value);
                    }
                }
                continue;
            }
            let inner = format!("{}{key}.", self.path);
            if self.names.iter().any(|name| name.starts_with(&inner)) {
                map.next_value_seed(Object {
                    names: self.names,
                    path: &inner,
                    found: &mut *self.found,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Return a value of JSON as it is written: numbers keep all their digits.
fn value(raw: &str) -> Result<Value, String> {
    match raw.as_bytes().first() {
        Some(b'"') => {
            let mut parser = serde_json::Deserializer::from_str(raw);
            let text = String::deserialize(&mut parser).map_err(|error| error.to_string())?;
            Ok(Value::Text(text.into_bytes()))
        }
        Some(b'n') => Ok(Value::Missing),
        Some(b'{' | b'[') => Err("a column is an object or an array".to_owned()),
        _ => Ok(raw.parse().map_or_else(|_| Value::Text(raw.into()), Value::Number)),
    }
}
