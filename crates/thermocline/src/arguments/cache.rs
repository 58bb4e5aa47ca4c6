//! Options of `cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::size;
use crate::backing::BackingLocation;
use crate::bytes::ByteRange;

#[derive(Args, Debug)]
pub(crate) struct CacheOptions {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
    /// Folder of the notes of block devices, as `state_dir` of the server's configuration
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) state_dir: Option<PathBuf>,
    /// The second device of a mirrored flash
    #[arg(long, global = true, value_name = "DEVICE")]
    pub(crate) mirror: Option<PathBuf>,
    /// Use one device of a mirrored flash if the other one is missing or outdated
    #[arg(long, global = true, requires = "mirror")]
    pub(crate) degraded: bool,
    /// The volume of the flash or of the server, if there are several
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) volume: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Show the contents of a flash
    Inspect {
        /// The flash, a file or a block device
        flash: PathBuf,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Read every page of a flash and compare its checksum
    Check {
        /// The flash, a file or a block device
        flash: PathBuf,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Write every page that the backing store lacks to it
    Drain {
        /// The flash, a file or a block device
        flash: PathBuf,
        /// The backing store that it caches: a file, a block device, or an NBD address
        #[arg(long)]
        backing: BackingLocation,
        /// The note of an NBD export, if it is not beside the flash
        #[arg(long)]
        note: Option<PathBuf>,
        /// Drain even if no note beside the backing store says that they belong together
        #[arg(long)]
        without_note: bool,
        /// Drain even if something else wrote to the backing store since the last stop
        #[arg(long)]
        despite_changes: bool,
        /// Keep the pages on flash, for a backing store that nothing else will write to
        #[arg(long)]
        keep_clean: bool,
    },
    /// Replace the flash of a running server while it serves its clients
    ///
    /// The server writes the dirty pages of its flash back, closes it, and caches on the new one. Change
    /// `flash.path` in the configuration before the next start.
    ///
    /// With --member, the server replaces one of the two devices of a mirrored flash: it copies what the flash
    /// holds to the new device, and uses the old one until that is complete.
    ///
    /// With --mirror, the new flash has two devices, and losing either one loses nothing. The second one may be the
    /// old flash: it joins once the server has left it. Until everything is copied there, the new flash is not
    /// mirrored.
    Replace {
        /// The configuration that the server was started with
        config: PathBuf,
        /// The new flash, a file or a block device that holds nothing
        #[arg(long)]
        flash: PathBuf,
        /// The device of a mirrored flash that is replaced, in use or not
        #[arg(long, value_name = "DEVICE", conflicts_with_all = ["size", "yes"])]
        member: Option<PathBuf>,
        /// Bytes per second that are copied at most to a device of a mirrored flash, as in 50MiB; by default 200MiB
        #[arg(long, value_parser = size)]
        rate: Option<u64>,
        /// Size that the policy may use there, as in 64GiB; by default as much as on the old flash
        #[arg(long, value_parser = size)]
        size: Option<u64>,
        /// Discard the contents of the new flash
        #[arg(long)]
        force_init: bool,
        /// Replace even if pages are lost; a later start does not know which ones
        #[arg(long)]
        yes: bool,
    },
    /// Write the pages of a range back, and remove them from the cache of a running server
    ///
    /// When the command ends, the backing store durably has the range as it was when the command began. The
    /// policy starts again with the pages that stay: it keeps their order, and loses its history of others.
    Evict {
        /// The configuration that the server was started with
        config: PathBuf,
        /// Range of bytes: OFFSET+LENGTH or START-END, as in 1GiB+64MiB
        range: ByteRange,
    },
    /// Read the pages of a range into the cache of a running server
    ///
    /// The policy decides which of them stay, as if a client had read them.
    Promote {
        /// The configuration that the server was started with
        config: PathBuf,
        /// Range of bytes: OFFSET+LENGTH or START-END, as in 1GiB+64MiB
        range: ByteRange,
    },
    /// Keep the pages of a range in the cache of a running server until they are unpinned
    ///
    /// They stay whatever the policy decides, also over restarts. `flash.pinned` reserves the room for them.
    Pin {
        /// The configuration that the server was started with
        config: PathBuf,
        /// Range of bytes: OFFSET+LENGTH or START-END, as in 1GiB+64MiB
        range: ByteRange,
    },
    /// Let the pages of a range go that were pinned
    ///
    /// They leave the cache. The policy decides about them again when they are accessed.
    Unpin {
        /// The configuration that the server was started with
        config: PathBuf,
        /// Range of bytes: OFFSET+LENGTH or START-END, as in 1GiB+64MiB
        range: ByteRange,
    },
    /// Write the pages of a volume back, and remove it from the flash that it shares with others
    ///
    /// Name the volume with --volume. Remove its `[[volume]]` from the configuration before the next start,
    /// which would add it again.
    RemoveVolume {
        /// The flash, a file or a block device
        flash: PathBuf,
        /// The backing store that the volume caches: a file, a block device, or an NBD address
        #[arg(long)]
        backing: Option<BackingLocation>,
        /// The note of an NBD export
        #[arg(long, requires = "backing")]
        note: Option<PathBuf>,
        /// Discard pages that the backing store lacks
        #[arg(long, conflicts_with = "backing")]
        yes: bool,
    },
    /// Discard the contents of a flash, or of a flash that is gone
    Forget {
        /// The flash, a file or a block device, if it is there
        #[arg(required_unless_present = "backing")]
        flash: Option<PathBuf>,
        /// The backing store, which may be served without the flash from then on
        #[arg(long)]
        backing: Option<BackingLocation>,
        /// The note of an NBD export, if it is not beside the flash
        #[arg(long, requires = "backing")]
        note: Option<PathBuf>,
        /// Discard even pages that the backing store lacks
        #[arg(long)]
        yes: bool,
    },
}
