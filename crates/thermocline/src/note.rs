//! Location of a backing store's note: beside a file, or under the identity of a block device.
//!
//! A file has its note beside it under its resolved name, so that every link to it leads there. The
//! folder of a block device is empty after a restart of the machine; its note is in a state directory,
//! under a name that the device keeps.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use thermocline_engine::{Noted, SideFile, SideFileError};
use tracing::warn;

/// The state directory of root.
const ROOT_STATE: &str = "/var/lib/thermocline";
/// Longer names of devices end in a hash.
const NAME_BYTES_MAX: usize = 180;

/// Location of a note, and further locations where it may have been written.
#[derive(Clone, Debug)]
pub(crate) struct NotePlace {
    path: PathBuf,
    /// Locations that an earlier version used, or this one when it knew less of the device: they
    /// are read, and removed when the note is written.
    former: Vec<PathBuf>,
    /// Beside other names of the same file: read and written as the first.
    twins: Vec<PathBuf>,
    /// `true` if its folder is made if it is not there.
    is_in_state_dir: bool,
    /// State of a mirrored flash that it names.
    mirror: Option<NotedMirror>,
}

/// State of a mirrored flash that all its notes name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotedMirror(Arc<Mutex<MirrorNotes>>);

#[derive(Debug, Default)]
struct MirrorNotes {
    noted: Option<Noted>,
    places: Vec<NotePlace>,
}

impl NotedMirror {
    /// Say that from now on, and at once in every note that is there.
    ///
    /// # Errors
    /// If a note cannot be read or written.
    pub(crate) fn set(&self, noted: Noted) -> Result<(), SideFileError> {
        let mut all = self.lock();
        all.noted = Some(noted);
        for place in &all.places {
            if let Some(note) = place.load()? {
                place.store_saying(note, Some(noted))?;
            }
        }
        Ok(())
    }

    /// Let a note say it, too.
    pub(crate) fn add(&self, place: &mut NotePlace) {
        let mut notes = self.lock();
        if !notes.places.iter().any(|known| known.path == place.path) {
            notes.places.push(place.clone());
        }
        place.mirror = Some(self.clone());
    }

    fn lock(&self) -> MutexGuard<'_, MirrorNotes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NotePlace {
    /// Create a note at this path.
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            former: vec![],
            twins: vec![],
            is_in_state_dir: false,
            mirror: None,
        }
    }

    /// Return the note of a file or a block device.
    ///
    /// # Errors
    /// If the path leads nowhere, or a block device has no state directory.
    pub(crate) fn of(device: &Path, state_dir: Option<&Path>) -> Result<Self> {
        let metadata = fs::metadata(device).ok();
        let number = metadata.as_ref().filter(|found| found.file_type().is_block_device());
        if let Some(number) = number.map(MetadataExt::rdev) {
            return Self::of_block_device(device, number, state_dir);
        }
        let resolved = resolve(device)?;
        let mut place = Self::at(&SideFile::path(&resolved));
        place.former = place.others([SideFile::path(device)]);
        if metadata.is_some_and(|found| found.nlink() > 1) {
            place.twins =
                place.others(hard_links(&resolved)?.iter().map(|name| SideFile::path(name)));
            let twins = &place.twins;
            place.former.retain(|path| !twins.contains(path));
        }
        Ok(place)
    }

    fn of_block_device(device: &Path, number: u64, state_dir: Option<&Path>) -> Result<Self> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let mut names = names(Path::new("/sys"), Path::new("/dev"), (major, minor));
        if names.is_empty() {
            warn!(
                device = %device.display(),
                "nothing identifies the device but its number, which may change: keep it the same"
            );
            names.push(format!("number-{major}-{minor}"));
        }
        let folder = state_dir.map_or_else(default_state_dir, |folder| Ok(folder.to_owned()))?;
        let mut notes = names.iter().map(|name| SideFile::path(&folder.join(escape(name))));
        let mut place = Self::at(&notes.next().context("a device has a name")?);
        place.is_in_state_dir = true;
        let beside = [SideFile::path(device), SideFile::path(&device.canonicalize()?)];
        place.former = place.others(notes.chain(beside));
        Ok(place)
    }

    /// Return the paths that are not the place itself, each once, resolved.
    fn others(&self, paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
        let own = resolve_folder(&self.path);
        let mut others: Vec<PathBuf> = paths
            .into_iter()
            .map(|path| resolve_folder(&path))
            .filter(|path| *path != own)
            .collect();
        others.sort();
        others.dedup();
        others
    }

    /// Return the path of the note.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Read the note, if there is one, from any location. Of several, the one of the later start
    /// counts, and one that says more is dirty.
    ///
    /// # Errors
    /// If a file cannot be read or is not a note.
    pub(crate) fn load(&self) -> Result<Option<SideFile>, SideFileError> {
        let mut found: Option<SideFile> = None;
        for path in [&self.path].into_iter().chain(&self.twins).chain(&self.former) {
            let Some(note) = SideFile::load(path)? else { continue };
            found = Some(match found {
                Some(found) if !is_weightier(&note, &found) => found,
                _ => note,
            });
        }
        Ok(found)
    }

    /// Writes the note, durably, and removes what an earlier version wrote elsewhere.
    ///
    /// # Errors
    /// If the operating system reports an error.
    pub(crate) fn store(&self, note: SideFile) -> Result<(), SideFileError> {
        match &self.mirror {
            None => self.store_saying(note, None),
            Some(mirror) => {
                // Nothing comes between what is said of the members and the note.
                let notes = mirror.lock();
                self.store_saying(note, notes.noted)
            }
        }
    }

    /// Return what the note says of a mirrored flash.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(crate) fn noted(&self) -> Result<Option<Noted>, SideFileError> {
        let mut newest: Option<Noted> = None;
        for path in [&self.path].into_iter().chain(&self.twins).chain(&self.former) {
            let noted = SideFile::noted(path)?;
            if noted.map(|it| it.generation) > newest.map(|it| it.generation) {
                newest = noted;
            }
        }
        Ok(newest)
    }

    fn store_saying(&self, note: SideFile, noted: Option<Noted>) -> Result<(), SideFileError> {
        let io = |source| SideFileError::Io { path: self.path.clone(), source };
        if let Some(folder) = self.path.parent().filter(|_| self.is_in_state_dir) {
            make_folder(folder).map_err(io)?;
        }
        for path in self.twins.iter().chain([&self.path]) {
            note.store_with(path, noted)?;
        }
        for path in &self.former {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    warn!(note = %path.display(), %error, "cannot remove an earlier note");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Return `true` if a note counts more than another of the same backing store.
fn is_weightier(note: &SideFile, than: &SideFile) -> bool {
    let weight = |note: &SideFile| {
        if note.cache == than.cache { (note.epoch, note.has_dirty) } else { (0, note.has_dirty) }
    };
    let other = if note.cache == than.cache { than.epoch } else { 0 };
    weight(note) > (other, than.has_dirty)
}

/// Makes a state directory that is not there; only its owner may look into it.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.exists() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    fs::File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

/// Return a path without links; of a file that is not there yet, its folder's.
fn resolve(path: &Path) -> Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(resolve_folder(path)),
        resolved => resolved.with_context(|| format!("`{}`", path.display())),
    }
}

