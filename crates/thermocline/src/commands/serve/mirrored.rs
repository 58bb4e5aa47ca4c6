//! A flash of two devices at a start: which of them are used, and what is done before.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::flash::{FileLanes, FlashDevice};
use thermocline_engine::{
    Asked, FoundMember, Keeper, Label, Lane, MEMBER_HEAD_BYTES, Member, Mirror, MirrorError, Noted,
    Pairing, Uuid, reconcile,
};
use tracing::{error, info, warn};

use super::devices::lock_flash;
use super::joining::{Members, NewMember};
use super::shared_flash::LaneSyncs;
use crate::note::NotedMirror;

/// Interval at which a note that could not be written is tried again.
pub(super) const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// A mirrored flash that was opened and locked.
pub(crate) struct Pair {
    /// The flash, as it is used from now on.
    pub(crate) device: FlashDevice,
    pub(crate) notes: NotedMirror,
    /// The devices with their labels, by their places in the configuration.
    whole: [Option<DeviceFile>; 2],
    paths: [PathBuf; 2],
    pairing: Pairing,
    /// The label of a new pair, or of the members in use.
    label: Label,
    caching: Caching,
    joining: JoiningFiles,
}

/// Devices that join, with their labels, by their lanes.
pub(super) type JoiningFiles = Arc<Mutex<BTreeMap<Lane, DeviceFile>>>;

/// Devices that a mirrored flash shall have, and leave of the operator.
pub(crate) struct Wanted<'a> {
    pub(crate) paths: [&'a Path; 2],
    pub(crate) caching: Caching,
    pub(crate) asked: Asked,
}

impl Pair {
    /// Open and lock both devices as far as they are there, and decide what to do with them. Makes them alike
    /// after a power failure; nothing else is changed.
    ///
    /// # Errors
    /// Devices that must not be used together, or alone; the error names the remedy.
    pub(crate) fn open(
        wanted: &Wanted<'_>,
        disks: &[&DeviceFile],
        may_be_new: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        let Wanted { paths, caching, asked } = *wanted;
        let mut whole: [Option<DeviceFile>; 2] = [None, None];
        let mut found: [Option<FoundMember>; 2] = [None, None];
        // The devices that exist say whether the others may be made.
        let [first, second] = paths.map(Path::exists);
        let order = if second && !first { [1, 0] } else { [0, 1] };
        for place in order {
            let path = paths[place];
            let other = found[1 - place].as_ref();
            let is_new = asked.forces_init || other.is_none_or(FoundMember::is_unused);
            let is_copy = asked.resilvers && matches!(other, Some(FoundMember::Labelled(_)));
            if !path.exists() && !is_new && !is_copy {
                found[place] = Some(FoundMember::Absent(io::ErrorKind::NotFound.into()));
                continue;
            }
            if let Some(other) = &whole[1 - place] {
                ensure!(
                    !other.is_at(path)?,
                    "`flash.path` and `flash.mirror`: `{}` was given twice: name another device",
                    path.display()
                );
            }
            let may_be_new = || if is_new { may_be_new() } else { Ok(()) };
            let disks = disks.iter().copied();
            let mut file =
                lock_flash(path, caching, disks, may_be_new).with_context(|| in_path(path))?;
            found[place] = Some(FoundMember::look(&mut file));
            whole[place] = Some(file);
        }
        let absent = || FoundMember::Absent(io::ErrorKind::NotFound.into());
        let found = found.map(|found| found.unwrap_or_else(absent));
        let mut pairing = Pairing::choose(found, asked).map_err(|error| remedied(&error, paths))?;
        if let Pairing::Both { labels } = pairing {
            let [Some(one), Some(other)] = &whole else { bail!("both devices are there") };
            let (mut one, mut other) = (content(one)?, content(other)?);
            if let Err(error) = reconcile([&mut one, &mut other]) {
                let decided = match error.place() {
                    Some(place) => Pairing::without((1 - place, labels[1 - place]), error, asked),
                    None => Err(error),
                };
                pairing = decided.map_err(|error| remedied(&error, paths))?;
            }
        }
        Self::assemble(whole, wanted, pairing)
    }

