//! Mapping of a trace's columns to their meanings: `time=1:us, op=2, offset=3, length=4, volume=5`.
//!
//! Built-in formats with columns are described by the same words as traces from anywhere else.

use std::fmt;
use std::str::FromStr;

use crate::error::TraceError;

/// Role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Time,
    Op,
    Volume,
    Key,
    Offset,
    Length,
    /// Added to the length.
    Extra,
    /// The last byte of a range.
    End,
    Repeat,
}

/// The names of the roles.
const ROLES: [(&str, Role); 12] = [
    ("time", Role::Time),
    ("op", Role::Op),
    ("volume", Role::Volume),
    ("key", Role::Key),
    ("offset", Role::Offset),
    ("length", Role::Length),
    ("extra", Role::Extra),
    ("end", Role::End),
    ("repeat", Role::Repeat),
    // Other words for the same.
    ("size", Role::Length),
    ("start", Role::Offset),
    ("key_size", Role::Extra),
];

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A column by its number, from 0.
    Number(usize),
    /// A column by its name in the header, the schema or an object.
    Name(String),
    /// The same text in every row.
    Constant(String),
}

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// None was given.
    Default,
    /// Unit of times: 10^n ns.
    Decimal(u32),
    /// Unit of times.
    Minutes,
    /// Unit of times: text such as `2026-11-25T01:02:03.5Z`.
    Rfc3339,
    /// Unit of times: microseconds, or nanoseconds if they are above 10^17.
    MicrosecondsOrNanoseconds,
    /// Unit of offsets and lengths, in bytes.
    Bytes(u64),
    /// Unit of offsets and lengths.
    Pages,
    /// Unit of keys: a decimal number, of which the sign is kept.
    Integer,
    /// Unit of keys: a hexadecimal number of at most 64 bits.
    Hexadecimal,
}

/// The units by name.
const UNITS: [(&str, Unit); 15] = [
    ("s", Unit::Decimal(9)),
    ("ms", Unit::Decimal(6)),
    ("us", Unit::Decimal(3)),
    ("ns", Unit::Decimal(0)),
    ("filetime", Unit::Decimal(2)),
    ("minutes", Unit::Minutes),
    ("rfc3339", Unit::Rfc3339),
    ("us-or-ns", Unit::MicrosecondsOrNanoseconds),
    ("bytes", Unit::Bytes(1)),
    ("KiB", Unit::Bytes(1 << 10)),
    ("MiB", Unit::Bytes(1 << 20)),
    ("sectors", Unit::Bytes(512)),
    ("pages", Unit::Pages),
    ("integer", Unit::Integer),
    ("hex", Unit::Hexadecimal),
];

/// One role of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) role: Role,
    pub(crate) source: Source,
    pub(crate) unit: Unit,
    /// `true` if rows may lack it.
    pub(crate) is_optional: bool,
}

/// Meaning of a word in the column of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpMeaning {
    Read,
    Write,
    Remove,
    Ignore,
    Unanswered,
}

/// The meanings by name.
const OP_MEANINGS: [(&str, OpMeaning); 5] = [
    ("read", OpMeaning::Read),
    ("write", OpMeaning::Write),
    ("remove", OpMeaning::Remove),
    ("ignore", OpMeaning::Ignore),
    ("unanswered", OpMeaning::Unanswered),
];

/// Default meanings of operations, in upper or lower case.
const USUAL_OPS: &str = "r=read,read=read,get=read,gets=read,w=write,write=write,put=write,set=write,add=write,\
    replace=write,cas=write,append=write,prepend=write,incr=write,decr=write,update=write,d=remove,\
    delete=remove,remove=remove";

/// Separator of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// One byte.
    Byte(u8),
    /// Runs of blanks and tabs.
    Blanks,
}