fn resolve_folder(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Return the other names of a file in its folder.
fn hard_links(path: &Path) -> Result<Vec<PathBuf>> {
    let own = fs::metadata(path)?;
    let folder = path.parent().context("a file is in a folder")?;
    let mut names = vec![];
    for entry in fs::read_dir(folder).with_context(|| format!("`{}`", folder.display()))? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if (metadata.dev(), metadata.ino()) == (own.dev(), own.ino()) && entry.path() != path {
            names.push(entry.path());
        }
    }
    if (names.len() as u64) + 1 < own.nlink() {
        warn!(
            file = %path.display(),
            "the file has names in other folders: its note is not found from there, use this one"
        );
    }
    Ok(names)
}

/// Return the default folder of block devices' notes.
fn default_state_dir() -> Result<PathBuf> {
    let variable =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(given) = std::env::var_os("STATE_DIRECTORY") {
        // systemd separates several by colons.
        let given = given.to_string_lossy().split(':').next().map(PathBuf::from);
        if let Some(given) = given.filter(|path| path.is_absolute()) {
            return Ok(given);
        }
    }
    if rustix::process::geteuid().is_root() {
        return Ok(ROOT_STATE.into());
    }
    variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .map(|folder| folder.join("thermocline"))
        .context("there is no state directory for the note of a block device: set `state_dir`")
}

/// Return the names that identify a block device independent of its number, the best first.
fn names(sys: &Path, dev: &Path, (major, minor): (u32, u32)) -> Vec<String> {
    let Ok(node) = sys.join(format!("dev/block/{major}:{minor}")).canonicalize() else {
        return vec![];
    };
    let part = attribute(&node.join("partition"));
    let disk = node.parent().filter(|_| part.is_some()).unwrap_or(&node);
    let suffix = part.as_ref().map_or_else(String::new, |part| format!("-part{part}"));
    if let Some(file) = attribute(&disk.join("loop/backing_file")) {
        let offset = attribute(&disk.join("loop/offset")).filter(|offset| offset != "0");
        let offset = offset.map_or_else(String::new, |offset| format!("-at{offset}"));
        return vec![format!("loop-{file}{offset}{suffix}")];
    }
    let mut names = vec![];
    let uevent = attribute(&node.join("uevent")).unwrap_or_default();
    names.extend(uevent.lines().find_map(|line| line.strip_prefix("PARTUUID=")).map(partition));
    names.extend(links_to(&node, &dev.join("disk/by-partuuid")).iter().map(|uuid| partition(uuid)));
    let attributes = ["dm/uuid", "md/uuid", "wwid", "device/wwid", "serial", "device/serial"];
    for name in attributes {
        let value = attribute(&disk.join(name));
        names.extend(value.map(|value| format!("{}-{value}{suffix}", name.replace('/', "-"))));
    }
    names.extend(links_to(&node, &dev.join("disk/by-id")).iter().map(|id| format!("id-{id}")));
    names.dedup();
    names
}