    /// Set up devices that were locked as a new pair: both, or the first one alone. Their content is given up.
    ///
    /// # Errors
    /// If a device fails.
    pub(super) fn set_up(
        whole: [Option<DeviceFile>; 2],
        paths: [&Path; 2],
        caching: Caching,
    ) -> Result<Self> {
        let label = Label { is_alone: whole[1].is_none(), ..new_label() };
        let pairing =
            if label.is_alone { Pairing::Alone { place: 0, label } } else { Pairing::SetUp };
        let wanted = Wanted { paths, caching, asked: Asked::default() };
        let mut pair = Self::assemble(whole, &wanted, pairing)?;
        // Until the last label is there, they are being set up.
        for generation in [0, label.generation] {
            pair.write_labels(Label { generation, ..label })?;
        }
        let alone = label.is_alone.then_some(Member::First);
        pair.notes.set(Noted { generation: label.generation, alone })?;
        Ok(pair)
    }

    fn assemble(
        whole: [Option<DeviceFile>; 2],
        wanted: &Wanted<'_>,
        pairing: Pairing,
    ) -> Result<Self> {
        let (paths, caching) = (wanted.paths.map(Path::to_path_buf), wanted.caching);
        let notes = NotedMirror::default();
        let (only, label) = match pairing {
            Pairing::SetUp => (None, new_label()),
            Pairing::Both { labels } => (None, labels[0]),
            Pairing::Alone { label, .. } | Pairing::Resilver { label, .. } => {
                (Some(label.member), label)
            }
        };
        let mut members: [Option<DeviceFile>; 2] = [None, None];
        for (place, file) in whole.iter().enumerate() {
            let Some(file) = file else { continue };
            let member = member_at(&pairing, place);
            // One that is not used is open to whoever wants it, also to join again.
            if only.is_none_or(|only| only == member) {
                members[member as usize] = Some(content(file)?);
            }
        }
        let joining = JoiningFiles::default();
        let keeper = FlashKeeper {
            files: by_member(&whole, &pairing, only)?,
            joining: Arc::clone(&joining),
            label,
            notes: notes.clone(),
            failed_at: None,
            labelled: None,
        };
        let mirror = Arc::new(Mirror::new(only, label.generation, Box::new(keeper)));
        let device = FlashDevice::of_two(members, mirror);
        Ok(Self { device, notes, whole, paths, pairing, label, caching, joining })
    }

    /// Take the steps that come before anything is written: labels of a new pair, or the generation of a member that
    /// goes on alone.
    ///
    /// # Errors
    /// If a device or a note fails.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        let mirror = self.device.mirror().map(Arc::clone).context("it is mirrored")?;
        match self.pairing {
            Pairing::SetUp => {
                let label = self.label;
                // Until both say otherwise, they are being set up.
                for generation in [0, label.generation] {
                    self.write_labels(Label { generation, ..label })?;
                }
                info!("set up the two devices of the mirrored flash");
            }
            Pairing::Both { labels } => {
                if labels.iter().any(|label| label.is_alone) {
                    self.write_labels(Label { is_alone: false, ..labels[0] })?;
                }
            }
            Pairing::Alone { label, .. } | Pairing::Resilver { label, .. } => {
                mirror.go_alone().context("the flash cannot go on with one device")?;
                warn!(
                    device = name(label.member),
                    "the flash goes on with one of its two devices: what it holds is not mirrored"
                );
                return Ok(());
            }
        }
        // After the labels: with a note ahead of both of them, every start would be refused.
        self.notes.set(Noted { generation: mirror.generation(), alone: None })?;
        Ok(())
    }

    /// Writes a label to both devices, to each as the member that it is.
    fn write_labels(&mut self, label: Label) -> Result<()> {
        for (place, file) in self.whole.iter_mut().enumerate() {
            let member = member_at(&self.pairing, place);
            let Some(file) = file.as_mut() else { continue };
            let in_path = || in_path(&self.paths[place]);
            file.reserve(MEMBER_HEAD_BYTES).with_context(in_path)?;
            Label { member, ..label }.write(file).with_context(in_path)?;
        }
        Ok(())
    }

    /// Return the devices for a server that runs, whose writers share these syncs.
    ///
    /// # Errors
    /// If the system gives no more file descriptors.
    pub(super) fn into_members(self, syncs: Option<&LaneSyncs>) -> Result<Arc<Members>> {
        let Self { device, notes, mut whole, paths, pairing, caching, joining, label } = self;
        let FlashDevice::Two(pair) = &device else { bail!("it is mirrored") };
        let joins = match pairing {
            Pairing::Resilver { place, .. } => whole[1 - place]
                .take()
                .map(|file| NewMember { file, path: paths[1 - place].clone() }),
            Pairing::SetUp | Pairing::Both { .. } | Pairing::Alone { .. } => None,
        };
        let mut by_member = paths.clone();
        for (place, path) in paths.into_iter().enumerate() {
            by_member[member_at(&pairing, place) as usize] = path;
        }
        let (mirror, lanes) = (Arc::clone(pair.mirror()), pair.lanes().clone());
        let syncs = syncs.cloned();
        let open = Open { mirror, lanes, joining, syncs, caching, pair: label.pair };
        Ok(Arc::new(Members::new(open, notes, by_member, joins)))
    }
}