/// The delimiters by name.
const DELIMITERS: [(&str, Delimiter); 9] = [
    ("comma", Delimiter::Byte(b',')),
    ("tab", Delimiter::Byte(b'\t')),
    ("semicolon", Delimiter::Byte(b';')),
    ("bar", Delimiter::Byte(b'|')),
    ("blanks", Delimiter::Blanks),
    (",", Delimiter::Byte(b',')),
    (";", Delimiter::Byte(b';')),
    ("|", Delimiter::Byte(b'|')),
    ("space", Delimiter::Blanks),
];

/// Mapping of a trace's columns to their meanings: for text in columns, JSON lines, Parquet files
/// and binary records.
///
/// ```
/// use thermocline_trace::Mapping;
///
/// let mapping: Mapping = "time=1:us, op=2, offset=3, length=4:sectors, volume=5".parse()?;
/// assert_eq!(mapping.to_string(), "time=1:us, op=2, offset=3:bytes, length=4:sectors, volume=5");
/// # Ok::<(), thermocline_trace::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub(crate) assignments: Vec<Assignment>,
    /// Words and what they mean; a word that ends with `*` is the beginning of words.
    pub(crate) ops: Vec<(String, OpMeaning)>,
    /// `true` if words are compared as they are written, not in any case.
    pub(crate) is_op_exact: bool,
    pub(crate) delimiter: Option<Delimiter>,
    pub(crate) has_header: Option<bool>,
    /// The letters of binary records, as in Python's `struct`.
    pub(crate) layout: Option<String>,
    /// `true` if a read of length 0 is one of an object of unknown size.
    pub(crate) is_zero_unknown: bool,
}

impl Mapping {
    /// Return the same with what operations are, as in
    /// `GET=read,PUT=write,DELETE=remove,HEAD=ignore`. A word that ends with `*` stands for all
    /// that begin with it.
    ///
    /// # Errors
    /// If a meaning is not known.
    pub fn with_ops(mut self, text: &str) -> Result<Self, TraceError> {
        self.ops = ops(text)?;
        self.is_op_exact = true;
        Ok(self)
    }

    /// Return the same with the name of what separates columns: comma, tab, semicolon, bar, blanks.
    ///
    /// # Errors
    /// If there is no such delimiter.
    pub fn with_delimiter(mut self, name: &str) -> Result<Self, TraceError> {
        let delimiter = named(&DELIMITERS, name).ok_or_else(|| TraceError::NoSuchValue {
            option: "delimiter",
            value: name.to_owned(),
            expected: "comma, tab, semicolon, bar, blanks",
        })?;
        self.delimiter = Some(delimiter);
        Ok(self)
    }

    /// Return the same with a first line that names the columns, or without one.
    #[must_use]
    pub fn with_header(mut self, header: Header) -> Self {
        self.has_header = Some(header == Header::Present);
        self
    }

    /// Return the same for binary records of these fields, letters of Python's `struct` such as
    /// `<IQIBq`.
    ///
    /// # Errors
    /// If a letter is not known, or columns are not numbers of fields.
    pub fn with_layout(mut self, letters: &str) -> Result<Self, TraceError> {
        let layout = crate::layout::Layout::parse(letters).map_err(wrong)?;
        for assignment in &self.assignments {
            match &assignment.source {
                Source::Name(name) => {
                    return Err(wrong(format!(
                        "binary records have no names: write the number of the field in place of `{name}`"
                    )));
                }
                Source::Number(number) if *number >= layout.fields() => {
                    return Err(wrong(format!(
                        "field {} of {}: the layout `{letters}` has fewer",
                        number + 1,
                        layout.fields()
                    )));
                }
                Source::Number(_) | Source::Constant(_) => {}
            }
        }
        self.layout = Some(letters.to_owned());
        Ok(self)
    }

