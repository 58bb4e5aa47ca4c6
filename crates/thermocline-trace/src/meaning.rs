//! Conversion of a row's columns to a request, for every kind of row.

use thermocline_core::{Nanos, Op};

use crate::decode::{Line, Skip};
use crate::error::{Reason, excerpt};
use crate::keys::{Hash, Keys};
use crate::mapping::{Assignment, Mapping, OpMeaning, Role, Source, Unit};
use crate::request::Request;
use crate::text::{self, ONLY_VOLUME};
use crate::volumes::Volumes;

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    /// The row has none.
    Missing,
    Text(&'a [u8]),
    Number(i128),
    /// Times only.
    Float(f64),
    /// A time in nanoseconds.
    Nanos(i128),
}

/// A row whose columns can be asked for.
pub(crate) trait Row {
    /// Return the value in a column, numbered from 0.
    fn field(&self, column: usize) -> Field<'_>;
}

/// Location of a value once columns have numbers.
#[derive(Clone, Debug)]
enum Place {
    Column(usize),
    Constant(Box<[u8]>),
}

/// A value of which numbers are made.
#[derive(Clone, Debug)]
struct Slot {
    place: Place,
    unit: Unit,
    is_optional: bool,
}

/// A mapping whose columns have numbers.
#[derive(Debug)]
pub(crate) struct Meaning {
    time: Option<Slot>,
    op: Option<Slot>,
    volume: Option<Slot>,
    keys: Vec<Slot>,
    offset: Option<Slot>,
    length: Option<Slot>,
    extra: Option<Slot>,
    end: Option<Slot>,
    repeat: Option<Slot>,
    ops: Ops,
    is_zero_unknown: bool,
    known_keys: Keys,
}

/// Meanings of operations.
#[derive(Debug)]
struct Ops {
    words: Vec<(Box<[u8]>, OpMeaning)>,
    /// Words that end with `*`, without it.
    beginnings: Vec<(Box<[u8]>, OpMeaning)>,
    is_exact: bool,
    /// Meanings by number, for words that are numbers below 256.
    numbers: Vec<Option<OpMeaning>>,
}

/// Meaning of a row besides its bytes.
enum What {
    Request(Op),
    Other(Line),
}

impl Meaning {
    /// Create a mapping in which `number_of` gives the numbers of named columns; none for those
    /// that are not there.
    ///
    /// # Errors
    /// If a column does not exist; the error is its name.
    pub(crate) fn new(
        mapping: &Mapping,
        number_of: impl Fn(&str) -> Option<usize>,
    ) -> Result<Self, String> {
        let slot = |assignment: &Assignment| -> Result<Option<Slot>, String> {
            let Assignment { source, unit, is_optional, .. } = assignment;
            let place = match source {
                Source::Number(number) => Place::Column(*number),
                Source::Constant(text) => Place::Constant(text.as_bytes().into()),
                Source::Name(name) => match number_of(name) {
                    Some(number) => Place::Column(number),
                    None if *is_optional => return Ok(None),
                    None => return Err(name.clone()),
                },
            };
            Ok(Some(Slot { place, unit: *unit, is_optional: *is_optional }))
        };
        let first = |role| mapping.of(role).next().map_or(Ok(None), slot);
        let keys: Result<Vec<Option<Slot>>, String> = mapping.of(Role::Key).map(slot).collect();
        Ok(Self {
            time: first(Role::Time)?,
            op: first(Role::Op)?,
            volume: first(Role::Volume)?,
            keys: keys?.into_iter().flatten().collect(),
            offset: first(Role::Offset)?,
            length: first(Role::Length)?,
            extra: first(Role::Extra)?,
            end: first(Role::End)?,
            repeat: first(Role::Repeat)?,
            ops: Ops::new(mapping),
            is_zero_unknown: mapping.is_zero_unknown,
            known_keys: Keys::default(),
        })
    }

    /// Return the number of columns a row must be cut into.
    pub(crate) fn columns(&self) -> usize {
        let slots = [
            &self.time,
            &self.op,
            &self.volume,
            &self.offset,
            &self.length,
            &self.extra,
            &self.end,
            &self.repeat,
        ];
        let slots = slots.into_iter().flatten().chain(&self.keys);
        let column = |slot: &Slot| match slot.place {
            Place::Column(column) => column + 1,
            Place::Constant(_) => 0,
        };
        slots.map(column).max().unwrap_or(0)
    }

