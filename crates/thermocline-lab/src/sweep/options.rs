//! The keys of a sweep that are options of its hierarchy. They are those of [`HIERARCHY_OPTIONS`], so
//! the struct that a file is read as has no fields for them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::spec::{HIERARCHY_OPTIONS, HierarchyOption, HierarchySpec, OptionKind, OptionWord};

/// Contents of a table: the options, and a struct of its other keys.
pub(super) struct WithOptions<T> {
    pub(super) options: Vec<GivenOption>,
    pub(super) rest: T,
}

/// An option, and the value that it has.
pub(super) struct GivenOption {
    pub(super) key: &'static str,
    value: Value,
}

/// The value of an option, and what takes it.
enum Value {
    Word(&'static OptionWord),
    Name { name: String, set: fn(&mut HierarchySpec, String) },
    Text { text: String, set: fn(&mut HierarchySpec, &str) -> Result<(), String> },
    Count { count: u32, of: &'static str, set: fn(&mut HierarchySpec, u32) },
}

impl GivenOption {
    /// Set what the option is about.
    ///
    /// # Errors
    /// If the number is 0, or the text is malformed.
    pub(super) fn apply(&self, spec: &mut HierarchySpec) -> Result<(), String> {
        match &self.value {
            Value::Word(word) => (word.set)(spec),
            Value::Name { name, set } => set(spec, name.clone()),
            Value::Text { text, set } => set(spec, text)?,
            Value::Count { count: 0, of, .. } => return Err(format!("expected at least 1 {of}")),
            Value::Count { count, set, .. } => set(spec, *count),
        }
        Ok(())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for WithOptions<T> {
    fn deserialize<D: Deserializer<'de>>(table: D) -> Result<Self, D::Error> {
        let mut options = vec![];
        let rest = T::deserialize(Apart { inner: table, fields: &[], options: &mut options })?;
        Ok(Self { options, rest })
    }
}

/// A table, the visitor of the struct that it is read as, or its entries as this visitor sees them:
/// without the options, which are put apart.
struct Apart<'a, I> {
    inner: I,
    /// The keys of the struct.
    fields: &'static [&'static str],
    options: &'a mut Vec<GivenOption>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Apart<'_, D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(Apart { inner: visitor, fields, options: self.options })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Apart<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let Self { inner, fields, options } = self;
        inner.visit_map(Apart { inner: entries, fields, options })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Apart<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        mut seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        loop {
            let key = KeySeed { seed, fields: self.fields };
            match self.inner.next_key_seed(key)? {
                None => return Ok(None),
                Some(Key::Field(field)) => return Ok(Some(field)),
                Some(Key::Option { option, unused }) => {
                    let value = self.inner.next_value_seed(ValueSeed(option.kind))?;
                    self.options.push(GivenOption { key: option.key, value });
                    seed = unused;
                }
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

/// Reader of a key: a key that is not an option goes to the seed of the struct.
struct KeySeed<S> {
    seed: S,
    fields: &'static [&'static str],
}

/// A key that was read.
enum Key<T, S> {
    Field(T),
    Option { option: &'static HierarchyOption, unused: S },
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<S> {
    type Value = Key<S::Value, S>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        let key = String::deserialize(key)?;
        if let Some(option) = HIERARCHY_OPTIONS.iter().find(|option| option.key == key) {
            return Ok(Key::Option { option, unused: self.seed });
        }
        if !self.fields.contains(&&*key) {
            let options = HIERARCHY_OPTIONS.iter().map(|option| option.key);
            let known = one_of(self.fields.iter().copied().chain(options));
            return Err(D::Error::custom(format!("unknown field `{key}`, expected {known}")));
        }
        self.seed.deserialize(key.into_deserializer()).map(Key::Field)
    }
}

/// Reads the value of an option.
struct ValueSeed(OptionKind);

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Value, D::Error> {
        match self.0 {
            OptionKind::Words(words) => {
                let given = String::deserialize(value)?;
                let found = words.iter().find(|word| word.word == given);
                found.map(Value::Word).ok_or_else(|| {
                    let known = one_of(words.iter().map(|word| word.word));
                    D::Error::custom(format!("unknown variant `{given}`, expected {known}"))
                })
            }
            OptionKind::Name { set, .. } => {
                let name = String::deserialize(value)?;
                Ok(Value::Name { name, set })
            }
            OptionKind::Text { set, .. } => {
                let text = String::deserialize(value)?;
                Ok(Value::Text { text, set })
            }
            OptionKind::Count { of, set, .. } => {
                let count = u32::deserialize(value)?;
                Ok(Value::Count { count, of, set })
            }
        }
    }
}

/// Words as serde lists them.
fn one_of(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    match words.as_slice() {
        [one] => one.clone(),
        [one, other] => format!("{one} or {other}"),
        _ => format!("one of {}", words.join(", ")),
    }
}
