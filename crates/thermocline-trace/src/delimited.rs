//! Lines whose columns are separated by a byte or by blanks.

use std::ops::RangeInclusive;

use crate::decode::{Line, TextFormat};
use crate::error::{Reason, excerpt};
use crate::mapping::{Delimiter, Header, Mapping};
use crate::meaning::{Field, Meaning, Row};
use crate::volumes::Volumes;

/// Rules that cut lines into columns, and the meanings of these.
#[derive(Debug)]
pub(crate) struct Delimited {
    /// The mappings that the header may have; the first whose columns are all there is taken.
    mappings: Vec<Mapping>,
    /// Known after the header, or at once if there is none.
    meaning: Option<Meaning>,
    /// Number of columns a line is cut into, known with the meaning.
    wanted: usize,
    delimiter: Option<Delimiter>,
    /// `true` if columns may be in double quotes.
    is_quoted: bool,
    has_header: bool,
    /// Number of columns a line must have.
    columns: RangeInclusive<usize>,
    check: Check,
    cells: Cells,
}

/// Test of a line's cells, so that lines of other formats are not taken for this one.
pub(crate) type Check = fn(&Cells, &[u8]) -> Result<(), Reason>;

/// Positions of a line's columns.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    ends: Vec<(u32, u32)>,
}

impl Delimited {
    /// Lines as a caller describes them.
    pub(crate) fn described(mapping: &Mapping) -> Self {
        let has_header = mapping.has_header.unwrap_or_else(|| mapping.has_names());
        Self {
            mappings: vec![mapping.clone()],
            meaning: None,
            wanted: 0,
            delimiter: mapping.delimiter,
            is_quoted: true,
            has_header,
            columns: 1..=usize::MAX,
            check: |_, _| Ok(()),
            cells: Cells::default(),
        }
    }

    /// Lines of a format without a header, separated by commas.
    pub(crate) fn commas(
        mappings: Vec<Mapping>,
        columns: RangeInclusive<usize>,
        check: Check,
    ) -> Self {
        Self::built_in(mappings, Delimiter::Byte(b','), Header::Absent, columns, check)
    }

    /// Lines of a format without a header, separated by blanks.
    pub(crate) fn blanks(
        mappings: Vec<Mapping>,
        columns: RangeInclusive<usize>,
        check: Check,
    ) -> Self {
        Self::built_in(mappings, Delimiter::Blanks, Header::Absent, columns, check)
    }

    /// Lines of a format with a header: a mapping for each that it may have.
    pub(crate) fn with_header(delimiter: u8, mappings: Vec<Mapping>) -> Self {
        let delimiter = Delimiter::Byte(delimiter);
        Self::built_in(mappings, delimiter, Header::Present, 1..=usize::MAX, |_, _| Ok(()))
    }

    fn built_in(
        mappings: Vec<Mapping>,
        delimiter: Delimiter,
        header: Header,
        columns: RangeInclusive<usize>,
        check: Check,
    ) -> Self {
        Self {
            mappings,
            meaning: None,
            wanted: 0,
            delimiter: Some(delimiter),
            is_quoted: false,
            has_header: header == Header::Present,
            columns,
            check,
            cells: Cells::default(),
        }
    }

    /// Says what columns mean.
    fn set(&mut self, meaning: Meaning) {
        // All are counted where their number tells the format.
        let is_counted = *self.columns.end() < usize::MAX;
        self.wanted = if is_counted { usize::MAX } else { meaning.columns() };
        self.meaning = Some(meaning);
    }

    /// Finds the columns of the first line, a header or a row.
    #[cold]
    fn begin(&mut self, line: &[u8]) -> Result<Option<Line>, Reason> {
        let delimiter = *self.delimiter.get_or_insert_with(|| likely_delimiter(line));
        if !self.has_header {
            let meaning = meaning(&self.mappings[0], |_| None)?;
            self.set(meaning);
            return Ok(None);
        }
        self.cells.cut(line, delimiter, self.is_quoted, usize::MAX)?;
        let names: Vec<String> = (0..self.cells.len())
            .map(|column| String::from_utf8_lossy(self.cells.get(line, column)).trim().to_owned())
            .collect();
        let number_of = |name: &str| names.iter().position(|known| known == name);
        let mut first_missing = None;
        for mapping in &self.mappings {
            match Meaning::new(mapping, number_of) {
                Ok(meaning) => {
                    self.set(meaning);
                    return Ok(Some(Line::Header));
                }
                Err(name) => first_missing = first_missing.or(Some(name)),
            }
        }
        let name = first_missing.unwrap_or_default();
        let known = excerpt(names.join(", ").as_bytes());
        Err(format!("the header has no column `{name}`; it has: {known}").into())
    }
}

fn meaning(
    mapping: &Mapping,
    number_of: impl Fn(&str) -> Option<usize>,
) -> Result<Meaning, Reason> {
    Meaning::new(mapping, number_of).map_err(|name| {
        format!("there is no header, so there is no column `{name}`: give its number").into()
    })
}

