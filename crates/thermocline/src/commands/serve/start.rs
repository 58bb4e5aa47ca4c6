//! State at a start: the note, the flash, and the fingerprint of the backing store.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Result, bail};
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::{
    Fingerprint, FlashError, FlashSet, Found, FoundFlash, FoundSet, Intent, Likeness, Mark, Notice,
    Plan, ShardMap, SideFile, SideFileError, Uuid,
};
use thermocline_nbd::backing::{Access, NbdBacking, NbdStorage};
use thermocline_nbd::uri::NbdUri;
use tracing::{info, warn};

use super::config::Config;
use crate::backing::BackingLocation;

/// Longest wait of an engine that ends for the fingerprint of its backing store.
const FINGERPRINT_LIMIT: Duration = Duration::from_secs(10);

/// Bytes that a fingerprint reads at a time, at least.
const SAMPLE_BYTES: usize = 4096;

/// State of the devices. Nothing was changed.
pub(crate) struct Looked {
    pub(crate) found: FoundSet,
    /// The flash, if it is one.
    pub(crate) flash: Option<FlashSet>,
}

/// Looks at what was read from the flash, if there is one, and at what the note of the backing store says.
///
/// # Errors
/// A flash that cannot be read, unless it is to be given up.
pub(crate) fn look(
    read: Result<Option<FlashSet>, FlashError>,
    note: Option<SideFile>,
    backing_bytes: u64,
    map: ShardMap,
    force_init: bool,
) -> Result<Looked> {
    let (flash, found, regions) = match read {
        Ok(None) => (None, FoundFlash::None, vec![]),
        Ok(Some(flash)) => match flash.check_map(map) {
            Ok(()) => {
                let (first, regions) = (flash.flashes()[0].contents(), flash.each_contents());
                (Some(flash), FoundFlash::Cache(first), regions)
            }
            Err(_) if force_init => (None, FoundFlash::Cache(flash.contents()), vec![]),
            Err(error) => return Err(of_other_shards(error, &flash)),
        },
        Err(FlashError::Empty) => (None, FoundFlash::Blank, vec![]),
        Err(_) if force_init => (None, FoundFlash::Foreign, vec![]),
        Err(error) => return Err(explained(error)),
    };
    let found =
        Found { note, flash: found, backing_bytes, backing: None, new_cache: Uuid::new_v4() };
    Ok(Looked { found: FoundSet { found, regions }, flash })
}

/// Return the error of a flash for which the configuration has another number of shards.
fn of_other_shards(error: FlashError, flash: &FlashSet) -> anyhow::Error {
    let shards = flash.superblock().share.map.number();
    explained(error).context(format!("the configuration may say `shards = {shards}` again"))
}

/// Return `true` if initialising a flash by force helps against an error.
fn can_force(error: &FlashError) -> bool {
    if let FlashError::Region { error, .. } = error {
        return can_force(error);
    }
    matches!(
        error,
        FlashError::Foreign
            | FlashError::HasVolumes
            | FlashError::Damaged
            | FlashError::Format { .. }
            | FlashError::Mixed { .. }
            | FlashError::OtherShards { .. }
    )
}

/// Return an error of a flash; it mentions `--force-init` if that can help.
pub(super) fn explained(error: FlashError) -> anyhow::Error {
    let can_force = can_force(&error);
    let error = anyhow::Error::new(error);
    if can_force {
        error.context("nothing was changed; --force-init gives up what it holds")
    } else {
        error
    }
}

/// Decide what to do with what was found, or why the server must not start; log what was noticed.
///
/// # Errors
/// A flash and a backing store that must not be used together.
pub(crate) fn plan(found: &FoundSet, force_init: bool) -> Result<Plan, SideFileError> {
    let plan = found.plan(if force_init { Intent::ForceInit } else { Intent::Serve })?;
    if let Some(notice) = plan.notice {
        say(notice);
    }
    Ok(plan)
}

/// The backing store when the engine has left it.
#[derive(Debug)]
pub(crate) enum BackingAtEnd {
    File(DeviceFile),
    /// Connected to again: its server may take one client at a time.
    Nbd(NbdUri, Duration),
}

