//! Check of an export that is offered beside others.

use super::error::ServerError;
use crate::protocol::{ExportInfo, STRING_BYTES_MAX};

/// Refuses an export that clients cannot name, or that shares the name of another.
pub(super) fn check_name<'a>(
    info: &ExportInfo,
    mut others: impl Iterator<Item = &'a ExportInfo>,
) -> Result<(), ServerError> {
    let failed = |reason| Err(ServerError::Export { name: info.name.clone(), reason });
    if info.name.len() > STRING_BYTES_MAX || info.description.len() > STRING_BYTES_MAX {
        return failed("name or description is longer than 4096 bytes");
    }
    if info.name.contains('\0') {
        return failed("the name has a NUL character");
    }
    if others.any(|other| other.name == info.name) {
        return failed("there are two exports of this name");
    }
    if info.block_sizes.minimum_bytes.checked_next_power_of_two()
        != Some(info.block_sizes.minimum_bytes)
    {
        return failed("the minimum block size is not a power of two");
    }
    Ok(())
}