    /// Interpret a row.
    #[inline]
    pub(crate) fn line(&mut self, row: &impl Row, volumes: &mut Volumes) -> Result<Line, Reason> {
        let op = match self.what(row)? {
            What::Request(op) => op,
            What::Other(line) => return Ok(line),
        };
        let at = match &self.time {
            None => Nanos(0),
            Some(slot) => Nanos(time(slot.of(row), slot)?),
        };
        let volume = match &self.volume {
            None => volumes.number(ONLY_VOLUME),
            Some(slot) => volume(slot.of(row), volumes)?,
        };
        let extent = if self.keys.is_empty() { self.address(row)? } else { self.object(row, op)? };
        let Some(extent) = extent else { return Ok(Line::Skipped(Skip::UnknownSize)) };
        let request = Request { at, op, volume, extent };
        match &self.repeat {
            None => Ok(Line::Request(request)),
            Some(slot) => match slot.number(row, "repeat count")? {
                None | Some(1) => Ok(Line::Request(request)),
                Some(times) => Ok(Line::Repeated { request, times, apart_ns: 0 }),
            },
        }
    }

    #[inline]
    fn what(&self, row: &impl Row) -> Result<What, Reason> {
        let Some(slot) = &self.op else { return Ok(What::Request(Op::Read)) };
        Ok(match self.ops.meaning(slot.of(row))? {
            OpMeaning::Read => What::Request(Op::Read),
            OpMeaning::Write => What::Request(Op::Write),
            OpMeaning::Remove => What::Other(Line::Skipped(Skip::Removal)),
            OpMeaning::Ignore => What::Other(Line::OtherEvent),
            OpMeaning::Unanswered => What::Other(Line::Skipped(Skip::Unanswered)),
        })
    }

    /// Return the extent in an address space.
    #[inline]
    fn address(&self, row: &impl Row) -> Result<Option<crate::Extent>, Reason> {
        let slot = self.offset.as_ref().expect("a mapping has a key or an offset");
        let offset = slot.number(row, "offset")?.ok_or("the offset is missing")?;
        if slot.unit == Unit::Pages {
            let count = match &self.length {
                None => 1,
                Some(slot) => slot.number(row, "length")?.ok_or("the length is missing")?,
            };
            return text::pages(offset, count).map(Some);
        }
        let Some(length) = self.length(row, Some(offset))? else { return Ok(None) };
        text::bytes(offset, length).map(Some)
    }

    /// Return the extent of an object.
    #[inline]
    fn object(&mut self, row: &impl Row, op: Op) -> Result<Option<crate::Extent>, Reason> {
        let id = self.key(row)?;
        if self.length.is_none() && self.end.is_none() {
            return text::page_of_object(id).map(Some);
        }
        let offset = match &self.offset {
            None => None,
            Some(slot) => slot.number(row, "offset")?,
        };
        match self.length(row, offset)? {
            None => Ok(None),
            Some(0) if self.is_zero_unknown && op == Op::Read => Ok(None),
            Some(length) => {
                let extra = match &self.extra {
                    None => 0,
                    Some(slot) => slot.number(row, "size of the key")?.unwrap_or(0),
                };
                let length = length.checked_add(extra).ok_or("the length is too large")?;
                text::object(id, offset.unwrap_or(0), length).map(Some)
            }
        }
    }

    /// Return the number of bytes from an offset on; `None` if it is not known.
    #[inline]
    fn length(&self, row: &impl Row, offset: Option<u64>) -> Result<Option<u64>, Reason> {
        let length = match &self.length {
            None => None,
            Some(slot) => match slot.number(row, "length")? {
                None => return Ok(None),
                length => length,
            },
        };
        let Some(slot) = &self.end else { return Ok(length) };
        let (Some(offset), Some(end)) = (offset, slot.number(row, "end")?) else {
            return Ok(length);
        };
        // The length is that of the whole object.
        let end = length.map_or(end, |length| end.min(length.saturating_sub(1)));
        let part = end.checked_sub(offset).and_then(|last| last.checked_add(1));
        part.map(Some).ok_or_else(|| "the range ends before it begins".into())
    }

