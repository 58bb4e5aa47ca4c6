//! Progress of a conversion.

/// Receiver of a conversion's progress.
pub trait Progress {
    /// Report that `bytes` of the recording were read, of `of_bytes` if that is known.
    fn at(&mut self, bytes: u64, of_bytes: Option<u64>);
}

/// Receiver that ignores the progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn at(&mut self, _bytes: u64, _of_bytes: Option<u64>) {}
}
