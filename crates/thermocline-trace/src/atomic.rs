//! Files that appear whole or not at all: until one is complete it has no name, or where the system
//! cannot do that, a temporary one in the target's folder.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use tempfile::TempPath;

use crate::error::TraceError;

/// Number of bytes that are gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// Prefix of temporary names.
const PREFIX: &str = ".thermocline-";

/// The mode of a new file, of which the umask takes its share.
#[cfg(unix)]
const MODE: u32 = 0o666;

/// A file that is not complete, and vanishes unless [`persist`] puts it in its place. Where it has no
/// name, it does so however the process ends.
#[derive(Debug)]
pub struct Unfinished {
    file: File,
    /// Its name, where it needs one.
    name: Option<TempPath>,
}

impl Unfinished {
    /// Return the file.
    pub const fn as_file(&self) -> &File {
        &self.file
    }

    /// Return the file without a name, as one that is never to be put in a place.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Path of written bytes to the file.
enum Sink {
    Plain(Unfinished),
    Gzip(GzEncoder<Unfinished>),
    Zstd(Box<zstd::Encoder<'static, Unfinished>>),
}

/// A file that replaces its target when it is complete, compressed if the target's name ends in `.gz`
/// or `.zst`.
pub(crate) struct AtomicFile<'a> {
    target: &'a Path,
    sink: Sink,
    buffer: Vec<u8>,
}

impl<'a> AtomicFile<'a> {
    pub(crate) fn create(target: &'a Path) -> Result<Self, TraceError> {
        let file = temporary(target)?;
        let sink = match compression(target) {
            None => Sink::Plain(file),
            Some(Compression::Gzip) => {
                Sink::Gzip(GzEncoder::new(file, flate2::Compression::default()))
            }
            Some(Compression::Zstd) => {
                let encoder = zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL);
                Sink::Zstd(Box::new(encoder.map_err(|source| cannot_write(target, source))?))
            }
        };
        Ok(Self { target, sink, buffer: Vec::with_capacity(WRITE_BYTES) })
    }

    /// Return the buffer to append to; [`Self::drain`] must follow now and then.
    pub(crate) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes what was gathered, if it is enough.
    pub(crate) fn drain(&mut self) -> Result<(), TraceError> {
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes everything and puts the file in its place.
    pub(crate) fn finish(self) -> Result<(), TraceError> {
        let target = self.target;
        persist(self.complete()?, target)
    }

    /// Writes everything; the file is complete, and not yet in its place.
    pub(crate) fn complete(mut self) -> Result<Unfinished, TraceError> {
        self.write()?;
        let file = match self.sink {
            Sink::Plain(file) => Ok(file),
            Sink::Gzip(encoder) => encoder.finish(),
            Sink::Zstd(encoder) => encoder.finish(),
        };
        file.map_err(|source| cannot_write(self.target, source))
    }

    fn write(&mut self) -> Result<(), TraceError> {
        let written = match &mut self.sink {
            Sink::Plain(file) => file.write_all(&self.buffer),
            Sink::Gzip(encoder) => encoder.write_all(&self.buffer),
            Sink::Zstd(encoder) => encoder.write_all(&self.buffer),
        };
        self.buffer.clear();
        written.map_err(|source| cannot_write(self.target, source))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
}

/// Return the compression that the name of a file implies.
fn compression(target: &Path) -> Option<Compression> {
    match target.extension()?.to_str()? {
        "gz" => Some(Compression::Gzip),
        "zst" => Some(Compression::Zstd),
        _ => None,
    }
}

/// Writes a text to a file, in place of one that is there, compressed if its name ends in `.gz` or
/// `.zst`.
///
/// # Errors
/// [`TraceError::Io`] if the file cannot be written; nothing has changed then.
pub fn write_text(target: &Path, text: &str) -> Result<(), TraceError> {
    let mut file = AtomicFile::create(target)?;
    file.buffer().extend_from_slice(text.as_bytes());
    file.finish()
}

/// Refuses a name that promises a compression which the format does not have from outside.
pub(crate) fn refuse_compression(target: &Path, format: &str) -> Result<(), TraceError> {
    if compression(target).is_none() {
        return Ok(());
    }
    let reason =
        format!("{format} is not compressed as a whole: name the file without .gz or .zst");
    Err(cannot_write(target, io::Error::other(reason)))
}

/// Creates a file that vanishes unless [`persist`] puts it in the place of `target`.
///
/// # Errors
/// [`TraceError::Io`] if `target` is a folder or a device, or if the file cannot be created.
pub fn temporary(target: &Path) -> Result<Unfinished, TraceError> {
    if target.exists() && !target.is_file() {
        let source = io::Error::other("not a regular file: name a file to write to");
        return Err(cannot_write(target, source));
    }
    let folder = folder(target);
    if let Some(file) = nameless::create(folder) {
        return Ok(Unfinished { file, name: None });
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    let builder = builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(MODE));
    let file = builder.tempfile_in(folder).map_err(|source| cannot_write(target, source))?;
    let (file, name) = file.into_parts();
    Ok(Unfinished { file, name: Some(name) })
}

/// Makes a file durable and gives it the name `target`, in place of what has it.
///
/// # Errors
/// [`TraceError::Io`] if the file cannot be synced or named.
pub fn persist(file: Unfinished, target: &Path) -> Result<(), TraceError> {
    let place = || {
        file.file.sync_all()?;
        let name = match file.name {
            Some(name) => name,
            None => match nameless::link(&file.file, target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // A file that has a name can replace another, so for an instant it has two.
                    let mut builder = tempfile::Builder::new();
                    let link = |name: &Path| nameless::link(&file.file, name);
                    builder.prefix(PREFIX).make_in(folder(target), link)?.into_temp_path()
                }
                linked => return linked,
            },
        };
        name.persist(target).map_err(|error| error.error)
    };
    place().map_err(|source| cannot_write(target, source))
}

/// Return the folder that a file is to be in.
fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Files without a name, where the system has them.
#[cfg(target_os = "linux")]
mod nameless {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};

