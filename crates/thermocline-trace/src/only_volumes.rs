//! The requests of a trace to some of its volumes.

use std::path::Path;

use crate::error::TraceError;
use crate::request::{Request, Requests};

/// Requests of a source to volumes of these names; all requests if there are no names.
#[derive(Debug)]
pub struct OnlyVolumes<R> {
    source: R,
    names: Vec<String>,
    /// Per volume of the source: whether its requests are taken.
    is_wanted: Vec<bool>,
}

impl<R: Requests> OnlyVolumes<R> {
    /// Takes the requests to these volumes.
    pub const fn new(source: R, names: Vec<String>) -> Self {
        Self { source, names, is_wanted: vec![] }
    }

    fn check_names(&self) -> Result<(), TraceError> {
        let known = self.source.volume_names();
        let Some(absent) = self.names.iter().find(|name| !known.contains(name)) else {
            return Ok(());
        };
        let reason = format!("no request to volume `{absent}`; its volumes: {}", known.join(", "));
        Err(TraceError::Content { path: self.source.path().to_owned(), reason })
    }
}

impl<R: Requests> Requests for OnlyVolumes<R> {
    fn read_batch(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        while self.source.read_batch(batch)? {
            if self.names.is_empty() {
                return Ok(true);
            }
            let known = self.source.volume_names();
            for name in known.get(self.is_wanted.len()..).unwrap_or_default() {
                self.is_wanted.push(self.names.contains(name));
            }
            batch.retain(|request| self.is_wanted[request.volume as usize]);
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        self.check_names()?;
        Ok(false)
    }

    fn volume_names(&self) -> &[String] {
        self.source.volume_names()
    }

    fn path(&self) -> &Path {
        self.source.path()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::{CompiledTrace, PageSize, ReadOptions, Reader};

    fn compiled(names: &[&str]) -> Result<CompiledTrace, TraceError> {
        let lines = "0,0,512,r,1\n1,8,512,w,2\n0,16,512,w,3\n2,0,512,r,4\n";
        let reader = Reader::from_read("t", Cursor::new(lines), &ReadOptions::default()).unwrap();
        let names = names.iter().map(|&name| name.to_owned()).collect();
        CompiledTrace::compile(&mut OnlyVolumes::new(reader, names), PageSize::DEFAULT)
    }

    #[test]
    fn requests_to_other_volumes_are_left_out() {
        let counts = |names: &[&str]| {
            let trace = compiled(names).unwrap();
            (trace.len(), trace.writes())
        };
        assert_eq!(counts(&[]), (4, 2));
        assert_eq!(counts(&["0"]), (2, 1));
        assert_eq!(counts(&["1", "2"]), (2, 1));
    }

    #[test]
    fn a_volume_that_is_not_there_is_an_error() {
        let error = compiled(&["0", "7"]).unwrap_err().to_string();
        assert_eq!(error, "t: no request to volume `7`; its volumes: 0, 1, 2");
    }
}
