//! A file that is dropped on the page: it goes to a temporary file without a name, of which nothing is
//! left when the process ends, however it ends.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::problem::Problem;
use crate::output;

/// Pieces that wait to be written.
const PIECES: usize = 16;
/// Number of bytes beyond the limit that are read and discarded, so that the client reads the
/// answer.
const FORGOTTEN_BYTES: u64 = 64 << 20;

/// Writes a body to a file, and returns it from its beginning.
///
/// # Errors
/// If there are more bytes than the limit, the disk is full, or the client breaks off.
pub(super) async fn receive(body: Body, limit_bytes: u64) -> Result<File, Problem> {
    let file = tempfile::tempfile().map_err(|error| unwritten(&error))?;
    let (send, pieces) = mpsc::channel(PIECES);
    let writer = spawn_blocking(move || write(file, pieces));
    let mut body = body.into_data_stream();
    let mut bytes = 0;
    while let Some(piece) = body.next().await {
        let piece: Bytes = piece.map_err(|error| {
            Problem::bad(format!("the file was not sent to its end ({error}): send it again"))
        })?;
        bytes += piece.len() as u64;
        if bytes > limit_bytes.saturating_add(FORGOTTEN_BYTES) {
            break;
        }
        // A writer that has failed takes no more, and says why.
        if bytes <= limit_bytes && send.send(piece).await.is_err() {
            break;
        }
    }
    drop(send);
    let file = writer.await.map_err(|error| unwritten(&io::Error::other(error)))?;
    if bytes > limit_bytes {
        return Err(too_large(limit_bytes));
    }
    file.map_err(|error| unwritten(&error))
}

/// Refuses a file of more bytes than the limit.
pub(super) fn too_large(limit_bytes: u64) -> Problem {
    let sentence = format!(
        "the file has more than {}: give its path on this machine instead, or start with a greater --drop-limit",
        output::bytes(limit_bytes)
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, sentence)
}

fn write(mut file: File, mut pieces: mpsc::Receiver<Bytes>) -> io::Result<File> {
    while let Some(piece) = pieces.blocking_recv() {
        file.write_all(&piece)?;
    }
    file.rewind()?;
    Ok(file)
}

fn unwritten(error: &io::Error) -> Problem {
    let place = std::env::temp_dir();
    let sentence = format!(
        "the file could not be kept in {}: {error}; give its path on this machine instead, or set TMPDIR to a folder with more room",
        place.display()
    );
    Problem::new(StatusCode::INSUFFICIENT_STORAGE, sentence)
}