    /// Folder in which the kernel shows open files; without it, one cannot be given a name.
    const OPEN_FILES: &str = "/proc/self/fd";

    /// Return a file without a name in a folder; `None` where the file system has none, or where
    /// creating any file fails, which who tries it with a name is told.
    pub(super) fn create(folder: &Path) -> Option<File> {
        if !Path::new(OPEN_FILES).exists() {
            return None;
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        Some(open(folder, flags, Mode::from_raw_mode(super::MODE)).ok()?.into())
    }

    /// Gives such a file a name, which nothing may have.
    pub(super) fn link(file: &File, name: &Path) -> io::Result<()> {
        let open = format!("{OPEN_FILES}/{}", file.as_raw_fd());
        Ok(linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// Other systems have none.
#[cfg(not(target_os = "linux"))]
mod nameless {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) const fn create(_: &Path) -> Option<File> {
        None
    }

    pub(super) fn link(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn cannot_write(target: &Path, source: io::Error) -> TraceError {
    TraceError::Io { path: target.to_owned(), action: "write", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_takes_the_place_of_a_folder_or_a_device() {
        let folder = tempfile::tempdir().unwrap();
        for target in [folder.path(), Path::new("/dev/null")] {
            if target.exists() {
                let Err(error) = AtomicFile::create(target) else { panic!("{target:?}") };
                let reason = std::error::Error::source(&error).unwrap().to_string();
                assert!(reason.contains("not a regular file"), "{error}: {reason}");
            }
        }
    }

    /// Return the names in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let all = std::fs::read_dir(folder).unwrap();
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_replaces_another_when_it_is_complete_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("t.csv");
        for text in ["one", "another"] {
            let mut file = AtomicFile::create(&target).unwrap();
            file.buffer().extend_from_slice(text.as_bytes());
            file.write().unwrap();
            assert_ne!(std::fs::read_to_string(&target).unwrap_or_default(), text);
            // A process that is killed now leaves nothing.
            #[cfg(target_os = "linux")]
            assert!(names(folder.path()).iter().all(|name| name == "t.csv"));
            file.finish().unwrap();
            assert_eq!(std::fs::read_to_string(&target).unwrap(), text);
            assert_eq!(names(folder.path()), ["t.csv"]);
        }
        drop(AtomicFile::create(&folder.path().join("never")).unwrap());
        assert_eq!(names(folder.path()), ["t.csv"]);
    }

    #[test]
    fn names_say_how_a_text_is_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let text = "a line\n".repeat(100_000);
        for name in ["plain.csv", "t.csv.gz", "t.csv.zst"] {
            let path = folder.path().join(name);
            write_text(&path, &text).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let found = match compression(&path) {
                None => String::from_utf8(bytes).unwrap(),
                Some(Compression::Gzip) => {
                    io::read_to_string(flate2::read::GzDecoder::new(&bytes[..])).unwrap()
                }
                Some(Compression::Zstd) => {
                    String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap()
                }
            };
            assert!(found == text, "{name}");
        }
        let error = refuse_compression(Path::new("t.parquet.zst"), "Parquet").unwrap_err();
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("without .gz"));
    }
}
