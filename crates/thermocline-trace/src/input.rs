//! The bytes of a trace: decompressed as their first bytes say, in a bounded buffer.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Position, TraceError};
use crate::remote;

/// Bytes that are requested from the source at a time, and that detection reads.
const READ_BYTES: usize = 256 << 10;

/// The longest magic number looked for.
const MAGIC_BYTES: usize = 10;

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Uncompressed.
    None,
    /// gzip, RFC 1952, any number of members.
    Gzip,
    /// xz, any number of streams.
    Xz,
    /// bzip2, any number of streams.
    Bzip2,
    /// Zstandard, any number of frames.
    Zstd,
}

impl Compression {
    /// Recognises a compression by its magic number.
    pub fn of(head: &[u8]) -> Self {
        let is_bzip2 = head.len() >= 10
            && head.starts_with(b"BZh")
            && head[3].is_ascii_digit()
            && (head[4..].starts_with(b"1AY&SY") || head[4..].starts_with(b"\x17rE8P\x90"));
        // A skippable frame, with which the output of parallel compressors begins.
        let is_skippable =
            head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == *b"\x2a\x4d\x18";
        if head.starts_with(b"\x1f\x8b\x08") {
            Self::Gzip
        } else if head.starts_with(b"\xfd7zXZ\0") {
            Self::Xz
        } else if is_bzip2 {
            Self::Bzip2
        } else if head.starts_with(b"\x28\xb5\x2f\xfd") || is_skippable {
            Self::Zstd
        } else {
            Self::None
        }
    }

    /// Return its usual name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "uncompressed",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "zstd",
        }
    }

    fn decoder<R: Read + Send + 'static>(self, source: R) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::None => Box::new(source),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(source))),
            Self::Xz => {
                Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(BufReader::new(source)))
            }
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(BufReader::new(source))),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(source)?),
        })
    }
}

