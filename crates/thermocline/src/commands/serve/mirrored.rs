//! A flash of two devices at a start: which of them are used, and what is done before.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use thermocline_engine::driver::files::{Caching, DeviceFile};
use thermocline_engine::driver::flash::FlashDevice;
use thermocline_engine::{
    Asked, FlashSet, FoundMember, Keeper, Label, MEMBER_HEAD_BYTES, Member, Mirror, MirrorError,
    MirrorStorage, Noted, Pairing, Uuid, reconcile, resilver,
};
use tracing::{error, info, warn};

use super::devices::lock_flash;
use crate::note::NotedMirror;

/// How often a note is tried again that could not be written.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

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
}

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
        // What is there says whether the rest may be made.
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
        Self::assemble(whole, paths, pairing)
    }

    fn assemble(
        whole: [Option<DeviceFile>; 2],
        paths: [&Path; 2],
        pairing: Pairing,
    ) -> Result<Self> {
        let paths = paths.map(Path::to_path_buf);
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
            members[member_at(&pairing, place) as usize] = Some(content(file)?);
        }
        let keeper = FlashKeeper {
            files: by_member(&whole, &pairing)?,
            label,
            notes: notes.clone(),
            failed_at: None,
        };
        let mirror = Arc::new(Mirror::new(only, label.generation, Box::new(keeper)));
        let device = FlashDevice::Two(MirrorStorage::new(members, mirror));
        Ok(Self { device, notes, whole, paths, pairing, label })
    }

    /// Take the steps that come before anything is written: labels of a new pair, the generation of a member that
    /// goes on alone, or the copy of a member. `sets` are the flashes on it, each with its beginning; what lies
    /// before `head_bytes` is copied, too.
    ///
    /// # Errors
    /// If a device or a note fails.
    pub(crate) fn prepare(&mut self, head_bytes: u64, sets: &[(u64, &FlashSet)]) -> Result<()> {
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
            Pairing::Alone { label, .. } => {
                mirror.go_alone().context("the flash cannot go on with one device")?;
                warn!(
                    device = name(label.member),
                    "the flash goes on with one of its two devices: what it holds is not mirrored"
                );
                return Ok(());
            }
            Pairing::Resilver { place, label } => self.resilver(place, label, head_bytes, sets)?,
        }
        self.notes.set(Noted { generation: mirror.generation(), alone: None })?;
        Ok(())
    }

    /// Writes a label to both devices, to each as the member that it is.
    fn write_labels(&mut self, label: Label) -> Result<()> {
        for (place, file) in self.whole.iter_mut().enumerate() {
            let member = member_at(&self.pairing, place);
            let file = file.as_mut().context("both devices are there")?;
            let in_path = || in_path(&self.paths[place]);
            file.reserve(MEMBER_HEAD_BYTES).with_context(in_path)?;
            Label { member, ..label }.write(file).with_context(in_path)?;
        }
        Ok(())
    }

    fn resilver(
        &mut self,
        place: usize,
        label: Label,
        head_bytes: u64,
        sets: &[(u64, &FlashSet)],
    ) -> Result<()> {
        let member = label.member.other();
        let [first, second] = &mut self.whole;
        let (source, target) = if place == 0 { (first, second) } else { (second, first) };
        let source_file = source.as_mut().context("the source is there")?;
        let target_file = target.as_mut().context("the target is there")?;
        info!(device = name(member), "copying the mirrored flash to its other device");
        let size_bytes = source_file.size_bytes()?;
        let in_target = || in_path(&self.paths[1 - place]);
        target_file.reserve(size_bytes).with_context(in_target)?;
        Label::erase(target_file).with_context(in_target)?;
        let (mut source, mut target) = (content(source_file)?, content(target_file)?);
        let mut told = Instant::now();
        let watch = |done_bytes: u64, all_bytes: u64| {
            if told.elapsed() > Duration::from_secs(5) {
                told = Instant::now();
                info!(done_bytes, all_bytes, "copying");
            }
        };
        let done = resilver(&mut source, &mut target, member, 0..head_bytes, sets, watch)?;
        let label = Label { is_alone: false, ..label };
        Label { member, ..label }.write(target_file)?;
        label.write(source_file)?;
        if let Some(mirror) = self.device.mirror() {
            mirror.admit();
        }
        info!(pages = done.pages, lost_pages = done.lost_pages, "the flash is mirrored again");
        Ok(())
    }
}

/// The devices of a mirrored flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MirrorStatus {
    /// Number of devices in use: 2, or 1 once the other one has failed or was missing.
    pub(crate) members: u64,
    /// Operations that failed, per device.
    pub(crate) errors: [u64; 2],
}

impl MirrorStatus {
    /// Return which devices are in use.
    pub(crate) fn of(mirror: &Mirror) -> Self {
        let members = Member::EACH.map(|member| u64::from(mirror.uses(member))).iter().sum();
        Self { members, errors: Member::EACH.map(|member| mirror.errors(member)) }
    }
}

/// Makes durable which device goes on alone, and says so in the log.
struct FlashKeeper {
    files: [Option<DeviceFile>; 2],
    label: Label,
    notes: NotedMirror,
    /// When a note could not be written last.
    failed_at: Option<Instant>,
}

impl Keeper for FlashKeeper {
    fn label(&mut self, survivor: Member, generation: u64) -> io::Result<()> {
        if self.failed_at.is_some_and(|at| at.elapsed() < NOTE_INTERVAL) {
            // The label is written, and its note is due.
            return Ok(());
        }
        let label = Label { member: survivor, generation, is_alone: true, ..self.label };
        let file = self.files[survivor as usize].as_mut();
        label.write(file.ok_or(io::ErrorKind::NotConnected)?)
    }

    fn note(&mut self, survivor: Member, generation: u64) -> io::Result<()> {
        if self.failed_at.is_some_and(|at| at.elapsed() < NOTE_INTERVAL) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let noted = Noted { generation, alone: Some(survivor) };
        match self.notes.set(noted) {
            Ok(()) => {
                self.failed_at = None;
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
}

const fn name(member: Member) -> &'static str {
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
fn content(file: &DeviceFile) -> io::Result<DeviceFile> {
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

/// Return the devices by the members that they are.
fn by_member(
    whole: &[Option<DeviceFile>; 2],
    pairing: &Pairing,
) -> io::Result<[Option<DeviceFile>; 2]> {
    let mut members = [None, None];
    for (place, file) in whole.iter().enumerate() {
        let file = file.as_ref().map(DeviceFile::try_clone).transpose()?;
        members[member_at(pairing, place) as usize] = file;
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