    /// Return the numbers, from 0, of those of some columns that are looked at, ascending.
    ///
    /// # Errors
    /// If a column is missing that rows may not lack.
    pub fn columns_used(&self, columns: &[String]) -> Result<Vec<usize>, String> {
        let mut used = vec![];
        for Assignment { source, is_optional, .. } in &self.assignments {
            match source {
                Source::Constant(_) => {}
                Source::Number(number) if *number < columns.len() => used.push(*number),
                Source::Number(number) => {
                    let known = columns.len();
                    return Err(format!("there is no column {}: there are {known}", number + 1));
                }
                Source::Name(name) => match columns.iter().position(|column| column == name) {
                    Some(number) => used.push(number),
                    None if *is_optional => {}
                    None => {
                        let known = columns.join(", ");
                        return Err(format!("unknown column `{name}`; the columns are: {known}"));
                    }
                },
            }
        }
        used.sort_unstable();
        used.dedup();
        Ok(used)
    }

    pub(crate) fn of(&self, role: Role) -> impl Iterator<Item = &Assignment> {
        self.assignments.iter().filter(move |assignment| assignment.role == role)
    }

    /// Return `true` if columns are called by names.
    pub(crate) fn has_names(&self) -> bool {
        self.assignments.iter().any(|assignment| matches!(assignment.source, Source::Name(_)))
    }

    /// Create a mapping of this crate, which is well-formed.
    pub(crate) fn built_in(columns: &str, ops: &str) -> Self {
        let mapping: Self = columns.parse().expect("built-in mappings are well-formed");
        if ops.is_empty() {
            return mapping;
        }
        mapping.with_ops(ops).expect("built-in operations are well-formed")
    }

    /// Return the same where a read of length 0 is one of unknown size.
    pub(crate) fn with_unknown_zeroes(self) -> Self {
        Self { is_zero_unknown: true, ..self }
    }

    fn check(&self) -> Result<(), String> {
        let count = |role| self.of(role).count();
        for (name, role) in &ROLES[..9] {
            if count(*role) > 1 && *role != Role::Key {
                return Err(format!("`{name}` is given twice"));
            }
        }
        let [keys, offsets, lengths] = [Role::Key, Role::Offset, Role::Length].map(count);
        if keys == 0 && offsets == 0 {
            return Err(
                "neither `key` (of objects) nor `offset` (of addresses) is given".to_owned()
            );
        }
        let unit_of = |role| self.of(role).next().map(|assignment| assignment.unit);
        let is_paged = |role| unit_of(role) == Some(Unit::Pages);
        if keys == 0 && lengths == 0 && !is_paged(Role::Offset) {
            return Err("`offset` needs a `length`, or the unit `pages`".to_owned());
        }
        if lengths > 0 && offsets > 0 && is_paged(Role::Offset) != is_paged(Role::Length) {
            return Err("`offset` and `length` are both in pages, or neither is".to_owned());
        }
        if keys > 0 && (is_paged(Role::Offset) || is_paged(Role::Length)) {
            return Err("sizes of objects are not in pages: give bytes".to_owned());
        }
        if count(Role::End) > 0 && offsets == 0 {
            return Err("`end` needs an `offset`".to_owned());
        }
        Ok(())
    }
}

/// First line of a text: it names the columns, or is a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The trace has a header row.
    Present,
    /// The first row is like all others.
    Absent,
}

impl FromStr for Mapping {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut assignments = vec![];
        for part in split(text, b',') {
            let part = part.trim();
            if !part.is_empty() {
                assign(part, &mut assignments).map_err(wrong)?;
            }
        }
        let mapping = Self {
            assignments,
            ops: ops(USUAL_OPS)?,
            is_op_exact: false,
            delimiter: None,
            has_header: None,
            layout: None,
            is_zero_unknown: false,
        };
        mapping.check().map_err(wrong)?;
        Ok(mapping)
    }
}