    #[inline]
    fn key(&mut self, row: &impl Row) -> Result<u64, Reason> {
        if let [slot] = &self.keys[..] {
            match (slot.of(row), slot.unit) {
                (Field::Missing | Field::Text(b""), _) => return Err("the key is missing".into()),
                (Field::Number(number), _) => return bits(number),
                (Field::Float(_) | Field::Nanos(_), _) => {
                    return Err("the key is neither text nor a whole number".into());
                }
                (Field::Text(text), Unit::Integer) => return signed(text),
                (Field::Text(text), Unit::Hexadecimal) => return hexadecimal(text),
                (Field::Text(_), _) => {}
            }
        }
        let mut hash = Hash::new();
        for slot in &self.keys {
            match slot.of(row) {
                Field::Text(text) => hash.add(text),
                Field::Number(number) => hash.add(&number.to_le_bytes()),
                Field::Missing if slot.is_optional => hash.add(b""),
                Field::Missing | Field::Float(_) | Field::Nanos(_) => {
                    return Err(
                        "a part of the key is missing, or neither text nor a whole number".into()
                    );
                }
            }
        }
        let keys = &self.keys;
        self.known_keys.id(hash, || match keys.first().map(|slot| slot.of(row)) {
            Some(Field::Text(text)) => text.to_vec(),
            _ => vec![],
        })
    }
}

impl Slot {
    #[inline]
    fn of<'a>(&'a self, row: &'a impl Row) -> Field<'a> {
        match &self.place {
            Place::Column(column) => row.field(*column),
            Place::Constant(text) => Field::Text(text),
        }
    }

    /// Return a number in bytes, pages or times; `None` if the row lacks it and may. A range that
    /// is
    /// -1 is none.
    #[inline]
    fn number(&self, row: &impl Row, what: &'static str) -> Result<Option<u64>, Reason> {
        let number = match self.of(row) {
            Field::Missing | Field::Number(-1) if self.is_optional => return Ok(None),
            Field::Missing => return Err(missing(what)),
            Field::Text(text) => match trimmed(text) {
                b"" | b"-1" if self.is_optional => return Ok(None),
                text => text::integer(text, what)?,
            },
            Field::Number(number) => u64::try_from(number)
                .map_err(|_| Reason::from(format!("the {what} is {number}")))?,
            Field::Float(_) | Field::Nanos(_) => {
                return Err(format!("the {what} is not a whole number").into());
            }
        };
        let Unit::Bytes(size) = self.unit else { return Ok(Some(number)) };
        number.checked_mul(size).map(Some).ok_or_else(|| format!("the {what} is too large").into())
    }
}

impl Ops {
    fn new(mapping: &Mapping) -> Self {
        let is_beginning = |(word, _): &&(String, OpMeaning)| word.ends_with('*');
        let boxed = |(word, meaning): &(String, OpMeaning)| {
            (word.trim_end_matches('*').as_bytes().into(), *meaning)
        };
        let mut numbers = vec![None; 256];
        for (word, meaning) in &mapping.ops {
            if let Some(number) = word.parse().ok().and_then(|at: usize| numbers.get_mut(at)) {
                *number = Some(*meaning);
            }
        }
        Self {
            words: mapping.ops.iter().filter(|row| !is_beginning(row)).map(boxed).collect(),
            beginnings: mapping.ops.iter().filter(is_beginning).map(boxed).collect(),
            is_exact: mapping.is_op_exact,
            numbers,
        }
    }

    #[inline]
    fn meaning(&self, field: Field<'_>) -> Result<OpMeaning, Reason> {
        match field {
            Field::Missing => Ok(OpMeaning::Read),
            Field::Text(text) => {
                let text = trimmed(text);
                let is = |word: &[u8]| {
                    if self.is_exact { word == text } else { word.eq_ignore_ascii_case(text) }
                };
                match self.words.iter().find(|(word, _)| is(word)) {
                    Some((_, meaning)) => Ok(*meaning),
                    None => self.by_beginning(text),
                }
            }
            Field::Number(number) => {
                let known = usize::try_from(number).ok().and_then(|at| *self.numbers.get(at)?);
                known.ok_or_else(|| self.unknown(number.to_string().as_bytes()))
            }
            Field::Float(_) | Field::Nanos(_) => {
                Err("the op is neither text nor a whole number".into())
            }
        }
    }

    #[cold]
    fn by_beginning(&self, text: &[u8]) -> Result<OpMeaning, Reason> {
        let found = self.beginnings.iter().find(|(beginning, _)| text.starts_with(beginning));
        found.map(|(_, meaning)| *meaning).ok_or_else(|| self.unknown(text))
    }

    #[cold]
    fn unknown(&self, text: &[u8]) -> Reason {
        let words: Vec<_> =
            self.words.iter().take(8).map(|(word, _)| String::from_utf8_lossy(word)).collect();
        format!("the op {} is none of {}", excerpt(text), words.join(", ")).into()
    }
}