impl TextFormat for Delimited {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        if self.meaning.is_none()
            && let Some(line) = self.begin(line)?
        {
            return Ok(line);
        }
        let Self { meaning: Some(meaning), delimiter: Some(delimiter), .. } = self else {
            return Err("the header is missing".into());
        };
        if self.is_quoted && memchr::memchr(b'"', line).is_some() {
            let line = self.cells.cut_quoted(line, *delimiter)?;
            return meaning.line(&Cut { line: &line, cells: &self.cells }, volumes);
        }
        self.cells.cut(line, *delimiter, false, self.wanted)?;
        let found = self.cells.len();
        if !self.columns.contains(&found) {
            return Err(wrong_columns(found, &self.columns));
        }
        (self.check)(&self.cells, line)?;
        meaning.line(&Cut { line, cells: &self.cells }, volumes)
    }
}

#[cold]
fn wrong_columns(found: usize, columns: &RangeInclusive<usize>) -> Reason {
    let (least, most) = (columns.start(), columns.end());
    if least == most {
        return format!("{found} columns in place of {least}").into();
    }
    format!("{found} columns in place of {least} to {most}").into()
}

/// Return the delimiter of a first line: the first of tab, comma, semicolon and bar that it has,
/// else blanks.
fn likely_delimiter(line: &[u8]) -> Delimiter {
    let likely = [b'\t', b',', b';', b'|'].into_iter().find(|byte| line.contains(byte));
    likely.map_or(Delimiter::Blanks, Delimiter::Byte)
}

impl Cells {
    /// Return the text of a column that is there.
    #[inline]
    pub(crate) fn get<'a>(&self, line: &'a [u8], column: usize) -> &'a [u8] {
        let (begin, end) = self.ends[column];
        &line[begin as usize..end as usize]
    }

    /// Return their number.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Cuts a line into columns, at least `wanted` of them if there are so many.
    #[inline]
    pub(crate) fn cut(
        &mut self,
        line: &[u8],
        delimiter: Delimiter,
        is_quoted: bool,
        wanted: usize,
    ) -> Result<(), Reason> {
        if is_quoted && line.contains(&b'"') {
            // Only headers come here, whose names have no delimiters.
            let unquoted = |&(begin, end): &(u32, u32)| {
                let is_in_quotes = end - begin >= 2
                    && line[begin as usize] == b'"'
                    && line[end as usize - 1] == b'"';
                if is_in_quotes { (begin + 1, end - 1) } else { (begin, end) }
            };
            self.cut(line, delimiter, false, wanted)?;
            self.ends = self.ends.iter().map(unquoted).collect();
            return Ok(());
        }
        self.ends.clear();
        let length = position(line.len());
        match delimiter {
            Delimiter::Byte(byte) => {
                let mut begin = 0;
                for at in memchr::memchr_iter(byte, line) {
                    let at = position(at);
                    self.ends.push((begin, at));
                    begin = at + 1;
                    if self.ends.len() >= wanted {
                        return Ok(());
                    }
                }
                self.ends.push((begin, length));
            }
            Delimiter::Blanks => {
                let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
                let mut at = 0;
                while self.ends.len() < wanted {
                    at += line[at..].iter().take_while(|&&byte| is_blank(byte)).count();
                    if at >= line.len() {
                        break;
                    }
                    let begin = at;
                    at += line[at..].iter().take_while(|&&byte| !is_blank(byte)).count();
                    self.ends.push((position(begin), position(at)));
                }
            }
        }
        Ok(())
    }

    /// Cuts a line in which columns may be in double quotes; a quote inside is doubled. Returns the
    /// line without them, in which the columns are.
    #[cold]
    fn cut_quoted(&mut self, line: &[u8], delimiter: Delimiter) -> Result<Vec<u8>, Reason> {
        self.ends.clear();
        let is_delimiter = |byte: u8| match delimiter {
            Delimiter::Byte(delimiter) => byte == delimiter,
            Delimiter::Blanks => byte == b' ' || byte == b'\t',
        };
        let mut text = Vec::with_capacity(line.len());
        let (mut begin, mut at, mut is_open) = (0, 0, false);
        while at < line.len() {
            let byte = line[at];
            at += 1;
            if byte == b'"' && is_open && line.get(at) == Some(&b'"') {
                text.push(b'"');
                at += 1;
            } else if byte == b'"' {
                is_open = !is_open;
            } else if is_delimiter(byte) && !is_open {
                if delimiter != Delimiter::Blanks || text.len() > begin {
                    self.ends.push((position(begin), position(text.len())));
                }
                begin = text.len();
            } else {
                text.push(byte);
            }
        }
        if is_open {
            return Err("a quote is not closed; values of several lines are not read".into());
        }
        if delimiter != Delimiter::Blanks || text.len() > begin {
            self.ends.push((position(begin), position(text.len())));
        }
        Ok(text)
    }
}

/// Return a place in a line.
fn position(at: usize) -> u32 {
    u32::try_from(at).expect("lines are at most 64 KiB long")
}

struct Cut<'a> {
    line: &'a [u8],
    cells: &'a Cells,
}

impl Row for Cut<'_> {
    #[inline]
    fn field(&self, column: usize) -> Field<'_> {
        match self.cells.ends.get(column) {
            Some(&(begin, end)) => Field::Text(&self.line[begin as usize..end as usize]),
            None => Field::Missing,
        }
    }
}