/// Understands `role=column:unit`.
fn assign(part: &str, assignments: &mut Vec<Assignment>) -> Result<(), String> {
    let (name, value) = part
        .split_once('=')
        .ok_or_else(|| format!("`{part}`: write what a column is for, as in time=1:us"))?;
    let names: Vec<&str> = ROLES.iter().map(|(name, _)| *name).collect();
    let role = named(&ROLES, name.trim()).ok_or_else(|| {
        format!("`{}` is not a use of a column; expected one of: {}", name.trim(), names.join(", "))
    })?;
    if let Some(constant) = value.strip_prefix('=') {
        let unit = Unit::Default;
        let source = Source::Constant(constant.trim().to_owned());
        assignments.push(Assignment { role, source, unit, is_optional: false });
        return Ok(());
    }
    let mut halves = split(value, b':');
    let (columns, unit) = match halves.len() {
        1 => (halves.remove(0), Unit::Default),
        2 => {
            let unit = unit(role, halves[1].trim())?;
            (halves.remove(0), unit)
        }
        _ => return Err(format!("`{part}`: put a name that has a colon in double quotes")),
    };
    let columns = split(columns, b'+');
    if columns.len() > 1 && role != Role::Key {
        return Err(format!("`{part}`: only a key is made of several columns"));
    }
    for column in columns {
        let column = column.trim();
        let is_optional = column.len() > 1 && column.ends_with('?');
        let column = if is_optional { &column[..column.len() - 1] } else { column };
        let source =
            match (column.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')), column) {
                (Some(quoted), _) => Source::Name(quoted.to_owned()),
                (None, "") => return Err(format!("`{part}`: the column is missing")),
                (None, digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    let number: usize =
                        digits.parse().map_err(|_| format!("no column {digits}"))?;
                    if number == 0 || number > COLUMNS_MAX {
                        return Err(format!(
                            "column {digits}: columns are numbered from 1 to {COLUMNS_MAX}"
                        ));
                    }
                    Source::Number(number - 1)
                }
                (None, name) => Source::Name(name.to_owned()),
            };
        assignments.push(Assignment { role, source, unit, is_optional });
    }
    Ok(())
}

/// The greatest number of a column.
const COLUMNS_MAX: usize = 1000;

/// Return the parts of a text between separators that are not in double quotes.
fn split(text: &str, separator: u8) -> Vec<&str> {
    let (mut parts, mut begin, mut is_quoted) = (vec![], 0, false);
    for (at, byte) in text.bytes().enumerate() {
        is_quoted ^= byte == b'"';
        if byte == separator && !is_quoted {
            parts.push(&text[begin..at]);
            begin = at + 1;
        }
    }
    parts.push(&text[begin..]);
    parts
}

fn unit(role: Role, name: &str) -> Result<Unit, String> {
    let blocks = name.strip_prefix("blocks(").and_then(|rest| rest.strip_suffix(')'));
    let unit = match blocks {
        Some(size) => size.parse().ok().filter(|&size| size > 0).map(Unit::Bytes),
        None => named(&UNITS, name),
    };
    let expected = match role {
        Role::Time => "s, ms, us, ns, minutes, filetime, rfc3339",
        Role::Key => "integer, hex",
        Role::Offset | Role::Length | Role::Extra => "bytes, KiB, MiB, sectors, blocks(N), pages",
        Role::End | Role::Op | Role::Volume | Role::Repeat => "none",
    };
    let is_fitting = match unit {
        None | Some(Unit::Default) => false,
        Some(Unit::Bytes(_) | Unit::Pages) => {
            matches!(role, Role::Offset | Role::Length | Role::Extra)
        }
        Some(Unit::Integer | Unit::Hexadecimal) => role == Role::Key,
        Some(_) => role == Role::Time,
    };
    unit.filter(|_| is_fitting)
        .ok_or_else(|| format!("unknown unit `{name}`; expected: {expected}"))
}

fn ops(text: &str) -> Result<Vec<(String, OpMeaning)>, TraceError> {
    let one = |part: &str| {
        let (word, meaning) = part.rsplit_once('=')?;
        Some((word.trim().to_owned(), named(&OP_MEANINGS, meaning.trim())?))
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            one(part).ok_or_else(|| {
                wrong(format!(
                    "operation `{part}`: write a word and read, write, remove or ignore, as in GET=read"
                ))
            })
        })
        .collect()
}

