//! How far a conversion is, for whoever waits.

/// Is told how far a conversion is.
pub trait Progress {
    /// So many bytes of the recording were read, of so many if that is known.
    fn at(&mut self, bytes: u64, of_bytes: Option<u64>);
}

/// Nobody waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn at(&mut self, _bytes: u64, _of_bytes: Option<u64>) {}
}
