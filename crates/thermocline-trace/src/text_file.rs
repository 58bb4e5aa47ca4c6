//! Text files that people write: configurations, sweeps, manifests, descriptions of columns.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// Size of the largest file.
const BYTES_MAX: u64 = 16 << 20;
/// Length of the longest line. An error may show a whole line.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Read a file that a person is said to have written, and that may be anything: a disk image, a trace, a device
/// without an end.
///
/// # Errors
/// An error of the system, or one of the kind [`ErrorKind::InvalidData`] for a file that is not UTF-8 text, has more
/// than 16 MiB, or a line of more than 64 KiB.
pub fn read(path: &Path) -> io::Result<String> {
    let invalid = |reason: String| io::Error::new(ErrorKind::InvalidData, reason);
    let mut bytes = vec![];
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_cut = bytes.len() as u64 > BYTES_MAX;
    // Text without NULs is as good as its first part; a cut may part a character.
    let text = match std::str::from_utf8(&bytes) {
        Err(error) if is_cut && error.error_len().is_none() => "",
        text => text.map_err(|_| invalid("it is not a text file".into()))?,
    };
    if text.contains('\0') {
        return Err(invalid("it is not a text file".into()));
    }
    if is_cut {
        return Err(invalid("it has more than 16 MiB".into()));
    }
    if let Some(line) = text.lines().position(|line| line.len() > LINE_BYTES_MAX) {
        return Err(invalid(format!("line {} has more than 64 KiB", line + 1)));
    }
    String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(bytes: &[u8]) -> io::Result<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        read(file.path())
    }

    #[test]
    fn text_is_read_as_it_is() {
        for text in ["", "size = 3\r\n", "name = \"Gr\u{f6}\u{df}e\"", &"x".repeat(LINE_BYTES_MAX)]
        {
            assert_eq!(read_of(text.as_bytes()).unwrap(), text);
        }
        let largest = "# comment\n".repeat(usize::try_from(BYTES_MAX).unwrap() / 10);
        assert_eq!(read_of(largest.as_bytes()).unwrap(), largest);
    }

    #[test]
    fn other_files_are_refused_in_a_short_sentence() {
        let limit = usize::try_from(BYTES_MAX).unwrap();
        // The last byte that is read is the first half of a character.
        let mut parted = "# comment\n".repeat(limit / 10);
        parted.push_str(&"x".repeat(limit - parted.len()));
        parted.push_str("\u{f6}\n");
        for (bytes, said) in [
            (&b"size = 3\n\0"[..], "not a text file"),
            (&[0; 4096], "not a text file"),
            (b"\xff\xfe", "not a text file"),
            (&vec![b'\n'; limit + 1], "more than 16 MiB"),
            (parted.as_bytes(), "more than 16 MiB"),
            (
                format!("a = 1\n# {}\n", "x".repeat(LINE_BYTES_MAX)).as_bytes(),
                "line 2 has more than",
            ),
        ] {
            let error = read_of(bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains(said), "{error}");
        }
        let zeroes = read(Path::new("/dev/zero")).unwrap_err();
        assert!(zeroes.to_string().contains("not a text file"), "{zeroes}");
    }
}
