//! Errors of disks, each with a description of valid values.

/// Reason why a disk or a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HddError {
    /// No preset has this name.
    #[error("unknown disk `{name}`; {known}")]
    UnknownPreset {
        /// The name asked for.
        name: String,
        /// The names that exist, separated by commas.
        known: String,
    },
    /// A TOML text does not describe a disk.
    #[error("the disk file is invalid: {reason}")]
    BadFile {
        /// Fault, with line and column.
        reason: String,
    },
    /// A setting is out of its range.
    #[error("`{name}` of the disk is {value}; allowed: {permitted}")]
    BadSetting {
        /// The field of [`HddConfig`](super::HddConfig).
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it may have.
        permitted: String,
    },
    /// Pages do not consist of whole sectors, or the disk does not hold one.
    #[error(
        "pages of {page_size_bytes} bytes do not suit the disk; allowed: multiples of \
         {sector_bytes} up to {capacity_bytes}"
    )]
    BadPageSize {
        /// The page size asked for.
        page_size_bytes: u64,
        /// The disk's sector.
        sector_bytes: u32,
        /// The disk's capacity.
        capacity_bytes: u64,
    },
    /// A request is for no page.
    #[error("a request is for at least 1 page; that for page {page} is for none")]
    EmptyRequest {
        /// Its first page.
        page: u64,
    },
    /// A request goes beyond the end of the disk.
    #[error("{pages} pages from page {page} on go beyond the disk, which has {capacity_pages}")]
    BeyondDisk {
        /// The first page.
        page: u64,
        /// Number of pages.
        pages: u32,
        /// The pages of the disk, numbered from 0.
        capacity_pages: u64,
    },
    /// A request arrives before the time to which the disk was advanced, or too late to count.
    #[error("a request at {at_ns} ns does not suit; allowed: {least_ns} ns to {most_ns} ns")]
    BadTime {
        /// Arrival time, in nanoseconds.
        at_ns: u64,
        /// The time to which the disk was advanced.
        least_ns: u64,
        /// The latest arrival that leaves room to serve it.
        most_ns: u64,
    },
}