fn partition(uuid: &str) -> String {
    format!("partuuid-{uuid}")
}

/// Read a file of sysfs that is not empty.
fn attribute(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Return the links in a folder that lead to a device node of that name, in order.
fn links_to(node: &Path, folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.file_name() == node.file_name())
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Return a name as one of a file.
fn escape(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            escaped.push(byte.into());
        } else {
            escaped.push_str(&format!("%{byte:02x}"));
        }
    }
    if escaped.len() > NAME_BYTES_MAX {
        // FNV-1a: a name of a file must not change with the version of a library.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        escaped.truncate(NAME_BYTES_MAX - 17);
        escaped.push_str(&format!("-{hash:016x}"));
    }
    escaped
}

/// Return the commands and options that help where a flash and a backing store do not go together.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other errors are no choice to be made")]
pub(crate) fn remedy(error: &SideFileError) -> Option<&'static str> {
    Some(match error {
        SideFileError::Dirty { .. } => "`thermocline cache forget --backing` gives it up",
        SideFileError::OtherBacking { .. } => "`thermocline cache drain --without-note` does that",
        SideFileError::OldFlash { .. } | SideFileError::OldBacking { .. } => {
            "--force-init gives up what the flash holds"
        }
        SideFileError::DirtyElsewhere { .. } => {
            "`thermocline cache forget --backing` gives them up"
        }
        SideFileError::ChangedBacking { .. } => {
            "`thermocline cache drain --despite-changes` writes the pages, `thermocline cache forget \
             --yes` gives them up"
        }
        SideFileError::ShrunkBacking { .. } => {
            "`thermocline cache drain` writes the pages back, `thermocline cache forget --yes` gives \
             them up"
        }
        SideFileError::ForeignFlash => "--force-init sets the flash up",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Return a machine with a disk of one partition, and a loop device.
    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = [
            ("sys/devices/sda/device/wwid", "t10.ATA disk 1\n"),
            ("sys/devices/sda/sda1/partition", "1\n"),
            ("sys/devices/sda/sda1/uevent", "MAJOR=8\nPARTN=1\n"),
            ("sys/devices/loop7/loop/backing_file", "/a folder/disk.img\n"),
            ("sys/devices/loop7/loop/offset", "0\n"),
            ("sys/devices/loop7/loop7p2/partition", "2\n"),
            ("sys/devices/bare/size", "1\n"),
        ];
        for (name, text) in files {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        }
        for name in ["sys/dev/block", "dev/disk/by-partuuid", "dev/disk/by-id"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        let nodes = [
            ("8:0", "sda"),
            ("8:1", "sda/sda1"),
            ("7:7", "loop7"),
            ("259:0", "loop7/loop7p2"),
            ("1:1", "bare"),
        ];
        for (number, node) in nodes {
            let link = path("sys/dev/block").join(number);
            symlink(path("sys/devices").join(node), link).unwrap();
        }
        symlink("../../sda1", path("dev/disk/by-partuuid/1234-01")).unwrap();
        symlink("../../sda", path("dev/disk/by-id/ata-disk_1")).unwrap();
        folder
    }

    #[test]
    fn a_device_is_named_by_what_it_keeps() {
        let machine = machine();
        let names =
            |number| names(&machine.path().join("sys"), &machine.path().join("dev"), number);
        assert_eq!(names((8, 0)), ["device-wwid-t10.ATA disk 1", "id-ata-disk_1"]);
        assert_eq!(names((8, 1)), ["partuuid-1234-01", "device-wwid-t10.ATA disk 1-part1"]);
        assert_eq!(names((7, 7)), ["loop-/a folder/disk.img"]);
        assert_eq!(names((259, 0)), ["loop-/a folder/disk.img-part2"]);
        assert!(names((1, 1)).is_empty() && names((2, 2)).is_empty());
    }

    #[test]
    fn names_of_files_are_distinct_and_short() {
        assert_eq!(escape("loop-/a b"), "loop-%2fa%20b");
        assert_ne!(escape("/a-b"), escape("/a/b"));
        let (long, other) = ("/x".repeat(300), "/x".repeat(301));
        assert_eq!(escape(&long).len(), NAME_BYTES_MAX);
        assert_ne!(escape(&long), escape(&other));
    }

    #[test]
    fn of_two_notes_the_later_or_the_dirty_counts() {
        let (one, two) =
            (thermocline_engine::Uuid::from_u128(1), thermocline_engine::Uuid::from_u128(2));
        let note =
            |cache, epoch, has_dirty| SideFile { has_dirty, ..SideFile::running(cache, epoch) };
        assert!(is_weightier(&note(one, 3, false), &note(one, 2, true)));
        assert!(is_weightier(&note(one, 2, true), &note(one, 2, false)));
        assert!(!is_weightier(&note(one, 2, false), &note(one, 2, true)));
        assert!(is_weightier(&note(one, 1, true), &note(two, 9, false)));
        assert!(!is_weightier(&note(one, 9, false), &note(two, 1, true)));
    }
}