fn named<T: Copy>(rows: &[(&str, T)], name: &str) -> Option<T> {
    rows.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

fn name_of<T: PartialEq>(rows: &[(&'static str, T)], value: &T) -> &'static str {
    rows.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}

fn wrong(reason: String) -> TraceError {
    TraceError::Mapping { reason }
}

impl fmt::Display for Mapping {
    /// Write the mapping in its own notation, with the units that are assumed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous = None;
        for assignment in &self.assignments {
            let Assignment { role, source, unit, is_optional } = assignment;
            if previous == Some(*role) {
                f.write_str("+")?;
            } else {
                let comma = if previous.is_some() { ", " } else { "" };
                write!(f, "{comma}{}=", name_of(&ROLES, role))?;
            }
            previous = Some(*role);
            match source {
                Source::Number(number) => write!(f, "{}", number + 1)?,
                Source::Name(name) if is_plain(name) => f.write_str(name)?,
                Source::Name(name) => write!(f, "\"{name}\"")?,
                Source::Constant(text) => write!(f, "={text}")?,
            }
            if *is_optional {
                f.write_str("?")?;
            }
            let is_length = matches!(role, Role::Offset | Role::Length | Role::Extra);
            let name = name_of(&UNITS, unit);
            let is_constant = matches!(source, Source::Constant(_));
            match unit {
                Unit::Bytes(size) if name.is_empty() => write!(f, ":blocks({size})")?,
                Unit::Default if is_length && !is_constant => f.write_str(":bytes")?,
                Unit::Default => {}
                Unit::Decimal(_)
                | Unit::Minutes
                | Unit::Rfc3339
                | Unit::MicrosecondsOrNanoseconds
                | Unit::Bytes(_)
                | Unit::Pages
                | Unit::Integer
                | Unit::Hexadecimal => write!(f, ":{name}")?,
            }
        }
        Ok(())
    }
}

/// Return `true` if a name needs no quotes.
fn is_plain(name: &str) -> bool {
    !name.bytes().all(|byte| byte.is_ascii_digit())
        && !name.contains(['"', ',', ':', '+', '=', '?', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Mapping>().unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "time=1:us, op=2, offset=3:bytes, length=4:sectors, volume=5",
            "key=a.b+\"c d\", length=size?:KiB, time=at:rfc3339",
            "offset=1:pages",
            "key=2:hex, offset==0, length=3:blocks(4096), repeat=n",
            "key=2, extra=3:bytes, length=4:bytes, op==read",
        ] {
            let mapping: Mapping = text.parse().unwrap();
            assert_eq!(mapping.to_string(), text);
            assert_eq!(mapping.to_string().parse::<Mapping>().unwrap(), mapping);
        }
        let other: Mapping = "size=3,key=2".parse().unwrap();
        assert_eq!(other.to_string(), "length=3:bytes, key=2");
    }

    #[test]
    fn errors_say_what_would_be_right() {
        assert!(error("time=1:us").contains("neither `key`"), "{}", error("time=1:us"));
        assert!(
            error("when=1,key=2")
                .contains("`when` is not a use of a column; expected one of: time, op")
        );
        assert!(error("key=1,time=2:hours").contains("unknown unit `hours`; expected: s, ms, us"));
        assert!(error("key=1,time=2:bytes").contains("unknown unit `bytes`"));
        assert!(error("offset=1").contains("`offset` needs a `length`"));
        assert!(error("offset=1:pages,length=2").contains("both in pages"));
        assert!(error("key=0").contains("numbered from 1"));
        assert!(error("key=1,op=2,op=3").contains("`op` is given twice"));
        assert!(error("key").contains("as in time=1:us"));
        assert!(error("key=1,end=2").contains("`end` needs"));
        let mapping: Mapping = "key=3".parse().unwrap();
        let message = mapping.clone().with_layout("<IQ").unwrap_err().to_string();
        assert!(message.contains("field 3 of 2"), "{message}");
        assert!(mapping.clone().with_ops("GET=take").unwrap_err().to_string().contains("GET=take"));
        assert!(mapping.with_delimiter("comma").is_ok());
    }
}