/// Devices of a mirrored flash that a server uses.
pub(super) struct Open {
    pub(super) mirror: Arc<Mirror>,
    pub(super) lanes: FileLanes,
    pub(super) joining: JoiningFiles,
    /// The syncs of the devices, if there are several writers.
    pub(super) syncs: Option<LaneSyncs>,
    pub(super) caching: Caching,
    /// Identity of the pair.
    pub(super) pair: Uuid,
}

/// The devices of a mirrored flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MirrorStatus {
    /// Number of devices in use: 2, or 1 once the other one has failed or was missing.
    pub(crate) members: u64,
    /// Operations that failed, per device.
    pub(crate) errors: [u64; 2],
    /// Progress of the copy for a device that joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) copying: Option<CopyStatus>,
}

/// The copy for a device that joins a mirrored flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopyStatus {
    pub(crate) copied_bytes: u64,
    pub(crate) all_bytes: u64,
}

impl MirrorStatus {
    /// Return which devices are in use.
    pub(crate) fn of(mirror: &Mirror) -> Self {
        let members = Member::EACH.map(|member| u64::from(mirror.uses(member))).iter().sum();
        let errors = Member::EACH.map(|member| mirror.errors(member));
        let copying = mirror.join_progress();
        let copying =
            copying.map(|[copied_bytes, all_bytes]| CopyStatus { copied_bytes, all_bytes });
        Self { members, errors, copying }
    }
}

/// Makes durable which device goes on alone, and says so in the log.
struct FlashKeeper {
    files: [Option<DeviceFile>; 2],
    joining: JoiningFiles,
    label: Label,
    notes: NotedMirror,
    /// When a note could not be written last.
    failed_at: Option<Instant>,
    /// The survivor and the generation of the label that was written last, while its note is due.
    labelled: Option<(Member, u64)>,
}

impl FlashKeeper {
    fn write(&mut self, member: Member, generation: u64, is_alone: bool) -> io::Result<()> {
        self.labelled = None;
        let label = Label { member, generation, is_alone, ..self.label };
        let file = self.files[member as usize].as_mut();
        label.write(file.ok_or(io::ErrorKind::NotConnected)?)?;
        self.labelled = is_alone.then_some((member, generation));
        Ok(())
    }
}

impl Keeper for FlashKeeper {
    fn label(&mut self, survivor: Member, generation: u64) -> io::Result<()> {
        // Each operation that waits asks again. The label of the other member says nothing of this one.
        if self.labelled == Some((survivor, generation)) {
            return Ok(());
        }
        self.write(survivor, generation, true)
    }

    fn note(&mut self, survivor: Member, generation: u64) -> io::Result<()> {
        if self.failed_at.is_some_and(|at| at.elapsed() < NOTE_INTERVAL) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let noted = Noted { generation, alone: Some(survivor) };
        match self.notes.set(noted) {
            Ok(()) => {
                (self.failed_at, self.labelled) = (None, None);
                // Closed, so that it can be locked again to join.
                self.files[survivor.other() as usize] = None;
                error!(
                    device = name(survivor.other()),
                    "a device of the mirrored flash is not used any more: the other one goes on alone"
                );
                Ok(())
            }
            Err(error) => {
                self.failed_at = Some(Instant::now());
                error!(
                    %error,
                    "the note of the backing store cannot be written: operations of the flash wait until it can"
                );
                Err(io::Error::other(error))
            }
        }
    }

    fn joins(&mut self, member: Member, lane: Lane) {
        let mut joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        self.files[member as usize] = joining.remove(&lane);
    }

    fn label_both(&mut self, member: Member, generation: u64) -> io::Result<()> {
        self.write(member, generation, false)
    }