/// The bytes of a file, decompressed, in a buffer that the reader fills and consumes.
pub struct Input {
    path: PathBuf,
    source: Box<dyn Read + Send>,
    compression: Compression,
    allow_truncated: bool,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Uncompressed bytes consumed so far.
    offset_bytes: u64,
    ended: bool,
    truncated: bool,
    size_bytes: Option<u64>,
    fetched_bytes: Arc<AtomicU64>,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("path", &self.path)
            .field("compression", &self.compression)
            .field("offset_bytes", &self.offset_bytes)
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Opens a file.
    ///
    /// # Errors
    /// [`TraceError::Io`] if the file cannot be opened or read.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let cannot = |source| TraceError::Io { path: path.to_owned(), action: "open", source };
        if let Some(address) = remote::address(path) {
            let (source, size_bytes) = remote::open(address).map_err(cannot)?;
            return Ok(Self { size_bytes: Some(size_bytes), ..Self::new(path, source)? });
        }
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        let mut input = Self::new(path, file)?;
        input.size_bytes = metadata.is_file().then_some(metadata.len());
        Ok(input)
    }

    /// Reads from anything; `path` stands for it in messages.
    ///
    /// # Errors
    /// [`TraceError::Io`] if the first bytes cannot be read.
    pub fn new(path: &Path, source: impl Read + Send + 'static) -> Result<Self, TraceError> {
        let fetched_bytes = Arc::new(AtomicU64::new(0));
        let mut source = Counted { source, fetched_bytes: Arc::clone(&fetched_bytes) };
        let cannot = |source| TraceError::Io { path: path.to_owned(), action: "read", source };
        let mut head = Vec::with_capacity(MAGIC_BYTES);
        (&mut source).take(MAGIC_BYTES as u64).read_to_end(&mut head).map_err(cannot)?;
        let compression = Compression::of(&head);
        let source = compression.decoder(Cursor::new(head).chain(source)).map_err(cannot)?;
        Ok(Self { fetched_bytes, ..Self::decoded(path, compression, source) })
    }

    fn decoded(path: &Path, compression: Compression, source: Box<dyn Read + Send>) -> Self {
        Self {
            path: path.to_owned(),
            source,
            compression,
            allow_truncated: false,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset_bytes: 0,
            ended: false,
            truncated: false,
            size_bytes: None,
            fetched_bytes: Arc::default(),
        }
    }

    /// Create a part of a file that is not compressed.
    ///
    /// # Errors
    /// [`TraceError::Io`] if the file cannot be opened.
    pub(crate) fn part(
        path: &Path,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<Self, TraceError> {
        let cannot = |source| TraceError::Io { path: path.to_owned(), action: "open", source };
        let mut file = File::open(path).map_err(cannot)?;
        file.seek(SeekFrom::Start(offset_bytes)).map_err(cannot)?;
        let mut part = Self::decoded(path, Compression::None, Box::new(file.take(length_bytes)));
        part.offset_bytes = offset_bytes;
        Ok(part)
    }

    /// Says whether compressed data that end early are an error (they are by default) or the end of
    /// the input.
    pub(crate) fn allow_truncated(mut self, is_allowed: bool) -> Self {
        self.allow_truncated = is_allowed;
        self
    }

    /// Appends more bytes to the available ones; `false` at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read, or its compressed data are damaged or end early.
    pub fn fill(&mut self) -> Result<bool, TraceError> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < self.end + READ_BYTES {
            self.buffer.resize(self.end + READ_BYTES, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Reads until `target_bytes` are available or the file ends.
    ///
    /// # Errors
    /// As for [`Input::fill`].
    pub fn fill_to(&mut self, target_bytes: usize) -> Result<(), TraceError> {
        while self.available().len() < target_bytes && self.fill()? {}
        Ok(())
    }

    /// Discards the first `count` available bytes.
    ///
    /// # Panics
    /// If fewer than `count` bytes are available.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "only available bytes can be consumed");
        self.start += count;
        self.offset_bytes += count as u64;
    }

    /// Return the bytes fetched and not consumed.
    pub fn available(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Return the number of uncompressed bytes that have been consumed.
    pub(crate) const fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Return `true` if nothing follows the available bytes.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Return `true` if the file was cut off and that was allowed.
    pub(crate) const fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Return `true` if a cut-off file is to be used as far as it goes.
    pub(crate) const fn allows_truncated(&self) -> bool {
        self.allow_truncated
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn compression(&self) -> Compression {
        self.compression
    }

    /// Return the size of the file on disk, if it is a file.
    pub const fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }

    /// Return the number of bytes of the file on disk that have been fetched.
    pub fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes.load(Ordering::Relaxed)
    }

    fn fail(&mut self, error: io::Error) -> Result<bool, TraceError> {
        let position = Position::Offset(self.offset_bytes + (self.end - self.start) as u64);
        let path = self.path.clone();
        let compression = self.compression.name();
        if self.compression == Compression::None {
            return Err(TraceError::Io { path, action: "read", source: error });
        }
        if error.kind() != io::ErrorKind::UnexpectedEof {
            let reason = error.to_string();
            return Err(TraceError::Damaged { path, position, compression, reason });
        }
        if !self.allow_truncated {
            let reason = format!("the {compression} data end early");
            return Err(TraceError::Truncated { path, position, reason });
        }
        self.ended = true;
        self.truncated = true;
        Ok(false)
    }
}

/// Counts what is read, for progress bars.
struct Counted<R> {
    source: R,
    fetched_bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.fetched_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn compressed(plain: &[u8]) -> Vec<(Compression, Vec<u8>)> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(plain).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(plain).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(plain).unwrap();
        let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
        zstd.include_checksum(true).unwrap();
        zstd.write_all(plain).unwrap();
        vec![
            (Compression::None, plain.to_vec()),
            (Compression::Gzip, gzip.finish().unwrap()),
            (Compression::Xz, xz.finish().unwrap()),
            (Compression::Bzip2, bzip2.finish().unwrap()),
            (Compression::Zstd, zstd.finish().unwrap()),
        ]
    }

    fn text() -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        (0..40_000).flat_map(|_| format!("{}\n", next()).into_bytes()).collect()
    }

    fn read_all(bytes: Vec<u8>, allow_truncated: bool) -> Result<(Vec<u8>, bool), TraceError> {
        let mut input =
            Input::new(Path::new("test"), Cursor::new(bytes))?.allow_truncated(allow_truncated);
        let mut all = Vec::new();
        while input.fill()? {
            all.extend_from_slice(input.available());
            input.consume(input.available().len());
        }
        assert_eq!(input.offset_bytes, all.len() as u64);
        Ok((all, input.is_truncated()))
    }

    #[test]
    fn every_compression_is_recognised_and_undone() {
        let plain = text();
        for (compression, bytes) in compressed(&plain) {
            assert_eq!(Compression::of(&bytes), compression);
            assert_eq!(read_all(bytes.clone(), false).unwrap(), (plain.clone(), false));
            let twice = [bytes.clone(), bytes].concat();
            assert_eq!(read_all(twice, false).unwrap().0.len(), 2 * plain.len(), "concatenated");
        }
    }

    #[test]
    fn a_skippable_zstd_frame_is_skipped() {
        let frame = zstd::encode_all(&b"7\n"[..], 1).unwrap();
        let bytes = [&b"\x50\x2a\x4d\x18\x04\0\0\0skip"[..], &frame].concat();
        assert_eq!(read_all(bytes, false).unwrap(), (b"7\n".to_vec(), false));
    }

    #[test]
    fn a_cut_file_is_an_error_unless_allowed() {
        let plain = text();
        for (compression, bytes) in compressed(&plain).into_iter().skip(1) {
            for cut in [bytes.len() / 2, bytes.len() - 1] {
                let error = read_all(bytes[..cut].to_vec(), false).map(|_| "read").unwrap_err();
                let name = compression.name();
                assert!(matches!(error, TraceError::Truncated { .. }), "{name} {cut}: {error}");
                assert!(error.to_string().contains("test: truncated"), "{error}");
                let (head, truncated) = read_all(bytes[..cut].to_vec(), true).unwrap();
                assert!(truncated && plain.starts_with(&head), "{name}");
            }
        }
    }

    #[test]
    fn damaged_data_are_not_called_truncated() {
        for (compression, mut bytes) in compressed(&text()).into_iter().skip(1) {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 64].fill(0x55);
            let error = read_all(bytes, true).map(|_| "read").unwrap_err();
            assert!(matches!(error, TraceError::Damaged { .. }), "{}: {error}", compression.name());
        }
    }
}
