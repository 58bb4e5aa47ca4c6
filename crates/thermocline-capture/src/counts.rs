//! Counts of a conversion: everything that is left out is counted.

use serde::Serialize;

/// Counts of a recording's contents besides the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CaptureCounts {
    /// Lines or records.
    pub lines: u64,
    /// Lines or records that were not understood.
    pub unknown: u64,
    /// Calls cut in two by others.
    pub unfinished: u64,
    /// Second halves of calls that began before the recording.
    pub resumed_without_start: u64,
    /// First halves whose second never came.
    pub never_resumed: u64,
    /// Calls that failed.
    pub failed_calls: u64,
    /// Calls about something else.
    pub other_calls: u64,
    /// Calls that read or wrote something.
    pub io_calls: u64,
    /// Those to sockets, pipes, devices, `/proc`, memory files.
    pub not_a_file: u64,
    /// Those to a descriptor of which nothing is known.
    pub unknown_descriptor: u64,
    /// Reads at the end of a file among them.
    pub end_of_file: u64,
    /// Those interrupted before any byte moved.
    pub no_result: u64,
    /// Reads among them that returned less than was requested.
    pub short_reads: u64,
    /// Files opened.
    pub opens: u64,
    /// Files renamed.
    pub renames: u64,
    /// Further names given to files.
    pub links: u64,
    /// Names removed.
    pub unlinks: u64,
    /// Sizes set.
    pub truncates: u64,
    /// Space reserved.
    pub allocations: u64,
    /// Requests to make data durable.
    pub syncs: u64,
    /// Processes and threads begun.
    pub tasks: u64,
    /// Programs started.
    pub execs: u64,
    /// Files known only by the name that `-y` gives.
    pub adopted: u64,
    /// Descriptors that turned out to be another file than the one that was opened.
    pub rebound: u64,
    /// First requests at a file position that the recording does not tell, taken for 0.
    pub position_assumed: u64,
    /// Appends to a file whose size the recording does not tell.
    pub append_assumed: u64,
    /// Files mapped into memory, whose accesses leave no line.
    pub mmaps: u64,
    /// The lengths of these mappings.
    pub mmap_bytes: u64,
    /// Announcements of accesses.
    pub advises: u64,
    /// Calls of `io_uring`, whose requests leave no line.
    pub io_uring_calls: u64,
    /// Calls of libaio, whose requests leave no line.
    pub libaio_calls: u64,
    /// Requests that the recorder itself says it lost.
    pub lost: u64,
    /// Requests that stand behind later ones.
    pub out_of_order: u64,
    /// Requests to files that were not wanted.
    pub filtered_requests: u64,
}

/// A line or record that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLine {
    /// Its number, from 1.
    pub number: u64,
    /// Fault.
    pub reason: String,
    /// Its beginning.
    pub text: String,
}

impl std::fmt::Display for UnknownLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}: {}", self.number, self.reason, self.text)
    }
}