    fn note_both(&mut self, generation: u64) {
        if let Err(error) = self.notes.set(Noted { generation, alone: None }) {
            warn!(%error, "the note of the backing store does not say yet that the flash is mirrored again");
        }
    }
}

pub(super) const fn name(member: Member) -> &'static str {
    match member {
        Member::First => "first",
        Member::Second => "second",
    }
}

/// Return the label of a pair that is set up.
fn new_label() -> Label {
    Label {
        pair: Uuid::new_v4(),
        member: Member::First,
        generation: 1,
        is_alone: false,
        content_bytes: 0,
    }
}

/// Return the content of a member, without its label.
pub(super) fn content(file: &DeviceFile) -> io::Result<DeviceFile> {
    file.region(MEMBER_HEAD_BYTES..u64::MAX)
}

/// Return the member that the device at a place of the configuration is.
fn member_at(pairing: &Pairing, place: usize) -> Member {
    match pairing {
        Pairing::SetUp => Member::EACH[place],
        Pairing::Both { labels } => labels[place].member,
        Pairing::Alone { place: own, label } | Pairing::Resilver { place: own, label } => {
            if place == *own { label.member } else { label.member.other() }
        }
    }
}

/// Return the devices in use by the members that they are.
fn by_member(
    whole: &[Option<DeviceFile>; 2],
    pairing: &Pairing,
    only: Option<Member>,
) -> io::Result<[Option<DeviceFile>; 2]> {
    let mut members = [None, None];
    for (place, file) in whole.iter().enumerate() {
        let member = member_at(pairing, place);
        let file = file.as_ref().filter(|_| only.is_none_or(|only| only == member));
        members[member as usize] = file.map(DeviceFile::try_clone).transpose()?;
    }
    Ok(members)
}

/// Return the error with the device and the options that help.
fn remedied(error: &MirrorError, paths: [&Path; 2]) -> Error {
    let remedy = match (error.allows_resilver(), error.allows_degraded()) {
        (true, _) => {
            "; nothing was changed: --resilver copies the other device to it, --degraded starts without it"
        }
        (false, true) => {
            "; nothing was changed: --degraded starts without it, --resilver copies the other device to a blank one"
        }
        (false, false) => "; nothing was changed",
    };
    let device = match error.place() {
        Some(0) => format!("`flash.path`: `{}`", paths[0].display()),
        Some(_) => format!("`flash.mirror`: `{}`", paths[1].display()),
        None => format!(
            "`flash.path` and `flash.mirror`: `{}`, `{}`",
            paths[0].display(),
            paths[1].display()
        ),
    };
    Error::msg(format!("{device}: {error}{remedy}"))
}

fn in_path(path: &Path) -> String {
    format!("`{}`", path.display())
}

#[cfg(test)]
mod tests {
    use thermocline_engine::driver::files::LOCK_PATIENCE;

    use super::*;
    use crate::note::NotePlace;

    #[test]
    fn a_note_that_is_due_names_no_member_without_its_label() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = folder.path().join(name);
            let mut file =
                DeviceFile::create_within(&path, Caching::Buffered, LOCK_PATIENCE).unwrap();
            file.reserve(MEMBER_HEAD_BYTES).unwrap();
            new_label().write(&mut file).unwrap();
            Some(file)
        };
        // A note that cannot be read, so that no note can be written.
        let place = folder.path().join("note");
        std::fs::write(&place, "no note").unwrap();
        let notes = NotedMirror::default();
        notes.add(&mut NotePlace::at(&place));
        let mut keeper = FlashKeeper {
            files: [open("first"), open("second")],
            joining: JoiningFiles::default(),
            label: new_label(),
            notes,
            failed_at: None,
            labelled: None,
        };
        let label_of =
            |survivor: Member| std::fs::read(folder.path().join(name(survivor))).unwrap();
        for survivor in Member::EACH {
            let before = label_of(survivor);
            keeper.label(survivor, 2).unwrap();
            assert_ne!(
                label_of(survivor),
                before,
                "the note would name a member without this label"
            );
            keeper.note(survivor, 2).unwrap_err();
        }
        // A pair that is whole again has other labels.
        keeper.label_both(Member::Second, 2).unwrap();
        let before = label_of(Member::Second);
        keeper.label(Member::Second, 2).unwrap();
        assert_ne!(label_of(Member::Second), before);
        std::fs::remove_file(&place).unwrap();
        keeper.failed_at = None;
        keeper.note(Member::Second, 2).unwrap();
    }
}
