//! Errors of drives, each with a description of valid values.

/// Reason why a drive or a request was refused, or the drive came to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SsdError {
    /// No preset has this name.
    #[error("unknown SSD `{name}`; {known}")]
    UnknownPreset {
        /// The name asked for.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// A TOML text does not describe a drive.
    #[error("the SSD file is invalid: {reason}")]
    BadFile {
        /// Fault, with line and column.
        reason: String,
    },
    /// A setting is out of its range.
    #[error("`{name}` of the SSD is {value}; allowed: {permitted}")]
    BadSetting {
        /// The field of [`SsdConfig`](super::SsdConfig).
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        permitted: String,
    },
    /// A request is for no page.
    #[error("a request is for at least 1 page; that for page {page} is for none")]
    EmptyRequest {
        /// Its first page.
        page: u64,
    },
    /// A request goes beyond the end of the drive.
    #[error("{pages} pages from page {page} on go beyond the SSD; allowed: pages 0 to {last_page}")]
    BeyondDrive {
        /// The first page.
        page: u64,
        /// Number of pages.
        pages: u32,
        /// The last page of the drive.
        last_page: u64,
    },
    /// A request arrives before the time to which the drive was advanced, or too late to count.
    #[error("a request at {at_ns} ns does not suit; allowed: {least_ns} ns to {most_ns} ns")]
    BadTime {
        /// Arrival time, in nanoseconds.
        at_ns: u64,
        /// The time to which the drive was advanced.
        least_ns: u64,
        /// The latest arrival that leaves room to serve it.
        most_ns: u64,
    },
    /// The number of retired blocks is so high that a page cannot be written; everything written
    /// can be read.
    #[error("worn out after {erases} erases / {host_writes} host pages written")]
    WornOut {
        /// Erases of all blocks since the drive was made.
        erases: u64,
        /// Pages that the host wrote since the drive was made.
        host_writes: u64,
    },
}

/// Error that no plane takes the page; a caller that knows the figures makes it a
/// [`SsdError::WornOut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;
