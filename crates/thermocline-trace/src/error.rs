//! Faults of traces, with their places.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Offending text longer than this many bytes is shortened in messages.
const EXCERPT_BYTES: usize = 80;

/// Reason why a trace cannot be read, compiled or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A file cannot be opened, read or written.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Attempted action: "open", "read", "write".
        action: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A line or record does not follow its format.
    #[error("{}: {position}: {reason}: {text}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line or record.
        position: Position,
        /// Fault.
        reason: Cow<'static, str>,
        /// The offending text, shortened.
        text: String,
    },
    /// The file ends in the middle of something.
    #[error("{}: truncated: {reason} ({position})", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// End of the usable part.
        position: Position,
        /// Description of the incomplete part.
        reason: String,
    },
    /// The compressed bytes are damaged.
    #[error("{}: damaged {compression} data at {position}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// End of the usable part.
        position: Position,
        /// The compression, by name.
        compression: &'static str,
        /// The decoder's reason.
        reason: String,
    },
    /// No format fits the content.
    #[error("{}: cannot detect the format from the content ({reason})", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Observation.
        reason: String,
    },
    /// A format name that does not exist.
    #[error("unknown trace format '{name}'; the formats are: {known}")]
    NoSuchFormat {
        /// The name given.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// Another option has a value that does not exist.
    #[error("unknown {option} '{value}'; expected one of: {expected}")]
    NoSuchValue {
        /// The option.
        option: &'static str,
        /// The value given.
        value: String,
        /// All values that exist.
        expected: &'static str,
    },
    /// Words that do not say what columns mean.
    #[error("columns: {reason}")]
    Mapping {
        /// Fault, and description of valid values.
        reason: String,
    },
    /// A trace without any request.
    #[error("{}: the trace has no requests", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A page size that cannot be used.
    #[error("page size {page_size_bytes} B: it must be a power of two from 512 B to 16 MiB")]
    PageSize {
        /// The page size given.
        page_size_bytes: u64,
    },
    /// A text that is not a page size.
    #[error("invalid page size `{text}`: write it as 4096 or 4KiB")]
    PageSizeText {
        /// The text given.
        text: String,
    },
    /// The file table that belongs to a recording is not there.
    #[error(
        "{}: a recording needs its file table, expected at {}",
        path.display(),
        expected.display()
    )]
    MissingFileTable {
        /// The recording.
        path: PathBuf,
        /// The name looked for (compressed variants of it were looked for too).
        expected: PathBuf,
    },
    /// A request that no page access sequence can stand for.
    #[error("{}: request {request} (counted from 1): {reason}", path.display())]
    Request {
        /// The trace.
        path: PathBuf,
        /// Its number, from 1.
        request: u64,
        /// Fault.
        reason: String,
    },
    /// The trace as a whole exceeds a limit.
    #[error("{}: {reason}", path.display())]
    Limit {
        /// The trace.
        path: PathBuf,
        /// The limit and what exceeded it.
        reason: String,
    },
    /// A saved compiled trace, a Parquet file or a statistics file is not as it should be.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Fault.
        reason: String,
    },
    /// A trace, or several, that cannot be dealt to that number of clients.
    #[error("{clients} clients: {reason}")]
    Clients {
        /// The number of clients.
        clients: u8,
        /// Fault, and description of valid values.
        reason: String,
    },
    /// A generator's options contradict themselves.
    #[error("generator: {reason}")]
    Generator {
        /// Fault, and description of valid values.
        reason: String,
    },
}

/// A place in a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Position {
    /// A line of a text file, from 1.
    Line(u64),
    /// A record of a binary file.
    Record {
        /// Its number, from 1.
        number: u64,
        /// Start, in uncompressed bytes.
        offset_bytes: u64,
    },
    /// A row of a Parquet file, from 1.
    Row(u64),
    /// A place in the uncompressed bytes.
    Offset(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row}"),
            Self::Record { number, offset_bytes } => {
                write!(f, "record {number} at byte {offset_bytes}")
            }
            Self::Offset(offset_bytes) => write!(f, "byte {offset_bytes}"),
        }
    }
}

/// Reason why a line or record is malformed, before its place is known.
pub type Reason = Cow<'static, str>;

/// Shows offending text in a message: at most 80 bytes of it, with unprintable bytes escaped.
pub fn excerpt(text: &[u8]) -> String {
    let shown = &text[..text.len().min(EXCERPT_BYTES)];
    let dots = if shown.len() < text.len() { "..." } else { "" };
    format!("'{}'{dots}", shown.escape_ascii())
}

/// Shows an offending record in a message: in hexadecimal.
pub fn hexadecimal(record: &[u8]) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(2 * record.len());
    for byte in record {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_printable() {
        assert_eq!(excerpt(b"a\tb\xff"), r"'a\tb\xff'");
        let long = excerpt(&[b'x'; 1000]);
        assert_eq!(long.len(), EXCERPT_BYTES + 5);
        assert!(long.ends_with("..."));
        assert_eq!(hexadecimal(&[0, 255, 16]), "00ff10");
    }

    #[test]
    fn a_malformed_line_is_shown_with_its_place() {
        let error = TraceError::Malformed {
            path: PathBuf::from("a.spc"),
            position: Position::Line(7),
            reason: "the size is missing".into(),
            text: excerpt(b"0,1"),
        };
        assert_eq!(error.to_string(), "a.spc: line 7: the size is missing: '0,1'");
    }
}
