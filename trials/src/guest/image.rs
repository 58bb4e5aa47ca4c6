//! The guest's first file system: an archive of programs, their libraries, modules of the kernel and what
//! the guest is to do, which the kernel unpacks into memory.
//!
//! The archive has the format `newc` of cpio, as the kernel's document `buffer-format.rst` describes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Programs that try the kernel's caches, and the Debian package of each.
pub(crate) const CACHES: [(&str, &str); 4] = [
    ("fio", "fio"),
    ("dmsetup", "dmsetup"),
    ("make-bcache", "bcache-tools"),
    ("busybox", "busybox-static"),
];

const FOLDER: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;

/// An archive that grows.
#[derive(Debug, Default)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    folders: BTreeSet<PathBuf>,
    /// Libraries that it has.
    libraries: BTreeSet<String>,
    entries: u32,
}

impl Image {
    /// Adds a file, and the folders that it lies in.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        let path = Path::new(path.trim_start_matches('/'));
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for folder in above.into_iter().filter(|folder| !folder.as_os_str().is_empty()) {
            if self.folders.insert(folder.to_owned()) {
                self.entry(folder, FOLDER, &[]);
            }
        }
        self.entry(path, EXECUTABLE, content);
    }

    /// Adds a file of this machine under the same path, or under `/bin` for programs.
    fn copy(&mut self, source: &Path, target: &str) -> Result<()> {
        let content =
            fs::read(source).with_context(|| format!("cannot read `{}`", source.display()))?;
        self.file(target, &content);
        Ok(())
    }

    /// Adds the programs and the libraries that they load.
    pub(crate) fn programs(&mut self, programs: &[(&str, &str)]) -> Result<()> {
        let missing: Vec<&str> = programs
            .iter()
            .filter(|(program, _)| find(program).is_none())
            .map(|&(_, package)| package)
            .collect();
        ensure!(
            missing.is_empty(),
            "the guest needs programs that are not here; install them with `apt-get install {}`",
            missing.join(" ")
        );
        for (name, _) in programs {
            self.program(&find(name).context("it was found before")?, name)?;
        }
        Ok(())
    }

    /// Adds a file of this machine as a program of that name, and the libraries that it loads.
    pub(crate) fn program(&mut self, path: &Path, name: &str) -> Result<()> {
        self.copy(path, &format!("bin/{name}"))?;
        for library in libraries_of(path)? {
            if self.libraries.insert(library.clone()) {
                self.copy(Path::new(&library), &library)?;
            }
        }
        Ok(())
    }

    /// Returns the whole archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) {
        let name = path.as_os_str().as_encoded_bytes();
        self.entries += 1;
        let links = if mode == FOLDER { 2 } else { 1 };
        // Number, mode, owner, group, links, time, size, four numbers of devices, length of the name, sum.
        let fields =
            [self.entries, mode, 0, 0, links, 0, length(content), 0, 0, 0, 0, length(name) + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a file of the guest is smaller than 4 GiB")
}

/// Return the path of an installed program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(own)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Return the libraries that a program loads; none if it is static.
fn libraries_of(program: &Path) -> Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    Ok(parse_libraries(&String::from_utf8_lossy(&output.stdout)))
}

/// Return the paths in what `ldd` prints.
fn parse_libraries(text: &str) -> Vec<String> {
    let path = |line: &str| {
        let words = line.split_ascii_whitespace();
        words.into_iter().find(|word| word.starts_with('/')).map(ToOwned::to_owned)
    };
    text.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_folders_before_what_lies_in_them() {
        let mut image = Image::default();
        image.file("/a/b/c", b"hello");
        image.file("a/d", b"");
        let bytes = image.finish();
        let text = String::from_utf8_lossy(&bytes);
        let places = ["a\0", "a/b\0", "a/b/c\0", "hello", "a/d\0", "TRAILER!!!\0"]
            .map(|name| text.find(name).expect("it is in the archive"));
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(text.matches("070701").count(), 5, "one entry each");
        assert_eq!(bytes.len() % 4, 0);
        let size = text.find("000081ed").map(|place| &text[place + 40..place + 48]);
        assert_eq!(size, Some("00000005"));
    }

    #[test]
    fn cpio_unpacks_an_archive() {
        if find("cpio").is_none() {
            eprintln!("skipped: cpio is not installed");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut image = Image::default();
        image.file("deep/er/file", b"content");
        let archive = folder.path().join("archive");
        fs::write(&archive, image.finish()).expect("the archive can be written");
        let input = fs::File::open(&archive).expect("it is there");
        let status = Command::new("cpio")
            .args(["-i", "-d", "--quiet"])
            .current_dir(folder.path())
            .stdin(input)
            .status()
            .expect("cpio starts");
        assert!(status.success());
        let content = fs::read_to_string(folder.path().join("deep/er/file"));
        assert_eq!(content.ok().as_deref(), Some("content"));
    }

    #[test]
    fn libraries_are_the_paths_that_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibm.so.6 => /lib/libm.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tnot a dynamic executable\n";
        assert_eq!(parse_libraries(text), ["/lib/libm.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }
}