impl BackingAtEnd {
    /// Locate the backing store, which is open if it is a file or block device.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn of(
        file: Option<&DeviceFile>,
        place: &BackingLocation,
        config: &Config,
    ) -> Result<Self> {
        match (file, place) {
            (Some(disk), _) => Ok(Self::File(disk.try_clone()?)),
            (None, BackingLocation::Nbd(uri)) => {
                Ok(Self::Nbd(uri.clone(), config.backing.timeout()))
            }
            (None, BackingLocation::File(path)) => bail!("`{}` is not open", path.display()),
        }
    }

    /// Read the fingerprint of the backing store. If a device does not answer in time, the engine ends
    /// without it.
    pub(crate) fn fingerprint(&self, cache: Uuid, size_bytes: u64) -> Option<Fingerprint> {
        let (sender, taken) = mpsc::channel();
        let take: Box<dyn FnOnce() -> Option<Fingerprint> + Send> = match self {
            Self::File(disk) => {
                let disk = disk.try_clone().ok()?;
                Box::new(move || fingerprint_of_file(&disk, cache, size_bytes))
            }
            Self::Nbd(uri, timeout) => {
                let (uri, timeout) = (uri.clone(), *timeout);
                Box::new(move || {
                    let backing = NbdBacking::connect(uri, Access::ReadOnly).inspect_err(
                        |error| warn!(%error, "cannot connect to the backing store again"),
                    );
                    fingerprint_of_export(backing.ok()?.with_timeout(timeout), cache, size_bytes)
                })
            }
        };
        let thread = std::thread::Builder::new().name("fingerprint".into());
        // Nobody may be left to take it.
        thread.spawn(move || sender.send(take()).unwrap_or_default()).ok()?;
        taken
            .recv_timeout(FINGERPRINT_LIMIT)
            .inspect_err(|_| {
                warn!("the backing store does not answer: the next start cannot compare it");
            })
            .ok()
            .flatten()
    }
}

/// Read the fingerprint of the first bytes of a file or block device; `None` if it cannot be read.
pub(crate) fn fingerprint_of_file(
    file: &DeviceFile,
    cache: Uuid,
    size_bytes: u64,
) -> Option<Fingerprint> {
    let take = || -> std::io::Result<_> {
        let mark = Mark::of(&file.file().metadata()?);
        Fingerprint::take(&mut file.try_clone()?, cache, size_bytes, mark)
    };
    warned(take().map_err(Into::into))
}

/// Read the fingerprint of the first bytes of an export; `None` if it cannot be read.
pub(crate) fn fingerprint_of_export(
    backing: NbdBacking,
    cache: Uuid,
    size_bytes: u64,
) -> Option<Fingerprint> {
    let take = || -> Result<_> {
        let mut storage = NbdStorage::new(backing, SAMPLE_BYTES)?;
        Ok(Fingerprint::take(&mut storage, cache, size_bytes, Mark::None)?)
    };
    warned(take())
}

fn warned(taken: Result<Fingerprint>) -> Option<Fingerprint> {
    taken
        .inspect_err(|error| {
            warn!(
                error = format!("{error:#}"),
                "cannot read the backing store to notice later whether something else wrote to it"
            );
        })
        .ok()
}

/// Says what a plan noticed.
fn say(notice: Notice) {
    match notice {
        Notice::NoteIsMissing => info!(
            "the note of the backing store is missing; the flash itself says that it belongs here, and \
             nothing wrote to the backing store since"
        ),
        Notice::ClearsClean(likeness) => {
            let reason = match likeness {
                Likeness::Changed => "something else wrote to the backing store",
                Likeness::Copied => "the backing store is a copy",
                Likeness::Grown => "the backing store has grown",
                Likeness::Shrunk => "the backing store is shorter",
                Likeness::Same | Likeness::Similar | Likeness::Unknown => {
                    "the backing store may have been used alone"
                }
            };
            warn!(reason, "dropped clean pages on flash, because they may be old");
        }
    }
}
