//! Binary records as Python's `struct` describes them: little-endian, packed, one letter per field.

use crate::decode::{Line, RecordFormat};
use crate::error::Reason;
use crate::mapping::Mapping;
use crate::meaning::{Field, Meaning, Row};
use crate::volumes::Volumes;

/// Longer records are refused.
const RECORD_BYTES_MAX: usize = 4096;

/// The fields of a record.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Position of each field, and its letter.
    fields: Vec<(usize, Letter)>,
    record_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Letter {
    bytes: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed,
    Float,
}

impl Layout {
    /// Understands letters such as `<IQIBq`.
    pub(crate) fn parse(letters: &str) -> Result<Self, String> {
        let letters = letters.trim();
        let letters = letters
            .strip_prefix('<')
            .ok_or_else(|| format!("`{letters}`: begin with `<`, for little-endian records"))?;
        let (mut fields, mut record_bytes) = (vec![], 0);
        for letter in letters.chars() {
            let letter = match letter {
                'B' | 'c' => Letter { bytes: 1, kind: Kind::Unsigned },
                'b' => Letter { bytes: 1, kind: Kind::Signed },
                'H' => Letter { bytes: 2, kind: Kind::Unsigned },
                'h' => Letter { bytes: 2, kind: Kind::Signed },
                'I' | 'L' => Letter { bytes: 4, kind: Kind::Unsigned },
                'i' | 'l' => Letter { bytes: 4, kind: Kind::Signed },
                'Q' => Letter { bytes: 8, kind: Kind::Unsigned },
                'q' => Letter { bytes: 8, kind: Kind::Signed },
                'f' => Letter { bytes: 4, kind: Kind::Float },
                'd' => Letter { bytes: 8, kind: Kind::Float },
                other => {
                    return Err(format!(
                        "`{other}` is not a field; expected one of c b B h H i I l L q Q f d"
                    ));
                }
            };
            fields.push((record_bytes, letter));
            record_bytes += letter.bytes;
        }
        if fields.is_empty() || record_bytes > RECORD_BYTES_MAX {
            return Err(format!("records of {record_bytes} bytes: from 1 to {RECORD_BYTES_MAX}"));
        }
        Ok(Self { fields, record_bytes })
    }

    pub(crate) const fn fields(&self) -> usize {
        self.fields.len()
    }

    pub(crate) const fn record_bytes(&self) -> usize {
        self.record_bytes
    }
}

/// Records of a layout, whose fields have a meaning.
#[derive(Debug)]
pub(crate) struct LaidOut {
    layout: Layout,
    meaning: Meaning,
    header_bytes: usize,
}

impl LaidOut {
    /// Create a reader of records of these letters after a header of `header_bytes` bytes.
    ///
    /// # Errors
    /// If letters and mapping contradict each other.
    pub(crate) fn new(
        letters: &str,
        mapping: &Mapping,
        header_bytes: usize,
    ) -> Result<Self, String> {
        let layout = Layout::parse(letters)?;
        let meaning = Meaning::new(mapping, |_| None)?;
        if meaning.columns() > layout.fields() {
            let fields = layout.fields();
            return Err(format!("field {} of {fields}: the layout has fewer", meaning.columns()));
        }
        Ok(Self { layout, meaning, header_bytes })
    }

    /// Return the same for letters and a mapping that have been checked.
    pub(crate) fn built_in(letters: &str, mapping: &Mapping, header_bytes: usize) -> Self {
        Self::new(letters, mapping, header_bytes).expect("the layout and the mapping are checked")
    }
}

impl RecordFormat for LaidOut {
    #[inline]
    fn record_bytes(&self) -> usize {
        self.layout.record_bytes
    }

    fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    #[inline]
    fn record(&mut self, record: &[u8], volumes: &mut Volumes) -> Result<Line, Reason> {
        self.meaning.line(&Record { layout: &self.layout, record }, volumes)
    }
}

struct Record<'a> {
    layout: &'a Layout,
    record: &'a [u8],
}

impl Row for Record<'_> {
    #[inline]
    fn field(&self, column: usize) -> Field<'_> {
        let Some(&(at, Letter { bytes, kind })) = self.layout.fields.get(column) else {
            return Field::Missing;
        };
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.record[at..at + bytes]);
        let bits = u64::from_le_bytes(word);
        match kind {
            Kind::Unsigned => Field::Number(i128::from(bits)),
            Kind::Signed => {
                let unused = 64 - 8 * bytes;
                Field::Number(i128::from((bits << unused).cast_signed() >> unused))
            }
            Kind::Float if bytes == 4 => {
                Field::Float(f64::from(f32::from_bits(u32::from_le_bytes([
                    word[0], word[1], word[2], word[3],
                ]))))
            }
            Kind::Float => Field::Float(f64::from_bits(bits)),
        }
    }
}
