//! Replies, as the server writes them.

use super::super::wire::{Put as _, length_u32};
use super::{Negotiated, Refusal};
use crate::protocol::{
    CHUNK_HEADER_BYTES, Command, Context, ErrorCode, Extent, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, chunk, cooperation,
};
use crate::service::Pushed;

/// The most bytes that stand before the payload of a read's reply.
pub const READ_HEADER_BYTES_MAX: usize = CHUNK_HEADER_BYTES + 8;

/// Begins the reply to a read that succeeded: exactly `length_bytes` of data must be appended next.
/// A structured reply is one content chunk, or none for a read of nothing.
pub fn read(
    output: &mut Vec<u8>,
    negotiated: &Negotiated,
    cookie: u64,
    offset_bytes: u64,
    length_bytes: u32,
) {
    if !negotiated.is_structured {
        simple(output, cookie, 0);
    } else if length_bytes == 0 {
        chunk_header(output, chunk::DONE, chunk::NONE, cookie, 0);
    } else {
        chunk_header(output, chunk::DONE, chunk::OFFSET_DATA, cookie, length_bytes + 8);
        output.put_u64(offset_bytes);
    }
}

/// Append the reply to a request that succeeded and has no payload.
pub fn done(output: &mut Vec<u8>, cookie: u64) {
    simple(output, cookie, 0);
}

/// Append the reply to a request that the server refuses; its command may be unknown.
///
/// # Panics
/// If the reason is longer than 65,535 bytes.
pub fn refused(output: &mut Vec<u8>, negotiated: &Negotiated, refusal: &Refusal) {
    let Refusal { cookie, command, error, reason } = *refusal;
    let must_be_structured = matches!(command, Some(Command::Read | Command::BlockStatus));
    if !negotiated.is_structured || (!must_be_structured && reason.is_empty()) {
        simple(output, cookie, error.to_wire());
        return;
    }
    chunk_header(output, chunk::DONE, chunk::ERROR, cookie, 6 + length_u32(reason.len()));
    output.put_u32(error.to_wire());
    output.put_u16(u16::try_from(reason.len()).expect("reasons are short"));
    output.extend_from_slice(reason.as_bytes());
}

/// Append the reply to a request that a device or the engine failed.
pub fn failed(
    output: &mut Vec<u8>,
    negotiated: &Negotiated,
    cookie: u64,
    command: Command,
    error: ErrorCode,
) {
    refused(output, negotiated, &Refusal { cookie, command: Some(command), error, reason: "" });
}

/// Append one chunk of the reply to a block status request: the extents of one context, at least one. The
/// last chunk of a request says so.
///
/// # Panics
/// If there is no extent.
pub fn block_status(
    output: &mut Vec<u8>,
    cookie: u64,
    context: Context,
    extents: &[Extent],
    is_last: bool,
) {
    assert!(!extents.is_empty(), "a block status has at least one extent");
    let flags = if is_last { chunk::DONE } else { 0 };
    let length = 4 + length_u32(8 * extents.len());
    chunk_header(output, flags, chunk::BLOCK_STATUS, cookie, length);
    output.put_u32(context.id());
    for extent in extents {
        output.put_u32(extent.length_bytes);
        output.put_u32(extent.status);
    }
}

/// Append the reply that names, by their offsets in bytes, the pages that a client has to give up.
pub fn recalls(output: &mut Vec<u8>, cookie: u64, offsets: &[u64]) {
    if offsets.is_empty() {
        return done(output, cookie);
    }
    let length = 4 + length_u32(8 * offsets.len());
    chunk_header(output, chunk::DONE, chunk::BLOCK_STATUS, cookie, length);
    output.put_u32(cooperation::CONTEXT_ID);
    for &offset in offsets {
        output.put_u64(offset);
    }
}

/// Append a part of the reply to a read or a write of a cooperating client, before the last part. It says
/// which of the pages from `offset_bytes` on the client keeps. See
/// [`Answer::to_wire`](thermocline_core::policy::multi::split::Answer::to_wire).
pub fn answers(output: &mut Vec<u8>, cookie: u64, offset_bytes: u64, answers: &[u64]) {
    let length = 4 + length_u32(8 * (answers.len() + 1));
    chunk_header(output, 0, chunk::BLOCK_STATUS, cookie, length);
    output.put_u32(cooperation::CONTEXT_ID);
    output.put_u64(offset_bytes);
    for &answer in answers {
        output.put_u64(answer);
    }
}

/// Begin the reply to a client that has given up a page and gets another one for it: exactly `length_bytes` of
/// data, that page's, must be appended next.
pub fn push(output: &mut Vec<u8>, cookie: u64, page: Pushed, length_bytes: u32) {
    let Pushed { offset_bytes, number } = page;
    chunk_header(output, 0, chunk::BLOCK_STATUS, cookie, 4 + 2 * 8);
    output.put_u32(cooperation::PUSHES_ID);
    output.put_u64(offset_bytes);
    output.put_u64(number);
    chunk_header(output, chunk::DONE, chunk::OFFSET_DATA, cookie, length_bytes + 8);
    output.put_u64(offset_bytes);
}

/// The most bytes that stand before the data of such a reply.
pub const PUSH_HEADER_BYTES: usize = 2 * CHUNK_HEADER_BYTES + 4 + 3 * 8;

/// Ends a reply of several parts that has no data.
pub fn done_in_parts(output: &mut Vec<u8>, cookie: u64) {
    chunk_header(output, chunk::DONE, chunk::NONE, cookie, 0);
}

fn simple(output: &mut Vec<u8>, cookie: u64, error: u32) {
    output.put_u32(SIMPLE_REPLY_MAGIC);
    output.put_u32(error);
    output.put_u64(cookie);
}

fn chunk_header(output: &mut Vec<u8>, flags: u16, kind: u16, cookie: u64, length: u32) {
    output.put_u32(STRUCTURED_REPLY_MAGIC);
    output.put_u16(flags);
    output.put_u16(kind);
    output.put_u64(cookie);
    output.put_u32(length);
}
