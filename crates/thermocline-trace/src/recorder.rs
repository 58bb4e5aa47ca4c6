//! Writing a trace while it happens: our CSV, in zstd frames that each end with a line.
//!
//! A frame is written at once and read alone, so what was written can be read however the writer ends.
//! A file that is cut within a frame is a truncated one: it can be read as far as it goes.

use std::io::{self, Write};

use thermocline_core::{Nanos, Op};

use crate::convert::{Placed, csv_line};
use crate::format::csv::{GAP, HEADER};
use crate::request::{Extent, Request};

/// Text is compressed and written when there is so much of it.
const FRAME_BYTES: usize = 256 << 10;

/// zstd's own default is 3; this one is several times as fast, and its files are a tenth larger.
const COMPRESSION_LEVEL: i32 = 1;

/// Writes requests to one volume as they come.
///
/// ```
/// use thermocline_core::{Nanos, Op};
/// use thermocline_trace::{ReadOptions, Reader, Recorder, Requests};
///
/// let mut recorder = Recorder::new(vec![], "disk", &["made by hand"])?;
/// recorder.request(Nanos(1_500), Op::Read, 8192, 4096)?;
/// recorder.gap(3)?;
/// let (file, _) = recorder.finish()?;
/// let mut reader = Reader::from_read("t", std::io::Cursor::new(file), &ReadOptions::default())?;
/// while reader.read_batch(&mut vec![])? {}
/// assert_eq!((reader.counts().requests, reader.counts().missing_accesses), (1, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recorder<W> {
    target: W,
    volume: String,
    /// The lines of the next frame.
    lines: Vec<u8>,
    written_bytes: u64,
}

impl<W: Write> Recorder<W> {
    /// Begins a trace of requests to the volume of this name, with some comments ahead.
    ///
    /// # Errors
    /// If it cannot be written, or a name or a comment cannot stand on a line of CSV.
    pub fn new(target: W, volume: &str, comments: &[&str]) -> io::Result<Self> {
        let volume = volume.to_owned();
        let mut recorder = Self { target, volume, lines: vec![], written_bytes: 0 };
        for comment in comments {
            recorder.comment(comment)?;
        }
        recorder.lines.extend_from_slice(HEADER);
        recorder.lines.push(b'\n');
        recorder.end_frame()?;
        Ok(recorder)
    }

    /// Records a request to a range of bytes.
    ///
    /// # Errors
    /// If it cannot be written, or the volume's name cannot stand on a line of CSV.
    pub fn request(&mut self, at: Nanos, op: Op, offset: u64, length: u64) -> io::Result<()> {
        let extent = Extent::Bytes { offset, length };
        let request = Request { at, op, volume: 0, extent };
        let placed = Placed { request: &request, volume_name: &self.volume, offset, length };
        csv_line(&placed, &mut self.lines).map_err(io::Error::other)?;
        self.drain()
    }

    /// Record that `accesses` page accesses are missing here.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn gap(&mut self, accesses: u64) -> io::Result<()> {
        let [before, behind] = GAP;
        writeln!(self.lines, "{before}{accesses}{behind}")?;
        self.drain()
    }

    /// Adds a line for those who look into the file.
    ///
    /// # Errors
    /// If it cannot be written, or is more than a line.
    pub fn comment(&mut self, text: &str) -> io::Result<()> {
        if text.contains(['\n', '\r']) {
            return Err(io::Error::other(format!("the comment {text:?} is more than a line")));
        }
        writeln!(self.lines, "# {text}")?;
        self.drain()
    }

    /// Return `true` if anything waits for the end of its frame.
    pub const fn is_frame_open(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Compresses and writes what waits, so that it can be read.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end_frame(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let frame = zstd::bulk::compress(&self.lines, COMPRESSION_LEVEL)?;
        self.lines.clear();
        self.target.write_all(&frame)?;
        self.written_bytes += frame.len() as u64;
        Ok(())
    }

    /// Return the number of bytes written so far, compressed.
    pub const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Writes what waits, and gives the target back with the number of bytes written to it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.end_frame()?;
        Ok((self.target, self.written_bytes))
    }

    fn drain(&mut self) -> io::Result<()> {
        if self.lines.len() >= FRAME_BYTES { self.end_frame() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::error::TraceError;
    use crate::{ReadOptions, Reader, Requests as _};

    /// Return a recording of three frames, and how many requests are in it at the end of each.
    fn recording() -> (Vec<u8>, Vec<(usize, usize)>) {
        let mut recorder = Recorder::new(vec![], "disk", &["by hand"]).unwrap();
        let mut ends = vec![];
        for frame in 0..3 {
            for number in 0..500_u64 {
                let op = if number % 3 == 0 { Op::Write } else { Op::Read };
                let offset = number.wrapping_mul(0x9E37_79B9) % 100_000 * 4096;
                recorder.request(Nanos(frame * 500 + number), op, offset, 4096).unwrap();
            }
            recorder.end_frame().unwrap();
            let end = usize::try_from(recorder.written_bytes()).unwrap();
            ends.push((end, ends.len() * 500 + 500));
        }
        (recorder.finish().unwrap().0, ends)
    }

    fn read(bytes: &[u8], allow_truncated: bool) -> Result<Vec<Request>, TraceError> {
        let options = ReadOptions { allow_truncated, ..ReadOptions::default() };
        let mut reader = Reader::from_read("t", Cursor::new(bytes.to_vec()), &options)?;
        let (mut all, mut batch) = (vec![], vec![]);
        while reader.read_batch(&mut batch)? {
            all.append(&mut batch);
        }
        assert_eq!(reader.volume_names(), ["disk"]);
        Ok(all)
    }

    #[test]
    fn what_ends_with_a_frame_is_whole_and_what_does_not_is_truncated() {
        let (bytes, ends) = recording();
        let all = read(&bytes, false).unwrap();
        assert_eq!(all.len(), 1500);
        for cut in (ends[0].0..bytes.len()).step_by(61).chain(ends.iter().map(|end| end.0)) {
            let (end, requests) = *ends.iter().rfind(|end| end.0 <= cut).unwrap();
            let whole = read(&bytes[..cut], false);
            assert_eq!(whole.is_ok(), end == cut, "{cut}");
            let head = whole.or_else(|_| read(&bytes[..cut], true)).unwrap();
            assert!(head.len() >= requests && all.starts_with(&head), "{cut}");
        }
    }

    #[test]
    fn text_is_written_when_there_is_enough_of_it() {
        let mut recorder = Recorder::new(vec![], "disk", &[]).unwrap();
        let before = recorder.written_bytes();
        assert!(!recorder.is_frame_open());
        for number in 0..20_000 {
            recorder.request(Nanos(number), Op::Read, number * 4096, 4096).unwrap();
        }
        assert!(recorder.written_bytes() > before && recorder.is_frame_open());
        assert!(recorder.lines.len() < FRAME_BYTES);
    }

    #[test]
    fn what_is_no_line_is_refused() {
        let error = Recorder::new(vec![], "disk", &["a\nb"]).unwrap_err().to_string();
        assert!(error.contains("more than a line"), "{error}");
        let mut recorder = Recorder::new(vec![], "a,b", &[]).unwrap();
        let error = recorder.request(Nanos(0), Op::Read, 0, 512).unwrap_err().to_string();
        assert!(error.contains("volume name"), "{error}");
    }
}
