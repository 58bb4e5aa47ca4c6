//! Commands to the driver, at `/dev/ublk-control`.
#![expect(unsafe_code, reason = "the kernel reads and writes the buffer of a command")]

use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};

use crate::abi::Control;

const PLACE: &str = "/dev/ublk-control";

/// Reason why there is no device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The driver is not loaded.
    #[error("there is no `{PLACE}`: load the driver with `modprobe ublk_drv`")]
    NoDriver,
    /// The user is not root.
    #[error("this user may not make devices at `{PLACE}`: run as root, or with CAP_SYS_ADMIN")]
    NotAllowed,
    /// The kernel lacks what is needed.
    #[error(
        "the kernel's ublk driver cannot copy bytes by `pread` and keep requests for the next server: expected \
         Linux 6.5 or later"
    )]
    TooOld,
    /// Another server has the device.
    #[error("`/dev/ublkb{id}` is served by process {pid} already: give another `id`")]
    InUse {
        /// The device's number.
        id: u32,
        /// The process that has it.
        pid: i32,
    },
    /// The device belongs to another cache or program.
    #[error(
        "`/dev/ublkb{id}` is there already, and was made for something else than this backing store: give another \
         `id`, or delete it with `ublk del -n {id}`"
    )]
    Foreign {
        /// The device's number.
        id: u32,
    },
    /// The device that a killed server left is another one than the configuration says.
    #[error(
        "`/dev/ublkb{id}` waits for a server with {was}, and the configuration makes it {wanted}: start with what \
         it was, or delete it with `ublk del -n {id}`, which loses the requests that wait"
    )]
    Changed {
        /// The device's number.
        id: u32,
        /// Properties of the device.
        was: String,
        /// Properties that are required.
        wanted: String,
    },
    /// The export is too small.
    #[error("the export has {0} bytes: a block device takes a sector of 512 at least")]
    TooSmall(u64),
    /// The driver or the system refused something.
    #[error("cannot {what}: {source}")]
    Refused {
        /// Refused command.
        what: String,
        /// Error of the driver.
        source: io::Error,
    },
    /// The device did not stop.
    #[error("`/dev/ublkb{id}` does not stop; `fuser -v /dev/ublkb{id}` says who uses it")]
    DoesNotStop {
        /// The device's number.
        id: u32,
    },
}

impl UblkError {
    pub(crate) fn refused(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Refused { what, source }
    }
}

/// Takes commands, as the driver does.
pub(crate) trait Kernel: Debug + Send {
    /// Send a command for a device, with a buffer that it reads or fills, and a word.
    fn command(
        &mut self,
        command: Control,
        id: u32,
        buffer: &mut [u8],
        word: u64,
    ) -> io::Result<()>;
}

/// The driver of this system.
pub(crate) struct Driver {
    file: File,
    ring: IoUring<Entry128, cqueue::Entry>,
}

impl Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Driver {
    pub(crate) fn open() -> Result<Self, UblkError> {
        let file = File::options().read(true).write(true).open(PLACE);
        let file = file.map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                UblkError::NoDriver
            } else if error.kind() == io::ErrorKind::PermissionDenied {
                UblkError::NotAllowed
            } else {
                UblkError::refused(format!("open `{PLACE}`"))(error)
            }
        })?;
        let ring = IoUring::builder().build(4);
        Ok(Self { file, ring: ring.map_err(UblkError::refused("make an io_uring"))? })
    }
}

impl Kernel for Driver {
    fn command(
        &mut self,
        command: Control,
        id: u32,
        buffer: &mut [u8],
        word: u64,
    ) -> io::Result<()> {
        let length = u16::try_from(buffer.len()).map_err(io::Error::other)?;
        let address = if buffer.is_empty() { 0 } else { buffer.as_mut_ptr() as u64 };
        let bytes = Control::bytes(id, address, length, word);
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command.number());
        let entry = entry.cmd(bytes).build();
        // SAFETY: the buffer is borrowed until the completion is taken below, and the driver keeps to its
        // length.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        let result = loop {
            if let Some(done) = self.ring.completion().next() {
                break done.result();
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The command may be under way, and the buffer must stay until it is done.
                Err(error) => tracing::error!(%error, "io_uring does not accept a ublk command"),
            }
        };
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}
