//! What a start finds: the note, the flash, and the fingerprint of the backing store.

use anyhow::Result;
use thermocline_engine::driver::files::DeviceFile;
use thermocline_engine::{
    Fingerprint, Flash, FlashError, Found, FoundFlash, Likeness, Mark, Notice, SideFile, Uuid,
};
use thermocline_nbd::backing::{NbdBacking, NbdStorage};
use tracing::{info, warn};

/// Bytes that a fingerprint reads at a time, at least.
const SAMPLE_BYTES: usize = 4096;

/// What was found on the devices. Nothing was changed.
pub(crate) struct Looked {
    pub(crate) found: Found,
    /// The flash, if it is one.
    pub(crate) flash: Option<Flash>,
}

/// Looks at a flash, and at what the note of the backing store says.
///
/// # Errors
/// A flash that cannot be read, unless it is to be given up.
pub(crate) fn look(
    flash: Option<&mut DeviceFile>,
    note: Option<SideFile>,
    backing_bytes: u64,
    force_init: bool,
) -> Result<Looked> {
    let read = flash.map(|file| Flash::read(file)).transpose();
    let (flash, found) = match read {
        Ok(None) => (None, FoundFlash::None),
        Ok(Some(flash)) => {
            let contents = flash.contents();
            (Some(flash), FoundFlash::Cache(contents))
        }
        Err(FlashError::Empty) => (None, FoundFlash::Blank),
        Err(_) if force_init => (None, FoundFlash::Foreign),
        Err(error) => return Err(explained(error)),
    };
    let found =
        Found { note, flash: found, backing_bytes, backing: None, new_cache: Uuid::new_v4() };
    Ok(Looked { found, flash })
}

/// An error of a flash, and that force can help where it can.
fn explained(error: FlashError) -> anyhow::Error {
    let can_force =
        matches!(error, FlashError::Foreign | FlashError::Damaged | FlashError::Format { .. });
    let error = anyhow::Error::new(error);
    if can_force {
        error.context("nothing was changed; --force-init gives up what it holds")
    } else {
        error
    }
}

/// The fingerprint of the first bytes of a file or block device; none if it cannot be read.
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

/// The same of an export.
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
pub(crate) fn say(notice: Notice) {
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
            warn!(reason, "clean pages on flash may be old: they are dropped");
        }
    }
}