#[inline]
fn time(field: Field<'_>, slot: &Slot) -> Result<u64, Reason> {
    match (field, slot.unit) {
        (Field::Missing, _) if slot.is_optional => Ok(0),
        (Field::Missing, _) => Err(missing("time")),
        (Field::Nanos(ns), _) => {
            u64::try_from(ns).map_err(|_| "the time is before 1970, or too large".into())
        }
        (Field::Text(text), Unit::Decimal(exponent)) => text::time(trimmed(text), "time", exponent),
        (Field::Text(text), Unit::Minutes) => {
            let ns = text::time(trimmed(text), "time", 9)?;
            ns.checked_mul(60).ok_or_else(|| "the time is too large".into())
        }
        (Field::Text(text), Unit::Rfc3339) => text::rfc3339(trimmed(text)),
        (Field::Text(text), Unit::MicrosecondsOrNanoseconds) => {
            let number = text::integer(trimmed(text), "time")?;
            Ok(if number > 100_000_000_000_000_000 { number } else { number.saturating_mul(1000) })
        }
        (Field::Number(number), Unit::Decimal(exponent)) => {
            scaled_time(number, 10_i128.pow(exponent))
        }
        (Field::Number(number), Unit::Minutes) => scaled_time(number, 60_000_000_000),
        (Field::Float(time), Unit::Decimal(exponent)) => {
            let ns = time * 10_f64.powi(exponent.cast_signed());
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be a time"
            )]
            let found = (0.0..=u64::MAX as f64).contains(&ns).then_some(ns as u64);
            found.ok_or_else(|| "the time is negative, or too large".into())
        }
        (_, Unit::Default) => {
            Err("the unit of times is not given: write it, as in time=1:us".into())
        }
        _ => Err("the time has not the form of its unit".into()),
    }
}

fn scaled_time(number: i128, unit_ns: i128) -> Result<u64, Reason> {
    let ns = number.checked_mul(unit_ns).and_then(|ns| u64::try_from(ns).ok());
    ns.ok_or_else(|| "the time is negative, or too large".into())
}

#[inline]
fn volume(field: Field<'_>, volumes: &mut Volumes) -> Result<u32, Reason> {
    match field {
        Field::Text(text) => Ok(volumes.number(text)),
        Field::Number(number) => {
            let mut digits = [0; 40];
            Ok(volumes.number(decimal(number, &mut digits)))
        }
        Field::Missing => Ok(volumes.number(b"")),
        Field::Float(_) | Field::Nanos(_) => {
            Err("the volume is neither text nor a whole number".into())
        }
    }
}

/// Return the digits of a number, in the buffer.
fn decimal(number: i128, buffer: &mut [u8; 40]) -> &[u8] {
    let mut rest = number.unsigned_abs();
    let mut begin = buffer.len();
    loop {
        begin -= 1;
        buffer[begin] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        begin -= 1;
        buffer[begin] = b'-';
    }
    &buffer[begin..]
}

/// Return the bits of a number of 64 bits, signed or not.
fn bits(number: i128) -> Result<u64, Reason> {
    let unsigned = u64::try_from(number).ok();
    let signed = || i64::try_from(number).ok().map(i64::cast_unsigned);
    unsigned.or_else(signed).ok_or_else(|| "the key has more than 64 bits".into())
}

fn signed(text: &[u8]) -> Result<u64, Reason> {
    let text = trimmed(text);
    let Some(digits) = text.strip_prefix(b"-") else { return text::integer(text, "key") };
    let number = i128::from(text::integer(digits, "key")?);
    bits(-number)
}

fn hexadecimal(text: &[u8]) -> Result<u64, Reason> {
    let text = trimmed(text);
    let mut id = 0_u64;
    for &byte in text {
        let digit = char::from(byte).to_digit(16).ok_or("the key is not hexadecimal")?;
        id = id << 4 | u64::from(digit);
    }
    if text.is_empty() || text.len() > 16 {
        return Err("the key has not from 1 to 16 hexadecimal digits".into());
    }
    Ok(id)
}

/// Trim the blanks around a text, of which there mostly are none.
#[inline]
fn trimmed(text: &[u8]) -> &[u8] {
    match text {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => text.trim_ascii(),
        _ => text,
    }
}

#[cold]
fn missing(what: &str) -> Reason {
    format!("the {what} is missing").into()
}
