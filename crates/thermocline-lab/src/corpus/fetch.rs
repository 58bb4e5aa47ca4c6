//! Bringing traces to their places, and decoding them once.

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use thermocline_trace::convert::convert_unfinished;
use thermocline_trace::generate::Generator;
use thermocline_trace::{CompiledTrace, PageSize, atomic, remote};

use super::manifest::{Entry, Generated, Manifest};
use crate::compiled_cache::compiled_path;
use crate::sweep::{HashWriter, hex};
use crate::{LabError, Watch};

/// Outcome of fetching a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fetched {
    /// It was there already.
    Present,
    /// It was copied from its addresses.
    Copied,
    /// It was made by the generator.
    Generated,
}

/// Brings one trace to its place: a file that is there is checked, one that is not is copied or made.
/// It appears whole, with the right hash, or not at all.
///
/// # Errors
/// If a file has another hash, a trace has no address, this build cannot read an address, or a file
/// cannot be read or written.
pub fn fetch(manifest: &Manifest, entry: &Entry) -> Result<Fetched, LabError> {
    let path = entry.source.path.as_path();
    if path.exists() {
        let found = entry.source.sha256()?;
        return match &entry.sha256 {
            Some(stated) if *stated != found => Err(differs(path, &found, stated)),
            _ => Ok(Fetched::Present),
        };
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| LabError::file(folder, error))?;
    }
    if let Some(generate) = &entry.generate {
        make(entry, generate)?;
        return Ok(Fetched::Generated);
    }
    if entry.urls.is_empty() {
        let reason = "it is not there, and the manifest has neither `url` nor `generate` for it: put the file there, or name its folder with --root";
        return Err(LabError::file(path, reason));
    }
    copy(manifest, entry)?;
    Ok(Fetched::Copied)
}

fn differs(path: &Path, found: &str, stated: &str) -> LabError {
    let reason = format!(
        "its SHA-256 is {found}, the manifest says {stated}: remove it and fetch it again, or correct `sha256`"
    );
    LabError::file(path, reason)
}

/// Joins the pieces of a file in order, and puts it in its place if its hash is right.
fn copy(manifest: &Manifest, entry: &Entry) -> Result<(), LabError> {
    let path = entry.source.path.as_path();
    let folder = manifest.path.parent().unwrap_or(Path::new(""));
    let mut target = atomic::temporary(path)?;
    let mut hash = Sha256::new();
    for url in &entry.urls {
        let mut source = open(url, folder).map_err(|reason| {
            let place = entry.source.place.as_deref().unwrap_or("its `url`");
            LabError::file(&manifest.path, format!("{place}: {reason}"))
        })?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = source.read(&mut buffer);
            let bytes = read.map_err(|error| LabError::file(Path::new(url), error))?;
            if bytes == 0 {
                break;
            }
            hash.update(&buffer[..bytes]);
            let written = io::Write::write_all(&mut target, &buffer[..bytes]);
            written.map_err(|error| LabError::file(path, error))?;
        }
    }
    let found = hex(&hash.finalize());
    if let Some(stated) = entry.sha256.as_ref().filter(|stated| **stated != found) {
        let reason = format!(
            "what `{}` holds has the SHA-256 {found}, and `sha256` of `{}` is {stated}: correct one of them",
            entry.urls.join(", "),
            entry.name
        );
        return Err(LabError::file(&manifest.path, reason));
    }
    Ok(atomic::persist(target, path)?)
}

/// Opens what an address names. Every kind of source that can be fetched from is a case here.
fn open(url: &str, folder: &Path) -> Result<Box<dyn Read>, String> {
    let path = match url.split_once("://") {
        None => folder.join(url),
        Some(("file", path)) => PathBuf::from(path),
        Some(_) if remote::address(Path::new(url)).is_some() => {
            let opened = remote::open(url).map_err(|error| format!("`{url}`: {error}"));
            return opened.map(|(source, _)| -> Box<dyn Read> { source });
        }
        Some((scheme, _)) => {
            return Err(format!(
                "`{url}`: nothing is fetched from {scheme}://, only from file://, https://, s3://, gs:// and az://: download the file, and put it where `path` says"
            ));
        }
    };
    let file =
        File::open(&path).map_err(|error| format!("cannot open `{}`: {error}", path.display()));
    Ok(Box::new(file?))
}

/// Makes a synthetic trace, as comma-separated values.
fn make(entry: &Entry, generate: &Generated) -> Result<(), LabError> {
    let mut generator =
        Generator::new(generate.options()).map_err(|error| entry.source.bad(error))?;
    let page_size = entry.source.page_size.unwrap_or(PageSize::DEFAULT);
    let path = entry.source.path.as_path();
    let made = convert_unfinished(&mut generator, path, page_size)?;
    // A wrong one never gets the name.
    let found = sha256(made.as_file()).map_err(|error| LabError::file(path, error))?;
    if let Some(stated) = entry.sha256.as_ref().filter(|stated| **stated != found) {
        let reason = format!(
            "what `generate` makes has the SHA-256 {found}, and `sha256` is {stated}: correct `generate` or `sha256` of `{}`",
            entry.name
        );
        return Err(LabError::file(path, reason));
    }
    Ok(atomic::persist(made, path)?)
}

/// Return the hash of a file from its beginning.
fn sha256(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    let mut hash = HashWriter(Sha256::new());
    io::copy(&mut file, &mut hash)?;
    Ok(hex(&hash.0.finalize()))
}

/// Compiles a trace into a folder, unless it is there; returns whether it was compiled now. One that is
/// there is checked, and compiled again if it is damaged.
///
/// # Errors
/// If the trace has no hash in the manifest or another one, or cannot be read or written.
pub fn compile(entry: &Entry, folder: &Path, watch: &Watch) -> Result<bool, LabError> {
    let sha256 = required_sha256(entry)?;
    let path = compiled_path(folder, &entry.source, sha256);
    if CompiledTrace::is_saved(&path)
        && CompiledTrace::open(&path).is_ok_and(|trace| trace.verify().is_ok())
    {
        return Ok(false);
    }
    std::fs::create_dir_all(folder).map_err(|error| LabError::file(folder, error))?;
    entry.source.open_verified(sha256, watch, 1)?.save_mapped(&path)?;
    Ok(true)
}

/// Return the hash that the manifest must have.
pub(super) fn required_sha256(entry: &Entry) -> Result<&str, LabError> {
    entry.sha256.as_deref().ok_or_else(|| LabError::BadTrace {
        place: entry.source.place.clone().unwrap_or_default(),
        reason: format!(
            "`{}` has no sha256, on which its results depend: `corpus check --write` adds it",
            entry.name
        ),
    })
}
